//! Waiting for readiness: epoll with the tokens and time-outs we use.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use units::Nanos;

/// Events taken from the kernel at once; the rest wait for the next turn, in which they come first.
const EVENTS_PER_TURN_MAX: usize = 512;

pub struct Poll {
    epoll: OwnedFd,
    ready: Vec<Ready>,
}

/// One ready descriptor.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    pub token: u64,
    pub flags: epoll::EventFlags,
}

impl Poll {
    pub fn new() -> io::Result<Poll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poll { epoll, ready: Vec::with_capacity(EVENTS_PER_TURN_MAX) })
    }

    pub fn add(&self, source: impl AsFd, token: u64, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, epoll::EventData::new_u64(token), flags)?)
    }

    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits until something is ready, for at most `timeout`; for ever without one. An interrupting signal ends it too.
    pub fn wait(&mut self, timeout: Option<Nanos>) -> io::Result<()> {
        self.ready.clear();
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: (timeout.0 / 1_000_000_000) as i64,
            tv_nsec: (timeout.0 % 1_000_000_000) as i64,
        });
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_PER_TURN_MAX];
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => {
                self.ready.extend(events.iter().map(|event| Ready { token: event.data.u64(), flags: event.flags }));
                Ok(())
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// The `at`-th ready descriptor of the last wait.
    pub fn ready(&self, at: usize) -> Ready {
        self.ready[at]
    }
}
