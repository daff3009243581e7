//! Tests against a simulated line: a FIFO with a rate that may change, a buffer that may be empty, and bytes of others
//! in it.

mod late_client;
mod unknown_clients;
mod upload;

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const STEP: Nanos = Nanos::from_millis(1);
const MBIT: f64 = 1e6;
const ROOM_PACKETS: f64 = 8.0;
/// The bits after which a round trip is taken: eight packets of a connection.
const SAMPLE_BITS: f64 = 8.0 * 8.0 * PACKET_BYTES as f64;

/// A client: its path, and the variation of its round trips.
#[derive(Debug, Clone, Copy)]
struct Path {
    rtt_ms: f64,
    jitter_ms: f64,
    /// The delay of its own queue behind a slow link, while we send.
    own_queue_ms: f64,
    loss: f64,
    /// The additional delay of acknowledgements in every other half second.
    withheld_ms: u64,
}

const LAN: Path = Path { rtt_ms: 1.0, jitter_ms: 0.2, own_queue_ms: 0.0, loss: 0.0, withheld_ms: 0 };

impl Path {
    fn withheld(&self, ms: u64) -> u64 {
        if (ms / 500).is_multiple_of(2) { self.withheld_ms } else { 0 }
    }
}

/// The bytes of others in the same FIFO.
#[derive(Debug, Clone, Copy)]
enum Others {
    None,
    Steady {
        bits_per_s: f64,
    },
    /// Others fill all free space, like a bulk transfer.
    Elastic,
}

/// The server's knowledge of one client.
#[derive(Debug, Default)]
struct Known {
    sent_bits: f64,
    /// Bits by the millisecond in which they are acknowledged.
    on_its_way: VecDeque<(u64, f64)>,
    /// The smoothed round trip, and the time at which it was taken.
    smoothed: Option<(u64, f64)>,
}

struct World {
    line: Box<dyn Fn(f64) -> f64>,
    room_ms: f64,
    others: Others,
    /// The part of the pace that is requested at an instant.
    demand: Box<dyn Fn(f64) -> f64>,
    /// The part of the line's rate that sockets take without a pace.
    unpaced: f64,
    /// The capacity of all connections' windows: TCP lets no more leave than arrives if this much is in the queue.
    windows_packets: f64,
    /// Whether, at an instant, bytes are sent only to the first client.
    only_first: Box<dyn Fn(f64) -> bool>,
    /// Whether no round trip is seen before [`SAMPLE_BITS`] have arrived, as with a kernel on a slow line.
    has_few_samples: bool,
    /// The delay of the queue in front of the server, which all acknowledgements pass, at an instant.
    back_ms: Box<dyn Fn(f64) -> f64>,
    /// The bits that clients send in a second.
    received: Box<dyn Fn(f64) -> f64>,
    clients: Vec<Path>,
    known: Vec<Known>,
    host: Host,
    estimator: Estimator,
    notices: Vec<(f64, Notice)>,
    state: u64,
}

/// The processor of the server. It alternately runs and is stopped, each for a random time with the means below.
#[derive(Debug, Clone, Copy)]
struct Host {
    runs_ms: f64,
    stops_ms: f64,
    changes_at_ms: f64,
    is_stopped: bool,
    lost_ms: u64,
    /// The time until which acknowledgements of the last stop arrive late, because they pass the same processor.
    late_until_ms: u64,
}

/// The delay of an acknowledgement that found the processor stopped.
const LATE_MS: u64 = 20;

const IDLE_HOST: Host = Host {
    runs_ms: f64::INFINITY,
    stops_ms: 0.0,
    changes_at_ms: f64::INFINITY,
    is_stopped: false,
    lost_ms: 0,
    late_until_ms: 0,
};

/// Bits in the FIFO.
#[derive(Debug, Default)]
struct Queue {
    ours: f64,
    cross: f64,
    /// Our bits that were dropped and not yet detected.
    lost: f64,
}

