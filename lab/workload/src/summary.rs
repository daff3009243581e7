//! The contents of a log in a few numbers: count, duration, sizes, burstiness.

use std::collections::{BTreeMap, HashSet};

use units::Nanos;

use crate::Log;

#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub requests: usize,
    /// The instants of the first and the last request, as the log writes them.
    pub first: Nanos,
    pub last: Nanos,
    /// The requests per second between them; `None` for a log of one instant.
    pub rate_per_s: Option<f64>,
    /// The variance divided by the squared mean of the gaps between arrivals: 1 for Poisson, more for bursts. Whole
    /// seconds are spread first, which hides bursts shorter than a second.
    pub interarrival_scv: Option<f64>,
    /// The number of requests with each status; `None` if it is not recorded.
    pub statuses: BTreeMap<Option<u16>, usize>,
    /// The number of different clients; `None` if no request has one.
    pub clients: Option<usize>,
    /// The sizes of the requests with a body; `None` if there are none.
    pub sizes: Option<SizeSummary>,
}

/// The sizes of the requests with a body. Percentiles are by nearest rank.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeSummary {
    pub requests: usize,
    pub bytes: u64,
    pub mean_bytes: f64,
    pub min_bytes: u64,
    pub median_bytes: u64,
    pub p90_bytes: u64,
    pub p99_bytes: u64,
    pub max_bytes: u64,
    /// The smallest number of largest requests that carry half of the bytes, as a percentage of the requests: the
    /// heavier the tail, the smaller it is.
    pub half_of_bytes_pct: f64,
}

impl Summary {
    /// Summarises a log; `None` if it is empty. `seed` spreads whole seconds.
    pub fn of(log: &Log, seed: u64) -> Option<Summary> {
        let (first, last) = (log.requests.first()?.at, log.requests.last()?.at);
        let mut statuses = BTreeMap::new();
        for request in &log.requests {
            *statuses.entry(request.status).or_insert(0) += 1;
        }
        let span_s = (last - first).as_secs_f64();
        let sizes = log.requests.iter().map(|request| request.size_bytes).filter(|&size| size > 0).collect();
        let clients: HashSet<u32> = log.requests.iter().filter_map(|request| request.client).collect();
        Some(Summary {
            requests: log.requests.len(),
            first,
            last,
            rate_per_s: (span_s > 0.0).then(|| (log.requests.len() - 1) as f64 / span_s),
            interarrival_scv: interarrival_scv(log, seed),
            statuses,
            clients: (!clients.is_empty()).then_some(clients.len()),
            sizes: SizeSummary::of(sizes),
        })
    }

    pub fn span(&self) -> Nanos {
        self.last - self.first
    }
}

impl SizeSummary {
    fn of(mut sizes: Vec<u64>) -> Option<SizeSummary> {
        sizes.sort_unstable();
        let bytes: u128 = sizes.iter().map(|&size| u128::from(size)).sum();
        let rank = |per_mille: usize| sizes[(sizes.len() * per_mille).div_ceil(1000).max(1) - 1];
        Some(SizeSummary {
            requests: sizes.len(),
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            mean_bytes: bytes as f64 / sizes.len() as f64,
            min_bytes: *sizes.first()?,
            median_bytes: rank(500),
            p90_bytes: rank(900),
            p99_bytes: rank(990),
            max_bytes: *sizes.last()?,
            half_of_bytes_pct: 100.0 * carrying_half(&sizes, bytes) as f64 / sizes.len() as f64,
        })
    }
}

/// The minimum number of the largest requests that carry half of all bytes.
fn carrying_half(sorted: &[u64], bytes: u128) -> usize {
    let mut sum = 0;
    let short = sorted.iter().rev().take_while(|&&size| {
        sum += u128::from(size);
        sum * 2 < bytes
    });
    short.count() + 1
}

fn interarrival_scv(log: &Log, seed: u64) -> Option<f64> {
    let arrivals = log.trace(seed).arrivals;
    let gaps = arrivals.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs_f64());
    let (count, sum, squares) =
        gaps.fold((0.0, 0.0, 0.0), |(n, sum, squares), gap| (n + 1.0, sum + gap, squares + gap * gap));
    let mean = sum / count;
    (sum > 0.0).then(|| squares / count / (mean * mean) - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadOptions, read};

    fn summary(text: &str) -> Option<Summary> {
        Summary::of(&read(text.as_bytes(), &ReadOptions::default()).unwrap(), 1)
    }

    #[test]
    fn counted_by_hand() {
        let found = summary("0.0,10,200,5\n1.0,0,304,5\n2.0,20,200\n3.0,100,200,9\n4.0,70,\n").unwrap();
        assert_eq!((found.requests, found.span(), found.rate_per_s), (5, Nanos::from_secs(4), Some(1.0)));
        assert_eq!(found.statuses, BTreeMap::from([(None, 1), (Some(200), 3), (Some(304), 1)]));
        assert_eq!(found.clients, Some(2));
        let scv = found.interarrival_scv.unwrap();
        assert!(scv.abs() < 1e-12, "even gaps vary by nothing: {scv}");
        let sizes = found.sizes.unwrap();
        assert_eq!((sizes.requests, sizes.bytes, sizes.mean_bytes), (4, 200, 50.0));
        assert_eq!((sizes.min_bytes, sizes.median_bytes, sizes.p90_bytes, sizes.max_bytes), (10, 20, 100, 100));
        assert_eq!(sizes.half_of_bytes_pct, 25.0);
    }

    #[test]
    fn little_or_nothing() {
        assert_eq!(summary("epoch_s,size_bytes\n"), None);
        let one = summary("5,0,404\n").unwrap();
        assert_eq!((one.rate_per_s, one.interarrival_scv, one.clients, one.sizes), (None, None, None, None));
        assert_eq!(summary("5.0,9\n5.0,9\n").unwrap().interarrival_scv, None);
    }
}
