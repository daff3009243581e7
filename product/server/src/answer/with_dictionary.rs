//! Dictionaries of files (RFC 9842): the dictionary that a client has, and the dictionaries that it is offered.
//!
//! A client uses one dictionary for a request: the one with the longest pattern, and the last among equally long
//! patterns. So the first page is offered for all pages of the site, the first page of another folder for that folder,
//! and each later page for its own next version. A visitor then has a dictionary for pages that it has not seen, and
//! nearly all bytes of the next version of a page that it has. A short page shares little text with other pages, so a
//! much longer page replaces it; the next version of the short page then has no dictionary. A script or style is
//! offered for its next version, whose name contains another hash.

use std::sync::Arc;

use http::{AcceptedCodings, Length, Request, Response, Status, available_dictionary, is_of_same_origin, pattern};

use super::{Handler, To};
use crate::body::Body;
use crate::codec::{DICTIONARY_BYTES, with_dictionary};
use crate::coded::{DictionaryId, FormId, Had, Held};
use crate::files::{Entry, hash_in};
use crate::stages::{Keeping, Offer, Shared, is_for_everybody, is_kept_by_browsers, varying_by_dictionary};

/// The minimum ratio of a page's length to the length of its folder's dictionary at which the page replaces that
/// dictionary.
const MUCH_LONGER: u64 = 4;
/// The maximum length of a page that replaces another as dictionary. An encoder reads the whole dictionary for each
/// page.
const LONGER_BYTES_MAX: u64 = 256 << 10;

/// A form of a file with the dictionary that its client has.
pub(super) struct WithDictionary {
    pub id: FormId,
    pub dictionary_bytes: u64,
    /// True if the dictionary is an earlier version of the file, so that very few bytes must be sent.
    pub is_next: bool,
}

impl Handler {
    /// Returns the form of a file coded with the client's dictionary, if the client accepts it and may have it.
    pub(super) fn with_dictionary(
        &self,
        to: To,
        request: &Request,
        entry: &Entry,
        accepted: &AcceptedCodings,
    ) -> Option<WithDictionary> {
        to.dictionaries?;
        let coding = accepted.wanted_with_dictionary(with_dictionary(entry.forms.codings)).next()?;
        let (dictionary, had) = self.had(to, request).filter(|_| is_of_same_origin(request))?;
        let is_next = had.path.is_none_or(|path| is_version(&path, request.path));
        let id = FormId::of(entry, coding).with(dictionary);
        Some(WithDictionary { id, dictionary_bytes: had.bytes, is_next })
    }

    /// Returns the dictionary of this site that the client has.
    fn had(&self, to: To, request: &Request) -> Option<(DictionaryId, Had)> {
        let dictionary = DictionaryId { site: to.dictionaries?, digest: available_dictionary(request)? };
        let had = self.forms.as_ref()?.coder.dictionaries.find(&dictionary)?;
        Some((dictionary, had))
    }

    /// Adds to a file's response the field that states that dictionaries affect its bytes, and offers the file as a
    /// dictionary.
    pub(super) fn with_offer(
        &self,
        to: To,
        request: &Request,
        entry: &Arc<Entry>,
        response: Response<Body>,
    ) -> Response<Body> {
        if to.dictionaries.is_none() || with_dictionary(entry.forms.codings).is_empty() {
            return response;
        }
        let vary = varying_by_dictionary(request);
        let is_whole = response.status == Status::OK;
        let response = response.varying_by(vary);
        match self.offer(to, request, entry).filter(|_| is_whole) {
            Some(offer) => response.with("Use-As-Dictionary", offer.as_bytes()),
            None => response,
        }
    }

    /// Returns how dictionaries apply to a program's response, if it may use any.
    pub(super) fn shared(&self, to: To, request: &Request, response: &Response<Body>) -> Option<Shared> {
        let (site, coder) = (to.dictionaries?, &self.forms.as_ref()?.coder);
        let is_open = self.sites().access(to.site?, request).is_none();
        if !is_open || !is_for_everybody(request, response) {
            return None;
        }
        let digest = available_dictionary(request);
        let held = digest.and_then(|digest| coder.dictionaries.held(&DictionaryId { site, digest }));
        let known =
            held.as_ref().map(|Held { path, bytes }| Had { path: Some(path.clone()), bytes: bytes.len() as u64 });
        let had = known.or_else(|| self.had(to, request).map(|(_, had)| had));
        let bytes_max = coder.dictionaries.page_bytes_max();
        // A path too long for a pattern is not offered, because the stored paths of dictionaries are not counted as
        // memory.
        let is_offered = is_kept_by_browsers(response)
            && is_as_asked(request)
            && bytes_max >= *DICTIONARY_BYTES.start()
            && pattern(request.path, None).is_some();
        let pattern = match is_offered {
            true => pattern_of_next(request, had.as_ref(), announced_length(response)),
            false => None,
        };
        let keeping = || Keeping {
            coder: Arc::clone(coder),
            site,
            client: to.client,
            path: request.path.into(),
            bytes_max,
            bytes: Vec::new(),
        };
        let value = pattern.map(|pattern| http::use_as_dictionary(&pattern, "document"));
        let offer = value.map(|value| Offer { value, keeping: keeping() });
        Some(Shared { had: digest.zip(held.map(|held| held.bytes)), offer })
    }

