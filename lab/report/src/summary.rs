use std::collections::BTreeSet;

use record::{CARRIED, GIVEN_UP, JobRecord, Manifest, Outcome, Run};
use serde::{Serialize, Serializer};
use stats::{SIZE_DECADES, batch_means, mean, nearest_rank, size_class_means, size_decade, weighted_mean};
use units::Nanos;

use crate::ReportError;
use crate::conditions::apart;
use crate::jobs::{Jobs, mean_ms};
use crate::pages::PagesSummary;
use crate::validity::{lateness_p99, void_reason};
use crate::wire::{Beaten, carrier};

/// The figures of the runs of one experiment. Its JSON is read by other programs: names and order of fields are fixed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub experiment: String,
    /// The load that was asked for.
    pub rho: f64,
    /// The load that was offered: wire bits of all responses and connections over what the link carries meanwhile.
    pub rho_measured: f64,
    pub link_bps: u64,
    pub jobs: usize,
    /// Mean response time of the clairvoyant bound: the link takes any part of any response, and there is no handshake.
    pub bound_ms: f64,
    /// Mean response time of ideal processor sharing.
    pub ideal_ps_ms: f64,
    /// Mean response time of the same order of whole packets, with handshakes, over the protocol of the first run.
    pub packet_bound_ms: f64,
    pub runs: Vec<RunSummary>,
    /// Runs of the experiment that this machine could not do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedRun>,
}

/// A run that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedRun {
    pub name: String,
    pub reason: String,
}

/// The clock of a machine in which computing takes no time.
pub(crate) const VIRTUAL: &str = "virtual";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    pub name: String,
    pub server: String,
    pub policy: String,
    pub shaping: String,
    pub completed: usize,
    /// Jobs that ended in any other way; they count in every figure with the time they waited.
    pub incomplete: usize,
    /// Connections that the server's kernel gave up, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<GivenUp>,
    /// Bytes of body received by all jobs.
    pub bytes: u64,
    pub response_time_ms: ResponseTimeMs,
    /// Mean of response time over time alone on the idle link.
    pub slowdown_mean: f64,
    /// Mean response time over that of the fluid bound.
    pub bound_ratio: f64,
    pub size_class_ms: SizeClassMs,
    /// `real`, or `virtual`: then computing took no time, and neither processors nor lateness tell anything.
    pub clock: String,
    /// Cores used by the server; `None` if nobody measured.
    pub server_cpu: Option<f64>,
    /// `None` where nobody knows when requests were submitted.
    pub client_lateness_p99_ms: Option<f64>,
    /// The reason why the run may not be used, if so.
    pub void: Option<String>,
    /// Name of the run this one is compared with, if not with the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The number of jobs that ended in each way.
    #[serde(serialize_with = "by_name")]
    pub outcomes: Vec<(Outcome, usize)>,
    /// Attempts of all jobs; more than there are jobs only where users gave up and asked again.
    pub attempts: u64,
    /// Mean response time over that of the packet bound of its protocol.
    pub packet_bound_ratio: f64,
    /// Completed jobs that took less time than their own bytes take alone on the link.
    pub beat_wire_time: usize,
    /// The remark on every figure that depends on the link, where it did not serialise, or was not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_a_wire: Option<String>,
    /// The packet bound, where its protocol is another than the first run's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_bound_ms: Option<f64>,
    /// The reason why it is not compared with the other run, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_comparable: Option<String>,
    /// Apart for each group of clients, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSummary>,
    /// The times of pages, if pages were loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<PagesSummary>,
    /// The part of the link that was used while requests arrived, where somebody measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_carried_share: Option<f64>,
    /// Half the 95 % confidence interval of the mean, by batch means; `None` for too few jobs.
    #[serde(skip)]
    pub mean_ms_half_width: Option<f64>,
}

/// Connections of a run that the server's kernel gave up. Their clients wait until the run ends, so the mean of all requests
/// measures the wait of the laboratory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GivenUp {
    /// Connections (TCPAbortOnTimeout).
    pub connections: u64,
    /// Mean response time of the requests that completed.
    pub completed_mean_ms: Option<f64>,
}

