//! Draws visits: pages whose objects have the published numbers and sizes, and what the visitor does.
//!
//! Numbers and bytes of each kind on a page are quantiles of desktop pages in the Web Almanac 2025 of the HTTP Archive
//! (chapter "Page Weight", crawl of July 2025, 10th, 25th, 50th, 75th and 90th percentile): all pages for HTML, style
//! sheets, scripts and fonts; home pages and inner pages for images. Between the percentiles bytes are interpolated
//! geometrically and numbers linearly over the normal deviate, and cut at the 5th and 95th percentile, because the
//! chapter says nothing about the ends. It has sizes of single files too, which the spread within a page is fitted to:
//! scripts 0.4, 1.2, 4.6, 22 and 84 KB, images 0, 1, 8, 48 and 183 KB. Not published, and assumed here:
//!
//! - The kinds of a page depend on each other with a correlation of [`CORRELATION`], with which the bytes of a page have
//!   the published quantiles: 607, 1,275, 2,412, 4,570 and 9,179 KB.
//! - Data: as many requests as the rest of the published 77, of the sizes in [`DATA_KB`] (no video).
//! - A third of the scripts block (of the scripts in 2024, 40 % had neither `async` nor `defer`, and some stand
//!   at the end of the body), and a third of the others are asked for by another script (third parties load third
//!   parties to a depth of 3 in the median). Data is asked for by any script.
//! - Style sheets and blocking scripts are in the first [`HEAD_SHARE`] of the HTML, images evenly after it.
//! - On a third of the sites (Web Almanac 2024, "Media") images after the first five wait until the visitor scrolls to
//!   them, at any time while the visitor reads. The crawler does not scroll, so images far down are not in its numbers.
//! - A visit begins at a home page and goes on to an inner page with a probability of [`GOES_ON`], after an exponential
//!   time of [`READING_MEAN`]. An inner page has [`NEW_SHARE`] of its style sheets, scripts and fonts for itself, and
//!   the browser has the others; so has that of a visitor who returns ([`RETURNS`]) on the first page.
//! - Visitors leave if they see nothing for a lognormal time, of which [`PATIENCE_MEDIAN`] is the median: Nielsen's
//!   limit of attention (Usability Engineering, 1993).

use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use units::Nanos;

use super::ObjectKind::{AsyncScript, Data, FirstImage, Font, Html, Image, Script, Style};
use super::{Found, ObjectKind, PAGE_OBJECTS_MAX, PageObject, VisitedPage};
use crate::sizes::unit;

/// The 10th, 25th, 50th, 75th and 90th percentile.
type Quantiles = [f64; 5];

/// The normal deviates of these percentiles, and of the 95th, beyond which nothing is drawn.
const DEVIATES: Quantiles = [-1.2816, -0.6745, 0.0, 0.6745, 1.2816];
const DEVIATE_MAX: f64 = 1.6449;

/// The objects of one kind on a page: their number, the KB of all together, and the standard deviation of the logarithm
/// between them.
struct Published {
    count: Quantiles,
    kb: Quantiles,
    sigma: f64,
}

const HTML: Published = Published { count: [1.0; 5], kb: [6.0, 14.0, 35.0, 78.0, 152.0], sigma: 0.0 };
const STYLES: Published =
    Published { count: [2.0, 4.0, 8.0, 16.0, 31.0], kb: [10.0, 38.0, 83.0, 161.0, 274.0], sigma: 1.5 };
const SCRIPTS: Published =
    Published { count: [5.0, 11.0, 23.0, 40.0, 67.0], kb: [106.0, 303.0, 708.0, 1291.0, 2003.0], sigma: 2.0 };
const HOME_IMAGES: Published =
    Published { count: [5.0, 10.0, 19.0, 35.0, 62.0], kb: [74.0, 333.0, 1058.0, 2896.0, 6856.0], sigma: 2.0 };
const INNER_IMAGES: Published =
    Published { count: [4.0, 7.0, 13.0, 25.0, 46.0], kb: [34.0, 138.0, 442.0, 1284.0, 3431.0], sigma: 2.0 };
/// The numbers of fonts and data on a page, and the KB of one.
const FONTS: Quantiles = [0.0, 2.0, 4.0, 7.0, 10.0];
const FONT_KB: Quantiles = [9.0, 15.0, 23.0, 47.0, 79.0];
const DATA: Quantiles = [10.0, 15.0, 22.0, 30.0, 40.0];
const DATA_KB: Quantiles = [0.1, 0.5, 2.0, 10.0, 60.0];

