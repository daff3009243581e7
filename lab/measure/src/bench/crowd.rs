//! What 10,000 idle connections cost the one that asks: a server that looks at each of them for every request would be slow in a way
//! that no row of busy connections shows.
//!
//! Two instances of a server, one with the idle connections and one without, are asked by turns, so that whatever else this machine
//! does meets both. The connections speak HTTP/2 without TLS, made one request each and then keep still.

use std::io;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Serialize;

use super::h2::Connection;
use super::idle::{self, CONNECTIONS};
use super::outcome::{DISTURBED, Ratio, median, ratio};
use super::plan::FEW_BYTES;
use super::procfs;
use super::server::{Bench, Instance, Kind};

pub const NAME: &str = "idle h2 connections beside one active";

/// The 99th percentile with the idle connections, to that without.
pub const P99_MAX: f64 = 1.1;

const REQUESTS_PER_ROUND: usize = 1000;
const ROUNDS: usize = 60;
const ROUNDS_QUICK: usize = 20;

#[derive(Debug, Serialize)]
pub struct Crowd {
    pub server: &'static str,
    /// Really open, before and after.
    pub idle: usize,
    pub requests_per_round: usize,
    pub alone: Vec<Turn>,
    pub beside: Vec<Turn>,
    /// Medians of the rounds' 99th percentiles: with to without.
    pub ratio_of_medians: f64,
    /// Within rounds, with to without.
    pub p50: Ratio,
    pub p99: Ratio,
    pub cpu: Ratio,
    /// The bytes of the server's memory for each idle connection.
    pub bytes_per_idle: f64,
    /// The share of one core that all other programs of the machine took.
    pub others_cpu: f64,
    pub void: Option<String>,
}

/// A round of one instance.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Turn {
    pub p50_us: f64,
    pub p99_us: f64,
    pub cpu_us_per_request: f64,
}

/// On the generator's cores, as other generators are.
pub fn run(bench: &Bench, kinds: &[Kind], is_quick: bool) -> Result<Vec<Crowd>, String> {
    let rounds = if is_quick { ROUNDS_QUICK } else { ROUNDS };
    kinds
        .iter()
        .map(|&kind| measure(bench, kind, rounds).map_err(|e| format!("{NAME}, {}: {e}", kind.name())))
        .collect()
}

fn measure(bench: &Bench, kind: Kind, rounds: usize) -> Result<Crowd, String> {
    eprintln!("{NAME}: {}", kind.name());
    stay_on(&bench.cores.wrk)?;
    let in_words = |e: io::Error| e.to_string();
    let instances = [Instance::start(bench, kind, &[FEW_BYTES])?, Instance::start(bench, kind, &[FEW_BYTES])?];
    let [_, beside] = &instances;
    let mut active = Vec::new();
    for instance in &instances {
        active.push(Asker { pid: instance.pid(), connection: open(instance, 0).map_err(in_words)?, turns: Vec::new() });
    }
    let resident = procfs::resident_bytes(beside.pid());
    let crowd: Vec<TcpStream> = (0..CONNECTIONS).map_while(|at| Some(open(beside, at).ok()?.into_stream())).collect();
    let bytes_per_idle = procfs::resident_bytes(beside.pid()).saturating_sub(resident) as f64 / crowd.len() as f64;
    let (begin, before) = (Instant::now(), others_seconds());
    for round in 0..rounds {
        for turn in 0..2 {
            active[(round + turn) % 2].take_turn().map_err(in_words)?;
        }
    }
    let others_cpu = (others_seconds() - before).max(0.0) / begin.elapsed().as_secs_f64();
    let idle = crowd.iter().filter(|stream| idle::is_open(stream)).count();
    let [alone, beside] = [active.remove(0).turns, active.remove(0).turns];
    Ok(Crowd {
        server: kind.name(),
        idle,
        requests_per_round: REQUESTS_PER_ROUND,
        ratio_of_medians: middle(&beside, |turn| turn.p99_us) / middle(&alone, |turn| turn.p99_us),
        p50: ratio(&beside, &alone, |turn| turn.p50_us),
        p99: ratio(&beside, &alone, |turn| turn.p99_us),
        cpu: ratio(&beside, &alone, |turn| turn.cpu_us_per_request),
        bytes_per_idle,
        others_cpu,
        void: void(idle, others_cpu),
        alone,
        beside,
    })
}

pub fn middle(turns: &[Turn], of: impl Fn(&Turn) -> f64) -> f64 {
    median(turns.iter().map(of).collect())
}

fn void(idle: usize, others_cpu: f64) -> Option<String> {
    match idle {
        idle if idle < CONNECTIONS as usize => {
            Some(format!("{idle} of {CONNECTIONS} connections were open at the end: see `ulimit -Hn`"))
        }
        _ if others_cpu > DISTURBED => {
            Some(format!("noisy machine: others took {:.0} % of a core", others_cpu * 100.0))
        }
        _ => None,
    }
}

/// The active connection of an instance.
struct Asker {
    pid: u32,
    connection: Connection,
    turns: Vec<Turn>,
}

impl Asker {
    fn take_turn(&mut self) -> io::Result<()> {
        let before = procfs::cpu_seconds(self.pid);
        let mut times_us = Vec::with_capacity(REQUESTS_PER_ROUND);
        for _ in 0..REQUESTS_PER_ROUND {
            let begin = Instant::now();
            self.connection.get(FEW_BYTES)?;
            times_us.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        let cpu_us_per_request = (procfs::cpu_seconds(self.pid) - before) * 1e6 / REQUESTS_PER_ROUND as f64;
        let [p50_us, p99_us] = [500, 990].map(|permille| nearest_rank(&mut times_us, permille));
        self.turns.push(Turn { p50_us, p99_us, cpu_us_per_request });
        Ok(())
    }
}

/// Connection number `at`, after one request.
fn open(instance: &Instance, at: u32) -> io::Result<Connection> {
    let mut connection = Connection::new(idle::connect(instance.address(), at)?)?;
    connection.get(FEW_BYTES)?;
    Ok(connection)
}

/// CPU seconds of all programs but this one and the servers it started.
fn others_seconds() -> f64 {
    procfs::machine_cpu_seconds() - procfs::cpu_seconds(std::process::id())
}

/// This thread, from now on.
fn stay_on(cores: &str) -> Result<(), String> {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut command = Command::new("taskset");
    command.args(["-p", "-c", cores, &thread]).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().map_err(|e| format!("cannot run taskset (Debian package util-linux): {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("taskset -p -c {cores}: {status}")) }
}

pub fn nearest_rank(values: &mut [f64], permille: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * permille).div_ceil(1000).max(1);
    values.get(rank - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut values: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        assert_eq!([500, 990].map(|permille| nearest_rank(&mut values, permille)), [500.0, 990.0]);
        assert_eq!(nearest_rank(&mut [7.0], 990), 7.0);
    }

    #[test]
    fn connections_that_closed_and_neighbours_void_it() {
        assert_eq!(void(10_000, 0.05), None);
        assert!(void(9_999, 0.0).unwrap().starts_with("9999 of 10000 connections were open"));
        assert_eq!(void(10_000, 0.5).unwrap(), "noisy machine: others took 50 % of a core");
    }
}
