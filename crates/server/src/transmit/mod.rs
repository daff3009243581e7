//! The response write path: what is sent is what the drain grants.
//!
//! A [`Transmitter`] holds the responses that are being sent and asks its [`sched::Drain`] for grants. With the drain
//! `off` every worker has one of its own without a rate, which then only orders what is ready in the same turn;
//! with `paced` there is one for the whole process, on the writer's thread, so that the order holds across workers.
//! With `bands` and `ranked` each worker has its own again: packets are marked ([`Marker`]), and the kernel orders them.
//! It is generic over the socket and takes the time as an argument: tests run it under simulated time.

mod gauge;
mod mark;
mod outgoing;
mod sending;
mod socket;
#[cfg(test)]
mod tests;

pub use gauge::Gauge;
pub use mark::{Bands, Mark, Marker, Promotion, Stream};
pub use outgoing::{End, Failure, Outgoing, Segment, Sent};
pub use sending::Dispatch;
pub use socket::{Connection, Socket, Status};

use sched::{Arrival, Drain, Grant, JobId, Progress, Size};
use sending::Sending;
use units::Nanos;

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
    pub sent_bytes: u64,
    /// `None` when every byte was handed to the kernel.
    pub failure: Option<Failure>,
    /// The buffer its head was in, to be used again.
    pub buffer: Vec<u8>,
    /// For the connection's next response.
    pub stream: Stream,
}

pub struct Transmitter<S> {
    drain: Drain,
    gauge: Option<Gauge>,
    marker: Option<Marker>,
    patience: Patience,
    /// The policy looks at paths.
    needs_path: bool,
    /// By slot of the job.
    sendings: Vec<Option<Sending<S>>>,
    departures: Vec<Departure>,
}

impl<S: Socket> Transmitter<S> {
    pub fn new(drain: Drain, gauge: Option<Gauge>, patience: Patience) -> Transmitter<S> {
        let needs_path = drain.policy().needs_path();
        let (marker, sendings, departures) = (None, Vec::new(), Vec::new());
        Transmitter { drain, gauge, marker, patience, needs_path, sendings, departures }
    }

    /// The same, its packets marked for the kernel to order.
    pub fn with_marker(self, marker: Option<Marker>) -> Transmitter<S> {
        Transmitter { marker, ..self }
    }

    pub fn drain(&self) -> &Drain {
        &self.drain
    }

    pub fn is_empty(&self) -> bool {
        self.drain.is_empty()
    }

    /// Nothing is being sent, and nothing that ended is left to be told.
    pub fn is_idle(&self) -> bool {
        self.is_empty() && self.departures.is_empty()
    }

    /// Takes over a response; its first byte leaves when the drain says so.
    pub fn dispatch(&mut self, now: Nanos, dispatch: Dispatch<S>) -> JobId {
        let size = Size::Known(dispatch.outgoing.remaining_bytes());
        if self.is_paced() {
            self.drain.on_overhead(now, dispatch.overhead_bytes);
        }
        let is_asked = self.is_paced() || self.needs_path;
        let status = if is_asked { dispatch.socket.status() } else { Status::default() };
        let (segment_bytes, class) = (dispatch.segment_bytes, dispatch.class);
        let id = self.drain.arrive(now, Arrival { size, segment_bytes, class, path: status.path });
        let slot = id.slot();
        if self.sendings.len() <= slot {
            self.sendings.resize_with(slot + 1, || None);
        }
        self.sendings[slot] = Some(Sending::new(id, dispatch, status.retransmitted_bytes, now));
        id
    }

    /// The socket takes bytes again. A no-op for a job that has departed.
    pub fn on_writable(&mut self, now: Nanos, id: JobId) {
        self.drain.on_writable(id);
        self.settle(now, id, 0);
        self.ask(now, id);
    }

    /// The response will not be finished, and nobody waits for it. A no-op for a job that has departed.
    pub fn abort(&mut self, id: JobId, failure: Failure) {
        if self.drain.job(id).is_some() {
            self.drain.on_abort(id);
            self.depart(id, Some(failure));
        }
    }

    /// Sends what is granted, until nothing is or the turn is over. Gives when to be called again: an instant that
    /// may have passed, or `None` when only an event can change anything.
    pub fn run(&mut self, clock: &impl Fn() -> Nanos) -> Option<Nanos> {
        for _ in 0..GRANTS_PER_TURN_MAX {
            let now = clock();
            self.measure(now);
            let Some(grant) = self.drain.poll_grant(now) else { break };
            self.send(now, grant);
        }
        self.drain.poll_timeout()
    }

    /// Ends the responses whose readers are too slow; to be called about once a second.
    pub fn end_stalled(&mut self, now: Nanos) {
        for slot in 0..self.sendings.len() {
            let Some(sending) = &mut self.sendings[slot] else { continue };
            let is_blocked = self.drain.job(sending.id).is_some_and(|job| !job.is_ready());
            if sending.is_stalled(now, is_blocked, self.marker.is_some(), &self.patience) {
                let id = sending.id;
                self.abort(id, Failure::Stalled);
            }
        }
    }

