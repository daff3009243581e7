//! Pictures that are there in several types: the one that a client gets.
//!
//! Each type has bytes, a tag and ranges of its own. A client that continues a picture, or asks for parts of it, names by
//! tag what it has, and parts of another type would leave it with a broken file. So the tag decides first, and Accept only
//! without one.

use std::cmp::Reverse;
use std::sync::Arc;

use http::{AcceptedImages, Request, listed_tags, required_tags};

use crate::files::Entry;

/// The picture to send for this file: itself or a sidecar; `None` if it has no sidecars of pictures.
pub(super) fn chosen_picture<'e>(request: &Request, entry: &'e Arc<Entry>) -> Option<&'e Arc<Entry>> {
    entry.forms.images().next()?;
    let accepted = AcceptedImages::of(request, &entry.mime);
    let mut wanted: Vec<_> = entry.forms.images().filter(|(image, _)| accepted.weight(*image) > 0).collect();
    wanted.sort_by_key(|(image, picture)| (Reverse(accepted.weight(*image)), picture.len));
    let wanted = || wanted.iter().map(|(_, picture)| *picture).chain([entry]);
    let all = || entry.forms.images().map(|(_, picture)| picture).chain([entry]);
    // Another client may have stored what this tag is of, behind a cache: only what this one accepts is confirmed.
    let is_held = |picture: &&Arc<Entry>| listed_tags(request).any(|tag| tag == picture.etag.as_bytes());
    let continued = all().find(|picture| is_continued(request, &picture.etag));
    continued.or_else(|| wanted().find(is_held)).or_else(|| wanted().next())
}

/// Returns true if a request is for more of the bytes with this tag, or for those alone.
fn is_continued(request: &Request, tag: &str) -> bool {
    let is_range = request.fields.range.is_some() && request.fields.if_range == Some(tag.as_bytes());
    is_range || required_tags(request).any(|required| required == tag.as_bytes())
}
