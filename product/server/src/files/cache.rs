//! The files that a worker has sent recently, by request path.
//!
//! The key is the path as requested, still percent-encoded, so that a hit requires no decoding; two spellings of a path
//! are two entries. Each worker has its own cache, so there are no locks. The cache is bounded, so hostile paths can
//! only cause misses for other clients. Another thread looks up files that are not in memory
//! ([`CacheAnswer::Offload`]): nothing here waits for a disk.
//!
//! A change to a cached file must be noticed before the next request. Three mechanisms ensure that:
//! - the inode is watched ([`Watch`]), from before its state was read;
//! - after the watch is in place, the path is opened again and must lead to the same inode; otherwise a rename in
//!   between would go unreported;
//! - changes that an inode's events do not report (a folder above renamed, a symlink swapped, a write through mmap or
//!   on another host of a network file system) are found by comparing path and state again once [`REVALIDATE_AFTER`]
//!   has passed since the last comparison, or at every use if the inode could not be watched.
//!
//! The cache checks four times a second whether another folder has replaced a root ([`Followed`]); the files cached for
//! that site and all listings are then dropped. If a root cannot be checked without waiting, the next lookup that may
//! wait finds the replacement: at the latest, the next comparison of a file.
//!
//! A file that stays open keeps its file system mounted, so it is closed once [`IDLE_AFTER`] has passed since its last
//! use.
//!
//! For paths that do not exist, the cache remembers only the names of some folders that lack them ([`Absent`]). The
//! same three mechanisms ensure that a file created there is served immediately. The folder is watched from before its
//! names were read. After that the path must lead to the same folder. It is compared again once [`REVALIDATE_AFTER`]
//! has passed since the last comparison. A folder that cannot be watched is not remembered.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use units::Nanos;

use super::absent::{Absent, Folder};
use super::cache_limits::{CacheLimits, REVALIDATE_AFTER};
use super::entries::{Entries, Slot};
use super::entry::{Closer, State};
use super::listing_cache::Listings;
use super::loader::{Known, Loaded, LoadedFile, LoadedPage, Loader, Outcome};
use super::lookup::{FinishedLookup, Lookup, Request};
use super::replaced_roots::Followed;
use super::root::Identity;
use super::view::ListingView;
use super::watch::{Changed, Inotify, Watch, WatchId};
use super::{Entry, Found, Key, Missing, Root, Roots, SiteNumber, Stop, Wait, trim_slashes};
use crate::disk::Pool;

/// The time since its last comparison after which a file is closed if it is neither requested nor being sent. The last
/// comparison is at most [`REVALIDATE_AFTER`] before the last use.
const IDLE_AFTER: Nanos = Nanos(3 * REVALIDATE_AFTER.0);
/// The maximum length of a remembered request path. Longer paths are served but not remembered; otherwise keys could
/// take more memory than bodies.
const KEY_BYTES_MAX: usize = 1024;

/// A worker's files. Entries are shared with the responses that send them, and may outlive their slots.
#[derive(Debug)]
pub struct Cache {
    roots: Roots,
    /// The roots of the previous sites, for requests that began with them.
    roots_before: Option<Roots>,
    followed: Followed,
    inotify: Inotify,
    closer: Option<Closer>,
    entries: Entries,
    watch: Watch,
    listings: Listings,
    absent: Absent,
    /// The reused buffer for the key of a lookup.
    wanted: Vec<u8>,
    decoded: Vec<u8>,
}

/// The result of looking a path up in a cache.
#[derive(Debug)]
pub enum CacheAnswer {
    Ready(Result<Found, Missing>),
    /// A lookup that a thread that may wait must run and then pass to [`Cache::finish`].
    Offload(Box<Lookup>),
}

impl Cache {
    /// Creates the cache of these roots, one per site.
    pub fn new(roots: Roots, limits: CacheLimits) -> Cache {
        let inotify = Inotify::new();
        Cache {
            watch: Watch::new(inotify.clone()),
            followed: Followed::new(&roots),
            roots,
            roots_before: None,
            inotify,
            closer: None,
            entries: Entries::new(limits),
            listings: Listings::new(limits.listing_bytes),
            absent: Absent::default(),
            wanted: Vec::new(),
            decoded: Vec::new(),
        }
    }

    /// Makes the pool close files if closing them may block.
    pub fn closing_by(mut self, pool: Arc<Pool>) -> Cache {
        self.closer = Some(Closer(pool));
        self
    }

    /// Sets the limits. Entries beyond them are evicted as others are inserted.
    pub fn set_limits(&mut self, limits: CacheLimits) {
        self.entries.set_limits(limits);
        self.listings.set_bytes_max(limits.listing_bytes);
    }

