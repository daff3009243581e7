//! Which client asks: jobs are dealt to groups of clients by their share, and to the addresses of a group evenly.
//!
//! Who gets a job depends on the seed and its number alone, so it is the same under every policy compared. The requests
//! of a user all come from one address: people do not change networks while they read.

use crate::Plan;

/// Group and address, each by its place in the plan; both 0 where the kernel chooses the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dealt {
    pub(crate) group: u32,
    pub(crate) address: u32,
}

#[derive(Debug)]
pub(crate) struct Deal {
    seed: u64,
    /// The share of all groups up to this one, in 2^-64.
    upto: Vec<u64>,
    addresses: Vec<u32>,
}

impl Deal {
    pub(crate) fn new(plan: &Plan) -> Deal {
        let mut sum = 0.0;
        let upto = plan.clients.iter().map(|group| {
            sum += group.share;
            (sum * 2f64.powi(64)) as u64
        });
        let addresses = plan.clients.iter().map(|group| group.addresses.len() as u32).collect();
        Deal { seed: plan.seed, upto: upto.collect(), addresses }
    }

    /// Of a job, or of a user.
    pub(crate) fn of(&self, number: u64) -> Dealt {
        if self.upto.is_empty() {
            return Dealt { group: 0, address: 0 };
        }
        let at = mix(self.seed.wrapping_add(mix(number)));
        let group = self.upto.partition_point(|&upto| upto <= at).min(self.upto.len() - 1);
        let address = (mix(at) % u64::from(self.addresses[group])) as u32;
        Dealt { group: group as u32, address }
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014): consecutive numbers come out as if drawn.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{group, plan};

    fn deal(seed: u64) -> Deal {
        let mut plan = plan(1);
        plan.clients = vec![
            group("a", &["127.0.0.2", "127.0.0.3"], 0.25),
            group("b", &["127.0.0.4"], 0.7),
            group("c", &["127.0.0.5"], 0.05),
        ];
        plan.seed = seed;
        Deal::new(&plan)
    }

    #[test]
    fn groups_get_their_share_and_addresses_an_even_one() {
        let deal = deal(3);
        let mut counts = [0, 0, 0, 0];
        for number in 0..100_000 {
            let Dealt { group, address } = deal.of(number);
            counts[if group == 0 { address as usize } else { 1 + group as usize }] += 1;
        }
        // Six standard deviations of a binomial are at most 0.9 % of 100,000.
        for (count, share) in counts.into_iter().zip([0.125, 0.125, 0.7, 0.05]) {
            assert!((f64::from(count) / 1e5 - share).abs() < 0.009, "{counts:?}");
        }
    }

    #[test]
    fn the_seed_decides() {
        let dealt = |seed| (0..100).map(|number| deal(seed).of(number)).collect::<Vec<_>>();
        assert_eq!(dealt(1), dealt(1));
        assert_ne!(dealt(1), dealt(2));
    }

    #[test]
    fn without_groups_the_kernel_chooses() {
        let deal = Deal::new(&plan(1));
        assert_eq!(deal.of(7), Dealt { group: 0, address: 0 });
    }
}
