//! Reading: from bytes to requests. One connection takes only so much of a turn; if there is more, it queues for the next.

use http::http1::Head;
use http::{Reject, Request, Shown};
use rustix::io::Errno;

use super::Worker;
use super::conn::Conn;
use super::exchange::ExchangeId;
use super::line::Line;
use super::streams::is_preface;
use crate::files::SiteNumber;
use crate::handler;
use crate::http1::Event;
use crate::net::Net;
use crate::transmit::{Socket, Stream, Transmitter, Transport};

impl<N: Net> Worker<N> {
    /// Reads what has arrived, as long as the connection is in a phase that wants it, for its share of the turn.
    pub(super) fn read(&mut self, at: usize) {
        self.budget.begin_connection();
        if self.conns[at].input.is_cut {
            self.take(at, &[]);
        }
        let mut scratch = std::mem::take(&mut self.buffers.scratch);
        while let Some(conn) = self.conns.get(at) {
            if conn.is_answering() || !conn.input.is_left() {
                break;
            }
            let must_wait = conn.channel.is_handshaking && !self.budget.has_handshake_left();
            if conn.input.is_cut || must_wait || self.budget.is_read_enough() {
                self.conns.queue(at);
                break;
            }
            self.receive(at, &mut scratch);
        }
        self.buffers.scratch = scratch;
        if let Some(conn) = self.conns.get_mut(at) {
            let has_part = has_part(&mut self.transmitter, conn, at);
            conn.note_part(has_part, self.timers.now() + self.setup.limits.head_timeout);
        }
        self.conns.weigh(at, || self.transmitter.unsent_bytes(at));
    }

    fn receive(&mut self, at: usize, scratch: &mut [u8]) {
        self.budget.on_receive();
        if self.has_ended(at) {
            return self.close(at);
        }
        let conn = &mut self.conns[at];
        let Some(socket) = self.transmitter.socket(at).tcp() else {
            // What comes is read for all of them at once.
            conn.input.is_readable = false;
            return;
        };
        match socket.receive(scratch) {
            Ok(0) => self.close(at),
            Ok(bytes) => {
                // A short read has emptied the socket, but for the end; what comes later is a new event.
                conn.input.is_readable = bytes == scratch.len() || conn.input.has_ended;
                if conn.channel.is_tls() {
                    return self.receive_sealed(at, &scratch[..bytes]);
                }
                self.take(at, &scratch[..bytes]);
                let Some(conn) = self.conns.get_mut(at) else { return };
                if conn.input.on_received(bytes, conn.http1.has_part()) {
                    self.acknowledge(at);
                }
            }
            Err(Errno::AGAIN) => conn.input.is_readable = false,
            Err(Errno::INTR) => {}
            Err(_) => self.close(at),
        }
    }

    /// Has TCP acknowledge at once what has come. Not vital: without it the kernel does after 40 ms.
    pub(super) fn acknowledge(&self, at: usize) {
        self.transmitter.socket(at).tcp().inspect(|socket| socket.acknowledge());
    }

    /// Answers the requests in what was kept and what has come; keeps the rest.
    pub(super) fn take(&mut self, at: usize, fresh: &[u8]) {
        if self.conns[at].is_multiplexed() {
            return self.take_frames(at, fresh);
        }
        let conn = &mut self.conns[at];
        conn.input.is_cut = false;
        let may_be_http2 = !conn.channel.is_tls() && !conn.has_answered && conn.http1.is_unasked();
        let mut received = conn.http1.receive(fresh);
        match is_preface(received.rest()) {
            Some(true) if may_be_http2 => {
                self.begin_http2(at);
                return self.take_frames(at, received.rest());
            }
            None if may_be_http2 => return conn.http1.keep(received),
            _ => {}
        }
        while let Some(conn) = self.conns.get_mut(at) {
            if self.budget.is_spent() && !received.is_empty() && !conn.http1.is_answering() {
                conn.input.is_cut = true;
                break;
            }
            match conn.http1.next(self.timers.now(), &self.setup.limits, &mut received) {
                Some(Event::Body) => {}
                Some(Event::Request { head }) => {
                    // Whether a body comes that was not waited for is unknown.
                    conn.input.is_readable |= head.expect_continue;
                    self.answer(at.into(), &head.request, Some(&head));
                }
                Some(Event::Refused { reject, shown, is_tls }) => self.refuse(at.into(), reject, &shown, is_tls),
                None => break,
            }
        }
        if let Some(conn) = self.conns.get_mut(at) {
            conn.http1.keep(received);
        }
        self.flush(at);
    }

