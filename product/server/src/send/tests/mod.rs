//! The write path under simulated time, with sockets in memory.

mod bands;
mod body;
mod clients;
mod framed;
mod http3;
mod ledger;
mod line_feedback;
mod multiplexed;
mod outgoing;
mod producing;
mod questions;
mod secure;
mod sending;
mod spooling;
mod storage;
mod unacknowledged;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, IoSlice};
use std::rc::Rc;

use proptest::prelude::*;
use sched::{Arrival, Guard, Pace, Path, Scheduler, Size, TcpSent, policy};
use units::Rate;
use units::memory::Account;
use units::wire::Framing;

use super::*;
use crate::body::{Available, Body, Piece};
use crate::clock::ClientTime;
use crate::connection::{ChannelKind, End, Engine, Opening, Outgoing, Room};
use crate::exchange_id::slot_of;
use crate::net::{DatagramSink, Seen, Sink, Status};

/// A transmitter and its connections, as an event loop has both.
struct Transmitter<S: Socket> {
    own: super::Transmitter,
    connections: Connections<S>,
}

impl<S: Socket> std::ops::Deref for Transmitter<S> {
    type Target = super::Transmitter;

    fn deref(&self) -> &super::Transmitter {
        &self.own
    }
}

impl<S: Socket> std::ops::DerefMut for Transmitter<S> {
    fn deref_mut(&mut self) -> &mut super::Transmitter {
        &mut self.own
    }
}

impl<S: Socket> Transmitter<S> {
    fn new(link: Link, patience: Patience) -> Transmitter<S> {
        Transmitter { own: super::Transmitter::new(link, patience), connections: Connections::default() }
    }

    fn run(&mut self, clock: &impl Fn() -> Nanos) -> Option<Nanos> {
        self.own.run(&mut self.connections, clock)
    }

    fn is_idle(&self, now: Nanos) -> bool {
        self.own.is_idle(&self.connections, now)
    }

    fn poll_timeout(&self) -> Option<Nanos> {
        self.own.poll_timeout(&self.connections)
    }

    fn dispatch(&mut self, now: Nanos, dispatch: Dispatch) -> Option<JobId> {
        self.own.dispatch(&mut self.connections, now, dispatch)
    }

    fn send_now(&mut self, now: Nanos, dispatch: Dispatch, bytes_max: u64) -> (u64, Direct) {
        self.own.send_now(&mut self.connections, now, dispatch, bytes_max)
    }

    fn send_sealed(&mut self, now: Nanos, at: usize) -> usize {
        self.own.send_sealed(&mut self.connections, now, at)
    }

    fn on_writable(&mut self, now: Nanos, at: usize) {
        self.own.on_writable(&mut self.connections, now, at);
    }

    fn abort(&mut self, now: Nanos, job: JobId, failure: Failure) {
        self.own.abort(&mut self.connections, now, job, failure);
    }

    fn end_all(&mut self, now: Nanos, at: usize, failure: impl Fn() -> Failure) {
        self.own.end_all(&mut self.connections, now, at, failure);
    }

    fn end_stalled(&mut self, now: Nanos, at: usize) {
        self.own.end_stalled(&mut self.connections, now, at);
    }

    fn begin_framed(&mut self, now: Nanos, at: usize, engine: Engine) {
        self.own.begin_framed(&mut self.connections, now, at, engine, ClientTime::NEVER);
    }

    fn end_framed(&mut self, now: Nanos, at: usize) {
        self.own.end_framed(&mut self.connections, now, at);
    }

    /// Closes a connection, and frees its slot.
    fn close(&mut self, now: Nanos, at: usize) -> u64 {
        let unreported_bytes = self.own.close(&mut self.connections, now, at);
        self.connections.remove(at);
        unreported_bytes
    }

    fn receive(&mut self, now: Nanos, at: usize, bytes: &[u8]) -> Result<(), http2::Broken> {
        self.own.receive(&mut self.connections, now, at, bytes)
    }

    fn receive_datagram(&mut self, now: Nanos, at: usize, incoming: quic::Incoming) {
        self.own.receive_datagram(&mut self.connections, now, at, incoming);
    }

