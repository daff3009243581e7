use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use http::http1::Head;
use units::Nanos;

use super::ending::UNANSWERED_STATUS;
use crate::log::{Entry, Log};

/// Of a line that could not be read as a request, this much goes into the log.
const RECEIVED_BYTES_MAX: usize = 1024;

/// What the access log and the records will say of a response that is still being sent.
pub struct Line {
    /// Where it is logged, whatever the sites are by then.
    pub log: Option<Arc<Log>>,
    /// Empty if `target` is no target but what was received instead of a request line.
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    pub major_version: u8,
    pub minor_version: u8,
    pub referer: Option<Vec<u8>>,
    pub user_agent: Option<Vec<u8>>,
    /// Why it was refused.
    pub reason: Option<&'static str>,
    pub status: u16,
    pub body_bytes: u64,
    pub head_bytes: u64,
    pub arrived_at: Nanos,
    /// When the kernel took the first byte, where that was before the response became a job.
    pub first_byte_at: Option<Nanos>,
}

impl Line {
    pub fn new(head: &Head, log: Option<Arc<Log>>, arrived_at: Nanos) -> Line {
        let request = &head.request;
        Line {
            log,
            referer: request.fields.referer.map(<[u8]>::to_vec),
            user_agent: request.fields.user_agent.map(<[u8]>::to_vec),
            ..Line::of(request.method.token().as_bytes(), request.target, head.minor_version, arrived_at)
        }
    }

    /// The same, sent with this major version: from 2 on there is no minor one.
    pub fn of_version(self, major_version: u8) -> Line {
        let minor_version = if major_version > 1 { 0 } else { self.minor_version };
        Line { major_version, minor_version, ..self }
    }

    /// For what could not be read as a request: its first line, as far as it came.
    pub fn refused(received: &[u8], reason: &'static str, log: Option<Arc<Log>>, arrived_at: Nanos) -> Line {
        let received = received.strip_prefix(b"\r\n").unwrap_or(received);
        let first = received.split(|b| matches!(b, b'\r' | b'\n')).next().unwrap_or_default();
        let line = match first.split(|&b| b == b' ').collect::<Vec<_>>()[..] {
            [method, target, [b'H', b'T', b'T', b'P', b'/', b'1', b'.', digit @ b'0'..=b'9']]
                if !method.is_empty() && first.len() <= RECEIVED_BYTES_MAX =>
            {
                Line::of(method, target, digit - b'0', arrived_at)
            }
            _ => Line::of(b"", &first[..first.len().min(RECEIVED_BYTES_MAX)], 1, arrived_at),
        };
        Line { log, reason: Some(reason), ..line }
    }

    fn of(method: &[u8], target: &[u8], minor_version: u8, arrived_at: Nanos) -> Line {
        Line {
            log: None,
            method: method.to_vec(),
            target: target.to_vec(),
            major_version: 1,
            minor_version,
            referer: None,
            user_agent: None,
            reason: None,
            status: 0,
            body_bytes: 0,
            head_bytes: 0,
            arrived_at,
            first_byte_at: None,
        }
    }

    /// The entry for the log, when `body_bytes` of the body were sent.
    pub fn entry(&self, remote: SocketAddr, body_bytes: u64, ahead_bytes: Option<u64>, now: Nanos) -> Entry<'_> {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Entry {
            remote,
            unix_s: unix.as_secs(),
            method: &self.method,
            target: &self.target,
            version: (self.major_version, self.minor_version),
            status: self.status,
            body_bytes,
            ahead_bytes,
            referer: self.referer.as_deref(),
            user_agent: self.user_agent.as_deref(),
            response_time: now - self.arrived_at,
            outcome: if body_bytes == self.body_bytes && self.status != UNANSWERED_STATUS { "complete" } else { "cut" },
            reason: self.reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One stands for each response under way that is logged: 176 bytes of memory with the allocator's own.
    #[test]
    fn a_line_is_small() {
        assert!(size_of::<Line>() <= 168, "{}", size_of::<Line>());
    }

    fn refused(received: &[u8]) -> (Vec<u8>, Vec<u8>, u8) {
        let line = Line::refused(received, "reason", None, Nanos(5));
        assert_eq!((line.reason, line.arrived_at), (Some("reason"), Nanos(5)));
        (line.method, line.target, line.minor_version)
    }

    #[test]
    fn a_refused_request_line_is_taken_apart_where_it_is_one() {
        let whole = (b"GET".to_vec(), b"/a?b".to_vec(), 0);
        assert_eq!(refused(b"GET /a?b HTTP/1.0\r\nX"), whole);
        assert_eq!(refused(b"\r\nGET /a?b HTTP/1.0\nX"), whole);
        for line in ["GET /a b HTTP/1.1", "GET /a HTTP/2.0", "GET /a", "GET", " / HTTP/1.1", "GET / HTTP/1.10"] {
            assert_eq!(refused(format!("{line}\r\nHost: a").as_bytes()), (vec![], line.into(), 1), "{line}");
        }
    }

    #[test]
    fn nothing_received_is_nothing() {
        for received in ["", "\r\n", "\n"] {
            assert_eq!(refused(received.as_bytes()), (vec![], vec![], 1), "{received:?}");
        }
    }

    #[test]
    fn an_endless_first_line_is_cut() {
        let endless = [b"GET /", &[b'x'; 20_000][..], b" HTTP/1.1\r\n"].concat();
        assert_eq!(refused(&endless), (vec![], endless[..RECEIVED_BYTES_MAX].to_vec(), 1));
    }
}
