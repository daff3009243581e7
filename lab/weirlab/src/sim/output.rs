//! The output of a simulation: the table, the JSON, and the folder with every job.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::Failure;
use procfs::process::Process;
use record::{FileError, JobRecord, Manifest, RecordWriter, Run};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use units::Nanos;

use super::{Model, SimOutcome, SimSpec, Wire};
use crate::load::machine;

/// Writes each job as it leaves, and the manifest at the end.
pub(super) struct Records {
    folder: PathBuf,
    writer: RecordWriter,
    written: Written,
    /// The first error; the simulation itself cannot be stopped.
    error: Option<FileError>,
}

impl Records {
    pub fn create(folder: &Path) -> Result<Records, Failure> {
        if Run::is_in(folder) {
            return Err(Failure::Usage(format!(
                "--out: {} already holds a run: name another folder",
                folder.display()
            )));
        }
        // From here on, a signal is handled by the thread below.
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let writer = Run::create_records(folder)?;
        if let Some(part) = writer.part() {
            remove_if_interrupted(part.to_owned(), signals);
        }
        Ok(Records { folder: folder.into(), writer, written: Written::default(), error: None })
    }

    pub fn write(&mut self, job: &JobRecord) {
        self.written.add(job);
        if self.error.is_none() {
            self.error = self.writer.write(job).err();
        }
    }

    pub fn finish(self, spec: &SimSpec, outcome: &SimOutcome) -> Result<(), Failure> {
        self.error.map_or(Ok(()), Err).and_then(|()| self.writer.finish())?;
        Run::write_manifest(&self.folder, &manifest(spec, outcome, &self.written)?)?;
        if self.written.has_gaps() {
            let mut run = Run::read(&self.folder)?;
            run.records.iter_mut().zip(0..).for_each(|(record, job)| record.job = job);
            run.write(&self.folder)?;
        }
        Ok(())
    }
}

/// Removes the unfinished file if a signal ends the process, as any other failure does.
fn remove_if_interrupted(part: PathBuf, mut signals: Signals) {
    std::thread::spawn(move || {
        for signal in signals.forever() {
            // The signal ends the process, whether or not there is a file.
            let _ = std::fs::remove_file(&part);
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
}

/// Properties of the records as a whole.
#[derive(Debug, Default)]
struct Written {
    jobs: u64,
    arrivals: Option<(Nanos, Nanos)>,
    number_min: u64,
    number_max: u64,
}

impl Written {
    fn add(&mut self, job: &JobRecord) {
        let arrival = Nanos(job.arrival_ns);
        let (first, last) = self.arrivals.unwrap_or((arrival, arrival));
        self.arrivals = Some((first.min(arrival), last.max(arrival)));
        self.number_min = if self.jobs == 0 { job.job } else { self.number_min.min(job.job) };
        self.number_max = self.number_max.max(job.job);
        self.jobs += 1;
    }

    /// Returns true if jobs are not numbered from 0: the server model counts all of its requests, including those of
    /// the warm-up.
    fn has_gaps(&self) -> bool {
        self.jobs > 0 && (self.number_min, self.number_max + 1) != (0, self.jobs)
    }

    /// The time in which the counted jobs arrived.
    fn seconds(&self, spec: &SimSpec, outcome: &SimOutcome) -> Option<f64> {
        let (first, last) = self.arrivals?;
        let is_warmed_up = spec.warm_up.unwrap_or(0) > 0 || outcome.simulated_jobs > self.jobs;
        let begin = if is_warmed_up { first.as_secs_f64() } else { 0.0 };
        Some(spec.seconds.unwrap_or(last.as_secs_f64()) - begin).filter(|&seconds| seconds > 0.0)
    }
}

fn manifest(spec: &SimSpec, outcome: &SimOutcome, written: &Written) -> Result<Manifest, Failure> {
    let mut environment = BTreeMap::from([("spec".to_owned(), serde_json::to_string(spec)?)]);
    environment.extend(outcome.details.iter().map(|(name, value)| (name.clone(), value.to_string())));
    if serialises(spec) {
        environment.insert("wire".into(), "simulated".into());
    }
    let number = |name: &str| outcome.details.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    Ok(Manifest {
        server: format!("sim-{:?}", spec.model).to_lowercase(),
        policy: spec.policy.clone(),
        shaping: "simulated".into(),
        link_bps: outcome.link_bps,
        rho: spec.rho.unwrap_or(number("rho_offered")),
        seed: spec.seed,
        per_connection: spec.packet.per_connection.map_or(1, u64::from),
        seconds: written.seconds(spec, outcome).unwrap_or(number("simulated_s")),
        commit: machine::commit(),
        kernel: machine::kernel(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        closed: closed(spec),
        wire: wire(spec),
        clients: spec.webstone.names()?,
        environment,
        ..Manifest::new("sim")
    })
}

/// Describes the clients, if each sends requests only after responses.
fn closed(spec: &SimSpec) -> Option<String> {
    if let Some(who) = spec.webstone.who().or_else(|| spec.pages.who()) {
        return Some(who);
    }
    match (spec.users, spec.model) {
        (Some(users), _) => Some(format!("{users} users")),
        (None, Model::Server) => Some("users".into()),
        (None, _) => None,
    }
}

/// Returns true if no bit arrives before its time, so that a report may check the run for that.
fn serialises(spec: &SimSpec) -> bool {
    match spec.model {
        Model::Queue => true,
        Model::Packet => spec.packet.shaper.as_deref() == Some("wire"),
        Model::Server => false,
    }
}

/// The bytes that the model's link counts. The network of the model server has different headers, so only the sizes of
/// its jobs are certainly on it, which makes the bound lower.
fn wire(spec: &SimSpec) -> record::Wire {
    match (spec.model, spec.wire) {
        (Model::Packet, _) | (Model::Queue, Wire::Tcp) => record::Wire::Tcp,
        (Model::Server, _) | (Model::Queue, Wire::Plain) => record::Wire::Plain,
    }
}

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
    object.insert("spec".into(), serde_json::to_value(spec)?);
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
