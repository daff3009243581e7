use std::fmt::Write as _;

use record::Outcome;
use units::Rate;

use crate::pages::MEASURES;
use crate::summary::VIRTUAL;
use crate::{GivenUp, GroupSummary, RunSummary, Summary};

/// No line of the table is longer, so that it stands in a terminal, an e-mail and a README.
pub(crate) const WIDTH_MAX: usize = 110;

/// Longer names of runs, and of policies and drains, are cut, so that the widest block still fits.
const NAME_CHARS_MAX: usize = 20;
const POLICY_CHARS_MAX: usize = 10;
const BASE_CHARS_MAX: usize = 14;

const NOT_A_WIRE: &str = "†";

/// The summary for people: bound and ideal sharing first, then times, then sizes, then ratios to the first run.
pub fn table(summary: &Summary) -> String {
    let mut text = heading(summary);
    let [pages, page_ratios] = [pages(summary), page_ratios(summary)];
    let blocks =
        [pages, page_ratios, times(summary), classes(summary), groups(summary), accounts(summary), ratios(summary)];
    for block in blocks.iter().filter(|block| block.len() > 1) {
        text.push('\n');
        text.push_str(&aligned(block));
    }
    let skipped = summary.skipped.iter().map(|run| format!("SKIPPED {}: {}", run.name, run.reason));
    let remarks: Vec<String> = summary.runs.iter().flat_map(remarks).chain(skipped).collect();
    if !remarks.is_empty() {
        text.push('\n');
        remarks.iter().for_each(|remark| wrap(&mut text, remark));
    }
    text
}

fn heading(summary: &Summary) -> String {
    let link = Rate::from_bits_per_s(summary.link_bps).map_or(String::new(), |rate| rate.to_string());
    let mut text = String::new();
    wrap(
        &mut text,
        &format!(
            "{}: {} jobs, link {link}, rho {} asked for, {:.3} offered on the wire",
            summary.experiment, summary.jobs, summary.rho, summary.rho_measured
        ),
    );
    let _ = writeln!(
        text,
        "  bound (clairvoyant SRPT)  {:>8} ms mean: a fluid, no handshake: no schedule is lower",
        figure(summary.bound_ms)
    );
    let _ = writeln!(
        text,
        "  packet bound              {:>8} ms mean: the same order of whole packets, with handshakes; no delay",
        figure(summary.packet_bound_ms)
    );
    for run in &summary.runs {
        if let Some(bound_ms) = run.packet_bound_ms {
            let _ = writeln!(
                text,
                "  packet bound of {:<9} {:>8} ms mean: over its own protocol",
                run.name,
                figure(bound_ms)
            );
        }
    }
    let _ = writeln!(text, "  ideal processor sharing   {:>8} ms mean: perfect fairness", figure(summary.ideal_ps_ms));
    text
}

pub(crate) type Row = Vec<String>;

fn row(first: &str, rest: &[&str]) -> Row {
    std::iter::once(first).chain(rest.iter().copied()).map(String::from).collect()
}

/// A heading and one row per run.
fn block(heading: Row, summary: &Summary, cells: impl Fn(&RunSummary) -> Vec<String>) -> Vec<Row> {
    let rows = summary.runs.iter().map(|run| std::iter::once(label(run)).chain(cells(run)).collect());
    std::iter::once(heading).chain(rows).collect()
}

fn times(summary: &Summary) -> Vec<Row> {
    let heading =
        row("response time, ms", &["mean", "± 95 %", "p50", "p90", "p99", "max", "slowdown", "/ bound", "/ packets"]);
    block(heading, summary, |run| {
        let times = run.response_time_ms;
        let half_width = run.mean_ms_half_width.map_or("-".into(), figure);
        let percentiles = [times.p50, times.p90, times.p99, times.max].map(figure);
        let of_bounds = [run.bound_ratio, run.packet_bound_ratio].map(|ratio| format!("{ratio:.2}{}", mark(run)));
        let ratios = [figure(run.slowdown_mean)].into_iter().chain(of_bounds);
        [figure(times.mean), half_width].into_iter().chain(percentiles).chain(ratios).collect()
    })
}

/// Stands at ratios to a bound where the link did not serialise; a remark says why.
fn mark(run: &RunSummary) -> &'static str {
    if run.not_a_wire.is_some() { NOT_A_WIRE } else { "" }
}

const CLASSES: [&str; 5] = ["0-50 %", "50-80 %", "80-99 %", "99-99.5 %", "top 0.5 %"];

fn class_means(run: &RunSummary) -> [Option<f64>; 5] {
    let classes = run.size_class_ms;
    [classes.p0_50, classes.p50_80, classes.p80_99, classes.p99_995, classes.p995_100]
}

