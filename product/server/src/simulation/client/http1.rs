//! An HTTP/1.1 client that sends some requests, `depth` at a time, with pauses between them.

use std::collections::VecDeque;

use units::Nanos;

use super::super::chunks::Chunks;
use super::super::files::Site;
use super::super::wire::Stop;
use super::UNWRITTEN;
use super::request::{Meaning, Request};

pub struct Http1 {
    to_ask: VecDeque<Request>,
    /// The unanswered requests, each with the position of its end in the bytes that the client has written.
    asked: VecDeque<(Request, u64)>,
    depth: usize,
    think: Nanos,
    may_ask_at: Nanos,
    /// The received part of an incomplete head.
    head: Vec<u8>,
    /// The number of interim responses before the current response.
    hints: u64,
    /// The body of the current response.
    body: Option<Body>,
    /// The number of requests sent so far.
    pub asked_count: u64,
    /// True if the server has announced that it closes the connection.
    is_closing: bool,
}

/// The body of a response.
#[derive(Debug)]
struct Body {
    /// True if the body is the requested content and not the text of an error.
    is_answer: bool,
    came: usize,
    left: Left,
    is_done: bool,
}

#[derive(Debug)]
enum Left {
    Bytes(usize),
    Chunks(Chunks),
}

impl Body {
    fn new(is_answer: bool, length: Option<usize>) -> Body {
        let left = length.map_or_else(|| Left::Chunks(Chunks::default()), Left::Bytes);
        Body { is_answer, came: 0, left, is_done: false }
    }

    /// Takes from the front.
    fn take(&mut self, bytes: &mut &[u8]) -> Result<Vec<u8>, String> {
        let data = match &mut self.left {
            Left::Bytes(left) => {
                let (part, rest) = bytes.split_at(bytes.len().min(*left));
                (*bytes, *left) = (rest, *left - part.len());
                self.is_done = *left == 0;
                part.to_vec()
            }
            Left::Chunks(chunks) => {
                let (data, is_done) = chunks.take(bytes)?;
                self.is_done = is_done;
                data
            }
        };
        self.came += data.len();
        Ok(data)
    }
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
            hints: 0,
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

    /// Makes the client send no more requests, and expect its unfinished request to be refused.
    pub fn expect_refusal(&mut self) {
        self.to_ask.clear();
        self.asked.iter_mut().for_each(|(request, _)| *request = Request::late());
    }

