//! Round trips of ICMP echoes, as `ping` measures them. The kernel of the other side answers.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

const REQUEST: u8 = 8;
const REPLY: u8 = 0;
/// ICMP's header, and as much payload as `ping` sends.
const HEADER_BYTES: usize = 8;
const ECHO_BYTES: usize = HEADER_BYTES + 56;
/// Echoes that may be under way; what comes after so many others is forgotten.
const UNDER_WAY_MAX: usize = 256;

/// A socket of its own for echoes, which the kernel numbers.
pub(super) struct Pinger {
    socket: Socket,
    next: u16,
    /// Numbers of echoes under way, and when each left.
    under_way: VecDeque<(u16, Instant)>,
}

impl Pinger {
    /// In the namespace of the calling thread, where groups may have such sockets (`ping_group_range`).
    pub(super) fn open(to: Ipv4Addr) -> io::Result<Pinger> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::ICMPV4))?;
        socket.connect(&SocketAddr::from((to, 0)).into())?;
        Ok(Pinger { socket, next: 0, under_way: VecDeque::new() })
    }

    pub(super) fn send(&mut self) -> io::Result<()> {
        let mut echo = [0; ECHO_BYTES];
        echo[0] = REQUEST;
        // The checksum and the identity are the kernel's.
        echo[6..8].copy_from_slice(&self.next.to_be_bytes());
        self.under_way.push_back((self.next, Instant::now()));
        if self.under_way.len() > UNDER_WAY_MAX {
            self.under_way.pop_front();
        }
        self.next = self.next.wrapping_add(1);
        match self.socket.send(&echo) {
            Err(error) if !is_no_answer(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// The next round trip that is there within this time.
    pub(super) fn receive(&mut self, within: Duration) -> io::Result<Option<Duration>> {
        if within.is_zero() {
            return Ok(None);
        }
        self.socket.set_read_timeout(Some(within))?;
        let mut reply = [0; ECHO_BYTES];
        match self.socket.read(&mut reply) {
            Ok(bytes) if bytes >= HEADER_BYTES && reply[0] == REPLY => {
                let number = u16::from_be_bytes([reply[6], reply[7]]);
                let place = self.under_way.iter().position(|(sent, _)| *sent == number);
                Ok(place.and_then(|place| self.under_way.remove(place)).map(|(_, at)| at.elapsed()))
            }
            Ok(_) => Ok(None),
            Err(error) if is_no_answer(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Nothing came in time, a signal came first, or nobody is there: the next echo says more.
fn is_no_answer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted | ConnectionRefused | HostUnreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once a signal ended the run.
    #[test]
    fn a_signal_and_a_silence_are_no_mistakes() {
        let of = |number| is_no_answer(&io::Error::from_raw_os_error(number));
        // EINTR, EAGAIN, ECONNREFUSED, EHOSTUNREACH; not EBADF and EPERM.
        assert_eq!([4, 11, 111, 113, 9, 1].map(of), [true, true, true, true, false, false]);
    }
}
