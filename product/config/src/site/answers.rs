//! The answers of a site other than files: redirects, upstreams, error pages, and fields added to responses.

use std::path::PathBuf;

use http::{Readings, Reject, Status};

use crate::host::HostName;
use crate::pattern::Pattern;

use super::{
    Access, CacheRule, CorsRule, ErrorPage, HeaderRule, Proxy, Redirect, RequestHeader, Rewrite, Rewritten, Tries,
    UpstreamAddress,
};

/// The paths for measurements of responsiveness under load: the list of the test objects, a small object, a large
/// object, and an object that accepts uploads.
pub const MEASURED_PATHS: [&str; 4] =
    ["/.well-known/nq", "/.well-known/nq/small", "/.well-known/nq/large", "/.well-known/nq/upload"];

/// The rules of a site. In each list, the first rule that matches decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// The rewrites, which apply before all other rules. The other rules see the rewritten path.
    pub rewrites: Vec<Rewrite>,
    /// The access rules, which apply before all answers except redirects.
    pub access: Vec<Access>,
    /// The fields of requests to upstreams.
    pub request_headers: Vec<RequestHeader>,
    pub headers: Vec<HeaderRule>,
    pub cache: Vec<CacheRule>,
    pub error_pages: Vec<ErrorPage>,
    /// The folder of error pages; `None` for the root.
    pub error_root: Option<PathBuf>,
    pub redirects: Vec<Redirect>,
    pub proxies: Vec<Proxy>,
    pub cors: Vec<CorsRule>,
    /// True if clients may measure responsiveness under load.
    pub responsiveness: bool,
    pub tries: Tries,
}

/// The reason why the rules of a site cannot decide about a request for an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclear {
    /// The path has empty segments. Without them, the rules could decide.
    Unmerged,
    Refused(Reject),
}

/// The refusal of a path that a program and the rules of its site may read differently (RFC 9110 section 4.2.3 leaves
/// normalisation open).
const AMBIGUOUS: Reject = Reject {
    status: Status::BAD_REQUEST,
    reason: "path that a program may read in several ways, with other rules for each",
};

const UNREWRITABLE: Reject =
    Reject { status: Status::BAD_REQUEST, reason: "path that a rewrite would make one with empty or dot segments" };

impl Answers {
    /// Returns the rewrite of this path, with the path and query that the other rules see; `None` if the path is not
    /// rewritten. Fails if a program may read the path in several ways that are rewritten differently, as in
    /// [`Answers::check`].
    pub fn rewrite(&self, readings: &Readings, query: Option<&[u8]>) -> Result<Option<(&Rewrite, Rewritten)>, Unclear> {
        if self.rewrites.is_empty() {
            return Ok(None);
        }
        let of = |path: &[u8]| self.rewrites.iter().position(|rewrite| rewrite.from.matches(path));
        let has_one_reading = self.proxies.is_empty() || !readings.are_several();
        let agreed = if has_one_reading { Some(of(readings.plain())) } else { readings.agreed(of) };
        let Some(at) = agreed else {
            return Err(if readings.are_unmerged() { Unclear::Unmerged } else { Unclear::Refused(AMBIGUOUS) });
        };
        let Some(rewrite) = at.map(|at| &self.rewrites[at]) else { return Ok(None) };
        // The result is never shown to a client, so it is told of its own path.
        if readings.has_empty_segment() {
            return Err(Unclear::Unmerged);
        }
        let rewritten = rewrite.apply(readings, query).ok_or(Unclear::Refused(UNREWRITABLE))?;
        Ok(Some((rewrite, rewritten)))
    }

    /// Checks that all readings of a path get the same decision from the rules, and from the classes by path if there
    /// are any. A rule that matches only one spelling would protect nothing, because the upstream may treat all
    /// spellings alike. Files have a single reading.
    pub fn check<C: PartialEq>(
        &self,
        host: Option<&HostName>,
        readings: &Readings,
        class: Option<impl Fn(&[u8]) -> C>,
    ) -> Result<(), Unclear> {
        if !readings.are_several() || self.proxies.is_empty() || (class.is_none() && self.are_for_all_paths()) {
            return Ok(());
        }
        if readings.agreed(|path| self.proxy(path).is_some()) == Some(false) {
            return Ok(());
        }
        // Without its prefix `/app//host` would be `//host`, which some programs take for an address.
        let strips = |path: &[u8]| self.proxy(path).is_some_and(|at| self.proxies[at].request.strip_prefix.is_some());
        if readings.has_empty_segment() && strips(readings.plain()) {
            return Err(Unclear::Unmerged);
        }
        match readings.agreed(|path| (self.rules(host, path), class.as_ref().map(|class| class(path)))) {
            Some(_) => Ok(()),
            None if readings.are_unmerged() => Err(Unclear::Unmerged),
            None => Err(Unclear::Refused(AMBIGUOUS)),
        }
    }

