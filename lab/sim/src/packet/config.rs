//! What a run of the packet model is told; every field checked before anything runs.

use std::fmt;

use sched::line::Bounds;
use sched::policy::PolicySpec;
use serde::Deserialize;
use units::{Nanos, Rate, wire};

use super::bottleneck::{Discipline, Shape};
use super::tcp::{Congestion, Settings};

/// A run. `Default` is today's Linux on a link of 10 Mbit/s without delay or loss, shaping off, a FIFO of 100.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub link: Rate,
    pub shape: Shape,
    pub bottleneck: Discipline,
    pub shaping: Shaping,
    pub policy: PolicySpec,
    /// True if a response goes to a better band at once, as in the papers, or when nothing of its connection waits in a worse one,
    /// as the server does it.
    pub promotes_at_once: bool,
    /// True if paced shaping can read the queue below; if not it keeps to 98 % of the link, as the server does.
    pub sees_queue: bool,
    /// The rate that paced shaping is told where it cannot read the queue below; `None` tells it the link's.
    pub told: Option<Bounds>,
    /// The link's rate changes to these, in order of time.
    pub rate_changes: Vec<(Nanos, Rate)>,
    pub tcp: Tcp,
    /// Connections take these in turn; at least one.
    pub paths: Vec<PathConfig>,
    pub server: Server,
    /// Requests on each connection, at least 1. A request takes an idle connection if there is one (most recently used
    /// first) and opens one if not; it never waits for another's response.
    pub per_connection: u32,
    pub user: Option<User>,
    /// Ends the run this long after the last arrival; `None` ends it when every job has ended.
    pub grace: Option<Nanos>,
    /// Jobs at the start that are simulated and not counted.
    pub warm_up_jobs: u64,
    /// Takes a [`super::Sample`] this often.
    pub sample_every: Option<Nanos>,
    pub seed: u64,
}

/// The way of responses to the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shaping {
    /// Socket buffers take all at once: TCP and the bottleneck's queue decide.
    Off,
    /// Weir's writer: at the pace of the link it hands bytes to sockets that hold two unsent segments at most.
    Paced,
    /// Socket buffers take all at once; every packet is marked with the band its response has then.
    Bands,
}

/// The settings of TCP.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tcp {
    /// Payload of a full segment, 64 to 65,000 bytes.
    pub segment_bytes: u32,
    /// Segments, 1 to 1000: 10 since RFC 6928, 2 before.
    pub initial_window: u32,
    /// For SYN, SYN-ACK and what else has no round trip to go by: 1 s since RFC 6298, 3 s before.
    pub initial_rto: Nanos,
    pub min_rto: Nanos,
    pub congestion: Congestion,
    pub receive_window_bytes: u64,
    /// The time that the reader may wait with every other acknowledgement; zero acknowledges every segment.
    pub delayed_ack: Nanos,
    /// The most segments that are handed down as one packet; 1 to 45.
    pub gso_segments: u32,
    /// Linux ≥ 3.6 limits what a connection may have in the host's own qdisc.
    pub small_queues: bool,
    /// The sender is told when the host's own qdisc has no room; false if the bottleneck is another machine's.
    pub hears_drops: bool,
    pub tail_loss_probe: bool,
    /// A reduction of the window that a timestamp shows to have been needless is undone (Linux ≥ 2.4).
    pub undoes: bool,
    /// The number of times that a SYN and a SYN-ACK are sent again.
    pub syn_retries: u32,
}

impl Default for Tcp {
    /// Linux of today, the bottleneck its own qdisc.
    fn default() -> Tcp {
        Tcp {
            segment_bytes: wire::SEGMENT_BYTES as u32,
            initial_window: 10,
            initial_rto: Nanos::from_secs(1),
            min_rto: Nanos::from_millis(200),
            congestion: Congestion::Cubic,
            // The window grows with the stream (tcp_rmem ends at 6 MB, half of it window); this is where it stops.
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
    /// Linux 2.2, as in the papers of 2003 and 2006: every packet is one segment, a queue that has no room drops it and
    /// nobody is told.
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

    /// Today's Linux behind a router that is the bottleneck: it sees single segments, and its queue is its own.
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

/// The way between server and client beside the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PathConfig {
    /// From the bottleneck to the client, and from the client to the server.
    pub forward: Nanos,
    pub back: Nanos,
    /// The forward delay varies evenly by this much up and down, packet by packet, without changing their order.
    pub jitter: Nanos,
    /// Probability that a packet is lost on its way to the client, below 1.
    pub loss: f64,
    /// The same on its way to the server.
    pub loss_back: f64,
}

/// The server's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// Connections whose handshake is not finished; one more SYN is dropped.
    pub syn_queue: u32,
    /// Connections that no worker has accepted; the acknowledgement that would finish one more handshake is dropped.
    pub accept_queue: u32,
    /// Connections that can be worked on at once; `None` is an event-driven server.
    pub workers: Option<u32>,
    /// No SYN queue: the handshake's last packet carries what is needed.
    pub syn_cookies: bool,
    /// An idle connection is closed after this.
    pub keep_alive: Nanos,
    /// The acknowledgement of a request rides on its response if that begins within 40 ms, as Weir has it (TCP_QUICKACK off).
    pub acks_ride: bool,
}

impl Default for Server {
    fn default() -> Server {
        // Linux's tcp_max_syn_backlog on a machine of some size, nginx's and Weir's listen(2), nginx's timeout.
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
    /// Resets the connection after this long and asks again on a new one.
    pub aborts_after: Nanos,
    /// Gives up after this many more tries.
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

/// A field that makes no sense: its name, what it was, what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// The most connections or packets any limit may allow: more would not fit the slabs' 32-bit positions.
const LIMIT_MAX: u32 = 1 << 24;

impl Config {
    /// Checks that it can be run.
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
