//! Notes about values that have a special meaning to nginx or Apache but are sent unchanged here.

use std::fmt::Display;

use super::Answers;
use crate::place::Place;
use crate::section::Book;

/// The directives of a response's Cache-Control (RFC 9111 section 5.2.2, RFC 5861, RFC 8246).
const DIRECTIVES: &[&str] = &[
    "immutable",
    "max-age",
    "must-revalidate",
    "must-understand",
    "no-cache",
    "no-store",
    "no-transform",
    "private",
    "proxy-revalidate",
    "public",
    "s-maxage",
    "stale-if-error",
    "stale-while-revalidate",
];

pub(super) fn check(book: &Book<'_>, answers: &Answers) {
    let note = |at: Place, said: String| book.note(at, said);
    let dollars = |at: Place, key: &str, value: &dyn Display, expected: &str| {
        if let Some(word) = variable(&value.to_string()) {
            note(at, format!("{key} `{value}`: `{word}` is sent as it is; expected {expected}"));
        }
    };
    for rule in &answers.request_headers {
        if let Some(value) = &rule.value {
            dollars(rule.at, "site.request_header.value", value, "{client}, {host}, {scheme} or {user}");
        }
    }
    const STAR: &str = "`*`, for what the `*` of `from` matched";
    answers.redirects.iter().for_each(|rule| dollars(rule.at, "site.redirect.to", &rule.to, STAR));
    answers.rewrites.iter().for_each(|rule| dollars(rule.at, "site.rewrite.to", &rule.to, STAR));
    for rule in &answers.headers {
        dollars(rule.at, "site.header.value", &rule.value, "text without variables");
        if rule.value.ends_with(" always") {
            let said =
                format!("site.header.value `{}`: `always` is sent as a part of it; expected it without", rule.value);
            note(rule.at, said);
        }
    }
    for rule in &answers.cache {
        let names = rule.control.split(',').map(|one| one.trim().split('=').next().unwrap_or_default());
        for name in names.filter(|name| !DIRECTIVES.iter().any(|known| known.eq_ignore_ascii_case(name))) {
            let expected = "expected one that caches know, for example max-age=86400";
            note(rule.at, format!("site.cache.control `{}`: no directive `{name}`; {expected}", rule.control));
        }
    }
}

/// Returns the first word of a value that other servers would take for a variable: `$uri` or `$1`.
fn variable(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once('$')?;
    let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let at = value.len() - rest.len();
    (length > 0).then(|| &value[at - 1..at + length])
}
