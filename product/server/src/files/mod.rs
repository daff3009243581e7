//! From a request path to a file ready to be sent.
//!
//! A request names a path; the answer is nearly always a file that was sent a moment ago. [`Cache`] knows those by the
//! path as it came, so that this common case costs one hash lookup: no decoding, no system call, no allocation. All
//! else goes through [`Root`], which the kernel keeps inside the served folder, and becomes an [`Entry`].
//!
//! A worker must not wait for a disk. What can be found from what is in memory, it looks up itself; for the rest it gets a [`Lookup`],
//! which a thread of the pool runs while the request waits with the others that want the same ([`Lookups`]).

mod absent;
mod cache;
mod entries;
mod entry;
#[cfg(test)]
pub(crate) mod fake_disk;
mod followed;
mod key;
mod links;
mod listing;
mod listing_page;
mod listings;
mod loader;
mod lookup;
mod lookups;
mod media;
mod mounts;
mod root;
mod roots;
#[cfg(test)]
pub(crate) mod temporary;
#[cfg(test)]
mod tests;
mod watch;

use std::io;
use std::sync::Arc;

use rustix::io::Errno;

pub use cache::{BODY_BYTES_MAX, Cache, CacheAnswer, CacheLimits, ENTRIES_MAX, FILES_OPEN_MAX, REVALIDATE_AFTER};
pub use entry::{BODY_BYTES_HELD_MAX, Content, Entry, OpenFile};
pub use key::{Key, SiteNumber};
#[cfg(test)]
use listing::NAMES_MAX as LISTING_NAMES_MAX;
pub use listing::PAGES_MAX as LISTING_PAGES_MAX;
pub use listing_page::{ListingPage, PAGE_BYTES_MAX as LISTING_PAGE_BYTES_MAX, PageFault};
pub use listings::LISTING_BYTES_MAX;
pub use lookup::Lookup;
pub use lookups::{Answer, Lookups, SLOW_AFTER};
pub use media::mime_of;
pub use root::{Options, Root};
pub use roots::Roots;

/// Media type of [`Found::Listing`].
pub const LISTING_MIME: &str = "text/html; charset=utf-8";

/// A decoded path is bytes, as names are to the kernel: they need not be UTF-8. Without the slashes at its ends.
fn trim_slashes(mut path: &[u8]) -> &[u8] {
    while let [b'/', rest @ ..] | [rest @ .., b'/'] = path {
        path = rest;
    }
    path
}

/// What is at a path.
#[derive(Debug, Clone)]
pub enum Found {
    File(Arc<Entry>),
    /// A folder asked for without its slash: the path, percent-encoded, with it; the query is the caller's to add.
    Redirect(String),
    /// A folder without an index file, as an HTML page.
    Listing(Arc<Vec<u8>>),
}

/// Why there is nothing to send.
#[derive(Debug, Clone)]
pub enum Missing {
    NotFound,
    /// A symlink leads out of the root; the line for the log about it, where it was not told of before.
    Outside(Option<Arc<str>>),
    Forbidden,
    /// A folder without an index file, which is not listed.
    NoIndex,
    /// The path is not one, for example for a wrong percent-encoding.
    BadPath(http::Reject),
    /// The process or the machine has no descriptor or memory left, or too many lookups wait for the disk, which passes: 503.
    Exhausted,
    Failed(Arc<io::Error>),
}

/// Whether a question to a file system may wait for its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Never,
    Allowed,
}

/// Why nothing was found.
#[derive(Debug)]
enum Stop {
    Missing(Missing),
    /// It has to be found by somebody who may wait.
    WouldWait,
}

impl From<io::Error> for Missing {
    fn from(error: io::Error) -> Missing {
        match Errno::from_io_error(&error) {
            // LOOP is a symlink met where none is followed, NXIO a socket.
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG | Errno::NXIO) => Missing::NotFound,
            Some(Errno::XDEV) => Missing::Outside(None),
            Some(Errno::ACCESS | Errno::PERM) => Missing::Forbidden,
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => Missing::Exhausted,
            _ => Missing::Failed(Arc::new(error)),
        }
    }
}

impl From<Errno> for Missing {
    fn from(errno: Errno) -> Missing {
        Missing::from(io::Error::from(errno))
    }
}

impl<E: Into<Missing>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Missing(error.into())
    }
}
