//! The drain: whose bytes are handed down next, and when.
//!
//! TCP under a web server sends whatever was written, in the order it was written, so the only place to decide is
//! before the write. The obvious way, writing to the best connection until it blocks, fails: a socket buffer, a
//! qdisc and a device ring take megabytes without complaint, and all of it then leaves in FIFO order ahead of every
//! later decision. So bytes are handed down in small grants at the pace of the link, each to the job that is best at
//! that instant ([`Ledger`] is how the pace is kept).
//!
//! The caller asks [`Drain::poll_grant`], writes up to that many bytes, says how many it wrote
//! ([`Drain::on_sent`]) and, when the connection would take no more, [`Drain::on_blocked`]: a slow reader is then out
//! of the order until [`Drain::on_writable`], however good its rank, and never holds the link. One grant is
//! outstanding at a time.

use units::{Nanos, Rate};

use crate::herald::Heralds;
use crate::overtaking::Overtaking;
use crate::run_queue::{Key, RunQueue};
use crate::{Arrival, Correction, Guard, Job, JobId, Ledger, Pace, Passed, Path, Policy, Reading, Size, WaitBound};
use units::wire::Framing;

/// How many jobs may be in the system at once: one per connection at most, and a process cannot have more descriptors.
pub const JOBS_MAX: usize = 1 << 20;

/// Leave to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub job: JobId,
    /// Payload bytes, head included; more must not be handed down, less may.
    pub bytes_max: u64,
}

/// What became of a job when bytes of it were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// More is left.
    Remains,
    /// Its last byte was handed down; the id is stale now.
    Departed,
}

impl Progress {
    pub fn is_departed(self) -> bool {
        self == Progress::Departed
    }
}

pub struct Drain {
    policy: Box<dyn Policy>,
    /// What the policy said, asked once.
    follows_jobs: bool,
    pace: Pace,
    ledger: Ledger,
    guard: Guard,
    heralds: Heralds,
    overtaking: Overtaking,
    jobs: Vec<Option<Job>>,
    vacant: Vec<u32>,
    /// By slot, and only if the policy looks at paths: few do, and jobs are to stay small.
    paths: Option<Vec<Path>>,
    /// The ready jobs by how long they have waited for a byte; kept only while the guard is on.
    waiting: RunQueue,
    /// The slot that the outstanding grant was given against the order.
    helped: Option<u32>,
    /// Arrival number of the next job.
    arrivals: u64,
    longest_wait: Nanos,
    most_jobs: u64,
}

impl Drain {
    pub fn new(policy: Box<dyn Policy>, pace: Pace) -> Drain {
        Drain {
            follows_jobs: policy.follows_jobs(),
            paths: policy.needs_path().then(Vec::new),
            policy,
            ledger: Ledger::new(pace.rate, pace.behind),
            overtaking: Overtaking::new(pace.grant_for),
            pace,
            guard: Guard::default(),
            heralds: Heralds::default(),
            jobs: Vec::new(),
            vacant: Vec::new(),
            waiting: RunQueue::default(),
            helped: None,
            arrivals: 0,
            longest_wait: Nanos::ZERO,
            most_jobs: 0,
        }
    }

    /// The same drain with a guard beside its ranks; a policy that starves nobody goes without.
    pub fn with_guard(mut self, guard: Guard) -> Drain {
        assert!(self.is_empty(), "the guard is set before the first job arrives");
        if self.policy.can_starve() {
            self.guard = guard;
        }
        self
    }

    /// The same drain with another share of the link for foreign traffic in the queue below, in thousandths.
    pub fn with_foreign_share(self, permille: u32) -> Drain {
        assert!(self.is_empty(), "the foreign share is set before the first job arrives");
        Drain { ledger: self.ledger.with_foreign_share(permille), ..self }
    }

    /// How long a ready job of `framing` can go without a byte, as the guard promises; `None` without rate or guard.
    pub fn wait_bound(&self, framing: Framing) -> Option<WaitBound> {
        let longest = Pace { grant_for: self.overtaking.longest(), ..self.pace };
        let grant_wire_bytes = framing.wire_bytes(longest.grant_bytes(framing));
        self.guard.wait_bound(self.ledger.rate()?, grant_wire_bytes)
    }

    /// The longest that a ready job has waited for a byte so far; those that still wait are told by nobody.
    pub fn longest_wait(&self) -> Nanos {
        self.longest_wait
    }

