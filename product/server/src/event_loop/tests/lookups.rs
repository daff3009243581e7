//! Requests for files that are not in memory, on a disk that hangs.

use super::*;
use crate::connection::LogEntry;
use crate::disk::{Jam, Lane, THREADS_PER_DEVICE_MAX};
use crate::files::fake_disk::FakeDisk;
use crate::logging::{Format, LogConfig};

const COLD: &str = "GET /cold HTTP/1.1\r\nHost: a\r\n\r\n";
const WARM: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
const POLICIES: [&str; 2] = ["fair", "srpt"];

fn bench(name: &str, policy: &str) -> (Bench, FakeDisk) {
    let disk = FakeDisk::of(&["cold"]);
    disk.set_hanging(true);
    let bench = Bench::with(&format!("{name}-{policy}"), policy, Pace::UNLIMITED, |root| root.on(disk.clone()));
    std::fs::write(bench.folder.join("cold"), "cold file").unwrap();
    (bench, disk)
}

/// Sends a request, and runs turns until a thread waits for the disk.
fn begin(bench: &mut Bench, disk: &FakeDisk, text: &str) -> Client {
    let mut client = bench.connect();
    client.send(text);
    let asked = disk.asked();
    while disk.asked() == asked {
        bench.turn();
        std::thread::yield_now();
    }
    client
}

/// Earlier the worker waited, and all its clients with it.
#[test]
fn who_asks_for_something_else_is_answered_meanwhile() {
    for policy in POLICIES {
        let (mut bench, disk) = bench("lookup", policy);
        let mut cold = begin(&mut bench, &disk, COLD);
        for _ in 0..3 {
            let mut warm = bench.connect();
            warm.send(WARM);
            bench.turn_until(&mut warm, 1);
        }
        assert_eq!(cold.responses(), 0);
        disk.set_hanging(false);
        bench.turn_until(&mut cold, 1);
        assert!(cold.received().ends_with("cold file"), "{policy}: {}", cold.received());
        // The connection stays, and the file is remembered.
        disk.set_hanging(true);
        cold.send(COLD);
        bench.turn_until(&mut cold, 2);
    }
}

#[test]
fn pipelined_requests_keep_their_order() {
    for policy in POLICIES {
        let (mut bench, disk) = bench("order", policy);
        let mut client = begin(&mut bench, &disk, &[WARM, COLD, WARM, COLD, HEAD].concat());
        client.send(WARM);
        bench.turn_until(&mut client, 1);
        for _ in 0..5 {
            bench.turn();
        }
        assert_eq!(client.responses(), 1, "one behind a lookup was answered before it");
        disk.set_hanging(false);
        bench.turn_until(&mut client, 6);
        let bodies: Vec<String> = client.received().split("HTTP/1.1 ").skip(1).map(body).collect();
        assert_eq!(bodies, ["hello", "cold file", "hello", "cold file", "", "hello"], "{policy}");
    }
}

fn body(response: &str) -> String {
    response.split("\r\n\r\n").nth(1).unwrap_or_default().to_string()
}

