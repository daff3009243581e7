//! The response write path: what is sent is what the scheduler grants.
//!
//! A [`Transmitter`] holds the responses that are being sent and asks its [`sched::Scheduler`] for grants. With shaping
//! `off` every worker has one without a rate, which then only orders what is ready in the same turn; with `paced` there is one
//! worker and so one order; with `bands` packets are marked ([`Marker`]), and the kernel orders them.
//! It is generic over the socket and takes the time as an argument: tests run it under simulated time.

mod below;
mod body;
mod connection;
mod connections;
mod dispatch;
mod engine;
mod flow;
mod framed;
mod gauge;
mod http3;
mod limit;
mod line_feedback;
mod link;
mod mark;
mod notice;
mod outgoing;
mod pipe;
mod producing;
mod reader;
mod reads;
mod secure;
mod sending;
mod sendings;
mod shrink;
mod socket;
#[cfg(test)]
mod tests;
mod unacknowledged;
mod write;

pub use body::{Available, Body, Piece};
#[cfg(test)]
pub use connection::BYTES as CONNECTION_BYTES;
pub use dispatch::{Direct, Dispatch, Opening};
pub use engine::Engine;
pub use flow::Flow;
pub use gauge::{Gauge, Queue, Queued};
pub use limit::ClientRate;
use limit::Limit;
pub use line_feedback::{Line, is_fast};
pub use link::Link;
pub use mark::{Bands, Marker};
pub use notice::{Notice, in_words, mbit};
pub use outgoing::{End, Failure, Outgoing, Sent};
pub use pipe::{PIPE_BYTES_MAX, Pipe};
pub use producing::Producer;
pub use secure::Down;
pub use socket::{Shared, has_room};
pub use socket::{Sink, Socket, Status, Stream, TcpSocket, Transport};

pub use write::Room;

use std::collections::VecDeque;

use connection::Load;
use connections::OpenConnections;
use line_feedback::Observer;
use reads::Reads;
use sched::classes::ClassSpec;
use sched::line::Bounds;
use sched::{JobId, Scheduler};
use sending::Sending;
use sendings::Sendings;
use units::Nanos;

use crate::storage::Storage;

/// How long a turn may take before events are looked at again; one system call more where a disk is slow.
pub const TURN_FOR: Nanos = Nanos::from_millis(5);
/// Grants made in one turn before events are looked at again: 64 segments take 77 ms at 10 Mbit/s and 0.8 ms at 1 Gbit/s,
/// so pacing ends a turn long before this does; without a rate it bounds the turn to 128 MiB.
pub const GRANTS_PER_TURN_MAX: usize = 64;

/// How slow a reader may be, so that nobody holds a connection and a response for ever.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// A reader that we wait for has to take this many bytes per second on average over a window.
    pub rate_bytes_per_s_min: u64,
    /// The window; long enough to ride out a few retransmission timeouts.
    pub window: Nanos,
}

/// The end of a response.
#[derive(Debug)]
pub struct Departure {
    /// Who dispatched it.
    pub owner: u64,
    pub job: JobId,
    /// The number of its stream, where its connection has several.
    pub stream: u32,
    pub sent_bytes: u64,
    /// Of those, what [`Transmitter::untold_bytes`] has not told.
    pub untold_bytes: u64,
    /// `None` when every byte was handed to the kernel.
    pub failure: Option<Failure>,
    /// When the kernel took the first byte that was sent from here, and when the response ended: the instants of the grants.
    pub first_byte_at: Option<Nanos>,
    pub ended_at: Nanos,
}

pub struct Transmitter<S: Socket> {
    link: Link,
    marker: Option<Marker>,
    patience: Patience,
    limit: Limit,
    reads: Reads,
    sendings: Sendings,
    /// All connections.
    connections: OpenConnections<S>,
    /// Connections that have something to say for themselves.
    unsaid: VecDeque<usize>,
    /// Memory for frames.
    spare: Vec<u8>,
    shared: http3::Shared,
    departures: Vec<Departure>,
}

impl<S: Socket> Transmitter<S> {
    pub fn new(scheduler: Scheduler, gauge: Option<Gauge>, patience: Patience) -> Transmitter<S> {
        Transmitter {
            link: Link::new(scheduler, gauge),
            marker: None,
            patience,
            limit: Limit::default(),
            reads: Reads::default(),
            sendings: Sendings::default(),
            connections: OpenConnections::new(),
            unsaid: VecDeque::new(),
            spare: Vec::new(),
            shared: http3::Shared::default(),
            departures: Vec::new(),
        }
    }

    /// The same, its packets marked for the kernel to order.
    pub fn with_marker(self, marker: Option<Marker>) -> Transmitter<S> {
        Transmitter { marker, ..self }
    }

    /// The same, with files from there.
    pub fn with_storage(self, storage: impl Storage + Send + 'static) -> Transmitter<S> {
        Transmitter { reads: Reads::from(storage), ..self }
    }

