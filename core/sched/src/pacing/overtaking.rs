//! Chooses the length of a grant by how often a new response has to wait for the end of one.
//!
//! A grant cannot be taken back, so a response that would overtake the one being sent waits for half a grant on
//! average; and each grant costs the caller a wake-up. With `o` overtakings per second of link time and grants of
//! length `g`, waiting costs `o * g / 2` and wake-ups cost `1 / g`. The sum is smallest if `g` is proportional to `1 /
//! sqrt(o)`, as in the economic order quantity. Responses of equal size never overtake each other and get the longest
//! grant.

use units::Nanos;

/// The longest grant, for a link where no response overtakes another.
pub const LONGEST: Nanos = Nanos::from_millis(1);
/// The shortest grant: a segment at 100 Mbit/s.
const SHORTEST: Nanos = Nanos::from_micros(125);
/// The overtakings per second of link time for which the best grant is 1 ms. With fewer, a longer grant would be best.
const RARE_PER_SECOND: u64 = 25;
/// The link time after which all counts are halved.
const WINDOW: Nanos = Nanos::from_millis(200);

/// Recent overtakings, and the length of a grant that follows from them.
#[derive(Debug)]
pub struct Overtaking {
    longest: Nanos,
    grant_for: Nanos,
    overtakings: u64,
    link_time: Nanos,
    /// The bytes that the job of the last grant had left before it.
    left_bytes: u64,
}

impl Overtaking {
    /// Starts with grants of `longest`. Any value other than [`LONGEST`] is the caller's own choice and never changes.
    pub fn new(longest: Nanos) -> Overtaking {
        Overtaking { longest, grant_for: longest, overtakings: 0, link_time: Nanos::ZERO, left_bytes: 0 }
    }

    /// Returns the link time of a grant while no response overtakes another.
    pub fn longest(&self) -> Nanos {
        self.longest
    }

    /// Returns the link time of the next grant.
    pub fn grant_for(&self) -> Nanos {
        self.grant_for
    }

    /// Records that a job of `bytes` became first in the order while the last hand-down is still below us.
    pub fn on_waits(&mut self, bytes: u64) {
        self.overtakings += u64::from(bytes < self.left_bytes);
    }

    /// Records a grant that took the link for `link_time`, for a job that had `left_bytes` before it.
    pub fn on_granted(&mut self, link_time: Nanos, left_bytes: u64) {
        self.left_bytes = left_bytes;
        self.link_time += link_time;
        if self.link_time >= WINDOW && self.longest == LONGEST {
            self.grant_for = grant_for(self.overtakings, self.link_time);
            self.overtakings /= 2;
            self.link_time = Nanos(self.link_time.0 / 2);
        }
    }
}

/// Returns `LONGEST / sqrt(overtakings per second of the link / RARE_PER_SECOND)`, limited to the range between the
/// shortest and the longest grant.
fn grant_for(overtakings: u64, link_time: Nanos) -> Nanos {
    let square = u128::from(LONGEST.0).pow(2) * u128::from(RARE_PER_SECOND) * u128::from(link_time.0)
        / (u128::from(overtakings.max(1)) * u128::from(Nanos::from_secs(1).0));
    Nanos(square.isqrt() as u64).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    #[test]
    fn a_grant_is_shorter_by_the_root_of_what_overtakes_it() {
        assert_eq!(grant_for(0, SECOND), LONGEST);
        assert_eq!(grant_for(RARE_PER_SECOND, SECOND), LONGEST);
        assert_eq!(grant_for(4 * RARE_PER_SECOND, SECOND), Nanos::from_micros(500));
        assert_eq!(grant_for(2 * RARE_PER_SECOND, Nanos::from_millis(500)), Nanos::from_micros(500));
        assert_eq!(grant_for(1_000_000, SECOND), SHORTEST);
    }

    /// Makes grants for a total of `link_time`, with an arrival of `bytes` after each.
    fn busy(overtaking: &mut Overtaking, link_time: Nanos, bytes: Option<u64>) {
        let until = link_time.0 / LONGEST.0;
        for _ in 0..until {
            overtaking.on_granted(LONGEST, 100_000);
            if let Some(bytes) = bytes {
                overtaking.on_waits(bytes);
            }
        }
    }

    #[test]
    fn it_follows_what_comes_and_what_stays_away() {
        let mut overtaking = Overtaking::new(LONGEST);
        busy(&mut overtaking, SECOND, Some(100_000));
        assert_eq!(overtaking.grant_for(), LONGEST, "responses of one size overtake nobody");
        busy(&mut overtaking, SECOND, Some(1_000));
        let short = overtaking.grant_for();
        assert!((Nanos::from_micros(150)..Nanos::from_micros(200)).contains(&short), "{short:?}");
        busy(&mut overtaking, SECOND, None);
        busy(&mut overtaking, SECOND, None);
        assert_eq!(overtaking.grant_for(), LONGEST);
    }

    #[test]
    fn a_grant_that_was_asked_for_stays() {
        let asked = Nanos::from_millis(4);
        let mut overtaking = Overtaking::new(asked);
        busy(&mut overtaking, SECOND, Some(1));
        assert_eq!(overtaking.grant_for(), asked);
    }
}
