//! The tables of the page: claims and verdicts, and what every run came to.

use std::fmt::Write as _;

use super::html::{escape, slug};
use super::{badge, tally};
use crate::cells::{self, Cell};
use crate::chapter::{Chapter, PointReport};

/// One row per experiment: which figure, what it claims, what became of it.
pub(super) fn overview(body: &mut String, chapters: &[Chapter]) {
    if chapters.len() < 2 {
        return;
    }
    body.push_str(
        "<div class=\"scroll\"><table id=\"overview\"><thead><tr><th>experiment</th><th>figure</th><th>claim</th><th>what became of it</th></tr></thead><tbody>\n",
    );
    for chapter in chapters {
        let figure = chapter.described.figure.as_ref();
        let mut verdicts: Vec<&str> = chapter.findings.iter().map(|finding| finding.verdict.key()).collect();
        verdicts.sort_unstable();
        verdicts.dedup();
        let _ = writeln!(
            body,
            "<tr data-experiment=\"{0}\" data-verdict=\"{1}\"><td><a href=\"#{0}\">{2}</a></td><td>{3}</td><td>{4}</td><td>{5}</td></tr>",
            slug(&chapter.name),
            verdicts.join(" "),
            escape(&chapter.name),
            figure.map_or(String::new(), |figure| escape(&figure.title())),
            figure.map_or_else(|| escape(&chapter.described.question), |figure| escape(&figure.claim)),
            figure.map_or(String::new(), |_| tally(&chapter.tally())),
        );
    }
    body.push_str("</tbody></table></div>\n");
}

/// Claim, measured, simulated, bound, verdict.
pub(super) fn claims(body: &mut String, chapter: &Chapter) {
    let heading: String = cells::CLAIM_COLUMNS.iter().map(|name| format!("<th>{name}</th>")).collect();
    let _ = writeln!(body, "<div class=\"scroll\"><table class=\"claims\"><thead><tr>{heading}</tr></thead><tbody>");
    for finding in &chapter.findings {
        let [claim, measured, simulated, bound] = cells::claim(finding).map(|text| escape(&text));
        let (servers, policies) = of_runs(chapter, finding);
        let struck = if finding.verdict == crate::Verdict::Void { " class=\"void\"" } else { "" };
        let remark =
            finding.remark.as_ref().map_or(String::new(), |remark| format!(" <small>{}</small>", escape(remark)));
        let _ = writeln!(
            body,
            "<tr{struck} data-claim data-experiment=\"{}\" data-verdict=\"{}\" data-server=\"{servers}\" data-policy=\"{policies}\">\
             <td>{claim}</td><td class=\"value\" data-of=\"measured\">{measured}</td><td class=\"value\" data-of=\"simulated\">{simulated}</td>\
             <td class=\"value\" data-of=\"bound\">{bound}</td>\
             <td>{}{remark}</td></tr>",
            slug(&chapter.name),
            finding.verdict.key(),
            badge(finding.verdict),
        );
    }
    body.push_str("</tbody></table></div>\n");
}

/// Servers and policies of the runs that a finding speaks of, for filters.
fn of_runs(chapter: &Chapter, finding: &crate::Finding) -> (String, String) {
    let names = [Some(&finding.expect.of), finding.expect.over.as_ref()];
    let point = chapter.points.iter().find(|point| point.name == finding.point);
    let runs = point.iter().flat_map(|point| &point.summary.runs).filter(|run| names.contains(&Some(&run.name)));
    let (servers, policies): (Vec<String>, Vec<String>) =
        runs.map(|run| (slug(&run.server), slug(&run.policy))).unzip();
    (servers.join(" "), policies.join(" "))
}

/// Every run of a point; void ones struck through, with the reason.
pub(super) fn runs(body: &mut String, chapter: &Chapter, point: &PointReport) {
    let columns = cells::run_columns(point);
    let heading: String = columns.iter().map(|column| format!("<th>{}</th>", escape(column))).collect();
    let _ = writeln!(body, "<div class=\"scroll\"><table class=\"runs\"><thead><tr>{heading}</tr></thead><tbody>");
    for (at, run) in point.summary.runs.iter().enumerate() {
        let verdict = if run.void.is_some() { "void" } else { "valid" };
        let cells: String = cells::run(point, at).iter().enumerate().map(|(n, cell)| td(cell, n)).collect();
        let _ = writeln!(
            body,
            "<tr class=\"{verdict}\" data-run=\"{}\" data-experiment=\"{}\" data-server=\"{}\" data-policy=\"{}\" data-verdict=\"{verdict}\">{cells}</tr>",
            slug(&run.name),
            slug(&chapter.name),
            slug(&run.server),
            slug(&run.policy),
        );
    }
    body.push_str("</tbody></table></div>\n");
    let void = point.summary.runs.iter().filter_map(|run| Some((&run.name, run.void.as_ref()?)));
    let void: Vec<String> =
        void.map(|(name, why)| format!("<li><b>Void: {}.</b> {}</li>", escape(name), escape(why))).collect();
    let no_wire = point.summary.runs.iter().filter_map(|run| Some((&run.name, run.not_a_wire.as_ref()?)));
    let no_wire = no_wire.map(|(name, why)| format!("<li><b>Not a wire: {}.</b> {}</li>", escape(name), escape(why)));
    let apart = point.summary.runs.iter().filter_map(|run| Some((&run.name, run.not_comparable.as_ref()?)));
    let apart = apart.map(|(name, why)| format!("<li><b>Not comparable: {}.</b> {}</li>", escape(name), escape(why)));
    let not_here = cells::not_here(&point.summary.skipped).into_iter();
    let not_here =
        not_here.map(|(names, why)| format!("<li><b>Not here: {}.</b> {}</li>", escape(&names), escape(why)));
    let reasons: String = void.into_iter().chain(no_wire).chain(apart).chain(not_here).collect();
    if !reasons.is_empty() {
        let _ = writeln!(body, "<ul class=\"reasons\">{reasons}</ul>");
    }
}

fn td(cell: &Cell, at: usize) -> String {
    let class = match cell {
        _ if at == 0 => "name",
        Cell::Text(_) => "",
        Cell::Value(_) => "value",
        Cell::Better(_) => "value better",
        Cell::Worse(_) => "value worse",
    };
    let mark = match cell {
        Cell::Worse(_) => " <abbr title=\"worse than the baseline by more than 10 %\">▲</abbr>",
        _ => "",
    };
    format!("<td class=\"{class}\">{}{mark}</td>", escape(cell.text()))
}
