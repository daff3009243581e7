//! The mean response time under any rank of (size, bytes sent): SOAP, "schedule ordered by age-based priority" (Scully,
//! Harchol-Balter & Scheller-Wolf, "SOAP: one clean analysis of all age-based scheduling policies", 2018, theorem 5.5).
//!
//! The job with the lowest rank is served, and jobs of equal rank in order of arrival. A job of size x is no better off
//! than with its worst future rank w, so until it is served for the first time it waits for
//!
//! - the *old* jobs, while their rank is at most w. A job is old once from its start, and again (*recycled*) whenever
//!   its rank falls back to w: X_0, X_1, ... are the bytes of each such stretch;
//! - the *new* jobs, until their rank is w or higher for the first time: Y bytes of each.
//!
//! E[T(x)] = lambda Σ E[X_i²] / (2 (1 - lambda E[X_0]) (1 - lambda E[Y])) + the integral of da / (1 - lambda E[Y at w(a)])
//! from 0 to x, w(a) being the worst rank from a sent bytes on.
//!
//! Sizes are divided at [`POINTS`] edges into parts, each represented by its mean. A rank is taken as constant between
//! two ages where it may cross the rank of another size. T is computed at the edges, where a smooth distribution has no
//! ties. The error decreases with the square of the number of points.

use workload::Distribution;

use super::Mg1;

/// The number of points of sizes; fewer if each also has errors.
const POINTS: usize = 300;
const POINTS_WITH_ERRORS: usize = 100;
/// The number of points of the errors, with equal probability.
const ERRORS: usize = 16;

/// The share of the jobs below the first point, and of the squared sizes beyond the last.
const LEAST: f64 = 1e-4;
const MOST: f64 = 1e-7;
/// The minimum share of the jobs that forms a point; less is rounding.
const SHARE_MIN: f64 = 1e-13;
/// The maximum number of doublings from the mean to the last point.
const DOUBLINGS_MAX: u32 = 100;

/// A job as seen by a rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Served {
    /// The size in bytes; `NAN` for a rank that does not know it.
    pub size: f64,
    pub sent: f64,
    /// The job's standard normal deviate, if ranks use errors.
    pub deviate: f64,
}

/// The facts that a rank uses, other than the bytes sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Knows {
    pub size: bool,
    pub errors: bool,
}

/// Jobs that have the same rank after the same number of bytes.
struct Kind {
    share: f64,
    /// The rank before the first byte.
    start: f64,
    cells: Vec<Cell>,
}

/// The bytes sent between two ages, over which a rank is constant.
struct Cell {
    from: f64,
    to: f64,
    rank: f64,
    /// The integrals over the cell of the share of larger jobs, and of that share times the age.
    reached: f64,
    aged: f64,
}

struct Soap {
    lambda: f64,
    kinds: Vec<Kind>,
    /// The worst ranks so far, ascending, each with the mean bytes up to there of a job whose rank has not been worse.
    until: Vec<(f64, f64)>,
}

/// The mean response time at some sizes, in bytes of the link.
pub(super) fn response(queue: &Mg1, knows: Knows, cuts: &[f64], rank: &dyn Fn(Served) -> f64) -> Vec<(f64, f64)> {
    let count = if knows.errors { POINTS_WITH_ERRORS } else { POINTS };
    let edges = edges(&queue.sizes, count, cuts);
    let points = points(&queue.sizes, &edges);
    let deviates = if knows.errors { deviates() } else { vec![0.0] };
    let kind = |deviate: f64, size: f64, share: f64| {
        let at = |sent: f64| rank(Served { size, sent, deviate });
        let cells = match knows.size {
            true => cells(&ages_of(size, &edges), &at, &whole),
            false => cells(&ages_of_all(&queue.sizes, &edges), &at, &|from, to| survival(&queue.sizes, from, to)),
        };
        Kind { share: share / deviates.len() as f64, start: at(0.0), cells }
    };
    let blind = [(f64::NAN, 1.0)];
    let sizes = if knows.size { &points[..] } else { &blind[..] };
    let kinds = deviates.iter().flat_map(|deviate| sizes.iter().map(|(size, share)| kind(*deviate, *size, *share)));
    let soap = Soap::new(queue.lambda(), kinds.collect());
    let of_error = |size: f64, (at, deviate): (usize, &f64)| {
        let end = rank(Served { size, sent: size * (1.0 - 1e-9), deviate: *deviate });
        match knows.size {
            true => soap.response(&kind(*deviate, size, 0.0), size, end),
            false => soap.response(&soap.kinds[at], size, end),
        }
    };
    let mean =
        |size: f64| deviates.iter().enumerate().map(|error| of_error(size, error)).sum::<f64>() / deviates.len() as f64;
    edges.iter().map(|size| (*size, mean(*size))).collect()
}

