//! HTTP/3 connections under simulated time, to QUIC clients.

use std::collections::VecDeque;
use std::sync::Arc;

use http2::Event;
use quic::testing::{Client, Windows};
use quic::{Arrival, Datagrams, Endpoint, Key, Settings};
use tls::{Acceptor, Identity, Tickets};

use super::*;

const DELAY: Nanos = Nanos::from_millis(5);
const DATAGRAM: u64 = 1452;
/// In a datagram that is not quite full, quinn leaves room for the length of a frame.
const FULL: u64 = DATAGRAM - 10;
const STEPS_MAX: usize = 200_000;

/// The head of a response.
fn head() -> http::ResponseHead {
    http::Response::new(http::Status::OK, ()).into_head(&http::HttpDate::new(std::time::UNIX_EPOCH)).0
}

/// A client at the other end of a path on which datagrams take [`DELAY`] each way.
struct Peer {
    client: Client,
    endpoint: Endpoint,
    socket: FakeSocket,
    connection: Option<usize>,
    to_server: VecDeque<(Nanos, Vec<u8>)>,
    to_client: VecDeque<(Nanos, Vec<u8>)>,
    /// Decides by number which datagrams to the client arrive.
    passes: fn(usize) -> bool,
    sent: usize,
    /// It neither receives nor sends anything any more.
    is_gone: bool,
    requests: Vec<u32>,
}

struct Net {
    bench: Bench,
    peers: Vec<Peer>,
}

impl Net {
    fn new(policy: &str, rate: Option<&str>) -> Net {
        Net { bench: Bench::new(policy, rate), peers: Vec::new() }
    }

    /// A connected client; returns its index.
    fn connect(&mut self, name: char) -> usize {
        let at = self.begin(name, Windows::default());
        self.run();
        assert!(self.peers[at].client.is_connected);
        self.peers[at].client.hello();
        self.run();
        at
    }

    fn begin(&mut self, name: char, windows: Windows) -> usize {
        let identity = Identity::for_development(&["localhost".to_string()]).unwrap();
        let acceptor = Acceptor::new(&[Arc::new(identity)], &Tickets::new().unwrap(), |_| 0);
        let mut socket = self.bench.socket(name, u64::MAX);
        socket.framing = Framing::datagrams(DATAGRAM, false);
        let now = self.bench.now.get();
        self.peers.push(Peer {
            client: Client::new(now, "198.18.0.1:443".parse().unwrap(), "localhost", windows),
            endpoint: Endpoint::new(&acceptor, &Settings::default()).unwrap(),
            socket,
            connection: None,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            passes: |_| true,
            sent: 0,
            is_gone: false,
            requests: Vec::new(),
        });
        self.peers.len() - 1
    }

    fn request(&mut self, at: usize) -> u32 {
        self.peers[at].client.request("/", &[])
    }

    fn respond(&mut self, at: usize, number: u32, body_bytes: u64) -> JobId {
        let connection = self.peers[at].connection.unwrap();
        let body = Body::from(vec![number as u8; body_bytes as usize]);
        let dispatch = self.bench.on_stream(connection, number, Outgoing::on_stream(head(), body));
        self.bench.transmitter.dispatch(self.bench.now.get(), dispatch).unwrap()
    }

    /// Sends a request, and answers when it has arrived.
    fn ask(&mut self, at: usize, body_bytes: u64) -> (u32, JobId) {
        let stream = self.request(at);
        self.run_until(|net| net.peers[at].requests.contains(&stream));
        (stream, self.respond(at, stream, body_bytes))
    }

    /// Runs until nothing happens any more within a second.
    fn run(&mut self) {
        let until = self.bench.now.get() + Nanos::from_secs(1);
        self.run_for(until, |_| false);
    }

    fn run_until(&mut self, is_over: impl Fn(&Net) -> bool) {
        let until = self.bench.now.get() + Nanos::from_secs(1000);
        assert!(self.run_for(until, is_over), "it does not come to that");
    }

    fn run_for(&mut self, until: Nanos, is_over: impl Fn(&Net) -> bool) -> bool {
        for _ in 0..STEPS_MAX {
            (0..self.peers.len()).for_each(|at| self.step(at));
            let granted_at = self.bench.transmitter.run(&|| self.bench.now.get());
            self.bench.transmitter.connections.datagrams.woken.clear();
            (0..self.peers.len()).for_each(|at| self.carry(at));
            if is_over(self) {
                return true;
            }
            let next = self.peers.iter_mut().filter_map(Peer::next).chain(granted_at).min();
            match next.filter(|next| *next < until) {
                None => return false,
                Some(next) => self.bench.now.set(next.max(self.bench.now.get())),
            }
        }
        panic!("it does not come to rest");
    }

