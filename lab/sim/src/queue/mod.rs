//! A single link: the model of queueing theory, with the server's own [`sched::Scheduler`] as its queue.
//!
//! Service is fluid and preemptive unless chunks are requested, so the theory of a discipline can be checked to any
//! number of digits ([`run`]). Time and service are integer nanoseconds. Memory is needed only for the jobs in the
//! system, however many pass through.

mod customers;
mod discipline;
mod engine;
mod las;
mod line;
mod ps;
mod rank;
mod scheduled;
mod slotted;
mod source;
mod station;
#[cfg(test)]
mod tests;

pub use customers::CustomerOutcome;
pub use discipline::{CHUNK_BYTES_USUAL, CHUNKS_OF_MEAN_MIN, CLASSES};
pub use engine::{JOBS_MAX, SPAN_MAX};
pub use line::Wire;
pub use rank::SizeRank;
pub use source::{Paths, Poisson};

use sched::classes::ClassTable;
use sched::{LEVELS_MAX, Policy, SLOTS_MAX, Sharing, Slots};
use serde::Serialize;
use units::{Nanos, Rate};
use workload::{Distribution, LoadProfile, WebStone, WebStoneClients, check_webstone};

use crate::{CLASSES_MAX, Hooks, Summary, Tally};
use customers::Customers;
use discipline::{Discipline, Resolved, resolve};
use engine::{Counts, Engine, Extent};
use line::Line;
use slotted::Slotted;
use source::{Clients, Request};

/// The maximum rate. A byte must take at least a nanosecond, or different sizes would take the same time.
const LINK_BITS_PER_S_MAX: u64 = 8_000_000_000;

/// A simulation of one link.
#[derive(Debug, Clone)]
pub struct Config {
    /// `ps` for exact processor sharing, or a [`sched::policy::PolicySpec`] as text. The bands of `srpt-bands:K` are
    /// cut at the best points for the distribution, which is known here.
    pub policy: String,
    /// The rate of the link, at most 8 Gbit/s.
    pub link: Rate,
    pub arrivals: Arrivals,
    pub wire: Wire,
    pub paths: Paths,
    /// The shares of the jobs in classes 0, 1, ..., for policies with classes; they add up to 1. If empty, all jobs are
    /// in class 0.
    pub class_shares: Vec<f64>,
    /// The class of each job in order of arrival, if the load specifies it; otherwise it is drawn.
    pub classes: Vec<u16>,
    /// The classes of a `weir.toml`, in place of the policy: their order, rates and slots, as in the server.
    pub class_table: Option<ClassTable>,
    /// The bytes on the link that are handed down in one piece; `None` for fluid service. If it is `None`, a policy
    /// that takes turns uses [`CHUNK_BYTES_USUAL`], and a rank that grows as a job is served uses the mean size over [`CHUNKS_OF_MEAN_MIN`], if that is less.
    pub chunk_bytes: Option<u64>,
    /// The number of jobs at the start that are not counted.
    pub warm_up_jobs: u64,
    /// The link time of a job in addition to its bytes: a processor's time for it, if the link models a processor.
    pub job_cost: Nanos,
    /// The slots in front of the link, by class; `None` if every job competes.
    pub slots: Option<SlotSpec>,
    pub horizon: Horizon,
    pub seed: u64,
}

impl Config {
    /// Creates a config without classes or slots, on a plain wire, with unknown paths, in which all jobs
    /// count.
    pub fn new(policy: &str, link: Rate, arrivals: Arrivals, horizon: Horizon) -> Config {
        Config {
            policy: policy.into(),
            link,
            arrivals,
            wire: Wire::Plain,
            paths: Paths::Unknown,
            class_shares: Vec::new(),
            classes: Vec::new(),
            class_table: None,
            chunk_bytes: None,
            warm_up_jobs: 0,
            job_cost: Nanos::ZERO,
            slots: None,
            horizon,
            seed: 1,
        }
    }
}

/// The slots of 004 in front of the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotSpec {
    /// The slots of each class, the highest priority first.
    pub slots: Vec<u32>,
    pub sharing: Sharing,
    /// The bytes that a socket buffers. A job returns its slot when this many bytes are left; with 0, at its last byte.
    pub buffer_bytes: u64,
}

