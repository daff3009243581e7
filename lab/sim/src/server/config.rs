use std::fmt;

use sched::policy::{Order, PolicySpec};
use serde::Deserialize;
use units::Rate;

/// A run of the model. Every section has defaults. Fields that 001 leaves open state their values and the reasons.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The policy that orders the disk and the network: `fcfs`, `srpt`, `srpt-bands:...`, `fcf` or `srrt`. The
    /// processor is FIFO.
    #[serde(skip)]
    pub policy: PolicySpec,
    /// The number of user equivalents, 1 to 100,000.
    pub users: u32,
    /// The number of requests counted, at least 1.
    pub requests: u64,
    /// The number of requests before them that are served and not counted.
    pub warm_up: u64,
    pub until: Until,
    /// The seed of files, users, round-trip times and losses.
    pub seed: u64,
    pub cpu: Cpu,
    pub disk: Disk,
    pub network: Network,
    pub tcp: Tcp,
    pub http: Http,
    pub internet: Internet,
}

/// The end of a run, which 001 does not specify, and with it whether requests still waiting then are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Until {
    /// The requests that reach the server with the numbers from `warm_up` on are counted, the same under every policy,
    /// and the load continues until all of them are answered. No request is left out; a run in which one starves is an
    /// error.
    Answered,
    /// The first answers after `warm_up` answers are counted. Starving requests are left out, which favours policies
    /// that starve.
    Count,
}

/// The processor. 001 specifies no speed; this is a Pentium III of 2001 that serves about 700 small files a second.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cpu {
    /// The time for parsing, opening the file and logging, in microseconds per request.
    pub request_us: u64,
    /// The time for setting up and closing a connection, in microseconds per connection.
    pub connection_us: u64,
    /// The time for copying, checksums and packets, in microseconds per KiB.
    pub kib_us: u64,
    /// The number of requests that share the processor; others wait in order of arrival. Apache 1.3 has 150 processes.
    pub slots: u32,
}

/// The disk. 001 specifies the block and no speed. This is a disk of 2001 (10,000 turns a minute: 5.5 ms of seeking, 3
/// ms of waiting for the sector), with seven of ten blocks in the file cache: 700 users then keep it busy to 96 %.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Disk {
    /// The bytes read in one operation.
    pub block_bytes: u64,
    /// The time for moving the arm and waiting for the sector, averaged over all blocks, in microseconds per block.
    pub position_us: u64,
    pub bytes_per_s: u64,
}

/// The network interface.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    pub bits_per_s: u64,
}

/// The senders and receivers. Acknowledgements are neither lost nor delayed, and three duplicates have no effect, as in
/// 001.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tcp {
    pub mss_bytes: u64,
    /// The window that a client advertises: 12 segments, as in Windows 2000.
    pub window_bytes: u64,
    /// The size of the socket buffer, which holds unacknowledged bytes. The next block is read when it has room.
    pub send_buffer_bytes: u64,
    /// The initial window in segments (RFC 2581).
    pub initial_window_segments: u64,
    /// The initial timeout (RFC 2988).
    pub rto_initial_ms: u64,
    /// The minimum timeout (RFC 2988).
    pub rto_min_ms: u64,
}

/// The settings of HTTP/1.1.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// The time after which an idle connection is closed; Apache 1.3 has 15 s. With zero, each connection carries one
    /// request.
    pub keep_alive_s: u64,
    /// The maximum number of requests on a connection; Apache 1.3 has 100.
    pub requests_per_connection: u32,
    /// The bytes of a request.
    pub request_bytes: u64,
}

/// The network between them. The bandwidths and minimum round-trip times are from 001's table 1.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Internet {
    /// The loss of packets that carry payload or a request.
    pub loss: f64,
    /// The index of the Pareto distribution of a transfer's round-trip time, which starts at the minimum.
    pub rtt_alpha: f64,
    /// The maximum round-trip time, as a multiple of the minimum.
    pub rtt_spread: f64,
    /// The throughput of a connection that is reported to policies.
    pub throughput: Throughput,
}

