use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use cli::Failure;

const PLAIN: &str = "http://";
pub(crate) const SECURE: &str = "https://";

/// `http://HOST[:PORT]/PREFIX/`, or `https://`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: &'static str,
    /// HOST or HOST:PORT as given; the value of the `Host` field.
    pub(crate) authority: String,
    host: String,
    port: u16,
    /// Starts and ends with `/`.
    pub(crate) prefix: String,
}

impl Url {
    pub(crate) fn resolve(&self) -> Result<SocketAddr, Failure> {
        let failed = |reason: String| Failure::Failed(format!("{}: {reason}", self.authority));
        let mut addresses =
            (self.host.as_str(), self.port).to_socket_addrs().map_err(|error| failed(error.to_string()))?;
        addresses.next().ok_or_else(|| failed("has no address".into()))
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}{}", self.scheme, self.authority, self.prefix)
    }
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Url, String> {
        parse(text).ok_or_else(|| {
            format!("`{text}` is not a URL to load: write http://HOST:PORT/PREFIX/, for example http://127.0.0.1:8080/")
        })
    }
}

fn parse(text: &str) -> Option<Url> {
    let (scheme, usual_port) = if text.starts_with(SECURE) { (SECURE, 443) } else { (PLAIN, 80) };
    let rest = text.strip_prefix(scheme)?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains(['?', '#', '@', '\\']) {
        return None;
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = split_authority(authority, usual_port)?;
    let slash = if path.is_empty() || path.ends_with('/') { "" } else { "/" };
    Some(Url { scheme, authority: authority.into(), host: host.into(), port, prefix: format!("/{path}{slash}") })
}

/// `[::1]:80`, `[::1]`, `host:80` or `host`; an IPv6 address needs its brackets (RFC 3986 section 3.2.2).
fn split_authority(authority: &str, usual_port: u16) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(digits) => digits.parse().ok().filter(|&port| port > 0)?,
        None if port.is_empty() => usual_port,
        None => return None,
    };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, u16, String) {
        let url: Url = text.parse().unwrap();
        (url.host, url.port, url.prefix)
    }

    #[test]
    fn urls() {
        for (text, host, port, prefix) in [
            ("http://127.0.0.1:8080/", "127.0.0.1", 8080, "/"),
            ("http://example.test", "example.test", 80, "/"),
            ("http://h:1/files", "h", 1, "/files/"),
            ("http://h:1/a/b/", "h", 1, "/a/b/"),
            ("http://[::1]:8080/x/", "::1", 8080, "/x/"),
            ("http://[::1]/", "::1", 80, "/"),
            ("https://h/", "h", 443, "/"),
            ("https://[::1]:8443/x", "::1", 8443, "/x/"),
        ] {
            assert_eq!(parts(text), (host.into(), port, prefix.into()), "{text}");
        }
        assert_eq!("https://h:1/a".parse::<Url>().unwrap().to_string(), "https://h:1/a/");
    }

    #[test]
    fn what_is_no_url_says_what_is_right() {
        for wrong in [
            "",
            "h:80/",
            "ftp://h/",
            "http://",
            "https://",
            "http:///",
            "http://:80/",
            "http://h:0/",
            "http://h:x/",
            "http://h:99999/",
            "http://::1/",
            "http://[::1/",
            "http://[::1]80/",
            "http://h/a b/",
            "http://h/?q",
            "http://u@h/",
        ] {
            let said = wrong.parse::<Url>().unwrap_err();
            assert!(said.contains(&format!("`{wrong}`")) && said.contains("http://127.0.0.1:8080/"), "{said}");
        }
    }

    #[test]
    fn resolves_addresses() {
        let resolve = |text: &str| text.parse::<Url>().unwrap().resolve().ok();
        assert_eq!(resolve("http://[::1]:8080/"), "[::1]:8080".parse().ok());
        assert_eq!(resolve("http://127.0.0.1/"), "127.0.0.1:80".parse().ok());
    }
}
