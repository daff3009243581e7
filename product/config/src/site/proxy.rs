//! Requests that are passed on to other servers.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::form::{FromText, Size, Wrong};
use crate::host::HostName;
use crate::keys::Form;
use crate::pattern::Pattern;
use crate::place::Place;
use crate::reach::Rule;
use crate::section::Section;

use super::redirect::split_host;

/// The requests of some paths, and the servers that answer them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    pub at: Place,
    pub path: Pattern,
    /// At least one.
    pub to: Vec<UpstreamAddress>,
    /// The host that upstreams are told, in place of the client's.
    pub host: Option<String>,
    /// The authorities that upstreams over TLS are trusted by, in place of the system's.
    pub ca: Option<PathBuf>,
    /// The name that their certificates are for, in place of the host of their address.
    pub tls_name: Option<String>,
    /// Requests at once to each upstream; the others wait.
    pub requests: u32,
    pub connect_timeout: Duration,
    /// Between two bytes of a response.
    pub read_timeout: Duration,
    /// Bytes of responses on disk at once; 0: none.
    pub spool_bytes: u64,
    /// Folder of the files that upstreams may name in the place of a body.
    pub files: Option<PathBuf>,
}

/// Where an upstream listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UpstreamAddress {
    /// A host name or an address, without brackets, and a port.
    Tcp(String, u16),
    /// The same over TLS.
    Tls(String, u16),
    Unix(PathBuf),
}

const HTTPS_PORT: u16 = 443;

/// Of `struct sockaddr_un`, without the byte that ends it.
const UNIX_BYTES_MAX: usize = 107;

impl Proxy {
    /// Of all paths, as a flag has it.
    pub fn of_all(to: Vec<UpstreamAddress>) -> Proxy {
        Proxy {
            at: Place::START,
            path: Pattern::of_path("*").expect("a pattern"),
            to,
            host: None,
            ca: None,
            tls_name: None,
            requests: REQUESTS,
            connect_timeout: CONNECT_TIMEOUT,
            read_timeout: READ_TIMEOUT,
            spool_bytes: SPOOL_BYTES,
            files: None,
        }
    }

    /// Any of its upstreams speaks TLS.
    pub fn speaks_tls(&self) -> bool {
        self.to.iter().any(|address| matches!(address, UpstreamAddress::Tls(..)))
    }

    pub(crate) fn read(table: &Section<'_, '_>) -> Option<Proxy> {
        let path = table.text::<Pattern>("path");
        let to = table.texts::<UpstreamAddress>("to");
        let host = table.text::<HostOnly>("host");
        let (ca, tls_name) = (table.text::<PathBuf>("ca"), table.text::<HostName>("tls_name"));
        if !to.iter().any(|address| matches!(address.value, UpstreamAddress::Tls(..))) {
            for name in ["ca", "tls_name"].iter().filter(|name| table.is_given(name) && !to.is_empty()) {
                let said = format!("site.proxy.{name} without an upstream over TLS: expected https:// before one");
                table.book.mistake(table.place_of(name), said);
            }
        }
        let requests = table.whole_number("requests");
        let times = [table.text::<Duration>("connect_timeout"), table.text::<Duration>("read_timeout")];
        let [connect_timeout, read_timeout] = times;
        let (spool, files) = (table.text::<Size>("spool"), table.text::<PathBuf>("files"));
        if to.is_empty() {
            return None;
        }
        Some(Proxy {
            at: table.at,
            path: path?.value,
            to: to.into_iter().map(|address| address.value).collect(),
            host: host.map(|host| host.value.0),
            ca: ca.map(|file| file.value),
            tls_name: tls_name.map(|name| name.value.to_string()),
            requests: requests?.try_into().ok()?,
            connect_timeout: connect_timeout?.value,
            read_timeout: read_timeout?.value,
            spool_bytes: spool?.value.0,
            files: files.map(|files| files.value),
        })
    }
}

/// The defaults of the keys.
const REQUESTS: u32 = 256;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const SPOOL_BYTES: u64 = 256_000_000;

impl Rule for Proxy {
    const NOUN: &'static str = "site.proxy";

    fn at(&self) -> Place {
        self.at
    }

    fn covers(&self, other: &Proxy) -> bool {
        self.path.covers(&other.path)
    }

    fn competes(&self, other: &Proxy) -> bool {
        self.path.meets(&other.path) && self.to != other.to
    }
}

/// A host name or an address, with a port or without.
struct HostOnly(String);

impl FromText for HostOnly {
    const FORM: Form = Form::HostName;

    fn from_text(text: &str) -> Result<HostOnly, Wrong> {
        split_host(text).map(|_| HostOnly(text.into())).ok_or(Wrong::Form)
    }
}

