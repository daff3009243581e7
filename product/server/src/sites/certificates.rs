//! The certificates of a set of sites. If one cannot be used, the whole set is rejected.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use thiserror::Error;
use tls::{Acceptor, Automatic, Identity, IdentityError, Pick, RootsError, Tickets, Validity};

use super::{Certificate, SiteConfig, Sites};
use crate::service_manager::Keys;

/// The remaining validity below which the operator is warned. Automatic renewal starts a month before expiry.
const SOON: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Error)]
pub enum SecureError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("a listener speaks TLS and no site has a certificate; expected cert and key in a site, or an [acme] table")]
    NoCertificate,
    #[error("the authority's directory (acme.directory) cannot be verified: {0}; or acme.ca")]
    Authorities(#[source] RootsError),
}

/// The self-signed certificate, once it exists. It outlives reloads, so that a browser that trusts it does so
/// afterwards too.
pub type Development = OnceLock<Arc<Identity>>;

/// The TLS acceptor, and remarks for the operator.
pub struct Secured {
    pub acceptor: Acceptor,
    pub remarks: Vec<String>,
    /// The expiry of each site's certificate, by the site's index. `None` for a site with automatic certificates, and
    /// for one that uses the default site's certificate.
    pub not_after: Vec<Option<SystemTime>>,
    pub ordered: Arc<Ordered>,
}

/// The certificate of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    /// The certificate and key with this index.
    Fixed(usize),
    /// A certificate for each host of the site, ordered by ACME.
    Automatic,
}

/// The names for which certificates are ordered by ACME, and the sites that use them.
#[derive(Debug, Default)]
pub struct Ordered {
    names: HashSet<Box<str>>,
    of_sites: Vec<bool>,
}

impl Ordered {
    /// Returns the name of a host's certificate: the host itself, or the wildcard of its parent domain.
    fn name_for(&self, host: &str) -> Option<&str> {
        let host = host.to_ascii_lowercase();
        let above = || self.names.get(&*format!("*.{}", host.split_once('.')?.1));
        self.names.get(&*host).or_else(above).map(|name| &**name)
    }

    /// Returns true if the site with this index has automatic certificates and none was issued for this host yet.
    pub fn is_pending(&self, site: usize, host: Option<&str>, automatic: &Automatic) -> bool {
        let is_there = || host.and_then(|host| self.name_for(host)).is_some_and(|name| automatic.has(name));
        self.of_sites.get(site).is_some_and(|is_automatic| *is_automatic) && !is_there()
    }
}

/// Returns the host names for which certificates are ordered by ACME, each once. No certificates are ordered for
/// addresses.
pub fn ordered_names(configs: &[SiteConfig]) -> Vec<String> {
    let sites = configs.iter().filter(|config| config.https.certificate == Some(Certificate::Automatic));
    let hosts: HashSet<&String> = sites.flat_map(|config| &config.hosts).filter(|host| is_name(host)).collect();
    let mut names: Vec<String> = hosts.into_iter().cloned().collect();
    names.sort_unstable();
    names
}

fn is_name(host: &str) -> bool {
    host.trim_matches(['[', ']']).parse::<IpAddr>().is_err()
}

/// The certificates of all sites, while they are being read.
#[derive(Default)]
struct Found {
    identities: Vec<Arc<Identity>>,
    of_sites: Vec<Option<Own>>,
    remarks: Vec<String>,
}

impl Found {
    /// Reads each certificate once, even if several sites use it.
    fn read(configs: &[SiteConfig], keys: &Keys, development: &Development) -> Result<Found, SecureError> {
        let (mut found, mut read) = (Found::default(), HashMap::<&Certificate, usize>::new());
        for config in configs {
            let own = match &config.https.certificate {
                None => None,
                Some(Certificate::Automatic) => config.hosts.iter().any(|host| is_name(host)).then_some(Own::Automatic),
                Some(certificate) => {
                    let at = match read.get(certificate) {
                        Some(&at) => at,
                        None => {
                            let identity = identity(certificate, keys, development)?;
                            found.remarks.extend(validity(certificate, &identity));
                            read.insert(certificate, found.identities.len());
                            found.identities.push(identity);
                            found.identities.len() - 1
                        }
                    };
                    found.remarks.extend(uncovered(config, certificate, &found.identities[at]));
                    Some(Own::Fixed(at))
                }
            };
            found.of_sites.push(own);
        }
        Ok(found)
    }
}

