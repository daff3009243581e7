//! Measures how well a class meets its objective: counts over the last minute and since the start, in constant memory.

use config::Objective;
use units::Nanos;

/// The number of steps in a minute; the window slides by one step.
const STEPS: usize = 12;
const STEP: Nanos = Nanos::from_secs(5);

/// The number of responses to which an objective applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub responses: u64,
    /// The number of those responses that took too long.
    pub missed: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.responses += other.responses;
        self.missed += other.missed;
    }

    /// Returns the share of responses that missed, from 0 to 1; `None` if nothing was counted.
    pub fn missed_share(&self) -> Option<f64> {
        (self.responses > 0).then(|| self.missed as f64 / self.responses as f64)
    }

    /// Returns the share of responses that missed, divided by the share that the objective allows. Above 1, the
    /// objective is missed.
    pub fn burn(&self, objective: &Objective) -> Option<f64> {
        Some(self.missed_share()? * 1000.0 / f64::from(allowed_permille(objective)))
    }

    /// Returns true if at most as many responses missed as the objective allows.
    pub fn meets(&self, objective: &Objective) -> bool {
        u128::from(self.missed) * 1000 <= u128::from(self.responses) * u128::from(allowed_permille(objective))
    }
}

/// Returns the allowed share of misses in thousandths. It is at least 1, because no objective applies to all responses.
pub fn allowed_permille(objective: &Objective) -> u32 {
    1000 - objective.permille
}

/// A response that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The time from the end of the request head to the end of the response.
    pub took: Nanos,
    /// The full length of the response's body.
    pub body_bytes: u64,
    /// The bytes sent, including the head, without bytes that were counted while the response was in progress.
    pub sent_bytes: u64,
    /// True if the whole response was sent.
    pub is_whole: bool,
    /// True if the response is a proper answer to the request, not an error.
    pub is_right: bool,
}

/// The measurements of a class for its objective.
#[derive(Debug)]
pub struct Meter {
    objective: Objective,
    total: Counts,
    /// The counts of the current step and of those before it, by step number modulo their count.
    steps: [Counts; STEPS + 1],
    step: u64,
}

impl Meter {
    pub fn new(objective: Objective) -> Meter {
        Meter { objective, total: Counts::default(), steps: [Counts::default(); STEPS + 1], step: 0 }
    }

    pub fn objective(&self) -> &Objective {
        &self.objective
    }

    pub fn total(&self) -> Counts {
        self.total
    }

    /// Counts a response. Returns true if the objective applies to it. A response that was cut off after its deadline
    /// counts as missed; one that was cut off before does not count.
    pub fn count(&mut self, now: Nanos, ended: &Ended) -> bool {
        let is_late = ended.took > Nanos::from(self.objective.under);
        let fits = self.objective.size_bytes_max.is_none_or(|most| ended.body_bytes <= most);
        let counts = ended.is_right && fits && (ended.is_whole || is_late);
        if counts {
            let one = Counts { responses: 1, missed: is_late.into() };
            self.advance(now);
            self.total.add(one);
            self.steps[self.step as usize % self.steps.len()].add(one);
        }
        counts
    }

    /// Returns the counts of the minute that ended with the last complete step.
    pub fn minute(&mut self, now: Nanos) -> Counts {
        self.advance(now);
        let now_at = self.step as usize % self.steps.len();
        let before = self.steps.iter().enumerate().filter(|(at, _)| *at != now_at);
        sum(before.map(|(_, counts)| counts))
    }

    /// Returns the counts of the last minute, plus the rest of the step in which that minute began.
    pub fn lately(&mut self, now: Nanos) -> Counts {
        self.advance(now);
        sum(self.steps.iter())
    }

    /// Advances to the step of this time. If the clock goes backwards, the step does not change.
    fn advance(&mut self, now: Nanos) {
        let step = now.0 / STEP.0;
        let passed = step.saturating_sub(self.step).min(self.steps.len() as u64);
        for nth in 1..=passed {
            let at = (self.step + nth) as usize % self.steps.len();
            self.steps[at] = Counts::default();
        }
        self.step = self.step.max(step);
    }
}

/// Returns the end of the minute for a response that ends now, which is the end of a step.
pub fn minute_from(now: Nanos) -> Nanos {
    Nanos((now.0 / STEP.0).saturating_add(STEPS as u64).saturating_mul(STEP.0))
}

