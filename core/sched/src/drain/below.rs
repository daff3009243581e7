//! What the drain is told of the link: what left that no grant covered, what is queued below, what rate there is.

use units::{Nanos, Rate};

use super::Drain;
use crate::{Correction, Reading};

impl Drain {
    /// A connection was new when its response came: the round trip of its handshake.
    pub fn on_handshake(&mut self, rtt: Nanos) {
        self.handshakes.on_round_trip(rtt);
    }

    /// A connection's account was settled: bytes left that no grant covered (handshakes, acknowledgements, retransmissions),
    /// or bytes that a grant covered stay with TCP for now, and the link is free for others. `is_read` says that the queue below
    /// is measured ([`Drain::on_reading`]).
    pub fn on_correction(&mut self, now: Nanos, correction: Correction, is_read: bool) {
        if correction.charge_bytes > 0 {
            self.ledger.charge_late(now, correction.charge_bytes, is_read);
            self.earn(correction.charge_bytes);
        }
        if correction.refund_bytes > 0 {
            self.ledger.refund(correction.refund_bytes);
        }
    }

    /// Bytes of a connection are still to leave that no grant will cover; see [`Ledger::charge_ahead`].
    pub fn on_foreseen(&mut self, now: Nanos, wire_bytes: u64, is_read: bool) {
        let is_read = is_read && !self.leaves_at_once(wire_bytes);
        self.ledger.charge_ahead(now, wire_bytes, is_read);
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
        wire_bytes <= ALONE_BYTES_MAX && self.handshakes.shortest().is_some_and(|rtt| rtt <= NEAR)
    }

    /// Whether a queue of this length needs no second look; see [`Ledger::is_explained`].
    pub fn is_explained(&self, now: Nanos, queued_bytes: u64) -> bool {
        self.ledger.is_explained(now, queued_bytes)
    }

    /// The queue below was measured; see [`Ledger::on_reading`].
    pub fn on_reading(&mut self, now: Nanos, reading: Reading) {
        self.ledger.on_reading(now, reading);
    }

    /// Whether the next hand-down should be watched; see [`crate::Ledger::wants_watch`].
    pub fn wants_watch(&self) -> bool {
        self.ledger.wants_watch()
    }

    /// The last hand-down is watched; see [`crate::Ledger::on_watched`].
    pub fn on_watched(&mut self, now: Nanos) {
        self.ledger.on_watched(now);
    }

    /// The link has another rate from now on; `None` hands down whatever sockets take.
    pub fn set_pace(&mut self, now: Nanos, rate: Option<Rate>) {
        self.pace.rate = rate;
        self.ledger.set_rate(now, rate);
        if let Some(rate) = rate {
            self.policy.on_rate(rate);
        }
    }
}
