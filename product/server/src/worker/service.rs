//! What is done for a request beside sending its response: a client is let in, a reply is made or looked up, and the end is noted.

use std::fmt::Display;
use std::net::IpAddr;
use std::time::UNIX_EPOCH;

use http::Request;
use sched::Scheduler;
use units::Nanos;

use super::admission::Admitted;
use super::failures::Kind;
use super::journal::Context;
use super::response_end::{ResponseEnd, UNANSWERED_STATUS, outcome_of};
use super::timers::Timers;
use super::{Admission, Journal, Replies};
use crate::body::Failure;
use crate::connection::Connection;
use crate::connection::Line;
use crate::connection::{KeptRequest, Task};
use crate::files::{Lookup, Missing, SiteNumber};
use crate::handler::{Later, Reply, To};
use crate::logging::Outcome;
use crate::net::Net;
use crate::net::Socket;
use crate::send::{Link, Sendings};

/// It sends nothing, and knows connections only as they are given.
pub(super) struct Service {
    pub admission: Admission,
    pub replies: Replies,
    pub journal: Journal,
}

impl Service {
    /// The client of a newcomer, unless it has as many connections as it may.
    pub fn let_in(&mut self, now: Nanos, address: IpAddr, scheduler: &mut Scheduler) -> Option<u32> {
        match self.admission.enter(now, address) {
            Ok(admitted) => Some(introduce(admitted, scheduler)),
            Err(notice) => {
                notice.inspect(|notice| self.journal.error(notice));
                None
            }
        }
    }

    /// All places are taken.
    pub fn log_full(&self, now: Nanos) {
        self.admission.on_full(now).inspect(|line| self.journal.error(line));
    }

    /// The reply to a request, which may be one too many of its client. What has to be found by another thread comes back, for
    /// [`Service::look_up`].
    pub fn reply(
        &mut self,
        now: Nanos,
        conn: &Connection<impl Socket>,
        stream: u32,
        to: To,
        request: &Request,
    ) -> Result<Reply, Later> {
        if let Err(refusal) = self.admission.on_request(now, conn.client_of(stream)) {
            refusal.notice.inspect(|notice| self.journal.error(notice));
            return Ok(self.replies.handler().too_many(to, request, refusal.retry_after_s));
        }
        self.replies.reply(now, to, request, conn.address_of(stream))
    }

    /// Has what a request wants found; its exchange waits for that.
    pub fn look_up(
        &mut self,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        lookup: Box<Lookup>,
        request: &Request,
    ) -> Result<(), Missing> {
        let client = conn.client_of(stream);
        let key = self.replies.begin_lookup(lookup, conn.exchange(stream).owner, client)?;
        let request = Box::new(KeptRequest::new(request, conn.held.account()));
        conn.exchange(stream).wait_for(key, request, None);
        Ok(())
    }

    /// Keeps what log, objectives and metrics will say of a request.
    pub fn note(
        &self,
        now: Nanos,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        site: Option<SiteNumber>,
        request: &Request,
        minor: u8,
    ) {
        let (handler, version) = (self.replies.handler(), conn.version(minor));
        let (log, place) = (handler.log(site), site.map(|site| handler.place(site)));
        if let Some(mut line) = self.journal.begin(now, log, (request, version), place) {
            line.count_in(conn.held.account());
            conn.exchange(stream).line = Some(line);
        }
    }

    /// The client of an exchange does not wait any more. A request that was not answered has a line all the same, also one whose body has
    /// not come, or whose turn on its connection has not.
    pub fn leave(
        &mut self,
        net: &impl Net,
        timers: &Timers,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        link: &Link,
    ) {
        let exchange = conn.exchange(stream);
        let (owner, has_line) = (exchange.owner, exchange.line.is_some());
        if let Task::LookingUp(pending) = std::mem::take(&mut exchange.task) {
            self.replies.leave_lookup(&pending.key, owner);
        }
        if !has_line
            && !conn.is_multiplexed()
            && let Some(kept) = conn.http1().take_unanswered()
        {
            let head = kept.view();
            let to = self.replies.to(conn, &head.request);
            self.note(timers.now(), conn, stream, to.site, &head.request, head.minor_version);
        }
        if let Some(mut line) = conn.exchange(stream).line.take() {
            line.status = UNANSWERED_STATUS;
            let outcome = outcome_of(&Failure::Aborted, timers.is_time_up());
            self.write_line(net, conn, stream, &line, ResponseEnd::now().cut(0, outcome), link);
        }
    }

