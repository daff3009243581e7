//! The path of a request for an upstream program, as seen by the rules of a site. The program gets the path as it came,
//! and programs read the same path in different ways: `/a%2Fb` is one segment or two, `//a` is `/a` if empty segments
//! are merged, `/a;x` is `/a` to a servlet container.
//!
//! A rule that matches one reading and not another can be bypassed. The program's reading is unknown, so none is
//! preferred: a decision counts only if it is the same for all readings. (Files have a single reading:
//! [`crate::decode_path`].)

use std::borrow::Cow;
use std::ops::Range;

use crate::Reject;

/// All readings of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readings<'a> {
    raw: &'a [u8],
    plain: Cow<'a, [u8]>,
    doubts: Doubts,
}

/// A set of steps that some programs take after the first decoding and others do not; each step is a bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Doubts(u16);

/// Some programs treat an encoded slash as a separator.
const SLASH: Doubts = Doubts(1);
/// The path is decoded repeatedly until no escape is left.
const AGAIN: Doubts = Doubts(1 << 1);
/// Overlong forms of UTF-8 (RFC 3629 section 10) and `%uXXXX` are ASCII characters.
const OVERLONG: Doubts = Doubts(1 << 2);
/// The path ends before NUL.
const NUL: Doubts = Doubts(1 << 3);
/// A backslash is a separator.
const BACKSLASH: Doubts = Doubts(1 << 4);
/// A segment ends before `;` (RFC 3986 section 3.3).
const PARAMETERS: Doubts = Doubts(1 << 5);
/// Dots, spaces and control characters at the end of a segment are dropped.
const TRAILING: Doubts = Doubts(1 << 6);
/// Empty segments are dropped.
const EMPTY: Doubts = Doubts(1 << 7);
/// Dot segments are resolved (RFC 3986 section 5.2.4).
const DOTS: Doubts = Doubts(1 << 8);

/// The maximum number of doubts evaluated, which gives 16 readings. For a path with more doubts, no decision is agreed.
const DOUBTS_MAX: u32 = 4;

impl Doubts {
    fn has(self, other: Doubts) -> bool {
        self.0 & other.0 != 0
    }

    fn and(self, other: Doubts, is_meant: bool) -> Doubts {
        if is_meant { Doubts(self.0 | other.0) } else { self }
    }

    /// Iterates over all subsets, the empty one first.
    fn subsets(self) -> impl Iterator<Item = Doubts> {
        std::iter::successors(Some(0u16), move |&last| match last.wrapping_sub(self.0) & self.0 {
            0 => None,
            next => Some(next),
        })
        .map(Doubts)
    }
}

impl<'a> Readings<'a> {
    /// Returns the readings of `raw` (as in [`crate::Request::path`]). Refuses a path that does not begin with a slash,
    /// and one with a dot segment, even after an encoded slash: clients resolve these before sending (RFC 3986 section
    /// 5.2.4).
    pub fn of(raw: &'a [u8]) -> Result<Readings<'a>, Reject> {
        if !raw.starts_with(b"/") {
            return Err(Reject::bad("path does not begin with a slash"));
        }
        if is_plain(raw) {
            return Ok(Readings { raw, plain: raw.into(), doubts: Doubts::default() });
        }
        let split = decode(raw, SLASH);
        if split.split(|&byte| byte == b'/').any(|segment| matches!(segment, b"." | b"..")) {
            return Err(Reject::bad("dot segment in path"));
        }
        let plain = decode(raw, Doubts::default());
        let doubts = doubts(raw, &plain, &split);
        Ok(Readings { raw, plain: plain.into(), doubts })
    }

    /// Returns the path decoded once, with its leading slash. An encoded slash stays `%2F`, and a percent sign that two
    /// hex digits do not follow stays unchanged.
    pub fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// Returns the undecoded path, without empty segments.
    pub fn merged(&self) -> Cow<'a, [u8]> {
        merge_slashes(self.raw).map_or(self.raw.into(), Cow::Owned)
    }

