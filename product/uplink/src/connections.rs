//! The connections of a server as the kernel lists them (sock_diag(7)): the number in each state, the lengths of the
//! two queues of its listening socket, and the bytes that the connections hold.
//!
//! Layouts: linux/sock_diag.h, linux/inet_diag.h, stable kernel interface. `ss` prints the same messages.

use std::io;

use crate::Error;
use crate::TcpInfo;
use crate::netlink::{Body, REPLIES_MAX, Socket, attribute, u32_at, u64_at};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// The older request for TCP, for all address families together. The kernel walks the machine's whole table of sockets
/// for each such request.
const TCPDIAG_GETSOCK: u16 = 18;
/// `struct inet_diag_sockid`, a part of both structures below.
const ID_BYTES: usize = 48;
/// `struct inet_diag_req_v2`: family, protocol, extensions, padding, states, then the wanted ports and addresses.
const REQUEST_BYTES: usize = 8 + ID_BYTES;
/// `struct inet_diag_msg`; attributes follow.
const MESSAGE_BYTES: usize = 72;
const STATE_AT: usize = 1;
/// The offsets of the server's address and the client's address, 16 bytes each (for IPv4, four bytes and then zeros),
/// and of the kernel's number of the socket.
const OWN_AT: usize = 4 + 4;
const PEER_AT: usize = 4 + 20;
const COOKIE_AT: usize = 4 + 40;
const RQUEUE_AT: usize = 4 + ID_BYTES + 4;
const WQUEUE_AT: usize = RQUEUE_AT + 4;
const INET_DIAG_MEMINFO: u16 = 1;
const INET_DIAG_INFO: u16 = 2;
/// Offset in `struct inet_diag_meminfo` of the memory handed below TCP that has not left (`sk_wmem_alloc`).
const MEMINFO_BELOW_AT: usize = 12;
/// All states except two that would cause most of the cost: TIME-WAIT, which leaves thousands of sockets if each
/// request uses a new connection, and bound-only sockets, for which the kernel walks the machine's whole table of
/// ports.
const STATES_WANTED: u32 = !(1 << TIME_WAIT | 1 << BOUND_INACTIVE);
const TIME_WAIT: u32 = 6;
const BOUND_INACTIVE: u32 = 13;

/// A connection's state, by the kernel's number (include/net/tcp_states.h). TIME-WAIT is left out: no program owns such
/// a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Established = 1,
    /// A SYN was received and the handshake is not complete: an entry of the SYN queue.
    SynReceived = 3,
    FinWait1 = 4,
    FinWait2 = 5,
    CloseWait = 8,
    LastAck = 9,
    Listen = 10,
    Closing = 11,
}

/// The number of states: one more than the kernel's largest state number.
const STATES: usize = 14;

/// Totals over the connections of one port. They are read at nearly the same instant, because the connections continue
/// while the kernel lists them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    by_state: [u64; STATES],
    /// The established connections that no program has accepted.
    pub accept_queue: u64,
    /// The maximum length of the accept queue; the kernel admits one more.
    pub accept_queue_limit: u64,
    /// The connections with bytes that the client has not acknowledged.
    pub sending: u64,
    /// The unacknowledged bytes of all connections, sent or not.
    pub unacknowledged_bytes: u64,
    /// Memory of packets that TCP has handed down and that have not left this machine, including overhead.
    pub below_tcp_bytes: u64,
}

impl Connections {
    pub fn in_state(&self, state: State) -> u64 {
        self.by_state[state as usize]
    }

    fn add(&mut self, message: &[u8]) -> Option<()> {
        let state = usize::from(*message.get(STATE_AT)?);
        let (rqueue, wqueue) = (u32_at(message, RQUEUE_AT)?, u32_at(message, WQUEUE_AT)?);
        *self.by_state.get_mut(state)? += 1;
        if state == State::Listen as usize {
            self.accept_queue += u64::from(rqueue);
            self.accept_queue_limit += u64::from(wqueue);
            return Some(());
        }
        self.sending += u64::from(wqueue > 0);
        self.unacknowledged_bytes += u64::from(wqueue);
        let memory = attribute(message.get(MESSAGE_BYTES..)?, INET_DIAG_MEMINFO);
        self.below_tcp_bytes += u64::from(memory.and_then(|info| u32_at(info, MEMINFO_BELOW_AT)).unwrap_or(0));
        Some(())
    }
}

