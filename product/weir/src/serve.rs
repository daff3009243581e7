//! `weir serve`: from flags to a running server, and from signals to its end.

mod admin;
mod again;
pub mod control;
mod events;
mod first_line;
mod given;
pub mod handover;
mod limits;
pub mod proxy;
pub mod run;
mod shaping;
mod state;
mod status;
mod under_way;
mod worth;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use cli::Failure;
use config::{Answers, Network, UplinkRate};
use server::logging::LogConfig;
use server::service::{Account, Keys, Notifier, PassedSocket, Privileges, unpassed};
use server::{
    Certificate, ClassesConfig, ClientPrefix, ClientShareSpec, ClientWeight, Config, Https, Keeper, Listen, PolicySpec,
    Reporting, Server, SiteConfig, StartError, WORKERS_MAX, files, logging,
};
use signal_hook::consts::{SIGINT, SIGTERM};
use units::Rate;

use again::{OfFlags, Source, readable};
use given::Given;
use limits::limits;

const HTTPS: &str = "HTTPS";
const DEVELOPMENT: &str = "--tls-dev: the certificate is self-signed and new at each start; for development only";
const AS_ROOT: &str = "WARNING: running as root: a fault of weir would have the rights of root, and files of any mode are served; \
                       use --user USER (server.user)";
const NO_KEYS: &str = "cannot start the process that reads certificates and keys as root";
const NO_KEYS_CURE: &str = "mount /proc, or start weir as the user and let that user read them";
const ORDER: &str = "Order and rate";
const LIMITS: &str = "Limits";
const TIMEOUTS: &str = "Timeouts";

const SHORT_AFTER_HELP: &str = "\
Every option has a default; --help-all lists the others: timeouts, shaping, workers, weights of clients, the sandbox.

Examples:
  weir serve /srv/www
  weir serve /srv/www --listen [::]:443 --cert fullchain.pem --key privkey.pem";

