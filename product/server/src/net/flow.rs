//! A QUIC connection in the role of the write path's socket: it sends datagrams over a shared socket, and reports the
//! same status as TCP.

use std::io;
use std::sync::Arc;

use quic::Datagrams;
use sched::TcpSent;
use units::Nanos;

use crate::net::{DatagramSink, Seen, Shared, Status};
use crate::udp::{DatagramSocket, Left, Udp};

/// A QUIC connection on a UDP socket that it shares with others.
#[derive(Debug)]
pub struct Flow<U = Udp> {
    socket: Arc<U>,
    /// The datagrams and bytes sent. Datagrams count as segments.
    sent: TcpSent,
    seen: Seen,
    /// True if data was sent since `seen` was recorded.
    is_unseen: bool,
    priority: u32,
}

impl<U: DatagramSocket> Flow<U> {
    pub fn new(socket: Arc<U>) -> Flow<U> {
        let priority = socket.control_priority();
        Flow { socket, sent: TcpSent::default(), seen: Seen::default(), is_unseen: false, priority }
    }

    /// Returns the status in TCP's terms.
    pub fn status(&self) -> Status {
        let Seen { path, least_rtt, lost_bytes, own_lost_bytes, acked_bytes, acked_ago, is_unacknowledged } = self.seen;
        Status {
            sent: Some(self.sent),
            unsent_bytes: 0,
            retransmitted_bytes: lost_bytes,
            own_lost_bytes,
            acked_bytes,
            sacked_bytes: 0,
            acked_ago: acked_ago.unwrap_or_default(),
            shut_for: Nanos::ZERO,
            is_unacknowledged: self.is_unseen || is_unacknowledged,
            path,
            least_rtt,
            closing_segments: 0,
        }
    }

    /// Sets the priority of later datagrams.
    pub fn set_priority(&mut self, priority: u32) {
        self.priority = priority;
    }

    /// Returns the socket and its number.
    pub fn shared(&self) -> Option<(u64, Shared)> {
        Some((self.socket.number(), DatagramSocket::shared(&self.socket)?))
    }

    pub fn has_room(&self) -> bool {
        self.socket.has_room()
    }

    pub fn queued_below_bytes(&self) -> Option<u64> {
        self.socket.queued_below_bytes()
    }
}

impl<U: DatagramSocket> DatagramSink for Flow<U> {
    fn send(&mut self, datagrams: &mut Datagrams) -> io::Result<()> {
        let (Left { datagrams, bytes }, result) = self.socket.send(datagrams, self.priority);
        self.sent.payload_bytes += bytes;
        self.sent.segments = self.sent.segments.wrapping_add(datagrams);
        self.is_unseen |= bytes > 0;
        result
    }

    fn see(&mut self, seen: Seen) {
        (self.seen, self.is_unseen) = (seen, false);
    }
}
