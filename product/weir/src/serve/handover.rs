//! Hands the server over from one process to the next. The listening sockets are passed over a socket with the abstract
//! name `weir-upgrade-PID`, so that no client is refused.
//!
//! Each client sends one word. `describe` returns how this process was started, so that `weir upgrade` can start the
//! next one in the same way. `take` returns standard error and the sockets, one per record with its name, and then
//! `all`. The next process answers `ready` on the same connection once it can serve, and this one answers `go`. Until
//! it has sent `go`, this process continues to serve, whatever happens to the next one; after that the next one serves.
//! The next one also serves if this one ends before it has sent `go`: it has the sockets, and binds those that are
//! missing. The end of the connection does not prove that this process has ended: if it is still alive, it has given up
//! on the next process, which then ends.
//!
//! After `go`, the next process sends `reopen` whenever logs are rotated. A process with predecessors that still run
//! passes its connections to them on with the sockets.
//!
//! Each step has a time limit, and none of them keeps this process from serving or from answering other clients.

use std::ffi::OsString;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::cmsg_space;
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::sockopt::{self, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, sendmsg,
    shutdown, socket_with,
};
use server::service_manager::NamedSocket;

use super::before::Before;
use crate::process::Process;

/// The prefix of the socket's name, which the process number completes.
const NAME: &str = "weir-upgrade-";
/// The environment variable that names the process to take over from.
pub const VARIABLE: &str = "WEIR_PREDECESSOR";
const DESCRIBE: &[u8] = b"describe";
const TAKE: &[u8] = b"take";
const READY: &[u8] = b"ready";
const GO: &[u8] = b"go";
/// The record that is sent instead of the sockets while another process takes them. The number of that process follows.
const BUSY: &str = "busy ";
/// The last line that a new process prints for `weir upgrade`.
pub const SERVES: &str = "weir: it serves";
/// The name of the admin listener's socket. The next constant is that of standard error.
pub const ADMIN: &str = "weir-admin";
const STDERR: &str = "stderr";
/// The name of a connection to an earlier process that has not ended ([`Before`]).
pub const BEFORE: &str = "before";
/// The record after the last socket.
const ALL: &str = "all";
/// The time within which a client must send its word, and read each record.
const ASKER_MAX: Duration = Duration::from_secs(1);
/// The time within which the process that holds the sockets must answer. It may be busy reading its configuration.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The maximum time between `take` and `ready`, in which sites are opened and names resolved.
const READY_MAX: Duration = Duration::from_secs(60);
/// The maximum time between the end of a process's connection and its own end, because sockets are closed slightly
/// earlier.
const END_MAX: Duration = Duration::from_secs(5);
/// The maximum time until a new process serves, for all steps together. It is below the 90 s that a service manager
/// allows for a reload.
pub const START_MAX: Duration = Duration::from_secs(80);
const ASKERS_WAITING: i32 = 4;
const RECORD_BYTES: usize = 32 << 10;
/// Maximum size of a description: the kernel allows 2 MiB of arguments and environment.
const DESCRIPTION_BYTES_MAX: usize = 8 << 20;
/// The maximum number of sockets: those of 256 workers at 64 addresses, over TCP and UDP.
const SOCKETS_COUNT_MAX: usize = 2 * 64 * 256;
/// The maximum number of processes that are finishing their work.
const BEFORE_COUNT_MAX: usize = 64;

/// The user and the group of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    pub user: u32,
    pub group: u32,
}

impl Account {
    /// Returns the present account of a process. The credentials of a connection are those from when the process began
    /// to listen.
    fn of(pid: u32) -> io::Result<Account> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let effective = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().nth(1)?.parse().ok())
        };
        let unread = || io::Error::from(io::ErrorKind::InvalidData);
        Ok(Account { user: effective("Uid:").ok_or_else(unread)?, group: effective("Gid:").ok_or_else(unread)? })
    }
}

/// A process's description of how it was started. A description by another user is not trusted.
#[derive(Debug, PartialEq, Eq)]
pub struct Started {
    /// True if root started the process, regardless of its current user.
    pub by_root: bool,
    pub folder: PathBuf,
    /// The arguments, without the program.
    pub words: Vec<OsString>,
    pub variables: Vec<(OsString, OsString)>,
}

/// The side that has the sockets.
pub struct Handover {
    listener: OwnedFd,
    pending: Option<Pending>,
    by_root: bool,
    ready_max: Duration,
}

