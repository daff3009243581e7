//! By which law cake-autorate moves a shaper's rate: its public description, with its default settings.

use std::collections::VecDeque;
use std::time::Duration;

use units::Rate;

use super::Autorate;

/// A delay this far above its baseline is a queue.
const DELAYED: Duration = Duration::from_millis(30);
/// Up to this mean delay above the baseline the rate goes up as fast as it may.
const UP_MOST: Duration = Duration::from_millis(10);
/// From this mean delay on it goes down as far as it may.
const DOWN_MOST: Duration = Duration::from_millis(60);
/// So many of so many last delays have to be of a queue.
const WINDOW: usize = 6;
const DELAYED_LEAST: usize = 3;
/// Above this part of the shaper's rate the load is high.
const HIGH_LOAD: f64 = 0.75;
const DOWN: [f64; 2] = [0.99, 0.75];
const UP: [f64; 2] = [1.0, 1.04];
/// Toward the base rate, from above and from below.
const DECAY: [f64; 2] = [0.99, 1.01];
/// The shares of a delay above the baseline, and below it, that go into it.
const BASELINE: [f64; 2] = [0.001, 0.9];
const FIRST_BASELINE: Duration = Duration::from_millis(100);
/// After a cut the rate rests for so long; a step toward the base rate is made this often.
const CUT_RESTS: Duration = Duration::from_millis(300);
const DECAY_RESTS: Duration = Duration::from_secs(1);
/// The largest packet on the wire, bits: its own time is no queue.
const PACKET_BITS: f64 = 1514.0 * 8.0;

/// A shaper's rate, moved by delays and by what it carried.
pub(super) struct Law {
    limits: Autorate,
    rate_bps: f64,
    baseline_s: f64,
    /// The last delays above the baseline, seconds, and whether each is of a queue.
    window: VecDeque<(f64, bool)>,
    achieved_bps: f64,
    is_achieved_new: bool,
    cut_at: Option<Duration>,
    moved_at: Duration,
}

impl Law {
    pub(super) fn new(limits: Autorate) -> Law {
        Law {
            limits,
            rate_bps: limits.base.bits_per_s() as f64,
            baseline_s: FIRST_BASELINE.as_secs_f64(),
            window: VecDeque::new(),
            achieved_bps: 0.0,
            is_achieved_new: false,
            cut_at: None,
            moved_at: Duration::ZERO,
        }
    }

    pub(super) fn rate(&self) -> Rate {
        Rate::from_bits_per_s(self.rate_bps.round() as u64).unwrap_or(self.limits.base)
    }

    /// The last delay above its baseline, for the log.
    pub(super) fn rise(&self) -> Duration {
        Duration::from_secs_f64(self.window.back().map_or(0.0, |(rise, _)| rise.max(0.0)))
    }

    /// Takes what the shaper carried in the last interval.
    pub(super) fn on_achieved(&mut self, achieved_bps: f64) {
        (self.achieved_bps, self.is_achieved_new) = (achieved_bps, true);
    }

    /// A delay was measured, `now` since the beginning: moves the rate.
    pub(super) fn on_delay(&mut self, now: Duration, delay: Duration) {
        let delay_s = delay.as_secs_f64();
        let part = BASELINE[usize::from(delay_s < self.baseline_s)];
        self.baseline_s += part * (delay_s - self.baseline_s);
        let (rise, own_s) = (delay_s - self.baseline_s, PACKET_BITS / self.rate_bps);
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back((rise, rise > DELAYED.as_secs_f64() + own_s));
        self.step(now, own_s);
        let (least, most) = (self.limits.least.bits_per_s() as f64, self.limits.most.bits_per_s() as f64);
        self.rate_bps = self.rate_bps.clamp(least, most);
    }

