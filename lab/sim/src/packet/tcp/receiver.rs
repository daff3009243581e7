//! The receiver: the data that has arrived, and the time of acknowledgements.

use units::Nanos;

use super::Acked;

/// The reply to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Now,
    /// Acknowledge at this instant, unless another acknowledgement is sent before.
    At(Nanos),
}

#[derive(Debug, Default)]
pub struct Receiver {
    /// Everything below this position has arrived.
    pub next: u64,
    /// The blocks that have arrived above it, ascending and not adjacent.
    beyond: Vec<(u64, u64)>,
    /// The block that contains the newest segment.
    newest: (u64, u64),
    /// The remaining acknowledgements to be sent immediately: Linux does not delay the first ones of a connection.
    quick: u32,
    unacked: u32,
    /// The instant at which the oldest segment was sent that the next acknowledgement covers.
    recent: Nanos,
    pub reply_at: Option<Nanos>,
}

/// Linux's TCP_MAX_QUICKACKS.
const QUICK: u32 = 16;
/// The number of segments per acknowledgement (RFC 5681 section 4.2).
const UNACKED_MAX: u32 = 2;

impl Receiver {
    pub fn new() -> Receiver {
        Receiver { quick: QUICK, ..Receiver::default() }
    }

    /// Takes the bytes `start..end`, sent at `sent_at`.
    pub fn on_segment(&mut self, now: Nanos, (start, end): (u64, u64), sent_at: Nanos, delay: Nanos) -> Reply {
        if start <= self.next && end > self.next && self.unacked == 0 {
            self.recent = sent_at;
        }
        let in_order = start <= self.next && end > self.next && self.beyond.is_empty();
        if in_order {
            self.next = end;
            self.unacked += 1;
            if self.unacked < UNACKED_MAX && self.quick == 0 && delay > Nanos::ZERO {
                return Reply::At(*self.reply_at.get_or_insert(now + delay));
            }
            return Reply::Now;
        }
        if end > self.next {
            self.insert(start.max(self.next), end);
        }
        Reply::Now
    }

    fn insert(&mut self, mut start: u64, mut end: u64) {
        let from = self.beyond.partition_point(|&(_, to)| to < start);
        let mut upto = from;
        while let Some(&(s, e)) = self.beyond.get(upto).filter(|&&(s, _)| s <= end) {
            (start, end) = (start.min(s), end.max(e));
            upto += 1;
        }
        if start <= self.next {
            self.next = end;
            self.beyond.drain(from..upto);
            return;
        }
        self.beyond.splice(from..upto, [(start, end)]);
        self.newest = (start, end);
    }

    /// Returns the acknowledgement that is due.
    pub fn acknowledge(&mut self) -> Acked {
        (self.unacked, self.reply_at) = (0, None);
        self.quick = self.quick.saturating_sub(1);
        let block = if self.newest.0 > self.next { Some(self.newest) } else { self.beyond.last().copied() };
        let relative = |at: u64| u32::try_from(at - self.next).expect("a window is below 4 GiB");
        Acked {
            upto: self.next,
            block: block.map_or((0, 0), |(start, end)| (relative(start), relative(end))),
            echo: self.recent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DELAY: Nanos = Nanos::from_millis(40);

    #[test]
    fn every_second_segment_is_acknowledged_once_the_quick_ones_are_over() {
        let mut receiver = Receiver::new();
        for n in 0..16 {
            assert_eq!(receiver.on_segment(Nanos(n), (n * 10, n * 10 + 10), Nanos(n), DELAY), Reply::Now);
            assert_eq!(receiver.acknowledge(), Acked { upto: n * 10 + 10, block: (0, 0), echo: Nanos(n) });
        }
        assert_eq!(receiver.on_segment(Nanos(100), (160, 170), Nanos(100), DELAY), Reply::At(Nanos(100) + DELAY));
        assert_eq!(receiver.on_segment(Nanos(101), (170, 180), Nanos(101), DELAY), Reply::Now);
    }

    #[test]
    fn a_hole_is_told_of_at_once_with_the_newest_block() {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.on_segment(Nanos(0), (10, 20), Nanos(0), DELAY), Reply::Now);
        assert_eq!(receiver.acknowledge(), Acked { upto: 0, block: (10, 20), echo: Nanos(0) });
        receiver.on_segment(Nanos(0), (40, 50), Nanos(0), DELAY);
        assert_eq!(receiver.acknowledge().block, (40, 50));
        receiver.on_segment(Nanos(0), (20, 30), Nanos(0), DELAY);
        assert_eq!(receiver.acknowledge().block, (10, 30));
        receiver.on_segment(Nanos(0), (0, 10), Nanos(0), DELAY);
        assert_eq!(receiver.acknowledge(), Acked { upto: 30, block: (10, 20), echo: Nanos(0) });
    }

    proptest! {
        /// However segments are reordered and repeated, the stream is complete when all have arrived, and not before.
        #[test]
        fn any_order_makes_the_stream(order in Just((0u64..40).collect::<Vec<_>>()).prop_shuffle(), twice in 0usize..40) {
            let mut receiver = Receiver::default();
            let mut came = [false; 40];
            for n in order.iter().chain(&order[..twice]) {
                receiver.on_segment(Nanos(0), (n * 7, n * 7 + 7), Nanos(0), DELAY);
                came[*n as usize] = true;
                let whole = came.iter().take_while(|came| **came).count() as u64;
                prop_assert_eq!(receiver.acknowledge().upto, whole * 7);
            }
        }
    }
}