    /// Returns the undecoded part of the path that corresponds to this range of [`Readings::plain`]. Returns `None` if
    /// the range splits an encoded slash or is not within the path.
    pub fn raw_part(&self, plain: Range<usize>) -> Option<&'a [u8]> {
        self.raw.get(self.raw_offset(plain.start)?..self.raw_offset(plain.end)?)
    }

    /// Returns the offset in the undecoded path of this offset in [`Readings::plain`].
    fn raw_offset(&self, plain: usize) -> Option<usize> {
        let (mut at, mut decoded) = (0, 0);
        while decoded < plain {
            let (raw_bytes, plain_bytes) = match escaped(self.raw.get(at..)?) {
                Some(b'/') => (3, 3),
                Some(_) => (3, 1),
                None => (1, 1),
            };
            (at, decoded) = (at + raw_bytes, decoded + plain_bytes);
        }
        (decoded == plain).then_some(at)
    }

    /// Returns true if there is more than one reading.
    pub fn are_several(&self) -> bool {
        self.doubts != Doubts::default()
    }

    /// Returns true if the undecoded path has an empty segment.
    pub fn has_empty_segment(&self) -> bool {
        merge_slashes(self.raw).is_some()
    }

    /// Returns true if the readings differ only by empty segments.
    pub fn are_unmerged(&self) -> bool {
        self.doubts == EMPTY
    }

    /// Returns the result of `decide` if it is the same for every reading. `None` if results differ, or if there are
    /// more than 16 readings.
    pub fn agreed<T: PartialEq>(&self, decide: impl Fn(&[u8]) -> T) -> Option<T> {
        let first = decide(&self.plain);
        if self.doubts.0.count_ones() > DOUBTS_MAX {
            return None;
        }
        let mut others = self.doubts.subsets().skip(1).map(|steps| reading(self.raw, steps));
        others.all(|path| decide(&path) == first).then_some(first)
    }
}

/// Removes a decoded prefix from a raw path, and leaves the rest of the path undecoded. The prefix begins with a slash
/// and ends without one. The result begins with a slash. Returns `None` if the path is not below the prefix.
pub fn strip_prefix<'a>(raw: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let readings = Readings::of(raw).ok()?;
    let plain = readings.plain();
    let is_below = plain.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(b"/"));
    if is_below { readings.raw_part(prefix.len()..plain.len()) } else { None }
}

/// Replaces each run of slashes with one, without decoding. Returns `None` if there is no run.
pub fn merge_slashes(raw: &[u8]) -> Option<Vec<u8>> {
    if !raw.windows(2).any(|pair| pair == b"//") {
        return None;
    }
    let mut merged = raw.to_vec();
    merged.dedup_by(|byte, before| *byte == b'/' && *before == b'/');
    Some(merged)
}

/// Returns the path without empty segments and with its dot segments resolved, including encoded ones (RFC 3986 section
/// 5.2.4); the rest is unchanged. `None` if there are no such segments, or if they lead out of the root.
pub fn resolved(raw: &[u8]) -> Option<Vec<u8>> {
    let may_differ = |pair: &[u8]| pair[0] == b'/' && matches!(pair[1], b'/' | b'.' | b'%');
    if !raw.windows(2).any(may_differ) {
        return None;
    }
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut left = raw.strip_prefix(b"/")?.split(|&byte| byte == b'/').peekable();
    while let Some(segment) = left.next() {
        let is_last = left.peek().is_none();
        match &decode(segment, Doubts::default())[..] {
            b".." => _ = segments.pop()?,
            b"" | b"." => {}
            _ => {
                segments.push(segment);
                continue;
            }
        }
        // The result still names a folder.
        segments.extend(is_last.then_some(&b""[..]));
    }
    let path = slashed(&segments, raw.len());
    (path != raw).then_some(path)
}

/// Returns the path with these segments.
fn slashed(segments: &[&[u8]], capacity: usize) -> Vec<u8> {
    segments.iter().fold(Vec::with_capacity(capacity), |mut path, segment| {
        path.push(b'/');
        path.extend_from_slice(segment);
        path
    })
}

