//! TLS to other servers: the authorities that verify them ([`Roots`]), the state that connections share
//! ([`Connector`]), and the TLS of one connection without its socket ([`ClientSession`]).

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore};
use thiserror::Error;

use crate::ReadFile;
use crate::acceptor::{HTTP_2, provider};
use crate::server_verifier::ServerVerifier;
use crate::session::{Broken, HandedDown, RECORD_BYTES_MAX, hand_down};

/// The files in which distributions store their trusted authorities. Go's crypto/x509 searches the same files.
const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Maximum number of authorities read from a file.
const ROOTS_MAX: usize = 10_000;

/// Certificates of authorities.
#[derive(Clone)]
pub struct Roots {
    store: Arc<RootCertStore>,
    /// The same certificates, for servers that use one of them as their own certificate.
    own: Arc<[CertificateDer<'static>]>,
}

#[derive(Debug, Error)]
pub enum RootsError {
    #[error("cannot read `{file}`: {0}; expected certificates of authorities as PEM", file = .1.display())]
    Unreadable(#[source] io::Error, PathBuf),
    #[error("`{file}` has no certificate of an authority; expected PEM that begins with -----BEGIN CERTIFICATE-----", file = .0.display())]
    Nothing(PathBuf),
    #[error(
        "the system has no certificates of authorities; install ca-certificates, or name a file (site.proxy.tls_ca)"
    )]
    NoSystem,
}

impl Roots {
    /// Returns the file of authorities that the system trusts, if there is one.
    pub fn system_file() -> Option<&'static Path> {
        SYSTEM_FILES.iter().map(Path::new).find(|file| file.exists())
    }

    /// Reads the authorities that the system trusts.
    pub fn of_system(read: &ReadFile<'_>) -> Result<Roots, RootsError> {
        let roots = Roots::read(Roots::system_file().ok_or(RootsError::NoSystem)?, read)?;
        Ok(Roots { own: [].into(), ..roots })
    }

    /// Reads the authorities in a file, which are also trusted as certificates of servers. Skips certificates that
    /// cannot be used, unless all are unusable.
    pub fn read(file: &Path, read: &ReadFile<'_>) -> Result<Roots, RootsError> {
        let text = read(file).map_err(|error| RootsError::Unreadable(error, file.into()))?;
        let (mut store, read) = (RootCertStore::empty(), CertificateDer::pem_slice_iter(&text));
        let own: Vec<CertificateDer<'static>> = read.take(ROOTS_MAX).filter_map(Result::ok).collect();
        store.add_parsable_certificates(own.iter().cloned());
        let roots = Roots { store: Arc::new(store), own: own.into() };
        if roots.store.is_empty() { Err(RootsError::Nothing(file.into())) } else { Ok(roots) }
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} authorities", self.store.len())
    }
}

/// The client side of TLS. Cheap to clone. Stores sessions, so that later connections can resume earlier ones. Equal
/// only to its clones.
#[derive(Clone)]
pub struct Connector {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

impl Connector {
    /// Creates a connector. A server is trusted if an authority in `roots` has signed its certificate, or if the
    /// certificate itself is in `roots`.
    pub fn new(roots: Roots) -> Connector {
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13, &TLS12]);
        let builder = builder.expect("the provider has suites of both");
        let verifier = Arc::new(ServerVerifier::new(roots.store, roots.own));
        Connector::of(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
    }

    /// Offers only one of the two protocols (RFC 7301), because the protocol of a connection is chosen in advance.
    pub(crate) fn of(config: ClientConfig) -> Connector {
        let offering = |protocol: &[u8]| {
            let mut config = config.clone();
            config.alpn_protocols = vec![protocol.to_vec()];
            Arc::new(config)
        };
        Connector { http1: offering(b"http/1.1"), http2: offering(HTTP_2) }
    }
}

impl PartialEq for Connector {
    fn eq(&self, other: &Connector) -> bool {
        Arc::ptr_eq(&self.http1, &other.http1)
    }
}

impl Eq for Connector {}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connector")
    }
}

