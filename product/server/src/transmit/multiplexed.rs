//! Connections that carry several responses at once: in the drain each is a carrier, which offers one of its responses to the order.

use sched::{Arrival, JobId, Path, Size};
use units::Nanos;

use super::framed::Framed;
use super::pipe::Pipe;
use super::sending::Sending;
use super::{Failure, PipeState, Socket, Stream, Transmitter};

/// A connection that was opened for several responses, and not closed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipeId(pub(super) usize);

#[cfg(test)]
impl PipeId {
    pub fn of_tests() -> PipeId {
        PipeId(0)
    }
}

impl<S: Socket + Clone> Transmitter<S> {
    /// A connection that may send several responses at once.
    pub fn open(&mut self, now: Nanos, owner: u64, socket: S, client: u32, state: PipeState) -> PipeId {
        let carrier = self.drain.open(state.framing());
        let mut state = state;
        self.unacknowledged.take_back(owner, &mut state);
        let mut pipe = Pipe::new(owner, socket, client, state, now);
        pipe.carrier = Some(carrier);
        let id = PipeId(self.pipes.insert(pipe));
        if self.is_paced() && self.may_look(id.0) {
            self.settle_pipe(now, id);
        }
        id
    }

    /// A response to be sent on it; `None` if it has as many as it may have.
    pub fn dispatch_on(&mut self, now: Nanos, on: PipeId, stream: Stream) -> Option<JobId> {
        let Stream { number, outgoing, class, precedence } = stream;
        let pipe = &self.pipes[on.0];
        let carrier = pipe.carrier.expect("it was opened for several");
        let path = if self.needs_path { pipe.socket.status().path } else { Path::default() };
        let size = Size::Known(outgoing.remaining_bytes());
        let arrival = Arrival { size, framing: pipe.state.framing(), class, client: pipe.client, path };
        let id = self.drain.arrive_on(now, carrier, arrival, precedence)?;
        self.sendings.put(Sending::new(id, on.0, outgoing, 0).on_stream(number));
        if let Some(framed) = &mut self.pipes[on.0].framed {
            framed.on_dispatch();
        }
        Some(id)
    }

    /// Its socket takes bytes again.
    pub fn on_pipe_writable(&mut self, now: Nanos, id: PipeId) {
        if self.is_paced() {
            self.settle_pipe(now, id);
        }
        // What was made before goes first.
        if self.pipes[id.0].framed.is_some() && !self.hand_down(now, id.0, u64::MAX) {
            return;
        }
        let carrier = self.pipes[id.0].carrier.expect("it was opened for several");
        self.drain.on_carrier_writable(now, carrier);
        if self.needs_path {
            let jobs: Vec<JobId> = self.drain.jobs_on(carrier).collect();
            jobs.into_iter().for_each(|job| self.ask_path(job));
        }
    }

    /// Its socket takes no more.
    pub fn is_blocked(&self, id: PipeId) -> bool {
        self.pipes[id.0].carrier.is_some_and(|carrier| self.drain.is_carrier_blocked(carrier))
    }

    /// Its client is gone: what is left on it departs as disconnected.
    pub fn abandon(&mut self, now: Nanos, id: PipeId) {
        self.end_on(now, id, || Failure::Disconnected);
    }

    /// It has ended: what is left on it departs as disconnected, and its last words leave if they can. Gives what outlasts it.
    pub fn detach(&mut self, now: Nanos, id: PipeId) -> PipeState {
        self.abandon(now, id);
        self.say_last(now, id.0);
        self.unlist(id.0);
        let pipe = self.pipes.remove(id.0);
        self.drain.close(pipe.carrier.expect("it was opened for several"));
        pipe.state
    }

    /// Ends the responses of a connection whose reader is too slow. A reader is waited for where all it could have waits for it.
    pub fn end_stalled_on(&mut self, now: Nanos, id: PipeId) {
        let pipe = &self.pipes[id.0];
        let carrier = pipe.carrier.expect("it was opened for several");
        let framed = pipe.framed.as_deref();
        let is_shut = framed.is_some_and(Framed::waits_for_reader);
        let has_unsent = || framed.map_or_else(|| self.drain.jobs_on(carrier).next().is_some(), Framed::has_responses);
        let waits_for_reader = is_shut || self.drain.is_carrier_blocked(carrier) && has_unsent();
        let is_ordered_below = self.marker.is_some();
        if self.pipes[id.0].is_stalled(now, waits_for_reader, is_ordered_below, &self.patience) {
            self.end_on(now, id, || Failure::Stalled);
        }
    }

    /// Ends all responses of a connection, which is to end too. The order is asked for none of them meanwhile, and the kernel once.
    fn end_on(&mut self, now: Nanos, id: PipeId, failure: impl Fn() -> Failure) {
        let carrier = self.pipes[id.0].carrier.expect("it was opened for several");
        let jobs: Vec<JobId> = self.drain.jobs_on(carrier).collect();
        if !jobs.is_empty() {
            if self.is_paced() {
                self.settle_pipe(now, id);
            }
            self.drain.on_carrier_blocked(carrier);
        }
        for job in jobs {
            self.drain.on_abort(job);
            self.depart(now, job, Some(failure()));
        }
        self.cut_framed(id.0, failure);
    }

    pub(super) fn settle_pipe(&mut self, now: Nanos, id: PipeId) {
        let (correction, look) = self.pipes[id.0].settle(now);
        self.on_settled(now, self.pipes[id.0].client, correction, look);
    }
}
