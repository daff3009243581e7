//! The certificates of a set of sites: all of them must be usable, or the set is rejected.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use thiserror::Error;
use tls::{Acceptor, Identity, IdentityError, Tickets, Validity};

use super::{Certificate, SiteConfig, Sites};
use crate::service::Keys;

/// The remaining validity below which the operator is warned. Automatic renewal happens a month before expiry.
const SOON: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Error)]
pub enum SecureError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("a listener speaks TLS and no site has a certificate; expected cert and key in a site")]
    NoCertificate,
}

/// The self-signed certificate, once it is made. It is kept so that a browser that trusts it still does after a reload.
pub type Development = OnceLock<Arc<Identity>>;

/// The TLS acceptor, and remarks for the operator.
pub struct Secured {
    pub acceptor: Acceptor,
    pub remarks: Vec<String>,
    /// The expiry of each site's certificate, by its index; `None` for a site that uses the default's.
    pub not_after: Vec<Option<SystemTime>>,
}

/// Returns `None` if no site has a certificate.
pub fn secure(
    configs: &[SiteConfig],
    sites: &Arc<Sites>,
    tickets: &Tickets,
    keys: &Keys,
    development: &Development,
) -> Result<Option<Secured>, SecureError> {
    let mut read: HashMap<&Certificate, usize> = HashMap::new();
    let (mut identities, mut of_sites, mut remarks) = (Vec::new(), Vec::new(), Vec::new());
    for config in configs {
        let Some(certificate) = &config.https.certificate else {
            of_sites.push(None);
            continue;
        };
        let at = match read.get(certificate) {
            Some(&at) => at,
            None => {
                let identity = identity(certificate, keys, development)?;
                remarks.extend(validity(certificate, &identity));
                read.insert(certificate, identities.len());
                identities.push(identity);
                identities.len() - 1
            }
        };
        remarks.extend(uncovered(config, certificate, &identities[at]));
        of_sites.push(Some(at));
    }
    let Some(default) = default(configs, &of_sites) else { return Ok(None) };
    remarks.extend(borrow(configs, &identities, default, &mut of_sites));
    let not_after = of_sites.iter().map(|at| at.map(|at| identities[at].not_after())).collect();
    let sites = Arc::clone(sites);
    let pick = move |host: Option<&str>| {
        let site = sites.of(host.map(str::as_bytes)).map(|site| sites.place(site));
        site.and_then(|site| of_sites[site]).unwrap_or(default)
    };
    Ok(Some(Secured { acceptor: Acceptor::new(&identities, tickets, pick), remarks, not_after }))
}

/// Assigns to sites without a certificate one that covers their hosts, if another site has it. The others keep none and
/// use the default, as in nginx; the remark reports it, since their clients refuse it.
fn borrow(
    configs: &[SiteConfig],
    identities: &[Arc<Identity>],
    default: usize,
    of_sites: &mut [Option<usize>],
) -> Option<String> {
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for at in std::iter::once(default).chain(0..identities.len()) {
        identities[at].names().for_each(|name| _ = by_name.entry(name).or_insert(at));
    }
    let mut refused = Vec::new();
    for (config, own) in configs.iter().zip(of_sites).filter(|(_, own)| own.is_none()) {
        *own = config.hosts.iter().find_map(|host| covering(&by_name, host));
        let identity = &identities[own.unwrap_or(default)];
        refused.extend(config.hosts.iter().find(|host| !identity.covers(host)));
    }
    let (first, others) = refused.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        1 => " or for another site's host".to_string(),
        count => format!(" or for the hosts of {count} other sites"),
    };
    Some(format!(
        "no certificate is for {first}{others}: over HTTPS clients get that of another site and refuse it; expected cert and key in the site"
    ))
}

/// The identity that covers a host, by the rules of [`Identity::covers`].
fn covering(by_name: &HashMap<&str, usize>, host: &str) -> Option<usize> {
    let of_parent = || by_name.get(&*format!("*.{}", host.split_once('.')?.1));
    by_name.get(host).or_else(of_parent).copied()
}

