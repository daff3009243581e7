//! What a plan says: the table, the text for a `weir.toml`, JSON and CSV.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use cli::Failure;
use serde_json::{Value, json};
use stats::Interval;

use super::class::Planned;
use super::judge::{Bench, Judged, Kept};
use super::{FRESH_FROM, Found, LINK_FACTOR_MAX};

/// Rows of the table; the rest is in the CSV.
const ROWS_MAX: usize = 12;

/// The classes with objectives.
fn aimed(bench: &Bench) -> impl Iterator<Item = (&Planned, &config::Objective)> {
    bench.classes.iter().filter_map(|class| Some((class, class.objective.as_ref()?)))
}

/// Whose slowdown is the price of a setting, as [`Judged::others`] has it.
fn payers(bench: &Bench) -> &'static str {
    if aimed(bench).count() == bench.classes.len() { "all classes" } else { "the others" }
}

/// `99.32 ± 0.11`, of 100.
fn percent(interval: Interval) -> String {
    format!("{:.2} ± {:.2}", 100.0 * interval.mean, 100.0 * interval.half_width)
}

pub fn print(bench: &Bench, found: &Found, seeds: u64, as_json: bool) -> Result<(), Failure> {
    let text = if as_json { json(bench, found).to_string() + "\n" } else { text(bench, found, seeds) };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

pub(super) fn text(bench: &Bench, found: &Found, seeds: u64) -> String {
    let requests = bench.trace.arrivals.len();
    let mut text = format!("{requests} requests on {} at rho {}, seeds 1 to {seeds}\n", bench.link, bench.rho);
    for class in &bench.classes {
        let objective = class.objective.as_ref().map_or(String::new(), |objective| format!(", {objective}"));
        let _ = writeln!(text, "class {}: {} % of the requests{objective}", class.name, round(100.0 * class.share));
    }
    text += &table(bench, &found.judged);
    for (pick, holds) in &found.held {
        let verdict = if *holds { "holds" } else { "does not hold" };
        let kept: Vec<String> = pick.kept.iter().map(|kept| format!("{} % met", percent(kept.met))).collect();
        let fresh = format!("seeds {FRESH_FROM} to {}", FRESH_FROM + seeds - 1);
        let words = pick.candidate.words(&bench.classes);
        let _ = writeln!(text, "\n{words} {verdict} with {fresh}: {}", kept.join(", "));
    }
    match found.held.last().filter(|(_, holds)| *holds) {
        Some((pick, _)) => {
            if pick.candidate.is_plain() {
                text += "\nNo weight, rate or slot is needed on this link.\n";
            }
            let _ = write!(text, "\nFor weir.toml:\n\n{}", pick.candidate.toml(&bench.classes, bench.link));
        }
        None => text += &nearest(bench, found, seeds),
    }
    text
}

/// Where no setting is taken: what would help.
fn nearest(bench: &Bench, found: &Found, seeds: u64) -> String {
    if !found.held.is_empty() {
        return "\nNone held with other seeds: try more --seeds or --jobs.\n".into();
    }
    let Some(nearest) = found.judged.first() else { return String::new() };
    let words = nearest.candidate.words(&bench.classes);
    let mut text = format!("\nNone meets all objectives. The nearest is {words}, burn {:.2}.\n", nearest.burn_max());
    if nearest.burn_max() <= 1.0 {
        let _ = writeln!(text, "Its mean meets them, but {seeds} seeds leave it open: try more --seeds or --jobs.");
    }
    text += &match &found.faster {
        Some((link, _)) => format!("With it a link of {link} would do for the same requests.\n"),
        None => format!("A link {LINK_FACTOR_MAX} times as fast would not do either.\n"),
    };
    text
}

fn table(bench: &Bench, judged: &[Judged]) -> String {
    let met = judged.iter().filter(|judged| judged.meets).count();
    let mut rows = vec![vec!["setting".to_string(), "meets".into()]];
    rows[0].extend(aimed(bench).map(|(class, _)| format!("{}: % met", class.name)));
    rows[0].extend(["burn".into(), format!("slowdown of {}", payers(bench))]);
    let is_alike = |a: &&Judged, b: &&Judged| (&a.kept, a.others) == (&b.kept, b.others);
    let all: Vec<&Judged> = judged.iter().collect();
    for alike in all.chunk_by(is_alike).take(ROWS_MAX) {
        let (judged, more) = (alike[0], alike.len() - 1);
        let more = if more > 0 { format!(" (and {more} alike)") } else { String::new() };
        let mut row = vec![judged.candidate.words(&bench.classes) + &more, yes(judged.meets).into()];
        row.extend(judged.kept.iter().map(|kept| percent(kept.met)));
        row.push(format!("{:.2}", judged.burn_max()));
        row.push(format!("{:.2} ± {:.2}", judged.others.mean, judged.others.half_width));
        rows.push(row);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let order = if met > 0 { format!("cost {} least", payers(bench)) } else { "come nearest".into() };
    let mut text = format!("{met} of {} settings meet all objectives; the first {order}\n\n", judged.len());
    for row in &rows {
        let line: String = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}  ")).collect();
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

/// To a hundredth.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn json(bench: &Bench, found: &Found) -> Value {
    let of = |judged: &Judged| as_json(bench, judged);
    let held = found.held.iter().map(|(judged, holds)| json!({ "setting": of(judged), "holds": holds }));
    json!({
        "requests": bench.trace.arrivals.len(),
        "link_bps": bench.link.bits_per_s(),
        "rho": bench.rho,
        "settings": found.judged.iter().map(of).collect::<Vec<_>>(),
        "fresh_seeds": held.collect::<Vec<_>>(),
        "link_that_would_do_bps": found.faster.as_ref().map(|(link, _)| link.bits_per_s()),
    })
}

fn as_json(bench: &Bench, judged: &Judged) -> Value {
    let kept = |((class, objective), kept): ((&Planned, &config::Objective), &Kept)| {
        json!({
            "class": class.name,
            "objective": objective.to_string(),
            "met": kept.met.mean,
            "met_half_width": kept.met.half_width,
            "burn": kept.burn,
        })
    };
    json!({
        "setting": judged.candidate.words(&bench.classes),
        "meets": judged.meets,
        "objectives": aimed(bench).zip(&judged.kept).map(kept).collect::<Vec<_>>(),
        "others_slowdown": judged.others.mean,
        "others_slowdown_half_width": judged.others.half_width,
    })
}

fn about(folder: &Path) -> impl Fn(io::Error) -> Failure {
    let folder = folder.display().to_string();
    move |error| {
        Failure::Failed(format!(
            "--out {folder}: cannot write the plan there ({error}): give a folder that can be written"
        ))
    }
}

/// Before anything is simulated for it.
pub fn make(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(about(folder))
}

/// `plan.csv`, a row for each setting and objective.
pub fn write(folder: &Path, bench: &Bench, judged: &[Judged]) -> Result<(), Failure> {
    fs::write(folder.join("plan.csv"), csv(bench, judged)).map_err(about(folder))
}

fn csv(bench: &Bench, judged: &[Judged]) -> String {
    let mut text =
        "setting,class,objective,met,met_half_width,burn,others_slowdown,others_half_width,meets\n".to_string();
    for one in judged {
        for ((class, objective), kept) in aimed(bench).zip(&one.kept) {
            let (setting, Interval { mean, half_width }) = (one.candidate.words(&bench.classes), kept.met);
            let others = one.others;
            let _ = writeln!(
                text,
                "\"{setting}\",{},{objective},{mean:.6},{half_width:.6},{:.4},{:.4},{:.4},{}",
                class.name,
                kept.burn,
                others.mean,
                others.half_width,
                yes(one.meets),
            );
        }
    }
    text
}
