//! Reading: from bytes to requests. One connection takes only so much of a turn; if there is more, it queues for the next.

use http::http1::Head;
use http::{Reject, Request, Shown};
use rustix::io::Errno;

use super::Worker;
use super::accept::SEGMENT_BYTES_MIN;
use super::exchange::Place;
use super::line::Line;
use super::streams::is_preface;
use crate::conn::Event;
use crate::files::SiteNumber;
use crate::net::Net;
use crate::reply::{self, To};
use crate::transmit::{Socket, Stream};

/// Major versions of HTTP.
const HTTP_1: u8 = 1;
const HTTP_2: u8 = 2;
const HTTP_3: u8 = 3;

/// Requests of one connection that are answered in a turn: a fraction of a millisecond's work.
const REQUESTS_PER_TURN_MAX: u32 = 64;
/// Bytes that are sent to one connection in a turn, give or take one response: what a socket buffer takes anyway.
pub(super) const BYTES_PER_TURN_MAX: u64 = 2 << 20;
/// A connection whose buffer is full when it is read has more to say than others, who come first.
const RECEIVES_PER_TURN_MAX: u32 = 4;

/// Parts of a request, each less than a segment, that are acknowledged at once.
const SMALL_PARTS_MAX: u8 = 16;

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

    pub fn is_spent(&self) -> bool {
        self.requests == 0 || self.bytes == 0
    }
}

