//! Bodies that come later, from a producer that pushes them. Whatever is done in whatever order, the client has a
//! prefix of what was pushed, sees an end only if all of it arrived, and the accounts balance.

use http::Length;
use http::http1::Delimiter;
use http2::testing::{self, DATA, END_STREAM, HEADERS, RST_STREAM};
use units::memory::Account;

use super::secure::{connected, deliver};
use super::*;
use crate::body::PIPE_BYTES_MAX;
use crate::files::temporary::Folder;
use crate::stages::staging::{Folding, Upper};

const HEAD: &[u8] = b"head";

fn pipe(length: Length) -> Pipe {
    Pipe::new(length, &Account::default())
}
const STREAM: u32 = 1;
const INTERNAL_ERROR: [u8; 4] = [0, 0, 0, 2];

/// The protocol between the response and its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// HTTP/1.1 with an announced length.
    Length(u64),
    Chunks,
    /// HTTP/1.0.
    Close,
    SealedChunks,
    SealedClose,
    Frames,
    SealedFrames,
}

pub(super) const OPEN_ENDED: [Way; 6] =
    [Way::Chunks, Way::Close, Way::SealedChunks, Way::SealedClose, Way::Frames, Way::SealedFrames];

impl Way {
    fn is_framed(self) -> bool {
        matches!(self, Way::Frames | Way::SealedFrames)
    }

    fn is_sealed(self) -> bool {
        matches!(self, Way::SealedChunks | Way::SealedClose | Way::SealedFrames)
    }

    fn ends_by_close(self) -> bool {
        matches!(self, Way::Close | Way::SealedClose)
    }

    fn body(self) -> Body {
        let (length, delimiter) = match self {
            Way::Length(bytes) => (Length::Known(bytes), Delimiter::Length),
            Way::Chunks | Way::SealedChunks => (Length::Unknown, Delimiter::LastChunk),
            Way::Close | Way::SealedClose => (Length::Unknown, Delimiter::Close),
            Way::Frames | Way::SealedFrames => return pipe(Length::Unknown).into(),
        };
        Body::from(pipe(length)).delimited(delimiter)
    }
}

/// A response and its producer.
pub(super) struct Produced {
    pub way: Way,
    pub bench: Bench,
    socket: FakeSocket,
    client: Option<rustls::ClientConnection>,
    at: usize,
    pub job: JobId,
    pub pushed: Vec<u8>,
    pub departures: Vec<Departure>,
    /// The connection was given up: its last frames, made before, may still leave here, although a worker would close
    /// it.
    is_abandoned: bool,
}

impl Produced {
    pub fn new(way: Way, rate: Option<&str>) -> Produced {
        let mut bench = Bench::new("srpt", rate);
        let socket = bench.socket('A', u64::MAX);
        let (client, session) = if way.is_sealed() { Some(connected()).unzip() } else { (None, None) };
        let (at, job) = if way.is_framed() {
            let at = bench.framed(&socket, session, &[STREAM], true);
            bench.drive();
            let dispatch = bench.on_stream(at, STREAM, Outgoing::on_stream(super::framed::head(), way.body()));
            (at, bench.transmitter.dispatch(bench.now.get(), dispatch).unwrap())
        } else {
            let at = bench.open_secure(&socket, session);
            let end = if way.ends_by_close() { End::Finish } else { End::Open };
            (at, bench.dispatch_on(at, Outgoing::new(HEAD.to_vec(), way.body(), end)))
        };
        Produced {
            way,
            bench,
            socket,
            client,
            at,
            job,
            pushed: Vec::new(),
            departures: Vec::new(),
            is_abandoned: false,
        }
    }

    fn now(&self) -> Nanos {
        self.bench.now.get()
    }

    pub fn drive(&mut self) {
        self.bench.drive();
        let departures: Vec<Departure> = self.bench.transmitter.departures().collect();
        if departures.iter().any(|departure| departure.failure.is_some()) && self.way.is_framed() {
            // As a worker does.
            self.bench.transmitter.connections.with_engine(self.at, |engine| engine.cancel(STREAM));
            self.bench.drive();
        }
        self.departures.extend(departures);
    }