/// Returns true if the path has only one reading and nothing in it is encoded.
fn is_plain(raw: &[u8]) -> bool {
    let is_doubtful = |b: u8| matches!(b, b'%' | b';' | b'\\') || b <= b' ' || b >= 0x7f;
    let ends = raw.windows(2).any(|pair| pair[1] == b'/' && matches!(pair[0], b'/' | b'.'));
    !ends && !raw.ends_with(b".") && !raw.iter().any(|&b| is_doubtful(b))
}

/// Returns the doubts about a path: each step that can change it after some of the previous steps, and a few more,
/// which cost only a second check.
fn doubts(raw: &[u8], plain: &[u8], split: &[u8]) -> Doubts {
    let (again, all) = (decode(raw, AGAIN), decode(raw, Doubts(AGAIN.0 | SLASH.0)));
    let decoded = without_overlong(&all);
    let mut doubts = Doubts::default()
        .and(SLASH, plain != split || again != all)
        .and(AGAIN, plain != again || split != all)
        .and(OVERLONG, decoded != all || without_overlong(split) != split)
        .and(NUL, decoded.contains(&0))
        .and(BACKSLASH, decoded.contains(&b'\\'))
        .and(PARAMETERS, decoded.contains(&b';'));
    let ends_segment = |byte: &u8| matches!(byte, b'/' | b'\\' | b';' | 0);
    let is_left_out = |byte: u8| byte == b'.' || is_space(byte);
    let is_end = |pair: &[u8]| is_left_out(pair[0]) && ends_segment(&pair[1]);
    doubts =
        doubts.and(TRAILING, decoded.windows(2).any(is_end) || decoded.last().is_some_and(|&last| is_left_out(last)));
    for segment in decoded.split(ends_segment) {
        doubts = doubts.and(DOTS, matches!(trimmed(segment), b"." | b".."));
    }
    let mut segments = decoded[1..].split(|byte| matches!(byte, b'/' | b'\\' | 0)).peekable();
    while let Some(segment) = segments.next() {
        let named = segment.split(|&byte| byte == b';').next().unwrap_or_default();
        doubts = doubts.and(EMPTY, trimmed(named).is_empty() && segments.peek().is_some());
    }
    doubts
}

/// Returns one reading: applies these steps in order.
fn reading(raw: &[u8], steps: Doubts) -> Vec<u8> {
    let mut path = decode(raw, steps);
    if steps.has(OVERLONG) {
        path = without_overlong(&path);
    }
    if steps.has(NUL) {
        path.truncate(path.iter().position(|&byte| byte == 0).unwrap_or(path.len()));
    }
    if steps.has(BACKSLASH) {
        path.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
    }
    joined(&path, steps)
}

/// Applies the steps that concern segments.
fn joined(path: &[u8], steps: Doubts) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut left = path.split(|&byte| byte == b'/').skip(1).peekable();
    while let Some(mut segment) = left.next() {
        if steps.has(PARAMETERS) {
            segment = segment.split(|&byte| byte == b';').next().unwrap_or_default();
        }
        if steps.has(TRAILING) {
            segment = trimmed(segment);
        }
        let is_last = left.peek().is_none();
        match segment {
            b"." | b".." if steps.has(DOTS) => {
                if segment == b".." {
                    segments.pop();
                }
                // The result still names a folder.
                segments.extend(is_last.then_some(&b""[..]));
            }
            b"" if steps.has(EMPTY) && !is_last => {}
            _ => segments.push(segment),
        }
    }
    slashed(&segments, path.len())
}

fn is_space(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}

/// Returns the segment without the trailing bytes that Windows and other systems drop. A segment of only dots and
/// spaces becomes the dot segment for which it may be mistaken.
fn trimmed(segment: &[u8]) -> &[u8] {
    match segment.iter().rposition(|&byte| byte != b'.' && !is_space(byte)) {
        Some(at) => &segment[..=at],
        None if segment.starts_with(b"..") => b"..",
        None if segment.starts_with(b".") => b".",
        None => b"",
    }
}