    /// The places of all rules that match a decoded path.
    fn rules(&self, host: Option<&HostName>, path: &[u8]) -> impl PartialEq + use<> {
        let redirect = self.redirects.iter().position(|redirect| redirect.holds(host, path));
        let of_request = self.request_headers(path).map(|rule| rule.at);
        let headers: Vec<_> = self.headers(path).map(|rule| rule.at).chain(of_request).collect();
        let (cache, cors) = (self.cache(path).map(|rule| rule.at), self.cors(path).map(|rule| rule.at));
        let access = self.access(path).map(|rule| rule.at);
        (redirect, access, self.is_measured(path), self.proxy(path), headers, cache, cors)
    }

    /// Returns true if every rule applies to all paths.
    fn are_for_all_paths(&self) -> bool {
        let answering = self.redirects.iter().map(|rule| &rule.from).chain(self.proxies.iter().map(|rule| &rule.path));
        let adding = self.headers.iter().map(|rule| &rule.path).chain(self.cache.iter().map(|rule| &rule.path));
        let shared = self.cors.iter().map(|rule| &rule.path);
        let adding = adding.chain(self.access.iter().map(|rule| &rule.path));
        let adding = adding.chain(self.request_headers.iter().map(|rule| &rule.path));
        !self.responsiveness && answering.chain(adding).chain(shared).all(Pattern::is_any)
    }

    pub fn is_empty(&self) -> bool {
        *self == Answers::default()
    }

    /// Returns true if some rule may add fields to a response.
    pub fn may_add_fields(&self) -> bool {
        !(self.headers.is_empty() && self.cors.is_empty() && self.cache.is_empty() && self.access.is_empty())
    }

    /// Returns the redirect for this host and for this path without its empty segments, together with its target.
    pub fn redirect(&self, host: Option<&HostName>, path: &Readings) -> Option<(&Redirect, String)> {
        if self.redirects.is_empty() {
            return None;
        }
        let merged = path.merged();
        let path = Readings::of(&merged).ok()?;
        self.redirects.iter().find_map(|redirect| Some((redirect, redirect.leads(host, &path)?)))
    }

