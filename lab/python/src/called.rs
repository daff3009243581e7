//! A policy that is a Python function.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pyo3::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use sched::policy::{Rank, Ranked};
use sched::{Job, Policy};
use units::Nanos;

use crate::PolicyError;

/// The known properties of the path to a job's client.
#[pyclass(frozen, get_all, module = "weirlab")]
pub struct Path {
    /// Round-trip time in seconds.
    rtt_s: Option<f64>,
    /// Congestion window in bytes.
    window_bytes: Option<f64>,
    /// Estimated throughput in bits per second.
    throughput_bps: Option<u64>,
}

/// The state that the calls of one run share with the code that started the run.
#[derive(Default)]
pub struct Calls {
    /// The clock of the simulation in nanoseconds.
    now: AtomicU64,
    /// The first failure, after which the function is not called again.
    failure: OnceLock<PyErr>,
}

impl Calls {
    pub fn failure(&self, py: Python) -> Option<PyErr> {
        self.failure.get().map(|error| error.clone_ref(py))
    }
}

/// The function, and the data from which its arguments are made.
pub struct Function {
    pub call: Py<PyAny>,
    pub bytes_per_ns: f64,
    /// The class of each job in order of arrival; if empty, all classes are 0.
    pub classes: Vec<u16>,
    pub has_paths: bool,
    /// The maximum CPU time of one call. On a busy machine the call takes longer.
    pub call_limit: Option<Duration>,
    pub calls: Arc<Calls>,
}

impl Function {
    fn path(&self, path: &sched::Path) -> Option<Path> {
        self.has_paths.then(|| Path {
            rtt_s: path.rtt.map(|rtt| rtt.as_secs_f64()),
            window_bytes: path.cwnd_bytes.map(|window| window as f64 * self.bytes_per_ns),
            throughput_bps: path.throughput_bps,
        })
    }

    fn ask(&self, py: Python, job: &Job, path: &sched::Path) -> PyResult<f64> {
        let size = job.known().unwrap_or_default();
        let bytes = |ns: u64| ns as f64 * self.bytes_per_ns;
        let age = Nanos(self.calls.now.load(Ordering::Relaxed)).0.saturating_sub(job.arrived_at.0);
        let class = self.classes.get(job.number as usize).copied().unwrap_or_default();
        let (size_bytes, left, sent) = (bytes(size).round() as u64, bytes(size - job.attained), bytes(job.attained));
        let began = self.call_limit.map(|limit| (cpu(), limit));
        let arguments = (size_bytes, left, sent, age as f64 / 1e9, class, self.path(path));
        let named = |said: &str| {
            let job = format!("job {} ({size_bytes} bytes, {left} left)", job.number);
            PolicyError::new_err(format!("policy, {job}: {said}"))
        };
        let because = |said: &str, cause: PyErr| {
            let error = named(said);
            error.set_cause(py, Some(cause));
            error
        };
        let returned = self.call.bind(py).call1(arguments).map_err(|cause| match cause {
            // Ctrl-C and exit() belong to the caller, not to the policy.
            cause if !cause.is_instance_of::<pyo3::exceptions::PyException>(py) => cause,
            cause => because("the function raised", cause),
        })?;
        if let Some((began, limit)) = began
            && cpu().saturating_sub(began) > limit
        {
            return Err(named(&format!(
                "one call took more than {} s of the processor (call_limit_s)",
                limit.as_secs_f64()
            )));
        }
        let rank: f64 = returned.extract().map_err(|cause| {
            because("the function returned what is no number: return the rank, lowest first", cause)
        })?;
        if rank.is_nan() {
            return Err(named(
                "the function returned NaN, which has no place in an order: return a number or infinity",
            ));
        }
        Ok(rank)
    }
}

/// The CPU time of this thread so far.
fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Maps numbers to integers of the same order.
fn ordered(rank: f64) -> u64 {
    // Both zeros are equal.
    let bits = (rank + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

impl Rank for Function {
    fn name(&self) -> &str {
        "function"
    }

    fn needs_path(&self) -> bool {
        true
    }

    fn rank(&self, job: &Job, path: &sched::Path) -> u64 {
        if self.calls.failure.get().is_some() {
            return 0;
        }
        // The interpreter is already attached: the caller of the simulator waits for it.
        Python::attach(|py| match self.ask(py, job, path) {
            Ok(rank) => ordered(rank),
            Err(error) => {
                let _ = self.calls.failure.set(error);
                0
            }
        })
    }
}

/// Implements [`Ranked`] by the function, with the clock from which ages are computed.
pub struct Called {
    ranked: Ranked<Function>,
    calls: Arc<Calls>,
}

impl Called {
    pub fn new(function: Function) -> Called {
        let calls = Arc::clone(&function.calls);
        Called { ranked: Ranked::new(function), calls }
    }
}

impl Policy for Called {
    fn name(&self) -> &str {
        self.ranked.name()
    }

    fn first(&self) -> Option<u32> {
        self.ranked.first()
    }

    fn enqueue(&mut self, slot: u32, job: &Job) {
        self.ranked.enqueue(slot, job);
    }

    fn dequeue(&mut self, slot: u32, job: &Job) {
        self.ranked.dequeue(slot, job);
    }

    fn within(&self, slot: u32, job: &Job) -> u64 {
        self.ranked.within(slot, job)
    }

    fn on_arrival(&mut self, _slot: u32, job: &Job) {
        self.calls.now.store(job.arrived_at.0, Ordering::Relaxed);
    }

    /// The link sends a unit each nanosecond.
    fn on_sent(&mut self, _slot: u32, _job: &Job, sent: u64) {
        self.calls.now.fetch_add(sent, Ordering::Relaxed);
    }

    fn needs_path(&self) -> bool {
        true
    }

    fn on_path(&mut self, slot: u32, path: &sched::Path) {
        self.ranked.on_path(slot, path);
    }
}
