//! `weir uplink watch`: what a running server knows of its uplink, a line a second.

use std::time::Duration;

use cli::Failure;
use serde_json::Value;
use server::send::{in_words, mbit};
use units::{Nanos, Rate};

use super::print;
use crate::running::Which;
use crate::serve::control::STATUS_NAME;
use crate::status;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weir uplink watch
  weir uplink watch 1234 --seconds 60

rate: what the line carries; pace: what is used of it; limit: line, others (on the same line), ceiling (--uplink) or
shaper; age: since the rate was last confirmed. Ends with the server.")]
pub struct Args {
    /// Process of the server, or a file with its number [default: the only one that runs]
    server: Option<String>,
    /// End after so many seconds [default: with the server]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

const COMMAND: &str = "uplink watch";
const INTERVAL: Duration = Duration::from_secs(1);

pub fn main(args: &Args) -> Result<(), Failure> {
    let which = Which::fixed(Which::of(args.server.as_deref()).pid(COMMAND)?);
    for second in 0..args.seconds.unwrap_or(u64::MAX) {
        if second > 0 {
            std::thread::sleep(INTERVAL);
        }
        let told = which.ask(STATUS_NAME, COMMAND).and_then(|(pid, answer)| status::read(pid, &answer));
        match told {
            Ok(told) if args.json => print(&format!("{}\n", told["uplink"]))?,
            Ok(told) => print(&format!("{}\n", line(&told["uplink"])))?,
            // It has ended.
            Err(_) if second > 0 => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn line(uplink: &Value) -> String {
    if uplink.is_null() {
        return "nothing is paced".into();
    }
    let rate = |name: &str, without: &str| {
        let rate = uplink[name].as_u64().and_then(Rate::from_bits_per_s);
        rate.map_or(without.to_string(), mbit)
    };
    let age = uplink["age_s"].as_f64().map_or("-".into(), |seconds| in_words(Nanos::from_secs(seconds as u64)));
    let limit = uplink["limit"].as_str().unwrap_or("-");
    let unfound = if limit == "ceiling" { "as configured" } else { "not found yet" };
    let (found, pace) = (rate("rate_bits_per_s", unfound), rate("pace_bits_per_s", "none"));
    format!("rate {found:<13}  pace {pace:<11}  limit {limit:<7}  age {age}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_known_is_said() {
        let found = json!({
            "rate_bits_per_s": 9_420_000, "pace_bits_per_s": 9_200_000, "limit": "line", "age_s": 12.4,
        });
        assert_eq!(line(&found), "rate 9.42 Mbit/s    pace 9.20 Mbit/s  limit line     age 12 s");
        let old = json!({
            "rate_bits_per_s": 9_420_000, "pace_bits_per_s": 9_200_000, "limit": "line", "age_s": 10_800.0,
        });
        assert!(line(&old).ends_with("  age 3 h"), "{}", line(&old));
        let none = json!({ "rate_bits_per_s": null, "pace_bits_per_s": null, "limit": null, "age_s": null });
        assert_eq!(line(&none), "rate not found yet  pace none         limit -        age -");
        let told = json!({ "rate_bits_per_s": null, "pace_bits_per_s": 9_800_000, "limit": "ceiling", "age_s": null });
        assert_eq!(line(&told), "rate as configured  pace 9.80 Mbit/s  limit ceiling  age -");
        // The samples of the page.
        let page = include_str!("../../../../docs/line.md");
        for sample in [line(&none), line(&found), line(&told)] {
            assert!(page.lines().any(|shown| shown == sample), "docs/line.md lacks `{sample}`");
        }
        assert_eq!(line(&Value::Null), "nothing is paced");
    }
}
