//! Network namespaces that cannot outlive this process: the guard removes them, and those left by a SIGKILL are
//! recognised by their names. Each has a control group of the same name, in which its programs run.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::cgroup::{self, Cgroup};
use crate::proc_stat::started;
use crate::{LabError, tool};

/// The folder in which `ip netns` keeps namespaces.
const FOLDER: &str = "/run/netns";
/// The maximum number of rounds of killing remaining processes in a namespace before it is deleted; a killed process
/// ends within milliseconds.
const KILL_ROUNDS: u32 = 50;

/// The number of buckets of a namespace's own table of TCP connections. Listing them (ten times a second) then visits
/// neither the machine's 262,144 buckets nor other runs' connections, which would take 3 to 5 ms per sample.
const CONNECTION_BUCKETS: u32 = 16_384;

/// Where a program runs.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// In the current namespace.
    Here,
    In(&'a Namespace),
}

impl Place<'_> {
    /// The words before a command that make it run there.
    pub(crate) fn prefix(self) -> Vec<String> {
        match self {
            Place::Here => vec![],
            Place::In(namespace) => {
                // The group comes first: `ip netns exec` mounts its own /sys, in which no group is visible.
                let mut words = namespace.cgroup.as_ref().map_or(vec![], Cgroup::prefix);
                words.extend(["ip", "netns", "exec", &namespace.name].map(String::from));
                words
            }
        }
    }

    /// The folder of the control group of the programs there, if it has one.
    pub(crate) fn cgroup(&self) -> Option<&Path> {
        match self {
            Place::Here => None,
            Place::In(namespace) => namespace.cgroup.as_ref().map(Cgroup::folder),
        }
    }

    /// Calls `action` there, in a separate thread, so that only that thread changes its namespace.
    pub fn enter<T: Send>(self, action: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        match self {
            Place::Here => action(),
            Place::In(namespace) => namespace.enter(action),
        }
    }
}

/// A network namespace created here. It is deleted when dropped, together with all processes in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    /// `None` on machines without control groups of version 2. Its folder must be removed after its processes, so it is
    /// the last field.
    cgroup: Option<Cgroup>,
}

impl Namespace {
    /// Creates a namespace named `weir-PID-START-NUMBER-SIDE` after the process that owns it; see [`is_leftover`].
    pub(crate) fn create(side: &str) -> Result<Namespace, LabError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // The guard is created first: if `ip` fails half-way, its results are removed.
        let name = format!("weir-{}-{number}-{side}", owner());
        let namespace = Namespace { cgroup: Cgroup::create(&name), name };
        tool::run_words(&add_words(&namespace.name))?;
        Ok(namespace)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn enter<T: Send>(&self, action: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let file = File::open(Path::new(FOLDER).join(&self.name))?;
        let inside = || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            action()
        };
        std::thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

/// The command that adds a namespace with its own table of connections. It is run within a temporary namespace, because
/// the setting affects only a namespace's children (Linux 6.1; older kernels have one table for the machine).
fn add_words(name: &str) -> Vec<String> {
    let script = format!(
        "echo {CONNECTION_BUCKETS} 2>/dev/null >/proc/sys/net/ipv4/tcp_child_ehash_entries; exec ip netns add {name}"
    );
    ["unshare", "--net", "sh", "-c", &script].map(String::from).into()
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if !Path::new(FOLDER).join(&self.name).exists() {
            return;
        }
        if let Err(error) = remove(&self.name) {
            eprintln!("weirlab: cannot remove namespace {}: {error}", self.name);
        }
    }
}

/// Removes the namespaces of experiments whose process is dead, and returns their names.
pub fn remove_leftovers() -> Result<Vec<String>, LabError> {
    let Ok(entries) = std::fs::read_dir(FOLDER) else { return Ok(vec![]) };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let leftovers: Vec<String> = names.filter(|name| is_leftover(name, started)).collect();
    for name in &leftovers {
        // Another experiment that starts now may have removed it first.
        remove(name).or_else(|error| if Path::new(FOLDER).join(name).exists() { Err(error) } else { Ok(()) })?;
        cgroup::remove(name);
    }
    Ok(leftovers)
}

/// The prefix of all names created here: `PID-START` of the process that owns them.
pub(crate) fn owner() -> String {
    let pid = std::process::id();
    format!("{pid}-{}", started(pid).unwrap_or_default())
}

/// Returns true if this is a namespace of ours whose owner is dead.
fn is_leftover(name: &str, start_of: impl Fn(u32) -> Option<u64>) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    let ["weir", pid, start, number, "server" | "client" | "router" | "wire" | "wan"] = parts[..] else {
        return false;
    };
    number.parse::<u32>().is_ok() && is_dead(pid, start, start_of)
}

/// Returns true if the owner `PID-START` is dead. PIDs are reused, so the start time follows.
pub(crate) fn is_dead(pid: &str, start: &str, start_of: impl Fn(u32) -> Option<u64>) -> bool {
    let (Ok(pid), Ok(start)) = (pid.parse(), start.parse::<u64>()) else { return false };
    start_of(pid) != Some(start)
}

/// Ends the remaining processes in a namespace of ours by their IDs, and deletes it with its devices and qdiscs.
fn remove(name: &str) -> Result<(), LabError> {
    for _ in 0..KILL_ROUNDS {
        let pids = tool::run(&format!("ip netns pids {name}"))?;
        let pids: Vec<Pid> = pids.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect();
        if pids.is_empty() {
            break;
        }
        for pid in pids {
            // The process may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let number = std::fs::metadata(Path::new(FOLDER).join(name)).map(|file| file.ino());
    tool::run(&format!("ip netns del {name}"))?;
    // Its trees were deleted with it, so the saved earlier qdiscs are not needed.
    if let Ok(number) = number {
        uplink::tree::forget_namespace(number);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leftover_is_ours_and_its_owner_is_dead() {
        // Process 100 is alive and began at tick 5000; no other process is alive.
        let start_of = |pid| (pid == 100).then_some(5000);
        assert!(is_leftover("weir-99-5000-0-server", start_of));
        assert!(is_leftover("weir-100-4000-0-client", start_of), "the pid was used again");
        assert!(is_leftover("weir-99-5000-2-router", start_of) && is_leftover("weir-99-5000-3-wan", start_of));
        assert!(!is_leftover("weir-100-5000-3-server", start_of));
        for stranger in ["weir", "weir-99", "weir-99-5000-0-other", "other-99-5000-0-server", "weir-x-1-0-server", ""] {
            assert!(!is_leftover(stranger, start_of), "{stranger}");
        }
    }

    #[test]
    fn here_needs_no_prefix() {
        assert!(Place::Here.prefix().is_empty());
        assert_eq!(Place::Here.enter(|| Ok(7)).unwrap(), 7);
    }
}
