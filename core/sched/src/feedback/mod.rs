//! The pace where the queue cannot be read: learned from round trips and losses.
//!
//! A told rate that is a few per cent too high fills the queue of a router or a modem, and everything leaves it in the order of
//! arrival: the order is gone. Round trips show it. So [`Feedback`] takes the told rate as a ceiling and lowers the pace
//! when the queue in front of all clients grows while we send at full pace, or when packets of all clients are lost (a policer drops
//! instead of queueing). What the line carries follows from acknowledgements: it is first in, first out, so everything sent before
//! an acknowledged packet has gone through ([`sent`]). The queue is drained, the pace put a little below that rate, and raised again step by step.
//!
//! The obvious statistic, the round trips of each connection, fails twice: a connection that begins in a queue never
//! sees less, and a client behind a slow link of its own would slow everybody. So minima are kept per client, and the
//! queue is no longer than the delay of the client that sees least ([`evidence`]). A cut is also a test: if the queue stays,
//! it belongs to others on the same line, and the pace returns to where it was.

mod clients;
mod evidence;
mod look;
mod notice;
mod rise;
mod sent;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use units::{Nanos, Rate, wire};

use clients::{Clients, Load};
use evidence::{Evidence, Least};
pub use look::{Look, Looks, Seen};
pub use notice::{Change, Notice, Signal};
use rise::{RISE_EVERY, Rise};
use sent::Sent;

/// Evidence is judged this often, or every [`EPOCH_PACKETS`].
const EPOCH: Nanos = Nanos::from_millis(100);
const EPOCH_PACKETS: u64 = 32;
/// Epochs remembered: the line's rate is measured over a second at most.
const HISTORY_MAX: usize = 10;
/// What the line carries is measured over this or longer.
const CARRIED_FOR: Nanos = Nanos::from_millis(60);
/// A delay below this, and the time of two packets, is no queue.
const DELAY_MIN: Nanos = Nanos::from_millis(4);
/// A queue is ours if at some time in it this much of the pace was used,
const BUSY_PERMILLE: u64 = 900;
/// and on average this much.
const MOSTLY_PERMILLE: u64 = 700;
/// Less than this for two epochs, and no queue is ours.
const LIGHT_PERMILLE: u64 = 500;
/// Losses are judged this often, while this much of the pace is used.
const LOSS_WINDOW: Nanos = Nanos::from_secs(1);
const LOSS_BUSY_PERMILLE: u64 = 500;
/// A line that drops this much or more of all clients' bytes has no room for them.
const LOSS_PERMILLE: u64 = 10;
const LOST_BYTES_MIN: u64 = 4 * PACKET_BYTES;
/// Of the rate that the line was found to carry, this much is used.
const MARGIN_PERMILLE: u64 = 985;
/// Where the line's rate cannot be told, a cut goes to this part of the pace.
const UNKNOWN_PERMILLE: u64 = 900;
/// Such a cut comes after so many epochs with a queue.
const UNKNOWN_EPOCHS: usize = 3;
/// Nothing makes the pace slower than this part of the ceiling.
const FLOOR_PARTS: u64 = 64;
/// A drain ends after this, however long the queue.
const DRAIN_MAX: Nanos = Nanos::from_secs(4);
/// What loses packets may have a queue that was there before any client came: then none has seen less.
const DRAIN_UNSEEN: Nanos = Nanos::from_millis(250);
/// Cuts in a row that may leave the queue as it was; then it is not ours.
const CUTS_MAX: u32 = 3;
/// How long a queue that is not ours is left alone, doubled each time.
const FOREIGN_MIN: Nanos = Nanos::from_secs(10);
const FOREIGN_MAX: Nanos = Nanos::from_secs(160);
/// A rise is told when no cut came for so long: at a steady rate the pace looks for room again and again.
const TOLD_AFTER: Nanos = Nanos::from_secs(30);
/// Time in which we do not see that there is room counts this part.
const UNCLEAR_PARTS: u64 = 8;
const PACKET_BYTES: u64 = wire::bytes_of(wire::SEGMENT_BYTES, wire::SEGMENT_BYTES);

