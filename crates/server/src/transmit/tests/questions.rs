//! What is asked of the kernel, and how seldom: each answer is a system call.

use super::ledger::gauged;
use super::*;
use std::sync::atomic::Ordering;

/// Before that nothing could be done with what it says.
#[test]
fn the_queue_is_read_when_a_grant_is_due() {
    let (mut bench, queue) = gauged("srpt");
    let socket = bench.socket('A', u64::MAX);
    bench.dispatch(&socket, 10 * 1_448);
    bench.transmitter.run(&|| bench.now.get());
    let reads = queue.0.reads.load(Ordering::Relaxed);
    assert_eq!(reads, 1);
    // A packet takes 1.2 ms, of which we may be 0.3 early.
    bench.now.set(bench.now.get() + Nanos::from_micros(600));
    let due_at = bench.transmitter.run(&|| bench.now.get()).unwrap();
    assert_eq!(queue.0.reads.load(Ordering::Relaxed), reads);
    bench.now.set(due_at);
    bench.transmitter.run(&|| bench.now.get());
    assert_eq!(queue.0.reads.load(Ordering::Relaxed), reads + 1);
}

/// Which connections have something below is of use only beside a queue that is read, and only of those written to.
#[test]
fn only_connections_written_to_are_asked_what_they_have_below() {
    let below = |mut bench: Bench, room| {
        let socket = bench.socket('A', room);
        socket.queued_below.set(1_600);
        bench.dispatch(&socket, 5_000);
        bench.drive();
        bench.transmitter.below.bytes()
    };
    assert_eq!(below(gauged("srpt").0, u64::MAX), 1_000);
    assert_eq!(below(gauged("srpt").0, 0), 0);
    assert_eq!(below(Bench::new("srpt", Some("10mbit")), u64::MAX), 0);
}

/// When a response begins, and every 64 KiB; for its books the kernel is asked anyhow.
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
