//! Heads of requests for an upstream: their contents, and that an upstream cannot read them in another way.

use std::net::{IpAddr, Ipv4Addr};

use http::gateway::{FieldChange, Gateway, RequestHead, ResponseBuilder, asks_upgrade, encode_request, websocket_key};
use http::http1::upstream::{Framing, ResponseLimits};
use http::http1::{Chunked, parse_request};
use http::{BodyLength, Limits, PeerLength, Request, RequestBuilder};
use proptest::prelude::*;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

fn gateway() -> Gateway<'static> {
    let (client, client_port) = (CLIENT, Some(4711));
    Gateway {
        client,
        client_port,
        is_secure: true,
        is_trusted: false,
        claimed_client: None,
        host: None,
        version: (1, 1),
        is_upgrade: false,
        websocket_key: None,
        changes: &[],
    }
}

fn encoded(request: &Request, gateway: &Gateway) -> String {
    let mut out = b"before".to_vec();
    encode_request(&mut out, request, gateway, request.body);
    String::from_utf8(out.split_off("before".len())).unwrap()
}

/// Encodes the request of an HTTP/1.1 client.
fn forwarded(bytes: &str, gateway: &Gateway) -> String {
    let head = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().expect("a whole head");
    encoded(&head.request, gateway)
}

fn with(lines: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
}

/// Returns the lines of a forwarded GET with these fields, except Host and our description of the client.
fn lines(fields: &str, gateway: &Gateway) -> Vec<String> {
    let head = forwarded(&with(fields), gateway);
    let is_told =
        |line: &&str| ["X-Forwarded-", "Forwarded:", "Via: 1.1 weir"].iter().any(|name| line.starts_with(name));
    head.lines().skip(2).filter(|line| !is_told(line) && !line.is_empty()).map(str::to_owned).collect()
}

fn values<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!("{}:", name.to_ascii_lowercase());
    head.lines()
        .filter(|line| line.to_ascii_lowercase().starts_with(&start))
        .map(|line| line[start.len()..].trim())
        .collect()
}

/// The possible senders: the client, a proxy before us, or Weir.
#[test]
fn fields_are_set_and_removed() {
    let change = |name: &str, value: Option<&str>| FieldChange { name: name.into(), value: value.map(Into::into) };
    let changes = [
        change("Remote-User", Some("ada")),
        change("cookie", None),
        change("Via", None),
        change("X-Forwarded-Proto", Some("ftp")),
        change("X-New", Some("1, 2")),
    ];
    let fields =
        "REMOTE-USER: root\r\nRemote-User: admin\r\nRemote_User: a\r\nCookie: a=b\r\nX-Kept: y\r\nCookie: c=d\r\n";
    for is_trusted in [false, true] {
        let fields = format!("{fields}X-Forwarded-Proto: gopher\r\n");
        let head = forwarded(&with(&fields), &Gateway { changes: &changes, is_trusted, ..gateway() });
        let lowered = head.to_ascii_lowercase();
        assert_eq!(values(&head, "remote-user"), ["ada"]);
        assert_eq!(values(&head, "x-forwarded-proto"), ["ftp"]);
        assert_eq!((values(&head, "x-new"), values(&head, "x-kept")), (vec!["1, 2"], vec!["y"]));
        assert!(!lowered.contains("root") && !lowered.contains("cookie") && !lowered.contains("remote_user"), "{head}");
        assert_eq!((values(&head, "via").len(), values(&head, "forwarded").len()), (0, 1));
        assert!(head.ends_with("\r\n\r\n") && head.matches("\r\n\r\n").count() == 1, "{head}");
    }
}

/// Earlier the tags of coded responses were passed to the program, which may compare them byte by byte.
#[test]
fn a_program_gets_its_own_tags_back() {
    let fields = "If-None-Match: W/\"a~weir\", \"b\"\r\nIf-Match: W/\"c~weir\"\r\nX-Tag: W/\"d~weir\"\r\n";
    let expected = ["If-None-Match: \"a\", \"b\"", "If-Match: \"c\"", "X-Tag: W/\"d~weir\""];
    assert_eq!(lines(fields, &gateway()), expected);
}

#[test]
fn a_whole_head() {
    let head =
        forwarded("GET /a%2Fb//c?x=1?y HTTP/1.1\r\nhost: a.com:80\r\nUser-Agent: u\r\nCookie: a=b\r\n\r\n", &gateway());
    let expected = [
        "GET /a%2Fb//c?x=1?y HTTP/1.1",
        "Host: a.com:80",
        "User-Agent: u",
        "Cookie: a=b",
        "X-Forwarded-For: 192.0.2.7",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: a.com:80",
        "Forwarded: for=\"192.0.2.7:4711\";host=\"a.com:80\";proto=https",
        "Via: 1.1 weir",
        "",
        "",
    ];
    assert_eq!(head, expected.join("\r\n"));
}

