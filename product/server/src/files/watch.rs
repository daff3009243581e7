//! Reports which cached files have changed, by inotify.
//!
//! The inode of each cached file is watched, and not its folder, because a busy folder of logs or uploads would wake us
//! for files that are not requested. Folders are watched only if their names are remembered, until a name is added or
//! removed. Writing, truncating, `chmod`, renaming, unlinking, and being replaced by a rename all queue an event before
//! their system call returns. So a worker that handles [`Watch::changed`] before looking at requests never serves a
//! state older than the request. The cache handles changes that cause no event of the inode.
//!
//! A lookup that another thread runs adds its watch on that thread, and the cache receives the watch when the lookup
//! ends. A [`Watch`] remembers recent events, so it can report whether the inode changed in between, or whether its
//! watch was removed because nothing used it.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Once};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// The maximum number of events read per turn. If there are more, any file may have changed. It is four times the
/// kernel's default queue.
const EVENTS_PER_TURN_MAX: usize = 65_536;
/// The size of the buffer for events. An event of a file takes 16 bytes, without a name; an event of a folder includes
/// a name of up to 255 bytes.
const BUFFER_BYTES: usize = 4096;

/// The maximum number of inodes that are remembered as changed or no longer watched. If more are affected while a
/// lookup runs, its result is sent but not cached.
const REMEMBERED_MAX: usize = 1024;

const CHANGES: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DELETE_SELF);

/// Events of a folder, including changes of the files in it.
const CHANGES_INSIDE: WatchFlags = CHANGES
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO);

/// Events of a folder whose names are remembered: names added or removed. Changes to the content of its files are left
/// out; otherwise each line of a log would wake us.
const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DELETE_SELF);

static SAID: Once = Once::new();

/// A watch on a set of inodes, each used by one or more slots of the cache (a file can have several request paths).
#[derive(Debug)]
pub(super) struct Watch {
    inotify: Inotify,
    slots: HashMap<WatchId, Vec<usize>>,
    /// Watches that slots have released; empty between calls of the cache.
    unused: Vec<WatchId>,
    /// The inodes that most recently changed or are no longer watched, with the moment of each event.
    disturbed: VecDeque<(Moment, WatchId)>,
    /// The moment before which no changes are remembered.
    remembers_from: Moment,
    now: Moment,
}

/// A count of inode events.
pub(super) type Moment = u64;

/// The inotify instance, to which any thread may add inodes; `None` if the user can have no more inotify instances.
#[derive(Debug, Clone)]
pub(super) struct Inotify(Option<Arc<OwnedFd>>);

/// The kernel's number for a watched inode in this [`Watch`].
pub(super) type WatchId = i32;

/// The result of [`Watch::changed`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Changed {
    Slots(Vec<usize>),
    /// Events were lost, so anything may have changed.
    Anything,
}

impl Inotify {
    pub(super) fn new() -> Inotify {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        Inotify(inotify.map_err(say_once).ok().map(Arc::new))
    }

    /// Creates an instance that behaves as if the user could have no more inotify instances.
    #[cfg(test)]
    pub(super) fn unavailable() -> Inotify {
        Inotify(None)
    }

    /// Watches the inode of an open file for changes. Returns `None` if that is not possible.
    pub(super) fn add(&self, file: &File) -> Option<WatchId> {
        self.add_for(file, CHANGES)
    }

    /// Watches a folder and the files in it.
    pub(super) fn add_folder(&self, folder: &File) -> Option<WatchId> {
        self.add_for(folder, CHANGES_INSIDE)
    }

    /// Watches the names in a folder, in addition to any existing watch of it.
    pub(super) fn add_names(&self, folder: &File) -> Option<WatchId> {
        self.add_for(folder, NAMES.union(WatchFlags::MASK_ADD))
    }

    fn add_for(&self, file: &File, changes: WatchFlags) -> Option<WatchId> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        match inotify::add_watch(self.0.as_ref()?, path, changes) {
            Ok(id) => Some(id),
            // Opening the file without permission to read it fails as well, and reports the reason.
            Err(Errno::ACCESS) => None,
            Err(errno) => {
                say_once(errno);
                None
            }
        }
    }
}

