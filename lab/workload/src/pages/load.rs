//! Page loads as requests: pages arrive independently, and each request of a page follows from earlier responses.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use units::wire::CONNECTION_BYTES;
use units::{Nanos, Rate};

use super::{PageObject, Visit, page};
use crate::synthetic::unit;
use crate::{Ask, Part, Source, wire_bytes};

/// The maximum number of pages of a run, so that all fit into memory.
pub const PAGES_MAX: usize = 50_000;

/// The page loads of a run. The seed determines their number and their pages, so they are the same for every server.
#[derive(Debug)]
pub struct PageLoads {
    pages: Vec<Page>,
    under_way_max: u32,
    /// The requests that are due: instant, page, object.
    due: BinaryHeap<Reverse<(Nanos, u32, u16)>>,
}

#[derive(Debug)]
struct Page {
    from: Nanos,
    visit: Visit,
}

/// The times of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageTimes {
    pub arrival: Nanos,
    pub requests: usize,
    pub bytes: u64,
    /// The instant at which the HTML, all style sheets and all blocking scripts had ended, if they have.
    pub first_view_at: Option<Nanos>,
    /// The instant at which everything had ended.
    pub full_at: Option<Nanos>,
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

impl PagesError {
    pub(super) fn check(rho: f64, seconds: f64, under_way_max: u32) -> Result<(), PagesError> {
        match () {
            () if !(rho > 0.0 && rho.is_finite()) => Err(PagesError::Rho(rho)),
            () if !(1e-9..=1e9).contains(&seconds) => Err(PagesError::Seconds(seconds)),
            () if under_way_max == 0 => Err(PagesError::NoneUnderWay),
            () => Ok(()),
        }
    }
}

impl PageLoads {
    /// Returns as many pages as load the link this much for this long, at the times of a Poisson process with that
    /// number of events; each page has at most `under_way_max` concurrent requests.
    pub fn new(rho: f64, link: Rate, seconds: f64, under_way_max: u32, seed: u64) -> Result<PageLoads, PagesError> {
        PagesError::check(rho, seconds, under_way_max)?;
        let wanted_bytes = rho * link.bits_per_s() as f64 / 8.0 * seconds;
        let drawn = drawn(wanted_bytes, seed)?;
        let mut random = stream(seed, TIMES);
        let mut times: Vec<Nanos> = drawn.iter().map(|_| Nanos((unit(&mut random) * seconds * 1e9) as u64)).collect();
        times.sort_unstable();
        let pages = times.into_iter().zip(drawn).map(|(from, objects)| Page { from, visit: Visit::new(objects) });
        let mut loads = PageLoads { pages: pages.collect(), under_way_max, due: BinaryHeap::new() };
        (0..loads.pages.len()).for_each(|page| loads.ask(page, loads.pages[page].from));
        Ok(loads)
    }

    /// The sizes of all objects.
    pub fn sizes(&self) -> BTreeSet<u64> {
        self.pages.iter().flat_map(|page| page.visit.objects()).map(|object| object.size_bytes).collect()
    }

    fn requests(&self) -> usize {
        self.pages.iter().map(|page| page.visit.objects().len()).sum()
    }

    fn ask(&mut self, page: usize, at: Nanos) {
        while let Some(object) = self.pages[page].visit.next(self.under_way_max) {
            self.due.push(Reverse((at, page as u32, object)));
        }
    }
}

impl Source for PageLoads {
    fn due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    fn take(&mut self) -> Option<Ask> {
        let Reverse((at, page, object)) = self.due.pop()?;
        let PageObject { kind, size_bytes } = self.pages[page as usize].visit.objects()[usize::from(object)];
        let (urgency, is_incremental) = (kind.urgency(), kind.is_incremental());
        let part = Part { page, file: None, object, urgency, is_incremental };
        Some(Ask { at, size_bytes, user: Some(page), group: None, client: None, part: Some(part) })
    }

    fn on_end(&mut self, page: u32, _: Nanos) -> bool {
        unreachable!("page {page} ends by its parts")
    }

    fn on_ended(&mut self, ask: &Ask, at: Nanos) -> bool {
        let (Some(page), Some(part)) = (ask.user, ask.part) else { return true };
        let visit = &mut self.pages[page as usize].visit;
        visit.on_end(part.object, at);
        let stays = !visit.has_asked_all();
        self.ask(page as usize, at);
        stays
    }

    /// The instant of the last page; its objects follow.
    fn last_at(&self) -> Nanos {
        self.pages.last().map_or(Nanos::ZERO, |page| page.from)
    }

    fn count(&self) -> Option<usize> {
        Some(self.requests())
    }

    fn pages(&self) -> Vec<PageTimes> {
        let times = |Page { from, visit }: &Page| PageTimes {
            arrival: *from,
            requests: visit.objects().len(),
            bytes: visit.objects().iter().map(|object| object.size_bytes).sum(),
            first_view_at: visit.first_view_at(),
            full_at: visit.full_at(),
        };
        self.pages.iter().map(times).collect()
    }
}

