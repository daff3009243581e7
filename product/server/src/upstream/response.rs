//! The part of an upstream's response that has arrived.

use http::http1::upstream::{UpstreamBody, UpstreamFault, UpstreamHead, parse_response};
use http::{Limits, Method, Status};
use units::Nanos;
use units::memory::Counted;

use super::tunnel::Tunnel;
use super::{BodySink, Fault, TransferStep};
#[cfg(test)]
use crate::simulation::planted;

/// The maximum idle time after which a connection is still used. Most upstreams close their connections after a minute
/// or more, and a request that meets a closing connection must be sent again.
pub const IDLE_FOR: Nanos = Nanos::from_secs(30);

/// The maximum number of bytes of interim responses passed on for one request. The rest is dropped, because no client
/// depends on interim responses.
const INTERIM_BYTES_MAX: usize = 16 << 10;

/// A response on its way from the upstream.
#[derive(Debug)]
pub struct Inbound {
    pub method: Method,
    /// The bytes that were received and not processed yet.
    pub kept: Counted,
    pub has_come: bool,
    pub interim: Interim,
    /// The time for which the connection may wait for another request after this response; zero if it cannot carry
    /// another.
    pub kept_for: Nanos,
    pub tunnel: Tunnel,
    /// The state of the body, once the head has arrived. Its framing is used over HTTP/1.1 only.
    pub body: Option<UpstreamBody>,
    /// The bytes of the body that were passed on.
    pub body_bytes: u64,
    /// The length that the head announces; 0 if it announces no length.
    pub announced_bytes: u64,
    /// The time at which the response first waited for the client.
    pub held_at: Option<Nanos>,
    /// True if the response holds its upstream's place while the client receives the response.
    pub is_held: bool,
    pub memory: Memory,
}

/// Returns the time for which a connection may wait for another request after this response. It is zero if the upstream
/// closes the connection, and somewhat less than the waiting time that the upstream announces (Node, gunicorn, Tomcat:
/// `Keep-Alive: timeout=5`). A request that meets the closing of its connection is lost if it may not be sent again.
/// `is_framed` is true if records or frames mark the end of the response, whatever its head announces.
pub fn kept_for(head: &UpstreamHead, is_framed: bool) -> Nanos {
    if !head.is_kept_alive || head.is_end_doubtful && !is_framed {
        return Nanos::ZERO;
    }
    let said = head.values("keep-alive").flat_map(|value| value.split(|&byte| byte == b',')).find_map(|parameter| {
        let (name, value) = parameter.trim_ascii().split_at_checked("timeout=".len())?;
        let seconds: u64 = std::str::from_utf8(value).ok()?.trim_matches('"').parse().ok()?;
        name.eq_ignore_ascii_case(b"timeout=").then_some(Nanos::from_secs(seconds.min(SAID_SECONDS_MAX)))
    });
    said.map_or(IDLE_FOR, |said| IDLE_FOR.min(said - Nanos(said.0 / 2).min(ON_THE_WAY)))
}

/// The maximum waiting time, in seconds, that is believed if an upstream announces it.
const SAID_SECONDS_MAX: u64 = 3600;

/// The safety margin, because a request and the closing of its connection may cross on the way.
const ON_THE_WAY: Nanos = Nanos::from_secs(1);

/// The state of a transfer that may lack memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Memory {
    #[default]
    Enough,
    /// The transfer needs memory to continue, and its owner has not been notified.
    Needed,
    /// The transfer is in the list of those that wait for memory.
    Awaited,
}

/// Responses before the final response.
#[derive(Debug, Default)]
pub struct Interim {
    pub count: u32,
    /// The bytes of interim responses that were passed on.
    bytes: usize,
}

impl Inbound {
    /// Returns the next head, with its length, in the kept bytes followed by `fresh`. The bytes after a head, and an
    /// incomplete head, are kept until they are read.
    pub fn next_head(&mut self, fresh: &[u8], limits: &Limits) -> Result<Option<(UpstreamHead, usize)>, UpstreamFault> {
        // Nearly always no bytes are kept, and the head arrives whole.
        if self.kept.is_empty() {
            let head = parse_response(fresh, self.method, limits)?;
            let head_bytes = head.as_ref().map_or(0, |(_, bytes)| *bytes);
            if head_bytes < fresh.len() {
                self.kept.edit().extend_from_slice(&fresh[head_bytes..]);
            }
            return Ok(head);
        }
        self.kept.edit().extend_from_slice(fresh);
        let may_be_whole = fresh.is_empty() || fresh.contains(&b'\n') || self.kept.len() >= limits.head_bytes_max;
        let head = if may_be_whole { parse_response(&self.kept, self.method, limits)? } else { None };
        if let Some((_, bytes)) = head {
            self.kept.edit().drain(..bytes);
        }
        Ok(head)
    }

