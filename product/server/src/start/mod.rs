//! Starts and stops the server. Sockets are opened first and threads started last, so that errors are reported before
//! anything runs.

mod check;
mod config;
mod confine;
mod listen;
mod reload;
mod start_error;
mod status_queries;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit};
use sched::WaitBound;

use crate::access::{Verifications, Verifier};
use crate::answer::{FormWaits, Handler};
use crate::clients::Clients;
use crate::codec::Level;
use crate::coded::{BEST_NICE, Coder, FAST_NICE, SHELVES, Shelf};
use crate::connection_places::Places;
use crate::disk::{BUFFERED_BYTES_MAX, Pool};
use crate::event_loop::{Admission, Changes, Listener, MemoryShare, Parts, Setup, Stop, Worker};
use crate::files::{Cache, Lookups};
use crate::journal::Journal;
use crate::kept_rates::Keeping;
use crate::limits::Limits;
use crate::logging::{Log, LogConfig, Logs};
use crate::net::Os;
use crate::objectives::StatusChannel;
use crate::sandbox::Granted;
use crate::send::{Limit, Link, Order, Reads, Transmitter};
use crate::service_manager::Listen;
use crate::shaping::ShapingChoice;
use crate::sites::{Current, Lack, Served, SitesError, follow_names};
use crate::storage::Disk;
use crate::sys;
use crate::threads::{ThreadError, ThreadId, Threads};
use crate::upstream::UpstreamPlaces;
use crate::wake::Wake;
use check::open_sites;
pub use check::{Checked, Fault, IN_USE, Unstarted, check};
pub use config::{Config, Reporting, WORKERS_MAX};
use listen::{Listening, listen_all, local_addresses, named_sockets};
use reload::InForce;
pub use reload::Reload;
pub use start_error::StartError;

/// The number of descriptors reserved for files that are being sent or cached.
const DESCRIPTORS_KEPT: u64 = 1024;
/// The number of descriptors of an event loop in addition to its wake-up: epoll and the file watch. With TLS there is
/// one more, to read the thread's current system call.
const LOOP_DESCRIPTORS: u64 = 2;

/// The maximum time to wait for the status of an event loop. An event loop that hangs for ten seconds ends the process.
pub const STATUS_WAIT_MAX: Duration = Duration::from_secs(10);

/// A running server.
pub struct Server {
    promised: Promised,
    places: Arc<Places>,
    clients: Arc<Clients>,
    loops: Loops,
    /// The pool that reads and looks up files for the workers.
    pool: Arc<Pool>,
    /// Declared before `logs`, so that the watching thread ends before the logs' threads.
    threads: Threads,
    logs: Logs,
    current: Arc<Current>,
    /// A channel for each event loop. The first also publishes what the loops share.
    status_channels: Vec<Arc<StatusChannel>>,
    /// The access that the sandbox grants, if the server is confined to the files named at the start.
    granted: Option<Granted>,
    keeping: Keeping,
    /// The current configuration, with which a reload compares the new one.
    in_force: Mutex<InForce>,
}

/// Facts reported to the operator at the start that a reload must not change.
struct Promised {
    addresses: Vec<Listen>,
    why: String,
    wait_bound: Option<WaitBound>,
    client_allowance_bytes: Option<u64>,
}

impl Promised {
    fn of(shaping: &mut ShapingChoice, addresses: Vec<Listen>) -> Promised {
        Promised {
            addresses,
            why: std::mem::take(&mut shaping.why),
            wait_bound: shaping.wait_bound(),
            client_allowance_bytes: shaping.client_allowance_bytes(),
        }
    }
}

/// The event loops as other threads see them.
struct Loops {
    stop: Arc<Stop>,
    /// The wake-up of each event loop.
    wakes: Vec<Arc<Wake>>,
    upstream_places: Arc<UpstreamPlaces>,
    /// The settings that each event loop has not taken over yet.
    changes: Vec<Arc<Changes>>,
    /// The coder that makes coded forms of files for all loops.
    coder: Arc<Coder>,
    /// The verifier of passwords for all loops.
    verifier: Arc<Verifier>,
    /// The threads that were started.
    threads: Vec<ThreadId>,
}

