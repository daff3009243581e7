//! The files of a SURGE server: sizes with a lognormal body and a Pareto tail, popularity by Zipf's law.
//!
//! Sizes and popularity are each given, so they must be matched: the popular file's size determines the workload. SURGE
//! matches them so that the sizes *requested* have the wanted distribution, and so does this module. The files are
//! placed side by side along the distribution of requested sizes, each as wide as its share of the requests, and each
//! has the mean size of the stretch that it covers. Random matching fails: one request in eight is for the most popular
//! file, and if that were large, it would dominate the workload.

use rand::seq::SliceRandom;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Sizes;
use crate::sizes::unit;

/// The model of the files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FileModel {
    /// The number of files.
    pub files: usize,
    /// The distribution of requested sizes.
    pub sizes: Sizes,
}

impl FileModel {
    /// SURGE as Murta and Corlassoli (2002) used it: a mean request of 14 KB, and the proportions of their figure 1.
    ///
    /// The tail has the published index, 1.1, and the published start, 133 KB. The number of files is SURGE's own,
    /// 2,000, of which about 7 %, the published share, are then in the tail. Figure 1 determines the rest: 1.47 % of
    /// the requests are in the tail, and since they carry almost 40 % of the bytes, no file is larger than 2.3 MB. The
    /// body's published parameters (mu 9.357, sigma 1.318) describe the files on a server, half of them above 11 KB,
    /// and cannot give 85 % of requests below 16 KB with 21.5 % of the bytes; mu 7.88, sigma 1.72 do.
    pub const MURTA_2002: FileModel = FileModel {
        files: 2000,
        sizes: Sizes {
            body_median: 2644.0,
            body_sigma: 1.72,
            min: 76.0,
            tail_share: 0.0147,
            tail_from: 133_000.0,
            tail_alpha: 1.1,
            max: 2_300_000.0,
        },
    };
}

/// The files, which are drawn as they are requested.
#[derive(Debug, Clone)]
pub struct Files {
    /// The sizes by popularity, the most popular first.
    sizes: Vec<u64>,
    /// The share of requests for files up to this one, in 2^-64.
    shares: Vec<u64>,
}

/// The number of ordered draws that represent the body's distribution; enough for its mean to be accurate to half a
/// percent.
const BODY_DRAWS: usize = 100_000;

/// The number of quantiles of its stretch whose mean is the size of a file in the tail.
const TAIL_POINTS: u32 = 8;

impl Files {
    /// Creates the files; the same seed gives the same files.
    pub fn new(model: &FileModel, seed: u64) -> Files {
        assert!((1..=1_000_000).contains(&model.files), "{} files", model.files);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let weights = zipf(model.files);
        let tail = tail_ranks(&weights, model.sizes.tail_share, &mut rng);
        let mut sizes = vec![0; model.files];
        lay(&weights, &tail, |from, to| model.sizes.tail_mean(from, to), &mut sizes);
        let draws = model.sizes.body_sorted(BODY_DRAWS, &mut rng);
        lay(&weights, &body_ranks(&weights, &tail, &mut rng), |from, to| slice_mean(&draws, from, to), &mut sizes);
        Files::of(sizes, &weights)
    }

    /// Returns files of these sizes and shares of the requests, the most popular first.
    pub(super) fn of(sizes: Vec<u64>, weights: &[f64]) -> Files {
        let mut sum = 0.0;
        let shares = weights.iter().map(|weight| {
            sum += weight;
            (sum * 2f64.powi(64)) as u64
        });
        Files { shares: shares.collect(), sizes }
    }

    /// Draws the size of the next requested file.
    pub fn draw(&self, rng: &mut ChaCha8Rng) -> u64 {
        self.sizes[self.draw_file(rng.next_u64())]
    }

    /// The number of a file by popularity, chosen by a random number.
    pub(super) fn draw_file(&self, random: u64) -> usize {
        self.shares.partition_point(|&share| share < random).min(self.sizes.len() - 1)
    }

    /// The share of the requests for this file.
    pub fn share(&self, file: usize) -> f64 {
        let before = if file == 0 { 0 } else { self.shares[file - 1] };
        (self.shares[file] - before) as f64 / 2f64.powi(64)
    }

    /// The sizes in bytes, the most popular file first.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// The largest size.
    pub fn max_bytes(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }
}

impl Sizes {
    /// The mean of the tail between two of its quantiles.
    fn tail_mean(&self, from: f64, to: f64) -> f64 {
        let at = |point: u32| from + (to - from) * (f64::from(point) + 0.5) / f64::from(TAIL_POINTS);
        (0..TAIL_POINTS).map(|point| self.tail(at(point))).sum::<f64>() / f64::from(TAIL_POINTS)
    }

    fn body_sorted(&self, draws: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let mut sizes: Vec<f64> = (0..draws).map(|_| self.body(rng)).collect();
        sizes.sort_by(f64::total_cmp);
        sizes
    }
}

