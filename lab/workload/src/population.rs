//! Users who wait for an answer before they ask again, so that a slow server is asked less.
//!
//! Two kinds of [`Source`]. [`Population::users`] is SURGE's closed load: a fixed number of user equivalents who never
//! leave. [`Population::sessions`] is partly open (Schroeder & Harchol-Balter 2003, section 2.3): sessions come by
//! themselves like the requests of an open system, and each then asks for some files with a think time after each answer.
//!
//! Each user has a random stream of his own. What a session asks for is drawn when it comes, so it is the same under every
//! policy; SURGE's users read one list of files, so the k-th request of a run is for the same file whoever makes it, as in
//! Murta and Corlassoli (2003, section 4): "each run serviced the same requests in the same sequence".

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use rand::seq::SliceRandom;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use units::{Nanos, Rate, wire};

use crate::surge::UserModel;
use crate::synthetic::unit;
use crate::{Ask, LoadProfile, Source, wire_bytes};

/// Sizes to ask for, without end.
pub type EndlessSizes = Box<dyn Iterator<Item = u64> + Send>;

/// Users a population may have, and sessions in all: each costs a random stream.
pub const USERS_MAX: u32 = 1 << 20;

/// The most requests of one session; at a mean of 1,000, the largest allowed, one session in 22,000 is cut.
const SESSION_REQUESTS_MAX: u32 = 10_000;

/// Users, from their coming to their leaving.
pub struct Population {
    kind: Kind,
    sizes: EndlessSizes,
    seed: u64,
    /// The instant from which nobody comes or asks.
    until: Nanos,
    /// The users and the instants at which they ask, the earliest first; at most one request for each user.
    due: BinaryHeap<Reverse<(Nanos, u32)>>,
}

enum Kind {
    Closed { model: UserModel, users: Vec<Closed> },
    Sessions(Box<Sessions>),
}

/// A user equivalent.
struct Closed {
    rng: ChaCha8Rng,
    /// Files of the Web object still to be asked for after the current one.
    left: u32,
}

struct Sessions {
    model: SessionModel,
    times: ChaCha8Rng,
    /// When the last one drawn comes; the one after it is drawn when it has come.
    at: Nanos,
    drawn: u32,
    /// The requests that each session that has come still asks for, the pause before it first.
    open: HashMap<u32, VecDeque<(Nanos, u64)>>,
}

/// The arrivals and the requests of sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionModel {
    /// Mean number of requests, geometric: 1 to 1,000.
    pub requests: f64,
    /// Mean think time after each answer, exponential.
    pub think: Nanos,
    /// The load that all requests of the sessions put on the link, when each session is counted where it comes.
    pub load: LoadProfile,
    /// The link's time for a session, on average ([`SessionModel::link_time`]).
    pub session_ns: f64,
    /// No session comes from then on.
    pub until: Nanos,
}

impl SessionModel {
    /// Returns what a session of this many requests takes of the link, if these are the sizes they ask for.
    pub fn link_time(sizes: &[u64], requests: f64, link: Rate) -> f64 {
        let bytes: f64 = sizes.iter().map(|&size| wire_bytes(size) as f64).sum();
        let per_session = requests * bytes / sizes.len().max(1) as f64 + wire::CONNECTION_BYTES as f64;
        per_session * 8e9 / link.bits_per_s() as f64
    }

    /// Says what is wrong with it and what would be right.
    pub fn check(&self) -> Result<(), String> {
        if !(1.0..=1000.0).contains(&self.requests) {
            return Err(format!("{} requests in the mean of a session: write 1 to 1000, such as 5", self.requests));
        }
        if self.think > Nanos::from_secs(86_400) {
            return Err(format!("a think time of {} s: write up to 86400 s", self.think.as_secs_f64()));
        }
        let sessions = self.load.offered(self.until) / self.session_ns;
        if sessions.is_nan() || sessions > 0.9 * f64::from(USERS_MAX) {
            return Err(format!("about {sessions:.0} sessions are more than {USERS_MAX}: write fewer seconds"));
        }
        Ok(())
    }
}

impl Population {
    /// Returns a population of user equivalents, who come within the first ten seconds and stay until then.
    pub fn users(users: u32, model: UserModel, until: Nanos, sizes: EndlessSizes, seed: u64) -> Population {
        assert!((1..=USERS_MAX).contains(&users), "{users} users");
        let mut due = BinaryHeap::new();
        let users = (0..users).map(|number| {
            let mut rng = stream(seed, u64::from(number) + 1);
            let left = model.embedded(&mut rng) - 1;
            due.push(Reverse((model.start(&mut rng), number)));
            Closed { rng, left }
        });
        let kind = Kind::Closed { model, users: users.collect() };
        due.retain(|Reverse((at, _))| *at < until);
        Population { kind, sizes, seed, until, due }
    }

