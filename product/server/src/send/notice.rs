use std::fmt;

use sched::line::{Limit, Status as LineStatus};
use units::{Nanos, Rate};

use super::Line;

/// The age at which an estimate counts as old. A line that was not full for this long may have changed: cable and radio
/// links change within an hour, and DSL resynchronises.
const OLD: Nanos = Nanos::from_secs(600);

/// News about the link for the operator. Each is one line in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Bytes of other programs wait in the queue through which our responses pass.
    CrossTraffic { interface: String, bytes: u64, share_permille: u32, rate: Rate },
    /// The longest wait, compared with the guard's promise; reported at the end.
    LongestWait { wait: Nanos, responses: u64, promised: Nanos },
    /// The event loop is scheduled late by the processor, so that bytes for this much link time are handed down ahead
    /// of time.
    Late { ahead: Nanos },
    /// The queue below can no longer be read.
    QueueLost { interface: String, why: String, rate: Rate },
    /// The queue below can be read, or read again.
    QueueFound { interface: String, rate: Rate },
    /// The shaper was changed.
    RateChanged { interface: String, before: Rate, rate: Rate },
    /// The line's rate differs from the configured rate, or no longer differs.
    Pace(sched::line::Notice),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Pace(notice) => say_pace(f, *notice),
            Notice::CrossTraffic { interface, bytes, share_permille, rate } => write!(
                f,
                "{interface}: {} KB of other traffic in the same queue; it keeps {} % of the link, responses get {rate} \
                 (--other-traffic-share)",
                bytes.div_ceil(1000),
                f64::from(*share_permille) / 10.0,
            ),
            Notice::LongestWait { wait, responses, promised } => write!(
                f,
                "longest wait of a ready response: {:.2} s; promised: at most {:.2} s (with {responses} ready)",
                wait.as_secs_f64(),
                promised.as_secs_f64(),
            ),
            Notice::Late { ahead } => write!(
                f,
                "wake-ups come {:.0} ms late: the processor is busy, so this much is sent ahead of the order (give \
                    weir a lower nice value or a higher CPUWeight, or stop what keeps the processor busy)",
                ahead.as_secs_f64() * 1e3,
            ),
            Notice::QueueLost { interface, why, rate } => {
                write!(f, "{interface}: cannot read the queue: {why}; pacing at {rate} without it")
            }
            Notice::QueueFound { interface, rate } => {
                write!(f, "{interface}: found a shaper at {rate}; pacing at that rate")
            }
            Notice::RateChanged { interface, before, rate } => {
                write!(f, "{interface}: shaper changed from {before} to {rate}; pacing at that rate")
            }
        }
    }
}

fn say_pace(f: &mut fmt::Formatter<'_>, notice: sched::line::Notice) -> fmt::Result {
    use sched::line::Notice;
    match notice {
        Notice::Found { rate } => write!(f, "uplink {}: found, pacing by it", mbit(rate)),
        Notice::Changed { from, to } => write!(f, "uplink {}, before {}: pacing by it", mbit(to), mbit(from)),
        Notice::Others { rate, lasts } => write!(
            f,
            "uplink {}: others fill the line, pacing is left as it is for {:.0} s",
            mbit(rate),
            lasts.as_secs_f64()
        ),
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LineStatus { rate, pace, age, busy_intervals, limit, .. } = match self {
            Line::Read { interface, rate } => {
                let rate = rate.map_or_else(|| "of unknown rate".into(), mbit);
                return write!(f, "uplink {rate}: the shaper of {interface}");
            }
            Line::Found(status) => status,
        };
        match (rate, pace) {
            (Some(rate), _) => {
                write!(f, "uplink {}, found {} ago", mbit(*rate), in_words(*age))?;
                if *busy_intervals > 0 {
                    write!(f, " from {busy_intervals} busy intervals")?;
                }
                f.write_str(said(*limit))?;
                if self.is_unpaced() {
                    f.write_str("; not paced: one core cannot serve more")?;
                }
                if *age >= OLD {
                    f.write_str("; old: no congestion since to confirm it")?;
                }
                Ok(())
            }
            (None, Some(pace)) => {
                let (begin, end) = match *limit {
                    Limit::Ceiling => ("uplink: ", "as configured; the line has shown no lower rate"),
                    _ => ("uplink rate not found yet: ", "as known from before; no congestion seen so far"),
                };
                write!(f, "{begin}pacing at {}, {end}", mbit(*pace))
            }
            (None, None) => {
                f.write_str("uplink rate not found yet: no congestion seen so far, so responses are not paced")
            }
        }
    }
}

