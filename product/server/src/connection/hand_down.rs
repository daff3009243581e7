//! Hands the frames of a connection's responses to its socket.

use std::io::{self, IoSlice};
use std::mem::take;

use sched::ConnectionId;
use tls::{RECORD_BYTES_MAX, Session};
use units::Nanos;

use super::sendable_bytes::RECORDS_AT_ONCE_MAX;
use super::{Connection, Connections, Departure, Engine, Framed, Protocol, Single};
use crate::clock::ClientTime;
use crate::net::{Down, Sink, Socket};

/// The outcome of [`Connections::hand_down`].
pub struct HandedDown {
    /// True if all frames that were made have been sent.
    pub is_all: bool,
    /// True if responses are in flight.
    pub has_jobs: bool,
    /// The bytes handed down that are not charged to a response.
    pub control_bytes: u64,
}

impl<S: Socket> Connections<S> {
    /// Hands down the frames that were made. Over HTTP/3, first makes datagrams of up to `room_bytes`. Adds the
    /// responses whose last bytes were sent to `departures`. Returns `None` if there was nothing to hand down, and
    /// always over HTTP/1.1.
    pub fn hand_down(
        &mut self,
        now: Nanos,
        at: usize,
        room_bytes: u64,
        departures: &mut Vec<Departure>,
    ) -> Option<HandedDown> {
        let connection = &mut self[at];
        let is_all = match connection.protocol.framed_mut()?.engine.is_http3() {
            true => self.hand_down_datagrams(now, at, room_bytes),
            false if connection.has_unsent() => connection.hand_down().is_ok(),
            false => {
                self.end_frames(at);
                return None;
            }
        };
        let framed = self[at].framed();
        let (has_left, has_jobs) = (is_all && framed.engine.has_left(), framed.jobs > 0);
        let control_bytes = take(&mut framed.control_bytes);
        if has_left {
            let departed = framed.departing.drain(..);
            departures.extend(departed.map(|departure| Departure { ended_at: now, ..departure }));
            self.end_frames(at);
        } else if is_all {
            // Retransmissions used the room; without this, nothing would trigger sending the rest.
            self.queue_output(at);
        }
        Some(HandedDown { is_all, has_jobs, control_bytes })
    }

    /// Makes the last frames of a connection that is about to end.
    pub fn make_last(&mut self, now: Nanos, at: usize) {
        let framed = self.begin_frames(at);
        framed.control();
        framed.engine.http3().into_iter().for_each(|quic| quic.close(now));
    }
}

impl<S: Socket> Connection<S> {
    /// Switches to HTTP/2 or HTTP/3, which carry several responses at the same time in frames. `id` is the connection's
    /// name in the scheduler. The client need not send anything before `deadline`.
    pub fn begin_framed(&mut self, engine: Engine, id: ConnectionId, deadline: ClientTime) {
        let mut framed = Framed::new(engine, id, deadline, self.held.account());
        // The ticket of the TLS handshake.
        framed.control_bytes = self.session.as_mut().map_or(0, |session| session.unsent_bytes() as u64);
        self.protocol = Protocol::Framed(Box::new(framed));
    }

    /// Ends the frames of a connection. Returns its name in the scheduler, if it had frames.
    pub fn end_framed(&mut self, now: ClientTime) -> Option<ConnectionId> {
        let id = self.protocol.group()?;
        self.protocol = Protocol::Http1(Single::ended(now, self.token));
        Some(id)
    }

    /// The payload that frames of `bytes_max` wire bytes can carry; `None` over HTTP/1.1, which has no frames.
    pub fn frames_room_bytes(&self, bytes_max: u64) -> Option<u64> {
        let segment_bytes = self.delivery.framing().segment_bytes;
        let framed = self.protocol.framed()?;
        Some(framed.room_bytes(bytes_max, segment_bytes, self.record_overhead()))
    }

    /// The bytes of frames that the client has not taken, as far as the kernel reports them.
    pub fn unread_bytes(&mut self) -> u64 {
        let in_socket_bytes = self.socket.status().unsent_bytes;
        let sealed_bytes = self.session.as_mut().map_or(0, |session| session.unsent_bytes());
        in_socket_bytes + (sealed_bytes + self.framed().out.len()) as u64
    }

    pub fn has_unsent(&self) -> bool {
        let is_sealed = || self.session.as_ref().is_some_and(|session| session.has_unsent());
        self.protocol.framed().is_some_and(|framed| !framed.out.is_empty()) || is_sealed()
    }

    /// Hands down all frames that were made, in records if the client uses TLS. After an error the rest waits.
    pub fn hand_down(&mut self) -> io::Result<()> {
        let (Some(socket), Some(framed)) = (self.socket.tcp(), self.protocol.framed_mut()) else { return Ok(()) };
        let mut taken = 0;
        let result = match self.session.as_deref_mut() {
            None => hand_down_plain(socket, &framed.out, &mut taken),
            Some(session) => hand_down_sealed(socket, session, &framed.out, &mut taken),
        };
        framed.out.edit().drain(..taken);
        result
    }
}

fn hand_down_plain(socket: &impl Sink, out: &[u8], taken: &mut usize) -> io::Result<()> {
    while *taken < out.len() {
        *taken += socket.send(&out[*taken..], false)?;
    }
    Ok(())
}

/// Seals a few records at a time, and further ones only after those have been sent. Drops bytes that can no longer be
/// sealed.
fn hand_down_sealed(socket: &impl Sink, session: &mut Session, out: &[u8], taken: &mut usize) -> io::Result<()> {
    if !session.can_seal() {
        *taken = out.len();
    }
    loop {
        if !session.has_unsent() {
            for record in out[*taken..].chunks(RECORD_BYTES_MAX).take(RECORDS_AT_ONCE_MAX) {
                session.seal(&[IoSlice::new(record)]);
                *taken += record.len();
            }
        }
        let more = *taken < out.len();
        if let Some(error) = session.hand_down(&mut Down { socket, more }).error {
            return Err(error);
        }
        if !more {
            return Ok(());
        }
    }
}