    /// Sessions that come as Poisson arrivals whose rate follows the load.
    pub fn sessions(model: SessionModel, sizes: EndlessSizes, seed: u64) -> Population {
        let (until, times) = (model.until, stream(seed, 0));
        let sessions = Sessions { model, times, at: Nanos::ZERO, drawn: 0, open: HashMap::new() };
        let kind = Kind::Sessions(Box::new(sessions));
        let mut population = Population { kind, sizes, seed, until, due: BinaryHeap::new() };
        population.draw_session();
        population
    }

    /// Draws the session that comes next, and all it asks for.
    fn draw_session(&mut self) {
        let Kind::Sessions(sessions) = &mut self.kind else { return };
        let Sessions { model, times, at, drawn, open } = &mut **sessions;
        *at = model.load.after(*at, exponential(times) * model.session_ns);
        if *at >= model.until || *drawn == USERS_MAX {
            return;
        }
        let mut rng = stream(self.seed, u64::from(*drawn) + 1);
        let requests = requests(model.requests, &mut rng);
        let asks = (0..requests).zip(&mut self.sizes).map(|(_, size_bytes)| {
            let think = Nanos((exponential(&mut rng) * model.think.0 as f64) as u64);
            (think, size_bytes)
        });
        open.insert(*drawn, asks.collect());
        self.due.push(Reverse((*at, *drawn)));
        *drawn += 1;
    }
}

impl Source for Population {
    fn due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    fn take(&mut self) -> Option<Ask> {
        let Reverse((at, user)) = self.due.pop()?;
        let size_bytes = match &mut self.kind {
            Kind::Closed { .. } => self.sizes.next()?,
            Kind::Sessions(sessions) => {
                let (_, size_bytes) = sessions.open.get_mut(&user)?.pop_front()?;
                if user + 1 == sessions.drawn && at == sessions.at {
                    self.draw_session();
                }
                size_bytes
            }
        };
        Some(Ask { at, size_bytes, user: Some(user), group: None, client: None, part: None })
    }

    fn on_end(&mut self, user: u32, at: Nanos) -> bool {
        let think = match &mut self.kind {
            Kind::Closed { model, users } => users.get_mut(user as usize).map(|closed| closed.pause(model)),
            Kind::Sessions(sessions) => sessions.open.get(&user).and_then(|asks| asks.front()).map(|&(think, _)| think),
        };
        match think.map(|think| at + think).filter(|&at| at < self.until) {
            Some(at) => {
                self.due.push(Reverse((at, user)));
                true
            }
            None => {
                if let Kind::Sessions(sessions) = &mut self.kind {
                    sessions.open.remove(&user);
                }
                false
            }
        }
    }

    fn last_at(&self) -> Nanos {
        self.until
    }

    fn count(&self) -> Option<usize> {
        None
    }
}

impl Closed {
    /// The time until the next request: short inside a Web object, long between two.
    fn pause(&mut self, model: &UserModel) -> Nanos {
        if let Some(fewer) = self.left.checked_sub(1) {
            self.left = fewer;
            return model.active_off(&mut self.rng);
        }
        self.left = model.embedded(&mut self.rng) - 1;
        model.inactive_off(&mut self.rng)
    }
}

/// The sizes of a trace in their order, then again and again in orders drawn by the seed; at least one.
pub fn endless(mut sizes: Vec<u64>, seed: u64) -> EndlessSizes {
    assert!(!sizes.is_empty(), "nothing to ask for");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut next = 0;
    Box::new(std::iter::repeat_with(move || {
        if next == sizes.len() {
            sizes.shuffle(&mut rng);
            next = 0;
        }
        next += 1;
        sizes[next - 1]
    }))
}

fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// Draws from an exponential distribution with mean 1.
fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    -(1.0 - unit(rng)).ln()
}

