use std::ops::{Index, IndexMut};

use sched::JobId;
use sched::grow::grow_to;

use super::sending::Sending;

/// The responses that are being sent, by their jobs. There is no iteration over all of them: an event on one connection
/// costs time for its own responses only, which the scheduler lists ([`sched::Jobs::on`]).
#[derive(Default)]
pub struct Sendings {
    by_slot: Vec<Option<Sending>>,
    /// The number of look-ups.
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

    /// The number of the stream of a response that has not departed.
    pub(super) fn stream(&self, id: JobId) -> Option<u32> {
        self.get(id).map(|sending| sending.exchange.stream)
    }

    pub(super) fn take(&mut self, id: JobId) -> Sending {
        self.note_look();
        self.by_slot[id.slot()].take_if(|sending| sending.id == id).expect("a job departs once")
    }

    /// The bytes sent of a response since the last call, or since it was dispatched.
    pub fn unreported_bytes(&mut self, id: JobId) -> u64 {
        self.get_mut(id).map_or(0, Sending::report)
    }

    /// All bytes sent of a response, head included; 0 if it has departed.
    pub fn sent_bytes(&self, id: JobId) -> u64 {
        self.get(id).map_or(0, |sending| sending.sent_bytes)
    }

    pub fn capacity(&self) -> usize {
        self.by_slot.capacity()
    }

    /// Frees the slots from `slots` on, which are unused.
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
