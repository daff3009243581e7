//! Certificates by ACME, from Pebble with its faults enabled: it refuses every seventh nonce.

mod challenges;
mod folder;
mod renewal;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::common::pebble::{Pebble, Settings};
use serde_json::Value;

use crate::common::{Client, PATIENCE, Server, Site, run_to_end, weir_under};

/// Starts `weir serve` for these domains, with this state folder.
fn serve(site: &Site, pebble: &Pebble, state: &Path, domains: &[&str], flags: &[&str]) -> Server {
    serve_under(&[], site, pebble, (state, domains), flags)
}

/// Starts such a server with another program.
fn serve_under(
    under: &[&str],
    site: &Site,
    pebble: &Pebble,
    (state, domains): (&Path, &[&str]),
    flags: &[&str],
) -> Server {
    let mut command = weir_under(under);
    command.arg("serve").arg(site.served()).args(pebble.flags()).arg("--state").arg(state).args(flags);
    domains.iter().for_each(|domain| _ = command.args(["--domain", domain]));
    Server::spawn(command)
}

/// Starts `weir run` of this text, preceded by listeners on the authority's ports and its `[acme]` table.
fn run(site: &Site, pebble: &Pebble, acme: &str, sites: &str) -> Server {
    write(site, pebble, acme, sites);
    let mut command = weir_under(&[]);
    command.env("STATE_DIRECTORY", state(site)).arg("run").arg(site.outside("weir.toml"));
    Server::spawn(command)
}

fn write(site: &Site, pebble: &Pebble, acme: &str, sites: &str) {
    let Pebble { http, tls, .. } = pebble;
    let listeners = format!("[[listener]]\naddress = '{tls}'\ntls = true\n[[listener]]\naddress = '{http}'\n");
    let table = format!("[acme]\ndirectory = '{}'\nca = '{}'\n{acme}\n", pebble.directory(), pebble.ca());
    std::fs::write(site.outside("weir.toml"), format!("{listeners}{table}{sites}")).unwrap();
}

fn state(site: &Site) -> PathBuf {
    site.outside("state")
}

fn site() -> Site {
    Site::with(&[("a.txt", b"files of the site")])
}

fn said(server: &Server, part: &str) {
    let is_said = || server.stderr().iter().any(|line| line.contains(part));
    let since = std::time::Instant::now();
    while !is_said() {
        assert!(since.elapsed() < PATIENCE, "not said: {part}: {:#?}", server.stderr());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn asking(host: &str) -> String {
    format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

/// The certificates that `weir status` shows, in JSON and in words.
fn shown(server: &Server) -> (Value, String) {
    let pid = server.pid().to_string();
    let json = run_to_end(&["status", "--pid", &pid, "--json"]);
    let told: Value = serde_json::from_slice(&json.stdout).unwrap_or_else(|error| panic!("{error}: {json:?}"));
    let text = run_to_end(&["status", "--pid", &pid]).stdout;
    (told["certificates"].clone(), String::from_utf8(text).unwrap())
}

#[test]
fn the_status_has_each_certificate_and_what_failed() {
    let site = site();
    let Some(mut pebble) = Pebble::start(&site, &Settings::default()) else { return };
    let server = serve(&site, &pebble, &state(&site), &["a.test"], &[]);
    said(&server, "a certificate for a.test is in force");
    let (told, text) = shown(&server);
    let host = &told["hosts"][0];
    let (end, next) = (host["not_after"].as_u64().unwrap(), host["next_order"].as_u64().unwrap());
    assert!(told["known"] == 1 && host["host"] == "a.test" && host["failure"].is_null(), "{told}");
    assert!(next < end && end - next < 60 * 86_400, "{told}");
    assert!(text.contains("\ncertificate  expires") && text.contains("\na.test       in 89 days  in "), "{text}");
    drop(server);
    pebble.stop();
    let server = serve(&site, &pebble, &state(&site), &["a.test", "b.test"], &[]);
    said(&server, "no certificate for b.test yet");
    let (told, text) = shown(&server);
    let [new, old] = [0, 1].map(|at| &told["hosts"][at]);
    assert!(new["host"] == "b.test" && new["not_after"].is_null() && old["not_after"] == end, "{told}");
    assert!(new["failure"].as_str().is_some_and(|why| why.contains("127.0.0.1")) && old["failure"].is_null(), "{told}");
    assert!(text.contains("\nb.test       none yet") && text.contains(" s ago: "), "{text}");
    server.assert_alive();
}

#[test]
fn one_command_has_a_certificate_and_redirects_to_https() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings { sleeps: true, ..Settings::default() }) else { return };
    let server = serve(&site, &pebble, &state(&site), &["localhost"], &[]);
    said(&server, "a certificate for localhost is in force, for 89 days");
    let mut client = pebble.trust().connect(pebble.tls, "localhost");
    assert_eq!(client.get("/a.txt").1, b"files of the site");
    let mut plain = Client::connect(pebble.http);
    plain.send(asking("localhost"));
    let response = plain.response();
    let to = format!("https://localhost:{}/a.txt", pebble.tls.port());
    assert_eq!((response.status, response.field("location")), (308, Some(&*to)));
    // There is no certificate for another host: over HTTP it is served.
    let mut plain = Client::connect(pebble.http);
    plain.send(asking("other.test"));
    assert_eq!(plain.response().status, 200);
    let folder = state(&site).join("acme");
    for entry in std::fs::read_dir(&folder).unwrap().flatten() {
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
    }
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    server.assert_alive();
}

/// The authority is unreachable; the certificates already issued are in force immediately.
#[test]
fn a_restart_asks_nobody() {
    let site = site();
    let Some(mut pebble) = Pebble::start(&site, &Settings::default()) else { return };
    let trust = pebble.trust();
    let server = serve(&site, &pebble, &state(&site), &["a.test", "b.test"], &[]);
    ["a.test", "b.test"].iter().for_each(|host| said(&server, &format!("a certificate for {host} is in force")));
    drop(server);
    pebble.stop();
    let server = serve(&site, &pebble, &state(&site), &["a.test", "b.test"], &[]);
    for host in ["a.test", "b.test"] {
        assert_eq!(trust.connect(pebble.tls, host).get("/a.txt").1, b"files of the site");
    }
    assert_eq!(server.stderr(), Vec::<String>::new(), "nothing is due");
}

#[test]
fn until_there_is_a_certificate_http_is_served() {
    let site = site();
    let Some(mut pebble) = Pebble::start(&site, &Settings::default()) else { return };
    let trust = pebble.trust();
    pebble.stop();
    let server = serve(&site, &pebble, &state(&site), &["a.test"], &[]);
    said(&server, "no certificate for a.test yet: ");
    let mut plain = Client::connect(pebble.http);
    plain.send(asking("a.test"));
    assert_eq!(plain.response().status, 200);
    assert!(!trust.accepts(pebble.tls, "a.test"));
    said(&server, "there is no certificate yet for the host that the client names");
    pebble.start_again();
    said(&server, "a certificate for a.test is in force");
    assert!(pebble.trust().accepts(pebble.tls, "a.test"));
}