/// The client side of a connection.
#[derive(Debug)]
pub struct ClientSession {
    tls: ClientConnection,
    /// Decrypted bytes. Those from `at` on have not been taken yet.
    plain: Vec<u8>,
    at: usize,
}

impl ClientSession {
    /// Starts a session with a server of this name (a host name or an address), over HTTP/1.1. Returns `None` if the
    /// name is neither.
    pub fn new(connector: &Connector, name: &str) -> Option<ClientSession> {
        ClientSession::of(&connector.http1, name)
    }

    /// The same over HTTP/2; [`ClientSession::speaks_http2`] returns whether the server agrees.
    pub fn over_http2(connector: &Connector, name: &str) -> Option<ClientSession> {
        ClientSession::of(&connector.http2, name)
    }

    fn of(config: &Arc<ClientConfig>, name: &str) -> Option<ClientSession> {
        let name = ServerName::try_from(name.to_string()).ok()?;
        let mut tls = ClientConnection::new(Arc::clone(config), name).ok()?;
        // The caller seals one record at a time.
        tls.set_buffer_limit(None);
        Some(ClientSession { tls, plain: Vec::new(), at: 0 })
    }

    /// Decrypts received bytes. Answers of the TLS protocol are sealed and wait to be handed down.
    pub fn open(&mut self, mut wire: &[u8]) -> Result<(), Broken> {
        while !wire.is_empty() {
            let taken = self.tls.read_tls(&mut wire).map_err(|error| rustls::Error::General(error.to_string()))?;
            if taken == 0 {
                break;
            }
            let bytes = self.tls.process_new_packets()?.plaintext_bytes_to_read();
            let begin = self.plain.len();
            self.plain.resize(begin + bytes, 0);
            self.tls.reader().read_exact(&mut self.plain[begin..]).expect("as many as were counted");
        }
        Ok(())
    }

    /// Copies decrypted bytes into `into`. Returns how many.
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let rest = &self.plain[self.at..];
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        self.at += bytes;
        if self.at == self.plain.len() {
            (self.plain, self.at) = (Vec::new(), 0);
        }
        bytes
    }

    /// Returns true if decrypted bytes are unread.
    pub fn has_plain(&self) -> bool {
        !self.plain.is_empty()
    }

    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Returns true if both sides have agreed on HTTP/2.
    pub fn speaks_http2(&self) -> bool {
        self.tls.alpn_protocol() == Some(HTTP_2)
    }

    /// Returns true if the keys come from an earlier connection.
    pub fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// Returns true if the server has sent close_notify. A connection that ends without it was cut off.
    pub fn has_peer_ended(&mut self) -> bool {
        self.tls.process_new_packets().is_ok_and(|state| state.peer_has_closed())
    }

    /// Makes a record of the first part of `bytes`. Returns how many bytes it holds. Must not be called during the
    /// handshake.
    pub fn seal(&mut self, bytes: &[u8]) -> usize {
        let part = &bytes[..bytes.len().min(RECORD_BYTES_MAX)];
        self.tls.writer().write(part).expect("sealing in memory")
    }

    /// Returns true if sealed bytes have not been handed down yet.
    pub fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// Writes sealed bytes to `into`, as many as it takes.
    pub fn hand_down(&mut self, into: &mut dyn Write) -> HandedDown {
        hand_down(&mut self.tls, into)
    }

    /// Sends close_notify.
    pub fn end(&mut self) {
        self.tls.send_close_notify();
    }
}

