//! The objects with which clients measure responsiveness under load: `networkQuality` of macOS and similar programs
//! fill the line with large objects and request small ones at the same time (draft-ietf-ippm-responsiveness section 6).

use config::MEASURED_PATHS;
use http::{Method, Readings, Request, Response, Status};

use super::Sites;
use crate::body::{Body, Piece};
use crate::files::SiteNumber;

/// The length of the large object. The draft requires at least 8 GB, so that no client reaches the end.
const LARGE_BYTES: u64 = 8 << 30;
const SMALL_BYTES: u64 = 1;

/// The names of the objects of [`MEASURED_PATHS`] after the first.
const NAMES: [&str; 3] = ["small_download_url", "large_download_url", "upload_url"];
const OLDER_NAMES: [&str; 3] = ["small_https_download_url", "large_https_download_url", "https_upload_url"];

const JSON: &[u8] = b"application/json";
const BYTES: &[u8] = b"application/octet-stream";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// Lists the addresses of the other objects.
    Configuration,
    Small,
    Large,
    /// Accepts bodies of any length, and discards them.
    Upload,
}

impl Object {
    fn at(path: &[u8]) -> Option<Object> {
        let at = MEASURED_PATHS.iter().position(|measured| measured.as_bytes() == path)?;
        Some([Object::Configuration, Object::Small, Object::Large, Object::Upload][at])
    }

    /// Returns the methods that the object accepts.
    pub fn allow(self) -> &'static [u8] {
        if self == Object::Upload { b"POST, PUT, OPTIONS" } else { b"GET, HEAD, OPTIONS" }
    }

    /// Returns true if a request of this method has a body that must be read.
    pub fn takes(self, method: Method) -> bool {
        self == Object::Upload && matches!(method, Method::Post | Method::Put)
    }

    /// Returns the response to GET and HEAD. `None` if only other methods are allowed.
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
    /// Returns the measurement object that a request of this site names, if measuring is enabled.
    pub fn measured(&self, site: SiteNumber, request: &Request) -> Option<Object> {
        if !self.answers[self.place(site)].responsiveness {
            return None;
        }
        Object::at(Readings::of(request.path).ok()?.plain())
    }
}

/// Returns the response to a request body of this length.
pub fn received(bytes: u64) -> Response<Body> {
    respond(Status::OK, JSON, Piece::Bytes(format!("{{\"received_bytes\": {bytes}}}\n").into_bytes()))
}

/// Returns the addresses of the objects under the host that the client used. Over HTTPS, names from older drafts are
/// added, because some clients read only those names.
fn configuration(request: &Request, is_secure: bool) -> Response<Body> {
    let host = request.fields.host.and_then(|host| std::str::from_utf8(host).ok());
    // The parser accepts no other characters, but quoting must not depend on that.
    let is_plain = |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte));
    let Some(host) = host.filter(is_plain) else {
        let why = b"400 Bad Request\nexpected a host field, for the addresses of the objects\n".to_vec();
        return respond(Status::BAD_REQUEST, b"text/plain; charset=utf-8", Piece::Bytes(why));
    };
    let scheme = if is_secure { "https" } else { "http" };
    let names = if is_secure { &[NAMES, OLDER_NAMES][..] } else { &[NAMES] };
    let urls = names.iter().flat_map(|names| names.iter().zip(&MEASURED_PATHS[1..]));
    let urls: Vec<String> = urls.map(|(name, path)| format!("\"{name}\": \"{scheme}://{host}{path}\"")).collect();
    let json = format!("{{\"version\": 1, \"urls\": {{{}}}}}\n", urls.join(", "));
    respond(Status::OK, JSON, Piece::Bytes(json.into_bytes()))
}

/// Builds a response that caches must not store: with a stored one, the client would measure the cache and not the
/// line.
fn respond(status: Status, mime: &[u8], body: Piece) -> Response<Body> {
    let length = body.len();
    let response = Response::new(status, body.into()).with("Content-Type", mime);
    response.with("Cache-Control", b"no-store").with_length(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the response to a request of this method, which is parsed, or built with any host.
    fn response(object: Object, method: Method, host: Option<&str>, is_secure: bool) -> Option<Response<Body>> {
        let head = http::http1::parse_request(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &http::Limits::default());
        let mut head = head.unwrap().unwrap();
        (head.request.method, head.request.fields.host) = (method, host.map(str::as_bytes));
        object.response(&head.request, is_secure)
    }

    fn text(response: &Response<Body>) -> String {
        let bytes = response.body.pieces().next().and_then(Piece::in_memory).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    #[test]
    fn the_objects_stand_below_one_path() {
        for (path, object) in [
            ("/.well-known/nq", Some(Object::Configuration)),
            ("/.well-known/nq/small", Some(Object::Small)),
            ("/.well-known/nq/large", Some(Object::Large)),
            ("/.well-known/nq/upload", Some(Object::Upload)),
            ("/.well-known/nq/", None),
            ("/.well-known/nqx", None),
            ("/", None),
        ] {
            assert_eq!(Object::at(path.as_bytes()), object, "{path}");
        }
    }

    #[test]
    fn the_length_is_told_and_bodies_are_taken_by_one_alone() {
        let get = |object| response(object, Method::Get, Some("a"), false).map(|response| response.body.len());
        assert_eq!([Object::Small, Object::Large, Object::Upload].map(get), [Some(1), Some(8 << 30), None]);
        assert!(response(Object::Large, Method::Post, Some("a"), false).is_none());
        assert!(Object::Upload.takes(Method::Post) && Object::Upload.takes(Method::Put));
        assert!(!Object::Upload.takes(Method::Get) && !Object::Large.takes(Method::Post));
    }

    /// Independent of what the parser accepts.
    #[test]
    fn no_host_ends_the_quotes_that_it_stands_in() {
        let told = |host, is_secure| response(Object::Configuration, Method::Get, host, is_secure).unwrap();
        assert!(
            text(&told(Some("a.org:8"), true))
                .contains("\"https_upload_url\": \"https://a.org:8/.well-known/nq/upload\"")
        );
        assert!(!text(&told(Some("a"), false)).contains("https"));
        for host in [None, Some("a\", \"b\": \""), Some("a\\"), Some("a/b"), Some("\u{e9}")] {
            assert_eq!(told(host, true).status, Status::BAD_REQUEST, "{host:?}");
        }
    }
}
