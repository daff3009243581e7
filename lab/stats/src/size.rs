//! Classes of jobs by size.

/// The upper ends of the size classes in bytes; the last class has none. 004 (section 2) has "a small number" of
/// classes and does not specify them.
pub const SIZE_DECADES: [u64; 3] = [1_000, 10_000, 100_000];

/// The class of [`SIZE_DECADES`] that contains this size. A size equal to an end belongs to the class below it.
pub fn size_decade(size_bytes: u64) -> usize {
    SIZE_DECADES.partition_point(|&end| end < size_bytes)
}

/// The mean of the means of classes, each with a weight; a class without a mean is left out. If the weights are the
/// numbers of its jobs, it is the mean of all jobs. 004 (section 2) uses it so that one large file more or less does
/// not change the result much.
pub fn weighted_mean(classes: impl IntoIterator<Item = (f64, Option<f64>)>) -> Option<f64> {
    let present = classes.into_iter().filter_map(|(weight, mean)| Some((weight, mean?)));
    let (weights, sum) =
        present.fold((0.0, 0.0), |(weights, sum), (weight, mean)| (weights + weight, sum + weight * mean));
    (weights > 0.0).then(|| sum / weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_and_their_weighted_mean() {
        assert_eq!([1, 1_000, 1_001, 100_000, 100_001].map(size_decade), [0, 0, 1, 2, 3]);
        // 3 jobs of 2 ms and 1 of 10 ms; once with their own numbers as weights, once with the numbers of a run that
        // has as many of both.
        assert_eq!(weighted_mean([(3.0, Some(2.0)), (1.0, Some(10.0)), (7.0, None)]), Some(4.0));
        assert_eq!(weighted_mean([(1.0, Some(2.0)), (1.0, Some(10.0))]), Some(6.0));
        assert_eq!(weighted_mean([(1.0, None)]), None);
    }
}
