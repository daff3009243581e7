//! Preemptive shortest job first: rank = the size of the response at the start.
//!
//! The mean is nearly as good as with SRPT (Wierman & Harchol-Balter, "Classifying scheduling policies with respect to
//! unfairness in an M/GI/1", 2003), and a rank that never changes can be set once, outside the server. Worse than SRPT
//! for a large response that is almost done: a new job of half its size still overtakes it. A job of unknown size ranks
//! by the bytes it has attained.

use super::{Rank, unknown_rank};
use crate::{Job, Path};

pub struct Psjf;

impl Rank for Psjf {
    fn name(&self) -> &str {
        "psjf"
    }

    fn is_size(&self) -> bool {
        true
    }

    fn rank(&self, job: &Job, _path: &Path) -> u64 {
        job.known().unwrap_or_else(|| unknown_rank(job))
    }
}
