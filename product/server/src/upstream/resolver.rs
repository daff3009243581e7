//! The addresses of upstreams' names. The system's resolver may block its caller for half a minute, so dedicated
//! threads call it, up to [`LOOKUPS_MAX`] at a time. The resolver does not report how long an answer is valid, so each
//! name is looked up again every [`LOOK_UP_EVERY`], and at once if no connection to its addresses can be made, because a
//! container that is made anew has another address. A name has no address until its first answer, and no other name
//! waits for it. A name that is no longer found keeps its last addresses.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use config::{UpstreamAddress, UpstreamSocket};
use rustix::fs::Access;

use crate::wake::Wake;

/// Files that the C library reads to resolve a name.
pub const RESOLVER_FILES: [&str; 5] =
    ["/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"];
/// The time between two lookups of a name.
const LOOK_UP_EVERY: Duration = Duration::from_secs(10);
/// The minimum time between two lookups of a name whose addresses cannot be reached.
const LOOK_UP_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// The maximum number of concurrent lookups. Further names wait until one ends.
const LOOKUPS_MAX: usize = 8;
/// The maximum number of addresses used of one name.
const ADDRESSES_MAX: usize = 16;
/// The maximum time that a start, a reload or a check waits for the first answers. Slower answers are used when they
/// arrive.
const FIRST_ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// A host by name, with the port of an upstream. An address with a zone is a name too, because its interface may come and
/// go.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    pub host: String,
    pub port: u16,
}

/// The function that looks a name up.
type Resolve = dyn Fn(&Name) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The names of all upstreams, with their addresses.
pub struct Names {
    state: Mutex<State>,
    /// Notified when an answer has arrived.
    changed: Condvar,
    resolve: Box<Resolve>,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<Name, Known>,
    /// The names to be looked up, each once.
    asked: VecDeque<Name>,
    /// The number of threads that look names up.
    threads: usize,
    /// The number of answers so far.
    answers: u64,
    /// The wakes of the event loops whose requests wait for the next answer, each once.
    awaited_by: Vec<Arc<Wake>>,
}

#[derive(Debug, Default, Clone)]
struct Known {
    addresses: Vec<SocketAddr>,
    /// The reason why the last lookup found no address.
    failure: Option<String>,
    is_asked: bool,
    /// The time of the last lookup.
    asked_at: Option<Instant>,
    has_answer: bool,
}

/// The state of a name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    pub addresses: Vec<SocketAddr>,
    /// The reason why the last lookup failed, if it did.
    pub failure: Option<String>,
}

impl Default for Names {
    fn default() -> Names {
        Names::by(|name| {
            if let Some(zoned) = config::zoned(&name.host) {
                let address = config::in_zone(zoned, name.port).map_err(io::Error::other)?;
                return Ok(vec![SocketAddr::V6(address)]);
            }
            let found = (name.host.as_str(), name.port).to_socket_addrs();
            found.map(Iterator::collect).map_err(|error| match replaced(&RESOLVER_FILES) {
                Some(file) => io::Error::other(format!("{error}; {file}")),
                None => error,
            })
        })
    }
}

/// Returns the cause if one of these files cannot be opened although the rights of files allow it: another file has
/// taken its place, which the sandbox does not know.
fn replaced(files: &[&str]) -> Option<String> {
    let is_readable = |file: &&&str| rustix::fs::access(**file, Access::READ_OK).is_ok();
    let is_denied =
        |file: &&&str| File::open(**file).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    let file = files.iter().filter(is_readable).find(is_denied)?;
    Some(format!(
        "`{file}` was replaced, and the sandbox of a server of root does not allow the new file: run `weir upgrade`"
    ))
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().fmt(f)
    }
}

