//! The stages that the body of a response passes through, and what they change in its head.

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use http::http1::Delimiter;
use http::{Length, Method, Request, Response};

use crate::body::{Body, Stage};

/// Fields that describe the bytes of a representation, or parts of them: those of a staged one are not known.
const OF_THE_BYTES: [&str; 6] =
    ["Accept-Ranges", "Content-Digest", "Content-MD5", "Content-Range", "Digest", "Repr-Digest"];

/// Returns the stages of a response to this request; the first one is next to the source of its body. This is the only
/// place that decides about stages, for files, pages and responses of upstreams alike. Compression will come here: it
/// depends on the codings that the request accepts and on the media type, length and codings of the response.
///
/// It is called for each response that may have stages, and with the response for the whole file if the request is
/// conditional or asks for a range.
fn stages_of(request: &Request, response: &Response<Body>) -> Vec<Box<dyn Stage>> {
    // Nothing configures a stage yet.
    let _ = (request, response);
    let stages = Vec::new();
    #[cfg(test)]
    let stages = testing::with_stages(stages, request, response);
    stages
}

/// Makes the body of a response to this request pass through its stages, if it has any.
pub fn staged(request: &Request, response: Response<Body>) -> Response<Body> {
    let stages = chosen(request, &response);
    if stages.is_empty() { response } else { through(request, response, stages) }
}

/// Returns true if the response with this whole representation has stages. Its ranges are not served then, since they
/// would be ranges of bytes that do not exist yet (RFC 9110 section 14.2).
pub fn has_stages(request: &Request, whole: &Response<Body>) -> bool {
    !chosen(request, whole).is_empty()
}

/// The head of a response for the same representation with stages: a 304 has the same validators as the 200.
pub fn staged_head(response: Response<Body>) -> Response<Body> {
    let response = OF_THE_BYTES.iter().fold(response.unshared(), |response, name| response.without(name));
    // Other bytes have another strong tag (RFC 9110 section 8.8.1), and a weak one has the same meaning.
    let tag = field(&response, "etag").map(<[u8]>::to_vec);
    match tag.filter(|tag| !tag.starts_with(b"W/")) {
        Some(tag) => response.without("ETag").with("ETag", &[b"W/", &tag[..]].concat()),
        None => response,
    }
}

/// Returns the stages of a response, none if its body is not a whole representation that may be transformed.
fn chosen(request: &Request, response: &Response<Body>) -> Vec<Box<dyn Stage>> {
    // An interim response or a tunnel; no body; and a part of a representation, whose other parts were sent without.
    let has_none = matches!(response.status.0, ..200 | 204..=206 | 304) || request.method == Method::Connect;
    let stages = if has_none { Vec::new() } else { stages_of(request, response) };
    if stages.is_empty() || forbids(response) { Vec::new() } else { stages }
}

/// Returns true if the response has to stay as it is (RFC 9111 section 5.2.2.6).
fn forbids(response: &Response<Body>) -> bool {
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
fn field<'r>(response: &'r Response<Body>, name: &str) -> Option<&'r [u8]> {
    response.fields().find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
}
