use proptest::prelude::*;

use super::*;

const LINK: &str = "10mbit";

fn ledger() -> Ledger {
    Ledger::new(&Pace::of_line(LINK.parse().unwrap()))
}

#[test]
fn charges_add_up_and_drain_at_the_rate() {
    let mut ledger = ledger();
    let now = Nanos::from_secs(1);
    ledger.charge(now, PACKET_BYTES);
    ledger.charge(now, PACKET_BYTES);
    // A millisecond of lag was caught up, as with a token bucket.
    assert_eq!(ledger.below(now), Nanos(2 * 1_211_200 - 1_000_000));
    assert_eq!(ledger.bytes_below(now), 2 * PACKET_BYTES - 1250);
    assert_eq!(ledger.bytes_below(now + Nanos::from_millis(10)), 0);
    assert_eq!(ledger.charged_bytes(), 2 * PACKET_BYTES);
}

#[test]
fn a_refund_undoes_a_charge() {
    let mut ledger = ledger();
    let now = Nanos::from_secs(1);
    ledger.charge(now, 3 * PACKET_BYTES);
    let before = (ledger.below(now), ledger.charged_bytes());
    ledger.charge(now, PACKET_BYTES);
    ledger.refund(PACKET_BYTES);
    assert_eq!((ledger.below(now), ledger.charged_bytes()), before);
}

/// If the queue is read, charges made ahead did not move the clock, so their refund does not move it either.
#[test]
fn what_was_foreseen_is_taken_back_as_it_was_charged() {
    for is_read in [false, true] {
        let mut ledger = ledger();
        let now = Nanos::from_secs(1);
        ledger.charge(now, 3 * PACKET_BYTES);
        let before = (ledger.below(now), ledger.charged_bytes());
        ledger.charge_ahead(now, PACKET_BYTES, is_read);
        assert_eq!(ledger.below(now) > before.0, !is_read);
        ledger.refund_ahead(PACKET_BYTES, is_read);
        assert_eq!((ledger.below(now), ledger.charged_bytes()), before);
    }
}

#[test]
fn a_longer_queue_of_our_own_pushes_the_clock_out() {
    let mut ledger = ledger();
    let now = Nanos::from_secs(1);
    ledger.on_reading(now, Reading::own(10 * PACKET_BYTES));
    assert_eq!(ledger.bytes_below(now), 10 * PACKET_BYTES);
}

#[test]
fn a_shorter_queue_than_thought_pulls_it_in() {
    let mut ledger = ledger();
    let now = Nanos::from_secs(1);
    ledger.charge(now, 10 * PACKET_BYTES);
    ledger.on_reading(now, Reading::own(0));
    assert_eq!(ledger.bytes_below(now), PACKET_BYTES);
}

#[test]
fn a_measurement_that_agrees_changes_nothing() {
    let mut ledger = ledger();
    let now = Nanos::from_secs(1);
    ledger.charge(now, 2 * PACKET_BYTES);
    let before = ledger.below(now);
    ledger.on_reading(now, Reading::own(PACKET_BYTES));
    assert_eq!(ledger.below(now), before);
}

/// Formerly, another program's backlog stopped every response for as long as it stood.
#[test]
fn cross_bytes_delay_nobody() {
    let mut ledger = ledger();
    let now = Nanos::from_secs(1);
    assert!(!ledger.is_explained(now, 100 * PACKET_BYTES));
    ledger.on_reading(now, Reading { own_bytes: 0, ..Reading::own(100 * PACKET_BYTES) });
    assert_eq!(ledger.below(now), Nanos::ZERO);
    ledger.on_reading(now, Reading { own_bytes: PACKET_BYTES, ..Reading::own(100 * PACKET_BYTES) });
    assert_eq!(ledger.bytes_below(now), PACKET_BYTES);
}

#[test]
fn a_new_rate_is_for_what_is_below_too() {
    let mut ledger = ledger();
    let now = Nanos::from_secs(1);
    ledger.charge(now, 10 * PACKET_BYTES);
    let below = ledger.bytes_below(now);
    ledger.set_rate(now, "5mbit".parse().ok());
    assert_eq!(ledger.bytes_below(now), below);
    assert_eq!(ledger.below(now), Nanos(below * 1600));
}

