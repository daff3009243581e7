//! Cross traffic in the queue below us: an upload, a backup, or another server behind the same shaper.
//!
//! The length of a queue that holds others' bytes reveals nothing about ours. If others share *our* FIFO, the sender
//! that sends less loses: we then hand down at the link's rate minus a configured share, and the other senders' TCP
//! finds that share by itself. If others have a queue of their own (a sibling class, another flow of fq_codel), the
//! shaper already divides the link: we then keep a few packets of our own below us and take the rate that the shaper
//! gives.
//!
//! No interface reports which of the two applies, but a FIFO has a law: bytes handed down behind `q` others leave
//! exactly when the link has sent `q`. So one hand-down at a time is watched through its own socket. (The sum over all
//! our sockets is too inexact, because TCP sends on its own the bytes that it had kept for lack of a window.) A
//! hand-down that leaves well before that time has overtaken others, and one that stays well beyond it was overtaken.
//! In both cases we have a queue of our own ([`Presence::Apart`]).

use units::{Nanos, Rate};

use crate::pacing::ledger::{PACKET_BYTES, Reading, Watched};

/// The default share of the link that cross traffic gets while it waits in our queue, in thousandths. Half is what two
/// equal senders would get.
pub const CROSS_SHARE_PERMILLE: u32 = 500;

/// The minimum bytes of cross traffic that count as a backlog; acknowledgements and keystrokes stay below it.
const STANDING_BYTES_MIN: u64 = 2 * PACKET_BYTES;
/// The same minimum as link time, for faster links: the rest of a burst of one millisecond's grant.
const STANDING_FOR_MIN: Nanos = Nanos::from_micros(500);
/// A backlog counts as cross traffic after it has stood this long without a gap, and as gone after a gap of this
/// length.
const STANDS_AFTER: Nanos = Nanos::from_millis(25);
/// The part, in thousandths, that we use of the rate that cross traffic leaves. It is a little less than all, so that a
/// queue of our own would run empty from time to time and be discovered.
const SHARED_PERMILLE: u64 = 980;
/// The number of consecutive hand-downs that must contradict the present belief before it changes.
const PROBES_MIN: u32 = 3;
/// The bytes that we keep in a queue of our own, so that the shaper always finds some when it is our turn.
const APART_BYTES_MAX: u64 = 2 * PACKET_BYTES;

/// The place of cross traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Presence {
    /// There is no cross traffic, or only briefly.
    #[default]
    Absent,
    /// Other traffic is in the FIFO that our own bytes wait in.
    Shared,
    /// Other traffic is in a queue separate from ours.
    Apart,
}

#[derive(Debug)]
pub struct CrossTraffic {
    share_permille: u32,
    presence: Presence,
    /// The minimum bytes of cross traffic at the last reading.
    bytes: u64,
    /// The time since which every reading has contradicted `presence`: a backlog if it is absent, none if it is
    /// present.
    differs_since: Option<Nanos>,
    /// The last reading, plus the bytes handed down since.
    last: Option<Reading>,
    probe: Option<Probe>,
    /// Probes in a row that contradicted [`CrossTraffic::presence`].
    against: u32,
}

/// A hand-down that is watched until it has been sent.
#[derive(Debug, Clone, Copy)]
struct Probe {
    at: Nanos,
    /// The time within which a FIFO would send it.
    fifo_for: Nanos,
    drops: u64,
}

impl CrossTraffic {
    /// Creates the record of cross traffic that gets `share_permille` of the link, at most 900.
    pub fn new(share_permille: u32) -> CrossTraffic {
        assert!(share_permille <= 900, "a share of cross traffic of {share_permille} per mille");
        CrossTraffic {
            share_permille,
            presence: Presence::Absent,
            bytes: 0,
            differs_since: None,
            last: None,
            probe: None,
            against: 0,
        }
    }

    pub fn presence(&self) -> Presence {
        self.presence
    }

