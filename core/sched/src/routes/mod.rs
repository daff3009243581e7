//! Sizes learned per route, for responses that announce no length.
//!
//! Complete responses of the same [`Route`] predict the size of a proxied response of unknown length. [`Routes`] counts
//! them and gives each job of a route its rank as a [`Curve`] by bytes sent: the Gittins index (`gittins.rs` has the
//! theory). The server, the simulator and tests use the same curve.
//!
//! ```
//! use sched::routes::{Route, Routes};
//! use sched::{Arrival, Scheduler, Size, policy};
//! use units::Nanos;
//!
//! let mut routes = Routes::new(); let key = routes.enter(&Route { site: b"shop", method: b"GET", path: b"/items/17",
//! status: 200, ..Route::default() }); for bytes in 2000..2100 {
//!     routes.note(key, bytes);
//! }
//! let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Default::default());
//! let known = scheduler.arrive(Nanos(0), Arrival::of(Size::Known(5000)));
//! let learned = scheduler.arrive(Nanos(0), Arrival::of(Size::AtLeast(0)));
//! scheduler.on_curve(learned, routes.curve(key));
//! assert_eq!(scheduler.poll_grant(Nanos(0)).unwrap().job, learned);
//! ```

mod curve;
mod gittins;
mod histogram;
mod pattern;
mod ratio;
mod route;
mod service;

use std::collections::HashMap;
use std::sync::Arc;

pub use curve::{Curve, Knot};
pub use gittins::{LARGER, curve as gittins};
pub use histogram::{BUCKETS, Histogram, SAMPLES_MAX, Survival, low_end, width};
pub use ratio::RATIOS_MIN;
pub use route::{Route, WORDS_BYTES_MAX};
pub use service::{SERVICES_MAX, ServiceRoute, ServiceTimes};

use ratio::Ratio;
use route::Digest;

/// The maximum number of routes remembered. Each takes less than 2.5 KB, including its words and curves.
pub const ROUTES_MAX: usize = 4096;
/// The path of the route that stands for all paths; it is its own pattern.
const ALL_PATHS: &[u8] = b"/**";
/// The number of complete responses from which a route's own sizes rank its responses. With fewer, the sizes of all
/// paths together are used, or the bytes sent if these are too few as well.
pub const SAMPLES_MIN: u32 = 16;
/// The number of new samples after which a curve is computed again; an eighth of the remembered samples if that is
/// more.
const STALE_AFTER: u32 = 16;
const STALE_SHARE: u32 = 8;
/// The maximum number of uses of a route that are remembered. Eviction skips the route once per use.
const USES_MAX: u8 = 7;
/// The number of parts into which a distribution is divided to count true sizes.
pub const DECILES: usize = 10;

/// The positions of true sizes in the distributions predicted for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calibration {
    /// The number of sizes in each tenth of the distribution; the numbers are equal if predictions are right. If the
    /// sizes of a route lie within a bucket, they all fall into the same tenth.
    pub deciles: [u64; DECILES],
    /// The number of sizes below the 99th percentile.
    pub below_p99: u64,
}

impl Calibration {
    /// Returns the number of sizes that were predicted.
    pub fn predicted(&self) -> u64 {
        self.deciles.iter().sum()
    }

    /// Returns the number of predicted sizes below the median.
    pub fn below_median(&self) -> u64 {
        self.deciles[..DECILES / 2].iter().sum()
    }

    fn note(&mut self, share: f64) {
        self.deciles[decile(share)] += 1;
        self.below_p99 += u64::from(share < 0.99);
    }
}

/// A route that was entered in a table.
#[derive(Debug, Clone, Copy)]
pub struct RouteKey {
    digest: Digest,
    /// The index of the route's entry, as long as the route is remembered.
    place: u32,
}

impl PartialEq for RouteKey {
    fn eq(&self, other: &RouteKey) -> bool {
        self.digest == other.digest
    }
}

