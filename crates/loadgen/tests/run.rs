//! Whole runs against small servers that behave well, badly, or not at all.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::thread::JoinHandle;

use loadgen::{Outcome, Plan, Request, run};
use record::{JobRecord, Outcome as JobOutcome};
use units::Nanos;

/// One request for each of `sizes`, `gap_us` apart, and a tenth of a second of grace.
fn plan(target: SocketAddr, sizes: &[u64], gap_us: u64) -> Plan {
    let request = |(n, &size): (usize, &u64)| Request {
        at: Nanos::from_micros(n as u64 * gap_us),
        path: format!("/{size}.bin"),
        size_bytes: Some(size),
    };
    let requests = sizes.iter().enumerate().map(request).collect();
    Plan { target, host: target.to_string(), requests, per_connection: 1, grace: Nanos::from_millis(100) }
}

/// Enough for a slow machine; a test that needs it has failed.
const PATIENT: Nanos = Nanos::from_secs(60);

fn go(plan: &Plan) -> Outcome {
    let outcome = run(plan, |_| ControlFlow::Continue(())).unwrap();
    let jobs: Vec<u64> = outcome.records.iter().map(|record| record.job).collect();
    assert!(jobs.iter().copied().eq(0..plan.requests.len() as u64), "one record for every job: {jobs:?}");
    assert_eq!(outcome.lateness.len(), jobs.len() as u64);
    for record in &outcome.records {
        assert!(record.arrival_ns <= record.start_ns && record.start_ns <= record.end_ns, "{record:?}");
        assert!(record.first_byte_ns.is_none_or(|first| (record.start_ns..=record.end_ns).contains(&first)));
    }
    outcome
}

fn outcomes(records: &[JobRecord]) -> BTreeSet<&'static str> {
    records.iter().map(|record| record.outcome.name()).collect()
}

/// A server that takes `connections`, each on its own thread, and ends.
fn serve(connections: usize, handle: fn(TcpStream)) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let threads: Vec<_> = (0..connections)
            .map(|_| {
                let (stream, _) = listener.accept().unwrap();
                std::thread::spawn(move || handle(stream))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    (address, server)
}

/// The next request head, or `None` at the end of the stream.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (vec![], [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

/// The size that a request asks for: `GET /123.bin` is 123.
fn size_of(request: &str) -> usize {
    request.split(['/', '.']).nth(1).unwrap().parse().unwrap()
}

fn respond(stream: &mut TcpStream, size: usize, connection: &str) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: {connection}\r\n\r\n");
    // The client may have gone, which is its right.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&vec![b'x'; size]));
}

/// Answers every request with the size it asks for, until one asks to close.
fn well_behaved(mut stream: TcpStream) {
    while let Some(request) = read_request(&mut stream) {
        let close = request.contains("Connection: close");
        respond(&mut stream, size_of(&request), if close { "close" } else { "keep-alive" });
        if close {
            return;
        }
    }
}

#[test]
fn every_job_completes_on_a_connection_of_its_own() {
    let sizes = [0, 1, 1448, 100_000, 5_000_000, 10];
    let (address, server) = serve(sizes.len(), well_behaved);
    let outcome = go(&Plan { grace: PATIENT, ..plan(address, &sizes, 2_000) });
    server.join().unwrap();
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["complete"]));
    for (record, size) in outcome.records.iter().zip(sizes) {
        assert_eq!((record.size_bytes, record.body_bytes, record.status), (size, size, 200));
        assert!(record.head_bytes > 30 && record.first_byte_ns.is_some());
    }
    assert!(!outcome.interrupted && outcome.turned_away == 0 && outcome.cpu > Nanos::ZERO);
}

#[test]
fn consecutive_jobs_share_a_connection() {
    let (address, server) = serve(3, well_behaved);
    let plan = Plan { per_connection: 4, grace: PATIENT, ..plan(address, &[100; 10], 500) };
    assert_eq!(outcomes(&go(&plan).records), BTreeSet::from(["complete"]));
    // Three connections took all ten jobs, or this would wait for ever.
    server.join().unwrap();
}

/// The server reads all four requests before it answers the first: they were not held back for one another.
#[test]
fn a_shared_connection_does_not_hold_requests_back() {
    let (address, server) = serve(1, |mut stream| {
        let requests: Vec<String> = (0..4).map(|_| read_request(&mut stream).unwrap()).collect();
        requests.iter().for_each(|request| respond(&mut stream, size_of(request), "keep-alive"));
    });
    let plan = Plan { per_connection: 4, grace: PATIENT, ..plan(address, &[1, 2, 3, 4], 1_000) };
    assert_eq!(outcomes(&go(&plan).records), BTreeSet::from(["complete"]));
    server.join().unwrap();
}

