//! Whole runs against small servers that behave well, badly, or not at all.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::thread::JoinHandle;

use loadgen::{ClientGroup, LoadError, Outcome, Patience, Plan, run};
use record::JobRecord;
use units::Nanos;
use workload::{
    Ask, Beside, ClosedClient, Found, Job, ObjectKind, PageLoads, PageObject, Scheduled, Source, VisitedPage,
};

/// A tenth of a second of grace.
fn plan(target: SocketAddr) -> Plan {
    Plan { grace: Nanos::from_millis(100), ..Plan::new(target, &target.to_string()) }
}

/// One for each of `sizes`, `gap_us` apart.
fn jobs(sizes: &[u64], gap_us: u64) -> Vec<Job> {
    let job = |(n, &size_bytes): (usize, &u64)| Job {
        arrival: Nanos::from_micros(n as u64 * gap_us),
        size_bytes,
        client: None,
    };
    sizes.iter().enumerate().map(job).collect()
}

/// Enough for a slow machine; a test that needs it has failed.
const PATIENT: Nanos = Nanos::from_secs(60);

fn go(plan: &Plan, jobs: &[Job]) -> Outcome {
    let outcome = run(plan, &mut Scheduled::new(jobs), |_| ControlFlow::Continue(())).unwrap();
    check(&outcome, plan);
    assert_eq!(outcome.records.len(), jobs.len());
    outcome
}

fn check(outcome: &Outcome, plan: &Plan) {
    assert!(outcome.records.iter().map(|record| record.job).eq(0..outcome.records.len() as u64), "one for every job");
    assert_eq!(outcome.lateness.len(), outcome.records.len() as u64);
    for record in &outcome.records {
        let start_ns = record.start_ns.expect("a generator knows when it began");
        assert!(record.arrival_ns <= start_ns && start_ns <= record.end_ns, "{record:?}");
        assert!(record.first_byte_ns.is_none_or(|first| (start_ns..=record.end_ns).contains(&first)));
        assert!(record.attempts <= 1 + plan.patience.map_or(0, |patience| patience.retries));
    }
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
    let outcome = go(&Plan { grace: PATIENT, ..plan(address) }, &jobs(&sizes, 2_000));
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
    let plan = Plan { per_connection: 4, grace: PATIENT, ..plan(address) };
    // So far apart that on a busy machine too each has been answered when the next is due.
    let outcome = go(&plan, &jobs(&[100; 10], 700_000));
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["complete"]));
    assert_eq!(outcome.connections_peak, 1, "one after the other");
    // Three connections took all ten jobs, or this would wait for ever.
    server.join().unwrap();
}

/// The server answers none before all four have come: a request that finds no connection free waits for none.
#[test]
fn a_connection_for_many_does_not_hold_requests_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = Plan { per_connection: 4, grace: PATIENT, ..plan(listener.local_addr().unwrap()) };
    let server = std::thread::spawn(move || {
        let mut streams: Vec<TcpStream> = (0..4).map(|_| listener.accept().unwrap().0).collect();
        let requests: Vec<String> = streams.iter_mut().map(|stream| read_request(stream).unwrap()).collect();
        let pairs = streams.iter_mut().zip(&requests);
        pairs.for_each(|(stream, request)| respond(stream, size_of(request), "keep-alive"));
    });
    assert_eq!(outcomes(&go(&plan, &jobs(&[1, 2, 3, 4], 1_000)).records), BTreeSet::from(["complete"]));
    server.join().unwrap();
}

/// Each client has one connection, and its requests wait for it in the order in which they came.
#[test]
fn a_client_with_so_many_connections_waits_for_one() {
    let (address, server) = serve(2, well_behaved);
    let plan = Plan { per_connection: u64::MAX, client_connections: Some(1), grace: PATIENT, ..plan(address) };
    let mut jobs = jobs(&[200_000; 40], 0);
    (0..).zip(&mut jobs).for_each(|(n, job)| job.client = Some(n % 2));
    let outcome = go(&plan, &jobs);
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["complete"]));
    assert_eq!(outcome.connections_peak, 2);
    for client in 0..2 {
        let first_bytes = outcome.records.iter().skip(client).step_by(2).map(|record| record.first_byte_ns);
        assert!(first_bytes.is_sorted());
    }
    server.join().unwrap();
}

