//! A request and its response, wherever they are: a connection of HTTP/1.1 has one at a time, one of HTTP/2 has one on each stream.

use http::OwnedRequest;
use sched::JobId;

use super::Worker;
use super::conn::Conn;
use super::line::Line;
use super::owner::slot_of;
use crate::files::Key;

#[derive(Default)]
pub struct Exchange {
    pub task: Task,
    /// Of the response being sent.
    pub class: u16,
    /// For the access log, while a response is found and sent.
    pub line: Option<Box<Line>>,
}

/// What a response waits for.
#[derive(Default)]
pub enum Task {
    #[default]
    None,
    /// What was asked for is being found by somebody who may wait for its disk.
    Finding(Box<Finding>),
    /// It is being sent.
    Sending(JobId),
    /// No request can have come: a flight of the handshake is being sent.
    Flight(JobId),
}

/// A request that waits for a find.
pub struct Finding {
    pub request: Box<OwnedRequest>,
    pub key: Key,
}

/// Where an exchange is: the slot of its connection, and the number of its stream where that has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub at: usize,
    pub stream: Option<u32>,
}

impl From<usize> for Place {
    fn from(at: usize) -> Place {
        Place { at, stream: None }
    }
}

impl Exchange {
    pub fn is_sending(&self) -> bool {
        self.job().is_some()
    }

    /// What is being sent.
    pub fn job(&self) -> Option<JobId> {
        match self.task {
            Task::Sending(job) | Task::Flight(job) => Some(job),
            Task::None | Task::Finding(_) => None,
        }
    }
}

impl Conn {
    /// The one on this stream, or the connection's own.
    pub fn exchange_on(&mut self, stream: Option<u32>) -> &mut Exchange {
        match stream {
            None => &mut self.exchange,
            Some(number) => {
                &mut self
                    .multiplexed
                    .as_mut()
                    .and_then(|multiplexed| multiplexed.stream(number))
                    .expect("its stream is open")
                    .exchange
            }
        }
    }

    /// All that are under way or could be.
    pub fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        let streams = self.multiplexed.iter().flat_map(|multiplexed| &multiplexed.streams);
        std::iter::once(&self.exchange).chain(streams.map(|stream| &stream.exchange))
    }
}

impl Worker {
    pub(super) fn exchange(&mut self, place: Place) -> &mut Exchange {
        self.conns[place.at].exchange_on(place.stream)
    }

    /// The exchange whose find this is, if it is still there.
    pub(super) fn find_place(&self, owner: u64) -> Option<Place> {
        let at = slot_of(owner);
        let conn = self.conns.get(at)?;
        if conn.owner == owner {
            return Some(at.into());
        }
        let stream = conn.multiplexed.as_ref()?.streams.iter().find(|stream| stream.owner == owner)?;
        Some(Place { at, stream: Some(stream.number) })
    }

    /// Its name among finds.
    pub(super) fn owner_of(&mut self, place: Place) -> u64 {
        let conn = &mut self.conns[place.at];
        match place.stream {
            None => conn.owner,
            Some(number) => {
                conn.multiplexed
                    .as_mut()
                    .and_then(|multiplexed| multiplexed.stream(number))
                    .expect("its stream is open")
                    .owner
            }
        }
    }
}
