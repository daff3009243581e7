//! Runs third-party programs with a time limit, and keeps their output in a file.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

const POLL: Duration = Duration::from_millis(20);
/// The time that a program may take to end after a signal.
const STOP: Duration = Duration::from_secs(10);

/// A program and its child processes; they are ended when it is dropped.
pub struct Running(Child);

impl Running {
    /// Starts a program whose two outputs go to this file.
    pub fn start(command: &mut Command, log: &Path) -> Result<Running, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error: std::io::Error| format!("cannot run {name}: {error}");
        let file = File::create(log).map_err(failed)?;
        let outputs = [file.try_clone().map_err(failed)?, file];
        let [out, err] = outputs.map(Stdio::from);
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0).spawn().map(Running).map_err(failed)
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns the status once the program has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }

    /// Waits until the program ends or the time is over.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        wait_for(limit, || self.status())
    }

    pub fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal); // Already gone is what we want.
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.status().is_none() {
            self.ask_to_end();
            self.wait(STOP);
        }
        // Its child processes may outlive it.
        self.signal(Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Calls `look` until it returns a value, or the time is over.
pub fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + limit;
    loop {
        match look() {
            None if Instant::now() < until => sleep(POLL),
            found => return found,
        }
    }
}

/// Starts a program and waits for what `look` finds. An error contains the end of the output, also if the program ends
/// first.
pub fn until<T>(
    command: &mut Command,
    log: &Path,
    limit: Duration,
    mut look: impl FnMut(&str) -> Option<T>,
) -> Result<(Running, T), String> {
    let mut running = Running::start(command, log)?;
    let said = || fs::read_to_string(log).unwrap_or_default();
    let found = wait_for(limit, || match look(&said()) {
        None if running.status().is_some() => Some(None),
        found => found.map(Some),
    });
    found.flatten().map(|found| (running, found)).ok_or_else(|| last_lines(&said(), 3))
}

/// Runs a program to its end. Returns its output, and whether its status was 0.
pub fn to_end(command: &mut Command, log: &Path, limit: Duration) -> Result<(bool, String), String> {
    let ended = Running::start(command, log)?.wait(limit);
    let said = fs::read(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    match ended {
        Some(status) => Ok((status.success(), said)),
        None => Err(format!("not at its end after {limit:?}; it said: {}", last_lines(&said, 5))),
    }
}

/// Runs a program to its end. Any status other than 0 is an error that contains the end of the output.
pub fn well(command: &mut Command, log: &Path, limit: Duration) -> Result<String, String> {
    match to_end(command, log, limit)? {
        (true, said) => Ok(said),
        (false, said) => {
            let name = command.get_program().to_string_lossy().into_owned();
            Err(format!("{name} failed: {}", last_lines(&said, 5)))
        }
    }
}

/// Returns free ports on loopback, all held at the same time so that they differ.
pub fn free_ports<const N: usize>() -> Result<[u16; N], String> {
    let failed = |error: std::io::Error| format!("no free port on loopback: {error}");
    let held: Result<Vec<TcpListener>, _> = (0..N).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect();
    let ports = held.map_err(failed)?.iter().map(|held| held.local_addr().map(|address| address.port())).collect();
    let ports: Vec<u16> = Result::map_err(ports, failed)?;
    Ok(std::array::from_fn(|at| ports[at]))
}

pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_waited_for_and_ended() {
        let log = std::env::temp_dir().join(format!("weir-run-{}", std::process::id()));
        let shell = |script: &str, limit| to_end(Command::new("sh").args(["-c", script]), &log, limit);
        let minute = Duration::from_secs(60);
        assert_eq!(shell("echo a; echo b >&2", minute), Ok((true, "a\nb\n".into())));
        assert_eq!(shell("exit 3", minute), Ok((false, String::new())));
        let said = shell("echo late; sleep 600", Duration::ZERO).unwrap_err();
        assert!(said.starts_with("not at its end after 0ns"), "{said}");
        assert!(
            well(Command::new("sh").args(["-c", "echo no; exit 1"]), &log, minute).unwrap_err().ends_with("failed: no")
        );
        std::fs::remove_file(&log).unwrap();
    }
}
