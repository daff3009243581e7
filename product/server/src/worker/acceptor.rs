//! The listening sockets of a worker: whose client is next, and whether new ones are heard of.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags};

use super::LISTENER;
use crate::listen::Listener;
use crate::poll::Poll;

pub(super) struct Acceptor {
    /// At least one.
    listeners: Vec<Listener>,
    is_accepting: bool,
    /// The listener that was asked last.
    last: usize,
    /// Connections could not be accepted for want of descriptors or memory, and this was said.
    is_short: bool,
}

impl Acceptor {
    pub fn new(listeners: Vec<Listener>) -> Acceptor {
        Acceptor { listeners, is_accepting: false, last: 0, is_short: false }
    }

    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// The listener of the client accepted last.
    pub fn last(&self) -> &Listener {
        &self.listeners[self.last]
    }

    /// Clients are heard of.
    pub fn is_accepting(&self) -> bool {
        self.is_accepting
    }

    /// There was no descriptor or memory for the last client, and some are still to be accepted.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// Clients are heard of from now on, at all listeners or none.
    pub fn resume(&mut self, poll: &Poll) -> io::Result<()> {
        let mut listeners = self.listeners.iter();
        if let Err(error) = listeners.try_for_each(|listener| poll.add(listener, LISTENER, listener.events())) {
            self.remove(poll);
            return Err(error);
        }
        self.is_accepting = true;
        Ok(())
    }

    /// Clients wait in the kernel's queue from now on.
    pub fn pause(&mut self, poll: &Poll) {
        if std::mem::take(&mut self.is_accepting) {
            self.remove(poll);
        }
    }

    fn remove(&self, poll: &Poll) {
        for listener in &self.listeners {
            let _ = poll.remove(listener);
        }
    }

    /// Clients are refused from now on, but at sockets that other processes have too.
    pub fn refuse(&self) {
        self.listeners.iter().for_each(Listener::refuse);
    }

    /// From the first listener that has a client, the others first the next time.
    pub fn accept(&mut self) -> Result<(OwnedFd, Option<SocketAddrAny>), Errno> {
        for _ in 0..self.listeners.len() {
            self.last = (self.last + 1) % self.listeners.len();
            match rustix::net::acceptfrom_with(&self.last().socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Err(Errno::AGAIN) => {}
                accepted => return accepted,
            }
        }
        self.is_short = false;
        Err(Errno::AGAIN)
    }

    /// Whether this is the first since there were clients for all descriptors.
    pub fn on_shortage(&mut self) -> bool {
        !std::mem::replace(&mut self.is_short, true)
    }

    pub fn is_client_waiting(&self) -> bool {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut listeners: Vec<_> =
            self.listeners.iter().map(|listener| PollFd::new(&listener.socket, PollFlags::IN)).collect();
        poll(&mut listeners, Some(&AT_ONCE)).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
impl Acceptor {
    pub fn first_mut(&mut self) -> &mut Listener {
        &mut self.listeners[0]
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use units::Nanos;

    use super::*;

    fn two() -> (Acceptor, [std::net::SocketAddr; 2]) {
        let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = [0, 1].map(|at: usize| sockets[at].local_addr().unwrap());
        let listeners = sockets.map(|socket| {
            socket.set_nonblocking(true).unwrap();
            Listener::from(OwnedFd::from(socket))
        });
        (Acceptor::new(listeners.into()), addresses)
    }

    #[test]
    fn listeners_take_turns() {
        let (mut acceptor, addresses) = two();
        assert!(!acceptor.is_client_waiting());
        let _clients = [0, 0, 1].map(|at: usize| TcpStream::connect(addresses[at]).unwrap());
        assert!(acceptor.is_client_waiting());
        let order = [(); 3].map(|()| {
            acceptor.accept().unwrap();
            acceptor.last
        });
        assert_eq!(order, [1, 0, 0]);
        assert_eq!(acceptor.accept().err(), Some(Errno::AGAIN));
    }

    #[test]
    fn a_shortage_is_said_once_until_all_are_accepted() {
        let (mut acceptor, _) = two();
        assert!(acceptor.on_shortage() && acceptor.is_short() && !acceptor.on_shortage());
        assert!(acceptor.accept().is_err() && !acceptor.is_short() && acceptor.on_shortage());
    }

    #[test]
    fn a_paused_acceptor_hears_of_nobody() {
        let (mut acceptor, addresses) = two();
        let mut poll = Poll::new().unwrap();
        acceptor.resume(&poll).unwrap();
        acceptor.pause(&poll);
        let _client = TcpStream::connect(addresses[1]).unwrap();
        poll.wait(Some(Nanos::ZERO)).unwrap();
        assert!(!acceptor.is_accepting() && !poll.is_left(LISTENER));
        acceptor.resume(&poll).unwrap();
        poll.wait(Some(Nanos::ZERO)).unwrap();
        assert!(acceptor.is_accepting() && poll.is_left(LISTENER));
    }
}
