//! The network of a client's address. In the order of responses, at most ten clients of a network count.

use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr};

use sched::policy::Network;

/// The length of an IPv4 network's prefix: the longest that is routed between providers. The next constant is that of
/// IPv6: a site's (RFC 6177).
const V4_BITS: u32 = 24;
const V6_BITS: u32 = 48;
/// Shared address space behind a provider's NAT, 100.64.0.0/10 (RFC 6598).
const SHARED: (Ipv4Addr, u32) = (Ipv4Addr::new(100, 64, 0, 0), 10);

/// Returns the network of an address as a keyed hash, so that the owner of many networks cannot choose networks that
/// collide with others. Private addresses belong to no network, because all clients on a local network are neighbours.
pub fn network_of(address: IpAddr, keys: &impl BuildHasher) -> Network {
    let (bits, family) = match address.to_canonical() {
        IpAddr::V4(address) if is_private(address) => return Network::NONE,
        IpAddr::V4(address) => (u64::from(address.to_bits() >> (32 - V4_BITS)), 4),
        IpAddr::V6(address)
            if address.is_unique_local() || address.is_unicast_link_local() || address.is_loopback() =>
        {
            return Network::NONE;
        }
        IpAddr::V6(address) => ((address.to_bits() >> (128 - V6_BITS)) as u64, 6),
    };
    Network::of_hash(keys.hash_one((family, bits)))
}

fn is_private(address: Ipv4Addr) -> bool {
    let is_shared = (address.to_bits() ^ SHARED.0.to_bits()) >> (32 - SHARED.1) == 0;
    address.is_private() || address.is_loopback() || address.is_link_local() || is_shared
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher, RandomState};

    use super::*;

    fn of(address: &str) -> Network {
        network_of(address.parse().unwrap(), &BuildHasherDefault::<DefaultHasher>::new())
    }

    #[test]
    fn who_knows_the_program_does_not_know_the_numbers() {
        let numbers = || {
            let keys = RandomState::new();
            let of = |at: u8| network_of(IpAddr::from([198, 18, at, 1]), &keys);
            [of(0), of(1), of(2), of(3)]
        };
        // Two processes give equal numbers to all four once in 10^14 times.
        assert_ne!(numbers(), numbers());
    }

    #[test]
    fn addresses_of_a_site_or_a_routed_network_are_of_one() {
        for (one, other) in [
            ("198.18.7.1", "198.18.7.254"),
            ("198.18.7.1", "::ffff:198.18.7.2"),
            ("2001:db8:1:1::1", "2001:db8:1:ffff::2"),
        ] {
            assert_eq!(of(one), of(other), "{one} {other}");
        }
        for (one, other) in [("198.18.7.1", "198.18.8.1"), ("2001:db8:1::1", "2001:db8:2::1")] {
            assert_ne!(of(one), of(other), "{one} {other}");
        }
    }

    #[test]
    fn private_addresses_are_of_no_network() {
        for address in
            ["10.1.2.3", "192.168.1.7", "100.64.0.1", "100.127.255.1", "127.0.0.1", "fd00::1", "fe80::1", "::1"]
        {
            assert_eq!(of(address), Network::NONE, "{address}");
        }
        for address in ["100.63.0.1", "100.128.0.1", "172.32.0.1", "2001:db8::1"] {
            assert_ne!(of(address), Network::NONE, "{address}");
        }
    }

    /// Few of the 256 networks of a /16 share a number.
    #[test]
    fn neighbouring_networks_have_numbers_of_their_own() {
        let mut numbers: Vec<String> = (0..=255).map(|at| format!("{:?}", of(&format!("198.18.{at}.1")))).collect();
        numbers.sort();
        numbers.dedup();
        assert!(numbers.len() > 230, "{}", numbers.len());
    }
}
