//! A disk on which each read takes a given time: a file system in user space (FUSE) below the served folder.
//!
//! Real disks are slow by chance. This one answers every lookup immediately, and reads one after another, each after
//! the given time, so that the server's work during a read is the same on every machine. Two further files are equally
//! slow to look up or to open. FUSE needs no module, device or cgroup that a machine may lack, and the kernel cannot
//! read such a file without waiting, as with NFS.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request,
};
use rustix::mount::{UnmountFlags, unmount};

use super::Site;

/// The folder on which the disk is mounted.
const FOLDER: &str = "cold-disk";
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
    /// Mounts a disk in a site. Each read takes this long, and the next begins after it. Prints the reason if there is
    /// none.
    pub fn mount(site: &Site, read_takes: Duration) -> Option<SlowDisk> {
        let folder = site.served().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RO, MountOption::FSName("weir-slow-disk".into())];
        match fuser::spawn_mount(Disk::start(read_takes), &folder, &config) {
            Err(why) if std::env::var_os("WEIR_REQUIRE_PRIVILEGED").is_none() => {
                println!("SKIPPED: a slow disk (FUSE, /dev/fuse): {why}");
                fs::remove_dir(&folder).unwrap();
                None
            }
            mounted => Some(SlowDisk { folder, _session: mounted.unwrap() }),
        }
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // Immediately, even with open files: this ends pending reads, and the kernel cannot end a waiting process earlier.
        let _ = unmount(&self.folder, UnmountFlags::FORCE | UnmountFlags::DETACH);
        let _ = fs::remove_dir(&self.folder);
    }
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

/// Reads take at least their time, and nothing is left behind.
#[test]
fn reads_take_their_time_and_looks_none() {
    let site = Site::of_sizes(&[10]);
    let Some(disk) = SlowDisk::mount(&site, Duration::from_millis(200)) else { return };
    let file = File::open(site.served().join(FOLDER).join(FILE)).unwrap();
    assert_eq!(file.metadata().unwrap().len(), FILE_BYTES);
    let began = Instant::now();
    file.read_exact_at(&mut [1; 100], 0).unwrap();
    file.read_exact_at(&mut [1; 100], 1 << 30).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    drop((file, disk));
    assert!(!site.served().join(FOLDER).exists());
}
