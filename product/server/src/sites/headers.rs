//! The fields that a site adds to responses and to requests for its upstreams, early hints, and error pages.

use std::sync::Arc;

use config::{Access, RequestHeader, Variable};
use http::gateway::FieldChange;
use http::{Readings, Request, Response, Status};

use super::pages::Page;
use super::{Sites, built_in_pages, cors};
use crate::body::{Body, Piece};
use crate::files::{SiteNumber, hash_in};

const STRICT: &str = "Strict-Transport-Security";

/// The Cache-Control value for files that never change: a year is the longest lifetime that all caches accept.
const IMMUTABLE: &[u8] = b"max-age=31536000, immutable";

impl Sites {
    /// Returns the fields that the site sets or removes in a request for an upstream. `of` returns the value of a
    /// variable.
    pub fn field_changes(
        &self,
        site: SiteNumber,
        request: &Request,
        of: impl Fn(Variable) -> Vec<u8>,
    ) -> Vec<FieldChange> {
        let answers = &self.answers[self.place(site)];
        if answers.request_headers.is_empty() {
            return Vec::new();
        }
        let Ok(readings) = Readings::of(request.path) else { return Vec::new() };
        let change = |rule: &RequestHeader| FieldChange {
            name: rule.name.clone(),
            value: rule.value.as_ref().map(|value| value.filled(&of)),
        };
        answers.request_headers(readings.plain()).map(change).collect()
    }

    /// Adds the fields of the site to the response, and replaces the body of an error.
    pub fn add_headers(
        &self,
        site: SiteNumber,
        request: &Request,
        is_secure: bool,
        mut response: Response<Body>,
    ) -> Response<Body> {
        let place = self.place(site);
        if let Some(page) = self.pages.of(place, response.status.0) {
            response = with_page(&response, page);
        } else if response.status.0 >= 400 {
            response = response.varying_by("Accept");
            if built_in_pages::is_for_browser(request) {
                let bytes = Arc::new(built_in_pages::page(response.status, &reason_of(&response)));
                let mime = "text/html; charset=utf-8".into();
                response = with_page(&response, &Page { bytes, mime });
            }
        }
        self.add_fields(site, request, is_secure, response)
    }

    /// Adds the fields of the site to the response. An existing Cache-Control of the response is kept.
    pub fn add_fields(
        &self,
        site: SiteNumber,
        request: &Request,
        is_secure: bool,
        mut response: Response<Body>,
    ) -> Response<Body> {
        // Without TLS, anyone on the path could have inserted it (RFC 6797 section 7.2).
        if let Some(hsts) = self.https[self.place(site)].hsts.as_ref().filter(|_| is_secure) {
            // Browsers read the first of several (RFC 6797 section 8.1), which would be that of an upstream.
            response = response.without(STRICT).with(STRICT, hsts.as_bytes());
        }
        let answers = &self.answers[self.place(site)];
        if !answers.may_add_fields() {
            return self.with_immutable(site, request, response);
        }
        let Ok(readings) = Readings::of(request.path) else { return response };
        let path = readings.plain();
        for rule in answers.headers(path) {
            response = match rule.name.eq_ignore_ascii_case("vary") {
                true => response.varying_by(&rule.value),
                // A value set by an upstream is replaced.
                false => response.without(&rule.name).with(&rule.name, rule.value.as_bytes()),
            };
        }
        if let Some(rule) = answers.cors(path) {
            response = cors::shared(rule, request, response);
        }
        // A rule for a file does not apply to a redirect or an error.
        let is_of_file = response.status.0 < 300 || response.status == Status::NOT_MODIFIED;
        let is_settled = !is_of_file || response.has("Cache-Control");
        let response = match answers.cache(path).filter(|_| !is_settled) {
            Some(rule) => response.with("Cache-Control", rule.control.as_bytes()),
            None => self.with_immutable(site, request, response),
        };
        if answers.access(path).is_some_and(Access::is_private) { private(response) } else { response }
    }

