//! Conversion between IPv4 addresses and their mapped form on IPv6 sockets. quinn treats a new port as a new path about
//! which nothing is known, unless the address is an IPv4 one.

use std::net::{SocketAddr, SocketAddrV6};

/// Converts an address to the form that quinn needs.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip.is_ipv4() => SocketAddr::new(ip, address.port()),
        _ => address,
    }
}

/// Converts an address to the form that the socket needs.
pub fn at_socket(address: SocketAddr, is_ipv6: bool) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if is_ipv6 => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into(),
        _ => address,
    }
}
