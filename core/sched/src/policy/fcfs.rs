//! First come, first served: rank = 0, so that the order of arrival decides.
//!
//! Good for equal sizes, where its variance is the lowest, and as the simplest baseline. Bad for heavy tails, because
//! the mean waiting time grows with the second moment of the size (Pollaczek 1930, Khinchine 1932). Unknown sizes make
//! no difference.

use super::Rank;
use crate::{Job, Path};

pub struct Fcfs;

impl Rank for Fcfs {
    fn name(&self) -> &str {
        "fcfs"
    }

    fn can_starve(&self) -> bool {
        false
    }

    fn rank(&self, _job: &Job, _path: &Path) -> u64 {
        0
    }
}
