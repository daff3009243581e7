//! The files a worker has sent lately, by request path.
//!
//! The key is the path as the request had it, still percent-encoded, so that a hit decodes nothing; two spellings of one
//! path are two entries. One cache per worker, so no locks; a bounded one, so hostile paths cost the others their hits
//! and nothing more. Nothing is remembered about what does not exist: a file put there is served at once.
//!
//! A cached file that changes must be noticed before the next request. Three things see to that:
//! - the inode is watched ([`Watch`]), from before its state was read;
//! - after the watch is in place the path is opened again and must lead to the same inode, or the change of name that
//!   came between would never be told;
//! - what an inode's events cannot tell (a folder above renamed, a symlink swapped, a write through mmap or on another
//!   host of a network filesystem) is found by comparing path and state again, [`REVALIDATE_AFTER`] the last comparison;
//!   at every use where the inode could not be watched.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use percent_encoding::utf8_percent_encode;
use slab::Slab;
use units::Nanos;

use super::entry::State;
use super::listings::{LISTING_BYTES_MAX, Listings};
use super::watch::{Changed, Watch, WatchId};
use super::{Entry, Found, Missing, Root, listing};

/// How long an entry is believed without looking at the disk. A look is about 3 µs; once a second it is free.
pub const REVALIDATE_AFTER: Nanos = Nanos::from_secs(1);
/// Entries in the caches of all workers; about 1 KiB each beside the bodies.
pub const ENTRIES_MAX: usize = 4096;
/// Files kept open in the caches of all workers: a quarter of the descriptors a process usually may have (1024).
pub const FILES_OPEN_MAX: usize = 256;
/// Bodies in memory in the caches of all workers.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// Longer request paths are served but not remembered, or keys could take more memory than bodies.
const KEY_BYTES_MAX: usize = 1024;
/// Times to try again when the file at a path is replaced between the look and the open.
const LOAD_ATTEMPTS_MAX: usize = 3;

const INDEX: &str = "index.html";

/// What one cache may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLimits {
    pub entries: usize,
    pub files_open: usize,
    pub body_bytes: usize,
    pub listing_bytes: usize,
}

impl CacheLimits {
    /// A worker's share of the bounds above.
    pub fn per_worker(workers: usize) -> CacheLimits {
        let share = |all: usize| all / workers.clamp(1, all);
        CacheLimits {
            entries: share(ENTRIES_MAX),
            files_open: share(FILES_OPEN_MAX),
            body_bytes: share(BODY_BYTES_MAX),
            listing_bytes: share(LISTING_BYTES_MAX),
        }
    }
}

/// A worker's files. Entries are shared with whoever sends them and outlive their place here.
#[derive(Debug)]
pub struct Cache {
    root: Arc<Root>,
    limits: CacheLimits,
    slots: Slab<Slot>,
    by_path: HashMap<Arc<[u8]>, usize>,
    pub(super) watch: Watch,
    listings: Listings,
    files_open: usize,
    body_bytes: usize,
    /// Where the search for an entry to evict goes on.
    hand: usize,
    /// Of the last path decoded, kept for its memory.
    decoded: String,
}

#[derive(Debug)]
struct Slot {
    key: Arc<[u8]>,
    /// Decoded and relative; of the index where the key is a folder.
    path: Box<str>,
    entry: Arc<Entry>,
    state: State,
    watch: Option<WatchId>,
    compared_at: Nanos,
    /// Used since the hand last came by.
    used: bool,
}

/// What is at a path, freshly looked at.
enum Loaded {
    File(Box<LoadedFile>),
    Folder,
}

struct LoadedFile {
    entry: Entry,
    state: State,
    watch: Option<WatchId>,
    /// False if it was being replaced all the time: send it, do not remember it.
    settled: bool,
}

impl Cache {
    pub fn new(root: Arc<Root>, limits: CacheLimits) -> Cache {
        Cache {
            root,
            limits,
            slots: Slab::new(),
            by_path: HashMap::new(),
            watch: Watch::new(),
            listings: Listings::new(limits.listing_bytes),
            files_open: 0,
            body_bytes: 0,
            hand: 0,
            decoded: String::new(),
        }
    }

    /// What to send for this request path (without its query). `now` only has to grow.
    pub fn lookup(&mut self, raw_path: &[u8], now: Nanos) -> Result<Found, Missing> {
        if let Some(&at) = self.by_path.get(raw_path)
            && let Some(entry) = self.hit(at, now)
        {
            return Ok(Found::File(entry));
        }
        let mut path = std::mem::take(&mut self.decoded);
        path.clear();
        let found = match http::decode_path(raw_path, &mut path) {
            Ok(()) => self.find(raw_path, &path, now),
            Err(reject) => Err(Missing::BadPath(reject)),
        };
        self.decoded = path;
        found
    }

