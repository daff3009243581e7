//! Sites. Selects the site of a request by its host (RFC 9110 section 7.2), and defines a site's answers other than
//! files.

mod acme;
mod built_in_pages;
mod certificates;
mod cors;
mod current;
mod headers;
mod lacks;
mod login_gates;
mod pages;
mod resolve_upstreams;
mod responsiveness;
mod routing;
mod sites_error;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

use config::{Answers, Tries};
use http::Codings;

use crate::codec::{digest_of, with_dictionary};
use crate::coded::SiteKey;
use crate::files::{self, SiteNumber};
use crate::logging::LogConfig;
pub use acme::AcmeConfig;
pub use built_in_pages::{is_for_browser, names_json};
pub use certificates::SecureError;
use certificates::{Development, Ordered, Secured, ordered_names, secure};
pub use current::{Current, Served, Wanted};
use lacks::Lacks;
pub use lacks::{Lack, Part};
pub use login_gates::AskedServer;
use pages::Pages;
pub use pages::{ListingPageError, PageError};
pub use resolve_upstreams::follow_names;
pub use responsiveness::{Object, received};
pub use routing::{resolved, with_query};
pub use sites_error::SitesError;

/// A site as the operator configured it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteConfig {
    /// The name in metrics.
    pub name: String,
    /// The hosts in lower case: a name, an address, an IPv6 address in brackets, or `*.` followed by a name, for all of
    /// its subdomains.
    pub hosts: Vec<String>,
    /// True if the site answers requests with an unknown host or without a host. If several sites are marked, only the
    /// first is the default.
    pub is_default: bool,
    /// The folder that is served. A site that only redirects has none.
    pub dir: Option<PathBuf>,
    pub files: files::Options,
    /// The file of the site's own page around listings, if it has one. Its content is read into the options.
    pub listing_page: Option<PathBuf>,
    pub answers: Answers,
    /// The log of the site, if it has its own.
    pub log: Option<LogConfig>,
    pub https: Https,
    pub saving: Saving,
}

/// The ways in which a site saves bytes, other than the codings of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saving {
    /// True to compress responses of programs even if the request has a cookie or a login.
    pub compresses_private: bool,
    /// True to offer and use files as dictionaries.
    pub has_dictionaries: bool,
    /// True to also use as dictionaries those pages of programs that are the same for everybody.
    pub has_upstream_dictionaries: bool,
    /// True if browsers need not revalidate files whose names contain a hash of the content.
    pub has_immutable: bool,
}

impl Default for Saving {
    fn default() -> Saving {
        Saving {
            compresses_private: false,
            has_dictionaries: true,
            has_upstream_dictionaries: false,
            has_immutable: true,
        }
    }
}

/// The compression of a site's responses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Compressed {
    pub codings: Codings,
    /// True to code responses of programs even if the request has a cookie or a login.
    pub codes_private: bool,
    /// The key of the site in the set of dictionaries, if the site has dictionaries.
    pub dictionaries: Option<SiteKey>,
    /// True if pages of programs are dictionaries too.
    pub has_upstream_dictionaries: bool,
    has_immutable: bool,
}

impl Compressed {
    fn of(config: &SiteConfig) -> Compressed {
        let Saving { compresses_private: codes_private, has_dictionaries, has_upstream_dictionaries, has_immutable } =
            config.saving;
        let codings = config.files.codings;
        let key = || digest_of(config.name.as_bytes()).first_chunk().map(|first| SiteKey(u64::from_be_bytes(*first)));
        let has_dictionaries = has_dictionaries && !with_dictionary(codings).is_empty();
        let dictionaries = if has_dictionaries { key() } else { None };
        Compressed { codings, codes_private, dictionaries, has_upstream_dictionaries, has_immutable }
    }
}

/// The TLS settings of a site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Https {
    /// The certificate of the site. A site without one uses the certificate of the default site, or else of the first
    /// site that has one.
    pub certificate: Option<Certificate>,
    /// The port to which requests without TLS are redirected, if they are.
    pub redirects_to: Option<u16>,
    /// The value of Strict-Transport-Security.
    pub hsts: Option<String>,
}

/// The source of a site's certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Certificate {
    Files {
        cert: PathBuf,
        key: PathBuf,
    },
    /// Self-signed, for these hosts.
    Development(Vec<String>),
    /// A certificate for each host, ordered by ACME.
    Automatic,
}

impl SiteConfig {
    /// Creates the configuration of a single site, which answers for all hosts.
    pub fn alone(dir: PathBuf, files: files::Options) -> SiteConfig {
        SiteConfig {
            name: "default".into(),
            hosts: Vec::new(),
            is_default: true,
            dir: Some(dir),
            files,
            listing_page: None,
            answers: Answers::default(),
            log: None,
            https: Https::default(),
            saving: Saving::default(),
        }
    }
}

/// The sites by their hosts.
#[derive(Debug, Default)]
pub struct Sites {
    exact: HashMap<Box<str>, SiteNumber>,
    /// The sites of wildcard hosts, by the part of the host after `*.`.
    below: HashMap<Box<str>, SiteNumber>,
    default: Option<SiteNumber>,
    /// The number of the first site; the other sites have the numbers that follow.
    first: SiteNumber,
    names: Vec<String>,
    answers: Vec<Answers>,
    https: Vec<Https>,
    /// The compression of each site's responses.
    compression: Vec<Compressed>,
    pages: Pages,
}

