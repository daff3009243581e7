//! The listening sockets of a worker. Tracks which one accepts next, and whether the event loop watches them.

use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;

use super::LISTENER;
use super::listener::Listener;
use crate::net::{Net, Source};

pub(super) struct Listeners<N: Net> {
    /// The listeners. There is at least one, until another process has taken them over.
    listeners: Vec<Listener<N>>,
    is_accepting: bool,
    /// The index of the listener polled last.
    last: usize,
    /// True if accepting failed for lack of descriptors or memory and this was logged.
    is_short: bool,
    /// The indexes of listeners that are not watched for a while because their sockets fail.
    failed: Vec<usize>,
    /// True if a listener failed and this was logged.
    is_failing: bool,
    /// The connections accepted in this turn. The allocation is reused.
    pub(super) newcomers: Vec<usize>,
}

impl<N: Net> Listeners<N> {
    pub fn new(listeners: Vec<Listener<N>>) -> Listeners<N> {
        let (failed, newcomers) = (Vec::new(), Vec::new());
        Listeners { listeners, is_accepting: false, last: 0, is_short: false, failed, is_failing: false, newcomers }
    }

    pub fn listeners(&self) -> &[Listener<N>] {
        &self.listeners
    }

    /// Returns the listener of the client accepted last.
    pub fn last(&self) -> &Listener<N> {
        &self.listeners[self.last]
    }

    /// Records that no earlier process reads the UDP sockets any more.
    pub fn on_predecessor_ended(&mut self) {
        self.listeners.iter_mut().for_each(|listener| listener.is_udp_waiting = false);
    }

    /// Returns true if the event loop watches the listeners.
    pub fn is_accepting(&self) -> bool {
        self.is_accepting
    }

    /// Returns true if descriptors or memory ran out for the last client and some clients are still waiting to be
    /// accepted.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// Watches all listeners for clients. After an error it watches none.
    pub fn resume(&mut self, net: &N) -> io::Result<()> {
        let mut listeners = self.listeners.iter();
        if let Err(error) =
            listeners.try_for_each(|listener| net.add(Source::Listener(&listener.socket), LISTENER, listener.events()))
        {
            self.remove(net);
            return Err(error);
        }
        self.failed.clear();
        self.is_accepting = true;
        Ok(())
    }

    /// Stops watching the listeners. Clients wait in the kernel's queue.
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

    /// Closes the sockets. At sockets that another process holds too, that process accepts clients; at the others, the
    /// kernel refuses them.
    pub fn leave(&mut self, net: &N) {
        self.pause(net);
        self.failed.clear();
        self.listeners.clear();
    }

    /// Refuses clients from now on, except at sockets that other processes hold as well.
    pub fn refuse(&self, net: &N) {
        self.listeners.iter().for_each(|listener| listener.refuse(net));
    }

    /// Accepts from the next listener that has a client; listeners are served in turn.
    pub fn accept_next(&mut self, net: &N) -> Result<(N::Tcp, Option<SocketAddr>), Errno> {
        for _ in 0..self.listeners.len() {
            self.last = (self.last + 1) % self.listeners.len();
            if self.failed.contains(&self.last) {
                continue;
            }
            match net.accept(&self.last().socket) {
                Err(Errno::AGAIN) => {}
                accepted => return accepted,
            }
        }
        self.is_short = false;
        Err(Errno::AGAIN)
    }

    /// Records a shortage. Returns true if it is the first since all waiting clients were accepted.
    pub fn on_shortage(&mut self) -> bool {
        !std::mem::replace(&mut self.is_short, true)
    }

    /// Stops watching the listener that failed last, until [`Listeners::retry`]. Returns true if the failure is new.
    pub fn on_failure(&mut self, net: &N) -> bool {
        let _ = net.remove(Source::Listener(&self.last().socket));
        self.failed.push(self.last);
        !std::mem::replace(&mut self.is_failing, true)
    }

    /// Resumes watching the listeners that failed. Called about once a second.
    pub fn retry(&mut self, net: &N) -> io::Result<()> {
        self.is_failing = !self.failed.is_empty();
        if !self.is_failing || !self.is_accepting {
            return Ok(());
        }
        self.pause(net);
        self.resume(net)
    }

    pub fn is_client_waiting(&self, net: &N) -> bool {
        let works = |(at, _): &(usize, &Listener<N>)| !self.failed.contains(at);
        net.is_client_waiting(self.listeners.iter().enumerate().filter(works).map(|(_, listener)| &listener.socket))
    }
}

#[cfg(test)]
impl<N: Net> Listeners<N> {
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

    fn two() -> (Listeners<Os>, [SocketAddr; 2], Os) {
        let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = [0, 1].map(|at: usize| sockets[at].local_addr().unwrap());
        let listeners = sockets.map(|socket| {
            socket.set_nonblocking(true).unwrap();
            Listener::from(OwnedFd::from(socket))
        });
        (Listeners::new(listeners.into()), addresses, Os::new().unwrap())
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

    /// The clients of such a listener can never be accepted. The worker once tried that without end.
    #[test]
    fn a_listener_that_another_process_shut_is_left_alone_and_the_others_are_not() {
        let (mut acceptor, addresses, mut net) = two();
        acceptor.resume(&net).unwrap();
        rustix::net::shutdown(&acceptor.listeners[0].socket, rustix::net::Shutdown::Both).unwrap();
        for is_new in [true, false] {
            net.wait(Some(Nanos::ZERO)).unwrap();
            assert!(net.is_left(LISTENER) && acceptor.accept_next(&net).is_err_and(|error| error == Errno::INVAL));
            while net.take().is_some() {}
            assert_eq!(acceptor.on_failure(&net), is_new);
            net.wait(Some(Nanos::ZERO)).unwrap();
            assert!(!net.is_left(LISTENER) && !acceptor.is_client_waiting(&net));
            let _client = TcpStream::connect(addresses[1]).unwrap();
            assert!(acceptor.is_client_waiting(&net) && acceptor.accept_next(&net).is_ok());
            assert_eq!(acceptor.accept_next(&net).err(), Some(Errno::AGAIN));
            acceptor.retry(&net).unwrap();
        }
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