/// The jobs and their arrivals.
#[derive(Debug, Clone)]
pub enum Arrivals {
    /// Independent sizes at the instants of a Poisson process.
    Poisson { sizes: Distribution, load: LoadProfile },
    /// These jobs, once, in order of arrival.
    Replay(Vec<workload::Job>),
    /// WebStone's clients, with this many in each class.
    WebStone { of: WebStone, clients: Vec<u32> },
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Horizon {
    /// When this many jobs after the warm-up have left. Other jobs keep arriving, so the last jobs find the same load
    /// as the first. In a replay, only the first jobs up to this number arrive, and all leave.
    Jobs(u64),
    /// At this instant. Jobs in the system count with the time that they have waited.
    Until(Nanos),
    /// When every job of a replay has left.
    AllOfReplay,
}

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    pub summary: Summary,
    /// The number of jobs that left, including the warm-up.
    pub departed: u64,
    /// The number of jobs in the system at the horizon.
    pub incomplete: u64,
    /// The load actually offered: the service demand of all arrivals divided by the time in which they arrived.
    pub rho_offered: f64,
    pub jobs_in_system_mean: f64,
    pub jobs_in_system_max: usize,
    pub simulated_s: f64,
    /// The results of classes of WebStone's clients, in their order.
    pub customers: Vec<CustomerOutcome>,
    /// The bytes per grant, if service is not fluid.
    pub chunk_bytes: Option<u64>,
    /// The cut points of the policy's bands, in bytes on the link.
    pub cuts_bytes: Vec<u64>,
}

/// Checks whether [`run`] would start.
pub fn check(config: &Config) -> Result<(), Error> {
    prepare(config).map(|_| ())
}

/// Runs the simulation. The same config gives the same outcome to the byte.
pub fn run(config: &Config, hooks: Hooks) -> Result<Outcome, Error> {
    conduct(config, prepare(config)?, hooks)
}

/// Runs the simulation under a policy of the caller instead of the one that `config` names. Its unit of size is a
/// nanosecond of link time.
pub fn run_under(config: &Config, policy: Box<dyn Policy>, hooks: Hooks) -> Result<Outcome, Error> {
    conduct(config, prepare(config)?.under(policy), hooks)
}

fn conduct(config: &Config, resolved: Resolved, hooks: Hooks) -> Result<Outcome, Error> {
    let mut engine = engine(config, hooks);
    match resolved.discipline {
        Discipline::ProcessorSharing => feed(&mut engine, ps::ProcessorSharing::default(), config),
        Discipline::LeastAttained => feed(&mut engine, las::LeastAttained::default(), config),
        Discipline::Fluid(policy) => feed(&mut engine, scheduled::Fluid::new(policy), config),
        Discipline::Chunked(policy, chunk) => feed(&mut engine, scheduled::Chunked::new(policy, chunk), config),
        Discipline::Classes(classes, chunk) => {
            feed(&mut engine, scheduled::Chunked::of_classes(classes, chunk), config)
        }
    }?;
    let Engine { tally, counts, customers, .. } = engine;
    let span_ns = counts.at.0.max(1) as f64;
    let rho_offered = counts.offered as f64 / span_ns;
    Ok(Outcome {
        summary: tally.summary(),
        departed: counts.departed,
        incomplete: counts.incomplete,
        rho_offered,
        jobs_in_system_mean: counts.area as f64 / span_ns,
        jobs_in_system_max: counts.in_system_max,
        simulated_s: counts.at.as_secs_f64(),
        customers: customers.outcomes(counts.at),
        chunk_bytes: resolved.chunk_bytes,
        cuts_bytes: resolved.cuts_bytes,
    })
}

fn engine<'a>(config: &Config, hooks: Hooks<'a>) -> Engine<'a> {
    let line = Line::new(config.link);
    Engine {
        line,
        wire: config.wire,
        clients: Clients::new(config.paths, &config.class_shares, line, config.seed),
        classes: config.classes.clone(),
        extent: extent(config),
        hooks,
        tally: Tally::new(),
        customers: Customers::new(config.customers(), config.warm_up_jobs),
        job_cost: config.job_cost,
        counts: Counts::default(),
    }
}

fn feed(engine: &mut Engine, station: impl station::Station, config: &Config) -> Result<(), Error> {
    match &config.slots {
        None => arrive(engine, station, config),
        Some(SlotSpec { slots, sharing, buffer_bytes }) => {
            let buffer = if *buffer_bytes > 0 { engine.line.time_for(*buffer_bytes) } else { Nanos::ZERO };
            arrive(engine, Slotted::new(station, Slots::new(slots, *sharing), buffer), config)
        }
    }
}