/// Decodes `%XX`, once or [`AGAIN`]. An encoded slash becomes a slash only with [`SLASH`], and otherwise `%2F`.
fn decode(raw: &[u8], steps: Doubts) -> Vec<u8> {
    let mut path = Vec::with_capacity(raw.len());
    let push = |path: &mut Vec<u8>, byte: u8| match byte {
        b'/' if !steps.has(SLASH) => path.extend(b"%2F"),
        _ => path.push(byte),
    };
    let mut left = raw;
    while let Some((&first, rest)) = left.split_first() {
        match escaped(left) {
            Some(byte) => {
                push(&mut path, byte);
                left = &left[3..];
            }
            None => {
                path.push(first);
                left = rest;
            }
        }
        // The bytes pushed may have formed an escape. Each decoding removes two bytes, so this is linear.
        while steps.has(AGAIN)
            && let Some(start) = path.len().checked_sub(3)
            && let Some(byte) = escaped(&path[start..]).filter(|&byte| byte != b'/' || steps.has(SLASH))
        {
            path[start] = byte;
            path.truncate(start + 1);
        }
    }
    path
}

/// Decodes the `%XX` at the start of `bytes`.
fn escaped(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = *bytes else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(high)? << 4 | digit(low)?) as u8)
}

/// Replaces overlong forms and `%uXXXX` with the ASCII characters they stand for.
fn without_overlong(path: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(path.len());
    let mut left = path;
    while let Some((&first, rest)) = left.split_first() {
        let (byte, bytes) = overlong(left).or_else(|| unicode(left)).unwrap_or((first, 1));
        found.push(byte);
        left = if bytes == 1 { rest } else { &left[bytes..] };
    }
    found
}

/// Returns the ASCII character whose overlong form starts these bytes, and the length of that form.
pub(crate) fn overlong(bytes: &[u8]) -> Option<(u8, usize)> {
    let length = match *bytes {
        [0xc0 | 0xc1, ..] => 2,
        [0xe0, 0x80 | 0x81, ..] => 3,
        [0xf0, 0x80, 0x80 | 0x81, ..] => 4,
        [0xf8, 0x80, 0x80, 0x80 | 0x81, ..] => 5,
        [0xfc, 0x80, 0x80, 0x80, 0x80 | 0x81, ..] => 6,
        _ => return None,
    };
    let [.., high, low] = *bytes.get(..length)? else { return None };
    (low & 0xc0 == 0x80).then_some(((high & 1) << 6 | (low & 0x3f), length))
}

