//! A connection of QUIC where the write path has a socket: datagrams over a socket that it shares, and what TCP would tell of it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use quic::Datagrams;
use sched::{Path, TcpSent};
use units::Nanos;

use super::{Looked, Status};
use crate::udp::{Left, Udp};

/// One connection on a socket of many.
#[derive(Debug)]
pub struct Flow {
    socket: Arc<Udp>,
    /// Of one thread, so nobody waits for it.
    books: Mutex<Books>,
    looked: Looked,
}

#[derive(Debug, Default)]
struct Books {
    /// Datagrams count as segments.
    sent: TcpSent,
    seen: Seen,
    /// Something was sent since.
    is_unseen: bool,
    priority: u32,
}

/// What QUIC has seen of its path.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    pub path: Path,
    /// UDP payload that was lost so far, and is sent again.
    pub lost_bytes: u64,
    /// UDP payload that was acknowledged so far.
    pub acked_bytes: u64,
    /// How long ago the last acknowledgement came; `None` before the first.
    pub acked_ago: Option<Nanos>,
    /// A response is not acknowledged yet.
    pub is_unacknowledged: bool,
}

impl Flow {
    pub fn new(socket: Arc<Udp>) -> Flow {
        let books = Books { priority: socket.control_priority(), ..Books::default() };
        Flow { socket, books: Mutex::new(books), looked: Looked::default() }
    }

    /// Sends from the front; an error leaves the rest.
    pub fn send(&self, datagrams: &mut Datagrams) -> io::Result<()> {
        let mut books = self.books();
        let (Left { datagrams, bytes }, result) = self.socket.send(datagrams, books.priority);
        books.sent.payload_bytes += bytes;
        books.is_unseen |= bytes > 0;
        books.sent.segments = books.sent.segments.wrapping_add(datagrams);
        result
    }

    pub fn see(&self, seen: Seen) {
        let mut books = self.books();
        (books.seen, books.is_unseen) = (seen, false);
    }

    pub fn looked(&self) -> &Looked {
        &self.looked
    }

    /// As TCP tells it.
    pub fn status(&self) -> Status {
        let Books { sent, seen, is_unseen, .. } = *self.books();
        Status {
            sent: Some(sent),
            unsent_bytes: 0,
            retransmitted_bytes: seen.lost_bytes,
            acked_bytes: seen.acked_bytes,
            sacked_bytes: 0,
            acked_ago: seen.acked_ago.unwrap_or_default(),
            is_unacknowledged: is_unseen || seen.is_unacknowledged,
            path: seen.path,
            closing_segments: 0,
        }
    }

    /// What is sent from now on is marked so.
    pub fn set_priority(&self, priority: u32) {
        self.books().priority = priority;
    }

    pub fn number_below(&self) -> u64 {
        self.socket.number()
    }

    pub fn downgrade(&self) -> Weak<Udp> {
        Arc::downgrade(&self.socket)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("a thread that fails ends the process")
    }
}

impl AsFd for Flow {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (*self.socket).as_fd()
    }
}
