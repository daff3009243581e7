//! The closed form of an expression.

use sched::policy::Expression;
use sim::queue::SizeRank;
use theory::mg1::{Knows, Mg1, Served, Solution};

/// The response times under this expression, without `rank:`; the error explains why there is no closed form.
pub fn solve<'a>(queue: &'a Mg1, text: &str) -> Result<Solution<'a>, String> {
    let expression: Expression = text.parse().map_err(|error: sched::policy::RankError| error.to_string())?;
    let quantile = |u: f64| queue.sizes().quantile(u);
    let elsewhere = "no closed form is known for more than size, left, sent, noise, gittins and mserpt: simulate it";
    let rank = SizeRank::new(expression, &quantile).ok_or_else(|| format!("rank `{}`: {elsewhere}", text.trim()))?;
    let (size, errors) = rank.knows();
    let of = |job: Served| rank.value(job.size, job.sent, job.deviate);
    Ok(queue.solve_rank(Knows { size, errors }, &rank.cuts(), &of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use theory::mg1::Policy;

    fn responses<const N: usize>(sizes: &str, policies: [&str; N]) -> [f64; N] {
        let queue = Mg1::new(sizes.parse().unwrap(), 0.7, "10mbit".parse().unwrap()).unwrap();
        policies.map(|policy| match policy.strip_prefix("rank:") {
            Some(text) => solve(&queue, text).unwrap().response_ms(),
            None => queue.solve(&policy.parse::<Policy>().unwrap()).response_ms(),
        })
    }

    const INDEX: [&str; 2] = ["rank:gittins(route,sent)", "rank:mserpt(route,sent)"];

    /// The bytes sent reveal nothing about exponential sizes, and for hyperexponential ones the remaining size only
    /// grows. An order that the index derives from errors of its table has no meaning.
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
