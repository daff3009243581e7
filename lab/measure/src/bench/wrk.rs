//! One measurement with wrk: closed loop, all connections always busy.

use std::process::{Command, Stdio};

use super::plan::Row;
use super::procfs;
use super::server::Bench;

/// The script that prints the results. It runs once, after the measurement, so it does not slow the generator, and
/// prints numbers without units.
pub const SCRIPT: &str = r#"done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("measured %d %d %d %d %d\n", summary.requests, summary.bytes, summary.duration,
    e.status, e.connect + e.read + e.write + e.timeout))
end
"#;

/// The time limit of a response in wrk: 1,000 responses of 10 MB share the link.
const TIMEOUT: &str = "60s";

/// The results of wrk, and the CPU time that it used.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    pub requests: u64,
    /// The bytes of heads and bodies, including unfinished responses.
    pub bytes: u64,
    pub seconds: f64,
    pub bad_statuses: u64,
    pub socket_errors: u64,
    pub cpu_s: f64,
}

pub fn run(bench: &Bench, url: &str, row: &Row, seconds: u32) -> Result<Load, String> {
    let cores = &bench.cores;
    let mut command = Command::new("taskset");
    command.args(["-c", &cores.wrk, "wrk", "-t", &cores.wrk_threads.to_string()]);
    command.args(["-c", &row.connections.to_string(), "-d", &format!("{seconds}s"), "--timeout", TIMEOUT]);
    command.arg("-s").arg(bench.script());
    if !row.is_keep_alive {
        command.args(["-H", "Connection: close"]);
    }
    generate(command.arg(url), ["wrk", "wrk"], url, parse)
}

/// Runs a generator, named with its Debian package, under taskset. Returns what `parse` makes of its output and of the
/// CPU seconds that it used.
pub fn generate<T>(
    command: &mut Command,
    [name, package]: [&str; 2],
    url: &str,
    parse: impl FnOnce(&str, f64) -> Option<T>,
) -> Result<T, String> {
    let before = procfs::reaped_children_cpu_seconds();
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output();
    let output =
        output.map_err(|e| format!("cannot run taskset and {name} (Debian packages util-linux, {package}): {e}"))?;
    let cpu_s = procfs::reaped_children_cpu_seconds() - before;
    parse(&String::from_utf8_lossy(&output.stdout), cpu_s).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("{name} measured nothing of {url} ({}): {}", output.status, said.lines().last().unwrap_or("no message"))
    })
}

fn parse(text: &str, cpu_s: f64) -> Option<Load> {
    let line = text.lines().find_map(|line| line.strip_prefix("measured "))?;
    let numbers: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let &[requests, bytes, micros, bad_statuses, socket_errors] = &numbers[..] else { return None };
    Some(Load { requests, bytes, seconds: micros as f64 / 1e6, bad_statuses, socket_errors, cpu_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_line_of_the_script() {
        let load = parse("Running 2s test\nmeasured 100 2000 2000000 1 2\n", 1.5).unwrap();
        let wanted = Load { requests: 100, bytes: 2000, seconds: 2.0, bad_statuses: 1, socket_errors: 2, cpu_s: 1.5 };
        assert_eq!(load, wanted);
        assert_eq!(parse("unable to connect\n", 0.0), None);
        assert_eq!(parse("measured 1 2 3\n", 0.0), None);
    }
}
