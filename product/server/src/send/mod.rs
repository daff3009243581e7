//! The response write path. It sends exactly the bytes that the scheduler grants.
//!
//! A [`Transmitter`] holds the responses that are being sent and requests grants from its [`sched::Scheduler`]. With
//! shaping `off`, every worker has a transmitter without a rate, which only orders the responses that are ready in the
//! same turn. With `paced`, there is one worker and therefore one order. With `bands`, packets are marked ([`Marker`]),
//! and the kernel orders them. The transmitter is generic over the socket and takes the time as an argument, so tests
//! run it in simulated time.

mod dispatch;
mod ending;
mod frames;
mod handshake_flight;
mod http1;
mod limit;
mod line_feedback;
mod link;
mod mark;
mod new_settings;
mod notice;
mod own_queued_bytes;
mod producing;
mod queue_gauge;
mod quic_events;
mod reads;
mod responding;
mod sending;
mod spooling;
#[cfg(test)]
mod tests;
mod unacknowledged;
mod under_way;
mod write;

pub use dispatch::{Direct, Dispatch};
pub use ending::{EndContext, Ending};
pub use http1::{BYTES_PER_TURN_MAX, Gathered, SentNow};
pub use limit::Limit;
pub use line_feedback::Line;
pub use link::Link;
pub use mark::{Bands, Marker, Raise};
pub use new_settings::{LineSettings, LinkSettings, ReaderSettings};
pub use notice::{Notice, in_words, mbit};
pub use producing::Producer;
pub use queue_gauge::{Gauge, Queue, Queued};
pub use reads::Reads;
pub use responding::Http2Begin;

pub use sending::Sendings;
pub use under_way::{UnderWay, WaitsFor, under_way};

use std::collections::HashMap;

use sched::JobId;
use units::Nanos;
use units::memory::Counted;

use crate::body::{Body, Failure, Pipe};
use crate::connection::{Connection, Connections, Departure};
use crate::exchange_id::ExchangeId;
use crate::limits::Patience;
use crate::net::Socket;

/// The maximum length of a turn before events are handled again. A slow disk adds one system call to it.
pub const TURN_FOR: Nanos = Nanos::from_millis(5);
/// The maximum number of grants in one turn before events are handled again. 64 segments take 77 ms at 10 Mbit/s and
/// 0.8 ms at 1 Gbit/s, so pacing ends a turn long before this does; without a rate it bounds the turn to 128 MiB.
pub const GRANTS_PER_TURN_MAX: usize = 64;

/// The rule that decides whose bytes leave first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// No order: each response leaves as soon as it is ready, and small ones take the shortest path.
    Arrival,
    /// The policy orders the responses that are ready in the same turn.
    Turn,
    /// The kernel orders packets by their marks.
    Marks,
    /// The policy orders all responses, which leave at the pace of the uplink.
    Pace,
}

/// The order of responses and their path to the sockets. Each part of the work has its own field.
pub struct Transmitter {
    pub link: Link,
    pub sendings: Sendings,
    pub reads: Reads,
    pub limit: Limit,
    /// The marker, if the kernel orders packets.
    pub marker: Option<Marker>,
    patience: Patience,
    departures: Vec<Departure>,
    pub order: Order,
    /// Set if a response that is ready alone need not become a job while nothing is paced or marked.
    pub is_direct: bool,
    pub gathered: Gathered,
    /// The bytes of interim responses that the socket of an HTTP/1.1 connection has not taken, by exchange. They leave
    /// with the next response.
    pub put_off: HashMap<ExchangeId, Counted>,
}

impl Transmitter {
    /// Creates a transmitter without marks, rate limit and files.
    pub fn new(link: Link, patience: Patience) -> Transmitter {
        Transmitter {
            link,
            sendings: Sendings::default(),
            reads: Reads::default(),
            limit: Limit::default(),
            marker: None,
            patience,
            departures: Vec::new(),
            order: Order::Turn,
            is_direct: false,
            gathered: Gathered::default(),
            put_off: HashMap::new(),
        }
    }

    /// Returns whether responses leave at the pace of the uplink.
    pub fn is_paced(&self) -> bool {
        self.order == Order::Pace
    }

    /// Returns true if nothing is being sent or read, every departure is reported, and no look is due.
    pub fn is_idle(&self, connections: &Connections<impl Socket>, now: Nanos) -> bool {
        let is_look_due = look_at(&self.link).is_some_and(|at| at <= now);
        self.link.scheduler.jobs().is_empty()
            && self.departures.is_empty()
            && self.reads.is_idle()
            && connections.timeout().is_none()
            && !is_look_due
    }

    /// Sends what the scheduler grants, until it grants nothing or the turn is over. Returns the instant of the next
    /// call, which may have passed, or `None` if only an event can change anything.
    pub fn run(&mut self, connections: &mut Connections<impl Socket>, clock: &impl Fn() -> Nanos) -> Option<Nanos> {
        let began_at = clock();
        self.take_reads(connections, began_at);
        self.fire_timers(connections, began_at, clock);
        self.limit.release(&mut self.link.scheduler, began_at);
        for _ in 0..GRANTS_PER_TURN_MAX {
            let now = clock();
            if now - began_at >= TURN_FOR {
                break;
            }
            self.link.measure(connections, now, clock);
            self.link.follow(connections, now);
            let Some(grant) = self.link.scheduler.poll_grant(now) else { break };
            self.send(connections, now, grant);
        }
        self.link.note_idle();
        // The timers have a time budget of their own, because grants may have used up the turn's.
        let until = clock() + TURN_FOR;
        self.hand_down_outputs(connections, clock, until);
        self.poll_timeout(connections)
    }

    /// The instant at which [`Transmitter::run`] must be called next; `None` if only an event can change anything.
    pub fn poll_timeout(&self, connections: &Connections<impl Socket>) -> Option<Nanos> {
        let grant_at = self.link.scheduler.poll_timeout();
        [grant_at, self.link_timeout(connections)].into_iter().flatten().min()
    }

    /// The instant at which anything is due, except a grant of a job that does not use the link.
    fn link_timeout(&self, connections: &Connections<impl Socket>) -> Option<Nanos> {
        let (grant_at, look_at) = (self.link.scheduler.link_timeout(), look_at(&self.link));
        [grant_at, self.limit.timeout(), connections.timeout(), look_at].into_iter().flatten().min()
    }

    /// Frees table slots behind the last one in use.
    pub fn shrink(&mut self) {
        let slots = self.link.scheduler.shrink();
        self.sendings.truncate(slots);
        self.link.unacknowledged.shrink();
        self.departures.shrink_to_fit();
    }

    /// The responses that ended since the last call.
    pub fn departures(&mut self) -> std::vec::Drain<'_, Departure> {
        self.departures.drain(..)
    }

    fn depart(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, id: JobId, failure: Option<Failure>) {
        let mut sending = self.sendings.take(id);
        let connection = &mut connections[sending.connection()];
        if failure.is_some() {
            cut(connection, sending.outgoing.body());
        }
        let departure = sending.into_departure(now, failure);
        self.departures.extend(connection.protocol.end_job(departure));
    }
}

/// Marks a connection to be reset if its orderly end would signal to the client that this body is complete.
fn cut(connection: &mut Connection<impl Socket>, body: &Body) {
    if body.pipe().is_some_and(Pipe::ends_by_close) {
        connection.reset();
    }
}

/// The instant at which connections must be looked at next. `None` while the queue below can be read, because the looks
/// then reveal nothing new.
fn look_at(link: &Link) -> Option<Nanos> {
    link.unacknowledged.look_at().filter(|_| link.observer.is_some() && link.is_blind())
}
