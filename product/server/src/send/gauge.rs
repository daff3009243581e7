//! Reading the queue below us, and living without.
//!
//! What is read belongs to somebody else: an operator changes the shaper's rate, takes it away or puts another there, the
//! interface goes and comes. None of this may stop a response. A reading that fails leaves the clock alone (stale); when
//! nothing can be read for a while the gauge is lost, and the pace falls to what is safe without it, until it is found again.

use std::io;

use sched::BLIND_PERMILLE;
use units::{Nanos, Rate};

use super::Notice;

/// How often the queue below is read at most.
const READ_EVERY_MIN: Nanos = Nanos::from_micros(500);
/// A reading may cost so much of a core, in thousandths: the kernel answers with the queues of every interface, and a host
/// with hundreds of containers has hundreds. Then it is read less often.
const READ_COST_PERMILLE: u64 = 20;
/// How fast the cost of a reading may seem to rise, with each reading.
const COST_STEP: Nanos = Nanos::from_micros(1);
/// Failing for this long, the gauge is lost.
const LOST_AFTER: Nanos = Nanos::from_secs(1);

/// The queue below, wherever it is read.
pub trait Queue: Send {
    /// Its name for the log: the interface.
    fn name(&self) -> &str;
    /// Bytes that wait now, and packets dropped so far.
    fn read(&mut self) -> io::Result<Queued>;
    /// Looks for it anew; gives the rate it is emptied at, or nothing where no such queue limits us.
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
    /// Nothing was read since.
    Stale(Nanos),
    Lost,
}

pub struct Gauge {
    queue: Box<dyn Queue>,
    state: State,
    read_at: Nanos,
    /// What a reading costs when nothing interrupts it.
    cost: Nanos,
    /// The queue's, as it was last found; `None` before.
    rate: Option<Rate>,
    /// The most that the operator says the line carries, wherever its bottleneck is.
    told: Option<Rate>,
    failure: Option<String>,
}

impl Gauge {
    /// A queue that is emptied at `rate`; where it is lost, `told` is the rate to be careful with, or else its own.
    pub fn new(queue: Box<dyn Queue>, rate: Rate, told: Option<Rate>) -> Gauge {
        let (state, failure) = (State::Fresh, None);
        Gauge { queue, state, read_at: Nanos::ZERO, cost: Nanos::ZERO, rate: Some(rate), told, failure }
    }

    /// A queue that may be there one day, on a line of this rate, if that is known.
    pub fn missing(queue: Box<dyn Queue>, told: Option<Rate>) -> Gauge {
        let (state, failure) = (State::Lost, None);
        Gauge { queue, state, read_at: Nanos::ZERO, cost: Nanos::ZERO, rate: told, told, failure }
    }

    /// The interface the queue is at.
    pub fn name(&self) -> &str {
        self.queue.name()
    }

    /// It was read the last time that it was tried.
    pub fn is_fresh(&self) -> bool {
        self.state == State::Fresh
    }

    pub fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    /// The queue now; `None` if it was read a moment ago or cannot be read.
    pub fn read(&mut self, now: Nanos, clock: &impl Fn() -> Nanos) -> Option<Queued> {
        let read_every = READ_EVERY_MIN.max(Nanos(self.cost.0.saturating_mul(1000 / READ_COST_PERMILLE)));
        if self.state == State::Lost || now - self.read_at < read_every {
            return None;
        }
        self.read_at = now;
        let read = self.queue.read();
        // A reading that was interrupted seems dear: what it costs rises slowly and falls at once.
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

    /// To be called about once a second: what has become of the queue. A new rate is to be paced at from now on.
    pub fn check(&mut self, now: Nanos) -> Option<(Rate, Notice)> {
        let found = self.queue.find();
        let interface = self.queue.name().to_string();
        match found {
            // Found and not to be read would be lost again, once a second.
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
