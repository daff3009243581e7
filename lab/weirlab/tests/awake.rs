//! `weirlab awake` as a program: one thread on every processor, which gives way to all others, until it is asked to end.

use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Longest a step may take before it counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(60);
/// SCHED_IDLE (sched(7)), as /proc has it.
const IDLE: &str = "5";

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Scheduling policy and processors of the threads of a process, its first one left out.
fn threads(pid: u32) -> Vec<(String, String)> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return vec![] };
    let others = tasks.flatten().filter(|task| task.file_name().to_string_lossy() != pid.to_string());
    let of = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let policy = stat.rsplit_once(')')?.1.split_whitespace().nth(38)?.to_owned();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned();
        Some((policy, allowed))
    };
    let mut found: Vec<_> = others.filter_map(of).collect();
    found.sort();
    found
}

#[test]
fn one_thread_on_every_processor_gives_way_to_all_others() {
    let child = Command::new(env!("CARGO_BIN_EXE_weirlab")).arg("awake").spawn().unwrap();
    let mut awake = Ended(child);
    let (pid, began) = (awake.0.id(), Instant::now());
    let processors = rustix::thread::sched_getaffinity(None).unwrap().count() as usize;
    let is_pinned = |(_, allowed): &(String, String)| allowed.parse::<usize>().is_ok();
    let mut seen = threads(pid);
    while seen.len() != processors || !(processors == 1 || seen.iter().all(is_pinned)) {
        assert!(awake.0.try_wait().unwrap().is_none() && began.elapsed() < HUNG_AFTER, "{seen:?}");
        std::thread::sleep(Duration::from_millis(20));
        seen = threads(pid);
    }
    assert!(seen.iter().all(|(policy, _)| policy == IDLE), "{seen:?}");
    seen.dedup();
    assert_eq!(seen.len(), processors, "each on its own: {seen:?}");

    assert!(Command::new("kill").args(["-TERM", &pid.to_string()]).status().unwrap().success());
    while awake.0.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < HUNG_AFTER);
        std::thread::sleep(Duration::from_millis(20));
    }
}
