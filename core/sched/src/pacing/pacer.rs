//! The link from the scheduler's point of view: when it takes the next grant, and which bytes left without a grant.

use units::wire::Framing;
use units::{Nanos, Rate};

use crate::pacing::handshakes::Handshakes;
use crate::pacing::lateness::Lateness;
use crate::pacing::overtaking::Overtaking;
use crate::{Correction, Ledger, Pace, Reading};

#[derive(Debug)]
pub struct Pacer {
    pace: Pace,
    ledger: Ledger,
    handshakes: Handshakes,
    overtaking: Overtaking,
    lateness: Lateness,
    /// The time at which bytes were last handed down, or the link was last resumed.
    used_at: Nanos,
    /// The bytes charged without a grant since the last [`Pacer::take_ungranted_bytes`].
    ungranted_bytes: u64,
}

impl Pacer {
    pub(crate) fn new(pace: Pace) -> Pacer {
        Pacer {
            ledger: Ledger::new(&pace),
            overtaking: Overtaking::new(pace.grant_for),
            pace,
            handshakes: Handshakes::default(),
            lateness: Lateness::default(),
            used_at: Nanos::ZERO,
            ungranted_bytes: 0,
        }
    }

    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The lateness of the caller.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    pub(crate) fn used_at(&self) -> Nanos {
        self.used_at
    }

    /// Returns the wire bytes of the longest grant on a connection of this framing.
    pub(crate) fn longest_grant_wire_bytes(&self, framing: Framing) -> u64 {
        let longest = Pace { grant_for: self.overtaking.longest(), ..self.pace };
        framing.wire_bytes(longest.grant_bytes(framing))
    }

    /// Returns the time at which the link takes the next grant; it may be in the past.
    pub(crate) fn free_at(&self) -> Nanos {
        self.ledger.room_at(self.pace.ahead.max(self.lateness.ahead()))
    }

    /// Records that a job is ready but the link has enough bytes for now, so that the caller waits until
    /// [`Pacer::free_at`].
    pub(crate) fn await_grant(&mut self) {
        if self.pace.rate.is_some() {
            self.lateness.wait_until(self.free_at());
        }
    }

    /// Records that a grant is made now.
    pub(crate) fn on_grant(&mut self, now: Nanos) {
        let free_at = self.free_at();
        self.lateness.on_grant(now, free_at, self.pace.behind);
    }

    /// Records that a job of `bytes` became first in the order but has to wait for the bytes last granted.
    pub(crate) fn on_overtaking(&mut self, bytes: u64) {
        self.overtaking.on_waits(bytes);
    }

    /// Records that a grant was handed down for a job that had `left_bytes` before it.
    pub(crate) fn on_granted(&mut self, now: Nanos, wire_bytes: u64, left_bytes: u64) {
        self.used_at = now;
        self.ledger.charge(now, wire_bytes);
        if let Some(rate) = self.pace.rate {
            self.overtaking.on_granted(rate.time_for(wire_bytes), left_bytes);
            self.pace.grant_for = self.overtaking.grant_for();
        }
    }

    /// Records that a job is ready again. Returns how long none was ready.
    pub(crate) fn resume(&mut self, now: Nanos) -> Nanos {
        let idle = now - self.used_at;
        self.used_at = now;
        self.ledger.resume(now);
        self.lateness.cancel_wait();
        idle
    }

    pub(crate) fn set_rate(&mut self, now: Nanos, rate: Option<Rate>) {
        self.pace.rate = rate;
        self.ledger.set_rate(now, rate);
    }

    /// Replaces the pace. Bytes already handed down stay charged.
    pub(crate) fn change(&mut self, now: Nanos, pace: Pace) {
        self.ledger.change(now, &pace);
        self.overtaking = Overtaking::new(pace.grant_for);
        self.pace = pace;
    }

    /// Takes the wire bytes that were charged without a grant since the last call.
    pub(crate) fn take_ungranted_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.ungranted_bytes)
    }

    /// Records the handshake's round trip of a connection that was new when its response arrived.
    pub fn on_handshake(&mut self, rtt: Nanos) {
        self.handshakes.on_round_trip(rtt);
    }

    /// Records that a connection's account was settled: either bytes left that no grant covered (handshakes,
    /// acknowledgements, retransmissions), or TCP has kept granted bytes for now, so that the link is free for others.
    /// `is_read` states whether the queue below is measured ([`Pacer::on_reading`]).
    pub fn on_correction(&mut self, now: Nanos, correction: Correction, is_read: bool) {
        if correction.charge_bytes > 0 {
            self.ledger.charge_late(now, correction.charge_bytes, is_read);
            self.ungranted_bytes += correction.charge_bytes;
        }
        if correction.refund_bytes > 0 {
            self.ledger.refund(correction.refund_bytes);
        }
    }

    /// Records that bytes of a connection will leave later without a grant; see [`Ledger::charge_ahead`].
    pub fn on_foreseen(&mut self, now: Nanos, wire_bytes: u64, is_read: bool) {
        let is_read = is_read && !self.leaves_at_once(wire_bytes);
        self.ledger.charge_ahead(now, wire_bytes, is_read);
        self.ungranted_bytes += wire_bytes;
    }

    /// Records that accounts were settled at the end of their connections. Bytes charged but not sent are bytes that
    /// were charged ahead and never left.
    pub fn on_closed(&mut self, now: Nanos, correction: Correction, is_read: bool) {
        self.on_correction(now, Correction { refund_bytes: 0, ..correction }, is_read);
        if correction.refund_bytes > 0 {
            let is_read = is_read && !self.leaves_at_once(correction.refund_bytes);
            self.ledger.refund_ahead(correction.refund_bytes, is_read);
        }
    }

    /// Returns whether these bytes are a single acknowledgement to a nearby client. Readings need not show such bytes,
    /// because a bucket releases them immediately. On a line no faster than the bucket, twenty acknowledgements are as
    /// long as a packet, and stay there as long as there is work.
    fn leaves_at_once(&self, wire_bytes: u64) -> bool {
        const ALONE_BYTES_MAX: u64 = 100;
        const NEAR: Nanos = Nanos::from_millis(1);
        wire_bytes <= ALONE_BYTES_MAX && self.handshakes.shortest().is_some_and(|rtt| rtt <= NEAR)
    }

    /// Records a measurement of the queue below; see [`Ledger::on_reading`].
    pub fn on_reading(&mut self, now: Nanos, reading: Reading) {
        self.ledger.on_reading(now, reading);
    }

    /// Watches the last hand-down; see [`Ledger::on_watched`].
    pub fn on_watched(&mut self, now: Nanos) {
        self.ledger.on_watched(now);
    }
}
