//! Certificates that are added and replaced while the server runs, by name, and the means to obtain them from an
//! authority: certificate requests ([`Request`]), and the certificates that answer challenges (RFC 8737).
//!
//! All acceptors share one table, so that a new certificate is used from the next handshake on and no connection is
//! closed for it. The table is locked only for a look-up or an insertion, never while something is created or read.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::CertifiedKey;

use crate::acceptor::provider;
use crate::{Identity, IdentityError};

/// The protocol of TLS-ALPN-01 (RFC 8737 section 6.2).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";

/// The name used in error messages for a certificate request, which has no file.
const REQUEST: &str = "certificate request";

/// The certificates in use. A name that starts with `*.` stands for all names directly below it.
#[derive(Debug, Default)]
pub struct Automatic {
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<Box<str>, Arc<Identity>>,
    /// The answers to challenges that are under way.
    challenges: HashMap<Box<str>, Arc<CertifiedKey>>,
}

impl Automatic {
    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to use a certificate, replacing the one for that name.
    pub fn put(&self, name: &str, identity: Arc<Identity>) {
        self.table_mut().by_name.insert(name.into(), identity);
    }

    /// Removes all certificates whose names `is_kept` rejects.
    pub fn keep_only(&self, is_kept: impl Fn(&str) -> bool) {
        self.table_mut().by_name.retain(|name, _| is_kept(name));
    }

    /// The certificate for exactly this name.
    pub fn identity(&self, name: &str) -> Option<Arc<Identity>> {
        self.table().by_name.get(name).cloned()
    }

    /// Returns true if there is a certificate for exactly this name, even an expired one.
    pub fn has(&self, name: &str) -> bool {
        self.table().by_name.contains_key(name)
    }

    /// All names with a certificate, with its expiry.
    pub fn expiries(&self) -> Vec<(String, SystemTime)> {
        self.table().by_name.iter().map(|(name, identity)| (name.to_string(), identity.not_after())).collect()
    }

    /// Answers TLS-ALPN-01 handshakes for this name with the digest of its key authorization, until
    /// [`Automatic::end_challenge`].
    pub fn begin_challenge(&self, name: &str, digest: &[u8]) -> Result<(), IdentityError> {
        let unusable = |error: rcgen::Error| IdentityError::Unusable(error.to_string(), "TLS-ALPN-01".into());
        let mut params = CertificateParams::new(vec![name.to_string()]).map_err(unusable)?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let key = KeyPair::generate().map_err(unusable)?;
        let signed = params.self_signed(&key).map_err(unusable)?;
        let der = PrivatePkcs8KeyDer::from(key.serialize_der());
        let key = provider().key_provider.load_private_key(der.into());
        let key = key.map_err(|error| IdentityError::Unusable(error.to_string(), "TLS-ALPN-01".into()))?;
        // Its extension is critical and known to authorities alone, so the pair is not checked as others are.
        let made = CertifiedKey::new(vec![signed.der().clone()], key);
        self.table_mut().challenges.insert(name.into(), Arc::new(made));
        Ok(())
    }

    pub fn end_challenge(&self, name: &str) {
        self.table_mut().challenges.remove(name);
    }

    pub(crate) fn challenge_key(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.table().challenges.get(name).cloned()
    }
}

/// A request for a certificate, with its new key.
pub struct Request {
    /// The request as DER (RFC 2986).
    pub der: Vec<u8>,
    /// The private key as PEM.
    pub key: String,
}

