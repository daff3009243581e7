//! What is left of a turn's budget: for the connection being read, for handshakes, and for the events with which the
//! turn began.

use crate::send::BYTES_PER_TURN_MAX;

/// The maximum number of requests of one connection that are answered per turn: a fraction of a millisecond's work.
const REQUESTS_PER_TURN_MAX: u32 = 64;
/// The maximum number of reads of one connection per turn. A connection that fills the buffer each time has more to
/// send than others, so the others come first.
const RECEIVES_PER_TURN_MAX: u32 = 4;
/// The maximum number of reads of handshaking connections per turn. A signature takes 20 us to 1 ms.
pub(super) const HANDSHAKES_PER_TURN_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Budget {
    requests: u32,
    bytes: u64,
    receives: u32,
    handshakes: usize,
    /// QUIC connections started in this turn. They are counted separately, because their clients may use forged
    /// addresses and must not delay handshakes over TCP.
    quic_handshakes: usize,
    /// Events and newcomers of this turn that have not been handled yet and may cause responses.
    pub to_come: usize,
}

impl Budget {
    pub fn begin_turn(&mut self) {
        (self.handshakes, self.quic_handshakes) = (0, 0);
    }

    /// Resets the limits for the next connection.
    pub fn begin_connection(&mut self) {
        (self.requests, self.bytes, self.receives) = (REQUESTS_PER_TURN_MAX, BYTES_PER_TURN_MAX, RECEIVES_PER_TURN_MAX);
    }

    /// Returns true if no more requests of the connection are answered in this turn.
    pub fn is_spent(&self) -> bool {
        self.requests == 0 || self.bytes == 0
    }

    /// Returns true if the connection is not read again in this turn.
    pub fn is_read_enough(&self) -> bool {
        self.is_spent() || self.receives == 0
    }

    pub fn on_receive(&mut self) {
        self.receives -= 1;
    }

    pub fn on_request(&mut self) {
        self.requests = self.requests.saturating_sub(1);
    }

    pub fn on_sent(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub fn on_handshake(&mut self) {
        self.handshakes += 1;
    }

    pub fn has_handshake_left(&self) -> bool {
        self.handshakes < HANDSHAKES_PER_TURN_MAX
    }

    pub fn on_quic_handshake(&mut self) {
        self.quic_handshakes += 1;
    }

    /// Returns whether there is time for another QUIC handshake, which takes as long as one over TCP.
    pub fn has_quic_handshake_left(&self) -> bool {
        self.quic_handshakes < HANDSHAKES_PER_TURN_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_its_share_of_requests_bytes_and_reads() {
        let mut budget = Budget::default();
        budget.begin_connection();
        (1..REQUESTS_PER_TURN_MAX).for_each(|_| budget.on_request());
        assert!(!budget.is_spent());
        budget.on_request();
        budget.on_request();
        assert!(budget.is_spent() && budget.is_read_enough());
        budget.begin_connection();
        budget.on_sent(BYTES_PER_TURN_MAX - 1);
        assert!(!budget.is_spent());
        budget.on_sent(1 << 30);
        assert!(budget.is_spent());
        budget.begin_connection();
        (0..RECEIVES_PER_TURN_MAX).for_each(|_| budget.on_receive());
        assert!(!budget.is_spent() && budget.is_read_enough());
    }

    #[test]
    fn a_turn_has_so_many_handshakes_whatever_connections_are_read() {
        let mut budget = Budget::default();
        budget.begin_turn();
        (0..HANDSHAKES_PER_TURN_MAX).for_each(|_| {
            assert!(budget.has_handshake_left());
            budget.begin_connection();
            budget.on_handshake();
        });
        assert!(!budget.has_handshake_left());
        budget.begin_turn();
        assert!(budget.has_handshake_left());
    }
}
