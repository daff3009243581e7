use std::io::IoSliceMut;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use units::Nanos;

use super::*;
use crate::disk::BUFFERED_BYTES_MAX;
use crate::files::temporary::Folder;

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The name of a file whose type needs no look at its content, which would bring it into memory.
const NAME: &str = "a.txt";

fn entry(folder: &Folder, content: &[u8]) -> Arc<Entry> {
    folder.put(NAME, content);
    folder.entry(NAME)
}

/// A disk, and the channel that it wakes.
fn disk() -> (Disk, Receiver<()>) {
    let (woken, wakes) = channel();
    (Disk::new(Pool::new(), move || woken.send(()).unwrap()), wakes)
}

fn wait(disk: &mut Disk, wakes: &Receiver<()>) -> ReadDone {
    wakes.recv_timeout(PATIENCE).expect("the read ends");
    let mut done = Vec::new();
    disk.take_done(&mut done);
    done.pop().expect("a read has ended")
}

fn job() -> JobId {
    let mut scheduler = sched::Scheduler::new(sched::policy::parse("fcfs").unwrap(), sched::Pace::UNLIMITED);
    scheduler.arrive(Nanos::ZERO, sched::Arrival::of(sched::Size::Known(1)))
}

/// Reads a file to its end as a response does, dropping its pages first if the file system does that.
#[test]
fn a_file_is_read_to_its_end() {
    let folder = Folder::new();
    let content: Vec<u8> = (0..1_000_000u32).map(|at| (at / 3) as u8).collect();
    let entry = entry(&folder, &content);
    let Content::Open(file) = &entry.content else { panic!("too large to be held") };
    file.sync_all().unwrap();
    fadvise(file, 0, None, Advice::DontNeed).unwrap();
    let (mut disk, wakes) = disk();
    let (mut read, mut asides) = (Vec::new(), 0);
    while read.len() < content.len() {
        let at = read.len() as u64;
        // Alternately by copy and by probe.
        let count = (entry.len - at).min(if asides % 2 == 0 { COPIED_BYTES_MAX as u64 } else { 300_000 });
        match disk.look(&entry, at, count).unwrap() {
            Look::Copied(bytes) => read.extend_from_slice(bytes),
            Look::Resident(bytes) => read.extend_from_slice(&content[read.len()..][..bytes as usize]),
            Look::Absent => {
                asides += 1;
                disk.read_aside(job(), 0, &entry, at..entry.len).unwrap();
                read.extend_from_slice(wait(&mut disk, &wakes).result.unwrap().left());
            }
        }
        assert!(read.len() as u64 > at, "no progress");
    }
    assert!(read == content);
}

#[test]
fn what_is_in_the_page_cache_is_seen() {
    let folder = Folder::new();
    let entry = entry(&folder, &vec![7; 400_000]);
    let Content::Open(file) = &entry.content else { panic!("too large to be held") };
    if matches!(preadv2(file, &mut [IoSliceMut::new(&mut [0])], 0, ReadWriteFlags::NOWAIT), Err(Errno::OPNOTSUPP)) {
        println!("SKIPPED: the temporary folder's file system cannot read without waiting");
        return;
    }
    let (mut disk, _) = disk();
    assert_eq!(disk.look(&entry, 0, 400_000).unwrap(), Look::Resident(400_000));
    assert_eq!(disk.look(&entry, 9, 100).unwrap(), Look::Copied(&[7; 100]));
    assert_eq!(disk.look(&entry, 400_000, 100).unwrap(), Look::Copied(&[]));
    file.sync_all().unwrap();
    assert!(is_seen_absent(file, || disk.look(&entry, 100_000, 100).unwrap() == Look::Absent), "copied");
    assert!(is_seen_absent(file, || disk.look(&folder.entry(NAME), 0, 400_000).unwrap() == Look::Absent), "probed");
}

/// Returns true if a look at a file that was just dropped from memory finds it absent. The look itself starts
/// read-ahead, and if the disk is faster than a busy processor, the bytes are in memory before it ends; so it is tried
/// repeatedly.
fn is_seen_absent(file: &OpenFile, mut look: impl FnMut() -> bool) -> bool {
    const TRIES_MAX: u32 = 100;
    (0..TRIES_MAX).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        fadvise(file, 0, None, Advice::DontNeed).unwrap();
        look()
    })
}

#[test]
fn a_read_behind_the_end_is_empty() {
    let folder = Folder::new();
    let entry = entry(&folder, &[1; 70_000]);
    let (mut disk, wakes) = disk();
    disk.read_aside(job(), 0, &entry, 80_000..90_000).unwrap();
    assert!(wait(&mut disk, &wakes).result.unwrap().left().is_empty());
}

#[test]
fn buffers_shrink_to_a_page_over_the_bound() {
    let folder = Folder::new();
    let entry = entry(&folder, &[1; 70_000]);
    let Content::Open(file) = &entry.content else { panic!("too large to be held") };
    let pool = Pool::new();
    let size = |buffer: &mut Buffer| {
        buffer.fill(file, 0).unwrap();
        buffer.left().len()
    };
    let mut held: Vec<Buffer> = Vec::new();
    while held.len() as u64 * 70_000 < BUFFERED_BYTES_MAX {
        held.push(pool.buffer(70_000));
        assert!(!held.len().is_multiple_of(100) || size(held.last_mut().unwrap()) == 70_000);
    }
    assert_eq!(size(&mut pool.buffer(70_000)), 4096);
    assert_eq!(size(&mut pool.buffer(100)), 100);
    drop(held);
    assert_eq!(size(&mut pool.buffer(70_000)), 70_000);
}
