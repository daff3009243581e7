//! Patterns of paths. A pattern is text in which `*` stands for any bytes, including slashes. A path is compared byte
//! by byte, because it may not be UTF-8.
//!
//! A pattern covers another if it matches the other's text; a rule with the other pattern is then never reached after
//! it. A `*` of the other pattern stands for any character, so only a `*` can match it.

use std::fmt;
use std::ops::Range;

use memchr::memmem;

/// The maximum length of a pattern; the next constant is the maximum number of `*`. Both bound the work of a match, and
/// are far above hand-written patterns.
const BYTES_MAX: usize = 256;
const STARS_MAX: usize = 8;

/// A pattern of at most 256 bytes with at most 8 `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Creates a pattern that begins with a slash or a `*`.
    pub fn of_path(text: &str) -> Option<Pattern> {
        let begins = text.starts_with('/') || text.starts_with('*');
        Pattern::new(text).filter(|_| begins)
    }

    pub(crate) fn new(text: &str) -> Option<Pattern> {
        let bounded = text.len() <= BYTES_MAX && text.matches('*').count() <= STARS_MAX;
        (bounded && !text.chars().any(char::is_control)).then(|| Pattern(text.into()))
    }

    pub fn matches(&self, text: &[u8]) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return self.0.as_bytes() == text };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        let Some(mut left) = between(text, first, last) else { return false };
        for part in middle.split('*').filter(|part| !part.is_empty()) {
            let Some(at) = memmem::find(left, part.as_bytes()) else { return false };
            left = &left[at + part.len()..];
        }
        true
    }

    /// Returns the range of a text that the first `*` matched, if it is the only one.
    pub fn matched_range(&self, text: &[u8]) -> Option<Range<usize>> {
        let (first, last) = self.0.split_once('*')?;
        between(text, first, last).map(|matched| first.len()..first.len() + matched.len())
    }

    /// Returns true if this pattern begins with this text followed by a slash.
    pub(crate) fn is_below(&self, folder: &str) -> bool {
        self.0.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Returns whether this matches every text that the other matches.
    pub fn covers(&self, other: &Pattern) -> bool {
        self.matches(other.0.as_bytes())
    }

    pub fn is_any(&self) -> bool {
        ["*", "/*"].contains(&self.0.as_str())
    }

    /// Returns the reason why hardly any path can match, if there is one. Paths are compared decoded and without their
    /// query.
    pub(crate) fn why_odd(&self) -> Option<&'static str> {
        let is_hex = |at: usize| self.0.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
        let is_encoded = |at: usize| is_hex(at + 1) && is_hex(at + 2);
        if self.0.match_indices('%').any(|(at, _)| is_encoded(at)) {
            return Some("paths are compared decoded; expected the characters themselves in place of %XX");
        }
        if self.0.contains('?') {
            return Some("paths are compared without their query; expected no ?");
        }
        let has_choices =
            self.0.split('{').skip(1).any(|rest| rest.split('}').next().is_some_and(|all| all.contains(',')));
        if has_choices || self.0.ends_with('$') || self.0.contains('\\') {
            return Some("only `*` has a meaning in a pattern; expected one table for each form");
        }
        let has_dots = self.0.split('/').any(|segment| segment == "." || segment == "..");
        has_dots.then_some("paths have no dot segments when they are compared; expected none")
    }

    pub fn stars(&self) -> usize {
        self.0.matches('*').count()
    }

    /// Returns true if some text matches both patterns. Only the ends matter, because anything matches between two `*`.
    pub fn meets(&self, other: &Pattern) -> bool {
        fn ends(pattern: &Pattern) -> Option<(&str, &str)> {
            let (first, rest) = pattern.0.split_once('*')?;
            Some((first, rest.rsplit('*').next().unwrap_or("")))
        }
        match (ends(self), ends(other)) {
            (Some((a, z)), Some((b, y))) => {
                (a.starts_with(b) || b.starts_with(a)) && (z.ends_with(y) || y.ends_with(z))
            }
            (None, _) => other.matches(self.0.as_bytes()),
            (_, None) => self.matches(other.0.as_bytes()),
        }
    }
}

/// Returns the text between this start and this end.
fn between<'t>(text: &'t [u8], first: &str, last: &str) -> Option<&'t [u8]> {
    text.strip_prefix(first.as_bytes())?.strip_suffix(last.as_bytes())
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::new(text).unwrap()
    }

    #[test]
    fn a_star_is_any_text() {
        for (given, text, matching) in [
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("/a/*", "/a/", true),
            ("/a/*", "/a", false),
            ("*.css", "/x/y.css", true),
            ("*.css", ".cs", false),
            ("/a*a", "/a", false),
            ("/*/x/*", "/1/2/x/3", true),
            ("/*ab*ab", "/ab", false),
            ("**", "", true),
        ] {
            assert_eq!(pattern(given).matches(text.as_bytes()), matching, "{given} {text}");
        }
        assert_eq!(pattern("/old/*.htm").matched_range(b"/old/a/b.htm"), Some(5..8));
    }

    #[test]
    fn a_star_is_any_bytes_too() {
        assert!(pattern("/caf*/*.txt").matches(b"/caf\xe9/\xff.txt"));
        assert_eq!(pattern("/a/*").matched_range(b"/a/\xe9"), Some(3..4));
        let replaced = pattern("/caf\u{fffd}");
        assert!(!replaced.matches(b"/caf\xe9") && !pattern("/caf\u{e9}").matches(b"/caf\xe9"));
    }

    #[test]
    fn the_ends_decide_whether_patterns_meet() {
        for (a, b, meet) in [
            ("/a/*", "*.css", true),
            ("/a/*", "/b/*", false),
            ("*.css", "*.js", false),
            ("/a/*", "/a/b/*", true),
            ("/a", "/a*", true),
            ("/a", "/b", false),
        ] {
            assert_eq!((pattern(a).meets(&pattern(b)), pattern(b).meets(&pattern(a))), (meet, meet), "{a} {b}");
        }
    }

    #[test]
    fn bounds() {
        let long = |length: usize| Pattern::of_path(&format!("/{}", "x".repeat(length - 1)));
        assert!(long(BYTES_MAX).is_some() && long(BYTES_MAX + 1).is_none());
        assert!(Pattern::of_path("/********").is_some() && Pattern::of_path("/*********").is_none());
        assert!(Pattern::of_path("a").is_none() && Pattern::of_path("/a\n").is_none());
    }

    /// The definition: `*` takes none or some of the text.
    fn plainly(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.first(), text.first()) {
            (Some(b'*'), _) => plainly(&pattern[1..], text) || (!text.is_empty() && plainly(pattern, &text[1..])),
            (Some(a), Some(b)) if a == b => plainly(&pattern[1..], &text[1..]),
            (None, None) => true,
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matches_as_defined(given in "[ab*]{0,6}", text in "[ab]{0,6}") {
            prop_assert_eq!(pattern(&given).matches(text.as_bytes()), plainly(given.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn what_is_covered_and_matched_is_matched_above(a in "[ab*]{0,5}", b in "[ab*]{0,5}", text in "[abc]{0,5}") {
            let (a, b) = (pattern(&a), pattern(&b));
            if b.matches(text.as_bytes()) {
                prop_assert!(!a.covers(&b) || a.matches(text.as_bytes()));
                prop_assert!(!a.matches(text.as_bytes()) || a.meets(&b));
            }
        }
    }
}
