//! Decides at the end of an interval: cut the pace, check whether the last cut helped, or raise the pace.

use units::Nanos;

use super::history::Interval;
use super::losses::Lost;
use super::measure::Measure;
use super::{
    BUSY_PERMILLE, CHANCE_PERMILLE, CUTS_MAX, Change, DRAIN_MAX, DRAIN_UNSEEN, Estimator, LOSS_PERMILLE, LOSSY_FOR,
    MARGIN_PERMILLE, OTHERS_MAX, OTHERS_MIN, Phase, Signal, Trial, UNKNOWN_INTERVALS, UNKNOWN_PERMILLE,
    UNQUEUED_INTERVALS,
};

/// The minimum part of the pace, in thousandths, that the line carries if its queue has only just begun.
const BEGUN_PERMILLE: u64 = 970;

impl Estimator {
    /// Decides at the end of an interval. Until the last change has taken effect, nothing counts as evidence.
    pub(super) fn decide(
        &mut self,
        now: Nanos,
        charged: u64,
        interval: Interval,
        lost: Option<Lost>,
    ) -> Option<Change> {
        if !matches!(self.phase, Phase::Free) {
            return self.settle(now, charged);
        }
        if self.unseen.probe.is_midway() {
            return self.probe(now, charged, interval);
        }
        if let Some(change) = self.hold(now, charged) {
            return Some(change);
        }
        if self.is_unclear() {
            return self.decide_by_arrivals(now, charged, interval, lost);
        }
        if let Some(change) = self.follow_fall(now, charged) {
            return Some(change);
        }
        // Losses as heavy as these show that the line carries much less than when the trial of a delay began.
        if lost.is_some_and(|lost| lost.is_plain()) {
            self.trial.take_if(|trial| matches!(trial.signal, Signal::Delay(_)));
        }
        if let Some(trial) = self.trial {
            return self.verify(now, charged, trial, lost);
        }
        if let Some(change) = self.probe(now, charged, interval) {
            return Some(change);
        }
        self.decide_freely(now, charged, interval, lost)
    }

    /// Decides if no change is in progress and delays are evidence, unless others use the line.
    fn decide_freely(&mut self, now: Nanos, charged: u64, interval: Interval, lost: Option<Lost>) -> Option<Change> {
        let threshold = self.threshold();
        if now < self.others.until {
            // Queue and losses prove nothing now; arrivals do.
            return self.raise(now, charged, interval, interval.used_permille >= BUSY_PERMILLE);
        }
        if self.is_queued(threshold) && self.is_ours() {
            let delay = self.evidence.delay().unwrap_or_default().delay;
            let measure = self.carried().or_else(|| self.filled());
            return self.cut(now, charged, Signal::Delay(delay), self.at_least(measure, delay));
        }
        if let Some(lost) = lost.filter(|lost| lost.permille >= LOSS_PERMILLE) {
            if let Some(before) = self.is_lossy_anyhow(now, lost) {
                return Some(self.leave_alone(now, charged, Some(before)));
            }
            return self.cut(now, charged, Signal::Loss(lost.permille), self.left_over(lost));
        }
        if let Some((signal, measure)) = self.plateau() {
            return self.cut(now, charged, signal, Some(measure));
        }
        let is_queued = self.evidence.is_queued(Nanos(threshold.0 / 2));
        let is_clear = interval.used_permille >= BUSY_PERMILLE && !is_queued;
        let may_be_full = self.is_losing() || self.unseen.fall.may_be_queued();
        if may_be_full { None } else { self.raise(now, charged, interval, is_clear) }
    }

    /// Decides while delays prove nothing ([`super::uploads`]).
    fn decide_by_arrivals(&mut self, now: Nanos, charged: u64, of: Interval, lost: Option<Lost>) -> Option<Change> {
        self.trial = None;
        self.unseen.fall.restart(now);
        let lost = lost.filter(|lost| lost.permille >= LOSS_PERMILLE);
        let signal = match lost {
            Some(lost) => Some((Signal::Loss(lost.permille), self.left_over(lost))),
            None => self.plateau().map(|(signal, measure)| (signal, Some(measure))),
        };
        if let Some((signal, measure)) = signal {
            self.others.held = self.others.held.map(|_| 0);
            return self.cut(now, charged, signal, measure);
        }
        if self.may_grow(of.used_permille) { self.raise(now, charged, of, true) } else { None }
    }

    /// Ends the wait for a change to take effect, once its time is over.
    pub(super) fn settle(&mut self, now: Nanos, charged: u64) -> Option<Change> {
        if !matches!(self.phase, Phase::Settling { until } if now >= until) {
            return None;
        }
        self.phase = Phase::Free;
        let change = self.end_probe(now, charged);
        self.forget(now, charged);
        change
    }

