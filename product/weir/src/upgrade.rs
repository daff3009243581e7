//! `weir upgrade`: a new process of this program takes over the sockets of a running server, which then finishes its
//! responses.

mod group;
mod open_files;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cli::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use crate::process::Process;
use crate::running::Which;
use crate::serve::handover::{ANSWER_MAX, Account, SERVES, START_MAX, Started, VARIABLE, description};

const AFTER_HELP: &str = "\
The new process has the arguments, folder and environment of the old one, reads the
configuration again, and takes over its sockets: no client is refused. The old one sends on
what it has begun, for a day at most, and then ends. If the new one cannot start, or has not
within 80 s, the reason is printed, the exit status is 1, and the old one serves on. If the old
one ends meanwhile, the new one serves.

Without --pid it is your own server: of your user, and started from this folder, with it, or
with a file of it; otherwise those that run are listed and the exit status is 2.

If root started the server and it has become another user (server.user), root gives the
command behind --.

Examples:
  weir upgrade
  weir upgrade --pid 1234
  sudo weir upgrade -- run /etc/weir/weir.toml";

/// Environment variables of the service manager that are meant for one process only.
const OF_ONE_PROCESS: [&str; 5] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", VARIABLE];

/// The interval between checks whether a child has stopped. The next constant is their number.
const STOP_LOOK_EVERY: Duration = Duration::from_millis(10);
const STOP_LOOKS_MAX: usize = 100;

/// Environment variables for notifications of a service manager: readiness and the watchdog.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG_USEC: &str = "WATCHDOG_USEC";
/// The socket of the system's service manager. Root notifies no other manager, whatever a server says.
const NOTIFY_SOCKET_OF_SYSTEM: &str = "/run/systemd/notify";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Command and flags of the new process, instead of those of the old one
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<OsString>,
}

pub fn main(args: Args) -> Result<(), Failure> {
    replace(args.which.pid_to_change("upgrade")?, &args.words)
}

/// Starts a process that replaces the server `old`, with these words as its command line, or with the server's own if
/// they are empty.
pub fn replace(old: u32, words: &[OsString]) -> Result<(), Failure> {
    if old == 1 {
        let why = "with process 1 its container ends; start another container in its place";
        return Err(Failure::Failed(format!("server 1 cannot be followed by another process: {why}")));
    }
    let before = Process::of(old).map_err(|error| Failure::Failed(format!("cannot look at process {old}: {error}")))?;
    let (started, account, stdout) = description(old).map_err(|error| undescribed(old, &before, error))?;
    let asker = rustix::process::geteuid().as_raw();
    if words.is_empty() && account.user != asker && started.by_root {
        return Err(Failure::Failed(format!(
            "server {old} runs as another user now, and root does not run a command that another user names: give it, \
             for example: weir upgrade --pid {old} -- run /etc/weir/weir.toml"
        )));
    }
    join(old, &started)?;
    if let Some(line) = open_files::take_over(old) {
        let _ = writeln!(io::stderr(), "weir: {line}");
    }
    let command = command(words, &started, account, old);
    let mut command = command.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command.stdout(stdout.map_or_else(Stdio::null, Stdio::from));
    let mut child = command.spawn().map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    let new = child.id();
    match relay(&mut child, START_MAX) {
        Heard::Serves => {
            let then = if before.has_ended() { "has ended" } else { "finishes what it has begun" };
            cli::say(&format!("weir: process {new} serves in place of {old}, which {then}"));
            Ok(())
        }
        Heard::Ended => {
            let _ = child.wait();
            Err(Failure::Failed(format!("the new process has ended; {}", State::of(old, &before).said(old))))
        }
        Heard::Nothing => Err(Failure::Failed(end_late(child, old, || State::of(old, &before)))),
    }
}

/// Returns the failure for a server that does not describe its start.
fn undescribed(old: u32, before: &Process, error: io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::ConnectionReset if !before.has_ended() => {
            format!("server {old} has just been followed by another process")
        }
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset if before.has_ended() => {
            format!("process {old} has ended")
        }
        io::ErrorKind::ConnectionRefused => {
            format!("process {old} is not a Weir server of this network namespace, or another has followed it")
        }
        io::ErrorKind::WouldBlock => {
            format!(
                "server {old} does not answer: it is stopped, or busy for {} s; it was left as it is",
                ANSWER_MAX.as_secs()
            )
        }
        _ => format!("server {old} cannot be asked how it was started: {error}; ask as root or as its own user"),
    };
    Failure::Failed(format!("{why}; `weir status` finds the servers that run here"))
}

/// The state of a server that the new process has failed to replace.
#[derive(Debug, Clone, Copy)]
enum State {
    ServesOn,
    Ended,
    Silent,
    Followed,
}

impl State {
    fn of(old: u32, before: &Process) -> State {
        match description(old) {
            Ok(_) => State::ServesOn,
            Err(_) if before.has_ended() => State::Ended,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => State::Silent,
            Err(_) => State::Followed,
        }
    }

    fn said(self, old: u32) -> String {
        match self {
            State::ServesOn => format!("server {old} serves on"),
            State::Ended => {
                format!(
                    "server {old} has ended too: `weir status` finds one that has followed it; without one start it again"
                )
            }
            State::Silent => format!("server {old} does not answer"),
            State::Followed => format!("server {old} has been followed by another process"),
        }
    }
}

