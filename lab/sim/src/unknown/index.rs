//! Ranks to compare the Gittins index with.

use sched::routes::{Curve, Histogram, Knot, LARGER, gittins, low_end, width};

use super::{Estimate, Index};

pub fn of(index: Index) -> fn(&Histogram) -> Curve {
    match index {
        Index::Gittins => gittins,
        Index::MSerpt => m_serpt,
        Index::Psjf => |histogram| of_estimate(Estimate::Psjf, mean(histogram)),
        Index::Srpt => |histogram| of_estimate(Estimate::Srpt, mean(histogram)),
    }
}

/// The estimate; or what is left by it, and nothing from there on.
pub fn of_estimate(estimate: Estimate, bytes: u64) -> Curve {
    let bytes = bytes.max(1);
    let knot = |from_bytes, rank, slope| Knot { from_bytes, rank, slope };
    Curve::new(match estimate {
        Estimate::Psjf => vec![knot(0, bytes as f64, 0.0)],
        Estimate::Srpt => vec![knot(0, bytes as f64, -1.0), knot(bytes, 0.0, 0.0)],
    })
}

fn mean(histogram: &Histogram) -> u64 {
    let survival = histogram.survival(0.0);
    (0..histogram.top()).map(|k| width(k) * (survival[k] + survival[k + 1]) / 2.0).sum::<f64>() as u64
}

/// The greatest expected remaining size so far; beyond the largest size seen, what was sent.
fn m_serpt(histogram: &Histogram) -> Curve {
    let (survival, top) = (histogram.survival(LARGER), histogram.top());
    // The sample more ends where the next bucket does.
    let mut left = width(top) * survival[top];
    let mut expected = vec![0.0; top];
    for k in (0..top).rev() {
        left += width(k) * (survival[k] + survival[k + 1]) / 2.0;
        expected[k] = left / survival[k];
    }
    let mut most = 0f64;
    let mut knots: Vec<Knot> = Vec::new();
    for (k, expected) in expected.into_iter().enumerate() {
        most = most.max(expected);
        knots.push(Knot { from_bytes: low_end(k), rank: most, slope: 0.0 });
    }
    knots.push(Knot { from_bytes: low_end(top), rank: most.max(low_end(top) as f64), slope: 1.0 });
    knots.dedup_by(|after, before| after.slope == before.slope && after.rank == before.rank && before.slope == 0.0);
    Curve::new(knots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(sizes: &[(u64, usize)]) -> Histogram {
        let mut histogram = Histogram::default();
        sizes.iter().for_each(|(bytes, times)| (0..*times).for_each(|_| histogram.note(*bytes)));
        histogram
    }

    #[test]
    fn ranks_by_hand() {
        let srpt = of_estimate(Estimate::Srpt, 100);
        assert_eq!([0, 40, 100, 1000].map(|sent| srpt.rank(sent)), [100, 60, 0, 0]);
        let psjf = of_estimate(Estimate::Psjf, 100);
        assert_eq!([0, 40, 1000].map(|sent| psjf.rank(sent)), [100; 3]);
        // Nothing is left to expect below one byte.
        assert_eq!(of_estimate(Estimate::Srpt, 0).rank(0), 1);
        assert_eq!(mean(&histogram(&[(1024, 3), (4096, 1)])), (3 * 1536 + 6144) / 4);
    }

    #[test]
    fn the_expected_remaining_size_never_falls() {
        let curve = m_serpt(&histogram(&[(1024, 90), (65_536, 10)]));
        // 90 × 1.5 KiB, 10 × 96 KiB and a tenth of one of 256 KiB, over 100.1.
        let expected = (90.0 * 1536.0 + 10.0 * 98_304.0 + 26_214.4) / 100.1;
        assert!((curve.rank(0) as f64 - expected).abs() < 1.0, "{} for {expected}", curve.rank(0));
        let ranks: Vec<u64> = (0..200_000).step_by(100).map(|sent| curve.rank(sent)).collect();
        assert!(ranks.is_sorted() && ranks[30] > 90_000, "{ranks:?}");
        assert_eq!(curve.rank(1 << 20), 1 << 20);
    }
}
