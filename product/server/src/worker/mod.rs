//! A worker: one event loop with listening sockets, its connections and its files.
//!
//! Each turn takes the ready descriptors, reads and parses what came, and hands responses to the worker's own
//! [`Transmitter`]. Workers share nothing hot, so a request is answered by the thread that accepted its connection. An order over
//! all connections wants one place that decides, so with paced shaping there is one worker, which reads, decides and sends. (A second
//! thread that sent what the workers read took 1.4 to 1.6 times the CPU of this, and its order was no better:
//! docs/notebook/shape.md.)
//!
//! A turn is bounded, and so is what one connection gets in it ([`input`]): the kernel tells of each arrival once
//! (edge-triggered), so what is not read yet is kept in a list, and its connections take turns.

mod accept;
mod acceptor;
mod admission;
mod budget;
mod client;
mod conn;
mod connections;
mod deadlines;
mod exchange;
mod failures;
mod flight;
mod held;
mod http3;
mod idle;
mod input;
mod journal;
#[cfg(test)]
mod left_over;
mod line;
mod lookup;
mod measured;
mod memory;
mod named;
mod origin;
mod output;
mod owner;
mod passed_on;
mod proxy;
mod proxy_header;
mod replies;
mod response_end;
mod room;
mod secure;
mod sender;
mod service;
mod shortage;
mod spool;
mod streams;
#[cfg(test)]
mod tests;
mod timers;
mod udp_endpoints;
mod upstreams;

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::EventFlags;
use units::Nanos;

use crate::config::Limits;
use crate::listen::Listener;
use crate::net::{Net, Os, Source};
use crate::poll::Ready;
use crate::threads::Beat;
use crate::transmit::{Departure, Transmitter, Transport};
use crate::upstream::connection_of;
use crate::wake::Wake;
use acceptor::Acceptor;
pub use admission::Admission;
use budget::Budget;
use connections::Connections;
pub use journal::Journal;
use proxy::Proxy;
pub use replies::Replies;
use sender::Sender;
use service::Service;
use timers::Timers;
use udp_endpoints::UdpEndpoints;

const LISTENER: u64 = u64::MAX;
const WOKEN: u64 = u64::MAX - 1;
const FILES: u64 = u64::MAX - 2;
const DATAGRAMS: u64 = u64::MAX - 3;

/// Bytes read from a socket at once. A request head is one packet; this is for those who send many.
const READ_BYTES: usize = 64 << 10;

/// What decides whose bytes leave first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Nothing: responses leave as they are asked for, each as soon as it is ready, and small ones take the shortest way.
    Arrival,
    /// The policy, among those that are ready in the same turn.
    Turn,
    /// The kernel, by the marks of packets.
    Marks,
    /// The policy, at the pace of the uplink.
    Pace,
}

/// What a worker is told when it starts.
pub struct Setup {
    /// Among the workers, from 0.
    pub number: usize,
    pub order: Order,
    /// A response that is alone need not be a job while nothing is paced or marked.
    pub is_direct: bool,
    pub limits: Limits,
    pub wake: Arc<Wake>,
    pub stop: Arc<AtomicBool>,
}

impl Setup {
    fn is_paced(&self) -> bool {
        self.order == Order::Pace
    }
}

/// What a worker is made of.
pub struct Parts<N: Net = Os> {
    pub setup: Setup,
    /// At least one.
    pub listeners: Vec<Listener<N>>,
    pub admission: Admission,
    pub replies: Replies,
    pub journal: Journal,
    pub transmitter: Transmitter<Transport<N>>,
}

/// The event loop, over owners that know nothing of each other.
pub struct Worker<N: Net = Os> {
    setup: Setup,
    net: N,
    timers: Timers,
    budget: Budget,
    acceptor: Acceptor<N>,
    conns: Connections,
    service: Service,
    sender: Sender<N>,
    udp: UdpEndpoints<N>,
    proxy: Proxy<N>,
    buffers: Buffers,
}

/// Memory that is kept from one use to the next.
struct Buffers {
    /// What a socket has received.
    scratch: Box<[u8]>,
    /// What a client has said over TLS.
    plain: Vec<u8>,
    /// Responses being built.
    out: Vec<u8>,
    departures: Vec<Departure>,
    /// Connections accepted in this turn.
    newcomers: Vec<usize>,
}

impl Buffers {
    fn new() -> Buffers {
        let scratch = vec![0; READ_BYTES].into_boxed_slice();
        Buffers { scratch, plain: Vec::new(), out: Vec::new(), departures: Vec::new(), newcomers: Vec::new() }
    }

