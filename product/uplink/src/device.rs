//! The properties that a device reports: whether it is up, the size of its packets, its speed.

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketType};
use units::Rate;

use crate::Interface;
use crate::netlink::{Socket, attribute, u16_at, u32_at};

const RTM_GETLINK: u16 = 18;
/// `struct ifinfomsg`.
const LINK_BYTES: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_GSO_MAX_SEGS: u16 = 40;
/// The number of segments that a kernel builds if it does not report it (GSO_MAX_SEGS).
const GSO_MAX_SEGS: u32 = 65_535;
const ETHERNET_BYTES: u16 = 14;
const SIOCETHTOOL: u64 = 0x8946;
/// The ethtool request for the speed. ETHTOOL_GLINKSETTINGS supersedes it but takes two calls; kernels answer both from
/// the same source.
const ETHTOOL_GSET: u32 = 1;
/// The size of `struct ethtool_cmd`, followed by the offsets of the two halves of the speed in Mbit/s.
const GSET_BYTES: usize = 44;
const GSET_SPEED: usize = 12;
const GSET_SPEED_HIGH: usize = 28;
/// The value that a device reports if it does not know its speed.
const SPEED_UNKNOWN: u32 = u32::MAX;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The MAC address, for Ethernet.
    pub address: Vec<u8>,
    pub is_up: bool,
    pub mtu_bytes: u32,
    /// The bytes before the IP header in a packet, as it is in the interface's queue.
    pub head_bytes: u16,
    /// The maximum number of segments in one packet that the network stack builds.
    pub gso_max_segs: u32,
    /// The speed; `None` if the device does not report it.
    pub speed: Option<Rate>,
}

impl Device {
    /// Reads the device; returns `None` if the interface has disappeared.
    pub fn of(interface: &Interface) -> io::Result<Option<Device>> {
        let mut found = None;
        Socket::open()?.dump(RTM_GETLINK, &[0; LINK_BYTES], |reply| {
            if u32_at(reply, 4) == Some(interface.index) {
                let is_up = u32_at(reply, 8).is_some_and(|flags| flags & libc::IFF_UP as u32 != 0);
                let value = |kind| attribute(reply.get(LINK_BYTES..)?, kind);
                let number = |kind| u32_at(value(kind)?, 0);
                found = number(IFLA_MTU).map(|mtu_bytes| Device {
                    address: value(IFLA_ADDRESS).unwrap_or_default().to_vec(),
                    is_up,
                    mtu_bytes,
                    head_bytes: head_bytes(u16_at(reply, 2).unwrap_or(0)),
                    gso_max_segs: number(IFLA_GSO_MAX_SEGS).unwrap_or(GSO_MAX_SEGS),
                    speed: None,
                });
            }
        })?;
        Ok(found.map(|device| Device { speed: speed(&interface.name), ..device }))
    }
}

/// Returns the length of the link-layer header of this type of interface (ARPHRD in linux/if_arp.h): Ethernet's, or
/// zero.
fn head_bytes(kind: u16) -> u16 {
    match kind {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => ETHERNET_BYTES,
        _ => 0,
    }
}

/// An interface of this namespace, and the interfaces related to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelatedInterface {
    pub interface: Interface,
    /// The kind of interface, such as `bridge` or `vlan`; empty for hardware.
    pub kind: String,
    /// The interface on whose behalf this one sends: its bridge or bond.
    master: Option<u32>,
    /// The interface through which this one sends.
    lower: Option<u32>,
}

/// The kinds of interface that pass their packets unchanged to the device below. A veth passes them to its peer.
const ON_A_LOWER: [&str; 3] = ["vlan", "macvlan", "ipvlan"];
/// The maximum number of interfaces above a device. Any others are left unchanged.
const UPPERS_MAX: usize = 256;

pub fn links() -> io::Result<Vec<RelatedInterface>> {
    let mut found = Vec::new();
    Socket::open()?.dump(RTM_GETLINK, &[0; LINK_BYTES], |reply| {
        let Some(fields) = reply.get(LINK_BYTES..) else { return };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
        let number = |kind| attribute(fields, kind).and_then(|value| u32_at(value, 0));
        let Some((index, name)) = u32_at(reply, 4).zip(attribute(fields, IFLA_IFNAME)) else { return };
        let kind = attribute(fields, IFLA_LINKINFO).and_then(|info| attribute(info, IFLA_INFO_KIND));
        let is_elsewhere = attribute(fields, IFLA_LINK_NETNSID).is_some();
        found.push(RelatedInterface {
            interface: Interface { index, name: text(name) },
            kind: kind.map_or(String::new(), text),
            master: number(IFLA_MASTER),
            lower: number(IFLA_LINK).filter(|_| !is_elsewhere),
        });
    })?;
    Ok(found)
}

