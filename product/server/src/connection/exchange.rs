//! A request and its response, wherever they are: a connection of HTTP/1.1 has one at a time, one of HTTP/2 or HTTP/3 has one on each stream.

use http::{OwnedRequest, Request, Response};
use sched::JobId;
use sched::grow::reserve_one;
use units::Nanos;
use units::memory::{Account, Charge};

use super::{Line, Receiving};
use crate::clock::later;
use crate::files::Key;
use crate::limits::Limits;

/// How long a closing connection waits for a silent client; a lost acknowledgement is retransmitted within this time.
pub const CLOSING_PERIOD: Nanos = Nanos::from_secs(2);

/// Idle connections keep room for so many.
const STREAMS_KEPT: usize = 4;

pub struct Exchange {
    /// Of its stream, 0 where there is none.
    pub number: u32,
    /// Its name among lookups.
    pub owner: u64,
    pub task: Task,
    /// Of the response being sent.
    pub class: u16,
    /// False on a stream for HEAD: no body follows the head.
    pub has_body: bool,
    /// For the access log and the objectives, while a response is found and sent.
    pub line: Option<Box<Line>>,
}

/// What a response waits for.
#[derive(Default)]
pub enum Task {
    #[default]
    None,
    /// What was asked for is being found by somebody who may wait for its disk.
    LookingUp(Box<PendingLookup>),
    /// An upstream makes it.
    PassedOn(Box<KeptRequest>),
    /// The body of its request is coming, and its length is the reply.
    Receiving(Box<Receiving>),
    /// It is being sent.
    Sending(JobId),
}

/// A request that is kept until it is answered.
pub struct KeptRequest {
    request: OwnedRequest,
    _charge: Charge,
}

impl KeptRequest {
    /// A copy, whose memory is counted in this account.
    pub fn new(request: &Request, account: &Account) -> KeptRequest {
        let request = OwnedRequest::from(request);
        KeptRequest { _charge: Charge::new(account, request.memory_bytes()), request }
    }

    pub fn view(&self) -> Request<'_> {
        self.request.view()
    }

    /// Bytes of memory of its fields.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.request.memory_bytes()
    }
}

/// A request that waits for a lookup.
pub struct PendingLookup {
    pub request: Box<KeptRequest>,
    pub key: Key,
    /// The response of an upstream that names it.
    pub said: Option<Response<()>>,
}

/// Those of a client that speaks HTTP/2 or HTTP/3.
pub struct Streams {
    /// Those that are open, at most [`mux::STREAMS_MAX`], by number.
    open: Vec<Exchange>,
    /// Nothing is expected before this instant.
    pub deadline: Nanos,
    /// The connection ends when its last stream has.
    pub is_leaving: bool,
    /// Of one that ends, whose client has not taken or acknowledged everything: it ends then at the latest.
    pub ends_at: Option<Nanos>,
    /// What its client had acknowledged when that was decided on, over HTTP/3.
    acked_bytes: u64,
}

/// Where an exchange is: the slot of its connection, and the number of its stream, 0 where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeId {
    pub at: usize,
    pub stream: u32,
}

impl From<usize> for ExchangeId {
    fn from(at: usize) -> ExchangeId {
        ExchangeId { at, stream: 0 }
    }
}

impl Exchange {
    pub fn new(number: u32, owner: u64) -> Exchange {
        Exchange { number, owner, task: Task::None, class: 0, has_body: true, line: None }
    }

    /// Its request waits for the lookup of this key, as may the response of an upstream that names the file.
    pub fn wait_for(&mut self, key: Key, request: Box<KeptRequest>, said: Option<Response<()>>) {
        self.task = Task::LookingUp(Box::new(PendingLookup { request, key, said }));
    }

    pub fn is_sending(&self) -> bool {
        matches!(self.task, Task::Sending(_))
    }

    /// Moves the deadline of a request body by the length of a pause.
    pub fn excuse(&mut self, paused: Nanos) {
        if let Task::Receiving(receiving) = &mut self.task {
            receiving.excuse(paused);
        }
    }

