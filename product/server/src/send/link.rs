//! The link: the scheduler that shares it, and everything that corrects the scheduler's model of it. If the queue below
//! can be read, that is its length; on each connection, the bytes that TCP reports as sent; and if the queue cannot be
//! read, the acknowledged bytes.

use sched::line::{Bounds, Change, Look, Status as LineStatus, is_fast};
use sched::{Correction, JobId, Presence, Reading, Scheduler};
use units::wire::Framing;
use units::{Nanos, Rate};

use super::line_feedback::Observer;
use super::own_queued_bytes::Below;
use super::unacknowledged::Unacknowledged;
use super::{Gauge, Line, Notice, Queued};
use crate::connection::{Acknowledged, Connection, Connections};
use crate::net::{Sink, Socket, Status};

/// The lead from which the log reports, once, that the event loop hands down in advance. It must be reached in
/// `LATE_CHECKS_MIN` consecutive checks (calls of [`Link::check`], about one per second).
const LATE_AHEAD_MIN: Nanos = Nanos::from_millis(5);
const LATE_CHECKS_MIN: u32 = 5;
/// The minimum interval between log lines about cross traffic.
const CROSS_NOTICE_EVERY: Nanos = Nanos::from_secs(60);

pub struct Link {
    pub(super) scheduler: Scheduler,
    pub(super) gauge: Option<Gauge>,
    /// The connections whose packets the gauge may see; empty without a gauge.
    pub(super) below: Below,
    /// Estimates the line's rate if the queue below cannot be read; `None` if nothing is paced.
    pub(super) observer: Option<Observer>,
    pub(super) unacknowledged: Unacknowledged,
    notices: Vec<Notice>,
    cross_noticed_at: Option<Nanos>,
    /// The number of consecutive checks at which the event loop was late, until that has been logged.
    late_checks: u32,
}

/// Returns the bounds if only a rate is configured.
fn told(rate: Rate) -> Bounds {
    Bounds { least: None, first: Some(rate), most: Some(rate) }
}

impl Link {
    pub fn new(scheduler: Scheduler, gauge: Option<Gauge>) -> Link {
        Link {
            observer: scheduler.pacer().pace().rate.map(|rate| Observer::new(told(rate))),
            scheduler,
            gauge,
            below: Below::new(),
            unacknowledged: Unacknowledged::new(),
            notices: Vec::new(),
            cross_noticed_at: None,
            late_checks: 0,
        }
    }

    /// Sets the bounds for the search of the uplink's rate. They also apply while a shaper's queue cannot be read.
    pub fn with_bounds(self, bounds: Option<Bounds>) -> Link {
        Link { observer: bounds.map(Observer::new), ..self }
    }

    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Returns the scheduler, so that clients, classes and priorities can be reported to it. Grants are requested only
    /// in this module.
    pub fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// The client of a job, by the index of its account.
    pub(super) fn client_of(&self, job: JobId) -> u32 {
        self.scheduler.jobs().get(job).map_or(0, |job| job.client)
    }

