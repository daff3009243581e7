//! The sockets for `weir reload`, `weir status` and `weir status --routes`. Their abstract names `weir-control-PID`,
//! `weir-status-PID` and
//! `weir-routes-PID` need no writable folder, are listed by the kernel, and end with their process. Root and the
//! server's own user may connect.
//!
//! A connection gets one answer and is closed. The first socket sends `used`, `unused` or `fixed` and lines for the
//! operator; the others send a JSON object. Nothing is read from a client, so the server never waits for one, and a
//! status request cannot cause a reload.

use std::io::{ErrorKind, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;

/// The prefixes of the sockets' names, which the process number completes.
pub const NAME: &str = "weir-control-";
pub const STATUS_NAME: &str = "weir-status-";
pub const ROUTES_NAME: &str = "weir-routes-";
/// The first line of an answer.
pub const USED: &str = "used";
pub const UNUSED: &str = "unused";
/// The configuration was not used, as with [`UNUSED`], but a new process would use it.
pub const FIXED: &str = "fixed";
/// The maximum number of clients that share an answer; others wait for the next answer.
const ANSWERS_MAX: usize = 16;
/// The maximum time for which a client may take to read an answer. The answer fits into its socket buffer unless there
/// are thousands of classes.
const WRITE_MAX: Duration = Duration::from_secs(1);

/// The pause if there is no descriptor left for a client.
const SHORTAGE_FOR: Duration = Duration::from_secs(1);

pub struct Control(UnixListener);

/// The name of a server's socket.
pub fn address(name: &str, pid: u32) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{name}{pid}"))
}

impl Control {
    pub fn open(name: &str) -> std::io::Result<Control> {
        let listener = UnixListener::bind_addr(&address(name, std::process::id())?)?;
        listener.set_nonblocking(true)?;
        Ok(Control(listener))
    }

    pub fn listener(&self) -> &UnixListener {
        &self.0
    }

    /// Answers the waiting clients. Several clients share one answer, which is made after the last of them has
    /// connected.
    pub fn answer(&self, answer: impl FnOnce() -> String) {
        let accepted = std::iter::from_fn(|| self.accept()).take(ANSWERS_MAX);
        let askers: Vec<UnixStream> = accepted.filter(may_ask).collect();
        if askers.is_empty() {
            return;
        }
        let answer = answer();
        for mut asker in askers {
            // An error means that the client has disconnected.
            let _ = asker.set_write_timeout(Some(WRITE_MAX)).and_then(|()| asker.write_all(answer.as_bytes()));
        }
    }

    /// Accepts a client. If that fails, the thread sleeps, because the socket stays readable.
    fn accept(&self) -> Option<UnixStream> {
        match self.0.accept() {
            Ok((asker, _)) => Some(asker),
            Err(error) => {
                if error.kind() != ErrorKind::WouldBlock {
                    std::thread::sleep(SHORTAGE_FOR);
                }
                None
            }
        }
    }
}

fn may_ask(asker: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    socket_peercred(asker).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}
