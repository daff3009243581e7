//! The figures an expectation may speak of, by name, and how each is computed from a run: the same definition for runs and for
//! the oracles, of all jobs or of those of some sizes or clients.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, de::Error as _};
use stats::{mean, nearest_rank, scv, variance};

use crate::alike::Alike;

/// What a report computes of one run, or of one run against another.
#[derive(Debug, Clone, PartialEq)]
pub enum Metric {
    /// Of the jobs' response times, times to first byte, or slowdowns.
    Of(Times, Stat),
    /// Mean response time over that of the fluid bound.
    BoundRatio,
    /// The same of the packet bound.
    PacketBoundRatio,
    /// A sum or a share over the jobs.
    Jobs(JobCount),
    /// Of the manifest: cores used by the server.
    ServerCpu,
    /// A counter of the server's side, sampled while the run went on.
    Counter(String, CounterStat),
    /// Of each request under `of` against the same under `over`.
    Pair(PairStat),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    Response,
    /// Response times of the jobs that completed, as some papers count: what did not complete is not in it.
    Completed,
    FirstByte,
    Slowdown,
    /// For each second in which requests came, the mean of their response times.
    SecondMeans,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stat {
    Mean,
    /// Nearest rank, per mille.
    Percentile(u32),
    Variance,
    Scv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobCount {
    Completed,
    Incomplete,
    IncompleteShare,
    Bytes,
    AttemptsMean,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterStat {
    Max,
    Mean,
    Last,
    /// When it was first above zero, seconds since the run began.
    FirstSeconds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairStat {
    ShareGaining,
    /// Share of requests with a starvation stretch above 1.
    ShareStarved,
    StretchMean,
    StretchMax,
    /// The papers' own measures, of requests that are alike: see [`Alike`].
    BucketShareGaining,
    BucketVarianceRatio,
    BucketScvRatio,
    FileShareStarved,
}

const NAMED: [(&str, Metric); 10] = [
    ("bound_ratio", Metric::BoundRatio),
    ("packet_bound_ratio", Metric::PacketBoundRatio),
    ("completed", Metric::Jobs(JobCount::Completed)),
    ("incomplete", Metric::Jobs(JobCount::Incomplete)),
    ("incomplete_share", Metric::Jobs(JobCount::IncompleteShare)),
    ("bytes", Metric::Jobs(JobCount::Bytes)),
    ("attempts_mean", Metric::Jobs(JobCount::AttemptsMean)),
    ("server_cpu", Metric::ServerCpu),
    ("share_gaining", Metric::Pair(PairStat::ShareGaining)),
    ("share_starved", Metric::Pair(PairStat::ShareStarved)),
];
const PAIRS: [(&str, PairStat); 6] = [
    ("stretch.mean", PairStat::StretchMean),
    ("stretch.max", PairStat::StretchMax),
    ("bucket_share_gaining", PairStat::BucketShareGaining),
    ("bucket_variance_ratio", PairStat::BucketVarianceRatio),
    ("bucket_scv_ratio", PairStat::BucketScvRatio),
    ("file_share_starved", PairStat::FileShareStarved),
];
const TIMES: [(&str, Times); 5] = [
    ("response_time_ms", Times::Response),
    ("completed_ms", Times::Completed),
    ("first_byte_ms", Times::FirstByte),
    ("slowdown", Times::Slowdown),
    ("second_means_ms", Times::SecondMeans),
];
const STATS: [(&str, Stat); 8] = [
    ("mean", Stat::Mean),
    ("p50", Stat::Percentile(500)),
    ("p90", Stat::Percentile(900)),
    ("p99", Stat::Percentile(990)),
    ("p999", Stat::Percentile(999)),
    ("max", Stat::Percentile(1000)),
    ("variance", Stat::Variance),
    ("scv", Stat::Scv),
];
const COUNTER_STATS: [(&str, CounterStat); 4] = [
    ("max", CounterStat::Max),
    ("mean", CounterStat::Mean),
    ("last", CounterStat::Last),
    ("first_s", CounterStat::FirstSeconds),
];
/// Short names of counters, and the columns of `samples.parquet` that they mean; any column may be written in full.
const SHORT_COUNTERS: [(&str, &str, CounterStat); 3] = [
    ("connections_max", "connections", CounterStat::Max),
    ("syn_drops", "listen_drops_total", CounterStat::Last),
    ("accept_drops", "listen_overflows_total", CounterStat::Last),
];

fn find<T: Clone>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
}

impl std::str::FromStr for Metric {
    type Err = String;

    fn from_str(name: &str) -> Result<Metric, String> {
        if let Some(metric) = find(&NAMED, name).or_else(|| find(&PAIRS, name).map(Metric::Pair)) {
            return Ok(metric);
        }
        if let Some((_, column, stat)) = SHORT_COUNTERS.iter().find(|(short, ..)| *short == name) {
            return Ok(Metric::Counter((*column).into(), *stat));
        }
        let whole = if name == "slowdown_mean" { "slowdown.mean" } else { name };
        let of_times = |(of, stat): (&str, &str)| Some(Metric::Of(find(&TIMES, of)?, find(&STATS, stat)?));
        let of_counter = |(of, stat): (&str, &str)| {
            Some(Metric::Counter(of.strip_prefix("samples.")?.into(), find(&COUNTER_STATS, stat)?))
        };
        let parts = || whole.rsplit_once('.');
        parts().and_then(of_times).or_else(|| parts().and_then(of_counter)).ok_or_else(|| {
            let names = |names: Vec<&str>| names.join(", ");
            format!(
                "`{name}` is nothing a report computes; there are {}, samples.COLUMN with {}, and {}, {}",
                TIMES.map(|(of, _)| format!("{of}.{{{}}}", STATS.map(|(stat, _)| stat).join("|"))).join(", "),
                names(COUNTER_STATS.map(|(stat, _)| stat).to_vec()),
                names(NAMED.iter().map(|(named, _)| *named).chain(PAIRS.map(|(named, _)| named)).collect()),
                names(SHORT_COUNTERS.map(|(short, ..)| short).to_vec()),
            )
        })
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metric, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn name<T: PartialEq>(table: &[(&'static str, T)], of: &T) -> &'static str {
            table.iter().find(|(_, value)| value == of).map_or("", |(name, _)| name)
        }
        match self {
            Metric::Of(times, stat) => write!(f, "{}.{}", name(&TIMES, times), name(&STATS, stat)),
            Metric::Pair(pair) if PAIRS.iter().any(|(_, known)| known == pair) => f.write_str(name(&PAIRS, pair)),
            Metric::Counter(column, stat) => {
                match SHORT_COUNTERS.iter().find(|(_, known, known_stat)| known == column && known_stat == stat) {
                    Some((short, ..)) => f.write_str(short),
                    None => write!(f, "samples.{column}.{}", name(&COUNTER_STATS, stat)),
                }
            }
            named => f.write_str(name(&NAMED, named)),
        }
    }
}

impl Metric {
    pub fn is_of_pairs(&self) -> bool {
        matches!(self, Metric::Pair(_))
    }
}

/// A run, or an oracle, as figures are computed of it. One entry per job everywhere.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub sizes: Vec<u64>,
    pub responses_ms: Vec<f64>,
    /// The second of the run in which each request was due; of an oracle nothing.
    pub arrivals_s: Vec<u64>,
    /// Since the request was due; of jobs that got no byte, what they waited.
    pub first_bytes_ms: Vec<f64>,
    pub slowdowns: Vec<f64>,
    pub is_complete: Vec<bool>,
    pub body_bytes: Vec<u64>,
    pub attempts: Vec<u32>,
    pub server_cpu: Option<f64>,
    pub bound_ms: f64,
    pub packet_bound_ms: f64,
    /// Nanoseconds since the run began, and value.
    pub counters: BTreeMap<String, Vec<(u64, u64)>>,
}

impl Observed {
    /// The figure over these jobs; `None` where it does not exist. For one of pairs `other` is the run compared with.
    pub fn figure(&self, metric: &Metric, chosen: &[usize], other: Option<&Observed>) -> Option<f64> {
        match metric {
            Metric::Of(times, stat) => stat.of(&self.times_of(*times, chosen)),
            Metric::BoundRatio => Some(mean(&pick(&self.responses_ms, chosen))? / self.bound_ms),
            Metric::PacketBoundRatio => Some(mean(&pick(&self.responses_ms, chosen))? / self.packet_bound_ms),
            Metric::Jobs(count) => count.of(self, chosen),
            Metric::ServerCpu => self.server_cpu,
            Metric::Counter(column, stat) => stat.of(&since_begun(column, self.counters.get(column)?)),
            Metric::Pair(pair) => {
                let of = |run: &Observed| chosen.iter().map(|&job| run.responses_ms.get(job).copied()).collect();
                let (mine_ms, base_ms): (Option<Vec<f64>>, Option<Vec<f64>>) = (of(self), of(other?));
                let (sizes, of_all) = (pick(&self.sizes, chosen), self.sizes.len());
                pair.of(&Alike { sizes: &sizes, mine_ms: &mine_ms?, base_ms: &base_ms?, of_all })
            }
        }
    }

    fn times_of(&self, times: Times, chosen: &[usize]) -> Vec<f64> {
        match times {
            Times::Response => pick(&self.responses_ms, chosen),
            Times::FirstByte => pick(&self.first_bytes_ms, chosen),
            Times::Slowdown => pick(&self.slowdowns, chosen),
            Times::SecondMeans => {
                let mut seconds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
                for (second, ms) in pick(&self.arrivals_s, chosen).into_iter().zip(pick(&self.responses_ms, chosen)) {
                    seconds.entry(second).or_default().push(ms);
                }
                seconds.values().filter_map(|of| mean(of)).collect()
            }
            Times::Completed => {
                let completed = chosen.iter().filter(|&&job| self.is_complete.get(job) == Some(&true));
                completed.filter_map(|&job| self.responses_ms.get(job).copied()).collect()
            }
        }
    }
}

/// Starvation stretch of one request; two that took no time at all are alike, and infinite is one that took none elsewhere: it
/// counts among those that take longer.
pub(crate) fn stretch(mine_ms: f64, base_ms: f64) -> f64 {
    if mine_ms == base_ms { 1.0 } else { mine_ms / base_ms }
}

/// What counts up may have counted before the run: only how much it grew is the run's.
fn since_begun(column: &str, series: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let before = series.first().filter(|_| column.ends_with("_total")).map_or(0, |(_, value)| *value);
    series.iter().map(|(at_ns, value)| (*at_ns, value.saturating_sub(before))).collect()
}

fn pick<T: Copy>(values: &[T], chosen: &[usize]) -> Vec<T> {
    chosen.iter().filter_map(|&job| values.get(job).copied()).collect()
}

impl Stat {
    pub(crate) fn of(self, values: &[f64]) -> Option<f64> {
        match self {
            Stat::Mean => mean(values),
            Stat::Variance => variance(values),
            Stat::Scv => scv(values),
            Stat::Percentile(permille) => {
                let mut ascending = values.to_vec();
                ascending.sort_unstable_by(f64::total_cmp);
                nearest_rank(&ascending, permille)
            }
        }
    }
}

impl JobCount {
    fn of(self, run: &Observed, chosen: &[usize]) -> Option<f64> {
        let complete = || pick(&run.is_complete, chosen).into_iter().filter(|is| *is).count() as f64;
        if run.is_complete.is_empty() {
            return None;
        }
        let jobs = chosen.len() as f64;
        match self {
            JobCount::Completed => Some(complete()),
            JobCount::Incomplete => Some(jobs - complete()),
            JobCount::IncompleteShare => (jobs > 0.0).then(|| 1.0 - complete() / jobs),
            JobCount::Bytes => Some(pick(&run.body_bytes, chosen).into_iter().map(|bytes| bytes as f64).sum()),
            JobCount::AttemptsMean => mean(&pick(&run.attempts, chosen).into_iter().map(f64::from).collect::<Vec<_>>()),
        }
    }
}

impl CounterStat {
    fn of(self, series: &[(u64, u64)]) -> Option<f64> {
        let values = || series.iter().map(|&(_, value)| value as f64);
        match self {
            CounterStat::Max => values().reduce(f64::max),
            CounterStat::Mean => mean(&values().collect::<Vec<_>>()),
            CounterStat::Last => values().next_back(),
            CounterStat::FirstSeconds => {
                series.iter().find(|(_, value)| *value > 0).map(|(at_ns, _)| *at_ns as f64 / 1e9)
            }
        }
    }
}

impl PairStat {
    fn of(self, alike: &Alike) -> Option<f64> {
        let pairs = alike.mine_ms.iter().zip(alike.base_ms);
        let stretches: Vec<f64> = pairs.map(|(mine, base)| stretch(*mine, *base)).collect();
        let share = |is: fn(&f64) -> bool| {
            let jobs = stretches.iter().filter(|stretch| is(stretch)).count() as f64;
            (!stretches.is_empty()).then(|| jobs / stretches.len() as f64)
        };
        match self {
            PairStat::ShareGaining => share(|stretch| *stretch < 1.0),
            PairStat::ShareStarved => share(|stretch| *stretch > 1.0),
            PairStat::BucketShareGaining => alike.share_of_buckets_gaining(),
            PairStat::BucketVarianceRatio => alike.variance_ratio(),
            PairStat::BucketScvRatio => alike.scv_ratio(),
            PairStat::FileShareStarved => alike.share_of_files_starved(),
            PairStat::StretchMean => mean(&stretches).filter(|stretch| stretch.is_finite()),
            PairStat::StretchMax => stretches.iter().copied().reduce(f64::max).filter(|stretch| stretch.is_finite()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_and_written() {
        let times = TIMES.iter().flat_map(|(of, _)| STATS.map(|(stat, _)| format!("{of}.{stat}")));
        let named = NAMED.iter().map(|(name, _)| name.to_string()).chain(PAIRS.map(|(name, _)| name.to_string()));
        let short = SHORT_COUNTERS.map(|(short, ..)| short.to_string());
        let others = ["samples.syn_queue.max".to_string(), "samples.a.first_s".to_string()];
        for name in times.chain(named).chain(short).chain(others) {
            assert_eq!(name.parse::<Metric>().unwrap().to_string(), name);
        }
        assert_eq!("slowdown_mean".parse::<Metric>().unwrap().to_string(), "slowdown.mean");
        for wrong in ["", "mean", "response_time_ms", "samples..", "samples.a.p99", "slowdown.men"] {
            assert!(wrong.parse::<Metric>().unwrap_err().contains("is nothing a report computes"), "{wrong}");
        }
    }

    fn figure(name: &str, run: &Observed, other: Option<&Observed>) -> Option<f64> {
        let all: Vec<usize> = (0..run.responses_ms.len()).collect();
        run.figure(&name.parse().unwrap(), &all, other)
    }

    #[test]
    fn figures_by_hand() {
        let base = Observed { responses_ms: vec![4.0, 4.0, 2.0, 0.0], ..Observed::default() };
        let run = Observed {
            responses_ms: vec![1.0, 4.0, 5.0, 0.0],
            first_bytes_ms: vec![1.0, 2.0, 3.0, 0.0],
            slowdowns: vec![2.0; 4],
            is_complete: vec![true, false, true, true],
            body_bytes: vec![10, 0, 10, 20],
            attempts: vec![1, 3, 1, 1],
            server_cpu: Some(0.25),
            counters: BTreeMap::from([
                ("connections".into(), vec![(0, 0), (2_000_000_000, 7), (3_000_000_000, 5)]),
                ("listen_drops_total".into(), vec![(0, 3), (1_000_000_000, 3), (4_000_000_000, 13)]),
            ]),
            ..Observed::default()
        };
        for (name, value) in [
            ("response_time_ms.mean", 2.5),
            ("response_time_ms.p50", 1.0),
            ("response_time_ms.max", 5.0),
            ("response_time_ms.variance", 4.25),
            ("first_byte_ms.mean", 1.5),
            ("slowdown_mean", 2.0),
            ("completed", 3.0),
            ("incomplete_share", 0.25),
            ("bytes", 40.0),
            ("attempts_mean", 1.5),
            ("server_cpu", 0.25),
            ("connections_max", 7.0),
            ("samples.connections.mean", 4.0),
            ("samples.connections.last", 5.0),
            ("samples.connections.first_s", 2.0),
            ("syn_drops", 10.0),
            ("samples.listen_drops_total.first_s", 4.0),
            ("share_gaining", 0.25),
            ("share_starved", 0.25),
            ("stretch.max", 2.5),
            ("stretch.mean", (0.25 + 1.0 + 2.5 + 1.0) / 4.0),
        ] {
            assert_eq!(figure(name, &run, Some(&base)), Some(value), "{name}");
        }
        assert_eq!(figure("accept_drops", &run, None), None, "nobody counted");
        assert_eq!(figure("share_gaining", &run, None), None, "nothing to compare with");
        assert_eq!(figure("completed", &base, None), None, "an oracle completes nothing");
    }

    #[test]
    fn each_second_of_arrivals_has_a_mean() {
        let run = Observed { responses_ms: vec![1.0, 5.0, 9.0], arrivals_s: vec![0, 0, 3], ..Observed::default() };
        let found = ["max", "p50", "mean"].map(|stat| figure(&format!("second_means_ms.{stat}"), &run, None));
        assert_eq!(found, [Some(9.0), Some(3.0), Some(6.0)]);
    }

    #[test]
    fn each_bound_has_its_ratio() {
        let run = Observed { responses_ms: vec![6.0], bound_ms: 2.0, packet_bound_ms: 4.0, ..Observed::default() };
        assert_eq!(["bound_ratio", "packet_bound_ratio"].map(|name| figure(name, &run, None)), [Some(3.0), Some(1.5)]);
    }

    #[test]
    fn the_papers_own_measures_by_hand() {
        let of = |responses_ms: [f64; 4]| Observed {
            sizes: vec![10, 10, 20, 30],
            responses_ms: responses_ms.into(),
            is_complete: vec![true, true, true, false],
            ..Observed::default()
        };
        // The file of 10 bytes takes 6 instead of 8 in two requests, though one of them waits longer.
        let (base, run) = (of([2.0, 6.0, 4.0, 8.0]), of([3.0, 3.0, 2.0, 9.0]));
        let found = |name: &str| figure(name, &run, Some(&base));
        assert_eq!((found("share_starved"), found("file_share_starved")), (Some(0.5), Some(0.25)));
        assert_eq!((found("completed_ms.mean"), found("completed_ms.max")), (Some(8.0 / 3.0), Some(3.0)));
        assert_eq!(found("bucket_share_gaining"), Some(0.5), "four requests are four buckets");
    }

    /// It took no time under the baseline, and now does: its stretch is infinite, and it does not gain.
    #[test]
    fn an_infinite_stretch_counts_as_a_loss() {
        let of = |responses_ms: [f64; 2]| Observed { responses_ms: responses_ms.into(), ..Observed::default() };
        let (base, run) = (of([0.0, 4.0]), of([7.0, 4.0]));
        assert_eq!(figure("share_starved", &run, Some(&base)), Some(0.5));
        assert_eq!((figure("stretch.max", &run, Some(&base)), figure("stretch.mean", &run, Some(&base))), (None, None));
    }
}
