//! Decides when and how far the pace rises after a cut. The rise comes later if two cuts found the same rate.

use units::Nanos;

/// The time for which the pace stays constant after a cut; doubled if the next cut finds the same rate.
const HOLD_MIN: Nanos = Nanos::from_millis(1000);
const HOLD_MAX: Nanos = Nanos::from_secs(10);
/// After that, the interval between rises, and the size of a step: first and largest, doubling in between. Large steps
/// are for lines that recently carried more.
pub(super) const RISE_EVERY: Nanos = Nanos::from_millis(500);
const RISE_PERMILLE_MIN: u64 = 5;
const RISE_PERMILLE_MAX: u64 = 250;
/// The first step, in thousandths, after minutes in which the line was not full.
const QUIET_PERMILLE: u64 = 40;

#[derive(Debug, Clone, Copy)]
pub(super) struct Rise {
    /// The rate of the line when it was last found; zero before.
    line: u64,
    hold: Nanos,
    hold_left: Nanos,
    next_in: Nanos,
    step_permille: u64,
    /// True if the pace grows, because the line was never full at our pace or recently carried twice as much. While
    /// nothing shows a limit, the pace doubles in three intervals.
    is_growing: bool,
    /// The last cut was for a queue or losses.
    was_full: bool,
}

/// The growth per interval, in thousandths, while the line was never full.
const GROWTH_PERMILLE: u64 = 250;
/// The maximum growth per interval, in bits per second, close to a rate that arrived with a queue or losses, which is
/// nearly all that the line carries. An excess of this size fills a queue of a hundred packets between two looks. The
/// growth is at least `FULL_GROWTH_PERMILLE_MIN` of the pace.
const FULL_GROWTH: u64 = 6_000_000;
const FULL_GROWTH_PERMILLE_MIN: u64 = 60;

impl Rise {
    pub fn new() -> Rise {
        Rise {
            line: 0,
            hold: HOLD_MIN,
            hold_left: Nanos::ZERO,
            next_in: Nanos::ZERO,
            step_permille: RISE_PERMILLE_MIN,
            is_growing: true,
            was_full: false,
        }
    }

    /// Records a cut: the line was found to carry `line` now, and `peak` recently. Returns the rate assumed for the
    /// line. If two cuts find about the same rate, the two are averaged, and the pace is held for longer.
    pub fn on_cut(&mut self, line: u64, is_full: bool, was_over: bool, peak: u64) -> u64 {
        let is_same = line.abs_diff(self.line) * 20 <= self.line;
        let was_never_full = self.is_growing && !is_full && !(is_same && was_over);
        let is_growing = was_never_full || line < peak / 2 && !is_same;
        let line = if is_same { self.line / 4 + line / 4 * 3 } else { line };
        let hold = if is_same { Nanos(2 * self.hold.0).min(HOLD_MAX) } else { HOLD_MIN };
        let step_permille = RISE_PERMILLE_MIN;
        *self = Rise { line, hold, hold_left: hold, next_in: Nanos::ZERO, step_permille, is_growing, ..Rise::new() };
        line
    }

    /// Records that the last cut was for a queue or losses.
    pub fn on_full(&mut self) {
        self.was_full = true;
    }

    /// Returns the maximum step, in thousandths, of a growing pace that is near the maximum arrived rate.
    pub fn growth_permille(&self, pace: u64) -> u64 {
        let permille = (FULL_GROWTH * 1000 / pace.max(1)).clamp(FULL_GROWTH_PERMILLE_MIN, GROWTH_PERMILLE);
        if self.was_full { permille } else { GROWTH_PERMILLE }
    }

    pub fn is_growing(&self) -> bool {
        self.is_growing
    }

    /// Returns a pace that is `permille` of the rate found last if `pace` is near that rate, and of `pace` otherwise.
    /// This keeps a pace that is held repeatedly from sinking.
    pub fn held(&self, pace: u64, permille: u64) -> u64 {
        let line = if pace <= self.line / 4 * 5 { self.line } else { pace };
        pace.min(line / 1000 * permille)
    }

    /// Makes the pace grow until the line is full, because the rate found may be less than the line carries.
    pub fn grow(&mut self) {
        (self.is_growing, self.was_full) = (true, false);
    }

    /// Makes the pace rise immediately and faster: the line was not full for minutes, and its rate may have changed.
    pub fn on_quiet(&mut self) {
        (self.hold_left, self.next_in) = (Nanos::ZERO, Nanos::ZERO);
        self.step_permille = self.step_permille.max(QUIET_PERMILLE);
    }

