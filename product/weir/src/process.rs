//! A process held by a file descriptor (pidfd_open(2)), so that a later process with the same number cannot be mistaken
//! for it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process; `None` if it had already ended.
pub struct Process(Option<OwnedFd>);

impl Process {
    pub fn of(pid: u32) -> io::Result<Process> {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(Process(None)) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => Ok(Process(Some(process))),
            Err(Errno::SRCH) => Ok(Process(None)),
            Err(errno) => Err(errno.into()),
        }
    }

    pub fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Waits for the process to end, at most this long. A zombie counts as ended.
    pub fn ends_within(&self, wait: Duration) -> bool {
        let Some(process) = &self.0 else { return true };
        let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        loop {
            match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)) {
                Err(Errno::INTR) => {}
                ready => return ready.is_ok_and(|count| count > 0),
            }
        }
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(&self, signal: Signal) {
        if let Some(process) = &self.0 {
            let _ = pidfd_send_signal(process, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_is_seen() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(!process.has_ended());
        process.signal(Signal::KILL);
        assert!(process.ends_within(Duration::from_secs(60)), "its parent has not waited for it");
        child.wait().unwrap();
        assert!(process.has_ended() && Process::of(child.id()).unwrap().has_ended());
        assert!(Process::of(u32::MAX).unwrap().has_ended() && Process::of(0).unwrap().has_ended());
    }
}
