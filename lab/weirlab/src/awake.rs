//! `weirlab awake`: processors that do not sleep, for measurements that are not to wait for one to wake up.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{io, thread};

use cli::Failure;
use procfs::process::Process;
use rustix::process::nice;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The policy of programs that run only where nothing else would (sched(7)), and its number in /proc.
const IDLE: (&str, u32) = ("-i", 5);
/// The least priority there is; `/proc/stat` counts what runs with it apart, as time that gives way.
const NICEST: i32 = 19;

/// Keep this machine's processors from going to sleep, at a priority below all other programs, until SIGTERM or ctrl-c.
///
/// `weirlab run` does so by itself. Beside `weirlab load` it makes a virtual machine punctual: a processor that sleeps has to be
/// given back by the host first, which takes milliseconds where that is busy. It costs the power of a busy machine.
#[derive(clap::Args)]
pub struct Args {}

pub fn main(_: Args) -> Result<(), Failure> {
    if Process::myself()?.stat()?.policy != Some(IDLE.1) {
        // Replaces this program; what comes back is why it could not.
        let cause = Command::new("chrt").args([IDLE.0, "0"]).arg(std::env::current_exe()?).arg("awake").exec();
        return Err(Failure::Failed(format!("chrt (of util-linux), which sets the priority: {cause}")));
    }
    nice(NICEST).map_err(io::Error::from)?;
    let allowed = sched_getaffinity(None).map_err(io::Error::from)?;
    thread::scope(|scope| {
        for processor in (0..CpuSet::MAX_CPU).filter(|&processor| allowed.is_set(processor)) {
            scope.spawn(move || spin(processor));
        }
    });
    Ok(())
}

/// Never ends, unless the processor is gone.
fn spin(processor: usize) {
    let mut only = CpuSet::new();
    only.set(processor);
    if sched_setaffinity(None, &only).is_ok() {
        loop {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use procfs::FromRead;
    use procfs::process::Stat;

    /// proc(5): the 41st field of all.
    #[test]
    fn finds_the_policy_whatever_the_program_is_called() {
        let numbers = (4..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let stat = Stat::from_read(format!("7 (a) 5 (b)) S {numbers}").as_bytes()).unwrap();
        assert_eq!(stat.policy, Some(41));
        assert!(Stat::from_read("7 (a) S 1".as_bytes()).is_err());
    }
}
