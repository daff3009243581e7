//! Checks with curl, h2load and openssl.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::bench::Bench;
use super::{run, site};

const LIMIT: Duration = Duration::from_secs(120);
/// The number of requests of h2load.
const REQUESTS: u32 = 2000;

/// Compares files received by curl with those on disk. `words` select the protocol, and `protocol` is curl's name for
/// it.
pub fn curl(bench: &Bench, found: &[PathBuf], words: &[&str], protocol: &str) -> Result<String, String> {
    for file in site::FILES {
        let got = bench.folder.join("got");
        let mut command = Command::new(&found[0]);
        command.args(["-sS", "--fail", "--cacert"]).arg(&bench.certificates.authority).args(words);
        command.arg("-o").arg(&got).args(["-w", "%{http_version} %{ssl_verify_result}"]).arg(bench.url(file));
        let said = run::well(&mut command, &bench.log("curl"), LIMIT)?;
        if said.trim() != format!("{protocol} 0") {
            return Err(format!("{file}: HTTP version and verification `{}`, expected `{protocol} 0`", said.trim()));
        }
        let read = |path| fs::read(path).map_err(|error| format!("{file}: {error}"));
        if read(got)? != read(bench.site.join(file))? {
            return Err(format!("{file}: other bytes than on disk"));
        }
    }
    Ok(format!("{} files, whole", site::FILES.len()))
}

/// Returns the entries that curl stores from `Alt-Svc`, by the protocol of the response that carried it.
pub fn alt_svc(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    for (word, protocol) in [("--http1.1", "h1"), ("--http2", "h2")] {
        let kept = bench.folder.join(format!("alt-svc-{protocol}"));
        let mut command = Command::new(&found[0]);
        command.args(["-sS", "--fail", word, "-o", "/dev/null", "--cacert"]).arg(&bench.certificates.authority);
        command.arg("--alt-svc").arg(&kept).arg(bench.url("style.css"));
        run::well(&mut command, &bench.log("curl-alt-svc"), LIMIT)?;
        let kept = fs::read_to_string(&kept).unwrap_or_default();
        let wanted = format!("{protocol} localhost {0} h3 localhost {0} ", bench.port);
        if !kept.lines().any(|line| line.starts_with(&wanted)) {
            return Err(format!("no `{wanted}` in what curl kept: {}", run::last_lines(&kept, 2)));
        }
    }
    Ok("Alt-Svc over HTTP/1.1 and HTTP/2".into())
}

/// Runs h2load with ten connections. `words` select the protocol, and `protocol` is h2load's name for it.
pub fn h2load(bench: &Bench, found: &[PathBuf], words: &[&str], protocol: &str) -> Result<String, String> {
    let mut command = Command::new(&found[0]);
    command.args(["-n", &REQUESTS.to_string(), "-c", "10"]).args(words).arg(bench.url("style.css"));
    let said = run::well(&mut command, &bench.log("h2load"), LIMIT)?;
    all_answered(&said, protocol)
}

/// Checks that h2load reports success for all requests, over this protocol.
fn all_answered(said: &str, protocol: &str) -> Result<String, String> {
    let line = |begin| said.lines().find(|line| line.starts_with(begin)).unwrap_or(begin);
    let (spoken, requests, statuses) = (line("Application protocol: "), line("requests: "), line("status codes: "));
    let are_all = spoken == format!("Application protocol: {protocol}")
        && requests.contains(&format!(" {REQUESTS} succeeded, 0 failed, 0 errored"))
        && statuses.contains(&format!(": {REQUESTS} 2xx"));
    let wrong = || format!("{spoken}\n{requests}\n{statuses}\nexpected {REQUESTS} of 2xx by {protocol}");
    if are_all { Ok(format!("{REQUESTS} requests by {protocol}")) } else { Err(wrong()) }
}

/// Resumes a session with the first connection's ticket, in both versions of TLS.
pub fn resumption(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    for version in ["-tls1_2", "-tls1_3"] {
        let ticket = bench.folder.join("ticket.pem");
        let connect = |keep: &str, input: &str| {
            // The tickets of TLS 1.3 arrive with the response.
            let script = format!("printf '{input}' | exec \"$0\" s_client -ign_eof \"$@\"");
            let mut command = Command::new("sh");
            command.args(["-c", &script]).arg(&found[0]).args([version, "-servername", "localhost", keep]).arg(&ticket);
            command.arg("-CAfile").arg(&bench.certificates.authority).arg("-verify_return_error");
            command.args(["-connect", &format!("127.0.0.1:{}", bench.port)]);
            run::well(&mut command, &bench.log("resumption"), LIMIT)
        };
        let request = "GET /style.css HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n";
        connect("-sess_out", request)?;
        let again = connect("-sess_in", request)?;
        if !again.lines().any(|line| line.starts_with("Reused, ")) || !again.contains("HTTP/1.1 200 OK") {
            return Err(format!("{version}: the second connection does not resume, or is not answered"));
        }
    }
    Ok("TLS 1.2 and 1.3".into())
}

#[cfg(test)]
mod tests {
    use super::all_answered;

    #[test]
    fn another_protocol_or_a_missing_response_is_no_success() {
        let said = "Application protocol: h2\nrequests: 2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout\n\
            status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx\n";
        assert_eq!(all_answered(said, "h2").as_deref(), Ok("2000 requests by h2"));
        assert!(all_answered(said, "http/1.1").unwrap_err().contains("expected 2000 of 2xx by http/1.1"));
        for (from, to) in [("protocol: h2", "protocol: http/1.1"), ("2000 succ", "1999 succ"), ("2000 2xx", "1999 2xx")]
        {
            assert!(all_answered(&said.replace(from, to), "h2").is_err(), "{to}");
        }
        assert!(all_answered(said.split_once('\n').unwrap().1, "h2").is_err());
    }
}
