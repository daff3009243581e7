//! Weighted classes: the class that has had the fewest bytes for its weight is served; within a class the inner policy.
//!
//! Start-time fair queueing with a class for a flow (Goyal, Vin & Cheng, "Start-time fair queueing", 1996): while two
//! classes have jobs ready, the bytes they get are as their weights, but for a grant each; what a class leaves goes to
//! the others, and it has no claim to it later. Good where customers pay for shares; bad in the mean: a class of few and
//! small responses waits for its turn like any other. A size that is not known is the inner policy's business.

use std::cmp::Ordering;

use super::lanes::Lanes;
use crate::virtual_time::VirtualTime;
use crate::{Job, Path, Policy};
use units::Nanos;

pub struct Weighted {
    name: String,
    lanes: Lanes,
    /// By class.
    accounts: Vec<Account>,
    /// Where a class that was idle joins.
    virtual_time: VirtualTime<Account>,
}

/// Bytes and the weight they count at; accounts are compared by bytes / weight, without rounding.
#[derive(Debug, Clone, Copy)]
struct Account {
    bytes: u64,
    weight: u32,
}

impl Ord for Account {
    fn cmp(&self, other: &Account) -> Ordering {
        let scaled = |one: &Account, other: &Account| u128::from(one.bytes) * u128::from(other.weight);
        scaled(self, other).cmp(&scaled(other, self))
    }
}

impl PartialOrd for Account {
    fn partial_cmp(&self, other: &Account) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Account {
    fn eq(&self, other: &Account) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Account {}

impl Account {
    /// The bytes at this account's weight that match the other account, rounded up.
    fn level_with(self, other: Account) -> u64 {
        let bytes = (u128::from(other.bytes) * u128::from(self.weight)).div_ceil(u128::from(other.weight));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl Weighted {
    /// Weights are at least 1; one inner policy per weight, all alike. `name` is the spec it is known by.
    pub fn new(name: String, weights: &[u32], inner: Vec<Box<dyn Policy>>) -> Weighted {
        assert!(weights.len() == inner.len() && weights.iter().all(|weight| *weight > 0), "weights {weights:?}");
        Weighted {
            name,
            lanes: Lanes::new(inner),
            accounts: weights.iter().map(|&weight| Account { bytes: 0, weight }).collect(),
            virtual_time: VirtualTime::starting_at(Account { bytes: 0, weight: 1 }),
        }
    }
}

impl Policy for Weighted {
    fn name(&self) -> &str {
        &self.name
    }

    fn first(&self) -> Option<u32> {
        let mut best: Option<(Account, u32)> = None;
        for (class, account) in self.accounts.iter().enumerate() {
            if let Some(slot) = self.lanes.first(class)
                && best.is_none_or(|(least, _)| *account < least)
            {
                best = Some((*account, slot));
            }
        }
        best.map(|(_, slot)| slot)
    }

    fn on_open(&mut self, turn: u32) {
        self.lanes.on_open(turn);
    }

    fn on_client(&mut self, client: u32, weight: u8) {
        self.lanes.on_client(client, weight);
    }

    fn on_idle(&mut self, idle: Nanos) {
        self.lanes.on_idle(idle);
    }

    fn ahead_bytes(&self, client: u32) -> Option<u64> {
        self.lanes.ahead_bytes(client)
    }

    fn size_rank(&self, slot: u32, job: &Job, path: &Path) -> Option<u64> {
        self.lanes.size_rank(slot, job, path)
    }

    fn within(&self, slot: u32, job: &Job, path: &Path) -> u64 {
        self.lanes.within(slot, job, path)
    }

    fn enqueue(&mut self, slot: u32, job: &Job, path: &Path) {
        let class = self.lanes.class_of(job);
        if self.lanes.first(class).is_none() {
            let account = &mut self.accounts[class];
            account.bytes = account.bytes.max(account.level_with(self.virtual_time.now()));
        }
        self.lanes.of(job).enqueue(slot, job, path);
    }

    fn dequeue(&mut self, slot: u32, job: &Job) {
        self.lanes.of(job).dequeue(slot, job);
    }

    fn on_arrival(&mut self, slot: u32, job: &Job, path: &Path) {
        self.lanes.of(job).on_arrival(slot, job, path);
    }

    fn on_size(&mut self, slot: u32, before: &Job, job: &Job) {
        self.lanes.of(job).on_size(slot, before, job);
    }

    fn on_sent(&mut self, slot: u32, job: &Job, bytes: u64) {
        let account = &mut self.accounts[self.lanes.class_of(job)];
        self.virtual_time.advance_to(*account);
        account.bytes = account.bytes.saturating_add(bytes);
        self.lanes.of(job).on_sent(slot, job, bytes);
    }

    fn on_departure(&mut self, slot: u32, job: &Job) {
        self.lanes.of(job).on_departure(slot, job);
    }

    fn can_starve(&self) -> bool {
        self.lanes.can_starve()
    }

    fn classes(&self) -> usize {
        self.lanes.len()
    }

    fn needs_path(&self) -> bool {
        self.lanes.needs_path()
    }
}
