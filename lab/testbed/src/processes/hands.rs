//! Sets the priorities of processes by signals, and by nice values or control groups.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use procfs::ProcError;
use procfs::process::{Process, all_processes};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, setpriority_process};

use super::decide::Priority;
use crate::LabError;

/// The initial level of a process in Linux 2.1, which shared the processor in proportion to levels.
const USUAL_LEVEL: u8 = 5;
/// The nice value nearest to the idle class: 15 of 1,024.
const NICEST: i32 = 19;

/// The means by which levels are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Each process has a nice value; level 0 is nice 19.
    Nice,
    /// Each process has its own control group with a weight; level 0 is the idle class (SCHED_IDLE).
    Groups,
}

/// Sets signals and priorities of the processes of one Apache.
#[derive(Debug)]
pub(super) struct Hands {
    master: u32,
    groups: Option<Groups>,
    held: BTreeMap<u32, Held>,
}

#[derive(Debug)]
struct Held {
    /// Identifies the process uniquely, even if its number is reused.
    process: OwnedFd,
    stopped_at: Option<Instant>,
}

/// The control groups of the processes.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    home: PathBuf,
    /// The group in which the processes were before.
    before: PathBuf,
    is_version_1: bool,
}

impl Hands {
    pub fn new(master: u32, means: Means) -> Result<Hands, LabError> {
        let groups = (means == Means::Groups).then(|| Groups::create(master)).transpose()?;
        let mut hands = Hands { master, groups, held: BTreeMap::new() };
        hands.hold_all(&children(master)?)?;
        Ok(hands)
    }

    /// Sets the priority of a process. Returns false if this Apache has no such process.
    pub fn set(&mut self, process: u32, priority: Option<Priority>) -> bool {
        if self.hold(process).is_err() {
            return false;
        }
        let Some(held) = self.held.get_mut(&process) else { return false };
        if priority == Some(Priority::Stopped) {
            held.stopped_at = Some(Instant::now());
            return pidfd_send_signal(&held.process, Signal::STOP).is_ok();
        }
        let level = match priority {
            Some(Priority::Level(level)) => level,
            Some(Priority::Idle | Priority::Stopped) => 0,
            None => USUAL_LEVEL,
        };
        let given = match &self.groups {
            Some(groups) => groups.weigh(process, level),
            None => setpriority_process(pid(process), nice_of(level)).map_err(io::Error::from),
        };
        let continues = held.stopped_at.take().is_none() || pidfd_send_signal(&held.process, Signal::CONT).is_ok();
        given.is_ok() && continues
    }