/// Returns the certificates of all sites. `None` if no site has one or will have one.
pub fn secure(
    configs: &[SiteConfig],
    sites: &Arc<Sites>,
    tickets: &Tickets,
    (keys, development): (&Keys, &Development),
    automatic: Option<&Arc<Automatic>>,
) -> Result<Option<Secured>, SecureError> {
    let Found { identities, mut of_sites, mut remarks } = Found::read(configs, keys, development)?;
    let Some(default) = default(configs, &of_sites) else { return Ok(None) };
    let names: HashSet<Box<str>> = ordered_names(configs).into_iter().map(Into::into).collect();
    remarks.extend(borrow(configs, &identities, (&default, &names), &mut of_sites));
    let not_after = of_sites.iter().map(|own| match own {
        Some(Own::Fixed(at)) => Some(identities[*at].not_after()),
        Some(Own::Automatic) | None => None,
    });
    let not_after = not_after.collect();
    let are_automatic = of_sites.iter().map(|own| *own == Some(Own::Automatic)).collect();
    let ordered = Arc::new(Ordered { names, of_sites: are_automatic });
    let pick = picker(Arc::clone(sites), of_sites, Arc::clone(&ordered), default);
    let acceptor = match automatic.filter(|_| !ordered.names.is_empty()) {
        Some(automatic) => Acceptor::with_automatic(&identities, automatic, tickets, pick),
        None => Acceptor::new(&identities, tickets, move |host| match pick(host) {
            Some(Pick::Fixed(at)) => at,
            Some(Pick::Automatic(_)) | None => usize::MAX,
        }),
    };
    Ok(Some(Secured { acceptor, remarks, not_after, ordered }))
}

/// Returns a function that selects the certificate for a host.
fn picker(
    sites: Arc<Sites>,
    of_sites: Vec<Option<Own>>,
    ordered: Arc<Ordered>,
    default: Pick,
) -> impl Fn(Option<&str>) -> Option<Pick> {
    move |host| {
        let site = sites.of(host.map(str::as_bytes)).map(|site| sites.place(site));
        match (site.and_then(|site| of_sites[site]), host.and_then(|host| ordered.name_for(host))) {
            (Some(Own::Fixed(at)), _) => Some(Pick::Fixed(at)),
            (Some(Own::Automatic), Some(name)) => Some(Pick::Automatic(name.into())),
            _ => Some(default.clone()),
        }
    }
}

/// Assigns to each site without a certificate another site's certificate that covers its hosts, if there is one. The
/// remaining sites use the default certificate, as in nginx; a remark reports this, because clients will refuse that
/// certificate.
fn borrow(
    configs: &[SiteConfig],
    identities: &[Arc<Identity>],
    (default, ordered): (&Pick, &HashSet<Box<str>>),
    of_sites: &mut [Option<Own>],
) -> Option<String> {
    let mut by_name: HashMap<&str, Own> = HashMap::new();
    let default = if let Pick::Fixed(at) = default { Some(*at) } else { None };
    for at in default.into_iter().chain(0..identities.len()) {
        identities[at].names().for_each(|name| _ = by_name.entry(name).or_insert(Own::Fixed(at)));
    }
    ordered.iter().for_each(|name| _ = by_name.entry(name).or_insert(Own::Automatic));
    let mut refused = Vec::new();
    for (config, own) in configs.iter().zip(of_sites).filter(|(_, own)| own.is_none()) {
        *own = config.hosts.iter().find_map(|host| covering(&by_name, host));
        let is_covered = |host: &&String| match own.or(default.map(Own::Fixed)) {
            Some(Own::Fixed(at)) => identities[at].covers(host),
            Some(Own::Automatic) => covering(&by_name, host) == Some(Own::Automatic),
            None => false,
        };
        refused.extend(config.hosts.iter().find(|host| !is_covered(host)));
    }
    let (first, others) = refused.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        1 => " or for another site's host".to_string(),
        count => format!(" or for the hosts of {count} other sites"),
    };
    Some(format!(
        "no certificate is for {first}{others}: HTTPS clients get another site's certificate and refuse it; expected \
            cert and key in the site"
    ))
}

/// Returns the certificate that covers a host, by the rules of [`Identity::covers`].
fn covering(by_name: &HashMap<&str, Own>, host: &str) -> Option<Own> {
    let of_parent = || by_name.get(&*format!("*.{}", host.split_once('.')?.1));
    by_name.get(host).or_else(of_parent).copied()
}

/// Returns the certificate of the default site, or else the first certificate.
fn default(configs: &[SiteConfig], of_sites: &[Option<Own>]) -> Option<Pick> {
    let of_default = configs.iter().position(|config| config.is_default).filter(|site| of_sites[*site].is_some());
    let site = of_default.or_else(|| of_sites.iter().position(Option::is_some))?;
    match of_sites[site]? {
        Own::Fixed(at) => Some(Pick::Fixed(at)),
        Own::Automatic => {
            configs[site].hosts.iter().find(|host| is_name(host)).map(|host| Pick::Automatic((&**host).into()))
        }
    }
}

