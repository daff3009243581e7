//! From a claim and two runs to a verdict, with the figure found and how sure it is.

use stats::{BATCHES, batch, jackknife};

use crate::claim::{Expect, Larger};
use crate::factors::Estimate;
use crate::metric::{Metric, Observed, PairStat, Stat};

/// Traces with requests of their own that a verdict needs. An interval over two or three is so wide that it decides nothing, or
/// so narrow by chance that it decides wrongly.
pub const TRACES_MIN: usize = 5;

/// The verdict on a claim, from the best to the worst. The interval over traces decides, and never the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The whole interval lies where the claim has the figure.
    Reproduced,
    /// The whole interval lies beyond the end of the claim at which the effect is larger. That is no merit: baselines differ.
    Larger,
    /// The whole interval lies outside of the claim.
    Refuted,
    /// The interval includes an end of the claim, or there are too few traces for one.
    Undecided,
    /// What would be compared was not made under the same conditions, or the claim does not say its size.
    NotComparable,
    /// A run it needs was not made or did not measure it.
    NotMeasured,
    /// A run it needs may not be used.
    Void,
}

impl Verdict {
    pub const ALL: [Verdict; 7] = [
        Verdict::Reproduced,
        Verdict::Larger,
        Verdict::Refuted,
        Verdict::Undecided,
        Verdict::NotComparable,
        Verdict::NotMeasured,
        Verdict::Void,
    ];

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Larger => "larger",
            Verdict::Refuted => "refuted",
            Verdict::Undecided => "undecided",
            Verdict::NotComparable => "not comparable",
            Verdict::NotMeasured => "not measured",
            Verdict::Void => "void",
        }
    }

    /// For filters and style sheets.
    pub fn key(self) -> &'static str {
        match self {
            Verdict::NotComparable => "not-comparable",
            Verdict::NotMeasured => "not-measured",
            other => other.text(),
        }
    }

    /// Returns true if its figure was found and may be pooled with those of other traces.
    pub(crate) fn is_judged(self) -> bool {
        self.is_decided() || self == Verdict::Undecided
    }

    /// Returns true if the interval decides.
    pub fn is_decided(self) -> bool {
        matches!(self, Verdict::Reproduced | Verdict::Larger | Verdict::Refuted)
    }
}

/// What became of a figure: how many of its claims hold, what became of the others, and which fails worst. One word for all of
/// them would be untrue of most.
#[derive(Debug, Clone, PartialEq)]
pub struct Tally<'a> {
    /// In the order of [`Verdict::ALL`].
    counts: [usize; Verdict::ALL.len()],
    /// Of the claims that were measured and do not hold, the one that is missed by most.
    pub worst: Option<&'a Finding>,
}

impl<'a> Tally<'a> {
    pub fn of(findings: &'a [Finding]) -> Tally<'a> {
        let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
        let fails = |finding: &&Finding| finding.verdict == Verdict::Refuted;
        let by_miss = |one: &&Finding, other: &&Finding| {
            one.miss().total_cmp(&other.miss()).then(one.value().total_cmp(&other.value()))
        };
        Tally { counts: Verdict::ALL.map(count), worst: findings.iter().filter(fails).max_by(by_miss) }
    }

    fn count(&self, verdict: Verdict) -> usize {
        Verdict::ALL.into_iter().zip(self.counts).find(|(of, _)| *of == verdict).map_or(0, |(_, count)| count)
    }

    /// `4 of 6 claims reproduced`; void and unmeasured ones are among the six.
    pub fn text(&self) -> String {
        match self.counts.iter().sum::<usize>() {
            0 => "no claim to check".into(),
            1 => format!("{} of 1 claim reproduced", self.count(Verdict::Reproduced)),
            claims => format!("{} of {claims} claims reproduced", self.count(Verdict::Reproduced)),
        }
    }

    /// The counts of the others: `1 larger, 1 void`; empty if all were reproduced.
    pub fn others(&self) -> String {
        let others = Verdict::ALL.into_iter().zip(self.counts).filter(|(of, n)| *of != Verdict::Reproduced && *n > 0);
        others.map(|(verdict, count)| format!("{count} {}", verdict.text())).collect::<Vec<_>>().join(", ")
    }

    /// For style sheets: the verdict that all claims share, else `partly`.
    pub fn key(&self) -> &'static str {
        let mut shared = Verdict::ALL.into_iter().zip(self.counts).filter(|(_, count)| *count > 0);
        match (shared.next(), shared.next()) {
            (Some((verdict, _)), None) => verdict.key(),
            (Some(_), Some(_)) => "partly",
            (None, _) => Verdict::NotMeasured.key(),
        }
    }
}