/// A process that has taken the sockets and is not ready yet.
struct Pending {
    pid: u32,
    connection: OwnedFd,
    due_at: Instant,
}

/// The process that serves from now on. When this connection ends, the successor knows that this process has ended.
pub struct Successor {
    pub pid: u32,
    connection: OwnedFd,
}

/// The process that served before.
pub struct Predecessor {
    pid: u32,
    process: Process,
    /// The connection; `None` if that process had ended before this one could connect.
    connection: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    /// Connections to the processes before that one.
    before: Vec<OwnedFd>,
}

impl Handover {
    pub fn open() -> io::Result<Handover> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&listener, &address(std::process::id())?)?;
        listen(&listener, ASKERS_WAITING)?;
        let by_root = rustix::process::geteuid().is_root();
        Ok(Handover { listener, pending: None, by_root, ready_max: READY_MAX })
    }

    /// The descriptors that become readable when a client connects or the process that has taken the sockets sends a
    /// record.
    pub fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.listener).chain(self.pending.iter().map(|pending| &pending.connection))
    }

    /// The time left for the process that has taken the sockets.
    pub fn time_left(&self) -> Option<Duration> {
        Some(self.pending.as_ref()?.due_at.saturating_duration_since(Instant::now()))
    }

    /// Reads from the process that has taken the sockets, then answers one client, passing it these sockets if it takes
    /// them. Returns the process that replaces this one, or a line about one that failed to.
    pub fn answer(
        &mut self,
        sockets: impl FnOnce() -> io::Result<Vec<NamedSocket>>,
    ) -> Result<Option<Successor>, String> {
        if let Some(pending) = self.pending.take()
            && let Some(successor) = self.hear(pending)?
        {
            return Ok(Some(successor));
        }
        let Ok(asker) = accept_with(&self.listener, SocketFlags::CLOEXEC) else { return Ok(None) };
        let own = rustix::process::geteuid();
        let Ok(peer) = socket_peercred(&asker) else { return Ok(None) };
        if !peer.uid.is_root() && peer.uid != own {
            return Ok(None);
        }
        match patient(&asker, ASKER_MAX).and_then(|()| receive(&asker)) {
            Ok(Some((word, _))) if word == DESCRIBE => {
                // An error means that the client has disconnected.
                let _ = self.describe(&asker);
            }
            Ok(Some((word, _))) if word == TAKE => {
                let pid = peer.pid.as_raw_nonzero().get().cast_unsigned();
                self.take(asker, pid, sockets).map_err(|error| format!("cannot hand the sockets over: {error}"))?;
            }
            _ => {}
        }
        Ok(None)
    }

    fn take(
        &mut self,
        connection: OwnedFd,
        pid: u32,
        sockets: impl FnOnce() -> io::Result<Vec<NamedSocket>>,
    ) -> io::Result<()> {
        if let Some(pending) = &self.pending {
            return send(&connection, format!("{BUSY}{}", pending.pid).as_bytes(), None);
        }
        give(&connection, sockets()?)?;
        self.pending = Some(Pending { pid, connection, due_at: Instant::now() + self.ready_max });
        Ok(())
    }

    fn hear(&mut self, pending: Pending) -> Result<Option<Successor>, String> {
        let pid = pending.pid;
        let what = match receive_with(&pending.connection, RecvFlags::DONTWAIT) {
            Ok(Some((word, _))) if word == READY && send(&pending.connection, GO, None).is_ok() => {
                return Ok(Some(Successor { pid, connection: pending.connection }));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < pending.due_at => {
                self.pending = Some(pending);
                return Ok(None);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                format!("was not ready within {} s of taking the sockets", self.ready_max.as_secs())
            }
            _ => "has ended before it took over".to_string(),
        };
        Err(format!("process {pid} {what}; this one serves on"))
    }

    fn describe(&self, asker: &OwnedFd) -> io::Result<()> {
        let started = Started {
            by_root: self.by_root,
            folder: std::env::current_dir()?,
            words: std::env::args_os().skip(1).collect(),
            variables: std::env::vars_os().collect(),
        };
        let stdout = io::stdout().as_fd().try_clone_to_owned()?;
        let text = started.to_bytes();
        let mut parts = text.chunks(RECORD_BYTES);
        send(asker, parts.next().unwrap_or_default(), Some(&stdout))?;
        parts.try_for_each(|part| send(asker, part, None))
    }
}