/// How the throughput is calculated. 001 calculates it, but does not say how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Throughput {
    /// The rate that the path can carry: the client's bandwidth or one advertised window per round trip, whichever is
    /// less.
    Path,
    /// The rate of the client's last transfer; unknown before the first.
    Measured,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            policy: "srpt".parse().expect("a policy"),
            users: 700,
            requests: 1_000_000,
            warm_up: 100_000,
            until: Until::Answered,
            seed: 1,
            cpu: Cpu::default(),
            disk: Disk::default(),
            network: Network::default(),
            tcp: Tcp::default(),
            http: Http::default(),
            internet: Internet::default(),
        }
    }
}

impl Default for Cpu {
    fn default() -> Cpu {
        Cpu { request_us: 1000, connection_us: 300, kib_us: 10, slots: 150 }
    }
}

impl Default for Disk {
    fn default() -> Disk {
        Disk { block_bytes: 16_384, position_us: 2600, bytes_per_s: 20_000_000 }
    }
}

impl Default for Network {
    fn default() -> Network {
        Network { bits_per_s: 100_000_000 }
    }
}

impl Default for Tcp {
    fn default() -> Tcp {
        Tcp {
            mss_bytes: 1460,
            window_bytes: 17_520,
            send_buffer_bytes: 32_768,
            initial_window_segments: 2,
            rto_initial_ms: 3000,
            rto_min_ms: 1000,
        }
    }
}

impl Default for Http {
    fn default() -> Http {
        Http { keep_alive_s: 15, requests_per_connection: 100, request_bytes: 300 }
    }
}

impl Default for Internet {
    fn default() -> Internet {
        Internet { loss: 0.05, rtt_alpha: 1.4, rtt_spread: 8.0, throughput: Throughput::Path }
    }
}

/// The policies that [`is_of_remaining`] accepts, for messages.
const POLICIES: [&str; 5] = ["fcfs", "srpt", "srpt-bands", "fcf", "srrt"];

/// Returns true if the order depends only on the remaining bytes of a request, which are all that a queue's visit
/// knows.
fn is_of_remaining(policy: &PolicySpec) -> bool {
    use Order::{Fcf, Fcfs, Srpt, SrptBands, Srrt, SrrtBands};
    matches!(policy.order(), Fcfs | Srpt | SrptBands(_) | Fcf { .. } | Srrt | SrrtBands(_))
}

impl Config {
    /// Checks that the run is possible.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !is_of_remaining(&self.policy) {
            return Err(wrong("policy", &self.policy, &format!("one of {} in this model", POLICIES.join(", "))));
        }
        self.check_server()?;
        self.check_tcp()?;
        within("http.keep_alive_s", self.http.keep_alive_s, 0, 86_400)?;
        within("http.requests_per_connection", self.http.requests_per_connection.into(), 1, u32::MAX.into())?;
        within("http.request_bytes", self.http.request_bytes, 1, 65_536)?;
        real("internet.loss", self.internet.loss, 0.0, 0.5)?;
        real("internet.rtt_alpha", self.internet.rtt_alpha, 0.1, 100.0)?;
        real("internet.rtt_spread", self.internet.rtt_spread, 1.0, 1000.0)
    }

    /// Returns the number of the job among the counted ones, if this request is counted. It reached the server as
    /// `number`, and `answered` others were answered before it. If the first answers count, it is `number`, because
    /// their order of arrival is known only after the last answer.
    pub(super) fn counted(&self, number: u64, answered: u64) -> Option<u64> {
        let counted = self.warm_up..self.warm_up + self.requests;
        match self.until {
            Until::Answered => counted.contains(&number).then(|| number - self.warm_up),
            Until::Count => counted.contains(&answered).then_some(number),
        }
    }

    fn check_server(&self) -> Result<(), ConfigError> {
        within("users", self.users.into(), 1, 100_000)?;
        within("requests", self.requests, 1, 1_000_000_000)?;
        within("warm_up", self.warm_up, 0, 1_000_000_000)?;
        within("cpu.request_us", self.cpu.request_us, 0, 10_000_000)?;
        within("cpu.connection_us", self.cpu.connection_us, 0, 10_000_000)?;
        within("cpu.kib_us", self.cpu.kib_us, 0, 1_000_000)?;
        within("cpu.slots", self.cpu.slots.into(), 1, 100_000)?;
        within("disk.block_bytes", self.disk.block_bytes, 512, 1 << 24)?;
        within("disk.position_us", self.disk.position_us, 0, 10_000_000)?;
        within("disk.bytes_per_s", self.disk.bytes_per_s, 1000, 1_000_000_000_000)?;
        within("network.bits_per_s", self.network.bits_per_s, 1000, 1_000_000_000_000)
    }

    fn check_tcp(&self) -> Result<(), ConfigError> {
        let tcp = &self.tcp;
        within("tcp.mss_bytes", tcp.mss_bytes, 88, 9000)?;
        within("tcp.window_bytes", tcp.window_bytes, tcp.mss_bytes, tcp.mss_bytes * WINDOW_SEGMENTS_MAX)?;
        // Less than a segment may be left in it while the next block is read.
        within("tcp.send_buffer_bytes", tcp.send_buffer_bytes, self.disk.block_bytes + tcp.mss_bytes, 1 << 30)?;
        within("tcp.initial_window_segments", tcp.initial_window_segments, 1, WINDOW_SEGMENTS_MAX)?;
        within("tcp.rto_initial_ms", tcp.rto_initial_ms, 1, 60_000)?;
        within("tcp.rto_min_ms", tcp.rto_min_ms, 1, 60_000)
    }
}

