//! One measurement with h2load: HTTP/2, closed loop, all streams always busy.

use std::process::Command;

use super::server::Bench;
use super::wrk::{Load, generate};

pub fn run(bench: &Bench, url: &str, connections: u32, streams: u32, seconds: u32) -> Result<Load, String> {
    let cores = &bench.cores;
    let mut command = Command::new("taskset");
    command.args(["-c", &cores.wrk, "h2load", "-t", &cores.wrk_threads.to_string()]);
    command.args(["-c", &connections.to_string(), "-m", &streams.to_string(), "-D", &seconds.to_string()]);
    let read = |text: &str, cpu_s: f64| {
        Some((parse(text, seconds.into(), cpu_s)?, protocol(text).unwrap_or("none").to_owned()))
    };
    let (load, protocol) = generate(command.arg(url), ["h2load", "nghttp2-client"], url, read)?;
    if protocol == "h2" { Ok(load) } else { Err(format!("h2load of {url}: protocol `{protocol}`, expected h2")) }
}

/// The protocol that h2load and the server chose. h2load also offers HTTP/1.1, and would measure that.
fn protocol(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("Application protocol: "))
}

/// Parses the output. Responses in flight at the end of the time are not failures.
fn parse(text: &str, seconds: f64, cpu_s: f64) -> Option<Load> {
    let line = |begin: &str| text.lines().find_map(|line| line.strip_prefix(begin));
    let number = |part: &str| part.split_whitespace().next()?.parse::<u64>().ok();
    let requests: Vec<&str> = line("requests: ")?.split(", ").collect();
    let counted = |what: &str| number(requests.iter().find(|part| part.ends_with(what))?);
    let statuses: Vec<&str> = line("status codes: ")?.split(", ").collect();
    let bad = statuses.iter().filter(|part| !part.ends_with("2xx")).filter_map(|part| number(part)).sum();
    let bytes = line("traffic: ")?.split_once('(')?.1.split_once(')')?.0.parse().ok()?;
    let errors = counted("errored")? + counted("timeout")?;
    Some(Load { requests: counted("succeeded")?, bytes, seconds, bad_statuses: bad, socket_errors: errors, cpu_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "Application protocol: h2\n\
        finished in 2.00s, 31415.50 req/s, 31.02MB/s\n\
        requests: 62831 total, 63631 started, 62831 done, 62829 succeeded, 2 failed, 1 errored, 0 timeout\n\
        status codes: 62829 2xx, 0 3xx, 2 4xx, 0 5xx\n\
        traffic: 62.05MB (65061234) total, 1.26MB (1319000) headers (space savings 91.00%), 61.36MB (64338944) data\n";

    #[test]
    fn reads_what_h2load_says() {
        let wanted =
            Load { requests: 62829, bytes: 65_061_234, seconds: 2.0, bad_statuses: 2, socket_errors: 1, cpu_s: 1.5 };
        assert_eq!(parse(SAID, 2.0, 1.5).unwrap(), wanted);
        assert_eq!(protocol(SAID), Some("h2"));
        assert_eq!((parse("unable to connect\n", 2.0, 0.0), protocol("unable to connect\n")), (None, None));
        assert_eq!(protocol(&SAID.replace("h2\n", "http/1.1\n")), Some("http/1.1"));
    }
}
