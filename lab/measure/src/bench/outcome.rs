//! The results: rounds, their medians, and ratios, which are computed only within a round.

use serde::Serialize;

use super::machine::Manifest;
use super::plan::Row;
use super::wrk::Load;

/// The share of its cores above which wrk and not the server is the bottleneck. Only CPU per request then compares
/// servers.
const GENERATOR_BOUND: f64 = 0.95;

/// The share of one core above which another program disturbed a round. A row is void if more than half of its rounds
/// were disturbed.
const DISTURBED: f64 = 0.1;

/// The size from which bytes are counted and divided by the size, because few responses finish in a round.
const COUNT_BYTES_FROM: u64 = 1 << 20;

#[derive(Debug, Serialize)]
pub struct Report {
    pub manifest: Manifest,
    pub contests: Vec<Contest>,
}

/// A row and all its servers; ratios are relative to the first.
#[derive(Debug, Serialize)]
pub struct Contest {
    pub row: Row,
    pub sides: Vec<Side>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Side {
    pub server: &'static str,
    pub rounds: Vec<Round>,
    /// The value of this server divided by the first server's in the same round.
    pub throughput_ratio: Option<Ratio>,
    pub cpu_ratio: Option<Ratio>,
}

/// A median over rounds, and an interval that contains the true median with 95 % confidence, whatever the distribution.
/// With fewer than six rounds there is no such interval, and the minimum and maximum take its place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

#[derive(Debug, Clone, Serialize)]
pub struct Round {
    pub requests_per_s: f64,
    pub bytes_per_s: f64,
    pub cpu_us_per_request: f64,
    /// The share of one core, and of wrk's cores.
    pub server_cpu: f64,
    pub wrk_cpu: f64,
    /// The share of one core that all other programs on the machine and its host took during the round.
    pub others_cpu: f64,
    pub void: Option<String>,
}

impl Round {
    /// Creates a round. `machine_cpu_s` is the CPU time of all programs together.
    pub fn new(row: &Row, wrk_threads: u32, server_cpu_s: f64, machine_cpu_s: f64, load: Load) -> Round {
        let size = row.file.size_bytes;
        let requests = if size >= COUNT_BYTES_FROM { load.bytes as f64 / size as f64 } else { load.requests as f64 };
        Round {
            requests_per_s: requests / load.seconds,
            bytes_per_s: load.bytes as f64 / load.seconds,
            cpu_us_per_request: server_cpu_s * 1e6 / requests,
            server_cpu: server_cpu_s / load.seconds,
            wrk_cpu: load.cpu_s / load.seconds / f64::from(wrk_threads),
            others_cpu: (machine_cpu_s - server_cpu_s - load.cpu_s).max(0.0) / load.seconds,
            void: void(&load),
        }
    }
}

/// Returns the reason why a round is void. A failed request is cheap and fast, so a round with one proves nothing.
fn void(load: &Load) -> Option<String> {
    match load {
        Load { requests: 0, bytes: 0, .. } => Some("nothing was answered".into()),
        Load { bad_statuses: 0, socket_errors: 0, .. } => None,
        Load { bad_statuses, socket_errors, .. } => {
            Some(format!("{bad_statuses} answers not 2xx, {socket_errors} socket errors"))
        }
    }
}

impl Side {
    pub fn new(server: &'static str) -> Side {
        Side { server, rounds: Vec::new(), throughput_ratio: None, cpu_ratio: None }
    }

    pub fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }

    pub fn rate_to(&self, base: &Side) -> Ratio {
        ratio(&self.rounds, &base.rounds, |round| round.requests_per_s)
    }

    pub fn cpu_to(&self, base: &Side) -> Ratio {
        ratio(&self.rounds, &base.rounds, |round| round.cpu_us_per_request)
    }

    pub fn void(&self) -> Option<String> {
        self.rounds.iter().find_map(|round| Some(format!("{}: {}", self.server, round.void.as_ref()?)))
    }
}

impl Contest {
    pub fn new(row: Row, mut sides: Vec<Side>) -> Contest {
        if sides.iter().all(|side| side.void().is_none()) {
            let base = sides[0].clone();
            for side in &mut sides {
                side.throughput_ratio = Some(side.rate_to(&base));
                side.cpu_ratio = Some(side.cpu_to(&base));
            }
        }
        Contest { row, sides }
    }

