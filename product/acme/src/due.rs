//! Schedules orders and renewals, as a state machine: time and chance are arguments, so that a test runs through a year
//! of renewals in milliseconds.
//!
//! A certificate is renewed in the window that its authority suggests (ARI, RFC 9773), or else when two thirds of its
//! lifetime are over. Each failure doubles the wait. If the authority cannot be reached, all orders wait, because the
//! next one would fail too; a refusal delays only the orders of its name. All instants are wall-clock times, because
//! certificates expire by the wall clock. An instant further ahead than the longest wait was computed before the clock
//! was set back, and counts as past.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The remaining time below which a certificate is urgent.
const URGENT: Duration = Duration::from_secs(3 * 24 * 3600);
/// The first wait after the authority could not be reached. Such an attempt costs the authority nothing.
const UNREACHED_FIRST: Duration = Duration::from_secs(5);
/// The first wait after a refusal. Let's Encrypt allows five failed validations per name and hour; with this wait, the
/// sixth comes an hour after the first.
const REFUSED_FIRST: Duration = Duration::from_secs(2 * 60);
const WAIT_MAX: Duration = Duration::from_secs(6 * 3600);
/// The maximum wait if a certificate is urgent or missing.
const URGENT_WAIT_MAX: Duration = HOUR;
/// The maximum wait that an authority may request.
const ASKED_WAIT_MAX: Duration = DAY;
/// The minimum and maximum time between two requests for a window (RFC 9773 section 4.3.2).
const ASK_EVERY: [Duration; 2] = [MINUTE, DAY];
/// The time between two requests for a window after one has failed.
const ASK_AGAIN: Duration = Duration::from_secs(6 * 3600);
/// The time per certificate over which the first requests for windows are spread after a start.
const ASK_FIRST_EACH: Duration = Duration::from_secs(2);
/// The divisor of a lifetime that gives the time over which renewals without a window are spread.
const SPREAD: u32 = 20;

/// The lifetime of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    pub not_before: SystemTime,
    pub not_after: SystemTime,
}

impl Lifetime {
    fn span(self) -> Duration {
        self.not_after.duration_since(self.not_before).unwrap_or_default()
    }

    /// Returns true if the renewal is overdue: its latest instant has passed.
    pub fn is_overdue(self, now: SystemTime) -> bool {
        self.last() <= now
    }

    /// The latest instant of a renewal.
    fn last(self) -> SystemTime {
        self.not_before + self.span() * 9 / 10
    }
}

/// The scope of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The authority cannot be reached, or the state folder cannot be written: no other order would succeed.
    All,
    /// The authority refused this name, or our answer to its challenge.
    Name,
}

/// The reason why an order failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub scope: Scope,
    pub text: String,
    /// The wait that the authority requested.
    pub after: Option<Duration>,
}

impl Failure {
    pub fn of_all(text: impl ToString) -> Failure {
        Failure { scope: Scope::All, text: text.to_string(), after: None }
    }

    pub fn of_name(text: impl ToString) -> Failure {
        Failure { scope: Scope::Name, text: text.to_string(), after: None }
    }
}

/// The next thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Order a certificate for this name.
    Order(String),
    /// Ask the authority when the certificate for this name should be renewed.
    AskWindow(String),
    /// Do nothing until then.
    Wait(SystemTime),
}

/// The wait after failures.
#[derive(Debug, Clone, Copy, Default)]
struct Retry {
    failures: u32,
    at: Option<SystemTime>,
}

#[derive(Debug, Default)]
struct Entry {
    lifetime: Option<Lifetime>,
    /// The time of the renewal; `None` means now.
    renew_at: Option<SystemTime>,
    /// The time at which to request the renewal window; `None` if there is no certificate.
    ask_at: Option<SystemTime>,
    retry: Retry,
    /// The last failure since the present certificate was issued.
    failure: Option<Failed>,
}

/// A failure and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    pub at: SystemTime,
    pub text: String,
}

/// The plan for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// The time of the next order.
    pub next_order: SystemTime,
    /// The failure of the last attempt, if it failed.
    pub failed: Option<Failed>,
}

