use std::collections::VecDeque;

use units::Nanos;

use super::Acked;

/// A segment that was sent and is not known to have arrived with all before it.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub start: u64,
    pub end: u64,
    pub sent_at: Nanos,
    is_sacked: bool,
    /// The segment counts as lost and has not been retransmitted yet.
    is_lost: bool,
    pub was_resent: bool,
}

/// The outstanding segments, oldest first.
#[derive(Debug, Default)]
pub struct Scoreboard {
    sent: VecDeque<Sent>,
    sacked: u32,
    lost: u32,
    /// No segment before this position is lost.
    lost_from: usize,
    /// The instant at which the newest segment that has arrived was sent.
    delivered_sent_at: Nanos,
}

/// The number of later segments that show a loss (RFC 6675 section 2).
const DUP_THRESH: u32 = 3;

/// The changes caused by one acknowledgement.
#[derive(Debug, Default)]
pub struct Delivered {
    /// The number of segments newly known to have arrived.
    pub segments: u32,
    /// The instant at which the newest of them was sent that was sent only once, for a sample of the round trip (Karn's
    /// rule).
    pub sampled: Option<Nanos>,
    /// The number of segments that newly count as lost.
    pub lost: u32,
}

impl Scoreboard {
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// The number of segments not yet acknowledged in order.
    pub fn len(&self) -> u32 {
        self.sent.len() as u32
    }

    /// The number of segments that may still be in the network (`pipe` in RFC 6675).
    pub fn in_flight(&self) -> u32 {
        self.len() - self.sacked - self.lost
    }

    /// The number of segments that the receiver has selectively acknowledged.
    pub fn sacked(&self) -> u32 {
        self.sacked
    }

    pub fn oldest_sent_at(&self) -> Option<Nanos> {
        self.sent.front().map(|sent| sent.sent_at)
    }

    pub fn has_holes(&self) -> bool {
        self.sacked > 0 || self.lost > 0
    }

    pub fn push(&mut self, start: u64, end: u64, now: Nanos) {
        self.sent.push_back(Sent { start, end, sent_at: now, is_sacked: false, is_lost: false, was_resent: false });
    }

    /// Processes an acknowledgement. `reordering` is the minimum time between the sending of a retransmitted segment
    /// and of a later segment whose arrival shows that the retransmission is lost too.
    pub fn on_ack(&mut self, acked: Acked, reordering: Nanos) -> Delivered {
        let mut delivered = Delivered::default();
        while let Some(first) = self.sent.front().filter(|first| first.end <= acked.upto).copied() {
            self.sent.pop_front();
            self.lost_from = self.lost_from.saturating_sub(1);
            self.sacked -= u32::from(first.is_sacked);
            self.lost -= u32::from(first.is_lost);
            if !first.is_sacked {
                self.deliver(first, &mut delivered);
            }
        }
        if acked.block.1 > 0 {
            self.sack(acked.upto + u64::from(acked.block.0), acked.upto + u64::from(acked.block.1), &mut delivered);
            delivered.lost = self.mark_lost(reordering);
        }
        delivered
    }

    fn deliver(&mut self, sent: Sent, delivered: &mut Delivered) {
        delivered.segments += 1;
        self.delivered_sent_at = self.delivered_sent_at.max(sent.sent_at);
        if !sent.was_resent {
            delivered.sampled = delivered.sampled.max(Some(sent.sent_at));
        }
    }

    fn sack(&mut self, start: u64, end: u64, delivered: &mut Delivered) {
        let from = self.sent.partition_point(|sent| sent.start < start);
        for at in from..self.sent.len() {
            let sent = self.sent[at];
            if sent.end > end {
                break;
            }
            if !sent.is_sacked {
                self.sent[at].is_sacked = true;
                self.sent[at].is_lost = false;
                self.sacked += 1;
                self.lost -= u32::from(sent.is_lost);
                self.deliver(sent, delivered);
            }
        }
    }

