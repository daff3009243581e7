//! Connections of HTTP/3 that send requests and never read the responses, for `cargo xtask attack`: they measure what a
//! server holds for responses that it cannot send.
//!
//! The other modules account for each job; here no job ever ends. Each stream has a window of 64 bytes, which no read
//! ever reopens. Only servers on loopback are contacted.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use quinn_proto::{Dir, Event, StreamEvent, StreamId};
use units::Nanos;

use super::fault::NO_ERROR;
use super::quic::{Quic, QuicConfig};
use super::{CONTROL_STREAM, headers};
use crate::clock::Clock;
use crate::{Protocol, Tls};

/// The window of each stream in bytes, which holds the beginning of a response's head.
const WINDOW_BYTES: u32 = 64;
/// Connections that are opened at the same time.
const AT_ONCE: usize = 64;
/// The time limit for the handshake and the beginning of every response; then the connection is given up.
const ANSWER: Duration = Duration::from_secs(10);
/// The wait after all responses have begun, for acknowledgements that may be delayed by 25 ms (RFC 9000 section 18.2).
const LINGER: Nanos = Nanos::from_millis(40);
const PAUSE: Duration = Duration::from_millis(1);
/// The interval at which held connections are served.
const HOLD_EVERY: Duration = Duration::from_secs(1);
/// The number of connections closed in one batch, such that their datagrams fit the smallest buffer of a server's
/// socket.
const ENDS_AT_ONCE: usize = 32;
const DATAGRAMS_PER_TURN_MAX: usize = 256;
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// The source address. An honest client uses 127.0.0.1, as with the attacks over TCP, so a server sees two clients.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The requests of each connection, the number of connections, and the time until which they are held.
pub struct Stall {
    pub target: SocketAddr,
    pub path: String,
    pub connections: u32,
    pub requests: u32,
    pub until: Instant,
}

/// Connections that are held open.
pub struct Stalled {
    clock: Clock,
    held: Vec<Held>,
    looked_at: Instant,
    scratch: Vec<u8>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    given_up: u32,
    answered: u64,
    upload_bytes: u64,
}

struct Held {
    quic: Quic,
    socket: UdpSocket,
    is_asked: bool,
    /// Streams on which a response has begun.
    begun: HashSet<StreamId>,
    whole_at: Option<Nanos>,
}

impl Stalled {
    /// Opens the connections, and serves each until every response has begun.
    pub fn open(stall: &Stall) -> io::Result<Stalled> {
        if !stall.target.ip().is_loopback() {
            return Err(io::Error::other(format!("{} is not on loopback: nothing is sent there", stall.target)));
        }
        let tls = Tls::new(false, Protocol::Http3 { streams: 1 });
        let config = QuicConfig::with(tls.config(), WINDOW_BYTES, None);
        let (clock, scratch) = (Clock::start(), vec![0; DATAGRAM_BYTES_MAX]);
        let mut all = Stalled { clock, held: vec![], looked_at: Instant::now(), scratch, tally: Tally::default() };
        let mut left = stall.connections as usize;
        while left > 0 && Instant::now() < stall.until {
            let count = left.min(AT_ONCE);
            left -= count;
            let opening = (0..count).map(|_| Held::connect(&config, stall.target, clock.now()));
            all.shake(stall, opening.collect::<io::Result<_>>()?);
            all.hold();
        }
        Ok(all)
    }

    /// Serves these connections until all their responses have begun, and keeps those for which this succeeds.
    fn shake(&mut self, stall: &Stall, mut opening: Vec<Held>) {
        let until = Instant::now() + ANSWER;
        while !opening.is_empty() && Instant::now() < until {
            let mut waiting = vec![];
            for mut one in opening {
                let served = one.serve(Some(stall), &self.clock, &mut self.scratch, &mut self.tally);
                let is_settled = one.whole_at.is_some_and(|at| self.clock.now() >= at + LINGER);
                match served {
                    Err(_) => self.tally.given_up += 1,
                    Ok(()) if is_settled => {
                        self.tally.answered += std::mem::take(&mut one.begun).len() as u64;
                        self.held.push(one);
                    }
                    Ok(()) => waiting.push(one),
                }
            }
            opening = waiting;
            sleep(PAUSE);
        }
        self.tally.given_up += opening.len() as u32;
    }

