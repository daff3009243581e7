//! Remembers which names some folders lack, so that paths of random names cause no access to the file system.
//!
//! It does not store absent names, because a client can make up any number of them, but all names of a folder in which
//! one was missing. A thread that may wait first watches the folder and then reads it, so that no name added after that
//! goes unnoticed. A path with a segment that its folder lacks does not exist, whatever follows the segment. Names that
//! differ only in bits of 0x20 count as equal here. That is coarser than every file system that ignores case byte by
//! byte (XFS), and costs at most a needless access. Three kinds of folders are not remembered: folders that the kernel
//! compares by Unicode, folders that it shows differently while they are locked, and folders on file systems that
//! others may change ([`Kind::Remote`]).

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::Hasher;
use std::io;

use rustix::fs::{Dir, IFlags, Mode, OFlags, ioctl_getflags, openat};
use slab::Slab;
use units::Nanos;

use super::entry::State;
use super::loader::Loader;
use super::mounts::Kind;
use super::root::Looked;
use super::watch::WatchId;
use super::{Key, REVALIDATE_AFTER, Root, SiteNumber, Wait, trim_slashes};

/// The maximum number of folders that a worker remembers.
pub(super) const FOLDERS_MAX: usize = 64;
/// The maximum number of names in a remembered folder. Each takes 8 bytes.
pub(super) const NAMES_MAX: usize = 1024;
/// The minimum interval between two reads of folders for one worker: the time after which entries are revalidated,
/// divided by the number of remembered folders. A read takes 0.2 ms at most if the names are in memory.
pub(super) const READ_EVERY: Nanos = Nanos(REVALIDATE_AFTER.0 / FOLDERS_MAX as u64);
/// The maximum length of a remembered folder's path.
const FOLDER_BYTES_MAX: usize = 1024;
/// The maximum number of path segments that are checked, from the top.
const STEPS_MAX: usize = 16;
/// The maximum length of a name on all file systems whose folders are remembered.
const NAME_BYTES_MAX: usize = 255;

/// The first watch slot for these folders. The slots of listings follow.
const FIRST_SLOT: usize = 1 << (usize::BITS - 2);

/// `FS_CASEFOLD_FL` and `FS_ENCRYPT_FL`.
const COMPARED_OTHERWISE: IFlags = IFlags::from_bits_retain(0x4000_0000 | 0x800);

/// The folders whose names a worker remembers.
#[derive(Debug, Default)]
pub(super) struct Absent {
    folders: Slab<Remembered>,
    by_key: HashMap<Key, usize>,
    /// The first time at which a folder may be read again.
    read_from: Nanos,
    /// A buffer for the key of a lookup, reused to avoid allocations.
    wanted: Vec<u8>,
}

#[derive(Debug)]
struct Remembered {
    key: Key,
    folder: Folder,
    compared_at: Nanos,
}

/// A folder and digests of all its names.
#[derive(Debug)]
pub(super) struct Folder {
    /// The folder's decoded path, without a slash at either end.
    path: Box<[u8]>,
    /// The sorted digests of the names.
    digests: Vec<u64>,
    state: State,
    pub watch: WatchId,
}

impl Absent {
    /// Returns true if the next lookup may read a folder, which is at most once per [`READ_EVERY`].
    pub fn take_turn(&mut self, now: Nanos) -> bool {
        let is_due = now >= self.read_from;
        if is_due {
            self.read_from = now + READ_EVERY;
        }
        is_due
    }

    /// Returns the slot of a folder that lacks the next name of this path.
    pub fn lacking(&mut self, site: SiteNumber, path: &[u8]) -> Option<usize> {
        steps(path).find_map(|(folder, name)| {
            Key::write(site, folder, &mut self.wanted);
            let at = *self.by_key.get(self.wanted.as_slice())?;
            (!self.folders[at].folder.may_have(name)).then_some(FIRST_SLOT + at)
        })
    }

    /// Returns true if the path still leads to this folder in the state in which it was read. If the last check was
    /// long ago, checks the file system without waiting.
    pub fn is_true(&mut self, slot: usize, root: &Root, now: Nanos) -> bool {
        let Remembered { folder, compared_at, .. } = &mut self.folders[slot - FIRST_SLOT];
        if now - *compared_at >= REVALIDATE_AFTER {
            match root.enter(Wait::Never).and_then(|root| root.look(&folder.path, Wait::Never)) {
                Ok(looked) if State::of(&looked.metadata) == folder.state => *compared_at = now,
                _ => return false,
            }
        }
        true
    }

