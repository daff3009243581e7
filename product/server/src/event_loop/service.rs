//! Everything that is done for a request except sending its response: admits the client, makes the reply or looks it
//! up, and logs the end.

use std::fmt::Display;
use std::net::IpAddr;
use std::time::UNIX_EPOCH;

use http::{Refused, Reject, Request, Shown};
use sched::Scheduler;
use units::Nanos;

use super::Admission;
use super::admission::Admitted;
use super::timers::Timers;
use crate::access::Verdict;
use crate::answer::{Answer, Awaited, Handler, Reply, To};
use crate::body::Failure;
use crate::connection::Connection;
use crate::connection::LogEntry;
use crate::connection::{KeptRequest, PendingLookup, Search, Task};
use crate::files::{Found, Missing, SiteNumber};
use crate::journal::{Context, Journal, Kind, ResponseEnd, UNANSWERED_STATUS, outcome_of};
use crate::logging::Outcome;
use crate::net::Net;
use crate::net::Socket;
use crate::send::{Link, Sendings};
use crate::upstream::PassOn;

/// Serves requests. It sends nothing itself, and accesses connections only as arguments.
pub(super) struct Service {
    pub admission: Admission,
    pub handler: Handler,
    pub journal: Journal,
}

/// The decisions that come before the answer of a site.
pub(super) struct Before {
    pub refusal: Option<Box<Reply>>,
    /// The decision that was made while the request waited.
    pub verdict: Option<Verdict>,
}

/// The answer to a request that has waited.
pub(super) struct Answered {
    pub answer: Answer,
    pub to: To,
    pub request: Box<KeptRequest>,
    pub minor_version: u8,
}

impl Service {
    /// Admits a newcomer. Returns its client; `None` if the client has reached its limit of connections.
    pub fn let_in(&mut self, now: Nanos, address: IpAddr, scheduler: &mut Scheduler) -> Option<u32> {
        match self.admission.enter(now, address) {
            Ok(admitted) => Some(introduce(admitted, scheduler)),
            Err(notice) => {
                notice.inspect(|notice| self.journal.error(notice));
                None
            }
        }
    }

    /// Logs that all places are taken.
    pub fn log_full(&self, now: Nanos) {
        self.admission.on_full(now).inspect(|line| self.journal.error(line));
    }

    /// Returns the answer to a request: an error if its client has sent too many requests, a refusal if there is one,
    /// and otherwise the answer of its site.
    pub fn answer(
        &mut self,
        now: Nanos,
        conn: &Connection<impl Socket>,
        stream: u32,
        to: To,
        request: &Request,
        before: Before,
    ) -> Answer {
        // One that has waited for a verdict was counted when it came.
        if before.verdict.is_none()
            && let Err(refusal) = self.admission.on_request(now, conn.client_of(stream))
        {
            refusal.notice.inspect(|notice| self.journal.error(notice));
            return self.handler.too_many(to, request, refusal.retry_after_s).into();
        }
        match before.refusal {
            Some(refusal) => (*refusal).into(),
            None => self.handler.answer_to(to, request, conn.address_of(stream), now, before.verdict),
        }
    }

    /// Makes a request wait for its file.
    pub fn look_up(
        &mut self,
        now: Nanos,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        (awaited, scripts): (Awaited, Option<Box<PassOn>>),
        (request, minor_version): (&Request, u8),
    ) -> Result<(), Missing> {
        let (client, step) = (conn.client_of(stream), awaited.step());
        let key = self.handler.begin_lookup(awaited, conn.exchange(stream).id, client, now)?;
        let request = Box::new(KeptRequest::new(request, conn.held.account()));
        conn.exchange(stream).wait_for(key, request, Search::Own(step, minor_version, scripts));
        Ok(())
    }

