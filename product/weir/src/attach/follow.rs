//! Follows the line of an interface. Used by `weir attach` until it is interrupted, and by `weir apply --watch`.

use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::uplink::classify::{self, Verdict};
use ::uplink::follow::{self, LineWatch, Lock, Notice, Status, Turn};
use ::uplink::{Changed, Error, Interface, tree};
use cli::Failure;
use serde_json::{Value, json};
use units::{Nanos, Rate};

use super::apply::note;
use super::rate::{Kept, Wish};
use super::wake::Wake;
use super::{Args, wanted_by};

/// The interval at which the state is recorded.
const RECORD_EVERY: Duration = Duration::from_secs(1);
/// The number of records between checks of the classifier, if no change triggers one earlier. Programs at TCX can
/// change without a report.
const CHECK_EVERY: u32 = 5;
/// The maximum number of consecutive turns that may fail.
const FAILURES_MAX: u32 = 20;
/// A rate is saved again if it differs by one part in this many. The next constant is the number of records after which
/// it is saved anyway.
const KEPT_PARTS: u64 = 50;
const KEEP_EVERY: u32 = 60;
/// The interval between checks for a trial. The next constant is the time after a trial until packets that waited
/// elsewhere, in its slices without the order, have left.
const TRIAL_EVERY: Duration = Duration::from_millis(500);
const TRIAL_SHOWS_FOR: Duration = Duration::from_secs(3);
/// The number of bytes after which the operator is warned if too few of them belong to TCP connections.
const UNSEEN_BYTES: u64 = 2_000_000;
const UNSEEN_PERMILLE: u64 = 200;

/// The follower of an interface.
pub struct Following {
    interface: Interface,
    lock: Lock,
    watch: LineWatch,
    kept: Kept,
    /// The rate that an earlier follower found, used until this one finds a rate.
    earlier: Option<(Status, Instant)>,
    recorded_at: Instant,
    records: u32,
    kept_rate: Option<Rate>,
    has_failed_to_keep: bool,
    has_said_unseen: bool,
    /// The number of consecutive turns that have failed.
    failures: u32,
    trials: Trials,
}

/// Watches for a trial (`weir attach --try`), whose slices without the order would mislead the search.
struct Trials {
    next: Instant,
    /// The time at which a trial was last seen; `None` once its effects have passed.
    seen_at: Option<Instant>,
}

/// The outcome of a look for a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    None,
    Still,
    /// A trial has just ceased to show.
    Over,
}

impl Trials {
    fn look(&mut self, now: Instant, is_tried: impl FnOnce() -> bool) -> Stand {
        if now >= self.next {
            self.next = now + TRIAL_EVERY;
            if is_tried() {
                self.seen_at = Some(now);
            }
        }
        match self.seen_at {
            None => Stand::None,
            Some(at) if now < at + TRIAL_SHOWS_FOR => Stand::Still,
            Some(_) => {
                self.seen_at = None;
                Stand::Over
            }
        }
    }
}

/// The reason for which a follower ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Another command detached, or gave a rate.
    Released(String),
    /// The order no longer exists.
    Lost(String),
}

impl Following {
    /// Starts to follow. If another process follows already, returns its process number.
    pub fn begin(interface: &Interface) -> Result<Result<Following, u32>, Error> {
        let earlier = follow::read(interface).map(|followed| followed.status).filter(|known| known.rate.is_some());
        let lock = match Lock::take(interface)? {
            Ok(lock) => lock,
            Err(process) => return Ok(Err(process)),
        };
        let kept = Kept::open(interface);
        Ok(Ok(Following {
            watch: LineWatch::open(interface, earlier.and_then(|status| status.rate))?,
            lock,
            kept_rate: kept.line.as_ref().map(|line| line.rate),
            kept,
            earlier: earlier.map(|status| (status, Instant::now())),
            recorded_at: Instant::now(),
            records: 0,
            has_failed_to_keep: false,
            has_said_unseen: false,
            failures: 0,
            trials: Trials { next: Instant::now(), seen_at: None },
            interface: interface.clone(),
        }))
    }

