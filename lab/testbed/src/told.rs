//! The uplink setting of Weir: `told` of an experiment or of a run, passed unchanged to `weir serve --uplink`.

use std::fmt;
use std::str::FromStr;

use sched::UplinkRate;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use units::Rate;

/// A value for `--uplink`: `auto`, `off`, a rate, or two rates with `..` between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told(String);

impl Told {
    /// A single rate.
    pub(crate) fn rate(rate: Rate) -> Told {
        Told(rate.to_string())
    }
}

impl FromStr for Told {
    type Err = String;

    fn from_str(text: &str) -> Result<Told, String> {
        match text.parse::<UplinkRate>() {
            Ok(_) => Ok(Told(text.into())),
            Err(error) => Err(format!("told: {error}")),
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Told {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Told, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;

    #[test]
    fn what_may_be_told_stays_as_it_is_written() {
        for text in ["auto", "off", "10mbit", "10.5Mbit", "5mbit..20mbit"] {
            assert_eq!(text.parse::<Told>().map(|told| told.to_string()), Ok(text.into()));
        }
    }

    #[test]
    fn anything_else_is_an_error_that_names_what_may_be() {
        for text in ["", "Auto", "fast", "..", "5mbit..", "..5mbit", "5mbit..fast", "0mbit", "1mbit..2mbit..3mbit"] {
            let said = text.parse::<Told>().unwrap_err();
            assert!(said.starts_with(&format!("told: `{text}`: expected auto, off, a rate or two rates")), "{said}");
        }
        let said = "20mbit..5mbit".parse::<Told>().unwrap_err();
        assert!(said.starts_with("told: `20mbit..5mbit`: expected the lower rate first"), "{said}");
        let said = parse("told = \"on\"", "server = \"weir\"").unwrap_err();
        assert!(said.starts_with("x.toml:5: told: `on`: expected auto"), "{said}");
    }

    #[test]
    fn a_run_is_told_its_own_else_the_experiment_s_else_the_link() {
        let told = |top: &str, run: &str| {
            let experiment = parse(top, &format!("server = \"weir\"\nshaping = \"paced\"\n{run}")).unwrap();
            experiment.told_to(experiment.runs().next().unwrap()).to_string()
        };
        assert_eq!(told("", ""), "10mbit");
        assert_eq!(told("told = \"7mbit\"", ""), "7mbit");
        assert_eq!(told("told = \"7mbit\"", "told = \"auto\""), "auto");
    }

    #[test]
    fn a_run_that_listens_to_nobody_cannot_be_told() {
        for (run, says) in [
            ("server = \"nginx\"\ntold = \"auto\"", "run `a`: told is of weir alone: leave it out of nginx"),
            ("server = \"weir\"\ntold = \"auto\"", "run `a`: told to a run with shaping `off`, which paces nothing"),
        ] {
            let said = parse("", run).unwrap_err();
            assert!(said.contains(says), "{said}");
        }
    }
}
