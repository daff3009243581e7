//! Page loads: the connections of each visitor, and requests that follow from responses.
//!
//! Visits are those of the load generator ([`workload::visit`]), with two differences: a job is whole or not there, so
//! everything that the HTML names is found at its end, and nobody gives up. On one connection all requests of a visitor
//! are concurrent, as in HTTP/2 and HTTP/3. On several, each carries one request, and the others wait in the browser,
//! the most urgent first. A response arrives, and what follows from it is requested, a round trip after it left. Visits
//! and arrivals depend only on the seed, so they are the same under every order.

use std::collections::HashMap;

use rand::RngCore;
use sched::Precedence;
use serde::Serialize;
use units::Nanos;
use workload::{Ask, PageLoads, PageTimes, Source, VisitedPage, visit};

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

/// The time from a response to its arrival and the requests that follow from it: the round trip of an ordinary line.
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
    /// The time until these and all fonts have arrived.
    pub with_fonts_ms: Times,
    /// The time until everything has arrived that does not wait for the visitor to scroll.
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

/// All visits of a run, and their requests that are due.
pub(super) struct Pages {
    loads: PageLoads,
    /// The number of the first request of each page, and of the first after all pages.
    firsts: Vec<u64>,
    counted: std::ops::Range<usize>,
    /// The requests at the server, by their numbers.
    under_way: HashMap<u64, Ask>,
    /// The clients of the visitors seen so far.
    clients: HashMap<u32, u32>,
    requests_mean: f64,
    bytes_mean: f64,
}

impl Pages {
    pub fn new(load: &PageLoad, line: &Line, wire: Wire, seed: u64) -> Pages {
        let margin = load.pages.div_ceil(MARGIN_SHARE) as usize;
        let counted = margin..margin + load.pages as usize;
        let visits = drawn(counted.end + margin, seed);
        let pages: Vec<&VisitedPage> = visits.iter().flatten().collect();
        let mut firsts = vec![0];
        pages.iter().for_each(|page| firsts.push(firsts[firsts.len() - 1] + page.objects.len() as u64));
        let sizes = |pages: &[&VisitedPage]| -> Vec<u64> {
            pages.iter().flat_map(|page| &page.objects).map(|object| object.size_bytes).collect()
        };
        let all_ns: u64 = sizes(&pages).into_iter().map(|size| line.time_for(wire.bytes(size)).0).sum();
        let (sizes, count) = (sizes(&pages[counted.clone()]), f64::from(load.pages));
        let (requests_mean, bytes_mean) = (sizes.len() as f64 / count, sizes.iter().sum::<u64>() as f64 / count);
        let gap_ns = all_ns as f64 / visits.len() as f64 / load.rho;
        let (mut times, mut at) = (stream(seed, 0), Nanos::ZERO);
        let visits = visits.into_iter().map(|visited| {
            // In (0, 1], so that its logarithm is finite.
            let uniform = ((times.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            at += Nanos((-uniform.ln() * gap_ns) as u64);
            (at, visited)
        });
        let loads = PageLoads::of(visits, if load.connections == 1 { STREAMS_MAX } else { load.connections });
        let (under_way, clients) = (HashMap::new(), HashMap::new());
        Pages { loads, firsts, counted, under_way, clients, requests_mean, bytes_mean }
    }

    /// The requests of the counted pages: the number of the first, and how many there are.
    pub fn extent(&self) -> (u64, u64) {
        let first = self.firsts[self.counted.start];
        (first, self.firsts[self.counted.end] - first)
    }

    pub fn due(&self) -> Option<Nanos> {
        self.loads.due()
    }

    pub fn take(&mut self) -> Option<PageAsk> {
        let ask = self.loads.take()?;
        let (part, connection) = ask.part.zip(ask.user)?;
        let precedence = Precedence { urgency: part.urgency, is_incremental: part.is_incremental };
        let number = self.firsts[part.page as usize] + u64::from(part.object);
        self.under_way.insert(number, ask);
        Some(PageAsk { at: ask.at, number, size_bytes: ask.size_bytes, stream: Stream { connection, precedence } })
    }

    /// Returns the client of this visitor, which `deal` chooses at the first request.
    pub fn client_of(&mut self, visitor: u32, deal: impl FnOnce() -> u32) -> u32 {
        *self.clients.entry(visitor).or_insert_with(deal)
    }

    /// Handles the response to the request with this number.
    pub fn on_end(&mut self, number: u64, at: Nanos) {
        if let Some(ask) = self.under_way.remove(&number) {
            self.loads.on_ended(&ask, at + ROUND_TRIP);
        }
    }

    /// Returns the times of the counted pages, all of which must have been loaded.
    pub fn outcome(&self) -> PageOutcome {
        let counted: Vec<PageTimes> =
            self.loads.pages().into_iter().filter(|page| self.counted.contains(&(page.page as usize))).collect();
        let times = |until: fn(&PageTimes) -> Option<Nanos>| {
            Times::of(counted.iter().map(|page| until(page).unwrap_or(Nanos::MAX) - page.arrival))
        };
        PageOutcome {
            count: counted.len(),
            requests_mean: self.requests_mean,
            bytes_mean: self.bytes_mean,
            first_contentful_ms: times(|page| page.first_view_at),
            with_fonts_ms: times(|page| page.with_fonts_at),
            full_ms: times(|page| page.full_at),
        }
    }
}

/// Draws visits with at least so many pages together.
fn drawn(pages: usize, seed: u64) -> Vec<Vec<VisitedPage>> {
    let (mut random, mut visits, mut count) = (stream(seed, 1), vec![], 0);
    while count < pages {
        let mut visited = visit(&mut random);
        visited.iter_mut().for_each(|page| page.patience = None);
        count += visited.len();
        visits.push(visited);
    }
    visits
}

/// Returns the sizes of objects in the order of their requests.
pub(super) fn sizes(seed: u64) -> Vec<u64> {
    drawn(PAGES_SAMPLED, seed).iter().flatten().flat_map(|page| &page.objects).map(|object| object.size_bytes).collect()
}

/// The number of pages whose sizes represent those of all pages.
const PAGES_SAMPLED: usize = 1000;

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
        ("clients", config.clients.owners == Some(Owners::Trace), "pages have no trace: write a number, such as 4"),
        ("slots", config.slots.is_some(), "not with pages"),
        ("class_table", config.class_table.is_some(), "not with pages"),
        ("classes", !config.class_shares.is_empty(), "not with pages"),
        ("carriers", connections > 1 && config.carriers, "of several connections none carries several: write none"),
        ("policy", config.policy == "ps" && config.carriers, "ps has no carriers: write carriers none, or fair"),
    ];
    match beside.into_iter().find(|(_, is_given, _)| *is_given) {
        Some((field, _, reason)) => Err(Error::field(field, reason)),
        None => Ok(()),
    }
}
