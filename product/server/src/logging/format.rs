//! Formats one response as one line: the combined format that every log tool reads, or JSON, which has more fields.
//!
//! Peers choose much of a line. Nothing that a peer sends may end the line, end a quoted field, reach a terminal as a
//! control sequence or change the order in which text is displayed: the combined format writes such bytes as `\xHH`, as
//! nginx does; JSON uses its own escapes. Formatting is hand-written because every request pays for it.

use std::io::Write as _;
use std::net::IpAddr;
use std::time::{Duration, UNIX_EPOCH};

use units::Nanos;

/// The format of a line. docs/weirlab.md lists the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The combined format: `remote - user [time] "request" status bytes "referer" "user agent"`, times in UTC.
    Combined,
    /// JSON: one object per line, the time in UTC with nanoseconds, durations in milliseconds.
    Json,
}

/// A response, logged when the kernel has taken the last byte or the connection has failed.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub remote: IpAddr,
    pub request: Requested<'a>,
    pub status: u16,
    pub sizes: Sizes,
    pub times: Times,
    /// The way in which the response ended; JSON only.
    pub outcome: Outcome,
    /// The reason why the request was refused or the connection ended; JSON only.
    pub reason: Option<&'a str>,
    /// True if the connection had carried a response before; JSON only.
    pub connection_reused: bool,
    /// The name of the response's class, if there are classes; JSON only.
    pub class: Option<&'a str>,
    /// Data about the upstream that answered, if one did; JSON only.
    pub passed_on: Option<PassedOn<'a>>,
    /// The bytes that the client has received beyond its share of the link, if clients share it; JSON only.
    pub ahead_bytes: Option<u64>,
}

/// The logged parts of a request.
#[derive(Debug, Clone, Copy)]
pub struct Requested<'a> {
    /// The method; empty if no request line was received.
    pub method: &'a [u8],
    /// The target as received, with the query. Without a method, the bytes received instead of a request line.
    pub target: &'a [u8],
    /// The HTTP version, major and minor.
    pub version: (u8, u8),
    pub referer: Option<&'a [u8]>,
    pub user_agent: Option<&'a [u8]>,
    /// The requested authority, with its port if it has one; JSON only.
    pub host: Option<&'a [u8]>,
    /// The user name in the request. If the status is 401, the password was wrong.
    pub user: Option<&'a [u8]>,
}

/// A request that an upstream answered.
#[derive(Debug, Clone, Copy)]
pub struct PassedOn<'a> {
    /// The upstream's address.
    pub upstream: &'a str,
    /// The time for which the request waited for a slot at the upstream.
    pub queue: Option<Nanos>,
    /// The time from then until a new connection accepted the first byte of the request; `None` if an idle connection
    /// was used.
    pub connect: Option<Nanos>,
    /// The time from then until the first byte of the response.
    pub first_byte: Option<Nanos>,
    /// The time from the arrival of the response until its first byte was sent on the link.
    pub link: Option<Nanos>,
    pub size_from: Option<SizeFrom>,
    /// The median size of earlier responses on the same route.
    pub predicted_bytes: Option<u64>,
    /// The rank of the response's size among those, from 0 to 1.
    pub quantile: Option<f64>,
    /// The bytes that were written to a spool file.
    pub spooled_bytes: u64,
}

/// The source of the size by which a response was ordered when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeFrom {
    /// The head gave the length, or implied that there is no body.
    Length,
    /// The whole response was already buffered.
    Buffer,
    /// Learned from similar responses.
    Learned,
    Nothing,
}

impl SizeFrom {
    fn name(self) -> &'static str {
        match self {
            SizeFrom::Length => "length",
            SizeFrom::Buffer => "buffer",
            SizeFrom::Learned => "learned",
            SizeFrom::Nothing => "none",
        }
    }
}

/// The byte counts of a response.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// The full length of the body, even if not all of it was sent; JSON only.
    pub size: u64,
    /// The bytes of the head that the kernel took; JSON only.
    pub head: u64,
    /// The bytes of the body that the kernel took.
    pub body: u64,
}

