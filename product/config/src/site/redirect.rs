//! Redirects and their targets.

use http::Readings;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::host::HostName;
use crate::keys::Form;
use crate::pattern::Pattern;
use crate::place::Place;
use crate::section::Section;
use crate::unreached_rules::Rule;
use crate::value_forms::{FromText, Wrong};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    pub at: Place,
    pub from: Pattern,
    pub host: Option<HostName>,
    pub to: Target,
    pub status: u16,
}

/// A path or a URL, with at most one `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(String);

const TARGET_BYTES_MAX: usize = 2048;

/// The characters to encode in a path: all except slashes and the unreserved characters of RFC 3986 (section 2.3).
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The characters to encode in a path that was received in a request: all except the percent sign and those that a path
/// may contain (RFC 3986 section 3.3). A backslash is encoded, because browsers treat it as a slash.
const AS_CAME: &AsciiSet = &IN_PATH
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'%');

impl Redirect {
    pub(crate) fn read(table: &Section<'_, '_>) -> Option<Redirect> {
        let (from, to) = (table.text::<Pattern>("from"), table.text::<Target>("to"));
        let (host, status) = (table.text::<HostName>("from_host"), table.whole_number("status"));
        let (from, to, status) = (from?.value, to?, status?.try_into().ok()?);
        if let Some(expected) = to.value.mistake_after(&from) {
            table.book.mistake(to.at, format!("site.redirect.to `{}`: expected {expected}", to.value.0));
            return None;
        }
        Some(Redirect { at: table.at, from, host: host.map(|host| host.value), to: to.value, status })
    }

    /// Returns the URL to which the redirect leads, if `from` matches that URL's path.
    pub(super) fn own_url(&self) -> Option<Url> {
        let (scheme, rest) = self.to.0.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find(['/', '*', '?', '#']).unwrap_or(rest.len()));
        let path = path.split(['?', '#']).next().filter(|path| !path.is_empty()).unwrap_or("/");
        let (host, port) = split_host(authority)?;
        let is_secure = scheme == "https";
        let port = port.unwrap_or(if is_secure { 443 } else { 80 });
        self.from.covers(&Pattern::new(path)?).then_some(Url { is_secure, host, port })
    }

    /// Returns whether a request for this host and this decoded path is redirected.
    pub fn holds(&self, host: Option<&HostName>, path: &[u8]) -> bool {
        self.host.as_ref().is_none_or(|own| Some(own) == host) && self.from.matches(path)
    }

    /// Returns the address to which a request for this host and for this path without empty segments is redirected. The
    /// part that `*` matched stays undecoded, because `:` and `%3A` may differ for a program. In a query, that part is
    /// a single value and is encoded as such.
    pub fn leads(&self, host: Option<&HostName>, path: &Readings) -> Option<String> {
        let plain = path.plain();
        let is_value = self.to.0.split_once('*').is_some_and(|(before, _)| before.contains(['?', '#']));
        let matched = || {
            let Some(range) = self.from.matched_range(plain) else { return String::new() };
            match path.raw_part(range.clone()) {
                _ if is_value => as_value(&plain[range]),
                Some(raw) => as_came(raw),
                None => encoded(&plain[range]).replace("%252F", "%2F"),
            }
        };
        self.holds(host, plain).then(|| self.to.0.replace('*', &matched()))
    }
}

/// A URL that is the target of a redirect.
pub(super) struct Url {
    pub is_secure: bool,
    pub host: HostName,
    pub port: u16,
}

/// Returns a decoded part of a path as a query value. Decoded paths keep encoded slashes; such a slash is encoded once.
pub(super) fn as_value(plain: &[u8]) -> String {
    percent_encode(plain, NON_ALPHANUMERIC).to_string().replace("%252F", "%2F")
}

/// Returns a part of a path unchanged, except that characters that an address must not contain are encoded, such as a
/// percent sign that is not followed by two hex digits.
fn as_came(raw: &[u8]) -> String {
    let is_escape = |digits: &[u8]| digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit);
    let mut parts = raw.split(|&byte| byte == b'%');
    let first = percent_encode(parts.next().unwrap_or_default(), AS_CAME).to_string();
    parts.fold(first, |mut text, part| {
        text.push_str(if part.get(..2).is_some_and(is_escape) { "%" } else { "%25" });
        text.extend(percent_encode(part, AS_CAME));
        text
    })
}

