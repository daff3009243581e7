//! Converts a spec to the model of one link.

use sched::classes::ClassTable;
use serde_json::{Map, Value, json};
use sim::{Hooks, queue};
use units::{Nanos, Rate};
use workload::{LoadProfile, Scaling, ScheduleError};

use super::{Paths, SimOutcome, SimSpec, Wire, distribution};
use cli::Failure;

/// The number of jobs counted if neither jobs nor seconds are given.
const JOBS_USUAL: u64 = 1_000_000;

/// The default number of counted jobs per job of the warm-up.
const WARM_UP_SHARE: u64 = 10;

pub(super) fn check(spec: &SimSpec) -> Result<(), Failure> {
    queue::check(&config(spec)?).map_err(failure)
}

pub(super) fn run(spec: &SimSpec, hooks: Hooks) -> Result<SimOutcome, Failure> {
    let config = config(spec)?;
    let outcome = queue::run(&config, hooks).map_err(failure)?;
    let mut details = Map::new();
    details.insert("rho_offered".into(), outcome.rho_offered.into());
    details.insert(
        "jobs_in_system".into(),
        json!({
            "mean": outcome.jobs_in_system_mean,
            "max": outcome.jobs_in_system_max,
        }),
    );
    details.insert("incomplete".into(), outcome.incomplete.into());
    details.insert("simulated_s".into(), outcome.simulated_s.into());
    details.insert(
        "service".into(),
        match outcome.chunk_bytes {
            Some(bytes) => json!({ "chunk_bytes": bytes }),
            None => json!("fluid"),
        },
    );
    if !outcome.cuts_bytes.is_empty() {
        details.insert("cuts_bytes".into(), Value::from(outcome.cuts_bytes));
    }
    details.extend(customers(spec, &outcome.customers)?);
    let link_bps = config.link.bits_per_s();
    Ok(SimOutcome { summary: outcome.summary, details, link_bps, simulated_jobs: outcome.departed })
}

/// The service of each class of WebStone's clients, by its name, and of all together.
fn customers(spec: &SimSpec, customers: &[queue::CustomerOutcome]) -> Result<Map<String, Value>, Failure> {
    let mut details = Map::new();
    for (name, customer) in spec.webstone.names()?.iter().zip(customers) {
        details.insert(name.clone(), serde_json::to_value(customer)?);
    }
    if !details.is_empty() {
        let all: f64 = customers.iter().map(|customer| customer.per_s).sum();
        details.insert("per_s".into(), all.into());
    }
    Ok(details)
}

pub(super) fn failure(error: queue::Error) -> Failure {
    match error {
        queue::Error::Field { field, reason } => wrong(field)(reason),
        other => Failure::Failed(other.to_string()),
    }
}

/// A mistake in one field: `--rho: what is wrong`.
pub(super) fn wrong<E: std::fmt::Display>(field: &str) -> impl Fn(E) -> Failure {
    move |reason| Failure::Usage(format!("--{}: {reason}", field.replace('_', "-")))
}

fn config(spec: &SimSpec) -> Result<queue::Config, Failure> {
    let link: Rate = spec.link().parse().map_err(wrong("link"))?;
    let class_table = class_table(spec)?;
    let arrivals = arrivals(spec, link)?;
    let is_replay = matches!(arrivals, queue::Arrivals::Replay(_));
    let horizon = horizon(spec, is_replay)?;
    let warm_up_usual = match horizon {
        queue::Horizon::Jobs(jobs) if !is_replay => jobs / WARM_UP_SHARE,
        _ => 0,
    };
    Ok(queue::Config {
        policy: spec.policy.clone(),
        link,
        arrivals,
        wire: match spec.wire {
            Wire::Plain => queue::Wire::Plain,
            Wire::Tcp => queue::Wire::Tcp,
        },
        paths: match spec.paths {
            Paths::Unknown => queue::Paths::Unknown,
            Paths::Internet => queue::Paths::Internet,
        },
        class_shares: class_shares(spec, class_table.as_ref()),
        classes: Vec::new(),
        class_table,
        chunk_bytes: spec.chunk,
        job_cost: spec.webstone.job_cost()?,
        slots: spec.webstone.slots()?,
        warm_up_jobs: spec.warm_up.unwrap_or(warm_up_usual),
        horizon,
        seed: spec.seed,
    })
}

