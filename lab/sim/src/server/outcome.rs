use serde::Serialize;
use stats::SpanMoments;
use units::{Nanos, Rate};

use super::internet::BANDWIDTHS;
use crate::{Finished, ResponseTimes, Summary, Tally};

/// The result of a run. Times are in milliseconds, over the counted requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Response times as seen by clients, from the request (including a new connection) to the last byte. Slowdown is
    /// the response time divided by the time of the body alone on the server's network; 001's own slowdown is
    /// [`ServerOutcome::waiting_over_service`].
    pub summary: Summary,
    pub server: ServerOutcome,
    /// The number of requests served, including the warm-up and those after the last counted one.
    pub simulated_requests: u64,
}

/// The figures specific to this model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerOutcome {
    /// Service and waiting at processor, disk and network together.
    pub server_delay_ms: ResponseTimes,
    /// The slowdown of 001: waiting in all queues divided by service at all stations, mean over requests.
    pub waiting_over_service: f64,
    /// The eight size classes of 001's figure 1.
    pub by_size_class: Vec<ClassOutcome>,
    /// The eight bandwidth classes of its table 1.
    pub by_bandwidth: Vec<ClassOutcome>,
    /// The mean response time with equal weight for every user: the means of the bandwidth classes, weighted by their
    /// numbers of users. In a closed system a user who is served sooner sends more requests, so the plain mean favours
    /// the users that a policy prefers.
    pub response_time_ms_per_user: f64,
    /// The busy time divided by the time of the whole run.
    pub utilisation: Utilisation,
    /// The duration of the whole run.
    pub simulated_s: f64,
    pub requests_per_s: f64,
    pub connections: u64,
    pub timeouts: u64,
    /// The retransmitted segments divided by the segments sent.
    pub retransmitted: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Utilisation {
    pub cpu: f64,
    pub disk: f64,
    pub network: f64,
}

/// Requests of similar size, or of clients of similar bandwidth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassOutcome {
    /// The minimum size of the class in bytes, or the bandwidth in bits per second.
    pub from: u64,
    pub requests: u64,
    pub request_share: f64,
    pub byte_share: f64,
    pub response_time_ms: f64,
    pub server_delay_ms: f64,
    pub waiting_over_service: f64,
}

/// The minimum sizes of the classes, in powers of two; the last contains everything from 128 KB on.
pub const SIZE_CLASSES: [u64; 8] = [0, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10];

/// A request that was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    pub size_bytes: u64,
    pub bandwidth_class: u8,
    pub submitted: Nanos,
    pub completed: Nanos,
    /// The waiting time in the three queues, and the service time at their stations.
    pub waited: Nanos,
    pub served: Nanos,
}

/// Sums over the counted requests.
pub(super) struct Collector {
    network: Rate,
    clients: Tally,
    server: Tally,
    by_size: Vec<Class>,
    by_bandwidth: Vec<Class>,
}

#[derive(Clone, Default)]
struct Class {
    bytes: u128,
    times: SpanMoments,
    delays: SpanMoments,
    waiting_over_service: f64,
}

impl Collector {
    pub fn new(network: Rate) -> Collector {
        let classes = || vec![Class::default(); 8];
        let (clients, server) = (Tally::new(), Tally::new());
        Collector { network, clients, server, by_size: classes(), by_bandwidth: classes() }
    }

    pub fn requests(&self) -> u64 {
        self.clients.jobs()
    }

    pub fn record(&mut self, request: &Answered) {
        let (time, delay) = (request.completed - request.submitted, request.waited + request.served);
        let class = u16::from(request.bandwidth_class) + 1;
        self.clients.record(&Finished {
            size_bytes: request.size_bytes,
            arrival: request.submitted,
            departure: request.completed,
            alone: self.network.time_for(request.size_bytes),
            class,
        });
        self.server.record(&Finished {
            size_bytes: request.size_bytes,
            arrival: Nanos::ZERO,
            departure: delay,
            alone: request.served,
            class,
        });
        let size_class = SIZE_CLASSES.partition_point(|&from| from <= request.size_bytes) - 1;
        self.by_size[size_class].record(request, time, delay);
        self.by_bandwidth[usize::from(request.bandwidth_class)].record(request, time, delay);
    }

    pub fn summary(&self) -> Summary {
        self.clients.summary()
    }

    /// Returns the outcome, including the model's own counts.
    pub fn outcome(&self, counted: Counted) -> Outcome {
        let server = self.server.summary();
        let bytes: u128 = self.by_size.iter().map(|class| class.bytes).sum();
        let classes = |classes: &[Class], from: &dyn Fn(usize) -> u64| -> Vec<ClassOutcome> {
            let outcome = |(index, class): (usize, &Class)| class.outcome(from(index), self.requests(), bytes);
            classes.iter().enumerate().map(outcome).collect()
        };
        let by_bandwidth = classes(&self.by_bandwidth, &|index| BANDWIDTHS[index].bits_per_s);
        let seconds = counted.end.as_secs_f64().max(1e-9);
        let share = |busy: Nanos| busy.as_secs_f64() / seconds;
        Outcome {
            summary: self.summary(),
            simulated_requests: counted.requests,
            server: ServerOutcome {
                server_delay_ms: server.response_time_ms,
                waiting_over_service: server.slowdown_mean - 1.0,
                by_size_class: classes(&self.by_size, &|index| SIZE_CLASSES[index]),
                response_time_ms_per_user: per_user(&by_bandwidth),
                by_bandwidth,
                utilisation: Utilisation {
                    cpu: share(counted.cpu_busy),
                    disk: share(counted.disk_busy),
                    network: share(counted.network_busy),
                },
                simulated_s: seconds,
                requests_per_s: counted.requests as f64 / seconds,
                connections: counted.connections,
                timeouts: counted.timeouts,
                retransmitted: counted.segments_again as f64 / counted.segments.max(1) as f64,
            },
        }
    }
}

/// The counts of the model over the whole run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    pub end: Nanos,
    pub requests: u64,
    pub connections: u64,
    pub timeouts: u64,
    pub segments: u64,
    pub segments_again: u64,
    pub cpu_busy: Nanos,
    pub disk_busy: Nanos,
    pub network_busy: Nanos,
}

impl Class {
    fn record(&mut self, request: &Answered, time: Nanos, delay: Nanos) {
        self.bytes += u128::from(request.size_bytes);
        self.times.record(time);
        self.delays.record(delay);
        self.waiting_over_service += request.waited.0 as f64 / request.served.0.max(1) as f64;
    }

    fn outcome(&self, from: u64, requests: u64, bytes: u128) -> ClassOutcome {
        ClassOutcome {
            from,
            requests: self.times.count(),
            request_share: self.times.count() as f64 / requests.max(1) as f64,
            byte_share: self.bytes as f64 / bytes.max(1) as f64,
            response_time_ms: self.times.mean_ns().unwrap_or(0.0) / 1e6,
            server_delay_ms: self.delays.mean_ns().unwrap_or(0.0) / 1e6,
            waiting_over_service: self.waiting_over_service / self.times.count().max(1) as f64,
        }
    }
}

/// Returns the mean weighted by table 1, without empty classes.
fn per_user(by_bandwidth: &[ClassOutcome]) -> f64 {
    let present = || by_bandwidth.iter().zip(&BANDWIDTHS).filter(|(class, _)| class.requests > 0);
    let percent: f64 = present().map(|(_, table)| f64::from(table.percent)).sum();
    present().map(|(class, table)| class.response_time_ms * f64::from(table.percent)).sum::<f64>() / percent.max(1.0)
}
