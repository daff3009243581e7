//! Searches for a fall of the line that is too deep for single intervals or the bytes sent to show it.
//!
//! A queue is ours if we sent most of what the line carries ([`super::measure`]), and that rate is taken to be the
//! maximum that arrived recently. A line that falls to a tenth carries a tenth of that maximum even if all of it is
//! ours: TCP lets no more leave than arrives. Few round trips are then measured, so an interval may have none, and a
//! short queue is empty whenever a loss has shut the windows. Nor are losses judged while so little of the pace is
//! used, so a cut that is on trial would stay on trial. So round trips are gathered for a second. If most of them were
//! delayed while a response waited all that time, the queue is taken for ours as a trial. If responses had not waited,
//! the queue would belong to others.

use units::Nanos;

use super::clients::{DelayBounds, Kind};
use super::history::permille_of;
use super::measure::{MOSTLY_PERMILLE, Measure};
use super::{BUSY_PERMILLE, CUTS_MAX, Change, Estimator, Signal, Trial};

/// The time for which a queue has to stand. With a longer time, a fall is noticed later; with a shorter one, a pause of
/// the line is mistaken for a fall.
const STANDS_FOR: Nanos = Nanos::from_millis(1000);
/// The maximum time on a line so slow that its rate is not measurable in `STANDS_FOR`.
const STANDS_FOR_MAX: Nanos = Nanos::from_secs(5);
/// The part of a client's round trips, in thousandths, that must be delayed.
const DELAYED_PERMILLE: u32 = 750;
/// The minimum number of round trips of a client that are evidence.
const SAMPLES_MIN: u32 = 2;
/// The maximum number of clients whose round trips are counted: the first ones seen.
const CLIENTS_MAX: usize = 16;

/// The minimum time between doubts about a rate that was found for a single client, unless the line recently carried
/// twice as much. Without this minimum, the pace would be tested again for each visitor who comes while another
/// downloads.
const DOUBT_EVERY: Nanos = Nanos::from_secs(10);

/// The round trips since the search last found no fall.
#[derive(Debug, Default)]
pub(super) struct Fall {
    began: Nanos,
    seen: Vec<RoundTrips>,
    /// The only client that had been seen at the last cut, if there was just one: it may be behind a slow link of its
    /// own.
    alone: Option<u64>,
    doubted_at: Option<Nanos>,
    /// [`Fall::is_slow`] at the last restart.
    was_slow: bool,
    /// Whether a queue delayed the last round trip that is not vague.
    was_delayed: bool,
}

/// The round trips of a client.
#[derive(Debug)]
struct RoundTrips {
    client: u64,
    /// True if the client has only vague round trips.
    are_vague: bool,
    all: u32,
    /// The number of round trips that a queue delayed.
    delayed: u32,
    /// The sum of these round trips' delays.
    delay: Nanos,
}

impl RoundTrips {
    fn of(client: u64) -> RoundTrips {
        RoundTrips { client, are_vague: true, all: 0, delayed: 0, delay: Nanos::ZERO }
    }

    fn are_delayed(&self) -> bool {
        self.delayed * 1000 >= DELAYED_PERMILLE * self.all
    }
}

impl Fall {
    pub fn restart(&mut self, now: Nanos) {
        if !self.seen.is_empty() {
            self.was_slow = self.is_mixed();
        }
        self.seen.clear();
        self.began = now;
    }

    /// Records a round trip; a delay of more than `threshold` is a queue.
    pub fn on_round_trip(&mut self, client: u64, bounds: DelayBounds, threshold: Nanos) {
        let at = self.seen.iter().position(|seen| seen.client == client).or_else(|| {
            let has_room = self.seen.len() < CLIENTS_MAX;
            has_room.then(|| self.seen.push(RoundTrips::of(client)))?;
            Some(self.seen.len() - 1)
        });
        if bounds.kind != Kind::Vague {
            self.was_delayed = bounds.at_least > threshold;
        }
        let Some(seen) = at.map(|at| &mut self.seen[at]) else { return };
        match (bounds.kind == Kind::Vague, seen.are_vague) {
            (true, false) => return,
            (false, true) => *seen = RoundTrips { are_vague: false, ..RoundTrips::of(client) },
            _ => {}
        }
        seen.all += 1;
        if bounds.at_least > threshold {
            seen.delayed += 1;
            seen.delay += bounds.at_most;
        }
    }

    /// Returns whether single intervals cannot show a queue, because round trips that are not vague are rare among the
    /// vague ones.
    pub fn is_slow(&self) -> bool {
        self.was_slow
    }

