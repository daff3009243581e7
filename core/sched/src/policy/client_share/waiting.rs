//! The waiting clients, their ready jobs, and the speed of the clock that follows from them.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use super::networks::Networks;
use super::{CROWD, CROWD_SLOWS, ClientTraits};
use crate::grow;

/// The sort key of a ready job among the jobs of its client: the policy's key, turn, slot.
pub(super) type ClientKey = (u64, u64, u32);

/// A client with ready jobs.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The best job, unless that was just taken out.
    pub best: Option<ClientKey>,
    others: BTreeSet<ClientKey>,
    /// The slot of the job that the client offers to the inner policy.
    pub offered: Option<u32>,
}

impl Waiting {
    pub fn insert(&mut self, place: ClientKey) {
        match self.best {
            Some(best) if best < place => {
                self.others.insert(place);
            }
            before => {
                self.best = Some(place);
                self.others.extend(before);
            }
        }
    }

    pub fn remove(&mut self, place: ClientKey) {
        if self.best == Some(place) {
            self.best = self.others.pop_first();
        } else {
            self.others.remove(&place);
        }
    }
}

/// All clients with ready jobs. A client keeps its index as long as it waits.
#[derive(Debug, Default)]
pub(super) struct WaitingClients {
    clients: Vec<Waiting>,
    vacant: Vec<u32>,
    /// The total weight of the clients.
    weight: u64,
    networks: Networks,
}

impl WaitingClients {
    /// Adds a client whose first job is ready, and returns its index.
    pub fn join(&mut self, traits: ClientTraits) -> u32 {
        self.count(traits);
        self.vacant.pop().unwrap_or_else(|| {
            grow::reserve_one(&mut self.clients);
            self.clients.push(Waiting::default());
            self.clients.len() as u32 - 1
        })
    }

    /// Records that a client's last ready job is gone.
    pub fn leave(&mut self, at: u32, traits: ClientTraits) {
        self.discount(traits);
        self.vacant.push(at);
    }

    /// Records that the index of a waiting client now belongs to another client.
    pub fn replace(&mut self, before: ClientTraits, now: ClientTraits) {
        self.discount(before);
        self.count(now);
    }

    fn count(&mut self, traits: ClientTraits) {
        self.weight += u64::from(traits.weight);
        self.networks.join(traits.network);
    }

    fn discount(&mut self, traits: ClientTraits) {
        self.weight -= u64::from(traits.weight);
        self.networks.leave(traits.network);
    }

    /// Returns the charge to a client for these fractions of a byte.
    pub fn charge(&self, traits: ClientTraits, parts: u64) -> u64 {
        self.networks.charge(traits.network, parts).div_ceil(traits.weight.into())
    }

    /// Returns the number of equal parts into which the link is divided; the clock runs at the pace of one part.
    pub fn clock_parts(&self) -> u64 {
        let surplus = self.networks.surplus();
        let waiting = (self.clients.len() - self.vacant.len()) as u64 - surplus;
        let weight = self.weight - surplus;
        if waiting > CROWD { weight * waiting.max(CROWD_SLOWS * CROWD) / CROWD + 1 } else { weight + 1 }
    }
}

impl Index<u32> for WaitingClients {
    type Output = Waiting;

    fn index(&self, at: u32) -> &Waiting {
        &self.clients[at as usize]
    }
}

impl IndexMut<u32> for WaitingClients {
    fn index_mut(&mut self, at: u32) -> &mut Waiting {
        &mut self.clients[at as usize]
    }
}
