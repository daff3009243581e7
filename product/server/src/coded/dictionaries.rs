//! The dictionaries that clients were offered (RFC 9842): the bytes of pages, scripts and styles, by site and digest.
//!
//! A client names a dictionary only by its digest, so the bytes are kept as they were offered: the file may have
//! changed by the time they are needed. The event loops offer files ([`Dictionaries::offer`]) and query the store; a
//! separate thread reads, digests and stores. A dictionary of one site is never used for another, because a client
//! could otherwise compare their pages.
//!
//! A program's page becomes a dictionary too if its site enables that ([`Dictionaries::keep`]). Its bytes are copied
//! while they are sent, because they cannot be read again later. Such pages are kept only in memory and take at most
//! half of it: a program makes as many different pages as clients request, and the dictionaries of files must stay.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use hashbrown::HashMap;
use http::Digest;

use super::shelf::Shelf;
use crate::client_turns::Turns;
use crate::codec::{DICTIONARY_BYTES, PAGE_BYTES_MAX, digest_of};
use crate::files::{Entry, State};

/// The maximum number of files that wait to be stored. Further files are not offered.
const WAITING_MAX: usize = 64;
/// The maximum number of known dictionaries, and of files whose digests are known.
const KNOWN_MAX: usize = 4096;
/// The divisor of the memory that gives the part for programs' pages.
const PROGRAMS_PART: u64 = 2;

/// A dictionary of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DictionaryId {
    pub site: SiteKey,
    pub digest: Digest,
}

/// A site's number, which is the same after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteKey(pub u64);

/// A file or page that was offered, with the path of its request.
struct Offer {
    site: SiteKey,
    path: Arc<[u8]>,
    source: Source,
}

enum Source {
    File(Arc<Entry>),
    /// The page of a program.
    Page(Vec<u8>),
}

/// The dictionaries of all sites.
pub struct Dictionaries {
    state: Mutex<Shared>,
    changed: Condvar,
    /// The folder in which dictionaries survive the process, if there is one.
    shelf: OnceLock<Arc<Shelf>>,
    is_stopping: AtomicBool,
}

#[derive(Default)]
struct Shared {
    files: Pool,
    /// The pages of programs.
    pages: Pool,
    /// The files that were offered, with their digests; `None` while a file waits to be stored.
    offered: HashMap<(SiteKey, State), Option<Digest>>,
    waiting: Turns<Offer>,
    /// The total bytes of the pages that wait to be stored.
    waiting_bytes: u64,
    /// The maximum number of bytes in memory.
    bytes_max: u64,
    /// A counter of uses, which serves as the clock for finding the least recently used dictionary.
    turn: u64,
}

/// Dictionaries of one kind, and the total of their bytes in memory.
#[derive(Default)]
struct Pool {
    known: HashMap<DictionaryId, Dictionary>,
    bytes: u64,
}

struct Dictionary {
    /// The bytes, if they are in memory; `None` if they are only on the shelf.
    bytes: Option<Arc<[u8]>>,
    len: u64,
    path: Arc<[u8]>,
    used_at: u64,
}

/// A dictionary that was found for an event loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Had {
    /// The path of the file with which the dictionary was offered; `None` while the dictionary is only on the shelf.
    pub path: Option<Arc<[u8]>>,
    /// The length of the dictionary, or slightly more.
    pub bytes: u64,
}

/// A dictionary in memory.
#[derive(Debug, Clone)]
pub struct Held {
    pub path: Arc<[u8]>,
    pub bytes: Arc<[u8]>,
}

impl Dictionaries {
    /// Creates a store that may hold at most `bytes_max` bytes in memory.
    pub fn new(bytes_max: u64) -> Dictionaries {
        let (state, changed) = (Mutex::new(Shared { bytes_max, ..Shared::default() }), Condvar::new());
        Dictionaries { state, changed, shelf: OnceLock::new(), is_stopping: AtomicBool::new(false) }
    }

    /// Sets the shelf on which dictionaries are also kept. Does nothing if one is set already.
    pub fn keep_on(&self, shelf: Arc<Shelf>) {
        let _ = self.shelf.set(shelf);
    }

    pub fn set_bytes_max(&self, bytes_max: u64) {
        let mut state = self.state();
        state.bytes_max = bytes_max;
        state.shrink(self.shelf.get().is_some());
    }

    /// Returns the maximum length of a program's page that is stored.
    pub fn page_bytes_max(&self) -> u64 {
        (self.state().bytes_max / PROGRAMS_PART).min(PAGE_BYTES_MAX)
    }