    /// Returns the early hints for a navigation on this site (RFC 8297): the resources that a browser should load for
    /// the page.
    pub fn hints(&self, site: SiteNumber, request: &Request) -> Option<Response<()>> {
        let answers = &self.answers[self.place(site)];
        let mut modes = request.values("sec-fetch-mode");
        if answers.headers.is_empty() || modes.next() != Some(b"navigate") {
            return None;
        }
        let readings = Readings::of(request.path).ok()?;
        let mut links = answers.headers(readings.plain()).filter(|rule| rule.name.eq_ignore_ascii_case("link"));
        let link = links.find(|rule| is_hint(&rule.value))?;
        Some(Response::new(Status(103), ()).with("Link", link.value.as_bytes()))
    }

    /// Declares a file immutable (RFC 8246) if its name has a hash of its content and the response says nothing else
    /// about caching.
    fn with_immutable(&self, site: SiteNumber, request: &Request, response: Response<Body>) -> Response<Body> {
        let is_on = self.compression[self.place(site)].has_immutable;
        // Most names have no hash, so this is checked first.
        if !is_on || !response.is_immutable() && hash_in(request.path).is_none() {
            return response;
        }
        // A 304 has the fields that the file would have (RFC 9110 section 15.4.5).
        let is_of_file =
            matches!(response.status.0, 200 | 206 | 304) && !response.is_forwarded() && response.has("ETag");
        // An application's page in place of a missing file is not that file.
        let is_page = || response.fields().any(|(_, value)| value.starts_with(b"text/html"));
        let is_said = || ["Cache-Control", "Expires"].iter().any(|name| response.has(name));
        if !is_of_file || is_said() || is_page() {
            return response;
        }
        response.with("Cache-Control", IMMUTABLE)
    }
}

/// Forbids shared caches to store a response that not all clients may get (RFC 9111 section 5.2.2.7).
fn private(response: Response<Body>) -> Response<Body> {
    if response.status.0 < 200 {
        return response;
    }
    let values = response.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"cache-control"));
    let directives = values.flat_map(|(_, value)| value.split(|&byte| byte == b',')).map(<[u8]>::trim_ascii);
    let named = |directive: &[u8], name: &str| {
        directive
            .split(|&byte| byte == b'=')
            .next()
            .is_some_and(|own| own.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
    };
    let is_shared = |directive: &[u8]| named(directive, "public") || named(directive, "s-maxage");
    let mut kept: Vec<&[u8]> = directives.filter(|directive| !directive.is_empty() && !is_shared(directive)).collect();
    let forbids =
        |directive: &&[u8]| [&b"private"[..], b"no-store"].iter().any(|own| own.eq_ignore_ascii_case(directive));
    if !kept.iter().any(forbids) {
        kept.push(b"private");
    }
    let control = kept.join(&b", "[..]);
    response.without("Cache-Control").with("Cache-Control", &control)
}

/// Returns true if a value of Link names a resource to load, or a host to connect to, before the page has arrived.
fn is_hint(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let parameters = value.split(';').skip(1).map(|parameter| parameter.split(',').next().unwrap_or_default().trim());
    let mut relations =
        parameters.filter_map(|parameter| parameter.strip_prefix("rel=")).map(|rel| rel.trim_matches('"'));
    relations.any(|rel| rel.split(' ').any(|word| matches!(word, "preload" | "modulepreload" | "preconnect")))
}

/// The second line of the text of an error that this server wrote itself.
fn reason_of(response: &Response<Body>) -> String {
    let text = response.body.pieces().next().and_then(Piece::in_memory).unwrap_or_default();
    String::from_utf8_lossy(text).lines().nth(1).unwrap_or_default().into()
}

/// Returns the same error with this page as its body; its own fields are kept.
fn with_page(response: &Response<Body>, page: &Page) -> Response<Body> {
    let is_of_body =
        |name: &[u8]| ["content-type", "content-length"].iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name));
    let body = Piece::Page { page: Arc::clone(&page.bytes), at: 0 };
    let kept = response.fields().filter(|(name, _)| !is_of_body(name));
    let response =
        kept.fold(Response::new(response.status, body.into()), |response, (name, value)| response.with(name, value));
    response.with("Content-Type", page.mime.as_bytes()).with_length(page.bytes.len() as u64)
}
