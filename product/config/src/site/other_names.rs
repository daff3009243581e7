//! Alternative names under which a site's files are found.

use crate::place::Placed;
use crate::section::Section;
use crate::value_forms::{FileName, PathBelow};

use super::redirect::encoded;

/// The files that are tried if a path leads to none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tries {
    /// `/about` is the file `about.html`.
    pub has_clean_urls: bool,
    /// True if `index.html` is an index file, so that its clean URL is that of its folder.
    pub has_index_page: bool,
    /// The file for navigations to paths that do not exist: a path below the root that begins with a slash.
    pub fallback: Option<Placed<String>>,
}

impl Tries {
    /// The path of a request for the fallback, encoded.
    pub fn fallback_path(&self) -> Option<String> {
        Some(encoded(self.fallback.as_ref()?.value.as_bytes()))
    }

    pub(super) fn read(table: &Section<'_, '_>, index: &[Placed<FileName>]) -> Tries {
        let (has_clean_urls, fallback) = (table.flag("clean_urls"), table.text::<PathBelow>("fallback"));
        let given = ["clean_urls", "fallback"].into_iter().filter(|key| table.is_given(key));
        for key in given.filter(|_| !table.is_given("root")) {
            let said = format!("site.{key} without site.root: expected a folder with its files");
            table.book.mistake(table.place_of(key), said);
        }
        let has_index_page = has_clean_urls && index.iter().any(|name| name.value.0 == "index.html");
        let fallback = fallback.map(|file| Placed { value: file.value.0, at: file.at });
        Tries { has_clean_urls, has_index_page, fallback }
    }
}
