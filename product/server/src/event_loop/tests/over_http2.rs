//! HTTP/2 connections: requests on streams, and the ends of both.

use http2::testing::{
    Came, DATA, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, frame, frames, hello, request, wide,
};
use socket2::SockRef;

use super::logged::{LARGE, Logged};
use super::*;
use crate::files::fake_disk::FakeDisk;
use crate::net::Transport;

/// Turns in which everything that was sent over loopback has come.
const TURNS_MAX: usize = 100;
const POLICIES: [&str; 2] = ["fair", "srpt"];

/// A client that reads frames.
pub(super) struct Framed {
    stream: TcpStream,
    received: Vec<u8>,
    pub(super) came: Vec<Came>,
    has_ended: bool,
}

impl Bench {
    pub(super) fn connect_http2(&self) -> Framed {
        let stream = TcpStream::connect(self.address).unwrap();
        let mut client = Framed { stream, received: Vec::new(), came: Vec::new(), has_ended: false };
        client.send(&[hello(), wide()].concat());
        client
    }

    /// Runs turns until `is_enough` returns true of what arrived.
    pub(super) fn turn_until_came(&mut self, client: &mut Framed, is_enough: impl Fn(&Framed) -> bool) {
        for _ in 0..100_000 {
            client.read();
            if is_enough(client) {
                return;
            }
            self.turn();
            std::thread::yield_now();
        }
        panic!("it does not come: {:?}", client.kinds());
    }
}

impl Framed {
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.stream.set_nonblocking(false).unwrap();
        self.stream.write_all(bytes).unwrap();
    }

    fn read(&mut self) {
        self.stream.set_nonblocking(true).unwrap();
        match self.stream.read_to_end(&mut self.received) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => self.has_ended = true,
        }
        self.came.extend(frames(&mut self.received));
    }

    fn kinds(&self) -> Vec<(u8, u32)> {
        self.came.iter().map(|(kind, _, stream, _)| (*kind, *stream)).collect()
    }

    /// The body of a stream that has ended.
    pub(super) fn body(&self, number: u32) -> Option<Vec<u8>> {
        let of_stream = || self.came.iter().filter(|frame| frame.2 == number && matches!(frame.0, DATA | HEADERS));
        let has_ended = of_stream().any(|frame| frame.1 & END_STREAM != 0);
        has_ended.then(|| of_stream().filter(|frame| frame.0 == DATA).flat_map(|frame| frame.3.clone()).collect())
    }

    pub(super) fn has(&self, kind: u8) -> bool {
        self.came.iter().any(|frame| frame.0 == kind)
    }
}

#[test]
fn streams_are_answered_and_each_has_its_line() {
    for policy in POLICIES {
        let mut logged = Logged::new("http2", policy, |root| root);
        let mut client = logged.bench.connect_http2();
        let part = request(3, "/a", &[("range", "bytes=1-3")]);
        client.send(&[request(1, "/a", &[]), part, request(5, "/absent", &[])].concat());
        logged
            .bench
            .turn_until_came(&mut client, |client| [1, 3, 5].iter().all(|number| client.body(*number).is_some()));
        assert_eq!(
            (client.body(1).unwrap(), client.body(3).unwrap()),
            (FILE.to_vec(), FILE[1..=3].to_vec()),
            "{policy}"
        );
        let mut rows = logged.turn_until(3);
        let opened = logged.connections;
        rows.sort_by_key(|row| row.content_length);
        let what: Vec<_> = rows.iter().map(|row| (row.status, row.body_bytes, row.outcome.as_str())).collect();
        let absent = client.body(5).unwrap().len() as u64;
        assert_eq!(what, [(206, 3, "complete"), (200, 5, "complete"), (404, absent, "complete")]);
        assert!(rows.iter().all(|row| row.head_bytes > 50), "{rows:?}");
        assert_eq!(opened, 1, "one of them opened the connection");
    }
}

