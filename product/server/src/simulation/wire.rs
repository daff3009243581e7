//! A TCP connection: two byte streams over a link with a rate and a delay. Buffers and windows fill up, and each side
//! has an end and a reset. The server learns the same about the connection as from the kernel.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use sched::{Path, TcpSent};
use units::Nanos;

use super::random::Random;
use super::tail::Tail;
use crate::net::Status;

pub const SEGMENT_BYTES: u32 = 1448;
/// The time within which the server must notice an end: its event loop may be late, and busy with other connections.
const NOTICED_WITHIN: Nanos = Nanos::from_secs(1);

/// The capacity of a link, and the buffers of its ends.
#[derive(Debug, Clone, Copy)]
pub struct WireSettings {
    pub delay: Nanos,
    pub rate_bytes_per_s: u64,
    /// The number of bytes that arrive together.
    pub piece_bytes: usize,
    pub window_bytes: usize,
    pub send_buffer_bytes: usize,
    /// The number of unsent bytes beyond which there is no room (TCP_NOTSENT_LOWAT).
    pub unsent_bytes_max: usize,
    pub inbox_bytes_max: usize,
}

impl WireSettings {
    pub fn of(random: &mut Random) -> WireSettings {
        let rate_bytes_per_s = random.one_of(&[20_000, 200_000, 2_000_000, 100_000_000]);
        WireSettings {
            delay: random.micros(20, 100_000),
            rate_bytes_per_s,
            piece_bytes: random.one_of(&[1448, 1448, 14_480, 65_536]),
            window_bytes: random.one_of(&[14_480, 64_000, 1 << 20]),
            // The kernel's buffer grows with the capacity of the path: a second of it at most.
            send_buffer_bytes: random.one_of(&[4 << 10, 64 << 10, 1 << 20]).min(rate_bytes_per_s as usize),
            unsent_bytes_max: random.one_of(&[usize::MAX, 16 << 10]),
            inbox_bytes_max: random.one_of(&[2 << 10, 64 << 10, 256 << 10]),
        }
    }

    /// A link to an upstream, often a local one.
    pub fn to_upstream(random: &mut Random) -> WireSettings {
        let link = WireSettings { unsent_bytes_max: usize::MAX, ..WireSettings::of(random) };
        match random.once_in(3) {
            true => link,
            false => WireSettings { delay: random.micros(10, 2_000), rate_bytes_per_s: 100_000_000, ..link },
        }
    }

    pub fn takes(&self, bytes: usize) -> Nanos {
        Nanos(bytes as u64 * 1_000_000_000 / self.rate_bytes_per_s)
    }
}

/// The far end: a client, or a connection of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Far {
    Client(usize),
    Application(usize),
}

/// A TCP connection. The actions of the server and the client at their ends are methods; bytes on the way are events of
/// the world.
#[derive(Debug)]
pub struct Wire {
    pub link: WireSettings,
    pub peer: SocketAddr,
    pub far: Far,
    pub server: ServerEnd,
    pub down: Down,
    pub up: Up,
    pub stop: Stop,
}

/// The state of the server's stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    No,
    /// The server sends what it has begun.
    Begun,
    /// The server may drop the rest.
    Over,
}

/// The connection in the server's kernel.
#[derive(Debug, Default)]
pub struct ServerEnd {
    /// The bytes received and not read yet.
    pub inbox: VecDeque<u8>,
    /// The number of bytes read while the server could still answer.
    pub read_bytes: u64,
    pub has_fin: bool,
    /// When the FIN arrived.
    pub fin_at: Option<Nanos>,
    pub has_reset: bool,
    /// True if the server has closed its socket.
    pub is_closed: bool,
    /// The token under which the socket's readiness is announced.
    pub token: Option<u64>,
    /// True if the connection is on the list of those whose readiness changed.
    pub is_marked: bool,
    /// True if closing the socket sends a reset.
    pub ends_with_reset: bool,
    /// The server waits for room.
    pub waits_for_room: bool,
    /// True if the connection was requested and is not established yet.
    pub is_connecting: bool,
}

