//! Programs: the workspace's own, built, and those of the machine. `lab/measure` has this file, too.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds a program, with these variables in cargo's environment, and gives its path, as cargo reports it. `words` say
/// which program, and how.
pub fn build(root: &Path, words: &[&str], variables: &[(&str, &str)]) -> Result<PathBuf, String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--locked", "--message-format", "json-render-diagnostics"]).args(words);
    command.envs(variables.iter().copied());
    let output = command.current_dir(root).stderr(Stdio::inherit()).output();
    let output = output.map_err(|e| format!("cannot run cargo: {e}"))?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let found = messages.lines().rev().find_map(executable);
    found.filter(|_| output.status.success()).ok_or_else(|| format!("cannot build: cargo build {}", words.join(" ")))
}

fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    message.get("executable")?.as_str().map(PathBuf::from)
}

/// A program of this name on the path.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(find("sh").is_some() && find("no-such-server").is_none());
    }

    #[test]
    fn cargo_says_where_the_program_is() {
        assert_eq!(executable(r#"{"reason":"compiler-artifact","executable":"/t/weir"}"#), Some("/t/weir".into()));
        assert_eq!(executable(r#"{"reason":"compiler-artifact","executable":null}"#), None);
    }
}