/// It used to be taken for an HTTP/1.1 request and refused.
#[test]
fn a_preface_may_come_in_parts() {
    let mut bench = Bench::new("http2-parts", "srpt");
    for part_bytes in [1, 7, 15, 16, 23] {
        let stream = TcpStream::connect(bench.address).unwrap();
        let mut client = Framed { stream, received: Vec::new(), came: Vec::new(), has_ended: false };
        let all = [hello(), wide(), request(1, "/a", &[])].concat();
        for part in all.chunks(part_bytes) {
            client.send(part);
            bench.turn();
        }
        bench.turn_until_came(&mut client, |client| client.body(1).is_some());
        assert_eq!(client.body(1).unwrap(), FILE, "in parts of {part_bytes}");
    }
}

#[test]
fn a_head_has_no_body_and_a_mistake_is_an_answer() {
    let mut bench = Bench::new("http2-head", "srpt");
    let mut client = bench.connect_http2();
    let head = http2::testing::block(&[(":method", "HEAD"), (":scheme", "http"), (":authority", "a"), (":path", "/a")]);
    let unknown =
        http2::testing::block(&[(":method", "BREW"), (":scheme", "http"), (":authority", "a"), (":path", "/a")]);
    client.send(&[frame(HEADERS, 5, 1, &head), frame(HEADERS, 5, 3, &unknown)].concat());
    bench.turn_until_came(&mut client, |client| client.body(1).is_some() && client.body(3).is_some());
    assert_eq!(client.body(1).unwrap(), b"");
    assert!(String::from_utf8_lossy(&client.body(3).unwrap()).starts_with("405 "));
    assert_eq!(bench.worker.responder.connections.len(), 1, "the connection stays");
}

/// Requests beyond a turn's share arrive at once: all are answered, in several turns.
#[test]
fn a_flood_of_requests_is_answered_in_turns() {
    let mut bench = Bench::new("http2-many", "srpt");
    let mut client = bench.connect_http2();
    let numbers: Vec<u32> = (0..100).map(|nth| 1 + 2 * nth).collect();
    client.send(&numbers.iter().flat_map(|number| request(*number, "/a", &[])).collect::<Vec<_>>());
    bench.turn_until_came(&mut client, |client| numbers.iter().all(|number| client.body(*number).is_some()));
    assert!(numbers.iter().all(|number| client.body(*number).unwrap() == FILE));
    bench.turn();
    let streams = bench.worker.responder.connections.iter().next().unwrap().1.protocol.streams().unwrap();
    assert!(streams.is_idle() && streams.room() <= 4);
}

#[test]
fn a_find_aside_answers_its_own_stream() {
    for policy in POLICIES {
        let disk = FakeDisk::of(&["cold"]);
        disk.set_hanging(true);
        let mut bench =
            Bench::with(&format!("http2-cold-{policy}"), policy, Pace::UNLIMITED, |root| root.on(disk.clone()));
        std::fs::write(bench.folder.join("cold"), "cold file").unwrap();
        let mut client = bench.connect_http2();
        client.send(&[request(1, "/cold", &[]), request(3, "/cold", &[]), request(5, "/a", &[])].concat());
        bench.turn_until_came(&mut client, |client| client.body(5).is_some());
        assert_eq!((client.body(1), client.body(3)), (None, None));
        client.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
        (0..3).for_each(|_| bench.turn());
        disk.set_hanging(false);
        bench.turn_until_came(&mut client, |client| client.body(3).is_some());
        assert_eq!((client.body(1), client.body(3)), (None, Some(b"cold file".to_vec())), "{policy}");
    }
}

