//! The protocol of sd_notify(3): datagrams of `NAME=VALUE` lines to the socket that NOTIFY_SOCKET names.
//!
//! The socket is connected once, at the start: as another user or in a folder that has gone its path may be out of reach. That
//! is why this is no crate: those at hand connect for every message.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How long a message may wait for room in the manager's queue; then it is lost.
const SEND_MAX: Duration = Duration::from_secs(1);
/// Of a line for the operator.
const STATUS_CHARS_MAX: usize = 1000;
/// Between the end of the responses and the end of the process, for the logs.
const STOP_SLACK: Duration = Duration::from_secs(5);

/// Tells the service manager how the service is.
#[derive(Debug)]
pub struct Notifier(Option<UnixDatagram>);

/// The manager's watchdog: unfed for this long, the service is restarted.
pub struct Watchdog {
    pub patience: Duration,
    pub feed: Box<dyn Fn() + Send + Sync>,
}

impl Notifier {
    /// One that tells nobody.
    pub fn absent() -> Notifier {
        Notifier(None)
    }

    /// By NOTIFY_SOCKET; without it nothing is ever sent.
    pub fn from_env() -> io::Result<Notifier> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(Notifier::absent()) };
        let name = name.into_encoded_bytes();
        let address = match name.split_first() {
            Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
            Some((b'/', _)) => {
                SocketAddr::from_pathname(Path::new(std::str::from_utf8(&name).map_err(io::Error::other)?))?
            }
            _ => return Err(io::Error::other("expected a path from a slash, or a name from `@`")),
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_write_timeout(Some(SEND_MAX))?;
        Ok(Notifier(Some(socket)))
    }

    /// Serving, with a line for the operator.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// From now on until [`Notifier::ready`]. The instant tells the manager that this answers its own signal, and none before.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32);
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros()));
    }

    /// Finishing what is under way, for so long at most.
    pub fn stopping(&self, at_most: Duration) {
        let wait = (at_most + STOP_SLACK).as_micros();
        self.send(&format!("STOPPING=1\nSTATUS=finishing responses\nEXTEND_TIMEOUT_USEC={wait}"));
    }

    /// Another process is the service from now on, and reports itself.
    pub fn is_followed_by(&self, pid: u32) {
        self.send(&format!("MAINPID={pid}"));
    }

    /// What the manager's watchdog wants, if this process has one.
    pub fn watchdog(&self) -> Option<Watchdog> {
        let socket = self.0.as_ref()?.try_clone().ok()?;
        let variable = |name| std::env::var(name).ok();
        let patience = patience(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id())?;
        let feed = Box::new(move || drop(socket.send(b"WATCHDOG=1")));
        Some(Watchdog { patience, feed })
    }

    /// A manager that does not listen changes nothing of serving.
    fn send(&self, message: &str) {
        if let Some(socket) = &self.0 {
            let _ = socket.send(message.as_bytes());
        }
    }
}

/// WATCHDOG_PID names the process that is meant.
fn patience(usec: Option<String>, pid: Option<String>, own: u32) -> Option<Duration> {
    let is_meant = pid.is_none_or(|pid| pid.parse() == Ok(own));
    let usec = usec?.parse().ok().filter(|&usec| usec > 0)?;
    is_meant.then(|| Duration::from_micros(usec))
}

/// As much of it as is read: of a file with ten thousand mistakes a datagram would not take all.
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
