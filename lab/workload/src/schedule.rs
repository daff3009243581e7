//! Converts a trace to the jobs of a run: the same arrivals, stretched in time until they load the link as requested.
//!
//! rho is offered wire bits per second divided by link bits per second. A job's wire bytes are the bytes of its
//! response (a nominal head and the body, in full segments with the headers that the shaper counts, [`wire_bytes`]) and
//! its share of the other bytes of a connection (`units::wire::CONNECTION_BYTES` / requests per connection).
//!
//! One factor stretches the *whole* trace, so that its mean load from first to last arrival is rho; only then is it cut
//! to the requested seconds. The load of the remaining part differs, as load does in a real hour, and `rho_measured`
//! reports it. Stretching only the part would hide that, and make every length of run a different workload.
//!
//! If the load changes, the trace is first stretched to a load of 1, so that its time is work of the link. Every gap is
//! then scaled according to the profile. The load therefore follows the profile as closely as it would follow a
//! constant.

use std::borrow::Cow;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use units::wire::{CONNECTION_BYTES, SEGMENT_BYTES, bytes_of};
use units::{Nanos, Rate};

use crate::{Arrival, LoadProfile, REQUESTS_MAX, SIZE_BYTES_MAX, Trace};

/// The bytes of a response head assumed in rho: status line, date, server, type, length, ETag, Last-Modified and cache
/// lines have 230–250 in nginx and in Weir. Real heads differ by a few bytes, but rho must not depend on the server.
pub const HEAD_BYTES_NOMINAL: u64 = 240;

/// The requested load.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// The load; 1 and more is overload, which is an experiment too.
    pub load: LoadProfile,
    pub link: Rate,
    /// The number of seconds; later jobs are left out.
    pub seconds: Option<f64>,
    /// The number of requests on each connection, at least 1.
    pub per_connection: u64,
    /// The seed of repetitions, if the trace ends before the seconds do. A repetition has the same requests and times,
    /// with the sizes in an order drawn anew. The first request of a repetition coincides with the last before it.
    pub repeat: Option<u64>,
}

/// A request of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The instant since the run began.
    pub arrival: Nanos,
    pub size_bytes: u64,
    /// The client, as in [`crate::Request`].
    pub client: Option<u32>,
}

/// The requests of a run, and their instants.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The jobs, sorted by arrival; the first is at 0.
    pub jobs: Vec<Job>,
    /// The load of the remaining jobs over the remaining time.
    pub rho_measured: f64,
    /// The remaining time: the requested seconds, or the span of the stretched trace if that is shorter.
    pub kept: Nanos,
    /// The factor by which the trace's time was multiplied, on average if the load changes; above 1 it was slowed down.
    pub stretch: f64,
    /// A warning for the user.
    pub warning: Option<String>,
}

/// Stretches the trace to the load and keeps the requested seconds.
pub fn schedule(trace: &Trace, scaling: &Scaling) -> Result<Schedule, ScheduleError> {
    check(trace, scaling.seconds, scaling.per_connection)?;
    let sizes = trace.arrivals.iter().map(|arrival| arrival.size_bytes);
    let pace = Pace::new(trace, offered_bits(sizes, scaling.per_connection), &scaling.load, scaling.link)?;
    let limit = scaling.seconds.map_or(Nanos::MAX, |seconds| Nanos((seconds * 1e9) as u64));
    let copies = copies(trace, &pace, scaling, limit)?;
    let jobs: Vec<Job> = (0..copies)
        .flat_map(|copy| pace.jobs(copied(trace, copy, scaling.repeat), copy))
        .scan(Nanos::ZERO, |before, job| {
            // At the end of a phase, rounding may place an instant a nanosecond before its predecessor.
            *before = job.arrival.max(*before);
            Some(Job { arrival: *before, ..job })
        })
        .take_while(|job| job.arrival < limit)
        .collect();
    let whole = pace.instant(copies, Nanos::ZERO);
    let kept = whole.min(limit);
    Ok(Schedule {
        rho_measured: offered_bits(jobs.iter().map(|job| job.size_bytes), scaling.per_connection)
            / (scaling.link.bits_per_s() as f64 * kept.as_secs_f64()),
        jobs,
        kept,
        stretch: pace.instant(1, Nanos::ZERO).0 as f64 / trace.span().0 as f64,
        warning: scaling.seconds.filter(|_| whole < limit).map(|seconds| too_short(whole, seconds, scaling)),
    })
}

