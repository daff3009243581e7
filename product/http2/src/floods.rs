//! Limits on frames that cost more to receive than to send.

use units::Nanos;

use crate::walker::{CONTINUATION, DATA, Frame, HEADERS, RST_STREAM, WINDOW_UPDATE};

/// Frames that require an answer, change something or are useless: SETTINGS, PING, PRIORITY, PRIORITY_UPDATE, empty and
/// tiny DATA, and unknown types. Every [`BYTES_PER_CONTROL`] of DATA allows one more. The rest of a window that is not
/// a multiple of the frame size is sent as tiny DATA, by Go's client once in 32 KB.
pub const CONTROL: Rate = Rate { burst: 1000, per_s: 1000 };
pub const BYTES_PER_CONTROL: u64 = 4 << 10;
/// WINDOW_UPDATE frames: this rate, plus one per [`BYTES_PER_UPDATE`] bytes sent, plus [`UPDATES_PER_WRITE`] per part
/// of a body of any size, because some programs open both windows for each gRPC message.
pub const UPDATES: Rate = Rate { burst: 1000, per_s: 1000 };
pub const UPDATES_PER_WRITE: u64 = 2;
pub const BYTES_PER_UPDATE: u64 = 256;
/// RST_STREAM frames. A browser that leaves a page cancels up to 100 streams simultaneously (CVE-2023-44487).
pub const RESETS: Rate = Rate { burst: 200, per_s: 20 };
/// Resets that a client provokes the server to send (CVE-2025-8671).
pub const PROVOKED: Rate = Rate { burst: 100, per_s: 10 };
/// QUIC's address changes and PATH_CHALLENGE. Each immediately costs a datagram of 1,200 bytes, whatever the congestion
/// window.
pub const PATHS: Rate = Rate { burst: 16, per_s: 1 };
/// CONTINUATION frames of one header block (CVE-2024-28182).
const CONTINUATIONS_MAX: u32 = 8;
/// DATA frames with fewer bytes are tiny.
pub const DATA_BYTES_MIN: u32 = 64;

/// A limit that a client exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Flood {
    #[error("more than 1000 control frames (SETTINGS, PING, PRIORITY_UPDATE, tiny DATA) in a second")]
    Control,
    #[error(
        "more WINDOW_UPDATE frames than 1000 in a second and one for each 256 bytes or two for each part of a body sent"
    )]
    Updates,
    #[error("more cancelled streams (RST_STREAM) than a burst of 200 and 20 per second")]
    Resets,
    #[error("more errors of streams than 100 at once and 10 in a second")]
    Provoked,
    #[error("more changes of address and PATH_CHALLENGE frames than 16 at once and 1 in a second")]
    Paths,
    #[error("more than 8 CONTINUATION frames for one header block")]
    Continuations,
    /// Unsent answers that accumulate because the client does not read; the caller checks their size.
    #[error("more than 256 KB of answers unread")]
    Unread,
}

/// A rate limit: a burst, and a number per second.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub burst: u32,
    pub per_s: u32,
}

/// A token bucket for a [`Rate`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Bucket {
    /// The units in use, in billionths of a unit.
    spent: u64,
    at: Nanos,
}

impl Bucket {
    /// Takes one unit. Returns false if the bucket is empty.
    pub fn take(&mut self, now: Nanos, rate: Rate) -> bool {
        let earned = (now - self.at).0.saturating_mul(rate.per_s.into());
        self.at = now;
        self.spent = self.spent.saturating_sub(earned) + 1_000_000_000;
        self.spent <= u64::from(rate.burst) * 1_000_000_000
    }

    /// Returns units to the bucket.
    pub fn give_back(&mut self, count: u64) {
        self.spent = self.spent.saturating_sub(count.saturating_mul(1_000_000_000));
    }
}

/// The budgets of a peer.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// True if small DATA frames are not limited, because this end requested the content and each gRPC message is a
    /// frame.
    takes_small_data: bool,
    continuations: u32,
    /// Bytes sent that have not yet been credited as updates.
    sent_bytes: u64,
    /// Bytes of DATA that is not tiny, not yet credited as control frames.
    taken_bytes: u64,
    control: Bucket,
    updates: Bucket,
    resets: Bucket,
    provoked: Bucket,
}

impl Budget {
    /// Creates the budget of a server whose responses we requested.
    pub fn of_responses() -> Budget {
        Budget { takes_small_data: true, ..Budget::default() }
    }

    /// Credits a reset for a request that this end sent, because the server may refuse it.
    pub fn on_request(&mut self) {
        self.resets.give_back(1);
    }