    fn on_datagram_room(&mut self, now: Nanos) {
        self.own.on_datagram_room(&mut self.connections, now);
    }

    fn producer(&mut self, job: JobId) -> Producer<'_, S> {
        Producer::of(&mut self.own, &mut self.connections, job)
    }

    fn frames_bytes(&mut self, at: usize) -> usize {
        self.connections.frames_bytes(at)
    }

    fn alive_bytes(&mut self, at: usize) -> usize {
        self.own.alive_bytes(&mut self.connections, at)
    }

    fn shrink(&mut self) {
        self.own.shrink();
        self.connections.shrink();
    }
}

/// A write: the connection's name, and the bytes.
type Journal = Rc<RefCell<Vec<(char, u64)>>>;

/// A call on a socket.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Write {
    /// The number of slices, and whether more was to follow at once.
    Sent(usize, bool),
    Corked,
    /// Bytes that waited for more leave.
    Pushed,
}

#[derive(Clone)]
struct FakeSocket {
    name: char,
    /// The bytes it took.
    received: Rc<RefCell<Vec<u8>>>,
    /// The bytes it still takes before it blocks.
    room: Rc<Cell<u64>>,
    journal: Journal,
    is_finished: Rc<Cell<bool>>,
    is_reset: Rc<Cell<bool>>,
    retransmitted: Rc<Cell<u64>>,
    /// Payload and segments that TCP sent for the first time.
    sent: Rc<Cell<(u64, u32)>>,
    framing: Framing,
    /// The bytes for which TCP's window has room; what was taken beyond that is not sent.
    window: Rc<Cell<u64>>,
    unsent: Rc<Cell<u64>>,
    acked: Rc<Cell<u64>>,
    acked_ago: Rc<Cell<Nanos>>,
    /// Set if the kernel counts what it sent.
    is_counted: Rc<Cell<bool>>,
    path: Rc<Cell<Path>>,
    /// Set if it reports bytes that are not acknowledged.
    is_acking: Rc<Cell<bool>>,
    /// The number of queries of its status; the next field counts queries of its room.
    asked: Rc<Cell<u64>>,
    asked_for_room: Rc<Cell<u64>>,
    queued_below: Rc<Cell<u64>>,
    /// Segments without payload that its end will send.
    closing: Rc<Cell<u8>>,
    /// Every priority it was given.
    priorities: Rc<RefCell<Vec<u32>>>,
    writes: Rc<RefCell<Vec<Write>>>,
    /// The error of a write that is not taken.
    fails: Rc<Cell<Option<io::ErrorKind>>>,
    /// Datagrams that it took.
    datagrams: Rc<RefCell<Vec<Vec<u8>>>>,
    seen: Rc<Cell<Seen>>,
}

impl Sink for FakeSocket {
    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        self.send_slices(&[IoSlice::new(bytes)], more)
    }

    fn send_slices(&self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        self.writes.borrow_mut().push(Write::Sent(slices.len(), more));
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let taken = (bytes.len() as u64).min(self.room.get());
        if let Some(kind) = self.fails.get() {
            return Err(kind.into());
        }
        if taken == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.room.set(self.room.get() - taken);
        let sent = taken.min(self.window.get());
        self.window.set(self.window.get() - sent);
        self.unsent.set(self.unsent.get() + taken);
        self.let_out(sent);
        self.journal.borrow_mut().push((self.name, taken));
        self.received.borrow_mut().extend_from_slice(&bytes[..taken as usize]);
        Ok(taken as usize)
    }

    fn send_file(&self, file: &File, offset: u64, count: usize) -> io::Result<usize> {
        let left = file.metadata()?.len().saturating_sub(offset);
        match left.min(count as u64) {
            0 => Ok(0),
            bytes => {
                let mut content = vec![0; bytes as usize];
                std::os::unix::fs::FileExt::read_exact_at(file, &mut content, offset)?;
                self.send(&content, false)
            }
        }
    }

    fn cork(&self, is_corked: bool) {
        self.writes.borrow_mut().push(if is_corked { Write::Corked } else { Write::Pushed });
    }

    fn finish(&self) {
        assert!(!self.is_finished.replace(true), "finished twice");
    }

    fn reset(&self) {
        self.is_reset.set(true);
    }
}