impl Soap {
    fn new(lambda: f64, kinds: Vec<Kind>) -> Soap {
        let until = until(&kinds);
        Soap { lambda, kinds, until }
    }

    fn response(&self, kind: &Kind, size: f64, end: f64) -> f64 {
        let cells = &kind.cells[..kind.cells.partition_point(|cell| cell.to <= size * (1.0 + 1e-12))];
        let mut worst = end;
        let mut residence = 0.0;
        for cell in cells.iter().rev() {
            worst = worst.max(cell.rank);
            residence += (cell.to - cell.from) / (1.0 - self.load(self.before(worst)));
        }
        let worst = worst.max(kind.start);
        let (old, new) = (self.load(self.up_to(worst)), self.load(self.before(worst)));
        0.5 * self.lambda * self.old_squares(worst) / ((1.0 - old) * (1.0 - new)) + residence
    }

    fn load(&self, bytes: f64) -> f64 {
        self.lambda * bytes
    }

    /// The mean bytes of a job until its rank is at least this bad.
    fn before(&self, rank: f64) -> f64 {
        self.bytes_at(self.until.partition_point(|(worst, _)| *worst < rank))
    }

    /// The mean bytes of a job until its rank is worse than this.
    fn up_to(&self, rank: f64) -> f64 {
        self.bytes_at(self.until.partition_point(|(worst, _)| *worst <= rank))
    }

    fn bytes_at(&self, events: usize) -> f64 {
        if events == 0 { 0.0 } else { self.until[events - 1].1 }
    }

    /// The sum of E[X²] over all stretches X of a job in which its rank is no worse than this.
    fn old_squares(&self, rank: f64) -> f64 {
        self.kinds.iter().map(|kind| kind.share * kind.squares(rank)).sum()
    }
}

impl Kind {
    fn squares(&self, rank: f64) -> f64 {
        let (mut sum, mut began) = (0.0, None);
        for cell in &self.cells {
            if cell.rank > rank {
                began = None;
                continue;
            }
            let from = *began.get_or_insert(cell.from);
            // E[(min(X, to) - from)²] is twice the integral of (age - from) over the jobs that reach that age.
            sum += 2.0 * (cell.aged - from * cell.reached);
        }
        sum
    }
}

fn until(kinds: &[Kind]) -> Vec<(f64, f64)> {
    let mut until = Vec::new();
    for kind in kinds {
        let mut worst = kind.start;
        for cell in &kind.cells {
            worst = worst.max(cell.rank);
            until.push((worst, kind.share * cell.reached));
        }
    }
    until.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0.0;
    for (_, bytes) in &mut until {
        sum += *bytes;
        *bytes = sum;
    }
    until
}

fn cells(ages: &[f64], rank: &dyn Fn(f64) -> f64, weigh: &dyn Fn(f64, f64) -> (f64, f64)) -> Vec<Cell> {
    let cell = |ends: &[f64]| {
        let (from, to) = (ends[0], ends[1]);
        let middle = if to.is_finite() { 0.5 * (from + to) } else { 2.0 * from };
        let (reached, aged) = weigh(from, to);
        Cell { from, to, rank: rank(middle), reached, aged }
    };
    ages.windows(2).map(cell).collect()
}

