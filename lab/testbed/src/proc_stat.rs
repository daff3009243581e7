//! CPU time of a server, from /proc: the sum over its process tree, since nginx works in children of its master.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::LabError;

/// The unit of the times in /proc/PID/stat: USER_HZ, 100 on every architecture Linux offers to user space today.
const TICKS_PER_S: u64 = 100;

/// What we need of one line of /proc/PID/stat (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    parent: u32,
    /// User and system time, ticks.
    cpu_ticks: u64,
    threads: u64,
    /// When the process began, ticks since boot: with the pid it names a process for good.
    pub(crate) start_ticks: u64,
}

impl Stat {
    /// The line of a living process.
    pub(crate) fn of(pid: u32) -> Option<Stat> {
        Stat::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The second field is the program's name in brackets and may hold anything, so fields count from the last `)`.
    fn parse(line: &str) -> Option<Stat> {
        let (pid, _) = line.split_once(' ')?;
        let (_, rest) = line.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // Numbered as in the manual page, where the state after the name is field 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Stat {
            pid: pid.parse().ok()?,
            parent: u32::try_from(field(4)?).ok()?,
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            start_ticks: field(22)?,
        })
    }
}

/// CPU time used so far by a process and all its living descendants.
pub(crate) fn tree_cpu(root: u32) -> Result<Duration, LabError> {
    let entries = std::fs::read_dir("/proc").map_err(|e| LabError::io("/proc", e))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let stats: Vec<Stat> = pids.filter_map(Stat::of).collect();
    Ok(tree(&stats, root).map(cpu_of).sum())
}

/// CPU time of one process. Its stat counts whole ticks, which loses all of a server like Apache, whose hundreds of
/// processes use a few milliseconds each; the scheduler counts nanoseconds, but by thread, and forgets those that ended.
fn cpu_of(stat: &Stat) -> Duration {
    let counted = || {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", stat.pid)).ok()?;
        text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    };
    let by_ticks = || Duration::from_millis(stat.cpu_ticks * 1000 / TICKS_PER_S);
    (stat.threads == 1).then(counted).flatten().unwrap_or_else(by_ticks)
}

fn tree(stats: &[Stat], root: u32) -> impl Iterator<Item = &Stat> {
    let parents: BTreeMap<u32, u32> = stats.iter().map(|stat| (stat.pid, stat.parent)).collect();
    stats.iter().filter(move |stat| descends(&parents, stat.pid, root))
}

fn descends(parents: &BTreeMap<u32, u32>, pid: u32, root: u32) -> bool {
    // No chain of parents is longer than there are processes, whatever races made of the snapshot.
    let chain = std::iter::successors(Some(pid), |pid| parents.get(pid).copied()).take(parents.len() + 1);
    chain.into_iter().any(|ancestor| ancestor == root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_whose_name_is_hostile() {
        let line = "42 (a) S 1 (b) R 7 42 42 0 -1 4194560 1 2 3 4 150 25 9 9 20 0 1 0 98765 1 2 3";
        let want = Stat { pid: 42, parent: 7, cpu_ticks: 175, threads: 1, start_ticks: 98765 };
        assert_eq!(Stat::parse(line), Some(want));
        assert_eq!(Stat::parse("42 (short) R 7"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn reads_our_own() {
        let ours = Stat::of(std::process::id()).unwrap();
        assert_eq!(ours.pid, std::process::id());
        assert!(ours.start_ticks > 0);
    }

    #[test]
    fn a_process_of_few_milliseconds_is_counted() {
        let script = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; echo; read end";
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = shell.spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let stat = Stat::of(child.id()).unwrap();
        let cpu = cpu_of(&stat);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(stat.threads, 1);
        assert!(cpu > Duration::ZERO && !cpu.as_nanos().is_multiple_of(10_000_000), "{cpu:?}");
    }

    #[test]
    fn the_tree_and_nothing_else() {
        let stat = |pid, parent, cpu_ticks| Stat { pid, parent, cpu_ticks, threads: 2, start_ticks: 0 };
        // 1 is init, 10 the master with workers 11 and 12, 13 a child of 12, 20 a stranger, 30 and 31 a false loop.
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
        assert_eq!(tree(&stats, 10).map(|stat| stat.cpu_ticks).sum::<u64>(), 116);
    }
}
