//! The floods over QUIC. The connections are of the product's client for tests, which here reads nothing: a stream has
//! room for the beginning of a response's head, and the server holds what it cannot send.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use quic::testing::{Client, Dir, Windows, request};
use units::Nanos;

const WINDOWS: Windows = Windows { stream: 64, connection: 1 << 26 };
/// The source address. An honest client uses 127.0.0.1, as with the attacks over TCP, so a server sees two clients.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Connections that are opened at the same time.
const AT_ONCE: usize = 64;
/// The time limit for the handshake and the beginning of every response; then the connection is given up.
const ANSWER: Duration = Duration::from_secs(10);
/// The wait after all responses have begun, for acknowledgements that may be delayed by 25 ms (RFC 9000 section 18.2).
const LINGER: Duration = Duration::from_millis(40);
const PAUSE: Duration = Duration::from_millis(1);
/// The interval at which held connections are served.
const HOLD_EVERY: Duration = Duration::from_secs(1);
/// The interval of their PINGs, with which neither side thinks that the other is gone.
const PING_EVERY: Duration = Duration::from_secs(10);
/// The connections closed in one batch, whose datagrams fit the smallest buffer of a server's socket.
const ENDS_AT_ONCE: usize = 32;
const DATAGRAMS_PER_TURN_MAX: usize = 256;
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// H3_NO_ERROR.
const NO_ERROR: u32 = 0x100;

/// Connections that a thread holds; dropping this closes them.
pub struct Quic {
    pub held: u32,
    pub given_up: u32,
    /// The responses that have begun.
    pub answered: u64,
    pub upload_bytes: u64,
    is_over: Arc<AtomicBool>,
    holder: Option<JoinHandle<()>>,
}

impl Quic {
    /// Opens the connections, asks `requests` times for `path` on each, and serves each until all its responses have begun.
    pub fn open(
        server: SocketAddr,
        path: &str,
        connections: u32,
        requests: u32,
        deadline: Instant,
    ) -> io::Result<Quic> {
        assert!(server.ip().is_loopback(), "attacks stay on loopback");
        let asks = Asks { bytes: request(path, &[]), count: requests as usize };
        let (mut held, mut looked_at) = (Vec::new(), Instant::now());
        let mut opened = 0;
        while opened < connections as usize && Instant::now() < deadline {
            let count = AT_ONCE.min(connections as usize - opened);
            opened += count;
            let opening = (0..count).map(|_| Held::connect(server)).collect::<io::Result<Vec<Held>>>()?;
            held.extend(begun(opening, &asks));
            hold(&mut held, &mut looked_at);
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let mut quic = Quic {
            held: held.len() as u32,
            given_up: (opened - held.len()) as u32,
            answered: (held.len() * asks.count) as u64,
            upload_bytes: held.iter().map(|one| one.upload_bytes).sum(),
            is_over: Arc::clone(&is_over),
            holder: None,
        };
        quic.holder = Some(thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                hold(&mut held, &mut looked_at);
                sleep(PAUSE * 20);
            }
            close(held);
        }));
        Ok(quic)
    }
}

impl Drop for Quic {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.holder.take().map(JoinHandle::join);
    }
}

/// The requests of each connection.
struct Asks {
    bytes: Vec<u8>,
    count: usize,
}

struct Held {
    client: Client,
    socket: UdpSocket,
    since: Instant,
    pinged_at: Instant,
    is_asked: bool,
    whole_at: Option<Instant>,
    upload_bytes: u64,
}

impl Held {
    fn connect(server: SocketAddr) -> io::Result<Held> {
        let socket = UdpSocket::bind((SOURCE, 0))?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        let mut client = Client::sparing(Nanos::ZERO, server, "localhost", WINDOWS);
        client.is_deaf = true;
        let since = Instant::now();
        Ok(Held { client, socket, since, pinged_at: since, is_asked: false, whole_at: None, upload_bytes: 0 })
    }

    /// Takes what has arrived and sends what is due; an error if the connection is lost. Asks once it is established.
    fn serve(&mut self, asks: Option<&Asks>) -> io::Result<()> {
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        for _ in 0..DATAGRAMS_PER_TURN_MAX {
            match self.socket.recv(&mut datagram) {
                Ok(bytes) => self.client.receive(self.since.elapsed().into(), &datagram[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let now = Nanos::from(self.since.elapsed());
        if self.client.timeout().is_some_and(|at| at <= now) {
            self.client.on_timeout(now);
        }
        if let Some(lost) = &self.client.lost {
            return Err(io::Error::other(lost.to_string()));
        }
        if let Some(asks) = asks.filter(|_| self.client.is_connected) {
            if !std::mem::replace(&mut self.is_asked, true) {
                self.ask(asks)?;
            }
            let is_whole = self.client.begun() == asks.count;
            self.whole_at = self.whole_at.or(is_whole.then(Instant::now));
        }
        self.send()
    }

    fn ask(&mut self, Asks { bytes, count }: &Asks) -> io::Result<()> {
        self.client.hello();
        for _ in 0..*count {
            let id = self.client.try_open(Dir::Bi).ok_or_else(|| io::Error::other("no more streams"))?;
            if self.client.offer(id, bytes) < bytes.len() {
                return Err(io::Error::other("no window for a request"));
            }
            self.client.try_finish(id);
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        for _ in 0..DATAGRAMS_PER_TURN_MAX {
            let Some(datagram) = self.client.transmit(self.since.elapsed().into()) else { break };
            match self.socket.send(&datagram) {
                Ok(bytes) => self.upload_bytes += bytes as u64,
                // The datagram counts as lost on its way.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Serves these connections until all their responses have begun. Returns those for which this succeeds.
fn begun(mut opening: Vec<Held>, asks: &Asks) -> Vec<Held> {
    let (mut held, until) = (Vec::new(), Instant::now() + ANSWER);
    while !opening.is_empty() && Instant::now() < until {
        opening.retain_mut(|one| one.serve(Some(asks)).is_ok());
        held.extend(opening.extract_if(.., |one| one.whole_at.is_some_and(|at| at.elapsed() >= LINGER)));
        sleep(PAUSE);
    }
    held
}

/// Serves connections once a second, and drops those that the server has ended.
fn hold(held: &mut Vec<Held>, looked_at: &mut Instant) {
    if looked_at.elapsed() < HOLD_EVERY {
        return;
    }
    held.retain_mut(|one| {
        if one.pinged_at.elapsed() >= PING_EVERY {
            one.pinged_at = Instant::now();
            one.client.ping();
        }
        one.serve(None).is_ok()
    });
    *looked_at = Instant::now();
}

/// Closes all connections, as fast as a server's socket accepts it.
fn close(held: Vec<Held>) {
    for (at, mut one) in held.into_iter().enumerate() {
        one.client.close(one.since.elapsed().into(), NO_ERROR);
        // The server may be gone.
        let _ = one.send();
        if at % ENDS_AT_ONCE == ENDS_AT_ONCE - 1 {
            sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_no_connection() {
        let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let quic = Quic::open(free, "/x", 2, 3, Instant::now() + ANSWER).unwrap();
        assert_eq!((quic.held, quic.given_up, quic.answered), (0, 2, 0));
    }
}
