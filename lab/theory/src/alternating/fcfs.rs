//! First come, first served: a job waits for the work that it finds, whatever its size.

use super::Alternating;
use crate::mg1::Policy;

#[derive(Debug, Clone)]
pub(super) struct Fcfs {
    wait: f64,
}

impl Fcfs {
    pub(super) fn new(queue: &Alternating) -> Fcfs {
        let (high, low) = (&queue.high, &queue.low);
        let stationary = |of: &crate::mg1::Mg1| of.solve(&Policy::Fcfs).response(0.0);
        let share = queue.high_share();
        if !queue.is_overloaded() {
            return Fcfs { wait: share * stationary(&high.queue) + (1.0 - share) * stationary(&low.queue) };
        }
        // The backlog rises linearly to its peak during the high load, then falls linearly to zero.
        let peak = (high.queue.rho - 1.0) * high.lasts;
        let falls_for = peak / (1.0 - low.queue.rho);
        let in_low = (1.0 - share) * falls_for / low.lasts;
        Fcfs { wait: stationary(&low.queue) + (share + in_low) * peak / 2.0 }
    }

    pub(super) fn response(&self, x: f64) -> f64 {
        x + self.wait
    }
}

/// The number of jobs that arrived and could not be sent.
pub(super) fn backlog_jobs(queue: &Alternating) -> f64 {
    (queue.high.queue.rho - 1.0) * queue.high.lasts / queue.high.queue.mean_size_bytes()
}