/// One that closes each connection after its answer: those who wait open another.
#[test]
fn a_connection_that_ends_is_replaced_for_those_who_wait() {
    let (address, server) = serve(6, |mut stream| {
        let request = read_request(&mut stream).unwrap();
        respond(&mut stream, size_of(&request), "close");
    });
    let plan = Plan { per_connection: 9, client_connections: Some(1), grace: PATIENT, ..plan(address) };
    let outcome = go(&plan, &jobs(&[10; 6], 0));
    assert_eq!((outcomes(&outcome.records), outcome.connections_peak), (BTreeSet::from(["complete"]), 1));
    server.join().unwrap();
}

/// Nobody answers, and the users who wait for a connection lose patience like the others.
#[test]
fn users_who_wait_for_a_connection_give_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let patience = Patience { abort_after: Nanos::from_millis(20), retries: 1 };
    let address = listener.local_addr().unwrap();
    let plan = Plan { grace: PATIENT, patience: Some(patience), client_connections: Some(2), ..plan(address) };
    let outcome = go(&plan, &jobs(&[1; 20], 1_000));
    assert_eq!((outcomes(&outcome.records), outcome.connections_peak), (BTreeSet::from(["aborted"]), 2));
    assert!(outcome.records.iter().all(|job| job.attempts == 2));
}

#[test]
fn those_who_wait_are_refused_one_after_the_other() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plan = Plan { grace: PATIENT, client_connections: Some(1), ..plan(address) };
    assert_eq!(outcomes(&go(&plan, &jobs(&[1; 20], 0)).records), BTreeSet::from(["refused"]));
}

/// The server closes when it has answered and a second request is on its way: it is asked for again elsewhere, once.
#[test]
fn a_request_nobody_heard_is_asked_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = Plan { per_connection: 4, grace: PATIENT, ..plan(listener.local_addr().unwrap()) };
    let server = std::thread::spawn(move || {
        let mut first = listener.accept().unwrap().0;
        let request = read_request(&mut first).unwrap();
        respond(&mut first, size_of(&request), "keep-alive");
        read_request(&mut first).unwrap();
        drop(first);
        let mut second = listener.accept().unwrap().0;
        let request = read_request(&mut second).unwrap();
        respond(&mut second, size_of(&request), "close");
    });
    let outcome = go(&plan, &jobs(&[5, 6], 1_000_000));
    server.join().unwrap();
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["complete"]));
    assert!(outcome.records.iter().all(|record| record.attempts == 1), "nobody gave up");
}

/// A server that closes each connection after one response: jobs submitted later go to a new one.
#[test]
fn a_closed_connection_is_replaced() {
    let (address, server) = serve(2, |mut stream| {
        let request = read_request(&mut stream).unwrap();
        respond(&mut stream, size_of(&request), "close");
    });
    // A second apart: the first has long been answered when the second is due.
    let plan = Plan { per_connection: 2, grace: PATIENT, ..plan(address) };
    assert_eq!(outcomes(&go(&plan, &jobs(&[5; 2], 1_000_000)).records), BTreeSet::from(["complete"]));
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
    let outcome = go(&Plan { grace: PATIENT, ..plan(address) }, &jobs(&[1, 2], 1_000));
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
    let outcome = go(&Plan { grace: PATIENT, ..plan(address) }, &jobs(&[1, 2, 3], 1_000));
    server.join().unwrap();
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["reset"]));
    let seen: Vec<_> = outcome.records.iter().map(|r| (r.status, r.body_bytes, r.first_byte_ns.is_some())).collect();
    assert_eq!(seen, [(0, 0, false), (0, 0, true), (200, 2, true)]);
}

/// Closing with the request unread makes the kernel send a reset instead of an end.
#[test]
fn a_connection_reset_is_a_reset() {
    let (address, server) = serve(1, |stream| assert_eq!(stream.peek(&mut [0]).unwrap(), 1));
    let outcome = go(&Plan { grace: PATIENT, ..plan(address) }, &jobs(&[1], 1));
    server.join().unwrap();
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["reset"]));
    assert_eq!((outcome.records[0].first_byte_ns, outcome.turned_away), (None, 0));
}

