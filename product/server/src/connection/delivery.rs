//! Records the bytes handed down on a connection and what TCP reports about them. The caller queries the kernel,
//! because that costs a system call.

use sched::line::{Look, Looks, Seen};
use sched::{Account, Correction, TcpSent};
use units::Nanos;
use units::wire::Framing;

use crate::net::Status;

/// The payload received before TCP is queried for its acknowledgements. They take 1.5 KB if TCP acknowledges every
/// second segment.
const UNSEEN_BYTES_MAX: u32 = 64 << 10;

/// The charge to the link for acknowledging data from a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// An acknowledgement of this many wire bytes must be charged; 0 if a response may carry it.
    Charge(u64),
    /// TCP must be queried; the result contains the charge.
    Look,
}

pub struct Delivery {
    /// Payload handed down, of all responses.
    sent_bytes: u64,
    /// The low 32 bits of `sent_bytes` at the last call of `newly_sent_bytes`.
    told_bytes: u32,
    /// Payload received since the last report.
    unseen_bytes: u32,
    /// True if payload was received, and nothing that could carry its acknowledgement has been handed down since.
    is_unanswered: bool,
    /// True if the socket has taken only part of a write since the connection was last known to be fully acknowledged.
    pub was_full: bool,
    /// The band that the policy gives to the connection's packets; `None` while they have the mark inherited from the
    /// listening socket.
    pub band: Option<u8>,
    /// The connection's place in the list of connections with unacknowledged bytes.
    pub listed: Listed,
    /// The bytes that were charged to the link.
    account: Account,
    looks: Looks,
}

impl Delivery {
    /// Creates the record of a connection on which nothing has been handed down and for which TCP has not been queried.
    pub fn new(framing: Framing) -> Delivery {
        let (account, looks) = (Account::new(framing), Looks::default());
        Delivery {
            sent_bytes: 0,
            told_bytes: 0,
            unseen_bytes: 0,
            is_unanswered: false,
            was_full: false,
            band: None,
            listed: Listed::default(),
            account,
            looks,
        }
    }

    /// The way in which the connection cuts its payload into segments.
    pub fn framing(&self) -> Framing {
        self.account.framing()
    }

    /// Payload handed down so far.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Returns true once TCP has reported how many bytes it has sent.
    pub fn is_known(&self) -> bool {
        self.account.is_settled()
    }

    /// Records payload that was handed down and charged to the link. Returns the wire bytes in segments of this
    /// connection.
    pub fn on_sent(&mut self, payload_bytes: u64) -> u64 {
        let wire_bytes = self.framing().wire_bytes(payload_bytes);
        self.sent_bytes += payload_bytes;
        self.is_unanswered = false;
        self.account.on_charged(wire_bytes);
        wire_bytes
    }

    /// Records received payload, and returns the charge that is due now. TCP acknowledges data without a response in
    /// separate packets. When those acknowledgements were charged only at the end of a whole upload, they once held up
    /// every response for four seconds.
    pub fn on_received(&mut self, payload_bytes: usize) -> Acknowledged {
        let payload_bytes = u32::try_from(payload_bytes).unwrap_or(u32::MAX);
        self.unseen_bytes = self.unseen_bytes.saturating_add(payload_bytes);
        if self.unseen_bytes >= UNSEEN_BYTES_MAX {
            return Acknowledged::Look;
        }
        let was_unanswered = std::mem::replace(&mut self.is_unanswered, true);
        let wire_bytes = if was_unanswered { self.framing().header_bytes } else { 0 };
        self.account.on_charged(wire_bytes);
        Acknowledged::Charge(wire_bytes)
    }

    /// Payload handed down since the last call, less than 4 GiB.
    pub fn newly_sent_bytes(&mut self) -> u64 {
        let sent_bytes = self.sent_bytes as u32;
        sent_bytes.wrapping_sub(std::mem::replace(&mut self.told_bytes, sent_bytes)).into()
    }

    /// Compares the charged bytes with the bytes that TCP has sent. Returns the correction, and the evidence about the
    /// line.
    pub fn settle(&mut self, now: Nanos, status: &Status) -> (Correction, Look) {
        let sent = self.sent(status);
        (self.account.settle(sent), self.look(now, status))
    }

    /// Returns the wire bytes that TCP still has to send, including the acknowledgement of the client's FIN if the
    /// connection ends here. Called after [`Delivery::settle`] if TCP may not be queried again.
    pub fn foresee(&mut self, status: &Status, ends_connection: bool) -> u64 {
        self.account.foresee(status.unsent_bytes, ends_connection.into())
    }

    /// Settles the account at the end of the connection, including the wire bytes of the closing segments.
    pub fn close(&mut self, now: Nanos, status: &Status) -> (Correction, Look) {
        // An ended connection holds no bytes: a reset discards the unsent ones.
        let payload_bytes = if status.closing_segments > 0 { status.unsent_bytes } else { 0 };
        let sent = self.sent(status);
        let correction = self.account.close(sent, payload_bytes, status.closing_segments.into());
        (correction, self.look(now, status))
    }

