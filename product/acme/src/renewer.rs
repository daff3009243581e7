//! The thread that orders and renews certificates, and the state that other threads see.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tls::{Automatic, Identity, Validity};

use crate::due::{Failure, Lifetime, Outlook, Renewals, Step, span};
use crate::folder::{Folder, Lock};
use crate::order::{Answers, Issued, Session};
use crate::settings::{Hook, Settings};
use crate::tokens::Tokens;

/// The maximum wait, so that a change of the clock is noticed.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// The time between two attempts to take the lock from another process.
const LOCK_EVERY: Duration = Duration::from_secs(5);
/// The time after which the operator is informed that another process holds the lock. A process that this one replaces
/// releases it sooner.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);

/// The wanted certificates, and whether the thread must end.
#[derive(Default)]
struct Wish {
    /// `None` if no certificate is wanted.
    settings: Option<Settings>,
    names: Vec<String>,
    /// The names whose certificates come from another authority.
    stale: HashSet<String>,
    /// The number of wishes so far. It shows the thread that the wish has changed.
    turn: u64,
    is_stopping: bool,
}

struct Shared {
    folder: Folder,
    automatic: Arc<Automatic>,
    tokens: Arc<Tokens>,
    hook: Option<Arc<dyn Hook>>,
    wish: Mutex<Wish>,
    changed: Condvar,
    /// Changed only by the thread, which does not hold the mutex during requests.
    renewals: Mutex<Renewals>,
    is_started: AtomicBool,
    /// True if this process orders certificates, because it holds the lock of the folder.
    is_ordering: AtomicBool,
}

/// The state of a host's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostStatus {
    pub name: String,
    /// The expiry of the certificate in use, if there is one.
    pub not_after: Option<SystemTime>,
    /// The schedule in this process; `None` while another process orders.
    pub outlook: Option<Outlook>,
}

/// Keeps a server's ACME certificates renewed. Clones share their state.
#[derive(Clone)]
pub struct Renewer(Arc<Shared>);

/// The renewer as used by its thread.
pub struct Task(Renewer);

impl Renewer {
    /// Creates a renewer without wanted certificates. `hook` sets DNS records.
    pub fn new(folder: Folder, hook: Option<Arc<dyn Hook>>) -> Renewer {
        let (automatic, tokens) = (Arc::default(), Arc::default());
        let (wish, changed, renewals) = (Mutex::default(), Condvar::new(), Mutex::default());
        let [is_started, is_ordering] = [false; 2].map(AtomicBool::new);
        Renewer(Arc::new(Shared { folder, automatic, tokens, hook, wish, changed, renewals, is_started, is_ordering }))
    }

    /// The certificates in force.
    pub fn automatic(&self) -> &Arc<Automatic> {
        &self.0.automatic
    }

    /// The answers to challenges over HTTP.
    pub fn tokens(&self) -> &Arc<Tokens> {
        &self.0.tokens
    }

    /// Keeps certificates for these names renewed from now on, and immediately uses those in the folder. Returns
    /// remarks for the operator.
    pub fn want(&self, settings: Option<Settings>, names: &[String]) -> Vec<String> {
        let names: Vec<String> = if settings.is_some() { names.to_vec() } else { Vec::new() };
        let directory = settings.as_ref().map_or("", |settings| &settings.directory);
        let (stale, mut remarks) = self.0.load(&names, directory);
        remarks.extend(self.0.overdue(&names, SystemTime::now()));
        let wanted: HashSet<&str> = names.iter().map(String::as_str).collect();
        self.0.automatic.keep_only(|name| wanted.contains(name));
        let mut wish = self.0.wish();
        *wish = Wish { settings, names, stale, turn: wish.turn + 1, is_stopping: wish.is_stopping };
        self.0.changed.notify_all();
        remarks
    }

    /// Returns the thread's task, once, if a certificate is wanted.
    pub fn task(&self) -> Option<Task> {
        let is_wanted = self.0.wish().settings.is_some();
        (is_wanted && !self.0.is_started.swap(true, Ordering::Relaxed)).then(|| Task(self.clone()))
    }

