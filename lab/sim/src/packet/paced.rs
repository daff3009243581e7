//! Weir's writer: it calls the [`sched::Scheduler`] in the same way as the server's `transmit`, on a socket that takes
//! no time.
//!
//! As in the server, a response's account is settled when the response begins, after each grant, when its socket takes
//! bytes again, after its last byte, when it is given up, and when its connection ends. The queue below and the
//! interface's counters are read whenever a grant is possible. If no queue is visible, round trips and losses determine
//! the pace.

use sched::line::{Bounds, Change, Estimator, Look, Seen};
use sched::{Guard, JobId, Pace, Progress, Reading, Scheduler, Why};
use units::Nanos;
use workload::Job;

use super::bottleneck::Queue;
use super::conn::Ring;
use super::world::{Event, World};
use super::{Config, ConnId, Shaping};

/// The maximum number of unsent segments, to which the server sets TCP_NOTSENT_LOWAT.
const UNSENT_SEGMENTS_MAX: u64 = 2;
/// The maximum size of a packet in a write. The kernel checks its limit once per packet.
const WRITE_BYTES_MAX: u64 = 64 << 10;
/// The interval at which the scheduler reads the queue below it, as in the server. It is also the maximum interval at
/// which connections with unacknowledged bytes are examined.
const LOOK_EVERY: Nanos = Nanos::from_millis(50);
const READ_EVERY: Nanos = Nanos::from_micros(500);

/// The state of paced shaping outside the scheduler.
#[derive(Default)]
pub struct Writer {
    /// The instant at which the queue below was last read.
    read_at: Nanos,
    /// The instant at which all connections with unacknowledged bytes were last examined.
    looked_at: Nanos,
    /// The estimator of an invisible line, which receives the observations of the connections.
    estimator: Option<Estimator>,
}

/// The share of bytes that the oldest response gets, in thousandths, as in the server.
const GUARD_PERMILLE: u32 = 10;

/// Creates the scheduler in the same way as the server (`shaping.rs` there), and the writer.
pub fn scheduler(config: &Config) -> (Scheduler, Writer) {
    if config.shaping != Shaping::Paced {
        return (Scheduler::new(config.policy.build(), Pace::UNLIMITED), Writer::default());
    }
    let bounds = config.told.unwrap_or(Bounds::told(config.link));
    let pace = Pace { rate: bounds.first, ..Pace::of_line(config.link) };
    let pace = if config.sees_queue { Pace::of_line(config.link) } else { pace };
    let estimator = (!config.sees_queue).then(|| Estimator::new(bounds));
    let scheduler = Scheduler::new(config.policy.build(), pace).with_guard(Guard::new(GUARD_PERMILLE));
    (scheduler, Writer { estimator, ..Writer::default() })
}

impl<J: Iterator<Item = Job>> World<'_, '_, J> {
    /// Writes granted bytes until there are no more grants.
    pub fn pump(&mut self) {
        if self.config.shaping != Shaping::Paced {
            return;
        }
        loop {
            self.read_queue();
            self.follow();
            let Some(grant) = self.scheduler.poll_grant(self.now) else { break };
            self.write(grant.job, grant.bytes_max);
            self.serve();
        }
        if self.scheduler.jobs().is_empty()
            && let Some(estimator) = &mut self.writer.estimator
        {
            estimator.on_idle();
        }
        if let Some(at) = self.grant.set(self.scheduler.poll_timeout().map(|at| at.max(self.now))) {
            self.calendar.push(at, Event::Grant);
        }
    }

    pub fn on_grant_timer(&mut self) {
        match self.grant.ring(self.now) {
            Ring::Due => self.pump(),
            Ring::Later(at) => self.calendar.push(at, Event::Grant),
            Ring::Stale => {}
        }
    }

    /// Returns true if a grant could be made now.
    fn is_due(&self) -> bool {
        self.scheduler.poll_timeout().is_some_and(|at| at <= self.now)
    }

    /// Corrects the scheduler's model of the queue below with a reading.
    fn read_queue(&mut self) {
        if !self.config.sees_queue || self.now - self.writer.read_at < READ_EVERY || !self.is_due() {
            return;
        }
        self.writer.read_at = self.now;
        let queued_bytes = self.queue.bytes();
        let is_explained = self.scheduler.pacer().ledger().is_explained(self.now, queued_bytes);
        let own_bytes = if is_explained { queued_bytes } else { self.queue.data_bytes() };
        let drops = self.counts.queue_drops;
        self.scheduler.pacer_mut().on_reading(self.now, Reading { own_bytes, drops, ..Reading::own(queued_bytes) });
    }

    /// Sets the pace that the line allows.
    fn follow(&mut self) {
        let now = self.now;
        let Some(estimator) = &self.writer.estimator else { return };
        let is_due = estimator.is_due(now);
        if !is_due && now - self.writer.looked_at < LOOK_EVERY {
            return;
        }
        self.writer.looked_at = now;
        let unacked: Vec<ConnId> = self.conns.unacknowledged().collect();
        unacked.into_iter().for_each(|id| self.look(id));
        let charged_bytes = self.scheduler.pacer().ledger().charged_bytes();
        let Some(estimator) = self.writer.estimator.as_mut().filter(|_| is_due) else { return };
        if let Some(Change { pace, .. }) = estimator.judge(now, charged_bytes) {
            self.scheduler.set_pace(now, pace);
        }
    }

