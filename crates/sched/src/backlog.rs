//! The bytes below us: what was handed down and has not left the link yet.
//!
//! Any FIFO below the decision undoes it, so the drain hands down only what can leave at once, and for that it must
//! know what is still there. Two sources, and both are needed (the same was found for Homa's qdisc: dropping either
//! cost 10–15 % of P99). A virtual clock, `idle_at`, says when everything charged so far will have left at the
//! link's rate; alone it lets a queue grow whenever bytes leave that nobody charged for (retransmissions, ACKs, another
//! program) or the rate is a little less than nominal. A measurement of the queue itself corrects that; alone it is
//! too coarse, since a shaper's queue reads zero while the segment it last let go still occupies the link.

use units::{Nanos, Rate, wire};

#[derive(Debug)]
pub struct Backlog {
    rate: Option<Rate>,
    behind: Nanos,
    /// When the link will have sent all that was charged.
    idle_at: Nanos,
}

impl Backlog {
    pub fn new(rate: Option<Rate>, behind: Nanos) -> Backlog {
        Backlog { rate, behind, idle_at: Nanos::ZERO }
    }

    /// These bytes, as the link counts them, were handed down now.
    pub fn charge(&mut self, now: Nanos, wire_bytes: u64) {
        let Some(rate) = self.rate else { return };
        self.idle_at = self.idle_at.max(now - self.behind) + rate.time_for(wire_bytes);
    }

    /// Of the bytes charged last, these did not reach the link.
    pub fn refund(&mut self, wire_bytes: u64) {
        let Some(rate) = self.rate else { return };
        self.idle_at = self.idle_at - rate.time_for(wire_bytes);
    }

    /// The queue below us was measured to hold this many bytes.
    ///
    /// A shaper lets a packet go first and waits afterwards, so besides its queue up to one full packet may still
    /// occupy the link: the truth lies between the two, and the clock is moved only as far as it lies outside.
    pub fn on_measured(&mut self, now: Nanos, queued_bytes: u64) {
        let Some(rate) = self.rate else { return };
        let least = now + rate.time_for(queued_bytes);
        let most = least + rate.time_for(wire::bytes_of(wire::SEGMENT_BYTES, wire::SEGMENT_BYTES));
        let least = if queued_bytes == 0 { now - self.behind } else { least };
        self.idle_at = self.idle_at.clamp(least, most);
    }

    /// When no more than `ahead` will be below us: the instant from which a grant may be made.
    pub fn room_at(&self, ahead: Nanos) -> Nanos {
        self.idle_at - ahead
    }

    /// How long the link needs for what is below us.
    pub fn below(&self, now: Nanos) -> Nanos {
        self.idle_at - now
    }

    /// The same in bytes: exported, because it is what the order is worth.
    pub fn bytes_below(&self, now: Nanos) -> u64 {
        self.rate.map_or(0, |rate| rate.bytes_in(self.below(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1514;

    fn backlog() -> Backlog {
        Backlog::new("10mbit".parse().ok(), Nanos::from_millis(1))
    }

    #[test]
    fn charges_add_up_and_drain_at_the_rate() {
        let mut backlog = backlog();
        let now = Nanos::from_secs(1);
        backlog.charge(now, PACKET);
        backlog.charge(now, PACKET);
        // One millisecond of lag was caught up, as a token bucket would.
        assert_eq!(backlog.below(now), Nanos(2 * 1_211_200 - 1_000_000));
        assert_eq!(backlog.bytes_below(now), 2 * PACKET - 1250);
        assert_eq!(backlog.bytes_below(now + Nanos::from_millis(10)), 0);
    }

    #[test]
    fn a_refund_undoes_a_charge() {
        let mut backlog = backlog();
        let now = Nanos::from_secs(1);
        backlog.charge(now, 3 * PACKET);
        let before = backlog.below(now);
        backlog.charge(now, PACKET);
        backlog.refund(PACKET);
        assert_eq!(backlog.below(now), before);
    }

    #[test]
    fn a_longer_queue_than_thought_pushes_the_clock_out() {
        let mut backlog = backlog();
        let now = Nanos::from_secs(1);
        backlog.on_measured(now, 10 * PACKET);
        assert_eq!(backlog.bytes_below(now), 10 * PACKET);
    }

    #[test]
    fn a_shorter_queue_than_thought_pulls_it_in() {
        let mut backlog = backlog();
        let now = Nanos::from_secs(1);
        backlog.charge(now, 10 * PACKET);
        backlog.on_measured(now, 0);
        assert_eq!(backlog.bytes_below(now), PACKET);
    }

    #[test]
    fn a_measurement_that_agrees_changes_nothing() {
        let mut backlog = backlog();
        let now = Nanos::from_secs(1);
        backlog.charge(now, 2 * PACKET);
        let before = backlog.below(now);
        backlog.on_measured(now, PACKET);
        assert_eq!(backlog.below(now), before);
    }
}
