//! Page loads: the connections of each visitor, and requests that follow from responses.
//!
//! A visitor requests the HTML. When it has arrived, the visitor requests the objects that it names, and when the style
//! sheets have arrived, the objects that those name ([`workload::page`]). On one connection all requests are
//! concurrent, as in HTTP/2 and HTTP/3. On several, each carries one request, and the others wait in the browser, the
//! most urgent first. A request reaches the server a round trip after the response that caused it. Pages and arrivals
//! depend only on the seed, so they are the same under every order.
//! under every order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::RngCore;
use sched::Precedence;
use serde::Serialize;
use units::Nanos;
use workload::{PageObject, Visit, page};

use super::line::{Line, Wire};
use super::owners::Owners;
use super::source::stream;
use super::station::Stream;
use super::{Config, Error};

/// The maximum number of pages of a run, so that all fit into memory.
pub const PAGES_MAX: u32 = 50_000;
/// The maximum number of connections of a page.
pub const PAGE_CONNECTIONS_MAX: u32 = 32;

/// The maximum concurrent requests on a connection that carries several, as commonly allowed by servers (RFC 9113
/// section 6.5.2).
const STREAMS_MAX: u32 = 100;

/// The time from a response to the requests that follow from it: the round trip of an ordinary line.
const ROUND_TRIP: Nanos = Nanos::from_millis(50);

/// One uncounted page per this many counted pages comes before them, and as many after them.
const MARGIN_SHARE: u32 = 10;

/// Visits to pages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageLoad {
    /// The number of counted pages. A tenth more come before them, and as many after, so that the last pages find the
    /// same load as the first.
    pub pages: u32,
    pub rho: f64,
    /// The number of connections. One connection carries many concurrent requests; several carry one each at a time.
    pub connections: u32,
}

/// The times of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PageOutcome {
    pub count: usize,
    pub requests_mean: f64,
    pub bytes_mean: f64,
    /// The time until the HTML, all style sheets and all blocking scripts have arrived.
    pub first_contentful_ms: Times,
    /// The time until everything has arrived.
    pub full_ms: Times,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Times {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
}

impl Times {
    fn of(spans: impl Iterator<Item = Nanos>) -> Times {
        let mut spans: Vec<Nanos> = spans.collect();
        spans.sort_unstable();
        let rank = |permille| stats::nearest_rank(&spans, permille).map_or(0.0, Nanos::as_millis_f64);
        let mean = stats::mean_nanos(&spans).unwrap_or(0.0) / 1e6;
        Times { mean, p50: rank(500), p95: rank(950) }
    }
}

/// A request that is due at the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PageAsk {
    pub at: Nanos,
    /// The number of the request, page by page over the whole run.
    pub number: u64,
    pub size_bytes: u64,
    pub stream: Stream,
}

/// A page that is being loaded.
struct Loading {
    from: Nanos,
    /// The number of its HTML.
    number: u64,
    /// The visitor, once the page has been assigned to one.
    client: Option<u32>,
    visit: Visit,
}

impl Loading {
    /// Returns the duration of an event of a loaded page.
    fn took(&self, at: Option<Nanos>) -> Nanos {
        at.unwrap_or(Nanos::MAX) - self.from
    }
}

/// All pages of a run, and their requests that are due.
pub(super) struct Pages {
    visits: Vec<Loading>,
    counted: std::ops::Range<usize>,
    under_way_max: u32,
    /// The requests that are due: instant, page, object.
    due: BinaryHeap<Reverse<(Nanos, u32, u16)>>,
}

