//! A worker in the simulated world, and the invariants.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use config::{Answers, Health, Pattern, Proxy, UpstreamAddress};
use http2::floods::PROVOKED;
use sched::line::Bounds;
use sched::policy::PolicySpec;
use sched::{Guard, Pace, Scheduler};
use units::{Nanos, Rate};

use super::Report;
use super::application::PREFIX;
use super::client::Client;
use super::disk::DiskQueue;
use super::files::Site;
use super::net::SimulatedNet;
use super::outages::HEALTH;
use super::plan::{LOCAL_NETWORK, Plan, UpstreamPlan};
use super::random::Random;
use super::settings::Reloads;
use super::udp::SimulatedUdp;
use super::world::World;
use crate::answer::{FormWaits, Handler};
use crate::clients::{Clients, NetworkList};
use crate::connection_places::Places;
use crate::event_loop::{Admission, Listener, Parts, Setup, Stop, Worker};
use crate::files::{Cache, CacheLimits, Lookups, Options, Root};
use crate::journal::Journal;
use crate::limits::{Limits, Patience};
use crate::logging::log_lines::{LogLine, read_log};
use crate::logging::{Format, Log, LogConfig, Logs, Unthreaded};
use crate::send::{Link, Notice, Order, Reads, Transmitter};
use crate::sites::{Certificate, Current, Https, SiteConfig, Wanted};
use crate::upstream::UpstreamPlaces;
use crate::wake::Wake;

/// The time within which the last connection must end after the last client has left: longer than every timeout.
const EMPTY_AFTER: Nanos = Nanos::from_secs(400);

/// The maximum time that lines wait in a worker.
const FLUSHED_AFTER: Nanos = Nanos::from_secs(1);

pub struct Server {
    worker: Worker<SimulatedNet>,
    pub world: Rc<RefCell<World>>,
    stop: Arc<Stop>,
    wake: Arc<Wake>,
    places: Arc<Places>,
    /// The maximum wait that the guard has promised so far.
    promised: Nanos,
    reloads: Reloads,
    writer: Unthreaded,
    /// The path of the access log, if there is one.
    log_path: Option<PathBuf>,
    _logs: Logs,
}

/// The scheduler of a server with an admin listener.
fn scheduler(policy: &PolicySpec, plan: &Plan) -> Scheduler {
    Scheduler::new(policy.build(), pace(plan)).with_guard(Guard::new(crate::GUARD_PERMILLE)).with_turns()
}

fn pace(plan: &Plan) -> Pace {
    if plan.is_searched {
        return Pace::UNKNOWN;
    }
    plan.uplink_bytes_per_s.map_or(Pace::UNLIMITED, |rate| {
        Pace::of_line(Rate::from_bits_per_s(8 * rate).expect("it is more than nothing"))
    })
}

pub(super) fn order(plan: &Plan, policy: &PolicySpec) -> Order {
    match plan.uplink_bytes_per_s {
        Some(_) => Order::Pace,
        None if policy.is_fair() => Order::Arrival,
        None => Order::Turn,
    }
}

/// An empty access log.
fn log(logs: &Logs, path: &Path) -> Arc<Log> {
    std::fs::write(path, "").expect("the folder is there");
    logs.open(&LogConfig { path: Some(path.into()), format: Format::Json }).expect("the file is there")
}

fn proxy(plan: &UpstreamPlan) -> Proxy {
    let address = |endpoint| UpstreamAddress::new(&World::address(endpoint).to_string()).expect("an address");
    Proxy {
        path: Pattern::of_path(&format!("{PREFIX}*")).expect("a pattern"),
        max_concurrent_requests: plan.requests_max,
        connect_timeout: plan.connect_timeout.into(),
        read_timeout: plan.read_timeout.into(),
        health: plan.health.map(|health| Health {
            path: HEALTH.into(),
            every: health.every.into(),
            slow_start: health.slow_start.into(),
        }),
        ..Proxy::of_all((0..plan.endpoints).map(address).collect())
    }
}

