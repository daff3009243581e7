//! Reads the queue below the server, and decides on the pace while the queue cannot be read.
//!
//! The queue is not the server's own. An operator may change the shaper's rate, remove it or install another; the
//! interface may disappear and reappear. None of this may stop a response. If a reading fails, the queue counts as
//! stale, and only the clock is used. If none succeeds for a while, the gauge is lost. The pace then falls to a rate
//! that is safe without the gauge, until the queue is found again.

use std::io;

use sched::BLIND_PERMILLE;
use units::{Nanos, Rate};

use super::Notice;

/// The minimum time between two readings of the queue.
const READ_EVERY_MIN: Nanos = Nanos::from_micros(500);
/// The maximum cost of readings, in thousandths of a core. The kernel answers with the queues of every interface; on a
/// host with hundreds of containers, and so hundreds of interfaces, the queue is read less often.
const READ_COST_PERMILLE: u64 = 20;
/// The maximum rise of the measured cost with each reading.
const COST_STEP: Nanos = Nanos::from_micros(1);
/// The time for which every reading must fail before the gauge is lost.
const LOST_AFTER: Nanos = Nanos::from_secs(1);

/// The queue below the server, and the means of reading it.
pub trait Queue: Send {
    /// The queue's name for the log: the interface.
    fn name(&self) -> &str;
    /// Reads the number of waiting bytes, and of packets dropped so far.
    fn read(&mut self) -> io::Result<Queued>;
    /// Searches for the queue again. Returns the rate at which it is emptied, or `None` if no queue below limits the
    /// server.
    fn find(&mut self) -> io::Result<Option<Rate>>;
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queued {
    pub bytes: u64,
    pub drops: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fresh,
    /// Readings have failed since this time.
    Stale(Nanos),
    Lost,
}

pub struct Gauge {
    queue: Box<dyn Queue>,
    state: State,
    read_at: Nanos,
    /// The time that an uninterrupted reading takes.
    cost: Nanos,
    /// The queue's rate when it was last found; `None` if it was never found.
    rate: Option<Rate>,
    /// The operator's maximum rate for the line, whatever limits it.
    told: Option<Rate>,
    failure: Option<String>,
}

impl Gauge {
    /// Creates the gauge of a queue that is emptied at `rate`. If the gauge is lost, the safe rate is derived from the
    /// configured rate, or else from `rate`.
    pub fn new(queue: Box<dyn Queue>, rate: Rate, told: Option<Rate>) -> Gauge {
        let (state, failure) = (State::Fresh, None);
        Gauge { queue, state, read_at: Nanos::ZERO, cost: Nanos::ZERO, rate: Some(rate), told, failure }
    }

    /// Creates a gauge without a queue, which may appear later, on a line of the given rate if that is known.
    pub fn missing(queue: Box<dyn Queue>, told: Option<Rate>) -> Gauge {
        let (state, failure) = (State::Lost, None);
        Gauge { queue, state, read_at: Nanos::ZERO, cost: Nanos::ZERO, rate: told, told, failure }
    }

    /// The interface of the queue.
    pub fn name(&self) -> &str {
        self.queue.name()
    }

    /// Returns true if the last attempt to read the queue succeeded.
    pub fn is_fresh(&self) -> bool {
        self.state == State::Fresh
    }

    pub fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    /// Reads the queue; `None` if it was read a moment ago or cannot be read.
    pub fn read(&mut self, now: Nanos, clock: &impl Fn() -> Nanos) -> Option<Queued> {
        let read_every = READ_EVERY_MIN.max(Nanos(self.cost.0.saturating_mul(1000 / READ_COST_PERMILLE)));
        if self.state == State::Lost || now - self.read_at < read_every {
            return None;
        }
        self.read_at = now;
        let read = self.queue.read();
        // An interrupted reading seems expensive, so the estimated cost rises slowly and falls immediately.
        self.cost = (clock() - now).min(self.cost + Nanos(self.cost.0 / 8) + COST_STEP);
        match read {
            Ok(queued) => {
                self.state = State::Fresh;
                Some(queued)
            }
            Err(error) => {
                if self.state == State::Fresh {
                    self.state = State::Stale(now);
                }
                self.failure = Some(error.to_string());
                None
            }
        }
    }

    /// Checks whether the queue still exists. Called about once a second. Returns the new rate for pacing if it has
    /// changed.
    pub fn check(&mut self, now: Nanos) -> Option<(Rate, Notice)> {
        let found = self.queue.find();
        let interface = self.queue.name().to_string();
        match found {
            // A queue that is found but still cannot be read stays lost. Otherwise it would be lost again every second.
            Ok(Some(rate)) if self.state == State::Lost => {
                self.queue.read().ok()?;
                (self.state, self.rate, self.failure) = (State::Fresh, Some(rate), None);
                Some((rate, Notice::QueueFound { interface, rate }))
            }
            Ok(Some(rate)) if self.rate.is_some_and(|known| known != rate) => {
                let before = self.rate.replace(rate)?;
                Some((rate, Notice::RateChanged { interface, before, rate }))
            }
            Ok(Some(_)) => match self.state {
                State::Stale(since) if now - since >= LOST_AFTER => self.lose(interface, None),
                _ => None,
            },
            Ok(None) => self.lose(interface, Some("no shaper limits it any more".into())),
            Err(error) => self.lose(interface, Some(error.to_string())),
        }
    }

    fn lose(&mut self, interface: String, why: Option<String>) -> Option<(Rate, Notice)> {
        if std::mem::replace(&mut self.state, State::Lost) == State::Lost {
            return None;
        }
        let why = why.or(self.failure.take()).unwrap_or_default();
        let rate = self.told.or(self.rate)?.permille(BLIND_PERMILLE);
        Some((rate, Notice::QueueLost { interface, why, rate }))
    }
}
