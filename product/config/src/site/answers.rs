//! What a site answers beside its files: redirects, responses of other servers, and what it adds to its responses.

use crate::host::HostName;

use super::{CacheRule, ErrorPage, HeaderRule, Proxy, Redirect};

/// What clients measure responsiveness under load with: where the others are, a small and a large object, and one that takes uploads.
pub const MEASURED_PATHS: [&str; 4] =
    ["/.well-known/nq", "/.well-known/nq/small", "/.well-known/nq/large", "/.well-known/nq/upload"];

/// Of each kind the first that matches decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    pub headers: Vec<HeaderRule>,
    pub cache: Vec<CacheRule>,
    pub error_pages: Vec<ErrorPage>,
    pub redirects: Vec<Redirect>,
    pub proxies: Vec<Proxy>,
    /// Clients may measure responsiveness under load.
    pub responsiveness: bool,
}

impl Answers {
    pub fn is_empty(&self) -> bool {
        *self == Answers::default()
    }

    /// The redirect for this host and this decoded path, and the address that it leads to.
    pub fn redirect(&self, host: Option<&HostName>, path: &[u8]) -> Option<(&Redirect, String)> {
        self.redirects.iter().find_map(|redirect| Some((redirect, redirect.leads(host, path)?)))
    }

    /// The place among [`Answers::proxies`] of the one for this decoded path.
    pub fn proxy(&self, path: &[u8]) -> Option<usize> {
        self.proxies.iter().position(|proxy| proxy.path.matches(path))
    }

    /// This path is one of [`MEASURED_PATHS`], where they are answered.
    pub fn is_measured(&self, path: &[u8]) -> bool {
        self.responsiveness && MEASURED_PATHS.iter().any(|measured| measured.as_bytes() == path)
    }

    /// The fields for this decoded path, each name once.
    pub fn headers<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = &'a HeaderRule> {
        let holds = move |rule: &&HeaderRule| rule.path.matches(path);
        let rules = self.headers.iter().enumerate().filter(move |(_, rule)| holds(rule));
        let is_first = move |at: usize, rule: &HeaderRule| {
            !self.headers[..at].iter().any(|other| other.name.eq_ignore_ascii_case(&rule.name) && holds(&other))
        };
        rules.filter(move |(at, rule)| is_first(*at, rule)).map(|(_, rule)| rule)
    }

    pub fn cache(&self, path: &[u8]) -> Option<&CacheRule> {
        self.cache.iter().find(|rule| rule.path.matches(path))
    }

    pub fn error_page(&self, status: u16) -> Option<&ErrorPage> {
        self.error_pages.iter().find(|page| page.status == status)
    }
}
