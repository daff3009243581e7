//! Congestion control: Reno (RFC 5681) and CUBIC (RFC 9438 with Linux's HyStart), in whole segments and integers.

use serde::Deserialize;
use units::Nanos;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    Reno,
    Cubic,
}

/// The congestion window, and the state that determines its growth and reduction.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    kind: Congestion,
    /// The window in segments.
    pub cwnd: u32,
    pub ssthresh: u32,
    /// The segments acknowledged since the window last grew by one.
    acked: u32,
    cubic: Cubic,
    hystart: HyStart,
}

/// A threshold that never takes effect: sequence numbers would wrap first.
const SSTHRESH_NONE: u32 = u32::MAX;

impl Window {
    pub fn new(kind: Congestion, initial: u32) -> Window {
        Window {
            kind,
            cwnd: initial,
            ssthresh: SSTHRESH_NONE,
            acked: 0,
            cubic: Cubic::default(),
            hystart: HyStart::default(),
        }
    }

    pub fn is_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows the window after segments were newly acknowledged while the window was full.
    pub fn grow(&mut self, now: Nanos, segments: u32, smoothed: Nanos) {
        let mut segments = segments;
        if self.is_slow_start() {
            let grown = (self.cwnd.saturating_add(segments)).min(self.ssthresh);
            segments -= grown - self.cwnd;
            self.cwnd = grown;
        }
        if segments == 0 {
            return;
        }
        let per_growth = match self.kind {
            Congestion::Reno => self.cwnd,
            Congestion::Cubic => self.cubic.acks_per_growth(now, self.cwnd, segments, smoothed),
        };
        self.acked += segments;
        while self.acked >= per_growth {
            self.acked -= per_growth;
            self.cwnd += 1;
        }
    }

    /// Handles a measured round trip in slow start. `starts_round` is true for the first one of its window.
    pub fn on_rtt(&mut self, now: Nanos, rtt: Nanos, starts_round: bool) {
        if self.kind == Congestion::Cubic && self.is_slow_start() {
            self.hystart.on_rtt(now, rtt, starts_round);
            if self.cwnd >= HYSTART_WINDOW_MIN && self.hystart.is_congested(now) {
                self.ssthresh = self.cwnd;
            }
        }
    }

    /// Lowers the threshold because of congestion. The caller sets the window.
    pub fn on_congestion(&mut self) {
        self.acked = 0;
        self.ssthresh = match self.kind {
            Congestion::Reno => (self.cwnd / 2).max(2),
            Congestion::Cubic => self.cubic.on_congestion(self.cwnd),
        };
    }

    /// Ends an idle time. The window decays to the initial window (RFC 5681 section 4.1).
    pub fn on_idle(&mut self, timeouts: u64, initial: u32) {
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        let restart = initial.min(self.cwnd);
        self.cwnd = (self.cwnd >> timeouts.min(31)).max(restart);
        self.cubic.epoch = None;
    }
}

/// CUBIC with C = 0.4 and beta = 0.7 (RFC 9438 section 4).
#[derive(Debug, Clone, Copy, Default)]
struct Cubic {
    epoch: Option<Nanos>,
    /// The window before the last reduction, lowered for fast convergence.
    w_max: u32,
    origin: u32,
    /// The milliseconds from the epoch until the window is back at its previous maximum.
    k_ms: u64,
    /// The window that Reno would have, and the acknowledgements that it has counted.
    reno: u32,
    reno_acked: u32,
}

impl Cubic {
    fn on_congestion(&mut self, cwnd: u32) -> u32 {
        self.epoch = None;
        // Fast convergence: (1 + beta) / 2 = 0.85.
        self.w_max = if cwnd < self.w_max { cwnd * 17 / 20 } else { cwnd };
        (cwnd * 7 / 10).max(2)
    }

    /// The number of acknowledged segments after which the window grows by one.
    fn acks_per_growth(&mut self, now: Nanos, cwnd: u32, segments: u32, smoothed: Nanos) -> u32 {
        let began = *self.epoch.get_or_insert_with(|| {
            (self.reno, self.reno_acked) = (cwnd, 0);
            let below = u64::from(self.w_max.saturating_sub(cwnd));
            // K = cbrt((W_max − cwnd) / C); in milliseconds the radicand is × 10⁹.
            self.k_ms = cube_root(below * 2_500_000_000);
            self.origin = self.w_max.max(cwnd);
            now
        });
        // The target is the value of the cubic one round trip from now.
        let at_ms = ((now - began) + smoothed).0 as i64 / 1_000_000;
        let offset = (at_ms - self.k_ms as i64).clamp(-1_000_000, 1_000_000);
        let target = i64::from(self.origin) + offset * offset * offset / 2_500_000_000;
        let above = target - i64::from(cwnd);
        let mut per_growth = if above > 0 { i64::from(cwnd) / above } else { 100 * i64::from(cwnd) };
        if self.w_max == 0 {
            // Before the first loss there is no plateau.
            per_growth = per_growth.min(20);
        }
        per_growth = per_growth.min(self.reno_friendly(cwnd, segments));
        per_growth.max(2) as u32
    }

