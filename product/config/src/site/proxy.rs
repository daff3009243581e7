//! Proxies: requests that are passed on to upstreams.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::host::HostName;
use crate::keys::Form;
use crate::pattern::Pattern;
use crate::place::{Place, Placed};
use crate::section::Section;
use crate::unreached_rules::Rule;
use crate::value_forms::{FromText, RequestPath, Size, Timeout, Wrong};
use crate::zone::zoned;

use super::proxy_request::ProxyRequest;
use super::redirect::split_host;

/// The table `[[site.proxy]]`: the paths that are passed on, and the upstreams that answer them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    pub at: Place,
    pub path: Pattern,
    /// The upstreams. Empty if the site's files answer.
    pub to: Vec<UpstreamAddress>,
    pub request: ProxyRequest,
    /// The Host field of requests to upstreams, in place of the client's.
    pub host: Option<String>,
    /// The certificate authorities that upstreams over TLS are verified against, in place of the system's.
    pub tls_ca: Option<PathBuf>,
    /// The name that must be in the upstreams' certificates, in place of the host in their address.
    pub tls_server_name: Option<String>,
    /// The maximum number of concurrent requests to each upstream; further requests wait.
    pub max_concurrent_requests: u32,
    /// The maximum number of these requests from one client; `None` for half of them.
    pub max_concurrent_requests_per_client: Option<u32>,
    /// True if a request is sent to an upstream only after its body, or the start of it, has arrived.
    pub request_buffering: bool,
    /// The maximum number of connections to each upstream that carry a protocol other than HTTP.
    pub tunnels: u32,
    /// True if a client that has shut down its sending side still gets its response.
    pub ignore_client_abort: bool,
    pub connect_timeout: Duration,
    /// Maximum time between two bytes of a response.
    pub read_timeout: Duration,
    /// The maximum total bytes of temporary files for all responses; 0 disables them.
    pub max_temp_file_bytes: u64,
    /// The folder of files that upstreams may name instead of sending a body.
    pub accel_root: Option<PathBuf>,
    /// The health checks, if configured.
    pub health: Option<Health>,
    /// True if connections to upstreams begin with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// True if the site's error pages replace upstreams' error responses.
    pub intercept_errors: bool,
    /// True if FastCGI connections carry several requests, one after the other.
    pub fastcgi_keep_conn: bool,
    /// Paths of scripts that must not run.
    pub fastcgi_except: Vec<Pattern>,
}

/// The settings of the health checks for each upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    pub path: String,
    pub every: Duration,
    /// The time over which a recovered upstream's share grows to its full size.
    pub slow_start: Duration,
}

/// An upstream: its address and its protocol.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamAddress {
    pub version: UpstreamVersion,
    pub socket: UpstreamSocket,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpstreamVersion {
    /// The upstream speaks HTTP/1.1.
    Http1,
    /// The upstream speaks HTTP/2, over TLS or with prior knowledge (RFC 9113 section 3.3).
    Http2,
    /// The upstream speaks FastCGI 1.0, like php-fpm.
    FastCgi,
}

/// The address of an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UpstreamSocket {
    /// TCP to a host name or address, without brackets, and a port.
    Tcp(String, u16),
    /// TLS to a host name or address and a port.
    Tls(String, u16),
    Unix(PathBuf),
}

const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// The maximum length of the path in a `struct sockaddr_un`, without its terminating zero.
const UNIX_BYTES_MAX: usize = 107;

impl Proxy {
    /// Returns a proxy for all paths with default settings, as `weir proxy` needs it.
    pub fn of_all(to: Vec<UpstreamAddress>) -> Proxy {
        Proxy {
            at: Place::START,
            path: Pattern::of_path("*").expect("a pattern"),
            to,
            request: ProxyRequest::default(),
            host: None,
            tls_ca: None,
            tls_server_name: None,
            max_concurrent_requests: REQUESTS,
            max_concurrent_requests_per_client: None,
            request_buffering: true,
            tunnels: TUNNELS,
            ignore_client_abort: false,
            connect_timeout: CONNECT_TIMEOUT,
            read_timeout: READ_TIMEOUT,
            max_temp_file_bytes: TEMP_FILE_BYTES,
            accel_root: None,
            health: None,
            proxy_protocol: false,
            intercept_errors: false,
            fastcgi_keep_conn: false,
            fastcgi_except: Vec::new(),
        }
    }