    /// Pushes bytes that identify their position; returns how many were taken.
    pub fn push(&mut self, bytes: usize) -> Option<usize> {
        let begin = self.pushed.len();
        let content: Vec<u8> = (begin..begin + bytes).map(|at| (at / 251) as u8 ^ at as u8).collect();
        let taken = self.bench.transmitter.producer(self.job).push(self.bench.now.get(), &content)?;
        self.pushed.extend_from_slice(&content[..taken]);
        Some(taken)
    }

    pub fn finish(&mut self) {
        let now = self.now();
        self.producer().finish(now, None);
    }

    pub fn fail(&mut self) {
        let now = self.now();
        self.producer().fail(now);
    }

    pub fn room(&mut self) -> Option<usize> {
        self.producer().room()
    }

    pub fn producer(&mut self) -> Producer<'_, FakeSocket> {
        self.bench.transmitter.producer(self.job)
    }

    pub fn make_room(&mut self, bytes: u64) {
        self.socket.room.set(bytes);
        self.bench.transmitter.on_writable(self.now(), self.at);
    }

    pub fn leave(&mut self) {
        self.bench.transmitter.end_all(self.now(), self.at, || Failure::Disconnected);
        self.is_abandoned = true;
    }

    /// The bytes of the body in memory.
    pub fn in_memory_bytes(&mut self) -> usize {
        self.bench.transmitter.sendings[self.job].outgoing.body().alive_bytes()
    }

    /// The body as far as it arrived, and whether its client takes it for complete.
    fn received(&mut self) -> (Vec<u8>, bool) {
        let wire = self.socket.received.borrow().clone();
        let (mut plain, mut has_ended) = (wire, self.socket.is_finished.get() && !self.socket.is_reset.get());
        if let Some(client) = &mut self.client {
            let alert;
            (plain, alert) = deliver(client, &plain);
            has_ended &= alert;
        }
        if self.way.is_framed() {
            return unframed(plain);
        }
        let body = plain.strip_prefix(HEAD).unwrap_or_default();
        match self.way {
            Way::Length(bytes) => (body.to_vec(), body.len() as u64 == bytes),
            Way::Chunks | Way::SealedChunks => unchunked(body),
            _ => (body.to_vec(), has_ended),
        }
    }

    /// Checks what has to hold when the response has ended, however it did.
    pub fn check(mut self) -> Produced {
        let (way, departures) = (self.way, std::mem::take(&mut self.departures));
        assert_eq!(departures.len(), 1, "{way:?} departs once");
        assert!(self.bench.transmitter.link.scheduler().jobs().is_empty(), "{way:?}: no job is left");
        assert_eq!(self.push(1), None, "{way:?}: the producer learns that its reader has left");
        assert_eq!(self.room(), None);
        let departure = &departures[0];
        let (body, is_whole) = self.received();
        assert!(self.pushed.starts_with(&body), "{way:?}: {} of {} bytes", body.len(), self.pushed.len());
        let is_left_whole = self.is_abandoned && way.is_framed() && is_whole;
        assert!(is_left_whole || is_whole == departure.failure.is_none(), "{way:?}: {departure:?}");
        assert!(!is_whole || body == self.pushed, "{way:?}: {} of {} bytes", body.len(), self.pushed.len());
        if is_whole && departure.failure.is_none() && way.is_framed() {
            assert_eq!(departure.sent_bytes, super::framed::head().bytes() + body.len() as u64, "{way:?}");
        }
        let carried_bytes = self.bench.transmitter.connections[self.at].delivery.sent_bytes();
        assert_eq!(
            carried_bytes,
            self.socket.received.borrow().len() as u64,
            "{way:?}: all that left is on the account"
        );
        if !way.is_framed() && !way.is_sealed() {
            assert_eq!(departure.sent_bytes, carried_bytes, "{way:?}: chunks are bytes of the response");
        }
        self
    }

    /// Checks that each byte that has left is charged once.
    pub fn check_account(mut self) {
        if !self.bench.transmitter.link.is_paced() || self.way.ends_by_close() {
            return;
        }
        self.bench.transmitter.close(self.now(), self.at);
        let (framing, sent) = (self.socket.framing, self.socket.sent());
        let left = sent.payload_bytes + u64::from(sent.segments) * framing.header_bytes + framing.syn_ack_bytes;
        assert_eq!(self.bench.transmitter.link.scheduler().pacer().ledger().charged_bytes(), left, "{:?}", self.way);
    }
}

