//! The chain index: where a carrier stands whose client's order is not the shortest first.
//!
//! If an urgent large response stands before small ones, the carrier's place by the large one alone is too far back: to serve it also brings the
//! small ones nearer. Jobs that have to be served in a given order are a chain, and the least sum of completion times on one machine is had by always
//! serving the chain with the least min over k of (time of its first k jobs) / k (1 | chains | ΣC: Sidney, "Decomposition algorithms for
//! single-machine sequencing with precedence relations and due dates", Operations Research 23, 1975). A job of its own is a chain of one, and its
//! index is its size: among those the rule is SRPT. Serving a chain only lowers its index, until those k jobs are through: nobody is preempted
//! between them but by a newcomer with less.
//!
//! That is exact for sizes that are known and clients that ask for no more. It knows nothing of requests to come.

/// Jobs of a carrier that are looked at. Those behind could only bring it further forward.
pub const CHAIN_JOBS_MAX: usize = 32;

/// How a carrier stands among the others, in an order by size (`srpt`, `psjf`, `srrt`). In any other it stands by the job that it offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CarrierRank {
    /// By the job that it offers.
    First,
    /// By its chain index.
    #[default]
    Chain,
}

/// The index of a chain of jobs with these sizes, rounded down; at most the first's. `None` without jobs.
pub fn index(sizes: impl Iterator<Item = u64>) -> Option<u64> {
    let mut sum = 0u128;
    let mut least = None;
    for (count, size) in (1u128..).zip(sizes.take(CHAIN_JOBS_MAX)) {
        sum += u128::from(size);
        let mean = u64::try_from(sum / count).expect("a mean is no more than the largest");
        least = Some(least.map_or(mean, |least: u64| least.min(mean)));
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// So that means of up to 19 are exact.
    const LCM_TO_19: u64 = 232_792_560;

    #[test]
    fn small_ones_behind_a_large_one_bring_it_forward() {
        let of = |sizes: &[u64]| index(sizes.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[10]), Some(10));
        assert_eq!(of(&[10, 2]), Some(6));
        assert_eq!(of(&[10, 2, 30]), Some(6));
        assert_eq!(of(&[10, 20, 0, 0]), Some(7));
        assert_eq!(of(&[2, 10]), Some(2));
        assert_eq!(of(&[u64::MAX, u64::MAX]), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn it_is_at_most_the_first_and_at_least_the_least(sizes in prop::collection::vec(1u64..1000, 1..60)) {
            let found = index(sizes.iter().copied()).unwrap();
            prop_assert!(found <= sizes[0] && found >= *sizes.iter().min().unwrap());
            let mut sorted = sizes;
            sorted.sort_unstable();
            prop_assert_eq!(index(sorted.iter().copied()), Some(sorted[0]));
        }

        /// Serving the first never makes it worse, nor does its end, while the chain is the one of the least mean.
        #[test]
        fn serving_lowers_it(sizes in prop::collection::vec(1u64..1000, 1..20), served in 1u64..1000) {
            let before = index(sizes.iter().copied()).unwrap();
            let mut after = sizes.clone();
            after[0] = after[0].saturating_sub(served);
            let first_k = (1..=sizes.len()).min_by_key(|&k| sizes[..k].iter().sum::<u64>() * LCM_TO_19 / k as u64).unwrap();
            if after[0] == 0 && first_k > 1 {
                after.remove(0);
            }
            prop_assert!(index(after.into_iter()).unwrap() <= before);
        }
    }
}