/// Ends a new process that neither serves nor exits, if the previous server still serves, and returns a line about it.
/// The new process is stopped before the state is read, so that the state cannot change until the process is ended.
fn end_late(mut child: Child, old: u32, state: impl FnOnce() -> State) -> String {
    let (new, wait) = (child.id(), START_MAX.as_secs());
    let said = format!("process {new} has not said within {wait} s that it serves");
    let Ok(process) = Process::of(new) else { return format!("{said}; {}", state().said(old)) };
    process.signal(Signal::STOP);
    await_stop(new);
    let state = state();
    let then = match state {
        State::ServesOn => {
            process.signal(Signal::KILL);
            let _ = child.wait();
            "was ended"
        }
        // The new process may have the sockets.
        _ => {
            process.signal(Signal::CONT);
            "was left running"
        }
    };
    format!("{said}, and {then}; {}", state.said(old))
}

/// Waits until a child is stopped or has ended. A child in an uninterruptible system call does nothing until one or the
/// other.
fn await_stop(child: u32) {
    let Some(pid) = i32::try_from(child).ok().and_then(Pid::from_raw) else { return };
    let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    for _ in 0..STOP_LOOKS_MAX {
        if !matches!(waitid(WaitId::Pid(pid), options), Ok(None)) {
            return;
        }
        std::thread::sleep(STOP_LOOK_EVERY);
    }
}

/// Makes processes that are started from now on part of the server's service. Otherwise the service manager would
/// consider the service ended when the old process ends.
fn join(old: u32, started: &Started) -> Result<(), Failure> {
    let has_manager = started.variables.iter().any(|(name, _)| name == NOTIFY_SOCKET);
    if group::join(old) || !has_manager {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "server {old} is a service, and the right to start a process in the group of that is missing: run weir upgrade as \
         root, or restart the service"
    )))
}

/// Returns the command that runs this program with these words as this user, or with the server's words and user.
fn command(words: &[OsString], started: &Started, account: Account, old: u32) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    if !words.is_empty() {
        for name in OF_ONE_PROCESS {
            command.env_remove(name);
        }
        for (name, value) in &started.variables {
            let is_time = value.to_str().is_some_and(|value| value.parse::<u64>().is_ok());
            if (name == NOTIFY_SOCKET && value == NOTIFY_SOCKET_OF_SYSTEM) || (name == WATCHDOG_USEC && is_time) {
                command.env(name, value);
            }
        }
        command.args(words).env(VARIABLE, old.to_string());
        return Ok(command);
    }
    command.args(&started.words).current_dir(&started.folder).env_clear();
    let variables = started.variables.iter().filter(|(name, _)| !OF_ONE_PROCESS.iter().any(|one| name == one));
    command.envs(variables.map(|(name, value)| (name, value))).env(VARIABLE, old.to_string());
    if rustix::process::geteuid().as_raw() != account.user {
        command.gid(account.group).uid(account.user);
    }
    Ok(command)
}

/// The outcome of a wait for a new process.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Serves,
    Ended,
    /// The process neither served nor ended in time.
    Nothing,
}

/// Prints the output of the new process until it serves, ends, or the time is up. Later output goes to where the old
/// process's output went.
fn relay(child: &mut Child, wait: Duration) -> Heard {
    let until = Instant::now() + wait;
    let Some(mut said) = child.stderr.take() else { return Heard::Ended };
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]);
            if line == SERVES {
                return Heard::Serves;
            }
            // The new process serves whether or not anybody reads its output.
            let _ = writeln!(io::stderr(), "{line}");
        }
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&said, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Heard::Nothing,
            Err(Errno::INTR) => continue,
            _ => {}
        }
        match said.read(&mut part) {
            Ok(0) | Err(_) => return Heard::Ended,
            Ok(bytes) => text.extend_from_slice(&part[..bytes]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn a_new_process_serves_ends_or_says_nothing() {
        let of = |script: &str, wait| {
            let mut child = child(script);
            let heard = relay(&mut child, wait);
            let _ = child.kill();
            child.wait().unwrap();
            heard
        };
        let long = Duration::from_secs(60);
        assert_eq!(of(&format!("echo a line >&2; echo '{SERVES}' >&2; exec sleep 1000"), long), Heard::Serves);
        assert_eq!(of(&format!("echo 'not {SERVES}' >&2"), long), Heard::Ended);
        assert_eq!(of("exec sleep 1000", Duration::from_millis(20)), Heard::Nothing);
    }

    /// A late process is ended only if the previous server reports that it serves; otherwise the late process may be
    /// the only one with the sockets.
    #[test]
    fn a_late_process_is_ended_where_the_one_before_serves() {
        for (state, is_ended, said) in [
            (State::ServesOn, true, "and was ended; server 7 serves on"),
            (State::Ended, false, "and was left running; server 7 has ended too"),
            (State::Silent, false, "and was left running; server 7 does not answer"),
            (State::Followed, false, "and was left running; server 7 has been followed"),
        ] {
            let child = child("exec sleep 1000");
            let (pid, new) = (child.id(), Process::of(child.id()).unwrap());
            let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            let told = end_late(child, 7, || {
                assert!(stat().contains(") T "), "it is stopped while that is asked");
                state
            });
            assert!(told.contains(said), "{told}");
            assert_eq!(new.has_ended(), is_ended, "{told}");
            new.signal(Signal::KILL);
            assert!(new.ends_within(Duration::from_secs(60)));
        }
    }
}
