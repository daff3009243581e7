//! A worker: one event loop with listening sockets, its connections and its files.
//!
//! Each turn takes the ready descriptors, reads and parses the bytes that have arrived, and passes responses to the
//! worker's own [`Transmitter`]. Workers share no data that changes often, so a request is answered by the thread that
//! accepted its connection. An order over all connections requires a single place of decision, so with paced shaping
//! there is one worker, which reads, decides and sends. (A second thread that sent the responses of the workers took
//! 1.4 to 1.6 times the CPU time of this, and its order was no better: docs/notebook/shape.md.)
//!
//! A turn is bounded, and so is each connection's share of it ([`reading`]). The kernel reports each arrival once
//! (edge-triggered), so connections with unread data are kept in a queue and take turns.

mod accept;
mod admission;
mod budget;
mod change;
mod client_behind_proxy;
mod ending;
mod forward_auth;
mod give_back_memory;
mod give_up_idle;
mod handshakes;
mod http3;
mod known_clients;
#[cfg(test)]
mod left_over;
mod listener;
mod listeners;
mod logins;
mod longest_idle;
mod output;
mod proxy_effects;
mod proxy_header;
mod reading;
mod receiving;
mod responder;
mod service;
mod shortage;
mod stop;
mod streams;
mod sweep;
#[cfg(test)]
mod tests;
mod timers;
mod udp_endpoints;
mod upstream_request;
mod upstream_response;
mod upstreams;

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use units::Nanos;

use crate::answer::{Handler, LineView};
use crate::connection::Connection;
use crate::journal::{self, Journal};
use crate::limits::Limits;
use crate::net::{Net, Os, Source};
use crate::poll::Ready;
use crate::send::Transmitter;
use crate::sys;
use crate::threads::Beat;
use crate::upstream::{self, LoopPlaces, connection_of};
use crate::wake::Wake;
pub use admission::Admission;
pub use change::{Change, Changes, LinkChange, MemoryShare, NewSettings};
pub use listener::Listener;
use listeners::Listeners;
use responder::Responder;
use service::Service;
use shortage::{IDLE_FOR, waiting};
pub use stop::Stop;
use udp_endpoints::UdpEndpoints;

const LISTENER: u64 = u64::MAX;
const WOKEN: u64 = u64::MAX - 1;
const FILES: u64 = u64::MAX - 2;
const DATAGRAMS: u64 = u64::MAX - 3;

/// The nice value of an event loop that paces. With eight busy loops on two processors, 1 % of its wake-ups were at
/// least 0.7 ms late; with a nice value of 0 they were 6.8 ms late. The event loop sleeps most of the time, so other
/// processes lose little.
const PACED_NICE: i32 = -10;

/// The maximum bytes read from a socket per system call. A request head fits in one packet; this size is for clients
/// that send many requests.
const READ_BYTES: usize = 64 << 10;

/// The settings with which a worker starts.
pub struct Setup {
    /// The number of this worker, from 0.
    pub number: usize,
    /// Places at upstreams, shared with the other workers.
    pub upstream_places: LoopPlaces,
    pub wake: Arc<Wake>,
    pub stop: Arc<Stop>,
    /// Settings that this worker has not applied yet.
    pub changes: Arc<Changes>,
}

/// The parts from which a worker is built.
pub struct Parts<N: Net = Os> {
    pub setup: Setup,
    pub limits: Limits,
    /// The listening sockets; at least one.
    pub listeners: Vec<Listener<N>>,
    pub admission: Admission,
    pub handler: Handler,
    pub journal: Journal,
    pub transmitter: Transmitter,
}

/// The event loop. It is composed of components that do not depend on each other.
pub struct Worker<N: Net = Os> {
    acceptor: Listeners<N>,
    udp: UdpEndpoints<N>,
    responder: Responder<N>,
}

/// Registers the wake-up descriptor, and the descriptor that reports file changes.
fn watch<N: Net>(net: &N, setup: &Setup, handler: &Handler) -> io::Result<()> {
    net.add(Source::Wake(&setup.wake), WOKEN, EventFlags::IN)?;
    if let Some(watch) = handler.watch_fd() {
        net.add(Source::Files(watch), FILES, EventFlags::IN)?;
    }
    Ok(())
}

impl Worker {
    /// Returns the reason why this worker waits with two system calls instead of one, if it does.
    pub fn poll_refusal(&self) -> Option<io::Error> {
        self.responder.net.refusal()
    }

