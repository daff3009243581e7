//! Too many clients, too few descriptors, clients that vanish: the server serves whom it can, and recovers.

use crate::common::{Client, Server, Site, WRITE_PATHS, content, get, on_every_path, wait_until};

const LARGE: usize = 4 << 20;

#[test]
fn beyond_the_cap_clients_wait_and_are_served() {
    let site = Site::with(&[("a", b"hello")]);
    std::thread::scope(|scope| {
        for path in WRITE_PATHS {
            let site = &site;
            scope.spawn(move || {
                let server = Server::start(site, &[path, &["--connections", "5", "--workers", "1"]].concat());
                let mut inside: Vec<Client> = (0..5).map(|_| server.connect()).collect();
                inside.iter_mut().for_each(|client| assert_eq!(client.get("/a").status, 200));
                let mut sixth = server.connect();
                sixth.send(get("/a"));
                sixth.assert_silent();
                inside.iter_mut().for_each(|client| assert_eq!(client.get("/a").status, 200));
                inside.pop();
                assert_eq!(sixth.response().text(), "hello");
            });
        }
    });
}

#[test]
fn beyond_the_slots_clients_wait_in_one_queue() {
    let site = Site::with(&[("a", b"hello")]);
    for path in WRITE_PATHS {
        let server = Server::start(&site, &[path, &["--slots", "2", "--backlog", "4"]].concat());
        let mut inside: Vec<Client> = (0..2).map(|_| server.connect()).collect();
        inside.iter_mut().for_each(|client| assert_eq!(client.get("/a").status, 200));
        let mut third = server.connect();
        third.send(get("/a"));
        third.assert_silent();
        inside.pop();
        assert_eq!(third.response().text(), "hello");
        assert!(server.stdout()[0].contains("; at most 2 connections"), "{:?}", server.stdout());
    }
}

/// As an Apache process lingers: a response that ends its connection has been sent and its client has all of it, and yet the
/// slot is free only when that client closes, or when it has been given long enough to.
#[test]
fn a_slot_is_held_until_its_client_closes() {
    let site = Site::with(&[("a", b"hello")]);
    for path in WRITE_PATHS {
        let server = Server::start(&site, &[path, &["--slots", "1"]].concat());
        for closes_itself in [true, false] {
            let mut first = server.connect();
            first.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            assert_eq!(first.response().text(), "hello");
            first.assert_end();
            let mut next = server.connect();
            next.send(get("/a"));
            next.assert_silent();
            let kept = (!closes_itself).then_some(first);
            assert_eq!(next.response().text(), "hello", "{path:?}, the one before closed: {closes_itself}");
            drop(kept);
        }
    }
}

/// The client stays and says nothing more.
#[test]
fn a_slot_is_free_when_keep_alive_ends() {
    let site = Site::with(&[("a", b"hello")]);
    for path in WRITE_PATHS {
        let server = Server::start(&site, &[path, &["--slots", "1", "--idle-timeout", "1s"]].concat());
        let mut first = server.connect();
        assert_eq!(first.get("/a").status, 200);
        let mut next = server.connect();
        next.send(get("/a"));
        next.assert_silent();
        assert_eq!(next.response().text(), "hello");
        first.assert_end();
    }
}

/// Between the cap and nothing: whoever is in is answered as far as descriptors go, the others when they are let in.
#[test]
fn exhausted_descriptors() {
    const CLIENTS: usize = 60;
    let site = Site::of_sizes(&[10, 100_000]);
    for path in WRITE_PATHS {
        // A worker alone has about ten open: one limit leaves some for files, the other hardly any. The cap on
        // connections follows the limit, so that neither is worth a line.
        for descriptors in [48, 16] {
            let args = [path, &["--workers", "1"]].concat();
            let server = Server::start_with_descriptors(&site, descriptors, &args);
            let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
            clients.iter_mut().for_each(|client| client.send(get("/size-10") + &get("/size-100000")));
            for mut client in clients {
                file_or_excuse(&mut client, 10);
                file_or_excuse(&mut client, 100_000);
            }
            assert!(server.connect().get("/size-100000").body == content(100_000), "it has not recovered");
            server.assert_alive();
            assert!(server.stderr().is_empty(), "lines about a shortage: {:?}", server.stderr());
            let said = server.stdout()[0].clone();
            assert!(said.contains("; at most ") && !said.contains(" 100000 connections"), "{said}");
        }
    }
}

fn file_or_excuse(client: &mut Client, size: usize) {
    let response = client.response();
    match response.status {
        200 => assert!(response.body == content(size)),
        503 => assert_eq!(response.field("Retry-After"), Some("1")),
        other => panic!("status {other}"),
    }
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let site = Site::of_sizes(&[10, LARGE]);
    on_every_path(&site, &[], |server| {
        assert_eq!(server.connect().get("/size-10").status, 200);
        begun(server).reset();
        let before = settled(server);
        for round in 0..3 {
            let clients: Vec<Client> = (0..10).map(|_| begun(server)).collect();
            assert!(server.open_files() >= before + 10, "round {round}: the clients were not there");
            clients.into_iter().for_each(Client::reset);
            wait_until("as few open files as before", || server.open_files() <= before);
        }
        assert!(server.connect().get(&format!("/size-{LARGE}")).body == content(LARGE));
        assert!(server.stderr().is_empty(), "a client that leaves is not worth a line: {:?}", server.stderr());
    });
}

fn begun(server: &Server) -> Client {
    let mut client = Client::connect_narrow(server.address);
    client.send(get(&format!("/size-{LARGE}")));
    assert_eq!(client.head().0, 200);
    client
}

/// Open files when no connection is left: what a new server opens, and the one large file in the cache of each worker.
fn settled(server: &Server) -> usize {
    let workers = std::thread::available_parallelism().unwrap().get();
    // A few connections reach every worker's cache with near certainty; each is reset in the middle.
    (0..8 * workers).for_each(|_| begun(server).reset());
    let mut least = usize::MAX;
    wait_until("a count that stays", || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let now = server.open_files();
        std::mem::replace(&mut least, now) == now
    });
    least
}