    /// The instant of the next step.
    pub fn next(&self) -> Instant {
        if self.trials.seen_at.is_some() { self.trials.next } else { self.watch.next() }
    }

    /// Returns true while a trial affects the line. Afterwards the search continues from its previous rate, as after a
    /// restart.
    fn stands_still(&mut self) -> Result<bool, Error> {
        let interface = &self.interface;
        let was_still = self.trials.seen_at.is_some();
        match self.trials.look(Instant::now(), || classify::is_tried(interface).unwrap_or(false)) {
            Stand::None => return Ok(false),
            Stand::Still => {
                if !was_still && self.lock.is_valid() {
                    self.watch.hold()?;
                }
                return Ok(true);
            }
            Stand::Over => {}
        }
        let status = self.status();
        self.watch = LineWatch::open(&self.interface, status.rate)?;
        self.earlier = status.rate.map(|_| (status, Instant::now()));
        Ok(false)
    }

    /// Returns the state of the search. Until this follower has found a rate, returns what an earlier one found.
    pub fn status(&self) -> Status {
        let status = self.watch.status();
        match &self.earlier {
            Some((known, since)) if status.rate.is_none() => {
                let age = known.age + Nanos(since.elapsed().as_nanos() as u64);
                Status { pace: status.pace, age, ..*known }
            }
            _ => status,
        }
    }

    /// Takes a step. Returns lines for the operator, or the reason for which the follower ends.
    pub fn step(&mut self) -> Result<Result<Vec<String>, End>, Error> {
        let mut said = Vec::new();
        if self.stands_still()? && self.lock.is_valid() {
            return Ok(Ok(said));
        }
        match self.watch.turn() {
            Ok(Turn::Nothing) => {}
            Ok(Turn::Changed(change)) => {
                said.extend(change.notice.map(|notice| self.said(notice)));
                // Killed now, it leaves a rate far below the line's; the next one puts back what is recorded.
                let _ = self.lock.write(&self.status());
            }
            Ok(Turn::Lost) => return Ok(Err(self.end())),
            Err(_) if !self.lock.is_valid() || self.interface.check().is_err() => return Ok(Err(self.end())),
            Err(error) if self.failures >= FAILURES_MAX => return Err(error),
            // A busy kernel may answer late.
            Err(_) => {
                self.failures += 1;
                return Ok(Ok(said));
            }
        }
        self.failures = 0;
        if self.recorded_at.elapsed() >= RECORD_EVERY {
            if !self.lock.is_valid() {
                return Ok(Err(self.end()));
            }
            said.extend(self.record());
        }
        Ok(Ok(said))
    }

    /// Returns true once every few seconds, when the classifier should be checked.
    pub fn is_check_due(&mut self) -> bool {
        let is_due = self.records >= CHECK_EVERY && self.records.is_multiple_of(CHECK_EVERY);
        self.records += u32::from(is_due);
        is_due
    }

    /// Repairs the classifier, or adapts the clients' share of the link to its rate, if necessary. Returns the reason
    /// if the follower has to end.
    fn check(&self) -> Result<Result<(), End>, Error> {
        let interface = &self.interface;
        if self.watch.is_overtaken() {
            return Ok(Err(self.end()));
        }
        let Some(attached) = classify::find(interface)? else {
            // A detach ends the right before it removes the classifier.
            if !self.lock.is_valid() {
                return Ok(Err(self.end()));
            }
            let name = &interface.name;
            return Ok(Err(End::Lost(format!(
                "another program removed the classifier: nothing is ordered; run `weir attach {name}` again"
            ))));
        };
        let Some(settings) = attached.settings else { return Ok(Ok(())) };
        let wanted = wanted_by(&Args::default(), Some(&settings), Wish::Follow(Some(self.watch.rate())));
        let has_small_packets = tree::find(interface)?.map_or(Ok(true), |tree| tree::has_small_packets(&tree, true))?;
        if !classify::is_in_place(interface, &wanted)? || !has_small_packets {
            let _changing = follow::changing(interface)?;
            // Another command may have detached meanwhile.
            if !self.lock.is_valid() {
                return Ok(Err(self.end()));
            }
            classify::attach(interface, &wanted)?;
        }
        Ok(Ok(()))
    }