    /// Returns whether there is a queue now and, unless it is long, whether there was one in the previous interval too.
    fn is_queued(&self, threshold: Nanos) -> bool {
        let is_long = self.evidence.delay().is_some_and(|least| least.delay.0 > 4 * threshold.0);
        let before = usize::from(!is_long && !self.is_losing());
        let mut earlier = self.history.backwards().skip(1).take(before);
        self.evidence.is_queued(threshold)
            && self.history.len() > before
            && earlier.all(|interval| interval.delay.is_some_and(|delay| delay > threshold))
    }

    /// Checks whether the cut has emptied the queue, or ended the losses.
    fn verify(&mut self, now: Nanos, charged: u64, trial: Trial, lost: Option<Lost>) -> Option<Change> {
        let is_gone = match trial.signal {
            Signal::Delay(before) => {
                let (delay, threshold) = (self.evidence.delay()?.delay, self.threshold());
                let unqueued = if self.evidence.is_queued(threshold) { 0 } else { trial.unqueued + 1 };
                self.trial = Some(Trial { unqueued, ..trial });
                delay <= threshold.max(Nanos(before.0 / 2)) || unqueued >= UNQUEUED_INTERVALS
            }
            Signal::Loss(before) => !trial.arrived && self.arrives() || lost?.permille <= before / 4,
            Signal::Plateau(_) => true,
        };
        if is_gone {
            self.trial = None;
            self.others.lasts = OTHERS_MIN;
            return None;
        }
        let is_known = self.carried().is_some() || self.history.len() >= UNKNOWN_INTERVALS;
        if matches!(trial.signal, Signal::Delay(_)) && !is_known {
            return None;
        }
        if trial.cuts < CUTS_MAX {
            let (signal, line) = match trial.signal {
                Signal::Delay(_) => (Signal::Delay(self.evidence.delay()?.delay), self.carried()),
                Signal::Loss(_) | Signal::Plateau(_) => (Signal::Loss(lost?.permille), self.left_over(lost?)),
            };
            return self.cut(now, charged, signal, line);
        }
        Some(self.leave_alone(now, charged, trial.pace_before))
    }

    /// Returns to the previous pace for some time, because we do not cause the delays or losses.
    pub(super) fn leave_alone(&mut self, now: Nanos, charged: u64, pace: Option<u64>) -> Change {
        self.trial = None;
        self.others.until = now + self.others.lasts;
        let notice = self.found.on_others(self.others.lasts, pace.unwrap_or(self.history.peak()));
        self.others.lasts = Nanos(2 * self.others.lasts.0).min(OTHERS_MAX);
        self.change(now, charged, pace, Some(notice))
    }

    /// Returns the pace before the last cut for light losses, if losses have returned at a pace no higher than the one
    /// that seemed to end them. In that case they had ended by chance.
    fn is_lossy_anyhow(&mut self, now: Nanos, lost: Lost) -> Option<u64> {
        let pace = self.pace.filter(|_| !lost.is_plain())?;
        let (at, before, after) = self.others.lossy.take()?;
        // All of the previous pace has arrived at some time, except for the part now lost.
        let has_arrived = before / 1000 * MARGIN_PERMILLE.saturating_sub(lost.permille) <= self.history.peak();
        (pace <= after && now - at < LOSSY_FOR && has_arrived).then_some(before)
    }

    pub(super) fn cut(&mut self, now: Nanos, charged: u64, signal: Signal, measure: Option<Measure>) -> Option<Change> {
        if measure.is_none() && self.is_open() {
            // A pace that limits nothing is not a measure of the line.
            return None;
        }
        let pace = self.pace.unwrap_or(u64::MAX);
        let peak = self.history.peak();
        let before = if peak == 0 || self.pace.is_some() { pace } else { peak };
        let is_again = self.trial.is_some() && !matches!(signal, Signal::Loss(_));
        let again = if is_again { UNKNOWN_PERMILLE } else { 990 };
        let unknown = Measure { line: before / 1000 * UNKNOWN_PERMILLE, is_full: false };
        let Measure { line, is_full } = measure.unwrap_or(unknown);
        // The maximum of several rates is by chance a little more than the line's rate.
        let line = if is_full || self.pace.is_none() { line } else { line / 1000 * CHANCE_PERMILLE };
        let line = line.min(pace / 1000 * again).max(self.bounds.floor());
        let first = Trial { pace_before: self.pace, signal, arrived: self.arrives(), cuts: 0, unqueued: 0 };
        let trial = self.trial.unwrap_or(first);
        let cuts = trial.cuts + 1;
        self.trial = Some(Trial { cuts, unqueued: 0, ..trial });
        let was_over = self.pace.is_some_and(|pace| pace >= line / 10 * 11);
        let line = self.rise.on_cut(line, is_full, was_over, peak);
        self.unseen.fall.on_cut();
        if !matches!(signal, Signal::Plateau(_)) {
            self.rise.on_full();
        }
        let then = line / 1000 * MARGIN_PERMILLE;
        if let (Some(pace), Signal::Loss(_)) = (self.pace, signal) {
            let before = self.others.lossy.map_or(pace, |(_, before, _)| before.max(pace));
            self.others.lossy = Some((now, before, then));
        }
        let notice = self.found.on_line(now, line);
        // At half of the line's rate the queue is gone after twice its delay, unless others add to it. The round trips of
        // a second may show a queue that this interval's do not.
        let shown = if let Signal::Delay(shown) = signal { shown } else { self.unseen.fall.clear_delay() };
        let drain_for = Nanos(2 * self.queue_now(now, line).max(shown).0);
        let drain_for = if let Signal::Loss(_) = signal { drain_for.max(DRAIN_UNSEEN) } else { drain_for };
        self.phase = Phase::Draining { until: now + drain_for.min(DRAIN_MAX), then, is_probe: false };
        Some(self.change(now, charged, Some(line >> cuts), notice))
    }