fn arrive(engine: &mut Engine, station: impl station::Station, config: &Config) -> Result<(), Error> {
    match &config.arrivals {
        Arrivals::WebStone { of, clients } => {
            let until = engine.extent.until;
            engine.run_closed(station, &mut WebStoneClients::new(*of, clients, until, config.seed))
        }
        Arrivals::Poisson { sizes, load } => {
            let service_ns = config.wire.mean_bytes(sizes) * 8e9 / config.link.bits_per_s() as f64;
            engine.run(station, Poisson::new(sizes, load.clone(), service_ns, config.seed))
        }
        Arrivals::Replay(jobs) => {
            let first = if let Horizon::Jobs(jobs) = config.horizon { jobs } else { u64::MAX };
            let request = |job: &workload::Job| Request { at: job.arrival, size_bytes: job.size_bytes.max(1) };
            let requests = jobs.iter().map(request);
            engine.run(station, requests.take(usize::try_from(first).unwrap_or(usize::MAX)))
        }
    }
}

fn extent(config: &Config) -> Extent {
    let warm_up = config.warm_up_jobs;
    match (config.horizon, &config.arrivals) {
        (Horizon::Jobs(counted), Arrivals::Poisson { .. } | Arrivals::WebStone { .. }) => {
            Extent { warm_up, counted, until: Nanos::MAX }
        }
        (Horizon::Until(until), _) => Extent { warm_up, counted: u64::MAX, until },
        (Horizon::Jobs(_) | Horizon::AllOfReplay, _) => Extent { warm_up, counted: u64::MAX, until: Nanos::MAX },
    }
}

/// Creates the discipline for jobs of these sizes.
fn resolve_of(config: &Config, mut sizes: Vec<u64>, line: &Line) -> Result<Resolved, Error> {
    sizes.sort_unstable();
    let quantile = |u: f64| sizes[((u * sizes.len() as f64) as usize).min(sizes.len() - 1)];
    resolve(config, &|u| config.wire.bytes(quantile(u).max(1)) as f64, line)
}

/// Checks the whole config and creates its discipline.
fn prepare(config: &Config) -> Result<Resolved, Error> {
    if config.link.bits_per_s() > LINK_BITS_PER_S_MAX {
        let said = format_args!("{} is above 8gbit, where a byte takes less than 1 ns", config.link);
        return Err(Error::field("link", said));
    }
    if config.horizon == Horizon::Jobs(0) {
        return Err(Error::field("jobs", "0 jobs have no mean: write 1 or more"));
    }
    check_shares(&config.class_shares)?;
    config.check_table()?;
    config.check_slots()?;
    let line = Line::new(config.link);
    let on_link = |bytes: f64| config.wire.bytes(bytes.round().max(1.0) as u64) as f64;
    match &config.arrivals {
        Arrivals::Poisson { sizes, load } => {
            check_stable(config, load)?;
            let jobs = if let Horizon::Jobs(jobs) = config.horizon { jobs } else { 0 };
            let jobs = jobs.saturating_add(config.warm_up_jobs);
            check_span(sizes, config.wire.mean_bytes(sizes) * 8e9 / config.link.bits_per_s() as f64, load, jobs)?;
            resolve(config, &|u| on_link(sizes.quantile(u)), &line)
        }
        Arrivals::WebStone { of, clients } => {
            check_webstone(clients).map_err(|reason| Error::field("class", reason))?;
            if config.horizon == Horizon::AllOfReplay {
                return Err(Error::field("jobs", "clients ask without end: write a number of jobs or of seconds"));
            }
            let files = of.files();
            resolve(config, &|u| on_link(files.quantile(u) as f64), &line)
        }
        Arrivals::Replay(jobs) if jobs.is_empty() => Err(Error::field("trace", "there are no jobs in it")),
        Arrivals::Replay(jobs) => resolve_of(config, jobs.iter().map(|job| job.size_bytes).collect(), &line),
    }
}

impl Config {
    fn customers(&self) -> usize {
        if let Arrivals::WebStone { clients, .. } = &self.arrivals { clients.len() } else { 0 }
    }

    fn check_table(&self) -> Result<(), Error> {
        let Some(table) = &self.class_table else { return Ok(()) };
        let has_slots = table.classes.iter().any(|class| class.concurrent_max.is_some());
        if has_slots && self.slots.is_some() {
            return Err(Error::field("class_table", "not with slots: its classes have their own"));
        }
        let (classes, shares) = (table.classes.len(), self.class_shares.len());
        if self.customers() == 0 && classes > 1 && shares != classes {
            let said = format_args!("{shares} shares for {classes} classes: write one share for each, in their order");
            return Err(Error::field("classes", said));
        }
        Ok(())
    }

