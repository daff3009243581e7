//! Looks: readings of a connection's counters. The changes between two readings are evidence about the line.

use units::Nanos;
use units::wire::Framing;

/// The maximum age of an acknowledgement whose round trip still reflects the present.
const ACKED_AGO_MAX: Nanos = Nanos::from_millis(50);
/// The minimum number of segments acknowledged between two round trips: the kernel smooths round trips, and a single
/// acknowledgement after a pause hardly changes the value.
const RTT_SEGMENTS: u64 = 8;
/// The time beyond its round trip for which a client may stay silent: delayed acknowledgements are 40 ms late.
const SILENT_FOR: Nanos = Nanos::from_millis(50);

/// A connection's counters, of TCP or QUIC.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// The smoothed round trip; `None` before the first.
    pub rtt: Option<Nanos>,
    /// Payload bytes acknowledged so far.
    pub acked_bytes: u64,
    /// Payload bytes that have arrived beyond a gap and not been acknowledged yet (SACK).
    pub sacked_bytes: u64,
    /// The time since the last acknowledgement.
    pub acked_ago: Nanos,
    /// Payload bytes sent so far, without retransmissions.
    pub sent_bytes: u64,
    /// Payload bytes retransmitted so far.
    pub retransmitted_bytes: u64,
    /// The total time in which the client's window kept bytes from being sent. A client that reads slowly also
    /// acknowledges late.
    pub shut_for: Nanos,
    /// True if a program acknowledges, as over QUIC: it may be short of processor time. Over TCP the kernel
    /// acknowledges.
    pub is_by_program: bool,
}

/// The changes since the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// The round trip, if one was measured since.
    pub rtt: Option<Nanos>,
    /// True if the round trip is the handshake's, just measured.
    pub is_handshake: bool,
    /// True if the round trip includes an unknown delay before the line, or was estimated without that delay. It is
    /// evidence only if nothing better is available.
    pub is_vague: bool,
    /// Wire bytes sent since, for the first time.
    pub sent_bytes: u64,
    /// Wire bytes that arrived since.
    pub delivered_bytes: u64,
    /// The time since the latest of these bytes was acknowledged.
    pub delivered_ago: Nanos,
    /// The time from the last look that showed an arrival to that acknowledgement. If a late client acknowledges bytes
    /// together, they arrived during this time.
    pub delivered_for: Nanos,
    /// The time for which bytes have been in flight without a break.
    pub busy_for: Nanos,
    /// Wire bytes retransmitted since.
    pub lost_bytes: u64,
    /// Wire bytes in flight to a client that is silent although it should have acknowledged some of them; they may have
    /// arrived. Each byte is reported once.
    pub unheard_bytes: u64,
    /// The time over which the unheard bytes were sent.
    pub unheard_for: Nanos,
}

/// The looks at one connection, across all its responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    /// The time of the last look, or [`NEVER`].
    at: Nanos,
    /// Over QUIC, the time of the last look that showed an arrival or nothing in flight. Over TCP, the time of the last
    /// look.
    delivered_at: Nanos,
    /// The time since which bytes have been in flight, or [`NEVER`].
    busy_since: Nanos,
    /// The bytes acknowledged, or arrived beyond a gap.
    arrived_bytes: u64,
    sent_bytes: u64,
    retransmitted_bytes: u64,
    /// The bytes acknowledged when a round trip was last used, or last delayed by the client, modulo 4 GiB.
    rtt_at_bytes: u32,
    /// [`Seen::shut_for`] at the last look, in milliseconds modulo 2^32.
    shut_for_ms: u32,
}

/// The value in place of an absent instant. An `Option` would take more memory in every connection, and most
/// connections are idle.
const NEVER: Nanos = Nanos::MAX;

impl Default for Looks {
    fn default() -> Looks {
        let [arrived_bytes, sent_bytes, retransmitted_bytes] = [0; 3];
        let [rtt_at_bytes, shut_for_ms] = [0; 2];
        Looks {
            at: NEVER,
            delivered_at: NEVER,
            busy_since: NEVER,
            arrived_bytes,
            sent_bytes,
            retransmitted_bytes,
            rtt_at_bytes,
            shut_for_ms,
        }
    }
}

