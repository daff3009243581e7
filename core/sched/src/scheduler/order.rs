//! The ready jobs: in the policy's order, and by how long they have waited, for the guard. Jobs that bypass the link are
//! ordered by the bytes they have left; neither the policy nor the guard learns of them.

use units::Nanos;

use crate::scheduler::Grant;
use crate::scheduler::connection::{ConnectionId, Standing};
use crate::scheduler::job::{NO_CONNECTION, OWN_RANK};
use crate::scheduler::jobs::Jobs;
use crate::scheduler::run_queue::{Key, RunQueue};
use crate::{Guard, Job, JobId, Pace, Path, Policy, Size};

/// The lane of jobs that bypass the link on their connection: no class orders them.
const BYPASS_LANE: u16 = 0;

pub struct Order {
    policy: Box<dyn Policy>,
    /// True if the policy follows jobs, and whether it uses paths, asked only once because few policies do.
    follows_jobs: bool,
    needs_path: bool,
    guard: Guard,
    /// The ready jobs by how long they have waited for a byte; kept only while the guard is on.
    waiting: RunQueue,
    /// The ready jobs that bypass the link.
    bypassing: RunQueue,
    /// The slot whose outstanding grant was given against the policy.
    helped: Option<u32>,
    longest_wait: Nanos,
}

impl Order {
    pub(crate) fn new(policy: Box<dyn Policy>) -> Order {
        Order {
            follows_jobs: policy.follows_jobs(),
            needs_path: policy.needs_path(),
            policy,
            guard: Guard::default(),
            waiting: RunQueue::default(),
            bypassing: RunQueue::default(),
            helped: None,
            longest_wait: Nanos::ZERO,
        }
    }

    /// Returns the order with a guard added; for a policy that starves no job it adds none.
    pub(crate) fn with_guard(self, guard: Guard) -> Order {
        let guard = if self.policy.can_starve() { guard } else { self.guard };
        Order { guard, ..self }
    }

    /// Installs another policy, which has no job yet, with a guard added to it.
    pub(crate) fn replace_policy(&mut self, policy: Box<dyn Policy>, guard: Guard) {
        let (longest_wait, guard) = (self.longest_wait, guard.succeeding(self.guard));
        *self = Order { longest_wait, ..Order::new(policy).with_guard(guard) };
    }

    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    pub(crate) fn policy_mut(&mut self) -> &mut dyn Policy {
        &mut *self.policy
    }

    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Returns whether the policy uses paths.
    pub fn needs_path(&self) -> bool {
        self.needs_path
    }

    /// Returns the job's priority band now, below [`Policy::bands`]; 0 for a departed job, whose last bytes matter
    /// most.
    pub fn band(&self, jobs: &Jobs, id: JobId) -> u8 {
        jobs.get(id).map_or(0, |job| self.policy.band(id.slot, job))
    }

    /// Returns the longest time that a ready job has waited for a byte so far; jobs that still wait are not included.
    pub fn longest_wait(&self) -> Nanos {
        self.longest_wait
    }

    /// Returns whether no job of the link is ready; a job whose class is at its maximum rate is not.
    pub fn is_idle(&self) -> bool {
        self.policy.first().is_none()
    }

    /// Returns the ready job that bypasses the link and is served next: the one with the fewest bytes left.
    pub(crate) fn next_bypassing(&self) -> Option<u32> {
        self.bypassing.first()
    }

    /// Returns the job that is served next: the policy's first, or a job that has waited too long, if the guard can pay
    /// for it.
    pub(crate) fn next(&mut self, jobs: &Jobs, pace: &Pace, now: Nanos) -> Option<u32> {
        let first = self.policy.first()?;
        self.helped = self.overdue(jobs, pace, now).filter(|slot| *slot != first);
        Some(self.helped.unwrap_or(first))
    }

