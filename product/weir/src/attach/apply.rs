//! `weir apply`: makes the attaches of a file, where they are not as it says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ::uplink::classify;
use ::uplink::{Error, Interface};
use cli::Failure;

use super::saved::{FILE, File, Saved};

/// The interval between looks at an interface that is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The interval of `--watch`: for as long nothing is ordered if another program replaces the queue.
const WATCH_EVERY: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weir attach eth0 --port 80,443 --rate 95mbit --save
  weir apply
  weir apply eth0 --watch

What is as the file says stays untouched; a rate is changed in place. If an interface fails,
the others are done, and the exit status is 1. As a service, which watches:
systemctl enable --now weir-attach@eth0.")]
pub struct Args {
    /// Interfaces [default: all in the file]
    interfaces: Vec<String>,
    /// File of the attaches
    #[arg(long, value_name = "FILE", default_value = FILE)]
    file: PathBuf,
    /// Maximum seconds to wait for an interface that is missing or down
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = clap::value_parser!(u64).range(..=86400))]
    wait: u64,
    /// Stay and look every five seconds, at the file too: attach what is gone, and interfaces
    /// that come or are made anew
    #[arg(long, conflicts_with = "wait", verbatim_doc_comment)]
    watch: bool,
}

/// What became of an attach.
enum Outcome {
    InPlace,
    Done(String),
}

pub fn main(args: Args) -> Result<(), Failure> {
    if args.watch {
        return watch(&args);
    }
    let (name, chosen) = (args.file.display(), chosen(&args)?);
    if chosen.is_empty() {
        return crate::uplink::print(&format!("weir: {name} has no tables: nothing to attach\n"));
    }
    let until = Instant::now() + Duration::from_secs(args.wait);
    let mut failed = Vec::new();
    for saved in &chosen {
        match apply(saved, until) {
            Ok(outcome) => crate::uplink::print(&said(saved, &outcome))?,
            Err(error) => {
                eprintln!("weir: {}: {error}", saved.interface);
                failed.push(saved.interface.as_str());
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "{} of {} interfaces are not as {name} says: {}; see the lines above, and run `weir apply` again",
        failed.len(),
        chosen.len(),
        failed.join(", ")
    )))
}

/// Returns the attaches of the file that are to be made.
fn chosen(args: &Args) -> Result<Vec<Saved>, Failure> {
    let file = File::open_existing(&args.file)?;
    let missing = args.interfaces.iter().find(|interface| file.of(interface).is_none());
    if let Some(interface) = missing {
        return Err(Failure::Failed(format!(
            "{} has no table [{interface}]; write one: weir attach {interface} --rate RATE --save",
            args.file.display()
        )));
    }
    let is_chosen = |saved: &Saved| args.interfaces.is_empty() || args.interfaces.contains(&saved.interface);
    Ok(file.all.into_iter().filter(is_chosen).collect())
}

/// Applies again and again. Says what changed, and a failure when it begins, ends or becomes another.
fn watch(args: &Args) -> Result<(), Failure> {
    // At the start a mistake ends it; later the file from before stays in force.
    let mut all = chosen(args)?;
    let mut failures: BTreeMap<String, String> = BTreeMap::new();
    let mut is_first = true;
    loop {
        let read = chosen(args).map(|read| all = read);
        let failed = read.err().map(|(Failure::Failed(said) | Failure::Usage(said))| said);
        note(&mut failures, "", failed);
        for saved in &all {
            let outcome = apply(saved, Instant::now());
            let failed = outcome.as_ref().err().map(|error| format!("{}: {error}", saved.interface));
            let was_failed = failures.contains_key(&saved.interface);
            note(&mut failures, &saved.interface, failed);
            match outcome {
                Ok(Outcome::InPlace) if !is_first && !was_failed => {}
                Ok(outcome) => crate::uplink::print(&said(saved, &outcome))?,
                Err(_) => {}
            }
        }
        is_first = false;
        sleep(WATCH_EVERY);
    }
}

/// Says a failure unless it is the one said before.
fn note(failures: &mut BTreeMap<String, String>, of: &str, failed: Option<String>) {
    match failed {
        Some(failed) if failures.get(of) == Some(&failed) => {}
        Some(failed) => {
            eprintln!("weir: {failed}");
            failures.insert(of.to_string(), failed);
        }
        None => drop(failures.remove(of)),
    }
}

fn said(saved: &Saved, outcome: &Outcome) -> String {
    let what = match outcome {
        Outcome::InPlace => "as it should be",
        Outcome::Done(what) => what,
    };
    format!("weir: {}: {what}\n", saved.interface)
}

fn apply(saved: &Saved, until: Instant) -> Result<Outcome, Error> {
    let interface = awaited(&saved.interface, until)?;
    let wanted = super::wanted_from(&saved.args, None);
    if classify::is_in_place(&interface, &wanted)? {
        return Ok(Outcome::InPlace);
    }
    let was_attached = classify::find(&interface)?.is_some();
    classify::attach(&interface, &wanted)?;
    let at = wanted.rate.map_or(String::new(), |rate| format!(" at {rate}"));
    Ok(Outcome::Done(format!("{}{at}", if was_attached { "changed" } else { "attached" })))
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
