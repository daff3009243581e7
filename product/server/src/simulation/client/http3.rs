//! An HTTP/3 client: the QUIC of quinn-proto, with HTTP/3 frames decoded by hand. It sends and judges like the other
//! clients.

mod stream;

use std::collections::{BTreeMap, VecDeque};

use quic::testing::{Client as Peer, Dir, GOAWAY, StreamId, Windows, id, varint};
use units::Nanos;

use super::super::datagrams::{SERVER, quic_seed};
use super::super::files::Site;
use super::super::plan::Plan;
use super::super::random::Random;
use super::super::wire::Stop;
use super::REQUESTS_MAX;
use super::request::Request;
use stream::{Stream, whole_frame};

/// Codes of RFC 9114 section 8.1.
const NO_ERROR: u64 = 0x100;
const REQUEST_REJECTED: u64 = 0x10b;
const REQUEST_CANCELLED: u32 = 0x10c;
/// The time within which the server gives up a client that reads nothing.
const DEAF_FOR: Nanos = Nanos::from_secs(240);

pub struct Http3 {
    /// Created when the client first acts.
    peer: Option<Peer>,
    seed: [u8; 32],
    to_ask: VecDeque<Request>,
    open: BTreeMap<u32, Stream>,
    habits: Habits,
    may_ask_at: Nanos,
    has_said_hello: bool,
    control: Control,
    pub heard_bytes: u64,
    /// The number of correct responses.
    pub answered: u64,
    /// The number of requests sent.
    pub asked: u64,
    progress_at: Nanos,
    pub is_done: bool,
    /// The times at which the client sent data in a tunnel. The next field has the times at which data of a stream
    /// arrived.
    pub said_at: Vec<Nanos>,
    pub heard_at: Vec<Nanos>,
}

/// The habits of a client.
#[derive(Debug, Clone, Copy)]
struct Habits {
    /// The number of concurrent requests, and the pause after a response.
    depth: usize,
    think: Nanos,
    /// The client cancels one in this many requests.
    cancels: Option<u64>,
    leaving: Leaving,
    windows: Windows,
    /// The maximum time from one response to the next.
    patience: Nanos,
    /// True if the server may end the connection for lack of room, or because it stops.
    may_be_closed: bool,
    /// True if the server's disk may fail, or its memory may be short.
    may_be_cut: bool,
}

/// The way in which a client ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    WhenDone,
    /// After this many bytes.
    After(u64),
    /// After this many bytes, without sending CONNECTION_CLOSE.
    SilentAfter(u64),
    /// Stops reading after this many bytes, and waits until the server gives the client up.
    DeafAfter(u64),
}

/// The server's control stream.
#[derive(Debug, Default)]
struct Control {
    id: Option<StreamId>,
    bytes: Vec<u8>,
    /// The first stream that the server does not answer, once it has sent GOAWAY.
    refused_from: Option<u32>,
}

impl Leaving {
    fn of(plan: &Plan, after: u64, random: &mut Random) -> Leaving {
        match random.below(8) {
            0 if plan.has_strange_clients => Leaving::After(after),
            1 if plan.has_strange_clients => Leaving::SilentAfter(after),
            2 if plan.has_strange_clients => Leaving::DeafAfter(after),
            _ => Leaving::WhenDone,
        }
    }
}

impl Habits {
    fn none(plan: &Plan) -> Habits {
        Habits {
            depth: 1,
            think: Nanos::ZERO,
            cancels: None,
            leaving: Leaving::WhenDone,
            windows: Windows::default(),
            patience: plan.patience(),
            may_be_closed: !plan.has_room(),
            may_be_cut: plan.may_cut(),
        }
    }

    fn of(plan: &Plan, after: u64, random: &mut Random) -> Habits {
        let narrow = Windows { stream: random.one_of(&[5_000, 60_000]), connection: 100_000 };
        Habits {
            depth: random.one_of(&[1, 1, 3, 12]),
            think: random.one_of(&[Nanos::ZERO, Nanos::from_millis(50), Nanos::from_secs(20)]),
            cancels: random.once_in(3).then(|| random.between(1, 6)),
            leaving: Leaving::of(plan, after, random),
            windows: if random.once_in(2) { Windows::default() } else { narrow },
            ..Habits::none(plan)
        }
    }
}

impl Http3 {
    pub fn new(plan: &Plan, site: &Site, random: &mut Random) -> Http3 {
        let asked = random.between(1, REQUESTS_MAX);
        let to_ask: VecDeque<Request> = (0..asked).map(|_| Request::of(plan, site, false, random)).collect();
        let after = random.below(to_ask.iter().map(|request| request.body_bytes(site) as u64).sum::<u64>() + 1_000);
        let seed = quic_seed(random);
        Http3 { habits: Habits::of(plan, after, random), ..Http3::of(to_ask, seed, plan) }
    }