/// The direction to the client.
#[derive(Debug, Default)]
pub struct Down {
    pub unsent: VecDeque<u8>,
    pub tail: Tail,
    pub written_bytes: u64,
    pub sent_bytes: u64,
    pub acked_bytes: u64,
    pub acked_at: Nanos,
    /// The round-trip time of the last segment, including its wait for the uplink; `None` if no rate is searched.
    pub rtt: Option<Nanos>,
    pub segments: u32,
    /// The number of bytes in transit, not in the client's memory yet.
    pub air_bytes: usize,
    pub free_at: Nanos,
    pub last_arrival: Nanos,
    pub is_departure_due: bool,
    pub is_ended: bool,
    pub is_fin_sent: bool,
    pub is_reset_sent: bool,
}

/// The client's end, and the direction from there.
#[derive(Debug, Default)]
pub struct Up {
    pub inbox: VecDeque<u8>,
    pub has_fin: bool,
    pub has_reset: bool,
    pub outbox: VecDeque<u8>,
    pub written_bytes: u64,
    pub air_bytes: usize,
    pub free_at: Nanos,
    pub last_arrival: Nanos,
    pub wants_fin: bool,
    pub is_fin_sent: bool,
    pub wants_reset: bool,
    pub is_reset_sent: bool,
    /// True if the client reads no more, so that data that arrives is answered with a reset.
    pub is_closed: bool,
}

impl Wire {
    pub fn new(link: WireSettings, peer: SocketAddr, far: Far) -> Wire {
        Wire { link, peer, far, server: ServerEnd::default(), down: Down::default(), up: Up::default(), stop: Stop::No }
    }

    /// The state, for debugging.
    pub fn describe(&self) -> String {
        let Wire { server, down, up, .. } = self;
        format!(
            "server: {} bytes to read, closed {}, waits for room {}, token {:?}; down: {} unsent, {} of {} acknowledged, ended {}; up: {} unsent, {} to read",
            server.inbox.len(),
            server.is_closed,
            server.waits_for_room,
            server.token,
            down.unsent.len(),
            down.acked_bytes,
            down.written_bytes,
            down.is_ended,
            up.outbox.len(),
            up.inbox.len(),
        )
    }

    /// Returns true if this connection is for a client that has shut its own connection, and the server had time to
    /// notice.
    pub fn is_gone(&self, client: IpAddr, now: Nanos) -> bool {
        let is_noticed = self.server.fin_at.is_some_and(|at| now >= at + NOTICED_WITHIN);
        matches!(self.far, Far::Client(_)) && self.peer.ip() == client && is_noticed
    }

    fn queued_bytes(&self) -> usize {
        (self.down.written_bytes - self.down.acked_bytes) as usize
    }

    /// Returns true if the socket has room, by the rules of the kernel's `sk_stream_is_writeable` and
    /// `tcp_stream_memory_free`.
    pub fn has_room(&self) -> bool {
        let (queued, most) = (self.queued_bytes(), self.link.send_buffer_bytes);
        !self.server.is_connecting
            && most.saturating_sub(queued) >= queued / 2
            && self.down.unsent.len() < self.link.unsent_bytes_max
    }

