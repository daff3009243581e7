//! UDP sockets for HTTP/3. The sockets of all workers at one port form a group, and the kernel delivers each datagram
//! to the worker that has its connection ([`quic::Steering`]).

use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use quic::{Batch, Datagrams};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::net::{Shared, has_room};
use crate::sys;

/// The requested size of the kernel's send and receive buffers, which is large because acknowledgements come in bursts.
/// The kernel may allow less.
const BUFFER_BYTES: usize = 4 << 20;
/// The maximum length of several datagrams of one client that the kernel has joined into one piece.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// The number of pieces read in one system call.
const PIECES_AT_ONCE: usize = 8;

/// A bound socket.
#[derive(Debug)]
pub struct Udp {
    /// All sockets of this port, which must be closed together: if one were closed alone, the kernel would give its
    /// index to another socket, which would then receive datagrams of connections that it does not have.
    group: Arc<[OwnedFd]>,
    /// The index of this socket in `group`.
    at: usize,
    state: UdpSocketState,
    /// The maximum number of datagrams sent in one system call. The number that quinn-udp keeps itself falls to 1 after
    /// a wrong address.
    segments_max: AtomicUsize,
    /// The priority with which packets are marked now.
    priority: AtomicU32,
    /// The priority of packets that belong to no response.
    control_priority: u32,
}

/// Properties shared by the sockets of a port.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    pub count: usize,
    pub only_v6: bool,
    /// The priority of packets that belong to no response, because handshakes must not wait behind responses.
    pub control_priority: u32,
}

/// The number of datagrams that were sent, and the size of their payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    pub datagrams: u32,
    pub bytes: u64,
}

/// A received datagram.
#[derive(Debug, Clone, Copy)]
pub struct Came<'a> {
    pub from: SocketAddr,
    /// The local address to which the datagram was sent.
    pub to: Option<IpAddr>,
    pub ecn: Option<u8>,
    pub bytes: &'a [u8],
}

