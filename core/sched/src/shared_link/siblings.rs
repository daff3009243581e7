//! The owners below one parent that have something to carry, by when it will be carried: a treap whose nodes know the
//! sums of what is below them, so that an owner comes, goes and is asked about in O(log n).

/// Stands in place of an owner.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Place {
    weight: f64,
    /// The time of the parent at which all is carried.
    end: f64,
    before: u32,
    after: u32,
    /// Sums over this place and those below it in the treap: of weights, and of weights times ends.
    sums: Sums,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sums {
    pub weight: f64,
    pub weighted_end: f64,
}

/// The places of all owners, by index. A set of siblings is named by its root, which is [`NONE`] for an empty one.
#[derive(Debug, Default)]
pub(super) struct Siblings {
    places: Vec<Place>,
}

impl Siblings {
    /// Makes room for this index.
    pub fn grow(&mut self, len: usize) {
        const VACANT: Place =
            Place { weight: 1.0, end: 0.0, before: NONE, after: NONE, sums: Sums { weight: 0.0, weighted_end: 0.0 } };
        crate::grow::grow_to(&mut self.places, len, || VACANT);
    }

    pub fn end(&self, at: u32) -> f64 {
        self.places[at as usize].end
    }

    /// Adds an owner to the set; returns the root of the set.
    pub fn insert(&mut self, root: u32, at: u32, weight: f64, end: f64) -> u32 {
        self.places[at as usize] = Place { weight, end, before: NONE, after: NONE, sums: Sums::default() };
        self.add(root, at)
    }

    fn add(&mut self, root: u32, at: u32) -> u32 {
        if root == NONE || priority(at) > priority(root) {
            let (before, after) = self.split(root, at);
            return self.with(at, before, after);
        }
        let Place { before, after, .. } = self.places[root as usize];
        if self.is_before(at, root) {
            let before = self.add(before, at);
            self.with(root, before, after)
        } else {
            let after = self.add(after, at);
            self.with(root, before, after)
        }
    }

    /// Splits a set into those before `at` and the others.
    fn split(&mut self, root: u32, at: u32) -> (u32, u32) {
        if root == NONE {
            return (NONE, NONE);
        }
        let Place { before, after, .. } = self.places[root as usize];
        if self.is_before(root, at) {
            let (inner, others) = self.split(after, at);
            (self.with(root, before, inner), others)
        } else {
            let (others, inner) = self.split(before, at);
            (others, self.with(root, inner, after))
        }
    }

    /// Removes an owner of the set; returns the root of the set.
    pub fn remove(&mut self, root: u32, at: u32) -> u32 {
        let Place { before, after, .. } = self.places[root as usize];
        if root == at {
            return self.join(before, after);
        }
        if self.is_before(at, root) {
            let before = self.remove(before, at);
            self.with(root, before, after)
        } else {
            let after = self.remove(after, at);
            self.with(root, before, after)
        }
    }

    /// Joins two sets, of which all of the first go before all of the second.
    fn join(&mut self, first: u32, second: u32) -> u32 {
        if first == NONE || second == NONE {
            return first.min(second);
        }
        if priority(first) > priority(second) {
            let Place { before, after, .. } = self.places[first as usize];
            let after = self.join(after, second);
            self.with(first, before, after)
        } else {
            let Place { before, after, .. } = self.places[second as usize];
            let before = self.join(first, before);
            self.with(second, before, after)
        }
    }

    /// Sets what is below a place in the treap; returns the place.
    fn with(&mut self, at: u32, before: u32, after: u32) -> u32 {
        let (first, second) = (self.sums(before), self.sums(after));
        let place = &mut self.places[at as usize];
        (place.before, place.after) = (before, after);
        place.sums = Sums {
            weight: first.weight + place.weight + second.weight,
            weighted_end: first.weighted_end + place.weight * place.end + second.weighted_end,
        };
        at
    }

    fn is_before(&self, one: u32, other: u32) -> bool {
        let (of_one, of_other) = (self.end(one), self.end(other));
        of_one < of_other || (of_one == of_other && one < other)
    }

    /// The owner whose end is first.
    pub fn first(&self, root: u32) -> Option<u32> {
        let mut at = root;
        while at != NONE && self.places[at as usize].before != NONE {
            at = self.places[at as usize].before;
        }
        (at != NONE).then_some(at)
    }

    /// The sums over the set.
    pub fn sums(&self, root: u32) -> Sums {
        self.places.get(root as usize).map_or(Sums::default(), |place| place.sums)
    }

    /// The sums over those of the set that end before `end`.
    pub fn sums_before(&self, root: u32, end: f64) -> Sums {
        let (mut at, mut sums) = (root, Sums::default());
        while at != NONE {
            let place = &self.places[at as usize];
            if place.end < end {
                let before = self.sums(place.before);
                sums.weight += before.weight + place.weight;
                sums.weighted_end += before.weighted_end + place.weight * place.end;
                at = place.after;
            } else {
                at = place.before;
            }
        }
        sums
    }
}

/// A number that looks random, so that the treap is balanced whatever the order in which owners come (SplitMix64).
fn priority(at: u32) -> u64 {
    let mut number = u64::from(at).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