    /// Returns true if the files of the site answer.
    pub fn is_of_files(&self) -> bool {
        self.to.is_empty()
    }

    /// Returns true if any upstream uses TLS.
    pub fn speaks_tls(&self) -> bool {
        self.to.iter().any(UpstreamAddress::speaks_tls)
    }

    /// The HTTP version of all its upstreams.
    pub fn version(&self) -> UpstreamVersion {
        self.to.first().map_or(UpstreamVersion::Http1, |address| address.version)
    }

    pub(crate) fn read(table: &Section<'_, '_>) -> Option<Proxy> {
        let (path, to) = (table.text::<Pattern>("path"), table.texts::<UpstreamAddress>("to"));
        let (host, health) = (table.text::<HostOnly>("host"), read_health(table));
        let (tls_ca, tls_server_name) = (table.text::<PathBuf>("tls_ca"), table.text::<HostName>("tls_server_name"));
        check_alike(table, &to);
        let numbers = ["max_concurrent_requests", "max_concurrent_requests_per_client", "tunnels"];
        let [requests, of_client, tunnels] = numbers.map(|name| table.whole_number(name));
        let flags = ["request_buffering", "ignore_client_abort", "intercept_errors", "proxy_protocol"]
            .map(|name| table.flag(name));
        let [request_buffering, ignore_client_abort, intercept_errors, proxy_protocol] = flags;
        let [connect, read] = ["connect_timeout", "read_timeout"].map(|name| table.text::<Timeout>(name));
        let (temp_files, accel_root) = (table.text::<Size>("max_temp_file_size"), table.text::<PathBuf>("accel_root"));
        if !has_upstreams(table, &to) {
            return None;
        }
        let path = path?.value;
        Some(Proxy {
            at: table.at,
            to: to.iter().map(|address| address.value.clone()).collect(),
            request: ProxyRequest::read(table, &path),
            host: host.map(|host| host.value.0),
            path,
            tls_ca: tls_ca.map(|file| file.value),
            tls_server_name: tls_server_name.map(|name| name.value.to_string()),
            max_concurrent_requests: requests?.try_into().ok()?,
            max_concurrent_requests_per_client: of_client.and_then(|most| most.try_into().ok()),
            request_buffering,
            tunnels: tunnels?.try_into().ok()?,
            ignore_client_abort,
            connect_timeout: connect?.value.0,
            read_timeout: read?.value.0,
            max_temp_file_bytes: temp_files?.value.0,
            accel_root: accel_root.map(|folder| folder.value),
            health,
            proxy_protocol,
            intercept_errors,
            fastcgi_keep_conn: read_keep_conn(table, &to),
            fastcgi_except: Vec::new(),
        })
    }
}

/// Checks that a table has upstreams, or files and no upstream keys. Returns false if the table cannot be used.
fn has_upstreams(table: &Section<'_, '_>, to: &[Placed<UpstreamAddress>]) -> bool {
    let (book, is_of_files) = (table.book, table.flag("serve_files"));
    if !is_of_files {
        if !table.is_given("to") && !table.is_wrong_flag("serve_files") {
            book.mistake(
                table.at,
                "site.proxy.to missing: expected upstreams, for example [\"127.0.0.1:3000\"], or serve_files = true",
            );
        }
        return !to.is_empty();
    }
    let others: Vec<&str> = table.given().filter(|name| !["path", "serve_files"].contains(name)).collect();
    for name in &others {
        book.mistake(table.place_of(name), format!("site.proxy.{name} with serve_files = true: expected no such key"));
    }
    others.is_empty()
}

/// Checks that all upstreams use the same protocol, and that TLS settings are given only if TLS is used.
fn check_alike(table: &Section<'_, '_>, to: &[Placed<UpstreamAddress>]) {
    let mixed = to.iter().find(|other| other.value.version != to[0].value.version);
    mixed.into_iter().for_each(|other| table.book.mistake(other.at, not_alike(&other.value, &to[0].value)));
    if !to.iter().any(|address| address.value.speaks_tls()) {
        for name in ["tls_ca", "tls_server_name"].iter().filter(|name| table.is_given(name) && !to.is_empty()) {
            let said = format!("site.proxy.{name} without an upstream over TLS: expected https:// or h2:// before one");
            table.book.mistake(table.place_of(name), said);
        }
    }
}

