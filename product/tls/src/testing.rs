//! A client for tests, here and in other crates: rustls' own, which trusts any server.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion};

use crate::acceptor::provider;

/// Returns the configuration of a client that supports these versions.
pub fn client_config(versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions);
    let builder = builder.expect("the provider has suites for each").dangerous();
    builder.with_custom_certificate_verifier(Arc::new(AnyServer)).with_no_client_auth()
}

/// Returns a connector to any server.
pub fn connector() -> crate::Connector {
    crate::Connector::of(client_config(&[&rustls::version::TLS13]))
}

/// Returns the configuration of a QUIC client that offers this protocol.
pub fn quic_client_config(protocol: &[u8]) -> Arc<ClientConfig> {
    let mut config = client_config(&[&rustls::version::TLS13]);
    config.alpn_protocols = vec![protocol.to_vec()];
    Arc::new(config)
}

/// Accepts any certificate.
#[derive(Debug)]
struct AnyServer;

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
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
