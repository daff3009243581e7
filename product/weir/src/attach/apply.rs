//! `weir apply`: makes the attaches of a file, where they are not as it says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ::uplink::classify::{self, Classify};
use ::uplink::follow as line;
use ::uplink::tree::{self, Overhead};
use ::uplink::{Error, Interface};
use cli::Failure;

use super::follow::{End, Following, WAIT_MAX, ending_signals};
use super::rate::{AttachRate, Wish};
use super::saved::{FILE, File, Saved};

/// The interval between looks at an interface that is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The interval of `--watch`: for as long nothing is ordered if another program replaces the queue.
const WATCH_EVERY: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weir attach eth0 --port 80,443 --save
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

/// The result of an attach.
enum Outcome {
    InPlace,
    Done(String),
}

pub fn main(args: Args) -> Result<(), Failure> {
    if args.watch {
        return watch(&args);
    }
    let (name, file) = (args.file.display(), File::open_existing(&args.file)?);
    let chosen = all_chosen(&args, &file)?;
    if chosen.is_empty() {
        return crate::uplink::print(&format!("weir: {name} has no tables: nothing to attach\n"));
    }
    let until = Instant::now() + Duration::from_secs(args.wait);
    let mut failed = Vec::new();
    for saved in chosen.iter().copied() {
        let missing = saved.classes.missing();
        if !missing.is_empty() {
            missing.iter().for_each(|said| eprintln!("weir: {said}"));
            failed.push(saved.interface.as_str());
            continue;
        }
        match apply(saved, &args.file, until) {
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

/// The attaches that the arguments choose. Fails if an interface has none.
fn all_chosen<'f>(args: &Args, file: &'f File) -> Result<Vec<&'f Saved>, Failure> {
    without_table(args, file).map_or_else(|| Ok(chosen(args, file).collect()), |said| Err(Failure::Failed(said)))
}

fn chosen<'f>(args: &Args, file: &'f File) -> impl Iterator<Item = &'f Saved> {
    file.all.iter().filter(|saved| args.interfaces.is_empty() || args.interfaces.contains(&saved.interface))
}

/// Names the first interface of the arguments that has no table.
fn without_table(args: &Args, file: &File) -> Option<String> {
    let interface = args.interfaces.iter().find(|interface| file.of(interface).is_none())?;
    let name = args.file.display();
    Some(format!("{name} has no table [{interface}]; write one: weir attach {interface} --save"))
}

/// Applies again and again, and follows the lines meanwhile. Says what changed, and a failure when it begins, ends or
/// becomes another.
fn watch(args: &Args) -> Result<(), Failure> {
    // At the start a mistake ends it; later the file from before stays in force. A table that is gone is not attached.
    let mut file = File::open_existing(&args.file)?;
    all_chosen(args, &file)?;
    let mut watched = Watched::default();
    let mut is_first = true;
    let is_ending = ending_signals()?;
    while !is_ending.load(Relaxed) {
        let read = File::open_existing(&args.file).map(|read| file = read);
        let failed = read.err().map(Failure::into_text);
        watched.note("", failed.or_else(|| without_table(args, &file)));
        let is_followed = |saved: &Saved, name: &String| saved.interface == *name && saved.is_followed();
        watched.following.retain(|name, _| chosen(args, &file).any(|saved| is_followed(saved, name)));
        for saved in chosen(args, &file) {
            // A unit that is started later has its group then.
            let missing = saved.classes.missing().into_iter().next();
            watched.note(&format!("the classes of {}", saved.interface), missing);
            let outcome = apply(saved, &args.file, Instant::now());
            let was_failed = watched.failures.contains_key(&saved.interface);
            let failed = outcome.as_ref().err().map(|error| format!("{}: {error}", saved.interface));
            watched.note(&saved.interface, failed);
            let begun = if outcome.is_ok() { watched.begin(saved) } else { Ok(()) };
            let failed = begun.err().map(|error| format!("{}: {error}", saved.interface));
            watched.note(&format!("the line of {}", saved.interface), failed);
            match outcome {
                Ok(Outcome::InPlace) if !is_first && !was_failed => {}
                Ok(outcome) => crate::uplink::print(&said(saved, &outcome))?,
                Err(_) => {}
            }
        }
        is_first = false;
        watched.follow(Instant::now() + WATCH_EVERY, &is_ending)?;
    }
    // The followers leave their bands at a rate that lasts.
    Ok(())
}

