//! When the pace rises after a cut, and by how much: later where the line was found to carry the same twice.

use units::Nanos;

/// How long the pace stays after a cut, doubled when the next finds the same rate.
const HOLD_MIN: Nanos = Nanos::from_secs(2);
const HOLD_MAX: Nanos = Nanos::from_secs(10);
/// How often the pace rises then, and by how much: at first, doubled each time.
pub(super) const RISE_EVERY: Nanos = Nanos::from_millis(500);
const RISE_PERMILLE_MIN: u64 = 5;
const RISE_PERMILLE_MAX: u64 = 40;

#[derive(Debug, Clone, Copy)]
pub(super) struct Rise {
    /// What the line carried when it was last found out; zero before.
    line: u64,
    hold: Nanos,
    hold_left: Nanos,
    next_in: Nanos,
    step_permille: u64,
}

impl Rise {
    pub fn new() -> Rise {
        Rise { line: 0, hold: HOLD_MIN, hold_left: Nanos::ZERO, next_in: Nanos::ZERO, step_permille: RISE_PERMILLE_MIN }
    }

    /// The line was found to carry this; gives what it is taken for. Twice about the same: nearer the mean, and not so soon
    /// tried again.
    pub fn on_cut(&mut self, line: u64) -> u64 {
        let is_same = line.abs_diff(self.line) * 20 <= self.line;
        let line = if is_same { self.line / 4 + line / 4 * 3 } else { line };
        let hold = if is_same { Nanos(2 * self.hold.0).min(HOLD_MAX) } else { HOLD_MIN };
        *self = Rise { line, hold, hold_left: hold, next_in: Nanos::ZERO, step_permille: RISE_PERMILLE_MIN };
        line
    }

    /// So much time has passed without a queue; gives by how much to rise.
    pub fn advance(&mut self, lasted: Nanos) -> Option<u64> {
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
