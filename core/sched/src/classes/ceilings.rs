//! Maximum rates of classes: after each grant, a class with a maximum rate waits until its bytes would have been sent
//! at that rate.

use units::{Nanos, Rate};

use crate::pacing::lateness::AHEAD_MAX;
use crate::scheduler::run_queue::{Key, RunQueue};

/// The maximum time that any class may catch up; a larger value would allow bursts above its rate.
const BEHIND_MAX: Nanos = Nanos::from_millis(2);
/// The additional time that a class may catch up if it was released late. On a host with a busy processor, wake-ups are
/// this late ([`crate::Lateness`]).
const LATE_MAX: Nanos = AHEAD_MAX;

#[derive(Debug, Clone, Copy)]
struct Ceiling {
    rate: Rate,
    /// The time at which the bytes sent so far would be complete at the class's maximum rate.
    sent_at: Nanos,
    /// The lateness of the class's last release.
    late: Nanos,
}

#[derive(Debug, Default)]
pub struct Ceilings {
    /// Ceilings, by class.
    classes: Vec<Option<Ceiling>>,
    /// The waiting classes, ordered by the time at which they resume.
    held: RunQueue,
}

impl Ceilings {
    /// Sets or removes the maximum rate of the class.
    pub fn set(&mut self, class: u16, rate: Option<Rate>) {
        let at = usize::from(class);
        if rate.is_none() && at >= self.classes.len() {
            return;
        }
        self.classes.resize(self.classes.len().max(at + 1), None);
        let (sent_at, late) = self.classes[at].map_or_else(Default::default, |before| (before.sent_at, before.late));
        self.classes[at] = rate.map(|rate| Ceiling { rate, sent_at, late });
        if rate.is_none() && self.held.contains(class.into()) {
            // Released at the next call.
            self.held.set(class.into(), Key { rank: 0, number: class.into() });
        }
    }

    /// Records that bytes of the class were handed down. Returns true if the class must wait from now on.
    #[must_use]
    pub fn on_sent(&mut self, now: Nanos, class: u16, wire_bytes: u64) -> bool {
        let Some(ceiling) = self.classes.get_mut(usize::from(class)).and_then(Option::as_mut) else { return false };
        let from = ceiling.sent_at.max(now - BEHIND_MAX - ceiling.late);
        ceiling.sent_at = from + ceiling.rate.time_for(wire_bytes);
        let waits = ceiling.sent_at > now;
        if waits {
            self.held.set(class.into(), Key { rank: ceiling.sent_at.0, number: class.into() });
        }
        waits
    }

    /// Returns the time at which the next class resumes.
    pub fn next(&self) -> Option<Nanos> {
        self.held.first_entry().map(|(key, _)| Nanos(key.rank))
    }

    /// Returns a class that has waited long enough.
    pub fn poll(&mut self, now: Nanos) -> Option<u16> {
        let (key, class) = self.held.first_entry().filter(|(key, _)| key.rank <= now.0)?;
        self.held.remove(class);
        if let Some(ceiling) = self.classes.get_mut(class as usize).and_then(Option::as_mut) {
            ceiling.late = (now - Nanos(key.rank)).min(LATE_MAX);
        }
        Some(class as u16)
    }

    pub fn is_held(&self, class: u16) -> bool {
        self.held.contains(class.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 1_000_000;

    #[test]
    fn a_class_waits_as_long_as_its_bytes_take() {
        let mut ceilings = Ceilings::default();
        ceilings.set(3, Rate::from_bits_per_s(8 * MBIT));
        let now = Nanos::from_secs(1);
        assert!(!ceilings.on_sent(now, 0, 1000) && !ceilings.on_sent(now, 9, 1000), "without a greatest rate");
        // The 8,000 bytes take 8 ms, and the class may have been 2 ms late.
        assert!(ceilings.on_sent(now, 3, 8000));
        assert_eq!(ceilings.next(), Some(now + Nanos::from_millis(6)));
        assert_eq!((ceilings.poll(now), ceilings.is_held(3)), (None, true));
        let then = now + Nanos::from_millis(6);
        assert_eq!((ceilings.poll(then), ceilings.poll(then), ceilings.next()), (Some(3), None, None));
    }

    #[test]
    fn over_a_second_it_has_its_rate() {
        let mut ceilings = Ceilings::default();
        ceilings.set(0, Rate::from_bits_per_s(8 * MBIT));
        let (mut now, mut sent) = (Nanos::from_secs(1), 0);
        while now < Nanos::from_secs(2) {
            if !ceilings.is_held(0) {
                let _ = ceilings.on_sent(now, 0, 1500);
                sent += 1500;
            }
            // The class is woken up to a millisecond late.
            now += Nanos::from_micros(700);
            ceilings.poll(now);
        }
        assert!((998_000..=1_004_000).contains(&sent), "{sent}");
    }

    /// A class is sent its rate over time, and never more than 22 ms of it at a time.
    #[test]
    fn released_late_it_catches_up_within_a_bound() {
        for (late_ms, part) in [(0, 1.0), (5, 1.0), (20, 1.0), (60, 0.4)] {
            let mut ceilings = Ceilings::default();
            ceilings.set(0, Rate::from_bits_per_s(8 * MBIT));
            let (began, mut sent) = (Nanos::from_secs(1), 0);
            let mut now = began;
            while now < Nanos::from_secs(9) {
                let before = sent;
                while !ceilings.is_held(0) {
                    let _ = ceilings.on_sent(now, 0, 1000);
                    sent += 1000;
                }
                assert!(sent - before <= 23_000, "a burst of {} bytes", sent - before);
                now = ceilings.next().unwrap() + Nanos::from_millis(late_ms);
                assert_eq!(ceilings.poll(now), Some(0));
            }
            let got = sent as f64 / ((now - began).0 as f64 / 1000.0);
            assert!((got - part).abs() < 0.1 * (1.0 - part) + 0.005, "{late_ms} ms late: {got}");
        }
    }

    #[test]
    fn without_a_rate_it_is_let_go() {
        let mut ceilings = Ceilings::default();
        ceilings.set(1, Rate::from_bits_per_s(1000));
        assert!(ceilings.on_sent(Nanos::ZERO, 1, 1_000_000));
        ceilings.set(1, None);
        assert_eq!(ceilings.poll(Nanos::ZERO), Some(1));
        ceilings.set(7, None);
        assert!(!ceilings.is_held(7));
    }
}