impl<N: Net> Worker<N> {
    /// Reads what has arrived, as long as the connection is in a phase that wants it, for its share of the turn.
    pub(super) fn read(&mut self, at: usize) {
        self.budget = Budget::WHOLE;
        if self.conns[at].is_cut {
            self.take(at, &[]);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Some(conn) = self.conns.get(at) {
            if conn.http1.is_answering() || conn.is_in_flight || (!conn.is_readable && !conn.is_cut) {
                break;
            }
            let must_wait = conn.is_cut || self.must_wait_with_handshake(at);
            if must_wait || self.budget.is_spent() || self.budget.receives == 0 {
                self.queue(at);
                break;
            }
            self.receive(at, &mut scratch);
        }
        self.scratch = scratch;
    }

    fn receive(&mut self, at: usize, scratch: &mut [u8]) {
        self.budget.receives -= 1;
        if self.has_ended(at) {
            return self.close(at);
        }
        let conn = &mut self.conns[at];
        let Some(socket) = self.parts.transmitter.socket(at).tcp() else {
            // What comes is read for all of them at once.
            conn.is_readable = false;
            return;
        };
        match socket.receive(scratch) {
            Ok(0) => self.close(at),
            Ok(bytes) => {
                // A short read has emptied the socket, but for the end; what comes later is a new event.
                conn.is_readable = bytes == scratch.len() || conn.has_ended;
                if conn.is_secure {
                    return self.receive_sealed(at, &scratch[..bytes]);
                }
                self.take(at, &scratch[..bytes]);
                self.acknowledge_part(at, bytes);
            }
            Err(Errno::AGAIN) => conn.is_readable = false,
            Err(Errno::INTR) => {}
            Err(_) => self.close(at),
        }
    }

    /// A client may hold the rest of its request back until it knows that the beginning came (Nagle's algorithm, RFC 9293 section
    /// 3.7.4), and no response takes the acknowledgement along.
    /// One that holds back has sent a whole segment before, or a few words; a flood of bytes is not worth a system call each.
    fn acknowledge_part(&mut self, at: usize, bytes: usize) {
        let Some(conn) = self.conns.get_mut(at) else { return };
        if !conn.http1.has_part() || conn.is_cut {
            conn.small_parts = 0;
            return;
        }
        let is_small = bytes < SEGMENT_BYTES_MIN as usize;
        if !is_small || conn.small_parts < SMALL_PARTS_MAX {
            conn.small_parts += u8::from(is_small);
            self.acknowledge(at);
        }
    }

    pub(super) fn acknowledge(&self, at: usize) {
        self.parts.transmitter.socket(at).tcp().inspect(|socket| socket.acknowledge());
    }

    /// Answers the requests in what was kept and what has come; keeps the rest.
    pub(super) fn take(&mut self, at: usize, fresh: &[u8]) {
        if self.conns[at].is_multiplexed() {
            return self.take_frames(at, fresh);
        }
        let conn = &mut self.conns[at];
        conn.is_cut = false;
        let may_be_http2 = !conn.is_secure && !conn.has_answered && conn.http1.is_unasked();
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
                conn.is_cut = true;
                break;
            }
            match conn.http1.next(self.now, &self.parts.limits, &mut received) {
                Some(Event::Body) => {}
                Some(Event::Request { head }) => {
                    // Whether a body comes that was not waited for is unknown.
                    conn.is_readable |= head.expect_continue;
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
    pub(super) fn answer(&mut self, place: Place, request: &Request, head: Option<&Head>) {
        self.budget.requests = self.budget.requests.saturating_sub(1);
        let minor_version = head.map_or(0, |head| head.minor_version);
        let to = self.to(place.at, request);
        let reply = match self.refuse_frequent(place.at, to, request) {
            Some(reply) => Ok(reply),
            None => self.parts.replier.reply(to, request, self.now),
        };
        let reply = match reply {
            Ok(reply) => reply,
            Err(_) if head.is_some_and(|head| self.must_postpone(place.at, head)) => return,
            Err(find) => match self.begin_find(place, find) {
                Ok(key) => {
                    self.wait_for_find(place, key, Box::new(request.into()));
                    return self.note(place, to.site, request, minor_version);
                }
                Err(missing) => self.parts.replier.reply_with(to, request, Err(missing)),
            },
        };
        self.note(place, to.site, request, minor_version);
        self.exchange(place).class = self.class_of(place.at, to.site, request);
        self.send(place, reply);
    }

    /// A request that waits for a disk: what was gathered before it does not wait, and if that takes its time the request comes later, or
    /// never.
    fn must_postpone(&mut self, at: usize, head: &Head) -> bool {
        self.flush(at);
        let Some(conn) = self.conns.get_mut(at) else { return true };
        if conn.is_sending() {
            self.parts.clients.on_postponed(conn.client);
            conn.http1.postpone(head);
            return true;
        }
        false
    }

    /// What a request on this connection is for.
    pub(super) fn to(&self, at: usize, request: &Request) -> To {
        let conn = &self.conns[at];
        let is_secure = conn.is_secure || conn.is_quic;
        To { site: self.parts.replier.site(request), is_secure, http3_port: conn.http3_port }
    }

    pub(super) fn class_of(&self, at: usize, site: Option<SiteNumber>, request: &Request) -> u16 {
        self.parts.replier.class_of(site, request, self.conns[at].address).unwrap_or(0)
    }

    /// The version that its client speaks, major and minor: from 2 on there is no minor one.
    fn version(&self, at: usize, minor_version: u8) -> (u8, u8) {
        match &self.conns[at] {
            conn if conn.is_quic => (HTTP_3, 0),
            conn if conn.is_multiplexed() => (HTTP_2, 0),
            _ => (HTTP_1, minor_version),
        }
    }

    /// Keeps what log and objectives will say of a request.
    pub(super) fn note(&mut self, place: Place, site: Option<SiteNumber>, request: &Request, minor_version: u8) {
        let is_measured = self.measures.is_some();
        let mut line = match self.parts.replier.log(site) {
            Some(log) => Line::new(request, self.version(place.at, minor_version), log.clone(), self.now),
            None if is_measured => Line::bare(self.now),
            None => return,
        };
        line.is_measured = is_measured;
        self.exchange(place).line = Some(Box::new(line));
    }

    /// Answers what is no request. Over HTTP/1.1 no more is read.
    pub(super) fn refuse(&mut self, place: Place, reject: Reject, shown: &Shown, is_tls: bool) {
        self.budget.requests = self.budget.requests.saturating_sub(1);
        if let Some(log) = self.parts.replier.log(None) {
            let version = self.version(place.at, shown.minor_version);
            let line = Line::refused(shown, version, reject.reason, log.clone(), self.now);
            self.exchange(place).line = Some(Box::new(line));
        }
        self.exchange(place).class = self.parts.replier.default_class().unwrap_or(0);
        let conn = &mut self.conns[place.at];
        if !conn.is_multiplexed() {
            // What it sends besides is read, and thrown away.
            conn.is_readable = true;
            if is_tls && !conn.is_secure {
                return self.refuse_tls(place.at, reject);
            }
        }
        self.send(place, reply::reject(reject));
    }
}