fn classes(summary: &Summary) -> Vec<Row> {
    let heading = row("mean by size, ms", &CLASSES);
    block(heading, summary, |run| class_means(run).map(|mean| mean.map_or("-".into(), figure)).to_vec())
}

/// Returns the rows of runs that loaded pages.
fn pages(summary: &Summary) -> Vec<Row> {
    let heading =
        row("page loads, ms", &["pages", "not whole"]).into_iter().chain(MEASURES.map(String::from)).collect();
    let of_run = |run: &RunSummary| {
        let pages = run.pages?;
        let counts = [label(run), pages.count.to_string(), pages.not_whole.to_string()];
        Some(counts.into_iter().chain(pages.figures().map(figure)).collect())
    };
    std::iter::once(heading).chain(summary.runs.iter().filter_map(of_run)).collect()
}

fn page_ratios(summary: &Summary) -> Vec<Row> {
    let [first, _, ..] = summary.runs.as_slice() else { return Vec::new() };
    let heading = row("pages sooner than 1st", &MEASURES);
    let of_run = |run: &RunSummary| {
        let base = first.pages.filter(|_| run.not_comparable.is_none());
        let ratios = run.pages?.figures().into_iter().enumerate();
        let cells = ratios.map(|(at, mine)| ratio(base.map(|base| base.figures()[at]), Some(mine)));
        Some(std::iter::once(label(run)).chain(cells).collect())
    };
    std::iter::once(heading).chain(summary.runs.iter().filter_map(of_run)).collect()
}

/// Groups of clients, or classes of them, where there are several.
fn groups(summary: &Summary) -> Vec<Row> {
    let heading =
        row("by clients, ms", &["group", "jobs", "per s", "mean", "by size", "server's", "p50", "p99", "max"]);
    let of_run = |run: &RunSummary| {
        let of_group = |group: &GroupSummary| {
            let times = group.response_time_ms;
            let names = [label(run), cut(&group.name, BASE_CHARS_MAX), group.jobs.to_string()];
            let of_server = group.server_weighted_ms.map_or("-".into(), figure);
            let means = [figure(group.per_s), figure(times.mean), figure(group.weighted_ms), of_server];
            names.into_iter().chain(means).chain([times.p50, times.p99, times.max].map(figure)).collect()
        };
        run.groups.iter().map(of_group).collect::<Vec<Row>>()
    };
    std::iter::once(heading).chain(summary.runs.iter().flat_map(of_run)).collect()
}

fn accounts(summary: &Summary) -> Vec<Row> {
    let heading =
        row("run", &["policy", "shaping", "completed", "incomplete", "body MB", "carried", "CPU", "late, ms"]);
    block(heading, summary, |run| {
        vec![
            cut(&run.policy, POLICY_CHARS_MAX),
            cut(&run.shaping, POLICY_CHARS_MAX),
            run.completed.to_string(),
            run.incomplete.to_string(),
            format!("{:.3}", run.bytes as f64 / 1e6),
            run.link_carried_share.map_or("-".into(), |share| format!("{share:.3}")),
            by_real_clock(run, run.server_cpu.map_or("-".into(), |cpu| format!("{cpu:.3}"))),
            by_real_clock(run, run.client_lateness_p99_ms.map_or("-".into(), |late| format!("{late:.3}"))),
        ]
    })
}

/// Returns the figure, or a mark where a virtual clock cannot have it.
fn by_real_clock(run: &RunSummary, figure: String) -> String {
    if run.clock == VIRTUAL { VIRTUAL.into() } else { figure }
}

/// Returns how many times sooner than under the first run, or than under the one it is to be compared with, which is then named;
/// empty when there is nothing to compare.
fn ratios(summary: &Summary) -> Vec<Row> {
    let [first, _, ..] = summary.runs.as_slice() else { return Vec::new() };
    let names_them = summary.runs.iter().any(|run| run.baseline.is_some());
    let mut columns = vec!["mean", "p50", "p90", "p99"];
    columns.extend(CLASSES);
    columns.extend(names_them.then_some("than"));
    let measures = |run: &RunSummary| {
        let times = run.response_time_ms;
        let overall = [times.mean, times.p50, times.p90, times.p99].map(Some);
        overall.into_iter().chain(class_means(run)).collect::<Vec<Option<f64>>>()
    };
    let heading = if names_them { "times sooner" } else { "times sooner than 1st" };
    block(row(heading, &columns), summary, |run| {
        let base_name = run.baseline.as_ref().unwrap_or(&first.name);
        // One that was skipped or not asked for leaves nothing to compare with.
        let base = summary.runs.iter().find(|other| other.name == *base_name).map(measures);
        let base = base.filter(|_| run.not_comparable.is_none());
        let ratios = measures(run).into_iter().enumerate();
        let cells = ratios.map(|(at, mine)| ratio(base.as_ref().and_then(|base| base[at]), mine));
        cells.chain(names_them.then(|| cut(base_name, BASE_CHARS_MAX))).collect()
    })
}

