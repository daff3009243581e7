//! A connection of HTTP/2 to an upstream: several transfers at a time, each on a stream of its own, as many as the upstream allows.
//!
//! What has come waits in the session until its transfer takes it, within the window of its stream. What fails here fails all transfers that are not
//! whole; each hears of it when it goes on.

use http::http1::upstream::{ResponseLimits, UpstreamHead};
use mux::{BODY_BYTES_MAX, Broken, ClientSession, ClientSettings, Flood};
use units::Nanos;

use super::Fault;
use super::on_stream::{self, OnStream};
use super::transfer::Transfer;
use super::wire::{Received, Wire};
use crate::net::Stream;

/// Frames that wait for room in the socket: beyond that none are made of requests and their bodies.
pub const FRAMES_BYTES_MAX: usize = 64 << 10;
/// And answers that an upstream makes us keep, since it does not read.
const UNREAD_BYTES_MAX: usize = 256 << 10;

pub struct Multiplexed {
    session: ClientSession,
    /// Frames that were made and not handed down.
    out: Vec<u8>,
    carried: Vec<Carried>,
    /// It could be connected to: something of it has left.
    has_begun: bool,
    /// Its upstream has not said anything for as long as it may, and may be gone.
    is_doubtful: bool,
    heard_at: Nanos,
    fault: Option<Fault>,
}

/// A transfer, and its stream once it has one.
#[derive(Debug, Clone, Copy)]
struct Carried {
    transfer: usize,
    stream: Option<u32>,
}

impl Multiplexed {
    pub fn new(now: Nanos, response: ResponseLimits) -> Multiplexed {
        let mut session = ClientSession::new(&ClientSettings { response });
        let mut out = Vec::new();
        session.control(&mut out);
        let carried = Vec::new();
        Multiplexed { session, out, carried, has_begun: false, is_doubtful: false, heard_at: now, fault: None }
    }

    /// Another transfer may be on it.
    pub fn has_room(&mut self) -> bool {
        let is_taking = self.fault.is_none() && !self.is_doubtful;
        is_taking && self.out.len() < FRAMES_BYTES_MAX && self.carried.len() < self.session.streams_max() as usize
    }

    /// It was connected to before.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// A transfer is to be on it.
    pub fn carry(&mut self, transfer: usize, now: Nanos) {
        if self.carried.is_empty() {
            self.heard_at = now;
        }
        self.carried.push(Carried { transfer, stream: None });
    }

    /// Nothing is on it.
    pub fn is_idle(&self) -> bool {
        self.carried.is_empty()
    }

    /// It is of no use to transfers that come.
    pub fn is_used_up(&mut self) -> bool {
        self.fault.is_some() || self.is_doubtful || !self.has_begun || self.session.is_leaving()
    }

    /// Takes what has come, and hands down what was made.
    pub fn on_ready(&mut self, wire: &mut Wire<impl Stream>, scratch: &mut [u8], now: Nanos) {
        self.hand_down(wire);
        while self.fault.is_none() && self.has_begun {
            match wire.receive(scratch) {
                Ok(Received::Bytes(bytes)) => {
                    self.heard_at = now;
                    let taken = self.session.receive(now, &scratch[..bytes], &mut self.out);
                    let is_unread = self.out.len() > UNREAD_BYTES_MAX;
                    let taken = taken.and(if is_unread { Err(Broken::Flood(Flood::Unread)) } else { Ok(()) });
                    self.note(taken.map_err(|broken| Fault::Http2(broken.to_string())));
                }
                Ok(Received::Nothing) => break,
                Ok(Received::End) => self.note(Err(Fault::Closed)),
                Err(fault) => self.note(Err(fault)),
            }
        }
        self.hand_down(wire);
    }

    fn note(&mut self, done: Result<(), Fault>) {
        if let Err(fault) = done {
            self.fault.get_or_insert(fault);
        }
    }

