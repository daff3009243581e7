//! The bounds of the caches of files.

use units::Nanos;

/// The maximum number of entries in all workers' caches together. Each takes about 1 KiB in addition to its body.
pub const ENTRIES_MAX: usize = 4096;
/// The maximum number of files kept open in all workers' caches together: a quarter of the usual limit on descriptors
/// (1024).
pub const FILES_OPEN_MAX: usize = 256;
/// The maximum bytes of bodies in memory in all workers' caches together.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// The time for which an entry is used without checking the file system. A check takes about 3 µs, which is negligible
/// once per second.
pub const REVALIDATE_AFTER: Nanos = Nanos::from_secs(1);
/// The maximum bytes of listing pages kept by all workers together: about ten of the longest pages.
pub const LISTING_BYTES_MAX: usize = 4 << 20;

/// The limits of one cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLimits {
    pub entries: usize,
    pub files_open: usize,
    pub body_bytes: usize,
    pub listing_bytes: usize,
}

impl CacheLimits {
    /// A worker's share of the bounds above.
    pub fn per_worker(workers: usize) -> CacheLimits {
        let share = |all: usize| all / workers.clamp(1, all);
        CacheLimits {
            entries: share(ENTRIES_MAX),
            files_open: share(FILES_OPEN_MAX),
            body_bytes: share(BODY_BYTES_MAX),
            listing_bytes: share(LISTING_BYTES_MAX),
        }
    }

    /// Returns the same limits, reduced to at most `bytes` of memory.
    pub fn within(self, bytes: usize) -> CacheLimits {
        let listing_bytes = self.listing_bytes.min(bytes / 8);
        CacheLimits { body_bytes: self.body_bytes.min(bytes - listing_bytes), listing_bytes, ..self }
    }
}
