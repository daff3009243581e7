//! An HTTP/2 connection to an upstream. It carries several transfers at a time, each on its own stream, as many as the
//! upstream allows.
//!
//! Bytes that have arrived wait in the session until their transfer takes them, within the flow-control window of its
//! stream. A failure of the connection fails all transfers that are not complete; each of them gets the fault when it
//! continues.

use http::http1::upstream::{ResponseLimits, UpstreamHead};
use http2::{BODY_BYTES_MAX, Broken, ClientSession, ClientSettings, Flood};
use units::Nanos;

use super::Fault;
use super::on_stream::{self, FRAMES_BYTES_MAX, OnStream};
use super::transfer::Transfer;
use super::wire::{Received, Wire};
use crate::net::Stream;

/// The maximum size of waiting frames, including answers, in bytes. Beyond that, the upstream counts as not reading.
const UNREAD_BYTES_MAX: usize = 256 << 10;

pub struct Multiplexed {
    session: ClientSession,
    /// The frames that were made and not written yet.
    out: Vec<u8>,
    carried: Vec<Carried>,
    /// True if the connection is established: something was sent on it.
    has_begun: bool,
    /// True if the upstream has been silent for longer than allowed, and may be gone.
    is_doubtful: bool,
    /// True if a frame has arrived. The first frame from the upstream is its SETTINGS (RFC 9113 section 3.4).
    has_heard: bool,
    heard_at: Nanos,
    /// The number of streams that the upstream is assumed to allow until it reports the actual number.
    assumed_streams_max: Option<u32>,
    fault: Option<Fault>,
}

/// A transfer, and its stream once it has one.
#[derive(Debug, Clone, Copy)]
struct Carried {
    transfer: usize,
    stream: Option<u32>,
    /// The number of open streams when the transfer got its stream, including that stream.
    nth: usize,
}

impl Multiplexed {
    pub fn new(now: Nanos, response: ResponseLimits) -> Multiplexed {
        let mut session = ClientSession::new(&ClientSettings { response });
        let mut out = Vec::new();
        session.control(&mut out);
        let carried = Vec::new();
        Multiplexed {
            session,
            out,
            carried,
            has_begun: false,
            is_doubtful: false,
            has_heard: false,
            heard_at: now,
            assumed_streams_max: None,
            fault: None,
        }
    }

    /// Assumes that the upstream allows as many streams as on its last connection, until it reports the number. Without
    /// this assumption, the upstream is sent as many requests as can be open at a time, and the refused ones are sent
    /// again. Most upstreams allow that many, and waiting for the report would cost the first requests of each
    /// connection a round trip.
    pub fn assume(&mut self, streams_max: u32) {
        self.assumed_streams_max = Some(streams_max.max(1));
    }

    /// The number of streams that the upstream has reported to allow.
    pub fn known_streams_max(&mut self) -> Option<u32> {
        (self.has_heard && !self.session.is_leaving()).then(|| self.session.streams_max())
    }

    fn streams_max(&mut self) -> usize {
        let assumed = self.assumed_streams_max.filter(|_| !self.has_heard).unwrap_or(u32::MAX);
        self.session.streams_max().min(assumed) as usize
    }

    /// Returns true if another transfer may use the connection.
    pub fn has_room(&mut self) -> bool {
        let is_taking = self.fault.is_none() && !self.is_doubtful;
        is_taking && self.out.len() < FRAMES_BYTES_MAX && self.carried.len() < self.streams_max()
    }

    /// Returns true if the connection is established.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Adds a transfer.
    pub fn carry(&mut self, transfer: usize, now: Nanos) {
        if self.carried.is_empty() {
            self.heard_at = now;
        }
        self.carried.push(Carried { transfer, stream: None, nth: 0 });
    }

    /// Returns true if the connection carries no transfer.
    pub fn is_idle(&self) -> bool {
        self.carried.is_empty()
    }

    /// Returns true if new transfers cannot use the connection.
    pub fn is_used_up(&mut self) -> bool {
        self.fault.is_some() || self.is_doubtful || !self.has_begun || self.session.is_leaving()
    }

