//! A worker: one event loop with listening sockets, its connections and its files.
//!
//! Each turn takes the ready descriptors, reads and parses what came, and hands responses to the worker's own
//! [`Transmitter`]. Workers share nothing hot, so a request is answered by the thread that accepted its connection. An order over
//! all connections wants one place that decides, so with the drain paced there is one worker, which reads, decides and sends. (A second
//! thread that sent what the workers read took 1.4 to 1.6 times the CPU of this, and its order was no better:
//! docs/notebook/shape.md.)
//!
//! A turn is bounded, and so is what one connection gets in it ([`input`]): the kernel tells of each arrival once
//! (edge-triggered), so what is not read yet is kept in a list, and its connections take turns.

mod accept;
mod client;
mod conn;
mod deadlines;
mod ending;
mod exchange;
mod find;
mod flight;
#[cfg(feature = "http3")]
mod http3;
mod input;
#[cfg(test)]
mod left_over;
mod line;
mod measured;
mod memory;
mod output;
mod owner;
mod room;
mod secure;
mod streams;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HttpDate;
use rustix::event::epoll::EventFlags;
use slab::Slab;
use units::Nanos;

use crate::clients::Clients;
use crate::clock;
use crate::config::Limits;
use crate::files::{Answer, Finds};
use crate::listen::Listener;
use crate::log::AccessLog;
use crate::net::{Net, Os, Source};
use crate::objectives::Desk;
use crate::places::Places;
use crate::poll::Ready;
use crate::reply::Replier;
use crate::sites::Current;
use crate::threads::Beat;
use crate::transmit::{Departure, Transmitter, Transport};
use crate::turns::Turns;
use crate::wake::Wake;
use client::Known;
use conn::Conn;
use deadlines::Sweep;
use input::Budget;
use measured::Measures;
use owner::{Owners, slot_of};
use room::Idle;
use secure::Secured;
use streams::OpenStreams;

const LISTENER: u64 = u64::MAX;
const WOKEN: u64 = u64::MAX - 1;
const FILES: u64 = u64::MAX - 2;
#[cfg(feature = "http3")]
const DATAGRAMS: u64 = u64::MAX - 3;

/// Bytes read from a socket at once. A request head is one packet; this is for those who send many.
const READ_BYTES: usize = 64 << 10;
const SWEEP_EVERY: Nanos = Nanos::from_secs(1);
/// After so long a turn, the connections that are still to be read wait for the next: others have become ready meanwhile.
const TURN_FOR: Nanos = Nanos::from_millis(5);

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

/// What a worker is made of.
pub struct Parts<N: Net = Os> {
    pub number: usize,
    /// At least one.
    pub listeners: Vec<Listener<N>>,
    pub replier: Replier,
    pub finds: Finds,
    pub transmitter: Transmitter<Transport<N>>,
    pub order: Order,
    /// The order of ready responses goes by them alone.
    pub is_memoryless: bool,
    pub wake: Arc<Wake>,
    pub log: AccessLog,
    pub limits: Limits,
    pub places: Arc<Places>,
    pub clients: Arc<Clients>,
    pub stop: Arc<AtomicBool>,
    pub current: Arc<Current>,
    /// Where the classes are asked for.
    pub desk: Arc<Desk>,
}

pub struct Worker<N: Net = Os> {
    parts: Parts<N>,
    net: N,
    conns: Slab<Conn>,
    owners: Owners,
    known: Known,
    /// Owners of connections with something to be read, each once.
    queue: Turns<u64>,
    /// What the connection being read may still take of this turn.
    budget: Budget,
    streams: OpenStreams,
    /// What is of clients that speak TLS.
    secured: Secured,
    #[cfg(feature = "http3")]
    http3: http3::Http3<N>,
    /// What each class of a file has had; none without any.
    measures: Option<Box<Measures>>,
    /// When this turn began, or the transmitter last ran in it.
    now: Nanos,
    turn_began_at: Nanos,
    /// A response that is alone need not be a job while nothing is paced or marked, and the policy goes by the ready jobs.
    is_direct: bool,
    /// Events and newcomers of this turn that are still to be looked at, and may bring responses.
    to_come: usize,
    /// The Date field, and the second for which it was made.
    date: HttpDate,
    dated: u64,
    sweep: Sweep,
    /// No memory is given back before.
    give_back_at: Nanos,
    is_accepting: bool,
    /// The listener that was asked last.
    next_listener: usize,
    /// Connections could not be accepted for want of descriptors or memory, and this was said.
    is_short: bool,
    stop_at: Option<Nanos>,
    /// Of the sites that are served.
    sites_turn: u64,
    /// When the log wants to be flushed again.
    log_at: Option<Nanos>,
    scratch: Box<[u8]>,
    /// Responses being built.
    out: Vec<u8>,
    departures: Vec<Departure>,
    /// For connections whose find has ended; at most one each.
    found: VecDeque<Answer>,
    /// Connections accepted in this turn.
    newcomers: Vec<usize>,
    /// Those that give way to newcomers.
    idle: Idle,
}