/// A figure, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    pub value: f64,
    /// Half of the 95 % interval that the batches of a single run have. It says nothing about other requests, so it decides nothing.
    pub half_width: Option<f64>,
    /// Over traces with requests of their own.
    pub over: Option<Over>,
}

/// The interval of a figure over traces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Over {
    pub traces: usize,
    /// The ends; none where there are fewer than two.
    pub ends: Option<[f64; 2]>,
}

impl Found {
    pub fn exact(value: f64) -> Found {
        Found::of_run(value, None)
    }

    /// The figure of one run, or of a simulation that gives half of its interval and no more.
    pub fn of_run(value: f64, half_width: Option<f64>) -> Found {
        Found { value, half_width, over: None }
    }

    /// The mean of several seeds with half of its interval.
    pub fn of_seeds(value: f64, half_width: Option<f64>, traces: usize) -> Found {
        let ends = half_width.map(|half| [value - half, value + half]);
        Found { value, half_width: None, over: Some(Over { traces, ends }) }
    }

    /// Pools paired figures, one of each trace. The mean of ratios is geometric, and its interval is that of their logarithms (Student's t):
    /// a ratio of 2 and one of 1/2 cancel out. A share or a count, and a ratio of nothing, has no logarithm.
    pub fn pooled(values: &[f64], is_ratio: bool) -> Option<Found> {
        let are_ratios = is_ratio && values.iter().all(|value| *value > 0.0);
        let ones: Vec<(f64, f64)> = values.iter().map(|value| (*value, 1.0)).collect();
        let Estimate { value, low, high } =
            if are_ratios { Estimate::of_ratios(&ones)? } else { Estimate::of(values)? };
        Some(Found {
            value,
            half_width: None,
            over: Some(Over { traces: values.len(), ends: low.zip(high).map(|(low, high)| [low, high]) }),
        })
    }
}

/// What was found of one expectation at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub expect: Expect,
    /// Folder of the point; empty where the experiment has one only.
    pub point: String,
    pub found: Option<Found>,
    /// The same figure with the clairvoyant bound in the place of the run that is claimed to be better.
    pub bound: Option<f64>,
    pub verdict: Verdict,
    /// What the figures do not say.
    pub remark: Option<String>,
    /// Which requests it is of: another number, other requests.
    pub load: u64,
}

impl Finding {
    fn value(&self) -> f64 {
        self.found.map_or(0.0, |found| found.value)
    }

    /// How many times too large or too small the figure is; 1 where it lies where the claim has it.
    fn miss(&self) -> f64 {
        let Some(Found { value, .. }) = self.found else { return 1.0 };
        let times = match (self.expect.least, self.expect.most) {
            (Some(least), _) if value < least => least / value,
            (_, Some(most)) if value > most => value / most,
            _ => 1.0,
        };
        // Something where nothing is claimed, or the reverse, cannot be missed by more.
        if times >= 1.0 { times } else { f64::INFINITY }
    }
}

/// A side of a comparison: its figures per job, which of its jobs count, and why it may not be used.
pub(crate) struct Side<'a> {
    pub observed: &'a Observed,
    pub chosen: &'a [usize],
    pub void: Option<&'a str>,
}

/// An interval needs on the average so many of the jobs that count in each batch: of fewer, such as the three largest of a run,
/// most batches hold none, and what is left out tells nothing.
const BATCH_JOBS_MIN: usize = 5;

/// The figure of `of`, or its ratio to that of `over`, with its interval.
pub(crate) fn found(metric: &Metric, of: &Side, over: Option<&Side>) -> Option<Found> {
    let figure = |left_out| ratio(metric, of, over, left_out);
    let value = figure(None)?;
    // What is not of jobs has no batches, and of the largest of all the rest says nothing.
    let is_of_jobs = match metric {
        Metric::Counter(..) | Metric::ServerCpu | Metric::Jobs(_) | Metric::Pair(PairStat::StretchMax) => false,
        Metric::Of(_, stat) => *stat != Stat::Percentile(1000),
        Metric::BoundRatio | Metric::PacketBoundRatio | Metric::Pair(_) => true,
    };
    let has_enough = |side: &Side| side.chosen.len() >= BATCH_JOBS_MIN * BATCHES;
    let has_interval = is_of_jobs && has_enough(of) && over.is_none_or(has_enough);
    let interval = has_interval.then(|| jackknife(figure)).flatten();
    let half_width = interval.map(|interval| beyond_rounding(interval.half_width, value));
    Some(Found::of_run(value, half_width))
}

