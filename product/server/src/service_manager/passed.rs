//! Sockets that the service manager opened for this process (sd_listen_fds(3)): LISTEN_FDS descriptors from 3 on, meant
//! for the process that LISTEN_PID names.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::sockopt::{ipv6_v6only, socket_acceptconn, socket_type};
use rustix::net::{SocketType, getsockname};
use thiserror::Error;

use crate::sys;

/// The first descriptor after standard input, output and error.
const FIRST: i32 = 3;
/// The maximum number of listeners in `weir.toml`.
const PASSED_MAX: usize = 64;
/// The name of a socket whose clients use TLS, if no listener of the file has its address: `FileDescriptorName=https`.
const SECURE_NAME: &str = "https";

/// The name of a socket that the previous process bound. Sockets with any other name come from the service manager.
pub const OWN_NAME: &str = "weir";

/// The name of a socket that came without one, as in sd_listen_fds_with_names(3).
const NO_NAME: &str = "unknown";

/// A listening address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    pub address: SocketAddr,
    /// True if clients must use TLS.
    pub is_secure: bool,
    /// True if clients may also use HTTP/3, over UDP at the same address. Never true without TLS or in a build without
    /// HTTP/3.
    pub has_http3: bool,
    /// True if connections begin with a PROXY protocol header.
    pub has_proxy_header: bool,
}

/// A socket, with its name in LISTEN_FDNAMES.
#[derive(Debug)]
pub struct NamedSocket {
    pub name: String,
    pub socket: OwnedFd,
}

impl NamedSocket {
    pub(crate) fn own(socket: OwnedFd) -> NamedSocket {
        NamedSocket { name: OWN_NAME.into(), socket }
    }
}

/// The listening sockets of one address: one socket of the service manager, which outlives this process, or the sockets
/// of the previous process.
#[derive(Debug)]
pub struct PassedSocket {
    pub address: SocketAddr,
    /// The name in LISTEN_FDNAMES, or [`NO_NAME`].
    pub name: String,
    /// True if clients must use TLS.
    pub is_secure: bool,
    /// True if HTTP/3 is served too, which requires TLS.
    pub has_http3: bool,
    /// See [`Listen::has_proxy_header`].
    pub(crate) has_proxy_header: bool,
    /// The sockets; several if each worker has its own.
    pub(crate) sockets: Vec<OwnedFd>,
    /// The datagram sockets of the same address, for HTTP/3.
    pub(crate) datagrams: Vec<OwnedFd>,
    /// True for an IPv6 socket that is bound to all addresses and also accepts IPv4.
    is_dual: bool,
}

/// A fault of the passed sockets.
#[derive(Debug, Error)]
pub enum PassedError {
    #[error("LISTEN_FDS `{0}`: expected a number of sockets from 0 to {PASSED_MAX}")]
    Count(String),
    #[error("passed socket fd {0} is not open; expected {1} descriptors from 3 on, as LISTEN_FDS says")]
    Closed(i32, usize),
    #[error(
        "passed socket fd {fd}{name} is {is}; expected a listening TCP socket (ListenStream=ADDRESS:PORT and Accept=no), or for HTTP/3 \
         a datagram socket with one of the same address (ListenDatagram=ADDRESS:PORT)"
    )]
    Unfit { fd: i32, name: String, is: String },
}

/// Returns the sockets passed to this process. Must be called before anything opens a descriptor. A second call returns
/// no sockets.
pub fn passed_sockets() -> Result<Vec<PassedSocket>, PassedError> {
    let variable = |name| std::env::var(name).ok();
    let is_meant = variable("LISTEN_PID").and_then(|pid| pid.parse().ok()) == Some(std::process::id());
    let Some(count) = variable("LISTEN_FDS").filter(|_| is_meant) else { return Ok(vec![]) };
    let known: Option<usize> = count.parse().ok().filter(|&count| count <= PASSED_MAX);
    let count = known.ok_or(PassedError::Count(count))?;
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut named = Vec::new();
    for (nth, socket) in sys::take_passed(FIRST, count).into_iter().enumerate() {
        let name = names.next().filter(|name| !name.is_empty()).unwrap_or(NO_NAME).to_string();
        let socket = socket.map_err(|_| PassedError::Closed(FIRST + nth as i32, count))?;
        named.push(NamedSocket { name, socket });
    }
    gather(named)
}

/// Groups sockets by address. An error names a socket by its index in the order of the descriptors.
pub fn gather(named: Vec<NamedSocket>) -> Result<Vec<PassedSocket>, PassedError> {
    let (mut listening, mut datagrams) = (Vec::new(), Vec::new());
    for (nth, NamedSocket { name, socket }) in named.into_iter().enumerate() {
        let at = Descriptor { fd: FIRST + nth as i32, name };
        if socket_type(&socket) == Ok(SocketType::DGRAM) {
            datagrams.push((at, socket));
        } else {
            add_listening(&mut listening, socket, &at.name).map_err(|is| at.unfit(is))?;
        }
    }
    for (at, socket) in datagrams {
        add_datagrams(&mut listening, socket).map_err(|is| at.unfit(is))?;
    }
    Ok(listening)
}

