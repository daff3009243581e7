//! Files that are not in memory, with a disk that answers when the test says so.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::secure::{connected, deliver};
use super::*;
use crate::disk::Buffer;
use crate::files::{Content, Entry, temporary::Folder};
use crate::storage::ReadDone;
use crate::storage::{Look, Storage};

const LARGE: u64 = 200_000;

/// A disk: the reads requested, and whether everything is in memory.
#[derive(Clone, Default)]
struct FakeDisk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_warm: bool,
    asked: Vec<(JobId, Arc<Entry>, Range<u64>)>,
    done: Vec<ReadDone>,
    /// Looks are copies up to this many bytes.
    copied_bytes_max: u64,
}

impl FakeDisk {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Ends the only read under way with this many bytes.
    fn answer(&self, bytes: usize) {
        let mut state = self.state();
        assert_eq!(state.asked.len(), 1);
        let (job, entry, range) = state.asked.pop().unwrap();
        let mut content = read(&entry, range);
        content.truncate(bytes);
        state.done.push(ReadDone { job, result: Ok(Buffer::from(content)) });
    }

    fn fail(&self) {
        let (job, ..) = self.state().asked.pop().unwrap();
        let result = Err(io::Error::from(io::ErrorKind::StaleNetworkFileHandle));
        self.state().done.push(ReadDone { job, result });
    }

    fn asked(&self) -> usize {
        self.state().asked.len()
    }
}

struct Handle(FakeDisk, Vec<u8>);

impl Storage for Handle {
    fn look(&mut self, entry: &Entry, offset: u64, count: u64) -> io::Result<Look<'_>> {
        let state = self.0.state();
        if !state.is_warm {
            return Ok(Look::Absent);
        }
        if count > state.copied_bytes_max {
            return Ok(Look::Resident(count));
        }
        self.1 = read(entry, offset..offset + count);
        Ok(Look::Copied(&self.1))
    }

    fn read_aside(&mut self, job: JobId, _client: u32, entry: &Arc<Entry>, range: Range<u64>) -> io::Result<()> {
        self.0.state().asked.push((job, entry.clone(), range));
        Ok(())
    }

    fn take_done(&mut self, into: &mut Vec<ReadDone>) {
        into.append(&mut self.0.state().done);
    }
}

fn read(entry: &Entry, range: Range<u64>) -> Vec<u8> {
    let Content::Open(file) = &entry.content else { panic!("the file is held") };
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let read = std::os::unix::fs::FileExt::read_at(&**file, &mut bytes, range.start).unwrap();
    bytes.truncate(read);
    bytes
}

/// A bench with a cold file.
struct Cold {
    bench: Bench,
    disk: FakeDisk,
    entry: Arc<Entry>,
    content: Vec<u8>,
    _folder: Folder,
}

impl Cold {
    fn new(rate: Option<&str>) -> Cold {
        let folder = Folder::new();
        let content: Vec<u8> = (0..LARGE).map(|at| (at * 31 / 7) as u8).collect();
        folder.put("cold", &content);
        let entry = folder.entry("cold");
        let disk = FakeDisk::default();
        let mut bench = Bench::new("srpt", rate);
        bench.transmitter.reads = Reads::from(Handle(disk.clone(), Vec::new()));
        Cold { bench, disk, entry, content, _folder: folder }
    }

    fn dispatch(&mut self, socket: &FakeSocket, range: Range<u64>) -> JobId {
        let rest = Body::from(Piece::File { entry: self.entry.clone(), range });
        self.bench.dispatch_outgoing(socket, Outgoing::new(b"head".to_vec(), rest, End::Finish))
    }
}