    /// Credits updates for bytes of messages sent.
    pub fn on_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
        self.updates.give_back(self.sent_bytes / BYTES_PER_UPDATE);
        self.sent_bytes %= BYTES_PER_UPDATE;
    }

    /// Credits updates for a part of a body sent.
    pub fn on_written(&mut self) {
        self.updates.give_back(UPDATES_PER_WRITE);
    }

    fn on_data(&mut self, bytes: u32) {
        self.taken_bytes += u64::from(bytes);
        self.control.give_back(self.taken_bytes / BYTES_PER_CONTROL);
        self.taken_bytes %= BYTES_PER_CONTROL;
    }

    fn data_bytes_min(&self) -> u32 {
        if self.takes_small_data { 1 } else { DATA_BYTES_MIN }
    }

    /// Counts a stream that was reset because of its peer's mistake.
    pub fn on_provoked(&mut self, now: Nanos) -> Result<(), Flood> {
        if self.provoked.take(now, PROVOKED) { Ok(()) } else { Err(Flood::Provoked) }
    }

    pub fn on_frame(&mut self, now: Nanos, frame: &Frame) -> Result<(), Flood> {
        let (is_within, flood) = match frame.kind {
            HEADERS => {
                self.continuations = 0;
                (true, Flood::Continuations)
            }
            CONTINUATION => {
                self.continuations += 1;
                (self.continuations <= CONTINUATIONS_MAX, Flood::Continuations)
            }
            DATA if frame.length >= self.data_bytes_min() || frame.ends_stream() => {
                self.on_data(frame.length);
                (true, Flood::Control)
            }
            RST_STREAM => (self.resets.take(now, RESETS), Flood::Resets),
            WINDOW_UPDATE => (self.updates.take(now, UPDATES), Flood::Updates),
            _ => (self.control.take(now, CONTROL), Flood::Control),
        };
        if is_within { Ok(()) } else { Err(flood) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;

    fn frame(kind: u8, length: u32) -> Frame {
        Frame { kind, flags: 0, stream: 1, length, word: 0 }
    }

    /// Returns how many frames pass at once.
    fn passing(kind: u8, length: u32) -> (usize, Flood) {
        let mut budget = Budget::default();
        let mut count = 0;
        loop {
            if let Err(flood) = budget.on_frame(Nanos(0), &frame(kind, length)) {
                return (count, flood);
            }
            count += 1;
        }
    }

    #[test]
    fn each_flood_has_its_bound() {
        assert_eq!(passing(PING, 8), (1000, Flood::Control));
        assert_eq!(passing(4, 0), (1000, Flood::Control));
        assert_eq!(passing(16, 7), (1000, Flood::Control));
        assert_eq!(passing(DATA, 0), (1000, Flood::Control));
        assert_eq!(passing(DATA, 63), (1000, Flood::Control));
        assert_eq!(passing(RST_STREAM, 4), (200, Flood::Resets));
        assert_eq!(passing(WINDOW_UPDATE, 4), (1000, Flood::Updates));
        assert_eq!(passing(CONTINUATION, 100), (8, Flood::Continuations));
    }

    #[test]
    fn errors_of_streams_have_their_bound() {
        let mut budget = Budget::default();
        (0..100).for_each(|_| budget.on_provoked(Nanos(0)).unwrap());
        assert_eq!(budget.on_provoked(Nanos(0)), Err(Flood::Provoked));
    }

    #[test]
    fn bodies_and_requests_are_no_flood() {
        let mut budget = Budget::default();
        for _ in 0..10_000 {
            budget.on_frame(Nanos(0), &frame(DATA, 64)).unwrap();
            budget.on_frame(Nanos(0), &frame(HEADERS, 30)).unwrap();
            (0..8).for_each(|_| budget.on_frame(Nanos(0), &frame(CONTINUATION, 30)).unwrap());
        }
    }

    /// A Go program that sent 30 MB in a second was cut off: it fills a window of 65,535 bytes with frames of 16,384
    /// bytes, and sends the rest as a tiny frame.
    #[test]
    fn what_is_left_of_a_window_is_no_flood() {
        let mut budget = Budget::default();
        for _ in 0..10_000 {
            for length in [16_384, 16_383, 1] {
                budget.on_frame(Nanos(0), &frame(DATA, length)).unwrap();
            }
        }
        let is_tiny_alone = |budget: &mut Budget| budget.on_frame(Nanos(0), &frame(DATA, 1)).is_ok();
        assert_eq!((0..2000).filter(|_| is_tiny_alone(&mut budget)).count(), 999);
    }

    #[test]
    fn time_and_sent_bytes_allow_more() {
        let mut budget = Budget::default();
        for second in 1..20 {
            (0..20).for_each(|_| budget.on_frame(Nanos::from_secs(second), &frame(RST_STREAM, 4)).unwrap());
        }
        for _ in 0..5000 {
            budget.on_sent(300);
            budget.on_frame(Nanos(0), &frame(WINDOW_UPDATE, 4)).unwrap();
        }
        for _ in 0..5000 {
            budget.on_written();
            (0..2).for_each(|_| budget.on_frame(Nanos(0), &frame(WINDOW_UPDATE, 4)).unwrap());
        }
    }
}