impl Loops {
    fn new(count: usize, limits: &Limits) -> Result<Loops, StartError> {
        let wakes = (0..count).map(|_| Wake::new().map(Arc::new)).collect::<io::Result<Vec<_>>>();
        let wakes = wakes.map_err(|e| StartError::System("create the wake-ups of the threads", e))?;
        let upstream_places = Arc::new(UpstreamPlaces::new(&wakes));
        let changes = (0..count).map(|_| Arc::default()).collect();
        let coder = Arc::new(Coder::new(limits.memory.coded_bytes()));
        let verifier = Arc::new(Verifier::new(limits.client_prefix));
        Ok(Loops { stop: Arc::default(), wakes, upstream_places, changes, coder, verifier, threads: Vec::new() })
    }

    /// Creates the handle through which the event loop with this wake-up requests the verification of passwords.
    fn verifications(&self, wake: &Arc<Wake>) -> Verifications {
        let woken = Arc::clone(wake);
        Verifications::new(Arc::clone(&self.verifier), move || woken.set())
    }

    fn wake_all(&self) {
        self.wakes.iter().for_each(|wake| wake.set());
    }

    /// Wakes the first event loop, which holds the state that all loops share.
    fn wake_first(&self) {
        self.wakes[0].set();
    }

    /// Makes the loops finish the responses in progress and end.
    fn stop(&self) {
        self.stop.ask();
        self.wake_all();
    }
}

impl Server {
    /// Binds, opens and starts everything; requests are answered once this returns. If a thread fails later,
    /// `on_failure` is called from that thread or from the watching thread. Then [`Server::failure`] returns the
    /// reason, and the process should end.
    pub fn start(mut config: Config, on_failure: impl Fn() + Send + Sync + 'static) -> Result<Server, Unstarted> {
        if config.has_one_loop() {
            config.workers = 1;
        }
        let (Listening { of_workers, mut remarks }, addresses) = listen(&config)?;
        let sockets = named_sockets(&config, &of_workers).map_err(|e| StartError::System("keep the sockets", e))?;
        let state_folder = config.keeper.as_ref().map(|keeper| keeper.path().to_path_buf());
        let granted = settle(&config, &mut remarks);
        let threads = Threads::start(config.watchdog.take(), on_failure)
            .map_err(|e| StartError::Thread("weir-watch".into(), e))?;
        let logs = Logs::start(&threads, granted.is_some()).map_err(|e| StartError::Thread("weir-log".into(), e))?;
        logs.bound(usize::try_from(config.limits.memory.logs_bytes()).unwrap_or(usize::MAX));
        let current = Arc::new(open_sites(&mut config, &logs)?);
        let loops = Loops::new(config.workers, &config.limits)?;
        let connections_allowed = descriptors(&config);
        let connections_max = config.limits.connections_max.min(connections_allowed).max(1);
        let mut server = Server {
            promised: Promised::of(&mut config.shaping, addresses),
            places: Arc::new(Places::new(connections_max, &loops.wakes)),
            clients: Arc::new(Clients::new(config.limits.clients(connections_max))),
            loops,
            pool: Pool::bounded(config.limits.memory.reads_bytes().min(BUFFERED_BYTES_MAX)),
            threads,
            logs,
            current,
            status_channels: (0..config.workers).map(|_| Arc::default()).collect(),
            granted,
            keeping: Keeping::new(config.keeper.take(), config.shaping.place.take()),
            in_force: Mutex::new(InForce::of(&config, connections_allowed, sockets)),
        };
        for (number, listeners) in of_workers.into_iter().enumerate() {
            server.start_worker(number, listeners, &mut config)?;
        }
        server.start_helpers(state_folder.as_deref())?;
        server.tell_memory(&config.limits.memory);
        hide(&config, &server.threads)?;
        remarks.iter().chain(&server.current.served().told.remarks).for_each(|remark| server.tell(remark));
        Ok(server)
    }

    /// Starts the threads that work for the event loops.
    fn start_helpers(&self, state_folder: Option<&Path>) -> Result<(), StartError> {
        self.follow_names()?;
        self.start_coder(state_folder)?;
        self.start_renewer()?;
        self.start_verifier()
    }

