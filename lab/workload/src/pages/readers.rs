//! Visitors who read ten pages of a site, one after another, with a browser's cache: files that an earlier page named
//! are not requested again.
//!
//! A reader begins at a random page and continues to the one that `<link rel="next">` names, as in reading
//! documentation. If there is none, or it was already read, the next page is random again. The seed determines the
//! pages and the reading times, the same for every server; the instants of requests follow from the responses.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use units::wire::CONNECTION_BYTES;
use units::{Nanos, Rate};

use super::load::{PAGES, TIMES, stream};
use super::{Documents, PageObject, PageTimes, PagesError, Visit};
use crate::synthetic::unit;
use crate::{Ask, PAGES_MAX, Part, Source, wire_bytes};

/// The number of pages of a reader.
pub const READER_PAGES: usize = 10;

/// The mean time from a complete page to the next, exponentially distributed. A longer one would only lengthen a run,
/// because the connection has long been idle by then.
const READING_MEAN: Nanos = Nanos::from_secs(2);

/// The stream of the seed, in addition to those of [`super::PageLoads`].
const READING: u64 = 2;

/// The readers of a run; the seed determines their number and their pages.
#[derive(Debug)]
pub struct Readers {
    documents: Arc<Documents>,
    readers: Vec<Reader>,
    under_way_max: u32,
    /// The times of the pages that have begun, in that order.
    times: Vec<PageTimes>,
    /// The requests that are due: instant, reader, object of its page.
    due: BinaryHeap<Reverse<(Nanos, u32, u16)>>,
}

#[derive(Debug)]
struct Reader {
    from: Nanos,
    pages: Pages,
    /// The number of pages that have begun.
    begun: usize,
    /// The last of these pages, and its number among all pages.
    visit: Visit,
    number: u32,
}

impl Readers {
    /// Returns as many readers as would load the link this much for this long if all files were sent without codings;
    /// they begin at the times of a Poisson process with that number of events.
    pub fn new(
        rho: f64,
        (link, seconds): (Rate, f64),
        documents: Arc<Documents>,
        under_way_max: u32,
        seed: u64,
    ) -> Result<Readers, PagesError> {
        PagesError::check(rho, seconds, under_way_max)?;
        let drawn = drawn(rho * link.bits_per_s() as f64 / 8.0 * seconds, &documents, seed)?;
        let mut random = stream(seed, TIMES);
        let mut times: Vec<Nanos> = drawn.iter().map(|_| Nanos((unit(&mut random) * seconds * 1e9) as u64)).collect();
        times.sort_unstable();
        let nothing = || Visit::new(vec![]);
        let readers = times.into_iter().zip(drawn);
        let readers = readers.map(|(from, pages)| Reader { from, pages, begun: 0, visit: nothing(), number: 0 });
        let (readers, times, due) = (readers.collect(), vec![], BinaryHeap::new());
        let mut readers = Readers { documents, readers, under_way_max, times, due };
        (0..readers.readers.len()).for_each(|reader| readers.begin(reader, readers.readers[reader].from));
        Ok(readers)
    }

    /// The site that they read.
    pub fn documents(&self) -> &Arc<Documents> {
        &self.documents
    }

    /// The sizes of all files that they request.
    pub fn sizes(&self) -> BTreeSet<u64> {
        self.objects().map(|object| object.size_bytes).collect()
    }

    fn objects(&self) -> impl Iterator<Item = &PageObject> {
        self.readers.iter().flat_map(|reader| &reader.pages).flat_map(|(objects, ..)| objects)
    }

    /// Begins the next page of a reader, if there is one.
    fn begin(&mut self, reader: usize, at: Nanos) {
        let this = &mut self.readers[reader];
        let Some((objects, ..)) = this.pages.get(this.begun) else { return };
        this.begun += 1;
        (this.visit, this.number) = (Visit::new(objects.clone()), self.times.len() as u32);
        let bytes = objects.iter().map(|object| object.size_bytes).sum();
        let requests = objects.len();
        self.times.push(PageTimes { arrival: at, requests, bytes, first_view_at: None, full_at: None });
        self.ask(reader, at);
    }

    fn ask(&mut self, reader: usize, at: Nanos) {
        while let Some(object) = self.readers[reader].visit.next(self.under_way_max) {
            self.due.push(Reverse((at, reader as u32, object)));
        }
    }
}

impl Reader {
    /// The file of an object of the current page.
    fn file(&self, object: u16) -> u32 {
        self.pages[self.begun - 1].1[usize::from(object)]
    }
}

impl Source for Readers {
    fn due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    fn take(&mut self) -> Option<Ask> {
        let Reverse((at, reader, object)) = self.due.pop()?;
        let this = &self.readers[reader as usize];
        let PageObject { kind, size_bytes } = this.visit.objects()[usize::from(object)];
        let (urgency, is_incremental) = (kind.urgency(), kind.is_incremental());
        let part = Part { page: this.number, file: Some(this.file(object)), object, urgency, is_incremental };
        Some(Ask { at, size_bytes, user: Some(reader), group: None, client: None, part: Some(part) })
    }

    fn on_end(&mut self, reader: u32, _: Nanos) -> bool {
        unreachable!("reader {reader} ends by the parts of its pages")
    }

    fn on_ended(&mut self, ask: &Ask, at: Nanos) -> bool {
        let (Some(reader), Some(part)) = (ask.user.map(|reader| reader as usize), ask.part) else { return true };
        let this = &mut self.readers[reader];
        this.visit.on_end(part.object, at);
        let times = &mut self.times[this.number as usize];
        (times.first_view_at, times.full_at) = (this.visit.first_view_at(), this.visit.full_at());
        let is_last = this.begun == this.pages.len();
        let stays = !(is_last && this.visit.has_asked_all());
        if times.full_at.is_some() {
            let reading = this.pages[this.begun - 1].2;
            self.begin(reader, at + reading);
        } else {
            self.ask(reader, at);
        }
        stays
    }

