//! What runs on a line whose rate has to be found say of it: times over those of a run that was told the rate, how much of the line was
//! used, and when the rate was found.

mod seen;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use record::Run;
use serde::Serialize;
use stats::{mean, nearest_rank, within_percentiles};

use crate::{Estimate, ReportError, void_reason};

pub use seen::{LineSecond, LineSeen, Notice, Pace};

/// By its name, the measurements of each seed.
type BySeed = (String, BTreeMap<u64, Measured>);

/// Runs of several seeds, by experiment and point without the seed.
#[derive(Debug, Default)]
pub struct LineRuns {
    /// In order of appearance.
    groups: Vec<(String, Vec<BySeed>)>,
}

/// What every run is to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineTable {
    /// The run all others are divided by.
    pub over: String,
    pub rows: Vec<LineRow>,
}

/// A run of a group, over its seeds. The factors are of each seed's ratio: the geometric mean, and the 95 % interval of the logarithms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineRow {
    pub group: String,
    pub run: String,
    /// Seeds that can be used, and those that cannot, with the first reason.
    pub used: usize,
    pub void: Vec<(u64, String)>,
    /// Response time, ms.
    pub ms: Figures,
    /// Response time over the other run's.
    pub factors: Figures,
    /// Bits that left the bottleneck while requests arrived, over what the line could carry.
    pub used_share: Option<Estimate>,
    /// Packets the bottleneck threw away.
    pub dropped_packets: Option<Estimate>,
    /// Seeds whose server named a rate, and when it first did, seconds.
    pub found: usize,
    pub found_s: Option<Estimate>,
    /// What others on the line say, by name of the figure.
    pub others: BTreeMap<String, Estimate>,
}

/// Of all requests the mean, and of the half with the smallest bodies the median and the 95th percentile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Figures {
    pub mean: Option<Estimate>,
    pub small_p50: Option<Estimate>,
    pub small_p95: Option<Estimate>,
}

/// What is kept of the run of one seed.
#[derive(Debug, Clone)]
struct Measured {
    times: Times,
    used_share: Option<f64>,
    dropped_packets: Option<f64>,
    found_s: Option<f64>,
    others: BTreeMap<String, f64>,
    void: Option<String>,
}

/// Response times, ms.
#[derive(Debug, Clone, Copy)]
struct Times {
    mean: f64,
    small_p50: f64,
    small_p95: f64,
}

impl LineRuns {
    /// Adds a run of a group, which is told by experiment and point; a point's seed is no part of it.
    pub fn add(&mut self, experiment: &str, point: &str, run: &Run, seen: &LineSeen) -> Result<(), ReportError> {
        let manifest = &run.manifest;
        let bad = |reason: &str| ReportError::BadRun { run: manifest.name.clone(), reason: reason.into() };
        let times = Times::of(run).ok_or_else(|| bad("it has no requests"))?;
        let seed = format!("seed-{}", manifest.seed);
        let words: Vec<&str> = point.split('_').filter(|word| !word.is_empty() && *word != seed).collect();
        let group = [experiment, &words.join("_")].join(" ").trim().to_owned();
        let number = |name: &str| manifest.environment.get(name)?.parse().ok();
        let of_others = manifest.environment.keys().filter(|name| name.starts_with("neighbour_"));
        let measured = Measured {
            times,
            used_share: seen.used_share(manifest),
            dropped_packets: number("dropped_packets"),
            found_s: seen.found_s(),
            others: of_others.filter_map(|name| Some((name["neighbour_".len()..].to_owned(), number(name)?))).collect(),
            void: void_reason(run),
        };
        let runs = entry(&mut self.groups, group);
        match entry(runs, manifest.name.clone()).insert(manifest.seed, measured) {
            Some(_) => Err(ReportError::SeedTwice { run: manifest.name.clone(), seed: manifest.seed }),
            None => Ok(()),
        }
    }

    /// What each run takes of this one's time; the error says which runs there are.
    pub fn over(&self, reference: &str) -> Result<LineTable, String> {
        let names: BTreeSet<&str> =
            self.groups.iter().flat_map(|(_, runs)| runs).map(|(name, _)| name.as_str()).collect();
        if !names.contains(reference) {
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            return Err(format!("there is no run `{reference}`; the runs are {names}"));
        }
        let rows = self.groups.iter().flat_map(|(group, runs)| {
            let base = runs.iter().find(|(name, _)| name == reference).map(|(_, base)| base);
            runs.iter().map(move |(name, seeds)| LineRow::of(group, name, seeds, base.filter(|_| name != reference)))
        });
        Ok(LineTable { over: reference.into(), rows: rows.collect() })
    }
}

fn entry<T: Default>(list: &mut Vec<(String, T)>, name: String) -> &mut T {
    let place = list.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
        list.push((name, T::default()));
        list.len() - 1
    });
    &mut list[place].1
}

