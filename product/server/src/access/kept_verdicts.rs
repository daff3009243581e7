//! Verdicts on passwords that are kept for a limited time, without the passwords.

use std::collections::VecDeque;

use blake2::Blake2bMac;
use blake2::digest::consts::U32;
use blake2::digest::{KeyInit, Mac};
use hashbrown::HashMap;
use units::Nanos;

use super::{Credentials, Users};

/// The maximum number of kept verdicts. The oldest is dropped.
const VERDICTS_MAX: usize = 1024;
/// The time for which a correct password is not verified again. The next constant is that for a wrong password.
const RIGHT_FOR: Nanos = Nanos::from_secs(300);
const WRONG_FOR: Nanos = Nanos::from_secs(60);

/// A digest of a set of users, a name and a password.
pub type Key = [u8; 32];

/// The secret from which keys are derived, so that a key does not reveal its password. Each process has its own secret.
pub struct Secret([u8; 32]);

impl Secret {
    pub fn new() -> Secret {
        let mut secret = [0; 32];
        secret[..16].copy_from_slice(&tls::nonce());
        secret[16..].copy_from_slice(&tls::nonce());
        Secret(secret)
    }

    pub fn key(&self, users: &Users, credentials: &Credentials) -> Key {
        let mut mac = <Blake2bMac<U32> as KeyInit>::new_from_slice(&self.0).expect("a key of 32 bytes");
        mac.update(&users.number.to_le_bytes());
        mac.update(&(credentials.user.len() as u64).to_le_bytes());
        mac.update(&credentials.user);
        mac.update(&credentials.password);
        mac.finalize().into_bytes().into()
    }
}

#[derive(Debug, Default)]
pub struct Verdicts {
    by_key: HashMap<Key, (bool, Nanos)>,
    /// The keys, the oldest first.
    order: VecDeque<Key>,
}

impl Verdicts {
    pub fn get(&self, now: Nanos, key: &Key) -> Option<bool> {
        let (is_right, until) = self.by_key.get(key)?;
        (now < *until).then_some(*is_right)
    }

    pub fn keep(&mut self, now: Nanos, key: Key, is_right: bool) {
        let until = now + if is_right { RIGHT_FOR } else { WRONG_FOR };
        if self.by_key.insert(key, (is_right, until)).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > VERDICTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_key.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_kept_for_its_time_and_there_are_so_many() {
        let (mut verdicts, s) = (Verdicts::default(), Nanos::from_secs);
        verdicts.keep(s(0), [1; 32], true);
        verdicts.keep(s(0), [2; 32], false);
        let of = |verdicts: &Verdicts, at, key| verdicts.get(s(at), &[key; 32]);
        assert_eq!([of(&verdicts, 59, 1), of(&verdicts, 59, 2), of(&verdicts, 59, 3)], [Some(true), Some(false), None]);
        assert_eq!([of(&verdicts, 60, 2), of(&verdicts, 299, 1), of(&verdicts, 300, 1)], [None, Some(true), None]);
        verdicts.keep(s(400), [1; 32], false);
        assert_eq!(of(&verdicts, 401, 1), Some(false), "the last one counts");
        for number in 0..5 * VERDICTS_MAX as u64 {
            let mut key = [9; 32];
            key[..8].copy_from_slice(&number.to_le_bytes());
            verdicts.keep(s(500), key, true);
        }
        assert_eq!((verdicts.by_key.len(), verdicts.order.len()), (VERDICTS_MAX, VERDICTS_MAX));
    }

    #[test]
    fn keys_differ_with_users_names_and_passwords() {
        let secret = Secret::new();
        let text = format!("ada:{}", bcrypt::hash("a", 4).unwrap());
        let users = [(); 2].map(|()| Users::read(text.as_bytes()).unwrap());
        let of = |users: &Users, user: &str, password: &str| {
            secret.key(users, &Credentials { user: user.into(), password: password.into() })
        };
        let own = of(&users[0], "ada", "a");
        assert_eq!(own, of(&users[0], "ada", "a"));
        for other in [of(&users[1], "ada", "a"), of(&users[0], "ad", "aa"), of(&users[0], "ada", "b")] {
            assert_ne!(own, other);
        }
        let credentials = Credentials { user: "ada".into(), password: "a".into() };
        assert_ne!(own, Secret::new().key(&users[0], &credentials));
    }
}