/// Returns the interfaces whose packets leave through this one: its bridge or bond, the VLANs and macvlans on it, and
/// the interfaces above those.
pub fn uppers(links: &[RelatedInterface], interface: &Interface) -> Vec<Interface> {
    let mut found = vec![interface.clone()];
    let mut at = 0;
    while at < found.len() && found.len() < UPPERS_MAX {
        let index = found[at].index;
        let own = links.iter().find(|link| link.interface.index == index);
        let is_upper = |link: &&RelatedInterface| {
            own.is_some_and(|own| own.master == Some(link.interface.index))
                || (link.lower == Some(index) && ON_A_LOWER.contains(&link.kind.as_str()))
        };
        let new: Vec<Interface> = links.iter().filter(is_upper).map(|link| link.interface.clone()).collect();
        for upper in new {
            if !found.contains(&upper) {
                found.push(upper);
            }
        }
        at += 1;
    }
    found.split_off(1)
}

/// Asks the driver for the speed. The file `speed` in sysfs has the same number, but only for interfaces of the
/// namespace in which sysfs was mounted.
fn speed(name: &str) -> Option<Rate> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    let mut command = [0u8; GSET_BYTES];
    command[..4].copy_from_slice(&ETHTOOL_GSET.to_ne_bytes());
    // SAFETY: an all-zero `ifreq` is a valid value: it holds arrays, integers and raw pointers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    let last = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..last].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = command.as_mut_ptr().cast();
    // SAFETY: the kernel reads `request` and, for this command, writes one `struct ethtool_cmd` of 44 bytes through its
    // pointer; both live through the call.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if status != 0 {
        return None;
    }
    let half = |at: usize| u32::from(u16::from_ne_bytes([command[at], command[at + 1]]));
    let mbit = half(GSET_SPEED) | half(GSET_SPEED_HIGH) << 16;
    // Some drivers report only the low half of "unknown".
    if mbit == SPEED_UNKNOWN || mbit == u32::from(u16::MAX) {
        return None;
    }
    Rate::from_bits_per_s(u64::from(mbit) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_own_network, run};

    #[test]
    fn uppers_are_those_whose_packets_leave_below() {
        in_own_network(|| {
            for command in [
                "ip link add weir0 type veth peer name weir1",
                "ip link add br0 type bridge",
                "ip link set weir0 master br0",
                "ip link add link br0 name mac0 type macvlan",
                "ip link add link weir1 name mac1 type macvlan",
            ] {
                run(command);
            }
            let links = links().unwrap();
            let uppers = |name: &str| {
                let uppers = uppers(&links, &Interface::by_name(name).unwrap());
                uppers.into_iter().map(|upper| upper.name).collect::<Vec<_>>()
            };
            assert_eq!(uppers("weir0"), ["br0", "mac0"]);
            assert_eq!(uppers("weir1"), ["mac1"]);
            assert_eq!(uppers("br0"), ["mac0"]);
            assert!(uppers("lo").is_empty() && uppers("mac0").is_empty());
        });
    }

    #[test]
    fn a_veth_pair_says_10_gigabit_and_loopback_nothing() {
        in_own_network(|| {
            run("ip link add weir0 mtu 1400 type veth peer name weir1");
            let device = |name| Device::of(&Interface::by_name(name).unwrap()).unwrap().unwrap();
            let speed = Some("10gbit".parse().unwrap());
            run("ip link set weir0 address 02:00:00:00:00:07");
            let address = vec![2, 0, 0, 0, 0, 7];
            let expected =
                Device { address, is_up: false, mtu_bytes: 1400, head_bytes: 14, gso_max_segs: GSO_MAX_SEGS, speed };
            assert_eq!(device("weir0"), expected);
            assert_eq!((device("lo").speed, device("lo").is_up), (None, false));
            run("ip link set weir0 up");
            assert!(device("weir0").is_up);
            let gone = Interface { index: 4711, name: "weir4711".to_string() };
            assert_eq!(Device::of(&gone).unwrap(), None);
        });
    }
}