    /// Returns the answer to a request whose wait has ended; `None` if it now waits for another lookup, or for a form
    /// of its file.
    pub fn answer_found(
        &mut self,
        now: Nanos,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        found: Result<Found, Missing>,
    ) -> Option<Answered> {
        let task = std::mem::take(&mut conn.exchange(stream).task);
        let Task::LookingUp(pending) = task else { unreachable!("a connection leaves its lookup answered or closed") };
        let PendingLookup { request, search, .. } = *pending;
        let view = request.view();
        // The sites in force may have changed since the lookup began.
        let to = self.target(conn, stream, &view);
        let (id, client) = (conn.exchange(stream).id, conn.client_of(stream));
        let may_wait = self.handler.may_wait(id);
        let (answer, minor_version) = match search {
            Search::Own(step, minor_version, scripts) => {
                (self.handler.answer_found(to, &view, (found, step), scripts, (may_wait, now)), minor_version)
            }
            Search::Named(said) => (self.handler.reply_named(to, &view, found, &said).into(), 0),
        };
        let (awaited, scripts) = match answer {
            Answer::Lookup(awaited, scripts) => (awaited, scripts),
            answer => return Some(Answered { answer, to, request, minor_version }),
        };
        let step = awaited.step();
        match self.handler.begin_lookup(awaited, id, client, now) {
            Ok(key) => {
                conn.exchange(stream).wait_for(key, request, Search::Own(step, minor_version, scripts));
                None
            }
            Err(missing) => {
                let answer = self.handler.reply_with(to, &view, Err(missing)).into();
                Some(Answered { answer, to, request, minor_version })
            }
        }
    }

    /// Determines the target of a request that has waited, and sets its class.
    pub fn target(&self, conn: &mut Connection<impl Socket>, stream: u32, request: &Request) -> To {
        let to = self.handler.to(conn, stream, request);
        conn.exchange(stream).class = self.handler.class_of(conn, stream, to.site, request);
        to
    }

    /// Stores the data of a request that the log, the objectives and the metrics need.
    pub fn note(
        &self,
        now: Nanos,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        site: Option<SiteNumber>,
        request: &Request,
        minor: u8,
    ) {
        if conn.exchange(stream).line.is_some() {
            // It has waited to be let in.
            return;
        }
        let (handler, version) = (&self.handler, conn.version(minor));
        let (log, place) = (handler.log(site), site.map(|site| handler.place(site)));
        let user = log.zip(site).and_then(|(_, site)| handler.user(site, request, conn.address_of(stream)));
        if let Some(mut line) = self.journal.begin(now, log, (request, version, user.as_deref()), place) {
            line.count_in(conn.held.account());
            conn.exchange(stream).line = Some(line);
        }
    }

    /// Stores the data of a refused request that the log and the metrics need.
    pub fn note_refused(
        &self,
        now: Nanos,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        shown: &Shown,
        reason: &'static str,
    ) {
        let version = conn.version(shown.minor_version);
        if let Some(mut line) = self.journal.refused(now, self.handler.log(None), (shown, version, reason)) {
            line.count_in(conn.held.account());
            conn.exchange(stream).line = Some(line);
        }
    }

    /// Logs a malformed request, or a mistake that ends a connection (`broken` is its reason), if there is no response
    /// to log.
    pub fn log_malformed(
        &mut self,
        net: &impl Net,
        now: Nanos,
        conn: &mut Connection<impl Socket>,
        (refused, broken): (&Refused, Option<&str>),
        link: &Link,
    ) {
        let what = (&refused.shown, conn.version(refused.shown.minor_version), refused.reject.reason);
        let Some(mut line) = self.journal.refused(now, self.handler.log(None), what) else { return };
        line.status = refused.reject.status.0;
        let (class, ending) = (self.handler.default_class(), ResponseEnd::now().cut(0, Outcome::Reset));
        self.journal.count(now, class, &line, &ending, || net.now());
        self.write_line(net, conn, (0, class), (&line, ending, broken), link);
    }

    /// Logs a request whose stream is reset because something after its head is malformed.
    pub fn log_malformed_rest(
        &mut self,
        net: &impl Net,
        now: Nanos,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        reject: Reject,
        link: &Link,
    ) {
        if let Some(line) = &mut conn.exchange(stream).line {
            (line.status, line.reason) = (reject.status.0, Some(reject.reason));
            self.log(net, now, conn, stream, ResponseEnd::now().cut(0, Outcome::Reset), link);
        }
    }

