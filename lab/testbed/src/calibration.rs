//! Determines the load of a run a second time, from the bytes that the link really sent.
//!
//! The first determination is arithmetic: the wire bytes of all responses, as `units::wire` counts them, divided by the
//! capacity of the link (`rho_measured`). The second is the load at which utilisation stopped growing. It fits a queue
//! with those same responses to the shaper's counts, with the cost and the capacity as parameters
//! (`stats::saturation`). If the arithmetic is right and the shaper exact, the result is 1.
//!
//! If users give up, responses are sent partly or twice, and no such queue fits; those runs have no calibration. A
//! run of many seconds at 0.8 is enough.

use std::path::Path;

use record::{Outcome, Run, Samples};
use serde::Serialize;
use stats::{Sent, Work, saturation};
use units::wire;

use crate::LabError;
use crate::view::LINK_SENT;

/// The maximum difference at which the two loads agree (experiments.md, common rules).
pub const DIFFERENCE_MAX: f64 = 0.02;
/// The maximum half width of the interval; a less certain calibration is useless.
const HALF_WIDTH_MAX: f64 = 0.02;
/// The length of a bin of sent bytes, long compared with the time from a response to the shaper.
const BIN_NS: u64 = 1_000_000_000;
/// The maximum share of jobs that did not complete or were unfinished at the end of the run.
const LOST_SHARE_MAX: f64 = 0.001;

const FILE: &str = "calibration.json";

/// The results, each with half its 95 % confidence interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// The load, as counted, at which the link is full.
    pub critical_rho: f64,
    pub critical_rho_half_width: f64,
    /// The share of the link's rate that the shaper let through when it was busy.
    pub capacity_share: f64,
    pub capacity_share_half_width: f64,
    /// The bytes sent for each byte counted.
    pub wire_ratio: f64,
    pub wire_ratio_half_width: f64,
    /// True if the critical load is 1, to within [`DIFFERENCE_MAX`].
    pub agrees: bool,
}

impl Calibration {
    /// Returns the calibration of a finished run, or `None` where it has none.
    pub fn of(run: &Run, samples: &Samples) -> Option<Calibration> {
        let is_lost = |outcome: Outcome| !matches!(outcome, Outcome::Complete | Outcome::Incomplete);
        let lost = run.records.iter().filter(|record| is_lost(record.outcome) || record.attempts > 1).count();
        if lost as f64 > LOST_SHARE_MAX * run.records.len() as f64 {
            return None;
        }
        let capacity = run.manifest.link_bps as f64 / 8.0;
        let found = saturation(&work(run), &sent(samples, run.manifest.seconds), capacity)?;
        let of_link = |bytes_per_s: f64| bytes_per_s / capacity;
        let critical_rho = of_link(found.critical);
        let critical_rho_half_width = of_link(found.critical_half_width);
        // A value that is not a number is no result.
        (critical_rho_half_width <= HALF_WIDTH_MAX).then(|| Calibration {
            critical_rho,
            critical_rho_half_width,
            capacity_share: of_link(found.capacity),
            capacity_share_half_width: of_link(found.capacity_half_width),
            wire_ratio: found.cost,
            wire_ratio_half_width: found.cost_half_width,
            agrees: (critical_rho - 1.0).abs() <= DIFFERENCE_MAX,
        })
    }

    /// Describes the calibration for users and for the manifest.
    pub fn describe(&self) -> String {
        let Calibration { critical_rho, critical_rho_half_width, capacity_share, wire_ratio, .. } = self;
        let verdict = match self.agrees {
            true => "agrees with the analytical load",
            false => "differs from the analytical load by more than 2 %",
        };
        format!(
            "full at rho {critical_rho:.4} ± {critical_rho_half_width:.4} ({:.2} % of the link's rate carried, {wire_ratio:.4} \
             bytes sent for each counted): {verdict}",
            100.0 * capacity_share
        )
    }

