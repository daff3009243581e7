//! `weir serve`: starts a server according to its flags, and stops it at a signal.

mod acme;
mod addresses;
mod admin;
mod before;
pub mod control;
mod events;
mod first_line;
mod gain_of_order;
pub mod handover;
mod inherited_sockets;
mod limits;
mod privileges;
pub mod proxy;
mod reload_config;
pub mod run;
mod shaping;
pub mod state_folder;
mod status;
mod under_way;
mod unmet;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use cli::Failure;
use config::{Answers, ClientPrefix, ClientWeight, Network, UplinkRate, defaults};
use server::service_manager::{Notifier, PassedSocket, to_bind};
use server::{
    Certificate, ClassesConfig, ClientShareSpec, Config, FileOptions, Https, Keeper, Listen, LogConfig, PolicySpec,
    Reporting, Server, SiteConfig, WORKERS_MAX,
};
use signal_hook::consts::{SIGINT, SIGTERM};
use units::{Rate, Share};

use inherited_sockets::Given;
use limits::limits;
use reload_config::{OfFlags, Source, readable};
use unmet::{Unmet, unstarted};

const HTTPS: &str = "HTTPS";
const DEVELOPMENT: &str =
    "--tls-self-signed: the certificate is self-signed and new at each start; for development only";
const AS_ROOT: &str = "WARNING: running as root: a fault of weir would have the rights of root, and files of any mode are served; \
                       use --user USER (server.user)";
const ORDER: &str = "Order and rate";
const LIMITS: &str = "Limits";
const TIMEOUTS: &str = "Timeouts";

const SHORT_AFTER_HELP: &str = "\
Every option has a default; --help-all lists the others: timeouts, shaping, workers, weights of clients, the sandbox.

Examples:
  weir serve /srv/www
  weir serve /srv/www --listen [::]:443 --cert fullchain.pem --key privkey.pem
  weir serve /srv/www --domain example.org";

