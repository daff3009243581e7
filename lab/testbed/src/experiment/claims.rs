//! Claims of an experiment, checked before the first run as far as possible. Python judges them when all runs are done
//! (`python/src/weirlab/figures.py` has the figures), and a misspelt name must be found before hours of runs.

use toml::{Table, Value};

use super::Point;

/// The subjects and bases of a claim other than runs.
const ORACLES: [&str; 2] = ["bound", "ideal-ps"];
/// Figures that are a statistic of times, such as `response_time_ms.mean`.
const TIMES: [&str; 5] = ["response_time_ms", "completed_ms", "first_byte_ms", "slowdown", "second_means_ms"];
const STATS: [&str; 8] = ["mean", "variance", "scv", "p50", "p90", "p99", "p999", "max"];
/// The statistics of a column of `samples.parquet`, as in `samples.link_backlog_packets.max`.
const OF_SAMPLES: [&str; 4] = ["max", "mean", "last", "first_s"];
const OTHERS: [&str; 16] = [
    "slowdown_mean",
    "completed",
    "incomplete",
    "incomplete_share",
    "bytes",
    "server_cpu",
    "connections_max",
    "syn_drops",
    "share_gaining",
    "share_starved",
    "stretch.mean",
    "stretch.max",
    "bucket_share_gaining",
    "bucket_variance_ratio",
    "bucket_scv_ratio",
    "file_share_starved",
];

/// Checks that the figure's claims refer to existing runs and figures.
pub(super) fn check_claims(figure: Option<&Table>, points: &[Point]) -> Result<(), String> {
    let mut runs: Vec<&str> =
        points.iter().flat_map(|point| point.experiment.runs()).map(|run| run.name.as_str()).collect();
    runs.dedup();
    let claims = figure.and_then(|figure| figure.get("expect")).and_then(Value::as_array).into_iter().flatten();
    for claim in claims {
        let said = |key: &str| claim.get(key).and_then(Value::as_str);
        let wrong = |reason: String| Err(format!("figure.expect `{}`: {reason}", said("text").unwrap_or_default()));
        for (key, name) in ["of", "over"].into_iter().filter_map(|key| Some((key, said(key)?))) {
            if !runs.contains(&name) && !ORACLES.contains(&name) {
                return wrong(format!("{key}: there is no run `{name}`; the runs are {}", runs.join(", ")));
            }
        }
        match said("value") {
            None => return wrong("value is missing: write a figure, such as \"response_time_ms.mean\"".into()),
            Some(value) if !is_figure(value) => {
                return wrong(format!("value: `{value}` is no figure; there are {}", known()));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn is_figure(name: &str) -> bool {
    let of_time = name.rsplit_once('.').is_some_and(|(of, stat)| {
        TIMES.contains(&of) && STATS.contains(&stat) || of.starts_with("samples.") && OF_SAMPLES.contains(&stat)
    });
    of_time || OTHERS.contains(&name)
}

fn known() -> String {
    let [times, stats, of_samples] = [TIMES.join("|"), STATS.join("|"), OF_SAMPLES.join("|")];
    format!("{{{times}}}.{{{stats}}}, samples.COLUMN.{{{of_samples}}}, {}", OTHERS.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python has exactly the same names.
    #[test]
    fn the_figures_are_those_of_python() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/src/weirlab/figures.py");
        let text = std::fs::read_to_string(path).unwrap();
        let names = |start: &str, end: &str| -> Vec<&str> {
            let list = text.split_once(start).unwrap().1.split_once(end).unwrap().0;
            list.split('"').skip(1).step_by(2).collect()
        };
        assert_eq!(names("\nTIMES = (", ")"), TIMES);
        assert_eq!(names("\n_COUNTER_STATS = (", ")"), OF_SAMPLES);
        let mut others = vec!["slowdown_mean"];
        others.extend(names("\nCOUNTS = (", ")"));
        others.push("server_cpu");
        let short = text.split_once("\n_SHORT = {").unwrap().1.split_once("\n}").unwrap().0.lines();
        others.extend(short.filter_map(|line| Some(line.trim().strip_prefix('"')?.split_once("\":")?.0)));
        others.extend(names("\n_PAIRS = {", "\n}"));
        assert_eq!(others, OTHERS);
        let stats = names("\n_STATS = (", ")").into_iter().chain(names("\n_PERMILLE = {", "}")).collect::<Vec<_>>();
        assert_eq!(stats, STATS);
    }
}
