//! Threads that may block on a disk, the knowledge of which bytes are in the page cache, and the disk space of spooled
//! responses.

mod finished_tasks;
#[cfg(test)]
mod jam;
mod pool;
mod probed;
mod room;
pub mod spool_folder;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, IoSliceMut};

use rustix::io::{Errno, ReadWriteFlags, preadv2};

pub use finished_tasks::Done;
#[cfg(test)]
pub use jam::Jam;
pub use pool::{BUFFERED_BYTES_MAX, Buffer, Lane, Pool};
#[cfg(test)]
pub use pool::{THREADS_PER_DEVICE_MAX, Taken};
pub use probed::Probed;
pub use room::{Reserved, Room};
pub use spool_folder::SpoolConfig;

/// Reads bytes from the page cache. Returns `None` if the first byte is not there, or if the file system does not
/// support reads without waiting.
pub fn read_now(file: &File, into: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
    loop {
        match preadv2(file, &mut [IoSliceMut::new(into)], offset, ReadWriteFlags::NOWAIT) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
