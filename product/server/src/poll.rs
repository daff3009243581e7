//! Waits for readiness: epoll with our tokens and timeouts.
//!
//! Timeouts are in nanoseconds (`epoll_pwait2`, Linux 5.11). System call filters that are older refuse that call, and
//! some containers have such a filter. In that case `ppoll` waits for the epoll descriptor, equally precisely, at the
//! cost of one more system call.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;
use units::Nanos;

use crate::sys;

/// The maximum number of events taken from the kernel at once. The rest are handled first in the next turn.
const EVENTS_PER_TURN_MAX: usize = 512;

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
    ready: Vec<Ready>,
    /// The number of entries of `ready` that were taken.
    taken: usize,
    /// See [`Poll::reports`].
    reports: u64,
    /// The reason why `epoll_pwait2` is not used, if it is not.
    refusal: Option<Errno>,
    /// Room for the kernel's events if `epoll_pwait2` is not used; otherwise empty.
    events: Vec<sys::EpollEvent>,
}

/// A ready descriptor.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    pub token: u64,
    pub flags: epoll::EventFlags,
}

impl Poll {
    pub fn new() -> io::Result<Poll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (ready, events) = (Vec::with_capacity(EVENTS_PER_TURN_MAX), Vec::new());
        let mut poll = Poll { epoll, ready, taken: 0, reports: 0, refusal: None, events };
        // Tried here so that a thread that could not wait is found before it is started.
        match poll.wait_exactly(Some(AT_ONCE)) {
            Err(error @ (Errno::NOSYS | Errno::PERM)) => poll.refusal = Some(error),
            outcome => outcome?,
        }
        Ok(poll)
    }

    /// The reason why `epoll_pwait2` is not used, if it is not.
    pub fn refusal(&self) -> Option<io::Error> {
        self.refusal.map(io::Error::from)
    }

    pub fn add(&self, source: impl AsFd, token: u64, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, epoll::EventData::new_u64(token), flags)?)
    }

    pub fn modify(&self, source: impl AsFd, token: u64, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, epoll::EventData::new_u64(token), flags)?)
    }

    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits until something is ready, for at most `timeout`, or without limit if that is `None`. A signal also ends
    /// the wait. Returns immediately if something that became ready earlier has not been taken.
    pub fn wait(&mut self, timeout: Option<Nanos>) -> io::Result<()> {
        if self.left() > 0 {
            return Ok(());
        }
        self.ready.clear();
        self.taken = 0;
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: (timeout.0 / 1_000_000_000) as i64,
            tv_nsec: (timeout.0 % 1_000_000_000) as i64,
        });
        let waited = if self.refusal.is_none() { self.wait_exactly(timeout) } else { self.wait_in_two(timeout) };
        self.reports += u64::from(self.left() < EVENTS_PER_TURN_MAX);
        match waited {
            Err(Errno::INTR) => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    fn wait_exactly(&mut self, timeout: Option<Timespec>) -> rustix::io::Result<()> {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_PER_TURN_MAX];
        let (events, _) = epoll::wait(&self.epoll, &mut events, timeout.as_ref())?;
        self.ready.extend(events.iter().map(|event| Ready { token: event.data.u64(), flags: event.flags }));
        Ok(())
    }

    fn wait_in_two(&mut self, timeout: Option<Timespec>) -> rustix::io::Result<()> {
        if timeout != Some(AT_ONCE) {
            rustix::event::poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], timeout.as_ref())?;
        }
        let ready = &mut self.ready;
        self.events.resize(EVENTS_PER_TURN_MAX, sys::EpollEvent { events: 0, u64: 0 });
        sys::epoll_take(&self.epoll, &mut self.events, |token, flags| {
            ready.push(Ready { token, flags: epoll::EventFlags::from_bits_retain(flags) });
        })
    }

    /// The number of ready descriptors that have not been taken yet.
    pub fn left(&self) -> usize {
        self.ready.len() - self.taken
    }

    /// Returns true if the descriptor with this token is ready and has not been taken yet.
    pub fn is_left(&self, token: u64) -> bool {
        self.ready[self.taken..].iter().any(|ready| ready.token == token)
    }

    /// The number of times that the kernel has reported all ready descriptors.
    pub fn reports(&self) -> u64 {
        self.reports
    }

    pub fn take(&mut self) -> Option<Ready> {
        let ready = self.ready.get(self.taken).copied()?;
        self.taken += 1;
        Some(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::Wake;

    /// Returns one poll for each way of waiting.
    fn polls() -> [Poll; 2] {
        let refused = Poll { refusal: Some(Errno::NOSYS), ..Poll::new().unwrap() };
        [Poll::new().unwrap(), refused]
    }

    #[test]
    fn what_is_ready_is_told_with_its_token_and_flags() {
        for mut poll in polls() {
            let (first, second) = (Wake::new().unwrap(), Wake::new().unwrap());
            poll.add(&first, 7, epoll::EventFlags::IN).unwrap();
            poll.add(&second, u64::MAX, epoll::EventFlags::IN).unwrap();
            poll.wait(Some(Nanos::ZERO)).unwrap();
            assert_eq!(poll.left(), 0);
            second.set();
            poll.wait(None).unwrap();
            assert_eq!(poll.left(), 1);
            first.set();
            poll.wait(None).unwrap();
            assert_eq!(poll.left(), 1, "what is left comes first");
            assert!(poll.is_left(u64::MAX) && !poll.is_left(7));
            assert_eq!(poll.reports(), 2, "the kernel was not asked again");
            assert_eq!(poll.take().map(|ready| (ready.token, ready.flags)), Some((u64::MAX, epoll::EventFlags::IN)));
            assert!(poll.take().is_none());
            poll.wait(Some(Nanos::from_secs(1000))).unwrap();
            assert_eq!(poll.left(), 2);
        }
    }

    #[test]
    fn a_time_out_is_never_early() {
        for mut poll in polls() {
            let (began, wait) = (std::time::Instant::now(), Nanos::from_micros(1300));
            poll.wait(Some(wait)).unwrap();
            assert!(began.elapsed().as_nanos() >= u128::from(wait.0));
            assert_eq!(poll.left(), 0);
        }
    }
}
