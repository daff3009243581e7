//! Repeated runs: what one run takes of another's time, over several seeds, and how sure that is.
//!
//! Seeds differ from each other by far more than servers do on one seed, so an interval around each mean would hide every difference
//! that is there. Runs of one seed had the same requests: their ratio is taken first, and the interval is that of the ratios. A ratio
//! of 2 and one of 1/2 cancel out, so it is their logarithms that are averaged.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use record::{Manifest, Run, Wire};
use serde::Serialize;
use stats::{interval_95, mean};

use crate::conditions::{apart, in_words};
use crate::{PagesSummary, ReportError, RunSummary, summarize};

mod pages;
mod text;

pub use pages::PageFactor;

/// Where the runs of one seed are from.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// What its experiment is called.
    pub experiment: &'a str,
    /// What the experiment says but for the seed: only runs of the same are repetitions of each other.
    pub settings: &'a str,
    /// Name of the point, with its seed (`rho-0.8_seed-1`); empty where nothing varies.
    pub point: &'a str,
}

/// Runs of several seeds, by everything but the seed.
#[derive(Debug, Default)]
pub struct Repeats {
    /// In order of appearance.
    groups: Vec<Group>,
}

/// What every run is to another, the losses of that other first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Factors {
    /// The run all others are divided by.
    pub over: String,
    pub rows: Vec<FactorRow>,
}

/// A run of a group, over its seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FactorRow {
    pub group: String,
    pub run: String,
    /// Of the group.
    pub seeds: usize,
    /// Seeds whose run can be used.
    pub used: usize,
    /// Those of them where the other can be used too: what the factors are of.
    pub pairs: usize,
    /// How many of those that can be used had requests of their own. A trace is the same with every seed: an interval over it is of what
    /// the machine and the programs left to chance, and says nothing of other requests.
    pub loads: usize,
    /// Mean response time, ms.
    pub mean_ms: Option<Estimate>,
    /// Mean response time over that of the packet bound.
    pub packet_bound_ratio: Option<Estimate>,
    /// Mean response time over the other's; below 1 the other loses.
    pub factor: Option<Estimate>,
    /// The same of the largest 0.5 % of requests.
    pub factor_top: Option<Estimate>,
    pub standing: Option<Standing>,
    pub standing_top: Option<Standing>,
    /// Where pages were loaded, their times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<PageFactor>,
    pub left_out: Vec<LeftOut>,
    /// What all its runs have in common, in words.
    pub conditions: String,
}

/// A mean over seeds, and the ends of its 95 % interval by Student's t; one seed has none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// What a factor says of the run that others are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    Loses,
    /// The interval includes 1.
    Open,
    Gains,
}

/// Seeds that do not count, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// `void`, `missing`.
    pub what: String,
    pub seeds: Vec<u64>,
    /// What was said of the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug)]
struct Group {
    key: Key,
    /// Every name of the experiment, in order of appearance.
    experiments: Vec<String>,
    seeds: BTreeSet<u64>,
    /// In order of appearance.
    runs: Vec<(String, BTreeMap<u64, Repeat>)>,
}

/// What the runs of a group have in common, beside length and physics, which may be each run's own.
#[derive(Debug, Clone, PartialEq)]
struct Key {
    settings: String,
    /// Without its seed.
    point: String,
    link_bps: u64,
    rho: f64,
    per_connection: u64,
    closed: Option<String>,
    wire: Wire,
}

/// What is kept of the run of one seed.
#[derive(Debug)]
struct Repeat {
    manifest: Manifest,
    /// Of instant and size of all its requests.
    load: u64,
    mean_ms: f64,
    packet_bound_ratio: f64,
    /// Of the largest 0.5 % of requests.
    top_ms: Option<f64>,
    pages: Option<PagesSummary>,
    /// What it is and why, if it may not be used.
    fault: Option<(&'static str, String)>,
}

const VOID: &str = "void";
const BEAT_WIRE_TIME: &str = "beat their wire time";
const MISSING: &str = "missing";

impl Repeats {
    /// Adds the runs of one seed, which had the same requests. If they cannot be summed up, their seed is missing.
    pub fn add(&mut self, origin: Origin, runs: &[Run]) -> Result<(), ReportError> {
        let first = &runs.first().ok_or(ReportError::NoRuns)?.manifest;
        let seed = first.seed;
        let key = Key::of(origin, first);
        let place = self.groups.iter().position(|group| group.is_of(&key, runs)).unwrap_or_else(|| {
            let (seeds, runs) = (BTreeSet::new(), vec![]);
            self.groups.push(Group { key, experiments: vec![], seeds, runs });
            self.groups.len() - 1
        });
        let group = &mut self.groups[place];
        group.seeds.insert(seed);
        if !group.experiments.iter().any(|known| known == origin.experiment) {
            group.experiments.push(origin.experiment.into());
        }
        for (run, summary) in runs.iter().zip(summarize(origin.experiment, runs)?.runs) {
            group.add(seed, Repeat::of(run, &summary))?;
        }
        Ok(())
    }