#[test]
fn targets_are_in_origin_form() {
    for (target, expected) in [
        ("/a%20b/../c?", "/a%20b/../c?"),
        ("http://b.com:80/x?y", "/x?y"),
        ("http://b.com?y", "/?y"),
        ("HTTPS://b.com", "/"),
    ] {
        let head = forwarded(&format!("GET {target} HTTP/1.1\r\nHost: b.com:80\r\n\r\n"), &gateway());
        assert!(head.starts_with(&format!("GET {expected} HTTP/1.1\r\nHost: b.com")), "{head}");
    }
    assert!(forwarded("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", &gateway()).starts_with("OPTIONS * HTTP/1.1\r\n"));
}

/// The authority of an absolute target is the request's host (RFC 9112 section 3.2.2).
#[test]
fn there_is_one_host() {
    let bytes = "GET http://b.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n";
    assert_eq!(values(&forwarded(bytes, &gateway()), "host"), ["b.com"]);
    let set = Gateway { host: Some(b"inner:3000"), ..gateway() };
    let head = forwarded(bytes, &set);
    assert_eq!((values(&head, "host"), values(&head, "x-forwarded-host")), (vec!["inner:3000"], vec!["b.com"]));
    // RFC 9112 section 3.2: Host is empty if neither side has one.
    let head = forwarded("GET / HTTP/1.0\r\n\r\n", &gateway());
    assert_eq!((values(&head, "host"), values(&head, "x-forwarded-host")), (vec![""], vec![]));
}

#[test]
fn fields_of_the_connection_stay_behind() {
    let fields = "Connection: close, X-Hop ,te\r\nX-Hop: 1\r\nx-hop: 2\r\nX-Hop-2: 3\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\n\
        Proxy-Authorization: x\r\nProxy-Authenticate: x\r\nTE: trailers\r\nTrailer: T\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\
        connection: cookie\r\nCookie: a\r\nAccept: */*\r\n";
    assert_eq!(lines(fields, &gateway()), ["X-Hop-2: 3", "Accept: */*"]);
    // Connection may name them, but the client cannot remove them.
    let head = forwarded(&with("Connection: host, x-forwarded-for, via, content-length, forwarded\r\n"), &gateway());
    for name in ["host", "x-forwarded-for", "via", "forwarded"] {
        assert_eq!(values(&head, name).len(), 1, "{name}");
    }
}

#[test]
fn bodies_are_framed_anew() {
    for (method, body, expected) in [
        ("GET", BodyLength::None, ""),
        ("DELETE", BodyLength::None, ""),
        ("POST", BodyLength::None, "Content-Length: 0"),
        ("PUT", BodyLength::None, "Content-Length: 0"),
        ("PATCH", BodyLength::None, "Content-Length: 0"),
        ("GET", BodyLength::Known(7.into()), "Content-Length: 7"),
        ("POST", BodyLength::Known(PeerLength::MAX), "Content-Length: 9223372036854775807"),
        ("POST", BodyLength::Unknown, "Transfer-Encoding: chunked"),
    ] {
        let bytes = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
        let request = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request;
        let mut out = Vec::new();
        encode_request(&mut out, &request, &gateway(), body);
        let head = String::from_utf8(out).unwrap();
        let framing: Vec<_> =
            head.lines().filter(|line| line.starts_with("Content-L") || line.starts_with("Transfer")).collect();
        assert_eq!(framing.join("\n"), expected, "{method}");
        assert!(values(&head, "expect").is_empty());
    }
}

#[test]
fn what_an_untrusted_client_says_of_itself_is_replaced() {
    let claims = "X-Forwarded-For: 1.1.1.1\r\nx-forwarded-proto: ftp\r\nX-Forwarded-Host: evil\r\nForwarded: for=1.1.1.1\r\n\
        X-Forwarded-Port: 1\r\nX-Real-IP: 1.1.1.1\r\n";
    let plain = Gateway { is_secure: false, client_port: None, ..gateway() };
    let head = forwarded(&with(claims), &plain);
    assert_eq!(values(&head, "x-forwarded-for"), ["192.0.2.7"]);
    assert_eq!((values(&head, "x-forwarded-proto"), values(&head, "x-forwarded-host")), (vec!["http"], vec!["a"]));
    assert_eq!(values(&head, "forwarded"), ["for=192.0.2.7;host=a;proto=http"]);
    assert!(!head.contains("1.1.1.1") && values(&head, "x-forwarded-port").is_empty());
}