    /// Queues a program's whole page to be stored as a dictionary for this client.
    pub fn keep(&self, site: SiteKey, path: Arc<[u8]>, page: Vec<u8>, client: u32) {
        let mut state = self.state();
        let waiting_bytes = state.waiting_bytes + page.len() as u64;
        let is_short = page.len() < *DICTIONARY_BYTES.start() as usize;
        // The other half of the queue is reserved for files.
        let has_room = state.waiting.len() < WAITING_MAX / 2 && waiting_bytes <= state.pages_bytes_max();
        if is_short || !has_room {
            return;
        }
        state.waiting_bytes = waiting_bytes;
        state.waiting.push(client, Offer { site, path, source: Source::Page(page) });
        state.shrink(self.shelf.get().is_some());
        self.changed.notify_one();
    }

    /// Returns a dictionary in memory (a program's page or a file) that a stream may use.
    pub fn held(&self, id: &DictionaryId) -> Option<Held> {
        let mut state = self.state();
        let turn = state.next_turn();
        let state = &mut *state;
        let known = [&mut state.pages, &mut state.files].into_iter().find_map(|pool| pool.touch(id, turn))?;
        let bytes = known.bytes.clone().filter(|bytes| bytes.len() as u64 <= PAGE_BYTES_MAX)?;
        Some(Held { path: Arc::clone(&known.path), bytes })
    }

    /// Queues a file to be stored as a dictionary for this client. Returns false if it will not be stored.
    pub fn offer(&self, site: SiteKey, entry: &Arc<Entry>, path: &[u8], client: u32) -> bool {
        if !DICTIONARY_BYTES.contains(&entry.len) {
            return false;
        }
        let mut state = self.state();
        let state = &mut *state;
        let file = (site, entry.identity());
        match state.offered.get(&file) {
            Some(Some(digest)) => {
                let id = DictionaryId { site, digest: *digest };
                let turn = state.next_turn();
                if state.files.touch(&id, turn).is_some() || self.is_on_shelf(&id) {
                    return true;
                }
            }
            Some(None) => return true,
            None => {}
        }
        if state.waiting.len() >= WAITING_MAX {
            return false;
        }
        if state.offered.len() >= KNOWN_MAX {
            state.offered.retain(|_, digest| digest.is_none());
        }
        state.offered.insert(file, None);
        state.waiting.push(client, Offer { site, path: path.into(), source: Source::File(Arc::clone(entry)) });
        self.changed.notify_one();
        true
    }

    /// Returns the entry of a file's dictionary; `None` if the dictionary is gone or this site has never offered it.
    pub fn find(&self, id: &DictionaryId) -> Option<Had> {
        let mut state = self.state();
        let turn = state.next_turn();
        if let Some(known) = state.files.touch(id, turn) {
            return Some(Had { path: Some(Arc::clone(&known.path)), bytes: known.len });
        }
        drop(state);
        let bytes = self.shelf.get()?.bytes_of(&self::name_of(id))?;
        Some(Had { path: None, bytes })
    }

    /// Returns the bytes of a file's dictionary. May block on the disk.
    pub fn bytes(&self, id: &DictionaryId) -> io::Result<Arc<[u8]>> {
        let held = self.state().files.known.get(id).and_then(|known| known.bytes.clone());
        if let Some(bytes) = held {
            return Ok(bytes);
        }
        let (shelf, name) = (self.shelf.get(), self::name_of(id));
        let kept = shelf.and_then(|shelf| shelf.get(&name));
        let Some((path, bytes)) = kept.as_deref().and_then(split).filter(|(_, bytes)| digest_of(bytes) == id.digest)
        else {
            shelf.into_iter().for_each(|shelf| shelf.remove(&name));
            self.state().files.forget(id);
            return Err(io::Error::other("the dictionary is gone"));
        };
        let bytes: Arc<[u8]> = bytes.into();
        self.state().insert(*id, path.into(), &bytes, true);
        Ok(bytes)
    }

    /// Stores offered files and pages until the store stops.
    pub fn work(&self) {
        while let Some(offer) = self.wait_for_offer() {
            self.store(offer);
        }
    }

    /// Stops the thread once it has stored its current offer.
    pub fn stop(&self) {
        let _state = self.state();
        self.is_stopping.store(true, Relaxed);
        self.changed.notify_all();
    }

    /// Stores all waiting files, for tests without a thread. Returns their number.
    #[cfg(test)]
    pub fn run(&self) -> usize {
        let next = || self.state().waiting.pop();
        std::iter::from_fn(next).map(|offer| self.store(offer)).count()
    }

