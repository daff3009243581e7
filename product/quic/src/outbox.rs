//! What was given to quinn-proto and has not left, which it does not tell: an estimate, made right whenever quinn has nothing more to make.

use quinn_proto::Connection;

use crate::endpoint::DATAGRAM_BYTES_MAX;

/// Estimates are wrong by so much at most: headers of packets, and the ACKs that share a datagram.
const SLACK_BYTES: usize = 96;
/// An ACK frame in a datagram of content pushes so much out of it, at most nearly always.
const ACK_BYTES: usize = 32;

#[derive(Debug, Default)]
pub struct Outbox {
    /// UDP payload of content that was given and not made.
    given: usize,
    /// UDP payload that was lost, so that some of it is to be made again.
    again: usize,
    is_held: bool,
    lost_bytes: u64,
    acks: u64,
}

impl Outbox {
    pub fn waiting(&self) -> usize {
        self.given + self.again
    }

    /// UDP payload of the next datagram at most, whatever quinn puts into it, where a full one has `full`.
    pub fn largest_next(&self, full: usize) -> usize {
        match self.waiting() {
            // Perhaps a probe of a larger one.
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

    /// Something came or a time has passed: what was held may go. quinn counts so many lost bytes by now.
    pub fn stir(&mut self, lost_bytes: u64) {
        self.is_held = false;
        self.again += usize::try_from(lost_bytes.saturating_sub(self.lost_bytes)).unwrap_or(usize::MAX);
        self.lost_bytes = lost_bytes;
    }

    /// Has `one` make a datagram: its UDP payload.
    pub fn make_one(
        &mut self,
        connection: &mut Connection,
        one: &mut impl FnMut(&mut Connection) -> Option<usize>,
    ) -> Option<usize> {
        let bytes = one(connection)?;
        self.make(bytes);
        Some(bytes)
    }

    /// quinn makes nothing more: either it has nothing, or it is held back. It would make a PING if it were not; held back, that leaves
    /// with what follows, and costs a byte. Gives the UDP payload of a datagram that was made.
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

    /// A datagram was made.
    fn make(&mut self, bytes: usize) {
        let again = bytes.min(self.again);
        self.again -= again;
        self.given = self.given.saturating_sub(bytes - again);
    }

    /// quinn would make nothing more; true: it may be held back, and not empty.
    fn is_doubtful(&mut self) -> bool {
        self.again = 0;
        self.given > SLACK_BYTES
    }

    pub fn empty(&mut self) {
        (self.given, self.again, self.is_held) = (0, 0, false);
    }

    /// So many ACK frames were sent by now.
    pub fn on_acks(&mut self, acks: u64) {
        let new = usize::try_from(acks.saturating_sub(self.acks)).unwrap_or(0);
        self.acks = acks;
        if self.given > 0 {
            self.given += new * ACK_BYTES;
        }
    }
}