    /// Returns the measure. If handshakes show that the queue has only just begun, raises it to the minimum rate that
    /// such a queue implies: with a pace far above the line, the queue would already be longer.
    fn at_least(&self, measure: Option<Measure>, delay: Nanos) -> Option<Measure> {
        let is_short = delay.0 < 2 * self.threshold().0 && self.evidence.has_handshakes();
        let is_new = is_short && !self.is_losing() && !self.is_open();
        let least = self.pace.filter(|_| is_new).map_or(0, |pace| pace / 1000 * BEGUN_PERMILLE);
        measure.map(|measure| Measure { line: measure.line.max(least), ..measure })
    }

    /// Returns the time that the line needs to empty its queue: the delay seen, plus the time for the bytes added
    /// since.
    pub(super) fn queue_now(&self, now: Nanos, line: u64) -> Nanos {
        let Some(least) = self.evidence.delay() else { return Nanos::ZERO };
        let excess = self.pace.unwrap_or(line).saturating_sub(line);
        let added = u128::from(excess) * u128::from((now - least.seen_at).0) / u128::from(line);
        least.delay + Nanos(u64::try_from(added).unwrap_or(u64::MAX).min(DRAIN_MAX.0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::clients::{DelayBounds, Kind};
    use super::super::{Bounds, Look};
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// Few round trips show a queue in a second, and most intervals have none of them.
    #[test]
    fn a_queue_that_this_interval_does_not_show_is_drained() {
        let cut = |estimator: &mut Estimator, signal| {
            let measure = Measure { line: 8_000_000, is_full: true };
            let _ = estimator.cut(MS(1000), 0, signal, Some(measure)).unwrap();
            let Phase::Draining { until, .. } = estimator.phase else { panic!("{:?}", estimator.phase) };
            until
        };
        let new = || Estimator::new(Bounds::told("10mbit".parse().unwrap()));
        assert_eq!(cut(&mut new(), Signal::Delay(MS(50))), MS(1100));
        let mut estimator = new();
        for (client, kind) in [(1, Kind::Vague), (2, Kind::Handshake), (2, Kind::Handshake)] {
            let bounds = DelayBounds { at_least: MS(40), at_most: MS(40), kind, noise: MS(0) };
            estimator.unseen.fall.on_round_trip(client, bounds, MS(5));
        }
        assert_eq!(cut(&mut estimator, Signal::Plateau(900)), MS(1080));
    }

    #[test]
    fn a_queue_that_has_only_begun_costs_little() {
        let mut estimator = Estimator::new(Bounds::told("10mbit".parse().unwrap()));
        for turn in 1..=20 {
            let (now, charged) = (MS(50 * turn), 60_000 * turn);
            let look = Look { sent_bytes: 60_000, delivered_bytes: 60_000, ..Look::default() };
            estimator.on_look(now, charged, || 1, Look { delivered_for: MS(50), busy_for: MS(50), ..look });
            let _ = estimator.judge(now, charged);
        }
        let pace = estimator.pace.unwrap();
        let line = |estimator: &Estimator, ms: u64| {
            let measure = Measure { line: 8_000_000, is_full: true };
            estimator.at_least(Some(measure), MS(ms)).unwrap().line
        };
        assert_eq!(line(&estimator, 6), 8_000_000, "round trips of data are no handshakes");
        estimator.on_look(MS(1010), 1_210_000, || 1, Look { rtt: Some(MS(20)), is_handshake: true, ..Look::default() });
        assert_eq!([6, 20].map(|ms| line(&estimator, ms)), [pace / 1000 * BEGUN_PERMILLE, 8_000_000]);
    }
}
