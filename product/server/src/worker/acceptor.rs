//! The listening sockets of a worker: whose client is next, and whether new ones are heard of.

use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;

use super::LISTENER;
use crate::listen::Listener;
use crate::net::{Net, Source};

pub(super) struct Acceptor<N: Net> {
    /// At least one, until another process has them.
    listeners: Vec<Listener<N>>,
    is_accepting: bool,
    /// The listener that was asked last.
    last: usize,
    /// Connections could not be accepted for want of descriptors or memory, and this was said.
    is_short: bool,
    /// Connections accepted in this turn; memory that is kept from one to the next.
    pub(super) newcomers: Vec<usize>,
}

impl<N: Net> Acceptor<N> {
    pub fn new(listeners: Vec<Listener<N>>) -> Acceptor<N> {
        Acceptor { listeners, is_accepting: false, last: 0, is_short: false, newcomers: Vec::new() }
    }

    pub fn listeners(&self) -> &[Listener<N>] {
        &self.listeners
    }

    /// The listener of the client accepted last.
    pub fn last(&self) -> &Listener<N> {
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
    pub fn resume(&mut self, net: &N) -> io::Result<()> {
        let mut listeners = self.listeners.iter();
        if let Err(error) =
            listeners.try_for_each(|listener| net.add(Source::Listener(&listener.socket), LISTENER, listener.events()))
        {
            self.remove(net);
            return Err(error);
        }
        self.is_accepting = true;
        Ok(())
    }

    /// Clients wait in the kernel's queue from now on.
    pub fn pause(&mut self, net: &N) {
        if std::mem::take(&mut self.is_accepting) {
            self.remove(net);
        }
    }

    fn remove(&self, net: &N) {
        for listener in &self.listeners {
            let _ = net.remove(Source::Listener(&listener.socket));
        }
    }

    /// Another process has the sockets that it wants, and lets clients in. Where it has not, they are refused.
    pub fn leave(&mut self, net: &N) {
        self.pause(net);
        self.listeners.clear();
    }

    /// Clients are refused from now on, but at sockets that other processes have too.
    pub fn refuse(&self, net: &N) {
        self.listeners.iter().for_each(|listener| listener.refuse(net));
    }

    /// From the first listener that has a client, the others first the next time.
    pub fn accept_next(&mut self, net: &N) -> Result<(N::Tcp, Option<SocketAddr>), Errno> {
        for _ in 0..self.listeners.len() {
            self.last = (self.last + 1) % self.listeners.len();
            match net.accept(&self.last().socket) {
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

    pub fn is_client_waiting(&self, net: &N) -> bool {
        net.is_client_waiting(self.listeners.iter().map(|listener| &listener.socket))
    }
}

#[cfg(test)]
impl<N: Net> Acceptor<N> {
    pub fn first_mut(&mut self) -> &mut Listener<N> {
        &mut self.listeners[0]
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

    use units::Nanos;

    use super::*;
    use crate::net::Os;

    fn two() -> (Acceptor<Os>, [SocketAddr; 2], Os) {
        let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = [0, 1].map(|at: usize| sockets[at].local_addr().unwrap());
        let listeners = sockets.map(|socket| {
            socket.set_nonblocking(true).unwrap();
            Listener::from(OwnedFd::from(socket))
        });
        (Acceptor::new(listeners.into()), addresses, Os::new().unwrap())
    }

    #[test]
    fn listeners_take_turns() {
        let (mut acceptor, addresses, net) = two();
        assert!(!acceptor.is_client_waiting(&net));
        let _clients = [0, 0, 1].map(|at: usize| TcpStream::connect(addresses[at]).unwrap());
        assert!(acceptor.is_client_waiting(&net));
        let order = [(); 3].map(|()| {
            acceptor.accept_next(&net).unwrap();
            acceptor.last
        });
        assert_eq!(order, [1, 0, 0]);
        assert_eq!(acceptor.accept_next(&net).err(), Some(Errno::AGAIN));
    }

    #[test]
    fn a_shortage_is_said_once_until_all_are_accepted() {
        let (mut acceptor, _, net) = two();
        assert!(acceptor.on_shortage() && acceptor.is_short() && !acceptor.on_shortage());
        assert!(acceptor.accept_next(&net).is_err() && !acceptor.is_short() && acceptor.on_shortage());
    }

    #[test]
    fn a_paused_acceptor_hears_of_nobody() {
        let (mut acceptor, addresses, mut net) = two();
        acceptor.resume(&net).unwrap();
        acceptor.pause(&net);
        let _client = TcpStream::connect(addresses[1]).unwrap();
        net.wait(Some(Nanos::ZERO)).unwrap();
        assert!(!acceptor.is_accepting() && !net.is_left(LISTENER));
        acceptor.resume(&net).unwrap();
        net.wait(Some(Nanos::ZERO)).unwrap();
        assert!(acceptor.is_accepting() && net.is_left(LISTENER));
    }
}
