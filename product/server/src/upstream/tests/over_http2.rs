//! Transfers that share connections, with HTTP/2 servers behind test sockets.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::SystemTime;

use http::gateway::{Gateway, RequestHead, takes_trailers};
use http::http1::parse_request;
use http::http1::upstream::UpstreamHead;
use http::{HttpDate, Response, ResponseHead, Status as HttpStatus, Trailers};
use http2::{BodyRead, Event, Session, Settings, Source as BodySource, Supply};
use rustix::event::epoll::EventFlags;

use super::*;
use crate::body::PIPE_BYTES_MAX;
use crate::net::Connecting;
use crate::upstream::request::REQUEST_BODY_BYTES_MAX;
use crate::wake::Wake;

/// The upstream's end of a connection.
struct Far {
    session: RefCell<Session>,
    /// The bytes it has sent that were not received yet.
    said: RefCell<Vec<u8>>,
    /// Requests that have arrived, and their bodies.
    asked: RefCell<Vec<u32>>,
    bodies: RefCell<HashMap<u32, Vec<u8>>>,
    /// It takes nothing and sends nothing.
    is_silent: Cell<bool>,
    has_ended: Cell<bool>,
    /// It refuses connections.
    is_refused: bool,
    /// What it says has not arrived yet.
    is_late: Rc<Cell<bool>>,
    closed: RefCell<Vec<u32>>,
}

impl std::fmt::Debug for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a server of HTTP/2")
    }
}

/// Bytes, and trailers.
struct Content(Vec<u8>, Option<Box<Trailers>>);

impl BodySource for Content {
    fn peek(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply {
        let bytes = self.0.len().min(bytes_max);
        into.extend_from_slice(&self.0[..bytes]);
        if bytes == self.0.len() { Supply::End } else { Supply::More }
    }

    fn advance(&mut self, bytes: usize) {
        self.0.drain(..bytes);
    }

    fn trailers(&mut self) -> Option<Box<Trailers>> {
        self.1.take()
    }
}

/// Bytes of a body that does not end with them.
struct Unended(Vec<u8>);

impl BodySource for Unended {
    fn peek(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply {
        let bytes = self.0.len().min(bytes_max);
        into.extend_from_slice(&self.0[..bytes]);
        if bytes == self.0.len() { Supply::Later } else { Supply::More }
    }

    fn advance(&mut self, bytes: usize) {
        self.0.drain(..bytes);
    }
}

impl Far {
    fn new(streams_max: u32, is_refused: bool, is_late: Rc<Cell<bool>>) -> Far {
        Far {
            session: RefCell::new(Session::new(&Settings { streams_max, has_tunnels: true, ..Settings::default() })),
            said: RefCell::default(),
            asked: RefCell::default(),
            bodies: RefCell::default(),
            is_silent: Cell::new(false),
            has_ended: Cell::new(false),
            is_refused,
            is_late,
            closed: RefCell::default(),
        }
    }

    /// Takes bytes, and records their events.
    fn hear(&self, bytes: &[u8]) {
        let (mut session, mut said) = (self.session.borrow_mut(), self.said.borrow_mut());
        session.receive(Nanos::ZERO, bytes, &mut said).expect("a client as it should be");
        while let Some(event) = session.event() {
            match event {
                Event::Request { stream, request } => {
                    assert!(request.is_ok_and(|request| request.view().path == b"/a"));
                    session.want_body(stream);
                    self.asked.borrow_mut().push(stream);
                }
                Event::Body { stream } => {
                    let mut bodies = self.bodies.borrow_mut();
                    let body = bodies.entry(stream).or_default();
                    while session.read_body(stream, body, 5000) == BodyRead::More {}
                }
                Event::Closed { stream } => self.closed.borrow_mut().push(stream),
                Event::Malformed { refused, .. } => panic!("{}", refused.reject),
                Event::Priority { .. } => {}
            }
        }
        session.control(&mut said);
    }

    fn answer(&self, stream: u32, status: HttpStatus, content: &mut Content) {
        let (mut session, mut said) = (self.session.borrow_mut(), self.said.borrow_mut());
        assert!(session.respond(stream, &head(status), true));
        session.write(stream, 1 << 20, content, &mut said);
    }

