//! Builds the response to a request: its status, fields and body. Whatever is specific to HTTP/1.1 is the connection's
//! concern.

mod alt_svc;
mod file;
mod file_waits;
mod form_waits;
mod logins;
mod pictures;
mod rules;
mod scripts;
mod search;
#[cfg(test)]
mod tests;
mod with_dictionary;

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use http::{Length, Method, Reject, Request, Response, Status};
use units::Nanos;

use crate::access::{Question, Verdict};
use crate::body::{Body, Piece};
use crate::coded::SiteKey;
use crate::files::{Cache, CacheAnswer, Found, Lookup, LookupResult, Lookups, Missing, SearchStep, SiteNumber};
use crate::logging::Log;
use crate::sites::{AskedServer, Compressed, Current, Object, Served, Sites};
use crate::stages::{Streaming, forbids, is_for_everybody, staged, staged_with};
use crate::upstream::{Group, PassOn};
pub use alt_svc::alternative;
pub use form_waits::{FormWait, FormWaits, LineView};
use logins::Logins;
use search::view_of;

/// A response, with additional facts for the connection and the log.
#[derive(Debug)]
pub struct Reply {
    /// Built for a HEAD as for a GET: the connection decides whether the body is sent.
    pub response: Response<Body>,
    /// No further request is read from the connection.
    pub is_last: bool,
    /// The error of a file that could not be read, for the error log.
    pub trouble: Option<io::Error>,
}

/// The way in which a request is answered.
#[derive(Debug)]
pub enum Answer {
    /// The reply is ready.
    Reply(Reply),
    /// The file may have to be waited for; a script that is found is run by these upstreams.
    Lookup(Awaited, Option<Box<PassOn>>),
    /// The password of the request has to be verified first.
    Verify(Box<Question>),
    /// A server has to decide first whether the client is let in.
    Ask(Arc<AskedServer>),
    /// An upstream makes the response.
    Upstream(PassOn),
    /// The reply reports the length of the request body, which must arrive first: see [`crate::sites::received`].
    Upload,
}

/// The wait of a reply with a file.
#[derive(Debug)]
pub enum Awaited {
    /// The file is looked up, in this step of the search for it.
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
    /// The step of the search in which it waits.
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

/// The target of a request: its site, if one has its host, and whether TLS was used. The site's number is valid until
/// the next [`Handler::serve`].
#[derive(Debug, Clone, Copy)]
pub struct To {
    pub site: Option<SiteNumber>,
    pub is_secure: bool,
    /// The UDP port at which the site is served over HTTP/3, if the client does not use it yet.
    pub http3_port: Option<NonZeroU16>,
    pub client: u32,
    /// The site whose dictionaries the response may use; `None` without TLS, or if it has none.
    pub dictionaries: Option<SiteKey>,
    /// No proxy stands between the client and this server, so that its cache is its own.
    pub is_direct: bool,
    /// The memory that the stages of its response may take.
    pub room_bytes: usize,
}

/// Makes responses for one worker.
pub struct Handler {
    pub cache: Cache,
    served: Arc<Served>,
    /// A counter that makes the boundaries of multipart bodies differ.
    boundaries: u64,
    lookups: Lookups,
    /// Completed lookups that are not answered yet; at most one for each exchange.
    found: VecDeque<LookupResult>,
    current: Arc<Current>,
    /// The turn of the sites that are served.
    sites_turn: u64,
    /// The requests that wait for coded forms; `None` if none are made.
    forms: Option<FormWaits>,
    line: LineView,
    logins: Logins,
}

const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";
const TEXT: &[u8] = b"text/plain; charset=utf-8";

impl From<Response<Body>> for Reply {
    fn from(response: Response<Body>) -> Reply {
        Reply { response, is_last: false, trouble: None }
    }
}

impl Handler {
    /// Creates a handler that serves the sites of `current`, whose folders `cache` has.
    pub fn new(cache: Cache, lookups: Lookups, current: Arc<Current>) -> Handler {
        let served = current.served();
        let (found, forms, line, logins) = (VecDeque::new(), None, LineView::default(), Logins::default());
        Handler { cache, served, boundaries: 0, lookups, found, current, sites_turn: 0, forms, line, logins }
    }