/// Reads whether FastCGI connections are kept, and checks that the other settings fit the protocol.
fn read_keep_conn(table: &Section<'_, '_>, to: &[Placed<UpstreamAddress>]) -> bool {
    let is_fastcgi = to.iter().any(|address| address.value.version == UpstreamVersion::FastCgi);
    let useless = if is_fastcgi {
        &["host", "health_uri", "strip_prefix", "tunnels", "proxy_protocol"][..]
    } else {
        &["fastcgi_keep_conn"]
    };
    for name in useless.iter().filter(|name| table.is_given(name)) {
        let which = if is_fastcgi { "with" } else { "without" };
        table.book.mistake(table.place_of(name), format!("site.proxy.{name} {which} FastCGI: expected no such key"));
    }
    table.flag("fastcgi_keep_conn")
}

/// A FastCGI responder: an [`UpstreamAddress`] without its scheme.
#[derive(Debug)]
pub(crate) struct Responder(pub UpstreamAddress);

impl FromText for Responder {
    const FORM: Form = Form::Responder;

    fn from_text(text: &str) -> Result<Responder, Wrong> {
        let slashes = if text.starts_with("unix:") { "" } else { "//" };
        UpstreamAddress::new(&format!("fastcgi:{slashes}{text}")).map(Responder).ok_or(Wrong::Form)
    }
}

fn not_alike(other: &UpstreamAddress, first: &UpstreamAddress) -> String {
    format!(
        "site.proxy.to has `{other}` together with `{first}`: expected upstreams of one protocol, all with h2c:// or h2://, all with fastcgi, or none"
    )
}

fn read_health(table: &Section<'_, '_>) -> Option<Health> {
    let path = table.text::<RequestPath>("health_uri");
    if !table.is_given("health_uri") {
        for name in ["health_interval", "slow_start"].iter().filter(|name| table.is_given(name)) {
            let said = format!("site.proxy.{name} without site.proxy.health_uri: expected the path of the checks");
            table.book.mistake(table.place_of(name), said);
        }
    }
    let (every, slow_start) = (table.text::<Duration>("health_interval"), table.text::<Duration>("slow_start"));
    let every = every.filter(|every| {
        let is_enough = every.value >= HEALTH_INTERVAL_MIN;
        if !is_enough {
            table.book.mistake(every.at, "site.proxy.health_interval below 1s: expected 1s or more");
        }
        is_enough
    });
    Some(Health { path: path?.value.0, every: every?.value, slow_start: slow_start?.value })
}

/// The minimum interval between health checks.
const HEALTH_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The defaults of the keys.
const REQUESTS: u32 = 256;
const TUNNELS: u32 = 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const TEMP_FILE_BYTES: u64 = 256_000_000;

impl Rule for Proxy {
    const NOUN: &'static str = "site.proxy";

    fn at(&self) -> Place {
        self.at
    }

    fn path(&self) -> Option<&Pattern> {
        Some(&self.path)
    }

    fn covers(&self, other: &Proxy) -> bool {
        self.path.covers(&other.path)
    }

    fn competes(&self, other: &Proxy) -> bool {
        self.path.meets(&other.path) && self.to != other.to
    }
}

/// A host name or an address, optionally with a port.
struct HostOnly(String);

impl FromText for HostOnly {
    const FORM: Form = Form::HostName;

    fn from_text(text: &str) -> Result<HostOnly, Wrong> {
        split_host(text).map(|_| HostOnly(text.into())).ok_or(Wrong::Form)
    }
}

/// Schemes of other servers, with their equivalents here.
const OTHER_SCHEMES: [(&str, &str); 4] = [
    ("fastcgi:", "fastcgi://HOST:PORT, fastcgi:HOST:PORT or fastcgi:unix:/PATH, for example fastcgi://127.0.0.1:9000"),
    ("grpc://", "h2c:// for gRPC, for example h2c://127.0.0.1:50051"),
    ("grpcs://", "h2:// for gRPC over TLS, for example h2://app.internal:443"),
    ("h2c:/", "h2c://HOST:PORT or h2c:unix:/PATH, for example h2c://127.0.0.1:50051"),
];

const NO_PATH: &str = "an upstream without a path; strip_prefix and [[site.rewrite]] change the paths of its requests";

