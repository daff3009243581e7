//! Whether the wide-area link of a run was itself a delay. The link is a process of ours that counts how much later than
//! they were to its packets left; on a busy machine a path of 50 ms may have been one of 60 now and then.

use std::time::Duration;

use record::Manifest;
use serde::Deserialize;
use units::{Nanos, parse_duration};

/// Lateness of the link at the 99th percentile of its packets above which no run is used: that of the load generator, for the
/// same reason. A packet that comes a millisecond late makes its response as late as a request submitted late does.
/// Runs of 003 and 002 with 9 to 12 links at once: 0.02 to 0.20 ms; the response times they tell apart are 5 ms and more.
pub const WAN_LATENESS_P99_MAX: Nanos = Nanos::from_millis(1);

/// Where a path has jitter, lateness may be a tenth of it at most: that much moves a distribution of delays by 0.05
/// (Kolmogorov-Smirnov, uniform jitter), as far as the link is from netem anyway (0.03 to 0.11).
const JITTER_PARTS: u64 = 10;

/// Mean lateness as a part of the shortest round trip that was asked for. A round trip crosses the link twice, and each crossing
/// may be late twice: leaving, which is counted, and coming in, when the process that has to read the packet waits as
/// long, which is not. Four times a 200th are 2 %, as much as two ways of counting the load may differ.
/// The same runs: 0.05 ms at most, of 0.25 allowed at 50 ms.
const RTT_PARTS: u64 = 200;

/// What we need of what the link counted.
#[derive(Deserialize)]
struct Counted {
    lateness_us_mean: f64,
    lateness_us_p99: f64,
}

/// Why the run is void by a link of ours, a wide-area one or the wire; `None` where they were in time, or there are none.
pub(crate) fn reason(manifest: &Manifest) -> Option<String> {
    of_wire(manifest).or_else(|| of_paths(manifest))
}

/// The wire behind the shaper, where it is a process of ours.
fn of_wire(manifest: &Manifest) -> Option<String> {
    let counted = manifest.environment.get("wire_counted")?;
    let Ok(counted) = serde_json::from_str::<Counted>(counted) else {
        return Some("the wire does not say how late it was".into());
    };
    let (late_ms, most_ms) = (counted.lateness_us_p99 / 1e3, WAN_LATENESS_P99_MAX.as_millis_f64());
    (late_ms.is_nan() || late_ms > most_ms)
        .then(|| format!("the wire was {late_ms:.2} ms late at the 99th percentile, more than {most_ms} ms"))
}

fn of_paths(manifest: &Manifest) -> Option<String> {
    let said = |name: &str| manifest.environment.get(name).map(String::as_str);
    if said("wan") != Some("own") {
        return None;
    }
    let Some(counted) = said("wan_counted").and_then(|text| serde_json::from_str::<Counted>(text).ok()) else {
        return Some("the wide-area link does not say how late it was".into());
    };
    let paths = said("wan_paths").unwrap_or_default();
    let p99_max = shortest(paths, "jitter")
        .map_or(WAN_LATENESS_P99_MAX, |jitter| WAN_LATENESS_P99_MAX.min(Nanos(jitter.0 / JITTER_PARTS)));
    let mean_max = shortest(paths, "rtt").map(|rtt| Nanos(rtt.0 / RTT_PARTS));
    let over = |late_us: f64, most: Nanos, at: &str| {
        let (late_ms, most_ms) = (late_us / 1e3, most.as_millis_f64());
        // What is not a number was not measured: that is no better than too much.
        (late_ms.is_nan() || late_ms > most_ms)
            .then(|| format!("the wide-area link was {late_ms:.2} ms late {at}, more than {most_ms} ms"))
    };
    over(counted.lateness_us_p99, p99_max, "at the 99th percentile")
        .or_else(|| over(counted.lateness_us_mean, mean_max?, "in the mean"))
}

