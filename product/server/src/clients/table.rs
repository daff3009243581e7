//! The accounts of clients, by a small index that a client keeps while it has connections.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use units::Nanos;

use super::idle_clients::Idle;

/// The maximum number of remembered clients without connections. They take 6 MB.
pub const CLIENTS_REMEMBERED: usize = 131_072;

/// The number of generations of an index before they wrap around. It is chosen so that a generation plus one is never
/// 0.
const GENERATIONS: u16 = u16::MAX;

/// The half-life of a count of bytes, in milliseconds.
const HALF_LIFE_MS: f32 = 60_000.0;
/// The maximum lag of one worker's clock behind another's. A worker's clock shows the start of its current turn.
const BEHIND_MS_MAX: u32 = 60_000;

/// A client's account, in 36 bytes.
#[derive(Debug)]
pub struct Entry {
    prefix: [u32; 4],
    pub connections: u32,
    /// The generation of the index: the number of clients that have had it before, wrapping around.
    pub generation: u16,
    /// The number of refusals, at most 65,535.
    pub refusals: u16,
    /// The requests that have not drained yet, in thousandths.
    pub requests_milli: u32,
    /// The bytes sent, with older bytes decaying.
    pub bytes: f32,
    /// The time up to which requests have drained and byte counts have decayed.
    at_ms: u32,
}

impl Entry {
    fn new(prefix: u128, generation: u16, now_ms: u32) -> Entry {
        let prefix = [96, 64, 32, 0].map(|shift| (prefix >> shift) as u32);
        Entry { prefix, generation, connections: 0, refusals: 0, requests_milli: 0, bytes: 0.0, at_ms: now_ms }
    }

    pub fn prefix(&self) -> u128 {
        self.prefix.iter().fold(0, |bits, &word| bits << 32 | u128::from(word))
    }

    /// Advances the counts to `now`, draining requests at `requests_per_s`. The milliseconds wrap around after 49 days;
    /// then a count may be reduced too much or too little.
    pub fn advance(&mut self, now: Nanos, requests_per_s: u32) {
        let now_ms = millis(now);
        let elapsed_ms = now_ms.wrapping_sub(self.at_ms);
        if elapsed_ms == 0 || elapsed_ms > u32::MAX - BEHIND_MS_MAX {
            return;
        }
        self.at_ms = now_ms;
        self.requests_milli = self.requests_milli.saturating_sub(elapsed_ms.saturating_mul(requests_per_s));
        self.bytes *= (-(elapsed_ms as f32) / HALF_LIFE_MS).exp2();
    }
}

fn millis(now: Nanos) -> u32 {
    (now.0 / 1_000_000) as u32
}

/// The accounts by prefix. Clients choose their addresses, so the hash is keyed.
#[derive(Default)]
pub struct Table {
    entries: Vec<Entry>,
    by_prefix: HashTable<u32>,
    keys: RandomState,
    idle: Idle,
}

