use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown};
use sched::{Path, TcpSent};
use socket2::SockRef;
use units::Nanos;
use uplink::TcpInfo;

use super::Looked;
#[cfg(feature = "http3")]
use super::flow::{Flow, Seen};
#[cfg(feature = "http3")]
use crate::udp::Udp;

/// A connected socket as the write path uses it.
pub trait Socket: Sink + TcpView + Marked {}

impl<S: Sink + TcpView + Marked> Socket for S {}

/// Where a response goes. Never blocks: what cannot be taken now is `WouldBlock`.
pub trait Sink {
    /// `more` says that more follows at once, so a segment that is not full may wait for it.
    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize>;
    /// The same for several pieces, in one system call.
    fn send_slices(&self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize>;
    /// Zero means that the file ends before `offset`.
    fn send_file(&self, file: &File, offset: u64, count: usize) -> io::Result<usize>;
    /// Whether a last segment that is not full may wait for more, for [`Sink::finish`] or for the close.
    fn cork(&self, is_corked: bool);
    /// No more will be sent: the FIN may leave with the last byte.
    fn finish(&self);
    /// Where the connection is one of datagrams: sends them from the front; an error leaves the rest.
    #[cfg(feature = "http3")]
    fn send_datagrams(&self, _datagrams: &mut quic::Datagrams) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What the kernel tells of a connection, or, where TCP has no part in it, who speaks its protocol.
pub trait TcpView: Sized {
    /// What does not keep the socket open.
    type Weak;
    /// The number under which its packets below TCP are counted: its owner's, unless it shares its socket.
    fn number_below(&self, owner: u64) -> u64 {
        owner
    }
    /// Takes what a protocol that is not the kernel's has seen.
    #[cfg(feature = "http3")]
    fn see(&self, _seen: Seen) {}
    fn downgrade(&self) -> Self::Weak;
    /// `None` once nobody has the socket any more.
    fn upgrade(weak: &Self::Weak) -> Option<Self>;
    /// What was looked at of it before.
    fn looked(&self) -> &Looked;
    /// What the kernel knows of the connection: one system call. The default where it does not say.
    fn status(&self) -> Status;
    /// Whether less waits unsent than the socket's limit. If not, its readiness is announced when that has changed: a
    /// write is not enough to find out, since the kernel appends to an unsent packet whatever the limit.
    fn has_room(&self) -> bool;
    /// Memory of the packets of this connection that wait below TCP, bytes; more than they have on the wire. `None` where the
    /// kernel does not say.
    fn queued_below_bytes(&self) -> Option<u64>;
}

/// What the kernel is told of a connection's packets.
pub trait Marked {
    /// Packets sent from now on carry this priority, first transmission or not.
    fn set_priority(&self, priority: u32);
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
    /// Of what was taken something is not acknowledged yet.
    pub is_unacknowledged: bool,
    pub path: Path,
    /// See [`TcpInfo::closing_segments`].
    pub closing_segments: u8,
}

/// Where a client is reached, shared by its connection and its response.
#[derive(Debug, Clone)]
pub struct Connection(Arc<Way>);

#[derive(Debug)]
pub enum Way {
    /// A connected socket.
    Tcp(OwnedFd, Looked),
    #[cfg(feature = "http3")]
    Quic(Box<Flow>),
}

impl Connection {
    #[cfg(test)]
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Its datagrams are QUIC's.
    pub fn is_quic(&self) -> bool {
        !matches!(*self.0, Way::Tcp(..))
    }
}

impl From<OwnedFd> for Connection {
    fn from(socket: OwnedFd) -> Connection {
        Connection(Arc::new(Way::Tcp(socket, Looked::default())))
    }
}

#[cfg(feature = "http3")]
impl From<Flow> for Connection {
    fn from(flow: Flow) -> Connection {
        Connection(Arc::new(Way::Quic(Box::new(flow))))
    }
}

/// Of the socket, which may be that of others too.
impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &*self.0 {
            Way::Tcp(socket, ..) => socket.as_fd(),
            #[cfg(feature = "http3")]
            Way::Quic(flow) => flow.as_fd(),
        }
    }
}

