//! The event calendar. Events of one instant are returned in the order in which they were added, so a run never depends
//! on the shape of the heap.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use units::Nanos;

pub struct Calendar<T> {
    heap: BinaryHeap<Entry<T>>,
    order: u64,
}

struct Entry<T> {
    at: Nanos,
    order: u64,
    event: T,
}

impl<T> Calendar<T> {
    pub fn new() -> Calendar<T> {
        Calendar { heap: BinaryHeap::new(), order: 0 }
    }

    pub fn push(&mut self, at: Nanos, event: T) {
        self.heap.push(Entry { at, order: self.order, event });
        self.order += 1;
    }

    pub fn pop(&mut self) -> Option<(Nanos, T)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

/// The earliest entry is the greatest.
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Entry<T>) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Entry<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Entry<T>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn by_time_and_then_by_order(times in prop::collection::vec((0u64..20, any::<bool>()), 0..200)) {
            let mut calendar = Calendar::new();
            let mut waiting: Vec<(u64, usize)> = Vec::new();
            for (number, &(at, pops)) in times.iter().enumerate() {
                calendar.push(Nanos(at), number);
                waiting.push((at, number));
                if pops {
                    waiting.sort();
                    let (at, number) = waiting.remove(0);
                    prop_assert_eq!(calendar.pop(), Some((Nanos(at), number)));
                }
            }
            waiting.sort();
            for (at, number) in waiting {
                prop_assert_eq!(calendar.pop(), Some((Nanos(at), number)));
            }
            prop_assert_eq!(calendar.pop(), None);
        }
    }
}
