//! The share between clients, on the write path.

use std::sync::Arc;

use sched::policy::{ClientShare, PolicySpec};

use super::*;
use crate::clients::ClientRate;

/// The client that always requests more.
const GREEDY: char = 'G';

impl Bench {
    /// A bench at 10 Mbit/s under srpt, a server's default.
    fn shared(is_shared: bool) -> Bench {
        let rate: Rate = "10mbit".parse().unwrap();
        let share = is_shared.then(|| ClientShare::of_link(Some(rate)));
        let policy = "srpt".parse::<PolicySpec>().unwrap().build_among_clients(share);
        let pace = Pace { rate: Some(rate), ahead: Nanos::from_micros(300), ..Pace::UNLIMITED };
        let patience = Patience { rate_bytes_per_s_min: 1, window: Nanos::from_secs(1000) };
        let transmitter = Transmitter::new(Link::new(Scheduler::new(policy, pace), None), patience);
        Bench { transmitter, ..Bench::new("srpt", Some("10mbit")) }
    }

    /// Dispatches a response of the greedy client, on a connection of its own.
    fn dispatch_range(&mut self, bytes: u64) {
        let socket = self.socket(GREEDY, u64::MAX);
        self.dispatch(&socket, bytes);
    }

    /// Runs until this instant, repeating each response of the greedy client that ends. Returns the other responses
    /// that end.
    fn drive_beside(&mut self, until: Nanos) -> Vec<Departure> {
        let mut others = Vec::new();
        while self.now.get() < until {
            let mut next = self.transmitter.run(&|| self.now.get()).unwrap_or(until);
            let ended: Vec<Departure> = self.transmitter.departures().collect();
            if !ended.is_empty() {
                next = self.now.get();
            }
            for departure in ended {
                if name_of(&departure) == GREEDY {
                    self.dispatch_range(departure.sent_bytes);
                } else {
                    others.push(departure);
                }
            }
            self.now.set(next.min(until).max(self.now.get()));
        }
        others
    }

    /// The time that 300 KB take a client while another always has this many ranges of this size under way, and has had
    /// for a while.
    fn beside(&mut self, ranges: usize, bytes: u64) -> Option<Nanos> {
        for _ in 0..ranges {
            self.dispatch_range(bytes);
        }
        let began = self.now.get();
        self.drive_beside(began + Nanos::from_secs(12));
        let asked_at = self.now.get();
        let other = self.socket('B', u64::MAX);
        self.dispatch(&other, 300_000);
        let ended = self.drive_beside(asked_at + Nanos::from_secs(5));
        ended.first().map(|departure| departure.ended_at - asked_at)
    }
}

#[test]
fn a_client_that_splits_its_download_holds_nobody_back() {
    let alone = Nanos::from_millis(250);
    let time = Bench::shared(true).beside(8, 100_000).expect("it ends");
    assert!(time < Nanos(alone.0 * 11 / 10), "{time:?}");
    assert_eq!(Bench::shared(false).beside(8, 100_000), None, "without a share it waits on");
}

/// The client's flights are jobs of its own, on an endless series of connections.
#[test]
fn a_client_that_opens_handshakes_without_end_holds_nobody_back() {
    let alone = Nanos::from_millis(250);
    for bytes in [3_500, 700] {
        let time = Bench::shared(true).beside(64, bytes).expect("it ends");
        assert!(time < Nanos(alone.0 * 11 / 10), "{bytes}: {time:?}");
        assert_eq!(Bench::shared(false).beside(64, bytes), None, "without a share the shorter come first");
    }
}

/// A limit of a megabyte per second to a client, 10 KB at once.
struct SlowRate(std::sync::Mutex<(u64, Nanos)>);

impl ClientRate for SlowRate {
    fn spend(&self, client: u32, bytes: u64, now: Nanos) -> Option<Nanos> {
        if client != GREEDY as u32 {
            return None;
        }
        let (level, at) = &mut *self.0.lock().unwrap();
        let micros = (now - *at).0 / 1000;
        *level = level.saturating_sub(micros) + bytes;
        *at += Nanos::from_micros(micros);
        (*level > 10_000).then(|| now + Nanos((*level - 10_000) * 1000))
    }
}

/// The client's responses wait, also one that arrives meanwhile, and others go on.
#[test]
fn a_client_beyond_its_rate_waits_and_others_go_on() {
    for rate in [None, Some("100mbit")] {
        let mut bench = Bench::new("srpt", rate);
        let began = bench.now.get();
        bench.transmitter.limit = Limit::new(Some(Arc::new(SlowRate((0, began).into()))));
        let sockets = [GREEDY, GREEDY, 'B'].map(|name| bench.socket(name, u64::MAX));
        for (socket, bytes) in sockets.iter().zip([50_000, 200_000, 300_000]) {
            bench.dispatch(socket, bytes);
        }
        bench.drive();
        let ended: Vec<(char, Nanos)> =
            bench.transmitter.departures().map(|departure| (name_of(&departure), departure.ended_at - began)).collect();
        let at = |name: char| ended.iter().filter(move |one| one.0 == name).map(|one| one.1);
        assert!(at('B').next().is_some_and(|at| at < Nanos::from_millis(40)), "{rate:?}: {ended:?}");
        // 250 KB at a megabyte per second, without what may leave at once and the last grant, which is not taken back.
        let least = Nanos::from_millis(if rate.is_some() { 200 } else { 40 });
        assert!(at(GREEDY).count() == 2 && at(GREEDY).max() >= Some(least), "{rate:?}: {ended:?}");
    }
}

#[test]
fn a_response_that_waits_for_its_rate_can_be_aborted() {
    let mut bench = Bench::new("srpt", Some("100mbit"));
    let began = bench.now.get();
    bench.transmitter.limit = Limit::new(Some(Arc::new(SlowRate((0, began).into()))));
    let socket = bench.socket(GREEDY, u64::MAX);
    let job = bench.dispatch(&socket, 100_000);
    bench.transmitter.run(&|| bench.now.get());
    bench.transmitter.abort(bench.now.get(), job, Failure::Disconnected);
    assert!(bench.transmitter.link.scheduler().jobs().is_empty());
    // Its slot goes to another job, to which the instant of its release does not apply.
    let other = bench.socket('B', u64::MAX);
    bench.dispatch(&other, 5_000);
    bench.drive();
    assert_eq!(bench.transmitter.departures().map(|departure| name_of(&departure)).collect::<String>(), "GB");
}
