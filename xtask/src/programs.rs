//! Programs: the workspace's own, built, and those of the machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds a program and gives its path, as cargo reports it. `words` say which, and how.
pub fn build(root: &Path, words: &[&str]) -> Result<PathBuf, String> {
    build_with(root, words, &[])
}

/// The same, with these variables in cargo's environment.
pub fn build_with(root: &Path, words: &[&str], variables: &[(&str, &str)]) -> Result<PathBuf, String> {
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

/// A tool of this version, below `target/`; installed there first if it is not.
pub fn installed(root: &Path, name: &str, version: &str) -> Result<PathBuf, String> {
    let folder = root.join("target/tools").join(format!("{name}-{version}"));
    let program = folder.join("bin").join(name);
    if program.exists() {
        return Ok(program);
    }
    println!("+ cargo install --locked {name}@{version}, into {}: takes minutes, once", folder.display());
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["install", "--quiet", "--locked", "--root"]).arg(&folder).arg(format!("{name}@{version}"));
    let status = command.status().map_err(|e| format!("cannot run cargo install: {e}"))?;
    if !status.success() {
        return Err(format!("cargo install of {name} {version} failed ({status}); it needs the registry"));
    }
    Ok(program)
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