    /// Delivers what has arrived at either end, and the client's answers.
    fn step(&mut self, at: usize) {
        let now = self.bench.now.get();
        let peer = &mut self.peers[at];
        while let Some((_, datagram)) = peer.to_server.pop_front_if(|(when, _)| *when <= now) {
            let mut answers = Datagrams::new();
            let from = "198.18.0.2:5000".parse().unwrap();
            match peer.endpoint.receive(now, from, None, None, &datagram, &mut answers) {
                Arrival::New(attempt) => {
                    let session = peer.endpoint.accept(now, attempt, Key(1), &mut answers).unwrap();
                    let socket = peer.socket.clone();
                    let opened = self.bench.open(&socket);
                    self.bench.transmitter.begin_framed(now, opened, session.into());
                    peer.connection = Some(opened);
                }
                Arrival::For(_, incoming) => {
                    let connection = peer.connection.unwrap();
                    self.bench.transmitter.receive_datagram(now, connection, incoming);
                    while let Some(event) = self.bench.transmitter.connections[connection].engine().event() {
                        if let Event::Request { stream, .. } = event {
                            peer.requests.push(stream);
                        }
                    }
                }
                Arrival::Answered | Arrival::Ignored => {}
            }
        }
        if peer.is_gone {
            return peer.to_client.clear();
        }
        while let Some((_, datagram)) = peer.to_client.pop_front_if(|(when, _)| *when <= now) {
            peer.client.receive(now, &datagram);
        }
        if peer.client.timeout().is_some_and(|when| when <= now) {
            peer.client.on_timeout(now);
        }
        while let Some(datagram) = peer.client.transmit(now) {
            peer.to_server.push_back((now + DELAY, datagram));
        }
    }

    /// Puts what was sent on its path.
    fn carry(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        for datagram in peer.socket.datagrams.borrow_mut().drain(..) {
            peer.sent += 1;
            if (peer.passes)(peer.sent) {
                peer.to_client.push_back((self.bench.now.get() + DELAY, datagram));
            }
        }
    }

    fn ended(&mut self) -> Vec<(JobId, u64, bool)> {
        self.bench.ended()
    }

    fn is_whole(&self, at: usize, stream: u32, bytes: u64) -> bool {
        let response = self.peers[at].client.response(stream);
        response.is_whole && response.body == vec![stream as u8; bytes as usize] && response.field("server").is_some()
    }
}

impl Peer {
    fn next(&mut self) -> Option<Nanos> {
        let arrivals = [self.to_server.front(), self.to_client.front()].into_iter().flatten().map(|(when, _)| *when);
        let timeout = self.client.timeout().filter(|_| !self.is_gone);
        arrivals.chain(timeout).min()
    }
}

/// The wire bytes of what left.
fn wire_bytes(journal: &Journal) -> u64 {
    journal.borrow().iter().map(|(_, bytes)| bytes + 42).sum()
}

#[test]
fn paced_datagrams_are_full_and_no_faster_than_the_link() {
    let mut net = Net::new("srpt", Some("10mbit"));
    let at = net.connect('A');
    let (began, charged) =
        (net.bench.now.get(), net.bench.transmitter.link.scheduler().pacer().ledger().charged_bytes());
    net.bench.journal.borrow_mut().clear();
    let (stream, job) = net.ask(at, 200_000);
    net.run();
    assert!(net.is_whole(at, stream, 200_000));
    assert_eq!(net.ended(), [(job, head().bytes() + 200_000, true)]);
    let full = net.bench.journal.borrow().iter().filter(|(_, bytes)| *bytes >= FULL).count();
    let sizes = net.bench.journal.borrow().len();
    assert!(full >= 139 && sizes - full <= 12, "{full} of {sizes}, the others acknowledgements");
    let left = wire_bytes(&net.bench.journal);
    let took = net.bench.now.get() - began;
    assert!(took.0 >= left * 800 - 3_000_000, "{left} bytes in {took:?}");
    assert_eq!(
        net.bench.transmitter.link.scheduler().pacer().ledger().charged_bytes() - charged,
        left,
        "all that left is charged, once"
    );
}

#[test]
fn a_small_response_overtakes_on_another_connection() {
    let mut net = Net::new("srpt", Some("10mbit"));
    let (one, other) = (net.connect('L'), net.connect('S'));
    let (large, large_job) = net.ask(one, 300_000);
    let (small, small_job) = net.ask(other, 3_000);
    net.run();
    assert!(net.is_whole(one, large, 300_000) && net.is_whole(other, small, 3_000));
    let ended: Vec<JobId> = net.ended().into_iter().map(|(job, ..)| job).collect();
    assert_eq!(ended, [small_job, large_job]);
}