#[test]
fn nobody_listening_is_refused() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = go(&Plan { grace: PATIENT, ..plan(address) }, &jobs(&[1; 20], 500));
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["refused"]));
    assert_eq!(outcome.turned_away, 0, "the server refused, not we");
}

#[test]
fn a_job_never_answered_has_waited_until_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (plan, jobs) = (plan(listener.local_addr().unwrap()), jobs(&[1, 2, 3], 1_000));
    let outcome = go(&plan, &jobs);
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["incomplete"]));
    for (record, job) in outcome.records.iter().zip(&jobs) {
        assert_eq!(record.end_ns, outcome.elapsed.0);
        assert!(record.response_time() >= plan.grace && record.arrival_ns == job.arrival.0);
    }
}

/// None is answered before all have come: a client that waits for a connection to become free would never end.
#[test]
fn thousands_wait_at_once() {
    const JOBS: usize = 2_000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = Plan { grace: PATIENT, ..plan(listener.local_addr().unwrap()) };
    let server = std::thread::spawn(move || {
        let mut streams: Vec<TcpStream> = (0..JOBS).map(|_| listener.accept().unwrap().0).collect();
        for stream in &mut streams {
            let request = read_request(stream).unwrap();
            respond(stream, size_of(&request), "close");
        }
    });
    let outcome = go(&plan, &jobs(&[77; JOBS], 200));
    server.join().unwrap();
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["complete"]));
    assert_eq!(outcome.connections_peak, JOBS);
}

#[test]
fn stops_when_told_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut jobs = jobs(&[1, 2, 3], 1_000);
    jobs[2].arrival = Nanos::from_secs(3600);
    let stop = |progress: loadgen::Progress| match progress.submitted {
        2 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let outcome = run(&plan(listener.local_addr().unwrap()), &mut Scheduled::new(&jobs), stop).unwrap();
    assert!(outcome.interrupted);
    assert_eq!(outcome.records.len(), 2);
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["incomplete"]));
}

#[test]
fn a_senseless_plan_is_not_begun() {
    let address = "127.0.0.1:9".parse().unwrap();
    let said = |plan: &Plan, jobs: &[Job]| -> LoadError {
        run(plan, &mut Scheduled::new(jobs), |_| ControlFlow::Continue(())).unwrap_err()
    };
    assert_eq!(said(&plan(address), &[]).to_string(), "there is nothing to ask for: no request is due");
    let far = ClientGroup {
        name: "far".into(),
        addresses: vec!["192.0.2.1".parse().unwrap()],
        share: Some(1.0),
        visitors: None,
    };
    let plan = Plan { clients: vec![far], ..plan(address) };
    let said = said(&plan, &jobs(&[1], 1)).to_string();
    assert!(said.starts_with("client group `far`: cannot send from 192.0.2.1"), "{said}");
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
    let sizes: Vec<u64> = (0..36).map(|job| (job + job / 3 + job / 9) % 7).collect();
    let plan = Plan { per_connection: 3, ..plan(address) };
    let seen = outcomes(&go(&plan, &jobs(&sizes, 100)).records);
    assert!(seen.contains("complete") && seen.contains("wrong") && seen.contains("reset"), "{seen:?}");
    // Connections beyond the twelve that are lost and replaced are never accepted, and the server may still wait.
    drop(server);
}

/// The server answers the third attempt only.
#[test]
fn users_give_up_and_ask_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let patience = Patience { abort_after: Nanos::from_millis(400), retries: 2 };
    let plan = Plan { grace: PATIENT, patience: Some(patience), ..plan(listener.local_addr().unwrap()) };
    let server = std::thread::spawn(move || {
        // Each is closed by the user before the next is opened.
        for _ in 0..2 {
            let mut given_up = listener.accept().unwrap().0;
            read_request(&mut given_up).unwrap();
            assert_eq!(given_up.read(&mut [0]).unwrap_or(0), 0);
        }
        // A request that is not read resets the connection as it closes, and the response with it.
        let mut answered = listener.accept().unwrap().0;
        read_request(&mut answered).unwrap();
        respond(&mut answered, 9, "close");
    });
    let outcome = go(&plan, &jobs(&[9], 1));
    server.join().unwrap();
    let job = &outcome.records[0];
    assert_eq!((job.outcome.name(), job.attempts, job.body_bytes), ("complete", 3, 9));
    assert!(job.response_time() >= Nanos(2 * patience.abort_after.0), "from the first attempt on");
}