/// Queries the IPv4 connections of a port repeatedly, in the network namespace of the thread that opened it.
pub struct ConnectionWatch {
    netlink: Socket,
    request: Vec<u8>,
}

impl ConnectionWatch {
    pub fn open(port: u16) -> Result<ConnectionWatch, Error> {
        let netlink = Socket::open_sock_diag().map_err(|error| Error::kernel("listing connections", error))?;
        let request = request(libc::AF_INET, port, &[INET_DIAG_MEMINFO], STATES_WANTED);
        Ok(ConnectionWatch { netlink, request })
    }

    pub fn read(&mut self) -> io::Result<Connections> {
        let mut found = Connections::default();
        self.netlink.dump(SOCK_DIAG_BY_FAMILY, &self.request, |message| {
            let _ = found.add(message);
        })?;
        Ok(found)
    }
}

/// The kernel's TCP information about one connection of a server, as another process can read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// The kernel's number of the socket, unique since the machine started.
    pub cookie: u64,
    /// The server's address; the next field is the client's. An IPv4 address, including one mapped to IPv6, is followed
    /// by zeros.
    pub own: [u8; 16],
    pub client: [u8; 16],
    pub is_ipv6: bool,
    /// True if the connection only passes through this host, so that its data comes from its packets.
    pub is_forwarded: bool,
    pub info: TcpInfo,
    /// The payload that was sent and not acknowledged. A packet that a queue of this host refused was not sent, though
    /// [`TcpInfo::sent_bytes`] counts it.
    pub outstanding_bytes: u32,
    /// Memory of packets that TCP has handed down and that have not left this machine, including overhead. For a
    /// forwarded flow it is an estimate of the payload that waits in the bands.
    pub below_bytes: u32,
}

impl Connection {
    fn of(message: &[u8]) -> Option<Connection> {
        let attributes = message.get(MESSAGE_BYTES..)?;
        let info = TcpInfo::from_kernel(attribute(attributes, INET_DIAG_INFO)?);
        let below_bytes = attribute(attributes, INET_DIAG_MEMINFO).and_then(|info| u32_at(info, MEMINFO_BELOW_AT));
        let address = |at: usize| Some(unmapped(message.get(at..at + 16)?.try_into().ok()?));
        let (own, client, family) = (address(OWN_AT)?, address(PEER_AT)?, i32::from(*message.first()?));
        let unacknowledged_bytes = u32_at(message, WQUEUE_AT)?;
        Some(Connection {
            cookie: u64_at(message, COOKIE_AT)?,
            own,
            client,
            is_ipv6: family == libc::AF_INET6 && own[4..] != [0; 12],
            is_forwarded: false,
            info,
            outstanding_bytes: unacknowledged_bytes.saturating_sub(info.notsent_bytes),
            below_bytes: below_bytes.unwrap_or(0),
        })
    }
}

/// Converts an IPv4-mapped address to IPv4; returns any other address unchanged.
fn unmapped(address: [u8; 16]) -> [u8; 16] {
    match std::net::Ipv6Addr::from(address).to_ipv4_mapped() {
        Some(v4) => padded(v4.into()),
        None => address,
    }
}

/// Returns an address as 16 bytes; an IPv4 address takes four, followed by zeros.
pub fn padded(address: std::net::IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match address {
        std::net::IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
        std::net::IpAddr::V6(v6) => bytes = v6.octets(),
    }
    bytes
}

/// Repeatedly lists IPv4 and IPv6 connections that may be sending, on certain ports or on all.
pub struct SenderWatch {
    netlink: Socket,
    /// The maximum number of datagrams read per list, with about 80 connections each. Further connections are left out.
    replies_max: usize,
    requests: Vec<Vec<u8>>,
}

impl SenderWatch {
    /// Opens a watch of all ports.
    pub fn open_all() -> io::Result<SenderWatch> {
        SenderWatch::open(&[ANY_PORT])
    }

