//! The plots of one point of an experiment: what its runs did to which requests, and when.

use std::collections::BTreeMap;

use stats::{Bin, growth_bins, nearest_rank, percentile_buckets};

use crate::axis::Scale::{Linear, Log, Nines};
use crate::claim::BOUND;
use crate::metric::{Observed, stretch};
use crate::plot::{Line, Look, Plot, Point, Unit, log_steps};

/// How finely plots are drawn: a page has room for a few hundred thousand numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolution {
    /// Equal shares of the requests by size.
    pub buckets: u32,
    /// Points of a distribution.
    pub steps: usize,
    /// Windows of time, each at least a second.
    pub windows: usize,
}

impl Resolution {
    /// For so many runs on one page, so that it stays below about 1.5 MB.
    pub fn for_runs(runs: usize) -> Resolution {
        match runs {
            0..=40 => Resolution { buckets: stats::PERCENTILE_BUCKETS, steps: 200, windows: 400 },
            41..=100 => Resolution { buckets: 100, steps: 100, windows: 150 },
            _ => Resolution { buckets: 50, steps: 50, windows: 75 },
        }
    }
}

/// Of runs so short that a bucket would hold fewer requests than this there are fewer buckets: a mean of five is noise.
const BUCKET_JOBS: usize = 20;
const BUCKETS_MIN: u32 = 20;

/// A run, or an oracle, to be drawn.
pub(crate) struct Drawn<'a> {
    pub name: String,
    /// Which run of its experiment; `None` for an oracle.
    pub run: Option<usize>,
    pub is_void: bool,
    pub observed: &'a Observed,
    /// One per job.
    pub sizes: &'a [u64],
    /// Of the runs drawn, the one it is compared with, by position; none for that one itself, and where requests differ.
    pub baseline: Option<usize>,
}

/// What all runs of a point share.
pub(crate) struct Scene<'a> {
    pub drawn: &'a [Drawn<'a>],
    /// When each job was due, nanoseconds since the run began; one list per run drawn.
    pub arrivals_ns: &'a [&'a [u64]],
    /// How long requests arrived.
    pub seconds: f64,
    /// When the load was above 1, seconds.
    pub overload: &'a [[f64; 2]],
    pub resolution: Resolution,
}

impl Drawn<'_> {
    fn line(&self, ys: Vec<Option<f64>>) -> Line {
        let look = match self.run {
            Some(_) => Look::Measured,
            None if self.name == BOUND => Look::Dotted,
            None => Look::Dashed,
        };
        Line { run: self.run, is_void: self.is_void, ys, ..Line::new(self.name.as_str(), look) }
    }
}