    /// The wanted names, each with the expiry of its certificate in use, if there is one.
    pub fn expiries(&self) -> Vec<(String, Option<SystemTime>)> {
        let names = self.0.wish().names.clone();
        let of = |name: &str| self.0.automatic.identity(name).map(|identity| identity.not_after());
        names.into_iter().map(|name| (name.clone(), of(&name))).collect()
    }

    /// The state of each wanted certificate.
    pub fn status(&self) -> Vec<HostStatus> {
        let now = SystemTime::now();
        let expiries = self.expiries();
        let renewals = self.0.renewals();
        let is_ordering = self.0.is_ordering.load(Ordering::Relaxed);
        let outlook = |name: &str| renewals.outlook(name, now).filter(|_| is_ordering);
        expiries.into_iter().map(|(name, not_after)| HostStatus { outlook: outlook(&name), name, not_after }).collect()
    }

    /// Ends the thread: immediately, or after the request in progress.
    pub fn stop(&self) {
        self.0.wish().is_stopping = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn wish(&self) -> MutexGuard<'_, Wish> {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn renewals(&self) -> MutexGuard<'_, Renewals> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses the folder's certificates for these names. Returns the names whose certificates come from another
    /// authority, and remarks.
    fn load(&self, names: &[String], directory: &str) -> (HashSet<String>, Vec<String>) {
        let (mut stale, mut remarks) = (HashSet::new(), Vec::new());
        for name in names {
            match self.folder.certificate(name) {
                Ok(Some(kept)) if kept.identity.covers(name) => {
                    if !kept.directory.is_empty() && kept.directory != directory {
                        stale.insert(name.clone());
                    }
                    let is_known = self.automatic.identity(name);
                    if is_known.is_none_or(|known| known.leaf() != kept.identity.leaf()) {
                        self.automatic.put(name, Arc::new(kept.identity));
                    }
                }
                Ok(_) => {}
                Err(error) => remarks.push(format!("the stored certificate for {name} cannot be used: {error}")),
            }
        }
        (stale, remarks)
    }

    /// Returns a remark about certificates in use that should have been renewed already.
    fn overdue(&self, names: &[String], now: SystemTime) -> Option<String> {
        let lifetime_of = |name: &str| self.automatic.identity(name).map(|identity| lifetime(&identity));
        let known = names.iter().filter_map(|name| Some((lifetime_of(name)?, name)));
        let overdue = known.filter(|(lifetime, _)| lifetime.is_overdue(now));
        let overdue: Vec<_> = overdue.map(|(lifetime, name)| (lifetime.not_after, name)).collect();
        let (not_after, name) = overdue.iter().min()?;
        let others = match overdue.len() - 1 {
            0 => String::new(),
            count => format!(" (and {count} more)"),
        };
        let when = match not_after.duration_since(now) {
            Ok(left) => format!("expires in {}", span(left)),
            Err(_) => "HAS EXPIRED".into(),
        };
        Some(format!(
            "the kept certificate for {name}{others} {when} and was not renewed: `weir status` says what failed last"
        ))
    }

    /// Waits for a new wish, at most this long. Returns false if the thread should end.
    fn wait(&self, turn: u64, time: Duration) -> bool {
        let wish = self.wish();
        let is_same = |wish: &mut Wish| wish.turn == turn && !wish.is_stopping;
        let waited = self.changed.wait_timeout_while(wish, time, is_same);
        let (wish, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !wish.is_stopping
    }

    /// Waits this long. Returns false if the thread should end.
    fn pause(&self, time: Duration) -> bool {
        let wish = self.wish();
        let waited = self.changed.wait_timeout_while(wish, time, |wish| !wish.is_stopping);
        let (wish, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !wish.is_stopping
    }
}

impl Task {
    /// Orders and renews certificates until [`Renewer::stop`]. `log` receives lines for the operator.
    pub fn run(self, log: impl Fn(&str)) {
        let shared = &*self.0.0;
        let (settings, turn, session, may_forget) = (None, 0, None, true);
        let (lock, without_lock) = (None, None);
        let mut run = Run { shared, log: &log, settings, turn, session, may_forget, lock, without_lock };
        while run.step() {}
    }
}

/// The state of the thread.
struct Run<'r> {
    shared: &'r Shared,
    log: &'r dyn Fn(&str),
    settings: Option<Settings>,
    turn: u64,
    /// The session with the authority, kept while there is work.
    session: Option<Session>,
    /// True if no account was replaced for an unclear reason since the last certificate: a further account would be
    /// refused too.
    may_forget: bool,
    lock: Option<Lock>,
    /// The time since which another process holds the lock, and whether the operator has been informed.
    without_lock: Option<(Instant, bool)>,
}

impl Run<'_> {
    /// Performs the step that is due, or waits. Returns false at the end.
    fn step(&mut self) -> bool {
        self.take_wish();
        let now = SystemTime::now();
        if !self.has_lock() {
            self.say(now);
            return self.shared.wait(self.turn, LOCK_EVERY);
        }
        let step = match self.settings {
            Some(_) => self.shared.renewals().next(now),
            None => Step::Wait(now + LOOK_EVERY),
        };
        match step {
            Step::Order(name) => self.order(&name),
            Step::AskWindow(name) => self.ask_window(&name),
            Step::Wait(until) => {
                self.session = None;
                let time = until.duration_since(now).unwrap_or_default().clamp(Duration::from_millis(10), LOOK_EVERY);
                return self.shared.wait(self.turn, time);
            }
        }
        self.say(SystemTime::now());
        self.shared.pause(Duration::ZERO)
    }

    /// Logs current failures, if a line is due.
    fn say(&self, now: SystemTime) {
        let line = self.shared.renewals().line(now);
        line.inspect(|line| (self.log)(line));
    }

    fn names(&self) -> Vec<String> {
        self.shared.renewals().names().map(String::from).collect()
    }

    fn take_wish(&mut self) {
        let wish = self.shared.wish();
        if wish.turn == self.turn {
            return;
        }
        (self.turn, self.settings, self.session) = (wish.turn, wish.settings.clone(), None);
        let (names, stale) = (wish.names.clone(), wish.stale.clone());
        drop(wish);
        let mut renewals = self.shared.renewals();
        renewals.want(names);
        renewals.try_again(SystemTime::now(), chance);
        self.note_certificates(&mut renewals);
        stale.iter().for_each(|name| renewals.on_stale(name));
    }

    /// Reports the certificates in force to the renewals.
    fn note_certificates(&self, renewals: &mut Renewals) {
        let names: Vec<String> = renewals.names().map(String::from).collect();
        for name in names {
            if let Some(identity) = self.shared.automatic.identity(&name) {
                renewals.on_certificate(&name, lifetime(&identity), SystemTime::now(), chance());
            }
        }
    }

    /// Returns true if this process may write to the folder. Otherwise loads the certificates that another process has
    /// written.
    fn has_lock(&mut self) -> bool {
        if self.lock.is_some() {
            return true;
        }
        match self.shared.folder.lock() {
            Ok(lock) => self.lock = lock,
            Err(error) => {
                self.without_folder(&Failure::of_all(error));
                return false;
            }
        }
        self.shared.is_ordering.store(self.lock.is_some(), Ordering::Relaxed);
        if self.without_lock.is_some() || self.lock.is_none() {
            self.read_again();
        }
        self.tell_of_lock();
        self.lock.is_some()
    }

    /// Records that the folder cannot be locked, unless a wait for it is running already.
    fn without_folder(&self, failure: &Failure) {
        // It is this process that fails to order.
        self.shared.is_ordering.store(true, Ordering::Relaxed);
        let (now, mut renewals) = (SystemTime::now(), self.shared.renewals());
        let first = renewals.names().next().map(String::from);
        if let Some(name) = first.filter(|_| renewals.is_free(now)) {
            renewals.on_failure(&name, failure.clone(), now, chance());
        }
    }

    /// Loads the certificates from the folder, because another process may have renewed them.
    fn read_again(&mut self) {
        let Some(settings) = &self.settings else { return };
        let (_, remarks) = self.shared.load(&self.names(), &settings.directory);
        if self.without_lock.is_none() {
            remarks.iter().for_each(|remark| (self.log)(remark));
        }
        self.note_certificates(&mut self.shared.renewals());
    }

    fn tell_of_lock(&mut self) {
        if self.lock.is_some() {
            self.without_lock = None;
            return;
        }
        let (since, is_told) = self.without_lock.get_or_insert((Instant::now(), false));
        if since.elapsed() >= LOCK_PATIENCE && !std::mem::replace(is_told, true) {
            let folder = self.shared.folder.path().display();
            (self.log)(&format!(
                "another process renews the certificates in `{folder}`; this one reads them there, and takes over when that one ends"
            ));
        }
    }

    fn session(&mut self) -> Result<&Session, Failure> {
        if self.session.is_none() {
            let settings = self.settings.as_ref().ok_or_else(|| Failure::of_all("nothing is wanted"))?;
            self.session = Some(Session::open(settings, &self.shared.folder, self.may_forget)?);
        }
        self.session.as_ref().ok_or_else(|| Failure::of_all("no session"))
    }

    fn order(&mut self, name: &str) {
        let issued = self.issue(name);
        let now = SystemTime::now();
        match issued.and_then(|issued| self.put_into_force(name, &issued, now)) {
            Ok(()) => {
                self.may_forget = true;
                self.shared.renewals().on_reached();
            }
            // The process that follows orders anew: nothing has failed.
            Err(_) if self.shared.wish().is_stopping => {}
            Err(failure) => {
                self.may_forget &= self.session.take().is_none_or(|session| session.may_forget());
                self.shared.renewals().on_failure(name, failure, now, chance());
            }
        }
    }

    fn issue(&mut self, name: &str) -> Result<Issued, Failure> {
        // A certificate that cannot be kept would be ordered anew at each start.
        self.shared.folder.try_out().map_err(Failure::of_all)?;
        let attempt = self.shared.renewals().failures(name) as usize;
        let shared = self.shared;
        let replaced = shared.automatic.identity(name);
        let answers = Answers { tokens: &shared.tokens, automatic: &shared.automatic, hook: shared.hook.as_deref() };
        let session = self.session()?;
        session.order(name, replaced.as_deref(), attempt, answers, &|time| shared.pause(time))
    }

    fn put_into_force(&mut self, name: &str, issued: &Issued, now: SystemTime) -> Result<(), Failure> {
        let Issued { key, chain } = issued;
        let text = format!("{key}\n{chain}");
        let file = std::path::Path::new("certificate from the authority");
        let identity = Identity::read_by(file, file, &|_| Ok(text.clone().into())).map_err(Failure::of_name)?;
        if !identity.covers(name) {
            return Err(Failure::of_name("the authority has issued a certificate for another name"));
        }
        let directory = self.settings.as_ref().map_or("", |settings| &settings.directory);
        if let Err(error) = self.shared.folder.keep(name, directory, key, chain) {
            (self.log)(&format!("the new certificate for {name} is in force, but would be lost in a restart: {error}"));
        }
        let (lifetime, validity) = (lifetime(&identity), identity.validity(now));
        self.shared.automatic.put(name, Arc::new(identity));
        self.shared.renewals().on_issued(name, lifetime, now, chance());
        match validity {
            // Or orders would follow each other.
            Validity::Good if self.shared.renewals().is_stale(name, now) => {
                Err(Failure::of_name("by this machine's clock the new certificate is due already; set the clock"))
            }
            Validity::Good => {
                let left = lifetime.not_after.duration_since(now).unwrap_or_default();
                (self.log)(&format!("a certificate for {name} is in force, for {}", span(left)));
                Ok(())
            }
            _ => Err(Failure::of_name("by this machine's clock the new certificate is not valid; set the clock")),
        }
    }

    fn ask_window(&mut self, name: &str) {
        let asked = match self.shared.automatic.identity(name) {
            Some(identity) => self.session().and_then(|session| session.window(&identity)),
            None => Ok((None, None)),
        };
        let now = SystemTime::now();
        // Without an answer the lifetime decides; what fails is told when an order fails.
        let (window, again) = asked.unwrap_or_else(|_| {
            self.session = None;
            (None, None)
        });
        self.shared.renewals().on_window(name, window, again, now, chance());
    }
}

fn lifetime(identity: &Identity) -> Lifetime {
    Lifetime { not_before: identity.not_before(), not_after: identity.not_after() }
}

/// A random number from 0 to 1.
fn chance() -> f64 {
    let [a, b, c, d, ..] = tls::nonce();
    f64::from(u32::from_le_bytes([a, b, c, d])) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ChallengeKind, LETS_ENCRYPT};