fn after_long_help() -> String {
    format!(
        "\
Examples:
  weir serve /srv/www
  weir serve /srv/www --uplink 2mbit..20mbit
  weir serve /srv/www --listen [::]:80 --access-log /var/log/weir.log
  weir serve /srv/www --listen [::]:443 --cert fullchain.pem --key privkey.pem

Policies:
  {}
  (docs/policies.md: what each does)

SIGTERM and ctrl-c finish the responses under way, then stop. SIGUSR2 writes the
clients that were sent most lately to standard error.",
        server::POLICY_FORMS
    )
}

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, after_help = SHORT_AFTER_HELP, after_long_help = after_long_help())]
pub struct Args {
    /// Folder to serve
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// List folders without index.html
    #[arg(long)]
    listing: bool,
    /// Serve names that begin with a dot; /.well-known/ is served always
    #[arg(hide_short_help = true, long)]
    hidden: bool,
    /// Follow symlinks that leave the folder and lead into this one; repeatable
    /// [default: none is followed]
    #[arg(hide_short_help = true, long = "follow-symlinks-into", value_name = "DIR", verbatim_doc_comment)]
    links_into: Vec<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

/// Those of a server, whatever it serves.
#[derive(Debug, Clone, clap::Args)]
pub struct Flags {
    /// Address and port, or :8080 for all addresses; port 0 takes a free one; repeatable
    /// [default: 127.0.0.1:8080, for this machine alone; the sockets that a service manager passes]
    #[arg(long, value_name = "ADDR", value_parser = address, verbatim_doc_comment)]
    listen: Vec<SocketAddr>,
    /// Speak HTTPS with this certificate, its chain behind it, as PEM;
    /// SIGHUP reads it again
    #[arg(long, value_name = "FILE", requires = "key", help_heading = HTTPS, verbatim_doc_comment)]
    cert: Option<PathBuf>,
    /// Private key of --cert, as PEM
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = HTTPS)]
    key: Option<PathBuf>,
    /// Speak HTTPS with a self-signed certificate for localhost and this host's name,
    /// made at the start; browsers warn of it
    #[arg(long, conflicts_with = "cert", help_heading = HTTPS, verbatim_doc_comment)]
    tls_dev: bool,
    /// Speak no HTTP/3: with HTTPS it is spoken over UDP at the same addresses
    #[arg(long, help_heading = HTTPS)]
    no_http3: bool,
    /// Rate of the uplink: auto (weir finds it, or takes that of a shaper), off (no order),
    /// 10mbit (first guess, and the most) or 2mbit..20mbit (bounds)
    #[arg(long, value_name = "RATE", default_value = "auto", help_heading = ORDER, verbatim_doc_comment)]
    uplink: UplinkRate,
    /// Order of responses; srpt sends the one with the fewest bytes left first,
    /// fair gives each a turn
    #[arg(long, value_name = "SPEC", default_value = "srpt",
          help_heading = ORDER, verbatim_doc_comment)]
    policy: PolicySpec,
    /// Shaping: paced (weir sends at the uplink's rate), bands (kernel, `weir uplink up`),
    /// off, or auto (paced)
    #[arg(hide_short_help = true, long, value_name = "NAME", value_enum, default_value = "auto",
          help_heading = ORDER, verbatim_doc_comment, hide_possible_values = true)]
    shaping: Shaping,
    /// Whether clients share the uplink: one that has had much more than its share stands
    /// behind the others; on, off, strict, or how much more, for example 20MB
    #[arg(long, value_name = "SHARE", default_value = "on", help_heading = ORDER, verbatim_doc_comment)]
    client_share: ClientShareSpec,
    /// Weight of a network's clients in that share, from 1 to 100, for example
    /// 192.0.2.0/24=8 for a proxy with many people behind it; repeatable [default: 1]
    #[arg(hide_short_help = true, long = "client-weight", value_name = "NETWORK=N", help_heading = ORDER, verbatim_doc_comment)]
    client_weights: Vec<ClientWeight>,
    /// Share of the uplink for the response that has waited longest, once that is 1 s,
    /// in thousandths (0 to 1000)
    #[arg(hide_short_help = true, long, value_name = "PERMILLE", default_value_t = server::GUARD_PERMILLE,
          value_parser = clap::value_parser!(u32).range(0..=1000), help_heading = ORDER, verbatim_doc_comment)]
    guard: u32,
    /// Share of the uplink for other programs' traffic while it waits in the same queue,
    /// in thousandths (0 to 900)
    #[arg(hide_short_help = true, long, value_name = "PERMILLE", default_value_t = server::CROSS_SHARE_PERMILLE,
          value_parser = clap::value_parser!(u32).range(0..=900), help_heading = ORDER, verbatim_doc_comment)]
    cross_share: u32,
    /// Event loops (1 to 256); with paced shaping there is one [default: one per core]
    #[arg(hide_short_help = true, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=WORKERS_MAX as i64), help_heading = LIMITS)]
    workers: Option<u16>,
    /// Most connections at once; beyond, the longest idle one is closed
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX),
          help_heading = LIMITS)]
    connections: u32,
    /// Serve N connections at a time, as Apache's processes do, each until its client
    /// closes it; others wait to be accepted. One event loop [default: no slots]
    #[arg(hide_short_help = true, long, value_name = "N", conflicts_with_all = ["connections", "workers"],
          value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX), help_heading = LIMITS, verbatim_doc_comment)]
    slots: Option<u32>,
    /// Memory of the process, 32MiB at least; near it, clients that do not read are ended,
    /// then idle connections [default: half of the machine's or the cgroup's]
    #[arg(hide_short_help = true, long, value_name = "SIZE", value_parser = memory, help_heading = LIMITS, verbatim_doc_comment)]
    memory: Option<u64>,
    /// Most bytes of upstreams' responses kept on disk at once; 0 for none
    #[arg(hide_short_help = true, long, value_name = "SIZE", default_value = "1GB", value_parser = units::parse_size, help_heading = LIMITS)]
    spool: u64,
    /// Greatest head of a request or of an upstream's response, 4KiB to 128KiB
    #[arg(hide_short_help = true, long, value_name = "SIZE", default_value = "64KiB", value_parser = limits::head_bytes, help_heading = LIMITS)]
    head_bytes: usize,
    /// Most field lines of such a head
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(16..=limits::HEAD_FIELDS_MAX), help_heading = LIMITS)]
    head_fields: u32,
    /// Show a page with what the server does, and its metrics, at this address of this machine
    #[arg(hide_short_help = true, long, value_name = "ADDR", value_parser = admin::address)]
    admin: Option<SocketAddr>,
    /// Folder of their unnamed files; on a disk, not in memory
    #[arg(hide_short_help = true, long, value_name = "DIR", default_value = "/var/tmp", help_heading = LIMITS)]
    spool_folder: PathBuf,
    /// Most connections of one client; beyond, a new one is closed; 0 for any
    /// [default: a quarter of --connections, from 64 to half; with --slots any]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=CONNECTIONS_MAX),
          help_heading = LIMITS, verbatim_doc_comment)]
    client_connections: Option<u32>,
    /// Most requests of one client per second; beyond, the answer is 429;
    /// 0 for any
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=CLIENT_REQUESTS_MAX),
          help_heading = LIMITS, verbatim_doc_comment)]
    client_requests: u32,
    /// Most that one client is sent, for example 50mbit; its responses wait
    /// [default: no limit]
    #[arg(long, value_name = "RATE", help_heading = LIMITS, verbatim_doc_comment)]
    client_rate: Option<Rate>,
    /// Leading bits of an IPv4 and of an IPv6 address that are of one client
    #[arg(hide_short_help = true, long, value_name = "V4,V6", default_value = "32,56", help_heading = LIMITS)]
    client_prefix: ClientPrefix,
    /// Proxy in front, whose X-Forwarded-For or Forwarded tells the client, by address or
    /// network, for example 10.0.0.0/8; repeatable [default: none]
    #[arg(hide_short_help = true, long = "trusted-proxy", value_name = "NETWORK", verbatim_doc_comment)]
    trusted_proxies: Vec<Network>,
    /// Most connections that wait to be accepted, per event loop;
    /// the kernel lowers it to net.core.somaxconn
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u16).range(1..),
          help_heading = LIMITS, verbatim_doc_comment)]
    backlog: u16,
    /// Let visitors measure responsiveness under load (networkQuality) at
    /// /.well-known/nq; anybody can then fill the uplink
    #[arg(hide_short_help = true, long, verbatim_doc_comment)]
    responsiveness: bool,
    /// User to become once the address is bound, by name or number; it must be able to
    /// write and reopen the logs [default: the one that started weir]
    #[arg(long, value_name = "USER", verbatim_doc_comment)]
    user: Option<String>,
    /// Group of --user [default: the user's own]
    #[arg(hide_short_help = true, long, value_name = "GROUP", requires = "user")]
    group: Option<String>,
    /// What is read again at a reload
    #[arg(skip)]
    configuration: Option<PathBuf>,
    /// Let weir open and call all that its user may, also what it does not need
    #[arg(hide_short_help = true, long)]
    no_sandbox: bool,
    /// Access log; - is standard output, SIGHUP and SIGUSR1 reopen it [default: none]
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Format of the access log
    #[arg(hide_short_help = true, long, value_enum, value_name = "FORMAT", default_value = "combined")]
    log_format: LogFormat,
    /// Longest time without a request before a connection is closed
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "75s", value_parser = units::parse_duration, help_heading = TIMEOUTS)]
    idle_timeout: Duration,
    /// Longest time for a request head to arrive
    // Lost three times it takes 21 s.
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "60s", value_parser = units::parse_duration, help_heading = TIMEOUTS)]
    head_timeout: Duration,
    /// Longest time between two bytes of a request body
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "20s", value_parser = units::parse_duration, help_heading = TIMEOUTS)]
    body_timeout: Duration,
    /// Least average rate of a request body, in bytes per second; 0 for any
    #[arg(hide_short_help = true, long, value_name = "SIZE", default_value = "500", value_parser = units::parse_size, help_heading = TIMEOUTS)]
    body_rate_min: u64,
    /// Least average rate of a client's download, in bytes per second
    #[arg(hide_short_help = true, long, value_name = "SIZE", default_value = "500", value_parser = units::parse_size, help_heading = TIMEOUTS)]
    send_rate_min: u64,
    /// Time over which --send-rate-min is averaged
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "30s", value_parser = units::parse_duration, help_heading = TIMEOUTS)]
    send_window: Duration,
    /// Longest time to finish responses after SIGTERM
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "30s", value_parser = units::parse_duration, help_heading = TIMEOUTS)]
    stop_timeout: Duration,
    /// Print the most used options
    #[arg(short, long, action = clap::ArgAction::HelpShort)]
    help: Option<bool>,
    /// Print all options
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help_all: Option<bool>,
}

