//! The folder being served, and the only way into it.
//!
//! A path from a request must never reach a file outside the folder. Checking the text of the path is not enough: a
//! symlink inside the folder may lead anywhere, and may be swapped between a check and the open. So the kernel is asked
//! to keep inside, for every open: `openat2` with `RESOLVE_BENEATH` (Linux 5.6). It follows relative symlinks that stay
//! inside and refuses the others, absolute ones included, since those start again at `/`.
//!
//! Where `openat2` is missing (an old kernel, or a container's system call filter) the path is walked one segment at a
//! time with `O_NOFOLLOW`, which refuses every symlink: less is served, but nothing escapes.
//!
//! A path may lead to a disk that is slow, or dead. Whoever cannot wait for one says so ([`Wait::Never`]), and the kernel answers
//! from the names it has in memory or not at all (`RESOLVE_CACHED`, Linux 5.12; without it, not at all).

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat, openat2};
use rustix::io::Errno;

use super::listing_page::ListingPage;
use super::mounts::{self, Kind, Mounts};
use super::{Stop, Wait};

/// `openat2` answers EAGAIN when a rename or mount anywhere on the machine raced with a `..` in a symlink; the kernel's
/// documentation says to try again. More often than this in a row means something else is wrong.
const ATTEMPTS_MAX: usize = 8;

/// Folders above a path that are tried for one whose name is in memory.
const FOLDERS_TRIED_MAX: usize = 16;

/// What of the folder is served.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Options {
    /// Serve names that begin with a dot; `.well-known` (RFC 8615) is served always, `..` never.
    pub hidden: bool,
    /// Answer for a folder without an index file with a list of its names.
    pub listing: bool,
    /// Names of the file that stands for its folder: the first that is there.
    pub index: Vec<String>,
    /// Around listings; `None` for that of the server.
    pub page: Option<Arc<ListingPage>>,
}

impl Default for Options {
    fn default() -> Options {
        Options { hidden: false, listing: false, index: vec!["index.html".into()], page: None }
    }
}

/// A folder whose files may be served. It stays the same folder when it is renamed or a symlink to it is changed.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    pub(super) options: Options,
    resolve: Resolve,
    /// On which it lies.
    device: u64,
    inode: u64,
    mounts: Mounts,
    /// A disk that is slow when a test says so.
    #[cfg(test)]
    disk: Option<super::fake_disk::FakeDisk>,
}

