//! A response and its connection: when it departs, and how slow its reader may be.

use super::*;

const SEGMENT: u64 = 1_448;

#[test]
fn a_departure_says_when_it_began_and_ended() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let (first, socket) = (bench.socket('B', u64::MAX), bench.socket('A', u64::MAX));
    bench.dispatch(&first, SEGMENT);
    bench.dispatch(&socket, 3 * SEGMENT);
    let began = bench.now.get();
    bench.drive();
    let departure = bench.transmitter.departures().nth(1).unwrap();
    let (name, sent_bytes) = (name_of(&departure), departure.sent_bytes);
    assert_eq!((name, sent_bytes, departure.ended_at), ('A', 3 * SEGMENT, bench.now.get()));
    assert!(departure.first_byte_at.is_some_and(|at| at > began && at < departure.ended_at), "{departure:?}");
}

/// A thousand bytes per second, over ten seconds.
#[test]
fn a_reader_has_to_take_so_much_in_every_window() {
    for (taken, is_stalled) in [(10_000, false), (9_999, true)] {
        let mut bench = Bench::new("srpt", None);
        let socket = bench.socket('A', 10_000);
        let job = bench.dispatch(&socket, 100_000);
        bench.drive();
        bench.transmitter.end_all_stalled(Nanos::from_secs(11));
        socket.room.set(taken);
        bench.on_writable(Nanos::from_secs(12), job);
        bench.drive();
        (13..=20).for_each(|second| bench.transmitter.end_all_stalled(Nanos::from_secs(second)));
        bench.transmitter.end_all_stalled(Nanos::from_secs(21) - Nanos(1));
        assert_eq!(bench.transmitter.departures().count(), 0);
        bench.transmitter.end_all_stalled(Nanos::from_secs(21));
        assert_eq!(bench.transmitter.departures().count() == 1, is_stalled, "{taken}");
    }
}

/// A socket may hold more than its client reads in several windows; such a client used to be given up.
#[test]
fn a_reader_has_the_time_that_what_its_socket_holds_takes() {
    for (rate, is_stalled) in [(10_000, false), (999, true)] {
        let mut bench = Bench::new("srpt", None);
        let socket = bench.socket('A', 1 << 20);
        bench.dispatch(&socket, 2 << 20);
        bench.drive();
        for second in 2..=100 {
            socket.acked.set(rate * second);
            bench.transmitter.end_all_stalled(Nanos::from_secs(second));
        }
        assert_eq!(bench.transmitter.departures().count() == 1, is_stalled, "{rate}");
    }
}

/// A path that keeps changing would cost a system call each time.
#[test]
fn marks_are_as_few_as_bands() {
    let mut bench = Bench::new("srrt:50ms,200ms", None);
    let bands = Bands { priorities: [7, 8, 9].into(), raise: Raise::default() };
    bench.transmitter.marker = Some(Marker { bands, burst_bytes: SEGMENT });
    let socket = bench.socket('A', 0);
    let job = bench.dispatch(&socket, 100_000);
    for turn in 0..20 {
        let rtt = Some(Nanos::from_millis(if turn % 2 == 0 { 1 } else { 5_000 }));
        socket.path.set(Path { rtt, cwnd_bytes: Some(14_480), throughput_bps: None });
        socket.room.set(SEGMENT);
        bench.drive();
        bench.on_writable(bench.now.get(), job);
        bench.drive();
    }
    assert_eq!(socket.priorities.borrow().len(), 3, "{:?}", socket.priorities);
}

/// The number of responses for which the tables have room.
fn slots(bench: &Bench) -> usize {
    bench.transmitter.link.scheduler.jobs().slots().max(bench.transmitter.sendings.capacity())
}

/// Tables are as long as the maximum of simultaneous responses, until they are shrunk.
#[test]
fn the_memory_of_many_responses_is_given_back() {
    let mut bench = Bench::new("srpt", None);
    let sockets: Vec<_> = (0..2_000).map(|_| bench.socket('A', u64::MAX)).collect();
    let jobs: Vec<_> = sockets.iter().map(|socket| bench.dispatch(socket, 1_000)).collect();
    assert!(slots(&bench) >= 2_000);
    let now = bench.now.get();
    jobs[1..].iter().for_each(|&job| bench.transmitter.abort(now, job, Failure::Disconnected));
    assert_eq!(bench.transmitter.departures().count(), 1_999);
    bench.transmitter.shrink();
    assert!(slots(&bench) < 100, "{}", slots(&bench));
    bench.drive();
    assert_eq!(bench.transmitter.departures().count(), 1);
}
