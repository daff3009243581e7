//! Room for connections, counted over all workers. The kernel spreads clients over the workers' listening sockets by a
//! hash, so a share for each worker would keep some clients waiting at a full worker while another has room.
//!
//! A worker that finds no room records that it waits. Giving a place back wakes it, and a worker that has an idle
//! connection closes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

use units::Nanos;

use crate::wake::Wake;

pub struct Places {
    max: AtomicUsize,
    taken: AtomicUsize,
    /// An entry per worker.
    waiting: Vec<Waiting>,
    /// The number of waiting workers, so that not every entry has to be checked.
    waiting_count: AtomicUsize,
    /// The time of the last report of a shortage, in nanoseconds; 0 before the first report.
    told_at: AtomicU64,
}

/// The minimum interval between two reports of a shortage.
const TELL_EVERY: Nanos = Nanos::from_secs(60);

struct Waiting {
    is_waiting: AtomicBool,
    wake: Arc<Wake>,
}

impl Places {
    pub fn new(max: usize, wakes: &[Arc<Wake>]) -> Places {
        let waiting = |wake: &Arc<_>| Waiting { is_waiting: AtomicBool::new(false), wake: Arc::clone(wake) };
        Places {
            max: AtomicUsize::new(max),
            taken: AtomicUsize::new(0),
            waiting: wakes.iter().map(waiting).collect(),
            waiting_count: AtomicUsize::new(0),
            told_at: AtomicU64::new(0),
        }
    }

    pub fn max(&self) -> usize {
        self.max.load(SeqCst)
    }

    /// The number of connections that have a place.
    pub fn taken(&self) -> usize {
        self.taken.load(SeqCst)
    }

    /// Sets the maximum. Places already taken stay taken, even if they exceed it.
    pub fn set_max(&self, max: usize) {
        self.max.store(max, SeqCst);
        self.wake_waiting();
    }

    /// The number of workers that share the places.
    pub fn workers(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a place. Returns false if there is none.
    pub fn take(&self) -> bool {
        self.taken.fetch_update(SeqCst, SeqCst, |taken| (taken < self.max()).then_some(taken + 1)).is_ok()
    }

    pub fn give_back(&self) {
        self.taken.fetch_sub(1, SeqCst);
        self.wake_waiting();
    }

    fn wake_waiting(&self) {
        if self.is_wanted() {
            self.waiting.iter().filter(|one| one.is_waiting.load(SeqCst)).for_each(|one| one.wake.set());
        }
    }

    pub fn has_room(&self) -> bool {
        self.taken.load(SeqCst) < self.max()
    }

    /// Records that a client waits at this worker. The caller must check for a place again afterwards, because a place
    /// that was given back just before wakes no worker.
    pub fn wait(&self, worker: usize) {
        if !self.waiting[worker].is_waiting.swap(true, SeqCst) {
            self.waiting_count.fetch_add(1, SeqCst);
        }
        // The other workers may have idle connections.
        self.waiting.iter().enumerate().filter(|(at, _)| *at != worker).for_each(|(_, other)| other.wake.set());
    }

    pub fn wait_no_more(&self, worker: usize) {
        if self.waiting[worker].is_waiting.swap(false, SeqCst) {
            self.waiting_count.fetch_sub(1, SeqCst);
        }
    }

    /// Returns true if a client waits at some worker.
    pub fn is_wanted(&self) -> bool {
        self.waiting_count.load(SeqCst) > 0
    }

    /// Returns true if a shortage should be reported now.
    pub fn tell(&self, now: Nanos) -> bool {
        let is_due = |told_at| (told_at == 0 || now - Nanos(told_at) >= TELL_EVERY).then_some(now.0.max(1));
        self.told_at.fetch_update(SeqCst, SeqCst, is_due).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(max: usize) -> (Places, Vec<Arc<Wake>>) {
        let wakes: Vec<_> = (0..2).map(|_| Arc::new(Wake::new().unwrap())).collect();
        (Places::new(max, &wakes), wakes)
    }

    fn is_woken(wake: &Wake) -> bool {
        rustix::io::read(wake, &mut [0u8; 8]).is_ok()
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let (places, _) = of(2);
        assert!(places.take() && places.take() && !places.take() && !places.has_room());
        places.give_back();
        assert!(places.has_room() && places.take() && !places.take());
    }

    #[test]
    fn who_waits_is_woken_where_there_is_more_room() {
        let (places, wakes) = of(1);
        assert!(places.take() && !places.take());
        places.wait(0);
        places.set_max(2);
        assert!(is_woken(&wakes[0]) && places.take());
        places.set_max(1);
        places.give_back();
        assert!(!places.take(), "one is taken, of one");
        places.give_back();
        assert!(places.take());
    }

    #[test]
    fn who_waits_is_woken_by_whoever_leaves() {
        let (places, wakes) = of(1);
        assert!(places.take());
        places.wait(0);
        assert!(places.is_wanted());
        assert!(is_woken(&wakes[1]) && !is_woken(&wakes[0]), "the others are asked for room");
        places.give_back();
        assert!(is_woken(&wakes[0]) && !is_woken(&wakes[1]));
        places.wait_no_more(0);
        assert!(!places.is_wanted());
    }

    #[test]
    fn a_shortage_is_told_now_and_then() {
        let (places, _) = of(16);
        let second = Nanos::from_secs;
        assert!(places.tell(second(5)) && !places.tell(second(5)) && !places.tell(second(64)));
        assert!(places.tell(second(65)) && !places.tell(second(66)));
    }
}
