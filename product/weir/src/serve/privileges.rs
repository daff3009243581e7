//! The privileges of a server that root starts.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cli::Failure;
use server::service_manager::{Account, Keys, Privileges};
use server::{Certificate, SiteConfig};

use super::Flags;
use super::unmet::Unmet;

const NO_KEYS: &str = "cannot start the process that reads certificates and keys as root";
const NO_KEYS_CURE: &str = "mount /proc, or start weir as the user and let that user read them";

/// Returns the privileges to drop, and those to keep for as long as the server runs.
pub fn of(flags: &Flags, sites: &[SiteConfig]) -> Result<Privileges, Unmet> {
    let account = flags.user.as_deref().map(|user| Account::find(user, flags.group.as_deref())).transpose();
    let account = account.map_err(|error| Unmet::Key("server.user", error.into()))?;
    let is_root = rustix::process::geteuid().is_root();
    let keys = if account.is_some() && is_root { Keys::kept(secret_files(sites)) } else { Ok(Keys::default()) };
    let keys = keys.map_err(|error| Failure::Failed(format!("{NO_KEYS}: {error}; {NO_KEYS_CURE}")))?;
    let configuration = flags.configuration.clone();
    Ok(Privileges { account, keys, is_sandboxed: !flags.no_sandbox, configuration })
}

/// The files with certificates, keys, certificate authorities and users, each once.
fn secret_files(sites: &[SiteConfig]) -> Vec<PathBuf> {
    let certificates = sites.iter().filter_map(|site| site.https.certificate.as_ref());
    let files = certificates.flat_map(|certificate| match certificate {
        Certificate::Files { cert, key } => vec![cert.clone(), key.clone()],
        Certificate::Development(_) | Certificate::Automatic => Vec::new(),
    });
    let authorities = sites.iter().flat_map(|site| &site.answers.proxies).filter_map(|proxy| proxy.tls_ca.clone());
    let users = sites.iter().flat_map(|site| site.answers.users_files()).cloned();
    files.chain(authorities).chain(users).collect::<BTreeSet<_>>().into_iter().collect()
}