impl Sites {
    /// Creates the sites, reading the files of their error pages.
    fn open(configs: &[SiteConfig], first: SiteNumber, lacks: &Lacks<'_>) -> Result<Sites, SitesError> {
        let answers = configs.iter().map(|config| config.answers.clone()).collect();
        let https = configs.iter().map(|config| config.https.clone()).collect();
        let names = configs.iter().map(|config| config.name.clone()).collect();
        let compression = configs.iter().map(Compressed::of).collect();
        let pages = Pages::read(configs, lacks)?;
        let mut sites = Sites { first, names, answers, https, compression, pages, ..Sites::default() };
        for (at, config) in (0..).zip(configs) {
            let number = first.wrapping_add(at);
            if config.is_default && sites.default.is_none() {
                sites.default = Some(number);
            }
            for host in &config.hosts {
                match host.strip_prefix("*.") {
                    Some(above) => sites.below.insert(above.into(), number),
                    None => sites.exact.insert(host.as_str().into(), number),
                };
            }
        }
        Ok(sites)
    }

    /// Returns the site of a host that a request names, with or without a port: the site with that host, or else the
    /// one with the longest wildcard that covers it, or else the default site.
    pub fn of(&self, host: Option<&[u8]>) -> Option<SiteNumber> {
        if self.exact.is_empty() && self.below.is_empty() {
            return self.default;
        }
        host.and_then(name_of).and_then(|name| self.named(&name)).or(self.default)
    }

    /// Returns the index of a site among all sites, by which lists of sites are indexed.
    pub fn place(&self, site: SiteNumber) -> usize {
        site.wrapping_sub(self.first) as usize
    }

    /// Returns the index of the default site, or else of the first.
    pub fn default_place(&self) -> usize {
        self.default.map_or(0, |site| self.place(site))
    }

    /// Returns the names of all sites, in the order of their indexes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the settings for the compression of a site's responses.
    pub fn compression(&self, site: SiteNumber) -> Compressed {
        self.compression[self.place(site)]
    }

    /// Returns the other names under which a site's files are looked up.
    pub fn tries(&self, site: SiteNumber) -> &Tries {
        &self.answers[self.place(site)].tries
    }

    fn named(&self, name: &str) -> Option<SiteNumber> {
        let below = || name.match_indices('.').find_map(|(dot, _)| self.below.get(&name[dot + 1..]));
        self.exact.get(name).or_else(below).copied()
    }
}

/// Returns the host in lower case, without the port and without the final dot of a fully qualified name (RFC 1034
/// section 3.1).
fn name_of(host: &[u8]) -> Option<Cow<'_, str>> {
    let host = std::str::from_utf8(host).ok()?;
    let end = match host.rfind(']') {
        Some(bracket) => bracket + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    let name = host.get(..end)?;
    let name = name.strip_suffix('.').unwrap_or(name);
    let has_upper = name.bytes().any(|byte| byte.is_ascii_uppercase());
    Some(if has_upper { name.to_ascii_lowercase().into() } else { name.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(all: &[(&[&str], bool)]) -> Sites {
        let config = |(hosts, is_default): &(&[&str], bool)| SiteConfig {
            name: String::new(),
            hosts: hosts.iter().map(|host| host.to_string()).collect(),
            is_default: *is_default,
            ..SiteConfig::alone(".".into(), files::Options::default())
        };
        Sites::open(&all.iter().map(config).collect::<Vec<_>>(), 0, &Lacks::none()).unwrap()
    }

    #[test]
    fn the_most_exact_host_decides() {
        let sites = sites(&[
            (&["*.example.org"], false),
            (&["example.org", "www.example.org"], false),
            (&["*.b.example.org", "127.0.0.1", "[2001:db8::1]"], false),
        ]);
        for (host, site) in [
            ("example.org", Some(1)),
            ("EXAMPLE.org:8080", Some(1)),
            ("example.org.", Some(1)),
            ("example.org.:80", Some(1)),
            ("www.example.org", Some(1)),
            ("a.example.org", Some(0)),
            ("b.example.org", Some(0)),
            ("a.b.example.org", Some(2)),
            ("x.a.b.example.org:1", Some(2)),
            ("127.0.0.1:8080", Some(2)),
            ("[2001:db8::1]", Some(2)),
            ("[2001:DB8::1]:80", Some(2)),
            ("notexample.org", None),
            (".example.org", Some(0)),
            ("org", None),
            ("", None),
            (":80", None),
            ("]", None),
        ] {
            assert_eq!(sites.of(Some(host.as_bytes())), site, "{host}");
        }
        assert_eq!((sites.of(None), sites.of(Some(b"\xff"))), (None, None));
    }

    #[test]
    fn the_default_takes_the_rest() {
        let several = sites(&[(&["a"], false), (&[], true), (&["b"], true)]);
        assert_eq!(
            [Some(&b"a"[..]), Some(b"b"), Some(b"c"), None].map(|host| several.of(host)),
            [0, 2, 1, 1].map(Some)
        );
        assert_eq!([Some(&b"a"[..]), None].map(|host| sites(&[(&[], true)]).of(host)), [Some(0); 2]);
    }
}
