//! The ready jobs in order of (rank, arrival number), each with a value, and the greatest value among all below a rank.
//!
//! A treap (Seidel & Aragon, "Randomized search trees", 1996) in which every node knows the greatest value of its subtree:
//! insertion, removal and the question all take O(log n). A node stands at its slot, so nothing is allocated but
//! when more jobs are in the system than ever before. Priorities are a hash of the arrival number: the same jobs make the
//! same tree.

use crate::run_queue::Key;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub struct Tree {
    /// By slot.
    nodes: Vec<Node>,
    root: u32,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    key: Key,
    value: u64,
    /// The greatest value in the subtree, and whose it is: the first in key order if several have it.
    best_value: u64,
    best: u32,
    left: u32,
    right: u32,
    is_in: bool,
}

const VACANT: Node = Node {
    key: Key { rank: 0, number: 0 },
    value: 0,
    best_value: 0,
    best: NONE,
    left: NONE,
    right: NONE,
    is_in: false,
};

impl Default for Tree {
    fn default() -> Tree {
        Tree { nodes: Vec::new(), root: NONE }
    }
}

impl Tree {
    /// Puts the slot at its place, whether or not it was in the tree.
    pub fn set(&mut self, slot: u32, key: Key, value: u64) {
        if self.nodes.len() <= slot as usize {
            self.nodes.resize(slot as usize + 1, VACANT);
        }
        let node = &self.nodes[slot as usize];
        if node.is_in && node.key == key && node.value == value {
            return;
        }
        if node.is_in && node.value == value && self.keeps_place(slot, key) {
            self.nodes[slot as usize].key = key;
            return;
        }
        self.remove(slot);
        self.nodes[slot as usize] = Node { key, value, best_value: value, best: slot, is_in: true, ..VACANT };
        self.root = self.insert(self.root, slot);
    }

    /// Takes the slot out; a no-op if it is not in.
    pub fn remove(&mut self, slot: u32) {
        if self.nodes.get(slot as usize).is_some_and(|node| node.is_in) {
            self.root = self.without(self.root, slot);
            self.nodes[slot as usize].is_in = false;
        }
    }

    /// The least key.
    pub fn least(&self) -> Option<Key> {
        let mut at = self.root;
        let mut least = None;
        while at != NONE {
            least = Some(self.node(at).key);
            at = self.node(at).left;
        }
        least
    }

    /// The slot with the greatest value among those whose rank satisfies the condition, the least key among equals.
    /// Whatever rank satisfies it, lower ones have to as well.
    pub fn best_while(&self, is_within: impl Fn(u64) -> bool) -> Option<u32> {
        let mut best: Option<(u64, u32)> = None;
        let mut better = |value, slot| {
            if best.is_none_or(|(most, _)| value > most) {
                best = Some((value, slot));
            }
        };
        let mut at = self.root;
        while at != NONE {
            let node = self.node(at);
            if is_within(node.key.rank) {
                if node.left != NONE {
                    better(self.node(node.left).best_value, self.node(node.left).best);
                }
                better(node.value, at);
                at = node.right;
            } else {
                at = node.left;
            }
        }
        best.map(|(_, slot)| slot)
    }

    /// Whether the slot, which is in the tree, would stand between the same two with this key: a job that has sent some
    /// more mostly does, and a walk down is cheaper than taking it out and putting it in.
    fn keeps_place(&self, slot: u32, key: Key) -> bool {
        let is = self.node(slot);
        let (mut below, mut above) = (None, None);
        let mut at = self.root;
        while at != slot {
            let node = self.node(at);
            if is.key < node.key {
                (above, at) = (Some(node.key), node.left);
            } else {
                (below, at) = (Some(node.key), node.right);
            }
        }
        at = is.left;
        while at != NONE {
            (below, at) = (Some(self.node(at).key), self.node(at).right);
        }
        at = is.right;
        while at != NONE {
            (above, at) = (Some(self.node(at).key), self.node(at).left);
        }
        below.is_none_or(|below| below < key) && above.is_none_or(|above| key < above)
    }

    /// The subtree with the slot in it.
    fn insert(&mut self, at: u32, slot: u32) -> u32 {
        if at == NONE {
            return slot;
        }
        if self.priority(slot) > self.priority(at) {
            let (left, right) = self.split(at, self.node(slot).key);
            (self.nodes[slot as usize].left, self.nodes[slot as usize].right) = (left, right);
            self.sum_up(slot);
            return slot;
        }
        if self.node(slot).key < self.node(at).key {
            self.nodes[at as usize].left = self.insert(self.node(at).left, slot);
        } else {
            self.nodes[at as usize].right = self.insert(self.node(at).right, slot);
        }
        self.sum_up(at);
        at
    }

