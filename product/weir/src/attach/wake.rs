//! Decides when attached interfaces are checked: soon after the kernel reports a change, and otherwise rarely.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ::uplink::{ChangeWatch, Changed, Error};
use cli::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The time over which changes are collected for one check. Each check doubles it, up to the maximum; after a time
/// without a check it is reset.
const GATHER: Duration = Duration::from_millis(100);
const GATHER_MAX: Duration = Duration::from_secs(5);
const CALM: Duration = Duration::from_secs(10);
/// The maximum length of a single wait while changes are collected, so that signals are handled promptly.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Waits for changes and for the signals that end a follower.
pub struct Wake {
    changes: ChangeWatch,
    signals: UnixStream,
    is_ending: Arc<AtomicBool>,
    pace: Pace,
}

impl Wake {
    pub fn open() -> Result<Wake, Failure> {
        let failure = |error: std::io::Error| Failure::Failed(error.to_string());
        let is_ending = Arc::new(AtomicBool::new(false));
        let (signals, raised) = UnixStream::pair().map_err(failure)?;
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&is_ending)).map_err(failure)?;
            let raised = raised.try_clone().map_err(failure)?;
            signal_hook::low_level::pipe::register(signal, raised).map_err(failure)?;
        }
        Ok(Wake { changes: ChangeWatch::open()?, signals, is_ending, pace: Pace::new(Instant::now()) })
    }

    /// Returns true after a signal that ends the process.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    /// Waits until `until`, or less if there is a signal, a report, or a check that is due.
    pub fn wait(&mut self, until: Instant, concerns: impl Fn(Changed) -> bool) -> Result<(), Error> {
        if let Some(due) = self.pace.due {
            // Further changes are of the same look, and wait in the socket.
            sleep(until.min(due).saturating_duration_since(Instant::now()).min(WAIT_MAX));
            return Ok(());
        }
        if !self.is_ending() {
            self.changes.wait(self.signals.as_fd(), until)?;
        }
        self.heed(concerns)
    }

    /// Requests a check if one of the reports that have arrived concerns the caller.
    pub fn heed(&mut self, concerns: impl Fn(Changed) -> bool) -> Result<(), Error> {
        let mut has_changed = false;
        self.changes.read(|changed| has_changed |= concerns(changed))?;
        if has_changed {
            self.call();
        }
        Ok(())
    }

    /// Requests a check, as a change does.
    pub fn call(&mut self) {
        self.pace.call(Instant::now());
    }

    /// Returns true if a requested check is due now.
    pub fn is_due(&self) -> bool {
        self.pace.due.is_some_and(|due| Instant::now() >= due)
    }

    /// Starts a check, which covers all reports so far.
    pub fn look(&mut self) -> Result<(), Error> {
        self.changes.read(|_| ())?;
        self.pace.look(Instant::now());
        Ok(())
    }
}

/// The instants of looks after changes.
struct Pace {
    gather: Duration,
    looked_at: Instant,
    due: Option<Instant>,
}

impl Pace {
    fn new(now: Instant) -> Pace {
        Pace { gather: GATHER, looked_at: now, due: None }
    }

    fn call(&mut self, now: Instant) {
        if now.saturating_duration_since(self.looked_at) >= CALM {
            self.gather = GATHER;
        }
        self.due = self.due.or(Some(now + self.gather));
    }

    fn look(&mut self, now: Instant) {
        self.looked_at = now;
        if self.due.take().is_some() {
            self.gather = (self.gather * 2).min(GATHER_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes that never end are looked at as often as a clock would.
    #[test]
    fn looks_become_rare_while_changes_go_on_and_quick_again_afterwards() {
        let began = Instant::now();
        let mut pace = Pace::new(began);
        let mut now = began;
        let gathered: Vec<u128> = (0..9)
            .map(|_| {
                pace.call(now);
                pace.call(now + Duration::from_millis(1));
                let waited = pace.due.unwrap() - now;
                now += waited;
                pace.look(now);
                waited.as_millis()
            })
            .collect();
        assert_eq!(gathered, [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
        // A look that no change called for changes nothing.
        pace.look(now);
        now += CALM;
        pace.call(now);
        assert_eq!(pace.due, Some(now + GATHER));
    }
}