/// What is at a path.
pub(super) struct Looked {
    /// Not open for reading.
    pub file: File,
    pub metadata: Metadata,
    /// Of the file system it lies on.
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolve {
    /// `openat2` with `RESOLVE_BENEATH`, and `RESOLVE_CACHED` where it must not wait.
    Cached,
    /// `openat2` with `RESOLVE_BENEATH`; there is no other.
    Beneath,
    /// Segment by segment, no symlinks.
    Walk,
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// O_NONBLOCK so that a FIFO put there between the look and the open does not stop the worker.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

impl Root {
    /// Opens the folder; symlinks on the way to it are followed, being the operator's own.
    pub fn open(dir: &Path, options: Options) -> io::Result<Root> {
        let folder = open(dir, FOLDER, Mode::empty())?;
        // A folder can be opened by one who may not open what is in it.
        openat(&folder, ".", FOLDER, Mode::empty())?;
        let resolve = match openat2(&folder, ".", FOLDER, Mode::empty(), BENEATH | ResolveFlags::CACHED) {
            Err(Errno::NOSYS | Errno::PERM) => Resolve::Walk,
            Err(Errno::INVAL) => Resolve::Beneath,
            _ => Resolve::Cached,
        };
        let folder = File::from(folder);
        let (metadata, mounts) = (folder.metadata()?, Mounts::default());
        mounts.learn(&folder);
        Ok(Root {
            folder: folder.into(),
            options,
            resolve,
            device: metadata.dev(),
            inode: metadata.ino(),
            mounts,
            #[cfg(test)]
            disk: None,
        })
    }

    /// Device and number of the folder: no other has them while this one is open.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// The same of the folder that a path leads to now.
    pub fn identity_of(dir: &Path) -> io::Result<(u64, u64)> {
        std::fs::metadata(dir).map(|metadata| (metadata.dev(), metadata.ino()))
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether this decoded path may be looked for at all: no `.` or `..`, no NUL, nothing hidden unless allowed.
    pub(super) fn admits(&self, path: &[u8]) -> bool {
        !path.contains(&0) && path.split(|&byte| byte == b'/').all(|segment| self.admits_segment(segment))
    }

    pub(super) fn admits_segment(&self, segment: &[u8]) -> bool {
        match segment {
            b"." | b".." => false,
            b".well-known" => true,
            _ => self.options.hidden || !segment.starts_with(b"."),
        }
    }

    /// What is at this path (relative, without a slash at the ends; empty is the folder itself), without opening it:
    /// to open a device can have effects, to look at it has none.
    pub(super) fn look(&self, path: &[u8], wait: Wait) -> Result<Looked, Stop> {
        let file = self.at(path, OFlags::PATH | OFlags::CLOEXEC, wait)?;
        let kind = match wait {
            Wait::Never => self.mounts.kind(&file),
            Wait::Allowed => self.mounts.learn(&file),
        };
        if wait == Wait::Never && kind == Kind::Remote {
            return Err(Stop::WouldWait);
        }
        let metadata = file.metadata()?;
        Ok(Looked { file, metadata, kind })
    }

    /// Opens what is at this path, and was looked at, for reading.
    pub(super) fn read(&self, path: &[u8], wait: Wait) -> Result<File, Stop> {
        self.at(path, READ, wait)
    }

    /// The device that will be asked for what is at this path: the one of the last folder on the way whose name is in memory, as
    /// those on which something is mounted are.
    pub(super) fn device(&self, path: &[u8]) -> u64 {
        let ends = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let folders = std::iter::once(path.len()).chain(ends).take(FOLDERS_TRIED_MAX).map(|end| &path[..end]);
        let found = |folder| self.at(folder, OFlags::PATH | OFlags::CLOEXEC, Wait::Never).ok();
        folders.filter_map(found).find_map(|folder| mounts::device(&folder)).unwrap_or(self.device)
    }

    fn at(&self, path: &[u8], flags: OFlags, wait: Wait) -> Result<File, Stop> {
        #[cfg(test)]
        let wait = match &self.disk {
            Some(disk) => {
                disk.ask(path, wait)?;
                // It decides alone: what the kernel has in memory depends on what else the machine does.
                if self.resolve == Resolve::Cached { Wait::Allowed } else { wait }
            }
            None => wait,
        };
        let path = if path.is_empty() { b"." } else { path };
        let opened = match (self.resolve, wait) {
            (Resolve::Cached, Wait::Never) => self.at_cached(path, flags),
            (_, Wait::Never) => return Err(Stop::WouldWait),
            (Resolve::Cached | Resolve::Beneath, Wait::Allowed) => self.at_beneath(path, flags),
            (Resolve::Walk, Wait::Allowed) => self.at_walk(path, flags | OFlags::NOFOLLOW),
        };
        match opened {
            Err(Errno::AGAIN | Errno::INTR) if wait == Wait::Never => Err(Stop::WouldWait),
            opened => Ok(File::from(opened.map_err(|errno| of_name(path, errno))?)),
        }
    }

    fn at_cached(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        openat2(&self.folder, path, flags, Mode::empty(), BENEATH | ResolveFlags::CACHED)
    }

    fn at_beneath(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut result = Err(Errno::AGAIN);
        for _ in 0..ATTEMPTS_MAX {
            result = openat2(&self.folder, path, flags, Mode::empty(), BENEATH);
            if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        result
    }

    /// `admits` has refused `..`, and `O_NOFOLLOW` refuses symlinks, so that every step goes down.
    fn at_walk(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let start = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let (folders, name) = path.split_at(start);
        let mut folder = None::<OwnedFd>;
        for segment in folders.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty()) {
            let from = folder.as_ref().unwrap_or(&self.folder);
            folder = Some(openat(from, segment, FOLDER | OFlags::NOFOLLOW, Mode::empty())?);
        }
        openat(folder.as_ref().unwrap_or(&self.folder), name, flags, Mode::empty())
    }

    /// As if the kernel had no `openat2`.
    #[cfg(test)]
    pub(super) fn walking(mut self) -> Root {
        self.resolve = Resolve::Walk;
        self
    }

    /// Before Linux 5.12.
    #[cfg(test)]
    pub(super) fn uncached(mut self) -> Root {
        self.resolve = Resolve::Beneath;
        self
    }

    #[cfg(test)]
    pub fn on(mut self, disk: super::fake_disk::FakeDisk) -> Root {
        self.disk = Some(disk);
        self
    }
}

/// File systems that know characters (exFAT, ext4 that ignores case, ZFS) have no name that is not UTF-8, and say that it is no name.
fn of_name(path: &[u8], errno: Errno) -> Errno {
    let is_no_name = matches!(errno, Errno::INVAL | Errno::ILSEQ) && std::str::from_utf8(path).is_err();
    if is_no_name { Errno::NOENT } else { errno }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_no_name_is_not_there() {
        for (path, errno, expected) in [
            (&b"caf\xe9"[..], Errno::INVAL, Errno::NOENT),
            (b"caf\xe9", Errno::ILSEQ, Errno::NOENT),
            (b"caf\xe9", Errno::ACCESS, Errno::ACCESS),
            (b"cafe", Errno::INVAL, Errno::INVAL),
        ] {
            assert_eq!(of_name(path, errno), expected, "{}", path.escape_ascii());
        }
    }
}
