//! The addresses of a group of upstreams: fixed ones from the configuration, and those of names, which may change with
//! each lookup.

use std::sync::{Arc, PoisonError, RwLock};

use config::{UpstreamAddress, UpstreamSocket};
use tls::Connector;

use super::resolver::{Found, Name, Names};
use super::{Endpoint, EndpointAddress, TlsEndpoint};
use crate::wake::Wake;

/// All upstreams of a group, in the order of the configuration.
#[derive(Debug)]
pub struct Addresses {
    sources: Vec<Source>,
    now: RwLock<Arc<[Endpoint]>>,
    /// The names, if some upstreams are configured by one.
    names: Option<Arc<Names>>,
}

/// An upstream as configured.
#[derive(Debug)]
enum Source {
    Fixed(Endpoint),
    Named { name: Name, upstream: UpstreamAddress, tls: Option<(String, Connector)> },
}

impl Addresses {
    /// Creates the addresses of a single upstream.
    pub fn of(endpoint: Endpoint) -> Addresses {
        let (now, sources) = (RwLock::new([endpoint.clone()].into()), vec![Source::Fixed(endpoint)]);
        Addresses { sources, now, names: None }
    }

    /// Creates the upstreams of a configuration, with the currently known addresses of names. `tls_name` is the name in
    /// their certificates if that is not the host.
    pub fn of_all(
        to: &[UpstreamAddress],
        tls_name: Option<&str>,
        connector: Option<&Connector>,
        names: &Arc<Names>,
    ) -> Addresses {
        let sources: Vec<Source> = to.iter().map(|upstream| Source::of(upstream, tls_name, connector)).collect();
        let has_names = sources.iter().any(|source| matches!(source, Source::Named { .. }));
        let names_of = has_names.then(|| Arc::clone(names));
        let addresses = Addresses { sources, now: RwLock::new([].into()), names: names_of };
        addresses.renew(names);
        addresses
    }

    /// The current addresses; empty if no name has an address yet.
    pub fn now(&self) -> Arc<[Endpoint]> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The names among the upstreams.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.sources.iter().filter_map(Source::name)
    }

    /// Updates the addresses of the names. Returns true if they have changed. Names that a reload has dropped keep their
    /// last addresses, for the requests that are still under way.
    pub fn renew(&self, names: &Names) -> bool {
        let endpoints: Arc<[Endpoint]> = self.sources.iter().flat_map(|source| source.endpoints(names)).collect();
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        if endpoints.is_empty() {
            return false;
        }
        let is_other = *now != endpoints;
        *now = endpoints;
        is_other
    }

    /// Updates the addresses to the answers so far.
    pub fn renew_known(&self) {
        if let Some(names) = &self.names {
            self.renew(names);
        }
    }

    /// Looks up the names of an upstream that could not be reached; all names without an upstream.
    pub fn look_up_again(&self, unreached: Option<&Endpoint>) {
        let Some(names) = &self.names else { return };
        let has = |source: &Source, of: &Endpoint| source.endpoints(names).iter().any(|one| one.address == of.address);
        let is_of = |source: &&Source| unreached.is_none_or(|endpoint| has(source, endpoint));
        let asked: Vec<Name> = self.sources.iter().filter(is_of).filter_map(Source::name).cloned().collect();
        names.look_up_again(&asked);
    }

    /// Returns true if a name is being looked up. The next answer then sets the wake.
    pub fn is_awaited(&self, wake: &Arc<Wake>) -> bool {
        let all: Vec<Name> = self.names().cloned().collect();
        self.names.as_ref().is_some_and(|names| names.is_awaited(&all, wake))
    }

    /// The number of answers so far; 0 without names.
    pub fn answers(&self) -> u64 {
        self.names.as_ref().map_or(0, |names| names.answers())
    }

    /// Returns a line for each name whose last lookup found no address.
    pub fn remarks(&self, names: &Names) -> Vec<String> {
        let not_found = self.sources.iter().filter_map(|source| match source {
            Source::Fixed(_) => None,
            Source::Named { name, upstream, .. } => match names.find(name) {
                Found { failure: None, .. } => None,
                Found { failure: Some(why), addresses } if addresses.is_empty() => Some(format!(
                    "cannot find upstream {upstream}: {why}; it is looked up every 10 s, and requests get 502 if there is no other"
                )),
                Found { failure: Some(why), .. } => {
                    Some(format!("cannot find upstream {upstream} again: {why}; its last addresses are used"))
                }
            },
        });
        not_found.collect()
    }
}