/// Returns the ASCII character whose `%u00XX` form starts these bytes, and the length of that escape.
fn unicode(bytes: &[u8]) -> Option<(u8, usize)> {
    let [b'%', b'u' | b'U', b'0', b'0', high, low, ..] = *bytes else { return None };
    escaped(&[b'%', high, low]).filter(u8::is_ascii).map(|byte| (byte, 6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_below(path: &[u8], folder: &str) -> bool {
        path.starts_with(folder.as_bytes())
    }

    /// Returns all readings, sorted.
    fn all(raw: &str) -> Vec<String> {
        let readings = Readings::of(raw.as_bytes()).unwrap();
        let mut all: Vec<String> = readings
            .doubts
            .subsets()
            .map(|steps| String::from_utf8_lossy(&reading(raw.as_bytes(), steps)).into_owned())
            .collect();
        assert_eq!(all[0].as_bytes(), String::from_utf8_lossy(readings.plain()).as_bytes());
        all.sort();
        all.dedup();
        all
    }

    #[test]
    fn most_paths_have_one_reading() {
        for (raw, plain) in [
            ("/", "/"),
            ("/a/b.html", "/a/b.html"),
            ("/a/", "/a/"),
            ("/.well-known/x..y/...z", "/.well-known/x..y/...z"),
            ("/a%20b/%c3%BCber", "/a b/\u{fc}ber"),
            ("/100%25/50%", "/100%/50%"),
            ("/a%3Fb%23", "/a?b#"),
            ("/a%09b%0Ac/%7F.txt", "/a\tb\nc/\u{7f}.txt"),
            ("/%E0la", "/\u{fffd}la"),
        ] {
            let readings = Readings::of(raw.as_bytes()).unwrap();
            assert_eq!(String::from_utf8_lossy(readings.plain()), plain, "{raw}");
            assert_eq!(all(raw), [plain], "{raw}");
            assert_eq!(readings.agreed(<[u8]>::to_vec).as_deref(), Some(readings.plain()), "{raw}");
        }
    }

    #[test]
    fn doubts_have_a_reading_each() {
        for (raw, expected) in [
            ("/a%2fb", &["/a%2Fb", "/a/b"][..]),
            ("//a", &["//a", "/a"]),
            ("/a//", &["/a/", "/a//"]),
            ("/a;x=1/b", &["/a/b", "/a;x=1/b"]),
            ("/a%3bx", &["/a", "/a;x"]),
            ("/a%5Cb", &["/a/b", "/a\\b"]),
            ("/a%00b", &["/a", "/a\0b"]),
            ("/a.", &["/a", "/a."]),
            ("/a%20/b", &["/a /b", "/a/b"]),
            ("/a%252Fb", &["/a%2Fb", "/a/b"]),
            ("/%25252561", &["/%252561", "/a"]),
            ("/%61%2536%31", &["/a%361", "/a61"]),
            ("/%c0%afa", &["/\u{fffd}\u{fffd}a", "//a", "/a"]),
            ("/%c1%a1", &["/\u{fffd}\u{fffd}", "/a"]),
            ("/%u0061", &["/%u0061", "/a"]),
            ("/a/..;/b", &["/a/..;/b", "/a/../b", "/b"]),
        ] {
            for path in expected {
                assert!(all(raw).contains(&path.to_string()), "{raw}: {:?} lacks {path}", all(raw));
            }
        }
    }

    #[test]
    fn dot_segments_are_refused() {
        for raw in ["/.", "/..", "/a/../b", "/a/%2e/b", "/a/.%2E", "/..%2Fa", "/a%2f%2e%2E", "/%FC/..%2F%FC"] {
            assert_eq!(Readings::of(raw.as_bytes()).unwrap_err().reason, "dot segment in path", "{raw}");
        }
        assert_eq!(Readings::of(b"*").unwrap_err().reason, "path does not begin with a slash");
    }

    /// The rules see every spelling of `/admin/x` that some program accepts.
    #[test]
    fn no_spelling_hides_a_folder() {
        for raw in [
            "/admin/x",
            "/%61dmin/x",
            "/%2561dmin/x",
            "//admin/x",
            "/%2Fadmin/x",
            "/%2fadmin/x",
            "/%252Fadmin/x",
            "/%5Cadmin/x",
            "/admin%2Fx",
            "/admin%2fx",
            "/admin%5cx",
            "/admin;/x",
            "/admin;a=b/x",
            "/admin./x",
            "/admin%20/x",
            "/admin%09/x",
            "/admin%c0%afx",
            "/admin%e0%80%afx",
            "/%c1%a1dmin/x",
            "/%u0061dmin/x",
            "/b/..;/admin/x",
            "/b/..;a/admin/x",
            "/b/%2e%2e;/admin/x",
            "/b/..%5Cadmin/x",
            "/b/%252e%252e/admin/x",
            "/b/%c0%ae%c0%ae/admin/x",
            "/b/..%20/admin/x",
            "/b/..%00/../admin/x",
            "/;/admin/x",
            "/;/%2Fadmin%5cx",
            "/.;/admin/x",
            "/admin;%2F..%5c/x",
        ] {
            let Ok(readings) = Readings::of(raw.as_bytes()) else { continue };
            assert_ne!(readings.agreed(|path| is_below(path, "/admin/")), Some(false), "{raw}");
        }
    }

    #[test]
    fn a_path_of_many_doubts_is_agreed_on_by_nobody() {
        let readings = Readings::of(b"/a;//b%5c%00%2Fc.").unwrap();
        assert!(readings.are_several() && readings.agreed(|_| ()).is_none());
    }

    #[test]
    fn slashes_are_merged() {
        for (raw, merged) in [("//a///b//", Some("/a/b/")), ("//", Some("/")), ("/a/b", None), ("/a%2F/b", None)] {
            assert_eq!(merge_slashes(raw.as_bytes()).as_deref(), merged.map(str::as_bytes), "{raw}");
        }
        assert_eq!(*Readings::of(b"/old//%2F/x").unwrap().merged(), *b"/old/%2F/x");
        assert!(Readings::of(b"//a").unwrap().are_unmerged() && !Readings::of(b"//a%2F").unwrap().are_unmerged());
    }

    #[test]
    fn dot_segments_are_resolved_within_the_root() {
        for (raw, path) in [
            ("/a/../b", Some("/b")),
            ("/a/./b", Some("/a/b")),
            ("/a/%2e%2E/b%20c", Some("/b%20c")),
            ("/a/b/..", Some("/a/")),
            ("/a/.", Some("/a/")),
            ("/a/..//b", Some("/b")),
            ("/a/b//", Some("/a/b/")),
            ("//", Some("/")),
            ("/./", Some("/")),
            ("/a/..%2Fb", None),
            ("/.a/..b/c./%2fd", None),
            ("/..", None),
            ("/a/../../b", None),
            ("/%2e%2e/b", None),
            ("/a", None),
            ("*", None),
        ] {
            assert_eq!(resolved(raw.as_bytes()).as_deref(), path.map(str::as_bytes), "{raw}");
        }
    }

    #[test]
    fn a_prefix_is_removed_and_the_rest_stays_as_it_came() {
        for (raw, prefix, rest) in [
            ("/app/a%2Fb", "/app", Some("/a%2Fb")),
            ("/%61pp/%62?", "/app", Some("/%62?")),
            ("/app/", "/app", Some("/")),
            ("/app//a", "/app", Some("//a")),
            ("/app", "/app", None),
            ("/apple/a", "/app", None),
            ("/app%2Fa", "/app", None),
            ("/app%2fa/b", "/app%2Fa", Some("/b")),
            ("/app/..%2Fa", "/app", None),
        ] {
            assert_eq!(strip_prefix(raw.as_bytes(), prefix.as_bytes()), rest.map(str::as_bytes), "{raw} {prefix}");
        }
        let readings = Readings::of(b"/a%2fb").unwrap();
        assert_eq!([3..4, 2..5, 0..99].map(|range| readings.raw_part(range)), [None, Some(&b"%2f"[..]), None]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// Any part of the decoded path comes from a part of the path as it came that decodes to it.
        #[test]
        fn a_raw_part_decodes_to_its_part(raw in "/([ab/%]|%2[fF0]|%61|%5c){0,8}", begin in 0usize..9, bytes in 0usize..9) {
            if let Ok(readings) = Readings::of(raw.as_bytes()) {
                let end = (begin + bytes).min(readings.plain().len());
                let begin = begin.min(end);
                if let Some(part) = readings.raw_part(begin..end) {
                    prop_assert_eq!(decode(part, Doubts::default()), &readings.plain()[begin..end]);
                }
            }
        }

        /// Steps that are not among the doubts of a path change nothing after any other steps, so no reading is
        /// missing.
        #[test]
        fn every_step_that_matters_is_a_doubt(raw in "/([ab./;\\\\%]|%2[eEfF05]|%5c|%00|%3b|%c0%a[ef]|%u002f|%252[ef]){0,6}", steps in 0u16..512) {
            if let Ok(readings) = Readings::of(raw.as_bytes()) {
                let known = Doubts(steps & readings.doubts.0);
                prop_assert_eq!(reading(raw.as_bytes(), Doubts(steps)), reading(raw.as_bytes(), known));
            }
        }

        /// Files are served by the plain reading.
        #[test]
        fn whatever_is_served_is_the_plain_reading(raw in "/[a-c./%2-5eEF]{0,12}") {
            let mut path = Vec::new();
            if crate::decode_path(raw.as_bytes(), &mut path).is_ok() {
                let readings = Readings::of(raw.as_bytes()).unwrap();
                prop_assert_eq!(readings.plain(), [b"/", path.as_slice()].concat());
            }
        }

        #[test]
        fn random_bytes_never_panic(mut raw in proptest::collection::vec(any::<u8>(), 0..40)) {
            raw.insert(0, b'/');
            if let Ok(readings) = Readings::of(&raw) {
                readings.agreed(<[u8]>::len);
            }
        }
    }
}
