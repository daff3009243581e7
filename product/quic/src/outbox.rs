//! Estimates the bytes that were passed to quinn-proto and have not been sent, because quinn does not report them. The
//! estimate is corrected whenever quinn makes no more datagrams.

use quinn_proto::Connection;

use crate::endpoint::DATAGRAM_BYTES_MAX;

/// The maximum error of an estimate: packet headers, and ACKs that share a datagram.
const SLACK_BYTES: usize = 96;
/// Bytes of content that an ACK frame displaces from a datagram; nearly always an upper bound.
const ACK_BYTES: usize = 32;

#[derive(Debug, Default)]
pub struct Outbox {
    /// The UDP payload of content that was passed to quinn and not yet made into datagrams.
    given: usize,
    /// UDP payload that was lost and may have to be retransmitted.
    again: usize,
    is_held: bool,
    lost_bytes: u64,
    acks: u64,
}

impl Outbox {
    pub fn waiting(&self) -> usize {
        self.given + self.again
    }

    /// Returns the maximum UDP payload of the next datagram, whatever its content. `full` is the payload of a full
    /// datagram.
    pub fn largest_next(&self, full: usize) -> usize {
        match self.waiting() {
            // It may be a probe for a larger datagram.
            0 => DATAGRAM_BYTES_MAX.into(),
            waiting => waiting.min(full),
        }
    }

    pub fn is_held(&self) -> bool {
        self.is_held
    }

    pub fn give(&mut self, bytes: usize) {
        self.given += bytes;
    }

    /// Releases held content after a datagram arrived or a timer fired. `lost_bytes` is quinn's total of lost bytes.
    pub fn stir(&mut self, lost_bytes: u64) {
        self.is_held = false;
        self.again += usize::try_from(lost_bytes.saturating_sub(self.lost_bytes)).unwrap_or(usize::MAX);
        self.lost_bytes = lost_bytes;
    }

    /// Makes a datagram with `one`. Returns its UDP payload.
    pub fn make_one(
        &mut self,
        connection: &mut Connection,
        one: &mut impl FnMut(&mut Connection) -> Option<usize>,
    ) -> Option<usize> {
        let bytes = one(connection)?;
        self.make(bytes);
        Some(bytes)
    }

    /// Finds out why quinn makes no more datagrams: it is either empty or held back by the congestion window or the
    /// pacer. The function requests a PING, which quinn makes unless it is held back; in that case the PING leaves
    /// later with other frames and costs a byte. Returns the UDP payload of a datagram that was made.
    pub fn resolve(
        &mut self,
        connection: &mut Connection,
        one: &mut impl FnMut(&mut Connection) -> Option<usize>,
    ) -> Option<usize> {
        if !self.is_doubtful() || connection.is_closed() {
            self.empty();
            return None;
        }
        connection.ping();
        let made = self.make_one(connection, one);
        if made.is_some() {
            self.empty();
        } else {
            self.is_held = true;
        }
        made
    }

    /// Records that a datagram was made.
    fn make(&mut self, bytes: usize) {
        let again = bytes.min(self.again);
        self.again -= again;
        self.given = self.given.saturating_sub(bytes - again);
    }

    /// Records that quinn makes nothing more. Returns true if it may be held back rather than empty.
    fn is_doubtful(&mut self) -> bool {
        self.again = 0;
        self.given > SLACK_BYTES
    }

    pub fn empty(&mut self) {
        (self.given, self.again, self.is_held) = (0, 0, false);
    }

    /// Adds the space that new ACK frames take; `acks` is the total sent.
    pub fn on_acks(&mut self, acks: u64) {
        let new = usize::try_from(acks.saturating_sub(self.acks)).unwrap_or(0);
        self.acks = acks;
        if self.given > 0 {
            self.given += new * ACK_BYTES;
        }
    }
}