    /// Returns the grant for the connection's next job in the space left in a segment already granted, since half a
    /// packet wastes its headers. Must be called after [`crate::Scheduler::on_sent`], before the next grant.
    pub fn filling(&self, jobs: &Jobs, id: ConnectionId, room_bytes: u64) -> Option<Grant> {
        let offers = jobs.connection(id).filter(|_| room_bytes > 0)?.offers();
        let turn = |slot: u32, lane| match jobs.at(slot).bypasses_link() {
            true => Some((0, 0)),
            false => self.policy.turn_of(lane),
        };
        let ready = offers.iter().filter_map(|offer| Some((turn(offer.slot?, offer.lane)?, offer.slot?)));
        ready.min().map(|(_, slot)| jobs.filling(slot, room_bytes))
    }

    /// Returns whether the outstanding grant was given against the policy.
    pub(crate) fn is_helping(&self) -> bool {
        self.helped.is_some()
    }

    fn overdue(&self, jobs: &Jobs, pace: &Pace, now: Nanos) -> Option<u32> {
        let slot = self.waiting.first()?;
        let since = jobs.waits_since(slot);
        self.guard.is_due(now, since, grant_wire_bytes(jobs, pace, slot)).then_some(slot)
    }

    /// Credits the guard with its share of the bytes that the link carried.
    pub(crate) fn earn(&mut self, jobs: &Jobs, pace: &Pace, wire_bytes: u64) {
        if wire_bytes > 0
            && !self.guard.is_off()
            && let Some(slot) = self.waiting.first()
        {
            self.guard.on_charged(wire_bytes, grant_wire_bytes(jobs, pace, slot));
        }
    }

    /// Announces a new job to the policy; it is enqueued next.
    pub(crate) fn on_arrival(&mut self, slot: u32, job: &Job, path: &Path) {
        if job.bypasses_link() {
            return;
        }
        if self.needs_path {
            self.policy.on_path(slot, path);
        }
        if self.follows_jobs {
            self.policy.on_arrival(slot, job);
        }
    }

    /// Records that bytes of a job of the link were sent, which `job.attained` already includes.
    pub(crate) fn on_sent(&mut self, slot: u32, job: &Job, bytes: u64, wire_bytes: u64) {
        if self.follows_jobs {
            self.policy.on_sent(slot, job, bytes);
        }
        if self.helped.take() == Some(slot) {
            self.guard.on_granted(wire_bytes);
        }
    }

    /// Records that a byte was sent after this wait.
    pub(crate) fn on_waited(&mut self, wait: Nanos) {
        self.longest_wait = self.longest_wait.max(wait);
    }

    /// Announces that the size of the job is known now.
    pub(crate) fn on_size(&mut self, slot: u32, before: &Job, job: &Job) {
        if self.follows_jobs && !job.bypasses_link() && matches!(job.size, Size::Known(_)) {
            self.policy.on_size(slot, before, job);
        }
    }

    /// Announces that the job leaves the system; it must be out of the order already.
    pub(crate) fn on_departure(&mut self, slot: u32, job: &Job) {
        if self.follows_jobs && !job.bypasses_link() {
            self.policy.on_departure(slot, job);
        }
    }

    /// Places a job that is ready, or whose rank has changed.
    pub(crate) fn enqueue(&mut self, jobs: &mut Jobs, slot: u32) {
        let job = jobs.at(slot);
        if job.connection != NO_CONNECTION {
            return self.enqueue_on_connection(jobs, slot);
        }
        self.place(slot, job, job.waits_since);
    }

    /// Puts a job at its position in the order.
    fn place(&mut self, slot: u32, job: &Job, waits_since: Nanos) {
        if job.bypasses_link() {
            return self.bypassing.set(slot, Key { rank: job.remaining(), number: job.number });
        }
        self.policy.enqueue(slot, job);
        self.wait(slot, waits_since, job.number);
    }

    /// Takes a job out of its position in the order.
    fn displace(&mut self, slot: u32, job: &Job) {
        if job.bypasses_link() {
            return self.bypassing.remove(slot);
        }
        self.policy.dequeue(slot, job);
        self.wait_no_more(slot);
    }

    fn lane_of(&self, slot: u32, job: &Job) -> u16 {
        if job.bypasses_link() { BYPASS_LANE } else { self.policy.lane_of(slot) }
    }