    /// The responses that ended since this was last called.
    pub fn departures(&mut self) -> std::vec::Drain<'_, Departure> {
        self.departures.drain(..)
    }

    fn is_paced(&self) -> bool {
        self.drain.pace().rate.is_some()
    }

    /// Lets the queue below correct the drain's idea of it, when that is about to matter.
    fn measure(&mut self, now: Nanos) {
        let Some(gauge) = &mut self.gauge else { return };
        if self.drain.poll_timeout().is_some_and(|at| at <= now)
            && let Some(queued_bytes) = gauge.read(now)
        {
            self.drain.on_backlog(now, queued_bytes);
        }
    }

    fn send(&mut self, now: Nanos, grant: Grant) {
        let id = grant.job;
        let bytes_max = self.burst(grant);
        let is_ordered_below = self.is_ordered_below();
        let sending = self.sendings[id.slot()].as_mut().expect("a granted job is being sent");
        if is_ordered_below && !sending.has_room() {
            return self.drain.on_blocked(id);
        }
        if let Some(marker) = &self.marker {
            sending.mark(&marker.mark, self.drain.band(id));
        }
        let sent = sending.send(bytes_max);
        let progress = self.drain.on_sent(now, id, sent.bytes);
        self.settle(now, id, sent.bytes);
        match sent.failure {
            Some(Failure::Blocked) => self.drain.on_blocked(id),
            Some(failure) => self.abort(id, failure),
            None if progress == Progress::Departed => {
                self.ask(now, id);
                self.settle_rest(now, id);
                self.depart(id, None);
            }
            None if self.needs_path && self.sendings[id.slot()].as_ref().is_some_and(Sending::is_path_old) => {
                self.ask(now, id);
            }
            None => {}
        }
    }

    /// The kernel decides the order, so it gets no more of a response than may keep the mark of the moment.
    fn is_ordered_below(&self) -> bool {
        self.marker.is_some() && !self.is_paced()
    }

    /// As much of a grant as is handed down at once: as the grant itself, it ends where a segment does.
    fn burst(&self, grant: Grant) -> u64 {
        let (Some(marker), Some(job)) = (&self.marker, self.drain.job(grant.job)) else { return grant.bytes_max };
        if self.is_paced() {
            return grant.bytes_max;
        }
        let segments = (marker.burst_bytes / job.segment_bytes).max(1);
        grant.bytes_max.min(segments * job.segment_bytes - job.attained % job.segment_bytes)
    }

    /// Charges the link for what TCP let through, not for what waits in the socket for a window: over a long path a response
    /// holds two segments back in every round trip, and the link would idle for as long as each would have taken. What leaves
    /// later is charged when it is found out, unless the queue below is read, and shows it.
    fn settle(&mut self, now: Nanos, id: JobId, sent_bytes: u64) {
        if !self.is_paced() {
            return;
        }
        let Some(sending) = self.sendings.get_mut(id.slot()).and_then(Option::as_mut) else { return };
        if sending.id != id {
            return;
        }
        let (before, unsent) = sending.look_at_unsent();
        let segment_bytes = units::wire::SEGMENT_BYTES;
        if unsent > before {
            // An earlier response on the connection may have left some, which is not ours to give back.
            let held = (unsent - before).min(sent_bytes);
            self.drain.on_held_back(units::wire::bytes_of(held, segment_bytes));
        } else if self.gauge.is_none() {
            self.drain.on_overhead(now, units::wire::bytes_of(before - unsent, segment_bytes));
        }
    }

    /// The same for what a response leaves to TCP when it departs: nobody will look again.
    fn settle_rest(&mut self, now: Nanos, id: JobId) {
        let Some(sending) = self.sendings.get(id.slot()).and_then(Option::as_ref) else { return };
        if self.gauge.is_none() {
            let rest = units::wire::bytes_of(sending.unsent_bytes, units::wire::SEGMENT_BYTES);
            self.drain.on_overhead(now, rest);
        }
    }

    /// Asks the kernel about a connection: what TCP sent again was on the link too, and the path is for the policy.
    fn ask(&mut self, now: Nanos, id: JobId) {
        if !self.is_paced() && !self.needs_path {
            return;
        }
        let Some(sending) = self.sendings.get_mut(id.slot()).and_then(Option::as_mut) else { return };
        if sending.id == id {
            let (bytes, path) = sending.ask();
            self.drain.on_path(id, path);
            self.drain.on_overhead(now, units::wire::bytes_of(bytes, units::wire::SEGMENT_BYTES));
        }
    }

    fn depart(&mut self, id: JobId, failure: Option<Failure>) {
        let sending = self.sendings[id.slot()].take().expect("a job departs once");
        self.departures.push(sending.into_departure(failure));
    }
}
