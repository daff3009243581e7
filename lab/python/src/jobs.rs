//! Jobs that are in no file: drawn from a distribution, or a trace's jobs at another load.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sim::queue::{self, Wire};
use units::Nanos;
use workload::{Arrival, Distribution, LoadProfile, Trace, schedule_plain};

use crate::columns;

type Columns<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Sizes and arrivals of this many jobs at a load of `rho`. They equal the jobs of `weirlab sim` with the same seed.
#[pyfunction]
pub fn poisson<'py>(py: Python<'py>, dist: &str, rho: f64, link: &str, jobs: u64, seed: u64) -> PyResult<Columns<'py>> {
    let link = columns::link(link)?;
    let sizes: Distribution = dist.parse().map_err(|error| columns::wrong("dist", error))?;
    let load = LoadProfile::constant(rho).map_err(|error| columns::wrong("rho", error))?;
    let bound = workload::REQUESTS_MAX as u64;
    if !(1..=bound).contains(&jobs) {
        return Err(columns::wrong("jobs", format_args!("{jobs}: write 1 to {bound}")));
    }
    let service_ns = Wire::Plain.mean_bytes(&sizes) * 8e9 / link.bits_per_s() as f64;
    queue::check_span(&sizes, service_ns, &load, jobs).map_err(|error| columns::wrong("jobs", error))?;
    let drawn = queue::Poisson::new(&sizes, load, service_ns, seed).take(jobs as usize);
    let (sizes, arrivals): (Vec<u64>, Vec<u64>) = drawn.map(|request| (request.size_bytes, request.at.0)).unzip();
    Ok((columns::column(py, &sizes)?, columns::column(py, &arrivals)?))
}

/// Stretches arrivals in time, so that the mean load of all jobs on the link is `rho`.
#[pyfunction]
pub fn stretch<'py>(
    py: Python<'py>,
    sizes: &[u8],
    arrivals: &[u8],
    link: &str,
    rho: f64,
) -> PyResult<Bound<'py, PyBytes>> {
    let link = columns::link(link)?;
    let jobs = columns::jobs(sizes, arrivals)?;
    let start = jobs.first().map_or(Nanos::ZERO, |job| job.arrival);
    let arrival =
        |job: &workload::Job| Arrival { at: job.arrival - start, size_bytes: job.size_bytes, client: job.client };
    let trace = Trace { arrivals: jobs.iter().map(arrival).collect() };
    let jobs = schedule_plain(&trace, rho, link).map_err(|error| columns::wrong("stretch", error))?;
    let arrivals: Vec<u64> = jobs.iter().map(|job| job.arrival.0).collect();
    columns::column(py, &arrivals)
}
