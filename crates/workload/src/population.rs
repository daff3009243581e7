//! Users who wait for an answer before they ask again, so that a slow server is asked less.
//!
//! Two kinds, behind one interface. [`Population::users`] is SURGE's closed load: a fixed number of user equivalents who
//! never leave. [`Population::sessions`] is partly open (Schroeder & Harchol-Balter 2003, section 3, and the same
//! authors with Wierman 2006): sessions come by themselves like the requests of an open system, and each then asks for
//! some requests on one connection, with a think time after each answer.
//!
//! Nothing here waits: whoever runs the load takes the users as they come ([`Population::arrive`]) and asks after every
//! answer, or what became of it, what the user does next ([`Population::next`]). Each user has a random stream of his
//! own. What a session asks for is drawn when it comes, so it is the same under every policy; SURGE's users read one
//! list of files, so the k-th request of a run is for the same file whoever makes it, as in Murta and Corlassoli (2003,
//! section 5): "each run serviced the same requests in the same sequence".

use std::collections::{HashMap, VecDeque};

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use units::{Nanos, Rate, wire};

use crate::surge::UserModel;
use crate::synthetic::unit;
use crate::{LoadProfile, wire_bytes};

/// Sizes to ask for, without end.
pub type EndlessSizes = Box<dyn Iterator<Item = u64> + Send>;

/// Users a population may have at once, and sessions in all: each costs a random stream.
pub const USERS_MAX: u32 = 1 << 20;

/// The most requests of one session; at a mean of 1,000, the largest allowed, one session in 22,000 is cut.
const SESSION_REQUESTS_MAX: u32 = 10_000;

/// Users, from their coming to their leaving.
pub struct Population {
    kind: Kind,
    sizes: EndlessSizes,
    seed: u64,
    /// Users who have come.
    arrived: u32,
}

enum Kind {
    Closed { model: UserModel, users: Vec<Closed>, starts: VecDeque<(Nanos, u32)> },
    Sessions { model: SessionModel, times: ChaCha8Rng, at: Nanos, open: HashMap<u32, VecDeque<Step>> },
}

/// A user equivalent.
struct Closed {
    rng: ChaCha8Rng,
    /// Files of the Web object still to be asked for after the current one.
    left: u32,
}

/// The first request of somebody who comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct First {
    pub user: u32,
    pub at: Nanos,
    pub size_bytes: u64,
}

/// What somebody does after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// From the answer to the request.
    pub think: Nanos,
    pub size_bytes: u64,
    /// Asked on the connection of the request before, if that is still open.
    pub same_connection: bool,
}

