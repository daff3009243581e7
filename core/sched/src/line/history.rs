//! What left and what was acknowledged, interval by interval.

use std::collections::VecDeque;

use units::Nanos;

/// Intervals remembered: the line's rate is measured over a second or so at most.
const INTERVALS_MAX: usize = 40;
/// So much makes a rate: 24 packets, of which one more or less is four per cent.
pub(super) const PEAK_BYTES_MIN: u64 = 24 * 1514;
/// The peak fades by one part in so many each interval.
const FADING_PARTS: u64 = 1000;
const LONGEST_FADING_PARTS: u64 = 32;
/// Of the totals that the share of bytes without acknowledgement comes from, half is forgotten at this.
const TOTAL_BYTES_MAX: u64 = 32 << 20;
/// Less than this says nothing of that share.
const TOTAL_BYTES_MIN: u64 = 256 << 10;
/// No more than this is sent beside what is acknowledged: handshakes, acknowledgements of requests, ends.
const OVERHEAD_PERMILLE_MAX: u64 = 1500;

/// One interval that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    pub lasted: Nanos,
    pub charged_bytes: u64,
    /// Sent again, of what was charged.
    pub lost_bytes: u64,
    /// Acknowledged, and what left with it unacknowledged by nature.
    pub delivered_bytes: u64,
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
    /// Acknowledged in it so far.
    delivered_bytes: u64,
    lost_bytes: u64,
    is_idle: bool,
    closed: VecDeque<Interval>,
    /// Charged but what was lost, and acknowledged, over a long time.
    totals: (u64, u64),
    /// The most that was delivered in an interval, bits per second, fading.
    peak: u64,
    /// The longest round trip, fading.
    longest: Nanos,
}

impl History {
    pub fn began(&self) -> Nanos {
        self.began
    }

    pub fn on_look(&mut self, delivered_bytes: u64, lost_bytes: u64) {
        self.delivered_bytes += delivered_bytes;
        self.lost_bytes += lost_bytes;
    }

    /// Charged since the interval began.
    pub fn charged(&self, charged_bytes: u64) -> u64 {
        charged_bytes.saturating_sub(self.charged_before)
    }

    pub fn on_round_trip(&mut self, rtt: Nanos) {
        self.longest = self.longest.max(rtt);
    }

    /// The longest round trip of late.
    pub fn longest(&self) -> Nanos {
        self.longest
    }

    /// Something could be sent at once, and nothing more waits.
    pub fn on_idle(&mut self) {
        self.is_idle = true;
    }

    pub fn close(&mut self, now: Nanos, charged_bytes: u64, pace: Option<u64>, delay: Option<Nanos>) -> Interval {
        let (lasted, charged) = (now - self.began, self.charged(charged_bytes));
        self.totals.0 += charged.saturating_sub(self.lost_bytes);
        self.totals.1 += self.delivered_bytes;
        let delivered_bytes = self.with_overhead(self.delivered_bytes);
        if self.totals.0 > TOTAL_BYTES_MAX {
            self.totals = (self.totals.0 / 2, self.totals.1 / 2);
        }
        let used_permille = pace.map_or(0, |pace| permille_of(pace, lasted, charged));
        let is_backlogged = !self.is_idle;
        let interval = Interval { lasted, lost_bytes: self.lost_bytes, charged_bytes: charged, delivered_bytes, delay, used_permille, is_backlogged };
        self.closed.push_back(interval);
        if self.closed.len() > INTERVALS_MAX {
            self.closed.pop_front();
        }
        self.peak = self.most(PEAK_BYTES_MIN).max(self.peak - self.peak / FADING_PARTS);
        self.longest = self.longest - Nanos(self.longest.0 / LONGEST_FADING_PARTS);
        self.restart(now, charged_bytes);
        interval
    }

    fn restart(&mut self, now: Nanos, charged_bytes: u64) {
        (self.began, self.charged_before) = (now, charged_bytes);
        (self.delivered_bytes, self.lost_bytes, self.is_idle) = (0, 0, false);
    }

    /// What was seen at another pace says nothing of this one.
    pub fn forget(&mut self, now: Nanos, charged_bytes: u64) {
        self.totals.0 += self.charged(charged_bytes).saturating_sub(self.lost_bytes);
        self.totals.1 += self.delivered_bytes;
        self.closed.clear();
        self.restart(now, charged_bytes);
    }

    fn with_overhead(&self, delivered_bytes: u64) -> u64 {
        let (charged, delivered) = self.totals;
        if delivered < TOTAL_BYTES_MIN {
            return delivered_bytes;
        }
        let permille = (charged * 1000 / delivered).clamp(1000, OVERHEAD_PERMILLE_MAX);
        delivered_bytes * permille / 1000
    }

    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// The closed intervals, backwards from the last.
    pub fn backwards(&self) -> impl Iterator<Item = &Interval> {
        self.closed.iter().rev()
    }

    pub fn len(&self) -> usize {
        self.closed.len()
    }

    /// The closed intervals with a queue longer than this, backwards from the last.
    pub fn queued(&self, delay_min: Nanos) -> impl Iterator<Item = &Interval> {
        self.backwards().take_while(move |interval| interval.delay.is_none_or(|delay| delay > delay_min))
    }

    /// The most that was delivered in a row of intervals with so many bytes, bits per second; 0 where there is none.
    pub fn most(&self, bytes_min: u64) -> u64 {
        let (mut from, mut bytes, mut lasted, mut most) = (0, 0, Nanos::ZERO, 0);
        for interval in &self.closed {
            bytes += interval.delivered_bytes;
            lasted += interval.lasted;
            // As short a row as has so many.
            while bytes - self.closed[from].delivered_bytes >= bytes_min {
                bytes -= self.closed[from].delivered_bytes;
                lasted = lasted - self.closed[from].lasted;
                from += 1;
            }
            if bytes >= bytes_min {
                most = most.max(rate_of(bytes, lasted));
            }
        }
        most
    }

    /// What was handed down and delivered, and for how long, in the last intervals in a row that used the whole pace, but for the
    /// first of them: for so long what arrives was sent before.
    pub fn filled(&self, used_permille_min: u64, but: Nanos) -> Run {
        let (mut run, mut begins) = (Run::default(), Nanos::ZERO);
        let intervals = || self.backwards().take_while(|interval| interval.used_permille >= used_permille_min);
        let all = Nanos(intervals().map(|interval| interval.lasted.0).sum());
        for interval in intervals() {
            begins += interval.lasted;
            if begins + but > all {
                break;
            }
            run.lasted += interval.lasted;
            run.fresh_bytes += interval.charged_bytes.saturating_sub(interval.lost_bytes);
            run.delivered_bytes += interval.delivered_bytes;
        }
        run
    }
}

/// Several intervals.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    pub lasted: Nanos,
    /// Handed down for the first time.
    pub fresh_bytes: u64,
    pub delivered_bytes: u64,
}

/// Bits per second.
pub(super) fn rate_of(bytes: u64, lasted: Nanos) -> u64 {
    let bits = u128::from(bytes) * 8_000_000_000;
    u64::try_from(bits / u128::from(lasted.0.max(1))).unwrap_or(u64::MAX)
}

/// Thousandths of what this rate could have carried.
pub(super) fn permille_of(rate: u64, lasted: Nanos, bytes: u64) -> u64 {
    let could = u128::from(rate) * u128::from(lasted.0) / 8_000_000_000;
    u64::try_from(u128::from(bytes) * 1000 / could.max(1)).unwrap_or(u64::MAX)
}
