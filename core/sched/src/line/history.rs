//! Records the bytes sent and the bytes that arrived, interval by interval.

use std::collections::VecDeque;
use std::ops::AddAssign;

use units::Nanos;

use super::Look;
use super::uploads::Recent;

/// The maximum number of intervals remembered: one second of the shortest intervals.
const INTERVALS_MAX: usize = 40;
/// The minimum bytes for a measurement of a rate: 24 packets, so that one more or less is four per cent.
const RATE_BYTES_MIN: u64 = 24 * 1514;
/// The minimum time for a measurement of a rate, because acknowledgements come in bunches.
const RATE_FOR: Nanos = Nanos::from_millis(100);
/// The minimum time for a measurement by which a pace may rise. On a slow line, all intervals together take many
/// seconds, in which the pace was lower.
const LATELY: Nanos = Nanos::from_secs(4);
/// The maximum time after which all bytes sent are assumed to have arrived. If the longest path is shorter, its time is
/// used.
const LAG_MAX: Nanos = Nanos::from_millis(500);
/// The time by which an acknowledgement may come later than its path takes, because delayed ones wait for 40 ms.
const SLACK: Nanos = Nanos::from_millis(50);
/// The bytes that may be acknowledged late: every second segment is acknowledged, and counters may be read in between.
const LATE_BYTES: u64 = 2 * 1514;
/// The peak and the longest path each lose one part in this many per interval.
const FADING_PARTS: u64 = 1000;
const LONGEST_FADING_PARTS: u64 = 64;
/// The totals lose one part in this many per interval.
const FORGOTTEN_PARTS: u64 = 64;
/// The maximum number of bytes sent per thousand that arrive. The excess is handshakes, acknowledgements of requests,
/// and ends of connections.
const OVERHEAD_PERMILLE_MAX: u64 = 1500;

/// The bytes of a period, as counted on the wire.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    pub lasted: Nanos,
    /// All bytes sent.
    pub charged_bytes: u64,
    /// The bytes of responses sent for the first time.
    pub sent_bytes: u64,
    /// The bytes of responses sent again.
    pub lost_bytes: u64,
    /// The bytes of responses that arrived at the clients.
    pub delivered_bytes: u64,
    /// Bytes of responses to clients that stay silent. Some may also be counted as arrived.
    pub unheard_bytes: u64,
}

/// The evidence that the round trips of an interval give about the queue of all clients.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// The maximum delay of the queue; `None` if too little was seen.
    pub delay: Option<Nanos>,
    /// There was a queue.
    pub is_queued: bool,
    /// The sender ran late, so the bytes that left and arrived are not evidence about the line.
    pub is_late: bool,
}

/// A closed interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    pub began: Nanos,
    pub run: Run,
    /// The maximum delay of the queue of all clients; `None` if too little was seen.
    pub delay: Option<Nanos>,
    /// A queue was seen.
    pub is_queued: bool,
    /// The part of the pace that was used, in thousandths; 0 without a pace.
    pub used_permille: u64,
    /// True if a response waited during the whole interval.
    pub is_backlogged: bool,
    /// The sender ran late: no run of intervals includes this one.
    pub is_late: bool,
}

#[derive(Debug, Default)]
pub(super) struct History {
    began: Nanos,
    /// The bytes charged when the interval began.
    charged_before: u64,
    /// The interval so far.
    run: Run,
    is_idle: bool,
    closed: VecDeque<Interval>,
    /// Totals over a long time, which decay.
    totals: Run,
    /// The maximum rate that arrived over consecutive intervals, in bits per second, decaying. The next field is the
    /// same for bytes sent.
    peak: u64,
    left_peak: u64,
    /// The longest round trip, fading.
    longest: Nanos,
    pub recent: Recent,
}

impl History {
    pub fn began(&self) -> Nanos {
        self.began
    }

    /// Records a look at a connection; its client's round trip without a queue is `base`.
    ///
    /// Bytes that arrived passed the line earlier, by at most `base`. They count for the interval in which they passed,
    /// because otherwise acknowledgements of near and far clients would give rates that no line has. Bytes that passed
    /// before the pace changed do not count for the new pace.
    pub fn on_look(&mut self, now: Nanos, look: &Look, base: Nanos) {
        self.run.sent_bytes += look.sent_bytes;
        self.run.lost_bytes += look.lost_bytes;
        self.longest = self.longest.max(base);
        let until = now - base.min(LAG_MAX) - look.delivered_ago;
        // The first of the bytes left no earlier than the connection had something to send.
        let from = (until - look.delivered_for).max(now - look.busy_for).min(until);
        self.on_passed(from, until, look.delivered_bytes, |run| &mut run.delivered_bytes);
        self.on_passed(now - look.unheard_for, now, look.unheard_bytes, |run| &mut run.unheard_bytes);
    }