impl Source {
    fn of(upstream: &UpstreamAddress, tls_name: Option<&str>, connector: Option<&Connector>) -> Source {
        let (host, port, connector) = match &upstream.socket {
            UpstreamSocket::Unix(path) => {
                let address = EndpointAddress::Unix(path.clone());
                return Source::Fixed(Endpoint { version: upstream.version, address });
            }
            UpstreamSocket::Tcp(host, port) => (host, *port, None),
            UpstreamSocket::Tls(host, port) => (host, *port, connector),
        };
        let of_certificate = tls_name.unwrap_or(host).trim_matches(['[', ']']);
        // A zone means something on this machine alone.
        let of_certificate = of_certificate.split('%').next().unwrap_or_default();
        let tls = connector.map(|connector| (of_certificate.to_string(), connector.clone()));
        match Name::of(host, port) {
            Ok(name) => Source::Named { name, upstream: upstream.clone(), tls },
            Err(address) => Source::Fixed(Endpoint::new(upstream.version, address, tls.as_ref())),
        }
    }

    fn name(&self) -> Option<&Name> {
        if let Source::Named { name, .. } = self { Some(name) } else { None }
    }

    fn endpoints(&self, names: &Names) -> Vec<Endpoint> {
        match self {
            Source::Fixed(endpoint) => vec![endpoint.clone()],
            Source::Named { name, upstream, tls } => {
                let found = names.find(name).addresses.into_iter();
                found.map(|address| Endpoint::new(upstream.version, address, tls.as_ref())).collect()
            }
        }
    }
}

impl Endpoint {
    /// Creates an endpoint at a TCP port. `tls` holds the name in its certificate and the connector that verifies it.
    fn new(
        version: config::UpstreamVersion,
        address: std::net::SocketAddr,
        tls: Option<&(String, Connector)>,
    ) -> Endpoint {
        let address = match tls.cloned() {
            None => EndpointAddress::Tcp(address),
            Some((name, connector)) => EndpointAddress::Tls(TlsEndpoint { address, name, connector }),
        };
        Endpoint { version, address }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn addresses_of_names_are_those_of_the_last_lookup_and_others_stay() {
        let resolved = Arc::new(Mutex::new(Err::<Vec<SocketAddr>, _>("unknown")));
        let said = Arc::clone(&resolved);
        let names = Arc::new(Names::by(move |_| said.lock().unwrap().clone().map_err(io::Error::other)));
        let to = ["unix:/a", "app:80", "h2c://[::1]:2"].map(|text| UpstreamAddress::new(text).unwrap());
        let addresses = Addresses::of_all(&to, None, None, &names);
        let shown = || addresses.now().iter().map(ToString::to_string).collect::<Vec<_>>();
        let app: Vec<Name> = addresses.names().cloned().collect();
        names.introduce(&app);
        assert!(!addresses.renew(&names) && app.len() == 1);
        assert_eq!(shown(), ["unix:/a", "h2c://[::1]:2"]);
        let why = "cannot find upstream app:80: unknown; it is looked up every 10 s, and requests get 502 if there is no other";
        assert_eq!(addresses.remarks(&names), [why]);
        *resolved.lock().unwrap() = Ok(vec!["198.18.0.1:80".parse().unwrap()]);
        names.introduce(&[]);
        let late =
            Arc::new(Names::by(|_| Ok(vec!["198.18.0.2:80".parse().unwrap(), "198.18.0.1:80".parse().unwrap()])));
        late.introduce(&app);
        assert!(addresses.renew(&late) && !addresses.renew(&late), "the second time nothing is new");
        assert_eq!(shown(), ["unix:/a", "198.18.0.1:80", "198.18.0.2:80", "h2c://[::1]:2"]);
        assert!(addresses.remarks(&late).is_empty());
        let named = Addresses::of_all(&to[1..2], None, None, &late);
        late.renew(&[]);
        assert!(!named.renew(&late) && named.now().len() == 2, "a reload has dropped the name");
    }
}
