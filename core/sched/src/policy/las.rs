//! Least attained service: rank = bytes sent so far.
//!
//! The best policy without known sizes, if sizes have a decreasing hazard rate (Righter & Shanthikumar, "Scheduling
//! multiclass single server queueing systems to stochastically maximize the number of successful departures", 1989).
//! Good for proxied and generated responses; bad if sizes are alike, because the largest jobs then share the link and
//! all finish late. An unknown size makes no difference.

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