    /// Accepts a WebSocket, and sends its first bytes.
    fn open(&self, stream: u32, bytes: &[u8]) {
        let (mut session, mut said) = (self.session.borrow_mut(), self.said.borrow_mut());
        assert!(session.respond(stream, &head(HttpStatus::OK), true));
        session.write(stream, 1 << 20, &mut Unended(bytes.to_vec()), &mut said);
    }

    /// Sends more of a body.
    fn go_on(&self, stream: u32, content: &mut dyn BodySource) {
        self.session.borrow_mut().write(stream, 1 << 20, content, &mut self.said.borrow_mut());
    }

    /// Sends a frame that its session would not.
    fn say(&self, kind: u8, stream: u32, payload: &[u8]) {
        self.said.borrow_mut().extend(http2::testing::frame(kind, 0, stream, payload));
    }
}

fn head(status: HttpStatus) -> ResponseHead {
    Response::new(status, ()).into_head(&HttpDate::new(SystemTime::UNIX_EPOCH)).0
}

#[derive(Debug, Clone)]
struct Near(Rc<Far>);

impl FarEnd for Near {
    fn take(&self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.is_refused {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        if self.0.has_ended.get() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        // In parts that do not align with frames.
        let part = &bytes[..bytes.len().min(7001)];
        if !self.0.is_silent.get() {
            self.0.hear(part);
        }
        Ok(part.len())
    }

    fn give(&self, into: &mut [u8]) -> rustix::io::Result<usize> {
        let mut said = self.0.said.borrow_mut();
        let bytes = if self.0.is_late.get() { 0 } else { said.len().min(into.len()) };
        if bytes == 0 {
            return if self.0.has_ended.get() { Ok(0) } else { Err(Errno::AGAIN) };
        }
        into[..bytes].copy_from_slice(&said[..bytes]);
        said.drain(..bytes);
        Ok(bytes)
    }
}

/// A worker's upstreams, and the clients of its requests.
struct Bench {
    net: Connecting<Near>,
    /// New connections are refused.
    is_refusing: Rc<Cell<bool>>,
    /// What upstreams say does not arrive.
    is_late: Rc<Cell<bool>>,
    upstreams: Upstreams<Connecting<Near>>,
    group: Arc<Group>,
    now: Nanos,
    /// The parts of responses that have arrived, by the numbers of the requests.
    came: HashMap<u64, Came>,
    /// The account of all transfers.
    account: Account,
}

#[derive(Default)]
struct Came {
    head: Option<UpstreamHead>,
    pipe: Option<Pipe>,
    body: Vec<u8>,
    /// The bytes that the client takes at a time; `None` means all.
    portion: Option<usize>,
    end: Option<TransferStep>,
}

const REQUESTS_MAX: u32 = 50;

impl Bench {
    fn new(streams_max: u32) -> Bench {
        let mut proxy = Proxy::of_all(vec![UpstreamAddress::new("h2c://:1").expect("an upstream")]);
        proxy.max_concurrent_requests = REQUESTS_MAX;
        proxy.max_concurrent_requests_per_client = Some(REQUESTS_MAX);
        let room = crate::disk::Room::new(1);
        let group = Group::new("a", &proxy, &room, &|_| unreachable!(), &Default::default()).expect("an address");
        let places = Arc::new(UpstreamPlaces::new(&[Arc::new(Wake::new().unwrap())])).of_loop(0);
        let (upstreams, came) = (Upstreams::new(places, ClientClock::default()), HashMap::new());
        let is_refusing = Rc::<Cell<bool>>::default();
        let (refuses, is_late) = (Rc::clone(&is_refusing), Rc::<Cell<bool>>::default());
        let late = Rc::clone(&is_late);
        let net = Connecting::to(move || Near(Rc::new(Far::new(streams_max, refuses.get(), Rc::clone(&late)))));
        let account = Account::default();
        Bench {
            net,
            is_refusing,
            is_late,
            upstreams,
            group: Arc::new(group),
            now: Nanos::from_secs(100),
            came,
            account,
        }
    }

    fn far(&self, nth: usize) -> Rc<Far> {
        Rc::clone(&self.net.made.borrow()[nth].0)
    }

