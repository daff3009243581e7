//! The addresses of upstreams, their health checks, and the tokens that identify their events.

use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::path::PathBuf;

use config::UpstreamVersion;
use tls::Connector;
use units::Nanos;

/// The first token of connections to upstreams, above the tokens of clients and below the worker's own.
pub const TOKENS: u64 = (u32::MAX as u64) << 32;

/// An address at which an upstream listens, and its protocol.
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

/// The TLS settings of an endpoint. Connections are shared only if both the name and the trusted authorities are the
/// same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsEndpoint {
    pub address: SocketAddr,
    /// The name in the endpoint's certificate.
    pub name: String,
    pub connector: Connector,
}

impl Hash for TlsEndpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.address, &self.name).hash(state);
    }
}

/// The health check of a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    pub path: String,
    pub every: Nanos,
    /// The time until an upstream that is healthy again gets its full share.
    pub slow_start: Nanos,
}
