//! The jobs of one class, in order. Slots and clients get small numbers within the class, so that the cost of a class
//! depends only on its own jobs and clients.

use std::collections::HashMap;

use crate::policy::{ByClient, ClientShare, ClientTraits, Order, Policy};
use crate::{Job, Path, grow};

/// The minimum number of jobless clients that are remembered. Above it, clients that are not ahead are forgotten.
const REMEMBERED_MIN: usize = 64;

/// The unit that shares a class: a client or, if clients do not share the link, a single response or connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sharer {
    pub number: u32,
    /// The generation of the number: the same number in another generation is another sharer.
    pub generation: u32,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    number: u32,
    jobs: u32,
}

/// A job's slot and its sharer, as numbered within the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local {
    pub slot: u32,
    client: u32,
}

pub struct Lane {
    inner: ByClient,
    /// Maps the lane's slots to the scheduler's slots.
    slots: Vec<u32>,
    vacant: Vec<u32>,
    sharers: HashMap<Sharer, Known>,
    numbers: u32,
    free_numbers: Vec<u32>,
    remembered_max: usize,
    /// True if clients are remembered. Without a share no client is ahead, and none is remembered.
    remembers: bool,
}

impl Lane {
    pub fn new(order: &Order, share: Option<ClientShare>) -> Lane {
        let even = ClientShare { allowance_bytes: u64::MAX, idle_bytes_per_s: 0 };
        Lane {
            inner: order.among_clients(share.unwrap_or(even)),
            slots: Vec::new(),
            vacant: Vec::new(),
            sharers: HashMap::new(),
            numbers: 0,
            free_numbers: Vec::new(),
            remembered_max: REMEMBERED_MIN,
            remembers: share.is_some(),
        }
    }

    /// Returns the scheduler slot of the best ready job.
    pub fn first(&self) -> Option<u32> {
        self.inner.first().map(|local| self.slots[local as usize])
    }

    /// Admits a new job.
    pub fn admit(&mut self, slot: u32, sharer: Sharer, traits: ClientTraits, job: &Job, path: Option<&Path>) -> Local {
        let client = self.number_of(sharer, traits);
        let at = self.vacant.pop().unwrap_or_else(|| {
            grow::reserve_one(&mut self.slots);
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        });
        self.slots[at as usize] = slot;
        let local = Local { slot: at, client };
        if let Some(path) = path {
            self.inner.on_path(at, path);
        }
        self.inner.on_arrival(at, &Lane::seen(local, job));
        local
    }

    /// Removes a job that is gone.
    pub fn dismiss(&mut self, local: Local, sharer: Sharer, job: &Job) {
        self.inner.on_departure(local.slot, &Lane::seen(local, job));
        self.vacant.push(local.slot);
        let Some(known) = self.sharers.get_mut(&sharer) else { return };
        known.jobs -= 1;
        if known.jobs == 0 && !self.remembers {
            self.forget(sharer);
        } else if self.sharers.len() > self.remembered_max {
            self.forget_even();
        }
    }

    pub fn on_path(&mut self, local: Local, path: &Path) {
        self.inner.on_path(local.slot, path);
    }

    pub fn enqueue(&mut self, local: Local, job: &Job) {
        self.inner.enqueue(local.slot, &Lane::seen(local, job));
    }

    pub fn dequeue(&mut self, local: Local, job: &Job) {
        self.inner.dequeue(local.slot, &Lane::seen(local, job));
    }

    pub fn on_sent(&mut self, local: Local, job: &Job, bytes: u64) {
        self.inner.on_sent(local.slot, &Lane::seen(local, job), bytes);
    }

    pub fn on_size(&mut self, local: Local, before: &Job, job: &Job) {
        self.inner.on_size(local.slot, &Lane::seen(local, before), &Lane::seen(local, job));
    }

    pub fn within(&self, local: Local, job: &Job) -> u64 {
        self.inner.within(local.slot, &Lane::seen(local, job))
    }