    pub fn open(ports: &[u16]) -> io::Result<SenderWatch> {
        // The last bytes of a connection in FIN-WAIT-2 have just been acknowledged.
        let states =
            [State::Established, State::FinWait1, State::FinWait2, State::CloseWait, State::LastAck, State::Closing];
        let states = states.iter().fold(0, |states, state| states | 1 << *state as u32);
        let of = |port: &u16| request_of_both(*port, &[INET_DIAG_INFO, INET_DIAG_MEMINFO], states);
        let requests = ports.iter().map(of).collect();
        Ok(SenderWatch { netlink: Socket::open_sock_diag()?, replies_max: REPLIES_MAX, requests })
    }

    pub fn read(&mut self, mut each: impl FnMut(Connection)) -> io::Result<()> {
        for request in &self.requests {
            let is_whole = self.netlink.dump_at_most(self.replies_max, TCPDIAG_GETSOCK, request, |message| {
                if let Some(connection) = Connection::of(message) {
                    each(connection);
                }
            })?;
            if !is_whole {
                // The rest of the list would come as the reply to the next request.
                self.netlink = Socket::open_sock_diag()?;
            }
        }
        Ok(())
    }
}

/// Reports each connection that ends, with all of TCP's information about it, because many connections begin and end
/// between two lists.
///
/// Reports that are not read in time are dropped by the kernel and lost.
pub struct EndWatch(Socket);

/// Groups of sock_diag (linux/sock_diag.h): TCP sockets that are destroyed, over IPv4 and IPv6.
const SKNLGRP_INET_TCP_DESTROY: u32 = 1;
const SKNLGRP_INET6_TCP_DESTROY: u32 = 3;

impl EndWatch {
    pub fn open() -> io::Result<EndWatch> {
        Ok(EndWatch(Socket::open_sock_diag_groups(&[SKNLGRP_INET_TCP_DESTROY, SKNLGRP_INET6_TCP_DESTROY])?))
    }

    /// Passes each connection that has ended since the last call to `each`.
    pub fn read(&mut self, mut each: impl FnMut(Connection)) -> io::Result<()> {
        let reported = self.0.reported(|_, message| {
            if let Some(connection) = Connection::of(message) {
                // Nothing is on its way to a client that has closed or gone.
                each(Connection { outstanding_bytes: 0, ..connection });
            }
        });
        reported.map(drop)
    }
}

/// The port number that requests the connections of all ports.
const ANY_PORT: u16 = 0;

/// `struct inet_diag_req`: family, two lengths, extensions, the wanted ports and addresses, states, and padding.
fn request_of_both(port: u16, extensions: &[u16], states: u32) -> Vec<u8> {
    let mut request = [0u8; 4 + ID_BYTES + 8];
    request[3] = bits(extensions);
    request[4..6].copy_from_slice(&port.to_be_bytes());
    request[4 + ID_BYTES..8 + ID_BYTES].copy_from_slice(&states.to_ne_bytes());
    Body::new(&request).bytes().to_vec()
}

fn bits(extensions: &[u16]) -> u8 {
    extensions.iter().fold(0, |bits, extension| bits | 1 << (extension - 1))
}

