//! Sums up the jobs of a run in constant memory: a hundred million jobs need as much as a thousand.
//!
//! Every model passes each counted job to [`Tally::record`] once, in order of departure, and the [`Summary`] at the end
//! has the same form for all models. Spans of time are summed as integers. Percentiles come from a log-linear histogram
//! with three significant digits, so they are within 0.1 % of an observed value; the mean, the variance and the maximum
//! are exact. One run has no confidence interval, because neighbouring jobs met the same queue; an interval needs
//! several seeds.

use hdrhistogram::Histogram;
use serde::Serialize;
use stats::{GrowthBins, Moments, SpanMoments};
use units::Nanos;

/// A job that has left the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    pub size_bytes: u64,
    pub arrival: Nanos,
    pub departure: Nanos,
    /// The time of its bytes alone on the idle link, at least 1 ns. Slowdown is relative to it. In a model with the
    /// links of the Web these are head and body with packet headers, without handshake and round trips, as in the
    /// report of a measured run.
    pub alone: Nanos,
    /// The class of the customer or of the client. At most [`CLASSES_MAX`] are distinguished; the rest count in the
    /// last one.
    pub class: u16,
}

/// The number of classes with separate sums.
pub const CLASSES_MAX: usize = 16;

/// The histogram reaches from 1 ns to 2^62 ns (146 years) and clamps other values.
const HISTOGRAM_NS_MAX: u64 = 1 << 62;

/// Collects finished jobs.
#[derive(Debug, Clone)]
pub struct Tally {
    times: SpanMoments,
    slowdowns: Moments,
    histogram: Histogram<u64>,
    bins: GrowthBins,
    by_size: Vec<Group>,
    by_class: Vec<Group>,
}

/// Jobs that are summed together.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    size_bytes: u128,
    times: SpanMoments,
    slowdowns: Moments,
}

impl Tally {
    pub fn new() -> Tally {
        let bins = GrowthBins::new();
        Tally {
            times: SpanMoments::default(),
            slowdowns: Moments::default(),
            histogram: Histogram::new_with_bounds(1, HISTOGRAM_NS_MAX, 3).expect("the bounds are constants that fit"),
            by_size: vec![Group::default(); bins.count()],
            by_class: vec![Group::default(); CLASSES_MAX],
            bins,
        }
    }

    pub fn record(&mut self, job: &Finished) {
        let time = job.departure - job.arrival;
        let slowdown = time.0 as f64 / job.alone.0.max(1) as f64;
        self.times.record(time);
        self.slowdowns.record(slowdown);
        self.histogram.saturating_record(time.0);
        let bin = self.bins.bin_of(job.size_bytes);
        self.by_size[bin].record(job.size_bytes, time, slowdown);
        let class = usize::from(job.class).min(CLASSES_MAX - 1);
        self.by_class[class].record(job.size_bytes, time, slowdown);
    }

    /// The number of jobs recorded.
    pub fn jobs(&self) -> u64 {
        self.times.count()
    }

    pub fn summary(&self) -> Summary {
        let bin = |(bin, group): (usize, &Group)| SizeBin {
            from_bytes: self.bins.start(bin).unwrap_or(0),
            group: group.summary(),
        };
        Summary {
            jobs: self.times.count(),
            response_time_ms: self.response_time_ms(),
            slowdown_mean: self.slowdowns.mean().unwrap_or(0.0),
            slowdown_variance: self.slowdowns.variance().unwrap_or(0.0),
            by_size: self.by_size.iter().enumerate().filter(|(_, group)| group.jobs() > 0).map(bin).collect(),
            by_class: self.classes(),
        }
    }

    fn response_time_ms(&self) -> ResponseTimes {
        let (mean, variance) = (self.times.mean_ns().unwrap_or(0.0), self.times.variance_ns2().unwrap_or(0.0));
        let quantile = |q: f64| Nanos(self.histogram.value_at_quantile(q).min(self.times.max().0)).as_millis_f64();
        let quantile = |q: f64| if self.jobs() == 0 { 0.0 } else { quantile(q) };
        ResponseTimes {
            mean: mean / 1e6,
            variance: variance / 1e12,
            scv: if mean > 0.0 { variance / (mean * mean) } else { 0.0 },
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: self.times.max().as_millis_f64(),
        }
    }

