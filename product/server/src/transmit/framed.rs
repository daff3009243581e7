//! Connections of HTTP/2 and HTTP/3: what is granted becomes frames of the response that was granted, records of those where the client speaks TLS, and
//! leaves at once. Room that is left in a granted segment goes to the connection's next response. What is HTTP/3's alone is in `http3.rs`.
//!
//! Below the decision waits at most what one grant has made and the socket did not take: it goes first when there is room again, and
//! nothing else is made on that connection before.

use std::io::{self, IoSlice};
use std::mem::take;

use mux::{Broken, Flood};
use sched::grow::reserve_one;
use sched::{ConnectionId, JobId, Precedence, Why};
use tls::{RECORD_BYTES_MAX, Session};
use units::Nanos;

use super::connection::Connection;
use super::engine::Engine;
use super::write::{RECORDS_AT_ONCE_MAX, ROOM_BYTES_MIN};
use super::{Departure, Down, Failure, Sink, Socket, Transmitter};

/// Frames that a client may leave unread: a grant, and answers to as many PINGs as it may send in a second or two.
const UNREAD_BYTES_MAX: usize = 256 << 10;
/// What such a connection has besides.
pub(super) struct Framed {
    pub engine: Engine,
    pub id: ConnectionId,
    /// Frames that were made and not handed down, nor sealed.
    pub out: Vec<u8>,
    /// Responses whose last bytes are among those.
    departing: Vec<Departure>,
    /// Responses whose windows are shut.
    shut: Vec<JobId>,
    /// Responses on it.
    jobs: usize,
    /// Of what was made, what no response is charged for.
    control_bytes: u64,
    /// It is on the list of those that have something to say for themselves.
    is_unsaid: bool,
}

impl<S: Socket> Transmitter<S> {
    /// Takes what has come over HTTP/2; what it says is asked of its [`Engine`]. Answers leave in this turn.
    pub fn receive(&mut self, now: Nanos, at: usize, bytes: &[u8]) -> Result<(), Broken> {
        let framed = framed(&mut self.connections[at]);
        framed.borrow(&mut self.spare);
        let begin = framed.out.len();
        let session = framed.engine.http2().expect("datagrams are received as such");
        let taken = session.receive(now, bytes, &mut framed.out);
        framed.control_bytes += (framed.out.len() - begin) as u64;
        let is_unread = framed.out.len() > UNREAD_BYTES_MAX;
        self.open_windows(now, at);
        self.say(at);
        taken.and(if is_unread { Err(Flood::Unread.into()) } else { Ok(()) })
    }

    /// Who makes the frames of a connection that carries several responses.
    pub fn engine(&mut self, at: usize) -> &mut Engine {
        &mut framed(&mut self.connections[at]).engine
    }

    /// The client wishes otherwise.
    pub fn on_precedence(&mut self, id: JobId, precedence: Precedence) {
        self.link.scheduler.on_precedence(id, precedence);
    }

    /// No new requests are taken, and the client learns so.
    pub fn go_away(&mut self, at: usize) {
        framed(&mut self.connections[at]).engine.go_away();
        self.say(at);
    }

    /// A stream on which nothing is being sent will not be answered.
    pub fn cancel(&mut self, at: usize, stream: u32) {
        framed(&mut self.connections[at]).engine.cancel(stream);
        self.say(at);
    }

    /// Nothing more comes or goes by its own account, and all that was made has left.
    pub fn has_ended(&mut self, at: usize) -> bool {
        let connection = &mut self.connections[at];
        let is_sealed = connection.session.as_ref().is_some_and(|session| session.has_unsent());
        let framed = framed(connection);
        !is_sealed && framed.out.is_empty() && framed.engine.has_ended()
    }

    /// What it has to say for itself leaves in this turn.
    pub fn say(&mut self, at: usize) {
        let framed = framed(&mut self.connections[at]);
        if !std::mem::replace(&mut framed.is_unsaid, true) {
            self.unsaid.push_back(at);
        }
    }

    /// Hands down what connections have to say for themselves and no response took along.
    pub(super) fn say_unsaid(&mut self, clock: &impl Fn() -> Nanos, until: Nanos) {
        // What is added meanwhile is said in the next turn.
        for _ in 0..self.unsaid.len() {
            let now = clock();
            if now >= until {
                return;
            }
            let Some(at) = self.unsaid.pop_front() else { return };
            // It may have been closed meanwhile, and its place may be another's.
            let Some(framed) = self.connections.get_mut(at).and_then(|connection| connection.load.framed_mut()) else {
                continue;
            };
            if take(&mut framed.is_unsaid) {
                framed.borrow(&mut self.spare);
                framed.control();
                self.hand_down(now, at, u64::MAX);
            }
        }
    }