    /// Responds to the server once a second, and drops connections that the server has ended.
    pub fn hold(&mut self) {
        if self.looked_at.elapsed() < HOLD_EVERY {
            return;
        }
        let Stalled { clock, held, scratch, tally, .. } = self;
        let before = held.len();
        held.retain_mut(|one| one.serve(None, clock, scratch, tally).is_ok());
        tally.given_up += (before - held.len()) as u32;
        self.looked_at = Instant::now();
    }

    pub fn held(&self) -> usize {
        self.held.len()
    }

    pub fn given_up(&self) -> u32 {
        self.tally.given_up
    }

    /// The number of responses that have begun.
    pub fn answered(&self) -> u64 {
        self.tally.answered
    }

    pub fn upload_bytes(&self) -> u64 {
        self.tally.upload_bytes
    }

    /// Closes all connections, as fast as a server's socket accepts it.
    pub fn close(mut self) {
        for (at, one) in self.held.iter_mut().enumerate() {
            one.quic.close(self.clock.now(), NO_ERROR);
            // The server may be gone.
            let _ = one.send(&self.clock, &mut self.tally);
            if at % ENDS_AT_ONCE == ENDS_AT_ONCE - 1 {
                sleep(PAUSE);
            }
        }
    }
}

impl Held {
    fn connect(config: &QuicConfig, target: SocketAddr, now: Nanos) -> io::Result<Held> {
        let socket = UdpSocket::bind((SOURCE, 0))?;
        socket.connect(target)?;
        socket.set_nonblocking(true)?;
        let quic = Quic::connect(config, target, now).map_err(io::Error::other)?;
        Ok(Held { quic, socket, is_asked: false, begun: HashSet::new(), whole_at: None })
    }

    /// Processes received datagrams and expired timers; returns an error if the connection is lost. Sends the requests
    /// of `asked` once the connection is established.
    fn serve(&mut self, asked: Option<&Stall>, clock: &Clock, scratch: &mut [u8], tally: &mut Tally) -> io::Result<()> {
        for _ in 0..DATAGRAMS_PER_TURN_MAX {
            match self.socket.recv(scratch) {
                Ok(bytes) => self.quic.receive(clock.now(), None, &scratch[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if self.quic.due().is_some_and(|at| at <= clock.now()) {
            self.quic.on_time(clock.now());
        }
        while let Some(event) = self.quic.poll() {
            match event {
                Event::ConnectionLost { reason } => return Err(io::Error::other(reason.to_string())),
                Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Bi && self.whole_at.is_none() => {
                    self.begun.insert(id);
                }
                _ => {}
            }
        }
        if let Some(stall) = asked {
            self.ask(stall)?;
            let is_whole = self.is_asked && self.begun.len() == stall.requests as usize;
            self.whole_at = self.whole_at.or(is_whole.then(|| clock.now()));
        }
        self.send(clock, tally)
    }

    fn ask(&mut self, stall: &Stall) -> io::Result<()> {
        let connection = self.quic.connection();
        if self.is_asked || connection.is_handshaking() {
            return Ok(());
        }
        self.is_asked = true;
        let request = headers("localhost", &stall.path, None);
        let asked = std::iter::repeat_n((Dir::Bi, &request[..]), stall.requests as usize);
        for (dir, bytes) in std::iter::once((Dir::Uni, CONTROL_STREAM)).chain(asked) {
            let id = connection.streams().open(dir).ok_or_else(|| io::Error::other("no more streams"))?;
            let mut stream = connection.send_stream(id);
            let written = stream.write(bytes).map_err(io::Error::other)?;
            if written < bytes.len() {
                return Err(io::Error::other("no window for a request"));
            }
            if dir == Dir::Bi {
                stream.finish().map_err(io::Error::other)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, clock: &Clock, tally: &mut Tally) -> io::Result<()> {
        let mut out = vec![];
        for _ in 0..DATAGRAMS_PER_TURN_MAX {
            if self.quic.transmit(clock.now(), &mut out).is_none() {
                break;
            }
            match self.socket.send(&out) {
                Ok(bytes) => tally.upload_bytes += bytes as u64,
                // The datagram counts as lost on its way.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stall(target: SocketAddr) -> Stall {
        Stall { target, path: "/x".into(), connections: 2, requests: 3, until: Instant::now() + ANSWER }
    }

    #[test]
    fn others_than_loopback_are_not_asked_and_nobody_is_no_connection() {
        assert!(Stalled::open(&stall(([192, 0, 2, 1], 443).into())).is_err());
        let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let all = Stalled::open(&stall(free)).unwrap();
        assert_eq!((all.held(), all.given_up(), all.answered()), (0, 2, 0));
    }
}