    /// Writes `calibration.json` into a folder.
    pub fn write(&self, folder: &Path) -> Result<(), LabError> {
        let path = folder.join(FILE);
        let text = serde_json::to_string_pretty(self).map_err(|e| LabError::path(&path, e.into()))?;
        std::fs::write(&path, text + "\n").map_err(|e| LabError::path(&path, e))
    }
}

/// The responses, each with its share of the bytes for connections, as the load was counted.
fn work(run: &Run) -> Vec<Work> {
    let connection = wire::CONNECTION_BYTES as f64 / run.manifest.per_connection.max(1) as f64;
    let mut work: Vec<Work> = { run.records.iter() }
        .map(|record| Work {
            at_s: record.arrival_ns as f64 / 1e9,
            amount: workload::wire_bytes(record.size_bytes) as f64 + connection,
        })
        .collect();
    // Users in a closed loop are not recorded in order.
    work.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
    work
}

/// The total bytes that the shaper had sent, once a second while requests arrived.
fn sent(samples: &Samples, seconds: f64) -> Vec<Sent> {
    let mut next_ns = 0;
    let mut sent = vec![];
    for (at_ns, total) in samples.series(LINK_SENT) {
        if at_ns >= next_ns && at_ns as f64 <= seconds * 1e9 {
            sent.push(Sent { at_s: at_ns as f64 / 1e9, total: total as f64 });
            next_ns = (at_ns / BIN_NS + 1) * BIN_NS;
        }
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{JobRecord, Manifest, Sample};

    const LINK_BYTES_PER_S: u64 = 1_250_000;

    /// Responses of 12,248 bytes for 60 s, first 60 and then 120 per second, and the counts of a link that needs `cost`
    /// times their bytes.
    fn run(cost: f64) -> (Run, Samples) {
        let manifest = Manifest { link_bps: 10_000_000, rho: 1.0, seconds: 60.0, ..Manifest::new("a") };
        let arrivals =
            (0..1800).map(|n| n * 1_000_000_000 / 60).chain((0..3600).map(|n| (30_000 + n * 1000 / 120) * 1_000_000));
        let record = |(job, at_ns)| JobRecord { head_bytes: 240, ..JobRecord::complete(job, 12_248, at_ns, at_ns) };
        let records: Vec<JobRecord> = (0..).zip(arrivals).map(record).collect();
        let bytes = (workload::wire_bytes(12_248) + wire::CONNECTION_BYTES) as f64;
        let slack = |at: u64| (60.0 * bytes * cost * at as f64) as u64;
        let total = |at: u64| if at <= 30 { slack(at) } else { slack(30) + (at - 30) * LINK_BYTES_PER_S };
        let rows = (0..=60).map(|at| Sample { at_ns: at * BIN_NS, values: vec![Some(7 + total(at))] }).collect();
        (Run { manifest, records, pages: vec![] }, Samples { columns: vec![LINK_SENT.into()], rows })
    }

    #[test]
    fn a_link_that_sends_what_is_counted_agrees() {
        let (run, samples) = run(1.0);
        let found = Calibration::of(&run, &samples).unwrap();
        assert!((found.critical_rho - 1.0).abs() < 0.01 && found.agrees, "{found:?}");
        assert!((found.capacity_share - 1.0).abs() < 0.01 && (found.wire_ratio - 1.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_link_that_sends_more_than_is_counted_is_full_sooner() {
        let (run, samples) = run(1.05);
        let found = Calibration::of(&run, &samples).unwrap();
        assert!((found.critical_rho - 1.0 / 1.05).abs() < 0.01 && !found.agrees, "{found:?}");
        assert!(
            found.describe().ends_with("differs from the analytical load by more than 2 %"),
            "{}",
            found.describe()
        );
    }

    #[test]
    fn users_who_gave_up_leave_no_calibration() {
        let (mut run, samples) = run(1.0);
        run.records.iter_mut().step_by(100).for_each(|record| record.outcome = Outcome::Aborted);
        assert_eq!(Calibration::of(&run, &samples), None);
        assert_eq!(Calibration::of(&self::run(1.0).0, &Samples::default()), None);
    }
}