    /// Returns the slot, if any, that must be passed to [`Absent::take`] before this folder is inserted.
    pub fn displaced(&mut self, site: SiteNumber, folder: &Folder) -> Option<usize> {
        Key::write(site, &folder.path, &mut self.wanted);
        let old = self.by_key.get(self.wanted.as_slice()).copied();
        let oldest = || self.folders.iter().min_by_key(|(_, folder)| folder.compared_at).map(|(at, _)| at);
        let at = old.or_else(|| (self.folders.len() >= FOLDERS_MAX).then(oldest).flatten())?;
        Some(FIRST_SLOT + at)
    }

    /// Remembers a folder, and returns its slot for the watch.
    pub fn insert(&mut self, site: SiteNumber, folder: Folder, now: Nanos) -> usize {
        Key::write(site, &folder.path, &mut self.wanted);
        let key = Key::from(self.wanted.as_slice());
        let at = self.folders.insert(Remembered { key: key.clone(), folder, compared_at: now });
        self.by_key.insert(key, at);
        FIRST_SLOT + at
    }

    /// Forgets a folder, and returns its watch; `None` if it was forgotten already.
    pub fn take(&mut self, slot: usize) -> Option<WatchId> {
        let Remembered { key, folder, .. } = self.folders.try_remove(slot - FIRST_SLOT)?;
        self.by_key.remove(&key);
        Some(folder.watch)
    }

    pub fn slots(&self) -> Vec<usize> {
        self.folders.iter().map(|(at, _)| FIRST_SLOT + at).collect()
    }

    /// Returns true for the slots of remembered folders; `at` must not be a listing's slot.
    pub fn is_slot(at: usize) -> bool {
        at >= FIRST_SLOT
    }
}

impl Folder {
    /// Reads the names in the folder that lacks the first missing name of this path. Blocks on the disk. Returns `None`
    /// if the folder cannot be remembered.
    pub fn read(loader: &Loader, path: &[u8], added: &mut Vec<WatchId>) -> Option<Folder> {
        let root = loader.root.enter(Wait::Allowed).ok()?;
        let look = |folder: &[u8]| root.look(folder, Wait::Allowed).ok().filter(|it| it.metadata.is_dir());
        let (path, looked) = steps(path).map_while(|(folder, _)| Some((folder, look(folder)?))).last()?;
        if looked.kind == Kind::Remote || path.len() > FOLDER_BYTES_MAX {
            return None;
        }
        let watch = loader.inotify.add_names(&looked.file)?;
        added.push(watch);
        // If the folder had been moved before it was watched, no event would report that.
        let Looked { metadata, .. } = look(path)?;
        let state = State::of(&metadata);
        let digests = state.is_same_file(&looked.metadata).then(|| digests(&looked.file).ok()).flatten()?;
        Some(Folder { path: path.into(), digests: digests?, state, watch })
    }

    fn may_have(&self, name: &[u8]) -> bool {
        name.len() <= NAME_BYTES_MAX && self.digests.binary_search(&digest(name)).is_ok()
    }
}

/// Returns digests of all names in a folder; `None` if there are too many, or if they cannot be compared.
fn digests(folder: &File) -> io::Result<Option<Vec<u64>>> {
    let mut names =
        Dir::new(openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)?;
    // File systems without flags never compare names in one of these ways.
    if ioctl_getflags(names.fd()?).is_ok_and(|flags| flags.intersects(COMPARED_OTHERWISE)) {
        return Ok(None);
    }
    let mut digests = Vec::new();
    for name in &mut names {
        if digests.len() == NAMES_MAX {
            return Ok(None);
        }
        digests.push(digest(name?.file_name().to_bytes()));
    }
    digests.sort_unstable();
    Ok(Some(digests))
}

fn digest(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.iter().for_each(|byte| hasher.write_u8(byte | 0x20));
    hasher.finish()
}

/// The folders along a decoded path, from the top, each with the name that is looked up in it.
fn steps(path: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let path = trim_slashes(path);
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let starts = std::iter::once(0).chain(slashes.map(|(at, _)| at + 1));
    let step = move |start| {
        let (folder, rest): (&[u8], &[u8]) = path.split_at(start);
        (trim_slashes(folder), rest.split(|&byte| byte == b'/').next().unwrap_or_default())
    };
    starts.take(STEPS_MAX).map(step).filter(|(_, name)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_looked_for_step_by_step() {
        let of = |path| steps(path).collect::<Vec<_>>();
        assert_eq!(of(b"a/\xe9/c/"), [(&b""[..], &b"a"[..]), (b"a", b"\xe9"), (b"a/\xe9", b"c")]);
        assert_eq!(of(b""), []);
        assert_eq!(of("a/".repeat(100).as_bytes()).len(), STEPS_MAX);
    }

    #[test]
    fn names_that_some_file_system_may_take_for_one_are_one() {
        assert_eq!(digest("Ä.HTML".as_bytes()), digest("Ä.html".as_bytes()));
        assert_ne!(digest(b"a"), digest(b"b"));
    }
}
