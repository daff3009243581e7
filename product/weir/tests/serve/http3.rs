//! HTTP/3 as its clients see the program, over UDP; frames are tested in the crate that makes them.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::time::Instant;

use quic::testing::{Client, Response, Windows, frame, id, section};
use rustix::process::Signal;
use units::Nanos;

use crate::common::tls::Made;
use crate::common::{PATIENCE, Server, Site, content, run_to_end, wait_until};

/// RFC 9114 section 7.2.
const DATA: u64 = 0;
const HEADERS: u64 = 1;
pub const LARGE: usize = 1_000_000;
/// RFC 9114 section 8.1.
const NO_ERROR: u64 = 0x100;
/// A rate so low that events can happen in the middle of a large response.
pub const SLOW: [&str; 5] = ["--tls-self-signed", "--uplink", "16mbit", "--shaping", "paced"];

/// A client and its present socket.
pub struct Asking {
    client: Client,
    socket: UdpSocket,
    server: SocketAddr,
    began: Instant,
}

impl Asking {
    fn new(server: SocketAddr) -> Asking {
        Asking::with_windows(server, Windows::default())
    }

    fn with_windows(server: SocketAddr, windows: Windows) -> Asking {
        let client = Client::new(Nanos::ZERO, server, "localhost", windows);
        Asking { client, socket: socket(server), server, began: Instant::now() }
    }

    /// Connects to a server.
    pub fn to(server: &Server) -> Asking {
        let mut asking = Asking::new(server.address);
        asking.until("a handshake", |client| client.is_connected);
        asking.client.hello();
        asking
    }

    /// Connects with windows that let hardly a byte of a body through, and requests this number of responses.
    pub fn stalled(server: &Server, requests: u32) -> Asking {
        let mut asking = Asking::with_windows(server.address, Windows { stream: 64, connection: 1 << 20 });
        asking.until("a handshake", |client| client.is_connected);
        asking.client.hello();
        for _ in 0..requests {
            asking.ask("/");
        }
        asking.acknowledge();
        asking
    }

    fn now(&self) -> Nanos {
        self.began.elapsed().into()
    }

    /// Continues until the condition is true.
    fn until(&mut self, what: &str, is_so: impl Fn(&Client) -> bool) {
        let began = Instant::now();
        while !is_so(&self.client) {
            assert!(began.elapsed() < PATIENCE, "no {what}; lost: {:?}", self.client.lost);
            self.go_on();
        }
    }

    /// Sends and receives everything available.
    fn go_on(&mut self) {
        let mut datagram = [0; 2048];
        let now = self.now();
        while let Some(datagram) = self.client.transmit(now) {
            let _ = self.socket.send_to(&datagram, self.server);
        }
        if let Ok((bytes, _)) = self.socket.recv_from(&mut datagram) {
            let now = self.now();
            self.client.receive(now, &datagram[..bytes]);
        }
        let now = self.now();
        if self.client.timeout().is_some_and(|at| at <= now) {
            self.client.on_timeout(now);
        }
    }

    /// Continues until the received data is acknowledged, which QUIC may delay for 25 ms (RFC 9000 section 18.2).
    fn acknowledge(&mut self) {
        let until = self.now() + Nanos::from_millis(50);
        while self.now() < until {
            self.go_on();
        }
    }

    fn ask(&mut self, path: &str) -> u32 {
        self.client.request(path, &[])
    }

    /// Sends a request with these fields.
    pub fn ask_with(&mut self, path: &str, fields: &[(&str, &str)]) -> u32 {
        self.client.request(path, fields)
    }

    pub fn answer(&mut self, stream: u32) -> Response {
        self.until("whole response", |client| client.response(stream).is_whole);
        self.client.response(stream)
    }

    pub fn get(&mut self, path: &str) -> Response {
        let stream = self.ask(path);
        self.answer(stream)
    }

    /// Sends a request with this body in one frame.
    pub fn post(&mut self, path: &str, body: &[u8]) -> Response {
        let stream = self.client.open();
        let fields = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
        let bytes = [frame(HEADERS, &section(&fields)), frame(DATA, body)].concat();
        let mut sent = 0;
        let began = Instant::now();
        while sent < bytes.len() {
            assert!(began.elapsed() < PATIENCE, "{sent} bytes of a request are sent");
            sent += self.client.offer(id(stream), &bytes[sent..]);
            self.go_on();
        }
        self.client.finish(id(stream));
        self.answer(stream)
    }

