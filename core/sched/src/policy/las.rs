//! Least attained service: rank = bytes sent so far.
//!
//! The best policy without known sizes, if sizes have a decreasing hazard rate (Righter & Shanthikumar, "Scheduling
//! multiclass single server queueing systems to stochastically maximize the number of successful departures", 1989).
//! Good for proxied and generated responses. Bad if sizes are similar, because the largest jobs then share the link and
//! all finish late. Unknown sizes make no difference.

use super::Rank;
use crate::{Job, Path};

pub struct Las;

impl Rank for Las {
    fn name(&self) -> &str {
        "las"
    }

    fn rank(&self, job: &Job, _path: &Path) -> u64 {
        job.attained_anew()
    }
}
