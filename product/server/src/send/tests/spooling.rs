//! Bodies that wait in files: for any order of writes and reads and any behaviour of the disk, the client has each byte
//! once and in its place.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use super::producing::{OPEN_ENDED, Produced, Way};
use super::*;
use crate::body::PIPE_BYTES_MAX;
use crate::disk::{Buffer, Room};
use crate::files::{Content, Entry, temporary::Folder};
use crate::storage::{Look, ReadDone, Storage, Write, Written};

const NO_SPACE: i32 = 28;

/// A disk that completes operations when the test says so.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_warm: bool,
    reads: Vec<(JobId, Arc<Entry>, Range<u64>)>,
    done: Vec<ReadDone>,
    writes: Vec<(JobId, Write)>,
    written: Vec<(JobId, Written)>,
}

struct Handle(Disk);

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn is_idle(&self) -> bool {
        let state = self.state();
        state.reads.is_empty() && state.writes.is_empty()
    }

    /// Ends a write; a failing one after it has written some bytes.
    fn end_write(&self, folder: &Folder, has_failed: bool) {
        let mut state = self.state();
        let Some((job, write)) = state.writes.pop() else { return };
        let mut written = write.run(&folder.path(""), None);
        if has_failed {
            written.result = Err(std::io::Error::from_raw_os_error(NO_SPACE));
        }
        state.written.push((job, written));
    }

    fn end_read(&self, bytes_max: usize) {
        let mut state = self.state();
        let Some((job, entry, range)) = state.reads.pop() else { return };
        let Content::Open(file) = &entry.content else { panic!("the file is held") };
        let mut bytes = vec![0; bytes_max.min((range.end - range.start) as usize)];
        let read = std::os::unix::fs::FileExt::read_at(&**file, &mut bytes, range.start).unwrap();
        assert_eq!(read, bytes.len(), "what is written is there");
        state.done.push(ReadDone { job, result: Ok(Buffer::from(bytes)) });
    }
}

impl Storage for Handle {
    fn look(&mut self, _: &Entry, _: u64, count: u64) -> std::io::Result<Look<'_>> {
        Ok(if self.0.state().is_warm { Look::Resident(count) } else { Look::Absent })
    }

    fn read_aside(&mut self, job: JobId, _: u32, entry: &Arc<Entry>, range: Range<u64>) -> std::io::Result<()> {
        self.0.state().reads.push((job, Arc::clone(entry), range));
        Ok(())
    }

    fn take_done(&mut self, into: &mut Vec<ReadDone>) {
        into.append(&mut self.0.state().done);
    }

    fn write_aside(&mut self, job: JobId, _: u32, write: Write) -> std::io::Result<()> {
        self.0.state().writes.push((job, write));
        Ok(())
    }

    fn take_written(&mut self, into: &mut Vec<(JobId, Written)>) {
        into.append(&mut self.0.state().written);
    }
}

/// A response whose producer may have it spooled.
struct Spooled {
    produced: Produced,
    disk: Disk,
    folder: Folder,
    room: Arc<Room>,
}

impl Spooled {
    fn new(way: Way, rate: Option<&str>, room_bytes: u64) -> Spooled {
        let (mut produced, disk) = (Produced::new(way, rate), Disk::default());
        produced.bench.transmitter.reads = Reads::from(Handle(disk.clone()));
        Spooled { produced, disk, folder: Folder::new(), room: Room::new(room_bytes) }
    }

    fn spool(&mut self) -> bool {
        self.produced.producer().spool(&self.room)
    }

    /// Pushes as much as fits, in memory or on disk.
    fn push_all(&mut self, bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            let taken = self.produced.push(left.min(PIPE_BYTES_MAX)).expect("it is wanted");
            left -= taken;
            if taken == 0 {
                assert!(self.spool(), "{left} bytes are left");
                self.disk.end_write(&self.folder, false);
                self.produced.drive();
            }
        }
    }

    /// Ends everything under way, and what results from it.
    fn settle(&mut self) {
        self.disk.state().is_warm = true;
        loop {
            self.produced.drive();
            if self.disk.is_idle() {
                return;
            }
            self.disk.end_write(&self.folder, false);
            self.disk.end_read(usize::MAX);
        }
    }

    fn failed(&mut self) -> bool {
        self.produced.bench.transmitter.reads.take_write_failure().is_some()
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Push(usize),
    Spool,
    EndWrite { has_failed: bool },
    EndRead(usize),
    Warm(bool),
    Turn,
    Room(u64),
    Finish,
    Fail,
    Leave,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1_usize..40_000).prop_map(Step::Push),
        6 => Just(Step::Spool),
        6 => prop::bool::weighted(0.05).prop_map(|has_failed| Step::EndWrite { has_failed }),
        3 => (1_usize..40_000).prop_map(Step::EndRead),
        2 => any::<bool>().prop_map(Step::Warm),
        6 => Just(Step::Turn),
        4 => (0_u64..50_000).prop_map(Step::Room),
        1 => prop::sample::select(vec![Step::Finish, Step::Turn, Step::Turn, Step::Fail, Step::Leave]),
    ]
}