    /// Every run of any seed, in order of appearance.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = vec![];
        for (name, _) in self.groups.iter().flat_map(|group| &group.runs) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// What each run takes of this one's time; the error says which runs there are.
    pub fn over(&self, reference: &str) -> Result<Factors, String> {
        let names = self.names();
        if !names.contains(&reference) {
            return Err(format!("there is no run `{reference}`; the runs are {}", names.join(", ")));
        }
        let labels = labels(&self.groups);
        let rows = self.groups.iter().zip(&labels).enumerate().flat_map(|(place, (group, label))| {
            group.runs.iter().map(move |(name, _)| (place, group.row(label, name, reference)))
        });
        let mut rows: Vec<(usize, FactorRow)> = rows.collect();
        let factor = |row: &FactorRow| row.factor.map_or(f64::INFINITY, |factor| factor.value);
        rows.sort_by(|(place, row), (other_place, other)| {
            let first = (row.rank(reference), place).cmp(&(other.rank(reference), other_place));
            first.then(factor(row).total_cmp(&factor(other)))
        });
        Ok(Factors { over: reference.into(), rows: rows.into_iter().map(|(_, row)| row).collect() })
    }
}

impl Key {
    fn of(origin: Origin, manifest: &Manifest) -> Key {
        let seed = format!("seed-{}", manifest.seed);
        let point: Vec<&str> = origin.point.split('_').filter(|word| *word != seed).collect();
        Key {
            settings: origin.settings.into(),
            point: point.join("_"),
            link_bps: manifest.link_bps,
            rho: manifest.rho,
            per_connection: manifest.per_connection,
            closed: manifest.closed.clone(),
            wire: manifest.wire,
        }
    }
}

impl Repeat {
    fn of(run: &Run, summary: &RunSummary) -> Repeat {
        let void = summary.void.clone().map(|reason| (VOID, reason));
        Repeat {
            manifest: run.manifest.clone(),
            load: load(run),
            mean_ms: summary.response_time_ms.mean,
            packet_bound_ratio: summary.packet_bound_ratio,
            top_ms: summary.size_class_ms.p995_100,
            pages: summary.pages,
            fault: void.or_else(|| summary.not_a_wire.clone().map(|reason| (BEAT_WIRE_TIME, reason))),
        }
    }
}

/// A hash of the instants and sizes of its requests.
pub(crate) fn load(run: &Run) -> u64 {
    let mut load = DefaultHasher::new();
    run.records.iter().for_each(|record| (record.arrival_ns, record.size_bytes).hash(&mut load));
    load.finish()
}

impl Group {
    /// The first name, and how many others there are: `e-1 (+2)`.
    fn names(&self) -> String {
        match self.experiments.as_slice() {
            [] => String::new(),
            [only] => only.clone(),
            [first, others @ ..] => format!("{first} (+{})", others.len()),
        }
    }

    fn of_run(&self, name: &str) -> Option<&BTreeMap<u64, Repeat>> {
        self.runs.iter().find(|(known, _)| known == name).map(|(_, repeats)| repeats)
    }

    /// Whether these runs repeat its own, which have been as long and over the same link.
    fn is_of(&self, key: &Key, runs: &[Run]) -> bool {
        let is_like = |run: &Run| {
            let known = self.of_run(&run.manifest.name).and_then(|repeats| repeats.values().next());
            known.is_none_or(|known| apart(&known.manifest, &run.manifest).is_none())
        };
        self.key == *key && runs.iter().all(is_like)
    }

