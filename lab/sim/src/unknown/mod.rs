//! One link whose jobs do not tell their sizes: what it costs, and what estimates and learning win back.
//!
//! The server's own [`Scheduler`] and [`Routes`] order the jobs, in chunks as the server sends them. A byte takes a nanosecond, so
//! ranks are in bytes as they are in the server; load decides, not the rate of the link. Every order is given the same
//! jobs at the same instants, and what it may know of them is all that differs.

mod index;
mod load;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use sched::routes::{Calibration, Curve, Route, RouteKey, Routes};
use sched::{Arrival, JobId, Pace, Scheduler, Size, policy};
use units::Nanos;
use units::wire::{Framing, SEGMENT_BYTES};

pub use load::{Mix, Noise, Popularity, at_load, jobs_of_trace};

/// A grant need not end with a segment.
const NO_SEGMENTS: u64 = 1 << 62;

/// One response.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub at: Nanos,
    pub bytes: u64,
    /// Of its request.
    pub path: Arc<str>,
    pub status: u16,
    /// What somebody takes its size for.
    pub estimate_bytes: u64,
}

/// What the order knows, and what it makes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    Fcfs,
    /// Least attained service, among sizes that are not known.
    Las,
    /// Shortest remaining processing time, every size known.
    Srpt,
    /// Sizes are learned per route.
    Learned(Index),
    /// Each job comes with an estimate.
    Estimated(Estimate),
}

/// From the sizes of a route to a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    Gittins,
    /// Monotonic shortest expected remaining processing time (Scully, Harchol-Balter & Scheller-Wolf, "Simple near-optimal
    /// scheduling for the M/G/1", 2020).
    MSerpt,
    /// Preemptive shortest job first, by the mean.
    Psjf,
    /// Shortest remaining processing time, by the mean: the bad example.
    Srpt,
}

/// From an estimate to a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    Psjf,
    /// The bad example.
    Srpt,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// By job.
    pub response_times: Vec<Nanos>,
    /// Of sizes that were learned.
    pub calibration: Calibration,
    /// Routes at the end.
    pub routes: usize,
}

impl Outcome {
    /// The mean response time of these jobs, in nanoseconds.
    pub fn mean_ns(&self, jobs: std::ops::Range<usize>) -> f64 {
        let times = &self.response_times[jobs];
        times.iter().map(|time| time.0 as f64).sum::<f64>() / times.len() as f64
    }
}

/// Serves the jobs, which are in order of arrival, and gives the response time of each. A response that ends within the first
/// `buffer_bytes` has a known size; of a larger one it is known that it is larger.
pub fn run(jobs: &[Job], order: Order, buffer_bytes: u64) -> Outcome {
    let mut link = Link::new(jobs, order, buffer_bytes);
    let (mut now, mut next) = (Nanos::ZERO, 0);
    loop {
        while let Some(job) = jobs.get(next).filter(|job| job.at <= now) {
            link.arrive(now, next, job);
            next += 1;
        }
        now = match (link.serve(now), jobs.get(next)) {
            (Some(until), _) => until,
            (None, Some(job)) => job.at,
            (None, None) => break,
        };
    }
    Outcome { response_times: link.response_times, calibration: link.routes.calibration(), routes: link.routes.len() }
}

/// What stands for the type: the ending of the last name.
fn ending(path: &str) -> &str {
    let path = path.split('?').next().unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, ending)| ending)
}

struct Link<'a> {
    jobs: &'a [Job],
    order: Order,
    buffer_bytes: u64,
    scheduler: Scheduler,
    routes: Routes,
    /// By slot: which job, and its route.
    present: Vec<(usize, RouteKey)>,
    response_times: Vec<Nanos>,
}

impl Link<'_> {
    fn new(jobs: &[Job], order: Order, buffer_bytes: u64) -> Link<'_> {
        let name = if order == Order::Fcfs { "fcfs" } else { "srpt" };
        let policy = policy::parse(name).expect("a name of a policy");
        let routes =
            if let Order::Learned(index) = order { Routes::ranked_by(index::of(index)) } else { Routes::new() };
        Link {
            jobs,
            order,
            buffer_bytes,
            scheduler: Scheduler::new(policy, Pace::WHOLE),
            routes,
            present: Vec::new(),
            response_times: vec![Nanos::ZERO; jobs.len()],
        }
    }

    fn arrive(&mut self, now: Nanos, number: usize, job: &Job) {
        let key = self.routes.enter(&Route {
            site: b"site",
            method: b"GET",
            path: job.path.as_bytes(),
            status: job.status,
            content_type: ending(&job.path).as_bytes(),
            ..Route::default()
        });
        let is_known = self.order == Order::Srpt || job.bytes <= self.buffer_bytes;
        let size = if is_known { Size::Known(job.bytes) } else { Size::AtLeast(self.buffer_bytes) };
        let framing = Framing::ETHERNET.with_segment(NO_SEGMENTS);
        let id = self.scheduler.arrive(now, Arrival { framing, ..Arrival::of(size) });
        let curve = self.curve(key, job);
        self.scheduler.on_curve(id, curve);
        if self.present.len() <= id.slot() {
            self.present.resize(id.slot() + 1, (number, key));
        }
        self.present[id.slot()] = (number, key);
    }

    fn curve(&mut self, key: RouteKey, job: &Job) -> Option<Arc<Curve>> {
        match self.order {
            Order::Learned(_) => self.routes.curve(key),
            Order::Estimated(estimate) => Some(Arc::new(index::of_estimate(estimate, job.estimate_bytes))),
            Order::Fcfs | Order::Las | Order::Srpt => None,
        }
    }

    /// Sends a chunk of the first job, if one is there, and says until when.
    fn serve(&mut self, now: Nanos) -> Option<Nanos> {
        let grant = self.scheduler.poll_grant(now)?;
        let (number, key) = self.present[grant.job.slot()];
        let job = &self.jobs[number];
        let attained = self.scheduler.jobs().get(grant.job).expect("granted").attained;
        let bytes = SEGMENT_BYTES.min(job.bytes - attained).min(grant.bytes_max);
        let _ = self.scheduler.on_sent(now, grant.job, bytes);
        let until = now + Nanos(bytes);
        if attained + bytes == job.bytes {
            self.end(until, grant.job, number, key);
        }
        Some(until)
    }

    /// A no-op of the scheduler where it knew the end.
    fn end(&mut self, at: Nanos, id: JobId, number: usize, key: RouteKey) {
        self.scheduler.on_end(id);
        self.routes.note(key, self.jobs[number].bytes);
        self.response_times[number] = at - self.jobs[number].at;
    }
}