/// The best response needs the disk: its head leaves, the others have the link, and it continues when its bytes are
/// there.
#[test]
fn a_cold_file_is_passed_over() {
    for rate in [None, Some("10mbit")] {
        let mut cold = Cold::new(rate);
        let (slow, other) = (cold.bench.socket('C', u64::MAX), cold.bench.socket('W', u64::MAX));
        cold.dispatch(&slow, 0..6_000);
        cold.bench.dispatch(&other, 20_000);
        cold.bench.drive();
        assert_eq!(cold.bench.order(), "CW");
        assert_eq!(*slow.received.borrow(), b"head");
        assert_eq!(cold.bench.transmitter.departures().map(|departure| name_of(&departure)).collect::<String>(), "W");
        assert!(!cold.bench.transmitter.is_idle(cold.bench.now.get()));
        cold.disk.answer(4_000);
        cold.bench.drive();
        assert_eq!(slow.received.borrow().len(), 4_004, "and the rest is asked for");
        cold.disk.answer(2_000);
        cold.bench.drive();
        assert_eq!(slow.received.borrow()[4..], cold.content[..6_000]);
        assert!(cold.bench.transmitter.departures().all(|departure| departure.failure.is_none()));
        assert!(cold.bench.transmitter.is_idle(cold.bench.now.get()) && slow.is_finished.get());
    }
}

/// Under TLS too the disk delays no other response, and what was read is sealed.
#[test]
fn a_cold_file_is_passed_over_under_tls() {
    for (rate, is_warm) in [(None, false), (Some("10mbit"), false), (None, true), (Some("10mbit"), true)] {
        let mut cold = Cold::new(rate);
        cold.disk.state().is_warm = is_warm;
        let (slow, other, (mut client, session)) =
            (cold.bench.socket('C', u64::MAX), cold.bench.socket('W', u64::MAX), connected());
        let rest = Body::from(Piece::File { entry: cold.entry.clone(), range: 0..20_000 });
        let outgoing = Outgoing::new(b"head".to_vec(), rest, End::Finish);
        cold.bench.dispatch_secure(&slow, session, outgoing);
        cold.bench.dispatch(&other, 30_000);
        cold.bench.drive();
        assert_eq!(cold.bench.order(), "CW");
        if !is_warm {
            assert_eq!(deliver(&mut client, &slow.received.take()).0, b"head");
            assert_eq!(cold.disk.asked(), 1);
            cold.disk.answer(20_000);
            cold.bench.drive();
        }
        let (received, has_ended) = deliver(&mut client, &slow.received.borrow());
        let head = if is_warm { 4 } else { 0 };
        assert!(received[head..] == cold.content[..20_000] && has_ended && slow.is_finished.get());
        assert!(cold.bench.transmitter.departures().all(|departure| departure.failure.is_none()));
    }
}

/// Ready only if no reason is left: while the disk is silent, a socket that takes bytes changes nothing.
#[test]
fn a_writable_socket_does_not_wait_less_for_the_disk() {
    let mut cold = Cold::new(None);
    let slow = cold.bench.socket('C', u64::MAX);
    let job = cold.dispatch(&slow, 0..LARGE);
    for _ in 0..3 {
        cold.bench.drive();
        cold.bench.on_writable(cold.bench.now.get(), job);
        assert_eq!(cold.disk.asked(), 1, "asked for one read at a time");
        assert_eq!(cold.bench.transmitter.run(&|| Nanos::from_secs(2)), None);
    }
}

/// The reader is not to blame for the disk, but is again when it has bytes to take.
#[test]
fn patience_does_not_run_while_the_disk_is_waited_for() {
    let mut cold = Cold::new(None);
    let slow = cold.bench.socket('C', 10);
    cold.dispatch(&slow, 0..LARGE);
    cold.bench.drive();
    for second in 2..100 {
        cold.bench.transmitter.end_all_stalled(Nanos::from_secs(second));
    }
    assert_eq!(cold.bench.transmitter.departures().count(), 0);
    cold.disk.answer(1_000);
    cold.bench.drive();
    assert_eq!(slow.received.borrow().len(), 10);
    for second in 100..=110 {
        cold.bench.transmitter.end_all_stalled(Nanos::from_secs(second));
    }
    let departure = cold.bench.transmitter.departures().next().expect("the reader is too slow now");
    assert!(matches!(departure.failure, Some(Failure::Stalled)));
}