    /// Replaces the sites. Pending lookups for the previous sites are completed; lookups for earlier sites are given
    /// up. No entries or open files of the old sites are kept.
    pub fn replace_roots(&mut self, roots: Roots) {
        self.followed.replace(&roots);
        self.roots_before = Some(std::mem::replace(&mut self.roots, roots));
        self.clear();
    }

    /// Checks whether the root of a site has been replaced by another folder, if a check is due.
    fn follow(&mut self, site: SiteNumber, now: Nanos) {
        if self.followed.take_turn(self.roots.place(site), now)
            && let Some(Some(root)) = self.roots.of(site)
            && let Ok(folder) = root.identity()
        {
            self.see(site, folder, now);
        }
    }

    /// Records that the root of a site was this folder at time `at`. If it was a different folder before, drops the
    /// site's entries, and the listings and remembered folders of all sites.
    fn see(&mut self, site: SiteNumber, folder: Identity, at: Nanos) {
        let Some(Some(root)) = self.roots.of(site) else { return };
        if !self.followed.see(self.roots.place(site), root, folder, at) {
            return;
        }
        let of_site = self.entries.slots_of(site).into_iter().chain(self.listings.slots()).chain(self.absent.slots());
        let of_site: Vec<usize> = of_site.collect();
        of_site.into_iter().for_each(|at| self.forget(at));
        self.watch.release_unused();
        // A pending lookup may find files of the previous folder.
        self.watch.disturb_all();
    }

    /// Closes files that have not been requested recently. Must be called once a second while [`Cache::is_due`].
    pub fn close_idle(&mut self, now: Nanos) {
        for at in self.entries.open_since(now - IDLE_AFTER) {
            self.forget(at);
        }
        self.watch.release_unused();
    }

    /// Returns true while files are open or lines are waiting, so that [`Cache::close_idle`] and [`Cache::take_lines`]
    /// have work to do.
    pub fn is_due(&self) -> bool {
        self.entries.has_open() || self.followed.has_lines()
    }

    /// Returns lines for the log about roots that other folders have replaced.
    pub fn take_lines(&mut self) -> Vec<String> {
        self.followed.take_lines()
    }

    /// Looks up a request path of a site. The path has no query, but may end in the suffix of a listing's view. Never
    /// waits. `now` must not decrease.
    pub fn lookup(&mut self, site: SiteNumber, raw_path: &[u8], now: Nanos) -> CacheAnswer {
        self.follow(site, now);
        let mut wanted = std::mem::take(&mut self.wanted);
        Key::write(site, raw_path, &mut wanted);
        let hit = self.entries.at(wanted.as_slice()).and_then(|at| self.entries.hit(at, now));
        let found = match hit {
            Some(entry) => CacheAnswer::Ready(Ok(Found::File(entry))),
            None => self.look(&wanted, raw_path, site, now),
        };
        self.wanted = wanted;
        found
    }

    #[cold]
    fn look(&mut self, wanted: &[u8], raw_path: &[u8], site: SiteNumber, now: Nanos) -> CacheAnswer {
        let mut path = std::mem::take(&mut self.decoded);
        path.clear();
        let (without_view, _) = ListingView::split(raw_path);
        let found = match http::decode_path(without_view, &mut path) {
            Ok(()) => match self.root(site) {
                Some(Some(root)) if root.admits(&path) => match self.is_absent(site, &path, now) {
                    true => CacheAnswer::Ready(Err(Missing::NotFound)),
                    false => self.find(&Key::from(wanted), &path, now),
                },
                Some(_) => CacheAnswer::Ready(Err(Missing::NotFound)),
                None => CacheAnswer::Ready(Err(Missing::Exhausted)),
            },
            Err(reject) => CacheAnswer::Ready(Err(Missing::BadPath(reject))),
        };
        self.decoded = path;
        found
    }

    /// Returns true if a folder on this path is known to lack the next name of the path, and still lacks it.
    fn is_absent(&mut self, site: SiteNumber, path: &[u8], now: Nanos) -> bool {
        let Some(at) = self.absent.lacking(site, path) else { return false };
        let root = self.root(site).flatten().cloned();
        let is_true = root.is_some_and(|root| self.absent.is_true(at, &root, now));
        if !is_true {
            self.forget(at);
            self.watch.release_unused();
        }
        is_true
    }

    /// Returns the root of a site; `Some(None)` for a site without a folder, and `None` for a site that no longer
    /// exists.
    fn root(&self, site: SiteNumber) -> Option<Option<&Arc<Root>>> {
        self.roots.of(site).or_else(|| self.roots_before.as_ref()?.of(site))
    }

    fn loader(&self, site: SiteNumber) -> Option<Loader> {
        let root = Arc::clone(self.root(site)??);
        Some(Loader { root, inotify: self.inotify.clone(), closer: self.closer.clone() })
    }

