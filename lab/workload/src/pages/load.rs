//! Page loads as requests: visitors arrive independently, and each request of a page follows from earlier responses.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use units::wire::CONNECTION_BYTES;
use units::{Nanos, Rate};

use super::progress::Progress;
use super::{PageObject, VisitedPage, visit};
use crate::sizes::unit;
use crate::{Ask, Part, Source, wire_bytes};

/// The maximum number of pages of a run, so that all fit into memory.
pub const PAGES_MAX: usize = 50_000;

/// The page loads of a run. The seed determines their number and their pages, so they are the same for every server;
/// the instants of all but a visitor's first request follow from the responses.
#[derive(Debug)]
pub struct PageLoads {
    /// The pages, visitor by visitor.
    pages: Vec<Page>,
    under_way_max: u32,
    /// The requests that are due: instant, page, object.
    due: BinaryHeap<Reverse<(Nanos, u32, u16)>>,
    /// The pages without a first view, with the instants at which their visitors lose patience.
    patience: BTreeSet<(Nanos, u32)>,
    /// The latest instant of the pages begun so far.
    last_at: Nanos,
}

#[derive(Debug)]
struct Page {
    visitor: u32,
    is_last: bool,
    arrival: Option<Nanos>,
    progress: Progress,
    /// The number of its objects that have been requested.
    asked: usize,
    reading: Nanos,
    patience: Option<Nanos>,
    left_at: Option<Nanos>,
}

/// The times of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageTimes {
    /// Its number among all pages that would be visited if nobody gave up.
    pub page: u32,
    pub arrival: Nanos,
    pub requests: usize,
    /// The instant at which the HTML, all style sheets and all blocking scripts had ended, if they have.
    pub first_view_at: Option<Nanos>,
    /// The instant at which these and all fonts had ended.
    pub with_fonts_at: Option<Nanos>,
    /// The instant at which everything had ended, except images that wait for the visitor to scroll.
    pub full_at: Option<Nanos>,
    /// The instant at which the visitor gave up.
    pub left_at: Option<Nanos>,
}

/// The reason why there are no page loads.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum PagesError {
    #[error("a load of {0}: of pages write more than 0, such as 0.8")]
    Rho(f64),
    #[error("page loads for {0} s: write seconds above 0, such as 60")]
    Seconds(f64),
    #[error("0 requests of a page at once: write at least 1")]
    NoneUnderWay,
    #[error("more than {PAGES_MAX} page loads: write fewer seconds or a slower link")]
    TooMany,
}

impl PageLoads {
    /// Returns as many visits as would load the link this much for this long if nobody gave up, at the times of a
    /// Poisson process with that number of events; each page has at most `under_way_max` concurrent requests.
    pub fn new(rho: f64, (link, seconds): (Rate, f64), under_way_max: u32, seed: u64) -> Result<PageLoads, PagesError> {
        match () {
            () if !(rho > 0.0 && rho.is_finite()) => return Err(PagesError::Rho(rho)),
            () if !(1e-9..=1e9).contains(&seconds) => return Err(PagesError::Seconds(seconds)),
            () if under_way_max == 0 => return Err(PagesError::NoneUnderWay),
            () => {}
        }
        let visits = filling(rho * link.bits_per_s() as f64 / 8.0 * seconds, &mut stream(seed, PAGES))?;
        let mut random = stream(seed, TIMES);
        let mut times: Vec<Nanos> = visits.iter().map(|_| Nanos((unit(&mut random) * seconds * 1e9) as u64)).collect();
        times.sort_unstable();
        Ok(PageLoads::of(times.into_iter().zip(visits), under_way_max))
    }

    /// Returns these visits, which begin at these times, in that order.
    pub fn of(visits: impl IntoIterator<Item = (Nanos, Vec<VisitedPage>)>, under_way_max: u32) -> PageLoads {
        let (pages, due, patience) = (vec![], BinaryHeap::new(), BTreeSet::new());
        let mut loads = PageLoads { pages, under_way_max, due, patience, last_at: Nanos::ZERO };
        for (visitor, (from, visited)) in (0..).zip(visits) {
            let (first, count) = (loads.pages.len(), visited.len());
            loads.pages.extend((1..).zip(visited).map(|(at, page)| Page::new(visitor, at == count, page)));
            loads.begin(first, from);
        }
        loads
    }

    /// Makes all visitors wait for ever.
    pub fn wait(&mut self) {
        self.pages.iter_mut().for_each(|page| page.patience = None);
        self.patience.clear();
    }

    /// The objects of all pages, page by page.
    pub fn objects(&self) -> impl Iterator<Item = &PageObject> {
        self.pages.iter().flat_map(|page| page.progress.objects())
    }