impl Looks {
    /// Records a look and returns what changed. If nothing was acknowledged on the connection before, its first round
    /// trip is the handshake's.
    pub fn look(&mut self, now: Nanos, seen: &Seen, framing: Framing) -> Look {
        let is_handshake = self.at == NEVER && seen.acked_bytes == 0;
        let rtt = self.rtt(seen, is_handshake, framing);
        let arrived_bytes = self.arrived_bytes.max(seen.acked_bytes + seen.sacked_bytes);
        let delivered = arrived_bytes - self.arrived_bytes;
        let sent_bytes = self.sent_bytes.max(seen.sent_bytes);
        let sent = sent_bytes - self.sent_bytes;
        let again = seen.retransmitted_bytes.saturating_sub(self.retransmitted_bytes);
        let (unheard_bytes, unheard_for) = self.unheard(now, seen, sent_bytes, delivered);
        // `NEVER` lies after now, so the time since it is zero.
        let ago = now - self.delivered_at;
        let busy_for = if delivered > 0 { now - self.busy_since } else { Nanos::ZERO };
        let delivered_ago = if delivered > 0 { seen.acked_ago.min(ago) } else { Nanos::ZERO };
        let delivered_for = if delivered > 0 { ago - delivered_ago } else { Nanos::ZERO };
        let is_busy = sent_bytes > arrived_bytes;
        let is_waiting = seen.is_by_program && delivered == 0 && is_busy && self.busy_since != NEVER;
        *self = Looks {
            at: now,
            delivered_at: if is_waiting { self.delivered_at.min(now) } else { now },
            busy_since: if is_busy { self.busy_since.min(now) } else { NEVER },
            arrived_bytes,
            sent_bytes,
            retransmitted_bytes: seen.retransmitted_bytes,
            ..*self
        };
        Look {
            rtt,
            is_handshake,
            is_vague: false,
            sent_bytes: framing.wire_bytes(sent),
            delivered_bytes: framing.wire_bytes(delivered),
            delivered_ago,
            delivered_for,
            busy_for,
            lost_bytes: framing.wire_bytes(again),
            unheard_bytes: framing.wire_bytes(unheard_bytes),
            unheard_for,
        }
    }

    /// Returns the payload bytes that a silent client has not acknowledged, without bytes reported before, and the time
    /// over which they were sent.
    fn unheard(&self, now: Nanos, seen: &Seen, sent_bytes: u64, delivered: u64) -> (u64, Nanos) {
        let rtt = seen.rtt.unwrap_or_default();
        let (busy_for, ago) = (now - self.busy_since, now - self.at);
        let silent_for = seen.acked_ago.min(busy_for);
        if !seen.is_by_program || delivered > 0 || silent_for <= rtt + SILENT_FOR {
            return (0, Nanos::ZERO);
        }
        if silent_for - ago > rtt + SILENT_FOR {
            let new = sent_bytes - self.sent_bytes;
            return (new, if new > 0 { ago } else { Nanos::ZERO });
        }
        (sent_bytes.saturating_sub(self.arrived_bytes), busy_for.min(silent_for + rtt))
    }

