//! E[T(x)], the mean response time of a job of size x, policy by policy.
//!
//! Time is measured in bytes of the link. F is the cdf of sizes, rho(x) = lambda E[X; X <= x], rho(x-) the same with X
//! < x, and m2(x) = E[X²; X <= x]:
//!
//! - FCFS: x + lambda E[X²] / (2 (1 - rho)) (Pollaczek 1930, Khinchine 1932).
//! - PS: x / (1 - rho) (Kleinrock 1967; Sakata, Noguchi & Oizumi 1969).
//! - PSJF: lambda m2(x) / (2 (1 - rho(x)) (1 - rho(x-))) + x / (1 - rho(x-)).
//! - SRPT: lambda (m2(x) + x² (1 - F(x))) / (2 (1 - rho(x)) (1 - rho(x-))) + the integral of dt / (1 - rho(t)) from 0 to x
//!   (Schrage & Miller 1966): first the wait until it is served at all, then how long its own bytes take.
//! - LAS: lambda E[min(X, x)²] / (2 (1 - rho_x)²) + x / (1 - rho_x) with rho_x = lambda E[min(X, x)] (Kleinrock 1976,
//!   section 4.6; Schrage 1967).
//! - Bands of the remaining size: a job that starts in the band from b to c (x in (b, c]) waits for the jobs before it
//!   that have at most c left, whether they arrived so or were served down to c, and for later ones of at most b, which
//!   start in a better band: lambda (m2(c) + c² (1 - F(c))) / (2 (1 - rho(c)) (1 - rho(b))). After that, only later
//!   jobs of a better band than its present one go before it: + the integral of dt / (1 - rho(b(t))), where b(t) is the
//!   lower end of the band of t. (Scully, Harchol-Balter & Scheller-Wolf 2018, theorem 5.5, with the band as the rank:
//!   it only falls as the job is served, so a job is recycled at most once, with c left.) One band is FCFS; ever finer
//!   bands approach SRPT.
//!
//! If sizes are atoms, "x and below" includes earlier tied jobs and "below x" excludes later ones, so rho(x) and
//! rho(x-) differ.
//! In LAS, jobs of the same attained service share, so there are no ties.

use super::quadrature::integral;
use super::{Mg1, Policy};

#[derive(Debug, Clone)]
pub(super) enum Formula {
    Fcfs {
        wait: f64,
    },
    Ps,
    Srpt(Residence),
    Psjf,
    Las,
    Bands(Vec<Band>),
    /// Values at sizes, ascending.
    Points(Vec<(f64, f64)>),
}

/// The integral of dt / (1 - rho(t)) from 0 to x, stored at the edges of panels.
#[derive(Debug, Clone)]
pub(crate) struct Residence {
    edges: Vec<f64>,
    up_to: Vec<f64>,
}

/// The times of a job that starts in a band.
#[derive(Debug, Clone)]
pub(super) struct Band {
    /// The lower end in bytes.
    from: f64,
    /// The wait until a job is served for the first time.
    wait: f64,
    /// The time from the lower end to departure.
    residence_below: f64,
    /// The time per byte in this band.
    pace: f64,
}

impl Formula {
    pub(super) fn new(queue: &Mg1, policy: &Policy, cuts: &[f64], edges: &[f64]) -> Formula {
        match policy {
            Policy::Fcfs => Formula::Fcfs { wait: wait(queue, queue.sizes.moment(2), queue.rho, 0.0) },
            Policy::Ps => Formula::Ps,
            Policy::Srpt => Formula::Srpt(Residence::new(queue, edges)),
            Policy::Psjf => Formula::Psjf,
            Policy::Las => Formula::Las,
            Policy::SrptBands(_) => Formula::Bands(bands(queue, cuts)),
        }
    }

    /// E[T(x)] in bytes of the link.
    pub(super) fn response(&self, queue: &Mg1, x: f64) -> f64 {
        match self {
            Formula::Fcfs { wait } => x + wait,
            Formula::Ps => x / (1.0 - queue.rho),
            Formula::Srpt(residence) => {
                wait(queue, capped_square(queue, x), queue.load(x), load_below(queue, x)) + residence.at(queue, x)
            }
            Formula::Psjf => {
                let below = load_below(queue, x);
                wait(queue, queue.sizes.partial_moment(2, x), queue.load(x), below) + x / (1.0 - below)
            }
            Formula::Las => {
                let load = queue.load(x) + queue.lambda() * x * queue.sizes.survival(x);
                wait(queue, capped_square(queue, x), load, load) + x / (1.0 - load)
            }
            Formula::Bands(bands) => {
                let band = &bands[bands.partition_point(|band| band.from < x).saturating_sub(1)];
                band.wait + band.residence_below + (x - band.from) * band.pace
            }
            Formula::Points(points) => between(points, x),
        }
    }
}

/// Interpolates linearly between the two points around x, or extrapolates from the nearest two.
fn between(points: &[(f64, f64)], x: f64) -> f64 {
    if let [(size, response)] = points {
        return response + (x - size);
    }
    let behind = points.partition_point(|(size, _)| *size < x).clamp(1, points.len() - 1);
    let ((from, low), (to, high)) = (points[behind - 1], points[behind]);
    low + (high - low) * (x - from) / (to - from)
}

/// The mean wait for the work found, of jobs with the load `before`, extended by later jobs that go first, with the load
/// `after`.
fn wait(queue: &Mg1, square: f64, before: f64, after: f64) -> f64 {
    0.5 * queue.lambda() * square / ((1.0 - before) * (1.0 - after))
}

/// E[min(X, x)²].
fn capped_square(queue: &Mg1, x: f64) -> f64 {
    let beyond = if x.is_finite() { x * x * queue.sizes.survival(x) } else { 0.0 };
    queue.sizes.partial_moment(2, x) + beyond
}

/// rho(x-): the load of the jobs smaller than x.
fn load_below(queue: &Mg1, x: f64) -> f64 {
    queue.load(x.next_down())
}

impl Residence {
    pub(crate) fn new(queue: &Mg1, edges: &[f64]) -> Residence {
        let (mut sum, mut from) = (0.0, 0.0);
        let up_to = edges.iter().map(|&edge| {
            sum += residence_between(queue, from, edge);
            from = edge;
            sum
        });
        Residence { up_to: up_to.collect(), edges: edges.to_vec() }
    }

    pub(crate) fn at(&self, queue: &Mg1, x: f64) -> f64 {
        match self.edges.partition_point(|&edge| edge <= x) {
            0 => residence_between(queue, 0.0, x),
            panel => self.up_to[panel - 1] + residence_between(queue, self.edges[panel - 1], x),
        }
    }
}

/// Integrates within one panel, in which rho(t) is smooth (constant between atoms).
fn residence_between(queue: &Mg1, from: f64, to: f64) -> f64 {
    if from == to { 0.0 } else { integral(from, to, |t| 1.0 / (1.0 - queue.load(t))) }
}

fn bands(queue: &Mg1, cuts: &[f64]) -> Vec<Band> {
    let (mut from, mut residence_below) = (0.0, 0.0);
    let ends = cuts.iter().copied().chain([f64::INFINITY]);
    let bands = ends.map(|to| {
        let (after, before) = (queue.load(from), queue.load(to));
        let pace = 1.0 / (1.0 - after);
        let band = Band { from, wait: wait(queue, capped_square(queue, to), before, after), residence_below, pace };
        residence_below += (to - from) * pace;
        from = to;
        band
    });
    bands.collect()
}
