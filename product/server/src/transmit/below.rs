//! Our own bytes below us: the connections that have packets in a queue of this host.
//!
//! A queueing discipline counts everybody's bytes; TCP counts, for each of its connections, the memory of the packets that
//! it has sent and that have not left yet. The connections written to lately are few when responses are paced, so asking
//! each is cheap, and done only when the queue is longer than the clock explains.

use super::TcpView;

/// Connections remembered at most; more packets than this are never below us by our own doing. Of what is forgotten the bytes
/// count as foreign until they have left.
const REMEMBERED_MAX: usize = 256;

/// Wire bytes of packets whose memory is this much, as near as can be said: 1,514 bytes of a full segment occupy 2,304 to
/// 2,560, short ones relatively more.
fn wire_bytes_of(memory_bytes: u64) -> u64 {
    memory_bytes * 5 / 8
}

/// Keeps no socket open: one that is closed has been read to its end by a client, and has nothing below.
pub struct Below<S: TcpView> {
    /// Each with its owner's number; the one written to last stands last.
    sockets: Vec<(u64, S::Weak)>,
}

impl<S: TcpView> Below<S> {
    pub fn new() -> Below<S> {
        Below { sockets: Vec::new() }
    }

    /// Something was written to this socket.
    pub fn on_written(&mut self, owner: u64, socket: &S) {
        let owner = socket.number_below(owner);
        if let Some(at) = self.sockets.iter().rposition(|(known, _)| *known == owner) {
            self.sockets[at..].rotate_left(1);
            return;
        }
        if self.sockets.len() >= REMEMBERED_MAX {
            self.bytes();
        }
        if self.sockets.len() >= REMEMBERED_MAX {
            self.sockets.remove(0);
        }
        self.sockets.push((owner, socket.downgrade()));
    }

    /// Wire bytes of ours below us, about; zero is exact. Forgets the connections that have none.
    pub fn bytes(&mut self) -> u64 {
        let mut bytes = 0;
        self.sockets.retain(|(_, socket)| {
            // A socket that does not tell cannot be held against anybody.
            let memory_bytes = S::upgrade(socket).and_then(|socket| socket.queued_below_bytes());
            let own = wire_bytes_of(memory_bytes.unwrap_or(0));
            bytes += own;
            own > 0
        });
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transmit::Connection;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

    /// Remembered sockets were closed up to a second late, and their clients saw no FIN for as long.
    #[test]
    fn no_socket_is_kept_open() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"x").unwrap();
        let socket = Connection::from(OwnedFd::from(listener.accept().unwrap().0));
        let mut below = Below::new();
        below.on_written(1, &socket);
        assert_eq!((socket.holders(), below.sockets.len()), (1, 1));
        drop(socket);
        assert_eq!((below.bytes(), below.sockets.len()), (0, 0));
    }
}