    /// Returns the round trip if a new one was measured since the last look.
    fn rtt(&mut self, seen: &Seen, is_handshake: bool, framing: Framing) -> Option<Nanos> {
        let is_known = self.at != NEVER;
        let acked_bytes = u64::from((seen.acked_bytes as u32).wrapping_sub(self.rtt_at_bytes));
        let shut_for_ms = (seen.shut_for.0 / 1_000_000) as u32;
        let was_shut = std::mem::replace(&mut self.shut_for_ms, shut_for_ms) != shut_for_ms && is_known;
        let is_enough = is_known && acked_bytes >= RTT_SEGMENTS * framing.segment_bytes;
        let is_fresh = is_handshake || is_enough && !was_shut && seen.acked_ago <= ACKED_AGO_MAX;
        let rtt = seen.rtt.filter(|_| is_fresh);
        if !is_known || rtt.is_some() || was_shut {
            self.rtt_at_bytes = seen.acked_bytes as u32;
        }
        rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMING: Framing = Framing::ETHERNET;
    const NOW: Nanos = Nanos::from_millis(1000);
    const RTT: Option<Nanos> = Some(Nanos::from_millis(30));

    fn seen(acked_bytes: u64, retransmitted_bytes: u64) -> Seen {
        Seen {
            rtt: RTT,
            acked_bytes,
            sacked_bytes: 0,
            acked_ago: ACKED_AGO_MAX,
            sent_bytes: acked_bytes,
            retransmitted_bytes,
            shut_for: Nanos::ZERO,
            is_by_program: false,
        }
    }

    #[test]
    fn the_first_round_trip_of_a_connection_is_its_handshake_s() {
        let look = Looks::default().look(NOW, &seen(0, 0), FRAMING);
        assert_eq!(look, Look { rtt: RTT, is_handshake: true, ..Look::default() });
        let mut looks = Looks::default();
        assert_eq!(looks.look(NOW, &seen(1, 0), FRAMING).rtt, None, "bytes were acknowledged before");
    }

    #[test]
    fn a_round_trip_is_taken_after_eight_segments_and_while_it_is_new() {
        let mut looks = Looks::default();
        let _ = looks.look(NOW, &seen(1000, 0), FRAMING);
        let enough = 1000 + RTT_SEGMENTS * FRAMING.segment_bytes;
        assert_eq!(looks.look(NOW, &seen(enough - 1, 0), FRAMING).rtt, None);
        let old = Seen { acked_ago: ACKED_AGO_MAX + Nanos(1), ..seen(enough, 0) };
        assert_eq!(looks.look(NOW, &old, FRAMING).rtt, None);
        assert_eq!(looks.look(NOW, &seen(enough, 0), FRAMING).rtt, RTT);
        assert_eq!(looks.look(NOW, &seen(enough + 1, 0), FRAMING).rtt, None);
    }

    /// A caller that takes a round trip only at every second look has one at each of them, not at none.
    #[test]
    fn a_look_without_a_round_trip_uses_up_no_segments() {
        let mut looks = Looks::default();
        let mut look = |segments: u64, rtt| {
            let seen = Seen { rtt, ..seen(1000 + segments * FRAMING.segment_bytes, 0) };
            looks.look(NOW, &seen, FRAMING).rtt
        };
        let _ = look(0, RTT);
        assert_eq!(
            [look(6, RTT), look(12, None), look(18, RTT), look(24, None), look(30, RTT)],
            [None, None, RTT, None, RTT]
        );
    }

    /// The client's acknowledgements are late by up to 40 ms, without any queue.
    #[test]
    fn the_round_trips_of_a_client_that_reads_slowly_are_not_taken() {
        let mut looks = Looks::default();
        let segments = |count: u64| 1000 + count * FRAMING.segment_bytes;
        let shut = |acked_bytes, ms| Seen { shut_for: Nanos::from_millis(ms), ..seen(acked_bytes, 0) };
        let _ = looks.look(NOW, &shut(segments(0), 70), FRAMING);
        assert_eq!(looks.look(NOW, &shut(segments(20), 71), FRAMING).rtt, None);
        // The kernel smooths round trips, so the delay is still in the next ones.
        assert_eq!(looks.look(NOW, &shut(segments(27), 71), FRAMING).rtt, None);
        assert_eq!(looks.look(NOW, &shut(segments(28), 71), FRAMING).rtt, RTT);
    }

    #[test]
    fn what_is_acknowledged_and_sent_again_counts_once() {
        let mut looks = Looks::default();
        let first = looks.look(NOW, &seen(1448, 100), FRAMING);
        let per_segment = FRAMING.header_bytes;
        assert_eq!((first.delivered_bytes, first.lost_bytes), (1448 + per_segment, 100 + per_segment));
        let next = looks.look(NOW, &seen(2 * 1448, 100), FRAMING);
        assert_eq!((next.delivered_bytes, next.lost_bytes), (1448 + per_segment, 0));
        let same = looks.look(NOW, &seen(2 * 1448, 100), FRAMING);
        assert_eq!((same.delivered_bytes, same.lost_bytes), (0, 0));
    }

    /// The time runs from the last look to the last acknowledgement, but begins no earlier than something was on its
    /// way.
    #[test]
    fn a_look_tells_in_what_time_bytes_arrived() {
        let ms = Nanos::from_millis;
        let at = |acked_bytes, sent_bytes, ago| Seen { acked_ago: ms(ago), sent_bytes, ..seen(acked_bytes, 0) };
        let mut looks = Looks::default();
        let _ = looks.look(ms(100), &at(0, 0, 0), FRAMING);
        let _ = looks.look(ms(200), &at(0, 9000, 200), FRAMING);
        let times = |look: Look| [look.delivered_ago, look.delivered_for, look.busy_for].map(|time| time.0 / 1_000_000);
        assert_eq!(times(looks.look(ms(250), &at(4000, 9000, 10), FRAMING)), [10, 40, 50]);
        assert_eq!(times(looks.look(ms(300), &at(9000, 9000, 0), FRAMING)), [0, 50, 100]);
        assert_eq!(looks.look(ms(400), &at(9000, 9000, 100), FRAMING), Look::default(), "nothing is new");
        let _ = looks.look(ms(500), &at(9000, 12000, 200), FRAMING);
        assert_eq!(times(looks.look(ms(530), &at(12000, 12000, 10), FRAMING)), [10, 20, 30]);
    }

    /// Bytes that a late client acknowledges together have arrived since it was last heard from.
    #[test]
    fn what_is_acknowledged_late_arrived_since_the_last_arrival() {
        let ms = Nanos::from_millis;
        let at = |acked_bytes, ago| Seen {
            acked_ago: ms(ago),
            sent_bytes: 9000,
            is_by_program: true,
            ..seen(acked_bytes, 0)
        };
        let mut looks = Looks::default();
        let _ = [(100, 0, 0), (150, 1000, 0), (200, 1000, 50)]
            .map(|(now, acked, ago)| looks.look(ms(now), &at(acked, ago), FRAMING));
        let late = looks.look(ms(250), &at(9000, 10), FRAMING);
        assert_eq!([late.delivered_ago, late.delivered_for, late.busy_for], [10, 90, 150].map(ms));
    }

    #[test]
    fn bytes_on_their_way_to_a_silent_client_are_reported_once() {
        let ms = Nanos::from_millis;
        let at = |ago, sent_bytes| Seen { acked_ago: ms(ago), sent_bytes, is_by_program: true, ..seen(0, 0) };
        let mut looks = Looks::default();
        let mut unheard = |now, ago, sent_bytes| {
            let look = looks.look(ms(now), &at(ago, sent_bytes), FRAMING);
            (look.unheard_bytes, look.unheard_for.0 / 1_000_000)
        };
        let wire = |payload_bytes| FRAMING.wire_bytes(payload_bytes);
        assert_eq!(unheard(100, 500, 9000), (0, 0), "nothing was on its way before");
        assert_eq!(unheard(180, 580, 9000), (0, 0), "a round trip of 30 ms, and 50 more");
        assert_eq!(unheard(190, 590, 12_000), (wire(12_000), 90));
        assert_eq!(unheard(220, 620, 12_000), (0, 0));
        assert_eq!(unheard(230, 630, 15_000), (wire(3_000), 10));
        assert_eq!(unheard(250, 10, 15_000), (0, 0), "it is heard of");
        assert_eq!(unheard(400, 150, 18_000), (wire(18_000), 180));
    }
}