#[test]
fn users_give_up_for_good() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let patience = Patience { abort_after: Nanos::from_millis(20), retries: 1 };
    let plan = Plan { grace: PATIENT, patience: Some(patience), ..plan(listener.local_addr().unwrap()) };
    let outcome = go(&plan, &jobs(&[1; 50], 1_000));
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["aborted"]));
    assert!(outcome.records.iter().all(|job| job.attempts == 2 && job.response_time() >= Nanos::from_millis(40)));
}

/// Each asks again a tenth of a second after its answer, over its own connection, until the third; then it leaves.
struct Users {
    due: Vec<(Nanos, u32)>,
    left: [u32; 2],
}

impl Source for Users {
    fn due(&self) -> Option<Nanos> {
        self.due.iter().min().map(|&(at, _)| at)
    }

    fn take(&mut self) -> Option<Ask> {
        let next = *self.due.iter().min()?;
        self.due.retain(|other| *other != next);
        Some(Ask { at: next.0, size_bytes: 10, user: Some(next.1), group: None, client: None, part: None })
    }

    fn on_end(&mut self, user: u32, at: Nanos) -> bool {
        let left = &mut self.left[user as usize];
        *left -= 1;
        if *left > 0 {
            self.due.push((at + Nanos::from_millis(100), user));
        }
        *left > 0
    }

    fn last_at(&self) -> Nanos {
        Nanos::from_secs(5)
    }

    fn count(&self) -> Option<usize> {
        None
    }
}

#[test]
fn users_wait_for_answers_and_think() {
    let (address, server) = serve(2, well_behaved);
    let plan = Plan { per_connection: u64::MAX, grace: PATIENT, ..plan(address) };
    let mut users = Users { due: vec![(Nanos::ZERO, 0), (Nanos::from_millis(1), 1)], left: [3, 3] };
    let outcome = run(&plan, &mut users, |_| ControlFlow::Continue(())).unwrap();
    // Both connections are closed when their users leave, or this would wait for ever.
    server.join().unwrap();
    check(&outcome, &plan);
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["complete"]));
    assert_eq!(outcome.records.len(), 6);
    for record in &outcome.records {
        let thought = |other: &&JobRecord| other.end_ns + 100_000_000 == record.arrival_ns;
        assert!(record.arrival_ns < 2_000_000 || outcome.records.iter().any(|other| thought(&other)), "{record:?}");
    }
}

/// Every address of 127.0.0.0/8 is this machine's.
/// Every connection of a closed client asks again until the end, from its own address, and what is open comes when it is due.
#[test]
fn a_closed_group_stands_beside_an_open_one() {
    let (address, server) = serve(5, well_behaved);
    let group = |name: &str, address: &str, share| ClientGroup {
        name: name.into(),
        addresses: vec![address.parse().unwrap()],
        share,
        visitors: None,
    };
    let clients = vec![group("closed", "127.0.0.7", None), group("open", "127.0.0.8", Some(1.0))];
    let plan = Plan { grace: PATIENT, per_connection: u64::MAX, clients, ..plan(address) };
    let open = jobs(&[10; 2], 50_000);
    let (mut scheduled, until) = (Scheduled::new(&open), Nanos::from_millis(60));
    let closed = [ClosedClient { group: 0, connections: 4, size_bytes: 500, urgency: None }];
    let outcome = run(&plan, &mut Beside::new(&mut scheduled, &closed, until), |_| ControlFlow::Continue(())).unwrap();
    server.join().unwrap();
    check(&outcome, &plan);
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["complete"]));
    assert_eq!(outcome.connections_peak, 5, "each asks on its own");
    let (of_closed, of_open): (Vec<_>, Vec<_>) = outcome.records.iter().partition(|record| record.group == 0);
    assert!(of_closed.len() > 8 && of_closed.iter().all(|record| record.size_bytes == 500), "{}", of_closed.len());
    assert!(of_closed.iter().all(|record| record.arrival_ns < until.0));
    let due: Vec<_> = of_open.iter().map(|record| (record.arrival_ns, record.size_bytes)).collect();
    assert_eq!(due, [(0, 10), (50_000_000, 10)]);
}