/// The pace that the line allows, at most the one we were told. Rates are in bits per second.
#[derive(Debug)]
pub struct Feedback {
    ceiling: u64,
    rate: u64,
    clients: Clients,
    evidence: Evidence,
    epoch: Span,
    sent: Sent,
    history: VecDeque<Epoch>,
    losses: Evidence,
    loss_window: Span,
    phase: Phase,
    trial: Option<Trial>,
    rise: Rise,
    /// The queue of others is left alone until then, and for how long the next time.
    foreign_until: Nanos,
    foreign_for: Nanos,
    /// The pace of the last notice.
    told: u64,
    cut_at: Nanos,
}

/// What began when, and how many bytes had been charged then.
#[derive(Debug, Clone, Copy)]
struct Span {
    began: Nanos,
    charged_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Epoch {
    from: Span,
    lasted: Nanos,
    lost_bytes: u64,
    delay: Option<Nanos>,
    /// What had gone through the line when the delay was that long.
    passed: Option<Span>,
    used_permille: u64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Free,
    /// Slower than the line until then, so that its queue empties; afterwards at this rate.
    Draining {
        until: Nanos,
        then: u64,
    },
    /// What is seen until then is from before.
    Settling {
        until: Nanos,
    },
}

/// A cut whose effect is not known yet.
#[derive(Debug, Clone, Copy)]
struct Trial {
    rate_before: u64,
    signal: Signal,
    cuts: u32,
}

impl Feedback {
    pub fn new(ceiling: Rate) -> Feedback {
        let ceiling = ceiling.bits_per_s();
        let start = Span { began: Nanos::ZERO, charged_bytes: 0 };
        Feedback {
            ceiling,
            rate: ceiling,
            clients: Clients::default(),
            evidence: Evidence::default(),
            epoch: start,
            sent: Sent::default(),
            history: VecDeque::with_capacity(HISTORY_MAX + 1),
            losses: Evidence::default(),
            loss_window: start,
            phase: Phase::Free,
            trial: None,
            rise: Rise::new(),
            foreign_until: Nanos::ZERO,
            foreign_for: FOREIGN_MIN,
            told: ceiling,
            cut_at: Nanos::ZERO,
        }
    }

    pub fn rate(&self) -> Rate {
        rate(self.rate)
    }

    /// A connection was looked at; `client` is called where something is to be learned. `charged_bytes` as for [`Feedback::poll`].
    pub fn on_look(&mut self, now: Nanos, charged_bytes: u64, client: impl Fn() -> u64, look: Look) {
        if look.rtt.is_none() && look.lost_bytes == 0 {
            return;
        }
        let client = client();
        if let Some(rtt) = look.rtt {
            self.on_round_trip(now, charged_bytes, client, rtt);
        }
        if look.lost_bytes > 0 {
            self.on_lost(client, look.lost_bytes);
        }
    }

    /// A round trip was measured on a connection of this client; `charged_bytes` as for [`Feedback::poll`].
    pub fn on_round_trip(&mut self, now: Nanos, charged_bytes: u64, client: u64, rtt: Nanos) {
        let load = self.load(now, charged_bytes);
        self.sent.remember(now, charged_bytes);
        let bounds = self.clients.on_round_trip(now, client, rtt, load);
        let passed = self.sent.passed(now - rtt, bounds.at_most);
        self.evidence.on_round_trip(now, client, rtt, bounds, passed);
        self.losses.on_round_trip(now, client, rtt, bounds, passed);
    }

    /// Bytes to this client were sent again.
    pub fn on_lost(&mut self, client: u64, wire_bytes: u64) {
        self.evidence.on_lost(client, wire_bytes);
        self.losses.on_lost(client, wire_bytes);
    }

    /// To be called whenever bytes may leave; `charged_bytes` is all that was handed to the link so far. Gives the pace
    /// where it changes.
    pub fn poll(&mut self, now: Nanos, charged_bytes: u64) -> Option<Change> {
        self.sent.remember(now, charged_bytes);
        if let Phase::Draining { until, then } = self.phase
            && now >= until
        {
            self.phase = Phase::Settling { until: now + self.lag() };
            return Some(self.change(now, charged_bytes, then, None));
        }
        if now - self.epoch.began < EPOCH.max(rate(self.rate).time_for(EPOCH_PACKETS * PACKET_BYTES)) {
            return None;
        }
        let used_permille = self.close_epoch(now, charged_bytes);
        let lost = self.close_loss_window(now, charged_bytes);
        let change = self.judge(now, charged_bytes, used_permille, lost);
        self.evidence.clear();
        change
    }

