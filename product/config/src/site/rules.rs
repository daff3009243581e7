//! The rules for responses of a site: header fields, Cache-Control and error pages.

use crate::pattern::Pattern;
use crate::place::Place;
use crate::section::Section;
use crate::unreached_rules::Rule;
use crate::value_forms::{CacheControl, FieldName, FieldValue, PathBelow, Statuses};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderRule {
    pub at: Place,
    pub path: Pattern,
    pub name: String,
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheRule {
    pub at: Place,
    pub path: Pattern,
    pub control: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPage {
    pub at: Place,
    pub statuses: Statuses,
    /// A path below the root or the folder of error pages; it begins with a slash.
    pub file: String,
}

/// Fields that the server derives from the response and its connection.
const OWN_FIELDS: &[&str] = &[
    "accept-ranges",
    "allow",
    "connection",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "location",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl HeaderRule {
    pub(crate) fn read(table: &Section<'_, '_>) -> Option<HeaderRule> {
        let (path, name) = (table.text::<Pattern>("path"), table.text::<FieldName>("name"));
        let value = table.text::<FieldValue>("value");
        let name = name?;
        let expected = match name.value.0.to_ascii_lowercase().as_str() {
            "cache-control" => Some("[[site.cache]] for it"),
            "content-type" => Some("[[site.type]] for files, a program sets its own"),
            "content-encoding" => Some("no such field: a coded file is named as such, page.html.gz of page.html"),
            own if OWN_FIELDS.contains(&own) => Some("a field that the server does not set itself"),
            _ => None,
        };
        if let Some(expected) = expected {
            table.book.mistake(name.at, format!("site.header.name `{}`: expected {expected}", name.value.0));
        }
        Some(HeaderRule { at: table.at, path: path?.value, name: name.value.0, value: value?.value.0 })
    }
}

impl Rule for HeaderRule {
    const NOUN: &'static str = "site.header";

    fn at(&self) -> Place {
        self.at
    }

    fn path(&self) -> Option<&Pattern> {
        Some(&self.path)
    }

    fn covers(&self, other: &HeaderRule) -> bool {
        self.name.eq_ignore_ascii_case(&other.name) && self.path.covers(&other.path)
    }

    fn competes(&self, other: &HeaderRule) -> bool {
        self.name.eq_ignore_ascii_case(&other.name) && self.path.meets(&other.path) && self.value != other.value
    }
}

impl CacheRule {
    pub(crate) fn read(table: &Section<'_, '_>) -> Option<CacheRule> {
        let (path, control) = (table.text::<Pattern>("path"), table.text::<CacheControl>("control"));
        Some(CacheRule { at: table.at, path: path?.value, control: control?.value.0 })
    }
}

impl Rule for CacheRule {
    const NOUN: &'static str = "site.cache";

    fn at(&self) -> Place {
        self.at
    }

    fn path(&self) -> Option<&Pattern> {
        Some(&self.path)
    }

    fn covers(&self, other: &CacheRule) -> bool {
        self.path.covers(&other.path)
    }

    fn competes(&self, other: &CacheRule) -> bool {
        self.path.meets(&other.path) && self.control != other.control
    }
}

impl ErrorPage {
    pub(crate) fn read(table: &Section<'_, '_>) -> Option<ErrorPage> {
        let (statuses, file) = (table.text::<Statuses>("status"), table.text::<PathBelow>("file"));
        Some(ErrorPage { at: table.at, statuses: statuses?.value, file: file?.value.0 })
    }
}

impl Rule for ErrorPage {
    const NOUN: &'static str = "site.error_page";

    fn at(&self) -> Place {
        self.at
    }

    fn path(&self) -> Option<&Pattern> {
        None
    }

    fn covers(&self, other: &ErrorPage) -> bool {
        self.statuses.covers(other.statuses)
    }

    fn competes(&self, _: &ErrorPage) -> bool {
        false
    }
}
