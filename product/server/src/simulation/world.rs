//! Simulated time and its events: bytes travel, clients act, disks answer.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use units::Nanos;

use super::client::Client;
use super::datagrams::Passing;
use super::disk::DiskQueue;
use super::files::Site;
use super::listeners::Listeners;
use super::outcome::Outcome;
use super::plan::Plan;
use super::planted::{Fault, strikes};
use super::random::Random;
use super::readiness::Readiness;
use super::schedule::Schedule;
use super::upstreams::Peers;
use super::wire::{Far, SEGMENT_BYTES, Stop, Wire, WireSettings};
use crate::poll::Ready;
use crate::wake::Wake;

/// The stop timeout of the server's limits.
const STOP_TIMEOUT: Nanos = Nanos::from_secs(30);
/// The maximum number of events that the kernel returns at once.
pub const EVENTS_MAX: usize = 512;

#[derive(PartialEq)]
pub enum Event {
    Connect { client: usize },
    Down { wire: usize, bytes: Vec<u8> },
    DownFin { wire: usize },
    DownReset { wire: usize },
    Acked { wire: usize, bytes: u64 },
    Departure { wire: usize },
    TailOver { wire: usize, written_bytes: u64 },
    Up { wire: usize, bytes: Vec<u8> },
    UpFin { wire: usize },
    UpReset { wire: usize },
    UpRoom { wire: usize },
    Client { client: usize },
    Connected { wire: usize },
    Application { number: usize },
    Disk { task: u64 },
    Datagram(Passing),
    Stop,
    StopOver,
}

pub struct World {
    pub now: Nanos,
    pub plan: Plan,
    pub random: Random,
    pub site: Rc<Site>,
    pub wires: Vec<Wire>,
    pub peers: Peers,
    pub disk: DiskQueue,
    schedule: Schedule<Event>,
    pub listeners: Listeners,
    pub readiness: Readiness,
    uplink_free_at: Nanos,
    pub outcome: Outcome,
}

/// The time at which every run begins.
pub const BEGINS_AT: Nanos = Nanos::from_secs(1_000);

impl World {
    pub fn new(plan: Plan, random: Random, site: Rc<Site>, wake: Arc<Wake>, disk: DiskQueue) -> World {
        let mut world = World {
            now: BEGINS_AT,
            plan,
            random,
            site,
            wires: Vec::new(),
            peers: Peers::default(),
            disk,
            schedule: Schedule::default(),
            listeners: Listeners::default(),
            readiness: Readiness::new(wake),
            uplink_free_at: Nanos::ZERO,
            outcome: Outcome::new(),
        };
        for number in 0..world.plan.clients {
            let client = Client::new(&world.plan, &world.site, &mut world.random);
            let at = world.now + Nanos::from_millis(world.random.below(world.plan.arrivals_over.0 / 1_000_000));
            world.peers.clients.push(Some(client));
            world.schedule(at, Event::Connect { client: number });
        }
        world.begin_datagrams();
        if let Some(after) = world.plan.stop_after {
            world.schedule(world.now + after, Event::Stop);
        }
        world
    }

    pub fn schedule(&mut self, at: Nanos, event: Event) {
        self.schedule.add(at.max(self.now), event);
    }

    /// Schedules a peer to act again, later than now.
    pub fn wake(&mut self, at: Nanos, event: Event) {
        self.schedule.add_once(at.max(self.now + Nanos(1)), event);
    }

    pub fn note(&mut self, what: u64) {
        self.outcome.note(what);
    }

    pub fn show(&self, at: usize, what: impl FnOnce() -> String) {
        let far = self.wires[at].far;
        let is_shown = |client| far == Far::Client(client) || matches!(far, Far::Application(_));
        if self.outcome.shown.is_some_and(is_shown) {
            println!("{:.6} {far:?} {}; {}", self.now.as_secs_f64(), what(), self.wires[at].describe());
        }
    }

    pub fn fail(&mut self, why: String) {
        self.outcome.fail(why);
    }

    pub fn are_clients_done(&self) -> bool {
        self.peers.clients.iter().flatten().all(|client| client.is_done) && self.peers.datagrams.are_done()
    }

    /// Begins a system call of the server: it takes time, in which other events happen.
    pub fn enter(&mut self) {
        self.now += Nanos(self.random.below(self.plan.call_ns_max));
        self.run_due();
    }