    /// Returns whether a queue that single intervals do not show delayed the last round trip that is not vague.
    pub fn may_be_queued(&self) -> bool {
        self.was_slow && self.was_delayed
    }

    fn is_mixed(&self) -> bool {
        let is_vague = |seen: &RoundTrips| seen.are_vague;
        self.seen.iter().any(is_vague) && !self.seen.iter().all(is_vague)
    }

    /// Records that the pace is cut because of these round trips.
    pub fn on_cut(&mut self) {
        self.alone = match &self.seen[..] {
            // This cut follows directly after another, and nothing new was seen.
            [] => self.alone,
            [seen] => Some(seen.client),
            _ => None,
        };
    }

    /// Returns whether the last cut was for the delays of a single client, and another client now sees no queue.
    /// Returns true at most once for each cut.
    pub fn is_in_doubt(&mut self, now: Nanos, is_far_below: bool) -> bool {
        let seen = &self.seen;
        let is_due = is_far_below || self.doubted_at.is_none_or(|before| now - before >= DOUBT_EVERY);
        let is_other = |one: &mut u64| seen.iter().any(|seen| seen.client != *one && !seen.are_delayed());
        let is_in_doubt = is_due && self.alone.take_if(is_other).is_some();
        if is_in_doubt {
            self.doubted_at = Some(now);
        }
        is_in_doubt
    }

    /// Returns the mean delay of the queue that the few round trips that are not vague show; zero without one.
    pub fn clear_delay(&self) -> Nanos {
        self.queue().filter(|queue| queue.is_clear).map_or(Nanos::ZERO, |queue| queue.delay)
    }

    /// Returns the queue that stood, if one did: two clients, or the only one, have enough round trips, and most round
    /// trips of every such client were delayed. Clients with vague round trips count only if there are no others.
    fn queue(&self) -> Option<Queue> {
        let is_clear = self.seen.iter().any(|seen| !seen.are_vague && seen.all >= SAMPLES_MIN);
        let counted = || self.seen.iter().filter(|seen| !(is_clear && seen.are_vague));
        let mut told = counted().filter(|seen| seen.all >= SAMPLES_MIN);
        let clients = told.clone().count();
        let is_shared = clients >= 2 || clients == 1 && counted().count() == 1;
        let (total, delayed) =
            counted().fold((Nanos::ZERO, 0), |(total, delayed), seen| (total + seen.delay, delayed + seen.delayed));
        let delay = Nanos(total.0 / u64::from(delayed.max(1)));
        let is_clear = is_clear && self.is_mixed();
        (is_shared && told.all(RoundTrips::are_delayed)).then_some(Queue { delay, is_clear })
    }
}

/// A queue that stood for a second: its mean delay, and whether round trips that are not vague showed it.
#[derive(Debug, Clone, Copy)]
struct Queue {
    delay: Nanos,
    is_clear: bool,
}