    /// Windows may be open again.
    pub(super) fn open_windows(&mut self, now: Nanos, at: usize) {
        let framed = framed(&mut self.connections[at]);
        if framed.shut.is_empty() || framed.engine.window() == 0 {
            return;
        }
        let streams = &self.sendings;
        let (open, shut) = take(&mut framed.shut).into_iter().partition(|job: &JobId| {
            let stream = streams.get(*job);
            stream.is_none_or(|sending| framed.engine.stream_window(sending.stream) != Some(0))
        });
        framed.shut = shut;
        let open: Vec<JobId> = open;
        #[cfg(test)]
        if crate::simulation::planted::strikes(crate::simulation::planted::Fault::StarvedStream) {
            return;
        }
        open.into_iter().for_each(|job| self.link.scheduler.on_wait_over(now, job, Why::Stream));
    }

    /// The window of the response's stream, or its connection, is shut.
    pub(super) fn on_shut(&mut self, id: JobId, at: usize) {
        let shut = &mut framed(&mut self.connections[at]).shut;
        reserve_one(shut);
        shut.push(id);
        self.link.scheduler.on_wait(id, Why::Stream);
    }

    /// Hands down what was made; of datagrams so much is made first. What the socket does not take blocks the connection. Says whether nothing
    /// is left.
    pub(super) fn hand_down(&mut self, now: Nanos, at: usize, room_bytes: u64) -> bool {
        if framed(&mut self.connections[at]).engine.is_http3() {
            let is_all = self.hand_down_datagrams(now, at, room_bytes);
            return self.on_handed_down(now, at, is_all);
        }
        let connection = &mut self.connections[at];
        if !connection.has_unsent() {
            framed(connection).give_back(&mut self.spare);
            return true;
        }
        let is_all = connection.hand_down().is_ok();
        self.on_handed_down(now, at, is_all)
    }

    fn on_handed_down(&mut self, now: Nanos, at: usize, is_all: bool) -> bool {
        let has_left = is_all && self.has_left(at);
        let connection = &mut self.connections[at];
        let framed = framed(connection);
        let (framed_id, has_jobs) = (framed.id, framed.jobs > 0);
        if has_left {
            framed.give_back(&mut self.spare);
            let departed = framed.departing.drain(..);
            self.departures.extend(departed.map(|departure| Departure { ended_at: now, ..departure }));
        }
        if !is_all {
            self.link.scheduler.on_wait(framed_id, Why::Connection);
        }
        self.charge_control(now, at);
        self.connections[at].was_full |= !is_all;
        self.link.settle_framed(now, &mut self.connections[at], has_jobs);
        self.link.note_written(now, at, &mut self.connections);
        is_all
    }

    /// Charges what was handed down beside responses: nobody decides about those few bytes.
    fn charge_control(&mut self, now: Nanos, at: usize) {
        let connection = &mut self.connections[at];
        let control_bytes = take(&mut framed(connection).control_bytes);
        if control_bytes > 0 {
            let charge_bytes = connection.on_sent(control_bytes + connection.record_overhead());
            self.link.correct(now, charge_bytes);
        }
    }

    /// Responses whose last bytes were made and have not left are cut.
    pub(super) fn cut_framed(&mut self, at: usize, failure: impl Fn() -> Failure) {
        let Some(framed) = self.connections[at].load.framed_mut() else { return };
        let cut = framed.departing.drain(..).map(|departure| Departure { failure: Some(failure()), ..departure });
        self.departures.extend(cut);
    }

    /// What a connection that closes has to say leaves, if it can.
    pub(super) fn say_last(&mut self, now: Nanos, at: usize) {
        if let Some(framed) = self.connections[at].load.framed_mut() {
            framed.borrow(&mut self.spare);
            framed.control();
            self.close_datagrams(now, at);
            self.hand_down(now, at, u64::MAX);
            self.forget_datagrams(at);
        }
    }
}

pub(super) fn framed<S>(connection: &mut Connection<S>) -> &mut Framed {
    connection.load.framed_mut().expect("it speaks HTTP/2 or HTTP/3")
}

