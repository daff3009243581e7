use std::time::Duration;

use super::accepted::{self, Accepted};
use super::outcome::{Mutant, Tally};

/// What was found in one crate.
pub struct Row {
    pub package: &'static str,
    pub elapsed: Duration,
    pub mutants: Vec<Mutant>,
}

pub fn markdown(rows: &[Row], accepted: &[Accepted]) -> String {
    let head = ["crate", "mutants", "caught", "timeout", "missed", "with a reason", "unviable", "share caught", "took"];
    let mut lines = vec![head.map(str::to_string), head.map(|_| "---".to_string())];
    lines.extend(rows.iter().map(|row| cells(row, accepted)));
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String; 9]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    lines.iter().map(line).collect()
}

fn cells(row: &Row, accepted: &[Accepted]) -> [String; 9] {
    let tally = Tally::of(&row.mutants);
    let explained = accepted::explained(accepted, &row.mutants);
    let seconds = row.elapsed.as_secs();
    [
        row.package.to_string(),
        row.mutants.len().to_string(),
        tally.caught.to_string(),
        tally.timed_out.to_string(),
        tally.missed.to_string(),
        explained.to_string(),
        tally.unviable.to_string(),
        format!("{:.1} %", tally.caught_percent()),
        format!("{} min {:02} s", seconds / 60, seconds % 60),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::outcome::Summary;

    #[test]
    fn a_row_adds_up() {
        let of = |summary| Mutant { name: "core/http/src/a.rs:1:2: replace f".into(), summary };
        let mutants = [Summary::CaughtMutant, Summary::Timeout, Summary::MissedMutant, Summary::Unviable].map(of);
        let row = Row { package: "http", elapsed: Duration::from_secs(61), mutants: mutants.into() };
        let text = markdown(&[row], &[]);
        let last = text.lines().last().unwrap().split('|').map(str::trim).collect::<Vec<_>>();
        assert_eq!(last[1..10], ["http", "4", "1", "1", "1", "0", "1", "66.7 %", "1 min 01 s"]);
        let widths: Vec<usize> = text.lines().map(str::len).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
    }
}
