use std::ops::Range;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use record::JobRecord;
use units::{Nanos, Rate};
use workload::surge::{FileModel, Files, UserModel};

use super::client::{Client, Exchange, SEGMENT_WORDS};
use super::config::{Config, ConfigError, rate};
use super::event::Event;
use super::internet::{Weather, places};
use super::outcome::{Answered, Collector, Counted, Outcome};
use super::processor::Processor;
use super::station::Station;
use super::tcp::{Link, Transfer};
use crate::calendar::Calendar;
use crate::{Hooks, PROGRESS_JOBS};

/// TCP and IP headers without options.
const HEADER_BYTES: u64 = 40;

/// Random streams: one for the locations, and one for each user from the next on.
const PLACES: u64 = 1;
const USERS: u64 = 3;

/// Simulates until all counted requests have been answered ([`super::config::Until`] defines which are counted).
pub fn run(config: &Config, mut hooks: Hooks) -> Result<Outcome, ConfigError> {
    config.check()?;
    let mut model = Model::new(config);
    let answers_max = config.warm_up.saturating_add(config.requests.saturating_mul(ANSWERS_PER_COUNTED_MAX));
    while model.collector.requests() < config.requests {
        let Some((now, event)) = model.calendar.pop() else { break };
        debug_assert!(now >= model.now, "time goes on");
        model.now = now;
        model.on_event(event, &mut hooks);
        if model.counted.requests > answers_max {
            return Err(ConfigError::starved(config, model.collector.requests(), ANSWERS_PER_COUNTED_MAX));
        }
    }
    Ok(model.outcome())
}

/// The maximum number of answers per counted request in a run that waits for all of them; then the run is given up. A
/// saturated server with an order that starves a request would otherwise be simulated without end, because closed users
/// never stop.
const ANSWERS_PER_COUNTED_MAX: u64 = 20;

struct Model<'a> {
    config: &'a Config,
    now: Nanos,
    calendar: Calendar<Event>,
    clients: Vec<Client>,
    files: Files,
    users: UserModel,
    weather: Weather,
    processor: Processor,
    disk: Station,
    reading: Service<u64>,
    network: Station,
    sending: Service<Range<u32>>,
    link: Rate,
    disk_rate: Rate,
    collector: Collector,
    counted: Counted,
    /// The number of requests that have reached the server.
    arrived: u64,
}

/// The current work of a station, and its duration.
struct Service<T> {
    client: u32,
    serial: u32,
    what: T,
    span: Nanos,
}