#[test]
fn what_a_trusted_proxy_says_of_the_client_is_extended() {
    let trusted = Gateway { is_trusted: true, ..gateway() };
    let claims = "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2, 3.3.3.3\r\nX-Forwarded-Proto: http\r\n\
        X-Forwarded-Host: outer\r\nForwarded: for=1.1.1.1\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 1.1.1.1\r\n";
    let head = forwarded(&with(claims), &trusted);
    assert_eq!(values(&head, "x-forwarded-for"), ["1.1.1.1, 2.2.2.2, 3.3.3.3, 192.0.2.7"]);
    assert_eq!((values(&head, "x-forwarded-proto"), values(&head, "x-forwarded-host")), (vec!["http"], vec!["outer"]));
    // Forwarded may be the client's, since the proxy writes the other fields.
    assert_eq!(
        values(&head, "forwarded"),
        ["for=192.0.2.7;host=outer;proto=http, for=\"192.0.2.7:4711\";host=a;proto=https"]
    );
    assert_eq!((values(&head, "x-forwarded-port"), values(&head, "x-real-ip")), (vec!["1"], vec!["1.1.1.1"]));
    // The trusted proxy declared the field hop-by-hop.
    let head = forwarded(&with(&format!("{claims}Connection: x-forwarded-for\r\n")), &trusted);
    assert_eq!(values(&head, "x-forwarded-for"), ["192.0.2.7"]);
}

#[test]
fn what_a_trusted_proxy_says_in_forwarded_alone_begins_all_fields() {
    let claimed_client = Some("2001:db8::1".parse().unwrap());
    let trusted = Gateway { is_trusted: true, is_secure: false, claimed_client, ..gateway() };
    let told = |lines: &str, gateway: &Gateway| {
        let head = forwarded(&with(lines), gateway);
        let only = |name| values(&head, name).join("|");
        (only("x-forwarded-for"), only("x-forwarded-proto"), only("x-forwarded-host"))
    };
    let all = |client: &str, proto: &str, host: &str| (client.to_owned(), proto.to_owned(), host.to_owned());
    let by =
        "Forwarded: for=\"[2001:db8::1]:80\";proto=https;host=\"outer:81\", for=10.0.0.1;proto=http;host=inner\r\n";
    assert_eq!(told(by, &trusted), all("2001:db8::1, 192.0.2.7", "https", "inner"));
    // The client may have sent the elements before the proxy's own, or all of them.
    let by_client = "Forwarded: host=evil, for=3.3.3.3;host=own\r\n";
    let claimed_client = Some("3.3.3.3".parse().unwrap());
    let near = Gateway { claimed_client, ..trusted };
    assert_eq!(told(by_client, &near), all("3.3.3.3, 192.0.2.7", "http", "own"));
    let passed = "Forwarded: host=evil\r\nX-Forwarded-For: 3.3.3.3\r\n";
    assert_eq!(told(passed, &near), all("3.3.3.3, 192.0.2.7", "http", "a"));
    // The field that a proxy writes itself counts before the one that it leaves as it came.
    let both = format!("{by}X-Forwarded-For: 3.3.3.3\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: own\r\n");
    assert_eq!(told(&both, &trusted), all("3.3.3.3, 192.0.2.7", "http", "own"));
    assert_eq!(told("Forwarded: host=\"a b\";proto=ftp\r\n", &trusted), all("192.0.2.7", "http", "a"));
    let untrusted = Gateway { is_trusted: false, claimed_client: None, ..trusted };
    assert_eq!(told(by, &untrusted), all("192.0.2.7", "http", "a"));
}

/// An unclosed quote was passed on before the element of this server, which programs then took for its text.
#[test]
fn an_unclosed_quote_in_forwarded_is_not_passed_on() {
    let trusted = Gateway { is_trusted: true, is_secure: false, client_port: None, ..gateway() };
    let told = |lines: &str, claimed_client: Option<&str>| {
        let claimed_client = claimed_client.map(|client| client.parse().unwrap());
        values(&forwarded(&with(lines), &Gateway { claimed_client, ..trusted }), "forwarded").join("|")
    };
    let own = "for=192.0.2.7;host=a;proto=http";
    for open in ["for=\"6.6.6.6", "for=6.6.6.6;x=\", for=3.3.3.3", "for=6.6.6.6;x=\"\\\", for=3.3.3.3", "\""] {
        assert_eq!(told(&format!("Forwarded: {open}\r\n"), None), own, "{open}");
        let two = format!("Forwarded: {open}\r\nForwarded: for=3.3.3.3\r\n");
        assert_eq!(told(&two, Some("3.3.3.3")), format!("for=3.3.3.3, {own}"), "{open}");
    }
    assert_eq!(
        told("Forwarded: for=3.3.3.3;x=\"\\\"\"\r\n", Some("3.3.3.3")),
        format!("for=3.3.3.3;x=\"\\\"\", {own}")
    );
}

