//! Determines which file systems can answer from memory alone.
//!
//! On a local file system, opening a file whose name is in memory needs no disk access. A network or user-space file
//! system contacts a server or process even then, and may never get an answer. Asking for the kind of the file system
//! could block in the same way. So a thread that may wait asks once per mount, and unknown mounts count as remote.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};

use rustix::fs::{AtFlags, Statx, StatxFlags, makedev, statx};

/// The maximum number of mounts that are remembered; usually there is one. If there are more, all are forgotten and
/// queried again.
const MOUNTS_MAX: usize = 256;

/// The kind of a file system, which determines how long accesses can block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file system without a disk: everything is in memory. It refuses RWF_NOWAIT and does not need it.
    Memory,
    /// A file system on a local disk, which returns the data in memory without accessing its disk.
    Local,
    /// A network or user-space file system: any access may block forever.
    Remote,
}

/// The kinds of mounts, by the mount's number if the kernel provides one that is never reused (Linux 6.8), and
/// otherwise by the device's number.
#[derive(Debug, Default)]
pub(super) struct Mounts(Mutex<HashMap<u64, Kind>>);

impl Mounts {
    /// Returns the kind of the file's mount; remote if unknown. Never waits.
    pub fn kind(&self, file: &File) -> Kind {
        let known = ask(file).and_then(|said| self.kinds().get(&number(&said)).copied());
        known.unwrap_or(Kind::Remote)
    }

    /// Returns the kind of the file's mount, asking the file system if it is unknown.
    pub fn learn(&self, file: &File) -> Kind {
        let number = ask(file).map(|said| number(&said));
        if let Some(kind) = number.and_then(|number| self.kinds().get(&number).copied()) {
            return kind;
        }
        let kind = rustix::fs::fstatfs(file).map_or(Kind::Remote, |of| Kind::of(of.f_type));
        let mut kinds = self.kinds();
        if kinds.len() >= MOUNTS_MAX {
            kinds.clear();
        }
        kinds.extend(number.map(|number| (number, kind)));
        kind
    }

    fn kinds(&self) -> MutexGuard<'_, HashMap<u64, Kind>> {
        self.0.lock().expect("no thread panics while it holds the mounts")
    }
}

impl Kind {
    /// The kind of a file system type, by its number (statfs(2)).
    pub fn of(number: i64) -> Kind {
        const TMPFS: i64 = 0x0102_1994;
        const RAMFS: i64 = 0x8584_58f6;
        const EXT: i64 = 0xef53;
        const XFS: i64 = 0x5846_5342;
        const BTRFS: i64 = 0x9123_683e;
        const F2FS: i64 = 0xf2f5_2010;
        match number {
            TMPFS | RAMFS => Kind::Memory,
            EXT | XFS | BTRFS | F2FS => Kind::Local,
            _ => Kind::Remote,
        }
    }
}

/// The device of a file. Never waits.
pub(super) fn device(file: &impl AsFd) -> Option<u64> {
    ask(file).map(|said| makedev(said.stx_dev_major, said.stx_dev_minor))
}

/// The device and inode number of a file. Never waits.
pub(super) fn identity(file: &OwnedFd) -> Option<(u64, u64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let said = statx(file, "", flags, StatxFlags::INO).ok()?;
    Some((makedev(said.stx_dev_major, said.stx_dev_minor), said.stx_ino))
}

/// The flag `STATX_MNT_ID_UNIQUE`.
const MOUNT_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Asks for mount and device, which the kernel can return without accessing the file system.
fn ask(file: &impl AsFd) -> Option<Statx> {
    statx(file, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, MOUNT_UNIQUE).ok()
}

fn number(said: &Statx) -> u64 {
    if said.stx_mask & MOUNT_UNIQUE.bits() != 0 {
        return said.stx_mnt_id;
    }
    makedev(said.stx_dev_major, said.stx_dev_minor)
}
