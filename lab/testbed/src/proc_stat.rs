//! The CPU time of a server from /proc: the sum over its process tree, because nginx works in children of its master.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use procfs::process::{Process, Stat, all_processes};

use crate::LabError;

/// The start of a living process in ticks since boot; together with the PID it identifies the process uniquely.
pub(crate) fn started(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.starttime)
}

fn stat(pid: u32) -> Option<Stat> {
    Process::new(pid.try_into().ok()?).and_then(|process| process.stat()).ok()
}

/// The CPU time used so far by a process and all its living descendants.
pub(crate) fn tree_cpu(root: u32) -> Result<Duration, LabError> {
    let processes = all_processes().map_err(|e| LabError::io("/proc", io::Error::other(e)))?;
    let stats: Vec<Stat> = processes.filter_map(|process| process.and_then(|process| process.stat()).ok()).collect();
    Ok(tree(&stats, root).map(cpu_of).sum())
}

/// The CPU time of one process. The kernel's `stat` counts whole ticks, which loses all of a server like Apache, whose
/// hundreds of processes use a few milliseconds each. The scheduler counts nanoseconds, but by thread, and forgets
/// threads that ended.
fn cpu_of(stat: &Stat) -> Duration {
    let counted = || {
        let schedstat = Process::new(stat.pid).and_then(|process| process.schedstat()).ok()?;
        Some(Duration::from_nanos(schedstat.sum_exec_runtime))
    };
    (stat.num_threads == 1).then(counted).flatten().unwrap_or_else(|| Duration::from_millis(ticks_ms(stat)))
}

/// The user and system time.
fn ticks_ms(stat: &Stat) -> u64 {
    (stat.utime + stat.stime) * 1000 / procfs::ticks_per_second()
}

fn tree(stats: &[Stat], root: u32) -> impl Iterator<Item = &Stat> {
    let parents: BTreeMap<i32, i32> = stats.iter().map(|stat| (stat.pid, stat.ppid)).collect();
    stats.iter().filter(move |stat| descends(&parents, stat.pid, root))
}

fn descends(parents: &BTreeMap<i32, i32>, pid: i32, root: u32) -> bool {
    // A chain of parents is not longer than the number of processes, however inconsistent the snapshot is.
    let chain = std::iter::successors(Some(pid), |pid| parents.get(pid).copied()).take(parents.len() + 1);
    chain.into_iter().any(|ancestor| u32::try_from(ancestor) == Ok(root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromRead;

    /// The stat of a process with two threads, as in /proc/PID/stat (proc_pid_stat(5)).
    fn of(pid: i32, name: &str, parent: i32, cpu_ticks: u64) -> Stat {
        let line = format!("{pid} ({name}) R {parent} 42 42 0 -1 4194560 1 2 3 4 {cpu_ticks} 25 9 9 20 0 2 0 98765");
        Stat::from_read(format!("{line} {}", ["0"; 30].join(" ")).as_bytes()).unwrap()
    }

    #[test]
    fn reads_a_line_whose_name_is_hostile() {
        let stat = of(42, "a) S 1 (b", 7, 150);
        assert_eq!((stat.pid, stat.ppid, stat.num_threads, stat.starttime), (42, 7, 2, 98765));
        assert_eq!(ticks_ms(&stat), 1750);
        assert!(Stat::from_read("42 (short) R 7".as_bytes()).is_err());
        assert!(Stat::from_read("".as_bytes()).is_err());
    }

    #[test]
    fn reads_our_own() {
        assert_eq!(stat(std::process::id()).unwrap().pid.cast_unsigned(), std::process::id());
        assert!(started(std::process::id()).unwrap() > 0 && started(u32::MAX).is_none());
    }

    #[test]
    fn a_process_of_few_milliseconds_is_counted() {
        let script = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; echo; read end";
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = shell.spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let stat = stat(child.id()).unwrap();
        let cpu = cpu_of(&stat);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(stat.num_threads, 1);
        assert!(cpu > Duration::ZERO && !cpu.as_nanos().is_multiple_of(10_000_000), "{cpu:?}");
    }

    #[test]
    fn the_tree_and_nothing_else() {
        let stat = |pid, parent, cpu_ticks| of(pid, "a", parent, cpu_ticks);
        // 1 is init, 10 the master with workers 11 and 12, 13 a child of 12, 20 unrelated, 30 and 31 a false loop.
        let stats = [
            stat(1, 0, 1000),
            stat(10, 1, 1),
            stat(11, 10, 10),
            stat(12, 10, 100),
            stat(13, 12, 5),
            stat(20, 1, 500),
            stat(30, 31, 7),
            stat(31, 30, 7),
        ];
        assert_eq!(tree(&stats, 10).map(|stat| stat.utime).sum::<u64>(), 116);
    }
}
