//! `cargo xtask mutants`: which changes to the code no test notices.
//!
//! Coverage tells that a line was run, not that a wrong line would have been found. cargo-mutants changes one operator
//! or one function at a time and runs the tests of the crate: a change they let pass is a survivor. Some survivors are
//! equivalent, no input can tell them apart: those stand in `xtask/mutants.toml`, each with its reason. They count
//! against the share all the same, so the list cannot be used to reach it.

mod accepted;
mod outcome;
mod pass;
mod table;

use std::path::Path;
use std::time::Instant;
use std::{fs, io};

use accepted::Accepted;
use outcome::Tally;
use table::Row;

use crate::tools;

/// Of cargo-mutants: another makes other mutants, and the list of accepted ones would no longer fit.
const VERSION: &str = "27.1.0";

/// Of the mutants that build, the tests catch at least this many.
const CAUGHT_PERCENT_MIN: f64 = 90.0;
const ACCEPTED: &str = "xtask/mutants.toml";

/// A crate, and which of its files are mutated; none named: all.
struct Target {
    package: &'static str,
    files: &'static [&'static str],
    /// Unit tests that the first pass leaves out, for they take most of the time; what survives it meets them too.
    slow_tests: &'static [&'static str],
}

const TARGETS: [Target; 3] = [
    Target { package: "http", files: &[], slow_tests: &[] },
    Target {
        package: "sched",
        files: &[],
        slow_tests: &[
            "policy::cuts::tests::more_bands_cost_no_more",
            "policy::learner::tests::cuts_converge_to_the_best_and_stay",
            "policy::learner::tests::cuts_follow_when_sizes_change",
            "line::tests::a_rate_told_right_or_too_low_is_left_alone",
            "line::tests::bad_paths_alone_cost_little",
            "line::tests::the_pace_keeps_its_bounds",
        ],
    },
    Target {
        package: "server",
        files: &["product/server/src/send/**", "product/server/src/connection/**", "product/server/src/net/**"],
        slow_tests: &[],
    },
];

#[derive(clap::Args)]
pub struct Args {
    /// Only this crate; may be repeated. Of `server` it is the transmit path.
    #[arg(long, value_name = "CRATE", value_parser = ["http", "sched", "server"])]
    package: Vec<String>,
    /// Only mutants whose name, for example `core/sched/src/tree.rs:90:12: replace < with <=`, contains this pattern.
    #[arg(long, value_name = "REGEX")]
    only: Option<String>,
    /// The K-th of N equal parts, counted from 0: one long run in pieces. The share is then that of the part.
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
    /// Mutants built and tested at the same time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
}

impl Args {
    fn is_whole(&self) -> bool {
        self.only.is_none() && self.shard.is_none()
    }

    fn targets(&self) -> impl Iterator<Item = &'static Target> {
        TARGETS
            .iter()
            .filter(|target| self.package.is_empty() || self.package.iter().any(|name| name == target.package))
    }
}

pub fn main(root: &Path, args: &Args) -> Result<(), String> {
    let tool = tools::installed(root, "cargo-mutants", VERSION)?;
    let accepted = accepted::parse(&read(&root.join(ACCEPTED))?)?;
    let mut rows = Vec::new();
    for target in args.targets() {
        let began = Instant::now();
        let mutants = pass::test(&tool, root, target, args)?;
        rows.push(Row { package: target.package, elapsed: began.elapsed(), mutants });
    }
    conclude(&rows, &accepted, args.is_whole())
}

/// Prints what was found; an error if it is not good enough.
fn conclude(rows: &[Row], accepted: &[Accepted], is_whole: bool) -> Result<(), String> {
    let mut problems = Vec::new();
    for row in rows {
        let unexplained = accepted::unexplained(accepted, &row.mutants);
        if !unexplained.is_empty() {
            println!("\nSurvivors in {} without a reason in {ACCEPTED}:", row.package);
            unexplained.iter().for_each(|mutant| println!("  {}", mutant.name));
        }
        let share = Tally::of(&row.mutants).caught_percent();
        if share < CAUGHT_PERCENT_MIN {
            problems.push(format!("{}: {share:.1} % caught, at least {CAUGHT_PERCENT_MIN} % expected", row.package));
        }
        for stale in accepted::stale(accepted, row.package, &row.mutants, is_whole) {
            problems.push(format!("{ACCEPTED}: {stale}"));
        }
    }
    println!("\n{}", table::markdown(rows, accepted));
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n       ")) }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| failed(path, &e))
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("cannot use {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use outcome::{Mutant, Summary};

    fn row(caught: usize, missed: usize) -> Row {
        let mutant = |summary| Mutant { name: "core/http/src/a.rs:1:2: replace f".into(), summary };
        let caught = std::iter::repeat_n(mutant(Summary::CaughtMutant), caught);
        let missed = std::iter::repeat_n(mutant(Summary::MissedMutant), missed);
        Row { package: "http", elapsed: Duration::ZERO, mutants: caught.chain(missed).collect() }
    }

    #[test]
    fn below_ninety_per_cent_is_an_error() {
        assert_eq!(conclude(&[row(90, 10)], &[], true), Ok(()));
        let told = "http: 89.0 % caught, at least 90 % expected".to_string();
        assert_eq!(conclude(&[row(90, 10), row(89, 11)], &[], true), Err(told));
    }

    #[test]
    fn a_reason_is_no_excuse() {
        let text = "[[accepted]]\nfile = 'core/http/src/a.rs'\nmutation = 'replace f'\nreason = 'x'\ncount = 11";
        let accepted = accepted::parse(text).unwrap();
        assert!(conclude(&[row(89, 11)], &accepted, true).is_err());
        assert!(conclude(&[row(99, 10)], &accepted, true).unwrap_err().contains("10 of 11"));
    }
}
