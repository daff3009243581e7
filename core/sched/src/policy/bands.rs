//! A few bands instead of a total order: rank = the number of cut points below the inner rank. Within a band, jobs are
//! served in order of arrival.
//!
//! A queueing discipline with k priority bands can keep this order (Harchol-Balter et al., "Implementation of SRPT
//! scheduling in web servers", 2000, sections 3.3 and 3.3.1: bands by remaining size; AlSa'deh & Yahya 2008, section 3:
//! by remaining response time). A job moves up as its inner rank falls. Good: five bands with well-chosen cuts come
//! close to the exact order, and only k − 1 marks per response are ever set. Bad if the cuts do not fit the sizes: all
//! jobs of the last band wait for the oldest of them, however large it is. A job of unknown size is ranked by the inner
//! rank, and falls through the bands as it sends.

use super::Rank;
use super::learner::{Learner, Rule};
use crate::scheduler::run_queue::{Key, RunQueue};
use crate::{Job, Path, Paths, Policy, Size};

/// The number of bands of Linux's `prio` discipline (tc-prio(8)).
pub const BANDS_MAX: usize = 16;

pub struct Bands<R> {
    name: String,
    rank: R,
    /// The cut points, increasing; a rank equal to a cut point belongs to the band below it.
    cuts: Vec<u64>,
    queue: RunQueue,
    paths: Paths,
    /// The state of learning; `None` if the cut points are fixed.
    learning: Option<Learning>,
}

struct Learning {
    learner: Learner,
    /// The inner rank of each slot, so that the queue can be reordered when the cut points move.
    ranks: Vec<u64>,
}

impl<R: Rank> Bands<R> {
    /// Makes bands cut at these ranks. `name` is the spec. The cuts must increase and form at most [`BANDS_MAX`] bands.
    pub fn at(name: String, rank: R, cuts: Vec<u64>) -> Bands<R> {
        assert!(cuts.len() < BANDS_MAX && cuts.is_sorted_by(|a, b| a < b), "cut points {cuts:?}");
        Bands { name, rank, cuts, queue: RunQueue::default(), paths: Paths::default(), learning: None }
    }

    fn rank_of(&self, slot: u32, job: &Job) -> u64 {
        self.rank.rank(job, if self.rank.needs_path() { self.paths.of(slot) } else { &Path::UNKNOWN })
    }

    /// Makes `bands` bands whose cuts are learned by this rule from the inner ranks of arriving jobs. Until 64 jobs
    /// have arrived, the cuts are spaced evenly on a logarithmic scale between the two given ranks. Ready jobs are
    /// reordered whenever the cuts move.
    pub fn learned(name: String, rank: R, bands: usize, rule: Rule, between: (u64, u64)) -> Bands<R> {
        let learner = Learner::new(bands, rule);
        let cuts = learner.cuts_at_first(between);
        let learning = Some(Learning { learner, ranks: Vec::new() });
        Bands { learning, ..Bands::at(name, rank, cuts) }
    }
}

impl<R: Rank> Policy for Bands<R> {
    fn name(&self) -> &str {
        &self.name
    }

    fn first(&self) -> Option<u32> {
        self.queue.first()
    }

    fn enqueue(&mut self, slot: u32, job: &Job) {
        let rank = self.rank_of(slot, job);
        if let Some(learning) = &mut self.learning {
            learning.ranks.resize(learning.ranks.len().max(slot as usize + 1), 0);
            learning.ranks[slot as usize] = rank;
        }
        self.queue.set(slot, Key { rank: band(&self.cuts, rank), number: job.number });
    }

    fn within(&self, slot: u32, job: &Job) -> u64 {
        band(&self.cuts, self.rank_of(slot, job))
    }

    fn dequeue(&mut self, slot: u32, _job: &Job) {
        self.queue.remove(slot);
    }

    fn on_arrival(&mut self, slot: u32, job: &Job) {
        let rank = self.rank_of(slot, job);
        let Some(Learning { learner, ranks }) = &mut self.learning else { return };
        // A job of unknown size contributes nothing to the learned cuts.
        if matches!(job.size, Size::Known(_))
            && let Some(cuts) = learner.observe(rank, &self.cuts, self.queue.len())
        {
            self.cuts = cuts;
            self.queue.rerank(|slot| band(&self.cuts, ranks[slot as usize]));
        }
    }

    fn can_starve(&self) -> bool {
        !self.cuts.is_empty()
    }

    fn needs_path(&self) -> bool {
        self.rank.needs_path()
    }

    fn on_path(&mut self, slot: u32, path: &Path) {
        self.paths.set(slot, path);
    }

    fn bands(&self) -> usize {
        self.cuts.len() + 1
    }

    fn band(&self, slot: u32, job: &Job) -> u8 {
        band(&self.cuts, self.rank_of(slot, job)) as u8
    }
}

/// Returns the band of a rank; band 0 is served first.
fn band(cuts: &[u64], rank: u64) -> u64 {
    cuts.iter().take_while(|cut| rank > **cut).count() as u64
}

#[cfg(test)]
mod tests {
    use super::super::Srpt;
    use super::*;

    /// When the cuts move, the waiting jobs are placed by the new cuts.
    #[test]
    fn ready_jobs_follow_the_cuts() {
        let mut bands = Bands::learned(String::new(), Srpt, 2, Rule::Sizes, (1_000_000, 1_000_000));
        let mut sizes = vec![5000; 62];
        sizes.extend([40_000, 2000]);
        for (slot, size) in sizes.into_iter().enumerate() {
            let job = Job { number: slot as u64, ..Job::of_size(Size::Known(size)) };
            bands.on_arrival(slot as u32, &job);
            if size != 5000 {
                bands.enqueue(slot as u32, &job);
            }
        }
        // With the cut at 1 MB the larger job was first, having arrived first; the median, 5 kB, lies between them.
        assert_eq!(bands.first(), Some(63));
    }

    #[test]
    fn a_cut_point_belongs_to_the_band_below() {
        let cuts = [1000, 2000];
        assert_eq!([1, 1000, 1001, 2000, 2001].map(|rank| band(&cuts, rank)), [0, 0, 1, 1, 2]);
    }
}
