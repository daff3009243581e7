//! What an application does for a request before it answers: so long, for some of them, with so many workers.

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// `[PATH=]TIME[@PERMILLE]`: time of a request's own, of those below a path, and of so many in a thousand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    path: String,
    time: Duration,
    permille: u64,
}

/// What all requests take; of several rules for a path the first holds.
#[derive(Debug, Default)]
pub struct Works {
    rules: Vec<Work>,
    requests: AtomicU64,
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Work, String> {
        let wrong = || format!("`{text}` is no work: write 200ms, 200ms@10 (of a thousand) or /slow/=200ms");
        let (path, rest) = text.rsplit_once('=').unwrap_or(("/", text));
        let (time, permille) = rest.split_once('@').unwrap_or((rest, "1000"));
        let time = units::parse_duration(time).map_err(|_| wrong())?;
        let permille = permille.parse().ok().filter(|permille| (1..=1000).contains(permille)).ok_or_else(wrong)?;
        if !path.starts_with('/') {
            return Err(wrong());
        }
        Ok(Work { path: path.into(), time, permille })
    }
}

impl Works {
    pub fn new(rules: Vec<Work>) -> Works {
        Works { rules, requests: AtomicU64::new(0) }
    }

    /// How long the next request for this path takes. Which of a thousand are chosen depends on their number alone.
    pub fn next(&self, path: &str) -> Duration {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let rule = self.rules.iter().find(|rule| path.starts_with(&rule.path));
        let chosen = rule.filter(|rule| mixed(number) % 1000 < rule.permille);
        chosen.map_or(Duration::ZERO, |rule| rule.time)
    }
}

/// SplitMix64's mixing.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// So many that may be had at once.
pub struct Places {
    max: usize,
    taken: Mutex<usize>,
    freed: Condvar,
}

/// One of them, given back when dropped.
pub struct Place<'p>(&'p Places);

impl Places {
    pub fn new(max: usize) -> Places {
        Places { max, taken: Mutex::default(), freed: Condvar::new() }
    }

    /// Waits until there is one.
    pub fn take(&self) -> Place<'_> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut usize| *taken >= self.max;
        *self.freed.wait_while(taken, is_full).unwrap_or_else(PoisonError::into_inner) += 1;
        Place(self)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_a_time_of_some_requests_of_a_path() {
        let of = |text: &str| text.parse::<Work>();
        let work = |path: &str, ms, permille| Work { path: path.into(), time: Duration::from_millis(ms), permille };
        assert_eq!(of("200ms"), Ok(work("/", 200, 1000)));
        assert_eq!(of("/slow/=1s@10"), Ok(work("/slow/", 1000, 10)));
        for wrong in ["", "5", "200ms@0", "200ms@1001", "slow=1s", "=1s", "1s@"] {
            assert!(of(wrong).unwrap_err().starts_with(&format!("`{wrong}` is no work")), "{wrong}");
        }
    }

    #[test]
    fn so_many_in_a_thousand_work() {
        let works = Works::new(vec!["/a/=1s@10".parse().unwrap(), "2s".parse().unwrap()]);
        let slow = (0..100_000).filter(|_| works.next("/a/b") > Duration::ZERO).count();
        assert!((900..1100).contains(&slow), "{slow}");
        assert_eq!(works.next("/b"), Duration::from_secs(2));
    }
}
