use std::collections::BTreeSet;

use record::{JobRecord, Run};
use serde::Serialize;
use stats::nearest_rank;
use units::Nanos;

use crate::validity::{beat_wire_time, void_reason};

/// The figures of the runs of one point of an experiment. Other programs read its JSON, so names and order of fields
/// must not change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub experiment: String,
    /// The requested load.
    pub rho: f64,
    pub link_bps: u64,
    /// The number of jobs of the first run. Runs of a load that is closed on purpose differ in their jobs.
    pub jobs: usize,
    pub runs: Vec<RunSummary>,
    /// The runs of the experiment that this machine could not do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedRun>,
}

/// A run that was left out, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedRun {
    pub name: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    pub name: String,
    pub server: String,
    pub policy: String,
    pub shaping: String,
    pub completed: usize,
    /// The number of jobs that ended in any other way. They count in every figure with the time that they waited.
    pub incomplete: usize,
    /// The bytes of body received by all jobs.
    pub bytes: u64,
    pub response_time_ms: ResponseTimeMs,
    /// The number of completed jobs that took less time than their own bytes take alone on the link.
    pub beat_wire_time: usize,
    /// `real`, or `virtual` if computing took no time.
    pub clock: String,
    /// The reason why the run may not be used, if there is one.
    pub void: Option<String>,
    /// The figures of each group of clients, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSummary>,
}

/// The figures of one group of clients in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupSummary {
    /// The group's name; empty if the run does not name it.
    pub name: String,
    pub jobs: usize,
    pub completed: usize,
    pub response_time_ms: ResponseTimeMs,
    /// The number of jobs completed while requests still arrived, per second of that time. Later completions do not
    /// count in favour of any server.
    pub per_s: f64,
}

/// Nearest-rank percentiles; see `stats`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ResponseTimeMs {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

impl Summary {
    /// Summarises the runs of a point in the order given.
    pub fn of(experiment: &str, runs: &[Run], skipped: Vec<SkippedRun>) -> Summary {
        let first = runs.first();
        Summary {
            experiment: experiment.into(),
            rho: first.map_or(0.0, |run| run.manifest.rho),
            link_bps: first.map_or(0, |run| run.manifest.link_bps),
            jobs: first.map_or(0, |run| run.records.len()),
            runs: runs.iter().map(RunSummary::of).collect(),
            skipped,
        }
    }
}

impl RunSummary {
    pub fn of(run: &Run) -> RunSummary {
        let (manifest, records) = (&run.manifest, &run.records);
        let completed = records.iter().filter(|record| record.is_complete()).count();
        RunSummary {
            name: manifest.name.clone(),
            server: manifest.server.clone(),
            policy: manifest.policy.clone(),
            shaping: manifest.shaping.clone(),
            completed,
            incomplete: records.len() - completed,
            bytes: records.iter().map(|record| record.body_bytes).sum(),
            response_time_ms: ResponseTimeMs::of(records.iter().map(JobRecord::response_time).collect()),
            beat_wire_time: beat_wire_time(run),
            clock: manifest.environment.get("clock").cloned().unwrap_or_else(|| "real".into()),
            void: void_reason(run),
            groups: groups(run),
        }
    }
}

impl ResponseTimeMs {
    /// All values are zero if there are no spans.
    fn of(mut spans: Vec<Nanos>) -> ResponseTimeMs {
        let mean = stats::mean_nanos(&spans).unwrap_or_default() / 1e6;
        spans.sort_unstable();
        let percentile = |permille| nearest_rank(&spans, permille).unwrap_or_default().as_millis_f64();
        ResponseTimeMs { mean, p50: percentile(500), p90: percentile(900), p99: percentile(990), max: percentile(1000) }
    }
}

/// Empty if there is only one group, which is the run.
fn groups(run: &Run) -> Vec<GroupSummary> {
    let numbers: BTreeSet<u32> = run.records.iter().map(|record| record.group).collect();
    let seconds = run.manifest.seconds.max(f64::MIN_POSITIVE);
    let of_group = |group: u32| {
        let records = || run.records.iter().filter(move |record| record.group == group);
        let completed = || records().filter(|record| record.is_complete());
        GroupSummary {
            name: run.manifest.clients.get(group as usize).cloned().unwrap_or_default(),
            jobs: records().count(),
            completed: completed().count(),
            response_time_ms: ResponseTimeMs::of(records().map(JobRecord::response_time).collect()),
            per_s: completed().filter(|record| record.end_ns as f64 <= seconds * 1e9).count() as f64 / seconds,
        }
    };
    if numbers.len() > 1 { numbers.into_iter().map(of_group).collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;
    use record::Outcome;

    fn two_jobs(response_ms: [u64; 2]) -> Run {
        run("a", &[(0, 3000, response_ms[0]), (1, 1000, response_ms[1])])
    }

    #[test]
    fn figures_by_hand() {
        let run = RunSummary::of(&two_jobs([10, 4]));
        assert_eq!((run.completed, run.incomplete, run.bytes), (2, 0, 4000));
        assert_eq!(run.response_time_ms, ResponseTimeMs { mean: 7.0, p50: 4.0, p90: 10.0, p99: 10.0, max: 10.0 });
        assert_eq!((run.void, run.groups), (None, vec![]));
    }

    /// Other programs read this text: the names and their order are fixed.
    #[test]
    fn json_is_exactly_as_agreed() {
        let skipped = vec![SkippedRun { name: "c".into(), reason: "no cake".into() }];
        let json = serde_json::to_value(Summary::of("e", &[two_jobs([10, 4])], skipped)).unwrap();
        let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(keys(&json), "experiment rho link_bps jobs runs skipped");
        assert_eq!(
            keys(&json["runs"][0]),
            "name server policy shaping completed incomplete bytes response_time_ms beat_wire_time clock void"
        );
        assert_eq!(keys(&json["runs"][0]["response_time_ms"]), "mean p50 p90 p99 max");
        assert_eq!(json["skipped"], serde_json::json!([{ "name": "c", "reason": "no cake" }]));
    }

    #[test]
    fn every_job_counts_in_its_group_however_it_ended() {
        let mut run = run("a", &[(0, 10, 1), (1, 10, 2), (2, 10, 3), (3, 10, 94)]);
        run.manifest.clients = ["a", "b", "c", "d"].map(String::from).to_vec();
        (run.records[1].group, run.records[2].group, run.records[2].outcome) = (3, 3, Outcome::Aborted);
        let summary = RunSummary::of(&run);
        assert_eq!((summary.completed, summary.incomplete, summary.response_time_ms.mean), (3, 1, 25.0));
        let seen = { summary.groups.iter() }.map(|g| (g.name.as_str(), g.jobs, g.completed, g.response_time_ms.mean));
        assert_eq!(seen.collect::<Vec<_>>(), [("a", 2, 2, 47.5), ("d", 2, 1, 2.5)]);
        assert_eq!(summary.groups[0].per_s, 2.0 / run.manifest.seconds);
    }
}
