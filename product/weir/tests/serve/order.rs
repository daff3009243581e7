//! The order of responses, as seen by clients. Tests assert which of two responses ended first, never when.

use std::sync::mpsc::{Receiver, channel};

use rustix::process::Signal;

use crate::common::{Client, Server, Site, content, get, in_virtual_time, wait_until};

/// Clients that have each requested one file; the sizes are returned in the order in which the responses ended.
struct Race {
    ended: Receiver<usize>,
    sender: std::sync::mpsc::Sender<usize>,
    running: usize,
}

impl Race {
    fn new() -> Race {
        let (sender, ended) = channel();
        Race { ended, sender, running: 0 }
    }

    /// Requests the file of this size on a separate connection.
    fn enter(&mut self, server: &Server, size: usize) {
        let mut client = server.connect();
        client.send(get(&format!("/size-{size}")));
        self.watch(client, size);
    }

    /// Does [`Race::enter`], and returns when the response has begun, so that the link is busy.
    fn enter_first(&mut self, server: &Server, size: usize) {
        let mut client = server.connect();
        client.send(get(&format!("/size-{size}")));
        client.wait_for_first_byte();
        self.watch(client, size);
    }

    fn watch(&mut self, mut client: Client, size: usize) {
        let sender = self.sender.clone();
        self.running += 1;
        std::thread::spawn(move || {
            assert!(client.response().body == content(size), "not the body of size-{size}");
            sender.send(size).unwrap();
        });
    }

    fn order(self) -> Vec<usize> {
        drop(self.sender);
        let order: Vec<usize> = self.ended.iter().collect();
        assert_eq!(order.len(), self.running, "a response failed");
        order
    }
}

#[test]
fn the_small_response_overtakes_the_large_one() {
    if in_virtual_time(the_small_response_overtakes_the_large_one) {
        return;
    }
    const LARGE: usize = 256 << 10;
    // An eighth of a second of the link: the order of ends must not depend on which of the test's threads runs first.
    const SMALL: usize = 64 << 10;
    let site = Site::of_sizes(&[SMALL, LARGE]);
    for (policy, order) in [
        ("srpt", [SMALL, LARGE]),
        ("psjf", [SMALL, LARGE]),
        ("las", [SMALL, LARGE]),
        ("fair", [SMALL, LARGE]),
        ("fcfs", [LARGE, SMALL]),
        ("rank:min(left, 1MB) * rtt", [SMALL, LARGE]),
        ("rank:arrived", [LARGE, SMALL]),
    ] {
        let server = Server::start(&site, &["--uplink", "4mbit", "--policy", policy]);
        let mut race = Race::new();
        race.enter_first(&server, LARGE);
        race.enter(&server, SMALL);
        assert_eq!(race.order(), order, "{policy}");
    }
}

/// Without a rate, only responses that are ready in the same turn are ordered, that is for requests that the server
/// finds together. The log is written in the order in which responses are handed down.
#[test]
fn the_smallest_response_of_a_turn_leaves_first() {
    let sizes = [40_000, 2_000, 30_000, 1_000];
    let site = Site::of_sizes(&sizes);
    let server = Server::start(&site, &["--shaping", "off", "--workers", "1", "--access-log", "-"]);
    let mut clients: Vec<Client> = sizes.iter().map(|&size| ask_for_head(&server, size)).collect();
    server.freeze();
    for (client, size) in clients.iter_mut().zip(sizes) {
        client.send(get(&format!("/size-{size}")));
    }
    server.signal(Signal::CONT);
    for (client, size) in clients.iter_mut().zip(sizes) {
        assert!(client.response().body == content(size), "not the body of size-{size}");
    }
    let gets = || server.stdout().into_iter().filter(|line| line.contains("GET /size")).collect::<Vec<_>>();
    wait_until("all lines", || gets().len() == sizes.len());
    for (line, size) in gets().iter().zip([1_000, 2_000, 30_000, 40_000]) {
        assert!(line.contains(&format!("GET /size-{size} ")), "{line} instead of {size}");
    }
}

/// The link is held while all the others are requested, in no order and on all workers; they leave by size.
#[test]
fn order_holds_across_workers() {
    if in_virtual_time(order_holds_across_workers) {
        return;
    }
    const HOLDER: usize = 90_000;
    let sizes = [130_000, 110_000, 150_000, 100_000, 140_000, 105_000, 120_000, 160_000];
    let site = Site::of_sizes(&[&[HOLDER], &sizes[..]].concat());
    let server = Server::start(&site, &["--uplink", "4mbit", "--policy", "srpt", "--workers", "2"]);
    // So that no file has to be opened during the race.
    sizes.iter().for_each(|size| drop(ask_for_head(&server, *size)));
    let mut race = Race::new();
    race.enter_first(&server, HOLDER);
    sizes.iter().for_each(|&size| race.enter(&server, size));
    let mut by_size = sizes;
    by_size.sort();
    assert_eq!(race.order(), [&[HOLDER], &by_size[..]].concat());
}

fn ask_for_head(server: &Server, size: usize) -> Client {
    let mut client = server.connect();
    client.send(format!("HEAD /size-{size} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(client.response_to_head().status, 200);
    client
}

/// A client that does not read has the best rank and cannot be sent to: the others get the link.
#[test]
fn a_slow_reader_does_not_hold_the_link() {
    const SLOW: usize = 200_000;
    const LARGE: usize = 400_000;
    let site = Site::of_sizes(&[SLOW, LARGE]);
    for policy in ["srpt", "psjf", "fcfs"] {
        let server = Server::start(&site, &["--uplink", "20mbit", "--policy", policy]);
        let mut slow = Client::connect_narrow(server.address);
        slow.send(get(&format!("/size-{SLOW}")));
        assert_eq!(slow.head().0, 200);
        let mut other = server.connect();
        assert!(other.get(&format!("/size-{LARGE}")).body == content(LARGE));
        // It has lost nothing by it.
        assert!(slow.body(SLOW) == content(SLOW), "{policy}");
    }
}

/// The size of a range is the range, not the file.
#[test]
fn a_small_range_of_a_large_file_is_small() {
    if in_virtual_time(a_small_range_of_a_large_file_is_small) {
        return;
    }
    const LARGE: usize = 256 << 10;
    let site = Site::of_sizes(&[LARGE]);
    let server = Server::start(&site, &["--uplink", "4mbit", "--policy", "srpt"]);
    let mut race = Race::new();
    race.enter_first(&server, LARGE);
    let mut client = server.connect();
    client.send(format!("GET /size-{LARGE} HTTP/1.1\r\nHost: a\r\nRange: bytes=-1000\r\n\r\n"));
    assert_eq!(client.response().body.len(), 1000);
    race.sender.send(1000).unwrap();
    assert_eq!(race.ended.recv(), Ok(1000));
    assert_eq!(race.ended.recv(), Ok(LARGE));
}