impl Name {
    /// Returns the name of a host, or as `Err` the socket address if the host is an address and needs no lookup.
    pub fn of(host: &str, port: u16) -> Result<Name, SocketAddr> {
        match host.parse::<IpAddr>() {
            Ok(address) => Err(SocketAddr::new(address, port)),
            Err(_) => Ok(Name { host: host.into(), port }),
        }
    }
}

impl Name {
    /// The name of an upstream; `None` if it is configured by an address or a path.
    pub fn of_upstream(upstream: &UpstreamAddress) -> Option<Name> {
        match &upstream.socket {
            UpstreamSocket::Tcp(host, port) | UpstreamSocket::Tls(host, port) => Name::of(host, *port).ok(),
            UpstreamSocket::Unix(_) => None,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Names {
    /// Creates a set of names that are looked up with `resolve`.
    pub fn by(resolve: impl Fn(&Name) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Names {
        Names { state: Mutex::default(), changed: Condvar::new(), resolve: Box::new(resolve) }
    }

    /// Locks the state. No code under this lock can panic and leave the state inconsistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up the names that are not known yet, and waits for the answers for a few seconds at most.
    pub fn introduce(self: &Arc<Names>, names: &[Name]) {
        let is_new = |state: &State, name: &Name| !state.known.get(name).is_some_and(|known| known.has_answer);
        self.ask(names, |known, _| !known.has_answer);
        let state = self.state();
        let waits = |state: &mut State| names.iter().any(|name| is_new(state, name));
        drop(self.changed.wait_timeout_while(state, FIRST_ANSWERS_WITHIN, waits));
    }

    /// Looks up the names whose last lookup is old enough, and forgets all other names. Returns the time until the next
    /// lookup is due.
    pub fn renew(self: &Arc<Names>, names: &[Name]) -> Duration {
        self.ask(names, |known, now| known.asked_at.is_none_or(|at| now - at >= LOOK_UP_EVERY));
        let (mut state, now) = (self.state(), Instant::now());
        state.known.retain(|name, known| known.is_asked || names.contains(name));
        let due =
            state.known.values().filter_map(|known| known.asked_at).map(|at| LOOK_UP_EVERY.saturating_sub(now - at));
        due.min().unwrap_or(LOOK_UP_EVERY)
    }

    /// Looks up names whose addresses cannot be reached, unless that was done just before.
    pub fn look_up_again(self: &Arc<Names>, names: &[Name]) {
        self.ask(names, |known, now| known.asked_at.is_none_or(|at| now - at >= LOOK_UP_AGAIN_AFTER));
    }

    /// Returns true if some of these names are being looked up. The next answer then sets the wake.
    pub fn is_awaited(&self, names: &[Name], wake: &Arc<Wake>) -> bool {
        let mut state = self.state();
        let is_awaited = names.iter().any(|name| state.known.get(name).is_some_and(|known| known.is_asked));
        if is_awaited && !state.awaited_by.iter().any(|known| Arc::ptr_eq(known, wake)) {
            state.awaited_by.push(Arc::clone(wake));
        }
        is_awaited
    }

    /// The number of answers so far.
    pub fn answers(&self) -> u64 {
        self.state().answers
    }

    /// Waits until the number of answers is no longer `answers`, for at most `within`; returns the number of answers.
    pub fn wait(&self, answers: u64, within: Duration) -> u64 {
        let has_none = |state: &mut State| state.answers == answers;
        let waited = self.changed.wait_timeout_while(self.state(), within, has_none);
        waited.map_or(answers, |(state, _)| state.answers)
    }

    /// Returns the current state of a name; without addresses if there is no answer yet.
    pub fn find(&self, name: &Name) -> Found {
        match self.state().known.get(name) {
            Some(Known { addresses, failure, has_answer: true, .. }) => {
                Found { addresses: addresses.clone(), failure: failure.clone() }
            }
            _ => Found { addresses: Vec::new(), failure: Some("the resolver has not answered yet".into()) },
        }
    }

    /// Makes every name look as if its last lookup was long ago.
    #[cfg(test)]
    pub fn forget_times(&self) {
        self.state().known.values_mut().for_each(|known| known.asked_at = None);
    }

    fn ask(self: &Arc<Names>, names: &[Name], is_due: impl Fn(&Known, Instant) -> bool) {
        let (mut state, now) = (self.state(), Instant::now());
        for name in names {
            let known = state.known.entry(name.clone()).or_default();
            if !known.is_asked && is_due(known, now) {
                (known.is_asked, known.asked_at) = (true, Some(now));
                state.asked.push_back(name.clone());
            }
        }
        while state.threads < LOOKUPS_MAX.min(state.asked.len() + state.threads) {
            let own = Arc::clone(self);
            // If no thread can be started, the next call makes the lookup.
            let spawned = thread::Builder::new().name("weir-lookup".into()).spawn(move || own.look_up());
            if spawned.is_err() {
                break;
            }
            state.threads += 1;
        }
    }

    /// Runs in a thread: looks up queued names until the queue is empty.
    fn look_up(&self) {
        loop {
            let mut state = self.state();
            let Some(name) = state.asked.pop_front() else {
                state.threads -= 1;
                return;
            };
            drop(state);
            let found = (self.resolve)(&name);
            let mut state = self.state();
            state.take(&name, found);
            std::mem::take(&mut state.awaited_by).iter().for_each(|wake| wake.set());
            drop(state);
            self.changed.notify_all();
        }
    }
}

impl State {
    fn take(&mut self, name: &Name, found: io::Result<Vec<SocketAddr>>) {
        let Some(known) = self.known.get_mut(name) else { return };
        (known.is_asked, known.has_answer) = (false, true);
        self.answers += 1;
        known.failure = match found {
            Ok(mut addresses) if !addresses.is_empty() => {
                // Resolvers rotate the order of addresses; a change of order is not a change.
                addresses.sort_unstable();
                addresses.dedup();
                addresses.truncate(ADDRESSES_MAX);
                known.addresses = addresses;
                None
            }
            Ok(_) => Some("the name has no address".into()),
            Err(error) => Some(units::plain(&error.to_string()).to_string()),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::sync::mpsc::channel;

    use super::*;

    fn name(host: &str) -> Name {
        Name { host: host.into(), port: 80 }
    }

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([198, 18, 0, last], 80))
    }

    #[test]
    fn an_address_is_no_name() {
        assert_eq!(Name::of("::1", 80), Err("[::1]:80".parse().unwrap()));
        assert_eq!(Name::of("app", 80), Ok(name("app")));
        assert_eq!(name("app").to_string(), "app:80");
        assert_eq!(Name::of("fe80::1%lo", 80).map(|name| name.to_string()), Ok("[fe80::1%lo]:80".into()));
        let names = Arc::<Names>::default();
        let [there, missing] = ["fe80::1%lo", "fe80::1%none9"].map(name);
        names.introduce(&[there.clone(), missing.clone()]);
        let found = names.find(&there).addresses;
        assert!(matches!(found[..], [SocketAddr::V6(address)] if address.scope_id() > 0), "{found:?}");
        assert_eq!(names.find(&missing).failure.as_deref(), Some("this machine has no interface `none9`"));
    }

    /// A slow lookup of one name once delayed the start of all sites, and a name that did not resolve once prevented
    /// it.
    #[test]
    fn a_name_that_is_not_found_or_not_answered_holds_no_other() {
        let (answer, answers) = channel::<()>();
        let answers = Mutex::new(answers);
        let names = Arc::new(Names::by(move |name| match name.host.as_str() {
            "slow" => {
                let _ = answers.lock().unwrap().recv();
                Ok(vec![address(9)])
            }
            "none" => Err(io::Error::other("failed to lookup address information")),
            "empty" => Ok(vec![]),
            _ => Ok(vec![address(2), address(1), address(2)]),
        }));
        let [slow, none, empty, app] = ["slow", "none", "empty", "app"].map(name);
        names.introduce(&[none.clone(), empty.clone(), app.clone()]);
        assert_eq!(names.find(&app), Found { addresses: vec![address(1), address(2)], failure: None });
        assert_eq!(names.find(&none).failure.as_deref(), Some("failed to lookup address information"));
        assert_eq!(names.find(&empty).failure.as_deref(), Some("the name has no address"));
        names.ask(std::slice::from_ref(&slow), |_, _| true);
        assert_eq!(names.find(&slow).failure.as_deref(), Some("the resolver has not answered yet"));
        let before = names.wait(u64::MAX, Duration::ZERO);
        answer.send(()).unwrap();
        names.wait(before, Duration::from_secs(100));
        assert_eq!(names.find(&slow).addresses, [address(9)]);
    }

    #[test]
    fn a_name_is_looked_up_again_and_keeps_its_addresses_where_that_fails() {
        let times = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&times);
        let names = Arc::new(Names::by(move |_| match counted.fetch_add(1, SeqCst) {
            0 => Ok(vec![address(1)]),
            1 => Err(io::Error::other("gone")),
            _ => Ok(vec![address(2)]),
        }));
        let app = name("app");
        names.introduce(std::slice::from_ref(&app));
        names.introduce(std::slice::from_ref(&app));
        assert!(names.renew(std::slice::from_ref(&app)) > Duration::ZERO && times.load(SeqCst) == 1, "it is not due");
        let mut found = Vec::new();
        for answers in 1..3 {
            names.ask(std::slice::from_ref(&app), |_, _| true);
            names.wait(answers, Duration::from_secs(100));
            found.push(names.find(&app));
        }
        let gone = Found { addresses: vec![address(1)], failure: Some("gone".into()) };
        assert_eq!(found, [gone, Found { addresses: vec![address(2)], failure: None }]);
        names.renew(&[]);
        assert!(names.state().known.is_empty(), "nobody has it any more");
    }

    #[test]
    fn an_unreachable_name_is_looked_up_once_a_second_and_its_answer_wakes_a_loop() {
        let (times, wake) = (Arc::new(AtomicU64::new(0)), Arc::new(Wake::new().unwrap()));
        let counted = Arc::clone(&times);
        let names = Arc::new(Names::by(move |_| {
            counted.fetch_add(1, SeqCst);
            Ok(vec![address(1)])
        }));
        let app = [name("app")];
        names.introduce(&app);
        names.look_up_again(&app);
        assert!(!names.is_awaited(&app, &wake) && times.load(SeqCst) == 1, "that was just now");
        let before = names.answers();
        names.forget_times();
        (0..3).for_each(|_| names.look_up_again(&app));
        names.wait(before, Duration::from_secs(100));
        assert_eq!((names.answers(), times.load(SeqCst)), (2, 2));
        let pending = names.state().known.get_mut(&app[0]).map(|known| known.is_asked = true);
        assert!(pending.is_some() && names.is_awaited(&app, &wake) && names.is_awaited(&app, &wake));
        assert_eq!(names.state().awaited_by.len(), 1, "each loop stands there once");
    }

    #[test]
    fn no_more_threads_look_up_than_may() {
        let (most, now) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (seen, counted) = (Arc::clone(&most), Arc::clone(&now));
        let names = Arc::new(Names::by(move |_| {
            seen.fetch_max(counted.fetch_add(1, SeqCst) + 1, SeqCst);
            thread::yield_now();
            counted.fetch_sub(1, SeqCst);
            Ok(vec![address(1)])
        }));
        let all: Vec<Name> = (0..200).map(|number| name(&number.to_string())).collect();
        names.introduce(&all);
        assert!(all.iter().all(|name| names.find(name).addresses == [address(1)]));
        assert!((1..=LOOKUPS_MAX as u64).contains(&most.load(SeqCst)));
    }
}
