//! How much had been handed to the link when: so that a round trip says how much has gone through.

use std::collections::VecDeque;

use units::Nanos;

use super::Span;

/// Instants remembered, and how far apart they are at least: two seconds, longer than round trips are.
const INSTANTS_MAX: usize = 512;
const EVERY: Nanos = Nanos::from_millis(4);

#[derive(Debug, Default)]
pub(super) struct Sent {
    spans: VecDeque<Span>,
    /// The oldest were given up.
    is_cut: bool,
}

impl Sent {
    pub fn remember(&mut self, now: Nanos, charged_bytes: u64) {
        if self.spans.back().is_some_and(|last| now - last.began < EVERY) {
            return;
        }
        if self.spans.len() == INSTANTS_MAX {
            self.spans.pop_front();
            self.is_cut = true;
        }
        self.spans.push_back(Span { began: now, charged_bytes });
    }

    /// What has gone through a queue once a packet has that was sent then and waited this long in it. `None` for a packet that is
    /// remembered no more, or not yet.
    pub fn passed(&self, sent_at: Nanos, delay: Nanos) -> Option<Span> {
        let after = self.spans.partition_point(|span| span.began <= sent_at);
        let before = match after.checked_sub(1) {
            Some(before) => self.spans[before],
            None if self.is_cut => return None,
            None => Span { began: Nanos::ZERO, charged_bytes: 0 },
        };
        let after = self.spans.get(after)?;
        let bytes = u128::from(after.charged_bytes.saturating_sub(before.charged_bytes));
        let part = bytes * u128::from((sent_at - before.began).0) / u128::from((after.began - before.began).0);
        let charged_bytes = before.charged_bytes + u64::try_from(part).expect("a part of what was charged");
        Some(Span { began: sent_at + delay, charged_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn what_was_charged_before_a_packet_has_passed_with_it() {
        let mut sent = Sent::default();
        (0..=10).for_each(|step| sent.remember(MS(100 + 10 * step), 1000 * step));
        let passed = |sent_ms, delay_ms| sent.passed(MS(sent_ms), MS(delay_ms)).map(|at| (at.began, at.charged_bytes));
        assert_eq!(passed(145, 30), Some((MS(175), 4500)));
        assert_eq!(passed(50, 0), Some((MS(50), 0)));
        assert_eq!(passed(201, 0), None);
    }

    #[test]
    fn instants_are_four_milliseconds_apart() {
        let mut sent = Sent::default();
        [MS(100), MS(104) - Nanos(1), MS(104), MS(107), MS(109)].iter().for_each(|at| sent.remember(*at, 0));
        assert_eq!(sent.spans.iter().map(|span| span.began).collect::<Vec<_>>(), [MS(100), MS(104), MS(109)]);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut sent = Sent::default();
        (0..10_000).for_each(|ms| sent.remember(MS(ms), ms));
        assert_eq!(sent.spans.len(), INSTANTS_MAX);
        assert_eq!(sent.passed(MS(100), MS(5)).map(|at| at.charged_bytes), None);
        assert_eq!(sent.passed(MS(9_001), MS(5)).map(|at| at.charged_bytes), Some(9_001));
    }
}
