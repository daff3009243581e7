//! What clients measure responsiveness under load with: `networkQuality` of macOS and others fill the line with large objects and ask for small
//! ones meanwhile (draft-ietf-ippm-responsiveness section 6).

use http::{Method, Request, Response, Status};

use super::Sites;
use crate::files::SiteNumber;
use crate::transmit::{Body, Piece};

/// 8 GB at least, by the draft: no client is to come to its end.
const LARGE_BYTES: u64 = 8 << 30;
const SMALL_BYTES: u64 = 1;

const JSON: &[u8] = b"application/json";
const BYTES: &[u8] = b"application/octet-stream";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// Tells where the others are.
    Configuration,
    Small,
    Large,
    /// Takes bodies of any length, which are thrown away.
    Upload,
}

impl Object {
    fn at(path: &[u8]) -> Option<Object> {
        match path.strip_prefix(b"/.well-known/nq")? {
            b"" => Some(Object::Configuration),
            b"/small" => Some(Object::Small),
            b"/large" => Some(Object::Large),
            b"/upload" => Some(Object::Upload),
            _ => None,
        }
    }

    /// The methods that it answers.
    pub fn allow(self) -> &'static [u8] {
        if self == Object::Upload { b"POST, PUT, OPTIONS" } else { b"GET, HEAD, OPTIONS" }
    }

    /// A request of this method has a body that is to be taken.
    pub fn takes(self, method: Method) -> bool {
        self == Object::Upload && matches!(method, Method::Post | Method::Put)
    }

    /// The response to GET and HEAD; `None` where others are allowed alone.
    pub fn response(self, request: &Request, is_secure: bool) -> Option<Response<Body>> {
        if !matches!(request.method, Method::Get | Method::Head) {
            return None;
        }
        match self {
            Object::Configuration => Some(configuration(request, is_secure)),
            Object::Small => Some(respond(Status::OK, BYTES, Piece::Zeros(SMALL_BYTES))),
            Object::Large => Some(respond(Status::OK, BYTES, Piece::Zeros(LARGE_BYTES))),
            Object::Upload => None,
        }
    }
}

impl Sites {
    /// What a request of this site measures with, where that is allowed.
    pub fn measured(&self, site: SiteNumber, request: &Request) -> Option<Object> {
        Object::at(request.path).filter(|_| self.answers[self.place(site)].responsiveness)
    }
}

/// The response to a body of so many bytes.
pub fn received(bytes: u64) -> Response<Body> {
    respond(Status::OK, JSON, Piece::Bytes(format!("{{\"received_bytes\": {bytes}}}\n").into_bytes()))
}

/// The addresses of the objects as the client knows the host, over HTTPS also by their names in older drafts, which some clients read alone.
fn configuration(request: &Request, is_secure: bool) -> Response<Body> {
    let host = request.fields.host.and_then(|host| std::str::from_utf8(host).ok());
    // The parser lets nothing else through; an address inside quotes is not to depend on that.
    let is_plain = |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte));
    let Some(host) = host.filter(is_plain) else {
        let why = b"400 Bad Request\nexpected a host field, for the addresses of the objects\n".to_vec();
        return respond(Status::BAD_REQUEST, b"text/plain; charset=utf-8", Piece::Bytes(why));
    };
    let scheme = if is_secure { "https" } else { "http" };
    let of = |name: &str, object: &str| format!("\"{name}\": \"{scheme}://{host}/.well-known/nq/{object}\"");
    let mut urls =
        vec![of("small_download_url", "small"), of("large_download_url", "large"), of("upload_url", "upload")];
    if is_secure {
        urls.push(of("small_https_download_url", "small"));
        urls.push(of("large_https_download_url", "large"));
        urls.push(of("https_upload_url", "upload"));
    }
    let json = format!("{{\"version\": 1, \"urls\": {{{}}}}}\n", urls.join(", "));
    respond(Status::OK, JSON, Piece::Bytes(json.into_bytes()))
}

/// What no cache keeps, or measures in the place of the line.
fn respond(status: Status, mime: &[u8], body: Piece) -> Response<Body> {
    let length = body.len();
    let response = Response::new(status, body.into()).with("Content-Type", mime);
    response.with("Cache-Control", b"no-store").with_length(length)
}