    /// Spreads bytes that passed the line in this period evenly over its intervals.
    fn on_passed(&mut self, from: Nanos, until: Nanos, bytes: u64, count: impl Fn(&mut Run) -> &mut u64) {
        if bytes == 0 {
            return;
        }
        let lasted = until - from;
        let part = |began: Nanos, ended: Nanos| {
            if lasted == Nanos::ZERO {
                return if (began..ended).contains(&until) { bytes } else { 0 };
            }
            let common = ended.min(until) - began.max(from);
            u64::try_from(u128::from(bytes) * u128::from(common.0) / u128::from(lasted.0)).unwrap_or(bytes)
        };
        *count(&mut self.run) += part(self.began, Nanos(u64::MAX));
        for interval in self.closed.iter_mut().rev().take_while(|interval| interval.began + interval.run.lasted > from)
        {
            *count(&mut interval.run) += part(interval.began, interval.began + interval.run.lasted);
        }
    }

    /// Records that no response waits.
    pub fn on_idle(&mut self) {
        self.is_idle = true;
    }

    /// Returns whether, at some instant of this interval or the last `before` intervals, no response was waiting.
    pub fn was_idle(&self, before: usize) -> bool {
        self.is_idle || self.backwards().take(before).any(|interval| !interval.is_backlogged)
    }

    /// Returns the bytes charged since the interval began.
    pub fn charged(&self, charged_bytes: u64) -> u64 {
        charged_bytes.saturating_sub(self.charged_before)
    }

    pub fn close(&mut self, now: Nanos, charged_bytes: u64, pace: Option<u64>, seen: Seen) -> Interval {
        let Seen { delay, is_queued, is_late } = seen;
        let (lasted, charged) = (now - self.began, self.charged(charged_bytes));
        let run = Run { lasted, charged_bytes: charged, ..self.run };
        let used_permille = pace.map_or(0, |pace| permille_of(pace, lasted, charged));
        let interval =
            Interval { began: self.began, run, delay, is_queued, used_permille, is_backlogged: !self.is_idle, is_late };
        self.recent.close(charged);
        self.totals.forget_some();
        self.totals += run;
        self.closed.push_back(interval);
        if self.closed.len() > INTERVALS_MAX {
            self.closed.pop_front();
        }
        self.longest = self.longest - Nanos(self.longest.0 / LONGEST_FADING_PARTS);
        self.restart(now, charged_bytes);
        self.left_peak = self.left().max(self.left_peak - self.left_peak / FADING_PARTS);
        self.peak = self.most().unwrap_or(0).max(self.peak - self.peak / FADING_PARTS);
        interval
    }

    fn restart(&mut self, now: Nanos, charged_bytes: u64) {
        (self.began, self.charged_before) = (now, charged_bytes);
        (self.run, self.is_idle) = (Run::default(), false);
    }

    /// Forgets all intervals, because observations at another pace prove nothing about this one.
    pub fn forget(&mut self, now: Nanos, charged_bytes: u64) {
        self.closed.clear();
        self.restart(now, charged_bytes);
    }

    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Returns the maximum rate that the line carried recently. It is at most the rate sent: bytes that are
    /// acknowledged together when a gap closes only seem to arrive faster.
    pub fn carried_peak(&self) -> u64 {
        self.peak.min(self.left_peak)
    }

    pub fn len(&self) -> usize {
        self.closed.len()
    }

    /// Returns whether each of the last `count` intervals had round trips, and none showed a queue.
    pub fn is_unqueued(&self, count: usize) -> bool {
        let is_clear = |interval: &Interval| interval.delay.is_some() && !interval.is_queued;
        self.len() >= count && self.backwards().take(count).all(is_clear)
    }

    /// Returns the closed intervals, backwards from the last.
    pub fn backwards(&self) -> impl Iterator<Item = &Interval> {
        self.closed.iter().rev()
    }

    /// Returns the intervals whose arrivals are known, the latest first.
    pub fn known(&self) -> impl Iterator<Item = &Interval> {
        let until = self.began - self.longest.min(LAG_MAX);
        let is_on_its_way = move |interval: &&Interval| interval.began + interval.run.lasted > until;
        self.backwards().skip_while(is_on_its_way).filter(|interval| !interval.is_late)
    }