#[test]
fn forwarded_says_what_a_trusted_proxy_says_in_other_fields() {
    let claimed_client = Some("3.3.3.3".parse().unwrap());
    let near = Gateway { is_trusted: true, is_secure: false, client_port: None, claimed_client, ..gateway() };
    let forged = "Forwarded: for=6.6.6.6;proto=https;host=evil\r\n";
    let told = |lines: &str, gateway: &Gateway| values(&forwarded(&with(lines), gateway), "forwarded").join("|");
    let own = "for=192.0.2.7;host=a;proto=http";
    let list = format!("{forged}X-Forwarded-For: 3.3.3.3\r\n");
    assert_eq!(told(&list, &near), format!("for=3.3.3.3;host=a;proto=http, {own}"));
    assert_eq!(values(&forwarded(&with(&list), &near), "x-forwarded-proto"), ["http"]);
    let all = format!("{list}X-Forwarded-Proto: wss\r\nX-Forwarded-Host: outer:81\r\n");
    assert_eq!(told(&all, &near), format!("for=3.3.3.3;host=\"outer:81\";proto=https, {own}"));
    let odd = format!("{list}X-Forwarded-Host: a, b\r\n");
    assert_eq!(told(&odd, &near), format!("for=3.3.3.3;host=a;proto=http, {own}"));
    // The scheme alone, as from a proxy that does not name clients.
    let nameless = Gateway { claimed_client: None, ..near };
    assert_eq!(told("X-Forwarded-Proto: https\r\n", &nameless), format!("for=192.0.2.7;host=a;proto=https, {own}"));
    assert_eq!(told("", &nameless), own);
}

#[test]
fn addresses() {
    for (client, port, for_value, forwarded_value) in [
        ("2001:db8::1", None, "2001:db8::1", "\"[2001:db8::1]\""),
        ("2001:db8::1", Some(80), "2001:db8::1", "\"[2001:db8::1]:80\""),
        ("::ffff:192.0.2.1", None, "192.0.2.1", "192.0.2.1"),
    ] {
        let gateway = Gateway { client: client.parse().unwrap(), client_port: port, ..gateway() };
        let head = forwarded(&with(""), &gateway);
        assert_eq!(values(&head, "x-forwarded-for"), [for_value]);
        assert_eq!(values(&head, "forwarded"), [format!("for={forwarded_value};host=a;proto=https")]);
    }
}

#[test]
fn via_tells_the_clients_version_behind_others() {
    for (version, expected) in [
        ((1, 0), "1.0 weir"),
        ((1, 1), "1.1 weir"),
        ((1, 2), "1.2 weir"),
        ((1, 9), "1.9 weir"),
        ((2, 0), "2 weir"),
        ((3, 0), "3 weir"),
    ] {
        let head = forwarded(&with("Via: 1.1 other\r\n"), &Gateway { version, ..gateway() });
        assert_eq!(values(&head, "via"), ["1.1 other", expected]);
    }
}

#[test]
fn cookies_are_one_line() {
    let pushed: [(&[u8], &[u8]); 9] = [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":path", b"/"),
        (b":authority", b"a"),
        (b"cookie", b""),
        (b"cookie", b"a=1"),
        (b"x", b"y"),
        (b"cookie", b""),
        (b"cookie", b"b=2"),
    ];
    let mut builder = RequestBuilder::new(Limits::default(), false);
    builder.begin();
    pushed.iter().for_each(|(name, value)| builder.push(name, value));
    let request = builder.finish().unwrap().unwrap();
    assert_eq!(request.view().values("cookie").collect::<Vec<_>>(), [b"a=1; b=2"]);
    let head = encoded(&request.view(), &Gateway { version: (2, 0), ..gateway() });
    assert!(head.starts_with("GET / HTTP/1.1\r\nHost: a\r\nx: y\r\nCookie: a=1; b=2\r\nX-Forwarded-For"), "{head}");
    for (lines, expected) in [
        ("Cookie: a=1\r\nCookie:\r\nCookie: b=2\r\n", &["a=1; b=2"][..]),
        ("Cookie:\r\nCookie: a=1\r\nCookie: \r\n", &["a=1"]),
        ("Cookie:\r\n", &[]),
    ] {
        assert_eq!(values(&forwarded(&with(lines), &gateway()), "cookie"), expected, "{lines}");
    }
}

