//! `weirlab load`: sends the requests of a trace to a server, each at its own instant, and reports the results.
//!
//! A job of SIZE bytes requests `PREFIX` + `SIZE.bin`, where PREFIX is the path of the URL: the lab creates sparse
//! files with those names. Measurements are recorded before they are summarised, and a run that may not be used states
//! the reason.

mod clients;
mod jobs;
pub(crate) mod machine;
mod outcome;
mod probe;
mod url;
mod users;

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use loadgen::{ClientGroup, Patience, Plan, Progress, Protocol, Site, Tls};
use record::Run;
use signal_hook::consts::{SIGINT, SIGTERM};
use testbed::{Customer, CustomerAt, Load};
use units::{Nanos, Rate};
use workload::{Beside, ClosedClient, Job, Schedule, Scheduled, Source};

use cli::Failure;
use jobs::Demand;
use url::Url;
use users::Users;

/// The number of connections that a browser opens to a host over HTTP/1.1.
const PAGE_CONNECTIONS: u32 = 6;

/// The default wait after the last arrival for outstanding jobs.
const GRACE: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub struct Args {
    /// http://HOST[:PORT]/PREFIX/, or https://, which is --tls; a job of SIZE bytes asks for PREFIX/SIZE.bin
    url: String,
    #[command(flatten)]
    load: Load,
    /// The same as one JSON object, as `weirlab run` hands it on
    #[arg(long = "load", value_name = "JSON", hide = true, conflicts_with_all = ["Load", "rate"],
          value_parser = |text: &str| serde_json::from_str::<Load>(text))]
    given: Option<Load>,
    /// Instead of the trace's times, Poisson arrivals of this many requests per second
    #[arg(long, value_name = "RPS", allow_negative_numbers = true, conflicts_with_all = ["rho", "profile", "users", "webstone"])]
    rate: Option<f64>,
    /// Rate of the bottleneck between server and client, such as 10mbit
    #[arg(long, value_name = "RATE")]
    uplink: String,
    /// Over TLS, whatever the certificate; later connections resume the session of the first
    #[arg(long)]
    tls: bool,
    /// Over TLS, a full handshake for every connection
    #[arg(long)]
    full_handshakes: bool,
    /// HTTP/2 with up to so many requests at once on a connection; with --tls by ALPN, else the server has to expect it
    #[arg(long, value_name = "STREAMS")]
    h2: Option<u32>,
    /// HTTP/3 with up to so many requests at once on a connection, over UDP at the port of the URL, which is https://
    #[arg(long, value_name = "STREAMS", conflicts_with = "h2")]
    h3: Option<u32>,
    /// Connections of one client at once, such as a browser's 6; a request beyond waits for one [default: no limit]
    #[arg(long, value_name = "N")]
    client_connections: Option<u64>,
    /// Addresses that this share of the requests comes from, or which always have N requests of SIZE under way beside them; once for
    /// each group of clients
    #[arg(long = "client", value_name = "NAME=ADDR[,ADDR…]@SHARE|@NxSIZE[:u=URGENCY]")]
    clients: Vec<String>,
    /// Record the run in this folder, made if missing
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// Name of the run
    #[arg(long, default_value = "load")]
    name: String,
    /// What sends the bytes, for the manifest
    #[arg(long, default_value = "unknown")]
    server: String,
    /// Policy of the server, for the manifest
    #[arg(long, default_value = "unknown")]
    policy: String,
    /// Shaping of the server, for the manifest
    #[arg(long, default_value = "unknown")]
    shaping: String,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

/// The arguments after parsing.
struct Wanted {
    url: Url,
    uplink: Rate,
    patience: Option<Patience>,
    clients: Vec<ClientGroup>,
    /// The groups that request again immediately.
    closed: Vec<ClosedClient>,
    schedule: Schedule,
    /// The users who make the requests instead of the schedule's jobs.
    users: Option<Users>,
}

impl Wanted {
    /// The mean number of requests on each connection.
    fn on_connection(&self, load: &Load) -> u64 {
        self.users.as_ref().and_then(|users| users.visit_requests).unwrap_or(load.per_connection)
    }
}

