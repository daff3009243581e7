use std::ops::{Index, IndexMut};

use sched::grow::grow_to;
use sched::{JobId, Overrun, Progress, Scheduler};
use units::Nanos;
use units::memory::{Account, Charge};

use super::Bands;
use crate::body::Failure;
use crate::connection::Connection;
use crate::connection::Sent;
use crate::connection::{Departure, Outgoing};
use crate::exchange_id::ExchangeId;
use crate::net::Socket;
use crate::storage::ReadDone;

/// The number of KiB sent after which a response's path is queried again. The path is also queried when a response
/// begins and when its socket accepts bytes again. 64 KiB are a few TCP windows, and add one system call to fifty sends
/// of a segment.
const PATH_KIB: u16 = 64;

/// A response that is being sent.
pub struct Sending {
    pub id: JobId,
    /// The exchange that the response answers, which is the tag of the job. For the flight of a handshake, the tag is
    /// that of its connection, without a stream.
    pub exchange: ExchangeId,
    pub outgoing: Outgoing,
    pub sent_bytes: u64,
    /// The bytes, including records, that the connection carried for the response.
    pub carried_bytes: u64,
    /// The bytes that were reported to the caller as sent.
    reported_bytes: u64,
    /// The time of the first write; [`Nanos::MAX`] before that.
    first_byte_at: Nanos,
    /// The time of the last write; [`Nanos::MAX`] before the first.
    last_byte_at: Nanos,
    /// The number of KiB sent when the path was last queried, modulo 64 MiB.
    asked_at_kib: u16,
    /// The number of times the mark was set.
    marks: u8,
    /// The memory allocated for this response alone, without the memory that the body counts itself.
    _charge: Charge,
}

impl Sending {
    pub fn new(id: JobId, exchange: ExchangeId, account: &Account, mut outgoing: Outgoing, sent_bytes: u64) -> Sending {
        outgoing.shrink();
        outgoing.count_in(account);
        let [carried_bytes, reported_bytes] = [sent_bytes; 2];
        Sending {
            id,
            _charge: Charge::new(account, outgoing.made_bytes()),
            exchange,
            outgoing,
            sent_bytes,
            carried_bytes,
            reported_bytes,
            first_byte_at: Nanos::MAX,
            last_byte_at: Nanos::MAX,
            asked_at_kib: kib(sent_bytes),
            marks: 0,
        }
    }

    /// The slot of its connection.
    pub fn connection(&self) -> usize {
        self.exchange.slot()
    }

    /// Sets the mark of the bytes sent next. A response follows changes of its band at most as often as there are
    /// bands, so that marking costs it a bounded number of system calls.
    pub fn mark(&mut self, connection: &mut Connection<impl Socket>, bands: &Bands, band: u8) {
        if usize::from(self.marks) < bands.count() {
            let is_marked = bands.mark(&mut connection.socket, &mut connection.delivery.band, band);
            self.marks += u8::from(is_marked);
        }
    }

    /// Records the bytes that were handed down.
    pub fn on_sent(&mut self, now: Nanos, sent: &Sent) {
        if sent.bytes > 0 || sent.carried_bytes > 0 {
            self.first_byte_at = self.first_byte_at.min(now);
            self.last_byte_at = now;
        }
        self.sent_bytes += sent.bytes;
        self.carried_bytes += sent.carried_bytes;
    }

    /// Returns an overrun if the scheduler has counted more than the response's size, or has counted the whole size
    /// while bytes are left.
    pub fn overrun(&self, progress: Progress) -> Option<Overrun> {
        let left_bytes = match progress {
            Progress::Remains => 0,
            Progress::Overrun(overrun) => return Some(overrun),
            Progress::Departed => self.outgoing.remaining_bytes(),
        };
        let found_bytes = self.sent_bytes.saturating_add(left_bytes);
        (left_bytes > 0).then_some(Overrun { size_bytes: self.sent_bytes, found_bytes })
    }

    /// The time at which the job's bytes were last written to the connection.
    pub fn last_byte_at(&self) -> Option<Nanos> {
        Some(self.last_byte_at).filter(|at| *at != Nanos::MAX)
    }

    /// The bytes sent since the last call.
    pub fn report(&mut self) -> u64 {
        self.sent_bytes - std::mem::replace(&mut self.reported_bytes, self.sent_bytes)
    }

