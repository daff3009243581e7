//! The rate of the line, found from the bytes that leave and the bytes that arrive.
//!
//! No interface reports the rate of an uplink, and an order gains nothing without it: if the pace exceeds the line's
//! rate, all bytes wait in the queue of a router or modem, first come, first served. So [`Estimator`] measures the
//! line, not flows. It adds up the arrivals on all connections ([`history`]: bytes that clients acknowledge, counted
//! when they passed the line) and finds their limit.
//!
//! - **Open**: no pace, or one far above everything that arrived. As in BBR's start, the maximum that arrived is the
//!   minimum that the line carries. This phase ends with a queue in front of all clients ([`evidence`]), with losses at
//!   all clients, or with a backlog that does not make more arrive than before.
//! - **Growing**: the pace was found while the line was not full all the time. It rises by a quarter in each interval
//!   while all of it arrives.
//! - **Holding**: a pace a little below the rate that a full line carried. It rises slowly with a backlog ([`rise`]),
//!   never far beyond the rate that arrived, and is cut to that rate if a queue, losses or a plateau show. Then the
//!   queue is drained.
//! - **Trial**: every cut is a trial. If the queue stays, it belongs to others on the same line, and the pace returns
//!   to its former value.
//! - **Held**: the queue may be in front of the server, because clients send a lot ([`uploads`]).
//!
//! Round trips of single connections fail in two ways: a connection that begins in a queue never sees a shorter round
//! trip, and a client behind a slow link of its own would slow all others. So minima are kept per client ([`clients`]),
//! and the queue is at most as long as the shortest delay that any client sees. If all clients are silent, nothing
//! changes, because silence is not evidence.
//!
//! The windowed maximum of delivered bytes comes from BBR (Cardwell et al., ACM Queue 14(5), 2016), applied to a whole
//! line instead of a flow.

mod bounds;
mod clients;
mod cut;
mod deep_fall;
mod evidence;
mod found;
mod history;
mod look;
mod losses;
mod measure;
mod notice;
mod probe;
mod rise;
mod sender;
#[cfg(test)]
mod tests;
mod uploads;

use units::{Nanos, Rate, wire};

pub(crate) use bounds::FLOOR;
pub use bounds::{Bounds, BoundsError, is_fast};
use clients::{Clients, Kind, Load, Trip};
use deep_fall::Fall;
use evidence::Evidence;
use found::Found;
use history::{History, Interval, permille_of};
pub use look::{Look, Looks, Seen};
use losses::Losses;
pub use notice::{Change, Limit, Notice, Signal, Status};
use probe::Probe;
use rise::{RISE_EVERY, Rise};
use sender::Sender;

/// The minimum length of an interval. An interval lasts longer if [`INTERVAL_PACKETS`] take longer. Evidence is judged
/// at its end.
const INTERVAL: Nanos = Nanos::from_millis(50);
const INTERVAL_PACKETS: u64 = 32;
/// The shorter length, used if at least [`SHORT_SAMPLES`] round trips were seen. It limits how far a queue grows before
/// it is judged.
const SHORT: Nanos = Nanos::from_millis(25);
const SHORT_PACKETS: u64 = 16;
const SHORT_SAMPLES: u32 = 4;
/// The delay above which a queue is assumed, in addition to the time of two packets.
const DELAY_MIN: Nanos = Nanos::from_millis(3);
/// The part of the pace, in thousandths, that must be sent for the pace to count as fully used.
const BUSY_PERMILLE: u64 = 900;
/// The part of the maximum that the line carried, in thousandths. If we send less than this for three intervals, no
/// queue is ours.
const LIGHT_PERMILLE: u64 = 500;
/// If nothing else is known, the line counts as empty as long as no more bytes than this were sent since the interval
/// began.
const EMPTY_BYTES: u64 = 3 * PACKET_BYTES;
/// The loss, in thousandths of all clients' bytes, that shows an overloaded line.
const LOSS_PERMILLE: u64 = 5;
/// The part of the line's measured rate that is used, in thousandths.
const MARGIN_PERMILLE: u64 = 985;
/// The part of the maximum arrived rate that is used if the line was not full all the time, in thousandths.
const CHANCE_PERMILLE: u64 = 970;
/// The part of the pace, in thousandths, that a cut keeps if the line's rate is unknown.
const UNKNOWN_PERMILLE: u64 = 900;
/// The minimum number of intervals before such a cut.
const UNKNOWN_INTERVALS: usize = 20;
/// The number of consecutive intervals without a longer round trip that prove that a queue is gone. They are needed for
/// clients that were never seen without a queue, because their whole round trip counts as delay.
const UNQUEUED_INTERVALS: usize = 4;
/// The maximum pace, in thousandths of the rate that was seen to arrive.
const BEYOND_PERMILLE: u64 = 1080;
/// The maximum step, in thousandths, of a pace that is as fast as any recent arrival rate.
const STEP_PERMILLE: u64 = 40;
/// The maximum step if only the round trips of a whole second can show a queue ([`Fall::is_slow`]).
const SLOW_STEP_PERMILLE: u64 = 15;
/// The age at which a measurement of the line stops being evidence about the present.
const QUIET_FOR: Nanos = Nanos::from_secs(120);
/// The maximum duration of a drain, regardless of the length of the queue.
const DRAIN_MAX: Nanos = Nanos::from_secs(4);
/// The minimum duration of a drain after losses. The queue may have been there before any client came, so that no
/// client has ever seen a shorter round trip.
const DRAIN_UNSEEN: Nanos = Nanos::from_millis(250);
/// The maximum number of consecutive cuts that leave a queue unchanged; after them, the queue is not ours.
const CUTS_MAX: u32 = 3;
/// The first period for which a queue that is not ours is left alone; doubled each time.
const OTHERS_MIN: Nanos = Nanos::from_secs(10);
const OTHERS_MAX: Nanos = Nanos::from_secs(160);
/// The maximum time in which light losses must return for the clients' paths to be the cause.
const LOSSY_FOR: Nanos = Nanos::from_secs(60);
/// The divisor of time in which nothing clearly shows that the line can carry more.
const UNCLEAR_PARTS: u64 = 8;
const PACKET_BYTES: u64 = wire::bytes_of(wire::SEGMENT_BYTES, wire::SEGMENT_BYTES);

