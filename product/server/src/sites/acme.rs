//! The operator's settings for certificates by ACME.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use acme::{ChallengeKind, ExternalAccount, Hook};
use tls::Roots;

use super::SecureError;
use crate::service_manager::Keys;

/// The settings of the authority and the account.
#[derive(Clone)]
pub struct AcmeConfig {
    /// The address of the authority's directory.
    pub directory: String,
    /// The file of the authorities that verify the directory's certificate; `None` for the system's authorities.
    pub ca: Option<PathBuf>,
    pub email: Option<String>,
    /// The challenges that this server can answer, in order of preference.
    pub challenges: Vec<ChallengeKind>,
    pub external_account: Option<ExternalAccount>,
    /// The hook that sets DNS records. The hook of the start stays in use across reloads.
    pub hook: Option<Arc<dyn Hook>>,
    /// The folder of the account and the certificates.
    pub folder: PathBuf,
}

impl AcmeConfig {
    /// Returns the file of the authorities that verify the directory's certificate.
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