    fn enqueue_on_connection(&mut self, jobs: &mut Jobs, slot: u32) {
        let job = jobs.at(slot);
        let (key, size) = match job.bypasses_link() {
            true => (job.remaining(), None),
            false => (self.policy.within(slot, job), self.policy.size_rank(slot, job)),
        };
        let (at, lane) = (job.connection, self.lane_of(slot, job));
        let connection = jobs.connection_at_mut(at);
        connection.set(slot, Some(Standing { lane, key, size }));
        let offered = connection.offer_of(lane).slot;
        if size.is_some() || offered.is_none_or(|offered| offered == slot || connection.best(lane) != Some(offered)) {
            self.offer_to(lane, jobs, at);
        }
    }

    /// Takes out a job that is no longer ready; a no-op if it is not in the order.
    pub(crate) fn dequeue(&mut self, jobs: &mut Jobs, slot: u32) {
        let job = jobs.at(slot);
        if job.connection != NO_CONNECTION {
            let (at, lane) = (job.connection, self.lane_of(slot, job));
            jobs.connection_at_mut(at).set(slot, None);
            return self.offer_to(lane, jobs, at);
        }
        self.displace(slot, job);
    }

    /// Starts the wait of the job's lane of its connection, unless the lane already waits. Must be called before the
    /// job becomes ready.
    pub(crate) fn begin_wait(&self, jobs: &mut Jobs, now: Nanos, slot: u32) {
        let (at, lane) = (jobs.at(slot).connection, self.lane_of(slot, jobs.at(slot)));
        if at != NO_CONNECTION {
            jobs.connection_at_mut(at).begin_wait(now, slot, lane);
        }
    }

    /// Puts the connection's best job of each lane at its position in the order, and takes out the jobs that stood
    /// there for the connection before.
    pub(crate) fn offer(&mut self, jobs: &mut Jobs, at: u32) {
        for nth in 0..jobs.connection_at(at).offers().len() {
            let lane = jobs.connection_at(at).offers()[nth].lane;
            self.offer_to(lane, jobs, at);
        }
    }

    /// Puts the connection's best job of this lane at its position in the order, and takes out the job that stood
    /// there.
    fn offer_to(&mut self, lane: u16, jobs: &mut Jobs, at: u32) {
        let connection = jobs.connection_at_mut(at);
        let best = connection.best_stage(lane);
        let Some(offer) = connection.offer_mut(lane) else { return };
        let (before, waits_since) = (offer.slot, offer.waits_since);
        offer.slot = best.map(|(slot, _)| slot);
        if let Some((slot, rank)) = best {
            let job = jobs.at_mut(slot);
            job.carried_rank = rank.unwrap_or(OWN_RANK);
            self.place(slot, job, waits_since);
        }
        if let Some(slot) = before.filter(|before| best.is_none_or(|(slot, _)| slot != *before)) {
            self.displace(slot, jobs.at(slot));
        }
    }

    /// Returns the slot that has waited longest, among the jobs that the guard watches.
    pub(crate) fn waits_longest(&self) -> Option<u32> {
        self.waiting.first()
    }

    /// Lets the guard watch a ready job from now on.
    pub(crate) fn wait(&mut self, slot: u32, since: Nanos, number: u64) {
        if !self.guard.is_off() {
            self.waiting.set(slot, Key { rank: since.0, number });
        }
    }

    /// Stops the guard from watching a job, ready or not.
    pub(crate) fn pass_over(&mut self, slot: u32) {
        self.waiting.remove(slot);
    }

    fn wait_no_more(&mut self, slot: u32) {
        if !self.guard.is_off() {
            self.waiting.remove(slot);
            if self.waiting.len() == 0 {
                self.guard.forget();
            }
        }
    }
}

fn grant_wire_bytes(jobs: &Jobs, pace: &Pace, slot: u32) -> u64 {
    jobs.at(slot).framing().wire_bytes(jobs.grant(slot, pace).bytes_max)
}