/// Finds the line's rate and sets the pace at which bytes may be sent. The caller reports every look at a connection, a
/// reading of its counters ([`Estimator::on_look`]). When an interval is over ([`Estimator::is_due`]), it looks at all
/// connections that have unacknowledged bytes, and calls [`Estimator::judge`]. Rates are in bits per second.
#[derive(Debug)]
pub struct Estimator {
    bounds: Bounds,
    pace: Option<u64>,
    clients: Clients,
    evidence: Evidence,
    history: History,
    losses: Losses,
    unseen: Unseen,
    phase: Phase,
    trial: Option<Trial>,
    rise: Rise,
    others: Others,
    found: Found,
    sender: Sender,
}

/// The search for queues that no interval shows, by the round trips of a second and by probes.
#[derive(Debug, Default)]
struct Unseen {
    fall: Fall,
    probe: Probe,
}

/// The time until which another sender's queue is left alone, and the length of the next such period.
#[derive(Debug)]
struct Others {
    until: Nanos,
    lasts: Nanos,
    /// The last cut for light losses: when it was made, the pace before it and the pace after it.
    lossy: Option<(Nanos, u64, u64)>,
    /// The pace before it was held because of uploads; 0 if it has been cut since.
    held: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Free,
    /// The pace stays below the line's rate until `until`, so that the line's queue empties; then the pace becomes
    /// `then`.
    Draining {
        until: Nanos,
        then: u64,
        /// True if the drain is a probe ([`probe`]). A probe is not ended early, because it has to show whether there
        /// is a queue.
        is_probe: bool,
    },
    /// Observations until this instant date from before the change and are ignored.
    Settling {
        until: Nanos,
    },
}

/// A cut that has not taken effect yet.
#[derive(Debug, Clone, Copy)]
struct Trial {
    pace_before: Option<u64>,
    signal: Signal,
    /// True if everything arrived before the cut; in that case losses happen on the clients' paths.
    arrived: bool,
    cuts: u32,
    /// The number of intervals in a row, until now, whose round trips showed no queue.
    unqueued: usize,
}

impl Estimator {
    pub fn new(bounds: Bounds) -> Estimator {
        let first = bounds.first.map(Rate::bits_per_s);
        Estimator {
            bounds,
            pace: first,
            clients: Clients::default(),
            evidence: Evidence::default(),
            history: History::default(),
            losses: Losses::default(),
            unseen: Unseen::default(),
            phase: Phase::Free,
            trial: None,
            rise: Rise::new(),
            others: Others { until: Nanos::ZERO, lasts: OTHERS_MIN, lossy: None, held: None },
            found: Found::default(),
            sender: Sender::default(),
        }
    }

    /// Returns the rate at which bytes may be sent; `None` means as fast as sockets take them, because the line's rate
    /// is unknown.
    pub fn pace(&self) -> Option<Rate> {
        self.pace.map(rate)
    }

