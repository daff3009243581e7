//! The ways to prove to an authority that a host belongs to this server.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use super::{asking, run, said, serve, site, state, write};
use crate::common::pebble::{Pebble, Settings};
use crate::common::{Client, run_to_end};

#[test]
fn a_handshake_needs_no_port_without_tls() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings::default()) else { return };
    let server = serve(&site, &pebble, &state(&site), &["a.test"], &["--acme-challenge", "tls-alpn-01"]);
    said(&server, "a certificate for a.test is in force");
    assert_eq!(pebble.trust().connect(pebble.tls, "a.test").get("/a.txt").1, b"files of the site");
}

/// The server itself cannot run the operator's program, because its sandbox forbids it.
#[test]
fn a_wildcard_is_shown_by_a_program_that_sets_records() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings::default()) else { return };
    let (hook, calls) = (site.outside("hook"), site.outside("calls"));
    let script = format!(
        "#!/bin/sh\necho \"$1 $2\" >> {}\ncase $1 in present) at=set-txt ;; *) at=clear-txt ;; esac\n\
         exec curl -sf -d '{{\"host\":\"'$2'\",\"value\":\"'$3'\"}}' http://{}/$at\n",
        calls.display(),
        pebble.dns_management
    );
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let sites = "[[site]]\nroot = 'site'\nhosts = ['*.a.test']\n";
    let server = run(&site, &pebble, "dns_hook = 'hook'", sites);
    said(&server, "a certificate for *.a.test is in force");
    assert_eq!(
        pebble.trust().connect(pebble.tls, "x.a.test").get("/a.txt").0.lines().next(),
        Some("HTTP/1.1 421 Misdirected Request")
    );
    let mut client = pebble.trust().connect(pebble.tls, "x.a.test");
    client.send(&asking("x.a.test"));
    assert_eq!(client.response().1, b"files of the site");
    let calls = std::fs::read_to_string(calls).unwrap();
    assert_eq!(calls, "present _acme-challenge.a.test.\ncleanup _acme-challenge.a.test.\n");
}

#[test]
fn a_program_that_fails_is_told_with_its_words() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings::default()) else { return };
    let hook = site.outside("hook");
    std::fs::write(&hook, "#!/bin/sh\necho no such zone >&2\nexit 3\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = run(&site, &pebble, "dns_hook = 'hook'", "[[site]]\nroot = 'site'\nhosts = ['a.test']\n");
    said(&server, "no certificate for a.test yet: the DNS hook failed: `");
    said(&server, "hook` ended with exit status: 3: no such zone; next attempt in ");
}

#[test]
fn a_host_that_is_refused_holds_up_no_other() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings::default()) else { return };
    let server = serve(&site, &pebble, &state(&site), &["a.test", "refused.test", "b.test"], &[]);
    said(&server, "no certificate for refused.test yet: ");
    said(&server, "(rejectedIdentifier)");
    ["a.test", "b.test"].iter().for_each(|host| said(&server, &format!("a certificate for {host} is in force")));
}

/// No server answers on the port that the authority queries.
#[test]
fn an_answer_that_does_not_arrive_is_told_in_the_authority_s_words() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings::default()) else { return };
    let mut command = crate::common::weir_under(&[]);
    command.arg("serve").arg(site.served()).arg("--state").arg(state(&site)).args(["--domain", "a.test"]);
    command.args(["--listen", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--acme-ca", pebble.ca()]);
    command.args(["--acme-directory", &pebble.directory()]);
    let server = crate::common::Server::spawn(command);
    said(&server, "no certificate for a.test yet: http-01 failed: ");
}

#[test]
fn a_file_orders_for_its_sites_and_a_reload_for_new_ones() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings { external_account: true, ..Settings::default() }) else {
        return;
    };
    let account = "external_account_id = 'kid-1'\nexternal_account_key = 'zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W'\nemail = 'admin@example.org'";
    let of = |host: &str, more: &str| format!("[[site]]\nroot = 'site'\nhosts = ['{host}']\n{more}\n");
    let sites = [of("a.test", "https_redirect = true"), of("b.test", "acme = false")].concat();
    let server = run(&site, &pebble, account, &sites);
    said(&server, "a certificate for a.test is in force");
    let trust = pebble.trust();
    assert!(trust.accepts(pebble.tls, "a.test") && !trust.accepts(pebble.tls, "b.test"));
    write(&site, &pebble, account, &[of("b.test", ""), of("c.test", "https_redirect = true")].concat());
    server.signal(Signal::HUP);
    for host in ["b.test", "c.test"] {
        said(&server, &format!("a certificate for {host} is in force"));
        assert!(trust.accepts(pebble.tls, host), "{host}");
    }
    assert!(!trust.accepts(pebble.tls, "a.test"), "its site is gone");
    let mut plain = Client::connect(pebble.http);
    plain.send(asking("c.test"));
    assert_eq!(plain.response().status, 308);
    server.assert_alive();
}

#[test]
fn a_table_that_is_new_takes_a_process() {
    let site = site();
    let Some(pebble) = Pebble::start(&site, &Settings::default()) else { return };
    let sites = "[[site]]\nroot = 'site'\nhosts = ['a.test']\n";
    let made = crate::common::tls::Made::new(&site, "own", &["a.test"]);
    let (cert, key) = (made.cert.display(), made.key.display());
    write(&site, &pebble, "", sites);
    let with = std::fs::read_to_string(site.outside("weir.toml")).unwrap();
    let (before, rest) = with.split_once("[acme]").unwrap();
    let without = format!("{before}[[site]]{}cert = '{cert}'\nkey = '{key}'\n", rest.split_once("[[site]]").unwrap().1);
    std::fs::write(site.outside("weir.toml"), without).unwrap();
    let server = crate::common::Server::run(&site.outside("weir.toml"));
    std::fs::write(site.outside("weir.toml"), with).unwrap();
    let pid = server.pid().to_string();
    let said = run_to_end(&["reload", "--pid", &pid]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("[acme] is new") && text.contains("weir upgrade"), "{text}");
    assert!(made.trust().accepts(server.address, "a.test"), "that from before is in force");
}
