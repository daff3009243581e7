//! The resources that a server used, from /proc, over its whole tree of processes.
//!
//! The CPU time of a server is counted by the scheduler in nanoseconds (`schedstat`). If the kernel does not provide
//! that, it is utime + stime in ticks of 1/100 s, and a measurement of 1 s on a busy core is then accurate to 1 %. Time
//! stolen by the host is not included.

use std::fs;

/// The user and system CPU seconds of a process, its threads and its living descendants.
pub fn cpu_seconds(pid: u32) -> f64 {
    tree(pid).iter().filter_map(|&pid| scheduled_seconds(pid).or_else(|| counted_seconds(pid))).sum()
}

fn counted_seconds(pid: u32) -> Option<f64> {
    Some(stat(pid)?.cpu_ticks as f64 / ticks_per_second())
}

/// Returns the CPU seconds of all living threads. The threads of a server live as long as the server.
fn scheduled_seconds(pid: u32) -> Option<f64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let nanos = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    let nanos = threads.map(nanos).sum::<Option<u64>>()?;
    Some(nanos as f64 / 1e9)
}

/// The CPU seconds of the children for which this process has waited.
pub fn reaped_children_cpu_seconds() -> f64 {
    stat(std::process::id()).map_or(0.0, |stat| stat.reaped_ticks as f64 / ticks_per_second())
}

/// The CPU seconds of all processes of the machine since it started, and the seconds that its host gave to others.
pub fn machine_cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    machine_ticks(&text).unwrap_or(0) as f64 / ticks_per_second()
}

/// Sums user, nice, system and steal in the line `cpu` (proc(5)). Interrupts are left out, because they serve the
/// measured programs.
fn machine_ticks(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    Some(fields.get(..3)?.iter().sum::<u64>() + fields.get(7)?)
}

/// The resident bytes of a process and its living descendants.
pub fn resident_bytes(pid: u32) -> u64 {
    let kib = |pid: u32| {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
        rollup.and_then(|text| field_kib(&text, "Rss:")).or_else(|| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            field_kib(&status, "VmRSS:")
        })
    };
    tree(pid).iter().filter_map(|&pid| kib(pid)).sum::<u64>() * 1024
}

/// The maximum resident bytes of a process so far; for several processes, the sum of their maximums.
pub fn peak_bytes(pid: u32) -> u64 {
    let kib = |pid: u32| field_kib(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmHWM:");
    tree(pid).iter().filter_map(|&pid| kib(pid)).sum::<u64>() * 1024
}

struct Stat {
    parent: u32,
    cpu_ticks: u64,
    reaped_ticks: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses the fields, numbered as in proc(5): 4 ppid, 14 utime, 15 stime, 16 cutime, 17 cstime. The name, field 2, may
/// contain anything.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(field(4)?).ok()?,
        cpu_ticks: field(14)? + field(15)?,
        reaped_ticks: field(16)? + field(17)?,
    })
}

/// Returns the process and all its living descendants.
fn tree(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, stat(pid)?.parent))).collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        let children = parents.iter().filter(|(pid, of)| *of == parent && !found.contains(pid)).map(|(pid, _)| *pid);
        let children: Vec<u32> = children.collect();
        found.extend(children);
        next += 1;
    }
    found
}

fn field_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_do_not_shift_fields() {
        let text = "12 (a) b (c) S 7 12 12 0 -1 4194560 10 0 0 0 150 50 3 4 20 0 1 0 100 1 1\n";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.parent, stat.cpu_ticks, stat.reaped_ticks), (7, 200, 7));
        assert!(parse_stat("12 (a) S 7").is_none());
    }

    #[test]
    fn the_machine_counts_programs_and_steal() {
        assert_eq!(machine_ticks("cpu  1 2 4 100 100 100 100 8 0 0\ncpu0 9 9 9\n"), Some(15));
        assert_eq!(machine_ticks("cpu  1 2 4\n"), None);
    }

    #[test]
    fn the_tree_holds_a_child() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = tree(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&child.id()) && found.contains(&std::process::id()), "{found:?}");
    }

    /// Both count the same time, but ticks are coarser.
    #[test]
    fn scheduler_and_ticks_agree() {
        let pid = std::process::id();
        let spun = (0..300_000_000u64).fold(1u64, |sum, at| std::hint::black_box(sum.rotate_left(3) ^ at));
        let counted = counted_seconds(pid).unwrap();
        // `None` on a kernel without schedstat.
        let scheduled = scheduled_seconds(pid).unwrap_or(counted);
        assert!((scheduled - counted).abs() < 0.5 * counted.max(scheduled), "{scheduled} {counted} {spun}");
    }

    #[test]
    fn resident_memory_is_read() {
        assert!(resident_bytes(std::process::id()) > 100_000);
        assert_eq!(field_kib("Size: 4 kB\nRss:      12 kB\n", "Rss:"), Some(12));
    }
}
