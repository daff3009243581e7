//! From one process to the next: listening sockets go over the socket with the abstract name `weir-upgrade-PID`, so no client is refused.
//!
//! Each asker sends one word. `describe`: how this process was started, for `weir upgrade`, which starts the next one so. `take`: the
//! sockets, one in each record with its name, then standard error; the next process says `ready` on the same connection when it serves, and
//! reads there when this one has ended. Until `ready` this process serves on, whatever becomes of the next.

use std::ffi::OsString;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::sockopt::{self, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, sendmsg,
    socket_with,
};
use server::service::NamedSocket;

/// What the socket's name begins with; the process follows.
const NAME: &str = "weir-upgrade-";
/// The environment variable that names the process to take over from.
pub const VARIABLE: &str = "WEIR_PREDECESSOR";
const DESCRIBE: &[u8] = b"describe";
const TAKE: &[u8] = b"take";
const READY: &[u8] = b"ready";
/// The last line of a new process to `weir upgrade`.
pub const SERVES: &str = "weir: it serves";
/// The name of the socket of `server.admin`, and of standard error.
pub const ADMIN: &str = "weir-admin";
const STDERR: &str = "stderr";
/// How long an asker may take.
const ASKER_MAX: Duration = Duration::from_secs(1);
/// How long the process before may take to send its sockets.
const SOCKETS_MAX: Duration = Duration::from_secs(10);
const ASKERS_WAITING: i32 = 4;
const RECORD_BYTES: usize = 32 << 10;
/// Of a description: the kernel allows arguments and environment of two.
const DESCRIPTION_BYTES_MAX: usize = 8 << 20;
/// As many as 256 workers have at 64 addresses, over TCP and UDP.
const SOCKETS_COUNT_MAX: usize = 2 * 64 * 256;

/// As whom a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    pub user: u32,
    pub group: u32,
}

impl Account {
    /// As it is by now: a connection knows what it was when it began to listen.
    fn of(pid: u32) -> io::Result<Account> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let effective = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().nth(1)?.parse().ok())
        };
        let unread = || io::Error::from(io::ErrorKind::InvalidData);
        Ok(Account { user: effective("Uid:").ok_or_else(unread)?, group: effective("Gid:").ok_or_else(unread)? })
    }
}

/// How a process was started, by its own account: another user's is not to be believed.
#[derive(Debug, PartialEq, Eq)]
pub struct Started {
    /// By root, whoever it is now.
    pub by_root: bool,
    pub folder: PathBuf,
    /// Without the program.
    pub words: Vec<OsString>,
    pub variables: Vec<(OsString, OsString)>,
}

/// The side that has the sockets.
pub struct Handover {
    listener: OwnedFd,
    /// It has taken the sockets, and is not ready yet.
    successor: Option<OwnedFd>,
    by_root: bool,
}

/// The process that serves from now on. It is told of the end of this one by the end of this connection.
pub struct Successor {
    pub pid: u32,
    _connection: OwnedFd,
}

/// The process that served before.
pub struct Predecessor {
    connection: OwnedFd,
    stderr: Option<OwnedFd>,
}

