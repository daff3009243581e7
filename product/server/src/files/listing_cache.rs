//! Recently made listings, by site and folder.
//!
//! Making a listing requires a look at every name: 10 ms for a thousand names, and as many disk accesses if they are
//! not in memory. A cached listing is sent if the folder is still in the state from which it was made, no file in it
//! was reported as changed, and it is less than [`REVALIDATE_AFTER`] old. The age matters because changes inside a
//! subfolder or behind a symlink are not reported.

use std::collections::HashMap;
use std::sync::Arc;

use units::Nanos;

use super::cache_limits::REVALIDATE_AFTER;
use super::entry::State;
use super::watch::WatchId;

/// The first watch slot for listings.
const FIRST_SLOT: usize = 1 << (usize::BITS - 1);

#[derive(Debug)]
pub(super) struct Listings {
    bytes_max: usize,
    bytes: usize,
    by_folder: HashMap<Box<[u8]>, Listing>,
    /// The folder of each slot, because watches are identified by slot number.
    folders: HashMap<usize, Box<[u8]>>,
    next_slot: usize,
}

#[derive(Debug)]
struct Listing {
    page: Arc<Vec<u8>>,
    state: State,
    made_at: Nanos,
    slot: usize,
    watch: WatchId,
}

impl Listings {
    pub fn new(bytes_max: usize) -> Listings {
        Listings { bytes_max, bytes: 0, by_folder: HashMap::new(), folders: HashMap::new(), next_slot: FIRST_SLOT }
    }

    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Returns a recently made page of the folder, and the state that the folder had when the page was made.
    pub fn get(&self, folder: &[u8], now: Nanos) -> Option<(Arc<Vec<u8>>, State)> {
        let listing = self.by_folder.get(folder)?;
        (now - listing.made_at < REVALIDATE_AFTER).then(|| (listing.page.clone(), listing.state))
    }

    /// Stores a page and returns its slot for the watch; `None` if the page is too long to be stored. Listings that it
    /// displaces must first be removed with [`Listings::take`]: see [`Listings::displaced`].
    pub fn insert(
        &mut self,
        folder: &[u8],
        state: State,
        page: &Arc<Vec<u8>>,
        watch: WatchId,
        now: Nanos,
    ) -> Option<usize> {
        if page.len() + self.bytes > self.bytes_max {
            return None;
        }
        let slot = self.next_slot;
        self.next_slot = slot.checked_add(1).unwrap_or(FIRST_SLOT);
        self.bytes += page.len();
        self.by_folder.insert(folder.into(), Listing { page: page.clone(), state, made_at: now, slot, watch });
        self.folders.insert(slot, folder.into());
        Some(slot)
    }

    /// Returns a slot that must be removed before a page of this length is inserted for this folder; `None` if there is
    /// room.
    pub fn displaced(&self, folder: &[u8], page_bytes: usize) -> Option<usize> {
        if let Some(old) = self.by_folder.get(folder) {
            return Some(old.slot);
        }
        let is_full = self.bytes + page_bytes > self.bytes_max && page_bytes <= self.bytes_max;
        is_full.then(|| self.by_folder.values().min_by_key(|listing| listing.made_at).map(|oldest| oldest.slot))?
    }

    /// Forgets a listing, and returns its watch; `None` if it was forgotten already.
    pub fn take(&mut self, slot: usize) -> Option<WatchId> {
        let listing = self.by_folder.remove(&self.folders.remove(&slot)?).expect("a slot has its listing");
        self.bytes -= listing.page.len();
        Some(listing.watch)
    }

    pub fn slots(&self) -> Vec<usize> {
        self.folders.keys().copied().collect()
    }

    pub fn is_slot(at: usize) -> bool {
        at >= FIRST_SLOT
    }

    #[cfg(test)]
    pub fn usage(&self) -> (usize, usize) {
        (self.by_folder.len(), self.bytes)
    }
}
