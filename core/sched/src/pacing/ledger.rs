//! The byte ledger of the link: the bytes charged to it, those still below us, those that have left, and those that
//! belong to others.
//!
//! Any FIFO below the decision undoes the order, so the scheduler hands down only bytes that can leave immediately, and
//! must know how many are still there. Two sources are needed (as in Homa's qdisc, where dropping either cost 10–15 %
//! of P99). A virtual clock, `idle_at`, gives the time when everything charged so far will have left at the link's
//! rate; used alone, it lets a queue grow whenever its rate is a little more than the line's. A measurement of the
//! queue corrects that; used alone, it is too coarse, since a shaper's queue reads zero while the segment it last
//! released still occupies the link.
//!
//! Every byte has an owner. A queue measured below us may hold any program's bytes, and only our own may delay us:
//! waiting for another program's backlog hands it the whole link (one upload stopped every response for 58 s). Bytes of
//! cross traffic cost us rate instead, and never more than their share ([`CrossTraffic`]).

use units::{Nanos, Rate};

use crate::pacing::cross_traffic::{CrossTraffic, Presence};
use crate::pacing::pace::Pace;

/// A full Ethernet packet: the resolution of a measurement.
pub(crate) const PACKET_BYTES: u64 = 1514;
/// The maximum bytes that count as in flight if they left without a charge and the queue is read. Any further bytes
/// left long ago, or the next reading will show them.
const LATE_BYTES_MAX: u64 = 2 * PACKET_BYTES;
/// The number of bytes by which a queue may exceed the clock's prediction. A longer queue is examined to find whose
/// bytes it holds.
const UNEXPLAINED_BYTES_MAX: u64 = 2 * PACKET_BYTES;

/// The minimum bytes that count as a packet of cross traffic. Smaller amounts are ignored, because sockets do not
/// report our own bytes exactly.
const CROSS_BYTES_MIN: u64 = PACKET_BYTES / 2;

/// A measurement of the queue below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// All bytes in the queue, from all senders.
    pub queued_bytes: u64,
    /// An upper bound of our own bytes among them: all of them unless they were examined ([`Ledger::is_explained`]).
    pub own_bytes: u64,
    /// The packets that the queue has dropped since it was created.
    pub drops: u64,
    pub watched: Watched,
}

impl Reading {
    /// Makes a reading in which all bytes are ours.
    pub fn own(queued_bytes: u64) -> Reading {
        Reading { queued_bytes, own_bytes: queued_bytes, drops: 0, watched: Watched::Nothing }
    }
}

/// The state of the hand-down that is watched ([`Ledger::on_watched`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Watched {
    /// No hand-down is watched, or the watched one can no longer be told apart from others in the queue.
    #[default]
    Nothing,
    /// The hand-down is in the queue.
    Waits,
    Left,
}

#[derive(Debug)]
pub struct Ledger {
    /// The link's rate, or a lower rate if cross traffic takes a share.
    rate: Option<Rate>,
    behind: Nanos,
    /// The time by which the link will have sent all charged bytes.
    idle_at: Nanos,
    /// The same time, computed from the charges without measurements: anything still queued after it is not ours.
    due_at: Nanos,
    /// The time at which a grant was last charged.
    granted_at: Nanos,
    charged_bytes: u64,
    cross: CrossTraffic,
}

impl Ledger {
    pub fn new(pace: &Pace) -> Ledger {
        Ledger {
            rate: pace.rate,
            behind: pace.behind,
            idle_at: Nanos::ZERO,
            due_at: Nanos::ZERO,
            granted_at: Nanos::ZERO,
            charged_bytes: 0,
            cross: CrossTraffic::new(pace.cross_permille),
        }
    }

    /// Returns the rate at which bytes are handed down now. It is below the link's rate while cross traffic waits in
    /// the same queue.
    pub fn rate(&self) -> Option<Rate> {
        self.rate.map(|rate| self.cross.rate_left(rate))
    }

    /// Replaces the link's rate and rescales the time for the bytes below us. Without a rate nothing waits.
    pub fn set_rate(&mut self, now: Nanos, rate: Option<Rate>) {
        let below = self.bytes_below(now);
        self.rate = rate;
        if rate.is_none() {
            self.idle_at = self.idle_at.min(now);
        }
        if below > 0 {
            self.idle_at = now + self.time_for(below);
        }
    }

    /// Replaces the rate and all other settings of the pace.
    pub fn change(&mut self, now: Nanos, pace: &Pace) {
        self.set_rate(now, pace.rate);
        self.behind = pace.behind;
        if self.cross.share_permille() != pace.cross_permille {
            self.cross = CrossTraffic::new(pace.cross_permille);
        }
    }

    /// Records that there is something to send after an idle time. The link has lost that time; only time lost by our
    /// own lateness is caught up. Otherwise, on a line without a token bucket, two packets would stand below us
    /// throughout each busy period.
    pub fn resume(&mut self, now: Nanos) {
        self.idle_at = self.idle_at.max(now);
    }

    /// Charges `wire_bytes`, which were handed down at `now`. The count includes the link's framing.
    pub fn charge(&mut self, now: Nanos, wire_bytes: u64) {
        self.granted_at = now;
        self.occupy(now, wire_bytes);
        self.charged_bytes += wire_bytes;
        if self.cross.presence() == Presence::Apart {
            // A queue of our own may be served more slowly than the link: until it is read again, we assume that
            // nothing has left it.
            self.idle_at = self.idle_at.max(now + self.time_for(self.cross.holding_bytes()));
        }
    }