    /// The sizes of all objects.
    pub fn sizes(&self) -> BTreeSet<u64> {
        self.objects().map(|object| object.size_bytes).collect()
    }

    fn begin(&mut self, page: usize, at: Nanos) {
        let this = &mut self.pages[page];
        this.arrival = Some(at);
        self.patience.extend(this.patience.map(|patience| (at + patience, page as u32)));
        self.last_at = self.last_at.max(at);
        self.ask(page, at);
    }

    fn ask(&mut self, page: usize, at: Nanos) {
        while let Some(object) = self.pages[page].progress.next(self.under_way_max) {
            self.due.push(Reverse((at, page as u32, object)));
        }
    }

    fn end_patience(&mut self, page: usize) {
        let Page { arrival, patience, .. } = self.pages[page];
        let until = arrival.zip(patience).map(|(arrival, patience)| arrival + patience);
        until.map(|until| self.patience.remove(&(until, page as u32)));
    }
}

impl Page {
    fn new(visitor: u32, is_last: bool, page: VisitedPage) -> Page {
        let VisitedPage { objects, reading, patience } = page;
        let (progress, arrival, asked, left_at) = (Progress::new(objects), None, 0, None);
        Page { visitor, is_last, arrival, progress, asked, reading, patience, left_at }
    }
}

impl Source for PageLoads {
    fn due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    fn take(&mut self) -> Option<Ask> {
        let Reverse((at, number, object)) = self.due.pop()?;
        let page = &mut self.pages[number as usize];
        page.asked += 1;
        let PageObject { kind, size_bytes, .. } = page.progress.objects()[usize::from(object)];
        let (urgency, is_incremental) = (kind.urgency(), kind.is_incremental());
        let part = Part { page: number, object, urgency, is_incremental };
        Some(Ask { at, size_bytes, user: Some(page.visitor), group: None, client: None, part: Some(part) })
    }

    fn on_end(&mut self, visitor: u32, _: Nanos) -> bool {
        unreachable!("visitor {visitor} ends by parts of pages")
    }

    fn on_received(&mut self, ask: &Ask, bytes: u64, at: Nanos) {
        if let Some(Part { page, object: 0, .. }) = ask.part {
            self.pages[page as usize].progress.on_html(bytes);
            self.ask(page as usize, at);
        }
    }

    fn on_ended(&mut self, ask: &Ask, at: Nanos) -> bool {
        let Some(part) = ask.part else { return true };
        let (number, page) = (part.page as usize, &mut self.pages[part.page as usize]);
        if page.left_at.is_some() {
            return false;
        }
        let was_full = page.progress.full_at().is_some();
        let by_scrolling = page.progress.on_end(part.object, at);
        let begins = (!was_full).then(|| page.progress.full_at()).flatten().filter(|_| !page.is_last);
        let (next_at, stays) =
            (begins.map(|at| at + page.reading), !page.is_last || page.asked < page.progress.objects().len());
        if page.progress.first_view_at().is_some() {
            self.end_patience(number);
        }
        self.due.extend(by_scrolling.into_iter().map(|(object, at)| Reverse((at, part.page, object))));
        self.ask(number, at);
        if let Some(at) = next_at {
            self.begin(number + 1, at);
        }
        stays
    }

    fn leaves_at(&self) -> Option<Nanos> {
        self.patience.first().map(|(at, _)| *at)
    }

    fn take_leaving(&mut self) -> Option<u32> {
        let (at, page) = self.patience.pop_first()?;
        let this = &mut self.pages[page as usize];
        this.left_at = Some(at);
        let visitor = this.visitor;
        self.due.retain(|Reverse((_, page, _))| self.pages[*page as usize].visitor != visitor);
        Some(visitor)
    }

    fn last_at(&self) -> Nanos {
        self.last_at
    }

    /// The number of requests if nobody gives up.
    fn count(&self) -> Option<usize> {
        Some(self.objects().count())
    }

    fn pages(&self) -> Vec<PageTimes> {
        let times = |(number, page): (u32, &Page)| {
            let Page { progress, arrival, left_at, .. } = page;
            Some(PageTimes {
                page: number,
                arrival: (*arrival)?,
                requests: progress.objects().len(),
                first_view_at: progress.first_view_at(),
                with_fonts_at: progress.with_fonts_at(),
                full_at: progress.full_at(),
                left_at: *left_at,
            })
        };
        (0..).zip(&self.pages).filter_map(times).collect()
    }
}

/// The streams of the seed.
const TIMES: u64 = 0;
const PAGES: u64 = 1;

fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    random
}

