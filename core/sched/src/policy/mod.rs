//! The policies, each in a file that gives its formula, its source, its strengths and its weaknesses.
//!
//! Most are a [`Rank`], a number per job, which [`Ranked`] turns into a [`Policy`]. Policies that consider more than
//! one job at a time (the fastest connection among the short ones, the result of processor sharing, a share of the
//! bytes) implement [`Policy`] themselves.

mod bands;
mod client_share;
mod cuts;
mod expression;
mod fair;
mod fcfs;
mod fsp;
mod las;
mod learner;
pub(crate) mod papers;
mod parse;
mod psjf;
mod ranked;
mod spec;
mod srpt;
pub(crate) mod virtual_time;

pub use bands::{BANDS_MAX, Bands};
pub use client_share::{
    ByClient, CLIENT_SHARE_FORMS, CLIENT_WEIGHT_MAX, ClientShare, ClientShareError, ClientShareSpec, ClientTraits,
    Network,
};
pub use cuts::{best_cuts, rule_of_thumb};
pub use expression::{Expression, Fact, LIBRARY, RankError, RouteIndex};
pub use fair::Fair;
pub use fcfs::Fcfs;
pub use fsp::Fsp;
pub use las::Las;
pub use learner::Rule;
pub use papers::{fcf::Fcf, quick_fix::QuickFix, srrt::Srrt};
pub use parse::{FORMS, NAMES, PolicyError, parse};
pub use psjf::Psjf;
pub use ranked::{Rank, Ranked};
pub use spec::{BAND_POLICIES, BandSpec, Order, PolicySpec};
pub use srpt::Srpt;

use crate::classes::ClassSpec;
use crate::{Job, Path};
use units::{Nanos, Rate};

/// An order of the ready jobs, and the state that it needs.
///
/// The [`crate::Scheduler`] owns the jobs and reports to the policy what happens to them; the policy keeps the ready
/// ones in order. A job is named by its slot, a small integer that no other job in the system has. Policies read no
/// clock, so waiting by itself never changes the order.
pub trait Policy: Send {
    /// The policy's spec with its defaults written out, as [`PolicySpec`] displays it.
    fn name(&self) -> &str;

    /// Returns the slot of the job that is served next.
    fn first(&self) -> Option<u32>;

    /// Records that a connection for several jobs was opened. Its jobs have this number as their turn.
    fn on_open(&mut self, _turn: u32) {}

    /// Returns the job's key among the jobs of its connection, smallest first: the policy's own order, as closely as a
    /// single number can express it.
    fn within(&self, _slot: u32, job: &Job) -> u64 {
        job.known_left().unwrap_or_else(|| unknown_rank(job))
    }

    /// Returns the job's rank if ranks are sizes, known or learned. Sums of such ranks are sizes too: a connection is
    /// ranked by the sum over all responses that its client wants as urgently as the first one.
    fn size_rank(&self, _slot: u32, _job: &Job) -> Option<u64> {
        None
    }

    /// Returns the lane of a job that has arrived: its class, in a policy that divides the link among classes. A
    /// connection offers one job to each lane, so that a client's wishes apply only within lanes.
    fn lane_of(&self, _slot: u32) -> u16 {
        0
    }

    /// Returns the key of a lane's next turn, smallest first; `None` if the lane's jobs must not be sent now.
    fn turn_of(&self, _lane: u16) -> Option<(u8, u64)> {
        Some((0, 0))
    }

    /// Puts a ready job in its place, even if it is already in the order. Called again whenever the job's attained
    /// service or path has changed.
    fn enqueue(&mut self, slot: u32, job: &Job);

    /// Removes a job that was enqueued before and is no longer ready, has left, or whose connection now offers another
    /// job. Does nothing if the job is not in the order.
    fn dequeue(&mut self, slot: u32, job: &Job);

    /// Returns whether the policy needs arrivals, sizes, bytes sent and departures, and not only the ready jobs. The
    /// next four methods are called only if it does, because most policies need none of them.
    fn follows_jobs(&self) -> bool {
        true
    }

    /// Records that the job has arrived; it is enqueued next.
    fn on_arrival(&mut self, _slot: u32, _job: &Job) {}

    /// Records that the job's size has become known (`before` is the job without it); it is enqueued next.
    fn on_size(&mut self, _slot: u32, _before: &Job, _job: &Job) {}

    /// Records that these bytes of the job were sent; `job.attained` already includes them. The job is enqueued or
    /// departs next.
    fn on_sent(&mut self, _slot: u32, _job: &Job, _bytes: u64) {}

    /// Records that the job leaves the system because it was sent, ended or aborted. It was dequeued before.
    fn on_departure(&mut self, _slot: u32, _job: &Job) {}

    /// Assigns this client number ([`Job::client`]) to another client and forgets the previous one.
    fn on_client(&mut self, _client: u32, _traits: ClientTraits) {}

    /// Records that no job was ready for this long.
    fn on_idle(&mut self, _idle: Nanos) {}

