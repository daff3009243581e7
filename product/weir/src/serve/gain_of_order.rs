//! The gain of the order: how much less or more time responses took than if all had taken turns, from the means of size
//! classes.

use server::metrics::Times;
use units::Nanos;

/// The minimum absolute difference between two means; the next constant is the relative one. Smaller differences come
/// from the server's own work.
const ALIKE_S: f64 = 0.001;
const ALIKE_PART: f64 = 0.02;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Worth {
    pub less: Sum,
    pub more: Sum,
}

/// A number of responses, and their total time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    pub responses: u64,
    pub seconds: f64,
}

impl Worth {
    /// Returns the gain over responses that would have ended by now in turns. Each counts with the difference between
    /// the means of its size class.
    pub fn of(times: &[Times]) -> Worth {
        let mut worth = Worth::default();
        for times in times.iter().filter(|times| times.compared > 0 && times.turns > 0) {
            let mean = |total: Nanos, count: u64| total.0 as f64 / 1e9 / count as f64;
            let in_turns_s = mean(times.turns_total, times.turns);
            let less_s = in_turns_s - mean(times.compared_total, times.compared);
            let alike_s = ALIKE_S.max(ALIKE_PART * in_turns_s);
            let responses = times.compared.min(times.turns);
            let sum = match less_s {
                less_s if less_s >= alike_s => &mut worth.less,
                less_s if less_s <= -alike_s => &mut worth.more,
                _ => continue,
            };
            sum.responses += responses;
            sum.seconds += responses as f64 * less_s.abs();
        }
        worth
    }

    /// Describes the gain in a sentence; `None` if there is no difference or nothing was counted.
    pub fn text(&self) -> Option<String> {
        let Worth { less, more } = self;
        let than = "than if all took turns";
        match (less.responses, more.responses) {
            (0, 0) => None,
            (_, 0) => Some(format!("{} waited {} less {than}", counted(less.responses), duration(less.seconds))),
            (0, _) => Some(format!("{} waited {} longer {than}", counted(more.responses), duration(more.seconds))),
            (_, others) => Some(format!(
                "{} waited {} less {than}, {others} waited {} longer",
                counted(less.responses),
                duration(less.seconds),
                duration(more.seconds)
            )),
        }
    }
}

fn counted(responses: u64) -> String {
    if responses == 1 { "1 response".into() } else { format!("{responses} responses") }
}

/// Writes a duration with two digits.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.995 => format!("{:.0} ms", s * 1000.0),
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 99.5 => format!("{s:.0} s"),
        s if s < 5970.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Responses given as a number and milliseconds each, as they were and in turns.
    fn times(compared: (u64, u64), turns: (u64, u64)) -> Times {
        let total = |(count, ms)| Nanos::from_millis(count * ms);
        let (compared_total, turns_total) = (total(compared), total(turns));
        Times { compared: compared.0, compared_total, turns: turns.0, turns_total, ..Times::default() }
    }

    fn text(of: &[Times]) -> Option<String> {
        Worth::of(of).text()
    }

    #[test]
    fn it_says_less_and_longer_and_nothing() {
        assert_eq!(text(&[]), None);
        assert_eq!(text(&[Times::default(), times((5, 10), (0, 0)), times((3, 10), (3, 10))]), None);
        assert_eq!(text(&[times((1, 10_100), (1, 10_000)), times((9, 10_000), (9, 10_199))]), None);
        let small = times((412, 5), (412, 80));
        assert_eq!(text(&[small]).unwrap(), "412 responses waited 31 s less than if all took turns");
        let large = times((1, 64_000), (1, 60_000));
        assert_eq!(text(&[large]).unwrap(), "1 response waited 4.0 s longer than if all took turns");
        assert_eq!(
            text(&[small, large]).unwrap(),
            "412 responses waited 31 s less than if all took turns, 1 waited 4.0 s longer"
        );
    }

    #[test]
    fn who_has_not_had_its_turn_is_not_counted() {
        let worth = Worth::of(&[times((10, 100), (4, 600))]);
        assert_eq!(worth.less, Sum { responses: 4, seconds: 2.0 });
        assert_eq!([0.9951, 9.96, 99.6, 7200.0].map(duration), ["1.0 s", "10 s", "2 min", "2 h"]);
    }
}