    /// Has files sent in the forms that this coder makes.
    pub fn coding_by(self, forms: FormWaits) -> Handler {
        Handler { forms: Some(forms), ..self }
    }

    /// Takes what is known of the line from now on.
    pub fn see_line(&mut self, line: LineView) {
        self.line = line;
    }

    /// Replaces the sites that are served.
    pub fn serve(&mut self, served: Arc<Served>) {
        self.cache.replace_roots(served.roots.clone());
        self.served = served;
    }

    /// The priority of a class; a lower one goes first.
    pub fn priority(&self, class: u16) -> u8 {
        self.served.assigned.as_ref().map_or(0, |assigned| assigned.priority(class))
    }

    /// The name of the class with this number, if there are classes.
    pub fn class_name(&self, class: u16) -> Option<&str> {
        Some(self.served.assigned.as_ref()?.name(class))
    }

    /// The acceptor for TLS connections; `None` if no site has a certificate.
    pub fn acceptor(&self) -> Option<&tls::Acceptor> {
        self.served.acceptor.as_ref()
    }

    fn sites(&self) -> &Sites {
        &self.served.sites
    }

    /// The site that a request is for; its number is valid until the next [`Handler::serve`].
    pub fn site(&self, request: &Request) -> Option<SiteNumber> {
        self.sites().of(request.fields.host)
    }

    /// The index of a site among all sites in force.
    pub fn place(&self, site: SiteNumber) -> usize {
        self.sites().place(site)
    }

    /// The names of the sites in force, in the order of their indexes.
    pub fn site_names(&self) -> impl Iterator<Item = &str> {
        self.sites().names()
    }

    /// The access log of a site, or of requests for no site.
    pub fn log(&self, site: Option<SiteNumber>) -> Option<&Arc<Log>> {
        self.served.log(site)
    }

    #[cfg(test)]
    pub fn answer(&mut self, to: To, request: &Request, client: IpAddr, now: Nanos) -> Answer {
        self.answer_to(to, request, client, now, None)
    }

    /// Returns the reply to a request. A lookup that may have to wait for a disk is returned as [`Answer::Lookup`], to
    /// be completed by [`Handler::reply_with`]. For a request that is passed on, the upstreams are returned;
    /// [`Handler::passed_on`] completes their response. `verdict` was decided about the client since the request came.
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
        let is_passed = !matches!(request.method, Method::Trace);
        let group = self.served.group(number, request).filter(|_| is_passed);
        let pass_on = group.map(|group| self.pass_on(to, number, request, client, (group, verdict)));
        match pass_on {
            Some(pass_on) if pass_on.group.scripts.is_none() => Answer::Upstream(pass_on),
            scripts => self.answer_with_file(to, number, request, scripts, now),
        }
    }

    /// The reply that needs no file: to an authority's challenge, to a preflight, for which browsers follow no redirect,
    /// or a redirect by a rule, or to TLS once there is a certificate for the host.
    fn ruled(&self, site: SiteNumber, to: To, request: &Request) -> Option<Reply> {
        if let Some(answer) = self.served.challenge_answer(request.path) {
            return Some(challenge(answer));
        }
        let stays = to.is_secure || self.served.is_certificate_pending(site, request);
        let preflight = self.sites().preflight(site, request).map(Reply::from);
        let redirected = || self.sites().redirect(site, request, stays);
        preflight.or_else(|| redirected().map(|(status, target)| redirect(status, &target)))
    }

    /// Returns true if some site passes requests to upstreams.
    pub fn has_proxies(&self) -> bool {
        self.served.has_proxies()
    }

