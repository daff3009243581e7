//! Files that an upstream names in its response (`X-Accel-Redirect`). They are sent in place of its body.

use std::io;

use http::{Length, Request, Response, Status};
use units::Nanos;

use super::error_replies::{self, text};
use super::{Handler, Reply, To};
use crate::body::Body;
use crate::files::{CacheAnswer, Found, Missing, SiteNumber};
use crate::stages::forbids;

impl Handler {
    /// Looks up a file that an upstream has named in the folder with this number.
    pub fn look_for_named(&mut self, folder: SiteNumber, path: &[u8], now: Nanos) -> CacheAnswer {
        if path.starts_with(b"/") {
            let merged = http::merge_slashes(path);
            return self.cache.lookup(folder, merged.as_deref().unwrap_or(path), now);
        }
        CacheAnswer::Ready(Err(Missing::NotFound))
    }

    /// Replies with an upstream's response, replacing the body and the fields that describe it by those of the named
    /// file.
    pub fn reply_named(
        &mut self,
        to: To,
        request: &Request,
        found: Result<Found, Missing>,
        said: &Response<()>,
    ) -> Reply {
        let reply = match found {
            Ok(Found::File(entry)) => {
                // A picture keeps the type that the program gave, if it gave one.
                let is_kept = forbids(said) || entry.forms.images().next().is_some();
                // The program decides who gets this file, so it is not a dictionary.
                let to = To { dictionaries: None, ..to };
                let file = if is_kept { self.plain(request, &entry) } else { self.file(to, request, &entry) };
                let response = named(file, said);
                return self.passed_on(to, request, response);
            }
            Err(missing @ (Missing::Exhausted | Missing::Failed(_))) => error_replies::missing(missing, request.path),
            Ok(_) | Err(_) => {
                let path = String::from_utf8_lossy(request.path);
                let trouble = io::Error::other(format!("the file that its upstream names for {path}: no such file"));
                Reply { trouble: Some(trouble), ..text(Status::NOT_FOUND, "nothing is here").into() }
            }
        };
        self.with_headers(to, request, reply)
    }
}

/// Fields that describe a body, and fields that this server sets. They are taken from the named file.
pub(super) const OF_THE_BODY: [&str; 9] = [
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

/// Merges a file's response with the other fields that the upstream has set.
pub(super) fn named(file: Response<Body>, said: &Response<()>) -> Response<Body> {
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
