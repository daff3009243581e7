//! A disk on which each read takes a given time, for tests of servers: a file system in user space (FUSE) below the
//! served folder.
//!
//! Real disks are slow by chance. This one answers every lookup immediately, and reads one after another, each after
//! the given time, so that the server's work during a read is the same on every machine. Two further files are equally
//! slow to look up or to open. FUSE needs no module, device or cgroup that a machine may lack, and the kernel cannot
//! read such a file without waiting, as with NFS.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request,
};
use rustix::mount::{UnmountFlags, unmount};

use crate::LabError;

/// The prefix of folders on which such disks are mounted.
const PREFIX: &str = "cold-";
/// A file of zeros; at 128 KiB a read and one read per second it lasts for 11 days.
const FILE: &str = "file.bin";
/// The same file under another name, for servers that run scripts.
const SCRIPT: &str = "file.php";
const FILE_BYTES: u64 = 128 << 30;
const FILE_NUMBER: INodeNo = INodeNo(2);
/// A file for which a lookup already takes as long as a read.
const SLOW_TO_LOOK_AT: &str = "slow-to-look-at.bin";
/// A file for which opening already takes as long as a read.
const SLOW_TO_OPEN: &str = "slow-to-open.bin";
const SLOW_TO_OPEN_NUMBER: INodeNo = INodeNo(3);
/// The time for which the kernel may cache attributes of the file: longer than any run.
const TOLD_FOR: Duration = Duration::from_secs(86_400);

/// A mounted disk; it is unmounted when dropped.
pub struct SlowDisk {
    folder: PathBuf,
    _session: BackgroundSession,
}

impl SlowDisk {
    /// Mounts a disk in a site as `cold-NAME`. Each read takes this long, and the next begins after it.
    pub fn mount(site: &Path, name: &str, read_takes: Duration) -> Result<SlowDisk, LabError> {
        let folder = site.join(format!("{PREFIX}{name}"));
        fs::create_dir(&folder).map_err(|e| LabError::path(&folder, e))?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RO, MountOption::FSName("weirlab-slow-disk".into())];
        let mounted = fuser::spawn_mount(Disk::start(read_takes), &folder, &config);
        match mounted {
            Ok(session) => Ok(SlowDisk { folder, _session: session }),
            Err(error) => {
                let _ = fs::remove_dir(&folder);
                Err(LabError::io("a slow disk (FUSE, /dev/fuse)", error))
            }
        }
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        release(&self.folder);
        if let Err(error) = fs::remove_dir(&self.folder) {
            eprintln!("weirlab: cannot remove {}: {error}", self.folder.display());
        }
    }
}

/// Unmounts the disks that a killed process left in its site.
pub(crate) fn release_all(site: &Path) {
    for folder in fs::read_dir(site).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if folder.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(PREFIX)) {
            release(&folder);
        }
    }
}

/// Unmounts immediately, even with open files, and ends pending reads, because the kernel cannot end a waiting process
/// earlier. A folder without a mount stays unchanged.
fn release(folder: &Path) {
    let _ = unmount(folder, UnmountFlags::FORCE | UnmountFlags::DETACH);
}

/// Answers the kernel; slow requests are passed to a thread that delays them.
struct Disk {
    asked: Sender<Asked>,
}

/// A request that takes as long as a read.
enum Asked {
    Look(ReplyEntry),
    Open(ReplyOpen),
    Read(ReplyData, usize),
}

impl Disk {
    fn start(read_takes: Duration) -> Disk {
        let (ask, asked) = channel();
        std::thread::spawn(move || answer(&asked, read_takes));
        Disk { asked: ask }
    }
}

/// Answers slow requests until the file system ends.
fn answer(asked: &Receiver<Asked>, takes: Duration) {
    for asked in asked {
        std::thread::sleep(takes);
        match asked {
            Asked::Look(reply) => reply.entry(&TOLD_FOR, &attributes(FILE_NUMBER), Generation(0)),
            Asked::Open(reply) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Asked::Read(reply, bytes) => reply.data(&vec![0; bytes]),
        }
    }
}

impl Disk {
    fn pass_on(&self, asked: Asked) {
        // The thread ends after this.
        let _ = self.asked.send(asked);
    }
}

impl Filesystem for Disk {
    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str().filter(|_| parent == INodeNo::ROOT) {
            Some(FILE | SCRIPT) => reply.entry(&TOLD_FOR, &attributes(FILE_NUMBER), Generation(0)),
            Some(SLOW_TO_OPEN) => reply.entry(&TOLD_FOR, &attributes(SLOW_TO_OPEN_NUMBER), Generation(0)),
            Some(SLOW_TO_LOOK_AT) => self.pass_on(Asked::Look(reply)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if number == SLOW_TO_OPEN_NUMBER {
            self.pass_on(Asked::Open(reply));
        } else {
            reply.opened(FileHandle(0), FopenFlags::empty());
        }
    }

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TOLD_FOR, &attributes(number));
    }

    fn read(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        bytes: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left = FILE_BYTES.saturating_sub(offset);
        self.pass_on(Asked::Read(reply, left.min(bytes.into()) as usize));
    }
}

fn attributes(number: INodeNo) -> FileAttr {
    let is_file = number != INodeNo::ROOT;
    FileAttr {
        ino: number,
        size: if is_file { FILE_BYTES } else { 0 },
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_file { FileType::RegularFile } else { FileType::Directory },
        perm: if is_file { 0o444 } else { 0o555 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::time::Instant;

    /// Reads take at least their time, and nothing is left behind.
    #[test]
    fn reads_take_their_time_and_looks_none() {
        let site = std::env::temp_dir().join(format!("weir-slow-disk-{}", std::process::id()));
        fs::create_dir(&site).unwrap();
        match SlowDisk::mount(&site, "a", Duration::from_millis(200)) {
            Err(why) if std::env::var_os("WEIR_REQUIRE_PRIVILEGED").is_none() => println!("SKIPPED: {why}"),
            mounted => {
                let disk = mounted.unwrap();
                let file = File::open(site.join("cold-a").join(FILE)).unwrap();
                assert_eq!(file.metadata().unwrap().len(), FILE_BYTES);
                let began = Instant::now();
                file.read_exact_at(&mut [1; 100], 0).unwrap();
                file.read_exact_at(&mut [1; 100], 1 << 30).unwrap();
                assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
                drop((file, disk));
            }
        }
        assert_eq!(fs::read_dir(&site).unwrap().count(), 0);
        // The remains of a killed process.
        if let Ok(disk) = SlowDisk::mount(&site, "b", Duration::ZERO) {
            std::mem::forget(disk);
            assert!(fs::remove_dir_all(&site).is_err(), "it is mounted");
            release_all(&site);
        }
        fs::remove_dir_all(&site).unwrap();
    }
}
