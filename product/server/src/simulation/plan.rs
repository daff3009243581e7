//! The decisions that a seed makes for a run: the server's order and limits, the network, the disk, the clients, and
//! the faults.

use units::Nanos;

use super::outages::HealthPlan;
use super::random::Random;
use super::wire::WireSettings;

/// The policies of a run, with the pace in bytes per second.
const ORDERS: [(&str, Option<u64>); 6] = [
    ("fair", None),
    ("srpt", None),
    ("srpt", Some(125_000)),
    ("srpt", Some(1_250_000)),
    ("srpt", Some(12_500_000)),
    ("fair", Some(1_250_000)),
];

/// The network of the server's own clients.
const LOCAL: [u8; 2] = [10, 0];
/// [`LOCAL`], as an operator writes it.
pub const LOCAL_NETWORK: &str = "10.0.0.0/16";

#[derive(Debug, Clone)]
pub struct Plan {
    pub clients: usize,
    pub arrivals_over: Nanos,
    pub policy: &'static str,
    /// The pace, and the rate of the uplink that all clients share, in bytes per second; `None` if nothing is paced.
    pub uplink_bytes_per_s: Option<u64>,
    /// The upper bound on the duration of a system call, in nanoseconds.
    pub call_ns_max: u64,
    /// The upper bound on the wake-up delay.
    pub wake_ns_max: u64,
    pub unsent_bytes_max: usize,
    /// Interrupted calls, short writes, and a shortage of descriptors.
    pub has_socket_faults: bool,
    /// The number of lookups in a thousand, of files that are not held in memory, that need the disk.
    pub cold_permille: u64,
    pub disk_takes_max: Nanos,
    /// Some reads fail.
    pub has_disk_errors: bool,
    pub places: usize,
    /// The memory for connections, in bytes; [`u64::MAX`] for no limit.
    pub memory_bytes: u64,
    /// The time after the start at which the server is told to stop.
    pub stop_after: Option<Nanos>,
    /// True if each response has a line in a log.
    pub is_logged: bool,
    pub has_http2: bool,
    pub has_tls: bool,
    /// True if some clients leave, reset, stall or send half a head.
    pub has_strange_clients: bool,
    /// True if some clients are attackers, which send too many requests.
    pub has_attackers: bool,
    /// The applications behind the server, if some requests are passed on to them.
    pub upstreams: Option<UpstreamPlan>,
    /// The HTTP/3 clients among the others, if any.
    pub http3: Option<Http3Plan>,
    /// True if all responses pass through stages.
    pub is_staged: bool,
    /// True if clients request text and accept codings.
    pub is_coded: bool,
    /// The link of every connection, unless it is random.
    pub link: Option<WireSettings>,
    /// The server searches for the rate of the uplink.
    pub is_searched: bool,
    /// The number of TCP clients, and also of HTTP/3 clients, in the server's own network. Their bytes do not pass the
    /// uplink.
    pub local_clients: usize,
}

impl Plan {
    /// A plan for one HTTP/1.1 or HTTP/2 client, without faults, limits or random decisions.
    pub const QUIET: Plan = Plan {
        clients: 1,
        arrivals_over: Nanos::from_secs(1),
        policy: "srpt",
        uplink_bytes_per_s: None,
        call_ns_max: 1,
        wake_ns_max: 1,
        unsent_bytes_max: 2 * 1460 + 1,
        has_socket_faults: false,
        cold_permille: 0,
        disk_takes_max: Nanos::from_micros(10),
        has_disk_errors: false,
        places: 64,
        memory_bytes: u64::MAX,
        stop_after: None,
        is_logged: false,
        has_http2: true,
        has_tls: true,
        has_strange_clients: false,
        has_attackers: false,
        upstreams: None,
        http3: None,
        is_staged: false,
        is_coded: false,
        link: None,
        is_searched: false,
        local_clients: 0,
    };
}

/// HTTP/3 clients, and the faults of datagrams.
#[derive(Debug, Clone, Copy)]
pub struct Http3Plan {
    pub clients: usize,
    /// The seed of the random decisions about datagrams and their clients.
    pub seed: u64,
    /// The number of datagrams in a thousand that are lost.
    pub lost_permille: u64,
    /// The maximum extra delay of a datagram.
    pub jitter_max: Nanos,
    /// The maximum payload that fits the path.
    pub payload_bytes_max: usize,
    /// The size of the server's socket buffer.
    pub buffer_bytes: usize,
}

impl Http3Plan {
    /// One client, whose datagrams all arrive in order.
    pub const QUIET: Http3Plan = Http3Plan {
        clients: 1,
        seed: 1,
        lost_permille: 0,
        jitter_max: Nanos::ZERO,
        payload_bytes_max: 1_472,
        buffer_bytes: 4 << 20,
    };

    pub fn of(random: &mut Random) -> Http3Plan {
        Http3Plan {
            clients: random.between(1, 6) as usize,
            seed: random.word(),
            lost_permille: random.one_of(&[0, 0, 10, 50]),
            jitter_max: random.one_of(&[Nanos(0), Nanos::from_micros(100), Nanos::from_millis(20)]),
            payload_bytes_max: random.one_of(&[1472, 1472, 1300]),
            buffer_bytes: random.one_of(&[4 << 10, 64 << 10, 4 << 20]),
        }
    }
}