    /// Starts the thread that resolves the names of upstreams periodically, if there are names and it is not running.
    fn follow_names(&self) -> Result<(), StartError> {
        if !self.current.needs_follower() {
            return Ok(());
        }
        let (current, log) = (Arc::downgrade(&self.current), self.logs.handle());
        let follow = move || {
            follow_names(&current, |line| log.error(line));
            Ok(())
        };
        self.threads.spawn("weir-names", follow).map(drop).map_err(StartError::Unstarted)
    }

    /// Starts the thread that orders and renews certificates, if there are such certificates and it is not running.
    fn start_renewer(&self) -> Result<(), StartError> {
        let Some(task) = self.current.renewer().and_then(acme::Renewer::task) else { return Ok(()) };
        let log = self.logs.handle();
        let renew = move || {
            task.run(|line| log.error(line));
            Ok(())
        };
        self.threads.spawn("weir-acme", renew).map(drop).map_err(StartError::Unstarted)
    }

    /// Starts the threads that make coded forms of files and store dictionaries. Both kinds are kept in the state
    /// folder.
    fn start_coder(&self, state_folder: Option<&Path>) -> Result<(), StartError> {
        let open = |(name, bytes_max): (&str, u64)| {
            let log = self.logs.handle();
            let shelf = Shelf::open(state_folder?, name, bytes_max, move |line| log.error(line));
            shelf.map(Arc::new).inspect_err(|line| self.tell(line)).ok()
        };
        let coder = Arc::clone(&self.loops.coder);
        coder.keep_on(SHELVES.map(open));
        let store = move || {
            let _ = sys::set_thread_nice(FAST_NICE);
            coder.dictionaries.work();
            Ok(())
        };
        self.threads.spawn("weir-dictionary", store).map_err(StartError::Unstarted)?;
        for (name, level, nice) in [("weir-code", Level::Fast, FAST_NICE), ("weir-code-best", Level::Best, BEST_NICE)] {
            let coder = Arc::clone(&self.loops.coder);
            let work = move || {
                // If the kernel refuses, forms are made at the usual priority.
                let _ = sys::set_thread_nice(nice);
                coder.work(level);
                Ok(())
            };
            self.threads.spawn(name, work).map_err(StartError::Unstarted)?;
        }
        Ok(())
    }

    /// Starts the thread that verifies passwords, if some site has users and it is not running.
    fn start_verifier(&self) -> Result<(), StartError> {
        if !self.current.served().has_users() || !self.loops.verifier.needs_thread() {
            return Ok(());
        }
        let verifier = Arc::clone(&self.loops.verifier);
        let work = move || {
            // If the kernel refuses, passwords are verified at the usual priority.
            let _ = sys::set_thread_nice(FAST_NICE);
            verifier.work();
            Ok(())
        };
        self.threads.spawn("weir-login", work).map(drop).map_err(StartError::Unstarted)
    }

    /// Returns the first listening address; if the kernel chose the port, with that port.
    pub fn address(&self) -> SocketAddr {
        self.promised.addresses[0].address
    }

    /// Returns all listening addresses.
    pub fn addresses(&self) -> &[Listen] {
        &self.promised.addresses
    }

    /// Returns the chosen shaping and the reason for it, in one line.
    pub fn why(&self) -> &str {
        &self.promised.why
    }

    /// Returns the maximum time that a waiting response goes without a byte, if the starvation guard gives a guarantee.
    pub fn wait_bound(&self) -> Option<WaitBound> {
        self.promised.wait_bound
    }

    /// Returns the number of bytes by which a client may exceed its share of the link before it has to wait for the
    /// other clients. Returns `None` if clients do not share the link.
    pub fn client_allowance_bytes(&self) -> Option<u64> {
        self.promised.client_allowance_bytes
    }

    /// Returns the maximum number of connections: the configured one, or the number that the limit on open files
    /// allows.
    pub fn connections_max(&self) -> usize {
        self.places.max()
    }

    /// Returns the reason why the server cannot continue, once it has failed.
    pub fn failure(&self) -> Option<ThreadError> {
        self.threads.failure()
    }

    /// Reopens the access logs, as after a rotation.
    pub fn reopen_logs(&self) {
        self.logs.reopen();
    }