impl DatagramSink for FakeSocket {
    fn send(&mut self, datagrams: &mut quic::Datagrams) -> io::Result<()> {
        while let Some(first) = datagrams.first() {
            let bytes = first.bytes.len() as u64;
            if bytes > self.room.get() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.room.set(self.room.get() - bytes);
            let (payload, segments) = self.sent.get();
            self.sent.set((payload + bytes, segments + 1));
            self.journal.borrow_mut().push((self.name, bytes));
            self.datagrams.borrow_mut().push(first.bytes.to_vec());
            datagrams.advance();
        }
        Ok(())
    }

    fn see(&mut self, seen: Seen) {
        self.seen.set(seen);
        self.acked.set(seen.acked_bytes);
    }
}

impl Socket for FakeSocket {
    type Tcp = FakeSocket;
    type Quic = FakeSocket;

    fn tcp(&self) -> Option<&FakeSocket> {
        Some(self)
    }

    fn quic(&mut self) -> Option<&mut FakeSocket> {
        Some(self)
    }

    fn status(&self) -> Status {
        self.asked.set(self.asked.get() + 1);
        Status {
            sent: self.is_counted.get().then(|| self.sent()),
            unsent_bytes: self.unsent.get(),
            retransmitted_bytes: self.retransmitted.get(),
            own_lost_bytes: 0,
            acked_bytes: self.acked.get(),
            sacked_bytes: 0,
            acked_ago: self.acked_ago.get(),
            shut_for: Nanos::ZERO,
            is_unacknowledged: self.is_acking.get() && (self.acked.get() < self.sent.get().0 || self.unsent.get() > 0),
            path: self.path.get(),
            least_rtt: None,
            closing_segments: self.closing.get(),
        }
    }

    fn has_room(&self) -> bool {
        self.asked_for_room.set(self.asked_for_room.get() + 1);
        self.room.get() > 0
    }

    fn queued_below_bytes(&self) -> Option<u64> {
        Some(self.queued_below.get())
    }

    fn set_priority(&mut self, priority: u32) {
        self.priorities.borrow_mut().push(priority);
    }
}

impl<S: Socket> Transmitter<S> {
    /// When it has something to do apart from looks at what is acknowledged.
    fn send_timeout(&self) -> Option<Nanos> {
        let grant_at = self.link.scheduler.poll_timeout();
        [grant_at, self.limit.timeout(), self.connections.timeout()].into_iter().flatten().min()
    }
}

impl FakeSocket {
    /// A connection of the first client on it, without TLS.
    fn opening(&self, token: u64) -> Opening<FakeSocket> {
        Opening {
            token,
            socket: self.clone(),
            kind: ChannelKind::Tcp,
            client: 0,
            peer: ([198, 18, 0, 1], 80).into(),
            framing: self.framing,
            session: None,
            account: Account::default(),
        }
    }

    /// Lets TCP send this much of what it holds.
    fn let_out(&self, bytes: u64) {
        let bytes = bytes.min(self.unsent.get());
        let (payload, segments) = self.sent.get();
        self.unsent.set(self.unsent.get() - bytes);
        self.sent.set((payload + bytes, segments + bytes.div_ceil(self.framing.segment_bytes) as u32));
    }

    /// Returns what TCP has sent; retransmissions count in full segments.
    fn sent(&self) -> TcpSent {
        let (again, (payload, segments)) = (self.retransmitted.get(), self.sent.get());
        let again_segments = again.div_ceil(self.framing.segment_bytes) as u32;
        TcpSent { payload_bytes: payload + again, segments: segments + again_segments }
    }
}

impl<S: Socket> Transmitter<S> {
    /// Does what a worker's sweep does, connection by connection.
    fn end_all_stalled(&mut self, now: Nanos) {
        self.connections.numbers().into_iter().for_each(|at| self.end_stalled(now, at));
    }
}

/// The token of the connection of this name, which has the place of the generation.
fn token(name: char, at: usize) -> u64 {
    (name as u64) << 32 | at as u64
}