/// Where nobody says otherwise: for this machine alone.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// One response a connection, and `sched::Scheduler` takes this many (rounded down from 2^20).
const CONNECTIONS_MAX: i64 = 1_000_000;

/// A second's worth of them is counted in thousandths.
const CLIENT_REQUESTS_MAX: i64 = 1_000_000;

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shaping {
    Auto,
    Paced,
    Bands,
    Off,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    Combined,
    Json,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let Args { hidden, listing, links_into, .. } = args;
    let options = files::Options { hidden, listing, links_into, ..files::Options::default() };
    serve_site(SiteConfig::alone(args.dir, options), args.flags)
}

/// Serves this site alone, as the flags say.
fn serve_site(site: SiteConfig, flags: Flags) -> Result<(), Failure> {
    let https = Https { certificate: certificate(&flags), ..Https::default() };
    let is_secure = https.certificate.is_some();
    if flags.no_http3 && !is_secure {
        return Err(Failure::Usage(
            "--no-http3: no effect without HTTPS; expected --cert and --key, or --tls-dev".into(),
        ));
    }
    let has_http3 = is_secure && !flags.no_http3;
    let listen = |address| Listen { address, is_secure, has_http3, has_proxy_header: false };
    let listen = flags.listen.iter().copied().map(listen).collect();
    let answers = Answers { responsiveness: flags.responsiveness, ..site.answers };
    let site = SiteConfig { https, answers, ..site };
    let source = OfFlags { site: site.clone(), flags: flags.clone() };
    let hosted = Hosted { sites: vec![site], classes: None };
    serve(flags, hosted, Addresses { listen, is_secure, has_http3 }, &source)
}