    /// Returns the readiness that epoll would report. If there is no room now, room is announced later (`tcp_poll` sets
    /// SOCK_NOSPACE).
    pub fn poll(&mut self) -> EventFlags {
        self.server.waits_for_room |= !self.has_room();
        let ServerEnd { inbox, has_fin, has_reset, .. } = &self.server;
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, !inbox.is_empty() || *has_fin || *has_reset);
        flags.set(EventFlags::RDHUP, *has_fin || *has_reset);
        flags.set(EventFlags::ERR, *has_reset);
        flags.set(EventFlags::HUP, *has_reset || (*has_fin && self.down.is_ended));
        flags.set(EventFlags::OUT, *has_reset || self.has_room());
        flags
    }

    /// Takes at most `most` bytes. `more` announces that other bytes follow at once; it counts only if all bytes are
    /// taken.
    pub fn write(&mut self, bytes: &[u8], more: bool, most: usize) -> io::Result<usize> {
        if self.server.has_reset || self.down.is_ended {
            return Err(Errno::PIPE.into());
        }
        let is_free = !self.server.is_connecting
            && self.queued_bytes() < self.link.send_buffer_bytes
            && self.down.unsent.len() < self.link.unsent_bytes_max;
        let room = if is_free { self.link.send_buffer_bytes - self.queued_bytes() } else { 0 };
        let taken = bytes.len().min(room).min(most);
        self.server.waits_for_room |= taken < bytes.len();
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.down.unsent.extend(&bytes[..taken]);
        self.down.written_bytes += taken as u64;
        self.down.tail.on_write(more && taken == bytes.len());
        Ok(taken)
    }

    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        let ServerEnd { inbox, has_fin, has_reset, read_bytes, .. } = &mut self.server;
        let bytes = into.len().min(inbox.len());
        if bytes == 0 && *has_reset {
            return Err(Errno::CONNRESET);
        }
        if bytes == 0 && !*has_fin {
            return Err(Errno::AGAIN);
        }
        inbox.drain(..bytes).zip(into.iter_mut()).for_each(|(byte, place)| *place = byte);
        // Data that arrives after the server has ended its own is discarded.
        *read_bytes += if self.down.is_ended { 0 } else { bytes as u64 };
        Ok(bytes)
    }

    pub fn status(&self, now: Nanos) -> Status {
        let Down { sent_bytes, acked_bytes, segments, .. } = self.down;
        let rtt = self.down.rtt.unwrap_or(Nanos(2 * self.link.delay.0));
        Status {
            sent: Some(TcpSent { payload_bytes: sent_bytes, segments }),
            unsent_bytes: self.down.unsent.len() as u64,
            acked_bytes,
            acked_ago: now - self.down.acked_at,
            is_unacknowledged: self.down.written_bytes > acked_bytes,
            path: Path { rtt: Some(rtt), cwnd_bytes: Some(self.link.window_bytes as u64), throughput_bps: None },
            closing_segments: match (self.server.has_reset, self.down.is_ended, self.server.has_fin) {
                (true, ..) | (_, true, true) => 0,
                (_, true, _) | (.., true) => 1,
                _ => 2,
            },
            ..Status::default()
        }
    }

    /// The number of bytes that the client's window has room for.
    pub fn sendable(&self) -> usize {
        let flight = (self.down.sent_bytes - self.down.acked_bytes) as usize;
        let window = self.link.window_bytes.saturating_sub(flight);
        let client = self.link.inbox_bytes_max.saturating_sub(self.up.inbox.len() + self.down.air_bytes);
        window.min(client).min(self.down.unsent.len() - self.held_bytes()).min(self.link.piece_bytes)
    }

    /// The number of bytes that wait for others to fill their segment.
    pub fn held_bytes(&self) -> usize {
        if self.down.is_ended { 0 } else { self.down.tail.held_bytes(self.down.unsent.len()) }
    }

    pub fn receivable(&self) -> usize {
        let room = self.link.inbox_bytes_max.saturating_sub(self.server.inbox.len() + self.up.air_bytes);
        room.min(self.up.outbox.len()).min(self.link.piece_bytes)
    }
}

impl Up {
    pub fn say(&mut self, bytes: &[u8]) {
        self.written_bytes += bytes.len() as u64;
        self.outbox.extend(bytes);
    }

    pub fn hear(&mut self, most: usize) -> Vec<u8> {
        let bytes = self.inbox.len().min(most);
        self.inbox.drain(..bytes).collect()
    }
}
