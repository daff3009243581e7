use std::fmt::Write as _;

use units::Rate;

use crate::{RunSummary, Summary};

/// Longer names of runs are cut, so that a row fits into 110 columns.
const NAME_CHARS_MAX: usize = 22;

const HEADING: [&str; 8] = ["run", "completed", "others", "mean, ms", "p50", "p90", "p99", "max"];

/// Formats the summary for people: a row for each run, and below the rows the remarks that the figures cannot express.
pub fn table(summary: &Summary) -> String {
    let link = Rate::from_bits_per_s(summary.link_bps).map_or("unknown".into(), |rate| rate.to_string());
    let mut text = format!("{}: {} jobs, link {link}, rho {}\n", summary.experiment, summary.jobs, summary.rho);
    let heading = HEADING.map(String::from);
    let rows: Vec<[String; 8]> = std::iter::once(heading).chain(summary.runs.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    for row in &rows {
        let _ = write!(text, "{:<1$}", row[0], width(0));
        for (column, cell) in row.iter().enumerate().skip(1) {
            let _ = write!(text, "  {cell:>0$}", width(column));
        }
        text.push('\n');
    }
    let skipped = summary.skipped.iter().map(|run| format!("SKIPPED {}: {}", run.name, run.reason));
    for remark in summary.runs.iter().flat_map(remarks).chain(skipped) {
        let _ = writeln!(text, "{remark}");
    }
    text
}

fn row(run: &RunSummary) -> [String; 8] {
    let times = run.response_time_ms;
    let [mean, p50, p90, p99, max] = [times.mean, times.p50, times.p90, times.p99, times.max].map(figure);
    let (completed, others) = (run.completed.to_string(), run.incomplete.to_string());
    [label(run), completed, others, mean, p50, p90, p99, max]
}

fn label(run: &RunSummary) -> String {
    let cut = match run.name.chars().count() > NAME_CHARS_MAX {
        true => run.name.chars().take(NAME_CHARS_MAX - 1).chain(['…']).collect(),
        false => run.name.clone(),
    };
    if run.void.is_some() { cut + " VOID" } else { cut }
}

/// The lines below the table for this run.
fn remarks(run: &RunSummary) -> Vec<String> {
    let name = &run.name;
    let groups = run.groups.iter().map(|group| {
        let times = group.response_time_ms;
        format!(
            "{name}, {}: {} jobs, {} complete, {} per second; mean {} ms, p50 {}, p99 {}",
            group.name,
            group.jobs,
            group.completed,
            figure(group.per_s),
            figure(times.mean),
            figure(times.p50),
            figure(times.p99)
        )
    });
    let beat = (run.beat_wire_time > 0)
        .then(|| format!("{name}: {} jobs beat their own wire time: the link does not serialise", run.beat_wire_time));
    let void = run.void.iter().map(|reason| format!("VOID {name}: {reason}"));
    groups.chain(beat).chain(void).collect()
}

/// Formats three significant digits, or all digits before the point.
fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        v if v < 1.0 => 3,
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SkippedRun;
    use crate::testing::run;

    /// The complete text, so that a reviewer sees every difference.
    #[test]
    fn as_it_is_printed() {
        let mut runs = [(40, 90), (2, 80)].map(|(small_ms, large_ms)| {
            let shape = |job: u64| match job.is_multiple_of(10) {
                true => (job * 5, 30_000 + job, large_ms),
                false => (job * 5, 500 + job, small_ms),
            };
            run("weir-paced-srpt", &(0..400).map(shape).collect::<Vec<_>>())
        });
        runs[0].manifest.name = "a-name-of-more-than-any-table-has-room-for".into();
        runs[0].manifest.void = Some("the link was wrong".into());
        runs[1].records[7].outcome = record::Outcome::Incomplete;
        runs[1].records[8].end_ns = runs[1].records[8].arrival_ns + 1;
        runs[1].records[8].group = 1;
        runs[1].manifest.clients = ["near", "far"].map(String::from).to_vec();
        let skipped = vec![SkippedRun { name: "cake".into(), reason: "no cake".into() }];
        let text = table(&Summary::of("first-light", &runs, skipped));
        assert_eq!(text, EXPECTED, "\n{text}");
        assert!(text.lines().take(4).all(|line| line.chars().count() <= 110), "{text}");
    }

    const EXPECTED: &str = "\
first-light: 400 jobs, link 8mbit, rho 0.8
run                          completed  others  mean, ms   p50   p90   p99   max
a-name-of-more-than-a… VOID        400       0      45.0  40.0  40.0  90.0  90.0
weir-paced-srpt                    399       1      9.80  2.00  2.00  80.0  80.0
VOID a-name-of-more-than-any-table-has-room-for: the link was wrong
weir-paced-srpt, near: 399 jobs, 398 complete, 198 per second; mean 9.82 ms, p50 2.00, p99 80.0
weir-paced-srpt, far: 1 jobs, 1 complete, 0.500 per second; mean 0.000 ms, p50 0.000, p99 0.000
weir-paced-srpt: 1 jobs beat their own wire time: the link does not serialise
SKIPPED cake: no cake
";
}
