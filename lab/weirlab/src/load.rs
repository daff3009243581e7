//! `weirlab load`: the requests of a trace against a server, each at its own instant, and what came of them.
//!
//! A job of SIZE bytes asks for `PREFIX` + `SIZE.bin`, where PREFIX is the path of the URL: the lab makes sparse files
//! of those names. What is measured is recorded before it is summarised, and a run that may not be used says why.

mod clients;
mod describe;
mod jobs;
pub(crate) mod machine;
mod outcome;
mod probe;
mod room;
mod url;
mod users;

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use loadgen::{ClientGroup, Patience, Plan, Progress, Room};
use record::{AttemptRecord, Run};
use signal_hook::consts::{SIGINT, SIGTERM};
use units::{Nanos, Rate};
use workload::{Job, Schedule, Scheduled, Source};

use cli::Failure;
use jobs::Demand;
use url::Url;
use users::Users;

#[derive(clap::Args)]
pub struct Args {
    /// http://HOST[:PORT]/PREFIX/; a job of SIZE bytes asks for PREFIX/SIZE.bin
    #[arg(required_unless_present = "describe")]
    url: Option<String>,
    /// Requests to replay; `synthetic`, the default, is the trace this program carries
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Instead of a trace, SURGE's requests: 000 (the default) or 002, as those papers used it, or 1998 as published
    #[arg(
        long,
        value_name = "MODEL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with = "trace"
    )]
    surge: Option<String>,
    /// Closed load of so many of SURGE's users, who wait for every answer (of 002, unless --surge says otherwise)
    #[arg(long, value_name = "N", conflicts_with_all = ["rho", "profile", "rate", "trace", "session", "repeat"])]
    users: Option<u32>,
    /// Sessions arrive instead of requests: each asks for so many in the mean and thinks so long after each answer
    #[arg(long, value_name = "N,THINK", conflicts_with_all = ["per_connection", "repeat"])]
    session: Option<String>,
    /// Print the statistics of --surge beside the published ones; needs no server
    #[arg(long, requires = "surge")]
    describe: bool,
    /// Stretch the trace in time until it loads the uplink to this
    #[arg(long, allow_negative_numbers = true)]
    rho: Option<f64>,
    /// Instead, a load that changes: W1 to W10, or phases such as 25s@0.2,25s@1.2, or a ramp, 60s@0.5-1.4
    #[arg(long, value_name = "SPEC", conflicts_with = "rho")]
    profile: Option<String>,
    /// Instead of the trace's times, Poisson arrivals of this many requests per second
    #[arg(long, value_name = "RPS", allow_negative_numbers = true, conflicts_with_all = ["rho", "profile"])]
    rate: Option<f64>,
    /// Rate of the bottleneck between server and client, such as 10mbit
    #[arg(long, value_name = "RATE", required_unless_present = "describe")]
    uplink: Option<String>,
    /// Arrivals stop after this many seconds [default: the whole trace]
    #[arg(long, allow_negative_numbers = true)]
    seconds: Option<f64>,
    /// Where the trace ends before the seconds do, ask for its requests again, in an order drawn by the seed
    #[arg(long, requires = "seconds")]
    repeat: bool,
    /// Chooses Poisson times, and times within the whole seconds of a log
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Requests on each connection, one after the other; one that finds none free opens another
    #[arg(long, value_name = "N", default_value_t = 1)]
    per_connection: u64,
    /// Users give up an attempt after this, close its connection and ask again
    #[arg(long, value_name = "DURATION")]
    abort: Option<String>,
    /// How often they ask again before they give up for good
    #[arg(long, value_name = "K", default_value_t = 0, requires = "abort")]
    retries: u32,
    /// Addresses that this share of the requests comes from; once for each group of clients
    #[arg(long = "client", value_name = "NAME=ADDR[,ADDR…]@SHARE")]
    clients: Vec<String>,
    /// How long after the last arrival to wait for what is outstanding
    #[arg(long, value_name = "DURATION", default_value = "120s")]
    grace: String,
    /// Record the run in this folder, made if missing
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// Name of the run
    #[arg(long, default_value = "load")]
    name: String,
    /// What sends the bytes, for the manifest [default: as the server names itself]
    #[arg(long)]
    server: Option<String>,
    /// Policy of the server, for the manifest
    #[arg(long, default_value = "unknown")]
    policy: String,
    /// Drain of the server, for the manifest
    #[arg(long, default_value = "unknown")]
    drain: String,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

/// Arguments that have been understood.
struct Wanted {
    url: Url,
    uplink: Rate,
    grace: Nanos,
    patience: Option<Patience>,
    clients: Vec<ClientGroup>,
    schedule: Schedule,
    /// Who asks instead of the schedule's jobs.
    users: Option<Users>,
}

impl Wanted {
    /// Requests on each connection, on average.
    fn on_connection(&self, args: &Args) -> u64 {
        self.users.as_ref().and_then(|users| users.session_requests).unwrap_or(args.per_connection)
    }
}