    /// The instant of the last reader; its pages follow.
    fn last_at(&self) -> Nanos {
        self.readers.last().map_or(Nanos::ZERO, |reader| reader.from)
    }

    fn count(&self) -> Option<usize> {
        Some(self.objects().count())
    }

    fn pages(&self) -> Vec<PageTimes> {
        self.times.clone()
    }
}

/// For each page of a reader: the objects that it requests, their files, and the reading time.
type Pages = Vec<(Vec<PageObject>, Vec<u32>, Nanos)>;

/// Draws readers as long as another brings the total nearer to the wanted bytes on the wire; at least one.
fn drawn(wanted_bytes: f64, documents: &Documents, seed: u64) -> Result<Vec<Pages>, PagesError> {
    let (mut random, mut reading) = (stream(seed, PAGES), stream(seed, READING));
    let (mut drawn, mut left_bytes) = (vec![], wanted_bytes);
    loop {
        let pages = reader(documents, &mut random, &mut reading);
        let objects = pages.iter().flat_map(|(objects, ..)| objects);
        let responses: u64 = objects.map(|object| wire_bytes(object.size_bytes)).sum();
        let bytes = (responses + CONNECTION_BYTES) as f64;
        if !drawn.is_empty() && bytes > 2.0 * left_bytes {
            return Ok(drawn);
        }
        if drawn.len() == PAGES_MAX / READER_PAGES {
            return Err(PagesError::TooMany);
        }
        drawn.push(pages);
        left_bytes -= bytes;
    }
}

fn reader(documents: &Documents, random: &mut ChaCha8Rng, reading: &mut ChaCha8Rng) -> Pages {
    let (mut read, mut had, mut pages) = (BTreeSet::new(), BTreeSet::new(), vec![]);
    let mut next = None;
    for _ in 0..READER_PAGES.min(documents.pages().len()) {
        let page = next.filter(|page| !read.contains(page)).unwrap_or_else(|| {
            let unread: Vec<u32> = documents.pages().iter().copied().filter(|page| !read.contains(page)).collect();
            unread[random.random_range(0..unread.len())]
        });
        read.insert(page);
        let needed = documents.needed(page).into_iter().filter(|(file, _)| had.insert(*file));
        let object = |(file, kind)| (PageObject { kind, size_bytes: documents.get(file).bytes.len() as u64 }, file);
        let (objects, files) = needed.map(object).unzip();
        let think = -(1.0 - unit(reading)).ln() * READING_MEAN.0 as f64;
        pages.push((objects, files, Nanos(think as u64)));
        next = documents.next(page);
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::documents::tests::documents;

    fn readers(rho: f64, seed: u64) -> Result<Readers, PagesError> {
        Readers::new(rho, ("10mbit".parse().unwrap(), 1.0), Arc::new(documents()), 100, seed)
    }

    /// Answers every request this long after it was due.
    fn answered(mut readers: Readers, after: Nanos) -> (Vec<Ask>, Readers) {
        let mut asks = vec![];
        while let Some(ask) = readers.take() {
            readers.on_ended(&ask, ask.at + after);
            asks.push(ask);
        }
        (asks, readers)
    }

    #[test]
    fn a_reader_asks_for_each_file_once_and_reads_on() {
        let first = readers(1e-6, 7).unwrap();
        let count = first.count().unwrap();
        let (asks, readers) = answered(first, Nanos::from_millis(10));
        let files: Vec<u32> = asks.iter().map(|ask| ask.part.unwrap().file.unwrap()).collect();
        let distinct: BTreeSet<u32> = files.iter().copied().collect();
        assert_eq!((files.len(), distinct.len()), (count, 8), "three pages and five files that they share");
        let pages = readers.pages();
        assert_eq!(pages.iter().map(|page| page.requests).collect::<Vec<_>>(), [6, 1, 1]);
        for (page, next) in pages.iter().zip(&pages[1..]) {
            assert!(page.first_view_at <= page.full_at && page.full_at.unwrap() < next.arrival);
        }
        let page_of: Vec<u32> = asks.iter().map(|ask| ask.part.unwrap().page).collect();
        assert_eq!(page_of, [0, 0, 0, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn a_reader_leaves_with_the_last_page() {
        let mut readers = readers(1e-6, 3).unwrap();
        let mut stays = vec![];
        while let Some(ask) = readers.take() {
            stays.push(readers.on_ended(&ask, ask.at));
        }
        let (last, before) = stays.split_last().unwrap();
        assert!(!last && before.iter().all(|stays| *stays));
    }

    #[test]
    fn readers_load_the_link_as_asked() {
        let readers = readers(0.8, 7).unwrap();
        let bytes: u64 = readers.objects().map(|object| wire_bytes(object.size_bytes)).sum();
        let rho = 8.0 * (bytes + readers.readers.len() as u64 * CONNECTION_BYTES) as f64 / 10e6;
        assert!((0.79..0.81).contains(&rho), "{rho}");
        assert!(readers.readers.is_sorted_by_key(|reader| reader.from) && readers.last_at() < Nanos::from_secs(1));
    }

    #[test]
    fn the_seed_decides() {
        let asked = |seed| answered(readers(0.8, seed).unwrap(), Nanos::from_millis(1)).0;
        assert_eq!(asked(1), asked(1));
        assert_ne!(asked(1), asked(2));
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(readers(0.0, 1).unwrap_err(), PagesError::Rho(0.0));
        assert_eq!(readers(1e6, 1).unwrap_err(), PagesError::TooMany);
    }
}
