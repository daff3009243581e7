//! Queries to the kernel, and how rare they are: each is a system call.

use sched::Watched;

use super::super::own_queued_bytes::Below;
use super::ledger::gauged;
use super::*;
use std::sync::atomic::Ordering;

/// Before that instant the result would be useless.
#[test]
fn the_queue_is_read_when_a_grant_is_due() {
    let (mut bench, queue) = gauged("srpt");
    let socket = bench.socket('A', u64::MAX);
    bench.dispatch(&socket, 10 * 1_448);
    bench.transmitter.run(&|| bench.now.get());
    let reads = queue.0.reads.load(Ordering::Relaxed);
    assert_eq!(reads, 1);
    // A packet takes 1.2 ms, and we may be 0.3 early.
    bench.now.set(bench.now.get() + Nanos::from_micros(600));
    let due_at = bench.transmitter.run(&|| bench.now.get()).unwrap();
    assert_eq!(queue.0.reads.load(Ordering::Relaxed), reads);
    bench.now.set(due_at);
    bench.transmitter.run(&|| bench.now.get());
    assert_eq!(queue.0.reads.load(Ordering::Relaxed), reads + 1);
}

/// The packets that connections have below matter only if a queue is read, and only for connections that were written
/// to.
#[test]
fn only_connections_written_to_are_asked_what_they_have_below() {
    let below = |mut bench: Bench, room| {
        for name in ['A', 'B'] {
            let socket = bench.socket(name, room);
            socket.queued_below.set(1_600);
            bench.dispatch(&socket, 5_000);
        }
        bench.drive();
        let bytes = [(); 2].map(|()| bench.bytes_below());
        assert_eq!(bytes[0], bytes[1], "asked twice it is the same");
        bytes[0]
    };
    assert_eq!(below(gauged("srpt").0, u64::MAX), 2_000);
    assert_eq!(below(gauged("srpt").0, 0), 0);
    assert_eq!(below(Bench::new("srpt", Some("10mbit")), u64::MAX), 0);
}

/// The path is queried when a response begins, and every 64 KiB; the accounts query the kernel anyway.
#[test]
fn a_path_is_asked_for_now_and_then() {
    let asked = |policy| {
        let mut bench = Bench::new(policy, Some("10mbit"));
        let socket = bench.socket('A', u64::MAX);
        bench.dispatch(&socket, 300_000);
        bench.drive();
        socket.asked.get()
    };
    assert_eq!(asked("srrt") - asked("srpt"), 1 + 300_000 / (64 << 10));
}

/// Connections whose tokens are their numbers, and their sockets.
fn connections<const COUNT: usize>() -> (Connections<FakeSocket>, [FakeSocket; COUNT]) {
    let (mut connections, bench) = (Connections::default(), Bench::new("srpt", None));
    let sockets = std::array::from_fn(|_| bench.socket('A', 0));
    for (at, socket) in sockets.iter().enumerate() {
        connections.open(Nanos::ZERO, at, socket.opening(at as u64));
    }
    (connections, sockets)
}

/// A connection that has ended was read to its end, and its number may be reused.
#[test]
fn a_connection_that_has_ended_has_nothing_below() {
    let (mut connections, [gone, other]) = connections();
    let mut below = Below::new();
    below.on_written(0, &connections);
    [&gone, &other].into_iter().for_each(|socket| socket.queued_below.set(1_600));
    connections.remove(0);
    connections.open(Nanos::ZERO, 0, other.opening(1 << 32));
    assert_eq!(below.bytes(&connections), 0);
}

/// A packet may reach the queue after the next connection was written to.
#[test]
fn a_connection_written_to_is_remembered_though_it_has_nothing_below_yet() {
    let (connections, [first, _]) = connections();
    let mut below = Below::new();
    below.on_written(0, &connections);
    below.on_written(1, &connections);
    first.queued_below.set(1_600);
    assert_eq!(below.bytes(&connections), 1_000);
}

