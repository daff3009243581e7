//! Simulates given jobs on one link.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sim::Hooks;
use sim::queue::{self, Arrivals, Config, Horizon, Paths, Wire};

use crate::called::{Called, Calls, Function};
use crate::columns;

/// The instant at which each job ends in nanoseconds, the cut points of the policy's bands, and the bytes of a chunk.
type Ended<'py> = (Bound<'py, PyBytes>, Vec<u64>, Option<u64>);

/// The settings of a run other than its jobs and its policy.
#[derive(FromPyObject)]
pub struct Settings {
    link: String,
    wire: String,
    paths: String,
    chunk: Option<u64>,
    seed: u64,
    call_limit_s: Option<f64>,
}

/// The names of policies that [`simulate`] accepts, with the arguments that may follow each.
#[pyfunction]
pub fn policies() -> String {
    format!("ps, {}", sched::policy::FORMS)
}

/// Simulates these jobs on one link. `policy` is a name or a function. `classes` are the classes passed to a function,
/// and the value of `class` in an expression.
#[pyfunction]
pub fn simulate<'py>(
    py: Python<'py>,
    sizes: &[u8],
    arrivals: &[u8],
    policy: Bound<'py, PyAny>,
    classes: Option<&[u8]>,
    settings: Settings,
) -> PyResult<Ended<'py>> {
    let jobs = columns::jobs(sizes, arrivals)?;
    let count = jobs.len();
    let name: Option<String> = policy.extract().ok();
    let classes: Vec<u16> = columns::numbers(classes.unwrap_or_default()).map(|class| class as u16).collect();
    let mut config = config(jobs, name.as_deref().unwrap_or("fcfs"), &settings)?;
    if name.is_some() {
        config.classes.clone_from(&classes);
    }
    let mut ends = vec![0; count];
    let (cuts, chunk) = match name {
        Some(_) => py.detach(|| ended(&mut ends, |hooks| queue::run(&config, hooks)))?,
        None => {
            let calls = Arc::new(Calls::default());
            let function = Function {
                call: policy.unbind(),
                bytes_per_ns: config.link.bits_per_s() as f64 / 8e9,
                classes,
                has_paths: config.paths != Paths::Unknown,
                call_limit: call_limit(&settings)?,
                calls: Arc::clone(&calls),
            };
            let policy = Box::new(Called::new(function));
            let outcome = ended(&mut ends, |hooks| queue::run_under(&config, policy, hooks));
            // An exception of the function explains any later error.
            calls.failure(py).map_or(Ok(()), Err)?;
            outcome?
        }
    };
    Ok((columns::column(py, &ends)?, cuts, chunk))
}

/// The instant at which each job ends, the cut points and the chunk.
fn ended(
    ends: &mut [u64],
    run: impl FnOnce(Hooks) -> Result<queue::Outcome, queue::Error>,
) -> PyResult<(Vec<u64>, Option<u64>)> {
    let mut record = |record: record::JobRecord| ends[record.job as usize] = record.end_ns;
    let outcome = run(Hooks { record: Some(&mut record), progress: None }).map_err(named)?;
    Ok((outcome.cuts_bytes, outcome.chunk_bytes))
}

fn named(error: queue::Error) -> PyErr {
    match error {
        queue::Error::Field { field: "trace", reason } => columns::wrong("sizes", reason),
        error @ queue::Error::Field { .. } => pyo3::exceptions::PyValueError::new_err(error.to_string()),
        error => columns::wrong("sizes", error),
    }
}

fn config(jobs: Vec<workload::Job>, policy: &str, settings: &Settings) -> PyResult<Config> {
    let wire = match settings.wire.as_str() {
        "plain" => Wire::Plain,
        "tcp" => Wire::Tcp,
        other => return Err(columns::wrong("wire", format_args!("`{other}`: write plain or tcp"))),
    };
    let paths = match settings.paths.as_str() {
        "unknown" => Paths::Unknown,
        "internet" => Paths::Internet,
        other => return Err(columns::wrong("paths", format_args!("`{other}`: write unknown or internet"))),
    };
    let usual = Config::new(policy, columns::link(&settings.link)?, Arrivals::Replay(jobs), Horizon::AllOfReplay);
    Ok(Config { wire, paths, chunk_bytes: settings.chunk, seed: settings.seed, ..usual })
}

fn call_limit(settings: &Settings) -> PyResult<Option<Duration>> {
    let Some(seconds) = settings.call_limit_s else { return Ok(None) };
    let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero());
    let said = || columns::wrong("call_limit_s", format_args!("{seconds}: write seconds above 0, or None"));
    limit.map(Some).ok_or_else(said)
}
