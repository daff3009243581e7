//! What the interface sends that nobody handed down: read when a grant could be made, so that it may wait for a request that is on
//! its way ([`sched::Drain::on_passed`]).

use std::io;

use sched::Passed;
use units::Nanos;

/// How often at most.
const READ_EVERY: Nanos = Nanos::from_micros(500);

/// The counters of the interface our responses leave by.
pub trait Counters: Send {
    fn passed(&mut self) -> io::Result<Passed>;
}

pub struct Outlet {
    /// `None` once they could not be read: who asks meanwhile waits behind a packet more.
    counters: Option<Box<dyn Counters>>,
    read_at: Nanos,
}

impl Outlet {
    pub fn new(counters: Box<dyn Counters>) -> Outlet {
        Outlet { counters: Some(counters), read_at: Nanos::ZERO }
    }

    /// The counters now; `None` if they were read a moment ago or cannot be read.
    pub fn read(&mut self, now: Nanos) -> Option<Passed> {
        if now - self.read_at < READ_EVERY {
            return None;
        }
        self.read_at = now;
        let passed = self.counters.as_mut()?.passed();
        if passed.is_err() {
            self.counters = None;
        }
        passed.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Few(u64);

    impl Counters for Few {
        fn passed(&mut self) -> io::Result<Passed> {
            self.0 = self.0.checked_sub(1).ok_or_else(|| io::Error::other("gone"))?;
            Ok(Passed { bytes: 100, packets: self.0 })
        }
    }

    #[test]
    fn counters_are_read_now_and_then_and_never_again_when_they_are_gone() {
        let mut outlet = Outlet::new(Box::new(Few(2)));
        let mut packets_at = |at: Nanos| outlet.read(at).map(|passed| passed.packets);
        assert_eq!(packets_at(READ_EVERY), Some(1));
        assert_eq!(packets_at(READ_EVERY + READ_EVERY - Nanos(1)), None);
        assert_eq!(packets_at(READ_EVERY + READ_EVERY), Some(0));
        assert_eq!(packets_at(Nanos::from_secs(1)), None);
        assert!(outlet.counters.is_none());
        assert_eq!(outlet.read(Nanos::from_secs(2)), None);
    }
}
