//! The shared link against its plainest statement: owners in a list, and each step to the next instant at which one of
//! them has all it asked for.

use proptest::prelude::*;

use super::*;

/// A connection of the model: its groups from the top, with their weights.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub groups: Vec<(u32, u32)>,
    pub weight: u32,
    pub rest: f64,
    pub floor: f64,
    /// The bytes that are neither sent nor paused.
    pub ready: f64,
}

impl Flow {
    pub fn left(&self) -> f64 {
        if self.rest - self.floor > LEAST_BYTES { self.rest - self.floor } else { 0.0 }
    }
}

/// All connections, and what an owner of weight 1 below the root has been carried.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub flows: Vec<Flow>,
    pub time: f64,
}

impl Model {
    /// The part of the link that each flow has now, and what an owner of weight 1 below the root has.
    fn parts(&self) -> (Vec<f64>, f64) {
        let active: Vec<usize> = (0..self.flows.len()).filter(|at| self.flows[*at].left() > 0.0).collect();
        let mut parts = vec![0.0; self.flows.len()];
        let of_one = self.share(&active, 0, 1.0, &mut parts);
        (parts, of_one)
    }

    /// Shares `part` among the flows, whose groups are the same above `level`; returns the part of weight 1.
    fn share(&self, flows: &[usize], level: usize, part: f64, parts: &mut [f64]) -> f64 {
        let of = |at: usize| self.flows[at].groups.get(level).copied();
        let mut groups: Vec<(u32, u32)> = flows.iter().filter_map(|at| of(*at)).collect();
        groups.sort_unstable();
        groups.dedup();
        let alone: Vec<usize> = flows.iter().copied().filter(|at| of(*at).is_none()).collect();
        let weight = groups.iter().map(|(_, weight)| weight).sum::<u32>()
            + alone.iter().map(|at| self.flows[*at].weight).sum::<u32>();
        let of_one = part / f64::from(weight.max(1));
        alone.into_iter().for_each(|at| parts[at] = of_one * f64::from(self.flows[at].weight));
        for group in groups {
            let members: Vec<usize> = flows.iter().copied().filter(|at| of(*at) == Some(group)).collect();
            self.share(&members, level + 1, of_one * f64::from(group.1), parts);
        }
        of_one
    }

    /// Carries up to `bytes`; returns what was carried when the first flow has all it asked for, or at the end.
    fn step(&mut self, bytes: f64) -> f64 {
        let (parts, of_one) = self.parts();
        let ends = self.flows.iter().zip(&parts).filter(|(_, part)| **part > 0.0);
        let first = ends.map(|(flow, part)| flow.left() / part).fold(f64::INFINITY, f64::min);
        if first == f64::INFINITY {
            return bytes;
        }
        let carried = first.min(bytes);
        for (flow, part) in self.flows.iter_mut().zip(&parts).filter(|(_, part)| **part > 0.0) {
            flow.rest -= part * carried;
            if flow.rest - flow.floor <= LEAST_BYTES {
                flow.rest = flow.floor;
            }
        }
        self.time += of_one * carried;
        carried
    }

    pub fn carry(&mut self, bytes: f64) {
        let mut left = bytes;
        while left > 0.0 {
            left -= self.step(left);
        }
    }

    /// The weight of the owners just below the root that have more than this to carry.
    fn weight(&self, least_bytes: f64) -> f64 {
        let active = |flow: &&Flow| flow.left() > least_bytes;
        let (below, direct): (Vec<&Flow>, Vec<&Flow>) =
            self.flows.iter().filter(active).partition(|flow| !flow.groups.is_empty());
        let groups: std::collections::BTreeSet<(u32, u32)> = below.iter().map(|flow| flow.groups[0]).collect();
        let weights = groups.iter().map(|(_, weight)| *weight).chain(direct.iter().map(|flow| flow.weight));
        weights.map(f64::from).sum()
    }

    /// When the flow has all it asked for, if nobody asks for more.
    pub fn due(&self, at: usize) -> f64 {
        let mut later = self.clone();
        while later.flows[at].left() > 0.0 {
            later.step(f64::MAX);
        }
        later.time - self.time
    }
}

/// A link, its model, and the ids of the model's flows; `None` for one that has ended.
#[derive(Default)]
struct Pair {
    link: SharedLink,
    model: Model,
    groups: Vec<(Vec<(u32, u32)>, Owner)>,
    leaves: Vec<Option<Owner>>,
}