fn after_long_help() -> String {
    format!(
        "\
Examples:
  weir serve /srv/www
  weir serve /srv/www --uplink 2mbit..20mbit
  weir serve /srv/www --listen [::]:80 --access-log /var/log/weir.log
  weir serve /srv/www --listen [::]:443 --cert fullchain.pem --key privkey.pem
  weir serve /srv/www --domain example.org --domain www.example.org

Policies:
  {}
  (docs/policies.md: what each does)

SIGTERM and ctrl-c finish the responses in progress, then stop. SIGUSR2 writes the
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
    /// Enable listings of folders without index.html
    #[arg(long)]
    autoindex: bool,
    /// Serve names that begin with a dot; /.well-known/ is always served
    #[arg(hide_short_help = true, long)]
    serve_dotfiles: bool,
    /// Follow symlinks that leave the folder and lead into this one; repeatable
    /// [default: none is followed]
    #[arg(hide_short_help = true, long = "follow-symlinks-into", value_name = "DIR", verbatim_doc_comment)]
    links_into: Vec<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

/// The flags that all kinds of server have.
#[derive(Debug, Clone, clap::Args)]
pub struct Flags {
    /// Address and port, or :8080 for all addresses; port 0 selects a free port; repeatable
    /// [default: 127.0.0.1:8080, for this machine only; the sockets that a service manager passes]
    #[arg(long, value_name = "ADDR", value_parser = address, verbatim_doc_comment)]
    listen: Vec<SocketAddr>,
    /// Enable HTTPS with this certificate, followed by its chain, as PEM;
    /// SIGHUP reads it again
    #[arg(long, value_name = "FILE", requires = "key", help_heading = HTTPS, verbatim_doc_comment)]
    cert: Option<PathBuf>,
    /// Private key of --cert, as PEM
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = HTTPS)]
    key: Option<PathBuf>,
    /// Enable HTTPS with a self-signed certificate for localhost and this host's name,
    /// made at the start; browsers warn of it
    #[arg(long, conflicts_with = "cert", help_heading = HTTPS, verbatim_doc_comment)]
    tls_self_signed: bool,
    #[command(flatten)]
    acme: acme::AcmeFlags,
    /// Disable HTTP/3, which HTTPS otherwise has over UDP at the same addresses
    #[arg(long, help_heading = HTTPS)]
    no_http3: bool,
    /// Rate of the uplink: auto (weir finds it, or takes that of a shaper), off (no order),
    /// 10mbit (first guess and maximum) or 2mbit..20mbit (bounds)
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
    /// Sharing between clients: one far ahead of its share waits for the others;
    /// on, off, strict, or how far ahead, for example 20MB
    #[arg(long, value_name = "SHARE", default_value = "on", help_heading = ORDER, verbatim_doc_comment)]
    client_share: ClientShareSpec,
    /// Weight of a network's clients in that share, from 1 to 100, for example
    /// 192.0.2.0/24=8 for a proxy with many people behind it; repeatable [default: 1]
    #[arg(hide_short_help = true, long = "client-weight", value_name = "NETWORK=N", help_heading = ORDER, verbatim_doc_comment)]
    client_weights: Vec<ClientWeight>,
    /// Network that is not reached over the uplink: its clients are not paced; an address or a
    /// network, for example 192.168.0.0/16; repeatable [default: none]
    #[arg(hide_short_help = true, long = "local-network", value_name = "NETWORK", help_heading = ORDER, verbatim_doc_comment)]
    local_networks: Vec<Network>,
    /// Share of the uplink for the response that has waited longest, once it has waited
    /// 1 s (0% to 100%)
    #[arg(hide_short_help = true, long, value_name = "PERCENT", default_value_t = STARVATION_SHARE,
          value_parser = share::<100>, help_heading = ORDER, verbatim_doc_comment)]
    starvation_share: Share,
    /// Share of the uplink for other programs' traffic while it waits in the same queue
    /// (0% to 90%)
    #[arg(hide_short_help = true, long, value_name = "PERCENT", default_value_t = OTHER_TRAFFIC_SHARE,
          value_parser = share::<90>, help_heading = ORDER, verbatim_doc_comment)]
    other_traffic_share: Share,
    /// Number of event loops (1 to 256); paced shaping uses one [default: one per core]
    #[arg(hide_short_help = true, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=WORKERS_MAX as i64), help_heading = LIMITS)]
    workers: Option<u16>,
    /// Maximum open connections; a further one replaces the longest idle one
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX),
          help_heading = LIMITS)]
    connections: u32,
    /// Maximum connections served at a time, each until its client closes it, as by Apache's
    /// processes; others wait in the backlog. One event loop [default: no such maximum]
    #[arg(hide_short_help = true, long, value_name = "N", conflicts_with_all = ["connections", "workers"],
          value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX), help_heading = LIMITS, verbatim_doc_comment)]
    max_accepted_connections: Option<u32>,
    /// Maximum memory of the process, at least 32MiB; near it, connections whose clients do not
    /// read are closed, then idle ones [default: half of the machine's or the cgroup's]
    #[arg(hide_short_help = true, long, value_name = "SIZE", value_parser = memory, help_heading = LIMITS, verbatim_doc_comment)]
    memory: Option<u64>,
    /// Maximum bytes of temporary files for upstreams' responses; 0 disables them
    #[arg(hide_short_help = true, long, value_name = "SIZE", default_value = "1GB", value_parser = units::parse_size, help_heading = LIMITS)]
    spool: u64,
    /// Maximum head of a request or of an upstream's response, 4KiB to 128KiB
    #[arg(hide_short_help = true, long, value_name = "SIZE", default_value = "64KiB", value_parser = limits::head_bytes, help_heading = LIMITS)]
    head_bytes: usize,
    /// Maximum header lines of such a head
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(16..=limits::HEAD_FIELDS_MAX), help_heading = LIMITS)]
    head_fields: u32,
    /// Enable the admin page and the metrics at this loopback address
    #[arg(hide_short_help = true, long, value_name = "ADDR", value_parser = admin::address)]
    admin: Option<SocketAddr>,
    /// Folder of the temporary files of --spool; on a disk, not in memory
    #[arg(hide_short_help = true, long, value_name = "DIR", default_value = "/var/tmp", help_heading = LIMITS)]
    spool_folder: PathBuf,
    /// Maximum connections of one client; a further one is closed; 0 disables the limit
    /// [default: a quarter of --connections, 64 to half; 0 with --max-accepted-connections]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=CONNECTIONS_MAX),
          help_heading = LIMITS, verbatim_doc_comment)]
    client_connections: Option<u32>,
    /// Maximum requests of one client per second; a further one gets 429;
    /// 0 disables the limit
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=CLIENT_REQUESTS_MAX),
          help_heading = LIMITS, verbatim_doc_comment)]
    client_requests: u32,
    /// Maximum rate of one client, for example 50mbit; its responses wait
    /// [default: no limit]
    #[arg(long, value_name = "RATE", help_heading = LIMITS, verbatim_doc_comment)]
    client_rate: Option<Rate>,
    /// Number of leading bits of an IPv4 and of an IPv6 address that identify a client
    #[arg(hide_short_help = true, long, value_name = "V4,V6", default_value = "32,56", help_heading = LIMITS)]
    client_prefix: ClientPrefix,
    /// Proxy in front whose X-Forwarded-For or Forwarded field names the client: an address or
    /// a network, for example 10.0.0.0/8; repeatable [default: none]
    #[arg(hide_short_help = true, long = "trusted-proxy", value_name = "NETWORK", verbatim_doc_comment)]
    trusted_proxies: Vec<Network>,
    /// Maximum connections that wait to be accepted, per event loop;
    /// the kernel lowers it to net.core.somaxconn
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u16).range(1..),
          help_heading = LIMITS, verbatim_doc_comment)]
    backlog: u16,
    /// Enable measurements of responsiveness under load (networkQuality) at
    /// /.well-known/nq; any visitor can then fill the uplink
    #[arg(hide_short_help = true, long, verbatim_doc_comment)]
    responsiveness: bool,
    /// Disable compression of text
    #[arg(hide_short_help = true, long)]
    no_compression: bool,
    /// User to switch to once the address is bound, by name or number; it must be able to
    /// write and reopen the logs [default: the one that started weir]
    #[arg(long, value_name = "USER", verbatim_doc_comment)]
    user: Option<String>,
    /// Group of --user [default: the user's own]
    #[arg(hide_short_help = true, long, value_name = "GROUP", requires = "user")]
    group: Option<String>,
    /// The file that a reload reads again, and the folders of the files that it includes
    #[arg(skip)]
    configuration: Vec<PathBuf>,
    /// Disable the sandbox: weir may open and call everything that its user may
    #[arg(hide_short_help = true, long)]
    no_sandbox: bool,
    /// Access log; - is standard output, SIGHUP and SIGUSR1 reopen it [default: none]
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Format of the access log
    #[arg(hide_short_help = true, long, value_enum, value_name = "FORMAT", default_value = "combined")]
    log_format: LogFormat,
    /// Maximum time that a connection stays open without a request
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = defaults::IDLE_TIMEOUT, value_parser = config::timeout, help_heading = TIMEOUTS)]
    idle_timeout: Duration,
    /// Maximum time for the head of a request to arrive
    // One that is lost three times takes 21 s.
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = defaults::HEADER_TIMEOUT, value_parser = config::timeout, help_heading = TIMEOUTS)]
    header_timeout: Duration,
    /// Maximum time between two bytes of a request body
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = defaults::BODY_TIMEOUT, value_parser = config::timeout, help_heading = TIMEOUTS)]
    body_timeout: Duration,
    /// Minimum average rate of a request body, in bytes per second; 0 disables the check
    #[arg(hide_short_help = true, long, value_name = "SIZE", default_value = "500", value_parser = units::parse_size, help_heading = TIMEOUTS)]
    min_request_rate: u64,
    /// Minimum average rate at which a client takes a response, in bytes per second
    #[arg(hide_short_help = true, long, value_name = "SIZE", default_value = "500", value_parser = units::parse_size, help_heading = TIMEOUTS)]
    min_send_rate: u64,
    /// Time over which --min-send-rate is averaged
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "30s", value_parser = units::parse_duration, help_heading = TIMEOUTS)]
    min_send_rate_window: Duration,
    /// Maximum time to finish responses after SIGTERM
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = defaults::SHUTDOWN_TIMEOUT, value_parser = units::parse_duration, help_heading = TIMEOUTS)]
    shutdown_timeout: Duration,
    /// Print the most used options
    #[arg(short, long, action = clap::ArgAction::HelpShort)]
    help: Option<bool>,
    /// Print all options
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help_all: Option<bool>,
}

