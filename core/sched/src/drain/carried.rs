//! Carriers in the drain: connections that carry many responses at once.
//!
//! A carrier stands in the policy's order with the one job it offers ([`Carrier::best`]). It takes a slot of its own beside those of its
//! jobs, by which a policy that goes round knows whose turn it is: opening more streams is no way to more turns.

use units::Nanos;
use units::wire::Framing;

use super::grants::left_at_most;
use super::{Drain, Grant, NO_CARRIER};
use crate::carrier::{Carrier, CarrierId, JOBS_PER_CARRIER_MAX, Precedence, Standing, Why};
use crate::grow::grow_to;
use crate::job::OWN_RANK;
use crate::run_queue::Key;
use crate::{Arrival, Job, JobId};

/// Carriers open at once: a process has no more descriptors.
pub const CARRIERS_MAX: usize = 1 << 20;

/// What was handed down of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Bytes of the response: its own progress.
    pub content_bytes: u64,
    /// Bytes of the connection's payload, frames and records included: the link's.
    pub carried_bytes: u64,
}

impl Drain {
    /// A connection that may carry several responses at once.
    pub fn open(&mut self, framing: Framing) -> CarrierId {
        assert!(self.carrier_count < CARRIERS_MAX, "more than {CARRIERS_MAX} carriers");
        let slot = self.take_slot();
        let number = self.arrivals;
        self.arrivals += 1;
        grow_to(&mut self.carriers, slot as usize + 1, || None);
        self.carriers[slot as usize] = Some(Box::new(Carrier::new(number, framing)));
        self.carrier_count += 1;
        self.policy.on_open(slot);
        CarrierId { slot, number }
    }