/// The head of a WebSocket's opening, with these lines in addition.
fn opening(lines: &str) -> String {
    format!("GET /chat?x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{lines}\r\n")
}

#[test]
fn a_websocket_over_http1_is_a_connect_over_http2() {
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let bytes = opening(&format!("{key}Sec-WebSocket-Protocol: chat\r\n"));
    let request = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request;
    assert_eq!(websocket_key(&request), Some(&b"dGhlIHNhbXBsZSBub25jZQ=="[..]));
    let gateway = Gateway { is_upgrade: true, ..gateway() };
    let head = RequestHead::of_websocket(&request, &gateway, "https");
    let fields: Vec<_> = head.fields().map(|(name, value)| [name, value].map(String::from_utf8_lossy)).collect();
    let pseudo: Vec<_> = fields.iter().take_while(|[name, _]| name.starts_with(':')).collect();
    let expected = [
        [":method", "CONNECT"],
        [":protocol", "websocket"],
        [":scheme", "https"],
        [":authority", "a"],
        [":path", "/chat?x"],
    ];
    assert_eq!(pseudo, expected.iter().collect::<Vec<_>>());
    let has = |wanted: &str| fields.iter().any(|[name, _]| name.eq_ignore_ascii_case(wanted));
    assert!(has("sec-websocket-protocol") && has("sec-websocket-version"), "{fields:?}");
    assert!(!["sec-websocket-key", "connection", "upgrade"].into_iter().any(has), "{fields:?}");
    // Anything else is no opening of a WebSocket alone.
    for lines in ["", "Sec-WebSocket-Key: short\r\n", &key.repeat(2), &format!("{key}Content-Length: 1\r\n")] {
        let bytes = opening(lines);
        let request = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request;
        assert_eq!(websocket_key(&request), None, "{lines}");
    }
}

#[test]
fn the_success_of_a_connect_is_a_switch_whatever_its_length() {
    let head = |method, status: &[u8]| {
        let mut builder = ResponseBuilder::new(ResponseLimits::default());
        builder.begin();
        builder.push(b":status", status);
        builder.push(b"content-length", b"5");
        builder.push(b"sec-websocket-accept", b"of another key");
        builder.push(b"sec-websocket-protocol", b"chat");
        builder.finish(method, false).unwrap()
    };
    let opened = head(http::Method::Connect, b"200");
    assert_eq!(opened.framing, Framing::Upgraded);
    let switch = opened.into_switch(b"ACCEPT");
    assert_eq!((switch.status.0, switch.is_interim(), switch.content_length()), (101, false, None));
    let values = |name| switch.values(name).collect::<Vec<_>>();
    assert_eq!([values("sec-websocket-accept"), values("upgrade")], [[&b"ACCEPT"[..]], [b"websocket"]]);
    assert_eq!(values("sec-websocket-protocol"), [b"chat"]);
    for (method, status) in [(http::Method::Connect, &b"403"[..]), (http::Method::Get, b"200")] {
        assert!(matches!(head(method, status).framing, Framing::Length(_)), "a refusal has a body");
    }
}

fn connect(protocol: &[u8], more: &[(&[u8], &[u8])]) -> Result<Box<http::OwnedRequest>, Box<http::Refused>> {
    let mut builder = RequestBuilder::new(Limits::default(), true);
    builder.begin();
    builder.push(b":method", b"CONNECT");
    builder.push(b":protocol", protocol);
    for (name, value) in [(&b":scheme"[..], &b"https"[..]), (b":authority", b"a"), (b":path", b"/chat?x")] {
        builder.push(name, value);
    }
    more.iter().for_each(|(name, value)| builder.push(name, value));
    builder.finish().unwrap()
}

#[test]
fn connect_for_websocket_is_an_upgrade_and_others_are_refused() {
    let more: [(&[u8], &[u8]); 3] = [
        (b"sec-websocket-key", b"the client's own"),
        (b"sec-websocket-protocol", b"chat"),
        (b"sec-websocket-version", b"13"),
    ];
    for (more, version) in [(&more[..], "13"), (&more[..2], "13")] {
        let mut request = connect(b"WebSocket", more).unwrap();
        // The stream stays open.
        request.set_unended();
        assert_eq!((request.view().method, asks_upgrade(&request.view())), (http::Method::Connect, true));
        let gateway = Gateway { is_upgrade: true, websocket_key: Some(b"KEY"), version: (2, 0), ..gateway() };
        let mut out = Vec::new();
        encode_request(&mut out, &request.view(), &gateway, BodyLength::None);
        let head = String::from_utf8(out).unwrap();
        assert!(head.starts_with("GET /chat?x HTTP/1.1\r\nHost: a\r\n"), "{head}");
        assert_eq!([values(&head, "upgrade"), values(&head, "connection")], [["websocket"], ["upgrade"]]);
        assert_eq!([values(&head, "sec-websocket-key"), values(&head, "sec-websocket-version")], [["KEY"], [version]]);
        assert_eq!(values(&head, "sec-websocket-protocol"), ["chat"]);
        assert!(values(&head, "transfer-encoding").is_empty() && values(&head, "content-length").is_empty(), "{head}");
    }
    let refused = connect(b"connect-udp", &[]).unwrap_err();
    assert_eq!((refused.reject.status.0, refused.shown.target.as_ref()), (501, &b"/chat?x"[..]));
    let mut plain = RequestBuilder::new(Limits::default(), true);
    plain.begin();
    plain.push(b":method", b"CONNECT");
    plain.push(b":authority", b"a:443");
    assert_eq!(plain.finish().unwrap().unwrap_err().reject.reason, "connect is for proxies");
}

