//! The stages that the body of a response passes through, and what they change in its head.
//!
//! The stage that codes is for what programs make. A response whose bytes depend on a secret of its client and on what somebody else
//! made the client send gives away the secret by its coded length (BREACH): with a cookie or a login in the request it
//! stays as it is, unless the site says otherwise.

mod coded;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use http::http1::Delimiter;
use http::{AcceptedCodings, Coding, Codings, Length, Method, Request, Response, Status, tag_asked_with, weakened};

use crate::body::{Body, Piece, Stage};
use crate::codec::{CODED_BYTES, STREAM_BYTES, STREAMED, is_compressible};
use crate::storage::InMemory;
use coded::Coded;

/// Fields that describe the bytes of a representation, or parts of them: those of a staged one are not known.
const OF_THE_BYTES: [&str; 6] =
    ["Accept-Ranges", "Content-Digest", "Content-MD5", "Content-Range", "Digest", "Repr-Digest"];

/// The settings of a site for the stages of its responses, and the memory that those of one response may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Streaming {
    pub codings: Codings,
    /// Responses of programs to requests with a cookie or a login are coded too.
    pub codes_private: bool,
    /// Its clients have to log in, however that shows in their requests.
    pub is_private: bool,
    pub room_bytes: usize,
}

/// Returns the coding of a response on its way that its client wants, if there is memory for one.
fn wanted_coding(request: &Request, streaming: &Streaming) -> Option<Coding> {
    let offered = STREAMED.into_iter().filter(|coding| streaming.codings.has(*coding)).collect();
    if streaming.room_bytes < STREAM_BYTES { None } else { AcceptedCodings::of(request).best(offered) }
}

/// Returns true if the response would be coded for some client. Files have forms of their own.
fn may_be_coded(request: &Request, response: &Response<Body>, streaming: &Streaming) -> bool {
    let is_private =
        || streaming.is_private || ["cookie", "authorization"].iter().any(|name| request.values(name).next().is_some());
    let is_made = || response.is_forwarded() || response.status == Status::OK;
    let is_file = || response.body.pieces().any(Piece::is_file);
    let has_coding = || response.has("Content-Encoding") || response.has("Content-Range");
    let mime = || field(response, "content-type").and_then(|mime| std::str::from_utf8(mime).ok()).unwrap_or_default();
    let is_short = || matches!(length_of(request, response), Length::Known(bytes) if bytes < *CODED_BYTES.start());
    let is_refused = || response.is_forwarded() && !streaming.codes_private && is_private();
    !streaming.codings.is_empty()
        && may_have_stages(request, response)
        && is_made()
        && !is_file()
        && is_compressible(mime())
        && !has_coding()
        && !is_short()
        && !is_refused()
        && !forbids(response)
}

/// Returns the stages of a response to this request; the first one is next to the source of its body. This is the only
/// place that decides about stages, for pages and responses of upstreams alike.
///
/// It is called for each response that may have stages, and with the response for the whole file if the request is
/// conditional or asks for a range.
fn stages_of(coding: Option<Coding>) -> Vec<Box<dyn Stage>> {
    coding.into_iter().map(|coding| Box::new(Coded::new(coding)) as _).collect()
}

/// Makes the body of a response to this request pass through its stages, if it has any.
pub fn staged(request: &Request, response: Response<Body>, streaming: &Streaming) -> Response<Body> {
    if response.status == Status::NOT_MODIFIED {
        return unchanged(request, response);
    }
    let is_negotiated = may_be_coded(request, &response, streaming);
    let coding = if is_negotiated { wanted_coding(request, streaming) } else { None };
    let stages = chosen(request, &response, coding);
    let response = if stages.is_empty() { response } else { through(request, response, stages) };
    let response = if is_negotiated { negotiated(response) } else { response };
    match coding {
        Some(coding) => run_at_once(response.with("Content-Encoding", coding.token().as_bytes())),
        None => response,
    }
}

/// The response that what a client has is unchanged. If that was coded, the tag is the one that it had then.
fn unchanged(request: &Request, response: Response<Body>) -> Response<Body> {
    let ours = field(&response, "etag").and_then(|tag| tag_asked_with(request, tag));
    match ours {
        Some(tag) => negotiated(response.unshared().without("ETag").with("ETag", &tag)),
        None => response,
    }
}

/// Adds that Accept-Encoding decides about the bytes.
fn negotiated(response: Response<Body>) -> Response<Body> {
    if varies(&response) { response } else { response.with("Vary", b"Accept-Encoding") }
}

