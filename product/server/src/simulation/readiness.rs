//! The readiness that is reported to the server: of its wake-up, and of connections whose readiness changed.

use std::collections::VecDeque;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::wake::Wake;

pub struct Readiness {
    wake: Arc<Wake>,
    /// The token under which the wake-up is announced.
    pub wake_token: u64,
    pub marked: VecDeque<usize>,
}

impl Readiness {
    pub fn new(wake: Arc<Wake>) -> Readiness {
        Readiness { wake, wake_token: 0, marked: VecDeque::new() }
    }

    pub fn is_woken(&self) -> bool {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&*self.wake, PollFlags::IN)], Some(&AT_ONCE)) == Ok(1)
    }
}
