//! Upstreams over TLS: trusted authorities, and failures of others.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};

use crate::common::{PATIENCE, Server, Site, content, wait_until, weir_under};

/// The keys for the certificate authority and the name of the upstream.
const TRUSTED: &str = "tls_ca = \"ca.pem\"\ntls_server_name = \"localhost\"";

type Tls = StreamOwned<ServerConnection, TcpStream>;

/// A server behind the tested one, with a certificate for `localhost` that is valid until this year.
struct Secure {
    address: SocketAddr,
    /// The certificate of the authority that signed the server's.
    ca: String,
    connections: Arc<AtomicUsize>,
    handshakes: Arc<Mutex<Vec<HandshakeKind>>>,
}

impl Secure {
    /// Starts an upstream. `answer` receives each request's head and returns whether the connection stays.
    fn start(until: i32, answer: impl Fn(&str, &mut Tls) -> bool + Send + Sync + 'static) -> Secure {
        let (config, ca) = certified(until);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, handshakes, answer) = (Arc::<AtomicUsize>::default(), Arc::default(), Arc::new(answer));
        let (count, kinds): (_, Arc<Mutex<Vec<_>>>) = (Arc::clone(&connections), Arc::clone(&handshakes));
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let (config, answer, kinds) = (Arc::clone(&config), Arc::clone(&answer), Arc::clone(&kinds));
                let socket = socket.unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                std::thread::spawn(move || {
                    let mut tls = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
                    let mut is_first = true;
                    while let Some(head) = head(&mut tls) {
                        if std::mem::take(&mut is_first) {
                            kinds.lock().unwrap().extend(tls.conn.handshake_kind());
                        }
                        if !answer(&head, &mut tls) {
                            return;
                        }
                    }
                });
            }
        });
        Secure { address, ca, connections, handshakes }
    }

    /// Starts a server with these keys of the proxy, and `ca.pem` in the folder of the file.
    fn proxy(&self, keys: &str) -> Server {
        let site = Site::new();
        site.write("ca.pem", self.ca.as_bytes());
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n[[site.proxy]]\nto = [\"https://{}\"]\n{keys}\n",
            self.address
        );
        site.write("weir.toml", text.as_bytes());
        Server::run(&site.path("weir.toml"))
    }
}

fn certified(until: i32) -> (Arc<ServerConfig>, String) {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&key).unwrap().pem();
    let mut leaf = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
    (leaf.not_before, leaf.not_after) = (rcgen::date_time_ymd(2000, 1, 1), rcgen::date_time_ymd(until, 1, 1));
    let leaf_key = KeyPair::generate().unwrap();
    let signed = leaf.signed_by(&leaf_key, &Issuer::new(params, key)).unwrap();
    let key = PrivatePkcs8KeyDer::from(leaf_key.serialize_der());
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![signed.der().clone()], key.into());
    (Arc::new(config.unwrap()), ca)
}

/// Reads the head with its empty line; `None` if the client has left.
fn head(tls: &mut Tls) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        tls.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Answers `/length/N` and `/close/N`; `/cut/N` ends without a TLS alert.
fn of_size(head: &str, tls: &mut Tls) -> bool {
    let path = head.split(' ').nth(1).unwrap();
    let (framing, bytes) = path[1..].split_once('/').unwrap();
    let body = content(bytes.parse().unwrap());
    let length = if framing == "length" { format!("Content-Length: {bytes}\r\n") } else { String::new() };
    let sent = tls.write_all(&[format!("HTTP/1.1 200 OK\r\n{length}\r\n").as_bytes(), &body].concat());
    if framing == "close" {
        tls.conn.send_close_notify();
    }
    sent.and_then(|()| tls.flush()).is_ok() && framing == "length"
}

#[test]
fn bodies_are_exact_and_connections_are_used_again() {
    let upstream = Secure::start(2100, of_size);
    let server = upstream.proxy(TRUSTED);
    let mut client = server.connect();
    for bytes in [0, 1, 16_384, 65_537, 3 << 20] {
        let response = client.get(&format!("/length/{bytes}"));
        assert!((response.status, &response.body) == (200, &content(bytes)), "{bytes}");
    }
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 1);
    assert_eq!(server.stderr(), [""; 0]);
}

