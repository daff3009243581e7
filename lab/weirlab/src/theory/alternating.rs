use serde_json::{Value, json};
use theory::alternating::Alternating;
use theory::mg1::Policy;
use units::Rate;
use workload::LoadProfile;

use super::{distribution, size, wrong};
use crate::trace::print;
use cli::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// fcfs, ps, fair (the same) or srpt
    #[arg(long, value_name = "SPEC")]
    policy: String,
    /// W1 to W10 of the overload paper, or two phases such as 25s@0.2,25s@1.2
    #[arg(long, value_name = "SPEC")]
    profile: String,
    /// Distribution of sizes in bytes, such as bounded-pareto:alpha=1.1,min=100,max=1e6, or trace:FILE
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
    let policy: Policy = args.policy.parse().map_err(wrong("--policy"))?;
    let profile: LoadProfile = args.profile.parse().map_err(wrong("--profile"))?;
    let link: Rate = args.link.parse().map_err(wrong("--link"))?;
    let at_size = args.at_size.as_deref().map(|text| size("--at-size", text)).transpose()?;
    let queue = Alternating::new(distribution(&args.dist)?, &profile, link).map_err(wrong("--profile"))?;
    let solution = queue.solve(&policy).map_err(wrong("--policy"))?;
    let (response_ms, slowdown) = match at_size {
        Some(size) => (solution.response_ms_at(size), solution.slowdown_at(size)),
        None => (solution.response_ms(), solution.slowdown_mean()),
    };
    let mut object = json!({
        "policy": args.policy,
        "dist": args.dist,
        "link_bps": link.bits_per_s(),
        "profile": args.profile,
        "rho_mean": profile.mean_rho(),
        "backlog_jobs": solution.backlog_jobs(),
    });
    if let Some(size) = at_size {
        object["at_size_bytes"] = (size as u64).into();
    }
    object["response_time_ms"] = response_ms.into();
    object["slowdown_mean"] = slowdown.into();
    match args.json {
        true => print(&format!("{object}\n")),
        false => print(&as_text(&object)),
    }
}

fn as_text(object: &Value) -> String {
    let whose = object.get("at_size_bytes").map_or(String::new(), |size| format!(" of the jobs of {size} bytes"));
    let number = |name: &str| object[name].as_f64().unwrap_or(f64::NAN);
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    format!(
        "policy         {} under {}, approximate\n\
         load           {:.3} in the mean, {:.0} jobs pile up\n\
         response time  mean {:.4} ms{whose}\n\
         slowdown       mean {:.4}{whose}\n",
        text("policy"),
        text("profile"),
        number("rho_mean"),
        number("backlog_jobs"),
        number("response_time_ms"),
        number("slowdown_mean"),
    )
}
