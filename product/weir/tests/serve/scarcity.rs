//! Too many clients, too few descriptors, clients that vanish: the server serves as many as it can, and recovers.

use crate::common::{Client, Server, Site, WRITE_PATHS, content, get, on_every_path, wait_until};

const LARGE: usize = 4 << 20;

#[test]
fn beyond_the_cap_clients_wait_and_are_served() {
    let site = Site::of_sizes(&[10, LARGE]);
    std::thread::scope(|scope| {
        for path in WRITE_PATHS {
            let site = &site;
            scope.spawn(move || {
                let server = Server::start(
                    site,
                    &[path, &["--connections", "5", "--workers", "1", "--client-connections", "0"]].concat(),
                );
                let mut inside: Vec<Client> = (0..5).map(|_| begun(&server)).collect();
                let mut sixth = server.connect();
                sixth.send(get("/size-10"));
                sixth.assert_silent();
                inside.pop();
                assert_eq!(sixth.response().body, content(10));
                inside.iter_mut().for_each(|client| assert!(client.body(LARGE) == content(LARGE)));
                assert_eq!(server.stderr().len(), 1, "{:?}", server.stderr());
                assert!(server.stderr()[0].contains("all 5 connections are in use: "), "{:?}", server.stderr());
            });
        }
    });
}

/// A client that has received its response and keeps its connection makes room, the longest idle first. A client that
/// is being answered, or is in the middle of a request, does not.
#[test]
fn beyond_the_cap_the_longest_idle_gives_way() {
    let site = Site::of_sizes(&[10, LARGE]);
    for path in WRITE_PATHS {
        let server = Server::start(
            &site,
            &[path, &["--connections", "4", "--workers", "1", "--client-connections", "0"]].concat(),
        );
        let mut busy = begun(&server);
        let mut asking = server.connect();
        asking.send("GET /size-10 HTTP/1.1\r\n");
        let [mut first, mut second] = [server.connect(), server.connect()];
        assert_eq!(first.get("/size-10").status, 200);
        assert_eq!(second.get("/size-10").status, 200);
        let mut fifth = server.connect();
        assert_eq!(fifth.get("/size-10").status, 200);
        first.assert_end();
        assert_eq!(second.get("/size-10").status, 200);
        asking.send("Host: a\r\n\r\n");
        assert_eq!(asking.response().status, 200);
        assert!(busy.body(LARGE) == content(LARGE));
        let said = server.stderr();
        assert!(said.len() == 1 && said[0].contains("all 4 connections are in use: "), "{said:?}");
    }
}

/// The kernel distributes clients to event loops by a hash; earlier each loop had a share of the connections.
#[test]
fn the_cap_is_one_for_all_event_loops() {
    const CONNECTIONS: usize = 12;
    let site = Site::of_sizes(&[10, LARGE]);
    for path in WRITE_PATHS {
        let server = Server::start(
            &site,
            &[path, &["--connections", "12", "--workers", "4", "--client-connections", "0"]].concat(),
        );
        let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| begun(&server)).collect();
        // A connection of another event loop may have to make room for it.
        clients.pop();
        let mut idle = server.connect();
        assert_eq!(idle.get("/size-10").status, 200);
        for _ in 0..8 {
            let mut next = server.connect();
            assert_eq!(next.get("/size-10").status, 200);
            idle.assert_end();
            idle = next;
        }
    }
}

/// The descriptors run out, which could not be foreseen at the start: it is logged, clients wait, and none is lost.
#[test]
fn descriptors_that_run_out_while_serving() {
    let site = Site::of_sizes(&[10, LARGE]);
    for path in WRITE_PATHS {
        let server = Server::start(&site, &[path, &["--workers", "1"]].concat());
        let mut inside = begun(&server);
        let before = server.limit_descriptors(server.open_files() as u64);
        let mut outside: Vec<Client> = (0..8).map(|_| server.connect()).collect();
        outside.iter_mut().for_each(|client| client.send(get("/size-10")));
        wait_until("a line about it", || !server.stderr().is_empty());
        assert!(server.stderr()[0].contains("cannot accept more than "), "{:?}", server.stderr());
        assert!(inside.body(LARGE) == content(LARGE));
        server.limit_descriptors(before);
        outside.iter_mut().for_each(|client| file_or_excuse(client, 10));
        assert_eq!(server.stderr().len(), 1, "{:?}", server.stderr());
    }
}