/// The times of a request and its response.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The time at which the line is written, since 1970; combined only.
    pub logged: Duration,
    /// The time at which the head of the request was complete, since 1970; JSON only.
    pub arrival: Duration,
    /// The time from arrival to the first byte that the kernel took, if it took one; JSON only.
    pub first_byte: Option<Nanos>,
    /// The time from arrival to the last byte; JSON only.
    pub response: Nanos,
}

/// The outcome of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel accepted the whole response.
    Complete,
    /// The server stopped first.
    Incomplete,
    /// The stream or connection ended first: the client closed it, the network failed, or the client read too slowly or
    /// broke a rule.
    Reset,
    /// The client disconnected while the response was being made: before it began (status 499), or while its upstream
    /// was sending it.
    Aborted,
    /// The file could not be read to its end.
    Wrong,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Outcome::Complete => "complete",
            Outcome::Incomplete => "incomplete",
            Outcome::Reset => "reset",
            Outcome::Aborted => "aborted",
            Outcome::Wrong => "wrong",
        }
    }
}

/// Writes lines of one format, and caches the formatted time of the last second.
#[derive(Debug, Clone)]
pub(super) struct Formatter {
    format: Format,
    unix_s: u64,
    /// The formatted time: `21/Nov/2026:10:00:00 +0000` or `2026-11-21T10:00:00`.
    time: String,
}

impl Formatter {
    pub(super) fn new(format: Format) -> Formatter {
        Formatter { format, unix_s: 0, time: time(format, 0) }
    }

    pub(super) fn line(&mut self, out: &mut Vec<u8>, entry: &Entry<'_>) {
        let unix_s = match self.format {
            Format::Combined => entry.times.logged.as_secs(),
            Format::Json => entry.times.arrival.as_secs(),
        };
        if unix_s != self.unix_s {
            self.unix_s = unix_s;
            self.time = time(self.format, unix_s);
        }
        match self.format {
            Format::Combined => combined(out, entry, &self.time),
            Format::Json => json(out, entry, &self.time),
        }
    }
}

fn combined(out: &mut Vec<u8>, entry: &Entry<'_>, time: &str) {
    address(out, entry.remote);
    out.extend_from_slice(b" - ");
    user_combined(out, entry.request.user);
    out.extend_from_slice(b" [");
    out.extend_from_slice(time.as_bytes());
    out.extend_from_slice(b"] \"");
    let request = &entry.request;
    if request.method.is_empty() {
        escape_combined(out, if request.target.is_empty() { b"-" } else { request.target });
    } else {
        escape_combined(out, request.method);
        out.push(b' ');
        escape_combined(out, request.target);
        out.push(b' ');
        protocol(out, request.version);
    }
    out.extend_from_slice(b"\" ");
    number(out, entry.status.into());
    out.push(b' ');
    number(out, entry.sizes.body);
    for field in [request.referer, request.user_agent] {
        out.extend_from_slice(b" \"");
        escape_combined(out, field.unwrap_or(b"-"));
        out.push(b'"');
    }
    out.push(b'\n');
}

/// Writes the name of a user, or `-` if there is none. The field has no quotes, so a space in the name is written as
/// `\x20`.
fn user_combined(out: &mut Vec<u8>, user: Option<&[u8]>) {
    let Some(user) = user.filter(|user| !user.is_empty()) else { return out.push(b'-') };
    for (nth, part) in user.split(|byte| *byte == b' ').enumerate() {
        if nth > 0 {
            out.extend_from_slice(b"\\x20");
        }
        escape_combined(out, part);
    }
}

/// Writes `HTTP/1.1`, the name that metrics also use ([`crate::metrics::protocol_name`]).
fn protocol(out: &mut Vec<u8>, (major, minor): (u8, u8)) {
    out.extend_from_slice(b"HTTP/");
    number(out, major.into());
    out.push(b'.');
    number(out, minor.into());
}

