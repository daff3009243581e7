//! Who comes when. Times, sizes and paths are drawn from three streams of one seed, so that the same sizes in the same
//! order come at every load, and no policy or path changes them.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sched::Path;
use units::Nanos;
use workload::{Distribution, LoadProfile, Sampler};

use super::line::Line;

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub at: Nanos,
    pub size_bytes: u64,
}

/// Poisson arrivals without end.
pub struct Poisson {
    times: ChaCha8Rng,
    sizes: ChaCha8Rng,
    sampler: Sampler,
    load: LoadProfile,
    /// Mean service time.
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

/// Where clients are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paths {
    /// Nothing is known of any path.
    #[default]
    Unknown,
    /// A bandwidth class and one of its two RTT classes, drawn for each job (Murta & Corlassoli 2003, table 1). The
    /// window is what fills the path, at least [`CWND_BYTES_MIN`]. A path is only seen by the policy: the link of this
    /// model is as fast to everybody.
    Internet,
}

/// What TCP begins with (RFC 6928).
const CWND_BYTES_MIN: u64 = 10 * units::wire::SEGMENT_BYTES;

/// Share in per cent, bits per second, RTT classes in milliseconds.
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

/// Draws a path for each job.
pub struct PathSource {
    paths: Paths,
    random: ChaCha8Rng,
    /// Windows are told in the drain's unit, link time.
    line: Line,
}

impl PathSource {
    pub fn new(paths: Paths, line: Line, seed: u64) -> PathSource {
        PathSource { paths, random: stream(seed, 2), line }
    }

    pub fn draw(&mut self) -> Path {
        let window = |bytes| Some(self.line.time_for(bytes).0);
        match self.paths {
            Paths::Unknown => Path { cwnd_bytes: window(CWND_BYTES_MIN), ..Path::default() },
            Paths::Internet => {
                let (mut percent, which) = (self.random.next_u64() % 100, self.random.next_u32() as usize % 2);
                let class = INTERNET.iter().find(|(share, ..)| {
                    let found = percent < *share;
                    percent = percent.saturating_sub(*share);
                    found
                });
                let (_, bps, rtts) = class.unwrap_or(&INTERNET[0]);
                let cwnd_bytes = (bps * rtts[which] / 8000).max(CWND_BYTES_MIN);
                Path {
                    rtt: Some(Nanos::from_millis(rtts[which])),
                    cwnd_bytes: window(cwnd_bytes),
                    throughput_bps: Some(*bps),
                }
            }
        }
    }
}

fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    random
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_in_the_papers_shares() {
        let line = Line::new("10mbit".parse().unwrap());
        let mut source = PathSource::new(Paths::Internet, line, 1);
        let paths: Vec<Path> = (0..100_000).map(|_| source.draw()).collect();
        for (share, bps, rtts) in INTERNET {
            let of_class: Vec<&Path> = paths.iter().filter(|path| path.throughput_bps == Some(bps)).collect();
            let expected = share as f64 * 1000.0;
            assert!((of_class.len() as f64 - expected).abs() < 5.0 * expected.sqrt(), "{bps}: {}", of_class.len());
            assert!(of_class.iter().all(|path| rtts.map(Nanos::from_millis).contains(&path.rtt.unwrap())));
        }
    }
}
