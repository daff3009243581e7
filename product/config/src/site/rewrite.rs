//! Rewrites: they give a request another path, which all other rules then see.

use std::borrow::Cow;
use std::fmt;

use http::Readings;

use super::redirect::as_value;
use crate::keys::Form;
use crate::pattern::Pattern;
use crate::place::Place;
use crate::section::Section;
use crate::unreached_rules::Rule;
use crate::value_forms::{FromText, Wrong};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    pub at: Place,
    pub from: Pattern,
    pub to: Template,
}

/// A path, optionally with a query, with at most one `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(String);

/// The rewritten path and query, encoded as in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    pub path: Vec<u8>,
    pub query: Option<Vec<u8>>,
}

const TEMPLATE_BYTES_MAX: usize = 2048;

impl Rewrite {
    pub(crate) fn read(table: &Section<'_, '_>) -> Option<Rewrite> {
        let (from, to) = (table.text::<Pattern>("from"), table.text::<Template>("to"));
        let (from, to) = (from?.value, to?);
        if let Some(expected) = to.value.mistake_after(&from) {
            table.book.mistake(to.at, format!("site.rewrite.to `{}`: expected {expected}", to.value));
            return None;
        }
        Some(Rewrite { at: table.at, from, to: to.value })
    }

    /// Returns the rewritten path and query of a request that matches; `None` if the result would not be a valid path.
    /// The part that `*` matched stays undecoded in a path, and is encoded in a query, where it could otherwise add
    /// parameters.
    pub(super) fn apply(&self, readings: &Readings, query: Option<&[u8]>) -> Option<Rewritten> {
        let plain = readings.plain();
        let range = self.from.matched_range(plain);
        let (path, own_query) = self.to.parts();
        let matched = |in_path: bool| match range.clone() {
            None => Some(Cow::default()),
            Some(range) if in_path => readings.raw_part(range).map(Cow::Borrowed),
            Some(range) => Some(as_value(&plain[range]).into_bytes().into()),
        };
        let path = filled(path, &matched(path.contains('*'))?);
        let own_query = match own_query {
            Some(own) => Some(filled(own, &matched(false)?)),
            None => None,
        };
        let query = match (own_query, query) {
            (Some(own), Some(query)) => Some([&own, &b"&"[..], query].concat()),
            (own, query) => own.or(query.map(<[u8]>::to_vec)),
        };
        let is_path = Readings::of(&path).is_ok() && http::merge_slashes(&path).is_none();
        is_path.then_some(Rewritten { path, query })
    }
}

impl fmt::Display for Rewritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.path))?;
        match &self.query {
            Some(query) => write!(f, "?{}", String::from_utf8_lossy(query)),
            None => Ok(()),
        }
    }
}

fn filled(template: &str, matched: &[u8]) -> Vec<u8> {
    match template.split_once('*') {
        Some((before, after)) => [before.as_bytes(), matched, after.as_bytes()].concat(),
        None => template.into(),
    }
}

impl Rule for Rewrite {
    const NOUN: &'static str = "site.rewrite";

    fn at(&self) -> Place {
        self.at
    }

    fn path(&self) -> Option<&Pattern> {
        Some(&self.from)
    }

    fn covers(&self, other: &Rewrite) -> bool {
        self.from.covers(&other.from)
    }

    fn competes(&self, other: &Rewrite) -> bool {
        self.from.meets(&other.from) && self.to != other.to
    }
}

impl Template {
    fn parts(&self) -> (&str, Option<&str>) {
        self.0.split_once('?').map_or((&self.0, None), |(path, query)| (path, Some(query)))
    }

    /// Returns the expected form, if this template does not fit the pattern.
    fn mistake_after(&self, from: &Pattern) -> Option<&'static str> {
        let (before, _) = self.0.split_once('*')?;
        if from.stars() != 1 {
            return Some("no `*`, since `from` has none or several");
        }
        // What `*` matched may begin with a slash, and an empty segment has several readings.
        let from = from.to_string();
        let matched_after = from.split_once('*').map_or("", |(before, _)| before);
        let is_in_path = !before.contains('?');
        (is_in_path && before.ends_with('/') && !matched_after.ends_with('/'))
            .then_some("a `*` after the same slash as in `from`")
    }
}

impl FromText for Template {
    const FORM: Form = Form::Template;