/// Requests for part of a file, or for a missing one, take the same path; so does a request with a body.
#[test]
fn every_kind_of_request_is_answered_with_what_was_found() {
    for (request, status, expected) in [
        ("HEAD /cold HTTP/1.1\r\nHost: a\r\n\r\n", "200", ""),
        ("GET /cold HTTP/1.1\r\nHost: a\r\nRange: bytes=5-\r\n\r\n", "206", "file"),
        ("GET /cold HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n", "304", ""),
        ("GET /cold HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "200", "cold file"),
    ] {
        let (mut bench, disk) = bench("kinds", "srpt");
        let mut client = begin(&mut bench, &disk, request);
        disk.set_hanging(false);
        bench.turn_until(&mut client, 1);
        assert!(client.received().starts_with(&format!("HTTP/1.1 {status}")), "{request}: {}", client.received());
        assert_eq!(body(&client.received()), expected);
    }
}

fn reset(client: Client) {
    socket2::SockRef::from(&client.stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
}

#[test]
fn a_client_that_leaves_takes_nothing_with_it() {
    for policy in POLICIES {
        let (mut bench, disk) = bench("leaves", policy);
        let mut clients: Vec<Client> = (0..3).map(|_| bench.connect()).collect();
        clients.iter_mut().for_each(|client| client.send(COLD));
        while disk.asked() == 0 || bench.worker.responder.connections.len() < 3 {
            bench.turn();
        }
        // A reset, and a half-close whose client still wants its response.
        reset(clients.remove(0));
        while bench.worker.responder.connections.len() == 3 {
            bench.turn();
        }
        clients[0].stream.shutdown(std::net::Shutdown::Write).unwrap();
        // The next connection in the slot gets no answer meant for the one before.
        let mut newcomer = bench.connect();
        newcomer.send(HEAD);
        bench.turn_until(&mut newcomer, 1);
        disk.set_hanging(false);
        bench.turn_until(&mut clients[1], 1);
        let mut received = String::new();
        clients[0].stream.set_nonblocking(true).unwrap();
        while !received.ends_with("cold file") {
            bench.turn();
            let _ = clients[0].stream.read_to_string(&mut received);
        }
        assert_eq!(newcomer.responses(), 1);
        drop((clients, newcomer));
        while !bench.worker.responder.connections.is_empty() {
            bench.turn();
        }
        assert!(bench.worker.responder.service.handler.found() == 0);
    }
}

/// The only client that waits for a lookup leaves when it has ended.
#[test]
fn an_answer_to_nobody_is_dropped() {
    let (mut bench, disk) = bench("nobody", "srpt");
    let client = begin(&mut bench, &disk, COLD);
    let exchange = bench.worker.responder.connections.iter().next().unwrap().1.exchange_id(0);
    reset(client);
    while !bench.worker.responder.connections.is_empty() {
        bench.turn();
    }
    bench.worker.responder.service.handler.add_found((exchange, Err(crate::files::Missing::NotFound)));
    bench.turn();
    disk.set_hanging(false);
    let mut other = bench.connect();
    other.send(COLD);
    bench.turn_until(&mut other, 1);
}

#[test]
fn where_too_many_wait_the_client_is_asked_to_come_back() {
    for policy in POLICIES {
        let (mut bench, disk) = bench("full", policy);
        let device = std::os::unix::fs::MetadataExt::dev(&std::fs::metadata(&bench.folder).unwrap());
        let jam = Jam::new(&bench.pool);
        (0..THREADS_PER_DEVICE_MAX).for_each(|_| assert!(jam.add(device, Lane::Lookup)));
        jam.wait_begun(THREADS_PER_DEVICE_MAX);
        jam.fill(device, Lane::Lookup);
        let mut client = bench.connect();
        client.send(&[WARM, COLD, WARM].concat());
        bench.turn_until(&mut client, 3);
        let statuses: Vec<String> = client.received().split("HTTP/1.1 ").skip(1).map(|head| head[..3].into()).collect();
        assert_eq!(statuses, ["200", "503", "200"], "{policy}");
        assert!(client.received().contains("Retry-After: 1") && disk.asked() == 0);
    }
}

/// Deadlines are for clients; the disk has unlimited time, and a stopping server waits for it as for a reader.
#[test]
fn a_find_outlasts_deadlines_and_the_beginning_of_the_end() {
    let (mut bench, disk) = bench("stop", "srpt");
    let mut client = begin(&mut bench, &disk, COLD);
    bench.worker.responder.timers.set(bench.worker.responder.timers.now() + Nanos::from_secs(10_000));
    bench.worker.sweep();
    assert!(!bench.worker.stop());
    bench.worker.sweep();
    assert_eq!(bench.worker.responder.connections.len(), 1);
    disk.set_hanging(false);
    while bench.worker.responder.connections.iter().any(|(_, conn)| conn.ends_behind_response()) {
        bench.worker.responder.net.wait(Some(Nanos::from_millis(10))).unwrap();
        bench.worker.turn();
    }
    let mut received = String::new();
    client.stream.read_to_string(&mut received).unwrap();
    assert!(received.contains("Connection: close") && received.ends_with("cold file"), "{received}");
}

/// Earlier it left no line in the access log.
#[test]
fn who_leaves_before_the_answer_is_logged() {
    let (mut bench, disk) = bench("unanswered", "srpt");
    let path = bench.folder.join("log");
    let config = LogConfig { path: Some(path.clone()), format: Format::Combined };
    let log = bench._logs.open(&config).unwrap();
    let client = begin(&mut bench, &disk, COLD);
    let (at, _) = bench.worker.responder.connections.iter().next().unwrap();
    let line =
        LogEntry::refused(&http::http1::shown(COLD.as_bytes()), (1, 1), "", log, bench.worker.responder.timers.now());
    bench.worker.responder.connections[at].exchange(0).line = Some(Box::new(line));
    // A client that only shut its sending side still reads.
    rustix::net::sockopt::set_socket_linger(&client.stream, Some(std::time::Duration::ZERO)).unwrap();
    drop(client);
    while !bench.worker.responder.connections.is_empty() {
        bench.turn();
    }
    disk.set_hanging(false);
    // Everything is written when they are gone.
    let logs = Logs::start(&bench._threads, false).unwrap();
    bench.worker.responder.service.journal.replace_log(logs.handle());
    drop(std::mem::replace(&mut bench._logs, logs));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.lines().count() == 1 && text.contains("\"GET /cold HTTP/1.1\" 499 0 "), "{text}");
}