pub fn main(args: Args) -> Result<(), Failure> {
    if args.describe {
        return describe::main(&args);
    }
    let mut wanted = understand(&args)?;
    let target = wanted.url.resolve()?;
    let plan = plan(&wanted, target, &args);
    plan.check().map_err(|wrong| Failure::Usage(wrong.to_string()))?;
    if let Some(folder) = &args.out {
        prepare(folder)?;
    }
    let server = probe::server_name(&wanted.url, target, args.server.as_deref())?;
    let Wanted { schedule, uplink, patience, .. } = &wanted;
    let scarce = room::warning(&schedule.jobs, args.users, *uplink, *patience, &Room::of(&plan));
    for warning in schedule.warning.iter().chain(&scarce) {
        eprintln!("weirlab: {warning}");
    }
    let outcome = submit(&mut wanted, &plan, args.json)?;
    if wanted.users.is_some() {
        // Nobody knew before how often they would ask.
        let sizes = outcome.records.iter().map(|record| record.size_bytes);
        wanted.schedule.rho_measured =
            jobs::rho_of(sizes, wanted.schedule.kept, wanted.uplink, wanted.on_connection(&args));
    }
    let manifest = outcome::manifest(&args, &wanted, server, &outcome);
    let (lateness, interrupted) = (outcome.lateness, outcome.interrupted);
    let run = Run { manifest, records: outcome.records };
    if let Some(folder) = &args.out {
        if wanted.patience.is_some() {
            AttemptRecord::write_all(folder, &outcome.attempts)?;
        }
        run.write(folder)?;
    }
    outcome::print(&run, &lateness, wanted.schedule.rho_measured, args.json)?;
    match interrupted {
        true => Err(Failure::Failed("interrupted: jobs not yet due were left out".into())),
        false => outcome::check_answered(&run, &wanted.url),
    }
}

/// A command line of its own, for what reads the flags without doing anything.
#[derive(clap::Parser)]
struct Alone {
    #[command(flatten)]
    args: Args,
}

/// The jobs that `weirlab load` with these flags submits; an experiment needs their sizes before. Of users it is not known
/// what they will ask for, only what they may: one job of each size.
pub(crate) fn jobs_of(flags: &[String]) -> Result<Vec<Job>, Failure> {
    let words = ["weirlab load", "http://127.0.0.1/"].map(String::from);
    let alone = <Alone as clap::Parser>::try_parse_from(words.iter().chain(flags));
    let args =
        alone.map_err(|error| Failure::Failed(format!("weirlab load: {}", cli::one_line(&error.to_string()))))?.args;
    let wanted = understand(&args)?;
    if let Some(warning) = wanted.schedule.warning {
        return Err(Failure::Failed(format!("{warning}; write repeat = true, or fewer seconds")));
    }
    let maybe =
        wanted.users.map(|users| users.sizes.into_iter().map(|size_bytes| Job { arrival: Nanos::ZERO, size_bytes }));
    Ok(maybe.map_or(wanted.schedule.jobs, Iterator::collect))
}

fn understand(args: &Args) -> Result<Wanted, Failure> {
    let wrong = |flag: &'static str| move |error: units::ParseError| Failure::Usage(format!("{flag}: {error}"));
    let url = args.url.as_deref().unwrap_or_default().parse().map_err(Failure::Usage)?;
    let uplink = args.uplink.as_deref().unwrap_or_default().parse().map_err(wrong("--uplink"))?;
    let grace = units::parse_duration(&args.grace).map_err(wrong("--grace"))?.into();
    let users = users::of(args, uplink)?;
    let schedule = match &users {
        Some(users) => Schedule { jobs: vec![], rho_measured: 0.0, kept: users.until, stretch: 1.0, warning: None },
        None => jobs::schedule(args, &Demand::of(args)?, uplink)?,
    };
    let patience = clients::patience(args.abort.as_deref(), args.retries)?;
    let of_flag = |reason| Failure::Usage(format!("--client: {reason}"));
    let groups =
        args.clients.iter().map(|text| clients::group(text).map_err(of_flag)).collect::<Result<Vec<_>, _>>()?;
    clients::check(&groups)?;
    Ok(Wanted { url, uplink, grace, patience, clients: groups, schedule, users })
}

/// Makes the folder now: it would be a pity to find after the run that it cannot be.
fn prepare(folder: &Path) -> Result<(), Failure> {
    if Run::read(folder).is_ok() {
        return Err(Failure::Usage(format!("--out: {} already holds a run: name another folder", folder.display())));
    }
    std::fs::create_dir_all(folder).map_err(|error| Failure::Failed(format!("{}: {error}", folder.display())))
}

/// Submits the jobs and waits for them, or until a signal says to stop.
fn submit(wanted: &mut Wanted, plan: &Plan, json: bool) -> Result<loadgen::Outcome, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let mut scheduled = Scheduled::new(&wanted.schedule.jobs);
    let source: &mut dyn Source = match &mut wanted.users {
        Some(users) => &mut users.population,
        None => &mut scheduled,
    };
    let bar = if json { ProgressBar::hidden() } else { progress_bar(source.count()) };
    let outcome = loadgen::run(plan, source, |progress| {
        show(&bar, progress);
        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    Ok(outcome?)
}

fn plan(wanted: &Wanted, target: SocketAddr, args: &Args) -> Plan {
    Plan {
        target,
        host: wanted.url.authority.clone(),
        prefix: wanted.url.prefix.clone(),
        per_connection: if args.session.is_some() { u64::MAX } else { args.per_connection },
        grace: wanted.grace,
        patience: wanted.patience,
        clients: wanted.clients.clone(),
        seed: args.seed,
    }
}

/// On standard error, and only if that is a terminal.
fn progress_bar(jobs: Option<usize>) -> ProgressBar {
    let (bar, template) = match jobs {
        Some(jobs) => (ProgressBar::new(jobs as u64), "{elapsed} {wide_bar} {pos} of {len} jobs submitted, {msg}"),
        None => (ProgressBar::new_spinner(), "{elapsed} {pos} jobs submitted, {msg}"),
    };
    let style = ProgressStyle::with_template(template);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn show(bar: &ProgressBar, progress: Progress) {
    if !bar.is_hidden() {
        bar.set_position(progress.submitted as u64);
        bar.set_message(format!("{} outstanding", progress.submitted - progress.ended));
    }
}
