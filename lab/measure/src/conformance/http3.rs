//! aioquic and quic-go: pages over HTTP/3, and the life of a QUIC connection from its first packet to its last. The
//! checks are in `scripts/aioquic/` and `scripts/quic-go/`, each a program that prints its findings at its end.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::bench::{Bench, Server};
use super::run;

/// The time limit, above the programs' own limit of 40 s.
const LIMIT: Duration = Duration::from_secs(60);
const SCRIPT: &str = include_str!("../../../../scripts/aioquic/http3.py");

pub fn aioquic(bench: &Bench, found: &[PathBuf], check: &str) -> Result<String, String> {
    ask(bench, &mut python(bench, found, check, bench.port), "aioquic", check)
}

/// Checks a separate server, which the check fills or ends.
pub fn aioquic_alone(bench: &Bench, found: &[PathBuf], check: &str) -> Result<String, String> {
    let server: Server = bench.another(check)?;
    let mut command = python(bench, found, check, server.port);
    let said = ask(bench, command.args(["--pid", &server.id().to_string()]), "aioquic", check)?;
    server.stop().map(|()| said)
}

pub fn quic_go(bench: &Bench, found: &[PathBuf], check: &str) -> Result<String, String> {
    let mut command = Command::new(&found[0]);
    command.args(["-check", check, "-port", &bench.port.to_string(), "-authority"]);
    command.arg(&bench.certificates.authority).arg("-site").arg(&bench.site);
    ask(bench, &mut command, "quic-go", check)
}

fn python(bench: &Bench, found: &[PathBuf], check: &str, port: u16) -> Command {
    let mut command = Command::new(&found[0]);
    command.args(["-c", SCRIPT, check, "--port", &port.to_string(), "--authority"]);
    command.arg(&bench.certificates.authority).arg("--site").arg(&bench.site);
    command
}

fn ask(bench: &Bench, command: &mut Command, by: &str, check: &str) -> Result<String, String> {
    let (is_well, said) = run::to_end(command, &bench.log(&format!("{by}-{check}")), LIMIT)?;
    match run::last_lines(&said, 1) {
        seen if is_well && !seen.is_empty() => Ok(seen),
        _ => Err(run::last_lines(&said, 3)),
    }
}