    /// Sends a request whose body begins and does not continue.
    pub fn begin_post(&mut self, path: &str, part: &[u8]) -> Response {
        let stream = self.client.open();
        let fields = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
        self.client.send(id(stream), &[frame(HEADERS, &section(&fields)), frame(DATA, part)].concat());
        self.answer(stream)
    }

    /// Sends a request with these fields alone, whose stream the server resets.
    pub fn is_reset(&mut self, fields: &[(&str, &str)]) {
        let stream = self.client.open();
        self.client.send(id(stream), &frame(HEADERS, &literals(fields)));
        self.client.finish(id(stream));
        self.until("reset", |client| client.came(id(stream)).reset.is_some());
    }

    /// Sends bytes on a request's stream, which end the connection. Returns the code.
    pub fn breaks(&mut self, bytes: &[u8]) -> Option<u64> {
        let stream = self.client.open();
        self.client.send(id(stream), bytes);
        self.close_code()
    }

    /// Begins a large response.
    pub fn begin_large(&mut self) -> u32 {
        let stream = self.ask(&format!("/size-{LARGE}"));
        self.until("first bytes", |client| !client.response(stream).body.is_empty());
        stream
    }

    fn is_large(&mut self, stream: u32) -> bool {
        self.answer(stream).body == content(LARGE)
    }

    /// The code with which the server has closed the connection.
    fn close_code(&mut self) -> Option<u64> {
        self.until("end", |client| client.lost.is_some());
        let code = self.client.close_code();
        assert!(code.is_some(), "{:?}", self.client.lost);
        code
    }
}

/// A section of literals with the names as they are (RFC 9204 section 4.5.6), shorter than 127 bytes each.
fn literals(fields: &[(&str, &str)]) -> Vec<u8> {
    let name = |name: &str| match name.len() {
        bytes @ ..7 => vec![0x20 | bytes as u8],
        bytes => vec![0x27, (bytes - 7) as u8],
    };
    let field =
        |(of, value): &(&str, &str)| [&name(of)[..], of.as_bytes(), &[value.len() as u8], value.as_bytes()].concat();
    [vec![0, 0], fields.iter().flat_map(field).collect()].concat()
}

/// A socket with an address of the same family.
fn socket(server: SocketAddr) -> UdpSocket {
    socket_at(if server.is_ipv6() { "[::1]:0" } else { "127.0.0.1:0" })
}

fn socket_at(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_millis(2))).unwrap();
    socket
}

fn site() -> Site {
    Site::of_sizes(&[10, 5000, LARGE])
}

#[test]
fn many_at_once_are_answered_whole_and_logged() {
    for path in [&["--shaping", "off", "--workers", "1"][..], &["--uplink", "1gbit", "--shaping", "paced"]] {
        let site = site();
        let server = Server::start(&site, &[&["--tls-self-signed", "--access-log", "-"], path].concat());
        let mut asking = Asking::to(&server);
        let sizes = [10, 5000, LARGE, 10, 5000].repeat(8);
        let streams: Vec<(usize, u32)> =
            sizes.iter().map(|size| (*size, asking.ask(&format!("/size-{size}")))).collect();
        for (size, stream) in streams {
            let response = asking.answer(stream);
            assert_eq!(response.field(":status"), Some("200"));
            assert!(response.body == content(size), "{size} bytes on stream {stream}");
            assert_eq!(response.field("alt-svc"), None, "it is here already");
        }
        assert_eq!(asking.get("/nothing").field(":status"), Some("404"));
        let is_logged = |line: &String| line.contains("\"GET /size-10 HTTP/3.0\" 200 10 ");
        wait_until("lines of all", || server.stdout().iter().filter(|line| is_logged(line)).count() == 16);
    }
}

#[test]
fn it_is_spoken_over_ipv6() {
    let site = site();
    let server = Server::start_at("[::1]:0", &site, &SLOW);
    let mut asking = Asking::to(&server);
    assert!(asking.get("/size-5000").body == content(5000));
    let both = Server::start_at("[::]:0", &site, &SLOW);
    let mut over_ipv4 = Asking::new(SocketAddr::new("127.0.0.1".parse().unwrap(), both.address.port()));
    over_ipv4.until("a handshake", |client| client.is_connected);
    over_ipv4.client.hello();
    assert!(over_ipv4.get("/size-5000").body == content(5000));
}

/// Each connection belongs to one event loop, and keeps it when its client's address changes.
#[test]
fn a_client_that_moves_keeps_its_download() {
    let site = site();
    let server =
        Server::start(&site, &["--tls-self-signed", "--shaping", "off", "--workers", "3", "--client-rate", "16mbit"]);
    for _ in 0..6 {
        let mut asking = Asking::to(&server);
        let stream = asking.begin_large();
        asking.socket = socket(server.address);
        assert!(asking.is_large(stream));
        asking.client.close(Nanos::ZERO, 0);
    }
}

