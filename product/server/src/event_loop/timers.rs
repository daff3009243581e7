//! The time within a turn, and the times at which the event loop must run again. No method reads the host's clock.

use std::time::SystemTime;

use http::HttpDate;
use units::Nanos;

use crate::clock::{ClientClock, ClientTime};

/// The maximum length of a turn. Connections still to be read then wait for the next turn, because others may have
/// become ready.
pub(super) const TURN_FOR: Nanos = Nanos::from_millis(5);
const SWEEP_EVERY: Nanos = Nanos::from_secs(1);
/// The minimum time between two attempts to return memory. An attempt takes time proportional to the tables, and the
/// allocator searches all of its free memory.
const GIVE_BACK_EVERY: Nanos = Nanos::from_secs(10);

pub(super) struct Timers {
    /// The time at which this turn began, or at which the transmitter last ran in it.
    now: Nanos,
    clock: ClientClock,
    turn_began_at: Nanos,
    /// The Date field, and the second for which it was made.
    date: HttpDate,
    dated: u64,
    sweep: Sweep,
    /// The first time at which memory may be returned again.
    give_back_at: Nanos,
    /// The time at which a stopping worker ends, even if responses are still being sent.
    stop_at: Option<ClientTime>,
}

#[derive(Default)]
struct Sweep {
    due_at: Nanos,
    /// The slot at which the sweep in progress continues.
    next: Option<usize>,
}

impl Timers {
    pub fn new(now: Nanos, clock: ClientClock) -> Timers {
        Timers {
            now,
            clock,
            turn_began_at: now,
            date: HttpDate::new(SystemTime::UNIX_EPOCH),
            dated: u64::MAX,
            sweep: Sweep::default(),
            give_back_at: Nanos::ZERO,
            stop_at: None,
        }
    }

    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The current time on the clients' clock.
    pub fn client_now(&self) -> ClientTime {
        self.clock.at(self.now)
    }

    pub fn date(&self) -> &HttpDate {
        &self.date
    }

    /// Sets the clock. It should have been read at most `timeout` after the last reading; if it took longer, the
    /// process was paused, and the clients' clock leaves the pause out.
    pub fn advance(&mut self, now: Nanos, timeout: Option<Nanos>) {
        let before = std::mem::replace(&mut self.now, now);
        self.clock.pause(now - before, timeout);
    }

    /// Begins a turn, and makes a new Date field if the second has changed.
    pub fn begin_turn(&mut self, time: impl FnOnce() -> SystemTime) {
        self.turn_began_at = self.now;
        let second = self.now.0 / 1_000_000_000;
        if second != self.dated {
            self.dated = second;
            self.date.update(time());
        }
    }

    /// The time that this turn has taken so far.
    pub fn turn_time(&self, now: Nanos) -> Nanos {
        now - self.turn_began_at
    }

    pub fn is_turn_over(&self, now: Nanos) -> bool {
        self.turn_time(now) >= TURN_FOR
    }

    /// Returns whether a sweep begins in this turn.
    pub fn begin_sweep(&mut self) -> bool {
        let begins = !self.is_sweeping() && self.now >= self.sweep.due_at;
        if begins {
            self.sweep = Sweep { due_at: self.now + SWEEP_EVERY, next: Some(0) };
        }
        begins
    }

    pub fn sweep_due(&self) -> Nanos {
        self.sweep.due_at
    }

    pub fn is_sweeping(&self) -> bool {
        self.sweep.next.is_some()
    }

    /// Returns the slot at which the sweep in progress continues. The sweep is then over, unless
    /// [`Timers::interrupt_sweep`] follows.
    pub fn take_sweep(&mut self) -> Option<usize> {
        self.sweep.next.take()
    }

    /// Makes the next turn continue the sweep at this slot.
    pub fn interrupt_sweep(&mut self, next: usize) {
        self.sweep.next = Some(next);
    }

    /// Returns whether memory may be returned now. If so, it may not be returned again for some seconds.
    pub fn begin_giving_back(&mut self) -> bool {
        let begins = self.now >= self.give_back_at;
        if begins {
            self.give_back_at = self.now + GIVE_BACK_EVERY;
        }
        begins
    }

