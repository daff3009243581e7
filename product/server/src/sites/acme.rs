//! Certificates by ACME, as an operator wants them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use acme::{ChallengeKind, ExternalAccount, Hook};
use tls::Roots;

use super::SecureError;
use crate::service_manager::Keys;

/// Everything about the authority and the account.
#[derive(Clone)]
pub struct AcmeConfig {
    /// The address of the authority's directory.
    pub directory: String,
    /// The authorities that its certificate is verified against; `None` for the system's.
    pub ca: Option<PathBuf>,
    pub email: Option<String>,
    /// The challenges that this server can answer, the preferred first.
    pub challenges: Vec<ChallengeKind>,
    pub external_account: Option<ExternalAccount>,
    /// Sets DNS records. Only the one of the start counts.
    pub hook: Option<Arc<dyn Hook>>,
    /// The folder of the account and the certificates.
    pub folder: PathBuf,
}

impl AcmeConfig {
    /// The file of the authorities that the directory is verified against.
    pub fn authorities(&self) -> Option<&Path> {
        self.ca.as_deref().or(Roots::system_file())
    }

    pub(super) fn settings(&self, keys: &Keys) -> Result<acme::Settings, SecureError> {
        let read = |file: &Path| keys.read(file);
        let roots = self.ca.as_ref().map_or_else(|| Roots::of_system(&read), |file| Roots::read(file, &read));
        Ok(acme::Settings {
            directory: self.directory.clone(),
            roots: roots.map_err(SecureError::Authorities)?,
            email: self.email.clone(),
            challenges: self.challenges.clone(),
            external_account: self.external_account.clone(),
        })
    }
}
