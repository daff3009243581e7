//! Our own bytes below us: the connections that have packets in a queue of this host.
//!
//! A queueing discipline counts everybody's bytes; TCP counts, for each of its connections, the memory of the packets that
//! it has sent and that have not left yet. The connections written to lately are few when responses are paced, so asking
//! each is cheap, and done only when the queue is longer than the clock explains.

use sched::Watched;

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
    /// The one written to last stands last.
    sockets: Vec<Known<S::Weak>>,
    /// The owner of the last write, if all of it is below.
    whole: Option<u64>,
    watch: Option<Watch>,
}

/// A socket that may have packets below.
struct Known<W> {
    /// Its owner's number.
    owner: u64,
    socket: W,
    /// Of its packets below, when it was last looked at.
    memory_bytes: u64,
}

/// A write that is watched until it has left, by the memory of its socket's packets: those written behind it are known.
struct Watch {
    owner: u64,
    behind_bytes: u64,
    state: Watched,
}

impl<S: TcpView> Below<S> {
    pub fn new() -> Below<S> {
        Below { sockets: Vec::new(), whole: None, watch: None }
    }

    /// Something was written to this socket.
    pub fn on_written(&mut self, owner: u64, socket: &S) {
        let owner = socket.number_below(owner);
        self.whole = None;
        match self.sockets.iter().rposition(|known| known.owner == owner) {
            Some(at) => self.sockets[at..].rotate_left(1),
            None => self.remember(owner, socket),
        }
    }

    fn remember(&mut self, owner: u64, socket: &S) {
        if self.sockets.len() >= REMEMBERED_MAX {
            self.bytes();
        }
        if self.sockets.len() >= REMEMBERED_MAX {
            let forgotten = self.sockets.remove(0).owner;
            self.watch = self.watch.take().filter(|watch| watch.owner != forgotten);
        }
        self.sockets.push(Known { owner, socket: socket.downgrade(), memory_bytes: 0 });
    }

    /// Looks at the socket that was written to last, whether this much payload went down: packets occupy more memory than that. What TCP
    /// keeps cannot be watched, and leaves at a time that nobody notices.
    pub fn look(&mut self, payload_bytes: u64) {
        let Some(known) = self.sockets.last_mut() else { return };
        let Some(memory_bytes) = S::upgrade(&known.socket).and_then(|socket| socket.queued_below_bytes()) else {
            return;
        };
        let grown_bytes = memory_bytes.saturating_sub(known.memory_bytes);
        known.memory_bytes = memory_bytes;
        let is_whole = grown_bytes >= payload_bytes;
        self.whole = is_whole.then_some(known.owner);
        if let Some(watch) = self.watch.as_mut().filter(|watch| watch.owner == known.owner) {
            if is_whole {
                watch.behind_bytes += grown_bytes;
            } else {
                self.watch = None;
            }
        }
    }

    /// Watches the last write, if it can be told from others.
    pub fn watch(&mut self) -> bool {
        let Some(owner) = self.whole.take() else { return false };
        self.watch = Some(Watch { owner, behind_bytes: 0, state: Watched::Waits });
        true
    }

    /// The write that is watched, as the last count found it.
    pub fn watched(&self) -> Watched {
        self.watch.as_ref().map_or(Watched::Nothing, |watch| watch.state)
    }

    /// Wire bytes of ours below us, about; zero is exact. Forgets the connections that have none.
    pub fn bytes(&mut self) -> u64 {
        let (mut bytes, watch) = (0, &mut self.watch);
        self.sockets.retain_mut(|known| {
            // A socket that does not tell cannot be held against anybody.
            let memory_bytes = S::upgrade(&known.socket).and_then(|socket| socket.queued_below_bytes());
            if watch.as_ref().is_some_and(|watch| watch.owner == known.owner) {
                watch_on(watch, known.memory_bytes, memory_bytes);
            }
            known.memory_bytes = memory_bytes.unwrap_or(0);
            bytes += wire_bytes_of(known.memory_bytes);
            known.memory_bytes > 0
        });
        bytes
    }
}

/// What TCP sent by itself cannot be told from what was written.
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

    fn watch_of(behind_bytes: u64) -> Option<Watch> {
        Some(Watch { owner: 1, behind_bytes, state: Watched::Waits })
    }

    #[test]
    fn what_is_watched_has_left_when_only_what_was_written_behind_it_is_left() {
        for (before, now, behind, state) in [
            (4000, Some(4000), 0, Watched::Waits),
            (4000, Some(2000), 0, Watched::Waits),
            (4000, Some(0), 0, Watched::Left),
            (4000, Some(2001), 2000, Watched::Waits),
            (4000, Some(2000), 2000, Watched::Left),
            // TCP sent something by itself, or nobody can tell.
            (2000, Some(4000), 0, Watched::Nothing),
            (2000, None, 0, Watched::Nothing),
        ] {
            let mut watch = watch_of(behind);
            watch_on(&mut watch, before, now);
            assert_eq!(watch.map_or(Watched::Nothing, |watch| watch.state), state, "{before} {now:?} {behind}");
        }
    }
}
