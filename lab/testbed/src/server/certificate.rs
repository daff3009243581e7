use std::fs;
use std::path::Path;

use super::absolute;
use crate::LabError;

/// The object identifier of an extension without meaning, from the arc for examples (RFC 5612).
const PADDING: &[u64] = &[1, 3, 6, 1, 4, 1, 32473, 1];

/// The chain and the key of a server over TLS, as paths. The certificate is self-signed, as with Weir's
/// `--tls-self-signed`, with the same kind of key (ECDSA, P-256).
#[derive(Debug)]
pub(super) struct Certificate {
    pub(super) chain: String,
    pub(super) key: String,
}

impl Certificate {
    /// Writes a certificate of at least this many bytes into the folder.
    pub(super) fn make(folder: &Path, bytes: u16) -> Result<Certificate, LabError> {
        let (made, signing_key) =
            signed(bytes).map_err(|e| LabError::Output { what: "a certificate".into(), reason: e.to_string() })?;
        let folder = absolute(folder)?;
        let write = |name: &str, text: String| -> Result<String, LabError> {
            let path = Path::new(&folder).join(name);
            fs::write(&path, text).map_err(|e| LabError::path(&path, e))?;
            Ok(path.display().to_string())
        };
        Ok(Certificate { chain: write("cert.pem", made.pem())?, key: write("key.pem", signing_key.serialize_pem())? })
    }
}

/// Returns a certificate with an extension of this many bytes, which has no meaning.
fn signed(bytes: u16) -> Result<(rcgen::Certificate, rcgen::KeyPair), rcgen::Error> {
    let mut of = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?;
    if bytes > 0 {
        // Varying bytes, in case the certificate is compressed.
        let padding = (0..u32::from(bytes)).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        of.custom_extensions.push(rcgen::CustomExtension::from_oid_content(PADDING, padding));
    }
    let key = rcgen::KeyPair::generate()?;
    Ok((of.self_signed(&key)?, key))
}
