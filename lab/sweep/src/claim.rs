//! What a sweep is to show: `[[claim]]`, statements that a program can check, judged by the rules of a report's (`report::Claimed`).
//!
//! ```toml
//! [[claim]]
//! text = "3 slots for B: A 21 % faster"
//! value = "A_latency_weighted_ms"         # a metric, as in plot.y
//! of = { server = "none", max_a = 15 }    # a value of every axis
//! over = { server = "own", max_a = 15 }
//! least = 1.01                            # of the ratio, or of the value where there is no over
//! most = 1.58
//! larger = "more"
//! ```
//!
//! Ratios are of runs with the same seed, so of the same clients.

use std::fmt::Write as _;

use report::{Claimed, Found, KeptClaim, Larger};
use serde::Deserialize;

use crate::grid::{Axis, Cell};
use crate::results::{CellResult, Estimate, Results};
use crate::{Measured, Plan};

/// One statement of a figure in one cell, or of its ratio to that in another.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub text: String,
    pub value: String,
    /// Places in [`Plan::cells`].
    pub of: usize,
    pub over: Option<usize>,
    pub claimed: Claimed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimFile {
    text: String,
    value: String,
    of: toml::Table,
    over: Option<toml::Table>,
    least: Option<f64>,
    most: Option<f64>,
    larger: Option<Larger>,
    /// The paper's statement, where it has one side.
    one_sided: Option<String>,
    /// Numbers of what it settles among the items of `docs/reproduction/items.toml`: for the page of all items, which reads the file itself.
    #[serde(default, rename = "items")]
    _items: Vec<u32>,
}

impl ClaimFile {
    pub fn resolve(self, axes: &[Axis], cells: &[Cell]) -> Result<Claim, String> {
        let wrong = |reason: String| format!("claim `{}`: {reason}", self.text);
        let place = |at: &toml::Table| place(at, axes, cells).map_err(wrong);
        let (of, over) = (place(&self.of)?, self.over.as_ref().map(place).transpose()?);
        let (least, most) = (self.least.unwrap_or(f64::MIN), self.most.unwrap_or(f64::MAX));
        if self.least.or(self.most).is_none() || least.is_nan() || most.is_nan() || least > most {
            return Err(wrong("it claims nothing: write least, or most, or both, the lesser as least".into()));
        }
        let has_size =
            (self.least.is_some() && self.most.is_some()) || self.one_sided.is_some_and(|said| !said.is_empty());
        if !has_size {
            return Err(wrong("it has one side: write the other, or the paper's statement as one_sided".into()));
        }
        let (least, most, larger) = (self.least, self.most, self.larger);
        let claimed = Claimed { least, most, larger, has_size, is_ratio: over.is_some() };
        Ok(Claim { text: self.text, value: self.value, of, over, claimed })
    }
}

/// The one cell that has these values.
fn place(at: &toml::Table, axes: &[Axis], cells: &[Cell]) -> Result<usize, String> {
    let label = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    if let Some(unknown) = at.keys().find(|key| axes.iter().all(|axis| axis.name != **key)) {
        return Err(format!("`{unknown}` is not in [grid]"));
    }
    let wanted: Vec<usize> = axes
        .iter()
        .map(|axis| {
            let value = at.get(&axis.name).ok_or(format!("it says no {}: write one of its values", axis.name))?;
            let found = axis.values.iter().position(|known| known.label == label(value));
            found.ok_or_else(|| format!("`{}` is no value of grid.{}", label(value), axis.name))
        })
        .collect::<Result<_, String>>()?;
    Ok(cells.iter().position(|cell| cell.at == wanted).unwrap_or(0))
}

impl Claim {
    pub fn check(&self, trial: &Measured) -> Result<(), String> {
        trial.metric_name(&self.value).map(drop).map_err(|e| e.replacen("plot.y", &format!("claim `{}`", self.text), 1))
    }

    /// What the sweep found of it, over its seeds.
    pub fn found(&self, results: &Results) -> Option<Found> {
        let values = |cell: usize| of_runs(results.cells.get(cell)?, &self.value);
        let of = values(self.of)?;
        let values = match self.over {
            None => of,
            Some(over) => of.iter().zip(values(over)?).map(|(of, over)| of / over).collect(),
        };
        let Estimate { mean, half_width } = Estimate::of(&values).filter(|found| found.mean.is_finite())?;
        Some(Found::of_seeds(mean, half_width, values.len()))
    }
}

/// The claims with what was found, as results keep them (`claims.json`). Those that were not measured have no value.
pub(crate) fn kept(plan: &Plan, results: &Results) -> Vec<KeptClaim> {
    let of = |claim: &Claim| {
        let found = claim.found(results);
        KeptClaim {
            experiment: plan.name.clone(),
            text: claim.text.clone(),
            point: String::new(),
            value: found.map(|found| found.value),
            ends: found.and_then(|found| found.over?.ends),
            traces: found.and_then(|found| found.over).map_or(0, |over| over.traces),
            not_judged: None,
        }
    };
    plan.claims.iter().map(of).collect()
}