/// What the flags say of TLS.
fn certificate(flags: &Flags) -> Option<Certificate> {
    if flags.tls_dev {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_ascii_lowercase();
        let names = ["localhost", "127.0.0.1", "::1", &own].map(String::from);
        return Some(Certificate::Development(names.into_iter().filter(|name| !name.is_empty()).collect()));
    }
    let (cert, key) = (flags.cert.clone()?, flags.key.clone()?);
    Some(Certificate::Files { cert, key })
}

/// Addresses that are asked for.
struct Addresses {
    listen: Vec<Listen>,
    /// Clients of the default address, and of a passed socket of another address, speak TLS.
    is_secure: bool,
    /// Clients of the default address may speak HTTP/3.
    has_http3: bool,
}

/// The part of a configuration that can be read again while the server runs.
struct Hosted {
    sites: Vec<SiteConfig>,
    classes: Option<ClassesConfig>,
}

/// Serves these sites, whatever the flags say of the folder, at these addresses; without any where a service manager says, or at
/// the default.
fn serve(flags: Flags, hosted: Hosted, listen: Addresses, source: &dyn Source) -> Result<(), Failure> {
    // Before anything opens a descriptor that could be taken for one of them.
    let Given { passed, admin, predecessor } = Given::take()?;
    // Before anything runs, so that no signal is missed and the workers inherit nothing of it.
    let mut events = events::Events::new(flags.admin, admin)?;
    let served = first_line::served(&hosted.sites);
    let (notifier, unheard) = notifier();
    let is_root = flags.user.is_none() && rustix::process::geteuid().is_root();
    let warnings = [flags.tls_dev.then_some(DEVELOPMENT), is_root.then_some(AS_ROOT)];
    let asked_loops = flags.workers.unwrap_or(1);
    let (keeper, unkept) = shaping::keeper(&flags);
    let config = Config { watchdog: notifier.watchdog(), ..config(flags, hosted, listen, passed, keeper)? };
    let first_line = first_line::Line::of(&config, served, asked_loops);
    let closer = events.closer();
    let account = config.privileges.account.clone();
    let server = Server::start(config, move || closer.close()).map_err(|error| unstarted(error, account))?;
    source.file().map_or(Ok(()), readable)?;
    let status = first_line.tell(&server);
    let remarks = events.remarks().iter().map(String::as_str);
    unheard
        .as_deref()
        .into_iter()
        .chain(remarks)
        .chain(unkept.as_deref())
        .chain(warnings.into_iter().flatten())
        .for_each(|line| server.tell(line));
    predecessor.map_or(Ok(()), |predecessor| events.follow(predecessor))?;
    notifier.ready(&status);
    let successor = events.handle(&server, source, &notifier, &status);
    if successor.is_some() {
        events.leave();
    }
    end(server, &notifier, successor)
}

