//! Where `weir reload`, `weir status` and `weir status --routes` ask: sockets with the abstract names `weir-control-PID`, `weir-status-PID` and
//! `weir-routes-PID`, which need no folder to write to, are listed by the kernel, and are gone with their process. Root and the server's own
//! user may ask.
//!
//! A connection gets one answer, and is closed: on the first `used`, `unused` or `fixed` and lines for the operator, on the others an object of JSON.
//! Nothing is read of an asker, so nobody waits for one, and to ask for the status is never to reload.

use std::io::{ErrorKind, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;

/// What names begin with; the process follows.
pub const NAME: &str = "weir-control-";
pub const STATUS_NAME: &str = "weir-status-";
pub const ROUTES_NAME: &str = "weir-routes-";
/// The first line of an answer.
pub const USED: &str = "used";
pub const UNUSED: &str = "unused";
/// As that, and another process would use it.
pub const FIXED: &str = "fixed";
/// Answers in one go; who still waits is asked for in the next.
const ANSWERS_MAX: usize = 16;
/// How long an asker may take to read an answer, which fits in its socket unless there are thousands of classes.
const WRITE_MAX: Duration = Duration::from_secs(1);

/// Without a descriptor for an asker.
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

    /// Whoever asks now. Several at once share one answer, which is made after the last of them asked.
    pub fn answer(&self, answer: impl FnOnce() -> String) {
        let accepted = std::iter::from_fn(|| self.accept()).take(ANSWERS_MAX);
        let askers: Vec<UnixStream> = accepted.filter(may_ask).collect();
        if askers.is_empty() {
            return;
        }
        let answer = answer();
        for mut asker in askers {
            // One that has gone need not know.
            let _ = asker.set_write_timeout(Some(WRITE_MAX)).and_then(|()| asker.write_all(answer.as_bytes()));
        }
    }

    /// One that cannot be accepted waits, and we with it: it would have us look for it again at once.
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