    /// Returns the minimum bytes of cross traffic in the queue at the last reading.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn share_permille(&self) -> u32 {
        self.share_permille
    }

    /// Returns the rate that cross traffic leaves to us.
    pub(crate) fn rate_left(&self, rate: Rate) -> Rate {
        if self.presence != Presence::Shared {
            return rate;
        }
        rate.permille((u64::from(1000 - self.share_permille) * SHARED_PERMILLE / 1000) as u32)
    }

    /// Records that we handed bytes down.
    pub(crate) fn on_charged(&mut self, wire_bytes: u64) {
        if let Some(last) = &mut self.last {
            last.own_bytes += wire_bytes;
            last.queued_bytes += wire_bytes;
        }
    }

    /// Records that bytes of the last hand-down have not reached the queue, because TCP keeps them for lack of a
    /// window.
    pub(crate) fn on_refunded(&mut self, wire_bytes: u64) {
        if let Some(last) = &mut self.last {
            last.own_bytes = last.own_bytes.saturating_sub(wire_bytes);
            last.queued_bytes = last.queued_bytes.saturating_sub(wire_bytes);
        }
    }

    /// Returns whether a hand-down should be watched; without cross traffic there is nothing to overtake.
    pub(crate) fn wants_watch(&self) -> bool {
        self.probe.is_none() && self.presence != Presence::Absent && self.bytes >= STANDING_BYTES_MIN
    }

    /// Watches the last hand-down from now on, on a link of this rate.
    pub(crate) fn on_watched(&mut self, now: Nanos, rate: Rate) {
        let Some(last) = self.last.filter(|_| self.wants_watch()) else { return };
        self.probe = Some(Probe { at: now, fifo_for: rate.time_for(last.queued_bytes), drops: last.drops });
    }

    /// Records a measurement of the queue on a link of this rate; returns [`CrossTraffic::holding_bytes`].
    pub(crate) fn on_reading(&mut self, now: Nanos, reading: Reading, rate: Rate) -> u64 {
        let own = reading.own_bytes.min(reading.queued_bytes);
        self.bytes = reading.queued_bytes - own;
        self.last = Some(Reading { own_bytes: own, ..reading });
        self.follow(now, rate);
        self.judge(now, reading);
        self.holding_bytes()
    }

    /// Returns how many of our own bytes must leave before the next grant, from the last reading and the bytes handed
    /// down since.
    pub(crate) fn holding_bytes(&self) -> u64 {
        let Some(Reading { queued_bytes, own_bytes, .. }) = self.last else { return 0 };
        match self.presence {
            Presence::Absent => own_bytes,
            Presence::Shared => {
                // Our part of a FIFO is our share of it; only the excess is a queue that we built.
                let share = u128::from(queued_bytes) * u128::from(1000 - self.share_permille) / 1000;
                own_bytes.saturating_sub(share as u64 + APART_BYTES_MAX)
            }
            Presence::Apart => own_bytes.saturating_sub(APART_BYTES_MAX - PACKET_BYTES),
        }
    }

    /// Switches between presence and absence, each after readings have agreed for some time.
    fn follow(&mut self, now: Nanos, rate: Rate) {
        let stands = self.bytes >= STANDING_BYTES_MIN.max(rate.bytes_in(STANDING_FOR_MIN));
        if stands == (self.presence != Presence::Absent) {
            self.differs_since = None;
            return;
        }
        let since = *self.differs_since.get_or_insert(now);
        if now - since >= STANDS_AFTER {
            self.enter(if stands { Presence::Shared } else { Presence::Absent });
        }
    }

    fn enter(&mut self, presence: Presence) {
        self.presence = presence;
        (self.differs_since, self.probe, self.against) = (None, None, 0);
    }

    /// Checks whether the probe has left, and updates the belief.
    fn judge(&mut self, now: Nanos, reading: Reading) {
        let Some(probe) = self.probe else { return };
        let is_lost = reading.watched == Watched::Nothing;
        // A dropped packet is gone early too, and has overtaken nothing.
        if is_lost || reading.drops != probe.drops || self.bytes < STANDING_BYTES_MIN {
            self.probe = None;
            return;
        }
        let waited = now - probe.at;
        let is_overtaken = waited > permille(probe.fifo_for, 1500);
        if reading.watched == Watched::Waits && !is_overtaken {
            return;
        }
        self.probe = None;
        let has_overtaken = waited < permille(probe.fifo_for, 750);
        let speaks_for = if has_overtaken || is_overtaken {
            Presence::Apart
        } else if waited >= permille(probe.fifo_for, 900) {
            Presence::Shared
        } else {
            // A coarse reading of a short queue proves neither.
            self.presence
        };
        self.against = if speaks_for == self.presence { 0 } else { self.against + 1 };
        if self.against >= PROBES_MIN {
            (self.presence, self.against) = (speaks_for, 0);
        }
    }
}

