//! The time that an application takes for the requests of a route. It orders the requests that wait for the
//! application.
//!
//! A request in progress cannot be interrupted for another, so waiting requests are ranked by the mean. If the times of
//! single requests are unknown, serving the lowest mean first minimises the mean response time (Smith's rule for
//! classes: Cox and Smith, Queues, 1961). An index of the whole distribution, as for sizes, would show when to
//! interrupt a request, which is impossible here.

use std::collections::HashMap;

use units::Nanos;

use super::Route;
use super::route::Digest;

/// The maximum number of recently used routes that are remembered, and of routes used before those.
pub const SERVICES_MAX: usize = 2048;
/// The minimum number of requests before a route's own mean is used; with fewer, the mean of all paths is used.
const SAMPLES_MIN: u32 = 4;
/// The maximum number of samples in a mean. A new time always has at least 1/64 of the weight, so that a change in the
/// application shows.
const SAMPLES_MAX: u32 = 64;

/// Mean times by route.
#[derive(Debug, Default)]
pub struct ServiceTimes {
    lately: HashMap<Digest, Mean>,
    before: HashMap<Digest, Mean>,
}

/// The keys of a route as known from the request, before status, type and coding are known: its own and that of all
/// paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceRoute {
    pub(super) own: Digest,
    all: Digest,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    nanos: f64,
    samples: u32,
}

impl ServiceRoute {
    /// Returns the keys of the route, from its site, method and path.
    pub fn of(route: &Route) -> ServiceRoute {
        let (own, all) = route.asked();
        ServiceRoute { own, all }
    }
}

impl ServiceTimes {
    /// Records how long a request of this route took.
    pub fn note(&mut self, route: ServiceRoute, took: Nanos) {
        for key in [route.own, route.all] {
            match self.lately.get_mut(&key) {
                Some(mean) => mean.note(took),
                None => self.remember(key).note(took),
            }
        }
    }

    /// Returns the time that a request of this route is expected to take; zero if nothing is known.
    pub fn expected(&self, route: ServiceRoute) -> Nanos {
        let own = self.find(route.own).filter(|mean| mean.samples >= SAMPLES_MIN);
        let mean = own.or_else(|| self.find(route.all));
        mean.map_or(Nanos::ZERO, |mean| Nanos(mean.nanos as u64))
    }

    /// Returns the mean time of this route's requests; `None` if too little is known of the route itself.
    pub fn known(&self, route: ServiceRoute) -> Option<Nanos> {
        let own = self.find(route.own).filter(|mean| mean.samples >= SAMPLES_MIN);
        own.map(|mean| Nanos(mean.nanos as u64))
    }

    fn find(&self, key: Digest) -> Option<Mean> {
        self.lately.get(&key).or_else(|| self.before.get(&key)).copied()
    }

    /// Adds a route to the recently used ones.
    fn remember(&mut self, key: Digest) -> &mut Mean {
        if self.lately.len() >= SERVICES_MAX {
            self.before = std::mem::take(&mut self.lately);
        }
        let known = self.before.remove(&key).unwrap_or_default();
        self.lately.entry(key).or_insert(known)
    }
}

impl Mean {
    fn note(&mut self, took: Nanos) {
        self.samples = (self.samples + 1).min(SAMPLES_MAX);
        self.nanos += (took.0 as f64 - self.nanos) / f64::from(self.samples);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str) -> ServiceRoute {
        ServiceRoute::of(&Route { site: b"a", method: b"GET", path: path.as_bytes(), status: 200, ..Route::default() })
    }

    fn expected_ms(times: &ServiceTimes, path: &str) -> u64 {
        times.expected(route(path)).0 / 1_000_000
    }

    #[test]
    fn a_route_is_known_by_its_mean_and_before_by_that_of_all() {
        let mut times = ServiceTimes::default();
        assert_eq!(times.expected(route("/a")), Nanos::ZERO);
        (0..3).for_each(|_| times.note(route("/a/1"), Nanos::from_millis(30)));
        assert_eq!([expected_ms(&times, "/a/2"), expected_ms(&times, "/b")], [30, 30]);
        assert_eq!([times.known(route("/a/2")), times.known(route("/b"))], [None; 2]);
        (0..9).for_each(|_| times.note(route("/b"), Nanos::from_millis(10)));
        assert_eq!([expected_ms(&times, "/b"), expected_ms(&times, "/a/2")], [10, 15]);
        times.note(route("/a/3"), Nanos::from_millis(70));
        assert_eq!(expected_ms(&times, "/a/2"), 40);
        assert_eq!(times.known(route("/a/2")), Some(Nanos::from_millis(40)));
    }

    #[test]
    fn an_application_that_has_changed_is_noticed() {
        let mut times = ServiceTimes::default();
        (0..10_000).for_each(|_| times.note(route("/a"), Nanos::from_millis(10)));
        (0..300).for_each(|_| times.note(route("/a"), Nanos::from_millis(1000)));
        assert!(expected_ms(&times, "/a") > 950);
    }

    #[test]
    fn those_met_lately_are_remembered_and_not_more_than_may_be() {
        let mut times = ServiceTimes::default();
        let path = |nth: usize| format!("/{}", letters(nth));
        for nth in 0..10 * SERVICES_MAX {
            (0..4).for_each(|_| times.note(route(&path(nth)), Nanos::from_millis(nth as u64)));
            (0..4).for_each(|_| times.note(route("/kept"), Nanos::from_millis(7)));
            assert!(times.lately.len() <= SERVICES_MAX && times.before.len() <= SERVICES_MAX);
        }
        assert_eq!(expected_ms(&times, "/kept"), 7);
        let last = 10 * SERVICES_MAX - 1;
        assert_eq!(expected_ms(&times, &path(last)), last as u64);
    }

    /// Returns a name without digits, which would make all of them one route.
    fn letters(nth: usize) -> String {
        (0..5).map(|place| char::from(b'a' + (nth >> (4 * place) & 15) as u8)).collect()
    }
}