impl Pages {
    pub fn new(load: &PageLoad, line: &Line, wire: Wire, seed: u64) -> Pages {
        let margin = load.pages.div_ceil(MARGIN_SHARE);
        let drawn: Vec<Vec<PageObject>> = {
            let mut random = stream(seed, 1);
            (0..load.pages + 2 * margin).map(|_| page(&mut random)).collect()
        };
        let service = |object: &PageObject| line.time_for(wire.bytes(object.size_bytes)).0;
        let all_ns: u64 = drawn.iter().flatten().map(service).sum();
        let gap_ns = all_ns as f64 / drawn.len() as f64 / load.rho;
        let (mut times, mut at, mut number) = (stream(seed, 0), Nanos::ZERO, 0);
        let mut visits = Vec::new();
        for objects in drawn {
            // In (0, 1], so that its logarithm is finite.
            let uniform = ((times.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            at += Nanos((-uniform.ln() * gap_ns) as u64);
            let count = objects.len() as u64;
            visits.push(Loading { from: at, number, client: None, visit: Visit::new(objects) });
            number += count;
        }
        let under_way_max = if load.connections == 1 { STREAMS_MAX } else { load.connections };
        let counted = margin as usize..(margin + load.pages) as usize;
        let mut pages = Pages { visits, counted, under_way_max, due: BinaryHeap::new() };
        (0..pages.visits.len() as u32).for_each(|page| pages.ask(page, pages.visits[page as usize].from));
        pages
    }

    /// The requests of the counted pages: the number of the first, and how many there are.
    pub fn extent(&self) -> (u64, u64) {
        let first = |page: usize| self.visits.get(page).map_or(0, |visit| visit.number);
        (first(self.counted.start), first(self.counted.end) - first(self.counted.start))
    }

    pub fn due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    pub fn take(&mut self) -> Option<PageAsk> {
        let Reverse((at, page, object)) = self.due.pop()?;
        let Loading { number, visit, .. } = &self.visits[page as usize];
        let PageObject { kind, size_bytes } = visit.objects()[usize::from(object)];
        let precedence = Precedence { urgency: kind.urgency(), is_incremental: kind.is_incremental() };
        let stream = Stream { connection: page, precedence };
        Some(PageAsk { at, number: number + u64::from(object), size_bytes, stream })
    }

    /// Returns the client that visits this page, which `deal` chooses at its first request.
    pub fn client_of(&mut self, page: u32, deal: impl FnOnce() -> u32) -> u32 {
        *self.visits[page as usize].client.get_or_insert_with(deal)
    }

    /// Handles the response to the request with this number.
    pub fn on_end(&mut self, number: u64, at: Nanos) {
        let page = self.visits.partition_point(|page| page.number <= number) - 1;
        let Loading { number: first, visit, .. } = &mut self.visits[page];
        visit.on_end((number - *first) as u16, at);
        self.ask(page as u32, at + ROUND_TRIP);
    }

    fn ask(&mut self, page: u32, at: Nanos) {
        while let Some(object) = self.visits[page as usize].visit.next(self.under_way_max) {
            self.due.push(Reverse((at, page, object)));
        }
    }

    /// Returns the times of the counted pages, all of which must have been loaded.
    pub fn outcome(&self) -> PageOutcome {
        let counted = &self.visits[self.counted.clone()];
        let pages = counted.len().max(1) as f64;
        let objects = || counted.iter().flat_map(|page| page.visit.objects());
        PageOutcome {
            count: counted.len(),
            requests_mean: objects().count() as f64 / pages,
            bytes_mean: objects().map(|object| object.size_bytes as f64).sum::<f64>() / pages,
            first_contentful_ms: Times::of(counted.iter().map(|page| page.took(page.visit.first_view_at()))),
            full_ms: Times::of(counted.iter().map(|page| page.took(page.visit.full_at()))),
        }
    }
}

/// Returns the sizes of objects in the order of their requests.
pub(super) fn sizes(seed: u64) -> Vec<u64> {
    let mut random = stream(seed, 1);
    let pages = (0..PAGES_SAMPLED).map(|_| page(&mut random));
    pages.flatten().map(|object| object.size_bytes).collect()
}

/// The number of pages whose sizes represent those of all pages.
const PAGES_SAMPLED: u32 = 1000;

/// Checks a load of pages.
pub(super) fn check(config: &Config, load: &PageLoad) -> Result<(), Error> {
    let PageLoad { pages, rho, connections } = *load;
    if !(1..=PAGES_MAX).contains(&pages) {
        return Err(Error::field("pages", format_args!("{pages} pages: write 1 to {PAGES_MAX}")));
    }
    if !(rho > 0.0 && rho < 1.0) {
        return Err(Error::field("rho", format_args!("a load of {rho}: of pages write more than 0 and less than 1")));
    }
    if !(1..=PAGE_CONNECTIONS_MAX).contains(&connections) {
        let said = format_args!("{connections} connections: write 1 to {PAGE_CONNECTIONS_MAX}");
        return Err(Error::field("page_connections", said));
    }
    let beside = [
        ("wire", config.wire == Wire::Tcp, "its handshake for each request is not that of pages: write plain"),
        ("connections", config.connections.is_some(), "pages have connections of their own: leave it out"),
        ("clients", config.clients.owners == Some(Owners::Trace), "pages have no trace: write a number, such as 4"),
        ("slots", config.slots.is_some(), "not beside pages"),
        ("class_table", config.class_table.is_some(), "not beside pages"),
        ("classes", !config.class_shares.is_empty(), "not beside pages"),
        ("carriers", connections > 1 && config.carriers, "of several connections none carries several: write none"),
        ("policy", config.policy == "ps" && config.carriers, "ps has no carriers: write carriers none, or fair"),
    ];
    match beside.into_iter().find(|(_, is_given, _)| *is_given) {
        Some((field, _, reason)) => Err(Error::field(field, reason)),
        None => Ok(()),
    }
}
