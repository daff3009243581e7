//! The TLS state that all connections of a set of sites share: versions, protocols, tickets, and the certificate for
//! each host.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};

use crate::Identity;
use crate::acme::{ACME_TLS, Automatic};

/// The protocols in order of preference: the first one that the client also offers is chosen.
const PROTOCOLS: [&[u8]; 3] = [HTTP_2, b"http/1.1", b"http/1.0"];
pub(crate) const HTTP_2: &[u8] = b"h2";
const HTTP_3: &[u8] = b"h3";
/// Number of tickets per handshake. The next connection uses one; rustls' default of two would add 200 bytes to every
/// handshake, and browsers that open several connections at once use one ticket for all.
const TICKETS_PER_HANDSHAKE: usize = 1;

/// The keys of session tickets, which outlast a reload: renewed every six hours, valid for twelve.
#[derive(Clone)]
pub struct Tickets(Arc<dyn ProducesTickets>);

/// The server side of TLS. Cheap to clone; each connection keeps the one it started with.
#[derive(Clone)]
pub struct Acceptor(Arc<ServerConfig>);

/// The certificate for the host that a client names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// The identity with this index.
    Fixed(usize),
    /// The automatic identity for this name. The handshake is refused if there is none.
    Automatic(Box<str>),
}

/// Returns the certificate for a host.
type PickFor = dyn Fn(Option<&str>) -> Option<Pick> + Send + Sync;

struct ByHost {
    keys: Vec<Arc<CertifiedKey>>,
    automatic: Option<Arc<Automatic>>,
    pick: Box<PickFor>,
}

impl Tickets {
    /// Creates ticket keys. Returns `None` if the system has no random numbers.
    pub fn new() -> Option<Tickets> {
        aws_lc_rs::Ticketer::new().ok().map(Tickets)
    }
}

impl Acceptor {
    /// Creates an acceptor. `pick` returns the index of the identity for a host, or for a client that does not name a
    /// host.
    pub fn new(
        identities: &[Arc<Identity>],
        tickets: &Tickets,
        pick: impl Fn(Option<&str>) -> usize + Send + Sync + 'static,
    ) -> Acceptor {
        Acceptor::choosing(identities, None, tickets, move |host| Some(Pick::Fixed(pick(host))))
    }

    /// The same, with certificates that may change at any time. `pick` returns `None` for a host without a certificate,
    /// whose handshakes are refused.
    pub fn with_automatic(
        identities: &[Arc<Identity>],
        automatic: &Arc<Automatic>,
        tickets: &Tickets,
        pick: impl Fn(Option<&str>) -> Option<Pick> + Send + Sync + 'static,
    ) -> Acceptor {
        Acceptor::choosing(identities, Some(Arc::clone(automatic)), tickets, pick)
    }

    fn choosing(
        identities: &[Arc<Identity>],
        automatic: Option<Arc<Automatic>>,
        tickets: &Tickets,
        pick: impl Fn(Option<&str>) -> Option<Pick> + Send + Sync + 'static,
    ) -> Acceptor {
        let keys = identities.iter().map(|identity| Arc::clone(identity.key())).collect();
        let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13, &TLS12]);
        let builder = builder.expect("the provider has suites of both").with_no_client_auth();
        let mut protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        protocols.extend(automatic.iter().map(|_| ACME_TLS.to_vec()));
        let mut config = builder.with_cert_resolver(Arc::new(ByHost { keys, automatic, pick: Box::new(pick) }));
        config.alpn_protocols = protocols;
        config.ticketer = Arc::clone(&tickets.0);
        config.send_tls13_tickets = TICKETS_PER_HANDSHAKE;
        // Tickets hold the whole session state: nothing is stored for a client that may not return.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Acceptor(Arc::new(config))
    }

    /// Returns the configuration for QUIC: the same certificates and tickets, TLS 1.3 only (RFC 9001 section 4.2),
    /// HTTP/3 only, and no early data. It is a rustls type, but the QUIC crate does not expose it.
    #[doc(hidden)]
    pub fn quic_config(&self) -> Arc<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
        let builder = builder.expect("the provider has suites of it").with_no_client_auth();
        let mut config = builder.with_cert_resolver(Arc::clone(&self.0.cert_resolver));
        config.alpn_protocols = vec![HTTP_3.to_vec()];
        config.ticketer = Arc::clone(&self.0.ticketer);
        config.send_tls13_tickets = TICKETS_PER_HANDSHAKE;
        config.session_storage = Arc::clone(&self.0.session_storage);
        config.max_early_data_size = 0;
        Arc::new(config)
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0)
    }
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

impl ResolvesServerCert for ByHost {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let host = hello.server_name();
        if let Some(automatic) = &self.automatic
            && is_challenge(&hello)
        {
            return automatic.challenge_key(host?);
        }
        match (self.pick)(host)? {
            Pick::Fixed(at) => self.keys.get(at).cloned(),
            Pick::Automatic(name) => Some(Arc::clone(self.automatic.as_ref()?.identity(&name)?.key())),
        }
    }
}

/// Returns true if the client is an authority that verifies a host by TLS (RFC 8737 section 3): it offers only the
/// protocol for that.
fn is_challenge(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut offered| offered.next() == Some(ACME_TLS) && offered.next().is_none())
}

impl fmt::Debug for ByHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} identities", self.keys.len())
    }
}