#[test]
fn beyond_the_slots_clients_wait_in_one_queue() {
    let site = Site::with(&[("a", b"hello")]);
    for path in WRITE_PATHS {
        let server = Server::start(&site, &[path, &["--max-accepted-connections", "2", "--backlog", "4"]].concat());
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

/// A slot is held as by Apache's lingering processes. A response that ends its connection is complete at its client,
/// but the slot becomes free only when the client closes or a time limit has passed.
#[test]
fn a_slot_is_held_until_its_client_closes() {
    let site = Site::with(&[("a", b"hello")]);
    for path in WRITE_PATHS {
        let server = Server::start(&site, &[path, &["--max-accepted-connections", "1"]].concat());
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

/// The client stays and sends nothing more.
#[test]
fn a_slot_is_free_when_keep_alive_ends() {
    let site = Site::with(&[("a", b"hello")]);
    for path in WRITE_PATHS {
        let server =
            Server::start(&site, &[path, &["--max-accepted-connections", "1", "--idle-timeout", "1s"]].concat());
        let mut first = server.connect();
        assert_eq!(first.get("/a").status, 200);
        let mut next = server.connect();
        next.send(get("/a"));
        next.assert_silent();
        assert_eq!(next.response().text(), "hello");
        first.assert_end();
    }
}

/// With few descriptors, accepted clients are answered as far as descriptors last, and the others once they are
/// accepted.
#[test]
fn exhausted_descriptors() {
    const CLIENTS: usize = 60;
    let site = Site::of_sizes(&[10, 100_000]);
    for path in WRITE_PATHS {
        // A worker alone has about thirteen open: one limit leaves some for files, the other hardly any. The cap on
        // connections follows the limit, so that accepting never fails.
        for descriptors in [50, 19] {
            let args = [path, &["--workers", "1", "--client-connections", "0"]].concat();
            let server = Server::start_with_descriptors(&site, descriptors, &args);
            let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
            clients.iter_mut().for_each(|client| client.send(get("/size-10") + &get("/size-100000")));
            for mut client in clients {
                file_or_excuse(&mut client, 10);
                file_or_excuse(&mut client, 100_000);
            }
            let response = server.connect().get("/size-100000");
            assert!(response.body == content(100_000), "it has not recovered: {}", response.head);
            server.assert_alive();
            let mut said = server.stderr();
            // On a busy host a rate may be found.
            said.retain(|line| !line.starts_with("weir: uplink "));
            assert!(said.len() == 1 && said[0].contains("connections are in use: "), "{said:?}");
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

/// The kernel reports a reset once. Earlier, if that was just before the end of the response was known, a quarter of
/// such connections stayed until they timed out.
#[test]
fn clients_that_reset_after_a_response_leave_nothing_behind() {
    const CLIENTS: usize = 400;
    on_every_path(&Site::of_sizes(&[10]), &[], |server| {
        assert_eq!(server.connect().get("/size-10").status, 200);
        let before = server.open_files();
        for _ in 0..CLIENTS {
            let mut client = server.connect();
            client.send(get("/size-10"));
            client.wait_for_first_byte();
            client.reset();
        }
        wait_until("as few open files as before", || server.open_files() <= before);
        assert!(server.stderr().is_empty(), "{:?}", server.stderr());
    });
}

fn begun(server: &Server) -> Client {
    let mut client = Client::connect_narrow(server.address);
    client.send(get(&format!("/size-{LARGE}")));
    assert_eq!(client.head().0, 200);
    client
}

/// The open files when no connection is left: those of a new server, and the one large file in the cache of each
/// worker.
fn settled(server: &Server) -> usize {
    let workers = std::thread::available_parallelism().unwrap().get();
    // A few connections almost certainly reach every worker's cache; each is reset in the middle.
    (0..8 * workers).for_each(|_| begun(server).reset());
    let mut least = usize::MAX;
    wait_until("a count that stays", || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let now = server.open_files();
        std::mem::replace(&mut least, now) == now
    });
    least
}
