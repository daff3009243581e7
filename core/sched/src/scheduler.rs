//! The scheduler: decides which job's bytes are handed down next, and when.
//!
//! TCP under a web server sends all written bytes in the order they were written, so the only place to decide is before
//! the write. The obvious way, writing to the best connection until it blocks, fails: a socket buffer, a qdisc and a
//! device ring accept megabytes, and all these bytes then leave in FIFO order ahead of every later decision. So bytes are
//! handed down in small grants at the pace of the link ([`crate::Ledger`] keeps it), each to the job that is best at
//! that instant.
//!
//! The caller asks [`Scheduler::poll_grant`], writes up to that many bytes, reports how many it wrote
//! ([`Scheduler::on_sent`]) and calls [`Scheduler::on_wait`] if the connection takes no more. A slow reader then leaves
//! the order until [`Scheduler::on_wait_over`], however good its rank, and never blocks the link. One grant is
//! outstanding at a time.
//!
//! A connection that carries many responses simultaneously is opened ([`Scheduler::open`]). A connection of HTTP/1.1
//! need not be opened: its jobs are in the order by themselves, which saves a microsecond per job.
//!
//! # Broken promises
//!
//! A caller that breaks a promise has a bug. The consequence depends on the state that the scheduler can still trust:
//!
//! - A **response** that is longer than its size ([`Overrun`]) is the only thing that is wrong: the order, the ledger
//!   and the other jobs do not depend on it. The calls that find it, [`Scheduler::on_sent`] and [`Scheduler::on_size`],
//!   report it, and the caller ends that response and its connection, with a line in the log.
//! - A **table** that contradicts itself (a slot of the order without a job, a job that departs twice, a connection
//!   without its jobs) leaves nothing that can be trusted: the call panics, which ends the process. It also panics for
//!   broken promises that concern no single response: more than [`jobs::JOBS_MAX`] jobs, or a job without a single
//!   byte, although every response has a head.
//!
//! No number from a peer breaks a promise: a length is at most 2^63 − 1 (`http::PeerLength`), and sums saturate.
//!
//! A job may **bypass the link** ([`Arrival::bypasses_link`]): it is granted bytes whenever the link takes no grant,
//! and neither the ledger nor the policy sees it.
//!
//! Three owners do the work: [`Jobs`] holds the jobs and connections, [`Order`] the ready jobs, [`Pacer`] the link.

mod class_limits;
pub(crate) mod connection;
pub(crate) mod guard;
mod in_turns;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod order;
pub(crate) mod run_queue;
pub(crate) mod settings;
mod sizes;

use units::wire::Framing;
use units::{Nanos, Rate};

use crate::classes::{ClassSpec, ClassTable};
use crate::pacing::pacer::Pacer;
use crate::policy::ClientTraits;
use crate::scheduler::connection::{ConnectionId, Precedence, Why};
use crate::scheduler::job::NO_CONNECTION;
use crate::scheduler::jobs::Jobs;
use crate::scheduler::order::Order;
use crate::{Arrival, Guard, JobId, Pace, Policy, Size, Turns, WaitBound};
use class_limits::Limits;

/// The maximum bytes of a grant to a job that bypasses the link. Writing them takes about 0.1 ms, which may delay a
/// grant of the link by as much.
const BYPASS_GRANT_BYTES_MAX: u64 = 256 << 10;

/// Permission for one job to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub job: JobId,
    /// The maximum bytes of the job to hand down, including the head; the caller may hand down fewer.
    pub bytes_max: u64,
    /// The payload that the connection may carry for the job, including frames and records: whole segments.
    pub room_bytes: u64,
    /// The bytes of the whole segments after `room_bytes` if all of them are to form one TLS record.
    pub record_bytes: u64,
}

/// The bytes that were handed down for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The bytes of the response. They are the job's progress.
    pub content_bytes: u64,
    /// The bytes of the connection's payload, including frames and records. They are charged to the link.
    pub carried_bytes: u64,
}

impl From<u64> for Sent {
    /// Makes counts for a connection that carries nothing but the job's bytes.
    fn from(bytes: u64) -> Sent {
        Sent { content_bytes: bytes, carried_bytes: bytes }
    }
}

