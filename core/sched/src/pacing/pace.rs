use units::wire::Framing;
use units::{Nanos, Rate};

use crate::pacing::cross_traffic::CROSS_SHARE_PERMILLE;
use crate::pacing::overtaking;

/// The part, in thousandths, that is used of a rate that cannot be checked. The rest keeps the queue empty if we
/// underestimate the bytes on the wire a little.
pub const BLIND_PERMILLE: u32 = 980;
/// The maximum lag that may be caught up: about one full segment at 10 Mbit/s. Every shaper allows a burst of that
/// size.
const BEHIND: Nanos = Nanos::from_millis(1);

/// The maximum number of segments in one TLS record. The next constant is the maximum link time of the segments after
/// the first.
///
/// A record and a frame take 31 bytes: 2 % of a segment, 0.5 % of four. A new response waits for the whole record.
const RECORD_SEGMENTS_MAX: u64 = 4;
pub(crate) const RECORD_FOR: Nanos = Nanos::from_millis(4);

/// The rate at which bytes are handed down, and the size of the pieces.
///
/// A grant cannot be taken back, so its size is the time that a new response may have to wait for one of worse rank. It
/// is as short as the link and our timers allow. At 10 Mbit/s one full segment takes 1.2 ms, and is then the whole
/// grant. At 1 Gbit/s a grant is 82 segments, so that a grant per millisecond suffices, until responses arrive that
/// would overtake it (`pacing::overtaking`).
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The rate at which wire bytes are handed down. `None` hands down all offered bytes, in order.
    pub rate: Option<Rate>,
    /// The link time of one grant; at least one segment is granted. The scheduler shortens it if new responses wait for
    /// its end. Without a rate, the only meaningful value is [`Nanos::MAX`], a grant without end. A longer grant costs
    /// fewer wake-ups and makes the order coarser.
    pub grant_for: Nanos,
    /// The lead: a grant is made when the bytes below us will be gone within this time. It has to cover the jitter of
    /// the caller's wake-ups. If it is too short, the link idles; if it is too long, bytes queue in the order they were
    /// handed down.
    pub ahead: Nanos,
    /// The maximum time by which the schedule may lag behind the clock and catch up. Only our own lateness is caught up
    /// ([`crate::Ledger::resume`]). The value is the burst of a token bucket below us, or the lag that a line slightly
    /// faster than the pace can absorb. A larger value would build a queue there; a smaller one would lose the time of
    /// late wake-ups.
    pub behind: Nanos,
    /// The part of the link that cross traffic in the same queue gets, in thousandths, at most 900.
    pub cross_permille: u32,
}

impl Pace {
    /// A pace without a rate: order without pacing.
    pub const UNLIMITED: Pace = Pace {
        rate: None,
        grant_for: overtaking::LONGEST,
        ahead: Nanos::ZERO,
        behind: Nanos::ZERO,
        cross_permille: CROSS_SHARE_PERMILLE,
    };

    /// A pace without a rate that grants the whole response at once, for a simulated link that serves a job until
    /// another arrives and then reports the bytes sent.
    pub const WHOLE: Pace = Pace { grant_for: Nanos::MAX, ..Pace::UNLIMITED };

    /// A pace for a rate that is still being searched: until it is found, bytes are handed down as fast as sockets take
    /// them.
    pub const UNKNOWN: Pace = Pace { behind: BEHIND, ..Pace::UNLIMITED };

    /// Returns the pace of a line whose rate is known from its shaper. A grant is made only when the line falls idle.
    /// Lateness is caught up by the bucket's tokens, or because the line is faster than the pace. If grants were made
    /// 300 us ahead, a response that arrives just after a packet of a worse one was granted would wait for a whole
    /// packet more (0.5 ms of the mean at 10 Mbit/s).
    pub fn of_line(rate: Rate) -> Pace {
        Pace { rate: Some(rate), ..Pace::UNKNOWN }
    }

    /// Returns the pace of a line whose rate is configured and not measured.
    pub fn blind(told: Rate) -> Pace {
        Pace::of_line(told.permille(BLIND_PERMILLE))
    }

    /// The bytes of a grant without a rate: large enough that system calls cost little compared with copying, and small
    /// enough that a new response does not wait for a whole file.
    const GRANT_BYTES_UNLIMITED: u64 = 2 << 20;

    /// Returns the payload bytes of one grant on a connection of this framing: whole segments, at least one.
    pub fn grant_bytes(&self, framing: Framing) -> u64 {
        let Some(rate) = self.rate else {
            return if self.grant_for == Nanos::MAX { u64::MAX } else { Self::GRANT_BYTES_UNLIMITED };
        };
        let segments = rate.bytes_in(self.grant_for) / framing.packet_bytes();
        segments.max(1) * framing.segment_bytes
    }

    /// Returns the segments in one TLS record of a response with `left_bytes` left; 0 without a rate. A record is as
    /// short as a grant while newcomers would overtake the response.
    pub fn record_segments(&self, framing: Framing, left_bytes: u64) -> u64 {
        let Some(rate) = self.rate.filter(|_| self.grant_for >= overtaking::LONGEST) else { return 0 };
        let behind = rate.bytes_in(RECORD_FOR) / framing.packet_bytes();
        (1 + behind).min(RECORD_SEGMENTS_MAX).min(left_bytes / framing.segment_bytes)
    }
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::UNLIMITED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_whole_segments() {
        let at =
            |rate: &str| Pace { rate: Some(rate.parse().unwrap()), ..Pace::UNLIMITED }.grant_bytes(Framing::ETHERNET);
        assert_eq!(at("1mbit"), 1448);
        assert_eq!(at("10mbit"), 1448);
        assert_eq!(at("100mbit"), 8 * 1448);
        assert_eq!(at("1gbit"), 82 * 1448);
    }

    #[test]
    fn a_record_is_shorter_on_a_slow_line_near_the_end_and_where_newcomers_are_many() {
        let of = |rate: &str, grant_for: Nanos, left_bytes: u64| {
            let pace = Pace { rate: Some(rate.parse().unwrap()), grant_for, ..Pace::UNLIMITED };
            pace.record_segments(Framing::ETHERNET, left_bytes)
        };
        let (longest, large) = (overtaking::LONGEST, 1 << 30);
        let at = |rate| of(rate, longest, large);
        assert_eq!([at("1mbit"), at("5mbit"), at("10mbit"), at("1gbit")], [1, 2, 4, 4]);
        assert_eq!([3 * 1448, 3 * 1448 - 1, 0].map(|left_bytes| of("10mbit", longest, left_bytes)), [3, 2, 0]);
        let short = Nanos::from_micros(125);
        assert_eq!([of("10mbit", short, large), of("100mbit", short, large)], [0, 0]);
        assert_eq!(Pace::UNLIMITED.record_segments(Framing::ETHERNET, large), 0);
        assert_eq!(of("1gbit", Nanos::MAX, large), 4);
    }

    #[test]
    fn without_a_rate_a_grant_is_two_mebibytes_or_the_whole_response() {
        let grants = [Pace::UNLIMITED, Pace::WHOLE].map(|pace| pace.grant_bytes(Framing::ETHERNET));
        assert_eq!(grants, [2 * 1024 * 1024, u64::MAX]);
    }
}
