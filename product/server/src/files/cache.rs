//! The files a worker has sent lately, by request path.
//!
//! The key is the path as the request had it, still percent-encoded, so that a hit decodes nothing; two spellings of one
//! path are two entries. One cache per worker, so no locks; a bounded one, so hostile paths cost the others their hits
//! and nothing more. What is not in memory is looked up by another thread ([`CacheAnswer::Offload`]): nothing here waits for a disk.
//!
//! A cached file that changes must be noticed before the next request. Three things see to that:
//! - the inode is watched ([`Watch`]), from before its state was read;
//! - after the watch is in place the path is opened again and must lead to the same inode, or the change of name that
//!   came between would never be told;
//! - what an inode's events cannot tell (a folder above renamed, a symlink swapped, a write through mmap or on another
//!   host of a network filesystem) is found by comparing path and state again, [`REVALIDATE_AFTER`] the last comparison;
//!   at every use where the inode could not be watched.
//!
//! Another folder in the place of a root is looked for four times a second ([`Followed`]): then nothing is known of the site any more. A root that cannot be
//! looked at without waiting is found to be another by the next lookup that may wait: the next comparison of a file at the latest.
//!
//! A file that stays open keeps its file system mounted, so it is closed [`IDLE_AFTER`] its last use.
//!
//! Of what does not exist nothing is remembered but the names of some folders that lack it ([`Absent`]), and the same three things see to
//! it that a file put there is served at once: the folder is watched, from before its names were read; after that the path has to lead to
//! the same folder; and [`REVALIDATE_AFTER`] the last comparison it is compared again. A folder that cannot be watched is not remembered.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use units::Nanos;

use super::absent::{Absent, Folder};
use super::entries::{Entries, Slot};
use super::entry::{Closer, State};
use super::followed::Followed;
use super::key;
use super::listings::{LISTING_BYTES_MAX, Listings};
use super::loader::{Known, Loaded, LoadedFile, LoadedPage, Loader, Outcome};
use super::lookup::{FinishedLookup, Lookup, Request};
use super::root::Identity;
use super::watch::{Changed, Inotify, Watch, WatchId};
use super::{Entry, Found, Key, Missing, Root, Roots, SiteNumber, Stop, Wait, trim_slashes};
use crate::storage::Pool;

/// How long an entry is believed without looking at the file system. A look is about 3 µs; once a second it is free.
pub const REVALIDATE_AFTER: Nanos = Nanos::from_secs(1);
/// The time after which a file is closed that is neither asked for nor being sent, from its last comparison: that is at most
/// [`REVALIDATE_AFTER`] older than its last use.
const IDLE_AFTER: Nanos = Nanos(3 * REVALIDATE_AFTER.0);
/// Entries in the caches of all workers; about 1 KiB each beside the bodies.
pub const ENTRIES_MAX: usize = 4096;
/// Files kept open in the caches of all workers: a quarter of the descriptors a process usually may have (1024).
pub const FILES_OPEN_MAX: usize = 256;
/// Bodies in memory in the caches of all workers.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// Longer request paths are served but not remembered, or keys could take more memory than bodies.
const KEY_BYTES_MAX: usize = 1024;
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

    /// The same in so much memory of each worker at most.
    pub fn within(self, bytes: usize) -> CacheLimits {
        let listing_bytes = self.listing_bytes.min(bytes / 8);
        CacheLimits { body_bytes: self.body_bytes.min(bytes - listing_bytes), listing_bytes, ..self }
    }
}

/// A worker's files. Entries are shared with whoever sends them and outlive their place here.
#[derive(Debug)]
pub struct Cache {
    roots: Roots,
    /// Those of the sites before, for what was begun then.
    roots_before: Option<Roots>,
    followed: Followed,
    inotify: Inotify,
    closer: Option<Closer>,
    entries: Entries,
    watch: Watch,
    listings: Listings,
    absent: Absent,
    /// Of the last lookup, kept for their memory.
    wanted: Vec<u8>,
    decoded: Vec<u8>,
}

/// What a cache knows of a path.
#[derive(Debug)]
pub enum CacheAnswer {
    Ready(Result<Found, Missing>),
    /// Somebody who may wait has to run this, for [`Cache::finish`].
    Offload(Box<Lookup>),
}

impl Cache {
    /// Of these folders, one of each site.
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

    /// The same, its files closed aside where that may have to wait.
    pub fn closing_by(mut self, pool: Arc<Pool>) -> Cache {
        self.closer = Some(Closer(pool));
        self
    }