impl Request {
    /// Creates a key (ECDSA P-256) and a certificate request for these names.
    pub fn new(names: &[String]) -> Result<Request, IdentityError> {
        let unusable = |error: rcgen::Error| IdentityError::Unusable(error.to_string(), REQUEST.into());
        let mut params = CertificateParams::new(names).map_err(unusable)?;
        params.distinguished_name = DistinguishedName::new();
        let key = KeyPair::generate().map_err(unusable)?;
        let request = params.serialize_request(&key).map_err(unusable)?;
        Ok(Request { der: request.der().to_vec(), key: key.serialize_pem() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Acceptor, Pick, Session, Tickets, testing};

    fn identity(name: &str) -> Arc<Identity> {
        Arc::new(Identity::for_development(&[name.to_string()]).unwrap())
    }

    /// The certificate that a client that names this host gets.
    fn presented(acceptor: &Acceptor, host: &str, protocols: &[&[u8]]) -> Option<Vec<u8>> {
        let mut config = testing::client_config(&[&rustls::version::TLS13]);
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = rustls::pki_types::ServerName::try_from(host.to_string()).unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut server = Session::new(acceptor);
        while client.is_handshaking() {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).unwrap();
            server.open(&wire, &mut Vec::new()).ok()?;
            client.read_tls(&mut &server.take_unsent(usize::MAX)[..]).unwrap();
            client.process_new_packets().ok()?;
        }
        client.peer_certificates().map(|chain| chain[0].to_vec())
    }

    #[test]
    fn a_new_certificate_counts_from_the_next_handshake_on() {
        let automatic = Arc::<Automatic>::default();
        let pick = |host: Option<&str>| host.map(|host| Pick::Automatic(host.into()));
        let acceptor = Acceptor::with_automatic(&[], &automatic, &Tickets::new().unwrap(), pick);
        assert_eq!(presented(&acceptor, "a.test", &[b"h2"]), None, "none is there");
        let (old, new) = (identity("a.test"), identity("a.test"));
        automatic.put("a.test", Arc::clone(&old));
        assert_eq!(presented(&acceptor, "a.test", &[b"h2"]).as_deref(), Some(old.leaf()));
        automatic.put("a.test", Arc::clone(&new));
        assert_eq!(presented(&acceptor, "a.test", &[b"h2"]).as_deref(), Some(new.leaf()));
        assert_eq!(presented(&acceptor, "b.test", &[b"h2"]), None);
        automatic.keep_only(|name| name == "b.test");
        assert!(!automatic.has("a.test") && automatic.expiries().is_empty());
    }

    #[test]
    fn only_the_protocol_of_the_challenge_gets_its_certificate() {
        let automatic = Arc::<Automatic>::default();
        let own = identity("a.test");
        automatic.put("a.test", Arc::clone(&own));
        let pick = |_: Option<&str>| Some(Pick::Automatic("a.test".into()));
        let acceptor = Acceptor::with_automatic(&[], &automatic, &Tickets::new().unwrap(), pick);
        assert_eq!(presented(&acceptor, "a.test", &[ACME_TLS]), None, "no challenge is under way");
        automatic.begin_challenge("a.test", &[7; 32]).unwrap();
        let answered = presented(&acceptor, "a.test", &[ACME_TLS]).unwrap();
        // The extension holds the digest as an octet string (RFC 8737 section 3).
        let digest = [&[4, 32][..], &[7; 32]].concat();
        assert!(answered.windows(digest.len()).any(|part| part == digest));
        assert_eq!(presented(&acceptor, "a.test", &[b"h2", ACME_TLS]).as_deref(), Some(own.leaf()));
        automatic.end_challenge("a.test");
        assert_eq!(presented(&acceptor, "a.test", &[ACME_TLS]), None);
    }

    #[test]
    fn a_request_names_its_hosts_and_has_a_key() {
        let request = Request::new(&["a.test".into(), "*.b.test".into()]).unwrap();
        let (_, parsed) = <x509_parser::certification_request::X509CertificationRequest as x509_parser::prelude::FromDer<
            _,
        >>::from_der(&request.der)
        .unwrap();
        let text = format!("{:?}", parsed.requested_extensions().unwrap().collect::<Vec<_>>());
        assert!(text.contains("a.test") && text.contains("*.b.test"), "{text}");
        assert!(request.key.starts_with("-----BEGIN PRIVATE KEY-----"));
    }
}
