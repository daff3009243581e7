//! How a server ends: with its sockets, or after they were handed over to the process that follows it.

use std::sync::atomic::{AtomicU8, Ordering};

const GOES_ON: u8 = 0;
const ENDS: u8 = 1;
const HANDED_OVER: u8 = 2;

/// What all event loops are told.
#[derive(Debug, Default)]
pub struct Stop(AtomicU8);

impl Stop {
    /// They finish what is being sent, within the time that they have for that.
    pub fn ask(&self) {
        let _ = self.0.compare_exchange(GOES_ON, ENDS, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Another process has the sockets. They finish what is being sent, however long that takes.
    pub fn ask_handed_over(&self) {
        self.0.store(HANDED_OVER, Ordering::Release);
    }

    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire) != GOES_ON
    }

    pub fn is_handed_over(&self) -> bool {
        self.0.load(Ordering::Acquire) == HANDED_OVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_handed_over_stays_so() {
        let stop = Stop::default();
        assert!(!stop.is_asked());
        stop.ask_handed_over();
        stop.ask();
        assert!(stop.is_asked() && stop.is_handed_over());
        let stop = Stop::default();
        stop.ask();
        assert!(stop.is_asked() && !stop.is_handed_over());
    }
}