#[test]
fn who_cancels_or_leaves_has_a_line_for_each_response() {
    for policy in POLICIES {
        let mut logged = Logged::new("http2-left", policy, |root| root);
        let mut client = logged.bench.connect_http2();
        client.send(&[request(1, "/large", &[]), request(3, "/large", &[])].concat());
        logged.bench.turn_until_came(&mut client, |client| client.has(DATA));
        client.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
        let rows = logged.turn_until(1);
        assert_eq!((rows[0].status, rows[0].outcome.as_str()), (200, "reset"), "{policy}");
        drop(client);
        let rows = logged.turn_until(1);
        assert!(rows[0].outcome == "reset" && rows[0].body_bytes < LARGE as u64, "{rows:?}");
        (0..3).for_each(|_| logged.bench.turn());
        assert!(
            logged.bench.worker.responder.connections.is_empty()
                && logged
                    .bench
                    .worker
                    .responder
                    .transmitter
                    .is_idle(&logged.bench.worker.responder.connections, Nanos::ZERO)
        );
    }
}

/// The socket was full when the last response was cancelled: the waiting frames used to be dropped, and the GOAWAY with
/// them.
#[test]
fn a_connection_ends_when_its_client_has_taken_the_last_frames() {
    let mut bench = Bench::new("http2-last", "srpt");
    std::fs::write(bench.folder.join("huge"), vec![b'x'; 16 << 20]).unwrap();
    let mut client = bench.connect_http2();
    client.send(&request(1, "/huge", &[]));
    let is_full = |bench: &mut Bench| {
        let at = bench.worker.responder.connections.slots(|_| true)[0];
        bench.worker.responder.connections.frames_bytes(at) > 0
    };
    let mut has_filled = (0..100_000).map(|_| {
        bench.turn();
        let at = bench.worker.responder.connections.slots(|_| true)[0];
        // On a busy processor a turn may end before the settings have left.
        bench.worker.responder.connections[at].delivery.was_full && is_full(&mut bench)
    });
    assert!(has_filled.any(|is_full| is_full));
    // The kernel would enlarge the buffer with the next packet that arrives.
    let at = bench.worker.responder.connections.slots(|_| true)[0];
    let Transport::Tcp(socket) = &bench.worker.responder.connections[at].socket else { panic!() };
    SockRef::from(socket).set_send_buffer_size(1).unwrap();
    client.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    let at = bench.worker.responder.connections.slots(|_| true)[0];
    bench.worker.responder.end(at, Transmitter::leave);
    (0..10).for_each(|_| bench.turn());
    assert!(is_full(&mut bench), "the client has not read");
    bench.turn_until_came(&mut client, |client| client.has_ended);
    assert!(client.has(GOAWAY), "{:?}", client.kinds().last());
}

#[test]
fn a_flood_ends_its_connection_and_no_other() {
    let mut bench = Bench::new("http2-flood", "srpt");
    let (mut flood, mut other) = (bench.connect_http2(), bench.connect_http2());
    flood.send(&[request(1, "/a", &[]), frame(PING, 0, 0, &[0; 8]).repeat(1_100)].concat());
    other.send(&request(1, "/a", &[]));
    bench.turn_until_came(&mut flood, |client| client.has_ended);
    let (.., reason) = flood.came.iter().find(|frame| frame.0 == GOAWAY).expect("it is told why");
    assert_eq!(reason[7], 11, "ENHANCE_YOUR_CALM");
    bench.turn_until_came(&mut other, |client| client.body(1).is_some());
    assert_eq!(other.body(1).unwrap(), FILE);
}

/// 10,486 connections with 100 stalled streams once ended the worker: more jobs than the scheduler may have.
#[test]
fn more_stalled_streams_than_there_is_room_for_end_the_next_connection_alone() {
    let mut bench = Bench::new("http2-full", "srpt");
    bench.worker.responder.service.admission.set_streams_max(3);
    let mut stalled = bench.connect_http2();
    let zero_window = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    stalled.send(&[zero_window, request(1, "/a", &[]), request(3, "/a", &[]), request(5, "/a", &[])].concat());
    bench.turn_until_came(&mut stalled, |client| client.came.iter().filter(|frame| frame.0 == HEADERS).count() == 3);
    let mut next = bench.connect_http2();
    next.send(&request(1, "/a", &[]));
    bench.turn_until_came(&mut next, |client| client.has_ended);
    assert!(!next.has(HEADERS) && bench.worker.responder.connections.streams() == 3);
    stalled.stream.shutdown(std::net::Shutdown::Both).unwrap();
    bench.turn_until_came(&mut stalled, |client| client.has_ended);
    (0..3).for_each(|_| bench.turn());
    let mut later = bench.connect_http2();
    later.send(&request(1, "/a", &[]));
    bench.turn_until_came(&mut later, |client| client.body(1).is_some());
    drop(later);
    while !bench.worker.responder.connections.is_empty() {
        bench.turn();
    }
    assert_eq!(bench.worker.responder.connections.streams(), 0);
}