    /// Schedules the worker's end after at most `timeout`. Returns false if the worker is already stopping.
    pub fn stop(&mut self, timeout: Nanos) -> bool {
        let is_first = !self.is_stopping();
        self.stop_at.get_or_insert(self.clock.at(self.now) + timeout);
        is_first
    }

    pub fn is_stopping(&self) -> bool {
        self.stop_at.is_some()
    }

    /// Returns true if a stopping worker has reached its time limit and must send no more.
    pub fn is_time_up(&self) -> bool {
        self.stop_at.is_some_and(|at| self.client_now() >= at)
    }
}

#[cfg(test)]
impl Timers {
    /// Sets the clock to this instant, forwards or backwards.
    pub fn set(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Sets the clock to the time at which the clients' clock shows `at`.
    pub fn set_to(&mut self, at: ClientTime) {
        self.now += at - self.client_now();
    }

    /// Prevents this turn from ending, however much time passes.
    pub fn hold_turn(&mut self) {
        self.turn_began_at = Nanos::MAX;
    }

    pub fn turn_began_at(&self) -> Nanos {
        self.turn_began_at
    }

    pub fn hasten_sweep(&mut self) {
        self.sweep.due_at = Nanos::ZERO;
    }

    pub fn stop_at(&mut self, at: ClientTime) {
        self.stop_at = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    fn at(seconds: u64) -> Timers {
        Timers::new(Nanos::from_secs(seconds), ClientClock::default())
    }

    #[test]
    fn the_date_is_made_once_a_second() {
        let mut timers = at(5);
        timers.begin_turn(|| UNIX_EPOCH + Duration::from_secs(1));
        let first = timers.date().as_bytes().to_vec();
        assert_eq!(first, b"Thu, 01 Jan 1970 00:00:01 GMT");
        timers.advance(Nanos(5_999_999_999), None);
        timers.begin_turn(|| unreachable!("the second is the same"));
        timers.advance(Nanos::from_secs(6), None);
        timers.begin_turn(|| UNIX_EPOCH + Duration::from_secs(2));
        assert_ne!(timers.date().as_bytes().to_vec(), first);
    }

    #[test]
    fn a_turn_is_over_after_its_time() {
        let mut timers = at(5);
        timers.begin_turn(SystemTime::now);
        let began_at = timers.now();
        assert!(!timers.is_turn_over(began_at + TURN_FOR - Nanos(1)) && timers.is_turn_over(began_at + TURN_FOR));
        // Reading the clock within a turn does not make the turn longer.
        timers.advance(began_at + TURN_FOR, Some(TURN_FOR));
        assert!(timers.is_turn_over(timers.now()));
        timers.begin_turn(SystemTime::now);
        assert_eq!(timers.turn_time(timers.now()), Nanos::ZERO);
    }

    #[test]
    fn a_sweep_begins_once_a_second_and_continues_where_it_was_interrupted() {
        let mut timers = at(5);
        assert!(timers.begin_sweep() && !timers.begin_sweep());
        assert_eq!((timers.take_sweep(), timers.sweep_due()), (Some(0), Nanos::from_secs(6)));
        timers.interrupt_sweep(16);
        timers.set(Nanos::from_secs(9));
        assert!(timers.is_sweeping() && !timers.begin_sweep(), "one is under way");
        assert_eq!([timers.take_sweep(), timers.take_sweep()], [Some(16), None]);
        assert!(timers.begin_sweep());
    }

    #[test]
    fn a_stopping_worker_has_its_time_and_that_of_a_pause() {
        let mut timers = at(5);
        assert!(!timers.is_stopping() && timers.stop(SECOND) && !timers.stop(SECOND));
        assert!(timers.is_stopping() && !timers.is_time_up());
        // The wait was to end immediately, but 60 s have passed.
        timers.advance(Nanos::from_secs(65), Some(Nanos::ZERO));
        assert!(!timers.is_time_up());
        timers.advance(Nanos::from_secs(66), Some(SECOND));
        assert!(timers.is_time_up());
    }

    #[test]
    fn memory_is_given_back_every_ten_seconds() {
        let mut timers = at(5);
        assert!(timers.begin_giving_back() && !timers.begin_giving_back());
        timers.set(Nanos::from_secs(15));
        assert!(timers.begin_giving_back());
    }
}
