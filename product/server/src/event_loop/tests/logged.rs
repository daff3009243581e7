//! Every response has its line in the access log, once, however it ends.

use super::*;
use crate::files::fake_disk::FakeDisk;
use crate::logging::log_lines::{LogLine, read_log};

/// The shortest path, and the path through the worker's own transmitter.
const POLICIES: [&str; 2] = ["fair", "srpt"];
pub(super) const LARGE: usize = 32 << 20;

pub(super) struct Logged {
    pub bench: Bench,
    path: PathBuf,
    /// The number of connections opened by the responses that were taken last.
    pub connections: usize,
}

impl Logged {
    pub fn new(name: &str, policy: &str, change: impl FnOnce(Root) -> Root) -> Logged {
        let bench = Bench::logging(&format!("logged-{name}-{policy}"), policy, Pace::UNLIMITED, change, true);
        std::fs::write(bench.folder.join("large"), vec![b'x'; LARGE]).unwrap();
        let path = bench.folder.join("log.json");
        Logged { bench, path, connections: 0 }
    }

    /// Runs turns until there are this many lines, and takes them, in order of arrival.
    pub fn turn_until(&mut self, count: usize) -> Vec<LogLine> {
        while std::fs::read_to_string(&self.path).unwrap().lines().count() < count {
            self.bench.turn();
            std::thread::yield_now();
        }
        let lines = read_log(&self.path).unwrap();
        std::fs::write(&self.path, "").unwrap();
        self.connections = lines.iter().filter(|line| !line.connection_reused).count();
        assert_eq!(lines.len(), count, "{lines:?}");
        lines
    }

    /// The number of aborted responses of status 4xx by the metrics, which the first call switches on.
    fn unanswered(&mut self) -> u64 {
        let metrics = self.bench.worker.responder.service.journal.metrics();
        let counted = metrics.responses().filter(|(labels, count)| labels.status == 4 && count.cut == count.responses);
        counted.map(|(_, count)| count.cut).sum()
    }
}

impl Bench {
    /// A client that has received the first bytes of a response and does not read the rest.
    fn begun(&mut self) -> Client {
        let mut client = self.connect();
        client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        while client.stream.set_nonblocking(true).is_ok() && client.stream.peek(&mut [0]).is_err() {
            self.turn();
        }
        // Until its socket is full.
        (0..200).for_each(|_| self.turn());
        client
    }
}

fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

fn assert_in_order(line: &LogLine) {
    assert!(line.first_byte_ms.unwrap() <= line.duration_ms, "{line:?}");
}

/// Status, body size requested and sent, outcome.
fn what(line: &LogLine) -> (u16, u64, u64, &str) {
    (line.status, line.content_length, line.body_bytes, &line.outcome)
}

#[test]
fn finished_responses_of_a_connection_that_is_kept() {
    for policy in POLICIES {
        let mut logged = Logged::new("kept", policy, |root| root);
        let mut client = logged.bench.connect();
        // Two of them in one packet, which would be gathered if they were not logged.
        client.send(&(get("/a", "") + &get("/a", "Range: bytes=1-3\r\n")));
        let mut rows = logged.turn_until(2);
        assert_eq!(logged.connections, 1);
        client.send(HEAD);
        rows.extend(logged.turn_until(1));
        client.send(&get("/absent", ""));
        rows.extend(logged.turn_until(1));
        assert_eq!(logged.connections, 0, "its connection was used before");
        let seen: Vec<_> = rows.iter().map(what).collect();
        let absent = rows[3].content_length;
        assert!(absent > 0, "the page that says so");
        let complete = |status, bytes| (status, bytes, bytes, "complete");
        let expected = [complete(200, 5), complete(206, 3), complete(200, 0), complete(404, absent)];
        assert_eq!(seen, expected, "{policy}");
        rows.iter().for_each(assert_in_order);
        assert!(rows.iter().all(|row| row.head_bytes > 50 && row.class.is_none()));
        let heads: u64 = rows.iter().map(|row| row.head_bytes + row.body_bytes).sum();
        logged.bench.turn_until(&mut client, 4);
        assert_eq!(client.received.len() as u64, heads, "every byte is in a line");
    }
}

