//! A rank by bytes sent, for a response whose size is not known.
//!
//! A rank of an order by size is a number of bytes. What the sizes of similar responses imply for one in progress
//! depends only on how much of it was sent, so it is computed once for all bytes sent, as a line of a few pieces. Jobs
//! share it, and looking up a rank costs a search among its pieces: of a route one for each bucket of its histogram, and
//! one behind the last.

/// A piece of the curve: from here to the next knot the rank is a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knot {
    /// Bytes sent where the piece begins.
    pub from_bytes: u64,
    /// The rank there, in bytes.
    pub rank: f64,
    /// The amount that a byte sent adds to the rank.
    pub slope: f64,
}

/// The rank of a job by the bytes it was sent: lower is served first, and comparable with the bytes left of a job of
/// known size.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve(Box<[Knot]>);

impl Curve {
    /// A curve of pieces from 0 bytes up, in increasing order.
    pub fn new(knots: Vec<Knot>) -> Curve {
        assert!(knots.first().is_some_and(|knot| knot.from_bytes == 0), "knots {knots:?}");
        assert!(knots.is_sorted_by(|a, b| a.from_bytes < b.from_bytes), "knots {knots:?}");
        Curve(knots.into())
    }

    /// The rank after `attained` bytes; never below 0.
    pub fn rank(&self, attained: u64) -> u64 {
        let knot = self.0[self.0.partition_point(|knot| knot.from_bytes <= attained) - 1];
        // The conversion of a float saturates.
        (knot.rank + knot.slope * (attained - knot.from_bytes) as f64).round() as u64
    }

    /// The curve of sizes that are all this part of the ones here, above 0: of any, what is left of them is that part too.
    pub fn scaled(&self, part: f64) -> Curve {
        let mut knots: Vec<Knot> = Vec::with_capacity(self.0.len());
        for knot in &self.0 {
            // The conversion of a float saturates. Of pieces that begin at one byte the last remains.
            let from_bytes = (knot.from_bytes as f64 * part) as u64;
            knots.pop_if(|last| last.from_bytes >= from_bytes);
            knots.push(Knot { from_bytes, rank: knot.rank * part, slope: knot.slope });
        }
        Curve::new(knots)
    }

    /// The pieces.
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
