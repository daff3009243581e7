//! Finds the file or folder at a path in the file system. This part of a lookup may block on a disk, so it does not
//! touch the cache. A worker runs it without waiting; a thread of the pool runs it with waiting. Whatever the outcome,
//! the cache keeps or releases the watches that were added.

use std::sync::Arc;

use percent_encoding::percent_encode;

use super::entry::{Closer, State};
use super::links::inside;
use super::mounts::Kind;
use super::root::{self, Entered, Identity, Looked};
use super::sidecars::Sidecars;
use super::view::ListingView;
use super::watch::{Inotify, WatchId};
use super::{Entry, Missing, Root, Stop, Wait, listing_content, trim_slashes};

/// The maximum number of attempts if the file at a path is replaced between the look and the open.
const LOAD_ATTEMPTS_MAX: usize = 3;

/// An earlier result for a path. If the state is unchanged, the file is not loaded again.
#[derive(Debug, Clone)]
pub(super) enum Known {
    Nothing,
    File(Arc<Entry>, State),
    /// A folder's page.
    Page(Arc<Vec<u8>>, State),
}

/// The fresh result of a lookup.
pub(super) enum Loaded {
    /// The known result is still valid.
    Known,
    File(Box<LoadedFile>),
    /// A folder that was requested without a trailing slash: the path with the slash.
    Folder(String),
    Page(LoadedPage),
}

pub(super) struct LoadedFile {
    pub entry: Entry,
    pub state: State,
    pub watch: Option<WatchId>,
    /// False if the file was repeatedly replaced: it may be sent, but not cached.
    pub settled: bool,
}

pub(super) struct LoadedPage {
    pub folder: Box<[u8]>,
    pub page: Arc<Vec<u8>>,
    pub state: State,
    pub watch: Option<WatchId>,
}

#[derive(Debug, Clone)]
pub(super) struct Loader {
    pub root: Arc<Root>,
    pub inotify: Inotify,
    /// Closes files on another thread; `None` if the thread that drops a file closes it.
    pub closer: Option<Closer>,
}

/// The outcome of a lookup.
pub(super) struct Outcome {
    pub loaded: Result<Loaded, Stop>,
    /// The watches that were added.
    pub added: Vec<WatchId>,
    /// Lines for the log about sidecars.
    pub lines: Vec<String>,
    /// The folder at the root, if the lookup was permitted to wait while opening it.
    pub root: Option<Identity>,
}

impl Outcome {
    /// Returns true if the lookup failed for lack of descriptors.
    pub fn is_short(&self) -> bool {
        matches!(self.loaded, Err(Stop::Missing(Missing::Exhausted)))
    }
}

impl Loader {
    /// Finds the file or folder at this decoded path. For a folder, `view` is the requested view of its listing; `None`
    /// if the suffix is invalid.
    pub fn find(&self, path: &[u8], view: Option<ListingView>, known: &Known, wait: Wait) -> Outcome {
        let entered = self.root.enter(wait);
        let seen = if wait == Wait::Allowed { root::identity_of(&entered).ok() } else { None };
        let root = match (entered, known) {
            // Without a descriptor for the lookup, the known result is the best available.
            (Err(Stop::Missing(Missing::Exhausted)), Known::File(..)) => {
                return Outcome { loaded: Ok(Loaded::Known), added: Vec::new(), lines: Vec::new(), root: None };
            }
            (Err(stop), _) => return Outcome { loaded: Err(stop), added: Vec::new(), lines: Vec::new(), root: seen },
            (Ok(root), _) => root,
        };
        let (added, lines, leaving) = (Vec::new(), Vec::new(), Vec::new());
        let mut search = Search { loader: self, root, view, known, wait, added, lines, leaving };
        let loaded = search.find(path).map_err(|stop| search.explained(stop));
        Outcome { loaded, added: search.added, lines: search.lines, root: seen }
    }

    /// The device that a lookup of this decoded path will access.
    pub fn device(&self, path: &[u8]) -> u64 {
        self.root.device(trim_slashes(path))
    }
}

/// A lookup in progress.
struct Search<'a> {
    loader: &'a Loader,
    root: Entered<'a>,
    view: Option<ListingView>,
    known: &'a Known,
    wait: Wait,
    added: Vec<WatchId>,
    lines: Vec<String>,
    /// The path that leads out of the root: that of the request or of an index file.
    leaving: Vec<u8>,
}