/// The integrals of 1 and of the age.
fn whole(from: f64, to: f64) -> (f64, f64) {
    (to - from, 0.5 * (to - from) * (to + from))
}

/// The integrals of P(size > age), and of P(size > age) times the age.
fn survival(sizes: &Distribution, from: f64, to: f64) -> (f64, f64) {
    let beyond = |x: f64, power: i32| if x.is_finite() { x.powi(power) * sizes.survival(x) } else { 0.0 };
    let part = |power: u32| {
        let between = sizes.partial_moment(power, to) - sizes.partial_moment(power, from);
        between + beyond(to, power as i32) - beyond(from, power as i32)
    };
    (part(1).max(0.0), 0.5 * part(2).max(0.0))
}

/// Returns the ages at which the rank of a job of this size may cross another's: its bytes sent or left equal another
/// size.
fn ages_of(size: f64, edges: &[f64]) -> Vec<f64> {
    let smaller = edges.iter().copied().filter(|other| *other < size);
    let mut ages: Vec<f64> = smaller.flat_map(|other| [other, size - other]).chain([0.0, size]).collect();
    ages.sort_by(f64::total_cmp);
    ages.dedup();
    ages
}

fn ages_of_all(sizes: &Distribution, edges: &[f64]) -> Vec<f64> {
    let mut ages: Vec<f64> = [0.0].into_iter().chain(edges.iter().copied()).collect();
    let last = ages[ages.len() - 1];
    if sizes.max() > last {
        ages.push(sizes.max());
    }
    ages
}

/// Returns sizes, each with the share of the jobs that it represents.
fn points(sizes: &Distribution, edges: &[f64]) -> Vec<(f64, f64)> {
    let (mut from, mut share_below, mut bytes_below) = (0.0, 0.0, 0.0);
    let point = |to: f64| {
        let (share, bytes) = (sizes.cdf(to) - share_below, sizes.partial_moment(1, to) - bytes_below);
        let mean = (bytes / share).clamp(from, to);
        // An atom keeps its exact value, because jobs of one size are tied.
        let mean = if mean > to * (1.0 - 1e-9) { to } else { mean };
        (from, share_below, bytes_below) = (to, share_below + share, bytes_below + bytes);
        (mean, share)
    };
    let points = edges.iter().copied().chain([f64::INFINITY]).map(point);
    points.filter(|(size, share)| *share > SHARE_MIN && size.is_finite()).collect()
}

/// The existing sizes, or a few that bound them, with each cut and the next value above it.
fn edges(sizes: &Distribution, count: usize, cuts: &[f64]) -> Vec<f64> {
    let atoms = sizes.atoms();
    if !atoms.is_empty() && atoms.len() <= count {
        return atoms;
    }
    let (squares, mut to) = (sizes.moment(2), sizes.mean());
    for _ in 0..DOUBLINGS_MAX {
        if squares - sizes.partial_moment(2, to) < MOST * squares {
            break;
        }
        to *= 2.0;
    }
    let (from, to) = (sizes.quantile(LEAST).max(to * 1e-12), to.min(sizes.max()));
    let step = (to / from).ln() / (count - 1) as f64;
    let mut edges: Vec<f64> = (0..count).map(|edge| from * (edge as f64 * step).exp()).collect();
    edges.extend(cuts.iter().flat_map(|cut| [*cut, cut * (1.0 + 1e-9)]).filter(|cut| (from..to).contains(cut)));
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    edges
}

/// Standard normal deviates with equal probability.
fn deviates() -> Vec<f64> {
    let lognormal = Distribution::Lognormal { mu: 0.0, sigma: 1.0 };
    (0..ERRORS).map(|at| lognormal.quantile((at as f64 + 0.5) / ERRORS as f64).ln()).collect()
}