#[test]
fn a_response_whose_client_left() {
    for policy in POLICIES {
        let mut logged = Logged::new("left", policy, |root| root);
        drop(logged.bench.begun());
        let rows = logged.turn_until(1);
        let line = &rows[0];
        let expected = (200, LARGE as u64, "reset");
        assert_eq!((line.status, line.content_length, line.outcome.as_str()), expected, "{policy}");
        assert!(line.head_bytes > 50 && line.body_bytes > 0 && line.body_bytes < LARGE as u64, "{line:?}");
        assert_in_order(line);
        // The first byte left before it became a job, or with its first grant; the end came later.
        assert!(line.first_byte_ms < Some(line.duration_ms), "{line:?}");
    }
}

#[test]
fn a_request_whose_client_left_before_its_file_was_found() {
    for policy in POLICIES {
        let disk = FakeDisk::of(&["cold"]);
        disk.set_hanging(true);
        let mut logged = Logged::new("cold", policy, |root| root.on(disk.clone()));
        assert_eq!(logged.unanswered(), 0);
        let mut client = logged.bench.connect();
        client.send(&get("/cold", ""));
        let asked = disk.asked();
        while disk.asked() == asked {
            logged.bench.turn();
            std::thread::yield_now();
        }
        rustix::net::sockopt::set_socket_linger(&client.stream, Some(std::time::Duration::ZERO)).unwrap();
        drop(client);
        let rows = logged.turn_until(1);
        let line = &rows[0];
        assert_eq!((what(line), line.head_bytes), ((499, 0, 0, "aborted"), 0), "{policy}");
        assert!(line.first_byte_ms.is_none(), "{line:?}");
        assert_eq!(logged.unanswered(), 1, "the metrics agree with the log");
        disk.set_hanging(false);
    }
}

/// Earlier it left no trace, so a client could avoid being logged.
#[test]
fn a_request_whose_client_left_before_its_body_came() {
    for policy in POLICIES {
        let mut logged = Logged::new("body", policy, |root| root);
        assert_eq!(logged.unanswered(), 0);
        let mut client = logged.bench.connect();
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
        while logged.bench.worker.responder.connections.is_empty() {
            logged.bench.turn();
        }
        (0..10).for_each(|_| logged.bench.turn());
        rustix::net::sockopt::set_socket_linger(&client.stream, Some(std::time::Duration::ZERO)).unwrap();
        drop(client);
        let rows = logged.turn_until(1);
        assert_eq!(what(&rows[0]), (499, 0, 0, "aborted"), "{policy}");
        assert_eq!(logged.unanswered(), 1, "the metrics agree with the log");
    }
}

/// A response cut because the server stops has waited until then, and is marked as cut by the end of the run.
#[test]
fn a_response_that_the_end_of_the_server_cuts() {
    for policy in POLICIES {
        let mut logged = Logged::new("stop", policy, |root| root);
        let _client = logged.bench.begun();
        assert!(!logged.bench.worker.stop(), "it finishes first");
        let now = logged.bench.worker.responder.timers.client_now();
        logged.bench.worker.responder.timers.stop_at(now);
        assert!(logged.bench.worker.stop());
        let rows = logged.turn_until(1);
        let line = &rows[0];
        assert_eq!((line.status, line.outcome.as_str()), (200, "incomplete"));
        assert!(line.body_bytes > 0 && line.body_bytes < LARGE as u64, "{line:?}");
    }
}

/// No line is kept, and nothing that could still be sent is cut.
#[test]
fn without_a_log_nothing_is_kept() {
    let mut bench = Bench::new("unlogged", "srpt");
    std::fs::write(bench.folder.join("large"), vec![b'x'; LARGE]).unwrap();
    let _client = bench.begun();
    let worker = &mut bench.worker;
    assert!(
        worker
            .responder
            .connections
            .iter()
            .flat_map(|(_, conn)| conn.protocol.exchanges())
            .all(|exchange| exchange.line.is_none())
    );
    assert!(!worker.stop());
    worker.responder.timers.stop_at(worker.responder.timers.client_now());
    assert!(worker.stop() && !worker.responder.transmitter.link.scheduler().jobs().is_empty());
}
