use rustix::time::{ClockId, clock_gettime};
use units::Nanos;

/// The monotonic clock: nanoseconds since some fixed instant, the same on all threads. Setting the host's time does not
/// move it, and it stands still while the host sleeps.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// A loop that is this late did not run: a turn takes milliseconds.
const PAUSE_MIN: Nanos = Nanos::from_secs(1);

/// For how long a loop did not run, of `elapsed` since its last turn began, after which it was to wait for at most
/// `timeout`: the process was stopped, or a disk held it up. Its clients were not heard meanwhile and have that much more
/// time. Waiting without a time-out is no pause.
pub fn paused(elapsed: Nanos, timeout: Option<Nanos>) -> Nanos {
    let late = timeout.map_or(Nanos::ZERO, |timeout| elapsed - timeout);
    if late >= PAUSE_MIN { late } else { Nanos::ZERO }
}

/// An instant moved by a pause.
pub fn later(at: Nanos, paused: Nanos) -> Nanos {
    Nanos(at.0.saturating_add(paused.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_loop_did_not_ask_for_is_a_pause() {
        let second = Nanos::from_secs;
        assert_eq!(paused(second(3600), None), Nanos::ZERO);
        assert_eq!(paused(second(5), Some(second(5))), Nanos::ZERO);
        assert_eq!(paused(Nanos::from_millis(10), Some(second(5))), Nanos::ZERO);
        assert_eq!(paused(Nanos::from_millis(5_900), Some(second(5))), Nanos::ZERO);
        assert_eq!(paused(second(65), Some(second(5))), second(60));
    }
}