fn request(family: i32, port: u16, extensions: &[u16], states: u32) -> Vec<u8> {
    let mut request = [0u8; REQUEST_BYTES];
    request[0] = family as u8;
    request[1] = libc::IPPROTO_TCP as u8;
    request[2] = bits(extensions);
    request[4..8].copy_from_slice(&states.to_ne_bytes());
    request[8..10].copy_from_slice(&port.to_be_bytes());
    Body::new(&request).bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn counts_states_queues_and_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut watch = ConnectionWatch::open(address.port()).unwrap();
        let clients: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        // The handshake's last packet has arrived when connect() returns, unless it is still queued.
        let waiting = (0..1000).map(|_| watch.read().unwrap()).find(|found| found.accept_queue == 3).unwrap();
        assert_eq!((waiting.in_state(State::Listen), waiting.in_state(State::Established)), (1, 3));
        assert!(waiting.accept_queue_limit >= 3 && waiting.sending == 0, "{waiting:?}");

        let (mut accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        // This is more than the peer's buffers hold without being read.
        let mut sent_bytes = 0;
        while let Ok(bytes) = accepted.write(&[0; 1 << 20]) {
            sent_bytes += bytes as u64;
        }
        let sending = watch.read().unwrap();
        assert_eq!((sending.accept_queue, sending.sending), (2, 1));
        assert!((1..=sent_bytes).contains(&sending.unacknowledged_bytes), "{sending:?} of {sent_bytes}");

        drop(clients);
        accepted.set_nonblocking(false).unwrap();
        let _ = accepted.read(&mut [0]);
    }

    /// The second list is whole again, and contains no remainder of the first.
    #[test]
    fn a_list_beyond_its_bound_is_cut_short() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pairs: Vec<_> =
            (0..200).map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap())).collect();
        let mut watch = SenderWatch::open(&[address.port()]).unwrap();
        let mut listed = |replies_max| {
            let mut count = 0;
            watch.replies_max = replies_max;
            watch.read(|_| count += 1).unwrap();
            count
        };
        let [part, whole] = [1, REPLIES_MAX].map(&mut listed);
        assert!((1..pairs.len()).contains(&part) && whole == pairs.len(), "{part} {whole}");
    }

    #[test]
    fn a_port_that_nobody_has_has_nothing() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert_eq!(ConnectionWatch::open(free).unwrap().read().unwrap(), Connections::default());
    }

    #[test]
    fn a_message_cut_short_counts_nothing() {
        let mut found = Connections::default();
        let message = [1u8; MESSAGE_BYTES];
        for bytes in 0..WQUEUE_AT + 4 {
            assert_eq!((found.add(&message[..bytes]), Connection::of(&message[..bytes])), (None, None));
        }
        assert_eq!(found, Connections::default());
        assert!(found.add(&message).is_some() && found.in_state(State::Established) == 1);
    }

    /// A connection that begins and ends between two lists is still reported.
    #[test]
    fn tells_of_connections_that_have_ended() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let mut ends = EndWatch::open().unwrap();
            let listener = TcpListener::bind(address).unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut accepted = listener.accept().unwrap().0;
            accepted.write_all(&[0; 77_777]).unwrap();
            drop(accepted);
            client.read_to_end(&mut Vec::new()).unwrap();
            drop(client);
            let mut found = Vec::new();
            // The number of bytes includes the FIN. A thread of the kernel reports the connection.
            let is_there = |found: &Vec<u64>| found.iter().any(|bytes| (77_777..77_780).contains(bytes));
            for _ in 0..10_000 {
                ends.read(|connection| found.push(connection.info.acked_bytes)).unwrap();
                if is_there(&found) {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            assert!(is_there(&found), "{address}: {found:?}");
        }
    }

    #[test]
    fn a_mapped_address_is_one_of_ipv4() {
        let mapped: std::net::Ipv6Addr = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(unmapped(mapped.octets()), padded("192.0.2.1".parse().unwrap()));
        let other: std::net::Ipv6Addr = "2001:db8::1".parse().unwrap();
        assert_eq!(unmapped(other.octets()), other.octets());
    }

    #[test]
    fn tells_what_tcp_knows_of_each_connection() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let address = listener.local_addr().unwrap();
            let client = TcpStream::connect(address).unwrap();
            let mut accepted = listener.accept().unwrap().0;
            accepted.write_all(&[0; 1000]).unwrap();
            // The acknowledgement has arrived when the client has read.
            (&client).read_exact(&mut [0; 1000]).unwrap();
            let mut seen = Vec::new();
            SenderWatch::open(&[address.port()]).unwrap().read(|connection| seen.push(connection)).unwrap();
            let [Connection { client: peer, own, info, is_ipv6, outstanding_bytes, .. }] = seen[..] else {
                panic!("{seen:?}")
            };
            assert_eq!((own, is_ipv6), (padded(address.ip()), address.is_ipv6()));
            let octets = match client.local_addr().unwrap().ip() {
                std::net::IpAddr::V4(ip) => [&ip.octets()[..], &[0; 12]].concat(),
                std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            assert_eq!(peer[..], octets[..]);
            let known = crate::tcp_info(&accepted).unwrap();
            assert_eq!((info.sent_bytes, info.min_rtt_us), (1000, known.min_rtt_us), "{info:?}");
            assert_eq!(outstanding_bytes, 0, "{info:?}");
            assert!(info.min_rtt_us > 0 && info.rtt_us >= info.min_rtt_us, "{info:?}");
        }
    }
}
