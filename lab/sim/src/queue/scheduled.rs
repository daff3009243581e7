//! The link behind a [`Scheduler`], the same as in the server.
//!
//! The scheduler's unit of size is here a nanosecond of link time, not a byte. The amount sent by the time of an
//! arrival is then a difference of two instants, exact and without a division. Every policy orders nanoseconds of one
//! link as it orders bytes. Cut points and windows must be in the same unit ([`super::discipline`] converts them).

use sched::{Arrival, JobId, Pace, Path, Policy, Scheduler, Size, Why};
use units::Nanos;
use units::wire::Framing;

use super::discipline::Classes;
use super::station::{Flight, Station};

/// Grants need not end with a segment: the bytes sent are divided by arrivals, or into chunks.
const NO_SEGMENTS: u64 = 1 << 62;

fn framing() -> Framing {
    Framing::ETHERNET.with_segment(NO_SEGMENTS)
}

/// The scheduler, and the simulator's state for its jobs.
struct Jobs {
    scheduler: Scheduler,
    /// The flights by slot. A vacant slot has its last flight.
    flights: Vec<Option<(JobId, Flight)>>,
}

impl Jobs {
    fn new(policy: Box<dyn Policy>) -> Jobs {
        Jobs::of(Scheduler::new(policy, Pace::WHOLE))
    }

    fn of(scheduler: Scheduler) -> Jobs {
        Jobs { scheduler, flights: Vec::new() }
    }

    fn arrive(&mut self, flight: Flight, path: Path) {
        let size = Size::Known(flight.service.0);
        let arrival = Arrival { framing: framing(), class: flight.class, path, ..Arrival::of(size) };
        let id = self.scheduler.arrive(flight.arrival, arrival);
        if self.flights.len() <= id.slot() {
            self.flights.resize(id.slot() + 1, None);
        }
        self.flights[id.slot()] = Some((id, flight));
    }

    fn flight(&self, id: JobId) -> Flight {
        self.flights[id.slot()].expect("a granted job is in flight").1
    }

    /// The job with this number, if it is in the system.
    fn find(&self, number: u64) -> Option<JobId> {
        let found = self
            .flights
            .iter()
            .flatten()
            .find(|(id, flight)| flight.number == number && self.scheduler.jobs().get(*id).is_some());
        found.map(|(id, _)| *id)
    }

    /// Takes a job out of the order and keeps its service so far. The simulator has no disk, so the reason can be used
    /// for this.
    fn pause(&mut self, number: u64) {
        if let Some(id) = self.find(number) {
            self.scheduler.on_wait(id, Why::Disk);
        }
    }

    fn resume(&mut self, at: Nanos, number: u64) {
        if let Some(id) = self.find(number) {
            self.scheduler.on_wait_over(at, id, Why::Disk);
        }
    }

    /// Returns the jobs in the system.
    fn present(&self) -> Vec<Flight> {
        let is_present = |(id, _): &&(JobId, Flight)| self.scheduler.jobs().get(*id).is_some();
        self.flights.iter().flatten().filter(is_present).map(|(_, flight)| *flight).collect()
    }
}

/// A preemptive link: a job is served until it departs or another arrives, then the scheduler is asked again.
///
/// Exact for every policy whose order changes only at arrivals and departures, which are all except those that take
/// turns.
pub struct Fluid {
    jobs: Jobs,
    serving: Option<Serving>,
    /// The instant up to which the link's work has been accounted for.
    wall: Nanos,
}

struct Serving {
    job: JobId,
    from: Nanos,
    /// The instant at which the grant is used up.
    until: Nanos,
}

impl Fluid {
    pub fn new(policy: Box<dyn Policy>) -> Fluid {
        Fluid { jobs: Jobs::new(policy), serving: None, wall: Nanos::ZERO }
    }

    /// Ends the current grant, so that the scheduler is asked again.
    fn interrupt(&mut self, now: Nanos) {
        if let Some(serving) = self.serving.take() {
            // Less than the grant, which would otherwise have ended: never the last byte.
            let _ = self.jobs.scheduler.on_sent(now, serving.job, (now - serving.from).0);
        }
        self.wall = now;
    }
}

impl Station for Fluid {
    fn len(&self) -> usize {
        self.jobs.scheduler.jobs().len()
    }

