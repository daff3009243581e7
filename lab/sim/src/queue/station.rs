use sched::{Path, Precedence};
use units::Nanos;

/// A job on its way through a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flight {
    /// Position in arrival order, from 0.
    pub number: u64,
    pub arrival: Nanos,
    /// The time alone on the link, at least 1 ns.
    pub service: Nanos,
    pub size_bytes: u64,
    pub class: u16,
    pub client: u32,
    /// The client is a closed one.
    pub is_closed: bool,
    /// The user who waits for it before he asks again.
    pub user: Option<u32>,
    /// The connection that carries it beside others; `None`: it has one for itself, or one in turn.
    pub stream: Option<Stream>,
}

/// The place of a job on a connection that carries several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    pub connection: u32,
    pub precedence: Precedence,
}

/// The link with its queue, under one discipline.
pub trait Station {
    /// Jobs in the system.
    fn len(&self) -> usize;

    /// A job comes; its arrival is not before any `until` that [`Station::depart_by`] was asked for.
    fn arrive(&mut self, flight: Flight, path: Path);

    /// Serves until the next departure at or before `until`, or else until then. The departed job and when it left.
    fn depart_by(&mut self, until: Nanos) -> Option<(Flight, Nanos)>;

    /// Puts a job to sleep, at the instant that the last [`Station::depart_by`] was asked for or gave; a no-op for one that is not there.
    fn pause(&mut self, at: Nanos, number: u64);

    /// Lets it go on where it was.
    fn resume(&mut self, at: Nanos, number: u64);

    /// Returns the jobs still there but for closed clients', in any order.
    fn left_over(&self) -> Vec<Flight>;

    /// Returns the jobs of closed clients still there, and what of the link each has had.
    fn closed_left_over(&self) -> Vec<(Flight, Nanos)> {
        Vec::new()
    }
}