    /// Serves until a stop is requested and the last response has been sent, or the time limit for stopping is reached.
    pub fn run(mut self, beat: &Beat) -> io::Result<()> {
        if self.responder.transmitter.is_paced() {
            // The default timer slack of 50 µs would be 4 % of the time of a segment at 10 Mbit/s.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            // The kernel refuses this without privilege. The scheduler then hands down bytes ahead of time, by as much
            // as wake-ups are late ([`sched::Lateness`]).
            if rustix::process::getpriority_process(None).is_ok_and(|nice| nice > PACED_NICE) {
                let _ = sys::set_thread_nice(PACED_NICE);
            }
        }
        while !self.step(|| beat.turn())? {}
        Ok(())
    }
}

impl<N: Net> Worker<N> {
    /// Creates a worker on this network.
    pub fn new(net: N, parts: Parts<N>) -> io::Result<Worker<N>> {
        let Parts { setup, limits, listeners, admission, handler, journal, transmitter } = parts;
        watch(&net, &setup, &handler)?;
        let responder = Responder::new(net, setup, limits, Service { admission, handler, journal }, transmitter);
        let mut worker = Worker { acceptor: Listeners::new(listeners), udp: UdpEndpoints::default(), responder };
        worker.acceptor.accept_again(&mut worker.responder)?;
        worker.udp.open_all(worker.acceptor.listeners(), &worker.responder)?;
        Ok(worker)
    }

    /// Waits, calls `awake`, then runs one turn. Returns true if a stop was requested and the last response has been
    /// sent or the time limit is reached.
    pub fn step(&mut self, awake: impl FnOnce()) -> io::Result<bool> {
        let timeout = self.timeout();
        self.responder.net.wait(timeout)?;
        awake();
        self.begin_turn(timeout);
        self.turn();
        Ok(self.responder.setup.stop.is_asked() && self.stop())
    }

    fn turn(&mut self) {
        // File changes come first, so that a change takes effect before any request made after it.
        let with = &mut self.responder;
        if with.net.is_left(FILES) {
            with.service.handler.on_change();
        }
        let has_newcomers = with.net.is_left(LISTENER);
        while let Some(ready) = self.responder.net.take() {
            let with = &mut self.responder;
            with.budget.to_come = with.net.left() + usize::from(has_newcomers);
            self.on_ready(ready);
            let with = &self.responder;
            if with.timers.is_turn_over(with.net.now()) {
                break;
            }
        }
        let with = &mut self.responder;
        with.budget.to_come = usize::from(has_newcomers);
        self.answer_found();
        self.responder.answer_decided();
        self.read_queued();
        // Existing connections come first.
        if has_newcomers {
            self.acceptor.accept(&mut self.responder);
        }
        self.responder.transmit();
        self.make_memory();
        self.sweep();
        self.acceptor.make_room(&mut self.responder);
        self.udp.look_after(&self.responder);
        let with = &mut self.responder;
        with.service.journal.flush(with.timers.now());
    }

    fn on_ready(&mut self, ready: Ready) {
        match ready.token {
            WOKEN => self.on_woken(),
            LISTENER | FILES => {}
            DATAGRAMS => self.udp.on_datagrams(ready.flags, &mut self.acceptor, &mut self.responder),
            token => match connection_of(token) {
                Some(connection) => {
                    self.responder.with_proxy(|proxy, net, now| proxy.on_ready(net, now, connection, ready.flags));
                }
                None => self.responder.on_connection(token, ready.flags),
            },
        }
    }

    /// Begins a turn after a wait of at most `timeout`, and updates the Date field.
    fn begin_turn(&mut self, timeout: Option<Nanos>) {
        let with = &mut self.responder;
        with.read_clock(timeout);
        with.timers.begin_turn(|| with.net.date());
        let (rate, below_bytes) = with.transmitter.link.rate_and_queue(with.timers.now());
        with.service.handler.see_line(LineView { rate, below_bytes });
        with.budget.begin_turn();
        with.service.journal.log_missed(with.timers.now());
    }

    /// Reads each queued connection once, or leaves it for the next turn.
    fn read_queued(&mut self) {
        let with = &mut self.responder;
        for _ in 0..with.connections.queued() {
            if let Some(at) = with.connections.unqueue() {
                with.read(at);
                if with.transmitter.is_due(&with.connections, || with.net.now()) {
                    with.transmit();
                }
                // A closed multiplexed connection may have many departures.
                with.take_departures();
            }
            if with.timers.is_turn_over(with.net.now()) {
                return;
            }
        }
    }

