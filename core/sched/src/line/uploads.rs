//! Uploads: what clients send fills the queue in front of the server, which the acknowledgements of all clients pass.
//!
//! A round trip does not show on which way its queue stands, and no counter of the kernel does. A cut to test it would
//! be undone each time, and while delays prove nothing the pace would rise beyond the line. So while clients send a
//! good part of what they are sent and a queue is seen, the pace is held a little below the one before. A queue that
//! then ends was ours. Otherwise only losses and arrivals are judged: acknowledgements that all wait as long come as
//! fast as the bytes arrived.

use units::Nanos;

use super::{BUSY_PERMILLE, Change, DRAIN_MAX, Estimator, INTERVAL, PACKET_BYTES, Phase, UNQUEUED_INTERVALS};

/// The part of the bytes that left, in thousandths, from which received bytes may be a queue in front of the server.
/// Requests of pages are a fiftieth; a line receives seldom less than an eighth of what it sends.
const UPLOAD_PERMILLE: u64 = 125;
/// The recent bytes below which they are requests and handshakes, whatever left.
const UPLOAD_BYTES_MIN: u64 = 8 * PACKET_BYTES;
/// Each interval, the recent bytes lose one part in this many.
const RECENT_PARTS: u64 = 8;
/// The part of the pace that is held, in thousandths, since a queue of ours would not be seen.
const HELD_PERMILLE: u64 = 960;

/// The bytes of the last intervals, whatever the pace was.
#[derive(Debug, Default)]
pub(super) struct Recent {
    received_bytes: u64,
    charged_bytes: u64,
}

impl Recent {
    pub fn on_received(&mut self, bytes: u64) {
        self.received_bytes += bytes;
    }

    pub fn close(&mut self, charged_bytes: u64) {
        self.charged_bytes += charged_bytes;
        self.received_bytes -= self.received_bytes.div_ceil(RECENT_PARTS);
        self.charged_bytes -= self.charged_bytes / RECENT_PARTS;
    }

    /// Returns whether clients send enough to fill the queue in front of the server.
    pub fn are_uploads(&self) -> bool {
        self.received_bytes > UPLOAD_BYTES_MIN && self.received_bytes * 1000 > self.charged_bytes * UPLOAD_PERMILLE
    }
}

impl Estimator {
    /// Records bytes that clients have sent, requests and their bodies.
    pub fn on_received(&mut self, bytes: u64) {
        self.history.recent.on_received(bytes);
    }

    /// Returns whether a queue may be that of uploads, so that delays prove nothing.
    pub(super) fn is_unclear(&self) -> bool {
        self.others.held.is_some() || self.history.recent.are_uploads() && self.evidence.is_queued(self.threshold())
    }

    /// Begins or ends the time for which the pace is held because of uploads. Returns the pace if it changes.
    pub(super) fn hold(&mut self, now: Nanos, charged: u64) -> Option<Change> {
        let pace = self.pace.filter(|_| self.is_unclear())?;
        match self.others.held {
            None => {
                let before = self.trial.take().and_then(|trial| trial.pace_before).unwrap_or(pace).max(pace);
                (self.others.held, self.others.until) = (Some(before), now);
                let then = self.rise.held(before, HELD_PERMILLE);
                // At half of the line's rate a queue of ours is gone after twice its delay.
                let drain_for = Nanos(2 * self.queue_now(now, then).0).min(DRAIN_MAX);
                self.phase = Phase::Draining { until: now + drain_for, then, is_probe: false };
                Some(self.change(now, charged, Some(then / 2), None))
            }
            Some(before) if !self.history.recent.are_uploads() => {
                self.others.held = None;
                let change = self.change(now, charged, Some(before.max(pace)), None);
                // What they have left in the queue is still in the round trips.
                let lag = INTERVAL + Nanos(2 * self.losses.evidence.rtt_max().min(DRAIN_MAX).0);
                self.phase = Phase::Settling { until: now + lag };
                Some(change)
            }
            Some(_) if self.history.is_unqueued(UNQUEUED_INTERVALS) => {
                self.others.held = None;
                None
            }
            Some(_) => None,
        }
    }

    /// Returns whether the pace may rise although delays prove nothing: it grows, and all of it arrives.
    pub(super) fn may_grow(&self, used_permille: u64) -> bool {
        self.rise.is_growing() && used_permille >= BUSY_PERMILLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_no_uploads_and_an_upload_is_one_at_once_and_for_less_than_a_second() {
        let interval = |recent: &mut Recent, received: u64| {
            recent.on_received(received);
            recent.close(60_000);
            recent.are_uploads()
        };
        let mut recent = Recent::default();
        assert!(!(0..100).any(|_| interval(&mut recent, 6_000)), "a tenth");
        assert!((0..2).any(|_| interval(&mut recent, 60_000)), "within two intervals");
        assert!((0..100).all(|_| interval(&mut recent, 60_000)));
        assert!((0..20).any(|_| !interval(&mut recent, 1_000)), "within twenty");
        let mut recent = Recent::default();
        recent.on_received(UPLOAD_BYTES_MIN);
        assert!(!recent.are_uploads(), "handshakes before anything has left");
    }
}