    fn check_slots(&self) -> Result<(), Error> {
        if self.job_cost > Nanos::from_secs(1) {
            return Err(Error::field(
                "job_cost",
                format_args!("{} s for each job: write up to 1s", self.job_cost.as_secs_f64()),
            ));
        }
        let Some(SlotSpec { slots, .. }) = &self.slots else { return Ok(()) };
        let sum: u64 = slots.iter().map(|&slots| u64::from(slots)).sum();
        if !(1..=LEVELS_MAX).contains(&slots.len()) || !(1..=SLOTS_MAX).contains(&sum) {
            return Err(Error::field(
                "slots",
                format_args!("{sum} slots of {} classes: write 1 to {SLOTS_MAX}", slots.len()),
            ));
        }
        Ok(())
    }
}

/// The maximum of a gap between arrivals, in mean gaps: a gap is drawn from 53 bits.
const GAP_MEANS_MAX: u64 = 40;

/// Checks that this many Poisson arrivals with a mean service time fit into the maximum span.
pub fn check_span(sizes: &Distribution, service_ns: f64, load: &LoadProfile, jobs: u64) -> Result<(), Error> {
    let gap_ns = service_ns / load.mean_rho();
    if gap_ns * jobs.saturating_add(GAP_MEANS_MAX) as f64 <= SPAN_MAX.0 as f64 {
        return Ok(());
    }
    let years = |ns: f64| ns / (365.25 * 86_400e9);
    Err(Error::field(
        "dist",
        format_args!(
            "sizes of {:.3e} bytes in the mean come every {:.3e} years at this load on this link, and {jobs} of them and some room \
             are longer than the {:.0} years that a run may last: write smaller sizes, fewer jobs or a faster link",
            sizes.mean(),
            years(gap_ns),
            years(SPAN_MAX.0 as f64).floor(),
        ),
    ))
}

fn check_shares(shares: &[f64]) -> Result<(), Error> {
    let sum: f64 = shares.iter().sum();
    if shares.len() > CLASSES_MAX {
        return Err(Error::field("classes", format_args!("{} classes are more than {CLASSES_MAX}", shares.len())));
    }
    // A NaN is in no range.
    let add_up = shares.iter().all(|share| (0.0..=1.0).contains(share)) && (sum - 1.0).abs() < 1e-6;
    if !shares.is_empty() && !add_up {
        return Err(Error::field("classes", format_args!("shares {shares:?} do not add up to 1: write 0.2,0.8, say")));
    }
    Ok(())
}

/// Refuses a load of 1 or more. The queue then grows without end, and a mean depends only on the end of the run.
fn check_stable(config: &Config, load: &LoadProfile) -> Result<(), Error> {
    match config.horizon {
        Horizon::AllOfReplay => {
            Err(Error::field("jobs", "Poisson arrivals have no end: write a number of jobs or of seconds"))
        }
        Horizon::Jobs(_) if load.mean_rho() >= 1.0 => Err(Error::field(
            "rho",
            format_args!(
                "no policy has a steady state at a load of {}: write a rho below 1, or seconds for a finite horizon",
                load.mean_rho()
            ),
        )),
        _ => Ok(()),
    }
}

/// The reason why a simulation did not start or did not end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A field of the config, by its name on command lines and in files, and what is wrong with it.
    #[error("{field}: {reason}")]
    Field { field: &'static str, reason: String },
    /// More than [`JOBS_MAX`] jobs are in the system.
    #[error(
        "more than {JOBS_MAX} jobs in the system after {:.1} simulated seconds: write a smaller rho or a shorter horizon",
        at.as_secs_f64()
    )]
    TooManyJobs { at: Nanos },
    /// A job would keep the link busy beyond [`SPAN_MAX`].
    #[error(
        "a job of {size_bytes} bytes after {:.1} simulated seconds would end later than any run may, 36 years: write \
         smaller sizes or a faster link",
        at.as_secs_f64()
    )]
    TooLong { at: Nanos, size_bytes: u64 },
}

impl Error {
    fn field(field: &'static str, reason: impl std::fmt::Display) -> Error {
        Error::Field { field, reason: reason.to_string() }
    }
}
