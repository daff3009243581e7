//! The listening sockets, with the options that accepted sockets inherit. At an address bound here, each worker has its
//! own socket. A socket passed by a service manager is shared by all workers, and the kernel wakes one of them for each
//! connection.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{Config, StartError};
use crate::event_loop::Listener;
use crate::service_manager::{Listen, NamedSocket, PassedSocket};
use crate::udp::{Group, Udp};

/// The time, in seconds, for which the kernel keeps a connection that has sent nothing. After that, the server's own
/// timeout applies.
const DEFER_ACCEPT_S: i32 = 1;

/// The number of ports chosen by the kernel that are tried: such a port may be taken for UDP.
const FREE_PORT_TRIES: usize = 10;

/// The listening sockets of a server.
pub struct Listening {
    /// The listeners of each worker: first the passed ones, then the bound ones.
    pub of_workers: Vec<Vec<Listener>>,
    /// Messages about features that are missing at an address, and how to get them.
    pub remarks: Vec<String>,
}

pub fn listen_all(config: &Config) -> Result<Listening, StartError> {
    let mut of_workers: Vec<Vec<Listener>> = (0..config.workers).map(|_| Vec::new()).collect();
    let mut remarks = Vec::new();
    for passed in &config.passed {
        let (listeners, remark) = listen_on(config, passed).map_err(|e| StartError::Listen(passed.address, e))?;
        listeners.into_iter().enumerate().for_each(|(at, one)| of_workers[at % config.workers].push(one));
        remarks.extend(remark);
    }
    for asked in &config.listen {
        let mut tries = 1;
        let listeners = loop {
            match listen_at(config, asked) {
                // The port that the kernel chose is free for TCP, but may be taken for UDP.
                Err(StartError::Udp(..)) if asked.address.port() == 0 && tries < FREE_PORT_TRIES => tries += 1,
                heard => break heard?,
            }
        };
        of_workers.iter_mut().zip(listeners).for_each(|(all, one)| all.push(one));
    }
    if config.shaping.is_paced() {
        remarks.extend(of_workers[0].first().and_then(|listener| untold(&listener.socket)));
    }
    Ok(Listening { of_workers, remarks })
}

/// Returns a remark if the kernel refuses TCP_INFO, which some sandboxes do.
fn untold(socket: &impl AsFd) -> Option<String> {
    let error = uplink::tcp_info(socket).err()?;
    Some(format!(
        "the kernel refuses TCP_INFO: {error}; so the uplink's rate cannot be measured: allow getsockopt(TCP_INFO) in \
            the sandbox or container, or give --uplink RATE"
    ))
}

/// Returns the listeners of a passed socket, one for each worker, and a remark on missing features.
fn listen_on(config: &Config, passed: &PassedSocket) -> io::Result<(Vec<Listener>, Option<String>)> {
    adopt(config, passed)?;
    // With more workers than sockets, some workers share one; with fewer, some have several.
    let is_shared = !passed.is_own() || passed.sockets.len() != config.workers;
    let share = |worker: usize| {
        let socket = passed.sockets[worker % passed.sockets.len()].try_clone()?;
        let PassedSocket { is_secure, has_proxy_header, .. } = *passed;
        Ok(Listener { is_secure, has_proxy_header, is_passed: is_shared, ..socket.into() })
    };
    let mut listeners = (0..config.workers.max(passed.sockets.len())).map(share).collect::<io::Result<Vec<_>>>()?;
    if speaks_http3(config, passed.is_secure, passed.has_http3) {
        let remark = add_passed_udp(config, passed, &mut listeners)?;
        return Ok((listeners, remark));
    }
    Ok((listeners, unread_datagrams(config, passed)))
}

/// Returns a remark if a datagram socket was passed but is not read. The socket stays open, because the service manager
/// holds it too and would pass it again.
fn unread_datagrams(config: &Config, passed: &PassedSocket) -> Option<String> {
    let PassedSocket { address, .. } = passed;
    passed.datagrams.first()?;
    let why = match passed {
        PassedSocket { is_secure: false, .. } => "its clients do not use TLS, which HTTP/3 requires",
        PassedSocket { has_http3: false, .. } => "HTTP/3 is turned off",
        _ if !config.shaping.orders_http3() => "bands cannot order HTTP/3",
        _ => return None,
    };
    Some(format!(
        "UDP socket {address}, passed by the service manager, is not read: {why}; change that, or leave out ListenDatagram={address}"
    ))
}

