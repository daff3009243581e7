use proptest::prelude::*;

use super::*;

const LINK: &str = "10mbit";

fn ledger() -> Ledger {
    Ledger::new(LINK.parse().ok(), Nanos::from_millis(1))
}

#[test]
fn charges_add_up_and_drain_at_the_rate() {
    let mut ledger = ledger();
    let now = Nanos::from_secs(1);
    ledger.charge(now, PACKET_BYTES);
    ledger.charge(now, PACKET_BYTES);
    // One millisecond of lag was caught up, as a token bucket would.
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

/// Where the queue is read what is foreseen did not move the clock, so it does not when it never comes.
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

/// Somebody's backlog stopped every response for as long as it stood.
#[test]
fn foreign_bytes_delay_nobody() {
    let mut ledger = ledger();
    let now = Nanos::from_secs(1);
    assert!(!ledger.is_explained(now, 100 * PACKET_BYTES));
    ledger.on_reading(now, Reading { queued_bytes: 100 * PACKET_BYTES, own_bytes: 0, drops: 0 });
    assert_eq!(ledger.below(now), Nanos::ZERO);
    ledger.on_reading(now, Reading { queued_bytes: 100 * PACKET_BYTES, own_bytes: PACKET_BYTES, drops: 0 });
    assert_eq!(ledger.bytes_below(now), PACKET_BYTES);
}

#[test]
fn a_new_rate_is_for_what_is_below_too() {
    let mut ledger = ledger();
    let now = Nanos::from_secs(1);
    ledger.charge(now, 10 * PACKET_BYTES);
    let below = ledger.bytes_below(now);
    ledger.set_rate(now, "5mbit".parse().unwrap());
    assert_eq!(ledger.bytes_below(now), below);
    assert_eq!(ledger.below(now), Nanos(below * 1600));
}

/// What stands in the queue below, in order: ours or not, bytes, and when it came.
#[derive(Default)]
struct Fifo {
    packets: std::collections::VecDeque<(bool, u64, Nanos)>,
    bytes: u64,
    drops: u64,
    sent: [u64; 2],
    /// The longest that a packet of ours stood here.
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

/// A link below a ledger that always has something to send, beside a foreign sender.
struct Bench {
    ledger: Ledger,
    /// One queue for all, or one each, served in turn.
    queues: Vec<Fifo>,
    now: Nanos,
    idle_at: Nanos,
    turn: usize,
}

const STEP: Nanos = Nanos::from_micros(100);
const AHEAD: Nanos = Nanos::from_micros(300);
const PACKETS_MAX: usize = 100;

impl Bench {
    fn new(queues: usize) -> Bench {
        let queues = (0..queues).map(|_| Fifo::default()).collect();
        Bench { ledger: ledger(), queues, now: Nanos::from_secs(1), idle_at: Nanos::ZERO, turn: 0 }
    }

    /// One step of the link, of the foreign sender, who keeps so many packets queued, and of us.
    fn step(&mut self, foreign_packets: usize) {
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
        let foreign = self.queues.last_mut().unwrap();
        while foreign.packets.iter().filter(|packet| !packet.0).count() < foreign_packets
            && foreign.put(self.now, false, PACKET_BYTES, PACKETS_MAX)
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
            self.ledger.on_reading(self.now, Reading { queued_bytes, own_bytes, drops });
            if self.ledger.room_at(AHEAD) > self.now {
                return;
            }
            self.queues[0].put(self.now, true, PACKET_BYTES, PACKETS_MAX);
            self.ledger.charge(self.now, PACKET_BYTES);
        }
    }

    fn run(&mut self, seconds: u64, foreign_packets: usize) {
        for _ in 0..seconds * 10_000 {
            self.step(foreign_packets);
        }
    }

    /// Bytes of ours and of others that left in so many seconds.
    fn carried(&mut self, seconds: u64, foreign_packets: usize) -> (u64, u64) {
        let sum = |queues: &[Fifo], own: usize| queues.iter().map(|queue| queue.sent[own]).sum::<u64>();
        let before = (sum(&self.queues, 1), sum(&self.queues, 0));
        self.run(seconds, foreign_packets);
        (sum(&self.queues, 1) - before.0, sum(&self.queues, 0) - before.1)
    }
}

const LINK_BYTES_PER_S: u64 = 1_250_000;

/// In one FIFO with somebody who fills it both have their half, whatever else the FIFO drops; and the link is full again
/// with ours once they are gone.
#[test]
fn a_shared_fifo_is_shared() {
    for foreign_packets in [4, 20, 45] {
        let mut bench = Bench::new(1);
        bench.run(1, 0);
        bench.run(1, foreign_packets);
        assert_eq!(bench.ledger.foreign().presence(), Presence::Shared, "{foreign_packets}");
        let (own, foreign) = bench.carried(5, foreign_packets);
        let half = 5 * LINK_BYTES_PER_S / 2;
        assert!(own.abs_diff(half) < half / 20, "{foreign_packets}: ours {own} of {half}");
        assert!(foreign > half * 19 / 20, "{foreign_packets}: theirs {foreign} of {half}");
        bench.run(1, 0);
        assert_eq!(bench.ledger.foreign().presence(), Presence::Absent, "{foreign_packets}");
        let (own, _) = bench.carried(2, 0);
        assert!(own >= 2 * LINK_BYTES_PER_S - 10 * PACKET_BYTES, "{foreign_packets}: {own} alone");
    }
}

/// A FIFO so full that it drops what comes is one all the same: what was dropped has overtaken nobody.
#[test]
fn a_full_fifo_is_shared() {
    for foreign_packets in [60, 99] {
        let mut bench = Bench::new(1);
        bench.run(2, foreign_packets);
        assert!(bench.queues[0].drops > 0);
        for _ in 0..5 {
            bench.run(1, foreign_packets);
            assert_eq!(bench.ledger.foreign().presence(), Presence::Shared, "{foreign_packets}");
        }
    }
}

/// A queue of our own stays short, and carries what the shaper gives.
#[test]
fn a_queue_of_our_own_stays_short() {
    for foreign_packets in [4, 20, 98] {
        let mut bench = Bench::new(2);
        bench.run(2, foreign_packets);
        assert_eq!(bench.ledger.foreign().presence(), Presence::Apart, "{foreign_packets}");
        bench.queues[0].own_sojourn_max = Nanos::ZERO;
        let (own, foreign) = bench.carried(5, foreign_packets);
        let half = 5 * LINK_BYTES_PER_S / 2;
        assert!(own.abs_diff(half) < half / 20, "{foreign_packets}: ours {own} of {half}");
        assert!(foreign.abs_diff(half) < half / 20, "{foreign_packets}: theirs {foreign} of {half}");
        let sojourn = bench.queues[0].own_sojourn_max;
        assert!(sojourn < Nanos::from_millis(15), "{foreign_packets}: {sojourn:?}");
    }
}

/// A queue taken for our own that is none after all: what stays as long as in a FIFO is in one.
#[test]
fn a_fifo_is_not_taken_for_a_queue_of_our_own_for_long() {
    let mut bench = Bench::new(2);
    bench.run(2, 50);
    assert_eq!(bench.ledger.foreign().presence(), Presence::Apart);
    bench.queues.remove(0);
    bench.turn = 0;
    bench.run(2, 50);
    assert_eq!(bench.ledger.foreign().presence(), Presence::Shared);
    let (own, _) = bench.carried(5, 50);
    assert!(own > 5 * LINK_BYTES_PER_S * 45 / 100, "{own}");
}

/// Bursts that drain cost nothing: a keystroke, an acknowledgement, a page of somebody else's.
#[test]
fn a_backlog_that_comes_and_goes_is_not_foreign_traffic() {
    let mut bench = Bench::new(1);
    for _ in 0..100 {
        for step in 0..400 {
            bench.step(if step == 0 { 8 } else { 0 });
        }
        assert_eq!(bench.ledger.foreign().presence(), Presence::Absent);
    }
}

proptest! {
    /// Charged less refunded is what left and what is below, whatever is measured meanwhile.
    #[test]
    fn no_byte_is_lost(steps in prop::collection::vec((0u64..5_000, 0u64..3_000, 0u64..200_000, 0u64..200_000, 0u64..5_000_000), 1..200)) {
        let mut ledger = ledger();
        let (mut now, mut charged) = (Nanos::from_secs(1), 0u64);
        for (charge, refund, queued_bytes, own_bytes, nanos) in steps {
            ledger.charge(now, charge);
            let refund = refund.min(charge);
            ledger.refund(refund);
            charged += charge - refund;
            ledger.on_reading(now, Reading { queued_bytes, own_bytes, drops: 0 });
            now += Nanos(nanos);
            prop_assert_eq!(ledger.charged_bytes(), charged);
            // At most what is ours, and a packet that may be leaving.
            let most = own_bytes.min(queued_bytes) + PACKET_BYTES;
            if ledger.foreign().presence() == Presence::Absent {
                prop_assert!(ledger.bytes_below(now) <= most, "{} of {most}", ledger.bytes_below(now));
            }
        }
    }
}
