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
mod connections;
mod deadlines;
mod ending;
mod exchange;
mod find;
mod flight;
#[cfg(feature = "http3")]
mod http3;
mod input;
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
mod timers;

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use rustix::event::epoll::EventFlags;
use units::Nanos;

use crate::clients::Clients;
use crate::clock;
use crate::config::Limits;
use crate::files::{Answer, Finds};
use crate::listen::Listener;
use crate::log::AccessLog;
use crate::objectives::Desk;
use crate::places::Places;
use crate::poll::{Poll, Ready};
use crate::reply::Replier;
use crate::sites::Current;
use crate::threads::Beat;
use crate::transmit::{Departure, Transmitter, Transport};
use crate::wake::Wake;
use client::Known;
use connections::Connections;
use input::Budget;
use measured::Measures;
use room::Idle;
use secure::Secured;
use streams::OpenStreams;
use timers::Timers;

const LISTENER: u64 = u64::MAX;
const WOKEN: u64 = u64::MAX - 1;
const FILES: u64 = u64::MAX - 2;
#[cfg(feature = "http3")]
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

/// What a worker is made of.
pub struct Parts {
    pub number: usize,
    /// At least one.
    pub listeners: Vec<Listener>,
    pub replier: Replier,
    pub finds: Finds,
    pub transmitter: Transmitter<Transport>,
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

pub struct Worker {
    parts: Parts,
    poll: Poll,
    conns: Connections,
    known: Known,
    /// What the connection being read may still take of this turn.
    budget: Budget,
    streams: OpenStreams,
    /// What is of clients that speak TLS.
    secured: Secured,
    #[cfg(feature = "http3")]
    http3: http3::Http3,
    /// What each class of a file has had; none without any.
    measures: Option<Box<Measures>>,
    timers: Timers,
    /// A response that is alone need not be a job while nothing is paced or marked, and the policy goes by the ready jobs.
    is_direct: bool,
    /// Events and newcomers of this turn that are still to be looked at, and may bring responses.
    to_come: usize,
    is_accepting: bool,
    /// The listener that was asked last.
    next_listener: usize,
    /// Connections could not be accepted for want of descriptors or memory, and this was said.
    is_short: bool,
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

/// Of its wake-up, and of changes of files.
fn poll(parts: &Parts) -> io::Result<Poll> {
    let poll = Poll::new()?;
    poll.add(&*parts.wake, WOKEN, EventFlags::IN)?;
    if let Some(watch) = parts.replier.cache.watch_fd() {
        poll.add(watch, FILES, EventFlags::IN)?;
    }
    Ok(poll)
}

/// Whether a response that is alone need not be a job.
fn is_direct(parts: &Parts) -> bool {
    parts.is_memoryless && parts.order != Order::Marks
}

impl Worker {
    pub fn new(parts: Parts) -> io::Result<Worker> {
        let mut worker = Worker {
            is_direct: is_direct(&parts),
            streams: OpenStreams::beside(parts.places.max()),
            poll: poll(&parts)?,
            measures: parts.current.served().assigned.as_deref().map(|assigned| Box::new(Measures::new(assigned))),
            parts,
            known: Known::default(),
            to_come: 0,
            conns: Connections::default(),
            budget: Budget::default(),
            secured: Secured::default(),
            #[cfg(feature = "http3")]
            http3: http3::Http3::default(),
            timers: Timers::new(clock::now()),
            is_accepting: false,
            next_listener: 0,
            is_short: false,
            sites_turn: 0,
            log_at: None,
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            out: Vec::new(),
            departures: Vec::new(),
            found: VecDeque::new(),
            newcomers: Vec::new(),
            idle: Idle::default(),
        };
        worker.accept_again()?;
        #[cfg(feature = "http3")]
        worker.open_doors()?;
        Ok(worker)
    }

    fn is_paced(&self) -> bool {
        self.parts.order == Order::Pace
    }

    /// Why this worker waits with two system calls where one would do.
    pub fn poll_refusal(&self) -> Option<io::Error> {
        self.poll.refusal()
    }

    /// Serves until told to stop and the last response is sent, or the time for that is over.
    pub fn run(mut self, beat: &Beat) -> io::Result<()> {
        if self.is_paced() {
            // The default slack of 50 µs would be 4 % of the time a segment takes at 10 Mbit/s.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        loop {
            let timeout = self.timeout();
            self.poll.wait(timeout)?;
            beat.turn();
            self.tick(timeout);
            self.turn();
            if self.parts.stop.load(Ordering::Acquire) && self.is_stopped() {
                self.tell_longest_wait();
                return Ok(());
            }
        }
    }

    fn turn(&mut self) {
        // A file's change reaches us before any request made after it, if it is looked at first.
        if self.poll.is_left(FILES) {
            self.parts.replier.cache.on_change();
        }
        let has_newcomers = self.poll.is_left(LISTENER);
        while let Some(ready) = self.poll.take() {
            self.to_come = self.poll.left() + usize::from(has_newcomers);
            self.on_ready(ready);
            if self.timers.is_turn_over(clock::now()) {
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
        self.log_at = self.parts.log.flush(self.timers.now());
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
            if self.timers.is_turn_over(clock::now()) {
                return;
            }
        }
    }

    fn on_ready(&mut self, ready: Ready) {
        match ready.token {
            WOKEN => {
                self.parts.wake.clear();
                if let Some(served) = self.parts.current.newer(&mut self.sites_turn) {
                    if let Some(assigned) = &served.assigned {
                        self.parts.transmitter.replace_classes(self.timers.now(), assigned.specs());
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
        let Some(at) = self.conns.slot(owner) else { return };
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
            self.parts.transmitter.on_writable(self.timers.now(), at);
            if !is_multiplexed && !is_answering {
                self.send_sealed(at);
            }
        }
        if is_readable && !is_answering {
            self.conns.queue(at);
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
        let untold_bytes = self.parts.transmitter.close(self.timers.now(), at);
        self.spend(at, untold_bytes);
        self.let_go(at);
        self.conns.remove(at);
        self.parts.places.give_back();
        // A client in the kernel's queue takes its place; should that fail, the next sweep tries again and says so.
        let _ = self.accept_again();
    }

    /// Reads the clock, `timeout` at most after it was read before; a longer time is a pause, in which no client was heard.
    fn read_clock(&mut self, timeout: Option<Nanos>) {
        let paused = self.timers.advance(clock::now(), timeout);
        if paused > Nanos::ZERO {
            self.excuse(paused);
        }
    }

    /// Begins a turn, after a wait of at most `timeout`, and keeps the Date field true.
    fn tick(&mut self, timeout: Option<Nanos>) {
        self.read_clock(timeout);
        self.timers.begin_turn(SystemTime::now);
        self.secured.begin_turn();
        self.tell_missed_objectives();
    }

    fn timeout(&self) -> Option<Nanos> {
        if self.conns.queued() > 0 || !self.found.is_empty() || self.poll.left() > 0 || self.timers.is_sweeping() {
            return Some(Nanos::ZERO);
        }
        let grant_at = self.parts.transmitter.poll_timeout();
        let is_waiting =
            !self.conns.is_empty() || !self.is_accepting || self.timers.is_stopping() || self.has_memory_to_give();
        let sweep_at = is_waiting.then_some(self.timers.sweep_due());
        let wake_at = [sweep_at, self.log_at, grant_at, self.tell_at(), self.room_at()].into_iter().flatten().min();
        wake_at.map(|at| at - if self.is_paced() { clock::now() } else { self.timers.now() })
    }
}
