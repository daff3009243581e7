//! Uploads: bytes that clients send fill the queue in front of the server, and the acknowledgements of all clients wait
//! in that queue.
//!
//! Neither a round trip nor a kernel counter shows in which direction the queue stands. A test by cutting the pace
//! would be undone each time, and because delays prove nothing meanwhile, the pace would rise beyond the line. So while
//! clients upload a substantial part of the bytes that they download and a queue is seen, the pace is held a little
//! below its previous value. A queue that then ends was ours. Otherwise only losses and arrivals are judged: if all
//! acknowledgements wait equally long, they come as fast as the bytes arrived.

use units::Nanos;

use super::{BUSY_PERMILLE, Change, DRAIN_MAX, Estimator, INTERVAL, PACKET_BYTES, Phase, UNQUEUED_INTERVALS};

/// The ratio of received to sent bytes, in thousandths, from which uploads may fill the queue in front of the server.
/// Requests for pages are a fiftieth of what is sent; lines seldom receive at less than an eighth of their sending
/// rate.
const UPLOAD_PERMILLE: u64 = 125;
/// Up to this number, recent received bytes are requests and handshakes, regardless of the bytes sent.
const UPLOAD_BYTES_MIN: u64 = 8 * PACKET_BYTES;
/// The recent bytes lose one part in this many per interval.
const RECENT_PARTS: u64 = 8;
/// The part of the pace that is held, in thousandths: a queue of our own would not be seen, so the pace stays a little
/// lower.
const HELD_PERMILLE: u64 = 960;

/// The bytes of the latest intervals, at any pace.
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
    /// Records bytes received from clients: requests and their bodies.
    pub fn on_received(&mut self, bytes: u64) {
        self.history.recent.on_received(bytes);
    }

    /// Returns whether uploads may cause the queue, so that delays prove nothing.
    pub(super) fn is_unclear(&self) -> bool {
        self.others.held.is_some() || self.history.recent.are_uploads() && self.evidence.is_queued(self.threshold())
    }

    /// Starts or stops holding the pace because of uploads. Returns the change of the pace, if any.
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

    /// Returns whether the pace may rise although delays prove nothing: it is growing, and everything sent arrives.
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
