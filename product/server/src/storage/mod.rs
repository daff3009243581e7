//! Reads files without waiting for a disk.
//!
//! The thread that sends must not read from a disk: a single page that is not in memory would delay all of its
//! responses for as long as the disk takes, and a network file system can block forever. So the thread first looks
//! without waiting ([`Storage::look`]). Bytes in the page cache are sent at once; others are read by a thread of the
//! [`Pool`], and the response is not ready meanwhile.
//!
//! Up to [`COPIED_BYTES_MAX`] the look is the read itself (`preadv2` with RWF_NOWAIT), which is exact and costs no more
//! than `sendfile`. Copying more would cost a fifth of the throughput, so larger ranges are probed, one byte in each
//! [`PROBE_EVERY_BYTES`], and `sendfile` sends them. A probe's result is valid for a moment
//! ([`Probed`](crate::disk::Probed)). A hole between two probes, or a page reclaimed between probe and `sendfile`, is
//! the only case in which a read may still block. `mincore` and `cachestat` would check every page, but only for the
//! owner of a file.
//!
//! A file system without RWF_NOWAIT (NFS, FUSE, overlayfs) is always read on a thread of the pool.

mod spool;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use sched::JobId;

use crate::clock;
use crate::disk::{Buffer, Done, Lane, Pool, read_now, spool_folder};
use crate::files::{Content, Entry, OpenFile};
pub use spool::{Target, Write, Written};

/// The maximum number of bytes that are copied. Longer ranges are probed and sent with `sendfile`.
pub const COPIED_BYTES_MAX: usize = 64 << 10;
/// The distance between two probes, twice the kernel's read-ahead. At 64 KiB, probes made 10 MB from loopback cost 1.15
/// to 1.18 times what nginx spends on them; a probe for each page would cost 110 µs for 2 MiB.
pub const PROBE_EVERY_BYTES: u64 = 256 << 10;

/// The part of a range of a file that is in memory.
#[derive(Debug, PartialEq, Eq)]
pub enum Look<'a> {
    /// The first bytes of the range; empty at the end of the file.
    Copied(&'a [u8]),
    /// The number of bytes that can be sent with `sendfile`.
    Resident(u64),
    /// The first byte is not in memory; a thread of the pool must read it.
    Absent,
}

/// A completed read by the pool.
#[derive(Debug)]
pub struct ReadDone {
    pub job: JobId,
    /// The first bytes of the range; empty at the end of the file.
    pub result: io::Result<Buffer>,
}

/// The source of the bytes of files.
pub trait Storage {
    /// Looks at `count` bytes of an open file without waiting.
    fn look(&mut self, entry: &Entry, offset: u64, count: u64) -> io::Result<Look<'_>>;
    /// Starts reading the first bytes of a range for a job, which must have no other read in progress.
    fn read_aside(&mut self, job: JobId, client: u32, entry: &Arc<Entry>, range: Range<u64>) -> io::Result<()>;
    /// Appends the reads that completed since the last call.
    fn take_done(&mut self, into: &mut Vec<ReadDone>);

    /// Starts writing bytes of a job to a file, which must have no other write in progress. Fails if there is no folder
    /// for spooling.
    fn write_aside(&mut self, job: JobId, client: u32, write: Write) -> io::Result<()> {
        let _ = (job, client, write);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Appends the writes that completed since the last call.
    fn take_written(&mut self, into: &mut Vec<(JobId, Written)>) {
        let _ = into;
    }
}

/// Storage entirely in memory, for tests that are not about storage.
pub struct InMemory;

impl Storage for InMemory {
    fn look(&mut self, _entry: &Entry, _offset: u64, count: u64) -> io::Result<Look<'_>> {
        Ok(Look::Resident(count))
    }

    fn read_aside(&mut self, _job: JobId, _client: u32, _entry: &Arc<Entry>, _range: Range<u64>) -> io::Result<()> {
        unreachable!("everything is in memory")
    }

