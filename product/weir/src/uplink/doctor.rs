//! `weir uplink doctor`: lists the kernel features of this machine.

use ::uplink::Interface;
use ::uplink::doctor::{Finding, State, examine, verdicts};
use cli::Failure;
use serde_json::{Value, json};
use units::Rate;

use super::print;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo weir uplink doctor
  sudo weir uplink doctor eth0 --rate 10mbit")]
pub struct Args {
    /// Also say what `weir attach` would do at this interface, or why it would refuse
    interface: Option<String>,
    /// Rate to attach with
    #[arg(long, value_name = "RATE", requires = "interface")]
    rate: Option<Rate>,
    /// Attach in the place of a queueing discipline that weir did not make
    #[arg(long, requires = "interface")]
    replace: bool,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

pub fn main(args: &Args) -> Result<(), Failure> {
    let interface = args.interface.as_deref().map(Interface::by_name).transpose()?;
    let findings = examine();
    let attach = interface.map(|interface| Attach::at(&interface, args));
    if args.json {
        let attach = attach.iter().map(Attach::as_json);
        return print(&format!("{}\n", findings.iter().map(as_json).chain(attach).collect::<Value>()));
    }
    let verdicts: String = verdicts(&findings).into_iter().map(verdict).collect();
    let attach: String = attach.iter().map(Attach::as_line).collect();
    let findings: String = findings.iter().map(as_line).collect();
    print(&format!("{verdicts}{attach}\n{findings}"))
}

/// The outcome that attaching to an interface would have.
struct Attach {
    name: String,
    outcome: Result<String, String>,
}

impl Attach {
    fn at(interface: &Interface, args: &Args) -> Attach {
        let outcome = crate::attach::would(interface, args.rate, args.replace).map_err(|error| error.to_string());
        Attach { name: interface.name.clone(), outcome }
    }

    fn state(&self) -> &'static str {
        if self.outcome.is_ok() { "ok" } else { "refused" }
    }

    fn said(&self) -> &str {
        self.outcome.as_ref().unwrap_or_else(|refusal| refusal)
    }

    fn as_json(&self) -> Value {
        json!({ "what": format!("attach {}", self.name), "state": self.state(), "said": self.said() })
    }

    fn as_line(&self) -> String {
        format!("{:<8} attach {}: {}\n", self.state(), self.name, self.said())
    }
}

fn verdict((command, lacking): (&str, Vec<(&str, State)>)) -> String {
    let all = |of: State| {
        let names: Vec<&str> = lacking.iter().filter(|(_, state)| *state == of).map(|(what, _)| *what).collect();
        (!names.is_empty()).then(|| format!("{} {}", names.join(", "), of.name()))
    };
    match (all(State::Missing), all(State::Unknown)) {
        (None, None) => format!("{command} works here\n"),
        (None, Some(unknown)) => format!("{command} may not work here: {unknown}\n"),
        (Some(missing), None) => format!("{command} cannot work here: {missing}\n"),
        (Some(missing), Some(unknown)) => format!("{command} cannot work here: {missing}; {unknown}\n"),
    }
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
        State::Unknown => "; to find out, run as root and outside of containers".to_string(),
    };
    format!("{:<8} {what:<27} {used_for}{needed}\n", state.name())
}