    /// Takes the bytes that another thread has read.
    pub fn on_read(&mut self, done: ReadDone, account: &Account) -> Result<(), Failure> {
        match done.result {
            Ok(mut buffer) => {
                buffer.count_in(account);
                self.outgoing.on_read(buffer)
            }
            Err(error) => Err(Failure::unreadable(self.outgoing.absent().0, error)),
        }
    }

    /// The memory in use, in bytes. Memory allocated for the response counts from its dispatch to its departure.
    #[cfg(test)]
    pub fn alive_bytes(&mut self) -> usize {
        self._charge.bytes() + self.outgoing.body().alive_bytes()
    }

    /// Reports the current path to the scheduler, if the policy uses it.
    pub fn tell_path(&mut self, connection: &Connection<impl Socket>, scheduler: &mut Scheduler) {
        self.asked_at_kib = kib(self.sent_bytes);
        scheduler.on_path(self.id, connection.socket.status().path);
    }

    /// Returns true if enough was sent since the last query for the path to have changed.
    pub fn is_path_old(&self) -> bool {
        kib(self.sent_bytes).wrapping_sub(self.asked_at_kib) >= PATH_KIB
    }

    pub fn into_departure(mut self, ended_at: Nanos, failure: Option<Failure>) -> Departure {
        let unreported_bytes = self.report();
        let Sending { id, exchange, sent_bytes, .. } = self;
        let first_byte_at = Some(self.first_byte_at).filter(|at| *at != Nanos::MAX);
        Departure { exchange, job: id, sent_bytes, unreported_bytes, failure, first_byte_at, ended_at }
    }
}

fn kib(bytes: u64) -> u16 {
    (bytes >> 10) as u16
}

/// The responses that are being sent, by their jobs. There is no iteration over all of them: an event on one connection
/// costs time for its own responses only, which the scheduler lists ([`sched::Jobs::on`]).
#[derive(Default)]
pub struct Sendings {
    by_slot: Vec<Option<Sending>>,
    /// The number of lookups.
    #[cfg(test)]
    looks: std::cell::Cell<u64>,
}

impl Sendings {
    pub(super) fn put(&mut self, sending: Sending) {
        let slot = sending.id.slot();
        grow_to(&mut self.by_slot, slot + 1, || None);
        self.by_slot[slot] = Some(sending);
    }

    /// The response of a job; `None` if it has departed.
    pub(super) fn get(&self, id: JobId) -> Option<&Sending> {
        self.note_look();
        self.by_slot.get(id.slot())?.as_ref().filter(|sending| sending.id == id)
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Sending> {
        self.note_look();
        self.by_slot.get_mut(id.slot())?.as_mut().filter(|sending| sending.id == id)
    }

    /// The stream number of a response that has not departed.
    pub(super) fn stream(&self, id: JobId) -> Option<u32> {
        self.get(id).map(|sending| sending.exchange.stream)
    }

    pub(super) fn take(&mut self, id: JobId) -> Sending {
        self.note_look();
        self.by_slot[id.slot()].take_if(|sending| sending.id == id).expect("a job departs once")
    }

    /// The bytes of a response that were sent since the last call, or since it was dispatched.
    pub fn unreported_bytes(&mut self, id: JobId) -> u64 {
        self.get_mut(id).map_or(0, Sending::report)
    }

    /// All bytes of a response that were sent, including its head; 0 if it has departed.
    pub fn sent_bytes(&self, id: JobId) -> u64 {
        self.get(id).map_or(0, |sending| sending.sent_bytes)
    }

    pub fn capacity(&self) -> usize {
        self.by_slot.capacity()
    }

    /// Frees the memory of the slots from `slots` on, which are unused.
    pub(super) fn truncate(&mut self, slots: usize) {
        self.by_slot.truncate(slots);
        self.by_slot.shrink_to_fit();
    }

    #[cfg(test)]
    pub(super) fn looks(&self) -> u64 {
        self.looks.get()
    }

    fn note_look(&self) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
    }
}

impl Index<JobId> for Sendings {
    type Output = Sending;

    fn index(&self, id: JobId) -> &Sending {
        self.get(id).expect("a granted job is being sent")
    }
}

impl IndexMut<JobId> for Sendings {
    fn index_mut(&mut self, id: JobId) -> &mut Sending {
        self.get_mut(id).expect("a granted job is being sent")
    }
}