impl Queue {
    /// Serves the queue first come, first served: bits of both senders leave, or are dropped, in proportion to those
    /// present. Returns the bits of ours that left.
    fn pass(&mut self, line: f64, room: f64) -> f64 {
        let total = self.ours + self.cross;
        let out = total.min(line);
        let share = if total > 0.0 { self.ours / total } else { 0.0 };
        let over = (total - out - room).max(0.0);
        self.lost += over * share;
        self.ours -= (out + over) * share;
        self.cross -= (out + over) * (1.0 - share);
        out * share
    }
}

/// The outcome of a span of simulated time.
#[derive(Debug, Default)]
struct Outcome {
    delivered_bits: f64,
    /// The values by millisecond; a pace of 0 if there was none.
    delays_ms: Vec<f64>,
    rates: Vec<f64>,
}

impl Outcome {
    fn median_delay_ms(&self) -> f64 {
        let mut sorted = self.delays_ms.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    fn mean_rate(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.rates.len() as f64
    }
}

impl World {
    fn of(bounds: &str, line_mbit: f64) -> World {
        World {
            line: Box::new(move |_| line_mbit * MBIT),
            room_ms: 120.0,
            others: Others::None,
            demand: Box::new(|_| 1.0),
            unpaced: 2.0,
            windows_packets: f64::INFINITY,
            only_first: Box::new(|_| false),
            has_few_samples: false,
            back_ms: Box::new(|_| 0.0),
            received: Box::new(|_| 0.0),
            clients: vec![LAN; 4],
            known: vec![],
            host: IDLE_HOST,
            estimator: Estimator::new(bounds.parse().unwrap()),
            notices: vec![],
            state: 1,
        }
    }

    /// Returns a uniform number in 0..1, the same in every run.
    fn random(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 11) as f64 / (1u64 << 53) as f64
    }

    fn any_client(&mut self, ms: u64) -> usize {
        let which = (self.random() * self.clients.len() as f64) as usize;
        if (self.only_first)(ms as f64 / 1000.0) { 0 } else { which }
    }

    /// Runs for this time, and leaves out the observations of the first `warm_up` seconds.
    fn run(&mut self, seconds: f64, warm_up: f64) -> Outcome {
        self.known = self.clients.iter().map(|_| Known::default()).collect();
        let mut outcome = Outcome::default();
        let (mut queue, mut charged) = (Queue::default(), 0.0f64);
        let mut shared_ms: VecDeque<f64> = VecDeque::new();
        let mut since_sample = 0.0;
        for ms in 0..(seconds * 1000.0) as u64 {
            let at = ms as f64 / 1000.0;
            if !self.is_stopped(ms) {
                self.follow(ms, charged);
            }
            let line = (self.line)(at) / 1000.0;
            let room = (self.room_ms * line).max(0.0);
            let pace = self.estimator.pace().map(|pace| pace.bits_per_s() as f64);
            let windows = (self.windows_packets * PACKET_BYTES as f64 * 8.0 - queue.ours).max(0.0);
            let is_stopped = self.host.is_stopped;
            let sent = if is_stopped { 0.0 } else { self.sent(at, pace, line, room - queue.ours - queue.cross) };
            let sent = sent.min(windows);
            charged += sent / 8.0;
            queue.ours += sent;
            queue.cross += match self.others {
                Others::None => 0.0,
                Others::Steady { bits_per_s } => bits_per_s / 1000.0,
                Others::Elastic => (room * 0.9 - queue.ours - queue.cross).clamp(0.0, line),
            };
            let delivered = queue.pass(line, room);
            let delay_ms = (queue.ours + queue.cross) / line;
            shared_ms.push_front(delay_ms);
            shared_ms.truncate(2000);
            self.on_its_way(ms, sent, delivered);
            since_sample += delivered;
            if sent > 0.0 && ms % 5 == 0 && !(self.has_few_samples && since_sample < SAMPLE_BITS) {
                since_sample = 0.0;
                self.sample(ms, charged, &shared_ms, &mut queue.lost);
            }
            if at >= warm_up {
                outcome.delivered_bits += delivered;
                outcome.delays_ms.push(delay_ms);
                outcome.rates.push(pace.unwrap_or(0.0));
            }
        }
        outcome
    }

