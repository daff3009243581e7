//! The points of an experiment with the jobs of each: those of the very schedule that `weirlab load` will make.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use lab::{Experiment, ExperimentFile, Plan, Point, Programs};
use record::Digest;
use units::{Nanos, Rate};
use workload::Job;

use crate::load;
use cli::Failure;

/// A point that is ready to be conducted.
pub(super) struct Prepared<'a> {
    pub(super) point: &'a Point,
    jobs: Jobs,
}

/// What has to be known of the jobs of a point before it begins.
struct Jobs {
    /// Sizes of all files asked for.
    sizes: BTreeSet<u64>,
    digest: String,
    /// Until a link that always works has sent everything.
    lasts: Duration,
}

/// The points of a file, each with its jobs; a trace that cannot be read or is too short is found here.
pub(super) fn prepare(file: &ExperimentFile) -> Result<Vec<Prepared<'_>>, Failure> {
    file.points().iter().map(|point| Ok(Prepared { point, jobs: Jobs::of(&point.experiment)? })).collect()
}

impl Prepared<'_> {
    /// What to do, with its results in `out`.
    pub(super) fn plan<'a>(&'a self, out: &'a Path, programs: &'a Programs, skip_missing: bool) -> Plan<'a> {
        let experiment = &self.point.experiment;
        Plan { experiment, sizes: &self.jobs.sizes, out, programs, skip_missing }
    }

    /// The keys varied and their values, as JSON.
    pub(super) fn values(&self) -> Result<serde_json::Value, Failure> {
        Ok(serde_json::to_value(&self.point.values)?)
    }
}

impl Jobs {
    fn of(experiment: &Experiment) -> Result<Jobs, Failure> {
        let jobs = load::jobs_of(&experiment.load_flags())?;
        let mut digest = Digest::new();
        for job in &jobs {
            digest = digest.add(&job.arrival.0.to_le_bytes()).add(&job.size_bytes.to_le_bytes());
        }
        Ok(Jobs {
            sizes: jobs.iter().map(|job| job.size_bytes).collect(),
            digest: digest.text(),
            lasts: sent_by(&jobs, experiment.link).max(Duration::from_secs(experiment.seconds)),
        })
    }
}

/// When a link that is never idle while there is something to send has sent these jobs.
fn sent_by(jobs: &[Job], link: Rate) -> Duration {
    let end = jobs.iter().fold(0, |end_ns: u64, job| {
        let wire_bits = 8 * u128::from(workload::wire_bytes(job.size_bytes));
        let takes_ns = wire_bits * 1_000_000_000 / u128::from(link.bits_per_s());
        end_ns.max(job.arrival.0).saturating_add(u64::try_from(takes_ns).unwrap_or(u64::MAX))
    });
    Nanos(end).into()
}