    fn add(&mut self, seed: u64, repeat: Repeat) -> Result<(), ReportError> {
        let name = repeat.manifest.name.clone();
        let place = self.runs.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            self.runs.push((name.clone(), BTreeMap::new()));
            self.runs.len() - 1
        });
        match self.runs[place].1.insert(seed, repeat) {
            Some(_) => Err(ReportError::SeedTwice { run: name, seed }),
            None => Ok(()),
        }
    }

    fn row(&self, label: &str, name: &str, reference: &str) -> FactorRow {
        let nobody = BTreeMap::new();
        let (all, base) = (self.of_run(name).unwrap_or(&nobody), self.of_run(reference).unwrap_or(&nobody));
        let mut left_out = Tallied::default();
        for seed in &self.seeds {
            match all.get(seed).map(|repeat| &repeat.fault) {
                None => left_out.add(MISSING, *seed, None),
                Some(Some((what, reason))) => left_out.add(what, *seed, Some(reason.clone())),
                Some(None) => {}
            }
        }
        let used: Vec<&Repeat> = all.values().filter(|repeat| repeat.fault.is_none()).collect();
        let pairs = if name == reference { vec![] } else { pairs(&used, base, reference, &mut left_out) };
        let tops: Vec<(f64, f64)> = pairs.iter().filter_map(|(mine, base)| mine.top_ms.zip(base.top_ms)).collect();
        let means: Vec<(f64, f64)> = pairs.iter().map(|(mine, base)| (mine.mean_ms, base.mean_ms)).collect();
        let with_pages: Vec<&PagesSummary> = used.iter().filter_map(|repeat| repeat.pages.as_ref()).collect();
        let page_pairs: Vec<_> =
            pairs.iter().filter_map(|(mine, base)| mine.pages.as_ref().zip(base.pages.as_ref())).collect();
        let (factor, factor_top) = (Estimate::of_ratios(&means), Estimate::of_ratios(&tops));
        let over_seeds = |of: fn(&Repeat) -> f64| Estimate::of(&used.iter().map(|r| of(r)).collect::<Vec<_>>());
        FactorRow {
            group: label.into(),
            run: name.into(),
            seeds: self.seeds.len(),
            used: used.len(),
            pairs: pairs.len(),
            loads: used.iter().map(|repeat| repeat.load).collect::<BTreeSet<_>>().len(),
            mean_ms: over_seeds(|repeat| repeat.mean_ms),
            packet_bound_ratio: over_seeds(|repeat| repeat.packet_bound_ratio),
            factor,
            factor_top,
            standing: factor.map(Estimate::standing),
            standing_top: factor_top.map(Estimate::standing),
            pages: pages::factors(&with_pages, &page_pairs),
            left_out: left_out.0,
            conditions: all.values().next().map_or_else(String::new, |repeat| in_words(&repeat.manifest)),
        }
    }
}

/// These runs, each with the other of its seed; those without one, or with one of other conditions, are left out.
fn pairs<'a>(
    used: &[&'a Repeat],
    base: &'a BTreeMap<u64, Repeat>,
    reference: &str,
    left_out: &mut Tallied,
) -> Vec<(&'a Repeat, &'a Repeat)> {
    let mut pairs = vec![];
    for &mine in used {
        let seed = mine.manifest.seed;
        match base.get(&seed).filter(|base| base.fault.is_none()) {
            None => left_out.add(&format!("without {reference}"), seed, None),
            Some(base) => match apart(&mine.manifest, &base.manifest) {
                Some(reason) => left_out.add(&format!("not comparable with {reference}"), seed, Some(reason)),
                None => pairs.push((mine, base)),
            },
        }
    }
    pairs
}

/// Kinds of what is left out, in order of appearance.
#[derive(Default)]
struct Tallied(Vec<LeftOut>);

impl Tallied {
    fn add(&mut self, what: &str, seed: u64, reason: Option<String>) {
        match self.0.iter_mut().find(|known| known.what == what) {
            Some(known) => known.seeds.push(seed),
            None => self.0.push(LeftOut { what: what.into(), seeds: vec![seed], reason }),
        }
    }
}