    fn wait_for_offer(&self) -> Option<Offer> {
        let mut state = self.state();
        loop {
            if self.is_stopping.load(Relaxed) {
                return None;
            }
            if let Some(offer) = state.waiting.pop() {
                return Some(offer);
            }
            state = self.changed.wait(state).expect("no thread panics while it holds the dictionaries");
        }
    }

    fn store(&self, Offer { site, path, source }: Offer) {
        match source {
            Source::File(entry) => self.store_file(site, &entry, path),
            Source::Page(page) => {
                let id = DictionaryId { site, digest: digest_of(&page) };
                let mut state = self.state();
                state.waiting_bytes -= page.len() as u64;
                let turn = state.next_turn();
                state.pages.insert(id, path, &page.into(), turn);
                state.shrink(self.shelf.get().is_some());
            }
        }
    }

    /// Reads and stores a file, unless the file has changed since it was offered.
    fn store_file(&self, site: SiteKey, entry: &Entry, path: Arc<[u8]>) {
        let file = (site, entry.identity());
        let Ok(bytes) = entry.whole() else {
            self.state().offered.remove(&file);
            return;
        };
        let id = DictionaryId { site, digest: digest_of(&bytes) };
        if let Some(shelf) = self.shelf.get() {
            shelf.put(&self::name_of(&id), &[&(path.len() as u16).to_le_bytes(), &path, &bytes]);
        }
        let is_kept = self.is_on_shelf(&id);
        let mut state = self.state();
        state.offered.insert(file, Some(id.digest));
        state.insert(id, path, &bytes[..].into(), is_kept);
    }

    fn is_on_shelf(&self, id: &DictionaryId) -> bool {
        self.shelf.get().is_some_and(|shelf| shelf.has(&self::name_of(id)))
    }

    fn state(&self) -> MutexGuard<'_, Shared> {
        self.state.lock().expect("no thread panics while it holds the dictionaries")
    }
}

impl Shared {
    fn next_turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    fn pages_bytes_max(&self) -> u64 {
        self.bytes_max / PROGRAMS_PART
    }

    /// Adds a dictionary of a file.
    fn insert(&mut self, id: DictionaryId, path: Arc<[u8]>, bytes: &Arc<[u8]>, is_kept: bool) {
        let turn = self.next_turn();
        self.files.insert(id, path, bytes, turn);
        self.shrink(is_kept);
    }

    /// Frees memory to stay within the bounds: programs' pages have their part, and files the rest.
    fn shrink(&mut self, has_shelf: bool) {
        self.pages.shrink(self.pages_bytes_max().saturating_sub(self.waiting_bytes), false);
        let bytes_max = self.bytes_max.saturating_sub(self.pages.bytes + self.waiting_bytes);
        self.files.shrink(bytes_max, has_shelf);
    }
}

impl Pool {
    /// Marks a dictionary as used.
    fn touch(&mut self, id: &DictionaryId, turn: u64) -> Option<&Dictionary> {
        let known = self.known.get_mut(id)?;
        known.used_at = turn;
        Some(known)
    }

    /// Adds a dictionary. It keeps the path with which its bytes were first offered.
    fn insert(&mut self, id: DictionaryId, path: Arc<[u8]>, bytes: &Arc<[u8]>, turn: u64) {
        let before = self.forget(&id);
        let path = before.map_or(path, |before| before.path);
        let len = bytes.len() as u64;
        self.bytes += len;
        self.known.insert(id, Dictionary { bytes: Some(Arc::clone(bytes)), len, path, used_at: turn });
    }

    fn forget(&mut self, id: &DictionaryId) -> Option<Dictionary> {
        let known = self.known.remove(id)?;
        self.bytes -= known.held_bytes();
        Some(known)
    }

    /// Frees memory to stay within the bound, the least recently used dictionary first. Dictionaries on a shelf remain
    /// known.
    fn shrink(&mut self, bytes_max: u64, has_shelf: bool) {
        while self.bytes > bytes_max || self.known.len() > KNOWN_MAX {
            let is_full = self.known.len() > KNOWN_MAX;
            let others = self.known.iter_mut().filter(|(_, known)| is_full || known.bytes.is_some());
            let Some((id, oldest)) = others.min_by_key(|(_, known)| known.used_at) else { return };
            if has_shelf && !is_full {
                self.bytes -= oldest.held_bytes();
                oldest.bytes = None;
            } else {
                let id = *id;
                self.forget(&id);
            }
        }
    }
}

