//! The output of a simulation: the table, or the JSON.

use std::io::{self, Write};
use std::time::Duration;

use cli::Failure;
use procfs::process::Process;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

use super::{SimOutcome, SimSpec};

/// Prints the table, or with `json` only one object.
pub(super) fn print(spec: &SimSpec, outcome: &SimOutcome, took: Took, json: bool) -> Result<(), Failure> {
    let text = match json {
        true => Value::Object(as_json(spec, outcome, took)?).to_string() + "\n",
        false => as_table(spec, outcome, took),
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// The time that the simulation took on this machine.
#[derive(Clone, Copy)]
pub(super) struct Took {
    pub elapsed: Duration,
    /// The CPU time of this process; less than `elapsed` if other programs used the core too.
    pub cpu: Duration,
}

impl Took {
    fn jobs_per_second(self, outcome: &SimOutcome) -> f64 {
        (outcome.simulated_jobs as f64 / self.elapsed.as_secs_f64().max(1e-9)).round()
    }
}

/// The CPU time of this process so far.
pub(super) fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn as_json(spec: &SimSpec, outcome: &SimOutcome, took: Took) -> Result<Map<String, Value>, Failure> {
    let mut object = Map::new();
    object.insert("spec".into(), spec.told()?.into());
    if let Value::Object(summary) = serde_json::to_value(&outcome.summary)? {
        object.extend(summary);
    }
    object.extend(outcome.details.clone());
    object.insert("simulated_jobs".into(), outcome.simulated_jobs.into());
    object.insert("jobs_per_second".into(), json!(took.jobs_per_second(outcome)));
    object.insert("cpu_seconds".into(), json!(took.cpu.as_secs_f64()));
    object.insert("peak_rss_bytes".into(), peak_rss_bytes().into());
    Ok(object)
}

fn as_table(spec: &SimSpec, outcome: &SimOutcome, took: Took) -> String {
    let summary = &outcome.summary;
    let time = &summary.response_time_ms;
    let mut text = format!(
        "policy         {} on {} Mbit/s, seed {}\n\
         jobs           {} counted of {} that left\n\
         response time  mean {:.4} ms, p50 {:.3}, p90 {:.3}, p99 {:.3}, p99.9 {:.3}, max {:.2}; SCV {:.2}\n\
         slowdown       mean {:.4}, variance {:.4}\n",
        spec.policy,
        outcome.link_bps as f64 / 1e6,
        spec.seed,
        summary.jobs,
        outcome.simulated_jobs,
        time.mean,
        time.p50,
        time.p90,
        time.p99,
        time.p999,
        time.max,
        time.scv,
        summary.slowdown_mean,
        summary.slowdown_variance,
    );
    for (name, value) in &outcome.details {
        text += &format!("{:<15}{}\n", name.replace('_', " "), plain(value));
    }
    let mega = peak_rss_bytes().map_or(String::new(), |bytes| format!(", {:.1} MB of memory", bytes as f64 / 1e6));
    let (speed, cpu_s) = (took.jobs_per_second(outcome), took.cpu.as_secs_f64());
    text + &format!("speed          {speed} jobs per second, {cpu_s:.2} s of CPU{mega}\n")
}

/// Formats a detail for readers, without quotes and braces.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect();
            fields.join(", ")
        }
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The maximum memory of this process so far, as reported by the kernel.
fn peak_rss_bytes() -> Option<u64> {
    let status = Process::myself().and_then(|process| process.status()).ok()?;
    status.vmhwm.map(|kib| kib * 1024)
}