    /// Returns whether the server has no processor in this millisecond.
    fn is_stopped(&mut self, ms: u64) -> bool {
        while ms as f64 >= self.host.changes_at_ms {
            self.host.is_stopped = !self.host.is_stopped;
            let mean = if self.host.is_stopped { self.host.stops_ms } else { self.host.runs_ms };
            self.host.changes_at_ms += -mean * (1.0 - self.random()).ln();
        }
        if self.host.is_stopped {
            self.host.lost_ms += 1;
            self.host.late_until_ms = ms + LATE_MS;
        }
        self.estimator.on_sender(Nanos::ZERO, Nanos(self.host.lost_ms * STEP.0));
        self.host.is_stopped
    }

    /// Returns the bits of a millisecond: as many as the pace allows, or as sockets take, which stop when packets are
    /// lost.
    fn sent(&mut self, at: f64, pace: Option<f64>, line: f64, room: f64) -> f64 {
        let demand = (self.demand)(at);
        if demand < 1.0 {
            self.estimator.on_idle();
        }
        if let Some(pace) = pace {
            return pace / 1000.0 * demand;
        }
        (self.unpaced * line * demand).min(1.05 * line + room).max(0.0)
    }

    /// Sends one client the bits that leave in this millisecond; it acknowledges the bits that pass the line.
    fn on_its_way(&mut self, ms: u64, sent: f64, delivered: f64) {
        let which = self.any_client(ms);
        let (path, known) = (self.clients[which], &mut self.known[which]);
        known.sent_bits += sent;
        let back_ms = (self.back_ms)(ms as f64 / 1000.0) as u64;
        known.on_its_way.push_back((ms + path.rtt_ms as u64 + path.withheld(ms) + back_ms, delivered));
    }

    fn follow(&mut self, ms: u64, charged: f64) {
        let now = Nanos(ms * STEP.0);
        self.estimator.on_received(((self.received)(ms as f64 / 1000.0) / 8000.0) as u64);
        if !self.estimator.is_due(now) {
            return;
        }
        (0..self.clients.len()).for_each(|which| self.look(ms, charged, which, None, 0));
        if let Some(change) = self.estimator.judge(now, charged as u64) {
            assert_eq!(change.pace, self.estimator.pace());
            self.notices.extend(change.notice.map(|notice| (ms as f64 / 1000.0, notice)));
        }
    }

    fn look(&mut self, ms: u64, charged: f64, which: usize, rtt: Option<Nanos>, lost_bytes: u64) {
        let known = &mut self.known[which];
        let mut delivered_bits = 0.0;
        while let Some((_, bits)) = known.on_its_way.pop_front_if(|(at, _)| *at <= ms) {
            delivered_bits += bits;
        }
        let sent_bits = std::mem::take(&mut known.sent_bits);
        let (sent_bytes, delivered_bytes) = ((sent_bits / 8.0) as u64, (delivered_bits / 8.0) as u64);
        let look = Look { rtt, sent_bytes, delivered_bytes, lost_bytes, ..Look::default() };
        self.estimator.on_look(Nanos(ms * STEP.0), charged as u64, || which as u64, look);
    }