/// The routes of a site or of all sites, at most [`ROUTES_MAX`].
#[derive(Debug)]
pub struct Routes {
    /// Computes the ranks of a route's jobs from its histogram.
    index: fn(&Histogram) -> Curve,
    entries: Vec<Entry>,
    /// The index in `entries` of each route.
    places: HashMap<Digest, u32>,
    /// The index at which eviction continues.
    hand: usize,
    calibration: Calibration,
}

#[derive(Debug)]
struct Entry {
    digest: Digest,
    /// The route that stands for all paths with the same site, method, status, type and coding.
    broad: RouteKey,
    /// The route's key in the times of service.
    service: ServiceRoute,
    words: String,
    uses: u8,
    histogram: Histogram,
    /// The samples since the curve was computed.
    since_curve: u32,
    curves: Option<Curves>,
    /// The ratio of a coded response's bytes to its bytes before coding.
    ratio: Ratio,
    finished: u64,
    censored: u64,
    calibration: Calibration,
}

/// The ranks of a route's jobs.
#[derive(Debug, Clone)]
struct Curves {
    plain: Arc<Curve>,
    /// The curve of coded responses, computed when first needed.
    coded: Option<Arc<Curve>>,
}

/// A summary of a route, for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// [`Route::words`].
    pub route: String,
    /// The number of complete responses since the route was entered.
    pub finished: u64,
    /// The number of responses that ended early.
    pub censored: u64,
    /// The median size of the remembered responses, in bytes, interpolated within a bucket that spans a factor of two.
    /// 0 if no response was complete.
    pub median: u64,
    pub p99: u64,
    pub calibration: Calibration,
    /// The key of the route for [`ServiceTimes::known`].
    pub service: ServiceRoute,
}

impl Routes {
    /// Creates an empty table, which ranks jobs by their Gittins index.
    pub fn new() -> Routes {
        Routes::ranked_by(gittins)
    }

    /// Creates an empty table that ranks jobs by another function of their route's sizes, for comparison.
    pub fn ranked_by(index: fn(&Histogram) -> Curve) -> Routes {
        let (places, calibration) = (HashMap::new(), Calibration::default());
        Routes { index, entries: Vec::new(), places, hand: 0, calibration }
    }

    /// Returns the key of a response's route and remembers the route from now on. If the table is full, a seldom used
    /// route is evicted. Eviction skips a route once per use, up to [`USES_MAX`] times, so routes that are used once,
    /// as by a crawler, evict only each other. Amortised O(1).
    pub fn enter(&mut self, route: &Route) -> RouteKey {
        self.enter_digest(route, route.digest())
    }

    /// Returns the key of a response's route, like [`Routes::enter`], given the route of its request.
    pub fn enter_answer(&mut self, asked: ServiceRoute, answer: &Route) -> RouteKey {
        self.enter_digest(answer, answer.digest_after(asked.own))
    }

    fn enter_digest(&mut self, route: &Route, digest: Digest) -> RouteKey {
        let known = self.places.get(&digest).map(|place| RouteKey { digest, place: *place });
        if let Some(key) = known
            && self.entry(self.entries[key.place as usize].broad).is_some()
        {
            let broad = self.entries[key.place as usize].broad;
            [broad, key].into_iter().for_each(|key| self.entries[key.place as usize].use_once());
            return key;
        }
        let broad = Route { path: ALL_PATHS, ..*route };
        let broad_key = self.enter_one(&broad, broad.digest(), None);
        self.enter_one(route, digest, Some(broad_key))
    }

    /// Enters a route; `broad` is the route of all paths, or `None` if this is that route.
    fn enter_one(&mut self, route: &Route, digest: Digest, broad: Option<RouteKey>) -> RouteKey {
        if let Some(place) = self.places.get(&digest) {
            let (key, entry) = (RouteKey { digest, place: *place }, &mut self.entries[*place as usize]);
            entry.broad = broad.unwrap_or(key);
            entry.use_once();
            return key;
        }
        let place = self.make_room();
        let key = RouteKey { digest, place: place as u32 };
        let entry = Entry::new(digest, broad.unwrap_or(key), route);
        if place == self.entries.len() {
            self.entries.push(entry);
        } else {
            self.places.remove(&self.entries[place].digest);
            self.entries[place] = entry;
        }
        self.places.insert(digest, key.place);
        key
    }

