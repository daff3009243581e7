//! Metrics of an event loop's responses: their number by site, class, protocol, size and status, their times, and the
//! times that they would have had if all responses had shared the line (processor sharing).
//!
//! They are plain numbers of one thread, which another thread requests ([`crate::objectives::StatusChannel`]); those of
//! several event loops are added up. No clock is read: times are arguments.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sched::{Turns, TurnsEnded};
use units::Nanos;

/// The size classes: the maximum size of a response, including its head, and the name of the class.
pub const SIZES: [(u64, &str); 4] = [(10_000, "10KB"), (100_000, "100KB"), (1_000_000, "1MB"), (u64::MAX, "more")];
/// The upper bounds of the first buckets, in milliseconds. One more bucket is for longer times.
pub const TIMES_MS: [u64; 12] = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000];
/// The maximum number of sites that are distinguished. Further ones count as the last.
const SITES_MAX: usize = 20_000;

/// The labels by which responses are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels {
    /// An index into [`Metrics::sites`].
    pub site: u32,
    pub class: u16,
    /// The HTTP version, major and minor; there are four.
    pub protocol: (u8, u8),
    /// An index into [`SIZES`].
    pub size: u8,
    /// The first digit of the status.
    pub status: u8,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub responses: u64,
    /// The number of those responses that did not reach their end.
    pub cut: u64,
    /// The bytes sent of these responses and of those in progress, including heads.
    pub bytes: u64,
}

/// The durations of the complete responses of a size class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// A count for each of [`TIMES_MS`], and one for longer times. Each response counts in one bucket.
    pub buckets: [u64; TIMES_MS.len() + 1],
    pub total: Nanos,
    /// The number of responses whose size was known before they were sent at a pace. The next field is the total of
    /// their times. Both these times and those of turns include waits for clients, files and upstreams.
    pub compared: u64,
    pub compared_total: Nanos,
    /// The number of compared responses that would have ended by now if all had taken turns. The next field is the time
    /// that they would have taken ([`Turns`]).
    pub turns: u64,
    pub turns_total: Nanos,
}

/// A response that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub took: Nanos,
    /// The bytes sent, without those that [`Metrics::on_sent`] has already reported.
    pub sent_bytes: u64,
    pub is_whole: bool,
    /// True if the time since the request counts in the histogram.
    pub is_timed: bool,
    /// True if the response is compared with its turns ([`sched::Scheduler::compare`]).
    pub is_compared: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Metrics {
    sites: Vec<Arc<str>>,
    /// The index in `sites` of each current site.
    in_force: Vec<u32>,
    responses: BTreeMap<Labels, Count>,
    times: [Times; SIZES.len()],
}

impl Metrics {
    /// Sets the current sites. Earlier ones keep their counts.
    pub fn replace_sites<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.in_force.clear();
        // A reload of ten thousand sites must not search all of them for each.
        let mut places: HashMap<Arc<str>, usize> = self.sites.iter().cloned().zip(0..).collect();
        for name in names {
            let place = places.get(name).copied().unwrap_or_else(|| {
                if self.sites.len() < SITES_MAX {
                    self.sites.push(name.into());
                    places.insert(name.into(), self.sites.len() - 1);
                }
                self.sites.len() - 1
            });
            self.in_force.push(place as u32);
        }
    }

    /// Converts the index of a current site to its index among all sites; `u32::MAX` for no site.
    pub fn site(&self, place: Option<usize>) -> u32 {
        place.and_then(|place| self.in_force.get(place).copied()).unwrap_or(u32::MAX)
    }

    /// Returns a copy that includes the time that the compared responses would have taken in turns.
    pub fn with_turns(&self, turns: Option<&Turns>) -> Metrics {
        let mut metrics = self.clone();
        for (size, times) in (0..).zip(&mut metrics.times) {
            let TurnsEnded { responses, total } = turns.map_or_else(TurnsEnded::default, |turns| turns.ended(size));
            (times.turns, times.turns_total) = (responses, total);
        }
        metrics
    }

    /// Counts bytes of a response in progress that were sent since the last call for it.
    pub fn on_sent(&mut self, labels: Labels, bytes: u64) {
        self.responses.entry(labels).or_default().bytes += bytes;
    }

    pub fn on_end(&mut self, labels: Labels, ended: &Ended) {
        let count = self.responses.entry(labels).or_default();
        count.responses += 1;
        count.cut += u64::from(!ended.is_whole);
        count.bytes += ended.sent_bytes;
        if !ended.is_whole || !ended.is_timed {
            return;
        }
        let times = &mut self.times[usize::from(labels.size)];
        let bucket = TIMES_MS.partition_point(|longest| Nanos::from_millis(*longest) < ended.took);
        times.buckets[bucket] += 1;
        times.total += ended.took;
        if ended.is_compared {
            times.compared += 1;
            times.compared_total += ended.took;
        }
    }

    /// Adds the counts of another event loop, which must have the same sites in the same order.
    pub fn add(&mut self, other: &Metrics) {
        if other.sites.len() > self.sites.len() {
            self.sites.clone_from(&other.sites);
        }
        for (labels, theirs) in &other.responses {
            let count = self.responses.entry(*labels).or_default();
            count.responses += theirs.responses;
            count.cut += theirs.cut;
            count.bytes += theirs.bytes;
        }
        for (times, theirs) in self.times.iter_mut().zip(&other.times) {
            times.buckets.iter_mut().zip(theirs.buckets).for_each(|(bucket, more)| *bucket += more);
            times.total += theirs.total;
            times.compared += theirs.compared;
            times.compared_total += theirs.compared_total;
            times.turns += theirs.turns;
            times.turns_total += theirs.turns_total;
        }
    }

    pub fn responses(&self) -> impl Iterator<Item = (&Labels, &Count)> {
        self.responses.iter()
    }

    /// The times by size class, in the order of [`SIZES`].
    pub fn times(&self) -> &[Times; SIZES.len()] {
        &self.times
    }

    /// Returns the name of a site; empty for requests of no site.
    pub fn site_name(&self, site: u32) -> &str {
        self.sites.get(site as usize).map_or("", |name| name)
    }
}

