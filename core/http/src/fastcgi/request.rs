//! A request for a FastCGI responder: its variables, then its body.

use core::net::IpAddr;

use super::{REQUEST_ID, VERSION, kind};
use crate::gateway::hop::{Hop, is_any};
use crate::gateway::{FieldChange, forwarded};
use crate::request::target::origin_form;
use crate::{BodyLength, Request};

/// The maximum content of a record that we send: a multiple of eight, so that no padding is needed.
const CONTENT_BYTES_MAX: usize = 65_528;
/// The role of a program that answers requests.
const RESPONDER: u8 = 1;
const KEEP_CONN: u8 = 1;

/// The script of a request, and the other facts that its responder receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script<'a> {
    /// The folder of the site.
    pub root: &'a [u8],
    /// The path of the script below the root, with a leading slash.
    pub name: &'a [u8],
    /// The part of the decoded path after the script; empty, or with a leading slash.
    pub path_info: &'a [u8],
    pub client: IpAddr,
    /// The client's port, if the client itself is connected.
    pub client_port: Option<u16>,
    /// True if the peer is a trusted proxy, whose Forwarded and X-Forwarded-* fields are kept. The fields of other
    /// peers are dropped.
    pub is_trusted: bool,
    /// True if the client uses TLS.
    pub is_secure: bool,
    /// The HTTP version of the request, major and minor.
    pub version: (u8, u8),
    /// True if the connection is used again.
    pub keeps_connection: bool,
    /// Fields that are set or removed, from the client or from Weir.
    pub changes: &'a [FieldChange],
}

/// Appends the records of a request before its body, or all records if the body is empty. Programs read as many bytes
/// as the variables announce, so for a body of unknown length [`length_records`] must come between these records and
/// the body.
pub fn encode_request(out: &mut Vec<u8>, request: &Request, script: &Script, body: BodyLength) {
    push_header(out, kind::BEGIN_REQUEST, 8);
    out.extend_from_slice(&[0, RESPONDER, if script.keeps_connection { KEEP_CONN } else { 0 }, 0, 0, 0, 0, 0]);
    let variables = variables(request, script, body);
    for part in variables.chunks(CONTENT_BYTES_MAX) {
        push_header(out, kind::PARAMS, part.len());
        out.extend_from_slice(part);
    }
    if body != BodyLength::Unknown {
        push_header(out, kind::PARAMS, 0);
    }
    if body == BodyLength::None {
        append_stdin(out, &[], true);
    }
}

/// Returns the records with the length of a body, which follow the records of [`encode_request`] if the length was
/// unknown then.
pub fn length_records(body_bytes: u64) -> Vec<u8> {
    let (mut length, mut out) = (Vec::new(), Vec::new());
    variable(&mut length, b"CONTENT_LENGTH", &[body_bytes.to_string().as_bytes()]);
    push_header(&mut out, kind::PARAMS, length.len());
    out.extend_from_slice(&length);
    push_header(&mut out, kind::PARAMS, 0);
    out
}

/// Appends more of a body; `is_last` ends the body.
pub fn append_stdin(out: &mut Vec<u8>, bytes: &[u8], is_last: bool) {
    for part in bytes.chunks(CONTENT_BYTES_MAX) {
        push_header(out, kind::STDIN, part.len());
        out.extend_from_slice(part);
    }
    if is_last {
        push_header(out, kind::STDIN, 0);
    }
}

fn variables(request: &Request, script: &Script, body: BodyLength) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    let mut set = |name: &str, parts: &[&[u8]]| variable(&mut out, name.as_bytes(), parts);
    let (host, port) = host_of(request.fields.host.unwrap_or_default(), script.is_secure);
    let (scheme, version) = (if script.is_secure { "https" } else { "http" }, version(script.version));
    set("GATEWAY_INTERFACE", &[b"CGI/1.1"]);
    set("SERVER_SOFTWARE", &[b"weir"]);
    set("SERVER_PROTOCOL", &[version.as_bytes()]);
    set("SERVER_NAME", &[host]);
    set("SERVER_PORT", &[port]);
    set("REQUEST_METHOD", &[request.method.token()]);
    set("REQUEST_SCHEME", &[scheme.as_bytes()]);
    set("REQUEST_URI", &[origin_form(request.target)]);
    set("QUERY_STRING", &[request.query.unwrap_or_default()]);
    set("DOCUMENT_ROOT", &[script.root]);
    set("DOCUMENT_URI", &[script.name, script.path_info]);
    set("SCRIPT_NAME", &[script.name]);
    set("SCRIPT_FILENAME", &[script.root, script.name]);
    set("PATH_INFO", &[script.path_info]);
    if !script.path_info.is_empty() {
        set("PATH_TRANSLATED", &[script.root, script.path_info]);
    }
    client(&mut out, script);
    let mut set = |name: &str, parts: &[&[u8]]| variable(&mut out, name.as_bytes(), parts);
    // PHP built with force-cgi-redirect refuses to run without it.
    set("REDIRECT_STATUS", &[b"200"]);
    set("CONTENT_TYPE", &[request.values("content-type").next().unwrap_or_default()]);
    match body {
        BodyLength::Known(length) => set("CONTENT_LENGTH", &[length.bytes().to_string().as_bytes()]),
        BodyLength::None => set("CONTENT_LENGTH", &[]),
        BodyLength::Unknown => {}
    }
    fields(&mut out, request, script);
    for change in script.changes {
        change.value.iter().for_each(|value| field(&mut out, change.name.as_bytes(), value));
    }
    out
}