const CORRELATION: f64 = 0.7;
/// The maximum bytes of an object, where the tail of sizes is cut.
const OBJECT_BYTES_MAX: f64 = 20e6;
/// The number of images on a page that are probably in view.
const FIRST_IMAGES: usize = 5;
const HEAD_SHARE: f64 = 0.2;
const BLOCKING_SHARE: f64 = 1.0 / 3.0;
const BY_SCRIPT_SHARE: f64 = 1.0 / 3.0;
const LAZY_SHARE: f64 = 1.0 / 3.0;
const NEW_SHARE: f64 = 0.2;
const RETURNS: f64 = 0.25;
const GOES_ON: f64 = 0.5;
/// The maximum number of pages of a visit.
const VISIT_PAGES_MAX: usize = 10;
const READING_MEAN: Nanos = Nanos::from_secs(10);
const PATIENCE_MEDIAN: Nanos = Nanos::from_secs(10);
const PATIENCE_SIGMA: f64 = 0.8;

/// The properties that all pages of a site share, as normal deviates of their quantiles.
struct Site {
    all: f64,
    styles: f64,
    scripts: f64,
    fonts: f64,
    is_lazy: bool,
}

/// Draws a visit, page by page; the same stream of numbers gives the same visit.
pub fn visit(random: &mut ChaCha8Rng) -> Vec<VisitedPage> {
    let site = Site::drawn(random);
    let (returns, mut pages) = (unit(random) < RETURNS, vec![]);
    loop {
        let is_home = pages.is_empty();
        pages.push(Drawing::page(&site, is_home, returns || !is_home, random));
        if pages.len() == VISIT_PAGES_MAX || unit(random) >= GOES_ON {
            return pages;
        }
    }
}

impl Site {
    fn drawn(random: &mut ChaCha8Rng) -> Site {
        let all = normal(random);
        let mut of_kind = || correlated(all, random);
        let (styles, scripts, fonts) = (of_kind(), of_kind(), of_kind());
        Site { all, styles, scripts, fonts, is_lazy: unit(random) < LAZY_SHARE }
    }
}

/// A page while it is drawn.
struct Drawing<'a> {
    objects: Vec<PageObject>,
    html_bytes: f64,
    random: &'a mut ChaCha8Rng,
}

impl Drawing<'_> {
    fn page(site: &Site, is_home: bool, has_cached: bool, random: &mut ChaCha8Rng) -> VisitedPage {
        let reading = Nanos((-(1.0 - unit(random)).ln() * READING_MEAN.0 as f64) as u64);
        let patience = PATIENCE_MEDIAN.0 as f64 * (normal(random) * PATIENCE_SIGMA).exp();
        let html_bytes = bytes(&HTML.kb, correlated(site.all, random)).floor();
        let mut page = Drawing { objects: vec![], html_bytes, random };
        page.push(Html, html_bytes as u64, Found::Html(0));
        page.cacheable(site, has_cached);
        page.images(if is_home { &HOME_IMAGES } else { &INNER_IMAGES }, site, reading);
        page.data(site);
        VisitedPage { objects: page.objects, reading, patience: Some(Nanos(patience as u64)) }
    }

    fn push(&mut self, kind: ObjectKind, size_bytes: u64, found: Found) {
        if self.objects.len() < PAGE_OBJECTS_MAX {
            self.objects.push(PageObject { kind, size_bytes, found });
        }
    }

    /// The place in the HTML at this share of its bytes.
    fn named_at(&self, share: f64) -> Found {
        Found::Html((self.html_bytes * share).ceil().max(1.0) as u64)
    }

    fn named_within(&mut self, share: f64) -> Found {
        let at = unit(self.random) * share;
        self.named_at(at)
    }

    /// Adds style sheets, scripts and fonts, except those that the browser has.
    fn cacheable(&mut self, site: &Site, has_cached: bool) {
        for size in STYLES.sizes(site.styles, self.random) {
            if self.is_new(has_cached) {
                let found = self.named_within(HEAD_SHARE);
                self.push(Style, size, found);
            }
        }
        for size in SCRIPTS.sizes(site.scripts, self.random) {
            if self.is_new(has_cached) {
                self.script(size);
            }
        }
        for _ in 0..count(&FONTS, site.fonts) {
            let size = one_of(&FONT_KB, self.random);
            if self.is_new(has_cached) {
                self.push(Font, size, Found::Styles);
            }
        }
    }

    fn is_new(&mut self, has_cached: bool) -> bool {
        unit(self.random) < NEW_SHARE || !has_cached
    }

    fn script(&mut self, size: u64) {
        let (blocks, by_script) = (unit(self.random) < BLOCKING_SHARE, unit(self.random) < BY_SCRIPT_SHARE);
        let (kind, found) = match (blocks, by_script) {
            (true, _) => (Script, self.named_within(HEAD_SHARE)),
            (false, true) => (AsyncScript, self.by_script()),
            (false, false) => (AsyncScript, self.named_within(1.0)),
        };
        self.push(kind, size, found);
    }

    /// The event that one of the scripts so far has arrived; if all are in the cache, the HTML runs one.
    fn by_script(&mut self) -> Found {
        let is_script = |(_, object): &(u16, &PageObject)| matches!(object.kind, Script | AsyncScript);
        let scripts: Vec<u16> = (0..).zip(&self.objects).filter(is_script).map(|(at, _)| at).collect();
        match scripts.is_empty() {
            true => self.named_within(1.0),
            false => Found::Script(scripts[self.random.random_range(0..scripts.len())]),
        }
    }

    fn images(&mut self, published: &Published, site: &Site, reading: Nanos) {
        let sizes = published.sizes(correlated(site.all, self.random), self.random);
        let count = sizes.len() as f64;
        for (at, size) in sizes.into_iter().enumerate() {
            let drawn = unit(self.random);
            let share = HEAD_SHARE + (1.0 - HEAD_SHARE) * (at as f64 + drawn) / count;
            match at < FIRST_IMAGES {
                true => self.push(FirstImage, size, self.named_at(share)),
                false if site.is_lazy => {
                    self.push(Image, size, Found::Scrolled(Nanos((reading.0 as f64 * drawn) as u64)))
                }
                false => self.push(Image, size, self.named_at(share)),
            }
        }
    }

    fn data(&mut self, site: &Site) {
        for _ in 0..count(&DATA, correlated(site.all, self.random)) {
            let (size, found) = (one_of(&DATA_KB, self.random), self.by_script());
            self.push(Data, size, found);
        }
    }
}