#[test]
fn a_later_connection_resumes_an_earlier_one() {
    let upstream = Secure::start(2100, of_size);
    let server = upstream.proxy(TRUSTED);
    for _ in 0..2 {
        // It is open whether the end arrives together with it and gives it a length.
        let mut client = server.connect();
        client.send("GET /close/5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(client.rest().windows(5).any(|part| part == content(5)));
    }
    assert_eq!(*upstream.handshakes.lock().unwrap(), [HandshakeKind::Full, HandshakeKind::Resumed]);
}

/// An end without a TLS alert may come from an attacker (RFC 8446 section 6.1).
#[test]
fn an_end_without_a_word_is_a_cut() {
    let upstream = Secure::start(2100, of_size);
    let server = upstream.proxy(TRUSTED);
    for (path, is_whole) in [("/close/300000", true), ("/cut/300000", false)] {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let received = client.rest();
        assert_eq!(received.ends_with(b"\r\n0\r\n\r\n"), is_whole, "{path}");
    }
    wait_until("a line about it", || !server.stderr().is_empty());
    assert!(server.stderr()[0].contains("closed before the response was complete"), "{:?}", server.stderr());
}

#[test]
fn who_is_not_trusted_is_502_and_a_line_that_says_why() {
    let good = Secure::start(2100, of_size);
    let old = Secure::start(2001, of_size);
    for (upstream, keys, why) in [
        (&old, TRUSTED, "TLS: certificate expired"),
        (
            &good,
            "tls_server_name = \"localhost\"",
            "TLS: certificate of an unknown authority (site.proxy.tls_ca names others)",
        ),
        (&good, "tls_ca = \"ca.pem\"\ntls_server_name = \"b.test\"", "TLS: certificate not valid for name \"b.test\""),
    ] {
        let server = upstream.proxy(keys);
        assert_eq!(server.connect().get("/length/5").status, 502, "{why}");
        wait_until("a line about it", || !server.stderr().is_empty());
        let said = server.stderr();
        assert!(said[0].starts_with("weir: no response from upstream https://") && said[0].contains(why), "{said:?}");
    }
}

#[test]
fn one_that_speaks_no_tls_or_nothing_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let says: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let kept = Arc::clone(&says);
    std::thread::spawn(move || {
        for (nth, socket) in listener.incoming().enumerate() {
            let mut socket = socket.unwrap();
            if nth == 0 {
                socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            }
            kept.lock().unwrap().push(socket);
        }
    });
    for (status, why) in [(502, "TLS: "), (504, "no connection in time")] {
        let site = Site::new();
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n[[site.proxy]]\nto = [\"https://{address}\"]\nconnect_timeout = \"1s\"\n"
        );
        site.write("weir.toml", text.as_bytes());
        let server = Server::run(&site.path("weir.toml"));
        assert_eq!(server.connect().get("/").status, status, "{why}");
        wait_until("a line about it", || !server.stderr().is_empty());
        assert!(server.stderr()[0].contains(&format!("upstream https://{address}: {why}")), "{:?}", server.stderr());
    }
}

/// The file is missing or invalid.
#[test]
fn authorities_that_are_none_are_a_mistake_at_the_start() {
    let site = Site::new();
    let text = "[[site]]\n[[site.proxy]]\nto = [\"https://localhost:1\"]\ntls_ca = \"ca.pem\"\n";
    site.write("weir.toml", text.as_bytes());
    for (ca, why) in [(None, "ca.pem`: No such file"), (Some("nothing"), "ca.pem` has no certificate of an authority")]
    {
        ca.into_iter().for_each(|text| site.write("ca.pem", text.as_bytes()));
        let output = weir_under(&[]).arg("run").arg(site.path("weir.toml")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
}