    /// Returns an index for one more entry: a new index, or that of a route without uses left.
    fn make_room(&mut self) -> usize {
        if self.entries.len() < ROUTES_MAX {
            return self.entries.len();
        }
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % ROUTES_MAX;
            let uses = &mut self.entries[place].uses;
            if *uses == 0 {
                return place;
            }
            *uses -= 1;
        }
    }

    /// Counts a complete response of this many bytes. Returns its position in the predicted distribution, from 0 to 1;
    /// `None` if there were too few samples, or the route is no longer remembered.
    pub fn note(&mut self, key: RouteKey, bytes: u64) -> Option<f64> {
        let entry = self.at(key)?;
        let (share, broad) = (entry.note(bytes), entry.broad);
        if let Some(broad) = self.at(broad).filter(|_| broad != key) {
            broad.note(bytes);
        }
        share.into_iter().for_each(|share| self.calibration.note(share));
        share
    }

    /// Counts a response that its client or upstream ended early, after `bytes` were sent; its size is larger. Does
    /// nothing if the route is no longer remembered.
    pub fn note_censored(&mut self, key: RouteKey, bytes: u64) {
        let Some(entry) = self.at(key) else { return };
        entry.note_censored(bytes);
        let broad = entry.broad;
        if let Some(broad) = self.at(broad).filter(|_| broad != key) {
            broad.note_censored(bytes);
        }
    }

    /// Returns the curve of ranks by bytes sent for this route, for [`crate::Scheduler::on_curve`]. If too little is
    /// known of the route, returns the curve of all paths with the same site, method, status, type and coding; `None`
    /// if too little is known of these as well. Jobs share a curve until enough new samples have arrived.
    pub fn curve(&mut self, key: RouteKey) -> Option<Arc<Curve>> {
        let index = self.index;
        let entry = self.at(key)?;
        let (own, broad) = (entry.curve(index), entry.broad);
        own.or_else(|| self.at(broad)?.curve(index))
    }

    /// Counts a response that was coded while it was sent, and changed its length from `plain_bytes` to `coded_bytes`.
    /// Does nothing if the route is no longer remembered. Its size must be counted separately ([`Routes::note`]).
    pub fn note_coded(&mut self, key: RouteKey, plain_bytes: u64, coded_bytes: u64) {
        let Some(entry) = self.at(key) else { return };
        entry.ratio.note(plain_bytes, coded_bytes);
        let broad = entry.broad;
        if let Some(broad) = self.at(broad).filter(|_| broad != key) {
            broad.ratio.note(plain_bytes, coded_bytes);
        }
    }

    /// Returns a curve like [`Routes::curve`], for a response that is coded while it is sent and whose length before
    /// coding may be known. If too little is known of the coding ratios, the sizes before coding are used.
    pub fn coded_curve(&mut self, key: RouteKey, plain_bytes: Option<u64>) -> Option<Arc<Curve>> {
        let entry = self.at(key)?;
        let (own, broad) = (entry.ratio, entry.broad);
        let of_all = || self.entry(broad).map(|entry| entry.ratio);
        let ratio = own.known().map(|_| own).or_else(of_all).filter(|ratio| ratio.known().is_some());
        match (ratio, plain_bytes) {
            (Some(ratio), Some(plain_bytes)) => Some(Arc::new(ratio.curve(plain_bytes))),
            (Some(ratio), None) => {
                let (index, part) = (self.index, ratio.known()?);
                let own = self.at(key)?.coded_curve(index, part);
                own.or_else(|| self.at(broad)?.coded_curve(index, part))
            }
            (None, _) => self.curve(key),
        }
    }

    /// Returns the size that this share of the route's responses (0 to 1) does not exceed; `None` if too little is
    /// known.
    pub fn quantile(&self, key: RouteKey, share: f64) -> Option<u64> {
        let entry = self.entry(key)?;
        entry.is_known().then(|| entry.histogram.quantile(share))
    }

    /// Returns the position of a size in the route's predicted distribution, from 0 to 1; `None` if too little is
    /// known.
    pub fn share_below(&self, key: RouteKey, bytes: u64) -> Option<f64> {
        let entry = self.entry(key)?;
        entry.is_known().then(|| entry.histogram.share_below(LARGER, bytes))
    }

    /// Returns the calibration over all routes since the start.
    pub fn calibration(&self) -> Calibration {
        self.calibration
    }

    /// Returns a summary of each route, in no order.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        self.entries.iter().map(Entry::row)
    }

    /// Returns summaries of the `count` routes with the most samples, most first; ties are sorted by name.
    pub fn top_rows(&self, count: usize) -> Vec<Row> {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_unstable_by(|a, b| (b.samples(), &a.words).cmp(&(a.samples(), &b.words)));
        entries.into_iter().take(count).map(Entry::row).collect()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entry of a route, if the route is remembered.
    fn at(&mut self, key: RouteKey) -> Option<&mut Entry> {
        let place = self.place_of(key)?;
        self.entries.get_mut(place)
    }

    fn entry(&self, key: RouteKey) -> Option<&Entry> {
        self.entries.get(self.place_of(key)?)
    }

    fn place_of(&self, key: RouteKey) -> Option<usize> {
        let is_there = self.entries.get(key.place as usize).is_some_and(|entry| entry.digest == key.digest);
        let place = if is_there { key.place } else { *self.places.get(&key.digest)? };
        Some(place as usize)
    }
}