/// Bytes are for sockets of TCP; datagrams are made by who speaks QUIC.
impl Sink for Connection {
    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        retry(|| rustix::net::send(self, bytes, flags(more)))
    }

    fn send_slices(&self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let mut nothing = SendAncillaryBuffer::default();
        retry(|| rustix::net::sendmsg(self, slices, &mut nothing, flags(more)))
    }

    fn send_file(&self, file: &File, offset: u64, count: usize) -> io::Result<usize> {
        retry(|| rustix::fs::sendfile(self, file, Some(&mut { offset }), count))
    }

    fn cork(&self, is_corked: bool) {
        // If it fails, segments are less full than they could be.
        let _ = rustix::net::sockopt::set_tcp_cork(self, is_corked);
    }

    fn finish(&self) {
        // Fails only when the connection is gone already, which the worker will see.
        let _ = rustix::net::shutdown(self, Shutdown::Write);
    }

    #[cfg(feature = "http3")]
    fn send_datagrams(&self, datagrams: &mut quic::Datagrams) -> io::Result<()> {
        match &*self.0 {
            Way::Tcp(..) => Err(io::ErrorKind::Unsupported.into()),
            Way::Quic(flow) => flow.send(datagrams),
        }
    }
}

/// What does not keep a connection's socket open.
pub enum WeakConnection {
    Tcp(Weak<Way>),
    #[cfg(feature = "http3")]
    Quic(Weak<Udp>),
}

impl TcpView for Connection {
    type Weak = WeakConnection;

    #[cfg(feature = "http3")]
    fn number_below(&self, owner: u64) -> u64 {
        match &*self.0 {
            Way::Tcp(..) => owner,
            Way::Quic(flow) => flow.number_below(),
        }
    }

    #[cfg(feature = "http3")]
    fn see(&self, seen: Seen) {
        if let Way::Quic(flow) = &*self.0 {
            flow.see(seen);
        }
    }

    fn downgrade(&self) -> WeakConnection {
        match &*self.0 {
            Way::Tcp(..) => WeakConnection::Tcp(Arc::downgrade(&self.0)),
            #[cfg(feature = "http3")]
            Way::Quic(flow) => WeakConnection::Quic(flow.downgrade()),
        }
    }

    fn upgrade(weak: &WeakConnection) -> Option<Connection> {
        match weak {
            WeakConnection::Tcp(way) => way.upgrade().map(Connection),
            #[cfg(feature = "http3")]
            WeakConnection::Quic(socket) => socket.upgrade().map(|socket| Flow::new(socket).into()),
        }
    }

    fn looked(&self) -> &Looked {
        match &*self.0 {
            Way::Tcp(.., looked) => looked,
            #[cfg(feature = "http3")]
            Way::Quic(flow) => flow.looked(),
        }
    }

    fn status(&self) -> Status {
        match &*self.0 {
            Way::Tcp(socket, ..) => tcp_status(socket),
            #[cfg(feature = "http3")]
            Way::Quic(flow) => flow.status(),
        }
    }

    fn has_room(&self) -> bool {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Looking makes the kernel remember that somebody waits for room. What fails here fails again in the write.
        poll(&mut [PollFd::new(self, PollFlags::OUT)], Some(&AT_ONCE)).map_or(true, |ready| ready > 0)
    }

    fn queued_below_bytes(&self) -> Option<u64> {
        uplink::queued_below_bytes(self).ok().map(u64::from)
    }
}

impl Marked for Connection {
    fn set_priority(&self, priority: u32) {
        match &*self.0 {
            // That we may was found at the start; without it packets stay in the band they were in.
            Way::Tcp(socket, ..) => drop(SockRef::from(socket).set_priority(priority)),
            #[cfg(feature = "http3")]
            Way::Quic(flow) => flow.set_priority(priority),
        }
    }
}

fn tcp_status(socket: &OwnedFd) -> Status {
    let Ok(info) = uplink::tcp_info(socket) else { return Status::default() };
    let sent = TcpSent { payload_bytes: info.sent_bytes, segments: info.sent_segments };
    Status {
        sent: (info.sent_bytes > 0 || info.unacked_segments == 0).then_some(sent),
        unsent_bytes: info.notsent_bytes.into(),
        retransmitted_bytes: info.retransmitted_bytes,
        acked_bytes: info.acked_bytes,
        sacked_bytes: u64::from(info.sacked_segments) * u64::from(info.segment_bytes),
        acked_ago: Nanos::from_millis(info.last_ack_ms.into()),
        is_unacknowledged: info.unacked_segments > 0 || info.notsent_bytes > 0,
        path: path(&info),
        closing_segments: info.closing_segments,
    }
}

fn flags(more: bool) -> SendFlags {
    if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL }
}