/// Adds a listening socket. Sockets that Weir bound to one address are grouped, one for each worker.
fn add_listening(listening: &mut Vec<PassedSocket>, socket: OwnedFd, name: &str) -> Result<(), String> {
    let new = PassedSocket::new(socket, name)?;
    match listening.iter_mut().find(|known| new.is_own() && known.is_own() && known.address == new.address) {
        Some(known) => known.sockets.extend(new.sockets),
        None => listening.push(new),
    }
    Ok(())
}

/// A passed descriptor, for messages.
struct Descriptor {
    fd: i32,
    name: String,
}

impl Descriptor {
    fn unfit(&self, is: String) -> PassedError {
        let name = if self.name == NO_NAME { String::new() } else { format!(" ({})", self.name) };
        PassedError::Unfit { fd: self.fd, name, is }
    }
}

/// Adds a datagram socket to the listening socket of the same address. If there is no such socket, the error says what
/// kind of socket this one is.
fn add_datagrams(listening: &mut [PassedSocket], socket: OwnedFd) -> Result<(), String> {
    let address = address_of(&socket)?;
    let of_address = listening.iter_mut().find(|passed| passed.address == address);
    let beside = of_address.ok_or_else(|| format!("a datagram socket of {address}, where no TCP socket listens"))?;
    beside.take_datagrams(socket)
}

/// Returns the address of a listening or datagram socket. The error says what kind of socket it is instead.
fn address_of(socket: &OwnedFd) -> Result<SocketAddr, String> {
    let address = getsockname(socket).map_err(unread)?;
    SocketAddr::try_from(address).map_err(|_| "not an internet socket".to_string())
}

fn unread(error: impl Into<io::Error>) -> String {
    format!("unreadable ({})", error.into())
}

/// Returns the configured listeners that have no passed socket and must be bound. A passed socket uses TLS if the
/// listener of its address does; if there is no such listener, if the socket's name is `https`.
fn unpassed(configured: &[Listen], passed: &mut Vec<PassedSocket>) -> Vec<Listen> {
    // Sockets that the previous process bound and that are no longer configured are dropped; a service manager's are
    // kept.
    passed.retain(|socket| !socket.is_own() || configured.iter().any(|listen| socket.is_for(listen.address)));
    for socket in passed.iter_mut() {
        if let Some(known) = configured.iter().find(|listen| socket.is_for(listen.address)) {
            (socket.is_secure, socket.has_http3) = (known.is_secure, known.has_http3);
            socket.has_proxy_header = known.has_proxy_header;
        }
    }
    let is_passed = |listen: &Listen| passed.iter().any(|socket| socket.is_for(listen.address));
    configured.iter().copied().filter(|listen| !is_passed(listen)).collect()
}

/// Returns the listeners that must be bound: the result of [`unpassed`], or `usual` if none is configured and no
/// service manager has passed a socket.
pub fn to_bind(configured: &[Listen], usual: Listen, passed: &mut Vec<PassedSocket>) -> Vec<Listen> {
    let is_unsaid = configured.is_empty() && passed.iter().all(PassedSocket::is_own);
    unpassed(if is_unsaid { std::slice::from_ref(&usual) } else { configured }, passed)
}

impl PassedSocket {
    /// Creates the entry for a listening socket. For any other socket, the error says what kind it is.
    fn new(socket: OwnedFd, name: &str) -> Result<PassedSocket, String> {
        socket_type(&socket).map_err(|_| "no socket".to_string())?;
        let address = address_of(&socket)?;
        if !socket_acceptconn(&socket).map_err(unread)? {
            return Err(format!("a socket of {address} that does not listen"));
        }
        let is_all = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let is_dual = is_all && !ipv6_v6only(&socket).map_err(unread)?;
        Ok(PassedSocket {
            address,
            name: name.into(),
            is_secure: name == SECURE_NAME,
            has_http3: true,
            has_proxy_header: false,
            sockets: vec![socket],
            datagrams: Vec::new(),
            is_dual,
        })
    }

    fn take_datagrams(&mut self, socket: OwnedFd) -> Result<(), String> {
        if !self.datagrams.is_empty() && !self.is_own() {
            return Err(format!("a second datagram socket of {}", self.address));
        }
        self.datagrams.push(socket);
        Ok(())
    }

    /// Returns true if the previous process bound the socket. No other process holds it after that process has ended.
    pub fn is_own(&self) -> bool {
        self.name == OWN_NAME
    }

    /// Returns true if this is the socket of the listener for `address`. If the listener was configured with port 0,
    /// the kernel chose the port.
    fn is_for(&self, address: SocketAddr) -> bool {
        self.serves(address) || (self.is_own() && address.port() == 0 && address.ip() == self.address.ip())
    }

