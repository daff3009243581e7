//! `weir serve`: from flags to a running server, and from signals to its end.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use cli::Failure;
use server::transmit::{Patience, Promotion};
use server::{
    AccessLogConfig, Classes, ClassesError, Config, DrainChoice, DrainKind, DrainOptions, Limits, Server, WORKERS_MAX,
    WaitBound, files, log,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use units::Rate;

#[derive(clap::Args)]
pub struct Args {
    /// The folder to serve.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Address and port to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", value_parser = address,
          default_value_t = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8080))]
    listen: SocketAddr,
    /// Rate of the uplink, as tc writes it (10mbit, 1gbit); without it the interface's shaper is asked.
    #[arg(long, value_name = "RATE")]
    uplink: Option<Rate>,
    #[arg(long, value_name = "SPEC", default_value = "srpt", value_parser = policy,
          help = format!("Whose bytes leave first: {}", server::POLICY_FORMS))]
    policy: String,
    /// Requests for paths that begin like this are the next class, from 0, of a --policy with classes; the longest match
    /// decides, and what matches none is the last class. Repeatable.
    #[arg(long = "class", value_name = "PREFIX")]
    classes: Vec<String>,
    /// How bytes are handed to the kernel: paced at the uplink's rate; marked for the bands that `weir uplink up` made; told to
    /// the classifier of `weir attach` for the ranked queue; off (as fast as sockets take them); or auto.
    // Its old name is taken for one release: to operators, draining is a graceful stop.
    #[arg(long, alias = "drain", value_name = "NAME", value_enum, default_value = "auto")]
    shaping: Shaping,
    /// With --shaping bands, when a response whose band has become better moves there: idle (nothing of it is queued, so
    /// that no packet overtakes another), plain (at once), or never.
    #[arg(long, value_enum, default_value = "when-empty")]
    promotion: PromotionArg,
    /// Thousandths of the uplink for the response that has waited longest for a byte, whatever the policy, once it has waited a
    /// second (0 to 1000); more shortens the longest wait, printed at the start.
    #[arg(long, value_name = "PERMILLE", default_value_t = server::GUARD_PERMILLE,
          value_parser = clap::value_parser!(u32).range(0..=1000))]
    guard: u32,
    /// Thousandths of the uplink that other programs' traffic keeps while it waits in the same queue as the responses (0 to 900).
    #[arg(long, value_name = "PERMILLE", default_value_t = server::FOREIGN_SHARE_PERMILLE,
          value_parser = clap::value_parser!(u32).range(0..=900))]
    foreign_share: u32,
    /// Event loops; without it one per core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=WORKERS_MAX as i64))]
    workers: Option<u16>,
    /// Most connections at once.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX))]
    connections: u32,
    /// Worker slots, as Apache's processes: at most so many connections are served at once, each until its client has closed
    /// it (or two seconds after its last byte was handed to the kernel), and the others wait in the kernel's accept queue.
    /// There is one such queue, so there is one event loop.
    #[arg(long, value_name = "N", conflicts_with_all = ["connections", "workers"],
          value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX))]
    slots: Option<u32>,
    /// Most connections that wait to be accepted, on each event loop's socket; the kernel lowers it to net.core.somaxconn.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u16).range(1..))]
    backlog: u16,
    /// List folders that have no index.html.
    #[arg(long)]
    listing: bool,
    /// Serve names that begin with a dot.
    #[arg(long)]
    hidden: bool,
    /// Write an access log to this file; `-` is standard output. SIGHUP and SIGUSR1 open it anew.
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// How access lines are written.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "combined")]
    log_format: LogFormat,
    /// Time between requests after which a connection is closed.
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = units::parse_duration)]
    idle_timeout: Duration,
    /// Time a request head may take to arrive; lost three times it takes 21 s.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::parse_duration)]
    head_timeout: Duration,
    /// Time between the bytes of a request body.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = units::parse_duration)]
    body_timeout: Duration,
    /// Bytes per second at which a request body has to arrive on average, --body-timeout apart; 0 for any.
    #[arg(long, value_name = "SIZE", default_value = "500", value_parser = units::parse_size)]
    body_rate_min: u64,
    /// Bytes per second a reader has to take on average over a window of being waited for.
    #[arg(long, value_name = "SIZE", default_value = "500", value_parser = units::parse_size)]
    send_rate_min: u64,
    /// The window of --send-rate-min.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::parse_duration)]
    send_window: Duration,
    /// How long a stopping server finishes what it is sending.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::parse_duration)]
    stop_timeout: Duration,
}

/// One response a connection, and `sched::Drain` takes this many (rounded down from 2^20).
const CONNECTIONS_MAX: i64 = 1_000_000;

