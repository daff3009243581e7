//! The compression of a site's responses.

use http::{Coding, Codings};

use crate::section::Section;
use crate::value_forms::CodingName;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// The codings; empty if compression is off.
    pub codings: Codings,
    /// True if upstreams' responses are compressed even if the request has a cookie or a login.
    pub is_of_private: bool,
    /// True if files are offered and used as dictionaries.
    pub has_dictionaries: bool,
    /// True if dictionaries are also used for upstreams' pages that are the same for everybody.
    pub has_upstream_dictionaries: bool,
    /// True if files whose names contain a hash are marked as immutable.
    pub has_immutable: bool,
    /// True if pictures may be sent in the types of their sidecar files.
    pub has_image_sidecars: bool,
}

pub(super) fn read(table: &Section<'_, '_>) -> Compression {
    let (is_on, is_of_private) = (table.flag("compression"), table.flag("compress_private"));
    let (dictionaries, has_immutable) = (table.flag("dictionaries"), table.flag("immutable"));
    let of_upstreams = table.flag("upstream_dictionaries");
    for key in ["codings", "compress_private", "dictionaries", "upstream_dictionaries"]
        .iter()
        .filter(|key| !is_on && table.is_given(key))
    {
        table.book.note(table.place_of(key), format!("site.{key}: no effect without compression = true"));
    }
    let given = table.texts::<CodingName>("codings");
    let codings = match is_on {
        false => Codings::NONE,
        true if table.is_given("codings") => given.into_iter().map(|name| name.value.into()).collect(),
        true => Codings::ALL,
    };
    let has_dictionaries = dictionaries && is_on;
    if table.is_given("dictionaries") && has_dictionaries && !codings.has(Coding::Brotli) && !codings.has(Coding::Zstd)
    {
        table.book.note(table.place_of("dictionaries"), "site.dictionaries: no effect without br or zstd in codings");
    }
    if of_upstreams && is_on && !(dictionaries && codings.has(Coding::Zstd)) {
        let line = "site.upstream_dictionaries: no effect without dictionaries = true and zstd in codings";
        table.book.note(table.place_of("upstream_dictionaries"), line);
    }
    Compression {
        codings,
        is_of_private,
        has_dictionaries,
        has_upstream_dictionaries: of_upstreams && has_dictionaries && codings.has(Coding::Zstd),
        has_immutable,
        has_image_sidecars: table.flag("image_sidecars"),
    }
}
