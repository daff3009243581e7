//! Loads over TLS. The client is rustls', and it trusts any server: only time is measured, and the certificate is the
//! lab's own.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

use crate::Protocol;
use crate::http3::QuicConfig;

/// The server name, which is arbitrary because any server is trusted.
pub(crate) const SERVER_NAME: &str = "localhost";

/// The settings that the connections of a load share. A connection resumes the session of an earlier one, as in
/// browsers.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    /// The settings of HTTP/3.
    quic: Option<QuicConfig>,
}

/// Accepts any certificate, but verifies signatures for their cost in time.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

/// The TLS state of a connection.
#[derive(Debug)]
pub(crate) struct Sealed(ClientConnection);

impl Tls {
    /// Creates the settings. If `is_resumed`, connections resume the sessions of earlier ones.
    pub fn new(is_resumed: bool, protocol: Protocol) -> Tls {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().expect("the provider has suites of both");
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)));
        let mut config = builder.with_no_client_auth();
        let (name, is_quic) = match protocol {
            Protocol::Http1 => ("http/1.1", false),
            Protocol::Http2 { .. } => ("h2", false),
            Protocol::Http3 { .. } => ("h3", true),
        };
        config.alpn_protocols = vec![name.into()];
        if !is_resumed {
            config.resumption = rustls::client::Resumption::disabled();
        }
        let config = Arc::new(config);
        Tls { quic: is_quic.then(|| QuicConfig::new(Arc::clone(&config))), config }
    }

    pub(crate) fn quic(&self) -> Option<&QuicConfig> {
        self.quic.as_ref()
    }

    pub(crate) fn start(&self) -> Sealed {
        let name = ServerName::try_from(SERVER_NAME).expect("a name");
        Sealed(ClientConnection::new(Arc::clone(&self.config), name).expect("a configuration that was checked"))
    }
}

impl Sealed {
    /// Seals as much of a request as there is room for. It leaves after the key exchange.
    pub fn write(&mut self, plain: &[u8]) -> usize {
        self.0.writer().write(plain).unwrap_or(0)
    }

    pub fn wants_write(&self) -> bool {
        self.0.wants_write()
    }

    /// Sends sealed bytes, as far as the socket takes them.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        while self.0.wants_write() {
            match self.0.write_tls(&mut Wire(socket)) {
                Ok(_) => {}
                Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            }
        }
        Ok(())
    }

    /// Decrypts these bytes; an error if they are not TLS.
    pub fn open(&mut self, mut wire: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let mut plain = Vec::new();
        while !wire.is_empty() {
            match self.0.read_tls(&mut wire) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return Err(rustls::Error::General(error.to_string())),
            }
            let bytes = self.0.process_new_packets()?.plaintext_bytes_to_read();
            let begin = plain.len();
            plain.resize(begin + bytes, 0);
            self.0.reader().read_exact(&mut plain[begin..]).expect("as many as were counted");
        }
        Ok(plain)
    }
}

struct Wire<'a>(BorrowedFd<'a>);

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::{ServerConfig, ServerConnection};

    use super::*;

    fn server() -> Arc<ServerConfig> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        Arc::new(builder.with_single_cert(vec![made.cert.der().clone()], key.into()).unwrap())
    }

    /// Performs a request and its response. Returns whether the session was resumed.
    fn exchange(tls: &Tls, server: &Arc<ServerConfig>) -> bool {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let (mut sealed, mut server) = (tls.start(), ServerConnection::new(Arc::clone(server)).unwrap());
        assert_eq!(sealed.write(b"request"), 7);
        let mut asked = Vec::new();
        let mut answer = Vec::new();
        while answer != b"answer" {
            sealed.send(ours.as_fd()).unwrap();
            while server.read_tls(&mut theirs).is_ok_and(|bytes| bytes > 0) {
                server.process_new_packets().unwrap();
            }
            let _ = server.reader().read_to_end(&mut asked);
            if asked == b"request" {
                asked.clear();
                server.writer().write_all(b"answer").unwrap();
            }
            let mut wire = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut wire).unwrap();
            }
            answer.extend(sealed.open(&wire).unwrap());
        }
        server.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    #[test]
    fn what_is_asked_over_tls_is_answered_and_resumed_if_wanted() {
        let server = server();
        for is_resumed in [true, false] {
            let tls = Tls::new(is_resumed, Protocol::Http1);
            assert_eq!([exchange(&tls, &server), exchange(&tls, &server)], [false, is_resumed]);
        }
    }

    #[test]
    fn what_is_no_tls_is_an_error() {
        assert!(Tls::new(true, Protocol::Http1).start().open(b"HTTP/1.1 400 Bad Request\r\n\r\n").is_err());
    }
}
