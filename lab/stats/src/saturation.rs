//! Finds the load at which a link is full, from the amounts that it sent while work arrived.
//!
//! Utilisation grows with the load until the link is full and then stays constant; the load at which it stops growing
//! is the critical load. In the bins of a ramp that corner is blurred, because work of a busy second is sent in the
//! next. The model fitted to the bytes sent is therefore the queue itself: work, as we count it, costs the link `cost`
//! times as much and leaves at `capacity` at most. The idle times determine the cost and the busy times the capacity,
//! and the critical load is capacity / cost. The errors allow for a model that is wrong for seconds at a time, because
//! the squares are summed in blocks of time.

/// Arriving work: its instant in seconds, and its amount.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    pub at_s: f64,
    pub amount: f64,
}

/// The total amount that a link has sent up to an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sent {
    pub at_s: f64,
    pub total: f64,
}

/// The best-fitting parameters, each with half its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saturation {
    /// The amount that the link sends for one unit of work.
    pub cost: f64,
    pub cost_half_width: f64,
    /// The amount that the link sends per second when full.
    pub capacity: f64,
    pub capacity_half_width: f64,
    /// The units of work per second at which the link is full: capacity / cost.
    pub critical: f64,
    pub critical_half_width: f64,
}

/// The maximum number of steps of the fit. The problem is quadratic as long as the busy times do not change, and the
/// fit ends after four or five steps.
const STEPS_MAX: usize = 30;
/// The fit ends when no parameter changes by more than this share.
const STEP_LEAST: f64 = 1e-9;
/// The step of the derivatives, relative to the parameter.
const NUDGE: f64 = 1e-4;
/// The number of consecutive blocks of time for the errors; each is long enough to be nearly independent.
const BLOCKS: usize = 20;
/// The number of standard errors in half a 95 % interval: the two-sided point of Student's distribution with 18 degrees
/// of freedom.
const STANDARD_ERRORS: f64 = 2.101;

/// Fits a queue to a link. `work` and `sent` are in order of time; `sent` may count from any zero, and starts when
/// nothing waits. `guess` is the expected capacity. `None` if the data do not determine the parameters: there are too
/// few observations, or the link was never full.
pub fn saturation(work: &[Work], sent: &[Sent], guess: f64) -> Option<Saturation> {
    if sent.len() <= BLOCKS {
        return None;
    }
    let observed: Vec<f64> = sent.windows(2).map(|pair| pair[1].total - pair[0].total).collect();
    let residuals = |[cost, capacity]: [f64; 2]| -> Vec<f64> {
        let modelled = departures(work, sent, cost, capacity);
        observed.iter().zip(modelled).map(|(observed, modelled)| observed - modelled).collect()
    };
    let mut found = [1.0, guess];
    for _ in 0..STEPS_MAX {
        let (slopes, here) = (slopes(&residuals, found), residuals(found));
        let step = solve(normal(&slopes), gradient(&slopes, &here))?;
        // A step that overshoots is halved. If no step improves the fit, the present one is the best.
        let squares = |at: [f64; 2]| residuals(at).iter().map(|residual| residual * residual).sum::<f64>();
        let before = squares(found);
        let tried = (0..10).map(|halvings| {
            let share = 0.5f64.powi(halvings);
            [0, 1].map(|n| (found[n] + share * step[n]).max(1e-3 * found[n]))
        });
        let Some(better) = { tried }.find(|at| squares(*at) < before) else { break };
        let change = [0, 1].map(|n| (better[n] / found[n] - 1.0).abs());
        found = better;
        if change[0].max(change[1]) < STEP_LEAST {
            break;
        }
    }
    let slopes = slopes(&residuals, found);
    Some(with_errors(found, covariance(&slopes, &residuals(found))?))
}

