//! TCP as in 001: slow start, congestion avoidance, the advertised window, and retransmission only by timeout.
//!
//! Segments are counted from 0 within a response, all full except the last. A [`Link`] is the state that a connection
//! keeps from one response to the next; a [`Transfer`] is one response in flight.

use std::ops::Range;

use units::Nanos;

use super::config::{Tcp, WINDOW_SEGMENTS_MAX};

/// The sender's state of a connection.
#[derive(Debug, Clone)]
pub(super) struct Link {
    cwnd_bytes: u64,
    ssthresh_bytes: u64,
    /// The smoothed round-trip time and its variation.
    srtt: Option<(Nanos, Nanos)>,
    rto: Nanos,
    /// The instant at which something was last sent or received.
    pub used_at: Nanos,
    pub requests: u32,
}

/// The maximum timeout (RFC 2988, section 2.5 allows a bound of at least 60 s).
const RTO_MAX: Nanos = Nanos::from_secs(64);

impl Link {
    pub fn new(tcp: &Tcp, now: Nanos) -> Link {
        Link {
            cwnd_bytes: tcp.initial_window_segments * tcp.mss_bytes,
            ssthresh_bytes: tcp.window_bytes,
            srtt: None,
            rto: Nanos::from_millis(tcp.rto_initial_ms),
            used_at: now,
            requests: 0,
        }
    }

    pub fn cwnd_bytes(&self) -> u64 {
        self.cwnd_bytes
    }

    pub fn rto(&self) -> Nanos {
        self.rto
    }

    /// Returns a connection that was idle for longer than a timeout to slow start (RFC 2581, section 4.1).
    pub fn wake(&mut self, tcp: &Tcp, now: Nanos) {
        if now - self.used_at > self.rto {
            self.cwnd_bytes = self.cwnd_bytes.min(tcp.initial_window_segments * tcp.mss_bytes);
        }
        self.used_at = now;
    }

    /// The maximum number of unacknowledged segments.
    fn window_segments(&self, tcp: &Tcp) -> u32 {
        (self.cwnd_bytes.min(tcp.window_bytes) / tcp.mss_bytes).max(1) as u32
    }

    /// Processes a measured round trip (RFC 2988, section 2).
    pub fn on_round_trip(&mut self, tcp: &Tcp, rtt: Nanos) {
        let (srtt, variation) = match self.srtt {
            None => (rtt.0, rtt.0 / 2),
            Some((srtt, variation)) => ((7 * srtt.0 + rtt.0) / 8, (3 * variation.0 + srtt.0.abs_diff(rtt.0)) / 4),
        };
        self.srtt = Some((Nanos(srtt), Nanos(variation)));
        self.rto = Nanos(srtt + 4 * variation).clamp(Nanos::from_millis(tcp.rto_min_ms), RTO_MAX);
    }

    fn on_acknowledged(&mut self, tcp: &Tcp) {
        let grown = if self.cwnd_bytes < self.ssthresh_bytes {
            tcp.mss_bytes
        } else {
            (tcp.mss_bytes * tcp.mss_bytes / self.cwnd_bytes).max(1)
        };
        // More than the advertised window would never be used.
        self.cwnd_bytes = (self.cwnd_bytes + grown).min(tcp.window_bytes.max(tcp.mss_bytes));
    }

    fn on_timeout(&mut self, tcp: &Tcp, flight_segments: u32) {
        self.ssthresh_bytes = (u64::from(flight_segments) * tcp.mss_bytes / 2).max(2 * tcp.mss_bytes);
        self.cwnd_bytes = tcp.mss_bytes;
        self.rto = Nanos(self.rto.0 * 2).min(RTO_MAX);
    }
}

/// A response between the disk and the client.
#[derive(Debug, Clone)]
pub(super) struct Transfer {
    size_bytes: u64,
    mss_bytes: u64,
    segments: u32,
    /// The bytes that the disk has delivered to the socket buffer.
    read_bytes: u64,
    /// The next segment to send, and the first unacknowledged one.
    next: u32,
    acknowledged: u32,
    /// The first segment that was never sent.
    fresh: u32,
    /// The segment being timed, and the instant at which it was sent.
    timed: Option<(u32, Nanos)>,
    /// The instant at which the timer is due; `None` if nothing is unacknowledged.
    pub deadline: Option<Nanos>,
    pub received: Receiver,
}

