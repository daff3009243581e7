//! Common log format, `host ident user [time] "request" status bytes`, and formats that begin in the same way
//! (combined).
//!
//! Old logs contain unescaped quotes and arbitrary bytes in the request, and a user may contain spaces and brackets.
//! Neither field is therefore split at its delimiter. The time is the first bracket that contains a date, and the
//! request ends at the first quote that is followed by a status, a size, and nothing or another quoted field.

use units::Nanos;

use super::{Reason, size, status};
use crate::{Request, calendar};

/// `09/Jul/1995:00:00:00 -0400`
const TIME_BYTES: usize = 26;

pub(super) fn parse_line(line: &[u8]) -> Result<Request, Reason> {
    let (second, rest) = time(line).ok_or("there is no time like [09/Jul/1995:00:00:00 -0400]")?;
    let request = rest.strip_prefix(b" \"").ok_or("no quoted request follows the time")?;
    let quotes = (0..request.len()).filter(|&at| request[at] == b'"');
    let found = quotes.flat_map(|at| after_request(&request[at + 1..])).next();
    let (code, bytes) = found.ok_or("no status and size follow the quoted request")?;
    Ok(Request { at: Nanos::from_secs(second), size_bytes: size(bytes)?, status: Some(status(code)?), client: None })
}

/// Returns the host of a line. In Apache's `other_vhosts_access.log` the site and its port come first.
pub(super) fn host(line: &[u8]) -> Option<&[u8]> {
    let mut fields = line.split(|&byte| byte == b' ');
    let first = fields.next()?;
    if is_site(first) { fields.next() } else { Some(first) }
}

/// Returns true for `example.org:443`; an IPv6 address has more colons.
fn is_site(field: &[u8]) -> bool {
    let mut parts = field.split(|&byte| byte == b':');
    let (name, port, more) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let is_port = |port: &[u8]| calendar::number(port).is_some_and(|port| port <= u64::from(u16::MAX));
    !name.is_empty() && port.is_some_and(is_port) && more.is_none()
}

/// Returns the first bracketed time and the rest of the line after its bracket.
fn time(line: &[u8]) -> Option<(u64, &[u8])> {
    let brackets = (0..line.len()).filter(|&at| line[at] == b'[');
    brackets.flat_map(|at| bracketed(&line[at + 1..])).next()
}

fn bracketed(text: &[u8]) -> Option<(u64, &[u8])> {
    let (inside, rest) = text.split_at_checked(TIME_BYTES)?;
    let (date, clock, zone) = (&inside[..11], &inside[12..20], &inside[20..]);
    if inside[11] != b':' || rest.first() != Some(&b']') {
        return None;
    }
    let local = calendar::parse_log_time(date, clock)?;
    let [b' ', sign, h0, h1, m0, m1] = *zone else { return None };
    let (hours, minutes) = (calendar::number(&[h0, h1])?, calendar::number(&[m0, m1])?);
    let offset = hours * 3600 + minutes * 60;
    let utc = match sign {
        b'+' => local.checked_sub(offset)?,
        b'-' => local + offset,
        _ => return None,
    };
    Some((utc, &rest[1..]))
}

/// Returns status and size, if they follow the quote that ends a request.
fn after_request(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut fields = text.strip_prefix(b" ")?.splitn(3, |&byte| byte == b' ');
    let (code, bytes, more) = (fields.next()?, fields.next()?, fields.next());
    let ends = more.is_none_or(|more| more.starts_with(b"\""));
    // A size that is too large is reported as such.
    let is_size = size(bytes).is_ok() || bytes.iter().all(u8::is_ascii_digit);
    (ends && status(code).is_ok() && is_size && !bytes.is_empty()).then_some((code, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        // 805,262,400 is 1995-07-09T04:00:00Z.
        for (line, at_s, size_bytes, status) in [
            (&b"ppp.ca - - [09/Jul/1995:00:00:00 -0400] \"GET /a HTTP/1.0\" 200 85465"[..], 805_262_400, 85465, 200),
            (b"h - - [09/Jul/1995:06:00:01 +0200] \"GET /a\" 304 -", 805_262_401, 0, 304),
            (b"h - - [09/Jul/1995:00:00:00 -0400] \"GET /say\"hi\".gif HTTP/1.0\" 404 -", 805_262_400, 0, 404),
            (b"h - - [09/Jul/1995:00:00:00 -0400] \"GET /a\" 200 5 b HTTP/1.0\" 200 7", 805_262_400, 7, 200),
            (b"h - - [09/Jul/1995:00:00:00 -0400] \"GET /\xe9\xff HTTP/1.0\" 200 7", 805_262_400, 7, 200),
            (b"h - a [b] c [09/Jul/1995:00:00:00 -0400] \"-\" 408 0", 805_262_400, 0, 408),
            (
                b"::1 - bob [09/Jul/1995:00:00:00 -0400] \"GET / HTTP/1.1\" 200 612 \"-\" \"curl \\\"7\\\" 200 9\" 0.003",
                805_262_400,
                612,
                200,
            ),
        ] {
            let request = Request { at: Nanos::from_secs(at_s), size_bytes, status: Some(status), client: None };
            assert_eq!(parse_line(line), Ok(request), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn the_host_is_the_client() {
        for (line, client) in [
            (&b"192.0.2.1 - - [..."[..], &b"192.0.2.1"[..]),
            (b"example.org:443 192.0.2.1 - - [...", b"192.0.2.1"),
            (b"2001:db8::1 - bob [...", b"2001:db8::1"),
            (b"::1 - - [...", b"::1"),
            (b"h:p - - [...", b"h:p"),
        ] {
            assert_eq!(host(line), Some(client));
        }
    }

    #[test]
    fn bad_lines_say_why() {
        for (line, why) in [
            (&b"h - - [09/Jul/1995:00:00:00 -0400] \"GET /\" 200 1125899906842625"[..], "up to 1 PiB"),
            (b"h - - [09/Jul/1995:00:00:00] \"GET /\" 200 5", "no time"),
            (b"h - - [09/Jly/1995:00:00:00 -0400] \"GET /\" 200 5", "no time"),
            (b"h - - [09/Jul/1995:00:00:00 -0400] GET / 200 5", "no quoted request"),
            (b"h - - [09/Jul/1995:00:00:00 -0400] \"GET / 200 5", "no status and size"),
            (b"h - - [09/Jul/1995:00:00:00 -0400] \"GET /\" 200", "no status and size"),
            (b"h - - [09/Jul/1995:00:00:00 -0400] \"GET /\" abc 5", "no status and size"),
        ] {
            let said = parse_line(line).unwrap_err();
            assert!(said.contains(why), "{}: {said}", String::from_utf8_lossy(line));
        }
    }
}
