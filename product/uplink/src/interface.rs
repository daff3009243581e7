use std::io;
use std::net::IpAddr;

use crate::Error;
use crate::device::Device;
use crate::netlink::{Socket, attribute, u32_at};

const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
/// The sizes of `struct ifaddrmsg` and `struct rtmsg`, which precede the attributes.
const ADDR_BYTES: usize = 8;
const ROUTE_BYTES: usize = 12;
const RT_TABLE_MAIN: u8 = 254;

/// A network interface of this namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub index: u32,
    pub name: String,
}

impl Interface {
    /// Returns the interface through which a server that listens on this address answers: the interface with that
    /// address or, for the unspecified address, the interface of the default route. `None` if there is none.
    pub fn serving(address: IpAddr) -> io::Result<Option<Interface>> {
        let mut netlink = Socket::open()?;
        let index =
            if address.is_unspecified() { default_route(&mut netlink)? } else { having(&mut netlink, address)? };
        index.map(Interface::named).transpose()
    }

    /// Returns the gateway of the interface's default route; `None` without a default route or a gateway.
    pub fn gateway(&self) -> io::Result<Option<IpAddr>> {
        let mut found = None;
        Socket::open()?.dump(RTM_GETROUTE, &[0; ROUTE_BYTES], |reply| {
            if found.is_none()
                && let Some((index, fields)) = default_route_in(reply)
                && index == self.index
            {
                found = attribute(fields, RTA_GATEWAY).and_then(address_in);
            }
        })?;
        Ok(found)
    }

    /// Returns the interface's own addresses in private networks (RFC 1918, RFC 4193), each with the length of its
    /// network in bits. Other machines of these networks need no gateway to reach this one.
    pub fn private_addresses(&self) -> io::Result<Vec<(IpAddr, u32)>> {
        let mut found = Vec::new();
        Socket::open()?.dump(RTM_GETADDR, &[0; ADDR_BYTES], |reply| {
            if u32_at(reply, 4) == Some(self.index) {
                found.extend(private_address_in(reply));
            }
        })?;
        Ok(found)
    }

    /// Returns the interface with this name.
    pub fn by_name(name: &str) -> Result<Interface, Error> {
        let doing = format!("looking for the interface {name}");
        let kernel = |error: io::Error| Error::kernel(&doing, error);
        let probe = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
            .map_err(|error| kernel(error.into()))?;
        match rustix::net::netdevice::name_to_index(&probe, name) {
            Ok(index) => Ok(Interface { index, name: name.to_string() }),
            Err(rustix::io::Errno::NODEV | rustix::io::Errno::INVAL | rustix::io::Errno::NAMETOOLONG) => {
                Err(Error::new(format!("there is no interface {name}: `ip link` lists them")))
            }
            Err(error) => Err(kernel(error.into())),
        }
    }

    /// Returns whether the interface is up; false if it no longer exists.
    pub fn is_up(&self) -> bool {
        Device::of(self).is_ok_and(|device| device.is_some_and(|device| device.is_up))
    }

    /// Fails if the interface has disappeared since it was looked up, or was recreated under its name.
    pub fn check(&self) -> Result<(), Error> {
        let name = &self.name;
        let doing = format!("looking for the interface {name}");
        if Device::of(self).map_err(|error| Error::kernel(&doing, error))?.is_some() {
            return Ok(());
        }
        Err(Error::new(match Interface::by_name(name) {
            Ok(_) => {
                format!(
                    "the interface {name} was created again meanwhile, without a tree or classifier: run this \
                    again"
                )
            }
            Err(_) => format!("the interface {name} has gone"),
        }))
    }

    /// Returns the outcome, but replaces an error by one that reports the interface's disappearance if the interface
    /// has disappeared.
    pub(crate) fn explain<T>(&self, outcome: Result<T, Error>) -> Result<T, Error> {
        match outcome {
            Err(error) => Err(self.check().err().unwrap_or(error)),
            outcome => outcome,
        }
    }

    pub(crate) fn named(index: u32) -> io::Result<Interface> {
        let probe = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
        let name = rustix::net::netdevice::index_to_name(&probe, index)?;
        Ok(Interface { index, name })
    }
}

fn having(netlink: &mut Socket, address: IpAddr) -> io::Result<Option<u32>> {
    let wanted = match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let mut found = None;
    netlink.dump(RTM_GETADDR, &[0; ADDR_BYTES], |reply| {
        let Some(fields) = reply.get(ADDR_BYTES..) else { return };
        // The IFA_ADDRESS of a point-to-point interface is its peer, and its IFA_LOCAL is its own address.
        let own = attribute(fields, IFA_LOCAL).or_else(|| attribute(fields, IFA_ADDRESS));
        if own == Some(&wanted) {
            found = u32_at(reply, 4);
        }
    })?;
    Ok(found)
}

/// Returns the addresses of all interfaces, each with the number of its interface.
#[cfg(feature = "bpf")]
pub fn addresses() -> io::Result<Vec<(u32, IpAddr)>> {
    let mut found = Vec::new();
    Socket::open()?.dump(RTM_GETADDR, &[0; ADDR_BYTES], |reply| {
        let Some(fields) = reply.get(ADDR_BYTES..) else { return };
        let own = attribute(fields, IFA_LOCAL).or_else(|| attribute(fields, IFA_ADDRESS));
        found.extend(u32_at(reply, 4).zip(own.and_then(address_in)));
    })?;
    Ok(found)
}

