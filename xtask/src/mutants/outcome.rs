//! What cargo-mutants found: its `outcomes.json`.

use serde::Deserialize;

/// One change to the code, and what the tests said to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// `file:line:column: mutation`.
    pub name: String,
    pub summary: Summary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Summary {
    /// The unmutated code.
    Success,
    Failure,
    CaughtMutant,
    MissedMutant,
    /// Does not build.
    Unviable,
    /// The tests did not end: caught, and at what cost.
    Timeout,
}

impl Mutant {
    pub fn is_missed(&self) -> bool {
        self.summary == Summary::MissedMutant
    }

    /// Without the position, which every edit above it moves.
    pub fn mutation(&self) -> &str {
        self.name.split_once(": ").map_or("", |(_, mutation)| mutation)
    }

    pub fn file(&self) -> &str {
        self.name.split_once(':').map_or("", |(file, _)| file)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub caught: usize,
    pub timed_out: usize,
    pub missed: usize,
    pub unviable: usize,
}

impl Tally {
    pub fn of(mutants: &[Mutant]) -> Tally {
        let count = |summary| mutants.iter().filter(|mutant| mutant.summary == summary).count();
        Tally {
            caught: count(Summary::CaughtMutant),
            timed_out: count(Summary::Timeout),
            missed: count(Summary::MissedMutant),
            unviable: count(Summary::Unviable),
        }
    }

    /// Of those that build; all, if there are none.
    pub fn caught_percent(&self) -> f64 {
        let caught = self.caught + self.timed_out;
        let viable = caught + self.missed;
        if viable == 0 { 100.0 } else { 100.0 * caught as f64 / viable as f64 }
    }
}

#[derive(Deserialize)]
struct File {
    outcomes: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    scenario: Scenario,
    summary: Summary,
}

#[derive(Deserialize)]
enum Scenario {
    Baseline,
    Mutant { name: String },
}

pub fn parse(json: &str) -> Result<Vec<Mutant>, String> {
    let file: File = serde_json::from_str(json).map_err(|e| format!("outcomes.json of cargo-mutants: {e}"))?;
    let mutants = file.outcomes.into_iter().filter_map(|outcome| match outcome.scenario {
        Scenario::Baseline => None,
        Scenario::Mutant { name } => Some(Mutant { name, summary: outcome.summary }),
    });
    Ok(mutants.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{
        "outcomes": [
            { "scenario": "Baseline", "summary": "Success", "log_path": "log/baseline.log" },
            { "scenario": { "Mutant": { "name": "core/http/src/list.rs:6:5: replace f -> u8 with 0", "genre": "FnValue" } },
              "summary": "MissedMutant" },
            { "scenario": { "Mutant": { "name": "core/http/src/list.rs:7:5: replace < with <= in g" } }, "summary": "Timeout" },
            { "scenario": { "Mutant": { "name": "core/http/src/list.rs:8:5: replace g" } }, "summary": "Unviable" },
            { "scenario": { "Mutant": { "name": "core/http/src/list.rs:9:5: replace h" } }, "summary": "CaughtMutant" }
        ],
        "total_mutants": 4
    }"#;

    #[test]
    fn outcomes_are_read() {
        let mutants = parse(JSON).unwrap();
        assert_eq!(Tally::of(&mutants), Tally { caught: 1, timed_out: 1, missed: 1, unviable: 1 });
        assert!(mutants[0].is_missed());
        assert_eq!((mutants[0].file(), mutants[0].mutation()), ("core/http/src/list.rs", "replace f -> u8 with 0"));
        assert!(parse("{}").unwrap_err().contains("missing field `outcomes`"));
    }

    #[test]
    fn what_does_not_build_is_no_part_of_the_share() {
        let tally = Tally { caught: 5, timed_out: 1, missed: 2, unviable: 100 };
        assert_eq!(tally.caught_percent(), 75.0);
        assert_eq!(Tally::default().caught_percent(), 100.0);
    }
}