const STARVATION_SHARE: Share = Share::from_permille(server::GUARD_PERMILLE as u16).expect("a share");
const OTHER_TRAFFIC_SHARE: Share = Share::from_permille(server::CROSS_SHARE_PERMILLE as u16).expect("a share");

/// The default address, which only this machine can reach.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// The scheduler's maximum number of responses, rounded down: each connection has at least one.
const CONNECTIONS_MAX: i64 = 1_000_000;

/// The maximum requests per second, which are counted in thousandths.
const CLIENT_REQUESTS_MAX: i64 = 1_000_000;

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shaping {
    Auto,
    Paced,
    Bands,
    /// `bands` by the papers' rule, with which `weirlab run` compares.
    #[value(hide = true)]
    BandsAtOnce,
    Off,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    Combined,
    Json,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let Args { serve_dotfiles: hidden, autoindex: listing, links_into, .. } = args;
    let options = FileOptions { hidden, listing, links_into, ..FileOptions::default() };
    serve_site(SiteConfig::alone(args.dir, options), args.flags)
}

/// Serves only this site, with these flags.
fn serve_site(site: SiteConfig, mut flags: Flags) -> Result<(), Failure> {
    let domains = flags.acme.domains.clone();
    flags.user = acme::default_user(&flags).or(flags.user);
    let certificate = if domains.is_empty() { certificate(&flags) } else { Some(Certificate::Automatic) };
    let port = flags.listen.first().map_or(acme::HTTPS_PORT, |address| address.port());
    let https = Https { certificate, redirects_to: (!domains.is_empty()).then_some(port), hsts: None };
    let is_secure = https.certificate.is_some();
    if flags.no_http3 && !is_secure {
        return Err(Failure::Usage(
            "--no-http3: no effect without HTTPS; expected --domain, --cert and --key, or --tls-self-signed".into(),
        ));
    }
    addresses::refuse_overlaps(&flags)?;
    let has_http3 = is_secure && !flags.no_http3;
    let listen = |address| Listen { address, is_secure, has_http3, has_proxy_header: false };
    let listen = match domains.is_empty() {
        true => flags.listen.iter().copied().map(listen).collect(),
        false => acme::listeners(&flags),
    };
    let answers = Answers { responsiveness: flags.responsiveness, ..site.answers };
    let codings = if flags.no_compression { http::Codings::NONE } else { site.files.codings };
    let site = SiteConfig { hosts: domains, https, answers, files: FileOptions { codings, ..site.files }, ..site };
    let source = OfFlags { site: site.clone(), flags: flags.clone() };
    serve(flags, Hosted { sites: vec![site], classes: None }, Addresses { listen, is_secure, has_http3 }, &source)
}

