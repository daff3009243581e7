//! Bytes that survive a restart: each item is a file in the state folder, with a name of 32 bytes.
//!
//! A file in the folder may be half written, damaged by the disk, or put there by somebody else. A file of another
//! owner, or with a wrong checksum, is ignored. Nothing depends on a shelf: a full or read-only folder only causes a
//! line in the log. Reads and writes may block on a disk, so event loops only check whether a name exists.

use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use hashbrown::HashMap;
use http::Digest;
use rustix::fs::OFlags;

use crate::codec::digest_of;

/// The maximum number of files of a shelf.
const FILES_MAX: usize = 4096;
/// The maximum length of a file, in bytes: the longest form or dictionary with its header.
const FILE_BYTES_MAX: u64 = 9 << 20;
/// The first bytes of a file, followed by the checksum of the rest.
const MAGIC: &[u8] = b"weir kept 1\n";
/// The suffix of files that are being written.
const NEW: &str = ".new";

/// A folder of files with a limit on their total bytes.
pub struct Shelf {
    folder: PathBuf,
    bytes_max: u64,
    index: Mutex<Index>,
    has_failed: AtomicBool,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

#[derive(Default)]
struct Index {
    files: HashMap<Digest, Kept>,
    bytes: u64,
    /// A counter of uses, which serves as the clock for finding the least recently used file.
    turn: u64,
}

struct Kept {
    bytes: u64,
    used_at: u64,
}

impl Shelf {
    /// Creates the folder of this name in the state folder, which a sandboxed server cannot do. A failure is reported
    /// when the folder is opened.
    pub fn prepare(state: &Path, name: &str) {
        let _ = create(&state.join(name));
    }

