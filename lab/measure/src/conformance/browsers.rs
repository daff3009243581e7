//! Headless browsers. Each has its own profile, which trusts the authority, and loads the page. The page's script
//! reports its results to the server, in whose access log they appear.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::bench::Bench;
use super::run;
use super::site;

/// The time limit of a browser's first start, on a slow machine.
const LIMIT: Duration = Duration::from_secs(120);
/// The names of HTTP/2 in ALPN, as the script reports them, and in the access log.
const HTTP2: [&str; 2] = ["h2", "HTTP/2.0"];
const HTTP3: [&str; 2] = ["h3", "HTTP/3.0"];

pub fn chromium(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    load(bench, "chromium", HTTP2, &mut chromium_at(bench, found, &bench.folder.join("chromium"))?)
}

/// Loads the page with HTTP/3 from the first packet. Chromium's QUIC trusts only the known authorities, but accepts a
/// key by its digest; for localhost it uses only ::1.
pub fn chromium_http3(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    let mut command = chromium_at(bench, found, &bench.folder.join("chromium-h3"))?;
    command.arg("--enable-quic").arg(format!("--origin-to-force-quic-on=127.0.0.1:{}", bench.port));
    command.arg(format!("--ignore-certificate-errors-spki-list={}", bench.certificates.key_digest));
    load_at("127.0.0.1", bench, "chromium-h3", HTTP3, &mut command)
}

pub(super) fn chromium_at(bench: &Bench, found: &[PathBuf], home: &Path) -> Result<Command, String> {
    trust(bench, &found[1], &home.join(".pki/nssdb"))?;
    Ok(chromium_with(&found[0], home))
}

pub(super) fn chromium_with(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    // Root has no sandbox. The other flags stop requests to other hosts.
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--no-proxy-server"]);
    command.arg(format!("--user-data-dir={}", home.join("data").display()));
    command.env("HOME", home).env_remove("XDG_DATA_HOME").env_remove("XDG_CONFIG_HOME");
    command
}

pub fn firefox(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    // Firefox would otherwise switch to HTTP/3 at any time.
    load(bench, "firefox", HTTP2, &mut firefox_at(bench, found, "firefox", &[("network.http.http3.enable", "false")])?)
}

/// Loads the page with HTTP/3. A setting has the content of `Alt-Svc`, so Firefox uses HTTP/3 from its first packet.
pub fn firefox_http3(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    let mapping = format!("\"localhost;h3=:{}\"", bench.port);
    let settings = [
        ("network.http.http3.enable", "true"),
        ("network.http.http3.alt-svc-mapping-for-testing", &mapping),
        ("network.http.http3.disable_when_third_party_roots_found", "false"),
    ];
    load(bench, "firefox-h3", HTTP3, &mut firefox_at(bench, found, "firefox-h3", &settings)?)
}

fn firefox_at(bench: &Bench, found: &[PathBuf], home: &str, settings: &[(&str, &str)]) -> Result<Command, String> {
    let home = bench.folder.join(home);
    trust(bench, &found[1], &home)?;
    firefox_with(&found[0], &home, settings)
}

pub(super) fn firefox_with(program: &Path, home: &Path, settings: &[(&str, &str)]) -> Result<Command, String> {
    let lines: String = settings.iter().map(|(name, value)| format!("user_pref(\"{name}\", {value});\n")).collect();
    fs::write(home.join("user.js"), lines).map_err(|error| format!("{}: {error}", home.display()))?;
    let mut command = Command::new(program);
    command
        .args(["--headless", "--no-remote", "--profile"])
        .arg(home)
        .env("HOME", home)
        .env("MOZ_DISABLE_CONTENT_SANDBOX", "1");
    Ok(command)
}

/// Creates a certificate store that contains the authority's certificate.
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

fn load(bench: &Bench, by: &str, protocol: [&str; 2], command: &mut Command) -> Result<String, String> {
    load_at("localhost", bench, by, protocol, command)
}

/// Runs the browser until the script has reported. All its requests until then must have used the protocol.
fn load_at(host: &str, bench: &Bench, by: &str, protocol: [&str; 2], command: &mut Command) -> Result<String, String> {
    let (log, before) = (bench.log(by), bench.access_log().len());
    let expected = expected(protocol[0]);
    command.arg(format!("https://{host}:{}/?{by}", bench.port));
    match run::until(command, &log, LIMIT, |_| report(&bench.access_log(), by)) {
        Ok((_, said)) if said == expected => by_protocol(&bench.access_log()[before..], protocol[1]),
        Ok((_, said)) => Err(format!("it reports `{said}`, expected `{expected}`")),
        Err(said) => Err(format!("the page has not reported; the browser said: {said}")),
    }
}

fn expected(protocol: &str) -> String {
    format!("protocol={protocol}&images={}&large={}&failed=", site::IMAGES, site::LARGE_BYTES)
}

/// The report of the page in this browser.
fn report(log: &str, by: &str) -> Option<String> {
    let begin = format!("\"GET /report?by={by}&");
    let rest = log.lines().find_map(|line| line.split_once(&begin))?.1;
    Some(rest.split_once(' ')?.0.into())
}

/// Checks that the files of the page, and its report, were requested over this protocol.
fn by_protocol(log: &str, protocol: &str) -> Result<String, String> {
    let wanted = site::IMAGES + 5;
    let (right, wrong): (Vec<&str>, Vec<&str>) =
        log.lines().partition(|line| line.contains(&format!(" {protocol}\" ")));
    match wrong.first() {
        Some(line) => Err(format!("expected {protocol} in the access log: {line}")),
        None if right.len() < wanted => {
            Err(format!("{} requests by {protocol}, expected {wanted} at least", right.len()))
        }
        None => Ok(format!("a page with {} files; {} requests by {protocol}", site::IMAGES + 4, right.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_found_in_the_log() {
        let log = "a [b] \"GET /?firefox HTTP/1.1\" 200\nc [d] \"GET /report?by=firefox&failed=x HTTP/1.1\" 200 0\n";
        assert_eq!(report(log, "firefox").as_deref(), Some("failed=x"));
        assert_eq!(report(log, "chromium"), None);
    }

    #[test]
    fn a_request_by_another_protocol_or_too_few_are_no_success() {
        let line = "a - - [b] \"GET /large.bin HTTP/3.0\" 200 1000000 \"-\" \"-\"\n";
        let log = line.repeat(site::IMAGES + 5);
        assert_eq!(by_protocol(&log, "HTTP/3.0").as_deref(), Ok("a page with 12 files; 13 requests by HTTP/3.0"));
        assert!(by_protocol(&log[line.len()..], "HTTP/3.0").unwrap_err().starts_with("12 requests"));
        let other = log.clone() + &line.replace("HTTP/3.0", "HTTP/2.0");
        assert!(by_protocol(&other, "HTTP/3.0").unwrap_err().starts_with("expected HTTP/3.0"));
    }
}