/// Returns the address in a `struct ifaddrmsg` and the length of its prefix in bits, if the address is private and its
/// network can contain others.
fn private_address_in(reply: &[u8]) -> Option<(IpAddr, u32)> {
    let address = attribute(reply.get(ADDR_BYTES..)?, IFA_ADDRESS).and_then(address_in)?;
    let (is_private, width) = match address {
        IpAddr::V4(address) => (address.is_private(), 32),
        IpAddr::V6(address) => (address.is_unique_local(), 128),
    };
    let bits = u32::from(reply[1]);
    (is_private && bits < width).then_some((address, bits))
}

fn default_route(netlink: &mut Socket) -> io::Result<Option<u32>> {
    let mut found = None;
    netlink.dump(RTM_GETROUTE, &[0; ROUTE_BYTES], |reply| {
        if found.is_none() {
            found = default_route_in(reply).map(|(index, _)| index);
        }
    })?;
    Ok(found)
}

/// Returns the interface and the attributes of a route, if it is a default route of the main table.
fn default_route_in(reply: &[u8]) -> Option<(u32, &[u8])> {
    let (head, fields) = (reply.get(..ROUTE_BYTES)?, reply.get(ROUTE_BYTES..)?);
    let (prefix_bits, table) = (head[1], head[4]);
    let is_default = prefix_bits == 0 && table == RT_TABLE_MAIN;
    let index = attribute(fields, RTA_OIF).and_then(|value| u32_at(value, 0)).filter(|_| is_default)?;
    Some((index, fields))
}

fn address_in(value: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_address() {
        let lo = Interface::serving("127.0.0.1".parse().unwrap()).unwrap().unwrap();
        assert_eq!(lo.name, "lo");
    }

    #[test]
    fn a_name_is_found_or_said_to_be_missing() {
        let lo = Interface::by_name("lo").unwrap();
        assert_eq!(Interface::serving("127.0.0.1".parse().unwrap()).unwrap(), Some(lo));
        for wrong in ["weir-none", "", "a name longer than any interface may have"] {
            let said = Interface::by_name(wrong).unwrap_err().to_string();
            assert!(said.starts_with(&format!("there is no interface {wrong}:")), "{said}");
        }
    }

    /// Returns a `struct rtmsg` with these prefix bits and table, and attributes for an interface and a gateway.
    fn route(prefix_bits: u8, table: u8, gateway: &[u8]) -> Vec<u8> {
        let mut head = [0; ROUTE_BYTES];
        (head[1], head[4]) = (prefix_bits, table);
        let body = crate::netlink::Body::new(&head).attribute(RTA_OIF, &7u32.to_ne_bytes());
        body.attribute(RTA_GATEWAY, gateway).bytes().to_vec()
    }

    #[test]
    fn the_gateway_is_that_of_a_default_route() {
        let default = route(0, RT_TABLE_MAIN, &[192, 0, 2, 1]);
        let (index, fields) = default_route_in(&default).unwrap();
        let gateway = attribute(fields, RTA_GATEWAY).and_then(address_in);
        assert_eq!((index, gateway), (7, Some("192.0.2.1".parse().unwrap())));
        assert_eq!(default_route_in(&route(24, RT_TABLE_MAIN, &[192, 0, 2, 1])), None);
        assert_eq!(default_route_in(&route(0, 255, &[192, 0, 2, 1])), None);
        assert_eq!(default_route_in(&[0; 5]), None);
        let v6 = std::net::Ipv6Addr::LOCALHOST.octets();
        assert_eq!((address_in(&v6), address_in(&[1, 2, 3])), (Some("::1".parse().unwrap()), None));
        let lo = Interface::by_name("lo").unwrap();
        assert_eq!(lo.gateway().unwrap(), None);
    }

    #[test]
    fn private_networks_are_those_with_room_for_others() {
        let reply = |bits: u8, address: &[u8]| {
            let mut head = [0; ADDR_BYTES];
            head[1] = bits;
            crate::netlink::Body::new(&head).attribute(IFA_ADDRESS, address).bytes().to_vec()
        };
        let found = |bits, address: &str| match address.parse().unwrap() {
            IpAddr::V4(address) => private_address_in(&reply(bits, &address.octets())),
            IpAddr::V6(address) => private_address_in(&reply(bits, &address.octets())),
        };
        assert_eq!(found(24, "192.168.1.7"), Some(("192.168.1.7".parse().unwrap(), 24)));
        assert_eq!(found(64, "fd00::7"), Some(("fd00::7".parse().unwrap(), 64)));
        for (bits, address) in
            [(24, "192.0.2.7"), (32, "10.0.0.7"), (64, "2001:db8::7"), (64, "fe80::7"), (128, "fd00::7")]
        {
            assert_eq!(found(bits, address), None, "{address}/{bits}");
        }
        assert_eq!(private_address_in(&[0; 5]), None);
        assert_eq!(Interface::by_name("lo").unwrap().private_addresses().unwrap(), []);
    }

    #[test]
    fn an_address_nobody_has_is_none() {
        assert_eq!(Interface::serving("198.19.255.254".parse().unwrap()).unwrap(), None);
    }
}