    fn step(&mut self, now: Duration, own_s: f64) {
        let mean = self.window.iter().map(|(rise, _)| rise).sum::<f64>() / WINDOW as f64;
        let is_queue = self.window.iter().filter(|(_, is_delayed)| *is_delayed).count() >= DELAYED_LEAST;
        // How far the mean is from the threshold toward this delay, from 0 to 1.
        let toward = |end: Duration| {
            let (from, end) = (DELAYED.as_secs_f64() + own_s, end.as_secs_f64() + own_s);
            ((mean - from) / (end - from)).clamp(0.0, 1.0)
        };
        let scaled = |ends: [f64; 2], part: f64| ends[0] + part * (ends[1] - ends[0]);
        let rests = self.cut_at.is_some_and(|at| now <= at + CUT_RESTS);
        if is_queue {
            if !rests {
                self.rate_bps *= scaled(DOWN, toward(DOWN_MOST));
                (self.cut_at, self.moved_at) = (Some(now), now);
            }
        } else if self.achieved_bps > HIGH_LOAD * self.rate_bps {
            if self.is_achieved_new && !rests {
                self.rate_bps *= scaled(UP, toward(UP_MOST));
                (self.is_achieved_new, self.moved_at) = (false, now);
            }
        } else if now > self.moved_at + DECAY_RESTS {
            let base = self.limits.base.bits_per_s() as f64;
            self.rate_bps = match self.rate_bps > base {
                true => (self.rate_bps * DECAY[0]).max(base),
                false => (self.rate_bps * DECAY[1]).min(base),
            };
            self.moved_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: Duration = Duration::from_millis(50);

    fn law() -> Law {
        let rate = |text: &str| text.parse().unwrap();
        Law::new(Autorate { least: rate("1mbit"), base: rate("10mbit"), most: rate("20mbit") })
    }

    /// So many delays, one every 50 ms, with what was carried told every 200 ms; gives the rate in Mbit/s.
    fn run(law: &mut Law, from: u32, count: u32, delay_ms: u64, achieved_bps: f64) -> f64 {
        for number in from..from + count {
            if number.is_multiple_of(4) {
                law.on_achieved(achieved_bps);
            }
            law.on_delay(PING * number, Duration::from_millis(delay_ms));
        }
        law.rate().bits_per_s() as f64 / 1e6
    }

    #[test]
    fn a_high_load_without_delay_goes_up_4_percent_in_200_ms_to_the_most() {
        let mut law = law();
        let rate = run(&mut law, 0, 36, 30, 9e6);
        // Nine intervals; from the fifth on 9 Mbit/s is less than 75 % of the rate.
        assert!((rate - 10.0 * 1.04_f64.powi(5)).abs() < 1e-3, "{rate}");
        assert_eq!(run(&mut law, 36, 400, 30, 30e6), 20.0);
    }

    #[test]
    fn a_queue_cuts_by_a_quarter_at_most_and_once_in_300_ms() {
        let mut law = law();
        assert_eq!(run(&mut law, 0, 8, 30, 1e6), 10.0);
        // The third of three delays is a queue: their mean over six is 30 ms below what it needs for more than 1 %.
        let rate = run(&mut law, 8, 3, 90, 1e6);
        assert!((9.8..9.91).contains(&rate), "{rate}");
        // 300 ms and one delay later the window is full of them.
        let rate_then = run(&mut law, 11, 7, 200, 1e6);
        assert!((rate_then / rate - 0.75).abs() < 1e-3, "{rate_then}");
        assert_eq!(run(&mut law, 18, 2, 200, 1e6), rate_then, "it rests");
    }

    #[test]
    fn an_idle_line_goes_back_to_its_base_by_1_percent_a_second() {
        let mut law = law();
        run(&mut law, 0, 400, 30, 30e6);
        let rate = run(&mut law, 400, 22, 30, 1e6);
        assert!((rate - 19.8).abs() < 1e-3, "{rate}");
        assert_eq!(run(&mut law, 422, 3000, 30, 1e6), 10.0);
    }

    #[test]
    fn it_never_leaves_its_limits() {
        let mut law = law();
        assert_eq!(run(&mut law, 0, 20, 30, 1e6), 10.0);
        assert_eq!(run(&mut law, 20, 400, 500, 1e6), 1.0);
    }
}