    /// Answers a request; `head` is that of HTTP/1.1.
    pub(super) fn answer(&mut self, id: ExchangeId, request: &Request, head: Option<&Head>) {
        self.budget.on_request();
        let minor_version = head.map_or(0, |head| head.minor_version);
        let to = self.replies.to(&self.conns[id.at], request);
        let reply = match self.refuse_frequent(id.at, to, request) {
            Some(reply) => Ok(reply),
            None => self.replies.reply(self.timers.now(), to, request),
        };
        let reply = match reply {
            Ok(reply) => reply,
            Err(_) if head.is_some_and(|head| self.must_postpone(id.at, head)) => return,
            Err(lookup) => match self.begin_lookup(id, lookup) {
                Ok(key) => {
                    self.conns.exchange(id).wait_for(key, Box::new(request.into()));
                    return self.note(id, to.site, request, minor_version);
                }
                Err(missing) => self.replies.reply_with(to, request, Err(missing)),
            },
        };
        self.note(id, to.site, request, minor_version);
        let class = self.replies.class_of(&self.conns[id.at], to.site, request);
        self.conns.exchange(id).class = class;
        self.send(id, reply);
    }

    /// A request that waits for a disk: what was gathered before it does not wait, and if that takes its time the request comes later, or
    /// never.
    fn must_postpone(&mut self, at: usize, head: &Head) -> bool {
        self.flush(at);
        let Some(conn) = self.conns.get_mut(at) else { return true };
        if conn.is_sending() {
            self.admission.on_postponed(conn.client);
            conn.http1.postpone(head);
            return true;
        }
        false
    }

    /// Keeps what log and objectives will say of a request.
    pub(super) fn note(&mut self, id: ExchangeId, site: Option<SiteNumber>, request: &Request, minor_version: u8) {
        let (log, version) = (self.replies.handler().log(site), self.conns[id.at].version(minor_version));
        let line = self.journal.begin(self.timers.now(), log, request, version);
        if line.is_some() {
            self.conns.exchange(id).line = line;
        }
    }

    /// Answers what is no request. Over HTTP/1.1 no more is read.
    pub(super) fn refuse(&mut self, id: ExchangeId, reject: Reject, shown: &Shown, is_tls: bool) {
        self.budget.on_request();
        if let Some(log) = self.replies.handler().log(None) {
            let version = self.conns[id.at].version(shown.minor_version);
            let line = Line::refused(shown, version, reject.reason, log.clone(), self.timers.now());
            self.conns.exchange(id).line = Some(Box::new(line));
        }
        self.conns.exchange(id).class = self.replies.default_class();
        let conn = &mut self.conns[id.at];
        if !conn.is_multiplexed() {
            // What it sends besides is read, and thrown away.
            conn.input.is_readable = true;
            if is_tls && !conn.channel.is_tls() {
                return self.refuse_tls(id.at, reject);
            }
        }
        self.send(id, handler::reject(reject));
    }
}

/// Of a record or of frames a part has come, which may be one of a request. In a handshake no request is due.
fn has_part<N: Net>(transmitter: &mut Transmitter<Transport<N>>, conn: &Conn, at: usize) -> bool {
    if conn.channel.is_handshaking {
        return false;
    }
    let is_in_record = transmitter.session(at).is_some_and(|session| session.has_part());
    is_in_record || (conn.is_multiplexed() && transmitter.engine(at).has_part())
}