/// How sessions come and what they do.
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
    /// What a session of this many requests takes of the link, if these are the sizes they ask for.
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
    /// So many user equivalents, who come within the first ten seconds and stay.
    pub fn users(users: u32, model: UserModel, sizes: EndlessSizes, seed: u64) -> Population {
        assert!((1..=USERS_MAX).contains(&users), "{users} users");
        let mut starts = Vec::new();
        let users = (0..users).map(|number| {
            let mut rng = stream(seed, u64::from(number) + 1);
            let left = model.embedded(&mut rng) - 1;
            starts.push((model.start(&mut rng), number));
            Closed { rng, left }
        });
        let users = users.collect();
        starts.sort_unstable();
        Population { kind: Kind::Closed { model, users, starts: starts.into() }, sizes, seed, arrived: 0 }
    }

    /// Sessions that come as Poisson arrivals whose rate follows the load.
    pub fn sessions(model: SessionModel, sizes: EndlessSizes, seed: u64) -> Population {
        let kind = Kind::Sessions { model, times: stream(seed, 0), at: Nanos::ZERO, open: HashMap::new() };
        Population { kind, sizes, seed, arrived: 0 }
    }

    /// The next user to come, in order of time; `None` when there are no more.
    pub fn arrive(&mut self) -> Option<First> {
        let (seed, sizes) = (self.seed, &mut self.sizes);
        let first = match &mut self.kind {
            Kind::Closed { starts, .. } => {
                let (at, user) = starts.pop_front()?;
                First { user, at, size_bytes: sizes.next()? }
            }
            Kind::Sessions { model, times, at, open } => {
                *at = model.load.after(*at, exponential(times) * model.session_ns);
                if *at >= model.until || self.arrived == USERS_MAX {
                    return None;
                }
                let user = self.arrived;
                let mut rng = stream(seed, u64::from(user) + 1);
                let size_bytes = sizes.next()?;
                let steps: VecDeque<Step> = (1..requests(model.requests, &mut rng))
                    .zip(sizes)
                    .map(|(_, size_bytes)| {
                        let think = Nanos((exponential(&mut rng) * model.think.0 as f64) as u64);
                        Step { think, size_bytes, same_connection: true }
                    })
                    .collect();
                if !steps.is_empty() {
                    open.insert(user, steps);
                }
                First { user, at: *at, size_bytes }
            }
        };
        self.arrived += 1;
        Some(first)
    }

    /// What this user does after an answer, or after giving up on one; `None` when he leaves.
    pub fn next(&mut self, user: u32) -> Option<Step> {
        match &mut self.kind {
            Kind::Closed { model, users, .. } => {
                let Closed { rng, left } = users.get_mut(user as usize)?;
                let think = match left.checked_sub(1) {
                    Some(fewer) => {
                        *left = fewer;
                        model.active_off(rng)
                    }
                    None => {
                        *left = model.embedded(rng) - 1;
                        model.inactive_off(rng)
                    }
                };
                Some(Step { think, size_bytes: self.sizes.next()?, same_connection: false })
            }
            Kind::Sessions { open, .. } => {
                let steps = open.get_mut(&user)?;
                let step = steps.pop_front();
                if steps.is_empty() {
                    open.remove(&user);
                }
                step
            }
        }
    }

    /// This user leaves: he never got an answer and will not ask again.
    pub fn leave(&mut self, user: u32) {
        if let Kind::Sessions { open, .. } = &mut self.kind {
            open.remove(&user);
        }
    }
}

fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// With mean 1.
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

    fn endless(sizes: &'static [u64]) -> EndlessSizes {
        Box::new(sizes.iter().copied().cycle())
    }

    fn sessions(requests: f64, load: &str, seed: u64) -> Population {
        let model = SessionModel {
            requests,
            think: Nanos::from_secs(2),
            load: load.parse().unwrap(),
            session_ns: 1e7,
            until: Nanos::from_secs(200),
        };
        assert_eq!(model.check(), Ok(()));
        Population::sessions(model, endless(&[100, 200, 300]), seed)
    }

    /// Who comes, and all that each does.
    fn all(population: &mut Population) -> Vec<(First, Vec<Step>)> {
        let firsts: Vec<First> = std::iter::from_fn(|| population.arrive()).collect();
        let all = firsts.into_iter().map(|first| (first, std::iter::from_fn(|| population.next(first.user)).collect()));
        all.collect()
    }

    #[test]
    fn sessions_come_at_the_load_and_ask_as_often_as_they_should() {
        let found = all(&mut sessions(5.0, "constant:0.5", 1));
        // 200 s at 0.5 and 10 ms each: 10,000, four standard deviations of 100.
        assert!((9_600..10_400).contains(&found.len()), "{} sessions", found.len());
        assert!(found.is_sorted_by_key(|(first, _)| first.at));
        let requests: usize = found.iter().map(|(_, steps)| 1 + steps.len()).sum();
        // The standard deviation of a geometric number of mean 5 is 4.47.
        assert!((requests as f64 / found.len() as f64 - 5.0).abs() < 0.2, "{requests}");
        let one = found.iter().filter(|(_, steps)| steps.is_empty()).count() as f64 / found.len() as f64;
        assert!((one - 0.2).abs() < 0.02, "{one} ask once");
        let thinks: Vec<f64> = found.iter().flat_map(|(_, steps)| steps).map(|step| step.think.as_secs_f64()).collect();
        let mean = thinks.iter().sum::<f64>() / thinks.len() as f64;
        assert!((mean - 2.0).abs() < 0.05, "{mean} s");
        let long = thinks.iter().filter(|&&think| think > 2.0).count() as f64 / thinks.len() as f64;
        assert!((long - (-1f64).exp()).abs() < 0.02, "{long} think longer than the mean");
        assert!(found.iter().flat_map(|(_, steps)| steps).all(|step| step.same_connection));
        assert!(all(&mut sessions(1.0, "constant:0.5", 1)).iter().all(|(_, steps)| steps.is_empty()));
    }

    #[test]
    fn sessions_follow_the_profile() {
        let found = all(&mut sessions(2.0, "10s@0.1,10s@0.9", 1));
        let high = found.iter().filter(|(first, _)| first.at.0 / 10_000_000_000 % 2 == 1).count() as f64;
        assert!((high / found.len() as f64 - 0.9).abs() < 0.02, "{high} of {}", found.len());
    }

    #[test]
    fn a_session_is_the_same_however_the_answers_come() {
        let in_turn = all(&mut sessions(5.0, "constant:0.5", 3));
        let mut population = sessions(5.0, "constant:0.5", 3);
        let firsts: Vec<First> = std::iter::from_fn(|| population.arrive()).collect();
        for (first, (expected, steps)) in firsts.iter().zip(&in_turn).rev() {
            assert_eq!(first, expected);
            let found: Vec<Step> = std::iter::from_fn(|| population.next(first.user)).collect();
            assert_eq!(&found, steps);
        }
        assert_ne!(all(&mut sessions(5.0, "constant:0.5", 4)), in_turn);
        let longest = in_turn.iter().max_by_key(|(_, steps)| steps.len()).unwrap().0;
        let mut left = sessions(5.0, "constant:0.5", 3);
        while left.arrive().is_some() {}
        left.leave(longest.user);
        assert_eq!(left.next(longest.user), None);
    }

    #[test]
    fn link_time_by_hand() {
        // 1,208 + 240 bytes are one full segment of 1,514 on the wire; the connection has 206.
        let ns = SessionModel::link_time(&[1208], 5.0, "10mbit".parse().unwrap());
        assert!((ns - (5.0 * 1514.0 + 206.0) * 800.0).abs() < 1e-3, "{ns}");
    }

    #[test]
    fn users_stay_and_read_one_list() {
        let users = || Population::users(3, UserModel::PUBLISHED, endless(&[10, 20, 30, 40]), 5);
        let mut one = users();
        let firsts: Vec<First> = std::iter::from_fn(|| one.arrive()).collect();
        assert_eq!(firsts.iter().map(|first| first.size_bytes).collect::<Vec<_>>(), [10, 20, 30]);
        assert!(firsts.is_sorted_by_key(|first| first.at) && firsts[2].at < Nanos::from_secs(10));
        let steps: Vec<Step> = (0..3000).map(|n| one.next(n % 3).unwrap()).collect();
        assert!(steps.iter().zip([40, 10, 20, 30].into_iter().cycle()).all(|(step, size)| step.size_bytes == size));
        // The same pauses, whoever else asks meanwhile.
        let mut other = users();
        let alone: Vec<Nanos> = (0..1000).map(|_| other.next(1).unwrap().think).collect();
        assert!(steps.iter().skip(1).step_by(3).map(|step| step.think).eq(alone));
        assert_eq!(one.next(3), None, "there is no such user");
    }

    #[test]
    fn users_pause_as_surges_do() {
        let mut population = Population::users(1, UserModel::PUBLISHED, endless(&[1]), 1);
        let thinks: Vec<Nanos> = (0..50_000).map(|_| population.next(0).unwrap().think).collect();
        // Inactive OFF times are at least a second and follow the last file of an object: one in 1.37 files.
        let inactive = thinks.iter().filter(|&&think| think >= Nanos::from_secs(1)).count() as f64;
        assert!((thinks.len() as f64 / inactive - 1.37).abs() < 0.03, "{inactive}");
    }

    #[test]
    fn impossible_sessions_are_refused_in_words() {
        let good = SessionModel {
            requests: 5.0,
            think: Nanos::from_secs(2),
            load: "constant:0.5".parse().unwrap(),
            session_ns: 1e7,
            until: Nanos::from_secs(200),
        };
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
