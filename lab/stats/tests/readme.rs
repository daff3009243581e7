//! The tables of README.md against their sources: kept runs, and for the lines whose rate is found the notebook.

use std::path::{Path, PathBuf};

use serde_json::Value;
use stats::interval_95;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The rows of the page's tables that have so many cells, without the heading.
fn rows(page: &str, cells: usize) -> Vec<Vec<String>> {
    let split = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect();
    let rows = page.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---")).map(split);
    rows.filter(|row: &Vec<String>| row.len() == cells).skip(1).collect()
}

/// The numbers of a text, as they are written.
fn numbers(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).collect()
}

/// The geometric mean of ratios, and its 95 % interval by Student's t over their logarithms.
fn factor(ratios: &[f64]) -> [f64; 3] {
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let interval = interval_95(&logarithms).expect("two ratios at least");
    [interval.mean, interval.mean - interval.half_width, interval.mean + interval.half_width].map(f64::exp)
}

/// Compares a cell, a mean with or without its interval, to the digits that it has.
fn check(row: &[String], cell: &str, figures: [f64; 3]) {
    let numbers = numbers(cell);
    assert!([1, 3].contains(&numbers.len()), "{row:?}: {cell}");
    for (number, figure) in numbers.iter().zip(figures) {
        let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len());
        assert_eq!(*number, format!("{figure:.digits$}"), "{row:?}: {cell}, expected {figures:?}");
    }
}

fn summary(path: &str) -> Value {
    serde_json::from_str(&read(path)).unwrap()
}

/// A figure of a run of a summary, by the path to it.
fn figure(summary: &Value, run: &str, path: &str) -> f64 {
    let runs = summary["runs"].as_array().unwrap();
    let run = runs.iter().find(|known| known["name"] == run).unwrap_or_else(|| panic!("no run {run}"));
    run.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} of {run}"))
}

/// The peer's figure over Weir's, in each of the summaries.
fn ratios(summaries: &[Value], [peer, weir]: [&str; 2], path: &str) -> Vec<f64> {
    summaries.iter().map(|summary| figure(summary, peer, path) / figure(summary, weir, path)).collect()
}

#[test]
fn queues_are_those_of_the_kept_runs() {
    let page = read("README.md");
    let mut checked = 0;
    for row in rows(&page, 6) {
        let (folder, traces, peer) = match [&row[0], &row[1], &row[2]].map(String::as_str) {
            ["fq_codel", "near", "told"] => ("queues-0.8", 101..=110, "nginx-fq-codel"),
            ["CAKE", "near", "told"] => ("queues-0.8", 101..=110, "nginx-cake"),
            ["CAKE", "50 ms away", "told"] => ("queues-50ms", 101..=103, "nginx-cake"),
            ["CAKE, 100 Mbit/s", "near", "told"] => ("queues-100mbit", 101..=109, "nginx-cake"),
            ["FIFO", "near", "told"] => ("queues-0.8", 101..=110, "nginx-fifo"),
            _ => continue,
        };
        let of_trace =
            |trace| summary(&format!("results/2026-11-23-vm5-virtual/queues/{folder}-trace-{trace}/summary.json"));
        let summaries: Vec<Value> = traces.map(of_trace).collect();
        let paths = ["/response_time_ms/mean", "/size_class_ms/p0_50", "/size_class_ms/p995_100"];
        for (cell, path) in row[3..].iter().zip(paths) {
            check(&row, cell, factor(&ratios(&summaries, [peer, "weir-paced"], path)));
        }
        checked += 1;
    }
    assert_eq!(checked, 5);
}

/// The notebook has mean response times over those of a Weir that was told the rate, by seed.
#[test]
fn lines_at_thirty_milliseconds_are_those_of_the_notebook() {
    let notebook = read("docs/notebook/line.md");
    let source = notebook.lines().find(|line| line.starts_with("| row: 10 Mbit/s, FIFO of 100, 30 ms")).unwrap();
    let series = |mark: &str| -> Vec<f64> {
        let (_, behind) = source.split_once(mark).unwrap_or_else(|| panic!("no `{mark}`: {source}"));
        let end = behind.find([';', '|']).unwrap();
        numbers(&behind[..end]).iter().map(|number| number.parse().unwrap()).collect()
    };
    let (found, nginx, autorate) = (series("seeds 1, 2, 3 |"), series("; nginx "), series("behind cake-autorate "));
    assert_eq!((found.len(), nginx.len(), autorate.len()), (3, 3, 2), "{source}");
    let over_found = |times: &[f64]| -> Vec<f64> { times.iter().zip(&found).map(|(time, own)| time / own).collect() };
    let page = read("README.md");
    let mut checked = 0;
    for row in rows(&page, 6).iter().filter(|row| row[1] == "30 ms away" && ["told", "found"].contains(&&*row[2])) {
        let ratios = match [&row[0], &row[2]].map(String::as_str) {
            ["FIFO of a router", "told"] => nginx.clone(),
            ["FIFO of a router", "found"] => over_found(&nginx),
            ["CAKE with cake-autorate", "found"] => over_found(&autorate),
            _ => panic!("a row without a source: {row:?}"),
        };
        check(row, &row[3], factor(&ratios));
        checked += 1;
    }
    assert_eq!(checked, 3);
}

#[test]
fn pages_are_those_of_the_kept_runs() {
    let page = read("README.md");
    let of_seed = |seed| summary(&format!("results/2026-11-23-vm5-virtual/pages/summary-seed-{seed}.json"));
    let summaries: Vec<Value> = (1..=5).map(of_seed).collect();
    let mut checked = 0;
    for row in rows(&page, 6) {
        let peer = match [&row[0], &row[1]].map(String::as_str) {
            ["nginx, fq_codel", "near"] => "nginx-h2",
            ["H2O, fq_codel", "near"] => "h2o-h2",
            _ => continue,
        };
        let paths = ["first_view_ms/mean", "first_view_ms/p95", "full_ms/mean", "full_ms/p95"];
        for (cell, path) in row[2..].iter().zip(paths) {
            check(&row, cell, factor(&ratios(&summaries, [peer, "weir-h2-stage"], &format!("/pages/{path}"))));
        }
        checked += 1;
    }
    assert_eq!(checked, 2);
}

/// The kept report has Weir's times over the peer's, with their intervals.
#[test]
fn pages_far_away_are_those_of_the_kept_reports() {
    let page = read("README.md");
    let mut checked = 0;
    for row in rows(&page, 6) {
        let peer = match [&row[0], &row[1]].map(String::as_str) {
            ["nginx, CAKE", "30 ms away"] => "nginx-cake",
            ["H2O, CAKE", "30 ms away"] => "h2o-cake",
            _ => continue,
        };
        let report = summary(&format!("results/2026-11-28-vm12-lines-and-pages/pages-far/over-{peer}.json"));
        let of_weir = report["rows"].as_array().unwrap().iter().find(|row| row["run"] == "weir").unwrap();
        for (cell, measure) in row[2..].iter().zip(["view mean", "view p95", "whole mean", "whole p95"]) {
            let pages = of_weir["pages"].as_array().unwrap();
            let factor = &pages.iter().find(|known| known["measure"] == measure).unwrap()["factor"];
            check(&row, cell, ["value", "high", "low"].map(|end| 1.0 / factor[end].as_f64().unwrap()));
        }
        checked += 1;
    }
    assert_eq!(checked, 2);
}