    pub fn size_rank(&self, local: Local, job: &Job) -> Option<u64> {
        self.inner.size_rank(local.slot, &Lane::seen(local, job))
    }

    /// Records that nothing was ready in this lane for this amount of link time.
    pub fn on_idle(&mut self, idle: units::Nanos) {
        self.inner.on_idle(idle);
    }

    pub fn ahead_bytes(&self, sharer: Sharer) -> Option<u64> {
        self.inner.ahead_bytes(self.sharers.get(&sharer)?.number)
    }

    /// Returns the job with the lane's numbers.
    fn seen(local: Local, job: &Job) -> Job {
        Job { client: local.client, ..job.clone() }
    }

    fn number_of(&mut self, sharer: Sharer, traits: ClientTraits) -> u32 {
        if let Some(known) = self.sharers.get_mut(&sharer) {
            known.jobs += 1;
            return known.number;
        }
        let number = self.free_numbers.pop().unwrap_or_else(|| {
            self.numbers += 1;
            self.numbers - 1
        });
        self.sharers.insert(sharer, Known { number, jobs: 1 });
        self.inner.on_client(number, traits);
        number
    }

    fn forget(&mut self, sharer: Sharer) {
        if let Some(known) = self.sharers.remove(&sharer) {
            self.free_numbers.push(known.number);
        }
    }

    /// Forgets sharers without jobs that are not ahead.
    fn forget_even(&mut self) {
        let is_even = |known: &Known| known.jobs == 0 && self.inner.ahead_bytes(known.number) == Some(0);
        let even: Vec<Sharer> =
            self.sharers.iter().filter(|(_, known)| is_even(known)).map(|(sharer, _)| *sharer).collect();
        even.into_iter().for_each(|sharer| self.forget(sharer));
        self.remembered_max = (2 * self.sharers.len()).max(REMEMBERED_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    const NOBODY_AHEAD: ClientShare = ClientShare { allowance_bytes: 1000, idle_bytes_per_s: 1 };

    fn job(number: u64) -> Job {
        Job { number, ..Job::of_size(Size::Known(10)) }
    }

    fn come_and_go(lane: &mut Lane, slot: u32, bytes: u64) {
        let sharer = Sharer { number: slot, generation: 0 };
        let job = job(slot.into());
        let local = lane.admit(slot, sharer, ClientTraits::default(), &job, None);
        lane.enqueue(local, &job);
        assert_eq!(lane.first(), Some(slot));
        lane.on_sent(local, &job, bytes);
        lane.dequeue(local, &job);
        lane.dismiss(local, sharer, &job);
        assert_eq!(lane.first(), None);
    }

    #[test]
    fn what_it_holds_depends_on_its_own_jobs() {
        let mut lane = Lane::new(&Order::Srpt, None);
        for slot in 0..10_000 {
            come_and_go(&mut lane, slot * 100, 10);
        }
        assert_eq!((lane.slots.len(), lane.numbers, lane.sharers.len()), (1, 1, 0));
    }

    #[test]
    fn clients_that_are_not_ahead_are_forgotten() {
        let mut lane = Lane::new(&Order::Srpt, Some(NOBODY_AHEAD));
        for slot in 0..10_000 {
            come_and_go(&mut lane, slot, 10);
        }
        assert!(lane.sharers.len() <= 2 * REMEMBERED_MIN, "{}", lane.sharers.len());
        assert_eq!(lane.slots.len(), 1);
    }

    #[test]
    fn a_client_that_is_ahead_is_remembered() {
        let mut lane = Lane::new(&Order::Srpt, Some(NOBODY_AHEAD));
        come_and_go(&mut lane, 0, 1_000_000);
        (1..200).for_each(|slot| come_and_go(&mut lane, slot, 10));
        assert!(lane.ahead_bytes(Sharer { number: 0, generation: 0 }).is_some_and(|bytes| bytes > 400_000));
        assert_eq!(lane.ahead_bytes(Sharer { number: 0, generation: 1 }), None, "another client of that number");
    }
}
