//! An HTTP/2 client that opens a WebSocket with CONNECT (RFC 8441). Each byte is echoed, and so is the end of the
//! stream.

use http2::testing::{
    Came, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame, frames,
    hello, wide,
};
use units::Nanos;

use super::super::application::{Ask, Expected};
use super::super::files::Site;
use super::super::plan::UpstreamPlan;
use super::super::random::Random;
use super::super::wire::Stop;
use super::UNWRITTEN;

const ACK: u8 = 1;
const STREAM: u32 = 1;
/// The initial window of RFC 9113 section 6.9.2, which SETTINGS may change.
const WINDOW_BYTES: i64 = 65_535;
/// RFC 8441 section 3.
const ENABLE_CONNECT_PROTOCOL: [u8; 6] = [0, 8, 0, 0, 0, 1];
/// The maximum number of bytes sent at once.
const PIECE_BYTES_MAX: u64 = 16_000;

pub struct WebSocket {
    ask: Ask,
    expected: Expected,
    state: State,
    received: Vec<u8>,
    to_say: Vec<u8>,
    /// The number of heads received; the last is the response's.
    heads: u64,
    head: Vec<u8>,
    /// The number of bytes sent, each of which must be echoed.
    said: usize,
    pub heard: usize,
    /// The send windows of the connection and of this stream.
    windows: [i64; 2],
    next_at: Nanos,
    /// The position of the end of the request in the bytes that the client has written.
    end: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// The server has not enabled CONNECT with a protocol yet.
    New,
    Allowed,
    Asked,
    Open,
    /// All bytes and the end of the stream were sent.
    Ended,
    Done,
}

impl WebSocket {
    pub fn new(plan: &UpstreamPlan, site: &Site, random: &mut Random) -> WebSocket {
        WebSocket::of(Ask::find(site, random, |ask| ask.is_tunnel), plan)
    }

    pub fn of(ask: Ask, plan: &UpstreamPlan) -> WebSocket {
        let expected = ask.expected(plan);
        WebSocket {
            ask,
            expected,
            state: State::New,
            received: Vec::new(),
            to_say: [hello(), wide()].concat(),
            heads: 0,
            head: Vec::new(),
            said: 0,
            heard: 0,
            windows: [WINDOW_BYTES; 2],
            next_at: Nanos::ZERO,
            end: UNWRITTEN,
        }
    }