    /// Returns the missing folders and pages of the current sites, as faults with their consequences.
    pub fn lacks(&self) -> Vec<Fault> {
        let served = self.current.served();
        let fault =
            |lack: &Lack| Fault { of: Some((lack.site, lack.part)), error: StartError::Lacking(lack.said.clone()) };
        served.told.lacks.iter().map(fault).collect()
    }

    /// Writes a line to the error log.
    pub fn tell(&self, line: &str) {
        self.logs.error(line);
    }

    /// Makes the first worker write the clients with the most recent bytes to the error log. That worker keeps the byte
    /// counts for the clients' shares, if they are kept.
    pub fn tell_clients(&self) {
        self.clients.ask_lines();
        self.loops.wake_first();
    }

    /// Returns true if the measured rate of the line is stored for the next start.
    pub fn keeps_rate(&self) -> bool {
        self.keeping.is_on()
    }

    /// Stores the rate of the line, if it was confirmed since the last time. A failure is logged once.
    pub fn keep_rate(&self) {
        self.keeping.keep(self.status_channels[0].found(), |line| self.tell(line));
    }

    /// Ends the server after its sockets were handed over to another process: finishes the responses in progress,
    /// without a time limit, then ends all threads.
    pub fn stop_handed_over(self) -> Result<(), ThreadError> {
        self.loops.stop.ask_handed_over();
        self.in_force.lock().unwrap_or_else(std::sync::PoisonError::into_inner).sockets.clear();
        self.stop()
    }

    /// Finishes the responses in progress, then ends all threads.
    pub fn stop(self) -> Result<(), ThreadError> {
        self.threads.expect_ends();
        self.current.renewer().inspect(|renewer| renewer.stop());
        self.loops.stop();
        for &thread in &self.loops.threads {
            self.threads.join(thread)?;
        }
        self.pool.stop();
        self.loops.coder.stop();
        self.loops.verifier.stop();
        Ok(())
    }

    fn journal(&self, number: usize, served: &Served, has_metrics: bool) -> Journal {
        let status_channel = Arc::clone(&self.status_channels[number]);
        let journal = Journal::new(self.logs.handle(), status_channel, served.assigned.as_deref());
        if has_metrics { journal.with_metrics(served.sites.names()) } else { journal }
    }

    fn start_worker(&mut self, number: usize, listeners: Vec<Listener>, config: &mut Config) -> Result<(), StartError> {
        let served = self.current.served();
        let memory = MemoryShare::of(&config.limits.memory, served.logins_bytes(), config.workers);
        let cache = Cache::new(served.roots.clone(), memory.cache);
        let cache = cache.closing_by(Arc::clone(&self.pool));
        let wake = &self.loops.wakes[number];
        let woken = Arc::clone(wake);
        let lookups = Lookups::new(Arc::clone(&self.pool), move || woken.set());
        let woken = Arc::clone(wake);
        let forms = FormWaits::new(Arc::clone(&self.loops.coder), move || woken.set());
        let verifications = self.loops.verifications(wake);
        let (places, clients) = (Arc::clone(&self.places), Arc::clone(&self.clients));
        let parts = Parts {
            listeners,
            admission: Admission::new(number, places, clients, memory.connections_bytes, &config.limits),
            handler: Handler::new(cache, lookups, Arc::clone(&self.current))
                .coding_by(forms)
                .verifying_by(verifications),
            journal: self.journal(number, &served, config.reporting.has_metrics),
            transmitter: transmitter(self, config, wake),
            limits: config.limits.clone(),
            setup: Setup {
                number,
                upstream_places: self.loops.upstream_places.of_loop(number),
                wake: Arc::clone(wake),
                stop: Arc::clone(&self.loops.stop),
                changes: Arc::clone(&self.loops.changes[number]),
            },
        };
        let name = format!("weir-worker-{number}");
        let worker =
            Os::new().and_then(|net| Worker::new(net, parts)).map_err(|e| StartError::Thread(name.clone(), e))?;
        if number == 0 {
            self.tell_refusal(worker.poll_refusal());
        }
        let woken = Arc::clone(wake);
        let started = self.threads.spawn_loop(&name, move || woken.set(), |beat| worker.run(beat));
        self.loops.threads.push(started.map_err(StartError::Unstarted)?);
        Ok(())
    }

