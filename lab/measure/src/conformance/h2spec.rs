//! h2spec: HTTP/2 clients that break the rules, and those at their edges.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::bench::Bench;
use super::run::{self, last_lines};
use super::site;

/// 146 cases, some of which wait for what must not come.
const LIMIT: Duration = Duration::from_secs(600);

/// The cases with a malformed body, by a word in each of their names. A server may answer before the body is there (RFC
/// 9113 section 8.1), and the client then expects a reset in vain. Whether it does depends on how the network cuts the
/// client's frames.
const OF_BODIES: &str = "\"content-length\"";
const FAILED: char = '×';

pub fn run(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    let ended = run_once(bench, found)?;
    match verdict(bench, &ended) {
        Err(_) if may_be_early(&ended.1) => {
            verdict(bench, &run_once(bench, found)?).map(|counts| format!("{counts}, in a second run"))
        }
        verdict => verdict,
    }
}

/// Returns whether the program's status was 0, and its output.
fn run_once(bench: &Bench, found: &[PathBuf]) -> Result<(bool, String), String> {
    let mut command = Command::new(&found[0]);
    // A response that is larger than the first windows: streams of cases that update windows must not end before.
    command.args(["-port", &bench.port.to_string(), "-path", &format!("/{}", site::FILES[2])]);
    run::to_end(&mut command, &bench.log("h2spec"), LIMIT)
}

fn verdict(bench: &Bench, (is_well, said): &(bool, String)) -> Result<String, String> {
    let counts = said.lines().rev().find(|line| line.contains(" tests, "));
    match counts {
        Some(counts) if *is_well && counts.contains(" 0 failed") && counts.contains(" 0 skipped") => {
            Ok(counts.trim().into())
        }
        Some(counts) => Err(format!("{}, see {}", counts.trim(), bench.log("h2spec").display())),
        None => Err(last_lines(said, 5)),
    }
}

/// Returns true if cases with a malformed body have failed, and no others.
fn may_be_early(said: &str) -> bool {
    let mut failed = said.lines().filter(|line| line.contains(FAILED)).peekable();
    failed.peek().is_some() && failed.all(|line| line.contains(OF_BODIES))
}

#[cfg(test)]
mod tests {
    use super::may_be_early;

    #[test]
    fn only_malformed_bodies_have_a_second_run() {
        let of_body =
            "  × 2: Sends a HEADERS frame with the \"content-length\" header field which does not equal the sum";
        let other = "  × 1: Sends a DATA frame on a closed stream";
        assert!(may_be_early(of_body) && may_be_early(&format!("✔ 1: Sends\n{of_body}\n{of_body}")));
        for said in ["", "145 tests, 145 passed", other, &format!("{of_body}\n{other}")] {
            assert!(!may_be_early(said), "{said}");
        }
    }
}
