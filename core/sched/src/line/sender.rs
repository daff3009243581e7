//! The sender's own share in the observations of the line.

use units::Nanos;

/// The divisor of an interval that gives the loss of time above which it is not evidence. A plateau is 7 % of a pace.
const LATE_PARTS: u64 = 20;

#[derive(Debug, Default)]
pub(super) struct Sender {
    /// The link time that the sender hands down ahead, which makes a queue of this length.
    pub ahead: Nanos,
    /// The total time in which the link idled because the sender ran late.
    pub lost: Nanos,
    /// The value of `lost` when the interval began.
    lost_before: Nanos,
}

impl Sender {
    /// Ends an interval of this length. Returns true if too much of it was lost for it to be evidence about the line.
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