    /// What is kept above these goes as others come.
    pub fn set_limits(&mut self, limits: CacheLimits) {
        self.entries.set_limits(limits);
        self.listings.set_bytes_max(limits.listing_bytes);
    }

    /// From now on the sites are others. What is under way for those before ends as it began; for those before them it is given up. Nothing
    /// is kept of them, nor are their files open.
    pub fn replace_roots(&mut self, roots: Roots) {
        self.followed.replace(&roots);
        self.roots_before = Some(std::mem::replace(&mut self.roots, roots));
        self.clear();
    }

    /// Looks whether the root of a site is another folder than it was, if that is due.
    fn follow(&mut self, site: SiteNumber, now: Nanos) {
        if self.followed.take_turn(self.roots.place(site), now)
            && let Some(Some(root)) = self.roots.of(site)
            && let Ok(folder) = root.identity()
        {
            self.see(site, folder, now);
        }
    }

    /// The root of a site was this folder at that time. Where it was another before, nothing is known of the site any more.
    fn see(&mut self, site: SiteNumber, folder: Identity, at: Nanos) {
        let Some(Some(root)) = self.roots.of(site) else { return };
        if !self.followed.see(self.roots.place(site), root, folder, at) {
            return;
        }
        let of_site = self.entries.slots_of(site).into_iter().chain(self.listings.slots()).chain(self.absent.slots());
        let of_site: Vec<usize> = of_site.collect();
        of_site.into_iter().for_each(|at| self.forget(at));
        self.watch.release_unused();
        // A lookup under way may find files of the folder before.
        self.watch.disturb_all();
    }

    /// Closes files that nobody has asked for lately. To be called once a second while [`Cache::is_due`].
    pub fn close_idle(&mut self, now: Nanos) {
        for at in self.entries.open_since(now - IDLE_AFTER) {
            self.forget(at);
        }
        self.watch.release_unused();
    }

    /// True while files are open or lines wait: [`Cache::close_idle`] and [`Cache::take_lines`] have something to do.
    pub fn is_due(&self) -> bool {
        self.entries.has_open() || self.followed.has_lines()
    }

    /// Lines for the log: roots that are other folders now.
    pub fn take_lines(&mut self) -> Vec<String> {
        self.followed.take_lines()
    }

    /// What to send for this request path of a site (without its query, or with `?` and the number of a listing's page). Never waits. `now`
    /// only has to grow.
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
        let (without_page, _) = key::page(raw_path);
        let found = match http::decode_path(without_page, &mut path) {
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

    /// Whether a folder on this path is known not to have the next name of it.
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

    /// `None` for a site that is served no more.
    fn root(&self, site: SiteNumber) -> Option<Option<&Arc<Root>>> {
        self.roots.of(site).or_else(|| self.roots_before.as_ref()?.of(site))
    }

    fn loader(&self, site: SiteNumber) -> Option<Loader> {
        let root = Arc::clone(self.root(site)??);
        Some(Loader { root, inotify: self.inotify.clone(), closer: self.closer.clone() })
    }

    /// What came of a lookup. Without a descriptor for it, lets go of the files kept here; then it has to be run once more.
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
        let (_, page) = key::page(key.raw_path());
        let mut outcome = loader.find(path, page, &known, Wait::Never);
        if outcome.is_short() && self.close_files() {
            self.give_back(outcome.added);
            outcome = loader.find(path, page, &known, Wait::Never);
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

    /// Remembers what was found, if it may be, and hands it out.
    fn keep(
        &mut self,
        key: &Key,
        known: &Known,
        outcome: Outcome,
        is_undisturbed: bool,
        now: Nanos,
    ) -> Result<Found, Missing> {
        let Outcome { loaded, added, .. } = outcome;
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

    /// Ends the watches of these that nothing uses, and of all that was forgotten.
    fn give_back(&mut self, added: Vec<WatchId>) {
        self.watch.give_back(added);
        self.watch.release_unused();
    }

    /// What is known was found to be so still.
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

    /// Lets go of the files kept open; false if there is none.
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

    /// Does nothing for an entry forgotten already.
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

    /// What the first site sends, waited for.
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

    /// As if the user had no inotify instance left.
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

    /// Entries, files kept open, bytes held.
    #[cfg(test)]
    pub(super) fn usage(&self) -> (usize, usize, usize) {
        self.entries.usage()
    }
}

/// What a folder of a site is known by among the listings.
fn folder_of(key: &Key, folder: &[u8]) -> Vec<u8> {
    let (_, page) = key::page(key.raw_path());
    [format!("{}/{page}/", key.site()).as_bytes(), folder].concat()
}