    fn run_due(&mut self) {
        while let Some((at, event)) = self.schedule.take(self.now) {
            let now = std::mem::replace(&mut self.now, at);
            self.on_event(event);
            self.now = now;
        }
        self.start_disk();
    }

    /// Starts the pool's pending tasks; each ends at a time that the seed determines.
    fn start_disk(&mut self) {
        while let Some((task, takes)) = self.disk.begin(&mut self.random, &self.plan) {
            self.schedule(self.now + takes, Event::Disk { task });
        }
    }

    /// Waits until something is ready for the server or the timeout has passed.
    pub fn wait(&mut self, timeout: Option<Nanos>, into: &mut VecDeque<Ready>) {
        self.enter();
        let until = timeout.map(|timeout| self.now + timeout);
        loop {
            self.collect(into);
            if !into.is_empty() || self.outcome.broken.is_some() || until.is_some_and(|until| self.now >= until) {
                break;
            }
            let Some(at) = self.schedule.next_at().into_iter().chain(until).min() else {
                self.outcome.is_over = true;
                return;
            };
            self.now = self.now.max(at);
            self.run_due();
        }
        // The server wakes up with a delay.
        self.now += Nanos(self.random.below(self.plan.wake_ns_max));
        self.note(self.now.0);
    }

    fn collect(&mut self, into: &mut VecDeque<Ready>) {
        use rustix::event::epoll::EventFlags;
        let woken = self.readiness.is_woken().then_some(self.readiness.wake_token);
        let ready = woken.into_iter().chain(self.listeners.ready());
        into.extend(ready.map(|token| Ready { token, flags: EventFlags::IN }));
        into.extend(self.ready_datagrams());
        while into.len() < EVENTS_MAX
            && let Some(at) = self.readiness.marked.pop_front()
        {
            let wire = &mut self.wires[at];
            wire.server.is_marked = false;
            let mut flags = wire.poll();
            if flags.contains(EventFlags::OUT) && strikes(Fault::LostWakeUp) {
                flags -= EventFlags::OUT;
            }
            if let Some(token) = wire.server.token.filter(|_| !flags.is_empty()) {
                into.push_back(Ready { token, flags });
                self.show(at, || format!("ready: {flags:?}"));
            }
        }
    }

    /// Records that the readiness of a connection changed.
    pub fn mark(&mut self, at: usize) {
        let server = &mut self.wires[at].server;
        if server.token.is_some() && !std::mem::replace(&mut server.is_marked, true) {
            self.readiness.marked.push_back(at);
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Connect { client } => self.connect(client),
            Event::Client { client } => self.act(client),
            Event::Connected { wire } => self.on_connected(wire),
            Event::Application { number } => self.act_application(number),
            Event::Down { wire, bytes } => self.on_down(wire, &bytes),
            Event::DownFin { wire } => self.on_down_end(wire, false),
            Event::DownReset { wire } => self.on_down_end(wire, true),
            Event::Acked { wire, bytes } => self.on_acked(wire, bytes),
            Event::Departure { wire } => {
                self.wires[wire].down.is_departure_due = false;
                self.pump_down(wire);
            }
            Event::TailOver { wire, written_bytes } => self.on_tail_over(wire, written_bytes),
            Event::Up { wire, bytes } => self.on_up(wire, &bytes),
            Event::UpFin { wire } => {
                self.wires[wire].server.has_fin = true;
                self.wires[wire].server.fin_at.get_or_insert(self.now);
                self.mark(wire);
            }
            Event::UpReset { wire } => self.on_up_reset(wire),
            Event::UpRoom { wire } => self.pump_up(wire),
            Event::Disk { task } => self.disk.end(task),
            Event::Datagram(passing) => self.on_datagram(passing),
            Event::Stop => {
                self.outcome.is_stop_due = true;
                self.stop(Stop::Begun);
                self.schedule(self.now + STOP_TIMEOUT, Event::StopOver);
            }
            Event::StopOver => self.stop(Stop::Over),
        }
    }

    fn stop(&mut self, stop: Stop) {
        self.wires.iter_mut().for_each(|wire| wire.stop = stop);
        self.peers.datagrams.stop = Some(stop);
    }

