//! HTTP/3 newcomers, whose addresses may be forged.

use std::net::{SocketAddr, UdpSocket};

use quic::testing::Windows;

use super::*;
use crate::clients::ClientLimits;
use crate::clock::ClientTime;
use crate::event_loop::budget::HANDSHAKES_PER_TURN_MAX;
use crate::udp::{DatagramSocket, Group, Udp};

/// Enough turns for all tests here.
const TURNS_MAX: usize = 100;

impl Bench {
    /// A bench whose clients speak HTTP/3 too. `places` is the number of places, `connections_max` the maximum for one client (0:
    /// all).
    fn with_datagrams(name: &str, places: usize, connections_max: u32) -> Bench {
        let mut bench = Bench::secured(name);
        let of_client = ClientLimits { connections_max, ..Limits::default().clients(places) };
        bench.admit(places, of_client);
        let group = Group { count: 1, only_v6: true, control_priority: 0 };
        let udp = Udp::bind_all("127.0.0.1:0".parse().unwrap(), group).unwrap().remove(0);
        bench.worker.acceptor.first_mut().udp = Some(Arc::new(udp));
        bench.open_udp_endpoints();
        bench
    }

    /// Clients that have sent their first datagram.
    fn arrive(&self, count: usize) -> Vec<Newcomer> {
        let to = self.worker.acceptor.listeners()[0].udp.as_ref().unwrap().local_address().unwrap();
        let mut newcomers: Vec<Newcomer> = (0..count).map(|_| Newcomer::new(to)).collect();
        newcomers.iter_mut().for_each(Newcomer::say);
        newcomers
    }

    fn turns(&mut self) {
        (0..TURNS_MAX).for_each(|_| self.turn());
    }

    /// The number of TCP and of QUIC connections.
    fn connections(&self) -> (usize, usize) {
        let quic = self.worker.responder.connections.iter().filter(|(_, conn)| conn.channel.is_quic()).count();
        (self.worker.responder.connections.len() - quic, quic)
    }
}

/// A QUIC client for which no time passes.
struct Newcomer {
    socket: UdpSocket,
    to: SocketAddr,
    client: quic::testing::Client,
}

impl Newcomer {
    fn new(to: SocketAddr) -> Newcomer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let client = quic::testing::Client::new(Nanos::ZERO, to, "localhost", Windows::default());
        Newcomer { socket, to, client }
    }

    fn say(&mut self) {
        while let Some(datagram) = self.client.transmit(Nanos::ZERO) {
            self.socket.send_to(&datagram, self.to).unwrap();
        }
    }

    /// Takes what has arrived; returns the number of datagrams.
    fn hear(&mut self) -> usize {
        let mut datagram = [0; 2048];
        let mut heard = 0;
        while let Ok(bytes) = self.socket.recv(&mut datagram) {
            self.client.receive(Nanos::ZERO, &datagram[..bytes]);
            heard += 1;
        }
        heard
    }
}

/// Connections beyond the limit wait in the socket, and are let in without sending again.
#[test]
fn a_turn_begins_few_connections_of_quic() {
    let mut bench = Bench::with_datagrams("initials", 64, 0);
    let newcomers = bench.arrive(2 * HANDSHAKES_PER_TURN_MAX + 4);
    for _ in 0..TURNS_MAX {
        let before = bench.connections().1;
        bench.worker.responder.net.wait(Some(Nanos::ZERO)).unwrap();
        bench.worker.begin_turn(None);
        // However slow the machine, time does not end the turn.
        bench.worker.responder.timers.hold_turn();
        bench.worker.turn();
        assert!(bench.connections().1 - before <= HANDSHAKES_PER_TURN_MAX);
    }
    assert_eq!(bench.connections(), (0, newcomers.len()));
}

/// A newcomer's first datagram proves no address: a Retry validates it, and no connection has to give way before.
#[test]
fn an_address_that_may_be_forged_takes_nobodys_place() {
    let mut bench = Bench::with_datagrams("forged", 2, 0);
    let _idle = [bench.connect(), bench.connect()];
    bench.turns();
    assert_eq!(bench.connections(), (2, 0));
    let mut newcomers = bench.arrive(5);
    bench.turns();
    assert_eq!(bench.connections(), (2, 0));
    assert!(newcomers.iter_mut().all(|newcomer| newcomer.hear() == 1 && newcomer.client.lost.is_none()));
    // A client that returns the token is let in.
    newcomers[0].say();
    bench.turns();
    assert_eq!(bench.connections(), (1, 1));
}

/// Neither does it use up its client's share of connections.
#[test]
fn an_address_that_may_be_forged_leaves_its_client_half_of_its_connections() {
    let mut bench = Bench::with_datagrams("victim", 64, 6);
    let mut newcomers = bench.arrive(6);
    bench.turns();
    assert_eq!(bench.connections(), (0, 3));
    for newcomer in &mut newcomers {
        newcomer.hear();
        newcomer.say();
    }
    bench.turns();
    assert_eq!(bench.connections(), (0, 6));
}

/// Clients that arrive at a socket held by the service manager are left to the next process that has it.
#[test]
fn a_worker_that_stops_refuses_nobody_at_a_passed_socket() {
    for is_passed in [false, true] {
        let mut bench = Bench::with_datagrams(&format!("stops-{is_passed}"), 2, 0);
        bench.worker.acceptor.first_mut().is_passed = is_passed;
        bench.worker.udp = Default::default();
        bench.worker.responder.net = Os::new().unwrap();
        watch(&bench.worker.responder.net, &bench.worker.responder.setup, &bench.worker.responder.service.handler)
            .unwrap();
        bench.open_udp_endpoints();
        bench.worker.responder.timers.stop_at(ClientTime::NEVER);
        let mut newcomer = bench.arrive(1).remove(0);
        bench.turns();
        assert_eq!((newcomer.hear(), newcomer.client.lost.is_some()), (usize::from(!is_passed), !is_passed));
        assert_eq!(bench.connections(), (0, 0));
    }
}
