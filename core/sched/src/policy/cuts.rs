//! Chooses the points at which bands are cut.
//!
//! There are two ways. The papers' rule of thumb looks at two quantiles and leaves everything above the 99.25th
//! percentile to one band, which holds most of the load if tails are heavy. [`Sizes`] finds the cuts that are best by
//! formula. With Poisson arrivals the mean response time under bands is a sum over the bands, and each term depends
//! only on the two ends of its band (M/G/1, bands of the remaining size; Scully, Harchol-Balter & Scheller-Wolf 2018,
//! theorem 5.5). Dynamic programming therefore finds the best ends exactly.
//!
//! The quantity minimised is E[T] / E[X] + E[T / X]: mean response time and mean slowdown, each as a multiple of its
//! value for a job that has the link to itself. Under processor sharing both are 1 / (1 - rho). Cuts that minimise only
//! the mean response time put too many larger jobs into the bands of the small ones. The load is assumed to be [`RHO`].
//! At a load of 0.8, these cuts cost at most about 2 % more than cuts made for 0.8 (our traces, bounded Pareto; five
//! bands), and 6 % more with three bands and exponential sizes.

use super::bands::BANDS_MAX;

/// The load for which cuts are chosen.
const RHO: f64 = 0.9;
/// The number of atoms for the smaller half of the jobs. Each stands for an equal share of those jobs. Doubling it
/// changes the cost of the cuts by 1 % (exponential sizes).
const SMALL: u32 = 16;
/// The number of atoms in each halving of the larger jobs. The next constant is the number of halvings; the last one
/// holds one job in a million.
const STEPS: u32 = 4;
const HALVINGS: u32 = 20;
/// The ratio above which two costs count as equal, so that rounding does not decide.
const TIE: f64 = 1.0 - 1e-9;
const ATOMS_MAX: usize = (SMALL + STEPS * (HALVINGS - 1)) as usize + 1;

/// Returns the cut points of `bands` bands for sizes with this quantile function, in bytes: the lowest at the median,
/// the highest in the middle of the 99th to 99.5th percentile, the others spaced evenly on a logarithmic scale between
/// (Harchol-Balter et al. 2000, section 3.3.1). There is one cut fewer than bands, or fewer if not enough distinct cuts
/// exist.
///
/// `quantile` is called with arguments in (0, 1) and returns bytes; a result below 1 counts as 1.
pub fn rule_of_thumb(quantile: impl Fn(f64) -> f64, bands: usize) -> Vec<u64> {
    spaced(quantile(QUANTILE_LOW), quantile(QUANTILE_HIGH), bands)
}

const QUANTILE_LOW: f64 = 0.5;
const QUANTILE_HIGH: f64 = 0.9925;

/// Returns the cut points of `bands` bands, spaced evenly on a logarithmic scale: increasing, the lowest at `low`.
pub(super) fn spaced(low: f64, high: f64, bands: usize) -> Vec<u64> {
    assert!((1..=BANDS_MAX).contains(&bands), "{bands} bands");
    let low = low.max(1.0);
    let high = high.max(low);
    let last = bands.saturating_sub(2).max(1) as f64;
    let mut cuts: Vec<u64> =
        (0..bands - 1).map(|at| (low * (high / low).powf(at as f64 / last)).round() as u64).collect();
    cuts.dedup();
    cuts
}

/// Returns the cut points of `bands` bands that are best by formula for sizes with this quantile function, in bytes.
/// The cuts increase. There is one cut fewer than bands, or fewer still if more would not help.
///
/// `quantile` is called with arguments in (0, 1) and returns bytes; a result below 1 counts as 1.
pub fn best_cuts(quantile: impl Fn(f64) -> f64, bands: usize) -> Vec<u64> {
    Sizes::of(quantile).cuts(bands)
}

/// Job sizes as a small number of atoms, which are finer for larger sizes, and the cost of bands between them.
pub(super) struct Sizes {
    /// The sums over all atoms up to each one; the first entry is the empty sum.
    sums: Vec<Sums>,
    /// The arrivals while the link sends a byte.
    lambda: f64,
}

/// Sums over all atoms up to a certain one.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// The largest size among these atoms, in bytes. A cut would be made there.
    end: f64,
    share: f64,
    bytes: f64,
    squares: f64,
    /// The sum of the weights of the jobs' response times; a weight is 1 / E[X] + 1 / X.
    weight: f64,
    /// The sum of weight times size.
    weighted: f64,
}

