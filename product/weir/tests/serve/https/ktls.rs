//! TLS by the kernel: what is not the same as without. The other tests of HTTPS run with it in `make test-vm`.

use std::io::Write;
use std::time::Duration;

use crate::common::tls::Made;
use crate::common::{Server, Site, WRITE_PATHS, content, get, wait_until};

/// Longer than a server waits for a client to close behind the last byte.
const LONG: Duration = Duration::from_secs(4);

/// Connections whose records the kernel of this namespace makes or has made; `None` without kTLS.
fn kernel_s_connections() -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/net/tls_stat").ok()?;
    let count = |name: &str| counters.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    let (sends, receives): (u64, u64) = (count("TlsTxSw")?, count("TlsRxSw")?);
    assert_eq!(sends, receives, "both directions, or none");
    Some(sends)
}

/// On every write path, where the kernel has TLS.
fn on_the_kernel(site: &Site, made: &Made, test: impl Fn(&Server)) {
    if kernel_s_connections().is_none() {
        return println!("SKIPPED: this kernel has no kTLS (make test-vm runs it on one that has)");
    }
    for path in WRITE_PATHS {
        let server = Server::start(site, &[path, &made.flags(), &["--ktls"]].concat());
        test(&server);
        server.assert_alive();
    }
}

fn said(server: &Server, part: &str) {
    wait_until(part, || server.stderr().iter().any(|line| line.contains(part)));
}

#[test]
fn without_it_in_the_kernel_https_is_as_ever_and_a_line_says_so() {
    let site = Site::of_sizes(&[70_000]);
    let made = Made::new(&site, "own", &["localhost"]);
    let server = Server::start(&site, &[&made.flags()[..], &["--ktls"]].concat());
    for trust in [made.trust(), made.trust_1_2()] {
        let mut client = trust.connect(server.address, "localhost");
        assert!(client.get("/size-70000").1 == content(70_000));
    }
    if kernel_s_connections().is_none() {
        said(&server, "no kTLS: the kernel has none, expected its module: modprobe tls; TLS goes on in this process");
    }
}

#[test]
fn the_kernel_makes_the_records_of_each_version() {
    let site = Site::of_sizes(&[1000, 10_000_000]);
    let made = Made::new(&site, "own", &["localhost"]);
    on_the_kernel(&site, &made, |server| {
        for trust in [made.trust(), made.trust_1_2()] {
            for is_resumed in [false, true] {
                let before = kernel_s_connections().unwrap();
                let mut client = trust.connect(server.address, "localhost");
                for size in [1000, 10_000_000, 1000] {
                    assert!(client.get(&format!("/size-{size}")).1 == content(size));
                }
                assert_eq!(client.is_resumed(), is_resumed);
                assert_eq!(kernel_s_connections().unwrap(), before + 1);
            }
        }
    });
}

/// More is behind the socket's buffer than the server waits for: neither the last bytes nor the word of the end are lost.
#[test]
fn a_client_that_reads_late_has_all_of_it_and_the_end() {
    let site = Site::of_sizes(&[10_000_000]);
    let made = Made::new(&site, "own", &["localhost"]);
    on_the_kernel(&site, &made, |server| {
        let mut client = made.trust().connect(server.address, "localhost");
        client.send("GET /size-10000000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        std::thread::sleep(LONG);
        assert!(client.response().1 == content(10_000_000));
        client.assert_end();
    });
}

#[test]
fn new_keys_end_the_connection_with_a_reason() {
    let site = Site::of_sizes(&[1000]);
    let made = Made::new(&site, "own", &["localhost"]);
    on_the_kernel(&site, &made, |server| {
        let mut client = made.trust().connect(server.address, "localhost");
        client.get("/size-1000");
        client.stream.conn.refresh_traffic_keys().unwrap();
        client.send(&get("/size-1000"));
        said(server, "the client asked for new keys");
        let mut other = made.trust().connect(server.address, "localhost");
        assert!(other.get("/size-1000").1 == content(1000));
    });
}

#[test]
fn garbage_ends_the_connection_with_a_reason() {
    let site = Site::of_sizes(&[1000]);
    let made = Made::new(&site, "own", &["localhost"]);
    on_the_kernel(&site, &made, |server| {
        let wrong: [(&[u8], &str); 2] = [
            (b"\x17\x03\x03\x00\x20an-application-record-of-nobody!", "that its key does not open"),
            (b"GET / HTTP/1.1\r\n\r\n", "what is no TLS record"),
        ];
        for (bytes, reason) in wrong {
            let mut client = made.trust().connect(server.address, "localhost");
            client.get("/size-1000");
            client.stream.sock.write_all(bytes).unwrap();
            said(server, reason);
        }
    });
}

#[test]
fn without_tls_it_is_said_to_have_no_effect() {
    let site = Site::of_sizes(&[10]);
    let server = Server::start(&site, &["--ktls"]);
    said(&server, "kTLS has no effect: no listener speaks TLS; expected --cert and --key");
}
