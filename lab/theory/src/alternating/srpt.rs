//! Shortest remaining first: jobs that are small enough hardly notice the overload.
//!
//! During the high load, the jobs up to size x* have a load of 1. A smaller job meets the queue of jobs like it, which
//! is stable; the only difference from Schrage & Miller is that jobs above x* are then not served. As x approaches x*
//! the formula grows without bound, but the phase ends first, so the wait is at most that of a job of size x*. A larger
//! job is not served before the backlog of all jobs up to its size has drained, at d(x) = H + (rho_h(x) - 1) H / (1 -
//! rho_l(x)), where H is the length of the high load. It is then served as under the low load, but only until the next
//! high load.

use super::{Alternating, Period};
use crate::mg1::{Mg1, Policy, Residence, Solution, quadrature};

#[derive(Debug, Clone)]
pub(super) struct Srpt<'a> {
    queue: &'a Alternating,
    at_low: Solution<'a>,
    at_high: High<'a>,
}

#[derive(Debug, Clone)]
enum High<'a> {
    Stable(Solution<'a>),
    /// The residence of jobs below x*.
    Overloaded {
        residence: Residence,
        served_share: f64,
    },
}

impl<'a> Srpt<'a> {
    pub(super) fn new(queue: &'a Alternating) -> Srpt<'a> {
        let high = &queue.high.queue;
        let at_high = match queue.is_overloaded() {
            false => High::Stable(high.solve(&Policy::Srpt)),
            true => {
                let mut edges = quadrature::edges(&high.sizes, &[]);
                edges.retain(|edge| high.load(*edge) < 1.0);
                let starved_from = first_starved(high);
                let residence = Residence::new(high, &edges);
                High::Overloaded { residence, served_share: high.sizes.cdf(starved_from.next_down()) }
            }
        };
        Srpt { queue, at_low: queue.low.queue.solve(&Policy::Srpt), at_high }
    }

    pub(super) fn response(&self, x: f64) -> f64 {
        let (high, low) = (&self.queue.high, self.at_low.response(x));
        let share = self.queue.high_share();
        let in_high = match &self.at_high {
            High::Stable(solution) => solution.response(x),
            High::Overloaded { .. } if high.queue.load(x) >= 1.0 => return self.starved(x, low),
            High::Overloaded { residence, served_share } => {
                let stable = below_starved(&high.queue, residence, *served_share, x);
                stable.min(high.lasts / 2.0 + low)
            }
        };
        share * in_high + (1.0 - share) * low
    }

    /// Returns the jobs above x* that arrived while the load was high.
    pub(super) fn backlog_jobs(&self) -> f64 {
        let Period { queue, lasts } = &self.queue.high;
        match &self.at_high {
            High::Stable(_) => 0.0,
            High::Overloaded { served_share, .. } => queue.lambda() * lasts * (1.0 - served_share),
        }
    }

    /// The mean response time of a job that is served only between d(x) and the next high load, and then needs `low`.
    fn starved(&self, x: f64, low: f64) -> f64 {
        let (high, turn) = (&self.queue.high, self.queue.turn());
        let drained_after = (high.queue.load(x) - 1.0) * high.lasts / (1.0 - self.queue.low.queue.load(x));
        let opens = high.lasts + drained_after;
        self.queue.mean_over_arrivals(|at| {
            let from = at.max(opens);
            let left = turn - from;
            if low <= left {
                return from + low - at;
            }
            let open = turn - opens;
            let turns = ((low - left) / open).floor();
            turn * (turns + 1.0) + opens + (low - left - turns * open) - at
        })
    }
}

/// Schrage & Miller at a load above 1, for x below x*: of the larger jobs only those below x* are ever served down to
/// x.
fn below_starved(queue: &Mg1, residence: &Residence, served_share: f64, x: f64) -> f64 {
    let larger = (served_share - queue.sizes.cdf(x)).max(0.0);
    let square = queue.sizes.partial_moment(2, x) + x * x * larger;
    let (load, below) = (queue.load(x), queue.load(x.next_down()));
    0.5 * queue.lambda() * square / ((1.0 - load) * (1.0 - below)) + residence.at(queue, x)
}

/// x*: the smallest size for which the jobs up to that size overload the link.
fn first_starved(queue: &Mg1) -> f64 {
    let atoms = queue.sizes.atoms();
    if !atoms.is_empty() {
        return atoms[atoms.partition_point(|&atom| queue.load(atom) < 1.0).min(atoms.len() - 1)];
    }
    let (mut below, mut above) = (0.0, queue.sizes.mean());
    while queue.load(above) < 1.0 && above < f64::MAX / 2.0 {
        above *= 2.0;
    }
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (below + above);
        if queue.load(middle) < 1.0 { below = middle } else { above = middle }
    }
    above
}

/// The number of bisections that reduce any interval to the precision of a double.
const BISECTIONS: u32 = 100;
