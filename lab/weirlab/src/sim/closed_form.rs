//! The simulations that have a closed form: one link, Poisson arrivals at a load below 1, known only by size, and a
//! policy for which the formula is exact.

use std::collections::BTreeMap;

use sim::queue::CHUNKS_OF_MEAN_MIN;
use theory::mg1::{Mg1, Policy};

use super::{Model, SimSpec, Wire};
use crate::theory::{distribution, rank};

/// The values that the formulas give for such runs, by the name of the predicted metric.
pub fn of(spec: &SimSpec) -> Option<BTreeMap<&'static str, f64>> {
    let is_plain = spec.wire == Wire::Plain && spec.seconds.is_none();
    let (true, Some(rho), Some(dist)) = (spec.model == Model::Queue && is_plain, spec.rho, &spec.dist) else {
        return None;
    };
    let queue = Mg1::new(distribution(dist).ok()?, rho, spec.link().parse().ok()?).ok()?;
    if !is_preemptive(spec, queue.mean_size_bytes()) {
        return None;
    }
    let solution = match spec.policy.strip_prefix("rank:") {
        Some(text) => rank::solve(&queue, text).ok()?,
        None => queue.solve(&policy(&spec.policy)?),
    };
    let metrics = [("response_time_ms_mean", solution.response_ms()), ("slowdown_mean", solution.slowdown_mean())];
    Some(metrics.into_iter().filter(|(_, value)| value.is_finite()).collect())
}

/// The number of parts of a mean size that is close enough to service without chunks.
const PARTS_MIN: f64 = CHUNKS_OF_MEAN_MIN as f64;

/// Returns true if service has no chunks, or chunks so small that they make no difference, which is the default for a
/// rank that takes turns.
fn is_preemptive(spec: &SimSpec, mean_bytes: f64) -> bool {
    let is_rank = spec.policy.starts_with("rank:");
    spec.chunk.is_none_or(|bytes| is_rank && bytes as f64 * PARTS_MIN <= mean_bytes)
}

/// Returns the policy of the formula. Round robin only approaches processor sharing, and bands that learn their cuts
/// only approach those of the formula.
fn policy(spec: &str) -> Option<Policy> {
    match spec.parse().ok()? {
        Policy::Ps if spec != "ps" => None,
        exact => Some(exact),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foretold(policy: &str, more: &str) -> Option<BTreeMap<&'static str, f64>> {
        let common = "model = 'queue'\nrho = 0.8\ndist = 'exponential:mean=5000'\nlink = '10mbit'";
        of(&toml::from_str(&format!("{common}\npolicy = '{policy}'\n{more}")).unwrap())
    }

    #[test]
    fn of_processor_sharing_by_hand() {
        // 4 ms of service at rho 0.8: 20 ms on average, five times the time alone for every size.
        let theory = foretold("ps", "").unwrap();
        let [mean, slowdown] = ["response_time_ms_mean", "slowdown_mean"].map(|name| theory[name]);
        assert!((mean - 20.0).abs() < 1e-2 && (slowdown - 5.0).abs() < 1e-3, "{theory:?}");
    }

    #[test]
    fn only_of_what_the_formula_is_of() {
        for (policy, more) in
            [("fair", ""), ("srpt-bands:5", ""), ("quick-fix", ""), ("srpt", "wire = 'tcp'"), ("srpt", "chunk = 1448")]
        {
            assert_eq!(foretold(policy, more), None, "{policy} {more}");
        }
        assert!(foretold("srpt-bands:1000,8000", "").is_some());
        let has_one = |rank: &str, more: &str| foretold(&format!("rank:{rank}"), more).is_some();
        let found = [
            ("left", ""),
            ("left", "chunk = 1448"),
            ("left", "chunk = 100"),
            ("sent", ""),
            ("sent * 2", ""),
            ("sent", "chunk = 100"),
            ("left * rtt", ""),
        ]
        .map(|(rank, more)| has_one(rank, more));
        assert_eq!(found, [true, false, true, true, true, true, false]);
    }
}
