//! Where requests of a path are passed on to, as the file says it, with names resolved.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

use config::{Proxy, UpstreamAddress};
use units::Nanos;

use super::NamedFiles;
use crate::storage::Room;

/// Upstreams that answer the same requests.
#[derive(Debug)]
pub struct Group {
    /// The site that they are of, for what is learned of its responses.
    pub site: String,
    /// At least one; a name with several addresses is as many.
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
}

/// An address at which an upstream listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Addresses of one name at most.
const ADDRESSES_MAX: usize = 16;

impl Group {
    /// Asks the resolver, and waits for it; without files. The room on disk is a part of this one.
    pub fn resolve(site: &str, proxy: &Proxy, spool: &Arc<Room>) -> Result<Group, (UpstreamAddress, io::Error)> {
        let mut endpoints = Vec::new();
        for address in &proxy.to {
            let found = Endpoint::resolve(address).map_err(|error| (address.clone(), error))?;
            endpoints.extend(found);
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
        })
    }
}

impl Endpoint {
    fn resolve(address: &UpstreamAddress) -> io::Result<Vec<Endpoint>> {
        match address {
            UpstreamAddress::Unix(path) => Ok(vec![Endpoint::Unix(path.clone())]),
            UpstreamAddress::Tcp(host, port) => {
                let found = (host.as_str(), *port).to_socket_addrs()?;
                let found: Vec<_> = found.take(ADDRESSES_MAX).map(Endpoint::Tcp).collect();
                if found.is_empty() { Err(io::Error::other("the name has no address")) } else { Ok(found) }
            }
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => address.fmt(f),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_resolved_and_those_without_address_are_named() {
        let address = |text: &str| UpstreamAddress::new(text).unwrap();
        let proxy = Proxy::of_all([":1", "unix:/a", "[::1]:2"].map(address).into());
        let shown: Vec<String> =
            Group::resolve("a", &proxy, &Room::new(1)).unwrap().endpoints.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["127.0.0.1:1", "unix:/a", "[::1]:2"]);
        let none = address("no-such-name.invalid:80");
        assert_eq!(Group::resolve("a", &Proxy::of_all(vec![none.clone()]), &Room::new(1)).unwrap_err().0, none);
    }
}
