//! The page around a listing: the server's own, or a site's. It is HTML with two placeholders. `{{listing}}`, which
//! must occur exactly once, is replaced by the table of names, with links to the parent folder and to further pages.
//! `{{path}}` is replaced by the path of the folder, with a leading slash.

use std::fmt::{self, Write as _};
use std::sync::LazyLock;

/// The maximum length in bytes of a site's own page. It is limited because each cached listing contains it.
pub const PAGE_BYTES_MAX: u64 = 64 << 10;

/// The server's own page, which adapts to light and dark colour schemes and to narrow and wide windows.
static BUILT_IN: LazyLock<ListingPage> = LazyLock::new(|| {
    let read = ListingPage::read(include_bytes!("listing.html"));
    read.unwrap_or_else(|fault| unreachable!("the page of the server itself is right: {fault:?}"))
});

/// A parsed page: its text, with the places of the listing and of paths.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListingPage(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    Text(String),
    Path,
    Listing,
}

/// An error in a page.
#[derive(Debug, PartialEq, Eq)]
pub struct PageFault {
    /// The line of the error, counted from 1.
    pub line: usize,
    pub said: String,
}

const EXPECTED: &str = "expected {{listing}} or {{path}}";

impl ListingPage {
    pub fn built_in() -> &'static ListingPage {
        &BUILT_IN
    }

    pub fn read(bytes: &[u8]) -> Result<ListingPage, PageFault> {
        let line_of = |before: &[u8]| 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let (before, wrong) = bytes.split_at(error.valid_up_to());
            let said = format!("byte 0x{:02x}; expected UTF-8", wrong.first().unwrap_or(&0));
            PageFault { line: line_of(before), said }
        })?;
        let (mut parts, mut from, mut listing_at) = (Vec::new(), 0, None);
        while let Some((at, end, name)) = mark(text, from) {
            let line = line_of(&bytes[..at]);
            let part = match name {
                "path" => Part::Path,
                "listing" => match listing_at.replace(line) {
                    None => Part::Listing,
                    Some(first) => {
                        let said = format!("a second {{{{listing}}}}; expected only the one on line {first}");
                        return Err(PageFault { line, said });
                    }
                },
                other => return Err(PageFault { line, said: format!("unknown mark {{{{{other}}}}}; {EXPECTED}") }),
            };
            parts.extend([Part::Text(text[from..at].into()), part]);
            from = end;
        }
        parts.push(Part::Text(text[from..].into()));
        match listing_at {
            Some(_) => Ok(ListingPage(parts)),
            None => {
                let said = "no {{listing}}; expected it once, where the names of a folder go".into();
                Err(PageFault { line: line_of(bytes), said })
            }
        }
    }

    /// Renders the page of the folder at this path (relative, no slash at either end) with this listing.
    pub(super) fn write(&self, path: &[u8], listing: &str) -> String {
        let path = String::from_utf8_lossy(path);
        let mut page = String::with_capacity(4096 + listing.len());
        for part in &self.0 {
            let _ = match part {
                Part::Text(text) => page.write_str(text),
                Part::Path => write!(page, "/{}", Escaped(&path)),
                Part::Listing => page.write_str(listing),
            };
        }
        page
    }
}

/// Finds the next placeholder: its start, its end, and its name. Other braces, as in scripts, are treated as text.
fn mark(text: &str, mut from: usize) -> Option<(usize, usize, &str)> {
    while let Some(at) = text[from..].find("{{").map(|at| from + at) {
        let inside = &text[at + 2..];
        let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b' ';
        let (name, rest) = inside.split_at(inside.bytes().take_while(|byte| is_inside(*byte)).count());
        let end = at + 2 + name.len() + 2;
        let name = name.trim_matches(' ');
        if rest.starts_with("}}") && !name.is_empty() && !name.contains(' ') {
            return Some((at, end, name));
        }
        from = at + 1;
    }
    None
}

/// Escapes text for HTML, in an element or in a quoted attribute. Characters that change the text direction around them
/// are shown as numbers, `<U+202E>`: otherwise `gpj.exe` could look like `exe.jpg`.
pub(super) struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c if is_direction(c) => write!(f, "&lt;U+{:04X}&gt;", u32::from(c))?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Returns true for embeddings, overrides, isolates and direction marks (Unicode Standard Annex 9, section 2).
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &[u8]) -> (usize, String) {
        let fault = ListingPage::read(text).unwrap_err();
        (fault.line, fault.said)
    }

    #[test]
    fn marks_are_replaced_and_other_braces_are_text() {
        let page = ListingPage::read(b"<p title=\"{{path}}\">{{ path }}{a{b}} {{{}}\n{{listing}}}}{{a b}} {{").unwrap();
        assert_eq!(
            page.write(b"a&\"b/\xe9", "<table>{{path}}"),
            "<p title=\"/a&amp;&quot;b/\u{fffd}\">/a&amp;&quot;b/\u{fffd}{a{b}} {{{}}\n<table>{{path}}}}{{a b}} {{"
        );
        assert_eq!(ListingPage::read(b"{{{listing}}}").unwrap().write(b"", "x"), "{x}");
    }

    #[test]
    fn mistakes_have_their_line() {
        let none = "no {{listing}}; expected it once, where the names of a folder go";
        assert_eq!(fault(b""), (1, none.into()));
        assert_eq!(fault(b"{{path}}\n\n"), (3, none.into()));
        let twice = "a second {{listing}}; expected only the one on line 2";
        assert_eq!(fault(b"\n{{listing}}\n{{listing}}"), (3, twice.into()));
        assert_eq!(fault(b"\n{{rows}}"), (2, format!("unknown mark {{{{rows}}}}; {EXPECTED}")));
        assert_eq!(fault(b"\n\n{{listing}}\xe9"), (3, "byte 0xe9; expected UTF-8".into()));
    }

    #[test]
    fn a_direction_is_shown_and_not_followed() {
        let page = ListingPage::read(b"<title>{{path}}</title>{{listing}}").unwrap();
        let folder = "a\u{202e}b\u{2066}c\u{61c}d\u{200b}";
        let expected = "<title>/a&lt;U+202E&gt;b&lt;U+2066&gt;c&lt;U+061C&gt;d\u{200b}</title>";
        assert_eq!(page.write(folder.as_bytes(), ""), expected);
        for c in ('\u{0}'..='\u{ffff}').filter(|c| is_direction(*c)) {
            assert!(!Escaped(&c.to_string()).to_string().contains(c), "{:x}", u32::from(c));
        }
        assert_eq!(('\u{0}'..='\u{10ffff}').filter(|c| is_direction(*c)).count(), 12);
    }

    #[test]
    fn the_page_of_the_server_is_little_beside_its_rows() {
        let page = ListingPage::built_in().write(b"a", "");
        assert!(page.len() < 4096 && page.contains("<title>/a</title>"), "{} bytes", page.len());
    }
}
