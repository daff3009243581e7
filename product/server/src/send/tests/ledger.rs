//! The law of the ledger: once everything has come to rest, the bytes charged are the bytes that left.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A queue below that the test fills, changes and breaks.
#[derive(Clone, Default)]
pub(super) struct FakeQueue(pub(super) Arc<Stream>);

#[derive(Default)]
pub(super) struct Stream {
    pub bytes: AtomicU64,
    /// Bits per second; zero means that there is no shaper.
    rate: AtomicU64,
    /// Nonzero if reading fails.
    fails: AtomicU64,
    pub reads: AtomicU64,
}

impl Queue for FakeQueue {
    fn name(&self) -> &str {
        "fake0"
    }

    fn read(&mut self) -> io::Result<Queued> {
        self.0.reads.fetch_add(1, Ordering::Relaxed);
        match self.0.fails.load(Ordering::Relaxed) {
            0 => Ok(Queued { bytes: self.0.bytes.load(Ordering::Relaxed), drops: 0 }),
            _ => Err(io::Error::other("out of order")),
        }
    }

    fn find(&mut self) -> io::Result<Option<Rate>> {
        Ok(Rate::from_bits_per_s(self.0.rate.load(Ordering::Relaxed)))
    }
}

const MBIT: u64 = 1_000_000;

/// A bench whose queue is read, on a link of 10 Mbit/s.
pub(super) fn gauged(policy: &str) -> (Bench, FakeQueue) {
    let mut bench = Bench::new(policy, Some("10mbit"));
    let queue = FakeQueue::default();
    queue.0.rate.store(10 * MBIT, Ordering::Relaxed);
    bench.transmitter.link.gauge = Some(gauge(&queue));
    (bench, queue)
}

impl Bench {
    fn check_at(&mut self, second: u64) -> Vec<String> {
        self.now.set(Nanos::from_secs(second));
        let Transmitter { own, connections } = &mut self.transmitter;
        own.link.check(connections, self.now.get());
        self.transmitter.link.notices().map(|notice| notice.to_string()).collect()
    }

    fn rate(&self) -> String {
        self.transmitter.link.scheduler().pacer().ledger().rate().unwrap().to_string()
    }

    /// Sends a response; returns the time it took.
    fn send(&mut self, socket: &FakeSocket, bytes: u64) -> Nanos {
        let began = self.now.get();
        self.dispatch(socket, bytes);
        self.drive();
        self.now.get() - began
    }
}

/// A foreign upload in the queue used to block every response for as long as it stood there.
#[test]
fn somebody_elses_backlog_stops_nobody() {
    let (mut bench, queue) = gauged("srpt");
    queue.0.bytes.store(150_000, Ordering::Relaxed);
    let socket = bench.socket('A', u64::MAX);
    // In a FIFO our share of it is always there: 60 of the 150 KB.
    socket.queued_below.set(96_000);
    let took = bench.send(&socket, 144_800);
    // 100 packets: 121 ms alone, twice that at the half that is left, and the time it takes to be sure of that.
    assert!(took < Nanos::from_millis(320), "{took:?}");
    assert!(took > Nanos::from_millis(200), "{took:?}");
    let notices = bench.check_at(2);
    assert!(
        notices.len() == 1 && notices[0].contains("fake0: 90 KB of other traffic in the same queue"),
        "{notices:?}"
    );
    assert!(notices[0].contains("keeps 50 % of the link, responses get 4.9mbit"), "{notices:?}");
    for second in [3, 61] {
        assert_eq!(bench.check_at(second), [""; 0], "said once a minute");
    }
    assert_eq!(bench.check_at(62).len(), 1);
}

/// Our own bytes in the queue are awaited: that is the purpose of the gauge.
#[test]
fn our_own_backlog_holds_us_back() {
    let (mut bench, queue) = gauged("srpt");
    let socket = bench.socket('A', u64::MAX);
    socket.queued_below.set(240_000);
    queue.0.bytes.store(125_000, Ordering::Relaxed);
    bench.dispatch(&socket, 1_448 * 3);
    bench.transmitter.run(&|| bench.now.get());
    let sent = bench.journal.borrow().len();
    for _ in 0..40 {
        bench.now.set(bench.now.get() + Nanos::from_millis(1));
        bench.transmitter.run(&|| bench.now.get());
    }
    assert_eq!(bench.journal.borrow().len(), sent.max(1), "the queue did not shrink, so nothing may follow");
}

/// A gauge that fails used to be worse than none: held-back bytes were never charged, at the whole rate.
#[test]
fn a_gauge_that_fails_is_blind_pacing_and_said_once() {
    let (mut bench, queue) = gauged("srpt");
    queue.0.fails.store(1, Ordering::Relaxed);
    let socket = bench.socket('A', u64::MAX);
    bench.now.set(Nanos::from_millis(1_500));
    bench.send(&socket, 50_000);
    assert_eq!(bench.check_at(2), [""; 0], "one failure is not the end");
    assert_eq!(bench.rate(), "10mbit");
    let notices = bench.check_at(4);
    assert_eq!(notices, ["fake0: cannot read the queue: out of order; pacing at 9.8mbit without it"]);
    assert_eq!((bench.check_at(5), bench.rate()), (vec![], "9.8mbit".into()), "the queue is found, and still not read");
    queue.0.fails.store(0, Ordering::Relaxed);
    assert_eq!(bench.check_at(6), ["fake0: found a shaper at 10mbit; pacing at that rate"]);
}