/// What only the last digits of a float make of a figure that is the same without any batch is no interval: an edge of a claim would
/// lie in it.
fn beyond_rounding(half_width: f64, value: f64) -> f64 {
    const NOISE: f64 = 1e-12;
    if half_width <= NOISE * value.abs() { 0.0 } else { half_width }
}

fn ratio(metric: &Metric, of: &Side, over: Option<&Side>, left_out: Option<usize>) -> Option<f64> {
    let (mine, theirs) = (kept(of, left_out)?, over.map_or(Some(vec![]), |over| kept(over, left_out))?);
    match over {
        None => of.observed.figure(metric, &mine, None),
        Some(over) if metric.is_of_pairs() => {
            (mine == theirs).then(|| of.observed.figure(metric, &mine, Some(over.observed)))?
        }
        Some(over) => {
            let (top, bottom) =
                (of.observed.figure(metric, &mine, None)?, over.observed.figure(metric, &theirs, None)?);
            if top == bottom { Some(1.0) } else { Some(top / bottom).filter(|ratio| ratio.is_finite()) }
        }
    }
}

/// The jobs that count, without those of a batch of all jobs in order of arrival.
fn kept(side: &Side, left_out: Option<usize>) -> Option<Vec<usize>> {
    let Some(left_out) = left_out else { return Some(side.chosen.to_vec()) };
    let left_out = batch(side.observed.responses_ms.len(), left_out)?;
    Some(side.chosen.iter().copied().filter(|job| !left_out.contains(job)).collect())
}

/// What is claimed of a figure: between which ends the paper has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claimed {
    pub least: Option<f64>,
    pub most: Option<f64>,
    pub larger: Option<Larger>,
    /// It says as much as the paper does: both ends, or the statement that has one.
    pub has_size: bool,
    /// Of one run over that of another, so that it has a direction.
    pub is_ratio: bool,
}

pub(crate) fn judge(expect: &Expect, found: Found) -> (Verdict, Option<String>) {
    let claimed = Claimed {
        least: expect.least,
        most: expect.most,
        larger: expect.larger,
        has_size: expect.has_size(),
        is_ratio: expect.is_ratio(),
    };
    claimed.judge(found)
}

impl Claimed {
    /// The verdict on what was found, and what else is to be said.
    pub fn judge(&self, found: Found) -> (Verdict, Option<String>) {
        if !self.has_size {
            let why = "the claim has one side, and does not say that the paper's statement has one (one_sided)";
            return (Verdict::NotComparable, Some(why.into()));
        }
        let Some([low, high]) = found.over.filter(|over| over.traces >= TRACES_MIN).and_then(|over| over.ends) else {
            let traces = found.over.map_or(1, |over| over.traces);
            let plural = if traces == 1 { "" } else { "s" };
            return (Verdict::Undecided, Some(format!("{traces} trace{plural}; a verdict needs {TRACES_MIN}")));
        };
        let (least, most) = self.ends();
        if low >= least && high <= most {
            return (Verdict::Reproduced, None);
        }
        if low <= most && high >= least {
            return (Verdict::Undecided, Some(format!("the interval includes {}", self.end_within(low, high))));
        }
        let is_larger = match self.larger {
            Some(Larger::More) => low > most,
            Some(Larger::Less) => high < least,
            None => false,
        };
        let verdict = if is_larger { Verdict::Larger } else { Verdict::Refuted };
        (verdict, self.right_way(found.value).filter(|_| !is_larger).map(String::from))
    }

    /// The end of the claim that the interval includes, as it stands in the file; both where it does.
    fn end_within(&self, low: f64, high: f64) -> String {
        let within = |end: &f64| (low..=high).contains(end);
        let ends = [self.least, self.most].into_iter().flatten().filter(within);
        ends.map(|end| end.to_string()).collect::<Vec<_>>().join(" and ")
    }

    fn ends(&self) -> (f64, f64) {
        (self.least.unwrap_or(f64::NEG_INFINITY), self.most.unwrap_or(f64::INFINITY))
    }

