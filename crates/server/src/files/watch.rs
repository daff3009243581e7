//! Which cached files have changed, told by the kernel.
//!
//! Each cached file's inode is watched (not its folder: a busy folder of logs or uploads would wake us for files nobody
//! asks for). Writing, truncating, `chmod`, renaming, unlinking, and being replaced by a rename all queue an event before
//! the system call that did it returns, so whoever handles [`Watch::changed`] before looking at requests never serves a
//! state older than the request. What an inode's events cannot show is in the cache's argument.

use std::collections::HashMap;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Once;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// Events read in one turn before giving up on telling which files changed: four times the kernel's default queue.
const EVENTS_PER_TURN_MAX: usize = 65_536;
/// 16 bytes an event of a file, which has no name in it; one of a folder has one of up to 255 bytes.
const BUFFER_BYTES: usize = 4096;

const CHANGES: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DELETE_SELF);

/// Of a folder, to which the kernel tells also what becomes of the files in it.
const CHANGES_INSIDE: WatchFlags = CHANGES
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO);

static SAID: Once = Once::new();

/// A watch on a set of inodes, each used by one slot of the cache or more (a file can have several request paths).
#[derive(Debug)]
pub(super) struct Watch {
    /// None where the user has no inotify instance left.
    inotify: Option<OwnedFd>,
    slots: HashMap<WatchId, Vec<usize>>,
}

/// The kernel's number for a watched inode in this [`Watch`].
pub(super) type WatchId = i32;

/// What [`Watch::changed`] found out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Changed {
    Slots(Vec<usize>),
    /// Events were lost, so anything may have changed.
    Anything,
}

impl Watch {
    pub(super) fn new() -> Watch {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        Watch { inotify: inotify.map_err(say_once).ok(), slots: HashMap::new() }
    }

    /// As if the user had no inotify instance left.
    #[cfg(test)]
    pub(super) fn unavailable() -> Watch {
        Watch { inotify: None, slots: HashMap::new() }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Watches the inode behind an open file; from here on its changes are told. None if that is not possible.
    pub(super) fn add(&mut self, file: &File) -> Option<WatchId> {
        self.add_for(file, CHANGES)
    }

    /// The same for a folder and what is in it.
    pub(super) fn add_folder(&mut self, folder: &File) -> Option<WatchId> {
        self.add_for(folder, CHANGES_INSIDE)
    }

    fn add_for(&mut self, file: &File, changes: WatchFlags) -> Option<WatchId> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        match inotify::add_watch(self.inotify.as_ref()?, path, changes) {
            Ok(id) => Some(id),
            // Without permission to read it, opening it fails as well and says why.
            Err(Errno::ACCESS) => None,
            Err(errno) => {
                say_once(errno);
                None
            }
        }
    }

    pub(super) fn attach(&mut self, id: WatchId, slot: usize) {
        self.slots.entry(id).or_default().push(slot);
    }

    pub(super) fn detach(&mut self, id: WatchId, slot: usize) {
        if let Some(slots) = self.slots.get_mut(&id) {
            slots.retain(|&other| other != slot);
            if slots.is_empty() {
                self.slots.remove(&id);
            }
        }
        self.release(id);
    }

    /// Stops watching an inode that no slot uses; does nothing for one that is used.
    pub(super) fn release(&mut self, id: WatchId) {
        if let (Some(inotify), false) = (&self.inotify, self.slots.contains_key(&id)) {
            // Fails if the inode is gone already, and the watch with it.
            let _ = inotify::remove_watch(inotify, id);
        }
    }

    /// The slots whose files have changed since the last call, some perhaps more than once; never blocks.
    pub(super) fn changed(&self) -> Changed {
        let Some(inotify) = &self.inotify else { return Changed::Slots(Vec::new()) };
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut events = inotify::Reader::new(inotify, &mut buffer);
        let mut slots = Vec::new();
        for _ in 0..EVENTS_PER_TURN_MAX {
            match events.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => return Changed::Anything,
                Ok(event) => slots.extend(self.slots.get(&event.wd()).into_iter().flatten()),
                Err(Errno::AGAIN) => return Changed::Slots(slots),
                Err(Errno::INTR) => {}
                Err(_) => return Changed::Anything,
            }
        }
        Changed::Anything
    }
}

fn say_once(errno: Errno) {
    let why = match errno {
        Errno::MFILE => "this user has no inotify instance left; raise fs.inotify.max_user_instances".to_string(),
        Errno::NOSPC => "this user has no inotify watch left; raise fs.inotify.max_user_watches".to_string(),
        Errno::NOENT => "/proc is not mounted; mount it".to_string(),
        other => other.to_string(),
    };
    SAID.call_once(|| eprintln!("weir: files: each use of a cached file looks at the disk again: {why}"));
}
