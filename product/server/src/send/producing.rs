//! Responses whose bytes come later: a producer on the same event loop pushes them to the response's job. A response that has sent all that has
//! come leaves the order until more comes. Its producer learns that the reader has left by the response's [`super::Departure`], and by what a push
//! gives.

use std::sync::Arc;

use http::Trailers;
use sched::routes::Curve;
use sched::{JobId, Size, Why};
use units::Nanos;

use super::Transmitter;
use crate::body::{Failure, Pipe};
use crate::connection::Connections;
use crate::net::Socket;

const TOO_MUCH: Failure = Failure::Source("more bytes than were announced");
const TOO_LITTLE: Failure = Failure::Source("fewer bytes than were announced");

/// The producer's end of a response's body. All is a no-op for a response that has departed.
pub struct Producer<'a, S: Socket> {
    pub(super) transmitter: &'a mut Transmitter,
    pub(super) connections: &'a mut Connections<S>,
    pub(super) job: JobId,
}

impl<'a, S: Socket> Producer<'a, S> {
    pub fn of(transmitter: &'a mut Transmitter, connections: &'a mut Connections<S>, job: JobId) -> Producer<'a, S> {
        Producer { transmitter, connections, job }
    }

    /// Takes as much as there is room for, and gives how many bytes; where those are not all, the response will be among
    /// [`super::Reads::refills`]. `None` where it has departed, or departs since this is more than was announced.
    pub fn push(&mut self, now: Nanos, bytes: &[u8]) -> Option<usize> {
        let taken = self.pipe()?.push(bytes);
        match taken {
            Some(_) => self.on_produced(now),
            None => self.transmitter.abort(self.connections, now, self.job, TOO_MUCH),
        }
        taken
    }

    /// Bytes that may be pushed now; `None` for a response that has departed.
    pub fn room(&mut self) -> Option<usize> {
        self.pipe().map(|pipe| pipe.room())
    }

    /// There would be room if other responses of the connection held less: nobody tells when there is.
    pub fn waits_for_memory(&mut self) -> bool {
        self.pipe().is_some_and(|pipe| pipe.waits_for_memory())
    }

    /// Bytes that have come and not gone.
    pub fn queued_bytes(&mut self) -> u64 {
        self.pipe().map_or(0, |pipe| pipe.queued().len() as u64)
    }

    /// Has the response, while its size is not known, ranked by those of its like.
    pub fn expect(&mut self, curve: Option<Arc<Curve>>) {
        self.transmitter.link.scheduler.on_curve(self.job, curve);
    }

    /// The owner of the response's connection, and the number of its stream; `None` for a response that has departed.
    pub fn reader(&self) -> Option<(u64, u32)> {
        let sending = self.transmitter.sendings.get(self.job)?;
        Some((self.connections[sending.connection()].owner, sending.stream))
    }

    /// The body is whole, with these fields behind it.
    pub fn finish(&mut self, now: Nanos, trailers: Option<Box<Trailers>>) {
        let Some(is_right) = self.pipe().map(|pipe| pipe.finish(trailers)) else { return };
        if is_right {
            self.transmitter.sendings[self.job].outgoing.body().on_finished();
            self.on_produced(now);
        } else {
            self.transmitter.abort(self.connections, now, self.job, TOO_LITTLE);
        }
    }

    /// The rest of the body will not come: what waits is dropped, so that no client takes it for whole.
    pub fn fail(&mut self, now: Nanos, why: &'static str) {
        self.transmitter.abort(self.connections, now, self.job, Failure::Source(why));
    }

    pub(super) fn pipe(&mut self) -> Option<&mut Pipe> {
        self.transmitter.sendings.get_mut(self.job)?.outgoing.body().pipe_mut()
    }

    /// More is known of the response, and it may go on.
    fn on_produced(&mut self, now: Nanos) {
        let sending = &self.transmitter.sendings[self.job];
        let size = sending.outgoing.size(sending.sent_bytes);
        let scheduler = &mut self.transmitter.link.scheduler;
        // Where nothing but its end is left, that is told when it has left.
        let is_news = size != Size::Known(sending.sent_bytes);
        let sized = if is_news { scheduler.on_size(self.job, size) } else { Ok(()) };
        scheduler.on_wait_over(now, self.job, Why::Source);
        if let Err(overrun) = sized {
            self.transmitter.abort(self.connections, now, self.job, Failure::Overrun(overrun));
        }
    }
}