    /// The most jobs that were in the system at once.
    pub fn most_jobs(&self) -> u64 {
        self.most_jobs
    }

    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// Jobs in the system, ready or blocked.
    pub fn len(&self) -> usize {
        self.jobs.len() - self.vacant.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The job, unless it has departed.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(id.slot as usize)?.as_ref().filter(|job| job.number == id.number)
    }

    /// The job's priority band now, below [`Policy::bands`]; 0 for a departed job, whose last bytes matter most.
    pub fn band(&self, id: JobId) -> u8 {
        self.job(id).map_or(0, |job| self.policy.band(job, path_of(&self.paths, id.slot)))
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// A response is to be sent; it is ready at once.
    pub fn arrive(&mut self, now: Nanos, arrival: Arrival) -> JobId {
        assert!(self.len() < JOBS_MAX, "more than {JOBS_MAX} jobs in the system");
        assert!(arrival.size != Size::Known(0), "a response has at least a head");
        self.on_ready(now);
        self.heralds.on_arrival(now, arrival.framing);
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() as u32 - 1
        });
        let id = JobId { slot, number: self.arrivals };
        self.arrivals += 1;
        if let Some(paths) = &mut self.paths {
            paths.resize(paths.len().max(slot as usize + 1), Path::default());
            paths[slot as usize] = arrival.path;
        }
        let job = self.jobs[slot as usize].insert(Job {
            number: id.number,
            arrived_at: now,
            size: arrival.size,
            attained: 0,
            framing: arrival.framing,
            class: arrival.class,
            is_ready: true,
            waits_since: now,
        });
        if self.follows_jobs {
            self.policy.on_arrival(slot, job, path_of(&self.paths, slot));
        }
        self.enqueue(slot);
        self.on_overtaking(now, slot, arrival.size);
        self.most_jobs = self.most_jobs.max(self.len() as u64);
        id
    }

    /// Notes a newcomer that goes before the others and yet waits, for what was last granted.
    fn on_overtaking(&mut self, now: Nanos, slot: u32, size: Size) {
        if let Size::Known(bytes) = size
            && self.pace.rate.is_some()
            && self.policy.can_starve()
            && self.ledger.room_at(self.pace.ahead) > now
            && self.policy.first() == Some(slot)
        {
            self.overtaking.on_waits(bytes);
        }
    }

    /// Who may send now. `None` while nobody is ready or the link has enough ([`Drain::poll_timeout`] says until when).
    #[must_use]
    pub fn poll_grant(&mut self, now: Nanos) -> Option<Grant> {
        if self.ledger.room_at(self.pace.ahead) > now || self.heralds.holds(now) {
            return None;
        }
        let first = self.policy.first()?;
        self.helped = self.overdue(now).filter(|slot| *slot != first);
        let slot = self.helped.unwrap_or(first);
        let job = self.jobs[slot as usize].as_ref().expect("a ready job is in the system");
        let bytes_max = grant_bytes(job, self.pace.grant_bytes(job.framing));
        Some(Grant { job: JobId { slot, number: job.number }, bytes_max })
    }

    /// When to ask again for a grant: an instant, maybe past, or `None` while nobody is ready.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let room_at = self.ledger.room_at(self.pace.ahead);
        self.policy.first().map(|_| self.heralds.held_until().map_or(room_at, |until| until.max(room_at)))
    }

    /// What the interface has sent, asked when a grant could be made: a SYN-ACK announces a request, and the next grant may be held
    /// for it. Only those who have long to go are held, and only by a policy that puts others first.
    pub fn on_passed(&mut self, now: Nanos, passed: Passed) {
        let (Some(rate), Some(slot)) = (self.ledger.rate(), self.policy.first()) else { return };
        let job = self.jobs[slot as usize].as_ref().expect("a ready job is in the system");
        let bytes = grant_bytes(job, self.pace.grant_bytes(job.framing));
        let is_long = self.policy.can_starve() && job.remaining() > bytes && self.overdue(now).is_none();
        let grant_for = if is_long { rate.time_for(job.framing.wire_bytes(bytes)) } else { Nanos::ZERO };
        self.heralds.on_passed(now, passed, self.ledger.room_at(Nanos::ZERO), rate, grant_for);
    }

    /// A connection was new when its response came: the round trip of its handshake.
    pub fn on_handshake(&mut self, rtt: Nanos) {
        self.heralds.on_handshake(rtt);
    }

    /// Bytes of the job were handed down; zero is fine. A no-op for a departed job.
    pub fn on_sent(&mut self, now: Nanos, id: JobId, bytes: u64) -> Progress {
        let Some(job) = self.jobs.get_mut(id.slot as usize).and_then(Option::as_mut) else { return Progress::Departed };
        if job.number != id.number {
            return Progress::Departed;
        }
        let wire_bytes = job.framing.wire_bytes(bytes);
        let left_bytes = job.remaining();
        job.attained += bytes;
        if bytes > 0 {
            self.longest_wait = self.longest_wait.max(now - job.waits_since);
            job.waits_since = now;
        }
        if let Size::Known(size) = job.size {
            assert!(job.attained <= size, "sent {} bytes of a response of {size}", job.attained);
        }
        if self.follows_jobs {
            self.policy.on_sent(id.slot, job, bytes);
        }
        let (is_sent, is_ready) = (job.is_sent(), job.is_ready);
        if self.helped.take() == Some(id.slot) {
            self.guard.on_granted(wire_bytes);
        }
        let segment_bytes = job.framing.segment_bytes;
        if let Some(rate) = self.pace.rate {
            self.ledger.charge(now, wire_bytes);
            self.heralds.on_sent(bytes, segment_bytes, rate.time_for(wire_bytes));
            self.overtaking.on_granted(rate.time_for(wire_bytes), left_bytes);
            self.pace.grant_for = self.overtaking.grant_for();
        }
        self.earn(wire_bytes);
        if is_sent {
            self.depart(id.slot);
            return Progress::Departed;
        }
        if is_ready {
            self.enqueue(id.slot);
        }
        Progress::Remains
    }

    /// The connection takes no more: the job is out of the order. Calling twice, or late, changes nothing.
    pub fn on_blocked(&mut self, id: JobId) {
        if let Some(job) = self.job_mut(id) {
            job.is_ready = false;
            self.dequeue(id.slot);
        }
    }

    /// The connection takes bytes again. Calling twice, or late, changes nothing.
    pub fn on_writable(&mut self, now: Nanos, id: JobId) {
        if self.job(id).is_some_and(|job| !job.is_ready) {
            self.on_ready(now);
            let job = self.jobs[id.slot as usize].as_mut().expect("just seen");
            job.is_ready = true;
            job.waits_since = now;
            self.enqueue(id.slot);
        }
    }

    /// The path to the client is now known to be this. A no-op for a departed job, and under a policy that does not look
    /// at paths ([`Policy::needs_path`]).
    pub fn on_path(&mut self, id: JobId, path: Path) {
        let Some(is_ready) = self.job(id).map(|job| job.is_ready) else { return };
        let Some(paths) = &mut self.paths else { return };
        paths[id.slot as usize] = path;
        if is_ready {
            self.enqueue(id.slot);
        }
    }

    /// A job of unknown size has sent its last byte. A no-op for a departed job.
    pub fn on_end(&mut self, id: JobId) {
        self.on_abort(id);
    }

    /// The job will send no more. A no-op for a departed job.
    pub fn on_abort(&mut self, id: JobId) {
        if self.job(id).is_some() {
            self.depart(id.slot);
        }
    }

    /// A connection's account was settled: bytes left that no grant covered (handshakes, acknowledgements, retransmissions),
    /// or bytes that a grant covered stay with TCP for now, and the link is free for others. `is_read` says that the queue below
    /// is measured ([`Drain::on_reading`]).
    pub fn on_correction(&mut self, now: Nanos, correction: Correction, is_read: bool) {
        if correction.charge_bytes > 0 {
            if self.pace.rate.is_some() {
                self.ledger.charge_late(now, correction.charge_bytes, is_read);
            }
            self.earn(correction.charge_bytes);
        }
        if correction.refund_bytes > 0 {
            self.ledger.refund(correction.refund_bytes);
        }
    }

    /// Bytes of a connection are still to leave that no grant will cover; see [`Ledger::charge_ahead`].
    pub fn on_foreseen(&mut self, now: Nanos, wire_bytes: u64, is_read: bool) {
        let is_read = is_read && !self.leaves_at_once(wire_bytes);
        if self.pace.rate.is_some() {
            self.ledger.charge_ahead(now, wire_bytes, is_read);
        }
        self.earn(wire_bytes);
    }

    /// Accounts were settled at the end of their connections: what was charged and not sent is what was foreseen and never
    /// came.
    pub fn on_closed(&mut self, now: Nanos, correction: Correction, is_read: bool) {
        self.on_correction(now, Correction { refund_bytes: 0, ..correction }, is_read);
        if correction.refund_bytes > 0 {
            let is_read = is_read && !self.leaves_at_once(correction.refund_bytes);
            self.ledger.refund_ahead(correction.refund_bytes, is_read);
        }
    }

    /// What is foreseen is an acknowledgement alone and its client is near. No reading need show it: a bucket lets it go at once,
    /// and on a line no faster than the bucket twenty of them are a packet that stands there for as long as there is work.
    fn leaves_at_once(&self, wire_bytes: u64) -> bool {
        const ALONE_BYTES_MAX: u64 = 100;
        const NEAR: Nanos = Nanos::from_millis(1);
        wire_bytes <= ALONE_BYTES_MAX && self.heralds.shortest_handshake().is_some_and(|rtt| rtt <= NEAR)
    }

    /// Whether a queue of this length needs no second look; see [`Ledger::is_explained`].
    pub fn is_explained(&self, now: Nanos, queued_bytes: u64) -> bool {
        self.ledger.is_explained(now, queued_bytes)
    }

    /// The queue below was measured; see [`Ledger::on_reading`].
    pub fn on_reading(&mut self, now: Nanos, reading: Reading) {
        self.ledger.on_reading(now, reading);
    }

    /// The link has another rate from now on. A no-op where there is none: a drain that was not paced has no clock to keep.
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        if self.pace.rate.is_some() {
            self.pace.rate = Some(rate);
            self.ledger.set_rate(now, rate);
        }
    }

    /// One more is ready than was before.
    fn on_ready(&mut self, now: Nanos) {
        if self.policy.first().is_none() {
            self.ledger.resume(now);
        }
    }

    /// The link was used, and the guard gets its share of that.
    fn earn(&mut self, wire_bytes: u64) {
        if !self.guard.is_off()
            && let Some(slot) = self.waiting.first()
        {
            let grant_wire_bytes = self.grant_wire_bytes(slot);
            self.guard.on_charged(wire_bytes, grant_wire_bytes);
        }
    }

    /// The slot that has waited too long, if the guard can pay for it.
    fn overdue(&self, now: Nanos) -> Option<u32> {
        let slot = self.waiting.first()?;
        let since = self.jobs[slot as usize].as_ref().expect("a ready job is in the system").waits_since;
        self.guard.is_due(now, since, self.grant_wire_bytes(slot)).then_some(slot)
    }

    fn grant_wire_bytes(&self, slot: u32) -> u64 {
        let job = self.jobs[slot as usize].as_ref().expect("a ready job is in the system");
        job.framing.wire_bytes(grant_bytes(job, self.pace.grant_bytes(job.framing)))
    }

    fn job_mut(&mut self, id: JobId) -> Option<&mut Job> {
        self.jobs.get_mut(id.slot as usize)?.as_mut().filter(|job| job.number == id.number)
    }

    fn enqueue(&mut self, slot: u32) {
        let job = self.jobs[slot as usize].as_ref().expect("an enqueued job is in the system");
        self.policy.enqueue(slot, job, path_of(&self.paths, slot));
        if !self.guard.is_off() {
            self.waiting.set(slot, Key { rank: job.waits_since.0, number: job.number });
        }
    }

    fn dequeue(&mut self, slot: u32) {
        let job = self.jobs[slot as usize].as_ref().expect("a dequeued job is in the system");
        self.policy.dequeue(slot, job);
        if !self.guard.is_off() {
            self.waiting.remove(slot);
            if self.waiting.len() == 0 {
                self.guard.forget();
            }
        }
    }

    fn depart(&mut self, slot: u32) {
        self.dequeue(slot);
        if self.follows_jobs {
            let job = self.jobs[slot as usize].as_ref().expect("a job departs once");
            self.policy.on_departure(slot, job);
        }
        self.jobs[slot as usize] = None;
        self.vacant.push(slot);
    }
}

fn path_of(paths: &Option<Vec<Path>>, slot: u32) -> &Path {
    const UNKNOWN: Path = Path { rtt: None, cwnd_bytes: None, throughput_bps: None };
    paths.as_ref().map_or(&UNKNOWN, |paths| &paths[slot as usize])
}

/// A grant ends where a segment does, so that no short segment is sent but the last.
fn grant_bytes(job: &Job, grant_bytes: u64) -> u64 {
    if let Size::Known(_) = job.size
        && job.remaining() + job.framing.segment_bytes <= grant_bytes
    {
        // The usual case, and spares a division.
        return job.remaining();
    }
    let over = job.attained % job.framing.segment_bytes;
    match job.size {
        Size::Known(_) => (grant_bytes - over).min(job.remaining()),
        Size::AtLeast(_) => grant_bytes - over,
    }
}

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;
