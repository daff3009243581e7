//! Limits wrong passwords per client: a burst, and then a few a minute.

use hashbrown::HashMap;
use units::Nanos;

/// The number of wrong passwords that a client may send before it must wait.
pub const BURST: u32 = 10;
/// The time after which the client may send one more.
pub const RENEWED_AFTER: Nanos = Nanos::from_secs(6);
/// The maximum number of clients that are remembered.
const CLIENTS_MAX: usize = 4096;

/// The clients that sent wrong passwords, by the prefix of their addresses.
#[derive(Debug, Default)]
pub struct Attempts(HashMap<u128, Wrong>);

#[derive(Debug, Clone, Copy)]
struct Wrong {
    /// The number of wrong passwords that were not forgiven by the time `at`.
    count: u32,
    at: Nanos,
}

impl Wrong {
    fn now(self, now: Nanos) -> Wrong {
        let forgiven = (now - self.at).0 / RENEWED_AFTER.0;
        let count = self.count.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX));
        Wrong { count, at: if count == 0 { now } else { self.at + Nanos(forgiven * RENEWED_AFTER.0) } }
    }
}

impl Attempts {
    /// Records a wrong password. If too many clients are remembered, forgets the client with the fewest.
    pub fn note(&mut self, now: Nanos, client: u128) {
        if self.0.len() >= CLIENTS_MAX && !self.0.contains_key(&client) {
            self.0.retain(|_, wrong| wrong.now(now).count > 0);
            if self.0.len() >= CLIENTS_MAX
                && let Some(least) = self.0.iter().min_by_key(|(_, wrong)| wrong.now(now).count).map(|(key, _)| *key)
            {
                self.0.remove(&least);
            }
        }
        let wrong = self.0.entry(client).or_insert(Wrong { count: 0, at: now });
        *wrong = wrong.now(now);
        wrong.count = wrong.count.saturating_add(1);
    }

    /// Returns the time until the client may send another password; `None` if it may now.
    pub fn wait(&self, now: Nanos, client: u128) -> Option<Nanos> {
        let wrong = self.0.get(&client)?.now(now);
        let over = u64::from(wrong.count.checked_sub(BURST)?) + 1;
        Some(Nanos(over.saturating_mul(RENEWED_AFTER.0)) - (now - wrong.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Nanos = Nanos::from_secs;

    #[test]
    fn a_client_that_guesses_waits_and_others_do_not() {
        let mut attempts = Attempts::default();
        for at in 0..u64::from(BURST) {
            assert_eq!(attempts.wait(S(at), 7), None, "{at}");
            attempts.note(Nanos(at), 7);
        }
        assert_eq!((attempts.wait(S(1), 7), attempts.wait(S(1), 8)), (Some(S(5)), None));
        assert_eq!(attempts.wait(S(6), 7), None);
        attempts.note(S(6), 7);
        assert_eq!(attempts.wait(S(7), 7).map(|wait| wait.0.div_ceil(1_000_000_000)), Some(5));
        assert_eq!(attempts.wait(S(1000), 7), None);
        (0..30).for_each(|_| attempts.note(S(2000), 9));
        assert_eq!(attempts.wait(S(2000), 9), Some(S(21 * 6)), "each costs its time");
    }

    #[test]
    fn no_more_than_so_many_clients_are_remembered() {
        let mut attempts = Attempts::default();
        (0..20).for_each(|_| attempts.note(S(1), 7));
        (100..100 + 2 * CLIENTS_MAX as u128).for_each(|client| attempts.note(S(1), client));
        assert!(attempts.0.len() <= CLIENTS_MAX && attempts.wait(S(1), 7).is_some(), "the one that guesses is kept");
    }
}