/// The name of the connection of a response.
fn name_of(departure: &Departure) -> char {
    (departure.exchange.token() >> 32) as u8 as char
}

struct Bench {
    transmitter: Transmitter<FakeSocket>,
    journal: Journal,
    now: Cell<Nanos>,
}

impl Bench {
    fn new(policy: &str, rate: Option<&str>) -> Bench {
        let rate: Option<Rate> = rate.map(|rate| rate.parse().unwrap());
        let pace = Pace { rate, ahead: Nanos::from_micros(300), ..Pace::UNLIMITED };
        let scheduler = Scheduler::new(policy::parse(policy).unwrap(), pace).with_guard(Guard::new(0));
        let patience = Patience { rate_bytes_per_s_min: 1000, window: Nanos::from_secs(10) };
        Bench {
            transmitter: Transmitter::new(Link::new(scheduler, None), patience),
            journal: Journal::default(),
            now: Cell::new(Nanos::from_secs(1)),
        }
    }

    fn socket(&self, name: char, room: u64) -> FakeSocket {
        FakeSocket {
            name,
            received: Rc::default(),
            room: Rc::new(Cell::new(room)),
            journal: Rc::clone(&self.journal),
            is_finished: Rc::default(),
            is_reset: Rc::default(),
            retransmitted: Rc::default(),
            sent: Rc::default(),
            framing: Framing::ETHERNET,
            window: Rc::new(Cell::new(u64::MAX)),
            unsent: Rc::default(),
            path: Rc::default(),
            is_acking: Rc::default(),
            acked: Rc::default(),
            acked_ago: Rc::default(),
            is_counted: Rc::new(Cell::new(true)),
            asked: Rc::default(),
            asked_for_room: Rc::default(),
            queued_below: Rc::default(),
            closing: Rc::default(),
            priorities: Rc::default(),
            writes: Rc::default(),
            fails: Rc::default(),
            datagrams: Rc::default(),
            seen: Rc::default(),
        }
    }

    fn dispatch(&mut self, socket: &FakeSocket, bytes: u64) -> JobId {
        let outgoing = Outgoing::new(vec![0; bytes as usize], Body::default(), End::Finish);
        self.dispatch_outgoing(socket, outgoing)
    }

    fn dispatch_outgoing(&mut self, socket: &FakeSocket, outgoing: Outgoing) -> JobId {
        let at = self.open(socket);
        self.dispatch_on(at, outgoing)
    }

    /// Sends a response without a job; the socket does not take all of it.
    fn begin_now(&mut self, socket: &FakeSocket, bytes: u64) -> JobId {
        let at = self.open(socket);
        let outgoing = Outgoing::new(vec![0; bytes as usize], Body::default(), End::Finish);
        let (sent_bytes, direct) = self.transmitter.send_now(self.now.get(), self.single(at, outgoing), u64::MAX);
        assert_eq!(sent_bytes, socket.received.borrow().len() as u64);
        let Direct::Begun(job) = direct else { panic!("{direct:?}") };
        job
    }

    /// Dispatches a response on a connection that has none.
    fn dispatch_on(&mut self, at: usize, outgoing: Outgoing) -> JobId {
        let dispatch = self.single(at, outgoing);
        self.transmitter.dispatch(self.now.get(), dispatch).expect("nothing is sent on it")
    }

    /// A response on the connection in this slot, which has one at a time.
    fn single(&self, at: usize, outgoing: Outgoing) -> Dispatch {
        Dispatch::single(self.transmitter.connections[at].exchange_id(0), outgoing, 0)
    }

    /// A response on this stream of the connection in this slot.
    fn on_stream(&self, at: usize, stream: u32, outgoing: Outgoing) -> Dispatch {
        Dispatch::single(self.transmitter.connections[at].exchange_id(stream), outgoing, 0)
    }

    /// Opens a connection over this socket.
    fn open(&mut self, socket: &FakeSocket) -> usize {
        self.open_secure(socket, None)
    }

