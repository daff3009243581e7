//! What happened to jobs of which size.
//!
//! A job's size rank is its place, from 1, among all jobs in order of size and then job number; its percentile is
//! rank / jobs. A class (a, b] holds the jobs with a < rank / jobs ≤ b, which is how nearest-rank percentiles cut: the
//! job at the 99th percentile is the last of its class, and the topmost class always holds the largest job.

/// Upper ends of the classes in per mille of jobs by size: the smallest half, to 80 %, to 99 %, to 99.5 %, the largest.
pub const SIZE_CLASSES: [u32; 5] = [500, 800, 990, 995, 1000];

/// Upper ends of classes of like size, bytes, the last without one: 004 (section 2) has "a small number" of them and does not say which.
pub const SIZE_DECADES: [u64; 3] = [1_000, 10_000, 100_000];

/// The class of [`SIZE_DECADES`] that this size is in: a size at an end belongs below it.
pub fn size_decade(size_bytes: u64) -> usize {
    SIZE_DECADES.partition_point(|&end| end < size_bytes)
}

/// The mean of the means of classes, each with a weight; a class without a mean is left out. With the numbers of its own jobs as weights it is
/// the mean of all jobs; 004 (section 2) uses it so that one large file more or less does not decide.
pub fn weighted_mean(classes: impl IntoIterator<Item = (f64, Option<f64>)>) -> Option<f64> {
    let present = classes.into_iter().filter_map(|(weight, mean)| Some((weight, mean?)));
    let (weights, sum) =
        present.fold((0.0, 0.0), |(weights, sum), (weight, mean)| (weights + weight, sum + weight * mean));
    (weights > 0.0).then(|| sum / weights)
}

/// The mean of `values` (one per job) over each of [`SIZE_CLASSES`]; `None` for a class without jobs.
pub fn size_class_means(sizes: &[u64], values: &[f64]) -> [Option<f64>; SIZE_CLASSES.len()] {
    let order = by_size(sizes);
    let mut from = 0;
    SIZE_CLASSES.map(|permille| {
        let class = from..share(order.len(), permille, 1000);
        from = class.end;
        mean_of(&order[class], values)
    })
}

/// Which jobs have a size between these percentiles (0 to 100) of all sizes: true for `from` < rank / jobs ≤ `to`.
pub fn within_percentiles(sizes: &[u64], from: f64, to: f64) -> Vec<bool> {
    let order = by_size(sizes);
    // Rounded to a millionth of the jobs: 99.5 % of 1,000 jobs are 995 of them whatever 99.5 / 100 is in binary.
    let cut = |percent: f64| share(order.len(), (percent.clamp(0.0, 100.0) * 1e4).round() as u32, 1_000_000);
    let mut is_within = vec![false; sizes.len()];
    order[cut(from)..cut(to).max(cut(from))].iter().for_each(|&job| is_within[job] = true);
    is_within
}

/// Job numbers in order of size; equal sizes in order of job number.
fn by_size(sizes: &[u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&job| sizes[job]);
    order
}

/// Returns how many of `jobs` have a percentile of at most `part` / `whole`.
fn share(jobs: usize, part: u32, whole: u32) -> usize {
    (jobs as u128 * u128::from(part) / u128::from(whole)) as usize
}

fn mean_of(jobs: &[usize], values: &[f64]) -> Option<f64> {
    let sum: f64 = jobs.iter().map(|&job| values[job]).sum();
    (!jobs.is_empty()).then(|| sum / jobs.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn classes_of_a_thousand() {
        let sizes: Vec<u64> = (0..1000).rev().collect();
        let values: Vec<f64> = (0..1000).rev().map(f64::from).collect();
        let middles = [249.5, 649.5, 894.5, 992.0, 997.0];
        assert_eq!(size_class_means(&sizes, &values), middles.map(Some));
    }

    #[test]
    fn ties_are_broken_by_job_number() {
        // Of four equal sizes the first two are the smallest half; the third is within 80 %.
        let means = size_class_means(&[7, 7, 7, 7], &[1.0, 3.0, 10.0, 100.0]);
        assert_eq!(means, [Some(2.0), Some(10.0), None, None, Some(100.0)]);
    }

    #[test]
    fn one_job_is_the_largest() {
        assert_eq!(size_class_means(&[9], &[5.0]), [None, None, None, None, Some(5.0)]);
    }

    #[test]
    fn nothing_falls_into_no_class() {
        assert_eq!(size_class_means(&[], &[]), [None; 5]);
        assert!(within_percentiles(&[], 0.0, 50.0).is_empty());
    }

    /// The same jobs as [`SIZE_CLASSES`] has, ties included.
    #[test]
    fn percentiles_of_size_are_cut_as_the_classes_are() {
        let sizes: Vec<u64> = (0..1000).map(|job| job * 7919 % 400).collect();
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        let within = within_percentiles(&sizes, 99.5, 100.0);
        let chosen: Vec<f64> = values.iter().zip(&within).filter(|(_, is)| **is).map(|(value, _)| *value).collect();
        assert_eq!(chosen.len(), 5);
        assert_eq!(crate::mean(&chosen), size_class_means(&sizes, &values)[4]);
        assert_eq!(within_percentiles(&sizes, 60.0, 40.0), [false; 1000]);
    }

    proptest! {
        /// The classes together hold every job once: their means weighted by their counts are the whole mean.
        #[test]
        fn classes_partition(sizes in prop::collection::vec(0u64..1000, 1..900)) {
            let jobs = sizes.len();
            let numbers: Vec<f64> = (0..jobs).map(|job| job as f64).collect();
            let mut from = 0;
            let weighted = SIZE_CLASSES.iter().zip(size_class_means(&sizes, &numbers)).map(|(&permille, mean)| {
                let count = share(jobs, permille, 1000) - from;
                from += count;
                mean.unwrap_or(0.0) * count as f64
            });
            prop_assert!((weighted.sum::<f64>() - numbers.iter().sum::<f64>()).abs() < 1e-6 * (jobs * jobs) as f64);
        }
    }

    #[test]
    fn decades_and_their_weighted_mean() {
        assert_eq!([1, 1_000, 1_001, 100_000, 100_001].map(size_decade), [0, 0, 1, 2, 3]);
        // 3 jobs of 2 ms, 1 of 10 ms; once by their own numbers, once by those of a run with as many of both.
        assert_eq!(weighted_mean([(3.0, Some(2.0)), (1.0, Some(10.0)), (7.0, None)]), Some(4.0));
        assert_eq!(weighted_mean([(1.0, Some(2.0)), (1.0, Some(10.0))]), Some(6.0));
        assert_eq!(weighted_mean([(1.0, None)]), None);
    }
}
