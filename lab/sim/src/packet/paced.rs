//! Weir's writer: the same [`sched::Scheduler`] asked in the same way as the server's `transmit` does, on a socket that takes no time.
//!
//! What is done here and there: a response's account is settled when it begins, after each grant, when its socket takes bytes again,
//! behind its last byte, when it is given up, and when its connection ends; the queue below and the interface's counters are read
//! when a grant could be made; where no queue is seen, round trips and losses set the pace.

use sched::line::{Bounds, Change, Estimator, Look, Seen};
use sched::{Guard, JobId, Pace, Progress, Reading, Scheduler, Why};
use units::Nanos;
use workload::Job;

use super::bottleneck::Queue;
use super::conn::Ring;
use super::world::{Event, World};
use super::{Config, ConnId, Shaping};

/// Two unsent segments: what the server sets TCP_NOTSENT_LOWAT to.
const UNSENT_SEGMENTS_MAX: u64 = 2;
/// The kernel looks at that limit once per packet of at most this size while it takes bytes in.
const WRITE_BYTES_MAX: u64 = 64 << 10;
/// The interval at which the scheduler reads what is below it, as in the server.
/// All connections with unacknowledged bytes are looked at this often, at least.
const LOOK_EVERY: Nanos = Nanos::from_millis(50);
const READ_EVERY: Nanos = Nanos::from_micros(500);

/// The state of paced shaping apart from the scheduler.
#[derive(Default)]
pub struct Writer {
    /// When it last read the queue below.
    read_at: Nanos,
    /// When it last looked at all connections with unacknowledged bytes.
    looked_at: Nanos,
    /// The estimator of a line that is not seen, which the connections feed.
    estimator: Option<Estimator>,
}

/// Thousandths of the bytes that the oldest response gets, as by the server.
const GUARD_PERMILLE: u32 = 10;

/// The scheduler, as the server makes it (`shaping.rs` there), and what belongs to it.
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
    /// Writes what is granted until nothing is.
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

    /// Lets the queue below correct the scheduler's idea of it.
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

    /// Writes to the socket until it has its two unsent segments, or all that was granted.
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

    /// Charges the link for what TCP sent, and not for what it keeps for want of a window; and learns from it.
    pub fn settle_account(&mut self, id: ConnId) {
        let now = self.now;
        let conn = self.conns.get(id).expect("the caller's connection");
        let correction = conn.account.settle(conn.sent);
        self.scheduler.pacer_mut().on_correction(now, correction, self.config.sees_queue);
        self.look(id);
    }

    /// Learns of the line from a connection.
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
            // Its readers are fast.
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

    /// The connection ends, maybe in the middle of its response: what it sent since it was last looked at is charged, and what was
    /// foreseen and never came is given back.
    pub fn close_account(&mut self, id: ConnId) {
        if self.config.shaping != Shaping::Paced {
            return;
        }
        self.look(id);
        let Some(conn) = self.conns.get(id) else { return };
        let job = conn.job.take();
        // A SYN that nobody finished is on nobody's account.
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
    /// Bytes of responses, headers included: what is on the connections' sockets.
    fn data_bytes(&self) -> u64 {
        self.bytes() - self.control_bytes()
    }
}
