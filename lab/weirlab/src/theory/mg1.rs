use std::fmt::Write;

use serde_json::{Value, json};
use theory::mg1::{Mg1, Policy, Solution};
use units::Rate;

use super::{distribution, rank, size, wrong};
use crate::trace::print;
use cli::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// fcfs, ps, fair (the same), srpt, psjf, las, srpt-bands:BANDS, srpt-bands:SIZE,SIZE,... or rank:EXPRESSION
    #[arg(long, value_name = "SPEC")]
    policy: String,
    /// Offered load of the link, below 1
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    rho: f64,
    /// Distribution of sizes in bytes, such as exponential:mean=5000, or trace:FILE
    #[arg(long, value_name = "SPEC")]
    dist: String,
    /// Rate of the link; a job takes size / rate
    #[arg(long, value_name = "RATE", default_value = "10mbit")]
    link: String,
    /// Answer for the jobs of this size instead of all
    #[arg(long, value_name = "BYTES")]
    at_size: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn main(args: &Args) -> Result<(), Failure> {
    let link: Rate = args.link.parse().map_err(wrong("--link"))?;
    let at_size = args.at_size.as_deref().map(|text| size("--at-size", text)).transpose()?;
    let sizes = distribution(&args.dist)?;
    // A count of bands is cut as the scheduler would, had it seen all sizes.
    let cuts_of = |bands| sched::policy::best_cuts(|u| sizes.quantile(u), bands);
    let queue = Mg1::new(sizes.clone(), args.rho, link).map_err(wrong("--rho"))?;
    let solution = match args.policy.strip_prefix("rank:") {
        Some(text) => rank::solve(&queue, text).map_err(wrong("--policy"))?,
        None => queue.solve(&Policy::parse(&args.policy, cuts_of).map_err(wrong("--policy"))?),
    };
    let answer = Answer::of(&solution, at_size);
    match args.json {
        true => print(&format!("{}\n", as_json(args, &queue, &solution, link, &answer))),
        false => print(&as_text(args, &queue, &solution, &answer)),
    }
}

struct Answer {
    at_size: Option<f64>,
    response_ms: f64,
    slowdown: f64,
}

impl Answer {
    fn of(solution: &Solution, at_size: Option<f64>) -> Answer {
        let (response_ms, slowdown) = match at_size {
            Some(size) => (solution.response_ms_at(size), solution.slowdown_at(size)),
            None => (solution.response_ms(), solution.slowdown_mean()),
        };
        Answer { at_size, response_ms, slowdown }
    }
}

fn as_json(args: &Args, queue: &Mg1, solution: &Solution, link: Rate, answer: &Answer) -> Value {
    let mut object = json!({
        "policy": args.policy,
        "dist": args.dist,
        "link_bps": link.bits_per_s(),
        "rho": args.rho,
        "lambda_per_s": queue.lambda_per_s(),
        "size_mean_bytes": queue.mean_size_bytes(),
    });
    if !solution.cuts_bytes().is_empty() {
        object["cuts_bytes"] = solution.cuts_bytes().iter().map(|cut| *cut as u64).collect();
    }
    if let Some(size) = answer.at_size {
        object["at_size_bytes"] = (size as u64).into();
    }
    object["response_time_ms"] = answer.response_ms.into();
    object["slowdown_mean"] = answer.slowdown.into();
    object
}

fn as_text(args: &Args, queue: &Mg1, solution: &Solution, answer: &Answer) -> String {
    let (rate, mean) = (queue.lambda_per_s(), queue.mean_size_bytes());
    let mut text = format!("policy         {} on {}\n", args.policy, args.link);
    if !solution.cuts_bytes().is_empty() {
        let cuts: Vec<String> = solution.cuts_bytes().iter().map(f64::to_string).collect();
        let _ = writeln!(text, "cuts           {} bytes", cuts.join(", "));
    }
    let _ = writeln!(text, "arrivals       {rate:.3} per second, rho {}, of {mean:.1} bytes in the mean", args.rho);
    let whose = answer.at_size.map_or(String::new(), |size| format!(" of the jobs of {size} bytes"));
    let _ = writeln!(text, "response time  mean {:.4} ms{whose}", answer.response_ms);
    let _ = writeln!(text, "slowdown       mean {:.4}{whose}", answer.slowdown);
    text
}
