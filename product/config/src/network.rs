//! Networks of clients and proxies.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::keys::Form;
use crate::value_forms::{FromText, Wrong};

/// A range of addresses that share a prefix; a single address if the prefix has full length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    length: u32,
}

impl Network {
    /// Returns the network around this address with a prefix of `length` bits; a longer length than the address has is
    /// reduced.
    pub fn around(address: IpAddr, length: u32) -> Network {
        let (given, width) = bits(address);
        let length = length.min(width);
        Network { address: address_of(masked(given, width, length), width), length }
    }

    pub fn contains(&self, client: IpAddr) -> bool {
        // An IPv4 client on an IPv6 socket has the address `::ffff:192.0.2.1`.
        let (client, client_width) = bits(client.to_canonical());
        let (network, width) = bits(self.address);
        client_width == width && masked(client, width, self.length) == network
    }

    /// The first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns true if the network contains all addresses of its family.
    pub fn is_all(&self) -> bool {
        self.length == 0
    }

    /// The length of the prefix in bits.
    pub fn length(&self) -> u32 {
        self.length
    }

    pub fn covers(&self, other: &Network) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        Network::from_text(text).map_err(|wrong| match wrong {
            Wrong::Form => format!("expected {}", Form::Network.expected()),
            Wrong::Expected(expected) => format!("expected {expected}"),
            Wrong::Said(said) => said,
        })
    }
}

impl FromText for Network {
    const FORM: Form = Form::Network;

    fn from_text(text: &str) -> Result<Network, Wrong> {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| Wrong::Form)?;
        let (given, width) = bits(address);
        let length = length.map_or(Ok(width), str::parse).map_err(|_| Wrong::Form)?;
        if length > width {
            return Err(Wrong::Expected(format!("a length of {width} at most")));
        }
        // Addresses of clients are canonical.
        if address != address.to_canonical() {
            return Err(Wrong::Expected(format!("an address of IPv4, for example {}", address.to_canonical())));
        }
        let first = masked(given, width, length);
        if first != given {
            return Err(Wrong::Expected(format!(
                "the first address of the network, {}/{length}",
                address_of(first, width)
            )));
        }
        Ok(Network { address, length })
    }
}

fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn address_of(bits: u128, width: u32) -> IpAddr {
    if width == 32 { IpAddr::V4((bits as u32).into()) } else { IpAddr::V6(bits.into()) }
}

/// Keeps the first `length` of `width` bits.
fn masked(bits: u128, width: u32, length: u32) -> u128 {
    let rest = width - length;
    bits.checked_shr(rest).unwrap_or(0).checked_shl(rest).unwrap_or(0)
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        Network::from_text(text).unwrap()
    }

    #[test]
    fn addresses_that_begin_alike() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::a00:1"),
            ("192.0.2.1/32", "192.0.2.1", "192.0.2.2"),
            ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
            ("::1", "::1", "::2"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "2001:db8::1", "1.2.3.4"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::"),
        ] {
            assert!(network(text).contains(inside.parse().unwrap()), "{text} {inside}");
            assert!(!network(text).contains(outside.parse().unwrap()), "{text} {outside}");
        }
        assert!(
            network("10.0.0.0/8").covers(&network("10.1.0.0/16"))
                && !network("10.1.0.0/16").covers(&network("10.0.0.0/8"))
        );
        assert!(!network("0.0.0.0/0").covers(&network("::/0")));
    }

    #[test]
    fn a_network_is_around_each_of_its_addresses() {
        for (address, length, around) in [
            ("192.168.1.7", 24, "192.168.1.0/24"),
            ("10.1.2.3", 32, "10.1.2.3/32"),
            ("10.1.2.3", 99, "10.1.2.3/32"),
            ("10.1.2.3", 0, "0.0.0.0/0"),
            ("fd00:1:2:3::7", 64, "fd00:1:2:3::/64"),
        ] {
            let found = Network::around(address.parse().unwrap(), length);
            assert_eq!(found.to_string(), around);
            assert_eq!(found, network(around));
        }
    }

    #[test]
    fn wrong_networks_say_what_is_right() {
        assert_eq!(
            Network::from_text("10.1.2.3/8"),
            Err(Wrong::Expected("the first address of the network, 10.0.0.0/8".into()))
        );
        assert_eq!(Network::from_text("10.0.0.0/33"), Err(Wrong::Expected("a length of 32 at most".into())));
        assert!(matches!(Network::from_text("::ffff:10.0.0.0/104"), Err(Wrong::Expected(_))));
        assert!(
            ["", "10.0.0", "10.0.0.0/", "10/8", "a/8", "::/x", "::/-1"]
                .iter()
                .all(|wrong| Network::from_text(wrong) == Err(Wrong::Form))
        );
    }
}
