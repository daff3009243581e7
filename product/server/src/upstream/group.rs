//! The group of upstreams to which the requests for a path are passed on, as configured.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use config::{Proxy, ProxyRequest, Statuses, UpstreamAddress, UpstreamVersion};
use http::gateway::FieldChange;
use http::{BodyLength, Request};
use sched::routes::Route;
use sched::upstream_queue::Bounds;
use thiserror::Error;
use tls::{ClientSession, Connector, RootsError};
use units::Nanos;

use super::addresses::Addresses;
use super::resolver::Names;
use super::{Endpoint, EndpointAddress, HealthCheck, NamedFiles, Run, Scripts, TlsEndpoint};
use crate::disk::Room;

/// Upstreams that answer the same requests.
#[derive(Debug)]
pub struct Group {
    /// The site to which the upstreams belong. The sizes of their responses are learned under this name.
    pub site: String,
    /// The addresses of the upstreams. All upstreams speak the same version of HTTP. A name with several addresses
    /// counts as several upstreams.
    pub addresses: Addresses,
    pub version: UpstreamVersion,
    /// The scheme of the connections to the upstreams.
    pub scheme: &'static str,
    /// Changes to requests, and limits on them, that apply before the upstreams get them.
    pub request: ProxyRequest,
    /// The Host that the upstreams receive instead of the client's.
    pub host: Option<String>,
    /// The Host that the upstreams receive if the client's request has none.
    pub authority: String,
    /// The limits on concurrent requests to each upstream.
    pub bounds: Bounds,
    /// The maximum number of concurrent tunnels to each upstream.
    pub tunnels_max: u32,
    /// True if a request takes its place at an upstream only when its body, or the beginning of its body, has arrived.
    pub buffers_requests: bool,
    /// True if clients that have shut their sending side are served to the end, because they may still be reading.
    pub ignores_client_abort: bool,
    pub connect_timeout: Nanos,
    /// The maximum time between two bytes of a response.
    pub read_timeout: Nanos,
    /// The disk space for responses that wait for their clients; `None` keeps them in memory.
    pub spool: Option<Arc<Room>>,
    /// The files that upstreams may name in place of a body.
    pub files: Option<NamedFiles>,
    /// The health check; `None` disables it.
    pub health: Option<HealthCheck>,
    /// True if connections to the upstreams begin with the address of the client whose requests they carry (PROXY
    /// protocol).
    pub tells_client: bool,
    /// The error statuses for which the site's page replaces the upstream's response.
    pub intercepted: Vec<Statuses>,
    /// The scripts that the upstreams run, if they speak FastCGI.
    pub scripts: Option<Scripts>,
}

/// A request to be passed on to upstreams.
#[derive(Debug)]
pub struct PassOn {
    pub group: Arc<Group>,
    /// The fields that are set or removed before the request is passed on.
    pub changes: Vec<FieldChange>,
    /// The script that the upstreams run for the request, if they speak FastCGI.
    pub run: Option<Box<Run>>,
}

/// A function that returns the connector that trusts the authorities in this file, or the system's authorities without
/// one.
pub type Trust<'t> = dyn Fn(Option<&Path>) -> Result<Connector, RootsError> + 't;

