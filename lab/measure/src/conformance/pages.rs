//! Weir's own pages in headless browsers: the listing, an error, the admin page and the demo. A page of the same origin
//! operates them in frames, and reports by requesting `report`, which the access log records.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::bench::Bench;
use super::browsers;
use super::run::{self, Running};

/// The time limit of a browser's first start and a minute of the demo, on a slow machine.
const LIMIT: Duration = Duration::from_secs(180);
/// The time that a program may take to start.
const START: Duration = Duration::from_secs(60);
/// The page that operates the page named in its address.
const WORKER: &str = include_str!("pages.html");
/// The pages, by their hosts below localhost, which lead to this machine in every browser.
const PAGES: [&str; 4] = ["listing", "error", "admin", "demo"];
/// The admin page's policy without its refusal to be shown in a frame.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'self'";
/// The files in the order of the listing, with their sizes.
const FILES: [(&str, u64); 4] = [("a <b>.txt", 10), ("B", 1_000), ("large", 5_000_000_000), ("z", 20)];

pub fn chromium(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    in_browser(bench, "chromium", &|home| Ok(browsers::chromium_with(&found[0], home)))
}

pub fn firefox(bench: &Bench, found: &[PathBuf]) -> Result<String, String> {
    in_browser(bench, "firefox", &|home| browsers::firefox_with(&found[0], home, &[]))
}

fn in_browser(bench: &Bench, by: &str, browser: &dyn Fn(&Path) -> Result<Command, String>) -> Result<String, String> {
    let folder = bench.folder.join(format!("pages-{by}"));
    let (demo, admin) = (demo(bench, &folder)?, format!("127.0.0.1:{}", run::free_ports::<1>()?[0]));
    let site = Site::start(bench, &folder, &admin, &demo.1)?;
    for page in PAGES {
        let home = folder.join(page);
        let log = folder.join(format!("{page}.log"));
        let address = format!("http://{page}.localhost:{}/check/?{by}&{page}", site.port);
        fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
        match run::until(browser(&home)?.arg(address), &log, LIMIT, |_| report(&site.access_log(), page)) {
            Ok((_, failed)) if failed.is_empty() => {}
            Ok((_, failed)) => return Err(format!("{page}: not as expected: {failed}")),
            Err(said) => return Err(format!("{page}: no report; the browser said: {said}")),
        }
    }
    Ok(format!("worked as a visitor does: {}", PAGES.join(", ")))
}

/// A server in front of all pages, each at its own host.
struct Site {
    _running: Running,
    port: u16,
    log: PathBuf,
}

impl Site {
    fn start(bench: &Bench, folder: &Path, admin: &str, demo: &str) -> Result<Site, String> {
        let (root, log) = (folder.join("root"), folder.join("access.log"));
        write(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        let pages = [("admin", admin), ("demo", demo)].map(|(page, to)| {
            let proxies = ["/", "/status", "/history"]
                .map(|path| format!("[[site.proxy]]\npath = '{path}'\nto = ['{to}']\nhost = '{to}'\n"));
            let policy = (page == "admin").then_some(POLICY).map_or(String::new(), |policy| {
                format!("[[site.header]]\npath = '/'\nname = 'Content-Security-Policy'\nvalue = \"{policy}\"\n")
            });
            format!("[[site]]\nhosts = ['{page}.localhost']\nroot = '{}'\n{}{policy}", root.display(), proxies.concat())
        });
        let text = format!(
            "[server]\nadmin = '{admin}'\naccess_log = '{}'\n[uplink]\nrate = '10mbit'\n[[listener]]\naddress = '127.0.0.1:0'\n\
             [[site]]\nhosts = ['listing.localhost', 'error.localhost']\nroot = '{}'\nautoindex = true\n{}",
            log.display(),
            root.display(),
            pages.concat()
        );
        let file = folder.join("weir.toml");
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        let (running, said) = begun(Command::new(bench.weir()).arg("run").arg(&file), &folder.join("weir.log"))?;
        let port = said.rsplit(':').next().and_then(|port| port.parse().ok());
        Ok(Site { _running: running, port: port.ok_or(format!("expected a port in {said}"))?, log })
    }

    fn access_log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Starts the demo. Returns it with its address.
fn demo(bench: &Bench, folder: &Path) -> Result<(Running, String), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = Command::new(bench.weir());
    command.args(["demo", "--time", "3s", "--rate", "4mbit", "--listen", "127.0.0.1:0"]);
    begun(&mut command, &folder.join("demo.log"))
}

/// Starts a program. Returns it with the address that it prints.
fn begun(command: &mut Command, log: &Path) -> Result<(Running, String), String> {
    run::until(command, log, START, address).map_err(|said| format!("no address was printed: {said}"))
}

/// Finds the address in a line such as `Open http://127.0.0.1:8000/ and watch`.
fn address(said: &str) -> Option<String> {
    Some(said.split_once("http://")?.1.split_once('/')?.0.to_owned())
}

fn write(root: &Path) -> std::io::Result<()> {
    fs::create_dir_all(root.join("list/folder"))?;
    fs::create_dir_all(root.join("check"))?;
    for (name, bytes) in FILES {
        File::create(root.join("list").join(name))?.set_len(bytes)?;
    }
    fs::write(root.join("check/index.html"), WORKER)?;
    fs::write(root.join("check/report"), "")
}

/// The failures that the page reports.
fn report(log: &str, page: &str) -> Option<String> {
    let begin = format!("&page={page}&failed=");
    let rest = log.lines().find_map(|line| line.split_once(&begin))?.1;
    let failed = percent_encoding::percent_decode_str(rest.split_once(' ')?.0);
    Some(failed.decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_reports_are_found() {
        assert_eq!(address("Open http://127.0.0.1:8000/ and").as_deref(), Some("127.0.0.1:8000"));
        assert_eq!(address("Open http://127.0.0.1:80"), None);
        let log = "a \"GET /check/report?by=x&page=demo&failed=a%20chart HTTP/1.1\" 200\n";
        assert_eq!((report(log, "demo").as_deref(), report(log, "admin")), (Some("a chart"), None));
    }
}