/// The state of a job after some of its bytes were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// The job has bytes left.
    Remains,
    /// The last byte was handed down; the id is no longer valid.
    Departed,
    /// More bytes than the size were handed down. The link was charged for them, and the job has departed.
    Overrun(Overrun),
}

impl Progress {
    /// Returns whether the job has departed, so that the id is no longer valid.
    pub fn is_departed(self) -> bool {
        self != Progress::Remains
    }
}

/// A response longer than its size, which is a bug of the caller. Its connection cannot be trusted with another
/// response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a response of {size_bytes} bytes has {found_bytes}")]
pub struct Overrun {
    /// The size that the scheduler was given.
    pub size_bytes: u64,
    /// The number of bytes found: more than `size_bytes`, or equal to it if more bytes follow.
    pub found_bytes: u64,
}

/// A job, or a connection with all its jobs, that can be made to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiter {
    Job(JobId),
    Connection(ConnectionId),
}

impl From<JobId> for Waiter {
    fn from(job: JobId) -> Waiter {
        Waiter::Job(job)
    }
}

impl From<ConnectionId> for Waiter {
    fn from(connection: ConnectionId) -> Waiter {
        Waiter::Connection(connection)
    }
}

pub struct Scheduler {
    jobs: Jobs,
    order: Order,
    pacer: Pacer,
    /// The limits of the operator's classes, if the policy has classes.
    limits: Option<Box<Limits>>,
    /// The service that the jobs would have received by taking turns, if the caller measures it.
    turns: Option<Box<Turns>>,
}

impl Scheduler {
    pub fn new(policy: Box<dyn Policy>, pace: Pace) -> Scheduler {
        let (jobs, order, pacer) = (Jobs::default(), Order::new(policy), Pacer::new(pace));
        Scheduler { jobs, order, pacer, limits: None, turns: None }
    }

    /// Returns the scheduler with a guard. A policy under which no job can starve gets none.
    pub fn with_guard(self, guard: Guard) -> Scheduler {
        assert!(self.jobs.is_empty(), "the guard is set before the first job arrives");
        Scheduler { order: self.order.with_guard(guard), ..self }
    }

    /// Returns the scheduler with the limits of this table's classes.
    pub fn with_classes(self, table: &ClassTable) -> Scheduler {
        assert!(self.jobs.is_empty(), "classes are set before the first job arrives");
        Scheduler { limits: Some(Box::new(Limits::new(table))), ..self }
    }

    /// Returns the maximum time for which a ready job of `framing` gets no byte; `None` without a rate or a guard.
    pub fn wait_bound(&self, framing: Framing) -> Option<WaitBound> {
        let grant_wire_bytes = self.pacer.longest_grant_wire_bytes(framing);
        self.order.guard().wait_bound(self.pacer.ledger().rate()?, grant_wire_bytes)
    }

    /// The jobs in the system and their connections.
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// The order of the ready jobs.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Returns the link.
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// Returns the link, so that the caller can report bytes that left without a grant and the queue below.
    pub fn pacer_mut(&mut self) -> &mut Pacer {
        &mut self.pacer
    }

    /// Adds a response on a connection of its own. It is ready immediately.
    pub fn arrive(&mut self, now: Nanos, arrival: Arrival) -> JobId {
        self.admit(now, arrival, None)
    }

    /// Opens a connection that may carry several responses simultaneously.
    pub fn open(&mut self, framing: Framing) -> ConnectionId {
        let connection = self.jobs.open(framing);
        self.order.policy_mut().on_open(connection.slot);
        connection
    }

    /// Adds a response to this connection. It is ready immediately. Returns `None` if the connection is closed or has
    /// its maximum of jobs.
    pub fn arrive_on(
        &mut self,
        now: Nanos,
        on: ConnectionId,
        arrival: Arrival,
        precedence: Precedence,
    ) -> Option<JobId> {
        self.jobs.has_room_on(on).then(|| self.admit(now, arrival, Some((on, precedence))))
    }

