use serde::Serialize;
use units::{Nanos, Rate};

use crate::Summary;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Over all jobs after the warm-up, whatever became of them: one that did not complete counts with the time waited.
    pub summary: Summary,
    pub complete: u64,
    /// Given up by the user.
    pub aborted: u64,
    /// Still there at the end.
    pub incomplete: u64,
    /// No handshake however often the client tried.
    pub refused: u64,
    /// SYNs the SYN queue had no room for, and handshakes whose end the accept queue had none for.
    pub syn_drops: u64,
    pub accept_drops: u64,
    /// Packets the bottleneck's queue had no room for, or dropped from its head.
    pub queue_drops: u64,
    /// Segments and other packets lost on the way, both directions.
    pub path_losses: u64,
    /// Packets sent on the path: every segment, handshake and acknowledgement, both directions.
    pub packets: u64,
    /// The bytes that the link carried, as it counts them, and how much of it was payload sent before.
    pub link_bytes: u64,
    pub resent_bytes: u64,
    /// The bytes that paced shaping charged to it, which equal those that have left once connections have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged_bytes: Option<u64>,
    /// The share of the whole run's time in which the link was busy.
    pub utilisation: f64,
    /// The end of the run.
    pub simulated_s: f64,
    /// The load of the jobs until the last of them arrived.
    pub rho_offered: f64,
    /// The most connections at one time.
    pub connections_max: u64,
    /// Every [`Config::sample_every`].
    pub samples: Vec<Sample>,
}

/// The state of the server at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    pub at_s: f64,
    /// Connections whose handshake is not finished.
    pub syn_queue: u32,
    /// Connections that wait for a worker.
    pub accept_queue: u32,
    /// Connections a worker has.
    pub active: u32,
    /// SYNs dropped so far.
    pub syn_drops: u64,
    pub queue_packets: u32,
    /// Packets dropped so far.
    pub queue_drops: u64,
    /// Jobs that completed since the last sample, and their mean response time and time to the first byte.
    pub completed: u32,
    pub response_time_ms_mean: f64,
    pub first_byte_ms_mean: f64,
    /// The pace of paced shaping, bits per second; none where sockets take what they will.
    pub pace_bps: Option<u64>,
    /// The bytes that the link has carried so far, and those that wait for it.
    pub link_bytes: u64,
    pub queue_bytes: u64,
}

/// The time of a job alone on the idle link: head and body in full segments at the link's rate, as a report of a measured run
/// has it (`theory::wire_service`). No round trip, no handshake and no slow start is in it: a slowdown tells those too.
pub fn alone(link: Rate, size_bytes: u64) -> Nanos {
    link.time_for(workload::wire_bytes(size_bytes))
}
