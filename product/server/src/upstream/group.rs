//! Where requests of a path are passed on to, as the file says it, with names resolved.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{Proxy, UpstreamAddress, UpstreamSocket, UpstreamVersion};
use http::Request;
use sched::routes::Route;
use thiserror::Error;
use tls::{ClientSession, Connector, RootsError};
use units::Nanos;

use super::{HealthCheck, NamedFiles};
use crate::storage::Room;

/// Upstreams that answer the same requests.
#[derive(Debug)]
pub struct Group {
    /// The site that they are of, for what is learned of its responses.
    pub site: String,
    /// At least one, all of one version; a name with several addresses is as many.
    pub endpoints: Vec<Endpoint>,
    /// The host that they are told, in place of the client's.
    pub host: Option<String>,
    /// Requests at once to each.
    pub requests_max: u32,
    pub connect_timeout: Nanos,
    /// Between two bytes of a response.
    pub read_timeout: Nanos,
    /// On disk, for responses that wait for their clients; `None`: they wait here.
    pub spool: Option<Arc<Room>>,
    /// Those that they may name in the place of a body.
    pub files: Option<NamedFiles>,
    /// How those that are well are known; `None`: by the requests that they answer.
    pub health: Option<HealthCheck>,
    /// Their connections begin with the address of the client that they are for (PROXY protocol).
    pub tells_client: bool,
}

/// An address at which an upstream listens, and what it speaks there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub version: UpstreamVersion,
    pub address: EndpointAddress,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EndpointAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
    Tls(TlsEndpoint),
}

/// One that speaks TLS. Where the name or what it is trusted by differs, its connections are not shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsEndpoint {
    pub address: SocketAddr,
    /// That its certificate is for.
    pub name: String,
    pub connector: Connector,
}

impl Hash for TlsEndpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.address, &self.name).hash(state);
    }
}

/// Gives what upstreams are trusted by that these authorities vouch for, or those of the system.
pub type Trust<'t> = dyn Fn(Option<&Path>) -> Result<Connector, RootsError> + 't;

/// Why there are no upstreams.
#[derive(Debug, Error)]
pub enum GroupError {
    #[error("cannot find upstream {0}: {1}; expected a name with an address, for example 127.0.0.1:3000")]
    Address(UpstreamAddress, #[source] io::Error),
    #[error("upstreams over TLS: {0}")]
    Roots(#[from] RootsError),
}

/// Addresses of one name at most.
const ADDRESSES_MAX: usize = 16;

impl Group {
    /// Of a request, as far as it tells; its response tells the rest.
    pub fn route<'r>(&'r self, request: &Request<'r>) -> Route<'r> {
        let (site, method) = (self.site.as_bytes(), request.method.token().as_bytes());
        Route { site, method, path: request.path, ..Route::default() }
    }

    /// Its upstreams speak HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.endpoints.first().is_some_and(Endpoint::is_http2)
    }

    /// That of the connections to its upstreams.
    pub fn scheme(&self) -> &'static str {
        let speaks_tls = |endpoint: &Endpoint| matches!(endpoint.address, EndpointAddress::Tls(_));
        if self.endpoints.first().is_some_and(speaks_tls) { "https" } else { "http" }
    }

    /// Asks the resolver, and waits for it; without files. The room on disk is a part of this one.
    pub fn resolve(site: &str, proxy: &Proxy, spool: &Arc<Room>, trust: &Trust) -> Result<Group, GroupError> {
        let connector = proxy.speaks_tls().then(|| trust(proxy.ca.as_deref())).transpose()?;
        let mut endpoints = Vec::new();
        for address in &proxy.to {
            let found = Endpoint::resolve(address, proxy.tls_name.as_deref(), connector.as_ref());
            endpoints.extend(found.map_err(|error| GroupError::Address(address.clone(), error))?);
        }
        Ok(Group {
            site: site.to_string(),
            endpoints,
            host: proxy.host.clone(),
            requests_max: proxy.requests,
            connect_timeout: proxy.connect_timeout.into(),
            read_timeout: proxy.read_timeout.into(),
            spool: (proxy.spool_bytes > 0).then(|| spool.part(proxy.spool_bytes)),
            files: None,
            health: proxy.health.as_ref().map(|health| HealthCheck {
                path: health.path.clone(),
                every: health.every.into(),
                slow_start: health.slow_start.into(),
            }),
            tells_client: proxy.proxy_protocol,
        })
    }

