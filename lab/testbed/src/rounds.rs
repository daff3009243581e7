//! Several runs at once, as many as the processors can bear: which ones, for how long, and what the finished ones tell of it.
//!
//! Runs are done in rounds. The runs of a point, which are compared with each other, are in one round if they can be, so
//! that all had the same company. How many fit is decided by the processor time that finished runs of the same server on
//! the same link took; whether it was too many after all, the rules decide by which a run is void.

use std::collections::BTreeMap;
use std::time::Duration;

use record::Manifest;

/// Share of all processors that the runs of a round may take together: half, as for a server by itself.
const CPU_SHARE: f64 = 0.5;
/// Cores taken by a run of whose kind none is finished, for each 10 Mbit/s of its link. Measured: 0.02 to 0.08.
const CORES_PER_10_MBIT: f64 = 0.05;
/// Cores by which a sum of costs may miss a whole number of them.
const ROUNDING: f64 = 1e-6;
/// What a round takes beside its load until one has been measured: links, servers, results.
const OVERHEAD_AT_FIRST: Duration = Duration::from_secs(6);

/// What a run costs, by what it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) server: String,
    pub(crate) policy: String,
    pub(crate) shaping: String,
    pub(crate) link_bps: u64,
}

/// Of a run that is to be done: as much as decides when.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    /// Runs of the same point have the same number.
    pub(crate) point: usize,
    pub(crate) kind: Kind,
    pub(crate) lasts: Duration,
    /// Runs at once, itself included, that it bears at most: fewer than those in whose company it was void.
    pub(crate) company_max: usize,
}

/// What is known of costs and times.
#[derive(Debug, Clone)]
pub(crate) struct Experience {
    cores: BTreeMap<Kind, f64>,
    overhead: Duration,
    /// Runs at once, at most.
    pub(crate) parallel: usize,
    /// Cores that the runs of a round may take.
    budget: f64,
}

impl Experience {
    pub(crate) fn new(parallel: usize, processors: usize) -> Experience {
        let budget = CPU_SHARE * processors as f64;
        Experience { cores: BTreeMap::new(), overhead: OVERHEAD_AT_FIRST, parallel: parallel.max(1), budget }
    }

    /// Learns from a finished run what its kind costs.
    pub(crate) fn learn(&mut self, manifest: &Manifest, kind: Kind) {
        let cores = manifest.server_cpu.unwrap_or_default() + manifest.client_cpu.unwrap_or_default();
        if cores.is_finite() && cores > 0.0 {
            let most = self.cores.entry(kind).or_default();
            *most = most.max(cores);
        }
    }

    /// Learns what a round took beside the time its runs had to last.
    pub(crate) fn learn_time(&mut self, took: Duration, lasts: Duration) {
        self.overhead = (self.overhead + took.saturating_sub(lasts)) / 2;
    }

    fn cores_of(&self, kind: &Kind) -> f64 {
        let unknown = CORES_PER_10_MBIT * kind.link_bps as f64 / 1e7;
        self.cores.get(kind).copied().unwrap_or(unknown)
    }

    /// How many of the runs due, from the first on, make the next round; at least one.
    ///
    /// A point that does not fit as a whole behind others is not begun.
    pub(crate) fn round(&self, due: &[Due]) -> usize {
        let fits = |count: usize| {
            let round = &due[..count];
            let cores: f64 = round.iter().map(|run| self.cores_of(&run.kind)).sum();
            count <= self.parallel
                && cores <= self.budget + ROUNDING
                && round.iter().all(|run| count <= run.company_max)
        };
        let most = (1..=due.len()).take_while(|&count| count == 1 || fits(count)).last().unwrap_or(0);
        let is_whole = |count: usize| count == due.len() || due[count - 1].point != due[count].point;
        (1..=most).rev().find(|&count| is_whole(count)).unwrap_or(most)
    }

    /// How long all of them will take, and in how many rounds.
    pub(crate) fn estimate(&self, mut due: &[Due]) -> (Duration, usize) {
        let (mut time, mut rounds) = (Duration::ZERO, 0);
        while !due.is_empty() {
            let (round, rest) = due.split_at(self.round(due));
            time += self.overhead + lasts(round);
            rounds += 1;
            due = rest;
        }
        (time, rounds)
    }
}

/// How long a round of these runs lasts: as its longest.
pub(crate) fn lasts(round: &[Due]) -> Duration {
    round.iter().map(|run| run.lasts).max().unwrap_or_default()
}

/// A length of time for people.
pub(crate) fn about(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..6000 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(points: &[usize]) -> Vec<Due> {
        let kind = Kind { server: "weir".into(), policy: "srpt".into(), shaping: "paced".into(), link_bps: 10_000_000 };
        let run = |point| Due { point, kind: kind.clone(), lasts: Duration::from_secs(60), company_max: usize::MAX };
        points.iter().map(|&point| run(point)).collect()
    }

    #[test]
    fn points_stay_together() {
        let six = Experience::new(6, 8);
        assert_eq!(six.round(&due(&[0, 0, 0, 0, 0, 0, 1, 1])), 6);
        assert_eq!(six.round(&due(&[0, 0, 0, 0, 1, 1, 1, 1])), 4, "the second point does not fit as a whole");
        assert_eq!(six.round(&due(&[0, 0, 1, 1, 2, 2, 3])), 6);
        assert_eq!(six.round(&due(&[0; 11])), 6, "no round holds this point");
        assert_eq!((six.round(&due(&[0])), six.round(&[])), (1, 0));
    }

    #[test]
    fn what_runs_cost_decides_how_many() {
        let mut experience = Experience::new(100, 2);
        let runs = due(&[0; 40]);
        assert_eq!(experience.round(&runs), 20, "a twentieth of a core each, one core for all");
        let text = r#"{"name":"a","server":"weir","policy":"srpt","shaping":"paced","link_bps":1,"rho":0.8,"seed":1,
            "per_connection":1,"seconds":1.0,"commit":"","kernel":"","command":[],"server_cpu":0.2,"client_cpu":0.1,
            "lateness_ns_p99":null,"wire_bytes":null,"void":null,"environment":{}}"#;
        experience.learn(&serde_json::from_str(text).unwrap(), runs[0].kind.clone());
        assert_eq!(experience.round(&runs), 3);
        assert_eq!(Experience::new(0, 1).round(&runs), 1, "at least one, whatever it costs");
    }

    #[test]
    fn what_had_too_much_company_gets_less() {
        let mut runs = due(&[0, 0, 0, 1, 1, 1]);
        for run in &mut runs[3..] {
            run.company_max = 2;
        }
        let experience = Experience::new(6, 8);
        assert_eq!([0, 3, 5].map(|from| experience.round(&runs[from..])), [3, 2, 1]);
    }

    #[test]
    fn rounds_add_up() {
        let mut experience = Experience::new(6, 8);
        let runs = due(&[0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(experience.estimate(&runs), (Duration::from_secs(132), 2));
        experience.learn_time(Duration::from_secs(70), Duration::from_secs(60));
        assert_eq!(experience.estimate(&runs).0, Duration::from_secs(136));
        assert_eq!([59, 700, 9000].map(|s| about(Duration::from_secs(s))), ["59 s", "12 min", "2.5 h"]);
    }
}