    fn mark_lost(&mut self, reordering: Nanos) -> u32 {
        let (mut above, mut marked) = (self.sacked, 0);
        for (at, sent) in self.sent.iter_mut().enumerate() {
            if above < DUP_THRESH {
                break;
            }
            if sent.is_sacked {
                above -= 1;
            } else if !sent.is_lost && (!sent.was_resent || sent.sent_at + reordering < self.delivered_sent_at) {
                sent.is_lost = true;
                marked += 1;
                self.lost_from = self.lost_from.min(at);
            }
        }
        self.lost += marked;
        marked
    }

    /// Handles a timeout: all outstanding segments count as lost.
    pub fn lose_all(&mut self) {
        for sent in self.sent.iter_mut().filter(|sent| !sent.is_sacked) {
            sent.is_lost = true;
        }
        self.lost = self.len() - self.sacked;
        self.lost_from = 0;
    }

    /// Undoes a false alarm: no segment counts as lost.
    pub fn lose_none(&mut self) {
        self.sent.iter_mut().for_each(|sent| sent.is_lost = false);
        self.lost = 0;
    }

    /// Returns the oldest segment to be retransmitted.
    pub fn first_lost(&mut self) -> Option<Sent> {
        if self.lost == 0 {
            return None;
        }
        while !self.sent[self.lost_from].is_lost {
            self.lost_from += 1;
        }
        Some(self.sent[self.lost_from])
    }

    /// Records that the segment of [`Scoreboard::first_lost`] was retransmitted.
    pub fn resend(&mut self, now: Nanos) {
        let sent = &mut self.sent[self.lost_from];
        (sent.is_lost, sent.was_resent, sent.sent_at) = (false, true, now);
        self.lost -= 1;
    }

    /// Retransmits the newest segment as a probe.
    pub fn probe(&mut self) -> Option<Sent> {
        let last = self.sent.back_mut()?;
        last.was_resent = true;
        Some(*last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        (0..segments).for_each(|n| board.push(n * 100, n * 100 + 100, Nanos(n)));
        board
    }

    fn ack(upto: u64, start: u32, end: u32) -> Acked {
        Acked { upto, block: (start, end), echo: Nanos(0) }
    }

    #[test]
    fn three_above_a_hole_lose_it() {
        let mut board = board(6);
        assert_eq!(board.on_ack(ack(100, 100, 200), Nanos(0)).lost, 0);
        assert_eq!(board.on_ack(ack(100, 100, 300), Nanos(0)).lost, 0);
        let third = board.on_ack(ack(100, 100, 400), Nanos(0));
        assert_eq!((third.segments, third.lost, board.in_flight()), (1, 1, 1));
        assert_eq!(board.first_lost().unwrap().start, 100);
        board.resend(Nanos(10));
        assert_eq!((board.in_flight(), board.first_lost().map(|sent| sent.start)), (2, None));
        // A segment sent before the retransmission proves nothing about it, a segment sent after it does.
        assert_eq!(board.on_ack(ack(100, 100, 500), Nanos(0)).lost, 0);
        board.push(600, 700, Nanos(20));
        assert_eq!(board.on_ack(ack(100, 100, 600), Nanos(5)).lost, 1);
        let last = board.on_ack(ack(700, 0, 0), Nanos(0));
        assert_eq!((last.segments, board.is_empty(), board.in_flight()), (1, true, 0));
    }

    #[test]
    fn a_segment_sent_twice_is_no_sample() {
        let mut board = board(2);
        board.lose_all();
        assert_eq!(board.in_flight(), 0);
        board.first_lost().unwrap();
        board.resend(Nanos(50));
        assert_eq!(board.on_ack(ack(100, 0, 0), Nanos(0)).sampled, None);
        assert_eq!(board.on_ack(ack(200, 0, 0), Nanos(0)).sampled, Some(Nanos(1)));
    }
}