impl UpstreamAddress {
    /// Its host is a name, whose addresses have to be asked for.
    pub fn is_named(&self) -> bool {
        match self {
            UpstreamAddress::Tcp(host, _) | UpstreamAddress::Tls(host, _) => host.parse::<IpAddr>().is_err(),
            UpstreamAddress::Unix(_) => false,
        }
    }

    /// A port, a host and a port, or `unix:` and the path of a socket; `http://` may stand before it.
    pub fn new(text: &str) -> Option<UpstreamAddress> {
        if let Some(path) = text.strip_prefix("unix:") {
            let is_path = path.starts_with('/') && path.len() <= UNIX_BYTES_MAX && !path.chars().any(char::is_control);
            return is_path.then(|| UpstreamAddress::Unix(path.into()));
        }
        if let Some(authority) = text.strip_prefix("https://") {
            let authority = authority.strip_suffix('/').unwrap_or(authority);
            return Some(match host_and_port(authority) {
                Some((host, port)) => UpstreamAddress::Tls(host, port),
                None => UpstreamAddress::Tls(host_of(authority)?, HTTPS_PORT),
            });
        }
        let authority = text.strip_prefix("http://").unwrap_or(text);
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if let Some(port) = port_of(authority.strip_prefix(':').unwrap_or(authority)) {
            return Some(UpstreamAddress::Tcp("127.0.0.1".into(), port));
        }
        let (host, port) = host_and_port(authority)?;
        Some(UpstreamAddress::Tcp(host, port))
    }
}

fn host_and_port(authority: &str) -> Option<(String, u16)> {
    let (host, port) = authority.rsplit_once(':')?;
    Some((host_of(host)?, port_of(port)?))
}

/// Without brackets.
fn host_of(text: &str) -> Option<String> {
    HostName::new(text)?;
    Some(text.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(text).into())
}

fn port_of(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port > 0)
}

impl FromText for UpstreamAddress {
    const FORM: Form = Form::Upstream;

    fn from_text(text: &str) -> Result<UpstreamAddress, Wrong> {
        UpstreamAddress::new(text).ok_or(Wrong::Form)
    }
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host, port) = match self {
            UpstreamAddress::Tcp(host, port) => ("", host, port),
            UpstreamAddress::Tls(host, port) => ("https://", host, port),
            UpstreamAddress::Unix(path) => return write!(f, "unix:{}", path.display()),
        };
        match host.contains(':') {
            true => write!(f, "{scheme}[{host}]:{port}"),
            false => write!(f, "{scheme}{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Key;

    #[test]
    fn an_upstream_is_a_port_a_host_with_one_or_a_socket() {
        for (text, shown) in [
            ("3000", "127.0.0.1:3000"),
            (":3000", "127.0.0.1:3000"),
            ("localhost:80", "localhost:80"),
            ("http://app.internal:8080/", "app.internal:8080"),
            ("192.0.2.1:1", "192.0.2.1:1"),
            ("[::1]:65535", "[::1]:65535"),
            ("unix:/run/app.sock", "unix:/run/app.sock"),
            ("https://app.internal:8443/", "https://app.internal:8443"),
            ("https://app.internal", "https://app.internal:443"),
            ("https://[::1]", "https://[::1]:443"),
        ] {
            assert_eq!(UpstreamAddress::new(text).map(|to| to.to_string()).as_deref(), Some(shown), "{text}");
        }
        for wrong in [
            "",
            ":",
            "app",
            "app:",
            "app:0",
            ":65536",
            "::1:80",
            "a b:1",
            "http://a:1/x",
            "unix:run",
            "unix:",
            "ftp://a:1",
            "https://",
            "https://:443",
            "https://a:1/x",
            "https://a:0",
            "https://a b",
            "+1",
        ] {
            assert_eq!(UpstreamAddress::new(wrong), None, "{wrong}");
        }
    }

    /// A proxy of a flag is that of a table with nothing but its upstreams.
    #[test]
    fn the_defaults_are_those_of_the_keys() {
        let proxy = Proxy::of_all(vec![UpstreamAddress::Tcp("a".into(), 1)]);
        let default = |name: &str| match Key::of(&format!("site.proxy.{name}")).unwrap().default {
            crate::keys::Unset::Is(text) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(default("path"), proxy.path.to_string());
        assert_eq!(default("requests"), proxy.requests.to_string());
        for (name, time) in [("connect_timeout", proxy.connect_timeout), ("read_timeout", proxy.read_timeout)] {
            assert_eq!(Duration::from_text(default(name)), Ok(time));
        }
        assert_eq!(Size::from_text(default("spool")), Ok(Size(proxy.spool_bytes)));
    }
}
