//! The applications behind the server. Each connection of an application is a function of bytes and time, and checks
//! the requests that it receives.

mod ask;

use std::collections::HashMap;
use std::net::IpAddr;

use units::Nanos;

use super::chunks::Chunks;
use super::files::Site;
use super::outages::HEALTH;
use super::plan::UpstreamPlan;
use super::random::Random;
use super::wire::Wire;
pub use ask::{After, Ask, Expected, Fault, Framing, PREFIX, TEXT, Takes};

/// The number of bytes that a slow reader reads at once.
const SLOW_BYTES: usize = 9_000;
const SLOW_EVERY: Nanos = Nanos::from_millis(150);

/// The maximum number of times that a request without side effects may arrive.
const ATTEMPTS_MAX: u32 = 3;

/// A connection of an application.
pub struct Application {
    pub wire: usize,
    /// The index of the application among the upstreams.
    pub endpoint: usize,
    plan: UpstreamPlan,
    received: Vec<u8>,
    asked: Option<Asked>,
    may_read_at: Nanos,
    /// The time after which the application closes an idle connection.
    idle_for: Nanos,
    idle_since: Nanos,
    is_done: bool,
    /// The times at which the application sent data, with the number of bytes.
    pub said: Vec<(Nanos, u64)>,
}

/// A request in flight.
struct Asked {
    ask: Ask,
    /// The client of the request, as reported by the server.
    client: Option<IpAddr>,
    body: Incoming,
    /// The key of a WebSocket request.
    key: Option<String>,
    came: usize,
    /// The time at which the request is answered, once that is known.
    answer_at: Option<Nanos>,
    answer: Option<Answer>,
}

/// The remainder of a request's body.
enum Incoming {
    Left(usize),
    Chunked(Chunks),
    Done,
}

struct Answer {
    bytes: Vec<u8>,
    at: usize,
    piece: usize,
    next_at: Nanos,
    after: After,
}

/// The number of times that each request has arrived.
pub type Seen = HashMap<u64, u32>;

impl Application {
    pub fn new(wire: usize, endpoint: usize, plan: &UpstreamPlan, random: &mut Random) -> Application {
        let idle_for = if plan.closes_idle { random.micros(1_000, 20_000_000) } else { Nanos::MAX };
        Application {
            wire,
            endpoint,
            plan: *plan,
            received: Vec::new(),
            asked: None,
            may_read_at: Nanos::ZERO,
            idle_for,
            idle_since: Nanos::MAX,
            is_done: false,
            said: Vec::new(),
        }
    }

    pub fn describe(&self) -> String {
        let asked =
            self.asked.as_ref().map(|asked| (&asked.ask, asked.came, asked.answer.as_ref().map(|answer| answer.at)));
        format!("{asked:?}, {} bytes kept, done {}", self.received.len(), self.is_done)
    }

    /// Returns true if a client waits for a request in progress; a tunnel does not count.
    pub fn is_busy(&self) -> bool {
        let is_tunnel = |asked: &Asked| asked.ask.is_tunnel && asked.answer.is_some();
        self.asked.as_ref().is_some_and(|asked| !is_tunnel(asked)) && !self.is_done
    }

    /// The client of the request in flight.
    pub fn client(&self) -> Option<IpAddr> {
        self.asked.as_ref()?.client
    }

    /// Acts as far as possible now. Returns the time at which more is possible without further input.
    pub fn act(&mut self, now: Nanos, wire: &mut Wire, site: &Site, seen: &mut Seen) -> Result<Option<Nanos>, String> {
        if self.is_done {
            return Ok(None);
        }
        if wire.up.has_reset {
            self.close(wire);
            return Ok(None);
        }
        self.hear(now, wire);
        let said_bytes = wire.up.written_bytes;
        while self.go_on(now, wire, site, seen)? {}
        if wire.up.written_bytes > said_bytes {
            self.said.push((now, wire.up.written_bytes - said_bytes));
        }
        if wire.up.has_fin && wire.up.inbox.is_empty() {
            self.close(wire);
        }
        if self.asked.is_none() && now >= self.closes_at() {
            self.close(wire);
        }
        Ok(self.next_at(now, wire))
    }

    fn closes_at(&self) -> Nanos {
        Nanos(self.idle_since.0.saturating_add(self.idle_for.0))
    }

    fn close(&mut self, wire: &mut Wire) {
        (wire.up.wants_fin, wire.up.is_closed, self.is_done) = (true, true, true);
    }

