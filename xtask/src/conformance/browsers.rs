//! Browsers without a window. Each has a home of its own that trusts the authority, loads the page, and the page's script tells the server
//! what it got: the access log has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::bench::Bench;
use super::run::{self, Running, last_lines};
use super::site;

/// A browser's first start, on a slow machine.
const LIMIT: Duration = Duration::from_secs(120);
/// By ALPN, as the script names it.
const PROTOCOL: &str = "h2";

pub fn chromium(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    let home = bench.folder.join("chromium");
    trust(bench, &found[1], &home.join(".pki/nssdb"))?;
    let mut command = Command::new(&found[0]);
    // Root has no sandbox. What it would ask of other hosts is left out.
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--no-proxy-server"]);
    command.arg(format!("--user-data-dir={}", home.join("data").display()));
    command.env("HOME", &home).env_remove("XDG_DATA_HOME").env_remove("XDG_CONFIG_HOME");
    load(bench, "chromium", &mut command)
}

pub fn firefox(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    let home = bench.folder.join("firefox");
    trust(bench, &found[1], &home)?;
    let mut command = Command::new(&found[0]);
    command
        .args(["--headless", "--no-remote", "--profile"])
        .arg(&home)
        .env("HOME", &home)
        .env("MOZ_DISABLE_CONTENT_SANDBOX", "1");
    load(bench, "firefox", &mut command)
}

/// Makes a store of certificates that has the authority's.
fn trust(bench: &Bench, certutil: &Path, store: &Path) -> Result<(), String> {
    fs::create_dir_all(store).map_err(|error| format!("{}: {error}", store.display()))?;
    let certutil = |words: &[&str]| {
        let mut command = Command::new(certutil);
        command.args(["-d", &format!("sql:{}", store.display())]).args(words);
        run::well(&mut command, &bench.log("certutil"), LIMIT)
    };
    certutil(&["-N", "--empty-password"])?;
    let authority = bench.certificates.authority.display().to_string();
    certutil(&["-A", "-t", "C,,", "-n", "weir-conformance", "-i", &authority]).map(drop)
}

/// Until the script has reported.
fn load(bench: &Bench, by: &str, command: &mut Command) -> Result<String, String> {
    let log = bench.log(by);
    let mut browser = Running::start(command.arg(bench.url(&format!("?{by}"))), &log)?;
    let look = || match report(&bench.access_log(), by) {
        None if browser.status().is_some() => Some(None),
        found => found.map(Some),
    };
    match run::wait_for(LIMIT, look).flatten() {
        Some(said) if said == expected() => Ok(format!("a page with {} files, {PROTOCOL}", site::IMAGES + 4)),
        Some(said) => Err(format!("it reports `{said}`, expected `{}`", expected())),
        None => {
            let said = fs::read_to_string(&log).unwrap_or_default();
            Err(format!("the page has not reported; the browser said: {}", last_lines(&said, 3)))
        }
    }
}

fn expected() -> String {
    format!("protocol={PROTOCOL}&images={}&large={}&failed=", site::IMAGES, site::LARGE_BYTES)
}

/// What the page in this browser asked to be told.
fn report(log: &str, by: &str) -> Option<String> {
    let begin = format!("\"GET /report?by={by}&");
    let rest = log.lines().find_map(|line| line.split_once(&begin))?.1;
    Some(rest.split_once(' ')?.0.into())
}

#[cfg(test)]
mod tests {
    use super::report;

    #[test]
    fn a_report_is_found_in_the_log() {
        let log = "a [b] \"GET /?firefox HTTP/1.1\" 200\nc [d] \"GET /report?by=firefox&failed=x HTTP/1.1\" 200 0\n";
        assert_eq!(report(log, "firefox").as_deref(), Some("failed=x"));
        assert_eq!(report(log, "chromium"), None);
    }
}