    /// A folder with a certificate of this many days before and after now.
    fn renewer(days: [i64; 2]) -> Renewer {
        let number = u64::from_le_bytes(tls::nonce()[..8].try_into().unwrap());
        let path = std::env::temp_dir().join(format!("weir-renewer-{number:x}"));
        Folder::create(&path).unwrap();
        let folder = Folder::new(path);
        let mut made = rcgen::CertificateParams::new(["a.test".to_string(), "b.test".to_string()]).unwrap();
        let at = |days: i64| std::time::Duration::from_secs(days.unsigned_abs() * 86_400);
        made.not_before = (SystemTime::now() - at(days[0])).into();
        made.not_after =
            if days[1] < 0 { SystemTime::now() - at(days[1]) } else { SystemTime::now() + at(days[1]) }.into();
        let key = rcgen::KeyPair::generate().unwrap();
        let chain = made.self_signed(&key).unwrap().pem();
        for name in ["a.test", "b.test"] {
            folder.keep(name, LETS_ENCRYPT, &key.serialize_pem(), &chain).unwrap();
        }
        Renewer::new(folder, None)
    }

    /// A line that said so reported a failure which nobody could mend.
    #[test]
    fn an_order_that_a_stop_interrupts_has_not_failed() {
        let Ok(roots) = tls::Roots::of_system(&|file| std::fs::read(file)) else {
            return println!("SKIPPED: the system has no authorities (package ca-certificates)");
        };
        let authority = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        for stops in [true, false] {
            let (renewer, roots) = (renewer([10, 80]), roots.clone());
            let directory = format!("https://{}/dir", authority.local_addr().unwrap());
            let challenges = vec![ChallengeKind::Http01];
            let settings = Settings { directory, roots, email: None, challenges, external_account: None };
            renewer.want(Some(settings), &["c.test".into()]);
            let (task, lines) = (renewer.task().unwrap(), Mutex::new(Vec::new()));
            std::thread::scope(|scope| {
                let run = scope.spawn(|| task.run(|line| lines.lock().unwrap().push(line.to_string())));
                let asked = authority.accept().unwrap();
                if stops {
                    renewer.stop();
                }
                drop(asked);
                while !stops && lines.lock().unwrap().is_empty() {
                    std::thread::yield_now();
                }
                renewer.stop();
                run.join().unwrap();
            });
            let lines = lines.into_inner().unwrap();
            assert_eq!(lines.is_empty(), stops, "{lines:?}");
            assert_eq!(renewer.status()[0].outlook.as_ref().is_some_and(|outlook| outlook.failed.is_some()), !stops);
            std::fs::remove_dir_all(renewer.0.folder.path()).unwrap();
        }
    }

    #[test]
    fn a_certificate_that_was_not_renewed_is_named() {
        let Ok(roots) = tls::Roots::of_system(&|file| std::fs::read(file)) else {
            return println!("SKIPPED: the system has no authorities (package ca-certificates)");
        };
        for (days, expected) in [
            ([10, 80], None),
            ([85, 5], Some("the kept certificate for a.test (and 1 more) expires in 4 days and was not renewed: ")),
            ([91, -1], Some("the kept certificate for a.test (and 1 more) HAS EXPIRED and was not renewed: ")),
        ] {
            let (renewer, roots) = (renewer(days), roots.clone());
            let settings = Settings {
                directory: LETS_ENCRYPT.into(),
                roots,
                email: None,
                challenges: vec![ChallengeKind::Http01],
                external_account: None,
            };
            let remarks = renewer.want(Some(settings), &["a.test".into(), "b.test".into()]);
            assert_eq!(remarks.len(), usize::from(expected.is_some()), "{remarks:?}");
            assert!(
                remarks.iter().all(|remark| expected.is_some_and(|start| remark.starts_with(start))),
                "{remarks:?}"
            );
            std::fs::remove_dir_all(renewer.0.folder.path()).unwrap();
        }
    }
}
