//! The Gittins index of a job by its attained service, as a size.
//!
//! A job of which a bytes were sent may be sent up to byte b and then be paused. That costs E[min(S, b) − a | S > a]
//! bytes of the link and ends the job with probability P[S ≤ b | S > a]. The minimum cost per completion over all b,
//!
//! G(a) = inf over b > a of E[min(S, b) − a | S > a] / P[S ≤ b | S > a],
//!
//! is the inverse of the Gittins index. Serving the lowest G first has the lowest mean response time in M/G/1 of all
//! orders that do not know sizes (Gittins, "Multi-armed bandit allocation indices", 1989; Aalto, Ayesta & Righter, "On
//! the Gittins index in the M/G/1 queue", 2009). This also holds if the sizes of some jobs are known and others have
//! other distributions (Scully, Grosof & Harchol-Balter, "The Gittins policy is nearly optimal in the M/G/k under
//! extremely general conditions", 2020). For a known size G(a) is S − a, the bytes left: known and unknown sizes stand
//! in one order, which for known sizes is SRPT.
//!
//! The obvious way, SRPT on an estimate, fails: once a job has exceeded its estimate, it seems to have nothing left and
//! keeps the link until it ends. The mean is therefore unbounded as the error of the estimate grows (Scully, Grosof &
//! Mitzenmacher, "Uniform bounds for scheduling with job size estimates", 2022, arXiv 2110.00633).
//!
//! Sizes are assumed to be uniform within a bucket of the histogram. The hazard rate then rises within each bucket, so
//! the best b is the end of a bucket. Beyond the largest size seen G(a) is a, which is least attained service: the
//! remainder in a heavy tail is about as large as the part sent.

use super::curve::{Curve, Knot};
use super::histogram::{BUCKETS, Histogram, low_end, width};

/// The weight, in samples, of a size larger than all seen so far, because the next size may always be larger. Laplace's
/// rule of succession gives a weight of one sample to a size larger than the largest, but the bucket of the largest
/// already reaches beyond it. A tenth is better by up to 6 % in the mean after 1,000 requests, and smaller weights
/// change nothing more (docs/notebook/learned-sizes.md).
pub const LARGER: f64 = 0.1;

/// Returns the curve of a histogram, in which at least one response must have ended.
pub fn curve(histogram: &Histogram) -> Curve {
    let survival = histogram.survival(LARGER);
    let top = histogram.top();
    let mass = |k: usize| survival[k] - survival[k + 1];
    let mut starts = [f64::INFINITY; BUCKETS + 1];
    for k in 0..top {
        let mut cost = 0.0;
        for (end, after) in (k..top).map(|end| (end, survival[end + 1])) {
            cost += width(end) * (survival[end] + after) / 2.0;
            if survival[k] > after {
                starts[k] = starts[k].min(cost / (survival[k] - after));
            }
        }
    }
    let mut knots: Vec<Knot> = Vec::with_capacity(top + 1);
    for k in 0..top {
        // Just before the edge there are two choices: to stop at the end of this bucket, or to continue beyond it.
        let within = if mass(k) > 0.0 { survival[k + 1] * width(k) / mass(k) } else { f64::INFINITY };
        let end = within.min(starts[k + 1]);
        let knot = Knot { from_bytes: low_end(k), rank: starts[k], slope: (end - starts[k]) / width(k) };
        if !knots.last().is_some_and(|last| goes_on(last, &knot)) {
            knots.push(knot);
        }
    }
    knots.push(Knot { from_bytes: low_end(top), rank: low_end(top) as f64, slope: 1.0 });
    Curve::new(knots)
}

/// Returns whether the piece continues the line of the previous one.
fn goes_on(before: &Knot, knot: &Knot) -> bool {
    let rank = before.rank + before.slope * (knot.from_bytes - before.from_bytes) as f64;
    (rank - knot.rank).abs() <= 1e-9 * knot.rank && (before.slope - knot.slope).abs() <= 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(sizes: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        sizes.into_iter().for_each(|bytes| histogram.note(bytes));
        histogram
    }

    /// Computes G by its definition, over every b that is a whole byte, from the density that the buckets represent.
    fn by_definition(histogram: &Histogram, attained: u64) -> f64 {
        let above = |bytes: u64| 1.0 - histogram.share_below(LARGER, bytes);
        let (now, mut cost, mut best) = (above(attained), 0.0, f64::INFINITY);
        for b in attained..low_end(histogram.top()) {
            cost += (above(b) + above(b + 1)) / 2.0;
            let ended = now - above(b + 1);
            if ended > 0.0 {
                best = best.min(cost / ended);
            }
        }
        best
    }

    proptest! {
        /// The index is exact at the edges of buckets, where it was computed.
        #[test]
        fn the_index_is_that_of_its_definition(sizes in prop::collection::vec(0u64..4000, 1..60)) {
            let histogram = of(sizes);
            let curve = curve(&histogram);
            for k in 0..histogram.top() {
                let (found, exact) = (curve.rank(low_end(k)) as f64, by_definition(&histogram, low_end(k)));
                prop_assert!((found - exact).abs() <= 0.51 + 1e-6 * exact, "at {}: {found} for {exact}", low_end(k));
            }
            prop_assert!(curve.knots().iter().all(|knot| knot.rank.is_finite() && knot.slope.is_finite()));
            let beyond = low_end(histogram.top());
            prop_assert_eq!([curve.rank(beyond), curve.rank(10 * beyond)], [beyond, 10 * beyond]);
        }

        /// Between the edges the index is close, since a line replaces a curve.
        #[test]
        fn within_a_bucket_it_is_near(sizes in prop::collection::vec(0u64..4000, 20..60), at in 0.0..1.0) {
            let histogram = of(sizes);
            let sent = (at * (low_end(histogram.top()) - 1) as f64) as u64;
            let (found, exact) = (curve(&histogram).rank(sent) as f64, by_definition(&histogram, sent));
            prop_assert!(found <= 2.0 * exact + 2.0 && exact <= 2.0 * found + 2.0, "{found} for {exact} at {sent}");
        }
    }

    /// Similar sizes are as good as known sizes: the remainder falls as bytes are sent.
    #[test]
    fn sizes_alike_rank_as_if_known() {
        let curve = curve(&of((0..1000).map(|i| 4096 + 4 * i)));
        let ranks = [0, 2000, 4000].map(|sent| curve.rank(sent));
        for (rank, left) in ranks.into_iter().zip([6144u64, 4144, 2144]) {
            assert!(rank.abs_diff(left) < left / 20, "{ranks:?}");
        }
        // A response larger than all of them is no longer like them.
        assert_eq!(curve.rank(9000), 9000);
    }

    /// Most responses are small and some are huge: a response of which more was sent than the small sizes is huge, and
    /// ranks as such.
    #[test]
    fn two_kinds_of_sizes() {
        let sizes = (0..900).map(|_| 1500).chain((0..100).map(|_| 3_000_000));
        let curve = curve(&of(sizes));
        assert!(curve.rank(0) < 2500, "{}", curve.rank(0));
        assert!(curve.rank(2048) > 2_500_000, "{}", curve.rank(2048));
        assert!(curve.knots().len() < 10, "{:?}", curve.knots());
    }

    /// Aborted responses are in the tail.
    #[test]
    fn aborted_responses_make_it_larger() {
        let mut histogram = of((0..50).map(|_| 1500));
        let before = curve(&histogram).rank(0);
        (0..50).for_each(|_| histogram.note_censored(1_000_000));
        let after = curve(&histogram).rank(0);
        assert!(after > before + 400, "{before} became {after}");
    }
}
