use super::DistributionError;
use crate::{REQUESTS_MAX, SIZE_BYTES_MAX};

/// The highest power of size that is summed.
const POWERS: usize = 3;

/// Observed sizes with equal probability: sorted, with sums that allow queries in O(log n).
#[derive(Debug, Clone, PartialEq)]
pub struct Empirical {
    /// The distinct sizes, ascending.
    sizes: Vec<f64>,
    /// For each size, the sums of size^k over all jobs up to it, k from 0.
    sums: Vec<[f64; POWERS + 1]>,
}

impl Empirical {
    pub(super) fn of(sizes: &[u64]) -> Result<Empirical, DistributionError> {
        if sizes.is_empty() {
            return Err(DistributionError::NoSizes);
        }
        if sizes.len() > REQUESTS_MAX {
            return Err(DistributionError::TooManySizes(sizes.len()));
        }
        let mut sorted = sizes.to_vec();
        sorted.sort_unstable();
        match (sorted.first(), sorted.last()) {
            (Some(0), _) => return Err(DistributionError::SizeOutOfRange(0)),
            (_, Some(&largest)) if largest > SIZE_BYTES_MAX => {
                return Err(DistributionError::SizeOutOfRange(largest));
            }
            _ => {}
        }
        let mut empirical = Empirical { sizes: Vec::new(), sums: Vec::new() };
        let mut sum = [0.0; POWERS + 1];
        for equal in sorted.chunk_by(|a, b| a == b) {
            let size = equal[0] as f64;
            for (k, sum) in sum.iter_mut().enumerate() {
                *sum += equal.len() as f64 * size.powi(k as i32);
            }
            empirical.sizes.push(size);
            empirical.sums.push(sum);
        }
        Ok(empirical)
    }

    pub(super) fn partial_moment(&self, k: u32, x: f64) -> f64 {
        match self.sizes.partition_point(|&size| size <= x) {
            0 => 0.0,
            up_to => self.sums[up_to - 1][k as usize] / self.jobs(),
        }
    }

    pub(super) fn quantile(&self, u: f64) -> f64 {
        let at = self.sums.partition_point(|sums| sums[0] < u * self.jobs());
        self.sizes[at.min(self.sizes.len() - 1)]
    }

    pub(super) fn max(&self) -> f64 {
        self.sizes[self.sizes.len() - 1]
    }

    pub(super) fn atoms(&self) -> Vec<f64> {
        self.sizes.clone()
    }

    fn jobs(&self) -> f64 {
        self.sums[self.sums.len() - 1][0]
    }
}