#[test]
fn a_stopping_server_says_farewell_and_finishes() {
    let mut bench = Bench::new("http2-stop", "srpt");
    std::fs::write(bench.folder.join("large"), vec![b'x'; LARGE]).unwrap();
    let (mut busy, mut idle) = (bench.connect_http2(), bench.connect_http2());
    busy.send(&request(1, "/large", &[]));
    idle.send(&request(1, "/a", &[]));
    bench.turn_until_came(&mut idle, |client| client.body(1).is_some());
    bench.turn_until_came(&mut busy, |client| client.has(DATA));
    assert!(!bench.worker.stop(), "a response is under way");
    bench.turn_until_came(&mut idle, |client| client.has_ended);
    assert!(idle.has(GOAWAY));
    bench.turn_until_came(&mut busy, |client| client.body(1).is_some());
    assert!(busy.has(GOAWAY) && busy.body(1).unwrap().len() == LARGE);
    bench.turn_until_came(&mut busy, |client| client.has_ended);
    assert!(!bench.worker.stop(), "until the clients have seen the end");
    drop((busy, idle));
    (0..3).for_each(|_| bench.turn());
    assert!(bench.worker.stop());
}

/// Its first request was about to arrive.
#[test]
fn a_client_without_an_answer_has_one_from_a_server_that_stops() {
    let mut bench = Bench::new("http2-stop-new", "srpt");
    let (mut new, mut silent) = (bench.connect_http2(), bench.connect_http2());
    for client in [&mut new, &mut silent] {
        bench.turn_until_came(client, |client| client.has(SETTINGS));
    }
    assert!(!bench.worker.stop(), "they have had no answer");
    new.send(&request(1, "/a", &[]));
    bench.turn_until_came(&mut new, |client| client.has_ended);
    assert!(new.has(GOAWAY) && new.body(1).as_deref() == Some(FILE));
    // The other sends nothing, and is left after two seconds.
    silent.read();
    assert!(!silent.has_ended);
    bench.worker.responder.timers.set(bench.worker.responder.timers.now() + Nanos::from_secs(2));
    for at in bench.worker.responder.connections.slots(|conn| !conn.is_lingering()) {
        bench.worker.look_at(at);
    }
    bench.turn_until_came(&mut silent, |client| client.has_ended);
    assert!(silent.has(GOAWAY));
}

/// A client with a window so small that the rest of its response stays with the server, which is stopping and has sent
/// everything.
fn slow_client_of_stopping(bench: &mut Bench, bytes: usize) -> Framed {
    std::fs::write(bench.folder.join("large"), vec![b'x'; bytes]).unwrap();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&bench.address.into()).unwrap();
    let mut client = Framed { stream: socket.into(), received: Vec::new(), came: Vec::new(), has_ended: false };
    client.send(&[hello(), request(1, "/large", &[])].concat());
    while bench.worker.responder.connections.iter().all(|(_, conn)| !conn.has_answered) {
        bench.turn();
    }
    assert!(!bench.worker.stop());
    while !bench.worker.responder.connections.iter().any(|(_, conn)| conn.is_lingering()) {
        bench.turn();
    }
    client.stream.set_nonblocking(true).unwrap();
    client
}

/// Ends lingering, as two seconds later.
fn end_lingering(bench: &mut Bench) {
    let now = bench.worker.responder.timers.client_now();
    for at in bench.worker.responder.connections.slots(|conn| conn.is_lingering()) {
        bench.worker.responder.connections[at].http1().wait_until(now);
    }
    bench.worker.responder.timers.hasten_sweep();
    bench.turn();
}

