//! Decides how to answer a request for a file: with all of it, with parts of it, or with 304 because the client already
//! has it.
//!
//! The order of the tests comes from RFC 9110 section 13.2.2 and matters: a failed If-Match must win over a matching
//! If-None-Match, and ranges are cut only from a representation that is about to be sent.

use std::ops::Range;
use std::time::SystemTime;

use crate::{Method, Request, date, range};

/// The file as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entity<'a> {
    pub len: u64,
    /// A strong tag with its quotes: `"5f-1a2b"`.
    pub etag: &'a str,
    /// The Last-Modified value that is sent; only its whole seconds count.
    pub last_modified: SystemTime,
    /// The time of the request; only a date in If-Range needs it.
    pub now: SystemTime,
}

/// The answer to a GET or HEAD that found its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// 200: the whole file.
    Whole,
    /// 206: a single range is sent as it is, several as multipart/byteranges, in the order requested. Never empty, at
    /// most [`crate::RANGES_MAX`]; no range is empty or extends beyond the entity.
    Ranges(Vec<Range<u64>>),
    /// 304.
    NotModified,
    /// 412.
    PreconditionFailed,
    /// 416, with `Content-Range: bytes */len`.
    RangeNotSatisfiable,
}

/// Evaluates the conditional fields and Range. They have no meaning for a file with methods other than GET and HEAD
/// (RFC 9110 section 13.2.1), so the result is then [`Verdict::Whole`].
pub fn evaluate(request: &Request, entity: &Entity) -> Verdict {
    if is_plain(request) {
        return Verdict::Whole;
    }
    if let Some(refused) = precondition(request, entity) {
        return refused;
    }
    match request.fields.range {
        // RFC 9110 section 14.2: Range applies to GET only.
        Some(value) if request.method == Method::Get && if_range_holds(request, entity) => {
            range::evaluate(value, entity.len)
        }
        _ => Verdict::Whole,
    }
}

/// Returns the tags that If-None-Match lists, each in its quotes and without a mark of weakness, since they are
/// compared without it (RFC 9110 section 13.1.2).
pub fn listed_tags<'a>(request: &Request<'a>) -> impl Iterator<Item = &'a [u8]> {
    let is_given = request.fields.if_none_match.is_some();
    let values = is_given.then(|| request.values("if-none-match")).into_iter().flatten();
    values.flat_map(tags).map(|(_, tag)| tag)
}

/// Returns the strong tags that If-Match lists, each in its quotes.
pub fn required_tags<'a>(request: &Request<'a>) -> impl Iterator<Item = &'a [u8]> {
    let is_given = request.fields.if_match.is_some();
    let values = is_given.then(|| request.values("if-match")).into_iter().flatten();
    values.flat_map(tags).filter(|(weak, _)| !weak).map(|(_, tag)| tag)
}

/// Returns true if no conditional field or Range applies, as for nearly every request.
fn is_plain(request: &Request) -> bool {
    let fields = &request.fields;
    let unconditional = fields.if_match.is_none()
        && fields.if_none_match.is_none()
        && fields.if_modified_since.is_none()
        && fields.if_unmodified_since.is_none()
        && fields.range.is_none();
    unconditional || !matches!(request.method, Method::Get | Method::Head)
}

/// Steps 1 to 4 of RFC 9110 section 13.2.2.
fn precondition(request: &Request, entity: &Entity) -> Option<Verdict> {
    let fields = &request.fields;
    let modified = last_modified(entity);
    let failed = if fields.if_match.is_some() {
        !request.values("if-match").any(|value| has_etag(value, entity.etag, Comparison::Strong))
    } else {
        // An invalid date is ignored (section 13.1.4).
        let since = fields.if_unmodified_since.and_then(date::parse);
        modified.zip(since).is_some_and(|(modified, since)| modified > since)
    };
    if failed {
        return Some(Verdict::PreconditionFailed);
    }
    let same = if fields.if_none_match.is_some() {
        request.values("if-none-match").any(|value| has_etag(value, entity.etag, Comparison::Weak))
    } else {
        let since = fields.if_modified_since.and_then(date::parse);
        modified.zip(since).is_some_and(|(modified, since)| modified <= since)
    };
    same.then_some(Verdict::NotModified)
}