#[test]
fn jobs_come_from_the_addresses_of_their_group() {
    static PEERS: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
    let (address, server) = serve(60, |stream| {
        PEERS.lock().unwrap().push(stream.peer_addr().unwrap().ip().to_string());
        well_behaved(stream);
    });
    let group = |name: &str, addresses: &[&str], share| ClientGroup {
        name: name.into(),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        share: Some(share),
        visitors: None,
    };
    let clients = vec![group("near", &["127.0.0.7", "127.0.0.8"], 0.75), group("far", &["127.0.0.9"], 0.25)];
    let plan = Plan { grace: PATIENT, clients, ..plan(address) };
    let outcome = go(&plan, &jobs(&[10; 60], 1_000));
    server.join().unwrap();
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["complete"]));
    let far = outcome.records.iter().filter(|record| record.group == 1).count();
    let peers = PEERS.lock().unwrap();
    assert_eq!(peers.iter().filter(|peer| *peer == "127.0.0.9").count(), far);
    assert!((1..30).contains(&far) && ["127.0.0.7", "127.0.0.8"].iter().all(|ip| peers.iter().any(|peer| peer == ip)));
}

/// Each client of a trace has its own connection, from its own address, with no other client's requests.
#[test]
fn clients_of_a_trace_share_no_connection() {
    static ASKED: std::sync::Mutex<Vec<(String, usize)>> = std::sync::Mutex::new(Vec::new());
    let (address, server) = serve(3, |mut stream| {
        let peer = stream.peer_addr().unwrap().ip().to_string();
        while let Some(request) = read_request(&mut stream) {
            ASKED.lock().unwrap().push((peer.clone(), size_of(&request)));
            respond(&mut stream, size_of(&request), "keep-alive");
        }
    });
    let addresses = (1..=3).map(|last| format!("127.0.1.{last}").parse().unwrap()).collect();
    let clients = vec![ClientGroup { name: "all".into(), addresses, share: Some(1.0), visitors: None }];
    let plan = Plan { grace: PATIENT, per_connection: u64::MAX, clients, ..plan(address) };
    // Far enough apart that each finds the connections before it idle; a client is told by the size it asks for.
    let mut jobs = jobs(&[1, 2, 3, 3, 1, 2, 1, 1, 3], 600_000);
    jobs.iter_mut().for_each(|job| job.client = Some(job.size_bytes as u32 - 1));
    let outcome = go(&plan, &jobs);
    server.join().unwrap();
    assert_eq!(outcomes(&outcome.records), BTreeSet::from(["complete"]));
    let asked = ASKED.lock().unwrap();
    assert_eq!(asked.len(), 9);
    assert!(asked.iter().all(|(peer, size)| *peer == format!("127.0.1.{size}")), "{asked:?}");
}

/// A visit of two pages of sizes in bytes and kinds; the reading time is a millisecond.
fn visit(patience: Option<Nanos>) -> Vec<VisitedPage> {
    let object = |size_bytes, kind, found| PageObject { kind, size_bytes, found };
    let html = object(4_000, ObjectKind::Html, Found::Html(0));
    let first = vec![
        html,
        object(3_000, ObjectKind::Style, Found::Html(2_000)),
        object(2_001, ObjectKind::Script, Found::Html(2_000)),
        object(1_002, ObjectKind::Data, Found::Script(2)),
        object(1_003, ObjectKind::Font, Found::Styles),
        object(1_004, ObjectKind::Image, Found::Scrolled(Nanos::from_millis(1))),
    ];
    let page = |objects| VisitedPage { objects, reading: Nanos::from_millis(1), patience };
    vec![page([first, vec![object(1_005, ObjectKind::Image, Found::Html(4_000)); 20]].concat()), page(vec![html])]
}

