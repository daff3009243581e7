//! Round robin by bytes: rank = the job's start tag (start-time fair queueing: Goyal, Vin & Cheng, "Start-time fair
//! queueing", 1996).
//!
//! A job's tag grows by the bytes it sends; a newcomer, and one whose connection was blocked, starts at the tag of
//! the job granted last. Equal grants then go round in turns, and a short last segment costs no more than its bytes.
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
        job.start_tag
    }

    fn can_starve(&self) -> bool {
        false
    }
}