impl Framed {
    pub fn new(engine: Engine, id: ConnectionId) -> Framed {
        let (out, departing, shut) = (Vec::new(), Vec::new(), Vec::new());
        Framed { engine, id, out, departing, shut, jobs: 0, control_bytes: 0, is_unsaid: false }
    }

    /// Another response is on it.
    pub fn on_dispatch(&mut self) {
        self.jobs += 1;
    }

    /// Payload for frames in so much, beside their records; of datagrams full ones, as long as they may be now.
    pub fn room_bytes(&self, bytes_max: u64, segment_bytes: u64, overhead_bytes: u64) -> u64 {
        if let Some(datagram_bytes) = self.engine.datagram_bytes() {
            return bytes_max.div_ceil(segment_bytes) * datagram_bytes;
        }
        let is_short = bytes_max < overhead_bytes + ROOM_BYTES_MIN;
        let room_bytes = if is_short { bytes_max + segment_bytes } else { bytes_max };
        room_bytes - overhead_bytes * room_bytes.div_ceil(RECORD_BYTES_MAX as u64)
    }

    /// One has ended. Where its last bytes are made it departs when they are handed down.
    pub fn depart(&mut self, departure: Departure) -> Option<Departure> {
        self.jobs -= 1;
        self.shut.retain(|job| *job != departure.job);
        if departure.failure.is_some() {
            return Some(departure);
        }
        self.departing.push(departure);
        None
    }

    /// Of frames that wait, and of bodies of requests that do.
    pub fn memory_bytes(&mut self) -> usize {
        self.out.capacity() + self.engine.body_bytes()
    }

    /// All that it could send waits for its reader; beside that, so many responses wait for their producers.
    pub fn waits_for_reader(&self, silent: impl Fn() -> usize) -> bool {
        !self.shut.is_empty() && self.shut.len() + silent() == self.jobs
    }

    /// Some are not all made, or have not left.
    pub fn has_responses(&self) -> bool {
        self.jobs > 0 || !self.departing.is_empty()
    }

    /// Appends what it has to say for itself.
    fn control(&mut self) {
        let begin = self.out.len();
        let Some(session) = self.engine.http2() else { return };
        session.control(&mut self.out);
        self.control_bytes += (self.out.len() - begin) as u64;
    }

    /// Memory for frames, which idle connections have none of.
    fn borrow(&mut self, spare: &mut Vec<u8>) {
        if self.out.capacity() == 0 && self.engine.http2().is_some() {
            self.out = take(spare);
        }
    }

    fn give_back(&mut self, spare: &mut Vec<u8>) {
        if self.out.is_empty() {
            let out = take(&mut self.out);
            if spare.capacity() < out.capacity() {
                *spare = out;
            }
        }
    }
}

impl<S: Socket> Connection<S> {
    fn has_unsent(&self) -> bool {
        let is_sealed = || self.session.as_ref().is_some_and(|session| session.has_unsent());
        self.load.framed().is_some_and(|framed| !framed.out.is_empty()) || is_sealed()
    }

    /// Hands down all that was made, in records where the client speaks TLS. An error leaves the rest for later.
    fn hand_down(&mut self) -> io::Result<()> {
        let (Some(socket), Some(framed)) = (self.socket.tcp(), self.load.framed_mut()) else { return Ok(()) };
        let mut taken = 0;
        let result = match self.session.as_deref_mut() {
            None => hand_down_plain(socket, &framed.out, &mut taken),
            Some(session) => hand_down_sealed(socket, session, &framed.out, &mut taken),
        };
        framed.out.drain(..taken);
        result
    }
}

fn hand_down_plain(socket: &impl Sink, out: &[u8], taken: &mut usize) -> io::Result<()> {
    while *taken < out.len() {
        *taken += socket.send(&out[*taken..], false)?;
    }
    Ok(())
}

/// Seals a few records at a time, and no more before they are gone. Drops all that can no longer be sealed.
fn hand_down_sealed(socket: &impl Sink, session: &mut Session, out: &[u8], taken: &mut usize) -> io::Result<()> {
    if !session.can_seal() {
        *taken = out.len();
    }
    loop {
        if !session.has_unsent() {
            for record in out[*taken..].chunks(RECORD_BYTES_MAX).take(RECORDS_AT_ONCE_MAX) {
                session.seal(&[IoSlice::new(record)]);
                *taken += record.len();
            }
        }
        let more = *taken < out.len();
        if let Some(error) = session.hand_down(&mut Down { socket, more }).error {
            return Err(error);
        }
        if !more {
            return Ok(());
        }
    }
}
