//! The entries of a cache, within its limits. A hand circles over the slots to evict entries, and takes the next one
//! that has not been used since the hand last passed it (second chance).

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use slab::Slab;
use units::Nanos;

use super::cache_limits::{CacheLimits, REVALIDATE_AFTER};
use super::entry::{Entry, State};
use super::key::{Key, SiteNumber};
use super::watch::WatchId;

#[derive(Debug)]
pub(super) struct Entries {
    slots: Slab<Slot>,
    by_key: HashMap<Key, usize>,
    limits: CacheLimits,
    files_open: usize,
    body_bytes: usize,
    /// The slot at which the search for an entry to evict continues.
    hand: usize,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub key: Key,
    pub entry: Arc<Entry>,
    pub state: State,
    pub watch: Option<WatchId>,
    pub compared_at: Nanos,
    /// True if the entry was used since the hand last passed it.
    pub used: bool,
}

impl Entries {
    pub fn new(limits: CacheLimits) -> Entries {
        Entries { slots: Slab::new(), by_key: HashMap::new(), limits, files_open: 0, body_bytes: 0, hand: 0 }
    }

    /// The slot of the entry with this key.
    pub fn at<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        Key: Borrow<Q>,
    {
        self.by_key.get(key).copied()
    }

    pub fn of(&self, key: &Key) -> Option<&Slot> {
        self.at(key).map(|at| &self.slots[at])
    }

    /// The slots of all entries.
    pub fn slots(&self) -> Vec<usize> {
        self.slots.iter().map(|(at, _)| at).collect()
    }

    /// The slots of a site's entries.
    pub fn slots_of(&self, site: SiteNumber) -> Vec<usize> {
        self.slots.iter().filter(|(_, slot)| slot.key.site() == site).map(|(at, _)| at).collect()
    }

    /// The slots of entries whose files only the cache holds open, and that were last compared at `then` or earlier.
    pub fn open_since(&self, then: Nanos) -> Vec<usize> {
        if !self.has_open() {
            return Vec::new();
        }
        let is_unused = |entry: &Arc<Entry>| entry.files_open() > 0 && Arc::strong_count(entry) == 1;
        let is_idle = |slot: &Slot| slot.compared_at <= then && is_unused(&slot.entry);
        self.slots.iter().filter(|(_, slot)| is_idle(slot)).map(|(at, _)| at).collect()
    }

    pub fn has_open(&self) -> bool {
        self.files_open > 0
    }

    /// Returns the entry if it was compared with the file system recently enough.
    pub fn hit(&mut self, at: usize, now: Nanos) -> Option<Arc<Entry>> {
        let slot = &mut self.slots[at];
        if slot.watch.is_none() || now - slot.compared_at >= REVALIDATE_AFTER {
            return None;
        }
        slot.used = true;
        Some(slot.entry.clone())
    }

    /// Records that the entry was compared and is unchanged.
    pub fn confirm(&mut self, key: &Key, entry: &Arc<Entry>, now: Nanos) {
        if let Some(at) = self.at(key)
            && let slot = &mut self.slots[at]
            && Arc::ptr_eq(&slot.entry, entry)
        {
            slot.compared_at = slot.compared_at.max(now);
            slot.used = true;
        }
    }

    /// Returns false if this entry is too large to be cached.
    pub fn may_hold(&self, entry: &Entry) -> bool {
        let CacheLimits { entries, files_open, body_bytes, .. } = self.limits;
        entries > 0 && entry.files_open() <= files_open && entry.held_bytes() <= body_bytes
    }

    /// Returns the slot of an entry that must be evicted to make room for this one.
    pub fn displaced_by(&mut self, entry: &Entry) -> Option<usize> {
        let (open, held) = (entry.files_open(), entry.held_bytes());
        let CacheLimits { entries, files_open, body_bytes, .. } = self.limits;
        let any = if self.slots.len() >= entries { self.next(|_| true) } else { None };
        any.or_else(|| if self.files_open + open > files_open { self.next_open() } else { None }).or_else(|| {
            let is_full = self.body_bytes + held > body_bytes;
            if is_full { self.next(|slot| slot.entry.held_bytes() > 0) } else { None }
        })
    }

    /// Returns the next entry to evict among those whose files are kept open.
    pub fn next_open(&mut self) -> Option<usize> {
        self.next(|slot| slot.entry.files_open() > 0)
    }

    /// Returns the next entry to evict among those of this kind.
    fn next(&mut self, kind: impl Fn(&Slot) -> bool) -> Option<usize> {
        let places = self.slots.capacity();
        // The first round clears the `used` flags, the second finds an entry without one.
        for _ in 0..2 * places {
            let at = self.hand;
            self.hand = (at + 1) % places;
            match self.slots.get_mut(at) {
                Some(slot) if kind(slot) && slot.used => slot.used = false,
                Some(slot) if kind(slot) => return Some(at),
                _ => {}
            }
        }
        None
    }

    /// Inserts an entry, for which there must be room.
    pub fn insert(&mut self, slot: Slot) -> usize {
        self.files_open += slot.entry.files_open();
        self.body_bytes += slot.entry.held_bytes();
        let key = slot.key.clone();
        let at = self.slots.insert(slot);
        self.by_key.insert(key, at);
        at
    }

    /// Removes the entry in a slot; `None` if it was removed already.
    pub fn remove(&mut self, at: usize) -> Option<Slot> {
        let slot = self.slots.try_remove(at)?;
        self.files_open -= slot.entry.files_open();
        self.body_bytes -= slot.entry.held_bytes();
        self.by_key.remove(&slot.key);
        Some(slot)
    }

    pub fn set_limits(&mut self, limits: CacheLimits) {
        self.limits = limits;
    }

    /// The number of entries, the number of files kept open, and the bytes held.
    #[cfg(test)]
    pub fn usage(&self) -> (usize, usize, usize) {
        (self.by_key.len(), self.files_open, self.body_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::temporary::Folder;
    use super::*;

    const NOW: Nanos = Nanos::from_secs(5);

    fn slot(key: &[u8], entry: Arc<Entry>) -> Slot {
        let state = State::of(&std::env::temp_dir().metadata().unwrap());
        Slot { key: Key::from(key), entry, state, watch: None, compared_at: NOW, used: false }
    }

    #[test]
    fn the_next_that_was_not_used_goes_first() {
        let folder = Folder::new();
        folder.put("a", "12345");
        let entry = folder.entry("a");
        let limits = CacheLimits { entries: 2, ..CacheLimits::per_worker(1) };
        let mut entries = Entries::new(limits);
        assert!(entries.may_hold(&entry) && entries.displaced_by(&entry).is_none());
        let [first, second] = [b"0000a", b"0000b"].map(|key| entries.insert(slot(key, Arc::clone(&entry))));
        assert_eq!((entries.at(&b"0000a"[..]), entries.usage()), (Some(first), (2, 0, 10)));
        entries.confirm(&Key::from(&b"0000a"[..]), &entry, NOW);
        assert_eq!(entries.displaced_by(&entry), Some(second), "the other was used");
        assert!(entries.remove(second).is_some() && entries.remove(second).is_none());
        assert_eq!((entries.displaced_by(&entry), entries.usage()), (None, (1, 0, 5)));
        assert!(!Entries::new(CacheLimits { entries: 0, ..limits }).may_hold(&entry));
    }
}
