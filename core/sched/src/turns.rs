//! What the same responses would have taken if all that are ready took turns, packet by packet: processor sharing, the FAIR of the papers (000,
//! section 2), as of a server without an order behind a fair queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::{Nanos, Rate};

/// Responses that share the line at once; more are not followed.
pub const SHARING_MAX: usize = 100_000;

/// A line that all responses share evenly, as a fluid.
///
/// Served is what each of them has had since the line was last empty; one that comes ends when that has grown by its size (the virtual time of
/// Demers, Keshav and Shenker, 1989). O(log n) for each response.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    sharing: BinaryHeap<Reverse<Sharing>>,
    /// Bytes that each response there has had since the line was last empty.
    served: f64,
    at: Nanos,
}

#[derive(Debug, Clone, Copy)]
struct Sharing {
    /// Of [`Turns::served`], when it ends.
    ends_at: f64,
    since: Nanos,
    label: u8,
}

impl PartialEq for Sharing {
    fn eq(&self, other: &Sharing) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Sharing {}

impl PartialOrd for Sharing {
    fn partial_cmp(&self, other: &Sharing) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sharing {
    fn cmp(&self, other: &Sharing) -> std::cmp::Ordering {
        self.ends_at.total_cmp(&other.ends_at)
    }
}

impl Turns {
    /// A response of so many bytes on the wire is ready at `now`, asked for at `since`; false if too many are followed. Instants only grow.
    pub fn arrive(&mut self, now: Nanos, (since, label): (Nanos, u8), wire_bytes: u64) -> bool {
        let has_room = self.sharing.len() < SHARING_MAX;
        if has_room {
            self.at = self.at.max(now);
            let ends_at = self.served + wire_bytes as f64;
            self.sharing.push(Reverse(Sharing { ends_at, since, label }));
        }
        has_room
    }

    /// Until now the line had this rate; tells of each response that has ended its label and the time since it was asked for. To be called before
    /// [`Turns::arrive`].
    pub fn advance(&mut self, now: Nanos, rate: Rate, mut ended: impl FnMut(u8, Nanos)) {
        let bytes_per_s = rate.bits_per_s() as f64 / 8.0;
        while let Some(Reverse(first)) = self.sharing.peek().copied() {
            let count = self.sharing.len() as f64;
            let left_s = (first.ends_at - self.served).max(0.0) * count / bytes_per_s;
            let ends_at = self.at + Nanos((left_s * 1e9) as u64);
            if ends_at > now {
                self.served += (now - self.at).0 as f64 / 1e9 * bytes_per_s / count;
                break;
            }
            (self.served, self.at) = (first.ends_at, ends_at);
            self.sharing.pop();
            ended(first.label, ends_at - first.since);
        }
        self.at = self.at.max(now);
        if self.sharing.is_empty() {
            self.served = 0.0;
        }
    }

    /// Forgets those that are not over: the line has no rate any more.
    pub fn clear(&mut self) {
        *self = Turns::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// A byte in a microsecond.
    fn rate() -> Rate {
        "8mbit".parse().unwrap()
    }

    /// When each ended, by its label, in microseconds since it was asked for.
    fn ends(arrivals: &[(u64, u64)], until: Nanos) -> Vec<(u8, u64)> {
        let (mut turns, mut ends) = (Turns::default(), vec![]);
        for (label, (at_ms, bytes)) in (0..).zip(arrivals) {
            turns.advance(MS(*at_ms), rate(), |label, took| ends.push((label, took.0.div_ceil(1000))));
            assert!(turns.arrive(MS(*at_ms), (MS(*at_ms), label), *bytes));
        }
        turns.advance(until, rate(), |label, took| ends.push((label, took.0.div_ceil(1000))));
        ends
    }

    #[test]
    fn alone_a_response_has_the_line() {
        assert_eq!(ends(&[(1000, 10_000), (2000, 500)], MS(3000)), [(0, 10_000), (1, 500)]);
    }

    /// The large one has half until the small one has ended, which takes twice its own time.
    #[test]
    fn two_share_it() {
        assert_eq!(ends(&[(0, 10_000), (0, 1_000)], MS(100)), [(1, 2_000), (0, 11_000)]);
        assert_eq!(ends(&[(0, 10_000), (5, 1_000)], MS(100)), [(1, 2_000), (0, 11_000)]);
        assert_eq!(ends(&[(0, 10_000), (5, 1_000)], MS(6)), [], "both are under way");
    }

    #[test]
    fn what_is_sent_is_conserved() {
        let sizes: Vec<(u64, u64)> = (0..50).map(|n| (n / 7, 100 + n * n * 13)).collect();
        let all: u64 = sizes.iter().map(|(_, bytes)| bytes).sum();
        let ended = ends(&sizes, MS(100_000));
        assert_eq!(ended.len(), 50);
        let last = ended.iter().map(|(label, took)| took + 1000 * sizes[usize::from(*label)].0).max().unwrap();
        assert!(last.abs_diff(all) < 100, "the line was never empty: {last} us for {all} bytes");
    }

    #[test]
    fn no_more_are_followed_than_there_is_room_for() {
        let mut turns = Turns::default();
        (0..SHARING_MAX).for_each(|_| assert!(turns.arrive(Nanos(0), (Nanos(0), 0), 1)));
        assert!(!turns.arrive(Nanos(0), (Nanos(0), 0), 1));
        turns.clear();
        assert!(turns.arrive(Nanos(0), (Nanos(0), 0), 1));
    }
}
