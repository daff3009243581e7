//! CORS: the origins whose scripts may read a site's responses (the Fetch standard, section 3.2).

use std::fmt;
use std::time::Duration;

use crate::keys::Form;
use crate::pattern::Pattern;
use crate::place::Place;
use crate::section::Section;
use crate::unreached_rules::Rule;
use crate::value_forms::{FieldName, FromText, MethodName, Wrong};

/// The table `[[site.cors]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsRule {
    pub at: Place,
    pub path: Pattern,
    /// The allowed origins, at least one.
    pub origins: Vec<Origin>,
    /// The methods that requests from these origins may use, joined by commas.
    pub methods: String,
    /// Request fields that scripts of these origins may set, joined by commas; empty for none.
    pub headers: String,
    /// Response fields that scripts of these origins may read, joined by commas; empty for none.
    pub exposed: String,
    /// True if requests from these origins may carry cookies and logins.
    pub allows_credentials: bool,
    /// The time for which a browser may cache the answer to a preflight request.
    pub max_age: Option<Duration>,
}

/// The origins that a rule allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Any,
    /// A scheme, a host and perhaps a port.
    Exact(String),
    /// All names below a domain: the scheme with `://`, and the rest of the origin from the dot before the domain, with
    /// its port if there is one.
    Below(String, String),
}

/// Methods that need no preflight request.
const METHODS: &str = "GET, HEAD, POST";
/// The maximum length of an origin.
const ORIGIN_BYTES_MAX: usize = 300;

impl CorsRule {
    pub(crate) fn read(table: &Section<'_, '_>) -> Option<CorsRule> {
        let (path, origins) = (table.text::<Pattern>("path"), table.texts::<Origin>("allow_origins"));
        let [methods, headers, exposed] = [
            joined(table.texts::<MethodName>("allow_methods").iter().map(|name| name.value.0.as_str())),
            joined(table.texts::<FieldName>("allow_headers").iter().map(|name| name.value.0.as_str())),
            joined(table.texts::<FieldName>("expose_headers").iter().map(|name| name.value.0.as_str())),
        ];
        let (allows_credentials, max_age) = (table.flag("allow_credentials"), table.text::<Duration>("max_age"));
        if let Some(any) = origins.iter().find(|origin| origin.value == Origin::Any && allows_credentials) {
            let said = "site.cors.allow_origins `*` with allow_credentials: browsers refuse both together; expected the origins by name";
            table.book.mistake(any.at, said);
        }
        if origins.is_empty() {
            return None;
        }
        Some(CorsRule {
            at: table.at,
            path: path?.value,
            origins: origins.into_iter().map(|origin| origin.value).collect(),
            methods: if methods.is_empty() { METHODS.into() } else { methods },
            headers,
            exposed,
            allows_credentials,
            max_age: max_age.map(|age| age.value),
        })
    }

    /// Returns true if scripts of every origin may read the responses. The responses are then the same for all.
    pub fn is_for_any(&self) -> bool {
        self.origins.contains(&Origin::Any)
    }

    /// Returns true if an origin, as a browser sends it, is allowed.
    pub fn allows(&self, origin: &[u8]) -> bool {
        std::str::from_utf8(origin).is_ok_and(|origin| self.origins.iter().any(|own| own.fits(origin)))
    }
}

fn joined<'t>(names: impl Iterator<Item = &'t str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

impl Rule for CorsRule {
    const NOUN: &'static str = "site.cors";

    fn at(&self) -> Place {
        self.at
    }

    fn path(&self) -> Option<&Pattern> {
        Some(&self.path)
    }

    fn covers(&self, other: &CorsRule) -> bool {
        self.path.covers(&other.path)
    }

    fn competes(&self, other: &CorsRule) -> bool {
        let is_alike = CorsRule { at: self.at, path: self.path.clone(), ..other.clone() } == *self;
        self.path.meets(&other.path) && !is_alike
    }
}

impl Origin {
    fn fits(&self, origin: &str) -> bool {
        match self {
            Origin::Any => true,
            Origin::Exact(own) => own == origin,
            Origin::Below(scheme, rest) => {
                let name = origin.strip_prefix(scheme).and_then(|host| host.strip_suffix(rest));
                name.is_some_and(|name| !name.is_empty() && name.split('.').all(is_label))
            }
        }
    }
}

impl FromText for Origin {
    const FORM: Form = Form::Origin;

    fn from_text(text: &str) -> Result<Origin, Wrong> {
        if text == "*" {
            return Ok(Origin::Any);
        }
        let (scheme, rest) = text.split_once("://").ok_or(Wrong::Form)?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
            && scheme.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte));
        if !is_scheme || text.len() > ORIGIN_BYTES_MAX {
            return Err(Wrong::Form);
        }
        let below = rest.strip_prefix("*.");
        let (host, port) = match below.unwrap_or(rest).rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (below.unwrap_or(rest), None),
        };
        let is_port = |port: &str| port.parse::<u16>().is_ok_and(|number| number > 0 && number.to_string() == port);
        let is_address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_address = is_address.is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok()) && below.is_none();
        if port.is_some_and(|port| !is_port(port)) || !(is_address || host.split('.').all(is_label)) {
            return Err(Wrong::Form);
        }
        if [("http", Some("80")), ("https", Some("443"))].contains(&(scheme, port)) {
            return Err(Wrong::Expected(format!("{scheme}://{} without the port, as browsers send it", host)));
        }
        Ok(match below {
            None => Origin::Exact(text.into()),
            Some(below) => Origin::Below(format!("{scheme}://"), format!(".{below}")),
        })
    }
}

/// Returns true for a label of a host name as browsers send it, in lower case.
fn is_label(label: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    !label.is_empty() && label.bytes().all(is_inside)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Any => f.write_str("*"),
            Origin::Exact(origin) => f.write_str(origin),
            Origin::Below(scheme, rest) => write!(f, "{scheme}*{rest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_send_them() {
        for (text, allowed, refused) in [
            ("*", &["https://a.org", "null"][..], &[][..]),
            (
                "https://a.org",
                &["https://a.org"],
                &["http://a.org", "https://a.org:8443", "https://b.a.org", "https://a.org.evil", "https://A.org", ""],
            ),
            (
                "https://*.a.org",
                &["https://b.a.org", "https://c.b.a.org"],
                &["https://a.org", "https://.a.org", "https://evila.org", "https://b.a.org:1", "https://x/b.a.org"],
            ),
            (
                "http://*.a.org:81",
                &["http://b.a.org:81"],
                &["http://b.a.org", "http://b.a.org:8", "http://@b.a.org:81"],
            ),
            ("http://[::1]:3000", &["http://[::1]:3000"], &["http://[::1]"]),
            ("capacitor://localhost", &["capacitor://localhost"], &["https://localhost"]),
        ] {
            let origin = Origin::from_text(text).unwrap();
            assert_eq!(origin.to_string(), text);
            assert!(allowed.iter().all(|given| origin.fits(given)), "{text}");
            assert!(!refused.iter().any(|given| origin.fits(given)), "{text}");
        }
    }

    #[test]
    fn what_no_browser_sends_is_refused() {
        for wrong in [
            "a.org",
            "https://",
            "https://a.org/",
            "https://A.org",
            "https://a.org:0",
            "https://a.org:x",
            "https://a.org:443",
            "http://a.org:80",
            "https://*.*.org",
            "https://*.[::1]",
            "null",
            "https://a b",
            "https://a@b",
        ] {
            assert!(Origin::from_text(wrong).is_err(), "{wrong}");
        }
    }
}