/// Encodes a path, or a part of one, as in a request.
pub(super) fn encoded(path: &[u8]) -> String {
    percent_encode(path, IN_PATH).to_string()
}

impl Rule for Redirect {
    const NOUN: &'static str = "site.redirect";

    fn at(&self) -> Place {
        self.at
    }

    fn path(&self) -> Option<&Pattern> {
        Some(&self.from)
    }

    fn covers(&self, other: &Redirect) -> bool {
        (self.host.is_none() || self.host == other.host) && self.from.covers(&other.from)
    }

    fn competes(&self, other: &Redirect) -> bool {
        let same_host = self.host == other.host || self.host.is_none() || other.host.is_none();
        same_host && self.from.meets(&other.from) && (&self.to, self.status) != (&other.to, other.status)
    }
}

impl Target {
    /// Returns the expected form, if this target does not fit the pattern.
    fn mistake_after(&self, from: &Pattern) -> Option<&'static str> {
        if let Some((before, _)) = self.0.split_once('*') {
            if from.stars() != 1 {
                return Some("no `*`, since `from` has none or several");
            }
            // The part that `*` matched must not become the rest of a host name, nor `//` and a host name.
            let from = from.to_string();
            let matched_after = from.split_once('*').map_or("", |(before, _)| before);
            let after_host = before.find("://").is_some_and(|at| !before[at + 3..].contains('/'));
            if (after_host && !matched_after.is_empty()) || (before == "/" && !matched_after.ends_with('/')) {
                return Some("a `*` after the same slash as in `from`");
            }
        }
        let leads_back = self.0.starts_with('/') && Pattern::new(&self.0).is_some_and(|to| from.covers(&to));
        leads_back.then_some("a path that `from` does not match, or it would lead to itself")
    }
}

impl FromText for Target {
    const FORM: Form = Form::Target;

    fn from_text(text: &str) -> Result<Target, Wrong> {
        let visible = text.len() <= TARGET_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_path = text.starts_with('/') && !text.starts_with("//") && !text.contains('\\');
        let address = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let right = visible && text.matches('*').count() <= 1 && (is_path || address.is_some_and(has_host));
        if right { Ok(Target(text.into())) } else { Err(Wrong::Form) }
    }
}

/// Returns whether a URL without its scheme begins with a host, or with a host and a port.
fn has_host(address: &str) -> bool {
    let end = address.find(['/', '*', '?', '#']).unwrap_or(address.len());
    split_host(&address[..end]).is_some()
}