    /// The upstream groups of all sites.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.served.groups()
    }

    /// Returns true if some of them have health checks.
    pub fn has_checks(&self) -> bool {
        self.served.has_checks
    }

    pub fn reply_with(&mut self, to: To, request: &Request, found: Result<Found, Missing>) -> Reply {
        let reply = self.of_found(to, request, found);
        self.with_headers(to, request, reply)
    }

    /// Completes a response of an upstream, or one to a body, with the fields of its site. Errors stay as they are.
    pub fn passed_on(&self, to: To, request: &Request, response: Response<Body>) -> Reply {
        let Some(site) = to.site else { return response.into() };
        // What the program says of its response counts, whatever the site makes of that.
        let is_shared =
            self.sites().compression(site).has_upstream_dictionaries && is_for_everybody(request, &response);
        let response = self.with_alternative(to, self.sites().add_fields(site, request, to.is_secure, response));
        let shared = if is_shared { self.shared(to, request, &response) } else { None };
        staged_with(request, response, &self.streaming(to, request), shared).into()
    }

    /// The settings of the stages of a response.
    fn streaming(&self, to: To, request: &Request) -> Streaming {
        let compression = to.site.map(|site| self.sites().compression(site)).unwrap_or_default();
        let Compressed { codings, codes_private, .. } = compression;
        let access = to.site.and_then(|site| self.sites().access(site, request));
        let is_private = access.is_some_and(|(_, access)| access.has_login());
        Streaming { codings, codes_private, is_private, room_bytes: to.room_bytes }
    }

    /// Looks up a file that an upstream has named, in the folder with this number.
    pub fn look_for_named(&mut self, folder: SiteNumber, path: &[u8], now: Nanos) -> CacheAnswer {
        if path.starts_with(b"/") {
            let merged = http::merge_slashes(path);
            return self.cache.lookup(folder, merged.as_deref().unwrap_or(path), now);
        }
        CacheAnswer::Ready(Err(Missing::NotFound))
    }

    /// Replies with an upstream's response whose body, and the fields that describe it, are replaced by those of the
    /// file that it named.
    pub fn reply_named(
        &mut self,
        to: To,
        request: &Request,
        found: Result<Found, Missing>,
        said: &Response<()>,
    ) -> Reply {
        let reply = match found {
            Ok(Found::File(entry)) => {
                // A picture has the type that the program says, if it says one.
                let is_kept = forbids(said) || entry.forms.images().next().is_some();
                // Whom the program shows this file to is its own affair.
                let to = To { dictionaries: None, ..to };
                let file = if is_kept { self.plain(request, &entry) } else { self.file(to, request, &entry) };
                let response = self::named(file, said);
                return self.passed_on(to, request, response);
            }
            Err(missing @ (Missing::Exhausted | Missing::Failed(_))) => self::missing(missing, request.path),
            Ok(_) | Err(_) => {
                let path = String::from_utf8_lossy(request.path);
                let trouble = io::Error::other(format!("what its upstream names for {path}: no such file"));
                Reply { trouble: Some(trouble), ..text(Status::NOT_FOUND, "nothing is here").into() }
            }
        };
        self.with_headers(to, request, reply)
    }

    /// The reply if no upstream answers.
    pub fn unanswered(&self, to: To, request: &Request, status: Status) -> Reply {
        let why = match status {
            Status::GATEWAY_TIMEOUT => "the server behind this one took too long",
            Status::SERVICE_UNAVAILABLE => "too busy, please try again",
            Status::CONTENT_TOO_LARGE => "the body of this request is too large",
            Status::LENGTH_REQUIRED => {
                "expected a body of 1 MiB at most, or one whose length comes first (Content-Length)"
            }
            _ => "the server behind this one does not answer",
        };
        let refused = text(status, why);
        let refused = if status == Status::SERVICE_UNAVAILABLE { refused.with("Retry-After", b"1") } else { refused };
        self.with_headers(to, request, refused.into())
    }

    /// The reply to a client that makes requests too often (RFC 6585 section 4).
    pub fn too_many(&self, to: To, request: &Request, retry_after_s: u64) -> Reply {
        let why = format!("more requests than one client may make; please try again in {retry_after_s} s");
        let refused = text(Status::TOO_MANY_REQUESTS, &why);
        self.with_headers(to, request, refused.with("Retry-After", retry_after_s.to_string().as_bytes()).into())
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
                // As `//` and clean URLs: every redirect to the one address of a page keeps its method.
                redirect(Status::PERMANENT_REDIRECT, &location)
            }
            Err(missing) => self.missing(to, missing, request),
        }
    }
}

/// The reply to bytes that are not a valid request. It belongs to no site: the host they name is unknown or cannot be
/// trusted.
pub fn reject(reject: Reject) -> Reply {
    Reply { is_last: true, ..text(reject.status, reject.reason).into() }
}

/// The reply of an object used for measurements by clients.
fn reply_measured(object: Object, request: &Request, is_secure: bool) -> Reply {
    object.response(request, is_secure).map_or_else(|| unserved(request, object.allow()), Reply::from)
}