    /// Returns true if connections to this address arrive at this socket. `ListenStream=80` creates one socket for both
    /// families.
    fn serves(&self, address: SocketAddr) -> bool {
        let all_of_ipv4 = address.is_ipv4() && address.ip().is_unspecified();
        address == self.address || (self.is_dual && all_of_ipv4 && address.port() == self.address.port())
    }

    /// Returns the address, with the socket's name if it has one.
    pub fn label(&self) -> String {
        if self.name == NO_NAME { self.address.to_string() } else { format!("{} ({})", self.address, self.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    fn passed(address: &str) -> PassedSocket {
        PassedSocket::new(TcpListener::bind(address).unwrap().into(), "web").unwrap()
    }

    #[test]
    fn only_a_listening_tcp_socket_fits() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        for (socket, is) in [
            (OwnedFd::from(client), "that does not listen"),
            (unix.into(), "not an internet socket"),
            (udp.into(), "that does not listen"),
            (file.into(), "no socket"),
        ] {
            let said = PassedSocket::new(socket, NO_NAME).unwrap_err();
            assert!(said.contains(is), "{said}");
        }
        let fits = PassedSocket::new(listener.into(), "web").unwrap();
        assert_eq!((fits.address, fits.label()), (address, format!("{address} (web)")));
    }

    #[test]
    fn a_datagram_socket_belongs_to_the_listening_one_of_its_address() {
        let mut listening = [passed("127.0.0.1:0"), passed("127.0.0.2:0")];
        let udp = |address| OwnedFd::from(UdpSocket::bind(address).unwrap());
        let said = add_datagrams(&mut listening, udp("127.0.0.3:0".parse().unwrap())).unwrap_err();
        assert!(
            said.starts_with("a datagram socket of 127.0.0.3:") && said.ends_with("where no TCP socket listens"),
            "{said}"
        );
        let (unix, _other) = std::os::unix::net::UnixDatagram::pair().unwrap();
        assert_eq!(add_datagrams(&mut listening, unix.into()).unwrap_err(), "not an internet socket");
        let beside = udp(listening[1].address);
        let added = add_datagrams(&mut listening, beside);
        assert!(added.is_ok(), "{added:?}");
    }

    #[test]
    fn what_was_passed_is_not_bound() {
        let mut sockets = vec![passed("127.0.0.1:0"), passed("[::]:0")];
        let [one, all] = [sockets[0].address, sockets[1].address];
        let ipv4 = SocketAddr::new("0.0.0.0".parse().unwrap(), all.port());
        let other = SocketAddr::new("127.0.0.2".parse().unwrap(), one.port());
        let [one, other, all, ipv4] = [(one, true), (other, false), (all, false), (ipv4, false)]
            .map(|(address, is_secure)| Listen { address, is_secure, has_http3: false, has_proxy_header: false });
        assert_eq!(unpassed(&[one, other, all, ipv4], &mut sockets), [other]);
        assert_eq!([sockets[0].is_secure, sockets[1].is_secure], [true, false]);
        assert_eq!(unpassed(&[one, other], &mut vec![]), [one, other]);
    }

    /// A service manager's socket is kept, since it would be passed again.
    #[test]
    fn what_the_process_before_bound_goes_with_its_listener() {
        let own = || PassedSocket::new(TcpListener::bind("127.0.0.1:0").unwrap().into(), OWN_NAME).unwrap();
        let mut sockets = vec![own(), own(), passed("127.0.0.1:0")];
        let [kept, managed] = [sockets[0].address, sockets[2].address];
        let listen = |address| Listen { address, is_secure: false, has_http3: false, has_proxy_header: false };
        assert_eq!(unpassed(&[listen(kept)], &mut sockets), []);
        assert_eq!(sockets.iter().map(|socket| socket.address).collect::<Vec<_>>(), [kept, managed]);
        let mut any_port = vec![own()];
        assert_eq!(unpassed(&[listen("127.0.0.1:0".parse().unwrap())], &mut any_port), []);
        assert_eq!(any_port.len(), 1, "its port stays");
    }

    /// A server without a listener of its own could not be followed: its socket was dropped, and none was bound.
    #[test]
    fn the_usual_listener_is_that_of_the_process_before() {
        let own = || PassedSocket::new(TcpListener::bind("127.0.0.1:0").unwrap().into(), OWN_NAME).unwrap();
        let listen = |address| Listen { address, is_secure: false, has_http3: false, has_proxy_header: false };
        let (mut same, mut another, mut managed) = (vec![own()], vec![own()], vec![passed("127.0.0.1:0")]);
        let usual = listen(same[0].address);
        assert_eq!((to_bind(&[], usual, &mut same), same.len()), (vec![], 1));
        assert_eq!((to_bind(&[], usual, &mut another), another.len()), (vec![usual], 0));
        assert_eq!((to_bind(&[], usual, &mut managed), managed.len()), (vec![], 1));
        assert_eq!(to_bind(&[], usual, &mut vec![]), [usual]);
    }
}
