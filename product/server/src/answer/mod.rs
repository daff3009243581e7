//! Builds the response to a request: its status, fields and body. The connection handles everything specific to
//! HTTP/1.1.

mod alt_svc;
mod before_answer;
mod error_replies;
mod file;
mod file_waits;
mod form_waits;
mod logins;
mod named_file;
mod pictures;
mod scripts;
mod search;
mod sites_in_force;
#[cfg(test)]
mod tests;
mod with_dictionary;

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use http::{Method, Request, Response, Status};
use units::Nanos;

use crate::access::{Question, Verdict};
use crate::body::{Body, Piece};
use crate::coded::SiteKey;
use crate::files::{Cache, Found, Lookup, LookupResult, Lookups, Missing, SearchStep, SiteNumber};
use crate::sites::{AskedServer, Compressed, Current, Object, Served};
use crate::stages::{Streaming, is_for_everybody, staged, staged_with};
use crate::upstream::{Group, PassOn};
pub use alt_svc::alternative;
pub use error_replies::reject;
use error_replies::{looping, misdirected, text, unserved};
pub use form_waits::{FormWait, FormWaits, LineView};
use logins::Logins;
use search::view_of;

/// A response, with additional information for the connection and the log.
#[derive(Debug)]
pub struct Reply {
    /// The response, built for HEAD as for GET; the connection decides whether to send the body.
    pub response: Response<Body>,
    /// True if no further request is read from the connection.
    pub is_last: bool,
    /// The error of a file that could not be read, for the error log.
    pub trouble: Option<io::Error>,
}

/// The next step in answering a request.
#[derive(Debug)]
pub enum Answer {
    /// The reply is ready.
    Reply(Reply),
    /// The file must be looked up, which may take time. If it is a script, these upstreams run it.
    Lookup(Awaited, Option<Box<PassOn>>),
    /// The password must be verified first.
    Verify(Box<Question>),
    /// An authentication server must first decide whether to admit the client.
    Ask(Arc<AskedServer>),
    /// An upstream makes the response.
    Upstream(PassOn),
    /// The reply reports the length of the request body, so the body must arrive first: see [`crate::sites::received`].
    Upload,
}

/// The wait of a reply with a file.
#[derive(Debug)]
pub enum Awaited {
    /// The file is being looked up, in this step of the search.
    File(Box<Lookup>, SearchStep),
    /// A form of the file is being made.
    Form(Box<FormWait>),
}

impl From<Box<Lookup>> for Awaited {
    fn from(lookup: Box<Lookup>) -> Awaited {
        Awaited::File(lookup, SearchStep::Exact)
    }
}

impl Awaited {
    /// Returns the step of the search that is pending.
    pub fn step(&self) -> SearchStep {
        match self {
            Awaited::File(_, step) => *step,
            Awaited::Form(wait) => wait.step,
        }
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer::Reply(reply)
    }
}

/// The target of a request: its site, if its host belongs to one, and whether TLS was used. The site's number is valid
/// until the next [`Handler::serve`].
#[derive(Debug, Clone, Copy)]
pub struct To {
    pub site: Option<SiteNumber>,
    pub is_secure: bool,
    /// The UDP port at which the site is available over HTTP/3, if the client does not use HTTP/3 yet.
    pub http3_port: Option<NonZeroU16>,
    pub client: u32,
    /// The site whose dictionaries the response may use; `None` without TLS, or if the site has none.
    pub dictionaries: Option<SiteKey>,
    /// True if there is no proxy between the client and this server, so that the client's cache serves only this
    /// client.
    pub is_direct: bool,
    /// The maximum memory, in bytes, of the stages of the response.
    pub room_bytes: usize,
}

