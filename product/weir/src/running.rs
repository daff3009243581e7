//! Finds the server that a command is for: by its process number, by a file with that number, or as the only running
//! server.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::Failure;
use rustix::net::sockopt::socket_peercred;

use crate::serve::control::{NAME, address};
use crate::serve::handover::{Started, VARIABLE, description};

#[derive(Debug, clap::Args)]
pub struct Which {
    /// Process of the server [default: the only one that runs; for reload and upgrade,
    /// the only one of this user that was started from this folder]
    #[arg(long, value_name = "PID", value_parser = process, verbatim_doc_comment)]
    pid: Option<u32>,
    /// File with the number of that process, as a supervisor writes it
    #[arg(long, value_name = "FILE", conflicts_with = "pid")]
    pid_file: Option<PathBuf>,
}

/// PID_MAX_LIMIT of the kernel.
const PID_MAX: u32 = 1 << 22;
/// The maximum size of a PID file. A number and a line end take 8 bytes.
const PID_FILE_BYTES_MAX: u64 = 64;
/// The maximum size of an answer. An answer with 10,000 mistakes or 10,000 classes is shorter.
const ANSWER_BYTES_MAX: u64 = 8 << 20;
/// The maximum time between two parts of an answer. A stopped server (SIGSTOP) accepts the connection and sends
/// nothing.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);

impl Which {
    /// The process number of the server.
    pub fn pid(&self, command: &str) -> Result<u32, Failure> {
        match (self.pid, &self.pid_file) {
            (Some(pid), _) => Ok(pid),
            (None, Some(file)) => pid_in(file),
            (None, None) => the_only_one(&listed()?, command),
        }
    }

    /// The process number for a command that changes the server. If none is given, it is the user's own server
    /// ([`is_own`]).
    pub fn pid_to_change(&self, command: &str) -> Result<u32, Failure> {
        if self.pid.is_some() || self.pid_file.is_some() {
            return self.pid(command);
        }
        let all = listed()?;
        let own: Vec<u32> = all.iter().copied().filter(|pid| is_own(*pid)).collect();
        match (&own[..], &all[..]) {
            ([pid], _) => Ok(*pid),
            (_, []) => Err(none_runs()),
            ([], _) => {
                let said = "no server of this user was started from this folder, with it or with a file of it";
                Err(Failure::Usage(format!("{said}; choose one:{}", commands(command, &all))))
            }
            (several, _) => {
                let said = format!("{} servers of this user were started from this folder", several.len());
                Err(Failure::Usage(format!("{said}; choose one:{}", commands(command, several))))
            }
        }
    }

    /// Returns true if the arguments name no server.
    pub fn is_any(&self) -> bool {
        self.pid.is_none() && self.pid_file.is_none()
    }

    /// Selects the server with this process number.
    pub fn fixed(pid: u32) -> Which {
        Which { pid: Some(pid), pid_file: None }
    }

    /// Returns the process number, and the answer from the socket with this name. `command` is used in messages.
    pub fn ask(&self, name: &str, command: &str) -> Result<(u32, String), Failure> {
        let pid = self.pid(command)?;
        let answer = ask(pid, name, command)?;
        if answer.is_empty() {
            let said = format!("server {pid} ended, or is another user's: run `sudo weir {command} --pid {pid}`");
            return Err(Failure::Failed(said));
        }
        Ok((pid, answer))
    }
}

fn process(text: &str) -> Result<u32, String> {
    let pid = text.parse().ok().filter(|pid| (1..=PID_MAX).contains(pid));
    pid.ok_or_else(|| "expected a process number; `weir status` without --pid finds the servers here".into())
}

fn pid_in(file: &Path) -> Result<u32, Failure> {
    let name = file.display();
    let read = config::open(file).and_then(|file| std::io::read_to_string(file.take(PID_FILE_BYTES_MAX)));
    let text =
        read.map_err(|e| Failure::Failed(format!("cannot read {name}: {e}; expected a file with the number")))?;
    let wrong = || Failure::Failed(format!("{name}: `{}` is not the number of a process", cli::one_line(&text)));
    process(text.trim()).map_err(|_| wrong())
}