    /// Returns true if the client gets this interim response of `bytes`. It does not get 100 Continue, which this
    /// server sends itself (RFC 9110 section 10.1.1).
    pub fn passes_on(&mut self, head: &UpstreamHead, bytes: usize) -> bool {
        let passes = head.status != Status::CONTINUE && self.interim.bytes + bytes <= INTERIM_BYTES_MAX;
        self.interim.bytes += if passes { bytes } else { 0 };
        passes
    }

    /// Handles the end of the connection, which ends the body if nothing else delimits it.
    pub fn end_body(&mut self, sink: &mut impl BodySink) -> TransferStep {
        let is_whole = self.body.as_mut().expect("the head has come").end().is_ok();
        #[cfg(test)]
        let is_whole = is_whole || planted::strikes(planted::Fault::CutBodyEnded);
        if !is_whole {
            return TransferStep::Failed(Fault::Closed);
        }
        sink.finish(None);
        TransferStep::Done
    }

    /// Passes the kept bytes and then `fresh` to the sink, and keeps the bytes that the sink does not take. Returns a
    /// step if the body has ended or has to wait.
    pub fn take(&mut self, fresh: &[u8], sink: &mut impl BodySink) -> Result<Option<TransferStep>, Fault> {
        let Inbound { kept, body, body_bytes, .. } = self;
        let body = body.as_mut().expect("the head has come");
        // Nearly always no bytes are kept, and the sink takes all.
        if kept.is_empty() {
            let (taken, step) = give(fresh, body, body_bytes, sink)?;
            if taken < fresh.len() {
                kept.edit().extend_from_slice(&fresh[taken..]);
            }
            return Ok(step);
        }
        kept.edit().extend_from_slice(fresh);
        let (taken, step) = give(kept, body, body_bytes, sink)?;
        kept.edit().drain(..taken);
        kept.shrink();
        Ok(step)
    }
}

/// Passes bytes of a body to the sink. Returns the number taken, and a step if the body has ended or has to wait.
fn give(
    bytes: &[u8],
    body: &mut UpstreamBody,
    body_bytes: &mut u64,
    sink: &mut impl BodySink,
) -> Result<(usize, Option<TransferStep>), Fault> {
    let mut at = 0;
    loop {
        let Some(room) = sink.room() else { return Ok((at, Some(TransferStep::Unwanted))) };
        let taken = body.take(&bytes[at..bytes.len().min(at + room)]).map_err(Fault::Wrong)?;
        at += taken.consumed;
        *body_bytes += taken.data.len() as u64;
        if !taken.data.is_empty() && !sink.push(taken.data) {
            return Ok((at, Some(TransferStep::Unwanted)));
        }
        if taken.is_done {
            sink.finish(body.trailers().map_err(Fault::Wrong)?);
            return Ok((at, Some(TransferStep::Done)));
        }
        if at == bytes.len() || room == 0 {
            return Ok((at, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_waits_less_than_its_upstream_says() {
        for (fields, seconds) in [
            ("", 30.0),
            ("Keep-Alive: timeout=5, max=100", 4.0),
            ("Keep-Alive: max=1, Timeout=2", 1.0),
            ("Keep-Alive: timeout=1", 0.5),
            ("Keep-Alive: timeout=0", 0.0),
            ("Keep-Alive: timeout=600", 30.0),
            ("Keep-Alive: timeout=18446744073709551615", 30.0),
            ("Keep-Alive: timeout=x", 30.0),
            ("Keep-Alive: 300", 30.0),
            ("Keep-Alive: timeout=5\r\nConnection: close", 0.0),
        ] {
            let text = format!("HTTP/1.1 204 No Content\r\n{fields}\r\n\r\n").replace("\r\n\r\n\r\n", "\r\n\r\n");
            let (head, _) = parse_response(text.as_bytes(), Method::Get, &Limits::default()).unwrap().unwrap();
            assert_eq!(kept_for(&head, false), Nanos((seconds * 1e9) as u64), "{fields}");
        }
    }
}