    /// Takes bytes that have arrived, and hands down frames.
    pub fn on_ready(&mut self, wire: &mut Wire<impl Stream>, scratch: &mut [u8], now: Nanos) {
        self.hand_down(wire);
        while self.fault.is_none() && self.has_begun {
            match wire.receive(scratch) {
                Ok(Received::Bytes(bytes)) => {
                    (self.heard_at, self.has_heard) = (now, true);
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

    /// Writes the frames that were made, as far as there is room.
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
                Err(error) if !self.has_begun => return self.note(Err(Fault::Unreachable(error.into()))),
                // Data received before the error may contain the reason.
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

    /// Returns the transfers for which something has arrived, or that can send again; all of them if the connection has
    /// failed.
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

    /// Continues a transfer until its head has arrived, or the transfer has to wait.
    pub fn step(
        &mut self,
        wire: &mut Wire<impl Stream>,
        transfer: &mut Transfer,
        number: usize,
        now: Nanos,
    ) -> Result<Option<UpstreamHead>, Fault> {
        self.hand_down(wire);
        if self.lacks_tunnels(transfer, number) {
            return Err(Fault::NoTunnels);
        }
        // An event follows for bytes that the socket has not taken. No event follows if the socket has emptied the
        // buffer, so the rest is sent now. The transfer holds no more than the part of the body that may wait, and each
        // round sends some of it.
        while let Some(mut on_stream) = self.begin(transfer, number, now) {
            let waits_for_room = on_stream.send(transfer, now);
            self.hand_down(wire);
            if !waits_for_room || !self.out.is_empty() {
                break;
            }
        }
        if transfer.is_answered() {
            return Ok(None);
        }
        if let Some(mut on_stream) = self.stream_of(number) {
            match on_stream.read_head(transfer, now) {
                Ok(None) => {}
                Err(Fault::Refused) if self.was_crowded(number) => return Err(Fault::Crowded),
                Err(Fault::Refused) if self.session.leaves_after_some() => return Err(Fault::Left),
                head => return head,
            }
        } else if self.fault.is_none() && self.session.is_leaving() {
            return Err(if self.session.leaves_after_some() { Fault::Left } else { Fault::Refused });
        }
        self.fault().map_or(Ok(None), Err)
    }

    /// Returns true if a transfer is to open a WebSocket, which the upstream does not take on a stream.
    fn lacks_tunnels(&mut self, transfer: &Transfer, number: usize) -> bool {
        let is_tunnel = transfer.inbound.tunnel.on_stream.is_some() && self.stream_of(number).is_none();
        is_tunnel && self.fault.is_none() && self.session.takes_tunnels() == Some(false)
    }

    /// Returns true if the stream of a transfer exceeded the number that its upstream allows, which was not yet known
    /// then.
    fn was_crowded(&mut self, number: usize) -> bool {
        let nth = self.carried.iter().find(|carried| carried.transfer == number).map_or(0, |carried| carried.nth);
        self.known_streams_max().is_some_and(|known| nth > known as usize)
    }

    /// Returns the stream of a transfer. Opens one first if the transfer has none and another is allowed.
    fn begin(&mut self, transfer: &mut Transfer, number: usize, now: Nanos) -> Option<OnStream<'_>> {
        let at = self.carried.iter().position(|carried| carried.transfer == number)?;
        let open = self.carried.iter().filter(|carried| carried.stream.is_some()).count();
        let is_tunnel = transfer.inbound.tunnel.on_stream.is_some();
        let may_open = self.has_begun && self.fault.is_none() && self.out.len() < FRAMES_BYTES_MAX;
        let may_open = may_open && (!is_tunnel || self.session.takes_tunnels() == Some(true));
        if self.carried[at].stream.is_none() && may_open && open < self.streams_max() {
            // The response may fill its window before any of it is taken.
            if transfer.account().whole().room() < BODY_BYTES_MAX {
                transfer.need_memory();
                return None;
            }
            self.carried[at].stream = on_stream::open(transfer, &mut self.session, &mut self.out, now);
            self.carried[at].nth = open + 1;
        }
        let stream = self.carried[at].stream?;
        Some(OnStream { session: &mut self.session, stream, out: &mut self.out })
    }

    /// Returns the stream of a transfer, if it has one.
    pub fn stream_of(&mut self, number: usize) -> Option<OnStream<'_>> {
        let stream = self.carried.iter().find(|carried| carried.transfer == number)?.stream?;
        Some(OnStream { session: &mut self.session, stream, out: &mut self.out })
    }

    /// Sends window updates after reading from a stream, so that the upstream may send more.
    pub fn open_windows(&mut self, wire: &mut Wire<impl Stream>) {
        self.session.control(&mut self.out);
        self.hand_down(wire);
    }

    /// The memory of a transfer's bytes that have arrived or may still arrive.
    #[cfg(test)]
    pub fn alive_bytes(&self, number: usize) -> usize {
        let of = self.carried.iter().find(|carried| carried.transfer == number);
        of.and_then(|carried| carried.stream).map_or(0, |stream| self.session.alive_bytes(stream))
    }

    /// The reason why an incomplete response cannot continue.
    pub fn fault(&self) -> Option<Fault> {
        self.fault.clone()
    }

    /// Removes a transfer, and cancels it if it is not complete. If nothing has arrived on the connection for
    /// `patience`, no new transfers use the connection.
    pub fn leave(&mut self, wire: &mut Wire<impl Stream>, number: usize, now: Nanos, patience: Nanos) {
        let Some(at) = self.carried.iter().position(|carried| carried.transfer == number) else { return };
        self.is_doubtful |= now - self.heard_at >= patience && self.carried[at].stream.is_some();
        if let Some(stream) = self.carried.swap_remove(at).stream {
            self.session.leave(stream);
            self.open_windows(wire);
        }
    }

    /// Ends the connection; nothing more is sent on it.
    pub fn end(&mut self, wire: &mut Wire<impl Stream>) {
        if self.fault.is_none() && self.has_begun {
            self.session.end(&mut self.out);
            self.hand_down(wire);
        }
    }
}