    /// Records a look at a connection; `client` returns a hash of its prefix and is called only if the look has new
    /// information. `charged_bytes` is the total handed to the link so far.
    pub fn on_look(&mut self, now: Nanos, charged_bytes: u64, client: impl FnOnce() -> u64, look: Look) {
        if look == Look::default() {
            return;
        }
        let client = client();
        if let Some(rtt) = look.rtt {
            let load = self.load(now, charged_bytes);
            let bounds = self.clients.on_round_trip(now, client, Trip { rtt, kind: kind_of(&look) }, load);
            self.evidence.on_round_trip(now, client, rtt, bounds);
            self.losses.evidence.on_round_trip(now, client, rtt, bounds);
            self.unseen.fall.on_round_trip(client, bounds, self.threshold());
        }
        self.history.on_look(now, &look, self.clients.base(client));
        if look.lost_bytes > 0 {
            self.evidence.on_lost(client, look.lost_bytes);
            self.losses.evidence.on_lost(client, look.lost_bytes);
        }
    }

    /// Returns whether an interval is over: the caller must then look at all connections that have unacknowledged
    /// bytes, and call [`Estimator::judge`].
    pub fn is_due(&self, now: Nanos) -> bool {
        let is_drained = matches!(self.phase, Phase::Draining { until, .. } if now >= until);
        let lasted = now - self.history.began();
        is_drained
            || lasted >= self.lasts(INTERVAL, INTERVAL_PACKETS)
            || lasted >= self.lasts(SHORT, SHORT_PACKETS) && self.evidence.samples() >= SHORT_SAMPLES
    }

    /// Records how far ahead of the link the sender hands down bytes, and the total link time that it has lost by
    /// running late ([`crate::Lateness`]). Must be called before [`Estimator::judge`].
    pub fn on_sender(&mut self, ahead: Nanos, lost: Nanos) {
        (self.sender.ahead, self.sender.lost) = (ahead, lost);
    }

    /// Records that no response waits.
    pub fn on_idle(&mut self) {
        self.history.on_idle();
    }

    fn lasts(&self, least: Nanos, packets: u64) -> Nanos {
        self.pace.map_or(least, |pace| least.max(rate(pace).time_for(packets * PACKET_BYTES)))
    }

    /// Ends the interval. Returns the change of the pace, if any, possibly with a notice for the operator.
    pub fn judge(&mut self, now: Nanos, charged_bytes: u64) -> Option<Change> {
        if let Phase::Draining { until, then, is_probe } = self.phase
            && (now >= until || !is_probe && self.evidence.is_gone(self.threshold()))
        {
            return Some(self.end_drain(now, charged_bytes, then, is_probe));
        }
        let delay = self.evidence.delay().map(|least| least.delay);
        let is_late = self.sender.end_interval(now - self.history.began());
        let seen = history::Seen { delay, is_queued: self.evidence.is_queued(Nanos(self.threshold().0 / 2)), is_late };
        let interval = self.history.close(now, charged_bytes, self.pace, seen);
        let is_full = interval.used_permille >= BUSY_PERMILLE || self.evidence.is_queued(self.threshold());
        if is_full && self.found.on_full(now) > QUIET_FOR {
            self.rise.on_quiet();
        }
        let lost = self.losses.close(now, charged_bytes, self.pace);
        let change = if is_late {
            // Acknowledgements were delayed by the same busy processor.
            self.unseen.fall.restart(now);
            None
        } else {
            self.decide(now, charged_bytes, interval, lost)
        };
        self.evidence.clear();
        change
    }

    /// Ends the drain. The line stayed full while its queue emptied, so the bytes that arrived meanwhile show its
    /// present rate.
    fn end_drain(&mut self, now: Nanos, charged_bytes: u64, then: u64, is_probe: bool) -> Change {
        let before = self.trial.and_then(|trial| trial.pace_before).unwrap_or(u64::MAX);
        let carried = self.history.most().unwrap_or(0) / 1000 * MARGIN_PERMILLE;
        let is_fixed = self.others.held.is_some() || is_probe;
        let then = if is_fixed { then } else { then.max(carried.min(before)) };
        self.unseen.probe.on_drained(now);
        // The settling lasts until round trips show the change: they are measured when they end, and smoothed.
        let lag = INTERVAL + Nanos(2 * self.losses.evidence.rtt_max().min(DRAIN_MAX).0);
        self.phase = Phase::Settling { until: now + lag };
        self.evidence.clear();
        self.change(now, charged_bytes, Some(then), None)
    }

