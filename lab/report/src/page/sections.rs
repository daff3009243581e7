//! The parts of the page around its tables and pictures: what it holds, filters, comparison, headings.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::html::slug;
use super::tables;
use super::{badge, tally};
use crate::axis::millis_label;
use crate::cells;
use crate::chapter::{Chapter, PointReport};
use crate::verdict::Verdict;

/// Title, filters, one row per experiment, and where any two runs are compared.
pub(super) fn overview(title: &str, chapters: &[Chapter]) -> Markup {
    let runs: usize = chapters.iter().flat_map(|chapter| &chapter.points).map(|point| point.summary.runs.len()).sum();
    html! {
        header {
            h1 { (title) }
            p { (chapters.len()) " experiments, " (runs) " runs. " (claims(chapters)) }
        }
        (filters(chapters))
        noscript {
            p class="note" {
                "Without scripts there are no plots, no filters and no comparison; " code { "weirlab report --csv" }
                " writes what the plots show."
            }
        }
        (tables::overview(chapters))
        (comparison())
    }
}

/// How many have which verdict.
fn claims(chapters: &[Chapter]) -> Markup {
    let claims = || chapters.iter().flat_map(|chapter| &chapter.findings);
    let count = |verdict| (verdict, claims().filter(|finding| finding.verdict == verdict).count());
    let counts: Vec<_> = Verdict::ALL.map(count).into_iter().filter(|(_, count)| *count > 0).collect();
    html! {
        @if counts.is_empty() {
            "No claims to check."
        } @else {
            "Claims: "
            @for (at, (verdict, count)) in counts.into_iter().enumerate() {
                @if at > 0 { ", " }
                (count) " " (badge(verdict))
            }
            "."
        }
    }
}

fn comparison() -> Markup {
    html! {
        section id="compare" class="script" {
            h2 { "Compare two runs" }
            p class="row" {
                label { "baseline " select id="compare-a" {} } " "
                label { "against " select id="compare-b" {} }
            }
            div class="plots" {
                div id="compare-table" class="scroll" {}
                div id="compare-plots" {}
            }
        }
    }
}

fn filters(chapters: &[Chapter]) -> Markup {
    let runs = || chapters.iter().flat_map(|chapter| &chapter.points).flat_map(|point| &point.summary.runs);
    let experiments: Vec<&str> = chapters.iter().map(|chapter| chapter.name.as_str()).collect();
    let servers: BTreeSet<&str> = runs().map(|run| run.server.as_str()).collect();
    let policies: BTreeSet<&str> = runs().map(|run| run.policy.as_str()).collect();
    let verdicts = Verdict::ALL.map(|verdict| (verdict.key().to_string(), verdict.text()));
    let select = |name: &str, options: Vec<(String, &str)>| {
        html! {
            label {
                (name) " "
                select data-filter=(name) {
                    option value="" { "all" }
                    @for (value, text) in options { option value=(value) { (text) } }
                }
            }
            " "
        }
    };
    html! {
        form id="filters" class="script row" aria-label="filters" {
            (select("experiment", slugs(experiments)))
            (select("server", slugs(servers)))
            (select("policy", slugs(policies)))
            (select("verdict", verdicts.into()))
            button type="reset" { "reset" } " "
            button type="button" id="theme" { "light / dark" } " "
            output id="shown" {}
        }
    }
}

/// Names with what filters call them.
fn slugs<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(String, &'a str)> {
    names.into_iter().map(|name| (slug(name), name)).collect()
}

/// Name, question and claims, then its points.
pub(super) fn chapter(chapter: &Chapter, points: Markup) -> Markup {
    let figure = chapter.described.figure.as_ref();
    let question = &chapter.described.question;
    html! {
        section class="chapter" id=(slug(&chapter.name)) data-experiment=(slug(&chapter.name)) {
            h2 { @if let Some(figure) = figure { (figure.title()) ": " } (chapter.name) }
            @if !question.is_empty() { p { (question) } }
            @if let Some(figure) = figure {
                p { "The paper: " q { (figure.claim) } " " (tally(&chapter.tally())) }
                @if !chapter.findings.is_empty() { (tables::claims(chapter)) }
            }
            // Points and runs that are not here.
            @for (names, reason) in cells::not_here(&chapter.left_out) {
                p class="note" { b { "Not here: " (names) "." } " " (reason) }
            }
            (points)
        }
    }
}

/// What was the same for the runs of a point, then what it holds; unfolded where there is one point only.
pub(super) fn point(chapter: &Chapter, point: &PointReport, content: Markup) -> Markup {
    let values: Vec<String> = point.values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let name = if !values.is_empty() {
        values.join(", ")
    } else if point.name.is_empty() {
        "Runs".into()
    } else {
        point.name.clone()
    };
    let summary = &point.summary;
    let link = units::Rate::from_bits_per_s(summary.link_bps).map_or(String::new(), |rate| rate.to_string());
    html! {
        details class="point" open[chapter.points.len() == 1] {
            summary { h3 { (name) } }
            p {
                (summary.jobs) " requests, link " (link) ", load " (summary.rho) " asked for and "
                (format!("{:.3}", summary.rho_measured)) " offered on the wire; " (point.conditions)
                ". Mean response time of the clairvoyant bound " (millis_label(summary.bound_ms)) ", of the packet bound "
                (millis_label(summary.packet_bound_ms)) ", of ideal processor sharing " (millis_label(summary.ideal_ps_ms))
                ". " (cells::BOUNDS)
            }
            (content)
        }
    }
}
