//! A slow line in front of a server, without privileges: a relay with a single queue for the bytes to all clients, like
//! a modem.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use units::Rate;

/// The payload of a packet. The next constant is the size of its headers on Ethernet.
const PACKET_BYTES: usize = 1448;
const HEADER_BYTES: u64 = 66;
/// The maximum number of queued packets: 120 ms at 10 Mbit/s.
pub const QUEUED_MAX: usize = 100;
/// The maximum number of connections; more are closed.
const CONNECTIONS_MAX: usize = 64;
/// The time after which a client that reads nothing is disconnected, because it would delay the others.
const STALL_MAX: Duration = Duration::from_secs(2);

struct Client {
    stream: TcpStream,
    is_gone: AtomicBool,
}

/// Bytes for a client; an empty packet marks the end.
struct Packet {
    to: Arc<Client>,
    bytes: Vec<u8>,
    queued_at: Instant,
}

struct Relay {
    rate: Rate,
    queue: Mutex<VecDeque<Packet>>,
    changed: Condvar,
    connections: AtomicUsize,
}

/// Starts a line with this rate in front of the server at this address. Returns the line's address.
pub fn start(rate: Rate, server: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let line =
        Arc::new(Relay { rate, queue: Mutex::default(), changed: Condvar::new(), connections: AtomicUsize::new(0) });
    let sender = Arc::clone(&line);
    thread::Builder::new().name("demo-line".into()).spawn(move || sender.send())?;
    thread::Builder::new().name("demo-accept".into()).spawn(move || {
        for client in listener.incoming().flatten() {
            // If there is no room, or no memory for a thread, the client is disconnected.
            let _ = line.connect(client, server);
        }
    })?;
    Ok(address)
}

impl Relay {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Packet>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(self: &Arc<Relay>, client: TcpStream, server: SocketAddr) -> io::Result<()> {
        if self.connections.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
            return Ok(());
        }
        let server = connect(server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        client.set_write_timeout(Some(STALL_MAX))?;
        let (mut requests, mut asked) = (client.try_clone()?, server.try_clone()?);
        thread::Builder::new().name("demo-up".into()).spawn(move || {
            let _ = io::copy(&mut requests, &mut asked);
            let _ = asked.shutdown(Shutdown::Write);
        })?;
        let line = Arc::clone(self);
        self.connections.fetch_add(1, Ordering::Relaxed);
        let spawned = thread::Builder::new().name("demo-down".into()).spawn(move || {
            line.queue_all(server, client);
            line.connections.fetch_sub(1, Ordering::Relaxed);
        });
        spawned.map(drop).inspect_err(|_| {
            self.connections.fetch_sub(1, Ordering::Relaxed);
        })
    }

    /// Queues one packet at a time, as soon as there is room, until the server's response ends or the client
    /// disconnects.
    fn queue_all(&self, mut server: TcpStream, client: TcpStream) {
        let to = Arc::new(Client { stream: client, is_gone: AtomicBool::new(false) });
        loop {
            let mut bytes = vec![0; PACKET_BYTES];
            let read = server.read(&mut bytes).unwrap_or(0);
            bytes.truncate(read);
            let full = |queue: &mut VecDeque<Packet>| queue.len() >= QUEUED_MAX;
            let mut queue = self.changed.wait_while(self.queue(), full).unwrap_or_else(PoisonError::into_inner);
            queue.push_back(Packet { to: Arc::clone(&to), bytes, queued_at: Instant::now() });
            drop(queue);
            self.changed.notify_all();
            if read == 0 || to.is_gone.load(Ordering::Relaxed) {
                let _ = server.shutdown(Shutdown::Both);
                return;
            }
        }
    }

    /// Sends packets in order of arrival, at the line's rate.
    fn send(&self) {
        let mut free_at = Instant::now();
        loop {
            let empty = |queue: &mut VecDeque<Packet>| queue.is_empty();
            let queue = self.changed.wait_while(self.queue(), empty).unwrap_or_else(PoisonError::into_inner);
            let Some(packet) = queue.front() else { continue };
            let wire_bytes = packet.bytes.len() as u64 + HEADER_BYTES;
            let (queued_at, taken) = (packet.queued_at, Duration::from(self.rate.time_for(wire_bytes)));
            drop(queue);
            // A thread that wakes late does not slow the line down.
            free_at = free_at.max(queued_at) + taken;
            thread::sleep(free_at.saturating_duration_since(Instant::now()));
            let packet = self.queue().pop_front();
            self.changed.notify_all();
            packet.iter().for_each(Packet::deliver);
        }
    }
}

/// Connects with the packet size of a line instead of loopback's, because a server counts headers towards its rate.
fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None)?;
    socket.set_tcp_mss(PACKET_BYTES as u32)?;
    socket.connect(&server.into())?;
    Ok(socket.into())
}

impl Packet {
    fn deliver(&self) {
        let Client { stream, is_gone } = &*self.to;
        let is_over = self.bytes.is_empty() || (&*stream).write_all(&self.bytes).is_err();
        if is_over && !is_gone.swap(true, Ordering::Relaxed) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends this to every client, and ends.
    fn server(bytes: Vec<u8>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let bytes = bytes.clone();
                thread::spawn(move || (&client).write_all(&bytes));
            }
        });
        address
    }

    #[test]
    fn every_client_has_all_bytes_in_order_and_a_client_that_leaves_holds_nobody_up() {
        let sent: Vec<u8> = (0..300_000u32).flat_map(|at| at.to_le_bytes()).collect();
        let rate = units::Rate::from_bits_per_s(1_000_000_000).unwrap();
        let address = start(rate, server(sent.clone())).unwrap();
        drop(TcpStream::connect(address).unwrap());
        let clients = [(); 3].map(|()| TcpStream::connect(address).unwrap());
        for mut client in clients {
            let mut read = Vec::new();
            client.read_to_end(&mut read).unwrap();
            assert!(read == sent, "{} of {} bytes", read.len(), sent.len());
        }
    }
}
