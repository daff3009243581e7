//! The view of a folder that a request selects: the page, the sort column, and HTML or JSON. The query parameters have
//! the same names as in Caddy.

use std::fmt::{self, Display};

/// The maximum number of pages of one folder.
pub(super) const PAGES_MAX: u32 = 200;

/// A listing as selected by the query of a request. Other query parameters have no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListingView {
    /// The number of the page, counted from 1.
    pub(super) page: u32,
    pub(super) column: Column,
    pub(super) is_descending: bool,
    pub is_json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Name,
    Size,
    Time,
}

impl Column {
    pub const ALL: [Column; 3] = [Column::Name, Column::Size, Column::Time];

    pub fn name(self) -> &'static str {
        match self {
            Column::Name => "name",
            Column::Size => "size",
            Column::Time => "time",
        }
    }

    /// Returns true if people usually want this column in descending order: the largest or newest first.
    pub fn is_descending_first(self) -> bool {
        self != Column::Name
    }
}

impl Default for ListingView {
    fn default() -> ListingView {
        ListingView { page: 1, column: Column::Name, is_descending: false, is_json: false }
    }
}

impl ListingView {
    /// Reads a query such as `sort=size&order=desc&page=2`.
    pub fn of_query(query: &[u8], is_json: bool) -> ListingView {
        let mut view = ListingView { is_json, ..ListingView::default() };
        for pair in query.split(|byte| *byte == b'&') {
            let Some((name, value)) = std::str::from_utf8(pair).ok().and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            match (name, value) {
                ("page", number) => {
                    let number = number.parse().ok().filter(|number| (1..=PAGES_MAX).contains(number));
                    view.page = number.unwrap_or(view.page);
                }
                ("sort", column) => {
                    let column = Column::ALL.into_iter().find(|known| known.name() == column);
                    view.column = column.unwrap_or(view.column);
                }
                ("order", order) => view.is_descending = order == "desc",
                _ => {}
            }
        }
        view
    }

    /// Returns the part of a listing's key that follows the path; empty for the first page by name in HTML.
    pub fn suffix(self) -> String {
        if self == ListingView::default() { String::new() } else { format!("?{self}") }
    }

    /// Splits a raw path into the path of the request and the listing described by its suffix.
    pub(super) fn split(raw_path: &[u8]) -> (&[u8], Option<ListingView>) {
        let Some(at) = raw_path.iter().rposition(|byte| *byte == b'?') else {
            return (raw_path, Some(ListingView::default()));
        };
        let view = std::str::from_utf8(&raw_path[at + 1..]).ok().and_then(ListingView::read);
        (&raw_path[..at], view)
    }

    fn read(text: &str) -> Option<ListingView> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, letters) = text.split_at(digits);
        let mut view = ListingView { page: number.parse().ok()?, ..ListingView::default() };
        for letter in letters.chars() {
            match letter {
                's' => view.column = Column::Size,
                't' => view.column = Column::Time,
                'd' => view.is_descending = true,
                'j' => view.is_json = true,
                _ => return None,
            }
        }
        Some(view)
    }

    /// Returns the listing sorted by this column, in the reverse direction if it is sorted by this column already.
    pub(super) fn turned(self, column: Column) -> ListingView {
        let is_descending = if self.column == column { !self.is_descending } else { column.is_descending_first() };
        ListingView { page: 1, column, is_descending, ..self }
    }

    /// Returns the query for page `page` of this listing, with `&` escaped for HTML.
    pub(super) fn query(self, page: u32) -> String {
        let order = match (self.column, self.is_descending) {
            (Column::Name, false) => String::new(),
            (column, is_descending) => {
                format!("sort={}&amp;order={}", column.name(), if is_descending { "desc" } else { "asc" })
            }
        };
        let and = if order.is_empty() || page == 1 { "" } else { "&amp;" };
        let page = if page == 1 && !order.is_empty() { String::new() } else { format!("page={page}") };
        format!("?{order}{and}{page}")
    }
}

/// Writes the suffix that [`ListingView::split`] reads.
impl Display for ListingView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = match self.column {
            Column::Name => "",
            Column::Size => "s",
            Column::Time => "t",
        };
        let (order, form) = (if self.is_descending { "d" } else { "" }, if self.is_json { "j" } else { "" });
        write!(f, "{}{column}{order}{form}", self.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_a_suffix_of_the_path() {
        for (query, is_json, suffix) in [
            ("", false, ""),
            ("page=1", false, ""),
            ("page=2", false, "?2"),
            ("page=0&page=201&page=x&page", false, ""),
            ("page=200", true, "?200j"),
            ("sort=size&order=desc&x=y", false, "?1sd"),
            ("page=3&sort=time&order=asc", false, "?3t"),
            ("sort=name&order=desc", true, "?1dj"),
            ("sort=namedirfirst&order=\u{ff}", false, ""),
        ] {
            let view = ListingView::of_query(query.as_bytes(), is_json);
            assert_eq!(view.suffix(), suffix, "{query}");
            let path = format!("/a{suffix}");
            assert_eq!(ListingView::split(path.as_bytes()), (&b"/a"[..], Some(view)), "{query}");
        }
        for wrong in ["/?", "/?x", "/?1x", "/?99999999999", "/?1s\u{e9}"] {
            assert_eq!(ListingView::split(wrong.as_bytes()), (&b"/"[..], None), "{wrong}");
        }
    }

    #[test]
    fn links_keep_the_order() {
        let query = |query: &str, page| ListingView::of_query(query.as_bytes(), false).query(page);
        assert_eq!((query("", 1), query("page=2", 3)), ("?page=1".into(), "?page=3".into()));
        assert_eq!(query("sort=size&order=desc", 1), "?sort=size&amp;order=desc");
        assert_eq!(query("sort=time&order=desc&page=7", 2), "?sort=time&amp;order=desc&amp;page=2");
        assert_eq!(query("order=desc", 1), "?sort=name&amp;order=desc");
    }
}
