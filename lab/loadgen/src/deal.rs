//! Assigns jobs to clients: to the groups by their shares, and evenly to the addresses of a group.
//!
//! The client of a job depends only on the seed and the job's number, so it is the same under all policies compared.
//! All requests of a user come from one address, because people do not change networks while they read. The same holds
//! for a client of the trace, and no two clients share an address as long as there is an address for each.

use workload::Visitors;

use crate::Plan;

/// The step from the address of one visit to the address of the next, so that consecutive visits come from different
/// networks. It is a prime above the number of addresses in any group, so that every address gets its turn.
const STRIDE: u64 = 4099;

/// The group and the address, as indexes in the plan; both are 0 if the kernel chooses the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dealt {
    pub(crate) group: u32,
    pub(crate) address: u32,
}

#[derive(Debug)]
pub(crate) struct Deal {
    seed: u64,
    /// For each group with a share, the cumulative share up to and including it, in units of 2^-64.
    upto: Vec<(u64, u32)>,
    /// For each group, the number of addresses, and how its users are assigned to them.
    addresses: Vec<(u32, Option<Visitors>)>,
}

impl Deal {
    pub(crate) fn new(plan: &Plan) -> Deal {
        let mut sum = 0.0;
        let shares = (0..).zip(&plan.clients).filter_map(|(number, group)| Some((number, group.share?)));
        let upto = shares.map(|(number, share)| {
            sum += share;
            ((sum * 2f64.powi(64)) as u64, number)
        });
        let addresses = plan.clients.iter().map(|group| (group.addresses.len() as u32, group.visitors)).collect();
        Deal { seed: plan.seed, upto: upto.collect(), addresses }
    }

    /// Returns the client of a job or of a user.
    pub(crate) fn of(&self, number: u64) -> Dealt {
        if self.upto.is_empty() {
            return Dealt { group: 0, address: 0 };
        }
        let at = self.drawn(number);
        let place = self.upto.partition_point(|&(upto, _)| upto <= at).min(self.upto.len() - 1);
        self.within(self.upto[place].1, number)
    }

    /// Returns the address of a client of the trace. Clients are numbered from 0, and the addresses are used in turn by
    /// that number.
    pub(crate) fn of_client(&self, client: u32) -> Dealt {
        let Dealt { group, .. } = self.of(client.into());
        let addresses = self.addresses.get(group as usize).map_or(1, |&(addresses, _)| addresses);
        Dealt { group, address: client % addresses }
    }

    /// Returns the address of a user of this group.
    pub(crate) fn within(&self, group: u32, number: u64) -> Dealt {
        let (addresses, visitors) = self.addresses.get(group as usize).copied().unwrap_or((1, None));
        let drawn = match visitors {
            None => mix(self.drawn(number)),
            Some(visitors) => u64::from(visitors.address(number as u32, self.seed)) * STRIDE,
        };
        Dealt { group, address: (drawn % u64::from(addresses)) as u32 }
    }

    fn drawn(&self, number: u64) -> u64 {
        mix(self.seed.wrapping_add(mix(number)))
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014), which turns consecutive numbers into apparently random ones.
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
    fn a_group_without_a_share_has_only_its_own() {
        let mut plan = plan(1);
        plan.clients = vec![group("closed", &["127.0.0.2", "127.0.0.3"], 1.0), group("open", &["127.0.0.4"], 1.0)];
        plan.clients[0].share = None;
        for clients in [plan.clients.clone(), plan.clients.iter().rev().cloned().collect()] {
            plan.clients = clients;
            let (deal, closed) = (Deal::new(&plan), u32::from(plan.clients[1].share.is_none()));
            assert!((0..1000).all(|number| deal.of(number) == Dealt { group: 1 - closed, address: 0 }));
            let own: Vec<Dealt> = (0..100).map(|number| deal.within(closed, number)).collect();
            assert!(own.iter().all(|dealt| dealt.group == closed) && own.iter().any(|dealt| dealt.address == 1));
        }
    }

    #[test]
    fn a_client_keeps_its_address_and_shares_it_with_nobody_while_there_is_one_for_each() {
        let mut plan = plan(1);
        let addresses: Vec<String> = (1..=100).map(|last| format!("127.0.1.{last}")).collect();
        plan.clients = vec![group("a", &addresses.iter().map(String::as_str).collect::<Vec<_>>(), 1.0)];
        let deal = Deal::new(&plan);
        let dealt: Vec<u32> = (0..100).map(|client| deal.of_client(client).address).collect();
        assert_eq!(dealt.iter().collect::<std::collections::BTreeSet<_>>().len(), 100);
        assert!((0..100).all(|client| deal.of_client(client) == deal.of_client(client + 100)));
        assert_eq!(Deal::new(&super::tests::plan(1)).of_client(7), Dealt { group: 0, address: 0 });
    }

    #[test]
    fn visits_have_addresses_as_it_is_said() {
        let mut plan = plan(1);
        let addresses: Vec<String> = (1..=250).map(|last| format!("127.0.1.{last}")).collect();
        plan.clients = vec![group("a", &addresses.iter().map(String::as_str).collect::<Vec<_>>(), 1.0)];
        for (visitors, of_a_hundred_and_twenty) in [(Visitors::Alone, 120), (Visitors::Households, 4 * 21 + 1)] {
            plan.clients[0].visitors = Some(visitors);
            let deal = Deal::new(&plan);
            let dealt: std::collections::BTreeSet<u32> = (0..120).map(|visit| deal.of(visit).address).collect();
            assert_eq!(dealt.len(), of_a_hundred_and_twenty);
            assert!(dealt.iter().all(|&address| address < 250));
        }
    }

    #[test]
    fn clients_are_dealt_to_groups_by_their_share() {
        let deal = deal(3);
        let of_b = (0..10_000).filter(|&client| deal.of_client(client).group == 1).count();
        assert!((6_800..7_200).contains(&of_b), "{of_b}");
    }

    #[test]
    fn without_groups_the_kernel_chooses() {
        let deal = Deal::new(&plan(1));
        assert_eq!(deal.of(7), Dealt { group: 0, address: 0 });
    }
}