/// A shaper changed, removed and added under us.
#[test]
fn the_pace_follows_the_shaper() {
    let (mut bench, queue) = gauged("srpt");
    queue.0.rate.store(5 * MBIT, Ordering::Relaxed);
    assert_eq!(bench.check_at(2), ["fake0: shaper changed from 10mbit to 5mbit; pacing at that rate"]);
    assert_eq!((bench.check_at(3), bench.rate()), (vec![], "5mbit".into()));
    queue.0.rate.store(0, Ordering::Relaxed);
    assert_eq!(
        bench.check_at(4),
        ["fake0: cannot read the queue: no shaper limits it any more; pacing at 4.9mbit without it"]
    );
    assert_eq!((bench.check_at(5), bench.rate()), (vec![], "4.9mbit".into()));
    queue.0.rate.store(20 * MBIT, Ordering::Relaxed);
    assert_eq!(bench.check_at(6), ["fake0: found a shaper at 20mbit; pacing at that rate"]);
    assert_eq!(bench.rate(), "20mbit");
}

/// A gauge whose answers take long is read less often: at most a fiftieth of a core.
#[test]
fn a_dear_gauge_is_read_less_often() {
    let reads = |cost: Nanos| {
        let (mut bench, queue) = gauged("srpt");
        let socket = bench.socket('A', u64::MAX);
        bench.dispatch(&socket, 1_448 * 1_000);
        while let Some(at) = bench.transmitter.run(&|| {
            bench.now.set(bench.now.get() + cost);
            bench.now.get()
        }) {
            bench.now.set(at.max(bench.now.get()));
        }
        queue.0.reads.load(Ordering::Relaxed)
    };
    let (cheap, dear) = (reads(Nanos::from_micros(1)), reads(Nanos::from_micros(200)));
    assert!(cheap > 900 && dear < 150, "{cheap} and {dear}");
}

fn gauge(queue: &FakeQueue) -> Gauge {
    Gauge::new(Box::new(queue.clone()), "10mbit".parse().unwrap(), None)
}

/// At most every half millisecond; after a failure it is not fresh until a read succeeds again.
#[test]
fn a_gauge_is_fresh_while_it_can_be_read() {
    let (queue, at) = (FakeQueue::default(), Nanos::from_micros);
    let mut gauge = gauge(&queue);
    let mut read = |now, fails| {
        queue.0.fails.store(fails, Ordering::Relaxed);
        (gauge.read(now, &|| now).is_some(), gauge.is_fresh())
    };
    assert_eq!(read(at(1_000), 0), (true, true));
    assert_eq!(read(at(1_500) - Nanos(1), 0), (false, true), "it was read a moment ago");
    assert_eq!(read(at(1_500), 0), (true, true));
    assert_eq!(read(at(2_000), 1), (false, false));
    assert_eq!(read(at(2_500), 0), (true, true));
}

/// A single interrupted reading is no reason to stop reading for long.
#[test]
fn one_dear_reading_among_cheap_ones_is_an_accident() {
    let queue = FakeQueue::default();
    let mut gauge = gauge(&queue);
    let mut read = |ms, micros, cost| {
        let now = Nanos::from_millis(ms) + Nanos::from_micros(micros);
        gauge.read(now, &|| now + Nanos::from_micros(cost)).is_some()
    };
    assert!((1..50).all(|ms| read(ms, 0, 10)) && read(50, 0, 10_000));
    assert!(read(50, 700, 10));
}

/// It may appear one day.
#[test]
fn a_shaper_that_was_missing_is_found() {
    let (mut bench, queue) = gauged("srpt");
    bench.transmitter.link.gauge = Some(Gauge::missing(Box::new(queue), "10mbit".parse().ok()));
    assert_eq!(bench.check_at(2), ["fake0: found a shaper at 10mbit; pacing at that rate"]);
}

/// An event that happens to one connection in a test case.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A response of `bytes`; aborted at once if `is_aborted`.
    Respond { bytes: u64, is_aborted: bool },
    /// TCP sends this much of what it holds, and retransmits what was lost.
    Progress { bytes: u64, again: u64 },
    /// The socket takes this much more, and TCP's window lets this much through.
    Room { bytes: u64, window: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1u64..40_000, prop::bool::weighted(0.2)).prop_map(|(bytes, is_aborted)| Step::Respond { bytes, is_aborted }),
        (0u64..6_000, 0u64..3_000).prop_map(|(bytes, again)| Step::Progress { bytes, again }),
        (0u64..40_000, 0u64..40_000).prop_map(|(bytes, window)| Step::Room { bytes, window }),
    ]
}

