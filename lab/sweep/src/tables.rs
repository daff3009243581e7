//! Results as files: every run and every bin of sizes in columns (Parquet), and the cells as text for people.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use record::{Kind, TableWriter, Value};
use serde_json::{Map, json};

use crate::grid::{Axis, Cell};
use crate::results::{CellResult, Estimate, Results};
use crate::{Plan, SweepError, claim};

/// Writes `runs.parquet`, `sizes.parquet`, `cells.csv`, `table.md` and, where the file claims anything, `claims.json` into `out`. The same results give the same bytes.
pub fn write_tables(plan: &Plan, results: &Results, out: &Path) -> Result<(), SweepError> {
    let in_columns = |name: &str, write: fn(&Plan, &Results, &Path) -> Result<(), record::FileError>| {
        write(plan, results, &out.join(name))
    };
    in_columns("runs.parquet", write_runs)?;
    in_columns("sizes.parquet", write_sizes)?;
    let as_text = |name: &str, text: String| {
        let path = out.join(name);
        fs::write(&path, text).map_err(|e| SweepError::path(&path, e))
    };
    as_text("cells.csv", cells_csv(plan, results))?;
    if !plan.claims.is_empty() {
        as_text("claims.json", report::claims_json(&claim::kept(plan, results)))?;
    }
    as_text("table.md", markdown(plan, results))
}

/// One row per run: the axes, every other field, the seed, every metric.
fn write_runs(plan: &Plan, results: &Results, path: &Path) -> Result<(), record::FileError> {
    let (fields, metrics) = (other_fields(plan), results.metric_names());
    let mut columns = axis_columns(plan);
    columns.extend(fields.iter().map(|field| (field.to_string(), Kind::Text)));
    columns.push(("seed".into(), Kind::Integer));
    columns.extend(metrics.iter().map(|metric| (metric.to_string(), Kind::Number)));
    let mut writer = TableWriter::create(path, &distinct(columns))?;
    for (cell, result) in plan.cells.iter().zip(&results.cells) {
        for (seed, run) in &result.runs {
            let mut row = axis_values(plan, cell);
            row.extend(fields.iter().map(|field| cell.fields.get(*field).map_or(Value::Missing, as_text)));
            row.push(Value::Integer(*seed));
            row.extend(
                metrics.iter().map(|metric| run.metrics.get(*metric).map_or(Value::Missing, |m| Value::Number(*m))),
            );
            writer.write(row)?;
        }
    }
    writer.finish()
}

/// One row per run and bin of sizes.
fn write_sizes(plan: &Plan, results: &Results, path: &Path) -> Result<(), record::FileError> {
    let mut columns = axis_columns(plan);
    columns.extend(["seed", "from_bytes", "jobs"].map(|name| (name.to_string(), Kind::Integer)));
    let numbers = ["size_bytes_mean", "response_time_ms_mean", "response_time_variance_ms2", "slowdown_mean"];
    columns.extend(numbers.map(|name| (name.to_string(), Kind::Number)));
    let mut writer = TableWriter::create(path, &distinct(columns))?;
    for (cell, result) in plan.cells.iter().zip(&results.cells) {
        let axes = axis_values(plan, cell);
        for (seed, run) in &result.runs {
            for bin in &run.by_size {
                let mut row = axes.clone();
                row.extend([*seed, bin.from_bytes, bin.jobs].map(Value::Integer));
                let spread = bin.response_time_variance_ms2;
                let numbers = [bin.size_bytes_mean, bin.response_time_ms_mean, spread, bin.slowdown_mean];
                row.extend(numbers.map(Value::Number));
                writer.write(row)?;
            }
        }
    }
    writer.finish()
}

/// A field and a metric may have one name: `jobs` that were asked for and `jobs` that were counted. What stands further left keeps
/// it, the other is then called `measured_jobs`: most readers of columns refuse two of one name.
fn distinct(mut columns: Vec<(String, Kind)>) -> Vec<(String, Kind)> {
    let mut taken = BTreeSet::new();
    for (name, _) in &mut columns {
        while !taken.insert(name.clone()) {
            *name = format!("measured_{name}");
        }
    }
    columns
}

fn axis_columns(plan: &Plan) -> Vec<(String, Kind)> {
    let kind = |axis: &Axis| if axis.is_numeric() { Kind::Number } else { Kind::Text };
    plan.axes.iter().map(|axis| (axis.name.clone(), kind(axis))).collect()
}

fn axis_values(plan: &Plan, cell: &Cell) -> Vec<Value> {
    let value = |(axis, at): (&Axis, &usize)| match axis.values[*at].number.filter(|_| axis.is_numeric()) {
        Some(number) => Value::Number(number),
        None => Value::Text(axis.values[*at].label.clone()),
    };
    plan.axes.iter().zip(&cell.at).map(value).collect()
}

/// The fields that have no axis of their own name.
fn other_fields(plan: &Plan) -> BTreeSet<&str> {
    let names = plan.cells.iter().flat_map(|cell| cell.fields.keys().map(String::as_str));
    names.filter(|name| plan.axes.iter().all(|axis| axis.name != *name)).collect()
}

