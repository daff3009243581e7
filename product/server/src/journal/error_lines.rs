//! Counts failures of clients and files. Each kind of failure has its own line in the error log, which is written at
//! limited intervals.

use std::fmt::Display;

use units::Nanos;

/// The minimum interval between two log lines of the same kind.
const LOG_EVERY: Nanos = Nanos::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tls,
    Http2,
    Http3,
    /// Requests that HTTP/2 or HTTP/3 clients must repeat, because the server is full.
    Crowded,
    /// Connections closed because memory was short.
    Memory,
    /// New connections that have to wait because memory is short.
    Newcomers,
    /// Responses that were ended because their readers are too slow.
    Stalled,
    /// Files that cannot be read or that became shorter.
    Unreadable,
    /// Bodies whose length differs from the announced one.
    Length,
    /// Requests that upstreams do not answer.
    Upstream,
    /// Lines that programs wrote to their error streams.
    Program,
    /// Forwarding fields of trusted proxies that contain no address.
    Forwarded,
    /// Responses that could not be written to a spool file.
    Spool,
    /// Connections without a valid PROXY protocol header.
    ProxyHeader,
    /// Responses broken by a bug in this program.
    Internal,
}

impl Kind {
    /// Returns the kind of frame errors for this version of HTTP.
    pub fn of_frames((major, _): (u8, u8)) -> Kind {
        if major == 3 { Kind::Http3 } else { Kind::Http2 }
    }
}

/// The start of each kind's line, in the order in which the kinds are logged.
const BEGINNINGS: [(Kind, &str); 15] = [
    (Kind::Tls, "TLS failed with"),
    (Kind::Http2, "HTTP/2 ended with"),
    (Kind::Http3, "HTTP/3 ended with"),
    (Kind::Crowded, "no room for more requests of"),
    (Kind::Memory, "memory is short, ended"),
    (Kind::Newcomers, "memory is short, new connections wait:"),
    (Kind::Stalled, "response cut:"),
    (Kind::Unreadable, "cannot read"),
    (Kind::Length, "response cut off, its body did not have the announced length, to"),
    (Kind::Upstream, "no response from upstream"),
    (Kind::Program, "a program of upstream"),
    (Kind::Forwarded, "X-Forwarded-For or Forwarded of"),
    (Kind::Spool, "cannot spool a response, its upstream waits for the client:"),
    (Kind::ProxyHeader, "PROXY protocol: refused"),
    (Kind::Internal, "INTERNAL FAULT, response ended:"),
];

#[derive(Debug, Default)]
pub struct Failures {
    by_kind: [Count; BEGINNINGS.len()],
}

/// The failures of one kind since the kind was last logged.
#[derive(Debug, Default)]
struct Count {
    count: u64,
    last: String,
    logged_at: Option<Nanos>,
}

impl Failures {
    pub fn add(&mut self, kind: Kind, last: impl Display) {
        let count = &mut self.by_kind[kind as usize];
        count.count += 1;
        count.last = last.to_string();
    }

    /// Returns the lines that are due.
    pub fn lines(&mut self, now: Nanos) -> impl Iterator<Item = String> {
        let kinds = self.by_kind.iter_mut().zip(BEGINNINGS);
        kinds.filter_map(move |(count, (_, beginning))| count.line(beginning, now))
    }
}

impl Count {
    fn line(&mut self, beginning: &str, now: Nanos) -> Option<String> {
        if self.count == 0 || self.logged_at.is_some_and(|at| now - at < LOG_EVERY) {
            return None;
        }
        self.logged_at = Some(now);
        let others = match std::mem::take(&mut self.count) - 1 {
            0 => String::new(),
            others => format!(" (and {others} others since the last such line)"),
        };
        Some(format!("{beginning} {}{others}", std::mem::take(&mut self.last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(failures: &mut Failures, seconds: u64) -> Vec<String> {
        failures.lines(Nanos::from_secs(seconds)).collect()
    }

    #[test]
    fn many_failures_are_one_line_each_ten_seconds() {
        let mut failures = Failures::default();
        assert_eq!(lines(&mut failures, 0), [""; 0]);
        failures.add(Kind::Tls, "a: b");
        assert_eq!(lines(&mut failures, 0), ["TLS failed with a: b"]);
        (0..3).for_each(|n| failures.add(Kind::Tls, format_args!("{n}: c")));
        assert_eq!(lines(&mut failures, 9), [""; 0]);
        assert_eq!(lines(&mut failures, 10), ["TLS failed with 2: c (and 2 others since the last such line)"]);
        assert_eq!(lines(&mut failures, 99), [""; 0]);
    }

    #[test]
    fn each_kind_has_a_line_of_its_own() {
        let mut failures = Failures::default();
        for (place, (kind, beginning)) in BEGINNINGS.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
            failures.add(kind, "a");
            assert_eq!(lines(&mut failures, 5), [format!("{beginning} a")]);
        }
    }
}
