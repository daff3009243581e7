//! A report as Markdown, for pages under `docs/reproduction/`, and as CSV, one file for each table.

use std::fmt::Write as _;

use crate::cells::{self, CLAIM_COLUMNS};
use crate::chapter::{Chapter, Extras, PointReport};
use crate::summary::RunSummary;
use crate::verdict::{Finding, Verdict};

/// The tables of a report: claims with verdicts, and what every run came to.
pub fn markdown(title: &str, chapters: &[Chapter]) -> String {
    let mut text = format!("# {title}\n\n{}\n", cells::BOUNDS);
    for chapter in chapters {
        let figure = chapter.described.figure.as_ref();
        let heading =
            figure.map_or_else(|| chapter.name.clone(), |figure| format!("{}: {}", figure.title(), chapter.name));
        let _ = write!(text, "\n## {heading}\n\n");
        if !chapter.described.question.is_empty() {
            let _ = write!(text, "{}\n\n", chapter.described.question);
        }
        if let Some(figure) = figure {
            let (tally, rest) = (chapter.tally(), cells::tally_rest(&chapter.tally()));
            let rest = if rest.is_empty() { rest } else { format!(": {rest}") };
            let _ = write!(text, "The paper: {}. **{}**{rest}.\n\n", figure.claim, tally.text());
            if !chapter.findings.is_empty() {
                text.push_str(&claims(chapter));
            }
        }
        for (names, reason) in cells::not_here(&chapter.left_out) {
            let _ = writeln!(text, "- not here: {names}: {reason}");
        }
        if !chapter.left_out.is_empty() {
            text.push('\n');
        }
        for point in &chapter.points {
            text.push_str(&runs(point));
        }
    }
    text
}

fn claims(chapter: &Chapter) -> String {
    let rows = chapter.findings.iter().map(|finding| {
        let remark = finding.remark.as_ref().map_or(String::new(), |remark| format!(": {remark}"));
        let verdict = match finding.verdict {
            Verdict::Refuted | Verdict::NotComparable | Verdict::Void => {
                format!("**{}**{remark}", finding.verdict.text())
            }
            other => format!("{}{remark}", other.text()),
        };
        cells::claim(finding).into_iter().chain([verdict]).collect()
    });
    table(&CLAIM_COLUMNS, rows) + "\n"
}

fn runs(point: &PointReport) -> String {
    let mut text = String::new();
    if !point.name.is_empty() {
        let _ = write!(text, "### {}\n\n", point.name);
    }
    let rows = (0..point.summary.runs.len()).map(|at| {
        let is_void = point.summary.runs[at].void.is_some();
        let strike = |text: &str| if is_void { format!("~~{text}~~") } else { text.to_string() };
        cells::run(point, at).iter().map(|cell| strike(cell.text())).collect()
    });
    text.push_str(&table(&cells::run_columns(point), rows));
    text.push('\n');
    for run in &point.summary.runs {
        if let Some(reason) = &run.void {
            let _ = writeln!(text, "- void: {}: {reason}", run.name);
        }
        if let Some(reason) = &run.not_a_wire {
            let _ = writeln!(text, "- not a wire: {}: {reason}", run.name);
        }
        if let Some(reason) = &run.not_comparable {
            let _ = writeln!(text, "- not comparable: {}: {reason}", run.name);
        }
    }
    for (names, reason) in cells::not_here(&point.summary.skipped) {
        let _ = writeln!(text, "- not here: {names}: {reason}");
    }
    let [bound, packets] = [point.summary.bound_ms, point.summary.packet_bound_ms].map(cells::figure);
    let _ = write!(text, "\n{}; bound {bound} ms, packet bound {packets} ms.\n\n", point.conditions);
    text
}

pub(crate) fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &mut dyn Iterator<Item = String>| {
        let escaped: Vec<String> = cells.map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        format!("| {} |\n", escaped.join(" | "))
    };
    let mut text = line(&mut columns.iter().map(|name| name.to_string()));
    let _ = writeln!(text, "|{}", "---|".repeat(columns.len()));
    rows.for_each(|row| text.push_str(&line(&mut row.into_iter())));
    text
}

/// Name and text of each file: `claims.csv` and `runs.csv`.
pub fn csv(chapters: &[Chapter]) -> [(String, String); 2] {
    [("claims.csv".to_string(), claims_csv(chapters)), ("runs.csv".to_string(), runs_csv(chapters))]
}