impl Published {
    /// Draws the sizes of the objects of a page at this deviate. Their sum is the published one.
    fn sizes(&self, deviate: f64, random: &mut ChaCha8Rng) -> Vec<u64> {
        let parts: Vec<f64> = (0..count(&self.count, deviate)).map(|_| (normal(random) * self.sigma).exp()).collect();
        let scale = bytes(&self.kb, deviate) / parts.iter().sum::<f64>();
        parts.into_iter().map(|part| (part * scale).clamp(1.0, OBJECT_BYTES_MAX) as u64).collect()
    }
}

/// Draws the size of one object.
fn one_of(kb: &Quantiles, random: &mut ChaCha8Rng) -> u64 {
    bytes(kb, normal(random)).clamp(1.0, OBJECT_BYTES_MAX) as u64
}

fn count(quantiles: &Quantiles, deviate: f64) -> usize {
    interpolated(quantiles, deviate).round().max(0.0) as usize
}

fn bytes(kb: &Quantiles, deviate: f64) -> f64 {
    interpolated(&kb.map(f64::ln), deviate).exp() * 1e3
}

/// Interpolates linearly over the deviate, and extends the outer pieces to [`DEVIATE_MAX`].
fn interpolated(quantiles: &Quantiles, deviate: f64) -> f64 {
    let deviate = deviate.clamp(-DEVIATE_MAX, DEVIATE_MAX);
    let upper = DEVIATES.partition_point(|knot| *knot < deviate).clamp(1, DEVIATES.len() - 1);
    let (from, to) = (DEVIATES[upper - 1], DEVIATES[upper]);
    quantiles[upper - 1] + (quantiles[upper] - quantiles[upper - 1]) * (deviate - from) / (to - from)
}

/// Draws a normal deviate that depends on another.
fn correlated(other: f64, random: &mut ChaCha8Rng) -> f64 {
    CORRELATION.sqrt() * other + (1.0 - CORRELATION).sqrt() * normal(random)
}

