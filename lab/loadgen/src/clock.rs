//! The clock of a run and the timer that ends a wait.
//!
//! The timer is a `timerfd` on an absolute instant and not the timeout of a wait for events: that counts in milliseconds
//! and is rounded up (`epoll_wait`), or is allowed to end late by a thousandth of itself and never less than the timer slack
//! (`epoll_pwait2`; `select_estimate_accuracy` in fs/select.c), where a request a millisecond late voids the run.

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
    /// On the monotonic clock.
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

    /// CPU time this process has used since the run began.
    pub(crate) fn cpu(&self) -> Nanos {
        read(ClockId::ProcessCPUTime) - self.cpu_began
    }

    pub(crate) fn began_unix(&self) -> Nanos {
        self.began_unix
    }
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    // These clocks never stand before their epoch.
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Becomes readable once, at an instant.
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

    /// Sets the instant, replacing the one before; one that has passed makes it readable at once.
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

    /// The instant came: the next `arm` takes effect even if it is for the same.
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