    /// Returns what changed since the last look, so that each acknowledged byte is reported once over all responses.
    /// Foreseen bytes stay charged.
    pub fn look(&mut self, now: Nanos, status: &Status) -> Look {
        let Status { acked_bytes, sacked_bytes, acked_ago, retransmitted_bytes, shut_for, .. } = *status;
        // A kernel that does not count the bytes it sent reports at least the acknowledged ones.
        let sent_bytes = status.sent.map_or(acked_bytes, |sent| sent.payload_bytes.saturating_sub(retransmitted_bytes));
        let rtt = status.path.rtt.map(|rtt| status.least_rtt.map_or(rtt, |least| rtt.min(least)));
        // Bytes that the client itself lost are not losses of the line.
        let retransmitted_bytes = retransmitted_bytes.saturating_sub(status.own_lost_bytes);
        let seen = Seen {
            rtt,
            acked_bytes,
            sacked_bytes,
            acked_ago,
            sent_bytes,
            retransmitted_bytes,
            shut_for,
            is_by_program: status.least_rtt.is_some(),
        };
        self.looks.look(now, &seen, self.account.framing())
    }

    /// Returns the payload and segments that TCP has sent. If the kernel does not count them, all bytes that were
    /// handed down and are not waiting unsent count as sent.
    fn sent(&mut self, status: &Status) -> TcpSent {
        (self.unseen_bytes, self.is_unanswered) = (0, false);
        status.sent.unwrap_or_else(|| {
            let payload_bytes = self.sent_bytes - status.unsent_bytes.min(self.sent_bytes);
            let segments = payload_bytes.div_ceil(self.framing().segment_bytes) as u32;
            TcpSent { payload_bytes, segments }
        })
    }
}

/// A connection's index in the list of connections with unacknowledged bytes, if it is in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed(u32);

impl Default for Listed {
    fn default() -> Listed {
        Listed::NOWHERE
    }
}

impl Listed {
    pub const NOWHERE: Listed = Listed(u32::MAX);

    /// Returns the entry for this index.
    pub fn place(index: usize) -> Listed {
        Listed(index as u32)
    }

    pub fn at(self) -> Option<usize> {
        (self != Listed::NOWHERE).then_some(self.0 as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1_448;
    const HEADER: u64 = 66;

    fn delivery() -> Delivery {
        Delivery::new(Framing::ETHERNET)
    }

    /// Bytes that were taken and do not wait unsent have left.
    #[test]
    fn where_the_kernel_does_not_count_what_was_taken_was_sent() {
        let mut delivery = delivery();
        let settle = |delivery: &mut Delivery, unsent_bytes| {
            delivery.settle(Nanos::ZERO, &Status { unsent_bytes, ..Status::default() }).0
        };
        let _ = settle(&mut delivery, 0);
        delivery.on_sent(3 * SEGMENT);
        assert_eq!(settle(&mut delivery, SEGMENT).refund_bytes, SEGMENT + HEADER);
        assert_eq!(settle(&mut delivery, 0).charge_bytes, SEGMENT + HEADER);
    }

    /// The last bytes are charged once, whether foreseen or looked up; a reset discards what was not sent.
    #[test]
    fn what_tcp_keeps_is_charged_once() {
        let sent = |bytes: u64, unsent_bytes, closing_segments| Status {
            sent: Some(TcpSent { payload_bytes: bytes, segments: bytes.div_ceil(SEGMENT) as u32 }),
            unsent_bytes,
            closing_segments,
            ..Status::default()
        };
        let kept = || {
            let mut delivery = delivery();
            let _ = delivery.settle(Nanos::ZERO, &sent(0, 0, 0));
            assert_eq!(delivery.on_sent(3 * SEGMENT), 3 * (SEGMENT + HEADER));
            delivery
        };
        let mut foreseen = kept();
        let (correction, _) = foreseen.settle(Nanos::ZERO, &sent(2 * SEGMENT, SEGMENT, 0));
        assert_eq!(correction.refund_bytes, SEGMENT + HEADER);
        assert_eq!(foreseen.foresee(&sent(2 * SEGMENT, SEGMENT, 0), true), SEGMENT + 2 * HEADER);
        let refunds = [0, 1].map(|closing| kept().close(Nanos::ZERO, &sent(2 * SEGMENT, SEGMENT, closing)).0.balance());
        assert_eq!(refunds, [(SEGMENT + HEADER) as i64, -(HEADER as i64)]);
    }

    /// The first part may be a request, whose response carries the acknowledgement.
    #[test]
    fn each_part_that_no_response_answers_is_charged_for_an_acknowledgement() {
        let mut delivery = delivery();
        let _ = delivery.settle(Nanos::ZERO, &Status::default());
        let charged = [70, 70, 70].map(|bytes| delivery.on_received(bytes));
        assert_eq!(charged, [0, HEADER, HEADER].map(Acknowledged::Charge));
        delivery.on_sent(SEGMENT);
        assert_eq!(delivery.on_received(70), Acknowledged::Charge(0));
        // Three parts had one each, and the fourth has none yet.
        let sent = Some(TcpSent { payload_bytes: SEGMENT, segments: 4 });
        let (correction, _) = delivery.settle(Nanos::ZERO, &Status { sent, ..Status::default() });
        assert_eq!(correction.charge_bytes, HEADER);
        for _ in 0..2 {
            assert_eq!(delivery.on_received(60 << 10), Acknowledged::Charge(0));
            assert_eq!(
                [usize::MAX, 1].map(|bytes| delivery.on_received(bytes)),
                [Acknowledged::Look, Acknowledged::Look]
            );
            let _ = delivery.settle(Nanos::ZERO, &Status { sent, ..Status::default() });
        }
    }
}
