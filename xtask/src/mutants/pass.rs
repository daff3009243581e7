//! The runs of cargo-mutants: most mutants are caught by a few quick tests, so those are tried first.
//!
//! Nine tenths of the time went into tests that would only have said again what others had. In the first pass a mutant meets the
//! unit tests without the slow ones, with few random cases; what survives meets all tests of its crate in the second,
//! and only that pass says what is missed.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::outcome::{self, Mutant};
use super::{Args, Target, failed, read};

/// What is left of a run, below the workspace's root.
const OUTPUT: &str = "target/mutation";
/// Random cases of each property in the first pass; by default there are 256.
const FIRST_CASES: &str = "32";
/// A counterexample is neither made smaller nor kept for the mutants that follow: that one is found is all we ask.
const PROPTEST: [(&str, &str); 2] =
    [("PROPTEST_MAX_SHRINK_ITERS", "0"), ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")];

/// Which mutants a pass has, and the tests they meet.
struct Pass {
    /// Where its logs go, below the crate's folder.
    name: &'static str,
    mutants: Vec<String>,
    cases: Option<&'static str>,
    /// What `cargo test` builds and runs beside the unit tests (.cargo/mutants.toml).
    tests: &'static [&'static str],
    /// By name, of those.
    skipped: &'static [&'static str],
}

impl Pass {
    fn first(target: &Target, args: &Args) -> Pass {
        let mut mutants = Vec::new();
        if let Some(pattern) = &args.only {
            mutants.extend(["--re".into(), pattern.clone()]);
        }
        if let Some(shard) = &args.shard {
            mutants.extend(["--shard", shard, "--sharding", "round-robin"].map(String::from));
        }
        Pass { name: "first", mutants, cases: Some(FIRST_CASES), tests: &[], skipped: target.slow_tests }
    }

    /// Of what survived the first.
    fn second(first: &[Mutant]) -> Pass {
        let survivors = first.iter().filter(|mutant| mutant.is_missed());
        let mutants = survivors.flat_map(|mutant| ["--re".into(), exactly(&mutant.name)]).collect();
        Pass { name: "second", mutants, cases: None, tests: &["--tests"], skipped: &[] }
    }
}

/// Every mutant of the target, with what the tests said in the end.
pub(super) fn test(tool: &Path, root: &Path, target: &Target, args: &Args) -> Result<Vec<Mutant>, String> {
    let first = run(tool, root, target, args, &Pass::first(target, args))?;
    if !first.iter().any(Mutant::is_missed) {
        return Ok(first);
    }
    let second = run(tool, root, target, args, &Pass::second(&first))?;
    Ok(last_word(first, &second))
}

/// Each mutant of the first pass once: the second has some that nobody asked for, since cargo-mutants 27.1 lets the deletion of a
/// struct's field through any `--re`.
fn last_word(first: Vec<Mutant>, second: &[Mutant]) -> Vec<Mutant> {
    let settle = |mutant: Mutant| match second.iter().find(|later| later.name == mutant.name) {
        Some(later) if mutant.is_missed() => later.clone(),
        _ => mutant,
    };
    first.into_iter().map(settle).collect()
}

/// Runs cargo-mutants on a copy of the workspace, with its progress shown.
fn run(tool: &Path, root: &Path, target: &Target, args: &Args, pass: &Pass) -> Result<Vec<Mutant>, String> {
    let output = root.join(OUTPUT).join(target.package).join(pass.name);
    let (scratch, build) = (root.join(OUTPUT).join("scratch"), root.join(OUTPUT).join("build"));
    let result = output.join("mutants.out/outcomes.json");
    fs::create_dir_all(&output).and_then(|()| fs::create_dir_all(&scratch)).map_err(|e| failed(&output, &e))?;
    // Where no mutant matches, no result is written: an older one must not be taken for it.
    if result.exists() {
        fs::remove_file(&result).map_err(|e| failed(&result, &e))?;
    }
    let mut command = Command::new(tool);
    command.args(["mutants", "--no-shuffle", "--package", target.package, "--jobs", &args.jobs.to_string()]);
    command.arg("--output").arg(&output);
    command.args(target.files.iter().flat_map(|file| ["--file", file]));
    command.args(&pass.mutants);
    // Not behind the `--`, which is not there when the tests are built.
    command.args(pass.tests.iter().map(|tests| format!("--cargo-arg={tests}")));
    command.args(["--", "--"]).args(pass.skipped.iter().flat_map(|test| ["--skip", test]));
    command.envs(PROPTEST).envs(pass.cases.map(|cases| ("PROPTEST_CASES", cases)));
    println!("+ cargo mutants --package {}, {} pass; the logs: {}", target.package, pass.name, output.display());
    // One folder for what is built, so that a run does not begin with every dependency. Jobs at the same time need one each.
    if args.jobs == 1 {
        command.env("CARGO_TARGET_DIR", &build);
    }
    let status = command.current_dir(root).env("TMPDIR", &scratch).status();
    let status = status.map_err(|e| format!("cannot run {}: {e}", tool.display()))?;
    // 2: mutants were missed, 3: some timed out (mutants.rs/exit-codes.html).
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        return Err(format!("cargo mutants of {} failed ({status}); its message is above", target.package));
    }
    if result.exists() { outcome::parse(&read(&result)?) } else { Ok(Vec::new()) }
}

/// The pattern of this name and no other.
fn exactly(name: &str) -> String {
    let escape = |c: char| r"\.+*?()|[]{}^$".contains(c).then_some('\\').into_iter().chain([c]);
    format!("^{}$", name.chars().flat_map(escape).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::outcome::Summary::{CaughtMutant, MissedMutant, Timeout};

    #[test]
    fn what_survives_the_quick_tests_meets_all() {
        let target = Target { package: "sched", files: &[], slow_tests: &["tree::slow"] };
        let args = Args { package: vec![], only: Some("tree".into()), shard: Some("0/2".into()), jobs: 1 };
        let first = Pass::first(&target, &args);
        assert_eq!(first.mutants, ["--re", "tree", "--shard", "0/2", "--sharding", "round-robin"]);
        assert_eq!((first.tests, first.skipped), (&[][..], &["tree::slow"][..]));
        let mutant = |name: &str, summary| Mutant { name: name.to_string(), summary };
        let survivor = mutant("core/a.rs:1:2: replace * with + in <impl A for B>::f", MissedMutant);
        let second = Pass::second(&[mutant("core/a.rs:3:4: replace f", CaughtMutant), survivor]);
        let pattern = r"^core/a\.rs:1:2: replace \* with \+ in <impl A for B>::f$";
        assert_eq!(second.mutants, ["--re", pattern]);
        assert_eq!((second.tests, second.cases), (&["--tests"][..], None));
    }
    #[test]
    fn the_second_pass_has_the_last_word_on_survivors_alone() {
        let mutants = |summaries: [_; 3]| {
            let of = |(line, summary)| Mutant { name: format!("core/a.rs:{line}:1: replace f"), summary };
            summaries.into_iter().enumerate().map(of).collect::<Vec<_>>()
        };
        let first = mutants([CaughtMutant, MissedMutant, MissedMutant]);
        let second = mutants([MissedMutant, Timeout, MissedMutant]);
        assert_eq!(last_word(first, &second), mutants([CaughtMutant, Timeout, MissedMutant]));
    }
}
