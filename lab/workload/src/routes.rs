//! Routes of an application: requests distinguished by the first folder of their path.
//!
//! A proxy that does not know lengths learns the sizes of each route. To make a trace's sizes those of an application,
//! each of its requests gets a route: a random one, or one chosen by its size, so that sizes within a route are about
//! log-normal around its own median.

use std::fmt;
use std::str::FromStr;

use crate::Ask;

/// The maximum number of routes, whose names have two letters.
pub const ROUTES_MAX: u32 = 26 * 26;
/// The range of the medians of routes, if chosen by size; they are evenly spaced as logarithms.
const SIZES: [f64; 2] = [64.0, 1e9];

/// `100`: a hundred routes, independent of sizes. `100~0.5`: sizes within each route are about log-normal with sigma
/// 0.5, as long as all sizes together are spread more widely than that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Routes {
    count: u32,
    sigma: Option<f64>,
}

/// The fault of a text of routes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no number of routes: write 1 to {ROUTES_MAX}, such as 100, or 100~0.5 for the sigma of sizes within each"
)]
pub struct RoutesError(String);

impl FromStr for Routes {
    type Err = RoutesError;

    fn from_str(text: &str) -> Result<Routes, RoutesError> {
        let wrong = || RoutesError(text.into());
        let (count, sigma) = text.split_once('~').map_or((text, None), |(count, sigma)| (count, Some(sigma)));
        let count = count.parse().ok().filter(|count| (1..=ROUTES_MAX).contains(count)).ok_or_else(wrong)?;
        let sigma = sigma.map(|sigma| sigma.parse::<f64>().ok().filter(|sigma| (0.0..=10.0).contains(sigma)));
        Ok(Routes { count, sigma: sigma.map(|sigma| sigma.ok_or_else(wrong)).transpose()? })
    }
}

impl fmt::Display for Routes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.count)?;
        self.sigma.map_or(Ok(()), |sigma| write!(out, "~{sigma}"))
    }
}

impl Routes {
    /// The route of a request, two letters; the same for the same request.
    pub fn of(&self, ask: &Ask) -> [u8; 2] {
        let drawn = mixed(ask.at.0 ^ mixed(ask.size_bytes ^ mixed(ask.user.map_or(0, |user| u64::from(user) + 1))));
        let number = match self.sigma {
            None => (drawn % u64::from(self.count)) as u32,
            Some(sigma) => {
                let [least, most] = SIZES.map(f64::ln);
                let center = (ask.size_bytes.max(1) as f64).ln() + sigma * normal(drawn);
                let place = ((center - least) / (most - least)).clamp(0.0, 1.0);
                ((place * f64::from(self.count)) as u32).min(self.count - 1)
            }
        };
        [number / 26, number % 26].map(|letter| b'a' + letter as u8)
    }
}

/// A normal deviate by the method of Box and Muller, from the two halves of a number.
fn normal(drawn: u64) -> f64 {
    let [radius, angle] = [drawn >> 32, drawn & 0xffff_ffff].map(|half| (half as f64 + 0.5) / 4_294_967_296.0);
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// The mixing function of SplitMix64.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use units::Nanos;

    use super::*;

    fn ask(at: u64, size_bytes: u64) -> Ask {
        Ask { at: Nanos(at), size_bytes, user: None, group: None, client: None, part: None }
    }

    #[test]
    fn are_written_as_a_number_and_a_sigma() {
        for text in ["1", "676", "100~0.5", "100~0"] {
            assert_eq!(text.parse::<Routes>().unwrap().to_string(), text);
        }
        for wrong in ["", "0", "677", "100~", "100~-1", "100~11", "100~NaN", "x~1"] {
            let said = wrong.parse::<Routes>().unwrap_err().to_string();
            assert!(said.starts_with(&format!("`{wrong}` is no number of routes: write 1 to 676")), "{said}");
        }
    }

    #[test]
    fn without_a_sigma_each_has_its_part_of_any_size() {
        let routes: Routes = "40".parse().unwrap();
        let mut counts = BTreeMap::new();
        (0..40_000).for_each(|at| *counts.entry(routes.of(&ask(at, 1000))).or_insert(0) += 1);
        assert_eq!(counts.len(), 40);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_eq!((counts.keys().next().unwrap(), counts.keys().last().unwrap()), (b"aa", b"bn"));
    }

    /// If all sizes are spread far more widely, the sizes of one route are log-normal with that sigma.
    #[test]
    fn with_a_sigma_sizes_within_a_route_are_spread_by_it() {
        let routes: Routes = "100~0.5".parse().unwrap();
        let mut logs: BTreeMap<[u8; 2], Vec<f64>> = BTreeMap::new();
        for at in 0..200_000 {
            let log = 64_f64.ln() + (1e9_f64 / 64.0).ln() * (at as f64 / 200_000.0);
            logs.entry(routes.of(&ask(at, log.exp() as u64))).or_default().push(log);
        }
        let inner = logs.values().skip(20).take(60);
        for logs in inner {
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / logs.len() as f64;
            assert!((0.45..0.56).contains(&variance.sqrt()), "{}", variance.sqrt());
        }
    }

    #[test]
    fn the_smallest_and_the_largest_have_one() {
        let routes: Routes = "100~2".parse().unwrap();
        for size in [0, 1, u64::MAX] {
            assert!((0..1000).all(|at| routes.of(&ask(at, size)) <= *b"dv"));
        }
    }
}
