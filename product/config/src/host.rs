//! Host names, and the host of a site that a request matches.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::keys::Form;
use crate::value_forms::{FromText, Wrong};

/// The maximum length of a name (RFC 1035 section 2.3.4).
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// A host in lower case: a name, an IPv4 address, or an IPv6 address in brackets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

/// A host of a site: a single host, or all names below a domain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host {
    name: HostName,
    below: bool,
}

impl HostName {
    pub fn new(text: &str) -> Option<HostName> {
        let text = text.to_ascii_lowercase();
        if let Some(address) = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
            return address.parse::<Ipv6Addr>().ok().map(|address| HostName(format!("[{address}]")));
        }
        let labels = text.len() <= NAME_BYTES_MAX && text.split('.').all(is_label);
        // Clients treat a name whose last label is a number as an address.
        let looks_numeric = text.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
        (labels && (!looks_numeric || text.parse::<IpAddr>().is_ok())).then_some(HostName(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

impl Host {
    /// Returns how specifically this matches the host, a larger number for a closer match; `None` if it does not match.
    pub fn fits(&self, host: &HostName) -> Option<usize> {
        if !self.below {
            return (self.name == *host).then_some(usize::MAX);
        }
        let above = host.0.strip_suffix(&self.name.0)?.strip_suffix('.')?;
        (!above.is_empty()).then_some(self.name.0.len())
    }
}

impl FromText for HostName {
    const FORM: Form = Form::HostName;

    fn from_text(text: &str) -> Result<HostName, Wrong> {
        HostName::new(text).ok_or(Wrong::Form)
    }
}

impl FromText for Host {
    const FORM: Form = Form::Host;

    fn from_text(text: &str) -> Result<Host, Wrong> {
        // The words of nginx and Apache for all other hosts.
        if ["_", "*", "_default_"].contains(&text) {
            return Err(Wrong::Expected("default = true in the site, for requests to all other hosts".into()));
        }
        let (name, below) = text.strip_prefix("*.").map_or((text, false), |name| (name, true));
        let name = HostName::from_text(name)?;
        let is_address = name.0.starts_with('[') || name.0.parse::<IpAddr>().is_ok();
        if below && is_address { Err(Wrong::Form) } else { Ok(Host { name, below }) }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.below { "*." } else { "" }, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_lower_case_without_port() {
        for (text, name) in [
            ("Example.ORG", "example.org"),
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::0:1]", "[::1]"),
        ] {
            assert_eq!(HostName::new(text).map(|host| host.to_string()).as_deref(), Some(name));
        }
        let long = format!("{}.org", "a".repeat(64));
        for wrong in ["", "a..b", "a.", "-a.b", "a b", "ä.org", "a:80", "[::1", "1.2.3", "300.1.1.1", "*", &long] {
            assert_eq!(HostName::new(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_longer_wildcard_fits_better() {
        let fits = |host: &str, name: &str| Host::from_text(host).unwrap().fits(&HostName::new(name).unwrap());
        assert_eq!(fits("*.b.org", "a.b.org"), Some(5));
        assert!(fits("*.b.org", "a.b.org") > fits("*.org", "a.b.org"));
        assert!(fits("a.b.org", "a.b.org") > fits("*.b.org", "a.b.org"));
        for (host, name) in [("*.b.org", "b.org"), ("*.b.org", "ab.org"), ("b.org", "a.b.org")] {
            assert_eq!(fits(host, name), None, "{host} {name}");
        }
        assert!(["*.*.org", "a*.org", "*.127.0.0.1", "*"].iter().all(|wrong| Host::from_text(wrong).is_err()));
    }
}
