//! The listening sockets of an event loop. Sockets that a service manager passed are shared with other loops.

use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;

use crate::net::{Net, Os};

/// A listening socket of one worker.
#[derive(Debug)]
pub struct Listener<N: Net = Os> {
    pub(crate) socket: N::Listener,
    /// True if clients use TLS on this socket.
    pub(crate) is_secure: bool,
    /// True if clients connect through proxies, which send a PROXY protocol header.
    pub(crate) has_proxy_header: bool,
    /// The UDP socket for HTTP/3, if HTTP/3 is enabled here.
    pub(crate) udp: Option<Arc<N::Udp>>,
    /// True if the previous process still reads the UDP socket.
    pub(crate) is_udp_waiting: bool,
    /// The port of HTTP/3, if HTTP/3 is enabled here.
    pub(crate) http3_port: Option<NonZeroU16>,
    /// True if the socket is shared with other workers and the service manager.
    pub(crate) is_passed: bool,
}

impl<N: Net> Listener<N> {
    /// Creates a listener for HTTP without TLS.
    pub fn new(socket: N::Listener) -> Listener<N> {
        Listener {
            socket,
            is_secure: false,
            has_proxy_header: false,
            udp: None,
            is_udp_waiting: false,
            http3_port: None,
            is_passed: false,
        }
    }

    /// The HTTP/3 port to advertise to clients. `None` while the previous process reads the UDP socket, because it does
    /// not accept new connections there.
    pub fn advertised_port(&self) -> Option<NonZeroU16> {
        self.http3_port.filter(|_| !self.is_udp_waiting)
    }

    /// The events to register with epoll.
    pub fn events(&self) -> EventFlags {
        if self.is_passed { EventFlags::IN | EventFlags::EXCLUSIVE } else { EventFlags::IN }
    }

    /// Makes the kernel refuse new connections, because they would get no answer. On a passed socket, connections wait
    /// for the next process that has the socket.
    pub fn refuse(&self, net: &N) {
        if !self.is_passed {
            net.refuse(&self.socket);
        }
    }
}

impl From<OwnedFd> for Listener {
    fn from(socket: OwnedFd) -> Listener {
        Listener::new(socket)
    }
}