/// The bytes that a link of that rate sends in a millisecond, the maximum lag of the clock.
const LAG_BYTES: u64 = 1250;

#[test]
fn what_left_unnoticed_is_below_us_whole_only_where_nobody_reads_the_queue() {
    for (is_read, below) in [(true, 2 * PACKET_BYTES), (false, 10 * PACKET_BYTES)] {
        let mut ledger = ledger();
        let now = Nanos::from_secs(1);
        ledger.charge_late(now, 10 * PACKET_BYTES, is_read);
        assert_eq!(ledger.bytes_below(now), below - LAG_BYTES);
        assert_eq!(ledger.charged_bytes(), 10 * PACKET_BYTES);
    }
}

#[test]
fn what_is_still_to_leave_is_waited_for_only_where_nobody_reads_the_queue() {
    for (is_read, below) in [(true, 0), (false, 3 * PACKET_BYTES - LAG_BYTES)] {
        let mut ledger = ledger();
        let now = Nanos::from_secs(1);
        ledger.charge_ahead(now, 3 * PACKET_BYTES, is_read);
        assert_eq!((ledger.bytes_below(now), ledger.charged_bytes()), (below, 3 * PACKET_BYTES));
    }
}

/// Reading the bytes that every connection has below costs system calls, which is not worth it for a queue that our own
/// charges explain.
#[test]
fn a_queue_two_packets_longer_than_charged_needs_no_second_look() {
    let mut ledger = ledger();
    let now = Nanos::from_secs(1);
    let explained_of =
        |ledger: &Ledger, charged: u64| [0, 1].map(|more| ledger.is_explained(now, charged + 2 * PACKET_BYTES + more));
    assert!(ledger.is_explained(now, 0));
    assert_eq!(explained_of(&ledger, 0), [false, false], "nothing of ours can be there");
    ledger.charge(now, 3 * PACKET_BYTES);
    assert_eq!(explained_of(&ledger, 3 * PACKET_BYTES - LAG_BYTES), [true, false]);
    let late = now + LINK.parse::<Rate>().unwrap().time_for(5 * PACKET_BYTES);
    assert_eq!([late, late + Nanos(1)].map(|at| ledger.is_explained(at, 1)), [true, false], "ours have left");
    let (ledger, now) = beside_others(Presence::Shared);
    assert!(!ledger.is_explained(now, 0), "whose bytes come next?");
}

#[test]
fn neither_a_new_rate_nor_an_empty_queue_takes_away_the_lag_that_may_be_caught_up() {
    let now = Nanos::from_secs(1);
    let changes: [fn(&mut Ledger, Nanos); 2] =
        [|ledger, now| ledger.set_rate(now, LINK.parse().ok()), |ledger, now| ledger.on_reading(now, Reading::own(0))];
    for change in changes {
        let mut ledger = ledger();
        change(&mut ledger, now);
        ledger.charge(now, PACKET_BYTES);
        assert_eq!(ledger.bytes_below(now), PACKET_BYTES - LAG_BYTES);
    }
}

const OTHERS_BYTES: u64 = 10 * PACKET_BYTES;

fn read(ledger: &mut Ledger, now: Nanos, own_bytes: u64) {
    let watched = if own_bytes > 0 { Watched::Waits } else { Watched::Left };
    ledger.on_reading(now, Reading { queued_bytes: OTHERS_BYTES + own_bytes, own_bytes, drops: 0, watched });
}

/// Returns a ledger that has found others at this place, and the time.
fn beside_others(presence: Presence) -> (Ledger, Nanos) {
    let (mut ledger, mut now) = (ledger(), Nanos::from_secs(1));
    // At first we assume a FIFO, until a hand-down of ours leaves before the others' bytes.
    for _ in 0..50 {
        read(&mut ledger, now, 0);
        if ledger.cross_traffic().presence() == presence {
            return (ledger, now);
        }
        ledger.charge(now, PACKET_BYTES);
        ledger.on_watched(now);
        now += Nanos::from_millis(1);
    }
    panic!("never {presence:?}");
}

