//! `weirlab processes`: the kernel level of 004, for an Apache that runs already.

use std::path::PathBuf;
use std::process::Command as Program;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use cli::Failure;
use sched::Sharing;
use testbed::Interrupt;
use testbed::processes::{Guard, Hold, Means, Plan, Priority, ProcessClass, Watch};

const SCHEDULE_HELP: &str = "\
Example, with `LoadModule log_forensic_module ...` and `ForensicLog /run/weir/forensic` in Apache's configuration:
  weirlab processes schedule --log /run/weir/forensic --apache $(cat /run/apache2/apache2.pid) \\
    --class A:/members/:15:5 --class B:/:1:1

Where the pipe does not exist, make it (mkfifo) and start Apache, which waits for a reader of it, and then this.";

#[derive(Subcommand)]
pub enum Command {
    /// Schedule the processes of an Apache (prefork) that runs: until SIGTERM or --seconds.
    Schedule(Schedule),
    #[command(hide = true)]
    Guard(Stand),
}

#[derive(Clone, Copy, ValueEnum)]
enum Share {
    /// The requests of its class alone (non-work-conserving).
    Own,
    /// Any request while no other slot is free (work-conserving).
    Any,
    /// The same, and a slot is taken back from the youngest (preemptive).
    Preempt,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    /// Nice values; priority 0 is nice 19.
    Nice,
    /// A control group for each process; priority 0 is SCHED_IDLE.
    Groups,
}

#[derive(Args)]
#[command(after_help = SCHEDULE_HELP)]
pub struct Schedule {
    /// Pipe that ForensicLog writes to; made if missing
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
    /// Process id of Apache's master
    #[arg(long, value_name = "PID")]
    apache: u32,
    /// NAME:PREFIX:SLOTS[:PRIORITY], the highest class first; the last takes what matches none [priority: 5]
    #[arg(long = "class", value_name = "CLASS", required = true)]
    classes: Vec<Class>,
    /// Who may use a slot
    #[arg(long, value_enum, default_value = "own")]
    sharing: Share,
    /// Priority of a process asleep: -1 stopped, 0 idle
    #[arg(long, value_name = "N", default_value = "-1", allow_hyphen_values = true)]
    asleep: Priority,
    /// What makes the priorities
    #[arg(long, value_enum, default_value = "groups")]
    by: By,
    /// End after so many seconds [default: SIGTERM or ctrl-c]
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
}

#[derive(Args)]
pub struct Stand {
    #[arg(long)]
    master: u32,
    #[arg(long)]
    group: Option<PathBuf>,
}

#[derive(Clone)]
struct Class(ProcessClass);

impl FromStr for Class {
    type Err = String;

    fn from_str(text: &str) -> Result<Class, String> {
        let expected = || "expected NAME:PREFIX:SLOTS[:PRIORITY], for example B:/free/:1:1".to_string();
        let mut parts = text.split(':');
        let (Some(name), Some(prefix), Some(slots)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(expected());
        };
        let priority = parts.next().unwrap_or("5").parse()?;
        let slots = slots.parse().map_err(|_| expected())?;
        if name.is_empty() || !prefix.starts_with('/') || parts.next().is_some() || slots > sched::SLOTS_MAX as u32 {
            return Err(expected());
        }
        Ok(Class(ProcessClass { name: name.into(), prefix: prefix.into(), slots, priority }))
    }
}

pub fn main(command: Command) -> Result<(), Failure> {
    match command {
        Command::Schedule(args) => schedule(args),
        Command::Guard(args) => {
            Guard::stand(args.master, args.group.as_deref());
            Ok(())
        }
    }
}

fn means(by: By) -> Means {
    match by {
        By::Nice => Means::Nice,
        By::Groups => Means::Groups,
    }
}

/// This program as the guard of an Apache.
fn guard(master: u32) -> Result<Program, Failure> {
    let mut command = Program::new(std::env::current_exe()?);
    command.args(["processes", "guard", "--master", &master.to_string()]);
    Ok(command)
}

fn schedule(args: Schedule) -> Result<(), Failure> {
    let classes: Vec<ProcessClass> = args.classes.into_iter().map(|class| class.0).collect();
    if classes.iter().all(|class| class.slots == 0) {
        return Err(Failure::Usage("--class: all have 0 slots: expected one that has more".into()));
    }
    let sharing = match args.sharing {
        Share::Own => Sharing::Own,
        Share::Any => Sharing::Any,
        Share::Preempt => Sharing::AnyUntilWanted,
    };
    let plan = Plan { classes, sharing, asleep: args.asleep };
    let interrupt = Interrupt::listen()?;
    let until = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let goes_on = || interrupt.check().is_ok() && until.is_none_or(|until| Instant::now() < until);
    let mut watch = Watch::open(&args.log)?;
    let mut hold = Hold::new(args.apache, means(args.by), guard(args.apache)?)?;
    let tally = watch.run(&mut hold, &plan, goes_on)?;
    println!(
        "{} requests, {} escaped, {} overslept; {} changes of priority; {} lines garbled",
        tally.requests, tally.escaped, tally.overslept, tally.changes, tally.garbled
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_as_they_are_written() {
        let Ok(Class(class)) = "B:/free/:1:0".parse() else { panic!("it is right") };
        assert_eq!((class.prefix.as_str(), class.slots, class.priority), ("/free/", 1, Priority::Idle));
        assert_eq!("A:/:15".parse::<Class>().map(|class| class.0.priority), Ok(Priority::Level(5)));
        for wrong in ["", "A", "A:/", "A:b:1", ":/:1", "A:/:x", "A:/:1:50", "A:/:1:1:1", "A:/:4000000000"] {
            assert!(wrong.parse::<Class>().is_err(), "{wrong}");
        }
    }
}
