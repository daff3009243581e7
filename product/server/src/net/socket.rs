use std::fmt::Debug;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sched::{Path, TcpSent};
use units::Nanos;

/// A socket that many connections send on.
pub type Shared = Arc<dyn AsFd + Send + Sync>;

/// The transport to a client, as used by the write path. TCP takes bytes and QUIC takes datagrams; both report the
/// state of the connection.
pub trait Socket {
    type Tcp: Sink;
    type Quic: DatagramSink;
    fn tcp(&self) -> Option<&Self::Tcp>;
    fn quic(&mut self) -> Option<&mut Self::Quic>;
    /// Returns the number of the socket that this connection shares with others, which is above the tokens of
    /// connections, and the socket; `None` if it is not shared.
    fn shared(&self) -> Option<(u64, Shared)> {
        None
    }
    /// Returns the state of the connection, or the default if it is unknown. TCP makes a system call; QUIC reports its
    /// own observations.
    fn status(&self) -> Status;
    /// Returns true if fewer bytes are waiting unsent than the socket's limit. If not, an event is reported when that
    /// changes. A write would not reveal it, because the kernel appends to an unsent packet regardless of the limit.
    fn has_room(&self) -> bool;
    /// Returns the memory in bytes of this connection's packets that wait in the kernel, which is more than their size
    /// on the wire; `None` if the kernel does not report it.
    fn queued_below_bytes(&self) -> Option<u64>;
    /// Sets the priority of packets sent from now on, including retransmissions.
    fn set_priority(&mut self, priority: u32);
}

/// A stream of bytes that never blocks. It returns `WouldBlock` if it accepts no bytes now.
pub trait Sink {
    /// Sends bytes. If `more` is true, further bytes follow immediately, so a segment that is not full may wait for
    /// them.
    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize>;
    /// Sends several slices in one system call.
    fn send_slices(&self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize>;
    /// Sends part of a file. Returns zero if the file ends before `offset`.
    fn send_file(&self, file: &File, offset: u64, count: usize) -> io::Result<usize>;
    /// If `true`, a last segment that is not full waits for more bytes, for [`Sink::finish`] or for the close. If
    /// `false`, that segment is sent, even if a `send` had `more` set.
    fn cork(&self, is_corked: bool);
    /// Lets the socket hold as many unsent bytes as its buffer permits, because no pace decides when they are sent.
    fn take_all(&self) {}
    /// Shuts down the sending side. The FIN may be sent with the last byte.
    fn finish(&self);
    /// Makes the close drop unsent bytes and reset the connection.
    fn reset(&self);
}

/// A TCP connection as used by a worker: receiving, sending, and its state.
pub trait Stream: Sink + Debug {
    /// Receives bytes. Returns zero at the end of the stream.
    fn receive(&self, into: &mut [u8]) -> rustix::io::Result<usize>;
    /// Acknowledges received data immediately instead of after 40 ms. Implementations may ignore this.
    fn acknowledge(&self);
    /// Returns the payload bytes of a full segment, and whether its header has timestamps. `None` if unknown.
    fn segments(&self) -> Option<(u32, bool)>;
    /// See [`Socket::status`].
    fn status(&self) -> Status;
    /// See [`Socket::has_room`].
    fn has_room(&self) -> bool;
    /// See [`Socket::queued_below_bytes`].
    fn queued_below_bytes(&self) -> Option<u64>;
    /// See [`Socket::set_priority`].
    fn set_priority(&self, priority: u32);
}

/// A connection's part of a UDP socket.
pub trait DatagramSink {
    /// Sends datagrams from the front. An error leaves the rest.
    fn send(&mut self, datagrams: &mut quic::Datagrams) -> io::Result<()>;
    /// Takes over QUIC's measurements.
    fn see(&mut self, seen: Seen);
}

/// The kernel's report on a connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Status {
    /// The bytes and segments that TCP has sent so far. `None` on kernels that do not count them (before 4.19).
    pub sent: Option<TcpSent>,
    /// The payload bytes accepted but not sent, because the windows have no room for them. They do not count as in
    /// flight below Weir.
    pub unsent_bytes: u64,
    /// Payload bytes retransmitted so far.
    pub retransmitted_bytes: u64,
    /// The part of `retransmitted_bytes` that the client itself lost, because it was late and its socket buffer full.
    /// Zero over TCP.
    pub own_lost_bytes: u64,
    /// Payload bytes acknowledged so far.
    pub acked_bytes: u64,
    /// Payload bytes that have arrived after a gap, as whole segments.
    pub sacked_bytes: u64,
    /// The time since the last acknowledgement.
    pub acked_ago: Nanos,
    /// The total time for which the client's receive window prevented sending; zero over QUIC.
    pub shut_for: Nanos,
    /// True if some of the accepted bytes have not been acknowledged yet.
    pub is_unacknowledged: bool,
    pub path: Path,
    /// The shortest of the recent round trips; `None` if unknown.
    pub least_rtt: Option<Nanos>,
    /// See [`TcpInfo::closing_segments`].
    pub closing_segments: u8,
}

/// Implements [`Socket::has_room`] with a poll.
pub fn has_room(socket: &impl AsFd) -> bool {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Polling makes the kernel remember that this socket waits for room. An error here recurs in the write.
    poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&AT_ONCE)).map_or(true, |ready| ready > 0)
}

/// QUIC's measurements of a path.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    pub path: Path,
    /// The shortest of the recent round trips.
    pub least_rtt: Option<Nanos>,
    /// The UDP payload bytes lost so far, which are retransmitted.
    pub lost_bytes: u64,
    /// The part of `lost_bytes` that the client itself lost.
    pub own_lost_bytes: u64,
    /// The UDP payload bytes acknowledged so far.
    pub acked_bytes: u64,
    /// The time since the last acknowledgement; `None` before the first.
    pub acked_ago: Option<Nanos>,
    /// True if any response has not been acknowledged yet.
    pub is_unacknowledged: bool,
}
