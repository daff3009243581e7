//! The bytes that were lost, window by window.

use units::Nanos;

use super::PACKET_BYTES;
use super::evidence::Evidence;
use super::history::permille_of;

/// Losses are judged this often, while at least `LOSS_BUSY_PERMILLE` of the pace is used.
const LOSS_WINDOW: Nanos = Nanos::from_secs(1);
const LOSS_BUSY_PERMILLE: u64 = 500;
/// Losses are judged after this time if at least `LOSS_PLAIN_PERMILLE` is lost.
const LOSS_PLAIN_FOR: Nanos = Nanos::from_millis(200);
const LOSS_PLAIN_PERMILLE: u64 = 50;
/// The minimum number of lost bytes that is evidence; fewer may be lost by chance.
pub(super) const LOST_BYTES_MIN: u64 = 4 * PACKET_BYTES;

/// The bytes lost in a window.
#[derive(Debug, Default)]
pub(super) struct Losses {
    pub evidence: Evidence,
    began: Nanos,
    charged_before: u64,
}

/// The result of a window of losses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost {
    /// The part of all bytes that all clients lost, in thousandths.
    pub permille: u64,
}

impl Losses {
    /// Ends the window and returns its losses; `None` while it lasts, or if little was sent.
    pub fn close(&mut self, now: Nanos, charged_bytes: u64, pace: Option<u64>) -> Option<Lost> {
        let lasted = now - self.began;
        let bytes = charged_bytes.saturating_sub(self.charged_before);
        let lost = self.evidence.lost_by_all_bytes();
        let is_plain =
            lasted >= LOSS_PLAIN_FOR && lost >= 4 * LOST_BYTES_MIN && lost * 1000 >= LOSS_PLAIN_PERMILLE * bytes;
        if lasted < LOSS_WINDOW && !is_plain {
            return None;
        }
        self.restart(now, charged_bytes);
        if pace.is_some_and(|pace| permille_of(pace, lasted, bytes) < LOSS_BUSY_PERMILLE) {
            return None;
        }
        let permille = if lost < LOST_BYTES_MIN { 0 } else { (lost * 1000 / bytes.max(1)).min(1000) };
        Some(Lost { permille })
    }

    pub fn restart(&mut self, now: Nanos, charged_bytes: u64) {
        self.evidence.clear();
        (self.began, self.charged_before) = (now, charged_bytes);
    }
}

impl Lost {
    /// Returns whether the loss is too large to be an accident of the clients' paths.
    pub fn is_plain(self) -> bool {
        self.permille >= LOSS_PLAIN_PERMILLE
    }
}
