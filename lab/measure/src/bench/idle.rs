//! Measures the memory of an idle connection: many connections make one request each and then stay open.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;
use socket2::{Domain, Socket, Type};

use super::plan::KB;
use super::procfs;
use super::server::{Bench, Instance, Kind, get};

pub const CONNECTIONS: u32 = 10_000;

/// The number of connections from each local address, because Weir accepts a quarter of its connections from one
/// client.
const CONNECTIONS_PER_ADDRESS: u32 = CONNECTIONS / 5;

/// The time that a server may take to free memory that a request needed and an idle connection does not.
const SETTLE: Duration = Duration::from_millis(500);

/// The time limit of an answer, beyond which the row is void.
const ANSWER: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize)]
pub struct Idle {
    pub server: &'static str,
    pub connections: u32,
    /// The resident memory of the server's processes after its first request, and with all connections open.
    pub resident_bytes_without: u64,
    pub resident_bytes_with: u64,
    pub void: Option<String>,
}

impl Idle {
    pub fn bytes_per_connection(&self) -> Option<f64> {
        let more = self.resident_bytes_with as f64 - self.resident_bytes_without as f64;
        self.void.is_none().then_some(more / f64::from(self.connections))
    }
}

/// Measures each server freshly started, because one that has been under load keeps memory, which idle connections
/// would then seem not to need.
pub fn run(bench: &Bench, kinds: &[Kind]) -> Result<Vec<Idle>, String> {
    kinds.iter().map(|&kind| weigh(bench, kind)).collect()
}

fn weigh(bench: &Bench, kind: Kind) -> Result<Idle, String> {
    eprintln!("idle connections of {}", kind.name());
    let instance = Instance::start(bench, kind, &[KB])?;
    sleep(SETTLE);
    let resident_bytes_without = procfs::resident_bytes(instance.pid());
    let opened: io::Result<Vec<TcpStream>> = (0..CONNECTIONS).map(|at| open(instance.address(), at)).collect();
    sleep(SETTLE);
    let resident_bytes_with = procfs::resident_bytes(instance.pid());
    let void = match opened {
        Err(e) => Some(format!("cannot hold {CONNECTIONS} connections: {e}")),
        Ok(streams) => {
            let closed = streams.iter().filter(|stream| !is_open(stream)).count();
            (closed > 0).then(|| format!("the server closed {closed} of {CONNECTIONS} idle connections"))
        }
    };
    let server = kind.name();
    Ok(Idle { server, connections: CONNECTIONS, resident_bytes_without, resident_bytes_with, void })
}

/// Opens connection number `at` and performs one request.
fn open(server: SocketAddr, at: u32) -> io::Result<TcpStream> {
    let mut stream = connect(server, at)?;
    get(&mut stream, KB)?;
    Ok(stream)
}

/// Opens connection number `at`.
pub fn connect(server: SocketAddr, at: u32) -> io::Result<TcpStream> {
    let source = Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + 1 + at / CONNECTIONS_PER_ADDRESS);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((IpAddr::V4(source), 0)).into())?;
    socket.connect(&server.into())?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(ANSWER))?;
    Ok(stream)
}

/// Returns true if the connection is open: there is nothing to read yet. An end or an error means that the server has
/// closed it.
pub fn is_open(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    matches!(stream.peek(&mut [0]), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn memory_is_shared_out_over_connections() {
        let idle = |void| Idle {
            server: "weir",
            connections: 10_000,
            resident_bytes_without: 1_000_000,
            resident_bytes_with: 21_000_000,
            void,
        };
        assert_eq!(idle(None).bytes_per_connection(), Some(2000.0));
        assert_eq!(idle(Some("closed".into())).bytes_per_connection(), None);
    }

    #[test]
    fn a_closed_connection_is_noticed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert!(is_open(&client));
        drop(server);
        client.set_nonblocking(false).unwrap();
        let _ = client.peek(&mut [0]).unwrap();
        assert!(!is_open(&client));
    }
}