/// The servers in this network namespace.
pub fn servers_here() -> Vec<u32> {
    servers(&std::fs::read_to_string("/proc/self/net/unix").unwrap_or_default())
}

/// Returns the server that has taken over this one's sockets (`weir upgrade`).
pub fn successor_of(pid: u32) -> Option<u32> {
    let pid = pid.to_string();
    let is_named = |started: &Started| started.variables.iter().any(|(name, value)| name == VARIABLE && *value == *pid);
    servers_here().into_iter().find(|new| description(*new).is_ok_and(|(started, ..)| is_named(&started)))
}

fn listed() -> Result<Vec<u32>, Failure> {
    let listed = std::fs::read_to_string("/proc/self/net/unix");
    let unread = |e| Failure::Failed(format!("cannot read /proc/self/net/unix: {e}; name the server: --pid PID"));
    listed.map(|listed| servers(&listed)).map_err(unread)
}

fn none_runs() -> Failure {
    Failure::Failed("no server runs here; start one with `weir run FILE`, or see `pgrep -a weir`".into())
}

fn the_only_one(all: &[u32], command: &str) -> Result<u32, Failure> {
    match all {
        [pid] => Ok(*pid),
        [] => Err(none_runs()),
        several => {
            let said = format!("{} servers run; choose one:{}", several.len(), commands(command, several));
            Err(Failure::Usage(said))
        }
    }
}

/// Returns true for the user's own server: it runs as the same user, and was started in the current folder, or with
/// that folder or a file in it as an argument. Servers of other folders or users are changed only if they are named.
fn is_own(pid: u32) -> bool {
    let Ok((started, account, _)) = description(pid) else { return false };
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    account.user == rustix::process::geteuid().as_raw() && here.is_ok_and(|here| is_from(&started, &here))
}

fn is_from(started: &Started, here: &Path) -> bool {
    let named = started.words.iter().filter_map(|word| started.folder.join(word).canonicalize().ok());
    let is_here = |path: PathBuf| path == here || (path.is_file() && path.parent() == Some(here));
    started.folder == here || named.into_iter().any(is_here)
}

/// Returns a line for each server: a command to copy, and how the server was started.
fn commands(command: &str, pids: &[u32]) -> String {
    let own = rustix::process::geteuid();
    let line = |pid: &u32| {
        let described = description(*pid).ok();
        let unit = described.as_ref().filter(|_| command == "reload").and_then(|(started, ..)| unit(*pid, started));
        let words = match (unit, &described) {
            (Some(unit), _) => format!("systemctl reload {unit}"),
            (None, None) if !own.is_root() => format!("sudo weir {command} --pid {pid}"),
            _ => format!("weir {command} --pid {pid}"),
        };
        format!("\n  {words}{}", started_as(*pid))
    };
    pids.iter().map(line).collect()
}

/// The systemd unit of a server, if it has one.
fn unit(pid: u32, started: &Started) -> Option<String> {
    let is_service = started.variables.iter().any(|(name, _)| name == "NOTIFY_SOCKET");
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok().filter(|_| is_service)?;
    let group = groups.lines().find_map(|line| line.split_once(":/system.slice/"))?.1;
    group.ends_with(".service").then(|| group.to_string())
}