/// Sends standard error, then all sockets.
fn give(asker: &OwnedFd, sockets: Vec<NamedSocket>) -> io::Result<()> {
    send(asker, STDERR.as_bytes(), Some(&io::stderr().as_fd().try_clone_to_owned()?))?;
    sockets.iter().try_for_each(|one| send(asker, one.name.as_bytes(), Some(&one.socket)))?;
    send(asker, ALL.as_bytes(), None)
}

/// Returns a server's description of its start, its account according to the kernel, and its standard output.
pub fn description(pid: u32) -> io::Result<(Started, Account, Option<OwnedFd>)> {
    let connection = ask(pid, DESCRIBE)?;
    let account = Account::of(pid)?;
    let (mut text, mut stdout) = (Vec::new(), None);
    while let Some((part, descriptor)) = receive(&connection)? {
        text.extend(part);
        stdout = stdout.or(descriptor);
        if text.len() > DESCRIPTION_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    let started = Started::from_bytes(&text).ok_or(io::ErrorKind::InvalidData)?;
    Ok((started, account, stdout))
}

impl Successor {
    /// The connection on which the successor asks this process to reopen its logs ([`hear`](super::before::hear)).
    pub fn connection(&self) -> io::Result<OwnedFd> {
        self.connection.try_clone()
    }
}

impl Predecessor {
    /// Returns the process named in the environment, and its sockets: all of them, or those received so far if that
    /// process ends meanwhile.
    pub fn from_env() -> io::Result<Option<(Predecessor, Vec<NamedSocket>)>> {
        let Ok(pid) = std::env::var(VARIABLE) else { return Ok(None) };
        let pid = pid.parse().map_err(|_| io::Error::other("expected a process number"))?;
        // This process outlives the terminal of the operator who began the change.
        let _ = rustix::process::setsid();
        let process = Process::of(pid)?;
        let mut before = Predecessor { pid, process, connection: None, stderr: None, before: Vec::new() };
        match ask(pid, TAKE) {
            Ok(connection) => before.connection = Some(connection),
            Err(error) if is_end(&error) && before.process.ends_within(END_MAX) => {
                return Ok(Some((before, Vec::new())));
            }
            Err(error) => return Err(error),
        }
        let sockets = before.receive_all()?;
        Ok(Some((before, sockets)))
    }

    fn receive_all(&mut self) -> io::Result<Vec<NamedSocket>> {
        let connection = self.connection.as_ref().expect("it was asked for them");
        let mut sockets = Vec::new();
        loop {
            match receive(connection) {
                Ok(Some((name, None))) if name == ALL.as_bytes() => return Ok(sockets),
                Ok(Some((name, Some(stderr)))) if name == STDERR.as_bytes() => self.stderr = Some(stderr),
                // A version that sends standard error last does not wait for `go`: it would stop before this one serves.
                Ok(Some((_, Some(_)))) if self.stderr.is_none() => {
                    return Err(io::Error::other("its version hands over otherwise: restart it"));
                }
                Ok(Some((name, Some(process)))) if name == BEFORE.as_bytes() => {
                    self.before.push(process);
                    if self.before.len() > BEFORE_COUNT_MAX {
                        let many =
                            format!("{BEFORE_COUNT_MAX} processes before it finish what they have begun: end one");
                        return Err(io::Error::other(many));
                    }
                }
                Ok(Some((name, Some(socket)))) if sockets.len() < SOCKETS_COUNT_MAX => {
                    sockets.push(NamedSocket { name: String::from_utf8_lossy(&name).into_owned(), socket });
                }
                Ok(Some((said, _))) => return Err(refusal(&String::from_utf8_lossy(&said))),
                Ok(None) => break,
                Err(error) if is_end(&error) => break,
                Err(error) => return Err(unanswered(error, "has not sent its sockets")),
            }
        }
        match self.process.ends_within(END_MAX) {
            true => Ok(sockets),
            false => Err(io::Error::other("it could not hand its sockets over, and serves on")),
        }
    }

    /// Makes this process the one that serves, with the other one's standard error. After an error, the other one
    /// continues to serve.
    pub fn take_over(&mut self) -> io::Result<()> {
        if !self.is_left()? {
            eprintln!("weir: process {} has ended before it left its place; this one serves", self.pid);
        }
        // From here on nothing may fail. The command that began the change may have ended.
        let _ = writeln!(io::stderr(), "{SERVES}");
        if let Some(stderr) = self.stderr.take() {
            let _ = rustix::stdio::dup2_stderr(&stderr);
        }
        Ok(())
    }

    /// Returns true if that process yields to this one, and false if it has ended instead.
    fn is_left(&self) -> io::Result<bool> {
        let Some(connection) = &self.connection else { return Ok(false) };
        let answer = send(connection, READY, None).and_then(|()| receive_again(connection));
        match answer {
            Ok(Some((word, _))) if word == GO => Ok(true),
            // Records that it has sent are still read, and it can send no further ones.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                shutdown(connection, Shutdown::Both)?;
                match receive_with(connection, RecvFlags::DONTWAIT) {
                    Ok(Some((word, _))) if word == GO => Ok(true),
                    _ => Err(unanswered(error, "has not left its place")),
                }
            }
            Err(error) if !is_end(&error) => Err(error),
            _ if self.process.ends_within(END_MAX) => Ok(false),
            _ => Err(io::Error::other(format!("process {} has given this one up, and serves on", self.pid))),
        }
    }

    /// Returns that process, together with earlier ones that have not ended.
    pub fn into_before(self) -> Before {
        Before::new(self.connection.into_iter().chain(self.before))
    }
}

