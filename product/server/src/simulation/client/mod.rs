//! The clients. Each is a function of bytes and time with habits of its own, and checks the responses to its requests.

mod attacker;
mod engine;
mod http1;
mod http2;
mod http3;
mod request;
mod tunnel;
mod websocket;

use std::rc::Rc;

use units::Nanos;

use super::files::Site;
use super::plan::Plan;
use super::random::Random;
use super::wire::Wire;
use attacker::Attacker;
pub use engine::Engine;
use engine::Tls;
pub use http1::Http1;
pub use http2::{Habits, Http2};
pub use http3::Http3;
pub use request::Request;
pub use tunnel::Tunnel;
pub use websocket::WebSocket;

/// The maximum number of requests of one client.
const REQUESTS_MAX: u64 = 12;
/// The maximum number of bytes carried for one client.
pub const BYTES_ASKED_MAX: u64 = REQUESTS_MAX * 1_100_000;
/// The position of the end of a request that is not written yet.
const UNWRITTEN: u64 = u64::MAX;
const READ_EVERY: Nanos = Nanos::from_millis(100);

/// The way in which a client ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// Closes after everything has arrived.
    WhenDone,
    /// Closes after this many bytes of responses.
    After(u64),
    /// Resets after this many bytes of responses.
    ResetAfter(u64),
    /// Sends half a request, and waits until the server gives the client up.
    HalfAsked,
    /// Stops reading after this many bytes, and waits until the server gives the client up.
    DeafAfter(u64),
    /// Sends too many requests, and leaves with a reset.
    AfterAttack,
    /// Ends its side of TLS, but not of TCP, and waits until the server ends both.
    AfterTls,
}

pub struct Client {
    pub wire: usize,
    pub is_done: bool,
    leaving: Leaving,
    /// The number of bytes read at once, every [`READ_EVERY`]; `None` to read everything.
    reads: Option<usize>,
    may_read_at: Nanos,
    /// The size of the pieces in which requests are sent; `None` to send everything.
    sends: Option<usize>,
    engine: Engine,
    tls: Option<Box<Tls>>,
    /// Bytes that are written but not passed to the network yet.
    unsent: Vec<u8>,
    may_send_at: Nanos,
    pub heard_bytes: u64,
    /// The number of correct responses.
    pub answered: u64,
    progress_at: Nanos,
    patience: Nanos,
    has_reset: bool,
    /// True if the server may end the connection, after a failure of its disk or for lack of memory.
    may_be_cut: bool,
    /// The times at which the client sent data.
    pub said_at: Vec<Nanos>,
    /// The times at which the client received data other than TLS's own.
    pub heard_at: Vec<Nanos>,
}

impl Leaving {
    /// Returns true if a client that leaves in this way may use a tunnel. Otherwise the server must end a connection by
    /// its request timeout, which tunnels do not have.
    fn may_tunnel(self) -> bool {
        matches!(self, Leaving::WhenDone | Leaving::After(_) | Leaving::ResetAfter(_))
    }

    /// Returns a random way; `after` is the number of bytes for the ways that have one.
    fn of(plan: &Plan, after: u64, random: &mut Random) -> Leaving {
        match random.below(12) {
            // Some send requests and leave at once.
            0 if plan.has_strange_clients => Leaving::After(if after.is_multiple_of(3) { 0 } else { after }),
            1 if plan.has_strange_clients => Leaving::ResetAfter(after),
            2 if plan.has_strange_clients => Leaving::HalfAsked,
            3 if plan.has_strange_clients => Leaving::DeafAfter(after),
            4..8 if plan.has_attackers => Leaving::AfterAttack,
            _ => Leaving::WhenDone,
        }
    }
}

/// Builds a client's protocol engine. The tuple has its requests, the number of concurrent ones, and the pause after a
/// response.
fn engine(
    plan: &Plan,
    site: &Site,
    leaving: Leaving,
    (requests, depth, think): (Vec<Request>, usize, Nanos),
    random: &mut Random,
) -> Engine {
    let upstreams = plan.upstreams.as_ref().filter(|_| leaving.may_tunnel());
    if leaving == Leaving::AfterAttack {
        Engine::Attacker(Attacker::new(site.count(), random))
    } else if let Some(upstreams) = upstreams.filter(|_| random.once_in(8)) {
        if plan.has_http2 && random.once_in(2) {
            return Engine::WebSocket(WebSocket::new(upstreams, site, random));
        }
        Engine::Tunnel(Tunnel::new(upstreams, site, random))
    } else if plan.has_http2 && leaving != Leaving::HalfAsked && random.once_in(2) {
        Engine::Http2(Http2::new(requests, depth, think, Habits::of(random), plan.may_cut()))
    } else {
        Engine::Http1(Http1::new(requests, depth, think))
    }
}