fn limits(plan: &Plan) -> Limits {
    let local = (plan.local_clients > 0).then(|| LOCAL_NETWORK.parse().expect("a network"));
    let local_networks = NetworkList::new(local.into_iter().collect());
    Limits { connections_max: plan.places, client_connections_max: Some(0), local_networks, ..Limits::default() }
}

fn admission(places: &Arc<Places>, plan: &Plan, limits: &Limits) -> Admission {
    let clients = Arc::new(Clients::new(limits.clients(plan.places)));
    Admission::new(0, Arc::clone(places), clients, plan.memory_bytes, limits)
}

/// The settings of a single site for all hosts.
fn current(site: &Site, log: Option<Arc<Log>>, upstreams: Option<&UpstreamPlan>) -> Arc<Current> {
    let (cert, key) = site.certificate();
    let https = Https { certificate: Some(Certificate::Files { cert, key }), ..Https::default() };
    let answers = Answers { proxies: upstreams.map(proxy).into_iter().collect(), ..Answers::default() };
    let sites = [SiteConfig { https, answers, ..SiteConfig::alone(site.folder.path(""), Options::default()) }];
    let access_log = log.as_ref().map(|_| LogConfig { path: None, format: Format::Json });
    let open_log = |_: &LogConfig| Ok(log.clone().expect("the server has one"));
    let wanted = Wanted {
        sites: &sites,
        classes: None,
        access_log: access_log.as_ref(),
        open_log: &open_log,
        acme: None,
        may_lack: false,
    };
    Arc::new(
        Current::open(&wanted, true, Default::default(), 1 << 30).expect("the folder and the certificate are there"),
    )
}

fn transmitter(plan: &Plan, policy: &PolicySpec, patience: Patience, reads: Reads) -> Transmitter {
    let built = policy.build();
    let bounds = plan.is_searched.then_some(Bounds { least: None, first: None, most: None });
    let link = Link::new(scheduler(policy, plan), None);
    let link = if bounds.is_some() { link.with_bounds(bounds) } else { link };
    let mut transmitter = Transmitter::new(link, patience);
    transmitter.reads = reads;
    transmitter.order = order(plan, policy);
    transmitter.is_direct = !built.follows_jobs() && !built.needs_path();
    transmitter
}

impl Server {
    pub fn new(plan: Plan, mut random: Random, site: Rc<Site>) -> Server {
        let wake = Arc::new(Wake::new().expect("there are descriptors"));
        let disk = DiskQueue::new(Arc::clone(&wake), plan.memory_bytes / 4);
        let limits = limits(&plan);
        let policy: PolicySpec = plan.policy.parse().expect("a policy");
        let cold = site.cold(plan.cold_permille, &mut random);
        let root = Root::open(&site.folder.path(""), Options::default()).expect("the folder is there").on(cold);
        let ((logs, writer), log_path) =
            (Unthreaded::new(), plan.is_logged.then(|| site.folder.path("secret/log.json")));
        let current = current(&site, log_path.as_ref().map(|path| log(&logs, path)), plan.upstreams.as_ref());
        let (storage, reloads) = (disk.storage(&plan, &mut random), Reloads::of(&plan));
        let (stop, woken) = (Arc::<Stop>::default(), Arc::clone(&wake));
        let places = Arc::new(Places::new(plan.places, &[Arc::clone(&wake)]));
        let cache = Cache::new(root.into(), CacheLimits::per_worker(1));
        let lookups = Lookups::new(Arc::clone(&disk.pool), move || woken.set());
        let (coder, woken) = (Arc::clone(&disk.coder), Arc::clone(&wake));
        let forms = FormWaits::new(coder, move || woken.set());
        let transmitter = transmitter(&plan, &policy, limits.patience, Reads::from(storage));
        let mut parts = Parts {
            listeners: vec![Listener::new(0), Listener { is_secure: true, ..Listener::new(1) }],
            admission: admission(&places, &plan, &limits),
            handler: Handler::new(cache, lookups, current).coding_by(forms),
            journal: Journal::new(logs.handle(), Arc::default(), None),
            transmitter,
            limits,
            setup: Setup {
                number: 0,
                upstream_places: Arc::new(UpstreamPlaces::new(&[Arc::clone(&wake)])).of_loop(0),
                wake: Arc::clone(&wake),
                stop: Arc::clone(&stop),
                changes: reloads.changes(),
            },
        };
        let world = Rc::new(RefCell::new(World::new(plan, random, site, Arc::clone(&wake), disk)));
        parts.listeners[1].udp = SimulatedUdp::of(&world);
        let worker = Worker::new(SimulatedNet::of(&world), parts).expect("nothing of it can fail");
        Server { worker, world, stop, wake, places, promised: Nanos::ZERO, reloads, writer, log_path, _logs: logs }
    }

