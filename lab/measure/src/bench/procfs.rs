//! The resources that a server used, from /proc, over its whole tree of processes.
//!
//! The CPU time of a server is counted by the scheduler in nanoseconds (`schedstat`). If the kernel does not provide
//! that, it is utime + stime in ticks of 1/100 s, and a measurement of 1 s on a busy core is then accurate to 1 %. Time
//! stolen by the host is not included.

use procfs::process::{Process, Stat, all_processes};
use procfs::{CurrentSI, KernelStats};

/// The user and system CPU seconds of a process, its threads and its living descendants.
pub fn cpu_seconds(pid: u32) -> f64 {
    tree(pid).iter().filter_map(|process| scheduled_seconds(process).or_else(|| counted_seconds(process))).sum()
}

fn counted_seconds(process: &Process) -> Option<f64> {
    let stat = process.stat().ok()?;
    Some(seconds(stat.utime + stat.stime))
}

/// Returns the CPU seconds of all living threads. The threads of a server live as long as the server.
fn scheduled_seconds(process: &Process) -> Option<f64> {
    let threads = process.tasks().ok()?.flatten();
    let nanos: Option<u64> = threads.map(|thread| Some(thread.schedstat().ok()?.sum_exec_runtime)).sum();
    Some(nanos? as f64 / 1e9)
}

/// The CPU seconds of the children for which this process has waited.
pub fn reaped_children_cpu_seconds() -> f64 {
    let ticks = |stat: Stat| u64::try_from(stat.cutime + stat.cstime).unwrap_or(0);
    Process::myself().and_then(|process| process.stat()).map_or(0.0, |stat| seconds(ticks(stat)))
}

/// Returns the CPU seconds of all processes since the machine started, and the seconds that its host gave to other machines.
/// Interrupts are left out, because they are work for the measured servers.
pub fn machine_cpu_seconds() -> f64 {
    KernelStats::current().map_or(0.0, |stats| {
        let all = stats.total;
        seconds(all.user + all.nice + all.system + all.steal.unwrap_or(0))
    })
}

/// The resident bytes of a process and its living descendants.
pub fn resident_bytes(pid: u32) -> u64 {
    let bytes = |process: &Process| {
        let exactly = || process.smaps_rollup().ok()?.memory_map_rollup.0.first()?.extension.map.get("Rss").copied();
        exactly().or_else(|| Some(process.status().ok()?.vmrss? * 1024))
    };
    tree(pid).iter().filter_map(bytes).sum()
}

/// The maximum resident bytes of a process so far; for several processes, the sum of their maximums.
pub fn peak_bytes(pid: u32) -> u64 {
    tree(pid).iter().filter_map(|process| Some(process.status().ok()?.vmhwm? * 1024)).sum()
}

/// Returns the process and all its living descendants.
fn tree(pid: u32) -> Vec<Process> {
    let processes = all_processes().into_iter().flatten().flatten();
    let mut others: Vec<(Process, i32)> =
        processes.filter_map(|process| process.stat().ok().map(|stat| (process, stat.ppid))).collect();
    let mut found: Vec<Process> =
        others.extract_if(.., |(process, _)| process.pid.cast_unsigned() == pid).map(|(process, _)| process).collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|process| process.pid) {
        found.extend(others.extract_if(.., |(_, of)| *of == parent).map(|(process, _)| process));
        next += 1;
    }
    found
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / procfs::ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_holds_a_child() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found: Vec<u32> = tree(std::process::id()).iter().map(|process| process.pid.cast_unsigned()).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&child.id()) && found.contains(&std::process::id()), "{found:?}");
    }

    /// Both count the same time, but ticks are coarser.
    #[test]
    fn scheduler_and_ticks_agree() {
        let process = Process::myself().unwrap();
        let spun = (0..300_000_000u64).fold(1u64, |sum, at| std::hint::black_box(sum.rotate_left(3) ^ at));
        let counted = counted_seconds(&process).unwrap();
        // `None` on a kernel without schedstat.
        let scheduled = scheduled_seconds(&process).unwrap_or(counted);
        assert!((scheduled - counted).abs() < 0.5 * counted.max(scheduled), "{scheduled} {counted} {spun}");
    }

    #[test]
    fn resident_memory_is_read() {
        let id = std::process::id();
        let [now, most] = [resident_bytes(id), peak_bytes(id)];
        assert!(now > 100_000 && most > 100_000, "{now} {most}");
    }
}
