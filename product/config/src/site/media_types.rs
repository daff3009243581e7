//! The media types of a site's files, by their extensions.

use std::collections::BTreeMap;

use crate::place::Place;
use crate::section::{Held, Section};
use crate::value_forms::{Charset, Extension, MediaType};

/// Types set by a site's operator. The server itself knows the types of common extensions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MediaTypes {
    /// Types by extension, in lower case and without the dot.
    pub by_extension: BTreeMap<String, String>,
    /// The type of a file whose extension has no type. `None` lets the file's content decide.
    pub default: Option<String>,
    /// The charset that is added to text types; `None` for none.
    pub charset: Option<String>,
}

impl Default for MediaTypes {
    fn default() -> MediaTypes {
        MediaTypes { by_extension: BTreeMap::new(), default: None, charset: Some("utf-8".into()) }
    }
}

impl MediaTypes {
    /// Returns the type, with the site's charset if it is a text type without a charset.
    pub fn with_charset(&self, media_type: &str) -> String {
        let is_text = media_type.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("text/"));
        match &self.charset {
            Some(charset) if is_text && !has_charset(media_type) => format!("{media_type}; charset={charset}"),
            _ => media_type.into(),
        }
    }

    /// The operator's type for this extension.
    pub fn of_extension(&self, extension: &str) -> Option<&str> {
        // Most sites name no types.
        if self.by_extension.is_empty() {
            return None;
        }
        self.by_extension.get(&extension.to_ascii_lowercase()).map(String::as_str)
    }
}

fn has_charset(media_type: &str) -> bool {
    let names = media_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    names.into_iter().any(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))
}

/// Reads the types of a site. Also returns the place of each extension, and the settings of the tables.
pub(super) fn read(table: &Section<'_, '_>) -> (MediaTypes, BTreeMap<String, Place>, Vec<Held>) {
    let default = table.text::<MediaType>("default_type").map(|given| given.value.0);
    let charset = table.text::<Charset>("charset").map(|given| given.value.0).filter(|name| name != "off");
    let mut types = MediaTypes { by_extension: BTreeMap::new(), default, charset };
    let (mut places, mut held) = (BTreeMap::<String, Place>::new(), Vec::new());
    for rule in table.tables("type") {
        let (extensions, media_type) = (rule.texts::<Extension>("extensions"), rule.text::<MediaType>("media_type"));
        // A required key that is missing is a mistake by now.
        let media_type = media_type.map(|given| given.value.0).unwrap_or_default();
        for extension in extensions {
            let name = extension.value.0.to_ascii_lowercase();
            if let Some(first) = places.get(&name) {
                let line = table.book.line(*first, extension.at);
                let said = format!("site.type.extensions `{name}`: expected once, {line} has it");
                table.book.mistake(extension.at, said);
            }
            places.insert(name.clone(), extension.at);
            types.by_extension.insert(name, media_type.clone());
        }
        held.extend(rule.held());
    }
    let given = ["type", "default_type", "charset"].into_iter().filter(|key| table.is_given(key));
    for key in given.filter(|_| !table.is_given("root") && !table.is_given("error_root")) {
        table.book.note(table.place_of(key), format!("site.{key}: no effect without site.root"));
    }
    (types, places, held)
}