impl Pair {
    fn group(&mut self, path: &[(u32, u32)]) -> Owner {
        let Some((last, above)) = path.split_last() else { return Owner::ROOT };
        let known = self.groups.iter().find(|(other, owner)| other == path && self.link.contains(*owner));
        if let Some((_, owner)) = known {
            return *owner;
        }
        let parent = self.group(above);
        let owner = self.link.add_group(parent, last.1);
        self.groups.push((path.to_vec(), owner));
        owner
    }

    /// Adds a connection with this many bytes to carry.
    fn add(&mut self, path: &[(u32, u32)], weight: u32, bytes: u64) {
        let parent = self.group(path);
        let leaf = self.link.add_leaf(parent, weight);
        self.link.ask(leaf, bytes);
        let (rest, floor) = (bytes as f64, 0.0);
        self.model.flows.push(Flow { groups: path.to_vec(), weight, rest, floor, ready: rest });
        self.leaves.push(Some(leaf));
    }

    fn carry(&mut self, bytes: u64) {
        self.link.carry(bytes);
        self.model.carry(bytes as f64);
    }

    /// Does to one connection what `what` says, with up to so many bytes.
    fn act(&mut self, at: usize, what: u8, bytes: u64) {
        let Some(leaf) = self.leaves[at] else { return };
        let flow = &mut self.model.flows[at];
        let of_ready = bytes.min(flow.ready as u64);
        let some = of_ready as f64;
        match what {
            0 => {
                self.link.ask(leaf, bytes);
                (flow.rest, flow.ready) = (flow.rest + bytes as f64, flow.ready + bytes as f64);
            }
            1 => {
                self.link.cancel(leaf, of_ready);
                (flow.rest, flow.ready) = ((flow.rest - some).max(0.0), flow.ready - some);
            }
            2 => {
                self.link.pause(leaf, of_ready);
                (flow.floor, flow.ready) = (flow.floor + some, flow.ready - some);
            }
            3 => {
                let paused = bytes.min(flow.floor as u64);
                self.link.resume(leaf, paused);
                (flow.floor, flow.ready) = (flow.floor - paused as f64, flow.ready + paused as f64);
            }
            4 => {
                flow.ready -= some;
                self.carry(of_ready);
            }
            _ if flow.floor == 0.0 => {
                // All that is left of it is sent, or cancelled.
                let ready = flow.ready as u64;
                flow.ready = 0.0;
                self.link.leave(leaf);
                self.leaves[at] = None;
                self.carry(ready);
            }
            _ => {}
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        near(self.link.time(), self.model.time, "time")?;
        let (weight, least, most) = (self.link.weight(), self.model.weight(0.05), self.model.weight(0.0));
        prop_assert!((least..=most).contains(&weight), "weight {}, in the model {} to {}", weight, least, most);
        for at in 0..self.leaves.len() {
            let Some(leaf) = self.leaves[at] else { continue };
            near(self.link.due(leaf), self.model.due(at), "due")?;
        }
        Ok(())
    }
}

fn near(found: f64, expected: f64, what: &str) -> Result<(), TestCaseError> {
    let is_near = (found - expected).abs() <= 1e-6 * expected.abs() + 0.05;
    prop_assert!(is_near, "{}: {} where the model has {}", what, found, expected);
    Ok(())
}

/// A path of groups: each level's weight is that of its number, so that a number has one weight.
fn groups() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec(0..3u32, 0..4).prop_map(|numbers| numbers.into_iter().map(|of| (of, 1 + of * of)).collect())
}