    fn raise(&mut self, now: Nanos, charged: u64, interval: Interval, is_clear: bool) -> Option<Change> {
        let pace = self.pace?;
        let most = self.bounds.most.map_or(u64::MAX, Rate::bits_per_s);
        if pace >= most {
            return None;
        }
        if is_clear && self.unseen.fall.is_in_doubt(now, pace < self.history.peak() / 2) {
            self.doubt(now);
        }
        let lasted = interval.run.lasted.min(RISE_EVERY);
        let lasted = if is_clear { lasted } else { Nanos(lasted.0 / UNCLEAR_PARTS) };
        let run = self.history.filled(BUSY_PERMILLE);
        let follows = run.is_enough() && run.arrived_permille() >= measure::PLATEAU_PERMILLE;
        let permille = self.rise.advance(lasted, is_clear && follows)?;
        if !run.is_enough() {
            return None;
        }
        let next = pace.saturating_add((pace / 1000 * permille).max(1)).min(most);
        let arrived = self.history.rate(&run);
        // If others are on the line, growth does not end for want of a queue or loss.
        let is_growing = self.rise.is_growing() && now >= self.others.until;
        let next = if is_growing {
            self.history.forget(now, charged);
            self.losses.restart(now, charged);
            next.min(self.growth_max(pace))
        } else if next <= self.history.carried_peak() / 10 * 9 {
            next.min(self.history.rate(&self.history.filled_lately(BUSY_PERMILLE)) / 1000 * (1000 + permille))
        } else {
            // Beyond the rate seen to arrive, no pace is safe for long.
            let most_permille = if self.unseen.fall.is_slow() { SLOW_STEP_PERMILLE } else { STEP_PERMILLE };
            let step = pace / 1000 * permille.min(most_permille);
            next.min(pace.saturating_add(step.max(1))).min(arrived / 1000 * BEYOND_PERMILLE)
        };
        if next <= pace {
            return None;
        }
        let notice = self.found.on_raised(next);
        self.pace = Some(next);
        Some(Change { pace: self.pace(), notice })
    }

    /// Returns the maximum that a growing pace may reach in one step; near the maximum arrived rate, the step is
    /// smaller.
    fn growth_max(&self, pace: u64) -> u64 {
        let is_near = pace > self.history.peak() / 4 * 3;
        if is_near { pace.saturating_add(pace / 1000 * self.rise.growth_permille(pace)) } else { u64::MAX }
    }

    /// Makes the pace grow again. Another client sees no queue, so other senders do not fill the line either.
    fn doubt(&mut self, now: Nanos) {
        self.rise.grow();
        self.others.until = now;
    }

    fn change(&mut self, now: Nanos, charged: u64, next: Option<u64>, notice: Option<Notice>) -> Change {
        self.pace = next.map(|next| next.max(self.bounds.floor()));
        self.forget(now, charged);
        Change { pace: self.pace(), notice }
    }

    /// Forgets all observations, which prove nothing about a different pace.
    fn forget(&mut self, now: Nanos, charged: u64) {
        self.history.forget(now, charged);
        self.losses.restart(now, charged);
        self.unseen.fall.restart(now);
    }

    fn load(&self, now: Nanos, charged: u64) -> Load {
        let bytes = self.history.charged(charged);
        let most = self.history.peak().min(self.pace.unwrap_or(u64::MAX));
        if !matches!(self.phase, Phase::Free) {
            return self.by_delay();
        }
        if self.unseen.probe.is_midway() {
            return Load::Full;
        }
        if self.history.len() == 0 && most == 0 {
            return if bytes <= EMPTY_BYTES { Load::Light } else { Load::Full };
        }
        let is_light = |bytes: u64, lasted: Nanos| permille_of(most.max(1), lasted, bytes) < LIGHT_PERMILLE;
        let mut before = self.history.backwards().take(2);
        // A line that has fallen lets no more leave than arrives, and the queue is then ours.
        if self.history.was_idle(2)
            && is_light(bytes, (now - self.history.began()).max(INTERVAL))
            && before.all(|interval| is_light(interval.run.charged_bytes, interval.run.lasted))
        {
            return Load::Light;
        }
        self.by_delay()
    }

    fn by_delay(&self) -> Load {
        let delay = self.history.backwards().next().and_then(|interval| interval.delay);
        let is_short = |delay: &Nanos| delay.0 <= self.threshold().0 / 2;
        // A queue that has grown since then, until it was full, is not mere variation.
        let has_grown = self.evidence.least().is_some_and(|least| !is_short(&least));
        let short = delay.filter(|delay| is_short(delay) && !(has_grown && self.is_losing()));
        short.map_or(Load::Full, |delay| Load::Unqueued { delay })
    }

    fn threshold(&self) -> Nanos {
        let pace = self.pace.filter(|_| !self.is_open()).unwrap_or(self.history.peak()).max(bounds::FLOOR);
        DELAY_MIN + rate(pace).time_for(2 * PACKET_BYTES) + self.sender.ahead
    }

    /// Returns the state of the search, for an operator.
    pub fn status(&self, now: Nanos) -> Status {
        self.found.status(now, self.bounds, self.pace())
    }
}

fn kind_of(look: &Look) -> Kind {
    match look {
        Look { is_vague: true, .. } => Kind::Vague,
        Look { is_handshake: true, .. } => Kind::Handshake,
        _ => Kind::Data,
    }
}

fn rate(bits_per_s: u64) -> Rate {
    Rate::from_bits_per_s(bits_per_s.max(1)).expect("a rate above zero")
}
