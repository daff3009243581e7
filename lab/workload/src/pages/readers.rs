//! Visitors who read ten pages of a site, one after another, with a browser's cache: files that an earlier page named
//! are not requested again. They never give up.
//!
//! A reader begins at a random page and continues to the one that `<link rel="next">` names, as in reading
//! documentation. If there is none, or it was already read, the next page is random again. The HTML names its files
//! when it is complete, because a coded form shows only then where it names them.

use std::collections::BTreeSet;

use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use units::Nanos;

use super::load::{PAGES, stream};
use super::{Documents, Found, ObjectKind, PageObject, VisitedPage};
use crate::synthetic::unit;

/// The number of pages of a reader.
pub const READER_PAGES: usize = 10;

/// The mean time from a complete page to the next, exponentially distributed. A longer one would only lengthen a run,
/// because the connection has long been idle by then.
const READING_MEAN: Nanos = Nanos::from_secs(2);

/// The stream of the seed for reading times, in addition to those of [`super::PageLoads`].
const READING: u64 = 2;

/// Draws readers.
pub(super) struct Reader<'a> {
    documents: &'a Documents,
    random: ChaCha8Rng,
    reading: ChaCha8Rng,
}

impl Reader<'_> {
    pub(super) fn new(documents: &Documents, seed: u64) -> Reader<'_> {
        Reader { documents, random: stream(seed, PAGES), reading: stream(seed, READING) }
    }

    pub(super) fn visit(&mut self) -> Vec<VisitedPage> {
        let (mut read, mut had, mut pages) = (BTreeSet::new(), BTreeSet::new(), vec![]);
        let (documents, mut next) = (self.documents, None);
        for _ in 0..READER_PAGES.min(documents.pages().len()) {
            let page = next.filter(|page| !read.contains(page)).unwrap_or_else(|| {
                let unread: Vec<u32> = documents.pages().iter().copied().filter(|page| !read.contains(page)).collect();
                unread[self.random.random_range(0..unread.len())]
            });
            read.insert(page);
            let needed = documents.needed(page).into_iter().filter(|(file, _)| had.insert(*file));
            let (objects, files) = needed.map(|(file, kind)| (object(documents, file, kind), file)).unzip();
            let reading = Nanos((-(1.0 - unit(&mut self.reading)).ln() * READING_MEAN.0 as f64) as u64);
            pages.push(VisitedPage { objects, files, reading, patience: None });
            next = documents.next(page);
        }
        pages
    }
}

fn object(documents: &Documents, file: u32, kind: ObjectKind) -> PageObject {
    let found = Found::Html(if kind == ObjectKind::Html { 0 } else { u64::MAX });
    PageObject { kind, size_bytes: documents.get(file).bytes.len() as u64, found }
}
