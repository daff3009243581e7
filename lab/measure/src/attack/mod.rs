//! `cargo xtask attack`: the floods that once delayed or ended the server, against a server that this program starts
//! itself on loopback.
//!
//! A flood that a server survives may still be the cheapest way to delay everybody else. Each is therefore measured by
//! its cost: CPU for each byte that the attacker sends, memory for each of its connections, and the longest wait of an
//! honest client during and after it. None of these figures is good or bad in itself; they are compared with nginx
//! under the same flood, and with idle connections.

mod application;
mod floods;
mod h2;
mod hello;
mod honest;
mod judge;
mod proxied;
mod quic;
mod report;
mod server;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use floods::{Attack, Tally};
use honest::Honest;
use report::Row;
use server::{Behind, SMALL, Server, Site};

use crate::bench::{machine, procfs};
use crate::conformance::run::wait_for;
use crate::programs;

const CONNECTIONS: u32 = 1000;
const CONNECTIONS_QUICK: u32 = 200;
/// The time limit for starting an attack; connections not made by then are left out.
const ATTACK: Duration = Duration::from_secs(60);
/// The time for which the honest client runs without a flood, to measure its cost.
const ALONE: Duration = Duration::from_secs(1);
/// The time for which all connections are held before they are measured.
const SETTLE: Duration = Duration::from_millis(500);
/// The maximum time for which a server may work after the last connection has closed. It exceeds the server's watchdog.
const END: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(200);
/// The CPU seconds per measurement, without the honest client's, below which the server is at rest.
const RESTING: f64 = 0.02;
/// The wait for lines that are still on their way to the log.
const LOG: Duration = Duration::from_secs(3);
/// The minimum memory budget in the configuration.
const MEMORY_BYTES_MIN: u64 = 32 << 20;
/// The maximum number of connections with nginx and Caddy. nginx holds a megabyte for each stalled connection, Caddy
/// seven.
const CONNECTIONS_NGINX_MAX: u32 = 2000;
const CONNECTIONS_CADDY_MAX: u32 = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    Weir,
    Nginx,
    /// Runs in addition to Weir, over HTTP/3.
    Caddy,
    /// Runs in addition to Weir and nginx, with an application.
    Haproxy,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Weir => "weir",
            Kind::Nginx => "nginx",
            Kind::Caddy => "caddy",
            Kind::Haproxy => "haproxy",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Against {
    Weir,
    /// nginx, and HAProxy before an application; Caddy over HTTP/3.
    Peer,
    All,
}

#[derive(clap::Args)]
pub struct Args {
    /// Attacks to run: idle, h2-stall, h2-reset, h2-ping, h1-slow-head, h1-large-head, h1-404, h1-stall, tls-hello, h3-idle, h3-stall, and on an application
    /// behind the server up-length, up-memory, up-post-4, up-post-256, up-socket-4, up-socket-256, up-get-4, up-get-256, up-leave [default: all].
    #[arg(value_name = "NAME", value_parser = named)]
    names: Vec<&'static str>,
    /// Connections of idle, h2-stall, h1-stall, tls-hello, h3-idle and h3-stall; descriptors and memory may allow fewer [default: 1000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=20_000))]
    connections: Option<u32>,
    /// 200 connections: to see that it works, not to quote.
    #[arg(long, conflicts_with = "connections")]
    quick: bool,
    /// The servers attacked, each started here.
    #[arg(long, value_enum, default_value_t = Against::All)]
    against: Against,
    /// Judge Weir by ratios and counts, with 2,000 connections: exit status 1 where it fails, 75 where the machine was too busy to tell.
    #[arg(long, conflicts_with_all = ["names", "quick", "against"])]
    judge: bool,
    /// Weir's `limits.memory`, in MiB or GiB, such as 128MiB: exit status 1 where more than that and 10 % of it was resident at any time.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<Memory>,
    /// A `weir` to attack instead of building this workspace's.
    #[arg(long, value_name = "PROGRAM")]
    weir: Option<PathBuf>,
}

/// Returns the attacks on files and on an application.
fn attacks() -> impl Iterator<Item = &'static Attack> {
    floods::ATTACKS.iter().chain(&proxied::ATTACKS)
}

fn named(text: &str) -> Result<&'static str, String> {
    let names: Vec<&str> = attacks().map(|attack| attack.name).collect();
    names.iter().find(|name| **name == text).copied().ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

/// A limit as written in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Memory {
    text: String,
    bytes: u64,
}