/// Asked to, failed, or followed by another process, which is told of the end by the end of this one.
fn end(server: Server, notifier: &Notifier, successor: Option<handover::Successor>) -> Result<(), Failure> {
    if let Some(failure) = server.failure() {
        return Err(failure.into());
    }
    server.keep_rate();
    // A second signal ends the process at once, and the first where another serves.
    for signal in [SIGINT, SIGTERM] {
        let _ = signal_hook::flag::register_conditional_default(signal, std::sync::Arc::new(true.into()));
    }
    let Some(successor) = successor else {
        notifier.stopping(server.stop_timeout());
        return Ok(server.stop()?);
    };
    notifier.is_followed_by(successor.pid);
    server.tell(&format!("process {} serves from now on; this one finishes what it has begun", successor.pid));
    Ok(server.stop_handed_over()?)
}

/// The service manager, or why it hears nothing.
fn notifier() -> (Notifier, Option<String>) {
    match Notifier::from_env() {
        Ok(notifier) => (notifier, None),
        Err(error) => (Notifier::absent(), Some(format!("cannot notify the service manager: NOTIFY_SOCKET: {error}"))),
    }
}

/// What is opened as another user than the one at the keyboard fails for other reasons.
fn unstarted(error: StartError, account: Option<Account>) -> Failure {
    match (&error, account) {
        (StartError::Listen(..) | StartError::Privileges(_), _) | (_, None) => error.into(),
        (_, Some(account)) => Failure::Failed(format!("as user {account}: {error}")),
    }
}

pub fn address(text: &str) -> Result<SocketAddr, String> {
    config::listen_address(text).ok_or_else(|| format!("expected {}", config::listen_expected(text)))
}

fn memory(text: &str) -> Result<u64, String> {
    let bytes = units::parse_size(text).ok().filter(|bytes| *bytes >= server::MEMORY_BYTES_MIN);
    bytes.ok_or_else(|| "expected a size of 32MiB at least, for example 512MiB".to_string())
}

fn config(
    flags: Flags,
    hosted: Hosted,
    asked: Addresses,
    mut passed: Vec<PassedSocket>,
    keeper: Option<Keeper>,
) -> Result<Config, Failure> {
    let Addresses { listen, is_secure, has_http3 } = asked;
    if is_secure {
        passed.iter_mut().for_each(|socket| (socket.is_secure, socket.has_http3) = (true, has_http3));
    }
    let is_unsaid = listen.is_empty() && passed.is_empty();
    let default = Listen { address: LISTEN, is_secure, has_http3, has_proxy_header: false };
    let listen = if is_unsaid { vec![default] } else { unpassed(&listen, &mut passed) };
    let addresses: Vec<_> =
        passed.iter().map(|socket| socket.address).chain(listen.iter().map(|listen| listen.address)).collect();
    let Hosted { sites, classes: assigned } = hosted;
    let shaping = shaping::found(&flags, assigned.as_ref(), &addresses, keeper.as_ref())?;
    let privileges = privileges(&flags, &sites)?;
    let limits = limits(&flags);
    Ok(Config {
        assigned,
        shaping,
        keeper,
        sites,
        passed,
        listen,
        privileges,
        watchdog: None,
        backlog: flags.backlog,
        workers: workers(&flags),
        limits,
        reporting: Reporting {
            access_log: flags.access_log.map(|path| access_log(path, flags.log_format)),
            has_metrics: flags.admin.is_some(),
        },
    })
}