    /// One upstream of these, to be asked how it is: that takes no place from others, and no longer than to connect.
    pub fn probing(&self, endpoint: &Endpoint) -> Group {
        Group {
            site: self.site.clone(),
            endpoints: vec![endpoint.clone()],
            host: self.host.clone(),
            requests_max: u32::MAX,
            connect_timeout: self.connect_timeout,
            read_timeout: self.connect_timeout,
            spool: None,
            files: None,
            health: None,
            tells_client: self.tells_client,
        }
    }
}

impl Endpoint {
    fn resolve(
        upstream: &UpstreamAddress,
        tls_name: Option<&str>,
        connector: Option<&Connector>,
    ) -> io::Result<Vec<Endpoint>> {
        let version = upstream.version;
        let (host, port, connector) = match &upstream.socket {
            UpstreamSocket::Unix(path) => {
                return Ok(vec![Endpoint { version, address: EndpointAddress::Unix(path.clone()) }]);
            }
            UpstreamSocket::Tcp(host, port) => (host, port, None),
            UpstreamSocket::Tls(host, port) => (host, port, connector),
        };
        let name = tls_name.unwrap_or(host).trim_matches(['[', ']']);
        let endpoint = |address| Endpoint {
            version,
            address: match connector {
                None => EndpointAddress::Tcp(address),
                Some(connector) => {
                    EndpointAddress::Tls(TlsEndpoint { address, name: name.into(), connector: connector.clone() })
                }
            },
        };
        let found = (host.as_str(), *port).to_socket_addrs()?;
        let found: Vec<_> = found.take(ADDRESSES_MAX).map(endpoint).collect();
        if found.is_empty() { Err(io::Error::other("the name has no address")) } else { Ok(found) }
    }

    pub fn is_http2(&self) -> bool {
        self.version == UpstreamVersion::Http2
    }

    /// For a connection to it, where it speaks TLS.
    pub fn session(&self) -> io::Result<Option<Box<ClientSession>>> {
        let EndpointAddress::Tls(TlsEndpoint { name, connector, .. }) = &self.address else { return Ok(None) };
        let session = match self.version {
            UpstreamVersion::Http1 => ClientSession::new(connector, name),
            UpstreamVersion::Http2 => ClientSession::over_http2(connector, name),
        };
        session.map(|session| Some(Box::new(session))).ok_or_else(|| io::Error::other("no name for its certificate"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_http2 = self.is_http2();
        let tls = if is_http2 { "h2" } else { "https" };
        match &self.address {
            EndpointAddress::Tcp(address) => write!(f, "{}{address}", if is_http2 { "h2c://" } else { "" }),
            EndpointAddress::Unix(path) => {
                write!(f, "{}unix:{}", if is_http2 { "h2c:" } else { "" }, path.display())
            }
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
    fn names_are_resolved_and_those_without_address_are_named() {
        let address = |text: &str| UpstreamAddress::new(text).unwrap();
        let proxy = Proxy::of_all([":1", "unix:/a", "[::1]:2"].map(address).into());
        let shown: Vec<String> = Group::resolve("a", &proxy, &Room::new(1), &no_trust)
            .unwrap()
            .endpoints
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(shown, ["127.0.0.1:1", "unix:/a", "[::1]:2"]);
        let proxy = Proxy::of_all(["h2c://:1", "h2c:unix:/a"].map(address).into());
        let group = Group::resolve("a", &proxy, &Room::new(1), &no_trust).unwrap();
        let shown: Vec<String> = group.endpoints.iter().map(ToString::to_string).collect();
        assert_eq!((shown, group.is_http2()), (vec!["h2c://127.0.0.1:1".into(), "h2c:unix:/a".into()], true));
        let none = address("no-such-name.invalid:80");
        let error = Group::resolve("a", &Proxy::of_all(vec![none]), &Room::new(1), &no_trust).unwrap_err();
        assert!(error.to_string().starts_with("cannot find upstream no-such-name.invalid:80: "), "{error}");
    }
}