    /// Keeps a buffer for the next response, unless it is longer than that.
    fn reuse(&mut self, mut buffer: Vec<u8>, bytes_max: usize) {
        if self.out.capacity() == 0 && buffer.capacity() <= bytes_max {
            buffer.clear();
            self.out = buffer;
        }
    }
}

/// Has its wake-up announced, and changes of files.
fn watch<N: Net>(net: &N, setup: &Setup, replies: &Replies) -> io::Result<()> {
    net.add(Source::Wake(&setup.wake), WOKEN, EventFlags::IN)?;
    if let Some(watch) = replies.watch_fd() {
        net.add(Source::Files(watch), FILES, EventFlags::IN)?;
    }
    Ok(())
}

impl Worker {
    /// Why this worker waits with two system calls where one would do.
    pub fn poll_refusal(&self) -> Option<io::Error> {
        self.net.refusal()
    }

    /// Serves until told to stop and the last response is sent, or the time for that is over.
    pub fn run(mut self, beat: &Beat) -> io::Result<()> {
        if self.setup.is_paced() {
            // The default slack of 50 µs would be 4 % of the time a segment takes at 10 Mbit/s.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        while !self.step(|| beat.turn())? {}
        Ok(())
    }
}

impl<N: Net> Worker<N> {
    /// In this world.
    pub fn new(net: N, parts: Parts<N>) -> io::Result<Worker<N>> {
        let Parts { setup, listeners, admission, replies, journal, transmitter } = parts;
        watch(&net, &setup, &replies)?;
        let mut worker = Worker {
            timers: Timers::new(net.now()),
            net,
            budget: Budget::default(),
            acceptor: Acceptor::new(listeners),
            conns: Connections::default(),
            service: Service { admission, replies, journal },
            sender: Sender::new(transmitter, &setup),
            setup,
            udp: UdpEndpoints::default(),
            proxy: Proxy::default(),
            buffers: Buffers::new(),
        };
        worker.accept_again()?;
        worker.open_udp_endpoints()?;
        Ok(worker)
    }

    /// One turn, after a wait; `awake` is called between them. True: it was told to stop, and the last response is sent or the time for that is
    /// over.
    pub fn step(&mut self, awake: impl FnOnce()) -> io::Result<bool> {
        let timeout = self.timeout();
        self.net.wait(timeout)?;
        awake();
        self.tick(timeout);
        self.turn();
        let is_over = self.setup.stop.load(Ordering::Acquire) && self.is_stopped();
        if is_over && let Some(notice) = self.sender.transmitter.link.longest_wait() {
            self.service.journal.error(notice);
        }
        Ok(is_over)
    }

    fn turn(&mut self) {
        // A file's change reaches us before any request made after it, if it is looked at first.
        if self.net.is_left(FILES) {
            self.service.replies.on_change();
        }
        let has_newcomers = self.net.is_left(LISTENER);
        while let Some(ready) = self.net.take() {
            self.budget.to_come = self.net.left() + usize::from(has_newcomers);
            self.on_ready(ready);
            if self.timers.is_turn_over(self.net.now()) {
                break;
            }
        }
        self.budget.to_come = usize::from(has_newcomers);
        self.answer_found();
        self.read_queued();
        // Those who are here already come first.
        if has_newcomers {
            self.accept();
        }
        self.transmit();
        self.make_memory();
        self.make_room();
        self.sweep();
        self.service.journal.flush(self.timers.now());
    }

    /// Every connection on the list has its turn once, or waits for the next.
    fn read_queued(&mut self) {
        for _ in 0..self.conns.queued() {
            if let Some(at) = self.conns.unqueue() {
                self.read(at);
                self.transmit_due();
                // Of one that was closed there may be many.
                self.take_departures();
            }
            if self.timers.is_turn_over(self.net.now()) {
                return;
            }
        }
    }