impl Estimator {
    /// Cuts the pace to the rate that the line carries now, if that has fallen. Must be called once for each interval.
    pub(super) fn follow_fall(&mut self, now: Nanos, charged: u64) -> Option<Change> {
        if now - self.unseen.fall.began < STANDS_FOR || now < self.others.until {
            return None;
        }
        let (run, is_backlogged) = self.history.since(self.unseen.fall.began);
        // A slow line takes longer to reveal its rate.
        if !run.is_enough() && is_backlogged && now - self.unseen.fall.began < STANDS_FOR_MAX {
            return None;
        }
        let pace = self.pace?;
        let used = |line: u64| permille_of(line, run.lasted, run.charged_bytes);
        let is_far_below = used(self.history.peak().min(pace)) < MOSTLY_PERMILLE;
        // Losses are not judged while little of the pace is used, so a trial for them would not end.
        let is_other = |trial: &mut Trial| is_far_below || matches!(trial.signal, Signal::Loss(_));
        let may_be = |queue: &Queue| queue.is_clear || is_far_below || used(pace) < BUSY_PERMILLE;
        let Some(queue) = self.unseen.fall.queue().filter(|queue| is_backlogged && run.is_enough() && may_be(queue))
        else {
            self.unseen.fall.restart(now);
            return None;
        };
        // The previous trial was on a line of another rate.
        self.trial.take_if(is_other);
        if let Some(trial) = self.trial.filter(|trial| trial.cuts >= CUTS_MAX) {
            return Some(self.leave_alone(now, charged, trial.pace_before));
        }
        let measure = Measure { line: self.history.rate(&run), is_full: true };
        self.cut(now, charged, Signal::Delay(queue.delay), Some(measure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// Returns the queue found from round trips of the given clients, each longer by this many milliseconds; a delay of
    /// more than 5 ms is a queue.
    fn queue_ms(round_trips: &[(u64, u64)]) -> Option<u64> {
        let mut fall = Fall::default();
        for (client, ms) in round_trips {
            let bounds = DelayBounds { at_least: MS(*ms), at_most: MS(*ms), kind: Kind::Data, noise: MS(0) };
            fall.on_round_trip(*client, bounds, MS(5));
        }
        fall.queue().map(|queue| queue.delay.0 / 1_000_000)
    }

    #[test]
    fn a_queue_stands_where_it_delays_everybody_most_of_the_time() {
        assert_eq!(queue_ms(&[]), None);
        assert_eq!(queue_ms(&[(1, 20), (1, 40)]), Some(30));
        assert_eq!(queue_ms(&[(1, 20), (1, 40), (1, 0), (1, 30), (2, 20), (2, 40), (3, 0)]), Some(30));
        // A client without delay is proof, and a single client among strangers may have a slow link.
        assert_eq!(queue_ms(&[(1, 20), (1, 20), (2, 20), (2, 20), (3, 0), (3, 5)]), None);
        assert_eq!(queue_ms(&[(1, 20), (1, 20), (2, 20)]), None);
        assert_eq!(queue_ms(&[(1, 20), (1, 40), (1, 0)]), None);
    }

    /// The packets of a download wait in the bands, and its round trips are estimated.
    #[test]
    fn vague_round_trips_deny_no_queue_that_others_show() {
        let mut fall = Fall::default();
        let mut see = |client, ms, kind| {
            let bounds = DelayBounds { at_least: MS(ms), at_most: MS(ms), kind, noise: MS(0) };
            fall.on_round_trip(client, bounds, MS(5));
            fall.queue().map(|queue| (queue.delay, queue.is_clear))
        };
        for _ in 0..3 {
            assert_eq!(see(1, 0, Kind::Vague), None);
        }
        assert_eq!(see(2, 20, Kind::Handshake), None, "one is not enough");
        assert_eq!(see(2, 40, Kind::Handshake), Some((MS(30), true)));
        assert_eq!(see(1, 0, Kind::Data), None, "a client without delay is proof");
    }

    /// The pace must not rise further while a second of round trips is gathered.
    #[test]
    fn the_last_round_trip_that_is_not_vague_shows_that_there_may_be_a_queue() {
        let mut fall = Fall::default();
        let mut see = |ms, kind| {
            let bounds = DelayBounds { at_least: MS(ms), at_most: MS(ms), kind, noise: MS(0) };
            fall.on_round_trip(1, bounds, MS(5));
            fall.on_round_trip(2, DelayBounds { kind: Kind::Vague, ..bounds }, MS(5));
            fall.restart(MS(0));
            fall.may_be_queued()
        };
        let seen = [(20, Kind::Handshake), (20, Kind::Vague), (0, Kind::Vague), (5, Kind::Handshake)];
        assert_eq!(seen.map(|(ms, kind)| see(ms, kind)), [true, false, false, false]);
    }

    #[test]
    fn what_one_client_met_is_in_doubt_once_another_comes() {
        let mut fall = Fall::default();
        let [none, long] =
            [0, 30].map(|ms| DelayBounds { at_least: MS(ms), at_most: MS(ms), kind: Kind::Data, noise: MS(0) });
        let see = |fall: &mut Fall, delays: &[(u64, DelayBounds)]| {
            fall.restart(MS(0));
            delays.iter().for_each(|(client, bounds)| fall.on_round_trip(*client, *bounds, MS(5)));
        };
        see(&mut fall, &[(1, long)]);
        fall.on_cut();
        see(&mut fall, &[(1, long), (2, long)]);
        assert!(!fall.is_in_doubt(MS(0), true), "both meet it");
        see(&mut fall, &[(1, long), (2, none)]);
        assert!(fall.is_in_doubt(MS(0), false) && !fall.is_in_doubt(MS(0), true));
        see(&mut fall, &[(1, long)]);
        fall.on_cut();
        see(&mut fall, &[(2, none)]);
        let doubts = [(9_999, false), (10_000, false), (10_001, true)];
        assert_eq!(doubts.map(|(ms, is_far_below)| fall.is_in_doubt(MS(ms), is_far_below)), [false, true, false]);
        see(&mut fall, &[(1, long)]);
        fall.on_cut();
        see(&mut fall, &[(2, none)]);
        assert!(fall.is_in_doubt(MS(10_002), true), "the line carried twice as much lately");
        see(&mut fall, &[(1, long), (2, none)]);
        fall.on_cut();
        see(&mut fall, &[(2, none)]);
        assert!(!fall.is_in_doubt(MS(60_000), true), "another was there");
    }
}