/// In a FIFO our bytes leave when it is their turn, not at our pace, and not after the queue is empty.
#[test]
fn what_is_ours_in_a_shared_fifo_is_below_us_until_the_fifo_is_empty() {
    let (mut ledger, now) = beside_others(Presence::Shared);
    ledger.charge(now, 5 * PACKET_BYTES);
    let below = ledger.below(now);
    read(&mut ledger, now, 5 * PACKET_BYTES);
    assert_eq!(ledger.below(now), below);
    ledger.on_reading(now, Reading::own(0));
    assert_eq!(ledger.bytes_below(now), PACKET_BYTES, "one may be leaving");
}

/// The time at which a queue of our own is served is unknown: its bytes already hold back the next grant, from the last
/// one on.
#[test]
fn a_grant_waits_for_what_is_in_a_queue_of_our_own() {
    let (mut ledger, mut now) = beside_others(Presence::Apart);
    now += Nanos::from_secs(1);
    read(&mut ledger, now, 10 * PACKET_BYTES);
    assert_eq!(ledger.below(now), Nanos::ZERO, "TCP by itself keeps that there");
    ledger.charge(now, PACKET_BYTES);
    assert_eq!(ledger.bytes_below(now), 10 * PACKET_BYTES, "all but the packet that the shaper is to find");
    read(&mut ledger, now, 21 * PACKET_BYTES);
    assert_eq!(ledger.bytes_below(now), 20 * PACKET_BYTES);
}

/// A queue below, in order: whether each packet is ours, its bytes, and its time of arrival.
#[derive(Default)]
struct Fifo {
    packets: std::collections::VecDeque<(bool, u64, Nanos)>,
    bytes: u64,
    drops: u64,
    sent: [u64; 2],
    /// The longest time that a packet of ours stood here.
    own_sojourn_max: Nanos,
}

impl Fifo {
    fn put(&mut self, now: Nanos, is_own: bool, bytes: u64, packets_max: usize) -> bool {
        let fits = self.packets.len() < packets_max;
        if fits {
            self.packets.push_back((is_own, bytes, now));
            self.bytes += bytes;
        } else {
            self.drops += 1;
        }
        fits
    }

    fn take(&mut self, now: Nanos) -> Option<u64> {
        let (is_own, bytes, came_at) = self.packets.pop_front()?;
        self.bytes -= bytes;
        self.sent[usize::from(is_own)] += bytes;
        if is_own {
            self.own_sojourn_max = self.own_sojourn_max.max(now - came_at);
        }
        Some(bytes)
    }

    fn own_bytes(&self) -> u64 {
        self.packets.iter().filter(|packet| packet.0).map(|packet| packet.1).sum()
    }
}

/// A link below a ledger that always has something to send, with a sender of cross traffic.
struct Bench {
    ledger: Ledger,
    /// One queue for all, or one for each sender, served in turn.
    queues: Vec<Fifo>,
    now: Nanos,
    idle_at: Nanos,
    turn: usize,
    /// The count of our sent bytes at which the watched hand-down has left.
    watched_until_bytes: Option<u64>,
}

const STEP: Nanos = Nanos::from_micros(100);
const AHEAD: Nanos = Nanos::from_micros(300);
const PACKETS_MAX: usize = 100;

impl Bench {
    fn new(queues: usize) -> Bench {
        let queues = (0..queues).map(|_| Fifo::default()).collect();
        Bench {
            ledger: ledger(),
            queues,
            now: Nanos::from_secs(1),
            idle_at: Nanos::ZERO,
            turn: 0,
            watched_until_bytes: None,
        }
    }

