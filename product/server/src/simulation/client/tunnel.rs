//! A client that changes to another protocol, in which each byte is echoed.

use units::Nanos;

use super::super::application::{Ask, Expected};
use super::super::files::Site;
use super::super::plan::UpstreamPlan;
use super::super::random::Random;
use super::super::wire::Stop;
use super::UNWRITTEN;

/// The maximum number of bytes sent at once.
const PIECE_BYTES_MAX: u64 = 20_000;

pub struct Tunnel {
    ask: Ask,
    expected: Expected,
    state: State,
    /// A part of the head.
    head: Vec<u8>,
    /// The number of bytes sent, each of which must be echoed.
    said: usize,
    pub heard: usize,
    /// The number of interim responses before the tunnel.
    hints: u64,
    next_at: Nanos,
    /// The position of the end of the request in the bytes that the client has written.
    end: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Asked,
    Open,
    /// The application is currently unavailable.
    Refused,
}

impl Tunnel {
    pub fn new(plan: &UpstreamPlan, site: &Site, random: &mut Random) -> Tunnel {
        Tunnel::of(Ask::find(site, random, |ask| ask.is_tunnel), plan)
    }

    pub fn of(ask: Ask, plan: &UpstreamPlan) -> Tunnel {
        let expected = ask.expected(plan);
        Tunnel {
            ask,
            expected,
            state: State::New,
            head: Vec::new(),
            said: 0,
            hints: 0,
            heard: 0,
            next_at: Nanos::ZERO,
            end: UNWRITTEN,
        }
    }

    pub fn describe(&self) -> String {
        format!("{:?}, said {}, heard {}, {:?}, {:?}", self.state, self.said, self.heard, self.ask, self.expected)
    }

    pub fn asked_count(&self) -> u64 {
        u64::from(self.state != State::New)
    }

    pub fn is_done(&self) -> bool {
        self.state == State::Refused || self.state == State::Open && self.heard == self.ask.tunnel_bytes
    }

    pub fn is_waiting(&self) -> bool {
        !self.is_done() && (self.state == State::Asked || self.heard < self.said)
    }

    pub fn think_at(&self) -> Option<Nanos> {
        let says = self.state == State::Open && self.said < self.ask.tunnel_bytes;
        (says || self.state == State::New).then_some(self.next_at)
    }

    pub fn say(&mut self, now: Nanos, into: &mut Vec<u8>, site: &Site, random: &mut Random) {
        match self.state {
            State::New => {
                let path = self.ask.path();
                let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
                into.extend(head.as_bytes());
                self.state = State::Asked;
            }
            State::Open if now >= self.next_at => {
                let rest = &site.file(site.count() - 1)[self.said..self.ask.tunnel_bytes];
                let piece = &rest[..rest.len().min(random.between(1, PIECE_BYTES_MAX) as usize)];
                into.extend(piece);
                self.said += piece.len();
                self.next_at = now + random.micros(1, 2_000_000);
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
        if self.state == State::Refused {
            return Ok(0);
        }
        self.head.extend(bytes);
        if self.state == State::Asked {
            let Some(end) = self.head.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(0) };
            let head = String::from_utf8_lossy(&self.head[..end]).into_owned();
            self.head.drain(..end + 4);
            match head.get(9..12) {
                Some("103") if self.hints < self.ask.interim => {
                    self.hints += 1;
                    return self.receive(&[], site);
                }
                Some("101") if self.expected.is_answered => self.state = State::Open,
                Some("502" | "503" | "504") if self.expected.may_fail => {
                    self.state = State::Refused;
                    return Ok(1);
                }
                _ => return Err(format!("in place of a tunnel: {head}")),
            }
        }
        let echoed = std::mem::take(&mut self.head);
        if site.file(site.count() - 1)[..self.said].get(self.heard..self.heard + echoed.len()) != Some(&echoed[..]) {
            return Err(format!("{} wrong bytes from {} on", echoed.len(), self.heard));
        }
        self.heard += echoed.len();
        Ok(u64::from(self.is_done()))
    }

    /// Judges the end of the connection, given the number of bytes that the server had read.
    pub fn judge_end(&self, read_bytes: u64, stop: Stop) -> Result<(), String> {
        match stop {
            Stop::Over => Ok(()),
            Stop::Begun if self.state != State::Open => Ok(()),
            // The refusal was the last response.
            _ if self.state == State::Refused => Ok(()),
            _ if read_bytes < self.end => Ok(()),
            _ => Err("its tunnel has ended".into()),
        }
    }
}