/// The metric in every run of the cell.
fn of_runs(cell: &CellResult, name: &str) -> Option<Vec<f64>> {
    let value = |run: &Measured| run.metric_name(name).ok().and_then(|name| run.metrics.get(&name).copied());
    cell.runs.iter().map(|(_, run)| value(run)).collect()
}

/// The claims with what was found and its verdict; empty where the file has none.
pub(crate) fn markdown(plan: &Plan, results: &Results) -> String {
    if plan.claims.is_empty() {
        return String::new();
    }
    let mut text = "\n| claim | found | claimed | verdict |\n|---|---|---|---|\n".to_string();
    for claim in &plan.claims {
        let end = |end: Option<f64>| end.map_or(String::new(), |end| format!("{end}"));
        let claimed = format!("{} to {}", end(claim.claimed.least), end(claim.claimed.most));
        let (found, verdict) = match claim.found(results) {
            None => ("-".into(), "not measured".into()),
            Some(found) => {
                let (verdict, remark) = claim.claimed.judge(found);
                let half = found.over.and_then(|over| over.ends).map(|[low, high]| (high - low) / 2.0);
                let half = half.map_or(String::new(), |half| format!(" ± {half:.3}"));
                let remark = remark.map_or(String::new(), |remark| format!(": {remark}"));
                (format!("{:.3}{half}", found.value), format!("{}{remark}", verdict.text()))
            }
        };
        let _ = writeln!(text, "| {} | {found} | {} | {verdict} |", claim.text, claimed.trim());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::testing::Formula;
    use crate::{Model as _, Store};

    const FILE: &str = "question = \"which\"\nmodel = \"queue\"\nreplications = 5\n[grid]\npolicy = [\"ps\", \"srpt\"]\nrho = [0.5, 0.8]\n\
        [[claim]]\ntext = \"srpt is twice as fast\"\nvalue = \"response_time_ms\"\nof = { policy = \"ps\", rho = 0.8 }\n\
        over = { policy = \"srpt\", rho = 0.8 }\nleast = 1.9\nmost = 2.1\n";

    fn parse(text: &str) -> Result<Plan, String> {
        Plan::parse(text, Path::new("x.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn a_claim_is_judged_on_the_ratio_of_its_cells() {
        let plan = parse(FILE).unwrap();
        let cell = |at: usize| {
            let runs =
                plan.seeds.iter().map(|&seed| (seed, Formula::default().run(&plan.cells[at].fields, seed).unwrap()));
            CellResult::of(plan.cells[at].at.clone(), runs.collect())
        };
        let results = Results { cells: (0..4).map(cell).collect() };
        let found = plan.claims[0].found(&results).unwrap();
        assert!((found.value - 2.0).abs() < 0.1, "{found:?}");
        let text = markdown(&plan, &results);
        assert!(text.lines().last().unwrap().ends_with("| 1.9 to 2.1 | reproduced |"), "{text}");
        let [kept] = &kept(&plan, &results)[..] else { panic!("one claim") };
        assert_eq!((kept.experiment.as_str(), kept.value, kept.traces), ("x", Some(found.value), 5));
        let text = report::claims_json(std::slice::from_ref(kept));
        assert_eq!(serde_json::from_str::<Vec<KeptClaim>>(&text).unwrap(), std::slice::from_ref(kept));
        assert!(Store::check_room(&std::env::temp_dir(), plan.runs()).is_ok());
    }

    #[test]
    fn mistakes_are_told() {
        for (from, to, said) in [
            ("rho = 0.8 }\nover", "rho = 0.9 }\nover", "claim `srpt is twice as fast`: `0.9` is no value of grid.rho"),
            ("policy = \"ps\", rho", "rho", "claim `srpt is twice as fast`: it says no policy"),
            ("of = { policy", "of = { x = 1, policy", "`x` is not in [grid]"),
            ("most = 2.1", "", "it has one side: write the other"),
            ("least = 1.9\nmost = 2.1", "", "it claims nothing"),
        ] {
            let error = parse(&FILE.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(said), "{to}: {error}");
        }
        let plan = parse(&FILE.replace("response_time_ms", "response")).unwrap();
        let trial = Formula::default().trial(&plan.cells[0].fields).unwrap();
        let said = plan.claims[0].check(&trial).unwrap_err();
        assert!(said.starts_with("claim `srpt is twice as fast`: it has no `response`"), "{said}");
        assert_eq!(parse(FILE).unwrap().claims[0].check(&trial), Ok(()));
    }
}