impl Handover {
    pub fn open() -> io::Result<Handover> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&listener, &address(std::process::id())?)?;
        listen(&listener, ASKERS_WAITING)?;
        Ok(Handover { listener, successor: None, by_root: rustix::process::geteuid().is_root() })
    }

    /// What tells of askers, or of the one that is to be ready: others wait for it.
    pub fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(self.successor.as_ref().unwrap_or(&self.listener))
    }

    /// Answers who asks, with these sockets if they are taken. Gives the process that is ready to serve in place of this one, or a line
    /// about one that is not.
    pub fn answer(
        &mut self,
        sockets: impl FnOnce() -> io::Result<Vec<NamedSocket>>,
    ) -> Result<Option<Successor>, String> {
        if let Some(connection) = self.successor.take() {
            return self.hear(connection);
        }
        let Ok(asker) = accept_with(&self.listener, SocketFlags::CLOEXEC) else { return Ok(None) };
        let own = rustix::process::geteuid();
        if !socket_peercred(&asker).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own) {
            return Ok(None);
        }
        let asked = patient(&asker, ASKER_MAX).and_then(|()| receive(&asker));
        match asked {
            Ok(Some((word, _))) if word == DESCRIBE => {
                // One that has gone need not know.
                let _ = self.describe(&asker);
            }
            Ok(Some((word, _))) if word == TAKE => match sockets().and_then(|sockets| give(&asker, sockets)) {
                Ok(()) => self.successor = Some(asker),
                Err(error) => return Err(format!("cannot hand the sockets over: {error}")),
            },
            _ => {}
        }
        Ok(None)
    }

    fn hear(&mut self, connection: OwnedFd) -> Result<Option<Successor>, String> {
        let pid = socket_peercred(&connection).map_or(0, |peer| peer.pid.as_raw_nonzero().get().cast_unsigned());
        match receive_with(&connection, RecvFlags::DONTWAIT) {
            Ok(Some((word, _))) if word == READY => return Ok(Some(Successor { pid, _connection: connection })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.successor = Some(connection);
                return Ok(None);
            }
            _ => {}
        }
        Err(format!("process {pid} did not take over; this one serves on"))
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

/// All sockets, and standard error.
fn give(asker: &OwnedFd, sockets: Vec<NamedSocket>) -> io::Result<()> {
    sockets.iter().try_for_each(|one| send(asker, one.name.as_bytes(), Some(&one.socket)))?;
    send(asker, STDERR.as_bytes(), Some(&io::stderr().as_fd().try_clone_to_owned()?))
}

/// How a server says that it was started, as whom the kernel knows it, and its standard output.
pub fn description(pid: u32) -> io::Result<(Started, Account, Option<OwnedFd>)> {
    let connection = ask(pid, DESCRIBE, ASKER_MAX)?;
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

impl Predecessor {
    /// The process that the environment names, and its sockets.
    pub fn from_env() -> io::Result<Option<(Predecessor, Vec<NamedSocket>)>> {
        let pid = std::env::var(VARIABLE).ok();
        let Some(pid) = pid else { return Ok(None) };
        let pid = pid.parse().map_err(|_| io::Error::other("expected the number of a process"))?;
        // It outlives the terminal of whoever began the change.
        let _ = rustix::process::setsid();
        let connection = ask(pid, TAKE, SOCKETS_MAX)?;
        let mut sockets = Vec::new();
        while let Some((name, Some(socket))) = receive(&connection)? {
            if name == STDERR.as_bytes() {
                return Ok(Some((Predecessor { connection, stderr: Some(socket) }, sockets)));
            }
            if sockets.len() >= SOCKETS_COUNT_MAX {
                break;
            }
            sockets.push(NamedSocket { name: String::from_utf8_lossy(&name).into_owned(), socket });
        }
        Err(io::Error::other("it ended before its sockets were here"))
    }

    /// This process serves; from now on it says what it has to say where that one did.
    pub fn tell_ready(&mut self) -> io::Result<()> {
        send(&self.connection, READY, None)?;
        // From here on nothing may fail: the other process ends. Whoever began the change may be gone.
        let _ = writeln!(io::stderr(), "{SERVES}");
        if let Some(stderr) = self.stderr.take() {
            let _ = rustix::stdio::dup2_stderr(&stderr);
        }
        Ok(())
    }

    /// Readable when that process has ended.
    pub fn end(&self) -> &OwnedFd {
        &self.connection
    }
}

fn address(pid: u32) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("{NAME}{pid}").as_bytes())?)
}

/// Anybody can take a name; only the process itself has its number.
fn ask(pid: u32, word: &[u8], wait: Duration) -> io::Result<OwnedFd> {
    let connection = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    connect(&connection, &address(pid)?)?;
    if socket_peercred(&connection)?.pid.as_raw_nonzero().get().cast_unsigned() != pid {
        return Err(io::Error::other("another process has its name, or it is in another container"));
    }
    patient(&connection, wait)?;
    send(&connection, word, None)?;
    Ok(connection)
}

fn patient(connection: &OwnedFd, wait: Duration) -> io::Result<()> {
    sockopt::set_socket_timeout(connection, sockopt::Timeout::Recv, Some(wait))?;
    Ok(sockopt::set_socket_timeout(connection, sockopt::Timeout::Send, Some(wait))?)
}

fn send(connection: &OwnedFd, bytes: &[u8], descriptor: Option<&OwnedFd>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = descriptor.into_iter().map(AsFd::as_fd).collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(connection, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A record and the descriptor that came with it; `None` at the end.
fn receive(connection: &OwnedFd) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    receive_with(connection, RecvFlags::empty())
}

fn receive_with(connection: &OwnedFd, flags: RecvFlags) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
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
    /// Numbers, then texts, each behind a null byte, which none of them has.
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

    /// Whoever connects meanwhile waits, and the process that has the sockets is heard when it is ready.
    #[test]
    fn one_that_is_not_ready_yet_is_waited_for() {
        let pair =
            || rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let (listener, _other) = pair();
        let (own, successor) = pair();
        let mut handover = Handover { listener, successor: Some(own), by_root: false };
        assert_eq!(handover.descriptors().count(), 1, "the listener is not looked at");
        let asked = handover.answer(|| panic!("nobody takes them twice")).unwrap();
        assert!(asked.is_none() && handover.successor.is_some());
        send(&successor, READY, None).unwrap();
        let ready = handover.answer(|| panic!("nobody takes them twice")).unwrap();
        assert_eq!(ready.map(|successor| successor.pid), Some(std::process::id()));
        let (own, successor) = pair();
        handover.successor = Some(own);
        drop(successor);
        assert!(handover.answer(|| panic!("nobody takes them twice")).is_err(), "it has ended");
        assert!(handover.successor.is_none());
    }

    #[test]
    fn an_account_is_what_the_kernel_says() {
        let own = Account { user: rustix::process::geteuid().as_raw(), group: rustix::process::getegid().as_raw() };
        assert_eq!(Account::of(std::process::id()).unwrap(), own);
        assert!(Account::of(u32::MAX).is_err());
    }

    #[test]
    fn a_socket_goes_over_with_its_name() {
        let (one, other) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
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