#[derive(Clone, Copy, ValueEnum)]
enum Shaping {
    Auto,
    Paced,
    Bands,
    Ranked,
    Off,
}

#[derive(Clone, Copy, ValueEnum)]
enum PromotionArg {
    // Its old name is taken for one release.
    #[value(alias = "idle")]
    WhenEmpty,
    Plain,
    Never,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Combined,
    Json,
}

pub fn main(args: Args) -> Result<(), Failure> {
    // Before anything runs, so that no signal is missed and the workers inherit nothing of it.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1])
        .map_err(|e| Failure::Failed(format!("cannot watch for signals: {e}")))?;
    let dir = args.dir.display().to_string();
    let handle = signals.handle();
    let server = Server::start(config(args)?, move || handle.close())?;
    // Whether anybody reads this makes no difference to serving.
    let (address, why, connections) = (server.address(), server.why(), server.connections_max());
    let guard = server.wait_bound().map_or(String::new(), guard_promise);
    let _ = writeln!(
        std::io::stdout(),
        "weir: serving {dir} at http://{address}/ ({why}; at most {connections} connections{guard})"
    );
    for signal in signals.forever() {
        match signal {
            SIGHUP | SIGUSR1 => server.reopen_log(),
            _ => break,
        }
    }
    if let Some(failure) = server.failure() {
        return Err(failure.into());
    }
    // A second signal ends the process at once.
    for signal in [SIGINT, SIGTERM] {
        let _ = signal_hook::flag::register_conditional_default(signal, std::sync::Arc::new(true.into()));
    }
    Ok(server.stop()?)
}

/// What the guard promises, for the line at the start.
fn guard_promise(bound: WaitBound) -> String {
    let [fixed, each, hundred] = [bound.fixed, bound.per_response, bound.with(100)].map(|span| span.as_secs_f64());
    format!(
        "; no ready response waits longer for a byte than {fixed:.1} s + {each:.3} s for each response ready, \
         {hundred:.0} s with 100 (--guard)"
    )
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an address and a port, for example 127.0.0.1:8080 or [::]:80".to_string())
}

fn policy(text: &str) -> Result<String, ClassesError> {
    Classes::new(&[], text).map(|_| text.to_string())
}

fn shaping(args: &Args) -> Result<DrainChoice, Failure> {
    let asked = DrainOptions {
        kind: match args.shaping {
            Shaping::Auto => DrainKind::Auto,
            Shaping::Paced => DrainKind::Paced,
            Shaping::Bands => DrainKind::Bands,
            Shaping::Ranked => DrainKind::Ranked,
            Shaping::Off => DrainKind::Off,
        },
        policy: args.policy.clone(),
        guard_permille: args.guard,
        foreign_permille: args.foreign_share,
        uplink: args.uplink,
        promotion: match args.promotion {
            PromotionArg::WhenEmpty => Promotion::WhenEmpty,
            PromotionArg::Plain => Promotion::Plain,
            PromotionArg::Never => Promotion::Never,
        },
    };
    DrainChoice::find(&asked, args.listen).map_err(|error| {
        let name = args.shaping.to_possible_value().map_or(String::new(), |value| value.get_name().to_string());
        let said = format!("--shaping {name}: {error}");
        if error.is_usage() { Failure::Usage(said) } else { Failure::Failed(said) }
    })
}

fn config(args: Args) -> Result<Config, Failure> {
    let drain = shaping(&args)?;
    let classes =
        Classes::new(&args.classes, &args.policy).map_err(|error| Failure::Usage(format!("--class: {error}")))?;
    let limits = Limits {
        connections_max: args.slots.unwrap_or(args.connections) as usize,
        holds_places: args.slots.is_some(),
        head_timeout: args.head_timeout.into(),
        body_timeout: args.body_timeout.into(),
        body_rate_bytes_per_s_min: args.body_rate_min,
        idle_timeout: args.idle_timeout.into(),
        stop_timeout: args.stop_timeout,
        ..Limits::default()
    };
    let patience = Patience { rate_bytes_per_s_min: args.send_rate_min, window: args.send_window.into() };
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get().min(WORKERS_MAX));
    Ok(Config {
        classes,
        drain,
        dir: args.dir,
        files: files::Options { hidden: args.hidden, listing: args.listing },
        listen: args.listen,
        backlog: args.backlog,
        workers: if args.slots.is_some() { 1 } else { args.workers.map_or_else(cores, usize::from) },
        limits: Limits { patience, ..limits },
        access_log: args.access_log.map(|path| AccessLogConfig {
            path: (path.as_os_str() != "-").then_some(path),
            format: match args.log_format {
                LogFormat::Combined => log::Format::Combined,
                LogFormat::Json => log::Format::Json,
            },
        }),
    })
}
