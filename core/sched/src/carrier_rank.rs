//! Where a carrier stands among the others.
//!
//! Within a carrier its client's order holds. Between carriers the least is served, and there are three ways to say how much a carrier is:
//!
//! - *First*: what is left of the job that it offers. The least of the leasts is the least, so that without wishes this is SRPT.
//! - *Chain*: jobs that have to be served in a given order are a chain, and the least sum of completion times on one machine is had by always serving
//!   the chain with the least min over k of (time of its first k jobs) / k (1 | chains | ΣC: Sidney, "Decomposition algorithms for single-machine
//!   sequencing with precedence relations and due dates", Operations Research 23, 1975). A large response before small ones is brought forward, for
//!   to serve it also brings those nearer. Without wishes this is SRPT too.
//! - *Stage*: what is left of all that its client wants as urgently as the first, together. A page is shown when all its style sheets are there, and
//!   complete when all its images are: no client is helped by one of ten. This is SRPT of such stages. Responses of clients that have never wished
//!   anything are taken for independent, and stand by the first.
//!
//! On page loads the stage has the least times of both, first view and whole page; the chain has the least mean of single responses, and the longest
//! times of whole pages (docs/notebook/carriers.md). By its stage a carrier stands no further forward than by its first: wishes buy nothing from others.

use std::str::FromStr;

/// Jobs of a carrier that the chain's index looks at. Those behind could only bring it further forward.
pub const CHAIN_JOBS_MAX: usize = 32;

/// How a carrier stands among the others, in an order by size (`srpt`, `psjf`, `srrt`). In any other it stands by the job that it offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CarrierRank {
    /// By the job that it offers.
    First,
    /// By the index of the chain of its jobs.
    Chain,
    /// By all that is as urgent as the job that it offers, if its client has ever wished anything.
    #[default]
    Stage,
}

impl FromStr for CarrierRank {
    type Err = String;

    fn from_str(text: &str) -> Result<CarrierRank, String> {
        match text {
            "first" => Ok(CarrierRank::First),
            "chain" => Ok(CarrierRank::Chain),
            "stage" => Ok(CarrierRank::Stage),
            other => Err(format!("`{other}`: write first, chain or stage")),
        }
    }
}

/// The index of a chain of jobs with these sizes, rounded down; at most the first's. `None` without jobs.
pub fn chain_index(sizes: impl Iterator<Item = u64>) -> Option<u64> {
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
    fn ranks_have_names() {
        let named: Vec<CarrierRank> = ["first", "chain", "stage"].map(|name| name.parse().unwrap()).into();
        assert_eq!(named, [CarrierRank::First, CarrierRank::Chain, CarrierRank::Stage]);
        assert_eq!("last".parse::<CarrierRank>().unwrap_err(), "`last`: write first, chain or stage");
    }

    #[test]
    fn small_ones_behind_a_large_one_bring_it_forward() {
        let of = |sizes: &[u64]| chain_index(sizes.iter().copied());
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
            let found = chain_index(sizes.iter().copied()).unwrap();
            prop_assert!(found <= sizes[0] && found >= *sizes.iter().min().unwrap());
            let mut sorted = sizes;
            sorted.sort_unstable();
            prop_assert_eq!(chain_index(sorted.iter().copied()), Some(sorted[0]));
        }

        /// Serving the first never makes it worse, nor does its end, while the chain is the one of the least mean.
        #[test]
        fn serving_lowers_it(sizes in prop::collection::vec(1u64..1000, 1..20), served in 1u64..1000) {
            let before = chain_index(sizes.iter().copied()).unwrap();
            let mut after = sizes.clone();
            after[0] = after[0].saturating_sub(served);
            let first_k = (1..=sizes.len()).min_by_key(|&k| sizes[..k].iter().sum::<u64>() * LCM_TO_19 / k as u64).unwrap();
            if after[0] == 0 && first_k > 1 {
                after.remove(0);
            }
            prop_assert!(chain_index(after.into_iter()).unwrap() <= before);
        }
    }
}