    /// Returns the news for the operator since the last call.
    pub fn notices(&mut self) -> std::vec::Drain<'_, Notice> {
        self.notices.drain(..)
    }

    /// Returns true if this server decides what is sent and when. The rate may not be known yet.
    pub fn is_paced(&self) -> bool {
        self.observer.is_some()
    }

    pub(super) fn has_pace(&self) -> bool {
        self.scheduler.pacer().pace().rate.is_some()
    }

    /// Returns true if the line's rate is not known yet, so that bytes are sent as fast as sockets take them.
    pub fn is_searching(&self) -> bool {
        self.is_paced() && !self.has_pace()
    }

    /// Returns true if the length of the queue below cannot be read.
    pub(super) fn is_blind(&self) -> bool {
        self.gauge.as_ref().is_none_or(Gauge::is_lost)
    }

    /// Returns true if the last attempt to read the queue below succeeded.
    fn is_gauged(&self) -> bool {
        self.gauge.as_ref().is_some_and(Gauge::is_fresh)
    }

    /// Returns what is known about the line; `None` if nothing is paced.
    pub fn line(&self, now: Nanos) -> Option<Line> {
        let observer = self.observer.as_ref()?;
        match self.gauge.as_ref().filter(|_| !self.is_blind()) {
            Some(gauge) => {
                Some(Line::Read { interface: gauge.name().into(), rate: self.scheduler.pacer().pace().rate })
            }
            None => Some(Line::Found(observer.status(now))),
        }
    }

    /// Returns the rate of the line if it is known and enforced, and the bytes that were handed down and have not left.
    pub fn rate_and_queue(&self, now: Nanos) -> (Option<Rate>, u64) {
        let pacer = self.scheduler.pacer();
        (pacer.pace().rate.filter(|_| self.is_paced()), pacer.ledger().bytes_below(now))
    }

    /// Returns the longest wait and the guard's promise; `None` if nothing was promised or sent.
    pub fn longest_wait(&self) -> Option<Notice> {
        let (wait, responses) = (self.scheduler.order().longest_wait(), self.scheduler.jobs().most());
        let promised = self.scheduler.wait_bound(Framing::ETHERNET)?.with(responses);
        (responses > 0).then_some(Notice::LongestWait { wait, responses, promised })
    }

    /// Checks the queue below; called about once a second while anything is sent.
    pub fn check(&mut self, connections: &Connections<impl Socket>, now: Nanos) {
        if let Some((rate, notice)) = self.gauge.as_mut().and_then(|gauge| gauge.check(now)) {
            self.scheduler.set_pace(now, Some(rate));
            self.observer = self.observer.take().map(|observer| observer.from(rate));
            self.notices.push(notice);
        }
        self.below.bytes(connections);
        self.notice_cross(now);
        self.notice_late();
    }

    /// Logs, once, that the processor is busy, because that is a lasting state that an operator can change.
    fn notice_late(&mut self) {
        let ahead = self.scheduler.pacer().lateness().ahead();
        self.late_checks = match self.late_checks {
            LATE_CHECKS_MIN => return,
            checks if ahead >= LATE_AHEAD_MIN => checks + 1,
            _ => 0,
        };
        if self.late_checks == LATE_CHECKS_MIN {
            self.notices.push(Notice::Late { ahead });
        }
    }

    fn notice_cross(&mut self, now: Nanos) {
        let (cross, rate) = (self.scheduler.pacer().ledger().cross_traffic(), self.scheduler.pacer().ledger().rate());
        let is_due = self.cross_noticed_at.is_none_or(|at| now - at >= CROSS_NOTICE_EVERY);
        if cross.presence() != Presence::Shared || !is_due {
            return;
        }
        if let (Some(gauge), Some(rate)) = (&self.gauge, rate) {
            self.cross_noticed_at = Some(now);
            let (bytes, share_permille) = (cross.bytes(), cross.share_permille());
            let interface = gauge.name().to_string();
            self.notices.push(Notice::CrossTraffic { interface, bytes, share_permille, rate });
        }
    }

    /// Corrects the scheduler's model by reading the queue below, if a grant is about to depend on it.
    pub(super) fn measure(&mut self, connections: &Connections<impl Socket>, now: Nanos, clock: &impl Fn() -> Nanos) {
        let Some(gauge) = &mut self.gauge else { return };
        if self.scheduler.link_timeout().is_none_or(|at| at > now) {
            return;
        }
        let Some(Queued { bytes, drops }) = gauge.read(now, clock) else { return };
        let reading = if self.scheduler.pacer().ledger().is_explained(now, bytes) {
            Reading { drops, ..Reading::own(bytes) }
        } else {
            let own_bytes = self.below.bytes(connections);
            Reading { queued_bytes: bytes, own_bytes, drops, watched: self.below.watched() }
        };
        self.scheduler.pacer_mut().on_reading(now, reading);
    }

    /// Ends the interval if it is over, and applies the pace that the line permits.
    pub(super) fn follow(&mut self, connections: &mut Connections<impl Socket>, now: Nanos) {
        let Some(observer) = self.observer.as_ref().filter(|_| self.is_blind()) else { return };
        let is_due = observer.is_due(now);
        if !is_due && self.unacknowledged.look_at().is_none_or(|at| at > now) {
            return;
        }
        self.look_at_unacknowledged(connections, now);
        self.unacknowledged.rearm(now);
        let (charged_bytes, lateness) =
            (self.scheduler.pacer().ledger().charged_bytes(), self.scheduler.pacer().lateness());
        let observer = self.observer.as_mut().filter(|_| is_due);
        let change = observer.and_then(|observer| observer.judge(now, charged_bytes, lateness));
        if let Some(Change { pace, notice }) = change {
            let kept_to = pace.filter(|pace| self.is_worth_pacing(now, *pace));
            self.scheduler.set_pace(now, kept_to);
            self.notices.extend(notice.filter(|_| kept_to == pace).map(Notice::Pace));
        }
    }

    /// Returns whether an estimated pace is worth enforcing. Under a configured maximum it is. On a fast line no pace
    /// is enforced, not even to drain a queue.
    fn is_worth_pacing(&self, now: Nanos, pace: Rate) -> bool {
        let Some(LineStatus { rate, bounds, .. }) = self.observer.as_ref().map(|observer| observer.status(now)) else {
            return true;
        };
        bounds.most.is_some() || !is_fast(rate.unwrap_or(pace))
    }

    /// Looks at connections with unacknowledged bytes. While the rate is searched, connections that the search does not
    /// need take turns.
    fn look_at_unacknowledged(&mut self, connections: &mut Connections<impl Socket>, now: Nanos) {
        let (is_searching, mut is_spent) = (self.is_searching(), false);
        for at in self.unacknowledged.begin_round() {
            let connection = &mut connections[at];
            let may_look = !is_searching || connection.delivery.was_full || self.unacknowledged.spend_look_in_turn();
            let status = may_look.then(|| connection.socket.status());
            if let Some(status) = &status {
                if connection.protocol.is_quiet() {
                    // What was foreseen after the last response stays charged.
                    let look = connection.delivery.look(now, status);
                    self.observe(now, connection.client, look);
                } else {
                    self.settle_by(now, connection, status);
                }
            } else if !std::mem::replace(&mut is_spent, true) {
                self.unacknowledged.go_on_with(connection.delivery.listed);
            }
            if status.is_some_and(|status| !status.is_unacknowledged)
                || self.unacknowledged.is_over(now, connection.delivery.listed)
            {
                self.unlist(at, connections);
            } else if connections[at].delivery.was_full {
                self.unacknowledged.note_full();
            }
        }
    }

    /// Reports to the estimator that no response waits for the line, because an interval without a backlog reveals
    /// nothing about the line's rate. An idle WebSocket, a slow program, a client that has stopped reading and a class
    /// at its maximum rate leave the line empty; bytes in a full socket do wait for the line.
    pub(super) fn note_idle(&mut self) {
        let is_backlogged = !self.scheduler.order().is_idle() || self.unacknowledged.has_full();
        if (self.scheduler.jobs().is_empty() || !is_backlogged)
            && let Some(observer) = &mut self.observer
        {
            observer.on_idle();
        }
    }

    /// Records that bytes were handed down on a connection and charged. If others' bytes wait below us, one write at a
    /// time is watched.
    pub(super) fn note_written(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, at: usize) {
        if self.bypasses_link(&connections[at]) {
            return;
        }
        if self.is_blind() {
            if self.is_paced() {
                let connection = &mut connections[at];
                let is_idle = connection.protocol.is_quiet();
                self.unacknowledged.list(now, at, &mut connection.delivery.listed, is_idle);
                if connection.delivery.was_full {
                    self.unacknowledged.note_full();
                }
            }
            return;
        }
        let payload_bytes = connections[at].delivery.newly_sent_bytes();
        self.below.on_written(at, connections);
        if self.scheduler.pacer().ledger().cross_traffic().presence() == Presence::Absent || payload_bytes == 0 {
            return;
        }
        self.below.look(payload_bytes, connections);
        if self.scheduler.pacer().ledger().wants_watch() && self.below.watch() {
            self.scheduler.pacer_mut().on_watched(now);
        }
    }

    /// Removes a connection from the list because everything on it is acknowledged, or because it ends.
    pub(super) fn unlist(&mut self, at: usize, connections: &mut Connections<impl Socket>) {
        let connection = &mut connections[at];
        connection.delivery.was_full = false;
        if let Some((moved, place)) = self.unacknowledged.unlist(&mut connection.delivery.listed) {
            connections[moved].delivery.listed = place;
        }
    }

    /// Returns whether the kernel may be queried about a connection. While the rate is searched, connections with only
    /// small responses share a limited number of queries.
    fn may_look(&mut self, connection: &Connection<impl Socket>) -> bool {
        !self.is_searching() || connection.delivery.was_full || self.unacknowledged.spend_look()
    }

    /// Settles the account with the bytes that TCP has sent, so that the link is not charged for those that wait in the
    /// socket for the window. On a long path, a response keeps about two segments in the socket in every round trip. If
    /// they were charged, the link would idle for as long as they take to send.
    pub(super) fn settle(&mut self, now: Nanos, connection: &mut Connection<impl Socket>) {
        if self.is_charged_for(connection) {
            let status = connection.socket.status();
            self.settle_by(now, connection, &status);
        }
    }

    fn settle_by(&mut self, now: Nanos, connection: &mut Connection<impl Socket>, status: &Status) {
        let (correction, look) = connection.delivery.settle(now, status);
        let is_gauged = self.is_gauged();
        self.scheduler.pacer_mut().on_correction(now, correction, is_gauged);
        if let Some(rtt) = look.rtt.filter(|_| look.is_handshake) {
            self.scheduler.pacer_mut().on_handshake(rtt);
        }
        self.observe(now, connection.client, look);
    }

    /// Reports received bytes to the estimator, because many of them may fill the queue in front of the server.
    pub fn note_received(&mut self, connection: &Connection<impl Socket>, bytes: usize) {
        if self.is_charged_for(connection)
            && let Some(observer) = &mut self.observer
        {
            observer.on_received(bytes as u64);
        }
    }

    /// Charges the link for acknowledgements of received payload.
    pub fn on_received(&mut self, now: Nanos, connection: &mut Connection<impl Socket>, payload_bytes: usize) {
        self.note_received(connection, payload_bytes);
        if self.is_charged_for(connection) {
            match connection.delivery.on_received(payload_bytes) {
                Acknowledged::Charge(wire_bytes) => self.correct(now, wire_bytes),
                Acknowledged::Look => self.settle(now, connection),
            }
        }
    }

    /// Settles the account after the last byte of a response, when there may be no further look.
    pub(super) fn settle_last(&mut self, now: Nanos, connection: &mut Connection<impl Socket>, ends_connection: bool) {
        if !self.is_charged_for(connection) {
            return;
        }
        let (is_read, status) = (self.is_gauged(), connection.socket.status());
        let (correction, look) = connection.delivery.settle(now, &status);
        let foreseen_bytes = connection.delivery.foresee(&status, ends_connection);
        self.scheduler.pacer_mut().on_correction(now, correction, is_read);
        self.scheduler.pacer_mut().on_foreseen(now, foreseen_bytes, is_read);
        self.observe(now, connection.client, look);
    }

    /// Settles the account if that is worth a system call. `is_again` is true if there will be another opportunity.
    pub(super) fn settle_if_it_may(&mut self, now: Nanos, connection: &mut Connection<impl Socket>, is_again: bool) {
        match self.is_charged_for(connection) && self.may_look(connection) {
            true if is_again => self.settle(now, connection),
            true => self.settle_last(now, connection, false),
            false => {}
        }
    }

    /// Settles the account when the connection ends.
    pub(super) fn settle_closed(&mut self, now: Nanos, connection: &mut Connection<impl Socket>) {
        if self.is_charged_for(connection) && self.may_look(connection) {
            let (correction, look) = connection.delivery.close(now, &connection.socket.status());
            let is_gauged = self.is_gauged();
            self.scheduler.pacer_mut().on_closed(now, correction, is_gauged);
            self.observe(now, connection.client, look);
        }
    }

    /// Returns whether the line carries the bytes of a connection.
    fn is_charged_for(&self, connection: &Connection<impl Socket>) -> bool {
        self.is_paced() && !connection.peer.is_local
    }

    /// Returns whether the responses of a connection are sent without grants of the line, because its client is reached
    /// without the uplink.
    pub(super) fn bypasses_link(&self, connection: &Connection<impl Socket>) -> bool {
        self.is_paced() && connection.peer.is_local
    }

    /// Starts to send on a connection whose client is now known.
    pub fn begin(&self, connection: &Connection<impl Socket>) {
        if self.bypasses_link(connection) {
            connection.socket.tcp().inspect(|tcp| tcp.take_all());
        }
    }

    /// Charges wire bytes that were sent on a connection without a grant.
    pub(super) fn correct_on(&mut self, now: Nanos, connection: &Connection<impl Socket>, charge_bytes: u64) {
        if self.is_charged_for(connection) {
            self.correct(now, charge_bytes);
        }
    }

    /// Charges wire bytes that were sent without a grant.
    pub fn correct(&mut self, now: Nanos, charge_bytes: u64) {
        if self.is_paced() {
            let is_gauged = self.is_gauged();
            self.scheduler.pacer_mut().on_correction(now, Correction { charge_bytes, refund_bytes: 0 }, is_gauged);
        }
    }

    fn observe(&mut self, now: Nanos, client: u32, look: Look) {
        let (is_blind, charged_bytes) = (self.is_blind(), self.scheduler.pacer().ledger().charged_bytes());
        if let Some(observer) = self.observer.as_mut().filter(|_| is_blind) {
            observer.on_look(now, charged_bytes, client, look);
        }
    }
}