impl Args {
    fn protocol(&self) -> Protocol {
        match (self.h2, self.h3) {
            (Some(streams), _) => Protocol::Http2 { streams },
            (None, Some(streams)) => Protocol::Http3 { streams },
            (None, None) => Protocol::Http1,
        }
    }

    /// The concurrent requests of a page: on several connections each carries one at a time, and a single connection
    /// carries many.
    fn page_requests(&self) -> u32 {
        match self.protocol() {
            Protocol::Http1 => {
                self.client_connections.and_then(|most| most.try_into().ok()).unwrap_or(PAGE_CONNECTIONS)
            }
            Protocol::Http2 { streams } | Protocol::Http3 { streams } => streams,
        }
    }

    fn connections_of_client(&self) -> Option<u64> {
        let of_page = match self.protocol() {
            Protocol::Http1 => u64::from(PAGE_CONNECTIONS),
            Protocol::Http2 { .. } | Protocol::Http3 { .. } => 1,
        };
        self.client_connections.or(self.load.pages.then_some(of_page))
    }

    /// Describes the protocol, unless it is HTTP/1.1 without TLS.
    fn speech(&self) -> Option<String> {
        let over = if self.tls { " over TLS" } else { "" };
        match self.protocol() {
            Protocol::Http1 => self.tls.then(|| format!("HTTP/1.1{over}")),
            Protocol::Http2 { streams } => Some(format!("HTTP/2{over}, up to {streams} streams on a connection")),
            Protocol::Http3 { streams } => Some(format!("HTTP/3, up to {streams} streams on a connection")),
        }
    }

    /// Over HTTP/2 and HTTP/3, one request per connection is the default value and means no limit.
    fn understand_load(&mut self) {
        if let Some(given) = self.given.take() {
            self.load = given;
        }
        if self.protocol() != Protocol::Http1 && self.load.per_connection == 1 {
            self.load.per_connection = workload::REQUESTS_MAX as u64;
        }
        self.tls |= self.url.starts_with(url::SECURE);
    }

    fn check_tls(&self) -> Result<(), Failure> {
        match self {
            Args { h3: Some(_), tls: false, .. } => {
                Err(Failure::Usage("--h3: HTTP/3 is spoken over TLS alone: write the URL as https://HOST:PORT/".into()))
            }
            Args { full_handshakes: true, tls: false, .. } => {
                Err(Failure::Usage("--full-handshakes: without TLS there are none: write --tls or https:// too".into()))
            }
            _ => Ok(()),
        }
    }
}

pub fn main(mut args: Args) -> Result<(), Failure> {
    args.understand_load();
    let mut wanted = understand(&args)?;
    let plan = plan(&wanted, wanted.url.resolve()?, &args);
    plan.check().map_err(|wrong| Failure::Usage(wrong.to_string()))?;
    if let Some(folder) = &args.out {
        prepare(folder)?;
    }
    probe::check(&wanted.url, &plan)?;
    if let Some(warning) = &wanted.schedule.warning {
        eprintln!("weirlab: {warning}");
    }
    let outcome = submit(&mut wanted, &plan, args.json)?;
    if wanted.users.is_some() {
        // The number of requests was unknown before the run.
        let sizes = outcome.records.iter().map(|record| record.size_bytes);
        wanted.schedule.rho_measured =
            jobs::rho_of(sizes, wanted.schedule.kept, wanted.uplink, wanted.on_connection(&args.load));
    }
    let manifest = outcome::manifest(&args, &wanted, &outcome);
    let pages = outcome::pages(&outcome);
    let (lateness, interrupted) = (outcome.lateness, outcome.interrupted);
    let run = Run { manifest, records: outcome.records, pages };
    if let Some(folder) = &args.out {
        run.write(folder)?;
    }
    outcome::print(&run, &lateness, wanted.schedule.rho_measured, args.json)?;
    match interrupted {
        true => Err(Failure::Failed("interrupted: jobs not yet due were left out".into())),
        false => outcome::check_answered(&run, &wanted.url),
    }
}