impl Search<'_> {
    /// Adds the log line about a path that leads out of the root to the error. Making the line requires a lookup that
    /// may block.
    fn explained(&self, stop: Stop) -> Stop {
        match stop {
            Stop::Missing(Missing::Outside(None)) if self.root.is_unexplained(&self.leaving) => match self.wait {
                Wait::Never => Stop::WouldWait,
                Wait::Allowed => Stop::Missing(Missing::Outside(self.root.explain_leaving(&self.leaving))),
            },
            stop => stop,
        }
    }

    fn find(&mut self, path: &[u8]) -> Result<Loaded, Stop> {
        let inside = trim_slashes(path);
        if inside.is_empty() || path.ends_with(b"/") {
            return self.find_in_folder(inside);
        }
        match self.load(inside)? {
            Some(loaded) => Ok(loaded),
            None => Ok(Loaded::Folder(folder_link(inside))),
        }
    }

    fn find_in_folder(&mut self, folder: &[u8]) -> Result<Loaded, Stop> {
        for index in &self.loader.root.options.index {
            let path = inside(folder, index.as_bytes());
            match self.load(&path) {
                Ok(Some(loaded)) => return Ok(loaded),
                Ok(None) | Err(Stop::Missing(Missing::NotFound)) => {}
                Err(stop) => return Err(stop),
            }
        }
        self.list(folder)
    }

    fn list(&mut self, folder: &[u8]) -> Result<Loaded, Stop> {
        let Looked { file, metadata, .. } = self.look(folder)?;
        match (metadata.is_dir(), self.loader.root.options.listing) {
            (false, _) => return Err(Stop::Missing(Missing::NotFound)),
            (true, false) => return Err(Stop::Missing(Missing::NoIndex)),
            (true, true) => {}
        }
        let Some(view) = self.view else { return Err(Stop::Missing(Missing::NotFound)) };
        let state = State::of(&metadata);
        if matches!(self.known, Known::Page(_, known) if *known == state) {
            return Ok(Loaded::Known);
        }
        // Reading a folder accesses its disk, and always takes long.
        if self.wait == Wait::Never {
            return Err(Stop::WouldWait);
        }
        // The watch is added before the folder is read, so that no later change goes unnoticed.
        let watch = self.loader.inotify.add_folder(&file);
        self.added.extend(watch);
        let page = Arc::new(listing_content::page(&self.root, folder, view)?);
        Ok(Loaded::Page(LoadedPage { folder: folder.into(), page, state, watch }))
    }

    fn look(&mut self, path: &[u8]) -> Result<Looked, Stop> {
        let looked = self.root.look(path, self.wait);
        if matches!(looked, Err(Stop::Missing(Missing::Outside(_)))) {
            self.leaving = path.to_vec();
        }
        looked
    }

    /// Loads the file at a path; `None` if the path leads to a folder.
    fn load(&mut self, path: &[u8]) -> Result<Option<Loaded>, Stop> {
        let mut loaded = self.load_once(path)?;
        for _ in 1..LOAD_ATTEMPTS_MAX {
            if !matches!(&loaded, Some(Loaded::File(file)) if !file.settled) {
                break;
            }
            loaded = self.load_once(path)?;
        }
        Ok(loaded)
    }

    fn load_once(&mut self, path: &[u8]) -> Result<Option<Loaded>, Stop> {
        let looked = match (self.look(path), self.known) {
            // Without a descriptor for the lookup, the known result is the best available.
            (Err(Stop::Missing(Missing::Exhausted)), Known::File(..)) => return Ok(Some(Loaded::Known)),
            (looked, _) => looked?,
        };
        if let Known::File(entry, known) = self.known
            && *known == State::of(&looked.metadata)
            && self.sidecars().are_same(path, entry)?
        {
            return Ok(Some(Loaded::Known));
        }
        let Looked { file, metadata, kind } = looked;
        if metadata.is_dir() {
            return Ok(None);
        }
        if !metadata.is_file() {
            return Err(Stop::Missing(Missing::NotFound));
        }
        let watch = self.loader.inotify.add(&file);
        self.added.extend(watch);
        // The file's descriptor may be the last one available.
        drop(file);
        let (entry, state) = self.read(path, kind)?;
        let settled = state.is_same_file(&metadata);
        Ok(Some(Loaded::File(Box::new(LoadedFile { entry, state, watch, settled }))))
    }

    fn read(&mut self, path: &[u8], kind: Kind) -> Result<(Entry, State), Stop> {
        let file = self.root.read(path, self.wait)?;
        let metadata = file.metadata()?;
        // The look found a regular file, but it may have been replaced before the open.
        if !metadata.is_file() {
            return Err(Stop::Missing(Missing::NotFound));
        }
        let types = Some(&self.root.options().types);
        let (mut entry, state) = Entry::load(&String::from_utf8_lossy(path), file, metadata, kind, self.wait, types)?;
        if kind == Kind::Remote {
            entry.close_by(self.loader.closer.clone());
        }
        if let Some((forms, lines)) = self.sidecars().forms(path, &entry)? {
            self.lines.extend(lines);
            entry.offer(forms);
        }
        Ok((entry, state))
    }

    /// Creates the search for sidecars of files in this root.
    fn sidecars(&self) -> Sidecars<'_> {
        Sidecars { root: &self.root, wait: self.wait, closer: self.loader.closer.as_ref() }
    }
}

/// Returns the path of a folder as a link from the root, with a trailing slash.
fn folder_link(folder: &[u8]) -> String {
    let mut link = String::with_capacity(folder.len() + 2);
    for segment in folder.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty()) {
        link.push('/');
        link.extend(percent_encode(segment, listing_content::SEGMENT));
    }
    link.push('/');
    link
}
