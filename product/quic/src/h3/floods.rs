//! Limits on frames that cost more to receive than to send: the rates of HTTP/2 (`http2::floods`), applied to frames of
//! HTTP/3 and of QUIC.

use std::net::SocketAddr;

use http2::floods::{BYTES_PER_UPDATE, Bucket, CONTROL, DATA_BYTES_MIN, Flood, PATHS, PROVOKED, RESETS, UPDATES};
use quinn_proto::ConnectionStats;
use units::Nanos;

/// The budgets of a client.
#[derive(Debug, Default)]
pub struct Budget {
    control: Bucket,
    resets: Bucket,
    provoked: Bucket,
    updates: Bucket,
    paths: Bucket,
    /// The number of QUIC frames counted so far, and the bytes for which updates were credited.
    control_frames: u64,
    update_frames: u64,
    challenges: u64,
    sent_bytes: u64,
    /// The client's address at the last check.
    peer: Option<SocketAddr>,
}

impl Budget {
    /// Counts the frames in QUIC's statistics, limited as HTTP/2's frames are.
    pub fn on_stats(&mut self, now: Nanos, stats: &ConnectionStats) -> Result<(), Flood> {
        let came = &stats.frame_rx;
        let control = came.ping
            + came.new_connection_id
            + came.retire_connection_id
            + came.reset_stream
            + came.stop_sending
            + came.data_blocked
            + came.stream_data_blocked
            + came.streams_blocked_bidi
            + came.streams_blocked_uni;
        let updates = came.max_data + came.max_stream_data + came.max_streams_bidi + came.max_streams_uni;
        self.updates.give_back((stats.udp_tx.bytes - self.sent_bytes) / BYTES_PER_UPDATE);
        self.sent_bytes = stats.udp_tx.bytes - stats.udp_tx.bytes % BYTES_PER_UPDATE;
        // A datagram has at most as many frames as bytes.
        for _ in std::mem::replace(&mut self.control_frames, control)..control {
            self.on_control(now)?;
        }
        for _ in std::mem::replace(&mut self.update_frames, updates)..updates {
            if !self.updates.take(now, UPDATES) {
                return Err(Flood::Updates);
            }
        }
        for _ in std::mem::replace(&mut self.challenges, came.path_challenge)..came.path_challenge {
            self.on_path(now)?;
        }
        Ok(())
    }

    /// Checks the client's current address. If it has changed, QUIC immediately sends a datagram to validate it,
    /// bypassing the order.
    pub fn on_peer(&mut self, now: Nanos, peer: SocketAddr) -> Result<(), Flood> {
        let before = self.peer.replace(peer);
        if before.is_some_and(|before| before != peer) { self.on_path(now) } else { Ok(()) }
    }

    fn on_path(&mut self, now: Nanos) -> Result<(), Flood> {
        if self.paths.take(now, PATHS) { Ok(()) } else { Err(Flood::Paths) }
    }

    /// Counts a frame that requires an action or is useless.
    pub fn on_control(&mut self, now: Nanos) -> Result<(), Flood> {
        if self.control.take(now, CONTROL) { Ok(()) } else { Err(Flood::Control) }
    }

    /// Counts a DATA frame of this size.
    pub fn on_data(&mut self, now: Nanos, bytes: u64) -> Result<(), Flood> {
        if bytes >= DATA_BYTES_MIN.into() { Ok(()) } else { self.on_control(now) }
    }

    /// Counts a stream that the client has cancelled.
    pub fn on_reset(&mut self, now: Nanos) -> Result<(), Flood> {
        if self.resets.take(now, RESETS) { Ok(()) } else { Err(Flood::Resets) }
    }

    /// Counts a stream that was reset because of a mistake of its client.
    pub fn on_provoked(&mut self, now: Nanos) -> Result<(), Flood> {
        if self.provoked.take(now, PROVOKED) { Ok(()) } else { Err(Flood::Provoked) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_quic_have_their_bounds() {
        let after = |ping: u64, max_data: u64, bytes: u64| {
            let mut stats = ConnectionStats::default();
            stats.frame_rx.ping = ping;
            stats.frame_rx.path_challenge = 16;
            stats.frame_rx.max_data = max_data;
            stats.udp_tx.bytes = bytes;
            let mut budget = Budget::default();
            // Each frame is counted only once.
            budget.on_stats(Nanos(0), &stats).and_then(|()| budget.on_stats(Nanos(0), &stats))
        };
        assert_eq!(after(1000, 0, 0), Ok(()));
        assert_eq!(after(1001, 0, 0), Err(Flood::Control));
        assert_eq!(after(0, 1000, 0), Ok(()));
        assert_eq!(after(0, 1001, 0), Err(Flood::Updates));
        let mut stats = ConnectionStats::default();
        stats.frame_rx.path_challenge = 17;
        assert_eq!(Budget::default().on_stats(Nanos(0), &stats), Err(Flood::Paths));
        let mut budget = Budget::default();
        for round in 1..100 {
            let mut stats = ConnectionStats::default();
            stats.frame_rx.max_stream_data = 100 * round;
            stats.udp_tx.bytes = 25_600 * round;
            budget.on_stats(Nanos(0), &stats).unwrap();
        }
    }

    fn passing(mut take: impl FnMut(&mut Budget) -> Result<(), Flood>) -> (usize, Flood) {
        let mut budget = Budget::default();
        let mut count = 0;
        loop {
            if let Err(flood) = take(&mut budget) {
                return (count, flood);
            }
            count += 1;
        }
    }

    #[test]
    fn each_flood_has_its_bound() {
        assert_eq!(passing(|budget| budget.on_control(Nanos(0))), (1000, Flood::Control));
        assert_eq!(passing(|budget| budget.on_data(Nanos(0), 63)), (1000, Flood::Control));
        assert_eq!(passing(|budget| budget.on_reset(Nanos(0))), (200, Flood::Resets));
        assert_eq!(passing(|budget| budget.on_provoked(Nanos(0))), (100, Flood::Provoked));
        let mut budget = Budget::default();
        (0..10_000).for_each(|_| budget.on_data(Nanos(0), 64).unwrap());
    }
}
