//! `weir attach --try`: measures with the site's own traffic whether the order helps, and leaves the interface as it
//! was.

mod judge;
mod kept;
mod slices;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ::uplink::classify::{self, Classify, Facts, Meter, Missed, Preview, Response, Settings};
use ::uplink::tree::{self, Tree};
use ::uplink::{Error, Interface, QueueWatch, follow as line};
use cli::Failure;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use units::{Nanos, Rate};

pub use judge::Compared;
use judge::{Conclusion, Judgement, SMALL_BYTES, Slice, Summed};
pub use kept::Gain;
use slices::{Slices, Unfit};

use super::rate::Wish;
use super::{Args, wanted, wanted_by};

/// The interval between reads of the queue and of the responses that have ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The time for which responses are awaited after the last slice.
const LAST: Duration = Duration::from_millis(250);
/// The maximum wait for a followed rate to settle. The process that follows it checks the classifier every five
/// seconds.
const SETTLED_WITHIN: Duration = Duration::from_secs(8);
/// The part of the line's rate, in thousandths, below which the bands are draining the line's queue.
const SETTLED_PERMILLE: u32 = 900;
/// The time after which a process that follows the rate has noticed the trial.
const STANDS_STILL_AFTER: Duration = Duration::from_secs(2);
/// The maximum number of responses stored in a trial (24 MB). Further ones are only counted.
const RESPONSES_MAX: usize = 1_000_000;
/// The percentage of samples in which packets must wait in the bands; below it, the order can change nothing.
const WAITING_PERCENT: u64 = 10;

/// Returns the gain according to the trials of the last day; `None` if there were none.
pub fn gain(interface: &Interface, settings: &Settings, rate: Rate) -> Option<Gain> {
    kept::read(interface, settings, rate)
}

pub fn main(args: &Args, interface: &Interface, time: Duration) -> Result<(), Failure> {
    let (before, wanted) = settled(args, interface)?;
    let preview = classify::preview(interface, &wanted)?;
    let rate = preview.tree.rate;
    let slices = Slices::new(time, coin()).map_err(|unfit| {
        let (what, bound, side) = match unfit {
            Unfit::Short(least) => ("short", least, "more"),
            Unfit::Long(most) => ("long", most, "less"),
        };
        let [time, bound] = [time, bound].map(|time| time.as_secs());
        Failure::Usage(format!("--try {time}s is too {what}: write {bound}s or {side}"))
    })?;
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&is_ended))?;
    }
    if !args.json {
        crate::uplink::print(&announced(interface, &slices, rate))?;
    }
    let outcome = attach_and_try(interface, &wanted, slices, &is_ended, before.is_followed);
    // The first error is the one to report.
    let restored = before.put_back(interface, &preview);
    if let (Ok(trial), true) = (&outcome, before.is_attached_as(&preview)) {
        let pairs = Summed::of(&trial.responses, &trial.slices).pairs;
        if let Err(error) = kept::add(interface, &preview.settings, &pairs) {
            eprintln!("weir: warning: {}: {error}", interface.name);
        }
    }
    conclude(args, interface, rate, outcome, restored)
}

/// Returns the present state of the interface, and the attach to try. Waits while a followed rate has just been cut, or
/// the classifier has not been adapted to it yet.
fn settled(args: &Args, interface: &Interface) -> Result<(Before, Classify), Failure> {
    let until = Instant::now() + SETTLED_WITHIN;
    loop {
        let before = Before::of(interface)?;
        let wanted = wanted(args, interface, before.wish(args, interface)?)?;
        if !before.is_followed || is_settled(interface) && classify::is_in_place(interface, &wanted)? {
            return Ok((before, wanted));
        }
        if Instant::now() >= until {
            let name = &interface.name;
            return Err(Failure::Failed(format!(
                "the rate of {name} is followed with other settings: leave the flags out to try the attach as it is, or run `weir attach --detach {name}` first"
            )));
        }
        sleep(LOOK_EVERY);
    }
}

/// Returns false if the rate was cut just now. The bands then send much less while the line's queue drains.
fn is_settled(interface: &Interface) -> bool {
    let status = line::read(interface).map(|followed| followed.status).unwrap_or_default();
    status.rate.zip(status.pace).is_some_and(|(rate, pace)| pace >= rate.permille(SETTLED_PERMILLE))
}

