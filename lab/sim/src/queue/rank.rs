//! Expressions for jobs that all belong to one route, in the simulator and for a closed form.

use sched::policy::{Expression, Fact, RouteIndex};
use sched::routes::{Curve, Knot};

use super::line::Line;

/// The facts about a job that a closed form does not have.
const ELSEWHERE: [Fact; 5] = [Fact::Arrived, Fact::Class, Fact::Rtt, Fact::Window, Fact::Throughput];

/// Converts an expression in bytes for a scheduler that uses link time.
pub(super) fn of_link(expression: &Expression, quantile: &dyn Fn(f64) -> f64, line: &Line) -> Expression {
    let scaled = expression.clone().in_units_of(line.bytes_per_ns());
    match expression.route_index() {
        Some(of) => scaled.of_one_route(index(of, quantile)),
        None => scaled,
    }
}

/// The number of parts of equal probability whose sizes represent a distribution; further sizes represent its tail.
const PARTS: u32 = 400;
const STEPS: u32 = 300;
/// The probability of a larger size at which the sizes end.
const RAREST: f64 = 1e-9;
/// With more sizes than these a distribution counts as a density, and the index between two sizes is interpolated.
const ATOMS_MAX: usize = 256;
/// This many consecutive knots whose ranks differ by no more than the given part of the first form a level stretch.
/// Otherwise errors of the index would form hills, where similar jobs overtake each other.
const LEVEL_KNOTS: usize = 16;
const LEVEL_WITHIN: f64 = 1e-3;

/// Returns sizes in ascending order, each with the share of the jobs that are larger.
fn sizes(quantile: &dyn Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let even = (1..PARTS).map(|part| 1.0 - f64::from(part) / f64::from(PARTS));
    let rarer = (1..=STEPS).map(|step| RAREST.powf(f64::from(step) / f64::from(STEPS)));
    let mut shares: Vec<f64> = even.chain(rarer).collect();
    shares.sort_by(|a, b| b.total_cmp(a));
    let mut sizes: Vec<(f64, f64)> =
        shares.into_iter().map(|larger| (quantile(1.0 - larger).max(1.0), larger)).collect();
    // Of equal sizes the last has the correct share.
    sizes.dedup_by(|next, size| {
        let is_same = next.0 <= size.0;
        size.1 = if is_same { next.1 } else { size.1 };
        is_same
    });
    sizes
}

/// The index of a route whose jobs have these sizes, computed by its definition (`core/sched/src/routes/gittins.rs`).
fn index(index: RouteIndex, quantile: &dyn Fn(f64) -> f64) -> Curve {
    let sizes = sizes(quantile);
    let atoms = sizes.len() <= ATOMS_MAX;
    let mut at: Vec<(f64, f64)> = vec![(0.0, 1.0)];
    at.extend(&sizes[..sizes.len() - 1]);
    let ranks: Vec<(f64, f64)> = (0..at.len())
        .map(|from| match index {
            RouteIndex::Gittins => gittins(at[from], &sizes[from..], atoms),
            RouteIndex::MSerpt => (expected(at[from], &sizes[from..], atoms), 0.0),
        })
        .collect();
    knots(&at, &ranks_of(index, ranks, atoms), atoms)
}

/// Returns the index in the form used for service. For M-SERPT it is the running maximum; for a density, stretches that
/// are level up to errors become level.
fn ranks_of(index: RouteIndex, mut ranks: Vec<(f64, f64)>, atoms: bool) -> Vec<(f64, f64)> {
    let mut most = 0f64;
    for (rank, _) in &mut ranks {
        most = most.max(*rank);
        if index == RouteIndex::MSerpt {
            *rank = most;
        }
    }
    let mut from = 0;
    while from < ranks.len() && !atoms {
        let level = ranks[from].0;
        let others = ranks[from..].iter().take_while(|(rank, _)| (rank - level).abs() <= LEVEL_WITHIN * level);
        let count = others.count();
        if count >= LEVEL_KNOTS {
            ranks[from..from + count].fill((level, 0.0));
        }
        from += if count >= LEVEL_KNOTS { count } else { 1 };
    }
    ranks
}

fn knots(at: &[(f64, f64)], ranks: &[(f64, f64)], atoms: bool) -> Curve {
    let mut knots: Vec<Knot> = Vec::new();
    for (place, ((from, _), (rank, slope))) in at.iter().zip(ranks).enumerate() {
        let next = at.get(place + 1).zip(ranks.get(place + 1));
        // Beyond the rarest size of a density nothing is known.
        let between = next.map_or(0.0, |((to, _), (next, _))| (next - rank) / (to - from));
        let slope = if atoms { *slope } else { between };
        let from_bytes = *from as u64;
        knots.pop_if(|last| last.from_bytes >= from_bytes);
        knots.push(Knot { from_bytes, rank: *rank, slope });
    }
    Curve::new(knots)
}

/// The minimum cost of completing a job, and its change per byte sent.
fn gittins((from, larger): (f64, f64), sizes: &[(f64, f64)], atoms: bool) -> (f64, f64) {
    let (mut cost, mut before, mut best) = (0.0, (from, larger), (f64::INFINITY, 0.0));
    for size in sizes {
        cost += bytes_between(before, *size, atoms);
        before = *size;
        let ended = larger - size.1;
        if cost < best.0 * ended {
            best = (cost / ended, -larger / ended);
        }
    }
    best
}