/// A server that closes each connection after one response: jobs submitted later go to a new one.
#[test]
fn a_closed_connection_is_replaced() {
    let (address, server) = serve(2, |mut stream| {
        let request = read_request(&mut stream).unwrap();
        respond(&mut stream, size_of(&request), "close");
    });
    // A second apart: the first has long been answered when the second is due.
    let plan = Plan { per_connection: 2, grace: PATIENT, ..plan(address, &[5; 2], 1_000_000) };
    assert_eq!(outcomes(&go(&plan).records), BTreeSet::from(["complete"]));
    server.join().unwrap();
}

#[test]
fn another_status_or_length_is_wrong() {
    let (address, server) = serve(2, |mut stream| {
        let request = read_request(&mut stream).unwrap();
        match size_of(&request) {
            1 => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx").unwrap(),
            size => respond(&mut stream, size + 1, "close"),
        }
    });
    let outcome = go(&Plan { grace: PATIENT, ..plan(address, &[1, 2], 1_000) });
    server.join().unwrap();
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["wrong"]));
    let seen: Vec<_> = outcome.records.iter().map(|record| (record.status, record.body_bytes)).collect();
    assert_eq!(seen, [(404, 1), (200, 3)]);
}

#[test]
fn an_early_close_is_a_reset() {
    let (address, server) = serve(3, |mut stream| {
        let request = read_request(&mut stream).unwrap();
        match size_of(&request) {
            1 => {}
            2 => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-").unwrap(),
            _ => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nxx").unwrap(),
        }
    });
    let outcome = go(&Plan { grace: PATIENT, ..plan(address, &[1, 2, 3], 1_000) });
    server.join().unwrap();
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["reset"]));
    let seen: Vec<_> = outcome.records.iter().map(|r| (r.status, r.body_bytes, r.first_byte_ns.is_some())).collect();
    assert_eq!(seen, [(0, 0, false), (0, 0, true), (200, 2, true)]);
}

#[test]
fn nobody_listening_is_refused() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = go(&Plan { grace: PATIENT, ..plan(address, &[1; 20], 500) });
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["refused"]));
    assert_eq!(outcome.turned_away, 0, "the server refused, not we");
}

#[test]
fn a_job_never_answered_has_waited_until_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = plan(listener.local_addr().unwrap(), &[1, 2, 3], 1_000);
    let outcome = go(&plan);
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["incomplete"]));
    for (record, request) in outcome.records.iter().zip(&plan.requests) {
        assert_eq!(record.end_ns, outcome.elapsed.0);
        assert!(record.response_time() >= plan.grace && record.arrival_ns == request.at.0);
    }
}

/// None is answered before all have come: a client that waits for a connection to become free would never end.
#[test]
fn thousands_wait_at_once() {
    const JOBS: usize = 2_000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = Plan { grace: PATIENT, ..plan(listener.local_addr().unwrap(), &[77; JOBS], 200) };
    let server = std::thread::spawn(move || {
        let mut streams: Vec<TcpStream> = (0..JOBS).map(|_| listener.accept().unwrap().0).collect();
        for stream in &mut streams {
            let request = read_request(stream).unwrap();
            respond(stream, size_of(&request), "close");
        }
    });
    let outcome = go(&plan);
    server.join().unwrap();
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["complete"]));
}

#[test]
fn stops_when_told_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut plan = plan(address, &[1, 2, 3], 1_000);
    plan.requests[2].at = Nanos::from_secs(3600);
    let outcome =
        run(&plan, |progress| if progress.submitted == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            .unwrap();
    assert!(outcome.interrupted);
    assert_eq!(outcome.records.len(), 2);
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["incomplete"]));
}

#[test]
fn a_senseless_plan_is_not_begun() {
    let address = "127.0.0.1:9".parse().unwrap();
    let said = run(&plan(address, &[], 1), |_| ControlFlow::Continue(())).unwrap_err().to_string();
    assert_eq!(said, "there is nothing to ask for: the plan has no requests");
}

/// Whatever the server does to the jobs of a connection, each has one record, which `go` checks.
#[test]
fn every_job_has_one_record_whatever_the_server_does() {
    let (address, server) = serve(12, |mut stream| {
        while let Some(request) = read_request(&mut stream) {
            match size_of(&request) {
                1 => return,
                2 => stream.write_all(b"220 mail.example ESMTP\r\n").unwrap_or_default(),
                3 => stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nxxx").unwrap_or_default(),
                4 => respond(&mut stream, 4, "close"),
                5 => respond(&mut stream, 9, "keep-alive"),
                size => respond(&mut stream, size, "keep-alive"),
            }
        }
    });
    // Every kind of response is first, second and third on some connection.
    let sizes: Vec<u64> = (0..36).map(|job| (job + job / 3 + job / 9) % 7).collect();
    let plan = Plan { per_connection: 3, ..plan(address, &sizes, 100) };
    let seen = outcomes(&go(&plan).records);
    assert!(seen.contains("complete") && seen.contains("wrong") && seen.contains("reset"), "{seen:?}");
    // Connections beyond the twelve that are lost and replaced are never accepted, and the server may still wait.
    drop(server);
}
