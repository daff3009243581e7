//! The pattern of a path: the part that all responses of one handler have in common.
//!
//! The same code answers `/users/17/posts` and `/users/18/posts`, and the sizes of the answers are similar. If routes
//! were whole paths, each would be learned separately, and any client could fill the table. So every part that
//! identifies one item among many becomes `*`: numbers, UUIDs, hexadecimal digests and segments too long for a word. A
//! name is examined in its parts between `.`, `-` and `_`: `app.3f2a9c1b.js` is `app.*.js`, `img-0815.jpg` is
//! `img-*.jpg`.

/// The maximum number of path segments that are examined. All deeper segments together become `**`.
pub const SEGMENTS_MAX: usize = 8;
/// The maximum length of a word; a longer segment is `*`.
pub const SEGMENT_BYTES_MAX: usize = 32;
/// The minimum length of a hexadecimal digest, which must contain at least one decimal digit; shorter strings count as
/// words.
const DIGEST_DIGITS_MIN: usize = 8;

/// Passes the pattern of a path to `put`, piece by piece. It has at most [`SEGMENTS_MAX`] segments of
/// [`SEGMENT_BYTES_MAX`] bytes, each preceded by a slash, and does not include the query.
pub fn pattern(path: &[u8], mut put: impl FnMut(&[u8])) {
    let path = path.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
    let path = path.strip_prefix(b"/").unwrap_or(path);
    for (depth, segment) in path.split(|byte| *byte == b'/').enumerate() {
        put(b"/");
        if depth == SEGMENTS_MAX {
            return put(b"**");
        }
        // UUIDs are longer, too, and become `*` here.
        if segment.len() > SEGMENT_BYTES_MAX {
            put(b"*");
            continue;
        }
        parts(segment, &mut put);
    }
}

fn parts(segment: &[u8], put: &mut impl FnMut(&[u8])) {
    let is_mark = |byte: &u8| matches!(byte, b'.' | b'-' | b'_');
    let mut from = 0;
    while from <= segment.len() {
        let to = segment[from..].iter().position(is_mark).map_or(segment.len(), |at| from + at);
        let part = &segment[from..to];
        put(if is_one_of_many(part) { b"*" } else { part });
        if to < segment.len() {
            put(&segment[to..=to]);
        }
        from = to + 1;
    }
}

fn is_one_of_many(part: &[u8]) -> bool {
    let has_figure = part.iter().any(u8::is_ascii_digit);
    let is_number = has_figure && part.iter().all(u8::is_ascii_digit);
    is_number || (has_figure && part.len() >= DIGEST_DIGITS_MIN && part.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(path: &[u8]) -> Vec<u8> {
        let mut pieces = Vec::new();
        pattern(path, |piece| pieces.extend_from_slice(piece));
        pieces
    }

    #[test]
    fn what_names_one_of_many_is_left_out() {
        for (path, expected) in [
            ("/", "/"),
            ("", "/"),
            ("/users/17/posts?page=2", "/users/*/posts"),
            ("/users/17#top", "/users/*"),
            ("/v1/items/", "/v1/items/"),
            ("/a/0b5e1f2a-93c4-4d5e-8f60-718293a4b5c6", "/a/*"),
            ("/app.3f2a9c1b.js", "/app.*.js"),
            ("/img-0815.jpg", "/img-*.jpg"),
            ("/2026-11-26/log", "/*-*-*/log"),
            ("/objects/e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "/objects/*"),
            ("/deadbeef/facade", "/deadbeef/facade"),
            ("/deadbee5", "/*"),
            ("/1234abc", "/1234abc"),
            ("/a--b..c_", "/a--b..c_"),
            ("/1/2/3/4/5/6/7/8", "/*/*/*/*/*/*/*/*"),
            ("/a/b/c/d/e/f/g/h/i/j", "/a/b/c/d/e/f/g/h/**"),
        ] {
            assert_eq!(String::from_utf8(of(path.as_bytes())).unwrap(), expected, "{path}");
        }
        let long = |bytes: usize| of(format!("/{}/x", "w".repeat(bytes)).as_bytes());
        assert_eq!((long(32).len(), long(33)), (35, b"/*/x".to_vec()));
    }

    proptest! {
        /// For any path, the pattern is bounded, and the pattern of a pattern is itself.
        #[test]
        fn patterns_are_bounded(path in prop::collection::vec(any::<u8>(), 0..400)) {
            let found = of(&path);
            prop_assert!(found.len() <= SEGMENTS_MAX * (1 + SEGMENT_BYTES_MAX) + 3, "{} bytes", found.len());
            if found.split(|byte| *byte == b'/').count() <= SEGMENTS_MAX {
                prop_assert_eq!(of(&found), found);
            }
        }
    }
}
