//! Jobs of many routes, log-normal within each, with estimates that are wrong; and those of a log.

use std::sync::Arc;

use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use units::Nanos;

use super::Job;
use crate::queue::stream;

/// How often routes are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Popularity {
    /// All alike.
    Uniform,
    /// The k-th with 1/k of the first's frequency.
    Zipf,
}

/// Routes whose medians are log-normal, and so are sizes around each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    pub routes: usize,
    pub popularity: Popularity,
    /// Of the medians.
    pub median_bytes: f64,
    /// Of the logarithms of medians.
    pub sigma_between: f64,
    /// Of the logarithms of sizes in a route.
    pub sigma_within: f64,
}

/// Estimates are sizes times log-normal errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    pub sigma: f64,
}

/// No response is larger: 1 GiB.
const BYTES_MAX: f64 = (1u64 << 30) as f64;

impl Mix {
    /// So many jobs at instants that follow ([`at_load`]); estimates are exact.
    pub fn jobs(&self, count: usize, seed: u64) -> Vec<Job> {
        let mut random = stream(seed, 0);
        let routes: Vec<(Arc<str>, f64)> = (0..self.routes)
            .map(|route| (path("route", route), self.median_bytes * (self.sigma_between * normal(&mut random)).exp()))
            .collect();
        let weights = (0..self.routes).map(|route| match self.popularity {
            Popularity::Uniform => 1.0,
            Popularity::Zipf => 1.0 / (route + 1) as f64,
        });
        let mut sum = 0.0;
        let ends: Vec<f64> = weights
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        let job = |random: &mut ChaCha8Rng| {
            let drawn = uniform(random) * sum;
            let (path, median) = &routes[ends.partition_point(|end| *end < drawn).min(self.routes - 1)];
            let bytes = (median * (self.sigma_within * normal(random)).exp()).clamp(1.0, BYTES_MAX) as u64;
            Job { at: Nanos::ZERO, bytes, path: path.clone(), status: 200, estimate_bytes: bytes }
        };
        (0..count).map(|_| job(&mut random)).collect()
    }
}

impl Noise {
    /// Gives each job an estimate, and as its route the power of two that this is in: what can be learned from an estimate.
    pub fn on(&self, jobs: &mut [Job], seed: u64) {
        let mut random = stream(seed, 1);
        for job in jobs {
            let estimate = job.bytes as f64 * (self.sigma * normal(&mut random)).exp();
            job.estimate_bytes = estimate.clamp(1.0, BYTES_MAX) as u64;
            job.path = path("estimate", job.estimate_bytes.ilog2() as usize);
        }
    }
}

/// Poisson arrivals at this load: of these jobs, not of what they were drawn from.
pub fn at_load(jobs: &mut [Job], rho: f64, seed: u64) {
    let bytes: f64 = jobs.iter().map(|job| job.bytes as f64).sum();
    let gap_ns = bytes / jobs.len() as f64 / rho;
    let (mut random, mut at) = (stream(seed, 2), 0.0);
    for job in jobs {
        at -= uniform(&mut random).ln() * gap_ns;
        job.at = Nanos(at as u64);
    }
}

/// The jobs of lines `PATH STATUS BYTES`, as they come; each has a head beside its bytes. The error says which line is wrong.
pub fn jobs_of_trace(text: &str, head_bytes: u64) -> Result<Vec<Job>, String> {
    let job = |(number, line): (usize, &str)| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let wrong = || format!("line {}: `{line}`: write PATH STATUS BYTES", number + 1);
        let [path, status, bytes] = fields[..] else { return Err(wrong()) };
        let (Ok(status), Ok(bytes)) = (status.parse(), bytes.parse::<u64>()) else { return Err(wrong()) };
        let bytes = bytes.min(BYTES_MAX as u64) + head_bytes;
        Ok(Job { at: Nanos::ZERO, bytes, path: path.into(), status, estimate_bytes: bytes })
    };
    text.lines().enumerate().map(job).collect()
}

/// A path that is a pattern by itself: the number is written in letters.
fn path(word: &str, number: usize) -> Arc<str> {
    let letters: String = number.to_string().bytes().map(|digit| char::from(b'k' + (digit - b'0'))).collect();
    format!("/{word}/{letters}").into()
}

/// In (0, 1], so that its logarithm is finite.
fn uniform(random: &mut ChaCha8Rng) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Of the standard normal distribution (Box & Muller, 1958).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (radius, angle) = (uniform(random), uniform(random));
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}
