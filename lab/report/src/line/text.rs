//! The table of lines, for people and as CSV.

use std::fmt::Write as _;

use super::{LineRow, LineSecond, LineTable};
use crate::table::{Row, aligned, cut, wrap};
use crate::text::line;
use crate::{Estimate, table};

/// A longer name of a group or run is cut.
const GROUP_CHARS_MAX: usize = 52;
const RUN_CHARS_MAX: usize = 20;

const COLUMNS: [&str; 10] = [
    "group",
    "run",
    "seeds",
    "mean, ms ± 95 %",
    "mean factor, 95 %",
    "small p50, 95 %",
    "small p95, 95 %",
    "of the line",
    "dropped",
    "found, s",
];

impl LineTable {
    /// For a terminal.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let over = &self.over;
        let legend = format!(
            "Factors are response times over those of {over}, seed by seed (geometric mean, 95 % interval by Student's t): the mean of all \
             requests, and median and 95th percentile of the half with the smallest bodies. Above 1 {over} is sooner. Of the line: what left \
             the bottleneck over what it could carry while requests arrived. Found: when the server first named a rate of its line."
        );
        wrap(&mut text, &legend);
        text.push('\n');
        let mut rows: Vec<Row> = vec![COLUMNS.map(String::from).to_vec()];
        rows.extend(self.rows.iter().map(LineRow::cells));
        text.push_str(&aligned(&rows));
        for row in &self.rows {
            let name = format!("{} / {}", row.group, row.run);
            if let Some((seed, reason)) = row.void.first() {
                wrap(&mut text, &format!("{name}: {} seeds void, the first {seed}: {reason}", row.void.len()));
            }
            let others: Vec<String> =
                row.others.iter().map(|(what, value)| format!("{what} {}", value.plus_minus())).collect();
            if !others.is_empty() {
                wrap(&mut text, &format!("{name}: beside it {}", others.join(", ")));
            }
        }
        text
    }

    /// One row for each run.
    pub fn csv(&self) -> String {
        let factors = ["mean_factor", "small_p50_factor", "small_p95_factor"];
        let ends = |name: &str| [name.to_owned(), format!("{name}_low"), format!("{name}_high")];
        let mut names: Vec<String> =
            ["group", "run", "seeds", "mean_ms", "small_p50_ms", "small_p95_ms"].map(String::from).to_vec();
        names.extend(factors.iter().flat_map(|name| ends(name)));
        names.extend(["used_share", "dropped_packets", "found_seeds", "found_s"].map(String::from));
        let mut text = line(names.iter().map(String::as_str));
        for row in &self.rows {
            text.push_str(&line(row.csv_cells().iter().map(String::as_str)));
        }
        text
    }
}

impl LineRow {
    fn cells(&self) -> Row {
        let with_ends = |estimate: Option<Estimate>| estimate.map_or("-".into(), Estimate::with_ends);
        let alone = |estimate: Option<Estimate>| estimate.map_or("-".into(), |one| table::figure(one.value));
        let seeds = self.used + self.void.len();
        vec![
            cut(&self.group, GROUP_CHARS_MAX),
            cut(&self.run, RUN_CHARS_MAX),
            if self.void.is_empty() { seeds.to_string() } else { format!("{}/{seeds}", self.used) },
            self.ms.mean.map_or("-".into(), Estimate::plus_minus),
            with_ends(self.factors.mean),
            with_ends(self.factors.small_p50),
            with_ends(self.factors.small_p95),
            alone(self.used_share),
            self.dropped_packets.map_or("-".into(), |packets| format!("{:.0}", packets.value)),
            match self.found {
                found if found == self.used => alone(self.found_s),
                found => format!("{} ({found}/{})", alone(self.found_s), self.used),
            },
        ]
    }