    fn connect(&mut self, client: usize) {
        let link = self.plan.link.unwrap_or_else(|| WireSettings::of(&mut self.random));
        let link = WireSettings { unsent_bytes_max: self.plan.unsent_bytes_max, ..link };
        let Some(asking) = &mut self.peers.clients[client] else { return };
        asking.wire = self.wires.len();
        let listener = usize::from(asking.is_secure());
        let [first, second] = self.plan.network_of(client);
        let address = [first, second, (client / 200) as u8, (client % 200) as u8 + 1];
        let peer = SocketAddr::from((address, 10_000 + client as u16));
        self.wires.push(Wire::new(link, peer, Far::Client(client)));
        let at = self.wires.len() - 1;
        if !self.listeners.arrive(listener, at) {
            self.schedule(self.now + link.delay, Event::DownReset { wire: at });
        }
        self.act(client);
    }

    fn act_at(&mut self, far: Far) {
        match far {
            Far::Client(client) => self.act(client),
            Far::Application(number) => self.act_application(number),
        }
    }

    /// Makes a client act as far as possible now.
    fn act(&mut self, number: usize) {
        let Some(mut client) = self.peers.clients[number].take() else { return };
        let at = client.wire;
        if !client.is_done {
            let held = self.wires[at].up.inbox.len();
            let acted = client.act(self.now, &mut self.wires[at], &self.site, &mut self.random);
            self.note(client.heard_bytes);
            match acted {
                Ok(again_at) => {
                    if let Some(again_at) = again_at {
                        self.wake(again_at, Event::Client { client: number });
                    }
                }
                Err(why) => {
                    let (who, wire) = (client.describe(), &self.wires[at]);
                    let text = format!("client {number} ({who}): {why}\n  {:?}, {}", wire.link, wire.describe());
                    self.fail(text);
                }
            }
            if self.wires[at].up.inbox.len() < held {
                let delay = self.wires[at].link.delay;
                self.schedule(self.now + delay, Event::Acked { wire: at, bytes: 0 });
            }
            self.pump_up(at);
        }
        self.peers.clients[number] = Some(client);
    }

    fn on_down(&mut self, at: usize, bytes: &[u8]) {
        let wire = &mut self.wires[at];
        wire.down.air_bytes -= bytes.len();
        if wire.up.is_closed || wire.up.is_reset_sent {
            wire.up.wants_reset = true;
            return self.pump_up(at);
        }
        wire.up.inbox.extend(bytes);
        let (delay, far) = (wire.link.delay, wire.far);
        self.schedule(self.now + delay, Event::Acked { wire: at, bytes: bytes.len() as u64 });
        self.act_at(far);
    }

    /// Ends the direction to the client, which can still read what it has received, as on Linux.
    fn on_down_end(&mut self, at: usize, is_reset: bool) {
        let Wire { up, far, .. } = &mut self.wires[at];
        up.has_fin |= !is_reset;
        up.has_reset |= is_reset;
        let far = *far;
        self.act_at(far);
    }

    fn on_up_reset(&mut self, at: usize) {
        let wire = &mut self.wires[at];
        wire.server.has_reset = true;
        wire.down.unsent.clear();
        self.mark(at);
    }

    fn on_acked(&mut self, at: usize, bytes: u64) {
        let down = &mut self.wires[at].down;
        down.acked_bytes += bytes;
        down.acked_at = self.now;
        if bytes > 0 {
            down.tail.on_acked();
        }
        self.pump_down(at);
        self.announce_room(at);
    }

    fn announce_room(&mut self, at: usize) {
        let wire = &mut self.wires[at];
        if wire.server.waits_for_room && wire.has_room() {
            wire.server.waits_for_room = false;
            self.mark(at);
        }
    }

    fn on_up(&mut self, at: usize, bytes: &[u8]) {
        let wire = &mut self.wires[at];
        wire.up.air_bytes -= bytes.len();
        if wire.server.is_closed {
            return self.reset_client(at);
        }
        wire.server.inbox.extend(bytes);
        // Each second segment is acknowledged, and the last one of a few.
        wire.down.segments += (bytes.len() as u32).div_ceil(2 * SEGMENT_BYTES);
        // A request that arrives twice is equivalent to one that is answered twice.
        if bytes.ends_with(b"\r\n\r\n") && bytes.starts_with(b"GET") && strikes(Fault::DoubleAnswer) {
            wire.server.inbox.extend(bytes);
        }
        self.mark(at);
    }

