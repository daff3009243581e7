//! The claims of a figure held against the runs of a point.

use std::collections::BTreeSet;

use record::Manifest;

use crate::chapter::Point;
use crate::claim::{BOUND, Expect, Figure, IDEAL_PS};
use crate::conditions::{apart, apart_from_paper};
use crate::metric::{Metric, Observed, Times};
use crate::verdict::{Finding, Found, Over, Side, Verdict, found, judge};

const NOT_A_WIRE: &str = "not a wire: ";

/// The claims, and what they are held against beside the runs.
pub(crate) struct Findings<'a> {
    pub figure: &'a Figure,
    /// Names of the groups of clients.
    pub clients: &'a [String],
}

/// A run or an oracle that a claim names.
struct Named<'a> {
    observed: &'a Observed,
    void: Option<&'a str>,
    /// Why its link was no wire.
    not_a_wire: Option<&'a str>,
    /// Which run of the point; none for an oracle.
    run: Option<usize>,
}

impl Named<'_> {
    fn manifest<'a>(&self, point: &'a Point) -> Option<&'a Manifest> {
        self.run.map(|run| &point.given.runs[run].manifest)
    }
}

/// Of each claim about a point that is not among these.
pub(crate) fn of_missing_points(figure: &Figure, points: &[&str]) -> Vec<Finding> {
    let is_missing = |expect: &&Expect| match &expect.point {
        Some(wanted) => !points.iter().any(|point| is_at(wanted, point)),
        None => points.is_empty(),
    };
    let missing = |expect: &Expect| {
        let point = expect.point.clone().unwrap_or_default();
        not_measured(expect, &point, "no run of this point is here".into())
    };
    figure.expects().filter(is_missing).map(missing).collect()
}

/// Returns true if a claim about `wanted` is a claim about this point, or about its repetition with some seed.
pub fn is_at(wanted: &str, point: &str) -> bool {
    wanted == point || wanted == without_seed(point)
}

/// The name of a point without its seed: `rho-0.8` of `rho-0.8_seed-101`.
pub fn without_seed(point: &str) -> String {
    let is_seed = |word: &&str| word.strip_prefix("seed-").is_some_and(|seed| seed.parse::<u64>().is_ok());
    point.split('_').filter(|word| !is_seed(word)).collect::<Vec<_>>().join("_")
}

/// Divides each finding of a claim about two points by that of the other point with the same seed. Those of the other point go.
pub(crate) fn of_two_points(findings: Vec<Finding>) -> Vec<Finding> {
    let (of_two, of_one): (Vec<Finding>, Vec<Finding>) =
        findings.into_iter().partition(|finding| finding.expect.against.is_some());
    let is_of = |finding: &Finding, point: &Option<String>| point.as_ref().is_some_and(|at| is_at(at, &finding.point));
    let over_other = |finding: &Finding| {
        let (expect, seed) = (&finding.expect, seed_of(&finding.point));
        let is_other = |other: &&Finding| {
            other.expect == *expect && is_of(other, &expect.against) && seed_of(&other.point) == seed
        };
        of_two.iter().find(is_other).map_or_else(
            || not_measured(expect, &finding.point, "no run of the other point is here".into()),
            |other| divided(finding, other),
        )
    };
    let pairs = of_two.iter().filter(|finding| is_of(finding, &finding.expect.point)).map(over_other);
    pairs.chain(of_one).collect()
}

fn divided(finding: &Finding, other: &Finding) -> Finding {
    let unusable = [finding, other].into_iter().find(|of| !of.verdict.is_judged());
    let values = finding.found.zip(other.found).map(|(top, bottom)| (top.value, bottom.value));
    let ratio = values.map(|(top, bottom)| if top == bottom { 1.0 } else { top / bottom });
    match (unusable, ratio.filter(|ratio| ratio.is_finite())) {
        (Some(why), _) => Finding { point: finding.point.clone(), found: None, bound: None, ..why.clone() },
        (None, None) => not_measured(&finding.expect, &finding.point, "it is nothing at the other point".into()),
        (None, Some(ratio)) => {
            let found = Found::exact(ratio);
            let (verdict, remark) = judge(&finding.expect, found);
            Finding { found: Some(found), bound: None, verdict, remark, ..finding.clone() }
        }
    }
}