    /// Hands down what was made, as far as there is room.
    fn hand_down(&mut self, wire: &mut Wire<impl Stream>) {
        if self.fault.is_some() {
            return;
        }
        let begun = wire.go_on().and_then(|()| match wire.speaks_http2() {
            false => Err(Fault::Tls("no HTTP/2: expected an upstream that chooses h2 by ALPN".into())),
            true => Ok(()),
        });
        if begun.is_err() {
            return self.note(begun);
        }
        let mut taken = 0;
        while taken < self.out.len() {
            match wire.send(&self.out[taken..]) {
                Ok(bytes) => {
                    taken += bytes;
                    self.has_begun = true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if !self.has_begun => return self.note(Err(Fault::Unreachable(error))),
                // What it has said before may tell why.
                Err(_) => {
                    wire.look();
                    taken = self.out.len();
                }
            }
        }
        self.out.drain(..taken);
        if self.out.is_empty() {
            self.out = Vec::new();
        }
    }

    /// Transfers for which something has come, or that can send again, or all of them where it has failed.
    pub fn stirred(&mut self, wants_room: impl Fn(usize) -> bool) -> Vec<usize> {
        let news: Vec<u32> = std::iter::from_fn(|| self.session.news()).collect();
        let (has_failed, has_room) = (self.fault.is_some(), self.out.len() < FRAMES_BYTES_MAX);
        let session = &mut self.session;
        let mut may_go_on = |carried: &&Carried| match carried.stream {
            _ if has_failed => true,
            None => true,
            Some(stream) if news.contains(&stream) => true,
            Some(stream) => has_room && wants_room(carried.transfer) && session.window(stream) != Some(0),
        };
        self.carried.iter().filter(|carried| may_go_on(carried)).map(|carried| carried.transfer).collect()
    }

    /// Goes on with a transfer until its head has come, or it has to wait.
    pub fn step(
        &mut self,
        wire: &mut Wire<impl Stream>,
        transfer: &mut Transfer,
        number: usize,
        now: Nanos,
    ) -> Result<Option<UpstreamHead>, Fault> {
        self.hand_down(wire);
        if let Some(mut on_stream) = self.begin(transfer, number, now) {
            on_stream.send(transfer, now);
            self.hand_down(wire);
        }
        if transfer.is_answered() {
            return Ok(None);
        }
        if let Some(mut on_stream) = self.stream_of(number) {
            let head = on_stream.read_head(transfer, now)?;
            if head.is_some() {
                return Ok(head);
            }
        } else if self.fault.is_none() && self.session.is_leaving() {
            return Err(Fault::Refused);
        }
        self.fault().map_or(Ok(None), Err)
    }

    /// The stream of a transfer, which is opened where that may be.
    fn begin(&mut self, transfer: &mut Transfer, number: usize, now: Nanos) -> Option<OnStream<'_>> {
        let at = self.carried.iter().position(|carried| carried.transfer == number)?;
        let open = self.carried.iter().filter(|carried| carried.stream.is_some()).count();
        let may_open = self.has_begun && self.fault.is_none() && self.out.len() < FRAMES_BYTES_MAX;
        if self.carried[at].stream.is_none() && may_open && open < self.session.streams_max() as usize {
            // Its response may fill its window before anybody takes it.
            if transfer.account().whole().room() < BODY_BYTES_MAX {
                transfer.need_memory();
                return None;
            }
            self.carried[at].stream = on_stream::open(transfer, &mut self.session, &mut self.out, now);
        }
        let stream = self.carried[at].stream?;
        Some(OnStream { session: &mut self.session, stream, out: &mut self.out })
    }

    /// The stream of a transfer, if it has one.
    pub fn stream_of(&mut self, number: usize) -> Option<OnStream<'_>> {
        let stream = self.carried.iter().find(|carried| carried.transfer == number)?.stream?;
        Some(OnStream { session: &mut self.session, stream, out: &mut self.out })
    }

    /// Something was read of a stream, whose upstream may send more then.
    pub fn open_windows(&mut self, wire: &mut Wire<impl Stream>) {
        self.session.control(&mut self.out);
        self.hand_down(wire);
    }

    /// Bytes that are alive of what has come for a transfer, or may come.
    #[cfg(test)]
    pub fn alive_bytes(&self, number: usize) -> usize {
        let of = self.carried.iter().find(|carried| carried.transfer == number);
        of.and_then(|carried| carried.stream).map_or(0, |stream| self.session.alive_bytes(stream))
    }

    /// Why a response that is not whole goes no further.
    pub fn fault(&self) -> Option<Fault> {
        self.fault.as_ref().map(Fault::again)
    }

    /// A transfer is on it no more. What is not whole of it is cancelled. One that was `patient` for so long, while nothing came for anybody, is the
    /// last.
    pub fn leave(&mut self, wire: &mut Wire<impl Stream>, number: usize, now: Nanos, patience: Nanos) {
        let Some(at) = self.carried.iter().position(|carried| carried.transfer == number) else { return };
        self.is_doubtful |= now - self.heard_at >= patience && self.carried[at].stream.is_some();
        if let Some(stream) = self.carried.swap_remove(at).stream {
            self.session.leave(stream);
            self.open_windows(wire);
        }
    }

    /// Nothing more is said on it.
    pub fn end(&mut self, wire: &mut Wire<impl Stream>) {
        if self.fault.is_none() && self.has_begun {
            self.session.end(&mut self.out);
            self.hand_down(wire);
        }
    }
}