fn as_text(value: &serde_json::Value) -> Value {
    Value::Text(value.as_str().map_or_else(|| value.to_string(), str::to_string))
}

/// One row per cell and metric: mean, the ends of its 99 % confidence interval, of how many runs, and what a closed form
/// says where there is one.
fn cells_csv(plan: &Plan, results: &Results) -> String {
    let names: Vec<String> = plan.axes.iter().map(|axis| quoted(&axis.name)).collect();
    let mut text = format!("{},metric,mean,ci99_low,ci99_high,runs,theory\n", names.join(","));
    for (cell, result) in plan.cells.iter().zip(&results.cells) {
        let at: Vec<String> = labels(plan, cell).map(quoted).collect();
        for (metric, Estimate { mean, half_width }) in &result.metrics {
            let theory = result.foretold(metric).map_or(String::new(), |theory| theory.to_string());
            let ends = half_width.map_or(",".into(), |half| format!("{},{}", mean - half, mean + half));
            let _ = writeln!(text, "{},{metric},{mean},{ends},{},{theory}", at.join(","), result.runs.len());
        }
    }
    text
}

/// The same as JSON: a list of cells, each with its labels by axis and its metrics by name.
pub fn cells_json(plan: &Plan, results: &Results) -> serde_json::Value {
    let estimate = |estimate: &Estimate| json!({ "mean": estimate.mean, "ci99_half_width": estimate.half_width });
    let cell = |(cell, result): (&Cell, &CellResult)| {
        let axes = plan.axes.iter().zip(labels(plan, cell)).map(|(axis, label)| (axis.name.clone(), label.into()));
        let metrics = result.metrics.iter().map(|(name, value)| (name.clone(), estimate(value)));
        json!({ "at": axes.collect::<Map<_, _>>(), "runs": result.runs.len(), "metrics": metrics.collect::<Map<_, _>>() })
    };
    plan.cells.iter().zip(&results.cells).map(cell).collect()
}

fn labels<'a>(plan: &'a Plan, cell: &'a Cell) -> impl Iterator<Item = &'a str> {
    plan.axes.iter().zip(&cell.at).map(|(axis, at)| axis.values[*at].label.as_str())
}

/// As RFC 4180 has it: a text with a comma, such as a distribution's, stands in quotes.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

