//! Places requests within a second if the log only contains whole seconds.
//!
//! For each second, as many offsets as it has requests are drawn uniformly from its 1,000,000,000 ns, sorted, and
//! assigned to the requests in the order of the file. Given the count, a Poisson process is uniform, and the log's own
//! burstiness from second to second is preserved.
//!
//! The draws of a second come from ChaCha8 with the seed, on the stream with the number of the second. They do not
//! depend on the rest of the log: cutting a log in time and spreading it give the same times in either order.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use units::Nanos;

const SECOND_NS: u64 = 1_000_000_000;

/// Replaces sorted whole seconds by sorted instants within them.
pub(crate) fn inside_seconds(at: &mut [Nanos], seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for second in at.chunk_by_mut(|a, b| a.0 / SECOND_NS == b.0 / SECOND_NS) {
        let number = second[0].0 / SECOND_NS;
        rng.set_stream(number);
        rng.set_word_pos(0);
        for instant in second.iter_mut() {
            *instant = Nanos(number * SECOND_NS + below(&mut rng, SECOND_NS));
        }
        second.sort_unstable();
    }
}

/// A uniform number in 0..`end` by multiplication, fixed here so that no version of `rand` changes a schedule. The bias
/// is below `end` / 2^64.
fn below(rng: &mut ChaCha8Rng, end: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(end)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spread(seconds: &[u64], seed: u64) -> Vec<u64> {
        let mut at: Vec<Nanos> = seconds.iter().map(|&second| Nanos::from_secs(second)).collect();
        inside_seconds(&mut at, seed);
        at.iter().map(|instant| instant.0).collect()
    }

    #[test]
    fn the_rule_is_fixed() {
        // If this fails, every schedule made from a whole-second log has changed, which readers must be told.
        assert_eq!(spread(&[5, 5, 894_038_400], 1), [5_389_055_576, 5_965_421_625, 894_038_400_163_235_605]);
    }

    #[test]
    fn is_uniform() {
        let seconds: Vec<u64> = (0..10_000).collect();
        let offsets: Vec<u64> = spread(&seconds, 3).iter().map(|at| at % SECOND_NS).collect();
        for tenth in 0..10 {
            let here = offsets.iter().filter(|&&offset| offset / (SECOND_NS / 10) == tenth).count();
            // 1,000 expected, with a standard deviation of 30: five of them.
            assert!((850..1150).contains(&here), "tenth {tenth}: {here}");
        }
    }

    proptest! {
        #[test]
        fn stays_sorted_and_in_its_second(mut seconds in prop::collection::vec(0u64..50, 0..200), seed: u64) {
            seconds.sort_unstable();
            let at = spread(&seconds, seed);
            prop_assert!(at.is_sorted());
            prop_assert!(at.iter().zip(&seconds).all(|(at, second)| at / SECOND_NS == *second));
        }

        #[test]
        fn cutting_first_changes_nothing(mut seconds in prop::collection::vec(0u64..50, 0..200), from in 0u64..50) {
            seconds.sort_unstable();
            let late: Vec<u64> = seconds.iter().copied().filter(|&second| second >= from).collect();
            let spread_then_cut: Vec<u64> =
                spread(&seconds, 1).into_iter().filter(|&at| at / SECOND_NS >= from).collect();
            prop_assert_eq!(spread(&late, 1), spread_then_cut);
        }
    }
}
