//! HTTP/2 and HTTP/3 connections. A grant is turned into frames of its response, which are sealed in records if the
//! client uses TLS and sent immediately. Room left in a granted segment goes to the connection's next response.
//! `quic.rs` and `datagrams.rs` have the parts that only HTTP/3 needs.
//!
//! After the scheduler's decision, at most the part of one grant that the socket did not take has to wait. That part is
//! sent first when the socket has room again, and nothing else is made on the connection before then.

use std::mem::take;

use http2::{Broken, Flood};
use sched::grow::reserve_one;
use sched::{ConnectionId, JobId, Scheduler, Why};
use tls::RECORD_BYTES_MAX;
use units::Nanos;
use units::memory::{Account, Counted};

use super::engine::Engine;
use super::sendable_bytes::{ROOM_BYTES_MIN, Room};
use super::{Departure, Streams};
use crate::body::Failure;
use crate::clock::ClientTime;

// Each stream that a client may open is a job.
const _: () = assert!(http2::STREAMS_MAX as usize <= sched::JOBS_PER_CONNECTION_MAX);

/// The maximum bytes of frames that a client may leave unread: a grant, plus answers to the PINGs of a second or two.
const UNREAD_BYTES_MAX: usize = 256 << 10;
/// The additional state of an HTTP/2 or HTTP/3 connection.
pub struct Framed {
    pub engine: Engine,
    pub streams: Streams,
    pub id: ConnectionId,
    /// Frames that have been made and neither handed down nor sealed.
    pub out: Counted,
    /// The responses whose last bytes are among the frames in `out`.
    pub departing: Vec<Departure>,
    /// Responses whose flow-control windows are shut.
    shut: Vec<JobId>,
    /// The number of responses on the connection.
    pub jobs: usize,
    /// The bytes, in `out` and in records made earlier, that are not charged to a response.
    pub control_bytes: u64,
    /// True if the connection is in the queue of connections with output of their own.
    has_output: bool,
}

impl Framed {
    /// Creates the state without responses and counts its memory in `account`.
    pub fn new(mut engine: Engine, id: ConnectionId, deadline: ClientTime, account: &Account) -> Framed {
        engine.count_in(account);
        let (out, departing, shut) = (Counted::new(account), Vec::new(), Vec::new());
        let streams = Streams::new(deadline);
        Framed { engine, streams, id, out, departing, shut, jobs: 0, control_bytes: 0, has_output: false }
    }

    /// Passes bytes received over HTTP/2 to the session, and makes the session's answers.
    pub fn receive(&mut self, now: Nanos, bytes: &[u8]) -> Result<(), Broken> {
        let begin = self.out.len();
        let session = self.engine.http2().expect("datagrams are received as such");
        let taken = session.receive(now, bytes, &mut self.out.edit());
        self.control_bytes += (self.out.len() - begin) as u64;
        let is_unread = self.out.len() > UNREAD_BYTES_MAX;
        taken.and(if is_unread { Err(Flood::Unread.into()) } else { Ok(()) })
    }

    /// Records that the connection has output of its own. Returns whether it had none before.
    pub fn note_output(&mut self) -> bool {
        !std::mem::replace(&mut self.has_output, true)
    }

    /// Clears that record. Returns whether it had output.
    pub fn take_output(&mut self) -> bool {
        take(&mut self.has_output)
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

    /// Blocks a response because the window of its stream or connection is shut.
    pub fn on_shut(&mut self, id: JobId, scheduler: &mut Scheduler) {
        reserve_one(&mut self.shut);
        self.shut.push(id);
        scheduler.on_wait(id, Why::Stream);
    }

    /// Returns, as failed, the departures of responses whose last bytes were made but not sent.
    pub fn cut(&mut self, failure: impl Fn() -> Failure) -> impl Iterator<Item = Departure> {
        self.departing.drain(..).map(move |departure| Departure { failure: Some(failure()), ..departure })
    }

    /// Counts a new response.
    pub fn on_dispatch(&mut self) {
        self.jobs += 1;
    }

    /// Returns the payload that fits into frames of `bytes_max`, without the overhead of records. Over HTTP/3, returns
    /// the payload of full datagrams of the current size.
    pub fn room_bytes(&self, bytes_max: u64, segment_bytes: u64, overhead_bytes: u64) -> u64 {
        if let Some(datagram_bytes) = self.engine.datagram_bytes() {
            return bytes_max.div_ceil(segment_bytes) * datagram_bytes;
        }
        let is_short = bytes_max < overhead_bytes + ROOM_BYTES_MIN;
        let room_bytes = if is_short { bytes_max + segment_bytes } else { bytes_max };
        room_bytes - overhead_bytes * room_bytes.div_ceil(RECORD_BYTES_MAX as u64)
    }

    /// Ends a response. A complete response departs only when its last bytes are handed down.
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

    /// Returns true if everything that is left to send waits for the reader. `silent` counts the responses that wait
    /// for their producers.
    pub fn waits_for_reader(&self, silent: impl Fn() -> usize) -> bool {
        !self.shut.is_empty() && self.shut.len() + silent() == self.jobs
    }

    /// Returns true if a response is not completely made or not completely sent.
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

    /// The bytes, charged to no response, that are sent in the first segment of the next response: either all of them
    /// or none. It is none if less than [`ROOM_BYTES_MIN`] would remain for the response.
    pub fn joining_bytes(&self, room: Room) -> u64 {
        let has_room = room.left_bytes() >= self.control_bytes.saturating_add(ROOM_BYTES_MIN);
        if has_room { self.control_bytes } else { 0 }
    }

    /// Takes a spare buffer for frames, because idle connections have none.
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