    /// The connection has ended; what was left on it is aborted. A no-op for a closed one.
    pub fn close(&mut self, id: CarrierId) {
        let Some(carrier) = self.carrier(id) else { return };
        let slots: Vec<u32> = carrier.jobs().map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| self.depart(slot));
        self.carriers[id.slot as usize] = None;
        self.carrier_count -= 1;
        self.vacant.push(id.slot);
    }

    /// A response is to be sent on this carrier, in its framing; it is ready at once. `None` if the carrier has been closed, or has as
    /// many as it may have.
    pub fn arrive_on(&mut self, now: Nanos, on: CarrierId, arrival: Arrival, precedence: Precedence) -> Option<JobId> {
        let carrier = self.carrier(on).filter(|carrier| carrier.len() < JOBS_PER_CARRIER_MAX)?;
        let framing = carrier.framing;
        let id = self.admit(now, Arrival { framing, ..arrival }, on.slot);
        let carrier = self.carriers[on.slot as usize].as_mut().expect("just seen");
        carrier.add(id.slot, id.number, arrival.class, precedence);
        if self.claim_slot(id) {
            self.on_carrier_ready(now, id.slot);
            self.enqueue(id.slot);
            self.on_overtaking(now, id.slot, arrival.size);
        }
        Some(id)
    }

    /// The jobs on a carrier, at most [`JOBS_PER_CARRIER_MAX`], as they came; none of a closed one.
    pub fn jobs_on(&self, id: CarrierId) -> impl Iterator<Item = JobId> {
        self.carrier(id).into_iter().flat_map(Carrier::jobs).map(|(slot, number)| JobId { slot, number })
    }

    /// The client wishes otherwise (PRIORITY_UPDATE, RFC 9218 section 7). A no-op for a departed job, or one without a carrier.
    pub fn on_precedence(&mut self, id: JobId, precedence: Precedence) {
        let Some(at) = self.job(id).map(|job| job.carrier).filter(|at| *at != NO_CARRIER) else { return };
        self.carriers[at as usize].as_mut().expect("its carrier is open").set_precedence(id.slot, precedence);
        self.offer(at);
    }

    /// The connection takes no more, whatever the job. Calling twice, or late, changes nothing.
    pub fn on_carrier_blocked(&mut self, id: CarrierId) {
        if self.carrier(id).is_some() {
            self.carriers[id.slot as usize].as_mut().expect("just seen").waits.insert(Why::Carrier);
            self.offer(id.slot);
        }
    }

    /// The connection takes no more. False for a closed one.
    pub fn is_carrier_blocked(&self, id: CarrierId) -> bool {
        self.carrier(id).is_some_and(|carrier| carrier.waits.contains(Why::Carrier))
    }

    /// The connection takes bytes again. Calling twice, or late, changes nothing.
    pub fn on_carrier_writable(&mut self, now: Nanos, id: CarrierId) {
        if self.carrier(id).is_none() {
            return;
        }
        self.on_ready(now);
        let carrier = self.carriers[id.slot as usize].as_mut().expect("just seen");
        if carrier.waits.remove(Why::Carrier) {
            carrier.waits_since = now;
            self.offer(id.slot);
        }
    }

    /// Room left in a segment that was granted to this carrier, for its next job: half a packet is headers for nothing. Asked after
    /// [`Drain::on_sent_as`], before the next grant.
    #[must_use]
    pub fn poll_filling(&mut self, id: CarrierId, room_bytes: u64) -> Option<Grant> {
        let slot = self.carrier(id)?.offered.filter(|_| room_bytes > 0)?;
        let job = self.jobs[slot as usize].as_ref().expect("an offered job is in the system");
        let bytes_max = room_bytes.min(left_at_most(job));
        Some(Grant { job: JobId { slot, number: job.number }, bytes_max, room_bytes })
    }

    fn carrier(&self, id: CarrierId) -> Option<&Carrier> {
        self.carriers.get(id.slot as usize)?.as_deref().filter(|carrier| carrier.number == id.number)
    }

    /// Payload until the end of the segment at which a grant to this job ends.
    pub(super) fn room_on_carrier(&self, job: &Job) -> u64 {
        let carrier = self.carriers[job.carrier as usize].as_ref().expect("its carrier is open");
        self.pace.grant_bytes(job.framing()) - carrier.carried_bytes % job.framing().segment_bytes
    }

    /// Since when the job, or its carrier, has been ready without a byte.
    pub(super) fn waits_since(&self, job: &Job) -> Nanos {
        match job.carrier {
            NO_CARRIER => job.waits_since,
            at => self.carriers[at as usize].as_ref().expect("its carrier is open").waits_since,
        }
    }

    /// The job is ready, or its rank has changed.
    pub(super) fn enqueue_on_carrier(&mut self, slot: u32) {
        let job = self.jobs[slot as usize].as_ref().expect("an enqueued job is in the system");
        let key = self.policy.within(slot, job);
        let size = self.policy.size_rank(slot, job);
        let at = job.carrier;
        let carrier = self.carriers[at as usize].as_mut().expect("its carrier is open");
        carrier.set(slot, Some(Standing { key, size }));
        // The offer stands, and what changed is not the job offered nor one it stands for: nothing changes in the order.
        if size.is_some() || carrier.offered.is_none_or(|offered| offered == slot || carrier.best() != Some(offered)) {
            self.offer(at);
        }
    }

    pub(super) fn dequeue_on_carrier(&mut self, slot: u32) {
        let at = self.jobs[slot as usize].as_ref().expect("a dequeued job is in the system").carrier;
        self.carriers[at as usize].as_mut().expect("its carrier is open").set(slot, None);
        self.offer(at);
    }

    /// Puts the carrier's best job at its place in the order, and takes out the one that stood there for it.
    fn offer(&mut self, at: u32) {
        let carrier = self.carriers[at as usize].as_mut().expect("an offering carrier is open");
        let (before, offer, waits_since) = (carrier.offered, carrier.offer(), carrier.waits_since);
        carrier.offered = offer.map(|(slot, _)| slot);
        if let Some((slot, rank)) = offer {
            let job = self.jobs[slot as usize].as_mut().expect("an offered job is in the system");
            job.carried_rank = rank.unwrap_or(OWN_RANK);
            self.policy.enqueue(slot, job);
            if !self.guard.is_off() {
                self.waiting.set(slot, Key { rank: waits_since.0, number: job.number });
            }
        }
        if let Some(slot) = before.filter(|before| offer.is_none_or(|(slot, _)| slot != *before)) {
            let job = self.jobs[slot as usize].as_ref().expect("an offered job is in the system");
            self.policy.dequeue(slot, job);
            if !self.guard.is_off() {
                self.waiting.remove(slot);
                self.forget_if_none_waits();
            }
        }
    }

    /// The job is about to be ready: from now on its carrier waits, unless it does already.
    pub(super) fn on_carrier_ready(&mut self, now: Nanos, slot: u32) {
        let at = self.jobs[slot as usize].as_ref().expect("a ready job is in the system").carrier;
        if at != NO_CARRIER
            && let Some(carrier) = &mut self.carriers[at as usize]
            && carrier.offered.is_none()
        {
            carrier.waits_since = now;
        }
    }

    /// Bytes of the job were carried.
    pub(super) fn on_carried(&mut self, now: Nanos, at: u32, slot: u32, sent: Sent) {
        let carrier = self.carriers[at as usize].as_mut().expect("its carrier is open");
        carrier.carried_bytes += sent.carried_bytes;
        if sent.carried_bytes > 0 {
            carrier.on_turn(slot);
            self.longest_wait = self.longest_wait.max(now - carrier.waits_since);
            carrier.waits_since = now;
        }
    }

    pub(super) fn leave_carrier(&mut self, slot: u32) {
        let at = self.jobs[slot as usize].as_ref().expect("a job departs once").carrier;
        if at != NO_CARRIER {
            self.carriers[at as usize].as_mut().expect("its carrier is open").remove(slot);
        }
    }
}
