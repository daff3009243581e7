//! Meldable heaps of jobs by service: pairing heaps (Fredman, Sedgewick, Sleator & Tarjan, "The pairing heap", 1986) in
//! one arena. Melding is O(1), removing the first job O(log n) amortised.

use super::station::Flight;

const NONE: u32 = u32::MAX;

#[derive(Default)]
pub struct Melds {
    nodes: Vec<Node>,
    vacant: Vec<u32>,
    /// Scratch memory of [`Melds::pop`].
    pairs: Vec<u32>,
}

struct Node {
    flight: Flight,
    child: u32,
    sibling: u32,
}

impl Melds {
    /// Creates a heap of one job, identified by its root.
    pub fn single(&mut self, flight: Flight) -> u32 {
        let node = Node { flight, child: NONE, sibling: NONE };
        match self.vacant.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    pub fn flight(&self, root: u32) -> &Flight {
        &self.nodes[root as usize].flight
    }

    /// Returns the heap with the jobs of both.
    pub fn meld(&mut self, a: u32, b: u32) -> u32 {
        let key = |node: u32| {
            let flight = &self.nodes[node as usize].flight;
            (flight.service, flight.number)
        };
        let (root, child) = if key(a) <= key(b) { (a, b) } else { (b, a) };
        self.nodes[child as usize].sibling = self.nodes[root as usize].child;
        self.nodes[root as usize].child = child;
        root
    }

    /// Removes the root. Returns its job, and the root of the remaining heap if it is not empty.
    pub fn pop(&mut self, root: u32) -> (Flight, Option<u32>) {
        let mut next = self.nodes[root as usize].child;
        while next != NONE {
            let first = next;
            let second = std::mem::replace(&mut self.nodes[first as usize].sibling, NONE);
            if second == NONE {
                self.pairs.push(first);
                break;
            }
            next = std::mem::replace(&mut self.nodes[second as usize].sibling, NONE);
            let pair = self.meld(first, second);
            self.pairs.push(pair);
        }
        let mut rest = self.pairs.pop();
        while let (Some(a), Some(b)) = (rest, self.pairs.pop()) {
            rest = Some(self.meld(a, b));
        }
        self.vacant.push(root);
        (self.nodes[root as usize].flight, rest)
    }

    /// Returns every job of the heap, in any order.
    pub fn all(&self, root: u32) -> Vec<Flight> {
        let (mut found, mut pending) = (Vec::new(), vec![root]);
        while let Some(at) = pending.pop() {
            let node = &self.nodes[at as usize];
            found.push(node.flight);
            pending.extend([node.child, node.sibling].into_iter().filter(|&next| next != NONE));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Nanos;

    proptest! {
        /// Melding and removing in any order is equivalent to a sorted list.
        #[test]
        fn agrees_with_sorting(groups in prop::collection::vec(prop::collection::vec(1u64..50, 1..30), 1..6)) {
            let mut melds = Melds::default();
            let (mut number, mut root, mut model) = (0, None, Vec::new());
            for group in groups {
                for service in group {
                    let flight = Flight {
                        number,
                        arrival: Nanos(0),
                        service: Nanos(service),
                        size_bytes: 1,
                        class: 0,
                        client: 0,
                        is_closed: false,
                        user: None,
                        stream: None,
                    };
                    number += 1;
                    model.push((service, flight.number));
                    let single = melds.single(flight);
                    root = Some(root.map_or(single, |root| melds.meld(root, single)));
                }
                model.sort();
                let (first, rest) = melds.pop(root.unwrap());
                prop_assert_eq!((first.service.0, first.number), model.remove(0));
                root = rest;
                prop_assert_eq!(root.map_or(0, |root| melds.all(root).len()), model.len());
            }
        }
    }
}