    /// Whether a figure that misses the claim goes its way. Only a ratio has a direction, and only a claim that lies wholly on one
    /// side of 1.
    fn right_way(&self, value: f64) -> Option<&'static str> {
        let (least, most) = self.ends();
        match (least >= 1.0 && value > 1.0, most <= 1.0 && value < 1.0) {
            _ if !self.is_ratio => None,
            (true, _) => Some(if value > most { "its direction, by more" } else { "its direction, by less" }),
            (_, true) => Some(if value < least { "its direction, by more" } else { "its direction, by less" }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect(value: &str, over: bool, least: Option<f64>, most: Option<f64>) -> Expect {
        Expect {
            text: "claim".into(),
            point: None,
            against: None,
            value: value.parse().unwrap(),
            of: "fair".into(),
            over: over.then(|| "srpt".into()),
            least,
            most,
            larger: None,
            items: vec![],
            one_sided: None,
            seconds: None,
            sizes: None,
            client: None,
        }
    }

    /// A finding over ten traces with this interval; two sides, or one with the reason.
    fn judged(least: Option<f64>, most: Option<f64>, larger: Option<Larger>, ends: [f64; 2]) -> (Verdict, String) {
        let one_sided = (least.is_none() || most.is_none()).then(|| "at least".into());
        let expect = Expect { larger, one_sided, ..expect("response_time_ms.mean", true, least, most) };
        let over = Some(Over { traces: 10, ends: Some(ends) });
        let (verdict, said) = judge(&expect, Found { value: (ends[0] * ends[1]).sqrt(), half_width: None, over });
        (verdict, said.unwrap_or_default())
    }

    #[test]
    fn verdicts_by_hand() {
        use Verdict::{Refuted, Reproduced, Undecided};
        let (more, less) = (Some(Larger::More), Some(Larger::Less));
        for (least, most, larger, ends, verdict, remark) in [
            (Some(3.0), Some(8.0), more, [3.0, 8.0], Reproduced, ""),
            (Some(3.0), Some(8.0), more, [2.9, 7.0], Undecided, "the interval includes 3"),
            (Some(3.0), Some(8.0), more, [2.0, 9.0], Undecided, "the interval includes 3 and 8"),
            (Some(3.0), Some(8.0), more, [7.0, 8.1], Undecided, "the interval includes 8"),
            (Some(3.0), None, more, [2.9, 70.0], Undecided, "the interval includes 3"),
            (Some(2.0), Some(8.0), more, [60.8, 100.0], Verdict::Larger, ""),
            (Some(2.0), Some(8.0), None, [60.8, 100.0], Refuted, "its direction, by more"),
            (Some(3.0), Some(8.0), more, [1.99, 2.78], Refuted, "its direction, by less"),
            (Some(3.0), None, more, [0.8, 1.0], Refuted, ""),
            (Some(0.2), Some(0.5), less, [0.6, 0.8], Refuted, "its direction, by less"),
            (Some(0.2), Some(0.5), less, [0.09, 0.11], Verdict::Larger, ""),
            (Some(0.2), Some(0.5), None, [0.09, 0.11], Refuted, "its direction, by more"),
            (Some(0.9), Some(1.1), None, [1.2, 1.4], Refuted, ""),
            (None, Some(0.02), None, [0.02, 0.02], Reproduced, ""),
        ] {
            let found = judged(least, most, larger, ends);
            assert_eq!(found, (verdict, remark.to_string()), "{ends:?} in {least:?}..{most:?}");
        }
    }

    /// A single run decides nothing, even if the interval of its batches is narrow.
    #[test]
    fn too_few_traces_decide_nothing() {
        let expect = expect("response_time_ms.mean", true, Some(3.0), Some(8.0));
        let said = |found| judge(&expect, found);
        let one = said(Found::of_run(5.0, Some(0.01)));
        assert_eq!(one, (Verdict::Undecided, Some("1 trace; a verdict needs 5".into())));
        let of = |traces: usize| said(Found::pooled(&vec![5.0; traces], true).unwrap()).0;
        assert_eq!(
            [1, 4, 5, 10].map(of),
            [Verdict::Undecided, Verdict::Undecided, Verdict::Reproduced, Verdict::Reproduced]
        );
    }

    /// 2, 4 and 8 have 4 as their geometric mean; t for 2 degrees of freedom is 4.303.
    #[test]
    fn figures_of_traces_are_pooled_by_their_logarithms() {
        let found = Found::pooled(&[2.0, 8.0, 4.0], true).unwrap();
        let [low, high] = found.over.unwrap().ends.unwrap();
        assert!(
            (found.value - 4.0).abs() < 1e-9 && (low - 0.7148).abs() < 1e-3 && (high - 22.383).abs() < 1e-2,
            "{found:?}"
        );
        let shares = Found::pooled(&[0.0, 0.5, 1.0], false).unwrap();
        assert_eq!((shares.value, shares.over.unwrap().traces), (0.5, 3));
        assert_eq!(Found::pooled(&[0.0, 2.0, 4.0], true).unwrap().value, 2.0, "no logarithm of nothing");
        assert_eq!(Found::pooled(&[], true), None);
    }

    /// 80.8 would be "at least 2"; the paper says 2 to 8.
    #[test]
    fn one_side_is_not_a_size() {
        let one = expect("response_time_ms.mean", true, Some(2.0), None);
        let (verdict, said) = judge(&one, Found::exact(80.8));
        assert_eq!(verdict, Verdict::NotComparable);
        assert!(said.unwrap().starts_with("the claim has one side"));
    }

    #[test]
    fn a_figure_is_told_by_how_many_of_its_claims_hold() {
        let finding = |verdict, least, value| Finding {
            expect: expect("response_time_ms.mean", true, Some(least), None),
            point: String::new(),
            found: Some(Found::exact(value)),
            bound: None,
            verdict,
            remark: None,
            load: 0,
        };
        use Verdict::{Refuted, Reproduced, Void};
        let mixed = [
            finding(Reproduced, 3.0, 4.0),
            finding(Refuted, 3.0, 0.9),
            finding(Refuted, 8.0, 0.5),
            finding(Verdict::Larger, 90.0, 1.1),
            finding(Void, 900.0, 1.0),
        ];
        let tally = Tally::of(&mixed);
        assert_eq!((tally.text().as_str(), tally.key()), ("1 of 5 claims reproduced", "partly"));
        assert_eq!(tally.others(), "1 larger, 2 refuted, 1 void");
        assert_eq!(tally.worst, Some(&mixed[2]), "the one missed by most");
        let (void, good) = (Tally::of(&mixed[4..]), Tally::of(&mixed[..1]));
        assert_eq!((void.text().as_str(), void.key(), void.worst), ("0 of 1 claim reproduced", "void", None));
        assert_eq!((good.others().as_str(), good.key(), good.worst), ("", "reproduced", None));
        assert_eq!((Tally::of(&[]).text().as_str(), Tally::of(&[]).key()), ("no claim to check", "not-measured"));
    }

    /// The three largest of 400: seventeen of twenty batches hold none of them.
    #[test]
    fn a_figure_of_few_jobs_has_no_interval() {
        let responses_ms = (0..400).map(f64::from).collect();
        let observed = Observed { responses_ms, ..Observed::default() };
        let of = |jobs: std::ops::Range<usize>| {
            let chosen: Vec<usize> = jobs.collect();
            found(
                &"response_time_ms.mean".parse().unwrap(),
                &Side { observed: &observed, chosen: &chosen, void: None },
                None,
            )
        };
        assert_eq!(of(397..400), Some(Found::exact(398.0)));
        assert_eq!((of(301..400).unwrap().half_width, of(300..400).unwrap().half_width.is_some()), (None, true));
    }

    /// 199 of 200 buckets gain, whichever batch is left out.
    #[test]
    fn the_last_digits_are_no_interval() {
        assert_eq!((beyond_rounding(1.01e-15, 0.995), beyond_rounding(1e-3, 0.995)), (0.0, 1e-3));
    }

    /// Slow is always ten times fast: the ratio is certain, however uneven both are.
    #[test]
    fn what_two_runs_have_in_common_is_no_doubt() {
        let fast: Vec<f64> = (0..400).map(|job| 1.0 + f64::from(job * job % 97)).collect();
        let slow: Vec<f64> = fast.iter().map(|value| value * 10.0).collect();
        let [fast, slow] = [fast, slow].map(|responses_ms| Observed { responses_ms, ..Observed::default() });
        let all: Vec<usize> = (0..400).collect();
        let side = |observed| Side { observed, chosen: &all, void: None };
        let metric = "response_time_ms.mean".parse().unwrap();
        let ratio = found(&metric, &side(&slow), Some(&side(&fast))).unwrap();
        assert!((ratio.value - 10.0).abs() < 1e-9 && ratio.half_width.unwrap() < 1e-9, "{ratio:?}");
        let alone = found(&metric, &side(&slow), None).unwrap();
        assert!(alone.half_width.unwrap() > 1.0, "{alone:?}");
        let gaining = found(&"share_gaining".parse().unwrap(), &side(&fast), Some(&side(&slow))).unwrap();
        assert_eq!(gaining, Found::of_run(1.0, Some(0.0)));
    }
}
