use sched::policy::PolicySpec;
use sched::{Arrival, JobId, Path, Scheduler, Size};
use units::Nanos;

/// A thing that serves one connection at a time (the disk, the interface) and the queue before it, in the order of a
/// [`Scheduler`].
///
/// A visit, one block or one window's worth of segments, is a job of its own with what is then left of the request as its
/// size: connections go back and forth, and whoever comes back is behind those who waited (001, section 3.1: a FIFO holds
/// visits). Service is not interrupted: a block is a block.
pub(super) struct Station {
    scheduler: Scheduler,
    /// The visit of each client that waits.
    visits: Vec<Option<Visit>>,
    /// The client in each place of the scheduler.
    clients: Vec<u32>,
    serving: Option<u32>,
    pub busy: Nanos,
}

#[derive(Clone, Copy)]
struct Visit {
    job: JobId,
    since: Nanos,
}

impl Station {
    pub fn new(policy: &PolicySpec, clients: usize) -> Station {
        Station {
            scheduler: Scheduler::new(policy.build(), sched::Pace::UNLIMITED),
            visits: vec![None; clients],
            clients: vec![0; clients],
            serving: None,
            busy: Nanos::ZERO,
        }
    }

    /// Returns true if the client waits or is served here.
    pub fn holds(&self, client: u32) -> bool {
        self.visits[client as usize].is_some() || self.serving == Some(client)
    }

    /// The client waits, with this much left to do.
    pub fn enter(&mut self, now: Nanos, client: u32, left_bytes: u64, path: Path) {
        debug_assert!(!self.holds(client));
        let job = self.scheduler.arrive(now, Arrival { path, ..Arrival::of(Size::Known(left_bytes.max(1))) });
        self.clients[job.slot()] = client;
        self.visits[client as usize] = Some(Visit { job, since: now });
    }

    /// Returns the job that is served next and its wait, unless another is being served.
    pub fn begin(&mut self, now: Nanos) -> Option<(u32, Nanos)> {
        if self.serving.is_some() {
            return None;
        }
        let job = self.scheduler.poll_grant(now)?.job;
        let client = self.clients[job.slot()];
        let visit = self.visits[client as usize].take().expect("a client in the order waits");
        self.scheduler.on_end(job);
        self.serving = Some(client);
        Some((client, now - visit.since))
    }

    /// Ends the service of the one who was served, after this long.
    pub fn end(&mut self, service: Nanos) {
        self.serving = None;
        self.busy += service;
    }

    /// The client waits no longer; one being served is served to the end.
    pub fn leave(&mut self, client: u32) {
        if let Some(visit) = self.visits[client as usize].take() {
            self.scheduler.on_end(visit.job);
        }
    }
}
