use crate::scheduler::run_queue::{Key, RunQueue};
use crate::{Job, Path, Paths, Policy};

/// A number per job; the lowest is served first. It depends only on the job and its path, and is computed again only
/// when one of them changes.
pub trait Rank: Send {
    /// The name on command lines and in records.
    fn name(&self) -> &str;

    /// See [`Policy::can_starve`].
    fn can_starve(&self) -> bool {
        true
    }

    /// See [`Policy::needs_path`].
    fn needs_path(&self) -> bool {
        false
    }

    /// Returns whether the rank is a size of the job or proportional to one: see [`Policy::size_rank`].
    fn is_size(&self) -> bool {
        false
    }

    fn rank(&self, job: &Job, path: &Path) -> u64;
}

/// The policy that serves the lowest rank first, and equal ranks in order of arrival.
pub struct Ranked<R> {
    rank: R,
    queue: RunQueue,
    paths: Paths,
}

impl<R: Rank> Ranked<R> {
    pub fn new(rank: R) -> Ranked<R> {
        Ranked { rank, queue: RunQueue::default(), paths: Paths::default() }
    }

    fn rank_of(&self, slot: u32, job: &Job) -> u64 {
        self.rank.rank(job, if self.rank.needs_path() { self.paths.of(slot) } else { &Path::UNKNOWN })
    }
}

impl<R: Rank> Policy for Ranked<R> {
    fn name(&self) -> &str {
        self.rank.name()
    }

    fn first(&self) -> Option<u32> {
        self.queue.first()
    }

    fn enqueue(&mut self, slot: u32, job: &Job) {
        let own = self.rank_of(slot, job);
        let rank = if self.rank.is_size() { job.rank_or(own) } else { own };
        self.queue.set(slot, Key { rank, number: job.number });
    }

    fn size_rank(&self, slot: u32, job: &Job) -> Option<u64> {
        (self.rank.is_size() && (job.known().is_some() || job.blind.curve.is_some())).then(|| self.rank_of(slot, job))
    }

    fn within(&self, slot: u32, job: &Job) -> u64 {
        self.rank_of(slot, job)
    }

    fn dequeue(&mut self, slot: u32, _job: &Job) {
        self.queue.remove(slot);
    }

    fn follows_jobs(&self) -> bool {
        false
    }

    fn can_starve(&self) -> bool {
        self.rank.can_starve()
    }

    fn needs_path(&self) -> bool {
        self.rank.needs_path()
    }

    fn on_path(&mut self, slot: u32, path: &Path) {
        self.paths.set(slot, path);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Las, Psjf, Srpt, Srrt};
    use std::sync::Arc;

    use super::*;
    use crate::Size;
    use crate::routes::{Curve, Knot};
    use units::Nanos;

    /// Returns the rank in the unit of the table.
    fn rank_of(policy: &str, job: &Job, path: &Path) -> u64 {
        match policy {
            "las" => Las.rank(job, path),
            "psjf" => Psjf.rank(job, path),
            "srpt" => Srpt.rank(job, path),
            "srrt" => Srrt.rank(job, path) / Nanos::from_micros(1).0,
            _ => panic!("{policy} is not in the kernel"),
        }
    }

    #[test]
    fn ranks_are_those_of_the_kernel() {
        let rows = include_str!("ranks.csv").lines().filter(|line| !line.starts_with('#')).skip(1);
        let mut count = 0;
        for row in rows {
            let fields: Vec<&str> = row.split(',').collect();
            let number = |at: usize| fields[at].parse::<u64>().unwrap();
            let attained = number(2);
            let size = fields[1].parse().map_or(Size::AtLeast(attained), Size::Known);
            let path = Path {
                rtt: Some(Nanos::from_micros(number(3))).filter(|rtt| *rtt > Nanos::ZERO),
                cwnd_bytes: Some(number(4) * number(5)).filter(|bytes| *bytes > 0),
                throughput_bps: None,
            };
            let job = Job { attained, ..Job::of_size(size) };
            assert_eq!(rank_of(fields[0], &job, &path), number(6), "{row}");
            count += 1;
        }
        assert!(count > 20, "{count} rows");
    }

    /// A connection sums known and learned sizes, and leaves out jobs of unknown size.
    #[test]
    fn a_learned_size_is_a_size() {
        let curve = Arc::new(Curve::new(vec![Knot { from_bytes: 0, rank: 70.0, slope: -1.0 }]));
        let (srpt, blind) = (Ranked::new(Srpt), Job::of_size(Size::AtLeast(0)));
        let learned = Job {
            blind: crate::scheduler::job::Blind { curve: Some(curve), before_pause: 0 },
            attained: 20,
            ..blind.clone()
        };
        let sizes = [blind, learned, Job::of_size(Size::Known(30))].map(|job| srpt.size_rank(0, &job));
        assert_eq!(sizes, [None, Some(50), Some(30)]);
    }
}