#[test]
fn upgrades() {
    let websocket = Some("websocket");
    for (request, expected) in [
        ("GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n", websocket),
        ("GET / HTTP/1.1\r\nUpgrade: h2c, websocket\r\nConnection: keep-alive, upgrade\r\n", websocket),
        ("GET / HTTP/1.1\r\nUpgrade: websocket, x\r\nConnection: Upgrade\r\n", Some("websocket, x")),
        ("GET / HTTP/1.1\r\nUpgrade: foo/2, websocket\r\nConnection: Upgrade\r\n", Some("foo/2, websocket")),
        ("GET / HTTP/1.1\r\nUpgrade: a,h2\r\nUpgrade: TLS/1.0, b\r\nConnection: Upgrade\r\n", Some("a, b")),
        ("GET / HTTP/1.1\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n", Some("SPDY/3.1")),
        ("GET / HTTP/1.1\r\nUpgrade: websocket\r\n", None),
        ("GET / HTTP/1.1\r\nConnection: Upgrade\r\n", None),
        ("GET / HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n", None),
        ("GET / HTTP/1.1\r\nUpgrade: HTTP/2.0, TLS/1.0, H2\r\nConnection: Upgrade\r\n", None),
        ("GET / HTTP/1.1\r\nUpgrade: web socket\r\nConnection: Upgrade\r\n", None),
        ("POST / HTTP/1.1\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n", Some("tcp")),
        ("POST / HTTP/1.1\r\nUpgrade: tcp\r\nConnection: Upgrade\r\nContent-Length: 1\r\n", Some("tcp")),
        ("PUT / HTTP/1.1\r\nUpgrade: a\r\nConnection: Upgrade\r\nTransfer-Encoding: chunked\r\n", Some("a")),
    ] {
        let bytes = format!("{request}Host: a\r\n\r\n");
        let head = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap();
        let is_upgrade = asks_upgrade(&head.request);
        assert_eq!(is_upgrade, expected.is_some(), "{request}");
        let out = encoded(&head.request, &Gateway { is_upgrade, ..gateway() });
        assert_eq!(values(&out, "upgrade"), expected.into_iter().collect::<Vec<_>>());
        assert_eq!(values(&out, "connection"), expected.map(|_| "upgrade").into_iter().collect::<Vec<_>>());
    }
}

