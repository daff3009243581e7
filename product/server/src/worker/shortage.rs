//! When the memory for connections is nearly used: the costliest clients that do not read end first, then idle connections, and newcomers
//! are let in last.
//!
//! All connections are looked at together, and seldom; what is found then is ended one after another, over turns.

use std::collections::{BinaryHeap, HashMap};

use units::Nanos;
use units::memory::Account;

use crate::connection::Connection;
use crate::connection::Connections;
use crate::net::Socket;
use crate::send::Link;

/// All are looked at no more often than this, however many there are and however short memory is.
const LOOK_EVERY: Nanos = Nanos::from_millis(50);
/// From this part of the memory on connections are ended.
const NEAR_PERCENT: u64 = 90;
/// So much less than that is held afterwards, so that the next newcomer is not the next reason.
const ENOUGH_PERCENT: u64 = 85;
/// A reader that took too little at so many looks of a sweep, two to three seconds, does not read: lost packets are sent again after one
/// (RFC 6298 section 2).
pub(super) const STALLED_LOOKS: u8 = 3;
/// A connection gives way to others for want of memory once it has been idle for so long.
pub(super) const IDLE_FOR: Nanos = Nanos::from_secs(1);

/// What is done about memory for the connections of a worker, once little is left of it.
#[derive(Default)]
pub(super) struct Shortage {
    /// Connections to be ended, the first last.
    costliest: Vec<u64>,
    looked_at: Nanos,
}

/// A stalled connection: its client, what it holds, and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stalled {
    pub client: u32,
    pub bytes: u64,
    pub owner: u64,
}

/// A head that is not whole is no reason to end its connection where less has come of it, as with nearly all clients.
pub(super) const PART_BYTES_MIN: usize = 4 << 10;

impl Shortage {
    /// The slot of the costliest stalled connection.
    pub fn next(&mut self, now: Nanos, connections: &Connections<impl Socket>, link: &Link) -> Option<usize> {
        let memory = connections.account();
        // Those who are here are not to be refused what they ask for because of others who have just begun not to read.
        let looks = if is_full(memory) { 0 } else { STALLED_LOOKS };
        let is_stalled = |at| {
            let is_slow = connections[at].is_slow(looks, link.scheduler());
            is_slow || connections.get(at).is_some_and(|conn| conn.part_bytes() >= PART_BYTES_MIN)
        };
        let stalled =
            || connections.iter().filter(|(at, _)| is_stalled(*at)).map(|(_, conn)| Stalled::from(conn)).collect();
        while let Some(owner) = self.next_found(now, excess_bytes(memory), stalled) {
            // It may have read since.
            if let Some(at) = connections.slot(owner).filter(|at| is_stalled(*at)) {
                return Some(at);
            }
        }
        None
    }

    /// The next of those that were found, or are now.
    fn next_found(&mut self, now: Nanos, excess_bytes: u64, stalled: impl FnOnce() -> Vec<Stalled>) -> Option<u64> {
        if self.costliest.is_empty() && now >= self.next_look_at() {
            self.looked_at = now;
            self.costliest = costliest(stalled(), excess_bytes);
            self.costliest.reverse();
        }
        self.costliest.pop()
    }

    fn next_look_at(&self) -> Nanos {
        self.looked_at + LOOK_EVERY
    }

    /// When there may be somebody to end.
    pub fn look_at(&self, memory: &Account) -> Option<Nanos> {
        let at = if self.costliest.is_empty() { self.next_look_at() } else { Nanos::ZERO };
        is_near(memory).then_some(at)
    }
}

/// Nobody else is let in.
pub(super) fn is_near(memory: &Account) -> bool {
    memory.bytes() >= memory.bytes_max() / 100 * NEAR_PERCENT
}

/// Those who are here are given no more.
pub(super) fn is_full(memory: &Account) -> bool {
    memory.bytes() >= memory.bytes_max()
}

fn excess_bytes(memory: &Account) -> u64 {
    memory.bytes().saturating_sub(memory.bytes_max() / 100 * ENOUGH_PERCENT)
}

/// Names of those that hold the excess, the first to go first: always the largest of the client whose others hold the most.
fn costliest(stalled: Vec<Stalled>, excess_bytes: u64) -> Vec<u64> {
    let mut by_client: HashMap<u32, (u64, Vec<Stalled>)> = HashMap::new();
    for one in stalled {
        let (bytes, all) = by_client.entry(one.client).or_default();
        *bytes += one.bytes;
        all.push(one);
    }
    by_client.values_mut().for_each(|(_, all)| all.sort_unstable());
    let mut clients: BinaryHeap<(u64, Vec<Stalled>)> = by_client.into_values().collect();
    let (mut found, mut found_bytes) = (Vec::new(), 0);
    while found_bytes < excess_bytes
        && let Some((bytes, mut all)) = clients.pop()
    {
        let Some(one) = all.pop() else { continue };
        found.push(one.owner);
        found_bytes += one.bytes;
        clients.push((bytes - one.bytes, all));
    }
    found
}

impl<S> From<&Connection<S>> for Stalled {
    fn from(conn: &Connection<S>) -> Stalled {
        Stalled { client: conn.client, bytes: conn.held.bytes(), owner: conn.owner }
    }
}

#[cfg(test)]
mod tests {
    use units::memory::Charge;

    use super::*;

    fn stalled(client: u32, bytes: u64, owner: u64) -> Stalled {
        Stalled { client, bytes, owner }
    }

    #[test]
    fn the_costliest_client_goes_first_and_of_it_the_costliest_connection() {
        let all = vec![stalled(1, 50, 10), stalled(2, 30, 20), stalled(2, 40, 21), stalled(3, 10, 30)];
        // 70 and 50 and 10; then 30, 50, 10; then 30, 10.
        assert_eq!(costliest(all.clone(), u64::MAX), [21, 10, 20, 30]);
        assert_eq!(costliest(all.clone(), 41), [21, 10]);
        assert!(costliest(all, 0).is_empty() && costliest(Vec::new(), 5).is_empty());
    }

    #[test]
    fn all_are_looked_at_seldom() {
        let mut shortage = Shortage::default();
        let now = Nanos::from_secs(5);
        let memory = Account::of_at_most(1000);
        let mut held = Charge::new(&memory, 899);
        assert!(!is_near(&memory) && shortage.look_at(&memory).is_none());
        held.set(900);
        assert!(is_near(&memory) && shortage.look_at(&memory) == Some(LOOK_EVERY));
        held.set(999);
        assert!(!is_full(&memory));
        held.set(1000);
        assert!(is_full(&memory) && excess_bytes(&memory) == 150);
        let found = || vec![stalled(1, 100, 7), stalled(1, 100, 8)];
        assert_eq!(shortage.next_found(now, 150, found), Some(8));
        assert_eq!(shortage.look_at(&memory), Some(Nanos::ZERO), "the other is known");
        let again = || unreachable!("they were looked at just now");
        assert_eq!([(); 2].map(|()| shortage.next_found(now, 50, again)), [Some(7), None]);
        assert_eq!(shortage.next_found(now + LOOK_EVERY, 50, found), Some(8));
    }
}
