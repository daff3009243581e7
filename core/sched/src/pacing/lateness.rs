//! Measures how late the caller runs, and how far ahead of the clock bytes must be handed down to compensate.
//!
//! A grant is made when the link falls idle. On a host with a busy processor the caller runs late, and the link idles
//! meanwhile: with four busy loops on two processors, a line of 10 Mbit/s lost a fifth of its bytes; with eight, half.
//! So lateness is measured at each grant that the caller had to wait for, and bytes for a high percentile of it are
//! handed down ahead. If the caller is punctual, nothing is handed down ahead, because bytes that are handed down can
//! no longer be reordered.

use units::Nanos;

/// The width of a bucket of the histogram.
const BUCKET: Nanos = Nanos::from_micros(500);
/// The maximum link time that is handed down ahead; a new response has to wait for it. 20 ms is small compared with the
/// round trips of a slow line.
pub const AHEAD_MAX: Nanos = Nanos::from_millis(20);
/// The number of buckets: those up to [`AHEAD_MAX`], and one for everything later.
const BUCKETS: usize = (AHEAD_MAX.0 / BUCKET.0) as usize + 1;
/// The lateness that costs nothing, because the ledger catches it up ([`crate::Pace::behind`]).
const PUNCTUAL: Nanos = Nanos::from_millis(1);
/// The percentile of lateness that is handed down ahead, as a number of grants: one grant in this many may be later.
const LATER_ONE_IN: u32 = 100;
/// The half-life of a measurement's weight.
const HALF_LIFE: Nanos = Nanos::from_secs(4);
/// The number of measurements after which the percentile is computed again. A measurement above the percentile triggers
/// it immediately.
const RENEW_EVERY: u32 = 32;

/// A histogram of the lateness of grants, whose counts decay with time.
#[derive(Debug)]
pub struct Lateness {
    counts: [u32; BUCKETS],
    halved_at: Nanos,
    since_renewed: u32,
    ahead: Nanos,
    /// The time at which the waiting caller was due to run; `None` if it waits for no grant.
    awaited_at: Option<Nanos>,
    /// The total time in which the link idled because the caller ran late.
    lost: Nanos,
    lost_at: Nanos,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness {
            counts: [0; BUCKETS],
            halved_at: Nanos::ZERO,
            since_renewed: 0,
            ahead: Nanos::ZERO,
            awaited_at: None,
            lost: Nanos::ZERO,
            lost_at: Nanos::ZERO,
        }
    }
}

impl Lateness {
    /// The link time to hand down ahead: 0 if the caller is punctual, at most [`AHEAD_MAX`].
    pub fn ahead(&self) -> Nanos {
        self.ahead
    }

    /// The total time in which the link idled because the caller ran late. It never decreases.
    pub fn lost(&self) -> Nanos {
        self.lost
    }

    /// Returns whether the link has idled since this instant because the caller ran late.
    pub fn has_lost_since(&self, instant: Nanos) -> bool {
        self.lost_at > instant
    }

    /// Records that a job is ready and the link can take the next grant at this instant.
    pub(crate) fn wait_until(&mut self, at: Nanos) {
        self.awaited_at = Some(at);
    }

    /// Records that no job is ready any more, so that the caller waits for no grant.
    pub(crate) fn cancel_wait(&mut self) {
        self.awaited_at = None;
    }

    /// Records a grant made now that the link could have taken at `free_at`. The link has idled since `free_at +
    /// ahead`, and can catch up `behind`.
    pub(crate) fn on_grant(&mut self, now: Nanos, free_at: Nanos, behind: Nanos) {
        let Some(awaited_at) = self.awaited_at.take() else { return };
        // A refund since then may free the link sooner than the caller could know.
        let late = now - awaited_at.max(free_at);
        let lost = late - self.ahead - behind;
        if lost > Nanos::ZERO {
            self.lost = Nanos(self.lost.0.saturating_add(lost.0));
            self.lost_at = now;
        }
        self.forget_half(now);
        let bucket = (late.0 / BUCKET.0).min(BUCKETS as u64 - 1) as usize;
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
        self.since_renewed += 1;
        if self.since_renewed >= RENEW_EVERY || late > self.ahead.max(PUNCTUAL) {
            self.renew();
        }
    }

    fn forget_half(&mut self, now: Nanos) {
        let times = (now - self.halved_at).0 / HALF_LIFE.0;
        if times > 0 {
            self.counts.iter_mut().for_each(|count| *count = count.checked_shr(times.min(32) as u32).unwrap_or(0));
            self.halved_at = now;
        }
    }

