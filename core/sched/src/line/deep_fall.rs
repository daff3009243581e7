//! The search for a fall of the line so deep that the bytes that left do not show whether the queue in front of it is
//! ours.
//!
//! A queue is ours if we sent most of what the line carries ([`super::measure`]), and that rate is taken to be the
//! maximum that arrived recently. A line that falls to a tenth carries a tenth of that maximum even if all of it is
//! ours: TCP lets no more leave than arrives. Few round trips are then measured, so an interval may have none, and a
//! short queue is empty whenever a loss has shut the windows. So round trips are gathered for a second. If most of them
//! were delayed while a response waited all that time, the queue is taken for ours as a trial. If responses had not
//! waited, the queue would belong to others.

use units::Nanos;

use super::clients::DelayBounds;
use super::history::permille_of;
use super::measure::{MOSTLY_PERMILLE, Measure};
use super::{Change, Estimator, Signal};

/// The time that a queue has to stand. If longer, a fall is followed later; if shorter, a pause of the line is taken
/// for a fall.
const STANDS_FOR: Nanos = Nanos::from_millis(1000);
/// The maximum time on a line so slow that its rate is not measurable in `STANDS_FOR`.
const STANDS_FOR_MAX: Nanos = Nanos::from_secs(5);
/// The part of round trips that counts as most of them, in thousandths.
const DELAYED_PERMILLE: u32 = 750;
/// The minimum number of round trips that prove anything about a client.
const SAMPLES_MIN: u32 = 2;
/// The maximum number of clients whose round trips are counted, which are the first seen.
const CLIENTS_MAX: usize = 16;

/// The minimum time between doubts about a rate that only one client met, unless the line recently carried twice as
/// much. Without it, while a visitor downloads and others come and go, each of them would make the pace be tried again.
const DOUBT_EVERY: Nanos = Nanos::from_secs(10);

/// The round trips since the last instant at which no fall was found.
#[derive(Debug, Default)]
pub(super) struct Fall {
    began: Nanos,
    seen: Vec<RoundTrips>,
    /// The only client seen before the last cut, if there was only one: it may be behind a slow link of its own.
    alone: Option<u64>,
    doubted_at: Option<Nanos>,
}

/// The round trips of a client.
#[derive(Debug)]
struct RoundTrips {
    client: u64,
    all: u32,
    /// The number of round trips that a queue delayed.
    delayed: u32,
    /// The sum of these round trips' delays.
    delay: Nanos,
}

impl RoundTrips {
    fn are_delayed(&self) -> bool {
        self.delayed * 1000 >= DELAYED_PERMILLE * self.all
    }
}

impl Fall {
    pub fn restart(&mut self, now: Nanos) {
        self.seen.clear();
        self.began = now;
    }

    /// Records a round trip; a delay of more than `threshold` is a queue.
    pub fn on_round_trip(&mut self, client: u64, bounds: DelayBounds, threshold: Nanos) {
        let at = self.seen.iter().position(|seen| seen.client == client).or_else(|| {
            let has_room = self.seen.len() < CLIENTS_MAX;
            has_room.then(|| self.seen.push(RoundTrips { client, all: 0, delayed: 0, delay: Nanos::ZERO }))?;
            Some(self.seen.len() - 1)
        });
        let Some(seen) = at.map(|at| &mut self.seen[at]) else { return };
        seen.all += 1;
        if bounds.at_least > threshold {
            seen.delayed += 1;
            seen.delay += bounds.at_most;
        }
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

    /// Returns whether the last cut was for the delays of only one client, and another client is now seen without a
    /// queue. Returns true at most once for each cut.
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

    /// Returns the mean delay of the queue that stood, if one did: two clients, or the only one, have enough round
    /// trips, and most round trips of every such client were delayed.
    fn queue(&self) -> Option<Nanos> {
        let mut told = self.seen.iter().filter(|seen| seen.all >= SAMPLES_MIN);
        let clients = told.clone().count();
        let delayed = self.seen.iter().map(|seen| seen.delayed).sum::<u32>();
        let is_shared = clients >= 2 || clients == 1 && self.seen.len() == 1;
        let total = self.seen.iter().fold(Nanos::ZERO, |total, seen| total + seen.delay);
        (is_shared && told.all(RoundTrips::are_delayed)).then(|| Nanos(total.0 / u64::from(delayed.max(1))))
    }
}

impl Estimator {
    /// Cuts the pace to the rate that the line carries now, if that has fallen. Must be called once for each interval.
    pub(super) fn follow_fall(&mut self, now: Nanos, charged: u64) -> Option<Change> {
        if now - self.fall.began < STANDS_FOR || now < self.others.until {
            return None;
        }
        let (run, is_backlogged) = self.history.since(self.fall.began);
        // A slow line takes longer to reveal its rate.
        if !run.is_enough() && is_backlogged && now - self.fall.began < STANDS_FOR_MAX {
            return None;
        }
        let line = self.history.peak().min(self.pace?);
        let is_far_below = permille_of(line, run.lasted, run.charged_bytes) < MOSTLY_PERMILLE;
        let Some(queue) = self.fall.queue().filter(|_| is_backlogged && run.is_enough() && is_far_below) else {
            self.fall.restart(now);
            return None;
        };
        // The previous trial was on a line of another rate.
        self.trial = None;
        let measure = Measure { line: self.history.rate(&run), is_full: true };
        self.cut(now, charged, Signal::Delay(queue), Some(measure))
    }
}

#[cfg(test)]
mod tests {
    use super::super::clients::Kind;
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
        fall.queue().map(|queue| queue.0 / 1_000_000)
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
