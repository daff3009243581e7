//! The jobs and their instants: the trace stretched to a load, or its sizes at Poisson times.

use testbed::{Load, Surge};
use units::wire::CONNECTION_BYTES;
use units::{Nanos, Rate};
use workload::surge::{Files, ServerModel};
use workload::{Job, LoadProfile, ProfileError, Scaling, Schedule, ScheduleError, Trace, poisson_times, wire_bytes};

use cli::Failure;

/// The range of rates in requests per second. No machine keeps the times above it, and its minimum is one request a
/// day.
const RATE_PER_S: std::ops::RangeInclusive<f64> = 1.0 / 86_400.0..=1_000_000.0;

/// What determines the arrivals.
#[derive(Debug, Clone)]
pub(crate) enum Demand {
    /// A load of the link.
    Load(LoadProfile),
    /// Requests per second.
    Rate(f64),
}

impl Demand {
    pub(crate) fn of(load: &Load, rate_per_s: Option<f64>) -> Result<Demand, Failure> {
        let wrong = |flag: &'static str| move |error: ProfileError| Failure::Usage(format!("{flag}: {error}"));
        match (rate_per_s, &load.profile, load.rho) {
            (Some(rate_per_s), ..) if RATE_PER_S.contains(&rate_per_s) => Ok(Demand::Rate(rate_per_s)),
            (Some(rate_per_s), ..) => {
                Err(Failure::Usage(format!("--rate: {rate_per_s} requests per second make no sense: write 250, say")))
            }
            (None, Some(profile), _) => profile.parse().map(Demand::Load).map_err(wrong("--profile")),
            (None, None, Some(rho)) => LoadProfile::constant(rho).map(Demand::Load).map_err(wrong("--rho")),
            (None, None, None) => Err(Failure::Usage(
                "how much to ask for is missing: write --rho 0.8, --profile W1 or --rate 250".into(),
            )),
        }
    }
}

/// The jobs of a run.
pub(crate) fn schedule(wanted: &Load, demand: &Demand, link: Rate) -> Result<Schedule, Failure> {
    let load = match demand {
        Demand::Load(load) => load.clone(),
        Demand::Rate(_) => LoadProfile::constant(1.0).map_err(|error| Failure::Failed(error.to_string()))?,
    };
    let Load { seed, seconds, per_connection, .. } = *wanted;
    let scaling = Scaling { load, link, seconds, per_connection, repeat: wanted.repeat.then_some(seed) };
    let trace = match wanted.surge {
        Some(_) => surge(wanted, &scaling)?,
        None => trace(wanted)?,
    };
    // Computed with a rate too, because the other settings must be valid all the same.
    let scaled = workload::schedule(&trace, &scaling).map_err(whose_fault)?;
    Ok(match demand {
        Demand::Load(_) => scaled,
        Demand::Rate(rate_per_s) => poisson(&trace, *rate_per_s, seed, &scaling),
    })
}

/// The requested trace, or the one in this program.
pub(crate) fn trace(load: &Load) -> Result<Trace, Failure> {
    let trace = match &load.trace {
        Some(path) => crate::trace::read_for_schedule(path, load.seed)?,
        None => crate::trace::shipped(load.seed),
    };
    Ok(if load.shuffle { workload::shuffled(&trace, load.seed) } else { trace })
}

/// SURGE's server model. The default is 000's for an open load, and 002's for users.
pub(crate) fn server_model(load: &Load) -> &'static ServerModel {
    load.surge.and_then(Surge::model).unwrap_or(match load.users {
        Some(_) => &ServerModel::ALSADEH_2008,
        None => &ServerModel::HARCHOL_2003,
    })
}

/// Returns as many requests as the seconds need, and half as many more, because their sum varies considerably.
fn surge(load: &Load, scaling: &Scaling) -> Result<Trace, Failure> {
    let files = Files::matched(server_model(load));
    let requests = match load.seconds.filter(|seconds| (1e-9..=1e9).contains(seconds)) {
        Some(seconds) => {
            let mean_bits = 8.0 * (0..files.sizes().len()).map(|file| wire_share(&files, file)).sum::<f64>();
            let bits = scaling.load.offered(Nanos((seconds * 1e9) as u64)) / 1e9 * scaling.link.bits_per_s() as f64;
            ((1.5 * bits / mean_bits) as usize).max(SURGE_REQUESTS_MIN)
        }
        None => SURGE_REQUESTS,
    };
    if requests > workload::REQUESTS_MAX {
        let most = workload::REQUESTS_MAX;
        return Err(Failure::Usage(format!("--seconds: about {requests} requests are more than {most}: write fewer")));
    }
    Ok(workload::surge::trace(&files, requests, load.seed))
}

/// The part of a request's mean wire bytes that this file contributes.
fn wire_share(files: &Files, file: usize) -> f64 {
    files.share(file) * (wire_bytes(files.sizes()[file]) + CONNECTION_BYTES) as f64
}

/// The default number of requests, which is that of 000's trace.
const SURGE_REQUESTS: usize = 90_000;

/// The minimum number of requests. A shorter trace would be stretched by the sizes of its few large files.
const SURGE_REQUESTS_MIN: usize = 1000;