    /// Logs a refusal once for all threads, because a system-call filter applies to the whole process.
    fn tell_refusal(&self, refusal: Option<io::Error>) {
        if let Some(error) = refusal {
            self.logs.error(&format!("system call epoll_pwait2 is refused: {error}; using two calls instead"));
        }
    }
}

/// Hides the memory of a process with private keys from other processes, even of the same user, and from core dumps.
fn hide(config: &Config, threads: &Threads) -> Result<(), StartError> {
    if !config.is_secure() {
        return Ok(());
    }
    threads.keep_calls();
    let hidden = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    hidden.map_err(|e| StartError::System("hide the memory of the process", e.into()))
}

/// Binds the listening sockets of each worker and returns them with their addresses, then changes to the configured
/// user. This is the last step as root, before anything else is opened and before any other thread exists.
fn listen(config: &Config) -> Result<(Listening, Vec<Listen>), StartError> {
    let listening = listen_all(config)?;
    let addresses = local_addresses(&listening.of_workers[0])?;
    if let Some(account) = &config.privileges.account {
        account.assume(config.shaping.capabilities())?;
    }
    Ok((listening, addresses))
}

/// Returns the mechanism that orders responses. Pacing takes precedence over marking packets for the kernel.
fn order(shaping: &ShapingChoice) -> Order {
    match &shaping.marker {
        _ if shaping.is_paced() => Order::Pace,
        Some(_) => Order::Marks,
        None if shaping.policy.is_fair() && shaping.classes.is_none() => Order::Arrival,
        None => Order::Turn,
    }
}

/// Builds a worker's write path. The pacing worker gets the gauge of the line.
fn transmitter(server: &Server, config: &mut Config, wake: &Arc<Wake>) -> Transmitter {
    let (shaping, woken) = (&mut config.shaping, Arc::clone(wake));
    let scheduler = match config.reporting.has_metrics {
        true => shaping.scheduler().with_turns(),
        false => shaping.scheduler(),
    };
    let link = Link::new(scheduler, shaping.gauge.take()).with_bounds(shaping.bounds);
    let mut transmitter = Transmitter::new(link, config.limits.patience);
    transmitter.marker = config.shaping.marker.clone();
    transmitter.limit = Limit::new(config.limits.client_rate_max.map(|_| Arc::clone(&server.clients) as _));
    let written = Arc::clone(wake);
    let disk = Disk::new(Arc::clone(&server.pool), move || woken.set());
    transmitter.reads = Reads::from(disk.spooling(&config.limits.spool.folder, move || written.set()));
    transmitter.order = order(&config.shaping);
    transmitter.is_direct = config.shaping.is_memoryless() && transmitter.order != Order::Marks;
    transmitter
}

/// Applies the sandbox. Returns the granted access if files are confined; otherwise adds a remark with the reason.
fn settle(config: &Config, remarks: &mut Vec<String>) -> Option<Granted> {
    let state_folder = config.keeper.iter().map(|keeper| keeper.path());
    state_folder.for_each(|folder| SHELVES.iter().for_each(|(name, _)| Shelf::prepare(folder, name)));
    let confined = confine::confine(config);
    remarks.extend(confined.remarks);
    remarks.extend(config.unspooled());
    confined.granted
}

fn open_log(logs: &Logs, config: &LogConfig) -> Result<Arc<Log>, SitesError> {
    let name = config.path.as_ref().map_or("on standard output".into(), |path| format!("`{}`", path.display()));
    logs.open(config).map_err(|error| SitesError::Log(name, error))
}

/// Raises the soft limit on descriptors to the hard limit. Returns the number of connections that the descriptors left
/// by the event loops allow.
fn descriptors(config: &Config) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() { raised.current } else { limit.current };
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    let left = current
        .unwrap_or(u64::MAX)
        .saturating_sub(open + config.workers as u64 * (LOOP_DESCRIPTORS + u64::from(config.is_secure())));
    // If descriptors are scarce, half of the remaining ones are for files.
    usize::try_from(left.saturating_sub(DESCRIPTORS_KEPT).max(left / 2)).unwrap_or(usize::MAX)
}
