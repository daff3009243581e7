use std::sync::Arc;

use http::http1::Head;
use units::Nanos;

use crate::log::{Log, Requested};

/// Of a line that could not be read as a request, this much goes into the log.
const RECEIVED_BYTES_MAX: usize = 1024;

/// What the access log and the objectives will say of a response that is still being sent.
pub struct Line {
    /// Where it is logged, if anywhere, whatever the sites are by then.
    pub log: Option<Arc<Log>>,
    /// Method, target, referer and user agent, one behind the other: a client decides how long this is kept, a hundred times.
    text: Box<[u8]>,
    /// Where each of them ends. The method is empty if the target is none but what was received instead of a request line.
    ends: [u32; 4],
    has_referer: bool,
    has_user_agent: bool,
    /// It counts for the objectives of its class.
    pub is_measured: bool,
    pub major_version: u8,
    pub minor_version: u8,
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
    pub fn new(head: &Head, log: Arc<Log>, arrived_at: Nanos) -> Line {
        let request = &head.request;
        let fields = [request.fields.referer, request.fields.user_agent];
        let begin = [request.method.token().as_bytes(), request.target];
        Line::of(Some(log), begin, fields, head.minor_version, arrived_at)
    }

    /// Of a request that nobody logs.
    pub fn bare(arrived_at: Nanos) -> Line {
        Line::of(None, [b""; 2], [None; 2], 1, arrived_at)
    }

    /// The same, sent with this major version: from 2 on there is no minor one.
    pub fn of_version(self, major_version: u8) -> Line {
        let minor_version = if major_version > 1 { 0 } else { self.minor_version };
        Line { major_version, minor_version, ..self }
    }

    /// For what could not be read as a request: its first line, as far as it came.
    pub fn refused(received: &[u8], reason: &'static str, log: Arc<Log>, arrived_at: Nanos) -> Line {
        let received = received.strip_prefix(b"\r\n").unwrap_or(received);
        let first = received.split(|b| matches!(b, b'\r' | b'\n')).next().unwrap_or_default();
        let line = match first.split(|&b| b == b' ').collect::<Vec<_>>()[..] {
            [method, target, [b'H', b'T', b'T', b'P', b'/', b'1', b'.', digit @ b'0'..=b'9']]
                if !method.is_empty() && first.len() <= RECEIVED_BYTES_MAX =>
            {
                Line::of(Some(log), [method, target], [None; 2], digit - b'0', arrived_at)
            }
            _ => Line::of(Some(log), [b"", &first[..first.len().min(RECEIVED_BYTES_MAX)]], [None; 2], 1, arrived_at),
        };
        Line { reason: Some(reason), ..line }
    }

    /// A head is far below 4 GiB.
    fn of(
        log: Option<Arc<Log>>,
        begin: [&[u8]; 2],
        fields: [Option<&[u8]>; 2],
        minor_version: u8,
        arrived_at: Nanos,
    ) -> Line {
        let [method, target] = begin;
        let [referer, user_agent] = fields;
        let texts = [method, target, referer.unwrap_or_default(), user_agent.unwrap_or_default()];
        let mut end = 0;
        Line {
            log,
            text: texts.concat().into(),
            ends: texts.map(|text| {
                end += text.len() as u32;
                end
            }),
            has_referer: referer.is_some(),
            has_user_agent: user_agent.is_some(),
            is_measured: false,
            major_version: 1,
            minor_version,
            reason: None,
            status: 0,
            body_bytes: 0,
            head_bytes: 0,
            arrived_at,
            first_byte_at: None,
        }
    }

    fn text(&self, nth: usize) -> &[u8] {
        let begin = nth.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[begin as usize..self.ends[nth] as usize]
    }

    pub fn requested(&self) -> Requested<'_> {
        Requested {
            method: self.text(0),
            target: self.text(1),
            version: (self.major_version, self.minor_version),
            referer: self.has_referer.then(|| self.text(2)),
            user_agent: self.has_user_agent.then(|| self.text(3)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Format, LogConfig, Logs};
    use crate::threads::Threads;

    /// One stands for each response under way that is logged: 112 bytes of memory with the allocator's own.
    #[test]
    fn a_line_is_small() {
        assert!(size_of::<Line>() <= 104, "{}", size_of::<Line>());
    }

    fn refused(received: &[u8]) -> (Vec<u8>, Vec<u8>, u8) {
        let threads = Threads::start(None, || {}).unwrap();
        let logs = Logs::start(&threads).unwrap();
        let log = logs.open(&LogConfig { path: None, format: Format::Json }).unwrap();
        let line = Line::refused(received, "reason", log, Nanos(5));
        assert_eq!((line.reason, line.arrived_at), (Some("reason"), Nanos(5)));
        (line.text(0).to_vec(), line.text(1).to_vec(), line.minor_version)
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
