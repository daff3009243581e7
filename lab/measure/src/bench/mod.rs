//! `cargo xtask bench`: compares Weir with other servers on loopback, so that "no slower than nginx" is a number.
//!
//! Two programs measured one after the other are measured on two different machines, because caches, clocks and
//! neighbours change. The servers therefore take turns, round by round, on the same files and the same core, with the
//! load generator on another, and the result is the median of the ratios within a round. Requests per second show only
//! half of the result, because one core of load generator is often the bottleneck. CPU per request, from /proc, is the
//! other half.

mod h2load;
pub mod machine;
mod outcome;
mod plan;
pub mod procfs;
mod proxied;
mod server;
pub mod table;
mod weirlab;
mod wrk;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use outcome::{Contest, Report, Round, Side};
use plan::{Over, Row};
use server::{Bench, Instance, Kind, Programs};

use crate::programs;

#[derive(clap::Args)]
pub struct Args {
    /// Workers of every server, each pinned to a core of its own; wrk gets the remaining cores.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Rounds; in each, every server of a row is measured once.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of one measurement.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Two rounds of two seconds: to see that it works, not to quote.
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    quick: bool,
    /// Only rows whose name contains this, for example `1 KB keep-alive`.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Under TLS: keep-alive, and a handshake for each request; beside H2O and Caddy where they are installed.
    #[arg(long)]
    tls: bool,
    /// HTTP/2 under TLS, by h2load.
    #[arg(long)]
    h2: bool,
    /// HTTP/3 at fixed rates, by `weirlab load`, beside Caddy.
    #[arg(long)]
    h3: bool,
    /// Passing requests on, beside HAProxy and Caddy where they are installed; a server's CPU is that of its processes alone.
    #[arg(long, conflicts_with_all = ["tls", "h2", "h3"])]
    proxy: bool,
    /// A `weir` to measure instead of building this workspace's.
    #[arg(long, value_name = "PROGRAM")]
    weir: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Also write summary.md and bench.json into this folder, for example results/2026-11-21-host-bench.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Args {
    fn rounds(&self) -> u32 {
        if self.quick { 2 } else { self.rounds }
    }

    fn seconds(&self) -> u32 {
        if self.quick { 2 } else { self.seconds }
    }

    fn is_secure(&self) -> bool {
        self.tls || self.h2 || self.h3
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|text| name.contains(text.as_str()))
    }
}

pub fn main(root: &Path, args: &Args) -> Result<(), String> {
    let cores = machine::cores(args.workers);
    machine::raise_descriptor_limit();
    let peers = if args.proxy {
        installed(&proxied::PEERS)
    } else if args.is_secure() {
        installed(&[Kind::H2o, Kind::Caddy])
    } else {
        peers()
    };
    let contests = contests(args, &peers);
    let mut kinds: Vec<Kind> = contests.iter().flat_map(|(_, kinds)| kinds).copied().collect();
    kinds.sort_unstable();
    kinds.dedup();
    let generators = generators(&contests);
    let bench = Bench::new(args.workers, cores, programs(root, args, &kinds, &generators)?, args.is_secure())?;
    let bench = if args.proxy { bench.behind()? } else { bench };
    let commands = machine::commands(&kinds, &bench);
    let contests = run_contests(args, &bench, &contests)?;
    let manifest = machine::manifest(root, args.rounds(), args.seconds(), &bench, commands, &generators);
    show(args, &Report { manifest, contests })
}

fn show(args: &Args, report: &Report) -> Result<(), String> {
    let summary = table::summary(report);
    let json = serde_json::to_string_pretty(report).map_err(|e| e.to_string())?;
    println!("{}", if args.json { &json } else { &summary });
    match &args.out {
        Some(folder) => keep(folder, &summary, &json).map_err(|e| format!("{}: {e}", folder.display())),
        None => Ok(()),
    }
}

/// Returns the requested rows, each with its servers.
fn contests(args: &Args, peers: &[Kind]) -> Vec<(Row, Vec<Kind>)> {
    if args.proxy {
        let rows = plan::passed_on_rows().into_iter().filter(|row| args.wants(&row.name()));
        return rows.map(|row| (row, plan::beside(peers))).collect();
    }
    if !args.is_secure() {
        return plan::contests(peers, |name| args.wants(name));
    }
    let mut rows = plan::secure_rows(args.tls, args.h2);
    rows.extend(if args.h3 { plan::http3_rows() } else { Vec::new() });
    rows.retain(|row| args.wants(&row.name()));
    let kinds = |row: &Row| match row.is_over_http3() {
        true => plan::with_http3(peers),
        false => plan::beside(peers),
    };
    rows.into_iter().map(|row| (row.clone(), kinds(&row))).collect()
}

/// Builds the programs in release mode, except this one, which is built to compile fast and does not affect the
/// results.
fn programs(root: &Path, args: &Args, kinds: &[Kind], generators: &[&str]) -> Result<Programs, String> {
    Ok(Programs {
        weir: program(root, &args.weir, "weir", kinds.iter().any(|kind| kind.is_weir()))?,
        weirlab: program(root, &None, "weirlab", generators.contains(&"weirlab"))?,
    })
}

