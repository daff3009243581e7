//! Integrals over sizes from a millionth of a byte to a petabyte.
//!
//! A rule with equal steps resolves either the small jobs or the large ones. The panels here are proportional to the
//! sizes in them, end where the density jumps, and shrink towards a bound. In each, Gauss–Legendre with 16 points is
//! exact for polynomials up to degree 31, so the integrals keep about twelve digits.

use workload::Distribution;

/// The number of panels between the smallest and the largest relevant size.
const PANELS: u32 = 256;

/// The number of panels that halve towards a bound: 1 / (1 - rho(x)) is steepest just below it, where rho(x) comes near
/// 1.
const HALVINGS: i32 = 20;

/// The share of the jobs at the lower end, and of the bytes at the upper end, that is treated as one lump.
const LUMP: f64 = 1e-13;

/// The maximum number of times that the upper end grows by half: from 1 byte to 10^88, where a lognormal's sigma of 6
/// needs 10^35.
const GROWTHS_MAX: u32 = 500;

/// Sizes are whole bytes, at least 1. Up to this size the mean slowdown is summed over each size, and beyond it
/// integrated (the two then differ by 1 / (12 size²), less than two millionths).
///
/// Otherwise the mean slowdown of a policy that makes small jobs wait would be infinite if the density at 0 is not 0,
/// as for exponential sizes under FCFS.
const WHOLE_BYTES_TO: f64 = 256.0;

/// The integral of f over the interval.
pub(crate) fn integral(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
    let (middle, half) = (0.5 * (from + to), 0.5 * (to - from));
    half * NODES.iter().map(|&(node, weight)| weight * (f(middle - half * node) + f(middle + half * node))).sum::<f64>()
}

/// Returns the bounds of the panels for these sizes, ascending: the atoms if there are any, and `cuts`.
pub(crate) fn edges(sizes: &Distribution, cuts: &[f64]) -> Vec<f64> {
    let atoms = sizes.atoms();
    if !atoms.is_empty() {
        return atoms;
    }
    let from = sizes.quantile(LUMP);
    let to = upper_end(sizes);
    let step = (to / from).ln() / f64::from(PANELS);
    let mut edges: Vec<f64> = (1..PANELS).map(|panel| from * (f64::from(panel) * step).exp()).collect();
    let inner = |x: &f64| *x > from && *x < to;
    edges.extend(cuts.iter().chain(&sizes.jumps()).copied().filter(inner));
    if sizes.max().is_finite() {
        edges.extend((1..=HALVINGS).map(|halving| to * (1.0 - 0.5f64.powi(halving))).filter(inner));
    }
    edges.extend([from, to]);
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    edges
}

/// E[f(size)].
pub(crate) fn expectation(sizes: &Distribution, edges: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    let (from, to) = (edges[0], edges[edges.len() - 1]);
    if sizes.atoms().is_empty() {
        let panels = edges.windows(2).map(|panel| integral(panel[0], panel[1], |x| f(x) * sizes.density(x)));
        return sizes.cdf(from) * f(from) + panels.sum::<f64>() + sizes.survival(to) * f(to);
    }
    let mut below = 0.0;
    let shares = edges.iter().map(|&atom| {
        let up_to = sizes.cdf(atom);
        let share = up_to - below;
        below = up_to;
        share * f(atom)
    });
    shares.sum()
}

/// E[slowdown(size)], with sizes rounded to whole bytes, as they are drawn.
pub(crate) fn slowdown(sizes: &Distribution, edges: &[f64], slowdown_at: impl Fn(f64) -> f64) -> f64 {
    if !sizes.atoms().is_empty() {
        return expectation(sizes, edges, slowdown_at);
    }
    let mut below = 0.0;
    let whole_bytes = (1..=WHOLE_BYTES_TO as u32).map(|size| {
        let size = f64::from(size);
        let up_to = sizes.cdf(size + 0.5);
        let share = up_to - below;
        below = up_to;
        if share > 0.0 { share * slowdown_at(size) } else { 0.0 }
    });
    let [end] = whole_bytes_end();
    whole_bytes.sum::<f64>() + expectation(sizes, edges, |x| if x > end { slowdown_at(x) } else { 0.0 })
}

/// The size at which panels must be cut for [`slowdown`].
pub(crate) fn whole_bytes_end() -> [f64; 1] {
    [WHOLE_BYTES_TO + 0.5]
}

/// The bound of the sizes, or a size that only a lump of the bytes exceeds.
fn upper_end(sizes: &Distribution) -> f64 {
    if sizes.max().is_finite() {
        return sizes.max();
    }
    let mean = sizes.mean();
    let mut to = mean;
    for _ in 0..GROWTHS_MAX {
        if to * sizes.survival(to) < LUMP * mean {
            break;
        }
        to *= 1.5;
    }
    to
}

/// Gauss–Legendre of order 16: the positive roots of the Legendre polynomial and their weights.
const NODES: [(f64, f64); 8] = [
    (0.09501250983763744, 0.1894506104550685),
    (0.2816035507792589, 0.18260341504492358),
    (0.45801677765722737, 0.16915651939500254),
    (0.6178762444026438, 0.14959598881657674),
    (0.755404408355003, 0.12462897125553388),
    (0.8656312023878318, 0.09515851168249279),
    (0.9445750230732326, 0.062253523938647894),
    (0.9894009349916499, 0.027152459411754096),
];
