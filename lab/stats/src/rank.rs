/// The nearest-rank percentile of values in ascending order: the smallest value that at least `permille` / 1000 of
/// them do not exceed. 0 gives the least, 1000 or more the greatest.
///
/// Per mille rather than a fraction, so that the rank is found by integers and 99.5 % has no rounding error.
pub fn nearest_rank<T: Copy + PartialOrd>(ascending: &[T], permille: u32) -> Option<T> {
    debug_assert!(ascending.is_sorted());
    let rank = (ascending.len() as u128 * u128::from(permille)).div_ceil(1000) as usize;
    ascending.get(rank.clamp(1, ascending.len().max(1)) - 1).copied()
}

/// The complementary distribution of values in ascending order: each distinct value x with the share of values > x.
pub fn ccdf<T: Copy + PartialOrd>(ascending: &[T]) -> Vec<(T, f64)> {
    debug_assert!(ascending.is_sorted());
    let mut above = ascending.len();
    ascending
        .chunk_by(|a, b| a == b)
        .map(|equals| {
            above -= equals.len();
            (equals[0], above as f64 / ascending.len() as f64)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_cases() {
        // Ranks by hand: 0.05 × 5 → 1, 0.3 × 5 → 2, 0.4 × 5 → 2, 0.5 × 5 → 3, 1 × 5 → 5.
        for (permille, value) in [(0, 15), (50, 15), (300, 20), (400, 20), (500, 35), (1000, 50), (2000, 50)] {
            assert_eq!(nearest_rank(&[15, 20, 35, 40, 50], permille), Some(value), "{permille} per mille");
        }
        assert_eq!(ccdf(&[1, 1, 2, 4]), [(1, 0.5), (2, 0.25), (4, 0.0)]);
    }

    #[test]
    fn nothing_has_no_percentile() {
        assert_eq!(nearest_rank::<u64>(&[], 500), None);
        assert!(ccdf::<u64>(&[]).is_empty());
    }

    proptest! {
        /// The definition itself: enough values at or below it, and not enough below the next smaller value.
        #[test]
        fn is_the_smallest_that_covers(mut values in prop::collection::vec(0u32..50, 1..80), permille in 0u32..=1000) {
            values.sort();
            let found = nearest_rank(&values, permille).unwrap();
            let wanted = values.len() * permille as usize;
            prop_assert!(values.iter().filter(|&&v| v <= found).count() * 1000 >= wanted);
            if found > values[0] {
                prop_assert!(values.iter().filter(|&&v| v < found).count() * 1000 < wanted);
            }
        }
    }
}
