//! Runs the arrivals; the station determines what happens between them.

use record::{JobRecord, Outcome as Ended};
use units::Nanos;

use workload::Source;

use super::Error;
use super::customers::Customers;
use super::line::{Line, Wire};
use super::source::{Clients, Request};
use super::station::{Flight, Station};
use crate::hooks::PROGRESS_JOBS;
use crate::{Finished, Hooks, Tally};

/// The maximum number of jobs in the system, as many as the server can have connections ([`sched::JOBS_MAX`]).
pub const JOBS_MAX: usize = sched::JOBS_MAX;

/// The maximum span of a run, 36 years. A longer run or more work is useless, and would overflow the clock.
pub const SPAN_MAX: Nanos = Nanos(1 << 60);

/// The jobs that are counted, and the end of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// The number of jobs at the start that are not counted.
    pub warm_up: u64,
    /// The run ends when this many jobs after the warm-up have left. Jobs after them are served and not counted.
    pub counted: u64,
    /// The run ends at this instant. Jobs in the system are then counted as incomplete.
    pub until: Nanos,
}

pub(super) struct Engine<'a> {
    pub line: Line,
    pub wire: Wire,
    pub clients: Clients,
    /// The class of each job in order of arrival, if given.
    pub classes: Vec<u16>,
    pub extent: Extent,
    pub hooks: Hooks<'a>,
    pub tally: Tally,
    pub customers: Customers,
    /// The link time of a job in addition to its bytes.
    pub job_cost: Nanos,
    pub counts: Counts,
}

/// The counts other than those of jobs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub arrived: u64,
    pub departed: u64,
    pub incomplete: u64,
    pub in_system_max: usize,
    /// Jobs in the system × nanoseconds.
    pub area: u128,
    /// The service demand of all arrivals.
    pub offered: u128,
    /// The instant of the last event.
    pub at: Nanos,
}

impl Engine<'_> {
    pub fn run(&mut self, mut station: impl Station, requests: impl Iterator<Item = Request>) -> Result<(), Error> {
        for request in requests {
            if request.at >= self.extent.until {
                break;
            }
            self.serve(&mut station, request.at);
            if self.tally.jobs() >= self.extent.counted {
                return Ok(());
            }
            self.admit(&mut station, request)?;
        }
        self.serve(&mut station, self.extent.until);
        self.end(&station);
        Ok(())
    }

    /// Runs a load whose later requests depend on earlier responses.
    pub fn run_closed(&mut self, mut station: impl Station, source: &mut dyn Source) -> Result<(), Error> {
        loop {
            let due = source.due().filter(|due| *due < self.extent.until);
            if let Some((flight, at)) = station.depart_by(due.unwrap_or(self.extent.until)) {
                self.on_departure(&station, &flight, at);
                if let Some(user) = flight.user {
                    source.on_end(user, at);
                }
                if self.tally.jobs() >= self.extent.counted {
                    return Ok(());
                }
            } else if let Some(ask) = due.and_then(|_| source.take()) {
                let request = Request { at: ask.at, size_bytes: ask.size_bytes };
                self.admit_of(&mut station, request, ask.group.map(|group| group as u16), ask.user)?;
            } else {
                self.end(&station);
                return Ok(());
            }
        }
    }

    fn admit(&mut self, station: &mut impl Station, request: Request) -> Result<(), Error> {
        self.admit_of(station, request, None, None)
    }

    /// Admits a job of this user and class, if the load specifies them.
    fn admit_of(
        &mut self,
        station: &mut impl Station,
        request: Request,
        class: Option<u16>,
        user: Option<u32>,
    ) -> Result<(), Error> {
        let Request { at, size_bytes } = request;
        let service = self.serviceable(station, at, size_bytes)?;
        let (drawn, path) = self.clients.draw();
        let given = self.classes.get(self.counts.arrived as usize).copied();
        let class = class.or(given).unwrap_or(drawn);
        let number = self.counts.arrived;
        self.pass(at, station.len());
        self.counts.arrived += 1;
        self.counts.offered += u128::from(service.0);
        station.arrive(Flight { number, arrival: at, service, size_bytes, class, user }, path);
        self.counts.in_system_max = self.counts.in_system_max.max(station.len());
        Ok(())
    }

    /// Returns the link time of a job, if it may be admitted.
    fn serviceable(&self, station: &impl Station, at: Nanos, size_bytes: u64) -> Result<Nanos, Error> {
        if station.len() >= JOBS_MAX {
            return Err(Error::TooManyJobs { at });
        }
        let service = self.line.time_for(self.wire.bytes(size_bytes)) + self.job_cost;
        // No job can leave later than this.
        if u128::from(at.0) + self.counts.offered + u128::from(service.0) > u128::from(SPAN_MAX.0) {
            return Err(Error::TooLong { at, size_bytes });
        }
        Ok(service)
    }

    /// Serves all departures up to this instant.
    fn serve(&mut self, station: &mut impl Station, until: Nanos) {
        while let Some((flight, at)) = station.depart_by(until) {
            self.on_departure(station, &flight, at);
            if self.tally.jobs() >= self.extent.counted {
                return;
            }
        }
    }

    fn on_departure(&mut self, station: &impl Station, flight: &Flight, at: Nanos) {
        self.pass(at, station.len() + 1);
        self.counts.departed += 1;
        self.customers.on_departure(flight.class, at);
        self.leave(flight, at, Ended::Complete);
        if self.counts.departed.is_multiple_of(PROGRESS_JOBS)
            && let Some(progress) = &mut self.hooks.progress
        {
            progress(self.counts.departed);
        }
    }

    /// Ends the run. At a finite horizon the jobs in the system have waited until then; otherwise there are none.
    fn end(&mut self, station: &impl Station) {
        let mut present = station.present();
        present.sort_by_key(|flight| flight.number);
        if !present.is_empty() {
            self.pass(self.extent.until, station.len());
        }
        for flight in present {
            self.counts.incomplete += 1;
            self.leave(&flight, self.extent.until, Ended::Incomplete);
        }
    }

    /// Records that this many jobs were in the system until now.
    fn pass(&mut self, now: Nanos, jobs: usize) {
        self.counts.area += u128::from((now - self.counts.at).0) * jobs as u128;
        self.counts.at = now;
    }

    fn leave(&mut self, flight: &Flight, at: Nanos, outcome: Ended) {
        let Some(job) = flight.number.checked_sub(self.extent.warm_up) else { return };
        if job >= self.extent.counted {
            return;
        }
        let Flight { arrival, size_bytes, class, .. } = *flight;
        let alone = self.line.time_for(self.wire.response_bytes(size_bytes)) + self.job_cost;
        self.customers.record(flight, at);
        self.tally.record(&Finished { size_bytes, arrival, departure: at, alone, class });
        if let Some(record) = &mut self.hooks.record {
            let body_bytes = if outcome == Ended::Complete { size_bytes } else { 0 };
            let complete = JobRecord::complete(job, size_bytes, arrival.0, at.0);
            record(JobRecord { body_bytes, outcome, group: class.into(), ..complete });
        }
    }
}