    pub fn describe(&self) -> String {
        let WebSocket { state, said, heard, heads, windows, ask, expected, .. } = self;
        format!("{state:?}, said {said}, heard {heard}, {heads} heads, {windows:?}, {ask:?}, {expected:?}")
    }

    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    pub fn asked_count(&self) -> u64 {
        u64::from(self.state > State::Allowed)
    }

    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::New | State::Asked | State::Ended) || self.heard < self.said
    }

    pub fn think_at(&self) -> Option<Nanos> {
        (matches!(self.state, State::Allowed | State::Open) && self.room() > 0).then_some(self.next_at)
    }

    fn room(&self) -> usize {
        self.windows.into_iter().min().unwrap_or(0).max(0) as usize
    }

    pub fn say(&mut self, now: Nanos, into: &mut Vec<u8>, site: &Site, random: &mut Random) {
        into.append(&mut self.to_say);
        match self.state {
            State::Allowed => {
                let path = self.ask.path();
                let fields = [
                    (":method", "CONNECT"),
                    (":protocol", "websocket"),
                    (":scheme", "http"),
                    (":authority", "a"),
                    (":path", path.as_str()),
                    ("sec-websocket-version", "13"),
                ];
                into.extend(frame(HEADERS, END_HEADERS, STREAM, &block(&fields)));
                self.state = State::Asked;
            }
            State::Open if now >= self.next_at => {
                let rest = &site.file(site.count() - 1)[self.said..self.ask.tunnel_bytes];
                let piece = &rest[..rest.len().min(random.between(1, PIECE_BYTES_MAX) as usize).min(self.room())];
                self.said += piece.len();
                let is_last = self.said == self.ask.tunnel_bytes;
                if !piece.is_empty() || is_last {
                    into.extend(frame(DATA, if is_last { END_STREAM } else { 0 }, STREAM, piece));
                }
                self.windows = self.windows.map(|window| window - piece.len() as i64);
                self.next_at = now + random.micros(1, 2_000_000);
                self.state = if is_last { State::Ended } else { State::Open };
            }
            _ => {}
        }
    }

    /// Records the position at which the request ends.
    pub fn note_written(&mut self, bytes: u64) {
        if self.state == State::Asked {
            self.end = self.end.min(bytes);
        }
    }

    pub fn receive(&mut self, bytes: &[u8], site: &Site) -> Result<u64, String> {
        self.received.extend_from_slice(bytes);
        let was_done = self.is_done();
        for came in frames(&mut self.received) {
            self.on_frame(came, site)?;
        }
        Ok(u64::from(self.is_done() && !was_done))
    }

    fn on_frame(&mut self, (kind, flags, number, payload): Came, site: &Site) -> Result<(), String> {
        match kind {
            SETTINGS if flags & ACK == 0 => {
                if !payload.chunks_exact(6).any(|setting| setting == ENABLE_CONNECT_PROTOCOL) {
                    return Err("it may not ask for WebSocket".into());
                }
                self.state = self.state.max(State::Allowed);
                self.to_say.extend(frame(SETTINGS, ACK, 0, &[]));
            }
            WINDOW_UPDATE => {
                let by: [u8; 4] = payload[..].try_into().map_err(|_| "an update of no window")?;
                self.windows[usize::from(number != 0)] += i64::from(u32::from_be_bytes(by));
            }
            PING if flags & ACK == 0 => self.to_say.extend(frame(PING, ACK, 0, &payload)),
            HEADERS => {
                self.heads += 1;
                self.head = payload;
            }
            DATA => self.on_data(&payload, site)?,
            RST_STREAM if !matches!(self.state, State::Done) => {
                if self.state >= State::Open || !self.expected.may_fail {
                    return Err(format!("a reset: {payload:?}"));
                }
                self.state = State::Done;
            }
            _ => {}
        }
        let hints = self.heads.saturating_sub(1);
        if self.state == State::Asked && self.heads > 0 && is_200(&self.head) {
            if !self.expected.is_answered || hints != self.ask.interim {
                return Err(format!("a tunnel behind {hints} hints"));
            }
            self.state = State::Open;
        }
        if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
            self.on_stream_end()?;
        }
        Ok(())
    }

    fn on_data(&mut self, payload: &[u8], site: &Site) -> Result<(), String> {
        if self.state < State::Open {
            return Ok(());
        }
        let echoed = site.file(site.count() - 1)[..self.said].get(self.heard..self.heard + payload.len());
        if echoed != Some(payload) {
            return Err(format!("{} wrong bytes from {} on", payload.len(), self.heard));
        }
        self.heard += payload.len();
        Ok(())
    }

    fn on_stream_end(&mut self) -> Result<(), String> {
        let is_right = match self.state {
            State::Asked => self.expected.may_fail,
            State::Ended => self.heard == self.ask.tunnel_bytes,
            state => state == State::Done,
        };
        self.state = State::Done;
        if is_right { Ok(()) } else { Err(format!("the end after {} bytes", self.heard)) }
    }

    /// Judges the end of the connection, given the number of bytes that the server had read.
    pub fn judge_end(&self, read_bytes: u64, stop: Stop) -> Result<(), String> {
        match stop {
            Stop::Over => Ok(()),
            Stop::Begun if self.state < State::Open => Ok(()),
            _ if self.is_done() || read_bytes < self.end => Ok(()),
            _ => Err("its tunnel has ended".into()),
        }
    }
}

/// Returns true if the status is 200. After updates of the table's size, the first field is the status (RFC 7541
/// appendix A).
fn is_200(head: &[u8]) -> bool {
    head.iter().find(|byte| **byte & 0xe0 != 0x20) == Some(&0x88)
}