fn memory(text: &str) -> Result<Memory, String> {
    let number = |unit, shift: u32| {
        let count = text.strip_suffix(unit)?.parse::<u64>().ok()?;
        count.checked_mul(1 << shift)
    };
    let bytes = number("MiB", 20).or_else(|| number("GiB", 30)).filter(|&bytes| bytes >= MEMORY_BYTES_MIN);
    let bytes = bytes.ok_or("expected a size in MiB or GiB, 32MiB at least")?;
    Ok(Memory { text: text.to_owned(), bytes })
}

impl Args {
    fn connections(&self) -> u32 {
        self.connections.unwrap_or(if self.quick { CONNECTIONS_QUICK } else { CONNECTIONS })
    }

    fn attacks(&self) -> impl Iterator<Item = &'static Attack> {
        attacks().filter(|attack| self.names.is_empty() || self.names.contains(&attack.name))
    }

    /// Returns the servers that are attacked: Weir, and its peers in this attack.
    fn kinds(&self, attack: &Attack) -> Vec<Kind> {
        let peers = match attack.places {
            Some(_) => &[Kind::Nginx, Kind::Haproxy][..],
            None if attack.is_http3() => &[Kind::Caddy],
            None => &[Kind::Nginx],
        };
        let is_there = |peer: &&Kind| self.against == Against::Peer || machine::is_installed(peer.name());
        let weir = (self.against != Against::Peer).then_some(Kind::Weir);
        let peers = peers.iter().filter(|_| self.against != Against::Weir).filter(is_there);
        weir.into_iter().chain(peers.copied()).collect()
    }
}