/// The figures of one group of clients in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupSummary {
    /// The place in the run's list of groups, from 0.
    pub group: u32,
    /// Empty if the run does not say.
    pub name: String,
    pub jobs: usize,
    pub completed: usize,
    pub response_time_ms: ResponseTimeMs,
    /// Jobs completed while requests still came, per second of that time: what is answered after it flatters nobody.
    pub per_s: f64,
    /// Mean with every size class weighted by its number of jobs in the run, as 004 has it: the same weights for every group.
    pub weighted_ms: f64,
    /// The same on the server's side, where its records tell this group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_weighted_ms: Option<f64>,
}

/// Nearest-rank percentiles, see `stats`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ResponseTimeMs {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// Mean response time of the jobs whose size falls between these percentiles of size; `None` where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SizeClassMs {
    pub p0_50: Option<f64>,
    pub p50_80: Option<f64>,
    pub p80_99: Option<f64>,
    pub p99_995: Option<f64>,
    pub p995_100: Option<f64>,
}

/// Summarises runs of the same jobs, in the order given: the first is what the others are compared with.
///
/// Where the load was closed on purpose a slower server was asked less: each run is then held against the bound of its own
/// jobs, and the summary's own figures are those of the first run.
pub fn summarize(experiment: &str, runs: &[Run]) -> Result<Summary, ReportError> {
    Ok(summary_of(experiment, runs, &Compared::of(runs)?))
}

/// The jobs of the runs that are compared: of all, or of each.
pub(crate) struct Compared {
    jobs: Vec<Jobs>,
    /// True if all have the same requests. Users who wait ask when they were answered: where the load was closed on purpose, they
    /// differ.
    pub is_paired: bool,
}

impl Compared {
    pub fn of(runs: &[Run]) -> Result<Compared, ReportError> {
        let is_paired = runs.iter().all(|run| run.manifest.closed.is_none());
        let jobs = if is_paired { vec![Jobs::of(runs)?] } else { Jobs::of_each(runs)? };
        Ok(Compared { jobs, is_paired })
    }

    pub fn of_run(&self, run: usize) -> &Jobs {
        &self.jobs[if self.is_paired { 0 } else { run }]
    }
}

pub(crate) fn summary_of(experiment: &str, runs: &[Run], compared: &Compared) -> Summary {
    let first = compared.of_run(0);
    let packet_bound_ms = first.packet_bound_ms(&runs[0].manifest);
    let is_carried_alike = |run: &Run| carrier(&run.manifest) == carrier(&runs[0].manifest);
    let of_run = |(at, run): (usize, &Run)| {
        let jobs = compared.of_run(at);
        RunSummary {
            packet_bound_ms: (!is_carried_alike(run)).then(|| jobs.packet_bound_ms(&run.manifest)),
            not_comparable: apart_from_baseline(run, runs),
            ..summarize_run(run, jobs)
        }
    };
    Summary {
        experiment: experiment.into(),
        rho: runs[0].manifest.rho,
        rho_measured: first.rho_measured,
        link_bps: first.link.bits_per_s(),
        jobs: first.sizes.len(),
        bound_ms: mean_ms(&first.bound),
        ideal_ps_ms: mean_ms(&first.ideal_ps),
        packet_bound_ms,
        runs: runs.iter().enumerate().map(of_run).collect(),
        skipped: vec![],
    }
}

/// The run it names, or the first; one that is not here leaves nothing to compare with.
fn apart_from_baseline(run: &Run, runs: &[Run]) -> Option<String> {
    let named = run.manifest.baseline.as_ref();
    let baseline = named.map_or(runs.first(), |name| runs.iter().find(|other| other.manifest.name == *name));
    apart(&run.manifest, &baseline?.manifest)
}

