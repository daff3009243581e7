//! One experiment of a report: its points one by one, what they came to, and what became of the figure's claims.
//!
//! A point is summed up and let go before the next is read: a hundred runs of 90,000 requests do not fit in memory, what is
//! kept of them does.

use std::collections::BTreeMap;

use record::{Manifest, Run};
use units::Nanos;

use crate::ReportError;
use crate::claim::Described;
use crate::factors::load;
use crate::findings::{self, Findings};
use crate::jobs::Jobs;
use crate::metric::{Metric, Observed};
use crate::summary::{Compared, SkippedRun, Summary, summary_of};
use crate::verdict::{Finding, Tally};

/// Samples of the server's side: by counter, nanoseconds since the run began and value.
pub type Counters = BTreeMap<String, Vec<(u64, u64)>>;

/// The runs of one point, as they were read.
#[derive(Debug, Default)]
pub struct PointRuns {
    /// Name of its folder; empty where the experiment has one point only.
    pub name: String,
    /// What was varied, and its value here.
    pub values: Vec<(String, String)>,
    pub runs: Vec<Run>,
    /// Of each run.
    pub counters: Vec<Counters>,
    pub skipped: Vec<SkippedRun>,
}

/// An experiment of a report.
#[derive(Debug, Clone)]
pub struct Chapter {
    pub name: String,
    pub described: Described,
    /// Every run of any point, in order of appearance: a run has the same colour everywhere.
    pub run_names: Vec<String>,
    pub points: Vec<PointReport>,
    /// In the order of the claims, then of the points.
    pub findings: Vec<Finding>,
    /// Points that could not be summed up, points and runs that are not here, and why.
    pub left_out: Vec<SkippedRun>,
}

/// What the runs of a point came to.
#[derive(Debug, Clone)]
pub struct PointReport {
    pub name: String,
    pub values: Vec<(String, String)>,
    pub summary: Summary,
    /// Beside each run of the summary.
    pub extras: Vec<Extras>,
    /// Kernel, commit and seconds of its first run.
    pub conditions: String,
}

/// Figures of a run that its summary does not have.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Extras {
    pub variance_ms2: Option<f64>,
    pub scv: Option<f64>,
    /// Mean response time of the largest 1 % of requests.
    pub top_1_percent_ms: Option<f64>,
    pub attempts_mean: Option<f64>,
    pub connections_max: Option<f64>,
    pub syn_drops: Option<f64>,
    pub accept_drops: Option<f64>,
    /// Which of the point's runs it is compared with; none for that one itself.
    pub baseline: Option<usize>,
}

/// A point as it is worked on.
pub(crate) struct Point<'a> {
    pub given: &'a PointRuns,
    /// Of each run; all the same where the runs have the same requests.
    pub jobs: Vec<&'a Jobs>,
    pub observed: Vec<Observed>,
    pub bound: Observed,
    pub ideal_ps: Observed,
    pub is_paired: bool,
    /// A hash of the instants and sizes of all requests of the first run.
    pub load: u64,
    pub summary: &'a Summary,
}

impl PointRuns {
    fn sort_by(&mut self, names: &[String]) {
        let place = |run: &Run| names.iter().position(|name| *name == run.manifest.name).unwrap_or(names.len());
        self.counters.resize(self.runs.len(), Counters::new());
        let mut both: Vec<(Run, Counters)> = self.runs.drain(..).zip(self.counters.drain(..)).collect();
        both.sort_by_key(|(run, _)| place(run));
        (self.runs, self.counters) = both.into_iter().unzip();
    }
}

impl Chapter {
    pub fn new(name: &str, described: Described) -> Chapter {
        let name = name.into();
        let (run_names, points, findings, left_out) = (vec![], vec![], vec![], vec![]);
        Chapter { name, described, run_names, points, findings, left_out }
    }

