use units::wire::Framing;
use units::{Nanos, Rate};

/// How fast, and how finely, bytes are handed down.
///
/// A grant is the largest number of bytes that cannot be taken back, so it is how long a newcomer may have to wait for
/// something worse than itself: as small as the link and our timers allow. At 10 Mbit/s one full segment takes
/// 1.2 ms, and is then the whole grant; at 1 Gbit/s a grant is 82 segments, so that a grant a millisecond suffices.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Wire bytes are handed down at this rate; `None` hands down whatever is asked for, in order.
    pub rate: Option<Rate>,
    /// The link time of one grant (at least one segment is granted); without a rate only [`Nanos::MAX`] means anything, a
    /// grant without end. Raised: fewer wake-ups, coarser order.
    pub grant_for: Nanos,
    /// A grant is made when what is below us will be gone within this time. It has to cover the caller's wake-up jitter:
    /// too little and the link idles, too much and bytes queue in the order they were handed down.
    pub ahead: Nanos,
    /// How far the schedule may lag behind the clock and catch up: what a token bucket below us lets through at once.
    /// More than the bucket holds builds a queue there; less loses the time by which wake-ups come late.
    pub behind: Nanos,
}

impl Pace {
    /// No rate: order without pacing.
    pub const UNLIMITED: Pace =
        Pace { rate: None, grant_for: Nanos::from_millis(1), ahead: Nanos::ZERO, behind: Nanos::ZERO };

    /// No rate, and the whole response in one grant: for a simulated link, which serves a job for as long as nobody comes
    /// and reports what it sent by then.
    pub const WHOLE: Pace = Pace { grant_for: Nanos::MAX, ..Pace::UNLIMITED };

    /// Bytes granted at once without a rate: large enough that system calls cost nothing beside copying, small enough
    /// that a newcomer is not stuck behind a whole file.
    const GRANT_BYTES_UNLIMITED: u64 = 2 << 20;

    /// Payload bytes of one grant on a connection of this framing: whole segments, at least one.
    pub fn grant_bytes(&self, framing: Framing) -> u64 {
        let Some(rate) = self.rate else {
            return if self.grant_for == Nanos::MAX { u64::MAX } else { Self::GRANT_BYTES_UNLIMITED };
        };
        let segments = rate.bytes_in(self.grant_for) / framing.packet_bytes();
        segments.max(1) * framing.segment_bytes
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
    fn without_a_rate_a_grant_is_two_mebibytes_or_the_whole_response() {
        let grants = [Pace::UNLIMITED, Pace::WHOLE].map(|pace| pace.grant_bytes(Framing::ETHERNET));
        assert_eq!(grants, [2 * 1024 * 1024, u64::MAX]);
    }
}