    /// Takes the result of a lookup. If the lookup failed for lack of a descriptor, the cache closes its open files and
    /// returns the lookup to be run again.
    pub fn finish(&mut self, done: FinishedLookup) -> CacheAnswer {
        let FinishedLookup { request, outcome, without } = done;
        if let Some(folder) = outcome.root {
            self.see(request.key.site(), folder, request.began_at);
        }
        if outcome.is_short() && !request.is_second && self.close_files() {
            self.give_back(outcome.added);
            let since = self.watch.moment();
            return self.offload(Request { is_second: true, since, ..request });
        }
        if let Some(folder) = without.filter(|folder| self.watch.is_undisturbed(folder.watch, request.since)) {
            self.keep_names(request.key.site(), folder, request.began_at);
        }
        let is_undisturbed = outcome.added.iter().all(|&id| self.watch.is_undisturbed(id, request.since));
        CacheAnswer::Ready(self.keep(&request.key, &request.known, outcome, is_undisturbed, request.began_at))
    }

    /// The descriptor that becomes readable when a cached file has changed. The caller must then call
    /// [`Cache::on_change`] before it handles any request that arrived at the same time.
    pub fn watch_fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.fd()
    }

    /// Forgets entries whose files have changed. Never blocks.
    pub fn on_change(&mut self) {
        // Forgetting an entry ends a watch, and the kernel reports that too: the second round takes this event.
        for _ in 0..2 {
            match self.watch.changed() {
                Changed::Slots(slots) => slots.into_iter().for_each(|at| self.forget(at)),
                Changed::Anything => self.clear(),
            }
            self.watch.release_unused();
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        let all = self.entries.slots().into_iter().chain(self.listings.slots()).chain(self.absent.slots());
        let all: Vec<usize> = all.collect();
        all.into_iter().for_each(|at| self.forget(at));
        self.watch.release_unused();
    }

    fn find(&mut self, key: &Key, path: &[u8], now: Nanos) -> CacheAnswer {
        let Some(loader) = self.loader(key.site()) else { return CacheAnswer::Ready(Err(Missing::Exhausted)) };
        let known = self.known(key, path, now);
        let (_, view) = ListingView::split(key.raw_path());
        let mut outcome = loader.find(path, view, &known, Wait::Never);
        if outcome.is_short() && self.close_files() {
            self.give_back(outcome.added);
            outcome = loader.find(path, view, &known, Wait::Never);
        }
        if !matches!(outcome.loaded, Err(Stop::WouldWait)) {
            return CacheAnswer::Ready(self.keep(key, &known, outcome, true, now));
        }
        self.give_back(outcome.added);
        let (key, path, since) = (key.clone(), path.to_vec(), self.watch.moment());
        let reads_names = self.absent.take_turn(now);
        let request = Request { key, path, known, began_at: now, since, is_second: false, reads_names };
        self.offload(request)
    }

    fn offload(&self, request: Request) -> CacheAnswer {
        match self.loader(request.key.site()) {
            Some(loader) => CacheAnswer::Offload(Box::new(Lookup::new(request, loader))),
            None => CacheAnswer::Ready(Err(Missing::Exhausted)),
        }
    }

    fn known(&self, key: &Key, path: &[u8], now: Nanos) -> Known {
        if let Some(slot) = self.entries.of(key) {
            return Known::File(slot.entry.clone(), slot.state);
        }
        let is_folder = path.is_empty() || path.ends_with(b"/");
        let folder = is_folder.then(|| self.listings.get(&folder_of(key, trim_slashes(path)), now)).flatten();
        folder.map_or(Known::Nothing, |(page, state)| Known::Page(page, state))
    }

    /// Caches the outcome of a lookup if that is permitted, and returns it.
    fn keep(
        &mut self,
        key: &Key,
        known: &Known,
        outcome: Outcome,
        is_undisturbed: bool,
        now: Nanos,
    ) -> Result<Found, Missing> {
        let Outcome { loaded, added, lines, .. } = outcome;
        self.followed.add_lines(lines);
        if !matches!(loaded, Ok(Loaded::Known))
            && let Some(at) = self.entries.at(key)
        {
            self.forget(at);
        }
        let found = match loaded {
            Ok(Loaded::Known) => Ok(self.keep_known(key, known, now)),
            Ok(Loaded::Folder(link)) => Ok(Found::Redirect(link)),
            Ok(Loaded::File(loaded)) => {
                let LoadedFile { entry, state, watch, settled } = *loaded;
                let entry = Arc::new(entry);
                if settled && is_undisturbed {
                    self.insert(key, &entry, state, watch, now);
                }
                Ok(Found::File(entry))
            }
            Ok(Loaded::Page(LoadedPage { folder, page, state, watch })) => {
                if let Some(watch) = watch.filter(|_| is_undisturbed) {
                    self.keep_listing(&folder_of(key, &folder), state, &page, watch, now);
                }
                Ok(Found::Listing(page))
            }
            Err(Stop::Missing(missing)) => Err(missing),
            Err(Stop::WouldWait) => unreachable!("whoever may wait does"),
        };
        self.give_back(added);
        found
    }

    /// Ends these watches unless something uses them, and the watches of all forgotten entries.
    fn give_back(&mut self, added: Vec<WatchId>) {
        self.watch.give_back(added);
        self.watch.release_unused();
    }

    /// Records that the known result was confirmed, and returns it.
    fn keep_known(&mut self, key: &Key, known: &Known, now: Nanos) -> Found {
        match known {
            Known::File(entry, _) => {
                self.entries.confirm(key, entry, now);
                Found::File(entry.clone())
            }
            Known::Page(page, _) => Found::Listing(page.clone()),
            Known::Nothing => unreachable!("nothing is in no state"),
        }
    }

    fn keep_listing(&mut self, folder: &[u8], state: State, page: &Arc<Vec<u8>>, watch: WatchId, now: Nanos) {
        while let Some(slot) = self.listings.displaced(folder, page.len()) {
            self.forget(slot);
        }
        if let Some(slot) = self.listings.insert(folder, state, page, watch, now) {
            self.watch.attach(watch, slot);
        }
    }

    fn keep_names(&mut self, site: SiteNumber, folder: Folder, now: Nanos) {
        if let Some(slot) = self.absent.displaced(site, &folder) {
            self.forget(slot);
        }
        let watch = folder.watch;
        self.watch.attach(watch, self.absent.insert(site, folder, now));
    }

    /// Forgets the entries with open files. Returns false if there are none.
    fn close_files(&mut self) -> bool {
        let mut has_some = false;
        while let Some(at) = self.entries.next_open() {
            self.forget(at);
            has_some = true;
        }
        has_some
    }

    fn insert(&mut self, key: &Key, entry: &Arc<Entry>, state: State, watch: Option<WatchId>, now: Nanos) {
        let is_served = self.roots.of(key.site()).is_some();
        if !is_served || key.raw_path().len() > KEY_BYTES_MAX || !self.entries.may_hold(entry) {
            return;
        }
        while let Some(at) = self.entries.displaced_by(entry) {
            self.forget(at);
        }
        let at = self.entries.insert(Slot {
            key: key.clone(),
            entry: Arc::clone(entry),
            state,
            watch,
            compared_at: now,
            used: false,
        });
        if let Some(id) = watch {
            self.watch.attach(id, at);
        }
    }

    /// Forgets the entry in this slot; does nothing if that has happened already.
    fn forget(&mut self, at: usize) {
        if Listings::is_slot(at) {
            if let Some(watch) = self.listings.take(at) {
                self.watch.detach(watch, at);
            }
            return;
        }
        if Absent::is_slot(at) {
            if let Some(watch) = self.absent.take(at) {
                self.watch.detach(watch, at);
            }
            return;
        }
        if let Some(id) = self.entries.remove(at).and_then(|slot| slot.watch) {
            self.watch.detach(id, at);
        }
    }

    /// Looks up a path of the first site, blocking if necessary.
    #[cfg(test)]
    pub fn lookup_waiting(&mut self, raw_path: &[u8], now: Nanos) -> Result<Found, Missing> {
        let mut answer = self.lookup(0, raw_path, now);
        loop {
            match answer {
                CacheAnswer::Ready(found) => return found,
                CacheAnswer::Offload(lookup) => answer = self.finish(lookup.run()),
            }
        }
    }

    /// Makes the cache behave as if the user could have no more inotify instances.
    #[cfg(test)]
    pub(super) fn unwatched(&mut self) {
        self.inotify = Inotify::unavailable();
        self.watch = Watch::new(Inotify::unavailable());
    }

    #[cfg(test)]
    pub(super) fn absent_folders(&self) -> usize {
        self.absent.slots().len()
    }

    #[cfg(test)]
    pub(super) fn listings(&self) -> (usize, usize) {
        self.listings.usage()
    }

    /// The number of entries, the number of files kept open, and the bytes held.
    #[cfg(test)]
    pub(super) fn usage(&self) -> (usize, usize, usize) {
        self.entries.usage()
    }
}

/// Returns the key, among the listings, of a site's folder with its view.
fn folder_of(key: &Key, folder: &[u8]) -> Vec<u8> {
    let view = ListingView::split(key.raw_path()).1.map(ListingView::suffix).unwrap_or_default();
    [format!("{}/{view}/", key.site()).as_bytes(), folder].concat()
}