impl UpstreamAddress {
    /// Returns true if the upstream's host is a name that must be resolved.
    pub fn is_named(&self) -> bool {
        match &self.socket {
            UpstreamSocket::Tcp(host, _) | UpstreamSocket::Tls(host, _) => host.parse::<IpAddr>().is_err(),
            UpstreamSocket::Unix(_) => false,
        }
    }

    /// Returns true if a listener at this address is this upstream.
    pub(super) fn is_at(&self, listener: SocketAddr) -> bool {
        let (UpstreamSocket::Tcp(host, port) | UpstreamSocket::Tls(host, port)) = &self.socket else { return false };
        let own = if host == "localhost" { Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)) } else { host.parse::<IpAddr>() };
        let is_there = |own: IpAddr| own == listener.ip() || listener.ip().is_unspecified() && own.is_loopback();
        *port == listener.port() && own.is_ok_and(is_there)
    }

    pub fn speaks_tls(&self) -> bool {
        matches!(self.socket, UpstreamSocket::Tls(..))
    }

    /// Returns the Host for a request that has none (HTTP/1.0), as nginx does and as HAProxy does in health checks.
    /// Many programs refuse an empty Host.
    pub fn authority(&self) -> String {
        let (host, port) = match &self.socket {
            UpstreamSocket::Tcp(host, port) => (host, *port),
            UpstreamSocket::Tls(host, port) => (host, *port),
            UpstreamSocket::Unix(_) => return "localhost".into(),
        };
        // A zone means something on this machine alone (RFC 6874 section 4).
        let host = host.split('%').next().unwrap_or_default();
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_string() };
        let is_usual = port == if self.speaks_tls() { HTTPS_PORT } else { HTTP_PORT };
        if is_usual { host } else { format!("{host}:{port}") }
    }

    /// Parses a port, a host and a port, or `unix:` and the path of a socket. The text may start with `http://` (port 80),
    /// `https://` (TLS), `h2c://` (HTTP/2; `h2c:unix:` for a socket), `h2://` (HTTP/2 over TLS), or `fastcgi://`, whose
    /// slashes may be left out (`fastcgi:127.0.0.1:9000`, `fastcgi:unix:`).
    ///
    /// A link-local address has its interface: `[fe80::1%eth0]:80`, in a URL also `[fe80::1%25eth0]` (RFC 6874).
    pub fn new(text: &str) -> Option<UpstreamAddress> {
        let text = &*in_plain_zone(text);
        let (version, socket) = match text.split_once(':') {
            Some(("h2", rest)) => (UpstreamVersion::Http2, over_tls(rest.strip_prefix("//")?)?),
            Some(("h2c", rest)) if rest.starts_with("unix:") => (UpstreamVersion::Http2, socket(rest)?),
            Some(("h2c", rest)) => (UpstreamVersion::Http2, socket(rest.strip_prefix("//")?)?),
            Some(("fastcgi", rest)) if rest.starts_with("unix:") => (UpstreamVersion::FastCgi, socket(rest)?),
            Some(("fastcgi", rest)) => (UpstreamVersion::FastCgi, responder_socket(rest)?),
            Some(("https", rest)) if rest.starts_with("//") => (UpstreamVersion::Http1, over_tls(&rest[2..])?),
            Some(("http", rest)) if rest.starts_with("//") => (UpstreamVersion::Http1, in_clear(&rest[2..])?),
            _ => (UpstreamVersion::Http1, socket(text)?),
        };
        Some(UpstreamAddress { version, socket })
    }

    /// Returns true if the text is an upstream, except for the path of a URL, as `proxy_pass` of nginx has it.
    fn has_path(text: &str) -> bool {
        let path_at = text.find("://").and_then(|at| Some(at + 3 + text[at + 3..].find('/')?));
        path_at.is_some_and(|at| UpstreamAddress::new(&text[..at]).is_some())
    }
}

/// Decodes the `%25` before the zone of an address in a URL.
fn in_plain_zone(text: &str) -> Cow<'_, str> {
    match text.split_once("%25") {
        Some((before, zone)) if before.contains("://[") && !zone.starts_with(']') => format!("{before}%{zone}").into(),
        _ => text.into(),
    }
}

