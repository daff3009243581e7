//! Expressions of jobs that are all of one route, in the simulator and for a closed form.

use sched::policy::{Expression, Fact, RouteIndex};
use sched::routes::{Curve, Histogram, SAMPLES_MAX, gittins};

use super::line::Line;
use crate::unknown::m_serpt;

/// Responses that the route has learned from.
const LEARNED: u32 = SAMPLES_MAX - 1;

/// What a closed form cannot know of a job.
const ELSEWHERE: [Fact; 5] = [Fact::Arrived, Fact::Class, Fact::Rtt, Fact::Window, Fact::Throughput];

/// An expression of bytes for a scheduler of the link's time.
pub(super) fn of_link(expression: &Expression, quantile: &dyn Fn(f64) -> f64, line: &Line) -> Expression {
    let scaled = expression.clone().in_units_of(line.bytes_per_ns());
    match expression.route_index() {
        Some(index) => scaled.of_one_route(learned(index, quantile)),
        None => scaled,
    }
}

/// The index of a route that has learned from responses of these sizes, as the server's routes do.
fn learned(index: RouteIndex, quantile: &dyn Fn(f64) -> f64) -> Curve {
    let mut histogram = Histogram::default();
    for sample in 0..LEARNED {
        histogram.note(quantile((f64::from(sample) + 0.5) / f64::from(LEARNED)).round().max(1.0) as u64);
    }
    match index {
        RouteIndex::Gittins => gittins(&histogram),
        RouteIndex::MSerpt => m_serpt(&histogram),
    }
}

/// An expression of the size of a job and the bytes sent alone.
#[derive(Debug, Clone)]
pub struct SizeRank {
    expression: Expression,
    curve: Option<Curve>,
}

impl SizeRank {
    /// For sizes of this quantile; `None` if the expression is of more than a size and what was sent.
    pub fn new(expression: Expression, quantile: &dyn Fn(f64) -> f64) -> Option<SizeRank> {
        let curve = expression.route_index().map(|index| learned(index, quantile));
        (!expression.has(&ELSEWHERE)).then_some(SizeRank { expression, curve })
    }

    /// Whether it is of the size, and of errors.
    pub fn knows(&self) -> (bool, bool) {
        (self.expression.knows_size(), self.expression.is_noisy())
    }

    /// Where it may jump, in bytes.
    pub fn cuts(&self) -> Vec<f64> {
        let knots = self.curve.iter().flat_map(Curve::knots).map(|knot| knot.from_bytes as f64);
        self.expression.numbers().chain(knots).filter(|cut| *cut > 0.0).collect()
    }

    /// The rank of a job of this size, with the deviate of its error.
    pub fn value(&self, size: f64, sent: f64, deviate: f64) -> f64 {
        self.expression.value(|fact| match fact {
            Fact::Size => size,
            Fact::Left => size - sent,
            Fact::Sent => sent,
            Fact::Route => self.curve.as_ref().map_or(0.0, |curve| curve.rank(sent as u64) as f64),
            Fact::Deviate => deviate,
            _ => 0.0,
        })
    }
}
