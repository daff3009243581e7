//! The ratio of a response's length after coding to its length before, for responses that are coded while they are
//! sent.
//!
//! A program announces a length, and the server sends fewer bytes; how many is known only when all are coded. Pages of
//! one route are similar, and so are their ratios. Ranking by length times ratio would fail as any estimate does: once
//! a response has exceeded its estimate, it seems to have nothing left and keeps the link until it ends. So the size is
//! assumed to be uniform in a range around the estimate, as wide as the ratios of the route vary, and a larger response
//! is ranked by the bytes sent.

use super::curve::{Curve, Knot};

/// The minimum number of coded responses before their ratio is used.
pub const RATIOS_MIN: u32 = 8;
/// The weight of a new ratio in the mean.
const GAIN: f64 = 1.0 / 16.0;
/// The minimum half-width of a size's assumed range, as a fraction of the estimate.
const WIDTH_MIN: f64 = 1.0 / 16.0;
/// The maximum ratio that is learned. Coding makes a response at most a few bytes longer.
const RATIO_MAX: f64 = 2.0;

/// The ratios of a route.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ratio {
    mean: f64,
    /// The mean distance of ratios from the mean.
    deviation: f64,
    count: u32,
}

impl Ratio {
    /// Counts a response whose length coding changed from `plain_bytes` to `coded_bytes`.
    pub fn note(&mut self, plain_bytes: u64, coded_bytes: u64) {
        if plain_bytes == 0 {
            return;
        }
        let ratio = (coded_bytes as f64 / plain_bytes as f64).min(RATIO_MAX);
        // The first ratios count equally.
        let gain = GAIN.max(1.0 / f64::from(self.count + 1));
        if self.count > 0 {
            self.deviation += gain * ((ratio - self.mean).abs() - self.deviation);
        }
        self.mean += gain * (ratio - self.mean);
        self.count = self.count.saturating_add(1);
    }

    /// Returns the mean ratio; `None` if too little is known.
    pub fn known(&self) -> Option<f64> {
        (self.count >= RATIOS_MIN).then_some(self.mean)
    }

    /// Returns the rank of a response of this length before coding: the Gittins index of a size that is uniform around
    /// the estimate. Beyond that range the rank is the number of bytes sent.
    pub fn curve(&self, plain_bytes: u64) -> Curve {
        let plain = plain_bytes as f64;
        let expected = (plain * self.mean).max(1.0);
        // The average distance from the middle of a uniform distribution is half its half width.
        let half_width = (2.0 * plain * self.deviation).clamp(expected * WIDTH_MIN, expected);
        let (begin, end) = ((expected - half_width) as u64, (expected + half_width).ceil() as u64);
        let mut knots = vec![Knot { from_bytes: 0, rank: expected, slope: -1.0 }];
        if begin == 0 {
            knots.clear();
        }
        let left = (end - begin) as f64 / 2.0;
        knots.push(Knot { from_bytes: begin, rank: left, slope: -0.5 });
        if end > begin {
            knots.push(Knot { from_bytes: end, rank: end as f64, slope: 1.0 });
        }
        Curve::new(knots)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(ratios: impl IntoIterator<Item = (u64, u64)>) -> Ratio {
        let mut ratio = Ratio::default();
        ratios.into_iter().for_each(|(plain, coded)| ratio.note(plain, coded));
        ratio
    }

    #[test]
    fn a_ratio_is_known_after_a_few() {
        assert_eq!(of((1..RATIOS_MIN).map(|_| (1000, 200))).known(), None);
        let known = of((0..RATIOS_MIN).map(|_| (1000, 200))).known().unwrap();
        assert!((known - 0.2).abs() < 1e-9, "{known}");
        assert_eq!(of([(0, 20); 100]).known(), None, "nothing is no part of nothing");
        let changed = of((0..100).map(|_| (1000, 200)).chain((0..100).map(|_| (1000, 400)))).known().unwrap();
        assert!((0.39..0.4).contains(&changed), "the past fades: {changed}");
    }

    /// The response ranks as if its size were known, until the bytes sent approach the expected size.
    #[test]
    fn a_response_ranks_by_its_expected_length() {
        let curve = of((0..100).map(|_| (10_000, 2_000))).curve(100_000);
        assert_eq!([0, 5_000, 18_000].map(|sent| curve.rank(sent)), [20_000, 15_000, 2_000]);
        let near = curve.rank(20_000);
        assert!((500..800).contains(&near), "it may still be longer: {near}");
        // A response longer than any other is not assumed to be nearly done.
        assert_eq!([22_000, 50_000].map(|sent| curve.rank(sent)), [22_000, 50_000]);
    }

    #[test]
    fn ratios_that_differ_make_the_end_less_certain() {
        let alike = of((0..100).map(|_| (1_000, 300)));
        let mixed = of((0..100).map(|at| (1_000, if at % 2 == 0 { 200 } else { 400 })));
        let [alike, mixed] = [alike, mixed].map(|ratio| ratio.curve(100_000));
        assert!(alike.rank(35_000) >= 35_000 && mixed.rank(35_000) < 10_000);
        assert!(mixed.rank(0).abs_diff(30_000) < 1_500, "{}", mixed.rank(0));
        assert_eq!(mixed.rank(60_000), 60_000);
    }

    proptest! {
        /// Tests any lengths before and after coding.
        #[test]
        fn any_ratio_makes_a_curve(
            ratios in prop::collection::vec((any::<u64>(), any::<u64>()), 0..40),
            plain: u64,
            sent: u64,
        ) {
            let ratio = of(ratios);
            let curve = ratio.curve(plain);
            prop_assert!(curve.knots().iter().all(|knot| knot.rank.is_finite() && knot.slope.is_finite()));
            let beyond = curve.knots().last().unwrap().from_bytes;
            prop_assert!(sent <= beyond || curve.rank(sent) >= beyond / 2);
            prop_assert!(ratio.known().is_none_or(|known| (0.0..=RATIO_MAX).contains(&known)));
        }
    }
}