    /// Advances the link, the sender of cross traffic, which keeps `cross_packets` queued, and us by a step.
    fn step(&mut self, cross_packets: usize) {
        self.now += STEP;
        let rate: Rate = LINK.parse().unwrap();
        while self.idle_at <= self.now {
            let started_at = self.idle_at.max(self.now - STEP);
            let count = self.queues.len();
            let sent = (0..count).find_map(|_| {
                self.turn = (self.turn + 1) % count;
                self.queues[self.turn].take(started_at)
            });
            let Some(bytes) = sent else { break };
            self.idle_at = started_at + rate.time_for(bytes);
        }
        let cross = self.queues.last_mut().unwrap();
        while cross.packets.iter().filter(|packet| !packet.0).count() < cross_packets
            && cross.put(self.now, false, PACKET_BYTES, PACKETS_MAX)
        {}
        self.send();
    }

    fn send(&mut self) {
        for _ in 0..20 {
            if self.ledger.room_at(AHEAD) > self.now {
                return;
            }
            let queued_bytes = self.queues.iter().map(|queue| queue.bytes).sum();
            let drops = self.queues.iter().map(|queue| queue.drops).sum();
            let own_bytes = match self.ledger.is_explained(self.now, queued_bytes) {
                true => queued_bytes,
                false => self.queues[0].own_bytes(),
            };
            let watched = self.look();
            self.ledger.on_reading(self.now, Reading { queued_bytes, own_bytes, drops, watched });
            if self.ledger.room_at(AHEAD) > self.now {
                return;
            }
            let is_in = self.queues[0].put(self.now, true, PACKET_BYTES, PACKETS_MAX);
            self.ledger.charge(self.now, PACKET_BYTES);
            if is_in && self.ledger.wants_watch() {
                self.ledger.on_watched(self.now);
                self.watched_until_bytes = Some(self.queues[0].sent[1] + self.queues[0].own_bytes());
            }
        }
    }

    fn look(&mut self) -> Watched {
        match self.watched_until_bytes {
            None => Watched::Nothing,
            Some(bytes) if self.queues[0].sent[1] < bytes => Watched::Waits,
            Some(_) => {
                self.watched_until_bytes = None;
                Watched::Left
            }
        }
    }

    fn run(&mut self, seconds: u64, cross_packets: usize) {
        for _ in 0..seconds * 10_000 {
            self.step(cross_packets);
        }
    }

    /// Returns the bytes of ours and of others that left in this many seconds.
    fn carried(&mut self, seconds: u64, cross_packets: usize) -> (u64, u64) {
        let sum = |queues: &[Fifo], own: usize| queues.iter().map(|queue| queue.sent[own]).sum::<u64>();
        let before = (sum(&self.queues, 1), sum(&self.queues, 0));
        self.run(seconds, cross_packets);
        (sum(&self.queues, 1) - before.0, sum(&self.queues, 0) - before.1)
    }
}

const LINK_BYTES_PER_S: u64 = 1_250_000;

/// In one FIFO with a sender that fills it, both have their half, whatever else the FIFO drops; and our bytes fill the
/// link again once the others are gone.
#[test]
fn a_shared_fifo_is_shared() {
    for cross_packets in [4, 20, 45] {
        let mut bench = Bench::new(1);
        bench.run(1, 0);
        bench.run(1, cross_packets);
        assert_eq!(bench.ledger.cross_traffic().presence(), Presence::Shared, "{cross_packets}");
        let (own, cross) = bench.carried(5, cross_packets);
        let half = 5 * LINK_BYTES_PER_S / 2;
        assert!(own.abs_diff(half) < half / 20, "{cross_packets}: ours {own} of {half}");
        assert!(cross > half * 19 / 20, "{cross_packets}: theirs {cross} of {half}");
        bench.run(1, 0);
        assert_eq!(bench.ledger.cross_traffic().presence(), Presence::Absent, "{cross_packets}");
        let (own, _) = bench.carried(2, 0);
        assert!(own >= 2 * LINK_BYTES_PER_S - 10 * PACKET_BYTES, "{cross_packets}: {own} alone");
    }
}

/// One or two packets of others are fewer than the limit below which a queue counts as ours unexamined. A sender that
/// always has them there (BBR does) stopped every response for as long as it sent.
#[test]
fn a_few_packets_of_others_that_never_end_delay_nobody() {
    for (queues, cross_packets) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let mut bench = Bench::new(queues);
        bench.run(1, cross_packets);
        let (own, _) = bench.carried(5, cross_packets);
        assert!(own > 5 * LINK_BYTES_PER_S * 4 / 10, "{queues} {cross_packets}: {own}");
    }
}