    /// The files of the users who may log in.
    pub fn users_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.access.iter().filter_map(|access| Some(&access.users.as_ref()?.file))
    }

    /// The addresses of all upstreams and of the authentication servers.
    pub fn upstreams(&self) -> impl Iterator<Item = &UpstreamAddress> {
        let asked = self.access.iter().filter_map(|access| Some(&access.auth.as_ref()?.url.to));
        self.proxies.iter().flat_map(|proxy| &proxy.to).chain(asked)
    }

    /// The access rule for this decoded path; `None` if all clients are admitted.
    pub fn access(&self, path: &[u8]) -> Option<&Access> {
        self.access_at(path).map(|at| &self.access[at])
    }

    /// The index in [`Answers::access`] of the access rule for this decoded path.
    pub fn access_at(&self, path: &[u8]) -> Option<usize> {
        self.access.iter().position(|access| access.path.matches(path))
    }

    /// The index in [`Answers::proxies`] of the proxy for this decoded path; `None` if the site's files answer it.
    pub fn proxy(&self, path: &[u8]) -> Option<usize> {
        let at = self.proxies.iter().position(|proxy| proxy.path.matches(path))?;
        (!self.proxies[at].is_of_files()).then_some(at)
    }

    /// Returns true for one of [`MEASURED_PATHS`] if the site answers them.
    pub fn is_measured(&self, path: &[u8]) -> bool {
        self.responsiveness && MEASURED_PATHS.iter().any(|measured| measured.as_bytes() == path)
    }

    /// The response fields to set for this decoded path, each name once.
    pub fn headers<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = &'a HeaderRule> {
        let holds = move |rule: &&HeaderRule| rule.path.matches(path);
        let rules = self.headers.iter().enumerate().filter(move |(_, rule)| holds(rule));
        let is_first = move |at: usize, rule: &HeaderRule| {
            !self.headers[..at].iter().any(|other| other.name.eq_ignore_ascii_case(&rule.name) && holds(&other))
        };
        rules.filter(move |(at, rule)| is_first(*at, rule)).map(|(_, rule)| rule)
    }

    /// The request fields to set for upstreams at this decoded path, each name once.
    pub fn request_headers<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = &'a RequestHeader> {
        let holds = move |rule: &&RequestHeader| rule.path.matches(path);
        let rules = self.request_headers.iter().enumerate().filter(move |(_, rule)| holds(rule));
        let is_first = move |at: usize, rule: &RequestHeader| {
            !self.request_headers[..at].iter().any(|other| other.name.eq_ignore_ascii_case(&rule.name) && holds(&other))
        };
        rules.filter(move |(at, rule)| is_first(*at, rule)).map(|(_, rule)| rule)
    }

    pub fn cache(&self, path: &[u8]) -> Option<&CacheRule> {
        self.cache.iter().find(|rule| rule.path.matches(path))
    }

    /// The CORS rule for this decoded path.
    pub fn cors(&self, path: &[u8]) -> Option<&CorsRule> {
        self.cors.iter().find(|rule| rule.path.matches(path))
    }

    pub fn error_page(&self, status: u16) -> Option<&ErrorPage> {
        self.error_pages.iter().find(|page| page.statuses.has(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, path: &str, class: Option<fn(&[u8]) -> bool>) -> Result<(), Unclear> {
        let read = crate::read(format!("[[site]]\n{text}").as_bytes()).unwrap();
        read.sites[0].answers.check(None, &Readings::of(path.as_bytes()).unwrap(), class)
    }

    const PROXY: &str = "[[site.proxy]]\nto = ['127.0.0.1:1']\n";
    const REFUSED: Result<(), Unclear> = Err(Unclear::Refused(AMBIGUOUS));

    #[test]
    fn rules_decide_for_all_readings_or_none() {
        let rule = |kind: &str| format!("[[site.{kind}\n{PROXY}");
        let redirect = rule("redirect]]\nfrom='/old/*'\nto='/x'");
        for rules in [
            redirect.clone(),
            rule("proxy]]\npath='/old/*'\nto=['127.0.0.1:2']"),
            rule("access]]\npath='/old/*'\nallow=['::1']"),
            rule("request_header]]\npath='/old/*'\nname='A'"),
            rule("header]]\npath='/old/*'\nname='A'\nvalue='b'"),
            rule("cache]]\npath='/old/*'\ncontrol='no-store'"),
            rule("cors]]\npath='/old/*'\nallow_origins=['*']"),
        ] {
            for (path, expected) in [
                ("/old/a%2Fb", Ok(())),
                ("/new%2Fold/a", Ok(())),
                ("/new;a/b%5Cc", Ok(())),
                ("/old%2Fa", REFUSED),
                ("/old%5Ca", REFUSED),
                ("/new/..;/old/a", REFUSED),
                ("/new/..;/older", Ok(())),
                ("//old/a", Err(Unclear::Unmerged)),
                ("//old%2Fa", REFUSED),
                ("//new/a", Ok(())),
            ] {
                assert_eq!(check(&rules, path, None), expected, "{path} by {rules}");
            }
            assert_eq!(check(&rules, "/a;//b%5c%00%2Fc.", None), REFUSED, "more readings than are looked at");
        }
        // Without a program there is one reading.
        let files = "root='a'\n[[site.redirect]]\nfrom='/old/*'\nto='/x'\n";
        assert_eq!(check(files, "/old;x/a", None), Ok(()));
        let both =
            "root='a'\n[[site.redirect]]\nfrom='/old/*'\nto='/x'\n[[site.proxy]]\npath='/api/*'\nto=['127.0.0.1:1']\n";
        assert_eq!(check(both, "/old;x/a", None), Ok(()));
        assert_eq!(check(both, "/api;x/a", None), REFUSED);
    }

    #[test]
    fn a_site_of_one_program_passes_everything_on() {
        for path in ["/a;//b%5c%00%2Fc.", "/..;/a", "/old%2Fa", "//a"] {
            assert_eq!(check(PROXY, path, None), Ok(()), "{path}");
            assert_eq!(check(&format!("{PROXY}[[site.header]]\npath='*'\nname='A'\nvalue='b'\n"), path, None), Ok(()));
        }
        let class = |path: &[u8]| path.starts_with(b"/old/");
        assert_eq!([check(PROXY, "/old%2Fa", Some(class)), check(PROXY, "/new%2Fa", Some(class))], [REFUSED, Ok(())]);
    }
}
