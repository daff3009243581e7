//! h2spec: HTTP/2 clients that break the rules, and those at their edges.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::bench::Bench;
use super::run::{self, last_lines};
use super::site;

/// 146 cases, some of which wait for what must not come.
const LIMIT: Duration = Duration::from_secs(600);

pub fn run(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    let mut command = Command::new(&found[0]);
    // A response that is larger than the first windows: streams of cases that update windows must not end before.
    command.args(["-port", &bench.port.to_string(), "-path", &format!("/{}", site::FILES[2])]);
    let (is_well, said) = run::to_end(&mut command, &bench.log("h2spec"), LIMIT)?;
    let counts = said.lines().rev().find(|line| line.contains(" tests, "));
    match counts {
        Some(counts) if is_well && counts.contains(" 0 failed") && counts.contains(" 0 skipped") => {
            Ok(counts.trim().into())
        }
        Some(counts) => Err(format!("{}, see {}", counts.trim(), bench.log("h2spec").display())),
        None => Err(last_lines(&said, 5)),
    }
}
