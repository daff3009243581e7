//! Determines whether the processors of the machine, and not the link, limited a run.

use std::collections::BTreeMap;

use record::Samples;

/// The shares of processor time while requests arrived, for the manifest; `report` uses them to judge the run.
///
/// `machine_busy_share` is the share of all processors' time used by programs of ordinary or better priority, including
/// the run's own. Programs at lower priority (`nice`) yield and are not counted. `server_wait_share` is the share of
/// the run's time in which a process of the server was ready and waited for a processor. It is the better measure: it
/// includes everything that delayed the server, and nothing else.
pub(crate) fn shares(samples: &Samples, seconds: f64) -> BTreeMap<String, String> {
    let within = |(at_ns, _): &(u64, u64)| *at_ns as f64 <= seconds * 1e9;
    let grown = |column: &str| {
        let series: Vec<(u64, u64)> = samples.series(column).into_iter().filter(within).collect();
        let (first, last) = (series.first()?, series.last()?);
        Some(((last.0 - first.0) as f64, last.1.saturating_sub(first.1) as f64))
    };
    let of = |column: &str| grown(column).map_or(0.0, |(_, us)| us);
    let (busy, nice, idle) = (of("machine_busy_us_total"), of("machine_nice_us_total"), of("machine_idle_us_total"));
    let mut shares = BTreeMap::new();
    if busy + nice + idle > 0.0 {
        shares.insert("machine_busy_share".to_owned(), format!("{:.4}", busy / (busy + nice + idle)));
    }
    if let Some((ns, waited_us)) = grown("server_waited_us_total").filter(|(ns, _)| *ns > 0.0) {
        shares.insert("server_wait_share".to_owned(), format!("{:.4}", waited_us * 1e3 / ns));
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Sample;

    #[test]
    fn counts_the_time_of_arrivals_only_and_no_lower_priority() {
        let columns =
            ["machine_busy_us_total", "machine_nice_us_total", "machine_idle_us_total", "server_waited_us_total"];
        let row =
            |second: u64, values: [u64; 4]| Sample { at_ns: second * 1_000_000_000, values: values.map(Some).into() };
        let rows = vec![
            row(0, [1_000_000, 0, 0, 7]),
            row(2, [2_000_000, 1_000_000, 2_000_000, 100_007]),
            row(3, [9_000_000, 1_000_000, 2_000_000, 3_000_000]),
        ];
        let samples = Samples { columns: columns.map(String::from).into(), rows };
        let shares = shares(&samples, 2.0);
        assert_eq!((shares["machine_busy_share"].as_str(), shares["server_wait_share"].as_str()), ("0.2500", "0.0500"));
    }

    #[test]
    fn what_was_not_sampled_is_not_said() {
        assert!(shares(&Samples::default(), 10.0).is_empty());
    }
}
