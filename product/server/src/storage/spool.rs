//! Files for responses that upstreams have produced and clients have not yet accepted. Without them, a slow client
//! occupies a worker of the application for as long as it takes.
//!
//! A file has no name, so that nothing is left of it however the process ends. It holds one response, in the order in
//! which its bytes arrived, and no byte of it is written twice: the kernel may still be sending what `sendfile` was
//! given. The pool's threads write, since a disk may block them.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;
use rustix::io::Errno;
use units::memory::Counted;

use super::Pool;
use crate::files::{Content, Entry};

/// The folder for spool files, and their maximum total size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolConfig {
    pub folder: PathBuf,
    pub bytes_max: u64,
}

/// A bound on disk space, possibly within another, and how much of it is taken. One client takes at most half of it, so
/// that a client that reads nothing leaves room for the responses of others.
#[derive(Debug)]
pub struct Room {
    bytes_max: AtomicU64,
    taken: Mutex<Taken>,
    within: Option<Arc<Room>>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: u64,
    /// The bytes taken by each client; no entry is 0.
    of_client: HashMap<u32, u64>,
}

/// The part of a room that a client's file takes, returned on drop.
#[derive(Debug)]
pub struct Reserved {
    room: Arc<Room>,
    client: u32,
    bytes: AtomicU64,
}

/// Bytes of a response to append to the earlier ones.
#[derive(Debug)]
pub struct Write {
    pub to: Target,
    pub offset: u64,
    pub bytes: Arc<Counted>,
}

#[derive(Debug)]
pub enum Target {
    /// A new file, whose room is already taken.
    New(Reserved),
    /// The file with the earlier bytes of this response.
    Open(Arc<Entry>),
}

/// A completed write.
#[derive(Debug)]
pub struct Written {
    pub offset: u64,
    pub bytes: Arc<Counted>,
    /// The file, which has all of the bytes.
    pub result: io::Result<Arc<Entry>>,
}

impl SpoolConfig {
    /// Makes a file in the folder, as for a response, to check that this works.
    pub fn try_out(&self) -> io::Result<()> {
        make(&self.folder).map(drop)
    }
}

impl Room {
    pub fn new(bytes_max: u64) -> Arc<Room> {
        Room::within(bytes_max, None)
    }

    fn within(bytes_max: u64, within: Option<Arc<Room>>) -> Arc<Room> {
        Arc::new(Room { bytes_max: AtomicU64::new(bytes_max), taken: Mutex::default(), within })
    }

    /// Sets the bound. Space already taken stays taken, even if it exceeds the bound.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Relaxed);
    }

    /// Creates a room that is a part of this one.
    pub fn part(self: &Arc<Room>, bytes_max: u64) -> Arc<Room> {
        Room::within(bytes_max, Some(Arc::clone(self)))
    }

    /// No code under this lock can panic and leave an inconsistent state.
    fn state(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, client: u32, bytes: u64) -> bool {
        if !self.state().take(client, bytes, self.bytes_max.load(Relaxed)) {
            return false;
        }
        let may = self.within.as_ref().is_none_or(|whole| whole.take(client, bytes));
        if !may {
            self.state().give(client, bytes);
        }
        may
    }

    fn give(&self, client: u32, bytes: u64) {
        self.state().give(client, bytes);
        self.within.iter().for_each(|whole| whole.give(client, bytes));
    }

    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.state().bytes
    }
}

impl Taken {
    fn take(&mut self, client: u32, bytes: u64, bytes_max: u64) -> bool {
        let own = self.of_client.get(&client).copied().unwrap_or(0);
        let within = |taken: u64, most: u64| taken.checked_add(bytes).filter(|taken| *taken <= most);
        let (Some(all), Some(own)) = (within(self.bytes, bytes_max), within(own, bytes_max.div_ceil(2))) else {
            return false;
        };
        self.bytes = all;
        if own > 0 {
            self.of_client.insert(client, own);
        }
        true
    }

    fn give(&mut self, client: u32, bytes: u64) {
        self.bytes -= bytes;
        if let Some(own) = self.of_client.get_mut(&client) {
            *own -= bytes;
            if *own == 0 {
                self.of_client.remove(&client);
            }
        }
    }
}

impl Reserved {
    /// Takes `bytes` of a room for a client; `None` if there is not enough for it.
    pub fn of(room: &Arc<Room>, client: u32, bytes: u64) -> Option<Reserved> {
        let taken = room.take(client, bytes);
        taken.then(|| Reserved { room: Arc::clone(room), client, bytes: AtomicU64::new(bytes) })
    }

    /// Takes `bytes` more; returns false, taking nothing, if there is not enough.
    fn grow(&self, bytes: u64) -> bool {
        let has_room = self.room.take(self.client, bytes);
        self.bytes.fetch_add(if has_room { bytes } else { 0 }, Relaxed);
        has_room
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.room.give(self.client, *self.bytes.get_mut());
    }
}