/// The path as a policy wants it. The round trip is known from the handshake on. A delivery rate that what we wrote has
/// limited says how we scheduled the connection, not how fast it is, and would keep it where it is: then the policy is
/// left to work with window and round trip.
fn path(info: &TcpInfo) -> Path {
    let is_measured = info.delivery_rate > 0 && !info.is_delivery_app_limited;
    Path {
        rtt: (info.rtt_us > 0).then(|| Nanos::from_micros(info.rtt_us.into())),
        cwnd_bytes: Some(u64::from(info.cwnd_segments) * u64::from(info.segment_bytes)).filter(|bytes| *bytes > 0),
        throughput_bps: is_measured.then(|| info.delivery_rate.saturating_mul(8)),
    }
}

fn retry(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    /// A client, and the server's end of its connection.
    fn connection() -> (TcpStream, Connection) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        accepted.set_nonblocking(true).unwrap();
        (client, OwnedFd::from(accepted).into())
    }

    #[test]
    fn bytes_pieces_and_parts_of_files_arrive_and_the_end_is_seen() {
        let (mut client, connection) = connection();
        let path = std::env::temp_dir().join(format!("weir-socket-{}", std::process::id()));
        std::fs::write(&path, "0123456789").unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(connection.send(b"ab", true).unwrap(), 2);
        assert_eq!(connection.send_slices(&[IoSlice::new(b"cd"), IoSlice::new(b"e")], true).unwrap(), 3);
        connection.cork(true);
        assert_eq!(connection.send_file(&file, 4, 3).unwrap(), 3);
        assert_eq!(connection.send_file(&file, 10, 3).unwrap(), 0, "the file ends before that");
        connection.finish();
        let mut received = String::new();
        client.read_to_string(&mut received).unwrap();
        assert_eq!(received, "abcde456");
    }

    #[test]
    fn the_kernel_tells_what_a_connection_has_sent() {
        let (mut client, connection) = connection();
        let before = connection.status();
        assert_eq!((before.sent.unwrap().payload_bytes, before.acked_bytes, before.path.throughput_bps), (0, 0, None));
        assert!(before.path.rtt.is_some() && before.path.cwnd_bytes.is_some(), "the handshake told");
        connection.send(&[7; 5_000], false).unwrap();
        client.read_exact(&mut [0; 5_000]).unwrap();
        let after = connection.status();
        assert_eq!((after.sent.unwrap().payload_bytes, after.unsent_bytes, after.retransmitted_bytes), (5_000, 0, 0));
        assert!(after.sent.unwrap().segments > before.sent.unwrap().segments);
    }

    #[test]
    fn a_socket_whose_client_does_not_read_has_no_room() {
        let (_client, connection) = connection();
        assert!(connection.has_room());
        let error = loop {
            if let Err(error) = connection.send(&[7; 1 << 16], false) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(!connection.has_room() && connection.status().unsent_bytes > 0);
    }

    #[test]
    fn a_connection_has_its_priority_and_nothing_below() {
        let (_client, connection) = connection();
        assert_eq!(connection.queued_below_bytes(), Some(0));
        connection.set_priority(5);
        assert_eq!(SockRef::from(&connection).priority().unwrap(), 5);
    }

    #[test]
    fn a_socket_that_somebody_has_is_found_again() {
        let (_client, connection) = connection();
        let weak = connection.downgrade();
        assert!(Connection::upgrade(&weak).is_some());
        drop(connection);
        assert!(Connection::upgrade(&weak).is_none());
    }

    #[test]
    fn a_signal_is_no_failure() {
        let mut answers = [Err(rustix::io::Errno::INTR), Ok(3), Err(rustix::io::Errno::PIPE)].into_iter();
        assert_eq!(retry(|| answers.next().unwrap()).unwrap(), 3);
        assert_eq!(retry(|| answers.next().unwrap()).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_path_is_what_was_measured() {
        let info = TcpInfo {
            rtt_us: 50_000,
            cwnd_segments: 10,
            segment_bytes: 1448,
            delivery_rate: 125_000,
            ..TcpInfo::default()
        };
        let known =
            Path { rtt: Some(Nanos::from_millis(50)), cwnd_bytes: Some(14_480), throughput_bps: Some(1_000_000) };
        assert_eq!(path(&info), known);
        assert_eq!(path(&TcpInfo { is_delivery_app_limited: true, ..info }), Path { throughput_bps: None, ..known });
        assert_eq!(path(&TcpInfo::default()), Path::default());
    }
}
