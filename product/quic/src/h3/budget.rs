//! Bounds on frames that cost more to take than to send: the rates of HTTP/2 (`mux::budget`).

use mux::budget::{Bucket, CONTROL, DATA_BYTES_MIN, Flood, PROVOKED, RESETS};
use units::Nanos;

/// What a client has spent.
#[derive(Debug, Default)]
pub struct Budget {
    control: Bucket,
    resets: Bucket,
    provoked: Bucket,
}

impl Budget {
    /// A frame that asks for something or is of no use.
    pub fn on_control(&mut self, now: Nanos) -> Result<(), Flood> {
        if self.control.take(now, CONTROL) { Ok(()) } else { Err(Flood::Control) }
    }

    /// DATA of so many bytes.
    pub fn on_data(&mut self, now: Nanos, bytes: u64) -> Result<(), Flood> {
        if bytes >= DATA_BYTES_MIN.into() { Ok(()) } else { self.on_control(now) }
    }

    /// The client has cancelled a stream.
    pub fn on_reset(&mut self, now: Nanos) -> Result<(), Flood> {
        if self.resets.take(now, RESETS) { Ok(()) } else { Err(Flood::Resets) }
    }

    /// A stream was reset for its client's mistake.
    pub fn on_provoked(&mut self, now: Nanos) -> Result<(), Flood> {
        if self.provoked.take(now, PROVOKED) { Ok(()) } else { Err(Flood::Provoked) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passing(mut take: impl FnMut(&mut Budget) -> Result<(), Flood>) -> (usize, Flood) {
        let mut budget = Budget::default();
        let mut count = 0;
        loop {
            if let Err(flood) = take(&mut budget) {
                return (count, flood);
            }
            count += 1;
        }
    }

    #[test]
    fn each_flood_has_its_bound() {
        assert_eq!(passing(|budget| budget.on_control(Nanos(0))), (1000, Flood::Control));
        assert_eq!(passing(|budget| budget.on_data(Nanos(0), 63)), (1000, Flood::Control));
        assert_eq!(passing(|budget| budget.on_reset(Nanos(0))), (200, Flood::Resets));
        assert_eq!(passing(|budget| budget.on_provoked(Nanos(0))), (100, Flood::Provoked));
        let mut budget = Budget::default();
        (0..10_000).for_each(|_| budget.on_data(Nanos(0), 64).unwrap());
    }
}