    fn connections(&self) -> usize {
        self.net.made.borrow().len()
    }

    /// Sends a request, and runs everything that happens at once.
    fn ask(&mut self, number: u64, method: &str, body: BodyLength) {
        let bytes = format!("{method} /a HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");
        let parsed = parse_request(bytes.as_bytes(), &http::Limits::default()).unwrap().expect("a whole head");
        assert!(takes_trailers(&parsed.request));
        let gateway = gateway();
        let fields = Head::Fields(RequestHead::new(&parsed.request, &gateway, body, "http"));
        let (group, method, account) = (Arc::clone(&self.group), parsed.request.method, &self.account);
        let client = ClientConnection::new(account);
        let transfer =
            Transfer::new(ExchangeId::new(number, 0), group, method, fields, body, account, client).unbuffered();
        self.begin(number, transfer);
    }

    /// Asks for a WebSocket.
    fn ask_websocket(&mut self, number: u64) {
        let bytes = b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        let parsed = parse_request(bytes, &http::Limits::default()).unwrap().expect("a whole head");
        let fields = Head::Fields(RequestHead::of_websocket(&parsed.request, &gateway(), "http"));
        let (group, id, client) =
            (Arc::clone(&self.group), ExchangeId::new(number, 0), ClientConnection::new(&self.account));
        let transfer = Transfer::new(id, group, Method::Get, fields, NONE, &self.account, client);
        self.begin(number, transfer.upgrading(true, None, Some((*ACCEPT, bytes.to_vec()))));
    }

    fn begin(&mut self, number: u64, transfer: Transfer) {
        self.came.insert(number, Came::default());
        let at = self.upstreams.begin(&self.net, self.now, transfer).expect("there is room");
        self.step(at);
        self.turn();
    }

    fn push(&mut self, number: u64, bytes: &[u8], is_last: bool) {
        let at = self.upstreams.of(ExchangeId::new(number, 0)).expect("it is under way");
        self.upstreams.get(at).unwrap().push_request(bytes, is_last);
        self.step(at);
        self.turn();
    }

    /// Continues a transfer, as a worker does.
    fn step(&mut self, at: usize) {
        let Some(number) = self.upstreams.get(at).map(|transfer| transfer.exchange.token()) else { return };
        let mut step = self.upstreams.step(&self.net, self.now, at);
        let came = self.came.get_mut(&number).expect("it was asked for");
        if let TransferStep::Head(head) = step {
            came.pipe = pipe_of(head.framing, &Account::default());
            step = if came.pipe.is_none() { TransferStep::Done } else { TransferStep::Wait };
            came.head = Some(head);
        }
        if matches!(step, TransferStep::Wait)
            && let Some(pipe) = &mut came.pipe
        {
            step = self.upstreams.read_body(self.now, at, pipe);
            let taken = came.portion.unwrap_or(usize::MAX).min(pipe.queued().len());
            came.body.extend_from_slice(&pipe.queued()[..taken]);
            pipe.advance(taken);
            if matches!(step, TransferStep::Wait) && taken > 0 {
                return self.step(at);
            }
        }
        match step {
            TransferStep::Wait => {}
            step => {
                self.upstreams.end(&self.net, self.now, at, matches!(step, TransferStep::Done));
                self.came.get_mut(&number).unwrap().end = Some(step);
            }
        }
    }

    /// Runs until nothing happens any more.
    fn turn(&mut self) {
        for _ in 0..20 {
            let open: Vec<usize> = self.upstreams.connections.iter().map(|(at, _)| at).collect();
            for at in open {
                let flags = EventFlags::IN | EventFlags::OUT;
                let goes_on = self.upstreams.on_ready(&self.net, self.now, at, flags);
                assert!(goes_on.is_none(), "others do too");
                while let Some((at, begun)) = self.upstreams.release(&self.net, self.now) {
                    begun.expect("there is room");
                    self.step(at);
                }
            }
        }
    }

    fn alive_bytes(&self, number: u64) -> usize {
        self.upstreams.alive_bytes(ExchangeId::new(number, 0))
    }

    fn end(&self, number: u64) -> &TransferStep {
        self.came[&number].end.as_ref().expect("it has ended")
    }

