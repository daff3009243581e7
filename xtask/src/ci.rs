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

pub fn main(root: &Path) -> Result<(), String> {
    cargo(root, FMT)?;
    println!("+ cargo xtask tidy");
    tidy::main(root)?;
    cargo(root, CLIPPY)?;
    cargo(root, TEST)
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
    use super::is_ci;

    #[test]
    fn ci_is_what_continuous_integration_sets() {
        assert!(is_ci(Some("true")) && is_ci(Some("1")));
        assert!(!is_ci(None) && !is_ci(Some("")) && !is_ci(Some("false")));
    }
}