    fn renew(&mut self) {
        self.since_renewed = 0;
        let all: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let mut above = all / u64::from(LATER_ONE_IN);
        let highest = self.counts.iter().rposition(|count| {
            let is_reached = u64::from(*count) > above;
            above = above.saturating_sub(u64::from(*count));
            is_reached
        });
        let edge = Nanos(BUCKET.0 * (highest.unwrap_or(0) as u64 + 1));
        self.ahead = if edge <= PUNCTUAL { Nanos::ZERO } else { edge.min(AHEAD_MAX) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// Simulates a caller that waits a millisecond for each grant, and is late each time by the result of `late`.
    fn after(lateness: &mut Lateness, began_at: Nanos, grants: u32, late: impl Fn(u32) -> Nanos) -> Nanos {
        let mut now = began_at;
        for number in 0..grants {
            let due = now + MS(1);
            lateness.wait_until(due);
            now = due + late(number);
            lateness.on_grant(now, due, PUNCTUAL);
        }
        now
    }

    #[test]
    fn a_punctual_caller_hands_nothing_down_ahead() {
        let mut lateness = Lateness::default();
        after(&mut lateness, MS(1000), 10_000, |number| Nanos::from_micros(u64::from(number % 10) * 99));
        assert_eq!((lateness.ahead(), lateness.lost()), (Nanos::ZERO, Nanos::ZERO));
    }

    #[test]
    fn as_much_is_handed_down_ahead_as_99_of_100_grants_are_late() {
        let mut lateness = Lateness::default();
        let late = |number: u32| MS(if number.is_multiple_of(200) { 15 } else { u64::from(number % 5) });
        after(&mut lateness, MS(1000), 2000, late);
        assert_eq!(lateness.ahead(), MS(4) + BUCKET);
    }

    #[test]
    fn one_late_grant_counts_until_a_hundred_were_punctual() {
        let mut lateness = Lateness::default();
        let now = after(&mut lateness, MS(1000), 1, |_| MS(7));
        assert_eq!((lateness.ahead(), lateness.lost()), (MS(7) + BUCKET, MS(6)));
        assert!(lateness.has_lost_since(now - Nanos(1)) && !lateness.has_lost_since(now));
        after(&mut lateness, now, 128, |_| Nanos::ZERO);
        assert_eq!(lateness.ahead(), Nanos::ZERO);
    }

    #[test]
    fn a_host_that_is_no_longer_busy_is_forgotten() {
        let mut lateness = Lateness::default();
        let now = after(&mut lateness, MS(1000), 1000, |_| MS(9));
        assert_eq!(lateness.ahead(), MS(9) + BUCKET);
        after(&mut lateness, now + Nanos::from_secs(200), RENEW_EVERY, |_| Nanos::ZERO);
        assert_eq!(lateness.ahead(), Nanos::ZERO);
    }

    #[test]
    fn what_is_handed_down_ahead_loses_no_time() {
        let mut lateness = Lateness::default();
        let now = after(&mut lateness, MS(1000), 1, |_| MS(6));
        let lost = lateness.lost();
        after(&mut lateness, now, 50, |_| MS(6));
        assert_eq!(lateness.lost(), lost);
    }

    #[test]
    fn nobody_is_late_who_was_not_waited_for() {
        let mut lateness = Lateness::default();
        lateness.on_grant(MS(1000), MS(900), PUNCTUAL);
        lateness.wait_until(MS(1001));
        lateness.cancel_wait();
        lateness.on_grant(MS(1100), MS(1001), PUNCTUAL);
        // A refund freed the link sooner than announced.
        lateness.wait_until(MS(1200));
        lateness.on_grant(MS(1150), MS(1100), PUNCTUAL);
        assert_eq!((lateness.ahead(), lateness.lost()), (Nanos::ZERO, Nanos::ZERO));
    }

    proptest! {
        #[test]
        fn the_bound_holds_for_any_times(times in prop::collection::vec((any::<u64>(), any::<u64>()), 1..200)) {
            let mut lateness = Lateness::default();
            for (now, due) in times {
                lateness.wait_until(Nanos(due));
                lateness.on_grant(Nanos(now), Nanos(due), PUNCTUAL);
                prop_assert!(lateness.ahead() <= AHEAD_MAX);
            }
        }
    }
}
