//! `weir apply`: makes the attaches of a file, where they are not as it says.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ::uplink::classify;
use ::uplink::{Error, Interface};
use cli::Failure;

use super::saved::{FILE, File, Saved};

/// The interval between looks at an interface that is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weir attach eth0 --port 80,443 --rate 95mbit --save
  weir apply
  weir apply eth0 --wait 60

What is as the file says stays untouched; a rate is changed in place. If an interface fails,
the others are done, and the exit status is 1. At each start of the machine and of the
interface: systemctl enable --now weir-attach@eth0.")]
pub struct Args {
    /// Interfaces [default: all in the file]
    interfaces: Vec<String>,
    /// File of the attaches
    #[arg(long, value_name = "FILE", default_value = FILE)]
    file: PathBuf,
    /// Maximum seconds to wait for an interface that is missing or down
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = clap::value_parser!(u64).range(..=86400))]
    wait: u64,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let file = File::open_existing(&args.file)?;
    let name = args.file.display();
    let missing = args.interfaces.iter().find(|interface| file.of(interface).is_none());
    if let Some(interface) = missing {
        return Err(Failure::Failed(format!(
            "{name} has no table [{interface}]; write one: weir attach {interface} --rate RATE --save"
        )));
    }
    let is_chosen = |saved: &&Saved| args.interfaces.is_empty() || args.interfaces.contains(&saved.interface);
    let chosen: Vec<&Saved> = file.all.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        return crate::uplink::print(&format!("weir: {name} has no tables: nothing to attach\n"));
    }
    let until = Instant::now() + Duration::from_secs(args.wait);
    let mut failed = Vec::new();
    for saved in &chosen {
        match apply(saved, until) {
            Ok(said) => crate::uplink::print(&format!("weir: {}: {said}\n", saved.interface))?,
            Err(error) => {
                eprintln!("weir: {}: {error}", saved.interface);
                failed.push(saved.interface.as_str());
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!("of {} interfaces not as {name} says: {}", chosen.len(), failed.join(", "))))
}

/// Returns what was done.
fn apply(saved: &Saved, until: Instant) -> Result<String, Error> {
    let interface = awaited(&saved.interface, until)?;
    let wanted = super::wanted_from(&saved.args, None);
    if classify::is_in_place(&interface, &wanted)? {
        return Ok("as it should be".to_string());
    }
    let was_attached = classify::find(&interface)?.is_some();
    classify::attach(&interface, &wanted)?;
    let at = wanted.rate.map_or(String::new(), |rate| format!(" at {rate}"));
    Ok(format!("{}{at}", if was_attached { "changed" } else { "attached" }))
}

/// Waits until the interface is there and up.
fn awaited(name: &str, until: Instant) -> Result<Interface, Error> {
    loop {
        let found = Interface::by_name(name);
        match &found {
            Ok(interface) if interface.is_up() => return found,
            _ if Instant::now() >= until => return found,
            _ => sleep(LOOK_EVERY),
        }
    }
}
