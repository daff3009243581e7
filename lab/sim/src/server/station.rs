use sched::policy::PolicySpec;
use sched::{Arrival, JobId, Path, Scheduler, Size};
use units::Nanos;

/// A device that serves one connection at a time (the disk, the interface), and the queue in front of it, in the order
/// of a [`Scheduler`].
///
/// A visit, one block or one window's worth of segments, is a separate job whose size is what is then left of the
/// request. Connections alternate between the stations, and a returning one queues behind those that waited (001,
/// section 3.1: a FIFO of visits). Service of a block is not interrupted.
pub(super) struct Station {
    scheduler: Scheduler,
    /// The visit of each waiting client.
    visits: Vec<Option<Visit>>,
    /// The client in each slot of the scheduler.
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

    /// Returns true if the client waits or is being served here.
    pub fn holds(&self, client: u32) -> bool {
        self.visits[client as usize].is_some() || self.serving == Some(client)
    }

    /// Queues the client, with this many bytes left.
    pub fn enter(&mut self, now: Nanos, client: u32, left_bytes: u64, path: Path) {
        debug_assert!(!self.holds(client));
        let job = self.scheduler.arrive(now, Arrival { path, ..Arrival::of(Size::Known(left_bytes.max(1))) });
        self.clients[job.slot()] = client;
        self.visits[client as usize] = Some(Visit { job, since: now });
    }

    /// Starts the next job unless one is being served. Returns its client and its wait.
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

    /// Ends the current service, which took this long.
    pub fn end(&mut self, service: Nanos) {
        self.serving = None;
        self.busy += service;
    }

    /// Removes a waiting client; one that is being served is served to the end.
    pub fn leave(&mut self, client: u32) {
        if let Some(visit) = self.visits[client as usize].take() {
            self.scheduler.on_end(visit.job);
        }
    }
}