/// Binds one address; returns one listener for each worker.
fn listen_at(config: &Config, asked: &Listen) -> Result<Vec<Listener>, StartError> {
    let (sockets, Listen { is_secure, has_proxy_header, .. }) = (listen(config, asked.address)?.into_iter(), *asked);
    let mut listeners: Vec<_> =
        sockets.map(|socket| Listener { is_secure, has_proxy_header, ..socket.into() }).collect();
    if speaks_http3(config, asked.is_secure, asked.has_http3) {
        let address = local_address(&listeners[0].socket).map_err(|e| StartError::Listen(asked.address, e))?;
        add_udp(config, address, &mut listeners).map_err(|error| StartError::Udp(address, error))?;
    }
    Ok(listeners)
}

fn speaks_http3(config: &Config, is_secure: bool, is_wanted: bool) -> bool {
    is_secure && is_wanted && config.shaping.orders_http3()
}

/// Binds a UDP socket for HTTP/3 to the same address for each listener.
fn add_udp(config: &Config, address: SocketAddr, listeners: &mut [Listener]) -> io::Result<()> {
    let group = Group {
        count: listeners.len(),
        only_v6: has_ipv4_of_its_own(config, address.port()),
        control_priority: config.shaping.control_priority.unwrap_or(0),
    };
    if group.count > 1 {
        // A bind without SO_REUSEPORT fails if another program has the port.
        Udp::bind_all(address, Group { count: 1, ..group })?;
    }
    let sockets = Udp::bind_all(address, group)?;
    for (listener, udp) in listeners.iter_mut().zip(sockets) {
        (listener.udp, listener.http3_port) = (Some(Arc::new(udp)), NonZeroU16::new(address.port()));
    }
    Ok(())
}

/// Gives the first worker the datagram socket that the service manager passed for this address: nothing distributes
/// datagrams among workers that share a socket. If none was passed, binds sockets here. If that is not permitted,
/// disables HTTP/3 and adds a remark with the service manager's setting that may be missing.
fn add_passed_udp(config: &Config, passed: &PassedSocket, listeners: &mut [Listener]) -> io::Result<Option<String>> {
    let Some(socket) = passed.datagrams.first() else {
        let bound = add_udp(config, passed.address, listeners);
        return Ok(bound.err().map(|error| {
            let PassedSocket { address, .. } = passed;
            format!("HTTP/3 is off at {address}: UDP: {error}; expected ListenDatagram={address} with ListenStream=")
        }));
    };
    let control_priority = config.shaping.control_priority.unwrap_or(0);
    // Sockets from a previous process distribute datagrams among the same number of workers.
    let is_whole = passed.datagrams.len() == config.workers;
    let sockets = if is_whole { &passed.datagrams[..] } else { std::slice::from_ref(socket) };
    let sockets = sockets.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
    for (listener, udp) in listeners.iter_mut().zip(Udp::adopt_all(sockets, control_priority)?) {
        listener.udp = Some(Arc::new(udp));
    }
    for listener in listeners {
        (listener.http3_port, listener.is_udp_waiting) = (NonZeroU16::new(passed.address.port()), passed.is_own());
    }
    Ok(None)
}

/// Prepares a passed socket. Its backlog is set by the service manager.
fn adopt(config: &Config, passed: &PassedSocket) -> io::Result<()> {
    for socket in &passed.sockets {
        rustix::io::ioctl_fionbio(socket, true)?;
        inherit(config, socket)?;
        rustix::net::sockopt::set_tcp_quickack(socket, false)?;
    }
    Ok(())
}

/// Binds one listening socket per worker to one port; the kernel distributes connections among them.
fn listen(config: &Config, mut address: SocketAddr) -> Result<Vec<OwnedFd>, StartError> {
    let mut listeners = Vec::new();
    if address.port() != 0 {
        // Sockets that share a port also share it with any other program of this user that allows it, such as another
        // weir. A bind without sharing detects that.
        listen_once(config, address, Sharing::Nobody).map_err(|e| StartError::Listen(address, e))?;
    }
    let sharing = if config.workers > 1 { Sharing::Workers } else { Sharing::Nobody };
    for _ in 0..config.workers {
        let listener = listen_once(config, address, sharing).map_err(|e| StartError::Listen(address, e))?;
        // With port 0, the first socket gets a port from the kernel, and the others join it.
        address = local_address(&listener).map_err(|e| StartError::Listen(address, e))?;
        listeners.push(listener);
    }
    Ok(listeners)
}