    /// A client without special habits.
    pub fn of(to_ask: VecDeque<Request>, seed: [u8; 32], plan: &Plan) -> Http3 {
        Http3 {
            peer: None,
            seed,
            to_ask,
            open: BTreeMap::new(),
            habits: Habits::none(plan),
            may_ask_at: Nanos::ZERO,
            has_said_hello: false,
            control: Control::default(),
            heard_bytes: 0,
            answered: 0,
            asked: 0,
            progress_at: Nanos::ZERO,
            is_done: false,
            said_at: Vec::new(),
            heard_at: Vec::new(),
        }
    }

    pub fn describe(&self) -> String {
        let Http3 { habits, open, to_ask, control, heard_bytes, .. } = self;
        let lost = self.peer.as_ref().and_then(|peer| peer.lost.as_ref());
        let left = (to_ask.len(), heard_bytes, control.refused_from);
        format!("{habits:?}, to ask, heard, refused from {left:?}, open {open:?}, lost {lost:?}")
    }

    /// The next datagram.
    pub fn say(&mut self, now: Nanos) -> Option<Vec<u8>> {
        let is_silent = self.is_done && matches!(self.habits.leaving, Leaving::SilentAfter(_));
        self.peer.as_mut().filter(|_| !is_silent)?.transmit(now)
    }

    /// Receives a datagram, if one has arrived, and acts as far as possible now.
    pub fn act(
        &mut self,
        now: Nanos,
        came: Option<&[u8]>,
        stop: Option<Stop>,
        site: &Site,
        random: &mut Random,
    ) -> Result<(), String> {
        if self.peer.is_none() {
            self.progress_at = now;
        }
        let mut peer =
            self.peer.take().unwrap_or_else(|| Peer::seeded(self.seed, now, SERVER, "localhost", self.habits.windows));
        came.into_iter().for_each(|datagram| peer.receive(now, datagram));
        if peer.timeout().is_some_and(|at| at <= now) {
            peer.on_timeout(now);
        }
        let acted = self.go_on(&mut peer, now, stop, site, random);
        self.peer = Some(peer);
        acted
    }

    fn go_on(
        &mut self,
        peer: &mut Peer,
        now: Nanos,
        stop: Option<Stop>,
        site: &Site,
        random: &mut Random,
    ) -> Result<(), String> {
        if peer.is_connected && !std::mem::replace(&mut self.has_said_hello, true) {
            peer.hello();
        }
        self.hear(peer, now, site)?;
        if peer.lost.is_some() {
            self.is_done = true;
            return self.judge_end(peer, stop);
        }
        if self.has_said_hello {
            self.ask(peer, now, site, random);
        }
        self.leave(peer, now);
        Ok(())
    }