    fn arrive(&mut self, flight: Flight, path: Path) {
        self.interrupt(flight.arrival);
        self.jobs.arrive(flight, path);
    }

    fn pause(&mut self, at: Nanos, number: u64) {
        self.interrupt(at);
        self.jobs.pause(number);
    }

    fn resume(&mut self, at: Nanos, number: u64) {
        self.interrupt(at);
        self.jobs.resume(at, number);
    }

    fn depart_by(&mut self, until: Nanos) -> Option<(Flight, Nanos)> {
        loop {
            let serving = match &self.serving {
                Some(serving) => serving,
                None => {
                    let grant = self.jobs.scheduler.poll_grant(self.wall)?;
                    let ends = self.wall + Nanos(grant.bytes_max);
                    self.serving.insert(Serving { job: grant.job, from: self.wall, until: ends })
                }
            };
            if serving.until > until {
                return None;
            }
            let (job, at, sent) = (serving.job, serving.until, serving.until - serving.from);
            self.serving = None;
            self.wall = at;
            if self.jobs.scheduler.on_sent(at, job, sent.0).is_departed() {
                return Some((self.jobs.flight(job), at));
            }
        }
    }

    fn present(&self) -> Vec<Flight> {
        self.jobs.present()
    }
}

/// A link on which bytes are handed down in chunks, as in the server. A chunk is not taken back for a new job.
pub struct Chunked {
    jobs: Jobs,
    /// The link time of one chunk.
    chunk: Nanos,
    sending: Option<Sending>,
    wall: Nanos,
}

/// A chunk being sent. It was reported to the scheduler when it was handed down.
struct Sending {
    until: Nanos,
    /// The job, if this is its last chunk.
    departs: Option<Flight>,
}

impl Chunked {
    pub fn new(policy: Box<dyn Policy>, chunk: Nanos) -> Chunked {
        Chunked { jobs: Jobs::new(policy), chunk, sending: None, wall: Nanos::ZERO }
    }

    /// Returns the discipline with the classes of a table, and their maximum rates and slots in the scheduler.
    pub fn of_classes(Classes { policy, table }: Classes, chunk: Nanos) -> Chunked {
        let scheduler = Scheduler::new(policy, Pace::WHOLE).with_classes(&table);
        Chunked { jobs: Jobs::of(scheduler), chunk, sending: None, wall: Nanos::ZERO }
    }
}

impl Station for Chunked {
    fn len(&self) -> usize {
        self.jobs.scheduler.jobs().len()
            + usize::from(self.sending.as_ref().is_some_and(|sending| sending.departs.is_some()))
    }

    fn arrive(&mut self, flight: Flight, path: Path) {
        self.wall = self.wall.max(flight.arrival);
        self.jobs.arrive(flight, path);
    }

    fn pause(&mut self, _at: Nanos, number: u64) {
        self.jobs.pause(number);
    }

    fn resume(&mut self, at: Nanos, number: u64) {
        self.wall = self.wall.max(at);
        self.jobs.resume(at, number);
    }

    fn depart_by(&mut self, until: Nanos) -> Option<(Flight, Nanos)> {
        loop {
            if let Some(sending) = &mut self.sending {
                if sending.until > until {
                    return None;
                }
                let (at, departs) = (sending.until, sending.departs.take());
                self.sending = None;
                if let Some(flight) = departs {
                    return Some((flight, at));
                }
            }
            // A job may be about to arrive at `until` itself, and must be considered.
            if self.wall >= until {
                return None;
            }
            let Some(grant) = self.jobs.scheduler.poll_grant(self.wall) else {
                // All ready jobs are in classes at their maximum rate, and continue by the clock.
                let on =
                    self.jobs.scheduler.poll_timeout().filter(|at| (self.wall..until).contains(at) && *at > self.wall);
                self.wall = on?;
                continue;
            };
            let sent = self.chunk.0.min(grant.bytes_max);
            let progress = self.jobs.scheduler.on_sent(self.wall, grant.job, sent);
            self.wall += Nanos(sent);
            let departs = progress.is_departed().then(|| self.jobs.flight(grant.job));
            self.sending = Some(Sending { until: self.wall, departs });
        }
    }

    fn present(&self) -> Vec<Flight> {
        let departing = self.sending.as_ref().and_then(|sending| sending.departs);
        self.jobs.present().into_iter().chain(departing).collect()
    }
}
