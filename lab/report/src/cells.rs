//! What stands in the tables of a report, in Markdown.

use crate::chapter::PointReport;
use crate::claim::Expect;
use crate::summary::{RunSummary, SkippedRun, VIRTUAL};
use crate::verdict::{Finding, Found, Tally};

/// What is measured has 95 % intervals: over traces, or by batches of one run.
pub(crate) const CLAIM_COLUMNS: [&str; 4] = ["claim", "measured ± 95 %", "bound", "verdict"];

/// What the two bounds assume.
pub(crate) const BOUNDS: &str = "The bound is a fluid: any part of any response at any instant, no handshake; no schedule is lower. The \
packet bound is the same order of whole packets, a handshake before each connection's first, without delay or loss.";

/// What the number of claims that hold does not say: `1 not reproduced; worst: mean 8 x lower [rho-0.8], 6.3 ×`.
pub(crate) fn tally_rest(tally: &Tally) -> String {
    let worst = tally.worst.map(|finding| {
        let [claim, measured, ..] = claim(finding);
        format!("worst: {claim}, {measured}")
    });
    let others = Some(tally.others()).filter(|others| !others.is_empty());
    others.into_iter().chain(worst).collect::<Vec<_>>().join("; ")
}

/// Runs or points that are not here with the reason, those of one reason together: `a, b` and why.
pub(crate) fn not_here(left_out: &[SkippedRun]) -> Vec<(String, &str)> {
    let mut by_reason: Vec<(String, &str)> = Vec::new();
    for SkippedRun { name, reason } in left_out {
        match by_reason.iter_mut().find(|(_, known)| known == reason) {
            Some((names, _)) => *names = format!("{names}, {name}"),
            None => by_reason.push((name.clone(), reason)),
        }
    }
    by_reason
}

/// Claim, measured and bound of a finding.
pub(crate) fn claim(finding: &Finding) -> [String; 3] {
    let expect = &finding.expect;
    let at = if finding.point.is_empty() { String::new() } else { format!(" [{}]", finding.point) };
    let found = |found: Option<Found>| found.map_or("-".into(), |found| with_interval(expect, found));
    let bound = finding.bound.map_or("-".into(), |bound| with_interval(expect, Found::exact(bound)));
    [format!("{}{at}", expect.text), found(finding.found), bound]
}

fn with_interval(expect: &Expect, found: Found) -> String {
    let is_ratio = expect.over.is_some() && !expect.value.is_of_pairs();
    let unit = if is_ratio { " ×" } else { "" };
    let interval = found.half_width.map_or(String::new(), |half| format!(" ± {}", figure(half)));
    let ends = found.over.and_then(|over| over.ends);
    let ends = ends.map_or(String::new(), |[low, high]| format!(" ({} to {})", figure(low), figure(high)));
    let plural = |count| if count == 1 { "" } else { "s" };
    let traces = found.over.map_or(String::new(), |over| format!(", {} trace{}", over.traces, plural(over.traces)));
    format!("{}{interval}{unit}{ends}{traces}", figure(found.value))
}

/// The columns of a point's table of runs; those of what nobody measured are left out.
pub(crate) fn run_columns(point: &PointReport) -> Vec<&'static str> {
    columns(point).into_iter().map(|(name, _)| name).collect()
}

/// The cells of a run under these columns.
pub(crate) fn run(point: &PointReport, at: usize) -> Vec<String> {
    columns(point).into_iter().map(|(_, cell)| cell(point, at)).collect()
}