/// The wanted certificates, by name.
#[derive(Debug, Default)]
pub struct Renewals {
    entries: BTreeMap<String, Entry>,
    /// The wait after failures that affect all orders.
    all: Retry,
    all_failure: Option<Failed>,
    said_at: Option<SystemTime>,
}

impl Retry {
    fn fail(&mut self, first: Duration, after: Option<Duration>, is_urgent: bool, now: SystemTime, chance: f64) {
        let max = if is_urgent { URGENT_WAIT_MAX } else { WAIT_MAX };
        let wait = first.saturating_mul(1 << self.failures.min(16)).min(max);
        // Up to a fifth earlier, so that the servers that an outage has left waiting do not come back together.
        let wait = wait - wait.mul_f64(chance.clamp(0.0, 1.0) / 5.0);
        self.failures = self.failures.saturating_add(1);
        self.at = Some(now + wait.max(after.unwrap_or_default().min(ASKED_WAIT_MAX)));
    }
}

/// Returns the instant, unless it is past or more than `ahead_max` ahead. If it is that far ahead, the clock has been
/// set back since it was computed.
fn to_come(at: Option<SystemTime>, now: SystemTime, ahead_max: Duration) -> Option<SystemTime> {
    at.filter(|at| at.duration_since(now).is_ok_and(|wait| !wait.is_zero() && wait <= ahead_max))
}

impl Entry {
    fn is_urgent(&self, now: SystemTime) -> bool {
        self.lifetime.is_none_or(|lifetime| lifetime.not_after < now + URGENT)
    }

    /// The time at which the order is due; `None` means now.
    fn due_at(&self, now: SystemTime) -> Option<SystemTime> {
        let renewal = self.lifetime.and(self.renew_at).filter(|at| *at > now);
        renewal.max(to_come(self.retry.at, now, ASKED_WAIT_MAX))
    }
}