    fn open_secure(&mut self, socket: &FakeSocket, session: Option<Box<tls::Session>>) -> usize {
        let at = slot_of(self.transmitter.connections.next_token());
        let (framing, name, socket) = (socket.framing, socket.name, socket.clone());
        let opening = Opening {
            token: token(name, at),
            socket,
            kind: ChannelKind::Tcp,
            client: name as u32,
            peer: ([198, 18, 0, 1], 80).into(),
            framing,
            session,
            account: Account::default(),
        };
        self.transmitter.connections.open(self.now.get(), at, opening);
        at
    }

    /// Wire bytes of ours below, about.
    fn bytes_below(&mut self) -> u64 {
        let Transmitter { own, connections } = &mut self.transmitter;
        own.link.below.bytes(connections)
    }

    /// The connection of a response that is being sent.
    fn connection(&self, job: JobId) -> usize {
        self.transmitter.sendings[job].connection()
    }

    /// Reports that the socket of a response takes bytes again. Does nothing for one that has departed.
    fn on_writable(&mut self, now: Nanos, job: JobId) {
        if let Some(at) = self.transmitter.sendings.get(job).map(|sending| sending.connection()) {
            self.transmitter.on_writable(now, at);
        }
    }

    /// Runs from one instant at which something can be sent to the next; fails on a livelock.
    fn drive(&mut self) {
        for _ in 0..100_000 {
            match self.transmitter.run(&|| self.now.get()) {
                None => return,
                // Only looks at what is acknowledged are left.
                Some(_) if self.transmitter.send_timeout().is_none() => return,
                Some(at) => self.now.set(at.max(self.now.get())),
            }
        }
        panic!("the transmitter does not come to rest");
    }

    /// The names in the order of their writes, each run of writes once.
    fn order(&self) -> String {
        let mut names: Vec<char> = self.journal.borrow().iter().map(|(name, _)| *name).collect();
        names.dedup();
        names.into_iter().collect()
    }
}

#[test]
fn shorter_responses_overtake_and_all_depart() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let large = bench.socket('L', u64::MAX);
    bench.dispatch(&large, 20_000);
    bench.transmitter.run(&|| bench.now.get());
    let small = bench.socket('S', u64::MAX);
    bench.dispatch(&small, 3_000);
    bench.drive();
    assert_eq!(bench.order(), "LSL");
    let ended: Vec<_> = bench.transmitter.departures().map(|d| (name_of(&d), d.sent_bytes)).collect();
    assert_eq!(ended, [('S', 3_000), ('L', 20_000)]);
    assert!(small.is_finished.get() && large.is_finished.get());
}

/// The size is the whole response's; its remaining bytes are those not yet sent.
#[test]
fn a_response_that_was_begun_keeps_its_size() {
    for (policy, order) in [("psjf", "NB"), ("srpt", "BN"), ("las", "NB")] {
        let mut bench = Bench::new(policy, None);
        let (begun, new) = (bench.socket('B', 4_000), bench.socket('N', u64::MAX));
        bench.begin_now(&begun, 5_000);
        bench.journal.borrow_mut().clear();
        begun.room.set(u64::MAX);
        bench.dispatch(&new, 1_400);
        bench.drive();
        assert_eq!(bench.order(), order, "{policy}");
        let ended: Vec<_> = bench.transmitter.departures().map(|d| (name_of(&d), d.sent_bytes)).collect();
        assert!(ended.contains(&('B', 5_000)) && ended.contains(&('N', 1_400)), "{ended:?}");
    }
}

/// Every byte is reported once to the accounts, while a response is sent and at its end.
#[test]
fn what_was_sent_is_told_once() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let socket = bench.socket('A', u64::MAX);
    let job = bench.dispatch(&socket, 20_000);
    bench.transmitter.run(&|| bench.now.get());
    let told = bench.transmitter.sendings.unreported_bytes(job);
    assert!(told > 0 && told < 20_000, "{told}");
    assert_eq!(bench.transmitter.sendings.unreported_bytes(job), 0);
    bench.drive();
    assert_eq!(bench.transmitter.sendings.unreported_bytes(job), 0, "it has departed");
    assert_eq!(bench.transmitter.departures().next().unwrap().unreported_bytes, 20_000 - told);
    // What was sent before is known.
    let begun = bench.socket('B', 4_000);
    bench.begin_now(&begun, 5_000);
    begun.room.set(u64::MAX);
    bench.drive();
    assert_eq!(bench.transmitter.departures().next().unwrap().unreported_bytes, 1_000);
}

