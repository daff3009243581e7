//! The machine: the use of its cores, its limit of descriptors, and the manifest that records where a measurement was
//! made.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use super::server::{Bench, Kind, Programs};
use crate::programs;

/// Lists of cores in the syntax of taskset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cores {
    pub server: String,
    pub wrk: String,
    pub wrk_threads: u32,
    /// Server and generator have no core in common.
    pub are_apart: bool,
}

/// Assigns the first cores to the server, one for each worker, and the others to wrk, or all cores if none would be
/// left.
pub fn cores(workers: u32) -> Cores {
    split(workers, thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)))
}

fn split(workers: u32, total: u32) -> Cores {
    let list = |from: u32, to: u32| if from == to { from.to_string() } else { format!("{from}-{to}") };
    if workers < total {
        let (server, wrk) = (list(0, workers - 1), list(workers, total - 1));
        Cores { server, wrk, wrk_threads: total - workers, are_apart: true }
    } else {
        Cores { server: list(0, total - 1), wrk: list(0, total - 1), wrk_threads: 1, are_apart: false }
    }
}

/// Returns true if this program is installed, and prints what to do if not.
pub fn is_installed(name: &str) -> bool {
    let is_installed = programs::find(name).is_some();
    if !is_installed {
        eprintln!("{name} is left out: no program `{name}` (Debian package {name}): run scripts/setup.sh bench");
    }
    is_installed
}

/// Raises the limit of descriptors of this process and its servers as far as the hard limit allows. Returns the limit.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_err() {
        return limit.current.unwrap_or(u64::MAX);
    }
    limit.maximum.unwrap_or(u64::MAX)
}

/// The command and the configuration of every server; `DIR` stands for the folder of the run.
pub fn commands(kinds: &[Kind], bench: &Bench) -> BTreeMap<String, String> {
    let hide = |text: String| {
        let Programs { weir, .. } = &bench.programs;
        text.replace(&bench.folder().display().to_string(), "DIR").replace(&weir.display().to_string(), "weir")
    };
    let describe = |kind: Kind| {
        let command = hide(bench.command(kind, 80).join(" "));
        let config = bench.configuration(kind, 80).map_or(String::new(), |text| format!("\n{}", hide(text)));
        (kind.name().to_owned(), format!("taskset -c {} {command}{config}", bench.cores.server))
    };
    kinds.iter().map(|&kind| describe(kind)).collect()
}

/// The congestion control of new connections. BBR holds segments back by timers, also on loopback, where it costs more than everything a
/// server does and idles both sides; which one a machine has by default decides who is faster.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// The place, time and tools of a measurement.
#[derive(Debug, Serialize)]
pub struct Manifest {
    /// The commit of this project, with `-dirty` if the tree had changes.
    pub commit: String,
    pub date: String,
    pub kernel: String,
    /// The congestion control of all connections.
    pub congestion: String,
    pub cpu: String,
    pub cores: Cores,
    pub workers: u32,
    pub rounds: u32,
    pub seconds: u32,
    /// The first line of each program's version output.
    pub versions: BTreeMap<String, String>,
    pub servers: BTreeMap<String, String>,
}

pub fn manifest(
    root: &Path,
    rounds: u32,
    seconds: u32,
    bench: &Bench,
    servers: BTreeMap<String, String>,
    generators: &[&str],
) -> Manifest {
    let [weir, weirlab] = [&bench.programs.weir, &bench.programs.weirlab].map(|path| path.display().to_string());
    let asked = [
        ("nginx", "-v"),
        ("h2o", "--version"),
        ("lighttpd", "-v"),
        ("caddy", "version"),
        ("wrk", "-v"),
        ("h2load", "--version"),
        (weir.as_str(), "--version"),
        (weirlab.as_str(), "--version"),
    ];
    let name = |program: &str| match program {
        _ if program == weir => "weir".to_owned(),
        _ if program == weirlab => "weirlab".to_owned(),
        _ => program.to_owned(),
    };
    let is_used = |program: &str| generators.contains(&name(program).as_str()) || servers.contains_key(&name(program));
    let used = asked.into_iter().filter(|(program, _)| is_used(program));
    Manifest {
        commit: commit(root),
        date: first_line("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        kernel: first_line("uname", &["-sr"]),
        congestion: fs::read_to_string(CONGESTION).unwrap_or_default().trim().to_owned(),
        cpu: cpu_model(),
        cores: bench.cores.clone(),
        workers: bench.workers,
        rounds,
        seconds,
        versions: used.map(|(program, flag)| (name(program), first_line(program, &[flag]))).collect(),
        servers,
    }
}

fn commit(root: &Path) -> String {
    let root = root.display().to_string();
    let git = |arguments: &[&str]| first_line("git", &[&["-c", "safe.directory=*", "-C", &root], arguments].concat());
    let dirty = if git(&["status", "--porcelain", "--untracked-files=no"]).is_empty() { "" } else { "-dirty" };
    format!("{}{dirty}", git(&["rev-parse", "--short=12", "HEAD"]))
}

fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    model.trim_start_matches([' ', '\t', ':']).to_owned()
}

/// Returns the first line that a program prints to either output; empty if it prints nothing or cannot be run.
fn first_line(program: &str, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).stdin(Stdio::null()).output() else { return String::new() };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_and_wrk_share_no_core_while_there_are_enough() {
        let split_as_text = |workers, total| {
            let cores = split(workers, total);
            format!("{} {} {} {}", cores.server, cores.wrk, cores.wrk_threads, cores.are_apart)
        };
        assert_eq!(split_as_text(1, 2), "0 1 1 true");
        assert_eq!(split_as_text(2, 8), "0-1 2-7 6 true");
        assert_eq!(split_as_text(2, 2), "0-1 0-1 1 false");
        assert_eq!(split_as_text(1, 1), "0 0 1 false");
    }
}