impl Scene<'_> {
    /// Every plot that has something to show.
    pub fn plots(&self) -> Vec<Plot> {
        let of_sizes = self.by_size().into_iter().chain(self.by_percentile());
        let of_times = [self.ccdf(), self.stretches()].into_iter().chain(self.over_time());
        of_sizes.chain(of_times).chain(self.counters()).filter(|plot| !plot.is_empty()).collect()
    }

    /// Bins [x, 1.2 x) as in 000, figure 5. They begin at the smallest size, so runs of other jobs may have others; each
    /// line then has values at its own sizes only.
    fn by_size(&self) -> [Plot; 2] {
        let plot = |id, title, (y, unit): (&str, Unit), of: fn(&Observed) -> &[f64]| {
            let points = |drawn: &Drawn| {
                let bins = growth_bins(drawn.sizes, of(drawn.observed)).into_iter();
                bins.map(|bin| Point::exact(bin.size_bytes_mean, bin.value_mean)).collect()
            };
            let lines = self.drawn.iter().map(|drawn| (drawn.line(vec![]), points(drawn))).collect();
            let note = "mean over the requests in each bin of sizes [x, 1.2 x)".into();
            let plot = Plot::new(id, title, ("size of the response", Log, Unit::Bytes), (y, Log, unit));
            Plot { note, ..plot.with_points(lines) }
        };
        [
            plot("by-size", "Response time by size", ("mean response time", Unit::Millis), responses),
            plot("slowdown-by-size", "Slowdown by size", ("mean slowdown", Unit::Number), slowdowns_of),
        ]
    }

    fn by_percentile(&self) -> [Plot; 4] {
        let jobs = self.drawn.iter().map(|drawn| drawn.sizes.len()).min().unwrap_or(0);
        let buckets = self.resolution.buckets.min((jobs / BUCKET_JOBS) as u32).max(BUCKETS_MIN);
        let of_all = |of: fn(&Observed) -> &[f64]| -> Vec<Vec<Option<Bin>>> {
            self.drawn.iter().map(|drawn| percentile_buckets(drawn.sizes, of(drawn.observed), buckets)).collect()
        };
        let (times, slowdowns) = (of_all(responses), of_all(slowdowns_of));
        type Kind<'a> = (&'a [Vec<Option<Bin>>], fn(&Bin) -> f64, &'static str, &'static str, &'static str, Unit);
        let kinds: [Kind; 4] = [
            (&times, |bin| bin.value_mean, "by-percentile", "Response time", "mean response time", Unit::Millis),
            (&slowdowns, |bin| bin.value_mean, "slowdown-by-percentile", "Slowdown", "mean slowdown", Unit::Number),
            (&times, |bin| bin.value_variance, "variance", "Variance of response time", "variance, ms²", Unit::Number),
            (&times, scv_of, "scv", "SCV of response time", "variance / mean²", Unit::Number),
        ];
        kinds.map(|(bins, value, id, title, y, unit)| {
            let title = format!("{title} by percentile of size");
            let mut plot = Plot::new(id, title, ("percentile of size", Nines, Unit::Percent), (y, Log, unit));
            plot.note = format!("each point is {} % of the requests, by size", 100.0 / f64::from(buckets));
            plot.xs = (0..buckets).map(|bucket| (f64::from(bucket) + 0.5) / f64::from(buckets)).collect();
            let line = |(drawn, bins): (&Drawn, &Vec<Option<Bin>>)| {
                drawn.line(bins.iter().map(|bin| bin.as_ref().map(value)).collect())
            };
            plot.lines = self.drawn.iter().zip(bins).map(line).collect();
            plot
        })
    }

    fn ccdf(&self) -> Plot {
        let mut plot = Plot::new(
            "ccdf",
            "Share of requests that take longer (CCDF)",
            ("response time", Log, Unit::Millis),
            ("share of requests that take longer", Log, Unit::Percent),
        );
        plot.note = "every request counts, one that did not complete with the time it waited".into();
        let sorted: Vec<Vec<f64>> = self.drawn.iter().map(|drawn| ascending(&drawn.observed.responses_ms)).collect();
        let positive = |values: &Vec<f64>| values.iter().copied().find(|value| *value > 0.0);
        let low = sorted.iter().filter_map(positive).fold(f64::MAX, f64::min);
        let high = sorted.iter().filter_map(|values| values.last().copied()).fold(0.0, f64::max);
        plot.xs = log_steps(low.min(high), high, self.resolution.steps);
        let share = |values: &[f64], x: f64| {
            let above = values.len() - values.partition_point(|value| *value <= x);
            (above > 0).then(|| above as f64 / values.len() as f64)
        };
        let line =
            |(drawn, values): (&Drawn, &Vec<f64>)| drawn.line(plot.xs.iter().map(|x| share(values, *x)).collect());
        plot.lines = self.drawn.iter().zip(&sorted).map(line).collect();
        plot
    }

    /// Every request against the same request under the run compared with, in ascending order.
    fn stretches(&self) -> Plot {
        let mut plot = Plot::new(
            "stretch",
            "Starvation stretch of each request",
            ("share of requests, by stretch", Nines, Unit::Percent),
            ("response time / baseline's", Log, Unit::Number),
        );
        plot.note = "above 1 a request takes longer than under the run it is compared with".into();
        // Finer towards the top, where the losers are: as many steps as three nines have room for.
        let steps = self.resolution.steps;
        plot.xs = (0..steps).map(|step| 1.0 - 10f64.powf(-3.5 * (step as f64 + 0.5) / steps as f64)).collect();
        for drawn in self.drawn {
            let Some(base) = drawn.baseline.map(|base| &self.drawn[base].observed.responses_ms) else { continue };
            let pairs = drawn.observed.responses_ms.iter().zip(base);
            let sorted = ascending(&pairs.map(|(mine, base)| stretch(*mine, *base)).collect::<Vec<_>>());
            // The nearest rank, as everywhere.
            let rank = |x: &f64| ((sorted.len() as f64 * x).ceil() as usize).clamp(1, sorted.len().max(1));
            let at = |x: &f64| sorted.get(rank(x) - 1).copied();
            plot.lines.push(drawn.line(plot.xs.iter().map(at).collect()));
        }
        plot
    }

    fn over_time(&self) -> [Plot; 2] {
        let x = ("when the request was due, seconds", Linear, Unit::Number);
        let plots = [
            Plot::new("time", "Response time over time", x, ("mean response time", Log, Unit::Millis)),
            Plot::new("first-byte", "Time to first byte over time", x, ("mean time to first byte", Log, Unit::Millis)),
        ];
        let window_s = self.window_s();
        let windows = (self.seconds / window_s).ceil() as usize;
        let mut values = [responses as fn(&Observed) -> &[f64], |observed| &observed.first_bytes_ms].into_iter();
        plots.map(|mut plot| {
            plot.note = format!("mean over the requests due in each window of {window_s} s");
            plot.shaded = self.overload.to_vec();
            plot.xs = (0..windows).map(|window| (window as f64 + 0.5) * window_s).collect();
            if let Some(of) = values.next() {
                let means = |(drawn, arrivals): (&Drawn, &&[u64])| {
                    drawn.line(window_means(of(drawn.observed), arrivals, window_s, windows))
                };
                plot.lines = self.drawn.iter().zip(self.arrivals_ns).map(means).collect();
            }
            plot
        })
    }

    /// Counters of the server's side, the largest value in each window; of what counts up, how much it grew.
    fn counters(&self) -> Vec<Plot> {
        let wanted: [(&str, &str, &'static str, &'static str); 4] = [
            ("connections", "connections", "connections", "Connections over time"),
            ("listen_drops_total", "dropped in the window", "syn-drops", "SYNs dropped over time"),
            (
                "listen_overflows_total",
                "dropped in the window",
                "accept-drops",
                "Drops for a full accept queue over time",
            ),
            ("link_backlog_packets", "packets", "backlog", "Packets waiting at the bottleneck over time"),
        ];
        let window_s = self.window_s();
        let last_ns = self.drawn.iter().flat_map(|drawn| drawn.observed.counters.values());
        let last_ns = last_ns.filter_map(|series| series.last()).map(|(at, _)| *at).max().unwrap_or(0);
        let windows = (last_ns as f64 / 1e9 / window_s).floor() as usize + 1;
        let plot = |(column, y, id, title): (&str, &str, &'static str, &'static str)| {
            let x = ("seconds since the run began", Linear, Unit::Number);
            let mut plot = Plot::new(id, title, x, (y, Linear, Unit::Number));
            let counts_up = column.ends_with("_total");
            let what = if counts_up { "how many" } else { "the largest number" };
            plot.note = format!("{what} in each window of {window_s} s");
            plot.shaded = self.overload.to_vec();
            plot.xs = (0..windows).map(|window| (window as f64 + 0.5) * window_s).collect();
            for drawn in self.drawn {
                let Some(series) = drawn.observed.counters.get(column) else { continue };
                let ys = in_windows(series, counts_up, window_s, windows);
                plot.lines.push(drawn.line(ys));
            }
            plot
        };
        // That nothing was dropped the table of runs says.
        let tells = |plot: &Plot| {
            !plot.id.ends_with("-drops") || plot.lines.iter().flat_map(|line| &line.ys).flatten().any(|y| *y > 0.0)
        };
        wanted.map(plot).into_iter().filter(tells).collect()
    }

    /// Whole seconds, and so many that there are not too many windows.
    fn window_s(&self) -> f64 {
        (self.seconds / self.resolution.windows as f64).ceil().max(1.0)
    }
}