    /// Returns the bytes by which a client is ahead of its share of the link, if the policy counts them ([`ByClient`]).
    /// With classes, returns the bytes for the class in which it is furthest ahead.
    fn ahead_bytes(&self, _client: u32) -> Option<u64> {
        None
    }

    /// Records that a client was this many bytes ahead of its share under the previous order.
    fn on_ahead(&mut self, _client: u32, _bytes: u64) {}

    /// Sets the link's rate from now on, for guaranteed rates ([`crate::classes`]).
    fn on_rate(&mut self, _link: Rate) {}

    /// Stops serving the class because it is at its maximum rate, or resumes it.
    fn hold(&mut self, _class: u16, _is_held: bool) {}

    /// Replaces the classes, keeping their places, and appends the new ones.
    fn replace(&mut self, _specs: &[ClassSpec]) {}

    /// Returns whether a job can be passed over as long as others keep arriving. Only such policies need the guard.
    fn can_starve(&self) -> bool {
        true
    }

    /// Returns the number of priority bands with which a queueing discipline can keep this order by itself; 1 if no
    /// number suffices.
    fn bands(&self) -> usize {
        1
    }

    /// Returns the job's band, below [`Policy::bands`]; 0 is served first.
    fn band(&self, _slot: u32, _job: &Job) -> u8 {
        0
    }

    /// Returns whether the order depends on the paths of connections. Only then are paths looked up.
    fn needs_path(&self) -> bool {
        false
    }

    /// Sets the path to the job's client. Called before the job arrives and whenever the path has changed, before the
    /// job is enqueued, and only if [`Policy::needs_path`].
    fn on_path(&mut self, _slot: u32, _path: &Path) {}
}

/// Returns the rank of a job of unknown size, under a policy that orders by size, in bytes.
///
/// If the sizes of similar responses are known, the rank is the Gittins index ([`crate::routes`]); otherwise it is the
/// number of bytes the job has attained. The size of a response that has already sent x bytes is more than x, and for
/// the heavy-tailed sizes of the web the expected remainder grows with x (a decreasing hazard rate). Without sizes, it
/// is therefore best to order such jobs by attained service (Nuyens & Wierman, "The foreground-background queue: a
/// survey", 2008).
///
/// If a size is known to be at least n, the job is ranked as if n bytes had been sent, plus those of the n bytes that
/// are still left. Bytes sent before a pause of the source do not count.
fn unknown_rank(job: &Job) -> u64 {
    let seen = job.attained_anew().saturating_add(job.remaining());
    let beyond = job.blind.curve.as_ref().map_or(seen, |curve| curve.rank(seen));
    beyond.saturating_add(job.remaining())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    /// The properties of each policy: whether it follows jobs, can starve one, needs paths; its bands.
    #[test]
    fn what_policies_tell_of_themselves() {
        for (spec, expected) in [
            ("fair", (true, false, false, 1)),
            ("fcfs", (false, false, false, 1)),
            ("srpt", (false, true, false, 1)),
            ("psjf", (false, true, false, 1)),
            ("las", (false, true, false, 1)),
            ("srpt-bands", (true, true, false, 5)),
            ("srpt-bands:3,9", (true, true, false, 3)),
            ("srpt-bands:1", (true, false, false, 1)),
            ("quick-fix", (true, true, false, 2)),
            ("fcf", (true, true, true, 1)),
            ("srrt", (false, true, true, 1)),
            ("srrt:2", (true, true, true, 2)),
            ("fsp", (true, true, false, 1)),
        ] {
            let policy = parse(spec).unwrap();
            let told = (policy.follows_jobs(), policy.can_starve(), policy.needs_path(), policy.bands());
            assert_eq!(told, expected, "{spec}");
        }
    }

    #[test]
    fn bands_of_jobs() {
        let of = |spec: &str, size: Size, attained: u64| {
            parse(spec).unwrap().band(0, &Job { attained, ..Job::of_size(size) })
        };
        // A band includes the cut point above it, and a job moves up as less of it is left.
        let sizes = [3, 4, 9, 10].map(|bytes| of("srpt-bands:3,9", Size::Known(bytes), 0));
        assert_eq!(sizes, [0, 1, 1, 2]);
        assert_eq!(of("srpt-bands:3,9", Size::Known(10), 7), 0);
        assert_eq!(of("srpt-bands:3,9", Size::AtLeast(1), 10), 2);
        // Under quick-fix the size at the start decides, or, if it is not known, the bytes sent.
        assert_eq!([1000, 1001].map(|bytes| of("quick-fix", Size::Known(bytes), 0)), [0, 1]);
        assert_eq!(of("quick-fix", Size::Known(1001), 900), 1);
        assert_eq!([1000, 1001].map(|sent| of("quick-fix", Size::AtLeast(1), sent)), [0, 1]);
        assert_eq!(of("srpt", Size::Known(1_000_000), 0), 0);
    }
}
