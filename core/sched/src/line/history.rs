//! What left and what arrived, interval by interval.

use std::collections::VecDeque;
use std::ops::AddAssign;

use units::Nanos;

use super::Look;

/// Intervals remembered: a second of the shortest.
const INTERVALS_MAX: usize = 40;
/// So much makes a rate: 24 packets, of which one more or less is four per cent,
const RATE_BYTES_MIN: u64 = 24 * 1514;
/// over this or longer: acknowledgements come in bunches,
const RATE_FOR: Nanos = Nanos::from_millis(100);
/// and over a round trip, or acknowledgements from near and far meet; no more of it than this.
const LAG_MAX: Nanos = Nanos::from_millis(500);
/// The peak fades by one part in so many each interval, and the longest round trip.
const FADING_PARTS: u64 = 1000;
const LONGEST_FADING_PARTS: u64 = 32;
/// No more leaves beside what arrives: handshakes, acknowledgements of requests, ends.
const OVERHEAD_PERMILLE_MAX: u64 = 1500;

/// Bytes of some time, on the wire.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    pub lasted: Nanos,
    /// Everything that left.
    pub charged_bytes: u64,
    /// Of responses, for the first time.
    pub sent_bytes: u64,
    /// Of responses, again.
    pub lost_bytes: u64,
    /// Of responses, arrived at the clients.
    pub delivered_bytes: u64,
}

/// One interval that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    pub run: Run,
    /// The queue of all clients at most; `None` where too little was seen.
    pub delay: Option<Nanos>,
    /// Of the pace, thousandths that left; 0 where there was none.
    pub used_permille: u64,
    /// A response waited all the time.
    pub is_backlogged: bool,
}

#[derive(Debug, Default)]
pub(super) struct History {
    began: Nanos,
    /// Charged when the interval began.
    charged_before: u64,
    /// The interval so far.
    run: Run,
    is_idle: bool,
    closed: VecDeque<Interval>,
    /// The most that arrived in a row of intervals, bits per second, fading.
    peak: u64,
    /// The longest round trip, fading.
    longest: Nanos,
}

impl History {
    pub fn began(&self) -> Nanos {
        self.began
    }

    pub fn on_look(&mut self, look: &Look) {
        self.run.sent_bytes += look.sent_bytes;
        self.run.lost_bytes += look.lost_bytes;
        self.run.delivered_bytes += look.delivered_bytes;
        self.longest = self.longest.max(look.rtt.unwrap_or_default());
    }

    /// Nothing more waits.
    pub fn on_idle(&mut self) {
        self.is_idle = true;
    }

    /// Charged since the interval began.
    pub fn charged(&self, charged_bytes: u64) -> u64 {
        charged_bytes.saturating_sub(self.charged_before)
    }

    pub fn close(&mut self, now: Nanos, charged_bytes: u64, pace: Option<u64>, delay: Option<Nanos>) -> Interval {
        let (lasted, charged) = (now - self.began, self.charged(charged_bytes));
        let run = Run { lasted, charged_bytes: charged, ..self.run };
        let used_permille = pace.map_or(0, |pace| permille_of(pace, lasted, charged));
        let interval = Interval { run, delay, used_permille, is_backlogged: !self.is_idle };
        self.closed.push_back(interval);
        if self.closed.len() > INTERVALS_MAX {
            self.closed.pop_front();
        }
        self.peak = self.most().unwrap_or(0).max(self.peak - self.peak / FADING_PARTS);
        self.longest = self.longest - Nanos(self.longest.0 / LONGEST_FADING_PARTS);
        self.restart(now, charged_bytes);
        interval
    }

    fn restart(&mut self, now: Nanos, charged_bytes: u64) {
        (self.began, self.charged_before) = (now, charged_bytes);
        (self.run, self.is_idle) = (Run::default(), false);
    }

    /// What was seen at another pace says nothing of this one.
    pub fn forget(&mut self, now: Nanos, charged_bytes: u64) {
        self.closed.clear();
        self.restart(now, charged_bytes);
    }

    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// For so long what arrives says nothing of what leaves: the longest round trip of late.
    pub fn lag(&self) -> Nanos {
        self.longest.min(LAG_MAX)
    }

    pub fn len(&self) -> usize {
        self.closed.len()
    }

    /// The closed intervals, backwards from the last.
    pub fn backwards(&self) -> impl Iterator<Item = &Interval> {
        self.closed.iter().rev()
    }

    /// The closed intervals with a queue longer than this, backwards from the last.
    pub fn queued(&self, delay_min: Nanos) -> impl Iterator<Item = &Interval> {
        self.backwards().take_while(move |interval| interval.delay.is_none_or(|delay| delay > delay_min))
    }

    /// The last intervals in a row that used so much of the pace, but for the first of them: for so long what arrives was sent before.
    pub fn filled(&self, used_permille_min: u64, but: Nanos) -> Run {
        let mut run = Run::default();
        let intervals = || self.backwards().take_while(|interval| interval.used_permille >= used_permille_min);
        let all = Nanos(intervals().map(|interval| interval.run.lasted.0).sum());
        for interval in intervals() {
            if run.lasted + interval.run.lasted + but > all {
                break;
            }
            run += interval.run;
        }
        run
    }

    /// Whether a run is long enough to tell a rate.
    pub fn is_enough(&self, run: &Run) -> bool {
        run.delivered_bytes >= RATE_BYTES_MIN && run.lasted >= RATE_FOR.max(self.lag())
    }

    /// The most that arrived in a row of intervals that is long enough, bits per second.
    pub fn most(&self) -> Option<u64> {
        let mut most = None;
        for end in 0..self.closed.len() {
            let mut run = Run::default();
            for interval in self.closed.range(..=end).rev() {
                run += interval.run;
                if self.is_enough(&run) {
                    most = most.max(Some(run.rate()));
                    break;
                }
            }
        }
        most
    }
}

impl AddAssign for Run {
    fn add_assign(&mut self, other: Run) {
        self.lasted += other.lasted;
        self.charged_bytes += other.charged_bytes;
        self.sent_bytes += other.sent_bytes;
        self.lost_bytes += other.lost_bytes;
        self.delivered_bytes += other.delivered_bytes;
    }
}

impl Run {
    /// What the line carried if what arrived had all else with it that left, bits per second.
    pub fn rate(&self) -> u64 {
        let of_responses = self.sent_bytes + self.lost_bytes;
        let permille = (self.charged_bytes * 1000).checked_div(of_responses).unwrap_or(1000);
        rate_of(self.delivered_bytes * permille.clamp(1000, OVERHEAD_PERMILLE_MAX) / 1000, self.lasted)
    }

    /// Of what was sent, thousandths that arrived.
    pub fn arrived_permille(&self) -> u64 {
        (self.delivered_bytes * 1000).checked_div(self.sent_bytes).unwrap_or(1000)
    }
}

/// Bits per second.
fn rate_of(bytes: u64, lasted: Nanos) -> u64 {
    let bits = u128::from(bytes) * 8_000_000_000;
    u64::try_from(bits / u128::from(lasted.0.max(1))).unwrap_or(u64::MAX)
}

/// Thousandths of what this rate could have carried.
pub(super) fn permille_of(rate: u64, lasted: Nanos, bytes: u64) -> u64 {
    let could = u128::from(rate) * u128::from(lasted.0) / 8_000_000_000;
    u64::try_from(u128::from(bytes) * 1000 / could.max(1)).unwrap_or(u64::MAX)
}
