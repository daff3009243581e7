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
//!
//! A connection that carries many responses at once is a carrier ([`Drain::open`], in `carried.rs`); one that carries one at a
//! time needs none, and its jobs stand in the order by themselves: a carrier opened and closed around each would take a microsecond more.

mod below;
mod carried;
mod classes;
mod clients;
mod grants;
mod shrink;

use units::Nanos;

use crate::carrier::{Carrier, Waits, Why};
use crate::handshakes::Handshakes;
use crate::job::{NO_CARRIER, OWN_RANK};
use crate::overtaking::Overtaking;
use crate::run_queue::{Key, RunQueue};
use crate::{Arrival, Guard, Job, JobId, Ledger, Pace, Path, Policy, Size, WaitBound};
use units::wire::Framing;

pub use carried::{CARRIERS_MAX, Sent};
use grants::{grant_bytes, left_at_most};

/// How many jobs may be in the system at once: one per connection at most, and a process cannot have more descriptors.
pub const JOBS_MAX: usize = 1 << 20;

/// Leave to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub job: JobId,
    /// Bytes of the job, head included; more must not be handed down, less may.
    pub bytes_max: u64,
    /// Payload that the connection may carry for it, frames and records included: it ends where a segment does.
    pub room_bytes: u64,
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
    /// What the policy said, asked once: few look at paths.
    follows_jobs: bool,
    pace: Pace,
    ledger: Ledger,
    guard: Guard,
    handshakes: Handshakes,
    overtaking: Overtaking,
    jobs: Vec<Option<Job>>,
    vacant: Vec<u32>,
    needs_path: bool,
    /// By slot, which is none of a job's then.
    carriers: Vec<Option<Box<Carrier>>>,
    carrier_count: usize,
    /// Of classes, where the policy has an operator's.
    limits: Option<Box<classes::Limits>>,
    /// The ready jobs by how long they have waited for a byte; kept only while the guard is on.
    waiting: RunQueue,
    /// The slot that the outstanding grant was given against the order.
    helped: Option<u32>,
    /// Arrival number of the next job.
    arrivals: u64,
    /// When bytes were last handed down.
    sent_at: Nanos,
    longest_wait: Nanos,
    most_jobs: u64,
}

impl Drain {
    pub fn new(policy: Box<dyn Policy>, pace: Pace) -> Drain {
        Drain {
            follows_jobs: policy.follows_jobs(),
            needs_path: policy.needs_path(),
            policy,
            ledger: Ledger::new(pace.rate, pace.behind),
            overtaking: Overtaking::new(pace.grant_for),
            pace,
            guard: Guard::default(),
            handshakes: Handshakes::default(),
            jobs: Vec::new(),
            carriers: Vec::new(),
            carrier_count: 0,
            limits: None,
            vacant: Vec::new(),
            waiting: RunQueue::default(),
            helped: None,
            arrivals: 0,
            sent_at: Nanos::ZERO,
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

    /// The policy looks at paths.
    pub fn needs_path(&self) -> bool {
        self.needs_path
    }

    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// Jobs in the system, ready or blocked.
    pub fn len(&self) -> usize {
        self.jobs.len() - self.vacant.len() - self.carrier_count
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
        self.job(id).map_or(0, |job| self.policy.band(id.slot, job))
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// A response is to be sent; it is ready at once.
    pub fn arrive(&mut self, now: Nanos, arrival: Arrival) -> JobId {
        let id = self.admit(now, arrival, NO_CARRIER);
        if self.claim_slot(id) {
            self.enqueue(id.slot);
            self.on_overtaking(now, id.slot, arrival.size);
        }
        id
    }

    /// The job is in the system, and not in the order yet.
    fn admit(&mut self, now: Nanos, arrival: Arrival, carrier: u32) -> JobId {
        assert!(self.len() < JOBS_MAX, "more than {JOBS_MAX} jobs in the system");
        assert!(arrival.size != Size::Known(0), "a response has at least a head");
        self.on_ready(now);
        let slot = self.take_slot();
        let id = JobId { slot, number: self.arrivals };
        self.arrivals += 1;
        if self.needs_path {
            self.policy.on_path(slot, &arrival.path);
        }
        let job = self.jobs[slot as usize].insert(Job {
            number: id.number,
            arrived_at: now,
            size: arrival.size,
            attained: 0,
            framing: arrival.framing.into(),
            class: arrival.class,
            client: arrival.client,
            waits: Waits::default(),
            carrier,
            carried_rank: OWN_RANK,
            waits_since: now,
        });
        if self.follows_jobs {
            self.policy.on_arrival(slot, job);
        }
        self.most_jobs = self.most_jobs.max(self.len() as u64);
        id
    }

    fn take_slot(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            crate::grow::reserve_one(&mut self.jobs);
            self.jobs.push(None);
            self.jobs.len() as u32 - 1
        })
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
        self.let_go(now);
        if self.ledger.room_at(self.pace.ahead) > now {
            return None;
        }
        let first = self.policy.first()?;
        self.helped = self.overdue(now).filter(|slot| *slot != first);
        let slot = self.helped.unwrap_or(first);
        let job = self.jobs[slot as usize].as_ref().expect("a ready job is in the system");
        let job_id = JobId { slot, number: job.number };
        if job.carrier != NO_CARRIER {
            let room_bytes = self.room_on_carrier(job);
            return Some(Grant { job: job_id, bytes_max: room_bytes.min(left_at_most(job)), room_bytes });
        }
        let bytes_max = grant_bytes(job, self.pace.grant_bytes(job.framing()));
        Some(Grant { job: job_id, bytes_max, room_bytes: bytes_max })
    }

    /// When to ask again for a grant: an instant, maybe past, or `None` while nobody is ready.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let granted_at = self.policy.first().map(|_| self.ledger.room_at(self.pace.ahead));
        granted_at.or_else(|| self.next_let_go())
    }