fn json(out: &mut Vec<u8>, entry: &Entry<'_>, time: &str) {
    out.extend_from_slice(b"{\"start_time\":\"");
    out.extend_from_slice(time.as_bytes());
    out.push(b'.');
    decimals(out, entry.times.arrival.subsec_nanos(), 100_000_000);
    out.extend_from_slice(b"Z\",\"remote_addr\":\"");
    address(out, entry.remote);
    out.push(b'"');
    if let Some(user) = entry.request.user {
        json_text(out, "remote_user", user);
    }
    json_request(out, &entry.request);
    json_sent(out, entry);
    out.extend_from_slice(b",\"connection_reused\":");
    out.extend_from_slice(if entry.connection_reused { b"true" } else { b"false" });
    if let Some(class) = entry.class {
        json_text(out, "class", class.as_bytes());
    }
    if let Some(bytes) = entry.ahead_bytes {
        json_number(out, "client_over_share_bytes", bytes);
    }
    entry.passed_on.iter().for_each(|passed_on| json_passed_on(out, passed_on));
    json_text(out, "outcome", entry.outcome.name().as_bytes());
    if let Some(reason) = entry.reason {
        json_text(out, "reason", reason.as_bytes());
    }
    if let Some(referer) = entry.request.referer {
        json_text(out, "referer", referer);
    }
    if let Some(user_agent) = entry.request.user_agent {
        json_text(out, "user_agent", user_agent);
    }
    out.extend_from_slice(b"}\n");
}

fn json_request(out: &mut Vec<u8>, request: &Requested<'_>) {
    if request.method.is_empty() {
        json_text(out, "request", request.target);
        if request.version.0 > 1 {
            json_protocol(out, request.version);
        }
        return;
    }
    json_text(out, "method", request.method);
    json_text(out, "uri", request.target);
    request.host.iter().for_each(|host| json_text(out, "host", host));
    json_protocol(out, request.version);
}

fn json_protocol(out: &mut Vec<u8>, version: (u8, u8)) {
    json_name(out, "protocol");
    out.push(b'"');
    protocol(out, version);
    out.push(b'"');
}

fn json_sent(out: &mut Vec<u8>, entry: &Entry<'_>) {
    let Sizes { size, head, body } = entry.sizes;
    json_number(out, "status", entry.status.into());
    json_number(out, "content_length", size);
    json_number(out, "head_bytes", head);
    json_number(out, "body_bytes", body);
    if let Some(first_byte) = entry.times.first_byte {
        json_milliseconds(out, "first_byte_ms", first_byte);
    }
    json_milliseconds(out, "duration_ms", entry.times.response);
}

fn json_passed_on(out: &mut Vec<u8>, passed_on: &PassedOn<'_>) {
    json_text(out, "upstream", passed_on.upstream.as_bytes());
    let PassedOn { queue, connect, first_byte, link, .. } = *passed_on;
    let times = [
        ("upstream_queue_ms", queue),
        ("upstream_connect_ms", connect),
        ("upstream_first_byte_ms", first_byte),
        ("queue_ms", link),
    ];
    for (name, time) in times {
        time.into_iter().for_each(|time| json_milliseconds(out, name, time));
    }
    if let Some(from) = passed_on.size_from {
        json_text(out, "size_from", from.name().as_bytes());
    }
    passed_on.predicted_bytes.into_iter().for_each(|bytes| json_number(out, "size_predicted_bytes", bytes));
    if let Some(quantile) = passed_on.quantile {
        json_name(out, "size_quantile");
        let _ = write!(out, "{quantile:.3}");
    }
    if passed_on.spooled_bytes > 0 {
        json_number(out, "spooled_bytes", passed_on.spooled_bytes);
    }
}

fn json_name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn json_number(out: &mut Vec<u8>, name: &str, value: u64) {
    json_name(out, name);
    number(out, value);
}

/// Writes milliseconds to the nanosecond: `12.345678`.
fn json_milliseconds(out: &mut Vec<u8>, name: &str, time: Nanos) {
    json_name(out, name);
    number(out, time.0 / 1_000_000);
    out.push(b'.');
    decimals(out, (time.0 % 1_000_000) as u32, 100_000);
}

/// Writes the digits of a fraction, from the digit with the value `unit` down to the ones.
fn decimals(out: &mut Vec<u8>, fraction: u32, mut unit: u32) {
    while unit > 0 {
        out.push(b'0' + (fraction / unit % 10) as u8);
        unit /= 10;
    }
}

fn json_text(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    json_name(out, name);
    out.push(b'"');
    escape_json(out, value);
    out.push(b'"');
}

