//! A rank by bytes sent, for a response of unknown size.
//!
//! A rank in an order by size is a number of bytes. The rank that the sizes of similar responses imply for a response
//! in progress depends only on the bytes sent of it. So it is computed once for all numbers of bytes, as a line of a
//! few pieces: one for each bucket of a route's histogram, and one behind the last. Jobs share the line, and looking up
//! a rank costs a search among its pieces.

/// A piece of the curve: between its start and the next knot the rank is a straight line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knot {
    /// The bytes sent at which the piece begins.
    pub from_bytes: u64,
    /// The rank at the beginning of the piece, in bytes.
    pub rank: f64,
    /// The amount that each byte sent adds to the rank.
    pub slope: f64,
}

/// The rank of a job by the bytes sent of it: the lowest is served first, and ranks are comparable with the bytes left
/// of a job of known size.
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

    /// Returns the curve for sizes that are this part, above 0, of the sizes here; their remainders are the same part.
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
