//! Identifies clients by the leading bits of their addresses: a home with IPv6 has a /56, which is 256 networks of 2^64
//! addresses each (RFC 6177).

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

use crate::keys::Form;
use crate::value_forms::{FromText, Wrong};

/// The length of the prefix of IPv4 addresses mapped to IPv6: ::ffff:0:0/96 (RFC 4291 section 2.5.5.2).
const MAPPED_BITS: u32 = 96;

/// The number of leading bits, in either family, that identify a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientPrefix {
    v4_bits: u32,
    v6_bits: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected two lengths in bits, of IPv4 (1 to 32) and IPv6 (1 to 128), for example 32,56")]
pub struct ClientPrefixError;

impl Default for ClientPrefix {
    fn default() -> ClientPrefix {
        ClientPrefix { v4_bits: 32, v6_bits: 56 }
    }
}

impl ClientPrefix {
    /// Returns the bits of this address that identify its client, with all other bits zero. An IPv4 client of an IPv6
    /// socket counts as IPv4.
    pub fn of(self, address: IpAddr) -> u128 {
        let (bits, length) = match address.to_canonical() {
            IpAddr::V4(address) => (address.to_ipv6_mapped().to_bits(), MAPPED_BITS + self.v4_bits),
            IpAddr::V6(address) => (address.to_bits(), self.v6_bits),
        };
        bits & (u128::MAX << (u128::BITS - length))
    }

    /// The number of bits, for IPv4 and for IPv6.
    pub fn bits(self) -> [u8; 2] {
        [self.v4_bits, self.v6_bits].map(|bits| u8::try_from(bits).expect("at most 128"))
    }

    /// Formats an address, or a prefix with its length.
    pub fn show(self, prefix: u128) -> String {
        let address = IpAddr::V6(Ipv6Addr::from_bits(prefix)).to_canonical();
        match (address, if address.is_ipv4() { self.v4_bits } else { self.v6_bits }) {
            (IpAddr::V4(_), 32) | (IpAddr::V6(_), 128) => address.to_string(),
            (_, length) => format!("{address}/{length}"),
        }
    }
}

impl FromStr for ClientPrefix {
    type Err = ClientPrefixError;

    fn from_str(text: &str) -> Result<ClientPrefix, ClientPrefixError> {
        let (v4, v6) = text.split_once(',').ok_or(ClientPrefixError)?;
        let bits = |text: &str, most| text.parse().ok().filter(|bits| (1..=most).contains(bits));
        let (v4_bits, v6_bits) = bits(v4, 32).zip(bits(v6, 128)).ok_or(ClientPrefixError)?;
        Ok(ClientPrefix { v4_bits, v6_bits })
    }
}

impl FromText for ClientPrefix {
    const FORM: Form = Form::ClientPrefix;

    fn from_text(text: &str) -> Result<ClientPrefix, Wrong> {
        text.parse().map_err(|_| Wrong::Form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(prefix: &str, address: &str) -> String {
        let prefix: ClientPrefix = prefix.parse().unwrap();
        prefix.show(prefix.of(address.parse().unwrap()))
    }

    #[test]
    fn an_address_has_the_prefix_of_its_family() {
        for (prefix, address, expected) in [
            ("32,64", "192.0.2.7", "192.0.2.7"),
            ("32,64", "::ffff:192.0.2.7", "192.0.2.7"),
            ("24,64", "192.0.2.7", "192.0.2.0/24"),
            ("1,1", "192.0.2.7", "128.0.0.0/1"),
            ("32,64", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("32,128", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6"),
            ("32,48", "2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
            ("32,64", "::1", "::/64"),
        ] {
            assert_eq!(shown(prefix, address), expected, "{prefix} {address}");
        }
    }

    #[test]
    fn lengths_that_are_none() {
        for text in ["", "32", "32,", "0,64", "33,64", "32,0", "32,129", "32,64,1", "a,b", "32 64"] {
            assert_eq!(text.parse::<ClientPrefix>(), Err(ClientPrefixError), "{text}");
        }
        assert_eq!("32,56".parse(), Ok(ClientPrefix::default()));
    }
}