fn scv_of(bin: &Bin) -> f64 {
    if bin.value_mean > 0.0 { bin.value_variance / bin.value_mean.powi(2) } else { f64::NAN }
}

fn responses(observed: &Observed) -> &[f64] {
    &observed.responses_ms
}

fn slowdowns_of(observed: &Observed) -> &[f64] {
    &observed.slowdowns
}

fn ascending(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The mean of the values that arrived in each window; an oracle's jobs arrive as the run's do.
fn window_means(values: &[f64], arrivals_ns: &[u64], window_s: f64, windows: usize) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0u64); windows];
    for (value, arrival) in values.iter().zip(arrivals_ns) {
        let window = (*arrival as f64 / 1e9 / window_s) as usize;
        if let Some((sum, count)) = sums.get_mut(window) {
            (*sum, *count) = (*sum + value, *count + 1);
        }
    }
    sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / count as f64)).collect()
}

fn in_windows(series: &[(u64, u64)], counts_up: bool, window_s: f64, windows: usize) -> Vec<Option<f64>> {
    let mut most: BTreeMap<usize, u64> = BTreeMap::new();
    for (at_ns, value) in series {
        let window = (*at_ns as f64 / 1e9 / window_s) as usize;
        most.entry(window).and_modify(|most| *most = (*most).max(*value)).or_insert(*value);
    }
    let mut before = series.first().map_or(0, |(_, value)| *value);
    let value = |window| {
        let most = *most.get(&window)?;
        let grown = most.saturating_sub(before);
        before = most;
        Some(if counts_up { grown } else { most } as f64)
    };
    (0..windows).map(value).collect()
}

