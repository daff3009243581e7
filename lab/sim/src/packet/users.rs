//! Closed load: users wait for a response before they send the next request, so a slow server receives fewer.
//!
//! They are SURGE's user equivalents (`workload::surge`): a file, the files embedded in it with a pause before each,
//! then a longer pause. Each has its own random stream, so user 7 requests the same files with the same pauses under
//! every policy. User u uses path u modulo the number of paths, and opens a connection for every request.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use units::Nanos;
use workload::surge::UserModel;
use workload::{Distribution, Job, Sampler};

use super::config::in_range;
use super::world::{Event, World};
use super::{Config, ConfigError};

/// The users, the time for which they send requests, and their files.
#[derive(Debug, Clone)]
pub struct ClosedLoad {
    /// The number of users, 1 to [`USERS_MAX`].
    pub users: u32,
    pub sizes: Distribution,
    /// The instant from which no user sends requests.
    pub until: Nanos,
    /// The maximum number of requests. Either this or `until` must end the run.
    pub requests_max: u64,
}

impl ClosedLoad {
    /// Checks that the load is possible.
    pub fn check(&self, config: &Config) -> Result<(), ConfigError> {
        in_range("users", self.users, 1..=USERS_MAX)?;
        in_range("per_connection of users", config.per_connection, 1..=1)?;
        in_range("jobs", self.requests_max, 1..=u64::MAX)?;
        let is_endless = self.until == Nanos::MAX && self.requests_max == u64::MAX;
        in_range("seconds", if is_endless { Nanos::MAX } else { Nanos::ZERO }, Nanos::ZERO..=Nanos(u64::MAX - 1))
    }
}

/// The maximum number of users of a run; each costs a random stream and an event.
pub const USERS_MAX: u32 = 1 << 20;

/// The users of a run, and the number of them in a pause that an event in the calendar ends.
pub struct Users {
    users: Vec<User>,
    sizes: Sampler,
    model: UserModel,
    until: Nanos,
    left: u64,
    paused: usize,
}

struct User {
    rng: ChaCha8Rng,
    /// The files of the Web object still to be requested, after the current one.
    embedded: u32,
}

impl Users {
    pub fn new(load: &ClosedLoad, seed: u64) -> Users {
        let model = UserModel::PUBLISHED;
        let user = |number: u32| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(u64::from(number) + 1);
            User { embedded: model.embedded(&mut rng), rng }
        };
        let users = (0..load.users).map(user).collect();
        Users { users, sizes: load.sizes.sampler(), model, until: load.until, left: load.requests_max, paused: 0 }
    }

    /// Returns the users whose first request comes in time, each with its instant.
    fn starts(&mut self) -> Vec<(u32, Nanos)> {
        let starts = self.users.iter_mut().map(|user| self.model.start(&mut user.rng));
        let in_time = |(_, at): &(u32, Nanos)| *at < self.until;
        let starts: Vec<_> = (0..).zip(starts).filter(in_time).collect();
        self.paused = starts.len();
        starts
    }

    /// Returns true if no user will send another request, given that none waits for a response.
    pub fn are_done(&self) -> bool {
        self.paused == 0 || self.left == 0
    }

    /// Returns the request of a user at the end of a pause, unless the maximum has been reached.
    fn ask(&mut self, now: Nanos, user: u32) -> Option<Job> {
        self.paused -= 1;
        self.left = self.left.checked_sub(1)?;
        let user = &mut self.users[user as usize];
        Some(Job { arrival: now, size_bytes: self.sizes.sample(&mut user.rng), client: None })
    }

    /// Returns the instant of the user's next request; `None` if that is too late.
    fn pause(&mut self, now: Nanos, user: u32) -> Option<Nanos> {
        let user = &mut self.users[user as usize];
        let pause = if user.embedded > 1 {
            user.embedded -= 1;
            self.model.active_off(&mut user.rng)
        } else {
            user.embedded = self.model.embedded(&mut user.rng);
            self.model.inactive_off(&mut user.rng)
        };
        let at = now + pause;
        let is_in_time = at < self.until && self.left > 0;
        self.paused += usize::from(is_in_time);
        is_in_time.then_some(at)
    }
}

impl<J: Iterator<Item = Job>> World<'_, '_, J> {
    pub fn start_users(&mut self) {
        let Some(users) = &mut self.users else { return };
        let (starts, until) = (users.starts(), users.until);
        self.end_after_grace(until);
        for (user, at) in starts {
            self.calendar.push(at, Event::Ask { user });
        }
    }

    pub fn on_ask(&mut self, user: u32) {
        let users = self.users.as_mut().expect("only users ask");
        let Some(job) = users.ask(self.now, user) else { return };
        if users.left == 0 {
            self.end_after_grace(self.now);
        }
        self.submit_job(job, Some(user));
    }

    /// Starts the pause of a user whose request has ended, with any outcome.
    pub fn pause(&mut self, user: u32) {
        let at = self.users.as_mut().and_then(|users| users.pause(self.now, user));
        if let Some(at) = at {
            self.calendar.push(at, Event::Ask { user });
        }
    }
}
