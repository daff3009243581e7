//! Decides whether and how a response is coded while it is sent, by its type and length, the fields of request and
//! response, and the settings of its site.

use http::http1::Delimiter;
use http::{AcceptedCodings, Coding, Length, Method, Request, Response};

use super::Streaming;
use crate::body::{Body, Piece};
use crate::codec::{CODED_BYTES, STREAM_BYTES, STREAMED, is_compressible};

/// Returns the coding that the client prefers for a response that is coded while it is sent, if there is memory for an
/// encoder.
pub(super) fn wanted_coding(request: &Request, streaming: &Streaming) -> Option<Coding> {
    // Without the field, a client takes no coding.
    request.fields.accept_encoding?;
    let offered = STREAMED.into_iter().filter(|coding| streaming.codings.has(*coding)).collect();
    if streaming.room_bytes < STREAM_BYTES { None } else { AcceptedCodings::of(request).best(offered) }
}

/// The fields of a response that decide whether it is coded, found in one pass.
#[derive(Default)]
pub(super) struct CodingFields<'r> {
    content_type: &'r [u8],
    content_length: Option<&'r [u8]>,
    /// True if the body is already coded, or is part of a representation.
    has_coding: bool,
    /// The response forbids transformations.
    forbids: bool,
    /// The field Vary names Accept-Encoding already.
    pub varies: bool,
}

impl<'r> CodingFields<'r> {
    pub fn of<B>(response: &'r Response<B>) -> CodingFields<'r> {
        let (mut found, mut content_type) = (CodingFields::default(), None);
        for (name, value) in response.fields() {
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            match name.len() {
                4 if is("vary") => found.varies |= varies(value),
                12 if is("content-type") => drop(content_type.get_or_insert(value)),
                13 if is("cache-control") => found.forbids |= forbids_transform(value),
                13 if is("content-range") => found.has_coding = true,
                14 if is("content-length") => drop(found.content_length.get_or_insert(value)),
                16 if is("content-encoding") => found.has_coding = true,
                _ => {}
            }
        }
        CodingFields { content_type: content_type.unwrap_or_default(), ..found }
    }
}

/// Returns true if the response would be coded for some client, whatever its status: an error page may be as long as
/// any other. Files are never coded here, because they have their own coded forms.
pub(super) fn may_be_coded(
    request: &Request,
    response: &Response<Body>,
    fields: &CodingFields,
    streaming: &Streaming,
) -> bool {
    let is_private =
        || streaming.is_private || ["cookie", "authorization"].iter().any(|name| request.values(name).next().is_some());
    let is_file = || response.body.pieces().any(Piece::is_file);
    let mime = || std::str::from_utf8(fields.content_type).unwrap_or_default();
    let length = || length_of(request, response, fields.content_length);
    let is_short = || matches!(length(), Length::Known(bytes) if bytes < *CODED_BYTES.start());
    let is_refused = || response.is_forwarded() && !streaming.codes_private && is_private();
    !is_file() && !fields.has_coding && !fields.forbids && is_compressible(mime()) && !is_short() && !is_refused()
}

/// Returns true if this value of Vary names Accept-Encoding already.
fn varies(value: &[u8]) -> bool {
    let mut names = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    names.any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"))
}

/// Returns false for an interim response, a tunnel, a response without a body, and a part of a representation whose
/// other parts were sent without stages.
pub(super) fn may_have_stages(request: &Request, response: &Response<Body>) -> bool {
    !matches!(response.status.0, ..200 | 204..=206 | 304 | 416) && request.method != Method::Connect
}

/// Returns true if the response must not be transformed (RFC 9111 section 5.2.2.6).
pub fn forbids<B>(response: &Response<B>) -> bool {
    let mut controls = response.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"cache-control"));
    controls.any(|(_, value)| forbids_transform(value))
}

/// Returns true if this value of Cache-Control has the directive `no-transform`.
fn forbids_transform(value: &[u8]) -> bool {
    let mut directives = value.split(|byte| *byte == b',');
    directives.any(|directive| directive.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

/// Returns the length of a body according to its head. `content_length` is the first value of the Content-Length field.
pub(super) fn length_of(request: &Request, response: &Response<Body>, content_length: Option<&[u8]>) -> Length {
    let given = content_length.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    match given {
        _ if Delimiter::of(response, 1) == Delimiter::LastChunk => Length::Unknown,
        Some(bytes) => Length::Known(bytes),
        None if request.method == Method::Head || response.body.is_open_ended() => Length::Unknown,
        None => Length::Known(response.body.len()),
    }
}

/// Returns the first value of a field.
pub(super) fn field<'r, B>(response: &'r Response<B>, name: &str) -> Option<&'r [u8]> {
    response.fields().find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
}