/// Makes responses for one worker.
pub struct Handler {
    pub cache: Cache,
    served: Arc<Served>,
    /// A counter that makes the boundaries of multipart bodies unique.
    boundaries: u64,
    lookups: Lookups,
    /// Completed lookups that have not been answered yet, at most one per exchange.
    found: VecDeque<LookupResult>,
    current: Arc<Current>,
    /// The generation of the sites; a reload increases it.
    sites_turn: u64,
    /// Requests that wait for coded forms; `None` if no forms are made.
    forms: Option<FormWaits>,
    line: LineView,
    logins: Logins,
}

const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

impl From<Response<Body>> for Reply {
    fn from(response: Response<Body>) -> Reply {
        Reply { response, is_last: false, trouble: None }
    }
}

impl Handler {
    /// Creates a handler for the sites of `current`, whose folders are in `cache`.
    pub fn new(cache: Cache, lookups: Lookups, current: Arc<Current>) -> Handler {
        let served = current.served();
        let (found, forms, line, logins) = (VecDeque::new(), None, LineView::default(), Logins::default());
        Handler { cache, served, boundaries: 0, lookups, found, current, sites_turn: 0, forms, line, logins }
    }

    /// Enables coded forms of files, made by the coder of `forms`.
    pub fn coding_by(self, forms: FormWaits) -> Handler {
        Handler { forms: Some(forms), ..self }
    }

    /// Sets the state of the line on which later answers are based.
    pub fn see_line(&mut self, line: LineView) {
        self.line = line;
    }

    #[cfg(test)]
    pub fn answer(&mut self, to: To, request: &Request, client: IpAddr, now: Nanos) -> Answer {
        self.answer_to(to, request, client, now, None)
    }

    /// Returns the reply to a request. If the lookup may have to wait for a disk, returns [`Answer::Lookup`], which
    /// [`Handler::reply_with`] completes. If the request is passed on, returns the upstreams; [`Handler::passed_on`]
    /// completes their response. `verdict` is the decision about the client, if one was made since the request arrived.
    pub fn answer_to(
        &mut self,
        to: To,
        request: &Request,
        client: IpAddr,
        now: Nanos,
        verdict: Option<Verdict>,
    ) -> Answer {
        let Some(number) = to.site else { return misdirected().into() };
        #[cfg(test)]
        if request.path == b"/pipe" {
            return tests::piped(request).into();
        }
        if let Some(reply) = self.unclear(number, request, client).or_else(|| self.ruled(number, to, request)) {
            return self.with_headers(to, request, reply).into();
        }
        if let Some(before) = self.let_in(to, number, request, client, (now, verdict.as_ref())) {
            return before;
        }
        if let Some(answer) = self.measured(number, to, request) {
            return answer;
        }
        // What TRACE reveals must not be open to everybody (RFC 9110 section 9.3.8).
        let is_passed = !matches!(request.method, Method::Trace) && !http::gateway::is_at_its_end(request);
        let group = self.served.group(number, request).filter(|_| is_passed);
        if group.is_some() && http::gateway::is_looping(request) {
            return self.with_headers(to, request, looping()).into();
        }
        let pass_on = group.map(|group| self.pass_on(to, number, request, client, (group, verdict)));
        match pass_on {
            Some(pass_on) if pass_on.group.scripts.is_none() => Answer::Upstream(pass_on),
            scripts => self.answer_with_file(to, number, request, scripts, now),
        }
    }

    /// Returns the reply to a request that needs no file: an authority's challenge, a preflight request (for which
    /// browsers follow no redirect), a redirect by a rule, or a redirect to TLS once the host has a certificate.
    fn ruled(&self, site: SiteNumber, to: To, request: &Request) -> Option<Reply> {
        if let Some(answer) = self.served.challenge_answer(request.path) {
            return Some(challenge(answer));
        }
        let stays = to.is_secure || self.served.is_certificate_pending(site, request);
        let preflight = self.sites().preflight(site, request).map(Reply::from);
        let redirected = || self.sites().redirect(site, request, stays);
        preflight.or_else(|| {
            redirected().map(|redirected| redirected.map_or_else(reject, |(status, target)| redirect(status, &target)))
        })
    }