/// The streams of the seed, equal to those of the simulator, so that its pages are the same.
pub(super) const TIMES: u64 = 0;
pub(super) const PAGES: u64 = 1;

pub(super) fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    random
}

/// Draws pages as long as another brings the total nearer to the wanted bytes on the wire; at least one.
fn drawn(wanted_bytes: f64, seed: u64) -> Result<Vec<Vec<PageObject>>, PagesError> {
    let (mut random, mut drawn, mut left_bytes) = (stream(seed, PAGES), vec![], wanted_bytes);
    loop {
        let objects = page(&mut random);
        let responses: u64 = objects.iter().map(|object| wire_bytes(object.size_bytes)).sum();
        let bytes = (responses + CONNECTION_BYTES) as f64;
        if !drawn.is_empty() && bytes > 2.0 * left_bytes {
            return Ok(drawn);
        }
        if drawn.len() == PAGES_MAX {
            return Err(PagesError::TooMany);
        }
        drawn.push(objects);
        left_bytes -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(rho: f64, seconds: f64, under_way_max: u32) -> Result<PageLoads, PagesError> {
        PageLoads::new(rho, "10mbit".parse().unwrap(), seconds, under_way_max, 7)
    }

    /// Answers every request this long after it was due, in the order of their instants.
    fn answered(mut loads: PageLoads, after: Nanos) -> (Vec<Ask>, PageLoads) {
        let mut asks = vec![];
        while let Some(ask) = loads.take() {
            loads.on_ended(&ask, ask.at + after);
            asks.push(ask);
        }
        (asks, loads)
    }

    #[test]
    fn pages_load_the_link_as_asked() {
        let loads = loads(0.8, 3600.0, 100).unwrap();
        let bytes: u64 = loads.sizes_of_all().map(wire_bytes).sum();
        let rho = 8.0 * bytes as f64 / (10e6 * 3600.0);
        assert!((0.79..0.82).contains(&rho), "{rho}");
        assert!(loads.pages.is_sorted_by_key(|page| page.from) && loads.last_at() < Nanos::from_secs(3600));
    }

    impl PageLoads {
        fn sizes_of_all(&self) -> impl Iterator<Item = u64> {
            self.pages.iter().flat_map(|page| page.visit.objects()).map(|object| object.size_bytes)
        }
    }

    #[test]
    fn every_object_is_asked_for_once_and_every_page_ends() {
        for under_way_max in [1, 6, 100] {
            let first = loads(0.8, 60.0, under_way_max).unwrap();
            let (count, mut wanted) = (first.count().unwrap(), first.sizes_of_all().collect::<Vec<_>>());
            let (asks, loads) = answered(first, Nanos::from_millis(10));
            let mut sizes: Vec<u64> = asks.iter().map(|ask| ask.size_bytes).collect();
            wanted.sort_unstable();
            sizes.sort_unstable();
            assert_eq!((asks.len(), sizes), (count, wanted));
            for page in loads.pages() {
                let (first_view, full) = (page.first_view_at.unwrap(), page.full_at.unwrap());
                assert!(page.arrival < first_view && first_view <= full && page.requests > 0 && page.bytes > 0);
            }
        }
    }

    #[test]
    fn no_more_than_so_many_are_under_way() {
        let mut loads = loads(0.8, 60.0, 6).unwrap();
        let (mut under_way, mut most) = (vec![], 0);
        while let Some(ask) = loads.take() {
            under_way.push(ask);
            let of_page = |page| under_way.iter().filter(|ask: &&Ask| ask.user == page).count();
            most = most.max(of_page(ask.user));
            // Everything is answered when nothing else is due.
            if loads.due().is_none() {
                for ask in std::mem::take(&mut under_way) {
                    loads.on_ended(&ask, ask.at + Nanos::from_secs(100));
                }
            }
        }
        assert_eq!(most, 6);
    }

    #[test]
    fn connections_stay_while_a_page_has_more_to_ask_for() {
        let mut loads = loads(1e-6, 1.0, 100).unwrap();
        let html = loads.take().unwrap();
        assert_eq!((html.user, html.part.unwrap().object, loads.due()), (Some(0), 0, None));
        assert!(loads.on_ended(&html, Nanos::from_secs(2)));
        assert_eq!(loads.due(), Some(Nanos::from_secs(2)));
        let mut stays = vec![];
        while let Some(ask) = loads.take() {
            stays.push(loads.on_ended(&ask, Nanos::from_secs(3)));
        }
        assert!(stays[0] && !stays[stays.len() - 1]);
        let html_alone = loads.pages()[0];
        assert_eq!(html_alone.full_at, Some(Nanos::from_secs(3)));
    }

    #[test]
    fn the_seed_decides() {
        let asked = |seed| {
            let loads = PageLoads::new(0.8, "10mbit".parse().unwrap(), 60.0, 6, seed).unwrap();
            answered(loads, Nanos::from_millis(1)).0
        };
        assert_eq!(asked(1), asked(1));
        assert_ne!(asked(1), asked(2));
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
