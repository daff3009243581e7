//! The stages that the body of a response passes through, and their changes to its head.
//!
//! The coding stage serves responses of programs. If the bytes of a response depend both on a secret of its client and
//! on content that an attacker made the client send, its coded length reveals the secret (BREACH). So a response to a
//! request with a cookie or a login is not coded, unless the site allows it.

mod choice;
mod coded;
mod shared;
#[cfg(test)]
pub(crate) mod staging;
#[cfg(test)]
mod tests;

use http::{Coding, Codings, Length, Method, Request, Response, Status, tag_asked_with, weakened};

use crate::body::{Body, Piece, Stage};
use crate::storage::InMemory;
pub use choice::forbids;
use choice::{CodingFields, field, length_of, may_be_coded, may_have_stages, wanted_coding};
use coded::Coded;
pub use shared::{Keeping, Offer, Shared, is_for_everybody, is_kept_by_browsers};

/// The fields that describe the bytes of a representation, or parts of them. A staged response has none of them,
/// because its bytes are not known in advance.
const OF_THE_BYTES: [&str; 6] =
    ["Accept-Ranges", "Content-Digest", "Content-MD5", "Content-Range", "Digest", "Repr-Digest"];

/// The settings of a site for the stages of its responses, and the memory that one response's stages may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Streaming {
    pub codings: Codings,
    /// True to code responses of programs even if the request has a cookie or a login.
    pub codes_private: bool,
    /// True if clients of the site have to log in, whether or not their requests show it.
    pub is_private: bool,
    pub room_bytes: usize,
}

/// The chain of stages with this coding.
fn stages_of(coded: Option<Coded>) -> Vec<Box<dyn Stage>> {
    coded.into_iter().map(|coded| Box::new(coded) as _).collect()
}

/// Makes the body of a response to this request pass through its stages, if it has any.
pub fn staged(request: &Request, response: Response<Body>, streaming: &Streaming) -> Response<Body> {
    staged_with(request, response, streaming, None)
}

/// Like [`staged`], for a response that may use or become a dictionary.
pub fn staged_with(
    request: &Request,
    response: Response<Body>,
    streaming: &Streaming,
    shared: Option<Shared>,
) -> Response<Body> {
    if response.status == Status::NOT_MODIFIED {
        return unchanged(request, response, shared.is_some());
    }
    if !may_have_stages(request, &response) || is_left_alone(&response) {
        return response;
    }
    let Choice { coded, offer, vary } = choose(request, &response, streaming, shared);
    let token = coded.as_ref().map(Coded::token);
    let stages = chosen(request, &response, coded);
    let response = if stages.is_empty() { response } else { through(request, response, stages) };
    let response = vary.into_iter().flatten().fold(response, |response, names| response.varying_by(names));
    let response = match offer {
        Some(offer) => response.with("Use-As-Dictionary", offer.as_bytes()),
        None => response,
    };
    match token {
        Some(token) => run_at_once(response.with("Content-Encoding", token.as_bytes())),
        None => response,
    }
}

/// Codes the response for a file that has no coded form yet, while the response is sent. The coded bytes depend on how
/// the input was cut into pieces, so the entity tag becomes weak and is marked, as for a response of a program.
pub fn coded_on_its_way(request: &Request, response: Response<Body>, coding: Coding) -> Response<Body> {
    let tag = field(&response, "etag").and_then(weakened);
    let response = through(request, response, stages_of(Some(Coded::new(coding)))).without("ETag");
    let response = tag.into_iter().fold(response, |response, tag| response.with("ETag", &tag));
    run_at_once(response.with("Content-Encoding", coding.token().as_bytes()))
}

/// Returns true for files, which most responses are. They have their own coded forms, and pass through stages only in
/// tests.
fn is_left_alone(response: &Response<Body>) -> bool {
    let is_file = response.body.pieces().any(Piece::is_file);
    #[cfg(test)]
    let is_file = is_file && !staging::is_on();
    is_file
}