/// Step 5: returns true if the parts that the client holds belong to the current file, or if there is no If-Range.
///
/// The comparison is strong: a weak tag never equals ours. A date must equal Last-Modified exactly; a later one is not
/// enough. A date is weak while its second lasts (RFC 9110 sections 13.1.5 and 8.8.2.2), because the file may change
/// twice in one second, so that the client's part has other bytes. Only the client can know whether its copy was made
/// in that second; it may send the date only if it was not, and if it has no tag. We always send a tag.
fn if_range_holds(request: &Request, entity: &Entity) -> bool {
    match request.fields.if_range {
        None => true,
        Some(tag) if tag.starts_with(b"\"") => tag == entity.etag.as_bytes(),
        Some(value) => {
            let is_strong = |&modified: &i64| date::seconds(entity.now) as i64 > modified;
            last_modified(entity).filter(is_strong).is_some_and(|modified| date::parse(value) == Some(modified))
        }
    }
}

/// Returns the Last-Modified that is sent: whole seconds since 1970. Without one, conditions with a date are ignored
/// (RFC 9110 sections 13.1.3 and 13.1.4).
fn last_modified(entity: &Entity) -> Option<i64> {
    date::is_known(entity.last_modified).then(|| date::seconds(entity.last_modified) as i64)
}

/// The two comparisons of RFC 9110 section 8.8.3.2. Our tags are strong, so only the client's may be weak.
#[derive(Clone, Copy, PartialEq)]
enum Comparison {
    Strong,
    Weak,
}

/// Returns true if a line of If-Match or If-None-Match is `*` or lists this tag.
fn has_etag(value: &[u8], etag: &str, comparison: Comparison) -> bool {
    let fits = |(weak, tag): (bool, &[u8])| tag == etag.as_bytes() && (!weak || comparison == Comparison::Weak);
    value == b"*" || tags(value).any(fits)
}

/// Returns the tags of a list, each with its quotes and with whether it is weak. A tag may contain commas, so the list
/// is read tag by tag; reading stops at the first member that is not a tag.
fn tags(value: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let mut rest = value;
    std::iter::from_fn(move || {
        while let [b' ' | b'\t' | b',', after @ ..] = rest {
            rest = after;
        }
        let (weak, quoted) = match rest.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, rest),
        };
        let (tag, after) = quoted.split_at(quoted_bytes(quoted)?);
        rest = after;
        Some((weak, tag))
    })
}

