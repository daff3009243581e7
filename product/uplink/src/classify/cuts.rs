//! The cut points between bands.

use sched::policy::{best_cuts, rule_of_thumb};

use super::counters::{SIZES_MIN, Sizes};
use super::settings::{CUTS_MAX, Policy};
use crate::Error;

/// The range of cut points in bytes for an unknown site. The smallest responses go to the first band, the largest to
/// the last; with six bands there is a band for every factor of four. Web sites have medians of 2 to 20 KB, and one
/// response in a hundred above 100 KB to 1 MB.
const BYTES: (f64, f64) = (2048.0, 524_288.0);
/// The range of cut points for `srrt`: from a nearby client's small response to a distant client's large one.
const MICROSECONDS: (f64, f64) = (10_000.0, 2_560_000.0);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cuts {
    /// Default cut points, suitable for any site.
    Usual,
    /// The given cut points, in increasing order; in bytes, or in microseconds for `srrt`.
    Given(Vec<u64>),
    /// Cut points learned from the sizes that an attached classifier has seen. They are optimal by formula, except for
    /// `las`, which the formula does not cover and which uses the rule of thumb.
    Learned,
}

impl Cuts {
    /// Returns the cut points for this many bands.
    pub fn resolve(&self, policy: Policy, bands: u8, sizes: Option<&Sizes>) -> Result<Vec<u64>, Error> {
        match self {
            Cuts::Usual => {
                let (low, high) = if policy == Policy::Srrt { MICROSECONDS } else { BYTES };
                Ok(rule_of_thumb(|part| if part < 0.9 { low } else { high }, bands.into()))
            }
            Cuts::Given(cuts) => {
                let cuts_max = usize::from(bands).saturating_sub(1).min(CUTS_MAX);
                if cuts.len() > cuts_max {
                    let given = cuts.len();
                    return Err(Error::new(format!(
                        "{given} cut points: write at most {cuts_max}, for the {bands} bands of the tree for responses"
                    )));
                }
                if !cuts.is_sorted_by(|one, next| one < next) {
                    return Err(Error::new(format!("cut points {cuts:?}: write points that increase")));
                }
                Ok(cuts.clone())
            }
            Cuts::Learned if policy == Policy::Srrt => Err(Error::new(
                "cut points of srrt are times and are not learned from sizes: write --cuts with microseconds",
            )),
            Cuts::Learned => match sizes {
                Some(sizes) if sizes.total() >= SIZES_MIN => {
                    let quantile = |part| sizes.quantile(part);
                    Ok(match policy {
                        Policy::Las => rule_of_thumb(quantile, bands.into()),
                        _ => best_cuts(quantile, bands.into()),
                    })
                }
                _ => Err(Error::new(format!(
                    "{} responses are too few to learn cut points from: attach without --cuts, and again after {SIZES_MIN} responses",
                    sizes.map_or(0, Sizes::total)
                ))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_cuts_are_evenly_spaced() {
        let cuts = |policy, bands| Cuts::Usual.resolve(policy, bands, None).unwrap();
        assert_eq!(cuts(Policy::Las, 6), [2048, 8192, 32768, 131072, 524288]);
        assert_eq!(cuts(Policy::Srrt, 6), [10_000, 40_000, 160_000, 640_000, 2_560_000]);
        assert_eq!(cuts(Policy::Psjf, 14).len(), CUTS_MAX);
        assert!(cuts(Policy::Srpt, 1).is_empty());
    }

    #[test]
    fn wrong_cuts_say_what_is_right() {
        let said = |cuts: Cuts, policy| cuts.resolve(policy, 3, None).unwrap_err().to_string();
        assert!(said(Cuts::Given(vec![1, 2, 3]), Policy::Las).contains("at most 2"));
        assert!(said(Cuts::Given(vec![2, 2]), Policy::Las).contains("increase"));
        assert!(said(Cuts::Learned, Policy::Las).contains("64 responses"));
        assert!(said(Cuts::Learned, Policy::Srrt).contains("times"));
    }
}