/// Returns the programs that generate the load of these rows.
fn generators(contests: &[(Row, Vec<Kind>)]) -> Vec<&'static str> {
    let mut names: Vec<&str> = contests.iter().map(|(row, _)| row.generator()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn keep(folder: &Path, summary: &str, json: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("summary.md"), summary)?;
    fs::write(folder.join("bench.json"), format!("{json}\n"))
}

/// Returns the servers that some rows include in addition to the pair: Weir with other settings, and other servers if
/// this machine has them.
fn peers() -> Vec<Kind> {
    let installed = installed(&[Kind::H2o, Kind::Lighttpd]);
    [Kind::WeirFair].into_iter().chain(installed).collect()
}

fn installed(kinds: &[Kind]) -> Vec<Kind> {
    kinds.iter().copied().filter(|kind| machine::is_installed(kind.name())).collect()
}

/// Returns the given program, or else the workspace's, built in release mode if a row needs it.
fn program(root: &Path, given: &Option<PathBuf>, package: &str, is_needed: bool) -> Result<PathBuf, String> {
    match given {
        Some(program) => Ok(program.clone()),
        None if is_needed => programs::build(root, &["--release", "--package", package], &[]),
        None => Ok(PathBuf::from(package)),
    }
}

fn run_contests(args: &Args, bench: &Bench, contests: &[(Row, Vec<Kind>)]) -> Result<Vec<Contest>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).map_err(|e| format!("cannot watch for signals: {e}"))?;
    }
    let mut outcomes = Vec::new();
    for (at, (row, kinds)) in contests.iter().enumerate() {
        eprintln!("[{}/{}] {}", at + 1, contests.len(), row.name());
        outcomes.push(run_contest(args, bench, row, kinds, &stop)?);
    }
    Ok(outcomes)
}

/// Measures a row: starts all its servers, then lets them take turns.
fn run_contest(args: &Args, bench: &Bench, row: &Row, kinds: &[Kind], stop: &AtomicBool) -> Result<Contest, String> {
    let instances =
        kinds.iter().map(|&kind| Instance::start(bench, kind, &[row.file])).collect::<Result<Vec<_>, _>>()?;
    let mut sides: Vec<Side> = kinds.iter().map(|kind| Side::new(kind.name())).collect();
    for round in 0..args.rounds() as usize {
        // Each round begins with another server, so that none always follows the same one.
        for turn in 0..kinds.len() {
            let at = (round + turn) % kinds.len();
            let measured = measure(bench, &instances[at], row, args.seconds())?;
            if stop.load(Ordering::Relaxed) {
                return Err("stopped by a signal; nothing was written".into());
            }
            sides[at].rounds.push(measured);
        }
    }
    Ok(Contest::new(row.clone(), sides))
}

fn measure(bench: &Bench, instance: &Instance, row: &Row, seconds: u32) -> Result<Round, String> {
    let before = (procfs::cpu_seconds(instance.pid()), procfs::machine_cpu_seconds(), bench.upstream_cpu_seconds());
    let url = instance.url(row.file);
    let load = match row.over {
        Over::Http1 | Over::PassedOn => wrk::run(bench, &url, row, seconds)?,
        Over::Http2 { streams } => h2load::run(bench, &url, row.connections, streams, seconds)?,
        Over::Http3 { streams, per_s } => weirlab::run(bench, &instance.site(), row.file, [streams, per_s, seconds])?,
    };
    let server_cpu_s = procfs::cpu_seconds(instance.pid()) - before.0;
    // The upstream's CPU time does not count as another program's.
    let machine_cpu_s = procfs::machine_cpu_seconds() - before.1 - (bench.upstream_cpu_seconds() - before.2);
    Ok(Round::new(row, bench.cores.wrk_threads, server_cpu_s, machine_cpu_s, load))
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
    fn defaults_and_quick() {
        let args = |line: &str| Cli::try_parse_from(line.split(' ')).map(|cli| cli.args);
        let usual = args("bench").unwrap();
        assert_eq!((usual.rounds(), usual.seconds(), usual.workers), (5, 3, 1));
        let quick = args("bench --quick --only keep-alive").unwrap();
        assert_eq!((quick.rounds(), quick.seconds()), (2, 2));
        assert!(quick.wants("1 KB keep-alive 64") && !quick.wants("1 KB new connection 64"));
        assert!(args("bench --seconds 0").is_err() && args("bench --quick --rounds 3").is_err());
    }

    #[test]
    fn the_generators_are_those_of_the_rows() {
        let of = |tls, h2| {
            let rows = plan::secure_rows(tls, h2).into_iter();
            generators(&rows.map(|row| (row, vec![Kind::Weir])).collect::<Vec<_>>())
        };
        assert_eq!((of(true, false), of(false, true)), (vec!["wrk"], vec!["h2load"]));
        assert_eq!((of(true, true), of(false, false)), (vec!["h2load", "wrk"], vec![]));
    }
}