fn summarize_run(run: &Run, jobs: &Jobs) -> RunSummary {
    let manifest = &run.manifest;
    let responses: Vec<Nanos> = run.records.iter().map(|record| record.response_time()).collect();
    let millis: Vec<f64> = responses.iter().map(|response| response.as_millis_f64()).collect();
    let slowdowns: Vec<f64> =
        responses.iter().zip(&jobs.services).map(|(response, alone)| response.0 as f64 / alone.0 as f64).collect();
    let completed = run.records.iter().filter(|record| record.is_complete()).count();
    let response_time_ms = response_time_ms(responses);
    let beaten = Beaten::of(run);
    RunSummary {
        name: manifest.name.clone(),
        server: manifest.server.clone(),
        policy: manifest.policy.clone(),
        shaping: manifest.shaping.clone(),
        completed,
        incomplete: run.records.len() - completed,
        given_up: GivenUp::of(run),
        bytes: run.records.iter().map(|record| record.body_bytes).fold(0, u64::saturating_add),
        response_time_ms,
        slowdown_mean: mean(&slowdowns).unwrap_or_default(),
        bound_ratio: response_time_ms.mean / mean_ms(&jobs.bound),
        size_class_ms: SizeClassMs::of(&jobs.sizes, &millis),
        server_cpu: manifest.server_cpu.filter(|cpu| cpu.is_finite() && clock(manifest) != VIRTUAL),
        clock: clock(manifest),
        client_lateness_p99_ms: lateness_p99(run).map(Nanos::as_millis_f64),
        void: void_reason(run),
        baseline: manifest.baseline.clone(),
        outcomes: outcomes(run),
        attempts: run.records.iter().map(|record| u64::from(record.attempts)).sum(),
        packet_bound_ratio: response_time_ms.mean / jobs.packet_bound_ms(manifest),
        beat_wire_time: beaten.beat,
        not_a_wire: beaten.remark(manifest),
        packet_bound_ms: None,
        not_comparable: None,
        groups: groups(run),
        pages: PagesSummary::of(&run.pages),
        link_carried_share: manifest.environment.get(CARRIED).and_then(|share| share.parse().ok()),
        mean_ms_half_width: batch_means(&millis).map(|interval| interval.half_width),
    }
}

fn clock(manifest: &Manifest) -> String {
    manifest.environment.get("clock").cloned().unwrap_or_else(|| "real".into())
}

impl GivenUp {
    /// `None` where the kernel gave nothing up, or nobody counted.
    fn of(run: &Run) -> Option<GivenUp> {
        let connections = run.manifest.environment.get(GIVEN_UP)?.parse().ok().filter(|count| *count > 0)?;
        let completed = run.records.iter().filter(|record| record.is_complete());
        let millis: Vec<f64> = completed.map(|record| record.response_time().as_millis_f64()).collect();
        Some(GivenUp { connections, completed_mean_ms: mean(&millis) })
    }
}

impl SizeClassMs {
    fn of(sizes: &[u64], millis: &[f64]) -> SizeClassMs {
        let [p0_50, p50_80, p80_99, p99_995, p995_100] = size_class_means(sizes, millis);
        SizeClassMs { p0_50, p50_80, p80_99, p99_995, p995_100 }
    }
}

/// `Jobs::of` refuses runs without jobs, so there always is a percentile.
fn response_time_ms(mut responses: Vec<Nanos>) -> ResponseTimeMs {
    let mean = mean_ms(&responses);
    responses.sort_unstable();
    let percentile = |permille| nearest_rank(&responses, permille).unwrap_or_default().as_millis_f64();
    ResponseTimeMs { mean, p50: percentile(500), p90: percentile(900), p99: percentile(990), max: percentile(1000) }
}

fn outcomes(run: &Run) -> Vec<(Outcome, usize)> {
    let ended = |outcome| run.records.iter().filter(|record| record.outcome == outcome).count();
    Outcome::ALL.into_iter().map(|outcome| (outcome, ended(outcome))).collect()
}