/// Returns the name of an HTTP version in logs, metrics and `weir status`: `HTTP/1.1`.
pub fn protocol_name((major, minor): (u8, u8)) -> String {
    format!("HTTP/{major}.{minor}")
}

/// The size class of a response of `bytes`, as an index into [`SIZES`].
pub fn size_class(bytes: u64) -> u8 {
    SIZES.iter().position(|(most, _)| bytes <= *most).unwrap_or(SIZES.len() - 1) as u8
}

#[cfg(test)]
mod tests {
    use sched::{Arrival, Pace, Scheduler, Size};

    use super::*;

    fn labels(site: u32, size: u8) -> Labels {
        Labels { site, class: 0, protocol: (1, 1), size, status: 2 }
    }

    fn ended(ms: u64, is_whole: bool, is_compared: bool) -> Ended {
        Ended { took: Nanos::from_millis(ms), sent_bytes: 500, is_whole, is_timed: true, is_compared }
    }

    #[test]
    fn sizes_are_classes() {
        let classes = [0, 10_000, 10_001, 100_000, 1_000_000, 1_000_001, u64::MAX].map(size_class);
        assert_eq!(classes, [0, 0, 1, 1, 2, 3, 3]);
    }

    #[test]
    fn what_ended_counts_once_and_what_was_cut_has_no_time() {
        let mut metrics = Metrics::default();
        metrics.on_end(labels(0, 1), &ended(1, true, true));
        metrics.on_end(labels(0, 1), &ended(4, true, false));
        metrics.on_end(labels(0, 1), &ended(70, false, true));
        let (_, count) = metrics.responses().next().unwrap();
        assert_eq!(*count, Count { responses: 3, cut: 1, bytes: 1500 });
        let times = &metrics.times()[1];
        assert_eq!((times.buckets[0], times.buckets[2], times.buckets.iter().sum::<u64>()), (1, 1, 2));
        assert_eq!((times.total, times.compared), (Nanos::from_millis(5), 1));
        assert_eq!(times.compared_total, Nanos::from_millis(1));
        let (mut untimed, before) = (metrics.clone(), *times);
        untimed.on_end(labels(0, 1), &Ended { is_timed: false, ..ended(0, true, false) });
        assert_eq!((untimed.responses().next().unwrap().1.responses, &untimed.times()[1]), (4, &before));
    }

    #[test]
    fn turns_are_those_of_the_scheduler() {
        let rate = "8mbit".parse().unwrap();
        let scheduler = Scheduler::new(sched::policy::parse("srpt").unwrap(), Pace::of_line(rate));
        let (mut scheduler, ms) = (scheduler.with_turns(), Nanos::from_millis);
        for bytes in [20_000, 1_000] {
            let job = scheduler.arrive(ms(1), Arrival::of(Size::Known(bytes)));
            assert!(scheduler.compare(job, ms(1), size_class(bytes)));
        }
        let metrics = Metrics::default();
        let at = |scheduler: &mut Scheduler, until: u64| {
            for now in (1..=until).map(ms) {
                while let Some(grant) = scheduler.poll_grant(now) {
                    let _ = scheduler.on_sent(now, grant.job, grant.bytes_max);
                }
            }
            let at = until;
            metrics.with_turns(scheduler.turns(ms(at))).times().map(|times| times.turns)
        };
        assert_eq!([at(&mut scheduler, 10), at(&mut scheduler, 40)], [[1, 0, 0, 0], [1, 1, 0, 0]]);
        assert_eq!(metrics.with_turns(None).times()[0], Times::default());
    }

    #[test]
    fn the_longest_have_a_bucket_of_their_own() {
        let mut metrics = Metrics::default();
        metrics.on_end(labels(0, 0), &ended(300_000, true, false));
        metrics.on_end(labels(0, 0), &ended(300_001, true, false));
        assert_eq!(metrics.times()[0].buckets[TIMES_MS.len() - 1..], [1, 1]);
    }

    #[test]
    fn sites_keep_what_they_have_over_a_reload() {
        let mut metrics = Metrics::default();
        metrics.replace_sites(["a", "b"].into_iter());
        metrics.on_end(labels(metrics.site(Some(1)), 0), &ended(1, true, false));
        metrics.replace_sites(["b", "c"].into_iter());
        metrics.on_end(labels(metrics.site(Some(0)), 0), &ended(1, true, false));
        let counted: Vec<(&str, u64)> =
            metrics.responses().map(|(labels, count)| (metrics.site_name(labels.site), count.responses)).collect();
        assert_eq!(counted, [("b", 2)]);
        assert_eq!((metrics.site_name(metrics.site(Some(1))), metrics.site_name(metrics.site(None))), ("c", ""));
    }

    #[test]
    fn several_loops_add_up() {
        let mut one = Metrics::default();
        one.replace_sites(["a"].into_iter());
        one.on_end(labels(0, 0), &ended(1, true, true));
        let mut sum = Metrics::default();
        sum.add(&one);
        sum.add(&one);
        assert_eq!(sum.responses().next().unwrap().1.responses, 2);
        assert_eq!((sum.times()[0].compared, sum.site_name(0)), (2, "a"));
    }
}