impl Estimate {
    /// `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let interval = interval_95(values);
        let end = |sign: f64| interval.map(|interval| interval.mean + sign * interval.half_width);
        mean(values).map(|value| Estimate { value, low: end(-1.0), high: end(1.0) })
    }

    /// The geometric mean of the ratios, and the interval that the mean of their logarithms has. A time of 0 has no ratio.
    pub fn of_ratios(pairs: &[(f64, f64)]) -> Option<Estimate> {
        let logs = pairs.iter().map(|(mine, base)| (mine / base).ln()).filter(|log| log.is_finite());
        let Estimate { value, low, high } = Estimate::of(&logs.collect::<Vec<f64>>())?;
        Some(Estimate { value: value.exp(), low: low.map(f64::exp), high: high.map(f64::exp) })
    }

    /// Of a factor; where there is one seed only, by its value alone.
    pub fn standing(self) -> Standing {
        let (low, high) = (self.low.unwrap_or(self.value), self.high.unwrap_or(self.value));
        match () {
            () if high < 1.0 => Standing::Loses,
            () if low > 1.0 => Standing::Gains,
            () => Standing::Open,
        }
    }
}

impl FactorRow {
    /// Losses first, those of the mean before those of the largest only; last what is divided by itself.
    fn rank(&self, reference: &str) -> (u8, Option<Standing>) {
        match (self.standing, self.standing_top) {
            _ if self.run == reference => (4, None),
            (None, _) => (3, None),
            (Some(Standing::Gains), None | Some(Standing::Gains)) => (2, None),
            (Some(Standing::Gains), top) => (1, top),
            (mean, _) => (0, mean),
        }
    }
}

