//! `weir uplink show`: prints the bands, once or every second.

use std::io::IsTerminal;
use std::time::Duration;

use ::uplink::tree::{self, CONTROL_BAND, DATA_BAND_FIRST, OTHER_BAND, Tree};
use ::uplink::{Counted, Interface};
use cli::Failure;
use serde_json::{Value, json};

use super::{described, heading, print_again};

#[derive(clap::Args)]
#[command(after_help = "Example: weir uplink show eth0 --watch")]
pub struct Args {
    /// Interface, for example eth0
    interface: String,
    /// Print again every second
    #[arg(long)]
    watch: bool,
    /// Print N times and end, with --watch [default: until interrupted]
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

const INTERVAL: Duration = Duration::from_secs(1);
/// Moves the cursor to the top left and clears the screen (ECMA-48).
const CLEAR: &str = "\x1b[H\x1b[J";

pub fn main(args: &Args) -> Result<(), Failure> {
    let interface = Interface::by_name(&args.interface)?;
    let times = if args.watch { args.count.unwrap_or(u64::MAX) } else { 1 };
    let clear = if args.watch && !args.json && std::io::stdout().is_terminal() { CLEAR } else { "" };
    for time in 0..times {
        if time > 0 {
            std::thread::sleep(INTERVAL);
        }
        interface.check()?;
        let name = &interface.name;
        let missing = || Failure::Failed(format!("{name} has no bands; run `weir uplink up {name} --rate RATE`"));
        let tree = tree::find(&interface)?.ok_or_else(missing)?;
        let (stats, cuts) = (tree.stats()?, cuts(&interface));
        let text = match args.json {
            true => format!("{}\n", as_json(&tree, &stats, &cuts)),
            false => format!("{clear}{}{}", line(&interface), as_text(&tree, &stats, &cuts)),
        };
        if !print_again(&text)? {
            break;
        }
    }
    Ok(())
}

/// The cut points of an attached classifier: the maximum of each response band except the last.
#[derive(Default)]
struct Cuts {
    up_to: Vec<u64>,
    unit: &'static str,
}

/// Returns a line about the origin of the rate, if a classifier is attached.
#[cfg(feature = "bpf")]
fn line(interface: &Interface) -> String {
    let is_followed = ::uplink::follow::read(interface).is_some();
    if is_followed { format!("{}: {}\n", interface.name, crate::attach::rate_said(interface)) } else { String::new() }
}

#[cfg(not(feature = "bpf"))]
fn line(_interface: &Interface) -> String {
    String::new()
}

/// Returns the cut points; empty if no classifier is attached, or if this process may not read it.
#[cfg(feature = "bpf")]
fn cuts(interface: &Interface) -> Cuts {
    let attached = ::uplink::classify::find(interface).ok().flatten();
    let settings = attached.and_then(|attached| attached.settings);
    settings.map(|settings| Cuts { up_to: settings.cuts, unit: settings.policy.unit() }).unwrap_or_default()
}

#[cfg(not(feature = "bpf"))]
fn cuts(_interface: &Interface) -> Cuts {
    Cuts::default()
}

fn as_json(tree: &Tree, counted: &[Counted], cuts: &Cuts) -> Value {
    let Value::Object(mut object) = described(tree) else { unreachable!("a tree is an object") };
    if !cuts.up_to.is_empty() {
        object.insert("up_to_unit".into(), cuts.unit.into());
    }
    let mut bands = bands_as_json(counted, &cuts.up_to);
    for (band, value) in bands.iter_mut().enumerate() {
        value["priority"] = tree.priority(band as u8).into();
    }
    object.insert("bands".into(), bands.into());
    Value::Object(object)
}

/// Returns the bands with their counters as JSON. `cuts` are the maximums of the response bands except the last.
pub fn bands_as_json(counted: &[Counted], cuts: &[u64]) -> Vec<Value> {
    let band = |(band, counted): (usize, &Counted)| {
        json!({
            "band": band,
            "use": used_for(band),
            "up_to": cut_of(cuts, band),
            "packets": counted.packets,
            "bytes": counted.bytes,
            "drops": counted.drops,
            "backlog_packets": counted.backlog_packets,
            "backlog_bytes": counted.backlog_bytes,
        })
    };
    counted.iter().enumerate().map(band).collect()
}

fn cut_of(cuts: &[u64], band: usize) -> Option<u64> {
    cuts.get(band.checked_sub(DATA_BAND_FIRST.into())?).copied()
}

fn as_text(tree: &Tree, counted: &[Counted], cuts: &Cuts) -> String {
    let mut text = format!("{}: {}\n", tree.interface.name, heading(tree));
    if !cuts.up_to.is_empty() {
        text += &format!("a response's {} decide, up to:\n", cuts.unit);
    }
    text += "band  use           up to   packets          bytes     drops   waiting   waiting bytes\n";
    for (band, counted) in counted.iter().enumerate() {
        let Counted { packets, bytes, drops, backlog_packets, backlog_bytes } = counted;
        let (used_for, up_to) =
            (used_for(band), cut_of(&cuts.up_to, band).map_or("-".to_string(), |cut| cut.to_string()));
        text += &format!(
            "{band:>4}  {used_for:<8}{up_to:>11}{packets:>10}{bytes:>15}{drops:>10}{backlog_packets:>10}{backlog_bytes:>16}\n"
        );
    }
    text
}

fn used_for(band: usize) -> &'static str {
    match u8::try_from(band) {
        Ok(CONTROL_BAND) => "control",
        Ok(OTHER_BAND) => "other",
        _ => "data",
    }
}
