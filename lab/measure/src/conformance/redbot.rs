//! redbot's verdict on files, listings, errors, redirects and responses of an upstream: their caching, validators,
//! ranges and codings. It requests each address as a browser does, and then with its own variations.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::bench::Bench;
use super::run;

const LIMIT: Duration = Duration::from_secs(120);
/// The notes that are not faults of the server: the operator decides how long a file stays fresh.
const ACCEPTED: [&str; 1] = ["FRESHNESS_HEURISTIC"];
/// The addresses on the site below; `/app/` is the other server behind it. redbot requests a range of 96 bytes, so a
/// file of that size would count as complete.
const PATHS: [&str; 8] =
    ["", "style.css", "app.3f9a8b7c.js", "cached/style.css", "folder/", "none", "old", "app/script.js"];

/// Runs redbot on a separate site without TLS, whose upstream is the server of the other checks.
pub fn run(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    let (site, configuration) = (bench.folder.join("redbot"), bench.folder.join("redbot.toml"));
    let failed = |error: std::io::Error| format!("{}: {error}", site.display());
    write(&site).map_err(failed)?;
    fs::write(&configuration, text(&site, bench)).map_err(failed)?;
    let server = bench.running(&configuration, &bench.folder.join("redbot-state"), "redbot")?;
    let mut command = Command::new(&found[0]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/redbot/judge.py"));
    command.args(PATHS.map(|path| format!("http://127.0.0.1:{}/{path}", server.port)));
    let judged = run::well(&mut command, &bench.log("redbot"), LIMIT).and_then(|said| verdict(&said));
    server.stop()?;
    judged
}

/// Writes a text that is worth compressing.
fn write(site: &Path) -> std::io::Result<()> {
    let style = "body { color: rgb(1, 2, 3) }\n".repeat(200);
    for name in ["style.css", "cached/style.css", "folder/a.css", "app.3f9a8b7c.js"] {
        let file = site.join(name);
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(file, &style)?;
    }
    fs::write(site.join("index.html"), format!("<!DOCTYPE html><title>a</title>{}", "<p>text</p>".repeat(200)))
}

fn text(site: &Path, bench: &Bench) -> String {
    let (site, authority) = (site.display(), bench.certificates.authority.display());
    format!(
        "[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\nroot = '{site}'\nautoindex = true\n\
         [[site.cache]]\npath = '/cached/*'\ncontrol = 'max-age=60'\n[[site.redirect]]\nfrom = '/old'\nto = '/'\n\
         [[site.proxy]]\npath = '/app/*'\nstrip_prefix = '/app'\nto = ['https://localhost:{}']\ntls_ca = '{authority}'\n",
        bench.port
    )
}

/// Returns the verdict. Every warning of redbot that is not accepted is a fault.
fn verdict(said: &str) -> Result<String, String> {
    let mut lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    let count = PATHS.len();
    if lines.pop() != Some(&*format!("judged {count}")) {
        return Err(format!("not all of {count} answers were judged: {}", run::last_lines(said, 3)));
    }
    let is_fault = |line: &&str| !ACCEPTED.iter().any(|note| line.contains(&format!(": {note}: ")));
    let faults: Vec<&str> = lines.into_iter().filter(is_fault).collect();
    if faults.is_empty() { Ok(format!("{count} answers without a warning")) } else { Err(faults.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_warning_is_a_fault() {
        let (heuristic, end) = ("http://a/: range: FRESHNESS_HEURISTIC: x\n", format!("judged {}\n", PATHS.len()));
        assert_eq!(verdict(&format!("{heuristic}{end}")), Ok("8 answers without a warning".into()));
        let missing = "http://a/x.js: etag_validate: MISSING_HDRS_304: This response is missing required headers.";
        assert_eq!(verdict(&format!("{heuristic}{missing}\n{end}")), Err(missing.into()));
        for cut in ["", "judged 1\n", "Traceback\n"] {
            assert!(verdict(cut).is_err(), "{cut}");
        }
    }
}
