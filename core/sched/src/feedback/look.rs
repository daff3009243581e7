//! What TCP's counters of a connection say of the line from one look to the next.

use units::Nanos;
use units::wire::Framing;

/// A round trip that was measured longer ago says nothing of now.
const ACKED_AGO_MAX: Nanos = Nanos::from_millis(50);
/// So many segments have to be acknowledged between two: the kernel smooths round trips, and one acknowledgement after a pause
/// hardly moves what it says.
const RTT_SEGMENTS: u64 = 8;

/// TCP's counters of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// The smoothed round trip; `None` before the first.
    pub rtt: Option<Nanos>,
    /// Payload bytes acknowledged so far.
    pub acked_bytes: u64,
    /// How long ago the last acknowledgement came.
    pub acked_ago: Nanos,
    /// Payload bytes sent again so far.
    pub retransmitted_bytes: u64,
}

/// What is new since the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// The round trip, if one was measured since.
    pub rtt: Option<Nanos>,
    /// It is the handshake's, a moment ago.
    pub is_handshake: bool,
    /// Wire bytes sent again since.
    pub lost_bytes: u64,
}

/// The looks at one response.
#[derive(Debug, Clone, Copy, Default)]
pub struct Looks {
    /// What the last one saw sent again; `None` before the first.
    retransmitted_bytes: Option<u64>,
    /// What had been acknowledged when a round trip was last taken.
    rtt_at_bytes: u64,
}

impl Looks {
    /// What is new. On a connection without an earlier response the first round trip is the handshake's.
    pub fn look(&mut self, seen: &Seen, framing: Framing) -> Look {
        let before = self.retransmitted_bytes.replace(seen.retransmitted_bytes);
        let is_handshake = before.is_none() && seen.acked_bytes == 0;
        let acked_bytes = seen.acked_bytes.saturating_sub(self.rtt_at_bytes);
        let is_fresh = match before {
            None => is_handshake,
            Some(_) => acked_bytes >= RTT_SEGMENTS * framing.segment_bytes && seen.acked_ago <= ACKED_AGO_MAX,
        };
        if before.is_none() || is_fresh {
            self.rtt_at_bytes = seen.acked_bytes;
        }
        let again = seen.retransmitted_bytes.saturating_sub(before.unwrap_or(seen.retransmitted_bytes));
        Look { rtt: seen.rtt.filter(|_| is_fresh), is_handshake, lost_bytes: framing.wire_bytes(again) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMING: Framing = Framing::ETHERNET;
    const RTT: Option<Nanos> = Some(Nanos::from_millis(30));

    fn seen(acked_bytes: u64, retransmitted_bytes: u64) -> Seen {
        Seen { rtt: RTT, acked_bytes, acked_ago: ACKED_AGO_MAX, retransmitted_bytes }
    }

    #[test]
    fn the_first_round_trip_of_a_connection_is_its_handshake_s() {
        let look = Looks::default().look(&seen(0, 0), FRAMING);
        assert_eq!(look, Look { rtt: RTT, is_handshake: true, lost_bytes: 0 });
        let kept = Looks::default().look(&seen(1, 1448), FRAMING);
        assert_eq!(kept, Look::default(), "an earlier response's, and what it sent again");
    }

    #[test]
    fn a_round_trip_is_taken_after_eight_segments_and_while_it_is_new() {
        let mut looks = Looks::default();
        let _ = looks.look(&seen(1000, 0), FRAMING);
        let enough = 1000 + RTT_SEGMENTS * FRAMING.segment_bytes;
        assert_eq!(looks.look(&seen(enough - 1, 0), FRAMING).rtt, None);
        let old = Seen { acked_ago: ACKED_AGO_MAX + Nanos(1), ..seen(enough, 0) };
        assert_eq!(looks.look(&old, FRAMING).rtt, None);
        assert_eq!(looks.look(&seen(enough, 0), FRAMING).rtt, RTT);
        assert_eq!(looks.look(&seen(enough + 1, 0), FRAMING).rtt, None);
    }

    #[test]
    fn what_is_sent_again_counts_between_looks() {
        let mut looks = Looks::default();
        let _ = looks.look(&seen(1, 1448), FRAMING);
        assert_eq!(looks.look(&seen(1, 1448 + 100), FRAMING).lost_bytes, 100 + FRAMING.header_bytes);
        assert_eq!(looks.look(&seen(1, 1448 + 100), FRAMING).lost_bytes, 0);
    }
}
