//! Earlier processes that are still finishing their work. Until such a process ends, it reads the UDP sockets and
//! writes its logs. After several upgrades in a row there may be several of them. When a process hands over its
//! sockets, it also hands over its connections to earlier processes.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{RecvFlags, SendFlags};
use server::service_manager::NamedSocket;

use super::handover::{BEFORE, receive_with, send_with};

const REOPEN: &[u8] = b"reopen";

/// A connection to each earlier process. It ends with the process.
#[derive(Debug, Default)]
pub struct Before(Vec<OwnedFd>);

impl Before {
    pub fn new(connections: impl IntoIterator<Item = OwnedFd>) -> Before {
        Before(connections.into_iter().collect())
    }

    /// Descriptors that become readable when their process has ended.
    pub fn descriptors(&self) -> &[OwnedFd] {
        &self.0
    }

    pub fn reopen_logs(&self) {
        self.0.iter().for_each(reopen_logs);
    }

    /// Returns true if this removes the last earlier process, so that only the current one is left.
    pub fn forget_ended(&mut self) -> bool {
        let had_some = !self.0.is_empty();
        self.0.retain(|connection| hear(connection) != Heard::End);
        had_some && self.0.is_empty()
    }

    /// The connections to pass to the process that replaces this one.
    pub fn to_pass(&self) -> io::Result<Vec<NamedSocket>> {
        self.0.iter().map(|socket| Ok(NamedSocket { name: BEFORE.into(), socket: socket.try_clone()? })).collect()
    }
}

/// The message that arrived on a connection of [`Successor::connection`](super::handover::Successor::connection).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    Reopen,
    Nothing,
    /// The other process has ended.
    End,
}

/// Reads a message without blocking.
pub fn hear(connection: &OwnedFd) -> Heard {
    match receive_with(connection, RecvFlags::DONTWAIT) {
        Ok(Some((word, _))) if word == REOPEN => Heard::Reopen,
        Ok(Some(_)) => Heard::Nothing,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Heard::Nothing,
        Ok(None) | Err(_) => Heard::End,
    }
}

/// Asks the process at the other end to reopen its logs, because log rotation signals only the main process of a
/// service. A version that does not read this message continues to write to the old files.
fn reopen_logs(connection: &OwnedFd) {
    // An error means that the process has ended.
    let _ = send_with(connection, REOPEN, None, SendFlags::DONTWAIT);
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn this_process_is_alone_once_all_before_it_have_ended() {
        let pair = || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let [(one, first), (other, second)] = [pair(), pair()];
        let mut before = Before::new([one, other]);
        before.reopen_logs();
        assert!([&first, &second].into_iter().all(|process| hear(process) == Heard::Reopen));
        let passed = before.to_pass().unwrap();
        assert!(passed.len() == 2 && passed.iter().all(|one| one.name == BEFORE));
        drop(first);
        assert!(!before.forget_ended() && before.descriptors().len() == 1);
        drop(second);
        assert!(before.forget_ended() && !before.forget_ended());
    }
}
