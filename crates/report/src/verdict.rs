//! From a claim and two runs to a verdict, with the figure found and how sure it is.

use stats::{BATCHES, batch, jackknife};

use crate::figure::Expect;
use crate::metric::{Metric, Observed, PairStat, Stat};

/// What became of a claim, from the best to the worst that can be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The figure found lies where the claim has it.
    Reproduced,
    /// The same side gains, by another factor.
    Direction,
    NotReproduced,
    /// A run it needs was not made or did not measure it.
    NotMeasured,
    /// A run it needs may not be used.
    Void,
}

impl Verdict {
    pub const ALL: [Verdict; 5] =
        [Verdict::Reproduced, Verdict::Direction, Verdict::NotReproduced, Verdict::NotMeasured, Verdict::Void];

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Direction => "direction only",
            Verdict::NotReproduced => "not reproduced",
            Verdict::NotMeasured => "not measured",
            Verdict::Void => "void",
        }
    }

    /// For filters and style sheets.
    pub fn key(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Direction => "direction",
            Verdict::NotReproduced => "not-reproduced",
            Verdict::NotMeasured => "not-measured",
            Verdict::Void => "void",
        }
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
        let fails = |finding: &&Finding| matches!(finding.verdict, Verdict::Direction | Verdict::NotReproduced);
        let by_miss = |one: &&Finding, other: &&Finding| {
            let by_times = one.miss().total_cmp(&other.miss());
            one.verdict.cmp(&other.verdict).then(by_times).then(one.value().total_cmp(&other.value()))
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

    /// What became of the others: `1 direction only, 1 void`; empty if all were reproduced.
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

/// A figure, and half of its 95 % confidence interval where there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    pub value: f64,
    pub half_width: Option<f64>,
}

impl Found {
    pub fn exact(value: f64) -> Found {
        Found { value, half_width: None }
    }
}

/// What was found of one expectation at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub expect: Expect,
    /// Folder of the point; empty where the experiment has one only.
    pub point: String,
    pub found: Option<Found>,
    pub simulated: Option<Found>,
    /// The same figure with the clairvoyant bound in the place of the run that is claimed to be better.
    pub bound: Option<f64>,
    pub verdict: Verdict,
    /// What the figures do not say.
    pub remark: Option<String>,
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
    let half_width = has_interval.then(|| jackknife(figure)).flatten().map(|interval| interval.half_width);
    Some(Found { value, half_width })
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

/// The verdict on what was found, and what else is to be said.
pub(crate) fn judge(expect: &Expect, found: Found) -> (Verdict, Option<String>) {
    let (least, most) = (expect.least.unwrap_or(f64::NEG_INFINITY), expect.most.unwrap_or(f64::INFINITY));
    let half = found.half_width.unwrap_or(0.0);
    if (least..=most).contains(&found.value) {
        let is_sure = found.value - half >= least && found.value + half <= most;
        return (Verdict::Reproduced, (!is_sure).then(|| "the interval reaches beyond what is claimed".into()));
    }
    let reaches = found.value + half >= least && found.value - half <= most;
    let doubt = reaches.then_some("the interval reaches what is claimed");
    // Only a ratio has a direction, and only a claim that lies wholly on one side of 1.
    let is_right_way = expect.over.is_some()
        && !expect.value.is_of_pairs()
        && ((least >= 1.0 && found.value > 1.0) || (most <= 1.0 && found.value < 1.0));
    let beyond = if least >= 1.0 { found.value > most } else { found.value < least };
    let size = match (is_right_way, beyond) {
        (true, true) => Some("more than claimed"),
        (true, false) => Some("less than claimed"),
        (false, _) => None,
    };
    let remark: Vec<&str> = size.into_iter().chain(doubt).collect();
    let verdict = if is_right_way { Verdict::Direction } else { Verdict::NotReproduced };
    (verdict, (!remark.is_empty()).then(|| remark.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect(value: &str, over: bool, least: Option<f64>, most: Option<f64>) -> Expect {
        Expect {
            text: "claim".into(),
            point: None,
            value: value.parse().unwrap(),
            of: "fair".into(),
            over: over.then(|| "srpt".into()),
            least,
            most,
            sizes: None,
            client: None,
        }
    }

    #[test]
    fn verdicts_by_hand() {
        let mean = "response_time_ms.mean";
        for (over, least, most, value, half, verdict, remark) in [
            (true, Some(3.0), Some(8.0), 5.0, 2.0, Verdict::Reproduced, ""),
            (true, Some(3.0), None, 5.0, 2.1, Verdict::Reproduced, "the interval reaches beyond what is claimed"),
            (true, Some(3.0), Some(8.0), 9.0, 0.1, Verdict::Direction, "more than claimed"),
            (true, Some(3.0), Some(8.0), 2.0, 0.1, Verdict::Direction, "less than claimed"),
            (
                true,
                Some(3.0),
                None,
                2.0,
                1.5,
                Verdict::Direction,
                "less than claimed; the interval reaches what is claimed",
            ),
            (true, Some(3.0), None, 0.9, 0.1, Verdict::NotReproduced, ""),
            (true, None, Some(0.5), 0.7, 0.1, Verdict::Direction, "less than claimed"),
            (true, Some(0.2), Some(0.5), 0.1, 0.01, Verdict::Direction, "more than claimed"),
            (true, Some(0.9), Some(1.1), 1.3, 0.1, Verdict::NotReproduced, ""),
            (false, Some(0.995), None, 0.99, 0.001, Verdict::NotReproduced, ""),
            (false, None, Some(0.02), 0.02, 0.0, Verdict::Reproduced, ""),
        ] {
            let (found, said) = judge(&expect(mean, over, least, most), Found { value, half_width: Some(half) });
            assert_eq!((found, said.unwrap_or_default().as_str()), (verdict, remark), "{value} in {least:?}..{most:?}");
        }
    }

    #[test]
    fn a_figure_is_told_by_how_many_of_its_claims_hold() {
        let finding = |verdict, least, value| Finding {
            expect: expect("response_time_ms.mean", true, Some(least), None),
            point: String::new(),
            found: Some(Found::exact(value)),
            simulated: None,
            bound: None,
            verdict,
            remark: None,
        };
        use Verdict::{Direction, NotReproduced, Reproduced, Void};
        let mixed = [
            finding(Reproduced, 3.0, 4.0),
            finding(NotReproduced, 3.0, 0.9),
            finding(NotReproduced, 8.0, 0.5),
            finding(Direction, 90.0, 1.1),
            finding(Void, 900.0, 1.0),
        ];
        let tally = Tally::of(&mixed);
        assert_eq!((tally.text().as_str(), tally.key()), ("1 of 5 claims reproduced", "partly"));
        assert_eq!(tally.others(), "1 direction only, 2 not reproduced, 1 void");
        assert_eq!(tally.worst, Some(&mixed[2]), "the worst verdict, and of those the one missed by most");
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
        assert_eq!(gaining, Found { value: 1.0, half_width: Some(0.0) });
    }
}