/// Smuggling attempts: the lines of a POST, and its refusal or the framing for the upstream.
const SMUGGLED: &[(&str, Result<&str, u16>)] = &[
    // CL.TE and TE.CL.
    ("Content-Length: 6\r\nTransfer-Encoding: chunked", Err(400)),
    ("Transfer-Encoding: chunked\r\nContent-Length: 6", Err(400)),
    ("Transfer-Encoding: chunked\r\nContent-Length: 0", Err(400)),
    // TE.TE.
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", Err(400)),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", Err(400)),
    ("Transfer-Encoding: xchunked", Err(400)),
    ("Transfer-Encoding: x\r\nContent-Length: 6", Err(400)),
    ("Transfer-Encoding: chunked, identity", Err(400)),
    ("Transfer-Encoding: chunked, chunked", Err(400)),
    ("Transfer-Encoding: gzip, chunked", Err(501)),
    ("Transfer-Encoding: \"chunked\"", Err(400)),
    ("Transfer-Encoding: chunked;q=1", Err(400)),
    ("Transfer-Encoding:", Err(400)),
    ("Transfer-Encoding : chunked", Err(400)),
    ("Transfer-Encoding\t: chunked", Err(400)),
    (" Transfer-Encoding: chunked", Err(400)),
    ("X: y\r\n Transfer-Encoding: chunked", Err(400)),
    ("Transfer-Encoding:\r\n chunked", Err(400)),
    ("Transfer-Encoding: \x0bchunked", Err(400)),
    ("Transfer-Encoding: chunked\0", Err(400)),
    ("X: y\nTransfer-Encoding: chunked", Err(400)),
    ("X: y\rTransfer-Encoding: chunked", Err(400)),
    ("Transfer-Encoding\0: chunked", Err(400)),
    (": chunked", Err(400)),
    ("Transfer-Encoding: \tCHUNKED \t", Ok("Transfer-Encoding: chunked")),
    ("Transfer-Encoding: chunked\r\nConnection: transfer-encoding", Ok("Transfer-Encoding: chunked")),
    // Content lengths.
    ("Content-Length: 5\r\nContent-Length: 5", Err(400)),
    ("Content-Length: 5\r\nContent-Length: 6", Err(400)),
    ("Content-Length: 5, 5", Err(400)),
    ("Content-Length: +5", Err(400)),
    ("Content-Length: -5", Err(400)),
    ("Content-Length: 0x5", Err(400)),
    ("Content-Length: 5 5", Err(400)),
    ("Content-Length: 5;", Err(400)),
    ("Content-Length:", Err(400)),
    ("Content-Length : 5", Err(400)),
    ("Content-Length: 18446744073709551616", Err(400)),
    ("Content-Length: 005", Ok("Content-Length: 5")),
    ("Content-Length: 5\r\nConnection: content-length", Ok("Content-Length: 5")),
    // Names that some programs take for framing fields.
    ("Content_Length: 5", Ok("Content-Length: 0")),
    ("Transfer_Encoding: chunked", Ok("Content-Length: 0")),
    ("Transfer.Encoding: chunked\r\nContent-Length: 5", Ok("Content-Length: 5")),
    ("X_Forwarded_For: 1.1.1.1", Ok("Content-Length: 0")),
    // Expectations and hosts.
    ("Content-Length: 5\r\nExpect: 100-continue", Ok("Content-Length: 5")),
    ("Content-Length: 5\r\nExpect: 100-continue, x", Err(417)),
    ("Host: b", Err(400)),
];

/// Checks that lines end in CRLF, names are plain, one field frames the message, and Host and X-Forwarded-For occur
/// once.
fn check_unambiguous(head: &str, framing: &str) {
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    let lines: Vec<&str> = head.strip_suffix("\r\n\r\n").unwrap().split("\r\n").collect();
    let text = |c: char| c == '\t' || !c.is_ascii_control();
    let mut found = Vec::new();
    for line in &lines[1..] {
        let (name, value) = line.split_once(": ").expect("a field");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') && value.chars().all(text), "{line:?}");
        if ["content-length", "transfer-encoding"].contains(&&*name.to_ascii_lowercase()) {
            found.push(*line);
        }
    }
    assert_eq!(found.join(" and "), framing);
    assert_eq!(values(head, "host").len(), 1);
    assert_eq!(values(head, "x-forwarded-for"), ["192.0.2.7"]);
}

#[test]
fn nothing_is_read_two_ways() {
    for (lines, expected) in SMUGGLED {
        let bytes = format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n0\r\n\r\n");
        match (parse_request(bytes.as_bytes(), &Limits::default()), expected) {
            (Ok(Some(head)), Ok(framing)) => check_unambiguous(&encoded(&head.request, &gateway()), framing),
            (Err(reject), Err(status)) => assert_eq!(reject.status.0, *status, "{lines:?}"),
            (answer, _) => panic!("{lines:?}: {answer:?}"),
        }
    }
    let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(parse_request(old.as_bytes(), &Limits::default()).unwrap_err().status.0, 400);
}

/// Values that HTTP/2 and HTTP/3 can carry and HTTP/1.1 cannot.
#[test]
fn frames_do_not_smuggle_lines() {
    let line: [(&[u8], &[u8]); 3] = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a")];
    let path: (&[u8], &[u8]) = (b":path", b"/");
    let malformed: [[(&[u8], &[u8]); 2]; 8] = [
        [path, (b"x", b"y\r\ntransfer-encoding: chunked")],
        [path, (b"x", b"y\nz: 1")],
        [path, (b"x", b"y\rz")],
        [path, (b"x", b"y\0")],
        [path, (b"x\r\ny", b"z")],
        [path, (b"x: y\r\nz", b"z")],
        [path, (b"transfer-encoding", b"xchunked")],
        [(b":path", b"/ HTTP/1.1\r\nx: y\r\n\r\nGET /"), (b"x", b"y")],
    ];
    let built = |fields: &[(&[u8], &[u8]); 2]| {
        let mut builder = RequestBuilder::new(Limits::default(), false);
        builder.begin();
        line.iter().chain(fields).for_each(|(name, value)| builder.push(name, value));
        builder.finish()
    };
    for fields in malformed {
        assert!(built(&fields).is_err(), "{fields:?}");
    }
    let refused = built(&[(b":path", b"/ HTTP/1.1"), (b"x", b"y")]).unwrap().unwrap_err();
    assert_eq!(refused.reject.status.0, 400);
}