    /// Bytes of the job were handed down; zero is fine. A no-op for a departed job.
    pub fn on_sent(&mut self, now: Nanos, id: JobId, bytes: u64) -> Progress {
        self.on_sent_as(now, id, Sent { content_bytes: bytes, carried_bytes: bytes })
    }

    /// The same where the connection carries more than the job's own bytes.
    pub fn on_sent_as(&mut self, now: Nanos, id: JobId, sent: Sent) -> Progress {
        let bytes = sent.content_bytes;
        let Some(job) = self.jobs.get_mut(id.slot as usize).and_then(Option::as_mut) else { return Progress::Departed };
        if job.number != id.number {
            return Progress::Departed;
        }
        let wire_bytes = job.framing().wire_bytes(sent.carried_bytes);
        let left_bytes = job.remaining();
        job.attained += bytes;
        self.sent_at = now;
        let carrier = job.carrier;
        if bytes > 0 && carrier == NO_CARRIER {
            self.longest_wait = self.longest_wait.max(now - job.waits_since);
            job.waits_since = now;
        }
        if let Size::Known(size) = job.size {
            assert!(job.attained <= size, "sent {} bytes of a response of {size}", job.attained);
        }
        if self.follows_jobs {
            self.policy.on_sent(id.slot, job, bytes);
        }
        let (is_sent, is_ready) = (job.is_sent(), job.is_ready());
        if self.helped.take() == Some(id.slot) {
            self.guard.on_granted(wire_bytes);
        }
        if carrier != NO_CARRIER {
            self.on_carried(now, carrier, id.slot, sent);
        }
        self.ledger.charge(now, wire_bytes);
        if let Some(rate) = self.pace.rate {
            self.shorten_grants(rate.time_for(wire_bytes), left_bytes);
        }
        self.earn(wire_bytes);
        self.charge_class(now, id.slot, wire_bytes);
        self.proceed(id.slot, is_sent, is_ready)
    }

    /// Puts a job where it belongs after some of it was sent.
    fn proceed(&mut self, slot: u32, is_sent: bool, is_ready: bool) -> Progress {
        if is_sent {
            self.depart(slot);
            return Progress::Departed;
        }
        if is_ready {
            self.enqueue(slot);
        }
        Progress::Remains
    }

    /// The link was granted for so long to a job that had so much left.
    fn shorten_grants(&mut self, link_time: Nanos, left_bytes: u64) {
        self.overtaking.on_granted(link_time, left_bytes);
        self.pace.grant_for = self.overtaking.grant_for();
    }

    /// The connection takes no more: the job is out of the order. Calling twice, or late, changes nothing.
    pub fn on_blocked(&mut self, id: JobId) {
        self.on_wait(id, Why::Carrier);
    }

    /// The connection takes bytes again. Calling twice, or late, changes nothing.
    pub fn on_writable(&mut self, now: Nanos, id: JobId) {
        self.on_wait_over(now, id, Why::Carrier);
    }

