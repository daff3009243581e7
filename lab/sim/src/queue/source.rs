//! The sources of arrivals. Times, sizes and paths are drawn from three streams of one seed, so that the same
//! sizes arrive in the same order at every load, whatever the policy or the paths.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sched::Path;
use units::Nanos;
use workload::{Distribution, LoadProfile, Sampler};

use super::line::Line;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub at: Nanos,
    pub size_bytes: u64,
}

/// Endless Poisson arrivals.
pub struct Poisson {
    times: ChaCha8Rng,
    sizes: ChaCha8Rng,
    sampler: Sampler,
    load: LoadProfile,
    /// The mean service time.
    service_ns: f64,
    at: Nanos,
}

impl Poisson {
    pub fn new(sizes: &Distribution, load: LoadProfile, service_ns: f64, seed: u64) -> Poisson {
        Poisson {
            times: stream(seed, 0),
            sizes: stream(seed, 1),
            sampler: sizes.sampler(),
            load,
            service_ns,
            at: Nanos::ZERO,
        }
    }
}

impl Iterator for Poisson {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        // In (0, 1], so that its logarithm is finite.
        let uniform = ((self.times.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        self.at = self.load.after(self.at, -uniform.ln() * self.service_ns);
        Some(Request { at: self.at, size_bytes: self.sampler.sample(&mut self.sizes) })
    }
}

/// The network paths of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paths {
    /// No path is known.
    #[default]
    Unknown,
    /// A bandwidth class and one of its two RTT classes, drawn for each job (Murta & Corlassoli 2003, table 1). The
    /// window fills the path and is at least [`CWND_BYTES_MIN`]. Only the policy sees a path: the link of this model is
    /// equally fast for all.
    Internet,
}

/// TCP's initial window (RFC 6928).
const CWND_BYTES_MIN: u64 = 10 * units::wire::SEGMENT_BYTES;

/// The share in per cent, the bits per second, and the RTT classes in milliseconds.
const INTERNET: [(u64, u64, [u64; 2]); 8] = [
    (2, 14_000, [90, 280]),
    (4, 28_000, [90, 280]),
    (12, 33_000, [90, 280]),
    (34, 56_000, [90, 280]),
    (19, 128_000, [20, 50]),
    (13, 1_000_000, [20, 50]),
    (9, 4_000_000, [20, 50]),
    (7, 10_000_000, [20, 50]),
];

/// Draws the client of each job, independently of the job's size.
pub struct Clients {
    paths: Paths,
    /// The share of jobs in this class or a lower one, by class; empty if all are in class 0.
    class_ends: Vec<f64>,
    random: ChaCha8Rng,
    /// Converts windows to the scheduler's unit, link time.
    line: Line,
}

impl Clients {
    /// Creates the clients. `class_shares` are the shares of classes 0, 1, ..., which add up to 1.
    pub fn new(paths: Paths, class_shares: &[f64], line: Line, seed: u64) -> Clients {
        let mut sum = 0.0;
        let class_ends = class_shares.iter().map(|share| {
            sum += share;
            sum
        });
        Clients { paths, class_ends: class_ends.collect(), random: stream(seed, 2), line }
    }

    /// Draws the class of the next job, and its path.
    pub fn draw(&mut self) -> (u16, Path) {
        (self.class(), self.path())
    }

    fn class(&mut self) -> u16 {
        if self.class_ends.is_empty() {
            return 0;
        }
        let uniform = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        // The last sum may be a rounding error below 1.
        self.class_ends.partition_point(|&end| end <= uniform).min(self.class_ends.len() - 1) as u16
    }

    fn path(&mut self) -> Path {
        let window = |bytes| Some(self.line.time_for(bytes).0);
        let Paths::Internet = self.paths else {
            return Path { cwnd_bytes: window(CWND_BYTES_MIN), ..Path::default() };
        };
        let (mut percent, which) = (self.random.next_u64() % 100, self.random.next_u32() as usize % 2);
        let class = INTERNET.iter().find(|(share, ..)| {
            let found = percent < *share;
            percent = percent.saturating_sub(*share);
            found
        });
        let (_, bps, rtts) = class.unwrap_or(&INTERNET[0]);
        Path {
            rtt: Some(Nanos::from_millis(rtts[which])),
            cwnd_bytes: window((bps * rtts[which] / 8000).max(CWND_BYTES_MIN)),
            throughput_bps: Some(*bps),
        }
    }
}

pub(crate) fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    random
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_come_in_their_shares() {
        let line = Line::new("10mbit".parse().unwrap());
        let mut clients = Clients::new(Paths::Internet, &[0.25, 0.75], line, 1);
        let (classes, paths): (Vec<u16>, Vec<Path>) = (0..100_000).map(|_| clients.draw()).unzip();
        let first = classes.iter().filter(|&&class| class == 0).count();
        assert!((24_300..25_700).contains(&first) && classes.iter().all(|&class| class <= 1), "{first} in class 0");
        for (share, bps, rtts) in INTERNET {
            let of_class: Vec<&Path> = paths.iter().filter(|path| path.throughput_bps == Some(bps)).collect();
            let expected = share as f64 * 1000.0;
            assert!((of_class.len() as f64 - expected).abs() < 5.0 * expected.sqrt(), "{bps}: {}", of_class.len());
            assert!(of_class.iter().all(|path| rtts.map(Nanos::from_millis).contains(&path.rtt.unwrap())));
        }
    }
}