/// Bodies cannot smuggle either: a chunk has one reading.
#[test]
fn chunks_are_not_read_two_ways() {
    for body in
        ["5\nhello\r\n0\r\n\r\n", "0x5\r\nhello", "5 \r\nhello", "+5\r\nhello", "5\r\nhello0\r\n", "5;\nx\r\nhello"]
    {
        let mut rest = body.as_bytes();
        let mut chunked = Chunked::new();
        let fault = loop {
            match chunked.take(rest) {
                Ok(taken) if taken.is_done || taken.consumed == rest.len() => break None,
                Ok(taken) => rest = &rest[taken.consumed..],
                Err(reject) => break Some(reject.status.0),
            }
        };
        assert_eq!(fault, Some(400), "{body:?}");
    }
}

fn field() -> impl Strategy<Value = String> {
    let name = prop::sample::select(
        &[
            "Accept",
            "cookie",
            "X-Forwarded-For",
            "Forwarded",
            "Via",
            "Connection",
            "TE",
            "Upgrade",
            "x_y",
            "X-A",
            "Range",
        ][..],
    );
    let value = prop_oneof![
        prop::sample::select(&["close", "x-a, keep-alive", "upgrade", "a=b", "for=1.1.1.1", "bytes=0-1", ""][..])
            .prop_map(str::to_owned),
        "[ -~\t\u{e9}]{0,20}",
    ];
    (name, value).prop_map(|(name, value)| format!("{name}: {value}\r\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Our own parser reads the same request from the head, and a proxy that trusts us forwards the same request again.
    #[test]
    fn a_head_means_what_the_request_meant(
        method in prop::sample::select(&["GET", "POST", "OPTIONS", "DELETE"][..]),
        target in prop::sample::select(&["/", "/a?b", "http://b:80/c%20d?e?", "http://b?q"][..]),
        fields in prop::collection::vec(field(), 0..10),
        framing in prop::sample::select(&["", "Content-Length: 0\r\n", "Content-Length: 07\r\n", "Transfer-Encoding: Chunked\r\n"][..]),
        is_trusted: bool,
    ) {
        let bytes = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{}{framing}\r\n", fields.concat());
        let limits = Limits::default();
        let Ok(Some(head)) = parse_request(bytes.as_bytes(), &limits) else {
            return Err(TestCaseError::fail(format!("refused: {bytes:?}")));
        };
        let request = head.request;
        let mut out = Vec::new();
        encode_request(&mut out, &request, &Gateway { is_trusted, ..gateway() }, request.body);
        let read = parse_request(&out, &limits).unwrap().expect("a whole head");
        prop_assert_eq!(read.bytes, out.len());
        prop_assert!(read.keep_alive && !read.expect_continue);
        let again = read.request;
        prop_assert_eq!(
            (again.method, again.path, again.query, again.body, again.fields.host),
            (request.method, request.path, request.query, request.body, request.fields.host)
        );
        let passed = |request: &Request| request.values("accept").map(<[u8]>::to_vec).collect::<Vec<_>>();
        prop_assert_eq!(passed(&again), passed(&request));
        let mut twice = Vec::new();
        encode_request(&mut twice, &again, &Gateway { is_trusted: true, ..gateway() }, again.body);
        prop_assert_eq!(parse_request(&twice, &limits).unwrap().unwrap().request.body, request.body);
    }
}

#[test]
fn methods_are_as_they_came() {
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let head = forwarded(&format!("{method} /x HTTP/1.1\r\nHost: a\r\n\r\n"), &gateway());
        assert!(head.starts_with(&format!("{method} /x HTTP/1.1\r\n")));
    }
}

#[test]
fn a_request_that_came_round_is_known_by_its_via() {
    let is_looping = |via: &str| {
        let bytes = with(&format!("Via: {via}\r\n"));
        let request = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request;
        http::gateway::is_looping(&request)
    };
    let by_weir = |passes: usize| vec!["1.1 weir"; passes].join(", ");
    assert!(!is_looping("1.1 other") && !is_looping(&by_weir(16)) && is_looping(&by_weir(17)));
    assert!(is_looping(&format!("{}, 1.0 fred, 2 weir", by_weir(16))));
    assert!(!is_looping(&vec!["1.1 weirder (weir)"; 40].join(", ")));
}