    /// Takes one client's round trip: the queue at the time when its packet passed, smoothed as TCP does.
    fn sample(&mut self, ms: u64, charged: f64, shared_ms: &VecDeque<f64>, lost: &mut f64) {
        let which = self.any_client(ms);
        let path = self.clients[which];
        let queue = shared_ms.get(path.rtt_ms as usize).copied().unwrap_or(0.0);
        let jitter = (self.random() * 2.0 - 1.0) * path.jitter_ms;
        let late = if ms < self.host.late_until_ms { LATE_MS as f64 } else { 0.0 };
        let back_ms = (self.back_ms)(ms as f64 / 1000.0);
        let own_ms = path.own_queue_ms * self.random();
        let rtt = path.rtt_ms + path.withheld(ms) as f64 + late + queue + back_ms + own_ms + jitter;
        // An acknowledgement comes every 2.4 ms; each counts an eighth.
        let before = self.known[which].smoothed;
        let kept = before.map_or(rtt, |(then, before)| rtt + (before - rtt) * 0.875f64.powf((ms - then) as f64 / 2.4));
        self.known[which].smoothed = Some((ms, kept));
        let own_bytes = if self.random() < path.loss * 4.0 { PACKET_BYTES } else { 0 };
        self.look(ms, charged, which, Some(Nanos((kept * 1e6) as u64)), own_bytes);
        // Losses are detected one packet at a time, by the clients in turn.
        while *lost >= PACKET_BYTES as f64 * 8.0 {
            *lost -= PACKET_BYTES as f64 * 8.0;
            let victim = self.any_client(ms);
            self.look(ms, charged, victim, None, PACKET_BYTES);
        }
    }
}

/// The search starts from nothing, and with a configured rate that is too high: soon there is almost no queue, and
/// nearly all of the line is used.
#[test]
fn the_line_s_rate_is_found() {
    for bounds in ["auto", "10.5mbit", "11mbit", "30mbit", "1gbit", "2mbit..40mbit"] {
        for clients in [1, 2, 30] {
            let mut world = World::of(bounds, 10.0);
            world.clients = vec![LAN; clients];
            let outcome = world.run(60.0, 15.0);
            let share = outcome.delivered_bits / (45.0 * 10.0 * MBIT);
            assert!(share >= 0.96, "{bounds} {clients}: {share} {:?}", world.notices);
            assert!(outcome.median_delay_ms() < 1.5, "{bounds} {clients}: {} ms", outcome.median_delay_ms());
            assert!(world.notices.len() <= 6, "{bounds} {clients}: {:?}", world.notices);
        }
    }
}

#[test]
fn it_is_found_within_three_seconds_at_thirty_milliseconds() {
    let mut world = World::of("auto", 10.0);
    world.clients = vec![Path { rtt_ms: 30.0, ..LAN }; 4];
    let outcome = world.run(60.0, 0.0);
    let Some((at, Notice::Found { .. })) = world.notices.first() else { panic!("{:?}", world.notices) };
    assert!(*at < 3.0, "{at}");
    let is_near = |rate: &f64| (9.0 * MBIT..10.5 * MBIT).contains(rate);
    let near = outcome.rates[10_000..].iter().filter(|rate| is_near(rate)).count();
    assert!(near > 45_000, "{near} of 50,000 ms near the rate: {:?}", world.notices);
}

/// A line that fills after a quiet time shows its queue before much has arrived at its rate.
#[test]
fn the_first_rate_found_is_that_of_the_line() {
    for (quiet, room_ms) in [0.2, 0.5, 0.8].into_iter().flat_map(|quiet| [12.0, 40.0, 120.0].map(|room| (quiet, room)))
    {
        let mut world = World::of("auto", 10.0);
        (world.unpaced, world.room_ms) = (1.3, room_ms);
        world.clients = vec![Path { rtt_ms: 30.0, ..LAN }; 4];
        world.demand = Box::new(move |at| if at < 5.0 { quiet / 1.3 } else { 1.0 });
        world.run(8.0, 0.0);
        let Some((_, Notice::Found { rate })) = world.notices.first() else { panic!("{:?}", world.notices) };
        let share = rate.bits_per_s() as f64 / (10.0 * MBIT);
        assert!((0.97..1.03).contains(&share), "{quiet} {room_ms}: {share}");
    }
}