#[test]
fn nothing_is_sent_faster_than_the_link() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let socket = bench.socket('A', u64::MAX);
    let began = bench.now.get();
    bench.dispatch(&socket, 144_800);
    bench.drive();
    // The SYN-ACK and 100 full segments of 1,514 bytes, the last handed down at most 300 µs and its own time
    // early.
    let least = Nanos(74 * 800 + 99 * 1_211_200) - Nanos::from_micros(300);
    assert!(bench.now.get() - began >= least, "{:?}", bench.now.get() - began);
    assert!(bench.journal.borrow().iter().all(|(_, bytes)| *bytes == 1448), "only full segments");
}

#[test]
fn a_reader_that_blocks_is_passed_over() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let slow = bench.socket('S', 1_448);
    let job = bench.dispatch(&slow, 5_000);
    let other = bench.socket('O', u64::MAX);
    bench.dispatch(&other, 50_000);
    bench.drive();
    assert_eq!(bench.order(), "SO");
    slow.room.set(u64::MAX);
    bench.on_writable(bench.now.get(), job);
    bench.drive();
    assert_eq!(bench.order(), "SOS");
    assert_eq!(bench.transmitter.departures().count(), 2);
}

#[test]
fn retransmissions_take_their_time() {
    let ends = |retransmitted| {
        let mut bench = Bench::new("fcfs", Some("10mbit"));
        let first = bench.socket('A', u64::MAX);
        bench.dispatch(&first, 1_448);
        first.retransmitted.set(retransmitted);
        let second = bench.socket('B', u64::MAX);
        bench.dispatch(&second, 1_448);
        bench.drive();
        bench.now.get()
    };
    assert_eq!(ends(14_480) - ends(0), Nanos(10 * 1_211_200));
}

/// Over a long path a response has to wait for its window with segments in the socket: the link serves another
/// meanwhile. It used to idle for two segments in every round trip of every response.
#[test]
fn what_tcp_holds_back_takes_no_time_of_the_link() {
    const SEGMENT: u64 = 1_448;
    let ends = |window| {
        let mut bench = Bench::new("srpt", Some("10mbit"));
        let first = bench.socket('A', 4 * SEGMENT);
        first.window.set(window);
        bench.dispatch(&first, 5 * SEGMENT);
        let second = bench.socket('B', u64::MAX);
        bench.dispatch(&second, 100 * SEGMENT);
        bench.drive();
        assert_eq!(bench.order(), "AB");
        bench.now.get()
    };
    assert_eq!(ends(4 * SEGMENT) - ends(2 * SEGMENT), Nanos(2 * 1_211_200));
}

/// If the queue below is not visible, they are charged when they are found to have left.
#[test]
fn what_tcp_held_back_is_charged_when_it_leaves() {
    const SEGMENT: u64 = 1_448;
    let ends = |window| {
        let mut bench = Bench::new("srpt", Some("10mbit"));
        let first = bench.socket('A', 4 * SEGMENT);
        first.window.set(window);
        let job = bench.dispatch(&first, 6 * SEGMENT);
        bench.drive();
        first.let_out(u64::MAX);
        first.room.set(2 * SEGMENT);
        bench.on_writable(bench.now.get(), job);
        let second = bench.socket('B', u64::MAX);
        bench.dispatch(&second, 100 * SEGMENT);
        bench.drive();
        assert_eq!(bench.transmitter.departures().count(), 2);
        bench.now.get()
    };
    assert_eq!(ends(2 * SEGMENT), ends(4 * SEGMENT));
}