    /// Sums up the runs of a point, in the order of the experiment file; runs that it does not name come last.
    pub fn add(&mut self, mut given: PointRuns) -> Result<(), ReportError> {
        given.sort_by(&self.described.runs);
        let compared = Compared::of(&given.runs)?;
        let jobs: Vec<&Jobs> = (0..given.runs.len()).map(|run| compared.of_run(run)).collect();
        let summary = summary_of(&self.name, &given.runs, &compared);
        let summary = Summary { skipped: given.skipped.clone(), ..summary };
        let point = Point {
            bound: timed(&jobs[0].bound, jobs[0], &given.runs[0].manifest),
            ideal_ps: timed(&jobs[0].ideal_ps, jobs[0], &given.runs[0].manifest),
            observed: given.runs.iter().enumerate().map(|(at, run)| observe(run, &given, at, jobs[at])).collect(),
            jobs,
            is_paired: compared.is_paired,
            load: load(&given.runs[0]),
            summary: &summary,
            given: &given,
        };
        for run in &summary.runs {
            if !self.run_names.contains(&run.name) {
                self.run_names.push(run.name.clone());
            }
        }
        let described = &self.described;
        if let Some(figure) = &described.figure {
            let of_figure = Findings { figure, clients: &described.clients };
            self.findings.extend(of_figure.at(&point));
        }
        let extras = extras(&point);
        let conditions = conditions(&given.runs[0]);
        let (name, values) = (given.name.clone(), given.values.clone());
        self.points.push(PointReport { name, values, summary, extras, conditions });
        Ok(())
    }

    /// Says of a run of a point, or of all of them, why it is not here; either name may be empty.
    pub fn leave_out(&mut self, point: &str, run: &str, reason: &impl std::fmt::Display) {
        let names: Vec<&str> = [point, run].into_iter().filter(|name| !name.is_empty()).collect();
        let name = if names.is_empty() { self.name.clone() } else { names.join(" / ") };
        self.left_out.push(SkippedRun { name, reason: reason.to_string() });
    }

    /// Puts the findings in the order of the claims, and adds those of points that were not measured.
    pub fn finish(&mut self) {
        if let Some(figure) = &self.described.figure {
            let points: Vec<&str> = self.points.iter().map(|point| point.name.as_str()).collect();
            self.findings.extend(findings::of_missing_points(figure, &points));
            let of_points = findings::of_two_points(std::mem::take(&mut self.findings));
            self.findings = findings::over_seeds(of_points);
            let claims: Vec<_> = figure.expects().cloned().collect();
            let place = |finding: &Finding| claims.iter().position(|claim| *claim == finding.expect);
            self.findings.sort_by_key(place);
        }
    }

    pub fn tally(&self) -> Tally<'_> {
        Tally::of(&self.findings)
    }
}

fn observe(run: &Run, given: &PointRuns, at: usize, jobs: &Jobs) -> Observed {
    let records = &run.records;
    let times: Vec<Nanos> = records.iter().map(|record| record.response_time()).collect();
    let first_byte = |record: &record::JobRecord| {
        Nanos(record.first_byte_ns.unwrap_or(record.end_ns).saturating_sub(record.arrival_ns)).as_millis_f64()
    };
    Observed {
        arrivals_s: records.iter().map(|record| record.arrival_ns / 1_000_000_000).collect(),
        first_bytes_ms: records.iter().map(first_byte).collect(),
        is_complete: records.iter().map(|record| record.is_complete()).collect(),
        body_bytes: records.iter().map(|record| record.body_bytes).collect(),
        attempts: records.iter().map(|record| record.attempts).collect(),
        server_cpu: run.manifest.server_cpu.filter(|cpu| cpu.is_finite()),
        counters: given.counters.get(at).cloned().unwrap_or_default(),
        ..timed(&times, jobs, &run.manifest)
    }
}

/// Response times of these jobs, of a run or of an oracle, which has nothing else and stands beside this run.
fn timed(times: &[Nanos], jobs: &Jobs, run: &Manifest) -> Observed {
    let responses_ms: Vec<f64> = times.iter().map(|time| in_whole_microseconds(*time)).collect();
    let alone = jobs.services.iter().map(|service| service.as_millis_f64());
    Observed {
        slowdowns: responses_ms.iter().zip(alone).map(|(response, alone)| response / alone).collect(),
        responses_ms,
        sizes: jobs.sizes.clone(),
        bound_ms: stats::mean_nanos(&jobs.bound).unwrap_or_default() / 1e6,
        packet_bound_ms: jobs.packet_bound_ms(run),
        ..Observed::default()
    }
}

