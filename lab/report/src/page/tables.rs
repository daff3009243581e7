//! The tables of the page: claims and verdicts, and what every run came to.

use maud::{Markup, html};

use super::html::slug;
use super::{badge, tally};
use crate::cells::{self, Cell};
use crate::chapter::{Chapter, PointReport};
use crate::summary::RunSummary;

/// One row per experiment: which figure, what it claims, what became of it.
pub(super) fn overview(chapters: &[Chapter]) -> Markup {
    let rows = if chapters.len() < 2 { &[] } else { chapters };
    html! {
        @if !rows.is_empty() {
            div class="scroll" {
                table id="overview" {
                    thead { tr { th { "experiment" } th { "figure" } th { "claim" } th { "what became of it" } } }
                    tbody { @for chapter in rows { (overview_row(chapter)) } }
                }
            }
        }
    }
}

fn overview_row(chapter: &Chapter) -> Markup {
    let figure = chapter.described.figure.as_ref();
    let mut verdicts: Vec<&str> = chapter.findings.iter().map(|finding| finding.verdict.key()).collect();
    verdicts.sort_unstable();
    verdicts.dedup();
    let name = slug(&chapter.name);
    html! {
        tr data-experiment=(name) data-verdict=(verdicts.join(" ")) {
            td { a href={ "#" (name) } { (chapter.name) } }
            td { @if let Some(figure) = figure { (figure.title()) } }
            td { (figure.map_or(&chapter.described.question, |figure| &figure.claim)) }
            td { @if figure.is_some() { (tally(&chapter.tally())) } }
        }
    }
}

/// Claim, measured, simulated, bound, verdict.
pub(super) fn claims(chapter: &Chapter) -> Markup {
    html! {
        div class="scroll" {
            table class="claims" {
                thead { tr { @for name in cells::CLAIM_COLUMNS { th { (name) } } } }
                tbody { @for finding in &chapter.findings { (claim(chapter, finding)) } }
            }
        }
    }
}

fn claim(chapter: &Chapter, finding: &crate::Finding) -> Markup {
    let [claim, measured, simulated, bound] = cells::claim(finding);
    let (servers, policies) = of_runs(chapter, finding);
    let struck = (finding.verdict == crate::Verdict::Void).then_some("void");
    let (experiment, verdict) = (slug(&chapter.name), finding.verdict.key());
    html! {
        tr class=[struck] data-claim data-experiment=(experiment) data-verdict=(verdict)
            data-server=(servers) data-policy=(policies) {
            td { (claim) }
            td class="value" data-of="measured" { (measured) }
            td class="value" data-of="simulated" { (simulated) }
            td class="value" data-of="bound" { (bound) }
            td { (badge(finding.verdict)) @if let Some(remark) = &finding.remark { " " small { (remark) } } }
        }
    }
}

/// Servers and policies of the runs that a finding speaks of, for filters.
fn of_runs(chapter: &Chapter, finding: &crate::Finding) -> (String, String) {
    let names = [Some(&finding.expect.of), finding.expect.over.as_ref()];
    let point = chapter.points.iter().find(|point| crate::is_at(&finding.point, &point.name));
    let runs = point.iter().flat_map(|point| &point.summary.runs).filter(|run| names.contains(&Some(&run.name)));
    let (servers, policies): (Vec<String>, Vec<String>) =
        runs.map(|run| (slug(&run.server), slug(&run.policy))).unzip();
    (servers.join(" "), policies.join(" "))
}

/// Every run of a point; void ones struck through, with the reason.
pub(super) fn runs(chapter: &Chapter, point: &PointReport) -> Markup {
    let reasons = reasons(point);
    html! {
        div class="scroll" {
            table class="runs" {
                thead { tr { @for column in cells::run_columns(point) { th { (column) } } } }
                tbody {
                    @for (at, run) in point.summary.runs.iter().enumerate() {
                        (run_row(chapter, run, &cells::run(point, at)))
                    }
                }
            }
        }
        @if !reasons.is_empty() {
            ul class="reasons" {
                @for (what, name, why) in reasons { li { b { (what) ": " (name) "." } " " (why) } }
            }
        }
    }
}

fn run_row(chapter: &Chapter, run: &RunSummary, cells: &[Cell]) -> Markup {
    let verdict = if run.void.is_some() { "void" } else { "valid" };
    let (name, experiment) = (slug(&run.name), slug(&chapter.name));
    let (server, policy) = (slug(&run.server), slug(&run.policy));
    html! {
        tr class=(verdict) data-run=(name) data-experiment=(experiment) data-server=(server) data-policy=(policy)
            data-verdict=(verdict) {
            @for (at, cell) in cells.iter().enumerate() { (td(cell, at)) }
        }
    }
}

/// What is to be known of runs, of which, and why.
fn reasons(point: &PointReport) -> Vec<(&'static str, String, &str)> {
    let of = |what, why: fn(&RunSummary) -> Option<&str>| {
        point.summary.runs.iter().filter_map(move |run| Some((what, run.name.clone(), why(run)?)))
    };
    let void = of("Void", |run| run.void.as_deref());
    let no_wire = of("Not a wire", |run| run.not_a_wire.as_deref());
    let apart = of("Not comparable", |run| run.not_comparable.as_deref());
    let not_here = cells::not_here(&point.summary.skipped).into_iter();
    let not_here = not_here.map(|(names, why)| ("Not here", names, why));
    void.chain(no_wire).chain(apart).chain(not_here).collect()
}

fn td(cell: &Cell, at: usize) -> Markup {
    let class = match cell {
        _ if at == 0 => "name",
        Cell::Text(_) => "",
        Cell::Value(_) => "value",
        Cell::Better(_) => "value better",
        Cell::Worse(_) => "value worse",
    };
    html! {
        td class=(class) {
            (cell.text())
            @if let Cell::Worse(_) = cell { " " abbr title="worse than the baseline by more than 10 %" { "▲" } }
        }
    }
}