impl Client {
    pub fn new(plan: &Plan, site: &Rc<Site>, random: &mut Random) -> Client {
        let asked = random.between(1, REQUESTS_MAX);
        let is_slow = random.once_in(4);
        let mut requests: Vec<Request> = (0..asked).map(|_| Request::of(plan, site, is_slow, random)).collect();
        let bytes: u64 = requests.iter().map(|request| request.body_bytes(site) as u64).sum();
        let after = random.below(bytes + 1_000);
        let leaving = Leaving::of(plan, after, random);
        let mut depth = random.one_of(&[1, 1, 2, 12]);
        if leaving == Leaving::HalfAsked {
            (requests, depth) = (vec![Request::of_file(site, random)], 1);
        }
        let think = random.one_of(&[Nanos::ZERO, Nanos::from_millis(50), Nanos::from_secs(20)]);
        let reads = random.once_in(4).then(|| random.between(5_000, 100_000) as usize);
        let asks = (requests, depth, think);
        let engine = engine(plan, site, leaving, asks, random);
        let is_secure = plan.has_tls && leaving != Leaving::HalfAsked && random.once_in(2);
        let sends = is_slow.then(|| random.between(1, 60) as usize);
        Client { leaving, reads, sends, ..Client::of(engine, is_secure, plan) }
    }

    /// A client without special habits.
    pub fn of(engine: Engine, is_secure: bool, plan: &Plan) -> Client {
        Client {
            wire: usize::MAX,
            is_done: false,
            leaving: Leaving::WhenDone,
            reads: None,
            may_read_at: Nanos::ZERO,
            sends: None,
            tls: is_secure.then(|| Box::new(Tls::new(&engine))),
            engine,
            unsent: Vec::new(),
            may_send_at: Nanos::ZERO,
            heard_bytes: 0,
            answered: 0,
            progress_at: Nanos::ZERO,
            patience: plan.patience(),
            has_reset: false,
            may_be_cut: plan.may_cut(),
            said_at: Vec::new(),
            heard_at: Vec::new(),
        }
    }

    pub fn describe(&self) -> String {
        let (habits, heard_at) = ((self.leaving, self.reads, self.sends), self.progress_at.as_secs_f64());
        format!("{habits:?}, secure {}, progress at {heard_at:.3} s, {}", self.is_secure(), self.engine.describe())
    }

    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// The number of requests, or parts of a request, sent so far.
    pub fn asked(&self) -> u64 {
        self.engine.asked()
    }

    /// Returns true if the server must answer all requests of this client.
    pub fn is_honest(&self) -> bool {
        self.leaving == Leaving::WhenDone
    }

    /// Acts as far as possible now. Returns the time at which more is possible without further input.
    pub fn act(
        &mut self,
        now: Nanos,
        wire: &mut Wire,
        site: &Site,
        random: &mut Random,
    ) -> Result<Option<Nanos>, String> {
        self.hear(now, wire, site)?;
        if self.is_done {
            return Ok(None);
        }
        if self.leaving != Leaving::AfterTls {
            self.say(now, wire, site, random)?;
        }
        self.leave(now, wire);
        if self.is_done {
            return Ok(None);
        }
        self.judge_wait(now, wire)
    }

    fn hear(&mut self, now: Nanos, wire: &mut Wire, site: &Site) -> Result<(), String> {
        let is_deaf = matches!(self.leaving, Leaving::DeafAfter(bytes) if self.heard_bytes >= bytes);
        let most = match self.reads {
            _ if is_deaf => 0,
            Some(_) if now < self.may_read_at => 0,
            Some(bytes) => bytes,
            None => usize::MAX,
        };
        let bytes = wire.up.hear(most);
        if !bytes.is_empty() {
            self.may_read_at = now + READ_EVERY;
            self.heard_bytes += bytes.len() as u64;
            self.progress_at = now;
            let plain = match &mut self.tls {
                Some(tls) => tls.open(&bytes)?,
                None => bytes,
            };
            let echoed = self.engine.echoed_bytes();
            self.answered += self.engine.receive(&plain, now, site)?;
            // Other bytes in a tunnel do not count.
            if !plain.is_empty() && (echoed.is_none() || self.engine.echoed_bytes() > echoed) {
                self.heard_at.push(now);
            }
        }
        let is_all = wire.up.inbox.is_empty() || is_deaf;
        // A client that reads nothing cannot detect an end.
        let is_given_up = is_deaf && wire.server.is_closed;
        if is_given_up || (wire.up.has_reset || wire.up.has_fin) && is_all {
            self.on_end(wire)?;
        }
        Ok(())
    }