/// Returns true for a method that reads a file.
fn is_of_files(method: Method) -> bool {
    matches!(method, Method::Get | Method::Head)
}

/// The reply to a method that reads no file, if these methods are allowed.
fn unserved(request: &Request, allow: &'static [u8]) -> Reply {
    if request.method == Method::Options {
        return bare(Status::NO_CONTENT).with("Allow", allow).into();
    }
    let why = format!("only {}", String::from_utf8_lossy(allow));
    text(Status::METHOD_NOT_ALLOWED, &why).with("Allow", allow).into()
}

fn redirect(status: Status, to: &str) -> Reply {
    text(status, to).with("Location", to.as_bytes()).into()
}

/// The answer to an authority's challenge (RFC 8555 section 8.3).
fn challenge(answer: String) -> Reply {
    let length = answer.len() as u64;
    let response = Response::new(Status::OK, answer.into_bytes().into());
    response.with("Content-Type", b"application/octet-stream").with_length(length).into()
}

/// The reply if no site has this host (RFC 9110 section 15.5.20).
fn misdirected() -> Reply {
    text(Status::MISDIRECTED, "no site of this server has that host").into()
}

fn missing(missing: Missing, path: &[u8]) -> Reply {
    match missing {
        Missing::NotFound => text(Status::NOT_FOUND, "nothing is here").into(),
        Missing::Outside(line) => {
            let trouble = line.map(|line| io::Error::other(line.to_string()));
            Reply { trouble, ..text(Status::NOT_FOUND, "nothing is here").into() }
        }
        Missing::Forbidden => text(Status::FORBIDDEN, "this may not be read").into(),
        Missing::NoIndex => text(Status::FORBIDDEN, "this folder has no index page").into(),
        Missing::BadPath(reject) => self::reject(reject),
        Missing::Exhausted => {
            text(Status::SERVICE_UNAVAILABLE, "too busy, please try again").with("Retry-After", b"1").into()
        }
        Missing::Failed(error) => {
            let path = String::from_utf8_lossy(path);
            let trouble = Some(io::Error::new(error.kind(), format!("{path}: {error}")));
            Reply { trouble, ..text(Status::INTERNAL_SERVER_ERROR, "this could not be read").into() }
        }
    }
}

/// Fields that describe a body, and those that this server makes: a named file has its own.
const OF_THE_BODY: [&str; 9] = [
    "accept-ranges",
    "content-encoding",
    "content-length",
    "content-range",
    "date",
    "etag",
    "last-modified",
    "server",
    "vary",
];

/// Merges a file's response with the other fields that an upstream has set.
fn named(file: Response<Body>, said: &Response<()>) -> Response<Body> {
    let has_type = said.fields().any(|(name, value)| name.eq_ignore_ascii_case(b"content-type") && !value.is_empty());
    let is_file = |name: &[u8]| OF_THE_BODY.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()));
    let is_type = |name: &[u8]| name.eq_ignore_ascii_case(b"content-type");
    let mut response = Response::new(file.status, Body::default());
    for (name, value) in file.fields().filter(|(name, _)| !(has_type && is_type(name))) {
        response = response.with(name, value);
    }
    for (name, value) in said.fields().filter(|(name, _)| !is_file(name) && (has_type || !is_type(name))) {
        response = response.with(name, value);
    }
    if file.has_unknown_length() {
        response = response.of_length(Length::Unknown);
    }
    response.body = file.body;
    response
}

/// Returns a response without a body.
fn bare(status: Status) -> Response<Body> {
    Response::new(status, Body::default())
}

fn text(status: Status, why: &str) -> Response<Body> {
    let body = format!("{} {}\n{why}\n", status.0, status.reason()).into_bytes();
    let length = body.len() as u64;
    Response::new(status, body.into()).with("Content-Type", TEXT).with_length(length)
}

/// Returns a response with a listing that is shared with other responses.
fn listing(page: Arc<Vec<u8>>, request: &Request) -> Response<Body> {
    let length = page.len() as u64;
    let response = Response::new(Status::OK, Piece::Page { page, at: 0 }.into());
    let mime: &[u8] = if view_of(request).is_json { b"application/json" } else { b"text/html; charset=utf-8" };
    response.with("Content-Type", mime).with("Vary", b"Accept").with_length(length)
}
