//! The protocol of sd_notify(3): datagrams of `NAME=VALUE` lines to the socket that NOTIFY_SOCKET names.
//!
//! The socket is connected once, at the start: later its path may be inaccessible, because the server has become
//! another user or the folder is gone. The available crates are not used, because all of them connect again for every
//! message.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The maximum time that a message waits for room in the manager's queue before it is dropped.
const SEND_MAX: Duration = Duration::from_secs(1);
/// The maximum length of a line for the operator.
const STATUS_CHARS_MAX: usize = 1000;
/// The time allowed for the logs, between the end of the responses and the end of the process.
const STOP_SLACK: Duration = Duration::from_secs(5);

/// Notifies the service manager of the state of the service.
#[derive(Debug)]
pub struct Notifier(Option<UnixDatagram>);

/// The manager's watchdog, which restarts the service if it receives no sign of life for this long.
pub struct Watchdog {
    pub patience: Duration,
    pub feed: Box<dyn Fn() + Send + Sync>,
}

impl Notifier {
    /// A notifier that sends nothing.
    pub fn absent() -> Notifier {
        Notifier(None)
    }

    /// Connects to NOTIFY_SOCKET; if it is not set, nothing is ever sent.
    pub fn from_env() -> io::Result<Notifier> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(Notifier::absent()) };
        let name = name.into_encoded_bytes();
        let address = match name.split_first() {
            Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
            Some((b'/', _)) => {
                SocketAddr::from_pathname(Path::new(std::str::from_utf8(&name).map_err(io::Error::other)?))?
            }
            _ => {
                return Err(io::Error::other(
                    "expected a path that begins with a slash, or a name that begins with \
                `@`",
                ));
            }
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_write_timeout(Some(SEND_MAX))?;
        Ok(Notifier(Some(socket)))
    }

    /// Reports that the service is ready, with a line for the operator.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// Reports that the service is reloading, until [`Notifier::ready`]. The timestamp tells the manager that this
    /// message answers its latest signal and not an earlier one.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32);
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros()));
    }

    /// Reports that responses in progress are being finished, for at most `at_most`.
    pub fn stopping(&self, at_most: Duration) {
        let wait = (at_most + STOP_SLACK).as_micros();
        self.send(&format!("STOPPING=1\nSTATUS=finishing responses\nEXTEND_TIMEOUT_USEC={wait}"));
    }

    /// Reports that another process is now the service. That process sends its own reports.
    pub fn is_followed_by(&self, pid: u32) {
        self.send(&format!("MAINPID={pid}"));
    }

    /// Returns the manager's watchdog, if this process has one.
    pub fn watchdog(&self) -> Option<Watchdog> {
        let socket = self.0.as_ref()?.try_clone().ok()?;
        let variable = |name| std::env::var(name).ok();
        let patience = patience(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id())?;
        let feed = Box::new(move || drop(socket.send(b"WATCHDOG=1")));
        Some(Watchdog { patience, feed })
    }

    /// Sends a message and ignores errors: serving must not depend on whether the manager listens.
    fn send(&self, message: &str) {
        if let Some(socket) = &self.0 {
            let _ = socket.send(message.as_bytes());
        }
    }
}

/// Returns the watchdog's timeout, unless WATCHDOG_PID names another process.
fn patience(usec: Option<String>, pid: Option<String>, own: u32) -> Option<Duration> {
    let is_meant = pid.is_none_or(|pid| pid.parse() == Ok(own));
    let usec = usec?.parse().ok().filter(|&usec| usec > 0)?;
    is_meant.then(|| Duration::from_micros(usec))
}

/// Joins the lines and truncates the result: the errors of a large configuration would not fit into a datagram.
fn one_line(text: &str) -> String {
    let line = text.lines().collect::<Vec<_>>().join("; ");
    match line.char_indices().nth(STATUS_CHARS_MAX) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_is_of_the_process_that_it_names() {
        let of = |usec: &str, pid: Option<&str>| patience(Some(usec.into()), pid.map(Into::into), 7);
        assert_eq!(of("30000000", None), Some(Duration::from_secs(30)));
        assert_eq!(of("30000000", Some("7")), Some(Duration::from_secs(30)));
        for (usec, pid) in [("30000000", Some("8")), ("30000000", Some("x")), ("0", None), ("-1", None), ("", None)] {
            assert_eq!(of(usec, pid), None, "{usec} {pid:?}");
        }
        assert_eq!(patience(None, None, 7), None);
    }

    #[test]
    fn a_status_is_one_line_of_bounded_length() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        Notifier(Some(ours)).ready("a\nREADY=0\n");
        let mut bytes = [0; 64];
        let count = theirs.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"READY=1\nSTATUS=a; READY=0");
        assert_eq!(one_line(&"ä".repeat(STATUS_CHARS_MAX)), "ä".repeat(STATUS_CHARS_MAX));
        assert_eq!(one_line(&"ä\n".repeat(1 << 20)).chars().count(), STATUS_CHARS_MAX + 3);
    }
}
