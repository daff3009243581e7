//! `cargo xtask conformance`: others' checkers and clients against `weir serve` over TLS on loopback.
//!
//! What we test ourselves we may misread as we wrote it. Each check here is somebody else's program, asked for its verdict. A program that
//! is missing costs its check alone: SKIPPED, with the reason; with `CI=true` that is an error, or a check would never run and nobody would
//! notice.

mod bench;
mod browsers;
pub mod certificates;
mod clients;
mod h2spec;
mod run;
mod site;
mod sslyze;

use std::path::{Path, PathBuf};

use crate::{ci, programs};
use bench::Bench;

#[derive(clap::Args)]
pub struct Args {
    /// Only the checks whose name contains this, for example `curl`
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// A `weir` to judge instead of building this workspace's
    #[arg(long, value_name = "PROGRAM")]
    weir: Option<PathBuf>,
}

/// A program that a check needs.
struct Need {
    /// Any of these, on the path or below target/tools.
    names: &'static [&'static str],
    /// The package of Debian that has it.
    package: &'static str,
}

struct Check {
    name: &'static str,
    needs: &'static [&'static Need],
    /// Gives what was seen, or what is wrong; with the programs in the order of `needs`.
    run: fn(&Bench, &[PathBuf]) -> Result<String, String>,
}

/// As the tests have built it.
const BUILD: [&str; 3] = ["--workspace", "--bin", "weir"];

const CURL: Need = Need { names: &["curl"], package: "curl" };
const OPENSSL: Need = Need { names: &["openssl"], package: "openssl" };
const SSLYZE: Need = Need { names: &["sslyze/bin/sslyze", "sslyze"], package: "python3-venv" };
const CERTUTIL: Need = Need { names: &["certutil"], package: "libnss3-tools" };
const CHROMIUM: Need = Need { names: &["chromium", "chromium-browser", "google-chrome"], package: "chromium" };
const FIREFOX: Need = Need { names: &["firefox-esr", "firefox"], package: "firefox-esr" };
const H2LOAD: Need = Need { names: &["h2load"], package: "nghttp2-client" };
const H2SPEC: Need = Need { names: &["h2spec"], package: "golang-go" };

const fn check(
    name: &'static str,
    needs: &'static [&'static Need],
    run: fn(&Bench, &[PathBuf]) -> Result<String, String>,
) -> Check {
    Check { name, needs, run }
}

const CHECKS: &[Check] = &[
    check("sslyze", &[&SSLYZE], sslyze::run),
    check("openssl, sessions resumed", &[&OPENSSL], clients::resumption),
    check("curl, TLS 1.2", &[&CURL], |bench, found| {
        clients::curl(bench, found, &["--http1.1", "--tls-max", "1.2"], "1.1")
    }),
    check("curl, TLS 1.3", &[&CURL], |bench, found| clients::curl(bench, found, &["--http1.1", "--tlsv1.3"], "1.1")),
    check("h2load, HTTP/1.1", &[&H2LOAD], |bench, found| clients::h2load(bench, found, &["--h1"], "http/1.1")),
    check("Chromium", &[&CHROMIUM, &CERTUTIL], browsers::chromium),
    check("Firefox", &[&FIREFOX, &CERTUTIL], browsers::firefox),
    check("curl, HTTP/2", &[&CURL], |bench, found| clients::curl(bench, found, &["--http2"], "2")),
    check("h2load, HTTP/2", &[&H2LOAD], |bench, found| {
        clients::h2load(bench, found, &["--max-concurrent-streams", "100"], "h2")
    }),
    check("h2spec", &[&H2SPEC], h2spec::run),
];

#[derive(Debug, PartialEq)]
enum Verdict {
    Passed(String),
    Failed(String),
    Skipped(String),
}

pub fn main(root: &Path, args: &Args) -> Result<(), String> {
    let wanted = |check: &&Check| args.only.as_ref().is_none_or(|text| check.name.contains(text.as_str()));
    let checks: Vec<&Check> = CHECKS.iter().filter(wanted).collect();
    if checks.is_empty() {
        let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        return Err(format!("--only {}: expected a part of: {}", args.only.as_deref().unwrap_or(""), names.join("; ")));
    }
    let openssl = find(root, &OPENSSL)?;
    let weir = args.weir.clone().map_or_else(|| programs::build(root, &BUILD), Ok)?;
    let bench = Bench::start(root, &weir, &openssl)?;
    let mut failed = Vec::new();
    for check in checks {
        let verdict = judge(root, &bench, check);
        println!("{}", line(check.name, &verdict));
        if fails(&verdict, ci::is_ci_here()) {
            failed.push(check.name);
        }
    }
    bench.stop()?;
    if failed.is_empty() { Ok(()) } else { Err(format!("conformance: failed: {}", failed.join("; "))) }
}

fn judge(root: &Path, bench: &Bench, check: &Check) -> Verdict {
    let found: Result<Vec<PathBuf>, String> = check.needs.iter().map(|need| find(root, need)).collect();
    match found {
        Err(reason) => Verdict::Skipped(reason),
        Ok(found) => (check.run)(bench, &found).map_or_else(Verdict::Failed, Verdict::Passed),
    }
}

/// Below target/tools, else on the path.
fn find(root: &Path, need: &Need) -> Result<PathBuf, String> {
    let tools = root.join("target/tools");
    let kept = need.names.iter().map(|name| tools.join(name)).find(|program| program.is_file());
    kept.or_else(|| need.names.iter().find_map(|name| programs::find(name))).ok_or_else(|| {
        let (name, package) = (need.names[0], need.package);
        format!("no program {name} (Debian package {package}): run scripts/setup.sh conformance")
    })
}

fn line(name: &str, verdict: &Verdict) -> String {
    let (word, said) = match verdict {
        Verdict::Passed(said) => ("passed", said.as_str()),
        Verdict::Failed(said) => ("FAILED", said.as_str()),
        Verdict::Skipped(said) => ("SKIPPED", said.as_str()),
    };
    format!("{word:8} {name:26} {}", said.replace('\n', "\n                                    "))
}

fn fails(verdict: &Verdict, is_ci: bool) -> bool {
    match verdict {
        Verdict::Passed(_) => false,
        Verdict::Failed(_) => true,
        Verdict::Skipped(_) => is_ci,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_and_fails_in_ci_alone() {
        let need = Need { names: &["no-such-program"], package: "none" };
        let skipped = Verdict::Skipped(find(Path::new("/nonexistent"), &need).unwrap_err());
        assert!(
            line("x", &skipped).starts_with("SKIPPED  x ")
                && line("x", &skipped).contains("scripts/setup.sh conformance")
        );
        assert!(!fails(&skipped, false) && fails(&skipped, true));
        assert!(fails(&Verdict::Failed("no".into()), false) && !fails(&Verdict::Passed("all".into()), true));
    }
}
