//! The changes and limits that a proxy applies to requests before it passes them on.

use crate::pattern::Pattern;
use crate::place::quoted;
use crate::section::Section;
use crate::value_forms::{Prefix, Size};

/// The keys of `[[site.proxy]]` that change or limit requests to its upstreams.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyRequest {
    /// The prefix that is removed from paths. Every path of the proxy is below it.
    pub strip_prefix: Option<String>,
    /// Maximum bytes of a body.
    pub max_body_bytes: Option<u64>,
}

impl ProxyRequest {
    /// Reads the keys of a proxy of these paths.
    pub(super) fn read(table: &Section<'_, '_>, path: &Pattern) -> ProxyRequest {
        let strip_prefix = table.text::<Prefix>("strip_prefix");
        if let Some(prefix) = strip_prefix.as_ref().filter(|prefix| !path.is_below(&prefix.value.0)) {
            let (given, own) = (quoted(&prefix.value.0), path);
            let said = format!(
                "site.proxy.strip_prefix {given} with path = \"{own}\": expected paths below it, for example path = \"{}/*\"",
                prefix.value.0
            );
            table.book.mistake(prefix.at, said);
        }
        let max_body = table.text::<Size>("max_body");
        ProxyRequest {
            strip_prefix: strip_prefix.map(|prefix| prefix.value.0),
            max_body_bytes: max_body.map(|size| size.value.0),
        }
    }
}