/// Appends the variables that describe the client.
fn client(out: &mut Vec<u8>, script: &Script) {
    let mut set = |name: &str, parts: &[&[u8]]| variable(out, name.as_bytes(), parts);
    set("REMOTE_ADDR", &[script.client.to_string().as_bytes()]);
    if let Some(port) = script.client_port {
        set("REMOTE_PORT", &[port.to_string().as_bytes()]);
    }
    if script.is_secure {
        set("HTTPS", &[b"on"]);
    }
}

/// The prefix of the names of variables that hold fields.
const FIELD: &[u8] = b"HTTP_";
/// Fields that have variables of their own, or that programs must not see.
const NO_FIELDS: [&str; 5] = ["content-type", "content-length", "expect", "host", "proxy"];

/// Appends the fields of the request that are for programs, each name once (RFC 3875 section 4.1.18).
fn fields(out: &mut Vec<u8>, request: &Request, script: &Script) {
    let hop = Hop::of(|| request.values("connection"));
    // Any other character could turn two names into one variable.
    let is_plain = |name: &[u8]| name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    let is_changed =
        |name: &[u8]| script.changes.iter().any(|change| change.name.as_bytes().eq_ignore_ascii_case(name));
    let is_passed = |name: &[u8]| {
        hop.is_passed(name)
            && is_plain(name)
            && !is_any(name, &NO_FIELDS)
            && (script.is_trusted || !forwarded::is_ours(name, false))
            && !is_changed(name)
    };
    // The host of an absolute target takes precedence over the field (RFC 9112 section 3.2.2).
    request.fields.host.filter(|_| !is_changed(b"host")).into_iter().for_each(|host| field(out, b"host", host));
    // Over HTTP/1.1 every iteration over all fields parses their lines again.
    let all: Vec<_> = request.all().collect();
    for (at, (name, value)) in all.iter().enumerate().filter(|(_, (name, _))| is_passed(name)) {
        let is_same = |other: &[u8]| other.eq_ignore_ascii_case(name);
        if all[..at].iter().any(|(other, _)| is_same(other)) {
            continue;
        }
        if !all[at + 1..].iter().any(|(other, _)| is_same(other)) {
            field(out, name, value);
            continue;
        }
        let is_cookie = is_same(b"cookie");
        let values = all[at..].iter().filter(|(other, _)| is_same(other)).map(|(_, value)| *value);
        let values = values.filter(|value| !is_cookie || !value.is_empty());
        let value = values.collect::<Vec<_>>().join(if is_cookie { &b"; "[..] } else { b", " });
        field(out, name, &value);
    }
}

/// Appends a field as a variable.
fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    push_length(out, FIELD.len() + name.len());
    push_length(out, value.len());
    out.extend_from_slice(FIELD);
    out.extend(name.iter().map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
    out.extend_from_slice(value);
}

/// Appends a variable whose value is these parts joined.
fn variable(out: &mut Vec<u8>, name: &[u8], parts: &[&[u8]]) {
    push_length(out, name.len());
    push_length(out, parts.iter().map(|part| part.len()).sum());
    out.extend_from_slice(name);
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Appends the length of a name or value: one byte below 128, otherwise four bytes. Heads are limited to 128 KiB, so no
/// length needs more than 31 bits.
fn push_length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short @ ..=127) => out.push(short),
        _ => out.extend_from_slice(&(length as u32 | 1 << 31).to_be_bytes()),
    }
}

/// The host and the port that a Host field names.
fn host_of(host: &[u8], is_secure: bool) -> (&[u8], &[u8]) {
    let default: &[u8] = if is_secure { b"443" } else { b"80" };
    match host.iter().rposition(|byte| *byte == b':') {
        Some(at) if host[at + 1..].iter().all(u8::is_ascii_digit) && at + 1 < host.len() => {
            (&host[..at], &host[at + 1..])
        }
        _ => (host, default),
    }
}