/// Bytes that a response leaves to TCP when it departs would not be found later: they are charged then.
#[test]
fn what_tcp_holds_back_at_the_end_is_charged_with_the_departure() {
    const SEGMENT: u64 = 1_448;
    let ends = |window| {
        let mut bench = Bench::new("srpt", Some("10mbit"));
        let first = bench.socket('A', u64::MAX);
        first.window.set(window);
        bench.dispatch(&first, 4 * SEGMENT);
        let second = bench.socket('B', u64::MAX);
        bench.dispatch(&second, 100 * SEGMENT);
        bench.drive();
        assert_eq!(bench.order(), "AB");
        bench.now.get()
    };
    assert_eq!(ends(2 * SEGMENT), ends(4 * SEGMENT));
}

#[test]
fn a_file_that_became_shorter_ends_the_response() {
    let path = std::env::temp_dir().join(format!("weir-shrinks-{}", std::process::id()));
    std::fs::write(&path, vec![1; 200_000]).unwrap();
    let root = crate::files::Root::open(path.parent().unwrap(), Default::default()).unwrap();
    let mut cache = crate::files::Cache::new(root.into(), crate::files::CacheLimits::per_worker(1));
    let name = format!("/{}", path.file_name().unwrap().to_str().unwrap());
    let Ok(crate::files::Found::File(entry)) = cache.lookup_waiting(name.as_bytes(), Nanos::from_secs(1)) else {
        panic!("the file was not found")
    };
    let rest = Body::from(Piece::File { entry, range: 0..200_000 });
    let mut bench = Bench::new("srpt", Some("100mbit"));
    let socket = bench.socket('A', u64::MAX);
    bench.dispatch_outgoing(&socket, Outgoing::new(vec![0; 100], rest, End::Open));
    bench.transmitter.run(&|| bench.now.get());
    File::options().write(true).open(&path).unwrap().set_len(50_000).unwrap();
    bench.drive();
    std::fs::remove_file(&path).unwrap();
    let departure = bench.transmitter.departures().next().unwrap();
    assert!(matches!(departure.failure, Some(Failure::Truncated { .. })), "{departure:?}");
    assert_eq!(departure.sent_bytes, 50_100);
}

#[test]
fn a_stalled_reader_is_given_up_and_a_waiting_one_is_not() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let stalled = bench.socket('S', 10);
    bench.dispatch(&stalled, 5_000);
    bench.drive();
    for second in 2..=11 {
        let now = Nanos::from_secs(second);
        bench.transmitter.end_all_stalled(now);
        assert_eq!(bench.transmitter.departures().count() > 0, second == 11, "after {second} s");
    }
    // A response that is ready and only never best is not the reader's fault.
    let waiting = bench.socket('W', u64::MAX);
    bench.dispatch(&waiting, 5_000);
    bench.transmitter.end_all_stalled(Nanos::from_secs(100));
    bench.transmitter.end_all_stalled(Nanos::from_secs(200));
    assert_eq!(bench.transmitter.departures().count(), 0);
}

/// A process that was stopped, or waited for a disk, kept the clients from taking bytes.
#[test]
fn a_pause_of_ours_is_not_held_against_a_reader() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let stalled = bench.socket('S', 10);
    bench.dispatch(&stalled, 5_000);
    bench.drive();
    bench.transmitter.connections.clock().pause(Nanos::from_secs(5), Some(Nanos::ZERO));
    for second in 2..=16 {
        bench.transmitter.end_all_stalled(Nanos::from_secs(second));
        assert_eq!(bench.transmitter.departures().count() > 0, second == 16, "after {second} s");
    }
}

#[test]
fn how_the_guard_kept_its_promise_is_told_once_something_was_sent() {
    let guarded = |rate| {
        let mut bench = Bench::new("srpt", rate);
        let pace = *bench.transmitter.link.scheduler().pacer().pace();
        let scheduler = Scheduler::new(policy::parse("srpt").unwrap(), pace).with_guard(Guard::new(10));
        bench.transmitter = Transmitter::new(Link::new(scheduler, None), bench.transmitter.patience);
        bench
    };
    let mut bench = guarded(Some("10mbit"));
    assert_eq!(bench.transmitter.link.longest_wait(), None);
    let [first, second] = ['A', 'B'].map(|name| bench.socket(name, u64::MAX));
    bench.dispatch(&first, 1_448);
    bench.dispatch(&second, 1_448);
    bench.drive();
    let promised = bench.transmitter.link.scheduler().wait_bound(Framing::ETHERNET).unwrap().with(2);
    let wait = bench.transmitter.link.scheduler().order().longest_wait();
    assert!(wait > Nanos::from_millis(1), "{wait:?}");
    assert_eq!(bench.transmitter.link.longest_wait(), Some(Notice::LongestWait { wait, responses: 2, promised }));
    let mut unpaced = guarded(None);
    unpaced.dispatch(&first, 1_448);
    assert_eq!(unpaced.transmitter.link.longest_wait(), None, "nothing was promised");
}

