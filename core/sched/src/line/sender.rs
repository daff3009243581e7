//! The sender's own part in what is seen of the line.

use units::Nanos;

/// An interval in which the sender lost more than one part in this many is no evidence: a plateau is 7 % of a pace.
const LATE_PARTS: u64 = 20;

#[derive(Debug, Default)]
pub(super) struct Sender {
    /// The link time that it hands down ahead: a queue of this length is its own doing.
    pub ahead: Nanos,
    /// The total time that it has lost to the link by running late.
    pub lost: Nanos,
    /// The value of `lost` when the interval began.
    lost_before: Nanos,
}

impl Sender {
    /// Ends an interval of this length. Returns true if too much of it was lost for it to prove anything about the
    /// line.
    pub fn end_interval(&mut self, lasted: Nanos) -> bool {
        let lost = self.lost - std::mem::replace(&mut self.lost_before, self.lost);
        lost.0.saturating_mul(LATE_PARTS) > lasted.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_late_by_what_it_lost_itself() {
        let mut sender = Sender { lost: Nanos::from_millis(3), ..Sender::default() };
        assert!(sender.end_interval(Nanos::from_millis(50)) && !sender.end_interval(Nanos::from_millis(50)));
        sender.lost += Nanos::from_millis(2);
        assert!(!sender.end_interval(Nanos::from_millis(50)), "4 %");
    }
}
