//! A report as Markdown, for pages under `docs/reproduction/`.

use std::fmt::Write as _;

use crate::cells::{self, CLAIM_COLUMNS};
use crate::chapter::{Chapter, PointReport};
use crate::verdict::Verdict;

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
        cells::run(point, at).iter().map(|cell| strike(cell)).collect()
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

/// As RFC 4180 has it: what holds a comma, a quote or a line break stands in quotes.
pub(crate) fn line<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |cell: &str| match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_string(),
    };
    cells.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}
