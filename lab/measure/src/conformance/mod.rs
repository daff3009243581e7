//! `cargo xtask conformance`: third-party checkers and clients against `weir serve` over TLS and QUIC on loopback.
//!
//! Our own tests may repeat our own misreadings. Each check here is therefore the verdict of a third-party program. If
//! a program is missing, only its check is SKIPPED, with the reason. Skipped checks are listed again at the end, so
//! that a check that never runs is noticed.

mod bench;
mod browsers;
pub mod certificates;
mod clients;
mod dictionaries;
mod h2spec;
mod http3;
mod pages;
mod redbot;
pub mod run;
mod site;
mod sslyze;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs;
use bench::Bench;

#[derive(clap::Args)]
pub struct Args {
    /// Only the checks whose name contains this, for example `curl`
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// A `weir` to judge instead of building this workspace's
    #[arg(long, value_name = "PROGRAM")]
    weir: Option<PathBuf>,
    /// A skipped check is an error
    #[arg(long)]
    all: bool,
}

/// A program that a check needs.
struct Need {
    /// Alternative names, on the path or below target/tools.
    names: &'static [&'static str],
    /// The feature that its version output must name.
    feature: Option<&'static str>,
    /// The Debian package that contains it.
    package: &'static str,
}

const fn need(names: &'static [&'static str], package: &'static str) -> Need {
    Need { names, feature: None, package }
}

struct Check {
    name: &'static str,
    needs: &'static [&'static Need],
    /// Performs the check with the programs in the order of `needs`. Returns a description of the findings, or of what
    /// is wrong.
    run: fn(&Bench, &[PathBuf]) -> Result<String, String>,
}

/// The cargo arguments that build it in the same way as for the tests.
const BUILD: [&str; 3] = ["--workspace", "--bin", "weir"];

const CURL: Need = need(&["curl"], "curl");
const CURL_HTTP3: Need = Need { names: &["curl"], feature: Some("HTTP3"), package: "curl, not every release" };
const CURL_ALT_SVC: Need = Need { names: &["curl"], feature: Some("alt-svc"), package: "curl" };
const OPENSSL: Need = need(&["openssl"], "openssl");
const SSLYZE: Need = need(&["sslyze/bin/sslyze", "sslyze"], "python3-venv");
const REDBOT: Need = need(&["redbot/bin/python"], "python3-venv");
const CERTUTIL: Need = need(&["certutil"], "libnss3-tools");
const CHROMIUM: Need = need(&["chromium", "chromium-browser", "google-chrome"], "chromium");
const FIREFOX: Need = need(&["firefox-esr", "firefox"], "firefox-esr");
const H2LOAD: Need = need(&["h2load"], "nghttp2-client");
const AIOQUIC: Need = need(&["aioquic/bin/python"], "python3-venv");
const QUIC_GO: Need = need(&["quic-go"], "golang-go");
const H2SPEC: Need = need(&["h2spec"], "golang-go");

const fn check(
    name: &'static str,
    needs: &'static [&'static Need],
    run: fn(&Bench, &[PathBuf]) -> Result<String, String>,
) -> Check {
    Check { name, needs, run }
}

/// The checks, the short ones first.
const CHECKS: &[Check] = &[
    check("aioquic, HTTP/3", &[&AIOQUIC], |bench, found| http3::aioquic(bench, found, "page")),
    check("quic-go, HTTP/3", &[&QUIC_GO], |bench, found| http3::quic_go(bench, found, "page")),
    check("curl, HTTP/3", &[&CURL_HTTP3], |bench, found| clients::curl(bench, found, &["--http3-only"], "3")),
    check("curl, offer of HTTP/3", &[&CURL_ALT_SVC], clients::alt_svc),
    check("HTTP/3: versions", &[&AIOQUIC], |bench, found| http3::aioquic(bench, found, "versions")),
    check("HTTP/3: Retry", &[&AIOQUIC], |bench, found| http3::aioquic_alone(bench, found, "retry")),
    check("HTTP/3: 0-RTT refused", &[&AIOQUIC], |bench, found| http3::aioquic(bench, found, "early-data")),
    check("HTTP/3: another port", &[&AIOQUIC], |bench, found| http3::aioquic(bench, found, "migration")),
    check("HTTP/3: another path", &[&QUIC_GO], |bench, found| http3::quic_go(bench, found, "migration")),
    check("HTTP/3: cancelled, aioquic", &[&AIOQUIC], |bench, found| http3::aioquic(bench, found, "cancelled")),
    check("HTTP/3: cancelled, quic-go", &[&QUIC_GO], |bench, found| http3::quic_go(bench, found, "cancelled")),
    check("HTTP/3: SIGTERM", &[&AIOQUIC], |bench, found| http3::aioquic_alone(bench, found, "shutdown")),
    check("Chromium, HTTP/3", &[&CHROMIUM, &CERTUTIL], browsers::chromium_http3),
    check("Firefox, HTTP/3", &[&FIREFOX, &CERTUTIL], browsers::firefox_http3),
    check("openssl, sessions resumed", &[&OPENSSL], clients::resumption),
    check("curl, TLS 1.2", &[&CURL], |bench, found| {
        clients::curl(bench, found, &["--http1.1", "--tls-max", "1.2"], "1.1")
    }),
    check("curl, TLS 1.3", &[&CURL], |bench, found| clients::curl(bench, found, &["--http1.1", "--tlsv1.3"], "1.1")),
    check("h2load, HTTP/1.1", &[&H2LOAD], |bench, found| clients::h2load(bench, found, &["--h1"], "http/1.1")),
    check("Chromium", &[&CHROMIUM, &CERTUTIL], browsers::chromium),
    check("Firefox", &[&FIREFOX, &CERTUTIL], browsers::firefox),
    check("dictionaries in Chromium", &[&CHROMIUM, &CERTUTIL], dictionaries::chromium),
    check("pages in Chromium", &[&CHROMIUM], pages::chromium),
    check("pages in Firefox", &[&FIREFOX], pages::firefox),
    check("curl, HTTP/2", &[&CURL], |bench, found| clients::curl(bench, found, &["--http2"], "2")),
    check("h2load, HTTP/2", &[&H2LOAD], |bench, found| {
        clients::h2load(bench, found, &["--max-concurrent-streams", "100"], "h2")
    }),
    check("h2spec", &[&H2SPEC], h2spec::run),
    check("redbot", &[&REDBOT], redbot::run),
    check("sslyze", &[&SSLYZE], sslyze::run),
];