/// A FIFO so full that it drops arrivals is still one: a dropped packet has overtaken nothing.
#[test]
fn a_full_fifo_is_shared() {
    for cross_packets in [60, 99] {
        let mut bench = Bench::new(1);
        bench.run(2, cross_packets);
        assert!(bench.queues[0].drops > 0);
        for _ in 0..5 {
            bench.run(1, cross_packets);
            assert_eq!(bench.ledger.cross_traffic().presence(), Presence::Shared, "{cross_packets}");
        }
    }
}

/// A queue of our own stays short, and carries the rate that the shaper gives.
#[test]
fn a_queue_of_our_own_stays_short() {
    for cross_packets in [4, 20, 98] {
        let mut bench = Bench::new(2);
        bench.run(2, cross_packets);
        assert_eq!(bench.ledger.cross_traffic().presence(), Presence::Apart, "{cross_packets}");
        bench.queues[0].own_sojourn_max = Nanos::ZERO;
        let (own, cross) = bench.carried(5, cross_packets);
        let half = 5 * LINK_BYTES_PER_S / 2;
        assert!(own.abs_diff(half) < half / 20, "{cross_packets}: ours {own} of {half}");
        assert!(cross.abs_diff(half) < half / 20, "{cross_packets}: theirs {cross} of {half}");
        let sojourn = bench.queues[0].own_sojourn_max;
        assert!(sojourn < Nanos::from_millis(15), "{cross_packets}: {sojourn:?}");
    }
}

/// A FIFO mistaken for a queue of our own is found out: packets stay in it as long as in a FIFO.
#[test]
fn a_fifo_is_not_taken_for_a_queue_of_our_own_for_long() {
    let mut bench = Bench::new(2);
    bench.run(2, 50);
    assert_eq!(bench.ledger.cross_traffic().presence(), Presence::Apart);
    bench.queues.remove(0);
    bench.turn = 0;
    bench.run(2, 50);
    assert_eq!(bench.ledger.cross_traffic().presence(), Presence::Shared);
    let (own, _) = bench.carried(5, 50);
    assert!(own > 5 * LINK_BYTES_PER_S * 45 / 100, "{own}");
}

/// Short bursts of others cost nothing: a keystroke, an acknowledgement, a page of another server.
#[test]
fn a_backlog_that_comes_and_goes_is_not_cross_traffic() {
    let mut bench = Bench::new(1);
    for _ in 0..100 {
        for step in 0..400 {
            bench.step(if step == 0 { 8 } else { 0 });
        }
        assert_eq!(bench.ledger.cross_traffic().presence(), Presence::Absent);
    }
}

proptest! {
    /// Charged minus refunded is the bytes that left plus the bytes below, whatever is measured in the meantime.
    #[test]
    fn no_byte_is_lost(steps in prop::collection::vec((0u64..5_000, 0u64..3_000, 0u64..200_000, 0u64..200_000, 0u64..5_000_000), 1..200)) {
        let mut ledger = ledger();
        let (mut now, mut charged) = (Nanos::from_secs(1), 0u64);
        for (charge, refund, queued_bytes, own_bytes, nanos) in steps {
            ledger.charge(now, charge);
            let refund = refund.min(charge);
            ledger.refund(refund);
            charged += charge - refund;
            ledger.on_reading(now, Reading { own_bytes, ..Reading::own(queued_bytes) });
            now += Nanos(nanos);
            prop_assert_eq!(ledger.charged_bytes(), charged);
            // The most is our own bytes, plus a packet that may be leaving.
            let most = own_bytes.min(queued_bytes) + PACKET_BYTES;
            if ledger.cross_traffic().presence() == Presence::Absent {
                prop_assert!(ledger.bytes_below(now) <= most, "{} of {most}", ledger.bytes_below(now));
            }
        }
    }
}
