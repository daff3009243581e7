//! Reading: from bytes to requests. One connection takes only so much of a turn; if there is more, it queues for the next.

use http::Reject;
use http::http1::Head;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::Worker;
use super::line::Line;
use crate::conn::Event;
use crate::reply::{self, Reply};

/// Requests of one connection that are answered in a turn: a fraction of a millisecond's work.
const REQUESTS_PER_TURN_MAX: u32 = 64;
/// Bytes that are sent to one connection in a turn, give or take one response: what a socket buffer takes anyway.
pub(super) const BYTES_PER_TURN_MAX: u64 = 2 << 20;
/// A connection whose buffer is full when it is read has more to say than others, who come first.
const RECEIVES_PER_TURN_MAX: u32 = 4;

/// What is left to a connection of this turn.
#[derive(Default)]
pub(super) struct Budget {
    pub requests: u32,
    pub bytes: u64,
    pub receives: u32,
}

impl Budget {
    const WHOLE: Budget =
        Budget { requests: REQUESTS_PER_TURN_MAX, bytes: BYTES_PER_TURN_MAX, receives: RECEIVES_PER_TURN_MAX };

    fn is_spent(&self) -> bool {
        self.requests == 0 || self.bytes == 0
    }
}

impl Worker {
    /// Reads what has arrived, as long as the connection is in a phase that wants it, for its share of the turn.
    pub(super) fn read(&mut self, at: usize) {
        self.budget = Budget::WHOLE;
        if self.conns[at].is_cut {
            self.take(at, &[]);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Some(conn) = self.conns.get(at) {
            if conn.http1.is_answering() || (!conn.is_readable && !conn.is_cut) {
                break;
            }
            if conn.is_cut || self.budget.is_spent() || self.budget.receives == 0 {
                self.queue(at);
                break;
            }
            self.receive(at, &mut scratch);
        }
        self.scratch = scratch;
    }

    fn receive(&mut self, at: usize, scratch: &mut [u8]) {
        let conn = &mut self.conns[at];
        self.budget.receives -= 1;
        match rustix::net::recv(&*conn.socket, &mut *scratch, RecvFlags::empty()) {
            Ok((_, 0)) => self.close(at),
            Ok((_, bytes)) => {
                // A short read has emptied the socket, but for the end; what comes later is a new event.
                conn.is_readable = bytes == scratch.len() || conn.has_ended;
                self.take(at, &scratch[..bytes]);
                self.acknowledge_part(at);
            }
            Err(Errno::AGAIN) => conn.is_readable = false,
            Err(Errno::INTR) => {}
            Err(_) => self.close(at),
        }
    }

    /// A client may hold the rest of its request back until it knows that the beginning came (Nagle's algorithm, RFC 9293 section
    /// 3.7.4), and no response takes the acknowledgement along.
    fn acknowledge_part(&self, at: usize) {
        let Some(conn) = self.conns.get(at) else { return };
        if conn.http1.has_part() && !conn.is_cut {
            // Not vital: without it the kernel sends one after 40 ms.
            let _ = rustix::net::sockopt::set_tcp_quickack(&*conn.socket, true);
        }
    }

    /// Answers the requests in what was kept and what has come; keeps the rest.
    fn take(&mut self, at: usize, fresh: &[u8]) {
        let conn = &mut self.conns[at];
        conn.is_cut = false;
        let mut received = conn.http1.receive(fresh);
        while let Some(conn) = self.conns.get_mut(at) {
            if self.budget.is_spent() && !received.is_empty() && !conn.http1.is_answering() {
                conn.is_cut = true;
                break;
            }
            match conn.http1.next(self.now, &self.parts.limits, &mut received) {
                Some(Event::Body) => {}
                Some(Event::Request { head, bytes }) => self.answer(at, &head, bytes),
                Some(Event::Refused { reject, received }) => self.refuse(at, reject, received),
                None => break,
            }
        }
        if let Some(conn) = self.conns.get_mut(at) {
            conn.http1.keep(received);
        }
        self.flush(at);
    }

    fn answer(&mut self, at: usize, head: &Head, bytes: &[u8]) {
        self.budget.requests -= 1;
        // Whether a body comes that was not waited for is unknown.
        self.conns[at].is_readable |= head.expect_continue;
        if let Some(reply) = self.refuse_frequent(at) {
            return self.send_noted(at, head, reply);
        }
        let reply = match self.parts.replier.reply(&head.request, self.now) {
            Ok(reply) => reply,
            Err(find) => {
                // What was gathered before does not wait for a disk.
                self.flush(at);
                let Some(conn) = self.conns.get_mut(at) else { return };
                if conn.is_sending() {
                    self.parts.clients.on_postponed(conn.client);
                    return conn.http1.postpone(bytes);
                }
                match self.begin_find(at, find, bytes) {
                    Ok(()) => return self.note(at, head),
                    Err(missing) => self.parts.replier.reply_with(&head.request, Err(missing)),
                }
            }
        };
        self.send_noted(at, head, reply);
    }

    fn send_noted(&mut self, at: usize, head: &Head, reply: Reply) {
        self.note(at, head);
        self.conns[at].class = self.class_of(at, head);
        self.send(at, reply);
    }

    pub(super) fn class_of(&self, at: usize, head: &Head) -> u16 {
        let by_rule = self.parts.replier.class_of(&head.request, self.conns[at].address);
        by_rule.unwrap_or_else(|| self.parts.classes.of(head.request.path))
    }

    /// Keeps what log and records will say of a request.
    fn note(&mut self, at: usize, head: &Head) {
        self.begin_measuring(at);
        if self.keeps_lines() {
            self.conns[at].line = Some(Box::new(Line::new(head, self.now)));
        }
    }

    /// Answers what is no request, and reads no more; `received` is what the log shows.
    pub(super) fn refuse(&mut self, at: usize, reject: Reject, received: &[u8]) {
        let keeps_lines = self.keeps_lines();
        let conn = &mut self.conns[at];
        if keeps_lines {
            conn.line = Some(Box::new(Line::refused(received, reject.reason, self.now)));
        }
        // What it sends besides is read, and thrown away.
        conn.is_readable = true;
        conn.class = self.parts.replier.default_class().unwrap_or_else(|| self.parts.classes.last());
        self.send(at, reply::reject(reject));
    }
}
