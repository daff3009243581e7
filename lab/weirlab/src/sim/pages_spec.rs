//! The fields of a spec for pages, and for connections that carry several jobs.

use cli::Failure;
use serde::{Deserialize, Serialize};
use sim::queue::{Arrivals, PageLoad};

use super::SimSpec;
use super::queue::wrong;

/// All fields have defaults: no pages.
#[derive(Debug, Clone, PartialEq, Default, clap::Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Pages and connections that carry several responses, only with --model queue")]
pub struct PagesSpec {
    /// Instead of single jobs, so many page loads: HTML, then CSS, scripts and images, with the urgencies of browsers
    #[arg(long, value_name = "N", conflicts_with_all = ["dist", "trace", "profile", "webstone"])]
    pub pages: Option<u32>,
    /// Connections of a page: 1 carries all its requests (HTTP/2, HTTP/3), more carry one each at a time (HTTP/1.1) [default: 1]
    #[arg(long, value_name = "N")]
    pub page_connections: Option<u32>,
    /// Rank of a connection: stage (all as urgent as the first), or none: each response by itself
    /// [default: stage; none with several --page-connections]
    #[arg(long, value_name = "stage|none")]
    pub carriers: Option<String>,
}

impl PagesSpec {
    /// The page loads, if requested.
    pub(super) fn arrivals(&self, spec: &SimSpec) -> Result<Option<Arrivals>, Failure> {
        let Some(pages) = self.pages else {
            return match self.page_connections {
                Some(_) => Err(wrong("page_connections")("there are no pages: write --pages 1000 too")),
                None => Ok(None),
            };
        };
        let over =
            [("jobs", spec.jobs.is_some()), ("seconds", spec.seconds.is_some()), ("warm_up", spec.warm_up.is_some())];
        if let Some((field, _)) = over.into_iter().find(|(_, is_set)| *is_set) {
            return Err(wrong(field)(
                "--pages says how long the run is, with a tenth more before and behind: leave it out",
            ));
        }
        let Some(rho) = spec.rho else {
            return Err(Failure::Usage("--rho: write the load of the link, such as 0.8".into()));
        };
        Ok(Some(Arrivals::Pages(PageLoad { pages, rho, connections: self.connections() })))
    }

    /// Returns whether connections carry several jobs and are ranked by their stage.
    pub(super) fn carriers(&self) -> Result<bool, Failure> {
        match self.carriers.as_deref() {
            Some(_) if self.pages.is_none() => {
                Err(wrong("carriers")("each job has a connection of its own: write --pages 1000 too"))
            }
            None => Ok(self.pages.is_some() && self.connections() == 1),
            Some("none") => Ok(false),
            Some("stage") => Ok(true),
            Some(other) => Err(wrong("carriers")(format!("`{other}`: write stage or none"))),
        }
    }

    fn connections(&self) -> u32 {
        self.page_connections.unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        spec: SimSpec,
    }

    fn check(words: &str) -> Result<(), String> {
        let line = Line::try_parse_from(std::iter::once("sim").chain(words.split_whitespace()));
        let spec = line.map_err(|e| e.to_string())?.spec;
        super::super::check(&spec).map_err(Failure::into_text)
    }

    #[test]
    fn bad_combinations_are_named() {
        for (words, said) in [
            ("--policy srpt --rho 0.8 --pages 10 --jobs 5", "--jobs: --pages says how long"),
            ("--policy srpt --rho 0.8 --pages 10 --warm-up 5", "--warm-up: --pages says how long"),
            ("--policy srpt --pages 10", "--rho: write the load"),
            ("--policy srpt --rho 1 --pages 10", "--rho: a load of 1"),
            ("--policy srpt --rho 0.8 --pages 0", "--pages: 0 pages: write 1 to"),
            ("--policy srpt --rho 0.8 --pages 10 --page-connections 0", "--page-connections: 0 connections"),
            (
                "--policy srpt --rho 0.8 --pages 10 --page-connections 6 --carriers stage",
                "--carriers: of several connections",
            ),
            ("--policy srpt --rho 0.8 --pages 10 --carriers best", "--carriers: `best`: write stage or none"),
            ("--policy srpt --rho 0.8 --pages 10 --wire tcp", "--wire: its handshake"),
            ("--policy srpt --rho 0.8 --pages 10 --clients trace", "--clients: pages have no trace"),
            ("--policy ps --rho 0.8 --pages 10", "--policy: ps has no carriers"),
            ("--policy srpt --rho 0.8 --pages 10 --model packet", "--pages: it belongs to --model queue"),
            ("--policy srpt --rho 0.8 --dist exponential:mean=5000 --carriers stage", "--carriers: each job has"),
            ("--policy srpt --rho 0.8 --dist exponential:mean=5000 --pages 10", "cannot be used with"),
            (
                "--policy srpt --rho 0.8 --dist exponential:mean=5000 --page-connections 6",
                "--page-connections: there are no pages",
            ),
        ] {
            let found = check(words).unwrap_err();
            assert!(found.contains(said), "{words}: {found}");
        }
    }

    #[test]
    fn good_ones_are_taken() {
        for words in [
            "--policy srpt --rho 0.8 --pages 10",
            "--policy fair --rho 0.8 --pages 10 --carriers none",
            "--policy ps --rho 0.8 --pages 10 --carriers none",
            "--policy srpt --rho 0.8 --pages 10 --page-connections 6",
        ] {
            check(words).unwrap_or_else(|said| panic!("{words}: {said}"));
        }
    }
}