/// The source address of a datagram may be forged: class and line are those of the handshake's address.
#[test]
fn a_client_that_moves_is_whom_its_handshake_was_with() {
    let site = site();
    Made::new(&site, "own", &["localhost"]);
    let text = format!(
        "[server]\naccess_log = '-'\nlog_format = 'json'\n[uplink]\nshaping = 'off'\n\
         [[class]]\nname = 'home'\n[[class.rule]]\nnetwork = '127.0.0.1/32'\n\
         [[class]]\nname = 'elsewhere'\n[[class.rule]]\nnetwork = '127.0.0.2/32'\n\
         [[listener]]\naddress = '127.0.0.1:0'\ntls = true\n\
         [[site]]\nroot = '{}'\ncert = 'own.pem'\nkey = 'own.key'\n",
        site.served().display(),
    );
    std::fs::write(site.outside("weir.toml"), text).unwrap();
    let server = Server::run(&site.outside("weir.toml"));
    let mut asking = Asking::to(&server);
    assert_eq!(asking.get("/size-10").body.len(), 10);
    for from in ["127.0.0.1:0", "127.0.0.2:0"] {
        asking.socket = socket_at(from);
        (0..2).for_each(|_| assert_eq!(asking.get("/size-10").body.len(), 10));
    }
    let is_logged = |line: &String| {
        [
            r#""remote_addr":"127.0.0.1""#,
            r#""uri":"/size-10","host":""#,
            r#","protocol":"HTTP/3.0","status":200"#,
            r#""class":"home""#,
        ]
        .iter()
        .all(|part| line.contains(part))
    };
    wait_until("lines of all", || server.stdout().iter().filter(|line| is_logged(line)).count() == 5);
}

#[test]
fn responses_over_tls_say_where_it_is() {
    let site = site();
    let tells = |server: &Server, scheme: &str, how: &str| {
        let url = format!("{scheme}://localhost:{}/size-10", server.address.port());
        let curl = Command::new("curl").args(["-skSI", "--max-time", "60", how, &url]).output().unwrap();
        let head = String::from_utf8_lossy(&curl.stdout).to_ascii_lowercase();
        assert!(head.contains("200"), "{head}");
        head.lines().find_map(|line| line.strip_prefix("alt-svc: ").map(String::from))
    };
    let server = Server::start(&site, &["--tls-self-signed"]);
    let told = format!("h3=\":{}\"; ma=86400", server.address.port());
    assert_eq!(tells(&server, "https", "--http1.1").as_deref(), Some(&*told));
    assert_eq!(tells(&server, "https", "--http2").as_deref(), Some(&*told));
    assert!(server.stdout()[0].contains(&format!("HTTP/3 over UDP at {}", server.address)));
    let without = Server::start(&site, &["--tls-self-signed", "--no-http3"]);
    assert_eq!(tells(&without, "https", "--http2"), None);
    UdpSocket::bind(without.address).expect("nobody has the port of UDP");
    assert_eq!(tells(&Server::start(&site, &[]), "http", "--http1.1"), None);
}

#[test]
fn a_port_of_udp_that_is_taken_is_named() {
    let site = site();
    let served = site.served();
    for workers in ["1", "2"] {
        // Free for TCP when it was checked; another test may take it, but not for UDP.
        let (_taken, address) = std::iter::repeat_with(|| UdpSocket::bind("127.0.0.1:0").unwrap())
            .map(|taken| (taken.local_addr().unwrap(), taken))
            .find(|(address, _)| TcpListener::bind(address).is_ok())
            .map(|(address, taken)| (taken, address.to_string()))
            .unwrap();
        let started = run_to_end(&[
            "serve",
            served.to_str().unwrap(),
            "--listen",
            &address,
            "--tls-self-signed",
            "--shaping",
            "off",
            "--workers",
            workers,
        ]);
        assert_eq!(started.status.code(), Some(1));
        let said = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(
            said.contains(&format!("cannot serve HTTP/3 at {address}: another program uses this UDP port")),
            "{said}"
        );
    }
}

#[test]
fn a_stopping_server_finishes_its_responses() {
    let site = site();
    let server = Server::start(&site, &SLOW);
    let mut asking = Asking::to(&server);
    let stream = asking.begin_large();
    let mut idle = Asking::to(&server);
    assert_eq!(idle.get("/size-10").body.len(), 10);
    server.signal(Signal::TERM);
    assert_eq!(idle.close_code(), Some(NO_ERROR));
    assert!(asking.is_large(stream));
    assert_eq!(asking.close_code(), Some(NO_ERROR));
    assert_eq!(server.exit_status().code(), Some(0));
}