    /// Returns the upstream groups of all sites.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.served.groups()
    }

    /// Returns true if some groups have health checks.
    pub fn has_checks(&self) -> bool {
        self.served.has_checks
    }

    pub fn reply_with(&mut self, to: To, request: &Request, found: Result<Found, Missing>) -> Reply {
        let reply = self.of_found(to, request, found);
        self.with_headers(to, request, reply)
    }

    /// Completes an upstream's response, or the response to a request body, with the fields of its site. Errors are not
    /// changed.
    pub fn passed_on(&self, to: To, request: &Request, response: Response<Body>) -> Reply {
        let Some(site) = to.site else { return response.into() };
        // The program's fields decide, whatever the site makes of them.
        let is_shared =
            self.sites().compression(site).has_upstream_dictionaries && is_for_everybody(request, &response);
        let response = self.with_alternative(to, self.sites().add_fields(site, request, to.is_secure, response));
        let shared = if is_shared { self.shared(to, request, &response) } else { None };
        staged_with(request, response, &self.streaming(to, request), shared).into()
    }

    /// Returns the settings of the stages of a response.
    fn streaming(&self, to: To, request: &Request) -> Streaming {
        let compression = to.site.map(|site| self.sites().compression(site)).unwrap_or_default();
        let Compressed { codings, codes_private, .. } = compression;
        let access = to.site.and_then(|site| self.sites().access(site, request));
        let is_private = access.is_some_and(|(_, access)| access.has_login());
        Streaming { codings, codes_private, is_private, room_bytes: to.room_bytes }
    }

    fn with_headers(&self, to: To, request: &Request, reply: Reply) -> Reply {
        let Some(site) = to.site else { return reply };
        let response = self.sites().add_headers(site, request, to.is_secure, reply.response);
        let response = staged(request, self.with_alternative(to, response), &self.streaming(to, request));
        Reply { response, ..reply }
    }

    fn of_found(&mut self, to: To, request: &Request, found: Result<Found, Missing>) -> Reply {
        match found {
            Ok(Found::File(entry)) => self.file(to, request, &entry).into(),
            Ok(Found::Listing(page)) => listing(page, request).into(),
            Ok(Found::Redirect(mut location)) => {
                if let Some(query) = request.query {
                    location.push('?');
                    location.push_str(&String::from_utf8_lossy(query));
                }
                // Like the redirects for `//` and clean URLs, every redirect to the one address of a page keeps its
                // method.
                redirect(Status::PERMANENT_REDIRECT, &location)
            }
            Err(missing) => self.missing(to, missing, request),
        }
    }
}

/// Returns the reply with a test object for measurements.
fn reply_measured(object: Object, request: &Request, is_secure: bool) -> Reply {
    object.response(request, is_secure).map_or_else(|| unserved(request, object.allow()), Reply::from)
}

/// Returns true for a method that reads a file.
fn is_of_files(method: Method) -> bool {
    matches!(method, Method::Get | Method::Head)
}

fn redirect(status: Status, to: &str) -> Reply {
    text(status, to).with("Location", to.as_bytes()).into()
}

/// Returns the answer to an authority's challenge (RFC 8555 section 8.3).
fn challenge(answer: String) -> Reply {
    let length = answer.len() as u64;
    let response = Response::new(Status::OK, answer.into_bytes().into());
    response.with("Content-Type", b"application/octet-stream").with_length(length).into()
}

/// Returns a response without a body.
fn bare(status: Status) -> Response<Body> {
    Response::new(status, Body::default())
}

/// Returns a response with a listing, whose page other responses share.
fn listing(page: Arc<Vec<u8>>, request: &Request) -> Response<Body> {
    let length = page.len() as u64;
    let response = Response::new(Status::OK, Piece::Page { page, at: 0 }.into());
    let mime: &[u8] = if view_of(request).is_json { b"application/json" } else { b"text/html; charset=utf-8" };
    response.with("Content-Type", mime).varying_by("Accept").with_length(length)
}
