/// The nearest-rank percentile of values in ascending order: the smallest value that is greater than or equal to at
/// least `permille` / 1000 of them. 0 gives the minimum, 1000 or more the maximum.
///
/// Per mille instead of a fraction, so that the rank is computed with integers and 99.5 % has no rounding error.
pub fn nearest_rank<T: Copy + PartialOrd>(ascending: &[T], permille: u32) -> Option<T> {
    debug_assert!(ascending.is_sorted());
    let rank = (ascending.len() as u128 * u128::from(permille)).div_ceil(1000) as usize;
    ascending.get(rank.clamp(1, ascending.len().max(1)) - 1).copied()
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
    }

    #[test]
    fn nothing_has_no_percentile() {
        assert_eq!(nearest_rank::<u64>(&[], 500), None);
    }

    proptest! {
        /// The definition: enough values are at most as large, and not enough are at most as large as the next smaller
        /// value.
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
