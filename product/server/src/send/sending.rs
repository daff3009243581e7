use sched::{JobId, Overrun, Progress, Scheduler};
use units::Nanos;
use units::memory::{Account, Charge};

use super::Bands;
use crate::body::Failure;
use crate::connection::Connection;
use crate::connection::Sent;
use crate::connection::{Departure, Outgoing};
use crate::net::Socket;
use crate::storage::ReadDone;

/// A path is asked for when a response begins, when its socket takes bytes again, and after this many bytes: a few
/// windows of TCP, and one system call to fifty sends of a segment.
const PATH_BYTES: u32 = 64 << 10;

/// A response that is being sent.
pub struct Sending {
    pub id: JobId,
    /// The place of its connection.
    connection: u32,
    /// The number of its stream, where its connection has several.
    pub stream: u32,
    pub outgoing: Outgoing,
    pub sent_bytes: u64,
    /// What its connection carried for it, records included.
    pub carried_bytes: u64,
    /// What the caller knows to be sent.
    told_bytes: u64,
    /// [`Nanos::MAX`]: none.
    first_byte_at: Nanos,
    /// As that: of the bytes that were handed down last.
    last_byte_at: Nanos,
    /// What had been sent when the kernel was last asked about the connection, but for multiples of 4 GiB.
    asked_at_bytes: u32,
    /// How often the kernel was told something.
    marks: u8,
    /// The memory that was made for this response alone, but for what its body counts itself.
    _charge: Charge,
}

impl Sending {
    pub fn new(id: JobId, connection: usize, account: &Account, mut outgoing: Outgoing, sent_bytes: u64) -> Sending {
        outgoing.shrink();
        let [carried_bytes, told_bytes] = [sent_bytes; 2];
        let asked_at_bytes = sent_bytes as u32;
        Sending {
            id,
            _charge: Charge::new(account, outgoing.made_bytes()),
            connection: u32::try_from(connection).expect("no more connections than jobs may be"),
            stream: 0,
            outgoing,
            sent_bytes,
            carried_bytes,
            told_bytes,
            first_byte_at: Nanos::MAX,
            last_byte_at: Nanos::MAX,
            asked_at_bytes,
            marks: 0,
        }
    }

    /// The place of its connection.
    pub fn connection(&self) -> usize {
        self.connection as usize
    }

    /// Sees to it that what is sent next carries its mark. A band that comes and goes with the path is followed as often as
    /// there are bands, so that marking costs a response a bounded number of system calls.
    pub fn mark(&mut self, connection: &mut Connection<impl Socket>, bands: &Bands, band: u8) {
        if usize::from(self.marks) < bands.count() {
            let is_marked = bands.mark(&mut connection.socket, &mut connection.delivery.band, band);
            self.marks += u8::from(is_marked);
        }
    }

    /// So much of it was handed down.
    pub fn on_sent(&mut self, now: Nanos, sent: &Sent) {
        if sent.bytes > 0 || sent.carried_bytes > 0 {
            self.first_byte_at = self.first_byte_at.min(now);
            self.last_byte_at = now;
        }
        self.sent_bytes += sent.bytes;
        self.carried_bytes += sent.carried_bytes;
    }

    /// The scheduler has counted more of it than its size, or all of that while more is left.
    pub fn overrun(&self, progress: Progress) -> Option<Overrun> {
        let left_bytes = match progress {
            Progress::Remains => 0,
            Progress::Overrun(overrun) => return Some(overrun),
            Progress::Departed => self.outgoing.remaining_bytes(),
        };
        let found_bytes = self.sent_bytes.saturating_add(left_bytes);
        (left_bytes > 0).then_some(Overrun { size_bytes: self.sent_bytes, found_bytes })
    }

    /// When bytes of it were last handed down as a job's.
    pub fn last_byte_at(&self) -> Option<Nanos> {
        Some(self.last_byte_at).filter(|at| *at != Nanos::MAX)
    }

    /// The same, on a stream.
    pub fn on_stream(self, number: u32) -> Sending {
        Sending { stream: number, ..self }
    }

    /// What was sent since this was last asked.
    pub fn tell(&mut self) -> u64 {
        self.sent_bytes - std::mem::replace(&mut self.told_bytes, self.sent_bytes)
    }

    /// Takes what was read aside.
    pub fn on_read(&mut self, done: ReadDone, account: &Account) -> Result<(), Failure> {
        match done.result {
            Ok(mut buffer) => {
                buffer.count_in(account);
                self.outgoing.on_read(buffer)
            }
            Err(error) => Err(Failure::unreadable(self.outgoing.absent().0, error)),
        }
    }

    /// Bytes of memory that are alive: what was made for it is counted from its dispatch to its departure.
    #[cfg(test)]
    pub fn alive_bytes(&mut self) -> usize {
        self._charge.bytes() + self.outgoing.body().alive_bytes()
    }

    /// Tells a policy that looks at paths how this one is now.
    pub fn tell_path(&mut self, connection: &Connection<impl Socket>, scheduler: &mut Scheduler) {
        self.asked_at_bytes = self.sent_bytes as u32;
        scheduler.on_path(self.id, connection.socket.status().path);
    }

    /// Whether so much was sent since the kernel was last asked that the path may have changed.
    pub fn is_path_old(&self) -> bool {
        (self.sent_bytes as u32).wrapping_sub(self.asked_at_bytes) >= PATH_BYTES
    }

    pub fn into_departure(mut self, owner: u64, ended_at: Nanos, failure: Option<Failure>) -> Departure {
        let untold_bytes = self.tell();
        let Sending { id, stream, sent_bytes, .. } = self;
        let first_byte_at = Some(self.first_byte_at).filter(|at| *at != Nanos::MAX);
        Departure { owner, job: id, stream, sent_bytes, untold_bytes, failure, first_byte_at, ended_at }
    }
}
