//! Runs a small tool such as `ip` or `tc` to its end.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::LabError;

/// The folders of administrators' tools, which an ordinary user's PATH often lacks.
const ADMIN_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The file of a program, from PATH or the administrators' folders.
pub fn find_program(name: &str) -> Result<PathBuf, LabError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(ADMIN_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| LabError::Missing { program: name.into() })
}

/// Runs a command written as one line of words without spaces, and returns its output.
///
/// It runs in a separate process group: Ctrl-C at the terminal must not kill `ip` half-way through a change.
pub(crate) fn run(line: &str) -> Result<String, LabError> {
    run_words(&line.split_whitespace().collect::<Vec<_>>())
}

/// Runs a command whose words may contain spaces, and returns its output.
pub(crate) fn run_words(words: &[impl AsRef<str>]) -> Result<String, LabError> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let program = find_program(words.first().copied().unwrap_or_default())?;
    let output = Command::new(&program)
        .args(words.get(1..).unwrap_or_default())
        .process_group(0)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| LabError::path(&program, e))?;
    if !output.status.success() {
        let said = one_line(String::from_utf8_lossy(&output.stderr).trim_end_matches(['.', '\n']));
        return Err(LabError::Tool { command: words.join(" "), said });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The version that a program prints on standard output or error; empty if it prints none.
pub(crate) fn version(program: &Path, flag: &str) -> String {
    let output = Command::new(program).arg(flag).process_group(0).stdin(Stdio::null()).output();
    output.map(|o| one_line(&String::from_utf8_lossy(&[o.stdout, o.stderr].concat()))).unwrap_or_default()
}

/// Replaces the line ends of a text, so that an error stays on one line.
pub(crate) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_what_was_printed() {
        assert_eq!(run("echo two words").unwrap(), "two words\n");
    }

    #[test]
    fn a_failure_quotes_the_command_and_its_words() {
        let said = run("ls /nonexistent-weir").unwrap_err().to_string();
        assert!(
            said.starts_with("`ls /nonexistent-weir` failed: ")
                && said.contains("No such file")
                && !said.contains('\n'),
            "{said}"
        );
    }

    #[test]
    fn a_missing_program_is_named() {
        assert!(
            matches!(find_program("no-such-program"), Err(LabError::Missing { program }) if program == "no-such-program")
        );
    }
}