/// A line that is never full has no rate to be found, and needs none.
#[test]
fn a_line_that_is_never_full_stays_unknown() {
    let mut world = World::of("auto", 10.0);
    world.unpaced = 0.3;
    let outcome = world.run(60.0, 0.0);
    assert!(outcome.rates.iter().all(|rate| *rate == 0.0) && world.notices.is_empty(), "{:?}", world.notices);
    let status = world.estimator.status(Nanos::from_secs(60));
    assert_eq!((status.rate, status.limit), (None, Limit::Unknown));
}

#[test]
fn a_rate_told_right_or_too_low_is_left_alone() {
    for told in ["10mbit", "7mbit"] {
        let mut world = World::of(told, 10.0);
        let outcome = world.run(120.0, 0.0);
        let pace = Bounds::told(told.parse().unwrap()).most.unwrap().bits_per_s() as f64;
        assert!((outcome.mean_rate() - pace).abs() < 1.0 && world.notices.is_empty(), "{:?}", world.notices);
    }
}

/// A server that is stopped from time to time, and whose acknowledgements wait for the same processor, is not behind a
/// slower line. Without [`Estimator::on_sender`] the pace fell to 3 Mbit/s, and to 7.9 on average.
#[test]
fn a_server_without_processor_is_behind_no_slower_line() {
    for (seed, stops_ms) in (1..5).flat_map(|seed| [4.0, 20.0, 100.0].map(|stops_ms| (seed, stops_ms))) {
        let mut world = World::of("auto", 10.0);
        world.state = seed;
        world.host = Host { runs_ms: 40.0, stops_ms, changes_at_ms: 12_000.0, ..IDLE_HOST };
        let mean = world.run(72.0, 12.0).mean_rate() / (10.0 * MBIT);
        assert!((0.97..1.1).contains(&mean), "{seed} {stops_ms}: {mean} {:?}", world.notices);
    }
}

/// One client's slow link, jitter and losses affect no other client, whatever the paths of the others are.
#[test]
fn one_client_s_path_slows_nobody() {
    let slow = Path { rtt_ms: 30.0, own_queue_ms: 300.0, ..LAN };
    let jittery = Path { rtt_ms: 80.0, jitter_ms: 60.0, ..LAN };
    let lossy = Path { rtt_ms: 20.0, loss: 0.05, ..LAN };
    let far = Path { rtt_ms: 300.0, ..LAN };
    for clients in [vec![LAN, slow], vec![LAN, jittery, far], vec![far, lossy], vec![slow, jittery, lossy, LAN]] {
        let mut world = World::of("10mbit", 10.0);
        world.clients = clients.clone();
        let outcome = world.run(120.0, 0.0);
        assert!(outcome.mean_rate() > 0.99 * 9.8 * MBIT, "{clients:?}: {} {:?}", outcome.mean_rate(), world.notices);
    }
}

/// A client withholds acknowledgements, and another reports losses that did not happen. A single prefix moves the pace
/// by little more than a tenth.
#[test]
fn one_client_that_lies_moves_little() {
    for liar in [Path { withheld_ms: 100, ..LAN }, Path { withheld_ms: 400, ..LAN }, Path { loss: 0.25, ..LAN }] {
        for bounds in ["10mbit", "auto"] {
            let mut world = World::of(bounds, 10.0);
            world.clients = vec![LAN, liar, Path { rtt_ms: 30.0, ..LAN }, LAN];
            let outcome = world.run(120.0, 5.0);
            let mean = outcome.mean_rate();
            assert!((0.88..=1.1).contains(&(mean / (9.8 * MBIT))), "{bounds} {liar:?}: {mean} {:?}", world.notices);
        }
    }
}

/// If all paths are bad, an occasional test shows that the pace is not the cause.
#[test]
fn bad_paths_alone_cost_little() {
    for path in [
        Path { rtt_ms: 80.0, jitter_ms: 60.0, ..LAN },
        Path { rtt_ms: 20.0, loss: 0.03, ..LAN },
        Path { rtt_ms: 30.0, own_queue_ms: 100.0, ..LAN },
    ] {
        let mut world = World::of("10mbit", 10.0);
        world.clients = vec![path; 3];
        let outcome = world.run(300.0, 0.0);
        assert!(outcome.mean_rate() > 0.95 * 9.8 * MBIT, "{path:?}: {} {:?}", outcome.mean_rate(), world.notices);
    }
}