    pub fn storage(&mut self) -> &mut dyn Storage {
        &mut *self.reads.storage
    }

    /// The same, with an uplink whose rate is searched between these, or known from a queue.
    pub fn with_bounds(mut self, bounds: Option<Bounds>) -> Transmitter<S> {
        self.link.observer = bounds.map(Observer::new);
        self
    }

    pub fn link(&self) -> &Link {
        &self.link
    }

    pub fn scheduler(&self) -> &Scheduler {
        &self.link.scheduler
    }

    /// Nothing is being sent or read, nothing that ended is left to be told, and nothing is to be looked at yet.
    pub fn is_idle(&self, now: Nanos) -> bool {
        let is_timed = self.timer().is_some() || self.link.unacknowledged.look_at().is_some_and(|at| at <= now);
        self.link.scheduler.jobs().is_empty()
            && self.departures.is_empty()
            && self.reads.is_idle()
            && self.unsaid.is_empty()
            && !is_timed
    }

    /// From now on this index is another client's, of this weight.
    pub fn replace_classes(&mut self, now: Nanos, specs: &[ClassSpec]) {
        self.link.scheduler.replace_classes(now, specs);
    }

    pub fn on_client(&mut self, client: u32, weight: u8) {
        self.link.scheduler.on_client(client, weight);
    }

    /// Sends what is granted, until nothing is or the turn is over. Gives when to be called again: an instant that
    /// may have passed, or `None` when only an event can change anything.
    pub fn run(&mut self, clock: &impl Fn() -> Nanos) -> Option<Nanos> {
        let began_at = clock();
        self.take_reads(began_at);
        self.tell_time(began_at, clock);
        self.limit.release(&mut self.link.scheduler, began_at);
        for _ in 0..GRANTS_PER_TURN_MAX {
            let now = clock();
            if now - began_at >= TURN_FOR {
                break;
            }
            self.link.measure(now, clock, &self.connections);
            self.link.follow(now, &mut self.connections);
            let Some(grant) = self.link.scheduler.poll_grant(now) else { break };
            self.send(now, grant);
        }
        self.link.note_idle();
        // Their time is their own: grants may have used up theirs.
        let until = clock() + TURN_FOR;
        self.say_unsaid(clock, until);
        self.poll_timeout()
    }

    /// When [`Transmitter::run`] wants to be called; `None` when only an event can change anything.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.send_timeout().into_iter().chain(self.link.unacknowledged.look_at()).min()
    }

    /// The same without looks at what is acknowledged.
    fn send_timeout(&self) -> Option<Nanos> {
        let unsaid_at = (!self.unsaid.is_empty()).then_some(Nanos::ZERO);
        let times = [self.link.scheduler.poll_timeout(), self.limit.timeout(), self.timer(), unsaid_at];
        times.into_iter().flatten().min()
    }

    /// What was sent of a response since this was last asked, or since it was dispatched.
    pub fn untold_bytes(&mut self, id: JobId) -> u64 {
        self.sendings.get_mut(id).map_or(0, Sending::tell)
    }

    /// Looks after the queue below; to be called about once a second while anything is sent.
    pub fn check_queue(&mut self, now: Nanos) {
        self.link.check(now, &self.connections);
    }

    /// What an operator should know, since this was last called.
    pub fn notices(&mut self) -> std::vec::Drain<'_, Notice> {
        self.link.notices.drain(..)
    }

    /// Nothing was sent for so long, through no fault of the readers.
    pub fn on_pause(&mut self, paused: Nanos) {
        self.connections.iter_mut().for_each(|connection| connection.excuse(paused));
    }

    /// Responses to which a producer may push again that was told to stop, since this was last asked.
    pub fn refills(&mut self) -> std::vec::Drain<'_, JobId> {
        self.reads.refills.drain(..)
    }

    /// The responses that ended since this was last called.
    pub fn departures(&mut self) -> std::vec::Drain<'_, Departure> {
        self.departures.drain(..)
    }

    /// Tells a policy that looks at paths how this one is now.
    fn ask_path(&mut self, id: JobId) {
        if !self.link.scheduler.order().needs_path() {
            return;
        }
        if let Some(sending) = self.sendings.get_mut(id) {
            self.link.scheduler.on_path(id, sending.ask_path(&self.connections[sending.connection()]));
        }
    }

    fn depart(&mut self, now: Nanos, id: JobId, failure: Option<Failure>) {
        let mut sending = self.sendings.take(id);
        let connection = &mut self.connections[sending.connection()];
        if failure.is_some() && sending.outgoing.body().pipe().is_some_and(Pipe::ends_by_close) {
            // An orderly end would tell the client that this is all.
            connection.session = None;
            connection.socket.tcp().into_iter().for_each(Sink::reset);
        }
        let departure = sending.into_departure(connection.owner, now, failure);
        match &mut connection.load {
            Load::Single(job) => {
                *job = None;
                self.departures.push(departure);
            }
            Load::Framed(framed) => self.departures.extend(framed.depart(departure)),
        }
    }
}
