//! One measurement with `weirlab load`: HTTP/3, open loop. h2load supports HTTP/3 only if built with it, and Debian's
//! is not.

use std::fs;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::plan::Sample;
use super::server::Bench;
use super::wrk::{Load, generate};

/// The rate of the link for which `weirlab` computes bounds, which are not used here.
const LINK: &str = "10gbit";

/// Sends `per_s` requests per second at Poisson times for `seconds`, up to `streams` of them at a time on a connection.
pub fn run(bench: &Bench, site: &str, file: Sample, [streams, per_s, seconds]: [u32; 3]) -> Result<Load, String> {
    let trace = bench.folder().join("trace.csv");
    fs::write(&trace, trace_of(file.size_bytes, per_s * seconds)).map_err(|e| format!("{}: {e}", trace.display()))?;
    let mut command = Command::new("taskset");
    command.args(["-c", &bench.cores.wrk]).arg(&bench.programs.weirlab).args(["load", site, "--json"]);
    command.args(["--h3", &streams.to_string(), "--uplink", LINK, "--rate", &per_s.to_string()]);
    command.arg("--trace").arg(&trace);
    let begin = Instant::now();
    let read = |text: &str, cpu_s: f64| parse(text, begin.elapsed().as_secs_f64(), cpu_s);
    generate(&mut command, ["weirlab", "this workspace"], site, read)
}

/// Returns the trace of the sizes. Its times are not used, because the rate determines them.
fn trace_of(size_bytes: u64, requests: u32) -> String {
    let lines = (0..requests).map(|at| format!("{at},{size_bytes}\n"));
    std::iter::once("epoch_s,size_bytes\n".to_owned()).chain(lines).collect()
}

fn parse(text: &str, seconds: f64, cpu_s: f64) -> Option<Load> {
    let said: Value = serde_json::from_str(text).ok()?;
    let ended = |how: &str| said["outcomes"][how].as_u64();
    let (requests, bad_statuses) = (ended("complete")?, ended("wrong")?);
    let socket_errors = said["jobs"].as_u64()? - requests - bad_statuses;
    Some(Load { requests, bytes: said["bytes"].as_u64()?, seconds, bad_statuses, socket_errors, cpu_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_weirlab_says() {
        let said = r#"{"jobs": 9, "bytes": 7168, "outcomes": {"complete": 6, "wrong": 1, "reset": 2}}"#;
        let wanted = Load { requests: 6, bytes: 7168, seconds: 2.0, bad_statuses: 1, socket_errors: 2, cpu_s: 1.5 };
        assert_eq!(parse(said, 2.0, 1.5), Some(wanted));
        assert_eq!(parse("weirlab: every connection was refused\n", 2.0, 0.0), None);
    }

    #[test]
    fn a_trace_has_so_many_requests() {
        assert_eq!(trace_of(10, 2), "epoch_s,size_bytes\n0,10\n1,10\n");
    }
}