impl<'a> Model<'a> {
    fn new(config: &'a Config) -> Model<'a> {
        let stream = |stream: u64| {
            let mut rng = ChaCha8Rng::seed_from_u64(config.seed);
            rng.set_stream(stream);
            rng
        };
        let users = UserModel::PUBLISHED;
        let mut calendar = Calendar::new();
        let mut clients = Vec::with_capacity(config.users as usize);
        for (client, place) in places(config.users, &mut stream(PLACES)).into_iter().enumerate() {
            let mut rng = stream(USERS + client as u64);
            calendar.push(users.start(&mut rng), Event::Submit { client: client as u32 });
            clients.push(Client::new(place, users.embedded(&mut rng), rng));
        }
        let station = || Station::new(&config.policy, clients.len());
        Model {
            now: Nanos::ZERO,
            files: Files::new(&FileModel::MURTA_2002, config.seed),
            users,
            weather: Weather::new(&config.internet),
            processor: Processor::new(config.cpu.slots),
            disk: station(),
            reading: Service { client: 0, serial: 0, what: 0, span: Nanos::ZERO },
            network: station(),
            sending: Service { client: 0, serial: 0, what: 0..0, span: Nanos::ZERO },
            link: rate(config.network.bits_per_s),
            disk_rate: rate(config.disk.bytes_per_s * 8),
            collector: Collector::new(rate(config.network.bits_per_s)),
            counted: Counted::default(),
            arrived: 0,
            calendar,
            clients,
            config,
        }
    }

    fn on_event(&mut self, event: Event, hooks: &mut Hooks) {
        match event {
            Event::Submit { client } => self.on_submit(client),
            Event::Request { client } => self.on_request(client),
            Event::Processor { generation } => self.on_processor(generation),
            Event::Disk => self.on_disk(),
            Event::Network => self.on_network(),
            Event::Acknowledged { client, serial, segment } => self.on_acknowledged(client, serial, segment),
            Event::Timer { client, serial } => self.on_timer(client, serial),
            Event::Complete { client } => self.on_complete(client, hooks),
        }
    }

    /// Sends a user's request over the existing connection, or over a new one.
    fn on_submit(&mut self, client: u32) {
        let (config, now) = (self.config, self.now);
        let user = &mut self.clients[client as usize];
        user.submitted = now;
        user.ask(&self.weather, &self.files, &self.users);
        let rtt = user.asked.rtt;
        let keep_alive = Nanos::from_secs(config.http.keep_alive_s);
        let is_open =
            |link: &&mut Link| now - link.used_at < keep_alive && link.requests < config.http.requests_per_connection;
        user.is_new = user.link.as_mut().filter(is_open).is_none();
        let mut at = now;
        if user.is_new {
            self.counted.connections += 1;
            // Either the SYN or its answer may be lost; the request is sent with the acknowledgement.
            at += user.lost_for(Nanos::from_millis(config.tcp.rto_initial_ms), 2, &self.weather) + rtt;
            let mut link = Link::new(&config.tcp, at);
            link.on_round_trip(&config.tcp, rtt);
            user.link = Some(link);
        }
        let rto = user.link.as_ref().expect("set up above").rto();
        at += user.lost_for(rto, 1, &self.weather);
        at += user.place.bandwidth.time_for(config.http.request_bytes + HEADER_BYTES);
        user.go_to(SEGMENT_WORDS);
        self.calendar.push(at + Nanos(rtt.0 / 2), Event::Request { client });
    }

    fn on_request(&mut self, client: u32) {
        let (config, now) = (self.config, self.now);
        let user = &mut self.clients[client as usize];
        let size_bytes = user.asked.size_bytes;
        // The client already has any part of the last response that may still be on its way.
        self.network.leave(client);
        user.serial += 1;
        user.timer_at = None;
        let link = user.link.as_mut().expect("a request comes over a connection");
        link.wake(&config.tcp, now);
        link.requests += 1;
        let connection_us = if user.is_new { config.cpu.connection_us } else { 0 };
        let demand = Nanos::from_micros(config.cpu.request_us + connection_us)
            + Nanos(config.cpu.kib_us * 1000 * size_bytes / 1024);
        user.exchange = Some(Exchange {
            number: self.arrived,
            size_bytes,
            transfer: Transfer::new(size_bytes, config.tcp.mss_bytes),
            arrived: now,
            demand,
            is_parsed: false,
            waited: Nanos::ZERO,
            served: demand,
            first_byte: None,
        });
        self.arrived += 1;
        self.processor.arrive(now, client, demand);
        self.foretell();
    }

    fn foretell(&mut self) {
        if let Some(at) = self.processor.foretell() {
            self.calendar.push(at, Event::Processor { generation: self.processor.generation });
        }
    }

    fn on_processor(&mut self, generation: u64) {
        if generation != self.processor.generation {
            return;
        }
        while let Some(client) = self.processor.depart(self.now) {
            let exchange = self.clients[client as usize].exchange_mut();
            exchange.is_parsed = true;
            exchange.waited = self.now - exchange.arrived - exchange.demand;
            self.proceed(client);
        }
        self.foretell();
    }

    /// Moves the connection to the queue that it needs next, if any, and starts idle stations.
    fn proceed(&mut self, client: u32) {
        let config = self.config;
        let user = &self.clients[client as usize];
        let (Some(exchange), Some(link)) = (&user.exchange, &user.link) else { return };
        if exchange.is_parsed && !self.network.holds(client) && !self.disk.holds(client) {
            if exchange.transfer.sendable(link, &config.tcp) > 0 {
                self.network.enter(self.now, client, exchange.transfer.unsent_bytes(), user.path(config));
            } else if exchange.transfer.readable(config.disk.block_bytes, &config.tcp).is_some() {
                self.disk.enter(self.now, client, exchange.transfer.unread_bytes(), user.path(config));
            }
        }
        self.start_disk();
        self.start_network();
    }

    fn start_disk(&mut self) {
        let Some((client, waited)) = self.disk.begin(self.now) else { return };
        let user = &mut self.clients[client as usize];
        let serial = user.serial;
        let exchange = user.exchange_mut();
        let bytes = self.config.disk.block_bytes.min(exchange.transfer.unread_bytes());
        let span = Nanos::from_micros(self.config.disk.position_us) + self.disk_rate.time_for(bytes);
        exchange.waited += waited;
        exchange.served += span;
        self.reading = Service { client, serial, what: bytes, span };
        self.calendar.push(self.now + span, Event::Disk);
    }

    fn on_disk(&mut self) {
        let Service { client, what: bytes, span, .. } = self.reading;
        self.disk.end(span);
        self.clients[client as usize].exchange_mut().transfer.on_read(bytes);
        self.proceed(client);
    }

    fn start_network(&mut self) {
        let tcp = &self.config.tcp;
        let block_segments = (self.config.disk.block_bytes / tcp.mss_bytes).max(1) as u32;
        // A client whose timer expired while it waited may have nothing to send.
        while let Some((client, waited)) = self.network.begin(self.now) {
            let user = &mut self.clients[client as usize];
            let (Some(exchange), Some(link)) = (&mut user.exchange, &user.link) else {
                unreachable!("a connection that waits has a request")
            };
            exchange.waited += waited;
            let segments = exchange.transfer.sendable(link, tcp).min(block_segments);
            if segments == 0 {
                self.network.end(Nanos::ZERO);
                continue;
            }
            let first = exchange.transfer.hand_down(segments);
            let what = first..first + segments;
            let bytes: u64 = what.clone().map(|segment| exchange.transfer.bytes(segment) + HEADER_BYTES).sum();
            let span = self.link.time_for(bytes);
            exchange.served += span;
            self.sending = Service { client, serial: user.serial, what, span };
            self.calendar.push(self.now + span, Event::Network);
            return;
        }
    }

    fn on_network(&mut self) {
        let Service { client, serial, span, .. } = self.sending;
        self.network.end(span);
        if serial == self.clients[client as usize].serial {
            self.transmit(client, self.sending.what.clone());
        }
        self.proceed(client);
    }

    /// Sends segments from the interface. Each is lost, or arrives and is acknowledged.
    fn transmit(&mut self, client: u32, segments: Range<u32>) {
        let (now, user) = (self.now, &mut self.clients[client as usize]);
        let (Some(exchange), Some(link)) = (&mut user.exchange, &mut user.link) else {
            unreachable!("segments are of a request")
        };
        let rtt = user.asked.rtt;
        let (there, back) = (Nanos(rtt.0 / 2), Nanos(rtt.0 - rtt.0 / 2));
        let serial = user.serial;
        for segment in segments.clone() {
            self.counted.segments += 1;
            if self.weather.is_lost(&mut user.rng) {
                continue;
            }
            let bytes = exchange.transfer.bytes(segment) + HEADER_BYTES;
            user.access_free = user.access_free.max(now + there) + user.place.bandwidth.time_for(bytes);
            let at = user.access_free;
            exchange.first_byte.get_or_insert(at);
            let Some(upto) = exchange.transfer.received.on_segment(segment) else { continue };
            self.calendar.push(at + back, Event::Acknowledged { client, serial, segment: upto });
            if upto == exchange.transfer.segments() {
                self.calendar.push(at, Event::Complete { client });
            }
        }
        self.counted.segments_again += exchange.transfer.sent_before(&segments);
        link.used_at = now;
        exchange.transfer.on_sent(now, segments, link.rto());
        self.arm(client);
    }

    fn on_acknowledged(&mut self, client: u32, serial: u32, segment: u32) {
        let (now, user) = (self.now, &mut self.clients[client as usize]);
        if serial != user.serial {
            return;
        }
        if let (Some(exchange), Some(link)) = (&mut user.exchange, &mut user.link) {
            exchange.transfer.on_acknowledged(now, segment, link, &self.config.tcp);
        }
        self.arm(client);
        self.proceed(client);
    }

    /// Ensures that an event comes no later than the timer is due.
    fn arm(&mut self, client: u32) {
        let user = &mut self.clients[client as usize];
        let Some(deadline) = user.exchange_mut().transfer.deadline else { return };
        if user.timer_at.is_none_or(|at| deadline < at) {
            user.timer_at = Some(deadline);
            self.calendar.push(deadline, Event::Timer { client, serial: user.serial });
        }
    }

    fn on_timer(&mut self, client: u32, serial: u32) {
        let (now, user) = (self.now, &mut self.clients[client as usize]);
        if serial != user.serial || user.timer_at != Some(now) {
            return;
        }
        user.timer_at = None;
        if let (Some(exchange), Some(link)) = (&mut user.exchange, &mut user.link)
            && exchange.transfer.deadline.is_some_and(|deadline| deadline <= now)
        {
            self.counted.timeouts += 1;
            exchange.transfer.on_timeout(now, link, &self.config.tcp);
        }
        self.arm(client);
        self.proceed(client);
    }

    /// Handles a complete response; the user then thinks.
    fn on_complete(&mut self, client: u32, hooks: &mut Hooks) {
        let now = self.now;
        let user = &mut self.clients[client as usize];
        let exchange = user.exchange.as_ref().expect("a response is of a request");
        let answered = Answered {
            size_bytes: exchange.size_bytes,
            bandwidth_class: user.place.class,
            submitted: user.submitted,
            completed: now,
            waited: exchange.waited,
            served: exchange.served,
        };
        if let Some(job) = self.config.counted(exchange.number, self.counted.requests) {
            self.collector.record(&answered);
            if let Some(record) = &mut hooks.record {
                record(JobRecord { job, client: Some(client), ..job_record(exchange, &answered) });
            }
        }
        self.counted.requests += 1;
        if let Some(progress) = &mut hooks.progress
            && self.counted.requests.is_multiple_of(PROGRESS_JOBS)
        {
            progress(self.counted.requests);
        }
        let span = (now - exchange.arrived).0.max(1);
        user.measured_bps = Some((u128::from(exchange.size_bytes) * 8_000_000_000 / u128::from(span)) as u64);
        self.calendar.push(now + user.asked.off, Event::Submit { client });
    }

    fn outcome(self) -> Outcome {
        self.collector.outcome(Counted {
            end: self.now,
            cpu_busy: self.processor.busy,
            disk_busy: self.disk.busy,
            network_busy: self.network.busy,
            ..self.counted
        })
    }
}

fn job_record(exchange: &Exchange, answered: &Answered) -> JobRecord {
    let Answered { size_bytes, submitted, completed, .. } = *answered;
    let complete = JobRecord::complete(exchange.number, size_bytes, submitted.0, completed.0);
    JobRecord { first_byte_ns: exchange.first_byte.map(|at| at.0), ..complete }
}