fn by_name<S: Serializer>(outcomes: &[(Outcome, usize)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(outcomes.iter().map(|(outcome, jobs)| (outcome.name(), jobs)))
}

/// Empty where there is one group only: it is the run.
fn groups(run: &Run) -> Vec<GroupSummary> {
    let numbers: BTreeSet<u32> = run.records.iter().map(|record| record.group).collect();
    let of_group = |group| {
        let records = || run.records.iter().filter(move |record| record.group == group);
        let response_time_ms = response_time_ms(records().map(|record| record.response_time()).collect());
        let completed = records().filter(|record| record.is_complete()).count();
        let name = run.manifest.clients.get(group as usize).cloned().unwrap_or_default();
        let of_server = run.manifest.environment.get(&format!("server_latency_ms_{name}"));
        GroupSummary {
            group,
            jobs: records().count(),
            completed,
            response_time_ms,
            per_s: per_s(run, group),
            weighted_ms: weighted_ms(run, group),
            server_weighted_ms: of_server.and_then(|ms| ms.parse().ok()),
            name,
        }
    };
    if numbers.len() > 1 { numbers.into_iter().map(of_group).collect() } else { Vec::new() }
}

fn per_s(run: &Run, group: u32) -> f64 {
    let seconds = run.manifest.seconds.max(f64::MIN_POSITIVE);
    let in_time =
        |record: &&JobRecord| record.group == group && record.is_complete() && record.end_ns as f64 <= seconds * 1e9;
    run.records.iter().filter(in_time).count() as f64 / seconds
}

fn weighted_ms(run: &Run, group: u32) -> f64 {
    let class = |size: usize| {
        let all = run.records.iter().filter(|record| size_decade(record.size_bytes) == size);
        let own = all.clone().filter(|record| record.group == group);
        let times: Vec<f64> = own.map(|record| record.response_time().as_millis_f64()).collect();
        (all.count() as f64, mean(&times))
    };
    weighted_mean((0..=SIZE_DECADES.len()).map(class)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{experiment, run};

    /// At 8 Mbit/s: 1000 + 200 bytes of head take 1266 µs alone, 3000 + 200 take 3398 µs.
    fn two_jobs(name: &str, response_ms: [u64; 2]) -> Run {
        run(name, &[(0, 3000, response_ms[0]), (1, 1000, response_ms[1])])
    }

    /// The large one of two was given up, and waited for 10 s.
    #[test]
    fn what_the_kernel_gave_up_is_apart_from_the_mean() {
        let mut run = two_jobs("a", [10_000, 4]);
        run.records[0].outcome = Outcome::TimedOut;
        let of = |run: &Run| summarize("e", std::slice::from_ref(run)).unwrap();
        assert_eq!(of(&run).runs[0].given_up, None, "nobody counted");
        run.manifest.environment.insert(GIVEN_UP.into(), "1".into());
        let summary = of(&run);
        let given_up = GivenUp { connections: 1, completed_mean_ms: Some(4.0) };
        assert_eq!((summary.runs[0].given_up, summary.runs[0].response_time_ms.mean), (Some(given_up), 5002.0));
        let said = "a: the server's kernel gave 1 connection up (50.0 % of the requests)";
        assert!(crate::table(&summary).contains(said), "{}", crate::table(&summary));
    }

    #[test]
    fn figures_by_hand() {
        let summary = summarize("by-hand", &[two_jobs("a", [10, 4])]).unwrap();
        // SRPT: the small one preempts at 1 ms and takes 1.266; the large one ends at 3.398 + 1.266.
        assert!((summary.bound_ms - (4.664 + 1.266) / 2.0).abs() < 1e-9);
        // In packets: 74 + 1514 of the large one until 1588, where 1884 are left and the small one, 74 + 1266, has come; to 2928,
        // then the rest.
        assert!((summary.packet_bound_ms - (1.928 + 4.812) / 2.0).abs() < 1e-9);
        // PS: shared from 1 ms, the small one takes twice its time.
        assert!((summary.ideal_ps_ms - (4.664 + 2.532) / 2.0).abs() < 1e-9);
        // (1266 + 3398 + 2 × 206) bytes in 2 s at a byte per µs.
        assert!((summary.rho_measured - 5076.0 / 2e6).abs() < 1e-12);
        let run = &summary.runs[0];
        assert_eq!((run.completed, run.incomplete, run.bytes), (2, 0, 4000));
        assert_eq!(run.response_time_ms, ResponseTimeMs { mean: 7.0, p50: 4.0, p90: 10.0, p99: 10.0, max: 10.0 });
        assert!((run.slowdown_mean - (10.0 / 3.398 + 4.0 / 1.266) / 2.0).abs() < 1e-9);
        assert!((run.bound_ratio - 7.0 / 2.965).abs() < 1e-9);
        assert!((run.packet_bound_ratio - 7.0 / 3.370).abs() < 1e-9);
        assert_eq!((run.size_class_ms.p0_50, run.size_class_ms.p995_100), (Some(4.0), Some(10.0)));
        assert_eq!(run.void, None);
    }

    /// At 8 Mbit/s, alone: over HTTP/3 an opening of 1242 and 1200 bytes of which 1423 fill a datagram of 1494, charged 1260.
    #[test]
    fn each_run_has_the_packet_bound_of_its_protocol() {
        let mut runs = ["a", "b"].map(|name| run(name, &[(0, 1000, 5)]));
        runs[1].manifest.environment.insert("protocol".into(), "HTTP/3, up to 6 streams on a connection".into());
        let summary = summarize("e", &runs).unwrap();
        assert!((summary.packet_bound_ms - 1.340).abs() < 1e-9);
        assert_eq!((summary.runs[0].packet_bound_ms, summary.runs[1].packet_bound_ms), (None, Some(2.502)));
        assert!((summary.runs[1].packet_bound_ratio - 5.0 / 2.502).abs() < 1e-9);
        assert!((summary.runs[0].packet_bound_ratio - 5.0 / 1.340).abs() < 1e-9);
        let table = crate::table(&summary);
        assert!(table.contains("packet bound of b"), "{table}");
    }

    /// Other programs read this text: names, order and nothing else.
    #[test]
    fn json_is_exactly_as_agreed() {
        let mut runs = [two_jobs("a", [10, 4])];
        runs[0].manifest.void = Some("why".into());
        let json = serde_json::to_value(summarize("e", &runs).unwrap()).unwrap();
        let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(keys(&json), "experiment rho rho_measured link_bps jobs bound_ms ideal_ps_ms packet_bound_ms runs");
        let run = &json["runs"][0];
        assert_eq!(
            keys(run),
            "name server policy shaping completed incomplete bytes response_time_ms slowdown_mean bound_ratio \
             size_class_ms clock server_cpu client_lateness_p99_ms void outcomes attempts packet_bound_ratio beat_wire_time"
        );
        assert_eq!(keys(&run["response_time_ms"]), "mean p50 p90 p99 max");
        assert_eq!(keys(&run["outcomes"]), "complete incomplete refused reset timed_out aborted wrong");
        assert_eq!(keys(&run["size_class_ms"]), "p0_50 p50_80 p80_99 p99_995 p995_100");
        assert_eq!((&run["void"], &run["server_cpu"]), (&"why".into(), &0.25.into()));
        assert!(run["size_class_ms"]["p80_99"].is_null(), "a class without jobs has no mean");
    }

    /// Only where there is something to say, at the end of what was agreed.
    #[test]
    fn baselines_and_skipped_runs_are_added_to_the_json() {
        let mut runs = [two_jobs("a", [10, 4])];
        runs[0].manifest.baseline = Some("b".into());
        let mut summary = summarize("e", &runs).unwrap();
        summary.skipped = vec![SkippedRun { name: "c".into(), reason: "no cake".into() }];
        let json = serde_json::to_value(summary).unwrap();
        assert_eq!(json["runs"][0]["baseline"], "b");
        assert_eq!(json["skipped"], serde_json::json!([{ "name": "c", "reason": "no cake" }]));
    }

    #[test]
    fn a_link_that_is_no_wire_is_said_in_the_json() {
        let summary = summarize("e", &[two_jobs("a", [10, 1]), two_jobs("b", [10, 4])]).unwrap();
        let json = serde_json::to_value(summary).unwrap();
        assert_eq!((&json["runs"][0]["beat_wire_time"], &json["runs"][1]["beat_wire_time"]), (&1.into(), &0.into()));
        let said = json["runs"][0]["not_a_wire"].as_str().unwrap();
        assert!(said.starts_with("1 of 2 jobs beat their own wire time"), "{said}");
        assert!(json["runs"][1].get("not_a_wire").is_none() && json["runs"][0]["void"].is_null());
    }

    #[test]
    fn every_job_counts_however_it_ended() {
        let mut runs = [run("a", &[(0, 10, 1), (1, 10, 2), (2, 10, 3), (3, 10, 94)])];
        for (record, outcome) in runs[0].records.iter_mut().zip([Outcome::Reset, Outcome::Wrong, Outcome::Reset]) {
            record.outcome = outcome;
        }
        let run = summarize("e", &runs).unwrap().runs.remove(0);
        assert_eq!((run.completed, run.incomplete), (1, 3));
        assert_eq!(run.outcomes.iter().map(|&(_, jobs)| jobs).collect::<Vec<_>>(), [1, 0, 0, 2, 0, 0, 1]);
        assert_eq!(run.response_time_ms.mean, 25.0);
    }

    #[test]
    fn groups_of_clients_are_told_apart() {
        let mut runs = [run("a", &[(0, 10, 1), (1, 10, 2), (2, 10, 3), (3, 10, 94)])];
        assert_eq!(summarize("e", &runs).unwrap().runs[0].groups, []);
        runs[0].manifest.clients = ["a", "b", "c", "d"].map(String::from).to_vec();
        let records = &mut runs[0].records;
        (records[1].group, records[2].group, records[2].attempts, records[2].outcome) = (3, 3, 4, Outcome::Aborted);
        let run = summarize("e", &runs).unwrap().runs.remove(0);
        let seen: Vec<_> = run.groups.iter().map(|g| (g.group, g.jobs, g.completed, g.response_time_ms.mean)).collect();
        assert_eq!(seen, [(0, 2, 2, 47.5), (3, 2, 1, 2.5)]);
        assert_eq!((run.groups[1].name.as_str(), run.attempts), ("d", 7));
        assert_eq!((run.groups[0].per_s, run.groups[0].server_weighted_ms), (2.0 / runs[0].manifest.seconds, None));
    }

    #[test]
    fn groups_are_weighed_by_the_sizes_of_the_whole_run() {
        // Of the first group two small and one large, of the second one each: three small, two large in all.
        let mut runs = [run("a", &[(0, 10, 1), (1, 10, 3), (2, 5000, 10), (3, 10, 4), (4, 5000, 30)])];
        runs[0].manifest.clients = ["A", "B"].map(String::from).to_vec();
        runs[0].manifest.environment.insert("server_latency_ms_B".into(), "7.5".into());
        runs[0].records.iter_mut().skip(3).for_each(|record| record.group = 1);
        let groups = summarize("e", &runs).unwrap().runs.remove(0).groups;
        let seen: Vec<_> = groups.iter().map(|group| (group.weighted_ms, group.server_weighted_ms)).collect();
        assert_eq!(seen, [(5.2, None), (14.4, Some(7.5))]);
    }

    /// A faster server was asked more, and each is compared with the bound of what it was asked.
    #[test]
    fn closed_runs_have_jobs_of_their_own() {
        let mut runs = [run("slow", &[(0, 1000, 40)]), run("fast", &[(0, 1000, 4), (50, 3000, 8)])];
        assert!(summarize("e", &runs).is_err());
        runs.iter_mut().for_each(|run| run.manifest.closed = Some("2 users".into()));
        let summary = summarize("e", &runs).unwrap();
        assert_eq!((summary.jobs, summary.runs[1].completed), (1, 2));
        assert!((summary.runs[0].bound_ratio - 40.0 / 1.266).abs() < 1e-9);
        assert!((summary.runs[1].bound_ratio - 12.0 / (1.266 + 3.398)).abs() < 1e-9);
        runs[1].manifest.link_bps = 9;
        assert!(summarize("e", &runs).unwrap_err().to_string().contains("link_bps is 9"));
    }

    #[test]
    fn the_bound_takes_the_smallest_head_any_run_saw() {
        let bound_with = |heads: [u64; 2]| {
            let runs = heads.map(|head_bytes| {
                let mut run = run("a", &[(0, 1000, 5)]);
                run.records[0].head_bytes = head_bytes;
                run
            });
            (summarize("e", &runs).unwrap().bound_ms * 1000.0).round() - 1066.0
        };
        assert_eq!(bound_with([300, 180]), 180.0);
        assert_eq!(bound_with([0, 310]), 310.0);
        assert_eq!(bound_with([0, 0]), 240.0);
    }

    #[test]
    fn no_run_has_a_mean_below_the_bound_of_what_it_served() {
        let summary = summarize("e", &experiment()).unwrap();
        assert!(summary.bound_ms <= summary.ideal_ps_ms);
        assert!(summary.runs.iter().all(|run| run.bound_ratio >= 1.0 && run.slowdown_mean >= 1.0));
        assert!(summary.runs.iter().all(|run| run.mean_ms_half_width.is_some()));
    }

    #[test]
    fn nan_never_reaches_the_json() {
        let mut runs = [two_jobs("a", [10, 4])];
        runs[0].manifest.server_cpu = Some(f64::NAN);
        let summary = summarize("e", &runs).unwrap();
        assert!(serde_json::to_value(&summary).unwrap()["runs"][0]["server_cpu"].is_null());
        assert!(summary.runs[0].void.as_deref().unwrap().contains("the server"), "unmeasurable is not good");
    }

    fn refusal(change: impl Fn(&mut [Run])) -> String {
        let mut runs = [two_jobs("first", [10, 4]), two_jobs("second", [9, 3])];
        change(&mut runs);
        summarize("e", &runs).unwrap_err().to_string()
    }

    #[test]
    fn runs_of_different_jobs_are_refused() {
        let said = refusal(|runs| runs[1].records[1].arrival_ns = 999);
        assert!(said.starts_with("run `second`: job 1 arrives at 999 ns for 1000 bytes, but at 1000000 ns"), "{said}");
        let said = refusal(|runs| runs[1].records[0].size_bytes = 7);
        assert!(
            said.contains("job 0 arrives at 0 ns for 7 bytes, but at 0 ns for 3000 bytes in run `first`"),
            "{said}"
        );
        let said = refusal(|runs| runs[1].records.truncate(1));
        assert!(said.starts_with("run `second`: it has 1 jobs, but run `first` has 2"), "{said}");
        let said = refusal(|runs| runs[1].manifest.link_bps = 9);
        assert!(said.starts_with("run `second`: link_bps is 9, but 8000000 in run `first`"), "{said}");
    }

    #[test]
    fn damaged_runs_are_refused() {
        type Damage = (&'static str, fn(&mut Run));
        let damages: [Damage; 12] = [
            ("0 jobs", |run| run.records.clear()),
            ("record 1 is of job 5", |run| run.records[1].job = 5),
            ("before it arrives", |run| run.records[1].end_ns = 1),
            ("later than any run", |run| run.records[1].end_ns = u64::MAX),
            ("has a size of", |run| run.records[1].size_bytes = u64::MAX),
            ("a head of", |run| run.records[1].head_bytes = u64::MAX),
            ("link_bps is 0", |run| run.manifest.link_bps = 0),
            ("seconds is 0", |run| run.manifest.seconds = 0.0),
            ("too short", |run| run.manifest.seconds = 1e-320),
            ("rho is NaN", |run| run.manifest.rho = f64::NAN),
            ("per_connection is 0", |run| run.manifest.per_connection = 0),
            ("36 years", |run| {
                run.manifest.link_bps = 1;
                run.records[1].size_bytes = 1 << 40;
            }),
        ];
        for (words, damage) in damages {
            let mut run = two_jobs("a", [10, 4]);
            damage(&mut run);
            let said = summarize("e", &[run]).unwrap_err().to_string();
            assert!(said.starts_with("run `a`: ") && said.contains(words), "{words}: {said}");
        }
        assert_eq!(summarize("e", &[]), Err(ReportError::NoRuns));
    }

    #[test]
    fn what_costs_nothing_by_a_virtual_clock_is_not_told() {
        let mut runs = experiment();
        runs[0].manifest.environment.insert("clock".into(), "virtual".into());
        let summary = summarize("x", &runs).unwrap();
        let told = |run: &RunSummary| (run.clock.clone(), run.server_cpu);
        assert_eq!(told(&summary.runs[0]), ("virtual".into(), None));
        assert_eq!(told(&summary.runs[1]), ("real".into(), Some(0.25)));
        let table = crate::table(&summary);
        assert!(table.contains("  virtual   virtual\n"), "{table}");
    }

    #[test]
    fn lateness_not_in_the_manifest_is_taken_from_the_records() {
        let mut runs = [two_jobs("a", [10, 4])];
        runs[0].manifest.lateness_ns_p99 = None;
        runs[0].records[1] = JobRecord { start_ns: Some(3_000_000), ..runs[0].records[1].clone() };
        let run = summarize("e", &runs).unwrap().runs.remove(0);
        assert_eq!(run.client_lateness_p99_ms, Some(2.0));
        assert!(run.void.unwrap().contains("2.00 ms late"));
    }
}
