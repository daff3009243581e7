//! Closed forms, and bounds for given jobs.

use std::num::NonZeroU64;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sched::policy::Expression;
use sim::queue::SizeRank;
use theory::alternating::Alternating;
use theory::mg1::{self, Knows, Mg1, Policy, Served};
use theory::{Demand, clairvoyant_srpt, ideal_ps, plain_service, wire_service};
use units::Nanos;
use workload::{Distribution, LoadProfile};

use crate::columns;

/// Response time in ms, slowdown, arrivals per second, mean size and cut points.
type Solution = (f64, f64, f64, f64, Vec<f64>);

/// Solves the M/G/1 queue under a policy, for sizes from a distribution's description or given ones. The result is for
/// all jobs, or for jobs of one size.
#[pyfunction(name = "mg1")]
pub fn solve_mg1(
    policy: &str,
    dist: Option<&str>,
    sizes: Option<&[u8]>,
    rho: f64,
    link: &str,
    at_size: Option<f64>,
) -> PyResult<Solution> {
    let link = columns::link(link)?;
    let sizes = match (dist, sizes) {
        (Some(dist), _) => dist.parse().map_err(|error| columns::wrong("sizes", error))?,
        (None, sizes) => {
            let sizes: Vec<u64> = columns::numbers(sizes.unwrap_or_default()).collect();
            Distribution::empirical(&sizes).map_err(|error| columns::wrong("sizes", error))?
        }
    };
    if let Some(size) = at_size.filter(|size| !(1.0..=1e18).contains(size)) {
        return Err(columns::wrong("at_size", format_args!("{size} bytes: write 1 or more")));
    }
    let cuts_of = |bands| sched::policy::best_cuts(|u| sizes.quantile(u), bands);
    let queue = Mg1::new(sizes.clone(), rho, link).map_err(|error| columns::wrong("rho", error))?;
    let solution = match policy.strip_prefix("rank:") {
        Some(text) => of_rank(&queue, text)?,
        None => queue.solve(&Policy::parse(policy, cuts_of).map_err(|error| columns::wrong("policy", error))?),
    };
    let (response_ms, slowdown) = match at_size {
        Some(size) => (solution.response_ms_at(size), solution.slowdown_at(size)),
        None => (solution.response_ms(), solution.slowdown_mean()),
    };
    Ok((response_ms, slowdown, queue.lambda_per_s(), queue.mean_size_bytes(), solution.cuts_bytes().to_vec()))
}

/// The same where the load alternates between two phases: response time in ms, slowdown, and the jobs that pile up.
#[pyfunction]
pub fn alternating(policy: &str, dist: &str, profile: &str, link: &str) -> PyResult<(f64, f64, f64)> {
    let sizes: Distribution = dist.parse().map_err(|error| columns::wrong("dist", error))?;
    let profile: LoadProfile = profile.parse().map_err(|error| columns::wrong("profile", error))?;
    let queue = Alternating::new(sizes, &profile, columns::link(link)?);
    let queue = queue.map_err(|error| columns::wrong("profile", error))?;
    let policy: Policy = policy.parse().map_err(|error| columns::wrong("policy", error))?;
    let solution = queue.solve(&policy).map_err(|error| columns::wrong("policy", error))?;
    Ok((solution.response_ms(), solution.slowdown_mean(), solution.backlog_jobs()))
}

/// The response times under this expression.
fn of_rank<'a>(queue: &'a Mg1, text: &str) -> PyResult<mg1::Solution<'a>> {
    let expression: Expression = text.parse().map_err(|error| columns::wrong("policy", error))?;
    let quantile = |u: f64| queue.sizes().quantile(u);
    let said = "no closed form is known for more than size, left, sent, noise, gittins and mserpt: simulate it";
    let rank = SizeRank::new(expression, &quantile).ok_or_else(|| columns::wrong("policy", said))?;
    let (size, errors) = rank.knows();
    let of = |job: Served| rank.value(job.size, job.sent, job.deviate);
    Ok(queue.solve_rank(Knows { size, errors }, &rank.cuts(), &of))
}