    fn judge(&mut self, now: Nanos, charged: u64, used_permille: u64, lost: Option<u64>) -> Option<Change> {
        match self.phase {
            Phase::Draining { .. } => return None,
            Phase::Settling { until } if now < until => return None,
            Phase::Settling { .. } => {
                self.phase = Phase::Free;
                self.forget(now, charged);
                return None;
            }
            Phase::Free => {}
        }
        if let Some(trial) = self.trial {
            return self.verify(now, charged, trial, lost);
        }
        if now < self.foreign_until {
            return None;
        }
        let threshold = self.threshold();
        if self.is_queued(threshold) && self.is_ours() {
            let delay = self.evidence.delay().unwrap_or_default().delay;
            return Some(self.cut(now, charged, Signal::Delay(delay)));
        }
        if let Some(permille) = lost.filter(|permille| *permille >= LOSS_PERMILLE) {
            return Some(self.cut(now, charged, Signal::Loss(permille)));
        }
        self.rise(now, charged, used_permille, threshold)
    }

    /// Whether the queue is there now, and was in the epoch before unless it is long.
    fn is_queued(&self, threshold: Nanos) -> bool {
        let is_long = self.evidence.delay().is_some_and(|least| least.delay.0 > 4 * threshold.0);
        let before = usize::from(!is_long);
        let mut earlier = self.history.iter().rev().skip(1).take(before);
        self.evidence.is_queued(threshold)
            && self.history.len() > before
            && earlier.all(|epoch| epoch.delay.is_some_and(|delay| delay > threshold))
    }

    /// Whether the cut has emptied the queue, or ended the losses.
    fn verify(&mut self, now: Nanos, charged: u64, trial: Trial, lost: Option<u64>) -> Option<Change> {
        let is_gone = match trial.signal {
            Signal::Delay(before) => self.evidence.delay()?.delay <= self.threshold().max(Nanos(before.0 / 2)),
            Signal::Loss(before) => lost? <= before / 4,
        };
        if is_gone {
            self.trial = None;
            self.foreign_for = FOREIGN_MIN;
            return None;
        }
        if matches!(trial.signal, Signal::Delay(_)) && self.history.len() < 2 {
            // Whether it grows is known after two looks.
            return None;
        }
        if trial.cuts < CUTS_MAX {
            let signal = match trial.signal {
                Signal::Delay(_) => Signal::Delay(self.evidence.delay()?.delay),
                Signal::Loss(_) => Signal::Loss(lost?),
            };
            return Some(self.cut(now, charged, signal));
        }
        self.trial = None;
        self.foreign_until = now + self.foreign_for;
        let notice = Notice::Foreign { signal: trial.signal, rate: rate(trial.rate_before), lasts: self.foreign_for };
        self.foreign_for = Nanos(2 * self.foreign_for.0).min(FOREIGN_MAX);
        self.told = trial.rate_before;
        Some(self.change(now, charged, trial.rate_before, Some(notice)))
    }

    fn cut(&mut self, now: Nanos, charged: u64, signal: Signal) -> Change {
        let line = match signal {
            Signal::Delay(_) => self.carried().unwrap_or(self.rate * UNKNOWN_PERMILLE / 1000),
            Signal::Loss(permille) => self.rate * 1000u64.saturating_sub(permille) / 1000,
        };
        let line = line.clamp(self.rate / 2, self.rate * 99 / 100).max(self.ceiling / FLOOR_PARTS);
        let Trial { rate_before, signal: first, cuts } =
            self.trial.unwrap_or(Trial { rate_before: self.rate, signal, cuts: 0 });
        self.trial = Some(Trial { rate_before, signal: first, cuts: cuts + 1 });
        self.cut_at = now;
        let line = self.rise.on_cut(line);
        let then = (line * MARGIN_PERMILLE / 1000).max(1);
        let notice = self.tell(signal, then);
        // At half of the line's rate the queue is gone after twice its time, unless others add to it.
        let drain_for = Nanos(2 * self.queue_now(now, line).0);
        let drain_for = if let Signal::Loss(_) = signal { drain_for.max(DRAIN_UNSEEN) } else { drain_for };
        self.phase = Phase::Draining { until: now + drain_for.min(DRAIN_MAX), then };
        self.change(now, charged, line >> (cuts + 1), notice)
    }

