use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use units::Nanos;

use super::pool::{
    BUFFERED_BYTES_MAX, LOOKUPS_PER_CLIENT_MAX, LOOKUPS_WAITING_MAX, READS_PER_DEVICE_MAX, TASKS_WAITING_MAX,
    THREADS_PER_DEVICE_MAX,
};
use super::*;
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

/// A disk that hangs keeps its own threads busy, but not those for other disks.
#[test]
fn a_hung_device_keeps_no_other_waiting() {
    const HUNG: u64 = 1;
    const FINE: u64 = 2;
    let pool = Pool::new();
    let (begun, begins) = channel();
    let (releases, gates): (Vec<_>, Vec<Receiver<()>>) = (0..3 * THREADS_PER_DEVICE_MAX).map(|_| channel()).unzip();
    for (client, gate) in (0..).zip(gates) {
        let begun = begun.clone();
        let hang = move || {
            begun.send(()).unwrap();
            let _ = gate.recv();
        };
        pool.run_for(client, HUNG, Lane::Lookup, hang).unwrap();
    }
    for _ in 0..THREADS_PER_DEVICE_MAX {
        begins.recv_timeout(PATIENCE).expect("a device has its threads");
    }
    let (done, ends) = channel();
    for _ in 0..100 {
        let done = done.clone();
        pool.run(FINE, Lane::Read, move || done.send(()).unwrap()).unwrap();
    }
    for _ in 0..100 {
        ends.recv_timeout(PATIENCE).expect("a task of the other device");
    }
    assert!(begins.try_recv().is_err(), "the hung device has more threads than its share");
    drop(releases);
    for _ in 0..2 * THREADS_PER_DEVICE_MAX {
        begins.recv_timeout(PATIENCE).expect("when the device answers, what waited is done");
    }
}

/// The thread that is woken for the first task hangs in it. Once, the second task waited for the same thread.
#[test]
fn two_tasks_at_once_have_two_threads() {
    for _ in 0..100 {
        let pool = Pool::new();
        let (done, ends) = channel();
        let tell = done.clone();
        pool.run(1, Lane::Read, move || tell.send(()).unwrap()).unwrap();
        ends.recv_timeout(PATIENCE).unwrap();
        while pool.idle() == 0 {
            std::thread::yield_now();
        }
        let (release, gate) = channel::<()>();
        pool.run(1, Lane::Read, move || assert!(gate.recv().is_err())).unwrap();
        pool.run(1, Lane::Read, move || done.send(()).unwrap()).unwrap();
        ends.recv_timeout(PATIENCE).expect("the other task");
        drop(release);
        pool.stop();
    }
}

/// Reads that never end leave a thread to the lookups of their device.
#[test]
fn finds_do_not_wait_for_reads() {
    let pool = Pool::new();
    let jam = Jam::new(&pool);
    (0..2 * THREADS_PER_DEVICE_MAX).for_each(|_| assert!(jam.add(1, Lane::Read)));
    jam.wait_begun(READS_PER_DEVICE_MAX);
    let (done, ends) = channel();
    for _ in 0..100 {
        let done = done.clone();
        pool.run(1, Lane::Lookup, move || done.send(()).unwrap()).unwrap();
    }
    for _ in 0..100 {
        ends.recv_timeout(PATIENCE).expect("a lookup");
    }
    assert!(!jam.has_begun(), "reads have taken the thread of the lookups");
}

/// The lookups of one device leave room for those of others.
#[test]
fn finds_that_wait_are_bounded_by_device() {
    let pool = Pool::new();
    let jam = Jam::new(&pool);
    let accepted = jam.fill(1, Lane::Lookup);
    assert!((LOOKUPS_WAITING_MAX..=LOOKUPS_WAITING_MAX + THREADS_PER_DEVICE_MAX).contains(&accepted));
    assert!(jam.add(1, Lane::Read) && jam.add(2, Lane::Lookup));
}

/// A client with its maximum of lookups neither refuses nor delays others. One thread is left, so results arrive in the
/// order of the queues.
#[test]
fn clients_take_turns_to_find() {
    let pool = Pool::new();
    let busy = Jam::new(&pool);
    (1..THREADS_PER_DEVICE_MAX).for_each(|_| assert!(busy.add(1, Lane::Lookup)));
    busy.wait_begun(THREADS_PER_DEVICE_MAX - 1);
    let last = Jam::new(&pool);
    assert!(last.add(1, Lane::Lookup));
    last.wait_begun(1);
    let (done, ends) = channel();
    let lookup = |client: u32| {
        let done = done.clone();
        pool.run_for(client, 1, Lane::Lookup, move || done.send(client).unwrap())
    };
    (0..LOOKUPS_WAITING_MAX).for_each(|_| lookup(7).unwrap());
    assert!(lookup(7).is_err());
    lookup(8).unwrap();
    drop(last);
    let order: Vec<u32> = (0..=LOOKUPS_WAITING_MAX).map(|_| ends.recv_timeout(PATIENCE).unwrap()).collect();
    assert_eq!(order[..3], [7, 8, 7]);
}

/// On a disk that serves one request at a time, another client's lookup waits for no more than two.
#[test]
fn a_client_has_two_finds_at_a_disk() {
    let pool = Pool::new();
    let (jam, (done, ends)) = (Jam::new(&pool), channel());
    assert!(jam.fill(1, Lane::Lookup) >= LOOKUPS_WAITING_MAX);
    jam.wait_begun(LOOKUPS_PER_CLIENT_MAX);
    pool.run_for(8, 1, Lane::Lookup, move || done.send(()).unwrap()).unwrap();
    ends.recv_timeout(PATIENCE).unwrap();
    assert!(!jam.has_begun(), "the two others are for others");
}

/// Reads take turns too: a client with a hundred large files on a slow disk counts as one.
#[test]
fn clients_take_turns_to_read() {
    let pool = Pool::new();
    let busy = Jam::new(&pool);
    (1..READS_PER_DEVICE_MAX).for_each(|_| assert!(busy.add(1, Lane::Read)));
    busy.wait_begun(READS_PER_DEVICE_MAX - 1);
    let last = Jam::new(&pool);
    assert!(last.add(1, Lane::Read));
    last.wait_begun(1);
    let (done, ends) = channel();
    for client in std::iter::repeat_n(7, 100).chain([8]) {
        let done = done.clone();
        pool.run_for(client, 1, Lane::Read, move || done.send(client).unwrap()).unwrap();
    }
    drop(last);
    let order: Vec<u32> = (0..101).map(|_| ends.recv_timeout(PATIENCE).unwrap()).collect();
    assert_eq!(order[..3], [7, 8, 7]);
}

#[test]
fn tasks_that_wait_are_bounded() {
    let pool = Pool::new();
    let accepted = Jam::new(&pool).fill(1, Lane::Read);
    assert!((TASKS_WAITING_MAX..=TASKS_WAITING_MAX + THREADS_PER_DEVICE_MAX).contains(&accepted));
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
