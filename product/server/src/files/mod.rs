//! Maps a request path to a file ready to be sent.
//!
//! The answer to a request is nearly always a file that was sent recently. [`Cache`] finds such files by the undecoded
//! path, so that this common case costs one hash lookup, without decoding, system call or allocation. Other files are
//! opened through [`Root`], which the kernel confines to the served folder, and become an [`Entry`].
//!
//! A worker must not wait for a disk. It looks up by itself the files that can be found in memory. For the others it
//! gets a [`Lookup`], which a thread of the pool runs while the request waits with the other requests for the same path
//! ([`Lookups`]).

mod absent;
mod cache;
mod cache_limits;
mod entries;
mod entry;
mod etag;
#[cfg(test)]
pub(crate) mod fake_disk;
mod hashed;
mod key;
mod links;
mod listing_cache;
mod listing_content;
mod listing_template;
mod loader;
mod lookup;
mod lookups;
mod media;
mod mounts;
mod natural;
pub(crate) mod picture;
mod replaced_roots;
mod root;
mod roots;
mod search_step;
mod sidecar_kind;
mod sidecars;
#[cfg(test)]
pub(crate) mod temporary;
#[cfg(test)]
mod tests;
mod view;
mod watch;

use std::io;
use std::sync::Arc;

use rustix::io::Errno;

pub use cache::{Cache, CacheAnswer};
pub use cache_limits::{CacheLimits, REVALIDATE_AFTER};
pub use entry::{Content, Entry, OpenFile, State, Way};
pub use hashed::hash_in;
pub use key::{Key, SiteNumber};
#[cfg(test)]
use listing_content::NAMES_MAX as LISTING_NAMES_MAX;
pub use listing_template::{ListingPage, PAGE_BYTES_MAX as LISTING_PAGE_BYTES_MAX, PageFault};
pub use lookup::Lookup;
pub use lookups::{LookupResult, Lookups, SLOW_AFTER};
pub use media::mime_of;
pub use root::{Options, Root};
pub use roots::Roots;
pub use search_step::SearchStep;
pub use view::ListingView;

/// Removes slashes at both ends of a decoded path. Paths are bytes, as names are to the kernel, and need not be UTF-8.
fn trim_slashes(mut path: &[u8]) -> &[u8] {
    while let [b'/', rest @ ..] | [rest @ .., b'/'] = path {
        path = rest;
    }
    path
}

/// The file or folder at a path.
#[derive(Debug, Clone)]
pub enum Found {
    File(Arc<Entry>),
    /// A folder that was requested without a trailing slash: the percent-encoded path with the slash. The caller adds
    /// the query.
    Redirect(String),
    /// A folder without an index file: the page for its [`ListingView`].
    Listing(Arc<Vec<u8>>),
}

/// The reason why nothing can be sent.
#[derive(Debug, Clone)]
pub enum Missing {
    NotFound,
    /// A symlink leads out of the root. Contains the log line, unless the symlink was logged before.
    Outside(Option<Arc<str>>),
    Forbidden,
    /// The path is a folder without an index file, and listings are disabled.
    NoIndex,
    /// The path is malformed, for example because of a wrong percent-encoding.
    BadPath(http::Reject),
    /// The process or the machine has run out of descriptors or memory, or too many lookups wait for the disk. This is
    /// temporary, and answered with 503.
    Exhausted,
    Failed(Arc<io::Error>),
}

/// The permission to wait for a disk during an access to a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Never,
    Allowed,
}

/// The reason why a lookup stopped.
#[derive(Debug)]
enum Stop {
    Missing(Missing),
    /// The file cannot be found in memory, so a thread that may wait must look it up.
    WouldWait,
}

impl From<io::Error> for Missing {
    fn from(error: io::Error) -> Missing {
        match Errno::from_io_error(&error) {
            // LOOP reports a symlink where none is followed, NXIO a socket.
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
