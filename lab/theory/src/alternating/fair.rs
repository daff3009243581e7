//! Processor sharing: all jobs are served at the same time, and the more there are, the more slowly.
//!
//! The clock of the service that each job receives runs at rate 1 / n(t), where n is the number of jobs. A job of size
//! x leaves when the clock has advanced by x since its arrival, so its response time is read off the clock.
//!
//! *High load.* The number grows as n(t) = gamma (t + t0), which makes the clock a logarithm. A job that arrived at s
//! has then received (1 / gamma) ln((t + t0) / (s + t0)). Counting the jobs that need more gives the rate: gamma =
//! lambda (1 - E[exp(-gamma X)]), whose positive root exists if the load is above 1 (Jean-Marie & Robert, "On the
//! transient behavior of the processor sharing queue", 1994). t0 is chosen such that the high load begins with the jobs
//! of the low load, 1 / (1 - rho).
//!
//! *Low load.* Let v be the clock since the load dropped. The jobs are then the earlier ones that need more than v, and
//! the new ones, which arrive at a rate of lambda per unit of time, that is lambda n(w) dw: n(v) = N0(v) + lambda
//! integral of P(X > v - w) n(w) dw, with N0(v) = lambda_h H integral of gamma exp(-gamma u) P(X > u + v) du. The
//! stable queue, 1 / (1 - rho), adds the rest.

use super::Alternating;

#[derive(Debug, Clone)]
pub(super) struct Fair<'a> {
    queue: &'a Alternating,
    pub(super) clock: Option<Clock>,
}

/// The service per job since the high load began, as a function of time, and its inverse.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    /// The growth of the number of jobs per byte of the link.
    gamma: f64,
    /// The time by which the high load would have begun earlier, had it begun without jobs.
    t0: f64,
    /// The length of the high load, and the clock at its end.
    high: (f64, f64),
    /// Points of time and clock since the load dropped.
    pub(super) low: Vec<(f64, f64)>,
    /// The length of a turn, and the clock at its end.
    turn: (f64, f64),
    /// The time per unit of the clock when there is no backlog.
    stable: f64,
}

impl<'a> Fair<'a> {
    pub(super) fn new(queue: &'a Alternating) -> Fair<'a> {
        Fair { queue, clock: queue.is_overloaded().then(|| Clock::new(queue)).flatten() }
    }

    pub(super) fn response(&self, x: f64) -> f64 {
        let Some(clock) = &self.clock else {
            let share = self.queue.high_share();
            let [high, low] = [&self.queue.high, &self.queue.low].map(|period| x / (1.0 - period.queue.rho));
            return share * high + (1.0 - share) * low;
        };
        self.queue.mean_over_arrivals(|at| clock.time(clock.at(at) + x) - at)
    }

    pub(super) fn backlog_jobs(&self) -> f64 {
        self.clock.as_ref().map_or(0.0, |clock| clock.gamma * clock.high.0)
    }
}

impl Clock {
    /// `None` if the load is so little above 1 that the number does not grow.
    fn new(queue: &Alternating) -> Option<Clock> {
        let gamma = growth(queue)?;
        let stable = 1.0 / (1.0 - queue.low.queue.rho);
        let t0 = stable / gamma;
        let high = (queue.high.lasts, ((queue.high.lasts + t0) / t0).ln() / gamma);
        let low = drain(queue, gamma, stable);
        let mut clock = Clock { gamma, t0, high, low, turn: (queue.turn(), f64::INFINITY), stable };
        clock.turn.1 = clock.at(queue.turn());
        Some(clock)
    }

    /// The clock at an instant of the first turn.
    pub(super) fn at(&self, time: f64) -> f64 {
        if time <= self.high.0 {
            return ((time + self.t0) / self.t0).ln() / self.gamma;
        }
        self.high.1 + follow(&self.low, |point| *point, time - self.high.0, 1.0 / self.stable)
    }