/// Data read for a stream used to be counted nowhere: with a hundred of them a client held 13 MB.
#[test]
fn what_was_read_is_counted_and_its_connection_is_named() {
    for is_framed in [false, true] {
        let mut cold = Cold::new(None);
        let socket = cold.bench.socket('C', u64::MAX);
        let at = if is_framed {
            let at = cold.bench.framed(&socket, None, &[1], true);
            let body = Body::from(Piece::File { entry: cold.entry.clone(), range: 0..LARGE });
            let dispatch = cold.bench.on_stream(at, 1, Outgoing::on_stream(framed::head(), body));
            cold.bench.transmitter.dispatch(cold.bench.now.get(), dispatch).unwrap();
            at
        } else {
            let job = cold.dispatch(&socket, 0..LARGE);
            cold.bench.transmitter.sendings[job].connection()
        };
        cold.bench.drive();
        socket.room.set(0);
        cold.disk.answer(100_000);
        cold.bench.drive();
        let transmitter = &mut cold.bench.transmitter;
        let connection = &transmitter.connections[at];
        // Without what the connection itself costs.
        let held_bytes = connection.held.bytes() - connection.held.own_bytes() as u64;
        assert_eq!(held_bytes, transmitter.alive_bytes(at) as u64);
        assert!((100_000..280_000).contains(&held_bytes), "{held_bytes}, {is_framed}");
        socket.room.set(u64::MAX);
        transmitter.on_writable(cold.bench.now.get(), at);
        cold.bench.drive();
        let transmitter = &mut cold.bench.transmitter;
        assert!(transmitter.connections[at].held.account().bytes() < 100_000);
    }
}

#[test]
fn a_read_that_ends_after_its_response_changes_nothing() {
    let mut cold = Cold::new(None);
    let (gone, next) = (cold.bench.socket('G', u64::MAX), cold.bench.socket('N', u64::MAX));
    let job = cold.dispatch(&gone, 0..LARGE);
    cold.bench.drive();
    cold.bench.transmitter.abort(cold.bench.now.get(), job, Failure::Disconnected);
    assert_eq!(cold.bench.transmitter.departures().count(), 1);
    assert!(!cold.bench.transmitter.is_idle(cold.bench.now.get()), "the read is still under way");
    // Another response takes the slot.
    cold.disk.state().is_warm = true;
    next.room.set(100);
    cold.dispatch(&next, 0..LARGE);
    cold.bench.drive();
    cold.disk.answer(5_000);
    cold.bench.drive();
    assert_eq!((gone.received.borrow().len(), next.received.borrow().len()), (4, 100));
}

#[test]
fn what_cannot_be_read_ends_the_response_by_name() {
    let mut cold = Cold::new(None);
    let socket = cold.bench.socket('C', u64::MAX);
    for is_error in [true, false] {
        cold.dispatch(&FakeSocket { is_finished: Rc::default(), ..socket.clone() }, 0..LARGE);
        cold.bench.drive();
        if is_error {
            cold.disk.fail()
        } else {
            cold.disk.answer(0)
        }
        cold.bench.drive();
        let departure = cold.bench.transmitter.departures().next().unwrap();
        match departure.failure {
            Some(Failure::Unreadable { path, error }) if is_error => {
                assert_eq!((&*path, error.kind()), ("cold", io::ErrorKind::StaleNetworkFileHandle));
            }
            Some(Failure::Truncated { path }) if !is_error => assert_eq!(&*path, "cold"),
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    /// Whatever is in memory at any time, however long reads and writes are: the bytes are the file's.
    #[test]
    fn bytes_are_the_files(
        steps in prop::collection::vec((any::<bool>(), 1usize..70_000, 1u64..90_000), 1..40),
        copied_bytes_max in 0u64..100_000,
        start in 0..LARGE,
    ) {
        let mut cold = Cold::new(None);
        cold.disk.state().copied_bytes_max = copied_bytes_max;
        let socket = cold.bench.socket('C', 0);
        let job = cold.dispatch(&socket, start..LARGE);
        for (is_warm, read_bytes, room) in steps.into_iter().chain([(false, usize::MAX, u64::MAX)]) {
            cold.disk.state().is_warm = is_warm;
            socket.room.set(room);
            cold.bench.on_writable(cold.bench.now.get(), job);
            cold.bench.drive();
            if cold.disk.asked() > 0 {
                cold.disk.answer(read_bytes);
                cold.bench.drive();
            }
        }
        prop_assert_eq!(&socket.received.borrow()[..4], b"head");
        prop_assert!(cold.content[start as usize..].iter().eq(&socket.received.borrow()[4..]));
        prop_assert_eq!(cold.bench.transmitter.departures().count(), 1);
    }
}