/// The median, 99th percentile and largest of stretches, for tables.
pub(crate) fn stretch_percentiles(stretches: &[f64]) -> Option<[f64; 3]> {
    let sorted = ascending(stretches);
    Some([nearest_rank(&sorted, 500)?, nearest_rank(&sorted, 990)?, nearest_rank(&sorted, 1000)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_what_arrived_in_them() {
        let arrivals = [0, 900_000_000, 1_000_000_000, 3_999_999_999, 4_000_000_000];
        let means = window_means(&[1.0, 3.0, 7.0, 9.0, 100.0], &arrivals, 1.0, 4);
        assert_eq!(means, [Some(2.0), Some(7.0), None, Some(9.0)], "what comes after the last window is left out");
    }

    #[test]
    fn counters_in_windows() {
        let s = 1_000_000_000;
        let series = [(0, 5), (s / 2, 9), (s, 9), (2 * s, 12), (4 * s, 12)];
        assert_eq!(in_windows(&series, true, 1.0, 5), [Some(4.0), Some(0.0), Some(3.0), None, Some(0.0)]);
        assert_eq!(in_windows(&series, false, 1.0, 3), [Some(9.0), Some(9.0), Some(12.0)]);
    }

    #[test]
    fn by_hand() {
        let observed = |scale: f64| Observed {
            responses_ms: (1..=400).map(|job| scale * f64::from(job)).collect(),
            first_bytes_ms: vec![1.0; 400],
            slowdowns: vec![2.0; 400],
            ..Observed::default()
        };
        let (base, fast) = (observed(1.0), observed(0.5));
        let sizes: Vec<u64> = (100..500).collect();
        let arrivals: Vec<u64> = (0..400).map(|job| job * 10_000_000).collect();
        let drawn = |name: &str, observed, run, baseline| Drawn {
            name: name.into(),
            run: Some(run),
            is_void: false,
            observed,
            sizes: &sizes,
            baseline,
        };
        let drawn = [drawn("base", &base, 0, None), drawn("fast", &fast, 1, Some(0))];
        let resolution = Resolution { buckets: 200, steps: 50, windows: 400 };
        let overload = [[1.0, 2.0]];
        let scene = Scene {
            drawn: &drawn,
            arrivals_ns: &[&arrivals, &arrivals],
            seconds: 4.0,
            overload: &overload,
            resolution,
        };
        let plots = scene.plots();
        let plot = |id: &str| plots.iter().find(|plot| plot.id == id).unwrap();
        assert!(plots.iter().all(|plot| plot.lines.iter().all(|line| line.ys.len() == plot.xs.len())));
        assert!(plots.iter().all(|plot| plot.id != "connections"), "nobody counted");
        assert_eq!(plot("by-percentile").lines[0].ys[..2], [Some(10.5), Some(30.5)], "20 buckets of 400 requests");
        assert_eq!(plot("variance").lines[1].ys[0], Some(33.25 / 4.0));
        assert_eq!((plot("time").xs.len(), plot("time").lines[0].ys[0]), (4, Some(50.5)));
        assert_eq!(plot("time").shaded, overload);
        let stretch = &plot("stretch").lines;
        assert!(stretch.len() == 1 && stretch[0].ys.iter().all(|y| *y == Some(0.5)));
        let ccdf = plot("ccdf");
        assert_eq!((ccdf.xs[0], *ccdf.xs.last().unwrap()), (0.5, 400.0));
        assert_eq!((ccdf.lines[0].ys[0], *ccdf.lines[0].ys.last().unwrap()), (Some(1.0), None));
        assert_eq!(ccdf.lines[1].ys[0], Some(399.0 / 400.0));
    }
}
