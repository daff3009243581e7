//! The limits of one client, by its address.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::{Client, Server, Site, get, on_every_path, on_every_path_at_once, wait_until};

const LARGE: usize = 20 << 20;

fn site() -> Site {
    Site::with(&[("a", b"hello")])
}

/// A connection beyond the limit is closed, whatever it requests. Another address has its own limit, and a connection
/// that ends makes room.
#[test]
fn a_client_has_so_many_connections() {
    on_every_path(&site(), &["--client-connections", "2", "--workers", "2"], |server| {
        let mut inside = [server.connect(), server.connect()];
        inside.iter_mut().for_each(|client| assert_eq!(client.get("/a").text(), "hello"));
        let mut third = server.connect();
        third.try_send(get("/a"));
        third.assert_gone();
        assert_eq!(Client::connect_from("127.0.0.2:0", server.address).get("/a").text(), "hello");
        wait_until("a line about it", || !server.stderr().is_empty());
        let said = "weir: refused 1 connection, the last from 127.0.0.1: one client may have 2 at once (--client-connections, limits.client_connections)";
        assert_eq!(server.stderr(), [said]);
        let [mut stays, leaves] = inside;
        drop(leaves);
        wait_until("room for another", || {
            let mut next = server.connect();
            next.try_send(get("/a"));
            next.is_answered()
        });
        assert_eq!(stays.get("/a").text(), "hello");
    });
}

/// The addresses within the prefix do not matter.
#[test]
fn an_ipv6_client_is_counted_by_its_prefix() {
    if let Err(error) = TcpListener::bind("[::1]:0") {
        return println!("SKIPPED: no IPv6 on loopback: {error}");
    }
    let site = site();
    let server = Server::start_at("[::1]:0", &site, &["--client-connections", "1", "--client-prefix", "32,48"]);
    let mut first = server.connect();
    assert_eq!(first.get("/a").text(), "hello");
    server.connect().assert_gone();
    wait_until("a line about it", || !server.stderr().is_empty());
    assert!(server.stderr()[0].contains("the last from ::/48: one client may have 1 at once"), "{:?}", server.stderr());
}

/// The request beyond the limit is answered, and its connection stays.
#[test]
fn a_client_asks_so_often() {
    on_every_path_at_once(&site(), &["--client-requests", "1", "--client-connections", "1"], |server| {
        let mut client = server.connect();
        client.send(get("/a").repeat(5));
        let responses: Vec<_> = (0..5).map(|_| client.response()).collect();
        assert_eq!(responses[0].text(), "hello");
        let refused: Vec<_> = responses.iter().filter(|response| response.status == 429).collect();
        // On a busy machine a second may pass before the last.
        assert!(refused.len() >= 3, "{responses:?}");
        for response in refused {
            assert_eq!((response.field("Retry-After"), response.field("Connection")), (Some("1"), None));
            assert!(response.text().starts_with("429 Too Many Requests\n"), "{response:?}");
        }
        wait_until("another request to be allowed", || client.get("/a").text() == "hello");
        wait_until("a line about it", || !server.stderr().is_empty());
        let said =
            "the last from 127.0.0.1: one client may make 1 per second (--client-requests, limits.client_requests)";
        assert!(server.stderr().iter().all(|line| line.contains(said)), "{:?}", server.stderr());
    });
}

/// Also while its response is in flight.
#[test]
fn the_busiest_clients_are_told() {
    on_every_path_at_once(&Site::of_sizes(&[LARGE]), &[], |server| {
        let mut reading = Client::connect_narrow(server.address);
        reading.send(get(&format!("/size-{LARGE}")));
        reading.wait_for_first_byte();
        wait_until("the client in the table", || {
            server.signal(Signal::USR2);
            server.stderr().iter().any(|line| {
                let cells: Vec<&str> = line.split_whitespace().collect();
                matches!(cells[..], ["weir:", "127.0.0.1", "1", bytes, "0", ..] if bytes.parse::<usize>().unwrap() >= 1000)
            })
        });
        let said = server.stderr();
        let heading = said.iter().position(|line| line.contains("bytes sent lately")).unwrap();
        let columns: Vec<&str> = said[heading + 1].split_whitespace().collect();
        assert!(columns.starts_with(&["weir:", "client", "connections", "bytes", "refusals"]), "{columns:?}");
        // If clients share the link.
        assert!(matches!(columns[5..], [] | ["ahead"]), "{columns:?}");
    });
}

/// Bytes beyond the rate wait, for any number of responses; the time is at least bytes divided by rate, however slow
/// the machine.
#[test]
fn a_client_is_sent_so_much() {
    const BYTES: usize = 1_000_000;
    on_every_path_at_once(&Site::of_sizes(&[BYTES]), &["--client-rate", "16mbit"], |server| {
        let mut client = server.connect();
        let began = Instant::now();
        for _ in 0..3 {
            assert_eq!(client.get(&format!("/size-{BYTES}")).body.len(), BYTES);
        }
        // Two megabytes per second, except a tenth of a second's worth and the last grant, which is not taken back.
        assert!(began.elapsed() >= Duration::from_millis(850), "{:?}", began.elapsed());
    });
}