#[test]
fn steps_are_followed_both_ways() {
    for bounds in ["10mbit", "auto"] {
        let mut world = World::of(bounds, 10.0);
        world.line = Box::new(|at| if (20.0..60.0).contains(&at) { 4.0 * MBIT } else { 10.0 * MBIT });
        let outcome = world.run(120.0, 0.0);
        let mean = |from: usize, to: usize| {
            outcome.rates[from * 1000..to * 1000].iter().sum::<f64>() / (to - from) as f64 / 1e9
        };
        assert!((3.7..4.1).contains(&mean(25, 60)), "{bounds}: {} {:?}", mean(25, 60), world.notices);
        assert!(mean(90, 120) > 9.4, "{bounds}: {} {:?}", mean(90, 120), world.notices);
        let delays = &outcome.delays_ms[25_000..60_000];
        assert!(delays.iter().filter(|delay| **delay > 8.0).count() < delays.len() / 8, "{bounds}");
    }
}

/// The line falls while windows hold a few packets, or many. Formerly, if a line had fallen to less than a third, we
/// sent less than a third of the rate it had carried before, and its queue was taken for the queue of others.
#[test]
fn a_fall_to_a_tenth_is_followed_within_seconds() {
    const FALLS_AT_S: usize = 20;
    for (from, to, within_s) in [(10.0, 1.0, 8), (100.0, 5.0, 10), (10.0, 2.5, 8)] {
        for windows_packets in [20.0, 100.0, 400.0] {
            for (clients, bounds) in [(1, "auto"), (2, "auto"), (4, "auto"), (2, "told")] {
                let told = format!("{from}mbit");
                let mut world = World::of(if bounds == "told" { &told } else { bounds }, from);
                world.line = Box::new(move |at| if at < FALLS_AT_S as f64 { from * MBIT } else { to * MBIT });
                (world.windows_packets, world.room_ms, world.has_few_samples) = (windows_packets, 6_000.0, true);
                world.clients = vec![Path { rtt_ms: 20.0, ..LAN }; clients];
                let outcome = world.run(60.0, 0.0);
                let rates = &outcome.rates[(FALLS_AT_S + within_s) * 1000..];
                let mean = rates.iter().sum::<f64>() / rates.len() as f64 / (to * MBIT);
                let case = format!("{from} to {to}, {windows_packets} packets, {clients} clients, {bounds}");
                assert!((0.7..1.15).contains(&mean), "{case}: {mean} {:?}", world.notices);
                let high = rates.iter().filter(|rate| **rate > 1.6 * to * MBIT).count();
                assert!(high < rates.len() / 50, "{case}: {high} ms far too fast, {:?}", world.notices);
            }
        }
    }
}

/// A client behind a slow link is alone for some time. The rate it takes is found, and the next client to come has its
/// line within seconds.
#[test]
fn a_slow_client_that_was_alone_does_not_hold_the_next_one_up() {
    for fast_comes_at_s in [30, 55] {
        let mut world = World::of("10mbit", 10.0);
        let slow = move |at: f64| if at < fast_comes_at_s as f64 { 1.0 } else { 10.0 };
        world.line = Box::new(move |at| if at < 10.0 { 10.0 * MBIT } else { slow(at) * MBIT });
        (world.windows_packets, world.room_ms, world.has_few_samples) = (40.0, 6_000.0, true);
        world.clients = vec![Path { rtt_ms: 20.0, ..LAN }; 2];
        world.only_first = Box::new(move |at| (10.0..fast_comes_at_s as f64).contains(&at));
        let outcome = world.run(fast_comes_at_s as f64 + 20.0, 0.0);
        let rates = &outcome.rates[fast_comes_at_s * 1000..];
        assert!(rates[0] < 1.6 * MBIT, "{} {:?}", rates[0], world.notices);
        let found = rates.iter().position(|rate| *rate > 8.5 * MBIT);
        assert!(found.is_some_and(|ms| ms < 5_000), "{found:?} {:?}", world.notices);
    }
}