/// Returns true for the error of a closed or refused connection.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionRefused | ConnectionReset)
}

/// Returns the error, replaced by a sentence if it is a timeout.
fn unanswered(error: io::Error, what: &str) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(error.kind(), format!("it {what} within {} s, and keeps its place", ANSWER_MAX.as_secs()))
        }
        _ => error,
    }
}

fn refusal(said: &str) -> io::Error {
    let why = match said.strip_prefix(BUSY) {
        Some(other) => format!(
            "process {other} is taking over from it already, and has {} s for that: end process {other}, or try again then",
            READY_MAX.as_secs()
        ),
        None => format!("unexpected `{}` instead of its sockets", cli::one_line(said)),
    };
    io::Error::other(why)
}

fn address(pid: u32) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("{NAME}{pid}").as_bytes())?)
}

/// Connects and sends a word. Any process can use the socket's name, so the peer's process number is checked.
fn ask(pid: u32, word: &[u8]) -> io::Result<OwnedFd> {
    let connection = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // The limit covers connecting too, since other clients may wait to be accepted.
    patient(&connection, ANSWER_MAX)?;
    connect(&connection, &address(pid)?)?;
    if socket_peercred(&connection)?.pid.as_raw_nonzero().get().cast_unsigned() != pid {
        return Err(io::Error::other("another process has its name, or it is in another container"));
    }
    send(&connection, word, None)?;
    Ok(connection)
}

fn patient(connection: &OwnedFd, wait: Duration) -> io::Result<()> {
    sockopt::set_socket_timeout(connection, sockopt::Timeout::Recv, Some(wait))?;
    Ok(sockopt::set_socket_timeout(connection, sockopt::Timeout::Send, Some(wait))?)
}

fn send(connection: &OwnedFd, bytes: &[u8], descriptor: Option<&OwnedFd>) -> io::Result<()> {
    send_with(connection, bytes, descriptor, SendFlags::empty())
}

pub fn send_with(connection: &OwnedFd, bytes: &[u8], descriptor: Option<&OwnedFd>, flags: SendFlags) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = descriptor.into_iter().map(AsFd::as_fd).collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(connection, &[IoSlice::new(bytes)], &mut control, flags | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a record and the descriptor that came with it; `None` at the end.
fn receive(connection: &OwnedFd) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    receive_with(connection, RecvFlags::empty())
}

/// Receives like [`receive`], but tries again after an error: the first error may be about records that the other side
/// has not read.
fn receive_again(connection: &OwnedFd) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    match receive(connection) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => receive(connection),
        received => received,
    }
}

pub fn receive_with(connection: &OwnedFd, flags: RecvFlags) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    let mut bytes = vec![0; RECORD_BYTES];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(connection, &mut parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC)?.bytes;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor = descriptors.flatten().next();
    if received == 0 {
        return Ok(None);
    }
    bytes.truncate(received);
    Ok(Some((bytes, descriptor)))
}

