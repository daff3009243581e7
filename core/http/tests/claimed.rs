//! The client that trusted proxies report: no other party decides which it is.

use std::net::IpAddr;

use http::Limits;
use http::gateway::{Claimed, claimed};
use http::http1::parse_request;
use proptest::prelude::*;

/// Trusts 10.0.0.0/8 and fd00::/8.
fn is_trusted(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[0] == 10,
        IpAddr::V6(address) => address.octets()[0] == 0xfd,
    }
}

/// Returns the client, whether it is secure, and the invalid value, for a request with these fields.
fn of(fields: &str) -> (Option<String>, Option<bool>, Option<String>) {
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
    let head = parse_request(request.as_bytes(), &Limits::default()).unwrap().expect("a whole head");
    let Claimed { client, is_secure, wrong, .. } = claimed(&head.request, is_trusted);
    (client.map(|client| client.to_string()), is_secure, wrong.map(|wrong| String::from_utf8_lossy(wrong).into_owned()))
}

fn client(fields: &str) -> Option<String> {
    of(fields).0
}

#[test]
fn the_rightmost_address_that_is_not_a_proxys_is_the_clients() {
    for (list, expected) in [
        ("192.0.2.1", Some("192.0.2.1")),
        ("198.51.100.9, 192.0.2.1", Some("192.0.2.1")),
        ("198.51.100.9, 192.0.2.1, 10.0.0.2,10.0.0.1", Some("192.0.2.1")),
        ("10.0.0.9, 192.0.2.1", Some("192.0.2.1")),
        ("10.0.0.2, 10.0.0.1", Some("10.0.0.2")),
        ("::ffff:192.0.2.1", Some("192.0.2.1")),
        ("2001:db8::1, fd00::1", Some("2001:db8::1")),
        ("192.0.2.1:4711, [fd00::1]:80", Some("192.0.2.1")),
        ("[2001:db8::1]", Some("2001:db8::1")),
        (", ,192.0.2.1,,", Some("192.0.2.1")),
        // The client of a proxy that does not report it is unknown.
        ("192.0.2.1, unknown, 10.0.0.1", Some("10.0.0.1")),
        ("192.0.2.1, unknown", None),
        ("", None),
    ] {
        assert_eq!(client(&format!("X-Forwarded-For: {list}")).as_deref(), expected, "{list}");
    }
    let lines = "X-Forwarded-For: 192.0.2.1\r\nx-forwarded-for: 192.0.2.2\r\nX-Forwarded-For: 10.0.0.1";
    assert_eq!(client(lines).as_deref(), Some("192.0.2.2"), "lines are one list");
}

#[test]
fn what_is_no_address_is_told_and_ends_the_list() {
    for wrong in
        ["x", "192.0.2", "192.0.2.1:", "192.0.2.1:a b", "[2001:db8::1", "[192.0.2.1]x", "1.2.3.4.5", "a.example"]
    {
        let (client, _, told) = of(&format!("X-Forwarded-For: 192.0.2.7, {wrong}, 10.0.0.1"));
        assert_eq!((client.as_deref(), told.as_deref()), (Some("10.0.0.1"), Some(wrong)));
    }
    assert_eq!(of("X-Forwarded-For: x, 192.0.2.1").0.as_deref(), Some("192.0.2.1"));
}

#[test]
fn forwarded_tells_where_nothing_else_does() {
    for (list, expected) in [
        ("for=192.0.2.1", Some("192.0.2.1")),
        ("For=\"192.0.2.1:80\";proto=http;by=10.0.0.1", Some("192.0.2.1")),
        ("for=198.51.100.9, for=\"[2001:db8::1]:_p\";host=\"a,b;c\", for=10.0.0.1", Some("2001:db8::1")),
        ("by=\"x\\\",for=198.51.100.9\";for=192.0.2.1", Some("192.0.2.1")),
        ("for=192.0.2.1, proto=https", None),
        ("for=192.0.2.1, for=_hidden", None),
        // The client's quote swallows the proxy's element.
        ("for=198.51.100.9;x=\", for=192.0.2.1", None),
        ("for=198.51.100.9;x=\"\\, for=\"[2001:db8::1]\"", None),
        ("192.0.2.1", None),
    ] {
        assert_eq!(client(&format!("Forwarded: {list}")).as_deref(), expected, "{list}");
    }
    // A proxy that writes one field forwards the client's other field.
    let both = "Forwarded: for=198.51.100.9\r\nX-Forwarded-For: 192.0.2.1";
    assert_eq!(client(both).as_deref(), Some("192.0.2.1"));
    let both = "Forwarded: for=\"198.51.100.9\r\nX-Forwarded-For: 192.0.2.1";
    assert_eq!(of(both), (Some("192.0.2.1".into()), None, None));
    assert_eq!(of("Forwarded: for=\"x\"").2.as_deref(), Some("x"));
}

#[test]
fn the_scheme_is_the_first_that_is_told() {
    for (fields, expected) in [
        ("X-Forwarded-Proto: https", Some(true)),
        ("X-Forwarded-Proto: HTTP, https", Some(false)),
        ("X-Forwarded-Proto: wss", Some(true)),
        ("X-Forwarded-Proto: WS", Some(false)),
        ("X-Forwarded-Proto: ftp", None),
        ("Forwarded: for=1.2.3.4;proto=https, proto=http", Some(true)),
        ("Forwarded: proto=https\r\nX-Forwarded-Proto: http", Some(false)),
        ("X-Other: https", None),
    ] {
        assert_eq!(of(fields).1, expected, "{fields}");
    }
}

proptest! {
    /// The client does not choose its address, whatever it puts before the proxies' values.
    #[test]
    fn a_client_cannot_change_what_proxies_wrote(own in "[ -~]{0,40}|(for=1[.]2[.]3[.]4)?;x=\"[,\"\\\\ a]{0,6}", name in 0usize..2) {
        let (before, proxies) = [
            ("X-Forwarded-For: ", "192.0.2.1, 10.0.0.1"),
            ("Forwarded: ", "for=192.0.2.1;by=10.0.0.3, for=10.0.0.1"),
        ][name];
        let found = client(&format!("{before}{own}, {proxies}"));
        let may_hide = name == 1 && own.contains('"');
        prop_assert!(found.as_deref() == Some("192.0.2.1") || (may_hide && found.is_none()), "{:?}", found);
        // A line of its own is not merged with the proxies' lines.
        let found = client(&format!("{before}{own}\r\n{before}{proxies}"));
        prop_assert_eq!(found.as_deref(), Some("192.0.2.1"));
    }

    #[test]
    fn no_value_panics(value in "[ -~]{0,60}") {
        of(&format!("X-Forwarded-For: {value}"));
        of(&format!("Forwarded: {value}\r\nX-Forwarded-Proto: {value}"));
    }
}