/// Returns a fair coin that is seeded anew in each run.
fn coin() -> impl FnMut() -> bool {
    let (random, mut tosses) = (RandomState::new(), 0u64);
    move || {
        tosses += 1;
        random.hash_one(tosses) & 1 == 1
    }
}

fn announced(interface: &Interface, slices: &Slices, rate: Rate) -> String {
    let Slices { are_ordered, each, .. } = slices;
    let (name, count, seconds) = (&interface.name, are_ordered.len(), each.as_secs_f64());
    let not = tree::replaced(interface).map_or(String::new(), |kind| format!(", but without the {kind}"));
    format!(
        "weir: {name}: {count} slices of {seconds:.1} s, half with the order at {rate}, half without order and rate, as before the attach{not}\n"
    )
}

fn conclude(
    args: &Args,
    interface: &Interface,
    rate: Rate,
    outcome: Result<Trial, Error>,
    restored: Result<&'static str, Error>,
) -> Result<(), Failure> {
    let name = &interface.name;
    let state = match &restored {
        Ok(state) => format!("{name}: {state}"),
        Err(error) => format!("{name} was not restored: {error}; run `weir attach --list`"),
    };
    let trial = outcome.map_err(|error| Failure::Failed(format!("{error}; {state}")))?;
    let judgement = Judgement::of(&trial.responses, &trial.slices, rate);
    match args.json {
        true => crate::uplink::print(&format!("{}\n", trial.described(name, &judgement)))?,
        false => crate::uplink::print(&format!("weir: {name}: {}\n", trial.said(&judgement)))?,
    }
    let seconds = trial.seconds();
    match (restored, trial.is_ended) {
        (Err(_), _) => Err(Failure::Failed(state)),
        (Ok(_), true) => Err(Failure::Failed(format!("stopped after {seconds} s; {state}"))),
        (Ok(_), false) if args.json => Ok(()),
        (Ok(_), false) => crate::uplink::print(&format!("weir: {state}\n")),
    }
}

/// The state of the interface before a trial.
struct Before {
    classifier: Option<Settings>,
    tree: Option<Tree>,
    /// True if a process follows the rate. That process pauses during a trial.
    is_followed: bool,
}

impl Before {
    fn of(interface: &Interface) -> Result<Before, Failure> {
        let name = &interface.name;
        let attached = classify::find(interface)?;
        if classify::is_tried(interface)? {
            return Err(Failure::Failed(format!("another `weir attach {name} --try` runs: wait for its end")));
        }
        let classifier = match attached {
            Some(attached) if attached.settings.is_none() => {
                return Err(Failure::Failed(format!(
                    "{name} has a classifier of another version of weir: run `weir attach {name}` first, or `weir attach --detach {name}`"
                )));
            }
            attached => attached.and_then(|attached| attached.settings),
        };
        let is_followed = line::read(interface).is_some_and(|followed| followed.process.is_some());
        Ok(Before { classifier, tree: tree::find(interface)?, is_followed })
    }

    /// The rate to try with.
    fn wish(&self, args: &Args, interface: &Interface) -> Result<Wish, Failure> {
        let open = line::open_rate(interface)?;
        let is_slower = self.tree.as_ref().is_some_and(|tree| tree.plan.rate < open);
        match Wish::of(args.rate, interface)? {
            // Found before, and kept for this interface and gateway.
            Wish::Follow(Some(rate)) if rate < open => Ok(Wish::Told(rate)),
            Wish::Follow(None) if is_slower && self.is_followed => Ok(Wish::Follow(None)),
            // Found, and followed by nobody now.
            Wish::Follow(None) if is_slower => Ok(Wish::AsIs),
            Wish::Follow(_) => Err(Failure::Usage(format!(
                "--try needs a rate that stays: write --rate RATE, for example 9500kbit, or let `weir attach {}` find one before",
                interface.name
            ))),
            wish => Ok(wish),
        }
    }

    /// Returns true if the tried attach is the one that was there before.
    fn is_attached_as(&self, tried: &Preview) -> bool {
        self.classifier.as_ref() == Some(&tried.settings)
            && self.tree.as_ref().is_some_and(|tree| tree::same(&tree.plan, &tried.tree))
    }

