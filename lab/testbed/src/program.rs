//! A program of an experiment: started at a place, logged to a file, measured, and ended by the guard that owns it.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::namespace::Place;
use crate::{LabError, find_program, proc_stat, tool};

/// The time that a program may take to end after SIGTERM, before it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// The polling interval of waits: short compared with a run of seconds, long compared with the cost of a poll.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(20);
/// The lines of a failed program's log that an error quotes.
const TAIL_LINES: usize = 5;

/// A running program. Dropping it sends SIGTERM, then kills it and its process group.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts `command` (program and arguments) at `place`. Messages call it `name`; its standard output and error go
    /// to the file `log`.
    ///
    /// `setpriv` makes the kernel send it SIGTERM if this process dies without running its guards (SIGKILL). It and the
    /// other prefixes replace themselves with the program, so the PID held here is the program's own.
    pub fn start(place: Place<'_>, name: &str, command: &[String], log: &Path) -> Result<Program, LabError> {
        let open = || File::create(log).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, err) = open().map_err(|e| LabError::path(log, e))?;
        let child = Command::new(find_program("setpriv")?)
            .args(["--pdeathsig", "TERM"])
            .args(place.prefix())
            .args(command)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(|e| LabError::io("setpriv", e))?;
        Ok(Program { name: name.into(), child, log: log.into() })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The CPU time used so far by the program and its descendants.
    pub fn cpu(&self) -> Result<Duration, LabError> {
        proc_stat::tree_cpu(self.child.id())
    }

    /// Returns the exit status if the program has ended.
    pub fn poll_exit(&mut self) -> Result<Option<ExitStatus>, LabError> {
        self.child.try_wait().map_err(|e| LabError::io(&self.name, e))
    }

    /// Returns an error if a program that must continue has ended.
    pub fn check_running(&mut self) -> Result<(), LabError> {
        match self.poll_exit()? {
            None => Ok(()),
            Some(status) => Err(self.failed(&format!("ended unasked ({})", describe(status)))),
        }
    }

    /// Returns an error if the program has failed; otherwise whether it has ended successfully.
    pub fn poll_success(&mut self) -> Result<bool, LabError> {
        match self.poll_exit()? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(self.failed(&format!("failed ({})", describe(status)))),
        }
    }

    /// The error that describes how it ended and quotes the end of its log.
    pub(crate) fn failed(&self, ended: &str) -> LabError {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let tail = tail(&String::from_utf8_lossy(&bytes));
        LabError::Program { name: self.name.clone(), ended: ended.into(), log: self.log.clone(), tail }
    }

    fn stop(&mut self) {
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return };
        if let Ok(None) = self.child.try_wait() {
            // Not reaped yet, so the PID is still its own.
            let _ = kill_process(pid, Signal::TERM);
            let asked = Instant::now();
            while asked.elapsed() < STOP_WITHIN && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(POLL_EVERY);
            }
        }
        // The program's group: workers whose master died, or all of it if it ignored SIGTERM.
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop();
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit status".into(),
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.len() {
        0 => "(nothing)".into(),
        count => tool::one_line(&lines[count.saturating_sub(TAIL_LINES)..].join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(name: &str, script: &str) -> (Program, PathBuf) {
        let log = std::env::temp_dir().join(format!("weir-program-{}-{name}.log", std::process::id()));
        let command = ["sh", "-c", script].map(String::from);
        (Program::start(Place::Here, "sh", &command, &log).unwrap(), log)
    }

    fn wait(program: &mut Program) -> Result<(), LabError> {
        while !program.poll_success()? {
            std::thread::sleep(POLL_EVERY);
        }
        Ok(())
    }

    #[test]
    fn a_failure_quotes_the_end_of_the_log() {
        let (mut program, log) = start("fails", "for i in 1 2 3 4 5 6 7; do echo line $i; done; echo bad >&2; exit 3");
        let said = wait(&mut program).unwrap_err().to_string();
        assert!(said.starts_with("sh failed (exit status 3); "), "{said}");
        assert!(said.ends_with("line 4 | line 5 | line 6 | line 7 | bad"), "{said}");
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_server_that_ends_is_noticed() {
        let (mut program, log) = start("ends", "exit 0");
        wait(&mut program).unwrap();
        assert!(program.check_running().unwrap_err().to_string().contains("sh ended unasked (exit status 0)"));
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn dropping_it_ends_its_children_too() {
        // The master dies of SIGTERM immediately; the worker ignores it, as an orphan might.
        let (program, log) = start("tree", "(trap '' TERM; echo worker; while :; do sleep 0.05; done) & wait");
        while fs::read_to_string(&log).unwrap().is_empty() {
            std::thread::sleep(POLL_EVERY);
        }
        let group = Pid::from_raw(program.child.id().cast_signed()).unwrap();
        assert!(rustix::process::test_kill_process_group(group).is_ok());
        drop(program);
        while rustix::process::test_kill_process_group(group).is_ok() {
            std::thread::sleep(POLL_EVERY);
        }
        fs::remove_file(log).unwrap();
    }
}