/// Draws from the standard normal distribution (Box and Muller 1958).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (radius, angle) = (1.0 - unit(random), std::f64::consts::TAU * unit(random));
    (-2.0 * radius.ln()).sqrt() * angle.cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_OBJECTS_MEDIAN;
    use rand::SeedableRng;

    fn visits(count: u64) -> impl Iterator<Item = Vec<VisitedPage>> {
        (0..count).map(|seed| visit(&mut ChaCha8Rng::seed_from_u64(seed)))
    }

    /// Pages of visitors whose cache is empty, as the crawler's.
    fn crawled(is_home: bool, count: u64) -> Vec<VisitedPage> {
        let one = |seed| {
            let random = &mut ChaCha8Rng::seed_from_u64(seed);
            let site = Site::drawn(random);
            Drawing::page(&site, is_home, false, random)
        };
        (0..count).map(one).collect()
    }

    fn is_near(mut values: Vec<f64>, wanted: Quantiles, off: f64) -> bool {
        values.sort_unstable_by(f64::total_cmp);
        let found = [0.1, 0.25, 0.5, 0.75, 0.9].map(|q| values[(values.len() as f64 * q) as usize]);
        let is_near = found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() <= off * wanted);
        if !is_near {
            eprintln!("{found:?} and not {wanted:?}");
        }
        is_near
    }

    fn sizes<'a>(page: &'a VisitedPage, kinds: &'a [ObjectKind]) -> impl Iterator<Item = f64> + 'a {
        page.objects.iter().filter(|object| kinds.contains(&object.kind)).map(|object| object.size_bytes as f64 / 1e3)
    }

    const SCRIPT: &[ObjectKind] = &[Script, AsyncScript];
    const IMAGE: &[ObjectKind] = &[FirstImage, Image];
    const ALL: &[ObjectKind] = &[Html, Style, Script, AsyncScript, FirstImage, Image, Font, Data];

    #[test]
    fn kinds_have_the_published_numbers_and_bytes() {
        let (home, inner) = (crawled(true, 4_000), crawled(false, 4_000));
        let kb = |pages: &[VisitedPage], kinds| pages.iter().map(|page| sizes(page, kinds).sum()).collect();
        let count = |pages: &[VisitedPage], kinds| pages.iter().map(|page| sizes(page, kinds).count() as f64).collect();
        for (kinds, published) in [(&[Html][..], HTML), (&[Style], STYLES), (SCRIPT, SCRIPTS), (IMAGE, HOME_IMAGES)] {
            assert!(is_near(kb(&home, kinds), published.kb, 0.15), "{kinds:?}");
            assert!(is_near(count(&home, kinds), published.count, 0.1), "{kinds:?}");
        }
        assert!(
            is_near(kb(&inner, IMAGE), INNER_IMAGES.kb, 0.15) && is_near(count(&inner, IMAGE), INNER_IMAGES.count, 0.1)
        );
        assert!(is_near(count(&inner, &[Font]), FONTS, 0.0) && is_near(count(&inner, &[Data]), DATA, 0.05));
        assert!(is_near(home.iter().flat_map(|page| sizes(page, &[Font])).collect(), FONT_KB, 0.05));
    }

    /// The published sizes of whole pages are no input of the draw, so this checks it.
    #[test]
    fn pages_and_files_are_near_the_published_ones() {
        let pages = [crawled(true, 2_000), crawled(false, 2_000)].concat();
        let kb = pages.iter().map(|page| sizes(page, ALL).sum()).collect();
        assert!(is_near(kb, [607.0, 1275.0, 2412.0, 4570.0, 9179.0], 0.16));
        let counts = pages.iter().map(|page| page.objects.len() as f64).collect();
        assert!(is_near(counts, [27.0, 46.0, PAGE_OBJECTS_MEDIAN as f64, 122.0, 185.0], 0.1));
        let scripts = pages.iter().flat_map(|page| sizes(page, SCRIPT)).collect();
        assert!(is_near(scripts, [0.4, 1.2, 4.6, 21.8, 83.5], 0.25));
    }

    #[test]
    fn quantiles_are_met_and_extended_and_cut() {
        let of = |deviate| interpolated(&[1.0, 2.0, 3.0, 4.0, 6.0], deviate);
        DEVIATES.iter().zip([1.0, 2.0, 3.0, 4.0, 6.0]).for_each(|(&at, is)| assert!((of(at) - is).abs() < 1e-9));
        assert!((of(0.33725) - 3.5).abs() < 1e-9 && of(1.4) > 6.0 && of(-1.4) < 1.0);
        assert!(of(9.0) == of(DEVIATE_MAX) && of(-9.0) == of(-DEVIATE_MAX));
    }

    #[test]
    fn objects_are_found_where_they_may_be() {
        for page in crawled(true, 500) {
            let html = page.objects[0].size_bytes;
            assert!((1..=PAGE_OBJECTS_MAX).contains(&page.objects.len()) && page.objects[0].found == Found::Html(0));
            let mut images = vec![];
            for (at, object) in page.objects.iter().enumerate().skip(1) {
                let head = (html as f64 * HEAD_SHARE).ceil() as u64;
                assert!(match (object.kind, object.found) {
                    (Style | Script, Found::Html(offset)) => (1..=head).contains(&offset),
                    (FirstImage | Image, Found::Html(offset)) => (head..=html).contains(&offset),
                    (AsyncScript | Data, Found::Html(offset)) => (1..=html).contains(&offset),
                    (AsyncScript | Data, Found::Script(by)) => {
                        usize::from(by) < at && SCRIPT.contains(&page.objects[usize::from(by)].kind)
                    }
                    (Image, Found::Scrolled(after)) => after <= page.reading,
                    (Font, Found::Styles) => true,
                    _ => false,
                });
                images.extend(IMAGE.contains(&object.kind).then_some(object.kind));
            }
            let first = images.iter().take_while(|kind| **kind == FirstImage).count();
            assert_eq!(first, images.len().min(FIRST_IMAGES));
            assert!(images[first..].iter().all(|kind| *kind == Image));
        }
    }

    #[test]
    fn shares_are_as_they_are_said() {
        let pages = crawled(true, 4_000);
        let share = |of: &dyn Fn(&PageObject) -> bool, among: &dyn Fn(&PageObject) -> bool| {
            let among: Vec<&PageObject> = pages.iter().flat_map(|page| &page.objects).filter(|o| among(o)).collect();
            among.iter().filter(|object| of(object)).count() as f64 / among.len() as f64
        };
        let is_script = |object: &PageObject| SCRIPT.contains(&object.kind);
        assert!((share(&|object| object.kind == Script, &is_script) - BLOCKING_SHARE).abs() < 0.01);
        let by_script = |object: &PageObject| matches!(object.found, Found::Script(_));
        assert!((share(&by_script, &|object| object.kind == AsyncScript) - BY_SCRIPT_SHARE).abs() < 0.02);
        assert!(share(&by_script, &|object| object.kind == Data) > 0.98, "nearly every page has scripts");
        let is_lazy = |page: &&VisitedPage| page.objects.iter().any(|object| object.found.is_by_scrolling());
        let many = pages.iter().filter(|page| page.objects.iter().any(|object| object.kind == Image));
        assert!((many.clone().filter(is_lazy).count() as f64 / many.count() as f64 - LAZY_SHARE).abs() < 0.03);
    }

    #[test]
    fn a_visit_goes_on_and_has_a_cache() {
        let visits: Vec<Vec<VisitedPage>> = visits(4_000).collect();
        let pages = visits.iter().map(Vec::len).sum::<usize>() as f64 / 4e3;
        assert!((1.9..2.1).contains(&pages), "{pages}");
        assert!(visits.iter().all(|visit| visit.len() <= VISIT_PAGES_MAX));
        let scripts = |pages: &mut dyn Iterator<Item = &VisitedPage>| {
            let counts: Vec<f64> = pages.map(|page| sizes(page, SCRIPT).count() as f64).collect();
            counts.iter().sum::<f64>() / counts.len() as f64
        };
        let crawled = scripts(&mut crawled(true, 4_000).iter());
        let later = scripts(&mut visits.iter().flat_map(|visit| &visit[1..]));
        let first = scripts(&mut visits.iter().map(|visit| &visit[0]));
        assert!((later / crawled - NEW_SHARE).abs() < 0.03, "{later} of {crawled}");
        assert!((first / crawled - (1.0 - RETURNS * (1.0 - NEW_SHARE))).abs() < 0.05, "{first} of {crawled}");
        let all = || visits.iter().flatten();
        let reading = all().map(|page| page.reading.as_secs_f64()).sum::<f64>() / all().count() as f64;
        assert!((reading / READING_MEAN.as_secs_f64() - 1.0).abs() < 0.06, "{reading}");
        let mut patience: Vec<f64> = all().map(|page| page.patience.unwrap().as_secs_f64()).collect();
        patience.sort_unstable_by(f64::total_cmp);
        let at = |q: f64| patience[(patience.len() as f64 * q) as usize];
        assert!((9.5..10.5).contains(&at(0.5)) && (at(0.8413) / 10.0 / PATIENCE_SIGMA.exp() - 1.0).abs() < 0.05);
    }
}