    /// Restores the interface to its state before the trial, unless it has changed from `tried` in the meantime.
    /// Describes the outcome.
    fn put_back(&self, interface: &Interface, tried: &Preview) -> Result<&'static str, Error> {
        if interface.check().is_err() {
            classify::forget_gone(interface);
            return Ok("the interface is gone, and the attach with it");
        }
        if self.is_followed {
            return Ok("attached, as before");
        }
        let is_tried = |attached: classify::Attached| attached.settings.as_ref() == Some(&tried.settings);
        let has_rate = |tree: Tree| tree::same(&tree.plan, &tried.tree);
        let tree = tree::find(interface).ok().flatten();
        if !classify::find(interface)?.is_some_and(is_tried) || !tree.is_none_or(has_rate) {
            return Ok("left alone: another command, or a failed attach, has changed it");
        }
        let _changing = line::changing(interface)?;
        let Some(settings) = &self.classifier else {
            classify::detach(interface)?;
            if let Some(tree) = &self.tree {
                tree::up(interface, &tree.plan, false)?;
            }
            return Ok("detached, as before");
        };
        let wish = self.tree.as_ref().map_or(Wish::AsIs, |tree| Wish::Told(tree.plan.rate));
        let overhead = self.tree.as_ref().map_or(Ok(None), tree::overhead)?;
        let earlier = Classify { overhead, ..wanted_by(&Args::default(), Some(settings), wish) };
        if !classify::is_in_place(interface, &earlier)? {
            classify::attach(interface, &earlier)?;
        }
        Ok("attached, as before")
    }
}

fn attach_and_try(
    interface: &Interface,
    wanted: &Classify,
    slices: Slices,
    is_ended: &AtomicBool,
    is_followed: bool,
) -> Result<Trial, Error> {
    if !classify::is_in_place(interface, wanted)? {
        line::changing(interface).and_then(|_changing| classify::attach(interface, wanted))?;
    }
    let mut trying = Trying {
        interface,
        wanted,
        meter: Meter::start(interface)?,
        queues: QueueWatch::open(&interface.name)?,
        is_ended,
        trial: Trial::default(),
    };
    if is_followed {
        sleep(STANDS_STILL_AFTER);
    }
    for is_ordered in &slices.are_ordered {
        if !trying.run(&slices, *is_ordered)? {
            break;
        }
    }
    trying.finish()
}

/// A trial under way.
struct Trying<'a> {
    interface: &'a Interface,
    wanted: &'a Classify,
    meter: Meter,
    queues: QueueWatch,
    is_ended: &'a AtomicBool,
    trial: Trial,
}

/// The raw result of a trial.
#[derive(Default)]
struct Trial {
    responses: Vec<Response>,
    slices: Vec<Slice>,
    missed: Missed,
    /// Responses beyond [`RESPONSES_MAX`].
    beyond: u64,
    /// Samples of the bands in slices with the order. The next field counts the samples in which packets waited.
    looks: u64,
    waiting: u64,
    /// True if a signal ended the trial early.
    is_ended: bool,
    programs: [Facts; 2],
}

impl Trying<'_> {
    /// Runs a slice. Returns false if a signal ended it.
    fn run(&mut self, slices: &Slices, is_ordered: bool) -> Result<bool, Error> {
        let from = self.meter.turn(is_ordered)?;
        let middle = slices.counted(from, from).0;
        if !self.wait(middle, is_ordered)? {
            return Ok(false);
        }
        let (counted, bytes) = (classify::now(), self.meter.acked_bytes()?);
        if !self.wait(from + slices.each_ns(), is_ordered)? {
            return Ok(false);
        }
        let name = &self.interface.name;
        if !classify::is_in_place(self.interface, self.wanted)? {
            return Err(Error::Refused(format!(
                "another command changed the attach of {name} or removed it: stop that command, for example with \
                    `systemctl stop weir-attach@{name}`, and try again"
            )));
        }
        let carried_bytes = self.meter.acked_bytes()?.saturating_sub(bytes);
        let to = classify::now();
        let (span, counted_span) = ((from, to), slices.counted(from, to));
        let carried_in = Nanos(to.0.saturating_sub(counted.0));
        self.trial.slices.push(Slice { is_ordered, span, counted: counted_span, carried_bytes, carried_in });
        Ok(true)
    }

    /// Reads responses that end until this instant. Returns false if a signal ended the wait.
    fn wait(&mut self, until: Nanos, is_ordered: bool) -> Result<bool, Error> {
        let trial = &mut self.trial;
        loop {
            if self.is_ended.load(Relaxed) {
                trial.is_ended = true;
                return Ok(false);
            }
            self.meter.read(|response| trial.take(response))?;
            let name = &self.interface.name;
            let root = self.queues.read().map(|queues| queues.root);
            let root = root.map_err(|error| Error::Refused(format!("reading the queues of {name}: {error}")))?;
            trial.looks += u64::from(is_ordered);
            trial.waiting += u64::from(is_ordered && root.backlog_packets > 0);
            let left = until.0.saturating_sub(classify::now().0);
            if left == 0 {
                return Ok(true);
            }
            sleep(LOOK_EVERY.min(Duration::from_nanos(left)));
        }
    }

    fn finish(self) -> Result<Trial, Error> {
        let Trying { meter, mut trial, is_ended, .. } = self;
        meter.turn(true)?;
        if !is_ended.load(Relaxed) {
            // For what began late in the last slice.
            sleep(LAST);
        }
        trial.programs = meter.facts()?;
        trial.missed = meter.finish(|response| trial.take(response))?;
        Ok(trial)
    }
}

