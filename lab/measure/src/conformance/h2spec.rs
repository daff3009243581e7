//! h2spec: HTTP/2 clients that break the rules or test their limits.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use super::bench::Bench;
use super::run::{self, last_lines};
use super::site;

/// The time limit. Some of the 146 cases wait for frames that must not arrive.
const LIMIT: Duration = Duration::from_secs(600);

/// The cases with a malformed body, by a word in each of their names and their section. A server may answer before the
/// body has arrived (RFC 9113 section 8.1), and the client then expects a reset in vain. Whether Weir does so for a
/// file depends on how the network splits the client's frames. With an upstream that never answers, Weir cannot.
const OF_BODIES: &str = "\"content-length\"";
const BODIES: &str = "http2/8.1.2.6";
const FAILED: char = '×';

/// Runs all cases with a file, and those with a malformed body with an upstream.
pub fn run(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    // The response is larger than the initial windows, so streams of cases that update windows do not end too early.
    let all = run_once(bench, found, bench.port, &["-path", &format!("/{}", site::FILES[2])])?;
    let counts = match verdict(bench, &all) {
        Err(_) if may_be_early(&all.1) => "all but those answered before their bodies".to_string(),
        verdict => verdict?,
    };
    let silent = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("cannot listen at 127.0.0.1: {error}"))?;
    let folder = bench.folder.join("h2spec");
    let file = write(bench, &folder, &silent).map_err(|error| format!("{}: {error}", folder.display()))?;
    let server = bench.running(&file, &folder.join("state"), "h2spec")?;
    let of_bodies = verdict(bench, &run_once(bench, found, server.port, &[BODIES])?)?;
    server.stop()?;
    Ok(format!("{counts}; of bodies: {of_bodies}"))
}

/// Writes a configuration that passes all requests to `upstream`, and returns its path.
fn write(bench: &Bench, folder: &Path, upstream: &TcpListener) -> io::Result<PathBuf> {
    let file = folder.join("weir.toml");
    let (chain, key) = (bench.certificates.chain.display(), bench.certificates.key.display());
    fs::create_dir_all(folder)?;
    let configuration = format!(
        "[[listener]]\naddress = '127.0.0.1:0'\ntls = true\n[[site]]\ncert = '{chain}'\nkey = '{key}'\n\
         [[site.proxy]]\npath = '/*'\nto = ['{}']\n",
        upstream.local_addr()?
    );
    fs::write(&file, configuration)?;
    Ok(file)
}

/// Runs h2spec once. Returns true if its status was 0, and its output.
fn run_once(bench: &Bench, found: &[PathBuf], port: u16, arguments: &[&str]) -> Result<(bool, String), String> {
    let mut command = Command::new(&found[0]);
    command.args(["-port", &port.to_string()]).args(arguments);
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

/// Returns true if only cases with a malformed body have failed.
fn may_be_early(said: &str) -> bool {
    let mut failed = said.lines().filter(|line| line.contains(FAILED)).peekable();
    failed.peek().is_some() && failed.all(|line| line.contains(OF_BODIES))
}

#[cfg(test)]
mod tests {
    use super::may_be_early;

    #[test]
    fn only_malformed_bodies_may_be_answered_early() {
        let of_body =
            "  × 2: Sends a HEADERS frame with the \"content-length\" header field which does not equal the sum";
        let other = "  × 1: Sends a DATA frame on a closed stream";
        assert!(may_be_early(of_body) && may_be_early(&format!("✔ 1: Sends\n{of_body}\n{of_body}")));
        for said in ["", "145 tests, 145 passed", other, &format!("{of_body}\n{other}")] {
            assert!(!may_be_early(said), "{said}");
        }
    }
}
