//! Requests against a folder, mostly judged by a one-word result: see [`Site::get`].

mod absent;
mod bounds;
mod changes;
mod entries;
mod folders;
mod inside;
mod lookups;
mod roots;
mod sidecars;
mod sites;

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use units::Nanos;

use super::cache_limits::{BODY_BYTES_MAX, ENTRIES_MAX, FILES_OPEN_MAX, LISTING_BYTES_MAX};
use super::entry::BODY_BYTES_HELD_MAX;
use super::temporary::Folder;
use super::*;

fn nothing_hidden() -> Options {
    Options { hidden: true, ..Options::default() }
}

fn listed() -> Options {
    Options { listing: true, ..Options::default() }
}

const LIMITS: CacheLimits = CacheLimits { entries: 8, files_open: 2, body_bytes: 1000, listing_bytes: 2000 };

/// Before Linux 6.13, changes of a file this close to each other may have the same times.
const TICK: Duration = Duration::from_millis(10);

/// A folder with a cache in front of it.
struct Site {
    folder: Folder,
    cache: Cache,
    now: Nanos,
}

impl Site {
    fn new(options: Options) -> Site {
        Site::with(options, |root| root)
    }

    fn with(options: Options, change: impl FnOnce(Root) -> Root) -> Site {
        let folder = Folder::new();
        let root = change(Root::open(&folder.path("."), options).unwrap());
        Site { folder, cache: Cache::new(root.into(), LIMITS), now: Nanos::from_secs(100) }
    }

    /// A site for each way to stay inside the folder: found at once if in memory, always found by another thread, and
    /// without symlinks.
    fn each_way(options: Options) -> [Site; 3] {
        let copy = || options.clone();
        [Site::new(copy()), Site::with(copy(), Root::uncached), Site::with(copy(), Root::walking)]
    }

    /// Raises the limits to a worker's.
    fn large(mut self) -> Site {
        self.cache.set_limits(CacheLimits::per_worker(1));
        self
    }

    fn lookup(&mut self, path: &str) -> Result<Found, Missing> {
        self.cache.lookup_waiting(path.as_bytes(), self.now)
    }

    fn entry(&mut self, path: &str) -> Arc<Entry> {
        match self.lookup(path) {
            Ok(Found::File(entry)) => entry,
            other => panic!("{path}: {other:?}"),
        }
    }

    /// Returns the content of a file, or a word for what else is at the path.
    fn get(&mut self, path: &str) -> String {
        match self.lookup(path) {
            Ok(Found::File(entry)) => content(&entry),
            Ok(Found::Redirect(to)) => format!("to {to}"),
            Ok(Found::Listing(_)) => "listing".into(),
            Err(Missing::NotFound) => "not found".into(),
            Err(Missing::Outside(_)) => "outside".into(),
            Err(Missing::Forbidden) => "forbidden".into(),
            Err(Missing::NoIndex) => "no index".into(),
            Err(Missing::BadPath(_)) => "bad path".into(),
            Err(missing) => format!("{missing:?}"),
        }
    }

    /// Handles changes first, as a worker does before it looks at requests.
    fn get_after_change(&mut self, path: &str) -> String {
        self.cache.on_change();
        self.get(path)
    }
}

fn content(entry: &Entry) -> String {
    let bytes = match &entry.content {
        Content::Held(body) => body.to_vec(),
        Content::Open(file) => {
            let (mut file, mut bytes): (&File, _) = (file, Vec::new());
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        }
    };
    assert_eq!(bytes.len() as u64, entry.len);
    String::from_utf8(bytes).unwrap()
}
