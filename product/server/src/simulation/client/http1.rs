//! A client of HTTP/1.1: some requests, so many at a time, with pauses between.

use std::collections::VecDeque;

use units::Nanos;

use super::super::files::Site;
use super::super::wire::Stop;
use super::UNWRITTEN;
use super::request::{Kind, Request};

pub struct Http1 {
    to_ask: VecDeque<Request>,
    /// Asked and not answered, with the bytes that the client has written to the end of it.
    asked: VecDeque<(Request, u64)>,
    depth: usize,
    think: Nanos,
    may_ask_at: Nanos,
    /// A part of a head, or nothing.
    head: Vec<u8>,
    /// Of the response that is coming: bytes that came, and how many there are.
    body: Option<(usize, usize)>,
    /// Requests so far.
    pub asked_count: u64,
    /// The server has said that it closes.
    is_closing: bool,
}

impl Http1 {
    pub fn new(requests: Vec<Request>, depth: usize, think: Nanos) -> Http1 {
        Http1 {
            to_ask: requests.into(),
            asked: VecDeque::new(),
            depth,
            think,
            may_ask_at: Nanos::ZERO,
            head: Vec::new(),
            body: None,
            asked_count: 0,
            is_closing: false,
        }
    }

    pub fn describe(&self) -> String {
        format!("{} at a time, {} to ask, asked {:?}, body {:?}", self.depth, self.to_ask.len(), self.asked, self.body)
    }

    pub fn is_done(&self) -> bool {
        self.to_ask.is_empty() && self.asked.is_empty()
    }

    pub fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
    }

    pub fn think_at(&self) -> Option<Nanos> {
        (!self.to_ask.is_empty() && self.asked.is_empty()).then_some(self.may_ask_at)
    }

    /// Asks for nothing more, and is refused what it has not asked to the end.
    pub fn expect_refusal(&mut self) {
        self.to_ask.clear();
        self.asked.iter_mut().for_each(|(request, _)| *request = Request::late());
    }

    pub fn say(&mut self, now: Nanos, into: &mut Vec<u8>) {
        if now < self.may_ask_at || !self.asked.is_empty() || self.is_closing {
            return;
        }
        while self.asked.len() < self.depth
            && let Some(request) = self.to_ask.pop_front()
        {
            let field = request.field().map_or(String::new(), |(name, value)| format!("{name}: {value}\r\n"));
            let text = format!("{} {} HTTP/1.1\r\nHost: a\r\n{field}\r\n", request.method(), request.path);
            into.extend_from_slice(text.as_bytes());
            self.asked.push_back((request, UNWRITTEN));
            self.asked_count += 1;
        }
    }

    /// All that was asked is written after so many bytes.
    pub fn note_written(&mut self, bytes: u64) {
        self.asked.iter_mut().filter(|(_, end)| *end == UNWRITTEN).for_each(|(_, end)| *end = bytes);
    }

    /// Gives how many responses have ended.
    pub fn receive(&mut self, mut bytes: &[u8], now: Nanos, site: &Site) -> Result<u64, String> {
        let mut ended = 0;
        while !bytes.is_empty() {
            if let Some((came, all)) = self.body {
                let (request, _) = self.asked.front().ok_or("a body that nobody asked for")?;
                let part = &bytes[..bytes.len().min(all - came)];
                if request.body(site).is_some_and(|body| body[came..came + part.len()] != *part) {
                    return Err(format!("wrong bytes from {came} on in the body of {request:?}"));
                }
                bytes = &bytes[part.len()..];
                self.body = Some((came + part.len(), all));
            } else {
                bytes = self.receive_head(bytes, site)?;
            }
            if self.body.is_some_and(|(came, all)| came == all) {
                self.body = None;
                self.asked.pop_front();
                self.may_ask_at = now + self.think;
                ended += 1;
            }
        }
        Ok(ended)
    }

    fn receive_head<'b>(&mut self, bytes: &'b [u8], site: &Site) -> Result<&'b [u8], String> {
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        let Some(end) = self.head.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(&[]) };
        let head = String::from_utf8_lossy(&self.head[..end]).into_owned();
        self.head.clear();
        let (request, _) = self.asked.front().ok_or_else(|| format!("a response that nobody asked for: {head}"))?;
        let status = head.get(9..12).and_then(|status| status.parse::<u16>().ok());
        if status != Some(request.status()) {
            return Err(format!("instead of {}: {head}", request.status()));
        }
        let field = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.filter(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_string()).next()
        };
        self.is_closing |= field("connection").is_some_and(|value| value == "close");
        let has_body = request.kind != Kind::Head && request.kind != Kind::Unchanged;
        let length = field("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
        let length = if has_body { length } else { 0 };
        if request.body(site).is_some_and(|body| body.len() != length) {
            return Err(format!("a body of {length} bytes for {request:?}"));
        }
        self.body = Some((0, length));
        Ok(&bytes[end + 4 - before..])
    }

    /// The connection has ended; the server had read so many bytes.
    pub fn judge_end(&self, read_bytes: u64, stop: Stop) -> Result<(), String> {
        match self.asked.front() {
            _ if stop == Stop::Over => Ok(()),
            // What a server that stops has begun to send it ends, and no more.
            _ if stop == Stop::Begun && self.body.is_none() && self.head.is_empty() => Ok(()),
            Some((request, end)) if read_bytes >= *end && !self.is_closing => {
                Err(format!("{request:?} is not answered"))
            }
            _ => Ok(()),
        }
    }
}
