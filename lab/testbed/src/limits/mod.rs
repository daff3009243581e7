//! The limits of both kernels and of the server itself, as set in 003 (section 3.2) for an overload to have an effect.
//!
//! The effect of each limit on a current kernel, measured or found in its source:
//!
//! - A SYN is dropped if the accept queue is full, if the SYN queue is as long as the accept queue may be, or, without
//!   SYN cookies, if the SYN queue is longer than three quarters of `syn_queue` and the client was not known before.
//!   003's kernels had the same rule of three quarters.
//! - The accept queue accepts one connection more than `accept_queue`.
//! - `workers` works as in Apache prefork: a process per connection, with the others in the accept queue. Weir does the
//!   same with `--max-accepted-connections`. nginx gets one worker with as many connections, and closes further ones
//!   instead of letting them wait: its clients see resets where Apache's see silence, and the manifest says so. Caddy
//!   has no such limit, and a run with one is refused.
//! - `recovery` without bit 1 (no RACK) has no effect from Linux 6.17 on, whose TCP detects losses in no other way; it
//!   is refused.
//! - `orphan_retries` keeps the server's kernel from giving up a response. A packet that a queue of the same host
//!   refuses is tried again every half second, and a connection that its program has closed is dropped after about
//!   eight tries, without a reset: its client waits without end. If the FIFO is on another host, TCP backs off and this
//!   loss does not occur.
//! - `initial_rto` implies exponential retransmission of SYNs: since Linux 6.5 the first four have equal distances.

mod kernel;

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::{Experiment, Network, RunSpec, Server};

pub(crate) use kernel::KernelLimits;

/// The range of initial timeouts, from a tick of a slow kernel to TCP_RTO_MAX.
const INITIAL_RTO: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(120);

/// The limits of an experiment; unset limits keep their defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The maximum number of half-open connections: `tcp_max_syn_backlog`.
    #[serde(default, deserialize_with = "within::<1, 65_535, _>")]
    pub syn_queue: Option<u64>,
    /// The maximum number of connections that no program has accepted: the listening socket's backlog, and `somaxconn`,
    /// which bounds it. Every server that we start takes these backlogs.
    #[serde(default, deserialize_with = "within::<1, 65_535, _>")]
    pub accept_queue: Option<u64>,
    /// True if a full SYN queue is answered by cookies instead of silence.
    pub syn_cookies: Option<bool>,
    /// The number of connections that the server serves at the same time: the papers' Apache processes. 003 has 350; the
    /// maximum is a tenth of Apache's own limit.
    #[serde(default, deserialize_with = "within::<1, 20_000, _>")]
    pub workers: Option<u64>,
    /// The time until the first SYN or SYN-ACK is retransmitted, such as `3s`; later ones follow after twice, four
    /// times that, and so on.
    #[serde(default, deserialize_with = "initial_rto")]
    pub initial_rto: Option<Duration>,
    /// The maximum segment size of TCP, both ways. Packets are 40 bytes longer, payload is 12 bytes shorter
    /// (timestamps). The minimum is the least that Linux sends by itself, the maximum that of Ethernet; 003 has packets
    /// of 536 to 1,500 bytes.
    #[serde(default, deserialize_with = "within::<88, 1460, _>")]
    pub mss: Option<u64>,
    /// The number of segments that the server may send before the first acknowledgement: Linux has 10, and 003's
    /// kernel had 2.
    #[serde(default, deserialize_with = "within::<1, 100, _>")]
    pub initial_window: Option<u64>,
    /// The send buffer on both sides: minimum, default and maximum bytes, such as `4096 16384 65536`.
    #[serde(default, deserialize_with = "buffer")]
    pub tcp_wmem: Option<[u64; 3]>,
    /// The bits of `tcp_recovery`: 1 is RACK, 2 a fixed reordering window, 4 no threshold of duplicate acknowledgements.
    #[serde(default, deserialize_with = "within::<0, 7, _>")]
    pub recovery: Option<u64>,
    /// The number of tries until the kernel gives up a connection: `tcp_orphan_retries` after its program has closed
    /// it, and `tcp_retries2` before. The kernel keeps it in a byte, and 0 is its own choice.
    #[serde(default, deserialize_with = "within::<1, 255, _>")]
    pub orphan_retries: Option<u64>,
}

impl Limits {
    /// Returns true if any of them must be set in the kernel.
    pub(crate) fn concern_kernel(&self) -> bool {
        *self != Limits { workers: self.workers, ..Limits::default() }
    }

    /// Checks the limits together with the rest of the experiment.
    pub(crate) fn check(&self, experiment: &Experiment) -> Result<(), String> {
        if experiment.network == Network::Loopback && self.concern_kernel() {
            return Err("[limits] of the kernel need a namespace: leave network = \"loopback\" or them out".into());
        }
        for run in experiment.runs().filter(|_| self.workers.is_some()) {
            let name = &run.name;
            if limits_itself(run) {
                return Err(format!(
                    "run `{name}`: workers in [limits] is --max-accepted-connections: leave its own flags out"
                ));
            }
            if matches!(run.server, Server::Caddy | Server::H2o) {
                let server = run.server.name();
                return Err(format!(
                    "run `{name}`: {server} serves all connections at once: leave workers in [limits] or the run out"
                ));
            }
        }
        Ok(())
    }

