//! The thread that verifies passwords, and its queue.

use config::ClientPrefix;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use units::Nanos;

use super::attempts::Attempts;
use super::kept_verdicts::{Key, Secret, Verdicts};
use super::{Credentials, Users};
use crate::client_turns::Turns;
use crate::clock;

/// The maximum number of passwords that wait to be verified, of all clients. The next constant is that of one client.
pub const WAITING_MAX: usize = 256;
pub const WAITING_PER_CLIENT_MAX: usize = 4;

/// A callback that the verifying thread calls with the verdict.
pub type Tell = Box<dyn FnOnce(bool) + Send>;

/// The reason why a password cannot be verified now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The client has sent too many wrong passwords. It may send another after this time.
    TooOften { retry_after_s: u64 },
    /// Too many passwords of this client or of all clients are waiting already.
    Busy,
}

/// Verifies passwords for all event loops.
pub struct Verifier {
    secret: Secret,
    prefix: ClientPrefix,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    verdicts: Verdicts,
    attempts: Attempts,
    waiting: Turns<Waiting>,
    /// The callbacks for each password that waits or is being verified. There may be several, because a page may
    /// request many files with the same password at the same time.
    askers: HashMap<Key, Vec<Tell>>,
    has_thread: bool,
    is_stopping: bool,
}

/// A password that waits.
struct Waiting {
    key: Key,
    prefix: u128,
    users: Arc<Users>,
    credentials: Credentials,
}

impl Verifier {
    /// Creates a verifier. A thread must run [`Verifier::work`].
    pub fn new(prefix: ClientPrefix) -> Verifier {
        Verifier { secret: Secret::new(), prefix, state: Mutex::default(), wake: Condvar::new() }
    }

    /// Returns true, once, if a thread must be started.
    pub fn needs_thread(&self) -> bool {
        !std::mem::replace(&mut self.state().has_thread, true)
    }

    /// Returns the verdict on a password, if it was verified recently.
    pub fn known(&self, now: Nanos, users: &Users, credentials: &Credentials) -> Option<bool> {
        let key = self.secret.key(users, credentials);
        self.state().verdicts.get(now, &key)
    }

    /// Queues a password for verification. `tell` is called with the verdict.
    pub fn ask(
        &self,
        now: Nanos,
        (client, address): (u32, IpAddr),
        users: Arc<Users>,
        credentials: Credentials,
        tell: Tell,
    ) -> Result<(), Refused> {
        let (key, prefix) = (self.secret.key(&users, &credentials), self.prefix.of(address));
        let mut state = self.state();
        if let Some(askers) = state.askers.get_mut(&key) {
            askers.push(tell);
            return Ok(());
        }
        if let Some(wait) = state.attempts.wait(now, prefix) {
            return Err(Refused::TooOften { retry_after_s: wait.0.div_ceil(1_000_000_000).max(1) });
        }
        if state.waiting.len() >= WAITING_MAX || state.waiting.len_of(client) >= WAITING_PER_CLIENT_MAX {
            return Err(Refused::Busy);
        }
        state.askers.insert(key, vec![tell]);
        state.waiting.push(client, Waiting { key, prefix, users, credentials });
        self.wake.notify_one();
        Ok(())
    }

    /// Verifies passwords until [`Verifier::stop`], for clients in round robin.
    pub fn work(&self) {
        while let Some(waiting) = self.next() {
            let is_right = waiting.users.verify(&waiting.credentials);
            self.finish(clock::now(), &waiting, is_right);
        }
    }

    /// Ends the thread after the current verification.
    pub fn stop(&self) {
        self.state().is_stopping = true;
        self.wake.notify_all();
    }