#[derive(Debug, PartialEq)]
enum Verdict {
    Passed(String),
    Failed(String),
    Skipped(String),
}

pub fn main(root: &Path, args: &Args) -> Result<(), String> {
    let checks = wanted(args)?;
    let openssl = find(root, &OPENSSL)?;
    let weir = args.weir.clone().map_or_else(|| programs::build(root, &BUILD, &[]), Ok)?;
    let bench = Bench::start(root, weir, &openssl)?;
    let (mut failed, mut skipped) = (Vec::new(), Vec::new());
    for check in &checks {
        let verdict = judge(root, &bench, check);
        println!("{}", line(check.name, &verdict));
        match verdict {
            Verdict::Passed(_) => {}
            Verdict::Failed(_) => failed.push(check.name),
            Verdict::Skipped(_) => skipped.push(check.name),
        }
    }
    bench.stop()?;
    outcome(checks.len(), &failed, &skipped, args.all)
}

fn wanted(args: &Args) -> Result<Vec<&'static Check>, String> {
    let is_wanted = |check: &&Check| args.only.as_ref().is_none_or(|text| check.name.contains(text.as_str()));
    let checks: Vec<&Check> = CHECKS.iter().filter(is_wanted).collect();
    if !checks.is_empty() {
        return Ok(checks);
    }
    let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
    Err(format!("--only {}: expected a part of: {}", args.only.as_deref().unwrap_or(""), names.join("; ")))
}

/// Reports the skipped checks, which are an error only if all were required.
fn outcome(count: usize, failed: &[&str], skipped: &[&str], all: bool) -> Result<(), String> {
    let passed = count - failed.len() - skipped.len();
    let not_passed = [("failed", failed), ("SKIPPED", skipped)].into_iter().filter(|(_, names)| !names.is_empty());
    let not_passed: String = not_passed.map(|(word, names)| format!("\n{word}: {}", names.join("; "))).collect();
    let said = format!("conformance: {passed} of {count} passed{not_passed}");
    if !failed.is_empty() || (all && !skipped.is_empty()) {
        return Err(said);
    }
    println!("{said}");
    Ok(())
}

fn judge(root: &Path, bench: &Bench, check: &Check) -> Verdict {
    let found: Result<Vec<PathBuf>, String> = check.needs.iter().map(|need| find(root, need)).collect();
    match found {
        Err(reason) => Verdict::Skipped(reason),
        Ok(found) => (check.run)(bench, &found).map_or_else(Verdict::Failed, Verdict::Passed),
    }
}

/// Finds a program below target/tools, or else on the path.
fn find(root: &Path, need: &Need) -> Result<PathBuf, String> {
    let tools = root.join("target/tools");
    let kept = need.names.iter().map(|name| tools.join(name)).find(|program| program.is_file());
    let found = kept.or_else(|| need.names.iter().find_map(|name| programs::find(name)));
    let (name, package) = (need.names[0], need.package);
    match (found, need.feature) {
        (Some(program), Some(feature)) if !has(&program, feature) => {
            Err(format!("{} without {feature} (Debian package {package})", program.display()))
        }
        (Some(program), _) => Ok(program),
        (None, _) => Err(format!("no program {name} (Debian package {package}): run scripts/setup.sh conformance")),
    }
}

/// Returns true if the program's version output names the feature.
fn has(program: &Path, feature: &str) -> bool {
    let said = Command::new(program).arg("--version").output();
    said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).split_whitespace().any(|word| word == feature))
}

fn line(name: &str, verdict: &Verdict) -> String {
    let (word, said) = match verdict {
        Verdict::Passed(said) => ("passed", said.as_str()),
        Verdict::Failed(said) => ("FAILED", said.as_str()),
        Verdict::Skipped(said) => ("SKIPPED", said.as_str()),
    };
    format!("{word:8} {name:26} {}", said.replace('\n', "\n                                    "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_and_fails_where_all_is_wanted() {
        let no_such = need(&["no-such-program"], "none");
        let skipped = Verdict::Skipped(find(Path::new("/nonexistent"), &no_such).unwrap_err());
        assert!(
            line("x", &skipped).starts_with("SKIPPED  x ")
                && line("x", &skipped).contains("scripts/setup.sh conformance")
        );
        let without = Need { names: &["true"], feature: Some("HTTP3"), package: "none" };
        assert!(find(Path::new("/nonexistent"), &without).unwrap_err().contains("without HTTP3"));
        assert_eq!((outcome(2, &[], &["x"], false), outcome(2, &[], &[], true)), (Ok(()), Ok(())));
        assert_eq!(outcome(2, &[], &["x"], true).unwrap_err(), "conformance: 1 of 2 passed\nSKIPPED: x");
        let said = outcome(3, &["y", "z"], &["x"], false).unwrap_err();
        assert_eq!(said, "conformance: 0 of 3 passed\nfailed: y; z\nSKIPPED: x");
    }
}
