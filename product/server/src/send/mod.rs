//! The write path of responses, which sends exactly the bytes that the scheduler grants.
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

/// The maximum length of a turn before events are handled again. A slow disk may add one system call.
pub const TURN_FOR: Nanos = Nanos::from_millis(5);
/// The maximum number of grants per turn before events are handled again. 64 segments take 77 ms at 10 Mbit/s and 0.8
/// ms at 1 Gbit/s, so pacing ends a turn long before this limit; without a rate, the limit bounds a turn to 128 MiB.
pub const GRANTS_PER_TURN_MAX: usize = 64;

/// The rule that decides which bytes are sent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// No order: each response is sent as soon as it is ready, and small ones take the shortest path.
    Arrival,
    /// The policy orders the responses that are ready in the same turn.
    Turn,
    /// The kernel orders packets by their marks.
    Marks,
    /// The policy orders all responses, which are sent at the pace of the uplink.
    Pace,
}

/// The order of responses and their path to the sockets. Each field does a separate part of the work.
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
    /// True if a response that is the only ready one need not become a job, because nothing is paced or marked.
    pub is_direct: bool,
    pub gathered: Gathered,
    /// By exchange, the bytes of interim responses that the socket of an HTTP/1.1 connection has not taken. They are
    /// sent with the next response.
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

    /// Returns whether responses are sent at the pace of the uplink.
    pub fn is_paced(&self) -> bool {
        self.order == Order::Pace
    }

    /// Returns true if nothing is being sent or read, every departure has been reported, and no look is due.
    pub fn is_idle(&self, connections: &Connections<impl Socket>, now: Nanos) -> bool {
        let is_look_due = look_at(&self.link).is_some_and(|at| at <= now);
        self.link.scheduler.jobs().is_empty()
            && self.departures.is_empty()
            && self.reads.is_idle()
            && connections.timeout().is_none()
            && !is_look_due
    }

    /// Sends what the scheduler grants, until it grants nothing or the turn is over. Returns the time of the next call,
    /// possibly in the past; `None` if only an event can change anything.
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

    /// The time at which [`Transmitter::run`] must be called next; `None` if only an event can change anything.
    pub fn poll_timeout(&self, connections: &Connections<impl Socket>) -> Option<Nanos> {
        let grant_at = self.link.scheduler.poll_timeout();
        [grant_at, self.link_timeout(connections)].into_iter().flatten().min()
    }

    /// The time at which something is due, other than a grant of a job that bypasses the link.
    fn link_timeout(&self, connections: &Connections<impl Socket>) -> Option<Nanos> {
        let (grant_at, look_at) = (self.link.scheduler.link_timeout(), look_at(&self.link));
        [grant_at, self.limit.timeout(), connections.timeout(), look_at].into_iter().flatten().min()
    }

    /// Frees table slots after the last one in use.
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

/// Marks a connection to be reset, if closing it normally would make the client believe that this body is complete.
fn cut(connection: &mut Connection<impl Socket>, body: &Body) {
    if body.pipe().is_some_and(Pipe::ends_by_close) {
        connection.reset();
    }
}

/// The time at which connections must be looked at next; `None` while the queue below can be read, because looks reveal
/// nothing more then.
fn look_at(link: &Link) -> Option<Nanos> {
    link.unacknowledged.look_at().filter(|_| link.observer.is_some() && link.is_blind())
}