    /// Opens the folder of this name in the state folder, creating it if necessary. `tell` receives the line about a
    /// failure.
    pub fn open(
        state: &Path,
        name: &str,
        bytes_max: u64,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Shelf, String> {
        let folder = state.join(name);
        let opened = create(&folder).and_then(|()| index_of(fs::read_dir(&folder)?));
        let index = opened.map_err(|error| unkept(&folder, &error))?;
        let (index, has_failed) = (Mutex::new(index), AtomicBool::new(false));
        let shelf = Shelf { folder, bytes_max, index, has_failed, tell: Box::new(tell) };
        shelf.make_room(0);
        Ok(shelf)
    }

    /// Returns true if there is a file of this name, which may still turn out to be damaged. Never blocks on a disk.
    pub fn has(&self, name: &Digest) -> bool {
        self.bytes_of(name).is_some()
    }

    /// Returns the length of the file of this name, if there is one. Never blocks on a disk.
    pub fn bytes_of(&self, name: &Digest) -> Option<u64> {
        self.index().files.get(name).map(|kept| kept.bytes)
    }

    /// Returns the bytes under a name, if they exist and are intact.
    pub fn get(&self, name: &Digest) -> Option<Vec<u8>> {
        {
            let mut index = self.index();
            index.turn += 1;
            let turn = index.turn;
            index.files.get_mut(name)?.used_at = turn;
        }
        let bytes = read(&self.path(name)).ok();
        if bytes.is_none() {
            self.remove(name);
        }
        bytes
    }

    /// Stores bytes under a name. Other files are removed to make room, the least recently used first.
    pub fn put(&self, name: &Digest, parts: &[&[u8]]) {
        let payload = parts.concat();
        let bytes = (MAGIC.len() + size_of::<Digest>() + payload.len()) as u64;
        if bytes > FILE_BYTES_MAX || bytes > self.bytes_max || self.has(name) {
            return;
        }
        self.make_room(bytes);
        match write(&self.path(name), &payload) {
            Ok(()) => {
                let mut index = self.index();
                index.turn += 1;
                let used_at = index.turn;
                if index.files.insert(*name, Kept { bytes, used_at }).is_none() {
                    index.bytes += bytes;
                }
            }
            Err(error) if !self.has_failed.swap(true, Relaxed) => (self.tell)(&unkept(&self.folder, &error)),
            Err(_) => {}
        }
    }

    /// Removes files until there is room for these bytes and one more file.
    fn make_room(&self, bytes: u64) {
        loop {
            let oldest = {
                let index = self.index();
                if index.bytes.saturating_add(bytes) <= self.bytes_max && index.files.len() < FILES_MAX {
                    return;
                }
                index.files.iter().min_by_key(|(_, kept)| kept.used_at).map(|(name, _)| *name)
            };
            let Some(oldest) = oldest else { return };
            self.remove(&oldest);
        }
    }

    /// Removes a file. A file that cannot be removed is not used again.
    pub fn remove(&self, name: &Digest) {
        let _ = fs::remove_file(self.path(name));
        let mut index = self.index();
        if let Some(kept) = index.files.remove(name) {
            index.bytes -= kept.bytes;
        }
    }

    fn path(&self, name: &Digest) -> PathBuf {
        self.folder.join(text_of(name))
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().expect("no thread panics while it holds the index")
    }
}

/// Creates the folder, and refuses a folder that other users can write to.
fn create(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    let own = rustix::process::geteuid().as_raw();
    let (owner, mode) = (found.uid(), found.mode() & 0o777);
    if !found.is_dir() || owner != own || mode & 0o022 != 0 {
        let said = format!("it belongs to user {owner} with mode {mode:o}, but weir is user {own}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, said));
    }
    Ok(())
}

/// Returns the files of a folder, the oldest first, and removes files left by interrupted writes.
fn index_of(entries: impl Iterator<Item = io::Result<DirEntry>>) -> io::Result<Index> {
    let mut found = Vec::new();
    for entry in entries.take(2 * FILES_MAX) {
        let entry = entry?;
        // During an upgrade the previous server still writes here, so files that have just been removed or renamed are
        // skipped.
        let (name, Ok(metadata)) = (entry.file_name(), entry.metadata()) else { continue };
        match name.to_str().and_then(name_of).filter(|_| metadata.is_file()) {
            Some(name) => found.push((metadata.mtime(), metadata.mtime_nsec(), name, metadata.len())),
            None if name.to_str().is_some_and(is_remains) => {
                let _ = fs::remove_file(entry.path());
            }
            None => {}
        }
    }
    found.sort_unstable();
    let mut index = Index::default();
    for (_, _, name, bytes) in found {
        index.turn += 1;
        index.files.insert(name, Kept { bytes, used_at: index.turn });
        index.bytes += bytes;
    }
    Ok(index)
}

/// Returns true for a file left by a process that no longer runs: `NAME.PID.new`.
fn is_remains(name: &str) -> bool {
    let Some(name) = name.strip_suffix(NEW) else { return false };
    let pid = name.rsplit_once('.').and_then(|(_, pid)| pid.parse::<u32>().ok());
    // In a container the previous process had the same number.
    let is_of_other = |pid: &u32| *pid != std::process::id() && Path::new("/proc").join(pid.to_string()).exists();
    !pid.is_some_and(|pid| is_of_other(&pid))
}

/// Reads a file of this user. Fails if the file belongs to another user, is too long, or is damaged.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    let is_ours = metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || metadata.len() > FILE_BYTES_MAX {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    let payload = bytes.strip_prefix(MAGIC).and_then(|rest| rest.split_at_checked(size_of::<Digest>()));
    match payload {
        Some((sum, payload)) if digest_of(payload) == sum => Ok(payload.to_vec()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Writes a file atomically: it exists whole or not at all.
fn write(path: &Path, payload: &[u8]) -> io::Result<()> {
    let new = path.with_extension(format!("{}{NEW}", std::process::id()));
    let written = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        [MAGIC, &digest_of(payload), payload].iter().try_for_each(|part| File::write_all(&mut file, part))?;
        fs::rename(&new, path)
    };
    written().inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Returns a line that explains why nothing is stored.
fn unkept(folder: &Path, error: &io::Error) -> String {
    let folder = folder.display();
    format!(
        "coded forms and dictionaries cannot be stored in `{folder}`: {error}; expected a folder that only weir's \
            user can write (STATE_DIRECTORY): until then they are made again after each start"
    )
}

fn text_of(name: &Digest) -> String {
    name.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn name_of(text: &str) -> Option<Digest> {
    let digits = text.as_bytes();
    let mut name = Digest::default();
    if digits.len() != 2 * name.len() || !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    for (byte, pair) in name.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::Arc;

    use super::*;
    use crate::files::temporary::Folder;

    fn shelf(folder: &Folder, bytes_max: u64) -> (Shelf, Arc<Mutex<Vec<String>>>) {
        let said = Arc::<Mutex<Vec<String>>>::default();
        let lines = Arc::clone(&said);
        let shelf = Shelf::open(&folder.path("state"), "forms", bytes_max, move |line| {
            lines.lock().unwrap().push(line.into());
        });
        (shelf.unwrap(), said)
    }

    fn name(number: u8) -> Digest {
        [number; 32]
    }

    #[test]
    fn what_is_kept_is_there_after_a_restart() {
        let folder = Folder::new();
        let (first, _) = shelf(&folder, 10_000);
        first.put(&name(1), &[b"a ", b"form"]);
        first.put(&name(2), &[b""]);
        std::fs::write(folder.path("state/forms/half.new"), "x").unwrap();
        std::fs::write(folder.path("state/forms/README"), "x").unwrap();
        // Of a process that is gone, and of one that still writes: after an upgrade, the server before.
        std::fs::write(folder.path("state/forms/gone.4194305.new"), "x").unwrap();
        std::fs::write(folder.path("state/forms/half.1.new"), "x").unwrap();
        let (second, said) = shelf(&folder, 10_000);
        assert_eq!([1, 2, 3].map(|number| second.get(&name(number))), [Some(b"a form".to_vec()), Some(vec![]), None]);
        assert!(second.has(&name(1)) && !second.has(&name(3)) && said.lock().unwrap().is_empty());
        let is_there = |name: &str| folder.path("state/forms").join(name).exists();
        assert!(!is_there("half.new") && is_there("README"));
        assert!(!is_there("gone.4194305.new") && is_there("half.1.new"));
    }

    /// The server before an upgrade renames and removes files meanwhile.
    #[test]
    fn a_file_that_goes_while_the_folder_is_read_is_passed_over() {
        let folder = Folder::new();
        let (kept, _) = shelf(&folder, 10_000);
        (1..=2).for_each(|number| kept.put(&name(number), &[b"a form"]));
        let entries: Vec<_> = fs::read_dir(folder.path("state/forms")).unwrap().collect();
        kept.remove(&name(1));
        let index = index_of(entries.into_iter()).unwrap();
        assert_eq!(index.files.keys().collect::<Vec<_>>(), [&name(2)]);
    }

    #[test]
    fn what_is_not_as_it_was_written_counts_as_none() {
        let folder = Folder::new();
        let (kept, _) = shelf(&folder, 100_000);
        (1..=6).for_each(|number| kept.put(&name(number), &[b"the bytes of a form"]));
        let path = |number| folder.path("state/forms").join(text_of(&name(number)));
        let whole = std::fs::read(path(1)).unwrap();
        std::fs::write(path(1), &whole[..whole.len() - 1]).unwrap();
        let mut turned = whole.clone();
        turned[60] ^= 1;
        std::fs::write(path(2), turned).unwrap();
        std::fs::write(path(3), "").unwrap();
        std::fs::remove_file(path(4)).unwrap();
        symlink(path(6), path(4)).unwrap();
        std::fs::remove_file(path(5)).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path(5), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for number in 1..=5 {
            assert!(kept.get(&name(number)).is_none() && !kept.has(&name(number)), "{number}");
        }
        assert!(kept.get(&name(6)).is_some());
    }

    #[test]
    fn a_file_of_another_owner_is_not_used() {
        let folder = Folder::new();
        let (kept, _) = shelf(&folder, 100_000);
        kept.put(&name(1), &[b"a form"]);
        let path = folder.path("state/forms").join(text_of(&name(1)));
        if std::os::unix::fs::chown(&path, Some(4242), None).is_err() {
            return eprintln!("SKIPPED: only root gives files away");
        }
        assert!(kept.get(&name(1)).is_none());
        std::os::unix::fs::chown(folder.path("state/forms"), Some(4242), None).unwrap();
        let said = Shelf::open(&folder.path("state"), "forms", 1_000, |_| ()).err().unwrap();
        assert!(said.contains("it belongs to user 4242") && said.contains("STATE_DIRECTORY"), "{said}");
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        let folder = Folder::new();
        std::fs::create_dir_all(folder.path("state/forms")).unwrap();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path("state/forms"), open).unwrap();
        assert!(Shelf::open(&folder.path("state"), "forms", 1_000, |_| ()).err().unwrap().contains("mode 777"));
    }

    #[test]
    fn a_shelf_is_bounded_and_the_least_recently_used_goes() {
        let folder = Folder::new();
        let (kept, _) = shelf(&folder, 1_000);
        (1..=3).for_each(|number| kept.put(&name(number), &[&[number; 250]]));
        assert!(kept.get(&name(1)).is_some());
        kept.put(&name(4), &[&[4; 250]]);
        assert_eq!([1, 2, 3, 4].map(|number| kept.has(&name(number))), [true, false, true, true]);
        kept.put(&name(5), &[&[5; 2_000]]);
        assert!(!kept.has(&name(5)) && kept.has(&name(4)), "it would take all of it");
        assert_eq!(std::fs::read_dir(folder.path("state/forms")).unwrap().count(), 3);
        let (smaller, _) = shelf(&folder, 400);
        assert_eq!([1, 3, 4].map(|number| smaller.has(&name(number))), [false, false, true]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told_once() {
        let folder = Folder::new();
        let (kept, said) = shelf(&folder, 10_000);
        std::fs::remove_dir_all(folder.path("state")).unwrap();
        (1..=3).for_each(|number| kept.put(&name(number), &[b"a form"]));
        let said = said.lock().unwrap();
        assert!(said.len() == 1 && said[0].contains("state/forms`: No such file"), "{said:?}");
        assert!(!kept.has(&name(1)));
        let file = folder.put("file", "");
        assert!(Shelf::open(&file, "forms", 1_000, |_| ()).is_err());
    }
}