/// Returns true if the response says that already.
fn varies(response: &Response<Body>) -> bool {
    let values = response.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"vary")).map(|(_, value)| value);
    let mut names = values.flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    names.any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"))
}

/// Returns true if the response with this whole representation has stages. Its ranges are not served then, since they
/// would be ranges of bytes that do not exist yet (RFC 9110 section 14.2).
pub fn has_stages(request: &Request, whole: &Response<Body>) -> bool {
    !chosen(request, whole, None).is_empty()
}

/// The head of a response for the same representation with stages: a 304 has the same validators as the 200.
pub fn staged_head(response: Response<Body>) -> Response<Body> {
    let response = OF_THE_BYTES.iter().fold(response.unshared(), |response, name| response.without(name));
    // Other bytes have another strong tag (RFC 9110 section 8.8.1), and a weak one has the same meaning.
    let tag = field(&response, "etag").filter(|tag| tag.starts_with(b"\""));
    // A program gets its own back; see `http::codings`.
    let tag = tag.and_then(|tag| if response.is_forwarded() { weakened(tag) } else { Some([b"W/", tag].concat()) });
    match tag {
        Some(tag) => response.without("ETag").with("ETag", &tag),
        None => response,
    }
}

/// Returns the stages of a response, none if its body is not a whole representation that may be transformed.
fn chosen(request: &Request, response: &Response<Body>, coding: Option<Coding>) -> Vec<Box<dyn Stage>> {
    if !may_have_stages(request, response) {
        return Vec::new();
    }
    let stages = stages_of(coding);
    #[cfg(test)]
    let stages = testing::with_stages(stages, request, response);
    if stages.is_empty() || forbids(response) { Vec::new() } else { stages }
}

/// Returns false for an interim response or a tunnel, one without a body, and a part of a representation, whose other
/// parts were sent without stages.
fn may_have_stages(request: &Request, response: &Response<Body>) -> bool {
    !matches!(response.status.0, ..200 | 204..=206 | 304 | 416) && request.method != Method::Connect
}

/// Returns true if the response has to stay as it is (RFC 9111 section 5.2.2.6).
pub fn forbids<B>(response: &Response<B>) -> bool {
    let controls = response.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"cache-control"));
    let mut directives = controls.flat_map(|(_, value)| value.split(|byte| *byte == b','));
    directives.any(|directive| directive.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

fn through(request: &Request, response: Response<Body>, stages: Vec<Box<dyn Stage>>) -> Response<Body> {
    let before = length_of(request, &response);
    let mut response = staged_head(response);
    let mut body = std::mem::take(&mut response.body);
    // The body that answers a HEAD may be missing already, and is not sent.
    let mut length = if request.method == Method::Head { Length::Unknown } else { before };
    let mut said = before;
    for stage in stages {
        (length, said) = (stage.length(length), stage.length(said));
        body = body.through(stage, length);
    }
    response.body = body;
    if said == before { response } else { response.without("Content-Length").of_length(said) }
}

/// Runs the stages of a body that is in memory, as far as they run in one piece. If that is all of it, its length is
/// known: the order of responses goes by it.
fn run_at_once(mut response: Response<Body>) -> Response<Body> {
    let start = response.body.start();
    if start.is_empty() || !start.is_in_memory() {
        return response;
    }
    // A failure is met again when the body is sent.
    let is_made = response.body.fill(&mut InMemory).is_ok();
    // Trailers in chunks come behind a length that nothing gives.
    let has_end = response.body.pipe().is_some_and(|pipe| !pipe.is_open_ended() && !pipe.has_trailers());
    if is_made && has_end {
        let bytes = response.body.len();
        return response.without("Content-Length").of_length(Length::Known(bytes));
    }
    response
}

/// The length of a body as its head gives it.
fn length_of(request: &Request, response: &Response<Body>) -> Length {
    let given = field(response, "content-length").and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    match given {
        _ if Delimiter::of(response, 1) == Delimiter::LastChunk => Length::Unknown,
        Some(bytes) => Length::Known(bytes),
        None if request.method == Method::Head || response.body.is_open_ended() => Length::Unknown,
        None => Length::Known(response.body.len()),
    }
}

/// The first value of a field.
fn field<'r, B>(response: &'r Response<B>, name: &str) -> Option<&'r [u8]> {
    response.fields().find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
}