    fn csv_cells(&self) -> Vec<String> {
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let value = |estimate: Option<Estimate>| number(estimate.map(|estimate| estimate.value));
        let mut cells = vec![self.group.clone(), self.run.clone(), self.used.to_string()];
        cells.extend([self.ms.mean, self.ms.small_p50, self.ms.small_p95].map(value));
        for factor in [self.factors.mean, self.factors.small_p50, self.factors.small_p95] {
            let ends = [factor.and_then(|factor| factor.low), factor.and_then(|factor| factor.high)];
            cells.extend([value(factor), number(ends[0]), number(ends[1])]);
        }
        cells.extend([
            value(self.used_share),
            value(self.dropped_packets),
            self.found.to_string(),
            value(self.found_s),
        ]);
        cells
    }
}

impl LineSecond {
    /// The seconds of a run as CSV.
    pub fn csv(seconds: &[LineSecond]) -> String {
        let mut text = String::from("second,sent_bps,line_bps,found_bps,pace_bps,limit,said_bps,said\n");
        for LineSecond { second, sent_bps, line_bps, said_bps, said, pace } in seconds {
            let number = |rate: Option<u64>| rate.map_or(String::new(), |rate| rate.to_string());
            let known =
                [number(pace.found_bps), number(pace.pace_bps), pace.limit.clone(), number(*said_bps)].join(",");
            let _ = write!(text, "{second},{sent_bps:.0},{line_bps:.0},{known},{}", line([said.as_str()]));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LineRuns, LineSeen, Notice, Pace};
    use super::*;
    use crate::testing::run;

    #[test]
    fn as_it_is_printed() {
        let mut lines = LineRuns::default();
        let found = vec![Notice { at_s: 0.4, text: "uplink: found 8mbit".into() }];
        for (name, ms, notices) in [("told-right", 10, vec![]), ("auto", 15, found)] {
            let sent = vec![(0.0, 0.0), (2.0, 1_000_000.0)];
            let seen = LineSeen { sent, notices, ..LineSeen::default() };
            let mut run = run(name, &[(0, 100, ms), (1, 200, ms)]);
            run.manifest.environment.insert("dropped_packets".into(), "7".into());
            run.manifest.environment.insert("neighbour_b_bytes".into(), "900".into());
            lines.add("e", "", &run, &seen).unwrap();
        }
        let table = lines.over("told-right").unwrap();
        let text = table.table();
        let rows: Vec<Vec<&str>> = { text.lines().skip_while(|line| !line.starts_with("group")).skip(1) }
            .map(|line| line.split_whitespace().collect())
            .collect();
        let seed = ["(1", "seed)"];
        let words = |first: &[&'static str], mean: &'static str| [first, &["1", mean], &seed[..]].concat();
        let told = [words(&["e", "told-right"], "10.0"), vec!["-", "-", "-", "0.500", "7", "-", "(0/1)"]].concat();
        assert_eq!(rows[0], told, "{text}");
        let one = ["1.50", "(1", "seed)"];
        let auto =
            [words(&["e", "auto"], "15.0"), one.to_vec(), one.to_vec(), one.to_vec(), vec!["0.500", "7", "0.400"]];
        assert_eq!(rows[1], auto.concat(), "{text}");
        assert_eq!(rows[2].join(" "), "e / told-right: beside it b_bytes 900 (1 seed)");
        let csv = table.csv();
        assert_eq!(csv.lines().nth(2), Some("e,auto,1,15,15,15,1.5,,,1.5,,,1.5,,,0.5,7,1,0.4"), "{csv}");
        assert_eq!(csv.lines().next().map(|line| line.split(',').count()), Some(19));
    }

    #[test]
    fn seconds_are_rows() {
        let pace = Pace { found_bps: Some(8), pace_bps: Some(7), limit: "line".into() };
        let (sent_bps, line_bps) = (9.5e6, 1e7);
        let one = LineSecond { second: 3, sent_bps, line_bps, said_bps: Some(9), said: "a, b".into(), pace };
        let none = LineSecond { said_bps: None, said: String::new(), pace: Pace::default(), ..one.clone() };
        let want = "second,sent_bps,line_bps,found_bps,pace_bps,limit,said_bps,said\n\
            3,9500000,10000000,8,7,line,9,\"a, b\"\n3,9500000,10000000,,,,,\n";
        assert_eq!(LineSecond::csv(&[one, none]), want);
    }
}