    fn next(&self) -> Option<Waiting> {
        let mut state = self.state();
        loop {
            if state.is_stopping {
                return None;
            }
            if let Some(waiting) = state.waiting.pop() {
                return Some(waiting);
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, now: Nanos, waiting: &Waiting, is_right: bool) {
        let mut state = self.state();
        state.verdicts.keep(now, waiting.key, is_right);
        if !is_right {
            state.attempts.note(now, waiting.prefix);
        }
        let askers = state.askers.remove(&waiting.key).unwrap_or_default();
        drop(state);
        askers.into_iter().for_each(|tell| tell(is_right));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::channel;

    use super::super::attempts::BURST;
    use super::*;
    use crate::threads::Threads;

    const NOW: Nanos = Nanos::from_secs(1);

    struct Bench {
        verifier: Verifier,
        users: Arc<Users>,
        told: [Arc<AtomicUsize>; 2],
    }

    impl Bench {
        fn new() -> Bench {
            let text = format!("ada:{}", bcrypt::hash("right", 4).unwrap());
            let users = Arc::new(Users::read(text.as_bytes()).unwrap());
            Bench { verifier: Verifier::new(ClientPrefix::default()), users, told: Default::default() }
        }

        fn ask(&self, client: u32, password: &str) -> Result<(), Refused> {
            let credentials = Credentials { user: "ada".into(), password: password.into() };
            let told = self.told.clone();
            let tell = Box::new(move |is_right: bool| {
                told[usize::from(is_right)].fetch_add(1, SeqCst);
            });
            let address = IpAddr::from([127, 0, 0, client as u8]);
            self.verifier.ask(NOW, (client, address), Arc::clone(&self.users), credentials, tell)
        }

        /// Verifies all that wait.
        fn work(&self) -> usize {
            let mut count = 0;
            while self.verifier.state().waiting.len() > 0 {
                let waiting = self.verifier.next().unwrap();
                let is_right = waiting.users.verify(&waiting.credentials);
                self.verifier.finish(NOW, &waiting, is_right);
                count += 1;
            }
            count
        }

        fn known(&self, password: &str) -> Option<bool> {
            let credentials = Credentials { user: "ada".into(), password: password.into() };
            self.verifier.known(NOW, &self.users, &credentials)
        }

        fn told(&self) -> [usize; 2] {
            [0, 1].map(|is_right| self.told[is_right].load(SeqCst))
        }
    }

    #[test]
    fn a_password_is_verified_once_for_all_who_ask() {
        let bench = Bench::new();
        assert_eq!(bench.known("right"), None);
        for client in [1, 1, 1, 1, 1, 1, 2] {
            assert_eq!(bench.ask(client, "right"), Ok(()));
        }
        assert_eq!((bench.work(), bench.told(), bench.known("right")), (1, [0, 7], Some(true)));
        assert_eq!((bench.ask(3, "wrong"), bench.work()), (Ok(()), 1));
        assert_eq!((bench.told(), bench.known("wrong")), ([1, 7], Some(false)));
    }

    #[test]
    fn a_client_has_so_many_waiting_and_so_many_wrong() {
        let bench = Bench::new();
        for guess in 0..WAITING_PER_CLIENT_MAX {
            assert_eq!(bench.ask(1, &guess.to_string()), Ok(()));
        }
        assert_eq!((bench.ask(1, "one more"), bench.ask(2, "another's")), (Err(Refused::Busy), Ok(())));
        bench.work();
        for guess in WAITING_PER_CLIENT_MAX..BURST as usize {
            assert_eq!((bench.ask(1, &guess.to_string()), bench.work()), (Ok(()), 1));
        }
        assert_eq!(bench.ask(1, "right"), Err(Refused::TooOften { retry_after_s: 6 }));
        assert_eq!((bench.ask(2, "right"), bench.work(), bench.known("right")), (Ok(()), 1, Some(true)));
    }

    #[test]
    fn no_more_than_so_many_wait() {
        let bench = Bench::new();
        let accepted =
            (0..2 * WAITING_MAX as u32).filter(|client| bench.ask(client % 251, &client.to_string()).is_ok());
        assert_eq!(accepted.count(), WAITING_MAX);
        assert_eq!(bench.ask(252, "x"), Err(Refused::Busy));
    }

    #[test]
    fn a_thread_ends_when_it_is_told_to() {
        let bench = Arc::new(Bench::new());
        let working = Arc::clone(&bench);
        let thread = std::thread::spawn(move || working.verifier.work());
        bench.ask(1, "right").unwrap();
        while bench.told() != [0, 1] {
            std::thread::yield_now();
        }
        bench.verifier.stop();
        thread.join().unwrap();
    }

    /// Otherwise all who log in would wait for ever.
    #[test]
    fn a_panic_of_the_thread_is_a_failure_of_the_server() {
        let (bench, (tell, told)) = (Arc::new(Bench::new()), channel());
        let threads = Threads::start(None, move || tell.send(()).unwrap()).unwrap();
        let (address, users) = (IpAddr::from([127, 0, 0, 1]), Arc::clone(&bench.users));
        let credentials = Credentials { user: "ada".into(), password: "right".into() };
        let tell = Box::new(|_| panic!("planted"));
        bench.verifier.ask(NOW, (1, address), users, credentials, tell).unwrap();
        let working = Arc::clone(&bench);
        let work = move || {
            working.verifier.work();
            Ok(())
        };
        threads.spawn("weir-login", work).unwrap();
        told.recv().unwrap();
        assert_eq!(threads.failure().unwrap().to_string(), "thread weir-login ended: panic: planted");
    }
}