    fn hear(&mut self, peer: &mut Peer, now: Nanos, site: &Site) -> Result<(), String> {
        self.control.hear(peer)?;
        for number in self.open.keys().copied().collect::<Vec<_>>() {
            let came = peer.take(id(number));
            let stream = self.open.get_mut(&number).expect("it is open");
            if !came.bytes.is_empty() {
                self.heard_bytes += came.bytes.len() as u64;
                self.progress_at = now;
                self.heard_at.push(now);
                stream.hear(&came.bytes, site)?;
            }
            let is_over = came.is_whole || came.reset.is_some();
            if stream.cancel_at.is_some_and(|bytes| stream.came >= bytes) && !is_over {
                peer.stop(number, REQUEST_CANCELLED);
                peer.reset(id(number), REQUEST_CANCELLED);
                self.open.remove(&number);
                self.may_ask_at = now + self.habits.think;
            } else if is_over {
                let stream = self.open.remove(&number).expect("it is open");
                self.may_ask_at = now + self.habits.think;
                self.progress_at = now;
                if stream.written.is_some() {
                    peer.reset(id(number), REQUEST_CANCELLED);
                }
                match came.reset {
                    Some(code) => self.judge_reset(number, &stream, code)?,
                    None => {
                        stream.judge_end(site)?;
                        self.answered += 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn judge_reset(&self, number: u32, stream: &Stream, code: u64) -> Result<(), String> {
        let is_refused = code == REQUEST_REJECTED && self.control.refused_from.is_none_or(|from| number >= from);
        if is_refused && self.habits.may_be_closed || self.habits.may_be_cut || stream.request.may_break() {
            return Ok(());
        }
        Err(format!("stream {number} is reset with {code:#x}: {stream:?}"))
    }

    fn ask(&mut self, peer: &mut Peer, now: Nanos, site: &Site, random: &mut Random) {
        while now >= self.may_ask_at
            && self.open.len() < self.habits.depth
            && self.control.refused_from.is_none()
            && !self.to_ask.is_empty()
            && let Some(opened) = peer.try_open(Dir::Bi)
        {
            let request = self.to_ask.pop_front().expect("there is one");
            let cancels = self.habits.cancels.is_some_and(|times| random.once_in(times));
            let cancel_at = cancels.then(|| random.below(40_000) as usize);
            self.asked += 1;
            self.progress_at = now;
            self.open.insert(opened.index() as u32, Stream::new(request, cancel_at, site));
        }
        for (number, stream) in &mut self.open {
            if stream.speak(now, site, random) {
                self.said_at.push(now);
            }
            stream.write(peer, id(*number));
        }
    }

    fn leave(&mut self, peer: &mut Peer, now: Nanos) {
        let is_finished = self.open.is_empty() && (self.to_ask.is_empty() || self.control.refused_from.is_some());
        match self.habits.leaving {
            Leaving::DeafAfter(bytes) if self.heard_bytes >= bytes && !is_finished => peer.is_deaf = true,
            Leaving::After(bytes) | Leaving::SilentAfter(bytes) => {
                self.is_done = is_finished || self.heard_bytes >= bytes
            }
            Leaving::WhenDone | Leaving::DeafAfter(_) => self.is_done = is_finished,
        }
        if self.is_done {
            peer.close(now, NO_ERROR as u32);
        }
    }

    /// Judges the end of the connection, by the server or by a timeout.
    fn judge_end(&self, peer: &Peer, stop: Option<Stop>) -> Result<(), String> {
        if let Some(complaint) = peer.complaint() {
            return Err(format!("the server breaks QUIC: {complaint}"));
        }
        if self.habits.leaving != Leaving::WhenDone || self.habits.may_be_cut || stop == Some(Stop::Over) {
            return Ok(());
        }
        let lost = &peer.lost;
        if peer.is_refused() {
            return if self.habits.may_be_closed { Ok(()) } else { Err("it is refused, and there is room".into()) };
        }
        if peer.close_code().is_some_and(|code| code != NO_ERROR) {
            return Err(format!("it is closed: {lost:?}"));
        }
        let is_owed = |number: u32, stream: &Stream| {
            let is_taken = stream.has_head || self.control.refused_from.is_some_and(|from| number < from);
            !stream.request.may_break() && (is_taken || !self.habits.may_be_closed)
        };
        match self.open.iter().find(|(number, stream)| is_owed(**number, stream)) {
            Some((number, stream)) => Err(format!("stream {number} is not answered: {stream:?}; {lost:?}")),
            None if !peer.is_connected && !self.habits.may_be_closed => Err(format!("no handshake: {lost:?}")),
            None => Ok(()),
        }
    }

    /// Returns the time at which the client can act again without further input. Returns an error if no response
    /// arrives in time and the server does not give up the client.
    pub fn acts_again_at(&mut self, now: Nanos) -> Result<Option<Nanos>, String> {
        let Some(peer) = self.peer.as_mut().filter(|_| !self.is_done) else { return Ok(None) };
        let Habits { patience, leaving, .. } = self.habits;
        let patience = if let Leaving::DeafAfter(_) = leaving { patience + DEAF_FOR } else { patience };
        let waits = !peer.is_connected || !self.open.is_empty();
        let late_at = self.progress_at + patience;
        if waits && now >= late_at {
            return Err(format!("nothing came for {} s", patience.as_secs_f64()));
        }
        let asks_at = (!self.to_ask.is_empty() && self.open.len() < self.habits.depth).then_some(self.may_ask_at);
        let asks_at = asks_at.filter(|at| *at > now);
        let speaks_at = self.open.values().filter_map(Stream::speaks_at);
        Ok(peer.timeout().into_iter().chain(asks_at).chain(speaks_at).chain(waits.then_some(late_at)).min())
    }
}

impl Control {
    fn hear(&mut self, peer: &mut Peer) -> Result<(), String> {
        // It opens no other stream: there is no dynamic table.
        self.id = self.id.or_else(|| peer.server_stream_ids().first().copied());
        let Some(id) = self.id else { return Ok(()) };
        let came = peer.take(id);
        if came.is_whole || came.reset.is_some() {
            return Err("the control stream ends".into());
        }
        self.bytes.extend(came.bytes);
        // After the type.
        let mut at = 1;
        while let Some((kind, payload, end)) = self.bytes.get(at..).and_then(whole_frame) {
            if kind == GOAWAY {
                let (first, _) = varint::read(payload).ok_or("a GOAWAY of nothing")?;
                // Request streams of a client are every fourth number.
                self.refused_from = Some((first / 4) as u32);
            }
            self.bytes.drain(at..at + end);
            at = 1;
        }
        Ok(())
    }
}
