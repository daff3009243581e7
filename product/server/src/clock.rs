//! The two clocks: the host's ([`Nanos`]) and the clients' ([`ClientTime`]). The clients' clock stops while the process
//! does not run, so that no client misses a deadline because the server could not listen.

use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::time::{ClockId, clock_gettime};
use units::Nanos;

/// Reads the monotonic clock: nanoseconds since some fixed instant, the same on all threads. It is not affected by
/// changes to the host's time, and it stands still while the host sleeps.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The minimum lateness that counts as a pause. A turn takes milliseconds, so an event loop that is this late did not
/// run.
const PAUSE_MIN: Nanos = Nanos::from_secs(1);

/// An instant on the clients' clock. All deadlines of clients are such instants, and so is the deadline of a request to
/// an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientTime(Nanos);

impl ClientTime {
    /// The deadline of a wait without a limit.
    pub const NEVER: ClientTime = ClientTime(Nanos::MAX);

    /// Returns the instant at which the clock has run for this long.
    #[cfg(any(test, feature = "testing"))]
    pub const fn after(span: Nanos) -> ClientTime {
        ClientTime(span)
    }
}

impl Add<Nanos> for ClientTime {
    type Output = ClientTime;

    fn add(self, span: Nanos) -> ClientTime {
        ClientTime(self.0 + span)
    }
}

impl Sub<Nanos> for ClientTime {
    type Output = ClientTime;

    fn sub(self, span: Nanos) -> ClientTime {
        ClientTime(self.0 - span)
    }
}

impl Sub for ClientTime {
    type Output = Nanos;

    fn sub(self, other: ClientTime) -> Nanos {
        self.0 - other.0
    }
}

/// The clients' clock of an event loop. Its copies show the same time.
#[derive(Debug, Clone, Default)]
pub struct ClientClock(Arc<AtomicU64>);

impl ClientClock {
    /// Returns the clients' time at this time of the host.
    pub fn at(&self, now: Nanos) -> ClientTime {
        ClientTime(now - Nanos(self.0.load(Relaxed)))
    }

    /// Stops the clock for the time in which an event loop did not run. `elapsed` has passed since its last turn began,
    /// after which it was to wait for at most `timeout`. Either the process was stopped or a disk blocked it. Waiting
    /// without a timeout is not a pause.
    pub fn pause(&self, elapsed: Nanos, timeout: Option<Nanos>) {
        let late = timeout.map_or(Nanos::ZERO, |timeout| elapsed - timeout);
        if late >= PAUSE_MIN {
            self.0.fetch_add(late.0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stands_still_while_the_loop_does_not_run_and_only_then() {
        let (clock, second) = (ClientClock::default(), Nanos::from_secs);
        let of_others = clock.clone();
        for (elapsed, timeout) in [(second(3600), None), (second(5), Some(second(5)))] {
            clock.pause(elapsed, timeout);
        }
        clock.pause(Nanos::from_millis(10), Some(second(5)));
        clock.pause(Nanos::from_millis(5_900), Some(second(5)));
        assert_eq!(clock.at(second(100)), ClientTime::after(second(100)));
        clock.pause(second(65), Some(second(5)));
        assert_eq!([&clock, &of_others].map(|clock| clock.at(second(165))), [ClientTime::after(second(105)); 2]);
    }
}
