//! `weir uplink doctor`: what this machine has for the kernel side.

use ::uplink::doctor::{Finding, State, examine};
use cli::Failure;
use serde_json::{Value, json};

use super::print;

#[derive(clap::Args)]
#[command(after_help = "Example: sudo weir uplink doctor")]
pub struct Args {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

pub fn main(args: &Args) -> Result<(), Failure> {
    let findings = examine();
    if args.json {
        return print(&format!("{}\n", findings.iter().map(as_json).collect::<Value>()));
    }
    print(&findings.iter().map(as_line).collect::<String>())
}

fn as_json(finding: &Finding) -> Value {
    let Finding { what, state, used_for, needs } = finding;
    json!({ "what": what, "state": state.name(), "used_for": used_for, "needs": needs })
}

fn as_line(finding: &Finding) -> String {
    let Finding { what, state, used_for, needs } = finding;
    let needed = match state {
        State::Ok => String::new(),
        State::Missing => format!("; needs {needs}"),
        State::Unknown => "; run as root to find out".to_string(),
    };
    format!("{:<8} {what:<27} {used_for}{needed}\n", state.name())
}