/// Draws visits as long as another brings the total nearer to the wanted bytes on the wire; at least one.
fn filling(wanted_bytes: f64, random: &mut ChaCha8Rng) -> Result<Vec<Vec<VisitedPage>>, PagesError> {
    let (mut visits, mut pages, mut left_bytes) = (vec![], 0, wanted_bytes);
    loop {
        let visited = visit(random);
        let objects = visited.iter().flat_map(|page| &page.objects);
        let responses: u64 = objects.map(|object| wire_bytes(object.size_bytes)).sum();
        let bytes = (responses + CONNECTION_BYTES) as f64;
        if !visits.is_empty() && bytes > 2.0 * left_bytes {
            return Ok(visits);
        }
        pages += visited.len();
        if pages > PAGES_MAX {
            return Err(PagesError::TooMany);
        }
        visits.push(visited);
        left_bytes -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Found, ObjectKind};
    use std::collections::{HashMap, HashSet};

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn loads(rho: f64, seconds: f64, under_way_max: u32) -> Result<PageLoads, PagesError> {
        PageLoads::new(rho, ("10mbit".parse().unwrap(), seconds), under_way_max, 7)
    }

    /// Answers every request this long after it was due, in the order of their instants; a visitor who would leave
    /// before does so.
    fn answered(loads: &mut PageLoads, after: Nanos) -> Vec<Ask> {
        let (mut asks, mut flying): (Vec<Ask>, BTreeSet<(Nanos, usize)>) = (vec![], BTreeSet::new());
        loop {
            let ended = flying.first().map(|(at, _)| *at);
            let next = [loads.due(), ended, loads.leaves_at()].into_iter().flatten().min();
            let Some(next) = next else { return asks };
            if ended == Some(next) {
                let (at, number) = flying.pop_first().unwrap();
                loads.on_ended(&asks[number], at);
            } else if loads.due() == Some(next) {
                let ask = loads.take().unwrap();
                flying.insert((ask.at + after, asks.len()));
                asks.push(ask);
            } else {
                let visitor = loads.take_leaving();
                flying.retain(|(_, number)| asks[*number].user != visitor);
            }
        }
    }

    #[test]
    fn pages_load_the_link_as_asked() {
        let loads = loads(0.8, 3600.0, 100).unwrap();
        let bytes: u64 = loads.objects().map(|object| wire_bytes(object.size_bytes)).sum();
        let visitors = u64::from(loads.pages.last().unwrap().visitor) + 1;
        let rho = 8.0 * (bytes + visitors * CONNECTION_BYTES) as f64 / (10e6 * 3600.0);
        assert!((0.79..0.81).contains(&rho), "{rho}");
        let from: Vec<Nanos> = loads.pages.iter().filter_map(|page| page.arrival).collect();
        assert_eq!((from.len() as u64, from.is_sorted()), (visitors, true), "only first pages have begun");
        assert_eq!(from.last(), Some(&loads.last_at()));
    }

    #[test]
    fn every_object_is_asked_for_once_and_every_page_ends() {
        for under_way_max in [1, 6, 100] {
            let mut loads = loads(0.8, 60.0, under_way_max).unwrap();
            loads.wait();
            let asks = answered(&mut loads, MS(10));
            let parts: HashSet<(u32, u16)> =
                asks.iter().map(|ask| ask.part.unwrap()).map(|of| (of.page, of.object)).collect();
            assert_eq!((asks.len(), Some(parts.len())), (parts.len(), loads.count()));
            let times = loads.pages();
            assert_eq!(times.len(), loads.pages.len());
            for (page, times) in loads.pages.iter().zip(times) {
                let [view, fonts, full] = [times.first_view_at, times.with_fonts_at, times.full_at].map(Option::unwrap);
                assert!(times.arrival < view && view <= fonts && fonts <= full && times.left_at.is_none());
                assert_eq!(page.asked, times.requests);
            }
            let next = |pair: &[Page]| {
                (pair[0].visitor == pair[1].visitor).then(|| pair[0].progress.full_at().unwrap() + pair[0].reading)
            };
            assert!(loads.pages.windows(2).all(|pair| next(pair).is_none_or(|at| pair[1].arrival == Some(at))));
        }
    }

    #[test]
    fn no_more_than_so_many_are_under_way() {
        let mut loads = loads(0.8, 60.0, 6).unwrap();
        let (mut under_way, mut most): (HashMap<Option<u32>, Vec<Ask>>, _) = (HashMap::new(), 0);
        while let Some(ask) = loads.take() {
            let scrolled = |ask: &Ask| {
                let part = ask.part.unwrap();
                loads.pages[part.page as usize].progress.objects()[usize::from(part.object)].found.is_by_scrolling()
            };
            let of_page = under_way.entry(ask.user).or_default();
            of_page.push(ask);
            most = most.max(of_page.iter().filter(|ask| !scrolled(ask)).count());
            // Everything is answered when nothing else is due.
            if loads.due().is_none() {
                for ask in std::mem::take(&mut under_way).into_values().flatten() {
                    loads.on_ended(&ask, ask.at + Nanos::from_secs(100));
                }
            }
        }
        assert_eq!(most, 6);
    }

    /// A page whose HTML names an image in its middle, read for 1 s, and another of HTML alone.
    fn two_pages(patience: Option<Nanos>) -> PageLoads {
        let object = |kind, found| PageObject { kind, size_bytes: 100, found };
        let html = object(ObjectKind::Html, Found::Html(0));
        let (image, lazy) =
            (object(ObjectKind::Image, Found::Html(50)), object(ObjectKind::Image, Found::Scrolled(MS(300))));
        let page = |objects| VisitedPage { objects, reading: MS(1000), patience };
        PageLoads::of([(MS(5), vec![page(vec![html, image, lazy]), page(vec![html])])], 100)
    }

    #[test]
    fn a_page_is_requested_while_its_html_arrives_and_the_next_after_it_was_read() {
        let mut loads = two_pages(None);
        let html = loads.take().unwrap();
        loads.on_received(&html, 49, MS(10));
        assert_eq!(loads.due(), None);
        loads.on_received(&html, 50, MS(11));
        let image = loads.take().unwrap();
        assert_eq!((image.at, image.part.unwrap().object, loads.due()), (MS(11), 1, None));
        loads.on_received(&image, 100, MS(12));
        assert!(loads.on_ended(&image, MS(13)) && loads.on_ended(&html, MS(20)));
        assert_eq!(loads.pages()[0].full_at, Some(MS(20)));
        let lazy = loads.take().unwrap();
        assert_eq!((lazy.at, lazy.part.unwrap().object), (MS(320), 2));
        assert!(loads.on_ended(&lazy, MS(400)), "another page follows");
        let next = loads.take().unwrap();
        assert_eq!((next.at, next.user, next.part.unwrap().page, loads.last_at()), (MS(1020), Some(0), 1, MS(1020)));
        assert!(!loads.on_ended(&next, MS(1030)), "nothing is left");
        assert_eq!((loads.pages().len(), loads.pages()[0].full_at, loads.due()), (2, Some(MS(20)), None));
    }

    #[test]
    fn a_visitor_who_sees_nothing_leaves_and_asks_for_nothing_more() {
        let mut loads = two_pages(Some(MS(100)));
        let html = loads.take().unwrap();
        loads.on_received(&html, 60, MS(60));
        assert_eq!((loads.due(), loads.leaves_at()), (Some(MS(60)), Some(MS(105))));
        assert_eq!((loads.take_leaving(), loads.leaves_at(), loads.due()), (Some(0), None, None));
        assert!(!loads.on_ended(&html, MS(105)));
        let pages = loads.pages();
        assert_eq!(
            (pages.len(), pages[0].left_at, pages[0].first_view_at, loads.due()),
            (1, Some(MS(105)), None, None)
        );
        let mut loads = two_pages(Some(MS(100)));
        let html = loads.take().unwrap();
        loads.on_ended(&html, MS(104));
        assert_eq!(loads.leaves_at(), None, "something was seen in time");
    }

    #[test]
    fn some_leave_slow_servers_and_none_a_fast_one() {
        let left = |after| {
            let mut loads = loads(0.8, 300.0, 100).unwrap();
            answered(&mut loads, after);
            loads.pages().iter().filter(|page| page.left_at.is_some()).count() as f64 / loads.pages().len() as f64
        };
        // HTML and a style sheet in turn take twice as long.
        assert_eq!(left(MS(1)), 0.0);
        assert!((0.3..0.8).contains(&left(MS(5_000))) && left(MS(60_000)) > 0.95);
    }

    #[test]
    fn the_seed_decides() {
        let asked = |seed| {
            let mut loads = PageLoads::new(0.8, ("10mbit".parse().unwrap(), 60.0), 6, seed).unwrap();
            (answered(&mut loads, MS(2_000)), loads.pages())
        };
        assert_eq!(asked(1), asked(1));
        assert!(asked(1).0 != asked(2).0);
    }

    #[test]
    fn nonsense_is_refused() {
        for rho in [0.0, -1.0, f64::INFINITY] {
            assert_eq!(loads(rho, 60.0, 6).unwrap_err(), PagesError::Rho(rho));
        }
        assert!(matches!(loads(f64::NAN, 60.0, 6), Err(PagesError::Rho(_))));
        assert_eq!(loads(0.8, 0.0, 6).unwrap_err(), PagesError::Seconds(0.0));
        assert_eq!(loads(0.8, 60.0, 0).unwrap_err(), PagesError::NoneUnderWay);
        assert_eq!(loads(0.8, 1e6, 6).unwrap_err(), PagesError::TooMany);
    }
}