/// A datagram socket as a worker uses it.
pub trait DatagramSocket: Debug {
    fn local_address(&self) -> io::Result<SocketAddr>;
    /// Returns the priority of packets that belong to no response.
    fn control_priority(&self) -> u32;
    /// Returns a number that identifies this socket in the process; it is above the token of every connection.
    fn number(&self) -> u64;
    /// Sends datagrams from the front of the queue, marked with `priority`. On an error, the datagrams for which there
    /// was no room stay in the queue. A datagram that cannot be sent at all is dropped, as a network drops datagrams:
    /// QUIC retransmits it, or gives up.
    fn send(&self, datagrams: &mut Datagrams, priority: u32) -> (Left, io::Result<()>);
    /// Passes the datagrams that one system call returns to `each`, if they can be answered. Returns false if nothing
    /// is left to read.
    fn receive(&self, pieces: &mut Pieces, each: impl FnMut(Came<'_>)) -> bool;
    /// Returns true if there is room to send. If there is none, readiness is announced when that has changed.
    fn has_room(&self) -> bool;
    /// The memory of this socket's packets that wait below the socket, in bytes; `None` if the kernel does not report
    /// it.
    fn queued_below_bytes(&self) -> Option<u64>;
    /// The socket itself, if it is a real one and not a simulation's.
    fn shared(this: &Arc<Self>) -> Option<Shared>;
}

/// Receive buffers, shared by all sockets of a worker.
pub struct Pieces(Box<[u8]>);

impl Pieces {
    pub fn new() -> Pieces {
        Pieces(vec![0; PIECES_AT_ONCE * PIECE_BYTES_MAX].into_boxed_slice())
    }
}

impl Udp {
    /// Binds the sockets of a group, in the order of their workers: the kernel numbers them in the order of binding.
    pub fn bind_all(mut address: SocketAddr, group: Group) -> io::Result<Vec<Udp>> {
        let mut sockets = Vec::new();
        for _ in 0..group.count {
            let socket = Udp::bind(address, group)?;
            // With port 0 the kernel chooses a port for the first socket, and the others join it.
            address = local_address(&socket)?;
            sockets.push(socket);
        }
        let sockets: Arc<[OwnedFd]> = sockets.into();
        (0..group.count).map(|at| Udp::of(Arc::clone(&sockets), at, group.control_priority)).collect()
    }

    fn bind(address: SocketAddr, group: Group) -> io::Result<OwnedFd> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        if group.count > 1 {
            socket.set_reuse_port(true)?;
        }
        if address.is_ipv6() && group.only_v6 {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        if group.count > 1 {
            sys::steer_by_connection_id(&socket, group.count)?;
        }
        Ok(socket.into())
    }

    /// Takes over bound sockets, in the order of their workers. `control_priority` is the priority of control packets
    /// in a [`Group`].
    pub fn adopt_all(sockets: Vec<OwnedFd>, control_priority: u32) -> io::Result<Vec<Udp>> {
        sockets.iter().try_for_each(|socket| rustix::io::ioctl_fionbio(socket, true))?;
        let sockets: Arc<[OwnedFd]> = sockets.into();
        (0..sockets.len()).map(|at| Udp::of(Arc::clone(&sockets), at, control_priority)).collect()
    }

    pub fn try_clone_socket(&self) -> io::Result<OwnedFd> {
        self.socket().try_clone()
    }

    fn of(group: Arc<[OwnedFd]>, at: usize, control_priority: u32) -> io::Result<Udp> {
        let socket = &group[at];
        // As large as the kernel allows: with smaller buffers, more is lost and retransmitted.
        let _ = SockRef::from(socket).set_recv_buffer_size(BUFFER_BYTES);
        let _ = SockRef::from(socket).set_send_buffer_size(BUFFER_BYTES);
        let state = UdpSocketState::new(UdpSockRef::from(socket))?;
        if group.len() > 1 {
            // The kernel steers a coalesced piece as one, but it may hold datagrams of several connections of one
            // client. Failure is harmless: a kernel that does not know the option coalesces nothing. A piece that a
            // sender on this machine built (UDP_SEGMENT) stays one piece.
            let _ = sys::receive_one_by_one(socket);
        }
        let segments_max = AtomicUsize::new(state.max_gso_segments());
        Ok(Udp { group, at, state, segments_max, priority: AtomicU32::new(0), control_priority })
    }

    fn socket(&self) -> &OwnedFd {
        &self.group[self.at]
    }

    fn segments_max(&self) -> usize {
        self.segments_max.load(Ordering::Relaxed)
    }
}

impl DatagramSocket for Udp {
    fn local_address(&self) -> io::Result<SocketAddr> {
        local_address(self.socket())
    }

    fn control_priority(&self) -> u32 {
        self.control_priority
    }

    fn number(&self) -> u64 {
        u64::MAX - u64::from(self.socket().as_raw_fd().unsigned_abs())
    }

    fn send(&self, datagrams: &mut Datagrams, priority: u32) -> (Left, io::Result<()>) {
        if self.priority.swap(priority, Ordering::Relaxed) != priority {
            // The permission was checked at the start; without it, packets keep the previous band.
            let _ = SockRef::from(self.socket()).set_priority(priority);
        }
        let mut left = Left::default();
        // Set when a batch was refused, either because of its address or because batches are not possible here. Sending
        // its first datagram alone shows which.
        let mut is_doubtful = false;
        while let Some(batch) = datagrams.batch(if is_doubtful { 1 } else { self.segments_max() }) {
            let (count, bytes) = (batch.count, batch.all.bytes.len() as u64);
            match self.state.try_send(UdpSockRef::from(self.socket()), &transmit(&batch)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return (left, Err(error)),
                Err(error) if count > 1 && is_of_batches(&error) => {
                    is_doubtful = true;
                    continue;
                }
                Err(_) => {}
                Ok(()) => {
                    if is_doubtful {
                        self.segments_max.store(1, Ordering::Relaxed);
                    }
                    left.datagrams += u32::try_from(count).unwrap_or(u32::MAX);
                    left.bytes += bytes;
                }
            }
            is_doubtful = false;
            (0..count).for_each(|_| datagrams.advance());
        }
        (left, Ok(()))
    }

    fn receive(&self, pieces: &mut Pieces, mut each: impl FnMut(Came<'_>)) -> bool {
        let mut buffers = pieces.0.chunks_mut(PIECE_BYTES_MAX).map(IoSliceMut::new).collect::<Vec<_>>();
        let mut about = [RecvMeta::default(); PIECES_AT_ONCE];
        let Ok(count) = self.state.recv(UdpSockRef::from(self.socket()), &mut buffers, &mut about) else {
            return false;
        };
        let answerable = |(_, piece): &(_, &RecvMeta)| is_answerable(piece.addr, piece.dst_ip);
        for (buffer, piece) in buffers.iter().zip(&about[..count]).filter(answerable) {
            let came = &buffer[..piece.len.min(buffer.len())];
            for bytes in came.chunks(piece.stride.max(1)) {
                each(Came { from: piece.addr, to: piece.dst_ip, ecn: piece.ecn.map(|ecn| ecn as u8), bytes });
            }
        }
        count == PIECES_AT_ONCE
    }

    fn has_room(&self) -> bool {
        has_room(self)
    }

    fn queued_below_bytes(&self) -> Option<u64> {
        uplink::queued_below_bytes(self).ok().map(u64::from)
    }

    fn shared(this: &Arc<Udp>) -> Option<Shared> {
        Some(Arc::clone(this) as Shared)
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

/// Returns true if the kernel would send an answer: that takes a unicast local address and a port. Directed broadcasts
/// cannot be recognised.
fn is_answerable(from: SocketAddr, to: Option<IpAddr>) -> bool {
    let is_to_many = to.is_some_and(|to| match to.to_canonical() {
        IpAddr::V4(to) => to.is_broadcast() || to.is_multicast(),
        IpAddr::V6(to) => to.is_multicast(),
    });
    from.port() != 0 && !is_to_many
}

/// Returns true for the errors of sending a batch when batches are not possible or the address is wrong.
fn is_of_batches(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO))
}

fn local_address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    let address = rustix::net::getsockname(socket)?;
    SocketAddr::try_from(address).map_err(|_| io::Error::other("the socket has no internet address"))
}

fn transmit<'a>(batch: &Batch<'a>) -> Transmit<'a> {
    let all = batch.all;
    Transmit {
        destination: all.to,
        ecn: all.ecn.and_then(EcnCodepoint::from_bits),
        contents: all.bytes,
        segment_size: (batch.count > 1).then_some(batch.segment_bytes),
        src_ip: all.from,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quic::Datagram;
    use std::collections::BTreeMap;
    use std::net::UdpSocket;
    use std::time::Duration;

    fn group(address: &str, count: usize) -> Vec<Udp> {
        Udp::bind_all(address.parse().unwrap(), Group { count, only_v6: true, control_priority: 0 }).unwrap()
    }

    fn bound(address: &str) -> Udp {
        group(address, 1).remove(0)
    }

    /// Returns the datagrams that a socket receives, waiting much longer than loopback needs.
    fn came(udp: &Udp, pieces: &mut Pieces, wanted: usize) -> Vec<(SocketAddr, Option<IpAddr>, Vec<u8>)> {
        let mut came = Vec::new();
        for _ in 0..2000 {
            udp.receive(pieces, |one| came.push((one.from, one.to, one.bytes.to_vec())));
            if came.len() >= wanted {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        came
    }

    #[test]
    fn batches_leave_as_datagrams_of_their_own_and_come_so() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (server, client) = (bound(address), bound(address));
            let (at, to) = (client.local_address().unwrap(), server.local_address().unwrap());
            let mut out = Datagrams::new();
            let sent: Vec<Vec<u8>> =
                [1200, 1200, 30, 1400, 1200].iter().map(|bytes| vec![*bytes as u8; *bytes]).collect();
            for bytes in &sent {
                out.push(Datagram { to, from: None, ecn: Some(2), bytes });
            }
            let (left, result) = client.send(&mut out, 0);
            assert!(result.is_ok() && out.is_empty());
            assert_eq!(left, Left { datagrams: 5, bytes: 5030 });
            let came = came(&server, &mut Pieces::new(), 5);
            assert_eq!(came.iter().map(|(.., bytes)| bytes.clone()).collect::<Vec<_>>(), sent);
            assert!(came.iter().all(|(from, on, _)| *from == at && *on == Some(to.ip())), "{address}");
        }
    }

    #[test]
    fn what_cannot_be_sent_is_dropped() {
        let udp = bound("127.0.0.1:0");
        let mut out = Datagrams::new();
        // An address of the other family.
        out.push(Datagram { to: "[::1]:9".parse().unwrap(), from: None, ecn: None, bytes: &[0; 10] });
        let (left, result) = udp.send(&mut out, 0);
        assert!(result.is_ok() && out.is_empty());
        assert_eq!(left, Left::default());
    }

    /// quinn-udp takes the error of a wrong address for one of batches, and would send no batches from then on.
    #[test]
    fn an_address_that_cannot_be_sent_to_leaves_others_their_batches() {
        let (server, client) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
        let (nobody, to) = ("127.0.0.1:0".parse().unwrap(), client.local_address().unwrap());
        let batched = server.segments_max();
        let no_address_of_ours = Some("127.255.255.255".parse().unwrap());
        let mut out = Datagrams::new();
        for (to, from) in [(nobody, None), (to, no_address_of_ours), (to, None)] {
            (0..3).for_each(|_| out.push(Datagram { to, from, ecn: None, bytes: &[7; 1200] }));
        }
        let (left, result) = server.send(&mut out, 0);
        assert!(result.is_ok() && out.is_empty());
        assert_eq!(left, Left { datagrams: 3, bytes: 3600 });
        assert_eq!(came(&client, &mut Pieces::new(), 3).len(), 3);
        assert_eq!(server.segments_max(), batched);
    }

    #[test]
    fn a_datagram_from_no_port_is_not_taken() {
        let udp = bound("127.0.0.1:0");
        let to = udp.local_address().unwrap();
        let Ok(raw) = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)) else {
            return println!("SKIPPED: no privilege to send from port 0");
        };
        for from in [0u16, 9] {
            let head = [from, to.port(), 9, 0].map(u16::to_be_bytes).concat();
            let at = SocketAddr::new(to.ip(), 0);
            raw.send_to(&[&head[..], &[from as u8]].concat(), &at.into()).unwrap();
        }
        let came: Vec<u8> = came(&udp, &mut Pieces::new(), 1).into_iter().map(|(.., bytes)| bytes[0]).collect();
        assert_eq!(came, [9]);
    }

    #[test]
    fn what_is_sent_to_many_is_not_answered() {
        let from: SocketAddr = "198.18.0.1:5000".parse().unwrap();
        let is_answerable = |to: &str| is_answerable(from, Some(to.parse().unwrap()));
        assert!(["198.18.0.2", "::1", "::ffff:198.18.0.2"].into_iter().all(is_answerable));
        let many = ["255.255.255.255", "224.0.0.1", "ff02::1", "::ffff:224.0.0.1", "::ffff:255.255.255.255"];
        assert!(!many.into_iter().any(is_answerable));
    }

    /// Packets are marked when they are sent: two connections on one socket alternate with their own marks.
    #[test]
    fn each_send_has_its_mark() {
        let (server, client) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
        let to = server.local_address().unwrap();
        for priority in [3, 0, 5, 5] {
            let mut out = Datagrams::new();
            out.push(Datagram { to, from: None, ecn: None, bytes: &[1] });
            client.send(&mut out, priority).1.unwrap();
            assert_eq!(SockRef::from(client.socket()).priority().unwrap(), priority);
        }
    }

    /// Covers both kinds of header: the first datagrams of a connection, whose ID the client chose, and later ones.
    #[test]
    fn the_kernel_steers_by_connection_id() {
        let group = group("127.0.0.1:0", 3);
        let address = group[0].local_address().unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut expected: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        for byte in 0..60u8 {
            let long = [&[0xc3, 0, 0, 0, 1, 8, byte][..], &[byte; 40]].concat();
            let short = [&[0x43, byte][..], &[byte; 40]].concat();
            for datagram in [long, short] {
                client.send_to(&datagram, address).unwrap();
                expected.entry(usize::from(byte) % 3).or_default().push(datagram);
            }
        }
        let mut pieces = Pieces::new();
        for (number, udp) in group.iter().enumerate() {
            let came: Vec<Vec<u8>> = came(udp, &mut pieces, 40).into_iter().map(|(.., bytes)| bytes).collect();
            assert_eq!(came, expected[&number], "socket {number}");
        }
    }

    /// The kernel would steer a coalesced piece by the connection ID of its first datagram.
    #[test]
    fn datagrams_of_a_group_come_one_by_one() {
        let (group, client) = (group("127.0.0.1:0", 2), bound("127.0.0.1:0"));
        let to = group[0].local_address().unwrap();
        let mut out = Datagrams::new();
        (0..2).for_each(|_| out.push(Datagram { to, from: None, ecn: None, bytes: &[0x40; 1200] }));
        client.send(&mut out, 0).1.unwrap();
        let (mut memory, mut came) = ([[0u8; 4096]; 2], Vec::new());
        for _ in 0..2000 {
            let mut buffers = memory.each_mut().map(|buffer| IoSliceMut::new(buffer));
            let mut about = [RecvMeta::default(); 2];
            let count = group[0].state.recv(UdpSockRef::from(group[0].socket()), &mut buffers, &mut about).unwrap_or(0);
            came.extend(about[..count].iter().map(|piece| piece.len));
            if came.iter().sum::<usize>() == 2400 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(came, [1200; 2]);
    }

    /// Linux moves the last socket of a port to the index of one that closes, but the filter counts as before. If the
    /// filter finds no socket, a hash of the addresses chooses one.
    #[test]
    fn the_end_of_one_leaves_the_others_their_datagrams() {
        const CLIENTS: usize = 8;
        let mut group = group("127.0.0.1:0", 3);
        let address = group[0].local_address().unwrap();
        drop(group.remove(0));
        for _ in 0..CLIENTS {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            (0..3).for_each(|byte| assert_eq!(client.send_to(&[0x43, byte, 9], address).unwrap(), 3));
        }
        let mut pieces = Pieces::new();
        for (number, udp) in (1..).zip(&group) {
            let came: Vec<u8> = came(udp, &mut pieces, CLIENTS).into_iter().map(|(.., bytes)| bytes[1]).collect();
            assert_eq!(came, [number; CLIENTS], "socket {number}");
        }
    }

    /// Too short for a connection ID: any socket may get it, and none is harmed.
    #[test]
    fn a_datagram_of_nothing_is_no_mistake() {
        let group = group("127.0.0.1:0", 2);
        let address = group[0].local_address().unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for bytes in [&[][..], &[0xc0], &[0x40], &[0xc0, 0, 0, 0, 1, 8]] {
            client.send_to(bytes, address).unwrap();
        }
        client.send_to(&[0x40, 0, 1], address).unwrap();
        client.send_to(&[0x40, 1, 1], address).unwrap();
        let mut pieces = Pieces::new();
        for (number, udp) in group.iter().enumerate() {
            let last = (0..2000).find_map(|_| {
                let mut found = None;
                udp.receive(&mut pieces, |one| {
                    found = (one.bytes.len() == 3).then(|| one.bytes.to_vec()).or(found.take())
                });
                std::thread::sleep(Duration::from_millis(1));
                found
            });
            assert_eq!(last, Some(vec![0x40, number as u8, 1]));
        }
    }
}