/// The sockets that share the port of a listening socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Nobody,
    Workers,
}

fn listen_once(config: &Config, address: SocketAddr, sharing: Sharing) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if sharing == Sharing::Workers {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() && has_ipv4_of_its_own(config, address.port()) {
        socket.set_only_v6(true)?;
    }
    inherit(config, &socket)?;
    socket.bind(&address.into())?;
    socket.listen(config.backlog.into())?;
    // The acknowledgement of a request is sent with its response, because a separate one would cost the uplink a packet
    // for each connection. If a request arrives in parts, the acknowledgement is sent immediately, see
    // `Worker::acknowledge_part`.
    // Accepted sockets inherit the option; listen(2) resets it.
    rustix::net::sockopt::set_tcp_quickack(&socket, false)?;
    Ok(socket.into())
}

/// Sets the options that accepted sockets inherit. That saves a system call per option and connection.
fn inherit(config: &Config, socket: &impl AsFd) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_tcp_nodelay(true)?;
    if let Some(bytes) = config.shaping.unsent_bytes_max() {
        socket.set_tcp_notsent_lowat(bytes)?;
    }
    if let Some(priority) = config.shaping.control_priority {
        // The priority also applies to packets that the kernel sends by itself for this socket, so SYN-ACKs do not wait
        // behind responses.
        socket.set_priority(priority)?;
    }
    // An optional setting; without it, a connection is accepted before its request has arrived.
    let _ = crate::sys::set_defer_accept(&*socket, DEFER_ACCEPT_S);
    Ok(())
}

/// Returns true if another listener uses this port for IPv4. Otherwise an IPv6 socket for all addresses takes IPv4
/// connections too.
fn has_ipv4_of_its_own(config: &Config, port: u16) -> bool {
    port != 0 && config.addresses().any(|other| other.is_ipv4() && other.port() == port)
}

/// Returns all listening sockets for the process that follows this one: first the passed ones, then the bound ones.
pub fn named_sockets(config: &Config, of_workers: &[Vec<Listener>]) -> io::Result<Vec<NamedSocket>> {
    let mut all = Vec::new();
    for passed in &config.passed {
        for socket in passed.sockets.iter().chain(&passed.datagrams) {
            all.push(NamedSocket { name: passed.name.clone(), socket: socket.try_clone()? });
        }
    }
    let bound = |listeners: &Vec<Listener>| listeners.len() - config.listen.len();
    for listener in of_workers.iter().flat_map(|listeners| &listeners[bound(listeners)..]) {
        all.push(NamedSocket::own(listener.socket.try_clone()?));
        all.extend(listener.udp.as_ref().map(|udp| udp.try_clone_socket()).transpose()?.map(NamedSocket::own));
    }
    Ok(all)
}

pub fn local_addresses(listeners: &[Listener]) -> Result<Vec<Listen>, StartError> {
    let of = |listener: &Listener| {
        let (is_secure, has_http3) = (listener.is_secure, listener.http3_port.is_some());
        let has_proxy_header = listener.has_proxy_header;
        local_address(&listener.socket).map(|address| Listen { address, is_secure, has_http3, has_proxy_header })
    };
    let addresses = listeners.iter().map(of).collect::<io::Result<_>>();
    addresses.map_err(|e| StartError::System("read the listening address", e))
}

fn local_address(listener: &OwnedFd) -> io::Result<SocketAddr> {
    let address = rustix::net::getsockname(listener)?;
    SocketAddr::try_from(address).map_err(|_| io::Error::other("the socket has no internet address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_which_the_kernel_tells_nothing_is_one_line() {
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(untold(&tcp), None);
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let said = untold(&udp).unwrap();
        assert!(said.starts_with("the kernel refuses TCP_INFO: ") && said.ends_with("or give --uplink RATE"), "{said}");
    }
}