    /// Writes to the socket until it has two unsent segments, or the grant is used up.
    fn write(&mut self, job: JobId, bytes_max: u64) {
        let id = self.by_job[job.slot()];
        let limit = UNSENT_SEGMENTS_MAX * u64::from(self.settings.segment_bytes);
        let remaining = self.scheduler.jobs().get(job).map_or(0, sched::Job::remaining);
        let mut written = 0;
        let mut is_blocked = false;
        while written < bytes_max && !is_blocked {
            let conn = self.conns.get(id).expect("a granted job has a connection");
            is_blocked = conn.sender.unsent_bytes() >= limit;
            if !is_blocked {
                let bytes = WRITE_BYTES_MAX.min(bytes_max - written);
                written += bytes;
                conn.sender.write(self.now, bytes, conn.closes && written == remaining, &self.settings);
                self.transmit(id);
            }
        }
        let framing = self.settings.framing();
        self.conns.get(id).expect("just written to").account.on_charged(framing.wire_bytes(written));
        let progress = self.scheduler.on_sent(self.now, job, written);
        self.settle_account(id);
        let conn = self.conns.get(id).expect("just written to");
        match progress {
            Progress::Departed => {
                conn.job = None;
                let rest = conn.account.foresee(conn.sender.unsent_bytes(), u64::from(conn.closes));
                self.scheduler.pacer_mut().on_foreseen(self.now, rest, self.config.sees_queue);
            }
            Progress::Remains if is_blocked => {
                conn.is_blocked = true;
                self.scheduler.on_wait(job, Why::Connection);
            }
            Progress::Remains => {}
            Progress::Overrun(overrun) => panic!("{overrun}"),
        }
    }

    /// Charges the link only for the bytes that TCP sent, not for those that it keeps until the window opens, and
    /// observes the line.
    pub fn settle_account(&mut self, id: ConnId) {
        let now = self.now;
        let conn = self.conns.get(id).expect("the caller's connection");
        let correction = conn.account.settle(conn.sent);
        self.scheduler.pacer_mut().on_correction(now, correction, self.config.sees_queue);
        self.look(id);
    }

    /// Observes the line through a connection.
    fn look(&mut self, id: ConnId) {
        let (now, framing) = (self.now, self.settings.framing());
        let Some(conn) = self.conns.get(id) else { return };
        let seen = Seen {
            rtt: conn.sender.rtt().smoothed(),
            acked_bytes: conn.sender.acked_bytes(),
            sacked_bytes: conn.sender.sacked_bytes(&self.settings),
            acked_ago: now - conn.acked_at,
            sent_bytes: conn.sent.payload_bytes - conn.sender.resent_bytes.min(conn.sent.payload_bytes),
            retransmitted_bytes: conn.sender.resent_bytes,
            // Readers are fast in this model.
            shut_for: Nanos::ZERO,
            is_by_program: false,
        };
        let (look, client) = (conn.looks.look(now, &seen, framing), u64::from(conn.path));
        self.learn(look, client);
    }

    fn learn(&mut self, look: Look, client: u64) {
        if let Some(rtt) = look.rtt.filter(|_| look.is_handshake) {
            self.scheduler.pacer_mut().on_handshake(rtt);
        }
        let charged_bytes = self.scheduler.pacer().ledger().charged_bytes();
        if let Some(estimator) = &mut self.writer.estimator {
            estimator.on_look(self.now, charged_bytes, || client, look);
        }
    }

    /// The socket takes bytes again once less than half of its unsent limit is left.
    pub fn unblock(&mut self, id: ConnId) {
        let limit = UNSENT_SEGMENTS_MAX * u64::from(self.settings.segment_bytes);
        let Some(conn) = self.conns.get(id).filter(|conn| conn.is_blocked) else { return };
        if 2 * conn.sender.unsent_bytes() >= limit {
            return;
        }
        conn.is_blocked = false;
        if let Some(job) = conn.job {
            self.scheduler.on_wait_over(self.now, job, Why::Connection);
            self.settle_account(id);
            self.pump();
        }
    }

    /// Ends the account of a connection, which may end in the middle of a response. Bytes sent since the last
    /// settlement are charged, and charges for bytes that were never sent are refunded.
    pub fn close_account(&mut self, id: ConnId) {
        if self.config.shaping != Shaping::Paced {
            return;
        }
        self.look(id);
        let Some(conn) = self.conns.get(id) else { return };
        let job = conn.job.take();
        // An unfinished handshake is charged to no account.
        let closed = (conn.seen > 0).then(|| conn.account.close(conn.sent, 0, 0));
        if let Some(job) = job {
            self.scheduler.on_end(job);
        }
        if let Some(correction) = closed {
            self.scheduler.pacer_mut().on_closed(self.now, correction, self.config.sees_queue);
        }
    }
}

impl Queue {
    /// The bytes of responses, with headers, on the connections' sockets.
    fn data_bytes(&self) -> u64 {
        self.bytes() - self.control_bytes()
    }
}