/// Has its wake-up announced, and changes of files.
fn watch<N: Net>(net: &N, parts: &Parts<N>) -> io::Result<()> {
    net.add(Source::Wake(&parts.wake), WOKEN, EventFlags::IN)?;
    if let Some(watch) = parts.replier.cache.watch_fd() {
        net.add(Source::Files(watch), FILES, EventFlags::IN)?;
    }
    Ok(())
}

/// Whether a response that is alone need not be a job.
fn is_direct<N: Net>(parts: &Parts<N>) -> bool {
    parts.is_memoryless && parts.order != Order::Marks
}

impl Worker {
    /// Why this worker waits with two system calls where one would do.
    pub fn poll_refusal(&self) -> Option<io::Error> {
        self.net.refusal()
    }

    /// Serves until told to stop and the last response is sent, or the time for that is over.
    pub fn run(mut self, beat: &Beat) -> io::Result<()> {
        if self.is_paced() {
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
        let mut worker = Worker {
            is_direct: is_direct(&parts),
            streams: OpenStreams::beside(parts.places.max()),
            measures: parts.current.served().assigned.as_deref().map(|assigned| Box::new(Measures::new(assigned))),
            parts,
            owners: Owners::default(),
            known: Known::default(),
            to_come: 0,
            conns: Slab::new(),
            queue: Turns::default(),
            budget: Budget::default(),
            secured: Secured::default(),
            #[cfg(feature = "http3")]
            http3: http3::Http3::default(),
            now: net.now(),
            turn_began_at: net.now(),
            date: HttpDate::new(net.date()),
            net,
            dated: u64::MAX,
            sweep: Sweep::default(),
            give_back_at: Nanos::ZERO,
            is_accepting: false,
            next_listener: 0,
            is_short: false,
            stop_at: None,
            sites_turn: 0,
            log_at: None,
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            out: Vec::new(),
            departures: Vec::new(),
            found: VecDeque::new(),
            newcomers: Vec::new(),
            idle: Idle::default(),
        };
        worker.listen()?;
        Ok(worker)
    }

    fn listen(&mut self) -> io::Result<()> {
        watch(&self.net, &self.parts)?;
        self.accept_again()?;
        #[cfg(feature = "http3")]
        self.open_doors()?;
        Ok(())
    }

    fn is_paced(&self) -> bool {
        self.parts.order == Order::Pace
    }

    /// One turn, after a wait; `awake` is called between them. True: it was told to stop, and the last response is sent or the time for that is
    /// over.
    pub fn step(&mut self, awake: impl FnOnce()) -> io::Result<bool> {
        let timeout = self.timeout();
        self.net.wait(timeout)?;
        awake();
        self.tick(timeout);
        self.turn();
        let is_over = self.parts.stop.load(Ordering::Acquire) && self.is_stopped();
        if is_over {
            self.tell_longest_wait();
        }
        Ok(is_over)
    }

    fn turn(&mut self) {
        // A file's change reaches us before any request made after it, if it is looked at first.
        if self.net.is_left(FILES) {
            self.parts.replier.cache.on_change();
        }
        let has_newcomers = self.net.is_left(LISTENER);
        while let Some(ready) = self.net.take() {
            self.to_come = self.net.left() + usize::from(has_newcomers);
            self.on_ready(ready);
            if self.is_turn_over() {
                break;
            }
        }
        self.to_come = usize::from(has_newcomers);
        self.answer_found();
        self.read_queued();
        // Those who are here already come first.
        if has_newcomers {
            self.accept();
        }
        self.transmit();
        self.make_room();
        self.sweep();
        self.log_at = self.parts.log.flush(self.now);
    }

    /// Every connection on the list has its turn once, or waits for the next.
    fn read_queued(&mut self) {
        for _ in 0..self.queue.len() {
            let Some(owner) = self.queue.pop() else { return };
            if let Some(at) = self.find(owner) {
                self.conns[at].is_queued = false;
                self.read(at);
                self.transmit_due();
                // Of one that was closed there may be many.
                self.take_departures();
            }
            if self.is_turn_over() {
                return;
            }
        }
    }

    fn is_turn_over(&self) -> bool {
        self.net.now() - self.turn_began_at >= TURN_FOR
    }

    /// Puts a connection on the list of those to be read.
    fn queue(&mut self, at: usize) {
        let conn = &mut self.conns[at];
        if !std::mem::replace(&mut conn.is_queued, true) {
            self.queue.push(conn.client, conn.owner);
        }
    }

    /// The slot of a connection that is still there.
    fn find(&self, owner: u64) -> Option<usize> {
        let at = slot_of(owner);
        self.conns.get(at).is_some_and(|conn| conn.owner == owner).then_some(at)
    }

    fn on_ready(&mut self, ready: Ready) {
        match ready.token {
            WOKEN => {
                self.parts.wake.clear();
                if let Some(served) = self.parts.current.newer(&mut self.sites_turn) {
                    if let Some(assigned) = &served.assigned {
                        self.parts.transmitter.replace_classes(self.now, assigned.specs());
                        self.measure_by(assigned);
                    }
                    self.parts.replier.serve(served);
                    #[cfg(feature = "http3")]
                    self.renew_doors();
                }
                self.take_finds();
                if self.parts.number == 0 {
                    self.tell_busiest();
                    self.tell_status();
                }
            }
            LISTENER | FILES => {}
            #[cfg(feature = "http3")]
            DATAGRAMS => self.on_datagrams(ready.flags),
            token => self.on_connection(token, ready.flags),
        }
    }

    fn on_connection(&mut self, owner: u64, flags: EventFlags) {
        let Some(at) = self.find(owner) else { return };
        let conn = &mut self.conns[at];
        let is_broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        // Many responses may end with one of several: that is work for its turn.
        if is_broken && !conn.is_multiplexed() {
            return self.abandon(at);
        }
        let is_readable = is_broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP);
        conn.is_readable |= is_readable;
        conn.has_ended |= flags.contains(EventFlags::RDHUP);
        let is_multiplexed = conn.is_multiplexed();
        let is_answering = !is_multiplexed && (conn.http1.is_answering() || conn.is_in_flight);
        if flags.contains(EventFlags::OUT) {
            self.parts.transmitter.on_writable(self.now, at);
            if !is_multiplexed && !is_answering {
                self.send_sealed(at);
            }
        }
        if is_readable && !is_answering {
            self.queue(at);
        }
    }