    /// A line of the access log will tell of it.
    pub fn is_logged(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.log.is_some())
    }

    /// What log and objectives have to know of the response that was made of it.
    pub fn note_encoded(&mut self, status: http::Status, head_bytes: usize, body_bytes: u64) {
        if let Some(line) = &mut self.line {
            (line.status, line.head_bytes, line.body_bytes) = (status.0, head_bytes as u32, body_bytes);
        }
    }
}

impl Streams {
    /// Creates a table without streams.
    pub fn new(deadline: Nanos) -> Streams {
        Streams { open: Vec::new(), deadline, is_leaving: false, ends_at: None, acked_bytes: 0 }
    }

    /// The open streams, by number.
    pub fn open(&self) -> &[Exchange] {
        &self.open
    }

    pub fn open_mut(&mut self) -> &mut [Exchange] {
        &mut self.open
    }

    pub fn on(&mut self, stream: u32) -> Option<&mut Exchange> {
        let place = self.place_of(stream)?;
        self.open.get_mut(place)
    }

    /// Moves the deadline by the length of a pause, in which no client was heard.
    pub fn excuse(&mut self, paused: Nanos) {
        self.deadline = later(self.deadline, paused);
    }

    fn place_of(&self, number: u32) -> Option<usize> {
        self.open.binary_search_by_key(&number, |exchange| exchange.number).ok()
    }

    /// Nothing is asked of us.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// As many as there is memory for.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.open.capacity()
    }

    /// Whether a connection that ends waits for its client, which has acknowledged so much by now and not all: for a period, and as long
    /// again while it takes what it was sent, at this rate at least. To a slower one it is over.
    pub fn waits_for(&mut self, now: Nanos, acked_bytes: u64, bytes_per_s_min: u64) -> bool {
        let period_bytes = (bytes_per_s_min * CLOSING_PERIOD.0 / 1_000_000_000).max(1);
        match self.ends_at {
            Some(ends_at) if now < ends_at => return true,
            Some(_) if acked_bytes.saturating_sub(self.acked_bytes) < period_bytes => return false,
            _ => {}
        }
        (self.ends_at, self.acked_bytes) = (Some(now + CLOSING_PERIOD), acked_bytes);
        true
    }

    pub fn begin(&mut self, number: u32, owner: u64) {
        // Datagrams may overtake each other, and requests with them.
        let at = self.open.partition_point(|exchange| exchange.number < number);
        reserve_one(&mut self.open);
        self.open.insert(at, Exchange::new(number, owner));
        self.deadline = Nanos::MAX;
    }

    pub fn end(&mut self, number: u32, now: Nanos, limits: &Limits) {
        if let Some(at) = self.place_of(number) {
            self.open.remove(at);
        }
        if self.open.is_empty() {
            self.deadline = now + limits.idle_timeout;
            if self.open.capacity() > STREAMS_KEPT {
                self.open = Vec::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two seconds were all that it had: a client behind a slow link lost the last bytes of its response when the server stopped.
    #[test]
    fn a_client_that_goes_on_taking_what_it_was_sent_is_waited_for() {
        let mut streams = Streams::new(Nanos::ZERO);
        let mut waits = |seconds, acked_bytes| streams.waits_for(Nanos::from_secs(seconds), acked_bytes, 500);
        assert!(waits(10, 100_000), "it has a period");
        assert!(waits(11, 100_900) && waits(12, 101_000), "it takes 500 bytes in a second");
        assert!(waits(13, 101_000), "it has time until 14 s");
        assert!(waits(14, 102_000) && !waits(16, 102_999), "and then was slower");
    }

    /// A request of HTTP/3 that was lost comes behind later ones. It ended the worker.
    #[test]
    fn streams_are_found_in_whatever_order_they_began() {
        let mut streams = Streams::new(Nanos::ZERO);
        [5, 1, 9, 3, 7].into_iter().for_each(|number| streams.begin(number, number.into()));
        for number in [1, 3, 5, 7, 9] {
            assert_eq!(streams.on(number).map(|exchange| exchange.owner), Some(number.into()));
        }
        [5, 5].into_iter().for_each(|number| streams.end(number, Nanos::ZERO, &Limits::default()));
        assert_eq!(streams.count(), 4);
        assert!(streams.on(5).is_none() && streams.on(9).is_some() && streams.on(4).is_none());
    }
}
