//! The share of its line that a run used. Response times do not show a rate that was found too low, or an order that
//! leaves the line idle.

use record::{CARRIED, Samples};

use super::LINK_SENT;

/// The bytes that the bottleneck sent while requests arrived, divided by the line's capacity in that time, for the
/// manifest. Above a load of 1 it is the share of the line that was used; below 1 it is the load.
pub(crate) fn carried(samples: &Samples, link_bps: u64, seconds: f64) -> Option<(String, String)> {
    let within = |(at_ns, _): &(u64, u64)| *at_ns as f64 <= seconds * 1e9;
    let sent: Vec<(u64, u64)> = samples.series(LINK_SENT).into_iter().filter(within).collect();
    let (first, last) = sent.first().zip(sent.last())?;
    let could = link_bps as f64 / 8.0 * (last.0 - first.0) as f64 / 1e9;
    let share = last.1.saturating_sub(first.1) as f64 / could;
    (could > 0.0).then(|| (CARRIED.into(), format!("{share:.4}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Sample;

    fn samples(rows: &[(u64, u64)]) -> Samples {
        let row = |&(ms, bytes): &(u64, u64)| Sample { at_ns: ms * 1_000_000, values: vec![Some(bytes)] };
        Samples { columns: vec![LINK_SENT.into()], rows: rows.iter().map(row).collect() }
    }

    #[test]
    fn what_the_link_sent_while_requests_arrived_counts() {
        let rows = [(100, 7), (600, 500_007), (1100, 975_007), (1200, 9_000_000)];
        let (key, share) = carried(&samples(&rows), 8_000_000, 1.15).unwrap();
        assert_eq!((key.as_str(), share.as_str()), ("link_carried_share", "0.9750"));
    }

    #[test]
    fn a_run_without_a_link_has_no_share() {
        assert_eq!(carried(&Samples::default(), 8_000_000, 1.0), None);
        assert_eq!(carried(&samples(&[(100, 7)]), 8_000_000, 1.0), None, "a single look");
        assert_eq!(carried(&samples(&[(100, 7), (200, 9)]), 0, 1.0), None, "a rate that nobody knows");
    }
}
