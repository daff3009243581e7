//! Whole runs over HTTP/2 against small servers that know its frames and no more.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;

use loadgen::{Outcome, Patience, Plan, Protocol, Tls, run};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use units::Nanos;
use workload::{Job, Scheduled};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// END_STREAM, and END_HEADERS.
const LAST: u8 = 1;
const WHOLE: u8 = 4;

/// Enough for a slow machine; a test that needs it has failed.
const PATIENT: Nanos = Nanos::from_secs(60);

fn plan(target: SocketAddr, streams: u32) -> Plan {
    let protocol = Protocol::Http2 { streams };
    Plan { per_connection: u64::MAX, grace: PATIENT, protocol, ..Plan::new(target, "localhost") }
}

/// So many jobs of ten bytes, a millisecond apart, the last of them later.
fn go(plan: &Plan, jobs: usize, last_later: Nanos) -> Outcome {
    let job = |n| Job { arrival: Nanos::from_millis(n), size_bytes: 10, client: None };
    let mut jobs: Vec<Job> = (0..jobs as u64).map(job).collect();
    jobs.last_mut().unwrap().arrival += last_later;
    let outcome = run(plan, &mut Scheduled::new(&jobs), |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(outcome.records.len(), jobs.len());
    outcome
}

fn outcomes(outcome: &Outcome) -> Vec<&'static str> {
    outcome.records.iter().map(|record| record.outcome.name()).collect()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// Status 200, of HPACK's static table, and ten bytes.
fn answer(stream: u32) -> Vec<u8> {
    [frame(HEADERS, WHOLE, stream, &[0x88]), frame(DATA, LAST, stream, b"0123456789")].concat()
}

/// A server's side of a connection, after the preface.
struct Side<S>(S);

impl<S: Read + Write> Side<S> {
    fn new(mut stream: S) -> Side<S> {
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).unwrap();
        assert_eq!(&preface[..14], b"PRI * HTTP/2.0");
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        Side(stream)
    }

    /// The stream of the next frame of this kind, what comes between is passed over; `None` at the end.
    fn next(&mut self, wanted: u8) -> Option<u32> {
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).ok()?;
            let [a, b, c, kind, _, stream @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            self.0.read_exact(&mut payload).ok()?;
            if kind == wanted {
                return Some(u32::from_be_bytes(stream));
            }
        }
    }

    /// Waits for so many requests before it answers the first.
    fn answer_at_once(&mut self, requests: usize) {
        let streams: Vec<u32> = (0..requests).map(|_| self.next(HEADERS).unwrap()).collect();
        for stream in streams.into_iter().rev() {
            self.0.write_all(&answer(stream)).unwrap();
        }
    }

    /// Until the client closes.
    fn wait(&mut self) {
        assert_eq!(self.next(HEADERS), None);
    }
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The server answers none before all have come: two connections carry three and one.
#[test]
fn requests_share_a_connection_and_a_full_one_holds_none_back() {
    let (listener, address) = listen();
    let server = std::thread::spawn(move || {
        let mut sides: Vec<_> = (0..2).map(|_| Side::new(listener.accept().unwrap().0)).collect();
        sides[1].answer_at_once(1);
        sides[0].answer_at_once(3);
        sides.iter_mut().for_each(Side::wait);
    });
    let outcome = go(&plan(address, 3), 4, Nanos::ZERO);
    assert_eq!((outcomes(&outcome), outcome.connections_peak), (vec!["complete"; 4], 2));
    server.join().unwrap();
}

#[test]
fn a_client_with_one_connection_has_no_more_than_its_streams() {
    let (listener, address) = listen();
    let server = std::thread::spawn(move || {
        let mut side = Side::new(listener.accept().unwrap().0);
        (0..5).for_each(|_| side.answer_at_once(2));
        side.wait();
    });
    let outcome = go(&Plan { client_connections: Some(1), ..plan(address, 2) }, 10, Nanos::ZERO);
    assert_eq!((outcomes(&outcome), outcome.connections_peak), (vec!["complete"; 10], 1));
    server.join().unwrap();
}

/// It takes one, announces the end with two on their way, and the others are asked for over the next connection.
#[test]
fn a_connection_that_is_retired_is_replaced() {
    let (listener, address) = listen();
    let server = std::thread::spawn(move || {
        let mut first = Side::new(listener.accept().unwrap().0);
        let streams = [first.next(HEADERS), first.next(HEADERS), first.next(HEADERS)].map(Option::unwrap);
        let last = [streams[0].to_be_bytes(), [0; 4]].concat();
        first.0.write_all(&frame(GOAWAY, 0, 0, &last)).unwrap();
        let mut second = Side::new(listener.accept().unwrap().0);
        second.answer_at_once(2);
        first.0.write_all(&answer(streams[0])).unwrap();
        first.wait();
        second.answer_at_once(1);
        second.wait();
    });
    let outcome = go(&plan(address, 100), 4, Nanos::from_secs(1));
    assert_eq!((outcomes(&outcome), outcome.connections_peak), (vec!["complete"; 4], 2));
    assert!(outcome.records.iter().all(|record| record.attempts == 1), "nobody gave up");
    server.join().unwrap();
}

#[test]
fn a_user_who_gives_up_resets_a_stream_and_no_connection() {
    let (listener, address) = listen();
    let server = std::thread::spawn(move || {
        let mut side = Side::new(listener.accept().unwrap().0);
        let first = side.next(HEADERS).unwrap();
        assert_eq!(side.next(RST_STREAM), Some(first));
        side.answer_at_once(1);
        side.wait();
    });
    let patience = Patience { abort_after: Nanos::from_millis(50), retries: 1 };
    let outcome = go(&Plan { patience: Some(patience), ..plan(address, 100) }, 1, Nanos::ZERO);
    let record = &outcome.records[0];
    assert_eq!((record.outcome.name(), record.attempts, outcome.connections_peak), ("complete", 2, 1));
    server.join().unwrap();
}

#[test]
fn what_is_no_http2_is_wrong_and_a_lost_connection_a_reset() {
    let (listener, address) = listen();
    let server = std::thread::spawn(move || {
        let mut first = listener.accept().unwrap().0;
        first.read_exact(&mut [0; 24]).unwrap();
        first.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let mut second = Side::new(listener.accept().unwrap().0);
        second.next(HEADERS).unwrap();
        drop(second);
        // Until the client has seen it.
        while !matches!(first.read(&mut [0; 99]), Ok(0) | Err(_)) {}
    });
    assert_eq!(outcomes(&go(&plan(address, 1), 2, Nanos::from_secs(1))), ["wrong", "reset"]);
    server.join().unwrap();
}

/// A server over TLS that chooses of these protocols.
fn secure(protocols: &[&str]) -> Arc<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(vec![made.cert.der().clone()], key.into()).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

fn accept(listener: &TcpListener, config: &Arc<ServerConfig>) -> StreamOwned<ServerConnection, TcpStream> {
    let socket = listener.accept().unwrap().0;
    StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), socket)
}

#[test]
fn requests_share_a_connection_over_tls() {
    let (listener, address) = listen();
    let server = std::thread::spawn(move || {
        let mut side = Side::new(accept(&listener, &secure(&["http/1.1", "h2"])));
        side.answer_at_once(5);
        side.wait();
    });
    let plan = plan(address, 100);
    let tls = Some(Tls::new(true, plan.protocol));
    let outcome = go(&Plan { tls, ..plan }, 5, Nanos::ZERO);
    assert_eq!((outcomes(&outcome), outcome.connections_peak), (vec!["complete"; 5], 1));
    server.join().unwrap();
}
