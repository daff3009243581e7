//! A virtual link that is shared fairly: weighted fair sharing in virtual time over a tree of owners.
//!
//! Owners share what their parent has by their weights, while they have something to carry: networks share the link,
//! the clients of a network its part, the connections of a client the client's. What was asked for over a connection,
//! a leaf of the tree, is its *rest*; the link carries rests as fast as the real one carries bytes, which its caller
//! says ([`SharedLink::carry`]). One question is answered in O(log n): when would all that a connection was asked for be
//! there ([`SharedLink::due`])?
//!
//! The model is hierarchical generalized processor sharing (Bennett & Zhang, "Hierarchical packet fair queueing
//! algorithms", 1997). A parent has a time of its own: the bytes that a child of weight 1 has been carried since it
//! began. So a child's end, in its parent's time, is fixed by what is left of it, and does not change when siblings come
//! and go. What happens inside a child does not concern its siblings, and is caught up when somebody asks.
//!
//! - A connection that is *paused*, because its client does not read or its source has nothing, does not age: the link
//!   carries for it what it has had on the real one, and no more.
//! - What was cancelled is no longer carried. What an ended connection had on the real link before its time is carried
//!   to the end ([`SharedLink::leave`]), so nobody gains by a new connection.
//! - A size that is not known is a lower bound that grows: ask for more when it does.
//!
//! Bytes are counted in floating point, exact to about 2^-52 of what the link has carried in all.

mod siblings;
#[cfg(test)]
pub(crate) mod tests;

use siblings::{NONE, Siblings};

/// The maximum number of levels below the root.
pub const DEPTH_MAX: usize = 6;
/// The maximum number of ended connections of one parent that are carried each by itself; further ones are carried
/// with the last of them.
pub const ENDED_MAX: u32 = 256;
/// Bytes that are asked for at once are counted up to this.
const BYTES_MAX: u64 = 1 << 50;
/// Less than this is nothing: a remainder of rounding.
const LEAST_BYTES: f64 = 1e-3;

/// The id of an owner. The id of a forgotten one is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    at: u32,
    number: u32,
}

impl Owner {
    /// The whole link.
    pub const ROOT: Owner = Owner { at: 0, number: 0 };
}

#[derive(Debug)]
struct Node {
    number: u32,
    parent: u32,
    weight: f64,
    is_active: bool,
    /// Nobody has its id any more.
    is_left: bool,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Vacant,
    /// A connection. What is carried while it is not active stays as it is.
    Leaf {
        rest: f64,
        /// The rest at which it is no longer carried: what is left of its paused responses.
        floor: f64,
    },
    Group(Group),
}

#[derive(Debug, Clone, Copy)]
struct Group {
    /// The bytes that a child of weight 1 has been carried.
    time: f64,
    /// The parent's time up to which `time` is right.
    synced_at: f64,
    /// The root of its active children.
    active: u32,
    children: u32,
    /// The ended child that further ones are carried with, and how many there are.
    ended: u32,
    ended_count: u32,
}

const NEW_GROUP: Group = Group { time: 0.0, synced_at: 0.0, active: NONE, children: 0, ended: NONE, ended_count: 0 };

#[derive(Debug)]
pub struct SharedLink {
    nodes: Vec<Node>,
    siblings: Siblings,
    vacant: Vec<u32>,
}

impl Default for SharedLink {
    fn default() -> SharedLink {
        let mut link = SharedLink { nodes: Vec::new(), siblings: Siblings::default(), vacant: Vec::new() };
        link.add(NONE, 1, Kind::Group(NEW_GROUP));
        link
    }
}

impl SharedLink {
    /// The bytes that an owner of weight 1 just below the root has been carried if it always had something to carry.
    pub fn time(&self) -> f64 {
        self.time_of(0)
    }

