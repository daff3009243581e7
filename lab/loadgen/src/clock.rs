//! The clock of a run and the timer that ends a wait.
//!
//! The timer is a `timerfd` set to an absolute instant, because the timeout of a wait for events is too imprecise.
//! `epoll_wait` counts in milliseconds and rounds up. `epoll_pwait2` may end late by a thousandth of the timeout, and
//! by at least the timer slack (`select_estimate_accuracy` in fs/select.c). A request that is a millisecond late voids
//! the run.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use units::Nanos;

/// Time since the run began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// The start of the run on the monotonic clock.
    began: Nanos,
    cpu_began: Nanos,
    began_unix: Nanos,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        let cpu_began = read(ClockId::ProcessCPUTime);
        Clock { began_unix: read(ClockId::Realtime), cpu_began, began: read(ClockId::Monotonic) }
    }

    pub(crate) fn now(&self) -> Nanos {
        read(ClockId::Monotonic) - self.began
    }

    /// The CPU time that this process has used since the run began.
    pub(crate) fn cpu(&self) -> Nanos {
        read(ClockId::ProcessCPUTime) - self.cpu_began
    }

    pub(crate) fn began_unix(&self) -> Nanos {
        self.began_unix
    }
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    // These clocks are never before their epoch.
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// A timer whose descriptor becomes readable once, at an instant.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: OwnedFd,
    armed: Option<Nanos>,
}

impl Timer {
    pub(crate) fn new() -> Result<Timer, Errno> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Timer { fd, armed: None })
    }

    /// Sets the instant and replaces the previous one. If it has passed, the timer becomes readable immediately.
    pub(crate) fn arm(&mut self, clock: &Clock, at: Nanos) -> Result<(), Errno> {
        if self.armed == Some(at) {
            return Ok(());
        }
        let it_value = timespec(clock.began + at);
        let once = Itimerspec { it_interval: timespec(Nanos::ZERO), it_value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &once)?;
        self.armed = Some(at);
        Ok(())
    }

    /// Acknowledges that the instant came, so that the next `arm` takes effect even for the same instant.
    pub(crate) fn expired(&mut self) {
        self.armed = None;
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn timespec(at: Nanos) -> Timespec {
    Timespec { tv_sec: (at.0 / 1_000_000_000) as i64, tv_nsec: (at.0 % 1_000_000_000) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn the_timer_fires_not_before_its_instant() {
        let (clock, mut timer) = (Clock::start(), Timer::new().unwrap());
        for at in [Nanos::from_millis(3), Nanos::from_millis(3), Nanos::ZERO] {
            timer.arm(&clock, at).unwrap();
            poll(&mut [PollFd::new(&timer, PollFlags::IN)], None).unwrap();
            assert!(clock.now() >= at);
            timer.expired();
        }
    }

    #[test]
    fn clocks_run_forward() {
        let clock = Clock::start();
        let before = (clock.now(), clock.cpu());
        let busy: u64 = (0..1_000_000).map(std::hint::black_box).sum();
        assert!(busy > 0 && clock.now() > before.0 && clock.cpu() > before.1);
        assert!(clock.began_unix() > Nanos::from_secs(1_600_000_000));
    }
}