/// The first visitor is behind a slow link, and alone until another comes. The rate it takes is found, from nothing, by
/// its queue or its losses. The other has its line within seconds, and the slow one, which stays, takes nothing of it.
#[test]
fn a_slow_client_alone_at_the_start_does_not_hold_the_next_one_up() {
    const FAST_COMES_AT_S: usize = 14;
    for (windows_packets, room_ms, has_few_samples) in
        [(40.0, 6_000.0, true), (40.0, 6_000.0, false), (f64::INFINITY, 120.0, true), (f64::INFINITY, 250.0, false)]
    {
        let mut world = World::of("auto", 20.0);
        world.line = Box::new(move |at| if at < FAST_COMES_AT_S as f64 { 2.0 * MBIT } else { 20.0 * MBIT });
        (world.windows_packets, world.room_ms, world.has_few_samples) = (windows_packets, room_ms, has_few_samples);
        let slow = Path { rtt_ms: 20.0, own_queue_ms: 100.0, ..LAN };
        world.clients = vec![slow, LAN, LAN];
        world.only_first = Box::new(move |at| at < FAST_COMES_AT_S as f64);
        let outcome = world.run(FAST_COMES_AT_S as f64 + 30.0, 0.0);
        let rates = &outcome.rates[FAST_COMES_AT_S * 1000..];
        let case = format!("{windows_packets} packets, {room_ms} ms");
        assert!((1.0..3.2 * MBIT).contains(&rates[0]), "{case}: {} {:?}", rates[0], world.notices);
        let found = rates.iter().position(|rate| *rate > 17.0 * MBIT);
        assert!(found.is_some_and(|ms| ms < 3_000), "{case}: {found:?} {:?}", world.notices);
        let mean = rates[5_000..].iter().sum::<f64>() / (rates.len() - 5_000) as f64;
        assert!((0.95..1.06).contains(&(mean / (20.0 * MBIT))), "{case}: {mean} {:?}", world.notices);
    }
}

/// Our load is too light for the queue to be ours, however long it is: if we sent less it would stay.
#[test]
fn a_light_load_beside_others_is_not_slowed() {
    let mut world = World::of("10mbit", 10.0);
    world.demand = Box::new(|_| 0.1);
    world.others = Others::Elastic;
    world.has_few_samples = true;
    let outcome = world.run(60.0, 0.0);
    assert!(outcome.mean_rate() > 0.99 * 9.8 * MBIT, "{} {:?}", outcome.mean_rate(), world.notices);
}

#[test]
fn a_ramp_is_followed() {
    let mut world = World::of("auto", 10.0);
    world.line = Box::new(|at| (10.0 - 0.1 * (at - 10.0).clamp(0.0, 60.0)) * MBIT);
    let outcome = world.run(80.0, 0.0);
    let delays = &outcome.delays_ms[10_000..70_000];
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    assert!(mean < 20.0, "{mean} {:?}", world.notices);
    assert!(outcome.rates[75_000..].iter().all(|rate| *rate < 4.3 * MBIT), "{:?}", world.notices);
}

#[test]
fn a_policer_is_found_by_its_losses() {
    for bounds in ["10.7mbit", "13mbit", "auto"] {
        let mut world = World::of(bounds, 10.0);
        world.room_ms = 0.5;
        let outcome = world.run(120.0, 20.0);
        let share = outcome.delivered_bits / (100.0 * 10.0 * MBIT);
        assert!(share > 0.93, "{bounds}: {share} {:?}", world.notices);
        let mean = outcome.mean_rate() / (10.0 * MBIT);
        assert!((0.93..1.04).contains(&mean), "{bounds}: {mean} {:?}", world.notices);
    }
}