    /// Returns the summary of each class; empty if all jobs are in class 0.
    fn classes(&self) -> Vec<ClassSummary> {
        if self.by_class[0].jobs() == self.jobs() {
            return Vec::new();
        }
        let present = self.by_class.iter().enumerate().filter(|(_, group)| group.jobs() > 0);
        present.map(|(class, group)| ClassSummary { class: class as u16, group: group.summary() }).collect()
    }
}

impl Default for Tally {
    fn default() -> Tally {
        Tally::new()
    }
}

impl Group {
    fn record(&mut self, size_bytes: u64, time: Nanos, slowdown: f64) {
        self.size_bytes += u128::from(size_bytes);
        self.times.record(time);
        self.slowdowns.record(slowdown);
    }

    fn jobs(&self) -> u64 {
        self.times.count()
    }

    fn summary(&self) -> GroupSummary {
        GroupSummary {
            jobs: self.jobs(),
            size_bytes_mean: self.size_bytes as f64 / self.jobs().max(1) as f64,
            response_time_ms_mean: self.times.mean_ns().unwrap_or(0.0) / 1e6,
            response_time_variance_ms2: self.times.variance_ns2().unwrap_or(0.0) / 1e12,
            response_time_ms_max: self.times.max().as_millis_f64(),
            slowdown_mean: self.slowdowns.mean().unwrap_or(0.0),
            slowdown_variance: self.slowdowns.variance().unwrap_or(0.0),
        }
    }
}

/// The result of a run. All figures are over the recorded jobs, and 0 without any.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub jobs: u64,
    pub response_time_ms: ResponseTimes,
    pub slowdown_mean: f64,
    pub slowdown_variance: f64,
    /// Size bins [x, 1.2 x), the same in every run, without empty ones.
    pub by_size: Vec<SizeBin>,
    /// The classes that have jobs; empty if that is only class 0.
    pub by_class: Vec<ClassSummary>,
}

/// In milliseconds, except `variance` (square milliseconds) and `scv` (variance / mean²).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ResponseTimes {
    pub mean: f64,
    pub variance: f64,
    pub scv: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// Jobs of similar size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SizeBin {
    /// The smallest size of the bin; the largest is below 1.2 times this.
    pub from_bytes: u64,
    #[serde(flatten)]
    pub group: GroupSummary,
}

/// Jobs of one class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClassSummary {
    pub class: u16,
    #[serde(flatten)]
    pub group: GroupSummary,
}

/// Jobs that were summed together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct GroupSummary {
    pub jobs: u64,
    pub size_bytes_mean: f64,
    pub response_time_ms_mean: f64,
    /// The variance in square milliseconds.
    pub response_time_variance_ms2: f64,
    pub response_time_ms_max: f64,
    pub slowdown_mean: f64,
    pub slowdown_variance: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(size_bytes: u64, response_us: u64) -> Finished {
        let (arrival, departure) = (Nanos::from_secs(1), Nanos::from_secs(1) + Nanos::from_micros(response_us));
        Finished { size_bytes, arrival, departure, alone: Nanos::from_micros(1000), class: (size_bytes > 5000) as u16 }
    }

    #[test]
    fn figures_by_hand() {
        let mut tally = Tally::new();
        (1..=1000).for_each(|n| tally.record(&job(10 * n, 1000 * n)));
        let Summary { response_time_ms: time, by_size, by_class, .. } = tally.summary();
        assert_eq!((tally.jobs(), time.mean, time.max), (1000, 500.5, 1000.0));
        assert!((time.variance - 83_333.25).abs() < 1e-6 && (time.scv - 0.332_667).abs() < 1e-6);
        for (found, exact) in [(time.p50, 500.0), (time.p90, 900.0), (time.p99, 990.0), (time.p999, 999.0)] {
            assert!((found / exact - 1.0).abs() < 1e-3, "{found} for {exact}");
        }
        assert_eq!(by_size.iter().map(|bin| bin.group.jobs).sum::<u64>(), 1000);
        let classes = by_class.iter().map(|of| (of.class, of.group.jobs, of.group.response_time_ms_mean));
        assert_eq!(classes.collect::<Vec<_>>(), [(0, 500, 250.5), (1, 500, 750.5)]);
    }

    #[test]
    fn nothing_recorded_is_zero_and_never_nan() {
        let summary = Tally::new().summary();
        assert_eq!((summary.jobs, summary.response_time_ms.p99, summary.slowdown_mean), (0, 0.0, 0.0));
        assert!(summary.by_size.is_empty());
    }
}
