//! Our own bytes below us: the connections that have packets in a queue of this host.
//!
//! A queueing discipline counts everybody's bytes; TCP counts, for each of its connections, the memory of the packets that
//! it has sent and that have not left yet. The connections written to lately are few when responses are paced, so asking
//! each is cheap, and done only when the queue is longer than the clock explains.

use super::Socket;

/// Connections remembered at most; more packets than this are never below us by our own doing. Of what is forgotten the bytes
/// count as foreign until they have left.
const REMEMBERED_MAX: usize = 256;

/// Wire bytes of packets whose memory is this much, as near as can be said: 1,514 bytes of a full segment occupy 2,304 to
/// 2,560, short ones relatively more.
fn wire_bytes_of(memory_bytes: u64) -> u64 {
    memory_bytes * 5 / 8
}

/// Holds its sockets, and with them their descriptors, until they have nothing below: a few milliseconds.
pub struct Below<S> {
    /// Each with its owner's number; the one written to last stands last.
    sockets: Vec<(u64, S)>,
}

impl<S: Socket + Clone> Below<S> {
    pub fn new() -> Below<S> {
        Below { sockets: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Something was written to this socket.
    pub fn on_written(&mut self, owner: u64, socket: &S) {
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
        self.sockets.push((owner, socket.clone()));
    }

    /// Wire bytes of ours below us, about; zero is exact. Forgets the connections that have none.
    pub fn bytes(&mut self) -> u64 {
        let mut bytes = 0;
        self.sockets.retain(|(_, socket)| {
            // A socket that does not tell cannot be held against anybody.
            let own = wire_bytes_of(socket.queued_below_bytes().unwrap_or(0));
            bytes += own;
            own > 0
        });
        bytes
    }
}