impl Default for Routes {
    fn default() -> Routes {
        Routes::new()
    }
}

impl Entry {
    fn new(digest: Digest, broad: RouteKey, route: &Route) -> Entry {
        Entry {
            digest,
            broad,
            service: ServiceRoute::of(route),
            words: route.words(),
            uses: 0,
            histogram: Histogram::default(),
            since_curve: 0,
            curves: None,
            ratio: Ratio::default(),
            finished: 0,
            censored: 0,
            calibration: Calibration::default(),
        }
    }

    fn use_once(&mut self) {
        self.uses = (self.uses + 1).min(USES_MAX);
    }

    fn is_known(&self) -> bool {
        self.histogram.finished() >= SAMPLES_MIN
    }

    fn note(&mut self, bytes: u64) -> Option<f64> {
        let share = self.is_known().then(|| self.histogram.share_below(LARGER, bytes));
        share.into_iter().for_each(|share| self.calibration.note(share));
        self.histogram.note(bytes);
        self.finished += 1;
        self.since_curve += 1;
        share
    }

    fn note_censored(&mut self, bytes: u64) {
        self.histogram.note_censored(bytes);
        self.censored += 1;
        self.since_curve += 1;
    }

    fn curve(&mut self, index: fn(&Histogram) -> Curve) -> Option<Arc<Curve>> {
        Some(Arc::clone(&self.curves(index)?.plain))
    }

    /// Returns the curve of responses whose length is multiplied by `part` when they are coded.
    fn coded_curve(&mut self, index: fn(&Histogram) -> Curve, part: f64) -> Option<Arc<Curve>> {
        let curves = self.curves(index)?;
        Some(Arc::clone(curves.coded.get_or_insert_with(|| Arc::new(curves.plain.scaled(part)))))
    }

    fn curves(&mut self, index: fn(&Histogram) -> Curve) -> Option<&mut Curves> {
        let finished = self.histogram.finished();
        if finished < SAMPLES_MIN {
            return None;
        }
        if self.curves.is_none() || self.since_curve >= STALE_AFTER.max(finished / STALE_SHARE) {
            self.curves = Some(Curves { plain: Arc::new(index(&self.histogram)), coded: None });
            self.since_curve = 0;
        }
        self.curves.as_mut()
    }

    fn samples(&self) -> u64 {
        self.finished + self.censored
    }

    fn row(&self) -> Row {
        Row {
            route: self.words.clone(),
            finished: self.finished,
            censored: self.censored,
            median: self.histogram.quantile(0.5),
            p99: self.histogram.quantile(0.99),
            calibration: self.calibration,
            service: self.service,
        }
    }
}

fn decile(share: f64) -> usize {
    ((share * DECILES as f64) as usize).min(DECILES - 1)
}

#[cfg(test)]
mod tests;