/// A queue that others fill cannot be emptied by us.
#[test]
fn others_in_the_same_queue_do_not_starve_us() {
    let mut world = World::of("10mbit", 10.0);
    world.others = Others::Elastic;
    let outcome = world.run(300.0, 0.0);
    assert!(outcome.mean_rate() > 0.9 * 9.8 * MBIT, "{} {:?}", outcome.mean_rate(), world.notices);
    assert!(world.notices.iter().any(|(_, notice)| matches!(notice, Notice::Others { .. })), "{:?}", world.notices);
}

#[test]
fn steady_bytes_of_others_are_made_room_for() {
    let mut world = World::of("auto", 10.0);
    world.others = Others::Steady { bits_per_s: 3.0 * MBIT };
    let outcome = world.run(60.0, 10.0);
    assert!((6.3..7.2).contains(&(outcome.mean_rate() / MBIT)), "{} {:?}", outcome.mean_rate(), world.notices);
    // The bound is the delay that counts as a queue: 3 ms and two packets.
    assert!(outcome.median_delay_ms() < 7.5, "{} {:?}", outcome.median_delay_ms(), world.notices);
}

/// Bursts of a second with pauses between: the rate is learned in bursts and kept through pauses.
#[test]
fn a_load_with_pauses_learns_too() {
    let mut world = World::of("auto", 10.0);
    world.demand = Box::new(|at| if at % 1.5 < 1.0 { 1.0 } else { 0.05 });
    let outcome = world.run(60.0, 10.0);
    assert!(!world.notices.is_empty());
    assert!(outcome.delays_ms.iter().sum::<f64>() / (outcome.delays_ms.len() as f64) < 6.0, "{:?}", world.notices);
}

/// If no client acknowledges anything, the line or we have paused, which does not change the pace.
#[test]
fn silence_changes_nothing() {
    let mut world = World::of("auto", 10.0);
    world.run(30.0, 0.0);
    let before = world.estimator.pace();
    assert!(before.is_some());
    for ms in 30_000..40_000 {
        let now = Nanos(ms * STEP.0);
        if world.estimator.is_due(now) {
            let change = world.estimator.judge(now, 40_000_000 + 1250 * (ms - 30_000));
            assert!(change.is_none_or(|change| change.pace >= before), "{change:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The pace stays within its bounds, and no queue lasts.
    #[test]
    fn the_pace_keeps_its_bounds(
        told in 1.0..100.0f64,
        line_part in 0.5..1.5f64,
        room_ms in 0.5..300.0f64,
        rtt_ms in 0.5..150.0f64,
        clients in 1..6usize,
    ) {
        // A line with space for fewer packets is a policer; see its test.
        prop_assume!(room_ms * told * line_part * 1e3 > ROOM_PACKETS * 8.0 * PACKET_BYTES as f64);
        let (least, most) = (told / 4.0, told);
        let mut world = World::of("auto", told * line_part);
        let rate = |mbit: f64| Rate::from_bits_per_s((mbit * MBIT) as u64);
        world.estimator = Estimator::new(Bounds { least: rate(least), first: rate(most), most: rate(most) });
        world.room_ms = room_ms;
        world.clients = vec![Path { rtt_ms, ..LAN }; clients];
        let outcome = world.run(60.0, 40.0);
        prop_assert!(outcome.rates.iter().all(|rate| *rate <= most * MBIT + 1.0 && *rate >= least * MBIT - 1.0));
        let line = (told * line_part).min(told) * MBIT;
        let share = outcome.delivered_bits / (20.0 * line);
        prop_assert!(share > 0.8, "{} {:?}", share, world.notices);
        // The bound is a third of the space, or three thresholds.
        let bound = (room_ms / 3.0).max(3.0 * (4.0 + 24.4 / told));
        prop_assert!(outcome.median_delay_ms() <= bound, "{} {:?}", outcome.median_delay_ms(), world.notices);
    }
}
