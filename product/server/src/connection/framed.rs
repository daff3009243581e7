//! HTTP/2 and HTTP/3 connections: a grant becomes frames of the response to which it was given, sealed in records if
//! the client speaks TLS, and leaves at once. Room left in a granted segment goes to the connection's next response.
//! HTTP/3's own part is in `http3.rs`.
//!
//! At most what one grant has made and the socket did not take waits below the scheduler's decision. It goes first when
//! there is room again, and nothing else is made on that connection before.

use std::io::{self, IoSlice};
use std::mem::take;

use mux::{Broken, Flood};
use sched::grow::reserve_one;
use sched::{ConnectionId, JobId, Scheduler, Why};
use tls::{RECORD_BYTES_MAX, Session};
use units::Nanos;
use units::memory::{Account, Counted};

use super::engine::Engine;
use super::room::{RECORDS_AT_ONCE_MAX, ROOM_BYTES_MIN};
use super::{Connection, Connections, Departure, Protocol, Single, Streams};
use crate::body::Failure;
use crate::net::{Down, Sink, Socket};

/// The maximum bytes of frames that a client may leave unread: a grant, and answers to as many PINGs as it may send in
/// a second or two.
const UNREAD_BYTES_MAX: usize = 256 << 10;
/// The additional state of such a connection.
pub struct Framed {
    pub engine: Engine,
    pub streams: Streams,
    pub id: ConnectionId,
    /// Frames that were made and not yet handed down or sealed.
    pub out: Counted,
    /// Responses whose last bytes are among those frames.
    departing: Vec<Departure>,
    /// Responses whose windows are shut.
    shut: Vec<JobId>,
    /// The number of responses on it.
    jobs: usize,
    /// The bytes in `out` that no response is charged for.
    control_bytes: u64,
    /// It is in the queue of connections with output of their own.
    is_unsaid: bool,
}

impl Framed {
    /// Creates the frames' state without responses; its memory is counted in `account`.
    pub fn new(mut engine: Engine, id: ConnectionId, deadline: Nanos, account: &Account) -> Framed {
        engine.count_in(account);
        let (out, departing, shut) = (Counted::new(account), Vec::new(), Vec::new());
        let streams = Streams::new(deadline);
        Framed { engine, streams, id, out, departing, shut, jobs: 0, control_bytes: 0, is_unsaid: false }
    }

    /// Takes what has arrived over HTTP/2, and makes answers.
    pub fn receive(&mut self, now: Nanos, bytes: &[u8]) -> Result<(), Broken> {
        let begin = self.out.len();
        let session = self.engine.http2().expect("datagrams are received as such");
        let taken = session.receive(now, bytes, &mut self.out.edit());
        self.control_bytes += (self.out.len() - begin) as u64;
        let is_unread = self.out.len() > UNREAD_BYTES_MAX;
        taken.and(if is_unread { Err(Flood::Unread.into()) } else { Ok(()) })
    }

    /// Records that it has output of its own. Returns whether it had none before.
    pub fn begin_unsaid(&mut self) -> bool {
        !std::mem::replace(&mut self.is_unsaid, true)
    }

    /// Clears that record. Returns whether it had output.
    pub fn end_unsaid(&mut self) -> bool {
        take(&mut self.is_unsaid)
    }

    /// Resumes responses whose windows may be open again.
    pub fn open_windows(&mut self, now: Nanos, stream_of: impl Fn(JobId) -> Option<u32>, scheduler: &mut Scheduler) {
        if self.shut.is_empty() || self.engine.window() == 0 {
            return;
        }
        let (open, shut): (Vec<JobId>, Vec<JobId>) = take(&mut self.shut)
            .into_iter()
            .partition(|job| stream_of(*job).is_none_or(|stream| self.engine.stream_window(stream) != Some(0)));
        self.shut = shut;
        #[cfg(test)]
        if crate::simulation::planted::strikes(crate::simulation::planted::Fault::StarvedStream) {
            return;
        }
        open.into_iter().for_each(|job| scheduler.on_wait_over(now, job, Why::Stream));
    }