/// The one of two equal responses that has the faster path goes first, also if that is noticed only on the way.
#[test]
fn a_better_path_goes_first() {
    let path = |ms| Path { rtt: Some(Nanos::from_millis(ms)), cwnd_bytes: Some(14_480), throughput_bps: None };
    for policy in ["srrt", "fcf"] {
        let mut bench = Bench::new(policy, Some("10mbit"));
        let (near, far) = (bench.socket('N', u64::MAX), bench.socket('F', u64::MAX));
        near.path.set(path(10));
        far.path.set(path(300));
        bench.dispatch(&far, 500_000);
        bench.dispatch(&near, 500_000);
        // The near path becomes far: noticed after 64 KiB, when the other is chosen.
        near.path.set(path(900));
        bench.drive();
        assert_eq!(bench.order(), "NFN", "{policy}");
        let taken: Vec<u64> = bench.journal.borrow().iter().map(|(_, bytes)| *bytes).collect();
        assert_eq!(taken.len(), 2 * 500_000_usize.div_ceil(1448));
    }
}

/// If the policy does not use paths and nothing is paced, the kernel is not queried.
#[test]
fn nobody_asks_for_what_is_not_needed() {
    let mut bench = Bench::new("srpt", None);
    let socket = bench.socket('A', u64::MAX);
    bench.dispatch(&socket, 5_000_000);
    bench.drive();
    assert_eq!(socket.asked.get(), 0);
}

#[test]
fn an_aborted_response_departs_once() {
    let mut bench = Bench::new("srpt", None);
    let socket = bench.socket('A', 0);
    let job = bench.dispatch(&socket, 5_000);
    bench.transmitter.abort(bench.now.get(), job, Failure::Disconnected);
    bench.transmitter.abort(bench.now.get(), job, Failure::Disconnected);
    bench.on_writable(bench.now.get(), job);
    assert_eq!(bench.transmitter.departures().count(), 1);
    assert!(bench.transmitter.is_idle(bench.now.get()));
}

proptest! {
    /// The write path adds nothing to the order: the bytes leave exactly as a scheduler alone would grant them.
    #[test]
    fn writes_are_the_drains_grants(
        sizes in prop::collection::vec(1u64..30_000, 1..12),
        name in prop::sample::select(policy::NAMES),
    ) {
        let mut bench = Bench::new(name, Some("10mbit"));
        let sockets: Vec<_> = (0..sizes.len()).map(|at| bench.socket((b'a' + at as u8) as char, u64::MAX)).collect();
        let mut alone = Scheduler::new(policy::parse(name).unwrap(), *bench.transmitter.link.scheduler().pacer().pace());
        let mut ids = Vec::new();
        for (socket, &size) in sockets.iter().zip(&sizes) {
            bench.dispatch(socket, size);
            ids.push(alone.arrive(bench.now.get(), Arrival { framing: Framing::ETHERNET.with_segment(1448), ..Arrival::of(Size::Known(size)) }));
        }
        let mut now = bench.now.get();
        bench.drive();
        let mut granted = Vec::new();
        while let Some(at) = alone.poll_timeout() {
            now = now.max(at);
            let grant = alone.poll_grant(now).expect("the time has come");
            let at = ids.iter().position(|id| *id == grant.job).unwrap();
            granted.push(((b'a' + at as u8) as char, grant.bytes_max));
            let _ = alone.on_sent(now, grant.job, grant.bytes_max);
        }
        prop_assert_eq!(&*bench.journal.borrow(), &granted);
    }
}