impl Sizes {
    pub(super) fn of(quantile: impl Fn(f64) -> f64) -> Sizes {
        let at = |larger: f64| quantile(1.0 - larger).max(1.0);
        // The share of jobs that are larger than all jobs up to an atom.
        let larger = |atom: usize| match atom as u32 {
            small @ 0..SMALL => 1.0 - 0.5 * f64::from(small) / f64::from(SMALL),
            large => (-1.0 - f64::from(large - SMALL) / f64::from(STEPS)).exp2(),
        };
        let atoms: Vec<(f64, f64, f64)> = (0..ATOMS_MAX)
            .map(|atom| {
                let (from, to) = (larger(atom), if atom + 1 == ATOMS_MAX { 0.0 } else { larger(atom + 1) });
                let middle = at((from + to) / 2.0);
                // Slightly within: if the function jumps, the atom ends before it.
                let end = at(to.max(from / 2.0) * (1.0 + 1e-9)).max(middle);
                (middle, end, from - to)
            })
            .collect();
        let mean: f64 = atoms.iter().map(|(size, _, share)| size * share).sum();
        let mut sums = Vec::with_capacity(1 + ATOMS_MAX);
        sums.push(Sums::default());
        for (size, end, share) in atoms {
            let (before, weight) = (sums[sums.len() - 1], 1.0 / mean + 1.0 / size);
            let after = Sums {
                end: end.round(),
                share: before.share + share,
                bytes: before.bytes + size * share,
                squares: before.squares + size * size * share,
                weight: before.weight + share * weight,
                weighted: before.weighted + share * weight * size,
            };
            // No cut can separate atoms that end at the same byte.
            if sums.len() > 1 && before.end >= after.end {
                sums.pop();
            }
            sums.push(after);
        }
        Sizes { sums, lambda: RHO / mean }
    }

    pub(super) fn cuts(&self, bands: usize) -> Vec<u64> {
        assert!((1..=BANDS_MAX).contains(&bands), "{bands} bands");
        let all = self.sums.len() - 1;
        let cost: Vec<Vec<f64>> =
            (0..all).map(|from| (0..=all).map(|to| self.band(from, to.max(from))).collect()).collect();
        // The minimum cost of everything up to an atom with the bands tried so far, and the beginning of the last band.
        let mut least: Vec<f64> = cost[0].clone();
        let mut begins = vec![vec![0; all + 1]];
        for _ in 1..bands {
            let mut next = least.clone();
            let mut from = vec![0; all + 1];
            for to in 1..=all {
                for begin in 1..to {
                    let cost = least[begin] + cost[begin][to];
                    if cost < next[to] * TIE {
                        (next[to], from[to]) = (cost, begin);
                    }
                }
            }
            least = next;
            begins.push(from);
        }
        self.ends(&begins)
    }

    /// Traces the best bands back from the last atom and returns their ends.
    fn ends(&self, begins: &[Vec<usize>]) -> Vec<u64> {
        let mut at = self.sums.len() - 1;
        let mut cuts = vec![];
        for from in begins.iter().rev() {
            if from[at] > 0 {
                at = from[at];
                cuts.push(self.sums[at].end as u64);
            }
        }
        cuts.reverse();
        cuts
    }

    /// Returns the cost of these cut points. Only ratios between costs for the same sizes are meaningful.
    pub(super) fn cost(&self, cuts: &[u64]) -> f64 {
        let atom = |cut: &u64| self.sums.partition_point(|sums| sums.end <= *cut as f64) - 1;
        let mut ends: Vec<usize> = [0].into_iter().chain(cuts.iter().map(atom)).collect();
        ends.push(self.sums.len() - 1);
        ends.windows(2).filter(|ends| ends[0] < ends[1]).map(|ends| self.band(ends[0], ends[1])).sum()
    }

