//! The transport to a client: a TCP socket, or a QUIC connection on a shared UDP socket.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use sched::{Path, TcpSent};
use socket2::SockRef;
use units::Nanos;
use uplink::TcpInfo;

use super::{Flow, Net, Os, Source};
use crate::net::{Shared, Sink, Socket, Status, Stream, has_room};

#[derive(Debug)]
pub enum Transport<N: Net = Os> {
    Tcp(N::Tcp),
    Quic(Box<Flow<N::Udp>>),
}

impl<N: Net> Transport<N> {
    pub fn on_tcp(socket: N::Tcp) -> Transport<N> {
        Transport::Tcp(socket)
    }

    /// Creates a QUIC connection on a socket that it shares with others.
    pub fn on_udp(socket: Arc<N::Udp>) -> Transport<N> {
        Transport::Quic(Box::new(Flow::new(socket)))
    }

    /// Registers the connection, whose readiness is reported under this token. QUIC connections use the readiness of
    /// the shared socket, which is registered already.
    pub fn watch(&self, net: &N, token: u64, flags: EventFlags) -> io::Result<()> {
        match self {
            Transport::Tcp(socket) => net.add(Source::Tcp(socket), token, flags),
            Transport::Quic(_) => Ok(()),
        }
    }
}

/// A connected TCP socket.
#[derive(Debug)]
pub struct TcpSocket(OwnedFd);

impl From<OwnedFd> for TcpSocket {
    fn from(socket: OwnedFd) -> TcpSocket {
        TcpSocket(socket)
    }
}

impl AsFd for TcpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Sink for TcpSocket {
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
        // If this fails, segments are less full than possible.
        let _ = rustix::net::sockopt::set_tcp_cork(self, is_corked);
    }

    fn take_all(&self) {
        // With 0 the system's limit applies, by default none. If this fails, the socket takes fewer bytes at a time.
        let _ = SockRef::from(self).set_tcp_notsent_lowat(0);
    }

    fn finish(&self) {
        // This fails only if the connection is closed already, which the worker will notice.
        let _ = rustix::net::shutdown(self, Shutdown::Write);
    }

    fn reset(&self) {
        // As above.
        let _ = rustix::net::sockopt::set_socket_linger(self, Some(Duration::ZERO));
    }
}

impl Stream for TcpSocket {
    fn receive(&self, into: &mut [u8]) -> rustix::io::Result<usize> {
        rustix::net::recv(self, into, RecvFlags::empty()).map(|(_, bytes)| bytes)
    }

    fn acknowledge(&self) {
        let _ = rustix::net::sockopt::set_tcp_quickack(self, true);
    }

    fn segments(&self) -> Option<(u32, bool)> {
        uplink::tcp_info(self).ok().map(|info| (info.segment_bytes, info.has_timestamps))
    }

    fn status(&self) -> Status {
        tcp_status(self)
    }

    fn has_room(&self) -> bool {
        has_room(self)
    }

    fn queued_below_bytes(&self) -> Option<u64> {
        uplink::queued_below_bytes(self).ok().map(u64::from)
    }

    fn set_priority(&self, priority: u32) {
        // The permission was checked at the start. Without it, packets stay in their previous band.
        let _ = SockRef::from(self).set_priority(priority);
    }
}

impl<N: Net> Socket for Transport<N> {
    type Tcp = N::Tcp;
    type Quic = Flow<N::Udp>;

    fn tcp(&self) -> Option<&N::Tcp> {
        match self {
            Transport::Tcp(socket) => Some(socket),
            Transport::Quic(_) => None,
        }
    }

    fn quic(&mut self) -> Option<&mut Flow<N::Udp>> {
        match self {
            Transport::Tcp(_) => None,
            Transport::Quic(flow) => Some(flow),
        }
    }

    fn shared(&self) -> Option<(u64, Shared)> {
        match self {
            Transport::Tcp(_) => None,
            Transport::Quic(flow) => flow.shared(),
        }
    }