/// The certificate of the default site, otherwise the first.
fn default(configs: &[SiteConfig], of_sites: &[Option<usize>]) -> Option<usize> {
    let of_default = configs.iter().position(|config| config.is_default).and_then(|site| of_sites[site]);
    of_default.or_else(|| of_sites.iter().flatten().next().copied())
}

fn identity(certificate: &Certificate, keys: &Keys, made: &Development) -> Result<Arc<Identity>, IdentityError> {
    match certificate {
        Certificate::Files { cert, key } => Identity::read_by(cert, key, &|file| keys.read(file)).map(Arc::new),
        Certificate::Development(names) => match made.get() {
            Some(made) => Ok(Arc::clone(made)),
            None => Identity::for_development(names).map(|new| Arc::clone(made.get_or_init(|| Arc::new(new)))),
        },
    }
}

/// Returns a remark on the validity of a certificate. An expired one is used all the same: clients refuse it by
/// themselves, and a failed renewal must not keep a server from starting.
fn validity(certificate: &Certificate, identity: &Identity) -> Option<String> {
    let now = SystemTime::now();
    let name = certificate.name();
    let days = |span: Duration| span.as_secs() / (24 * 3600);
    match (identity.validity(now), identity.validity(now + SOON)) {
        (Validity::Expired(since), _) => Some(format!(
            "certificate {name} expired {} days ago: clients refuse it; renew it, then run weir reload",
            days(since)
        )),
        (Validity::NotYet(until), _) => {
            Some(format!("certificate {name} is valid in {} days: clients refuse it; is the clock right?", days(until)))
        }
        (Validity::Good, Validity::Expired(over)) => Some(format!(
            "certificate {name} expires in {} days; renew it, then run weir reload",
            days(SOON.saturating_sub(over))
        )),
        _ => None,
    }
}

/// Returns a remark on the first host of the site for which clients would refuse this certificate.
fn uncovered(config: &SiteConfig, certificate: &Certificate, identity: &Identity) -> Option<String> {
    let host = config.hosts.iter().find(|host| !identity.covers(host))?;
    Some(format!("certificate {} is not for {host}: clients refuse it there", certificate.name()))
}

impl Certificate {
    fn name(&self) -> String {
        match self {
            Certificate::Files { cert, .. } => format!("`{}`", cert.display()),
            Certificate::Development(_) => "of --tls-self-signed".to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity_for(names: &[&str]) -> Arc<Identity> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        Arc::new(Identity::for_development(&names).unwrap())
    }

    fn site(hosts: &[&str]) -> SiteConfig {
        let hosts = hosts.iter().map(ToString::to_string).collect();
        SiteConfig { hosts, ..SiteConfig::alone(".".into(), Default::default()) }
    }

    #[test]
    fn a_site_without_a_certificate_has_one_that_is_for_its_hosts() {
        let identities = [&["a.test"][..], &["*.b.test", "c.test"]].map(identity_for);
        let hosts: [&[&str]; 6] = [&["a.test"], &["x.b.test"], &["*.b.test"], &["c.test", "d.test"], &["e.test"], &[]];
        let configs = hosts.map(site);
        let mut of_sites = [Some(0), None, None, None, None, None];
        let said = borrow(&configs, &identities, 0, &mut of_sites);
        assert_eq!(of_sites, [Some(0), Some(1), Some(1), Some(1), None, None]);
        let expected = "no certificate is for d.test or for another site's host: ";
        assert!(said.as_ref().is_some_and(|said| said.starts_with(expected)), "{said:?}");
        assert_eq!(borrow(&configs[..3], &identities, 0, &mut of_sites[..3]), None);
    }

    #[test]
    fn a_certificate_for_development_outlasts_a_reload() {
        let (certificate, made) = (Certificate::Development(vec!["localhost".into()]), Development::new());
        let [one, other] = [(); 2].map(|()| identity(&certificate, &Keys::default(), &made).unwrap());
        assert!(Arc::ptr_eq(&one, &other) && one.covers("localhost"));
    }
}
