//! One response as one line: the combined format that every log tool reads, or JSON with what that has no room for.
//!
//! Much of a line is chosen by the peer. Nothing a peer sends may end the line, end a quoted field, reach a terminal as
//! a control sequence or change the order in which it shows text: combined writes such bytes as `\xHH`, as nginx does,
//! JSON by its own rules.
//! Formatting is by hand because it is paid for on every request.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, UNIX_EPOCH};

use units::Nanos;

/// How a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `remote - - [time] "request" status bytes "referer" "user agent"`, times in UTC.
    Combined,
    /// One object a line; times in UTC, response time in milliseconds.
    Json,
}

/// One response, as it is logged when the last byte has been handed to the kernel or the connection has failed.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub remote: SocketAddr,
    /// Seconds since 1970.
    pub unix_s: u64,
    /// Empty if no request line was received.
    pub method: &'a [u8],
    /// As the request had it, with the query; without a method, what was received instead of a request line.
    pub target: &'a [u8],
    /// Of HTTP: major and minor.
    pub version: (u8, u8),
    pub status: u16,
    /// Of the body, handed to the kernel.
    pub body_bytes: u64,
    /// What the client has had beyond its share of the link, where clients share it; JSON only.
    pub ahead_bytes: Option<u64>,
    pub referer: Option<&'a [u8]>,
    pub user_agent: Option<&'a [u8]>,
    /// From the end of the request head to the last byte handed to the kernel.
    pub response_time: Nanos,
    /// How it ended: `complete`, or `cut` before the last byte; JSON only.
    pub outcome: &'static str,
    /// Why the request was refused; JSON only.
    pub reason: Option<&'static str>,
}

/// Writes lines of one format; remembers the second it last wrote.
#[derive(Debug, Clone)]
pub(super) struct Formatter {
    format: Format,
    unix_s: u64,
    /// `21/Nov/2026:10:00:00 +0000` or `2026-11-21T10:00:00Z`.
    time: String,
}

impl Formatter {
    pub(super) fn new(format: Format) -> Formatter {
        Formatter { format, unix_s: 0, time: time(format, 0) }
    }

    pub(super) fn line(&mut self, out: &mut Vec<u8>, entry: &Entry<'_>) {
        if entry.unix_s != self.unix_s {
            self.unix_s = entry.unix_s;
            self.time = time(self.format, entry.unix_s);
        }
        match self.format {
            Format::Combined => combined(out, entry, &self.time),
            Format::Json => json(out, entry, &self.time),
        }
    }
}

fn combined(out: &mut Vec<u8>, entry: &Entry<'_>, time: &str) {
    address(out, entry.remote.ip());
    out.extend_from_slice(b" - - [");
    out.extend_from_slice(time.as_bytes());
    out.extend_from_slice(b"] \"");
    if entry.method.is_empty() {
        escape_combined(out, if entry.target.is_empty() { b"-" } else { entry.target });
    } else {
        escape_combined(out, entry.method);
        out.push(b' ');
        escape_combined(out, entry.target);
        out.extend_from_slice(b" HTTP/");
        version(out, entry.version);
    }
    out.extend_from_slice(b"\" ");
    number(out, entry.status.into());
    out.push(b' ');
    number(out, entry.body_bytes);
    for field in [entry.referer, entry.user_agent] {
        out.extend_from_slice(b" \"");
        escape_combined(out, field.unwrap_or(b"-"));
        out.push(b'"');
    }
    out.push(b'\n');
}

fn version(out: &mut Vec<u8>, (major, minor): (u8, u8)) {
    number(out, major.into());
    out.push(b'.');
    number(out, minor.into());
}