fn identity(certificate: &Certificate, keys: &Keys, made: &Development) -> Result<Arc<Identity>, IdentityError> {
    match certificate {
        Certificate::Files { cert, key } => Identity::read_by(cert, key, &|file| keys.read(file)).map(Arc::new),
        Certificate::Development(names) => match made.get() {
            Some(made) => Ok(Arc::clone(made)),
            None => Identity::for_development(names).map(|new| Arc::clone(made.get_or_init(|| Arc::new(new)))),
        },
        Certificate::Automatic => unreachable!("it is read by the renewer"),
    }
}

/// Returns a remark on the validity of a certificate. An expired certificate is used nevertheless: clients refuse it
/// themselves, and a failed renewal must not keep the server from starting.
fn validity(certificate: &Certificate, identity: &Identity) -> Option<String> {
    let now = SystemTime::now();
    let name = certificate.name();
    let days = |span: Duration| span.as_secs() / (24 * 3600);
    match (identity.validity(now), identity.validity(now + SOON)) {
        (Validity::Expired(since), _) => Some(format!(
            "certificate {name} expired {} days ago: clients refuse it; renew it, then run weir reload",
            days(since)
        )),
        (Validity::NotYet(until), _) => Some(format!(
            "certificate {name} becomes valid in {} days: clients refuse it until then; is the clock \
                right?",
            days(until)
        )),
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
            Certificate::Automatic => "by ACME".to_string(),
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
        let [zero, one] = [0, 1].map(|at| Some(Own::Fixed(at)));
        let mut of_sites = [zero, None, None, None, None, None];
        let (default, ordered) = (Pick::Fixed(0), HashSet::new());
        let said = borrow(&configs, &identities, (&default, &ordered), &mut of_sites);
        assert_eq!(of_sites, [zero, one, one, one, None, None]);
        let expected = "no certificate is for d.test or for another site's host: ";
        assert!(said.as_ref().is_some_and(|said| said.starts_with(expected)), "{said:?}");
        assert_eq!(borrow(&configs[..3], &identities, (&default, &ordered), &mut of_sites[..3]), None);
    }

    fn ordered_for(hosts: &[&str]) -> SiteConfig {
        let https = super::super::Https { certificate: Some(Certificate::Automatic), ..Default::default() };
        SiteConfig { https, is_default: false, ..site(hosts) }
    }

    #[test]
    fn a_host_has_its_own_certificate_by_acme_or_that_of_its_wildcard() {
        let hosts: [&[&str]; 3] = [&["a.test", "192.0.2.1", "[2001:db8::1]"], &["*.b.test"], &["c.b.test"]];
        let configs =
            [ordered_for(hosts[0]), ordered_for(hosts[1]), SiteConfig { is_default: false, ..site(hosts[2]) }];
        assert_eq!(ordered_names(&configs), ["*.b.test", "a.test"]);
        let (automatic, tickets) = (Arc::<Automatic>::default(), Tickets::new().unwrap());
        let sites = Arc::new(Sites::open(&configs, 0, &super::super::Lacks::none()).unwrap());
        let development = Development::new();
        let secured =
            secure(&configs, &sites, &tickets, (&Keys::default(), &development), Some(&automatic)).unwrap().unwrap();
        assert_eq!((secured.remarks, secured.not_after), (vec![], vec![None; 3]));
        let default = default(&configs, &[Some(Own::Automatic), None, None]).unwrap();
        let own = vec![Some(Own::Automatic); 3];
        let pick = picker(sites, own, Arc::clone(&secured.ordered), default);
        for (host, name) in [
            (Some("A.test"), "a.test"),
            (Some("x.b.test"), "*.b.test"),
            (Some("c.b.test"), "*.b.test"),
            (Some("x.y.b.test"), "a.test"),
            (Some("d.test"), "a.test"),
            (None, "a.test"),
        ] {
            assert_eq!(pick(host), Some(Pick::Automatic(name.into())), "{host:?}");
        }
        assert!(secured.ordered.is_pending(0, Some("a.test"), &automatic));
        automatic.put("a.test", identity_for(&["a.test"]));
        assert!(!secured.ordered.is_pending(0, Some("a.test"), &automatic));
        assert!(
            secured.ordered.is_pending(0, Some("192.0.2.1"), &automatic)
                && secured.ordered.is_pending(0, None, &automatic)
        );
        assert!(secured.ordered.is_pending(2, Some("c.b.test"), &automatic));
    }

    #[test]
    fn a_certificate_for_development_outlasts_a_reload() {
        let (certificate, made) = (Certificate::Development(vec!["localhost".into()]), Development::new());
        let [one, other] = [(); 2].map(|()| identity(&certificate, &Keys::default(), &made).unwrap());
        assert!(Arc::ptr_eq(&one, &other) && one.covers("localhost"));
    }
}