/// The shares of requests by Zipf's law, which fall as 1 / rank and add up to 1.
pub(super) fn zipf(files: usize) -> Vec<f64> {
    let harmonic: f64 = (1..=files).map(|rank| 1.0 / rank as f64).sum();
    (1..=files).map(|rank| 1.0 / (rank as f64 * harmonic)).collect()
}

/// Chooses the files in the tail: some of the least popular two thirds, until they have the tail's share of requests.
fn tail_ranks(weights: &[f64], tail_share: f64, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut ranks: Vec<usize> = (weights.len() / 3..weights.len()).collect();
    ranks.shuffle(rng);
    let mut sum = 0.0;
    ranks.retain(|&rank| {
        sum += weights[rank];
        sum <= tail_share
    });
    ranks
}

/// Orders the other files, smallest first: at random, but popular files are nearer to the median, where one size
/// represents many requests best.
fn body_ranks(weights: &[f64], tail: &[usize], rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut is_tail = vec![false; weights.len()];
    tail.iter().for_each(|&rank| is_tail[rank] = true);
    let ranks = (0..weights.len()).filter(|&rank| !is_tail[rank]);
    let mut placed: Vec<(f64, usize)> =
        ranks.map(|rank| ((unit(rng) - 0.5) * (1.0 - weights[rank] / weights[0]), rank)).collect();
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    placed.into_iter().map(|(_, rank)| rank).collect()
}

/// Places these files side by side from 0 to 1 and gives each the mean size of its stretch, at least a byte.
fn lay(weights: &[f64], ranks: &[usize], mean: impl Fn(f64, f64) -> f64, sizes: &mut [u64]) {
    let total: f64 = ranks.iter().map(|&rank| weights[rank]).sum();
    let mut from = 0.0;
    for &rank in ranks {
        let to = (from + weights[rank] / total).min(1.0);
        sizes[rank] = (mean(from, to).round() as u64).max(1);
        from = to;
    }
}

fn slice_mean(sorted: &[f64], from: f64, to: f64) -> f64 {
    let index = |share: f64| (share * sorted.len() as f64) as usize;
    let first = index(from).min(sorted.len() - 1);
    let slice = &sorted[first..index(to).clamp(first + 1, sorted.len())];
    slice.iter().sum::<f64>() / slice.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    /// The shares of requests and of bytes for files up to this size.
    fn shares(files: &Files, bytes_max: u64) -> (f64, f64) {
        let weights = zipf(files.sizes.len());
        let sum = |bytes_max: u64| {
            let within = files.sizes.iter().zip(&weights).filter(|&(&size, _)| size <= bytes_max);
            within.fold((0.0, 0.0), |sum, (&size, weight)| (sum.0 + weight, sum.1 + weight * size as f64))
        };
        let (part, whole) = (sum(bytes_max), sum(u64::MAX));
        (part.0 / whole.0, part.1 / whole.1)
    }

    #[test]
    fn proportions_are_those_of_001_figure_1() {
        for seed in 1..=10 {
            let files = Files::new(&FileModel::MURTA_2002, seed);
            let weights = zipf(files.sizes.len());
            let mean: f64 = files.sizes.iter().zip(&weights).map(|(&size, weight)| size as f64 * weight).sum();
            assert!((13_500.0..14_500.0).contains(&mean), "seed {seed}: mean {mean}");
            let (small, small_bytes) = shares(&files, 16 * KIB);
            assert!((0.835..0.865).contains(&small), "seed {seed}: {small} below 16 KB");
            assert!((0.20..0.23).contains(&small_bytes), "seed {seed}: {small_bytes} of the bytes below 16 KB");
            let (medium, _) = shares(&files, 32 * KIB);
            assert!(medium > 0.90, "seed {seed}: {medium} below 32 KB");
            let (most, most_bytes) = shares(&files, 128 * KIB);
            assert!((0.0140..0.0157).contains(&(1.0 - most)), "seed {seed}: {} above 128 KB", 1.0 - most);
            assert!((0.38..0.42).contains(&(1.0 - most_bytes)), "seed {seed}: {} of the bytes", 1.0 - most_bytes);
        }
    }

    #[test]
    fn popularity_is_zipfs() {
        let files = Files::new(&FileModel { files: 100, ..FileModel::MURTA_2002 }, 1);
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let draws = 200_000;
        let first = (0..draws).filter(|_| files.draw(&mut rng) == files.sizes[0]).count();
        let expected = draws as f64 * zipf(100)[0];
        assert!((first as f64 / expected - 1.0).abs() < 0.02, "{first} for {expected}");
    }

    #[test]
    fn the_seed_decides() {
        let files = |seed| Files::new(&FileModel::MURTA_2002, seed);
        assert_eq!(files(1).sizes, files(1).sizes);
        assert_ne!(files(1).sizes, files(2).sizes);
        assert!(files(1).max_bytes() > 2_000_000 && files(1).max_bytes() <= 2_300_000);
    }
}