pub fn main(root: &Path, args: &Args) -> Result<ExitCode, String> {
    let limit = machine::raise_descriptor_limit();
    let weir = match &args.weir {
        Some(program) => program.clone(),
        None if args.judge || args.against != Against::Peer => {
            programs::build(root, &["--release", "--package", "weir"], &[])?
        }
        None => PathBuf::from("weir"),
    };
    let field = Field { site: Site::make()?, weir, limit, memory: args.memory.clone() };
    if args.judge {
        return judge::run(&field, args.connections);
    }
    let mut rows = Vec::new();
    for attack in args.attacks() {
        for kind in args.kinds(attack) {
            rows.push(field.run(attack, kind, args.connections())?);
        }
    }
    println!("{}", report::table(&rows));
    let is_over = judge::tell(&judge::over_memory(&rows));
    Ok(if is_over { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The settings that all attacks of a run share.
struct Field {
    site: Site,
    weir: PathBuf,
    /// The limit of descriptors, for this process and for each server.
    limit: u64,
    memory: Option<Memory>,
}

impl Field {
    /// Runs an attack on a freshly started server, because one that has been under load keeps memory, which the attack
    /// would then seem not to need.
    fn run(&self, attack: &Attack, kind: Kind, connections: u32) -> Result<Row, String> {
        let bound = match kind {
            Kind::Weir | Kind::Haproxy => u32::MAX,
            Kind::Nginx => CONNECTIONS_NGINX_MAX,
            Kind::Caddy => CONNECTIONS_CADDY_MAX,
        };
        // The rest is for files, logs and the honest client.
        let open_max = u32::try_from(self.limit.saturating_sub(200)).unwrap_or(u32::MAX);
        let connections = connections.min(bound).min(open_max);
        eprintln!("{} of {} ({}), at most {connections} connections", attack.name, kind.name(), attack.what);
        let of_attack = attack.memory.map(memory).transpose()?;
        let budget = of_attack.or(self.memory.clone()).filter(|_| kind == Kind::Weir);
        let behind = Behind { places: attack.places, memory: budget.as_ref() };
        let mut server = Server::start(&self.site, kind, &self.weir, &behind)?;
        let honest = Honest::start(server.http1(), if attack.places.is_some() { application::NOW } else { SMALL.0 });
        sleep(SETTLE);
        let from = Meter::start(&server, 0.0);
        sleep(ALONE);
        let alone = from.cpu_seconds(&server) / ALONE.as_secs_f64();
        let row = flood(attack, kind, connections, &mut server, &honest, alone);
        let row = Row { budget_bytes: budget.map(|budget| budget.bytes), ..row };
        if !row.is_alive {
            eprintln!("{} ended: {}", kind.name(), server.last_words());
        }
        Ok(row)
    }
}

fn flood(attack: &Attack, kind: Kind, connections: u32, server: &mut Server, honest: &Honest, alone: f64) -> Row {
    let (memory_before, refused_before) = (server.resident_bytes(), honest.refused());
    let (wait_before, others) = (honest.take_longest(), others_seconds());
    let meter = Meter::start(server, alone);
    let mut tally = Tally::until(meter.begin + ATTACK);
    (attack.run)(server, connections, &mut tally);
    sleep(SETTLE);
    let (memory_held, wait_during) = (server.resident_bytes(), honest.take_longest());
    let attack_cpu = meter.cpu_seconds(server);
    let held = tally.held();
    let of_end = Meter::start(server, alone);
    tally.close();
    let end_cpu = rest(server, &of_end);
    let others_cpu = (others_seconds() - others).max(0.0) / meter.begin.elapsed().as_secs_f64();
    Row {
        attack: attack.name,
        server: kind.name(),
        connections: [held, tally.given_up],
        upload_bytes: tally.upload_bytes,
        cpu_s: [attack_cpu, end_cpu],
        memory: [memory_before, memory_held, server.resident_bytes()],
        peak_bytes: server.peak_bytes(),
        waits: [wait_before, wait_during, honest.take_longest()],
        refused: honest.refused() - refused_before,
        is_alive: server.is_alive(),
        budget_bytes: None,
        lost: tally.answered.map(|answered| lost_lines(server, honest, answered)),
        others_cpu,
    }
}

/// A meter of a server's CPU time, from which the honest client's cost per second is subtracted.
struct Meter {
    begin: Instant,
    cpu: f64,
    alone: f64,
}

impl Meter {
    fn start(server: &Server, alone: f64) -> Meter {
        Meter { cpu: server.cpu_seconds(), begin: Instant::now(), alone }
    }

    fn cpu_seconds(&self, server: &Server) -> f64 {
        (server.cpu_seconds() - self.cpu - self.alone * self.begin.elapsed().as_secs_f64()).max(0.0)
    }
}

/// Returns the CPU seconds from the meter's start until the server rests or ends.
fn rest(server: &mut Server, meter: &Meter) -> f64 {
    let mut resting = 0;
    let mut used = 0.0;
    // The server must rest several times, because connections may still be ending.
    while resting < 3 && meter.begin.elapsed() < END && server.is_alive() {
        sleep(GLANCE);
        let now = meter.cpu_seconds(server);
        resting = if now - used < RESTING { resting + 1 } else { 0 };
        used = used.max(now);
    }
    used
}

/// Returns the number of answered requests without a line in the access log.
fn lost_lines(server: &Server, honest: &Honest, answered: u64) -> u64 {
    let wanted = honest.answered() + answered;
    let _ = wait_for(LOG, || (server.log_lines() >= wanted).then_some(()));
    wanted.saturating_sub(server.log_lines())
}

/// Returns the CPU seconds of all programs except this one and its children, which include the server and processes
/// that have ended.
fn others_seconds() -> f64 {
    procfs::machine_cpu_seconds() - procfs::cpu_seconds(std::process::id()) - procfs::reaped_children_cpu_seconds()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn names_and_bounds_of_the_command_line() {
        let args = |line: &str| Cli::try_parse_from(line.split(' ')).map(|cli| cli.args);
        assert_eq!(args("attack").unwrap().attacks().count(), attacks().count());
        assert_eq!(args("attack up-leave").unwrap().attacks().count(), 1);
        assert_eq!(args("attack h2-stall idle").unwrap().attacks().count(), 2);
        assert_eq!(args("attack --quick").unwrap().connections(), CONNECTIONS_QUICK);
        let kinds = |name| {
            let args = args(&format!("attack {name} --against peer")).unwrap();
            args.attacks().flat_map(|attack| args.kinds(attack)).collect::<Vec<_>>()
        };
        assert_eq!((kinds("idle"), kinds("h3-stall")), (vec![Kind::Nginx], vec![Kind::Caddy]));
        assert_eq!(kinds("up-length"), [Kind::Nginx, Kind::Haproxy]);
        assert!(attacks().filter_map(|attack| attack.memory).all(|text| memory(text).is_ok()));
        let most = args("attack --memory 64MiB").unwrap().memory.unwrap();
        assert_eq!((&most.text[..], most.bytes), ("64MiB", 64 << 20));
        for wrong in [
            "attack --memory 64",
            "attack --memory 31MiB",
            "attack --memory 99999999999GiB",
            "attack h9",
            "attack --connections 20001",
            "attack --judge idle",
        ] {
            assert!(args(wrong).is_err(), "{wrong}");
        }
    }
}