    pub fn say(&mut self, now: Nanos, into: &mut Vec<u8>, site: &Site) {
        if now < self.may_ask_at || !self.asked.is_empty() || self.is_closing {
            return;
        }
        while self.asked.len() < self.depth
            && let Some(request) = self.to_ask.pop_front()
        {
            let field = request.field().map_or(String::new(), |(name, value)| format!("{name}: {value}\r\n"));
            let text = format!("{} {} HTTP/1.1\r\nHost: a\r\n{field}", request.method(), request.path);
            into.extend_from_slice(text.as_bytes());
            // It does not wait for 100 (Continue), but accepts it.
            into.extend(if request.expects_leave() { &b"Expect: 100-continue\r\n"[..] } else { b"" });
            match request.upload(site) {
                None => into.extend(b"\r\n"),
                Some((body, true)) => {
                    into.extend(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
                    into.extend(body);
                }
                Some((body, false)) => {
                    into.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                    for chunk in body.chunks(1 + body.len() / 3) {
                        into.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
                        into.extend(chunk);
                        into.extend(b"\r\n");
                    }
                    into.extend(b"0\r\n\r\n");
                }
            }
            self.asked.push_back((request, UNWRITTEN));
            self.asked_count += 1;
        }
    }

    /// Records the position at which all requests written so far end.
    pub fn note_written(&mut self, bytes: u64) {
        self.asked.iter_mut().filter(|(_, end)| *end == UNWRITTEN).for_each(|(_, end)| *end = bytes);
    }

    /// Returns the number of responses that have ended.
    pub fn receive(&mut self, mut bytes: &[u8], now: Nanos, site: &Site) -> Result<u64, String> {
        let mut ended = 0;
        while !bytes.is_empty() {
            let Some(body) = &mut self.body else {
                bytes = self.receive_head(bytes, site)?;
                ended += u64::from(self.end(now, site)?);
                continue;
            };
            let (request, _) = self.asked.front().ok_or("a body that nobody asked for")?;
            let data = body.take(&mut bytes)?;
            let from = body.came - data.len();
            if body.is_answer && request.body(site).is_some_and(|all| all.get(from..body.came) != Some(&data[..])) {
                return Err(format!("wrong bytes from {from} on in the body of {request:?}"));
            }
            if body.is_answer {
                request.take(&data);
            }
            ended += u64::from(self.end(now, site)?);
        }
        Ok(ended)
    }

    /// Handles the end of a part. Returns true if the response has ended.
    fn end(&mut self, now: Nanos, site: &Site) -> Result<bool, String> {
        let Some(body) = self.body.take_if(|body| body.is_done) else { return Ok(false) };
        let (request, _) = self.asked.pop_front().ok_or("an end of nothing")?;
        self.may_ask_at = now + self.think;
        if body.is_answer {
            request.judge_content(site)?;
        }
        let is_right = !body.is_answer || request.body(site).is_none_or(|all| all.len() == body.came);
        if is_right { Ok(true) } else { Err(format!("{request:?} ends after {} bytes", body.came)) }
    }

    fn receive_head<'b>(&mut self, bytes: &'b [u8], site: &Site) -> Result<&'b [u8], String> {
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        let Some(end) = self.head.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(&[]) };
        let head = String::from_utf8_lossy(&self.head[..end]).into_owned();
        let rest = &bytes[end + 4 - before..];
        self.head.clear();
        let (request, _) = self.asked.front().ok_or_else(|| format!("a response that nobody asked for: {head}"))?;
        let status: u16 = head.get(9..12).and_then(|status| status.parse().ok()).ok_or("no status")?;
        if status == 100 {
            return Ok(rest);
        }
        if status == 103 {
            self.hints += 1;
            return if is_hint(&head) { Ok(rest) } else { Err(format!("a hint: {head}")) };
        }
        let came =
            request.judge(Some(status), std::mem::take(&mut self.hints)).map_err(|why| format!("{why}: {head}"))?;
        let field = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.filter(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_string()).next()
        };
        self.is_closing |= field("connection").is_some_and(|value| value == "close");
        let length = field("content-length").map(|value| value.parse().expect("a length"));
        let is_chunked = field("transfer-encoding").is_some_and(|value| value == "chunked");
        let mut body = Body::new(came == Meaning::Answer, if request.has_body(status) { length } else { Some(0) });
        match (&body.left, is_chunked) {
            (Left::Bytes(bytes), _) => {
                let said = request.said_bytes().or(request.body(site).map(<[u8]>::len));
                if body.is_answer && said.is_some_and(|said| said != *bytes) {
                    return Err(format!("a body of {bytes} bytes for {request:?}"));
                }
                body.is_done = *bytes == 0;
            }
            (Left::Chunks(_), true) => {}
            (Left::Chunks(_), false) => return Err(format!("a body without an end: {head}")),
        }
        self.body = Some(body);
        Ok(rest)
    }

    /// Judges the end of the connection, given the number of bytes that the server had read.
    pub fn judge_end(&self, read_bytes: u64, stop: Stop) -> Result<(), String> {
        match self.asked.front() {
            _ if stop == Stop::Over => Ok(()),
            Some((request, _)) if request.may_break() => Ok(()),
            // A stopping server must complete the response it has begun, and no more.
            _ if stop == Stop::Begun && self.body.is_none() && self.head.is_empty() => Ok(()),
            Some((request, end)) if read_bytes >= *end && !self.is_closing => {
                Err(format!("{request:?} is not answered"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns true if the interim response has the application's field and none of the connection's fields.
fn is_hint(head: &str) -> bool {
    let lower = head.to_ascii_lowercase();
    lower.contains("\r\nlink: </style.css>; rel=preload\r\n") && !lower.contains("hop")
}