/// Returns the failure: either the request is invalid, or the trace is empty.
fn whose_fault(error: ScheduleError) -> Failure {
    match error {
        ScheduleError::Seconds(_) | ScheduleError::TooManyJobs { .. } => Failure::Usage(format!("--seconds: {error}")),
        ScheduleError::PerConnection => Failure::Usage(format!("--per-connection: {error}")),
        _ => Failure::Failed(error.to_string()),
    }
}

/// The sizes of the trace in their order, repeated when used up, at Poisson times. Without seconds there are as many as
/// in the trace.
fn poisson(trace: &Trace, rate_per_s: f64, seed: u64, scaling: &Scaling) -> Schedule {
    let wanted = match scaling.seconds {
        // Six standard deviations above the mean: all the seconds get their arrivals.
        Some(seconds) => (rate_per_s * seconds + 6.0 * (rate_per_s * seconds).sqrt() + 6.0) as usize,
        None => trace.arrivals.len(),
    };
    let jobs = wanted.min(workload::REQUESTS_MAX);
    let limit = scaling.seconds.map_or(Nanos::MAX, |seconds| Nanos((seconds * 1e9) as u64));
    let sizes = trace.arrivals.iter().map(|arrival| arrival.size_bytes).cycle();
    let jobs: Vec<Job> = poisson_times(rate_per_s, seed, 0)
        .take(jobs)
        .zip(sizes)
        .map(|(arrival, size_bytes)| Job { arrival, size_bytes, client: None })
        .take_while(|job| job.arrival < limit)
        .collect();
    // Without seconds the last gap counts as long as the others on average, so that a single job has a load too.
    let kept = match scaling.seconds {
        Some(_) => limit,
        None => Nanos((jobs.len() as f64 / rate_per_s * 1e9) as u64),
    };
    let sizes = jobs.iter().map(|job| job.size_bytes);
    let rho_measured = rho_of(sizes, kept, scaling.link, scaling.per_connection);
    Schedule { jobs, rho_measured, kept, stretch: 1.0, warning: None }
}

/// The offered wire bits divided by the capacity of the link in that time.
pub(crate) fn rho_of(sizes: impl Iterator<Item = u64>, kept: Nanos, link: Rate, per_connection: u64) -> f64 {
    let (responses, jobs) = sizes.fold((0, 0u64), |(bytes, jobs), size| (bytes + wire_bytes(size), jobs + 1));
    let connections = jobs as f64 / per_connection as f64;
    let bits = 8.0 * (responses as f64 + connections * CONNECTION_BYTES as f64);
    bits / (link.bits_per_s() as f64 * kept.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Arrival;

    fn scaling(seconds: Option<f64>) -> Scaling {
        let load = LoadProfile::constant(1.0).unwrap();
        Scaling { load, link: "10mbit".parse().unwrap(), seconds, per_connection: 1, repeat: None }
    }

    fn trace() -> Trace {
        let arrivals = (0..100).map(|n| Arrival { at: Nanos::from_secs(n), size_bytes: 1000 + n, client: None });
        Trace { arrivals: arrivals.collect() }
    }

    /// The mean of 100,000 gaps is within 2 % of the expected one, with 6 standard deviations to spare.
    #[test]
    fn poisson_times_have_the_rate_and_the_spread() {
        let schedule = poisson(&trace(), 1000.0, 1, &scaling(Some(100.0)));
        assert!((98_000..102_000).contains(&schedule.jobs.len()), "{}", schedule.jobs.len());
        let gaps: Vec<f64> =
            schedule.jobs.windows(2).map(|pair| (pair[1].arrival - pair[0].arrival).as_secs_f64()).collect();
        // Of exponential gaps, the share 1/e is longer than the mean; of equal gaps none would be.
        let longer = gaps.iter().filter(|&&gap| gap > 1e-3).count() as f64 / gaps.len() as f64;
        assert!((longer - (-1.0_f64).exp()).abs() < 0.01, "{longer}");
        assert_eq!(schedule.kept, Nanos::from_secs(100));
    }

    #[test]
    fn poisson_sizes_are_those_of_the_trace_over_and_over() {
        let schedule = poisson(&trace(), 100.0, 1, &scaling(Some(5.0)));
        assert!(schedule.jobs.len() > 150);
        for (n, job) in schedule.jobs.iter().enumerate() {
            assert_eq!(job.size_bytes, 1000 + n as u64 % 100);
        }
        assert_eq!(poisson(&trace(), 100.0, 1, &scaling(None)).jobs.len(), 100);
    }

    /// A file's `repeat` has no effect on users, and a command line refuses it.
    #[test]
    fn users_ask_without_end() {
        let jobs = |more: &str| {
            let text = format!(r#"{{"users":300,"seconds":60{more}}}"#);
            super::super::jobs_of(&serde_json::from_str(&text).unwrap(), scaling(None).link).unwrap()
        };
        let once = jobs("");
        assert!(!once.is_empty());
        assert_eq!(jobs(r#","repeat":true"#), once);
    }

    #[test]
    fn load_by_hand() {
        // 1,208 + 240 bytes are one full segment: 1,514 on the wire, 1,720 with the connection, 13,760 bits.
        let rho = rho_of([1208, 1208].into_iter(), Nanos::from_millis(10), scaling(None).link, 1);
        assert!((rho - 2.0 * 13_760.0 / 100_000.0).abs() < 1e-12, "{rho}");
    }
}
