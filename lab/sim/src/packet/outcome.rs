use serde::Serialize;
use units::{Nanos, Rate};

use crate::Summary;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The summary of all jobs after the warm-up. A job that did not complete counts with the time that it waited.
    pub summary: Summary,
    pub complete: u64,
    /// The number of jobs given up by the user.
    pub aborted: u64,
    /// The number of jobs in the system at the end.
    pub incomplete: u64,
    /// The number of jobs without a handshake after all of the client's attempts.
    pub refused: u64,
    /// The number of SYNs dropped by a full SYN queue, and of handshakes whose last packet a full accept queue dropped.
    pub syn_drops: u64,
    pub accept_drops: u64,
    /// The number of packets that the bottleneck's queue dropped, because it was full or at its head.
    pub queue_drops: u64,
    /// The number of segments and other packets lost on the path, in both directions.
    pub path_losses: u64,
    /// The number of packets sent on the path: segments, handshakes and acknowledgements, in both directions.
    pub packets: u64,
    /// The bytes that the link carried, including headers, and the part of them that was retransmitted payload.
    pub link_bytes: u64,
    pub resent_bytes: u64,
    /// The bytes that paced shaping charged to the link. They equal the bytes that have left once connections have
    /// ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged_bytes: Option<u64>,
    /// The share of the run's time in which the link was busy.
    pub utilisation: f64,
    /// The end of the run.
    pub simulated_s: f64,
    /// The load offered until the last arrival.
    pub rho_offered: f64,
    /// The maximum number of concurrent connections.
    pub connections_max: u64,
    /// Samples at the interval [`Config::sample_every`].
    pub samples: Vec<Sample>,
}

/// The state of the server at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    pub at_s: f64,
    /// The number of unfinished handshakes.
    pub syn_queue: u32,
    /// The number of connections that wait for a worker.
    pub accept_queue: u32,
    /// The number of connections that a worker serves.
    pub active: u32,
    /// The pace of paced shaping in bits per second; `None` with other shaping.
    pub pace_bps: Option<u64>,
}

/// The time of a job alone on the idle link: head and body in full segments at the link's rate, as in the report of a
/// measured run (`theory::wire_service`). It contains no round trip, handshake or slow start, so slowdown includes
/// them.
pub fn alone(link: Rate, size_bytes: u64) -> Nanos {
    link.time_for(workload::wire_bytes(size_bytes))
}
