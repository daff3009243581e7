//! The service of each class of closed clients: how often it was answered, and the latency as 004 defines it.
//!
//! The paper (section 2) classifies requests by size, and weights the mean of each size class by its number of
//! requests. Here the weights are the numbers for all customers together, so that two customers are compared on the
//! same mix, whatever each drew.

use serde::Serialize;
use stats::{SIZE_DECADES, size_decade, weighted_mean};
use units::Nanos;

use super::station::Flight;

const SIZES: usize = SIZE_DECADES.len() + 1;

/// The service of a class of closed clients.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CustomerOutcome {
    /// The responses per second after the warm-up.
    pub per_s: f64,
    /// The mean latency; `None` if there were no responses.
    pub latency_ms: Option<f64>,
    /// The latency with every size class weighted by the number of requests for it from all customers.
    pub latency_weighted_ms: Option<f64>,
    /// The latency by size class: up to 1 KB, 10 KB, 100 KB, and above; `None` for a class without requests.
    pub latency_by_size_ms: [Option<f64>; SIZES],
}

pub(super) struct Customers {
    classes: Vec<Class>,
    warm_up: u64,
    departed: u64,
    /// The end of the warm-up.
    since: Nanos,
}

#[derive(Default, Clone)]
struct Class {
    departed: u64,
    by_size: [(u64, f64); SIZES],
}

impl Customers {
    pub fn new(classes: usize, warm_up: u64) -> Customers {
        Customers { classes: vec![Class::default(); classes], warm_up, departed: 0, since: Nanos::ZERO }
    }

    pub fn on_departure(&mut self, class: u16, at: Nanos) {
        self.departed += 1;
        if self.departed <= self.warm_up {
            self.since = at;
        } else if let Some(class) = self.classes.get_mut(usize::from(class)) {
            class.departed += 1;
        }
    }

    /// Records a counted job.
    pub fn record(&mut self, flight: &Flight, at: Nanos) {
        if let Some(class) = self.classes.get_mut(usize::from(flight.class)) {
            let (jobs, sum_ms) = &mut class.by_size[size_decade(flight.size_bytes)];
            *jobs += 1;
            *sum_ms += (at - flight.arrival).as_millis_f64();
        }
    }

    pub fn outcomes(&self, at: Nanos) -> Vec<CustomerOutcome> {
        let span_s = (at - self.since).as_secs_f64().max(1e-9);
        let jobs = |size: usize| self.classes.iter().map(|class| class.by_size[size].0).sum::<u64>() as f64;
        let weights: [f64; SIZES] = std::array::from_fn(jobs);
        let outcome = |class: &Class| {
            let means = class.by_size.map(|(jobs, sum_ms)| (jobs > 0).then(|| sum_ms / jobs as f64));
            let own = class.by_size.map(|(jobs, _)| jobs as f64);
            CustomerOutcome {
                per_s: class.departed as f64 / span_s,
                latency_ms: weighted_mean(own.into_iter().zip(means)),
                latency_weighted_ms: weighted_mean(weights.into_iter().zip(means)),
                latency_by_size_ms: means,
            }
        };
        self.classes.iter().map(outcome).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_customers_are_weighed_by_the_same_mix() {
        let mut customers = Customers::new(2, 1);
        let mut job = |class, size_bytes, ms| {
            let flight = Flight { number: 0, arrival: Nanos::ZERO, service: Nanos(1), size_bytes, class, user: None };
            customers.on_departure(class, Nanos::from_millis(1000));
            customers.record(&flight, Nanos::from_millis(ms));
        };
        // A: three small, one large; B: one of each. In total four small and two large.
        [(0, 500, 10), (0, 500, 10), (0, 500, 10), (0, 50_000, 100), (1, 500, 20), (1, 50_000, 200)]
            .into_iter()
            .for_each(|(class, size, ms)| job(class, size, ms));
        let found = customers.outcomes(Nanos::from_millis(3000));
        let figures: Vec<_> = found.iter().map(|of| (of.per_s, of.latency_ms, of.latency_weighted_ms)).collect();
        assert_eq!(figures, [(1.5, Some(32.5), Some(40.0)), (1.0, Some(110.0), Some(80.0))]);
        assert_eq!(found[0].latency_by_size_ms, [Some(10.0), None, Some(100.0), None]);
    }
}
