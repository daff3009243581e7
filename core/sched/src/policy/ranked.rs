use crate::run_queue::{Key, RunQueue};
use crate::{Job, Path, Policy};

/// A number per job, lower drains first. It is a function of the job and its path alone, worked out again only when
/// one of them has changed.
pub trait Rank: Send {
    /// The name on command lines and in records.
    const NAME: &'static str;
    /// See [`Policy::can_starve`].
    const CAN_STARVE: bool = true;
    /// See [`Policy::needs_path`].
    const NEEDS_PATH: bool = false;

    fn rank(&self, job: &Job, path: &Path) -> u64;
}

/// The policy that serves the least rank, equal ranks in order of arrival.
pub struct Ranked<R> {
    rank: R,
    queue: RunQueue,
}

impl<R: Rank> Ranked<R> {
    pub fn new(rank: R) -> Ranked<R> {
        Ranked { rank, queue: RunQueue::default() }
    }
}

impl<R: Rank> Policy for Ranked<R> {
    fn name(&self) -> &str {
        R::NAME
    }

    fn first(&self) -> Option<u32> {
        self.queue.first()
    }

    fn enqueue(&mut self, slot: u32, job: &Job, path: &Path) {
        self.queue.set(slot, Key { rank: self.rank.rank(job, path), number: job.number });
    }

    fn within(&self, _slot: u32, job: &Job, path: &Path) -> u64 {
        self.rank.rank(job, path)
    }

    fn dequeue(&mut self, slot: u32, _job: &Job) {
        self.queue.remove(slot);
    }

    fn follows_jobs(&self) -> bool {
        false
    }

    fn can_starve(&self) -> bool {
        R::CAN_STARVE
    }

    fn needs_path(&self) -> bool {
        R::NEEDS_PATH
    }
}