impl Broken {
    /// Describes, for a log, why a server is not trusted or why the session cannot continue.
    pub fn of_server(&self) -> String {
        let rustls::Error::InvalidCertificate(error) = &self.0 else { return self.0.to_string() };
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => "certificate expired".into(),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "certificate not valid yet".into()
            }
            // BadSignature comes from an authority with the same name and another key.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "certificate of an unknown authority (site.proxy.tls_ca names others)".into()
            }
            CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
                "its certificate is an authority's own; expected one signed by an authority, or one that \
                    site.proxy.tls_ca names"
                    .into()
            }
            CertificateError::Other(other) if other.to_string() == "UnsupportedCertVersion" => {
                "its certificate is of version 1 of X.509, which names no host; expected version 3 (openssl req -x509 \
                 -addext subjectAltName=DNS:NAME)"
                    .into()
            }
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;
    use crate::{Acceptor, Identity, Session, Tickets, read_file};

    /// Returns an authority, and an identity that it has signed for `a.test`, valid until this year.
    fn authority(until: i32) -> (Roots, Identity) {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap();
        let mut leaf = CertificateParams::new(vec!["a.test".to_string()]).unwrap();
        leaf.not_after = rcgen::date_time_ymd(until, 1, 1);
        leaf.not_before = rcgen::date_time_ymd(2000, 1, 1);
        let leaf_key = KeyPair::generate().unwrap();
        let signed = leaf.signed_by(&leaf_key, &Issuer::new(params, key)).unwrap();
        let (cert, key) = (signed.pem().into_bytes(), leaf_key.serialize_pem().into_bytes());
        let read = |file: &Path| Ok(if file == Path::new("cert") { cert.clone() } else { key.clone() });
        let identity = Identity::read_by(Path::new("cert"), Path::new("key"), &read).unwrap();
        let roots = Roots::read(Path::new("ca"), &|_| Ok(own.pem().into_bytes())).unwrap();
        (roots, identity)
    }

    fn acceptor(identity: Identity) -> Acceptor {
        Acceptor::new(&[Arc::new(identity)], &Tickets::new().unwrap(), |_| 0)
    }

    /// Exchanges bytes until neither side has any to send. Returns what the server received.
    fn talk(client: &mut ClientSession, server: &mut Session) -> Result<Vec<u8>, Broken> {
        let mut heard = Vec::new();
        while client.has_unsent() || server.has_unsent() {
            let mut wire = Vec::new();
            client.hand_down(&mut wire);
            // The client is informed of the server's errors by an alert.
            let _ = server.open(&wire, &mut heard);
            client.open(&server.take_unsent(usize::MAX))?;
        }
        Ok(heard)
    }

    #[test]
    fn both_hear_each_other_and_resume() {
        let (roots, identity) = authority(2100);
        let (connector, acceptor) = (Connector::new(roots), acceptor(identity));
        for is_resumed in [false, true] {
            let mut client = ClientSession::new(&connector, "a.test").unwrap();
            let mut server = Session::new(&acceptor);
            assert!(client.is_handshaking() && talk(&mut client, &mut server).unwrap().is_empty());
            assert_eq!((client.is_handshaking(), client.is_resumed()), (false, is_resumed));
            assert!(!server.speaks_http2() && !client.speaks_http2());
            let long = vec![7; RECORD_BYTES_MAX + 1];
            assert_eq!(client.seal(&long), RECORD_BYTES_MAX);
            assert_eq!(talk(&mut client, &mut server).unwrap(), long[1..]);
            server.seal(&[io::IoSlice::new(b"hello")]);
            talk(&mut client, &mut server).unwrap();
            let mut heard = [0; 3];
            assert_eq!((client.read(&mut heard), heard, client.has_plain()), (3, *b"hel", true));
            assert_eq!((client.read(&mut heard), client.has_plain(), client.has_peer_ended()), (2, false, false));
            server.end();
            talk(&mut client, &mut server).unwrap();
            assert!(client.has_peer_ended());
        }
    }

    /// A server selects its first protocol that is offered.
    #[test]
    fn http2_is_spoken_where_it_is_asked_for() {
        let (roots, identity) = authority(2100);
        let (connector, acceptor) = (Connector::new(roots), acceptor(identity));
        let mut client = ClientSession::over_http2(&connector, "a.test").unwrap();
        let mut server = Session::new(&acceptor);
        talk(&mut client, &mut server).unwrap();
        assert!(client.speaks_http2() && server.speaks_http2());
    }

    #[test]
    fn who_is_not_trusted_is_told_apart() {
        let fails = |connector: &Connector, acceptor: &Acceptor, name: &str| {
            let mut client = ClientSession::new(connector, name).unwrap();
            talk(&mut client, &mut Session::new(acceptor)).unwrap_err().of_server()
        };
        let ((roots, old), (others, _)) = (authority(2001), authority(2100));
        let old = acceptor(old);
        assert_eq!(fails(&Connector::new(roots.clone()), &old, "a.test"), "certificate expired");
        let (roots, good) = authority(2100);
        let good = acceptor(good);
        let said = fails(&Connector::new(others.clone()), &good, "a.test");
        assert!(said.starts_with("certificate of an unknown authority"), "{said}");
        let said = fails(&Connector::new(roots), &good, "b.test");
        assert!(said.contains("not valid for name \"b.test\""), "{said}");
        assert!(ClientSession::new(&Connector::new(others), "a b").is_none());
    }

    /// A certificate as `openssl req -x509` makes it, which has signed itself and is marked as an authority's.
    #[test]
    fn a_certificate_that_is_named_itself_is_trusted_for_its_name_and_time() {
        let made = |until: i32| {
            let mut params = CertificateParams::new(vec!["a.test".to_string()]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.not_before = rcgen::date_time_ymd(if until > 2100 { 2200 } else { 2000 }, 1, 1);
            params.not_after = rcgen::date_time_ymd(until, 1, 1);
            let key = KeyPair::generate().unwrap();
            let (cert, key) = (params.self_signed(&key).unwrap().pem().into_bytes(), key.serialize_pem().into_bytes());
            let read = |file: &Path| Ok(if file == Path::new("cert") { cert.clone() } else { key.clone() });
            let identity = Identity::read_by(Path::new("cert"), Path::new("key"), &read).unwrap();
            (Roots::read(Path::new("ca"), &|_| Ok(cert.clone())).unwrap(), acceptor(identity))
        };
        let said = |roots: &Roots, acceptor: &Acceptor, name: &str| {
            let mut client = ClientSession::new(&Connector::new(roots.clone()), name).unwrap();
            talk(&mut client, &mut Session::new(acceptor))
                .map(|_| client.is_handshaking())
                .map_err(|error| error.of_server())
        };
        let (roots, good) = made(2100);
        assert_eq!(said(&roots, &good, "a.test"), Ok(false));
        assert!(said(&roots, &good, "b.test").unwrap_err().contains("not valid for name \"b.test\""));
        // Another of the same name: only the bytes differ.
        assert!(said(&made(2100).0, &good, "a.test").is_err());
        let as_system = Roots { own: [].into(), ..roots };
        assert!(said(&as_system, &good, "a.test").unwrap_err().starts_with("its certificate is an authority's own"));
        let (roots, old) = made(2001);
        assert_eq!(said(&roots, &old, "a.test"), Err("certificate expired".into()));
        let (roots, early) = made(2201);
        assert_eq!(said(&roots, &early, "a.test"), Err("certificate not valid yet".into()));
    }

    #[test]
    fn a_certificate_without_version_is_explained() {
        let error = CertificateError::Other(rustls::OtherError(Arc::new(OfVersion1)));
        let said = Broken(rustls::Error::InvalidCertificate(error)).of_server();
        assert!(said.starts_with("its certificate is of version 1 of X.509"), "{said}");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("UnsupportedCertVersion")]
    struct OfVersion1;

    #[test]
    fn a_file_without_authorities_is_named() {
        for (text, said) in [
            (Ok(&b"nothing"[..]), "`ca` has no certificate of an authority"),
            (Err(io::ErrorKind::NotFound), "cannot read `ca`"),
        ] {
            let read = |_: &Path| text.map(<[u8]>::to_vec).map_err(io::Error::from);
            assert!(Roots::read(Path::new("ca"), &read).unwrap_err().to_string().contains(said));
        }
        if Roots::system_file().is_some() {
            assert!(Roots::of_system(&read_file).unwrap().store.len() > 10);
        }
    }
}