/// The shortest time above 0 that goes by this name among paths such as `a=198.18.16.0/24,rtt=50ms,jitter=10ms`.
fn shortest(paths: &str, name: &str) -> Option<Nanos> {
    let value = |word: &str| parse_duration(word.strip_prefix(name)?.strip_prefix('=')?).ok();
    let times = paths.split([' ', ',']).filter_map(value).filter(|time| *time > Duration::ZERO);
    times.min().map(Nanos::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;
    use crate::void_reason;

    #[test]
    fn a_wire_that_is_late_voids_the_run() {
        let said = |counted: &str| {
            let mut run = run("a", &[(0, 10, 1)]);
            run.manifest.environment.insert("wire_counted".into(), counted.into());
            void_reason(&run)
        };
        assert_eq!(said(r#"{"lateness_us_mean":18.0,"lateness_us_p99":1000.0}"#), None);
        let late = "the wire was 1.50 ms late at the 99th percentile, more than 1 ms";
        assert_eq!(said(r#"{"lateness_us_mean":18.0,"lateness_us_p99":1500.0}"#).unwrap(), late);
        assert_eq!(said("{}").unwrap(), "the wire does not say how late it was");
    }

    fn said(paths: &str, mean_us: f64, p99_us: f64) -> Option<String> {
        let mut run = run("a", &[(0, 10, 1)]);
        let counted =
            format!("{{\"groups\":[],\"lateness_us_mean\":{mean_us},\"lateness_us_p99\":{p99_us},\"refused\":0}}");
        let pairs = [("wan", "own"), ("wan_paths", paths), ("wan_counted", &counted)];
        run.manifest.environment.extend(pairs.map(|(name, value)| (name.into(), value.into())));
        void_reason(&run)
    }

    const FAR: &str = "a=198.18.16.0/24,rtt=150ms,jitter=0s,loss=0 b=198.18.17.0/24,rtt=50ms,jitter=0s,loss=0.05";

    #[test]
    fn what_was_kept_is_good() {
        // The latest of the runs with delay, the latest with jitter, the latest with loss alone.
        assert_eq!(said("a=198.18.16.0/24,rtt=50ms,jitter=0s,shape=normal", 47.8, 201.7), None);
        assert_eq!(said("a=198.18.16.0/24,rtt=50ms,jitter=10ms,shape=uniform", 18.6, 67.1), None);
        assert_eq!(said("a=198.18.16.0/24,rtt=0s,jitter=0s,loss=0.15", 6.9, 118.8), None);
        assert_eq!(said(FAR, 250.0, 1000.0), None, "at the limit");
    }

    #[test]
    fn a_late_link_voids_a_run() {
        let late = "the wide-area link was 1.10 ms late at the 99th percentile, more than 1 ms";
        assert_eq!(said(FAR, 26.0, 1100.0).unwrap(), late);
        assert_eq!(said("a=198.18.16.0/24,rtt=0s,jitter=0s,loss=0.15", 7.0, 1100.0).unwrap(), late);
        let late = "the wide-area link was 0.30 ms late in the mean, more than 0.25 ms";
        assert_eq!(said(FAR, 300.0, 900.0).unwrap(), late, "of the nearer");
        let late = "the wide-area link was 0.25 ms late at the 99th percentile, more than 0.2 ms";
        assert_eq!(said("a=198.18.16.0/24,rtt=50ms,jitter=2ms", 20.0, 250.0).unwrap(), late);
        assert!(said(FAR, f64::NAN, 10.0).unwrap().contains("does not say how late"), "NaN is no JSON");
    }

    #[test]
    fn netem_and_cables_are_not_ours_to_judge() {
        let mut manifest = run("a", &[(0, 10, 1)]).manifest;
        assert_eq!(reason(&manifest), None);
        manifest.environment.insert("wan".into(), "netem".into());
        manifest.environment.insert("wan_counted".into(), "qdisc netem 1: root".into());
        assert_eq!(reason(&manifest), None);
    }
}