    fn status(&self) -> Status {
        match self {
            Transport::Tcp(socket) => socket.status(),
            Transport::Quic(flow) => flow.status(),
        }
    }

    fn has_room(&self) -> bool {
        match self {
            Transport::Tcp(socket) => socket.has_room(),
            Transport::Quic(flow) => flow.has_room(),
        }
    }

    fn queued_below_bytes(&self) -> Option<u64> {
        match self {
            Transport::Tcp(socket) => socket.queued_below_bytes(),
            Transport::Quic(flow) => flow.queued_below_bytes(),
        }
    }

    fn set_priority(&mut self, priority: u32) {
        match self {
            Transport::Tcp(socket) => socket.set_priority(priority),
            Transport::Quic(flow) => flow.set_priority(priority),
        }
    }
}

fn tcp_status(socket: &TcpSocket) -> Status {
    let Ok(info) = uplink::tcp_info(socket) else { return Status::default() };
    let sent = TcpSent { payload_bytes: info.sent_bytes, segments: info.sent_segments };
    Status {
        sent: (info.sent_bytes > 0 || info.unacked_segments == 0).then_some(sent),
        unsent_bytes: info.notsent_bytes.into(),
        retransmitted_bytes: info.retransmitted_bytes,
        own_lost_bytes: 0,
        acked_bytes: info.acked_bytes,
        sacked_bytes: u64::from(info.sacked_segments) * u64::from(info.segment_bytes),
        acked_ago: Nanos::from_millis(info.last_ack_ms.into()),
        shut_for: Nanos::from_micros(info.rwnd_limited_us),
        is_unacknowledged: info.unacked_segments > 0 || info.notsent_bytes > 0,
        path: path(&info),
        least_rtt: None,
        closing_segments: info.closing_segments,
    }
}

fn flags(more: bool) -> SendFlags {
    if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL }
}

/// Returns the path in the form that policies use. The round trip is known from the handshake on. A delivery rate that
/// was limited by the application reflects how Weir scheduled the connection, not how fast the path is, and using it
/// would keep the connection slow. Without a rate, policies use the congestion window and the round trip.
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

    /// Connects a client; returns it with the server's end of its connection.
    fn connection() -> (TcpStream, Transport) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        accepted.set_nonblocking(true).unwrap();
        (client, Transport::Tcp(OwnedFd::from(accepted).into()))
    }

    #[test]
    fn bytes_pieces_and_parts_of_files_arrive_and_the_end_is_seen() {
        let (mut client, connection) = connection();
        let path = std::env::temp_dir().join(format!("weir-socket-{}", std::process::id()));
        std::fs::write(&path, "0123456789").unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(connection.tcp().unwrap().send(b"ab", true).unwrap(), 2);
        assert_eq!(connection.tcp().unwrap().send_slices(&[IoSlice::new(b"cd"), IoSlice::new(b"e")], true).unwrap(), 3);
        connection.tcp().unwrap().cork(true);
        assert_eq!(connection.tcp().unwrap().send_file(&file, 4, 3).unwrap(), 3);
        assert_eq!(connection.tcp().unwrap().send_file(&file, 10, 3).unwrap(), 0, "the file ends before that");
        connection.tcp().unwrap().finish();
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
        connection.tcp().unwrap().send(&[7; 5_000], false).unwrap();
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
            if let Err(error) = connection.tcp().unwrap().send(&[7; 1 << 16], false) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(!connection.has_room() && connection.status().unsent_bytes > 0);
    }

    #[test]
    fn a_connection_has_its_priority_and_nothing_below() {
        let (_client, mut connection) = connection();
        assert_eq!(connection.queued_below_bytes(), Some(0));
        connection.set_priority(5);
        assert_eq!(SockRef::from(connection.tcp().unwrap()).priority().unwrap(), 5);
    }

    /// A TCP socket accepts bytes, not datagrams.
    #[test]
    fn a_connection_of_tcp_is_none_of_quic() {
        let (_client, mut connection) = connection();
        assert!(connection.tcp().is_some() && connection.quic().is_none() && connection.shared().is_none());
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