/// Returns the length of the quoted tag at the start of `value`, quotes included. Tags have no escapes.
fn quoted_bytes(value: &[u8]) -> Option<usize> {
    let inner = value.strip_prefix(b"\"")?;
    Some(inner.iter().position(|&b| b == b'"')? + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::http1::parse_request;
    use Verdict::{NotModified, PreconditionFailed, Whole};
    use std::time::{Duration, UNIX_EPOCH};

    const NOW: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    /// Returns the verdict on `method` with these field lines, for a file of 100 bytes with the tag `"v,1"`, changed in
    /// NOW.
    fn verdict(method: &str, lines: &[&str]) -> Verdict {
        verdict_at(Duration::from_secs(784_111_778), method, lines)
    }

    fn verdict_at(now: Duration, method: &str, lines: &[&str]) -> Verdict {
        let bytes = format!("{method} / HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", lines.join("\r\n"));
        let bytes = bytes.replace("\r\n\r\n\r\n", "\r\n\r\n");
        let request = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request;
        let last_modified = UNIX_EPOCH + Duration::from_millis(784_111_777_900);
        evaluate(&request, &Entity { len: 100, etag: "\"v,1\"", last_modified, now: UNIX_EPOCH + now })
    }

    fn part() -> Verdict {
        Verdict::Ranges(std::iter::once(0..10).collect())
    }

    #[test]
    fn single_conditions() {
        for (line, expected) in [
            ("X: y".into(), Whole),
            ("If-Match: *".into(), Whole),
            ("If-Match: \"v,1\"".into(), Whole),
            ("If-Match: \"a\", \"v,1\"".into(), Whole),
            ("If-Match: W/\"v,1\"".into(), PreconditionFailed),
            ("If-Match: \"a\"".into(), PreconditionFailed),
            ("If-Match: \"v\", \"1\"".into(), PreconditionFailed),
            ("If-Match:".into(), PreconditionFailed),
            ("If-Match: v,1".into(), PreconditionFailed),
            ("If-None-Match: *".into(), NotModified),
            ("If-None-Match: \"v,1\"".into(), NotModified),
            ("If-None-Match: W/\"v,1\"".into(), NotModified),
            ("If-None-Match: \"a\",,W/\"b\" , \"v,1\"".into(), NotModified),
            ("If-None-Match: \"a\"".into(), Whole),
            ("If-None-Match: w/\"v,1\"".into(), Whole),
            ("If-None-Match: \"v,1".into(), Whole),
            ("If-None-Match: \"a\", *".into(), Whole),
            (format!("If-Modified-Since: {NOW}"), NotModified),
            (format!("If-Modified-Since: {LATER}"), NotModified),
            (format!("If-Modified-Since: {EARLIER}"), Whole),
            ("If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT".into(), NotModified),
            ("If-Modified-Since: yesterday".into(), Whole),
            (format!("If-Modified-Since: {LATER}, {LATER}"), Whole),
            (format!("If-Unmodified-Since: {NOW}"), Whole),
            (format!("If-Unmodified-Since: {EARLIER}"), PreconditionFailed),
            ("If-Unmodified-Since: 0".into(), Whole),
            ("If-Unmodified-Since: Sun, 06 Nov 1904 08:49:37 GMT".into(), PreconditionFailed),
            ("If-Unmodified-Since: Sun, 06 Nov 1994 08:48:60 GMT".into(), PreconditionFailed),
            ("If-Modified-Since: Sun, 06 Nov 1904 08:49:37 GMT".into(), Whole),
            ("If-Modified-Since: Sun, 06 Nov 1994 08:49:60 GMT".into(), NotModified),
        ] {
            let line: String = line;
            assert_eq!(verdict("GET", &[&line]), expected, "{line}");
            assert_eq!(verdict("HEAD", &[&line]), expected, "HEAD {line}");
            assert_eq!(verdict("OPTIONS", &[&line]), Whole, "OPTIONS {line}");
        }
    }

    fn of_1970(seconds: u64, lines: &str) -> Verdict {
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n");
        let request = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request;
        let (last_modified, now) = (UNIX_EPOCH + Duration::from_secs(seconds), UNIX_EPOCH + Duration::from_secs(99));
        evaluate(&request, &Entity { len: 100, etag: "\"v\"", last_modified, now })
    }

    /// An earlier date, even one before 1970, must compare as earlier, not as equal.
    #[test]
    fn a_file_from_the_first_seconds_of_1970() {
        assert_eq!(of_1970(2, "If-Modified-Since: Wed, 31 Dec 1969 23:59:59 GMT"), Whole);
        assert_eq!(of_1970(2, "If-Unmodified-Since: Wed, 31 Dec 1969 23:59:59 GMT"), PreconditionFailed);
        assert_eq!(of_1970(2, "If-Modified-Since: Thu, 01 Jan 1970 00:00:02 GMT"), NotModified);
    }

    /// All versions of a file in a store of Nix have the same time, so a client's copy may be another version.
    #[test]
    fn a_time_that_says_nothing_meets_no_condition() {
        for seconds in [0, 1] {
            let same = format!("Thu, 01 Jan 1970 00:00:0{seconds} GMT");
            assert_eq!(of_1970(seconds, &format!("If-Modified-Since: {same}")), Whole);
            assert_eq!(of_1970(seconds, "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"), Whole);
            assert_eq!(of_1970(seconds, "If-Unmodified-Since: Wed, 31 Dec 1969 23:59:59 GMT"), Whole);
            assert_eq!(of_1970(seconds, &format!("Range: bytes=0-9\r\nIf-Range: {same}")), Whole);
        }
    }

    #[test]
    fn conditions_in_their_order() {
        let since = |name: &str, date: &str| format!("If-{name}-Since: {date}");
        for (lines, expected) in [
            // If-Match overrides If-Unmodified-Since, and is evaluated before If-None-Match.
            (vec!["If-Match: \"v,1\"".to_owned(), since("Unmodified", EARLIER)], Whole),
            (vec!["If-Match: \"a\"".to_owned(), "If-None-Match: \"v,1\"".to_owned()], PreconditionFailed),
            (vec![since("Unmodified", EARLIER), "If-None-Match: \"v,1\"".to_owned()], PreconditionFailed),
            // If-None-Match overrides If-Modified-Since.
            (vec!["If-None-Match: \"a\"".to_owned(), since("Modified", LATER)], Whole),
            (vec!["If-None-Match: \"v,1\"".to_owned(), since("Modified", EARLIER)], NotModified),
            // Both take precedence over ranges.
            (vec!["If-None-Match: \"v,1\"".to_owned(), "Range: bytes=0-9".to_owned()], NotModified),
            (vec!["If-Match: \"v,1\"".to_owned(), "Range: bytes=0-9".to_owned()], part()),
            // Lists may be spread over several lines; dates may not be repeated.
            (vec!["If-None-Match: \"a\"".to_owned(), "If-None-Match: \"v,1\"".to_owned()], NotModified),
            (vec![since("Modified", LATER), since("Modified", LATER)], Whole),
            (vec![since("Unmodified", EARLIER), since("Unmodified", EARLIER)], Whole),
        ] {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            assert_eq!(verdict("GET", &lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn if_range() {
        for (value, expected) in [
            ("\"v,1\"", part()),
            ("W/\"v,1\"", Whole),
            ("\"a\"", Whole),
            ("\"a\", \"v,1\"", Whole),
            ("*", Whole),
            ("", Whole),
            (NOW, part()),
            (LATER, Whole),
            (EARLIER, Whole),
        ] {
            let line = format!("If-Range: {value}");
            assert_eq!(verdict("GET", &[&line, "Range: bytes=0-9"]), expected, "{value}");
        }
        // Within its second a date is weak, and so is a date before a clock that was set back; a tag is always strong.
        for (ms, expected) in [(784_111_776_000, Whole), (784_111_777_999, Whole), (784_111_778_000, part())] {
            let of = |value: &str| {
                verdict_at(Duration::from_millis(ms), "GET", &[&format!("If-Range: {value}"), "Range: bytes=0-9"])
            };
            assert_eq!((of(NOW), of("\"v,1\"")), (expected, part()), "{ms}");
        }
        assert_eq!(verdict("GET", &["If-Range: \"v,1\""]), Whole);
        assert_eq!(verdict("GET", &["If-Range: \"v,1\"", "If-Range: \"v,1\"", "Range: bytes=0-9"]), Whole);
        assert_eq!(verdict("GET", &["If-Range: \"a\"", "Range: bytes=100-"]), Whole);
    }

    #[test]
    fn ranges_are_for_get_and_given_once() {
        assert_eq!(verdict("GET", &["Range: bytes=0-9"]), part());
        assert_eq!(verdict("HEAD", &["Range: bytes=0-9"]), Whole);
        assert_eq!(verdict("GET", &["Range: bytes=0-9", "Range: bytes=0-9"]), Whole);
        assert_eq!(verdict("GET", &["Range: bytes=100-"]), Verdict::RangeNotSatisfiable);
    }
}