    /// Blocks a response because the window of its stream, or the connection's, is shut.
    pub fn on_shut(&mut self, id: JobId, scheduler: &mut Scheduler) {
        reserve_one(&mut self.shut);
        self.shut.push(id);
        scheduler.on_wait(id, Why::Stream);
    }

    /// Cuts the responses whose last bytes were made and have not left.
    pub fn cut(&mut self, failure: impl Fn() -> Failure) -> impl Iterator<Item = Departure> {
        self.departing.drain(..).map(move |departure| Departure { failure: Some(failure()), ..departure })
    }

    /// Counts another response.
    pub fn on_dispatch(&mut self) {
        self.jobs += 1;
    }

    /// The payload for frames in `bytes_max`, without the overhead of records; over HTTP/3, that of full datagrams of
    /// the current size.
    pub fn room_bytes(&self, bytes_max: u64, segment_bytes: u64, overhead_bytes: u64) -> u64 {
        if let Some(datagram_bytes) = self.engine.datagram_bytes() {
            return bytes_max.div_ceil(segment_bytes) * datagram_bytes;
        }
        let is_short = bytes_max < overhead_bytes + ROOM_BYTES_MIN;
        let room_bytes = if is_short { bytes_max + segment_bytes } else { bytes_max };
        room_bytes - overhead_bytes * room_bytes.div_ceil(RECORD_BYTES_MAX as u64)
    }

    /// Ends a response. If its last bytes were made, it departs when they are handed down.
    pub fn depart(&mut self, departure: Departure) -> Option<Departure> {
        self.jobs -= 1;
        self.shut.retain(|job| *job != departure.job);
        if departure.failure.is_some() {
            return Some(departure);
        }
        self.departing.push(departure);
        None
    }

    /// The bytes of memory of frames and of the engine.
    #[cfg(test)]
    pub fn alive_bytes(&mut self) -> usize {
        self.out.capacity() + self.engine.alive_bytes()
    }

    /// Returns true if everything it could send waits for its reader; `silent` counts the responses that wait for their
    /// producers.
    pub fn waits_for_reader(&self, silent: impl Fn() -> usize) -> bool {
        !self.shut.is_empty() && self.shut.len() + silent() == self.jobs
    }

    /// Returns true if a response is not completely made, or has not left.
    pub fn has_responses(&self) -> bool {
        self.jobs > 0 || !self.departing.is_empty()
    }

    /// Appends the connection's own output.
    pub fn control(&mut self) {
        let begin = self.out.len();
        let Some(session) = self.engine.http2() else { return };
        session.control(&mut self.out.edit());
        self.control_bytes += (self.out.len() - begin) as u64;
    }

    /// Takes a buffer for frames; idle connections have none.
    pub fn borrow(&mut self, spare: &mut Vec<u8>) {
        if self.out.capacity() == 0 && self.engine.http2().is_some() {
            *self.out.edit() = take(spare);
        }
    }

    pub fn give_back(&mut self, spare: &mut Vec<u8>) {
        if self.out.is_empty() {
            let out = self.out.take();
            if spare.capacity() < out.capacity() {
                *spare = out;
            }
        }
    }
}

/// The outcome of [`Connections::hand_down`].
pub struct HandedDown {
    /// True if all frames that were made have left.
    pub is_all: bool,
    /// True if responses are in flight.
    pub has_jobs: bool,
    /// The bytes handed down that no response is charged for.
    pub control_bytes: u64,
}

