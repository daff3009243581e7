//! Responses whose bytes come later: a producer on the same event loop pushes them to the response's job. A response that has sent all that has
//! come leaves the order until more comes. Its producer learns that the reader has left by the response's [`super::Departure`], and by what a push
//! gives.

use sched::{JobId, Size, Why};
use units::Nanos;

use super::pipe::Pipe;
use super::{Failure, Socket, Transmitter};

const TOO_MUCH: Failure = Failure::Source("more bytes than were announced");
const TOO_LITTLE: Failure = Failure::Source("fewer bytes than were announced");
const SILENT: Failure = Failure::Source("nothing came for too long");

impl<S: Socket> Transmitter<S> {
    /// More of a response's body has come. Takes as much as there is room for, and gives how many bytes; where those are not all, the response
    /// will be among [`Transmitter::refills`]. `None` where it has departed, or departs since this is more than was announced.
    pub fn push(&mut self, now: Nanos, id: JobId, bytes: &[u8]) -> Option<usize> {
        let taken = self.pipe(id)?.push(bytes);
        match taken {
            Some(_) => self.on_produced(now, id),
            None => self.abort(now, id, TOO_MUCH),
        }
        taken
    }

    /// Bytes that may be pushed now; `None` for a response that has departed.
    pub fn push_room(&mut self, id: JobId) -> Option<usize> {
        self.pipe(id).map(|pipe| pipe.room())
    }

    /// The body is whole. A no-op for a response that has departed.
    pub fn finish_body(&mut self, now: Nanos, id: JobId) {
        let Some(is_right) = self.pipe(id).map(Pipe::finish) else { return };
        if is_right {
            self.sendings[id].outgoing.body().advance(0);
            self.on_produced(now, id);
        } else {
            self.abort(now, id, TOO_LITTLE);
        }
    }

    /// The rest of the body will not come: what waits is dropped, so that no client takes it for whole. A no-op for a response that has departed.
    pub fn fail_body(&mut self, now: Nanos, id: JobId, why: &'static str) {
        self.abort(now, id, Failure::Source(why));
    }

    /// Responses to which a producer may push again that was told to stop, since this was last asked.
    pub fn refills(&mut self) -> std::vec::Drain<'_, JobId> {
        self.refills.drain(..)
    }

    fn pipe(&mut self, id: JobId) -> Option<&mut Pipe> {
        self.sendings.get_mut(id)?.outgoing.body().pipe_mut()
    }

    /// More is known of the response, and it may go on.
    fn on_produced(&mut self, now: Nanos, id: JobId) {
        let sending = &self.sendings[id];
        let size = sending.outgoing.size(sending.sent_bytes);
        // Where nothing but its end is left, that is told when it has left.
        if size != Size::Known(sending.sent_bytes) {
            self.link.drain.on_size(id, size);
        }
        self.link.drain.on_wait_over(now, id, Why::Source);
    }

    /// Ends the responses of a connection whose producers say nothing for too long.
    pub(super) fn end_silent(&mut self, now: Nanos, at: usize) {
        let waiting: Vec<JobId> = self.jobs_on(at).filter(|id| self.waits_for_producer(*id)).collect();
        for id in waiting {
            if self.pipe(id).is_some_and(Pipe::is_silent) {
                self.abort(now, id, SILENT);
            }
        }
    }

    pub(super) fn waits_for_producer(&self, id: JobId) -> bool {
        self.link.drain.jobs().get(id).is_some_and(|job| job.waits_for(Why::Source))
    }
}