impl Dictionary {
    fn held_bytes(&self) -> u64 {
        if self.bytes.is_some() { self.len } else { 0 }
    }
}

/// Returns the name of a dictionary on the shelf.
fn name_of(id: &DictionaryId) -> Digest {
    digest_of(&[&id.site.0.to_le_bytes()[..], &id.digest].concat())
}

/// Splits a dictionary from the shelf into its path and its bytes.
fn split(kept: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = kept.split_first_chunk()?;
    rest.split_at_checked(u16::from_le_bytes(*len).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::text;
    use crate::files::temporary::Folder;

    const SITE: SiteKey = SiteKey(1);

    fn id_of(bytes: &[u8]) -> DictionaryId {
        DictionaryId { site: SITE, digest: digest_of(bytes) }
    }

    /// A dictionary of 5,000 bytes with this path.
    fn had(path: &[u8]) -> Option<Had> {
        Some(Had { path: Some(path.into()), bytes: 5_000 })
    }

    fn page(folder: &Folder, name: &str, bytes: usize) -> (Arc<Entry>, Vec<u8>) {
        let mut content = text(bytes);
        content[..name.len()].copy_from_slice(name.as_bytes());
        folder.put(name, &content);
        (folder.entry(name), content)
    }

    fn shelf(folder: &Folder) -> Arc<Shelf> {
        Arc::new(Shelf::open(&folder.path("state"), "dictionaries", 1 << 20, |line| panic!("{line}")).unwrap())
    }

    #[test]
    fn what_was_offered_is_there_when_the_file_has_changed() {
        let (folder, dictionaries) = (Folder::new(), Dictionaries::new(1 << 20));
        let (entry, content) = page(&folder, "a.html", 5_000);
        assert!(dictionaries.offer(SITE, &entry, b"/a.html", 1));
        assert!(dictionaries.offer(SITE, &entry, b"/a.html", 2), "it is on its way");
        assert_eq!(dictionaries.find(&id_of(&content)), None);
        assert_eq!(dictionaries.run(), 1, "one for two clients");
        assert!(dictionaries.offer(SITE, &entry, b"/a.html", 1) && dictionaries.run() == 0);
        folder.put("a.html", "other");
        assert_eq!(dictionaries.find(&id_of(&content)), had(b"/a.html"));
        assert!(dictionaries.bytes(&id_of(&content)).unwrap()[..] == content);
        let elsewhere = DictionaryId { site: SiteKey(2), ..id_of(&content) };
        assert!(dictionaries.find(&elsewhere).is_none() && dictionaries.bytes(&elsewhere).is_err());
    }

    /// A file that is open and changes before it is read has another digest than the client computes.
    #[test]
    fn a_file_that_changes_meanwhile_is_not_stored() {
        let (folder, dictionaries) = (Folder::new(), Dictionaries::new(1 << 20));
        let (entry, content) = page(&folder, "a.html", 100_000);
        assert!(dictionaries.offer(SITE, &entry, b"/a.html", 1));
        std::thread::sleep(std::time::Duration::from_millis(20));
        folder.put("a.html", text(100_000));
        dictionaries.run();
        assert!(dictionaries.find(&id_of(&content)).is_none() && dictionaries.find(&id_of(&text(100_000))).is_none());
    }

    #[test]
    fn short_and_long_files_are_no_dictionaries() {
        let (folder, dictionaries) = (Folder::new(), Dictionaries::new(1 << 20));
        let (short, _) = page(&folder, "a.html", 255);
        folder.put("b.html", vec![b'b'; 4 << 20 | 1]);
        assert!(!dictionaries.offer(SITE, &short, b"/a.html", 1));
        assert!(!dictionaries.offer(SITE, &folder.entry("b.html"), b"/b.html", 1));
    }

    #[test]
    fn memory_and_queue_are_bounded() {
        let (folder, dictionaries) = (Folder::new(), Dictionaries::new(12_000));
        let pages: Vec<_> = (0..WAITING_MAX + 3).map(|at| page(&folder, &format!("{at}.html"), 5_000)).collect();
        let offered = pages.iter().filter(|(entry, _)| dictionaries.offer(SITE, entry, b"/", 1)).count();
        assert_eq!(offered, WAITING_MAX);
        dictionaries.run();
        let known = |at: usize| dictionaries.find(&id_of(&pages[at].1)).is_some();
        assert!(known(WAITING_MAX - 1) && known(WAITING_MAX - 2) && !known(WAITING_MAX - 3) && !known(0));
        assert!(dictionaries.state().files.bytes <= 12_000);
        assert!(dictionaries.offer(SITE, &pages[0].0, b"/", 1) && dictionaries.run() == 1, "it is stored again");
        dictionaries.set_bytes_max(0);
        assert!(!known(0) && dictionaries.state().files.bytes == 0);
    }

    #[test]
    fn dictionaries_outlive_the_process_and_memory() {
        let folder = Folder::new();
        let pages: Vec<_> = (0..3).map(|at| page(&folder, &format!("{at}.html"), 5_000)).collect();
        let before = Dictionaries::new(6_000);
        before.keep_on(shelf(&folder));
        pages.iter().for_each(|(entry, _)| assert!(before.offer(SITE, entry, b"/a/", 1)));
        before.run();
        for (_, content) in &pages {
            assert_eq!(before.find(&id_of(content)), had(b"/a/"));
            assert!(before.bytes(&id_of(content)).unwrap()[..] == *content && before.state().files.bytes <= 6_000);
        }
        let after = Dictionaries::new(1 << 20);
        after.keep_on(shelf(&folder));
        let id = id_of(&pages[0].1);
        assert!(after.find(&id).is_some_and(|had| had.path.is_none() && (5_000..5_100).contains(&had.bytes)));
        assert!(after.bytes(&id).unwrap()[..] == pages[0].1);
        assert_eq!(after.find(&id), had(b"/a/"));
        assert!(after.find(&DictionaryId { site: SiteKey(2), ..id }).is_none());
    }

    /// A program makes a page for each path that it is asked for.
    #[test]
    fn pages_of_programs_take_at_most_half() {
        let (folder, dictionaries) = (Folder::new(), Dictionaries::new(40_000));
        let files: Vec<_> = (0..3).map(|at| page(&folder, &format!("{at}.html"), 5_000)).collect();
        files.iter().for_each(|(entry, _)| assert!(dictionaries.offer(SITE, entry, b"/", 1)));
        dictionaries.run();
        let page = |at: u32| [at.to_string().into_bytes(), text(4_990)].concat();
        let is_held = |at| dictionaries.held(&id_of(&page(at))).is_some();
        for at in 0..100 {
            dictionaries.keep(SITE, b"/"[..].into(), page(at), 1);
            if at % 10 == 9 {
                dictionaries.run();
            }
            let state = dictionaries.state();
            assert!(state.pages.bytes + state.waiting_bytes <= 20_000);
        }
        assert!(!is_held(0) && (90..100).filter(|at| is_held(*at)).count() == 4);
        assert!(files.iter().all(|(_, content)| dictionaries.find(&id_of(content)).is_some()));
        assert_eq!(dictionaries.find(&id_of(&page(93))), None, "forms of files are not made for one page of a program");
        let elsewhere = DictionaryId { site: SiteKey(2), ..id_of(&page(93)) };
        assert!(dictionaries.held(&elsewhere).is_none());
        dictionaries.set_bytes_max(0);
        assert_eq!(dictionaries.state().pages.bytes, 0);
        assert_eq!(dictionaries.page_bytes_max(), 0);
        dictionaries.keep(SITE, b"/"[..].into(), page(0), 1);
        assert_eq!(dictionaries.run(), 0);
    }

    /// Somebody has put a file in the place of another.
    #[test]
    fn a_kept_dictionary_has_to_be_the_one_of_its_name() {
        let folder = Folder::new();
        let (dictionaries, shelf) = (Dictionaries::new(1 << 20), shelf(&folder));
        dictionaries.keep_on(Arc::clone(&shelf));
        let id = id_of(b"what the client has");
        shelf.put(&name_of(&id), &[&1_u16.to_le_bytes(), b"/", b"something else"]);
        assert!(dictionaries.find(&id).is_some());
        assert!(dictionaries.bytes(&id).is_err() && dictionaries.find(&id).is_none());
        shelf.put(&name_of(&id_of(b"x")), &[&9_u16.to_le_bytes(), b"/"]);
        assert!(dictionaries.bytes(&id_of(b"x")).is_err());
    }

    #[test]
    fn a_thread_stores_and_ends() {
        let (folder, dictionaries) = (Folder::new(), Arc::new(Dictionaries::new(1 << 20)));
        let (entry, content) = page(&folder, "a.html", 5_000);
        let thread = std::thread::spawn({
            let dictionaries = Arc::clone(&dictionaries);
            move || dictionaries.work()
        });
        dictionaries.offer(SITE, &entry, b"/a.html", 1);
        while dictionaries.find(&id_of(&content)).is_none() {
            std::thread::yield_now();
        }
        dictionaries.stop();
        thread.join().unwrap();
    }
}
