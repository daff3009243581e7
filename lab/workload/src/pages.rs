//! Pages as browsers load them: the HTML, then the objects that it names, then those that the style sheets name, with
//! the urgencies that browsers send.
//!
//! The mix is that of the median desktop page in the Web Almanac 2024 of the HTTP Archive, chapter "Page Weight": 2,652
//! KB in 71 requests, of which images are 1,054 KB in 18, scripts 613 KB in 24, fonts 131 KB, style sheets 78 KB, and
//! HTML 18 KB. The chapter gives neither the number of style sheets and fonts (here 8 and 4) nor the kinds of the rest
//! (here 16 requests of 30 KB). Pages differ by two factors, one for their number of objects and one for their sizes,
//! and objects by a third, all lognormal: the Almanac has 8 to 9 MB at the 90th percentile, about 3.4 times the median.
//!
//! Urgencies are Chrome's (RFC 9218 section 4): `TypeToPriority` in Blink's `resource_fetcher.cc` gives style sheets
//! and fonts its highest priority, blocking scripts the next, scripts late in the body the third, and async scripts and
//! images the fourth; the first images are raised to the third. `net` sends them as urgency 0, 1, 2 and 3, and
//! `ShouldLoadIncremental` marks everything as incremental except style sheets, scripts and fonts, which are useless in
//! parts. Dependencies are simplified: nothing is requested before the HTML is complete, and scripts request nothing.

mod documents;
mod load;
mod readers;
mod visit;
mod visitors;

use rand_chacha::ChaCha8Rng;

use crate::synthetic::unit;

pub use documents::{DOCUMENTS_BYTES_MAX, DOCUMENTS_MAX, Document, Documents, DocumentsError};
pub use load::{PAGES_MAX, PageLoads, PageTimes, PagesError};
pub use readers::{READER_PAGES, Readers};
pub use visit::Visit;
pub use visitors::Visitors;

/// The maximum number of objects of a page.
pub const PAGE_OBJECTS_MAX: usize = 500;

/// The number of objects of the median page.
pub const PAGE_OBJECTS_MEDIAN: u64 = 71;

/// The maximum bytes of an object, where the tail of sizes is cut.
const OBJECT_BYTES_MAX: f64 = 20e6;

/// The standard deviation of the logarithm between pages, for the number of objects and for their sizes.
const COUNT_SIGMA: f64 = 0.5;
const SIZE_SIGMA: f64 = 0.8;

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

/// The objects of one kind on the median page.
struct Share {
    kind: ObjectKind,
    count: f64,
    bytes_mean: f64,
    /// The standard deviation of the logarithm between objects.
    sigma: f64,
}

const fn share(kind: ObjectKind, count: f64, bytes_mean: f64, sigma: f64) -> Share {
    Share { kind, count, bytes_mean, sigma }
}

/// The median page; the first object occurs exactly once.
const MIX: [Share; 8] = [
    share(ObjectKind::Html, 1.0, 18_000.0, 0.8),
    share(ObjectKind::Style, 8.0, 9_750.0, 1.0),
    share(ObjectKind::Script, 8.0, 25_500.0, 1.0),
    share(ObjectKind::AsyncScript, 16.0, 25_500.0, 1.0),
    share(ObjectKind::FirstImage, 5.0, 58_500.0, 1.4),
    share(ObjectKind::Image, 13.0, 58_500.0, 1.4),
    share(ObjectKind::Font, 4.0, 33_000.0, 0.5),
    share(ObjectKind::Data, 16.0, 30_000.0, 1.4),
];

/// An object of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageObject {
    pub kind: ObjectKind,
    pub size_bytes: u64,
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

    /// Returns true if it is found in a style sheet, or by code that runs after the style sheets, and not in the HTML.
    pub fn follows_styles(self) -> bool {
        matches!(self, ObjectKind::Font | ObjectKind::Data)
    }
}

/// Draws a page, its HTML first; the same stream of numbers gives the same page.
pub fn page(random: &mut ChaCha8Rng) -> Vec<PageObject> {
    let (counts, sizes) = (lognormal(random, COUNT_SIGMA), lognormal(random, SIZE_SIGMA));
    let mut objects = Vec::new();
    for Share { kind, count, bytes_mean, sigma } in MIX {
        let count = if kind == ObjectKind::Html { 1 } else { (count * counts).round() as usize };
        // The median, chosen such that the mean is as given.
        let median = bytes_mean * sizes * (-sigma * sigma / 2.0).exp();
        for _ in 0..count.min(PAGE_OBJECTS_MAX - objects.len()) {
            let size_bytes = (median * lognormal(random, sigma)).clamp(1.0, OBJECT_BYTES_MAX) as u64;
            objects.push(PageObject { kind, size_bytes });
        }
    }
    objects
}

/// Draws from a lognormal distribution of median 1 (Box and Muller 1958).
fn lognormal(random: &mut ChaCha8Rng, sigma: f64) -> f64 {
    let (radius, angle) = (1.0 - unit(random), std::f64::consts::TAU * unit(random));
    ((-2.0 * radius.ln()).sqrt() * angle.cos() * sigma).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn pages(count: u64) -> Vec<Vec<PageObject>> {
        (0..count).map(|seed| page(&mut ChaCha8Rng::seed_from_u64(seed))).collect()
    }

    fn quantile(mut values: Vec<u64>, q: f64) -> f64 {
        values.sort_unstable();
        values[(values.len() as f64 * q) as usize] as f64
    }

    #[test]
    fn the_median_page_is_the_almanacs() {
        let pages = pages(20_000);
        let bytes: Vec<u64> = pages.iter().map(|page| page.iter().map(|object| object.size_bytes).sum()).collect();
        let (median, p90) = (quantile(bytes.clone(), 0.5), quantile(bytes, 0.9));
        assert!((2.1e6..2.7e6).contains(&median) && (7e6..9.5e6).contains(&p90), "{median}, {p90}");
        let counts: Vec<u64> = pages.iter().map(|page| page.len() as u64).collect();
        assert!((quantile(counts, 0.5) - PAGE_OBJECTS_MEDIAN as f64).abs() <= 3.0);
        assert_eq!(MIX.iter().map(|share| share.count).sum::<f64>(), PAGE_OBJECTS_MEDIAN as f64);
        let images = |page: &Vec<PageObject>| {
            let images = page.iter().filter(|object| matches!(object.kind, ObjectKind::FirstImage | ObjectKind::Image));
            images.map(|object| object.size_bytes).sum()
        };
        assert!((7e5..1.1e6).contains(&quantile(pages.iter().map(images).collect(), 0.5)));
    }

    #[test]
    fn every_page_begins_with_one_html() {
        for page in pages(2000) {
            assert!((1..=PAGE_OBJECTS_MAX).contains(&page.len()));
            assert!(page.iter().enumerate().all(|(at, object)| (object.kind == ObjectKind::Html) == (at == 0)));
            assert!(page.iter().all(|object| object.size_bytes > 0 && object.kind.urgency() <= 7));
        }
        assert_eq!(pages(3), pages(3));
    }
}