    fn said(&self, notice: Notice) -> String {
        let line = server::Line::Found(self.status());
        match notice {
            Notice::Found { .. } => format!("{line}; small responses leave first from now on{}", self.doubt()),
            Notice::Changed { from, .. } => format!("{line}; before {}{}", server::mbit(from), self.doubt()),
            Notice::Others { lasts, .. } => {
                format!("{line}: a lower rate changes nothing, so it stays as it is for {:.0} s", lasts.as_secs_f64())
            }
        }
    }

    /// Returns the part of a sentence that qualifies the confidence in a rate; empty if there is no doubt.
    fn doubt(&self) -> String {
        self.watch.unseen_percent().map_or(String::new(), |percent| {
            format!(
                "; with lower confidence: {percent} % of the sent bytes are QUIC or other traffic without visible \
                    acknowledgements"
            )
        })
    }

    /// Records the state in /run/weir and, if a rate was confirmed, on disk for after a restart.
    fn record(&mut self) -> Vec<String> {
        self.recorded_at = Instant::now();
        self.records += 1;
        let (status, mut said) = (self.status(), Vec::new());
        // The next record is a second away, and says nothing else.
        let _ = self.lock.write(&status);
        let found = self.watch.status().rate;
        let is_other = |rate: Rate| {
            let before = self.kept_rate.map_or(0, Rate::bits_per_s);
            rate.bits_per_s().abs_diff(before).saturating_mul(KEPT_PARTS) > before
        };
        if let Some(rate) = found.filter(|rate| is_other(*rate) || self.records.is_multiple_of(KEEP_EVERY)) {
            self.kept_rate = Some(rate);
            let kept = self.kept.keep(rate, Duration::from_nanos(status.age.0));
            if let Err(reason) = kept
                && !std::mem::replace(&mut self.has_failed_to_keep, true)
            {
                said.push(reason);
            }
        }
        said.extend(self.unseen());
        said
    }

    /// Returns a warning, once, if most of the bytes sent belong to no TCP connection, so that nothing shows the line's
    /// rate.
    fn unseen(&mut self) -> Option<String> {
        let follow::Tally { left_bytes, sent_bytes, .. } = self.watch.tally();
        let is_unseen = left_bytes >= UNSEEN_BYTES && sent_bytes * 1000 < UNSEEN_PERMILLE * left_bytes;
        if !is_unseen || std::mem::replace(&mut self.has_said_unseen, true) {
            return None;
        }
        let percent = sent_bytes * 100 / left_bytes.max(1);
        Some(format!(
            "{percent} % of the sent bytes are TCP whose acknowledgements pass here; the rest (QUIC, tunnels, \
             before Linux 6.6 containers) does not show the line's rate: it may stay unknown, and what is found has a lower \
             confidence: give --rate RATE"
        ))
    }

    /// Returns the reason for which the bands must not be followed any longer.
    fn end(&self) -> End {
        let name = &self.interface.name;
        if !self.lock.is_valid() {
            return End::Released("detached, or given a rate, by another command: no longer followed".to_string());
        }
        if let Err(error) = self.interface.check() {
            return End::Lost(error.to_string());
        }
        match tree::find(&self.interface) {
            Ok(Some(tree)) => End::Released(format!("another command set {}: no longer followed", tree.plan.rate)),
            _ => End::Lost(format!(
                "another program removed the bands or replaced them: nothing is ordered; run `weir attach {name}` again"
            )),
        }
    }

    /// Sets the bands to a rate to keep, and describes it. Dropping the follower does the same without a description.
    pub fn leave(mut self) -> Result<String, Error> {
        self.watch.leave()?;
        let name = &self.interface.name;
        let at = match self.watch.is_open() {
            true => "the line's rate was not found, so the bands order nothing".to_string(),
            false => format!("the order stays, at {}, and is no longer followed", server::mbit(self.watch.rate())),
        };
        let _ = self.lock.write(&self.status());
        Ok(format!("{at}; `weir attach {name}` goes on, `weir attach --detach {name}` removes it"))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if self.lock.is_valid() {
            // There is nobody to report it to; the bands keep the rate that they have.
            let _ = self.watch.leave();
        }
    }
}