/// The maximum segments of a window; a receiver stores a bit for each.
pub(super) const WINDOW_SEGMENTS_MAX: u64 = 64;

/// The reason why a run is impossible: the field, and its valid values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub(super) String);

impl ConfigError {
    /// The error of a run in which only `answered` counted requests had been answered after `per_counted` times as many
    /// answers in total.
    pub(super) fn starved(config: &Config, answered: u64, per_counted: u64) -> ConfigError {
        ConfigError(format!(
            "until: {} of {} requests still wait when {per_counted} times as many have been answered, so {} starves them \
             here; `count` leaves out whoever waits at the end",
            config.requests - answered,
            config.requests,
            config.policy
        ))
    }
}

fn wrong(field: &str, given: &dyn fmt::Display, right: &str) -> ConfigError {
    ConfigError(format!("{field}: `{given}` should be {right}"))
}

fn within(field: &str, given: u64, least: u64, most: u64) -> Result<(), ConfigError> {
    let right = || wrong(field, &given, &format!("from {least} to {most}"));
    (least..=most).contains(&given).then_some(()).ok_or_else(right)
}

fn real(field: &str, given: f64, least: f64, most: f64) -> Result<(), ConfigError> {
    let right = || wrong(field, &given, &format!("from {least} to {most}"));
    (least..=most).contains(&given).then_some(()).ok_or_else(right)
}

/// A rate that has been checked.
pub(super) fn rate(bits_per_s: u64) -> Rate {
    Rate::from_bits_per_s(bits_per_s).expect("checked to be a rate")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_can_be_run() {
        assert_eq!(Config::default().check(), Ok(()));
    }

    fn policy(spec: &str) -> PolicySpec {
        spec.parse().unwrap()
    }

    #[test]
    fn every_policy_named_is_allowed() {
        for name in sched::policy::NAMES {
            assert_eq!(is_of_remaining(&policy(name)), POLICIES.contains(name), "{name}");
        }
    }

    #[test]
    fn a_wrong_field_is_named() {
        let said = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert_eq!(said(|c| c.users = 0), "users: `0` should be from 1 to 100000");
        assert_eq!(said(|c| c.internet.loss = f64::NAN), "internet.loss: `NaN` should be from 0 to 0.5");
        assert_eq!(said(|c| c.tcp.send_buffer_bytes = 16_384).split(':').next(), Some("tcp.send_buffer_bytes"));
        assert!(said(|c| c.policy = policy("las")).starts_with("policy: `las` should be one of fcfs, srpt,"));
        assert!(said(|c| c.policy = policy("fair")).starts_with("policy: `fair` should be one of"));
    }
}