impl Target {
    /// Takes room for `bytes` more of a client's response, in its file or, without one, in a new file. Returns `None`
    /// if there is no room.
    pub fn with_room(file: Option<&Arc<Entry>>, room: &Arc<Room>, client: u32, bytes: u64) -> Option<Target> {
        let Some(file) = file else { return Reserved::of(room, client, bytes).map(Target::New) };
        let Content::Open(open) = &file.content else { unreachable!("what is spooled is not held in memory") };
        let grown = open.taken().is_some_and(|taken| taken.grow(bytes));
        grown.then(|| Target::Open(Arc::clone(file)))
    }
}

impl Write {
    /// Writes the bytes. Waits for the disk.
    pub fn run(self, folder: &Path, pool: Option<&Arc<Pool>>) -> Written {
        let Write { to, offset, bytes } = self;
        let file = match to {
            Target::Open(file) => Ok(file),
            Target::New(taken) => make(folder).map(|file| Arc::new(Entry::spooled(file, taken, pool))),
        };
        let result = file.and_then(|file| {
            let Content::Open(open) = &file.content else { unreachable!("what is spooled is not held in memory") };
            open.write_all_at(&bytes, offset).map(|()| file)
        });
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
        Written { offset, bytes, result: result.map_err(named) }
    }
}

/// The device of a folder, for the pool; 0 if it is missing, in which case each write fails.
pub fn device(folder: &Path) -> u64 {
    fs::metadata(folder).map_or(0, |about| about.dev())
}

/// Makes a file without a name. On file systems that do not support that, the name is removed at once.
fn make(folder: &Path) -> io::Result<File> {
    let options = |flags: OFlags| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).custom_flags(flags.bits() as i32);
        options
    };
    match options(OFlags::TMPFILE).open(folder) {
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL)) => {}
        made => return made,
    }
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let path = folder.join(format!(".weir-spool-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed)));
    // Must not open another program's file, nor follow a symlink.
    let file = options(OFlags::NOFOLLOW).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use units::memory::Account;

    use super::*;
    use crate::files::temporary::Folder;

    #[test]
    fn a_part_of_a_room_is_bounded_by_both_and_a_client_by_half_of_each() {
        let whole = Room::new(100);
        let (first, second) = (whole.part(70), whole.part(70));
        let of = |room, client, bytes| Reserved::of(room, client, bytes);
        let taken = of(&first, 1, 30).expect("there is room");
        assert!(!taken.grow(6) && taken.grow(5) && !taken.grow(1), "half of its part");
        let other = of(&second, 1, 15).expect("there is room");
        assert!(of(&second, 1, 1).is_none(), "half of the whole");
        let rest = of(&first, 2, 35).expect("the other half");
        assert!(of(&first, 3, 1).is_none(), "its own bound");
        let last = of(&second, 2, 15).expect("there is room");
        assert!(of(&second, 3, 1).is_none(), "that of the whole");
        assert_eq!([whole.taken(), first.taken(), second.taken()], [100, 70, 30]);
        drop(taken);
        assert!(!rest.grow(1) && other.grow(20));
        drop((rest, other, last));
        assert_eq!([whole.taken(), first.taken(), second.taken()], [0; 3]);
        assert!(whole.state().of_client.is_empty() && of(&first, 1, u64::MAX).is_none());
    }

    #[test]
    fn a_file_has_no_name_and_gives_its_room_back() {
        let (folder, room) = (Folder::new(), Room::new(20));
        let write = |to, offset, bytes: &[u8]| {
            let write = Write { to, offset, bytes: Arc::new(Counted::of(&Account::default(), bytes.to_vec())) };
            write.run(&folder.path(""), None).result
        };
        let file = write(Target::with_room(None, &room, 1, 5).unwrap(), 0, b"hello").unwrap();
        write(Target::with_room(Some(&file), &room, 1, 4).unwrap(), 5, b" you").unwrap();
        assert!(
            Target::with_room(Some(&file), &room, 1, 2).is_none() && Target::with_room(None, &room, 1, 2).is_none()
        );
        let Content::Open(open) = &file.content else { panic!("it is open") };
        let mut came = [0; 20];
        assert_eq!(open.read_at(&mut came, 0).unwrap(), 9);
        assert_eq!(&came[..9], b"hello you");
        assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 0);
        drop(file);
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let to = Target::with_room(None, &Room::new(10), 1, 5).unwrap();
        let write = Write { to, offset: 0, bytes: Arc::new(Counted::of(&Account::default(), vec![7; 5])) };
        let error = write.run(Path::new("/none-at-all"), None).result.unwrap_err();
        assert!(error.to_string().starts_with("/none-at-all: No such file"), "{error}");
    }
}
