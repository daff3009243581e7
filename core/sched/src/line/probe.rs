//! The probe: for a moment the pace is below the line's rate, so that the queue empties and each client's round trip is
//! seen without it.
//!
//! The shortest round trip of a client that arrives during a queue includes that queue, so later round trips of this
//! client seem to show no queue. A queue that nobody sees could thus stand for as long as the line is full. Two things
//! end this. If responses were in progress when the search began, it starts with a probe as soon as the line is full.
//! And a line that has been full for [`PROBE_EVERY`] without a drain is probed again, as BBR does (ProbeRTT; Cardwell
//! et al., ACM Queue 14(5), 2016).

use units::Nanos;

use super::history::Interval;
use super::{BUSY_PERMILLE, Change, DRAIN_MAX, DRAIN_UNSEEN, Estimator, MARGIN_PERMILLE, Phase, Rate};

/// The time for which the line must be full before a search that began midway probes it.
const MIDWAY_FOR: Nanos = Nanos::from_millis(400);
/// The period after the start of the search in which an interval without a waiting response does not prove that the
/// line was not full: some connections have not been looked at yet.
const UNKNOWN_FOR: Nanos = Nanos::from_millis(300);
/// The period between drains of a full line.
const PROBE_EVERY: Nanos = Nanos::from_secs(30);
/// The duration of such a probe.
const PROBE_FOR: Nanos = Nanos::from_millis(200);

#[derive(Debug, Default)]
pub(super) struct Probe {
    /// The last instant at which the queue was drained, or no response waited.
    emptied_at: Option<Nanos>,
    /// The end of the first interval.
    began_at: Option<Nanos>,
    start: Start,
}

/// The state of the responses when the search began.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// No response was in progress, or the queue has been drained since.
    #[default]
    Empty,
    /// Responses were in progress, and their queue may be included in each round trip.
    Midway,
    /// The first probe is running. Before it, the line carried the rate `line` (bits per second) and the shortest round
    /// trip was `shortest`.
    Probed { line: u64, shortest: Nanos },
}

impl Probe {
    /// Returns whether round trips may include a queue that stood before the search began.
    pub fn is_midway(&self) -> bool {
        self.start != Start::Empty
    }

    pub fn on_drained(&mut self, now: Nanos) {
        self.emptied_at = Some(now);
    }
}

impl Estimator {
    /// Records that responses are in progress when the search begins, so that the line may be full already.
    pub fn begin_midway(&mut self) {
        self.unseen.probe.start = Start::Midway;
    }

    /// Returns whether the shortest round trip of a connection may become its client's base. Returns false while the
    /// base would include a queue that is older than the search, or that is being drained.
    pub fn takes_bases(&self) -> bool {
        !self.unseen.probe.is_midway() && matches!(self.phase, Phase::Free)
    }

    /// Begins a probe if one is due. Must be called once for each interval, while no cut is on trial.
    pub(super) fn probe(&mut self, now: Nanos, charged: u64, interval: Interval) -> Option<Change> {
        let probe = &mut self.unseen.probe;
        let began_at = *probe.began_at.get_or_insert(now);
        if !interval.is_backlogged && interval.used_permille < BUSY_PERMILLE {
            probe.emptied_at = Some(now);
            if now - began_at >= UNKNOWN_FOR {
                probe.start = Start::Empty;
            }
        }
        let full_for = now - probe.emptied_at.unwrap_or(began_at);
        let is_midway = probe.start == Start::Midway;
        let every = if is_midway { MIDWAY_FOR } else { PROBE_EVERY };
        let most = self.bounds.most.map_or(u64::MAX, Rate::bits_per_s);
        let may_rise = self.pace.map_or(is_midway, |pace| pace < most);
        if full_for < every || !may_rise || now < self.others.until {
            return None;
        }
        let (run, _) = self.history.since(now - full_for);
        if !run.is_enough() {
            return None;
        }
        let line = self.history.rate(&run);
        let pace = self.pace.unwrap_or(line / 1000 * MARGIN_PERMILLE);
        let mut lasts = PROBE_FOR;
        if is_midway {
            let shortest = self.losses.evidence.least().unwrap_or(DRAIN_UNSEEN);
            self.unseen.probe.start = Start::Probed { line, shortest };
            // At half of the line's rate a queue is gone after twice its delay, which is in each round trip.
            lasts = Nanos(2 * shortest.0).min(DRAIN_MAX);
        }
        self.phase = Phase::Draining { until: now + lasts, then: pace, is_probe: true };
        Some(self.change(now, charged, Some(pace / 2), None))
    }

