//! The table `[acme]`: its mistakes, and what an authority will refuse.

use config::Remark;

const SECURE: &str = "[[listener]]\naddress = ':443'\ntls = true\n[[listener]]\naddress = ':80'\n";

fn lines(remarks: &[Remark]) -> Vec<String> {
    remarks.iter().map(|remark| remark.line("f")).collect()
}

/// The mistakes, or the notes of a file without any.
fn said(text: &str) -> Vec<String> {
    match config::read(text.as_bytes()) {
        Ok(configuration) => lines(&configuration.notes),
        Err(mistakes) => lines(&mistakes),
    }
}

fn site(hosts: &str, more: &str) -> String {
    format!("{SECURE}[acme]\n{more}\n[[site]]\nroot = 'r'\nhosts = [{hosts}]\n")
}

#[test]
fn the_table_alone_is_enough() {
    let file = site("'example.org', 'www.example.org'", "");
    let configuration = config::read(file.as_bytes()).unwrap();
    let acme = configuration.settings.acme.as_ref().unwrap();
    assert_eq!(acme.directory, "https://acme-v02.api.letsencrypt.org/directory");
    assert!(configuration.sites[0].is_ordered() && configuration.notes.is_empty() && !acme.is_by_dns());
    for out in ["acme = false", "cert = 'c'\nkey = 'k'"] {
        let other = format!("{file}[[site]]\nroot = 's'\nhosts = ['b.org']\n{out}\n");
        assert!(!config::read(other.as_bytes()).unwrap().sites[1].is_ordered(), "{out}");
    }
    let none = config::read(b"[[site]]\nroot = 'r'").unwrap();
    assert_eq!(none.settings.acme, None);
}

#[test]
fn the_page_s_example_is_right() {
    let page = include_str!("../../../docs/certificates.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split_once("```")).unwrap().0;
    assert_eq!(said(example), [""; 0]);
}

fn assert_said(file: &str, expected: &str) {
    let all = said(file);
    assert!(all.iter().any(|line| line.starts_with(expected)), "{file}\n{all:#?}");
}

#[test]
fn wrong_values_are_named() {
    for (acme, expected) in [
        ("challenge = 'dns-01'", "f:7:13: acme.challenge `dns-01` without acme.dns_hook: expected a program"),
        ("challenge = 'dns'", "f:7:13: acme.challenge `dns`: expected http-01, tls-alpn-01 or dns-01"),
        ("directory = 'http://ca'", "f:7:13: acme.directory `http://ca`: expected an address with https://"),
        ("email = 'admin'", "f:7:9: acme.email `admin`: expected a mail address"),
        (
            "external_account_id = 'k'",
            "f:7:23: acme.external_account_id without acme.external_account_key: expected both",
        ),
        (
            "external_account_id = 'k'\nexternal_account_key = 'abcdefghijklmnop.+~'",
            "f:8:24: acme.external_account_key: expected base64url, as the authority gives it",
        ),
    ] {
        assert_said(&site("'example.org'", acme), expected);
    }
}

#[test]
fn what_cannot_work_is_named() {
    for (hosts, expected) in [
        (
            "'*.example.org'",
            "f:10:10: site.hosts `*.example.org`: only dns-01 can prove a wildcard: expected acme.dns_hook",
        ),
        ("'localhost'", "f:10:10: site.hosts `localhost`: no public authority issues certificates for it"),
        ("'printer.lan'", "f:10:10: site.hosts `printer.lan`: no public authority issues certificates for it"),
        ("'192.0.2.1', 'example.org'", "f:10:10: site.hosts `192.0.2.1`: no certificate is ordered for an address"),
    ] {
        assert_said(&site(hosts, ""), expected);
    }
    let own = format!("{SECURE}[acme]\n[[site]]\nroot = 'r'\ncert = 'c'\nkey = 'k'");
    assert_said(&own, "f:6:1: acme without a host: expected a site with hosts and without cert");
    let plain = "[acme]\n[[site]]\nroot = 'r'\nhosts = ['a.org']";
    assert_said(plain, "f:1:1: acme without TLS: expected a listener with tls = true");
    let private = site("'printer.lan'", "directory = 'https://ca.lan/dir'");
    assert_eq!(said(&private), [""; 0], "a private authority may know it");
}

#[test]
fn a_challenge_needs_its_port() {
    let at = |port: u16, is_secure: bool| format!("[[listener]]\naddress = ':{port}'\ntls = {is_secure}\n");
    let file = |listeners: &[String], acme: &str| {
        format!("{}[acme]\n{acme}\n[[site]]\nroot = 'r'\nhosts = ['a.org']", listeners.concat())
    };
    let (https, http, other) = (at(443, true), at(80, false), at(8443, true));
    for (listeners, acme, expected) in [
        (vec![https.clone()], "", None),
        (vec![other.clone(), http.clone()], "", None),
        (vec![other.clone()], "", Some("acme: no listener has port 80, and none with TLS has 443")),
        (
            vec![https.clone()],
            "challenge = 'http-01'",
            Some("acme.challenge `http-01`: no listener without TLS has port 80"),
        ),
        (
            vec![other.clone(), http],
            "challenge = 'tls-alpn-01'",
            Some("acme.challenge `tls-alpn-01`: no listener with TLS"),
        ),
        (vec![other], "dns_hook = '/bin/true'", None),
        (
            vec![https],
            "dns_hook = '/bin/true'\nchallenge = 'tls-alpn-01'",
            Some("acme.dns_hook: no effect with a challenge"),
        ),
    ] {
        let all = said(&file(&listeners, acme));
        assert_eq!(all.len(), usize::from(expected.is_some()), "{acme}: {all:#?}");
        assert!(expected.is_none_or(|expected| all[0].contains(expected)), "{acme}: {all:#?}");
    }
}