fn follow(mut spooled: Spooled, steps: &[Step]) {
    for step in steps {
        let produced = &mut spooled.produced;
        match *step {
            Step::Push(bytes) => {
                produced.push(bytes);
            }
            Step::Spool => {
                spooled.spool();
            }
            Step::EndWrite { has_failed } => spooled.disk.end_write(&spooled.folder, has_failed),
            Step::EndRead(bytes) => spooled.disk.end_read(bytes),
            Step::Warm(is_warm) => spooled.disk.state().is_warm = is_warm,
            Step::Turn => produced.drive(),
            Step::Room(bytes) => produced.make_room(bytes),
            Step::Finish => produced.finish(),
            Step::Fail => produced.fail(),
            Step::Leave => produced.leave(),
        }
    }
    spooled.produced.make_room(u64::MAX);
    spooled.settle();
    if let Way::Length(bytes) = spooled.produced.way {
        while let Some(left) = (bytes as usize).checked_sub(spooled.produced.pushed.len()).filter(|left| *left > 0) {
            if spooled.produced.push(left.min(10_000)).is_none() {
                break;
            }
            spooled.settle();
        }
    }
    spooled.produced.finish();
    spooled.settle();
    let Spooled { produced, room, .. } = spooled;
    produced.check().check_account();
    assert_eq!(room.taken(), 0, "all room is given back");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn each_byte_comes_once_and_in_its_place(
        steps in prop::collection::vec(step(), 1..80),
        way in prop_oneof![
            (0_u64..400_000).prop_map(Way::Length),
            prop::sample::select(OPEN_ENDED.to_vec()),
        ],
        is_paced in any::<bool>(),
        room_bytes in prop::sample::select(vec![0_u64, 100_000, 1 << 30]),
    ) {
        follow(Spooled::new(way, is_paced.then_some("10mbit"), room_bytes), &steps);
    }
}

/// The client takes nothing; the producer pushes everything, and the scheduler has the size.
#[test]
fn a_spooled_response_has_a_size() {
    for way in OPEN_ENDED {
        let mut spooled = Spooled::new(way, None, 1 << 30);
        spooled.produced.make_room(0);
        spooled.push_all(1 << 20);
        let size = |spooled: &Spooled| {
            spooled.produced.bench.transmitter.link.scheduler().jobs().get(spooled.produced.job).unwrap().size
        };
        assert!(matches!(size(&spooled), Size::AtLeast(_)), "{way:?}");
        spooled.produced.finish();
        assert!(matches!(size(&spooled), Size::Known(bytes) if bytes >= 1 << 20), "{way:?}: {:?}", size(&spooled));
        let in_memory = spooled.produced.in_memory_bytes();
        assert!(in_memory <= PIPE_BYTES_MAX && spooled.room.taken() + in_memory as u64 >= 1 << 20, "{in_memory}");
        spooled.produced.make_room(u64::MAX);
        spooled.settle();
        spooled.produced.check();
    }
}

/// A full disk: the bytes stay in memory and no more come, until the client has taken them.
#[test]
fn a_write_that_fails_is_back_pressure() {
    for way in OPEN_ENDED {
        let mut spooled = Spooled::new(way, None, 1 << 30);
        spooled.produced.make_room(0);
        spooled.push_all(200_000);
        while spooled.produced.push(PIPE_BYTES_MAX).unwrap() > 0 {}
        assert!(spooled.spool() && !spooled.spool(), "one at a time");
        spooled.disk.end_write(&spooled.folder, true);
        spooled.produced.drive();
        assert!(spooled.failed() && !spooled.failed(), "it is said once");
        while spooled.produced.push(PIPE_BYTES_MAX).unwrap() > 0 {}
        assert!(!spooled.spool(), "no other is tried");
        assert!(spooled.produced.in_memory_bytes() <= 2 * PIPE_BYTES_MAX + 100);
        spooled.produced.make_room(u64::MAX);
        spooled.settle();
        assert!(spooled.produced.room().unwrap() > PIPE_BYTES_MAX / 2);
        spooled.produced.finish();
        spooled.settle();
        assert!(spooled.produced.departures[0].failure.is_none());
        spooled.produced.check();
    }
}

#[test]
fn without_room_nothing_is_written() {
    let mut spooled = Spooled::new(Way::Chunks, None, 1000);
    spooled.produced.make_room(0);
    assert!(!spooled.spool(), "nothing is queued");
    spooled.produced.push(2000);
    assert!(!spooled.spool() && spooled.room.taken() == 0);
    spooled.produced.make_room(u64::MAX);
    spooled.produced.finish();
    spooled.settle();
    spooled.produced.check();
}
