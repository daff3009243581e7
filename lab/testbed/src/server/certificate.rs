use std::fs;
use std::path::Path;

use super::absolute;
use crate::LabError;

/// Of a peer that is asked over TLS: chain and key, as paths. It signs itself, as Weir's `--tls-dev` does, with the same kind of key (ECDSA, P-256).
#[derive(Debug)]
pub(super) struct Certificate {
    pub(super) chain: String,
    pub(super) key: String,
}

impl Certificate {
    /// Writes one into the folder.
    pub(super) fn make(folder: &Path) -> Result<Certificate, LabError> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
            .map_err(|e| LabError::Output { what: "a certificate".into(), reason: e.to_string() })?;
        let folder = absolute(folder)?;
        let write = |name: &str, text: String| -> Result<String, LabError> {
            let path = Path::new(&folder).join(name);
            fs::write(&path, text).map_err(|e| LabError::path(&path, e))?;
            Ok(path.display().to_string())
        };
        Ok(Certificate {
            chain: write("cert.pem", made.cert.pem())?,
            key: write("key.pem", made.signing_key.serialize_pem())?,
        })
    }
}