/// The followed interfaces, and the failures reported for each.
#[derive(Default)]
struct Watched {
    following: BTreeMap<String, Following>,
    failures: BTreeMap<String, String>,
}

impl Watched {
    /// Begins to follow the line of an attach that wants it.
    fn begin(&mut self, saved: &Saved) -> Result<(), String> {
        let name = &saved.interface;
        if !saved.is_followed() || self.following.contains_key(name) {
            return Ok(());
        }
        let begun = Interface::by_name(name).and_then(|interface| Following::begin(&interface));
        match begun.map_err(|error| error.to_string())? {
            Ok(following) => drop(self.following.insert(name.clone(), following)),
            Err(process) => return Err(format!("process {process} follows the line already")),
        }
        Ok(())
    }

    /// Follows the lines until then, or until a signal. One that is lost is found by the next look.
    fn follow(&mut self, until: Instant, is_ending: &AtomicBool) -> Result<(), Failure> {
        while Instant::now() < until && !is_ending.load(Relaxed) {
            let mut ended = Vec::new();
            for (name, following) in &mut self.following {
                match following.step() {
                    Ok(Ok(lines)) => {
                        for line in lines {
                            crate::uplink::print(&format!("weir: {name}: {line}\n"))?;
                        }
                    }
                    Ok(Err(End::Released(said) | End::Lost(said))) => ended.push((name.clone(), said)),
                    Err(error) => ended.push((name.clone(), error.to_string())),
                }
            }
            for (name, said) in ended {
                crate::uplink::print(&format!("weir: {name}: {said}\n"))?;
                self.following.remove(&name);
            }
            let next = self.following.values().map(Following::next).min().unwrap_or(until).min(until);
            sleep(next.saturating_duration_since(Instant::now()).min(WAIT_MAX));
        }
        Ok(())
    }

    /// Says a failure unless it is the one said before.
    fn note(&mut self, of: &str, failed: Option<String>) {
        note(&mut self.failures, of, failed);
    }
}

/// Says a failure unless it is the one said before.
pub fn note(failures: &mut BTreeMap<String, String>, of: &str, failed: Option<String>) {
    match failed {
        Some(failed) if failures.get(of) == Some(&failed) => {}
        Some(failed) => {
            eprintln!("weir: {failed}");
            failures.insert(of.to_string(), failed);
        }
        None => drop(failures.remove(of)),
    }
}

impl Saved {
    fn is_followed(&self) -> bool {
        !matches!(self.args.rate, Some(AttachRate::Told(_)))
    }
}

fn said(saved: &Saved, outcome: &Outcome) -> String {
    let what = match outcome {
        Outcome::InPlace => "as it should be",
        Outcome::Done(what) => what,
    };
    format!("weir: {}: {what}\n", saved.interface)
}

fn apply(saved: &Saved, path: &Path, until: Instant) -> Result<Outcome, Error> {
    let interface = awaited(&saved.interface, until)?;
    let wish = Wish::of_saved(saved.args.rate, &interface)?;
    let overhead = saved.args.overhead.map_or(Overhead::None, Overhead::from);
    let classes = saved.classes.classes.clone();
    let wanted = Classify { overhead: Some(overhead), classes, ..super::wanted_by(&saved.args, None, wish) };
    let is_followed = wish.is_followed();
    let has_small_packets =
        || tree::find(&interface)?.map_or(Ok(true), |tree| tree::has_small_packets(&tree, is_followed));
    if classify::is_in_place(&interface, &wanted)?
        && line::read(&interface).is_some() == is_followed
        && has_small_packets()?
    {
        return Ok(Outcome::InPlace);
    }
    let _changing = line::changing(&interface)?;
    // Another command may have detached meanwhile.
    if File::open_existing(path).is_ok_and(|file| file.of(&saved.interface).is_none()) {
        return Err(Error::Refused(format!("{} has no table [{}] any more", path.display(), saved.interface)));
    }
    let was_attached = classify::find(&interface)?.is_some();
    super::attach(&interface, &wanted, wish)?;
    let rate = wanted.rate.or_else(|| tree::find(&interface).ok()?.map(|tree| tree.plan.rate));
    let at = rate.map_or(String::new(), |rate| match is_followed {
        true => format!(" at {}; `--watch` follows the line", server::mbit(rate)),
        false => format!(" at {rate}"),
    });
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
