//! When the memory for connections is nearly used up, connections are ended. Clients that do not read, and clients
//! whose waiting requests use the memory, come first, the costliest ones before the others. Idle connections come next.
//! New clients are not admitted until there is memory again.
//!
//! All connections are examined together, and rarely; the connections found are ended one after another, over several
//! turns.

use std::collections::{BinaryHeap, HashMap};

use units::Nanos;
use units::memory::Account;

use crate::connection::{Connection, Connections, WAITING_BYTES_MIN};
use crate::net::{Net, Socket, Transport};
use crate::proxy::Proxy;
use crate::send::Link;
use crate::upstream::Waiting;

/// The minimum time between two scans of all connections.
const LOOK_EVERY: Nanos = Nanos::from_millis(50);
/// Connections are ended once this percentage of the memory is in use.
const NEAR_PERCENT: u64 = 90;
/// Connections are ended until only this percentage of the memory is in use, so that the next newcomer does not cause
/// another shortage.
const ENOUGH_PERCENT: u64 = 85;
/// The number of looks, once a second, after which a reader that took too little each time is considered not to read.
/// That takes two to three seconds; lost packets are retransmitted after one second (RFC 6298 section 2).
pub(super) const STALLED_LOOKS: u8 = 3;
/// The idle time after which a connection may be closed for lack of memory.
pub(super) const IDLE_FOR: Nanos = Nanos::from_secs(1);

/// The state of a shortage of memory for the connections of a worker.
#[derive(Default)]
pub(super) struct Shortage {
    /// The connections to be ended, the next one at the end.
    costliest: Vec<u64>,
    looked_at: Nanos,
}

/// A stalled connection: its client, the bytes it holds, and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stalled {
    pub client: u32,
    pub bytes: u64,
    pub token: u64,
}

impl Shortage {
    /// Returns the slot of the stalled connection that costs the most. `waiting_bytes` returns the bytes of a
    /// connection's waiting requests.
    pub fn next<S: Socket>(
        &mut self,
        now: Nanos,
        connections: &Connections<S>,
        link: &Link,
        waiting_bytes: impl Fn(&Connection<S>) -> u64,
    ) -> Option<usize> {
        let memory = connections.account();
        // If memory is full, clients count as stalled immediately. Otherwise requests of other clients would be refused
        // because of clients that have only just stopped reading.
        let looks = if is_full(memory) { 0 } else { STALLED_LOOKS };
        let is_stalled = |at: usize| {
            let conn = &connections[at];
            conn.is_slow(looks, link.scheduler())
                || conn.part_bytes() >= WAITING_BYTES_MIN
                || conn.held.idle_looks() >= looks && waiting_bytes(conn) >= WAITING_BYTES_MIN
        };
        let stalled =
            || connections.iter().filter(|(at, _)| is_stalled(*at)).map(|(_, conn)| Stalled::from(conn)).collect();
        while let Some(token) = self.next_found(now, excess_bytes(memory), stalled) {
            // The client may have read since.
            if let Some(at) = connections.slot(token).filter(|at| is_stalled(*at)) {
                return Some(at);
            }
        }
        None
    }

    /// Returns the next connection of the last scan. If none is left, scans all connections.
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

    /// Returns the time at which there may be a connection to end; `None` if memory is not short.
    pub fn look_at(&self, memory: &Account) -> Option<Nanos> {
        let at = if self.costliest.is_empty() { self.next_look_at() } else { Nanos::ZERO };
        is_near(memory).then_some(at)
    }
}

/// Returns the bytes of a connection's waiting requests, and the bytes that upstreams have taken or that were sent to
/// the client: an answered request no longer waits.
pub(super) fn waiting<N: Net>(proxy: &Proxy<N>, conn: &Connection<Transport<N>>) -> Waiting {
    let begin = Waiting { bytes: conn.kept_bytes(), taken_bytes: conn.delivery.sent_bytes() };
    let of_exchanges = conn.protocol.exchanges().map(|exchange| proxy.waiting(exchange.id));
    of_exchanges.fold(begin, |sum, one| Waiting {
        bytes: sum.bytes + one.bytes,
        taken_bytes: sum.taken_bytes.wrapping_add(one.taken_bytes),
    })
}

/// Returns true if memory is so short that newcomers are not admitted.
pub(super) fn is_near(memory: &Account) -> bool {
    memory.bytes() >= memory.bytes_max() / 100 * NEAR_PERCENT
}

/// Returns true if memory is so short that existing clients get no more.
pub(super) fn is_full(memory: &Account) -> bool {
    memory.bytes() >= memory.bytes_max()
}

fn excess_bytes(memory: &Account) -> u64 {
    memory.bytes().saturating_sub(memory.bytes_max() / 100 * ENOUGH_PERCENT)
}

/// Returns the names of connections that together hold at least the excess, in the order in which to end them. Each is
/// the largest connection of the client whose remaining connections hold the most.
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
        found.push(one.token);
        found_bytes += one.bytes;
        clients.push((bytes - one.bytes, all));
    }
    found
}

impl<S> From<&Connection<S>> for Stalled {
    fn from(conn: &Connection<S>) -> Stalled {
        Stalled { client: conn.client, bytes: conn.held.bytes(), token: conn.token }
    }
}

#[cfg(test)]
mod tests {
    use units::memory::Charge;

    use super::*;

    fn stalled(client: u32, bytes: u64, token: u64) -> Stalled {
        Stalled { client, bytes, token }
    }

    #[test]
    fn the_costliest_client_goes_first_and_of_it_the_costliest_connection() {
        let all = vec![stalled(1, 50, 10), stalled(2, 30, 20), stalled(2, 40, 21), stalled(3, 10, 30)];
        // The clients hold 70, 50 and 10; then 30, 50, 10; then 30, 10.
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