impl Trial {
    fn take(&mut self, response: Response) {
        match self.responses.len() < RESPONSES_MAX {
            true => self.responses.push(response),
            false => self.beyond += 1,
        }
    }

    fn seconds(&self) -> u64 {
        let time = self.slices.iter().map(|slice| slice.span.1.0 - slice.span.0.0).sum();
        Nanos(time).as_secs_f64().round() as u64
    }

    /// Describes the conclusion, with the likely cause if there is no gain.
    fn said(&self, judgement: &Judgement) -> String {
        let said = judgement.said(self.seconds());
        let percent = self.waiting * 100 / self.looks.max(1);
        let has_no_queue = percent < WAITING_PERCENT && judgement.conclusion() == Conclusion::NoGain;
        let why = match has_no_queue {
            true => format!(
                "; with the order something waited here in {percent} % of the looks only: no queue forms, or the rate is above the line's"
            ),
            false => String::new(),
        };
        let dropped = self.missed.lost + self.beyond;
        let dropped = match dropped > 0 {
            true => format!("; {dropped} responses were too many to measure"),
            false => String::new(),
        };
        // A trial that was stopped has left responses under way.
        let unseen = match !self.is_ended && self.missed.unfinished > judgement.responses {
            true => format!(
                "; {} responses had no end: their clients' packets arrive over another interface",
                self.missed.unfinished
            ),
            false => String::new(),
        };
        said + &why + &dropped + &unseen
    }

    fn described(&self, name: &str, judgement: &Judgement) -> Value {
        let compared = |compared: &Option<Compared>| {
            compared.map(|it| json!({ "with": it.with, "without": it.without, "factor": it.factor(), "low": it.low, "high": it.high }))
        };
        let ns = |facts: &Facts| facts.run_time_ns.checked_div(facts.runs);
        json!({
            "interface": name,
            "conclusion": conclusion(judgement.conclusion()),
            "said": self.said(judgement),
            "seconds": self.seconds(),
            "slices": self.slices.iter().map(described_slice).collect::<Vec<_>>(),
            "small": compared(&judgement.small),
            "small_bytes_max": SMALL_BYTES,
            "small_counts": judgement.small_counts,
            "largest": compared(&judgement.largest),
            "largest_bytes_min": judgement.largest_bytes,
            "largest_counts": judgement.largest_counts,
            "carried": compared(&judgement.carried),
            "responses": self.responses.len(),
            "responses_counted": judgement.responses,
            "unfinished": self.missed.unfinished,
            "lost": self.missed.lost + self.beyond,
            "waiting_percent": self.waiting * 100 / self.looks.max(1),
            "ns_per_packet": self.programs.iter().map(ns).collect::<Vec<_>>(),
            "is_stopped": self.is_ended,
        })
    }
}

fn described_slice(slice: &Slice) -> Value {
    let seconds = slice.carried_in.as_secs_f64();
    json!({ "is_ordered": slice.is_ordered, "counted_seconds": seconds, "carried_bytes": slice.carried_bytes })
}

fn conclusion(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Helps => "helps",
        Conclusion::NoGain => "no gain",
        Conclusion::Worse => "worse",
        Conclusion::TooFew => "too few",
    }
}