    /// Readable when a cached file has changed: then call [`Cache::on_change`], before any request that came with it.
    pub fn watch_fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.fd()
    }

    /// Forgets the entries whose files have changed. Never blocks.
    pub fn on_change(&mut self) {
        // Forgetting ends a watch, of which the kernel tells as well: the second time is for that.
        for _ in 0..2 {
            match self.watch.changed() {
                Changed::Slots(slots) => slots.into_iter().for_each(|at| self.forget(at)),
                Changed::Anything => self.clear(),
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        let files = self.slots.iter().map(|(at, _)| at);
        let all: Vec<usize> = files.chain(self.listings.slots()).collect();
        all.into_iter().for_each(|at| self.forget(at));
    }

    /// The entry if it still is what its path leads to; else forgets it.
    fn hit(&mut self, at: usize, now: Nanos) -> Option<Arc<Entry>> {
        let slot = &self.slots[at];
        if (slot.watch.is_none() || now - slot.compared_at >= REVALIDATE_AFTER) && !self.compare(at, now) {
            self.forget(at);
            return None;
        }
        let slot = &mut self.slots[at];
        slot.used = true;
        Some(slot.entry.clone())
    }

    #[cold]
    fn compare(&mut self, at: usize, now: Nanos) -> bool {
        let slot = &mut self.slots[at];
        match self.root.look(&slot.path).map_err(Missing::from) {
            Ok((_, metadata)) if State::of(&metadata) == slot.state => slot.compared_at = now,
            // Without a descriptor to look with, what is here is the best there is.
            Err(Missing::Exhausted) => {}
            _ => return false,
        }
        true
    }

    fn find(&mut self, raw_path: &[u8], path: &str, now: Nanos) -> Result<Found, Missing> {
        if !self.root.admits(path) {
            return Err(Missing::NotFound);
        }
        let inside = path.trim_matches('/');
        if inside.is_empty() || path.ends_with('/') {
            return self.find_in_folder(raw_path, inside, now);
        }
        Ok(match self.load(inside)? {
            Loaded::Folder => Found::Redirect(folder_link(inside)),
            Loaded::File(loaded) => Found::File(self.insert(raw_path, inside, *loaded, now)),
        })
    }

    fn find_in_folder(&mut self, raw_path: &[u8], folder: &str, now: Nanos) -> Result<Found, Missing> {
        let index = if folder.is_empty() { INDEX.to_string() } else { format!("{folder}/{INDEX}") };
        match self.load(&index) {
            Ok(Loaded::Folder) | Err(Missing::NotFound) => self.list(folder, now),
            Ok(Loaded::File(loaded)) => Ok(Found::File(self.insert(raw_path, &index, *loaded, now))),
            Err(missing) => Err(missing),
        }
    }

    fn list(&mut self, folder: &str, now: Nanos) -> Result<Found, Missing> {
        let (looked, metadata) = self.root.look(folder)?;
        match (metadata.is_dir(), self.root.options.listing) {
            (false, _) => return Err(Missing::NotFound),
            (true, false) => return Err(Missing::Forbidden),
            (true, true) => {}
        }
        let state = State::of(&metadata);
        if let Some(page) = self.listings.get(folder, state, now) {
            return Ok(Found::Listing(page));
        }
        // Before the folder is read, so that no change after that goes unnoticed.
        let watch = self.watch.add_folder(&looked);
        let page = listing::page(&self.root, folder);
        if let (Some(watch), Err(_)) = (watch, &page) {
            self.watch.release(watch);
        }
        let page = Arc::new(page?);
        if let Some(watch) = watch {
            self.keep_listing(folder, state, &page, watch, now);
        }
        Ok(Found::Listing(page))
    }

    fn keep_listing(&mut self, folder: &str, state: State, page: &Arc<Vec<u8>>, watch: WatchId, now: Nanos) {
        while let Some(slot) = self.listings.displaced(folder, page.len()) {
            self.forget(slot);
        }
        match self.listings.insert(folder, state, page, watch, now) {
            Some(slot) => self.watch.attach(watch, slot),
            None => self.watch.release(watch),
        }
    }

    /// Opens what is at the path. Without a descriptor for it, lets go of the ones kept here and tries once more.
    fn load(&mut self, path: &str) -> Result<Loaded, Missing> {
        match self.load_settled(path) {
            Err(Missing::Exhausted) if self.files_open > 0 => {
                while self.evict(|slot| slot.entry.is_open()) {}
                self.load_settled(path)
            }
            loaded => loaded,
        }
    }

    fn load_settled(&mut self, path: &str) -> Result<Loaded, Missing> {
        let mut loaded = self.load_once(path)?;
        for _ in 1..LOAD_ATTEMPTS_MAX {
            if !matches!(&loaded, Loaded::File(file) if !file.settled) {
                break;
            }
            loaded = self.load_once(path)?;
        }
        Ok(loaded)
    }

    fn load_once(&mut self, path: &str) -> Result<Loaded, Missing> {
        let (looked, metadata) = self.root.look(path)?;
        if metadata.is_dir() {
            return Ok(Loaded::Folder);
        }
        if !metadata.is_file() {
            return Err(Missing::NotFound);
        }
        let watch = self.watch.add(&looked);
        let read = self.read(path);
        let settled = read.as_ref().is_ok_and(|(_, state)| state.is_same_file(&metadata));
        if let (Some(id), false) = (watch, settled) {
            self.watch.release(id);
        }
        let (entry, state) = read?;
        let watch = watch.filter(|_| settled);
        Ok(Loaded::File(Box::new(LoadedFile { entry, state, watch, settled })))
    }

    fn read(&self, path: &str) -> Result<(Entry, State), Missing> {
        let file = self.root.read(path)?;
        let metadata = file.metadata()?;
        // The look has seen a regular file, but that was before the open.
        if !metadata.is_file() {
            return Err(Missing::NotFound);
        }
        Ok(Entry::load(path, file, metadata)?)
    }

    /// Remembers what was loaded, if it may be, and hands it out.
    fn insert(&mut self, raw_path: &[u8], path: &str, loaded: LoadedFile, now: Nanos) -> Arc<Entry> {
        let LoadedFile { entry, state, watch, settled } = loaded;
        let entry = Arc::new(entry);
        if !settled || raw_path.len() > KEY_BYTES_MAX || !self.make_room(&entry) {
            if let Some(id) = watch {
                self.watch.release(id);
            }
            return entry;
        }
        self.files_open += usize::from(entry.is_open());
        self.body_bytes += entry.held_bytes();
        let key: Arc<[u8]> = raw_path.into();
        let at = self.slots.insert(Slot {
            key: key.clone(),
            path: path.into(),
            entry: entry.clone(),
            state,
            watch,
            compared_at: now,
            used: false,
        });
        if let Some(id) = watch {
            self.watch.attach(id, at);
        }
        self.by_path.insert(key, at);
        entry
    }

    /// Evicts until this entry fits; false if it never will.
    fn make_room(&mut self, entry: &Entry) -> bool {
        let (open, held) = (usize::from(entry.is_open()), entry.held_bytes());
        let limits = self.limits;
        if limits.entries == 0 || open > limits.files_open || held > limits.body_bytes {
            return false;
        }
        while self.slots.len() >= limits.entries && self.evict(|_| true) {}
        while self.files_open + open > limits.files_open && self.evict(|slot| slot.entry.is_open()) {}
        while self.body_bytes + held > limits.body_bytes && self.evict(|slot| slot.entry.held_bytes() > 0) {}
        true
    }

    /// Forgets one entry of this kind, the next one not used since the hand last came by (second chance); false if
    /// there is none.
    fn evict(&mut self, kind: impl Fn(&Slot) -> bool) -> bool {
        let places = self.slots.capacity();
        // Once around to take away the chances, once more to find one without.
        for _ in 0..2 * places {
            let at = self.hand;
            self.hand = (at + 1) % places;
            match self.slots.get_mut(at) {
                Some(slot) if kind(slot) && slot.used => slot.used = false,
                Some(slot) if kind(slot) => {
                    self.forget(at);
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// Does nothing for an entry forgotten already.
    fn forget(&mut self, at: usize) {
        if Listings::is_slot(at) {
            if let Some(watch) = self.listings.take(at) {
                self.watch.detach(watch, at);
            }
            return;
        }
        let Some(slot) = self.slots.try_remove(at) else { return };
        self.files_open -= usize::from(slot.entry.is_open());
        self.body_bytes -= slot.entry.held_bytes();
        self.by_path.remove(&slot.key);
        if let Some(id) = slot.watch {
            self.watch.detach(id, at);
        }
    }

    #[cfg(test)]
    pub(super) fn listings(&self) -> (usize, usize) {
        self.listings.usage()
    }

    /// Entries, files kept open, bytes held.
    #[cfg(test)]
    pub(super) fn usage(&self) -> (usize, usize, usize) {
        (self.by_path.len(), self.files_open, self.body_bytes)
    }
}

/// The path of a folder as a link from the root, with its slash.
fn folder_link(folder: &str) -> String {
    let mut link = String::with_capacity(folder.len() + 2);
    for segment in folder.split('/').filter(|segment| !segment.is_empty()) {
        link.push('/');
        link.extend(utf8_percent_encode(segment, listing::SEGMENT));
    }
    link.push('/');
    link
}