    fn take_done(&mut self, _into: &mut Vec<ReadDone>) {}
}

/// A thread's access to the disk.
pub struct Disk {
    pool: Arc<Pool>,
    done: Arc<Done<ReadDone>>,
    scratch: Box<[u8]>,
    spool: Option<SpoolFolder>,
}

/// The folder in which spool files are made.
struct SpoolFolder {
    path: Arc<Path>,
    device: u64,
    written: Arc<Done<(JobId, Written)>>,
}

impl Disk {
    /// Creates the storage. Another thread calls `wake` when [`Storage::take_done`] has something to return.
    pub fn new(pool: Arc<Pool>, wake: impl Fn() + Send + Sync + 'static) -> Disk {
        let scratch = vec![0; COPIED_BYTES_MAX].into_boxed_slice();
        Disk { pool, done: Arc::new(Done::new(wake)), scratch, spool: None }
    }

    /// Adds a folder for spooled responses. Another thread calls `wake` when [`Storage::take_written`] has something to
    /// return.
    pub fn spooling(self, folder: &Path, wake: impl Fn() + Send + Sync + 'static) -> Disk {
        let (device, written) = (spool_folder::device(folder), Arc::new(Done::new(wake)));
        Disk { spool: Some(SpoolFolder { path: folder.into(), device, written }), ..self }
    }
}

impl Storage for Disk {
    fn look(&mut self, entry: &Entry, offset: u64, count: u64) -> io::Result<Look<'_>> {
        let Content::Open(file) = &entry.content else { unreachable!("a held body is not read") };
        if entry.is_in_memory {
            return Ok(Look::Resident(count));
        }
        if count > COPIED_BYTES_MAX as u64 {
            return probe(entry, file, offset, count);
        }
        let scratch = &mut self.scratch[..count as usize];
        Ok(match read_now(file, scratch, offset)? {
            Some(bytes) => Look::Copied(&self.scratch[..bytes]),
            None => Look::Absent,
        })
    }

    fn read_aside(&mut self, job: JobId, client: u32, entry: &Arc<Entry>, range: Range<u64>) -> io::Result<()> {
        let (entry, done) = (Arc::clone(entry), Arc::clone(&self.done));
        let mut buffer = self.pool.buffer(range.end - range.start);
        self.pool.run_for(client, entry.device, Lane::Read, move || {
            let Content::Open(file) = &entry.content else { unreachable!("a held body is not read") };
            let result = buffer.fill(file, range.start).map(|()| buffer);
            done.post(ReadDone { job, result });
        })
    }

    fn take_done(&mut self, into: &mut Vec<ReadDone>) {
        self.done.take(into);
    }

    fn write_aside(&mut self, job: JobId, client: u32, write: Write) -> io::Result<()> {
        let Some(SpoolFolder { path, device, written }) = &self.spool else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let (path, written, pool) = (Arc::clone(path), Arc::clone(written), Arc::clone(&self.pool));
        let run = move || written.post((job, write.run(&path, Some(&pool))));
        self.pool.run_for(client, *device, Lane::Read, run)
    }

    fn take_written(&mut self, into: &mut Vec<(JobId, Written)>) {
        if let Some(spool) = &self.spool {
            spool.written.take(into);
        }
    }
}

/// Returns how much of the range is in the page cache, as far as probes show. The end of the file counts as present,
/// because `sendfile` notices it.
fn probe(entry: &Entry, file: &OpenFile, offset: u64, count: u64) -> io::Result<Look<'static>> {
    let (last, now) = (count - 1, clock::now());
    for at in (0..last).step_by(PROBE_EVERY_BYTES as usize).chain([last]) {
        let ask = || read_now(file, &mut [0], offset + at).map(|found| found.is_some());
        if !file.probed.is_in_memory(entry.len, offset + at, now, ask)? {
            return Ok(if at == 0 { Look::Absent } else { Look::Resident(at) });
        }
    }
    Ok(Look::Resident(count))
}
