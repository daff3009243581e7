//! What two runs make of requests that are alike, as the papers measure it: of each half percent of the requests by size (000,
//! figures 5 and 6), or of each file.
//!
//! Request by request is another question. Which of two requests for 900 bytes met a large one is chance, so that under
//! a schedule that serves every size sooner one in ten may still wait longer than the same one did.

use std::collections::BTreeMap;

use stats::{Bin, PERCENTILE_BUCKETS, nearest_rank, percentile_buckets};

/// Two runs' response times of the same requests, and their sizes.
pub(crate) struct Alike<'a> {
    pub sizes: &'a [u64],
    pub mine_ms: &'a [f64],
    pub base_ms: &'a [f64],
    /// How many requests there are of all sizes: a bucket is a half percent of those.
    pub of_all: usize,
}

impl Alike<'_> {
    /// The share of the buckets whose mean is less than the base's.
    pub fn share_of_buckets_gaining(&self) -> Option<f64> {
        let buckets = self.buckets();
        let gaining = buckets.iter().filter(|(mine, base)| mine.value_mean < base.value_mean).count();
        (!buckets.is_empty()).then(|| gaining as f64 / buckets.len() as f64)
    }

    /// How many times as large the base's variance within a bucket is, in the median over the buckets.
    pub fn variance_ratio(&self) -> Option<f64> {
        self.median(|bin| bin.value_variance)
    }

    /// The same of the squared coefficient of variation, variance / mean².
    pub fn scv_ratio(&self) -> Option<f64> {
        self.median(|bin| bin.value_variance / bin.value_mean.powi(2))
    }

    /// The share of the requests whose file, told by its size, takes longer than under the base in the mean over its requests.
    pub fn share_of_files_starved(&self) -> Option<f64> {
        let mut files: BTreeMap<u64, (usize, f64)> = BTreeMap::new();
        for ((size, mine), base) in self.sizes.iter().zip(self.mine_ms).zip(self.base_ms) {
            let (requests, longer_ms) = files.entry(*size).or_default();
            (*requests, *longer_ms) = (*requests + 1, *longer_ms + mine - base);
        }
        let starved: usize =
            files.values().filter(|(_, longer_ms)| *longer_ms > 0.0).map(|(requests, _)| requests).sum();
        (!self.sizes.is_empty()).then(|| starved as f64 / self.sizes.len() as f64)
    }

    /// A bucket without spread under both is alike under both; without it under one, it has no ratio.
    fn median(&self, of: fn(&Bin) -> f64) -> Option<f64> {
        let ratio = |(mine, base): &(Bin, Bin)| if of(mine) == of(base) { 1.0 } else { of(base) / of(mine) };
        let mut ratios: Vec<f64> = self.buckets().iter().map(ratio).filter(|ratio| !ratio.is_nan()).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        nearest_rank(&ratios, 500).filter(|ratio| ratio.is_finite())
    }

    fn buckets(&self) -> Vec<(Bin, Bin)> {
        let share = self.sizes.len() as f64 / self.of_all.max(1) as f64;
        let count = (share * f64::from(PERCENTILE_BUCKETS)).round().max(1.0) as u32;
        let of = |values: &[f64]| percentile_buckets(self.sizes, values, count);
        of(self.mine_ms).into_iter().zip(of(self.base_ms)).filter_map(|(mine, base)| mine.zip(base)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 400 requests, so two in each bucket, of 200 sizes.
    fn sizes() -> Vec<u64> {
        (0..400).map(|job| 100 + job / 2).collect()
    }

    #[test]
    fn half_a_percent_gains_where_one_of_its_requests_does_not() {
        // Of each pair one takes 1 and one 5, where both took 4; the largest pair takes 9.
        let mine_ms: Vec<f64> = (0..400).map(|job| [1.0, 5.0, 9.0][if job < 398 { job % 2 } else { 2 }]).collect();
        let sizes = sizes();
        let alike = Alike { sizes: &sizes, mine_ms: &mine_ms, base_ms: &[4.0; 400], of_all: 400 };
        assert_eq!(alike.share_of_buckets_gaining(), Some(0.995));
        assert_eq!(alike.share_of_files_starved(), Some(0.005));
        let starved = mine_ms.iter().filter(|mine| **mine > 4.0).count();
        assert_eq!(starved, 201, "request by request it is half of them");
    }

    #[test]
    fn spread_is_that_within_a_bucket() {
        // The base's pairs are 2 and 6 (variance 4, mean 4), mine 1 and 2 (0.25, 1.5), whatever their sizes are.
        let of = |pair: [f64; 2]| (0..400).map(|job| pair[job % 2]).collect::<Vec<f64>>();
        let (sizes, mine_ms, base_ms) = (sizes(), of([1.0, 2.0]), of([2.0, 6.0]));
        let alike = Alike { sizes: &sizes, mine_ms: &mine_ms, base_ms: &base_ms, of_all: 400 };
        assert_eq!(alike.variance_ratio(), Some(16.0));
        assert!((alike.scv_ratio().unwrap() - 0.25 / (0.25 / 2.25)).abs() < 1e-12);
        let same = Alike { mine_ms: &base_ms, ..alike };
        assert_eq!((same.variance_ratio(), same.share_of_buckets_gaining()), (Some(1.0), Some(0.0)));
    }

    #[test]
    fn a_bucket_is_a_half_percent_of_all_requests() {
        let (sizes, mine_ms, base_ms) = (sizes(), [1.0; 400], [2.0; 400]);
        let buckets = |sizes, of_all| Alike { sizes, mine_ms: &mine_ms, base_ms: &base_ms, of_all }.buckets().len();
        assert_eq!((buckets(&sizes, 400), buckets(&sizes[..200], 400), buckets(&[], 400)), (200, 100, 0));
    }

    #[test]
    fn nothing_has_no_figure() {
        let alike = Alike { sizes: &[], mine_ms: &[], base_ms: &[], of_all: 0 };
        assert_eq!((alike.share_of_buckets_gaining(), alike.scv_ratio()), (None, None));
        assert_eq!((alike.variance_ratio(), alike.share_of_files_starved()), (None, None));
    }
}
