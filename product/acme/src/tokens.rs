//! Answers to HTTP challenges (RFC 8555 section 8.3), which event loops look up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The folder of the answers.
const FOLDER: &[u8] = b"/.well-known/acme-challenge/";
/// The maximum number of challenges at the same time; each name of an order needs one.
const TOKENS_MAX: usize = 128;

/// The key authorizations, by token.
#[derive(Debug, Default)]
pub struct Tokens {
    count: AtomicUsize,
    by_token: Mutex<HashMap<Box<[u8]>, Box<str>>>,
}

impl Tokens {
    /// The answer to a request for this path, if the path belongs to an open challenge. Takes no lock if there is no
    /// challenge.
    pub fn answer(&self, path: &[u8]) -> Option<String> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let token = path.strip_prefix(FOLDER)?;
        let by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        by_token.get(token).map(|answer| answer.to_string())
    }

    /// Starts answering a challenge. Returns false if there are too many.
    pub(crate) fn begin(&self, token: &str, answer: &str) -> bool {
        let mut by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = by_token.len() < TOKENS_MAX;
        if has_room {
            by_token.insert(token.as_bytes().into(), answer.into());
            self.count.store(by_token.len(), Ordering::Release);
        }
        has_room
    }

    pub(crate) fn end(&self, token: &str) {
        let mut by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        by_token.remove(token.as_bytes());
        self.count.store(by_token.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_path_of_a_challenge_under_way_is_answered() {
        let tokens = Tokens::default();
        let path = b"/.well-known/acme-challenge/abc";
        assert_eq!(tokens.answer(path), None);
        assert!(tokens.begin("abc", "abc.thumb"));
        assert_eq!(tokens.answer(path).as_deref(), Some("abc.thumb"));
        for other in ["/.well-known/acme-challenge/", "/.well-known/acme-challenge/abcd", "/abc", "abc", ""] {
            assert_eq!(tokens.answer(other.as_bytes()), None, "{other}");
        }
        tokens.end("abc");
        assert_eq!(tokens.answer(path), None);
        for at in 0..TOKENS_MAX {
            assert!(tokens.begin(&at.to_string(), ""));
        }
        assert!(!tokens.begin("one more", ""));
    }
}