    /// Runs until all clients have left and the server has stopped.
    pub fn run(mut self, steps_max: u64) -> Result<Report, String> {
        let outcome = self.run_to_the_end(steps_max);
        let now = self.world.borrow().now;
        outcome.map_err(|why| format!("{why}\n  at {:.3} s; {}", now.as_secs_f64(), self.writer.said().join("; ")))
    }

    fn run_to_the_end(&mut self, steps_max: u64) -> Result<Report, String> {
        let began_at = self.world.borrow().now;
        let (mut steps, mut done_at) = (0, None);
        loop {
            let is_over = self.worker.step(|| ()).map_err(|error| error.to_string())?;
            self.writer.drain();
            self.note_promise();
            self.check_memory()?;
            steps += 1;
            self.reloads.at_turn(steps, &self.world.borrow().plan, self.worker.limits(), &self.wake);
            if steps > steps_max {
                return Err(format!("{steps} turns, and no end"));
            }
            let (now, is_idle, is_stop_due, are_done) = self.look()?;
            if is_over {
                break;
            }
            if is_stop_due {
                self.tell_to_stop();
            }
            if are_done {
                let done_at = *done_at.get_or_insert(now);
                self.end(is_idle || now >= done_at + FLUSHED_AFTER, is_idle || now >= done_at + EMPTY_AFTER)?;
            } else if is_idle {
                return Err("nothing will happen any more, and a client waits".into());
            }
        }
        // A stopping server may give up what is left at the end.
        if self.worker.is_empty() {
            self.check_accounts()?;
        }
        self.check_waits()?;
        self.check_log()?;
        self.check_tails()?;
        let world = self.world.borrow();
        let of_datagrams = world.peers.datagrams.answered();
        let answered = world.peers.clients.iter().flatten().map(|client| client.answered).sum::<u64>() + of_datagrams;
        let (seconds, found) = ((world.now - began_at).as_secs_f64(), self.worker.found_rate(world.now));
        Ok(Report { seconds, steps, answered, trace: world.outcome.trace, found })
    }

    fn tell_to_stop(&self) {
        if !self.stop.is_asked() {
            self.stop.ask();
            self.wake.set();
        }
    }

    /// Checks the state after all clients have left. `is_flushed`: the log has its lines; `is_late`: no connection may
    /// be left.
    fn end(&mut self, is_flushed: bool, is_late: bool) -> Result<(), String> {
        let is_empty = self.worker.is_empty();
        if !is_empty && is_late {
            return Err("all clients have left, and connections are left".into());
        }
        let idle = self.worker.idle_upstream_connections();
        if idle > 0 && is_late {
            return Err(format!("all clients have left, and {idle} idle connections to upstreams are left"));
        }
        if is_empty && is_flushed && idle == 0 && !self.stop.is_asked() {
            self.check_accounts()?;
            self.tell_to_stop();
        }
        Ok(())
    }

    /// Returns the time, and whether no event is left, the server must stop, and all clients have left.
    fn look(&self) -> Result<(Nanos, bool, bool, bool), String> {
        let mut world = self.world.borrow_mut();
        let (now, are_done, outcome) = (world.now, world.are_clients_done(), &mut world.outcome);
        match outcome.broken.take() {
            Some(why) => Err(why),
            None => Ok((now, std::mem::take(&mut outcome.is_over), outcome.is_stop_due, are_done)),
        }
    }