type Column = (&'static str, fn(&PointReport, usize) -> String);

fn columns(point: &PointReport) -> Vec<Column> {
    let mut columns: Vec<Column> = vec![
        ("run", |point, at| of(point, at).name.clone()),
        ("server, policy, shaping", |point, at| {
            let run = of(point, at);
            format!("{}, {}, {}", run.server, run.policy, run.shaping)
        }),
        ("completed", |point, at| of(point, at).completed.to_string()),
        ("incomplete", |point, at| incomplete(of(point, at))),
        ("mean, ms", |point, at| {
            let run = of(point, at);
            let interval = run.mean_ms_half_width.map_or(String::new(), |half| format!(" ± {}", figure(half)));
            figure(run.response_time_ms.mean) + &interval
        }),
        ("times sooner", times_sooner),
        ("slowdown", |point, at| figure(of(point, at).slowdown_mean)),
        ("p50, ms", |point, at| figure(of(point, at).response_time_ms.p50)),
        ("p99, ms", |point, at| figure(of(point, at).response_time_ms.p99)),
        ("longest, ms", |point, at| figure(of(point, at).response_time_ms.max)),
        ("largest 1 %, ms", |point, at| optional(point.extras[at].top_1_percent_ms)),
        ("largest 1 % / baseline", top_1_percent),
        ("variance, ms²", |point, at| optional(point.extras[at].variance_ms2)),
        ("SCV", |point, at| optional(point.extras[at].scv)),
        ("mean / bound", |point, at| of_bound(of(point, at), of(point, at).bound_ratio)),
        ("mean / packet bound", |point, at| of_bound(of(point, at), of(point, at).packet_bound_ratio)),
    ];
    columns.extend(measured_columns(point));
    columns.push(("late p99, ms", |point, at| {
        let run = of(point, at);
        if run.clock == VIRTUAL { VIRTUAL.into() } else { optional(run.client_lateness_p99_ms) }
    }));
    columns
}

/// Those of what was measured of any run.
fn measured_columns(point: &PointReport) -> impl Iterator<Item = Column> {
    let extras = &point.extras;
    let measured: [(bool, Column); 5] = [
        (
            extras.iter().any(|run| run.attempts_mean.is_some()),
            ("attempts", |point, at| optional(point.extras[at].attempts_mean)),
        ),
        (
            extras.iter().any(|run| run.connections_max.is_some()),
            ("most connections", |point, at| optional(point.extras[at].connections_max)),
        ),
        (
            extras.iter().any(|run| run.syn_drops.is_some()),
            ("SYNs dropped", |point, at| optional(point.extras[at].syn_drops)),
        ),
        (
            extras.iter().any(|run| run.accept_drops.is_some()),
            ("accept queue full", |point, at| optional(point.extras[at].accept_drops)),
        ),
        (
            point.summary.runs.iter().any(|run| run.server_cpu.is_some()),
            ("server CPU", |point, at| {
                let run = of(point, at);
                if run.clock == VIRTUAL { VIRTUAL.into() } else { optional(run.server_cpu) }
            }),
        ),
    ];
    measured.into_iter().filter(|(is_measured, _)| *is_measured).map(|(_, column)| column)
}

fn of(point: &PointReport, at: usize) -> &RunSummary {
    &point.summary.runs[at]
}

/// A ratio to a bound is quoted from a link that does not serialise only with that said.
fn of_bound(run: &RunSummary, ratio: f64) -> String {
    let mark = if run.not_a_wire.is_some() { " (not a wire)" } else { "" };
    figure(ratio) + mark
}

fn optional(value: Option<f64>) -> String {
    value.map_or("-".into(), figure)
}

fn incomplete(run: &RunSummary) -> String {
    let ended = run.outcomes.iter().filter(|(outcome, jobs)| *jobs > 0 && *outcome != record::Outcome::Complete);
    let ways: Vec<String> =
        ended.map(|(outcome, jobs)| format!("{jobs} {}", outcome.name().replace('_', " "))).collect();
    if ways.is_empty() { "0".into() } else { ways.join(", ") }
}

/// How many times sooner than the baseline, in the mean.
fn times_sooner(point: &PointReport, at: usize) -> String {
    let base = point.extras[at].baseline.map(|base| of(point, base).response_time_ms.mean);
    compared(point, at, base.map(|base| base / of(point, at).response_time_ms.mean))
}

/// What the largest pay: their mean over that under the baseline.
fn top_1_percent(point: &PointReport, at: usize) -> String {
    let extras = &point.extras;
    let base = extras[at].baseline.and_then(|base| extras[base].top_1_percent_ms);
    compared(point, at, extras[at].top_1_percent_ms.zip(base).map(|(mine, base)| mine / base))
}

/// A comparison with the baseline; one with a void run is worth no more than that run.
fn compared(point: &PointReport, at: usize, ratio: Option<f64>) -> String {
    if of(point, at).not_comparable.is_some() {
        return "not comparable".into();
    }
    let is_void = point.extras[at].baseline.is_some_and(|base| of(point, base).void.is_some());
    let Some(ratio) = ratio.filter(|ratio| ratio.is_finite()) else { return "-".into() };
    figure(ratio) + if is_void { " (void baseline)" } else { "" }
}

/// Three significant digits, or all before the point.
pub(crate) fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 1e7 => return number_label(value),
        v if v.fract() == 0.0 && v < 1e7 => 0,
        v if v < 0.001 => return number_label(value),
        v if v < 1.0 => 3,
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// A plain number to three significant digits: 0.01, 5, 20000, 1e7.
fn number_label(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    if rounded != 0.0 && !(1e-3..1e5).contains(&rounded.abs()) { format!("{rounded:e}") } else { rounded.to_string() }
}