    /// Sums the latest consecutive intervals in which the queue was longer than this.
    pub fn queued(&self, delay_min: Nanos) -> Run {
        let is_queued = |interval: &&Interval| interval.delay.is_none_or(|delay| delay > delay_min);
        // A queue that is over proves nothing.
        let is_now = self.backwards().find(|interval| !interval.is_late).is_some_and(|last| is_queued(&last));
        let mut queued: Vec<&Interval> = self.known().take_while(|interval| is_now && is_queued(interval)).collect();
        while queued.last().is_some_and(|first| !first.is_queued) {
            queued.pop();
        }
        steady(queued.into_iter())
    }

    /// Returns the time of the most recent intervals in a row with a queue, and the bytes that left in it.
    pub fn charged_while_queued(&self) -> (Nanos, u64) {
        let queued = self.backwards().take_while(|interval| interval.is_queued);
        queued.fold((Nanos::ZERO, 0), |(lasted, bytes), Interval { run, .. }| {
            (lasted + run.lasted, bytes + run.charged_bytes)
        })
    }

    /// Sums the most recent intervals in a row that used this much of the pace.
    pub fn filled(&self, used_permille_min: u64) -> Run {
        steady(self.known().take_while(|interval| interval.used_permille >= used_permille_min))
    }

    /// Sums the same intervals over the last `LATELY`. The whole run may have begun at a much lower pace.
    pub fn filled_lately(&self, used_permille_min: u64) -> Run {
        let mut run = Run::default();
        for interval in self.known().take_while(|interval| interval.used_permille >= used_permille_min) {
            run += interval.run;
            if run.is_enough() && run.lasted >= LATELY {
                break;
            }
        }
        run
    }

    /// Sums the known intervals that began since `began`, and returns whether a response waited all that time.
    pub fn since(&self, began: Nanos) -> (Run, bool) {
        let mut run = Run::default();
        self.known().take_while(|interval| interval.began >= began).for_each(|interval| run += interval.run);
        let mut all = self.backwards().take_while(|interval| interval.began >= began);
        (run, all.all(|interval| interval.is_backlogged))
    }

    /// Returns the rate of the line in this run, in bits per second, assuming that all other bytes that left arrived in
    /// proportion. The proportion is the recent one, or this run's if it is less.
    pub fn rate(&self, run: &Run) -> u64 {
        run.rate(self.totals.overhead_permille().min(run.overhead_permille()))
    }

    /// Returns the rate sent over the latest intervals, in bits per second. They span the time that a measurement of a
    /// rate takes.
    fn left(&self) -> u64 {
        let mut run = Run::default();
        let is_enough = |interval: &&Interval| {
            run += interval.run;
            run.lasted >= RATE_FOR
        };
        self.backwards().find(is_enough).map_or(0, |_| rate_of(run.charged_bytes, run.lasted))
    }

    /// Returns the maximum rate that arrived over enough consecutive intervals, in bits per second.
    pub fn most(&self) -> Option<u64> {
        let known: Vec<Run> = self.known().map(|interval| interval.run).collect();
        let rate_from = |from: usize| {
            let mut run = Run::default();
            known[from..].iter().find_map(|next| {
                run += *next;
                run.is_enough().then(|| self.rate(&run))
            })
        };
        (0..known.len()).filter_map(rate_from).max()
    }
}

/// Sums consecutive intervals, given latest first. The earliest one is left out: bytes sent in it may be acknowledged
/// late ([`SLACK`]), and nothing was in flight before it.
fn steady<'a>(intervals: impl Iterator<Item = &'a Interval>) -> Run {
    let (mut run, mut first) = (Run::default(), Vec::new());
    for interval in intervals {
        first.push(interval.run);
    }
    let mut left = SLACK;
    while let Some(last) = first.last()
        && left > Nanos::ZERO
    {
        left = left - last.lasted;
        first.pop();
    }
    first.into_iter().for_each(|next| run += next);
    run
}

impl AddAssign for Run {
    fn add_assign(&mut self, other: Run) {
        self.lasted += other.lasted;
        self.charged_bytes += other.charged_bytes;
        self.sent_bytes += other.sent_bytes;
        self.lost_bytes += other.lost_bytes;
        self.delivered_bytes += other.delivered_bytes;
        self.unheard_bytes += other.unheard_bytes;
    }
}

impl Run {
    /// Decays the totals, so that recent intervals count most.
    fn forget_some(&mut self) {
        for bytes in [&mut self.charged_bytes, &mut self.sent_bytes, &mut self.lost_bytes, &mut self.delivered_bytes] {
            *bytes -= *bytes / FORGOTTEN_PARTS;
        }
    }

