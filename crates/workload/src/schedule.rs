//! From a trace to the jobs of a run: the same arrivals, stretched in time until they load the link as wanted.
//!
//! rho is offered wire bits per second over link bits per second. A job's wire bytes are those of its response (a
//! nominal head and the body, in full segments with the headers the shaper counts, [`wire_bytes`]) and its share of
//! what a connection costs beside its responses (`units::wire::CONNECTION_BYTES` / requests per connection).
//!
//! One factor stretches the *whole* trace, so that its mean load from first to last arrival is rho; only then is it cut
//! to the seconds wanted. The load of the part kept differs, as load does in the real hour: `rho_measured` says by how
//! much. Stretching the part instead would hide that, and make every length of run a different workload.

use units::wire::{CONNECTION_BYTES, SEGMENT_BYTES, bytes_of};
use units::{Nanos, Rate};

use crate::{SIZE_BYTES_MAX, Trace};

/// Bytes of response head assumed in rho: status line, date, server, type, length, ETag, Last-Modified and cache lines
/// come to 230–250 in nginx and in Weir. Real heads differ by a few bytes; rho must not depend on who answers.
pub const HEAD_BYTES_NOMINAL: u64 = 240;

/// The load wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Above 0; 1 and more is overload, which is an experiment too.
    pub rho: f64,
    pub link: Rate,
    /// Keep only jobs that arrive before this.
    pub seconds: Option<f64>,
    /// Requests on each connection, at least 1.
    pub per_connection: u64,
}

/// One request of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Since the run began.
    pub arrival: Nanos,
    pub size_bytes: u64,
}

/// What a run submits, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Sorted by arrival; the first is at 0.
    pub jobs: Vec<Job>,
    /// The load of the jobs kept over the time kept.
    pub rho_measured: f64,
    /// The time kept: the seconds asked for, or the span of the stretched trace where that is shorter.
    pub kept: Nanos,
    /// What the trace's time was multiplied by; above 1 it was slowed down.
    pub stretch: f64,
    /// What the caller should tell its user.
    pub warning: Option<String>,
}

/// Stretches the trace to the load and keeps the seconds wanted.
pub fn schedule(trace: &Trace, scaling: &Scaling) -> Result<Schedule, ScheduleError> {
    check(trace, scaling)?;
    let (last, span) = (trace.span(), stretched_span(trace, scaling)?);
    let limit = scaling.seconds.map_or(Nanos::MAX, |seconds| Nanos((seconds * 1e9) as u64));
    let jobs: Vec<Job> = stretched(trace, span).take_while(|job| job.arrival < limit).collect();
    let kept = span.min(limit);
    Ok(Schedule {
        rho_measured: offered_bits(jobs.iter().map(|job| job.size_bytes), scaling)
            / (scaling.link.bits_per_s() as f64 * kept.as_secs_f64()),
        jobs,
        kept,
        stretch: span.0 as f64 / last.0 as f64,
        warning: scaling.seconds.filter(|_| span < limit).map(|seconds| too_short(span, seconds, scaling)),
    })
}

/// The whole trace stretched so that the mean load of its sizes alone, as queueing theory counts them, is rho.
pub fn schedule_plain(trace: &Trace, rho: f64, link: Rate) -> Result<Vec<Job>, ScheduleError> {
    let scaling = Scaling { rho, link, seconds: None, per_connection: 1 };
    check(trace, &scaling)?;
    let bytes: u128 = trace.arrivals.iter().map(|arrival| u128::from(arrival.size_bytes)).sum();
    let span = span_of(8.0 * bytes as f64, &scaling)?;
    Ok(stretched(trace, span).collect())
}

/// Bytes on the wire of a response of this size with a nominal head, without the connection's.
pub fn wire_bytes(size_bytes: u64) -> u64 {
    bytes_of(HEAD_BYTES_NOMINAL + size_bytes, SEGMENT_BYTES)
}

fn check(trace: &Trace, scaling: &Scaling) -> Result<(), ScheduleError> {
    if !scaling.rho.is_finite() || scaling.rho <= 0.0 {
        return Err(ScheduleError::Rho(scaling.rho));
    }
    if let Some(seconds) = scaling.seconds.filter(|seconds| !(1e-9..=1e9).contains(seconds)) {
        return Err(ScheduleError::Seconds(seconds));
    }
    if scaling.per_connection == 0 {
        return Err(ScheduleError::PerConnection);
    }
    if trace.arrivals.is_empty() {
        return Err(ScheduleError::EmptyTrace);
    }
    if let Some(wrong) = trace.arrivals.iter().position(|arrival| arrival.size_bytes > SIZE_BYTES_MAX) {
        return Err(ScheduleError::SizeTooLarge { job: wrong });
    }
    if trace.span() == Nanos::ZERO {
        return Err(ScheduleError::NoSpan);
    }
    Ok(())
}