    /// How long the line needs for its queue: as seen, and what was added since.
    fn queue_now(&self, now: Nanos, line: u64) -> Nanos {
        let Some(Least { delay, seen_at, .. }) = self.evidence.delay() else { return Nanos::ZERO };
        let excess = u128::from(self.rate.saturating_sub(line)) * u128::from((now - seen_at).0) / u128::from(line);
        delay + Nanos(u64::try_from(excess).unwrap_or(u64::MAX).min(DRAIN_MAX.0))
    }

    /// What the line carried while a queue was there, bits per second.
    ///
    /// The line is first in, first out: when a packet is acknowledged, everything charged before it has gone through. Two such marks
    /// give the rate, whatever we sent between them, as long as the line was never idle.
    fn carried(&self) -> Option<u64> {
        let to = self.history.back()?.passed?;
        let queued = self.queued().count();
        let (mut from, mut lost_bytes) = (None, 0);
        for epoch in self.queued() {
            from = epoch.passed.or(from);
            lost_bytes += epoch.lost_bytes;
        }
        let first = self.queued().last()?;
        if first.used_permille >= BUSY_PERMILLE {
            // The line was not idle either while the queue came.
            from = match self.history.iter().rev().nth(queued) {
                Some(before) if before.used_permille >= BUSY_PERMILLE => before.passed.or(from),
                Some(_) => from,
                None if self.trial.is_none() && queued < HISTORY_MAX => Some(first.from),
                None => from,
            };
        }
        let from = from?;
        let lasted = to.began - from.began;
        let bytes = to.charged_bytes.saturating_sub(from.charged_bytes).saturating_sub(lost_bytes);
        let bits = u128::from(bytes) * 8_000_000_000;
        u64::try_from(bits.checked_div(lasted.0.into())?).ok().filter(|_| lasted >= CARRIED_FOR)
    }

    /// The epochs with a queue, backwards from the last.
    fn queued(&self) -> impl Iterator<Item = &Epoch> {
        let least = Nanos(self.threshold().0 / 2);
        let is_queued = move |epoch: &&Epoch| epoch.delay.is_none_or(|delay| delay > least);
        self.history.iter().rev().take_while(is_queued)
    }

    /// Whether we sent at full pace at some time in this queue, and at most of it on average; and what the line carries is known.
    fn is_ours(&self) -> bool {
        let (mut used, mut lasted, mut most) = (0, 0, 0);
        for epoch in self.queued() {
            used += epoch.used_permille * epoch.lasted.0;
            lasted += epoch.lasted.0;
            most = most.max(epoch.used_permille);
        }
        let is_known = self.carried().is_some() || self.queued().count() >= UNKNOWN_EPOCHS;
        is_known && most >= BUSY_PERMILLE && used / lasted.max(1) >= MOSTLY_PERMILLE
    }

    fn rise(&mut self, now: Nanos, charged: u64, used_permille: u64, threshold: Nanos) -> Option<Change> {
        let is_steady = now - self.cut_at >= TOLD_AFTER;
        if self.rate == self.ceiling {
            let is_news = is_steady && self.told < self.ceiling;
            return is_news.then(|| Change { rate: self.rate(), notice: Some(self.tell_rise(self.ceiling)) });
        }
        let lasted = self.history.back().map_or(Nanos::ZERO, |epoch| epoch.lasted).min(RISE_EVERY);
        let is_clear = used_permille >= BUSY_PERMILLE && !self.evidence.is_queued(Nanos(threshold.0 / 2));
        if self.losses.lost_by_all_bytes() >= LOST_BYTES_MIN {
            return None;
        }
        let lasted = if is_clear { lasted } else { Nanos(lasted.0 / UNCLEAR_PARTS) };
        let permille = self.rise.advance(lasted)?;
        let next = (self.rate + (self.rate * permille / 1000).max(1)).min(self.ceiling);
        let notice = (is_steady && next > self.told + self.told / 4).then(|| self.tell_rise(next));
        self.rate = next;
        self.epoch = Span { began: now, charged_bytes: charged };
        Some(Change { rate: self.rate(), notice })
    }

