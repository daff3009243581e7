//! Every response has its row, once, however it ends.

use std::sync::mpsc::Receiver;

use record::{JobRecord, Outcome};

use super::*;
use crate::files::fake_disk::FakeDisk;
use crate::records::{Message, Recorder, Row};

/// The shortest way, and through the worker's own transmitter.
const POLICIES: [&str; 2] = ["fair", "srpt"];
pub(super) const LARGE: usize = 32 << 20;

pub(super) struct Recorded {
    pub bench: Bench,
    received: Receiver<Message>,
}

impl Recorded {
    pub fn new(name: &str, policy: &str, change: impl FnOnce(Root) -> Root) -> Recorded {
        let mut bench = Bench::with(&format!("records-{name}-{policy}"), policy, Pace::UNLIMITED, change);
        std::fs::write(bench.folder.join("large"), vec![b'x'; LARGE]).unwrap();
        let (recorder, received) = Recorder::for_test();
        bench.worker.parts.recorder = Some(recorder);
        Recorded { bench, received }
    }

    pub fn rows(&mut self) -> Vec<Row> {
        self.bench.worker.parts.recorder.as_mut().unwrap().taken(&self.received)
    }

    /// Turns until there are so many.
    pub fn turn_until(&mut self, count: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        while rows.len() < count {
            self.bench.turn();
            rows.extend(self.rows());
            std::thread::yield_now();
        }
        assert_eq!(rows.len(), count, "{rows:?}");
        rows
    }

    /// A client that has asked for what it does not read, and has the first of it.
    fn begun(&mut self) -> Client {
        let mut client = self.bench.connect();
        client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        while client.stream.set_nonblocking(true).is_ok() && client.stream.peek(&mut [0]).is_err() {
            self.bench.turn();
        }
        // Until its socket is full.
        (0..200).for_each(|_| self.bench.turn());
        client
    }
}

fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

fn assert_in_order(record: &JobRecord) {
    let first_byte_ns = record.first_byte_ns.unwrap();
    assert!(record.arrival_ns <= record.end_ns && first_byte_ns <= record.end_ns, "{record:?}");
}

/// Status, body asked for and sent, outcome.
fn what(record: &JobRecord) -> (u16, u64, u64, Outcome) {
    (record.status, record.size_bytes, record.body_bytes, record.outcome)
}

#[test]
fn finished_responses_of_a_connection_that_is_kept() {
    for policy in POLICIES {
        let mut recorded = Recorded::new("kept", policy, |root| root);
        let mut client = recorded.bench.connect();
        // Two of them in one packet, which would be gathered if nobody wanted to know.
        client.send(&(get("/a", "") + &get("/a", "Range: bytes=1-3\r\n")));
        let mut rows = recorded.turn_until(2);
        client.send(HEAD);
        rows.extend(recorded.turn_until(1));
        client.send(&get("/absent", ""));
        rows.extend(recorded.turn_until(1));
        let seen: Vec<_> = rows.iter().map(|row| what(&row.record)).collect();
        let absent = rows[3].record.size_bytes;
        assert!(absent > 0, "the page that says so");
        let complete = |status, bytes| (status, bytes, bytes, Outcome::Complete);
        let wrong = (404, absent, absent, Outcome::Wrong);
        assert_eq!(seen, [complete(200, 5), complete(206, 3), complete(200, 0), wrong], "{policy}");
        assert_eq!(rows.iter().map(|row| row.opens).collect::<Vec<_>>(), [true, false, false, false]);
        rows.iter().for_each(|row| assert_in_order(&row.record));
        assert!(rows.iter().all(|row| row.record.head_bytes > 50 && row.record.start_ns.is_none()));
        assert!(rows.windows(2).all(|pair| pair[0].record.end_ns <= pair[1].record.end_ns));
        let heads: u64 = rows.iter().map(|row| row.record.head_bytes + row.record.body_bytes).sum();
        recorded.bench.turn_until(&mut client, 4);
        assert_eq!(client.received.len() as u64, heads, "every byte is in a row");
    }
}