    /// Charges bytes that have left unnoticed or are leaving now: acknowledgements, and bytes that TCP had kept or
    /// retransmitted. `is_read` is true if the queue below is read.
    pub fn charge_late(&mut self, now: Nanos, wire_bytes: u64, is_read: bool) {
        self.occupy(now, if is_read { wire_bytes.min(LATE_BYTES_MAX) } else { wire_bytes });
        self.charged_bytes += wire_bytes;
    }

    /// Charges bytes that will leave later, when the counters may no longer be readable. If the queue below is read
    /// (`is_read`), it will show them, and the clock does not wait for bytes that may never come: a client that resets
    /// the connection gets no acknowledgement of its FIN.
    pub fn charge_ahead(&mut self, now: Nanos, wire_bytes: u64, is_read: bool) {
        if !is_read {
            self.occupy(now, wire_bytes);
        }
        self.charged_bytes += wire_bytes;
    }

    /// Refunds charged bytes that have not reached the link.
    pub fn refund(&mut self, wire_bytes: u64) {
        self.cross.on_refunded(wire_bytes);
        self.take_back(wire_bytes);
    }

    fn take_back(&mut self, wire_bytes: u64) {
        debug_assert!(wire_bytes <= self.charged_bytes, "a refund of what was never charged");
        self.charged_bytes -= wire_bytes.min(self.charged_bytes);
        self.idle_at = self.idle_at - self.time_for(wire_bytes);
        self.due_at = self.due_at - self.time_for(wire_bytes);
    }

    /// Refunds bytes that were charged ahead and will never leave. `is_read` must be the same as for the charge.
    pub fn refund_ahead(&mut self, wire_bytes: u64, is_read: bool) {
        if !is_read {
            return self.refund(wire_bytes);
        }
        let idle_at = self.idle_at;
        self.take_back(wire_bytes);
        self.idle_at = idle_at;
    }

    /// Returns whether a queue of this length can be explained by our own charged bytes, given that the last look found
    /// no bytes of others. Otherwise [`Reading::own_bytes`] must be measured.
    pub fn is_explained(&self, now: Nanos, queued_bytes: u64) -> bool {
        let can_be_ours = || now <= self.due_at + self.time_for(UNEXPLAINED_BYTES_MAX);
        self.cross.presence() == Presence::Absent
            && self.cross.bytes() < CROSS_BYTES_MIN
            && queued_bytes <= self.bytes_below(now) + UNEXPLAINED_BYTES_MAX
            && (queued_bytes == 0 || can_be_ours())
    }

    /// Returns whether a hand-down should be watched until it has left, to check from time to time where others' bytes
    /// wait.
    pub fn wants_watch(&self) -> bool {
        self.cross.wants_watch()
    }

    /// Watches the last hand-down from now on. It must have been charged. The next readings report whether it has left.
    pub fn on_watched(&mut self, now: Nanos) {
        if let Some(rate) = self.rate {
            self.cross.on_watched(now, rate);
        }
    }

    /// Records a measurement of the queue below us.
    ///
    /// A shaper sends a packet first and waits afterwards, so up to one full packet may still occupy the link in
    /// addition to the queue. The true amount lies between the two. The clock is corrected only if it lies outside that
    /// range, to the nearer end.
    pub fn on_reading(&mut self, now: Nanos, reading: Reading) {
        let Some(rate) = self.rate else { return };
        let own = self.cross.on_reading(now, reading, rate);
        let for_own = self.time_for(own);
        let presence = self.cross.presence();
        let least = match presence {
            _ if own == 0 => now - self.behind,
            // The time at which a queue of our own is served is unknown. The more it holds, the longer a grant has to
            // wait, but it does not wait for as long as TCP by itself keeps something there.
            Presence::Apart => self.granted_at + for_own,
            Presence::Absent | Presence::Shared => now + for_own,
        };
        let most = match presence {
            // Our bytes in a FIFO leave behind the others' bytes: not at our pace, and no later than when the queue is
            // empty.
            Presence::Shared if reading.queued_bytes > 0 => Nanos::MAX,
            _ => now + for_own + self.time_for(PACKET_BYTES),
        };
        self.idle_at = self.idle_at.max(least).min(most);
    }

    /// Returns the first instant at which a grant may be made, when no more than `ahead` of link time is below us.
    pub fn room_at(&self, ahead: Nanos) -> Nanos {
        self.idle_at - ahead
    }

    /// Returns the time that the link needs for the bytes below us.
    pub fn below(&self, now: Nanos) -> Nanos {
        self.idle_at - now
    }

    /// Returns the bytes below us, which the order no longer applies to. Exported as a metric.
    pub fn bytes_below(&self, now: Nanos) -> u64 {
        self.rate().map_or(0, |rate| rate.bytes_in(self.below(now)))
    }

    /// Returns the wire bytes charged to the link so far, minus the refunds.
    pub fn charged_bytes(&self) -> u64 {
        self.charged_bytes
    }

    /// The traffic of others in the queue below.
    pub fn cross_traffic(&self) -> &CrossTraffic {
        &self.cross
    }

    fn occupy(&mut self, now: Nanos, wire_bytes: u64) {
        self.idle_at = self.idle_at.max(now - self.behind) + self.time_for(wire_bytes);
        self.due_at = self.due_at.max(now) + self.time_for(wire_bytes);
        self.cross.on_charged(wire_bytes);
    }

    fn time_for(&self, wire_bytes: u64) -> Nanos {
        self.rate().map_or(Nanos::ZERO, |rate| rate.time_for(wire_bytes))
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