    /// The number of worker slots of this server, for the manifest.
    pub(crate) fn slots_of(&self, server: Server) -> String {
        match (server, self.workers) {
            (Server::Apache, workers) => workers.unwrap_or(crate::server::APACHE_PROCESSES).to_string(),
            (Server::Weir, Some(workers)) => workers.to_string(),
            (Server::Nginx, Some(workers)) => format!("{workers}, closes connections beyond"),
            (Server::Weir | Server::Nginx | Server::Caddy | Server::H2o, _) => "unlimited".into(),
        }
    }
}

/// Returns true if a run itself specifies how many connections Weir serves at the same time.
fn limits_itself(run: &RunSpec) -> bool {
    let names = ["--max-accepted-connections", "--connections", "--workers"];
    run.flags.iter().any(|flag| names.iter().any(|name| flag == name || flag.starts_with(&format!("{name}="))))
}

/// Parses a whole number in this range.
pub(crate) fn within<'de, const LEAST: u64, const MOST: u64, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    let number = u64::deserialize(deserializer)?;
    if (LEAST..=MOST).contains(&number) {
        return Ok(Some(number));
    }
    Err(D::Error::custom(format!("`{number}` is out of range: write {LEAST} to {MOST}")))
}

fn initial_rto<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let timeout = units::parse_duration(&text).map_err(D::Error::custom)?;
    if INITIAL_RTO.contains(&timeout) {
        return Ok(Some(timeout));
    }
    Err(D::Error::custom(format!("`{text}` is not an initial timeout: write 10ms to 120s, for example 3s")))
}

fn buffer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[u64; 3]>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    // The kernel takes signed integers of 32 bits.
    match numbers.as_deref() {
        Some(&[least, usual, most]) if 0 < least && least <= usual && usual <= most && most <= i32::MAX as u64 => {
            Ok(Some([least, usual, most]))
        }
        _ => Err(D::Error::custom(format!(
            "`{text}` is no buffer: write the least, usual and most bytes, for example \"4096 16384 65536\""
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An experiment with these limits from line 6 on and one run of `weir` with `flags`.
    fn parse(more: &str, limits: &str, flags: &str) -> Result<Experiment, String> {
        crate::testing::parse(&format!("{more}[limits]\n{limits}"), &format!("server = \"weir\"\n{flags}"))
    }

    #[test]
    fn the_limits_of_003_are_taken() {
        let limits = "syn_queue = 512\naccept_queue = 512\nsyn_cookies = false\nworkers = 350\ninitial_rto = \"3s\"\nmss = 536\n\
                      initial_window = 2\ntcp_wmem = \"4096 16384  65536\"\nrecovery = 1";
        let limits = parse("", limits, "").unwrap().limits;
        assert_eq!((limits.syn_queue, limits.workers, limits.mss), (Some(512), Some(350), Some(536)));
        assert_eq!((limits.initial_rto, limits.tcp_wmem), (Some(Duration::from_secs(3)), Some([4096, 16_384, 65_536])));
        assert!(limits.concern_kernel() && !Limits { workers: Some(2), ..Limits::default() }.concern_kernel());
    }

    #[test]
    fn impossible_values_are_told_with_their_line() {
        for (limits, says) in [
            ("syn_queue = 0", "`0` is out of range: write 1 to 65535"),
            ("accept_queue = 70000", "`70000` is out of range: write 1 to 65535"),
            ("workers = 0", "`0` is out of range: write 1 to 20000"),
            ("initial_rto = \"1ms\"", "`1ms` is not an initial timeout: write 10ms to 120s"),
            ("initial_rto = 3", "invalid type"),
            ("mss = 1500", "`1500` is out of range: write 88 to 1460"),
            ("initial_window = 0", "`0` is out of range: write 1 to 100"),
            ("tcp_wmem = \"4096 2048 65536\"", "`4096 2048 65536` is no buffer"),
            ("tcp_wmem = \"4096\"", "`4096` is no buffer"),
            ("orphan_retries = 256", "`256` is out of range: write 1 to 255"),
            ("recovery = 8", "`8` is out of range: write 0 to 7"),
            ("syn_queues = 8", "unknown field `syn_queues`"),
        ] {
            let said = parse("", limits, "").unwrap_err();
            assert!(said.starts_with(&format!("x.toml:6: {says}")), "{limits}: {said}");
        }
    }

    #[test]
    fn what_cannot_go_together_is_told() {
        let said = parse("network = \"loopback\"\n", "mss = 1000", "").unwrap_err();
        assert!(said.contains("need a namespace"), "{said}");
        assert!(parse("network = \"loopback\"\n", "workers = 10", "").is_ok());
        let said = parse("", "workers = 10", "flags = [\"--connections=5\"]").unwrap_err();
        assert!(said.contains("run `a`: workers in [limits] is --max-accepted-connections"), "{said}");
        let caddy = "[[run]]\nname = \"b\"\nserver = \"caddy\"";
        let said = parse("", "workers = 10", caddy).unwrap_err();
        assert!(said.contains("run `b`: caddy serves all connections at once"), "{said}");
        assert!(parse("", "mss = 1000", caddy).is_ok());
    }

    #[test]
    fn the_manifest_tells_whose_slots_are_limited() {
        let limits = Limits { workers: Some(20), ..Limits::default() };
        let said = [Server::Apache, Server::Weir, Server::Nginx].map(|server| limits.slots_of(server));
        assert_eq!(said, ["20", "20", "20, closes connections beyond"]);
        assert_eq!([Server::Weir, Server::Nginx].map(|server| Limits::default().slots_of(server)), ["unlimited"; 2]);
    }
}