    /// Ends the wait of an exchange whose client has left. A request that was not answered is logged as well, even if
    /// its body has not arrived or its turn on the connection has not come.
    pub fn leave(
        &mut self,
        net: &impl Net,
        timers: &Timers,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        link: &Link,
    ) {
        let exchange = conn.exchange(stream);
        let (id, has_line) = (exchange.id, exchange.line.is_some());
        if let Task::LookingUp(pending) = std::mem::take(&mut exchange.task) {
            self.handler.leave_lookup(&pending.key, id);
        }
        if !has_line && let Some(kept) = conn.take_unanswered() {
            let head = kept.view();
            let to = self.target(conn, stream, &head.request);
            self.note(timers.now(), conn, stream, to.site, &head.request, head.minor_version);
        }
        if let Some(mut line) = conn.exchange(stream).line.take() {
            line.status = UNANSWERED_STATUS;
            let outcome = outcome_of(&Failure::Aborted, timers.is_time_up());
            let ending = ResponseEnd::now().cut(0, outcome);
            let class = conn.exchange(stream).class;
            self.journal.count(timers.now(), class, &line, &ending, || net.now());
            self.write_line(net, conn, (stream, class), (&line, ending, None), link);
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
        self.write_line(net, conn, (stream, class), (&line, ending, None), link);
    }

    fn write_line(
        &mut self,
        net: &impl Net,
        conn: &Connection<impl Socket>,
        (stream, class): (u32, u16),
        (line, ending, broken): (&LogEntry, ResponseEnd, Option<&str>),
        link: &Link,
    ) {
        if line.log.is_some() {
            let context = Context {
                remote: conn.address_of(stream),
                connection_reused: conn.has_answered,
                class: self.handler.class_name(class),
                ahead_bytes: link.scheduler().order().policy().ahead_bytes(conn.client_of(stream)),
                broken,
            };
            let clock = (net.now(), net.date().duration_since(UNIX_EPOCH).unwrap_or_default());
            self.journal.write(clock, line, ending, &context);
        }
    }

    /// Logs why a response failed after `sent_bytes`, and returns its outcome. A file that ended too early is the
    /// server's fault and is logged; a client that left is not.
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
                    format_args!("slower than --min-send-rate (limits.min_send_rate), after {sent_bytes} bytes"),
                );
            }
            Failure::Overrun(overrun) => {
                let why = format_args!("{overrun}; its connection was closed. Please report this as a bug in weir");
                self.fail(now, conn, Kind::Internal, why);
            }
            Failure::Length => self.fail(now, conn, Kind::Length, format_args!("after {sent_bytes} bytes")),
            // The producer has logged it.
            Failure::Source => {}
            Failure::Blocked | Failure::Absent | Failure::Pending | Failure::Shut => {}
            Failure::Disconnected | Failure::Aborted => {}
        }
        outcome_of(failure, timers.is_time_up())
    }

    /// Records a client's failure.
    pub fn fail(&mut self, now: Nanos, conn: &Connection<impl Socket>, kind: Kind, why: impl Display) {
        self.journal.fail(now, kind, format_args!("{}: {why}", conn.peer()));
    }

    /// Logs the end of a client that may have taken too long for its handshake, or of a proxy that has not sent its
    /// header.
    pub fn note_late_handshake(&mut self, now: Nanos, conn: &Connection<impl Socket>) {
        if conn.awaits_header() {
            self.fail(now, conn, Kind::ProxyHeader, "no header within 10 s");
        } else if conn.channel.is_handshaking {
            self.fail(now, conn, Kind::Tls, "no handshake within 10 s");
        }
    }

    /// Adds the sent bytes to the client's account, including those of responses in progress, because the largest take
    /// hours.
    pub fn book_spent(&mut self, now: Nanos, conn: &mut Connection<impl Socket>, sendings: &mut Sendings) {
        let mut bytes = 0;
        for exchange in conn.protocol.exchanges() {
            let Task::Sending(job) = exchange.task else { continue };
            let unreported_bytes = sendings.unreported_bytes(job);
            match conn.client_of(exchange.id.stream) {
                client if client == conn.client => bytes += unreported_bytes,
                client => self.admission.book(now, client, unreported_bytes),
            }
        }
        for exchange in conn.protocol.exchanges_mut() {
            if let (Task::Sending(job), Some(line)) = (&exchange.task, &mut exchange.line) {
                self.journal.count_sent(exchange.class, line, sendings.sent_bytes(*job));
            }
        }
        self.admission.book(now, conn.client, bytes);
    }

    /// Writes the busiest clients to the error log, if that was requested from this worker.
    pub fn log_busiest(&self, now: Nanos, scheduler: &Scheduler) {
        let lines = self.admission.busiest(now, |client| scheduler.order().policy().ahead_bytes(client));
        lines.iter().for_each(|line| self.journal.error(line));
    }
}

/// Registers a client with the scheduler at its first connection or request.
pub(super) fn introduce(admitted: Admitted, scheduler: &mut Scheduler) -> u32 {
    if let Some(traits) = admitted.traits {
        scheduler.on_client(admitted.client, traits);
    }
    admitted.client
}
