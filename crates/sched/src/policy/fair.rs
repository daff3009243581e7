//! Round robin: rank = the turn at which the job was last granted.
//!
//! With grants of a segment or so this is what TCP flows through one FIFO approach, and what the papers call FAIR
//! (Harchol-Balter et al., "Size-based scheduling to improve web performance", 2003, section 1). It approaches
//! processor sharing as grants shrink, under which every size has the same expected slowdown 1 / (1 − rho). Good where
//! nothing at all may be preferred; bad in the mean: a short response pays for every long one in the system.
//! A size that is not known makes no difference.

use crate::{Job, Policy};

pub struct Fair;

impl Policy for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    fn rank(&self, job: &Job) -> u64 {
        job.turn
    }
}