    /// The owners in the tree, the root and those that have ended included.
    pub fn owners(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    /// Returns whether this owner is still in the tree.
    pub fn contains(&self, owner: Owner) -> bool {
        self.nodes.get(owner.at as usize).is_some_and(|node| node.number == owner.number)
    }

    /// Adds a group of owners below another group; it is forgotten with the last below it.
    pub fn add_group(&mut self, parent: Owner, weight: u32) -> Owner {
        self.add_below(parent, weight, Kind::Group(NEW_GROUP))
    }

    /// Adds a connection below a group.
    pub fn add_leaf(&mut self, parent: Owner, weight: u32) -> Owner {
        self.add_below(parent, weight, Kind::Leaf { rest: 0.0, floor: 0.0 })
    }

    fn add_below(&mut self, parent: Owner, weight: u32, kind: Kind) -> Owner {
        assert!(self.contains(parent), "an owner is added below one of the tree");
        assert!(self.path(parent.at).1 <= DEPTH_MAX, "a tree of more than {DEPTH_MAX} levels");
        let at = self.add(parent.at, weight, kind);
        self.set_group(parent.at, |group| group.children += 1);
        Owner { at, number: self.nodes[at as usize].number }
    }

    fn add(&mut self, parent: u32, weight: u32, kind: Kind) -> u32 {
        let at = self.vacant.pop().unwrap_or_else(|| {
            crate::grow::reserve_one(&mut self.nodes);
            let vacant = Kind::Vacant;
            let node = Node { number: 0, parent, weight: 1.0, is_active: false, is_left: false, kind: vacant };
            self.nodes.push(node);
            self.siblings.grow(self.nodes.len());
            self.nodes.len() as u32 - 1
        });
        let node = &mut self.nodes[at as usize];
        let number = node.number;
        let weight = f64::from(weight.max(1));
        *node = Node { number, parent, weight, is_active: false, is_left: false, kind };
        at
    }

    /// Records that the connection was asked for this many more bytes; all are ready.
    pub fn ask(&mut self, leaf: Owner, bytes: u64) {
        self.change(leaf, |rest, _| *rest += counted(bytes));
    }

    /// Records that bytes that the connection was asked for, and that are not paused, will not be sent.
    pub fn cancel(&mut self, leaf: Owner, bytes: u64) {
        self.change(leaf, |rest, _| *rest = (*rest - counted(bytes)).max(0.0));
    }

    /// Records that this many bytes of the connection, which were not paused, wait for something from now on.
    pub fn pause(&mut self, leaf: Owner, bytes: u64) {
        self.change(leaf, |_, floor| *floor += counted(bytes));
    }

    /// Records that this many bytes that were paused are ready again.
    pub fn resume(&mut self, leaf: Owner, bytes: u64) {
        self.change(leaf, |_, floor| *floor = (*floor - counted(bytes)).max(0.0));
    }

    /// Ends a connection all of whose bytes were sent or cancelled: what the real link carried of it before its time is
    /// carried to the end.
    pub fn leave(&mut self, leaf: Owner) {
        if !self.contains(leaf) {
            return;
        }
        self.change(leaf, |_, floor| *floor = 0.0);
        let Node { is_active, parent, .. } = self.nodes[leaf.at as usize];
        // The place may live on in the tree, but its id is nobody's.
        self.renumber(leaf.at);
        if !is_active {
            return self.forget(leaf.at);
        }
        let Group { ended, ended_count, .. } = self.group(parent);
        if ended_count < ENDED_MAX || ended == NONE {
            self.nodes[leaf.at as usize].is_left = true;
            return self.set_group(parent, |group| (group.ended, group.ended_count) = (leaf.at, ended_count + 1));
        }
        let rest = self.rest(leaf.at);
        self.settle(leaf.at, 0.0);
        self.settle(ended, self.rest(ended) + rest);
        self.forget(leaf.at);
    }

    /// Carries this many bytes of the owners that have something to carry.
    pub fn carry(&mut self, bytes: u64) {
        self.serve(0, counted(bytes));
    }

    /// The bytes that an owner of weight 1 just below the root, which always has something to carry, will have been
    /// carried from now until all that the connection was asked for is there. Zero if all of it is.
    pub fn due(&mut self, leaf: Owner) -> f64 {
        if !self.contains(leaf) {
            return 0.0;
        }
        self.sync(leaf.at);
        if !self.nodes[leaf.at as usize].is_active {
            return 0.0;
        }
        let (mut at, mut end) = (leaf.at, self.siblings.end(leaf.at));
        loop {
            let parent = self.nodes[at as usize].parent;
            let time = self.time_of(parent);
            if parent == 0 {
                return (end - time).max(0.0);
            }
            let active = self.group(parent).active;
            // The bytes that the parent is carried until then: all bytes of the children that end before.
            let (all, before) = (self.siblings.sums(active), self.siblings.sums_before(active, end));
            let bytes = before.weighted_end - before.weight * time + (all.weight - before.weight) * (end - time);
            let above = self.time_of(self.nodes[parent as usize].parent);
            end = above + bytes.max(0.0) / self.nodes[parent as usize].weight;
            at = parent;
        }
    }

    /// The total weight of the owners just below the root that have something to carry.
    pub fn weight(&self) -> f64 {
        self.siblings.sums(self.group(0).active).weight
    }

    /// The bytes that an owner has left to carry, except paused ones. Its ancestors must be synced.
    fn rest(&self, at: u32) -> f64 {
        let node = &self.nodes[at as usize];
        if !node.is_active {
            return 0.0;
        }
        ((self.siblings.end(at) - self.time_of(node.parent)) * node.weight).max(0.0)
    }

    /// A group by value; of anything else, an empty one.
    fn group(&self, at: u32) -> Group {
        match self.nodes[at as usize].kind {
            Kind::Group(group) => group,
            Kind::Leaf { .. } | Kind::Vacant => NEW_GROUP,
        }
    }

    /// Changes a group; a no-op for anything else.
    fn set_group(&mut self, at: u32, change: impl FnOnce(&mut Group)) {
        if let Kind::Group(group) = &mut self.nodes[at as usize].kind {
            change(group);
        }
    }

    fn time_of(&self, at: u32) -> f64 {
        self.group(at).time
    }

    /// The path from below the root to this owner, and its length.
    fn path(&self, at: u32) -> ([u32; DEPTH_MAX + 1], usize) {
        let (mut path, mut len, mut at) = ([0; DEPTH_MAX + 1], 0, at);
        while at != 0 && len <= DEPTH_MAX {
            path[len] = at;
            len += 1;
            at = self.nodes[at as usize].parent;
        }
        path[..len].reverse();
        (path, len)
    }

    /// Catches up with what was carried of the groups above this owner.
    fn sync(&mut self, at: u32) {
        let (path, len) = self.path(at);
        for &at in &path[..len.saturating_sub(1)] {
            let node = &self.nodes[at as usize];
            let (above, weight, is_active) = (self.time_of(node.parent), node.weight, node.is_active);
            let synced_at = self.group(at).synced_at;
            self.set_group(at, |group| group.synced_at = above);
            if is_active {
                self.serve(at, (above - synced_at) * weight);
            }
        }
    }

    /// Carries bytes of the children of a group.
    fn serve(&mut self, at: u32, bytes: f64) {
        let mut bytes = bytes;
        loop {
            let Group { time, active, .. } = self.group(at);
            let Some(first) = self.siblings.first(active) else { return };
            let (weight, end) = (self.siblings.sums(active).weight, self.siblings.end(first));
            let needed = (end - time) * weight;
            // A rest that is rounding ends with those that end at the same time.
            let rest = (needed - bytes) / weight * self.nodes[first as usize].weight;
            if rest > LEAST_BYTES {
                return self.set_group(at, |group| group.time = time + bytes / weight);
            }
            bytes = (bytes - needed.max(0.0)).max(0.0);
            self.set_group(at, |group| group.time = time.max(end));
            self.end(first);
        }
    }

    /// Ends an owner all of whose rest is carried.
    fn end(&mut self, at: u32) {
        // What is left below a group is rounding.
        while let Some(first) = self.siblings.first(self.group(at).active) {
            let end = self.siblings.end(first);
            self.set_group(at, |group| group.time = group.time.max(end));
            self.end(first);
        }
        // A group whose last child was forgotten is gone by now.
        if self.nodes[at as usize].is_active {
            self.take_out(at);
            if let Kind::Leaf { rest, floor } = &mut self.nodes[at as usize].kind {
                *rest = *floor;
            }
            if self.nodes[at as usize].is_left {
                self.forget(at);
            }
        }
    }

    /// Changes a connection's rest and floor.
    fn change(&mut self, leaf: Owner, change: impl FnOnce(&mut f64, &mut f64)) {
        if !self.contains(leaf) {
            return;
        }
        self.sync(leaf.at);
        let active_rest = self.rest(leaf.at);
        let is_active = self.nodes[leaf.at as usize].is_active;
        let Kind::Leaf { rest, floor } = &mut self.nodes[leaf.at as usize].kind else { return };
        if is_active {
            *rest = active_rest + *floor;
        }
        change(rest, floor);
        let left = *rest - *floor;
        self.settle(leaf.at, left);
    }

    /// Gives an owner its place among its siblings, and those above it theirs; the ancestors must be synced.
    fn settle(&mut self, at: u32, left: f64) {
        let (mut at, mut left) = (at, left);
        while at != 0 {
            let Node { parent, weight, is_active, .. } = self.nodes[at as usize];
            if is_active {
                self.take_out(at);
            }
            let time = self.time_of(parent);
            if left > LEAST_BYTES {
                let root = self.siblings.insert(self.group(parent).active, at, weight, time + left / weight);
                self.set_group(parent, |group| group.active = root);
                self.nodes[at as usize].is_active = true;
            }
            // What a group has left is what its children have.
            let sums = self.siblings.sums(self.group(parent).active);
            left = sums.weighted_end - sums.weight * time;
            at = parent;
        }
    }

    fn take_out(&mut self, at: u32) {
        let parent = self.nodes[at as usize].parent;
        let root = self.siblings.remove(self.group(parent).active, at);
        self.set_group(parent, |group| group.active = root);
        self.nodes[at as usize].is_active = false;
    }

    /// Removes an owner that has nothing to carry, and the groups above it that are empty then.
    fn forget(&mut self, at: u32) {
        let mut at = at;
        while at != 0 {
            let Node { parent, is_active, is_left, .. } = self.nodes[at as usize];
            if is_active {
                self.take_out(at);
            }
            self.renumber(at);
            self.nodes[at as usize].kind = Kind::Vacant;
            self.vacant.push(at);
            self.set_group(parent, |group| {
                group.children -= 1;
                group.ended_count -= u32::from(is_left && group.ended_count > 0);
                if group.ended == at {
                    group.ended = NONE;
                }
            });
            if self.group(parent).children > 0 {
                return;
            }
            at = parent;
        }
    }

    fn renumber(&mut self, at: u32) {
        let number = &mut self.nodes[at as usize].number;
        *number = number.wrapping_add(1);
    }
}

fn counted(bytes: u64) -> f64 {
    bytes.min(BYTES_MAX) as f64
}
