//! The settings of a run of the packet model; every field is checked before the run.

use std::fmt;

use sched::line::Bounds;
use sched::policy::PolicySpec;
use serde::Deserialize;
use units::{Nanos, Rate, wire};

use super::bottleneck::{Discipline, Shape};
use super::tcp::{Congestion, Settings};

/// A run. `Default` is today's Linux on a link of 10 Mbit/s without delay or loss, with shaping off and a FIFO of 100
/// packets.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub link: Rate,
    pub shape: Shape,
    pub bottleneck: Discipline,
    pub shaping: Shaping,
    pub policy: PolicySpec,
    /// True if a response changes to a better band immediately, as in the papers. Otherwise it changes when no packet
    /// of its connection waits in a worse band, as in the server.
    pub promotes_at_once: bool,
    /// True if paced shaping can read the queue below it. If not, it keeps to 98 % of the link, as the server does.
    pub sees_queue: bool,
    /// The rate that is configured for paced shaping if it cannot read the queue below; `None` for the link's rate.
    pub told: Option<Bounds>,
    /// Changes of the link's rate, in order of time.
    pub rate_changes: Vec<(Nanos, Rate)>,
    pub tcp: Tcp,
    /// The paths that connections use in turn; at least one.
    pub paths: Vec<PathConfig>,
    pub server: Server,
    /// The number of requests on each connection, at least 1. A request uses the idle connection used most recently, or
    /// opens one if none is idle; it never waits for another's response.
    pub per_connection: u32,
    pub user: Option<User>,
    /// The time after the last arrival at which the run ends; `None` ends it when every job has ended.
    pub grace: Option<Nanos>,
    /// The number of jobs at the start that are simulated and not counted.
    pub warm_up_jobs: u64,
    /// The interval of [`super::Sample`]s.
    pub sample_every: Option<Nanos>,
    pub seed: u64,
}

/// How responses reach the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shaping {
    /// Socket buffers take everything immediately, so TCP and the bottleneck's queue determine the order.
    Off,
    /// Weir's writer: it hands bytes at the pace of the link to sockets that hold at most two unsent segments.
    Paced,
    /// Socket buffers take everything immediately, and every packet is marked with the current band of its response.
    Bands,
}

/// The settings of TCP.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tcp {
    /// The payload of a full segment, 64 to 65,000 bytes.
    pub segment_bytes: u32,
    /// The initial window in segments, 1 to 1000: 10 since RFC 6928, 2 before.
    pub initial_window: u32,
    /// The timeout for SYN, SYN-ACK and other packets before a round trip is measured: 1 s since RFC 6298, 3 s before.
    pub initial_rto: Nanos,
    pub min_rto: Nanos,
    pub congestion: Congestion,
    pub receive_window_bytes: u64,
    /// The maximum delay of every other acknowledgement; zero acknowledges every segment immediately.
    pub delayed_ack: Nanos,
    /// The maximum number of segments that are handed down as one packet; 1 to 45.
    pub gso_segments: u32,
    /// Whether the bytes of a connection in the host's own qdisc are limited, as since Linux 3.6.
    pub small_queues: bool,
    /// Whether the sender is notified if the host's own qdisc has no room; false if the bottleneck is in another
    /// machine.
    pub hears_drops: bool,
    pub tail_loss_probe: bool,
    /// Whether a reduction of the window is undone if a timestamp shows that it was unnecessary (Linux ≥ 2.4).
    pub undoes: bool,
    /// The number of retransmissions of a SYN and of a SYN-ACK.
    pub syn_retries: u32,
}

impl Default for Tcp {
    /// Linux of today, with its own qdisc as the bottleneck.
    fn default() -> Tcp {
        Tcp {
            segment_bytes: wire::SEGMENT_BYTES as u32,
            initial_window: 10,
            initial_rto: Nanos::from_secs(1),
            min_rto: Nanos::from_millis(200),
            congestion: Congestion::Cubic,
            // The window grows with the stream (tcp_rmem ends at 6 MB, half of it window); this is its maximum.
            receive_window_bytes: 3 << 20,
            delayed_ack: Nanos::from_millis(40),
            gso_segments: 44,
            small_queues: true,
            hears_drops: true,
            tail_loss_probe: true,
            undoes: true,
            syn_retries: 6,
        }
    }
}

impl Tcp {
    /// Linux 2.2, as in the papers of 2003 and 2006: every packet is one segment, and a full queue drops packets
    /// without notifying the sender.
    pub fn of_2003() -> Tcp {
        Tcp {
            initial_window: 2,
            initial_rto: Nanos::from_secs(3),
            congestion: Congestion::Reno,
            receive_window_bytes: 32 << 10,
            gso_segments: 1,
            small_queues: false,
            hears_drops: false,
            tail_loss_probe: false,
            undoes: false,
            ..Tcp::default()
        }
    }

    /// Today's Linux behind a router that is the bottleneck. The router sees single segments and has its own queue.
    pub fn behind_router() -> Tcp {
        Tcp { gso_segments: 1, small_queues: false, hears_drops: false, ..Tcp::default() }
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            segment_bytes: self.segment_bytes,
            initial_window: self.initial_window,
            initial_rto: self.initial_rto,
            min_rto: self.min_rto,
            congestion: self.congestion,
            receive_window_bytes: self.receive_window_bytes,
            gso_segments: self.gso_segments,
            small_queues: self.small_queues,
            tail_loss_probe: self.tail_loss_probe,
            undoes: self.undoes,
        }
    }
}

