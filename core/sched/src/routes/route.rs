//! The identity of a route, as a number and as text.

use super::ALL_PATHS;
use super::pattern::pattern;

/// The maximum length of a route's text; a longer one is cut.
pub const WORDS_BYTES_MAX: usize = 256;
/// The maximum length of the site, method, type or coding in that text; longer ones are cut.
const WORD_BYTES_MAX: usize = 64;

/// The properties of a response that are known once its head is. All may be untrusted input from a peer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Route<'a> {
    /// The site's name, or its host.
    pub site: &'a [u8],
    pub method: &'a [u8],
    /// The path, with or without its query.
    pub path: &'a [u8],
    /// The status, for example 200. Its first digit counts.
    pub status: u16,
    /// The `Content-Type`, with or without parameters.
    pub content_type: &'a [u8],
    /// The `Content-Encoding`; empty for none.
    pub coding: &'a [u8],
}

/// A route's number. Two routes may collide by chance and then learn together; in a full table the probability is below
/// 2^-32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Digest(pub u64);

impl Route<'_> {
    /// Returns the route's number. It is the same on every machine and in every version of the program with the same
    /// patterns.
    pub(super) fn digest(&self) -> Digest {
        self.digest_after(self.asked().0)
    }

    /// Returns the route's number, given the number of its request's properties.
    pub(super) fn digest_after(&self, mut digest: Digest) -> Digest {
        self.pieces_answered(|piece| digest = digest.with(piece));
        digest
    }

    /// Returns the number of the properties of a request (site, method and path), and the number for all paths of that
    /// site and method.
    pub(super) fn asked(&self) -> (Digest, Digest) {
        let mut of_site = Digest(FNV_OFFSET);
        self.words_asked(|piece| of_site = of_site.with(piece));
        let mut own = of_site;
        pattern(self.path, |piece| own = own.with(piece));
        (own, of_site.with(ALL_PATHS))
    }

    /// Returns the route as text for operators: `example.org GET /users/* 2xx text/html gzip`. It contains visible
    /// ASCII and single spaces; other bytes become `?`.
    pub fn words(&self) -> String {
        let mut words = String::new();
        let mut put = |piece: &[u8]| {
            let room = WORDS_BYTES_MAX - words.len();
            words.extend(
                piece.iter().take(room).map(|byte| if (b' '..=b'~').contains(byte) { *byte as char } else { '?' }),
            );
        };
        self.words_asked(&mut put);
        pattern(self.path, &mut put);
        self.pieces_answered(&mut put);
        words
    }

    fn words_asked(&self, mut put: impl FnMut(&[u8])) {
        for word in [self.site, self.method] {
            put(cut(word));
            put(b" ");
        }
    }

    fn pieces_answered(&self, mut put: impl FnMut(&[u8])) {
        let main_type = self.content_type.split(|byte| *byte == b';').next().unwrap_or_default();
        put(&[b' ', b'0' + (self.status / 100).min(9) as u8, b'x', b'x']);
        for word in [main_type, self.coding] {
            put(b" ");
            let word = cut(word.trim_ascii());
            // Names of types and codings are case-insensitive (RFC 9110 sections 8.3.1 and 8.4.1).
            word.iter().for_each(|byte| put(&[byte.to_ascii_lowercase()]));
            if word.is_empty() {
                put(b"-");
            }
        }
    }
}

impl Digest {
    /// Returns the number extended by these bytes.
    fn with(self, bytes: &[u8]) -> Digest {
        Digest(bytes.iter().fold(self.0, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(FNV_PRIME)))
    }
}

fn cut(word: &[u8]) -> &[u8] {
    &word[..word.len().min(WORD_BYTES_MAX)]
}

/// FNV-1a, 64 bits (RFC 9923).
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str) -> Route<'_> {
        Route {
            site: b"example.org",
            method: b"GET",
            path: path.as_bytes(),
            status: 200,
            content_type: b"text/html; charset=utf-8",
            coding: b"gzip",
        }
    }

    #[test]
    fn a_route_in_words() {
        assert_eq!(route("/users/17?x=1").words(), "example.org GET /users/* 2xx text/html gzip");
        let plain = Route { content_type: b"", coding: b"", status: 404, ..route("/é\n") };
        assert_eq!(plain.words(), "example.org GET /??? 4xx - -");
        let long = [b'x'; 1000];
        let long = Route { site: &long, method: &long, content_type: &long, coding: &long, ..route("/x") };
        assert_eq!(long.words().len(), WORDS_BYTES_MAX);
    }

    #[test]
    fn a_number_tells_what_words_tell() {
        let base = route("/users/17");
        assert_eq!(base.digest(), route("/users/18?q").digest());
        assert_eq!(
            base.digest(),
            Route { status: 206, content_type: b" TEXT/HTML ", coding: b"GZIP", ..base }.digest()
        );
        for other in [
            Route { site: b"example.net", ..base },
            Route { method: b"HEAD", ..base },
            Route { path: b"/users/17/", ..base },
            Route { status: 404, ..base },
            Route { content_type: b"text/css", ..base },
            Route { coding: b"", ..base },
        ] {
            assert_ne!(base.digest(), other.digest(), "{}", other.words());
        }
        // The number is kept across versions, because a table may be stored.
        assert_eq!(base.digest(), Digest(0x941b_6d78_7bad_ee6e));
    }
}
