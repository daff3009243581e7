//! The closed form of an expression.

use sched::policy::Expression;
use sim::queue::SizeRank;
use theory::mg1::{Knows, Mg1, Served, Solution};

/// The response times under this expression, without `rank:`; the error says why there is no closed form.
pub fn solve<'a>(queue: &'a Mg1, text: &str) -> Result<Solution<'a>, String> {
    let expression: Expression = text.parse().map_err(|error: sched::policy::RankError| error.to_string())?;
    let quantile = |u: f64| queue.sizes().quantile(u);
    let elsewhere = "no closed form is known for more than size, left, sent, noise, gittins and mserpt: simulate it";
    let rank = SizeRank::new(expression, &quantile).ok_or_else(|| format!("rank `{}`: {elsewhere}", text.trim()))?;
    let (size, errors) = rank.knows();
    let of = |job: Served| rank.value(job.size, job.sent, job.deviate);
    Ok(queue.solve_rank(Knows { size, errors }, &rank.cuts(), &of))
}
