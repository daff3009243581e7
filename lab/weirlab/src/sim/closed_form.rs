//! The simulations that have a closed form: one link, Poisson arrivals at a load below 1, known only by size, and a
//! policy for which the formula is exact.

use std::collections::BTreeMap;

use sched::policy::Expression;
use sim::queue::{CHUNKS_OF_MEAN_MIN, SizeRank};
use theory::mg1::{Knows, Mg1, Policy, Served, Solution};

use super::{Model, SimSpec, Wire, distribution};

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
        Some(text) => of_rank(&queue, text)?,
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

/// The response times under this expression, without `rank:`; `None` where it has no closed form.
fn of_rank<'a>(queue: &'a Mg1, text: &str) -> Option<Solution<'a>> {
    let expression: Expression = text.parse().ok()?;
    let quantile = |u: f64| queue.sizes().quantile(u);
    let rank = SizeRank::new(expression, &quantile)?;
    let (size, errors) = rank.knows();
    let of = |job: Served| rank.value(job.size, job.sent, job.deviate);
    Some(queue.solve_rank(Knows { size, errors }, &rank.cuts(), &of))
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

    fn responses<const N: usize>(sizes: &str, policies: [&str; N]) -> [f64; N] {
        let queue = Mg1::new(sizes.parse().unwrap(), 0.7, "10mbit".parse().unwrap()).unwrap();
        policies.map(|policy| match policy.strip_prefix("rank:") {
            Some(text) => of_rank(&queue, text).unwrap().response_ms(),
            None => queue.solve(&policy.parse::<Policy>().unwrap()).response_ms(),
        })
    }

    const INDEX: [&str; 2] = ["rank:gittins(route,sent)", "rank:mserpt(route,sent)"];

    /// What was sent says nothing of exponential sizes, and ever more is left of hyperexponential ones: what an index is of
    /// them by errors of its table is no order.
    #[test]
    fn an_index_is_the_policy_that_is_best() {
        for (sizes, best, within) in
            [("exponential:mean=5000", "fcfs", 1e-5), ("hyperexponential:p=0.9,mean1=1000,mean2=40000", "las", 3e-3)]
        {
            let [right, gittins, mserpt] = responses(sizes, [best, INDEX[0], INDEX[1]]);
            for (of, found) in [("gittins", gittins), ("mserpt", mserpt)] {
                assert!((found / right - 1.0).abs() < within, "{of}, {sizes}: {found} for {right}");
            }
        }
    }

    #[test]
    fn no_blind_order_beats_gittins() {
        for sizes in ["exponential:mean=5000", "lognormal:mu=8,sigma=0.9", "bounded-pareto:alpha=1.5,min=500,max=1e6"] {
            let [gittins, others @ ..] = responses(sizes, [INDEX[0], INDEX[1], "fcfs", "las"]);
            assert!(others.iter().all(|other| *other > gittins * (1.0 - 1e-5)), "{sizes}: {gittins}, {others:?}");
        }
    }
}
