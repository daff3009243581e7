//! Wakes an event loop from another thread, through an eventfd in its epoll.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// A wake-up flag. If the flag is set before the loop clears it, the loop finds the cause; if it is set later, it wakes
/// the loop again.
#[derive(Debug)]
pub struct Wake(OwnedFd);

impl Wake {
    pub fn new() -> io::Result<Wake> {
        Ok(Wake(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    pub fn set(&self) {
        // The counter cannot overflow: the loop clears it, and 2^64 wake-ups take a while.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Clears the flag. The loop must call this before it looks for the cause: a later cause then wakes the loop again,
    /// at worst for nothing.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::Poll;
    use rustix::event::epoll::EventFlags;
    use units::Nanos;

    #[test]
    fn it_is_ready_from_the_setting_to_the_clearing() {
        let (mut poll, wake) = (Poll::new().unwrap(), Wake::new().unwrap());
        poll.add(&wake, 7, EventFlags::IN).unwrap();
        for _ in 0..2 {
            poll.wait(Some(Nanos::ZERO)).unwrap();
            assert_eq!(poll.left(), 0);
            wake.set();
            wake.set();
            poll.wait(Some(Nanos::from_secs(1000))).unwrap();
            assert_eq!(poll.left(), 1);
            poll.take();
            wake.clear();
        }
    }
}