#[test]
fn room_in_a_datagram_goes_to_the_next_response() {
    let mut net = Net::new("srpt", Some("10mbit"));
    let at = net.connect('A');
    let streams: Vec<u32> = (0..20).map(|_| net.request(at)).collect();
    net.run_until(|net| net.peers[at].requests.len() == 20);
    net.bench.journal.borrow_mut().clear();
    for stream in &streams {
        net.respond(at, *stream, 300);
    }
    net.run();
    assert!(streams.iter().all(|stream| net.is_whole(at, *stream, 300)));
    assert_eq!(net.ended().len(), 20);
    let large = net.bench.journal.borrow().iter().filter(|(_, bytes)| *bytes > 100).count();
    assert!(large <= 6, "{large}");
}

#[test]
fn what_is_lost_is_sent_again_and_charged() {
    for rate in [Some("10mbit"), None] {
        let mut net = Net::new("srpt", rate);
        let at = net.connect('A');
        let charged = net.bench.transmitter.link.scheduler().pacer().ledger().charged_bytes();
        net.bench.journal.borrow_mut().clear();
        net.peers[at].passes = |number| !number.is_multiple_of(7);
        let (stream, _) = net.ask(at, 200_000);
        net.run_until(|net| net.is_whole(at, stream, 200_000));
        net.run();
        let left = wire_bytes(&net.bench.journal);
        assert!(left > 200_000 * 8 / 7, "{left}");
        if rate.is_some() {
            assert_eq!(net.bench.transmitter.link.scheduler().pacer().ledger().charged_bytes() - charged, left);
        }
        assert!(net.ended()[0].2);
    }
}

#[test]
fn a_full_socket_blocks_and_room_in_it_lets_go() {
    for rate in [Some("10mbit"), None] {
        let mut net = Net::new("srpt", rate);
        let at = net.connect('A');
        net.peers[at].socket.room.set(2 * DATAGRAM + 100);
        let (stream, _) = net.ask(at, 30_000);
        net.run();
        assert!(net.is_full(at) && net.ended().is_empty());
        let transmitter = &net.bench.transmitter;
        let protocol = &transmitter.connections[net.peers[at].connection.unwrap()].protocol;
        assert!(protocol.wants_room(transmitter.link.scheduler()));
        for _ in 0..3 {
            // The client's datagrams meanwhile, and too little room, change nothing.
            net.peers[at].client.ping();
            net.run();
            net.bench.transmitter.on_datagram_room(net.bench.now.get());
            assert_eq!(net.bench.transmitter.connections.datagrams.full().count(), 1);
        }
        net.peers[at].socket.room.set(u64::MAX);
        net.bench.transmitter.on_datagram_room(net.bench.now.get());
        net.run();
        assert!(net.is_whole(at, stream, 30_000) && net.ended()[0].2 && !net.is_full(at));
    }
}

/// Only a full socket is watched for room: readiness of the others would be reported without end.
#[test]
fn a_full_socket_is_told_from_others() {
    let mut net = Net::new("srpt", None);
    let (full, other) = (net.connect('F'), net.connect('O'));
    net.peers[full].socket.room.set(2 * DATAGRAM + 100);
    let (stream, _) = net.ask(other, 30_000);
    net.ask(full, 30_000);
    net.run();
    assert!(net.is_whole(other, stream, 30_000));
    assert_eq!([full, other].map(|at| net.is_full(at)), [true, false]);
}

/// A client that is gone delays no other, and its response ends when patience does.
#[test]
fn a_client_that_is_gone_holds_up_nobody() {
    let mut net = Net::new("srpt", Some("10mbit"));
    let (gone, other) = (net.connect('G'), net.connect('O'));
    let (_, lost) = net.ask(gone, 400_000);
    net.peers[gone].is_gone = true;
    let began = net.bench.now.get();
    let (stream, job) = net.ask(other, 2_000_000);
    net.run_until(|net| net.is_whole(other, stream, 2_000_000));
    // One window of the other response left before.
    let took = net.bench.now.get() - began;
    assert!(took < Nanos::from_millis(1_900), "{took:?}");
    for _ in 0..22 {
        net.run();
        let later = net.bench.now.get() + Nanos::from_secs(1);
        net.bench.now.set(later);
        net.bench.transmitter.end_all_stalled(later);
    }
    let ended = net.ended();
    assert_eq!(
        ended.iter().map(|(job, _, is_whole)| (*job, *is_whole)).collect::<Vec<_>>(),
        [(job, true), (lost, false)]
    );
}