fn ratio(base: Option<f64>, mine: Option<f64>) -> String {
    match (base, mine) {
        (Some(base), Some(mine)) if mine > 0.0 => format!("{:.2}", base / mine),
        _ => "-".into(),
    }
}

/// Returns what the figures do not say: how jobs ended that did not complete, that its link was no wire or it is not compared, that a run
/// beat the bound, why a run is void.
fn remarks(run: &RunSummary) -> Vec<String> {
    let mut remarks = Vec::new();
    let otherwise = run.outcomes.iter().filter(|&&(outcome, jobs)| outcome != Outcome::Complete && jobs > 0);
    let ways: Vec<String> = otherwise.map(|(outcome, jobs)| format!("{jobs} {}", outcome.name())).collect();
    if !ways.is_empty() {
        remarks.push(format!("{}: not complete: {}", run.name, ways.join(", ")));
    }
    remarks.extend(run.given_up.map(|given_up| told(run, given_up)));
    remarks.extend(run.not_a_wire.iter().map(|reason| format!("{NOT_A_WIRE} NOT A WIRE {}: {reason}", run.name)));
    remarks.extend(run.not_comparable.iter().map(|reason| format!("NOT COMPARABLE {}: {reason}", run.name)));
    if run.bound_ratio < 1.0 {
        remarks.push(format!(
            "{}: mean below the bound, which the link does not allow: jobs failed early, or its rate or burst is larger",
            run.name
        ));
    }
    remarks.extend(run.void.iter().map(|reason| format!("VOID {}: {reason}", run.name)));
    remarks
}

/// A mean that is the laboratory's own patience is not left without the one of what completed.
fn told(run: &RunSummary, given_up: GivenUp) -> String {
    let (name, count) = (&run.name, given_up.connections);
    let share = 100.0 * count as f64 / (run.completed + run.incomplete).max(1) as f64;
    let plural = if count == 1 { "" } else { "s" };
    let mean = given_up.completed_mean_ms.map_or("none".into(), |ms| format!("{} ms", figure(ms)));
    format!(
        "{name}: the server's kernel gave {count} connection{plural} up ({} % of the requests), and their clients waited until the \
         run ended; the mean of the requests that completed is {mean}",
        figure(share)
    )
}

fn label(run: &RunSummary) -> String {
    let name = cut(&run.name, NAME_CHARS_MAX);
    if run.void.is_some() { name + " VOID" } else { name }
}

pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.into();
    }
    text.chars().take(chars_max - 1).chain(['…']).collect()
}

/// Three significant digits, or all before the point.
pub(crate) fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        v if v < 1.0 => 3,
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Columns as wide as their widest cell: the first to the left, the others to the right.
pub(crate) fn aligned(rows: &[Row]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let _ = if column == 0 { write!(text, "{cell:<width$}") } else { write!(text, "  {cell:>width$}") };
        }
        text.push('\n');
    }
    text
}

