//! Plain-text replies that explain why a request gets no other answer.

use std::io;

use http::{Method, Reject, Request, Response, Status};

use super::{Handler, Reply, To, bare};
use crate::body::Body;
use crate::files::Missing;

const TEXT: &[u8] = b"text/plain; charset=utf-8";

impl Handler {
    /// Returns the reply to a request that no upstream has answered.
    pub fn unanswered(&self, to: To, request: &Request, status: Status) -> Reply {
        let why = match status {
            Status::GATEWAY_TIMEOUT => "the server behind this one took too long",
            Status::SERVICE_UNAVAILABLE => "too busy, please try again",
            Status::CONTENT_TOO_LARGE => "the body of this request is too large",
            Status::LENGTH_REQUIRED => "expected a body of 1 MiB at most, or one with a Content-Length",
            _ => "the server behind this one does not answer",
        };
        let refused = text(status, why);
        let refused = if status == Status::SERVICE_UNAVAILABLE { refused.with("Retry-After", b"1") } else { refused };
        self.with_headers(to, request, refused.into())
    }

    /// Returns the reply to a client that sends requests too often (RFC 6585 section 4).
    pub fn too_many(&self, to: To, request: &Request, retry_after_s: u64) -> Reply {
        let why = format!("more requests than one client may make; please try again in {retry_after_s} s");
        let refused = text(Status::TOO_MANY_REQUESTS, &why);
        self.with_headers(to, request, refused.with("Retry-After", retry_after_s.to_string().as_bytes()).into())
    }
}

/// Returns the reply to bytes that are not a valid request. The reply belongs to no site, because the host in the bytes
/// is unknown or cannot be trusted.
pub fn reject(reject: Reject) -> Reply {
    Reply { is_last: true, ..text(reject.status, reject.reason).into() }
}

/// Returns the reply to a request whose method cannot read a file; `allow` lists the allowed methods.
pub(super) fn unserved(request: &Request, allow: &'static [u8]) -> Reply {
    if request.method == Method::Options {
        return bare(Status::NO_CONTENT).with("Allow", allow).into();
    }
    let why = format!("only {}", String::from_utf8_lossy(allow));
    text(Status::METHOD_NOT_ALLOWED, &why).with("Allow", allow).into()
}

/// Returns the reply to a request that its upstream sends back to this server repeatedly (RFC 5842 section 7.2).
pub(super) fn looping() -> Reply {
    text(Status::LOOP_DETECTED, "the server behind this one forwards requests back to it").into()
}

/// Returns the reply to a request whose host belongs to no site (RFC 9110 section 15.5.20).
pub(super) fn misdirected() -> Reply {
    text(Status::MISDIRECTED, "no site of this server has that host").into()
}

pub(super) fn missing(missing: Missing, path: &[u8]) -> Reply {
    match missing {
        Missing::NotFound => text(Status::NOT_FOUND, "nothing is here").into(),
        Missing::Outside(line) => {
            let trouble = line.map(|line| io::Error::other(line.to_string()));
            Reply { trouble, ..text(Status::NOT_FOUND, "nothing is here").into() }
        }
        Missing::Forbidden => {
            let said = format!("{}: the user of the server may not read it", String::from_utf8_lossy(path));
            let trouble = Some(io::Error::new(io::ErrorKind::PermissionDenied, said));
            Reply { trouble, ..text(Status::FORBIDDEN, "the server may not read this").into() }
        }
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

pub(super) fn text(status: Status, why: &str) -> Response<Body> {
    let body = format!("{} {}\n{why}\n", status.0, status.reason()).into_bytes();
    let length = body.len() as u64;
    Response::new(status, body.into()).with("Content-Type", TEXT).with_length(length)
}