#[test]
fn a_window_that_is_shut_holds_its_stream() {
    let mut net = Net::new("srpt", Some("10mbit"));
    let at = net.begin('A', Windows { stream: 20_000, connection: 1 << 20 });
    net.run();
    net.peers[at].client.hello();
    net.peers[at].client.is_deaf = true;
    let (shut, job) = net.ask(at, 50_000);
    net.run();
    assert!(net.ended().is_empty());
    let (open, other) = net.ask(at, 5_000);
    net.run();
    assert_eq!(net.ended().into_iter().map(|(job, ..)| job).collect::<Vec<_>>(), [other]);
    net.peers[at].client.is_deaf = false;
    net.peers[at].client.read();
    net.run();
    assert_eq!(net.ended().into_iter().map(|(job, ..)| job).collect::<Vec<_>>(), [job]);
    assert!(net.is_whole(at, shut, 50_000) && net.is_whole(at, open, 5_000));
}

#[test]
fn a_connection_that_ends_says_so_and_nothing_is_left_of_it() {
    let mut net = Net::new("srpt", Some("10mbit"));
    let at = net.connect('A');
    let (_, job) = net.ask(at, 100_000);
    let connection = net.peers[at].connection.unwrap();
    assert!(net.bench.transmitter.connections[connection].engine().is_acknowledged());
    net.bench.transmitter.close(net.bench.now.get(), connection);
    assert_eq!(net.ended().into_iter().map(|(job, _, is_whole)| (job, is_whole)).collect::<Vec<_>>(), [(job, false)]);
    net.carry(at);
    net.peers[at].to_server.clear();
    net.bench.now.set(net.bench.now.get() + DELAY);
    let peer = &mut net.peers[at];
    let last = peer.to_client.pop_back().unwrap().1;
    peer.client.receive(net.bench.now.get(), &last);
    assert_eq!(peer.client.close_code(), Some(0x100));
    assert!(
        net.bench.transmitter.is_idle(net.bench.now.get()) && net.bench.transmitter.connections.numbers().is_empty()
    );
    assert_eq!(net.bench.transmitter.run(&|| Nanos::from_secs(500)), None);
}

/// Datagrams that waited for room leave first, followed by the end.
#[test]
fn a_connection_whose_socket_was_full_says_that_it_ends() {
    let mut net = Net::new("srpt", None);
    let at = net.connect('A');
    net.peers[at].socket.room.set(2 * DATAGRAM + 100);
    net.ask(at, 30_000);
    net.run();
    net.peers[at].socket.room.set(u64::MAX);
    net.bench.transmitter.close(net.bench.now.get(), net.peers[at].connection.unwrap());
    let peer = &mut net.peers[at];
    for datagram in peer.socket.datagrams.borrow_mut().drain(..) {
        peer.client.receive(net.bench.now.get(), &datagram);
    }
    assert_eq!(peer.client.close_code(), Some(0x100));
}

/// The bytes sent last may be lost: until they are acknowledged the connection has to stay.
#[test]
fn a_response_is_acknowledged_a_round_trip_later() {
    let mut net = Net::new("srpt", Some("10mbit"));
    let at = net.connect('A');
    let (stream, _) = net.ask(at, 10_000);
    net.run_until(|net| net.bench.transmitter.link.scheduler().jobs().is_empty());
    let connection = net.peers[at].connection.unwrap();
    assert!(
        !net.bench.transmitter.connections[connection].engine().is_acknowledged() && !net.is_whole(at, stream, 10_000)
    );
    net.run();
    assert!(
        net.bench.transmitter.connections[connection].engine().is_acknowledged() && net.is_whole(at, stream, 10_000)
    );
}

#[test]
fn what_the_path_is_like_is_told() {
    let mut net = Net::new("srpt", None);
    let at = net.connect('A');
    let (stream, _) = net.ask(at, 400_000);
    net.run_until(|net| net.is_whole(at, stream, 400_000));
    let seen = net.peers[at].socket.seen.get();
    let rtt = seen.path.rtt.unwrap();
    assert!(rtt >= Nanos::from_millis(10) && rtt < Nanos::from_millis(40), "{rtt:?}");
    assert!(seen.path.cwnd_bytes.unwrap() > 14_000 && seen.acked_ago.is_some() && seen.lost_bytes == 0);
}