    pub fn reset_client(&mut self, at: usize) {
        let wire = &mut self.wires[at];
        wire.down.unsent.clear();
        if !std::mem::replace(&mut wire.down.is_reset_sent, true) {
            let delay = wire.link.delay;
            let arrives_at = wire.down.last_arrival.max(self.now + delay);
            self.schedule(arrives_at, Event::DownReset { wire: at });
        }
    }

    /// Sends as much as the client's window and the link allow.
    pub fn pump_down(&mut self, at: usize) {
        loop {
            let now = self.now;
            let wire = &mut self.wires[at];
            if wire.server.has_reset || wire.down.is_reset_sent {
                return;
            }
            if wire.down.unsent.is_empty() {
                if wire.down.is_ended && !std::mem::replace(&mut wire.down.is_fin_sent, true) {
                    let arrives_at = wire.down.last_arrival.max(now + wire.link.delay);
                    wire.down.segments += 1;
                    wire.down.last_arrival = arrives_at;
                    self.schedule(arrives_at, Event::DownFin { wire: at });
                }
                return;
            }
            let bytes = wire.sendable();
            if bytes == 0 {
                return self.watch_tail(at);
            }
            if wire.down.free_at > now {
                if !std::mem::replace(&mut wire.down.is_departure_due, true) {
                    let free_at = wire.down.free_at;
                    self.schedule(free_at, Event::Departure { wire: at });
                }
                return;
            }
            self.depart(at, bytes);
        }
    }

    /// Sends these bytes over the uplink, after the bytes of other connections.
    fn depart(&mut self, at: usize, bytes: usize) {
        let now = self.now;
        let wire = &mut self.wires[at];
        let left: Vec<u8> = wire.down.unsent.drain(..bytes).collect();
        wire.down.sent_bytes += bytes as u64;
        wire.down.segments += (bytes as u32).div_ceil(SEGMENT_BYTES);
        wire.down.air_bytes += bytes;
        wire.down.free_at = now + wire.link.takes(bytes);
        let mut leaves_at = wire.down.free_at;
        if matches!(wire.far, Far::Client(client) if client >= self.plan.local_clients) {
            leaves_at = leaves_at.max(self.uplink_leaves_at(bytes));
        }
        let wire = &mut self.wires[at];
        let arrives_at = wire.down.last_arrival.max(leaves_at + wire.link.delay);
        wire.down.last_arrival = arrives_at;
        wire.down.rtt = self.plan.is_searched.then(|| arrives_at + wire.link.delay - now);
        self.schedule(arrives_at, Event::Down { wire: at, bytes: left });
    }

    /// Returns the time at which the shared uplink has carried these bytes too.
    pub fn uplink_leaves_at(&mut self, bytes: usize) -> Nanos {
        if let Some(rate) = self.plan.uplink_bytes_per_s {
            let begins_at = self.uplink_free_at.max(self.now);
            self.uplink_free_at = begins_at + Nanos(bytes as u64 * 1_000_000_000 / rate);
            return self.uplink_free_at;
        }
        self.now
    }

    pub fn pump_up(&mut self, at: usize) {
        loop {
            let now = self.now;
            let Wire { link, up, .. } = &mut self.wires[at];
            if up.is_reset_sent {
                return;
            }
            if up.wants_reset {
                up.is_reset_sent = true;
                let arrives_at = up.last_arrival.max(now + link.delay);
                return self.schedule(arrives_at, Event::UpReset { wire: at });
            }
            if up.outbox.is_empty() {
                if up.wants_fin && !std::mem::replace(&mut up.is_fin_sent, true) {
                    let arrives_at = up.last_arrival.max(now + link.delay);
                    self.schedule(arrives_at, Event::UpFin { wire: at });
                }
                return;
            }
            let bytes = self.wires[at].receivable();
            if bytes == 0 {
                return;
            }
            let Wire { link, up, .. } = &mut self.wires[at];
            let left: Vec<u8> = up.outbox.drain(..bytes).collect();
            up.air_bytes += bytes;
            up.free_at = up.free_at.max(now) + link.takes(bytes);
            up.last_arrival = up.last_arrival.max(up.free_at + link.delay);
            let arrives_at = up.last_arrival;
            self.schedule(arrives_at, Event::Up { wire: at, bytes: left });
        }
    }
}
