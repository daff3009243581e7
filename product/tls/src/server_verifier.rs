//! Verifies a server's certificate: a trusted authority must have signed it, or it must be one of the trusted
//! certificates itself.
//!
//! `openssl req -x509` makes a certificate that is marked as an authority's, and rustls does not accept such a
//! certificate from a server, even if the operator configured this very file as trusted. For such a certificate, a
//! signature by an authority proves nothing more, so it is not required; the name, the dates and the handshake's
//! signature are checked as usual.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::acceptor::provider;

/// A verifier for a set of trusted certificates.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    by_authority: Arc<WebPkiServerVerifier>,
    /// Certificates that are trusted as a server's own.
    own: Arc<[CertificateDer<'static>]>,
}

impl ServerVerifier {
    /// Creates a verifier. There must be at least one authority.
    pub(crate) fn new(authorities: Arc<RootCertStore>, own: Arc<[CertificateDer<'static>]>) -> ServerVerifier {
        let by_authority = WebPkiServerVerifier::builder_with_provider(authorities, provider()).build();
        ServerVerifier { by_authority: by_authority.expect("there is an authority"), own }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.own.iter().any(|own| own == end_entity) {
            return self.by_authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        }
        let parsed = ParsedCertificate::try_from(end_entity)?;
        check_dates(end_entity, now)?;
        rustls::client::verify_server_name(&parsed, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

fn check_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < parsed.validity().not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > parsed.validity().not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}