    /// The time at which the clock has this value.
    pub(super) fn time(&self, clock: f64) -> f64 {
        let turns = (clock / self.turn.1).floor();
        let in_turn = clock - turns * self.turn.1;
        let time = match in_turn <= self.high.1 {
            true => self.t0 * (self.gamma * in_turn).exp_m1(),
            false => self.high.0 + follow(&self.low, |point| (point.1, point.0), in_turn - self.high.1, self.stable),
        };
        turns * self.turn.0 + time
    }
}

/// Interpolates linearly between the points, from the origin to the first, and with this slope beyond the last.
fn follow(points: &[(f64, f64)], axes: impl Fn(&(f64, f64)) -> (f64, f64), x: f64, slope: f64) -> f64 {
    let next = points.partition_point(|point| axes(point).0 < x);
    let (x0, y0) = if next == 0 { (0.0, 0.0) } else { axes(&points[next - 1]) };
    match points.get(next).map(&axes) {
        Some((x1, y1)) => y0 + (x - x0) / (x1 - x0) * (y1 - y0),
        None => y0 + (x - x0) * slope,
    }
}

/// gamma: the positive root, by bisection of its logarithm.
fn growth(queue: &Alternating) -> Option<f64> {
    let lambda = queue.high.queue.lambda();
    let grows = |gamma: f64| lambda * still_there(queue, gamma, 0.0) > gamma;
    let (mut below, mut above) = (lambda * GROWTH_LEAST, lambda);
    if !grows(below) {
        return None;
    }
    for _ in 0..BISECTIONS {
        let middle = (below * above).sqrt();
        if grows(middle) { below = middle } else { above = middle }
    }
    Some(below)
}

/// The integral of gamma exp(-gamma u) P(X > u + v) du, over panels in which the exponential is nearly constant and the
/// integral of P(X > u) is exact.
fn still_there(queue: &Alternating, gamma: f64, v: f64) -> f64 {
    let step = (EXPONENT.1 / EXPONENT.0).ln() / f64::from(EXPONENT_PANELS);
    let (mut sum, mut z, mut beyond) = (0.0, 0.0f64, shared(queue, v));
    for panel in 0..=EXPONENT_PANELS {
        let to = EXPONENT.0 * (f64::from(panel) * step).exp();
        let up_to = shared(queue, v + to / gamma);
        let weight: f64 = ((-z).exp() - (-to).exp()) / (to - z);
        sum += weight * gamma * (up_to - beyond);
        (z, beyond) = (to, up_to);
    }
    sum
}

/// E[min(X, x)], the integral of P(X > u) from 0 to x.
fn shared(queue: &Alternating, x: f64) -> f64 {
    let sizes = &queue.low.queue.sizes;
    sizes.partial_moment(1, x) + x * sizes.survival(x)
}

/// Time and clock during the low load, from the renewal equation on a logarithmic grid.
fn drain(queue: &Alternating, gamma: f64, stable: f64) -> Vec<(f64, f64)> {
    let sizes = &queue.low.queue.sizes;
    let edges = crate::mg1::quadrature::edges(sizes, &[]);
    let from = sizes.quantile(0.5) * DRAIN.0;
    let to = edges[edges.len() - 1] * DRAIN.1;
    let step = (to / from).ln() / f64::from(DRAIN_POINTS);
    let grid: Vec<f64> =
        std::iter::once(0.0).chain((0..=DRAIN_POINTS).map(|at| from * (f64::from(at) * step).exp())).collect();
    let (lambda_high, lambda_low) = (queue.high.queue.lambda(), queue.low.queue.lambda());
    let left = |v: f64| lambda_high * queue.high.lasts * still_there(queue, gamma, v);
    let mut jobs = vec![left(0.0)];
    let (mut time, mut points) = (0.0, Vec::new());
    for at in 1..grid.len() {
        // Between two points the number is taken as their mean, and the integral of P(X > v - w) is exact.
        let (mut known, mut own, mut later) = (left(grid[at]), 0.0, shared(queue, grid[at]));
        for cell in 0..at {
            let up_to = shared(queue, grid[at] - grid[cell + 1]);
            let weight = 0.5 * lambda_low * (later - up_to);
            later = up_to;
            known += weight * jobs[cell];
            if cell + 1 < at { known += weight * jobs[cell + 1] } else { own = weight }
        }
        jobs.push(known / (1.0 - own));
        time += (grid[at] - grid[at - 1]) * (0.5 * (jobs[at] + jobs[at - 1]) + stable);
        points.push((time, grid[at]));
    }
    points
}

/// The range of the exponent in exp(-gamma u) that is integrated: e^-40 is negligible.
const EXPONENT: (f64, f64) = (1e-7, 40.0);
const EXPONENT_PANELS: u32 = 200;
/// The range of the clock: from this share of the median to this multiple of the largest size.
const DRAIN: (f64, f64) = (0.05, 4.0);
const DRAIN_POINTS: u32 = 300;
/// The minimum growth relative to the rate of arrivals; less counts as none.
const GROWTH_LEAST: f64 = 1e-9;
/// The number of bisections of a logarithm of 21 down to the last bit.
const BISECTIONS: u32 = 60;
