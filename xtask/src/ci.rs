//! Everything that must hold before a commit is pushed, in the order that fails fastest.

use std::path::Path;
use std::process::Command;

use crate::tidy;

/// Set in CI: a test that lacks a privilege must fail there, not skip, or nobody would notice it never ran.
const REQUIRE_PRIVILEGED: &str = "WEIR_REQUIRE_PRIVILEGED";

const FMT: &[&str] = &["fmt", "--all", "--check"];
/// With the program under libFuzzer, which nothing else builds here; the targets themselves are run by tests.
const CLIPPY: &[&str] =
    &["clippy", "--locked", "--workspace", "--all-targets", "--features", "fuzz/libfuzzer", "--", "-D", "warnings"];
const TEST: &[&str] = &["test", "--locked", "--workspace"];
/// The tests of a program at once, for each processor: most wait for a timeout or another process. cargo's own default
/// is one.
const TESTS_PER_PROCESSOR: usize = 4;
const TEST_THREADS: &str = "RUST_TEST_THREADS";
/// The house whose tests take the longest, and of which the product needs nothing.
const LABORATORY: &str = "lab";

#[derive(clap::Args)]
pub struct Args {
    /// The laboratory's tests too
    #[arg(long)]
    all: bool,
}

pub fn main(root: &Path, args: &Args) -> Result<(), String> {
    cargo(root, FMT)?;
    println!("+ cargo xtask tidy");
    tidy::main(root)?;
    cargo(root, CLIPPY)?;
    let left_out = if args.all { vec![] } else { crates_of(root, LABORATORY)? };
    let test: Vec<&str> = TEST.iter().copied().chain(left_out.iter().flat_map(|name| ["--exclude", name])).collect();
    cargo(root, &test)
}

/// The crates of a house; each is called as its folder is.
fn crates_of(root: &Path, house: &str) -> Result<Vec<String>, String> {
    let folder = root.join(house);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(&folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut names: Vec<String> = entries.iter().map(|entry| entry.file_name().to_string_lossy().into()).collect();
    names.sort();
    Ok(names)
}

/// Runs cargo with its output shown; an error names the command that failed.
fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let shown = format!("cargo {}", arguments.join(" "));
    println!("+ {shown}");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    if is_ci_here() {
        command.env(REQUIRE_PRIVILEGED, "1");
    }
    if std::env::var_os(TEST_THREADS).is_none() {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(TEST_THREADS, (TESTS_PER_PROCESSOR * processors).to_string());
    }
    let status = command.status().map_err(|e| format!("cannot run `{shown}`: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed ({status})")) }
}

/// Whether continuous integration runs this.
pub fn is_ci_here() -> bool {
    is_ci(std::env::var("CI").ok().as_deref())
}

fn is_ci(variable: Option<&str>) -> bool {
    matches!(variable, Some("true" | "1"))
}

#[cfg(test)]
mod tests {
    use super::{LABORATORY, crates_of, is_ci};

    #[test]
    fn the_laboratory_is_left_out_by_its_crates() {
        let names = crates_of(&crate::root(), LABORATORY).unwrap();
        assert!(["sim", "testbed", "weirlab"].iter().all(|name| names.iter().any(|found| found == name)), "{names:?}");
    }

    #[test]
    fn ci_is_what_continuous_integration_sets() {
        assert!(is_ci(Some("true")) && is_ci(Some("1")));
        assert!(!is_ci(None) && !is_ci(Some("")) && !is_ci(Some("false")));
    }
}