    /// Answers requests whose lookup has ended, until the turn's time is up.
    fn answer_found(&mut self) {
        let with = &mut self.responder;
        let others = with.budget.to_come;
        with.service.handler.give_up_forms(with.timers.now());
        while let Some((id, found)) = with.service.handler.next_found() {
            with.budget.to_come = others + with.service.handler.found();
            // There is no exchange if the client has left since.
            if with.connections.is_open(id) {
                let (now, conn) = (with.timers.now(), &mut with.connections[id]);
                if let Some(answered) = with.service.answer_found(now, conn, id.stream, found) {
                    with.send_answered(id, answered);
                }
                if !with.connections.contains(id.slot()) {
                    continue;
                }
                with.flush(id.slot());
                with.connections.count(id.slot());
                with.connections.go_on(id.slot());
            }
            if with.timers.is_turn_over(with.net.now()) {
                break;
            }
        }
        with.budget.to_come = others;
    }

    /// Ends connections while they hold too much memory, as long as the turn has time.
    fn make_memory(&mut self) {
        let with = &mut self.responder;
        let released_bytes = with.connections.account().released_bytes();
        if with.proxy.may_be_fed(released_bytes) {
            with.with_proxy(|proxy, _, _| proxy.feed(released_bytes));
        }
        while with.service.admission.is_memory_short() && !with.timers.is_turn_over(with.net.now()) {
            let now = with.timers.now();
            let waiting_bytes = |conn: &Connection<_>| waiting(&with.proxy, conn).bytes;
            let (connections, link) = (&with.connections, &with.transmitter.link);
            if let Some(at) = with.service.admission.shortage.next(now, connections, link, waiting_bytes) {
                with.end_for_memory(at);
            } else if !with.give_up_idle(IDLE_FOR) {
                return;
            }
            with.take_departures();
        }
    }

    /// Handles wake-ups from other threads: new configuration, finished lookups, status requests.
    fn on_woken(&mut self) {
        self.responder.setup.wake.clear();
        self.take_changes();
        let with = &mut self.responder;
        let (now, link) = (with.timers.now(), &mut with.transmitter.link);
        let served = with.service.handler.renew();
        if let Some(assigned) = served.as_ref().and_then(|served| served.assigned.as_ref()) {
            link.scheduler_mut().replace_classes(now, assigned.specs());
            with.service.journal.replace_classes(assigned);
        }
        if served.is_some() {
            let Service { journal, handler, .. } = &mut with.service;
            // Metrics label sites with these names from now on.
            journal.replace_sites(handler.site_names());
        }
        with.service.handler.take_found(now);
        with.service.handler.take_decided();
        if with.setup.number == 0 {
            with.service.log_busiest(now, link.scheduler());
            with.service.journal.answer_routes(|| with.proxy.upstreams().learned.status());
        }
        let connections = &with.connections;
        with.service.journal.answer_status(now, link, |link| journal::sending(now, connections, link));
        let upstreams = || upstream::status(with.proxy.upstreams(), now, with.service.handler.groups());
        with.service.journal.answer_upstreams(upstreams);
        with.service.journal.answer_responses(|| with.responses());
        if served.is_some() {
            with.service.handler.acceptor().inspect(|acceptor| self.udp.renew(acceptor));
        }
        with.with_proxy(|proxy, _, _| proxy.release());
    }

    /// Returns the time until something is due: zero if something is ready, `None` if nothing is due.
    fn timeout(&self) -> Option<Nanos> {
        let with = &self.responder;
        if with.connections.queued() > 0
            || with.service.handler.found() > 0
            || with.service.handler.decided() > 0
            || with.net.left() > 0
            || with.timers.is_sweeping()
            || with.proxy.may_be_fed(with.connections.account().released_bytes())
        {
            return Some(Nanos::ZERO);
        }
        let grant_at = with.transmitter.poll_timeout(&with.connections);
        let is_waiting = !self.acceptor.is_accepting()
            || !with.connections.is_empty()
            || with.timers.is_stopping()
            || with.service.handler.has_checks()
            || with.service.handler.are_files_due()
            || with.proxy.upstreams().has_connections()
            || with.transmitter.has_memory_to_give(&with.connections);
        let memory_at = with.service.admission.shortage.look_at(with.connections.account());
        let sweep_at = is_waiting.then_some(with.timers.sweep_due());
        let (room_at, forms_at) = (with.service.admission.room_at(), with.service.handler.forms_due());
        let times = [sweep_at, with.service.journal.wake_at(), grant_at, room_at, memory_at, forms_at];
        let wake_at = times.into_iter().flatten().min();
        wake_at.map(|at| at - if with.transmitter.is_paced() { with.net.now() } else { with.timers.now() })
    }
}