    /// Ends the connection.
    fn close(&mut self, at: usize) {
        if self.conns[at].exchanges.streams().is_some_and(|streams| !streams.is_idle()) {
            return self.abandon(at);
        }
        #[cfg(feature = "http3")]
        self.http3.flows.forget(self.conns[at].owner);
        self.detach_streams(at);
        self.end_sealed(at);
        self.leave_find(at.into());
        self.note_unanswered(at);
        self.log_unanswered(at.into());
        let untold_bytes = self.parts.transmitter.close(self.now, at);
        self.spend(at, untold_bytes);
        self.let_go(at);
        self.conns.remove(at);
        self.parts.places.give_back();
        // A client in the kernel's queue takes its place; should that fail, the next sweep tries again and says so.
        let _ = self.accept_again();
    }

    /// Reads the clock, `timeout` at most after it was read before; a longer time is a pause, in which no client was heard.
    fn read_clock(&mut self, timeout: Option<Nanos>) {
        let before = std::mem::replace(&mut self.now, self.net.now());
        let paused = clock::paused(self.now - before, timeout);
        if paused > Nanos::ZERO {
            self.excuse(paused);
        }
    }

    /// Begins a turn, after a wait of at most `timeout`, and keeps the Date field true.
    fn tick(&mut self, timeout: Option<Nanos>) {
        self.read_clock(timeout);
        self.turn_began_at = self.now;
        self.secured.begin_turn();
        self.tell_missed_objectives();
        let second = self.now.0 / 1_000_000_000;
        if second != self.dated {
            self.dated = second;
            self.date.update(self.net.date());
        }
    }

    fn timeout(&self) -> Option<Nanos> {
        if !self.queue.is_empty() || !self.found.is_empty() || self.net.left() > 0 || self.sweep.is_under_way() {
            return Some(Nanos::ZERO);
        }
        let grant_at = self.parts.transmitter.poll_timeout();
        let is_waiting =
            !self.conns.is_empty() || !self.is_accepting || self.stop_at.is_some() || self.has_memory_to_give();
        let sweep_at = is_waiting.then_some(self.sweep.due_at);
        let wake_at = [sweep_at, self.log_at, grant_at, self.tell_at(), self.room_at()].into_iter().flatten().min();
        wake_at.map(|at| at - if self.is_paced() { self.net.now() } else { self.now })
    }
}