    /// The subtree without the slot, which is in it.
    fn without(&mut self, at: u32, slot: u32) -> u32 {
        let Node { key, left, right, .. } = *self.node(at);
        if at == slot {
            return self.merge(left, right);
        }
        if self.node(slot).key < key {
            self.nodes[at as usize].left = self.without(left, slot);
        } else {
            self.nodes[at as usize].right = self.without(right, slot);
        }
        self.sum_up(at);
        at
    }

    /// What lies below the key and what lies above it.
    fn split(&mut self, at: u32, key: Key) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        if self.node(at).key < key {
            let (below, above) = self.split(self.node(at).right, key);
            self.nodes[at as usize].right = below;
            self.sum_up(at);
            (at, above)
        } else {
            let (below, above) = self.split(self.node(at).left, key);
            self.nodes[at as usize].left = above;
            self.sum_up(at);
            (below, at)
        }
    }

    /// Every key of the first lies below every key of the second.
    fn merge(&mut self, below: u32, above: u32) -> u32 {
        if below == NONE || above == NONE {
            return if below == NONE { above } else { below };
        }
        if self.priority(below) > self.priority(above) {
            self.nodes[below as usize].right = self.merge(self.node(below).right, above);
            self.sum_up(below);
            below
        } else {
            self.nodes[above as usize].left = self.merge(below, self.node(above).left);
            self.sum_up(above);
            above
        }
    }

    /// Works out the best of a node's subtree from those of its children.
    fn sum_up(&mut self, at: u32) {
        let Node { left, right, value, .. } = *self.node(at);
        let (mut best_value, mut best) = (value, at);
        if left != NONE && self.node(left).best_value >= best_value {
            (best_value, best) = (self.node(left).best_value, self.node(left).best);
        }
        if right != NONE && self.node(right).best_value > best_value {
            (best_value, best) = (self.node(right).best_value, self.node(right).best);
        }
        let node = &mut self.nodes[at as usize];
        (node.best_value, node.best) = (best_value, best);
    }

    /// The finalizer of splitmix64 (Steele, Lea & Flood 2014): a bijection, so that no two are equal.
    fn priority(&self, at: u32) -> u64 {
        let number = self.node(at).key.number;
        let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn depth(tree: &Tree, at: u32) -> usize {
        if at == NONE { 0 } else { 1 + depth(tree, tree.node(at).left).max(depth(tree, tree.node(at).right)) }
    }

    #[test]
    fn stays_shallow() {
        let mut tree = Tree::default();
        for slot in 0..100_000 {
            tree.set(slot, Key { rank: u64::from(slot), number: u64::from(slot) }, 0);
        }
        // 17 levels at least; a random tree has about 40.
        assert!(depth(&tree, tree.root) < 60, "{}", depth(&tree, tree.root));
    }

    /// The first number of splitmix64 seeded with 0.
    #[test]
    fn priorities_are_those_of_splitmix64() {
        let mut tree = Tree::default();
        tree.set(0, Key { rank: 0, number: 0x9e37_79b9_7f4a_7c15 }, 0);
        assert_eq!(tree.priority(0), 0xe220_a839_7b1d_cdaf);
    }

    /// Every node has a higher priority than what is below it: what keeps the tree from growing long.
    fn is_heap(tree: &Tree, at: u32) -> bool {
        let below = |child: u32| child == NONE || (tree.priority(at) > tree.priority(child) && is_heap(tree, child));
        at == NONE || (below(tree.node(at).left) && below(tree.node(at).right))
    }

    proptest! {
        #[test]
        fn agrees_with_a_scan(
            steps in prop::collection::vec((0u32..24, prop::option::of((0u64..20, 0u64..5))), 1..300),
            bound in 0u64..22,
        ) {
            let mut tree = Tree::default();
            let mut model: BTreeMap<u32, (Key, u64)> = BTreeMap::new();
            for (slot, what) in steps {
                match what {
                    Some((rank, value)) => {
                        let key = Key { rank, number: u64::from(slot) };
                        tree.set(slot, key, value);
                        model.insert(slot, (key, value));
                    }
                    None => {
                        tree.remove(slot);
                        model.remove(&slot);
                    }
                }
                prop_assert_eq!(tree.least(), model.values().map(|(key, _)| *key).min());
                let within = model.iter().filter(|(_, (key, _))| key.rank < bound);
                let best = within.min_by_key(|(_, (key, value))| (u64::MAX - value, *key)).map(|(slot, _)| *slot);
                prop_assert_eq!(tree.best_while(|rank| rank < bound), best);
                prop_assert!(is_heap(&tree, tree.root));
            }
        }
    }
}