    /// Returns Reno's window with the same beta, which is the minimum: it grows by 3 (1 − beta) / (1 + beta) = 9/17
    /// segments per round trip.
    fn reno_friendly(&mut self, cwnd: u32, segments: u32) -> i64 {
        self.reno_acked += segments;
        let per_growth = (cwnd * 17).div_ceil(9);
        while self.reno_acked > per_growth {
            self.reno_acked -= per_growth;
            self.reno += 1;
        }
        if self.reno > cwnd { i64::from(cwnd / (self.reno - cwnd)) } else { i64::MAX }
    }
}

/// The largest integer whose cube does not exceed `x`, computed bit by bit without floating point.
fn cube_root(x: u64) -> u64 {
    let mut root = 0u64;
    for bit in (0..=21).rev() {
        let tried = root | 1 << bit;
        if u128::from(tried).pow(3) <= u128::from(x) {
            root = tried;
        }
    }
    root
}

/// HyStart as in Linux (Ha & Rhee, "Taming the elephants: new TCP slow start", 2011). It ends slow start when the round
/// trips of a window are clearly longer than the shortest one, or when acknowledgements have arrived in one train for
/// half of the shortest one.
#[derive(Debug, Clone, Copy, Default)]
struct HyStart {
    least: Option<Nanos>,
    round_least: Option<Nanos>,
    samples: u32,
    round_at: Nanos,
    ack_at: Nanos,
}

const HYSTART_WINDOW_MIN: u32 = 16;
const HYSTART_SAMPLES: u32 = 8;
const HYSTART_TRAIN_GAP: Nanos = Nanos::from_millis(2);
const HYSTART_DELAY_MIN: Nanos = Nanos::from_millis(4);
const HYSTART_DELAY_MAX: Nanos = Nanos::from_millis(16);

impl HyStart {
    fn on_rtt(&mut self, now: Nanos, rtt: Nanos, starts_round: bool) {
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        if starts_round {
            (self.round_at, self.ack_at) = (now, now);
            (self.round_least, self.samples) = (None, 0);
        }
        if now - self.ack_at <= HYSTART_TRAIN_GAP {
            self.ack_at = now;
        }
        if self.samples < HYSTART_SAMPLES {
            self.samples += 1;
            self.round_least = Some(self.round_least.map_or(rtt, |least| least.min(rtt)));
        }
    }

    fn is_congested(&self, now: Nanos) -> bool {
        let (Some(least), Some(round_least)) = (self.least, self.round_least) else { return false };
        let is_train = self.ack_at == now && now - self.round_at > Nanos(least.0 / 2);
        let margin = Nanos(least.0 / 8).clamp(HYSTART_DELAY_MIN, HYSTART_DELAY_MAX);
        is_train || self.samples >= HYSTART_SAMPLES && round_least > least + margin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_start_doubles_and_then_reno_adds_one_a_window() {
        let mut window = Window::new(Congestion::Reno, 2);
        window.ssthresh = 8;
        window.grow(Nanos(0), 2, Nanos(1));
        assert_eq!(window.cwnd, 4);
        window.grow(Nanos(0), 5, Nanos(1));
        assert_eq!((window.cwnd, window.is_slow_start()), (8, false));
        window.grow(Nanos(0), 7, Nanos(1));
        assert_eq!(window.cwnd, 9, "one was left over from slow start");
        window.on_congestion();
        assert_eq!(window.ssthresh, 4);
    }

    #[test]
    fn cubic_is_back_at_its_plateau_after_k() {
        let mut window = Window::new(Congestion::Cubic, 1000);
        window.on_congestion();
        assert_eq!(window.ssthresh, 700);
        window.cwnd = window.ssthresh;
        // K = cbrt(300 / 0.4) = 9.086 s; a window of acknowledgements every 100 ms.
        let rtt = Nanos::from_millis(100);
        let mut at = Nanos::from_secs(1);
        while at < Nanos::from_millis(10_086) {
            (0..window.cwnd / 2).for_each(|_| window.grow(at, 2, rtt));
            at += rtt;
        }
        assert!((985..=1005).contains(&window.cwnd), "{}", window.cwnd);
    }

    #[test]
    fn cube_roots() {
        for (x, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (750_000_000_000, 9085), (u64::MAX, 2_642_245)] {
            assert_eq!(cube_root(x), root);
        }
    }

    #[test]
    fn hystart_ends_slow_start_when_the_queue_grows() {
        let rounds = |later_ms: u64| {
            let mut window = Window::new(Congestion::Cubic, 16);
            let mut now = Nanos::from_secs(1);
            for (round, rtt) in [40, later_ms].into_iter().enumerate() {
                for sample in 0..8 {
                    now += Nanos::from_millis(3);
                    window.on_rtt(now, Nanos::from_millis(rtt), sample == 0);
                }
                assert!(round == 1 || window.is_slow_start());
            }
            window.is_slow_start()
        };
        assert!(rounds(44));
        assert!(!rounds(46), "more than an eighth above 40 ms");
    }
}