impl LineRow {
    fn of(group: &str, run: &str, seeds: &BTreeMap<u64, Measured>, base: Option<&BTreeMap<u64, Measured>>) -> LineRow {
        let void = seeds.iter().filter_map(|(seed, measured)| Some((*seed, measured.void.clone()?)));
        let used: BTreeMap<u64, &Measured> =
            seeds.iter().filter(|(_, measured)| measured.void.is_none()).map(|(seed, one)| (*seed, one)).collect();
        let over_seeds = |of: &dyn Fn(&Measured) -> Option<f64>| {
            Estimate::of(&used.values().filter_map(|measured| of(measured)).collect::<Vec<_>>())
        };
        let pairs: Vec<(Times, Times)> = { used.iter() }
            .filter_map(|(seed, mine)| Some((mine.times, base?.get(seed).filter(|base| base.void.is_none())?.times)))
            .collect();
        let factor = |of: fn(&Times) -> f64| {
            Estimate::of_ratios(&pairs.iter().map(|(mine, base)| (of(mine), of(base))).collect::<Vec<_>>())
        };
        let names: BTreeSet<&String> = used.values().flat_map(|measured| measured.others.keys()).collect();
        let others = names
            .into_iter()
            .filter_map(|name| Some((name.clone(), over_seeds(&|measured| measured.others.get(name).copied())?)));
        LineRow {
            group: group.into(),
            run: run.into(),
            used: used.len(),
            void: void.collect(),
            ms: Figures {
                mean: over_seeds(&|measured| Some(measured.times.mean)),
                small_p50: over_seeds(&|measured| Some(measured.times.small_p50)),
                small_p95: over_seeds(&|measured| Some(measured.times.small_p95)),
            },
            factors: Figures {
                mean: factor(|times| times.mean),
                small_p50: factor(|times| times.small_p50),
                small_p95: factor(|times| times.small_p95),
            },
            used_share: over_seeds(&|measured| measured.used_share),
            dropped_packets: over_seeds(&|measured| measured.dropped_packets),
            found: used.values().filter(|measured| measured.found_s.is_some()).count(),
            found_s: over_seeds(&|measured| measured.found_s),
            others: others.collect(),
        }
    }
}

impl Times {
    /// `None` of a run without requests. One that did not complete counts with the time it waited.
    fn of(run: &Run) -> Option<Times> {
        let sizes: Vec<u64> = run.records.iter().map(|record| record.size_bytes).collect();
        let millis: Vec<f64> =
            run.records.iter().map(|record| record.end_ns.saturating_sub(record.arrival_ns) as f64 / 1e6).collect();
        let is_small = within_percentiles(&sizes, 0.0, 50.0);
        let mut small: Vec<f64> = millis.iter().zip(is_small).filter(|(_, small)| *small).map(|(ms, _)| *ms).collect();
        small.sort_by(f64::total_cmp);
        let percentile = |permille| nearest_rank(&small, permille);
        Some(Times { mean: mean(&millis)?, small_p50: percentile(500)?, small_p95: percentile(950)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;

    /// Two small jobs and two large ones; `auto` takes twice as long, but for the large ones.
    fn runs(seed: u64) -> [Run; 2] {
        let with = |name: &str, small_ms: u64| {
            let mut run = run(name, &[(0, 100, small_ms), (1, 200, 3 * small_ms), (2, 9000, 50), (3, 9001, 50)]);
            run.manifest.seed = seed;
            run
        };
        [with("told-right", 10 * seed), with("auto", 20 * seed)]
    }

    #[test]
    fn factors_are_taken_seed_by_seed_and_of_the_smallest_half() {
        let mut lines = LineRuns::default();
        for seed in [1, 2] {
            for run in runs(seed) {
                lines.add("e", &format!("rho-0.8_seed-{seed}"), &run, &LineSeen::default()).unwrap();
            }
        }
        let table = lines.over("told-right").unwrap();
        let [told, auto] = &table.rows[..] else { panic!("two rows: {table:?}") };
        assert_eq!((told.group.as_str(), told.used, auto.used), ("e rho-0.8", 2, 2));
        assert_eq!(told.factors, Figures::default(), "nothing is divided by itself");
        let factor = |estimate: Option<Estimate>| (estimate.unwrap().value * 1000.0).round();
        assert_eq!((factor(auto.factors.small_p50), factor(auto.factors.small_p95)), (2000.0, 2000.0));
        // 180 / 140 ms of seed 1, 260 / 180 of seed 2: the geometric mean.
        assert_eq!(factor(auto.factors.mean), 1363.0);
        assert_eq!(auto.found, 0);
        let said = lines.over("told").unwrap_err();
        assert_eq!(said, "there is no run `told`; the runs are auto, told-right");
    }

    #[test]
    fn a_void_run_is_counted_and_left_out() {
        let mut lines = LineRuns::default();
        let [told, mut auto] = runs(1);
        auto.manifest.void = Some("it fell".into());
        for run in [&told, &auto] {
            lines.add("e", "", run, &LineSeen::default()).unwrap();
        }
        let table = lines.over("told-right").unwrap();
        assert_eq!((table.rows[1].used, table.rows[1].factors.mean), (0, None));
        assert_eq!(table.rows[1].void, [(1, "it fell".to_owned())]);
        assert!(matches!(lines.add("e", "", &told, &LineSeen::default()), Err(ReportError::SeedTwice { .. })));
    }

    #[test]
    fn what_a_neighbour_had_is_kept_by_its_name() {
        let mut lines = LineRuns::default();
        let [mut told, _] = runs(1);
        told.manifest.environment.insert("neighbour_b_bytes".into(), "5000".into());
        lines.add("e", "", &told, &LineSeen::default()).unwrap();
        let others = &lines.over("told-right").unwrap().rows[0].others;
        assert_eq!(others["b_bytes"].value, 5000.0);
    }
}