fn said(limit: Limit) -> &'static str {
    match limit {
        Limit::Unknown => "",
        Limit::Line => ", limited by the line",
        Limit::Others => ", limited by others on the same line",
        Limit::Ceiling => ", limited by the configured rate",
    }
}

/// Formats a span, rounded down: `45 s`, `12 min`, `3 h`.
pub fn in_words(span: Nanos) -> String {
    let seconds = span.0 / 1_000_000_000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// Formats a measured rate with three digits: `9.42 Mbit/s`.
pub fn mbit(rate: Rate) -> String {
    let bits_per_s = rate.bits_per_s() as f64;
    let units = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| bits_per_s >= *scale).unwrap_or((1.0, "bit/s"));
    let number = bits_per_s / scale;
    let decimals = if number >= 100.0 {
        0
    } else if number >= 10.0 {
        1
    } else {
        2
    };
    format!("{number:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Option<Rate> {
        text.parse().ok()
    }

    fn sentences() -> Vec<(Line, &'static str)> {
        let none = LineStatus::default();
        let found = LineStatus {
            rate: rate("9.42mbit"),
            pace: rate("9.2mbit"),
            age: Nanos::from_secs(12),
            busy_intervals: 340,
            limit: Limit::Line,
            ..none
        };
        vec![
            (Line::Found(none), "uplink rate not found yet: no congestion seen so far, so responses are not paced"),
            (
                Line::Found(LineStatus { pace: rate("9.8mbit"), ..none }),
                "uplink rate not found yet: pacing at 9.80 Mbit/s, as known from before; no congestion seen so far",
            ),
            (
                Line::Found(LineStatus { pace: rate("9.8mbit"), limit: Limit::Ceiling, ..none }),
                "uplink: pacing at 9.80 Mbit/s, as configured; the line has shown no lower rate",
            ),
            (Line::Found(found), "uplink 9.42 Mbit/s, found 12 s ago from 340 busy intervals, limited by the line"),
            (
                Line::Found(LineStatus { limit: Limit::Ceiling, ..found }),
                "uplink 9.42 Mbit/s, found 12 s ago from 340 busy intervals, limited by the configured rate",
            ),
            (
                Line::Found(LineStatus { age: Nanos::from_secs(3 * 3600 + 5), ..found }),
                "uplink 9.42 Mbit/s, found 3 h ago from 340 busy intervals, limited by the line; old: no congestion since to confirm it",
            ),
            (
                Line::Found(LineStatus { rate: rate("11gbit"), pace: rate("10gbit"), busy_intervals: 0, ..found }),
                "uplink 11.0 Gbit/s, found 12 s ago, limited by the line; not paced: one core cannot serve more",
            ),
            (Line::Read { interface: "eth0".into(), rate: rate("20mbit") }, "uplink 20.0 Mbit/s: the shaper of eth0"),
        ]
    }

    #[test]
    fn what_is_known_of_the_line_is_a_sentence() {
        for (line, said) in sentences() {
            assert_eq!(line.to_string(), said);
        }
    }

    #[test]
    fn the_samples_of_the_page_are_printed() {
        let page = include_str!("../../../../docs/line.md");
        let samples: Vec<&str> = page.lines().filter(|line| line.starts_with("uplink")).collect();
        assert!(samples.len() >= 4, "{samples:?}");
        for sample in samples {
            assert!(sentences().iter().any(|(_, said)| *said == sample), "docs/line.md: `{sample}`");
        }
    }

    #[test]
    fn a_span_has_the_unit_of_its_size() {
        let said = [0, 119, 120, 7199, 7200, 90_000].map(|seconds| in_words(Nanos::from_secs(seconds)));
        assert_eq!(said, ["0 s", "119 s", "2 min", "119 min", "2 h", "25 h"]);
    }

    #[test]
    fn a_measured_rate_has_three_digits() {
        let said = ["7bit", "56kbit", "1.234567mbit", "99.96mbit", "480.4mbit", "2.5gbit"]
            .map(|text| mbit(rate(text).unwrap()));
        assert_eq!(said, ["7.00 bit/s", "56.0 kbit/s", "1.23 Mbit/s", "100.0 Mbit/s", "480 Mbit/s", "2.50 Gbit/s"]);
    }
}
