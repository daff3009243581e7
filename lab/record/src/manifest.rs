use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Key of [`Manifest::environment`]: the connections that the server's kernel gave up during the run (TCPAbortOnTimeout).
pub const GIVEN_UP: &str = "given_up_by_kernel";
/// Key of [`Manifest::environment`]: the bytes that the bottleneck sent while requests arrived, as a part of what the link carries in that time.
pub const CARRIED: &str = "link_carried_share";

/// A description of how a run was made: enough to make it again and to know what it may be compared with.
///
/// The access log of a server shows only the load that arrived: see [`Manifest::of_server`] and the fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Name of the run within its experiment, for example `nginx-fair`.
    pub name: String,
    /// The program that sent the bytes: `nginx`, `weir`.
    pub server: String,
    /// Policy name, or `fair` for a server that has none.
    pub policy: String,
    /// Shaping: off, paced or bands; for other servers the queue below them. Called `drain` in older results.
    #[serde(alias = "drain")]
    pub shaping: String,
    /// The shaper's rate, bits per second; 0 if unknown.
    pub link_bps: u64,
    /// The load that was requested; for an access log, the load that arrived.
    pub rho: f64,
    /// The seed; 0 for an access log, for which nothing was drawn.
    pub seed: u64,
    /// Requests on each connection; for an access log, the mean.
    pub per_connection: u64,
    /// The time during which arrivals were generated, seconds; for an access log, from its first arrival to its last
    /// end.
    pub seconds: f64,
    /// Commit of this project, with `-dirty` when the tree had changes.
    pub commit: String,
    /// `uname -r`.
    pub kernel: String,
    /// The command that was given.
    pub command: Vec<String>,
    /// CPU seconds used by the server's processes divided by the seconds of the run: 1.0 is one core.
    pub server_cpu: Option<f64>,
    /// The same for the load generator.
    pub client_cpu: Option<f64>,
    /// 99th percentile of how late requests were submitted, nanoseconds.
    pub lateness_ns_p99: Option<u64>,
    /// Bytes the shaper sent during the run, as it counts them.
    pub wire_bytes: Option<u64>,
    /// The reason why the run may not be used, if there is one.
    pub void: Option<String>,
    /// The clients of a load that is closed on purpose: users or sessions that wait for an answer before they ask
    /// again. The jobs of such runs differ with the server. `None` is an open load, whose jobs wait for no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
    /// Names of the groups of clients, in the order in which records count them; empty if there is only one. For an
    /// access log, its classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// Everything else worth knowing: qdisc as `tc` prints it, congestion control, offloads, software versions.
    pub environment: BTreeMap<String, String>,
}

/// The key in a manifest's environment that states who recorded the run, if it was not the client.
const RECORDED_BY: &str = "recorded_by";

impl Manifest {
    /// A manifest of which only the name is known: texts are `unknown`, the link has no rate, nothing was measured.
    pub fn new(name: &str) -> Manifest {
        let unknown = || "unknown".to_string();
        Manifest {
            name: name.into(),
            server: unknown(),
            policy: unknown(),
            shaping: unknown(),
            link_bps: 0,
            rho: 0.0,
            seed: 0,
            per_connection: 1,
            seconds: 0.0,
            commit: unknown(),
            kernel: unknown(),
            command: vec![],
            server_cpu: None,
            client_cpu: None,
            lateness_ns_p99: None,
            wire_bytes: None,
            void: None,
            closed: None,
            clients: vec![],
            environment: BTreeMap::new(),
        }
    }

    /// The same manifest, marked as recorded by a server: its response times end before the link has carried the last
    /// bytes, and the instants at which requests were submitted are unknown.
    pub fn of_server(mut self) -> Manifest {
        self.environment.insert(RECORDED_BY.into(), "server".into());
        self
    }
}