impl<S: Socket> Connections<S> {
    /// Hands down the frames that were made; of datagrams `room_bytes` are made first. Responses whose last bytes leave are added to
    /// `departures`. Returns `None` if nothing was made, as always over HTTP/1.1.
    pub fn hand_down(
        &mut self,
        now: Nanos,
        at: usize,
        room_bytes: u64,
        departures: &mut Vec<Departure>,
    ) -> Option<HandedDown> {
        let connection = &mut self[at];
        let is_all = match connection.protocol.framed_mut()?.engine.is_http3() {
            true => self.hand_down_datagrams(now, at, room_bytes),
            false if connection.has_unsent() => connection.hand_down().is_ok(),
            false => {
                self.end_frames(at);
                return None;
            }
        };
        let framed = self[at].framed();
        let (has_left, has_jobs) = (is_all && framed.engine.has_left(), framed.jobs > 0);
        let control_bytes = take(&mut framed.control_bytes);
        if has_left {
            let departed = framed.departing.drain(..);
            departures.extend(departed.map(|departure| Departure { ended_at: now, ..departure }));
            self.end_frames(at);
        } else if is_all {
            // Lost datagrams used up the room; without this nothing would trigger the rest.
            self.say(at);
        }
        Some(HandedDown { is_all, has_jobs, control_bytes })
    }

    /// Makes the last frames of a connection that is to end.
    pub fn make_last(&mut self, now: Nanos, at: usize) {
        let framed = self.begin_frames(at);
        framed.control();
        framed.engine.http3().into_iter().for_each(|quic| quic.close(now));
    }
}

impl<S: Socket> Connection<S> {
    /// Begins HTTP/2 or HTTP/3: from now on the connection carries several responses at once, as frames. `id` is its name in the scheduler;
    /// nothing is expected of the client before `deadline`.
    pub fn begin_framed(&mut self, engine: Engine, id: ConnectionId, deadline: Nanos) {
        let framed = Framed::new(engine, id, deadline, self.held.account());
        self.protocol = Protocol::Framed(Box::new(framed));
    }

    /// Ends the frames of a connection. Returns its name in the scheduler, if it had frames.
    pub fn end_framed(&mut self, now: Nanos) -> Option<ConnectionId> {
        let id = self.protocol.group()?;
        self.protocol = Protocol::Http1(Single::ended(now, self.owner));
        Some(id)
    }

    /// Payload for frames in `bytes_max` wire bytes; `None` over HTTP/1.1, which has none.
    pub fn frames_room_bytes(&self, bytes_max: u64) -> Option<u64> {
        let segment_bytes = self.delivery.framing().segment_bytes;
        let framed = self.protocol.framed()?;
        Some(framed.room_bytes(bytes_max, segment_bytes, self.record_overhead()))
    }

    /// The bytes that the client has not taken of the frames that were made for it, as far as the kernel reports.
    pub fn unread_bytes(&mut self) -> u64 {
        let in_socket_bytes = self.socket.status().unsent_bytes;
        let sealed_bytes = self.session.as_mut().map_or(0, |session| session.unsent_bytes());
        in_socket_bytes + (sealed_bytes + self.framed().out.len()) as u64
    }

    pub fn has_unsent(&self) -> bool {
        let is_sealed = || self.session.as_ref().is_some_and(|session| session.has_unsent());
        self.protocol.framed().is_some_and(|framed| !framed.out.is_empty()) || is_sealed()
    }

    /// Hands down everything that was made, in records if the client speaks TLS. After an error the rest is left for
    /// later.
    pub fn hand_down(&mut self) -> io::Result<()> {
        let (Some(socket), Some(framed)) = (self.socket.tcp(), self.protocol.framed_mut()) else { return Ok(()) };
        let mut taken = 0;
        let result = match self.session.as_deref_mut() {
            None => hand_down_plain(socket, &framed.out, &mut taken),
            Some(session) => hand_down_sealed(socket, session, &framed.out, &mut taken),
        };
        framed.out.edit().drain(..taken);
        result
    }
}

fn hand_down_plain(socket: &impl Sink, out: &[u8], taken: &mut usize) -> io::Result<()> {
    while *taken < out.len() {
        *taken += socket.send(&out[*taken..], false)?;
    }
    Ok(())
}

/// Seals a few records at a time, and no more until they are gone. Drops everything that can no longer be sealed.
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