fn workers(flags: &Flags) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get().min(WORKERS_MAX));
    if flags.slots.is_some() { 1 } else { flags.workers.map_or_else(cores, usize::from) }
}

/// What is given up, and what is kept for as long as the server runs.
fn privileges(flags: &Flags, sites: &[SiteConfig]) -> Result<Privileges, Failure> {
    let account = flags.user.as_deref().map(|user| Account::find(user, flags.group.as_deref())).transpose()?;
    let is_root = rustix::process::geteuid().is_root();
    let keys = if account.is_some() && is_root { Keys::kept(certificate_files(sites)) } else { Ok(Keys::default()) };
    let keys = keys.map_err(|error| Failure::Failed(format!("{NO_KEYS}: {error}; {NO_KEYS_CURE}")))?;
    let configuration = flags.configuration.clone();
    Ok(Privileges { account, keys, is_sandboxed: !flags.no_sandbox, configuration })
}

/// Certificates and keys, authorities among them, each once.
fn certificate_files(sites: &[SiteConfig]) -> Vec<PathBuf> {
    let certificates = sites.iter().filter_map(|site| site.https.certificate.as_ref());
    let files = certificates.flat_map(|certificate| match certificate {
        Certificate::Files { cert, key } => vec![cert.clone(), key.clone()],
        Certificate::Development(_) => Vec::new(),
    });
    let authorities = sites.iter().flat_map(|site| &site.answers.proxies).filter_map(|proxy| proxy.tls_ca.clone());
    files.chain(authorities).collect::<BTreeSet<_>>().into_iter().collect()
}

fn access_log(path: PathBuf, format: LogFormat) -> LogConfig {
    LogConfig {
        path: (path.as_os_str() != "-").then_some(path),
        format: match format {
            LogFormat::Combined => logging::Format::Combined,
            LogFormat::Json => logging::Format::Json,
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(disable_help_flag = true)]
    struct Alone {
        #[command(flatten)]
        flags: Flags,
    }

    fn alone(flags: Flags) -> Result<Config, Failure> {
        let sites = vec![SiteConfig::alone(".".into(), Default::default())];
        config(
            flags,
            Hosted { sites, classes: None },
            Addresses { listen: vec![], is_secure: false, has_http3: false },
            vec![],
            None,
        )
    }

    /// They stand in `--help` and in the server: one of them changed alone would change nothing, or something unsaid.
    #[test]
    fn the_defaults_of_the_flags_are_the_servers() {
        let Alone { flags } = Alone::parse_from(["serve", "--shaping", "off"]);
        let Ok(config) = alone(flags) else { panic!("the defaults are right") };
        assert_eq!(format!("{:?}", config.limits), format!("{:?}", server::Limits::default()));
    }

    #[test]
    fn slots_are_given_to_whoever_asks() {
        for (words, expected) in [
            (&["--slots", "500"][..], 0),
            (&["--slots", "500", "--client-connections", "9"], 9),
            (&["--connections", "500"], 125),
            (&["--connections", "500", "--client-connections", "0"], 0),
        ] {
            let Alone { flags } = Alone::parse_from([&["serve", "--shaping", "off"], words].concat());
            let Ok(config) = alone(flags) else { panic!("{words:?} are right") };
            assert_eq!(config.limits.clients(500).connections_max, expected, "{words:?}");
        }
    }
}