/// One row per cell, one column per metric of `plot.y`, for people.
pub fn markdown(plan: &Plan, results: &Results) -> String {
    let seeds = plan.seeds.len();
    let runs = if seeds == 1 { "one run: no interval".into() } else { format!("mean ± 99 % over {seeds} runs") };
    let mut text = format!("{}\n\nModel {}, {runs}.\n\n", plan.question, plan.model);
    let head: Vec<&str> = plan.axes.iter().map(|axis| axis.name.as_str()).collect();
    let is_foretold = |metric: &str| results.cells.iter().any(|cell| cell.foretold(metric).is_some());
    let metrics: Vec<(&str, bool)> = plan.y.iter().map(|metric| (metric.as_str(), is_foretold(metric))).collect();
    let columns =
        metrics.iter().flat_map(|(name, foretold)| std::iter::once(*name).chain(foretold.then_some("theory")));
    let head: Vec<&str> = head.into_iter().chain(columns).collect();
    let _ = writeln!(text, "| {} |", head.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(head.len()));
    for (cell, result) in plan.cells.iter().zip(&results.cells) {
        let figures = metrics.iter().flat_map(|(metric, is_foretold)| {
            let exact = |mean| figure(&Estimate { mean, half_width: None });
            let theory = is_foretold.then(|| result.foretold(metric).map_or("-".into(), exact));
            std::iter::once(result.metric(metric).map_or("-".into(), figure)).chain(theory)
        });
        let row: Vec<String> = labels(plan, cell).map(str::to_string).chain(figures).collect();
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text + &claim::markdown(plan, results)
}

/// As many digits as the interval makes sense of: two of its own, and at least three of the mean.
fn figure(estimate: &Estimate) -> String {
    let decimals = |value: f64, digits: i32| match value.abs() {
        v if v > 0.0 => (digits - 1 - v.log10().floor() as i32).clamp(0, 6) as usize,
        _ => 0,
    };
    let of_mean = decimals(estimate.mean, 3);
    match estimate.half_width {
        None => format!("{:.*}", decimals(estimate.mean, 4), estimate.mean),
        Some(half) => {
            let both = of_mean.max(decimals(half, 2).min(of_mean + 2));
            format!("{:.both$} ± {half:.both$}", estimate.mean)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Folder, Formula, plan};
    use crate::{Model, Theory};
    use record::Table;

    fn results(plan: &Plan) -> Results {
        let run = |cell: &Cell, seed: &u64| (*seed, Formula::default().run(&cell.fields, *seed).unwrap());
        let cell =
            |cell: &Cell| CellResult::of(cell.at.clone(), plan.seeds.iter().map(|seed| run(cell, seed)).collect());
        Results { cells: plan.cells.iter().map(cell).collect() }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let (folder, mut plan) = (Folder::new("tables"), plan());
        plan.cells.iter_mut().for_each(|cell| drop(cell.fields.insert("link".into(), "10mbit".into())));
        write_tables(&plan, &results(&plan), folder.path()).unwrap();
        let runs = Table::read(&folder.path().join("runs.parquet")).unwrap();
        let columns = ["policy", "rho", "link", "seed", "response_time_ms_mean", "response_time_ms_variance"];
        assert_eq!(runs.columns[..6], columns);
        assert_eq!(runs.rows.len(), 24);
        let text = |text: &str| Value::Text(text.into());
        let first = [text("ps"), Value::Number(0.5), text("10mbit"), Value::Integer(1), Value::Number(2.01)];
        assert_eq!(runs.rows[0][..5], first);
        let sizes = Table::read(&folder.path().join("sizes.parquet")).unwrap();
        assert_eq!(
            (sizes.rows.len(), &sizes.columns[3], &sizes.rows[4][3]),
            (120, &"from_bytes".into(), &Value::Integer(100_000))
        );
    }

    /// Whatever the fields are called: like metrics, like columns of our own, like the new name of another.
    #[test]
    fn no_two_columns_share_a_name() {
        let folder = Folder::new("names");
        let mut plan = plan();
        plan.axes[1].name = "from_bytes".into();
        for name in ["seed", "jobs", "measured_jobs", "slowdown_mean", "measured_slowdown_mean", "policy"] {
            plan.cells.iter_mut().for_each(|cell| drop(cell.fields.insert(name.into(), "x".into())));
        }
        let mut results = results(&plan);
        let runs = results.cells.iter_mut().flat_map(|cell| &mut cell.runs);
        runs.for_each(|(_, run)| run.metrics.extend([("jobs".into(), 7.0)]));
        results.cells.iter_mut().for_each(|cell| *cell = CellResult::of(cell.at.clone(), cell.runs.clone()));
        write_tables(&plan, &results, folder.path()).unwrap();
        for (file, wanted) in [("runs.parquet", "measured_measured_jobs"), ("sizes.parquet", "measured_from_bytes")] {
            let columns = Table::read(&folder.path().join(file)).unwrap().columns;
            let names: BTreeSet<&String> = columns.iter().collect();
            assert!(names.len() == columns.len() && columns.iter().any(|name| name == wanted), "{file}: {columns:?}");
        }
    }

    #[test]
    fn the_same_results_are_the_same_bytes() {
        let (one, two, plan) = (Folder::new("bytes1"), Folder::new("bytes2"), plan());
        [&one, &two].into_iter().for_each(|folder| write_tables(&plan, &results(&plan), folder.path()).unwrap());
        for name in ["runs.parquet", "sizes.parquet", "cells.csv", "table.md"] {
            assert!(fs::read(one.path().join(name)).unwrap() == fs::read(two.path().join(name)).unwrap(), "{name}");
        }
    }

    #[test]
    fn for_people() {
        let (plan, mut results) = (plan(), results(&plan()));
        let foretold = |mean: f64| Theory { metrics: [("slowdown_mean".into(), mean)].into() };
        results.cells[0].theory = Some(foretold(2.02531));
        let table = markdown(&plan, &results);
        // Seeds 1 to 4 add 0.01 to 0.04: mean 0.025, standard error 0.00645, t(3) = 5.841.
        assert!(table.starts_with("which\n\nModel queue, mean ± 99 % over 4 runs.\n\n"), "{table}");
        assert!(
            table.contains("| policy | rho | response_time_ms | slowdown_mean | theory |\n|---|---|---|---|---|\n"),
            "{table}"
        );
        assert!(table.contains("| ps | 0.5 | 2.025 ± 0.038 | 2.025 ± 0.038 | 2.025 |"), "{table}");
        assert!(table.contains("| srpt | 0.5 | 1.025 ± 0.038 | 1.025 ± 0.038 | - |"), "{table}");
        let csv = cells_csv(&plan, &results);
        assert!(
            csv.starts_with("policy,rho,metric,mean,ci99_low,ci99_high,runs,theory\nps,0.5,response_time_ms_mean,"),
            "{csv}"
        );
        assert_eq!(csv.lines().count(), 1 + 6 * 3);
        assert!(csv.lines().nth(3).unwrap().ends_with(",4,2.02531"), "{csv}");
    }

    #[test]
    fn figures_have_the_digits_that_mean_something() {
        for (mean, half_width, written) in [
            (12.3456, Some(0.034), "12.346 ± 0.034"),
            (12.3456, Some(3.4), "12.3 ± 3.4"),
            (1234.5, Some(200.0), "1234 ± 200"),
            (0.0, Some(0.0), "0 ± 0"),
            (0.012345, None, "0.01235"),
            (12.0, Some(1e-9), "12.000 ± 0.000"),
        ] {
            assert_eq!(figure(&Estimate { mean, half_width }), written);
        }
    }

    #[test]
    fn a_comma_stands_in_quotes() {
        assert_eq!(quoted("bounded-pareto:alpha=1.1,min=100"), "\"bounded-pareto:alpha=1.1,min=100\"");
        assert_eq!(quoted("ps"), "ps");
    }
}