#[test]
fn a_response_whose_client_left() {
    for policy in POLICIES {
        let mut recorded = Recorded::new("left", policy, |root| root);
        drop(recorded.begun());
        let rows = recorded.turn_until(1);
        let record = &rows[0].record;
        assert_eq!((record.status, record.size_bytes, record.outcome), (200, LARGE as u64, Outcome::Reset), "{policy}");
        assert!(record.head_bytes > 50 && record.body_bytes > 0 && record.body_bytes < LARGE as u64, "{record:?}");
        assert_in_order(record);
        // The first byte went before it became a job, or with its first grant; the end came later.
        assert!(record.first_byte_ns < Some(record.end_ns), "{record:?}");
    }
}

#[test]
fn a_request_whose_client_left_before_its_file_was_found() {
    for policy in POLICIES {
        let disk = FakeDisk::of(&["cold"]);
        disk.set_hanging(true);
        let mut recorded = Recorded::new("cold", policy, |root| root.on(disk.clone()));
        let mut client = recorded.bench.connect();
        client.send(&get("/cold", ""));
        let asked = disk.asked();
        while disk.asked() == asked {
            recorded.bench.turn();
            std::thread::yield_now();
        }
        rustix::net::sockopt::set_socket_linger(&client.stream, Some(std::time::Duration::ZERO)).unwrap();
        drop(client);
        let rows = recorded.turn_until(1);
        let record = &rows[0].record;
        assert_eq!((what(record), record.head_bytes), ((0, 0, 0, Outcome::Reset), 0), "{policy}");
        assert!(record.first_byte_ns.is_none() && record.end_ns >= record.arrival_ns, "{record:?}");
        disk.set_hanging(false);
    }
}

/// It left no trace: a client chose by that whether it was logged.
#[test]
fn a_request_whose_client_left_before_its_body_came() {
    for policy in POLICIES {
        let mut recorded = Recorded::new("body", policy, |root| root);
        let mut client = recorded.bench.connect();
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
        while recorded.bench.worker.conns.is_empty() {
            recorded.bench.turn();
        }
        (0..10).for_each(|_| recorded.bench.turn());
        rustix::net::sockopt::set_socket_linger(&client.stream, Some(std::time::Duration::ZERO)).unwrap();
        drop(client);
        let rows = recorded.turn_until(1);
        assert_eq!(what(&rows[0].record), (0, 0, 0, Outcome::Reset), "{policy}");
    }
}

/// What is cut because the server stops has waited until then, and is the run's end.
#[test]
fn a_response_that_the_end_of_the_server_cuts() {
    for policy in POLICIES {
        let mut recorded = Recorded::new("stop", policy, |root| root);
        let _client = recorded.begun();
        assert!(!recorded.bench.worker.is_stopped(), "it finishes first");
        recorded.bench.worker.stop_at = Some(recorded.bench.worker.now);
        assert!(recorded.bench.worker.is_stopped());
        let rows = recorded.rows();
        assert_eq!(rows.len(), 1, "{policy}");
        let record = &rows[0].record;
        assert_eq!((record.status, record.outcome), (200, Outcome::Incomplete));
        assert!(record.body_bytes > 0 && record.body_bytes < LARGE as u64, "{record:?}");
    }
}

/// Nobody wants to know: no line is kept, and nothing is cut that could still be sent.
#[test]
fn without_a_recorder_nothing_is_kept() {
    let mut recorded = Recorded::new("none", "srpt", |root| root);
    recorded.bench.worker.parts.recorder = None;
    let _client = recorded.begun();
    let worker = &mut recorded.bench.worker;
    assert!(worker.conns.iter().flat_map(|(_, conn)| conn.exchanges.iter()).all(|exchange| exchange.line.is_none()));
    assert!(!worker.is_stopped());
    worker.stop_at = Some(worker.now);
    assert!(worker.is_stopped() && !worker.parts.transmitter.is_empty());
}