fn socket(text: &str) -> Option<UpstreamSocket> {
    if let Some(path) = text.strip_prefix("unix:") {
        let is_path = path.starts_with('/') && path.len() <= UNIX_BYTES_MAX && !path.chars().any(char::is_control);
        return is_path.then(|| UpstreamSocket::Unix(path.into()));
    }
    let authority = text.strip_suffix('/').unwrap_or(text);
    if let Some(port) = port_of(authority.strip_prefix(':').unwrap_or(authority)) {
        return Some(UpstreamSocket::Tcp("127.0.0.1".into(), port));
    }
    let (host, port) = host_and_port(authority)?;
    Some(UpstreamSocket::Tcp(host, port))
}

/// Parses the text after `fastcgi:`. Without slashes it must have a host: `fastcgi:9000` could be a port, or the host
/// `fastcgi`.
fn responder_socket(text: &str) -> Option<UpstreamSocket> {
    match text.strip_prefix("//") {
        Some(authority) => socket(authority),
        None => host_and_port(text).map(|(host, port)| UpstreamSocket::Tcp(host, port)),
    }
}

fn in_clear(authority: &str) -> Option<UpstreamSocket> {
    let host = authority.strip_suffix('/').unwrap_or(authority);
    socket(authority).or_else(|| Some(UpstreamSocket::Tcp(host_of(host)?, HTTP_PORT)))
}

fn over_tls(authority: &str) -> Option<UpstreamSocket> {
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    Some(match host_and_port(authority) {
        Some((host, port)) => UpstreamSocket::Tls(host, port),
        None => UpstreamSocket::Tls(host_of(authority)?, HTTPS_PORT),
    })
}

fn host_and_port(authority: &str) -> Option<(String, u16)> {
    let (host, port) = authority.rsplit_once(':')?;
    Some((host_of(host)?, port_of(port)?))
}

/// The host without brackets. Digits alone would be a port in the wrong place.
fn host_of(text: &str) -> Option<String> {
    let in_brackets = text.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if let Some(host) = in_brackets.filter(|host| zoned(host).is_some()) {
        return Some(host.into());
    }
    HostName::new(text).filter(|_| !text.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(in_brackets.unwrap_or(text).into())
}

fn port_of(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port > 0)
}

impl FromText for UpstreamAddress {
    const FORM: Form = Form::Upstream;