    fn next_at(&self, now: Nanos, wire: &Wire) -> Option<Nanos> {
        let Some(asked) = self.asked.as_ref().filter(|_| !self.is_done) else {
            return (!self.is_done && self.closes_at() < Nanos::MAX).then(|| self.closes_at());
        };
        let read_at = (!wire.up.inbox.is_empty() && now < self.may_read_at).then_some(self.may_read_at);
        let answer_at = asked.answer_at.filter(|_| asked.answer.is_none());
        let piece_at =
            asked.answer.as_ref().filter(|answer| answer.at < answer.bytes.len()).map(|answer| answer.next_at);
        [read_at, answer_at, piece_at].into_iter().flatten().min()
    }

    fn hear(&mut self, now: Nanos, wire: &mut Wire) {
        let most = match self.asked.as_ref().map(|asked| asked.ask.takes) {
            Some(Takes::Never) => 0,
            Some(Takes::Slowly) if now < self.may_read_at => 0,
            Some(Takes::Slowly) => SLOW_BYTES,
            _ => usize::MAX,
        };
        let bytes = wire.up.hear(most);
        if !bytes.is_empty() {
            self.may_read_at = now + SLOW_EVERY;
            self.received.extend(bytes);
        }
    }

    /// Takes one step. Returns true if something was done, so that another step may be possible.
    fn go_on(&mut self, now: Nanos, wire: &mut Wire, site: &Site, seen: &mut Seen) -> Result<bool, String> {
        let Some(asked) = &mut self.asked else { return self.begin(now, wire, site, seen) };
        let before = (self.received.len(), asked.answer.as_ref().map(|answer| answer.at));
        if !asked.ask.is_tunnel || asked.answer_at.is_none() {
            asked.take_body(now, &mut self.received, site)?;
        }
        if asked.answer.is_none() && asked.answer_at.is_some_and(|at| now >= at) {
            let (mut bytes, after) = asked.ask.response(site);
            if let Some(key) = &asked.key {
                accept(key, &mut bytes);
            }
            asked.answer = Some(Answer { bytes, at: 0, piece: 0, next_at: now, after });
        }
        if let Some(answer) = &mut asked.answer {
            answer.say(now, wire, &asked.ask);
            let is_taken = matches!(asked.body, Incoming::Done);
            if answer.at == answer.bytes.len() && (is_taken || answer.after != After::Keep) {
                match answer.after {
                    After::Keep => (self.asked, self.idle_since) = (None, now),
                    // A reader that wants the rest reads it before it closes.
                    After::Close if is_taken || asked.ask.takes != Takes::Afterwards => self.close(wire),
                    After::Close | After::Silence => {}
                    After::Echo => wire.up.say(&std::mem::take(&mut self.received)),
                    After::Reset => {
                        wire.up.wants_reset = true;
                        self.close(wire);
                    }
                }
            }
        }
        let answered = self.asked.as_ref().map(|asked| asked.answer.as_ref().map(|answer| answer.at));
        Ok(!self.is_done && answered != Some(before.1) || self.received.len() != before.0)
    }

    /// Answers a health check. Returns an error for any other request to an application that the server must know to be
    /// down.
    fn says_health(&self, now: Nanos, wire: &mut Wire, asked: (&str, &str)) -> Result<bool, String> {
        let Some(health) = self.plan.health else { return Ok(false) };
        if asked == ("GET", HEALTH) {
            wire.up.say(health.says(self.endpoint, now));
            return Ok(true);
        }
        let is_down = health.is_known_down(self.endpoint, now, &self.plan);
        if is_down { Err(format!("one that is down is asked: {asked:?}")) } else { Ok(false) }
    }