    /// Returns processes that have ended since the last call; their numbers may be reused.
    pub fn take_ended(&mut self) -> Vec<u32> {
        let has_ended = |held: &Held| {
            let mut watched = [PollFd::new(&held.process, PollFlags::IN)];
            poll(&mut watched, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        };
        let ended: Vec<u32> = self.held.iter().filter(|(_, held)| has_ended(held)).map(|(number, _)| *number).collect();
        for number in &ended {
            self.held.remove(number);
            self.groups.iter().for_each(|groups| groups.remove(*number));
        }
        ended
    }

    /// Returns processes that were stopped before this instant.
    pub fn stopped_before(&self, then: Instant) -> Vec<u32> {
        let is_old = |held: &Held| held.stopped_at.is_some_and(|at| at < then);
        self.held.iter().filter(|(_, held)| is_old(held)).map(|(number, _)| *number).collect()
    }

    pub fn group(&self) -> Option<&Path> {
        self.groups.as_ref().map(|groups| groups.home.as_path())
    }

    /// Adds the listed processes, except those that have ended since.
    fn hold_all(&mut self, listed: &[u32]) -> Result<(), LabError> {
        for process in listed {
            match self.hold(*process) {
                Err(error) if !is_gone(&error) => return Err(LabError::io(format!("process {process}"), error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the process named in a line, only if it is one of Apache's.
    fn hold(&mut self, process: u32) -> io::Result<()> {
        if self.held.contains_key(&process) {
            return Ok(());
        }
        let number = pid(process).ok_or(io::ErrorKind::InvalidInput)?;
        let opened = pidfd_open(number, PidfdFlags::NONBLOCK)?;
        let stat = Process::new(number.as_raw_pid()).and_then(|process| process.stat()).map_err(plain)?;
        if u32::try_from(stat.ppid) != Ok(self.master) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.groups.iter().try_for_each(|groups| groups.adopt(process))?;
        self.held.insert(process, Held { process: opened, stopped_at: None });
        Ok(())
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        for held in self.held.values() {
            let _ = pidfd_send_signal(&held.process, Signal::CONT);
        }
        free(self.master, self.groups.as_ref().map(|groups| groups.home.as_path()));
    }
}

/// Undoes all changes to the processes of this Apache, including those of its process group whose parent has ended.
pub(super) fn free(master: u32, group: Option<&Path>) {
    for process in family(master) {
        if let Some(number) = pid(process) {
            let _ = rustix::process::kill_process(number, Signal::CONT);
            let _ = setpriority_process(Some(number), 0);
        }
    }
    if let Some(groups) = group.and_then(Groups::at) {
        groups.dissolve();
    }
}

fn children(master: u32) -> Result<Vec<u32>, LabError> {
    let stats = all_processes().map_err(|e| LabError::io("/proc", io::Error::other(e)))?;
    let stats = stats.filter_map(|process| process.and_then(|process| process.stat()).ok());
    let ours = stats.filter(|stat| u32::try_from(stat.ppid) == Ok(master));
    Ok(ours.map(|stat| stat.pid.cast_unsigned()).collect())
}

/// Returns the children of a process, and the members of its process group.
fn family(master: u32) -> Vec<u32> {
    let Ok(processes) = all_processes() else { return Vec::new() };
    let stats = processes.filter_map(|process| process.and_then(|process| process.stat()).ok());
    let is_of = |number: i32| u32::try_from(number) == Ok(master);
    stats.filter(|stat| is_of(stat.ppid) || is_of(stat.pgrp)).map(|stat| stat.pid.cast_unsigned()).collect()
}

/// True if the process ended after its number was read and before it was opened.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

fn plain(error: ProcError) -> io::Error {
    match error {
        ProcError::NotFound(_) => io::ErrorKind::NotFound.into(),
        ProcError::Io(error, _) => error,
        other => io::Error::other(other),
    }
}

fn pid(process: u32) -> Option<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw)
}

/// Returns the nice value of a level. A step of nice is a factor of 1.25 in the share of the processor (sched(7)).
fn nice_of(level: u8) -> i32 {
    if level == 0 {
        return NICEST;
    }
    let share = f64::from(level) / f64::from(USUAL_LEVEL);
    -(share.ln() / 1.25f64.ln()).round() as i32
}

impl Groups {
    fn create(master: u32) -> Result<Groups, LabError> {
        let home = |folder: PathBuf| folder.join(format!("weir-processes-{master}"));
        let mounts = Process::myself().and_then(|process| process.mountinfo());
        let mounts = mounts.map_err(|e| LabError::io("/proc/self/mountinfo", io::Error::other(e)))?;
        let of_cpu = mounts.into_iter().find(|mount| {
            mount.fs_type == "cgroup" && mount.super_options.contains_key("cpu")
                || mount.fs_type == "cgroup2" && lists_cpu(&mount.mount_point.join("cgroup.controllers"))
        });
        let mount = of_cpu.ok_or(LabError::Lacks {
            run: "processes".into(),
            cause: "no control group with the cpu controller is mounted; --by nice needs none".into(),
        })?;
        let home = home(mount.mount_point.clone());
        fs::create_dir(&home).map_err(|e| LabError::path(&home, e))?;
        let groups = Groups::at(&home).ok_or_else(|| LabError::path(&home, io::ErrorKind::NotFound.into()))?;
        groups.prepare().map_err(|e| LabError::path(&home, e))?;
        Ok(groups)
    }

    /// Returns the groups, including those of an earlier program.
    fn at(home: &Path) -> Option<Groups> {
        let before = home.parent()?.to_path_buf();
        let is_version_1 = !home.join("cgroup.controllers").exists();
        home.is_dir().then(|| Groups { home: home.into(), before, is_version_1 })
    }

    /// Prepares the groups. All of them together must not get less than a process of another program.
    fn prepare(&self) -> io::Result<()> {
        if !self.is_version_1 {
            fs::write(self.before.join("cgroup.subtree_control"), "+cpu")?;
            fs::write(self.home.join("cgroup.subtree_control"), "+cpu")?;
        }
        let (file, most) = if self.is_version_1 { ("cpu.shares", "262144") } else { ("cpu.weight", "10000") };
        fs::write(self.home.join(file), most)
    }

    fn adopt(&self, process: u32) -> io::Result<()> {
        let own = self.home.join(process.to_string());
        match fs::create_dir(&own) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        fs::write(own.join("cgroup.procs"), process.to_string())
    }

    fn weigh(&self, process: u32, level: u8) -> io::Result<()> {
        let own = self.home.join(process.to_string());
        if level == 0 {
            return fs::write(own.join("cpu.idle"), "1");
        }
        fs::write(own.join("cpu.idle"), "0")?;
        let (file, usual) = if self.is_version_1 { ("cpu.shares", 1024) } else { ("cpu.weight", 100) };
        fs::write(own.join(file), (u32::from(level) * usual / u32::from(USUAL_LEVEL)).to_string())
    }

    fn remove(&self, process: u32) {
        let _ = fs::remove_dir(self.home.join(process.to_string()));
    }

    /// Moves the processes back to their earlier group.
    fn dissolve(&self) {
        let folders = fs::read_dir(&self.home).into_iter().flatten().flatten().map(|entry| entry.path());
        for folder in folders.filter(|path| path.is_dir()) {
            let processes = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            for process in processes.lines() {
                let _ = fs::write(self.before.join("cgroup.procs"), process);
            }
            let _ = fs::remove_dir(&folder);
        }
        let _ = fs::remove_dir(&self.home);
    }
}

fn lists_cpu(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|controllers| controllers.split_whitespace().any(|name| name == "cpu"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_values_are_in_the_proportion_of_the_levels() {
        assert_eq!([0, 1, 2, 4, 5, 10, 40].map(nice_of), [19, 7, 4, 1, 0, -3, -9]);
    }

    /// A line of a log must not be able to stop arbitrary processes.
    #[test]
    fn only_children_of_apache_are_touched() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut ours = Hands::new(std::process::id(), Means::Nice).unwrap();
        let mut others = Hands::new(child.id(), Means::Nice).unwrap();
        let state = || Process::new(child.id().cast_signed()).unwrap().stat().unwrap().state;
        let waits_for = |wanted: char| {
            while state() != wanted {
                std::thread::yield_now()
            }
        };
        assert!(!others.set(child.id(), Some(Priority::Stopped)) && !others.set(1, Some(Priority::Stopped)));
        assert!(ours.set(child.id(), Some(Priority::Stopped)));
        waits_for('T');
        assert_eq!(ours.stopped_before(Instant::now()), [child.id()]);
        assert!(ours.set(child.id(), Some(Priority::Level(1))));
        waits_for('S');
        assert_eq!(Process::new(child.id().cast_signed()).unwrap().stat().unwrap().nice, 7);
        assert!(ours.set(child.id(), Some(Priority::Stopped)));
        waits_for('T');
        // As at the end of the program.
        drop(ours);
        waits_for('S');
        child.kill().unwrap();
        child.wait().unwrap();
    }
    #[test]
    fn processes_that_ended_after_they_were_listed_are_left_out() {
        let mut apache = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let mut hands = Hands::new(apache.id(), Means::Nice).unwrap();
        hands.hold_all(&[ended.id()]).unwrap();
        assert!(hands.held.is_empty());
        apache.kill().unwrap();
        apache.wait().unwrap();
    }
}
