//! Users who wait for a response before they send the next request, so a slow server receives fewer: SURGE's closed
//! load, a fixed number of user equivalents who never leave.
//!
//! Each user has a separate random stream, and all read one list of files, so the k-th request of a run is for the same
//! file whichever user makes it, as in Murta and Corlassoli (2003, section 4): "each run serviced the same requests in
//! the same sequence".

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use units::Nanos;

use crate::surge::UserModel;
use crate::{Ask, Source};

/// An endless sequence of sizes to request.
pub type EndlessSizes = Box<dyn Iterator<Item = u64> + Send>;

/// The maximum number of users of a population; each costs a random stream.
pub const USERS_MAX: u32 = 1 << 20;

/// User equivalents, who arrive within the first ten seconds.
pub struct Population {
    model: UserModel,
    users: Vec<User>,
    sizes: EndlessSizes,
    /// The instant from which no user sends requests.
    until: Nanos,
    /// The users and the instants of their next requests, the earliest first; at most one for each user.
    due: BinaryHeap<Reverse<(Nanos, u32)>>,
}

/// A user equivalent.
struct User {
    rng: ChaCha8Rng,
    /// The files of the Web object still to be requested after the current one.
    left: u32,
}

impl Population {
    /// Creates a population of user equivalents, who arrive within the first ten seconds and stay until `until`.
    pub fn users(users: u32, model: UserModel, until: Nanos, sizes: EndlessSizes, seed: u64) -> Population {
        assert!((1..=USERS_MAX).contains(&users), "{users} users");
        let mut due = BinaryHeap::new();
        let users = (0..users).map(|number| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(u64::from(number) + 1);
            let left = model.embedded(&mut rng) - 1;
            due.push(Reverse((model.start(&mut rng), number)));
            User { rng, left }
        });
        let users = users.collect();
        due.retain(|Reverse((at, _))| *at < until);
        Population { model, users, sizes, until, due }
    }
}

impl Source for Population {
    fn due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    fn take(&mut self) -> Option<Ask> {
        let Reverse((at, user)) = self.due.pop()?;
        let size_bytes = self.sizes.next()?;
        Some(Ask { at, size_bytes, user: Some(user), group: None, client: None, part: None })
    }

    fn on_end(&mut self, user: u32, at: Nanos) -> bool {
        let pause = self.users.get_mut(user as usize).map(|user| user.pause(&self.model));
        let next = pause.map(|pause| at + pause).filter(|&at| at < self.until);
        self.due.extend(next.map(|at| Reverse((at, user))));
        next.is_some()
    }

    fn last_at(&self) -> Nanos {
        self.until
    }

    fn count(&self) -> Option<usize> {
        None
    }
}

impl User {
    /// The time until the next request: short within a Web object, long between two.
    fn pause(&mut self, model: &UserModel) -> Nanos {
        if let Some(fewer) = self.left.checked_sub(1) {
            self.left = fewer;
            return model.active_off(&mut self.rng);
        }
        self.left = model.embedded(&mut self.rng) - 1;
        model.inactive_off(&mut self.rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const UNTIL: Nanos = Nanos::from_secs(200);

    fn cycled(sizes: &'static [u64]) -> EndlessSizes {
        Box::new(sizes.iter().copied().cycle())
    }

    /// Runs a population in which each request takes `answer(user)`, and returns every request.
    fn asks(population: &mut Population, answer: impl Fn(u32) -> Nanos) -> Vec<Ask> {
        let mut asks = Vec::new();
        // The requests in flight, with the instants at which they end.
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
    fn a_user_waits_and_asks_until_the_end() {
        let mut users = Population::users(1, UserModel::PUBLISHED, UNTIL, cycled(&[1]), 1);
        let ask = users.take().unwrap();
        assert_eq!((users.due(), users.take()), (None, None), "he waits");
        assert!(users.on_end(0, ask.at) && users.due().is_some());
        users.take();
        assert!(!users.on_end(0, UNTIL), "it is too late");
        assert_eq!((users.due(), users.count(), users.last_at()), (None, None, UNTIL));
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
        // The pauses of a user are the same, whatever the others do.
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
}
