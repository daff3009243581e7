//! The policies. One file each: its formula, its source, what it is good at and where it is bad.
//!
//! Most are a [`Rank`], a number per job, and [`Ranked`] makes a [`Policy`] of it. Those that look at more than one job
//! at a time (the fastest connection among the short ones, what processor sharing would have done, a share of the
//! bytes) are a [`Policy`] themselves.

mod bands;
mod cuts;
mod fair;
mod fcf;
mod fcfs;
mod fsp;
mod lanes;
mod las;
mod learner;
mod minimum;
mod parse;
mod psjf;
mod quick_fix;
mod ranked;
mod srpt;
mod srrt;
mod strict;
mod weighted;

pub use bands::{BANDS_MAX, Bands};
pub use cuts::{best_cuts, rule_of_thumb};
pub use fair::Fair;
pub use fcf::Fcf;
pub use fcfs::Fcfs;
pub use fsp::Fsp;
pub use lanes::CLASSES_MAX;
pub use las::Las;
pub use learner::Rule;
pub use minimum::Minimum;
pub use parse::{CLASS_NAMES, FORMS, NAMES, PolicyError, parse};
pub use psjf::Psjf;
pub use quick_fix::QuickFix;
pub use ranked::{Rank, Ranked};
pub use srpt::Srpt;
pub use srrt::Srrt;
pub use strict::Strict;
pub use weighted::Weighted;

use crate::{Job, Path};

/// An order of the ready jobs, and what it has to know for it.
///
/// The [`crate::Drain`] owns the jobs and tells the policy what happens to them; the policy keeps the ready ones in
/// order. A job is named by its slot, a small integer no other job in the system has. Nothing here reads a clock:
/// waiting alone never changes the order.
pub trait Policy: Send {
    /// The spec that [`parse`] makes this policy from, its defaults written out.
    fn name(&self) -> &str;

    /// The slot of the job that is served next.
    fn first(&self) -> Option<u32>;

    /// The job is ready: puts it at its place, whether or not it was in the order. Called again whenever its attained
    /// service or its path has changed.
    fn enqueue(&mut self, slot: u32, job: &Job, path: &Path);

    /// The job is not ready, or gone; a no-op if it is not in the order.
    fn dequeue(&mut self, slot: u32, job: &Job);

    /// Whether it wants to be told of arrivals, bytes sent and departures, beside who is ready: the three calls below are
    /// made only then, since most policies need none of them.
    fn follows_jobs(&self) -> bool {
        true
    }

    /// The job came into the system; it is enqueued next.
    fn on_arrival(&mut self, _slot: u32, _job: &Job, _path: &Path) {}

    /// These bytes of the job were sent, and are in `job.attained` already; it is enqueued or departs next.
    fn on_sent(&mut self, _slot: u32, _job: &Job, _bytes: u64) {}

    /// The job leaves the system: sent, ended or aborted. It was dequeued before.
    fn on_departure(&mut self, _slot: u32, _job: &Job) {}

    /// Whether a job can be passed over for as long as others keep arriving; only then has the guard work to do.
    fn can_starve(&self) -> bool {
        true
    }

    /// How many priority bands a queueing discipline needs to keep this order by itself; 1 if no number would do.
    fn bands(&self) -> usize {
        1
    }

    /// The job's band, below [`Policy::bands`]; 0 is served first.
    fn band(&self, _job: &Job, _path: &Path) -> u8 {
        0
    }

    /// How many classes of jobs it tells apart; a class number past the last counts as the last.
    fn classes(&self) -> usize {
        1
    }

    /// Whether the order depends on the path of a connection; only then need it be found out.
    fn needs_path(&self) -> bool {
        false
    }
}

/// The rank of a job whose size is not known, under a policy that orders by size: what it has attained so far.
///
/// The size of a response that has already sent x bytes is more than x, and for the heavy-tailed sizes of the web
/// what is left grows with x (a decreasing hazard rate), so ordering such jobs by attained service is the best that
/// can be done blind (Nuyens & Wierman, "The foreground-background queue: a survey", 2008).
fn blind_rank(job: &Job) -> u64 {
    job.attained
}
