//! The server that a command asks: found by its number, a file with it, or as the only one that runs.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use cli::Failure;
use rustix::net::sockopt::socket_peercred;

use crate::serve::control::{NAME, address};

#[derive(Debug, clap::Args)]
pub struct Which {
    /// Process of the server [default: the only one that runs]
    #[arg(long, value_name = "PID", value_parser = process)]
    pid: Option<u32>,
    /// File with the number of that process, as a supervisor writes it
    #[arg(long, value_name = "FILE", conflicts_with = "pid")]
    pid_file: Option<PathBuf>,
}

/// PID_MAX_LIMIT of the kernel.
const PID_MAX: u32 = 1 << 22;
/// An answer with 10,000 mistakes, or of 10,000 classes, is shorter.
const ANSWER_BYTES_MAX: u64 = 8 << 20;

impl Which {
    /// By a word: the number of its process, or a file with that.
    pub fn of(server: Option<&str>) -> Which {
        let pid = server.and_then(|word| word.parse().ok());
        Which { pid, pid_file: server.filter(|_| pid.is_none()).map(PathBuf::from) }
    }

    /// The number of its process.
    pub fn pid(&self, command: &str) -> Result<u32, Failure> {
        match (self.pid, &self.pid_file) {
            (Some(pid), _) => Ok(pid),
            (None, Some(file)) => pid_in(file),
            (None, None) => the_only_one(command),
        }
    }

    /// The same server from now on.
    pub fn fixed(pid: u32) -> Which {
        Which { pid: Some(pid), pid_file: None }
    }

    /// The server, and its answer on the socket of this name; `command` is that of the asker.
    pub fn ask(&self, name: &str, command: &str) -> Result<(u32, String), Failure> {
        let pid = self.pid(command)?;
        let answer = ask(pid, name, command)?;
        if answer.is_empty() {
            let said =
                format!("server {pid} ended, or is another user's: run `sudo weir {command} {}`", named(command, pid));
            return Err(Failure::Failed(said));
        }
        Ok((pid, answer))
    }
}

fn process(text: &str) -> Result<u32, String> {
    let pid = text.parse().ok().filter(|pid| (1..=PID_MAX).contains(pid));
    pid.ok_or_else(|| "expected the number of a process; `weir status` without --pid finds those that run here".into())
}

fn pid_in(file: &Path) -> Result<u32, Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| Failure::Failed(format!("cannot read {name}: {e}")))?;
    let wrong = || Failure::Failed(format!("{name}: `{}` is not the number of a process", cli::one_line(&text)));
    process(text.trim()).map_err(|_| wrong())
}

/// Those of this network namespace.
pub fn servers_here() -> Vec<u32> {
    servers(&std::fs::read_to_string("/proc/self/net/unix").unwrap_or_default())
}

fn the_only_one(command: &str) -> Result<u32, Failure> {
    let listed = std::fs::read_to_string("/proc/self/net/unix");
    let listed =
        listed.map_err(|e| Failure::Failed(format!("cannot read /proc/self/net/unix: {e}; name it: --pid PID")))?;
    match servers(&listed)[..] {
        [pid] => Ok(pid),
        [] => {
            Err(Failure::Failed("no server runs here; start one with `weir run FILE`, or see `pgrep -a weir`".into()))
        }
        ref several => {
            let known: Vec<String> = several
                .iter()
                .map(|pid| format!("\n  weir {command} {}{}", named(command, *pid), started_as(*pid)))
                .collect();
            Err(Failure::Failed(format!("{} servers run; choose one:{}", several.len(), known.concat())))
        }
    }
}

/// How a command is told which server.
fn named(command: &str, pid: u32) -> String {
    if command.starts_with("uplink") { pid.to_string() } else { format!("--pid {pid}") }
}

/// The processes whose sockets listen, each once: a connection has the name of its listener.
fn servers(listed: &str) -> Vec<u32> {
    let pids = listed.lines().filter_map(|line| line.rsplit('@').next()?.strip_prefix(NAME)?.trim().parse().ok());
    let mut pids: Vec<u32> = pids.collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// What it was started with, where that can be read.
fn started_as(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    if words.trim().is_empty() { String::new() } else { format!("   # {}", cli::one_line(&words)) }
}

/// Anybody can take a name; only the process itself has its number.
fn ask(pid: u32, name: &str, command: &str) -> Result<String, Failure> {
    let unheard = |error: std::io::Error| {
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => {
                format!("process {pid} is no Weir server of this network namespace")
            }
            _ => format!("server {pid} cannot be asked: {error}"),
        };
        Failure::Failed(format!("{why}; `weir {command}` without --pid finds those that run here"))
    };
    let server = address(name, pid).and_then(|address| UnixStream::connect_addr(&address)).map_err(unheard)?;
    let peer = socket_peercred(&server).map_err(|error| unheard(error.into()))?;
    if peer.pid.as_raw_nonzero().get().cast_unsigned() != pid {
        let elsewhere = "it is in another container, where this command finds it, or another process has its name";
        return Err(unheard(std::io::Error::other(elsewhere)));
    }
    let mut answer = Vec::new();
    match server.take(ANSWER_BYTES_MAX).read_to_end(&mut answer) {
        Ok(_) => Ok(String::from_utf8_lossy(&answer).into_owned()),
        Err(error) => Err(unheard(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
