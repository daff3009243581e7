//! The pending events, each with a time and a number, so that the seed alone determines their order.

use std::collections::BTreeMap;

use units::Nanos;

#[derive(Debug)]
pub struct Schedule<E> {
    events: BTreeMap<(Nanos, u64), E>,
    numbered: u64,
}

impl<E> Default for Schedule<E> {
    fn default() -> Schedule<E> {
        Schedule { events: BTreeMap::new(), numbered: 0 }
    }
}

impl<E> Schedule<E> {
    pub fn add(&mut self, at: Nanos, event: E) {
        self.numbered += 1;
        self.events.insert((at, self.numbered), event);
    }

    /// Adds an event, unless the same one is already due at that time. Otherwise a peer that is woken by each of many
    /// bytes would wake that often from then on.
    pub fn add_once(&mut self, at: Nanos, event: E)
    where
        E: PartialEq,
    {
        if self.events.range((at, 0)..=(at, u64::MAX)).all(|(_, other)| *other != event) {
            self.add(at, event);
        }
    }

    pub fn next_at(&self) -> Option<Nanos> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next event, if it is due.
    pub fn take(&mut self, now: Nanos) -> Option<(Nanos, E)> {
        let entry = self.events.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((at, _), event) = entry.remove_entry();
        Some((at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_their_instants_and_then_as_they_were_added() {
        let mut schedule = Schedule::default();
        for (at, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            schedule.add(Nanos(at), event);
        }
        assert_eq!((schedule.next_at(), schedule.take(Nanos(0))), (Some(Nanos(1)), None));
        let taken: String = std::iter::from_fn(|| schedule.take(Nanos(5))).map(|(_, event)| event).collect();
        assert_eq!((&taken[..], schedule.next_at()), ("abcd", None));
        for (at, event) in [(5, 'c'), (5, 'd'), (5, 'c'), (6, 'c')] {
            schedule.add_once(Nanos(at), event);
        }
        let taken: String = std::iter::from_fn(|| schedule.take(Nanos(9))).map(|(_, event)| event).collect();
        assert_eq!(taken, "cdc");
    }
}