impl Table {
    pub fn entry(&mut self, index: u32) -> &mut Entry {
        &mut self.entries[index as usize]
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the index of the client with this prefix, if it is remembered.
    pub fn find(&self, prefix: u128) -> Option<u32> {
        let hash = self.keys.hash_one(prefix);
        self.by_prefix.find(hash, |&index| self.entries[index as usize].prefix() == prefix).copied()
    }

    /// Returns the index of the client with this prefix, adding the client if necessary.
    pub fn find_or_insert(&mut self, prefix: u128, now: Nanos) -> u32 {
        if let Some(index) = self.find(prefix) {
            return index;
        }
        let hash = self.keys.hash_one(prefix);
        let index = self.vacate(prefix, millis(now));
        let (entries, keys) = (&self.entries, &self.keys);
        self.by_prefix.insert_unique(hash, index, |&index| keys.hash_one(entries[index as usize].prefix()));
        index
    }

    /// Returns an index for a new client: an unused one if there is room, or that of a client without connections.
    fn vacate(&mut self, prefix: u128, now_ms: u32) -> u32 {
        if self.idle.len() >= CLIENTS_REMEMBERED
            && let Some(index) = self.idle.take()
        {
            let old = &self.entries[index as usize];
            let (hash, generation) = (self.keys.hash_one(old.prefix()), (old.generation + 1) % GENERATIONS);
            self.by_prefix.find_entry(hash, |&other| other == index).expect("every client can be found").remove();
            self.entries[index as usize] = Entry::new(prefix, generation, now_ms);
            return index;
        }
        self.entries.push(Entry::new(prefix, 0, now_ms));
        u32::try_from(self.entries.len() - 1).expect("fewer clients than connections and remembered ones")
    }

    pub fn connect(&mut self, index: u32) {
        self.idle.remove(index);
        self.entry(index).connections += 1;
    }

    pub fn disconnect(&mut self, index: u32) {
        let entry = self.entry(index);
        entry.connections -= 1;
        if entry.connections == 0 {
            self.idle.insert(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::ZERO;

    fn enter(table: &mut Table, prefix: u128) -> u32 {
        let index = table.find_or_insert(prefix, NOW);
        table.connect(index);
        index
    }

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 36);
    }

    /// 200,000 addresses, one after the other: clients that are gone make room, and those with connections keep their
    /// indexes.
    #[test]
    fn a_full_table_forgets_those_that_are_gone() {
        let mut table = Table::default();
        let stays: Vec<(u128, u32)> = (0..1000).map(|n| n << 64).map(|n| (n, enter(&mut table, n))).collect();
        for prefix in 1..=200_000 {
            let index = enter(&mut table, prefix);
            table.disconnect(index);
        }
        assert_eq!(table.entries.len(), CLIENTS_REMEMBERED + stays.len());
        assert_eq!(table.by_prefix.len(), table.entries.len());
        assert_eq!(table.idle.len(), CLIENTS_REMEMBERED);
        for (prefix, index) in stays {
            assert_eq!((table.find_or_insert(prefix, NOW), table.entry(index).generation), (index, 0), "{prefix:x}");
        }
        // The last is remembered. The first is not, and returns under the index of another.
        let last = table.find_or_insert(200_000, NOW);
        assert!(table.entry(last).generation == 1 && table.entry(last).prefix() == 200_000);
        let again = table.find_or_insert(1, NOW);
        assert!(table.entry(again).generation > 0 && table.entries.len() == CLIENTS_REMEMBERED + 1000);
    }

    /// A client that returns is not the next to be evicted.
    #[test]
    fn a_client_that_returns_keeps_its_index() {
        let mut table = Table::default();
        let index = enter(&mut table, 7);
        table.disconnect(index);
        assert_eq!((enter(&mut table, 7), table.idle.len()), (index, 0));
        enter(&mut table, 7);
        table.disconnect(index);
        assert_eq!((table.entry(index).connections, table.idle.len()), (1, 0), "one of two connections");
    }

    #[test]
    fn bytes_fall_to_a_half_in_a_minute() {
        let mut entry = Entry::new(1, 0, 0);
        entry.bytes = 1000.0;
        (1..=60_000).for_each(|ms| entry.advance(Nanos::from_millis(ms), 0));
        assert!((entry.bytes - 500.0).abs() < 5.0, "{}", entry.bytes);
        entry.advance(Nanos::from_secs(120), 0);
        assert!((entry.bytes - 250.0).abs() < 3.0, "{}", entry.bytes);
    }

    /// An earlier instant comes from a worker whose turn began earlier, or from a clock that has wrapped around since
    /// the client was remembered.
    #[test]
    fn an_instant_before_changes_nothing() {
        let mut entry = Entry::new(1, 0, millis(Nanos::from_secs(100)));
        entry.requests_milli = 5000;
        entry.advance(Nanos::from_secs(99), 1);
        assert_eq!(entry.requests_milli, 5000);
        entry.advance(Nanos::from_secs(101), 1);
        assert_eq!(entry.requests_milli, 4000);
        entry.advance(Nanos::from_secs(30 * 24 * 3600), 1);
        assert_eq!(entry.requests_milli, 0);
    }

    /// A worker stores a client's generation plus one, and 0 stands for none.
    #[test]
    fn generations_come_round_before_the_last() {
        let mut table = Table::default();
        for prefix in 0..=CLIENTS_REMEMBERED as u128 {
            let index = enter(&mut table, prefix);
            table.entry(index).generation = GENERATIONS - 1;
            table.disconnect(index);
        }
        let newest = enter(&mut table, u128::MAX);
        assert_eq!(table.entry(newest).generation, 0);
    }
}