    /// Judges the end of the connection by the server.
    fn on_end(&mut self, wire: &mut Wire) -> Result<(), String> {
        self.is_done = true;
        (wire.up.wants_fin, wire.up.is_closed) = (true, true);
        if self.is_honest() && !self.may_be_cut {
            let how = if wire.up.has_reset { "a reset" } else { "an end" };
            self.engine
                .judge_end(wire.server.read_bytes, wire.stop)
                .map_err(|why| format!("{why}: {how} after {} bytes", self.heard_bytes))?;
        }
        Ok(())
    }

    fn say(&mut self, now: Nanos, wire: &mut Wire, site: &Site, random: &mut Random) -> Result<(), String> {
        let before = self.unsent.len();
        match &mut self.tls {
            Some(tls) => {
                let mut plain = Vec::new();
                if !tls.is_handshaking() {
                    self.engine.say(now, &mut plain, site, random);
                }
                tls.seal(&plain, &mut self.unsent)?;
            }
            None => self.engine.say(now, &mut self.unsent, site, random),
        }
        self.engine.note_written(wire.up.written_bytes + self.unsent.len() as u64);
        if self.leaving == Leaving::HalfAsked && !self.unsent.is_empty() {
            self.unsent.truncate(self.unsent.len() / 2);
            wire.up.say(&self.unsent);
            self.unsent.clear();
            self.engine.expect_refusal();
            self.progress_at = now;
        }
        if self.unsent.len() > before {
            self.progress_at = now;
            self.said_at.push(now);
        }
        while !self.unsent.is_empty() && now >= self.may_send_at {
            let bytes = self.sends.map_or(self.unsent.len(), |bytes| bytes.min(self.unsent.len()));
            wire.up.say(&self.unsent[..bytes]);
            self.unsent.drain(..bytes);
            if self.sends.is_some() {
                self.may_send_at = now + random.micros(1, 20_000);
            }
            self.progress_at = now;
        }
        Ok(())
    }

    fn leave(&mut self, now: Nanos, wire: &mut Wire) {
        let leaves = match self.leaving {
            Leaving::WhenDone => self.engine.is_done() && self.unsent.is_empty(),
            Leaving::After(bytes) => self.heard_bytes >= bytes || self.engine.is_done(),
            Leaving::ResetAfter(bytes) => {
                let leaves = self.heard_bytes >= bytes || self.engine.is_done();
                self.has_reset = leaves;
                leaves
            }
            Leaving::HalfAsked | Leaving::DeafAfter(_) => self.engine.is_done() && self.unsent.is_empty(),
            Leaving::AfterAttack => {
                self.has_reset = self.engine.is_done();
                self.has_reset
            }
            Leaving::AfterTls => false,
        };
        if leaves {
            let mut end = Vec::new();
            if let Some(tls) = self.tls.as_mut().filter(|_| !self.has_reset) {
                tls.end(&mut end);
            }
            wire.up.say(&end);
            // Some, as Go's CloseWrite.
            if self.is_honest() && self.is_secure() && self.heard_bytes.is_multiple_of(2) {
                (self.leaving, self.progress_at) = (Leaving::AfterTls, now);
                return;
            }
            self.is_done = true;
            wire.up.wants_fin = !self.has_reset;
            (wire.up.wants_reset, wire.up.is_closed) = (self.has_reset, true);
        }
    }

    /// Returns the time at which the client acts again. Returns an error unless in time either a requested response
    /// arrives or the server gives up the client.
    fn judge_wait(&mut self, now: Nanos, wire: &Wire) -> Result<Option<Nanos>, String> {
        let patience = match self.leaving {
            Leaving::HalfAsked | Leaving::DeafAfter(_) => self.patience + Nanos::from_secs(240),
            _ => self.patience,
        };
        let is_handshaking = self.tls.as_ref().is_some_and(|tls| tls.is_handshaking());
        let waits = is_handshaking || self.engine.is_waiting();
        let waits = waits || matches!(self.leaving, Leaving::HalfAsked | Leaving::AfterTls);
        if waits && now >= self.progress_at + patience {
            return Err(format!(
                "nothing came for {} s, and {} bytes before",
                patience.as_secs_f64(),
                self.heard_bytes
            ));
        }
        let read_at = (!wire.up.inbox.is_empty() && now < self.may_read_at).then_some(self.may_read_at);
        let send_at = (!self.unsent.is_empty()).then_some(self.may_send_at);
        let think_at = self.engine.think_at().filter(|at| *at > now);
        let late_at = waits.then_some(self.progress_at + patience);
        Ok([read_at, send_at, think_at, late_at].into_iter().flatten().min())
    }
}
