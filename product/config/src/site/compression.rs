//! The compression of a site's responses.

use http::Codings;

use crate::form::CodingName;
use crate::section::Section;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// Empty if it is off.
    pub codings: Codings,
    /// True if upstreams' responses to requests with a cookie or a login are compressed too.
    pub is_of_private: bool,
}

pub(super) fn read(table: &Section<'_, '_>) -> Compression {
    let (is_on, is_of_private) = (table.flag("compression"), table.flag("compress_private"));
    for key in ["codings", "compress_private"].iter().filter(|key| !is_on && table.is_given(key)) {
        table.book.note(table.place_of(key), format!("site.{key}: no effect without compression = true"));
    }
    let given = table.texts::<CodingName>("codings");
    let codings = match is_on {
        false => Codings::NONE,
        true if table.is_given("codings") => given.into_iter().map(|name| name.value.into()).collect(),
        true => Codings::ALL,
    };
    Compression { codings, is_of_private }
}