    /// Ends the first probe of a search that began midway. If round trips have become shorter, the line was full, and
    /// its rate is found. Otherwise the search begins as on an empty line.
    pub(super) fn end_probe(&mut self, now: Nanos, charged: u64) -> Option<Change> {
        let Start::Probed { line, shortest } = std::mem::take(&mut self.unseen.probe.start) else { return None };
        let least = self.losses.evidence.least().unwrap_or(shortest);
        if self.bounds.first.is_some() {
            return None;
        }
        if shortest - least <= self.threshold() {
            return Some(self.change(now, charged, None, None));
        }
        let line = self.rise.on_cut(line, true, false, self.history.peak());
        self.rise.on_full();
        let notice = self.found.on_line(now, line);
        Some(self.change(now, charged, Some(line / 1000 * MARGIN_PERMILLE), notice))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bounds, Look, history};
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;
    const EVERY_MS: u64 = 50;
    const BYTES: u64 = 60_000;

    struct Line {
        estimator: Estimator,
        ms: u64,
        charged: u64,
    }

    impl Line {
        fn of(first: Option<&str>, most: Option<&str>) -> Line {
            let rate = |text: &str| text.parse().unwrap();
            let bounds = Bounds { least: None, first: first.map(rate), most: most.map(rate) };
            Line { estimator: Estimator::new(bounds), ms: 0, charged: 0 }
        }

        /// Sends 9.6 Mbit/s until this time, in intervals. Returns the times of all probes, each of which ends at once.
        fn fill(&mut self, until_ms: u64) -> Vec<(u64, u64)> {
            let mut probes = vec![];
            while self.ms < until_ms {
                (self.ms, self.charged) = (self.ms + EVERY_MS, self.charged + BYTES);
                probes.extend(self.interval().map(|pace| (self.ms, pace)));
            }
            probes
        }

        fn interval(&mut self) -> Option<u64> {
            let (now, estimator) = (MS(self.ms), &mut self.estimator);
            let look = Look { sent_bytes: BYTES, delivered_bytes: BYTES, ..Look::default() };
            let look = Look { delivered_for: MS(EVERY_MS), busy_for: MS(EVERY_MS), rtt: Some(MS(80)), ..look };
            estimator.on_look(now, self.charged, || 1, look);
            let interval = estimator.history.close(now, self.charged, estimator.pace, history::Seen::default());
            let change = estimator.probe(now, self.charged, interval)?;
            let (before, pace) = (estimator.phase, change.pace.unwrap().bits_per_s());
            let Phase::Draining { then, is_probe: true, .. } = before else { panic!("{before:?}") };
            let _ = estimator.end_drain(now, self.charged, then, true);
            Some(pace)
        }
    }

    #[test]
    fn a_line_that_is_full_is_probed_every_half_minute() {
        let mut line = Line::of(Some("10mbit"), None);
        assert_eq!(line.fill(70_000), [(30_050, 5_000_000), (60_050, 5_000_000)]);
    }

    #[test]
    fn a_line_at_its_ceiling_or_full_of_others_is_not_probed() {
        assert_eq!(Line::of(Some("10mbit"), Some("10mbit")).fill(40_000), []);
        assert_eq!(Line::of(None, None).fill(40_000), [], "without a pace");
        let mut line = Line::of(Some("10mbit"), None);
        line.estimator.others.until = MS(35_000);
        assert_eq!(line.fill(40_000), [(35_000, 5_000_000)]);
    }

    #[test]
    fn a_line_on_which_nothing_waits_is_empty() {
        let mut line = Line::of(Some("20mbit"), None);
        assert_eq!(line.fill(10_000), []);
        line.estimator.on_idle();
        assert_eq!(line.fill(45_000), [(40_050, 10_000_000)]);
    }

    /// The line was full if the probe makes round trips shorter.
    #[test]
    fn a_search_that_begins_midway_probes_first() {
        for (rtt_ms, found) in [(30, Some(9_600_000)), (78, None)] {
            let mut line = Line::of(None, None);
            line.estimator.begin_midway();
            assert!(!line.estimator.takes_bases());
            let probes = line.fill(600);
            assert!(matches!(probes[..], [(450, pace)] if pace.abs_diff(4_728_000) < 50_000), "{probes:?}");
            let (estimator, now) = (&mut line.estimator, MS(1000));
            estimator.on_look(now, line.charged, || 2, Look { rtt: Some(MS(rtt_ms)), ..Look::default() });
            let change = estimator.settle(now, line.charged).unwrap();
            assert!(estimator.takes_bases());
            assert_eq!(change.notice.is_some(), found.is_some(), "{change:?}");
            assert_eq!(change.pace.map(|pace| pace.bits_per_s()), found.map(|line| line / 1000 * MARGIN_PERMILLE));
        }
    }

    #[test]
    fn a_search_that_begins_with_nothing_waiting_is_on_an_empty_line() {
        let mut line = Line::of(None, None);
        line.estimator.begin_midway();
        for until_ms in (200..=600).step_by(200) {
            line.estimator.on_idle();
            assert_eq!(line.fill(until_ms), []);
        }
        assert_eq!(line.fill(2000), []);
        assert!(line.estimator.takes_bases());
    }
}
