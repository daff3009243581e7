//! The points of an experiment with the jobs of each, from the same schedule that `weirlab load` will create.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use record::Digest;
use testbed::{Experiment, ExperimentFile, Plan, Point, Programs};
use units::{Nanos, Rate};
use workload::Job;

use crate::load;
use cli::Failure;

/// The properties of an experiment that are known before it begins.
pub(super) struct Prepared {
    /// The jobs of each point, by its name.
    jobs: BTreeMap<String, Jobs>,
    /// The digest of every run, by its folder in the experiment's folder.
    pub(super) expected: BTreeMap<PathBuf, String>,
}

/// The required properties of the jobs of a point.
struct Jobs {
    /// The sizes of all requested files.
    sizes: BTreeSet<u64>,
    digest: String,
    /// The time until a link that is always busy has sent everything.
    lasts: Duration,
}

impl Prepared {
    /// Creates the jobs of every point. A trace that cannot be read or is too short is an error here.
    pub(super) fn of(file: &ExperimentFile) -> Result<Prepared, Failure> {
        let (mut jobs, mut expected) = (BTreeMap::new(), BTreeMap::new());
        for point in file.points() {
            let these = Jobs::of(&point.experiment)?;
            for run in point.experiment.runs() {
                expected.insert(Path::new(&point.name).join(&run.name), point.digest(run, &these.digest));
            }
            jobs.insert(point.name.clone(), these);
        }
        Ok(Prepared { jobs, expected })
    }

    /// Plans the runs of a point, with their results below `out`.
    pub(super) fn plan<'a>(
        &'a self,
        name: &str,
        point: &'a Point,
        out: &Path,
        programs: &'a Programs,
        skip_missing: bool,
        again: &[String],
    ) -> Plan<'a> {
        let (experiment, jobs) = (&point.experiment, &self.jobs[&point.name]);
        let digests = experiment.runs().map(|run| (run.name.clone(), point.digest(run, &jobs.digest))).collect();
        let values = serde_json::to_string(&point.values).unwrap_or_default();
        let environment = [("point".to_owned(), point.name.clone()), ("values".to_owned(), values)];
        Plan {
            experiment,
            title: if point.name.is_empty() { name.into() } else { format!("{name} {}", point.name) },
            sizes: &jobs.sizes,
            out: out.join(&point.name),
            programs,
            skip_missing,
            lasts: jobs.lasts,
            digests,
            environment: environment.into_iter().filter(|_| !point.name.is_empty()).collect(),
            again: again.to_vec(),
        }
    }
}

impl Jobs {
    fn of(experiment: &Experiment) -> Result<Jobs, Failure> {
        let jobs = load::jobs_of(&experiment.load, experiment.link)?;
        let mut digest = Digest::new();
        for job in &jobs {
            digest = digest.with(&job.arrival.0.to_le_bytes()).with(&job.size_bytes.to_le_bytes());
        }
        let of_clients = experiment.clients().filter_map(|group| Some(group.closed?.size_bytes));
        Ok(Jobs {
            sizes: jobs.iter().map(|job| job.size_bytes).chain(of_clients).collect(),
            digest: digest.text(),
            lasts: sent_by(&jobs, experiment.link).max(Duration::from_secs(experiment.seconds())),
        })
    }
}

/// Returns when a link that never idles while there is something to send has sent these jobs.
fn sent_by(jobs: &[Job], link: Rate) -> Duration {
    let end = jobs.iter().fold(0, |end_ns: u64, job| {
        let wire_bits = 8 * u128::from(workload::wire_bytes(job.size_bytes));
        let takes_ns = wire_bits * 1_000_000_000 / u128::from(link.bits_per_s());
        end_ns.max(job.arrival.0).saturating_add(u64::try_from(takes_ns).unwrap_or(u64::MAX))
    });
    Nanos(end).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overload_lasts_until_it_is_sent() {
        // 1,208 + 240 bytes are one full segment, 1,514 on the wire: 12,112 bits, 1.2112 ms each.
        let job = |ms| Job { arrival: Nanos::from_millis(ms), size_bytes: 1208, client: None };
        let link = "10mbit".parse().unwrap();
        assert_eq!(sent_by(&[job(0), job(0), job(1)], link), Duration::from_nanos(3 * 1_211_200));
        assert_eq!(sent_by(&[job(0), job(10)], link), Duration::from_nanos(10_000_000 + 1_211_200));
    }
}