/// Two seconds after its last response, the connection of a slow client used to be closed: its next frame reset it, and
/// the rest was lost.
#[test]
fn a_slow_client_has_the_end_of_its_response_from_a_server_that_stops() {
    const BYTES: usize = 40_000;
    let mut bench = Bench::new("http2-stop-slow", "srpt");
    let mut client = slow_client_of_stopping(&mut bench, BYTES);
    let mut seen_bytes = 0;
    while !client.has_ended {
        end_lingering(&mut bench);
        let _ = client.stream.write_all(&frame(PING, 0, 0, &[0; 8]));
        // Some more, or the end.
        let until = seen_bytes + 4_000;
        while !client.has_ended && seen_bytes < until {
            client.read();
            seen_bytes = client.received.len() + client.came.iter().map(|(.., payload)| payload.len()).sum::<usize>();
            std::thread::yield_now();
        }
    }
    assert_eq!(client.body(1).map(|body| body.len()), Some(BYTES));
}

/// A client that takes nothing more is not awaited.
#[test]
fn a_client_that_takes_no_more_is_left_by_a_server_that_stops() {
    let mut bench = Bench::new("http2-stop-stalled", "srpt");
    let client = slow_client_of_stopping(&mut bench, 40_000);
    // It took some of it before.
    (0..2).for_each(|_| end_lingering(&mut bench));
    assert!(bench.worker.stop());
    drop(client);
}

#[test]
fn an_idle_connection_is_let_go_with_a_word() {
    let mut bench = Bench::new("http2-idle", "srpt");
    let mut client = bench.connect_http2();
    client.send(&request(1, "/a", &[]));
    bench.turn_until_came(&mut client, |client| client.body(1).is_some());
    bench.turn();
    let deadline = bench.worker.responder.connections.iter().next().unwrap().1.deadline();
    assert!(
        deadline > bench.worker.responder.timers.client_now()
            && deadline <= bench.worker.responder.timers.client_now() + bench.worker.responder.limits.idle_timeout
    );
    bench.worker.responder.timers.set_to(deadline);
    bench.worker.sweep();
    bench.turn_until_came(&mut client, |client| client.has_ended);
    assert!(client.has(GOAWAY));
    drop(client);
    (0..3).for_each(|_| bench.turn());
    assert!(bench.worker.responder.connections.is_empty());
}

#[test]
fn a_connection_that_gives_way_hears_so() {
    let mut bench = Bench::new("http2-room", "srpt");
    let mut client = bench.connect_http2();
    client.send(&request(1, "/a", &[]));
    bench.turn_until_came(&mut client, |client| client.body(1).is_some());
    bench.turn();
    while !bench.worker.responder.give_up_idle(Nanos::ZERO) {
        bench.turn();
    }
    assert!(bench.worker.responder.connections.is_empty());
    bench.turn_until_came(&mut client, |client| client.has_ended);
    assert!(client.has(GOAWAY));
}

/// An HTTP/1.1 request that begins like the preface is still a request.
#[test]
fn only_the_preface_begins_http2() {
    let mut bench = Bench::new("http2-not", "srpt");
    let mut client = bench.connect();
    client.send("PRI /a HTTP/1.1\r\nHost: a\r\n\r\n");
    while client.stream.set_nonblocking(true).is_ok() && client.stream.peek(&mut [0]).is_err() {
        bench.turn();
    }
    let mut text = [0; 12];
    client.stream.peek(&mut text).unwrap();
    assert_eq!(&text, b"HTTP/1.1 405");
}

/// The initial windows of HTTP/2.
const WINDOW_BYTES: usize = 65_535;

/// An HTTP/2 client over TLS that has requested a large file.
pub(super) struct Asking {
    pub(super) tls: rustls::ClientConnection,
    pub(super) stream: TcpStream,
}

