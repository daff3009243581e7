//! `weir apply`: attaches to interfaces as a file says, where that has not been done yet.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ::uplink::classify::{self, Classify};
use ::uplink::follow as line;
use ::uplink::tree::{self, Overhead};
use ::uplink::{Changed, Error, Interface};
use cli::Failure;

use super::follow::{End, Following};
use super::rate::{AttachRate, Wish};
use super::saved::{FILE, File, Saved};
use super::wake::Wake;

/// The interval between checks for an interface that is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The interval between full checks with `--watch`, if no change triggers one earlier.
const WATCH_EVERY: Duration = Duration::from_secs(60);
/// The interval between brief checks of things that the kernel does not report: the file, and the programs at TCX.
const GLANCE_EVERY: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weir attach eth0 --port 80,443 --save
  weir apply
  weir apply eth0 --watch

Attaches that match the file are not touched; a changed rate is changed in place. If an interface fails,
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
    /// Stay, and attach what is gone, and interfaces that come or are made anew, at once; heed
    /// changes of the file within five seconds
    #[arg(long, conflicts_with = "wait", verbatim_doc_comment)]
    watch: bool,
}

/// The key under which a failure of the file itself is stored; no interface has this name.
const OF_FILE: &str = "";

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
        saved.classes.routed().iter().for_each(|said| eprintln!("weir: {said}"));
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

/// Returns the attaches that the arguments select. Fails if a selected interface has no table in the file.
fn all_chosen<'f>(args: &Args, file: &'f File) -> Result<Vec<&'f Saved>, Failure> {
    without_table(args, file).map_or_else(|| Ok(chosen(args, file).collect()), |said| Err(Failure::Failed(said)))
}

fn chosen<'f>(args: &Args, file: &'f File) -> impl Iterator<Item = &'f Saved> {
    file.all.iter().filter(|saved| args.interfaces.is_empty() || args.interfaces.contains(&saved.interface))
}

/// Returns a message about the first selected interface that has no table.
fn without_table(args: &Args, file: &File) -> Option<String> {
    let interface = args.interfaces.iter().find(|interface| file.of(interface).is_none())?;
    let name = args.file.display();
    Some(format!("{name} has no table [{interface}]; write one: weir attach {interface} --save"))
}

/// Applies the file whenever something has changed, and follows the lines meanwhile. Prints changes, and each failure
/// once, until it ends or changes.
fn watch(args: &Args) -> Result<(), Failure> {
    // At the start a mistake ends it; later the file from before stays in force. A table that is gone is not attached.
    let mark = mark(&args.file);
    let file = File::open_existing(&args.file)?;
    all_chosen(args, &file)?;
    let mut watched = Watched::of(file, mark);
    let mut wake = Wake::open()?;
    let mut is_first = true;
    while !wake.is_ending() {
        wake.look()?;
        watched.read(args);
        for saved in chosen(args, &Rc::clone(&watched.file)) {
            watched.look(args, saved, is_first)?;
        }
        is_first = false;
        watched.wait(args, &mut wake)?;
    }
    // The followers leave their bands at a rate that lasts.
    Ok(())
}

/// The inode, size and time of a file, by which a change is noticed.
type Mark = Option<(u64, u64, i64, i64)>;

fn mark(path: &Path) -> Mark {
    let about = std::fs::metadata(path).ok()?;
    Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}

/// The tables, their interfaces, the followed lines, and the failure last printed for each.
struct Watched {
    file: Rc<File>,
    mark: Mark,
    /// Each interface at the last check, with the programs attached there.
    seen: BTreeMap<String, (Interface, Vec<u32>)>,
    following: BTreeMap<String, Following>,
    failures: BTreeMap<String, String>,
}

impl Watched {
    fn of(file: File, mark: Mark) -> Watched {
        let (seen, following, failures) = Default::default();
        Watched { file: Rc::new(file), mark, seen, following, failures }
    }