    /// Checks that no account is kept of clients that have left.
    fn check_accounts(&mut self) -> Result<(), String> {
        let now = self.world.borrow().now;
        let left = self.worker.left_over(now);
        if !left.is_empty() {
            return Err(format!("when all have left: {left}"));
        }
        let free = std::iter::from_fn(|| self.places.take().then_some(())).count();
        (0..free).for_each(|_| self.places.give_back());
        if free != self.places.max() {
            return Err(format!("when all have left, {free} of {} places are free", self.places.max()));
        }
        Ok(())
    }

    /// Checks that all connections together hold little more memory than allowed, and that the count matches the memory
    /// allocated.
    fn check_memory(&mut self) -> Result<(), String> {
        let (held, most) = (self.worker.held_bytes(), self.world.borrow().plan.memory_bytes);
        if held > most.saturating_add(most / 10) {
            return Err(format!("connections hold {held} of {most} bytes"));
        }
        self.worker.check_memory()
    }

    /// Records the guard's promise. It depends on the pace, which may have been slower before.
    fn note_promise(&mut self) {
        if let Some(Notice::LongestWait { promised, .. }) = self.worker.longest_wait() {
            self.promised = self.promised.max(promised);
        }
    }

    /// Checks that each received response has its log line, and no request has two. Malformed requests over HTTP/2 and
    /// HTTP/3, and errors that end a connection, have lines without a response; the number of these lines is bounded.
    fn check_log(&mut self) -> Result<(), String> {
        self.writer.drain();
        let Some(path) = &self.log_path else { return Ok(()) };
        let is_unanswered = |row: &LogLine| row.status == 400 && row.head_bytes == 0;
        let (unanswered, rows): (Vec<_>, Vec<_>) = read_log(path)?.into_iter().partition(is_unanswered);
        let lines = rows.len() as u64;
        std::fs::write(path, "").map_err(|error| error.to_string())?;
        let world = self.world.borrow();
        let count = |of: fn(&Client) -> u64| world.peers.clients.iter().flatten().map(of).sum::<u64>();
        let datagrams = &world.peers.datagrams;
        let answered = count(|client| client.answered) + datagrams.answered();
        let asked = count(Client::asked) + datagrams.asked();
        let resets = u64::from(PROVOKED.burst) + u64::from(PROVOKED.per_s) * (1 + world.now.0 / 1_000_000_000);
        let wrong =
            count(|client| u64::from(!client.is_honest())) + world.plan.http3.map_or(0, |plan| plan.clients as u64);
        if unanswered.len() as u64 > wrong * (1 + resets) {
            return Err(format!(
                "{} lines without a response for {wrong} clients that make mistakes",
                unanswered.len()
            ));
        }
        // A stopped server may still have some.
        let has_all = lines >= answered || world.plan.stop_after.is_some();
        if !has_all || lines > asked {
            let shown: Vec<_> = rows.iter().map(|row| (row.status, row.content_length, row.body_bytes)).collect();
            return Err(format!("{lines} lines for {answered} responses to {asked} requests: {shown:?}"));
        }
        Ok(())
    }

    /// Checks that data followed whenever the server had announced more to the kernel.
    fn check_tails(&self) -> Result<(), String> {
        self.world.borrow().outcome.held_tails.first().map_or(Ok(()), |tail| Err(tail.clone()))
    }

    /// Checks the guard's promise.
    fn check_waits(&self) -> Result<(), String> {
        match self.worker.longest_wait() {
            Some(Notice::LongestWait { wait, responses, .. }) if wait > self.promised => Err(format!(
                "a ready response waited {:.3} s; promised are {:.3} s with {responses}; {}",
                wait.as_secs_f64(),
                self.promised.as_secs_f64(),
                self.worker.describe_line(self.world.borrow().now),
            )),
            _ => Ok(()),
        }
    }
}