    /// Parses a template. The literal part of its path must have a single reading.
    fn from_text(text: &str) -> Result<Template, Wrong> {
        let is_visible = |byte: u8| byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&byte);
        let is_bounded = text.len() <= TEMPLATE_BYTES_MAX && text.matches('*').count() <= 1;
        let template = Template(text.into());
        let path = template.parts().0.replace('*', "x");
        let is_clear = Readings::of(path.as_bytes()).is_ok_and(|readings| !readings.are_several());
        if is_bounded && is_clear && text.bytes().all(is_visible) { Ok(template) } else { Err(Wrong::Form) }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rewrite(from: &str, to: &str) -> Rewrite {
        let (from, to) = (Pattern::of_path(from).unwrap(), Template::from_text(to).unwrap());
        assert_eq!(to.mistake_after(&from), None);
        Rewrite { at: Place::START, from, to }
    }

    #[test]
    fn templates_are_paths_with_one_reading() {
        for right in ["/", "/a", "/a/*", "/index.php", "/index.php?q=*", "/a?b=c/../d", "/*.html", "/a%20b"] {
            assert!(Template::from_text(right).is_ok(), "{right}");
        }
        for wrong in [
            "",
            "a",
            "*",
            "//a",
            "/a//b",
            "/a/../b",
            "/a%2Fb",
            "/a/%2e%2e/b",
            "/a;b",
            "/a\\b",
            "/*/*",
            "/a b",
            "/a#b",
            "/ä",
            "https://a.org/",
        ] {
            assert!(Template::from_text(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_star_stands_where_that_of_the_pattern_does() {
        for (from, to, right) in [
            ("/old/*", "/new/*", true),
            ("/old/*", "/*", true),
            ("/old*", "/*", false),
            ("/old*", "/new*", true),
            ("/old*", "/new/*", false),
            ("/old*", "/new?a=/*", true),
            ("/old", "/new/*", false),
            ("/*/x/*", "/new/*", false),
            ("*", "/index.php", true),
        ] {
            let (from, to) = (Pattern::of_path(from).unwrap(), Template::from_text(to).unwrap());
            assert_eq!(to.mistake_after(&from).is_none(), right, "{from} {to}");
        }
    }

    #[test]
    fn what_a_star_matched_stays_as_it_came_or_is_a_value() {
        for (from, to, path, query, expected) in [
            ("/old/*", "/new/*", "/old/a%2Fb;c", None, Some(("/new/a%2Fb;c", None))),
            ("/old/*", "/new/*", "/%6Fld/%62", Some("q"), Some(("/new/%62", Some("q")))),
            ("/old/*", "/*", "/old/", None, Some(("/", None))),
            ("/old/*.html", "/new/*", "/old/a.html", None, Some(("/new/a", None))),
            ("/old/*", "/new", "/old/a", Some("q"), Some(("/new", Some("q")))),
            ("/old/*", "/i?p=*", "/old/a&b=c/d", None, Some(("/i", Some("p=a%26b%3Dc%2Fd")))),
            ("/old/*", "/i?p=*", "/old/a%2Fb", Some("q=1"), Some(("/i", Some("p=a%2Fb&q=1")))),
            ("*", "/i", "/a/b", None, Some(("/i", None))),
            // Nothing of a client becomes an empty segment or a dot segment.
            ("/old*", "/new/x*", "/old//a", None, None),
            ("/old*", "/new/.*", "/old./a", None, None),
            ("/old*", "/new/.*", "/old%2e%2fa", None, None),
        ] {
            let rewrite = rewrite(from, to);
            let rewritten = rewrite.apply(&Readings::of(path.as_bytes()).unwrap(), query.map(str::as_bytes));
            let expected = expected.map(|(path, query): (&str, Option<&str>)| Rewritten {
                path: path.into(),
                query: query.map(Into::into),
            });
            assert_eq!(rewritten, expected, "{path} by {from} {to}");
        }
    }

    proptest! {
        /// Whatever a client sends becomes a path that a request may have, or nothing; a query has no part of it that
        /// means a parameter.
        #[test]
        fn a_result_is_a_path(raw in "/old/([ab./;\\\\&=%]|%2[eEfF0]|%5c|%00|%252f){0,8}", to in 0usize..4) {
            let to = ["/new/*", "/new/.*", "/new/*.html", "/i?p=*"][to];
            let rewrite = rewrite("/old/*", to);
            if let Ok(readings) = Readings::of(raw.as_bytes())
                && let Some(rewritten) = rewrite.apply(&readings, None)
            {
                prop_assert!(Readings::of(&rewritten.path).is_ok() && http::merge_slashes(&rewritten.path).is_none());
                let query = rewritten.query.unwrap_or_default();
                prop_assert!(!query.contains(&b'&') && query.iter().filter(|byte| **byte == b'=').count() <= 1);
            }
        }
    }
}