/// The coding chosen for a response that is coded while it is sent.
#[derive(Default)]
struct Choice {
    coded: Option<Coded>,
    /// The value of Use-As-Dictionary, if the response is offered as one.
    offer: Option<String>,
    /// The names to add to Vary.
    vary: [Option<&'static str>; 2],
}

fn choose(request: &Request, response: &Response<Body>, streaming: &Streaming, shared: Option<Shared>) -> Choice {
    if streaming.codings.is_empty() {
        return Choice::default();
    }
    let fields = CodingFields::of(response);
    if !may_be_coded(request, response, &fields, streaming) {
        return Choice::default();
    }
    let coding = wanted_coding(request, streaming);
    let vary = [(!fields.varies).then_some("Accept-Encoding"), shared.as_ref().map(|_| varying_by_dictionary(request))];
    let (coded, offer) = match shared {
        Some(shared) => {
            let length = length_of(request, response, field(response, "content-length"));
            shared.stage(request, length, streaming.room_bytes, coding)
        }
        None => (coding.map(Coded::new), None),
    };
    Choice { coded, offer, vary }
}

/// Returns the names of the fields through which dictionaries affect the bytes of a response.
pub fn varying_by_dictionary(request: &Request) -> &'static str {
    let has_some = request.values("available-dictionary").next().is_some();
    if has_some { "Available-Dictionary, Sec-Fetch-Site" } else { "Available-Dictionary" }
}

/// Returns the response that tells the client that its copy is unchanged. If the copy was coded, the response has the
/// tag of the coded copy.
fn unchanged(request: &Request, response: Response<Body>, has_dictionaries: bool) -> Response<Body> {
    let ours = field(&response, "etag").and_then(|tag| tag_asked_with(request, tag));
    match ours {
        Some(tag) => {
            let response = response.unshared().without("ETag").with("ETag", &tag);
            let response = match has_dictionaries {
                true => response.varying_by(varying_by_dictionary(request)),
                false => response,
            };
            if CodingFields::of(&response).varies { response } else { varying(response) }
        }
        None => response,
    }
}

/// Adds Accept-Encoding to the field Vary.
fn varying(response: Response<Body>) -> Response<Body> {
    response.varying_by("Accept-Encoding")
}

/// Returns true if the response with this whole representation has stages. Its ranges are then not served: they would
/// be ranges of bytes that do not exist yet (RFC 9110 section 14.2).
pub fn has_stages(request: &Request, whole: &Response<Body>) -> bool {
    !chosen(request, whole, None).is_empty()
}

/// Returns the head for the same representation after its stages. A 304 gets the same validators as the 200.
pub fn staged_head(response: Response<Body>) -> Response<Body> {
    let response = OF_THE_BYTES.iter().fold(response.unshared(), |response, name| response.without(name));
    // Different bytes need a different strong tag (RFC 9110 section 8.8.1); a weak tag still applies.
    let tag = field(&response, "etag").filter(|tag| tag.starts_with(b"\""));
    // A program gets its own tag back; see `http::codings`.
    let tag = tag.and_then(|tag| if response.is_forwarded() { weakened(tag) } else { Some([b"W/", tag].concat()) });
    match tag {
        Some(tag) => response.without("ETag").with("ETag", &tag),
        None => response,
    }
}

/// Returns the stages of a response, the first one next to the source of its body. There are none if the body is not a
/// whole representation that may be transformed. The same rules apply to pages and to responses of upstreams.
///
/// Called for each response that may have stages: with the response for the whole file if the request is conditional or
/// asks for a range.
fn chosen(request: &Request, response: &Response<Body>, coded: Option<Coded>) -> Vec<Box<dyn Stage>> {
    if !may_have_stages(request, response) {
        return Vec::new();
    }
    let stages = stages_of(coded);
    #[cfg(test)]
    let stages = staging::with_stages(stages, request, response);
    if stages.is_empty() || forbids(response) { Vec::new() } else { stages }
}

fn through(request: &Request, response: Response<Body>, stages: Vec<Box<dyn Stage>>) -> Response<Body> {
    let before = length_of(request, &response, field(&response, "content-length"));
    let mut response = staged_head(response);
    let mut body = std::mem::take(&mut response.body);
    // The body of a response to HEAD may be missing already, and is not sent.
    let mut length = if request.method == Method::Head { Length::Unknown } else { before };
    let mut said = before;
    for stage in stages {
        (length, said) = (stage.length(length), stage.length(said));
        body = body.through(stage, length);
    }
    response.body = body;
    if said == before { response } else { response.without("Content-Length").of_length(said) }
}

/// Runs the stages of the part of a body that is in memory. If that is the whole body, its length becomes known, which
/// the order of responses uses.
fn run_at_once(mut response: Response<Body>) -> Response<Body> {
    let start = response.body.start();
    if start.is_empty() || !start.is_in_memory() {
        return response;
    }
    // A failure occurs again when the body is sent.
    let is_made = response.body.fill(&mut InMemory).is_ok();
    // Trailers need chunked framing, so a body with trailers keeps its length unknown.
    let has_end = response.body.pipe().is_some_and(|pipe| !pipe.is_open_ended() && !pipe.has_trailers());
    if is_made && has_end {
        let bytes = response.body.len();
        return response.without("Content-Length").of_length(Length::Known(bytes));
    }
    response
}