/// The reason why upstreams cannot be set up.
#[derive(Debug, Error)]
pub enum GroupError {
    #[error("upstreams over TLS: {0}")]
    Roots(#[from] RootsError),
}

impl Group {
    /// Returns the route of a request, as far as the request determines it; the response determines the rest.
    pub fn route<'r>(&'r self, request: &'r Request<'r>) -> Route<'r> {
        let (site, method) = (self.site.as_bytes(), request.method.token());
        Route { site, method, path: request.path, ..Route::default() }
    }

    /// Returns the path under which the upstreams receive this path of a request.
    pub fn path_for<'r>(&self, path: &'r [u8]) -> &'r [u8] {
        let prefix = self.request.strip_prefix.as_deref();
        prefix.and_then(|prefix| http::strip_prefix(path, prefix.as_bytes())).unwrap_or(path)
    }

    /// Returns true if a request announces a larger body than is allowed.
    pub fn refuses_body(&self, body: BodyLength) -> bool {
        let announced = if let BodyLength::Known(length) = body { length.bytes() } else { 0 };
        self.request.max_body_bytes.is_some_and(|bytes_max| announced > bytes_max)
    }

    /// Returns true if the upstreams speak HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.version == UpstreamVersion::Http2
    }

    /// Returns true if a page of the site replaces a response with this status.
    pub fn intercepts(&self, status: http::Status) -> bool {
        self.intercepted.iter().any(|statuses| statuses.has(status.0))
    }

    /// The endpoints known now.
    pub fn endpoints(&self) -> Arc<[Endpoint]> {
        self.addresses.now()
    }

    /// Creates a group without files, and with the currently known addresses of names. The disk space of the group is a
    /// part of `spool`.
    pub fn new(
        site: &str,
        proxy: &Proxy,
        spool: &Arc<Room>,
        trust: &Trust,
        names: &Arc<Names>,
    ) -> Result<Group, GroupError> {
        let connector = proxy.speaks_tls().then(|| trust(proxy.tls_ca.as_deref())).transpose()?;
        let speaks_tls = proxy.to.first().is_some_and(UpstreamAddress::speaks_tls);
        Ok(Group {
            site: site.to_string(),
            addresses: Addresses::of_all(&proxy.to, proxy.tls_server_name.as_deref(), connector.as_ref(), names),
            version: proxy.version(),
            scheme: if speaks_tls { "https" } else { "http" },
            request: proxy.request.clone(),
            host: proxy.host.clone(),
            authority: proxy.to.first().map_or_else(String::new, UpstreamAddress::authority),
            bounds: bounds(proxy),
            tunnels_max: proxy.tunnels,
            buffers_requests: proxy.request_buffering,
            ignores_client_abort: proxy.ignore_client_abort,
            connect_timeout: proxy.connect_timeout.into(),
            read_timeout: proxy.read_timeout.into(),
            spool: (proxy.max_temp_file_bytes > 0).then(|| spool.part(proxy.max_temp_file_bytes)),
            files: None,
            health: proxy.health.as_ref().map(|health| HealthCheck {
                path: health.path.clone(),
                every: health.every.into(),
                slow_start: health.slow_start.into(),
            }),
            tells_client: proxy.proxy_protocol,
            intercepted: Vec::new(),
            scripts: None,
        })
    }

    /// Creates a group of this upstream alone, for its health checks. A check does not take a place from other
    /// requests, and may last no longer than a connection attempt.
    pub fn probing(&self, endpoint: &Endpoint) -> Group {
        Group {
            site: self.site.clone(),
            addresses: Addresses::of(endpoint.clone()),
            version: self.version,
            scheme: self.scheme,
            request: ProxyRequest::default(),
            host: self.host.clone(),
            authority: self.authority.clone(),
            bounds: self.bounds,
            tunnels_max: self.tunnels_max,
            buffers_requests: false,
            ignores_client_abort: false,
            connect_timeout: self.connect_timeout,
            read_timeout: self.connect_timeout,
            spool: None,
            files: None,
            health: None,
            tells_client: self.tells_client,
            intercepted: Vec::new(),
            scripts: None,
        }
    }
}

fn bounds(proxy: &Proxy) -> Bounds {
    let halves = Bounds::halves(proxy.max_concurrent_requests);
    proxy.max_concurrent_requests_per_client.map_or(halves, |of_client| halves.of_client(of_client))
}

impl Endpoint {
    pub fn is_http2(&self) -> bool {
        self.version == UpstreamVersion::Http2
    }

    /// Returns the same endpoint over HTTP/1.1.
    pub fn over_http1(&self) -> Endpoint {
        Endpoint { version: UpstreamVersion::Http1, address: self.address.clone() }
    }

    /// Creates the TLS session of a connection to this endpoint, if it speaks TLS.
    pub fn session(&self) -> io::Result<Option<Box<ClientSession>>> {
        let EndpointAddress::Tls(TlsEndpoint { name, connector, .. }) = &self.address else { return Ok(None) };
        let session = match self.version {
            UpstreamVersion::Http1 | UpstreamVersion::FastCgi => ClientSession::new(connector, name),
            UpstreamVersion::Http2 => ClientSession::over_http2(connector, name),
        };
        session.map(|session| Some(Box::new(session))).ok_or_else(|| io::Error::other("no name for its certificate"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tcp, unix, tls) = match self.version {
            UpstreamVersion::Http1 => ("", "", "https"),
            UpstreamVersion::Http2 => ("h2c://", "h2c:", "h2"),
            UpstreamVersion::FastCgi => ("fastcgi://", "fastcgi:", ""),
        };
        match &self.address {
            EndpointAddress::Tcp(address) => write!(f, "{tcp}{address}"),
            EndpointAddress::Unix(path) => write!(f, "{unix}unix:{}", path.display()),
            EndpointAddress::Tls(to) if to.name == to.address.ip().to_string() => write!(f, "{tls}://{}", to.address),
            EndpointAddress::Tls(to) => {
                write!(f, "{tls}://{}:{} ({})", to.name, to.address.port(), to.address.ip())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_trust(_: Option<&Path>) -> Result<Connector, RootsError> {
        unreachable!("no upstream speaks TLS")
    }

    #[test]
    fn upstreams_of_a_file_are_shown_as_it_has_them() {
        let group = |to: &[&str]| {
            let proxy = Proxy::of_all(to.iter().map(|text| UpstreamAddress::new(text).unwrap()).collect());
            Group::new("a", &proxy, &Room::new(1), &no_trust, &Arc::default()).unwrap()
        };
        let shown = |group: &Group| group.endpoints().iter().map(ToString::to_string).collect::<Vec<_>>();
        let plain = group(&[":1", "unix:/a", "[::1]:2"]);
        assert_eq!(
            (shown(&plain), plain.is_http2()),
            (["127.0.0.1:1", "unix:/a", "[::1]:2"].map(Into::into).into(), false)
        );
        let framed = group(&["h2c://:1", "h2c:unix:/a"]);
        assert_eq!(
            (shown(&framed), framed.is_http2()),
            (["h2c://127.0.0.1:1", "h2c:unix:/a"].map(Into::into).into(), true)
        );
    }
}
