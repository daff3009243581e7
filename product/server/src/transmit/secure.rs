//! Connections under TLS: how much of a grant is a record, and what is sent between responses.

use std::io::{self, IoSlice, Write};

use sched::Grant;
use units::Nanos;

use super::{Sink, Socket, Transmitter};

/// Records that are sealed before they are handed down, where there is no pace: 64 KB in one system call. Paced it is one: what is sealed
/// cannot be taken back.
pub(super) const RECORDS_AT_ONCE_MAX: usize = 4;

/// Payload in which a record is not worth its header.
const RECORD_ROOM_MIN: u64 = 64;

/// What may leave at once.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// Of the response.
    pub bytes_max: u64,
    /// Of the connection's payload, records included.
    pub room_bytes: u64,
    /// Of which it is not more than this is sealed at a time.
    pub records_at_once: usize,
}

impl Allowance {
    /// So much, without a pace.
    pub fn unpaced(bytes_max: u64) -> Allowance {
        Allowance { bytes_max, room_bytes: u64::MAX, records_at_once: RECORDS_AT_ONCE_MAX }
    }

    /// A grant of so much, of which the connection may carry so much.
    pub fn paced(bytes_max: u64, room_bytes: u64) -> Allowance {
        Allowance { bytes_max, room_bytes, records_at_once: 1 }
    }
}

impl<S: Socket> Transmitter<S> {
    /// As much of a grant as is handed down at once: as the grant itself, it ends where a segment does.
    pub(super) fn allowance(&self, grant: Grant) -> Allowance {
        let job = self.drain.job(grant.job).expect("a granted job is in the system");
        let segment_bytes = job.framing().segment_bytes;
        let burst = self.marker.as_ref().filter(|_| !self.is_paced()).map(|marker| marker.burst_bytes / segment_bytes);
        let burst_bytes = burst.map_or(u64::MAX, |segments| segments.max(1) * segment_bytes);
        let sending = &self.sendings[grant.job];
        let pipe = &self.pipes[sending.pipe()];
        let overhead = pipe.record_overhead();
        if overhead == 0 || sending.outgoing.is_sealed {
            let over = if burst.is_some() { job.attained % segment_bytes } else { 0 };
            return Allowance::paced(grant.bytes_max.min(burst_bytes - over), grant.room_bytes);
        }
        // Under TLS segments are not those of the response's own bytes.
        let most_bytes = self.drain.pace().grant_bytes(job.framing()).min(burst_bytes);
        let left_bytes = most_bytes - sending.carried_bytes % segment_bytes;
        let room_bytes = if left_bytes > RECORD_ROOM_MIN { left_bytes } else { left_bytes + segment_bytes };
        if self.has_pace() || burst.is_some() {
            Allowance::paced(u64::MAX, room_bytes)
        } else {
            Allowance::unpaced(room_bytes)
        }
    }

    /// Hands down what answers the client's TLS, between responses; gives how many bytes left.
    pub fn send_sealed(&mut self, now: Nanos, at: usize) -> usize {
        let pipe = &mut self.pipes[at];
        let Some(session) = &mut pipe.session else { return 0 };
        let down = session.hand_down(&mut Down { socket: &pipe.socket, more: false });
        // What fails but for want of room fails again where the connection is read.
        self.on_control(now, at, down.bytes as u64);
        down.bytes
    }

    /// So much was sent on a connection between its responses: flights of a handshake, alerts. Nobody decides about those few bytes, and
    /// the link is charged for them.
    fn on_control(&mut self, now: Nanos, at: usize, payload_bytes: u64) {
        let charge_bytes = self.pipes[at].on_sent(payload_bytes);
        if self.is_paced() {
            self.correct(now, charge_bytes);
        }
    }
}

/// A socket that takes what is sealed.
pub struct Down<'a, S> {
    pub socket: &'a S,
    /// More follows at once.
    pub more: bool,
}

impl<S: Sink> Write for Down<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send(bytes, self.more)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match pieces {
            [bytes] => self.socket.send(bytes, self.more),
            pieces => self.socket.send_slices(pieces, self.more),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
