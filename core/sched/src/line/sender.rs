//! Accounts for the sender's own effect on what is observed of the line.

use units::Nanos;

/// The divisor that limits lost time: if more than this fraction of an interval was lost, the interval is not evidence.
/// A plateau is 7 % of a pace.
const LATE_PARTS: u64 = 20;

#[derive(Debug, Default)]
pub(super) struct Sender {
    /// The lead with which the sender hands down bytes, as link time. It makes a queue of that length.
    pub ahead: Nanos,
    /// The total time in which the link idled because the sender ran late.
    pub lost: Nanos,
    /// The value of `lost` when the interval began.
    lost_before: Nanos,
}

impl Sender {
    /// Ends an interval of this length. Returns true if the sender lost too much of it for the interval to be evidence
    /// about the line.
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