impl Transfer {
    pub fn new(size_bytes: u64, mss_bytes: u64) -> Transfer {
        Transfer {
            size_bytes,
            mss_bytes,
            segments: size_bytes.div_ceil(mss_bytes) as u32,
            read_bytes: 0,
            next: 0,
            acknowledged: 0,
            fresh: 0,
            timed: None,
            deadline: None,
            received: Receiver::default(),
        }
    }

    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// Bytes of a segment.
    pub fn bytes(&self, segment: u32) -> u64 {
        self.bytes_before(segment + 1) - self.bytes_before(segment)
    }

    fn bytes_before(&self, segment: u32) -> u64 {
        (u64::from(segment) * self.mss_bytes).min(self.size_bytes)
    }

    /// The bytes still to be sent to the client, including retransmissions.
    pub fn unsent_bytes(&self) -> u64 {
        self.size_bytes - self.bytes_before(self.next)
    }

    pub fn unread_bytes(&self) -> u64 {
        self.size_bytes - self.read_bytes
    }

    /// The number of segments in the socket buffer. Less than a full one remains until the rest of it has been read.
    fn buffered(&self) -> u32 {
        let whole = if self.unread_bytes() == 0 { self.segments } else { (self.read_bytes / self.mss_bytes) as u32 };
        whole.saturating_sub(self.next)
    }

    /// The number of segments that the interface may be given now.
    pub fn sendable(&self, link: &Link, tcp: &Tcp) -> u32 {
        let window = link.window_segments(tcp).saturating_sub(self.next - self.acknowledged);
        self.buffered().min(window)
    }

    /// The bytes of the next block, if the connection's buffer has nothing to send and room for it.
    pub fn readable(&self, block_bytes: u64, tcp: &Tcp) -> Option<u64> {
        let block = block_bytes.min(self.unread_bytes());
        let held = self.read_bytes - self.bytes_before(self.acknowledged).min(self.read_bytes);
        (block > 0 && self.buffered() == 0 && held + block <= tcp.send_buffer_bytes).then_some(block)
    }

    pub fn on_read(&mut self, bytes: u64) {
        self.read_bytes += bytes;
    }

    /// Gives the interface this many segments, and returns the first.
    pub fn hand_down(&mut self, segments: u32) -> u32 {
        let first = self.next;
        self.next += segments;
        first
    }

    /// The number of these segments that were sent before.
    pub fn sent_before(&self, segments: &Range<u32>) -> u64 {
        u64::from(segments.end.min(self.fresh).saturating_sub(segments.start))
    }

    /// Records that these segments have left. If no others are in flight, the timer starts.
    pub fn on_sent(&mut self, now: Nanos, segments: Range<u32>, rto: Nanos) {
        if self.timed.is_none() && segments.end > self.fresh {
            // For a retransmitted segment it would be unknown which copy was acknowledged (Karn).
            self.timed = Some((segments.start.max(self.fresh), now));
        }
        self.fresh = self.fresh.max(segments.end);
        if self.deadline.is_none() && self.acknowledged < self.next {
            self.deadline = Some(now + rto);
        }
    }

    /// Records that all segments before this one have arrived.
    pub fn on_acknowledged(&mut self, now: Nanos, segment: u32, link: &mut Link, tcp: &Tcp) {
        if segment <= self.acknowledged {
            return;
        }
        self.acknowledged = segment;
        self.next = self.next.max(segment);
        link.on_acknowledged(tcp);
        if let Some((timed, since)) = self.timed
            && timed < segment
        {
            link.on_round_trip(tcp, now - since);
            self.timed = None;
        }
        self.deadline = (self.acknowledged < self.next).then_some(now + link.rto());
        link.used_at = now;
    }

    /// Handles the timeout: all unacknowledged segments are sent again, with a window of one segment.
    pub fn on_timeout(&mut self, now: Nanos, link: &mut Link, tcp: &Tcp) {
        link.on_timeout(tcp, self.next - self.acknowledged);
        self.next = self.acknowledged;
        self.timed = None;
        self.deadline = Some(now + link.rto());
    }
}

/// The part of a response that a client has received. Segments may arrive out of order within a window.
#[derive(Debug, Clone, Default)]
pub(super) struct Receiver {
    /// All segments before this one have arrived.
    next: u32,
    /// The segments after `next` that have arrived; bit 0 is `next + 1`.
    later: u64,
}