/// Pages over up to six connections, whose server ends each when its page has nothing more to ask for.
#[test]
fn a_page_asks_for_what_it_has_found_over_six_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || well_behaved(stream));
        }
    });
    let plan = Plan { per_connection: u64::MAX, client_connections: Some(6), grace: PATIENT, ..plan(address) };
    let mut pages = PageLoads::of((0..10).map(|at| (Nanos::from_millis(at), visit(None))), 6);
    let requests = pages.count().unwrap();
    let outcome = run(&plan, &mut pages, |_| ControlFlow::Continue(())).unwrap();
    check(&outcome, &plan);
    assert_eq!((outcome.records.len(), outcomes(&outcome.records)), (requests, ["complete"].into()));
    assert_eq!(outcome.pages.len(), 20);
    for page in &outcome.pages {
        let own = || outcome.records.iter().filter(|record| record.client == Some(page.page));
        assert_eq!((own().count(), own().next().unwrap().arrival_ns), (page.requests, page.arrival.0));
        let of_size = |size| own().find(|record| record.size_bytes == size);
        if let (Some(style), Some(script)) = (of_size(3_000), of_size(2_001)) {
            let (data, font, lazy) = (of_size(1_002).unwrap(), of_size(1_003).unwrap(), of_size(1_004).unwrap());
            assert!(data.arrival_ns >= script.end_ns && font.arrival_ns >= style.end_ns);
            assert!(lazy.arrival_ns > page.first_view_at.unwrap().0);
            let full = own().filter(|record| record.size_bytes != 1_004).map(|record| record.end_ns).max();
            assert_eq!(full, page.full_at.map(|at| at.0));
        }
        assert!(page.first_view_at <= page.with_fonts_at && page.with_fonts_at <= page.full_at);
        let at_once = |record: &JobRecord| {
            let others = own().filter(|other| other.size_bytes != 1_004);
            others.filter(|other| (other.arrival_ns..other.end_ns).contains(&record.arrival_ns)).count()
        };
        assert!(own().filter(|record| record.size_bytes != 1_004).all(|record| at_once(record) <= 6));
    }
    assert!(outcome.connections_peak <= 6 * outcome.pages.len());
}

/// The server sends the second half of the HTML only when it has answered a style sheet that the first half names.
#[test]
fn what_the_html_names_is_requested_while_it_arrives() {
    static STYLED: std::sync::Barrier = std::sync::Barrier::new(2);
    let (address, server) = serve(2, |mut stream| {
        let size = size_of(&read_request(&mut stream).unwrap());
        if size == 3_000 {
            respond(&mut stream, size, "close");
            STYLED.wait();
        } else {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&vec![b'x'; size / 2])).unwrap();
            STYLED.wait();
            stream.write_all(&vec![b'x'; size / 2]).unwrap();
        }
    });
    let mut visit = visit(None);
    visit.truncate(1);
    visit[0].objects.truncate(2);
    let plan = Plan { grace: PATIENT, client_connections: Some(6), ..plan(address) };
    let mut pages = PageLoads::of([(Nanos::ZERO, visit)], 6);
    let outcome = run(&plan, &mut pages, |_| ControlFlow::Continue(())).unwrap();
    server.join().unwrap();
    check(&outcome, &plan);
    let [html, style] = &outcome.records[..] else { panic!("{:?}", outcome.records) };
    assert_eq!((html.size_bytes, style.size_bytes, outcomes(&outcome.records)), (4_000, 3_000, ["complete"].into()));
    assert!(style.arrival_ns < html.end_ns, "the HTML had not ended");
}

/// The server answers the HTML and nothing else, until its connections end.
#[test]
fn a_visitor_who_loses_patience_cancels_everything() {
    let (address, server) = serve(6, |mut stream| {
        while let Some(request) = read_request(&mut stream) {
            if size_of(&request) == 4_000 {
                respond(&mut stream, 4_000, "keep-alive");
            }
        }
    });
    let plan = Plan { per_connection: u64::MAX, client_connections: Some(6), grace: PATIENT, ..plan(address) };
    let mut pages = PageLoads::of([(Nanos::ZERO, visit(Some(Nanos::from_millis(300))))], 100);
    let outcome = run(&plan, &mut pages, |_| ControlFlow::Continue(())).unwrap();
    server.join().unwrap();
    check(&outcome, &plan);
    let [page] = &outcome.pages[..] else { panic!("the next page never begins: {:?}", outcome.pages) };
    assert_eq!((page.left_at, page.first_view_at, page.full_at), (Some(Nanos::from_millis(300)), None, None));
    let (html, rest) = outcome.records.split_first().unwrap();
    assert_eq!((html.outcome.name(), outcomes(rest)), ("complete", ["aborted"].into()));
    // Six connections, and the others wait for one of them; the font waits for the style sheet, data for the script.
    assert_eq!((rest.len(), outcome.connections_peak), (22, 6));
}
