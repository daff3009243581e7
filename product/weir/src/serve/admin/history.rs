//! The history of the last hour: a sample every ten seconds, in a ring buffer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::Status;
use server::metrics::Times;
use units::Nanos;

/// The interval between samples. A longer one makes the chart coarser; a shorter one wakes an idle server more often.
pub const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// The samples of an hour.
const SAMPLES_MAX: usize = 360;

#[derive(Default)]
pub struct History {
    samples: VecDeque<Sample>,
    before: Option<Totals>,
}

/// The activity since the sample before.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    /// Seconds since 1970.
    at_s: u64,
    leaving_bits_per_s: f64,
    pace_bits_per_s: Option<u64>,
    /// Mean time of the smallest complete responses.
    small_s: Option<f64>,
    /// The mean time of these responses if all had taken turns.
    small_turns_s: Option<f64>,
}

/// The totals over all responses up to an instant.
#[derive(Debug, Clone, Copy)]
struct Totals {
    at: Instant,
    /// True if the line is paced. The bytes do not show this, because HTTP/2 and HTTP/3 charge bytes to an unpaced line
    /// too.
    is_paced: bool,
    wire_bytes: u64,
    sent_bytes: u64,
    small: Times,
}

impl Totals {
    fn of(at: Instant, status: &Status) -> Totals {
        let metrics = status.metrics.as_ref();
        Totals {
            at,
            is_paced: status.line.is_some(),
            wire_bytes: status.wire_bytes,
            sent_bytes: metrics.map_or(0, |metrics| metrics.responses().map(|(_, count)| count.bytes).sum()),
            small: metrics.map_or(Times::default(), |metrics| metrics.times()[0]),
        }
    }

    /// The bits on the wire, or the bits of responses if nothing is paced.
    fn bits_since(&self, before: &Totals) -> f64 {
        let since = |bytes: fn(&Totals) -> u64| bytes(self).saturating_sub(bytes(before));
        let bytes = if self.is_paced { since(|all| all.wire_bytes) } else { since(|all| all.sent_bytes) };
        bytes as f64 * 8.0
    }

    /// Mean times of small responses: of the compared ones, or of all if none was compared; and of the compared ones in
    /// turns.
    fn small_since(&self, before: &Totals) -> (Option<f64>, Option<f64>) {
        let (new, old) = (&self.small, &before.small);
        let mean = |count: u64, total: Nanos| (count > 0).then(|| total.0 as f64 / 1e9 / count as f64);
        let ended = |times: &Times| times.buckets.iter().sum::<u64>();
        let compared = mean(new.compared - old.compared, new.compared_total - old.compared_total);
        let any = || mean(ended(new) - ended(old), new.total - old.total);
        (compared.or_else(any), mean(new.turns - old.turns, new.turns_total - old.turns_total))
    }
}

impl History {
    /// Adds a sample for the time since the last call. `at_s` is in seconds since 1970.
    pub fn add(&mut self, now: Instant, at_s: u64, status: &Status) {
        let totals = Totals::of(now, status);
        let Some(before) = self.before.replace(totals) else { return };
        let passed = (now - before.at).as_secs_f64().max(0.001);
        let (small_s, small_turns_s) = totals.small_since(&before);
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            at_s,
            leaving_bits_per_s: totals.bits_since(&before) / passed,
            pace_bits_per_s: status.line.as_ref().and_then(|line| line.pace()).map(units::Rate::bits_per_s),
            small_s,
            small_turns_s,
        });
    }

    pub fn json(&self) -> Value {
        let sample = |one: &Sample| {
            json!({
                "at_s": one.at_s,
                "leaving_bits_per_s": one.leaving_bits_per_s.round(),
                "pace_bits_per_s": one.pace_bits_per_s,
                "small_s": one.small_s,
                "small_turns_s": one.small_turns_s,
            })
        };
        json!({ "every_s": SAMPLE_EVERY.as_secs(), "samples": self.samples.iter().map(sample).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use server::Line;
    use server::metrics::{Ended, Labels, Metrics};

    use super::*;

    fn status(wire_bytes: u64, metrics: Option<&Metrics>) -> Status {
        let line = Some(Line::Read { interface: "eth0".into(), rate: Some("10mbit".parse().unwrap()) });
        Status { classes: vec![], line, metrics: metrics.cloned(), wire_bytes }
    }

    fn end(metrics: &mut Metrics, ms: u64) {
        let ended =
            Ended { took: Nanos::from_millis(ms), sent_bytes: 500, is_whole: true, is_timed: true, is_compared: true };
        metrics.on_end(Labels { site: 0, class: 0, protocol: (1, 1), size: 0, status: 2 }, &ended);
    }

    #[test]
    fn a_sample_is_what_happened_since_the_one_before() {
        let (mut history, mut metrics, begin) = (History::default(), Metrics::default(), Instant::now());
        end(&mut metrics, 50);
        history.add(begin, 1000, &status(500, Some(&metrics)));
        assert!(history.samples.is_empty(), "nothing is known of before");
        [2, 4].into_iter().for_each(|ms| end(&mut metrics, ms));
        history.add(begin + SAMPLE_EVERY, 1010, &status(1_250_500, Some(&metrics)));
        history.add(begin + 2 * SAMPLE_EVERY, 1020, &status(1_250_500, Some(&metrics)));
        let expected = json!({ "every_s": 10, "samples": [
            { "at_s": 1010, "leaving_bits_per_s": 1_000_000.0, "pace_bits_per_s": 10_000_000, "small_s": 0.003, "small_turns_s": null },
            { "at_s": 1020, "leaving_bits_per_s": 0.0, "pace_bits_per_s": 10_000_000, "small_s": null, "small_turns_s": null },
        ]});
        assert_eq!(history.json(), expected);
    }

    #[test]
    fn where_nothing_is_paced_it_is_what_was_sent() {
        let (mut history, mut metrics, begin) = (History::default(), Metrics::default(), Instant::now());
        let unpaced = |metrics: &Metrics| Status { line: None, ..status(0, Some(metrics)) };
        history.add(begin, 0, &unpaced(&metrics));
        end(&mut metrics, 1);
        history.add(begin + Duration::from_secs(4), 4, &unpaced(&metrics));
        assert_eq!((history.samples[0].leaving_bits_per_s, history.samples[0].pace_bits_per_s), (1000.0, None));
        // A large response over HTTP/2 charges bytes, and those after it do not.
        end(&mut metrics, 1);
        let charged = Status { wire_bytes: 1000, ..unpaced(&metrics) };
        history.add(begin + Duration::from_secs(8), 8, &charged);
        assert_eq!(history.samples[1].leaving_bits_per_s, 1000.0);
    }

    #[test]
    fn it_keeps_an_hour() {
        let (mut history, begin) = (History::default(), Instant::now());
        for nth in 0..1000 {
            history.add(begin + nth * SAMPLE_EVERY, u64::from(nth), &status(0, None));
        }
        assert_eq!((history.samples.len(), history.samples[0].at_s), (SAMPLES_MAX, 1000 - SAMPLES_MAX as u64));
    }
}
