//! `xtask/mutants.toml`: survivors that a reviewer has looked at, each with the reason why no test can catch it.

use serde::Deserialize;

use super::outcome::Mutant;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accepted {
    file: String,
    /// As cargo-mutants names it, without the position: `replace < with <= in f`.
    mutation: String,
    reason: String,
    /// How many mutants of this name survive.
    #[serde(default = "one")]
    count: usize,
}

fn one() -> usize {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    accepted: Vec<Accepted>,
}

pub fn parse(text: &str) -> Result<Vec<Accepted>, String> {
    let file: File = toml::from_str(text).map_err(|e| format!("xtask/mutants.toml: {e}"))?;
    for entry in &file.accepted {
        if entry.reason.trim().is_empty() {
            return Err(format!("xtask/mutants.toml: no reason for `{}` in {}", entry.mutation, entry.file));
        }
    }
    Ok(file.accepted)
}

impl Accepted {
    fn names(&self, mutant: &Mutant) -> bool {
        self.file == mutant.file() && self.mutation == mutant.mutation()
    }

    fn survivors(&self, mutants: &[Mutant]) -> usize {
        mutants.iter().filter(|mutant| mutant.is_missed() && self.names(mutant)).count()
    }
}

/// How many survivors have a reason.
pub fn explained(accepted: &[Accepted], mutants: &[Mutant]) -> usize {
    accepted.iter().map(|entry| entry.survivors(mutants).min(entry.count)).sum()
}

/// Survivors without a reason; where more of one name survive than are accepted, all of that name.
pub fn unexplained<'a>(accepted: &[Accepted], mutants: &'a [Mutant]) -> Vec<&'a Mutant> {
    let is_explained =
        |mutant: &Mutant| accepted.iter().any(|entry| entry.names(mutant) && entry.survivors(mutants) <= entry.count);
    mutants.iter().filter(|mutant| mutant.is_missed() && !is_explained(mutant)).collect()
}

/// Entries that no longer hold. In a part of a run only those can be told of which mutants were tested and none survived.
pub fn stale(accepted: &[Accepted], package: &str, mutants: &[Mutant], is_whole: bool) -> Vec<String> {
    let is_of_package = |entry: &&Accepted| entry.file.split('/').nth(1) == Some(package);
    let of_package = accepted.iter().filter(is_of_package);
    let is_stale = |entry: &&Accepted| {
        let survivors = entry.survivors(mutants);
        match is_whole {
            true => survivors < entry.count,
            false => entry.count == 1 && survivors == 0 && mutants.iter().any(|mutant| entry.names(mutant)),
        }
    };
    let told = |entry: &Accepted| {
        let survivors = entry.survivors(mutants);
        format!("{}: {survivors} of {} `{}` survive; correct the entry", entry.file, entry.count, entry.mutation)
    };
    of_package.filter(is_stale).map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::outcome::Summary::{CaughtMutant, MissedMutant};

    const TEXT: &str = "
        [[accepted]]
        file = 'core/http/src/a.rs'
        mutation = 'replace < with <= in f'
        reason = 'the two are equal where it matters'
        [[accepted]]
        file = 'core/http/src/a.rs'
        mutation = 'replace + with - in g'
        reason = 'a bound that is never reached'
        count = 2
    ";

    fn mutants(summaries: &[(&str, bool)]) -> Vec<Mutant> {
        let mutant = |(line, (mutation, is_caught)): (usize, &(&str, bool))| Mutant {
            name: format!("core/http/src/a.rs:{line}:5: {mutation}"),
            summary: if *is_caught { CaughtMutant } else { MissedMutant },
        };
        summaries.iter().enumerate().map(mutant).collect()
    }

    const F: &str = "replace < with <= in f";
    const G: &str = "replace + with - in g";

    #[test]
    fn survivors_with_a_reason_are_told_from_those_without() {
        let accepted = parse(TEXT).unwrap();
        let all = mutants(&[(F, false), (G, false), (G, false), (G, true), ("replace h", false)]);
        let names: Vec<&str> = unexplained(&accepted, &all).iter().map(|mutant| mutant.mutation()).collect();
        assert_eq!((names, explained(&accepted, &all)), (vec!["replace h"], 3));
        // A third one is new, and cannot be told from the two.
        let more = mutants(&[(G, false), (G, false), (G, false)]);
        assert_eq!((unexplained(&accepted, &more).len(), explained(&accepted, &more)), (3, 2));
        let elsewhere = Mutant { name: format!("core/http/src/b.rs:1:1: {F}"), summary: MissedMutant };
        assert_eq!(unexplained(&accepted, &[elsewhere]).len(), 1);
    }

    #[test]
    fn entries_that_no_longer_hold_are_told() {
        let accepted = parse(TEXT).unwrap();
        let count = |package, all: &[Mutant], is_whole| stale(&accepted, package, all, is_whole).len();
        let holding = mutants(&[(F, false), (G, false), (G, false)]);
        assert_eq!(count("http", &holding, true), 0);
        let caught = mutants(&[(F, true), (G, false), (G, true)]);
        assert_eq!(stale(&accepted, "http", &caught, true).len(), 2);
        assert!(stale(&accepted, "http", &caught, true)[1].contains("1 of 2 `replace + with - in g` survive"));
        // In a part: one was tested and caught; of the others some may be in another part.
        assert_eq!(count("http", &caught, false), 1);
        assert_eq!(count("http", &[], false), 0);
        // The code is gone.
        assert_eq!(count("http", &[], true), 2);
        assert_eq!(count("sched", &[], true), 0);
    }

    #[test]
    fn an_entry_needs_a_reason_and_no_unknown_key() {
        let entry = "[[accepted]]\nfile = 'a'\nmutation = 'b'\n";
        assert!(parse(&format!("{entry}reason = ' '")).unwrap_err().contains("no reason for `b`"));
        assert!(parse(entry).unwrap_err().contains("reason"));
        assert!(parse(&format!("{entry}reason = 'c'\nline = 1")).unwrap_err().contains("line"));
    }
}
