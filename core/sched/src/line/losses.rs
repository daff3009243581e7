//! The bytes that were lost, window by window.

use units::Nanos;

use super::PACKET_BYTES;
use super::evidence::Evidence;
use super::history::permille_of;

/// The period after which losses are judged, as long as at least `LOSS_BUSY_PERMILLE` of the pace is used.
const LOSS_WINDOW: Nanos = Nanos::from_secs(1);
const LOSS_BUSY_PERMILLE: u64 = 500;
/// The shorter period, used if at least `LOSS_SOON_PERMILLE` of the bytes are lost, in too many packets for chance. A
/// queue of a hundred packets is 12 ms at 100 Mbit/s, so a second of heavy loss would be a second of timeouts.
const LOSS_SOON_FOR: Nanos = Nanos::from_millis(200);
const LOSS_SOON_PERMILLE: u64 = 20;
/// The loss, in thousandths, above which the line is the cause and not the clients' paths.
const LOSS_PLAIN_PERMILLE: u64 = 50;
/// The minimum number of lost bytes that count as evidence; fewer may be lost by chance.
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
    /// The part of all bytes that was lost, across all clients, in thousandths.
    pub permille: u64,
}

impl Losses {
    /// Ends the period and returns its losses; `None` if the period still lasts or too little was sent.
    pub fn close(&mut self, now: Nanos, charged_bytes: u64, pace: Option<u64>) -> Option<Lost> {
        let lasted = now - self.began;
        let bytes = charged_bytes.saturating_sub(self.charged_before);
        let lost = self.evidence.lost_by_all_bytes();
        let is_soon =
            lasted >= LOSS_SOON_FOR && lost >= 4 * LOST_BYTES_MIN && lost * 1000 >= LOSS_SOON_PERMILLE * bytes;
        if lasted < LOSS_WINDOW && !is_soon {
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
    /// Returns whether the loss is too large to be caused by the clients' paths.
    pub fn is_plain(self) -> bool {
        self.permille >= LOSS_PLAIN_PERMILLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// Returns the results of windows that end at these times, while two clients lose this part of the bytes that leave
    /// at 100 Mbit/s.
    fn lost_permille(permille: u64, ends_ms: &[u64]) -> Vec<Option<u64>> {
        let (mut losses, mut before) = (Losses::default(), 0);
        let close = |ms: &u64| {
            let bytes = (ms - std::mem::replace(&mut before, *ms)) * 12_500;
            [1, 2].into_iter().for_each(|client| losses.evidence.on_lost(client, bytes * permille / 1000));
            losses.close(MS(*ms), ms * 12_500, None).map(|lost| lost.permille)
        };
        ends_ms.iter().map(close).collect()
    }

    #[test]
    fn many_losses_are_judged_before_the_second_is_over() {
        let ends_ms = [100, 199, 200, 400, 999, 1200];
        assert_eq!(lost_permille(20, &ends_ms), [None, None, Some(20), Some(20), Some(20), Some(20)]);
        assert_eq!(lost_permille(19, &ends_ms), [None, None, None, None, None, Some(18)]);
    }
}
