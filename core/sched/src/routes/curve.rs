//! A rank by bytes sent, for responses of unknown size.
//!
//! A rank in an order by size is a number of bytes. The rank of a response in progress, given the sizes of similar
//! responses, depends only on how many of its bytes were sent. So it is computed once for all numbers of bytes, as a
//! curve of straight pieces: one per bucket of a route's histogram, and one after the last bucket. Jobs share the
//! curve, and looking up a rank costs a search among its pieces.

/// A piece of the curve: a straight line from its start to the next knot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knot {
    /// The bytes sent at which the piece begins.
    pub from_bytes: u64,
    /// The rank at the beginning of the piece, in bytes.
    pub rank: f64,
    /// The change of the rank per byte sent.
    pub slope: f64,
}

/// The rank of a job by its bytes sent. The lowest rank is served first, and ranks are comparable with the bytes left
/// of jobs of known size.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve(Box<[Knot]>);

impl Curve {
    /// Makes a curve of pieces from 0 bytes up, in increasing order.
    pub fn new(knots: Vec<Knot>) -> Curve {
        assert!(knots.first().is_some_and(|knot| knot.from_bytes == 0), "knots {knots:?}");
        assert!(knots.is_sorted_by(|a, b| a.from_bytes < b.from_bytes), "knots {knots:?}");
        Curve(knots.into())
    }

    /// Returns the rank after `attained` bytes; never below 0.
    pub fn rank(&self, attained: u64) -> u64 {
        let knot = self.0[self.0.partition_point(|knot| knot.from_bytes <= attained) - 1];
        // The conversion of a float saturates.
        (knot.rank + knot.slope * (attained - knot.from_bytes) as f64).round() as u64
    }

    /// Returns the curve for sizes scaled by this factor, which is above 0. Ranks are scaled too.
    pub fn scaled(&self, part: f64) -> Curve {
        let mut knots: Vec<Knot> = Vec::with_capacity(self.0.len());
        for knot in &self.0 {
            // The conversion of a float saturates. If several pieces begin at one byte, the last remains.
            let from_bytes = (knot.from_bytes as f64 * part) as u64;
            knots.pop_if(|last| last.from_bytes >= from_bytes);
            knots.push(Knot { from_bytes, rank: knot.rank * part, slope: knot.slope });
        }
        Curve::new(knots)
    }

    /// Returns the pieces.
    pub fn knots(&self) -> &[Knot] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_that_of_its_piece() {
        let curve = Curve::new(vec![
            Knot { from_bytes: 0, rank: 100.0, slope: -1.0 },
            Knot { from_bytes: 100, rank: 5.0, slope: 0.5 },
        ]);
        assert_eq!([0, 40, 99, 100, 110].map(|sent| curve.rank(sent)), [100, 60, 1, 5, 10]);
        let falling = Curve::new(vec![Knot { from_bytes: 0, rank: 2.0, slope: -1.0 }]);
        assert_eq!([1, 2, 3, u64::MAX].map(|sent| falling.rank(sent)), [1, 0, 0, 0]);
        let rising = Curve::new(vec![Knot { from_bytes: 0, rank: 0.0, slope: 2.0 }]);
        assert_eq!(rising.rank(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_scaled_curve_is_of_scaled_sizes() {
        let curve = Curve::new(vec![
            Knot { from_bytes: 0, rank: 100.0, slope: -1.0 },
            Knot { from_bytes: 1, rank: 99.0, slope: -0.5 },
            Knot { from_bytes: 100, rank: 100.0, slope: 1.0 },
        ]);
        let scaled = curve.scaled(0.25);
        assert_eq!([0, 25, 30].map(|sent| scaled.rank(sent)), [25, 25, 30]);
        assert_eq!(scaled.knots().len(), 2);
        assert_eq!(curve.scaled(1.0), curve);
        assert_eq!(curve.scaled(1e-300).rank(7), 7);
    }

    #[test]
    #[should_panic(expected = "knots")]
    fn pieces_begin_at_no_bytes() {
        Curve::new(vec![Knot { from_bytes: 1, rank: 0.0, slope: 1.0 }]);
    }
}
