//! Decides where a request of a site goes (another URL, path or upstream), and whether its client may have it.

use config::{Access, HostName, Rewritten, Unclear};
use http::{Readings, Reject, Request, Status};

use super::{Sites, name_of};
use crate::files::SiteNumber;

const HTTPS_PORT: u16 = 443;
const NO_HOST: Reject = Reject { status: Status::BAD_REQUEST, reason: "no valid host to redirect to over TLS" };

impl Sites {
    /// Returns the status and the URL if a request of this site is redirected. Returns a rejection if a request that
    /// must be redirected to TLS names no host.
    pub fn redirect(
        &self,
        site: SiteNumber,
        request: &Request,
        is_secure: bool,
    ) -> Option<Result<(Status, String), Reject>> {
        let is_of_path = request.path.starts_with(b"/");
        if let Some(port) = self.https[self.place(site)].redirects_to.filter(|_| !is_secure && is_of_path) {
            return Some(https_url(request, port).map(|url| (Status::PERMANENT_REDIRECT, url)).ok_or(NO_HOST));
        }
        self.redirect_by_rule(site, request).map(Ok)
    }

    fn redirect_by_rule(&self, site: SiteNumber, request: &Request) -> Option<(Status, String)> {
        let answers = &self.answers[self.place(site)];
        if answers.redirects.is_empty() {
            return None;
        }
        let host = host_of(request);
        let (redirect, to) = answers.redirect(host.as_ref(), &Readings::of(request.path).ok()?)?;
        let to = if to.contains('?') { to } else { with_query(to, request) };
        Some((Status(redirect.status), to))
    }

    /// Returns the index, among the site's proxies, of the upstreams that answer a request.
    pub fn proxy(&self, site: SiteNumber, request: &Request) -> Option<usize> {
        let answers = &self.answers[self.place(site)];
        if answers.proxies.is_empty() {
            return None;
        }
        let readings = Readings::of(request.path).ok()?;
        answers.proxy(readings.plain())
    }

    /// Handles a path that can be read in more than one way, if the rules of its site, or the classes by path
    /// (`class`), treat one reading differently from another. Returns a rejection, or a redirect to the canonical
    /// spelling of the path.
    pub fn unclear<C: PartialEq>(
        &self,
        site: SiteNumber,
        request: &Request,
        class: Option<impl Fn(&[u8]) -> C>,
    ) -> Option<Result<String, Reject>> {
        let answers = &self.answers[self.place(site)];
        if answers.proxies.is_empty() {
            return None;
        }
        // A path without a valid reading is refused when its file is looked up.
        let readings = Readings::of(request.path).ok().filter(Readings::are_several)?;
        match answers.check(host_of(request).as_ref(), &readings, class) {
            Ok(()) => None,
            Err(unclear) => Some(told(unclear, request)),
        }
    }

    /// Returns the path and query that replace the request's own, if the site rewrites them. Otherwise like
    /// [`Sites::unclear`].
    pub fn rewrite(&self, site: SiteNumber, request: &Request) -> Result<Option<Rewritten>, Result<String, Reject>> {
        let answers = &self.answers[self.place(site)];
        if answers.rewrites.is_empty() {
            return Ok(None);
        }
        let Ok(readings) = Readings::of(request.path) else { return Ok(None) };
        let rewritten = answers.rewrite(&readings, request.query).map_err(|unclear| told(unclear, request))?;
        Ok(rewritten.map(|(_, rewritten)| rewritten))
    }

    /// Returns the access rule for the path of a request, with its index among the site's rules; `None` if all clients
    /// may have the path.
    pub fn access(&self, site: SiteNumber, request: &Request) -> Option<(usize, &Access)> {
        let answers = &self.answers[self.place(site)];
        if answers.access.is_empty() {
            return None;
        }
        // A path without a valid reading is refused when its file is looked up.
        let at = answers.access_at(Readings::of(request.path).ok()?.plain())?;
        Some((at, &answers.access[at]))
    }
}

/// Returns the same URL over TLS, at this port. `None` if the request names no valid host.
fn https_url(request: &Request, port: u16) -> Option<String> {
    let host = host_of(request)?;
    let port = if port == HTTPS_PORT { String::new() } else { format!(":{port}") };
    let to = format!("https://{}{port}{}", host.as_str(), String::from_utf8_lossy(request.path));
    Some(with_query(to, request))
}

fn host_of(request: &Request) -> Option<HostName> {
    HostName::new(&name_of(request.fields.host?)?)
}

/// Returns the answer to a request that the rules cannot decide about: a redirect to the path without empty segments,
/// or else a rejection.
fn told(unclear: Unclear, request: &Request) -> Result<String, Reject> {
    match (unclear, http::merge_slashes(request.path)) {
        (Unclear::Unmerged, Some(merged)) => Ok(with_query(String::from_utf8_lossy(&merged).into_owned(), request)),
        (Unclear::Unmerged, None) => Err(Reject { status: Status::BAD_REQUEST, reason: "path with empty segments" }),
        (Unclear::Refused(reject), _) => Err(reject),
    }
}

/// Returns the target of a request without the empty segments and dot segments of its path. Returns `None` if there are
/// none, or if the path is invalid for another reason.
pub fn resolved(request: &Request) -> Option<String> {
    let resolved = http::resolved(request.path)?;
    Readings::of(&resolved).ok()?;
    // Browsers treat a backslash in an address as a slash, and two backslashes as the beginning of a host.
    if resolved.contains(&b'\\') {
        return None;
    }
    Some(with_query(String::from_utf8_lossy(&resolved).into_owned(), request))
}

/// Returns the address with the query of the request.
pub fn with_query(mut to: String, request: &Request) -> String {
    if let Some(query) = request.query {
        to.push('?');
        to.push_str(&String::from_utf8_lossy(query));
    }
    to
}

#[cfg(test)]
mod tests {
    use http::Limits;
    use http::http1::parse_request;

    use super::*;

    #[test]
    fn dot_segments_are_resolved_unless_the_rest_has_another_meaning() {
        for (target, to) in [
            ("/x/../api/group%2Fproject?a=/../b", Some("/api/group%2Fproject?a=/../b")),
            ("/a/%2E./b%5Cc", Some("/b%5Cc")),
            ("/a/../\\evil.example", None),
            ("/a/../../b", None),
            ("/a/b", None),
        ] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            let request = parse_request(head.as_bytes(), &Limits::default()).unwrap().unwrap().request;
            assert_eq!(resolved(&request).as_deref(), to, "{target}");
        }
    }
}