/// Follows the line in the foreground, until a signal or until there is nothing to follow.
pub fn stay(interface: &Interface, mut following: Following, watches: bool, json: bool) -> Result<(), Failure> {
    let name = &interface.name;
    let mut wake = Wake::open()?;
    let line = |said: &str, status: &Status| match json {
        true => format!("{}\n", changed(name, said, status)),
        false => format!("weir: {name}: {said}\n"),
    };
    let print = |following: &Following, said: &str| crate::uplink::print(&line(said, &following.status()));
    let mut watched = watches.then(|| watch(interface));
    let mut failures = BTreeMap::new();
    while !wake.is_ending() {
        let stepped = match following.step()? {
            Ok(said) if following.is_check_due() || wake.is_due() => {
                wake.look()?;
                let checked = following.check();
                // An interface that is down may be up again.
                let failed = checked.as_ref().err().map(|error| format!("warning: {name}: {error}"));
                note(&mut failures, name, failed);
                checked.unwrap_or(Ok(())).map(|()| said)
            }
            stepped => stepped,
        };
        match stepped {
            Ok(said) => said.iter().try_for_each(|said| print(&following, said))?,
            Err(End::Released(said)) => return print(&following, &said),
            Err(End::Lost(said)) => return Err(Failure::Failed(format!("{name}: {said}"))),
        }
        if let Some(done) = watched.take_if(|watched| watched.is_finished())
            && let Ok(Some(said)) = done.join()
        {
            print(&following, &said)?;
        }
        wake.wait(following.next(), |changed| concerns(interface, changed))?;
    }
    let status = following.status();
    let said = following.leave()?;
    crate::uplink::print(&line(&said, &status))
}

/// Returns true if the change may affect the bands or the classifier. Changes of rates do not count, because the
/// follower makes them.
fn concerns(interface: &Interface, changed: Changed) -> bool {
    match changed {
        Changed::Unknown | Changed::Link { .. } => true,
        Changed::Queue { interface: number } => number == interface.index,
        Changed::Class { .. } => false,
    }
}

/// Watches in a thread whether there is anything to order. While the rate is searched, a missing queue is not reported.
fn watch(interface: &Interface) -> JoinHandle<Option<String>> {
    let interface = interface.clone();
    std::thread::spawn(move || {
        let verdict = classify::watch(&interface).ok()?;
        let settings = classify::find(&interface).ok()??.settings?;
        matches!(verdict, Verdict::NotSeen(_) | Verdict::NoTraffic).then(|| verdict.said(&interface.name, &settings))?
    })
}

fn changed(name: &str, said: &str, status: &Status) -> Value {
    json!({ "interface": name, "said": said, "line": described(status, Some(std::process::id())) })
}

/// Returns the state of a search as JSON.
pub fn described(status: &Status, process: Option<u32>) -> Value {
    let rate = |rate: Option<Rate>| rate.map(Rate::bits_per_s);
    json!({
        "rate_bits_per_s": rate(status.rate),
        "pace_bits_per_s": rate(status.pace),
        "age_s": status.rate.map(|_| status.age.0 / 1_000_000_000),
        "busy_intervals": status.busy_intervals,
        "process": process,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The process stands still until the queue that slices without the order left elsewhere has gone.
    #[test]
    fn a_trial_is_waited_for() {
        let (began, mut looks) = (Instant::now(), 0);
        let mut trials = Trials { next: began, seen_at: None };
        let mut look = |ms: u64, is_tried: bool| {
            trials.look(began + Duration::from_millis(ms), || {
                looks += 1;
                is_tried
            })
        };
        assert_eq!([0, 25, 499].map(|ms| look(ms, ms > 0)), [Stand::None; 3]);
        assert_eq!([500, 600, 1000, 5000].map(|ms| look(ms, true)), [Stand::Still; 4]);
        assert_eq!([5500, 7999].map(|ms| look(ms, false)), [Stand::Still; 2]);
        assert_eq!([8000, 8025].map(|ms| look(ms, false)), [Stand::Over, Stand::None]);
        assert_eq!(looks, 6);
    }
}
