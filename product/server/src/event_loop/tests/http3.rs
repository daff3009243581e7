//! HTTP/3 connections, and how much of a turn their datagrams leave to others.

use quic::testing::{Client as Peer, Windows, id};
use quic::{Datagram, Datagrams};

use super::*;
use crate::udp::{DatagramSocket, Group, Pieces, Udp};

/// A client and its socket.
pub(super) struct Asking {
    pub(super) peer: Peer,
    socket: Udp,
    server: std::net::SocketAddr,
}

fn bound() -> Udp {
    let group = Group { count: 1, only_v6: true, control_priority: 0 };
    Udp::bind_all("127.0.0.1:0".parse().unwrap(), group).unwrap().remove(0)
}

impl Bench {
    /// It speaks HTTP/3 too, while its other clients use no TLS.
    pub(super) fn of_datagrams(name: &str) -> Bench {
        let mut bench = Bench::secured(name);
        let listener = bench.worker.acceptor.first_mut();
        listener.is_secure = false;
        listener.udp = Some(Arc::new(bound()));
        bench.open_udp_endpoints();
        bench
    }

    pub(super) fn open_udp_endpoints(&mut self) {
        let Worker { udp, acceptor, responder } = &mut self.worker;
        udp.open_all(acceptor.listeners(), responder).unwrap();
    }

    /// A client that has sent nothing yet.
    pub(super) fn ask(&self, windows: Windows) -> Asking {
        let server = self.worker.acceptor.listeners()[0].udp.as_ref().unwrap().local_address().unwrap();
        let peer = Peer::new(self.worker.responder.timers.now(), server, "localhost", windows);
        Asking { peer, socket: bound(), server }
    }

    /// A client whose handshake is over.
    pub(super) fn connect_http3(&mut self) -> Asking {
        let mut asking = self.ask(Windows::default());
        for _ in 0..100_000 {
            asking.talk(self.worker.responder.timers.now());
            if asking.peer.is_connected {
                asking.peer.hello();
                asking.talk(self.worker.responder.timers.now());
                return asking;
            }
            self.turn();
        }
        panic!("no handshake: {:?}", asking.peer.lost);
    }
}

impl Asking {
    pub(super) fn talk(&mut self, now: Nanos) {
        let Asking { peer, socket, .. } = self;
        while socket.receive(&mut Pieces::new(), |came| peer.receive(now, came.bytes)) {}
        while let Some(datagram) = self.peer.transmit(now) {
            self.send(&datagram, 1);
        }
    }

    /// Sends the same datagram this many times.
    fn send(&self, bytes: &[u8], times: usize) {
        let mut out = Datagrams::new();
        (0..times).for_each(|_| out.push(Datagram { to: self.server, from: None, ecn: None, bytes }));
        let _ = self.socket.send(&mut out, 0);
    }
}

/// A socket that does not become empty used to take whole turns, each reading only a single other connection.
#[test]
fn a_flood_of_datagrams_leaves_others_their_turn() {
    const OTHERS: usize = 8;
    let mut bench = Bench::of_datagrams("flood-datagrams");
    let mut flood = bench.connect_http3();
    flood.peer.ping();
    let ping = flood.peer.transmit(bench.worker.responder.timers.now()).expect("a PING");
    let mut turns_until_answered = || {
        let mut others: Vec<Client> = (0..OTHERS).map(|_| bench.connect()).collect();
        others.iter_mut().for_each(|other| other.send(HEAD));
        let mut turns = 0;
        while others.iter_mut().any(|other| other.responses() == 0) {
            flood.send(&ping, 20_000);
            bench.turn();
            turns += 1;
        }
        turns
    };
    // A turn ends by the clock, so on a busy machine an attempt may take more of them.
    let turns: Vec<usize> = (0..10).map(|_| turns_until_answered()).take_while(|turns| *turns >= OTHERS).collect();
    assert!(turns.len() < 10, "answered after {turns:?} turns");
}

/// A client in its handshake was closed by a server that stopped, and one that had sent no request yet.
#[test]
fn a_client_in_its_handshake_has_its_answer_from_a_server_that_stops() {
    let mut bench = Bench::of_datagrams("http3-stop");
    let mut new = bench.ask(Windows::default());
    new.talk(bench.worker.responder.timers.now());
    while bench.worker.responder.connections.is_empty() {
        bench.turn();
    }
    assert!(!bench.worker.stop(), "its handshake is under way");
    let mut stream = None;
    for _ in 0..100_000 {
        new.talk(bench.worker.responder.timers.now());
        if new.peer.is_connected && stream.is_none() {
            new.peer.hello();
            stream = Some(new.peer.request("/a", &[]));
        }
        if stream.is_some_and(|stream| new.peer.response(stream).is_whole) {
            break;
        }
        bench.turn();
    }
    let response = stream.map(|stream| new.peer.response(stream));
    assert!(response.is_some_and(|response| response.is_whole && response.body == FILE), "{:?}", new.peer.lost);
}

/// Earlier it was closed immediately, and a request on its way could not be repeated without risk.
#[test]
fn an_idle_client_has_goaway_from_a_server_that_stops() {
    let mut bench = Bench::of_datagrams("http3-idle");
    let mut idle = bench.connect_http3();
    let stream = idle.peer.request("/a", &[]);
    let turn = |bench: &mut Bench, idle: &mut Asking, is_done: &dyn Fn(&mut Peer) -> bool| {
        for _ in 0..100_000 {
            idle.talk(bench.worker.responder.timers.now());
            if is_done(&mut idle.peer) {
                return;
            }
            bench.turn();
        }
        panic!("{:?}", idle.peer.lost);
    };
    turn(&mut bench, &mut idle, &|peer| peer.response(stream).is_whole);
    assert!(!bench.worker.stop(), "its client has yet to hear of it");
    let late = idle.peer.request("/a", &[]);
    turn(&mut bench, &mut idle, &|peer| peer.close_code().is_some());
    assert_eq!((idle.peer.close_code(), idle.peer.came(id(late)).reset), (Some(0x100), Some(0x10b)));
    let control = idle.peer.server_streams().remove(0);
    assert!(control.bytes.ends_with(&[7, 1, 4]), "{:?}", control.bytes);
    assert!(bench.worker.responder.connections.is_empty());
}