    /// Returns the field that offers a file as a dictionary, if the file is stored as one.
    fn offer(&self, to: To, request: &Request, entry: &Arc<Entry>) -> Option<String> {
        let (coder, path) = (&self.forms.as_ref()?.coder, request.path);
        let destination = destination_of(&entry.mime).filter(|_| is_as_asked(request))?;
        let pattern = match destination {
            "document" => {
                let had = self.had(to, request).map(|(_, had)| had);
                pattern_of_next(request, had.as_ref(), Length::Known(entry.len))?
            }
            _ => pattern(path, hash_in(path).filter(|_| has_name(path)))?,
        };
        let is_kept = coder.dictionaries.offer(to.dictionaries?, entry, path, to.client);
        is_kept.then(|| http::use_as_dictionary(&pattern, destination))
    }
}

/// Returns the pattern of requests for which a page of this length is offered to a client that has this dictionary.
fn pattern_of_next(request: &Request, had: Option<&Had>, length: Length) -> Option<String> {
    let path = request.path;
    match had {
        None if !has_some(request) => Some("/*".into()),
        Some(had) if is_enough(had, path, length) => pattern_of_page(path),
        // The client has a dictionary for this folder that this server does not know.
        None | Some(_) => Some(format!("{}*", pattern(folder_of(path), None)?)),
    }
}

/// Returns the length of a response according to its head.
fn announced_length(response: &Response<Body>) -> Length {
    let mut lengths = response.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"content-length"));
    let length = lengths.next().and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok());
    length.map_or(Length::Unknown, Length::Known)
}

/// Returns false for a rewritten request, because no pattern for clients could match its path.
fn is_as_asked(request: &Request) -> bool {
    request.target.split(|byte| *byte == b'?').next() == Some(request.path)
}

/// Returns true if the client says that it has a dictionary.
fn has_some(request: &Request) -> bool {
    request.values("available-dictionary").next().is_some()
}

/// Returns true if a client with this dictionary needs no other one for the folder of a page. A dictionary of unknown
/// path was offered before the server started, and is kept.
fn is_enough(had: &Had, path: &[u8], length: Length) -> bool {
    let is_of_folder = had.path.as_ref().is_none_or(|had| folder_of(had) == folder_of(path));
    let is_longer = match length {
        Length::Known(bytes) => bytes <= LONGER_BYTES_MAX && bytes / MUCH_LONGER >= had.bytes,
        Length::Unknown => false,
    };
    is_of_folder && !is_longer
}

/// Returns the request destination for files of this type; `None` for files that are not offered.
fn destination_of(mime: &str) -> Option<&'static str> {
    match mime.split(';').next()?.trim_ascii() {
        "text/html" => Some("document"),
        "text/css" => Some("style"),
        "text/javascript" | "application/javascript" => Some("script"),
        _ => None,
    }
}

/// Returns the pattern for a single page. It must be longer than the pattern of the page's folder, which has the same
/// beginning.
fn pattern_of_page(path: &[u8]) -> Option<String> {
    let path = pattern(path, None)?;
    let (before, last) = path.split_at(path.trim_end_matches('/').rfind('/').map_or(0, |slash| slash + 1));
    match last.strip_suffix('/') {
        Some(name) => Some(format!("{before}{name}{{/}}")),
        None => Some(format!("{before}{{{last}}}")),
    }
}

/// Returns the folder of a page, with its trailing slash.
fn folder_of(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)]
}

/// Returns true if the name of a file has more parts than its hash and its extension.
fn has_name(path: &[u8]) -> bool {
    hash_in(path).is_some_and(|hash| hash.start > folder_of(path).len())
}

/// Returns true if these are paths of two versions of a file, which differ only by their hashes.
fn is_version(path: &[u8], other: &[u8]) -> bool {
    let without_hash = |path: &[u8]| match hash_in(path).filter(|_| has_name(path)) {
        Some(hash) => [&path[..hash.start], &path[hash.end..]].concat(),
        None => path.to_vec(),
    };
    path == other || without_hash(path) == without_hash(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_longer_pattern_than_its_folder() {
        for (path, expected) in
            [("/docs/a.html", "/docs/{a.html}"), ("/a", "/{a}"), ("/docs/", "/docs{/}"), ("/a/b/", "/a/b{/}")]
        {
            let own = pattern_of_page(path.as_bytes()).unwrap();
            assert_eq!(own, expected);
            assert!(own.len() > folder_of(path.as_bytes()).len() + 1, "{path}");
        }
    }

    #[test]
    fn versions_differ_by_their_hash_alone() {
        let is = |one: &str, other: &str| is_version(one.as_bytes(), other.as_bytes());
        assert!(is("/a.html", "/a.html") && is("/js/app.3f9a8b7c.js", "/js/app.0b1c2d3e.js"));
        assert!(!is("/a.html", "/b.html") && !is("/js/app.3f9a8b7c.js", "/js/lib.3f9a8b7c.js"));
        assert!(!is("/3f9a8b7c.js", "/0b1c2d3e.js"), "nothing says of what they are versions");
    }
}
