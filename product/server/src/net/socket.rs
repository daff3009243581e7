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

/// Where a client is reached, as the write path sees it: TCP takes bytes, QUIC datagrams, and either says how its connection is.
pub trait Socket {
    type Tcp: Sink;
    type Quic: DatagramSink;
    fn tcp(&self) -> Option<&Self::Tcp>;
    fn quic(&mut self) -> Option<&mut Self::Quic>;
    /// The socket that it shares with others, if it does, and the number of that among all owners.
    fn shared(&self) -> Option<(u64, Shared)> {
        None
    }
    /// What is known of the connection: of TCP one system call, of QUIC as much as it has seen. The default where nobody says.
    fn status(&self) -> Status;
    /// Whether less waits unsent than the socket's limit. If not, its readiness is announced when that has changed: a
    /// write is not enough to find out, since the kernel appends to an unsent packet whatever the limit.
    fn has_room(&self) -> bool;
    /// Memory of the packets of this connection that wait below it, bytes; more than they have on the wire. `None` where the
    /// kernel does not say.
    fn queued_below_bytes(&self) -> Option<u64>;
    /// Packets sent from now on carry this priority, first transmission or not.
    fn set_priority(&mut self, priority: u32);
}

/// A stream of bytes. Never blocks: what cannot be taken now is `WouldBlock`.
pub trait Sink {
    /// `more` says that more follows at once, so a segment that is not full may wait for it.
    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize>;
    /// The same for several pieces, in one system call.
    fn send_slices(&self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize>;
    /// Zero means that the file ends before `offset`.
    fn send_file(&self, file: &File, offset: u64, count: usize) -> io::Result<usize>;
    /// Lets a last segment that is not full wait for more, for [`Sink::finish`] or for the close; with `false` it leaves, also where a `send`
    /// has said `more`.
    fn cork(&self, is_corked: bool);
    /// No more will be sent: the FIN may leave with the last byte.
    fn finish(&self);
    /// When it is closed, what was not sent is dropped and the client is told by a reset.
    fn reset(&self);
}

/// A connection of TCP as a worker has it: what comes, what leaves, and how it is.
pub trait Stream: Sink + Debug {
    /// Bytes that have come; zero behind the last.
    fn receive(&self, into: &mut [u8]) -> rustix::io::Result<usize>;
    /// Has what came acknowledged at once. Not vital: without it that happens after 40 ms.
    fn acknowledge(&self);
    /// Payload bytes of a full segment, and whether its header has timestamps; `None` where nobody says.
    fn segments(&self) -> Option<(u32, bool)>;
    /// As [`Socket::status`].
    fn status(&self) -> Status;
    /// As [`Socket::has_room`].
    fn has_room(&self) -> bool;
    /// As [`Socket::queued_below_bytes`].
    fn queued_below_bytes(&self) -> Option<u64>;
    /// As [`Socket::set_priority`].
    fn set_priority(&self, priority: u32);
}

/// One connection's part of a socket of datagrams.
pub trait DatagramSink {
    /// Sends them from the front; an error leaves the rest.
    fn send(&mut self, datagrams: &mut quic::Datagrams) -> io::Result<()>;
    /// Takes what QUIC has seen.
    fn see(&mut self, seen: Seen);
}

/// What is asked of the kernel about a connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Status {
    /// What TCP has sent so far; `None` on kernels that do not count it (before 4.19).
    pub sent: Option<TcpSent>,
    /// Payload bytes that were taken and are not sent yet, since no window has room for them: they are not below us.
    pub unsent_bytes: u64,
    /// Payload bytes sent again so far.
    pub retransmitted_bytes: u64,
    /// Payload bytes acknowledged so far.
    pub acked_bytes: u64,
    /// Payload bytes that have arrived beyond a gap, by whole segments.
    pub sacked_bytes: u64,
    /// How long ago the last acknowledgement came.
    pub acked_ago: Nanos,
    /// How long the client's window kept something from being sent, in all; zero over QUIC.
    pub shut_for: Nanos,
    /// Of what was taken something is not acknowledged yet.
    pub is_unacknowledged: bool,
    pub path: Path,
    /// See [`TcpInfo::closing_segments`].
    pub closing_segments: u8,
}

/// As [`Socket::has_room`].
pub fn has_room(socket: &impl AsFd) -> bool {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Looking makes the kernel remember that somebody waits for room. What fails here fails again in the write.
    poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&AT_ONCE)).map_or(true, |ready| ready > 0)
}

/// What QUIC has seen of its path.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    pub path: Path,
    /// UDP payload that was lost so far, and is sent again.
    pub lost_bytes: u64,
    /// UDP payload that was acknowledged so far.
    pub acked_bytes: u64,
    /// How long ago the last acknowledgement came; `None` before the first.
    pub acked_ago: Option<Nanos>,
    /// A response is not acknowledged yet.
    pub is_unacknowledged: bool,
}