fn permille(span: Nanos, permille: u64) -> Nanos {
    Nanos(span.0.saturating_mul(permille) / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte takes a microsecond.
    const LINK: &str = "8mbit";
    const BACKLOG: u64 = 10 * PACKET_BYTES;
    /// The time that a packet behind [`BACKLOG`] takes in a FIFO.
    const FIFO_FOR: Nanos = Nanos::from_micros(11 * PACKET_BYTES);

    struct Bench {
        cross: CrossTraffic,
        now: Nanos,
    }

    impl Bench {
        fn new(share_permille: u32) -> Bench {
            Bench { cross: CrossTraffic::new(share_permille), now: Nanos::from_secs(1) }
        }

        /// A bench where a backlog has stood for long enough.
        fn shared(share_permille: u32) -> Bench {
            let mut bench = Bench::new(share_permille);
            bench.read(Nanos::ZERO, BACKLOG, 0);
            bench.read(STANDS_AFTER, BACKLOG, 0);
            assert_eq!(bench.cross.presence(), Presence::Shared);
            bench
        }

        /// Reads these bytes of others and of ours, after some time; returns the bytes that should hold us back.
        fn read(&mut self, after: Nanos, cross_bytes: u64, own_bytes: u64) -> u64 {
            let watched = if own_bytes > 0 { Watched::Waits } else { Watched::Left };
            self.read_with(after, Reading { queued_bytes: cross_bytes + own_bytes, own_bytes, drops: 0, watched })
        }

        fn read_with(&mut self, after: Nanos, reading: Reading) -> u64 {
            self.now += after;
            self.cross.on_reading(self.now, reading, LINK.parse().unwrap())
        }

        fn hand_down(&mut self) {
            self.cross.on_charged(PACKET_BYTES);
            self.cross.on_watched(self.now, LINK.parse().unwrap());
        }

        /// Hands a packet down behind others' bytes, and reads after some time how much of both is left.
        fn watch(&mut self, cross_bytes: u64, waited: Nanos, left: (u64, u64)) {
            self.read(Nanos::ZERO, cross_bytes, 0);
            self.hand_down();
            self.read(waited, left.0, left.1);
        }

        /// The presence believed after as many hand-downs as it takes to change the belief.
        fn after_probes(mut self, cross_bytes: u64, waited: Nanos, left: (u64, u64)) -> Presence {
            (0..PROBES_MIN).for_each(|_| self.watch(cross_bytes, waited, left));
            self.cross.presence()
        }
    }

    const AT_ONCE: Nanos = Nanos::from_millis(1);

    #[test]
    fn an_operator_is_told_the_others_bytes_and_their_share() {
        let mut bench = Bench::new(300);
        bench.read(Nanos::ZERO, BACKLOG, 3 * PACKET_BYTES);
        assert_eq!((bench.cross.bytes(), bench.cross.share_permille()), (BACKLOG, 300));
    }

    #[test]
    fn two_packets_or_half_a_millisecond_of_the_link_are_a_backlog() {
        for (rate, bytes) in [(LINK, 2 * PACKET_BYTES), ("1gbit", 62_500)] {
            let presence_of = |bytes| {
                let mut cross = CrossTraffic::new(CROSS_SHARE_PERMILLE);
                let reading = Reading { own_bytes: 0, ..Reading::own(bytes) };
                for at in [Nanos::ZERO, STANDS_AFTER] {
                    cross.on_reading(at, reading, rate.parse().unwrap());
                }
                cross.presence()
            };
            assert_eq!((presence_of(bytes - 1), presence_of(bytes)), (Presence::Absent, Presence::Shared), "{rate}");
        }
    }

    #[test]
    fn others_in_our_queue_cost_their_share_of_the_rate() {
        let rate = Bench::shared(300).cross.rate_left("10mbit".parse().unwrap());
        assert_eq!(rate, "6.86mbit".parse().unwrap(), "98 % of seven tenths");
    }

    /// In a FIFO our share is not a queue that we built; in a queue of our own, one packet is enough for the shaper to
    /// find.
    #[test]
    fn only_what_is_beyond_our_part_of_the_queue_holds_us_back() {
        let mut bench = Bench::shared(300);
        assert_eq!(bench.read(AT_ONCE, 20 * PACKET_BYTES, 80 * PACKET_BYTES), 8 * PACKET_BYTES);
        assert_eq!(bench.read(AT_ONCE, 30 * PACKET_BYTES, 70 * PACKET_BYTES), 0);
        (0..PROBES_MIN).for_each(|_| bench.watch(BACKLOG, AT_ONCE, (BACKLOG, 0)));
        assert_eq!(bench.cross.presence(), Presence::Apart);
        assert_eq!(bench.read(AT_ONCE, BACKLOG, 5 * PACKET_BYTES), 4 * PACKET_BYTES);
    }

    #[test]
    fn who_leaves_well_before_or_stays_well_beyond_a_fifo_s_time_is_in_a_queue_of_its_own() {
        let after = |waited, own_left| Bench::shared(500).after_probes(BACKLOG, waited, (BACKLOG, own_left));
        let part = |permille| Nanos(FIFO_FOR.0 * permille / 1000);
        assert_eq!(after(part(750) - Nanos(1), 0), Presence::Apart);
        assert_eq!(after(part(750), 0), Presence::Shared, "too near to tell");
        assert_eq!(after(part(1500), 0), Presence::Shared);
        assert_eq!(after(part(1500), PACKET_BYTES), Presence::Shared, "it may leave now");
        assert_eq!(after(part(1500) + Nanos(1), PACKET_BYTES), Presence::Apart);
    }

    /// Two packets of others are enough to learn from.
    #[test]
    fn the_least_backlog_can_be_overtaken() {
        let least = STANDING_BYTES_MIN;
        assert_eq!(Bench::shared(500).after_probes(least, AT_ONCE, (least, 0)), Presence::Apart);
    }

    /// A packet proves nothing if there is no other packet to overtake when it is handed down or when it is looked for,
    /// or if it is not yet certain that there is other traffic.
    #[test]
    fn who_overtakes_nobody_proves_nothing() {
        assert_eq!(Bench::shared(500).after_probes(PACKET_BYTES, AT_ONCE, (BACKLOG, 0)), Presence::Shared);
        assert_eq!(Bench::shared(500).after_probes(BACKLOG, AT_ONCE, (PACKET_BYTES, 0)), Presence::Shared);
        assert_eq!(Bench::new(500).after_probes(BACKLOG, AT_ONCE, (BACKLOG, 0)), Presence::Absent);
    }
}
