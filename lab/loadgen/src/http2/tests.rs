use h2::{Reason, server};
use http_fields::Response;
use proptest::prelude::*;

use super::*;
use crate::Protocol;
use crate::plan::tests::plan;
use crate::testing::Jobs;
use Outcome::{Complete, Incomplete, Reset, Wrong};

const GOAWAY_FRAME: u8 = super::GOAWAY;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:status: 200` in HPACK's static table.
const OK: u8 = 0x88;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// A complete response of `body_bytes` on a stream.
fn answer(stream: u32, body_bytes: usize) -> Vec<u8> {
    let head = frame(HEADERS, END_HEADERS, stream, &[OK]);
    [head, frame(DATA, END_STREAM, stream, &vec![b'x'; body_bytes])].concat()
}

fn goaway(last: u32) -> Vec<u8> {
    frame(GOAWAY_FRAME, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
}

fn reset(stream: u32, reason: Reason) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &u32::from(reason).to_be_bytes())
}

/// A client with its ledger.
struct Client<'a> {
    plan: &'a Plan,
    ledger: Ledger<'a>,
    streams: Streams,
}

impl<'a> Client<'a> {
    fn new(plan: &'a Plan, source: &'a mut Jobs) -> Client<'a> {
        let Protocol::Http2 { streams } = plan.protocol else { panic!("a plan for HTTP/2") };
        Client { plan, ledger: Ledger::new(plan, source), streams: Streams::new(streams) }
    }

    /// Requests this many further jobs.
    fn ask(&mut self, jobs: usize) {
        for _ in 0..jobs {
            let job = self.ledger.submit(Nanos::from_secs(1)).unwrap();
            self.streams.submit(self.plan, job, &mut self.ledger, Nanos::from_secs(1));
        }
    }

    fn hear(&mut self, bytes: &[u8], at: u64) -> Next {
        self.streams.on_bytes(bytes, &mut self.ledger, Nanos::from_secs(at))
    }

    fn outcomes(self) -> Vec<Outcome> {
        self.ledger.close(Nanos::from_secs(99)).records.iter().map(|record| record.outcome).collect()
    }
}

fn plan_of(streams: u32) -> Plan {
    Plan { protocol: Protocol::Http2 { streams }, ..plan(u64::MAX) }
}

/// The first frame of a server that allows this many streams.
fn settings(streams: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&[0, 3][..], &streams.to_be_bytes()].concat())
}

#[test]
fn answers_come_in_any_order_and_each_has_its_instants() {
    let (plan, mut source) = (plan_of(3), Jobs::of(&[10; 3]));
    let mut client = Client::new(&plan, &mut source);
    client.ask(3);
    assert!(!client.streams.has_room() && !client.streams.is_idle());
    assert_eq!(client.hear(&settings(100), 2), Next::Continue);
    assert_eq!(client.hear(&answer(5, 10), 3), Next::Continue);
    assert_eq!((client.streams.take_ended(), client.streams.has_room()), (Some(2), true));
    let whole = answer(1, 10);
    assert_eq!(client.hear(&whole[..9], 4), Next::Continue);
    assert_eq!(client.hear(&whole[9..], 6), Next::Continue);
    assert_eq!(client.hear(&answer(3, 11), 7), Next::Continue);
    let records = client.ledger.close(Nanos::from_secs(9)).records;
    let seen: Vec<_> = records.iter().map(|r| (r.outcome, r.first_byte_ns, r.end_ns, r.head_bytes)).collect();
    let at = |s: u64| s * 1_000_000_000;
    let wanted = [(Complete, 4, 6), (Wrong, 7, 7), (Complete, 3, 3)];
    assert_eq!(seen, wanted.map(|(outcome, first, end)| (outcome, Some(at(first)), at(end), 10)));
}

#[test]
fn no_more_at_once_than_the_server_says_and_no_more_than_planned() {
    let (mut plan, mut source) = (plan_of(3), Jobs::of(&[10; 9]));
    plan.per_connection = 5;
    let mut client = Client::new(&plan, &mut source);
    assert_eq!(client.hear(&settings(2), 1), Next::Continue);
    client.ask(2);
    assert!(!client.streams.has_room(), "two is the server's limit");
    assert_eq!(client.hear(&[settings(100), answer(1, 10), answer(3, 10)].concat(), 2), Next::Continue);
    client.ask(3);
    assert!(!client.streams.has_room(), "five were all");
    let rest: Vec<u8> = [5, 7, 9].into_iter().flat_map(|stream| answer(stream, 10)).collect();
    assert_eq!(client.hear(&rest, 3), Next::Close);
    assert_eq!(client.outcomes(), [Complete; 5]);
}

#[test]
fn what_comes_after_the_last_stream_of_goaway_is_asked_elsewhere() {
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 4]));
    let mut client = Client::new(&plan, &mut source);
    client.ask(4);
    assert_eq!(client.hear(&[settings(100), goaway(3)].concat(), 2), Next::Continue);
    let mut unheard = client.streams.take_unheard();
    unheard.sort_unstable();
    assert_eq!((unheard, client.streams.has_room()), (vec![2, 3], false));
    assert_eq!(client.hear(&answer(1, 10), 3), Next::Continue);
    assert_eq!(client.hear(&answer(3, 10), 4), Next::Close, "the rest has been answered");
    assert_eq!(client.outcomes(), [Complete, Complete, Incomplete, Incomplete]);
}

#[test]
fn the_first_request_of_a_connection_is_not_asked_elsewhere() {
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 2]));
    let mut client = Client::new(&plan, &mut source);
    client.ask(2);
    assert_eq!(client.hear(&[settings(100), goaway(0)].concat(), 2), Next::Close);
    assert_eq!(client.streams.take_unheard(), [1]);
    assert_eq!(client.outcomes(), [Reset, Incomplete]);
}

#[test]
fn a_stream_that_is_reset_leaves_the_others() {
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 3]));
    let mut client = Client::new(&plan, &mut source);
    client.ask(3);
    let half = frame(HEADERS, END_HEADERS, 3, &[OK]);
    let said = [settings(100), half, reset(3, Reason::INTERNAL_ERROR), reset(5, Reason::CANCEL), answer(1, 10)];
    assert_eq!(client.hear(&said.concat(), 2), Next::Continue);
    assert!(client.streams.take_unheard().is_empty() && client.streams.has_room());
    assert_eq!(client.outcomes(), [Complete, Reset, Reset]);
}

/// The limit could not be known. If it is known, exceeding it is the server's fault.
#[test]
fn a_request_refused_before_the_settings_is_asked_elsewhere() {
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 3]));
    let mut client = Client::new(&plan, &mut source);
    client.ask(2);
    let refused = reset(3, Reason::REFUSED_STREAM);
    assert_eq!(client.hear(&[settings(1), refused, answer(1, 10)].concat(), 2), Next::Continue);
    assert_eq!(client.streams.take_unheard(), [1]);
    client.ask(1);
    assert_eq!(client.hear(&reset(5, Reason::REFUSED_STREAM), 3), Next::Continue);
    assert_eq!(client.streams.take_unheard(), [0; 0]);
    assert_eq!(client.outcomes(), [Complete, Incomplete, Reset]);
}

#[test]
fn a_connection_closed_with_requests_on_their_way() {
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 4]));
    let mut client = Client::new(&plan, &mut source);
    client.ask(2);
    assert_eq!(client.hear(&[settings(100), answer(1, 10)].concat(), 2), Next::Continue);
    client.ask(2);
    client.streams.on_end_of_stream(&mut client.ledger, Nanos::from_secs(3));
    assert_eq!(client.streams.take_unheard(), [2, 3], "the server had said nothing since they were asked");
    assert_eq!(client.outcomes(), [Complete, Reset, Incomplete, Incomplete]);
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 2]));
    let mut client = Client::new(&plan, &mut source);
    client.ask(2);
    client.streams.on_end_of_stream(&mut client.ledger, Nanos::from_secs(3));
    assert!(client.streams.take_unheard().is_empty(), "this one has served nobody");
    assert_eq!(client.outcomes(), [Reset, Reset]);
}

#[test]
fn what_is_not_http2_is_wrong() {
    for said in [&b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..], &frame(DATA, 0, 1, b"early")] {
        let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 2]));
        let mut client = Client::new(&plan, &mut source);
        client.ask(2);
        assert_eq!(client.hear(said, 2), Next::Close);
        assert_eq!(client.outcomes(), [Wrong, Wrong]);
    }
}

/// An in-memory server of the same library.
struct Server {
    pipe: Pipe,
    connection: server::Connection<Pipe, Bytes>,
}

impl Server {
    fn new(client: &mut Client<'_>) -> Server {
        let pipe = Pipe::default();
        let mut handshake = pin!(server::handshake(pipe.clone()));
        loop {
            pipe.0.borrow_mut().put(&take_unsent(&mut client.streams));
            if let Poll::Ready(connection) = handshake.as_mut().poll(&mut context()) {
                return Server { pipe: pipe.clone(), connection: connection.unwrap() };
            }
            let said = std::mem::take(&mut pipe.0.borrow_mut().outgoing);
            let _ = client.hear(&said, 2);
        }
    }

    /// Exchanges the bytes that both sides have written until there are no more. Returns the requests.
    fn turn(&mut self, client: &mut Client<'_>) -> Vec<(String, server::SendResponse<Bytes>)> {
        let mut requests = vec![];
        loop {
            self.pipe.0.borrow_mut().put(&take_unsent(&mut client.streams));
            while let Poll::Ready(Some(Ok((request, answer)))) = self.connection.poll_accept(&mut context()) {
                requests.push((request.uri().to_string(), answer));
            }
            let said = std::mem::take(&mut self.pipe.0.borrow_mut().outgoing);
            if said.is_empty() && client.streams.unsent().is_empty() {
                return requests;
            }
            let _ = client.hear(&said, 3);
        }
    }
}

fn take_unsent(streams: &mut Streams) -> Vec<u8> {
    let unsent = streams.unsent().to_vec();
    streams.on_sent(unsent.len());
    unsent
}

/// Without windows that are reopened as bytes arrive, this would never end.
#[test]
fn bodies_larger_than_the_windows_come_whole() {
    let sizes = [20_000_000, 0, 9_000_000];
    let (plan, mut source) = (plan_of(100), Jobs::of(&sizes));
    let mut client = Client::new(&plan, &mut source);
    client.ask(3);
    let mut server = Server::new(&mut client);
    let requests = server.turn(&mut client);
    let asked: Vec<&str> = requests.iter().map(|(uri, _)| uri.as_str()).collect();
    assert_eq!(asked, ["http://h:9/20000000.bin", "http://h:9/0.bin", "http://h:9/9000000.bin"]);
    for ((_, mut answer), size) in requests.into_iter().zip(sizes) {
        let mut body = answer.send_response(Response::new(()), false).unwrap();
        body.send_data(vec![b'x'; size as usize].into(), true).unwrap();
    }
    server.turn(&mut client);
    assert!(client.streams.is_idle());
    let records = client.ledger.close(Nanos::from_secs(9)).records;
    let seen: Vec<_> = records.iter().map(|record| (record.outcome, record.body_bytes, record.status)).collect();
    assert_eq!(seen, sizes.map(|size| (Complete, size, 200)));
}

#[test]
fn a_job_given_up_is_cancelled_at_the_server_and_leaves_the_others() {
    let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 2]));
    let mut client = Client::new(&plan, &mut source);
    client.ask(2);
    let mut server = Server::new(&mut client);
    let mut requests = server.turn(&mut client);
    client.streams.cancel(0);
    server.turn(&mut client);
    let given_up = requests[0].1.poll_reset(&mut context());
    assert!(matches!(given_up, Poll::Ready(Ok(Reason::CANCEL))), "{given_up:?}");
    let mut body = requests[1].1.send_response(Response::new(()), false).unwrap();
    body.send_data(vec![b'x'; 10].into(), true).unwrap();
    server.turn(&mut client);
    assert_eq!(client.outcomes(), [Incomplete, Complete]);
}

proptest! {
    /// Whatever the server sends, each job ends at most once (the ledger would panic), no job ends after it was given
    /// back, and all jobs of a closed connection end.
    #[test]
    fn any_stream_ends_jobs_once(pieces in prop::collection::vec((0..9_usize, 0..4_u32), 0..12), cut: usize, noise: Vec<u8>) {
        let piece = |&(piece, n): &(usize, u32)| match piece {
            0 => answer(2 * n + 1, 10),
            1 => reset(2 * n + 1, Reason::REFUSED_STREAM),
            2 => goaway(2 * n + 1),
            3 => frame(HEADERS, END_HEADERS, 2 * n + 1, &[OK]),
            4 => frame(DATA, 0, 2 * n + 1, b"12345"),
            5 => frame(DATA, END_STREAM, 2 * n + 1, b"12345"),
            6 => settings(n),
            7 => frame(n as u8, 0, n, &noise),
            _ => noise.clone(),
        };
        let stream: Vec<u8> = settings(100).into_iter().chain(pieces.iter().flat_map(piece)).collect();
        let (plan, mut source) = (plan_of(9), Jobs::of(&[10; 4]));
        let mut client = Client::new(&plan, &mut source);
        client.ask(4);
        let (first, second) = stream.split_at(cut % (stream.len() + 1));
        let mut next = client.hear(first, 2);
        if next == Next::Continue {
            next = client.hear(second, 3);
        }
        if next == Next::Continue {
            client.streams.on_end_of_stream(&mut client.ledger, Nanos::from_secs(4));
        }
        let unheard = client.streams.take_unheard();
        let outcomes = client.outcomes();
        for (job, outcome) in outcomes.into_iter().enumerate() {
            prop_assert_eq!(outcome == Incomplete, unheard.contains(&job), "{} {:?}", job, outcome);
        }
    }
}
