//! Our own bytes below TCP: the connections that have packets in a queue of this host.
//!
//! A queueing discipline counts the bytes of all senders. For each connection, TCP counts the memory of the packets
//! that it has passed down and that have not left yet. If responses are paced, few connections were written to
//! recently, so asking the kernel about each of them is cheap. These queries are made only if the queue is longer than
//! the clock explains.

use sched::Watched;

use crate::connection::Connections;
use crate::net::Shared;
use crate::net::Socket;

/// The maximum number of sockets remembered. In practice, no more than this have packets below TCP; the bytes of a
/// forgotten socket count as cross traffic until they have left.
const REMEMBERED_MAX: usize = 256;

/// Estimates the wire bytes of packets from their memory. The 1,514 bytes of a full segment occupy 2,304 to 2,560
/// bytes; short packets occupy relatively more.
fn wire_bytes_of(memory_bytes: u64) -> u64 {
    memory_bytes * 5 / 8
}

/// The sockets that may have packets below TCP. A connection that has ended counts as empty: its client has usually
/// read everything, and the bytes left of an aborted one count as cross traffic.
pub(super) struct Below {
    /// The sockets, the one written to last at the end.
    sockets: Vec<Known>,
    /// The number of the socket written to last, if TCP passed down all bytes of that write.
    whole: Option<u64>,
    watch: Option<Watch>,
}

/// A socket that may have packets below TCP.
struct Known {
    /// The token of the connection, or the number of a socket shared by many.
    number: u64,
    /// The slot of the connection that wrote to the socket last.
    at: usize,
    shared: Option<Shared>,
    /// The memory of the socket's packets below TCP when it was last examined.
    memory_bytes: u64,
}

impl Known {
    fn queued_bytes(&self, connections: &Connections<impl Socket>) -> Option<u64> {
        if let Some(shared) = &self.shared {
            return uplink::queued_below_bytes(shared).ok().map(u64::from);
        }
        connections.get(self.at).filter(|connection| connection.token == self.number)?.socket.queued_below_bytes()
    }
}

/// A write that is watched until its bytes have left this host. Because the bytes written after it are known, the
/// packet memory of its socket shows when that is.
struct Watch {
    number: u64,
    behind_bytes: u64,
    state: Watched,
}

impl Below {
    pub fn new() -> Below {
        Below { sockets: Vec::new(), whole: None, watch: None }
    }

    /// Records that bytes were written to this connection.
    pub fn on_written(&mut self, at: usize, connections: &Connections<impl Socket>) {
        let connection = &connections[at];
        let number = connection.number_below();
        self.whole = None;
        match self.sockets.iter().rposition(|known| known.number == number) {
            Some(place) => self.sockets[place..].rotate_left(1),
            None => {
                self.make_room(connections);
                let shared = connection.socket.shared().map(|(_, shared)| shared);
                self.sockets.push(Known { number, at, shared, memory_bytes: 0 });
            }
        }
    }

    fn make_room(&mut self, connections: &Connections<impl Socket>) {
        if self.sockets.len() >= REMEMBERED_MAX {
            self.bytes(connections);
        }
        if self.sockets.len() >= REMEMBERED_MAX {
            let forgotten = self.sockets.remove(0).number;
            self.watch = self.watch.take().filter(|watch| watch.number != forgotten);
        }
    }

    /// Examines the socket that was written to last. If TCP passed down all `payload_bytes`, the memory of the socket's
    /// packets grew by more than that. Bytes that TCP holds back cannot be watched, because nothing shows when they
    /// leave.
    pub fn look(&mut self, payload_bytes: u64, connections: &Connections<impl Socket>) {
        let Some(known) = self.sockets.last_mut() else { return };
        let Some(memory_bytes) = known.queued_bytes(connections) else { return };
        let grown_bytes = memory_bytes.saturating_sub(known.memory_bytes);
        known.memory_bytes = memory_bytes;
        let is_whole = grown_bytes >= payload_bytes;
        self.whole = is_whole.then_some(known.number);
        if let Some(watch) = self.watch.as_mut().filter(|watch| watch.number == known.number) {
            if is_whole {
                watch.behind_bytes += grown_bytes;
            } else {
                self.watch = None;
            }
        }
    }

    /// Starts to watch the last write. Returns false if its bytes cannot be told apart from others.
    pub fn watch(&mut self) -> bool {
        let Some(number) = self.whole.take() else { return false };
        self.watch = Some(Watch { number, behind_bytes: 0, state: Watched::Waits });
        true
    }

    /// The state of the watched write at the last count.
    pub fn watched(&self) -> Watched {
        self.watch.as_ref().map_or(Watched::Nothing, |watch| watch.state)
    }

    /// Returns an estimate of our wire bytes below TCP; zero is exact. Forgets the sockets that have none.
    pub fn bytes(&mut self, connections: &Connections<impl Socket>) -> u64 {
        let (mut bytes, watch) = (0, &mut self.watch);
        self.sockets.retain_mut(|known| {
            // A socket that reports nothing counts as empty.
            let memory_bytes = known.queued_bytes(connections);
            if watch.as_ref().is_some_and(|watch| watch.number == known.number) {
                watch_on(watch, known.memory_bytes, memory_bytes);
            }
            known.memory_bytes = memory_bytes.unwrap_or(0);
            bytes += wire_bytes_of(known.memory_bytes);
            known.memory_bytes > 0
        });
        bytes
    }
}

/// Updates the watch from the packet memory of its socket before and now. Ends the watch if TCP sent something by
/// itself, such as a retransmission, which cannot be told apart from the written bytes.
fn watch_on(watch: &mut Option<Watch>, before_bytes: u64, memory_bytes: Option<u64>) {
    match (memory_bytes, watch.as_mut()) {
        (Some(bytes), Some(one)) if bytes <= one.behind_bytes => one.state = Watched::Left,
        (Some(bytes), Some(_)) if bytes <= before_bytes => {}
        _ => *watch = None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch_of(behind_bytes: u64) -> Option<Watch> {
        Some(Watch { number: 1, behind_bytes, state: Watched::Waits })
    }

    #[test]
    fn what_is_watched_has_left_when_only_what_was_written_behind_it_is_left() {
        for (before, now, behind, state) in [
            (4000, Some(4000), 0, Watched::Waits),
            (4000, Some(2000), 0, Watched::Waits),
            (4000, Some(0), 0, Watched::Left),
            (4000, Some(2001), 2000, Watched::Waits),
            (4000, Some(2000), 2000, Watched::Left),
            // TCP sent something by itself, or the socket reports nothing.
            (2000, Some(4000), 0, Watched::Nothing),
            (2000, None, 0, Watched::Nothing),
        ] {
            let mut watch = watch_of(behind);
            watch_on(&mut watch, before, now);
            assert_eq!(watch.map_or(Watched::Nothing, |watch| watch.state), state, "{before} {now:?} {behind}");
        }
    }
}
