//! The anti-starvation guard: no ready response goes without a byte for longer than a stated time.
//!
//! A share of all granted bytes is reserved outside the order, so waiting never changes a rank. It goes to the response
//! that has waited longest since its last byte, one grant at a time; after its grant that response is last in line.
//! With `n` ready responses, each therefore gets a grant of `q` wire bytes at least every `n q / (share × rate)`, at
//! any load.
//!
//! If the share went to the oldest response instead, nothing would be bounded: among five downloads under a load of
//! 1.05, the second waited 4,182 s for its first byte and the fifth 16,725 s. Nor is the share spent on waits that no
//! user notices: a response is helped only after it has waited for [`PATIENCE`], so that the guard does not disturb the
//! order while the load is bearable.

use units::{Nanos, Rate};

use crate::pacing::pace::RECORD_FOR;

/// A response that got a byte within this time is not helped. People notice a wait after about a second (Nielsen 1993,
/// chapter 5). A shorter time would disturb the order more often; a longer one would make the bound longer.
pub const PATIENCE: Nanos = Nanos::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub struct Guard {
    permille: u32,
    /// Thousandths of a byte owed to the waiting jobs.
    owed: u64,
}

/// The maximum time that a ready response goes without a byte: `fixed + per_response × (responses ready)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitBound {
    pub fixed: Nanos,
    pub per_response: Nanos,
}

impl WaitBound {
    pub fn with(self, responses: u64) -> Nanos {
        Nanos(self.per_response.0.saturating_mul(responses).saturating_add(self.fixed.0))
    }
}

impl Guard {
    /// Makes a guard with a share of `permille` thousandths of the bytes, at most 1000; zero disables it.
    pub fn new(permille: u32) -> Guard {
        assert!(permille <= 1000, "a share of {permille} per mille");
        Guard { permille, owed: 0 }
    }

    /// Returns the guard as the successor of `before`. It takes over the owed bytes if the share is the same.
    pub(crate) fn succeeding(self, before: Guard) -> Guard {
        if self.permille == before.permille { before } else { self }
    }

    pub fn is_off(&self) -> bool {
        self.permille == 0
    }

    /// Returns the bound that the guard guarantees on a link of this rate with grants of this many wire bytes. Each
    /// grant takes its own bytes and the bytes that earn it. Returns `None` if the guard is off.
    pub fn wait_bound(&self, rate: Rate, grant_wire_bytes: u64) -> Option<WaitBound> {
        if self.is_off() {
            return None;
        }
        let earned_by = grant_wire_bytes.saturating_mul(1000).div_ceil(u64::from(self.permille));
        // A record of another response may have to end first.
        let per_response = rate.time_for(earned_by.saturating_add(grant_wire_bytes)) + RECORD_FOR;
        Some(WaitBound { fixed: PATIENCE + per_response, per_response })
    }

    /// Returns whether a response that has waited since `since` is due a grant of this many wire bytes.
    pub(crate) fn is_due(&self, now: Nanos, since: Nanos, grant_wire_bytes: u64) -> bool {
        !self.is_off() && now - since >= PATIENCE && self.owed >= grant_wire_bytes.saturating_mul(1000)
    }

    /// Records bytes charged to the link. The response that has waited longest would get a grant of `grant_wire_bytes`.
    /// At most that much is owed, because otherwise a quiet time would be followed by a burst against the order.
    pub(crate) fn on_charged(&mut self, wire_bytes: u64, grant_wire_bytes: u64) {
        self.owed = self
            .owed
            .saturating_add(wire_bytes.saturating_mul(self.permille.into()))
            .min(grant_wire_bytes.saturating_mul(1000));
    }

    /// Records that a grant was made against the order.
    pub(crate) fn on_granted(&mut self, grant_wire_bytes: u64) {
        self.owed = self.owed.saturating_sub(grant_wire_bytes.saturating_mul(1000));
    }

    /// Clears the owed bytes because no job waits.
    pub(crate) fn forget(&mut self) {
        self.owed = 0;
    }
}

impl Default for Guard {
    fn default() -> Guard {
        Guard::new(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANT: u64 = 1514;

    #[test]
    fn a_wait_is_the_patience_and_a_turn_of_all_who_wait() {
        // A byte takes a microsecond, and a hundredth of the bytes is for waiting jobs.
        let rate: Rate = "8mbit".parse().unwrap();
        let bound = Guard::new(10).wait_bound(rate, GRANT).unwrap();
        let per_response = Nanos::from_micros(101 * GRANT) + RECORD_FOR;
        assert_eq!(bound, WaitBound { fixed: PATIENCE + per_response, per_response });
        assert_eq!(bound.with(3), PATIENCE + Nanos(4 * per_response.0));
        assert_eq!(Guard::default().wait_bound(rate, GRANT), None);
    }

    #[test]
    fn a_grant_is_due_once_it_is_earned_and_patience_is_at_its_end() {
        let mut guard = Guard::new(100);
        let (since, now) = (Nanos::from_secs(5), Nanos::from_secs(5) + PATIENCE);
        guard.on_charged(10 * GRANT - 1, GRANT);
        assert!(!guard.is_due(now, since, GRANT), "a byte is not yet earned");
        guard.on_charged(1, GRANT);
        assert!(guard.is_due(now, since, GRANT) && !guard.is_due(now - Nanos(1), since, GRANT));
        guard.on_granted(GRANT);
        assert!(!guard.is_due(now, since, GRANT), "it is paid");
    }

    /// If nobody waits, nothing is owed; otherwise the next job to come would be given the bytes earned by others'
    /// waits.
    #[test]
    fn when_nobody_waits_nothing_is_owed() {
        let mut guard = Guard::new(1000);
        guard.on_charged(GRANT, GRANT);
        guard.forget();
        assert!(!guard.is_due(PATIENCE, Nanos::ZERO, GRANT));
    }
}
