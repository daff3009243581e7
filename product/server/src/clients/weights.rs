//! Clients that count for more than one: many people behind an address, or a proxy.

use std::net::IpAddr;
use std::str::FromStr;

use sched::policy::CLIENT_WEIGHT_MAX;
use thiserror::Error;

/// The weights of the clients of some networks; every other client has a weight of 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientWeights(Vec<ClientWeight>);

/// The weight of each client of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientWeight {
    network: IpAddr,
    length: u32,
    weight: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected a network and a weight from 1 to {CLIENT_WEIGHT_MAX}, for example 192.0.2.0/24=8")]
pub struct ClientWeightError;

impl ClientWeights {
    pub fn new(weights: Vec<ClientWeight>) -> ClientWeights {
        ClientWeights(weights)
    }

    /// The weight of an address: the network with the longest prefix decides, and among equal ones the last.
    pub fn of(&self, address: IpAddr) -> u8 {
        let address = address.to_canonical();
        let found = self.0.iter().filter(|one| one.contains(address)).max_by_key(|one| one.length);
        found.map_or(1, |one| one.weight)
    }
}

impl ClientWeight {
    fn contains(&self, address: IpAddr) -> bool {
        let differs = match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => u128::from(network.to_bits() ^ address.to_bits()) << 96,
            (IpAddr::V6(network), IpAddr::V6(address)) => network.to_bits() ^ address.to_bits(),
            _ => return false,
        };
        differs.leading_zeros() >= self.length
    }
}

impl FromStr for ClientWeight {
    type Err = ClientWeightError;

    fn from_str(text: &str) -> Result<ClientWeight, ClientWeightError> {
        let (network, weight) = text.rsplit_once('=').ok_or(ClientWeightError)?;
        let (address, length) = network.split_once('/').map_or((network, None), |(at, length)| (at, Some(length)));
        let network: IpAddr = address.parse().map_err(|_| ClientWeightError)?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(most), str::parse).ok().filter(|length| *length <= most);
        let weight = weight.parse().ok().filter(|weight| (1..=CLIENT_WEIGHT_MAX).contains(weight));
        let (length, weight) = length.zip(weight).ok_or(ClientWeightError)?;
        Ok(ClientWeight { network, length, weight })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_decides() {
        let texts = ["0.0.0.0/0=2", "198.18.0.0/16=8", "198.18.4.1=100", "198.18.0.0/16=9", "2001:db8::/32=3"];
        let weights = ClientWeights::new(texts.map(|text| text.parse().unwrap()).to_vec());
        let of = |address: &str| weights.of(address.parse().unwrap());
        assert_eq!(["192.0.2.1", "198.18.4.2", "198.18.4.1", "::ffff:198.18.4.1"].map(of), [2, 9, 100, 100]);
        assert_eq!(["2001:db8::1", "2001:db9::1"].map(of), [3, 1]);
        assert_eq!(ClientWeights::default().of("::1".parse().unwrap()), 1);
    }

    #[test]
    fn wrong_weights_are_refused() {
        for wrong in
            ["", "198.18.0.0/16", "198.18.0.0/16=0", "198.18.0.0/16=101", "198.18.0.0/33=2", "host=2", "::/129=2", "=5"]
        {
            assert_eq!(wrong.parse::<ClientWeight>(), Err(ClientWeightError), "{wrong}");
        }
    }
}