    fn is_under_way(&self, number: u64) -> bool {
        self.came[&number].end.is_none()
    }

    fn assert_whole(&self, number: u64, body: &[u8]) {
        assert!(matches!(self.end(number), TransferStep::Done), "{:?}", self.end(number));
        assert!(self.came[&number].body == body, "{} bytes", self.came[&number].body.len());
    }

    fn status_of_failure(&self, number: u64) -> u16 {
        let TransferStep::Failed(fault) = self.end(number) else { panic!("{:?}", self.end(number)) };
        fault.status().0
    }
}

fn gateway() -> Gateway<'static> {
    Gateway {
        client: [127, 0, 0, 1].into(),
        client_port: None,
        is_secure: false,
        is_trusted: false,
        claimed_client: None,
        host: None,
        version: (1, 1),
        is_upgrade: false,
        websocket_key: None,
        changes: &[],
    }
}

fn content(bytes: usize) -> Content {
    Content((0..bytes).map(|at| (at * 31 % 251) as u8).collect(), None)
}

const ACCEPT: &[u8; 28] = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const NONE: BodyLength = BodyLength::None;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];

#[test]
fn requests_share_a_connection_as_far_as_their_upstream_lets_them() {
    let mut bench = Bench::new(3);
    (0..7).for_each(|number| bench.ask(number, "GET", NONE));
    assert_eq!(bench.connections(), 3);
    let asked: Vec<usize> = (0..3).map(|nth| bench.far(nth).asked.borrow().len()).collect();
    assert_eq!(asked, [3, 3, 1]);
    let body = content(100_000).0;
    for nth in 0..3 {
        let far = bench.far(nth);
        let streams = far.asked.borrow().clone();
        for stream in streams {
            let mut left = Content(body.clone(), None);
            far.answer(stream, HttpStatus::OK, &mut left);
            while !left.0.is_empty() {
                bench.turn();
                far.go_on(stream, &mut left);
            }
            bench.turn();
        }
    }
    (0..7).for_each(|number| bench.assert_whole(number, &body));
    assert_eq!((bench.upstreams.transfers(), bench.upstreams.idle_connections()), (0, 3));
    // The first is reused, and the others end after a while.
    bench.now += Nanos::from_secs(20);
    bench.ask(7, "GET", NONE);
    assert_eq!((bench.connections(), bench.far(0).asked.borrow().len()), (3, 4));
    bench.now += Nanos::from_secs(20);
    assert!(bench.upstreams.late(&bench.net, bench.now).is_empty());
    assert_eq!((bench.upstreams.connections_in_use(), bench.upstreams.idle_connections()), (1, 0));
    assert!(bench.far(1).session.borrow_mut().has_ended(), "it was told so");
}

/// The requests leave before the upstream has said how many it takes. Those that it refuses cost no attempt, and new
/// connections get no more than it takes.
#[test]
fn what_was_too_much_for_an_upstream_goes_over_other_connections() {
    let mut bench = Bench::new(3);
    bench.is_late.set(true);
    (0..20).for_each(|number| bench.ask(number, "POST", NONE));
    assert_eq!(bench.connections(), 1, "nothing is known of the upstream");
    bench.is_late.set(false);
    bench.turn();
    let asked: Vec<usize> = (0..bench.connections()).map(|nth| bench.far(nth).asked.borrow().len()).collect();
    assert_eq!(asked, [3, 3, 3, 3, 3, 3, 2]);
    assert!((0..20).all(|number| bench.is_under_way(number)));
    let refused: Vec<usize> = (0..bench.connections()).map(|nth| bench.far(nth).closed.borrow().len()).collect();
    assert_eq!(refused[1..], [0; 6], "no stream was closed");
}

#[test]
fn more_requests_than_may_be_under_way_wait() {
    let mut bench = Bench::new(100);
    (0..u64::from(REQUESTS_MAX) + 1).for_each(|number| bench.ask(number, "GET", NONE));
    assert_eq!((bench.connections(), bench.far(0).asked.borrow().len()), (1, REQUESTS_MAX as usize));
    bench.far(0).answer(1, HttpStatus::OK, &mut content(10));
    bench.turn();
    assert_eq!(bench.far(0).asked.borrow().len(), REQUESTS_MAX as usize + 1);
}

#[test]
fn trailers_follow_a_body() {
    let mut bench = Bench::new(100);
    bench.ask(1, "GET", NONE);
    let trailers = Trailers::of([(&b"grpc-status"[..], &b"0"[..])].into_iter()).unwrap();
    bench.far(0).answer(1, HttpStatus::OK, &mut Content(b"hello".to_vec(), trailers.clone()));
    bench.turn();
    bench.assert_whole(1, b"hello");
    let pipe = bench.came.get_mut(&1).unwrap().pipe.as_mut().unwrap();
    assert_eq!(pipe.take_trailers(), trailers);
}

#[test]
fn one_whose_client_has_left_is_cancelled_and_others_go_on() {
    let mut bench = Bench::new(100);
    bench.ask(1, "GET", NONE);
    bench.ask(2, "GET", NONE);
    let at = bench.upstreams.of(ExchangeId::new(1, 0)).unwrap();
    bench.upstreams.end(&bench.net, bench.now, at, false);
    bench.turn();
    assert_eq!(*bench.far(0).closed.borrow(), [1]);
    bench.far(0).answer(3, HttpStatus::OK, &mut content(10));
    bench.turn();
    bench.assert_whole(2, &content(10).0);
    assert_eq!((bench.connections(), bench.upstreams.idle_connections()), (1, 1));
}

#[test]
fn what_was_refused_is_asked_again_whatever_its_method() {
    let mut bench = Bench::new(100);
    bench.ask(1, "POST", BodyLength::Unknown);
    bench.push(1, b"hello ", false);
    bench.far(0).say(RST_STREAM, 1, &REFUSED_STREAM);
    bench.turn();
    bench.push(1, b"world", true);
    assert_eq!((bench.connections(), bench.far(0).bodies.borrow()[&3].as_slice()), (1, &b"hello world"[..]));
    bench.far(0).answer(3, HttpStatus::OK, &mut content(5));
    bench.turn();
    bench.assert_whole(1, &content(5).0);
    // Not without end.
    bench.ask(2, "GET", NONE);
    for stream in [5, 7, 9] {
        bench.far(0).say(RST_STREAM, stream, &REFUSED_STREAM);
        bench.turn();
    }
    assert_eq!(bench.status_of_failure(2), 502);
    // Nor if a part of the body is not kept any more.
    bench.ask(3, "POST", BodyLength::Unknown);
    (0..3).for_each(|_| bench.push(3, &[7; 40_000], false));
    bench.far(0).say(RST_STREAM, 11, &REFUSED_STREAM);
    bench.turn();
    assert_eq!(bench.status_of_failure(3), 502);
}

/// A part of its body waited for its window or for room when it was refused. Such requests once had 502.
#[test]
fn what_was_refused_in_the_middle_of_its_body_is_asked_again() {
    let mut bench = Bench::new(100);
    bench.ask(1, "POST", BodyLength::Unknown);
    let (far, body) = (bench.far(0), content(70_000).0);
    far.is_silent.set(true);
    bench.push(1, &body[..60_000], false);
    bench.push(1, &body[60_000..65_535], false);
    bench.push(1, &body[65_535..], true);
    far.say(GOAWAY, 0, &[0; 8]);
    bench.turn();
    assert!(bench.is_under_way(1), "{:?}", bench.end(1));
    let other = bench.far(1);
    assert!(other.bodies.borrow()[&1] == body, "{} bytes", other.bodies.borrow()[&1].len());
    other.answer(1, HttpStatus::OK, &mut content(5));
    bench.turn();
    bench.assert_whole(1, &content(5).0);
}

#[test]
fn an_upstream_that_leaves_ends_what_it_has_begun_and_others_are_asked_elsewhere() {
    let mut bench = Bench::new(100);
    bench.ask(1, "POST", NONE);
    bench.ask(2, "POST", NONE);
    // It will answer only the first.
    bench.far(0).say(GOAWAY, 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
    bench.turn();
    assert_eq!((bench.connections(), bench.far(1).asked.borrow().len()), (2, 1));
    bench.ask(3, "GET", NONE);
    assert_eq!((bench.connections(), bench.far(1).asked.borrow().len()), (2, 2));
    bench.far(0).answer(1, HttpStatus::OK, &mut content(10));
    bench.far(1).answer(1, HttpStatus::OK, &mut content(20));
    bench.turn();
    bench.assert_whole(1, &content(10).0);
    bench.assert_whole(2, &content(20).0);
    assert_eq!(bench.upstreams.connections.iter().count(), 1, "the first is of no use any more");
}

/// nginx with `keepalive_requests` takes some requests of a connection and refuses all others that are there.
#[test]
fn an_upstream_of_one_request_a_connection_answers_all() {
    let mut bench = Bench::new(100);
    (1..=8).for_each(|number| bench.ask(number, "POST", NONE));
    for nth in 0..8 {
        assert_eq!(bench.far(nth).asked.borrow().len(), 8 - nth);
        bench.far(nth).say(GOAWAY, 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
        bench.far(nth).answer(1, HttpStatus::OK, &mut content(10));
        bench.turn();
    }
    (1..=8).for_each(|number| bench.assert_whole(number, &content(10).0));
    // One that takes none is asked three times.
    bench.ask(9, "POST", NONE);
    for nth in 8..11 {
        bench.far(nth).say(GOAWAY, 0, &[0; 8]);
        bench.turn();
    }
    assert_eq!(bench.status_of_failure(9), 502);
}

#[test]
fn a_connection_that_ends_is_a_cut_for_all_that_is_not_whole() {
    let mut bench = Bench::new(100);
    for (number, method) in [(1, "GET"), (2, "GET"), (3, "POST"), (4, "GET")] {
        bench.ask(number, method, NONE);
    }
    let mut long = content(100_000);
    bench.far(0).answer(1, HttpStatus::OK, &mut long);
    bench.far(0).answer(7, HttpStatus::OK, &mut content(10));
    bench.turn();
    bench.assert_whole(4, &content(10).0);
    bench.far(0).has_ended.set(true);
    bench.turn();
    assert_eq!([1, 3].map(|number| bench.status_of_failure(number)), [502, 502]);
    // A repeatable request that the connection was not made for is sent over another.
    assert!(bench.is_under_way(2));
    bench.far(1).answer(1, HttpStatus::OK, &mut content(10));
    bench.turn();
    bench.assert_whole(2, &content(10).0);
    // An old connection may have ended before the request arrived.
    bench.ask(6, "GET", NONE);
    bench.ask(7, "POST", NONE);
    assert_eq!(bench.connections(), 2);
    bench.far(1).has_ended.set(true);
    bench.turn();
    assert!(bench.is_under_way(6) && bench.status_of_failure(7) == 502);
    bench.far(2).answer(1, HttpStatus::OK, &mut content(10));
    bench.turn();
    bench.assert_whole(6, &content(10).0);
}

#[test]
fn a_malformed_response_harms_no_other() {
    let mut bench = Bench::new(100);
    bench.ask(1, "GET", NONE);
    bench.ask(2, "GET", NONE);
    let block = http2::testing::block(&[(":status", "200"), ("content-length", "5")]);
    bench.far(0).said.borrow_mut().extend(http2::testing::frame(1, 4, 1, &block));
    bench.far(0).said.borrow_mut().extend(http2::testing::frame(0, 1, 1, b"four"));
    bench.far(0).answer(3, HttpStatus::OK, &mut content(10));
    bench.turn();
    let TransferStep::Failed(fault) = bench.end(1) else { panic!("{:?}", bench.end(1)) };
    assert_eq!(fault.to_string(), "fewer bytes than the announced length");
    bench.assert_whole(2, &content(10).0);
}

#[test]
fn one_that_cannot_be_connected_to_is_told_of_to_all() {
    let mut bench = Bench::new(100);
    bench.is_refusing.set(true);
    let numbers = [1, 2, 3];
    numbers.into_iter().for_each(|number| bench.ask(number, "POST", NONE));
    bench.turn();
    assert_eq!(numbers.map(|number| bench.status_of_failure(number)), [502; 3]);
    assert_eq!(bench.upstreams.connections.iter().count(), 0);
}

#[test]
fn a_silent_upstream_has_its_time_and_is_connected_to_anew() {
    let mut bench = Bench::new(100);
    bench.ask(1, "GET", NONE);
    bench.far(0).answer(1, HttpStatus::OK, &mut content(10));
    bench.turn();
    bench.far(0).is_silent.set(true);
    bench.ask(2, "GET", NONE);
    bench.now += bench.group.read_timeout;
    let late = bench.upstreams.late(&bench.net, bench.now);
    assert_eq!(late.len(), 1);
    let fault = bench.upstreams.get(late[0]).unwrap().timed_out();
    assert_eq!(fault.status().0, 504);
    bench.upstreams.end(&bench.net, bench.now, late[0], false);
    bench.ask(3, "GET", NONE);
    assert_eq!(bench.connections(), 2);
}

#[test]
fn a_client_that_takes_nothing_holds_its_stream_alone() {
    let mut bench = Bench::new(100);
    bench.ask(1, "GET", NONE);
    bench.came.get_mut(&1).unwrap().portion = Some(0);
    bench.ask(2, "GET", NONE);
    let mut long = content(1 << 20);
    bench.far(0).answer(1, HttpStatus::OK, &mut long);
    bench.turn();
    bench.far(0).go_on(1, &mut long);
    bench.turn();
    let at = bench.upstreams.of(ExchangeId::new(1, 0)).unwrap();
    assert!(bench.upstreams.get(at).unwrap().is_held() && bench.alive_bytes(1) <= 2 * PIPE_BYTES_MAX);
    assert!(long.0.len() >= (1 << 20) - 3 * PIPE_BYTES_MAX, "{} bytes are left", long.0.len());
    bench.now += bench.group.read_timeout + bench.group.read_timeout;
    assert!(
        bench.upstreams.late(&bench.net, bench.now).iter().all(|late| *late != at),
        "nobody waits for its upstream"
    );
    bench.far(0).answer(3, HttpStatus::OK, &mut content(100));
    bench.turn();
    bench.assert_whole(2, &content(100).0);
    bench.came.get_mut(&1).unwrap().portion = None;
    while bench.is_under_way(1) {
        bench.step(at);
        bench.turn();
        bench.far(0).go_on(1, &mut long);
        bench.turn();
    }
    bench.assert_whole(1, &content(1 << 20).0);
}

/// Both sides may send at the same time, and the response may end first.
#[test]
fn a_response_may_begin_before_the_request_has_ended() {
    let mut bench = Bench::new(100);
    bench.ask(1, "POST", BodyLength::Unknown);
    bench.push(1, b"one", false);
    let far = bench.far(0);
    assert!(far.session.borrow_mut().respond(1, &head(HttpStatus::OK), true));
    far.session.borrow_mut().control(&mut far.said.borrow_mut());
    bench.turn();
    assert!(bench.came[&1].head.is_some());
    bench.push(1, b"two", false);
    assert_eq!(far.bodies.borrow()[&1], b"onetwo");
    far.go_on(1, &mut content(10));
    bench.turn();
    bench.assert_whole(1, &content(10).0);
    assert_eq!(*far.closed.borrow(), [1]);
    assert_eq!(bench.upstreams.idle_connections(), 1);
}

/// An upstream that opens its windows once, as nginx does, says nothing more: no event follows the last part.
#[test]
fn a_request_leaves_whole_without_another_event() {
    let mut bench = Bench::new(100);
    bench.ask(1, "POST", BodyLength::Unknown);
    [0, 1].into_iter().for_each(|stream| bench.far(0).say(WINDOW_UPDATE, stream, &(1u32 << 30).to_be_bytes()));
    bench.turn();
    let at = bench.upstreams.of(ExchangeId::new(1, 0)).unwrap();
    let body = content(5 * REQUEST_BODY_BYTES_MAX).0;
    for (nth, part) in body.chunks(REQUEST_BODY_BYTES_MAX).enumerate() {
        bench.upstreams.get(at).unwrap().push_request(part, nth == 4);
        bench.step(at);
        assert_eq!(bench.far(0).bodies.borrow()[&1].len(), (nth + 1) * REQUEST_BODY_BYTES_MAX);
    }
    assert!(bench.far(0).bodies.borrow()[&1] == body);
}

/// Bytes that an upstream does not take wait with the client, and continue when there is room.
#[test]
fn a_request_is_held_by_its_upstream() {
    let mut bench = Bench::new(100);
    bench.ask(1, "POST", BodyLength::Unknown);
    bench.far(0).is_silent.set(true);
    let body = content(500_000).0;
    let (mut pushed, at) = (0, bench.upstreams.of(ExchangeId::new(1, 0)).unwrap());
    let push_all = |bench: &mut Bench, pushed: &mut usize| loop {
        let room = bench.upstreams.get(at).unwrap().room().min(9000).min(body.len() - *pushed);
        if room == 0 {
            return;
        }
        let part = body[*pushed..*pushed + room].to_vec();
        *pushed += room;
        bench.push(1, &part, *pushed == body.len());
    };
    push_all(&mut bench, &mut pushed);
    assert!(pushed < 250_000, "{pushed} bytes");
    assert!(bench.alive_bytes(1) <= 4 * PIPE_BYTES_MAX, "{}", bench.alive_bytes(1));
}

/// A tunnel that said nothing after its opening was once cut off after `read_timeout`.
#[test]
fn a_websocket_waits_for_the_settings_of_its_upstream_and_may_be_silent() {
    let mut bench = Bench::new(10);
    bench.is_late.set(true);
    bench.ask_websocket(1);
    let far = bench.far(0);
    assert!(far.asked.borrow().is_empty(), "its upstream may not take it");
    bench.is_late.set(false);
    bench.turn();
    assert_eq!(*far.asked.borrow(), [1]);
    far.open(1, b"hello");
    bench.turn();
    let head = bench.came[&1].head.clone().expect("it is open");
    assert_eq!((head.status.0, head.framing), (101, Framing::Upgraded));
    assert_eq!(head.values("sec-websocket-accept").collect::<Vec<_>>(), [ACCEPT]);
    assert!(bench.came[&1].body == b"hello" && bench.is_under_way(1));
    bench.now += bench.group.read_timeout + bench.group.read_timeout;
    assert!(bench.upstreams.late(&bench.net, bench.now).is_empty(), "it may be silent");
    bench.push(1, b"from the client", false);
    assert_eq!(far.bodies.borrow()[&1], b"from the client");
    assert!(far.closed.borrow().is_empty());
    bench.push(1, b"", true);
    bench.now += bench.group.read_timeout;
    assert_eq!(bench.upstreams.late(&bench.net, bench.now).len(), 1, "its client has ended");
}

#[test]
fn a_websocket_that_opens_and_says_nothing_may_be_silent() {
    let mut bench = Bench::new(10);
    bench.ask_websocket(1);
    bench.far(0).open(1, b"");
    bench.turn();
    assert!(bench.came[&1].head.is_some() && bench.is_under_way(1));
    bench.now += bench.group.read_timeout + bench.group.read_timeout;
    assert!(bench.upstreams.late(&bench.net, bench.now).is_empty());
}

#[test]
fn a_websocket_ends_with_its_stream_and_takes_no_more_than_its_window() {
    let mut bench = Bench::new(10);
    (1..4).for_each(|number| bench.ask_websocket(number));
    let far = bench.far(0);
    for stream in [1, 3, 5] {
        far.open(stream, b"hello");
    }
    bench.turn();
    far.say(RST_STREAM, 1, &[0, 0, 0, 8]);
    bench.turn();
    assert!(matches!(bench.end(1), TransferStep::Failed(Fault::Reset(8))), "{:?}", bench.end(1));
    // The client of the second does not read.
    bench.came.get_mut(&2).unwrap().portion = Some(0);
    far.go_on(3, &mut Unended(vec![7; 4 << 20]));
    bench.turn();
    assert!(bench.alive_bytes(2) <= 2 * http2::BODY_BYTES_MAX, "{} bytes", bench.alive_bytes(2));
    let at = bench.upstreams.of(ExchangeId::new(3, 0)).expect("it is open");
    bench.upstreams.end(&bench.net, bench.now, at, false);
    bench.turn();
    assert_eq!(*far.closed.borrow(), [5], "the third's client has left, and the second stays");
    assert!(bench.is_under_way(2));
}