fn unframed(mut plain: Vec<u8>) -> (Vec<u8>, bool) {
    let (mut body, mut is_whole) = (Vec::new(), false);
    for (kind, flags, stream, payload) in testing::frames(&mut plain) {
        if stream == STREAM && matches!(kind, DATA | HEADERS) {
            assert!(!is_whole, "nothing follows an end");
            is_whole = flags & END_STREAM != 0;
        }
        if kind == DATA {
            body.extend_from_slice(&payload);
        }
        assert!(kind != RST_STREAM || payload == INTERNAL_ERROR, "{payload:?}");
    }
    (body, is_whole)
}

fn unchunked(mut wire: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(line) = wire.iter().position(|byte| *byte == b'\n') {
        let digits = std::str::from_utf8(&wire[..line]).unwrap().strip_suffix('\r').unwrap();
        let bytes = usize::from_str_radix(digits, 16).unwrap();
        wire = &wire[line + 1..];
        if bytes == 0 {
            return (body, wire == b"\r\n");
        }
        let come = bytes.min(wire.len());
        body.extend_from_slice(&wire[..come]);
        wire = wire[come..].strip_prefix(b"\r\n").unwrap_or_default();
    }
    (body, false)
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Push(usize),
    Turn,
    Room(u64),
    Finish,
    Fail,
    Leave,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1_usize..40_000).prop_map(Step::Push),
        6 => (1_usize..20).prop_map(Step::Push),
        6 => Just(Step::Turn),
        4 => (0_u64..50_000).prop_map(Step::Room),
        1 => Just(Step::Finish),
        1 => Just(Step::Fail),
        1 => Just(Step::Leave),
    ]
}

fn follow(mut produced: Produced, steps: &[Step]) {
    for step in steps {
        match *step {
            Step::Push(bytes) => {
                let room = produced.room();
                if let Some(taken) = produced.push(bytes) {
                    assert_eq!(Some(taken), room.map(|room| room.min(bytes)), "as much as there is room for");
                }
            }
            Step::Turn => produced.drive(),
            Step::Room(bytes) => produced.make_room(bytes),
            Step::Finish => produced.finish(),
            Step::Fail => produced.fail(),
            Step::Leave => produced.leave(),
        }
        if let Some(sending) = produced.bench.transmitter.sendings.get_mut(produced.job) {
            let queued = sending.outgoing.body().pipe().map_or(0, |pipe| pipe.queued().len());
            assert!(queued <= PIPE_BYTES_MAX, "{queued} bytes wait");
        }
    }
    // Everything that has not ended does so now: a reader that takes everything, and a producer that sends what it has
    // announced.
    produced.make_room(u64::MAX);
    produced.drive();
    if let Way::Length(bytes) = produced.way {
        while let Some(Some(_)) = (bytes > produced.pushed.len() as u64).then(|| {
            let left = bytes - produced.pushed.len() as u64;
            let taken = produced.push(left.min(10_000) as usize);
            produced.drive();
            taken
        }) {}
    }
    produced.finish();
    produced.drive();
    produced.check().check_account();
}

