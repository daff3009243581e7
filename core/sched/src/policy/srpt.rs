//! Shortest remaining processing time: rank = bytes still to send.
//!
//! No policy has fewer jobs in the system at any instant, so none has a lower mean response time (Schrage, "A proof of
//! the optimality of the shortest remaining processing time discipline", 1968). Its mean is good for all sizes and best
//! for heavy tails. It is bad only for the very largest responses near saturation (Bansal & Harchol-Balter, "Analysis
//! of SRPT scheduling: investigating unfairness", 2001). A job of unknown size ranks by the bytes it has attained.

use super::{Rank, unknown_rank};
use crate::{Job, Path};

pub struct Srpt;

impl Rank for Srpt {
    fn name(&self) -> &str {
        "srpt"
    }

    fn is_size(&self) -> bool {
        true
    }

    fn rank(&self, job: &Job, _path: &Path) -> u64 {
        job.known_left().unwrap_or_else(|| unknown_rank(job))
    }
}