    /// The job cannot be sent for this reason too: it is out of the order. Calling twice, or late, changes nothing.
    pub fn on_wait(&mut self, id: JobId, why: Why) {
        if let Some(job) = self.job_mut(id) {
            job.waits.insert(why);
            self.dequeue(id.slot);
        }
    }

    /// The reason is gone, and with the last of them the job is ready. Calling twice, or late, changes nothing.
    pub fn on_wait_over(&mut self, now: Nanos, id: JobId, why: Why) {
        if self.job_mut(id).is_some_and(|job| job.waits.remove(why)) {
            self.on_ready(now);
            let job = self.jobs[id.slot as usize].as_mut().expect("just seen");
            job.waits_since = now;
            self.on_carrier_ready(now, id.slot);
            self.enqueue(id.slot);
        }
    }

    /// More is known of the job's size; what is known is never less than it has had. A no-op for a departed job, and for one whose
    /// size is known: an end that comes sooner is told by [`Drain::on_end`].
    pub fn on_size(&mut self, id: JobId, size: Size) {
        let Some(job) = self.jobs.get_mut(id.slot as usize).and_then(Option::as_mut) else { return };
        if job.number != id.number || matches!(job.size, Size::Known(_)) {
            return;
        }
        let before = job.clone();
        job.size = size;
        if let Size::Known(bytes) = size {
            assert!(bytes > job.attained, "{bytes} bytes of a response of which {} were sent", job.attained);
            if self.follows_jobs {
                self.policy.on_size(id.slot, &before, job);
            }
        }
        if job.is_ready() {
            self.enqueue(id.slot);
        }
    }

    /// The path to the client is now known to be this. A no-op for a departed job, and under a policy that does not look
    /// at paths ([`Policy::needs_path`]).
    pub fn on_path(&mut self, id: JobId, path: Path) {
        let Some(is_ready) = self.job(id).map(Job::is_ready) else { return };
        if !self.needs_path {
            return;
        }
        self.policy.on_path(id.slot, &path);
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

    /// One more is ready than was before.
    fn on_ready(&mut self, now: Nanos) {
        if self.policy.first().is_none() {
            self.tell_idle(now);
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
        let job = self.jobs[slot as usize].as_ref().expect("a ready job is in the system");
        let since = self.waits_since(job);
        self.guard.is_due(now, since, self.grant_wire_bytes(slot)).then_some(slot)
    }

    fn grant_wire_bytes(&self, slot: u32) -> u64 {
        let job = self.jobs[slot as usize].as_ref().expect("a ready job is in the system");
        job.framing().wire_bytes(self.grant_of(job))
    }

    /// The job's bytes of a grant.
    fn grant_of(&self, job: &Job) -> u64 {
        if job.carrier == NO_CARRIER {
            grant_bytes(job, self.pace.grant_bytes(job.framing()))
        } else {
            self.room_on_carrier(job).min(left_at_most(job))
        }
    }

    fn job_mut(&mut self, id: JobId) -> Option<&mut Job> {
        self.jobs.get_mut(id.slot as usize)?.as_mut().filter(|job| job.number == id.number)
    }

    fn enqueue(&mut self, slot: u32) {
        let job = self.jobs[slot as usize].as_ref().expect("an enqueued job is in the system");
        if job.carrier != NO_CARRIER {
            return self.enqueue_on_carrier(slot);
        }
        self.policy.enqueue(slot, job);
        if !self.guard.is_off() {
            self.waiting.set(slot, Key { rank: job.waits_since.0, number: job.number });
        }
    }

    fn dequeue(&mut self, slot: u32) {
        let job = self.jobs[slot as usize].as_ref().expect("a dequeued job is in the system");
        if job.carrier != NO_CARRIER {
            return self.dequeue_on_carrier(slot);
        }
        self.policy.dequeue(slot, job);
        if !self.guard.is_off() {
            self.waiting.remove(slot);
            self.forget_if_none_waits();
        }
    }

    fn forget_if_none_waits(&mut self) {
        if self.waiting.len() == 0 {
            self.guard.forget();
        }
    }

    fn depart(&mut self, slot: u32) {
        self.dequeue(slot);
        self.leave_carrier(slot);
        let job = self.jobs[slot as usize].take().expect("a job departs once");
        if self.follows_jobs {
            self.policy.on_departure(slot, &job);
        }
        self.free_slot(job.number);
        self.vacant.push(slot);
    }
}

#[cfg(test)]
mod tests;
