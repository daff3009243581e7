//! The folder being served, and the only way into it.
//!
//! A path from a request must never reach a file outside the folder. Checking the text of the path is not enough: a
//! symlink inside the folder may lead anywhere, and may be swapped between a check and the open. So the kernel confines
//! every open to the folder: `openat2` with `RESOLVE_BENEATH` (Linux 5.6). It follows relative symlinks that stay
//! inside, and refuses all others, even those that lead back into the folder: absolute ones, which start at `/`, and
//! those that go up and down again. A path that leaves the root is therefore opened without access to its content, and
//! the kernel reports its location. If the location is inside the root, the file is opened by that location, again
//! beneath the root. Elsewhere a file is opened only if an operator has allowed its folder.
//!
//! If `openat2` is missing (an old kernel, or a container's system-call filter), the path is opened one segment at a
//! time with `O_NOFOLLOW`, which refuses every symlink: less is served, but nothing escapes.
//!
//! The root itself is opened by its path for every lookup and closed after it. So a folder that replaces it is served
//! immediately, as by nginx, Apache and Caddy, and a file system that is mounted there can be unmounted. Opening it
//! costs about 1 µs.
//!
//! A path may lead to a disk that is slow, or dead. For a lookup that must not wait for one ([`Wait::Never`]), the
//! kernel answers from the names it has in memory or not at all (`RESOLVE_CACHED`, Linux 5.12; without it, not at all).

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use config::MediaTypes;
use hashbrown::HashMap;
use http::Codings;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, open, openat, openat2};
use rustix::io::Errno;

use super::entry::State;
use super::links::Links;
use super::listing_template::ListingPage;
use super::mounts::{self, Kind, Mounts};
use super::{Missing, Stop, Wait};

/// The maximum number of attempts. `openat2` returns EAGAIN if a rename or mount anywhere on the machine raced with a
/// `..` in a symlink, and the kernel's documentation recommends trying again. More consecutive failures than this have
/// another cause.
const ATTEMPTS_MAX: usize = 8;

/// The maximum number of parent folders that are tried to find one whose name is in memory.
const FOLDERS_TRIED_MAX: usize = 16;

/// The maximum number of names at the top of a root that are checked for symlinks that leave it.
const NAMES_TRIED_MAX: usize = 10_000;
/// The maximum number of invalid sidecars of a root that are logged.
const WRONG_TOLD_MAX: usize = 64;

/// The settings for the files served from a folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Options {
    /// True to serve names that begin with a dot. `.well-known` (RFC 8615) is always served, `..` never.
    pub hidden: bool,
    /// True to serve a list of names for a folder without an index file.
    pub listing: bool,
    /// The names of index files. The first one that exists is served for its folder.
    pub index: Vec<String>,
    /// The page around listings; `None` for the server's own.
    pub page: Option<Arc<ListingPage>>,
    /// Folders outside the root that symlinks in it may lead into.
    pub links_into: Vec<PathBuf>,
    /// The codings in which files may be sent.
    pub codings: Codings,
    /// True to send pictures in the types of their sidecars.
    pub image_sidecars: bool,
    pub types: MediaTypes,
}

impl Default for Options {
    fn default() -> Options {
        let (index, links_into, codings) = (vec!["index.html".into()], Vec::new(), Codings::ALL);
        let types = MediaTypes::default();
        Options { hidden: false, listing: false, index, page: None, links_into, codings, image_sidecars: true, types }
    }
}

/// A folder whose files may be served: whichever folder its path leads to at each lookup.
#[derive(Debug)]
pub struct Root {
    /// The folder's path, absolute because the working directory may be renamed.
    path: PathBuf,
    pub(super) options: Options,
    resolve: Resolve,
    links: Links,
    /// The device of the folder when it was last opened.
    device: AtomicU64,
    /// The folder last reported to the log.
    told: Mutex<Option<Identity>>,
    mounts: Mounts,
    /// The sidecars that were logged as invalid, with their states at that time.
    wrong: Mutex<HashMap<Vec<u8>, State>>,
    /// A simulated disk for tests, which can be slow.
    #[cfg(test)]
    disk: Option<super::fake_disk::FakeDisk>,
}

/// A root that is open for one lookup. The whole lookup uses the same folder, even if the folder is replaced meanwhile.
pub(super) struct Entered<'r> {
    root: &'r Root,
    folder: OwnedFd,
}

/// The device and inode of the folder at a root's path; `None` if there is none.
pub(super) type Identity = Option<(u64, u64)>;