impl Started {
    /// Writes numbers and then texts, each preceded by a null byte, which none of them contains.
    fn to_bytes(&self) -> Vec<u8> {
        let Started { by_root, folder, words, variables } = self;
        let mut text = format!("{by_root} {}", words.len()).into_bytes();
        let mut add = |part: &[u8]| {
            text.push(0);
            text.extend_from_slice(part);
        };
        add(folder.as_os_str().as_bytes());
        words.iter().for_each(|word| add(word.as_bytes()));
        variables.iter().for_each(|(name, value)| add(&[name.as_bytes(), b"=", value.as_bytes()].concat()));
        text
    }

    fn from_bytes(text: &[u8]) -> Option<Started> {
        let mut parts = text.split(|byte| *byte == 0);
        let numbers = std::str::from_utf8(parts.next()?).ok()?;
        let (by_root, count) = numbers.split_once(' ')?;
        let owned = |part: &[u8]| OsString::from_vec(part.to_vec());
        let folder = PathBuf::from(owned(parts.next()?));
        let count: usize = count.parse().ok()?;
        let words: Vec<OsString> = parts.by_ref().take(count).map(owned).collect();
        let variable = |part: &[u8]| {
            let at = part.iter().position(|byte| *byte == b'=')?;
            Some((owned(&part[..at]), owned(&part[at + 1..])))
        };
        let variables = parts.filter_map(variable).collect();
        Some(Started { by_root: by_root.parse().ok()?, folder, words, variables })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_was_started_is_read_as_it_was_written() {
        let pair = |name: &str, value: &str| (name.into(), value.into());
        let started = Started {
            by_root: true,
            folder: "/srv/a b".into(),
            words: vec!["run".into(), "".into(), OsString::from_vec(vec![0xff, b' '])],
            variables: vec![pair("A", "b=c"), pair("EMPTY", "")],
        };
        assert_eq!(Started::from_bytes(&started.to_bytes()), Some(started));
        for wrong in ["", "true", "3 4\0/", "true x\0/"] {
            assert_eq!(Started::from_bytes(wrong.as_bytes()), None, "{wrong}");
        }
    }

    fn pair() -> (OwnedFd, OwnedFd) {
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    fn pending(connection: OwnedFd, ready_max: Duration) -> Handover {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let pending = Some(Pending { pid: 7, connection, due_at: Instant::now() + ready_max });
        Handover { listener, pending, by_root: false, ready_max }
    }

    /// Ends this side, even while a process that another test has just forked holds a copy of it.
    fn end(side: &OwnedFd) {
        rustix::net::shutdown(side, rustix::net::Shutdown::Both).unwrap();
    }

    fn answer(handover: &mut Handover) -> Result<Option<Successor>, String> {
        handover.answer(|| panic!("nobody takes them twice"))
    }

    #[test]
    fn one_that_is_not_ready_yet_is_waited_for() {
        let (own, successor) = pair();
        let mut handover = pending(own, READY_MAX);
        assert!(answer(&mut handover).unwrap().is_none() && handover.pending.is_some());
        assert!(handover.time_left().is_some_and(|left| left <= READY_MAX));
        send(&successor, READY, None).unwrap();
        assert_eq!(answer(&mut handover).unwrap().map(|successor| successor.pid), Some(7));
        assert_eq!(receive(&successor).unwrap().unwrap().0, GO);
    }

    #[test]
    fn one_that_ends_or_takes_too_long_changes_nothing() {
        let (own, successor) = pair();
        let mut handover = pending(own, READY_MAX);
        end(&successor);
        assert_eq!(answer(&mut handover).err().unwrap(), "process 7 has ended before it took over; this one serves on");
        // It was ready, and has ended before it was let go.
        let (own, successor) = pair();
        let mut handover = pending(own, READY_MAX);
        send(&successor, READY, None).unwrap();
        end(&successor);
        assert!(answer(&mut handover).is_err() && handover.pending.is_none());

        let (own, successor) = pair();
        let mut handover = pending(own, Duration::ZERO);
        assert!(answer(&mut handover).err().unwrap().contains("was not ready within 0 s of taking the sockets"));
        assert!(handover.pending.is_none(), "others may take them");
        assert!(receive(&successor).unwrap().is_none(), "it is given up");
    }

    fn before(connection: OwnedFd, process: Process) -> Predecessor {
        Predecessor { pid: 7, process, connection: Some(connection), stderr: None, before: Vec::new() }
    }

    fn ended() -> Process {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        child.wait().unwrap();
        process
    }

    /// After each message the process that serves ends; the next one has what it was sent by then, and serves.
    #[test]
    fn the_next_process_serves_where_the_one_before_ends_at_any_step() {
        for sent in 0..4 {
            let (own, other) = pair();
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let mut before = before(own, ended());
            if sent > 0 {
                send(&other, STDERR.as_bytes(), Some(&listener.as_fd().try_clone_to_owned().unwrap())).unwrap();
            }
            if sent > 1 {
                send(&other, b"weir", Some(&listener.into())).unwrap();
            }
            if sent > 2 {
                send(&other, ALL.as_bytes(), None).unwrap();
            }
            drop(other);
            assert_eq!(before.receive_all().unwrap().len(), usize::from(sent > 1), "{sent} records");
            assert!(!before.is_left().unwrap(), "it has ended");
        }
        // What it has not read is no answer.
        let (own, other) = pair();
        send(&own, b"unread", None).unwrap();
        drop(other);
        assert!(!before(own, ended()).is_left().unwrap());
    }

    #[test]
    fn the_processes_before_that_one_go_over_too() {
        let (own, other) = pair();
        let stderr = io::stderr().as_fd().try_clone_to_owned().unwrap();
        give(
            &other,
            vec![
                NamedSocket { name: BEFORE.into(), socket: pair().0 },
                NamedSocket { name: "weir".into(), socket: stderr },
            ],
        )
        .unwrap();
        let mut before = before(own, ended());
        assert_eq!(before.receive_all().unwrap().len(), 1);
        assert_eq!(before.into_before().descriptors().len(), 2, "it has not ended either");
        let (own, other) = pair();
        let many = || NamedSocket { name: BEFORE.into(), socket: pair().0 };
        give(&other, (0..=BEFORE_COUNT_MAX).map(|_| many()).collect()).unwrap();
        let refused = self::before(own, ended()).receive_all().err().unwrap().to_string();
        assert!(refused.contains("64 processes before it") && refused.contains("end one"), "{refused}");
    }

    /// The end of a connection is no proof: a process that lives has given this one up.
    #[test]
    fn the_next_process_ends_where_the_one_before_serves_on() {
        let alive = || Process::of(std::process::id()).unwrap();
        let (own, other) = pair();
        drop(other);
        let mut before = before(own, alive());
        assert!(before.receive_all().err().unwrap().to_string().contains("serves on"));
        assert!(before.is_left().err().unwrap().to_string().contains("has given this one up, and serves on"));
        for (said, expected) in [("busy 12", "process 12 is taking over from it already"), ("x\ny", "unexpected `x y`")]
        {
            let (own, other) = pair();
            send(&other, said.as_bytes(), None).unwrap();
            let refused = self::before(own, alive()).receive_all().err().unwrap().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }

    /// It does not answer: it may still, until it no more can.
    #[test]
    fn a_place_that_is_not_left_in_time_is_kept() {
        let alive = || Process::of(std::process::id()).unwrap();
        let (own, other) = pair();
        patient(&own, Duration::from_millis(1)).unwrap();
        let before = before(own, alive());
        assert!(before.is_left().err().unwrap().to_string().contains("keeps its place"));
        assert_eq!(receive(&other).unwrap().unwrap().0, READY);
        assert!(send(&other, GO, None).is_err(), "nobody would hear it");
    }

    #[test]
    fn an_account_is_what_the_kernel_says() {
        let own = Account { user: rustix::process::geteuid().as_raw(), group: rustix::process::getegid().as_raw() };
        assert_eq!(Account::of(std::process::id()).unwrap(), own);
        assert!(Account::of(u32::MAX).is_err());
    }

    #[test]
    fn a_socket_goes_over_with_its_name() {
        let (one, other) = pair();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        send(&one, b"weir", Some(&listener.into())).unwrap();
        send(&one, b"no socket", None).unwrap();
        drop(one);
        let (name, socket) = receive(&other).unwrap().unwrap();
        let taken = std::net::TcpListener::from(socket.unwrap());
        assert_eq!((name, taken.local_addr().unwrap()), (b"weir".to_vec(), address));
        let (name, socket) = receive(&other).unwrap().unwrap();
        assert!(name == b"no socket" && socket.is_none());
        assert!(receive(&other).unwrap().is_none(), "the end");
    }
}
