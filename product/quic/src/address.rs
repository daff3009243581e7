//! Addresses of IPv4 at sockets of IPv6. quinn takes a new port for a new path, with nothing known of it, unless the address is one of IPv4.

use std::net::{SocketAddr, SocketAddrV6};

/// As quinn is to have it.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip.is_ipv4() => SocketAddr::new(ip, address.port()),
        _ => address,
    }
}

/// As the socket has it.
pub fn at_socket(address: SocketAddr, is_ipv6: bool) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if is_ipv6 => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into(),
        _ => address,
    }
}