/// How long the whole trace has to last to load the link to rho.
fn stretched_span(trace: &Trace, scaling: &Scaling) -> Result<Nanos, ScheduleError> {
    span_of(offered_bits(trace.arrivals.iter().map(|arrival| arrival.size_bytes), scaling), scaling)
}

/// How long so many bits have to take to load the link to rho.
fn span_of(bits: f64, scaling: &Scaling) -> Result<Nanos, ScheduleError> {
    let ns = bits / (scaling.rho * scaling.link.bits_per_s() as f64) * 1e9;
    // A span of at least 1 ns, and short of the 584 years that u64 holds.
    if (1.0..1.8e19).contains(&ns) {
        Ok(Nanos(ns.round() as u64))
    } else {
        Err(ScheduleError::SpanOutOfRange(ns / 1e9))
    }
}

/// The jobs of the trace, the last of them at `span`.
fn stretched(trace: &Trace, span: Nanos) -> impl Iterator<Item = Job> {
    let last = trace.span();
    trace.arrivals.iter().map(move |arrival| Job {
        // Below span, so it fits; exact, so that order is kept.
        arrival: Nanos((u128::from(arrival.at.0) * u128::from(span.0) / u128::from(last.0)) as u64),
        size_bytes: arrival.size_bytes,
    })
}

fn offered_bits(sizes: impl Iterator<Item = u64>, scaling: &Scaling) -> f64 {
    let (bytes, jobs) = sizes.fold((0u128, 0u64), |(sum, jobs), size| (sum + u128::from(wire_bytes(size)), jobs + 1));
    let connections = jobs as f64 / scaling.per_connection as f64;
    8.0 * (bytes as f64 + connections * CONNECTION_BYTES as f64)
}

fn too_short(span: Nanos, seconds: f64, scaling: &Scaling) -> String {
    format!(
        "the trace lasts {:.1} s at rho {} on {}, shorter than the {seconds} s asked for: the run ends with the trace",
        span.as_secs_f64(),
        scaling.rho,
        scaling.link
    )
}

/// Why no schedule can be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScheduleError {
    Rho(f64),
    Seconds(f64),
    PerConnection,
    EmptyTrace,
    NoSpan,
    SizeTooLarge { job: usize },
    SpanOutOfRange(f64),
}

impl std::fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ScheduleError::Rho(rho) => write!(f, "a load of {rho} makes no sense: write a rho above 0, such as 0.8"),
            ScheduleError::Seconds(seconds) => {
                write!(f, "{seconds} s makes no sense: write seconds above 0 and up to 1000000000, such as 60")
            }
            ScheduleError::PerConnection => write!(f, "0 requests per connection make no sense: write 1 or more"),
            ScheduleError::EmptyTrace => {
                write!(f, "the trace has no requests: none has a body and status 200, or it was cut to nothing")
            }
            ScheduleError::NoSpan => {
                write!(f, "all requests of the trace arrive at one instant, so no stretching gives a load")
            }
            ScheduleError::SizeTooLarge { job } => {
                write!(f, "request {job} of the trace is larger than {SIZE_BYTES_MAX} bytes")
            }
            ScheduleError::SpanOutOfRange(seconds) => {
                write!(f, "the trace would last {seconds:e} s at this load: write a rho nearer to 1 or another rate")
            }
        }
    }
}

