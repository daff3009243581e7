//! Clients that are not reached over the uplink.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::{Client, Server, Site, get};

const LARGE: usize = 16 << 20;
const PIECE: usize = 1 << 10;

/// Receives a response of `length` bytes on `local`. Returns the bytes that a client receives meanwhile of the same
/// response, which it has asked for.
pub fn received_meanwhile(line: &mut Client, local: &mut Client, path: &str, length: usize) -> usize {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reads = scope.spawn(|| {
            let mut bytes = 0;
            while !is_over.load(Ordering::Relaxed) && bytes < length {
                bytes += line.body(PIECE).len();
            }
            bytes
        });
        assert_eq!(local.get(path).body.len(), length);
        is_over.store(true, Ordering::Relaxed);
        reads.join().unwrap()
    })
}

/// A client of a local network receives 16 MiB, for which a line of 1 Mbit/s needs two minutes, before another client
/// has received a quarter of them.
#[test]
fn a_client_of_a_local_network_is_not_held_at_the_rate_of_the_line() {
    let site = Site::with(&[("large", &vec![b'x'; LARGE])]);
    let server = Server::start(&site, &["--uplink", "1mbit", "--local-network", "127.0.0.2", "--local-network", "::1"]);
    let said = server.stdout()[0].clone();
    assert!(said.contains("; clients of 127.0.0.2/32, ::1/128 do not use the line (--local-network"), "{said}");
    let mut line = server.connect();
    line.send(get("/large"));
    line.head();
    let mut local = Client::connect_from("127.0.0.2:0", server.address);
    let line_bytes = received_meanwhile(&mut line, &mut local, "/large", LARGE);
    assert!(line_bytes < LARGE / 4, "{line_bytes} bytes over a line of 1 Mbit/s");
}