    /// Returns the bytes sent per thousand bytes of responses.
    fn overhead_permille(&self) -> u64 {
        let permille = (self.charged_bytes * 1000).checked_div(self.sent_bytes + self.lost_bytes).unwrap_or(1000);
        permille.clamp(1000, OVERHEAD_PERMILLE_MAX)
    }

    /// Returns the rate of the line, in bits per second, if this many bytes are sent for each thousand that arrive.
    fn rate(&self, overhead_permille: u64) -> u64 {
        rate_of(self.delivered_bytes * overhead_permille / 1000, self.lasted)
    }

    /// Returns whether the run is long enough to give a rate.
    pub fn is_enough(&self) -> bool {
        self.delivered_bytes >= RATE_BYTES_MIN && self.lasted >= RATE_FOR
    }

    /// Returns the part of the sent bytes that is known to have arrived, in thousandths. The true part may be larger,
    /// because some bytes are acknowledged late.
    pub fn arrived_permille(&self) -> u64 {
        self.permille_of_sent(self.delivered_bytes)
    }

    /// Returns the same as [`Run::arrived_permille`], but counts all bytes sent to silent clients as arrived.
    pub fn perhaps_arrived_permille(&self) -> u64 {
        self.permille_of_sent(self.delivered_bytes + self.unheard_bytes)
    }

    fn permille_of_sent(&self, arrived_bytes: u64) -> u64 {
        let late_bytes = (u128::from(self.sent_bytes) * u128::from(SLACK.0)) / u128::from(self.lasted.0.max(1));
        let due_bytes = self.sent_bytes.saturating_sub(late_bytes as u64 + LATE_BYTES);
        (arrived_bytes * 1000).checked_div(due_bytes).unwrap_or(1000)
    }
}

/// Returns the rate in bits per second.
fn rate_of(bytes: u64, lasted: Nanos) -> u64 {
    let bits = u128::from(bytes) * 8_000_000_000;
    u64::try_from(bits / u128::from(lasted.0.max(1))).unwrap_or(u64::MAX)
}

/// Returns these bytes as a part of the bytes that this rate could have carried, in thousandths.
pub(super) fn permille_of(rate: u64, lasted: Nanos, bytes: u64) -> u64 {
    let could = u128::from(rate) * u128::from(lasted.0) / 8_000_000_000;
    u64::try_from(u128::from(bytes) * 1000 / could.max(1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn look(delivered_ago: u64, delivered_for: u64, busy_for: u64) -> Look {
        let [delivered_ago, delivered_for, busy_for] = [delivered_ago, delivered_for, busy_for].map(MS);
        Look { delivered_bytes: 1000, delivered_ago, delivered_for, busy_for, ..Look::default() }
    }

    /// Returns the bytes that passed the line in each of three intervals of 50 ms and since, after a look at 200 ms
    /// with a base of 20 ms.
    fn passed(look: &Look) -> [u64; 4] {
        let mut history = History::default();
        for ms in [50, 100, 150] {
            let _ = history.close(MS(ms), 0, None, Seen::default());
        }
        history.on_look(MS(200), look, MS(20));
        let closed: Vec<u64> = history.closed.iter().map(|interval| interval.run.delivered_bytes).collect();
        [closed[0], closed[1], closed[2], history.run.delivered_bytes]
    }

    #[test]
    fn what_arrived_counts_evenly_for_the_time_in_which_it_passed_the_line() {
        assert_eq!(passed(&look(0, 100, 200)), [0, 200, 500, 300]);
        assert_eq!(passed(&look(90, 0, 200)), [0, 1000, 0, 0], "all at once");
        // Nothing was on its way 180 ms ago, so all bytes passed later.
        assert_eq!(passed(&look(30, 120, 80)), [0, 0, 1000, 0]);
    }

    #[test]
    fn a_run_with_a_queue_begins_where_one_was_seen() {
        let mut history = History::default();
        let intervals =
            [(Some(MS(90)), false), (None, false), (Some(MS(60)), true), (None, false), (Some(MS(70)), true)];
        for (at, (delay, is_queued)) in intervals.into_iter().enumerate() {
            let _ = history.close(MS(100 * (at as u64 + 1)), 0, None, Seen { delay, is_queued, is_late: false });
        }
        // The first of the three is left out: bytes that left in it may be acknowledged late.
        assert_eq!(history.queued(MS(50)).lasted, MS(200));
        assert_eq!(history.queued(MS(65)).lasted, Nanos::ZERO);
    }
}