    fn tell_rise(&mut self, next: u64) -> Notice {
        self.told = next;
        Notice::Rose { rate: rate(next), ceiling: rate(self.ceiling) }
    }

    /// The first cut is told, and any that leads elsewhere.
    fn tell(&mut self, signal: Signal, then: u64) -> Option<Notice> {
        if self.told < self.ceiling && then.abs_diff(self.told) * 20 < self.told {
            return None;
        }
        self.told = then;
        Some(Notice::Fell { signal, from: self.rate(), to: rate(then) })
    }

    fn change(&mut self, now: Nanos, charged: u64, next: u64, notice: Option<Notice>) -> Change {
        self.rate = next.clamp(1, self.ceiling);
        self.forget(now, charged);
        Change { rate: self.rate(), notice }
    }

    /// What was seen at another pace says nothing of this one.
    fn forget(&mut self, now: Nanos, charged_bytes: u64) {
        self.history.clear();
        self.losses.clear();
        self.epoch = Span { began: now, charged_bytes };
        self.loss_window = self.epoch;
    }

    fn close_epoch(&mut self, now: Nanos, charged_bytes: u64) -> u64 {
        let bytes = charged_bytes.saturating_sub(self.epoch.charged_bytes);
        let lasted = now - self.epoch.began;
        let used_permille = used_permille(self.rate, lasted, bytes);
        let least = self.evidence.delay();
        let (delay, passed) = (least.map(|least| least.delay), least.and_then(|least| least.passed));
        let lost_bytes = self.evidence.lost_bytes();
        self.history.push_back(Epoch { from: self.epoch, lasted, lost_bytes, delay, passed, used_permille });
        if self.history.len() > HISTORY_MAX {
            self.history.pop_front();
        }
        self.epoch = Span { began: now, charged_bytes };
        used_permille
    }

    /// Thousandths of all bytes that were lost in a window that just ended; `None` while it lasts, or if little was sent.
    fn close_loss_window(&mut self, now: Nanos, charged_bytes: u64) -> Option<u64> {
        let lasted = now - self.loss_window.began;
        if lasted < LOSS_WINDOW {
            return None;
        }
        let bytes = charged_bytes.saturating_sub(self.loss_window.charged_bytes);
        let lost = self.losses.lost_by_all_bytes();
        self.losses.clear();
        self.loss_window = Span { began: now, charged_bytes };
        if used_permille(self.rate, lasted, bytes) < LOSS_BUSY_PERMILLE {
            return None;
        }
        Some(if lost < LOST_BYTES_MIN { 0 } else { (lost * 1000 / bytes.max(1)).min(1000) })
    }

    fn load(&self, now: Nanos, charged_bytes: u64) -> Load {
        let bytes = charged_bytes.saturating_sub(self.epoch.charged_bytes);
        let is_light = used_permille(self.rate, (now - self.epoch.began).max(EPOCH), bytes) < LIGHT_PERMILLE;
        let mut before = self.history.iter().rev().take(2);
        if is_light && before.all(|epoch| epoch.used_permille < LIGHT_PERMILLE) && matches!(self.phase, Phase::Free) {
            return Load::Light;
        }
        let delay = self.history.back().and_then(|epoch| epoch.delay);
        if delay.is_some_and(|delay| delay.0 <= self.threshold().0 / 2) { Load::Unqueued } else { Load::Full }
    }

    fn threshold(&self) -> Nanos {
        DELAY_MIN + rate(self.rate).time_for(2 * PACKET_BYTES)
    }

    /// How long it takes until round trips tell of a change: they are measured when they end, and smoothed.
    fn lag(&self) -> Nanos {
        EPOCH + Nanos(2 * self.losses.rtt_max().min(DRAIN_MAX).0)
    }
}

fn used_permille(rate: u64, lasted: Nanos, bytes: u64) -> u64 {
    let could = u128::from(rate) * u128::from(lasted.0) / 8_000_000_000;
    u64::try_from(u128::from(bytes) * 1000 / could.max(1)).unwrap_or(u64::MAX)
}

fn rate(bits_per_s: u64) -> Rate {
    Rate::from_bits_per_s(bits_per_s.max(1)).expect("a rate below one that was given")
}