/// Returns the work that a queue does between the instants, if it is never idle while work waits, with this cost of
/// work.
fn departures(work: &[Work], sent: &[Sent], cost: f64, capacity: f64) -> Vec<f64> {
    let (mut waiting, mut now_s, mut arrivals) = (0.0f64, 0.0, work.iter().peekable());
    let mut total = 0.0;
    let mut totals = Vec::with_capacity(sent.len());
    for until in sent {
        let mut serve = |to_s: f64, waiting: &mut f64| {
            let served = (capacity * (to_s - now_s).max(0.0)).min(*waiting);
            *waiting -= served;
            total += served;
            now_s = to_s.max(now_s);
        };
        while let Some(job) = arrivals.next_if(|job| job.at_s <= until.at_s) {
            serve(job.at_s, &mut waiting);
            waiting += cost * job.amount;
        }
        serve(until.at_s, &mut waiting);
        totals.push(total);
    }
    totals.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// The derivatives of each modelled interval with respect to each parameter, relative to the parameter.
fn slopes(residuals: &impl Fn([f64; 2]) -> Vec<f64>, at: [f64; 2]) -> [Vec<f64>; 2] {
    [0, 1].map(|n| {
        let (mut less, mut more) = (at, at);
        less[n] *= 1.0 - NUDGE;
        more[n] *= 1.0 + NUDGE;
        let width = more[n] - less[n];
        residuals(less).iter().zip(residuals(more)).map(|(less, more)| (less - more) / width).collect()
    })
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn normal(slopes: &[Vec<f64>; 2]) -> [[f64; 2]; 2] {
    [0, 1].map(|row| [0, 1].map(|column| dot(&slopes[row], &slopes[column])))
}

fn gradient(slopes: &[Vec<f64>; 2], residuals: &[f64]) -> [f64; 2] {
    [0, 1].map(|n| dot(&slopes[n], residuals))
}

fn inverse(matrix: [[f64; 2]; 2]) -> Option<[[f64; 2]; 2]> {
    let [[a, b], [c, d]] = matrix;
    let determinant = a * d - b * c;
    // The determinant is nearly zero if one of the two parameters had no effect.
    let is_regular = determinant.is_finite() && determinant.abs() > 1e-9 * (a * d).abs();
    is_regular.then(|| [[d / determinant, -b / determinant], [-c / determinant, a / determinant]])
}

fn solve(matrix: [[f64; 2]; 2], right: [f64; 2]) -> Option<[f64; 2]> {
    let inverse = inverse(matrix)?;
    Some([0, 1].map(|row| inverse[row][0] * right[0] + inverse[row][1] * right[1]))
}

/// Returns the covariance of both parameters, from the sums of blocks of time (the sandwich estimator of Huber and
/// White, by clusters).
fn covariance(slopes: &[Vec<f64>; 2], residuals: &[f64]) -> Option<[[f64; 2]; 2]> {
    let bread = inverse(normal(slopes))?;
    let block = residuals.len().div_ceil(BLOCKS);
    let sums: Vec<[f64; 2]> = (0..residuals.len())
        .step_by(block)
        .map(|from| {
            let to = (from + block).min(residuals.len());
            [0, 1].map(|n| dot(&slopes[n][from..to], &residuals[from..to]))
        })
        .collect();
    let correction = sums.len() as f64 / (sums.len() as f64 - 2.0);
    let meat = [0, 1].map(|row| [0, 1].map(|column| correction * sums.iter().map(|s| s[row] * s[column]).sum::<f64>()));
    let product = |one: [[f64; 2]; 2], other: [[f64; 2]; 2]| {
        [0, 1].map(|row| [0, 1].map(|column| one[row][0] * other[0][column] + one[row][1] * other[1][column]))
    };
    Some(product(product(bread, meat), bread))
}

fn with_errors([cost, capacity]: [f64; 2], covariance: [[f64; 2]; 2]) -> Saturation {
    let half_width = |variance: f64| STANDARD_ERRORS * variance.max(0.0).sqrt();
    let critical = capacity / cost;
    // The error of a quotient, to first order.
    let relative = covariance[0][0] / (cost * cost) + covariance[1][1] / (capacity * capacity)
        - 2.0 * covariance[0][1] / (cost * capacity);
    Saturation {
        cost,
        cost_half_width: half_width(covariance[0][0]),
        capacity,
        capacity_half_width: half_width(covariance[1][1]),
        critical,
        critical_half_width: critical * half_width(relative),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ramp of loads from 0.6 to 1.4 of 100 units a second, in pieces of 10 at uneven times.
    fn ramp(seconds: f64) -> Vec<Work> {
        let mut work = vec![];
        let (mut at_s, mut state) = (0.0, 7u64);
        while at_s < seconds {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let uneven = 0.5 + (state >> 33) as f64 / (1u64 << 31) as f64;
            at_s += uneven * 10.0 / (100.0 * (0.6 + 0.8 * at_s / seconds));
            work.push(Work { at_s, amount: 10.0 });
        }
        work
    }

    /// The amounts that a link with this cost and capacity sends, read every second.
    fn link(work: &[Work], seconds: usize, cost: f64, capacity: f64) -> Vec<Sent> {
        let mut sent: Vec<Sent> = (0..=seconds).map(|s| Sent { at_s: s as f64, total: 1000.0 }).collect();
        let steps = departures(work, &sent, cost, capacity);
        for (at, step) in steps.iter().enumerate() {
            sent[at + 1].total = sent[at].total + step;
        }
        sent
    }

    #[test]
    fn finds_the_queue_that_made_it() {
        let work = ramp(120.0);
        for (cost, capacity) in [(1.0, 100.0), (1.07, 98.0), (0.9, 103.0)] {
            let found = saturation(&work, &link(&work, 120, cost, capacity), 100.0).unwrap();
            assert!(
                (found.cost / cost - 1.0).abs() < 1e-6 && (found.capacity / capacity - 1.0).abs() < 1e-6,
                "{found:?}"
            );
            assert!((found.critical / (capacity / cost) - 1.0).abs() < 1e-6 && found.critical_half_width < 1e-3);
        }
    }

    /// The counters are read slightly late, and work takes slightly longer to reach the link.
    #[test]
    fn noise_is_in_the_error() {
        let work = ramp(120.0);
        let mut sent = link(&work, 120, 1.03, 99.0);
        for (at, sent) in sent.iter_mut().enumerate() {
            sent.total += [0.0, 4.0, -3.0, 1.0, 5.0, -6.0, 2.0][at % 7];
        }
        let found = saturation(&work, &sent, 100.0).unwrap();
        assert!((found.critical - 99.0 / 1.03).abs() <= 1.5 * found.critical_half_width, "{found:?}");
        assert!((1e-6..5.0).contains(&found.critical_half_width), "{found:?}");
    }

    #[test]
    fn a_link_that_was_never_full_tells_no_critical_load() {
        let work: Vec<Work> = (0..600).map(|n| Work { at_s: f64::from(n) / 10.0, amount: 3.0 }).collect();
        let sent = link(&work, 60, 1.0, 100.0);
        // Each piece alone is sent in 30 ms, at a pace that readings every second do not show.
        assert!(saturation(&work, &sent, 100.0).is_none_or(|found| found.critical_half_width > 10.0));
        assert_eq!(saturation(&work, &sent[..10], 100.0), None);
    }
}