/// Geometric from 1 on.
fn requests(mean: f64, rng: &mut ChaCha8Rng) -> u32 {
    if mean == 1.0 {
        let _ = rng.next_u64();
        return 1;
    }
    let failures = (1.0 - unit(rng)).ln() / (1.0 - 1.0 / mean).ln();
    1 + (failures as u32).min(SESSION_REQUESTS_MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTIL: Nanos = Nanos::from_secs(200);

    fn cycled(sizes: &'static [u64]) -> EndlessSizes {
        Box::new(sizes.iter().copied().cycle())
    }

    fn sessions(requests: f64, load: &str, seed: u64) -> Population {
        let think = Nanos::from_secs(2);
        let model = SessionModel { requests, think, load: load.parse().unwrap(), session_ns: 1e7, until: UNTIL };
        assert_eq!(model.check(), Ok(()));
        Population::sessions(model, cycled(&[100, 200, 300]), seed)
    }

    /// Every request, with the user and what came of the pause after it; each is answered after so long.
    fn asks(population: &mut Population, answer: impl Fn(u32) -> Nanos) -> Vec<Ask> {
        let mut asks = Vec::new();
        // Requests under way: when each ends.
        let mut ends: BinaryHeap<Reverse<(Nanos, u32)>> = BinaryHeap::new();
        loop {
            let end = ends.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at);
            match population.due() {
                Some(due) if due <= end => {
                    let ask = population.take().unwrap();
                    assert_eq!(ask.at, due);
                    let user = ask.user.unwrap();
                    ends.push(Reverse((ask.at + answer(user), user)));
                    asks.push(ask);
                }
                _ => match ends.pop() {
                    Some(Reverse((at, user))) => drop(population.on_end(user, at)),
                    None => return asks,
                },
            }
        }
    }

    fn at_once(_: u32) -> Nanos {
        Nanos::ZERO
    }

    fn by_user(asks: &[Ask]) -> HashMap<u32, Vec<Ask>> {
        let mut users: HashMap<u32, Vec<Ask>> = HashMap::new();
        asks.iter().for_each(|ask| users.entry(ask.user.unwrap()).or_default().push(*ask));
        users
    }

    #[test]
    fn sessions_come_at_the_load_and_ask_as_often_as_they_should() {
        let found = asks(&mut sessions(5.0, "constant:0.5", 1), at_once);
        assert!(found.is_sorted_by_key(|ask| ask.at));
        let users = by_user(&found);
        // 200 s at 0.5 and 10 ms each: 10,000, four standard deviations of 100.
        assert!((9_600..10_400).contains(&users.len()), "{} sessions", users.len());
        // Of the first half nobody is cut short by the end. The standard deviation of their requests is 4.47.
        let early: Vec<&Vec<Ask>> = users.values().filter(|asks| asks[0].at < Nanos::from_secs(100)).collect();
        let mean = early.iter().map(|asks| asks.len()).sum::<usize>() as f64 / early.len() as f64;
        assert!((mean - 5.0).abs() < 0.25, "{mean}");
        let one = early.iter().filter(|asks| asks.len() == 1).count() as f64 / early.len() as f64;
        assert!((one - 0.2).abs() < 0.025, "{one} ask once");
        let thinks: Vec<f64> =
            early.iter().flat_map(|asks| asks.windows(2)).map(|two| (two[1].at - two[0].at).as_secs_f64()).collect();
        let mean = thinks.iter().sum::<f64>() / thinks.len() as f64;
        assert!((mean - 2.0).abs() < 0.07, "{mean} s");
        let long = thinks.iter().filter(|&&think| think > 2.0).count() as f64 / thinks.len() as f64;
        assert!((long - (-1f64).exp()).abs() < 0.02, "{long} think longer than the mean");
        let single = asks(&mut sessions(1.0, "constant:0.5", 1), at_once);
        assert_eq!(by_user(&single).len(), single.len());
    }

    #[test]
    fn sessions_follow_the_profile() {
        let found = asks(&mut sessions(1.0, "10s@0.1,10s@0.9", 1), at_once);
        let high = found.iter().filter(|ask| ask.at.0 / 10_000_000_000 % 2 == 1).count() as f64;
        assert!((high / found.len() as f64 - 0.9).abs() < 0.02, "{high} of {}", found.len());
    }

    #[test]
    fn a_session_is_the_same_however_long_the_answers_take() {
        let fast = by_user(&asks(&mut sessions(5.0, "constant:0.5", 3), at_once));
        let slow = |user: u32| Nanos::from_millis(u64::from(user) * 7919 % 3000);
        let late = by_user(&asks(&mut sessions(5.0, "constant:0.5", 3), slow));
        assert_eq!(fast.len(), late.len());
        for (user, asks) in fast.iter().filter(|(_, asks)| asks[0].at < Nanos::from_secs(50)) {
            let late = &late[user];
            assert_eq!(asks[0], late[0]);
            assert!(asks.iter().zip(late).all(|(one, other)| one.size_bytes == other.size_bytes));
            // Each answer delays all that comes after it, and nothing else.
            let shift = |n: usize| Nanos(slow(*user).0 * n as u64);
            assert!(asks.iter().zip(late).enumerate().all(|(n, (one, other))| one.at + shift(n) == other.at));
        }
        let other = asks(&mut sessions(5.0, "constant:0.5", 4), at_once);
        assert_ne!(by_user(&other)[&0], fast[&0]);
    }

    #[test]
    fn whoever_has_no_more_to_ask_leaves() {
        let mut population = sessions(1.0, "constant:0.5", 1);
        let ask = population.take().unwrap();
        assert!(!population.on_end(ask.user.unwrap(), ask.at));
        let mut users = Population::users(1, UserModel::PUBLISHED, UNTIL, cycled(&[1]), 1);
        let ask = users.take().unwrap();
        assert_eq!((users.due(), users.take()), (None, None), "he waits");
        assert!(users.on_end(0, ask.at) && users.due().is_some());
        users.take();
        assert!(!users.on_end(0, UNTIL), "it is too late");
        assert_eq!((users.due(), users.count(), users.last_at()), (None, None, UNTIL));
    }

    #[test]
    fn a_list_is_read_again_in_another_order() {
        let found: Vec<u64> = endless((0..50).collect(), 1).take(150).collect();
        assert!(found[..50].iter().copied().eq(0..50));
        assert_ne!(found[50..100], found[..50]);
        let mut second = found[50..100].to_vec();
        second.sort_unstable();
        assert_eq!(second, found[..50]);
    }

    #[test]
    fn link_time_by_hand() {
        // 1,208 + 240 bytes are one full segment of 1,514 on the wire; the connection has 206.
        let ns = SessionModel::link_time(&[1208], 5.0, "10mbit".parse().unwrap());
        assert!((ns - (5.0 * 1514.0 + 206.0) * 800.0).abs() < 1e-3, "{ns}");
    }

    #[test]
    fn users_stay_and_read_one_list() {
        let users = || Population::users(3, UserModel::PUBLISHED, UNTIL, cycled(&[10, 20, 30, 40]), 5);
        let fast = asks(&mut users(), at_once);
        let late = asks(&mut users(), |_| Nanos::from_millis(100));
        assert!(fast.len() > late.len() && late.len() > 100, "a slow server is asked less");
        for found in [&fast, &late] {
            assert!(found.iter().zip([10, 20, 30, 40].into_iter().cycle()).all(|(ask, size)| ask.size_bytes == size));
        }
        // The same pauses, whatever the others do.
        let (fast, late) = (by_user(&fast), by_user(&late));
        for (user, asks) in late {
            assert!(asks[0].at < Nanos::from_secs(10));
            let shifted = fast[&user].iter().zip(&asks).enumerate();
            shifted.for_each(|(n, (one, other))| assert_eq!(one.at + Nanos::from_millis(100 * n as u64), other.at));
        }
    }

    #[test]
    fn users_pause_as_surges_do() {
        let mut population = Population::users(50, UserModel::PUBLISHED, UNTIL, cycled(&[1]), 1);
        let users = by_user(&asks(&mut population, at_once));
        let pauses: Vec<Nanos> =
            users.values().flat_map(|asks| asks.windows(2)).map(|two| two[1].at - two[0].at).collect();
        // Inactive OFF times are at least a second and follow the last file of an object: one in 1.37 files.
        let inactive = pauses.iter().filter(|&&pause| pause >= Nanos::from_secs(1)).count() as f64;
        assert!((pauses.len() as f64 / inactive - 1.37).abs() < 0.1, "{inactive} of {}", pauses.len());
    }

    #[test]
    fn impossible_sessions_are_refused_in_words() {
        let load: LoadProfile = "constant:0.5".parse().unwrap();
        let good = SessionModel { requests: 5.0, think: Nanos::from_secs(2), load, session_ns: 1e7, until: UNTIL };
        for (wrong, said) in [
            (SessionModel { requests: 0.5, ..good.clone() }, "write 1 to 1000"),
            (SessionModel { requests: f64::NAN, ..good.clone() }, "write 1 to 1000"),
            (SessionModel { think: Nanos::from_secs(100_000), ..good.clone() }, "up to 86400 s"),
            (SessionModel { until: Nanos::from_secs(1_000_000_000), ..good.clone() }, "write fewer seconds"),
        ] {
            assert!(wrong.check().unwrap_err().contains(said), "{wrong:?}");
        }
    }
}