impl Asking {
    fn new(bench: &mut Bench) -> Asking {
        // It keeps its initial windows, so the response stops long before its end.
        Asking::over(bench, "h2", &[hello(), request(1, "/large", &[])].concat())
    }

    pub(super) fn over(bench: &mut Bench, protocol: &str, request: &[u8]) -> Asking {
        std::fs::write(bench.folder.join("large"), vec![b'x'; LARGE]).unwrap();
        let mut config = tls::testing::client_config(&[&rustls::version::TLS13]);
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let tls = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(bench.address).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut client = Asking { tls, stream };
        while client.tls.is_handshaking() || client.tls.wants_write() {
            client.flush();
            bench.turn();
            if client.tls.read_tls(&mut client.stream).is_ok() {
                client.tls.process_new_packets().unwrap();
            }
        }
        client.tls.writer().write_all(request).unwrap();
        client
    }

    fn flush(&mut self) {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.stream).unwrap();
        }
    }
}

/// A client like this used to be read again and again, and no other.
#[test]
fn a_client_of_tls_may_end_while_it_is_answered() {
    let mut bench = Bench::secured("http2-ended");
    let mut client = Asking::new(&mut bench);
    client.tls.writer().write_all(&wide()).unwrap();
    client.tls.send_close_notify();
    client.flush();
    while !bench.worker.responder.connections.is_empty() {
        let _ = client.stream.read(&mut [0; 65_536]);
        bench.turn();
    }
    bench.turn();
    assert!(bench.worker.responder.transmitter.is_idle(&bench.worker.responder.connections, Nanos::ZERO));
}

/// The end of TLS without the end of TCP, as Go's CloseWrite, used to be noticed with the next event.
#[test]
fn a_client_that_ends_its_tls_alone_is_let_go() {
    let cut = &b"GET /a HTTP/1.1\r\nHost: loc"[..];
    let whole = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (protocol, sent) in [("http/1.1", &b""[..]), ("http/1.1", cut), ("http/1.1", whole), ("h2", &hello())] {
        let mut bench = Bench::secured("tls-ended");
        let mut client = Asking::over(&mut bench, protocol, sent);
        client.stream.set_nodelay(true).unwrap();
        client.flush();
        (0..TURNS_MAX).for_each(|_| bench.turn());
        assert_eq!(bench.worker.responder.connections.len(), 1, "{protocol}");
        client.tls.send_close_notify();
        client.flush();
        (0..TURNS_MAX).for_each(|_| bench.turn());
        assert!(bench.worker.responder.connections.is_empty(), "{protocol}, {} bytes", sent.len());
    }
}

/// A client like this used to end the server over HTTP/2. Over HTTP/1.1 it is not read while it is answered.
#[test]
fn a_client_whose_tls_breaks_while_it_is_answered_costs_nobody_else() {
    let no_record = &b"no record at all, and none to follow it"[..];
    let wrong_keys = &[&[23, 3, 3, 0, 20][..], &[0; 20]].concat();
    for garbage in [no_record, wrong_keys] {
        for protocol in ["h2", "http/1.1"] {
            let mut bench = Bench::secured("http2-broken");
            let mut client = match protocol {
                "h2" => Asking::new(&mut bench),
                _ => Asking::over(&mut bench, protocol, b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            };
            client.flush();
            let mut bytes = 0;
            while bytes < WINDOW_BYTES {
                bytes += client.stream.read(&mut [0; 4096]).unwrap_or(0);
                bench.turn();
            }
            client.stream.write_all(garbage).unwrap();
            while !bench.worker.responder.connections.is_empty() {
                bytes += client.stream.read(&mut [0; 1 << 16]).unwrap_or(0);
                bench.turn();
            }
            bench.turn();
            assert!(bench.worker.responder.transmitter.is_idle(&bench.worker.responder.connections, Nanos::ZERO));
            assert_eq!(bytes > 2 * WINDOW_BYTES, protocol == "http/1.1", "{protocol}: {bytes}");
            Asking::new(&mut bench);
        }
    }
}