/// Returns the processes with a listening socket, each once; a connection has the name of its listener.
fn servers(listed: &str) -> Vec<u32> {
    let pids = listed.lines().filter_map(|line| line.rsplit('@').next()?.strip_prefix(NAME)?.trim().parse().ok());
    let mut pids: Vec<u32> = pids.collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Returns the command line of a process as a comment; empty if it cannot be read.
fn started_as(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    if words.trim().is_empty() { String::new() } else { format!("   # {}", cli::one_line(&words)) }
}

/// Connects and reads the answer. Any process can use the socket's name, so the peer's process number is checked.
fn ask(pid: u32, name: &str, command: &str) -> Result<String, Failure> {
    let unheard = |error: std::io::Error| {
        let why = match error.kind() {
            ErrorKind::ConnectionRefused => {
                format!("process {pid} is not a Weir server of this network namespace")
            }
            _ => format!("server {pid} cannot be queried: {error}"),
        };
        Failure::Failed(format!("{why}; `weir {command}` without --pid finds the servers that run here"))
    };
    let server = address(name, pid).and_then(|address| UnixStream::connect_addr(&address)).map_err(unheard)?;
    let peer = socket_peercred(&server).map_err(|error| unheard(error.into()))?;
    if peer.pid.as_raw_nonzero().get().cast_unsigned() != pid {
        let elsewhere = "it is in another container, where this command finds it, or another process has its name";
        return Err(unheard(std::io::Error::other(elsewhere)));
    }
    read_answer(server, ANSWER_WAIT_MAX).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => {
            let seconds = ANSWER_WAIT_MAX.as_secs();
            let said = format!("server {pid} has not answered for {seconds} s: if it is stopped (see `ps {pid}`)");
            Failure::Failed(format!("{said}, run `kill -CONT {pid}`, then `weir {command} --pid {pid}` again"))
        }
        _ => unheard(error),
    })
}

fn read_answer(server: UnixStream, wait_max: Duration) -> std::io::Result<String> {
    server.set_read_timeout(Some(wait_max))?;
    let mut answer = Vec::new();
    server.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_of_the_folder_that_it_was_started_from_or_with() {
        let base = std::env::temp_dir().canonicalize().unwrap().join(format!("weir-own-{}", std::process::id()));
        std::fs::create_dir_all(base.join("site/css")).unwrap();
        std::fs::create_dir_all(base.join("other")).unwrap();
        std::fs::write(base.join("site/weir.toml"), "").unwrap();
        let started = |folder: &str, word: &str| Started {
            by_root: false,
            folder: base.join(folder),
            words: vec!["run".into(), word.into()],
            variables: Vec::new(),
        };
        let of = |folder, word, here: &str| is_from(&started(folder, word), &base.join(here));
        assert!(of("site", "weir.toml", "site") && of("other", "../site/weir.toml", "site"));
        assert!(of("other", "../site/weir.toml", "other") && of("", "site", "site"), "from it, or with it");
        assert!(
            !of("other", "../site/weir.toml", "site/css")
                && !of("", "site/css", "site")
                && !of("site", "none", "other")
        );
        std::fs::remove_dir_all(&base).unwrap();
    }

    /// Exit status 2, as for a command that changes the server.
    #[test]
    fn a_server_that_is_not_named_among_several_is_a_mistake_of_usage() {
        let outcome = the_only_one(&[7, 8], "status");
        assert!(matches!(&outcome, Err(Failure::Usage(said)) if said.starts_with("2 servers run")), "{outcome:?}");
        assert!(matches!(the_only_one(&[], "status"), Err(Failure::Failed(_))));
        assert_eq!(the_only_one(&[7], "status").unwrap(), 7);
    }

    /// The commands used to wait for a stopped server without end.
    #[test]
    fn a_server_that_does_not_answer_is_not_waited_for_without_end() {
        let (silent, asker) = UnixStream::pair().unwrap();
        let error = read_answer(asker, Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        drop(silent);
        let (mut server, asker) = UnixStream::pair().unwrap();
        std::io::Write::write_all(&mut server, b"used\n").unwrap();
        drop(server);
        assert_eq!(read_answer(asker, Duration::from_secs(3600)).unwrap(), "used\n");
    }

    #[test]
    fn servers_are_found_among_the_sockets_of_a_machine() {
        let listed = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 27003 @weir-control-4321
0000000000000000: 00000003 00000000 00000000 0001 03 27004 @weir-control-4321
0000000000000000: 00000002 00000000 00010000 0001 01 27005 @weir-control-99
0000000000000000: 00000002 00000000 00010000 0001 01 27006 /run/weir-control-5
0000000000000000: 00000002 00000000 00010000 0001 01 27007 @weir-control-x
0000000000000000: 00000003 00000000 00000000 0001 03 27008
";
        assert_eq!(servers(listed), [99, 4321]);
        assert_eq!(servers(""), [0; 0]);
    }
}
