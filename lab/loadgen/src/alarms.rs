//! The instants at which connections must be woken. QUIC needs them because its timers run in the program and not in
//! the kernel.

use std::collections::{BTreeSet, HashMap};

use units::Nanos;

use crate::pool::Number;

/// An instant for each connection that has one.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    by_time: BTreeSet<(Nanos, u64)>,
    set: HashMap<u64, Nanos>,
}

impl Alarms {
    /// Replaces the instant of a connection.
    pub(crate) fn set(&mut self, number: Number, at: Option<Nanos>) {
        let key = number.to_u64();
        let before = match at {
            Some(at) => self.set.insert(key, at),
            None => self.set.remove(&key),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.by_time.remove(&(before, key));
        }
        self.by_time.extend(at.map(|at| (at, key)));
    }

    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.by_time.first().map(|&(at, _)| at)
    }

    /// Removes and returns the connection with the earliest instant, if that instant has come.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<Number> {
        let &(at, key) = self.by_time.first().filter(|&&(at, _)| at <= now)?;
        self.by_time.remove(&(at, key));
        self.set.remove(&key);
        Some(Number::from_u64(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_one_instant_and_they_come_in_order() {
        let mut alarms = Alarms::default();
        let [one, two, three] = [1, 2, 3].map(Number::from_u64);
        alarms.set(one, Some(Nanos(30)));
        alarms.set(two, Some(Nanos(20)));
        alarms.set(three, Some(Nanos(10)));
        alarms.set(one, Some(Nanos(15)));
        alarms.set(one, Some(Nanos(15)));
        alarms.set(three, None);
        assert_eq!((alarms.next_at(), alarms.pop_due(Nanos(14))), (Some(Nanos(15)), None));
        assert_eq!([alarms.pop_due(Nanos(99)), alarms.pop_due(Nanos(99))], [Some(one), Some(two)]);
        assert_eq!((alarms.pop_due(Nanos(99)), alarms.set.len()), (None, 0));
    }
}
