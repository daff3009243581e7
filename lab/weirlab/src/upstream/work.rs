//! The time that an application takes for a request before it answers, for some of the requests, with a limited number
//! of workers.

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// `[PATH=]TIME[@PERMILLE]`: the time of each request, optionally only below a path, or only for this many in a
/// thousand. `[PATH=]TIME~ROUTES~REQUESTS`: the medians of routes, which are the first folders, are log-normal around
/// TIME with the first sigma, and the times within a route with the second.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    path: String,
    time: Duration,
    of: Of,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Of {
    Permille(u64),
    Spread { routes: f64, requests: f64 },
}

/// The times of all requests; of several rules for a path the first applies.
#[derive(Debug, Default)]
pub struct Works {
    rules: Vec<Work>,
    requests: AtomicU64,
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Work, String> {
        let wrong = || {
            format!(
                "`{text}` is no work: write 200ms, 200ms@10 (of a thousand), /slow/=200ms or 20ms~1~0.5 (log-normal)"
            )
        };
        let (path, rest) = text.rsplit_once('=').unwrap_or(("/", text));
        let (time, of) = match rest.split_once('~') {
            Some((time, sigmas)) => (time, spread(sigmas)),
            None => {
                let (time, permille) = rest.split_once('@').unwrap_or((rest, "1000"));
                let permille = permille.parse().ok().filter(|permille| (1..=1000).contains(permille));
                (time, permille.map(Of::Permille))
            }
        };
        let time = units::parse_duration(time).map_err(|_| wrong())?;
        if !path.starts_with('/') {
            return Err(wrong());
        }
        Ok(Work { path: path.into(), time, of: of.ok_or_else(wrong)? })
    }
}

fn spread(sigmas: &str) -> Option<Of> {
    let (routes, requests) = sigmas.split_once('~')?;
    let sigma = |text: &str| text.parse().ok().filter(|sigma| (0.0..=5.0).contains(sigma));
    Some(Of::Spread { routes: sigma(routes)?, requests: sigma(requests)? })
}

impl Works {
    pub fn new(rules: Vec<Work>) -> Works {
        Works { rules, requests: AtomicU64::new(0) }
    }

    /// The time of the next request for this path. Only the number of a request decides whether it is one of a
    /// thousand.
    pub fn next(&self, path: &str) -> Duration {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let Some(Work { time, of, .. }) = self.rules.iter().find(|rule| path.starts_with(&rule.path)) else {
            return Duration::ZERO;
        };
        match *of {
            Of::Permille(permille) if mixed(number) % 1000 >= permille => Duration::ZERO,
            Of::Permille(_) => *time,
            Of::Spread { routes, requests } => {
                let route = path.split('/').nth(1).unwrap_or_default();
                let of_route = route.bytes().fold(0, |hash, byte| mixed(hash ^ u64::from(byte)));
                time.mul_f64((routes * normal(of_route) + requests * normal(number)).exp())
            }
        }
    }
}

/// A normal deviate by the method of Box and Muller, computed from a number.
fn normal(number: u64) -> f64 {
    let drawn = mixed(number);
    let [radius, angle] = [drawn >> 32, drawn & 0xffff_ffff].map(|half| (half as f64 + 0.5) / 4_294_967_296.0);
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// The mixing function of SplitMix64.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A limited number of places.
pub struct Places {
    max: usize,
    taken: Mutex<usize>,
    freed: Condvar,
}

/// A place, which is returned when dropped.
pub struct Place<'p>(&'p Places);

impl Places {
    pub fn new(max: usize) -> Places {
        Places { max, taken: Mutex::default(), freed: Condvar::new() }
    }

    /// Waits until a place is free.
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
        let work = |path: &str, ms, permille| Work {
            path: path.into(),
            time: Duration::from_millis(ms),
            of: Of::Permille(permille),
        };
        assert_eq!(of("200ms"), Ok(work("/", 200, 1000)));
        assert_eq!(of("/slow/=1s@10"), Ok(work("/slow/", 1000, 10)));
        let spread = Of::Spread { routes: 1.0, requests: 0.5 };
        assert_eq!(of("20ms~1~0.5"), Ok(Work { of: spread, ..work("/", 20, 0) }));
        for wrong in
            ["", "5", "200ms@0", "200ms@1001", "slow=1s", "=1s", "1s@", "1s~1", "1s~1~x", "1s~-1~1", "1s~1~1@5"]
        {
            assert!(of(wrong).unwrap_err().starts_with(&format!("`{wrong}` is no work")), "{wrong}");
        }
    }

    /// The median of each route differs; within it times are spread.
    #[test]
    fn routes_are_spread_and_requests_within_them() {
        let works = Works::new(vec!["20ms~1~0.5".parse().unwrap()]);
        let routes: Vec<String> =
            (b'a'..=b'z').flat_map(|a| (b'a'..=b'z').map(move |b| format!("/{}{}/", a as char, b as char))).collect();
        let mut logs = vec![];
        for route in &routes {
            let mut of_route: Vec<f64> = (0..200).map(|_| (works.next(route).as_secs_f64() / 0.02).ln()).collect();
            of_route.sort_by(f64::total_cmp);
            let spread = of_route[168] - of_route[31];
            assert!((0.6..1.5).contains(&spread), "68 of 100 within 2 x 0.5: {spread}");
            logs.push(of_route[100]);
        }
        logs.sort_by(f64::total_cmp);
        assert!(
            (logs[338]).abs() < 0.2 && (1.7..2.3).contains(&(logs[568] - logs[107])),
            "{:?}",
            (logs[107], logs[568])
        );
    }

    #[test]
    fn so_many_in_a_thousand_work() {
        let works = Works::new(vec!["/a/=1s@10".parse().unwrap(), "2s".parse().unwrap()]);
        let slow = (0..100_000).filter(|_| works.next("/a/b") > Duration::ZERO).count();
        assert!((900..1100).contains(&slow), "{slow}");
        assert_eq!(works.next("/b"), Duration::from_secs(2));
    }
}