/// A step: the flow, what is done, bytes, and bytes carried after it.
type Step = (usize, u8, u64, u64);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Times, weights and dues are those of the fluid model, in any sequence of steps.
    #[test]
    fn it_is_the_fluid_model(
        flows in prop::collection::vec((groups(), 1..4u32, 1..5000u64), 1..12),
        steps in prop::collection::vec((0..12usize, 0..6u8, 1..3000u64, 0..2000u64), 0..40),
    ) {
        let mut pair = Pair::default();
        for (at, (path, weight, bytes)) in flows.iter().enumerate() {
            pair.add(path, *weight, *bytes);
            pair.carry(at as u64 * 10);
        }
        pair.check()?;
        for (at, what, bytes, carried) in steps as Vec<Step> {
            if what == 5 && bytes < 1500 {
                let (path, weight, _) = &flows[at % flows.len()];
                pair.add(path, *weight, bytes);
            } else {
                pair.act(at % flows.len(), what, bytes);
            }
            pair.carry(carried);
            pair.check()?;
        }
        let all: f64 = pair.model.flows.iter().map(Flow::left).sum();
        pair.carry(all as u64 + 2);
        for leaf in pair.leaves.iter().flatten() {
            prop_assert_eq!(pair.link.due(*leaf), 0.0);
        }
        let open = pair.leaves.iter().flatten().count();
        prop_assert!(pair.link.owners() <= 1 + 4 * open, "{} owners for {} connections", pair.link.owners(), open);
    }
}

/// Weighs two clients, each with a connection, and returns what both are carried of 900 bytes.
fn carried(weights: [u32; 2], paused: u64) -> [f64; 2] {
    let mut link = SharedLink::default();
    let leaves = weights.map(|weight| {
        let group = link.add_group(Owner::ROOT, weight);
        let leaf = link.add_leaf(group, 1);
        link.ask(leaf, 10_000);
        leaf
    });
    link.pause(leaves[1], paused);
    link.carry(900);
    leaves.map(|leaf| {
        link.sync(leaf.at);
        10_000.0 - link.rest(leaf.at)
    })
}

#[test]
fn shares_are_by_weight() {
    assert_eq!(carried([1, 1], 0), [450.0, 450.0]);
    assert_eq!(carried([1, 2], 0), [300.0, 600.0]);
}

/// Its share goes to the other, and it has its whole rest when it is back.
#[test]
fn who_does_not_read_does_not_age() {
    assert_eq!(carried([1, 1], 10_000)[0], 900.0);
}

/// The connections of a client are carried together as many bytes as one would be.
#[test]
fn a_client_gains_nothing_by_connections() {
    let mut link = SharedLink::default();
    let [many, one] = [0, 1].map(|_| link.add_group(Owner::ROOT, 1));
    let lone = link.add_leaf(one, 1);
    link.ask(lone, 1000);
    (0..500).for_each(|_| {
        let leaf = link.add_leaf(many, 1);
        link.ask(leaf, 1000);
    });
    assert_eq!(link.due(lone), 1000.0);
    link.carry(1000);
    assert_eq!(link.due(lone), 500.0);
}

/// Ten thousand connections, each served before its time and ended, leave a bounded number of owners, and their client
/// waits for all that they have had.
#[test]
fn ended_connections_are_few_and_not_forgotten() {
    let mut link = SharedLink::default();
    let other = link.add_leaf(Owner::ROOT, 1);
    link.ask(other, 1 << 40);
    let group = link.add_group(Owner::ROOT, 1);
    for _ in 0..10_000 {
        let leaf = link.add_leaf(group, 1);
        link.ask(leaf, 100);
        link.leave(leaf);
    }
    assert!(link.owners() < 10 + ENDED_MAX as usize, "{} owners", link.owners());
    let next = link.add_leaf(group, 1);
    link.ask(next, 2_000_000);
    assert!((link.due(next) - 3e6).abs() < 1.0, "{}", link.due(next));
    link.cancel(next, 2_000_000);
    // Its group is carried all of it, and is forgotten with its last connection.
    link.leave(next);
    link.carry(2_000_002);
    assert_eq!(link.owners(), 2);
}

/// Numbers of a peer wrap nowhere, and owners that are gone change nothing.
#[test]
fn extremes_are_borne() {
    let mut link = SharedLink::default();
    let leaf = link.add_leaf(Owner::ROOT, u32::MAX);
    (0..10).for_each(|_| link.ask(leaf, u64::MAX));
    link.carry(u64::MAX);
    assert!(link.due(leaf).is_finite() && link.due(leaf) > 0.0);
    link.cancel(leaf, u64::MAX);
    link.leave(leaf);
    let other = link.add_leaf(Owner::ROOT, 0);
    link.ask(other, 0);
    assert_eq!((link.due(other), link.due(leaf)), (0.0, 0.0));
    [leaf, leaf].into_iter().for_each(|gone| {
        link.ask(gone, 5);
        link.pause(gone, 5);
        link.leave(gone);
    });
    assert_eq!(link.time().is_finite(), link.contains(other));
}