    /// Ends the connection and aborts the jobs left on it. Does nothing if the connection is closed.
    pub fn close(&mut self, id: ConnectionId) {
        if self.jobs.connection(id).is_some() {
            let left: Vec<JobId> = self.jobs.on(id).collect();
            left.into_iter().for_each(|job| self.depart(job.slot));
            self.jobs.close(id);
        }
    }

    /// Sets the precedence that the client now wants (PRIORITY_UPDATE, RFC 9218 section 7). Does nothing for a departed
    /// job or a job without a connection.
    pub fn on_precedence(&mut self, id: JobId, precedence: Precedence) {
        let Some(at) = self.jobs.get(id).map(|job| job.connection).filter(|at| *at != NO_CONNECTION) else { return };
        self.jobs.connection_at_mut(at).set_precedence(id.slot, precedence);
        self.order.offer(&mut self.jobs, at);
    }

    /// Adds the job to the system, and to the order unless its class already has its maximum of jobs.
    fn admit(&mut self, now: Nanos, arrival: Arrival, on: Option<(ConnectionId, Precedence)>) -> JobId {
        self.on_ready(now, arrival.bypasses_link);
        let id = self.jobs.add(now, &arrival, on);
        self.order.on_arrival(id.slot, self.jobs.at(id.slot), &arrival.path);
        self.begin_turns(now, id);
        if let Some(limits) = &mut self.limits {
            let (may_run, sleepers) = limits.claim(id, self.jobs.at(id.slot));
            sleepers.into_iter().for_each(|job| self.on_wait(job, Why::Slot));
            if !may_run {
                return id;
            }
        }
        self.order.begin_wait(&mut self.jobs, now, id.slot);
        self.order.enqueue(&mut self.jobs, id.slot);
        // A new job that goes before the others waits for the bytes last granted.
        if let Size::Known(bytes) = arrival.size
            && self.pacer.pace().rate.is_some()
            && self.order.policy().can_starve()
            && self.pacer.free_at() > now
            && self.order.policy().first() == Some(id.slot)
        {
            self.pacer.on_overtaking(bytes);
        }
        id
    }

    /// Returns the grant of the job that may send now; `None` if no job is ready or the link has enough
    /// ([`Self::poll_timeout`]). Jobs that bypass the link are granted when the link takes no grant.
    #[must_use]
    pub fn poll_grant(&mut self, now: Nanos) -> Option<Grant> {
        self.let_go(now);
        self.advance_turns(now);
        if self.pacer.free_at() > now {
            if !self.order.is_idle() {
                self.pacer.await_grant();
            }
            return self.grant_bypassing();
        }
        if self.order.is_idle()
            && let Some(grant) = self.grant_bypassing()
        {
            return Some(grant);
        }
        let ungranted_bytes = self.pacer.take_ungranted_bytes();
        self.order.earn(&self.jobs, self.pacer.pace(), ungranted_bytes);
        let slot = self.order.next(&self.jobs, self.pacer.pace(), now)?;
        self.pacer.on_grant(now);
        let grant = self.jobs.grant(slot, self.pacer.pace());
        Some(if self.order.is_helping() { Grant { record_bytes: 0, ..grant } } else { grant })
    }

