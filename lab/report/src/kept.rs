//! Summaries that were kept without their records: what stands in `results/` of a run whose command makes the rest again.
//!
//! They are read as they were written then. What a report computes today and did not at that time is not made up here.

use std::fmt::Write as _;

use serde::Deserialize;

/// The contents of a `summary.json` of any age; further fields are for other readers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Kept {
    experiment: String,
    rho: f64,
    rho_measured: f64,
    link_bps: u64,
    jobs: usize,
    bound_ms: f64,
    ideal_ps_ms: f64,
    runs: Vec<KeptRun>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct KeptRun {
    name: String,
    response_time_ms: Times,
    slowdown_mean: f64,
    bound_ratio: f64,
    void: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Times {
    mean: f64,
    p50: f64,
    p99: f64,
    max: f64,
}

/// Longer names of runs are cut.
const NAME_CHARS_MAX: usize = 30;

impl Kept {
    /// Reads a `summary.json`.
    pub fn parse(text: &str) -> Result<Kept, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// For people: a heading, a line for each run, and why runs are void.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{}: {} jobs, link {} Mbit/s, rho {} asked for, {:.3} offered; kept without its records\n  \
             bound {:.2} ms, ideal processor sharing {:.2} ms\n\n\
             {:<NAME_CHARS_MAX$} {:>10} {:>10} {:>10} {:>10} {:>9} {:>7}\n",
            self.experiment,
            self.jobs,
            self.link_bps as f64 / 1e6,
            self.rho,
            self.rho_measured,
            self.bound_ms,
            self.ideal_ps_ms,
            "response time, ms",
            "mean",
            "p50",
            "p99",
            "max",
            "slowdown",
            "/ bound",
        );
        for run in &self.runs {
            let name: String = run.name.chars().take(NAME_CHARS_MAX).collect();
            let Times { mean, p50, p99, max } = run.response_time_ms;
            let (slowdown, ratio) = (run.slowdown_mean, run.bound_ratio);
            let _ = writeln!(
                text,
                "{name:<NAME_CHARS_MAX$} {mean:>10.2} {p50:>10.2} {p99:>10.2} {max:>10.2} {slowdown:>9.2} {ratio:>7.2}"
            );
        }
        for run in &self.runs {
            if let Some(void) = &run.void {
                let _ = writeln!(text, "VOID {}: {void}", run.name);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = r#"{"experiment":"e","rho":0.8,"rho_measured":0.79,"link_bps":10000000,"jobs":2,"bound_ms":6.7,
        "ideal_ps_ms":13.1,"runs":[{"name":"nginx","response_time_ms":{"mean":68.2,"p50":51.5,"p90":90.0,"p99":303.9,
        "max":900.0},"slowdown_mean":59.4,"bound_ratio":10.2,"void":"late","server_cpu":null}]}"#;

    #[test]
    fn says_what_was_kept() {
        let table = Kept::parse(SUMMARY).unwrap().table();
        assert!(
            table.starts_with("e: 2 jobs, link 10 Mbit/s, rho 0.8 asked for, 0.790 offered; kept without"),
            "{table}"
        );
        let row = table.lines().find(|line| line.starts_with("nginx ")).unwrap();
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>(),
            ["nginx", "68.20", "51.50", "303.90", "900.00", "59.40", "10.20"]
        );
        assert!(table.ends_with("VOID nginx: late\n"));
    }

    #[test]
    fn what_is_no_summary_is_an_error() {
        assert!(Kept::parse("{}").unwrap_err().to_string().contains("experiment"));
    }
}
