use rustix::time::{ClockId, clock_gettime};
use units::Nanos;

/// Reads the monotonic clock: nanoseconds since some fixed instant, the same on all threads. It is not affected by
/// changes to the host's time, and it stands still while the host sleeps.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The minimum lateness that counts as a pause: a turn takes milliseconds, so a loop this late did not run.
const PAUSE_MIN: Nanos = Nanos::from_secs(1);

/// Returns how long a loop did not run, given that `elapsed` has passed since its last turn began, after which it was
/// due to wait for at most `timeout`. The process was stopped, or a disk blocked it. Nothing was read from its clients
/// meanwhile, so they get that much more time. Waiting without a timeout is not a pause.
pub fn paused(elapsed: Nanos, timeout: Option<Nanos>) -> Nanos {
    let late = timeout.map_or(Nanos::ZERO, |timeout| elapsed - timeout);
    if late >= PAUSE_MIN { late } else { Nanos::ZERO }
}

/// Moves an instant later by a pause.
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