    /// Returns the instant at which to poll for a grant again, possibly in the past; `None` while no job is ready.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let is_bypassing_ready = self.order.next_bypassing().is_some();
        if is_bypassing_ready { Some(self.pacer.used_at()) } else { self.link_timeout() }
    }

    /// Returns the instant at which the link takes the next grant, possibly in the past; `None` while no job of the
    /// link is ready.
    pub fn link_timeout(&self) -> Option<Nanos> {
        let granted_at = (!self.order.is_idle()).then(|| self.pacer.free_at());
        granted_at.or_else(|| self.limits.as_ref()?.poll_timeout(self.pacer.used_at()))
    }

    /// Records that bytes of the job were handed down, or none. The job departs when its size is reached. Does nothing
    /// for a departed job.
    pub fn on_sent(&mut self, now: Nanos, id: JobId, sent: impl Into<Sent>) -> Progress {
        let sent: Sent = sent.into();
        self.carry_turns(now, id, sent.content_bytes);
        let Some(job) = self.jobs.get_mut(id) else { return Progress::Departed };
        let wire_bytes = job.framing().wire_bytes(sent.carried_bytes);
        let left_bytes = job.remaining();
        // Bytes beyond its size are not the job's: the policy counts only the job's bytes, the ledger all bytes.
        let (content_bytes, overrun) = job.attain(sent.content_bytes);
        let (is_sent, is_ready) = (job.is_sent(), job.is_ready());
        let bypasses_link = job.bypasses_link();
        if !bypasses_link {
            self.order.on_sent(id.slot, job, content_bytes, wire_bytes);
        }
        let waited = self.jobs.end_wait(now, id.slot, sent);
        if !bypasses_link {
            self.on_carried(now, id.slot, wire_bytes, left_bytes, waited);
        }
        if is_sent {
            self.depart(id.slot);
            return overrun.map_or(Progress::Departed, Progress::Overrun);
        }
        if is_ready {
            self.order.enqueue(&mut self.jobs, id.slot);
        }
        Progress::Remains
    }

    /// Charges the link for bytes of a job that had `left_bytes` left before and had waited for `waited`.
    fn on_carried(&mut self, now: Nanos, slot: u32, wire_bytes: u64, left_bytes: u64, waited: Option<Nanos>) {
        // A wait caused by a late caller does not measure the order.
        if let Some(wait) = waited
            && !self.pacer.lateness().has_lost_since(now - wait)
        {
            self.order.on_waited(wait);
        }
        self.pacer.on_granted(now, wire_bytes, left_bytes);
        let earned_bytes = wire_bytes.saturating_add(self.pacer.take_ungranted_bytes());
        self.order.earn(&self.jobs, self.pacer.pace(), earned_bytes);
        if let Some(limits) = &mut self.limits {
            limits.charge(now, self.jobs.at(slot), wire_bytes, &mut self.order);
        }
    }

    /// Adds a reason why a job, or a whole connection, cannot be sent, and takes it out of the order. A repeated or
    /// late call changes nothing.
    pub fn on_wait(&mut self, who: impl Into<Waiter>, why: Why) {
        match who.into() {
            Waiter::Job(id) => {
                if let Some(job) = self.jobs.get_mut(id) {
                    job.waits.insert(why);
                    self.order.dequeue(&mut self.jobs, id.slot);
                    self.note_turns(id.into());
                }
            }
            Waiter::Connection(id) => {
                if self.jobs.connection(id).is_some() {
                    self.jobs.connection_at_mut(id.slot).waits.insert(why);
                    self.order.offer(&mut self.jobs, id.slot);
                    self.note_turns(id.into());
                }
            }
        }
    }

    /// Records that the job's source has no more bytes for now. The job waits as with [`Scheduler::on_wait`]. If its
    /// size is unknown and the wait lasts for [`crate::SOURCE_PAUSE`], the job is ranked afterwards as if it had just
    /// begun.
    pub fn on_dry(&mut self, now: Nanos, id: JobId) {
        if let Some(job) = self.jobs.get_mut(id).filter(|job| !job.waits_for(Why::Source)) {
            job.waits_since = now;
        }
        self.on_wait(id, Why::Source);
    }

    /// Removes a reason. Without reasons left, the job or connection is ready. A repeated or late call changes nothing.
    pub fn on_wait_over(&mut self, now: Nanos, who: impl Into<Waiter>, why: Why) {
        self.advance_turns(now);
        let who = who.into();
        match who {
            Waiter::Job(id) => {
                let Some(job) = self.jobs.get_mut(id) else { return };
                if why == Why::Source {
                    job.on_source(now);
                }
                let bypasses_link = job.bypasses_link();
                if job.waits.remove(why) {
                    self.on_ready(now, bypasses_link);
                    self.jobs.at_mut(id.slot).waits_since = now;
                    self.order.begin_wait(&mut self.jobs, now, id.slot);
                    self.order.enqueue(&mut self.jobs, id.slot);
                }
            }
            Waiter::Connection(id) => {
                if self.jobs.connection(id).is_none() {
                    return;
                }
                self.on_ready(now, self.jobs.bypasses_link(id.slot));
                let connection = self.jobs.connection_at_mut(id.slot);
                if connection.waits.remove(why) {
                    connection.begin_waits(now);
                    self.order.offer(&mut self.jobs, id.slot);
                }
            }
        }
        self.note_turns(who);
    }

    /// Ends a job that was aborted, or whose size was unknown until now. Does nothing for a departed job.
    pub fn on_end(&mut self, id: JobId) {
        if self.jobs.get(id).is_some() {
            self.depart(id.slot);
        }
    }

    /// Assigns this client number ([`Arrival::client`]) to another client.
    pub fn on_client(&mut self, client: u32, traits: ClientTraits) {
        self.order.policy_mut().on_client(client, traits);
    }

    /// Sets the rate of the link from now on; `None` hands down as many bytes as sockets take.
    pub fn set_pace(&mut self, now: Nanos, rate: Option<Rate>) {
        self.advance_turns(now);
        self.pacer.set_rate(now, rate);
        if let Some(rate) = rate {
            self.order.policy_mut().on_rate(rate);
        }
    }

    /// Replaces the classes, keeping their indices, and appends the new ones. Jobs in progress are not interrupted.
    pub fn replace_classes(&mut self, now: Nanos, specs: &[ClassSpec]) {
        let Some(limits) = &mut self.limits else { return };
        let go_on = limits.replace(specs);
        self.order.policy_mut().replace(specs);
        go_on.into_iter().for_each(|job| self.on_wait_over(now, job, Why::Slot));
    }

    /// Frees the slots after the last one in use. From then on low slots are used first, so that the next call can free
    /// more. Takes time linear in the length of the tables. Returns the number of slots left.
    pub fn shrink(&mut self) -> usize {
        self.jobs.shrink()
    }

    /// Releases the jobs that no longer have to wait for their class, whether for a slot or because of its maximum
    /// rate.
    fn let_go(&mut self, now: Nanos) {
        let Some(limits) = &mut self.limits else { return };
        let woken = limits.take_woken();
        woken.into_iter().for_each(|job| self.on_wait_over(now, job, Why::Slot));
        while let Some(class) = self.limits.as_mut().and_then(|limits| limits.poll_ceiling(now)) {
            let was_idle = self.order.is_idle();
            self.order.policy_mut().hold(class, false);
            if was_idle && !self.order.is_idle() {
                resume(&mut self.order, &mut self.pacer, now);
            }
            if let Some(limits) = &mut self.limits {
                limits.unpark(class, &self.jobs, &mut self.order);
            }
        }
        if let Some(limits) = &mut self.limits {
            limits.park(&self.jobs, &mut self.order);
        }
    }

    /// Resumes the link if none of its jobs was ready. Must be called before a job becomes ready.
    fn on_ready(&mut self, now: Nanos, bypasses_link: bool) {
        if !bypasses_link && self.order.is_idle() {
            resume(&mut self.order, &mut self.pacer, now);
        }
    }

    /// Returns the grant of the best ready job that bypasses the link.
    fn grant_bypassing(&self) -> Option<Grant> {
        let grant = self.jobs.grant(self.order.next_bypassing()?, &Pace::UNLIMITED);
        let [bytes_max, room_bytes] =
            [grant.bytes_max, grant.room_bytes].map(|bytes| bytes.min(BYPASS_GRANT_BYTES_MAX));
        Some(Grant { bytes_max, room_bytes, ..grant })
    }

    fn depart(&mut self, slot: u32) {
        self.order.dequeue(&mut self.jobs, slot);
        let job = self.jobs.remove(slot);
        self.order.on_departure(slot, &job);
        if let Some(turns) = &mut self.turns {
            turns.depart(slot, job.attained, job.is_sent());
        }
        if let Some(limits) = &mut self.limits {
            limits.release(job.number);
        }
    }
}

/// Resumes the link if no job has been ready until now.
fn resume(order: &mut Order, pacer: &mut Pacer, now: Nanos) {
    order.policy_mut().on_idle(pacer.resume(now));
}

#[cfg(test)]
mod tests;