/// Returns the response time of each job in nanoseconds under the best possible schedule, and under ideal sharing. With
/// the bytes of response heads, the link carries segments; without them, only the sizes.
#[pyfunction]
pub fn bounds<'py>(
    py: Python<'py>,
    sizes: &[u8],
    arrivals: &[u8],
    heads: Option<&[u8]>,
    link: &str,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let link = columns::link(link)?;
    let jobs = columns::jobs(sizes, arrivals)?;
    let services: Vec<Nanos> = match heads {
        None => jobs.iter().map(|job| plain_service(job.size_bytes.max(1), link)).collect(),
        Some(heads) => {
            let pairs = jobs.iter().zip(columns::numbers(heads));
            pairs.map(|(job, head)| wire_service(head, job.size_bytes.min(BYTES_MAX), link)).collect()
        }
    };
    let demand = |(job, service): (&workload::Job, Nanos)| Demand { arrival: job.arrival, service };
    let demands: Vec<Demand> = jobs.iter().zip(services).map(demand).collect();
    let work: u128 = demands.iter().map(|demand| u128::from(demand.service.0)).sum();
    let last = jobs.last().map_or(Nanos::ZERO, |job| job.arrival);
    if work + u128::from(last.0) > u128::from(sim::queue::SPAN_MAX.0) {
        return Err(columns::wrong(
            "sizes",
            "the last job would end later than any run may, 36 years: write smaller sizes",
        ));
    }
    let times = |of: Vec<Nanos>| of.into_iter().map(|time| time.0).collect::<Vec<u64>>();
    let (best, shared) = py.detach(|| (times(clairvoyant_srpt(&demands)), times(ideal_ps(&demands))));
    Ok((columns::column(py, &best)?, columns::column(py, &shared)?))
}

/// Returns the time that the link needs for the head and body of each response in full segments, in nanoseconds.
/// Slowdown is relative to it.
#[pyfunction]
pub fn alone<'py>(py: Python<'py>, sizes: &[u8], heads: &[u8], link: &str) -> PyResult<Bound<'py, PyBytes>> {
    let link = columns::link(link)?;
    let pairs = columns::numbers(sizes).zip(columns::numbers(heads));
    let times: Vec<u64> = pairs.map(|(size, head)| wire_service(head, size.min(BYTES_MAX), link).0).collect();
    columns::column(py, &times)
}

/// Returns the same times for jobs without heads or segments, as in queueing theory.
#[pyfunction]
pub fn alone_plain<'py>(py: Python<'py>, sizes: &[u8], link: &str) -> PyResult<Bound<'py, PyBytes>> {
    let link = columns::link(link)?;
    let times: Vec<u64> = columns::numbers(sizes).map(|size| plain_service(size, link).0).collect();
    columns::column(py, &times)
}

/// Returns the response time of each request in nanoseconds, given its bytes of head and body, in the best order of
/// whole packets. Handshakes are included. The protocol is named as in the load generator.
#[pyfunction]
pub fn packet_bound<'py>(
    py: Python<'py>,
    arrivals: &[u8],
    payloads: &[u8],
    per_connection: NonZeroU64,
    protocol: &str,
    link: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let link = columns::link(link)?;
    let jobs = columns::jobs(payloads, arrivals)?;
    let requests: Vec<(Nanos, u64)> = jobs.iter().map(|job| (job.arrival, job.size_bytes)).collect();
    let carrier = theory::Carrier::of_protocol(protocol);
    let times = py.detach(|| theory::packet_bound(&requests, per_connection, carrier, link));
    columns::column(py, &times.into_iter().map(|time| time.0).collect::<Vec<u64>>())
}

/// The maximum size; above it a sum with a head would overflow.
const BYTES_MAX: u64 = 1 << 50;