/// Stretches the whole trace so that the mean load of its sizes alone, as queueing theory counts them, is rho.
pub fn schedule_plain(trace: &Trace, rho: f64, link: Rate) -> Result<Vec<Job>, ScheduleError> {
    let load = LoadProfile::constant(rho).map_err(|_| ScheduleError::Rho(rho))?;
    check(trace, None, 1)?;
    let bytes: u128 = trace.arrivals.iter().map(|arrival| u128::from(arrival.size_bytes)).sum();
    let pace = Pace::new(trace, 8.0 * bytes as f64, &load, link)?;
    Ok(pace.jobs(Cow::Borrowed(&trace.arrivals), 0).collect())
}

/// The bytes on the wire for a response of this size with a nominal head, without those of the connection.
pub fn wire_bytes(size_bytes: u64) -> u64 {
    bytes_of(HEAD_BYTES_NOMINAL + size_bytes, SEGMENT_BYTES)
}

fn check(trace: &Trace, seconds: Option<f64>, per_connection: u64) -> Result<(), ScheduleError> {
    if let Some(seconds) = seconds.filter(|seconds| !(1e-9..=1e9).contains(seconds)) {
        return Err(ScheduleError::Seconds(seconds));
    }
    if per_connection == 0 {
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

/// Maps the time of a trace to the time of a run.
struct Pace<'a> {
    load: &'a LoadProfile,
    /// The end of the trace as recorded.
    last: Nanos,
    /// The span of the stretched trace: at a constant load its duration, otherwise its work (in link time).
    span: Nanos,
}

impl<'a> Pace<'a> {
    fn new(trace: &Trace, bits: f64, load: &'a LoadProfile, link: Rate) -> Result<Pace<'a>, ScheduleError> {
        let rho = load.as_constant().unwrap_or(1.0);
        let ns = bits / (rho * link.bits_per_s() as f64) * 1e9;
        // At least 1 ns, and below the 584 years that u64 can represent.
        match (1.0..1.8e19).contains(&ns) {
            true => Ok(Pace { load, last: trace.span(), span: Nanos(ns.round() as u64) }),
            false => Err(ScheduleError::SpanOutOfRange(ns / 1e9)),
        }
    }

    /// The instant at which a request arrives, given its time since the first request of the trace, in this repetition.
    fn instant(&self, copy: u64, at: Nanos) -> Nanos {
        // Below the span, so it fits; exact, so that the order is kept.
        let within = (u128::from(at.0) * u128::from(self.span.0) / u128::from(self.last.0)) as u64;
        let work = Nanos(self.span.0.saturating_mul(copy).saturating_add(within));
        if self.load.as_constant().is_some() { work } else { self.load.after(Nanos::ZERO, work.0 as f64) }
    }

    fn jobs<'b>(&'b self, arrivals: Cow<'b, [Arrival]>, copy: u64) -> impl Iterator<Item = Job> + 'b {
        (0..arrivals.len()).map(move |index| {
            let Arrival { at, size_bytes, client } = arrivals[index];
            Job { arrival: self.instant(copy, at), size_bytes, client }
        })
    }
}

/// The number of times that the trace is needed to fill the time.
fn copies(trace: &Trace, pace: &Pace, scaling: &Scaling, limit: Nanos) -> Result<u64, ScheduleError> {
    let (Some(seconds), Some(_)) = (scaling.seconds, scaling.repeat) else { return Ok(1) };
    let wanted = if pace.load.as_constant().is_some() { limit.0 as f64 } else { pace.load.offered(limit) };
    let copies = (wanted / pace.span.0 as f64).ceil().max(1.0);
    match copies * trace.arrivals.len() as f64 <= REQUESTS_MAX as f64 {
        true => Ok(copies as u64),
        false => Err(ScheduleError::TooManyJobs { seconds }),
    }
}

/// The trace with its sizes in a random order, started at a random arrival; the arrivals before that one follow the
/// last, a mean gap later.
pub fn shuffled(trace: &Trace, seed: u64) -> Trace {
    let count = trace.arrivals.len();
    if count < 2 {
        return trace.clone();
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut sizes: Vec<u64> = trace.arrivals.iter().map(|arrival| arrival.size_bytes).collect();
    sizes.shuffle(&mut rng);
    let first = rng.random_range(0..count);
    let (before, behind) = trace.arrivals.split_at(first);
    let (from, turn) = (behind[0].at, trace.span() + Nanos(trace.span().0 / (count as u64 - 1)));
    let moved = |arrival: &Arrival, at: Nanos| Arrival { at, ..*arrival };
    let turned = { behind.iter().map(|arrival| moved(arrival, arrival.at - from)) }
        .chain(before.iter().map(|arrival| moved(arrival, arrival.at + turn - from)));
    Trace { arrivals: turned.zip(sizes).map(|(arrival, size_bytes)| Arrival { size_bytes, ..arrival }).collect() }
}

/// The trace, or a repetition of it with its sizes in another order.
fn copied(trace: &Trace, copy: u64, seed: Option<u64>) -> Cow<'_, [Arrival]> {
    let (1.., Some(seed)) = (copy, seed) else { return Cow::Borrowed(&trace.arrivals) };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(copy);
    let mut sizes: Vec<u64> = trace.arrivals.iter().map(|arrival| arrival.size_bytes).collect();
    sizes.shuffle(&mut rng);
    trace.arrivals.iter().zip(sizes).map(|(arrival, size_bytes)| Arrival { size_bytes, ..*arrival }).collect()
}

/// The bits on the wire, including those of connections.
fn offered_bits(sizes: impl Iterator<Item = u64>, per_connection: u64) -> f64 {
    let (bytes, jobs) = sizes.fold((0u128, 0u64), |(sum, jobs), size| (sum + u128::from(wire_bytes(size)), jobs + 1));
    let connections = jobs as f64 / per_connection as f64;
    8.0 * (bytes as f64 + connections * CONNECTION_BYTES as f64)
}

fn too_short(span: Nanos, seconds: f64, scaling: &Scaling) -> String {
    let load = match scaling.load.as_constant() {
        Some(rho) => format!("rho {rho}"),
        None => format!("a load of {} in the mean", scaling.load.mean_rho()),
    };
    format!(
        "the trace lasts {:.1} s at {load} on {}, shorter than the {seconds} s asked for: the run ends with the trace, \
         unless it is to be repeated",
        span.as_secs_f64(),
        scaling.link
    )
}

/// The reason why no schedule can be made.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    #[error("a load of {0} makes no sense: write a rho above 0, such as 0.8")]
    Rho(f64),
    #[error("{0} s makes no sense: write seconds above 0 and up to 1000000000, such as 60")]
    Seconds(f64),
    #[error("0 requests per connection make no sense: write 1 or more")]
    PerConnection,
    #[error("the trace has no requests: none has a body and status 200, or it was cut to nothing")]
    EmptyTrace,
    #[error("all requests of the trace arrive at one instant, so no stretching gives a load")]
    NoSpan,
    #[error("request {job} of the trace is larger than {SIZE_BYTES_MAX} bytes")]
    SizeTooLarge { job: usize },
    #[error("the trace would last {0:e} s at this load: write a rho nearer to 1 or another rate")]
    SpanOutOfRange(f64),
    /// The number of seconds that repetitions would fill.
    #[error("{seconds} s of this trace repeated are more than {REQUESTS_MAX} requests: write fewer seconds")]
    TooManyJobs { seconds: f64 },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arrival;
    use proptest::prelude::*;

    fn trace(arrivals: &[(u64, u64)]) -> Trace {
        let arrivals = arrivals.iter().map(|&(at, size_bytes)| Arrival { at: Nanos(at), size_bytes, client: None });
        Trace { arrivals: arrivals.collect() }
    }

    fn scaling(rho: f64) -> Scaling {
        under(LoadProfile::constant(rho).unwrap())
    }

    fn under(load: LoadProfile) -> Scaling {
        Scaling { load, link: "10mbit".parse().unwrap(), seconds: None, per_connection: 1, repeat: None }
    }

    #[test]
    fn worked_by_hand() {
        // 1,208 + 240 bytes are one full segment: 1,514 on the wire, 1,720 with the connection. Two of them are 27,520
        // bits, at rho 0.5 on 10 Mbit/s spread over 5.504 ms.
        let schedule = schedule(&trace(&[(0, 1208), (7, 1208)]), &scaling(0.5)).unwrap();
        assert_eq!(schedule.jobs[1], Job { arrival: Nanos::from_micros(5504), size_bytes: 1208, client: None });
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
            let link = "10mbit".parse().unwrap();
            assert!(schedule_plain(&good, rho, link).unwrap_err().to_string().contains("rho above 0"));
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
        let huge = trace(&[(0, SIZE_BYTES_MAX), (1, SIZE_BYTES_MAX)]);
        assert!(matches!(schedule(&huge, &scaling(1e-9)), Err(ScheduleError::SpanOutOfRange(_))));
        assert!(schedule(&good, &scaling(1.4)).is_ok(), "overload is an experiment");
    }

    #[test]
    fn a_changing_load_is_worked_by_hand() {
        // Three responses of 1,720 bytes are 4.128 ms of link time, of which 1.376 are offered by the end of the first
        // phase.
        let load: LoadProfile = "0.002752,1,0.5,2".parse().unwrap();
        let schedule = schedule(&trace(&[(0, 1208), (500, 1208), (1000, 1208)]), &under(load)).unwrap();
        let at: Vec<u64> = schedule.jobs.iter().map(|job| job.arrival.0).collect();
        assert_eq!(at, [0, 2_752_000 + 344_000, 2_752_000 + 1_376_000]);
        assert_eq!(schedule.kept.0, at[2]);
    }

    fn shipped() -> Trace {
        let shipped = include_bytes!("../../../traces/synthetic.csv.gz");
        crate::read(&shipped[..], &crate::ReadOptions::default()).unwrap().trace(0)
    }

    #[test]
    fn the_trace_in_the_repository_lasts_two_minutes_at_any_load_measured() {
        let of = |rho, seconds| schedule(&shipped(), &Scaling { seconds: Some(seconds), ..scaling(rho) }).unwrap();
        assert!([0.6, 0.8, 0.95].iter().all(|rho| of(*rho, 120.0).warning.is_none()));
        let minute = of(0.8, 60.0);
        assert_eq!(minute.jobs.len(), 12_245);
        assert!((0.79..0.81).contains(&minute.rho_measured), "{}", minute.rho_measured);
    }

    /// Ten turns of each of the papers' workloads with a heavy-tailed trace: over all low and over all high periods the
    /// offered load agrees with table I, and the trace's requests arrive in their order.
    #[test]
    fn the_papers_workloads_load_the_link_as_they_say() {
        let mut trace = shipped();
        trace.arrivals.truncate(20_000);
        let link: Rate = "10mbit".parse().unwrap();
        for name in ["W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9", "W10"] {
            let load: LoadProfile = name.parse().unwrap();
            let turn: u64 = load.phases().iter().map(|phase| phase.lasts.0).sum();
            let wanted = Scaling { seconds: Some(10.0 * turn as f64 / 1e9), repeat: Some(1), ..under(load.clone()) };
            let found = schedule(&trace, &wanted).unwrap();
            assert_eq!((found.kept.0, &found.warning), (10 * turn, &None));
            assert!((found.rho_measured / load.mean_rho() - 1.0).abs() < 0.05, "{name}: {}", found.rho_measured);
            let low_ends = load.phases()[0].lasts.0;
            let (low, high): (Vec<Job>, Vec<Job>) = found.jobs.iter().partition(|job| job.arrival.0 % turn < low_ends);
            for (phase, jobs) in load.phases().iter().zip([low, high]) {
                let bits = offered_bits(jobs.iter().map(|job| job.size_bytes), 1);
                let rho = bits / (link.bits_per_s() as f64 * 10.0 * phase.lasts.as_secs_f64());
                // In ten short periods a few large responses are a tenth of the load.
                assert!((rho / phase.rho - 1.0).abs() < 0.2, "{name}: {rho} for {}", phase.rho);
            }
            let sizes = trace.arrivals.iter().map(|arrival| arrival.size_bytes);
            assert!(found.jobs.iter().map(|job| job.size_bytes).zip(sizes).all(|(job, asked)| job == asked));
            assert_eq!(schedule(&trace, &wanted).unwrap(), found, "the same seed, the same requests");
        }
    }

    #[test]
    fn a_shuffled_trace_is_the_same_but_for_order_and_beginning() {
        let of = |at_ns: u64, size_bytes: u64| Arrival { at: Nanos(at_ns), size_bytes, client: None };
        let trace = Trace { arrivals: vec![of(0, 1), of(10, 2), of(11, 3), of(30, 4)] };
        let gaps = |trace: &Trace| -> Vec<u64> {
            let mut gaps: Vec<u64> = trace.arrivals.windows(2).map(|pair| (pair[1].at - pair[0].at).0).collect();
            gaps.sort_unstable();
            gaps
        };
        let mut begun = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let other = shuffled(&trace, seed);
            let mut sizes: Vec<u64> = other.arrivals.iter().map(|arrival| arrival.size_bytes).collect();
            sizes.sort_unstable();
            assert_eq!((sizes, other.arrivals[0].at), (vec![1, 2, 3, 4], Nanos::ZERO));
            // The gaps of the turn are 10, 1, 19 and the mean of 10; one of them is after the end.
            let mut whole = [gaps(&other), vec![40 - other.span().0]].concat();
            whole.sort_unstable();
            assert_eq!(whole, [1, 10, 10, 19]);
            begun.insert((other.arrivals[1].at, other.arrivals[0].size_bytes));
            assert_eq!(shuffled(&trace, seed), other);
        }
        assert!(begun.len() > 8, "{begun:?}");
        let one = Trace { arrivals: vec![of(0, 1)] };
        assert_eq!(shuffled(&one, 1), one);
    }

    #[test]
    fn a_repeated_trace_lasts_as_long_as_wanted() {
        let sizes = [100u64, 2000, 30_000, 40, 500];
        let short: Vec<(u64, u64)> = sizes.iter().enumerate().map(|(n, &size)| (n as u64 * 10, size)).collect();
        for load in [LoadProfile::constant(0.5), LoadProfile::alternating(0.02, 0.005, 0.2, 3.0)] {
            let load = load.unwrap();
            let wanted = Scaling { seconds: Some(1.0), repeat: Some(7), ..under(load.clone()) };
            let long = schedule(&trace(&short), &wanted).unwrap();
            assert_eq!((long.kept, &long.warning), (Nanos::from_secs(1), &None));
            assert!((long.rho_measured / load.mean_rho() - 1.0).abs() < 0.1, "{}", long.rho_measured);
            assert!(long.jobs.is_sorted_by_key(|job| job.arrival));
            let copies: Vec<Vec<u64>> =
                long.jobs.chunks_exact(5).map(|jobs| jobs.iter().map(|job| job.size_bytes).collect()).collect();
            assert_eq!(copies[0], sizes, "first as it is");
            assert!(copies.iter().any(|copy| copy != &sizes), "then in another order");
            for mut copy in copies {
                copy.sort_unstable();
                assert_eq!(copy, [40, 100, 500, 2000, 30_000]);
            }
            assert_eq!(schedule(&trace(&short), &wanted).unwrap(), long, "the seed decides");
            let other = Scaling { repeat: Some(8), ..wanted };
            assert_ne!(schedule(&trace(&short), &other).unwrap(), long);
        }
        let endless = Scaling { seconds: Some(1e9), repeat: Some(1), ..scaling(0.5) };
        assert_eq!(schedule(&trace(&short), &endless), Err(ScheduleError::TooManyJobs { seconds: 1e9 }));
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
            let load = LoadProfile::constant(rho).unwrap();
            let whole = schedule(&trace(&arrivals), &Scaling { link, per_connection, ..under(load) }).unwrap();
            prop_assert!(whole.jobs.iter().map(|job| job.size_bytes).eq(arrivals.iter().map(|&(_, size)| size)));
            prop_assert!(whole.jobs.is_sorted_by_key(|job| job.arrival));
            prop_assert_eq!(whole.jobs.last().map(|job| job.arrival), Some(whole.kept));
            prop_assert!((whole.rho_measured / rho - 1.0).abs() < 1e-3, "{} for {}", whole.rho_measured, rho);
        }

        /// Even gaps and sizes: the load offered in each phase is correct to within a job.
        #[test]
        fn each_phase_gets_its_load(
            [low_s, high_s] in [0.5f64..5.0, 0.5f64..5.0],
            [low, high] in [0.1f64..2.0, 0.1f64..2.0],
            seed in 0u64..100,
        ) {
            let even: Vec<(u64, u64)> = (0..2000).map(|n| (n * 1000, 1208)).collect();
            let load = LoadProfile::alternating(low_s, high_s, low, high).unwrap();
            let wanted = Scaling { seconds: Some(2.0 * (low_s + high_s)), repeat: Some(seed), ..under(load.clone()) };
            let schedule = schedule(&trace(&even), &wanted).unwrap();
            prop_assert!(schedule.jobs.is_sorted_by_key(|job| job.arrival));
            prop_assert_eq!(schedule.warning, None);
            let mut begins = Nanos::ZERO;
            for phase in load.phases().iter().cycle().take(4) {
                let ends = begins + phase.lasts;
                let jobs = schedule.jobs.iter().filter(|job| (begins..ends).contains(&job.arrival)).count();
                // 1,720 bytes each; 2,000 jobs have 1,999 gaps, and one job more if the trace is repeated.
                let right = (load.offered(ends) - load.offered(begins)) / 1_376_000.0;
                prop_assert!((jobs as f64 - right).abs() <= 2.0 + right / 2000.0 + 1.0, "{jobs} jobs for {right}");
                begins = ends;
            }
        }
    }
}