impl Renewals {
    /// Replaces the names. Names that stay keep their state.
    pub fn want(&mut self, names: impl IntoIterator<Item = String>) {
        let mut before = std::mem::take(&mut self.entries);
        let entry = |name: String| before.remove_entry(&name).unwrap_or((name, Entry::default()));
        self.entries = names.into_iter().map(entry).collect();
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Clears all waits because the operator has changed something, and schedules new requests for all renewal windows.
    pub fn try_again(&mut self, now: SystemTime, mut chance: impl FnMut() -> f64) {
        (self.all, self.all_failure) = Default::default();
        let spread = self.ask_first_within();
        for entry in self.entries.values_mut() {
            entry.retry = Retry::default();
            entry.ask_at = entry.ask_at.map(|_| now + spread.mul_f64(chance().clamp(0.0, 1.0)));
        }
    }

    /// The time within which the first requests for all windows are made.
    fn ask_first_within(&self) -> Duration {
        let count = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        ASK_FIRST_EACH.saturating_mul(count).min(HOUR)
    }

    /// The number of failed orders for this name since its last certificate.
    pub fn failures(&self, name: &str) -> u32 {
        self.entries.get(name).map_or(0, |entry| entry.retry.failures)
    }

    /// Records that a certificate is in use. Does nothing if its lifetime is known already.
    pub fn on_certificate(&mut self, name: &str, lifetime: Lifetime, now: SystemTime, chance: f64) {
        let spread = self.ask_first_within();
        let Some(entry) = self.entries.get_mut(name) else { return };
        if entry.lifetime == Some(lifetime) {
            return;
        }
        let whole = lifetime.span();
        let renew_at = lifetime.not_before + whole * 2 / 3 - (whole / SPREAD).mul_f64(chance.clamp(0.0, 1.0));
        let ask_at = now + spread.mul_f64(chance.clamp(0.0, 1.0));
        // By a clock that is wrong a new certificate may be due at once: the wait stays, or orders would follow each other.
        let retry = if renew_at <= now { entry.retry } else { Retry::default() };
        let (lifetime, renew_at, ask_at) = (Some(lifetime), Some(renew_at), Some(ask_at));
        *entry = Entry { lifetime, renew_at, ask_at, retry, failure: None };
    }

    /// Records that the certificate in use must be replaced now, because another authority is configured.
    pub fn on_stale(&mut self, name: &str) {
        if let Some(entry) = self.entries.get_mut(name) {
            (entry.renew_at, entry.ask_at) = (None, None);
        }
    }

    /// Returns true if the certificate in use for this name must be replaced now.
    pub fn is_stale(&self, name: &str, now: SystemTime) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.is_to_be_replaced(now))
    }

    /// Records that a certificate was issued just now. Its renewal window is requested an hour later: even if an
    /// authority's windows are always in the past, it then gets at most one order an hour.
    pub fn on_issued(&mut self, name: &str, lifetime: Lifetime, now: SystemTime, chance: f64) {
        // Two that were issued in the same second have the same lifetime.
        if let Some(entry) = self.entries.get_mut(name) {
            entry.lifetime = None;
        }
        self.on_certificate(name, lifetime, now, chance);
        if let Some(entry) = self.entries.get_mut(name) {
            entry.ask_at = Some(now + HOUR);
        }
    }

    /// Returns true if no failure delays all orders.
    pub fn is_free(&self, now: SystemTime) -> bool {
        to_come(self.all.at, now, ASKED_WAIT_MAX).is_none()
    }

    /// Notes that the authority was reached.
    pub fn on_reached(&mut self) {
        (self.all, self.all_failure) = Default::default();
    }

    /// Records the renewal window that the authority suggests, and when to ask again. A renewal that is already
    /// scheduled within the window keeps its time. A renewal is never later than a tenth of the lifetime before expiry,
    /// even if the window is later.
    pub fn on_window(
        &mut self,
        name: &str,
        window: Option<(SystemTime, SystemTime)>,
        again: Option<Duration>,
        now: SystemTime,
        chance: f64,
    ) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        let [least, most] = ASK_EVERY;
        entry.ask_at = Some(now + again.map_or(ASK_AGAIN, |again| again.clamp(least, most)));
        let Some((start, end)) = window.filter(|(start, end)| start < end) else { return };
        let is_chosen = entry.renew_at.is_some_and(|at| start <= at && at <= end);
        if !is_chosen {
            let span = end.duration_since(start).unwrap_or_default();
            entry.renew_at = Some(start + span.mul_f64(chance.clamp(0.0, 1.0)));
        }
        let last = entry.lifetime.map(Lifetime::last);
        entry.renew_at = entry.renew_at.map(|at| last.map_or(at, |last| at.min(last)));
    }

    pub fn on_failure(&mut self, name: &str, failure: Failure, now: SystemTime, chance: f64) {
        let is_urgent = self.is_urgent(now);
        let Failure { scope, text, after } = failure;
        match scope {
            Scope::All => {
                self.all.fail(UNREACHED_FIRST, after, is_urgent, now, chance);
                self.all_failure = Some(Failed { at: now, text });
            }
            Scope::Name => {
                self.on_reached();
                let Some(entry) = self.entries.get_mut(name) else { return };
                let is_urgent = entry.is_urgent(now);
                entry.retry.fail(REFUSED_FIRST, after, is_urgent, now, chance);
                entry.failure = Some(Failed { at: now, text });
            }
        }
    }

    /// Returns true if a due certificate is urgent.
    fn is_urgent(&self, now: SystemTime) -> bool {
        self.entries.values().any(|entry| entry.is_urgent(now))
    }

    /// The next step. Names without a certificate come first, then the certificates that expire first.
    pub fn next(&self, now: SystemTime) -> Step {
        let held_up = to_come(self.all.at, now, ASKED_WAIT_MAX);
        let expiry = |entry: &Entry| entry.lifetime.map(|lifetime| lifetime.not_after);
        if held_up.is_none() {
            let due = self.entries.iter().filter(|(_, entry)| entry.due_at(now).is_none());
            if let Some((name, _)) = due.min_by_key(|(_, entry)| expiry(entry)) {
                return Step::Order(name.clone());
            }
            let asks = |entry: &Entry| entry.ask_at.is_some() && to_come(entry.ask_at, now, DAY).is_none();
            if let Some((name, _)) = self.entries.iter().find(|(_, entry)| asks(entry)) {
                return Step::AskWindow(name.clone());
            }
        }
        let asks_at = |entry: &Entry| entry.ask_at.map(|_| to_come(entry.ask_at, now, DAY).unwrap_or(now));
        let instants = self.entries.values().flat_map(|entry| [Some(entry.due_at(now).unwrap_or(now)), asks_at(entry)]);
        Step::Wait(instants.flatten().min().unwrap_or(now + DAY).max(held_up.unwrap_or(now)))
    }

    /// The schedule of a name; `None` if no certificate is wanted for it.
    pub fn outlook(&self, name: &str, now: SystemTime) -> Option<Outlook> {
        let entry = self.entries.get(name)?;
        let of_all = self.all_failure.as_ref().filter(|_| entry.is_to_be_replaced(now));
        Some(Outlook { next_order: self.next_order(entry, now), failed: of_all.or(entry.failure.as_ref()).cloned() })
    }

    fn next_order(&self, entry: &Entry, now: SystemTime) -> SystemTime {
        to_come(self.all.at, now, ASKED_WAIT_MAX).max(entry.due_at(now)).unwrap_or(now)
    }

    /// Returns a line about failures for the operator, if one is due: immediately after the first failure, then once a
    /// day, or once an hour if a certificate is urgent.
    pub fn line(&mut self, now: SystemTime) -> Option<String> {
        let is_failing =
            |entry: &Entry| entry.is_to_be_replaced(now) && (entry.failure.is_some() || self.all_failure.is_some());
        let mut failing: Vec<(&String, &Entry)> = self.entries.iter().filter(|(_, entry)| is_failing(entry)).collect();
        failing.sort_by_key(|(_, entry)| entry.lifetime.map(|lifetime| lifetime.not_after));
        let Some((name, worst)) = failing.first() else {
            self.said_at = None;
            return None;
        };
        let every = if worst.is_urgent(now) { HOUR } else { DAY };
        if to_come(self.said_at.map(|at| at + every), now, every).is_some() {
            return None;
        }
        let why = &self.all_failure.as_ref().or(worst.failure.as_ref())?.text;
        let what = match worst.lifetime {
            None => format!("no certificate for {name} yet"),
            Some(lifetime) => match lifetime.not_after.duration_since(now) {
                Ok(left) => format!("the certificate for {name} was not renewed, it expires in {}", span(left)),
                Err(_) => format!("the certificate for {name} was not renewed, it HAS EXPIRED and clients refuse it"),
            },
        };
        let others = match failing.len() - 1 {
            0 => String::new(),
            1 => " (and 1 other)".into(),
            others => format!(" (and {others} others)"),
        };
        let again = self.next_order(worst, now).duration_since(now).unwrap_or_default();
        let line = format!("{what}{others}: {why}; next attempt in {}", span(again));
        self.said_at = Some(now);
        Some(line)
    }
}