fn seed_of(point: &str) -> Option<&str> {
    point.split('_').find(|word| word.strip_prefix("seed-").is_some_and(|seed| seed.parse::<u64>().is_ok()))
}

/// Pools the findings of each claim over the seeds of its point. Findings that cannot be used are left out and counted.
pub(crate) fn over_seeds(findings: Vec<Finding>) -> Vec<Finding> {
    let mut groups: Vec<Vec<Finding>> = vec![];
    for finding in findings {
        let is_same = |group: &&mut Vec<Finding>| {
            group[0].expect == finding.expect && without_seed(&group[0].point) == without_seed(&finding.point)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    groups.into_iter().filter_map(pooled).collect()
}

fn pooled(group: Vec<Finding>) -> Option<Finding> {
    let is_used = |finding: &&Finding| finding.verdict.is_judged();
    let used: Vec<&Finding> = group.iter().filter(is_used).collect();
    let Some(first) = used.first().filter(|_| group.len() > 1) else { return group.into_iter().next() };
    let expect = &first.expect;
    let values: Vec<f64> = used.iter().filter_map(|finding| Some(finding.found?.value)).collect();
    let mut found = Found::pooled(&values, expect.is_ratio())?;
    // A trace that comes again with another seed says nothing of other requests.
    let loads = used.iter().map(|finding| finding.load).collect::<BTreeSet<u64>>().len();
    found.over = found.over.map(|over| Over { traces: loads, ends: over.ends.filter(|_| loads > 1) });
    let (verdict, remark) = judge(expect, found);
    let left_out = group.iter().find(|finding| !is_used(finding));
    let why = left_out.map(|finding| {
        let count = group.len() - used.len();
        let reason = finding.remark.as_deref().map_or(String::new(), |remark| format!(" ({remark})"));
        format!("{count} of {} seeds {}{reason}", group.len(), finding.verdict.text())
    });
    let not_a_wire = used.iter().find_map(|finding| not_a_wire(finding)).map(String::from);
    let remark: Vec<String> = [remark, why, not_a_wire].into_iter().flatten().collect();
    Some(Finding {
        point: without_seed(&first.point),
        found: Some(found),
        bound: None,
        verdict,
        remark: (!remark.is_empty()).then(|| remark.join("; ")),
        ..(*first).clone()
    })
}

/// The remark about the link of a finding, if [`remarks`] made one.
fn not_a_wire(finding: &Finding) -> Option<&str> {
    finding.remark.as_deref()?.split("; ").find(|said| said.starts_with(NOT_A_WIRE))
}

fn not_measured(expect: &Expect, point: &str, why: String) -> Finding {
    let (expect, point) = (expect.clone(), point.to_string());
    let verdict = Verdict::NotMeasured;
    let remark = Some(why);
    Finding { expect, point, found: None, bound: None, verdict, remark, load: 0 }
}

impl Findings<'_> {
    /// Of each claim that speaks of this point.
    pub fn at(&self, point: &Point) -> Vec<Finding> {
        let name = &point.given.name;
        let concerns = |expect: &&Expect| {
            let is_against = expect.against.as_ref().is_some_and(|against| is_at(against, name));
            is_against || expect.point.as_ref().is_none_or(|wanted| is_at(wanted, name))
        };
        let of = |expect: &Expect| self.of(expect, point).unwrap_or_else(|why| not_measured(expect, name, why));
        self.figure.expects().filter(concerns).map(of).collect()
    }

    /// The error says what is missing.
    fn of(&self, expect: &Expect, point: &Point) -> Result<Finding, String> {
        let of = named(point, &expect.of)?;
        let over = expect.over.as_ref().map(|over| named(point, over)).transpose()?;
        if expect.value.is_of_pairs() && !point.is_paired {
            return Err("the runs have different requests, as closed loads do: they cannot be matched".into());
        }
        let chosen = |named: &Named| self.chosen(expect, point, named);
        let (of_jobs, over_jobs) = (chosen(&of), over.as_ref().map(chosen));
        let of_side = side(of.observed, &of_jobs, of.void);
        let over_side =
            over.as_ref().zip(over_jobs.as_deref()).map(|(over, jobs)| side(over.observed, jobs, over.void));
        let measured = found(&expect.value, &of_side, over_side.as_ref())
            .ok_or_else(|| format!("{} was not measured or has no value", expect.value))?;
        let void = of_side.void.or(over_side.as_ref().and_then(|side| side.void));
        let (verdict, remark) = match (void, why_apart(expect, point, &of, over.as_ref())) {
            (Some(reason), _) => (Verdict::Void, Some(reason.to_string())),
            (None, Some(reason)) => (Verdict::NotComparable, Some(reason)),
            (None, None) => judge(expect, measured),
        };
        let not_a_wire = of.not_a_wire.or(over.as_ref().and_then(|over| over.not_a_wire));
        let remark = remarks(remark, not_a_wire);
        let bound = self.bound(expect, &of_side, over_side.as_ref(), point, &of_jobs);
        Ok(Finding {
            expect: expect.clone(),
            point: point.given.name.clone(),
            found: Some(measured),
            bound,
            verdict,
            remark,
            load: point.load,
        })
    }

    /// The jobs that the claim speaks of, of this run's.
    fn chosen(&self, expect: &Expect, point: &Point, named: &Named) -> Vec<usize> {
        let run = named.run.unwrap_or(0);
        let sizes = &point.jobs[run].sizes;
        let is_of_size = expect.sizes.map(|[from, to]| stats::within_percentiles(sizes, from, to));
        let group = expect.client.as_ref().and_then(|client| self.clients.iter().position(|name| name == client));
        let records = &point.given.runs[run].records;
        let counts = |job: &usize| {
            is_of_size.as_ref().is_none_or(|is| is[*job])
                && group.is_none_or(|group| records[*job].group as usize == group)
        };
        (0..sizes.len()).filter(counts).collect()
    }

    /// The bound in the place of the side that is claimed to be better: of the smaller figure.
    fn bound(&self, expect: &Expect, of: &Side, over: Option<&Side>, point: &Point, jobs: &[usize]) -> Option<f64> {
        let is_of_schedule = matches!(
            expect.value,
            Metric::Of(Times::Response | Times::Slowdown, _) | Metric::Pair(_) | Metric::BoundRatio
        );
        if !is_of_schedule || !point.is_paired {
            return None;
        }
        let bound = side(&point.bound, jobs, None);
        let is_better_first = expect.value.is_of_pairs() || expect.least.is_none_or(|least| least < 1.0);
        let found = match over {
            None => found(&expect.value, &bound, None),
            Some(over) if is_better_first => found(&expect.value, &bound, Some(over)),
            Some(_) => found(&expect.value, of, Some(&bound)),
        };
        found.map(|found| found.value)
    }
}

/// Why the runs are not compared, with each other or with the paper's.
fn why_apart(expect: &Expect, point: &Point, of: &Named, over: Option<&Named>) -> Option<String> {
    let (of, over) = (of.manifest(point), over.and_then(|over| over.manifest(point)));
    let from_each_other = of.zip(over).and_then(|(of, over)| apart(of, over));
    from_each_other.or_else(|| [of, over].into_iter().flatten().find_map(|run| apart_from_paper(expect, run)))
}

/// What is said of the verdict, and that the link was no wire: no verdict is quoted without it.
fn remarks(remark: Option<String>, not_a_wire: Option<&str>) -> Option<String> {
    let said: Vec<String> = remark.into_iter().chain(not_a_wire.map(|why| format!("{NOT_A_WIRE}{why}"))).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn side<'a>(observed: &'a Observed, chosen: &'a [usize], void: Option<&'a str>) -> Side<'a> {
    Side { observed, chosen, void }
}

fn named<'a>(point: &'a Point, name: &str) -> Result<Named<'a>, String> {
    let oracle = |observed| Ok(Named { observed, void: None, not_a_wire: None, run: None });
    match name {
        BOUND => oracle(&point.bound),
        IDEAL_PS => oracle(&point.ideal_ps),
        _ => {
            let runs = &point.summary.runs;
            let skipped = point.summary.skipped.iter().find(|run| run.name == name);
            let why = || skipped.map_or(format!("run {name} is not here"), |run| format!("{name}: {}", run.reason));
            let run = runs.iter().position(|run| run.name == name).ok_or_else(why)?;
            let (void, not_a_wire) = (runs[run].void.as_deref(), runs[run].not_a_wire.as_deref());
            Ok(Named { observed: &point.observed[run], void, not_a_wire, run: Some(run) })
        }
    }
}
