use sched::Path;
use units::Nanos;

/// A job on its way through a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flight {
    /// The position in arrival order, from 0.
    pub number: u64,
    pub arrival: Nanos,
    /// The link time of the job alone, at least 1 ns.
    pub service: Nanos,
    pub size_bytes: u64,
    pub class: u16,
    /// The user who waits for it before sending the next request.
    pub user: Option<u32>,
}

/// The link with its queue, under one discipline.
pub trait Station {
    /// The number of jobs in the system.
    fn len(&self) -> usize;

    /// Admits a job. Its arrival is not before any `until` passed to [`Station::depart_by`].
    fn arrive(&mut self, flight: Flight, path: Path);

    /// Serves until the next departure at or before `until`, or else until then. Returns the departed job and its
    /// instant.
    fn depart_by(&mut self, until: Nanos) -> Option<(Flight, Nanos)>;

    /// Puts a job to sleep, at the instant passed to or returned by the last [`Station::depart_by`]. Does nothing if
    /// the job is not in the system.
    fn pause(&mut self, at: Nanos, number: u64);

    /// Resumes a job where it was paused.
    fn resume(&mut self, at: Nanos, number: u64);

    /// Returns the jobs in the system, in any order.
    fn present(&self) -> Vec<Flight>;
}