#[test]
fn an_idle_connection_ends_without_an_error() {
    let site = site();
    let server = Server::start(&site, &["--tls-self-signed", "--idle-timeout", "1s"]);
    let mut asking = Asking::to(&server);
    assert_eq!(asking.get("/size-10").body.len(), 10);
    // It is not silent, so QUIC's own timeout is not involved.
    let began = Instant::now();
    while asking.client.lost.is_none() && began.elapsed() < PATIENCE {
        asking.client.ping();
        let until = Instant::now() + std::time::Duration::from_millis(200);
        asking.until("moment", |client| Instant::now() >= until || client.lost.is_some());
    }
    assert_eq!(asking.client.close_code(), Some(NO_ERROR));
}

#[test]
fn one_client_has_so_many_connections_and_learns_why_not_more() {
    let site = site();
    let server = Server::start(&site, &["--tls-self-signed", "--client-connections", "1"]);
    let mut first = Asking::to(&server);
    assert_eq!(first.get("/size-10").body.len(), 10);
    let mut second = Asking::new(server.address);
    second.until("refusal", |client| client.lost.is_some());
    let why = second.client.lost.as_ref().unwrap().to_string();
    assert!(why.contains("refused"), "{why}");
    assert_eq!(first.get("/size-10").body.len(), 10);
}

/// The longest idle connection makes room, as over TCP.
#[test]
fn with_all_places_taken_an_idle_connection_gives_way() {
    let site = site();
    for workers in ["1", "3"] {
        let flags = ["--tls-self-signed", "--connections", "2", "--client-connections", "0"];
        let flags = [&flags[..], &["--shaping", "off", "--workers", workers]].concat();
        let server = Server::start(&site, &flags);
        let mut asking: Vec<Asking> = (0..2).map(|_| Asking::to(&server)).collect();
        for asking in &mut asking {
            assert_eq!(asking.get("/size-10").body.len(), 10);
            asking.acknowledge();
        }
        let mut third = Asking::to(&server);
        assert_eq!(third.get("/size-10").body.len(), 10);
        if workers == "1" {
            assert_eq!(asking[0].close_code(), Some(NO_ERROR));
            assert_eq!(asking[1].get("/size-10").body.len(), 10);
        }
    }
}

#[test]
fn garbage_beside_it_hurts_nobody() {
    let site = site();
    let server = Server::start(&site, &SLOW);
    let mut asking = Asking::to(&server);
    let stream = asking.begin_large();
    let stranger = socket(server.address);
    for at in 0..2000u32 {
        let mut datagram = vec![0; (at % 1400) as usize];
        for (place, byte) in datagram.iter_mut().enumerate() {
            *byte = (at.wrapping_mul(2_654_435_761).wrapping_add(place as u32 * 40_503) >> 7) as u8;
        }
        let _ = stranger.send_to(&datagram, server.address);
    }
    assert!(asking.is_large(stream));
    server.assert_alive();
}

/// A client's protocol error is logged, and its connection ends with a reason.
#[test]
fn a_mistake_ends_the_connection_with_its_code() {
    let site = site();
    let server = Server::start(&site, &["--tls-self-signed"]);
    let mut asking = Asking::new(server.address);
    asking.until("a handshake", |client| client.is_connected);
    // A control stream that begins with DATA (RFC 9114 section 6.2.1).
    asking.client.uni(&[0, 0, 1, 7]);
    assert_eq!(asking.close_code(), Some(0x10a));
    wait_until("a line about it", || server.stderr().iter().any(|line| line.contains("HTTP/3 ended with 127.0.0.1:")));
    assert_eq!(Asking::to(&server).get("/size-10").body.len(), 10);
}

#[test]
fn a_request_that_is_not_wanted_any_more_is_not_sent() {
    let site = site();
    let server = Server::start(&site, &[&SLOW[..], &["--access-log", "-"]].concat());
    let mut asking = Asking::to(&server);
    let stream = asking.begin_large();
    asking.client.stop(stream, 0x10c);
    assert_eq!(asking.get("/size-5000").body.len(), 5000);
    wait_until("its line", || {
        let of_it = |line: &String| line.contains(&format!("/size-{LARGE} HTTP/3.0\" 200 "));
        server.stdout().iter().any(|line| of_it(line) && !line.contains(&format!(" 200 {LARGE} ")))
    });
}