/// Data that TCP holds back for lack of a window leaves unobserved, so it says nothing about the queue. It used to be taken
/// for bytes that had overtaken others: with an upload in the same FIFO, responses on persistent connections took four
/// times as long as without the order.
#[test]
fn only_a_write_that_is_below_as_a_whole_is_watched() {
    let (connections, [one, other]) = connections();
    let mut below = Below::new();
    let write = |below: &mut Below, at, socket: &FakeSocket, queued_bytes| {
        below.on_written(at, &connections);
        socket.queued_below.set(queued_bytes);
        below.look(1_448, &connections);
    };
    write(&mut below, 0, &one, 1_000);
    assert!(!below.watch(), "a part of it is kept");
    write(&mut below, 0, &one, 3_304);
    assert!(below.watch() && !below.watch(), "once");
    write(&mut below, 0, &one, 5_608);
    write(&mut below, 1, &other, 2_304);
    let mut after = |queued_bytes| {
        one.queued_below.set(queued_bytes);
        below.bytes(&connections);
        below.watched()
    };
    assert_eq!([4_608, 2_305, 2_304].map(&mut after), [Watched::Waits, Watched::Waits, Watched::Left]);
    write(&mut below, 1, &other, 4_608);
    assert!(below.watch());
    write(&mut below, 1, &other, 5_000);
    assert_eq!(below.watched(), Watched::Nothing, "a part of what is behind it is kept");
}

/// If this many connections have packets below, one is forgotten: its write is watched no longer, or it would
/// seem to stay forever.
#[test]
fn what_is_forgotten_is_not_watched() {
    let (connections, sockets) = connections::<257>();
    let mut below = Below::new();
    for (at, socket) in sockets.iter().enumerate() {
        below.on_written(at, &connections);
        socket.queued_below.set(2_304);
        if at == 0 {
            below.look(1_448, &connections);
            assert!(below.watch());
        }
        assert_eq!(below.watched() == Watched::Waits, at < 256);
    }
}

/// A full socket reports itself; only if the kernel orders packets would it take bytes all the same.
#[test]
fn room_is_asked_for_only_where_the_kernel_orders() {
    let asked = |rate, is_marked: bool| {
        let mut bench = Bench::new("srpt", rate);
        bench.transmitter.marker = is_marked.then(marker);
        let socket = bench.socket('A', u64::MAX);
        bench.dispatch(&socket, 2 * BURST);
        bench.drive();
        socket.asked_for_room.get()
    };
    assert_eq!((asked(None, false), asked(Some("10mbit"), true), asked(None, true)), (0, 0, 2));
}

const BURST: u64 = 2 * 1_448;

fn marker() -> Marker {
    let bands = Bands { priorities: [7].into(), raise: Raise::default() };
    Marker { bands, burst_bytes: BURST }
}

/// Otherwise every burst after a socket that once took half a segment would leave half a segment.
#[test]
fn a_burst_ends_where_a_segment_does() {
    let mut bench = Bench::new("srpt", None);
    bench.transmitter.marker = Some(marker());
    let socket = bench.socket('A', 1_000);
    let job = bench.dispatch(&socket, 3 * BURST);
    bench.drive();
    socket.room.set(u64::MAX);
    bench.on_writable(bench.now.get(), job);
    bench.drive();
    let taken: Vec<u64> = bench.journal.borrow().iter().map(|(_, bytes)| *bytes).collect();
    assert_eq!(taken, [1_000, BURST - 1_000, BURST, BURST]);
}

/// Learning moves a policy's bands, and a kernel has a fixed number of them.
#[test]
fn a_band_beyond_the_last_is_the_last() {
    let bench = Bench::new("srpt", None);
    let socket = bench.socket('A', 0);
    let bands = Bands { priorities: [7, 8].into(), raise: Raise::default() };
    let (mut socket, mut known) = (socket, None);
    let told = [5, 1, 0].map(|band| bands.mark(&mut socket, &mut known, band));
    assert_eq!((told, &*socket.priorities.borrow()), ([true, false, true], &vec![8, 7]));
}

/// A packet of it waits below TCP: only the papers' rule lets others overtake that one.
#[test]
fn the_papers_rule_does_not_wait() {
    let marked = |raise| {
        let mut socket = Bench::new("srpt", None).socket('A', 0);
        socket.queued_below.set(1_448);
        let (bands, mut known) = (Bands { priorities: [7, 8].into(), raise }, None);
        [1, 0].map(|band| bands.mark(&mut socket, &mut known, band))
    };
    assert_eq!((marked(Raise::WhenEmpty), marked(Raise::AtOnce)), ([true, false], [true, true]));
}

#[test]
fn without_a_band_nothing_is_marked() {
    let (mut socket, bands) =
        (Bench::new("srpt", None).socket('A', 0), Bands { priorities: [].into(), raise: Raise::default() });
    assert!(!bands.mark(&mut socket, &mut None, 0) && socket.priorities.borrow().is_empty());
}

#[test]
fn a_connection_keeps_its_framing() {
    let framing = Framing::new(1_428, true, true);
    let mut bench = Bench::new("srpt", None);
    let socket = FakeSocket { framing, ..bench.socket('A', 0) };
    let at = bench.open(&socket);
    assert_eq!(bench.transmitter.connections[at].delivery.framing(), framing);
}
