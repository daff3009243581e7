//! A connection's account with the link: the bytes charged for it, compared with the bytes that TCP reports it sent.
//!
//! Bytes are charged when they are handed down, because the next decision needs them immediately. Only later is it
//! known how many bytes TCP kept in the socket because its window was full, retransmitted, or added as
//! acknowledgements. So the account keeps one number, bytes charged minus bytes sent, and each reading of TCP's own
//! counters brings it to zero. Nothing is charged twice and nothing is forgotten, whatever happened to the response:
//! after the last reading, charged equals sent.

use units::wire::Framing;

use crate::scheduler::job::Packed;

/// TCP's own count of the bytes sent on a connection, including retransmissions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpSent {
    /// Payload bytes.
    pub payload_bytes: u64,
    /// Segments with and without payload, except the SYN-ACK. Wraps.
    pub segments: u32,
}

/// A correction for the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Correction {
    /// Wire bytes that were sent and not charged yet.
    pub charge_bytes: u64,
    /// Wire bytes that were charged and not sent yet.
    pub refund_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    framing: Packed,
    sent: TcpSent,
    /// Wire bytes charged minus wire bytes sent.
    balance: i64,
}

impl Account {
    /// Makes the account of a connection that has sent its SYN-ACK.
    pub fn new(framing: Framing) -> Account {
        Account { framing: framing.into(), sent: TcpSent::default(), balance: -(framing.syn_ack_bytes as i64) }
    }

    pub fn framing(&self) -> Framing {
        self.framing.into()
    }

    /// Returns whether TCP's counters have been read before.
    pub fn is_settled(&self) -> bool {
        self.sent.segments > 0
    }

    /// Records that these wire bytes were charged to the link.
    pub fn on_charged(&mut self, wire_bytes: u64) {
        self.balance += wire_bytes as i64;
    }

    /// Settles the account with TCP's counters: returns the correction for the ledger and leaves a balance of zero.
    pub fn settle(&mut self, sent: TcpSent) -> Correction {
        self.look(sent);
        self.correct()
    }

    /// Charges payload, and segments without payload, that will be sent later, when the counters may no longer be
    /// readable. Returns the wire bytes that the caller must charge now; a later reading does not charge them again.
    pub fn foresee(&mut self, payload_bytes: u64, bare_segments: u64) -> u64 {
        let wire_bytes = self.foreseen_bytes(payload_bytes, bare_segments);
        self.balance += wire_bytes as i64;
        wire_bytes
    }

    /// Closes the account of a connection. TCP has sent `sent`, and will still send this payload and these segments
    /// without payload, when its counters can no longer be read. Returns the final correction.
    pub fn close(mut self, sent: TcpSent, payload_bytes: u64, bare_segments: u64) -> Correction {
        self.look(sent);
        self.balance -= self.foreseen_bytes(payload_bytes, bare_segments) as i64;
        self.correct()
    }

    fn foreseen_bytes(&self, payload_bytes: u64, bare_segments: u64) -> u64 {
        self.framing().wire_bytes(payload_bytes) + bare_segments * self.framing().header_bytes
    }

    fn look(&mut self, sent: TcpSent) {
        let payload = sent.payload_bytes.saturating_sub(self.sent.payload_bytes);
        let segments = u64::from(sent.segments.wrapping_sub(self.sent.segments));
        self.balance -= (payload + segments * self.framing().header_bytes) as i64;
        self.sent = sent;
    }

    fn correct(&mut self) -> Correction {
        Correction::of_balance(std::mem::take(&mut self.balance))
    }
}

impl Correction {
    /// Returns the correction for a balance: wire bytes charged minus wire bytes sent.
    pub fn of_balance(balance: i64) -> Correction {
        match u64::try_from(balance) {
            Ok(refund_bytes) => Correction { charge_bytes: 0, refund_bytes },
            Err(_) => Correction { charge_bytes: balance.unsigned_abs(), refund_bytes: 0 },
        }
    }

    /// Wire bytes charged minus wire bytes sent.
    pub fn balance(&self) -> i64 {
        self.refund_bytes as i64 - self.charge_bytes as i64
    }
}

