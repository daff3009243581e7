//! Tests with real sockets on the loopback of a separate network; the program's counters show its effect.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

mod attaching;
mod classes;
mod clients;
mod forwarded;
mod full;
mod heads;
mod measured;
mod order;
mod paths;
mod proxied;
mod ranks;
mod tracked;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::*;
use crate::testing::{in_own_network, run};
use crate::tree::{self, Kind};

const PORT: u16 = 8000;
/// The cut points: responses up to the first size go to the first band for data, up to the second to the second.
const CUTS: [u64; 2] = [2000, 100_000];

fn wanted(policy: Policy) -> Classify {
    Classify {
        ports: vec![PORT],
        policy,
        cuts: Cuts::Given(CUTS.to_vec()),
        rate: Some("1gbit".parse().unwrap()),
        is_followed: false,
        has_uploads: false,
        overhead: None,
        replace: false,
        clients: None,
        classes: Classes::default(),
    }
}

fn lo() -> Interface {
    run("ip link set lo up mtu 1500");
    Interface::by_name("lo").unwrap()
}

/// Runs a test with a classifier of this policy on the loopback.
fn with(wanted: Classify, test: impl FnOnce(&Site) + Send + 'static) {
    in_own_network(move || {
        let interface = lo();
        attach(&interface, &wanted).unwrap();
        test(&Site { interface });
    });
}

struct Site {
    interface: Interface,
}

impl Site {
    fn counters(&self) -> Counters {
        find(&self.interface).unwrap().unwrap().counters
    }

    /// Returns the change of the counters during `action`.
    fn during(&self, action: impl FnOnce()) -> Counters {
        let before = self.counters();
        action();
        let after = self.counters();
        let less = |(after, before): (&BandCounters, &BandCounters)| BandCounters {
            packets: after.packets - before.packets,
            bytes: after.bytes - before.bytes,
        };
        Counters {
            bands: after.bands.iter().zip(&before.bands).map(less).collect(),
            responses: after.responses - before.responses,
            sizes_read: after.sizes_read - before.sizes_read,
            sizes_unknown: after.sizes_unknown - before.sizes_unknown,
            promotions: after.promotions - before.promotions,
            held_back: after.held_back - before.held_back,
            no_storage: after.no_storage - before.no_storage,
            by_flow: after.by_flow - before.by_flow,
            behind: after.behind - before.behind,
            forwarded: after.forwarded - before.forwarded,
        }
    }
}

/// Returns the bands for data to which packets went.
fn bands(counters: &Counters) -> Vec<usize> {
    (2..16).filter(|band| counters.bands[*band].packets > 0).collect()
}

/// Both ends of a connection.
struct Pair {
    server: TcpStream,
    client: TcpStream,
}

impl Pair {
    fn new(address: &str) -> Pair {
        Pair::of(address, address)
    }

    /// Connects a client with this address.
    fn of(address: &str, client: &str) -> Pair {
        let listener = TcpListener::bind((address, PORT)).unwrap();
        let client = connect((client, 0), (address, PORT));
        let server = listener.accept().unwrap().0;
        server.set_nodelay(true).unwrap();
        Pair { server, client }
    }

    /// Sends a request, and this response in these pieces.
    fn answer(&mut self, pieces: &[&[u8]]) {
        self.ask();
        self.send(pieces);
    }

    fn ask(&mut self) {
        self.ask_for(1);
    }

    /// Sends requests in one write.
    fn ask_for(&mut self, requests: usize) {
        self.client.write_all(&vec![b'?'; requests]).unwrap();
        self.server.read_exact(&mut vec![0; requests]).unwrap();
    }

    fn send(&mut self, pieces: &[&[u8]]) {
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut client = self.client.try_clone().unwrap();
        let reader = std::thread::spawn(move || client.read_exact(&mut vec![0; bytes]).unwrap());
        for piece in pieces {
            self.server.write_all(piece).unwrap();
        }
        reader.join().unwrap();
    }
}

fn connect(from: (&str, u16), to: (&str, u16)) -> TcpStream {
    let socket = bound(from);
    rustix::net::connect(&socket, &address(to)).unwrap();
    socket
}

/// Makes a socket with this local address, not connected. Commands that other tests run at the same time do not inherit
/// it.
fn bound(from: (&str, u16)) -> TcpStream {
    let from = address(from);
    let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&socket, &from).unwrap();
    TcpStream::from(socket)
}

fn address((address, port): (&str, u16)) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

fn response(head: &str, body_bytes: usize) -> Vec<u8> {
    let mut bytes = head.replace('\n', "\r\n").into_bytes();
    bytes.resize(bytes.len() + body_bytes, b'x');
    bytes
}

fn plain(body_bytes: usize) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\nServer: a\nContent-Length: {body_bytes}\nDate: b\n\n");
    response(&head, body_bytes)
}

/// Waits until everything sent is acknowledged.
fn drained(socket: &TcpStream) {
    for _ in 0..2000 {
        let mut bytes: libc::c_int = 0;
        // SAFETY: SIOCOUTQ writes one int, which outlives the call.
        let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        assert_eq!(status, 0);
        if bytes == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("not acknowledged in 10 s");
}