/// A connection of the case: its socket, its number, and the response it has.
struct Client {
    socket: FakeSocket,
    at: usize,
    job: Option<JobId>,
}

impl Client {
    fn take(&mut self, bench: &mut Bench, step: Step) {
        let now = bench.now.get();
        match step {
            Step::Respond { bytes, is_aborted } if self.job.is_none() => {
                let outgoing = Outgoing::new(vec![0; bytes as usize], Body::default(), End::Open);
                let job = bench.dispatch_on(self.at, outgoing);
                self.job = Some(job);
                if is_aborted {
                    bench.transmitter.abort(now, job, Failure::Disconnected);
                }
            }
            Step::Respond { .. } => {}
            Step::Progress { bytes, again } => {
                let socket = &self.socket;
                socket.let_out(bytes);
                socket.retransmitted.set(socket.retransmitted.get() + again);
            }
            Step::Room { bytes, window } => {
                self.socket.room.set(bytes);
                self.socket.window.set(window);
                bench.transmitter.on_writable(now, self.at);
            }
        }
    }

    /// Ends the connection; what that sends leaves unobserved, at once or after everything else.
    fn close(&self, bench: &mut Bench, closing_segments: u8) {
        self.socket.closing.set(closing_segments);
        bench.transmitter.close(bench.now.get(), self.at);
        if closing_segments > 0 {
            self.socket.let_out(u64::MAX);
        }
        let (payload_bytes, segments) = self.socket.sent.get();
        self.socket.sent.set((payload_bytes, segments + u32::from(closing_segments)));
    }

    /// Lets everything be taken.
    fn come_to_rest(&mut self, bench: &mut Bench) {
        self.socket.room.set(u64::MAX);
        self.socket.window.set(u64::MAX);
        self.take(bench, Step::Room { bytes: u64::MAX, window: u64::MAX });
        bench.drive();
    }
}

proptest! {
    #[test]
    fn bytes_charged_are_bytes_that_left(
        steps in prop::collection::vec((0usize..3, step()), 1..60),
        gauge in 0u8..3,
        ends in prop::array::uniform3((any::<bool>(), 0u8..3)),
        is_ipv6 in any::<bool>(),
    ) {
        let (mut bench, queue) = if gauge == 0 { (Bench::new("srpt", Some("10mbit")), FakeQueue::default()) } else { gauged("srpt") };
        queue.0.fails.store(u64::from(gauge == 2), Ordering::Relaxed);
        let framing = Framing::new(if is_ipv6 { 1428 } else { 1448 }, is_ipv6, true);
        let mut clients: Vec<Client> = "ABC".chars().map(|name| {
            let socket = FakeSocket { framing, ..bench.socket(name, 5_000) };
            Client { at: bench.open(&socket), socket, job: None }
        }).collect();
        let reap = |bench: &mut Bench, clients: &mut Vec<Client>| for departure in bench.transmitter.departures() {
            let client = &mut clients[(name_of(&departure) as u8 - b'A') as usize];
            client.job = None;
        };
        for (at, step) in steps {
            clients[at].take(&mut bench, step);
            bench.drive();
            reap(&mut bench, &mut clients);
        }
        for client in &mut clients {
            client.come_to_rest(&mut bench);
        }
        reap(&mut bench, &mut clients);
        let mut left = 0;
        for (client, (is_all_sent, closing_segments)) in clients.iter().zip(ends) {
            if is_all_sent {
                client.socket.let_out(u64::MAX);
            }
            client.close(&mut bench, closing_segments);
        }
        for client in &clients {
            let sent = client.socket.sent();
            left += sent.payload_bytes + u64::from(sent.segments) * framing.header_bytes + framing.syn_ack_bytes;
        }
        prop_assert_eq!(bench.transmitter.link.scheduler().pacer().ledger().charged_bytes(), left);
    }
}

/// A client of a local network was once held at the line's rate, and its bytes were the line's.
#[test]
fn bytes_to_a_local_client_are_not_the_lines() {
    for is_local in [true, false] {
        let mut bench = Bench::new("srpt", Some("1mbit"));
        let (local, line) = (bench.socket('L', u64::MAX), bench.socket('A', u64::MAX));
        local.is_acking.set(true);
        let at = bench.open(&local);
        bench.transmitter.connections[at].peer.is_local = is_local;
        let began_at = bench.now.get();
        bench.dispatch_on(at, Outgoing::new(vec![0; 1 << 20], Body::default(), End::Finish));
        bench.drive();
        let (took, ledger) = (bench.now.get() - began_at, bench.transmitter.link.scheduler().pacer().ledger());
        let charged_bytes = ledger.charged_bytes();
        assert_eq!(local.received.borrow().len(), 1 << 20);
        assert_eq!((took == Nanos::ZERO, charged_bytes == 0), (is_local, is_local), "{took:?} {charged_bytes}");
        assert_eq!(bench.transmitter.link.unacknowledged.look_at().is_none(), is_local);
        assert!(bench.send(&line, 144_800) > Nanos::from_millis(1_000), "the line's own are held");
    }
}
