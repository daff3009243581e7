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

/// The transport to a client, as the write path uses it: TCP takes bytes, QUIC takes datagrams, and both report the
/// state of the connection.
pub trait Socket {
    type Tcp: Sink;
    type Quic: DatagramSink;
    fn tcp(&self) -> Option<&Self::Tcp>;
    fn quic(&mut self) -> Option<&mut Self::Quic>;
    /// The socket that it shares with others, if any, and its number, above the tokens of connections.
    fn shared(&self) -> Option<(u64, Shared)> {
        None
    }
    /// The state of the connection: for TCP one system call, for QUIC what it has seen. The default if it is unknown.
    fn status(&self) -> Status;
    /// Returns whether fewer bytes wait unsent than the socket's limit. If not, an event is announced when that has
    /// changed: a write does not show it, since the kernel appends to an unsent packet whatever the limit.
    fn has_room(&self) -> bool;
    /// The memory in bytes of this connection's packets that wait below it; more than their bytes on the wire. `None`
    /// if the kernel does not report it.
    fn queued_below_bytes(&self) -> Option<u64>;
    /// Sets the priority of packets sent from now on, retransmissions included.
    fn set_priority(&mut self, priority: u32);
}

/// A stream of bytes. Never blocks: what cannot be taken now is `WouldBlock`.
pub trait Sink {
    /// Sends bytes. `more` says that more follows at once, so a segment that is not full may wait for it.
    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize>;
    /// Sends several slices in one system call.
    fn send_slices(&self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize>;
    /// Sends part of a file. Zero means that the file ends before `offset`.
    fn send_file(&self, file: &File, offset: u64, count: usize) -> io::Result<usize>;
    /// Lets a last segment that is not full wait for more, for [`Sink::finish`] or for the close. With `false` it
    /// leaves, even if a `send` had `more` set.
    fn cork(&self, is_corked: bool);
    /// Shuts down the sending side: the FIN may leave with the last byte.
    fn finish(&self);
    /// Makes the close drop what was not sent and reset the connection.
    fn reset(&self);
}

/// A TCP connection as a worker uses it: receiving, sending, and its state.
pub trait Stream: Sink + Debug {
    /// Receives bytes; zero at the end of the stream.
    fn receive(&self, into: &mut [u8]) -> rustix::io::Result<usize>;
    /// Acknowledges what has arrived at once. Optional: otherwise it happens after 40 ms.
    fn acknowledge(&self);
    /// The payload bytes of a full segment, and whether its header has timestamps; `None` if unknown.
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
    /// Sends datagrams from the front; an error leaves the rest.
    fn send(&mut self, datagrams: &mut quic::Datagrams) -> io::Result<()>;
    /// Takes what QUIC has seen.
    fn see(&mut self, seen: Seen);
}

/// The kernel's report on a connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Status {
    /// The bytes and segments that TCP has sent so far; `None` on kernels that do not count it (before 4.19).
    pub sent: Option<TcpSent>,
    /// Payload bytes that were taken and not sent yet, because no window has room for them; they are not below us.
    pub unsent_bytes: u64,
    /// Payload bytes retransmitted so far.
    pub retransmitted_bytes: u64,
    /// Payload bytes of them that the client lost itself: it was late, and its socket full. None over TCP.
    pub own_lost_bytes: u64,
    /// Payload bytes acknowledged so far.
    pub acked_bytes: u64,
    /// Payload bytes that have arrived beyond a gap, in whole segments.
    pub sacked_bytes: u64,
    /// The time since the last acknowledgement.
    pub acked_ago: Nanos,
    /// The total time for which the client's window blocked sending; zero over QUIC.
    pub shut_for: Nanos,
    /// Some of what was taken is not acknowledged yet.
    pub is_unacknowledged: bool,
    pub path: Path,
    /// The shortest of the last round trips, where that is known.
    pub least_rtt: Option<Nanos>,
    /// See [`TcpInfo::closing_segments`].
    pub closing_segments: u8,
}

/// Implements [`Socket::has_room`] with a poll.
pub fn has_room(socket: &impl AsFd) -> bool {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Polling makes the kernel remember that this socket waits for room. An error here occurs again in the write.
    poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&AT_ONCE)).map_or(true, |ready| ready > 0)
}

/// Measurements of a path by QUIC.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    pub path: Path,
    /// The shortest of the last round trips.
    pub least_rtt: Option<Nanos>,
    /// UDP payload that was lost so far, and is retransmitted.
    pub lost_bytes: u64,
    /// UDP payload of them that the client lost itself.
    pub own_lost_bytes: u64,
    /// UDP payload that was acknowledged so far.
    pub acked_bytes: u64,
    /// The time since the last acknowledgement; `None` before the first.
    pub acked_ago: Option<Nanos>,
    /// A response is not acknowledged yet.
    pub is_unacknowledged: bool,
}