/// Adds the sentence, broken between words into lines of at most [`WIDTH_MAX`]; a longer word stands alone.
pub(crate) fn wrap(text: &mut String, sentence: &str) {
    let mut line = String::new();
    for word in sentence.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH_MAX {
            let _ = writeln!(text, "{line}");
            line = "   ".into();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarize;
    use crate::testing::{experiment, run};

    /// The whole of it as text: a reviewer reads the difference.
    #[test]
    fn as_it_is_printed() {
        let mut runs = experiment();
        runs[1].manifest.server_cpu = Some(0.75);
        runs[1].manifest.environment.insert(record::CARRIED.into(), "0.7312".into());
        runs[1].records[7].outcome = Outcome::Incomplete;
        let text = table(&summarize("first-light", &runs).unwrap());
        assert_eq!(text, EXPECTED, "\n{text}");
    }

    const EXPECTED: &str = "\
first-light: 400 jobs, link 8mbit, rho 0.8 asked for, 0.851 offered on the wire
  bound (clairvoyant SRPT)      4.73 ms mean: a fluid, no handshake: no schedule is lower
  packet bound                  5.37 ms mean: the same order of whole packets, with handshakes; no delay
  ideal processor sharing       5.40 ms mean: perfect fairness

response time, ms     mean  ± 95 %   p50   p90   p99   max  slowdown  / bound  / packets
nginx-fair            45.0   0.000  40.0  40.0  90.0  90.0      38.1     9.52       8.38
weir-paced-srpt VOID  9.80   0.000  2.00  2.00  80.0  80.0      2.14     2.07       1.82

mean by size, ms      0-50 %  50-80 %  80-99 %  99-99.5 %  top 0.5 %
nginx-fair              40.0     40.0     63.7       90.0       90.0
weir-paced-srpt VOID    2.00     2.00     38.9       80.0       80.0

run                   policy  shaping  completed  incomplete  body MB  carried    CPU  late, ms
nginx-fair              srpt    paced        400           0    1.460        -  0.250     0.050
weir-paced-srpt VOID    srpt    paced        399           1    1.460    0.731  0.750     0.050

times sooner than 1st  mean    p50    p90   p99  0-50 %  50-80 %  80-99 %  99-99.5 %  top 0.5 %
nginx-fair             1.00   1.00   1.00  1.00    1.00     1.00     1.00       1.00       1.00
weir-paced-srpt VOID   4.59  20.00  20.00  1.12   20.00    20.00     1.64       1.12       1.12

weir-paced-srpt: not complete: 1 incomplete
VOID weir-paced-srpt: the server used 0.75 of a core, more than 0.5
";

    #[test]
    fn a_run_is_compared_with_its_baseline() {
        let mut runs = ["a", "b", "c"].map(|name| run(name, &[(0, 10, 40)])).to_vec();
        runs.push(run("d", &[(0, 10, 10)]));
        runs[0].records[0].end_ns *= 2;
        runs[3].manifest.baseline = Some("b".into());
        runs[2].manifest.baseline = Some("not-run".into());
        let mut summary = summarize("e", &runs).unwrap();
        summary.skipped = vec![crate::SkippedRun { name: "f".into(), reason: "this kernel has no cake".into() }];
        let text = table(&summary);
        let block: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("times sooner ")).collect();
        let cells = |row: usize| block[row].split_whitespace().collect::<Vec<_>>();
        assert_eq!((cells(2)[1], cells(2).last()), ("2.00", Some(&"a")));
        assert_eq!((cells(3)[1], cells(3).last()), ("-", Some(&"not-run")));
        assert_eq!((cells(4)[1], cells(4).last()), ("4.00", Some(&"b")));
        assert!(text.ends_with("SKIPPED f: this kernel has no cake\n"), "{text}");
    }

    #[test]
    fn a_run_of_other_length_is_not_compared() {
        let mut runs = ["a", "b"].map(|name| run(name, &[(0, 10, 40)]));
        runs[1].manifest.seconds = 200.0;
        let text = table(&summarize("e", &runs).unwrap());
        let row = text.lines().skip_while(|line| !line.starts_with("times sooner ")).nth(2).unwrap();
        assert!(row.split_whitespace().skip(1).all(|cell| cell == "-"), "{row}");
        assert!(text.ends_with("NOT COMPARABLE b: b ran for 200 s, a for 2\n"), "{text}");
    }

    #[test]
    fn fits_the_width_whatever_the_names() {
        let mut long = run("a-name-of-more-than-twenty-characters", &[(0, 2_000_000, 3_600_000)]);
        long.manifest.policy = "shortest-remaining".into();
        long.manifest.shaping = "hierarchical-bands".into();
        long.manifest.void = Some("many words ".repeat(40));
        long.manifest.baseline = Some("another-name-of-more-than-twenty".into());
        let text = table(&summarize("e", &[long.clone(), long]).unwrap());
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= WIDTH_MAX, "{widest} columns:\n{text}");
        assert!(text.contains("a-name-of-more-than…"));
    }

    #[test]
    fn one_run_is_compared_with_nothing() {
        let text = table(&summarize("e", &[run("a", &[(0, 10, 1)])]).unwrap());
        assert!(!text.contains("sooner") && !text.contains("NaN"), "{text}");
        assert!(!text.contains("mean below the bound"), "{text}");
    }

    #[test]
    fn a_run_too_good_to_be_true_is_pointed_out() {
        let text = table(&summarize("e", &[run("a", &[(0, 100_000, 1)])]).unwrap());
        assert!(text.contains("a: mean below the bound"), "{text}");
        assert!(text.contains("† NOT A WIRE a: 1 of 1 jobs beat their own wire time"), "{text}");
        assert_eq!(text.matches("0.01†").count(), 2, "no ratio to a bound without the mark: {text}");
    }
}
