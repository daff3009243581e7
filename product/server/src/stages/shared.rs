//! Pages of programs as dictionaries for other pages (RFC 9842), at sites that ask for it.
//!
//! A stored dictionary leaks information. Somebody who guesses all bytes of a page learns from its digest that the page
//! was sent, and the coded length of one page shows how much it has in common with another. Neither matters for a page
//! that everybody gets. So a page is coded with a dictionary or kept as one only if nothing shows that it was made for
//! its client ([`is_for_everybody`]), whatever the site's setting for private responses.

use std::sync::Arc;

use http::{AcceptedCodings, Coding, Codings, Digest, Length, Method, Request, Response, Status, is_of_same_origin};

use super::coded::Coded;
use crate::codec::Reach;
use crate::coded::{Coder, SiteKey};

/// The dictionary that a response may use, and the one it may become, if its request and its site allow that.
pub struct Shared {
    /// The dictionary that the client has, with its digest, if this server holds it.
    pub had: Option<(Digest, Arc<[u8]>)>,
    /// The offer of the response as a dictionary.
    pub offer: Option<Offer>,
}

/// An offer of a page as a dictionary, and the copy of the page that is kept while it is sent.
pub struct Offer {
    /// The value of Use-As-Dictionary.
    pub value: String,
    pub keeping: Keeping,
}

/// A page that is copied while it is sent, to become a dictionary. A page that is cut off or too long is dropped.
pub struct Keeping {
    pub coder: Arc<Coder>,
    pub site: SiteKey,
    pub client: u32,
    pub path: Arc<[u8]>,
    pub bytes_max: u64,
    /// The bytes copied so far.
    pub bytes: Vec<u8>,
}

impl Shared {
    /// Returns the stage of a response, if it has one, and the offer to send with it. `coding` is the response's coding
    /// without a dictionary.
    pub(super) fn stage(
        self,
        request: &Request,
        length: Length,
        room_bytes: usize,
        coding: Option<Coding>,
    ) -> (Option<Coded>, Option<String>) {
        let accepted = AcceptedCodings::of(request);
        let takes_any = accepted.wanted_with_dictionary(Codings::ALL).next().is_some();
        let zstd = Codings::from_iter([Coding::Zstd]);
        let takes_zstd = accepted.wanted_with_dictionary(zstd).next().is_some() && is_of_same_origin(request);
        let with = self.had.filter(|_| takes_zstd).and_then(|(digest, bytes)| {
            let reach = Reach::of(length, room_bytes.checked_sub(bytes.len())?)?;
            Some(Coded::with(bytes, digest, reach))
        });
        let Some(stage) = with.or(coding.map(Coded::new)) else { return (None, None) };
        match self.offer.filter(|_| takes_any) {
            Some(Offer { value, keeping }) => match stage.keeping(keeping, length, room_bytes) {
                (stage, true) => (Some(stage), Some(value)),
                (stage, false) => (Some(stage), None),
            },
            None => (Some(stage), None),
        }
    }
}

impl Keeping {
    /// Appends the next bytes. Returns false if the page is too long.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let is_short = (self.bytes.len() + bytes.len()) as u64 <= self.bytes_max;
        if is_short {
            if self.bytes.capacity() == 0 {
                // Reserves exactly the bytes that are counted.
                self.bytes.reserve_exact(usize::try_from(self.bytes_max).unwrap_or(0));
            }
            self.bytes.extend_from_slice(bytes);
        }
        is_short
    }

    /// Hands over the whole page to be stored.
    pub(super) fn finish(mut self) {
        self.bytes.shrink_to_fit();
        self.coder.dictionaries.keep(self.site, self.path, self.bytes, self.client);
    }
}

impl std::fmt::Debug for Keeping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of a page", self.bytes.len())
    }
}

/// Returns true if a program's page is the same for every client: neither request nor response has anything that
/// identifies the client to the program, or that somebody else may have put into the address.
pub fn is_for_everybody<B>(request: &Request, response: &Response<B>) -> bool {
    let is_asked = matches!(request.method, Method::Get | Method::Head) && request.query.is_none();
    let is_known = ["cookie", "authorization"].iter().any(|name| request.values(name).next().is_some());
    let is_unchanged = response.status == Status::NOT_MODIFIED;
    let is_page =
        || response.fields().any(|(name, value)| name.eq_ignore_ascii_case(b"content-type") && is_html(value));
    let is_private = || response.fields().any(|(name, value)| is_private(name, value));
    is_asked
        && !is_known
        && response.is_forwarded()
        && (is_unchanged || response.status == Status::OK && is_page())
        && !is_private()
}

fn is_html(mime: &[u8]) -> bool {
    let essence = mime.split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"text/html")
}

/// Returns true for a field that shows that a response is meant only for its client, or that the program codes the
/// response itself.
fn is_private(name: &[u8], value: &[u8]) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    match name.len() {
        4 if is("vary") => members(value).any(|member| member == b"*"),
        10 if is("set-cookie") => true,
        13 if is("cache-control") => directives(value)
            .any(|(name, _)| name.eq_ignore_ascii_case(b"private") || name.eq_ignore_ascii_case(b"no-store")),
        17 if is("use-as-dictionary") => true,
        _ => false,
    }
}

/// Returns true if browsers keep a response, and so the dictionary, for a while.
pub fn is_kept_by_browsers<B>(response: &Response<B>) -> bool {
    let (mut lasts, mut is_stale, mut is_dated) = (false, false, false);
    for (name, value) in response.fields() {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("expires") || is("last-modified") {
            is_dated = true;
        } else if is("cache-control") {
            for (name, value) in directives(value) {
                let seconds =
                    || std::str::from_utf8(value).ok().and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
                let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
                lasts |= (is("max-age") || is("stale-while-revalidate")) && seconds() > 0;
                is_stale |= is("no-cache") || is("max-age") && seconds() == 0;
            }
        }
    }
    lasts || is_dated && !is_stale
}

fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// The directives of a value of Cache-Control, each with its argument.
fn directives(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    members(value).map(|directive| match directive.iter().position(|byte| *byte == b'=') {
        Some(at) => (&directive[..at], &directive[at + 1..]),
        None => (directive, &b""[..]),
    })
}