impl Default for Account {
    fn default() -> Account {
        Account::new(Framing::ETHERNET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: u64 = 66;

    #[test]
    fn a_look_finds_the_handshake_and_what_was_sent_again() {
        let mut account = Account::default();
        assert_eq!(account.settle(TcpSent { payload_bytes: 0, segments: 1 }).charge_bytes, 74 + HEADER);
        account.on_charged(1448 + HEADER);
        let again = TcpSent { payload_bytes: 2 * 1448, segments: 3 };
        assert_eq!(account.settle(again), Correction { charge_bytes: 1448 + HEADER, refund_bytes: 0 });
        assert_eq!(account.settle(again), Correction::default());
    }

    #[test]
    fn what_tcp_keeps_is_given_back_and_charged_when_it_leaves() {
        let mut account = Account::default();
        let _ = account.settle(TcpSent::default());
        account.on_charged(2 * (1448 + HEADER));
        let half = TcpSent { payload_bytes: 1448, segments: 1 };
        assert_eq!(account.settle(half), Correction { charge_bytes: 0, refund_bytes: 1448 + HEADER });
        let all = TcpSent { payload_bytes: 2 * 1448, segments: 2 };
        assert_eq!(account.settle(all).charge_bytes, 1448 + HEADER);
    }

    #[test]
    fn what_is_foreseen_is_charged_once() {
        let mut account = Account::default();
        let _ = account.settle(TcpSent::default());
        assert_eq!(account.foresee(1449, 1), 1449 + 3 * HEADER);
        assert_eq!(account.settle(TcpSent { payload_bytes: 1449, segments: 3 }), Correction::default());
    }

    /// The acknowledgement of a FIN is never sent to a client that resets.
    #[test]
    fn what_was_foreseen_and_never_came_is_given_back_at_the_end() {
        let mut account = Account::default();
        let sent = TcpSent { payload_bytes: 1000, segments: 1 };
        let _ = account.settle(sent);
        account.foresee(0, 1);
        assert_eq!(account.close(sent, 0, 0), Correction { charge_bytes: 0, refund_bytes: HEADER });
        assert_eq!(account.close(sent, 0, 1), Correction::default());
        let again = TcpSent { payload_bytes: 2000, segments: 2 };
        assert_eq!(account.close(again, 100, 1).charge_bytes, 1000 + HEADER + 100 + HEADER);
    }

    #[test]
    fn the_count_of_segments_may_wrap() {
        let mut account = Account::default();
        let _ = account.settle(TcpSent { payload_bytes: 0, segments: u32::MAX });
        assert_eq!(account.settle(TcpSent { payload_bytes: 0, segments: 1 }).charge_bytes, 2 * HEADER);
    }

    #[test]
    fn a_connection_keeps_its_framing() {
        let framing = Framing::new(1428, true, true);
        assert_eq!(Account::new(framing).framing(), framing);
    }

    proptest! {
        /// After the last reading the total charged is the total sent, whatever was charged and whenever the counters
        /// were read.
        #[test]
        fn charged_is_sent(steps in prop::collection::vec((0u64..20_000, 0u64..20_000, 0u32..20, 0u8..3), 1..40)) {
            let framing = Framing::new(1428, true, true);
            let mut account = Account::new(framing);
            let (mut sent, mut ledger) = (TcpSent::default(), 0i64);
            let book = |correction: Correction| correction.charge_bytes as i64 - correction.refund_bytes as i64;
            for (charged, payload, segments, look) in steps {
                account.on_charged(charged);
                ledger += charged as i64;
                sent = TcpSent { payload_bytes: sent.payload_bytes + payload, segments: sent.segments + segments };
                match look {
                    0 => {}
                    1 => ledger += book(account.settle(sent)),
                    _ => ledger += account.foresee(payload, u64::from(segments)) as i64,
                }
            }
            ledger += book(account.settle(sent));
            let wire = sent.payload_bytes + u64::from(sent.segments) * framing.header_bytes + framing.syn_ack_bytes;
            prop_assert_eq!(ledger, wire as i64);
        }
    }
}
