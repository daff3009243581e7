//! Pages as browsers load them: the HTML, then the objects that it names, as far as it has arrived, then those that
//! style sheets and scripts ask for, with the urgencies that browsers send.
//!
//! Urgencies are Chrome's (RFC 9218 section 4): `TypeToPriority` in Blink's `resource_fetcher.cc` gives style sheets
//! and fonts its highest priority, blocking scripts the next, scripts late in the body the third, and async scripts and
//! images the fourth; the first images are raised to the third. `net` sends them as urgency 0, 1, 2 and 3, and
//! `ShouldLoadIncremental` marks everything as incremental except style sheets, scripts and fonts, which are useless in
//! parts.
//!
//! Pages ([`visit`]) come from the published quantiles of the HTTP Archive. Simplified: all objects come from one server,
//! and computing takes no time.

mod draw;
mod load;
mod progress;
mod visitors;

use draw::visit;
pub use load::{PAGES_MAX, PageLoads, PageTimes, PagesError};
pub use visitors::Visitors;

use units::Nanos;

/// The maximum number of objects of a page.
pub const PAGE_OBJECTS_MAX: usize = 500;

/// The number of objects of the median page.
pub const PAGE_OBJECTS_MEDIAN: u64 = 77;

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    Html,
    Style,
    /// A script that must run before anything is shown.
    Script,
    AsyncScript,
    /// One of the first images, which are probably in view.
    FirstImage,
    Image,
    Font,
    /// Data that scripts request.
    Data,
}

/// The event after which the browser requests an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The HTML has arrived up to this byte.
    Html(u64),
    /// All style sheets have arrived.
    Styles,
    /// This object of the page, a script, has arrived.
    Script(u16),
    /// The visitor scrolls to it, this long after the first view.
    Scrolled(Nanos),
}

/// An object of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageObject {
    pub kind: ObjectKind,
    pub size_bytes: u64,
    pub found: Found,
}

/// A page of a visit: the objects that the visitor's browser does not have yet, the HTML first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitedPage {
    pub objects: Vec<PageObject>,
    /// The time from the complete page to the next of the visit.
    pub reading: Nanos,
    /// The time after which the visitor leaves if there is no first view; `None` for one who always waits.
    pub patience: Option<Nanos>,
}

impl ObjectKind {
    /// The urgency (RFC 9218 section 4.1).
    pub fn urgency(self) -> u8 {
        match self {
            ObjectKind::Html | ObjectKind::Style | ObjectKind::Font => 0,
            ObjectKind::Script => 1,
            ObjectKind::FirstImage => 2,
            ObjectKind::AsyncScript | ObjectKind::Image | ObjectKind::Data => 3,
        }
    }

    /// True if the object is useful in parts (RFC 9218 section 4.2).
    pub fn is_incremental(self) -> bool {
        matches!(self, ObjectKind::Html | ObjectKind::FirstImage | ObjectKind::Image | ObjectKind::Data)
    }

    /// Returns true if nothing of the page is shown before this object has arrived.
    pub fn is_blocking(self) -> bool {
        matches!(self, ObjectKind::Html | ObjectKind::Style | ObjectKind::Script)
    }
}

impl Found {
    /// Returns true for objects that do not belong to the whole page, because only a visitor who scrolls requests them.
    pub fn is_by_scrolling(self) -> bool {
        matches!(self, Found::Scrolled(_))
    }
}
