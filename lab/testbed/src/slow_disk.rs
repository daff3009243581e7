//! A disk that takes as long for each read as it is told, for tests of servers: a file system in user space (FUSE) below the served folder.
//!
//! Real disks are slow by chance. This one answers every look at a file at once and every read when its turn has come, one
//! after the other, so that what a server does meanwhile is the same on every machine. Two more files are as slow to find: one to look
//! at, the other to open. FUSE needs no module, no device and no
//! cgroup that a machine may lack, and the kernel cannot read such a file without waiting, as with NFS.

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

/// Folders of the site on which such disks are mounted begin with this.
const PREFIX: &str = "cold-";
/// The only file there is, of zeros: at 128 KiB a read and one read per second it lasts for 11 days.
const FILE: &str = "file.bin";
/// The same by another name, for servers that run scripts.
const SCRIPT: &str = "file.php";
const FILE_BYTES: u64 = 128 << 30;
const FILE_NUMBER: INodeNo = INodeNo(2);
/// The same, but already to look for it takes as long as a read.
const SLOW_TO_LOOK_AT: &str = "slow-to-look-at.bin";
/// The same, but already to open it takes as long as a read.
const SLOW_TO_OPEN: &str = "slow-to-open.bin";
const SLOW_TO_OPEN_NUMBER: INodeNo = INodeNo(3);
/// The time that the kernel may believe what it was told of the file: longer than any run.
const TOLD_FOR: Duration = Duration::from_secs(86_400);

/// A mounted disk. Unmounted when dropped.
pub struct SlowDisk {
    folder: PathBuf,
    _session: BackgroundSession,
}

impl SlowDisk {
    /// Mounts it in a site as `cold-NAME`; a read takes so long, and the next begins after it.
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

/// Unmounts what a killed process left in its site.
pub(crate) fn release_all(site: &Path) {
    for folder in fs::read_dir(site).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if folder.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(PREFIX)) {
            release(&folder);
        }
    }
}

/// At once, whatever is open, and ends the reads that wait: the kernel lets no process end before. A folder on which nothing is
/// mounted stays as it is.
fn release(folder: &Path) {
    let _ = unmount(folder, UnmountFlags::FORCE | UnmountFlags::DETACH);
}

/// The disk that answers the kernel; what is slow is passed on to a thread that takes its time.
struct Disk {
    asked: Sender<Asked>,
}

/// A question that takes as long as a read.
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

/// Ends with the file system.
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
        // What a killed process leaves.
        if let Ok(disk) = SlowDisk::mount(&site, "b", Duration::ZERO) {
            std::mem::forget(disk);
            assert!(fs::remove_dir_all(&site).is_err(), "it is mounted");
            release_all(&site);
        }
        fs::remove_dir_all(&site).unwrap();
    }
}
