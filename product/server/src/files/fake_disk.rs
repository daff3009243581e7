//! A disk that answers only when a test permits it.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::{Stop, Wait};

/// A disk for tests. Some paths are not in memory, and looking those up blocks while the disk hangs.
#[derive(Debug, Clone, Default)]
pub struct FakeDisk(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    cold: BTreeSet<String>,
    hangs: bool,
    /// The number of accesses by threads that may wait.
    asked: usize,
}

impl FakeDisk {
    /// Creates a disk with these paths (below the served folder) on it.
    pub fn of(cold: &[&str]) -> FakeDisk {
        let disk = FakeDisk::default();
        disk.state().cold = cold.iter().map(ToString::to_string).collect();
        disk
    }

    pub fn set_hanging(&self, hangs: bool) {
        self.state().hangs = hangs;
        self.0.1.notify_all();
    }

    /// Waits until the disk has been accessed this many times.
    pub fn wait_asked(&self, times: usize) {
        let mut state = self.state();
        while state.asked < times {
            state = self.0.1.wait(state).unwrap();
        }
    }

    pub fn asked(&self) -> usize {
        self.state().asked
    }

    pub(super) fn ask(&self, path: &[u8], wait: Wait) -> Result<(), Stop> {
        let mut state = self.state();
        if !state.cold.iter().any(|cold| cold.as_bytes() == path) {
            return Ok(());
        }
        if wait == Wait::Never {
            return Err(Stop::WouldWait);
        }
        state.asked += 1;
        self.0.1.notify_all();
        while state.hangs {
            state = self.0.1.wait(state).unwrap();
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap()
    }
}