fn sum<'a>(counts: impl Iterator<Item = &'a Counts>) -> Counts {
    counts.fold(Counts::default(), |mut sum, counts| {
        sum.add(*counts);
        sum
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const WINDOW: Nanos = Nanos::from_secs(60);

    fn objective(permille: u32) -> Objective {
        Objective { permille, size_bytes_max: Some(1000), under: Duration::from_millis(200) }
    }

    fn ended(took_ms: u64) -> Ended {
        let took = Nanos::from_millis(took_ms);
        Ended { took, body_bytes: 1000, sent_bytes: 1200, is_whole: true, is_right: true }
    }

    #[test]
    fn the_objective_is_about_whole_right_responses_of_its_size() {
        let mut meter = Meter::new(objective(990));
        let at = Nanos::ZERO;
        assert!(meter.count(at, &ended(200)) && meter.count(at, &ended(201)));
        assert!(!meter.count(at, &Ended { body_bytes: 1001, ..ended(1) }));
        assert!(!meter.count(at, &Ended { is_right: false, ..ended(1) }));
        assert!(!meter.count(at, &Ended { is_whole: false, ..ended(200) }), "nobody knows what it would have taken");
        assert!(meter.count(at, &Ended { is_whole: false, ..ended(201) }), "it was late already");
        assert_eq!(meter.total(), Counts { responses: 3, missed: 2 });
    }

    #[test]
    fn burn_is_the_share_of_misses_over_the_share_allowed() {
        let counts = Counts { responses: 1000, missed: 31 };
        assert!((counts.burn(&objective(990)).unwrap() - 3.1).abs() < 1e-9 && !counts.meets(&objective(990)));
        assert!(Counts { responses: 1000, missed: 10 }.meets(&objective(990)));
        assert!(!Counts { responses: 999, missed: 10 }.meets(&objective(990)));
        assert!(Counts::default().meets(&objective(999)) && Counts::default().burn(&objective(999)).is_none());
    }

    proptest! {
        /// Compared with a list of all that was counted: at the end of a minute the count is that minute's, and it
        /// never includes anything older than one more step.
        #[test]
        fn a_minute_is_a_minute(gaps_ms in prop::collection::vec((0u64..20_000, 0u64..400), 1..200)) {
            let mut meter = Meter::new(objective(990));
            let (mut now, mut all, mut tell_at): (_, Vec<(Nanos, bool)>, _) = (Nanos::from_secs(7), vec![], None);
            let within = |all: &[(Nanos, bool)], from: Nanos, to: Nanos| {
                let inside = all.iter().filter(|(at, _)| (from..to).contains(at));
                inside.fold(Counts::default(), |mut sum, (_, missed)| {
                    sum.add(Counts { responses: 1, missed: (*missed).into() });
                    sum
                })
            };
            for (gap, took) in gaps_ms {
                now += Nanos::from_millis(gap);
                if let Some(at) = tell_at.filter(|at| now >= *at) {
                    tell_at = None;
                    let told = meter.minute(at);
                    prop_assert_eq!(told, within(&all, at - WINDOW, at));
                }
                meter.count(now, &ended(took));
                all.push((now, took > 200));
                tell_at = tell_at.or(Some(minute_from(now)));
                let step = Nanos(now.0 / STEP.0 * STEP.0);
                prop_assert_eq!(meter.lately(now), within(&all, step - WINDOW, now + Nanos(1)));
                prop_assert!(minute_from(now) > now && minute_from(now) - now <= WINDOW);
            }
            prop_assert_eq!(meter.total(), within(&all, Nanos::ZERO, now + Nanos(1)));
        }

        /// Whatever the clock does, the minute's counts are part of the total.
        #[test]
        fn a_clock_that_jumps_breaks_nothing(instants in prop::collection::vec(any::<u64>(), 1..100)) {
            let mut meter = Meter::new(objective(500));
            for at in instants {
                meter.count(Nanos(at), &ended(at % 400));
                let (lately, total) = (meter.lately(Nanos(at)), meter.total());
                prop_assert!(lately.responses <= total.responses && lately.missed <= lately.responses);
            }
        }
    }
}
