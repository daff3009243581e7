//! The state of a run, its events, and the loop that processes them one by one.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use record::JobRecord;
use sched::Scheduler;
use units::Nanos;
use workload::{HEAD_BYTES_NOMINAL, Job};

use super::bottleneck::{Link, Queue};
use super::client::{Clients, Request};
use super::conn::{Conn, Conns, Ring, Timer};
use super::outcome::alone;
use super::paced::{self, Writer};
use super::server::Listener;
use super::tcp::{Acked, Settings};
use super::users::Users;
use super::{Config, ConnId, Outcome, Sample};
use crate::calendar::Calendar;
use crate::{Finished, Hooks, PROGRESS_JOBS, Tally};

/// An event at an instant.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// The next job arrives.
    Submit,
    /// A user's pause is over.
    Ask {
        user: u32,
    },
    ToServer(ConnId, Up),
    ToClient(ConnId, Down),
    /// The link can take another packet.
    LinkIdle,
    /// The scheduler may grant.
    Grant,
    /// The sender's alarm.
    Alarm(ConnId),
    /// The SYN or the request is unanswered.
    ClientTimer(ConnId),
    /// The SYN-ACK is unanswered, or the connection is idle.
    ServerTimer(ConnId),
    DelayedAck(ConnId),
    /// No response has carried the request's acknowledgement.
    RequestAck(ConnId),
    /// The user's patience ends: slot and attempt of a request, and its number.
    GiveUp {
        slot: u32,
        tried: u32,
        number: u64,
    },
    Sample,
    /// The link's rate changes, by the change with this index.
    Rate(usize),
}

/// A packet from the client.
#[derive(Debug, Clone, Copy)]
pub enum Up {
    Syn,
    /// Finishes the handshake if it is the first on its connection, and requests a response. Counted from 1 on each
    /// connection.
    Request {
        number: u32,
    },
    Ack {
        acked: Acked,
        fin: bool,
    },
    Reset,
}

/// A packet from the server.
#[derive(Debug, Clone, Copy)]
pub enum Down {
    SynAck,
    Ack,
    Data { seq: u64, bytes: u32, fin: bool, sent_at: Nanos },
}

/// The counts other than those of jobs.
#[derive(Debug, Default)]
pub struct Counts {
    pub by_outcome: [u64; 4],
    pub syn_drops: u64,
    pub accept_drops: u64,
    pub queue_drops: u64,
    pub path_losses: u64,
    pub packets: u64,
    pub resent_bytes: u64,
    pub connections_max: usize,
}

pub struct World<'c, 'h, J: Iterator> {
    pub config: &'c Config,
    pub settings: Settings,
    pub now: Nanos,
    pub calendar: Calendar<Event>,
    pub conns: Conns,
    pub clients: Clients,
    pub listener: Listener,
    pub queue: Queue,
    pub link: Link,
    /// The calendar contains an event for the instant at which the link becomes idle.
    pub is_link_awaited: bool,
    pub scheduler: Scheduler,
    pub grant: Timer,
    /// The connection of the job in each slot of the scheduler.
    pub by_job: Vec<ConnId>,
    pub writer: Writer,
    /// Connections that may have more to send now.
    pub wakes: Vec<ConnId>,
    pub counts: Counts,
    jobs: std::iter::Peekable<J>,
    /// The users, if the load is closed.
    pub users: Option<Users>,
    /// The end of the run, if it does not end with its jobs.
    until: Nanos,
    submitted: u64,
    /// The bytes on the link, without those for connections.
    offered_bytes: u64,
    last_arrival: Nanos,
    ended: u64,
    tally: Tally,
    samples: Vec<Sample>,
    hooks: Hooks<'h>,
    rng: ChaCha8Rng,
}

impl<'c, 'h, J: Iterator<Item = Job>> World<'c, 'h, J> {
    pub fn new(config: &'c Config, jobs: J, hooks: Hooks<'h>) -> World<'c, 'h, J> {
        let (scheduler, writer) = paced::scheduler(config);
        World {
            config,
            settings: config.tcp.settings(),
            now: Nanos::ZERO,
            calendar: Calendar::new(),
            conns: Conns::default(),
            clients: Clients::default(),
            listener: Listener::new(config.server.workers),
            queue: Queue::new(config.bottleneck),
            link: Link::new(config.link, config.shape),
            is_link_awaited: false,
            scheduler,
            grant: Timer::default(),
            by_job: Vec::new(),
            writer,
            wakes: Vec::new(),
            counts: Counts::default(),
            jobs: jobs.peekable(),
            users: None,
            until: Nanos::MAX,
            submitted: 0,
            offered_bytes: 0,
            last_arrival: Nanos::ZERO,
            ended: 0,
            tally: Tally::new(),
            samples: Vec::new(),
            hooks,
            rng: ChaCha8Rng::seed_from_u64(config.seed),
        }
    }