fn version((major, minor): (u8, u8)) -> String {
    if major == 1 { format!("HTTP/1.{minor}") } else { format!("HTTP/{major}.0") }
}

/// Appends the header of a record of this kind whose content has `bytes` bytes.
fn push_header(out: &mut Vec<u8>, kind: u8, bytes: usize) {
    let (id, length) = (REQUEST_ID.to_be_bytes(), (bytes as u16).to_be_bytes());
    out.extend_from_slice(&[VERSION, kind, id[0], id[1], length[0], length[1], 0, 0]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fastcgi::HEADER_BYTES;
    use crate::{Limits, http1};

    fn script() -> Script<'static> {
        Script {
            root: b"/srv/www",
            name: b"/a/x.php",
            path_info: b"/i",
            client: IpAddr::from([192, 0, 2, 7]),
            client_port: Some(5000),
            is_trusted: false,
            is_secure: true,
            version: (1, 1),
            keeps_connection: false,
            changes: &[],
        }
    }

    /// The records of a stream: their types and contents.
    fn records(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut records = Vec::new();
        while !bytes.is_empty() {
            let length = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
            let padding = usize::from(bytes[6]);
            assert_eq!((bytes[0], bytes[2], bytes[3]), (1, 0, 1));
            records.push((bytes[1], bytes[HEADER_BYTES..HEADER_BYTES + length].to_vec()));
            bytes = &bytes[HEADER_BYTES + length + padding..];
        }
        records
    }

    /// The contents of all records of a type, which must end with an empty one.
    fn stream(records: &[(u8, Vec<u8>)], kind: u8) -> Vec<u8> {
        let of_kind: Vec<&Vec<u8>> = records.iter().filter(|(of, _)| *of == kind).map(|(_, content)| content).collect();
        let (end, parts) = of_kind.split_last().expect("an end");
        assert!(end.is_empty() && parts.iter().all(|part| !part.is_empty()), "{of_kind:?}");
        parts.iter().flat_map(|part| part.iter().copied()).collect()
    }

    fn length(bytes: &mut &[u8]) -> usize {
        let short = usize::from(bytes[0]);
        let (length, taken) = match short {
            ..=127 => (short, 1),
            _ => ((u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) & 0x7fff_ffff) as usize, 4),
        };
        *bytes = &bytes[taken..];
        length
    }

    fn variables_of(mut bytes: &[u8]) -> Vec<(String, String)> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let (name, value) = (length(&mut bytes), length(&mut bytes));
            let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
            all.push((text(&bytes[..name]), text(&bytes[name..name + value])));
            bytes = &bytes[name + value..];
        }
        all
    }

    fn asked(lines: &str, script: &Script) -> Vec<(String, String)> {
        asked_for("/a/x.php/i?q=1", lines, script)
    }

    fn asked_for(target: &str, lines: &str, script: &Script) -> Vec<(String, String)> {
        let text = format!("POST {target} HTTP/1.1\r\nHost: [::1]:8443\r\n{lines}\r\n");
        let head = http1::parse_request(text.as_bytes(), &Limits::default()).unwrap().expect("a head");
        let mut out = Vec::new();
        encode_request(&mut out, &head.request, script, head.request.body);
        variables_of(&stream(&records(&out), kind::PARAMS))
    }

    /// The only value of a variable.
    fn only<'v>(all: &'v [(String, String)], name: &str) -> Option<&'v str> {
        let values: Vec<&str> = all.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect();
        assert!(values.len() < 2, "{name} twice");
        values.first().copied()
    }

    #[test]
    fn a_program_is_told_everything_once() {
        let long = "x".repeat(70_000 / 2);
        let lines = format!(
            "Content-Type: a/b\r\nContent-Length: 5\r\nX-A: 1\r\nx-a: 2\r\nCookie: a=1\r\nCookie:\r\nCookie: b=2\r\nProxy: evil\r\nX_A: 3\r\n\
             Connection: x-hop\r\nX-Hop: 1\r\nX-Forwarded-For: 1.2.3.4\r\nExpect: 100-continue\r\nX-Long: {long}\r\n"
        );
        let all = asked(&lines, &script());
        let of = |name: &str| only(&all, name);
        for (name, value) in [
            ("SCRIPT_FILENAME", "/srv/www/a/x.php"),
            ("SCRIPT_NAME", "/a/x.php"),
            ("PATH_INFO", "/i"),
            ("REQUEST_URI", "/a/x.php/i?q=1"),
            ("QUERY_STRING", "q=1"),
            ("REQUEST_METHOD", "POST"),
            ("CONTENT_TYPE", "a/b"),
            ("CONTENT_LENGTH", "5"),
            ("SERVER_NAME", "[::1]"),
            ("SERVER_PORT", "8443"),
            ("REMOTE_ADDR", "192.0.2.7"),
            ("HTTPS", "on"),
            ("HTTP_X_A", "1, 2"),
            ("HTTP_COOKIE", "a=1; b=2"),
            ("HTTP_HOST", "[::1]:8443"),
            ("HTTP_X_LONG", &long),
        ] {
            assert_eq!(of(name), Some(value), "{name}");
        }
        for name in [
            "HTTP_PROXY",
            "HTTP_X_HOP",
            "HTTP_CONNECTION",
            "HTTP_CONTENT_LENGTH",
            "HTTP_EXPECT",
            "HTTP_X_FORWARDED_FOR",
        ] {
            assert_eq!(of(name), None, "{name}");
        }
    }

    /// A server accepts the absolute form too (RFC 9112 section 3.2.2), and programs split REQUEST_URI at its `?`.
    #[test]
    fn a_program_is_told_the_path_and_query_of_a_url() {
        for (target, uri) in [
            ("http://a/x.php/%5C?b=http://c/", "/x.php/%5C?b=http://c/"),
            ("HTTPS://a:1/x", "/x"),
            ("http://a", "/"),
            ("/http://a/x", "/http://a/x"),
        ] {
            assert_eq!(only(&asked_for(target, "", &script()), "REQUEST_URI"), Some(uri), "{target}");
        }
    }

    /// A program that makes links, or chooses a tenant, by the host must receive the host by which the site was chosen.
    #[test]
    fn a_program_is_told_the_host_that_counts() {
        for (head, expected) in [
            ("GET http://b.example/x.php HTTP/1.1\r\nHost: other\r\n", Some("b.example")),
            ("GET http://b.example:81/x.php HTTP/1.0\r\n", Some("b.example:81")),
            ("GET /x.php HTTP/1.1\r\nHost: a:80\r\nConnection: host\r\n", Some("a:80")),
            ("GET /x.php HTTP/1.0\r\n", None),
        ] {
            let text = format!("{head}\r\n");
            let head = http1::parse_request(text.as_bytes(), &Limits::default()).unwrap().expect("a head");
            let all = variables_of(&variables(&head.request, &script(), BodyLength::None));
            assert_eq!(only(&all, "HTTP_HOST"), expected, "{text}");
            let name = expected.map_or("", |host| host.split(':').next().unwrap_or_default());
            assert_eq!(only(&all, "SERVER_NAME"), Some(name), "{text}");
        }
    }

    #[test]
    fn changed_fields_are_those_of_the_operator() {
        let change = |name: &str, value: Option<&str>| FieldChange { name: name.into(), value: value.map(Into::into) };
        let changes = [change("X-A", Some("ours")), change("x-b", None), change("X-C", Some("new"))];
        let all = asked("X-a: theirs\r\nX-B: theirs\r\nX-D: kept\r\n", &Script { changes: &changes, ..script() });
        let of = |name: &str| only(&all, name);
        let expected = [Some("ours"), None, Some("new"), Some("kept")];
        assert_eq!(["HTTP_X_A", "HTTP_X_B", "HTTP_X_C", "HTTP_X_D"].map(of), expected);
    }

    #[test]
    fn a_host_may_have_a_port() {
        for (host, is_secure, expected) in [
            ("a.org", false, ("a.org", "80")),
            ("a.org:8080", false, ("a.org", "8080")),
            ("[::1]", true, ("[::1]", "443")),
            ("", true, ("", "443")),
        ] {
            assert_eq!(host_of(host.as_bytes(), is_secure), (expected.0.as_bytes(), expected.1.as_bytes()), "{host}");
        }
    }

    proptest! {
        #[test]
        fn a_body_is_the_same_however_it_comes(parts in proptest::collection::vec(0usize..100_000, 0..4)) {
            let (mut out, mut body) = (Vec::new(), Vec::new());
            for (at, bytes) in parts.iter().enumerate() {
                let part: Vec<u8> = (0..*bytes).map(|byte| (byte * 7 + at) as u8).collect();
                append_stdin(&mut out, &part, false);
                body.extend(part);
            }
            append_stdin(&mut out, &[], true);
            prop_assert!(stream(&records(&out), kind::STDIN) == body);
        }
    }
}
