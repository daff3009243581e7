//! The pace on a line slower than configured: how it follows the sockets' round trips.

use super::*;
use sched::line::{Bounds, Notice};

/// A line below us, with an unbounded FIFO.
struct Line {
    rate: Rate,
    idle_at: Nanos,
}

impl Line {
    fn take(&mut self, now: Nanos, payload_bytes: u64) {
        self.idle_at = self.idle_at.max(now) + self.rate.time_for(units::wire::bytes_of(payload_bytes, 1448));
    }
}

/// Sends one endless response for six seconds; returns the pace at the end, the notices, and the queue at the end.
fn run(told: &str, line: &str) -> (Rate, Vec<Notice>, Nanos) {
    run_on(Bench::new("srpt", Some(told)), line)
}

fn run_on(bench: Bench, line: &str) -> (Rate, Vec<Notice>, Nanos) {
    run_with_losses(bench, line, &[0])
}

/// Sends to several clients, with this many thousandths retransmitted to each.
fn run_with_losses(mut bench: Bench, line: &str, lost_permille: &[u64]) -> (Rate, Vec<Notice>, Nanos) {
    let mut line = Line { rate: line.parse().unwrap(), idle_at: Nanos::ZERO };
    let sockets: Vec<_> = ('A'..).take(lost_permille.len()).map(|name| bench.socket(name, u64::MAX)).collect();
    let set_path = |rtt| sockets.iter().for_each(|socket| socket.path.set(Path { rtt: Some(rtt), ..Path::default() }));
    let mut notices = vec![];
    set_path(Nanos::from_millis(1));
    for socket in &sockets {
        bench.dispatch(socket, 100_000_000);
    }
    let end = bench.now.get() + Nanos::from_secs(6);
    while bench.now.get() < end {
        let at = bench.transmitter.run(&|| bench.now.get()).expect("a response is being sent");
        for (name, bytes) in bench.journal.borrow_mut().drain(..) {
            line.take(bench.now.get(), bytes);
            let which = (name as u8 - b'A') as usize;
            let socket = &sockets[which];
            socket.acked.set(socket.acked.get() + bytes);
            socket.retransmitted.set(socket.acked.get() / 1448 * lost_permille[which] / 1000 * 1448);
        }
        set_path(Nanos::from_millis(1) + (line.idle_at - bench.now.get()));
        notices.extend(bench.transmitter.link.notices().map(|notice| match notice {
            super::Notice::Pace(notice) => notice,
            other => panic!("{other}"),
        }));
        bench.now.set(at.max(bench.now.get()));
    }
    (bench.transmitter.link.scheduler().pacer().pace().rate.unwrap(), notices, line.idle_at - bench.now.get())
}

/// TCP_INFO is refused: what was sent or acknowledged is unknown. A configured rate stays, none is made up, and
/// everything is sent.
#[test]
fn where_the_kernel_tells_nothing_the_pace_stays() {
    for (bounds, told) in [(Bounds::default(), None), (Bounds::told("10mbit".parse().unwrap()), Some("9.8mbit"))] {
        let mut bench = Bench::new("srpt", told);
        bench.transmitter.link.observer = Some(super::super::line_feedback::Observer::new(bounds));
        let [large, small] = ['A', 'B'].map(|name| bench.socket(name, u64::MAX));
        [&large, &small].into_iter().for_each(|socket| socket.is_counted.set(false));
        large.room.set(7_000_000);
        bench.dispatch(&large, 8_000_000);
        let begin = bench.now.get();
        let mut sent = vec![];
        for millis in 0..5000 {
            if millis == 1000 {
                bench.dispatch(&small, 1000);
            }
            bench.now.set(begin + Nanos::from_millis(millis));
            bench.transmitter.run(&|| bench.now.get());
            sent.extend(bench.journal.borrow_mut().drain(..).map(|(name, _)| (millis, name)));
        }
        let pace = bench.transmitter.link.scheduler().pacer().pace().rate;
        assert_eq!(pace, told.map(|rate| rate.parse().unwrap()), "{bounds:?}");
        let small_at = sent.iter().find(|(_, name)| *name == 'B').map(|(millis, _)| *millis);
        assert!(small_at.is_some_and(|at| at <= 1002), "the small one goes first: {small_at:?}");
        assert_eq!(bench.transmitter.link.notices().count(), 0);
    }
}

#[test]
fn a_rate_told_right_is_kept() {
    let (rate, _, _) = run("9.8mbit", "10mbit");
    assert_eq!(rate, "9.8mbit".parse().unwrap());
}

/// A queue that can be read needs no estimate from round trips, which may rise anywhere on their path.
#[test]
fn where_the_queue_is_read_round_trips_change_nothing() {
    let (rate, notices, _) = run_on(ledger::gauged("srpt").0, "7mbit");
    assert!(rate == "10mbit".parse().unwrap() && notices.is_empty(), "{rate} {notices:?}");
}

/// A client on a bad radio link, and one without losses.
#[test]
fn what_one_client_loses_is_its_own() {
    let (rate, _, _) = run_with_losses(Bench::new("fair", Some("10mbit")), "100mbit", &[0, 50]);
    assert_eq!(rate, "10mbit".parse().unwrap());
}
