//! The event calendar: a heap with four children per node, which halves the depth of a binary heap and keeps the
//! children of a node on one or two cache lines. Events of one instant are returned in the order in which they were
//! added, so a run never depends on the shape of the heap.

use units::Nanos;

pub struct Calendar<T> {
    heap: Vec<(u128, T)>,
    order: u64,
}

const CHILDREN: usize = 4;

impl<T: Copy> Calendar<T> {
    pub fn new() -> Calendar<T> {
        Calendar { heap: Vec::new(), order: 0 }
    }

    pub fn push(&mut self, at: Nanos, event: T) {
        let key = u128::from(at.0) << 64 | u128::from(self.order);
        self.order += 1;
        let mut hole = self.heap.len();
        self.heap.push((key, event));
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if self.heap[parent].0 <= key {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = (key, event);
    }

    pub fn pop(&mut self) -> Option<(Nanos, T)> {
        let last = self.heap.pop()?;
        let Some(&first) = self.heap.first() else { return Some((instant(last.0), last.1)) };
        self.sink(last);
        Some((instant(first.0), first.1))
    }

    /// Moves the entry from the root down until its children are larger.
    fn sink(&mut self, entry: (u128, T)) {
        let mut hole = 0;
        loop {
            let first = hole * CHILDREN + 1;
            if first >= self.heap.len() {
                break;
            }
            let end = (first + CHILDREN).min(self.heap.len());
            let mut least = first;
            for child in first + 1..end {
                if self.heap[child].0 < self.heap[least].0 {
                    least = child;
                }
            }
            if self.heap[least].0 >= entry.0 {
                break;
            }
            self.heap[hole] = self.heap[least];
            hole = least;
        }
        self.heap[hole] = entry;
    }
}

fn instant(key: u128) -> Nanos {
    Nanos((key >> 64) as u64)
}

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