impl Entry {
    /// Returns true if the certificate would be due if there were no failures.
    fn is_to_be_replaced(&self, now: SystemTime) -> bool {
        self.lifetime.and(self.renew_at).is_none_or(|at| at <= now)
    }
}

/// Formats a duration in its largest unit.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const START: SystemTime = UNIX_EPOCH;

    fn at(days: f64) -> SystemTime {
        START + DAY.mul_f64(1_000.0 + days)
    }

    fn lifetime(from_days: f64, days: f64) -> Lifetime {
        Lifetime { not_before: at(from_days), not_after: at(from_days + days) }
    }

    fn renewals(names: &[&str]) -> Renewals {
        let mut renewals = Renewals::default();
        renewals.want(names.iter().map(ToString::to_string));
        renewals
    }

    /// Runs what is due from `from` until `to` against an authority; returns when there was an order, and all lines.
    fn run(
        renewals: &mut Renewals,
        from: SystemTime,
        to: SystemTime,
        mut order: impl FnMut(&mut Renewals, &str, SystemTime),
    ) -> (Vec<SystemTime>, Vec<(SystemTime, String)>) {
        let (mut now, mut orders, mut lines) = (from, Vec::new(), Vec::new());
        while now < to {
            match renewals.next(now) {
                Step::Order(name) => {
                    orders.push(now);
                    order(renewals, &name, now);
                    now += Duration::from_secs(1);
                }
                Step::AskWindow(name) => renewals.on_window(&name, None, None, now, 0.5),
                Step::Wait(until) => {
                    assert!(until > now, "a wait makes progress");
                    // As the thread does: it looks again after a minute at the latest.
                    now = until.min(now + MINUTE);
                }
            }
            lines.extend(renewals.line(now).map(|line| (now, line)));
        }
        (orders, lines)
    }

    #[test]
    fn the_first_order_is_due_at_once_and_the_next_after_two_thirds() {
        let mut renewals = renewals(&["a.test"]);
        let issue = |renewals: &mut Renewals, name: &str, now: SystemTime| {
            let lifetime = Lifetime { not_before: now, not_after: now + 90 * DAY };
            renewals.on_certificate(name, lifetime, now, 0.5);
        };
        let (orders, lines) = run(&mut renewals, at(0.0), at(200.0), issue);
        let days: Vec<f64> =
            orders.iter().map(|order| order.duration_since(at(0.0)).unwrap().as_secs_f64() / 86_400.0).collect();
        assert_eq!(days.len(), 4, "{days:?}");
        // Half of the twentieth before two thirds of 90 days.
        for (day, expected) in days.iter().zip([0.0, 57.75, 115.5, 173.25]) {
            assert!((day - expected).abs() < 0.01, "{days:?}");
        }
        assert_eq!(lines, [], "nothing fails");
    }

    /// The authority is away for a week while the certificate still lasts.
    #[test]
    fn an_authority_that_is_away_is_told_of_once_a_day_then_once_an_hour() {
        let mut renewals = renewals(&["a.test"]);
        renewals.on_certificate("a.test", lifetime(-20.0, 30.0), at(-20.0), 0.0);
        let fail = |renewals: &mut Renewals, name: &str, now: SystemTime| {
            renewals.on_failure(name, Failure::of_all("cannot connect"), now, 0.0);
        };
        // Ten days are left: seven until it is urgent.
        let (orders, lines) = run(&mut renewals, at(0.0), at(6.9), fail);
        assert_eq!(lines.len(), 7, "{lines:#?}");
        assert!(lines[0].1.contains("a.test was not renewed, it expires in 9 days: cannot connect"), "{}", lines[0].1);
        // Twelve doublings from 5 s to 6 h, then four a day.
        assert!((36..=42).contains(&orders.len()), "{}", orders.len());
        let (orders, lines) = run(&mut renewals, at(7.0), at(8.0), fail);
        assert!(
            (23..=25).contains(&lines.len()) && (18..=25).contains(&orders.len()),
            "{} {}",
            lines.len(),
            orders.len()
        );
        let (_, lines) = run(&mut renewals, at(10.5), at(10.6), fail);
        assert!(lines[0].1.contains("HAS EXPIRED"), "{lines:?}");
        // It is back.
        renewals.on_certificate("a.test", lifetime(11.0, 30.0), at(11.0), 0.0);
        renewals.on_reached();
        let (orders, lines) = run(&mut renewals, at(11.0), at(20.0), fail);
        assert!(orders.is_empty() && lines.is_empty());
    }

    #[test]
    fn a_name_that_is_refused_holds_up_no_other() {
        let mut renewals = renewals(&["a.test", "b.test"]);
        let order = |renewals: &mut Renewals, name: &str, now: SystemTime| match name {
            "a.test" => renewals.on_failure(name, Failure::of_name("no such host"), now, 0.0),
            name => renewals.on_certificate(name, Lifetime { not_before: now, not_after: now + 90 * DAY }, now, 0.0),
        };
        let hour = at(0.0) + HOUR - MINUTE;
        let (orders, lines) = run(&mut renewals, at(0.0), hour, order);
        assert_eq!(orders.len(), 1 + 5, "five failures in the first hour at most: {orders:?}");
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].1.starts_with("no certificate for a.test yet: no such host; next attempt in 119 s"),
            "{lines:?}"
        );
        assert_eq!(renewals.failures("a.test"), 5);
        renewals.try_again(hour, || 0.5);
        assert_eq!(renewals.next(hour), Step::Order("a.test".into()));
    }

    #[test]
    fn an_authority_s_wait_is_kept_within_a_day() {
        for (asked, kept) in [(2 * HOUR, 2 * HOUR), (30 * DAY, DAY), (Duration::ZERO, REFUSED_FIRST)] {
            let mut renewals = renewals(&["a.test"]);
            let failure = Failure { after: Some(asked), ..Failure::of_name("too many") };
            renewals.on_failure("a.test", failure, at(0.0), 0.0);
            assert_eq!(renewals.next(at(0.0)), Step::Wait(at(0.0) + kept), "{asked:?}");
        }
    }

    #[test]
    fn a_window_decides_and_one_in_the_past_means_now() {
        let mut renewals = renewals(&["a.test"]);
        renewals.on_certificate("a.test", lifetime(0.0, 90.0), at(0.0), 0.0);
        assert_eq!(renewals.next(at(1.0)), Step::AskWindow("a.test".into()));
        renewals.on_window("a.test", Some((at(70.0), at(72.0))), Some(HOUR), at(1.0), 0.25);
        assert_eq!(renewals.next(at(1.0)), Step::Wait(at(1.0) + HOUR));
        assert_eq!(renewals.entries["a.test"].renew_at, Some(at(70.5)));
        renewals.on_window("a.test", Some((at(70.0), at(72.0))), Some(HOUR), at(2.0), 0.75);
        assert_eq!(renewals.entries["a.test"].renew_at, Some(at(70.5)), "what was chosen stays");
        renewals.on_window("a.test", Some((at(3.0), at(3.1))), Some(Duration::ZERO), at(4.0), 0.75);
        assert_eq!(renewals.next(at(4.0)), Step::Order("a.test".into()), "revoked, or about to be");
        renewals.on_window("a.test", Some((at(80.0), at(95.0))), None, at(4.0), 0.9);
        assert_eq!(renewals.entries["a.test"].renew_at, Some(at(81.0)), "not when it has expired");
        renewals.try_again(at(4.0), || 0.5);
        assert_eq!(renewals.next(at(4.0)), Step::Wait(at(4.0) + ASK_FIRST_EACH / 2), "a reload asks again");
        renewals.on_window("a.test", Some((at(3.0), at(3.1))), Some(Duration::ZERO), at(4.0), 0.75);
        // A window that ends before it begins says nothing.
        renewals.on_window("a.test", Some((at(9.0), at(8.0))), None, at(4.0), 0.75);
        assert_eq!(renewals.next(at(4.0)), Step::Order("a.test".into()));
    }

    #[test]
    fn a_certificate_of_the_same_second_is_another() {
        let mut renewals = renewals(&["a.test"]);
        renewals.on_issued("a.test", lifetime(0.0, 90.0), at(0.0), 0.0);
        renewals.on_window("a.test", Some((at(-1.0), at(-0.5))), None, at(0.0), 0.5);
        assert!(renewals.is_stale("a.test", at(0.0)));
        renewals.on_issued("a.test", lifetime(0.0, 90.0), at(0.0), 0.0);
        assert!(!renewals.is_stale("a.test", at(0.0)));
        // An authority whose windows are always past is asked once an hour.
        assert_eq!(renewals.next(at(0.0)), Step::Wait(at(0.0) + HOUR));
    }

    #[test]
    fn a_clock_that_is_set_delays_nothing() {
        let mut renewals = renewals(&["a.test", "b.test"]);
        renewals.on_failure("b.test", Failure::of_name("refused"), at(100.0), 0.0);
        renewals.on_failure("a.test", Failure::of_all("away"), at(100.0), 0.0);
        assert_eq!(renewals.next(at(100.0)), Step::Wait(at(100.0) + UNREACHED_FIRST));
        assert_eq!(renewals.next(at(0.0)), Step::Order("a.test".into()), "set back by years");
        assert_eq!(renewals.next(at(1_000.0)), Step::Order("a.test".into()), "set forward");
        renewals.on_certificate("a.test", lifetime(0.0, 90.0), at(0.0), 0.0);
        renewals.on_certificate("b.test", lifetime(0.0, 90.0), at(0.0), 0.0);
        assert!(matches!(renewals.next(at(-300.0)), Step::AskWindow(_) | Step::Wait(_)), "not valid yet is not due");
        assert_eq!(renewals.next(at(61.0)), Step::Order("a.test".into()));
    }

    #[test]
    fn the_outlook_has_the_last_failure_until_a_certificate_is_there() {
        let mut renewals = renewals(&["a.test", "b.test"]);
        let failed = |at, text: &str| Some(Failed { at, text: text.into() });
        assert_eq!(renewals.outlook("a.test", at(0.0)), Some(Outlook { next_order: at(0.0), failed: None }));
        renewals.on_failure("a.test", Failure::of_name("refused"), at(0.0), 0.0);
        let outlook = renewals.outlook("a.test", at(0.0)).unwrap();
        assert_eq!(outlook, Outlook { next_order: at(0.0) + REFUSED_FIRST, failed: failed(at(0.0), "refused") });
        assert_eq!(renewals.outlook("b.test", at(0.0)).unwrap().failed, None, "a name alone was refused");
        renewals.on_failure("b.test", Failure::of_all("away"), at(1.0), 0.0);
        for name in ["a.test", "b.test"] {
            let outlook = renewals.outlook(name, at(1.0)).unwrap();
            assert_eq!(outlook, Outlook { next_order: at(1.0) + UNREACHED_FIRST, failed: failed(at(1.0), "away") });
        }
        renewals.on_reached();
        renewals.on_issued("b.test", lifetime(1.0, 90.0), at(1.0), 0.0);
        assert_eq!(renewals.outlook("b.test", at(1.0)), Some(Outlook { next_order: at(61.0), failed: None }));
        assert_eq!(renewals.outlook("c.test", at(1.0)), None);
    }

    #[test]
    fn a_tenth_of_the_lifetime_is_overdue() {
        let whole = lifetime(0.0, 90.0);
        for (days, is_overdue) in [(0.0, false), (80.9, false), (81.0, true), (90.0, true), (400.0, true)] {
            assert_eq!(whole.is_overdue(at(days)), is_overdue, "{days}");
        }
    }

    #[test]
    fn names_that_leave_are_forgotten_and_those_that_stay_are_known() {
        let mut renewals = renewals(&["a.test", "b.test"]);
        renewals.on_certificate("b.test", lifetime(0.0, 90.0), at(0.0), 1.0);
        renewals.want(["b.test".into(), "c.test".into()]);
        assert_eq!(renewals.names().collect::<Vec<_>>(), ["b.test", "c.test"]);
        assert_eq!(renewals.next(at(0.0)), Step::Order("c.test".into()));
        renewals.on_stale("b.test");
        renewals.want(["b.test".into()]);
        assert_eq!(renewals.next(at(0.0)), Step::Order("b.test".into()), "another authority is wanted");
    }

    proptest::proptest! {
        /// Refusals, which authorities count, are at most two a name in an hour; attempts that reach nobody, of which
        /// each refusal begins a new row, are at most ten between two refusals.
        #[test]
        fn attempts_are_bounded(fails in proptest::collection::vec((0..3u8, 0.0..1.0f64), 1..80), days in 0.0..40.0f64) {
            let mut renewals = renewals(&["a.test", "b.test"]);
            renewals.on_certificate("a.test", lifetime(0.0, 30.0), at(0.0), 0.3);
            let (mut at_failure, mut refused) = (fails.iter().cycle(), 0);
            let (orders, lines) = run(&mut renewals, at(days), at(days + 2.0), |renewals, name, now| {
                let (kind, chance) = at_failure.next().unwrap();
                let failure = match kind {
                    0 => Failure::of_all("away"),
                    1 => Failure::of_name("refused"),
                    _ => Failure { after: Some(10 * DAY), ..Failure::of_name("too many") },
                };
                refused += usize::from(failure.scope == Scope::Name);
                renewals.on_failure(name, failure, now, *chance);
            });
            // The first waits are shorter: six refusals of each name.
            proptest::prop_assert!(refused <= 2 * (2 * 48 + 6), "{refused} refusals");
            proptest::prop_assert!(orders.len() <= 10 * (refused + 1) + 2 * 48, "{} orders, {refused} refusals", orders.len());
            proptest::prop_assert!(lines.len() <= 2 * 25 + 1, "{} lines", lines.len());
        }
    }
}
