//! Chooses among the types of a picture, such as AVIF, WebP and JPEG.
//!
//! Each type has its own bytes, tag and ranges. A client that continues a download, or asks for parts, identifies its
//! type by the tag; parts of another type would leave it with a broken file. So the tag decides first, and Accept
//! decides only if there is no tag.

use std::cmp::Reverse;
use std::sync::Arc;

use http::{AcceptedImages, Request, listed_tags, required_tags};

use crate::files::Entry;

/// Returns the picture to send for this file: the file or one of its sidecars. `None` if it has no picture sidecars.
pub(super) fn chosen_picture<'e>(request: &Request, entry: &'e Arc<Entry>) -> Option<&'e Arc<Entry>> {
    entry.forms.images().next()?;
    let accepted = AcceptedImages::of(request, &entry.mime);
    let mut wanted: Vec<_> = entry.forms.images().filter(|(image, _)| accepted.weight(*image) > 0).collect();
    wanted.sort_by_key(|(image, picture)| (Reverse(accepted.weight(*image)), picture.len));
    let wanted = || wanted.iter().map(|(_, picture)| *picture).chain([entry]);
    let all = || entry.forms.images().map(|(_, picture)| picture).chain([entry]);
    // Behind a shared cache another client may have stored the bytes of this tag, so a tag is confirmed only for a type
    // that this client accepts.
    let is_held = |picture: &&Arc<Entry>| listed_tags(request).any(|tag| tag == picture.etag.as_bytes());
    let continued = all().find(|picture| is_continued(request, &picture.etag));
    continued.or_else(|| wanted().find(is_held)).or_else(|| wanted().next())
}

/// Returns true if the request continues a download of the bytes with this tag, or is only for those bytes.
fn is_continued(request: &Request, tag: &str) -> bool {
    let is_range = request.fields.range.is_some() && request.fields.if_range == Some(tag.as_bytes());
    is_range || required_tags(request).any(|required| required == tag.as_bytes())
}