/// The mean of the remaining bytes.
fn expected((from, larger): (f64, f64), sizes: &[(f64, f64)], atoms: bool) -> f64 {
    let mut before = (from, larger);
    let between = sizes.iter().map(|size| bytes_between(std::mem::replace(&mut before, *size), *size, atoms));
    let up_to_rarest = between.sum::<f64>();
    (up_to_rarest + if atoms { 0.0 } else { beyond_rarest(sizes) }) / larger
}

/// The bytes that are sent beyond the rarest size, if the shares continue to fall as over the last step.
fn beyond_rarest(sizes: &[(f64, f64)]) -> f64 {
    let [.., (from, larger), (to, beyond)] = sizes else { return 0.0 };
    if larger > beyond { beyond * (to - from) / (larger / beyond).ln() } else { 0.0 }
}

/// The bytes that jobs are sent between two sizes. Jobs that end between them do so at the second size, or anywhere
/// between.
fn bytes_between((from, larger): (f64, f64), (to, beyond): (f64, f64), atoms: bool) -> f64 {
    (to - from) * if atoms { larger } else { logarithmic_mean(larger, beyond) }
}

/// The mean of a share that falls from one value to the other as for exponential sizes, for which the bytes sent reveal
/// nothing.
fn logarithmic_mean(from: f64, to: f64) -> f64 {
    // For nearly equal values the quotient has no significant digits.
    if from - to < 1e-6 * from { 0.5 * (from + to) } else { (from - to) / (from / to).ln() }
}

/// The ends of the stretches on which a curve is level. Jobs within them are served in order of arrival, jobs before
/// them are not.
fn level_ends(curve: &Curve) -> impl Iterator<Item = f64> {
    let pieces = curve.knots().chunk_by(|a, b| (a.slope == 0.0) == (b.slope == 0.0));
    let mut ends = Vec::new();
    let mut passed = 0;
    for piece in pieces {
        let next = curve.knots().get(passed + piece.len());
        if piece[0].slope == 0.0 && piece.len() + 1 >= LEVEL_KNOTS {
            ends.push(piece[0].from_bytes as f64);
            ends.extend(next.map(|knot| knot.from_bytes as f64));
        }
        passed += piece.len();
    }
    ends.into_iter()
}

/// An expression that uses only the size of a job and the bytes sent.
#[derive(Debug, Clone)]
pub struct SizeRank {
    expression: Expression,
    curve: Option<Curve>,
}

impl SizeRank {
    /// Creates it for sizes with this quantile function; `None` if the expression uses anything else.
    pub fn new(expression: Expression, quantile: &dyn Fn(f64) -> f64) -> Option<SizeRank> {
        let curve = expression.route_index().map(|of| index(of, quantile));
        (!expression.has(&ELSEWHERE)).then_some(SizeRank { expression, curve })
    }

    /// Returns whether the rank depends on the size, and whether it depends on errors.
    pub fn knows(&self) -> (bool, bool) {
        (self.expression.knows_size(), self.expression.is_noisy())
    }

    /// Returns the bytes sent at which the rank may jump.
    pub fn cuts(&self) -> Vec<f64> {
        let jumps = self.curve.iter().filter(|curve| curve.knots().len() <= ATOMS_MAX);
        let knots = jumps.flat_map(Curve::knots).map(|knot| knot.from_bytes as f64);
        let levels = self.curve.iter().filter(|curve| curve.knots().len() > ATOMS_MAX).flat_map(level_ends);
        self.expression.numbers().chain(knots).chain(levels).filter(|cut| *cut > 0.0).collect()
    }

    /// The rank of a job of this size after `sent` bytes, with the deviate of its error.
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

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Distribution;

    fn ranks(of: RouteIndex, sizes: &str, sent: &[u64]) -> Vec<u64> {
        let sizes: Distribution = sizes.parse().unwrap();
        let curve = index(of, &|u| sizes.quantile(u));
        sent.iter().map(|sent| curve.rank(*sent)).collect()
    }

    #[test]
    fn an_index_by_hand() {
        let equal = "deterministic:size=6000";
        assert_eq!(ranks(RouteIndex::Gittins, equal, &[0, 1000, 5999]), [6000, 5000, 1]);
        assert_eq!(ranks(RouteIndex::MSerpt, equal, &[0, 1000, 5999]), [6000; 3]);
        // The bytes sent reveal nothing: the mean remains, and every byte costs the same.
        for of in [RouteIndex::Gittins, RouteIndex::MSerpt] {
            for rank in ranks(of, "exponential:mean=5000", &[0, 100, 5000, 20_000]) {
                assert!(rank.abs_diff(5000) < 100, "{of:?}: {rank}");
            }
        }
        // For a Pareto tail of index 2 the mean of the remaining bytes equals the bytes sent, and half of that is the
        // inverse of the hazard rate.
        let heavy = "bounded-pareto:alpha=2,min=1000,max=1e9";
        for (of, right) in [(RouteIndex::Gittins, 5000), (RouteIndex::MSerpt, 10_000)] {
            let rank = ranks(of, heavy, &[10_000])[0];
            assert!(rank.abs_diff(right) < right / 20, "{of:?}: {rank}");
        }
    }

    /// Two sizes, nine to one. Completing small jobs costs 1,111 bytes each, and the remaining jobs are huge.
    #[test]
    fn few_sizes_have_jumps() {
        let sizes: Vec<u64> = (0..10).map(|at| if at < 9 { 1000 } else { 100_000 }).collect();
        let sizes = Distribution::empirical(&sizes).unwrap();
        let curve = index(RouteIndex::Gittins, &|u| sizes.quantile(u));
        assert_eq!([0, 900, 999, 1000, 50_000].map(|sent| curve.rank(sent)), [1111, 111, 1, 99_000, 50_000]);
    }
}