/// The certificate that the flags name.
fn certificate(flags: &Flags) -> Option<Certificate> {
    if flags.tls_self_signed {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_ascii_lowercase();
        let names = ["localhost", "127.0.0.1", "::1", &own].map(String::from);
        return Some(Certificate::Development(names.into_iter().filter(|name| !name.is_empty()).collect()));
    }
    let (cert, key) = (flags.cert.clone()?, flags.key.clone()?);
    Some(Certificate::Files { cert, key })
}

/// The addresses to listen at.
struct Addresses {
    listen: Vec<Listen>,
    /// True if connections to the default address, and to passed sockets with other addresses, use TLS.
    is_secure: bool,
    /// True if the default address accepts HTTP/3.
    has_http3: bool,
}

/// The part of a configuration that can be reloaded while the server runs.
struct Hosted {
    sites: Vec<SiteConfig>,
    classes: Option<ClassesConfig>,
}

/// Serves these sites at these addresses, or else on the service manager's sockets or at the default address.
fn serve(flags: Flags, hosted: Hosted, listen: Addresses, source: &dyn Source) -> Result<(), Failure> {
    // Must come before anything opens a descriptor that could be mistaken for one of them.
    let Given { passed, admin, predecessor } = Given::take()?;
    // Must come before any thread starts, so that no signal is missed and the workers inherit nothing of it.
    let unmet = |unmet| source.unmet(unmet);
    addresses::refuse_shared_admin(flags.admin, &listen.listen).map_err(unmet)?;
    let mut events = events::Events::new(flags.admin, admin).map_err(unmet)?;
    let served = first_line::served(&hosted.sites);
    let (notifier, unheard) = notifier();
    let is_root = flags.user.is_none() && rustix::process::geteuid().is_root();
    let warnings = [flags.tls_self_signed.then_some(DEVELOPMENT), is_root.then_some(AS_ROOT)];
    let asked_loops = flags.workers.unwrap_or(1);
    let (keeper, unkept) = shaping::keeper(&flags);
    let dns_hook = flags.acme.dns_hook.clone();
    let config = config(flags, hosted, listen, passed, keeper).map_err(unmet)?;
    let mut config = Config { watchdog: notifier.watchdog(), ..config };
    acme::start_hook(dns_hook.as_deref(), &mut config).map_err(unmet)?;
    acme::make_folder(&config);
    let first_line = first_line::FirstLine::of(&config, served, asked_loops);
    let closer = events.closer();
    let account = config.privileges.account.clone();
    let server = Server::start(config, move || closer.close()).map_err(|error| unstarted(error, account, source))?;
    source.file().map_or(Ok(()), readable).map_err(unmet)?;
    let status = first_line.tell(&server);
    source.placed(&server.lacks()).iter().for_each(|line| server.tell(line));
    unheard
        .as_deref()
        .into_iter()
        .chain(events.remarks().iter().map(String::as_str))
        .chain(unkept.as_deref())
        .chain(warnings.into_iter().flatten())
        .for_each(|line| server.tell(line));
    predecessor.map_or(Ok(()), |predecessor| events.follow(predecessor))?;
    notifier.ready(&status);
    let successor = events.handle(&server, source, &notifier, &status);
    if let Some(successor) = &successor {
        events.leave(&server, successor);
    }
    end(server, &notifier, successor)
}