fn json(out: &mut Vec<u8>, entry: &Entry<'_>, time: &str) {
    out.extend_from_slice(b"{\"time\":\"");
    out.extend_from_slice(time.as_bytes());
    out.extend_from_slice(b"\",\"remote\":\"");
    address(out, entry.remote.ip());
    out.push(b'"');
    if entry.method.is_empty() {
        json_text(out, "request", entry.target);
    } else {
        json_text(out, "method", entry.method);
        json_text(out, "target", entry.target);
        out.extend_from_slice(b",\"version\":\"");
        version(out, entry.version);
        out.push(b'"');
    }
    out.extend_from_slice(b",\"status\":");
    number(out, entry.status.into());
    out.extend_from_slice(b",\"body_bytes\":");
    number(out, entry.body_bytes);
    out.extend_from_slice(b",\"response_time_ms\":");
    milliseconds(out, entry.response_time);
    if let Some(bytes) = entry.ahead_bytes {
        out.extend_from_slice(b",\"client_ahead_bytes\":");
        number(out, bytes);
    }
    json_text(out, "outcome", entry.outcome.as_bytes());
    if let Some(reason) = entry.reason {
        json_text(out, "reason", reason.as_bytes());
    }
    if let Some(referer) = entry.referer {
        json_text(out, "referer", referer);
    }
    if let Some(user_agent) = entry.user_agent {
        json_text(out, "user_agent", user_agent);
    }
    out.extend_from_slice(b"}\n");
}

fn json_text(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":\"");
    escape_json(out, value);
    out.push(b'"');
}

/// Everything but printable ASCII, the quote and the backslash as `\xHH`.
fn escape_combined(out: &mut Vec<u8>, mut text: &[u8]) {
    loop {
        let plain = text.iter().position(|byte| !is_plain(byte)).unwrap_or(text.len());
        out.extend_from_slice(&text[..plain]);
        let Some(byte) = text.get(plain) else { return };
        let _ = write!(out, "\\x{byte:02X}");
        text = &text[plain + 1..];
    }
}