impl Watch {
    pub(super) fn new(inotify: Inotify) -> Watch {
        Watch {
            inotify,
            slots: HashMap::new(),
            unused: Vec::new(),
            disturbed: VecDeque::new(),
            remembers_from: 0,
            now: 0,
        }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.0.as_ref().map(|inotify| inotify.as_fd())
    }

    /// The current moment, for later calls of [`Watch::is_undisturbed`].
    pub(super) fn moment(&self) -> Moment {
        self.now
    }

    /// Returns true if the inode, whose watch was added after this moment, is still watched and has had no event.
    pub(super) fn is_undisturbed(&self, id: WatchId, since: Moment) -> bool {
        since >= self.remembers_from && !self.disturbed.iter().any(|&(at, other)| at > since && other == id)
    }

    fn disturb(&mut self, id: WatchId) {
        self.now += 1;
        if self.disturbed.len() == REMEMBERED_MAX {
            self.remembers_from = self.disturbed.pop_front().map_or(self.now, |(at, _)| at);
        }
        self.disturbed.push_back((self.now, id));
    }

    /// Discards the record of events. For every lookup in progress, [`Watch::is_undisturbed`] then returns false.
    pub(super) fn disturb_all(&mut self) -> Changed {
        self.now += 1;
        self.disturbed.clear();
        self.remembers_from = self.now;
        Changed::Anything
    }

    pub(super) fn attach(&mut self, id: WatchId, slot: usize) {
        self.slots.entry(id).or_default().push(slot);
    }

    /// Ends a slot's use of the inode. If no other slot uses it, it stays watched until [`Watch::release_unused`].
    pub(super) fn detach(&mut self, id: WatchId, slot: usize) {
        if let Some(slots) = self.slots.get_mut(&id) {
            slots.retain(|&other| other != slot);
            if slots.is_empty() {
                self.slots.remove(&id);
            }
        }
        self.unused.push(id);
    }

    /// Releases watches that were added and perhaps not attached to a slot.
    pub(super) fn give_back(&mut self, added: Vec<WatchId>) {
        self.unused.extend(added);
    }

    /// Stops watching inodes that no slot uses. This is done later, because an entry being inserted may need the watch
    /// of the entry it displaces.
    pub(super) fn release_unused(&mut self) {
        while let Some(id) = self.unused.pop() {
            if self.slots.contains_key(&id) {
                continue;
            }
            self.disturb(id);
            if let Some(inotify) = &self.inotify.0 {
                // This fails if the inode no longer exists, and the watch with it.
                let _ = inotify::remove_watch(inotify, id);
            }
        }
    }

    /// Returns the slots whose files have changed since the last call, possibly with duplicates. Never blocks.
    pub(super) fn changed(&mut self) -> Changed {
        let Some(inotify) = self.inotify.0.clone() else { return Changed::Slots(Vec::new()) };
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut events = inotify::Reader::new(inotify, &mut buffer);
        let mut slots = Vec::new();
        for _ in 0..EVENTS_PER_TURN_MAX {
            match events.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => return self.disturb_all(),
                Ok(event) => {
                    slots.extend(self.slots.get(&event.wd()).into_iter().flatten());
                    self.disturb(event.wd());
                }
                Err(Errno::AGAIN) => return Changed::Slots(slots),
                Err(Errno::INTR) => {}
                Err(_) => return self.disturb_all(),
            }
        }
        self.disturb_all()
    }
}

fn say_once(errno: Errno) {
    let why = match errno {
        Errno::MFILE => "this user has no inotify instance left; raise fs.inotify.max_user_instances".to_string(),
        Errno::NOSPC => "this user has no inotify watch left; raise fs.inotify.max_user_watches".to_string(),
        Errno::NOENT => "/proc is not mounted; mount it".to_string(),
        other => other.to_string(),
    };
    let text = format!("files: every use of a cached file checks the disk again: {why}");
    SAID.call_once(|| eprint!("{}", crate::stderr::line(&text)));
}
