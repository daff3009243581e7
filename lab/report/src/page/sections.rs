//! The parts of the page around its tables and pictures: what it holds, filters, comparison, headings.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::html::{escape, slug};
use super::tables;
use super::{badge, tally};
use crate::cells;
use crate::chapter::{Chapter, PointReport};
use crate::verdict::Verdict;

/// Title, filters, one row per experiment, and where any two runs are compared.
pub(super) fn overview(body: &mut String, title: &str, chapters: &[Chapter]) {
    let runs: usize = chapters.iter().flat_map(|chapter| &chapter.points).map(|point| point.summary.runs.len()).sum();
    let claims = chapters.iter().flat_map(|chapter| &chapter.findings);
    let counts: Vec<String> = Verdict::ALL
        .into_iter()
        .map(|verdict| (verdict, claims.clone().filter(|finding| finding.verdict == verdict).count()))
        .filter(|(_, count)| *count > 0)
        .map(|(verdict, count)| format!("{count} {}", badge(verdict)))
        .collect();
    let _ = writeln!(
        body,
        "<header><h1>{}</h1><p>{} experiments, {runs} runs. {}</p></header>",
        escape(title),
        chapters.len(),
        if counts.is_empty() { "No claims to check.".into() } else { format!("Claims: {}.", counts.join(", ")) },
    );
    filters(body, chapters);
    body.push_str(
        "<noscript><p class=\"note\">Without scripts there are no plots, no filters and no comparison; <code>weirlab report --csv</code> \
         writes what the plots show.</p></noscript>\n",
    );
    tables::overview(body, chapters);
    body.push_str(COMPARISON);
}

const COMPARISON: &str = "\
<section id=\"compare\" class=\"script\"><h2>Compare two runs</h2>
<p class=\"row\"><label>baseline <select id=\"compare-a\"></select></label>
<label>against <select id=\"compare-b\"></select></label></p>
<div class=\"plots\"><div id=\"compare-table\" class=\"scroll\"></div><div id=\"compare-plots\"></div></div></section>
";

fn filters(body: &mut String, chapters: &[Chapter]) {
    let runs = || chapters.iter().flat_map(|chapter| &chapter.points).flat_map(|point| &point.summary.runs);
    let experiments: Vec<&str> = chapters.iter().map(|chapter| chapter.name.as_str()).collect();
    let servers: BTreeSet<&str> = runs().map(|run| run.server.as_str()).collect();
    let policies: BTreeSet<&str> = runs().map(|run| run.policy.as_str()).collect();
    let select = |name: &str, options: Vec<(String, &str)>| {
        let options =
            options.iter().map(|(value, text)| format!("<option value=\"{value}\">{}</option>", escape(text)));
        format!(
            "<label>{name} <select data-filter=\"{name}\"><option value=\"\">all</option>{}</select></label> ",
            options.collect::<String>()
        )
    };
    let verdicts = Verdict::ALL.into_iter().map(|verdict| (verdict.key().to_string(), verdict.text())).collect();
    let _ = writeln!(
        body,
        "<form id=\"filters\" class=\"script row\" aria-label=\"filters\">{}{}{}{}\
         <button type=\"reset\">reset</button> <button type=\"button\" id=\"theme\">light / dark</button> \
         <output id=\"shown\"></output></form>",
        select("experiment", slugs(experiments)),
        select("server", slugs(servers)),
        select("policy", slugs(policies)),
        select("verdict", verdicts),
    );
}

/// Names with what filters call them.
fn slugs<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(String, &'a str)> {
    names.into_iter().map(|name| (slug(name), name)).collect()
}

/// Name, question and claims; the section is left open.
pub(super) fn chapter_head(body: &mut String, chapter: &Chapter) {
    let figure = chapter.described.figure.as_ref();
    let title = figure.map_or(String::new(), |figure| format!("{}: ", figure.title()));
    let _ = writeln!(
        body,
        "<section class=\"chapter\" id=\"{}\" data-experiment=\"{0}\"><h2>{}{}</h2>",
        slug(&chapter.name),
        escape(&title),
        escape(&chapter.name)
    );
    if !chapter.described.question.is_empty() {
        let _ = writeln!(body, "<p>{}</p>", escape(&chapter.described.question));
    }
    if let Some(figure) = figure {
        let _ = writeln!(body, "<p>The paper: <q>{}</q> {}</p>", escape(&figure.claim), tally(&chapter.tally()));
        if !chapter.findings.is_empty() {
            tables::claims(body, chapter);
        }
    }
    left_out(body, chapter);
}

/// Points and runs that are not here.
fn left_out(body: &mut String, chapter: &Chapter) {
    for (names, reason) in cells::not_here(&chapter.left_out) {
        let (names, reason) = (escape(&names), escape(reason));
        let _ = writeln!(body, "<p class=\"note\"><b>Not here: {names}.</b> {reason}</p>");
    }
}

/// What was the same for the runs of a point; the details are left open, and unfolded where there is one point only.
pub(super) fn point_head(body: &mut String, chapter: &Chapter, point: &PointReport) {
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
    let _ = writeln!(
        body,
        "<details class=\"point\"{}><summary><h3>{}</h3></summary>\n<p>{} requests, link {link}, load {} asked for and {:.3} \
         offered on the wire; {}. Mean response time of the clairvoyant bound {}, of the packet bound {}, of ideal processor sharing {}. {}</p>",
        if chapter.points.len() == 1 { " open" } else { "" },
        escape(&name),
        summary.jobs,
        summary.rho,
        summary.rho_measured,
        escape(&point.conditions),
        crate::axis::millis_label(summary.bound_ms),
        crate::axis::millis_label(summary.packet_bound_ms),
        crate::axis::millis_label(summary.ideal_ps_ms),
        cells::BOUNDS,
    );
}
