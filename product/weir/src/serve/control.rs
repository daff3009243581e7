//! Where `weir reload` asks: a socket with the abstract name `weir-control-PID`, which needs no folder to write to, is listed by the
//! kernel, and is gone with its process. Root and the server's own user may ask.
//!
//! A connection gets one answer: `used` or `unused`, and lines for the operator; then it is closed.

use std::io::{ErrorKind, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;

use super::events::Outcome;

/// What names begin with; the process follows.
pub const NAME: &str = "weir-control-";
/// The first line of an answer.
pub const USED: &str = "used";
pub const UNUSED: &str = "unused";
/// Answers in one go; who still waits is asked for in the next.
const ANSWERS_MAX: usize = 16;
/// How long an asker may take to read an answer, which fits in its socket.
const WRITE_MAX: Duration = Duration::from_secs(1);

/// Without a descriptor for an asker.
const SHORTAGE_FOR: Duration = Duration::from_secs(1);

pub struct Control(UnixListener);

/// The name of a server's socket.
pub fn address(pid: u32) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{NAME}{pid}"))
}

impl Control {
    /// Or a line that says why not.
    pub fn open() -> Result<Control, String> {
        let listener = address(std::process::id()).and_then(|address| {
            let listener = UnixListener::bind_addr(&address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        listener.map(Control).map_err(|error| format!("`weir reload` does not reach this server: {error}; SIGHUP does"))
    }

    pub fn listener(&self) -> &UnixListener {
        &self.0
    }

    /// Whoever asks now. Several at once share one reload, which begins after the last of them asked.
    pub fn answer(&self, reload: impl Fn() -> Outcome) {
        let accepted = std::iter::from_fn(|| self.accept()).take(ANSWERS_MAX);
        let askers: Vec<UnixStream> = accepted.filter(may_ask).collect();
        if askers.is_empty() {
            return;
        }
        let Outcome { is_used, lines } = reload();
        let answer = format!("{}\n{}\n", if is_used { USED } else { UNUSED }, lines.join("\n"));
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