/// The applications, and the way the server must treat them.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamPlan {
    pub endpoints: u64,
    /// The maximum number of concurrent requests to each application.
    pub requests_max: u32,
    pub connect_timeout: Nanos,
    pub read_timeout: Nanos,
    /// The number of connections in a thousand that are refused, or never established.
    pub refused_permille: u64,
    /// True if the applications close idle connections.
    pub closes_idle: bool,
    /// The server's health checks, if it makes any.
    pub health: Option<HealthPlan>,
}

/// A limit so high that no request waits.
const REQUESTS_MANY: u32 = 1_000;

impl UpstreamPlan {
    fn of(random: &mut Random) -> UpstreamPlan {
        UpstreamPlan {
            endpoints: random.between(1, 3),
            requests_max: random.one_of(&[1, 4, REQUESTS_MANY, REQUESTS_MANY]),
            connect_timeout: Nanos::from_secs(random.between(2, 10)),
            read_timeout: Nanos::from_secs(random.between(20, 60)),
            refused_permille: random.one_of(&[0, 0, 0, 200]),
            closes_idle: random.once_in(2),
            health: None,
        }
    }

    /// Returns true if a request may find no connection, or none in time.
    pub fn may_fail(&self) -> bool {
        let has_outages = self.health.is_some_and(|health| health.has_outages());
        self.has_queue() || self.refused_permille > 0 || has_outages
    }

    /// Returns true if requests may have to wait for others to end.
    pub fn has_queue(&self) -> bool {
        self.requests_max < REQUESTS_MANY
    }

    /// The maximum time that a client waits for applications.
    fn patience(&self) -> Nanos {
        Nanos(3 * self.connect_timeout.0 + 3 * self.read_timeout.0)
    }
}

impl Plan {
    pub fn of(random: &mut Random) -> Plan {
        let (policy, uplink_bytes_per_s) = random.one_of(&ORDERS);
        let clients = random.between(1, 16) as usize;
        Plan {
            clients,
            arrivals_over: Nanos::from_secs(random.between(1, 60)),
            policy,
            uplink_bytes_per_s,
            call_ns_max: random.one_of(&[200, 2_000, 20_000]),
            // The last is a busy host: later than a worker hands down ahead.
            wake_ns_max: random.one_of(&[1, 10_000, 5_000_000, 30_000_000]),
            // As the server sets it when pacing.
            unsent_bytes_max: if uplink_bytes_per_s.is_some() { 2 * 1460 + 1 } else { usize::MAX },
            has_socket_faults: random.once_in(2),
            cold_permille: random.one_of(&[0, 100, 1_000]),
            disk_takes_max: random.one_of(&[Nanos::from_millis(1), Nanos::from_millis(50), Nanos::from_secs(3)]),
            has_disk_errors: random.once_in(4),
            places: if random.once_in(4) { random.between(2, 8) as usize } else { 64 },
            stop_after: random.once_in(4).then(|| Nanos::from_millis(random.between(1, 60_000))),
            is_logged: random.once_in(2),
            has_http2: random.once_in(2),
            has_tls: random.once_in(2),
            has_strange_clients: random.once_in(2),
            memory_bytes: if random.once_in(4) { random.between(512 << 10, 2 << 20) } else { u64::MAX },
            has_attackers: random.once_in(3),
            upstreams: random.once_in(2).then(|| UpstreamPlan::of(random)),
            http3: None,
            is_staged: false,
            is_coded: false,
            link: None,
            is_searched: false,
            local_clients: 0,
        }
    }

    /// The network of a TCP or HTTP/3 client.
    pub fn network_of(&self, client: usize) -> [u8; 2] {
        if client < self.local_clients { LOCAL } else { [198, 18] }
    }

    /// The number of clients of all protocols.
    pub fn all_clients(&self) -> usize {
        self.clients + self.http3.map_or(0, |http3| http3.clients)
    }

    /// Returns true if no client must make room for others and the server is not stopped.
    pub fn has_room(&self) -> bool {
        self.places >= self.all_clients() && self.memory_bytes == u64::MAX && self.stop_after.is_none()
    }

    /// Returns true if the server may end a client's connection through no fault of the client.
    pub fn may_cut(&self) -> bool {
        self.has_disk_errors || self.memory_bytes < u64::MAX
    }

    /// The maximum time that a client must wait for the next byte of a response, whatever the order.
    pub fn patience(&self) -> Nanos {
        let carried =
            self.uplink_bytes_per_s.map_or(0, |rate| self.all_clients() as u64 * super::client::BYTES_ASKED_MAX / rate);
        // Behind others that the server gives up in time.
        let is_queued = self.places < self.all_clients() || self.memory_bytes < u64::MAX;
        let queued = if is_queued { 400 } else { 0 };
        let passed = self.upstreams.map_or(Nanos::ZERO, |upstreams| upstreams.patience());
        Nanos::from_secs(60 + 2 * carried + queued) + passed
    }
}