impl std::error::Error for ScheduleError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arrival;
    use proptest::prelude::*;

    fn trace(arrivals: &[(u64, u64)]) -> Trace {
        let arrivals = arrivals.iter().map(|&(at, size_bytes)| Arrival { at: Nanos(at), size_bytes });
        Trace { arrivals: arrivals.collect() }
    }

    fn scaling(rho: f64) -> Scaling {
        Scaling { rho, link: "10mbit".parse().unwrap(), seconds: None, per_connection: 1 }
    }

    #[test]
    fn worked_by_hand() {
        // 1,208 + 240 bytes are one full segment: 1,514 on the wire, 1,720 with the connection. Two of them are
        // 27,520 bits, at rho 0.5 on 10 Mbit/s spread over 5.504 ms.
        let schedule = schedule(&trace(&[(0, 1208), (7, 1208)]), &scaling(0.5)).unwrap();
        assert_eq!(schedule.jobs[1], Job { arrival: Nanos::from_micros(5504), size_bytes: 1208 });
        assert_eq!((schedule.kept, schedule.warning), (Nanos::from_micros(5504), None));
        assert!((schedule.rho_measured - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_shared_connection_costs_less() {
        let shared = Scaling { per_connection: 2, ..scaling(0.5) };
        let schedule = schedule(&trace(&[(0, 1208), (7, 1208)]), &shared).unwrap();
        assert_eq!(schedule.kept, Nanos(8 * 1000 * (2 * 1514 + 206) / 5));
    }

    #[test]
    fn seconds_cut_after_stretching_the_whole() {
        let two = trace(&[(0, 1208), (1, 1208), (2, 1208), (1000, 1208)]);
        let cut = Scaling { seconds: Some(0.001), ..scaling(0.5) };
        let schedule = schedule(&two, &cut).unwrap();
        assert_eq!((schedule.jobs.len(), schedule.kept), (3, Nanos::from_millis(1)));
        // 3 * 1,720 bytes in a millisecond of 10 Mbit/s.
        assert!((schedule.rho_measured - 4.128).abs() < 1e-9);
    }

    #[test]
    fn a_short_trace_is_said() {
        let cut = Scaling { seconds: Some(60.0), ..scaling(0.5) };
        let schedule = schedule(&trace(&[(0, 1208), (7, 1208)]), &cut).unwrap();
        let said = schedule.warning.unwrap();
        assert!(said.contains("lasts 0.0 s at rho 0.5 on 10mbit, shorter than the 60 s"), "{said}");
        assert_eq!(schedule.kept, Nanos::from_micros(5504));
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        let good = trace(&[(0, 1), (1, 1)]);
        for rho in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(schedule(&good, &scaling(rho)).unwrap_err().to_string().contains("rho above 0"));
        }
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let said = schedule(&good, &Scaling { seconds: Some(seconds), ..scaling(0.8) }).unwrap_err().to_string();
            assert!(said.contains("seconds above 0"), "{said}");
        }
        let none = Scaling { per_connection: 0, ..scaling(0.8) };
        assert_eq!(schedule(&good, &none), Err(ScheduleError::PerConnection));
        assert_eq!(schedule(&trace(&[]), &scaling(0.8)), Err(ScheduleError::EmptyTrace));
        assert_eq!(schedule(&trace(&[(0, 1)]), &scaling(0.8)), Err(ScheduleError::NoSpan));
        assert_eq!(
            schedule(&trace(&[(0, 1), (1, u64::MAX)]), &scaling(0.8)),
            Err(ScheduleError::SizeTooLarge { job: 1 })
        );
        assert!(matches!(schedule(&good, &scaling(1e-300)), Err(ScheduleError::SpanOutOfRange(_))));
        assert!(matches!(schedule(&good, &scaling(1e300)), Err(ScheduleError::SpanOutOfRange(_))));
        assert!(schedule(&good, &scaling(1.4)).is_ok(), "overload is an experiment");
    }

    proptest! {
        #[test]
        fn sizes_and_order_stay_and_the_load_is_rho(
            gaps in prop::collection::vec((0u64..1 << 40, 1u64..1 << 31), 2..100),
            rho in 0.01f64..3.0,
            bits_per_s in 1_000_000u64..1_000_000_000,
            per_connection in 1u64..10,
        ) {
            let mut at = 0;
            let arrivals: Vec<(u64, u64)> = gaps.iter().enumerate().map(|(index, &(gap, size))| {
                at += if index == 0 { 0 } else { gap + 1 };
                (at, size)
            }).collect();
            let link = Rate::from_bits_per_s(bits_per_s).unwrap();
            let whole = schedule(&trace(&arrivals), &Scaling { rho, link, seconds: None, per_connection }).unwrap();
            prop_assert!(whole.jobs.iter().map(|job| job.size_bytes).eq(arrivals.iter().map(|&(_, size)| size)));
            prop_assert!(whole.jobs.is_sorted_by_key(|job| job.arrival));
            prop_assert_eq!(whole.jobs.last().map(|job| job.arrival), Some(whole.kept));
            prop_assert!((whole.rho_measured / rho - 1.0).abs() < 1e-3, "{} for {}", whole.rho_measured, rho);
        }
    }
}
