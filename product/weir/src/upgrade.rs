//! `weir upgrade`: a new process of this program takes the sockets of a running server, which then finishes what it has begun.

mod group;

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use cli::Failure;

use crate::running::Which;
use crate::serve::handover::{Account, SERVES, Started, VARIABLE, description};

const AFTER_HELP: &str = "\
The new process has the arguments, folder and environment of the old one, reads the
configuration again, and takes over its sockets: no client is refused. The old one sends on
what it has begun, for a day at most, and then ends. If the new one cannot start, the reason
is printed, the exit status is 1, and the old one serves on.

If root started the server and it has become another user (server.user), root gives the
command behind --.

Examples:
  weir upgrade
  weir upgrade --pid 1234
  sudo weir upgrade -- run /etc/weir/weir.toml";

/// Of the service manager, for one process.
const OF_ONE_PROCESS: [&str; 5] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", VARIABLE];

/// By which a service manager is told that the service is ready, and alive.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG_USEC: &str = "WATCHDOG_USEC";
/// That of the system's manager: root tells no other, whatever a server says.
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
    replace(args.which.pid("upgrade")?, &args.words)
}

/// Another process serves in place of this one, started with these words, or without any as it was.
pub fn replace(old: u32, words: &[OsString]) -> Result<(), Failure> {
    let unknown = |error: std::io::Error| {
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => {
                format!("process {old} is no Weir server of this network namespace")
            }
            std::io::ErrorKind::ConnectionReset => format!("server {old} has just been followed by another process"),
            _ => format!("server {old} cannot be asked how it was started: {error}; ask as root or as its own user"),
        };
        Failure::Failed(format!("{why}; `weir upgrade` without --pid finds those that run here"))
    };
    if old == 1 {
        let why = "with process 1 its container ends; start another container in its place";
        return Err(Failure::Failed(format!("server 1 cannot be followed by another process: {why}")));
    }
    let (started, account, stdout) = description(old).map_err(unknown)?;
    let asker = rustix::process::geteuid().as_raw();
    if words.is_empty() && account.user != asker && started.by_root {
        return Err(Failure::Failed(format!(
            "server {old} runs as another user now, and root does not run a command that another user names: give it, \
             for example: weir upgrade --pid {old} -- run /etc/weir/weir.toml"
        )));
    }
    join(old, &started)?;
    let command = command(words, &started, account, old);
    let mut command = command.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command.stdout(stdout.map_or_else(Stdio::null, Stdio::from));
    let mut child = command.spawn().map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    let new = child.id();
    if relay(&mut child) {
        println!("weir: process {new} serves in place of {old}, which finishes what it has begun");
        return Ok(());
    }
    let _ = child.wait();
    let serves = description(old).is_ok();
    let then = if serves { "serves on" } else { "has been followed by another process" };
    Err(Failure::Failed(format!("the new process has ended; server {old} {then}")))
}

/// What is started from now on is of the service that the server is. A manager would take that for ended with the old process.
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

/// This program with these words as this user; or as the server says that it was started, and then as no other user than the server is.
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

/// Prints what the new process says until it serves, or ends. False: it has ended. What it says later is where the old one said it.
fn relay(child: &mut Child) -> bool {
    let said = child.stderr.take().into_iter().flat_map(|said| BufReader::new(said).split(b'\n'));
    for line in said.map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if line == SERVES {
            return true;
        }
        eprintln!("{line}");
    }
    false
}