    fn begin(&mut self, now: Nanos, wire: &mut Wire, site: &Site, seen: &mut Seen) -> Result<bool, String> {
        let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(false) };
        let head = String::from_utf8_lossy(&self.received[..end]).into_owned();
        self.received.drain(..end + 4);
        let mut lines = head.lines();
        let wrong = || format!("an application is asked: {head}");
        let line: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, path, "HTTP/1.1"] = line[..] else { return Err(wrong()) };
        let says_health = self.says_health(now, wire, (method, path))?;
        let ask = Ask::of_path(path, site).filter(|ask| ask.method == method);
        let Some(ask) = ask else { return if says_health { Ok(true) } else { Err(wrong()) } };
        let fields: Vec<(&str, &str)> =
            lines.map(|line| line.split_once(": ").ok_or_else(wrong)).collect::<Result<_, _>>()?;
        let values = |name: &str| {
            fields.iter().filter(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| *value).collect::<Vec<_>>()
        };
        let body = match (&values("content-length")[..], &values("transfer-encoding")[..]) {
            ([], []) => Incoming::Done,
            ([length], []) => Incoming::Left(length.parse().map_err(|_| wrong())?),
            ([], ["chunked"]) => Incoming::Chunked(Chunks::default()),
            _ => return Err(wrong()),
        };
        if values("host") != ["a"] {
            return Err(wrong());
        }
        let key = values("sec-websocket-key").first().map(|key| key.to_string());
        let is_upgrade = values("upgrade") == [if key.is_some() { "websocket" } else { "echo" }];
        if ask.is_tunnel != (is_upgrade && values("connection") == ["upgrade"]) {
            return Err(wrong());
        }
        let times = seen.entry(ask.word).or_default();
        *times += 1;
        // One that is not safe to repeat is sent once, others (PUT, too) as often as an idle connection may be stale.
        if *times > if ask.method == "POST" { 1 } else { ATTEMPTS_MAX } {
            return Err(format!("{ask:?} comes {times} times"));
        }
        let client = values("x-forwarded-for").first().and_then(|address| address.parse().ok());
        let asked = Asked { ask, client, body, key, came: 0, answer_at: None, answer: None };
        (self.asked, self.may_read_at) = (Some(asked), now);
        Ok(true)
    }
}

/// Turns a protocol change into one to WebSocket that accepts this key.
fn accept(key: &str, response: &mut Vec<u8>) {
    let change = b"Upgrade: echo\r\n";
    if let Some(at) = response.windows(change.len()).position(|bytes| bytes == change) {
        let accept = http::websocket::accept(key.as_bytes());
        let fields = [b"Upgrade: websocket\r\nSec-WebSocket-Accept: ", &accept[..], b"\r\n"].concat();
        response.splice(at..at + change.len(), fields);
    }
}

impl Asked {
    /// Checks the bytes of the request's body that have arrived.
    fn take_body(&mut self, now: Nanos, received: &mut Vec<u8>, site: &Site) -> Result<(), String> {
        let mut rest = &received[..];
        let (data, is_done) = self.body.take(&mut rest)?;
        let all = self.ask.uploaded(site);
        if all.get(self.came..self.came + data.len()) != Some(&data[..])
            || is_done && self.came + data.len() != all.len()
        {
            return Err(format!(
                "wrong bytes from {} to {} of the body of {:?}",
                self.came,
                self.came + data.len(),
                self.ask
            ));
        }
        self.came += data.len();
        let taken = received.len() - rest.len();
        received.drain(..taken);
        if is_done {
            self.body = Incoming::Done;
            // The next request may arrive once the response was complete.
            let is_answered = self.answer.as_ref().is_some_and(|answer| answer.at == answer.bytes.len());
            if !received.is_empty() && !is_answered {
                return Err(format!("{} bytes come behind {:?}", received.len(), self.ask));
            }
        }
        if self.answer_at.is_none() && (is_done || matches!(self.ask.takes, Takes::Afterwards | Takes::Never)) {
            self.answer_at = Some(now + self.ask.thinks);
        }
        Ok(())
    }
}

impl Incoming {
    /// Takes bytes from the front. Returns the content, and true if the body is complete.
    fn take(&mut self, bytes: &mut &[u8]) -> Result<(Vec<u8>, bool), String> {
        match self {
            Incoming::Done => Ok((Vec::new(), true)),
            Incoming::Left(left) => {
                let (part, rest) = bytes.split_at(bytes.len().min(*left));
                (*bytes, *left) = (rest, *left - part.len());
                Ok((part.to_vec(), *left == 0))
            }
            Incoming::Chunked(chunks) => chunks.take(bytes),
        }
    }
}

impl Answer {
    fn say(&mut self, now: Nanos, wire: &mut Wire, ask: &Ask) {
        while self.at < self.bytes.len() && now >= self.next_at {
            self.piece += 1;
            let end =
                if self.piece >= ask.pieces { self.bytes.len() } else { self.piece * self.bytes.len() / ask.pieces };
            wire.up.say(&self.bytes[self.at..end]);
            self.at = end;
            if self.at < self.bytes.len() {
                self.next_at = now + ask.pause;
            }
        }
    }
}
