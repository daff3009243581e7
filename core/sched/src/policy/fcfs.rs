//! First come, first served: rank = 0, so that the order of arrival decides.
//!
//! Good for equal sizes (it has the least variance there) and as the simplest yardstick; bad for heavy tails, for which
//! the mean waiting time grows with the second moment of size (Pollaczek 1930, Khinchine 1932). An unknown size makes
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
