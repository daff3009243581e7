//! First come, first served: rank = 0, so that the order of arrival decides.
//!
//! Good for equal sizes (it has the least variance there) and as the simplest yardstick; bad for heavy tails, where the
//! mean waiting time grows with the second moment of size (Pollaczek 1930, Khinchine 1932). A size that is not known
//! makes no difference.

use crate::{Job, Policy};

pub struct Fcfs;

impl Policy for Fcfs {
    fn name(&self) -> &'static str {
        "fcfs"
    }

    fn rank(&self, _job: &Job) -> u64 {
        0
    }

    fn can_starve(&self) -> bool {
        false
    }
}
