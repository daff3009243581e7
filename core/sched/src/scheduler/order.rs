//! The ready jobs, in the policy's order and, for the guard, by how long they have waited. Jobs that bypass the link
//! are ordered by the bytes they have left; neither the policy nor the guard sees them.

use units::Nanos;

use crate::scheduler::Grant;
use crate::scheduler::connection::{ConnectionId, Standing};
use crate::scheduler::job::{NO_CONNECTION, OWN_RANK};
use crate::scheduler::jobs::Jobs;
use crate::scheduler::run_queue::{Key, RunQueue};
use crate::{Guard, Job, JobId, Pace, Path, Policy, Size};

/// The lane of jobs that bypass the link, for which classes do not matter.
const BYPASS_LANE: u16 = 0;

pub struct Order {
    policy: Box<dyn Policy>,
    /// True if the policy follows jobs. The next field is true if it uses paths. Both are queried just once, because
    /// few policies do either.
    follows_jobs: bool,
    needs_path: bool,
    guard: Guard,
    /// The ready jobs, ordered by how long they have waited for a byte; kept only while the guard is on.
    waiting: RunQueue,
    /// The ready jobs that bypass the link.
    bypassing: RunQueue,
    /// The slot of the outstanding grant if the guard gave it against the policy.
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

    /// Returns the order with a guard. A policy under which no job can starve gets none.
    pub(crate) fn with_guard(self, guard: Guard) -> Order {
        let guard = if self.policy.can_starve() { guard } else { self.guard };
        Order { guard, ..self }
    }

    /// Installs another policy, which has no jobs yet, together with a guard.
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

    /// Returns the longest time that a ready job has waited for a byte so far. Jobs that are still waiting are not
    /// included.
    pub fn longest_wait(&self) -> Nanos {
        self.longest_wait
    }

    /// Returns whether no job of the link is ready. A job whose class is at its maximum rate is not ready.
    pub fn is_idle(&self) -> bool {
        self.policy.first().is_none()
    }

    /// Returns the next job among those that bypass the link: the ready one with the fewest bytes left.
    pub(crate) fn next_bypassing(&self) -> Option<u32> {
        self.bypassing.first()
    }

    /// Returns the next job: the policy's first, or a job that has waited too long, if the guard can pay for it.
    pub(crate) fn next(&mut self, jobs: &Jobs, pace: &Pace, now: Nanos) -> Option<u32> {
        let first = self.policy.first()?;
        self.helped = self.overdue(jobs, pace, now).filter(|slot| *slot != first);
        Some(self.helped.unwrap_or(first))
    }

    /// Returns a grant for the connection's next job that fills the rest of a segment already granted, because half a
    /// packet wastes its headers. Must be called after [`crate::Scheduler::on_sent`] and before the next grant.
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

    /// Credits the guard with its share of the bytes that the link has carried.
    pub(crate) fn earn(&mut self, jobs: &Jobs, pace: &Pace, wire_bytes: u64) {
        if wire_bytes > 0
            && !self.guard.is_off()
            && let Some(slot) = self.waiting.first()
        {
            self.guard.on_charged(wire_bytes, grant_wire_bytes(jobs, pace, slot));
        }
    }

    /// Announces a new job to the policy; the job is enqueued next.
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

    /// Records that bytes of a job of the link were sent; `job.attained` already includes them.
    pub(crate) fn on_sent(&mut self, slot: u32, job: &Job, bytes: u64, wire_bytes: u64) {
        if self.follows_jobs {
            self.policy.on_sent(slot, job, bytes);
        }
        if self.helped.take() == Some(slot) {
            self.guard.on_granted(wire_bytes);
        }
    }

    /// Records that a byte was sent after a wait of this length.
    pub(crate) fn on_waited(&mut self, wait: Nanos) {
        self.longest_wait = self.longest_wait.max(wait);
    }

    /// Announces to the policy that the size of the job is known now.
    pub(crate) fn on_size(&mut self, slot: u32, before: &Job, job: &Job) {
        if self.follows_jobs && !job.bypasses_link() && matches!(job.size, Size::Known(_)) {
            self.policy.on_size(slot, before, job);
        }
    }

    /// Announces to the policy that the job leaves the system; it must have left the order already.
    pub(crate) fn on_departure(&mut self, slot: u32, job: &Job) {
        if self.follows_jobs && !job.bypasses_link() {
            self.policy.on_departure(slot, job);
        }
    }

    /// Puts a job in its position if it is ready or its rank has changed.
    pub(crate) fn enqueue(&mut self, jobs: &mut Jobs, slot: u32) {
        let job = jobs.at(slot);
        if job.connection != NO_CONNECTION {
            return self.enqueue_on_connection(jobs, slot);
        }
        self.place(slot, job, job.waits_since);
    }

    /// Inserts a job into the order.
    fn place(&mut self, slot: u32, job: &Job, waits_since: Nanos) {
        if job.bypasses_link() {
            return self.bypassing.set(slot, Key { rank: job.remaining(), number: job.number });
        }
        self.policy.enqueue(slot, job);
        self.wait(slot, waits_since, job.number);
    }

    /// Removes a job from the order.
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

    /// Removes a job that is no longer ready; does nothing if it is not in the order.
    pub(crate) fn dequeue(&mut self, jobs: &mut Jobs, slot: u32) {
        let job = jobs.at(slot);
        if job.connection != NO_CONNECTION {
            let (at, lane) = (job.connection, self.lane_of(slot, job));
            jobs.connection_at_mut(at).set(slot, None);
            return self.offer_to(lane, jobs, at);
        }
        self.displace(slot, job);
    }

    /// Starts the wait of the job's lane on its connection, unless the lane is waiting already. Must be called before
    /// the job becomes ready.
    pub(crate) fn begin_wait(&self, jobs: &mut Jobs, now: Nanos, slot: u32) {
        let (at, lane) = (jobs.at(slot).connection, self.lane_of(slot, jobs.at(slot)));
        if at != NO_CONNECTION {
            jobs.connection_at_mut(at).begin_wait(now, slot, lane);
        }
    }

    /// Puts the connection's best job of each lane in its position in the order, and removes the jobs that the
    /// connection had offered before.
    pub(crate) fn offer(&mut self, jobs: &mut Jobs, at: u32) {
        for nth in 0..jobs.connection_at(at).offers().len() {
            let lane = jobs.connection_at(at).offers()[nth].lane;
            self.offer_to(lane, jobs, at);
        }
    }

    /// Puts the connection's best job of this lane in its position in the order, and removes the job that it had
    /// offered before.
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

    /// Returns the slot that has waited longest among the jobs that the guard watches.
    pub(crate) fn waits_longest(&self) -> Option<u32> {
        self.waiting.first()
    }

    /// Makes the guard watch a ready job from now on.
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