/// Writes printable ASCII unchanged, and everything else, including quotes and backslashes, as `\xHH`.
fn escape_combined(out: &mut Vec<u8>, mut text: &[u8]) {
    loop {
        let plain = text.iter().position(|byte| !is_plain(byte)).unwrap_or(text.len());
        out.extend_from_slice(&text[..plain]);
        let Some(byte) = text.get(plain) else { return };
        let _ = write!(out, "\\x{byte:02X}");
        text = &text[plain + 1..];
    }
}

/// Returns true for bytes that need no escape in any format.
fn is_plain(&byte: &u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

/// Escapes by RFC 8259 section 7; bytes that are not UTF-8 become U+FFFD, as JSON cannot represent them.
fn escape_json(out: &mut Vec<u8>, text: &[u8]) {
    // This is nearly always the whole text; examining bytes is several times as fast as examining characters.
    let plain = text.iter().position(|byte| !is_plain(byte)).unwrap_or(text.len());
    out.extend_from_slice(&text[..plain]);
    for chunk in text[plain..].utf8_chunks() {
        let mut valid = chunk.valid();
        loop {
            let plain = valid.find(|c| !is_shown(c) || c == '"' || c == '\\').unwrap_or(valid.len());
            out.extend_from_slice(&valid.as_bytes()[..plain]);
            let mut rest = valid[plain..].chars();
            match rest.next() {
                None => break,
                Some(c @ ('"' | '\\')) => out.extend_from_slice(&[b'\\', c as u8]),
                Some(c) => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| drop(write!(out, "\\u{unit:04x}"))),
            }
            valid = rest.as_str();
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// Returns true if a character is displayed as itself everywhere: it is not a control character, does not change the
/// order of other characters (U+202E), does not end a line (U+2028) and is not invisible (U+200B). Rust's own escapes
/// cover these.
fn is_shown(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\') || c.escape_debug().len() == 1
}

/// Formats text for standard error in one line, with Rust's escapes for characters that are not displayed.
pub(super) fn one_line(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut line, c| {
        match is_shown(c) {
            true => line.push(c),
            false => line.extend(c.escape_default()),
        }
        line
    })
}

fn address(out: &mut Vec<u8>, address: IpAddr) {
    let IpAddr::V4(v4) = address.to_canonical() else {
        let _ = write!(out, "{address}");
        return;
    };
    for (i, octet) in v4.octets().into_iter().enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        number(out, octet.into());
    }
}

/// Formats a time, given the HTTP date `Sat, 21 Nov 2026 10:00:00 GMT`, whose fields are at fixed positions, so that no
/// calendar arithmetic is needed.
fn time(format: Format, unix_s: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(unix_s)).unwrap_or(UNIX_EPOCH);
    let date = http::HttpDate::new(at);
    match format {
        Format::Combined => {
            let date = String::from_utf8_lossy(date.as_bytes());
            let (day, month, year, clock) = (&date[5..7], &date[8..11], &date[12..16], &date[17..25]);
            format!("{day}/{month}/{year}:{clock} +0000")
        }
        // Each line adds its own fraction of the second.
        Format::Json => date.iso().trim_end_matches('Z').into(),
    }
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21 10:00:00 UTC.
    const UNIX_S: u64 = 1_795_255_200;

    fn entry() -> Entry<'static> {
        Entry {
            remote: "198.18.0.7".parse().unwrap(),
            request: REQUEST,
            status: 200,
            sizes: Sizes { size: 2048, head: 300, body: 1024 },
            times: Times {
                logged: Duration::from_secs(UNIX_S),
                arrival: Duration::from_nanos(UNIX_S * 1_000_000_000 - 12_345_678),
                first_byte: Some(Nanos(1_000_002)),
                response: Nanos(12_345_678),
            },
            outcome: Outcome::Complete,
            reason: None,
            connection_reused: false,
            passed_on: None,
            class: None,
            ahead_bytes: None,
        }
    }

    const REQUEST: Requested<'_> = Requested {
        method: b"GET",
        target: b"/a%20b?q=1",
        version: (1, 1),
        referer: None,
        user_agent: Some(b"curl/8.5"),
        host: Some(b"a.test:80"),
        user: None,
    };

    fn line(format: Format, entry: &Entry<'_>) -> String {
        let mut out = Vec::new();
        Formatter::new(format).line(&mut out, entry);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn combined_line() {
        assert_eq!(
            line(Format::Combined, &entry()),
            "198.18.0.7 - - [21/Nov/2026:10:00:00 +0000] \"GET /a%20b?q=1 HTTP/1.1\" 200 1024 \"-\" \"curl/8.5\"\n"
        );
    }

    #[test]
    fn json_line() {
        assert_eq!(
            line(Format::Json, &entry()),
            "{\"start_time\":\"2026-11-21T09:59:59.987654322Z\",\"remote_addr\":\"198.18.0.7\",\"method\":\"GET\",\"uri\":\"/a%20b?q=1\",\"host\":\"a.test:80\",\
             \"protocol\":\"HTTP/1.1\",\"status\":200,\"content_length\":2048,\"head_bytes\":300,\"body_bytes\":1024,\
             \"first_byte_ms\":1.000002,\"duration_ms\":12.345678,\
             \"connection_reused\":false,\"outcome\":\"complete\",\"user_agent\":\"curl/8.5\"}\n"
        );
    }

    #[test]
    fn json_has_what_the_response_has() {
        let times = Times { first_byte: None, ..entry().times };
        let entry = Entry { connection_reused: true, class: Some("a \"b\""), ahead_bytes: Some(5), times, ..entry() };
        for (outcome, name) in
            [(Outcome::Incomplete, "incomplete"), (Outcome::Reset, "reset"), (Outcome::Wrong, "wrong")]
        {
            let line = line(Format::Json, &Entry { outcome, ..entry });
            let class = r#""connection_reused":true,"class":"a \"b\"","client_over_share_bytes":5"#;
            assert!(line.contains(&format!("{class},\"outcome\":\"{name}\"")), "{line}");
            assert!(line.contains("\"body_bytes\":1024,\"duration_ms\""), "{line}");
        }
    }

    #[test]
    fn nasty_bytes() {
        let request = Requested {
            method: b"G\"T",
            target: b"/\\\r\n\x1b[31m\x7f\xff\xc3\xa9",
            referer: Some(b"\" 200 0 \"-\"\n"),
            user_agent: Some(b"\0\xc2\x85"),
            ..REQUEST
        };
        let nasty = Entry { request, ..entry() };
        let combined = line(Format::Combined, &nasty);
        assert!(combined.contains(r#""G\x22T /\x5C\x0D\x0A\x1B[31m\x7F\xFF\xC3\xA9 HTTP/1.1""#), "{combined}");
        assert!(combined.ends_with("\"\\x22 200 0 \\x22-\\x22\\x0A\" \"\\x00\\xC2\\x85\"\n"), "{combined}");
        let json = line(Format::Json, &nasty);
        assert!(json.contains(r#""method":"G\"T","uri":"/\\\u000d\u000a\u001b[31m\u007f"#), "{json}");
        assert!(json.contains("\\u007f\u{fffd}\u{e9}\""), "{json}");
        assert!(json.contains(r#""referer":"\" 200 0 \"-\"\u000a","user_agent":"\u0000\u0085"}"#), "{json}");
    }

    /// A name in the common logs' third field has no quotes around it.
    #[test]
    fn names_of_users() {
        for (user, combined, json) in [
            (&b"ada"[..], "ada", "ada"),
            (b"", "-", ""),
            (b"ada lovelace ", "ada\\x20lovelace\\x20", "ada lovelace "),
            (b"a\" - [x\\", "a\\x22\\x20-\\x20[x\\x5C", "a\\\" - [x\\\\"),
            (b"\n\x1b[2J\0", "\\x0A\\x1B[2J\\x00", "\\u000a\\u001b[2J\\u0000"),
            ("\u{e9}\u{202e}".as_bytes(), "\\xC3\\xA9\\xE2\\x80\\xAE", "\u{e9}\\u202e"),
            (b"\xff", "\\xFF", "\u{fffd}"),
        ] {
            let entry = Entry { request: Requested { user: Some(user), ..REQUEST }, ..entry() };
            let found = line(Format::Combined, &entry);
            assert!(found.starts_with(&format!("198.18.0.7 - {combined} [21/Nov/2026:")), "{found}");
            let found = line(Format::Json, &entry);
            assert!(
                found.contains(&format!("\"remote_addr\":\"198.18.0.7\",\"remote_user\":\"{json}\",\"method\"")),
                "{found}"
            );
        }
    }

    #[test]
    fn a_request_that_could_not_be_read() {
        let request = Requested { method: b"", target: b"", user_agent: None, ..REQUEST };
        let unread = Entry { request, status: 400, ..entry() };
        assert!(line(Format::Combined, &unread).contains(" \"-\" 400 1024 \"-\" \"-\"\n"));
        assert!(line(Format::Json, &unread).contains("\"remote_addr\":\"198.18.0.7\",\"request\":\"\",\"status\":400"));
        let request = Requested { target: b"GET \"/a\xff", ..request };
        let refused = Entry { request, reason: Some("malformed request line"), ..unread };
        let combined = line(Format::Combined, &refused);
        assert!(combined.contains(r#" "GET \x22/a\xFF" 400 1024 "-" "-""#), "{combined}");
        let json = line(Format::Json, &refused);
        assert!(json.contains("\"request\":\"GET \\\"/a\u{fffd}\",\"status\":400"), "{json}");
        assert!(json.ends_with("\"outcome\":\"complete\",\"reason\":\"malformed request line\"}\n"), "{json}");
    }

    /// Direction overrides and isolates, line and paragraph separators, zero-width characters, tags.
    #[test]
    fn what_changes_the_text_around_it_is_escaped() {
        let codes = "\u{61c}\u{200b}\u{200e}\u{202a}\u{202e}\u{2066}\u{2069}\u{2028}\u{2029}\u{feff}\u{e0041}";
        let sent = Entry { request: Requested { user_agent: Some(codes.as_bytes()), ..REQUEST }, ..entry() };
        let escaped = r"\u061c\u200b\u200e\u202a\u202e\u2066\u2069\u2028\u2029\ufeff\udb40\udc41";
        let json = line(Format::Json, &sent);
        assert!(json.ends_with(&format!("\"user_agent\":\"{escaped}\"}}\n")), "{json}");
        assert!(line(Format::Combined, &sent).is_ascii());
        assert!(one_line(codes).is_ascii(), "{}", one_line(codes));
        let harmless = "a'\u{e9}\u{20ac}\u{1f600}\u{5d0}";
        let request = Requested { referer: Some(harmless.as_bytes()), ..REQUEST };
        assert!(line(Format::Json, &Entry { request, ..entry() }).contains(harmless));
        assert_eq!(one_line(harmless), harmless);
    }

    #[test]
    fn addresses() {
        for (remote, written) in
            [("2001:db8::1", "2001:db8::1 "), ("::ffff:198.18.0.9", "198.18.0.9 "), ("0.10.200.255", "0.10.200.255 ")]
        {
            let line = line(Format::Combined, &Entry { remote: remote.parse().unwrap(), ..entry() });
            assert!(line.starts_with(written), "{line}");
        }
    }

    #[test]
    fn the_time_follows_the_second() {
        let (mut formatter, mut out) = (Formatter::new(Format::Combined), Vec::new());
        for unix_s in [UNIX_S, UNIX_S, UNIX_S + 1, 951_827_696, 0, u64::MAX] {
            let times = Times { logged: Duration::from_secs(unix_s), ..entry().times };
            formatter.line(&mut out, &Entry { times, ..entry() });
        }
        let text = String::from_utf8(out).unwrap();
        let times: Vec<&str> = text.lines().map(|line| &line[line.find('[').unwrap() + 1..][..20]).collect();
        assert_eq!(times[..3], ["21/Nov/2026:10:00:00", "21/Nov/2026:10:00:00", "21/Nov/2026:10:00:01"]);
        assert_eq!(times[3..5], ["29/Feb/2000:12:34:56", "01/Jan/1970:00:00:00"]);
    }

    #[test]
    fn error_text_stays_one_line() {
        assert_eq!(one_line("a\nb\t\u{1b}[1m é"), "a\\nb\\t\\u{1b}[1m é");
    }
}