/// A bug of ours in the size of one response: it ends with an error in the log, and the others continue.
#[test]
fn a_response_that_is_longer_than_its_size_ends_alone() {
    for way in OPEN_ENDED {
        for rate in [None, Some("10mbit")] {
            let mut produced = Produced::new(way, rate);
            let other = produced.bench.socket('B', u64::MAX);
            produced.push(3000);
            produced.drive();
            let scheduler = &mut produced.bench.transmitter.link.scheduler;
            let sent_bytes = scheduler.jobs().get(produced.job).expect("it goes on").attained;
            scheduler.on_size(produced.job, Size::Known(sent_bytes + 10)).unwrap();
            produced.push(3000);
            let at = produced.bench.open_secure(&other, None);
            produced.bench.dispatch_on(at, Outgoing::new(HEAD.to_vec(), vec![7; 20_000].into(), End::Open));
            produced.drive();
            let failures: Vec<_> = produced.departures.iter().map(|departure| &departure.failure).collect();
            let [Some(Failure::Overrun(overrun)), None] = failures[..] else {
                panic!("{way:?}, {rate:?}: {failures:?}")
            };
            assert!(overrun.size_bytes == sent_bytes + 10 && overrun.found_bytes > overrun.size_bytes, "{overrun:?}");
            assert_eq!(other.received.borrow().len(), HEAD.len() + 20_000, "{way:?}, {rate:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_is_done_the_client_has_what_was_pushed_and_no_false_end(
        steps in prop::collection::vec(step(), 1..40),
        way in prop_oneof![
            (0_u64..100_000).prop_map(Way::Length),
            prop::sample::select(OPEN_ENDED.to_vec()),
        ],
        is_paced in any::<bool>(),
    ) {
        let rate = is_paced.then_some("10mbit");
        follow(Produced::new(way, rate), &steps);
    }
}

/// All frames were made, none had left, and the connection was given up.
#[test]
fn a_reader_who_leaves_before_the_last_frames_is_told_of_as_gone() {
    let steps = [Step::Push(22_383), Step::Room(0), Step::Finish, Step::Turn, Step::Leave];
    follow(Produced::new(Way::Frames, None), &steps);
}

/// Every protocol, each with a body that comes in three parts, with a separate end, and with none.
#[test]
fn a_body_that_comes_in_parts_is_sent_in_parts() {
    for way in OPEN_ENDED {
        for rate in [None, Some("10mbit")] {
            let mut produced = Produced::new(way, rate);
            for part in [3_000, 1, 20_000] {
                produced.drive();
                assert_eq!(produced.push(part), Some(part));
                produced.drive();
                let (body, is_whole) = produced.received_so_far();
                assert!(body == produced.pushed && !is_whole, "{way:?}: {} bytes", body.len());
                assert!(!produced.bench.transmitter.is_idle(produced.now()) && produced.departures.is_empty());
            }
            produced.finish();
            produced.drive();
            assert!(produced.departures[0].failure.is_none());
            produced.check();
            for parts in [0, 2] {
                let mut produced = Produced::new(way, rate);
                (0..parts).for_each(|_| assert!(produced.push(100).is_some()));
                produced.finish();
                produced.drive();
                assert!(produced.departures[0].failure.is_none());
                produced.check();
            }
        }
    }
}

impl crate::send::Transmitter {
    /// The response whose body comes later, if there is one.
    pub fn produced<S: Socket>(&mut self, connections: &mut Connections<S>) -> Option<JobId> {
        let numbers = connections.numbers().into_iter();
        let jobs = numbers.flat_map(|at| connections[at].protocol.jobs(self.link.scheduler()));
        let jobs: Vec<JobId> = jobs.collect();
        jobs.into_iter().find(|job| Producer::of(self, connections, *job).room().is_some())
    }
}

impl Produced {
    /// Responses whose producers have room again since the last call.
    fn refills(&mut self) -> Vec<JobId> {
        std::iter::from_fn(|| self.bench.transmitter.reads.next_refill()).collect()
    }

    /// The body like [`Produced::received`], for a client that receives the rest later.
    fn received_so_far(&mut self) -> (Vec<u8>, bool) {
        if self.way.is_sealed() {
            // rustls' client can be read only once.
            return (self.pushed.clone(), false);
        }
        self.received()
    }
}

/// The bytes pushed are not taken for complete, however many of them have left.
#[test]
fn a_body_that_fails_ends_as_no_whole_one_does() {
    for way in OPEN_ENDED.into_iter().chain([Way::Length(2_000)]) {
        for pushed in [0, 1_000] {
            let mut produced = Produced::new(way, None);
            produced.push(pushed);
            produced.drive();
            produced.fail();
            produced.drive();
            let departure = &produced.departures[0];
            assert!(matches!(departure.failure, Some(Failure::Source)), "{way:?}: {departure:?}");
            assert_eq!(produced.socket.is_reset.get(), way.ends_by_close(), "{way:?}");
            assert!(
                !way.ends_by_close()
                    || produced.bench.transmitter.connections[produced.at].session.as_deref_mut().is_none()
            );
            produced.check();
        }
    }
}

/// A client that has nothing of the response may repeat a request that was processed.
#[test]
fn what_came_before_a_failure_is_sent_before_the_cut() {
    for way in OPEN_ENDED.into_iter().chain([Way::Length(20_000)]) {
        for (rate, room) in [(None, u64::MAX), (Some("10mbit"), u64::MAX), (None, 700)] {
            let mut produced = Produced::new(way, rate);
            produced.socket.room.set(room);
            produced.push(10_000);
            produced.fail();
            produced.drive();
            assert_eq!(produced.departures.is_empty(), room != u64::MAX, "{way:?}: it waits for its client");
            produced.make_room(u64::MAX);
            produced.drive();
            let departure = &produced.departures[0];
            assert!(matches!(departure.failure, Some(Failure::Source)), "{way:?}: {departure:?}");
            assert_eq!(produced.socket.is_reset.get(), way.ends_by_close(), "{way:?}");
            assert!(produced.received() == (produced.pushed.clone(), false), "{way:?}");
        }
    }
}

/// The stage gives what it has kept back, but no end.
#[test]
fn a_stage_gives_all_that_came_before_a_failure() {
    for delimiter in [Delimiter::Close, Delimiter::LastChunk] {
        let mut bench = Bench::new("srpt", None);
        let socket = bench.socket('A', u64::MAX);
        let (body, at) = (Body::from(pipe(Length::Unknown)), bench.open(&socket));
        let body = body.through(Box::<Folding>::default(), Length::Unknown).delimited(delimiter);
        let job = bench.dispatch_on(at, Outgoing::new(HEAD.to_vec(), body, End::Finish));
        let now = bench.now.get();
        bench.transmitter.producer(job).push(now, b"some bytes");
        bench.transmitter.producer(job).fail(now);
        bench.drive();
        let departures: Vec<Departure> = bench.transmitter.departures().collect();
        assert!(matches!(departures[0].failure, Some(Failure::Source)), "{departures:?}");
        let framed: &[u8] = if delimiter == Delimiter::Close { b"headsome bytes" } else { b"heada\r\nsome bytes\r\n" };
        assert_eq!(*socket.received.borrow(), framed);
        assert_eq!((socket.is_finished.get(), socket.is_reset.get()), (false, delimiter == Delimiter::Close));
    }
}

#[test]
fn a_producer_is_held_to_the_length_it_announced() {
    // Fewer bytes than announced.
    let mut produced = Produced::new(Way::Length(2_000), None);
    produced.push(1_999);
    produced.finish();
    produced.drive();
    assert!(matches!(produced.departures[0].failure, Some(Failure::Length)));
    produced.check();
    // More bytes than announced.
    for first in [0, 1_000] {
        let mut produced = Produced::new(Way::Length(2_000), None);
        produced.push(first);
        produced.drive();
        assert_eq!(produced.push(2_001 - first), None);
        produced.drive();
        assert!(matches!(produced.departures[0].failure, Some(Failure::Length)));
        produced.check();
    }
    // As many bytes as announced: it is complete without an explicit end.
    let mut produced = Produced::new(Way::Length(2_000), None);
    produced.push(2_000);
    produced.drive();
    assert!(produced.departures[0].failure.is_none());
    produced.check();
}

#[test]
fn a_full_pipe_tells_its_producer_when_there_is_room() {
    for way in OPEN_ENDED {
        let mut produced = Produced::new(way, None);
        produced.drive();
        produced.socket.room.set(0);
        let taken = produced.push(2 * PIPE_BYTES_MAX).unwrap();
        assert!(taken <= PIPE_BYTES_MAX && taken > PIPE_BYTES_MAX - 100, "{taken}");
        produced.drive();
        // What a grant has made of it waits below the pipe.
        while produced.push(PIPE_BYTES_MAX).unwrap() > 0 {
            produced.drive();
            produced.refills();
            assert!(produced.pushed.len() <= 3 * PIPE_BYTES_MAX, "{way:?}: {} bytes", produced.pushed.len());
        }
        assert!(produced.refills().is_empty());
        produced.make_room(u64::MAX);
        produced.drive();
        assert_eq!(produced.refills(), [produced.job], "{way:?}: told once");
        assert!(produced.room().unwrap() > PIPE_BYTES_MAX - 100);
        produced.finish();
        produced.drive();
        assert!(produced.refills().is_empty());
        produced.check();
    }
}

/// The job is out of the order while nothing has arrived, and nothing polls it repeatedly.
#[test]
fn a_silent_producer_holds_nobody_up() {
    for way in [Way::Chunks, Way::Frames] {
        let mut produced = Produced::new(way, Some("10mbit"));
        produced.push(100);
        produced.drive();
        let other = produced.bench.socket('B', u64::MAX);
        produced.bench.dispatch(&other, 5_000);
        produced.drive();
        assert_eq!(produced.departures.len(), 1, "the other one departs");
        produced.departures.clear();
        assert_eq!(produced.bench.transmitter.send_timeout(), None, "{way:?}");
        // The reader is not to blame, and the producer has a clock of its own.
        for _ in 0..300 {
            produced.bench.now.set(produced.now() + Nanos::from_secs(1));
            produced.bench.transmitter.end_all_stalled(produced.now());
        }
        produced.drive();
        assert!(produced.departures.is_empty(), "{way:?}");
        produced.push(1);
        produced.finish();
        produced.drive();
        assert!(produced.departures[0].failure.is_none(), "{way:?}");
        produced.check();
    }
}

/// A reader that takes nothing of what has arrived is to blame, whatever else waits for a producer.
#[test]
fn a_reader_does_not_hide_behind_a_producer() {
    let mut produced = Produced::new(Way::Chunks, None);
    produced.drive();
    produced.make_room(10);
    produced.push(1_000);
    produced.drive();
    for _ in 0..=11 {
        produced.bench.now.set(produced.now() + Nanos::from_secs(1));
        produced.bench.transmitter.end_all_stalled(produced.now());
    }
    produced.drive();
    assert!(matches!(produced.departures[0].failure, Some(Failure::Stalled)));
    produced.check();
}

/// A stream whose window is shut, and one that waits for its producer.
#[test]
fn a_shut_window_counts_beside_a_stream_that_waits_for_its_producer() {
    let mut bench = Bench::new("srpt", None);
    let socket = bench.socket('A', u64::MAX);
    let at = bench.framed(&socket, None, &[1, 3], false);
    let body = Body::from(vec![7; 70_000]);
    for (stream, body) in [(1, body), (3, pipe(Length::Unknown).into())] {
        let dispatch = bench.on_stream(at, stream, Outgoing::on_stream(super::framed::head(), body));
        bench.transmitter.dispatch(bench.now.get(), dispatch).unwrap();
    }
    bench.drive();
    assert!(
        bench.transmitter.connections[at].is_slow(0, bench.transmitter.link.scheduler()),
        "one waits for a window, the other for its producer"
    );
}

/// The size that a policy uses is what has arrived of an unfinished body, and all of a finished one.
#[test]
fn what_is_known_of_the_size_grows_with_the_body() {
    let mut produced = Produced::new(Way::Close, None);
    produced.socket.room.set(0);
    let size = |produced: &Produced| produced.bench.transmitter.link.scheduler().jobs().get(produced.job).unwrap().size;
    assert_eq!(size(&produced), Size::AtLeast(4));
    produced.push(100);
    produced.push(10);
    assert_eq!(size(&produced), Size::AtLeast(114));
    produced.finish();
    assert_eq!(size(&produced), Size::Known(114));
    produced.make_room(u64::MAX);
    produced.drive();
    assert_eq!(produced.departures[0].sent_bytes, 114);
    produced.check();
    let announced = Produced::new(Way::Length(2_000), None);
    assert_eq!(size(&announced), Size::Known(2_004));
}

/// It is no job as long as the socket takes everything available.
#[test]
fn what_is_sent_at_once_goes_on_as_a_job() {
    let mut bench = Bench::new("srpt", None);
    let socket = bench.socket('A', u64::MAX);
    let at = bench.open(&socket);
    let mut pipe = pipe(Length::Unknown);
    assert_eq!(pipe.push(b"early"), Some(5));
    let body = Body::from(pipe).delimited(Delimiter::LastChunk);
    let outgoing = Outgoing::new(HEAD.to_vec(), body, End::Open);
    let (bytes, direct) = bench.transmitter.send_now(bench.now.get(), bench.single(at, outgoing), u64::MAX);
    assert_eq!(*socket.received.borrow(), b"head5\r\nearly\r\n");
    assert_eq!(socket.writes.take(), [Write::Sent(2, false)], "nothing follows at once");
    let Direct::Begun(job) = direct else { panic!("{direct:?} after {bytes}") };
    bench.drive();
    let mut producer = bench.transmitter.producer(job);
    producer.push(bench.now.get(), b"late").unwrap();
    producer.finish(bench.now.get(), None);
    bench.drive();
    assert_eq!(*socket.received.borrow(), b"head5\r\nearly\r\n4\r\nlate\r\n0\r\n\r\n");
    assert_eq!(bench.ended(), [(job, socket.received.borrow().len() as u64, true)]);
}

/// While a download without a length is sent, an event goes first if its stream was silent for a second before: it used
/// to wait behind everything the stream had sent, forever.
#[test]
fn an_event_after_a_pause_goes_before_a_download() {
    for (pause, order) in [(Nanos::from_millis(900), "DE"), (Nanos::from_secs(1), "ED")] {
        let mut bench = Bench::new("srpt", Some("10mbit"));
        let [events, download] = ['E', 'D'].map(|name| bench.socket(name, u64::MAX));
        let mut open =
            |socket| bench.dispatch_outgoing(socket, Outgoing::new(HEAD.to_vec(), Way::Chunks.body(), End::Open));
        let [stream, other] = [&events, &download].map(&mut open);
        let push = |bench: &mut Bench, job, bytes: usize| {
            let now = bench.now.get();
            assert_eq!(bench.transmitter.producer(job).push(now, &vec![b'x'; bytes]), Some(bytes));
        };
        push(&mut bench, stream, 50_000);
        bench.drive();
        push(&mut bench, other, 20_000);
        bench.drive();
        // It has had nothing to send since then.
        let silent_since = bench.now.get();
        bench.now.set(silent_since + pause);
        bench.journal.borrow_mut().clear();
        push(&mut bench, other, 1_000);
        push(&mut bench, stream, 1_000);
        bench.drive();
        assert_eq!(bench.order(), order, "after {pause:?}");
    }
}

/// A response that began with all of its body used to count as nothing: clients that read none made the server hold a
/// hundred of them each.
#[test]
fn a_body_that_was_there_from_the_start_is_counted_until_it_is_gone() {
    for is_framed in [true, false] {
        let mut bench = Bench::new("srpt", None);
        let socket = bench.socket('A', 0);
        let at = if is_framed { bench.framed(&socket, None, &[1, 3], false) } else { bench.open(&socket) };
        let account = bench.transmitter.connections[at].held.account().clone();
        let before = account.bytes();
        let mut pipe = Pipe::new(Length::Known(60_000), &account);
        assert!(pipe.push(&[7; 60_000]) == Some(60_000) && pipe.finish(None));
        let outgoing = match is_framed {
            true => Outgoing::on_stream(super::framed::head(), pipe.into()),
            false => Outgoing::new(HEAD.to_vec(), pipe.into(), End::Open),
        };
        let dispatch = bench.on_stream(at, is_framed.into(), outgoing);
        bench.transmitter.dispatch(bench.now.get(), dispatch).unwrap();
        bench.drive();
        assert!(account.bytes() >= before + 60_000, "{} bytes", account.bytes());
        bench.transmitter.close(bench.now.get(), at);
        assert_eq!(account.bytes(), 0);
    }
}

/// The end of a connection would have ended the body of a response over HTTP/1.0 whose file was cut: nothing of it was a
/// job yet.
#[test]
fn a_staged_body_that_fails_at_once_has_no_orderly_end() {
    let folder = Folder::new();
    folder.put("open", vec![b'x'; 100_000]);
    let entry = folder.entry("open");
    folder.put("open", vec![b'x'; 50_000]);
    for (delimiter, is_reset) in [(Delimiter::Close, true), (Delimiter::LastChunk, false)] {
        let file = Piece::File { entry: entry.clone(), range: 0..100_000 };
        let body = Body::from(file).through(Box::<Folding>::default(), Length::Unknown).delimited(delimiter);
        let mut bench = Bench::new("srpt", None);
        let socket = bench.socket('A', u64::MAX);
        let at = bench.open(&socket);
        let outgoing = Outgoing::new(HEAD.to_vec(), body, End::Finish);
        let (bytes, direct) = bench.transmitter.send_now(bench.now.get(), bench.single(at, outgoing), u64::MAX);
        assert!(matches!(direct, Direct::Failed(Failure::Truncated { .. })), "{direct:?}");
        assert!((40_000..60_000).contains(&bytes) && !socket.is_finished.get());
        assert_eq!(socket.is_reset.get(), is_reset);
        assert!(!socket.received.borrow().ends_with(b"0\r\n\r\n"));
    }
}

/// Its stage works for a part of it only, and the rest is a job.
#[test]
fn a_staged_body_is_not_made_all_at_once() {
    let mut bench = Bench::new("srpt", None);
    let socket = bench.socket('A', u64::MAX);
    let at = bench.open(&socket);
    let body = Body::from(Piece::Zeros(1 << 20)).through(Box::new(Upper), Length::Known(1 << 20));
    let outgoing = Outgoing::new(HEAD.to_vec(), body, End::Open);
    let (bytes, direct) = bench.transmitter.send_now(bench.now.get(), bench.single(at, outgoing), u64::MAX);
    assert!(matches!(direct, Direct::Begun(_)) && bytes <= 64 << 10, "{direct:?} after {bytes}");
    bench.drive();
    let departures: Vec<_> =
        bench.transmitter.departures().map(|one| (one.sent_bytes, one.failure.is_none())).collect();
    assert_eq!(departures, [((1 << 20) + HEAD.len() as u64, true)]);
}

/// A stage gives more than its first bytes when they have left; the scheduler learns the size with its end.
#[test]
fn the_size_of_a_staged_response_is_known_with_its_end() {
    let mut bench = Bench::new("srpt", Some("10mbit"));
    let socket = bench.socket('A', u64::MAX);
    let body = Body::from(vec![b'x'; 60_000]).through(Box::<Folding>::default(), Length::Unknown);
    let job =
        bench.dispatch_outgoing(&socket, Outgoing::new(HEAD.to_vec(), body.delimited(Delimiter::LastChunk), End::Open));
    let mut seen = Vec::new();
    while let Some(job) = bench.transmitter.link.scheduler.jobs().get(job) {
        let known = job.known();
        if seen.last() != Some(&known) {
            seen.push(known);
        }
        if let Some(at) = bench.transmitter.run(&|| bench.now.get()) {
            bench.now.set(at.max(bench.now.get()));
        }
    }
    let sent = socket.received.borrow().len() as u64;
    assert_eq!(seen, [None, Some(sent)]);
    assert!(sent > 60_000);
}