/// The jobs that `weirlab load` submits for this load; an experiment needs their sizes in advance. For users only the
/// possible sizes are known, so there is one job of each.
pub(crate) fn jobs_of(load: &Load, link: Rate) -> Result<Vec<Job>, Failure> {
    let (schedule, users) = requests(load, None, link, PAGE_CONNECTIONS)?;
    clients::patience(load)?;
    if let Some(warning) = schedule.warning {
        return Err(Failure::Failed(format!("{warning}; write repeat = true, or fewer seconds")));
    }
    let maybe = users
        .map(|users| users.sizes.into_iter().map(|size_bytes| Job { arrival: Nanos::ZERO, size_bytes, client: None }));
    Ok(maybe.map_or(schedule.jobs, Iterator::collect))
}

fn understand(args: &Args) -> Result<Wanted, Failure> {
    args.check_tls()?;
    let url = args.url.parse().map_err(Failure::Usage)?;
    let wrong = |error: units::ParseError| Failure::Usage(format!("--uplink: {error}"));
    let uplink = args.uplink.parse().map_err(wrong)?;
    let (schedule, users) = requests(&args.load, args.rate, uplink, args.page_requests())?;
    let patience = clients::patience(&args.load)?;
    let of_flag = |reason| Failure::Usage(format!("--client: {reason}"));
    let groups =
        args.clients.iter().map(|text| clients::group(text).map_err(of_flag)).collect::<Result<Vec<_>, _>>()?;
    let closed = clients::closed_clients(&groups);
    let clients: Vec<ClientGroup> = groups.into_iter().map(|(group, _)| group).collect();
    clients::check(&clients)?;
    if !clients.is_empty() && !args.load.class.is_empty() {
        return Err(Failure::Usage("--client: classes are the groups of clients of --webstone: leave it out".into()));
    }
    Ok(Wanted { url, uplink, patience, clients, closed, schedule, users })
}

/// The jobs of a load, or its users. `rate_per_s` replaces the load's own arrivals, and a page makes `at_once`
/// concurrent requests.
fn requests(
    load: &Load,
    rate_per_s: Option<f64>,
    link: Rate,
    at_once: u32,
) -> Result<(Schedule, Option<Users>), Failure> {
    let users = users::of(load, rate_per_s, link, at_once)?;
    let schedule = match &users {
        Some(users) => Schedule { jobs: vec![], rho_measured: 0.0, kept: users.until, stretch: 1.0, warning: None },
        None => jobs::schedule(load, &Demand::of(load, rate_per_s)?, link)?,
    };
    Ok((schedule, users))
}

/// Creates the folder now, so that a failure is found before the run.
fn prepare(folder: &Path) -> Result<(), Failure> {
    if Run::read(folder).is_ok() {
        return Err(Failure::Usage(format!("--out: {} already holds a run: name another folder", folder.display())));
    }
    std::fs::create_dir_all(folder).map_err(|error| Failure::Failed(format!("{}: {error}", folder.display())))
}

/// Submits the jobs and waits for them, or until a signal arrives.
fn submit(wanted: &mut Wanted, plan: &Plan, json: bool) -> Result<loadgen::Outcome, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let mut scheduled = Scheduled::new(&wanted.schedule.jobs);
    let source: &mut dyn Source = match &mut wanted.users {
        Some(users) => &mut *users.source,
        None => &mut scheduled,
    };
    let mut beside;
    let source: &mut dyn Source = if wanted.closed.is_empty() {
        source
    } else {
        beside = Beside::new(source, &wanted.closed, wanted.schedule.kept);
        &mut beside
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
        sites: args.load.class.iter().map(|customer| site(customer, &wanted.url)).collect(),
        routes: args.load.routes,
        per_connection: if args.load.pages { u64::MAX } else { args.load.per_connection },
        grace: args.load.grace.unwrap_or(GRACE).into(),
        patience: wanted.patience,
        clients: wanted.clients.clone(),
        seed: args.load.seed,
        client_connections: args.connections_of_client(),
        protocol: args.protocol(),
        tls: args.tls.then(|| Tls::new(!args.full_handshakes, args.protocol())),
    }
}

/// Returns the host and the path of a customer's files.
fn site(customer: &Customer, url: &Url) -> Site {
    match &customer.at {
        CustomerAt::Path(path) => Site { host: url.authority.clone(), prefix: url.prefix.clone() + &path[1..] },
        CustomerAt::Host(host) => Site { host: host.clone(), prefix: url.prefix.clone() },
    }
}

/// A progress bar on standard error, if that is a terminal.
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