/// Stops the server after a signal, a failure, or the start of a successor.
fn end(server: Server, notifier: &Notifier, successor: Option<handover::Successor>) -> Result<(), Failure> {
    if let Some(failure) = server.failure() {
        return Err(failure.into());
    }
    server.keep_rate();
    // A second signal ends the process at once; with a successor the first does.
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

/// Returns the notifier for the service manager, and the reason if the service manager cannot be notified.
fn notifier() -> (Notifier, Option<String>) {
    match Notifier::from_env() {
        Ok(notifier) => (notifier, None),
        Err(error) => (Notifier::absent(), Some(format!("cannot notify the service manager: NOTIFY_SOCKET: {error}"))),
    }
}

pub fn address(text: &str) -> Result<SocketAddr, String> {
    config::listen_address(text).ok_or_else(|| format!("expected {}", config::listen_expected(text)))
}

/// Reads a share of at most `MAX` percent.
fn share<const MAX: u16>(text: &str) -> Result<Share, String> {
    let share = text.parse::<Share>().ok().filter(|share| share.permille() <= 10 * MAX);
    share.ok_or_else(|| format!("expected a percentage from 0% to {MAX}%, for example 0.5%"))
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
) -> Result<Config, Unmet> {
    let Addresses { listen, is_secure, has_http3 } = asked;
    if is_secure {
        passed.iter_mut().for_each(|socket| (socket.is_secure, socket.has_http3) = (true, has_http3));
    }
    let usual = Listen { address: LISTEN, is_secure, has_http3, has_proxy_header: false };
    let listen = to_bind(&listen, usual, &mut passed);
    let addresses: Vec<_> =
        passed.iter().map(|socket| socket.address).chain(listen.iter().map(|listen| listen.address)).collect();
    let Hosted { sites, classes: assigned } = hosted;
    let shaping = shaping::found(&flags, assigned.as_ref(), &addresses, keeper.as_ref())?;
    let privileges = privileges::of(&flags, &sites)?;
    let limits = limits(&flags);
    Ok(Config {
        acme: acme::config(&flags, acme::security(&passed, &listen))?,
        assigned,
        shaping,
        keeper,
        sites,
        // A folder that the command itself names must be there.
        may_lack: !flags.configuration.is_empty(),
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
    if flags.max_accepted_connections.is_some() { 1 } else { flags.workers.map_or_else(cores, usize::from) }
}

fn access_log(path: PathBuf, format: LogFormat) -> LogConfig {
    LogConfig {
        path: (path.as_os_str() != "-").then_some(path),
        format: match format {
            LogFormat::Combined => server::LogFormat::Combined,
            LogFormat::Json => server::LogFormat::Json,
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

    fn alone(flags: Flags) -> Result<Config, Unmet> {
        let sites = vec![SiteConfig::alone(".".into(), Default::default())];
        config(
            flags,
            Hosted { sites, classes: None },
            Addresses { listen: vec![], is_secure: false, has_http3: false },
            vec![],
            None,
        )
    }

    /// `--help` and the server both have the defaults; a change of only one would be wrong.
    #[test]
    fn the_defaults_of_the_flags_are_the_servers() {
        let Alone { flags } = Alone::parse_from(["serve", "--shaping", "off"]);
        let Ok(config) = alone(flags) else { panic!("the defaults are right") };
        assert_eq!(format!("{:?}", config.limits), format!("{:?}", server::Limits::default()));
    }

    #[test]
    fn with_a_maximum_of_accepted_connections_one_client_may_have_all() {
        for (words, expected) in [
            (&["--max-accepted-connections", "500"][..], 0),
            (&["--max-accepted-connections", "500", "--client-connections", "9"], 9),
            (&["--connections", "500"], 125),
            (&["--connections", "500", "--client-connections", "0"], 0),
        ] {
            let Alone { flags } = Alone::parse_from([&["serve", "--shaping", "off"], words].concat());
            let Ok(config) = alone(flags) else { panic!("{words:?} are right") };
            assert_eq!(config.limits.clients(500).connections_max, expected, "{words:?}");
        }
    }
}