/// The number of traces of a figure, and the ends of its interval.
fn over_traces(finding: &Finding) -> [String; 3] {
    let over = finding.found.and_then(|found| found.over);
    let traces = over.map_or(String::new(), |over| over.traces.to_string());
    let end = |at: usize| number(over.and_then(|over| over.ends).map(|ends| ends[at]));
    [traces, end(0), end(1)]
}

fn claims_csv(chapters: &[Chapter]) -> String {
    let mut text = String::from(
        "experiment,paper,figure,claim,point,value,measured,measured_ci95_half,traces,measured_low,measured_high,simulated,simulated_ci99_half,bound,verdict,remark\n",
    );
    for chapter in chapters {
        let (paper, figure) =
            chapter.described.figure.as_ref().map_or(("", ""), |figure| (&figure.paper, &figure.figure));
        for finding in &chapter.findings {
            let pair = |found: Option<crate::Found>| {
                [number(found.map(|found| found.value)), number(found.and_then(|found| found.half_width))]
            };
            let [measured, measured_half] = pair(finding.found);
            let [simulated, simulated_half] = pair(finding.simulated);
            let [traces, low, high] = over_traces(finding);
            let (definition, bound) = (cells::definition(&finding.expect), number(finding.bound));
            let remark = finding.remark.as_deref().unwrap_or("");
            let row = [
                &chapter.name,
                paper,
                figure,
                &finding.expect.text,
                &finding.point,
                &definition,
                &measured,
                &measured_half,
                &traces,
                &low,
                &high,
                &simulated,
                &simulated_half,
                &bound,
                finding.verdict.text(),
                remark,
            ];
            text.push_str(&line(row));
        }
    }
    text
}

fn runs_csv(chapters: &[Chapter]) -> String {
    let mut text = String::from(
        "experiment,point,run,server,policy,shaping,completed,incomplete,bytes,mean_ms,mean_ci95_half_ms,p50_ms,p90_ms,p99_ms,p999_ms,\
         max_ms,variance_ms2,scv,slowdown_mean,bound_ratio,first_byte_ms,top_1_percent_ms,connections_max,syn_drops,accept_drops,server_cpu,\
         lateness_p99_ms,bound_ms,packet_bound_ms,packet_bound_ratio,beat_wire_time,baseline,void,not_a_wire\n",
    );
    let points = chapters.iter().flat_map(|chapter| chapter.points.iter().map(move |point| (chapter, point)));
    for (chapter, point) in points {
        for (run, extras) in point.summary.runs.iter().zip(&point.extras) {
            let numbers: Vec<String> = run_numbers(point, run, extras).into_iter().map(number).collect();
            let names = [&chapter.name, &point.name, &run.name, &run.server, &run.policy, &run.shaping];
            let baseline = extras.baseline.map_or("", |base| point.summary.runs[base].name.as_str());
            let last = [baseline, run.void.as_deref().unwrap_or(""), run.not_a_wire.as_deref().unwrap_or("")];
            text.push_str(&line(
                names.into_iter().map(String::as_str).chain(numbers.iter().map(String::as_str)).chain(last),
            ));
        }
    }
    text
}

/// In the order of the columns.
fn run_numbers(point: &PointReport, run: &RunSummary, extras: &Extras) -> Vec<Option<f64>> {
    let times = &run.response_time_ms;
    vec![
        Some(run.completed as f64),
        Some(run.incomplete as f64),
        Some(run.bytes as f64),
        Some(times.mean),
        run.mean_ms_half_width,
        Some(times.p50),
        Some(times.p90),
        Some(times.p99),
        extras.p999_ms,
        Some(times.max),
        extras.variance_ms2,
        extras.scv,
        Some(run.slowdown_mean),
        Some(run.bound_ratio),
        extras.first_byte_ms,
        extras.top_1_percent_ms,
        extras.connections_max,
        extras.syn_drops,
        extras.accept_drops,
        run.server_cpu,
        run.client_lateness_p99_ms,
        Some(point.summary.bound_ms),
        run.packet_bound_ms.or(Some(point.summary.packet_bound_ms)),
        Some(run.packet_bound_ratio),
        Some(run.beat_wire_time as f64),
    ]
}

fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or(String::new(), |value| value.to_string())
}

/// As RFC 4180 has it: what holds a comma, a quote or a line break stands in quotes.
pub(crate) fn line<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |cell: &str| match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_string(),
    };
    cells.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}
