//! The zone of a link-local IPv6 address: the interface on whose link the address lies (RFC 4007 section 11). Every
//! link has the same addresses, so an address without its zone names no host.

use std::net::{Ipv6Addr, SocketAddrV6};

use rustix::net::netdevice::{index_to_name, name_to_index};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// The maximum length of the name of an interface in bytes (IFNAMSIZ without its NUL).
const NAME_BYTES_MAX: usize = 15;

/// Splits an address with its zone, `fe80::1%eth0` or `fe80::1%2`. Returns `None` for any other text, and for addresses
/// that no zone changes.
pub fn zoned(host: &str) -> Option<(Ipv6Addr, &str)> {
    let (address, zone) = host.split_once('%')?;
    let is_name = (1..=NAME_BYTES_MAX).contains(&zone.len())
        && zone.bytes().all(|byte| byte.is_ascii_graphic() && !b"%/[]:".contains(&byte));
    let address = address.parse::<Ipv6Addr>().ok().filter(Ipv6Addr::is_unicast_link_local)?;
    is_name.then_some((address, zone))
}

/// Returns the socket address of an address in this zone, or the reason why this machine has no such zone.
pub fn in_zone((address, zone): (Ipv6Addr, &str), port: u16) -> Result<SocketAddrV6, String> {
    let index = index_of(zone).ok_or_else(|| format!("this machine has no interface `{zone}`"))?;
    Ok(SocketAddrV6::new(address, port, 0, index))
}

/// Returns the number of an interface, given by its name or its number.
fn index_of(zone: &str) -> Option<u32> {
    let asked = socket_with(AddressFamily::INET6, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    let numbered = || zone.parse().ok().filter(|index| index_to_name(&asked, *index).is_ok());
    name_to_index(&asked, zone).ok().or_else(numbered)
}

/// Splits an address to listen on that has a zone, `[fe80::1%eth0]:80`.
pub(crate) fn zoned_listener(text: &str) -> Option<((Ipv6Addr, &str), u16)> {
    let (host, port) = text.strip_prefix('[')?.split_once("]:")?;
    let port = port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok()).flatten()?;
    Some((zoned(host)?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_an_interface_by_name_or_number() {
        let address: Ipv6Addr = "fe80::1".parse().unwrap();
        for zone in ["eth0", "2", "br-0a1b2c3d4e5f", "vlan.7@x"] {
            assert_eq!(zoned(&format!("fe80::1%{zone}")), Some((address, zone)));
        }
        for wrong in ["fe80::1", "fe80::1%", "::1%lo", "2001:db8::1%eth0", "fe80::1%a/b", "fe80::1%a%b", "a%eth0"] {
            assert_eq!(zoned(wrong), None, "{wrong}");
        }
        assert_eq!(zoned("fe80::1%sixteen-bytes-xx"), None);
        let lo = index_of("lo").expect("the loopback interface");
        for zone in ["lo", &lo.to_string()] {
            let known = in_zone((address, zone), 80).unwrap();
            assert_eq!((known.scope_id(), known.port()), (lo, 80));
        }
        for zone in ["none9", "4000000000", "99999999999"] {
            let why = format!("this machine has no interface `{zone}`");
            assert_eq!(in_zone((address, zone), 80), Err(why));
        }
    }
}