    /// A remark needed for a comparison: the row is void, or something other than the server was the bottleneck.
    pub fn note(&self) -> String {
        let void: Vec<String> = self.sides.iter().filter_map(Side::void).collect();
        if !void.is_empty() {
            return format!("VOID ({})", void.join("; "));
        }
        [self.generator_bound(), self.disturbed()].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    fn generator_bound(&self) -> Option<String> {
        let bound = self.sides.iter().filter(|side| side.median(|round| round.wrk_cpu) > GENERATOR_BOUND);
        let names: Vec<&str> = bound.map(|side| side.server).collect();
        (!names.is_empty()).then(|| format!("generator-bound ({}): compare CPU per request", names.join(", ")))
    }

    /// Returns a remark if the row was disturbed. Its ratios are still readable, because servers that take turns are
    /// disturbed alike, but must not be quoted.
    fn disturbed(&self) -> Option<String> {
        let rounds = self.sides.iter().map(|side| side.rounds.len()).min().unwrap_or(0);
        let is_disturbed = |at: &usize| self.sides.iter().any(|side| side.rounds[*at].others_cpu > DISTURBED);
        let disturbed = (0..rounds).filter(is_disturbed).count();
        let rounds_all = self.sides.iter().flat_map(|side| &side.rounds);
        let most = rounds_all.map(|round| round.others_cpu).fold(0.0, f64::max);
        let share = format!("{disturbed} of {rounds} rounds, others took up to {:.0} % of a core", most * 100.0);
        match disturbed {
            0 => None,
            n if 2 * n > rounds => Some(format!("VOID (noisy machine: {share})")),
            _ => Some(format!("disturbed in {share}")),
        }
    }

    pub fn side(&self, name: &str) -> Option<&Side> {
        self.sides.iter().find(|side| side.server == name)
    }
}

/// Returns the ratio of this server to the base in the same round.
fn ratio<R>(rounds: &[R], base: &[R], of: impl Fn(&R) -> f64) -> Ratio {
    let mut ratios: Vec<f64> = rounds.iter().zip(base).map(|(round, base)| of(round) / of(base)).collect();
    ratios.sort_by(f64::total_cmp);
    let outside = values_outside(ratios.len());
    let end = |at: usize| ratios.get(at).copied().unwrap_or(f64::NAN);
    Ratio { low: end(outside), high: end(ratios.len().wrapping_sub(outside + 1)), median: median(ratios) }
}

/// Returns how many of `n` sorted values lie below a 95 % interval of the median; as many lie above. The probability
/// that the median lies outside the k-th values from both ends is twice that of fewer than k heads in n tosses.
fn values_outside(n: usize) -> usize {
    let (mut chance, mut beyond) = (0.5f64.powi(n as i32), 0.0);
    for k in 0..n {
        beyond += 2.0 * chance;
        if beyond > 0.05 {
            return k.saturating_sub(1);
        }
        chance *= (n - k) as f64 / (k + 1) as f64;
    }
    0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::{KB, MB_10, Over, Sample};

    fn row(file: Sample) -> Row {
        Row { file, is_keep_alive: true, connections: 64, over: Over::Http1 }
    }

    /// A round of two seconds of load with one thread.
    fn round(file: Sample, requests: u64, bad_statuses: u64, wrk_cpu_s: f64) -> Round {
        let bytes = requests * file.size_bytes;
        let load = Load { requests, bytes, seconds: 2.0, bad_statuses, socket_errors: 0, cpu_s: wrk_cpu_s };
        Round::new(&row(file), 1, 1.0, 1.0 + wrk_cpu_s, load)
    }

    fn side(server: &'static str, rounds: Vec<Round>) -> Side {
        Side { rounds, ..Side::new(server) }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let base = [100, 200, 400].map(|n| round(KB, n, 0, 0.0)).to_vec();
        let other = [110, 220, 200].map(|n| round(KB, n, 0, 0.0)).to_vec();
        let contest = Contest::new(row(KB), vec![side("a", base), side("b", other)]);
        let (throughput, cpu) = (contest.sides[1].throughput_ratio.unwrap(), contest.sides[1].cpu_ratio.unwrap());
        assert!((throughput.low - 0.5).abs() < 1e-9 && (throughput.high - 1.1).abs() < 1e-9, "{throughput:?}");
        let (throughput, cpu) = (throughput.median, cpu.median);
        assert!((throughput - 1.1).abs() < 1e-9 && (cpu - 1.0 / 1.1).abs() < 1e-9, "{throughput} {cpu}");
        assert_eq!(contest.note(), "");
    }

    #[test]
    fn a_failed_request_voids_the_row() {
        let sides = vec![side("a", vec![round(KB, 100, 0, 0.0)]), side("b", vec![round(KB, 100, 1, 0.0)])];
        let contest = Contest::new(row(KB), sides);
        assert_eq!(contest.sides[1].throughput_ratio, None);
        assert_eq!(contest.note(), "VOID (b: 1 answers not 2xx, 0 socket errors)");
    }

    #[test]
    fn a_busy_generator_is_named() {
        let sides = vec![side("a", vec![round(KB, 100, 0, 1.8)]), side("b", vec![round(KB, 100, 0, 1.95)])];
        assert!(Contest::new(row(KB), sides).note().starts_with("generator-bound (b)"));
    }

    #[test]
    fn large_files_are_counted_by_bytes() {
        let load = Load {
            requests: 0,
            bytes: 5 * MB_10.size_bytes,
            seconds: 1.0,
            bad_statuses: 0,
            socket_errors: 0,
            cpu_s: 0.5,
        };
        let round = Round::new(&row(MB_10), 1, 0.1, 1.6, load);
        assert_eq!((round.requests_per_s, &round.void), (5.0, &None));
        assert!((round.cpu_us_per_request - 20_000.0).abs() < 1e-6);
        let contest = Contest::new(row(MB_10), vec![side("a", vec![round])]);
        assert_eq!(contest.note(), "VOID (noisy machine: 1 of 1 rounds, others took up to 100 % of a core)");
    }

    /// The values of the usual table of the sign test.
    #[test]
    fn intervals_of_the_median() {
        let outside = [1, 5, 6, 8, 9, 11, 12, 15, 17, 20, 25].map(values_outside);
        assert_eq!(outside, [0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 7]);
    }

    #[test]
    fn median_of_even_and_odd() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