/// The run that this one is compared with; none for the first, or where it names itself or one that is not there.
fn baseline(point: &Point, at: usize) -> Option<usize> {
    let place = |name: &String| point.summary.runs.iter().position(|run| run.name == *name);
    let named = point.summary.runs[at].baseline.as_ref();
    named.map_or(Some(0), place).filter(|base| *base != at)
}

/// Milliseconds, in whole microseconds as kept results have them: of two ends that are nanoseconds apart, neither is later.
fn in_whole_microseconds(time: Nanos) -> f64 {
    (time.0 as f64 / 1e3).round_ties_even().max(1.0) / 1e3
}

fn extras(point: &Point) -> Vec<Extras> {
    let of = |(at, observed): (usize, &Observed)| {
        let all: Vec<usize> = (0..observed.responses_ms.len()).collect();
        let figure = |name: &str, jobs: &[usize]| observed.figure(&name.parse::<Metric>().ok()?, jobs, None);
        let is_top = stats::within_percentiles(&point.jobs[at].sizes, 99.0, 100.0);
        let top: Vec<usize> = all.iter().copied().filter(|job| is_top[*job]).collect();
        Extras {
            variance_ms2: figure("response_time_ms.variance", &all),
            scv: figure("response_time_ms.scv", &all),
            top_1_percent_ms: figure("response_time_ms.mean", &top),
            attempts_mean: figure("attempts_mean", &all).filter(|mean| *mean > 1.0),
            connections_max: figure("connections_max", &all),
            syn_drops: figure("syn_drops", &all),
            accept_drops: figure("accept_drops", &all),
            baseline: baseline(point, at),
        }
    };
    point.observed.iter().enumerate().map(of).collect()
}