/// A file or folder that was found but not opened for reading.
pub(super) struct Looked {
    /// The file, which is not open for reading.
    pub file: File,
    pub metadata: Metadata,
    /// The kind of the file system that contains the file.
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolve {
    /// With `openat2` and `RESOLVE_BENEATH`, and also `RESOLVE_CACHED` if the lookup must not wait.
    Cached,
    /// With `openat2` and `RESOLVE_BENEATH`, because `RESOLVE_CACHED` is not available.
    Beneath,
    /// Segment by segment, without symlinks.
    Walk,
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The flags for reading. With O_NONBLOCK, a FIFO created between the look and the open does not block the worker.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

impl Root {
    /// Creates a root from a folder, which must exist and be accessible.
    #[cfg(test)]
    pub fn open(dir: &Path, options: Options) -> io::Result<Root> {
        let root = Root::awaited(dir, options)?;
        root.try_out()?;
        Ok(root)
    }

    /// Creates a root from a folder that may be missing; it is served once it exists. Symlinks on the path to it are
    /// followed, because the operator made them.
    pub fn awaited(dir: &Path, options: Options) -> io::Result<Root> {
        let anywhere = open("/", FOLDER, Mode::empty())?;
        let resolve = match openat2(&anywhere, ".", FOLDER, Mode::empty(), BENEATH | ResolveFlags::CACHED) {
            Err(Errno::NOSYS | Errno::PERM) => Resolve::Walk,
            Err(Errno::INVAL) => Resolve::Beneath,
            _ => Resolve::Cached,
        };
        Ok(Root {
            links: Links::into(&options.links_into)?,
            path: std::path::absolute(dir)?,
            options,
            resolve,
            device: AtomicU64::default(),
            told: Mutex::new(Some(None)),
            mounts: Mounts::default(),
            wrong: Mutex::default(),
            #[cfg(test)]
            disk: None,
        })
    }

    /// Fails unless the folder exists and is accessible. Blocks on the disk.
    pub fn try_out(&self) -> io::Result<()> {
        let folder = open(&self.path, FOLDER, Mode::empty())?;
        // A user may be able to open a folder but not its contents.
        openat(&folder, ".", FOLDER, Mode::empty())?;
        let folder = File::from(folder);
        self.mounts.learn(&folder);
        self.device.store(mounts::device(&folder).unwrap_or_default(), Ordering::Relaxed);
        self.told.lock().unwrap_or_else(PoisonError::into_inner).take_if(|told| told.is_none());
        Ok(())
    }

    /// Returns true if this path is the root's path or below it.
    pub fn holds(&self, path: &Path) -> bool {
        std::path::absolute(path).is_ok_and(|path| path.starts_with(&self.path))
    }

    /// Returns the log line stating that the folder exists now, if it was missing at the start or reported as gone.
    pub(super) fn tell_arrival(&self, now: Identity) -> Option<String> {
        let is_missed = *self.told.lock().unwrap_or_else(PoisonError::into_inner) == Some(None);
        if is_missed && now.is_some() { self.tell_change(now) } else { None }
    }

    /// Opens the folder to which the root's path leads now.
    pub(super) fn enter(&self, wait: Wait) -> Result<Entered<'_>, Stop> {
        let folder = match self.wait(wait) {
            Wait::Never if self.resolve != Resolve::Cached => return Err(Stop::WouldWait),
            Wait::Never => openat2(CWD, &self.path, FOLDER, Mode::empty(), ResolveFlags::CACHED),
            Wait::Allowed => open(&self.path, FOLDER, Mode::empty()),
        };
        match folder {
            Ok(folder) => Ok(Entered { root: self, folder }),
            Err(Errno::AGAIN | Errno::INTR) if wait == Wait::Never => Err(Stop::WouldWait),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns the identity of the folder to which the root's path leads now. Never waits.
    pub(super) fn identity(&self) -> Result<Identity, Stop> {
        identity_of(&self.enter(Wait::Never))
    }

    /// Returns the log line stating that this folder has replaced another; `None` if that was reported already.
    pub(super) fn tell_change(&self, now: Identity) -> Option<String> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told.replace(now);
        if before == Some(now) {
            return None;
        }
        let name = self.path.display();
        if now.is_none() {
            return Some(format!("site root `{name}` is gone: its files are missing until it is there again"));
        }
        let is_readable = openat2(CWD, &self.path, READ | OFlags::DIRECTORY, Mode::empty(), ResolveFlags::CACHED);
        let but = match is_readable {
            Err(Errno::ACCESS) => {
                ", which cannot be read: because of its mode, or because it is outside the sandbox (then run `weir \
                    upgrade`)"
            }
            _ => "",
        };
        let what = if before == Some(None) { "there" } else { "another folder" };
        Some(format!("site root `{name}` is {what} now{but}"))
    }

    /// Returns a line for each symlink at the top of the root that leads out of it and is not followed. Blocks on the
    /// disk.
    pub fn symlinks_out(&self) -> Vec<Arc<str>> {
        let Ok(entered) = self.enter(Wait::Allowed) else { return Vec::new() };
        let names = entered.read(b"", Wait::Allowed).ok().and_then(|folder| Dir::new(folder).ok());
        let names = names.into_iter().flatten().flatten().take(NAMES_TRIED_MAX);
        let names = names
            .filter(|name| name.file_type() == FileType::Symlink && self.admits_segment(name.file_name().to_bytes()));
        names.filter_map(|name| entered.explain_leaving(name.file_name().to_bytes())).collect()
    }

    /// Returns true if this decoded path may be looked up at all: it contains no `.` or `..` segment, no NUL, and
    /// nothing hidden unless allowed.
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

    /// Returns the device that a lookup of this path will access: the device of the last folder on the path whose name
    /// is in memory. Mount points are always in memory.
    pub(super) fn device(&self, path: &[u8]) -> u64 {
        let known = || self.device.load(Ordering::Relaxed);
        let Ok(entered) = self.enter(Wait::Never) else { return known() };
        if let Some(device) = mounts::device(&entered.folder) {
            self.device.store(device, Ordering::Relaxed);
        }
        let ends = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let folders = std::iter::once(path.len()).chain(ends).take(FOLDERS_TRIED_MAX).map(|end| &path[..end]);
        let found = |folder| entered.at(folder, OFlags::PATH | OFlags::CLOEXEC, Wait::Never).ok();
        folders.filter_map(found).find_map(|folder| mounts::device(&folder)).unwrap_or_else(known)
    }

    /// Lets a test's disk decide whether a lookup blocks, because the names that the kernel has in memory depend on the
    /// rest of the machine.
    fn wait(&self, wait: Wait) -> Wait {
        #[cfg(test)]
        if self.disk.is_some() && self.resolve == Resolve::Cached {
            return Wait::Allowed;
        }
        wait
    }

    /// Makes the root behave as if the kernel had no `openat2`.
    #[cfg(test)]
    pub(super) fn walking(mut self) -> Root {
        self.resolve = Resolve::Walk;
        self
    }

    /// Makes the root behave as on Linux before 5.12.
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

impl Entered<'_> {
    /// Looks at this path (relative, without a slash at either end; empty for the folder itself) without opening it:
    /// opening a device can have side effects, looking at it has none.
    pub fn look(&self, path: &[u8], wait: Wait) -> Result<Looked, Stop> {
        let file = self.at(path, OFlags::PATH | OFlags::CLOEXEC, wait)?;
        let kind = match wait {
            Wait::Never => self.root.mounts.kind(&file),
            Wait::Allowed => self.root.mounts.learn(&file),
        };
        if wait == Wait::Never && kind == Kind::Remote {
            return Err(Stop::WouldWait);
        }
        let metadata = file.metadata()?;
        Ok(Looked { file, metadata, kind })
    }

    pub fn options(&self) -> &Options {
        &self.root.options
    }

    /// Returns the log line about an invalid sidecar; `None` if it was reported in this state, or too many others were.
    pub fn tell_wrong(&self, path: &[u8], state: State, why: &str) -> Option<String> {
        let mut wrong = self.root.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() >= WRONG_TOLD_MAX && !wrong.contains_key(path) || wrong.insert(path.into(), state) == Some(state)
        {
            return None;
        }
        let path = String::from_utf8_lossy(path);
        let file = path.rsplit_once('.').map_or(&*path, |(file, _)| file);
        Some(format!("`{path}` is not sent for `{file}`: {why}; make it again from the file, or remove it"))
    }

    /// Returns true if a path may have this segment.
    pub fn admits_segment(&self, segment: &[u8]) -> bool {
        self.root.admits_segment(segment)
    }

    /// Opens the file or folder at this path for reading. It must have been looked at before.
    pub fn read(&self, path: &[u8], wait: Wait) -> Result<File, Stop> {
        self.at(path, READ, wait)
    }

    /// Returns the log line about a path that leads out of the root; `None` if the path does not exist, or too much was
    /// logged. Blocks on the disk.
    pub fn explain_leaving(&self, path: &[u8]) -> Option<Arc<str>> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let is_leaving =
            |step: &[u8]| matches!(self.at(step, flags, Wait::Allowed), Err(Stop::Missing(Missing::Outside(_))));
        self.root.links.explain(&self.root.path, path, is_leaving)
    }

    /// Returns true if [`Entered::explain_leaving`] may have a line about this path.
    pub fn is_unexplained(&self, path: &[u8]) -> bool {
        self.root.links.is_unexplained(path)
    }

    fn at(&self, path: &[u8], flags: OFlags, wait: Wait) -> Result<File, Stop> {
        #[cfg(test)]
        if let Some(disk) = &self.root.disk {
            disk.ask(path, wait)?;
        }
        let wait = self.root.wait(wait);
        let path = if path.is_empty() { b"." } else { path };
        let opened = match (self.root.resolve, wait) {
            (Resolve::Cached, Wait::Never) => self.at_cached(path, flags),
            (_, Wait::Never) => return Err(Stop::WouldWait),
            (Resolve::Cached | Resolve::Beneath, Wait::Allowed) => self.at_beneath(path, flags),
            (Resolve::Walk, Wait::Allowed) => self.at_walk(path, flags | OFlags::NOFOLLOW),
        };
        let opened = match opened {
            Err(Errno::XDEV) => self.at_linked(path, flags, wait),
            opened => opened,
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

    /// Opens the target of a symlink that leaves the root, if the target is in the root after all or in a folder into
    /// which symlinks may lead; otherwise fails with XDEV. Swapping the symlink meanwhile gains nothing: in the root,
    /// the kernel confines the second open too, and elsewhere the check uses the location of the file that was opened.
    fn at_linked(&self, path: &[u8], flags: OFlags, wait: Wait) -> Result<OwnedFd, Errno> {
        let (found, place) = self.at_allowed_place(path, wait)?;
        if let Ok(rest) = place.strip_prefix(place_of(&self.folder)?) {
            // Only a symlink may come back into the root, not the path of a request: `/up/site/a` would reveal the name
            // of the root.
            for (slash, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
                self.at_allowed_place(&path[..slash], wait)?;
            }
            let rest = if rest.as_os_str().is_empty() { b"." } else { rest.as_os_str().as_bytes() };
            return match wait {
                Wait::Never => self.at_cached(rest, flags),
                Wait::Allowed => self.at_beneath(rest, flags),
            };
        }
        if flags.contains(OFlags::PATH) { Ok(found) } else { open(by_number(&found), flags, Mode::empty()) }
    }

    /// Finds the file or folder to which a path leads, without access to its content, and its location. Fails with XDEV
    /// if the location is neither in the root nor in a folder into which symlinks may lead.
    fn at_allowed_place(&self, path: &[u8], wait: Wait) -> Result<(OwnedFd, PathBuf), Errno> {
        let cached = if wait == Wait::Never { ResolveFlags::CACHED } else { ResolveFlags::empty() };
        let resolve = ResolveFlags::NO_MAGICLINKS | cached;
        let found = match openat2(&self.folder, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // Clients must not learn which files exist outside the root.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) if self.root.links.are_refused() => {
                return Err(Errno::XDEV);
            }
            found => found?,
        };
        let place = place_of(&found)?;
        let is_allowed = place.starts_with(place_of(&self.folder)?) || self.root.links.may_lead_to(&place);
        if is_allowed { Ok((found, place)) } else { Err(Errno::XDEV) }
    }

    /// Opens the path one segment at a time. Each step goes down: `admits` has refused `..`, and `O_NOFOLLOW` refuses
    /// symlinks.
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
}

/// Returns the path by which this process can open an already open file again.
fn by_number(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Returns the absolute path of an open file, without symlinks. Fails with XDEV if the kernel does not report it.
fn place_of(file: &OwnedFd) -> Result<PathBuf, Errno> {
    let place = rustix::fs::readlink(by_number(file), Vec::new()).map_err(|_| Errno::XDEV)?;
    Ok(PathBuf::from(OsStr::from_bytes(place.as_bytes())))
}

/// Returns the identity of the folder found at a root. Fails if it could not be determined.
pub(super) fn identity_of(entered: &Result<Entered<'_>, Stop>) -> Result<Identity, Stop> {
    match entered {
        Ok(entered) => Ok(mounts::identity(&entered.folder)),
        Err(Stop::Missing(Missing::Exhausted) | Stop::WouldWait) => Err(Stop::WouldWait),
        Err(Stop::Missing(_)) => Ok(None),
    }
}

/// Maps an error for a name that is not UTF-8. File systems that store characters (exFAT, ext4 if it ignores case, ZFS)
/// have no such names, and report them as invalid instead of missing.
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