fn arrivals(spec: &SimSpec, link: Rate) -> Result<queue::Arrivals, Failure> {
    match (spec.webstone.arrivals()?, &spec.trace) {
        (Some(asked), _) => Ok(asked),
        (None, Some(_)) => replay(spec, link),
        (None, None) => poisson(spec),
    }
}

/// The classes of a file, as in the server.
fn class_table(spec: &SimSpec) -> Result<Option<ClassTable>, Failure> {
    let Some(file) = &spec.class_table else { return Ok(None) };
    if spec.policy != queue::CLASSES {
        let said = format!("{} beside --class-table, whose classes have theirs: leave it out", spec.policy);
        return Err(wrong("policy")(said));
    }
    let table = config::read_file(file)?.class_table();
    let none = || Failure::Failed(format!("{}: expected a [[class]] table, there is none", file.display()));
    table.map(Some).ok_or_else(none)
}

/// The class without a rule has no jobs unless a share is given for it.
fn class_shares(spec: &SimSpec, table: Option<&ClassTable>) -> Vec<f64> {
    let mut shares = spec.classes.clone();
    if table.is_some_and(|table| table.classes.len() == shares.len() + 1 && !shares.is_empty()) {
        shares.push(0.0);
    }
    shares
}

fn horizon(spec: &SimSpec, is_replay: bool) -> Result<queue::Horizon, Failure> {
    match (spec.jobs, spec.seconds) {
        (Some(_), Some(_)) => {
            Err(Failure::Usage("--seconds: --jobs says when to stop already: write one of the two".into()))
        }
        (Some(jobs), None) => Ok(queue::Horizon::Jobs(jobs)),
        (None, Some(seconds)) if (1e-9..=1e9).contains(&seconds) => {
            Ok(queue::Horizon::Until(Nanos((seconds * 1e9).round() as u64)))
        }
        (None, Some(seconds)) => Err(wrong("seconds")(ScheduleError::Seconds(seconds))),
        (None, None) if is_replay => Ok(queue::Horizon::AllOfReplay),
        (None, None) => Ok(queue::Horizon::Jobs(JOBS_USUAL)),
    }
}

fn poisson(spec: &SimSpec) -> Result<queue::Arrivals, Failure> {
    let load = match (&spec.profile, spec.rho) {
        (Some(_), Some(_)) => {
            return Err(Failure::Usage("--rho: --profile says the load already: write one of the two".into()));
        }
        (Some(profile), None) => profile.parse::<LoadProfile>().map_err(wrong("profile"))?,
        (None, Some(rho)) => LoadProfile::constant(rho).map_err(wrong("rho"))?,
        (None, None) => return Err(Failure::Usage("--rho: write the load of the link, such as 0.8".into())),
    };
    let Some(dist) = &spec.dist else {
        return Err(Failure::Usage(
            "--dist: write a distribution of sizes, such as exponential:mean=5000, or a --trace".into(),
        ));
    };
    Ok(queue::Arrivals::Poisson { sizes: distribution(dist)?, load })
}

fn replay(spec: &SimSpec, link: Rate) -> Result<queue::Arrivals, Failure> {
    let (Some(file), None, None) = (&spec.trace, &spec.dist, &spec.profile) else {
        return Err(Failure::Usage(
            "--trace: a trace has its own sizes and times: write no --dist and no --profile".into(),
        ));
    };
    let Some(rho) = spec.rho else {
        return Err(Failure::Usage("--rho: write the load that the trace is to be stretched to, such as 0.8".into()));
    };
    let trace = crate::trace::read_for_schedule(file, spec.seed)?;
    let jobs = match spec.wire {
        Wire::Plain => workload::schedule_plain(&trace, rho, link),
        Wire::Tcp => {
            let load = LoadProfile::constant(rho).map_err(wrong("rho"))?;
            let scaling = Scaling { load, link, seconds: None, per_connection: 1, repeat: None };
            workload::schedule(&trace, &scaling).map(|schedule| schedule.jobs)
        }
    };
    Ok(queue::Arrivals::Replay(jobs.map_err(|error| match error {
        ScheduleError::Rho(_) => wrong("rho")(error),
        _ => Failure::Failed(format!("{}: {error}", file.display())),
    })?))
}