fn conditions(run: &Run) -> String {
    let manifest = &run.manifest;
    let commit: String = manifest.commit.chars().take(12).collect();
    format!("{} s of arrivals, seed {}, kernel {}, commit {commit}", manifest.seconds, manifest.seed, manifest.kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::experiment;
    use std::path::Path;

    const FIGURE: &str = "\
[figure]
paper = \"000\"
figure = \"3\"
claim = \"c\"
[[figure.expect]]
text = \"at least 4 x\"
value = \"response_time_ms.mean\"
of = \"nginx-fair\"
over = \"weir-paced-srpt\"
least = 4.0
most = 5.0
[[figure.expect]]
text = \"nine of ten by more\"
value = \"response_time_ms.mean\"
of = \"nginx-fair\"
over = \"weir-paced-srpt\"
sizes = [0, 90]
least = 19.0
most = 21.0
[[figure.expect]]
text = \"all gain\"
value = \"share_gaining\"
of = \"weir-paced-srpt\"
over = \"nginx-fair\"
least = 1.0
most = 1.0
[[figure.expect]]
text = \"elsewhere\"
point = \"rho-0.9\"
value = \"bound_ratio\"
of = \"weir-paced-srpt\"
one_sided = \"at most twice\"
most = 2.0
[[run]]
name = \"weir-paced-srpt\"
[[run]]
name = \"nginx-fair\"
";

    fn chapter(change: impl Fn(&mut Vec<Run>)) -> Chapter {
        let described = Described::parse(FIGURE, Path::new("f.toml")).unwrap();
        let mut chapter = Chapter::new("e", described);
        let mut runs = experiment();
        change(&mut runs);
        chapter.add(PointRuns { runs, ..PointRuns::default() }).unwrap();
        chapter.finish();
        chapter
    }

    fn verdicts(chapter: &Chapter) -> Vec<Verdict> {
        chapter.findings.iter().map(|finding| finding.verdict).collect()
    }

    /// The same in so many traces: each a little later, which makes it another load, or all alike.
    fn traces(count: u64, are_other: bool, change: impl Fn(u64, &mut Vec<Run>)) -> Chapter {
        let mut chapter = Chapter::new("e", Described::parse(FIGURE, Path::new("f.toml")).unwrap());
        for seed in 1..=count {
            let mut runs = experiment();
            for record in runs.iter_mut().flat_map(|run| &mut run.records).filter(|_| are_other) {
                record.arrival_ns += seed;
                record.end_ns += seed;
            }
            change(seed, &mut runs);
            chapter.add(PointRuns { name: format!("seed-{seed}"), runs, ..PointRuns::default() }).unwrap();
        }
        chapter.finish();
        chapter
    }

    #[test]
    fn claims_are_decided_over_traces() {
        use Verdict::{NotMeasured, Reproduced, Undecided};
        let chapter = traces(6, true, |_, _| ());
        assert_eq!(verdicts(&chapter), [Reproduced, Reproduced, Reproduced, NotMeasured]);
        let finding = &chapter.findings[0];
        assert_eq!((finding.point.as_str(), finding.found.unwrap().over.unwrap().traces), ("", 6));
        assert_eq!(chapter.tally().text(), "3 of 4 claims reproduced");
        let kept = crate::kept_claims(&[chapter]);
        assert_eq!((kept.len(), kept[0].traces, kept[3].not_judged.as_deref()), (4, 6, Some("not-measured")));
        assert!((kept[0].value.unwrap() - 45.0 / 9.8).abs() < 1e-6, "{kept:?}");
        let alike = traces(6, false, |_, _| ());
        assert_eq!(verdicts(&alike)[..3], [Undecided; 3], "the same requests six times are one trace");
        assert_eq!(verdicts(&traces(4, true, |_, _| ()))[..3], [Undecided; 3]);
    }

    /// Under Weir the point `far` takes a tenth longer than `near` with each seed, but for seed 3, which `near` has not.
    #[test]
    fn claims_about_two_points_are_paired_by_seed() {
        let claim = "[[figure.expect]]\ntext = \"far as near\"\npoint = \"far\"\nagainst = \"near\"\n\
                     value = \"response_time_ms.mean\"\nof = \"weir-paced-srpt\"\nleast = 1.05\nmost = 1.2\n[[run]]";
        let described = Described::parse(&FIGURE.replacen("[[run]]", claim, 1), Path::new("f.toml")).unwrap();
        let mut chapter = Chapter::new("e", described);
        for (name, seed, times) in (1..=6).flat_map(|seed| [("near", seed, 1.0), ("far", seed, 1.1)]) {
            let mut runs = experiment();
            for record in runs.iter_mut().flat_map(|run| &mut run.records) {
                let took = record.end_ns - record.arrival_ns;
                record.arrival_ns += seed;
                record.end_ns = record.arrival_ns + (took as f64 * times * (1.0 + seed as f64)) as u64;
            }
            let name = format!("{name}_seed-{seed}");
            if name != "near_seed-3" {
                chapter.add(PointRuns { name, runs, ..PointRuns::default() }).unwrap();
            }
        }
        chapter.finish();
        let found: Vec<_> = chapter.findings.iter().filter(|finding| finding.expect.against.is_some()).collect();
        let [finding] = found[..] else { panic!("{found:?}") };
        assert_eq!((finding.point.as_str(), finding.verdict), ("far", Verdict::Reproduced));
        let over = finding.found.unwrap().over.unwrap();
        assert!(over.traces == 5 && (finding.found.unwrap().value - 1.1).abs() < 1e-3, "{finding:?}");
        let said = "1 of 6 seeds not measured (no run of the other point is here)";
        assert_eq!(finding.remark.as_deref(), Some(said));
    }

    #[test]
    fn seeds_that_are_void_are_counted_and_left_out() {
        let chapter = traces(7, true, |seed, runs| runs[1].manifest.void = (seed == 2).then(|| "late".into()));
        let finding = &chapter.findings[0];
        assert_eq!((finding.verdict, finding.found.unwrap().over.unwrap().traces), (Verdict::Reproduced, 6));
        assert_eq!(finding.remark.as_deref(), Some("1 of 7 seeds void (late)"));
    }

    /// Under nginx 360 small ones take 40 ms and 40 large ones 90; under Weir 2 and 80.
    #[test]
    fn claims_are_held_against_the_runs() {
        let chapter = chapter(|_| ());
        use Verdict::{NotMeasured, Undecided};
        assert_eq!(verdicts(&chapter), [Undecided, Undecided, Undecided, NotMeasured], "one trace");
        let found = |at: usize| chapter.findings[at].found.unwrap();
        assert!((found(0).value - 45.0 / 9.8).abs() < 1e-9 && found(0).half_width.is_some_and(|half| half < 1e-9));
        assert_eq!(found(1).value, 20.0);
        let summary = &chapter.points[0].summary;
        assert_eq!(summary.runs[0].name, "weir-paced-srpt", "in the order of the file");
        assert_eq!(chapter.findings[0].bound, Some(45.0 / summary.bound_ms));
    }

    #[test]
    fn a_void_run_voids_what_is_said_of_it_and_keeps_the_figure() {
        let chapter = chapter(|runs| runs[1].manifest.void = Some("why".into()));
        assert_eq!(verdicts(&chapter)[..3], [Verdict::Void; 3]);
        assert_eq!(chapter.findings[0].remark.as_deref(), Some("why"));
        assert!(chapter.findings[0].found.is_some());
    }

    #[test]
    fn runs_of_other_length_are_not_compared() {
        let chapter = chapter(|runs| runs[1].manifest.seconds = 200.0);
        assert_eq!(verdicts(&chapter)[..3], [Verdict::NotComparable; 3]);
        assert_eq!(chapter.findings[0].remark.as_deref(), Some("nginx-fair ran for 2 s, weir-paced-srpt for 200"));
        let described = FIGURE.replacen("least = 4.0\n", "least = 4.0\nseconds = 1800\n", 1);
        let mut long = Chapter::new("e", Described::parse(&described, Path::new("f.toml")).unwrap());
        long.add(PointRuns { runs: experiment(), ..PointRuns::default() }).unwrap();
        assert_eq!(verdicts(&long)[..2], [Verdict::NotComparable, Verdict::Undecided]);
        let said = long.findings[0].remark.as_deref();
        assert_eq!(said, Some("nginx-fair ran for 2 s, the paper's for 1800"));
        let chapters = [chapter];
        let page = crate::markdown("t", &chapters);
        assert!(page.contains("| 45 ± 0 | not comparable |"), "{page}");
        assert!(
            page.contains("- not comparable: nginx-fair: nginx-fair ran for 2 s, weir-paced-srpt for 200"),
            "{page}"
        );
    }

    #[test]
    fn nothing_is_said_of_a_link_that_is_no_wire_without_saying_so() {
        let chapter = chapter(|runs| runs[1].records[0].end_ns = 100_000);
        let remark = chapter.findings[0].remark.as_deref().unwrap();
        assert!(remark.contains("not a wire: 1 of 400 jobs beat their own wire time"), "{remark}");
        let chapters = [chapter];
        let page = crate::markdown("t", &chapters);
        assert!(page.contains("2.03 (not a wire) | 1.79 (not a wire) |"), "{page}");
        assert!(page.contains("- not a wire: weir-paced-srpt: 1 of 400 jobs"), "{page}");
    }

    #[test]
    fn a_run_that_is_not_there_is_named() {
        let chapter = chapter(|runs| drop(runs.remove(1)));
        assert_eq!(verdicts(&chapter), [Verdict::NotMeasured; 4]);
        assert_eq!(chapter.findings[0].remark.as_deref(), Some("run weir-paced-srpt is not here"));
    }

    /// Users who wait for their answers ask other things under another server.
    #[test]
    fn requests_of_closed_loads_are_not_matched() {
        let closed = |runs: &mut Vec<Run>| {
            runs.iter_mut().for_each(|run| run.manifest.closed = Some("30 users".into()));
            runs[1].records.truncate(300);
        };
        let chapter = chapter(closed);
        assert_eq!(verdicts(&chapter)[..3], [Verdict::Undecided, Verdict::Undecided, Verdict::NotMeasured]);
    }

    /// Kept results have whole microseconds, so a figure of theirs would be another.
    #[test]
    fn ends_that_are_nanoseconds_apart_are_no_different() {
        let other = |runs: &mut Vec<Run>| {
            let records = runs[0].records.clone();
            runs[1].records = records;
            runs[1].records.iter_mut().for_each(|record| record.end_ns += 400);
        };
        let chapter = chapter(other);
        assert_eq!(chapter.findings[2].found.unwrap().value, 0.0, "none gains");
    }
}
