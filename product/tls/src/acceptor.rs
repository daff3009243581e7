//! What all connections of a set of sites have in common: versions, protocols, tickets, and the certificate for each host.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};

use crate::Identity;

/// The first that the client speaks too is chosen.
const PROTOCOLS: [&[u8]; 2] = [HTTP_2, b"http/1.1"];
pub(crate) const HTTP_2: &[u8] = b"h2";
const HTTP_3: &[u8] = b"h3";
/// One is used by the next connection; rustls' two would be 200 bytes more of every handshake, and browsers that open several at once
/// use one for all.
const TICKETS_PER_HANDSHAKE: usize = 1;

/// The keys of session tickets, which outlast a reload: new ones every six hours, good for twelve.
#[derive(Clone)]
pub struct Tickets(Arc<dyn ProducesTickets>);

/// Cheap to clone; each connection keeps the one it began with.
#[derive(Clone)]
pub struct Acceptor(Arc<ServerConfig>);

/// By the host that a client names: the number of an identity.
type Pick = dyn Fn(Option<&str>) -> usize + Send + Sync;

struct ByHost {
    keys: Vec<Arc<CertifiedKey>>,
    pick: Box<Pick>,
}

impl Tickets {
    /// `None` where the system has no random numbers.
    pub fn new() -> Option<Tickets> {
        aws_lc_rs::Ticketer::new().ok().map(Tickets)
    }
}

impl Acceptor {
    /// `pick` gives the place of the identity for a host, also for a client that names none.
    pub fn new(
        identities: &[Arc<Identity>],
        tickets: &Tickets,
        pick: impl Fn(Option<&str>) -> usize + Send + Sync + 'static,
    ) -> Acceptor {
        let keys = identities.iter().map(|identity| Arc::clone(identity.key())).collect();
        let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13, &TLS12]);
        let builder = builder.expect("the provider has suites of both").with_no_client_auth();
        let mut config = builder.with_cert_resolver(Arc::new(ByHost { keys, pick: Box::new(pick) }));
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        config.ticketer = Arc::clone(&tickets.0);
        config.send_tls13_tickets = TICKETS_PER_HANDSHAKE;
        // Tickets hold all there is to know: nothing is kept for a client that may not come again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Acceptor(Arc::new(config))
    }

    /// For QUIC: the same certificates and tickets, TLS 1.3 alone (RFC 9001 section 4.2), for HTTP/3 alone, and nothing before the
    /// handshake is through. rustls' own type, for the crate in front of which no type of it is seen.
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
        self.keys.get((self.pick)(hello.server_name())).cloned()
    }
}

impl fmt::Debug for ByHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} identities", self.keys.len())
    }
}