    fn on_ready(&mut self, ready: Ready) {
        match ready.token {
            WOKEN => {
                self.setup.wake.clear();
                if let Some(served) = self.service.replies.renew() {
                    if let Some(assigned) = &served.assigned {
                        let scheduler = self.sender.transmitter.link.scheduler_mut();
                        scheduler.replace_classes(self.timers.now(), assigned.specs());
                        self.service.journal.replace_classes(assigned);
                    }
                    self.service.replies.handler().acceptor().inspect(|acceptor| self.udp.renew(acceptor));
                }
                self.service.replies.take_found(self.timers.now());
                if self.setup.number == 0 {
                    self.service.log_busiest(self.timers.now(), self.sender.transmitter.link.scheduler());
                    self.service.answer_status(self.timers.now(), &self.conns, &self.sender.transmitter.link);
                }
            }
            LISTENER | FILES => {}
            DATAGRAMS => self.on_datagrams(ready.flags),
            token => match connection_of(token) {
                Some(connection) => self.with_upstreams(|proxy, with| proxy.on_upstream(with, connection, ready.flags)),
                None => self.on_connection(token, ready.flags),
            },
        }
    }

    fn on_connection(&mut self, owner: u64, flags: EventFlags) {
        let Some(at) = self.conns.slot(owner) else { return };
        let conn = &mut self.conns[at];
        let is_broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        // Many responses may end with one of several: that is work for its turn.
        if is_broken && !conn.is_multiplexed() {
            return self.abandon(at);
        }
        let is_readable = is_broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP);
        conn.input.is_readable |= is_readable;
        conn.input.has_ended |= flags.contains(EventFlags::RDHUP);
        let is_multiplexed = conn.is_multiplexed();
        let (is_answering, is_reading) = (conn.is_answering(), conn.is_reading());
        if flags.contains(EventFlags::OUT) {
            self.sender.transmitter.on_writable(self.timers.now(), at);
            if !is_multiplexed && !is_answering {
                self.send_sealed(at);
            }
            // Its last frames may have left.
            if self.conns[at].exchanges.streams().is_some_and(|streams| streams.ends_at.is_some()) {
                self.conns.wake(at);
            }
        }
        if is_readable && is_reading {
            self.conns.queue(at);
        }
    }

    /// Ends the connection.
    fn close(&mut self, at: usize) {
        if self.conns[at].exchanges.streams().is_some_and(|streams| !streams.is_idle()) {
            return self.abandon(at);
        }
        self.sender.end(self.timers.now(), &mut self.conns[at], &self.service.replies);
        self.leave_upstream(at.into());
        self.service.leave(&self.net, &self.timers, &mut self.conns[at], 0, &self.sender.transmitter.link);
        let untold_bytes = self.sender.transmitter.close(self.timers.now(), at);
        let conn = &self.conns[at];
        let (client, of_response) = (conn.client, conn.client_of(0));
        self.service.admission.spend(of_response, untold_bytes);
        self.service.forget_origin(self.timers.now(), &mut self.conns[at], 0);
        self.service.admission.leave(self.timers.now(), client);
        self.conns.remove(at);
        // A client in the kernel's queue takes its place; should that fail, the next sweep tries again and says so.
        let _ = self.accept_again();
    }

    /// Reads the clock, `timeout` at most after it was read before; a longer time is a pause, in which no client was heard.
    fn read_clock(&mut self, timeout: Option<Nanos>) {
        let paused = self.timers.advance(self.net.now(), timeout);
        if paused > Nanos::ZERO {
            self.conns.excuse(paused);
            self.sender.transmitter.connections.excuse(paused);
            self.proxy.excuse(paused);
        }
    }

    /// Begins a turn, after a wait of at most `timeout`, and keeps the Date field true.
    fn tick(&mut self, timeout: Option<Nanos>) {
        self.read_clock(timeout);
        self.timers.begin_turn(|| self.net.date());
        self.budget.begin_turn();
        self.service.journal.log_missed(self.timers.now());
    }

    fn timeout(&self) -> Option<Nanos> {
        if self.conns.queued() > 0
            || self.service.replies.found() > 0
            || self.net.left() > 0
            || self.timers.is_sweeping()
        {
            return Some(Nanos::ZERO);
        }
        let grant_at = self.sender.transmitter.poll_timeout();
        let is_waiting = !self.conns.is_empty()
            || !self.acceptor.is_accepting()
            || self.timers.is_stopping()
            || self.sender.has_memory_to_give(&self.conns);
        let memory_at = self.service.admission.shortage.look_at(self.conns.held().bytes());
        let sweep_at = is_waiting.then_some(self.timers.sweep_due());
        let times = [sweep_at, self.service.journal.wake_at(), grant_at, self.service.admission.room_at(), memory_at];
        let wake_at = times.into_iter().flatten().min();
        wake_at.map(|at| at - if self.setup.is_paced() { self.net.now() } else { self.timers.now() })
    }
}