    pub fn with_users(self, users: Users) -> World<'c, 'h, J> {
        World { users: Some(users), ..self }
    }

    pub fn run(mut self) -> Outcome {
        self.start_users();
        if let Some(first) = self.jobs.peek() {
            self.calendar.push(first.arrival, Event::Submit);
        }
        if let Some(every) = self.config.sample_every {
            self.calendar.push(every, Event::Sample);
        }
        for (number, (at, _)) in self.config.rate_changes.iter().enumerate() {
            self.calendar.push(*at, Event::Rate(number));
        }
        while !self.is_over() {
            let Some((at, event)) = self.calendar.pop() else { break };
            if at > self.until {
                self.now = self.until;
                break;
            }
            debug_assert!(at >= self.now, "time runs forward");
            self.now = at;
            self.handle(event);
            self.settle();
        }
        self.finish()
    }

    fn is_over(&mut self) -> bool {
        self.clients.is_empty() && self.jobs.peek().is_none() && self.users.as_ref().is_none_or(Users::are_done)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Submit => self.submit_next(),
            Event::Ask { user } => self.on_ask(user),
            Event::ToServer(id, up) => self.at_server(id, up),
            Event::ToClient(id, down) => self.at_client(id, down),
            Event::LinkIdle => self.is_link_awaited = false,
            Event::Grant => self.on_grant_timer(),
            Event::Alarm(id) => self.on_timer(id, event, |conn| &mut conn.alarm, Self::on_alarm),
            Event::ClientTimer(id) => self.on_timer(id, event, |conn| &mut conn.client_timer, Self::on_client_timer),
            Event::ServerTimer(id) => self.on_timer(id, event, |conn| &mut conn.server_timer, Self::on_server_timer),
            Event::DelayedAck(id) => self.on_timer(id, event, |conn| &mut conn.delayed_ack, Self::acknowledge),
            Event::RequestAck(id) => self.on_timer(id, event, |conn| &mut conn.request_ack, Self::acknowledge_request),
            Event::GiveUp { slot, tried, number } => self.on_give_up(slot, tried, number),
            Event::Sample => self.sample(),
            Event::Rate(at) => self.link.rate = self.config.rate_changes[at].1,
        }
    }

    /// Handles a timer event of a connection, if the connection still exists.
    fn on_timer(&mut self, id: ConnId, event: Event, timer: fn(&mut Conn) -> &mut Timer, ring: fn(&mut Self, ConnId)) {
        let Some(conn) = self.conns.get(id) else { return };
        match timer(conn).ring(self.now) {
            Ring::Due => ring(self, id),
            Ring::Later(at) => self.calendar.push(at, event),
            Ring::Stale => {}
        }
    }

    fn submit_next(&mut self) {
        let Some(job) = self.jobs.next() else { return };
        match self.jobs.peek() {
            Some(next) => self.calendar.push(next.arrival.max(self.now), Event::Submit),
            None => self.end_after_grace(self.now),
        }
        self.submit_job(job, None);
    }

    /// Stops all requests from `at` on. Unfinished jobs then have the configured grace.
    pub fn end_after_grace(&mut self, at: Nanos) {
        self.until = self.config.grace.map_or(Nanos::MAX, |grace| Nanos(at.0.saturating_add(grace.0)));
    }

    /// Creates a request, by a user if `user` is given.
    pub fn submit_job(&mut self, job: Job, user: Option<u32>) {
        self.offered_bytes += workload::wire_bytes(job.size_bytes);
        self.last_arrival = self.now;
        let number = self.submitted;
        self.submitted += 1;
        self.submit(Request::new(number, job, user));
    }

    /// Sends a packet towards the server.
    pub fn send_up(&mut self, id: ConnId, up: Up) {
        self.counts.packets += 1;
        let Some(conn) = self.conns.get(id) else { return };
        let path = &self.config.paths[conn.path as usize];
        if path.loss_back > 0.0 && self.rng.random::<f64>() < path.loss_back {
            self.counts.path_losses += 1;
            return;
        }
        let at = self.now + path.back;
        self.calendar.push(at, Event::ToServer(id, up));
    }

    /// Sends a packet that left the link at `at` towards the client.
    pub fn send_down(&mut self, id: ConnId, at: Nanos, down: Down) {
        let Some(conn) = self.conns.get(id) else { return };
        let path = &self.config.paths[conn.path as usize];
        if path.loss > 0.0 && self.rng.random::<f64>() < path.loss {
            self.counts.path_losses += 1;
            return;
        }
        let mut arrives = at + path.forward;
        if path.jitter > Nanos::ZERO {
            let shift = Nanos(self.rng.random_range(0..=2 * path.jitter.0));
            arrives = (arrives + shift - path.jitter).max(at).max(conn.forward_at);
            conn.forward_at = arrives;
        }
        self.calendar.push(arrives, Event::ToClient(id, down));
    }

    /// Returns true if the path treats the segments of a packet separately.
    pub fn is_lossy(&mut self, id: ConnId) -> bool {
        let Some(conn) = self.conns.get(id) else { return false };
        let path = &self.config.paths[conn.path as usize];
        path.loss > 0.0 || path.jitter > Nanos::ZERO
    }

    /// Ends a job.
    pub fn end(&mut self, request: &Request, outcome: record::Outcome) {
        self.counts.by_outcome[at_outcome(outcome)] += 1;
        let Job { arrival, size_bytes, .. } = request.job;
        if let Some(job) = request.number.checked_sub(self.config.warm_up_jobs) {
            let alone = alone(self.config.link, size_bytes);
            self.tally.record(&Finished { size_bytes, arrival, departure: self.now, alone, class: 0 });
            if let Some(record) = &mut self.hooks.record {
                record(record_of(job, request, self.now, outcome));
            }
        }
        self.ended += 1;
        if self.ended.is_multiple_of(PROGRESS_JOBS)
            && let Some(progress) = &mut self.hooks.progress
        {
            progress(self.ended);
        }
        if let Some(user) = request.user {
            self.pause(user);
        }
    }

    fn sample(&mut self) {
        self.samples.push(Sample {
            at_s: self.now.as_secs_f64(),
            syn_queue: self.listener.syn_received,
            accept_queue: self.listener.waiting(),
            active: self.listener.active,
            pace_bps: self.scheduler.pacer().pace().rate.map(units::Rate::bits_per_s),
        });
        if let Some(every) = self.config.sample_every {
            self.calendar.push(self.now + every, Event::Sample);
        }
    }

    fn finish(mut self) -> Outcome {
        for request in self.clients.take_all() {
            self.end(&request, record::Outcome::Incomplete);
        }
        let [complete, aborted, incomplete, refused] = self.counts.by_outcome;
        let connections = self.submitted.div_ceil(u64::from(self.config.per_connection));
        let offered = self.link.rate.time_for(self.offered_bytes + connections * units::wire::CONNECTION_BYTES);
        let open_resent_bytes: u64 = self.conns.iter().map(|conn| conn.sender.resent_bytes).sum();
        let busy = self.link.rate.time_for(self.link.sent_bytes);
        Outcome {
            summary: self.tally.summary(),
            complete,
            aborted,
            incomplete,
            refused,
            syn_drops: self.counts.syn_drops,
            accept_drops: self.counts.accept_drops,
            queue_drops: self.counts.queue_drops,
            path_losses: self.counts.path_losses,
            packets: self.counts.packets,
            link_bytes: self.link.sent_bytes,
            resent_bytes: self.counts.resent_bytes + open_resent_bytes,
            charged_bytes: self.scheduler.pacer().pace().rate.map(|_| self.scheduler.pacer().ledger().charged_bytes()),
            utilisation: busy.0 as f64 / self.now.0.max(1) as f64,
            simulated_s: self.now.as_secs_f64(),
            rho_offered: offered.0 as f64 / self.last_arrival.0.max(1) as f64,
            connections_max: self.counts.connections_max as u64,
            samples: self.samples,
        }
    }
}

fn at_outcome(outcome: record::Outcome) -> usize {
    match outcome {
        record::Outcome::Complete => 0,
        record::Outcome::Aborted => 1,
        record::Outcome::Incomplete => 2,
        record::Outcome::Refused | record::Outcome::Reset | record::Outcome::TimedOut | record::Outcome::Wrong => 3,
    }
}

fn record_of(job: u64, request: &Request, now: Nanos, outcome: record::Outcome) -> JobRecord {
    let is_complete = outcome == record::Outcome::Complete;
    let has_head = request.got_bytes >= HEAD_BYTES_NOMINAL;
    let complete = JobRecord::complete(job, request.job.size_bytes, request.job.arrival.0, now.0);
    let got_bytes = request.got_bytes.saturating_sub(HEAD_BYTES_NOMINAL);
    JobRecord {
        head_bytes: if has_head { HEAD_BYTES_NOMINAL } else { 0 },
        first_byte_ns: request.first_byte.map(|at| at.0),
        body_bytes: if is_complete { complete.body_bytes } else { got_bytes },
        status: if has_head { 200 } else { 0 },
        outcome,
        attempts: request.aborted + 1,
        ..complete
    }
}