/// The path between server and client, without the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PathConfig {
    /// The delay from the bottleneck to the client, and from the client to the server.
    pub forward: Nanos,
    pub back: Nanos,
    /// The maximum deviation of the forward delay in both directions. It is uniformly distributed per packet, and does
    /// not change the order of packets.
    pub jitter: Nanos,
    /// The probability that a packet is lost on its way to the client, below 1.
    pub loss: f64,
    /// The probability that a packet is lost on its way to the server.
    pub loss_back: f64,
}

/// The server's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// The maximum number of unfinished handshakes; a further SYN is dropped.
    pub syn_queue: u32,
    /// The maximum number of connections that no worker has accepted. The acknowledgement that would finish a further
    /// handshake is dropped.
    pub accept_queue: u32,
    /// The maximum number of connections served at the same time; `None` for an event-driven server.
    pub workers: Option<u32>,
    /// True if there is no SYN queue, because the handshake's last packet carries the state.
    pub syn_cookies: bool,
    /// The time after which an idle connection is closed.
    pub keep_alive: Nanos,
    /// True if the acknowledgement of a request is sent with its response, if that begins within 40 ms, as in Weir
    /// (TCP_QUICKACK off).
    pub acks_ride: bool,
}

impl Default for Server {
    fn default() -> Server {
        // Linux's tcp_max_syn_backlog on a machine with ample memory, listen(2) in nginx and Weir, and nginx's timeout.
        Server {
            syn_queue: 4096,
            accept_queue: 4096,
            workers: None,
            syn_cookies: false,
            keep_alive: Nanos::from_secs(15),
            acks_ride: false,
        }
    }
}

/// A user who loses patience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// The time after which the user resets the connection and tries again on a new one.
    pub aborts_after: Nanos,
    /// The maximum number of retries.
    pub retries: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            link: Rate::from_bits_per_s(10_000_000).expect("a rate above 0"),
            shape: Shape::Wire,
            bottleneck: Discipline::Fifo(100),
            shaping: Shaping::Off,
            policy: "fair".parse().expect("a policy"),
            promotes_at_once: false,
            sees_queue: true,
            told: None,
            rate_changes: Vec::new(),
            tcp: Tcp::default(),
            paths: vec![PathConfig::default()],
            server: Server::default(),
            per_connection: 1,
            user: None,
            grace: None,
            warm_up_jobs: 0,
            sample_every: None,
            seed: 1,
        }
    }
}

/// An invalid field: its name, its value, and the valid values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// The maximum of every limit on connections or packets; more would exceed the slabs' 32-bit positions.
const LIMIT_MAX: u32 = 1 << 24;

impl Config {
    /// Checks that the run is possible.
    pub fn check(&self) -> Result<(), ConfigError> {
        let tcp = &self.tcp;
        in_range("fifo limit", self.bottleneck.limit(), 1..=LIMIT_MAX)?;
        in_range("per_connection", self.per_connection, 1..=LIMIT_MAX)?;
        in_range("segment", tcp.segment_bytes, 64..=65_000)?;
        in_range("initial_window", tcp.initial_window, 1..=1000)?;
        in_range("gso_segments", tcp.gso_segments, 1..=45)?;
        in_range("syn_retries", tcp.syn_retries, 0..=20)?;
        in_range("receive_window", tcp.receive_window_bytes, u64::from(tcp.segment_bytes)..=1 << 31)?;
        in_range("syn_queue", self.server.syn_queue, 1..=LIMIT_MAX)?;
        in_range("accept_queue", self.server.accept_queue, 1..=LIMIT_MAX)?;
        in_range("workers", self.server.workers.unwrap_or(1), 1..=LIMIT_MAX)?;
        in_range("initial_rto", tcp.initial_rto, Nanos::from_millis(1)..=Nanos::from_secs(60))?;
        in_range("min_rto", tcp.min_rto, Nanos::from_millis(1)..=Nanos::from_secs(60))?;
        in_range("keep_alive", self.server.keep_alive, Nanos::from_millis(1)..=Nanos::from_secs(86_400))?;
        if let Some(user) = self.user {
            in_range("abort_after", user.aborts_after, Nanos::from_millis(1)..=Nanos::from_secs(86_400))?;
            in_range("retries", user.retries, 0..=1000)?;
        }
        in_range("sample_every", self.sample_every.unwrap_or(Nanos::MAX), Nanos::from_millis(1)..=Nanos::MAX)?;
        self.check_paths()?;
        self.check_scheduler()
    }

    fn check_paths(&self) -> Result<(), ConfigError> {
        in_range("paths", self.paths.len(), 1..=1 << 16)?;
        for path in &self.paths {
            in_range("loss", path.loss, 0.0..=0.9)?;
            in_range("loss_back", path.loss_back, 0.0..=0.9)?;
            let longest = Nanos::from_secs(60);
            in_range("rtt", path.forward.max(path.back), Nanos::ZERO..=longest)?;
            in_range("jitter", path.jitter, Nanos::ZERO..=longest)?;
        }
        Ok(())
    }

    fn check_scheduler(&self) -> Result<(), ConfigError> {
        let error = |what: &str| Err(ConfigError(what.to_owned()));
        match (self.shaping, self.bottleneck) {
            (Shaping::Bands, Discipline::Bands(_)) if self.policy.bands() == 1 => Err(ConfigError(format!(
                "shaping `bands` needs a policy with bands, such as srpt-bands:5 or quick-fix: `{}` has none",
                self.policy
            ))),
            (Shaping::Bands, Discipline::Bands(_)) => Ok(()),
            (Shaping::Bands, _) => error("shaping `bands` marks packets for a bottleneck of `bands`: choose that"),
            (_, Discipline::Bands(_)) => {
                error("bottleneck `bands` needs packets with bands: choose shaping `bands` too")
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn in_range<T: PartialOrd + fmt::Debug>(
    field: &str,
    value: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(ConfigError(format!("{field} of {value:?} is out of range: write {least:?} to {most:?}")))
}
