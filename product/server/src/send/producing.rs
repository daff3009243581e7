//! Responses whose bytes come later: a producer on the same event loop pushes them to the response's job. A response
//! whose bytes have all been sent leaves the order until more arrive. The response's [`super::Departure`] and the
//! result of a push notify the producer that the reader has left.

use std::sync::Arc;

use http::Trailers;
use sched::routes::Curve;
use sched::{JobId, Overrun, Size, Why};
use units::Nanos;

use super::Transmitter;
use crate::body::{Failure, Pipe};
use crate::connection::Connections;
use crate::exchange_id::ExchangeId;
use crate::net::Socket;

/// The producer's end of a response's body. Every method does nothing for a response that has departed.
pub struct Producer<'a, S: Socket> {
    pub(super) transmitter: &'a mut Transmitter,
    pub(super) connections: &'a mut Connections<S>,
    pub(super) job: JobId,
}

impl<'a, S: Socket> Producer<'a, S> {
    pub fn of(transmitter: &'a mut Transmitter, connections: &'a mut Connections<S>, job: JobId) -> Producer<'a, S> {
        Producer { transmitter, connections, job }
    }

    /// Takes as many bytes as there is room for, and returns their number. If some were not taken, the response will be
    /// among [`super::Reads::refills`]. Returns `None` if the response has departed, or departs now because the bytes
    /// exceed the announced length.
    pub fn push(&mut self, now: Nanos, bytes: &[u8]) -> Option<usize> {
        let taken = self.pipe()?.push(bytes);
        match taken {
            Some(_) => self.on_produced(now),
            None => self.transmitter.abort(self.connections, now, self.job, Failure::Length),
        }
        taken
    }

    /// The number of bytes that may be pushed now; `None` for a response that has departed.
    pub fn room(&mut self) -> Option<usize> {
        self.pipe().map(|pipe| pipe.room())
    }

    /// Returns true if only the memory of the connection's other responses limits the room. No notification follows
    /// when that memory is freed.
    pub fn waits_for_memory(&mut self) -> bool {
        self.pipe().is_some_and(|pipe| pipe.waits_for_memory())
    }

    /// The number of bytes that have arrived and were not sent yet.
    pub fn queued_bytes(&mut self) -> u64 {
        self.pipe().map_or(0, |pipe| pipe.queued().len() as u64)
    }

    /// Ranks the response by the sizes of similar responses until its own size is known.
    pub fn expect(&mut self, curve: Option<Arc<Curve>>) {
        self.transmitter.link.scheduler.on_curve(self.job, curve);
    }

    /// The exchange that the response answers; `None` for a response that has departed.
    pub fn exchange(&self) -> Option<ExchangeId> {
        self.transmitter.sendings.get(self.job).map(|sending| sending.exchange)
    }

    /// Ends the body, with these trailers.
    pub fn finish(&mut self, now: Nanos, trailers: Option<Box<Trailers>>) {
        let Some(is_right) = self.pipe().map(|pipe| pipe.finish(trailers)) else { return };
        if is_right {
            self.transmitter.sendings[self.job].outgoing.body().on_finished();
            self.on_produced(now);
        } else {
            self.transmitter.abort(self.connections, now, self.job, Failure::Length);
        }
    }

    /// Fails the body; the producer reports the reason. The response is cut off after the bytes that have arrived, so
    /// that no client takes it for complete.
    pub fn fail(&mut self, now: Nanos) {
        let Some(pipe) = self.pipe() else { return };
        pipe.cut();
        self.transmitter.link.scheduler.on_wait_over(now, self.job, Why::Source);
    }

    pub(super) fn pipe(&mut self) -> Option<&mut Pipe> {
        self.transmitter.sendings.get_mut(self.job)?.outgoing.body().start().pipe_mut()
    }

    /// Updates the size of the response and resumes sending it.
    fn on_produced(&mut self, now: Nanos) {
        let sized = self.transmitter.size(self.job);
        self.transmitter.link.scheduler.on_wait_over(now, self.job, Why::Source);
        if let Err(overrun) = sized {
            self.transmitter.abort(self.connections, now, self.job, Failure::Overrun(overrun));
        }
    }
}

impl Transmitter {
    /// Passes the known size of a response whose bytes come later to the scheduler.
    pub(super) fn size(&mut self, job: JobId) -> Result<(), Overrun> {
        let sending = &self.sendings[job];
        let size = sending.outgoing.size(sending.sent_bytes);
        // If only the response's end is left, the scheduler learns of it when it has left.
        if size == Size::Known(sending.sent_bytes) { Ok(()) } else { self.link.scheduler.on_size(job, size) }
    }
}