/// What the groups are called: by their points, with as much more as tells them apart.
fn labels(groups: &[Group]) -> Vec<String> {
    let are_of_one = groups.windows(2).all(|pair| pair[0].key.settings == pair[1].key.settings);
    let mut labels: Vec<String> = vec![];
    for group in groups {
        let alike = groups.iter().filter(|other| {
            other.key.point == group.key.point && (are_of_one || other.experiments[0] == group.experiments[0])
        });
        let alike: Vec<&Key> = alike.map(|group| &group.key).collect();
        let Key { point, rho, link_bps, .. } = &group.key;
        let mut words = vec![];
        if !are_of_one {
            words.push(group.names());
        }
        if !point.is_empty() {
            words.push(point.clone());
        }
        if alike.iter().any(|other| other.rho != *rho) {
            words.push(format!("rho-{rho}"));
        }
        if alike.iter().any(|other| other.link_bps != *link_bps) {
            words.extend(units::Rate::from_bits_per_s(*link_bps).map(|rate| rate.to_string()));
        }
        let label = if words.is_empty() { group.names() } else { words.join(" ") };
        let is_taken = |label: &String| labels.contains(label);
        let numbered = (2..).map(|number| format!("{label} #{number}"));
        labels.extend(std::iter::once(label.clone()).chain(numbered).find(|label| !is_taken(label)));
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;

    /// 1,000 bytes take 1.3 ms alone, the largest request 3.4.
    fn of_seed(name: &str, seed: u64, small_ms: u64, large_ms: u64) -> Run {
        let mut run = run(name, &[(0, 3000, large_ms), (50, 1000, small_ms)]);
        run.manifest.seed = seed;
        run
    }

    fn add(repeats: &mut Repeats, point: &str, runs: &[Run]) {
        repeats.add(Origin { experiment: "e", settings: "", point }, runs).unwrap();
    }

    fn is(estimate: Option<Estimate>, expected: [f64; 3]) -> bool {
        let Estimate { value, low, high } = estimate.unwrap();
        let given = [value, low.unwrap(), high.unwrap()];
        given.iter().zip(expected).all(|(given, expected)| (given - expected).abs() < 1e-3 * expected.abs())
    }

    /// Ratios of 2, 4 and 8: logarithms of 1, 2 and 3 times ln 2, whose deviation is ln 2; t for 2 degrees of freedom is 4.303.
    #[test]
    fn a_factor_by_hand() {
        let factor = Estimate::of_ratios(&[(20.0, 10.0), (4.0, 1.0), (800.0, 100.0)]);
        assert!(is(factor, [4.0, 0.7148, 22.383]), "{factor:?}: 4 / and × e^(4.303 ln 2 / sqrt 3)");
        assert_eq!(factor.unwrap().standing(), Standing::Open);
        let mean = Estimate::of(&[1.0, 2.0, 6.0]);
        assert!(is(mean, [3.0, 3.0 - 4.303 * (7.0f64 / 3.0).sqrt(), 3.0 + 4.303 * (7.0f64 / 3.0).sqrt()]), "{mean:?}");
    }

    #[test]
    fn ratios_both_ways_cancel_out_and_a_time_of_nothing_has_none() {
        assert_eq!(Estimate::of_ratios(&[(2.0, 1.0), (1.0, 2.0), (0.0, 1.0), (1.0, 0.0)]).unwrap().value, 1.0);
        assert_eq!(Estimate::of_ratios(&[(0.0, 0.0)]), None);
    }

    #[test]
    fn one_seed_has_no_interval() {
        let one = |ratio| Estimate::of_ratios(&[(ratio, 1.0)]).unwrap();
        assert_eq!((one(2.0).low, one(2.0).high, one(2.0).standing()), (None, None, Standing::Gains));
        assert_eq!((one(0.5).standing(), one(1.0).standing()), (Standing::Loses, Standing::Open));
    }

    /// Between seeds times differ tenfold; between runs of a seed always by two.
    #[test]
    fn what_seeds_have_in_common_is_no_doubt() {
        let mut repeats = Repeats::default();
        for (seed, ms) in [(1, 10), (2, 100), (3, 50)] {
            let point = format!("rho-0.8_seed-{seed}");
            add(&mut repeats, &point, &[of_seed("ours", seed, ms, ms), of_seed("theirs", seed, 2 * ms, 2 * ms)]);
        }
        let rows = repeats.over("ours").unwrap().rows;
        let names: Vec<_> =
            rows.iter().map(|row| (row.group.as_str(), row.run.as_str(), row.seeds, row.pairs)).collect();
        assert_eq!(names, [("rho-0.8", "theirs", 3, 3), ("rho-0.8", "ours", 3, 0)]);
        assert!(is(rows[0].factor, [2.0, 2.0, 2.0]) && is(rows[0].factor_top, [2.0, 2.0, 2.0]), "{rows:?}");
        assert_eq!((rows[0].standing, rows[1].standing), (Some(Standing::Gains), None));
        assert_eq!(rows[0].loads, 1, "all seeds had the same requests");
        let said = "rho-0.8: all 3 seeds had the same requests";
        assert!(repeats.over("ours").unwrap().table().contains(said));
        // Of 20, 200 and 100: deviation 90.185.
        let half = 4.303 * 90.185 / 3f64.sqrt();
        assert!(is(rows[0].mean_ms, [106.667, 106.667 - half, 106.667 + half]), "{:?}", rows[0].mean_ms);
    }

    #[test]
    fn losses_come_first_those_of_the_mean_before_those_of_the_largest() {
        let mut repeats = Repeats::default();
        for (seed, ms) in [(1, 10), (2, 12), (3, 14)] {
            let runs = [
                of_seed("ours", seed, 2 * ms, 8 * ms),
                of_seed("slow", seed, 4 * ms, 16 * ms),
                of_seed("unfair", seed, 20 * ms, 4 * ms),
                of_seed("as-good", seed, if seed == 1 { 30 } else { 2 * ms }, if seed == 1 { 70 } else { 9 * ms }),
                of_seed("better", seed, ms, 7 * ms),
            ];
            add(&mut repeats, "", &runs);
        }
        let factors = repeats.over("ours").unwrap();
        let rows: Vec<_> = factors.rows.iter().map(|row| (row.run.as_str(), row.standing, row.standing_top)).collect();
        let [loses, open, gains] = [Standing::Loses, Standing::Open, Standing::Gains].map(Some);
        let expected = [
            ("better", loses, loses),
            ("as-good", open, open),
            ("unfair", gains, loses),
            ("slow", gains, gains),
            ("ours", None, None),
        ];
        assert_eq!(rows, expected);
        let table = factors.table();
        let said = |run: &str| table.lines().find(|line| line.contains(&format!("  {run}"))).unwrap().to_string();
        assert!(said("better").ends_with("mean, top") && said("as-good").ends_with("mean?, top?"), "{table}");
        assert!(said("unfair").ends_with(" top") && !said("slow").contains("mean"), "{table}");
    }

    #[test]
    fn what_does_not_count_is_counted() {
        let mut repeats = Repeats::default();
        for seed in 1..=6 {
            let mut runs = vec![of_seed("ours", seed, 10, 10), of_seed("theirs", seed, 20, 20)];
            match seed {
                1 => runs[1].manifest.void = Some("late".into()),
                2 => runs[1] = of_seed("theirs", seed, 1, 20),
                3 => runs[0].manifest.void = Some("late too".into()),
                4 | 5 => drop(runs.remove(1)),
                _ => {}
            }
            runs.iter_mut().for_each(|run| run.records[1].size_bytes += seed);
            add(&mut repeats, "", &runs);
        }
        let factors = repeats.over("ours").unwrap();
        let row = &factors.rows[0];
        assert_eq!((row.run.as_str(), row.seeds, row.used, row.pairs), ("theirs", 6, 2, 1));
        let left_out: Vec<_> = row.left_out.iter().map(|left| (left.what.as_str(), left.seeds.as_slice())).collect();
        let expected: [(&str, &[u64]); 4] =
            [("void", &[1]), ("beat their wire time", &[2]), ("missing", &[4, 5]), ("without ours", &[3])];
        assert_eq!(left_out, expected);
        assert_eq!((row.factor.unwrap().value, row.factor.unwrap().low, row.loads), (2.0, None, 2));
        let table = factors.table();
        assert!(!table.contains("the same requests"), "{table}");
        for said in ["1 of 6 seeds void (1): late", "2 of 6 seeds missing (4, 5)", "2.00 (1 seed)", " 2/6 "] {
            assert!(table.contains(said), "`{said}` is not in\n{table}");
        }
    }

    #[test]
    fn only_the_same_under_the_same_conditions_is_repeated() {
        let mut repeats = Repeats::default();
        let mut other = of_seed("ours", 2, 10, 10);
        add(&mut repeats, "seed-1", &[of_seed("ours", 1, 10, 10)]);
        other.manifest.rho = 0.95;
        add(&mut repeats, "seed-2", std::slice::from_ref(&other));
        other.manifest.seconds = 60.0;
        add(&mut repeats, "seed-2", &[other]);
        // Of another seed than its name says, it is none of the point's repetitions.
        add(&mut repeats, "seed-3", &[of_seed("ours", 4, 10, 10)]);
        let groups: Vec<String> = repeats.over("ours").unwrap().rows.into_iter().map(|row| row.group).collect();
        assert_eq!(groups, ["rho-0.8", "rho-0.95", "rho-0.95 #2", "seed-3"]);
    }

    #[test]
    fn runs_of_other_physics_are_no_pair() {
        let mut repeats = Repeats::default();
        let mut runs = [of_seed("ours", 1, 10, 10), of_seed("theirs", 1, 20, 20)];
        runs[1].manifest.environment.insert("clock".into(), "virtual".into());
        add(&mut repeats, "", &runs);
        let rows = repeats.over("ours").unwrap().rows;
        assert_eq!((rows[0].factor, rows[0].left_out[0].what.as_str()), (None, "not comparable with ours"));
    }

    #[test]
    fn mistakes_are_named() {
        let mut repeats = Repeats::default();
        let runs = [of_seed("ours", 1, 10, 10), of_seed("theirs", 1, 20, 20)];
        add(&mut repeats, "", &runs);
        assert_eq!(repeats.over("hers").unwrap_err(), "there is no run `hers`; the runs are ours, theirs");
        let twice = repeats.add(Origin { experiment: "e", settings: "", point: "" }, &runs).unwrap_err();
        assert!(twice.to_string().starts_with("run `ours` of seed 1 is there twice"), "{twice}");
        let mut unlike = [of_seed("ours", 2, 10, 10), of_seed("theirs", 2, 20, 20)];
        unlike[1].records[1].size_bytes += 1;
        assert!(repeats.add(Origin { experiment: "e", settings: "", point: "" }, &unlike).is_err());
        let rows = repeats.over("ours").unwrap().rows;
        assert_eq!((rows[0].seeds, rows[0].used, rows[0].left_out[0].what.as_str()), (2, 1, "missing"));
    }
}
