//! The ready jobs, smallest (rank, arrival number) first.
//!
//! The queue is an indexed binary heap. Keys are stored inline so that sifting touches one array, and a position per
//! slot lets any job be re-ranked or removed in O(log n) without a search and without leaving dead entries behind. It
//! allocates only if more jobs are in the system than ever before.

use crate::grow::{grow_to, reserve_one};

/// The order of the queue: rank, then arrival number. Numbers differ, so no two keys are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub rank: u64,
    pub number: u64,
}

const ABSENT: u32 = u32::MAX;

#[derive(Debug, Default)]
pub struct RunQueue {
    heap: Vec<(Key, u32)>,
    /// The position of each slot in `heap`, or `ABSENT`.
    places: Vec<u32>,
}

impl RunQueue {
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn contains(&self, slot: u32) -> bool {
        self.places.get(slot as usize).is_some_and(|at| *at != ABSENT)
    }

    /// Returns the slot with the smallest key.
    pub fn first(&self) -> Option<u32> {
        self.heap.first().map(|&(_, slot)| slot)
    }

    /// Puts the slot in its position, whether or not it is in the queue already.
    pub fn set(&mut self, slot: u32, key: Key) {
        grow_to(&mut self.places, slot as usize + 1, || ABSENT);
        let at = match self.places[slot as usize] {
            ABSENT => {
                reserve_one(&mut self.heap);
                self.heap.push((key, slot));
                self.heap.len() - 1
            }
            at => {
                self.heap[at as usize].0 = key;
                at as usize
            }
        };
        self.settle(at);
    }

    /// Gives every slot a new rank, O(n).
    pub fn rerank(&mut self, rank: impl Fn(u32) -> u64) {
        for (key, slot) in &mut self.heap {
            key.rank = rank(*slot);
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
    }

    /// Returns the smallest key and its slot.
    pub fn first_entry(&self) -> Option<(Key, u32)> {
        self.heap.first().copied()
    }

    /// Removes the slot; does nothing if it is not in the queue.
    pub fn remove(&mut self, slot: u32) {
        let Some(&at) = self.places.get(slot as usize) else { return };
        if at == ABSENT {
            return;
        }
        let at = at as usize;
        self.places[slot as usize] = ABSENT;
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.settle(at);
        }
    }

    /// Moves an entry up or down to its position.
    fn settle(&mut self, at: usize) {
        if self.sift_up(at) == at {
            self.sift_down(at);
        }
    }

    fn sift_up(&mut self, mut at: usize) -> usize {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent].0 <= entry.0 {
                break;
            }
            self.put(at, self.heap[parent]);
            at = parent;
        }
        self.put(at, entry);
        at
    }

    fn sift_down(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1].0 < self.heap[child].0 {
                child += 1;
            }
            if entry.0 <= self.heap[child].0 {
                break;
            }
            self.put(at, self.heap[child]);
            at = child;
        }
        self.put(at, entry);
    }

    fn put(&mut self, at: usize, entry: (Key, u32)) {
        self.heap[at] = entry;
        self.places[entry.1 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Any sequence of insertions, re-rankings and removals leaves the smallest key first, as a sorted map does.
        #[test]
        fn agrees_with_a_sorted_map(steps in prop::collection::vec((0u32..24, prop::option::of(0u64..8)), 1..400)) {
            let mut queue = RunQueue::default();
            let mut model: BTreeMap<u32, Key> = BTreeMap::new();
            for (slot, rank) in steps {
                match rank {
                    Some(rank) => {
                        let key = Key { rank, number: u64::from(slot) };
                        queue.set(slot, key);
                        model.insert(slot, key);
                    }
                    // This step changes all ranks together.
                    None if slot == 0 => {
                        queue.rerank(|slot| u64::from(slot * 7 % 5));
                        model.iter_mut().for_each(|(slot, key)| key.rank = u64::from(slot * 7 % 5));
                    }
                    None => {
                        queue.remove(slot);
                        model.remove(&slot);
                    }
                }
                let least = model.iter().min_by_key(|(_, key)| **key).map(|(slot, _)| *slot);
                prop_assert_eq!(queue.first(), least);
                prop_assert_eq!(queue.len(), model.len());
                (0..24).try_for_each(|slot| { prop_assert_eq!(queue.contains(slot), model.contains_key(&slot)); Ok(()) })?;
            }
        }
    }
}