    /// Records that time has passed without a queue. Returns the step in thousandths of the pace, if the pace rises.
    pub fn advance(&mut self, lasted: Nanos, is_clear: bool) -> Option<u64> {
        if self.is_growing {
            return is_clear.then_some(GROWTH_PERMILLE);
        }
        let over = lasted - self.hold_left;
        self.hold_left = self.hold_left - lasted;
        if self.next_in > over {
            self.next_in = self.next_in - over;
            return None;
        }
        if self.hold_left > Nanos::ZERO {
            return None;
        }
        self.next_in = RISE_EVERY;
        let permille = self.step_permille;
        self.step_permille = (2 * permille).min(RISE_PERMILLE_MAX);
        Some(permille)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// Advances in steps of 100 ms; returns the time of each rise, in tenths of a second, and its size.
    fn rises(rise: &mut Rise, seconds: u64) -> Vec<(u64, u64)> {
        (1..=10 * seconds).filter_map(|at| rise.advance(MS(100), true).map(|permille| (at, permille))).collect()
    }

    #[test]
    fn it_holds_then_rises_by_larger_and_larger_steps() {
        let mut rise = Rise::new();
        assert_eq!(rise.on_cut(1_000_000, true, true, 0), 1_000_000);
        assert_eq!(rises(&mut rise, 4), [(10, 5), (15, 10), (20, 20), (25, 40), (30, 80), (35, 160), (40, 250)]);
    }

    #[test]
    fn after_quiet_minutes_it_rises_at_once_and_by_more() {
        let mut rise = Rise::new();
        rise.on_cut(1_000_000, true, true, 0);
        rise.on_quiet();
        assert_eq!(rises(&mut rise, 1), [(1, 40), (6, 80)]);
    }

    /// A rate found again is believed more and held for longer; another rate is not.
    #[test]
    fn the_same_rate_twice_is_held_for_twice_as_long() {
        let mut rise = Rise::new();
        rise.on_cut(1_000_000, true, true, 0);
        for (held, line) in [(20, 1_030_000), (40, 1_037_500), (80, 1_039_375), (100, 1_039_843)] {
            assert_eq!(rise.on_cut(1_040_000, true, true, 0), line);
            assert_eq!(rises(&mut rise, 10)[0], (held, 5));
        }
        assert_eq!(rise.on_cut(1_200_000, true, true, 0), 1_200_000);
        assert_eq!(rises(&mut rise, 3)[0], (10, 5));
    }

    #[test]
    fn within_a_twentieth_it_is_the_same() {
        for (line, taken_for) in
            [(1_050_000, 1_037_500), (1_050_001, 1_050_001), (950_000, 962_500), (949_999, 949_999)]
        {
            let mut rise = Rise::new();
            rise.on_cut(1_000_000, true, true, 0);
            assert_eq!(rise.on_cut(line, true, true, 0), taken_for);
        }
    }

    /// The rate carried before the line was full is a minimum of the line's rate; found again from above, it is the
    /// line's rate.
    #[test]
    fn a_rate_found_before_the_line_was_full_grows_until_it_is() {
        let mut rise = Rise::new();
        rise.on_cut(1_000_000, false, false, 0);
        assert_eq!((rise.advance(MS(100), false), rise.advance(MS(100), true)), (None, Some(GROWTH_PERMILLE)));
        rise.on_cut(1_010_000, false, false, 0);
        assert!(rise.is_growing());
        rise.on_cut(1_010_000, false, true, 0);
        assert!(!rise.is_growing());
    }

    #[test]
    fn after_a_queue_it_grows_by_less() {
        let mut rise = Rise::new();
        rise.on_cut(1_000_000, false, false, 0);
        rise.on_full();
        let growths = [10_000_000, 24_000_000, 50_000_000, 200_000_000].map(|pace| rise.growth_permille(pace));
        assert_eq!(growths, [250, 250, 120, 60]);
        // After a doubt, the line may have another rate.
        rise.grow();
        assert_eq!(rise.growth_permille(100_000_000), GROWTH_PERMILLE);
    }

    /// A radio that carried much a moment ago may do so again; a line found to carry so little twice does not.
    #[test]
    fn far_below_what_arrived_before_it_grows_until_the_same_is_found_again() {
        for (peak, is_growing) in [(2_000_000, false), (2_000_004, true)] {
            let mut rise = Rise::new();
            rise.on_cut(1_000_001, true, true, peak);
            assert_eq!(rise.is_growing(), is_growing, "{peak}");
            rise.on_cut(1_010_000, true, true, 4_000_000);
            assert!(!rise.is_growing());
        }
    }
}