/// The same in every format.
fn is_plain(&byte: &u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

/// RFC 8259 section 7; bytes that are not UTF-8 become U+FFFD, as JSON has no way to write them.
fn escape_json(out: &mut Vec<u8>, text: &[u8]) {
    // Nearly always all of it; looking at bytes is several times as fast as at characters.
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

/// Whether a character is seen as itself wherever text is shown: no control character, nor one that changes the order of
/// others (U+202E), their line (U+2028) or nothing that can be seen (U+200B). Rust's own escapes know these.
fn is_shown(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\') || c.escape_debug().len() == 1
}

/// Text for standard error: what cannot be seen as Rust escapes it, so that it stays one line.
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

/// Rounded down to microseconds: `12.345`.
fn milliseconds(out: &mut Vec<u8>, time: Nanos) {
    let micros = time.0 / 1000;
    number(out, micros / 1000);
    out.push(b'.');
    out.extend([100, 10, 1].map(|unit| b'0' + (micros / unit % 10) as u8));
}

/// Takes the HTTP date `Sat, 21 Nov 2026 10:00:00 GMT` apart: its parts have fixed places and it knows the calendar.
fn time(format: Format, unix_s: u64) -> String {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(unix_s)).unwrap_or(UNIX_EPOCH);
    let date = http::HttpDate::new(at);
    let date = String::from_utf8_lossy(date.as_bytes());
    let (day, month, year, clock) = (&date[5..7], &date[8..11], &date[12..16], &date[17..25]);
    match format {
        Format::Combined => format!("{day}/{month}/{year}:{clock} +0000"),
        Format::Json => {
            let month = MONTHS.find(month).map_or(0, |place| place / 3 + 1);
            format!("{year}-{month:02}-{day}T{clock}Z")
        }
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
            remote: "198.18.0.7:4711".parse().unwrap(),
            unix_s: UNIX_S,
            method: b"GET",
            target: b"/a%20b?q=1",
            version: (1, 1),
            status: 200,
            body_bytes: 1024,
            ahead_bytes: None,
            referer: None,
            user_agent: Some(b"curl/8.5"),
            response_time: Nanos(12_345_678),
            outcome: "complete",
            reason: None,
        }
    }

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
            "{\"time\":\"2026-11-21T10:00:00Z\",\"remote\":\"198.18.0.7\",\"method\":\"GET\",\"target\":\"/a%20b?q=1\",\
             \"version\":\"1.1\",\"status\":200,\"body_bytes\":1024,\"response_time_ms\":12.345,\"outcome\":\"complete\",\
             \"user_agent\":\"curl/8.5\"}\n"
        );
    }

    #[test]
    fn nasty_bytes() {
        let nasty = Entry {
            method: b"G\"T",
            target: b"/\\\r\n\x1b[31m\x7f\xff\xc3\xa9",
            referer: Some(b"\" 200 0 \"-\"\n"),
            user_agent: Some(b"\0\xc2\x85"),
            ..entry()
        };
        let combined = line(Format::Combined, &nasty);
        assert!(combined.contains(r#""G\x22T /\x5C\x0D\x0A\x1B[31m\x7F\xFF\xC3\xA9 HTTP/1.1""#), "{combined}");
        assert!(combined.ends_with("\"\\x22 200 0 \\x22-\\x22\\x0A\" \"\\x00\\xC2\\x85\"\n"), "{combined}");
        let json = line(Format::Json, &nasty);
        assert!(json.contains(r#""method":"G\"T","target":"/\\\u000d\u000a\u001b[31m\u007f"#), "{json}");
        assert!(json.contains("\\u007f\u{fffd}\u{e9}\""), "{json}");
        assert!(json.contains(r#""referer":"\" 200 0 \"-\"\u000a","user_agent":"\u0000\u0085"}"#), "{json}");
    }

    #[test]
    fn a_request_that_could_not_be_read() {
        let unread = Entry { method: b"", target: b"", status: 400, user_agent: None, ..entry() };
        assert!(line(Format::Combined, &unread).contains(" \"-\" 400 1024 \"-\" \"-\"\n"));
        assert!(line(Format::Json, &unread).contains("\"remote\":\"198.18.0.7\",\"request\":\"\",\"status\":400"));
        let refused = Entry { target: b"GET \"/a\xff", reason: Some("malformed request line"), ..unread };
        let combined = line(Format::Combined, &refused);
        assert!(combined.contains(r#" "GET \x22/a\xFF" 400 1024 "-" "-""#), "{combined}");
        let json = line(Format::Json, &refused);
        assert!(json.contains("\"request\":\"GET \\\"/a\u{fffd}\",\"status\":400"), "{json}");
        assert!(json.ends_with("\"outcome\":\"complete\",\"reason\":\"malformed request line\"}\n"), "{json}");
    }

    /// Overrides and isolates of direction, line and paragraph separators, what has no width, tags.
    #[test]
    fn what_changes_the_text_around_it_is_escaped() {
        let codes = "\u{61c}\u{200b}\u{200e}\u{202a}\u{202e}\u{2066}\u{2069}\u{2028}\u{2029}\u{feff}\u{e0041}";
        let sent = Entry { user_agent: Some(codes.as_bytes()), ..entry() };
        let escaped = r"\u061c\u200b\u200e\u202a\u202e\u2066\u2069\u2028\u2029\ufeff\udb40\udc41";
        let json = line(Format::Json, &sent);
        assert!(json.ends_with(&format!("\"user_agent\":\"{escaped}\"}}\n")), "{json}");
        assert!(line(Format::Combined, &sent).is_ascii());
        assert!(one_line(codes).is_ascii(), "{}", one_line(codes));
        let harmless = "a'\u{e9}\u{20ac}\u{1f600}\u{5d0}";
        let ahead = line(Format::Json, &Entry { ahead_bytes: Some(5), ..entry() });
        assert!(ahead.contains(",\"client_ahead_bytes\":5,\"outcome\""), "{ahead}");
        assert!(line(Format::Json, &Entry { referer: Some(harmless.as_bytes()), ..entry() }).contains(harmless));
        assert_eq!(one_line(harmless), harmless);
    }

    #[test]
    fn addresses() {
        for (remote, written) in [
            ("[2001:db8::1]:80", "2001:db8::1 "),
            ("[::ffff:198.18.0.9]:80", "198.18.0.9 "),
            ("0.10.200.255:1", "0.10.200.255 "),
        ] {
            let line = line(Format::Combined, &Entry { remote: remote.parse().unwrap(), ..entry() });
            assert!(line.starts_with(written), "{line}");
        }
    }

    #[test]
    fn the_time_follows_the_second() {
        let (mut formatter, mut out) = (Formatter::new(Format::Combined), Vec::new());
        for unix_s in [UNIX_S, UNIX_S, UNIX_S + 1, 951_827_696, 0, u64::MAX] {
            formatter.line(&mut out, &Entry { unix_s, ..entry() });
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