/// Splits `example.org:8080` into host and port. A complete name may end in a dot (RFC 1034 section 3.1).
pub fn split_host(authority: &str) -> Option<(HostName, Option<u16>)> {
    let whole = |name: &str| HostName::new(name.strip_suffix('.').unwrap_or(name));
    let digits = authority.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (before, port) = authority.split_at(authority.len() - digits);
    match before.strip_suffix(':') {
        Some(host) if !host.ends_with(':') || host.ends_with(']') => Some((whole(host)?, Some(port.parse().ok()?))),
        _ => Some((whole(authority)?, None)),
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_paths_or_addresses() {
        for right in [
            "/a",
            "/a/*",
            "https://a.org",
            "http://a.org:81/x*",
            "https://[::1]/",
            "https://[::1]:8/",
            "https://a.org*",
        ] {
            assert!(Target::from_text(right).is_ok(), "{right}");
        }
        for wrong in [
            "",
            "a",
            "//a.org",
            "/\\a.org",
            "ftp://a",
            "https://",
            "https://a:x/",
            "https://a:70000/",
            "/a b",
            "/*/*",
            "/ä",
            "https://a@b/",
        ] {
            assert!(Target::from_text(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_host_ends_before_its_port_and_its_last_dot() {
        let split = |authority: &str| split_host(authority).map(|(host, port)| (host.to_string(), port));
        for (authority, port) in [("A.org", None), ("a.org.", None), ("a.org:81", Some(81)), ("a.org.:81", Some(81))] {
            assert_eq!(split(authority), Some(("a.org".into(), port)), "{authority}");
        }
        assert!([".", "a..", "a:", "a:70000", ":80"].iter().all(|wrong| split(wrong).is_none()));
    }

    #[test]
    fn what_a_star_matched_stays_as_it_came() {
        let (from, to) = (Pattern::of_path("/old/*").unwrap(), Target::from_text("https://a.org/new/*").unwrap());
        let redirect = Redirect { at: Place::START, from, host: None, to, status: 301 };
        let of = |path: &'static [u8]| Readings::of(path).unwrap();
        let leads = |path: &'static str| redirect.leads(None, &of(path.as_bytes()));
        for (path, to) in [
            ("/old/b%20c/%c3%A9%3F%25%0D%0A", "b%20c/%c3%A9%3F%25%0D%0A"),
            ("/%6Fld/a%2Fb%2f", "a%2Fb%2f"),
            ("/old/wiki/Talk:A_(b),c;d=e/@f+g!$&'*", "wiki/Talk:A_(b),c;d=e/@f+g!$&'*"),
            ("/old/Talk%3AA%40", "Talk%3AA%40"),
            ("/old/100%/%zz/%", "100%25/%25zz/%25"),
            ("/old/\\@b.org|^{}[]`\"<>", "%5C@b.org%7C%5E%7B%7D%5B%5D%60%22%3C%3E"),
        ] {
            assert_eq!(leads(path).unwrap(), format!("https://a.org/new/{to}"), "{path}");
        }
        assert_eq!(redirect.leads(None, &of(b"/old/\xe9")).unwrap(), "https://a.org/new/%E9");
        assert_eq!(leads("/other"), None);
        let (own, path) = (Redirect { host: HostName::new("b.org"), ..redirect.clone() }, of(b"/old/"));
        assert_eq!((own.leads(None, &path), own.leads(HostName::new("a.org").as_ref(), &path)), (None, None));
        assert!(own.leads(HostName::new("B.org").as_ref(), &path).is_some());
    }

    #[test]
    fn what_a_star_matched_is_one_value_of_a_query() {
        let leads = |to: &str, path: &'static str| {
            let (from, to) = (Pattern::of_path("/wiki/*").unwrap(), Target::from_text(to).unwrap());
            let redirect = Redirect { at: Place::START, from, host: None, to, status: 301 };
            redirect.leads(None, &Readings::of(path.as_bytes()).unwrap()).unwrap()
        };
        for (path, value) in [
            ("/wiki/AT&T", "AT%26T"),
            ("/wiki/C++", "C%2B%2B"),
            ("/wiki/a%26b%2Fc/d", "a%26b%2Fc%2Fd"),
            ("/wiki/x&role=admin#top", "x%26role%3Dadmin%23top"),
        ] {
            assert_eq!(leads("/w/index.php?title=*&x=1", path), format!("/w/index.php?title={value}&x=1"), "{path}");
        }
        assert_eq!(leads("/w/*?from=wiki", "/wiki/AT&T"), "/w/AT&T?from=wiki");
    }

    #[test]
    fn no_text_of_a_client_becomes_a_host() {
        for (from, to, right) in [
            ("/old/*", "/new/*", true),
            ("/old/*", "/*", true),
            ("/old*", "/*", false),
            ("*", "https://a.org*", true),
            ("/*", "https://a.org*", false),
            ("/*", "https://a.org/*", true),
            ("/old", "/new/*", false),
            ("/*/x/*", "/new/*", false),
            ("/a/*", "/a/b", false),
            ("/a/*", "/a/b/*", false),
            ("*", "/", false),
        ] {
            let (from, target) = (Pattern::of_path(from).unwrap(), Target::from_text(to).unwrap());
            assert_eq!(target.mistake_after(&from).is_none(), right, "{from} {to}");
        }
    }
}