    /// Reads the file again if it has changed, and drops what the file no longer contains.
    fn read(&mut self, args: &Args) {
        let now = mark(&args.file);
        if now != self.mark || self.failures.contains_key(OF_FILE) {
            let read = File::open_existing(&args.file).map(|read| self.file = Rc::new(read));
            self.mark = now;
            let failed = read.err().map(Failure::into_text);
            let failed = failed.or_else(|| without_table(args, &self.file));
            self.note(OF_FILE, failed);
        }
        let file = &self.file;
        let is_chosen = |name: &String| chosen(args, file).any(|saved| saved.interface == *name);
        self.seen.retain(|name, _| is_chosen(name));
        self.following
            .retain(|name, _| chosen(args, file).any(|saved| saved.interface == *name && saved.is_followed()));
    }

    /// Attaches to an interface as the file says, and starts to follow its line.
    fn look(&mut self, args: &Args, saved: &Saved, is_first: bool) -> Result<(), Failure> {
        let name = &saved.interface;
        // A unit that is started later has its group then.
        let missing = saved.classes.missing().into_iter().chain(saved.classes.routed()).next();
        self.note(&format!("the classes of {name}"), missing);
        let outcome = apply(saved, &args.file, Instant::now());
        let was_failed = self.failures.contains_key(name);
        self.note(name, outcome.as_ref().err().map(|error| format!("{name}: {error}")));
        let begun = if outcome.is_ok() { self.begin(saved) } else { Ok(()) };
        self.note(&format!("the line of {name}"), begun.err().map(|error| format!("{name}: {error}")));
        let seen = Interface::by_name(name).and_then(|found| classify::numbers(&found).map(|numbers| (found, numbers)));
        match seen {
            Ok(seen) => drop(self.seen.insert(name.clone(), seen)),
            Err(_) => drop(self.seen.remove(name)),
        }
        match outcome {
            Ok(Outcome::InPlace) if !is_first && !was_failed => Ok(()),
            Ok(outcome) => crate::uplink::print(&said(saved, &outcome)),
            Err(_) => Ok(()),
        }
    }

    /// Starts to follow the line of an attach whose rate is to be followed.
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

    /// Follows the lines until the next check is due, or until a signal.
    fn wait(&mut self, args: &Args, wake: &mut Wake) -> Result<(), Failure> {
        let until = Instant::now() + WATCH_EVERY;
        let mut glance = Instant::now() + GLANCE_EVERY;
        while Instant::now() < until && !wake.is_ending() && !wake.is_due() {
            if !self.step()? {
                wake.call();
            }
            if Instant::now() >= glance {
                if !self.is_as_seen(args) {
                    return Ok(());
                }
                glance = Instant::now() + GLANCE_EVERY;
            }
            let next = self.following.values().map(Following::next).min().unwrap_or(until);
            wake.wait(next.min(until).min(glance), |changed| self.concerns(changed))?;
        }
        Ok(())
    }

    /// Takes a step for each line. Returns false if a line is lost; the next check handles that.
    fn step(&mut self) -> Result<bool, Failure> {
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
        for (name, said) in &ended {
            crate::uplink::print(&format!("weir: {name}: {said}\n"))?;
            self.following.remove(name);
        }
        Ok(ended.is_empty())
    }

    /// Returns false if a check may find a change that the kernel does not report.
    fn is_as_seen(&self, args: &Args) -> bool {
        let has_groups = chosen(args, &self.file).any(|saved| saved.classes.has_groups());
        let has_same = |(interface, numbers): &(Interface, Vec<u32>)| {
            classify::numbers(interface).is_ok_and(|now| now == *numbers)
        };
        self.failures.is_empty() && !has_groups && mark(&args.file) == self.mark && self.seen.values().all(has_same)
    }

    /// Returns true if the change may affect an interface of the file. Rate changes by our own followers do not count.
    fn concerns(&self, changed: Changed) -> bool {
        let of = |index: u32| self.seen.iter().find(|(_, (interface, _))| interface.index == index);
        match changed {
            Changed::Unknown | Changed::Link { .. } => true,
            Changed::Queue { interface } => of(interface).is_some(),
            Changed::Class { interface } => of(interface).is_some_and(|(name, _)| !self.following.contains_key(name)),
        }
    }

    /// Prints a failure, unless the same failure was printed before.
    fn note(&mut self, of: &str, failed: Option<String>) {
        note(&mut self.failures, of, failed);
    }
}

/// Prints a failure, unless the same failure was printed before.
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

/// Waits until the interface exists and is up.
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