impl Receiver {
    /// Takes a segment. If it fills a gap, returns the segment up to which all have now arrived.
    pub fn on_segment(&mut self, segment: u32) -> Option<u32> {
        let ahead = segment.checked_sub(self.next)?;
        if ahead > 0 {
            assert!(u64::from(ahead) <= WINDOW_SEGMENTS_MAX, "a segment beyond the window");
            self.later |= 1 << (ahead - 1);
            return None;
        }
        let run = self.later.trailing_ones();
        self.next += 1 + run;
        self.later = self.later.checked_shr(run + 1).unwrap_or(0);
        Some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_window_doubles_each_round_trip_up_to_the_advertised_one() {
        let tcp = Tcp::default();
        let (mut link, mut transfer) = (Link::new(&tcp, Nanos::ZERO), Transfer::new(100 * 1460, 1460));
        transfer.on_read(100 * 1460);
        let mut rounds = Vec::new();
        for _ in 0..5 {
            let count = transfer.sendable(&link, &tcp);
            let first = transfer.hand_down(count);
            rounds.push(count);
            (first..first + count).for_each(|s| transfer.on_acknowledged(Nanos(1), s + 1, &mut link, &tcp));
        }
        assert_eq!(rounds, [2, 4, 8, 12, 12]);
    }

    #[test]
    fn a_timeout_halves_and_starts_again() {
        let tcp = Tcp::default();
        let (mut link, mut transfer) = (Link::new(&tcp, Nanos::ZERO), Transfer::new(100 * 1460, 1460));
        transfer.on_read(100 * 1460);
        link.cwnd_bytes = 8 * 1460;
        assert_eq!(transfer.hand_down(8), 0);
        transfer.on_sent(Nanos(5), 0..8, link.rto());
        assert_eq!(transfer.deadline, Some(Nanos(5) + Nanos::from_secs(3)));
        transfer.on_timeout(Nanos(9), &mut link, &tcp);
        assert_eq!(
            (transfer.sendable(&link, &tcp), link.ssthresh_bytes, link.rto()),
            (1, 4 * 1460, Nanos::from_secs(6))
        );
        // Segments 1 to 7 had arrived: one acknowledgement covers all, and nothing is sent three times.
        transfer.hand_down(1);
        transfer.on_acknowledged(Nanos(20), 8, &mut link, &tcp);
        assert_eq!((transfer.next, transfer.sendable(&link, &tcp), transfer.deadline), (8, 2, None));
    }

    #[test]
    fn the_next_block_waits_for_room() {
        let tcp = Tcp::default();
        let mut link = Link::new(&tcp, Nanos::ZERO);
        link.cwnd_bytes = 17_520;
        let mut transfer = Transfer::new(60_000, 1460);
        assert_eq!(transfer.readable(16_384, &tcp), Some(16_384));
        transfer.on_read(16_384);
        assert_eq!((transfer.readable(16_384, &tcp), transfer.sendable(&link, &tcp)), (None, 11));
        transfer.hand_down(11);
        assert_eq!(transfer.readable(16_384, &tcp), Some(16_384));
        transfer.on_read(16_384);
        // 32,768 bytes are held; 12 segments may be in flight, and 11 are.
        assert_eq!((transfer.readable(16_384, &tcp), transfer.sendable(&link, &tcp)), (None, 1));
    }

    #[test]
    fn round_trips_make_the_timeout() {
        let tcp = Tcp::default();
        let mut link = Link::new(&tcp, Nanos::ZERO);
        link.on_round_trip(&tcp, Nanos::from_millis(800));
        // 800 + 4 · 400.
        assert_eq!(link.rto(), Nanos::from_millis(2400));
        (0..100).for_each(|_| link.on_round_trip(&tcp, Nanos::from_millis(800)));
        assert_eq!(link.rto(), Nanos::from_millis(1000));
    }

    proptest! {
        /// Whatever the order, all have arrived when each has arrived once, and duplicates change nothing.
        #[test]
        fn a_receiver_counts_each_segment_once(order in Just((0u32..60).collect::<Vec<_>>()).prop_shuffle()) {
            let mut receiver = Receiver::default();
            let mut upto = 0;
            for segment in order {
                upto = receiver.on_segment(segment).unwrap_or(upto);
                prop_assert_eq!(receiver.clone().on_segment(segment), None);
            }
            prop_assert_eq!(upto, 60);
        }
    }
}