    /// Returns the cost of one band: the time that the band's jobs wait until they are first served, plus the time that
    /// all jobs take to get through the band.
    fn band(&self, from: usize, to: usize) -> f64 {
        let (all, low, high) = (self.sums[self.sums.len() - 1], self.sums[from], self.sums[to]);
        let (after, before) = (self.lambda * low.bytes, self.lambda * high.bytes);
        let capped_square = high.squares + high.end * high.end * (all.share - high.share).max(0.0);
        let wait = 0.5 * self.lambda * capped_square / ((1.0 - before) * (1.0 - after));
        let up_to = |sums: Sums| sums.weighted + sums.end * (all.weight - sums.weight).max(0.0);
        (high.weight - low.weight) * wait + (up_to(high) - up_to(low)) / (1.0 - after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bounded Pareto, alpha 1.1, from 100 bytes to 10 MB.
    fn heavy(u: f64) -> f64 {
        let (low, ratio, alpha) = (100.0, 1e-5f64, 1.1);
        low / (1.0 - u * (1.0 - ratio.powf(alpha))).powf(1.0 / alpha)
    }

    #[test]
    fn the_rule_spaces_evenly_on_a_logarithmic_scale() {
        let quantile = |u: f64| if u < 0.9 { 1000.0 } else { 64_000.0 };
        assert_eq!(rule_of_thumb(quantile, 5), [1000, 4000, 16_000, 64_000]);
        assert_eq!(rule_of_thumb(quantile, 3), [1000, 64_000]);
        assert_eq!(rule_of_thumb(quantile, 2), [1000]);
        assert!(rule_of_thumb(quantile, 1).is_empty());
        // If all sizes are equal, there is only one place to cut.
        assert_eq!(rule_of_thumb(|_| 5000.0, 5), [5000]);
    }

    /// Two sizes: by hand, with all the large jobs behind all the small ones.
    #[test]
    fn two_sizes_are_parted() {
        let sizes = Sizes::of(|u| if u < 0.875 { 1000.0 } else { 1e6 });
        assert_eq!(sizes.cuts(5), [1000]);
        assert!(sizes.cost(&[1000]) < sizes.cost(&[]) / 10.0);
        assert!(sizes.cuts(1).is_empty() && Sizes::of(|_| 5000.0).cuts(5).is_empty(), "nothing to part");
    }

    /// One band costs as much as first come, first served (Pollaczek & Khinchine); here all sizes are equal.
    #[test]
    fn the_cost_of_one_band_is_that_of_first_come_first_served() {
        let (x, rho) = (5000.0, RHO);
        let response = x + rho / x * x * x / (2.0 * (1.0 - rho));
        let cost = Sizes::of(|_| x).cost(&[]);
        assert!((cost - response * 2.0 / x).abs() < 1e-9, "{cost}");
    }

    /// The cost of two bands, term by term: in the first all arrivals count, the large ones up to the cut; the second
    /// waits for both.
    #[test]
    fn the_cost_of_two_bands_is_that_of_the_formula() {
        let (small, large, share) = (1000.0, 1e6, 0.125);
        let mean = small * (1.0 - share) + large * share;
        let lambda = RHO / mean;
        let (weight_small, weight_large) =
            ((1.0 - share) * (1.0 / mean + 1.0 / small), share * (1.0 / mean + 1.0 / large));
        let idle_of_small = 1.0 - lambda * small * (1.0 - share);
        let first = 0.5 * lambda * small * small / idle_of_small;
        let second =
            0.5 * lambda * (small * small * (1.0 - share) + large * large * share) / ((1.0 - RHO) * idle_of_small);
        // All jobs send the first kilobyte in the first band, and the large ones the rest in the second.
        let sent = (weight_small + weight_large) * small + weight_large * (large - small) / idle_of_small;
        let expected = weight_small * first + weight_large * second + sent;
        let cost = Sizes::of(|u| if u < 1.0 - share { small } else { large }).cost(&[1000]);
        assert!((cost / expected - 1.0).abs() < 1e-9, "{cost} is not {expected}");
    }

    #[test]
    fn with_a_heavy_tail_the_rule_of_thumb_costs_many_times_the_best() {
        let sizes = Sizes::of(heavy);
        let (best, thumb) = (sizes.cuts(6), rule_of_thumb(heavy, 6));
        assert_eq!(best.len(), 5);
        assert!(sizes.cost(&thumb) > 4.0 * sizes.cost(&best), "{best:?} against {thumb:?}");
        assert!(best[4] > 500_000, "the last band is for the very largest: {best:?}");
    }

    proptest! {
        /// No cuts at the ends of atoms are better, whatever the sizes.
        #[test]
        fn none_are_better(
            at in prop::collection::vec((1.0f64..1e7, 1.0f64..1e7), 1..5),
            shares in prop::collection::vec(0.001f64..0.999, 4),
            picks in prop::collection::vec(0..ATOMS_MAX, 0..5),
        ) {
            // A mixture by quantiles: pieces that rise from one size to another.
            let mut ends: Vec<f64> = at.iter().flat_map(|(a, b)| [*a, *b]).collect();
            ends.sort_by(f64::total_cmp);
            let quantile = |u: f64| {
                let piece = shares.iter().filter(|share| **share < u).count().min(ends.len() / 2 - 1);
                ends[2 * piece] + (ends[2 * piece + 1] - ends[2 * piece]) * u
            };
            let sizes = Sizes::of(quantile);
            let mut others: Vec<u64> = picks.iter().map(|at| sizes.sums[at % sizes.sums.len()].end as u64).collect();
            others.sort_unstable();
            others.dedup();
            others.retain(|cut| *cut > 0);
            let best = sizes.cuts(others.len() + 1);
            prop_assert!(best.is_sorted_by(|a, b| a < b) && best.len() <= others.len());
            prop_assert!(sizes.cost(&best) <= sizes.cost(&others) * (1.0 + 1e-7));
        }

        /// Additional bands never cost more.
        #[test]
        fn more_bands_cost_no_more(scale in 1.0f64..1e4, power in 0.2f64..2.0) {
            let sizes = Sizes::of(|u| scale * (1.0 - u).powf(-power));
            let costs: Vec<f64> = (1..=BANDS_MAX).map(|bands| sizes.cost(&sizes.cuts(bands))).collect();
            prop_assert!(costs.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-7)), "{costs:?}");
        }
    }
}