    /// Logs a response, once.
    pub fn log(
        &mut self,
        net: &impl Net,
        now: Nanos,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        ending: ResponseEnd,
        link: &Link,
    ) {
        let exchange = conn.exchange(stream);
        let (class, Some(line)) = (exchange.class, exchange.line.take()) else { return };
        self.journal.count(now, class, &line, &ending, || net.now());
        self.write_line(net, conn, stream, &line, ending, link);
    }

    fn write_line(
        &mut self,
        net: &impl Net,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        line: &Line,
        ending: ResponseEnd,
        link: &Link,
    ) {
        if line.log.is_some() {
            let context = Context {
                remote: conn.address_of(stream),
                connection_reused: conn.has_answered,
                class: self.replies.handler().class_name(conn.exchange(stream).class),
                ahead_bytes: link.scheduler().order().policy().ahead_bytes(conn.client_of(stream)),
            };
            let clock = (net.now(), net.date().duration_since(UNIX_EPOCH).unwrap_or_default());
            self.journal.write(clock, line, ending, &context);
        }
    }

    /// A response failed after so many bytes; gives how it is to be logged. A file that ended too early is our side's trouble and worth a line;
    /// a client that left is not.
    pub fn report(
        &mut self,
        timers: &Timers,
        conn: &Connection<impl Socket>,
        failure: &Failure,
        sent_bytes: u64,
    ) -> Outcome {
        let (now, peer) = (timers.now(), conn.peer());
        match failure {
            Failure::Truncated { path } => {
                let why = format_args!("{path}: became shorter while being sent to {peer}, after {sent_bytes} bytes");
                self.journal.fail(now, Kind::Unreadable, why);
            }
            Failure::Unreadable { path, error } => {
                let why = format_args!("{path}: {error} (sending it to {peer}, after {sent_bytes} bytes)");
                self.journal.fail(now, Kind::Unreadable, why);
            }
            Failure::Stalled => {
                self.fail(
                    now,
                    conn,
                    Kind::Stalled,
                    format_args!("slower than --send-rate-min (limits.send_rate_min), after {sent_bytes} bytes"),
                );
            }
            Failure::Overrun(overrun) => {
                let why = format_args!("{overrun}; its connection is ended. Please report this: it is a fault of weir");
                self.fail(now, conn, Kind::Internal, why);
            }
            // What serves it tells of it; of a client nothing is wrong.
            Failure::Source(_) => {}
            Failure::Blocked | Failure::Absent | Failure::Pending | Failure::Shut => {}
            Failure::Disconnected | Failure::Aborted => {}
        }
        outcome_of(failure, timers.is_time_up())
    }

    /// A client failed.
    pub fn fail(&mut self, now: Nanos, conn: &Connection<impl Socket>, kind: Kind, why: impl Display) {
        self.journal.fail(now, kind, format_args!("{}: {why}", conn.peer()));
    }

    /// The end of a client that may be in its handshake for too long, or of a proxy that has not told whose it is.
    pub fn note_late_handshake(&mut self, now: Nanos, conn: &Connection<impl Socket>) {
        if conn.awaits_header() {
            self.fail(now, conn, Kind::ProxyHeader, "no header within 10 s");
        } else if conn.channel.is_handshaking {
            self.fail(now, conn, Kind::Tls, "no handshake within 10 s");
        }
    }

    /// Books what was sent, also of responses under way: the largest take hours.
    pub fn book_spent(&mut self, now: Nanos, conn: &mut Connection<impl Socket>, sendings: &mut Sendings) {
        let mut bytes = 0;
        for exchange in conn.protocol.exchanges() {
            let Task::Sending(job) = exchange.task else { continue };
            let untold_bytes = sendings.untold_bytes(job);
            match conn.client_of(exchange.number) {
                client if client == conn.client => bytes += untold_bytes,
                client => self.admission.book(now, client, untold_bytes),
            }
        }
        for exchange in conn.protocol.exchanges_mut() {
            if let (Task::Sending(job), Some(line)) = (&exchange.task, &mut exchange.line) {
                self.journal.count_sent(exchange.class, line, sendings.sent_bytes(*job));
            }
        }
        self.admission.book(now, conn.client, bytes);
    }

    /// Writes the busiest clients to the error log, if that was asked of this worker.
    pub fn log_busiest(&self, now: Nanos, scheduler: &Scheduler) {
        let lines = self.admission.busiest(now, |client| scheduler.order().policy().ahead_bytes(client));
        lines.iter().for_each(|line| self.journal.error(line));
    }
}

/// The order knows of a client from its first connection or request on.
pub(super) fn introduce(admitted: Admitted, scheduler: &mut Scheduler) -> u32 {
    if let Some(weight) = admitted.weight {
        scheduler.on_client(admitted.client, weight);
    }
    admitted.client
}