/// Everything sent before the last acknowledgement used to count as acknowledged by it.
#[test]
fn what_is_acknowledged_is_told_once() {
    for rate in [Some("10mbit"), None] {
        let mut net = Net::new("srpt", rate);
        let observer = net.bench.transmitter.link.observer.take();
        let mut observer = observer.unwrap_or_else(|| super::super::line_feedback::Observer::new(Default::default()));
        observer.script.get_or_insert_default().is_due = true;
        net.bench.transmitter.link.observer = Some(observer);
        let at = net.connect('A');
        for size in [100_000, 30_000] {
            let (stream, _) = net.ask(at, size);
            net.run_until(|net| net.is_whole(at, stream, size));
        }
        net.run();
        let later = net.bench.now.get() + Nanos::from_millis(100);
        net.bench.now.set(later);
        net.bench.transmitter.run(&|| later);
        let observer = net.bench.transmitter.link.observer.as_ref().unwrap();
        let looks = &observer.script.as_ref().unwrap().looks;
        let delivered: u64 = looks.iter().map(|(_, look)| look.delivered_bytes).sum();
        let charged = net.bench.transmitter.link.scheduler().pacer().ledger().charged_bytes();
        // Datagrams that only hold acknowledgements are never acknowledged.
        assert!(delivered <= charged + charged / 50 && delivered >= charged - charged / 20, "{delivered} of {charged}");
        let most = looks.iter().map(|(_, look)| look.delivered_bytes).max().unwrap();
        assert!(looks.len() > 10 && most < charged / 2, "{most} at once");
        assert_eq!(net.bench.transmitter.link.unacknowledged.len(), 0);
    }
}

impl Net {
    /// Returns whether datagrams of this client's connection wait for room.
    fn is_full(&self, at: usize) -> bool {
        let connections = &self.bench.transmitter.connections;
        connections.is_full_at(connections[self.peers[at].connection.unwrap()].token)
    }

    /// A response whose body comes later.
    fn produce(&mut self, at: usize) -> (u32, JobId) {
        let number = self.request(at);
        self.run_until(|net| net.peers[at].requests.contains(&number));
        let outgoing = Outgoing::on_stream(head(), Pipe::new(http::Length::Unknown, &Default::default()).into());
        let dispatch = self.bench.on_stream(self.peers[at].connection.unwrap(), number, outgoing);
        (number, self.bench.transmitter.dispatch(self.bench.now.get(), dispatch).unwrap())
    }

    fn push(&mut self, job: JobId, bytes: &[u8]) -> Option<usize> {
        self.bench.transmitter.producer(job).push(self.bench.now.get(), bytes)
    }
}

/// The end is a frame of its own, or none, if it is signalled later than the last byte.
#[test]
fn a_body_that_comes_later_is_sent_as_it_comes() {
    for parts in [&[][..], &[3_000, 1, 60_000], &[5]] {
        let mut net = Net::new("srpt", Some("10mbit"));
        let at = net.connect('A');
        let (stream, job) = net.produce(at);
        let mut pushed = Vec::new();
        for part in parts {
            let bytes = vec![pushed.len() as u8; *part];
            assert_eq!(net.push(job, &bytes), Some(*part));
            pushed.extend(bytes);
            net.run();
            let response = net.peers[at].client.response(stream);
            assert!(response.body == pushed && !response.is_whole, "{} bytes", response.body.len());
        }
        assert!(net.ended().is_empty());
        net.bench.transmitter.producer(job).finish(net.bench.now.get(), None);
        net.run();
        let response = net.peers[at].client.response(stream);
        assert!(response.body == pushed && response.is_whole && response.field("content-length").is_none());
        assert_eq!(net.ended(), [(job, head().bytes() + pushed.len() as u64, true)]);
        assert_eq!(net.push(job, b"more"), None);
    }
}

#[test]
fn a_body_that_fails_resets_its_stream() {
    let mut net = Net::new("srpt", None);
    let at = net.connect('A');
    let (stream, job) = net.produce(at);
    net.push(job, &[7; 10_000]);
    net.bench.transmitter.producer(job).fail(net.bench.now.get());
    net.run();
    assert_eq!(net.ended().iter().map(|(job, _, is_whole)| (*job, *is_whole)).collect::<Vec<_>>(), [(job, false)]);
    let came = net.peers[at].client.came(quic::testing::id(stream));
    assert!(came.reset == Some(0x102) && !came.is_whole, "H3_INTERNAL_ERROR (RFC 9114 section 8.1)");
    assert_eq!(net.peers[at].client.response(stream).body, [7; 10_000], "what came before leaves before the reset");
    // The connection stays open.
    let (next, _) = net.ask(at, 1_000);
    net.run();
    assert!(net.is_whole(at, next, 1_000));
}