    fn from_text(text: &str) -> Result<UpstreamAddress, Wrong> {
        UpstreamAddress::new(text).ok_or_else(|| {
            if UpstreamAddress::has_path(text) {
                return Wrong::Expected(NO_PATH.into());
            }
            let other = OTHER_SCHEMES.iter().find(|(scheme, _)| text.starts_with(scheme));
            other.map_or(Wrong::Form, |(_, expected)| Wrong::Expected((*expected).into()))
        })
    }
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, of_socket, over_tls) = match self.version {
            UpstreamVersion::Http1 => ("", "", "https://"),
            UpstreamVersion::Http2 => ("h2c://", "h2c:", "h2://"),
            UpstreamVersion::FastCgi => ("fastcgi://", "fastcgi:", ""),
        };
        let (scheme, host, port) = match &self.socket {
            UpstreamSocket::Tcp(host, port) => (scheme, host, port),
            UpstreamSocket::Tls(host, port) => (over_tls, host, port),
            UpstreamSocket::Unix(path) => return write!(f, "{of_socket}unix:{}", path.display()),
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
    fn a_request_without_a_host_gets_that_of_its_upstream() {
        for (text, authority) in [
            ("3000", "127.0.0.1:3000"),
            ("app.internal:80", "app.internal"),
            ("[::1]:80", "[::1]"),
            ("https://app.internal", "app.internal"),
            ("https://[::1]:80", "[::1]:80"),
            ("[fe80::1%eth0]:81", "[fe80::1]:81"),
            ("h2c://app.internal:443", "app.internal:443"),
            ("unix:/run/app.sock", "localhost"),
        ] {
            assert_eq!(UpstreamAddress::new(text).unwrap().authority(), authority, "{text}");
        }
    }

    #[test]
    fn an_upstream_is_a_port_a_host_with_one_or_a_socket() {
        for (text, shown) in [
            ("3000", "127.0.0.1:3000"),
            (":3000", "127.0.0.1:3000"),
            ("localhost:80", "localhost:80"),
            ("http://app.internal:8080/", "app.internal:8080"),
            ("192.0.2.1:1", "192.0.2.1:1"),
            ("[::1]:65535", "[::1]:65535"),
            ("[fe80::1%eth0]:80", "[fe80::1%eth0]:80"),
            ("[fe80::1%251]:80", "[fe80::1%251]:80"),
            ("http://[fe80::1%25eth0]", "[fe80::1%eth0]:80"),
            ("http://[fe80::1%2]/", "[fe80::1%2]:80"),
            ("http://[fe80::1%25]/", "[fe80::1%25]:80"),
            ("h2c://[fe80::1%251]:81", "h2c://[fe80::1%1]:81"),
            ("unix:/run/app.sock", "unix:/run/app.sock"),
            ("http://app.internal", "app.internal:80"),
            ("http://192.0.2.1/", "192.0.2.1:80"),
            ("http://[::1]", "[::1]:80"),
            ("http://:3000", "127.0.0.1:3000"),
            ("https://app.internal:8443/", "https://app.internal:8443"),
            ("https://app.internal", "https://app.internal:443"),
            ("https://[::1]", "https://[::1]:443"),
            ("h2c://:50051", "h2c://127.0.0.1:50051"),
            ("h2c://[::1]:50051/", "h2c://[::1]:50051"),
            ("h2c:unix:/run/app.sock", "h2c:unix:/run/app.sock"),
            ("h2://app.internal", "h2://app.internal:443"),
            ("h2://app.internal:8443", "h2://app.internal:8443"),
            ("fastcgi://:9000", "fastcgi://127.0.0.1:9000"),
            ("fastcgi:127.0.0.1:9000", "fastcgi://127.0.0.1:9000"),
            ("fastcgi:[::1]:9000", "fastcgi://[::1]:9000"),
            ("fastcgi:unix:/run/php/php-fpm.sock", "fastcgi:unix:/run/php/php-fpm.sock"),
        ] {
            assert_eq!(UpstreamAddress::new(text).map(|to| to.to_string()).as_deref(), Some(shown), "{text}");
        }
    }

    #[test]
    fn what_is_no_upstream_is_refused() {
        for wrong in [
            "",
            ":",
            "app",
            "app:",
            "app:0",
            ":65536",
            "::1:80",
            "a b:1",
            "http://",
            "http://a:",
            "http://65536",
            "https://3000",
            "unix:run",
            "unix:",
            "ftp://a:1",
            "https://",
            "https://:443",
            "https://a:0",
            "https://a b",
            "+1",
            "h2c://app",
            "h2c://",
            "h2c:app:1",
            "h2c:unix:app",
            "h2://",
            "h2:app:1",
            "h2://unix:/run/app.sock",
            "grpc://app:1",
            "fastcgi:app",
            "fastcgi:9000",
            "fastcgi::9000",
            "fastcgi:///app:1",
            "fastcgi://app",
            "fastcgi:unix:app",
        ] {
            assert_eq!(UpstreamAddress::new(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_path_of_an_upstream_is_named() {
        for text in ["http://a:1/x", "http://app.internal/x/", "https://a:1/x", "h2://a/x", "https://[::1]:8443/x?y"] {
            assert_eq!(UpstreamAddress::from_text(text), Err(Wrong::Expected(NO_PATH.into())), "{text}");
        }
        assert_eq!(UpstreamAddress::from_text("ftp://a:1/x"), Err(Wrong::Form));
    }

    /// A proxy of a flag is that of a table with only its upstreams.
    #[test]
    fn the_defaults_are_those_of_the_keys() {
        let proxy = Proxy::of_all(vec![UpstreamAddress::new("a:1").unwrap()]);
        let default = |name: &str| match Key::of(&format!("site.proxy.{name}")).unwrap().default {
            crate::keys::Unset::Is(text) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(default("path"), proxy.path.to_string());
        assert_eq!(default("max_concurrent_requests"), proxy.max_concurrent_requests.to_string());
        assert_eq!(default("tunnels"), proxy.tunnels.to_string());
        assert_eq!(default("request_buffering"), proxy.request_buffering.to_string());
        assert_eq!(default("ignore_client_abort"), proxy.ignore_client_abort.to_string());
        for (name, time) in [("connect_timeout", proxy.connect_timeout), ("read_timeout", proxy.read_timeout)] {
            assert_eq!(Duration::from_text(default(name)), Ok(time));
        }
        assert_eq!(Size::from_text(default("max_temp_file_size")), Ok(Size(proxy.max_temp_file_bytes)));
    }
}
