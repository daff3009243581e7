//! How visits share addresses: not at all, or as in households and carriers' networks.
//!
//! A server sees addresses. If every visit has its own, an order that is fair between addresses is fair between visits.
//! If all visits have four, as distant groups of clients had until now, a visit that is ahead delays others. Home lines
//! are between the two. Of every thirty consecutive visits, in an order that the seed draws, [`ALONE`] are alone at
//! their address, nine are from [`HOUSEHOLDS`] of two, three and four, and three come from one carrier's NAT, which is
//! the same for the whole run. A household's visits are thus close together, which is the harder case: at 10 Mbit/s and
//! rho 0.8 thirty pages arrive in two minutes.

use std::str::FromStr;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// The number of visits that are assigned together.
const VISITS: usize = 30;
/// The number of them that are alone at their address.
const ALONE: u32 = 18;
/// The number of visits from each household among them.
const HOUSEHOLDS: [u32; 3] = [2, 3, 4];
/// The address of the carrier.
const CARRIER: u32 = 0;

/// How visits are assigned to addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visitors {
    /// Each visit has its own address.
    Alone,
    /// 18 of 30 visits are alone, 9 are from households of two to four, 3 are behind the NAT of a carrier.
    Households,
}

impl Visitors {
    /// Returns the name in experiments and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Visitors::Alone => "visit",
            Visitors::Households => "households",
        }
    }

    /// Returns the address of a visit, both counted from 0.
    pub fn address(self, visit: u32, seed: u64) -> u32 {
        match self {
            Visitors::Alone => visit,
            Visitors::Households => household(visit, seed),
        }
    }
}

impl FromStr for Visitors {
    type Err = String;

    fn from_str(text: &str) -> Result<Visitors, String> {
        let named = [Visitors::Alone, Visitors::Households].into_iter().find(|visitors| visitors.name() == text);
        named.ok_or_else(|| format!("`{text}` is no way to deal visits: write visit or households"))
    }
}

fn household(visit: u32, seed: u64) -> u32 {
    let (round, place) = (visit / VISITS as u32, visit as usize % VISITS);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // Separate from the streams of pages and times.
    random.set_stream(u64::from(round) | 1 << 32);
    // The address within the round; `None` is the carrier.
    let own = (0..ALONE).map(Some);
    let shared = (ALONE..).zip(HOUSEHOLDS).flat_map(|(address, visits)| (0..visits).map(move |_| Some(address)));
    let mut dealt: Vec<Option<u32>> = own.chain(shared).collect();
    dealt.resize(VISITS, None);
    dealt.shuffle(&mut random);
    let each = ALONE + HOUSEHOLDS.len() as u32;
    dealt[place].map_or(CARRIER, |address| 1 + round * each + address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// The number of visits of each address.
    fn counts(visits: std::ops::Range<u32>, seed: u64) -> HashMap<u32, u32> {
        let mut counts = HashMap::new();
        visits.for_each(|visit| *counts.entry(Visitors::Households.address(visit, seed)).or_default() += 1);
        counts
    }

    #[test]
    fn of_thirty_visits_eighteen_are_alone_and_three_behind_a_carrier() {
        for (round, seed) in [(0, 1), (1, 1), (7, 2)] {
            let counts = counts(round * 30..(round + 1) * 30, seed);
            let with = |visits: u32| counts.iter().filter(|(at, count)| **at != CARRIER && **count == visits).count();
            assert_eq!([1, 2, 3, 4].map(with), [18, 1, 1, 1], "round {round}");
            assert_eq!(counts[&CARRIER], 3);
        }
    }

    #[test]
    fn rounds_share_nothing_but_the_carrier() {
        let both = counts(0..60, 5);
        assert_eq!((both.len(), both[&CARRIER]), (2 * 21 + 1, 6));
        assert_eq!(both.keys().max(), Some(&42), "addresses are counted without gaps");
    }

    #[test]
    fn the_seed_decides_who_shares() {
        let dealt = |seed| (0..30).map(|visit| Visitors::Households.address(visit, seed)).collect::<Vec<_>>();
        assert_eq!(dealt(1), dealt(1));
        assert_ne!(dealt(1), dealt(2));
        assert!((0..100).all(|visit| Visitors::Alone.address(visit, 1) == visit));
    }

    #[test]
    fn names_are_read() {
        for visitors in [Visitors::Alone, Visitors::Households] {
            assert_eq!(visitors.name().parse(), Ok(visitors));
        }
        assert_eq!("4".parse::<Visitors>().unwrap_err(), "`4` is no way to deal visits: write visit or households");
    }
}
